//! The git repository of a run's directory: snapshots of its files, the differences between them,
//! and a work tree of the run's own.
//!
//! A snapshot is a tree object like those of commits. Its index and its objects are in the run's
//! directory, so that the repository itself does not change. Untracked files are in it; ignored
//! files and the contents of submodules are not.
//!
//! May touch: git's processes; the run's directory. Limits: git's own programs are run without
//! hooks, pagers, external diffs and monitors, but filters of the repository's configuration apply.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::capture::{self, Limits, RunError};
use crate::process::files::{self, NoProgram, PrivateDirError};
use crate::process::signals::Exit;
use crate::process::spawn::{Launch, StderrTarget, Wiring};
use crate::text::foreign;
use crate::text::lines;

/// How long one command may take: the first snapshot of a large repository reads all its files.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The longest difference, in bytes …
const MAX_DIFF: usize = 16 << 20;
/// … and the longest other answer.
const MAX_ANSWER: usize = 64 << 10;
/// How much of git's error is shown, in characters.
const SAID_CHARS: usize = 200;
/// The directory of runs' work trees in the state directory. They outlive the runs' own files.
pub(crate) const WORK_TREES: &str = "worktrees";
/// The directory of snapshots in a run's directory.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// Programs that a repository's configuration may name are not run, and no advice is given.
const SETTINGS: [&str; 8] = [
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "advice.addEmbeddedRepo=false",
];

/// The variables that git gets: where it and its settings are. Others would move it to another
/// repository, or are none of its business.
const KEPT: [&str; 3] = ["PATH", "HOME", "XDG_CONFIG_HOME"];

/// When a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    BeforeWorker,
    AfterWorker,
    AfterChecks,
    AfterAuditor,
}

/// The files of a run's repository at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub iteration: u32,
    pub moment: Moment,
    /// The id of the tree object.
    pub tree: String,
}

/// A work tree of a run's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkTree {
    /// The repository's main work tree, or the one that the run was started in.
    pub repository: PathBuf,
    pub path: PathBuf,
    pub branch: String,
}

/// A file that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedFile {
    pub(crate) path: PathBuf,
    /// How many lines were added and removed; `None` for binary files.
    pub(crate) lines: Option<(u64, u64)>,
}

/// Why git has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("git {0}")]
    Missing(#[from] NoProgram),
    #[error("git {command}: {source}")]
    Run { command: String, source: RunError },
    #[error("git {command} ended with exit code {code}: {said}")]
    Failed { command: String, code: i32, said: String },
    #[error("git {0} printed too much")]
    TooMuch(String),
    #[error(transparent)]
    Store(#[from] PrivateDirError),
    #[error("cannot copy the repository's index: {0}")]
    Index(io::Error),
    #[error("cannot run git on a thread: {0}")]
    NoThread(io::Error),
}

/// A repository, with the store of a run's snapshots.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    git: PathBuf,
    environment: Vec<(OsString, OsString)>,
    /// The top of its work tree.
    pub(crate) top: PathBuf,
    /// The run's directory below that.
    pub(crate) prefix: PathBuf,
    index: PathBuf,
    objects: PathBuf,
    store: PathBuf,
}

