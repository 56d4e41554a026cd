//! The rules of the house, read off the source text: who may know whom, what is pure,
//! and who may touch the kernel, the database and stdout.
//!
//! The rules themselves, with their reasons, stand in the architecture text of
//! `src/lib.rs`. A new folder or top-level file gets its layer in [`LAYERS`] here.

#![expect(clippy::disallowed_methods, reason = "the paths of tests are plain")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use layering::source::Source;

mod layering {
    pub mod source;
}

/// Each folder or top-level module with its layer: it knows strictly lower ones only.
const LAYERS: &[(&str, u8)] = &[
    ("arbitrary", 0),
    ("base", 0),
    ("text", 1),
    ("shell", 2),
    ("progress", 2),
    ("neverhang", 2),
    ("sandbox", 2),
    ("process", 3),
    ("protocol", 3),
    ("alan", 4),
    ("task", 4),
    ("config", 4),
    ("history", 5),
    ("peer", 5),
    ("agent", 5),
    ("oneshot", 6),
    ("mcp", 7),
    ("monitor", 7),
    ("cli", 2),
    ("commands", 8),
    ("app", 9),
    ("testing", 9),
    ("lib", 10),
    ("main", 10),
];

/// Folders in which each file decides and touches nothing, and therefore says `Pure.`
const PURE_FOLDERS: &[&str] = &["text/", "shell/", "progress/", "sandbox/", "neverhang.rs"];

/// What of the standard library a pure file does without.
const IMPURE_STD: &[&str] = &["fs", "net", "process", "thread", "env"];

/// Clocks, locks and channels, by the words that stand for them.
const IMPURE_WORDS: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "SystemClock",
    "Mutex",
    "RwLock",
    "Condvar",
    "Monitor",
    "mpsc",
    "crossbeam_channel",
    "parking_lot",
];

/// Crates through which the kernel is spoken to.
const KERNEL_CRATES: &[&str] = &["libc", "rustix", "pty_process", "procfs"];

/// Folders in which values are typed, so that JSON does not get there.
const WITHOUT_JSON: &[&str] =
    &["base", "text", "shell", "progress", "sandbox", "neverhang", "process", "task"];

#[test]
fn folders_know_only_strictly_lower_layers() {
    let sources = sources();
    let mut broken = Vec::new();
    for source in &sources {
        let own = layer(source);
        for known in known_files(source, &sources) {
            if known.unit() != source.unit() && layer(known) >= own {
                broken.push(format!(
                    "{} (layer {own}) knows {} (layer {})",
                    source.path,
                    known.path,
                    layer(known)
                ));
            }
        }
    }
    none(&broken);
}

#[test]
fn modules_of_one_folder_do_not_know_each_other_in_circles() {
    let sources = sources();
    let knows: BTreeMap<&str, BTreeSet<&str>> = sources
        .iter()
        .map(|source| {
            let known = known_files(source, &sources)
                .into_iter()
                .filter(|known| known.unit() == source.unit())
                .map(|known| known.path.as_str())
                .collect();
            (source.path.as_str(), known)
        })
        .collect();
    let circles: Vec<String> = knows
        .keys()
        .filter_map(|start| way_back(start, &knows))
        .map(|way| way.join(" -> "))
        .collect();
    none(&circles);
}

#[test]
fn pure_files_take_the_world_as_arguments() {
    let mut broken = Vec::new();
    for source in sources() {
        if PURE_FOLDERS.iter().any(|folder| is_at(&source, folder)) && !source.says_pure {
            broken.push(format!("{} does not say `//! Pure.`", source.path));
        }
        if !source.says_pure {
            continue;
        }
        for path in source.paths_from("std") {
            if path.first().is_some_and(|part| IMPURE_STD.contains(&part.as_str())) {
                broken.push(format!("{} uses std::{}", source.path, path.join("::")));
            }
        }
        for word in IMPURE_WORDS {
            if source.has_word(word) {
                broken.push(format!("{} uses {word}", source.path));
            }
        }
    }
    none(&broken);
}

#[test]
fn only_process_speaks_to_the_kernel() {
    let mut broken = Vec::new();
    for source in sources() {
        if is_at(&source, "process/") {
            continue;
        }
        if source.has_word("unsafe") {
            broken.push(format!("{} has unsafe code", source.path));
        }
        for name in KERNEL_CRATES {
            if source.uses_crate(name) {
                broken.push(format!("{} uses {name}", source.path));
            }
        }
    }
    none(&broken);
}

