//! What servers leave when they end: the files of their tasks, from which later servers of this
//! user answer, and a record of the end itself.
//!
//! A server's directory stays as it is; only the record is added, by the server or, if that was
//! killed, by its guard. The server's end interrupted every task whose file has no outcome.
//! Directories are removed when their time is up. If together they exceed the quota of one server,
//! the oldest are removed sooner. Limits: handles files only; [`recall`](super::recalled) makes tasks of
//! them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::journal::{self, LOCK, MAX_ENTRY_BYTES, entry_path, is_being_created};
use super::live::End;
use super::snapshot::Snapshot;
use crate::process::files::{self, FileLock};
use crate::process::removal;
use crate::process::signals::{Exit, Signal};
use crate::shell::outcome::Outcome;
use crate::text::foreign::ShowPath;

/// The record of a server's end.
const RECORD: &str = "ended";
/// The log of evicted tasks: their files, one per line.
const EVICTED: &str = "evicted";
/// The previous log of evicted tasks, which was full.
const EVICTED_BEFORE: &str = "evicted.before";
/// The extension of the file that marks the end of a task as reported.
const REPORTED: &str = "reported";
/// The maximum size of the log: about 2,000 tasks.
const EVICTED_BYTES: u64 = 1024 * 1024;
/// How long a directory that is still being created is left alone.
const MAKING: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerEnd {
    /// Unix seconds.
    pub at: f64,
    pub cause: EndCause,
    /// Processes that outlived it and were killed by its guard, with their exit codes.
    pub exits: Vec<(i32, i32)>,
    /// How many bytes of output its directory holds.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndCause {
    /// Its client closed the connection, or a signal asked it to end.
    CleanExit,
    /// A signal with this number killed it.
    Signal(i32),
    /// It failed with this exit code.
    Code(i32),
    /// Unknown: its guard was killed as well, or the machine stopped.
    Unknown,
}

impl From<Exit> for EndCause {
    fn from(exit: Exit) -> EndCause {
        match exit {
            Exit::Code(code) => EndCause::Code(code),
            Exit::Signal(number) => EndCause::Signal(number),
        }
    }
}

/// A task that an ended server has left, or that a living one has evicted.
#[derive(Debug, Clone)]
pub(crate) struct Remains {
    pub(crate) directory: PathBuf,
    /// The task, ended.
    pub(crate) task: Snapshot,
    /// How its server ended; `None` if it is alive.
    pub(crate) past: Option<ServerEnd>,
}

impl ServerEnd {
    /// Whether the server exited cleanly.
    pub fn is_clean(&self) -> bool {
        self.cause == EndCause::CleanExit
    }

    /// Writes the record. Without it the end is known only by the files' times.
    pub fn write(&self, directory: &Path) {
        let path = directory.join(RECORD);
        if let Err(error) = journal::write_json(&path, self) {
            tracing::warn!("cannot write {}: {error}", path.shown());
        }
    }