impl Repository {
    /// The repository that a directory is in, with the snapshots in `store`; `None` if it is in
    /// none.
    ///
    /// # Errors
    /// If git is missing or fails.
    pub(crate) fn find(
        directory: &Path,
        store: &Path,
        environment: &[(OsString, OsString)],
    ) -> Result<Option<Repository>, GitError> {
        let path = environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
        let mut environment = environment.to_vec();
        environment.retain(|(name, _)| KEPT.iter().any(|kept| name == kept));
        let fixed = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C")];
        environment.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        let mut repository = Repository {
            git: files::find_program("git", path)?,
            environment,
            top: directory.to_path_buf(),
            prefix: PathBuf::new(),
            index: PathBuf::new(),
            objects: PathBuf::new(),
            store: store.to_path_buf(),
        };
        let asked = ["--path-format=absolute", "--show-toplevel", "--git-path", "index"];
        let asked = asked.into_iter().chain(["--git-path", "objects", "--show-prefix"]);
        let words: Vec<&OsStr> = asked.map(OsStr::new).collect();
        let answer = match repository.git("rev-parse", &words, &[]) {
            Ok(answer) => answer,
            Err(GitError::Failed { said, .. }) if said.contains("not a git repository") => {
                return Ok(None);
            }
            Err(GitError::Failed { said, .. }) if said.contains("must be run in a work tree") => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut lines = answer.split(|byte| *byte == b'\n');
        let mut next = || PathBuf::from(OsString::from_vec(lines.next().unwrap_or(b"").to_vec()));
        repository.top = next();
        repository.index = next();
        repository.objects = next();
        repository.prefix = next();
        Ok(Some(repository))
    }

    /// Takes a snapshot of its files; returns the id of the tree.
    ///
    /// # Errors
    /// If git fails or takes too long.
    pub(crate) fn snapshot(&self) -> Result<String, GitError> {
        files::private_subdir(&self.store)?;
        files::private_subdir(&self.store.join("objects"))?;
        let index = self.store.join("index");
        // With the repository's own index, only files that differ from it are read.
        if !index.exists() && self.index.exists() {
            std::fs::copy(&self.index, &index).map_err(GitError::Index)?;
        }
        let variables = [("GIT_INDEX_FILE", index.as_os_str())];
        let others = self.own_files();
        let words = ["--all", "--ignore-errors", "--", "."].map(OsStr::new);
        let words: Vec<&OsStr> = words.into_iter().chain(others.as_deref()).collect();
        match self.git("add", &words, &variables) {
            // Files that cannot be read are not in the snapshot.
            Ok(_) | Err(GitError::Failed { code: 1, .. }) => {}
            Err(error) => return Err(error),
        }
        let tree = self.git("write-tree", &[], &variables)?;
        Ok(String::from_utf8_lossy(tree.trim_ascii()).into_owned())
    }

    /// What leaves the state directory out, if that is in the work tree.
    fn own_files(&self) -> Option<OsString> {
        // The store is in a run's directory, in that of all runs, in the state directory.
        let state = self.store.ancestors().nth(3)?;
        let below =
            state.strip_prefix(&self.top).ok().filter(|path| !path.as_os_str().is_empty())?;
        let mut pattern = OsString::from(":(exclude,literal)");
        pattern.push(below);
        Some(pattern)
    }

    /// The files that differ between two snapshots.
    ///
    /// # Errors
    /// If git fails, or a snapshot is gone.
    pub(crate) fn changes(&self, from: &str, to: &str) -> Result<Vec<ChangedFile>, GitError> {
        let words = ["--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", from, to];
        let output = self.git("diff", &words.map(OsStr::new), &[])?;
        Ok(output.split(|byte| *byte == 0).filter_map(changed_file).collect())
    }

    /// The difference between two snapshots, as `git diff` prints it, with the contents of binary files
    /// if they are wanted.
    ///
    /// # Errors
    /// If git fails, or a snapshot is gone.
    pub(crate) fn diff(&self, from: &str, to: &str, binary: bool) -> Result<Vec<u8>, GitError> {
        let content = binary.then_some("--binary");
        let words = ["--no-color", "--no-ext-diff", "--no-textconv"].into_iter().chain(content);
        let words: Vec<&OsStr> = words.chain([from, to]).map(OsStr::new).collect();
        self.git("diff", &words, &[])
    }

    /// Whether its work tree has changes that are not committed.
    ///
    /// # Errors
    /// If git fails.
    pub(crate) fn has_changes(&self) -> Result<bool, GitError> {
        let words = ["--porcelain", "--untracked-files=normal"].map(OsStr::new);
        match self.git("status", &words, &[]) {
            Ok(status) => Ok(!status.is_empty()),
            Err(GitError::TooMuch(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Makes a work tree at the current commit, on a new branch.
    ///
    /// # Errors
    /// If git fails: there is no commit, or the branch or the directory exists.
    pub(crate) fn add_work_tree(&self, path: &Path, branch: &str) -> Result<WorkTree, GitError> {
        let words = ["add", "-b", branch, "--"].map(OsStr::new);
        let words: Vec<&OsStr> = words.into_iter().chain([path.as_os_str()]).collect();
        self.git("worktree", &words, &[])?;
        Ok(WorkTree {
            repository: self.top.clone(),
            path: path.to_path_buf(),
            branch: branch.to_owned(),
        })
    }

    /// Runs a command of git and returns its output.
    fn git(
        &self,
        command: &str,
        words: &[&OsStr],
        variables: &[(&str, &OsStr)],
    ) -> Result<Vec<u8>, GitError> {
        let run = |stderr| {
            let room = if command == "diff" { MAX_DIFF } else { MAX_ANSWER };
            let limits = Limits { time: TIME_LIMIT, output: room, daemons: None };
            let launch = self.launch(command, words, variables, stderr);
            let captured = on_own_thread(|| capture::run(launch, &limits))?;
            captured.map_err(|source| GitError::Run { command: command.to_owned(), source })
        };
        // Its warnings are no part of an answer.
        let captured = run(StderrTarget::Nowhere)?;
        match captured.exit {
            Some(Exit::Code(0)) => Ok(captured.output.to_vec()),
            Some(exit) => {
                let again = run(StderrTarget::WithOutput)?;
                let said = String::from_utf8_lossy(&again.output);
                let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                Err(GitError::Failed {
                    command: command.to_owned(),
                    code: exit.code(),
                    said: foreign::shown(&lines::truncate(last, SAID_CHARS)).into_owned(),
                })
            }
            None => Err(GitError::TooMuch(command.to_owned())),
        }
    }

    fn launch(
        &self,
        command: &str,
        words: &[&OsStr],
        variables: &[(&str, &OsStr)],
        stderr: StderrTarget,
    ) -> Launch {
        let mut environment = self.environment.clone();
        let objects = self.store.join("objects");
        if !self.objects.as_os_str().is_empty() && objects.is_dir() {
            environment.push(("GIT_OBJECT_DIRECTORY".into(), objects.into()));
            let others = OsString::from(&self.objects);
            environment.push(("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), others));
        }
        environment.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        let settings = SETTINGS.map(OsString::from).into_iter();
        let words = words.iter().map(|word| word.into());
        Launch {
            program: self.git.clone(),
            args: settings.chain([command.into()]).chain(words).collect(),
            environment,
            directory: self.top.clone(),
            wiring: Wiring::Pipe(stderr),
            group: None,
            sandbox: None,
        }
    }
}

/// Runs this on a thread of its own: the children of the main thread count as adopted, and are reaped
/// by another thread.
fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, GitError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("git".to_owned());
        let thread = thread.spawn_scoped(scope, work).map_err(GitError::NoThread)?;
        thread.join().map_err(|_| GitError::NoThread(io::Error::other("it has panicked")))
    })
}

/// Parses `3\t1\tsrc/main.rs`, a record of `git diff --numstat -z`.
fn changed_file(record: &[u8]) -> Option<ChangedFile> {
    let mut fields = record.splitn(3, |byte| *byte == b'\t');
    let mut count = || std::str::from_utf8(fields.next()?).ok()?.trim_start().parse().ok();
    let lines = count().zip(count());
    let path = record.splitn(3, |byte| *byte == b'\t').nth(2)?;
    Some(ChangedFile { path: OsStr::from_bytes(path).into(), lines })
}

/// `3 files, +10 −2`.
pub(crate) fn summary(changes: &[ChangedFile]) -> String {
    let (added, removed) = changes
        .iter()
        .filter_map(|file| file.lines)
        .fold((0_u64, 0_u64), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
    let files = crate::text::quantity::plural(changes.len(), "file", "files");
    format!("{files}, +{added} −{removed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_changed_files_are_read() {
        let file = |record: &str| changed_file(record.as_bytes());
        assert_eq!(
            file("3\t1\tsrc/a b\tc.rs"),
            Some(ChangedFile { path: "src/a b\tc.rs".into(), lines: Some((3, 1)) })
        );
        assert_eq!(file("-\t-\tx.png"), Some(ChangedFile { path: "x.png".into(), lines: None }));
        assert_eq!(file(""), None);
    }

    #[test]
    fn changes_are_summed_up() {
        let file = |path: &str, lines| ChangedFile { path: path.into(), lines };
        let changes = [file("a", Some((3, 1))), file("b", None), file("c", Some((7, 1)))];
        assert_eq!(summary(&changes), "3 files, +10 −2");
    }
}
