//! `zsh-tool oneshot follow`: what goes on in a run, as it goes on, until the run ends or
//! whoever runs it does.
//!
//! Limits: resumes nothing and changes nothing.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::{find, words};
use crate::agent::executor::Executors;
use crate::commands::output::{Output, OutputError};
use crate::commands::setup;
use crate::monitor::run_words;
use crate::oneshot::log::{Kind, Line};
use crate::oneshot::log_reader::Follower;
use crate::oneshot::sessions::{self, RunView};
use crate::process::descriptors::{Interest, Poller};
use crate::process::kill::Handle;
use crate::process::watch_file::DirectoryWatch;

/// How much of a line is shown.
const LINE_CHARS: usize = 300;

/// Of a runner that cannot be seen, another container's or one that is just ending, the end
/// wakes nobody for sure, and without a watch nothing does: so often a look is taken.
const UNSEEN_PATIENCE: Duration = Duration::from_secs(1);

/// The exit code of a run that nobody runs and that has not ended.
const EXIT_NOT_OVER: u8 = 1;

/// Runs the command.
pub(super) fn run(id: &str, json: bool) -> ExitCode {
    let run = match find(id) {
        Ok(run) => run,
        Err(code) => return code,
    };
    let followed = Following::new(&run, json).and_then(|mut following| following.print_all());
    match followed {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(error.report()),
    }
}

/// A run on its way to stdout.
struct Following<'a> {
    directory: &'a Path,
    log: Follower,
    /// None where the user's watches have run out.
    watch: Option<DirectoryWatch>,
    output: Output,
    json: bool,
    /// What tells an agent's records; nothing where the configuration is at fault.
    executors: Option<Executors>,
    /// When the run began, Unix seconds.
    begin: f64,
    /// What the newest sign of life said.
    status: String,
}

impl<'a> Following<'a> {
    fn new(run: &'a RunView, json: bool) -> Result<Following<'a>, OutputError> {
        let directory = run.directory.as_path();
        Ok(Following {
            directory,
            watch: DirectoryWatch::new(directory).ok(),
            log: Follower::open(directory).map_err(OutputError::Unreadable)?,
            output: Output::stdout()?,
            json,
            executors: setup::executors(&setup::load_config().0).ok(),
            begin: run.file.history.first().map_or(0.0, |entry| entry.ts),
            status: String::new(),
        })
    }

    /// Prints until nobody runs the run any more; its exit code.
    fn print_all(&mut self) -> Result<u8, OutputError> {
        loop {
            if let Some(watch) = &self.watch {
                watch.drain();
            }
            // Asked before the log is read, so that the last of it is not missed.
            let seen = sessions::view(self.directory).map_err(unreadable)?;
            self.print_new()?;
            if !seen.live {
                let position = seen.file.position().map_err(unreadable)?;
                return Ok(position.stage.exit_code().unwrap_or(EXIT_NOT_OVER));
            }
            let runner = seen.runner.and_then(|runner| Handle::open(runner).ok());
            let mut poller = Poller::default();
            if let Some(watch) = &self.watch {
                poller.watch(watch.as_fd(), Interest::Read);
            }
            let end = runner.as_ref().and_then(Handle::ended);
            if let Some(end) = end {
                poller.watch(end, Interest::Read);
            }
            let all_is_told = end.is_some() && self.watch.is_some();
            poller.wait((!all_is_told).then_some(UNSEEN_PATIENCE));
        }
    }

    fn print_new(&mut self) -> Result<(), OutputError> {
        while let Some(line) = self.log.next_line().map_err(OutputError::Unreadable)? {
            let texts = match self.json {
                true => vec![serde_json::to_string(&line).unwrap_or_default()],
                false => self.describe(&line),
            };
            for text in texts {
                self.output.write(format!("{text}\n").as_bytes())?;
            }
        }
        Ok(())
    }

    /// The lines for a person; none for what says nothing new.
    fn describe(&mut self, line: &Line) -> Vec<String> {
        let contents = match line.kind {
            Kind::Heartbeat => self.describe_heartbeat(line).into_iter().collect(),
            _ => run_words::said(line, self.executors.as_ref()),
        };
        let at = words::between(self.begin, line.ts).as_secs_f64();
        let role = line.origin.role.map_or("", |role| role.name());
        let iteration = line.origin.iteration;
        let iteration = iteration.map_or(String::new(), |number| number.to_string());
        let contents = contents.iter();
        contents
            .map(|content| {
                let content = words::line(content, LINE_CHARS);
                format!("{at:>9.1}s  {role:<7} {iteration:>2}  {content}")
            })
            .collect()
    }

    fn describe_heartbeat(&mut self, line: &Line) -> Option<String> {
        let heartbeat = line.heartbeat()?;
        if heartbeat.status == self.status {
            return None;
        }
        self.status = heartbeat.status;
        let evidence = heartbeat.evidence.join(", ");
        Some(format!("{}: {evidence}", self.status))
    }
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> OutputError {
    OutputError::Unreadable(std::io::Error::other(error))
}