#[test]
fn only_the_store_and_its_schema_speak_sql() {
    let allowed = ["alan/schema.rs", "alan/schema/", "alan/store.rs", "alan/store/"];
    let broken: Vec<String> = sources()
        .into_iter()
        .filter(|source| !allowed.iter().any(|place| is_at(source, place)))
        .filter(|source| source.uses_crate("rusqlite"))
        .map(|source| format!("{} uses rusqlite", source.path))
        .collect();
    none(&broken);
}

#[test]
fn only_the_commands_write_to_stdout() {
    let mut broken = Vec::new();
    for source in sources() {
        if is_at(&source, "commands/") {
            continue;
        }
        // With empty brackets: `Command::stdout(…)` is about a child's.
        for word in ["stdout()", "print!", "println!"] {
            if source.has_word(word) {
                broken.push(format!("{} uses {word}", source.path));
            }
        }
    }
    none(&broken);
}

#[test]
fn json_values_stop_at_the_faces() {
    let broken: Vec<String> = sources()
        .into_iter()
        .filter(|source| WITHOUT_JSON.contains(&source.unit()))
        .filter(|source| source.uses_crate("serde_json") && source.has_word("Value"))
        .map(|source| format!("{} uses JSON values", source.path))
        .collect();
    none(&broken);
}

#[test]
fn no_async_runtime_comes_in_with_a_dependency() {
    const RUNTIMES: [&str; 4] = ["tokio", "async-std", "smol", "async-executor"];
    let locked = include_str!("../Cargo.lock");
    let names = locked.lines().filter_map(|line| {
        let name = line.strip_prefix("name = \"")?;
        name.strip_suffix('"')
    });
    let broken: Vec<String> = names
        .filter(|name| RUNTIMES.contains(name))
        .map(|name| format!("{name} is an async runtime: threads and blocking calls do here"))
        .collect();
    none(&broken);
}

#[test]
fn what_the_linker_places_apart_exists() {
    let sources = sources();
    let locked = include_str!("../Cargo.lock").replace('-', "_");
    let broken: Vec<String> = include_str!("../data/cold.ld")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("*(.text.*")?.strip_suffix("*)"))
        .filter(|pattern| {
            let path: Vec<_> = pattern.split('*').collect();
            match path.as_slice() {
                ["zsh_tool", module @ ..] => !sources.iter().any(|source| source.module == module),
                ["core", ..] => false,
                // A short name has its length before it, as in symbols; a package may put its
                // family's name before that of its crate.
                _ => {
                    let name = pattern.trim_start_matches(char::is_numeric);
                    !locked.contains(&format!("{name}\"\n"))
                }
            }
        })
        .map(|pattern| format!("data/cold.ld: nothing is named {pattern}"))
        .collect();
    none(&broken);
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = Source::read_all(&root);
    assert!(!sources.is_empty(), "no sources below {}", root.display());
    sources
}

fn layer(source: &Source) -> u8 {
    LAYERS
        .iter()
        .find(|(unit, _)| *unit == source.unit())
        .map(|(_, layer)| *layer)
        .unwrap_or_else(|| panic!("{} has no layer: give it one in LAYERS", source.path))
}

/// The files whose modules this one names: for each path the deepest module of it, which
/// twins have both.
fn known_files<'a>(source: &Source, sources: &'a [Source]) -> Vec<&'a Source> {
    source
        .own_paths()
        .iter()
        .flat_map(|path| {
            let known = |known: &&Source| path.starts_with(&known.module);
            let deepest = sources.iter().filter(known).map(|known| known.module.len());
            let deepest = deepest.max().unwrap_or(0);
            sources.iter().filter(known).filter(move |known| known.module.len() == deepest)
        })
        .filter(|known| known.module != source.module)
        .collect()
}

/// A way from this module back to itself, if there is one.
fn way_back<'a>(
    start: &'a str,
    knows: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        let here = way.last().copied().unwrap_or(start);
        for next in knows.get(here).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push(next);
            if *next == start {
                return Some(longer);
            }
            if seen.insert(*next) {
                ways.push(longer);
            }
        }
    }
    None
}

/// Whether it is this file or, for a name that ends in `/`, below this folder.
fn is_at(source: &Source, place: &str) -> bool {
    source.path == place || (place.ends_with('/') && source.path.starts_with(place))
}

fn none(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
