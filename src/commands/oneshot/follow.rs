//! `zsh-tool oneshot follow`: prints the events of a run until the run or its runner ends.
//! It changes nothing.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::{find, words};
use crate::agent::executor::Executors;
use crate::commands::output::{Output, OutputError};
use crate::commands::shared;
use crate::config::Config;
use crate::monitor::runs;
use crate::oneshot::log::{LineKind, LogLine};
use crate::oneshot::log_reader::Follower;
use crate::oneshot::sessions::{self, RunView};
use crate::process::directory_watch::DirectoryWatch;
use crate::process::kill::Handle;

/// Characters of a line that are shown.
const LINE_CHARS: usize = 300;

/// How often the run is checked if its directory or its runner's end cannot be watched, because the
/// runner is in another container or is just ending.
const BLIND_RECHECK: Duration = Duration::from_secs(1);

/// The exit code for a run that has no runner but has not ended.
const EXIT_NOT_OVER: u8 = 1;

/// Runs the command.
pub(super) fn run(config: &Config, id: &str, json: bool) -> Result<ExitCode, ExitCode> {
    let run = find(config, id)?;
    let followed =
        Following::new(&run, config, json).and_then(|mut following| following.print_all());
    Ok(ExitCode::from(followed.unwrap_or_else(|error| error.report())))
}

/// A run whose events are printed.
struct Following<'a> {
    directory: &'a Path,
    log: Follower,
    /// `None` if the user has no inotify watches left.
    watch: Option<DirectoryWatch>,
    output: Output,
    json: bool,
    /// Interprets agents' records; `None` if the configuration is faulty.
    executors: Option<Executors>,
    /// When the run began, Unix seconds.
    begin: f64,
    /// The status in the newest heartbeat.
    status: String,
}

impl<'a> Following<'a> {
    fn new(run: &'a RunView, config: &Config, json: bool) -> Result<Following<'a>, OutputError> {
        let directory = run.directory.as_path();
        Ok(Following {
            directory,
            watch: DirectoryWatch::new(directory).ok(),
            log: Follower::open(directory).map_err(OutputError::Unreadable)?,
            output: Output::stdout()?,
            json,
            executors: shared::executors(config).ok(),
            begin: run.file.history.first().map_or(0.0, |entry| entry.ts),
            status: String::new(),
        })
    }

    /// Prints until the run has no runner any more; returns its exit code.
    fn print_all(&mut self) -> Result<u8, OutputError> {
        loop {
            if let Some(watch) = &self.watch {
                watch.drain();
            }
            // Checked before the log is read, so that no line is missed.
            let seen = sessions::view(self.directory).map_err(unreadable)?;
            self.print_new()?;
            if !seen.live {
                let position = seen.file.position().map_err(unreadable)?;
                return Ok(position.stage.exit_code().unwrap_or(EXIT_NOT_OVER));
            }
            let runner = seen.runner.and_then(|runner| Handle::open(runner).ok());
            let end_is_watched = runner.as_ref().and_then(Handle::ended).is_some();
            let recheck = (!end_is_watched || self.watch.is_none()).then_some(BLIND_RECHECK);
            sessions::wait_for_change(self.watch.as_ref(), runner.as_ref(), recheck);
        }
    }

    fn print_new(&mut self) -> Result<(), OutputError> {
        while let Some(line) = self.log.next_line().map_err(OutputError::Unreadable)? {
            let texts = if self.json {
                vec![serde_json::to_string(&line).unwrap_or_default()]
            } else {
                self.describe(&line)
            };
            for text in texts {
                self.output.write(format!("{text}\n").as_bytes())?;
            }
        }
        Ok(())
    }

    /// The lines for a person; none if there is nothing new.
    fn describe(&mut self, line: &LogLine) -> Vec<String> {
        let contents = match line.kind {
            LineKind::Heartbeat => self.describe_heartbeat(line).into_iter().collect(),
            _ => runs::describe(line, self.executors.as_ref()),
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

    fn describe_heartbeat(&mut self, line: &LogLine) -> Option<String> {
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
