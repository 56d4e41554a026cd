//! Finds the checked-out commit by reading the repository's files: running git for each command
//! would take longer than most commands.

use std::fs;
use std::path::{Path, PathBuf};

/// How many directories to search, upwards from the start.
const LEVELS: usize = 64;
/// The longest file to read; git's own are short.
const MAX_BYTES: u64 = 4 * 1024;
/// The longest file of packed references to read.
const MAX_PACKED_BYTES: u64 = 1024 * 1024;

/// The checked-out commit of this directory's repository, as 40 or 64 hex digits. `None` outside
/// a repository, before the first commit, and if references are stored in another format.
pub(crate) fn head(directory: &Path) -> Option<String> {
    let git = directory
        .ancestors()
        .take(LEVELS)
        .find_map(|directory| git_directory(&directory.join(".git")))?;
    let head = read(&git.join("HEAD"), MAX_BYTES)?;
    let Some(reference) = head.strip_prefix("ref: ") else {
        return commit(&head);
    };
    if reference.split('/').any(|part| part == "..") || reference.starts_with('/') {
        return None;
    }
    // An added worktree shares the references of the main one.
    let common = read(&git.join("commondir"), MAX_BYTES).map(|common| git.join(common));
    [Some(&git), common.as_ref()].into_iter().flatten().find_map(|git| resolve(git, reference))
}

/// The repository's directory. In an added worktree or a submodule `.git` is a file that names it.
fn git_directory(path: &Path) -> Option<PathBuf> {
    if fs::metadata(path).ok()?.is_dir() {
        return Some(path.to_owned());
    }
    let named = read(path, MAX_BYTES)?;
    Some(path.parent()?.join(named.strip_prefix("gitdir: ")?))
}

fn resolve(git: &Path, reference: &str) -> Option<String> {
    if let Some(text) = read(&git.join(reference), MAX_BYTES) {
        return commit(&text);
    }
    let packed = read(&git.join("packed-refs"), MAX_PACKED_BYTES)?;
    packed.lines().find_map(|line| {
        let (hash, name) = line.split_once(' ')?;
        (name == reference).then(|| commit(hash))?
    })
}

fn commit(text: &str) -> Option<String> {
    let is_hash = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}

fn read(path: &Path, max_bytes: u64) -> Option<String> {
    let facts = fs::metadata(path).ok()?;
    if !facts.is_file() || facts.len() > max_bytes {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "0123456789abcdef0123456789abcdef01234567";
    const SECOND: &str = "fedcba9876543210fedcba9876543210fedcba98";

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn the_commit_is_found_from_below_loose_packed_and_detached() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path();
        let below = root.join("a/b");
        fs::create_dir_all(&below).expect("made");
        assert_eq!(head(&below), None, "no repository");
        write(root.join(".git/HEAD"), "ref: refs/heads/main\n");
        assert_eq!(head(&below), None, "before the first commit");
        let packed = format!("# pack-refs with: peeled\n{FIRST} refs/heads/main\n^{SECOND}\n");
        write(root.join(".git/packed-refs"), &packed);
        assert_eq!(head(&below).as_deref(), Some(FIRST));
        write(root.join(".git/refs/heads/main"), &format!("{SECOND}\n"));
        assert_eq!(head(&below).as_deref(), Some(SECOND), "loose goes before packed");
        write(root.join(".git/HEAD"), &format!("{FIRST}\n"));
        assert_eq!(head(&below).as_deref(), Some(FIRST), "detached");
    }

    #[test]
    fn an_added_worktree_has_its_own_head_and_common_references() {
        let scratch = tempfile::tempdir().expect("a directory");
        let main = scratch.path().join("main/.git");
        let own = main.join("worktrees/side");
        write(main.join("refs/heads/side"), FIRST);
        write(own.join("HEAD"), "ref: refs/heads/side\n");
        write(own.join("commondir"), "../..\n");
        let side = scratch.path().join("side");
        write(side.join(".git"), &format!("gitdir: {}\n", own.to_string_lossy()));
        assert_eq!(head(&side).as_deref(), Some(FIRST));
    }

    #[test]
    fn other_directories_have_no_commit() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path();
        write(root.join("outside"), FIRST);
        for head_text in ["ref: ../outside", "ref: /etc/passwd", "garbage", ""] {
            write(root.join(".git/HEAD"), head_text);
            assert_eq!(head(root), None, "{head_text}");
        }
    }
}
