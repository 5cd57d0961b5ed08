//! A server whose parser, cache, sessions and log are subsystems with budgets, and the page that shows
//! what they held while it served. For programs whose memory has to be accounted for by part.
//!
//! `server [PAGE.html]`

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs, mem, thread};

use polyheap_subsystem::{
    Box, HashMap, Recorder, String, Vec, current, enter, registry, report, subsystem,
};

subsystem! {
    /// Requests, taken apart; gone with their answers.
    static PARSER: "parser", max = 16 << 20;
    /// Answers; those nobody asked for lately are forgotten when they are too many.
    static CACHE: "cache", max = 64 << 20, soft_max = 12 << 20;
    /// What is known of clients, in memory that was and will be nobody else's.
    static SESSIONS: "sessions", max = 32 << 20, isolated;
    /// Lines that are not written yet.
    static LOG: "log", max = 8 << 20;
}

const WORKERS: u32 = 4;
const REQUESTS: u32 = 12_000;
const CLIENTS: u32 = 3_001;
const ITEMS: u32 = 20_011;
const LOG_LINES_MAX: usize = 5_000;
const INTERVAL: Duration = Duration::from_millis(5);
/// Requests that a worker answers between two pauses, and how long those last: clients take their time.
const REQUESTS_AT_ONCE: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

type Failure = std::boxed::Box<dyn Error + Send + Sync>;

/// What the threads of the server share.
struct Server {
    answers: Mutex<Answers>,
    sessions: Mutex<HashMap<u32, Session>>,
    lines: Mutex<Vec<String>>,
}

/// Answers by item: those asked for lately, and those of before.
struct Answers {
    young: HashMap<u32, Box<[u8]>>,
    old: HashMap<u32, Box<[u8]>>,
}

struct Session {
    name: String,
    seen: Vec<u32>,
}

/// A request, taken apart.
struct Request {
    client: u32,
    item: u32,
    headers: Vec<(String, String)>,
}

fn main() -> Result<(), Failure> {
    run(env::args_os().nth(1).as_deref(), &mut io::stdout())
}

/// Serves, and writes the table, the page and what was left over.
fn run(page: Option<&OsStr>, out: &mut impl io::Write) -> Result<(), Failure> {
    let recorder = Recorder::new();
    recorder.start(INTERVAL)?;
    let server = serve()?;
    recorder.stop();

    writeln!(out, "{}\n", report())?;
    if let Some(path) = page {
        fs::write(path, report().to_html(&recorder.history()))?;
    }
    server.empty();
    for subsystem in registry().iter() {
        writeln!(out, "{}", subsystem.leaks())?;
    }
    Ok(())
}

/// Has several threads answer all requests.
fn serve() -> Result<Arc<Server>, Failure> {
    let server = Arc::new(Server {
        answers: Mutex::new(Answers { young: CACHE.map(), old: CACHE.map() }),
        sessions: Mutex::new(SESSIONS.map()),
        lines: Mutex::new(LOG.vec()),
    });
    let of_callback = Arc::clone(&server);
    CACHE.on_soft_limit(move |excess| {
        lock(&of_callback.answers).age();
        excess.subsystem.trim();
    });
    let workers: std::vec::Vec<_> = (0..WORKERS)
        .map(|worker| {
            let server = Arc::clone(&server);
            thread::spawn(move || (0..REQUESTS).try_for_each(|turn| answer(&server, worker, turn)))
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")??;
    }
    Ok(server)
}

/// Answers one request: from the cache if it is there.
fn answer(server: &Server, worker: u32, turn: u32) -> Result<(), Failure> {
    if turn.is_multiple_of(REQUESTS_AT_ONCE) {
        thread::sleep(PAUSE);
    }
    let number = turn * WORKERS + worker;
    let text = format!(
        "GET /item/{} client={}\nAccept: text/html\nHost: {worker}.example\nCookie: id={number}",
        number.wrapping_mul(2_654_435_761) % ITEMS,
        number.wrapping_mul(40_503) % CLIENTS
    );
    let Some(request) = enter(&PARSER, || parse(&text)) else { return Err("no request".into()) };
    let length = lock(&server.answers).length_of(request.item);
    meet(server, &request)?;
    let mut line = LOG.string();
    writeln!(line, "{number} client {} item {}: {length} bytes", request.client, request.item)?;
    note(server, line)?;
    Ok(())
}

/// Takes a request apart, in whatever subsystem the caller is.
fn parse(text: &str) -> Option<Request> {
    let mut lines = text.lines();
    let (_, first) = lines.next()?.split_once("/item/")?;
    let (item, client) = first.split_once(" client=")?;
    let mut headers = current().vec();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let word = |text: &str| String::from_str_in(text, current());
        headers.push((word(name), word(value)));
    }
    Some(Request { client: client.parse().ok()?, item: item.parse().ok()?, headers })
}

