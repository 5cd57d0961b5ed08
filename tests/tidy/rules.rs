//! The rules of `tidy.rs` that need more than a list of words, each a function from a file's text
//! to what is wrong with it, and the files themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::scan::{ids_in, line_of, spread};

/// Folders and files of `src/` by rank: a room uses its own and lower ranks, same rank included.
const RANKS: [(&str, u8); 13] = [
    ("config", 0),
    ("error", 0),
    ("policy", 0),
    ("base", 0),
    ("guide", 0),
    ("os", 1),
    ("sync", 1),
    ("buffer", 2),
    ("region", 2),
    ("slab", 3),
    ("cache", 4),
    ("heap", 5),
    ("resource", 6),
];
pub(crate) const FILE_LINES_MAX: usize = 600;

pub(crate) struct Source {
    /// Path below `src/`, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// All `.rs` files below a folder of the repository, in order.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let path = entry.path();
            let below = path.strip_prefix(root().join(folder)).unwrap_or(&path);
            let name = below.to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                found.push(Source {
                    text: fs::read_to_string(&path).unwrap_or_default(),
                    path: name,
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

pub(crate) fn room(path: &str) -> &str {
    path.split(['/', '.']).next().unwrap_or_default()
}

pub(crate) fn layer_faults(path: &str, code: &str) -> Vec<String> {
    let rank = |name: &str| RANKS.iter().find(|(room, _)| *room == name).map(|(_, rank)| *rank);
    let mut faults = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let mut paths = Vec::new();
        spread(&mut &code[at + found.len()..], "", &mut paths);
        for used in paths {
            let parts: Vec<&str> = used.split("::").filter(|part| !part.is_empty()).collect();
            let target = parts.first().copied().unwrap_or_default();
            let is_deep =
                parts.len() > 2 && parts[1].starts_with(char::is_lowercase) && target != room(path);
            let rule = match rank(target) {
                None => "name the room that has it, not the crate's face",
                Some(theirs) if Some(theirs) > rank(room(path)) => {
                    "a room uses its own and lower ranks"
                }
                Some(_) if is_deep => "another room is used through its face",
                Some(_) => continue,
            };
            faults.push(format!("src/{path}:{}: crate::{used}: {rule}", line_of(code, at)));
        }
    }
    faults
}

/// Ids cited in `text` that the guide does not list.
pub(crate) fn unknown_ids(path: &str, text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let cited = ids_in(text).into_iter().filter(|(_, id)| !known.contains(id));
    cited
        .map(|(line, id)| format!("src/{path}:{line}: [{id}] is not in src/guide/invariants.md"))
        .collect()
}

pub(crate) fn shape_faults(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//!") {
        faults.push(format!("src/{path}:1: begins without a `//!` header"));
    }
    if text.lines().count() > FILE_LINES_MAX && !path.ends_with("tests.rs") {
        faults.push(format!(
            "src/{path}:{FILE_LINES_MAX}: the file is longer than {FILE_LINES_MAX} lines"
        ));
    }
    faults
}

/// Files that `text` at `path` declares with `mod name;`, both places where each may lie.
pub(crate) fn declared_modules(path: &str, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').map_or(("", path), |(folder, file)| (folder, file));
    let own = if ["mod.rs", "lib.rs"].contains(&file) { "" } else { file.trim_end_matches(".rs") };
    let folder: String = [folder, own]
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| format!("{part}/"))
        .collect();
    let names = text.lines().filter_map(|line| {
        line.trim().strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name)
    });
    names
        .flat_map(|name| [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")])
        .collect()
}
