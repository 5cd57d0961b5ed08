//! The main job: a text is read, indexed, queried and reported on by four subsystems, each in a
//! heap of its own. When you would want it: to see which part of a program holds how much memory,
//! and to drop all memory of one part at once.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, mem, thread};

use allocator_api2::vec::Vec;
use hashbrown::{DefaultHashBuilder, HashMap};
use polyheap::{CollectIn, Heap, HeapString, heaps, trim_all};

type Text<'h> = HeapString<&'h Heap>;
type Map<'h, V> = HashMap<Text<'h>, V, DefaultHashBuilder, &'h Heap>;
/// From each word to the lines it stands on, once for each time.
type Index<'h> = Map<'h, Vec<usize, &'h Heap>>;

const SHIPPED_TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/corpus.txt");
const WORKERS: usize = 4;
const CACHED_ANSWERS: usize = 512;
const TOP_WORDS: usize = 8;
const KIB: usize = 1024;

fn main() -> ExitCode {
    let path = env::args_os().nth(1).map_or(SHIPPED_TEXT.into(), PathBuf::from);
    let Err(error) = run(&path) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("subsystems: cannot use {}: {error}", path.display());
    ExitCode::from(2)
}

fn run(path: &Path) -> Result<(), Box<dyn Error>> {
    let named = |name| Heap::builder().name(name).build();
    let [reader, tokenizer, cache, report] = ["reader", "tokenizer", "cache", "report"].map(named);
    let text = read_text(path, &reader)?;
    let lines = text.lines().collect_in::<Vec<_, _>>(&reader);
    let index = build_index(&lines, &tokenizer);
    let caches = answer_queries(&lines, &index, &cache);

    let mut page = report.string();
    write_findings(&mut page, &lines, &index)?;
    write_cache_use(&mut page, &caches)?;
    write_table(&mut page, &[&reader, &tokenizer, &cache, &report])?;
    write_process(&mut page, "with the tokenizer")?;
    mem::forget(index); // No walk over its blocks: they all go with their heap.
    drop(tokenizer);
    trim_all();
    write_process(&mut page, "after its drop")?;
    Ok(io::stdout().write_all(page.as_bytes())?)
}

/// Reader: the whole file as one string.
fn read_text<'h>(path: &Path, heap: &'h Heap) -> Result<Text<'h>, Box<dyn Error>> {
    let file = BufReader::new(File::open(path)?);
    let bytes = file.bytes().collect_in::<Result<Vec<_, _>, _>>(heap)?;
    let text = HeapString::from_utf8(bytes).map_err(|refused| refused.utf8_error())?;
    if text.contains('\0') || words(&text).next().is_none() {
        return Err("it is not a text with words in it".into());
    }
    Ok(text)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty())
}

fn lower_case<'h>(word: &str, heap: &'h Heap) -> Text<'h> {
    word.chars().flat_map(char::to_lowercase).collect_in(heap)
}

/// Runs `work` on several threads, each with a part of the lines and the number of its first.
fn on_threads<R, F>(lines: &[&str], work: F) -> std::vec::Vec<R>
where
    R: Send,
    F: Fn(usize, &[&str]) -> R + Sync,
{
    let (work, part_lines) = (&work, lines.len().div_ceil(WORKERS));
    thread::scope(|scope| {
        let start = |(part, chunk)| scope.spawn(move || work(part * part_lines, chunk));
        let workers: std::vec::Vec<_> = lines.chunks(part_lines).enumerate().map(start).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|cause| resume_unwind(cause)))
            .collect()
    })
}

/// Tokenizer: every thread indexes its lines; the caller merges, and frees what is left over.
fn build_index<'h>(lines: &[&str], heap: &'h Heap) -> Index<'h> {
    let parts = on_threads(lines, |first, part| {
        let mut index = Index::new_in(heap);
        for (number, line) in (first..).zip(part) {
            for word in words(line) {
                index.entry(lower_case(word, heap)).or_insert_with(|| heap.vec()).push(number);
            }
        }
        index
    });
    let mut whole = Index::new_in(heap);
    for (word, places) in parts.into_iter().flatten() {
        whole.entry(word).or_insert_with(|| heap.vec()).extend(places);
    }
    whole
}

/// A thread's answers to "on which line does this word first stand?".
struct Cache<'h> {
    answers: Map<'h, Text<'h>>,
    hits: usize,
    misses: usize,
}

/// Cache: every thread looks up the words of its lines, and forgets all answers when it is full.
fn answer_queries<'h>(
    lines: &[&str],
    index: &Index<'_>,
    heap: &'h Heap,
) -> Vec<Cache<'h>, &'h Heap> {
    let caches = on_threads(lines, |_, part| {
        let mut cache = Cache { answers: Map::new_in(heap), hits: 0, misses: 0 };
        for word in part.iter().flat_map(|line| words(line)).map(|word| lower_case(word, heap)) {
            if cache.answers.contains_key(&word) {
                cache.hits += 1;
                continue;
            }
            cache.misses += 1;
            if cache.answers.len() == CACHED_ANSWERS {
                cache.answers.clear();
            }
            let answer = HeapString::from_str_in(lines[index[&word][0]], heap);
            cache.answers.insert(word, answer);
        }
        cache
    });
    caches.into_iter().collect_in(heap)
}

/// Report: what the index says.
fn write_findings(page: &mut Text<'_>, lines: &[&str], index: &Index<'_>) -> fmt::Result {
    let heap = *page.allocator();
    let counted = index.iter().map(|(word, places)| (places.len(), word));
    let mut ranked = counted.collect_in::<Vec<_, _>>(heap);
    ranked.sort_by_key(|&(count, word)| (usize::MAX - count, word));
    let total: usize = ranked.iter().map(|(count, _)| count).sum();
    writeln!(page, "{} lines, {total} words, {} different", lines.len(), ranked.len())?;
    for (count, word) in ranked.iter().take(TOP_WORDS) {
        writeln!(page, "{count:>8}  {word}")?;
    }
    let longest = lines.iter().map(|line| line.trim()).max_by_key(|line| line.chars().count());
    writeln!(page, "longest line: {}", longest.unwrap_or_default())
}

fn write_cache_use(page: &mut Text<'_>, caches: &[Cache<'_>]) -> fmt::Result {
    let hits: usize = caches.iter().map(|cache| cache.hits).sum();
    let asked = hits + caches.iter().map(|cache| cache.misses).sum::<usize>();
    writeln!(page, "{asked} queries, {}% answered from the cache\n", hits * 100 / asked)
}

fn write_table(page: &mut Text<'_>, subsystems: &[&Heap]) -> fmt::Result {
    writeln!(page, "subsystem    live KiB    blocks  held KiB  cached KiB")?;
    for heap in subsystems {
        let (name, stats) = (heap.name(), heap.stats());
        let bytes = [stats.live_bytes, stats.held_bytes, stats.cached_bytes];
        let [live, held, cached] = bytes.map(|bytes| bytes.div_ceil(KIB));
        writeln!(page, "{name:<11}{live:>10}{:>10}{held:>10}{cached:>12}", stats.live_blocks)?;
    }
    writeln!(page)
}

/// What the process holds now: its heaps, and resident memory where the system has a `/proc`.
fn write_process(page: &mut Text<'_>, moment: &str) -> fmt::Result {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.unwrap_or("unknown").trim();
    writeln!(page, "{moment}: {} heaps, resident memory {resident}", heaps().count())
}
