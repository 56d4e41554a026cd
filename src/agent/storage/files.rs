//! Finds the files of an agent's storage by patterns and reads them within limits.
//!
//! Follows links only within the storage, and opens no pipes or devices.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::process::files::open_regular;

/// How much of a file to read: the end of a longer file, from its first complete line on.
pub(super) const MAX_READ: u64 = 64 << 20;

/// How many names below a root to examine.
const MAX_NAMES: usize = 50_000;

/// How many characters of an id some programs put into a file's name.
const SHORT_ID: usize = 8;
/// How many bytes of such a file are searched for the whole id.
const HEAD: usize = 4_096;

/// The coarsest time of a file.
const COARSE: Duration = Duration::from_secs(2);

/// Where to look for an agent's conversation.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// The user's home directory.
    pub home: &'a Path,
    /// The directory in which the agent was started.
    pub directory: &'a Path,
    /// The agent's own session, assigned at its start or named by the agent.
    pub agent_session: Option<&'a str>,
    /// When the agent was started.
    pub since: SystemTime,
    /// The agent's environment at its start.
    pub environment: &'a [(OsString, OsString)],
}

impl Reference<'_> {
    /// Whether the agent was started in that directory, whatever path names it.
    pub(super) fn is_directory(&self, known: &Path) -> bool {
        known == self.directory
            || match (known.canonicalize(), self.directory.canonicalize()) {
                (Ok(known), Ok(own)) => known == own,
                _ => false,
            }
    }

    /// The directories of a root: `$VARIABLE/…`, `~/…`, or `.` for the directory and the repository
    /// that contains it. Empty if the variable is not set.
    fn directories(&self, root: &str) -> Vec<PathBuf> {
        if let Some(rest) = root.strip_prefix('$') {
            let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
            let value = self.variable(name).map(|value| self.directory.join(value));
            let path = value.map(|value| match rest {
                "" => value,
                rest => value.join(rest),
            });
            return path.into_iter().collect();
        }
        if let Some(rest) = root.strip_prefix("~/") {
            return vec![self.home.join(rest)];
        }
        let mut above = self.directory.ancestors();
        let repository = above.find(|path| path.join(".git").exists());
        let mut directories = vec![self.directory.to_path_buf()];
        directories
            .extend(repository.filter(|path| *path != self.directory).map(Path::to_path_buf));
        directories
    }

    /// The last value of a variable, unless it is empty.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        let mut entries = self.environment.iter().rev();
        let (_, value) = entries.find(|(known, _)| known == name)?;
        (!value.is_empty()).then_some(value)
    }
}

/// A file of the storage.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) modified: SystemTime,
}

impl FoundFile {
    /// Whether it may have been written at this time or later. Some file systems store whole seconds,
    /// FAT pairs of them.
    pub(super) fn may_be_written_since(&self, since: SystemTime) -> bool {
        let at = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let slack = if at.subsec_nanos() == 0 { COARSE } else { Duration::ZERO };
        self.modified.checked_add(slack).is_none_or(|latest| latest >= since)
    }

    /// Its text, if it belongs to this session.
    pub(super) fn text_of_session(&self, id: &str) -> Option<String> {
        let short = id.get(..SHORT_ID)?;
        let own = [self.path.file_name(), self.path.parent()?.file_name()];
        let mut names = own.into_iter().flatten().map(OsStr::to_string_lossy);
        if names.clone().any(|name| name.contains(id)) {
            return self.text().ok();
        }
        if !names.any(|name| name.contains(short)) {
            return None;
        }
        let text = self.text().ok()?;
        let head = text.get(..text.floor_char_boundary(HEAD))?;
        head.contains(id).then_some(text)
    }

    /// Its text, or the end of its text.
    pub(super) fn text(&self) -> io::Result<String> {
        let mut file = open_regular(&self.path)?;
        let length = file.metadata()?.len();
        let is_cut = length > MAX_READ;
        if is_cut {
            file.seek(SeekFrom::Start(length - MAX_READ))?;
        }
        let mut bytes = Vec::new();
        file.take(MAX_READ).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(match text.split_once('\n') {
            Some((_, rest)) if is_cut => rest.to_owned(),
            _ => text.into_owned(),
        })
    }
}

/// The files that match the patterns below the first root that is set. If the root is a file, only
/// that file.
pub(super) fn find(
    roots: &[String],
    patterns: &[String],
    reference: &Reference<'_>,
) -> Vec<FoundFile> {
    let directories = roots.iter().map(|root| reference.directories(root));
    let directories = directories.into_iter().find(|directories| !directories.is_empty());
    let mut names_left = MAX_NAMES;
    let mut found = Vec::new();
    for path in directories.unwrap_or_default() {
        let Ok(root) = path.canonicalize() else {
            continue;
        };
        if root.is_file() {
            found.extend(within(&root, &root));
            continue;
        }
        for pattern in patterns {
            let paths = expand(&root, pattern, &mut names_left);
            found.extend(paths.into_iter().filter_map(|path| within(&root, &path)));
        }
    }
    found
}

fn expand(root: &Path, pattern: &str, names_left: &mut usize) -> Vec<PathBuf> {
    let mut paths = vec![root.to_path_buf()];
    for part in pattern.split('/') {
        paths = paths.into_iter().flat_map(|path| matching(path, part, names_left)).collect();
    }
    paths
}

/// The entries of a directory that match a name or pattern.
fn matching(directory: PathBuf, pattern: &str, names_left: &mut usize) -> Vec<PathBuf> {
    if !pattern.contains('*') {
        return vec![directory.join(pattern)];
    }
    let Ok(entries) = fs::read_dir(&directory) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for entry in entries.flatten() {
        *names_left = names_left.saturating_sub(1);
        if *names_left == 0 {
            break;
        }
        let name = entry.file_name();
        if matches(&name.to_string_lossy(), pattern) {
            paths.push(directory.join(name));
        }
    }
    paths
}

/// Whether a name matches a pattern, in which `*` is any text.
fn matches(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        match name.split_once(part) {
            Some((_, rest)) => name = rest,
            None => return false,
        }
    }
    true
}

/// A regular file within the storage, after resolving links.
fn within(root: &Path, path: &Path) -> Option<FoundFile> {
    let path = path.canonicalize().ok()?;
    let found = fs::metadata(&path).ok()?;
    let is_own = path.starts_with(root) && found.is_file();
    let modified = found.modified().ok()?;
    is_own.then_some(FoundFile { path, modified })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (name, pattern, expected) in [
            ("a.jsonl", "*.jsonl", true),
            ("a.json", "*.jsonl", false),
            ("rollout-x.jsonl", "rollout-*.jsonl", true),
            ("x-rollout-.jsonl", "rollout-*.jsonl", false),
            ("1.messages.json", "*.messages.json", true),
            ("a.json", "*.json*", true),
            ("a.jsonl", "*.json*", true),
            ("a", "*", true),
            ("ab", "a*b", true),
            ("a", "a*a", false),
        ] {
            assert_eq!(matches(name, pattern), expected, "{name} {pattern}");
        }
    }
}
