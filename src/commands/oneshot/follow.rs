//! `zsh-tool oneshot follow`: what goes on in a run, as it goes on, until the run ends or
//! whoever runs it does.
//!
//! Limits: resumes nothing and changes nothing.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::{find, words};
use crate::agent::activity::Activity;
use crate::agent::executor::Executors;
use crate::agent::stream::Record;
use crate::commands::output::{Output, OutputError};
use crate::commands::setup;
use crate::oneshot::log::{Kind, Line};
use crate::oneshot::log_reader::Follower;
use crate::oneshot::salvage;
use crate::oneshot::sessions::{self, RunView};
use crate::process::descriptors::{Interest, Poller};
use crate::process::kill::Handle;
use crate::process::watch_file::DirectoryWatch;

/// How much of a line is shown.
const LINE_CHARS: usize = 300;

/// Of a runner that cannot be seen, another container's or one that is just ending, the end
/// wakes nobody for sure: so often it is asked whether it still holds the run.
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
    watch: DirectoryWatch,
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
            watch: DirectoryWatch::new(directory).map_err(OutputError::Unreadable)?,
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
            self.watch.drain();
            // Asked before the log is read, so that the last of it is not missed.
            let seen = sessions::view(self.directory).map_err(unreadable)?;
            self.print_new()?;
            if !seen.live {
                let position = seen.file.position().map_err(unreadable)?;
                return Ok(position.stage.exit_code().unwrap_or(EXIT_NOT_OVER));
            }
            let runner = seen.runner.and_then(|runner| Handle::open(runner).ok());
            let mut poller = Poller::default();
            poller.watch(self.watch.as_fd(), Interest::Read);
            let end = runner.as_ref().and_then(Handle::ended);
            if let Some(end) = end {
                poller.watch(end, Interest::Read);
            }
            poller.wait(end.is_none().then_some(UNSEEN_PATIENCE));
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
            Kind::Activity => self.describe_activity(line),
            _ => self.describe_event(line).into_iter().collect(),
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

    fn describe_event(&mut self, line: &Line) -> Option<String> {
        Some(match line.kind {
            Kind::StateChange => {
                let change = line.state_change()?;
                let reason = change.reason.map(|reason| format!(" ({reason})"));
                format!("→ {}{}", change.to, reason.unwrap_or_default())
            }
            Kind::Heartbeat => {
                let heartbeat = line.heartbeat()?;
                if heartbeat.status == self.status {
                    return None;
                }
                self.status = heartbeat.status;
                format!("{}: {}", self.status, heartbeat.evidence.join(", "))
            }
            kind => format!("{}: {}", kind.name().replace('_', " "), gist(&line.data)),
        })
    }

    /// What the executor's code makes of a record; of one that it does not know, the text.
    fn describe_activity(&self, line: &Line) -> Vec<String> {
        if let Some(complaint) = line.data.get("stderr").and_then(Value::as_str) {
            return vec![format!("stderr: {complaint}")];
        }
        let executors = self.executors.as_ref();
        let name = line.origin.executor.as_deref();
        let executor = name.and_then(|name| executors?.find(name).ok());
        match executor {
            Some(executor) => {
                let record = salvage::record(&line.data);
                let activities = executor.classify(&record);
                let said: Vec<String> = activities.iter().filter_map(in_words).collect();
                match record {
                    // No record of its format: a message for people.
                    Record::Line(text) if said.is_empty() => vec![text],
                    _ => said,
                }
            }
            None => vec![format!("activity: {}", gist(&line.data))],
        }
    }
}

/// What an agent did, where that is worth a line.
fn in_words(activity: &Activity) -> Option<String> {
    Some(match activity {
        Activity::Text(text) => text.clone(),
        Activity::Reflection(text) => format!("thinks: {text}"),
        Activity::Plan(text) => format!("plans: {text}"),
        Activity::ToolCall { name, argument } => format!("{name}: {argument}"),
        Activity::ToolResult { text, failed: true } => format!("  failed: {text}"),
        Activity::ToolResult { text, .. } => format!("  {text}"),
        Activity::FileWritten { path } => format!("wrote {path}"),
        Activity::Final(last) => match last.error {
            Some(_) => format!("ends with an error: {}", last.text),
            None => format!("ends: {}", last.text),
        },
        _ => return None,
    })
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> OutputError {
    OutputError::Unreadable(std::io::Error::other(error))
}

/// The text of some data, or all of it.
fn gist(data: &Value) -> String {
    let text = ["text", "stderr", "prompt", "reason", "what"]
        .iter()
        .find_map(|key| data.get(key)?.as_str());
    text.map_or_else(|| data.to_string(), str::to_owned)
}