impl Server {
    /// Frees everything. The callback on the cache's budget owns the server too, so dropping the other
    /// owner would not.
    fn empty(&self) {
        *lock(&self.answers) = Answers { young: CACHE.map(), old: CACHE.map() };
        *lock(&self.sessions) = SESSIONS.map();
        *lock(&self.lines) = LOG.vec();
    }
}

impl Answers {
    /// Returns the length of an answer, which is made if it is not known.
    fn length_of(&mut self, item: u32) -> usize {
        let old = &mut self.old;
        let make = || old.remove(&item).unwrap_or_else(|| page_of(item));
        self.young.entry(item).or_insert_with(make).len()
    }

    /// Forgets what nobody asked for since the last time.
    fn age(&mut self) {
        self.old = mem::replace(&mut self.young, CACHE.map());
    }
}

fn page_of(item: u32) -> Box<[u8]> {
    let mut page = CACHE.vec();
    page.resize(500 + (item % 1_500) as usize, item as u8);
    page.into_boxed_slice()
}

/// Remembers what a client asked for.
fn meet(server: &Server, request: &Request) -> Result<(), Failure> {
    let mut sessions = lock(&server.sessions);
    let session = sessions
        .entry(request.client)
        .or_insert_with(|| Session { name: SESSIONS.string(), seen: SESSIONS.vec() });
    if session.name.is_empty() {
        write!(session.name, "client {}, {} headers", request.client, request.headers.len())?;
    }
    session.seen.push(request.item);
    Ok(())
}

/// Adds a line to the log, and writes it out when it is long.
fn note(server: &Server, line: String) -> io::Result<()> {
    let mut lines = lock(&server.lines);
    lines.push(line);
    if lines.len() == LOG_LINES_MAX {
        lines.iter().try_for_each(|line| io::Write::write_all(&mut io::sink(), line.as_bytes()))?;
        *lines = LOG.vec();
    }
    Ok(())
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process;

    use polyheap_subsystem::polyheap::{heaps, process_stats};

    use super::*;

    /// Returns whether two numbers of bytes are within 5 % of each other.
    fn is_close(one: usize, other: usize) -> bool {
        one.abs_diff(other) * 20 <= one.max(other)
    }

    /// One test at a time: both serve in the same subsystems.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        lock(&ALONE)
    }

    #[test]
    fn report_names_each_subsystem_and_adds_up_to_the_process() {
        let _alone = alone();
        let server = serve().unwrap();
        let report = report();
        let budgets = [("parser", 16), ("cache", 64), ("sessions", 32), ("log", 8)];
        for (name, mib) in budgets {
            let row = report.get(name).unwrap();
            assert_eq!(row.max_bytes, Some(mib << 20), "{name}");
            assert!(row.peak_live_bytes >= row.live_bytes && row.held_bytes > row.live_bytes);
            assert!(row.peak_live_bytes > 0 && row.held_bytes <= mib << 20, "{name}\n{report}");
        }
        assert!(report.get("parser").unwrap().live_blocks == 0, "{report}");
        assert!(report.get("sessions").unwrap().live_blocks >= 2 * CLIENTS as usize, "{report}");

        let kept = process_stats();
        let kept_bytes = kept.warm_region_bytes + kept.mapping_bytes;
        let held: usize = heaps().map(|heap| heap.held_bytes).sum();
        assert!(is_close(report.held_bytes(), held + kept_bytes), "{held} {kept_bytes}\n{report}");
        // There is no other heap, so the subsystems alone are all there is.
        let parts = report.subsystems.iter().map(|row| row.held_bytes);
        assert!(is_close(parts.sum(), held) && report.other_heaps == 0, "{held}\n{report}");
        // What the subsystems have live is what is out of the heaps, but for cached blocks.
        let taken: usize = heaps().map(|heap| heap.taken_bytes).sum();
        let parts = report.subsystems.iter().map(|row| row.live_bytes + row.cached_bytes);
        assert!(is_close(parts.sum(), taken), "{taken}\n{report}");
        server.empty();
    }

    #[test]
    fn example_writes_table_page_and_that_nothing_leaked() {
        let _alone = alone();
        let path = env::temp_dir().join(format!("polyheap-subsystem-{}.html", process::id()));
        let mut out = std::vec::Vec::new();
        run(Some(path.as_os_str()), &mut out).unwrap();
        let page = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let text = std::string::String::from_utf8(out).unwrap();
        assert!(text.starts_with("subsystem") && page.contains("<svg"), "{text}");
        for name in ["parser", "cache", "sessions", "log"] {
            assert!(text.contains(&format!("{name}: 0 blocks, 0 bytes not freed")), "{text}");
            assert!(page.contains(&format!("{name}</th>")), "{name}");
        }
    }
}
