//! `zsh-tool log`: the output of a task of any server, read from its spool files. What would ask or
//! change a person's terminal is left out there, unless they insist.
//!
//! Limits: output that a server keeps only in memory cannot be read.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::output::{self, Output, OutputError, complain};
use super::{on_host, shared, tasks};
use crate::cli::LogArguments;
use crate::process::descriptors::{Interest, Poller};
use crate::process::directory_watch::DirectoryWatch;
use crate::process::files;
use crate::process::kill::Handle;
use crate::process::tree;
use crate::task::journal;
use crate::task::stream::StreamName;
use crate::text::terminal_filter::TerminalFilter;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// How often files are checked when the user has no inotify watches left.
const BLIND_RECHECK: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(arguments: &LogArguments) -> ExitCode {
    let LogArguments { task, follow, stderr, raw, force } = arguments;
    if *raw && !force && io::stdout().is_terminal() {
        complain(
            "--raw is for files and pipes: on a terminal the output may type, set the clipboard \
                  and more; --force prints it all the same",
        );
        return ExitCode::from(output::EXIT_USAGE);
    }
    if let Some((host, task)) = on_host::task_on_host(task) {
        let follow = follow.then_some("--follow");
        let stderr = stderr.then_some("--stderr");
        let words = ["log"].into_iter().chain(follow).chain(stderr).chain([task]);
        return on_host::run(host, &words.map(str::to_owned).collect::<Vec<_>>());
    }
    let (config, _) = shared::load_config();
    let state = match shared::state_directory(&config) {
        Ok(state) => state,
        Err(code) => return code,
    };
    let Some((server, entry)) = tasks::find(state, task) else {
        return ExitCode::FAILURE;
    };
    let stream = if *stderr { StreamName::Errors } else { StreamName::Output };
    if !stderr && entry.output.errors.bytes > 0 {
        complain(format_args!(
            "its stderr is apart: zsh-tool log --stderr {} prints it",
            entry.id()
        ));
    }
    if *stderr && !follow && entry.output.errors.bytes == 0 {
        complain("no stderr was kept apart: it is in the output, unless nothing was written to it");
    }
    let printed = Output::stdout().map_err(OutputError::from).and_then(|output| {
        let output = if *raw { output } else { output.filtered(TerminalFilter::for_record()) };
        let mut log = Log { server: &server, task: entry.id(), stream, output, current: None };
        if *follow { log.follow() } else { log.print() }
    });
    output::conclude(printed, 0)
}

/// A task's output on its way to stdout.
struct Log<'a> {
    server: &'a Path,
    task: &'a str,
    stream: StreamName,
    output: Output,
    /// The number and handle of the file read last. It stays open, so that it can be read to its end
    /// even after its server has removed it.
    current: Option<(u64, File)>,
}

impl Log<'_> {
    /// Prints output that has not been printed yet.
    fn print(&mut self) -> Result<(), OutputError> {
        loop {
            self.print_current()?;
            let Some((number, path)) = self.next_file() else {
                return Ok(());
            };
            // The server begins the next file after it has written the last byte of this one.
            self.print_current()?;
            let expected = self.current.as_ref().map_or(0, |(last, _)| last.saturating_add(1));
            match files::open_private(&path) {
                Ok(file) => {
                    if number > expected {
                        complain(
                            "output is missing here: over the spool's quota \
                             (spool_task_quota, spool_quota)",
                        );
                    }
                    self.current = Some((number, file));
                }
                // The server has just removed it for the quota.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(OutputError::Unreadable(error)),
            }
        }
    }

    fn next_file(&self) -> Option<(u64, PathBuf)> {
        let last = self.current.as_ref().map(|(number, _)| *number);
        journal::output_files(self.server, self.task, self.stream)
            .into_iter()
            .find(|(number, _)| last.is_none_or(|last| *number > last))
    }

    fn print_current(&mut self) -> Result<(), OutputError> {
        let Some((_, file)) = &mut self.current else {
            return Ok(());
        };
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = file.read(&mut buffer).map_err(OutputError::Unreadable)?;
            if count == 0 {
                return Ok(());
            }
            self.output.write(buffer.get(..count).unwrap_or_default())?;
        }
    }

    /// Prints until the task and its leftover processes, their server, or the reader of stdout have
    /// ended.
    fn follow(&mut self) -> Result<(), OutputError> {
        let watch = DirectoryWatch::new(self.server).ok();
        let server = journal::server_pid(self.server)
            .and_then(tree::look_up)
            .and_then(|process| Handle::open(process.id).ok());
        let mut server_ended = false;
        loop {
            if let Some(watch) = &watch {
                watch.drain();
            }
            // Checked before the output is read, so that no output is missed.
            let over = server_ended || self.is_over();
            self.print()?;
            if over {
                return Ok(());
            }
            let mut poller = Poller::default();
            if let Some(watch) = &watch {
                poller.watch(watch.as_fd(), Interest::Read);
            }
            let stdout = io::stdout();
            let reader = poller.watch(stdout.as_fd(), Interest::Hangup);
            let end = server
                .as_ref()
                .and_then(Handle::ended)
                .map(|end| poller.watch(end, Interest::Read));
            poller.wait(watch.is_none().then_some(BLIND_RECHECK));
            server_ended = poller.ready(end);
            if poller.ready(Some(reader)) {
                return Err(OutputError::Closed);
            }
        }
    }

    fn is_over(&self) -> bool {
        let entry = journal::read(self.server, self.task);
        entry.is_none_or(|entry| entry.is_over()) || !journal::server_lives(self.server)
    }
}
