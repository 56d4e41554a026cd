//! What of a git directory decides which programs git runs outside, beyond its own hooks and
//! configuration: those of its submodules and work trees, and where its hooks are.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::seen::Seen;
use crate::process::files;
use crate::text::foreign::ShowPath;

/// How deep submodules are looked for: their names have slashes, and they have submodules.
const DEPTH: usize = 8;
/// How many paths are added at most: each costs a mount. A command could make as many directories as it
/// likes, so more are refused instead of left out.
const MOST: usize = 500;
/// What git makes in each git directory, in which no submodule is looked for. Limits: nor in one that is
/// named so, as `lib/info`.
const OF_GIT: [&str; 8] =
    ["branches", "hooks", "info", "lfs", "logs", "objects", "refs", "worktrees"];
/// Git's own configurations are smaller.
const MAX_BYTES: u64 = 1024 * 1024;

/// Adds the paths of these parts, as far as they exist, to the list.
///
/// # Errors
/// There are too many of them.
pub(super) fn add_parts(git: &Path, seen: &mut Seen, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut parts = Vec::new();
    let above = git.parent().unwrap_or(git);
    let named = ["config", "config.worktree"].map(|name| named_in(&git.join(name), "hookspath"));
    parts.extend(named.into_iter().flatten().map(|path| above.join(path)));
    add_modules(&git.join("modules"), DEPTH, seen, &mut parts)?;
    if let Some(worktrees) = seen.resolve(&git.join("worktrees")) {
        for worktree in seen.directories(&worktrees) {
            parts.push(worktree.join("config.worktree"));
            // The file that leads from the work tree to this.
            let link = files::first_line(&worktree.join("gitdir"));
            parts.extend(link.map(|link| worktree.join(link)));
        }
    }
    paths.append(&mut parts);
    Ok(())
}

fn add_modules(
    modules: &Path,
    depth: usize,
    seen: &mut Seen,
    parts: &mut Vec<PathBuf>,
) -> io::Result<()> {
    // Where there are none, that is noted.
    let Some(modules) = seen.resolve(modules).filter(|_| depth > 0) else { return Ok(()) };
    let is_root = modules.ends_with("modules");
    for module in seen.directories(&modules) {
        if !is_root && OF_GIT.iter().any(|name| module.ends_with(name)) {
            continue;
        }
        let own = ["hooks", "config", "config.worktree"].map(|name| module.join(name));
        parts.extend(own.into_iter().filter(|path| path.symlink_metadata().is_ok()));
        // The file that leads from the submodule to this.
        let trees =
            ["config", "config.worktree"].map(|name| named_in(&module.join(name), "worktree"));
        let links = trees.into_iter().flatten().map(|tree| module.join(tree).join(".git"));
        parts.extend(links.filter(|link| link.is_file()));
        if parts.len() > MOST {
            let text = format!(
                "{} has more than {MOST} parts that must be protected: remove what is no submodule",
                modules.shown()
            );
            return Err(io::Error::other(text));
        }
        // A name may have slashes, and a submodule may have others.
        add_modules(&module, depth - 1, seen, parts)?;
    }
    Ok(())
}

fn read(file: &Path) -> Option<String> {
    let mut text = Vec::new();
    files::open_regular(file).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The path that a variable of the section `core` of git's configuration names. Limits: reads neither
/// included files nor lines that are continued.
fn named_in(config: &Path, variable: &str) -> Option<PathBuf> {
    let text = read(config)?;
    let (mut is_core, mut found) = (false, None);
    for line in text.lines() {
        let mut line = line.trim();
        if let Some((section, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            is_core = section.trim().eq_ignore_ascii_case("core");
            line = rest;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        if is_core && name.trim().eq_ignore_ascii_case(variable) {
            found = Some(unquoted(value)).filter(|value| !value.is_empty());
        }
    }
    let found = found?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match (found.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Some(home.join(rest)),
        _ => Some(PathBuf::from(found)),
    }
}

/// A value without its quotes and without a comment.
fn unquoted(value: &str) -> String {
    let (mut is_quoted, mut text) = (false, String::new());
    let mut all = value.trim().chars();
    while let Some(c) = all.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '\\' => text.extend(all.next()),
            '#' | ';' if !is_quoted => break,
            c => text.push(c),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_however_it_is_written() {
        let folder = tempfile::tempdir().expect("a directory");
        let config = folder.path().join("config");
        for (text, path) in [
            ("[core]\n\thooksPath = hooks\n", Some("hooks")),
            ("[core] hookspath = a\n[core]\nHooksPath=b # why\n", Some("b")),
            ("[core]\n hooksPath = ./\"a b\" ; why\n", Some("./a b")),
            ("[core]\n hooksPath = \"a#b\"\n[other]\n hooksPath = c\n", Some("a#b")),
            ("[alias]\n hooksPath = c\n", None),
            ("[core]\n hooksPath = a\n hooksPath =\n", None),
        ] {
            std::fs::write(&config, text).expect("a file");
            assert_eq!(named_in(&config, "hookspath"), path.map(PathBuf::from), "{text}");
        }
    }
}
