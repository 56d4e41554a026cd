//! What of a git directory decides which programs git runs outside, beyond its own hooks and
//! configuration: those of its submodules and work trees, and where its hooks are.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::seen::Seen;
use crate::process::files;

/// How deep submodules are looked for: their names have slashes, and they have submodules.
const DEPTH: usize = 8;
/// How many paths are added at most: each costs a mount.
const MOST: usize = 500;
/// Git's own configurations are smaller.
const MAX_BYTES: u64 = 64 * 1024;

/// Adds the paths of these parts, as far as they exist, to the list.
pub(super) fn add_parts(git: &Path, seen: &mut Seen, paths: &mut Vec<PathBuf>) {
    let most = paths.len() + MOST;
    let above = git.parent().unwrap_or(git);
    paths.extend(named_in(&git.join("config"), "hookspath").map(|path| above.join(path)));
    add_modules(&git.join("modules"), DEPTH, seen, paths);
    if let Some(worktrees) = seen.resolve(&git.join("worktrees")) {
        let all = seen.directories(&worktrees).into_iter();
        paths.extend(all.map(|worktree| worktree.join("config.worktree")));
    }
    paths.truncate(most);
}

fn add_modules(modules: &Path, depth: usize, seen: &mut Seen, paths: &mut Vec<PathBuf>) {
    // Where there are none, that is noted.
    let Some(modules) = seen.resolve(modules).filter(|_| depth > 0) else { return };
    for module in seen.directories(&modules) {
        if !["HEAD", "config", "hooks"].iter().any(|name| module.join(name).exists()) {
            add_modules(&module, depth - 1, seen, paths);
            continue;
        }
        paths.extend(["hooks", "config", "config.worktree"].map(|name| module.join(name)));
        // The file that leads from the submodule to this.
        let tree = named_in(&module.join("config"), "worktree").map(|path| module.join(path));
        paths.extend(tree.map(|tree| tree.join(".git")));
        add_modules(&module.join("modules"), depth - 1, seen, paths);
    }
}

/// The path that a variable of git's configuration names; its section does not count.
fn named_in(config: &Path, variable: &str) -> Option<PathBuf> {
    let mut text = Vec::new();
    files::open_regular(config).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The last one counts.
    let mut values = text.lines().rev().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (name.trim().eq_ignore_ascii_case(variable) && !value.is_empty()).then_some(value)
    });
    values.next().map(PathBuf::from)
}