    fn read(directory: &Path) -> Option<ServerEnd> {
        let text = files::read_private(&directory.join(RECORD), MAX_ENTRY_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The presumed end of a server without a record: it was alive when its newest file was
    /// written.
    fn guess(directory: &Path) -> ServerEnd {
        let (mut newest, mut bytes) = (SystemTime::UNIX_EPOCH, 0);
        for found in files::entries(directory).filter_map(|file| file.metadata().ok()) {
            newest = found.modified().map_or(newest, |time| time.max(newest));
            bytes += found.len();
        }
        ServerEnd { at: unix_seconds(newest), cause: EndCause::Unknown, exits: Vec::new(), bytes }
    }
}

/// Records the end of a server that has not done so itself, and removes what only that server
/// could use, such as a script that contains a command's text. Removes the directory if it
/// contains no task.
pub(crate) fn conclude(directory: &Path, cause: EndCause, reaped: &[(i32, Exit)]) {
    if ServerEnd::read(directory).is_some() {
        return;
    }
    let (kept, unused): (Vec<PathBuf>, Vec<PathBuf>) =
        files::entries(directory).map(|file| file.path()).partition(|path| is_kept(path));
    for path in unused {
        // The files of sandboxed tasks are in a directory, with their temporary ones.
        let _ = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => removal::remove_tree(&path),
            _ => std::fs::remove_file(path),
        };
    }
    if kept.iter().all(|path| path.ends_with(LOCK)) {
        remove(directory);
        return;
    }
    let guess = ServerEnd::guess(directory);
    let end = match cause {
        EndCause::Unknown => guess,
        cause => ServerEnd {
            at: unix_seconds(SystemTime::now()),
            cause,
            exits: (reaped.iter().map(|(pid, exit)| (*pid, exit.code()))).collect(),
            ..guess
        },
    };
    end.write(directory);
}

/// Whether a file of a server's directory is of use to others.
fn is_kept(path: &Path) -> bool {
    let is_output = |extension: &str| extension.parse::<u64>().is_ok();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) => {
            let is_known = ["json", REPORTED].contains(&extension);
            is_known || is_output(extension) || path.ends_with(EVICTED_BEFORE)
        }
        None => path.ends_with(LOCK) || path.ends_with(EVICTED),
    }
}

/// The tasks of one server for lists, in no order: all of a living one, and of ended ones those
/// that were detached.
pub(crate) fn listed(directory: &Path) -> Vec<Snapshot> {
    if journal::server_lives(directory) {
        return journal::read_server(directory);
    }
    if !journal::is_shim(directory) {
        return Vec::new();
    }
    let entries = journal::read_server(directory).into_iter();
    entries.filter_map(|task| read(directory, task.id())).collect()
}

/// Removes the directories of servers that ended longer ago than `keep`, and the oldest beyond
/// `quota` bytes. Does not follow links, whose targets are not ours.
pub(crate) fn sweep(state: &Path, keep: Duration, quota: u64) {
    let servers = journal::servers_folder(state);
    if servers.is_symlink() {
        return;
    }
    let now = SystemTime::now();
    let mut ended = Vec::new();
    for entry in files::entries(&servers) {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // Without testing its lock: a server that takes it at that moment would fail.
        if is_being_created(&path) {
            let made = entry.metadata().and_then(|found| found.modified());
            if !made.is_ok_and(|made| now.duration_since(made).unwrap_or_default() < MAKING) {
                remove(&path);
            }
            continue;
        }
        if journal::server_lives(&path) {
            continue;
        }
        // Without taking its lock: other servers may be answering from it.
        conclude(&path, EndCause::Unknown, &[]);
        if let Some(end) = ServerEnd::read(&path) {
            ended.push((end, path));
        }
    }
    ended.sort_by(|(a, _), (b, _)| b.at.total_cmp(&a.at));
    let mut total_bytes: u64 = 0;
    for (end, path) in ended {
        total_bytes = total_bytes.saturating_add(end.bytes);
        // After a clock was set back, an end may be in the future.
        let age = (unix_seconds(now) - end.at).abs();
        if age >= keep.as_secs_f64() || total_bytes > quota {
            remove(&path);
        }
    }
}

/// Removes a directory whose server has ended. The lock is released with the handle; a living
/// server holds its own.
fn remove(directory: &Path) {
    if let Ok(Some(_lock)) = FileLock::try_take(&directory.join(LOCK))
        && let Err(error) = removal::remove_tree(directory)
    {
        tracing::debug!("cannot remove {}: {error}", directory.shown());
    }
}

/// Moves the file of an evicted task into the log of evicted tasks.
pub(crate) fn note_evicted(directory: &Path, task: &str) {
    let file = entry_path(directory, task);
    let log = directory.join(EVICTED);
    let noted = files::read_private(&file, MAX_ENTRY_BYTES).and_then(|mut text| {
        text.push(b'\n');
        let mut log_file = files::append_private(&log)?;
        std::io::Write::write_all(&mut log_file, &text)?;
        if log_file.metadata()?.len() > EVICTED_BYTES {
            std::fs::rename(&log, directory.join(EVICTED_BEFORE))
        } else {
            Ok(())
        }
    });
    if let Err(error) = noted {
        tracing::debug!("cannot log the evicted task {task}: {error}");
    }
    let _ = std::fs::remove_file(file);
}

fn evicted(directory: &Path, task: &str) -> Option<Snapshot> {
    [EVICTED, EVICTED_BEFORE].iter().find_map(|name| {
        let text = files::read_private(&directory.join(name), MAX_ENTRY_BYTES).ok()?;
        let mut lines = text.split(|byte| *byte == b'\n').rev();
        lines.find_map(|line| {
            // Most lines are about other tasks: they are not parsed.
            memchr::memmem::find(line, task.as_bytes())?;
            let found: Snapshot = serde_json::from_slice(line).ok()?;
            (found.id() == task).then_some(found)
        })
    })
}

/// The remains of a task of an ended server, or of a task that the server `instance` has evicted.
pub(crate) fn find(state: &Path, instance: &str, task: &str) -> Option<Remains> {
    if !journal::is_task_id(task) {
        return None;
    }
    journal::servers(state).into_iter().find_map(|directory| {
        if directory.ends_with(instance) {
            // In this order: the file may become part of the log meanwhile.
            let has_ended = |task: &Snapshot| task.ended.is_some();
            let left = journal::read(&directory, task).filter(has_ended);
            // A file that could not be written any more tells nothing of the end.
            let task = left.or_else(|| evicted(&directory, task).filter(has_ended))?;
            return Some(Remains { directory, task, past: None });
        }
        let task = journal::read(&directory, task).or_else(|| evicted(&directory, task))?;
        (!journal::server_lives(&directory)).then(|| after_server_end(directory, task))
    })
}

/// Reads one task from a server's directory. If the server has ended, an unfinished task counts as
/// interrupted.
pub(crate) fn read(directory: &Path, task: &str) -> Option<Snapshot> {
    let task = journal::read(directory, task)?;
    if journal::server_lives(directory) {
        Some(task)
    } else {
        Some(after_server_end(directory.to_path_buf(), task).task)
    }
}

/// A task after its server's end: an unfinished one counts as interrupted.
fn after_server_end(directory: PathBuf, mut task: Snapshot) -> Remains {
    let server = ServerEnd::read(&directory).unwrap_or_else(|| ServerEnd::guess(&directory));
    let pid = task.facts.shell.pid;
    let exit = (server.exits.iter()).find_map(|(known, code)| (*known == pid).then_some(*code));
    if task.running() {
        let lasted = Duration::try_from_secs_f64(server.at - task.started());
        task.ended = Some(End {
            exit: exit.map_or(Exit::Signal(Signal::Kill.number()), Exit::Code),
            exit_assumed: exit.is_none(),
            outcome: Outcome::Interrupted,
            duration: lasted.unwrap_or_default(),
            pipestatus: Vec::new(),
            moved_to: None,
            output_cut: false,
            cost: None,
            over_memory: None,
        });
    }
    task.leftovers.clear();
    Remains { past: Some(server), directory, task }
}

/// Claims the report of a detached task's end; returns whether the caller is the first.
pub(crate) fn claim_report(directory: &Path, task: &str) -> bool {
    files::create_private(&report_path(directory, task)).is_ok()
}

/// Gives up the claim: the report was lost.
pub(crate) fn return_report(directory: &Path, task: &str) {
    let _ = std::fs::remove_file(report_path(directory, task));
}

fn report_path(directory: &Path, task: &str) -> PathBuf {
    directory.join(task).with_extension(REPORTED)
}

fn unix_seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}
