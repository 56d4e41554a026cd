//! A judge that runs an agent program as an ordinary task: its process tree ends with it, its time
//! is limited, and leftover processes are found.
//!
//! Limits: the program's stderr is dropped. If it takes its prompt as an argument, the
//! prompt is visible in lists of processes.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Evidence, Judgement};
use super::{Judge, JudgeError, prompt, reply};
use crate::agent::activity::AgentError;
use crate::agent::executor::{Executor, Ids, Role, exec_line};
use crate::agent::stream::Framer;
use crate::base::cancel::Cancel;
use crate::shell::command_line::CommandLine;
use crate::shell::outcome::Outcome;
use crate::task::live::ActiveCall;
use crate::task::live::{LiveState, WaitStep};
use crate::task::registry::TaskHandle;
use crate::task::request::{Request, Stdin};
use crate::task::state::KillRequest;
use crate::task::supervisor::Supervisor;
use crate::text::lines::LinePosition;
use crate::text::redact::Redactor;

/// The program's time limit: agents start slowly and then query a model.
const TIME: Duration = Duration::from_secs(120);
/// How much of its output to read; a reply has only a few lines.
const MAX_OUTPUT: u64 = 1 << 20;
/// The exit code of a shell that did not find the program.
const EXIT_NOT_FOUND: i32 = 127;

/// Describes a class of failure.
fn describe(error: AgentError) -> &'static str {
    match error {
        AgentError::ConnectionRefused => "a refused connection",
        AgentError::AuthFailed => "a failed login",
        AgentError::ApiError => "an error of its endpoint",
        AgentError::ToolError => "an internal error",
    }
}

/// Asks an executor for a judgement.
pub struct CommandJudge {
    executor: Arc<Executor>,
    name: String,
    supervisor: Arc<Supervisor>,
    redactor: Arc<Redactor>,
    time: Duration,
    pending: Mutex<PendingQuestions>,
}

/// Questions that have no answer yet.
#[derive(Default)]
struct PendingQuestions {
    closed: bool,
    cancels: Vec<Weak<Cancel>>,
}

impl CommandJudge {
    /// A judge that asks this executor.
    pub fn new(executor: Arc<Executor>, supervisor: Arc<Supervisor>) -> CommandJudge {
        CommandJudge {
            name: format!("command:{}", executor.name()),
            executor,
            redactor: Arc::clone(&supervisor.settings.redactor),
            supervisor,
            time: TIME,
            pending: Mutex::default(),
        }
    }

    /// Sets another time limit.
    #[must_use]
    pub fn with_time_limit(self, time: Duration) -> CommandJudge {
        CommandJudge { time, ..self }
    }

    /// Begins a question; `None` once the judge is closed.
    fn begin(&self) -> Option<Arc<Cancel>> {
        let mut pending = self.pending.lock();
        if pending.closed {
            return None;
        }
        let cancel = Arc::new(Cancel::default());
        pending.cancels.retain(|cancel| cancel.strong_count() > 0);
        pending.cancels.push(Arc::downgrade(&cancel));
        Some(cancel)
    }

    fn request(&self, prompt: &str, session: &str) -> Request {
        let launch = self.executor.launch(&Ids {
            // Marks the environment as that of a check instead of a run.
            oneshot: "status-check",
            role: Role::Auditor,
            iteration: 1,
            agent_session: &uuid::Uuid::new_v4().to_string(),
            model: None,
            prompt,
            prompt_file: None,
            allow_edits: false,
        });
        Request {
            description: Some("status check".to_owned()),
            part_of: Some(session.to_owned()),
            environment: launch.environment,
            stdin: launch.stdin.map_or(Stdin::Null, Stdin::Text),
            timeout: Some(self.time),
            ..Request::of_own(CommandLine::parse(command_text(&launch.argv)))
        }
    }

    /// Waits for the end of a task and kills its remaining processes.
    fn wait(&self, task: &TaskHandle, cancel: &Cancel) -> Result<(), JudgeError> {
        // The task's own deadline is earlier.
        let limit = Instant::now() + self.time * 2;
        let ended = |state: &LiveState| match state.ended {
            Some(_) => WaitStep::Found(()),
            None => WaitStep::WaitUntil(None),
        };
        let ended = task.live.wait_for(Some(limit), cancel, ended, Instant::now);
        if !task.live.state().closed {
            // A process that cannot be killed is reported as a leftover.
            let _ = self.supervisor.kill(task, KillRequest::Escalate);
        }
        match ended {
            Some(()) => Ok(()),
            None if cancel.is_cancelled() => Err(JudgeError::Closed),
            None => Err(JudgeError::TimedOut(self.time.as_secs())),
        }
    }

    /// The final answer in the program's output, or its own error message.
    fn final_text(&self, stdout: &[u8]) -> Result<String, String> {
        let executor = &self.executor;
        let mut framer = Framer::new(executor.framing());
        let mut records = framer.push(stdout);
        records.extend(framer.finish());
        let mut answer = executor.answer();
        for activity in records.iter().flat_map(|record| executor.classify(record)) {
            answer.add(&activity);
        }
        match (answer.error(), answer.text()) {
            (Some(error), text) => Err(format!("the agent ended with {}: {text}", describe(error))),
            (None, "") => Err("the agent gave no answer".to_owned()),
            (None, text) => Ok(text.to_owned()),
        }
    }

    fn answer(&self, task: &TaskHandle) -> Result<Judgement, JudgeError> {
        let (end, output_end) = {
            let state = task.live.state();
            (state.ended.clone(), state.streams.output.end.offset)
        };
        let code = end.as_ref().map_or(0, |end| end.exit.code());
        if end.is_some_and(|end| end.outcome == Outcome::Timeout) {
            return Err(JudgeError::TimedOut(self.time.as_secs()));
        }
        if code == EXIT_NOT_FOUND {
            let hint = self.executor.install_hint();
            return Err(JudgeError::Unreachable(format!(
                "the program was not found (exit code 127); {hint}"
            )));
        }
        let pieces =
            task.spools.output.read(LinePosition::FIRST, output_end.min(MAX_OUTPUT)).map_err(
                |error| JudgeError::Failed(format!("its output is unreadable: {error}")),
            )?;
        let stdout: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.bytes).collect();
        let answer = self.final_text(&stdout);
        match (answer, code) {
            (Ok(answer), 0) => Ok(reply::parse(&answer)),
            (Ok(_), code) => Err(JudgeError::Failed(format!("it ended with exit code {code}"))),
            (Err(cause), _) => Err(JudgeError::Failed(self.redactor.redact(&cause).into_owned())),
        }
    }
}

impl Judge for CommandJudge {
    fn name(&self) -> &str {
        &self.name
    }

    fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError> {
        let cancel = self.begin().ok_or(JudgeError::Closed)?;
        let prompt = prompt::prompt(evidence, &self.redactor);
        let task = self
            .supervisor
            .start(self.request(&prompt, &evidence.session), None)
            .map_err(|error| JudgeError::Unreachable(error.to_string()))?;
        // No other call reports the task's end.
        let _active_call = ActiveCall::of_started_task(&task.live);
        let waited = self.wait(&task, &cancel);
        task.live.state().mark_end_shown();
        waited?;
        self.answer(&task)
    }

    fn close(&self) {
        let cancels = {
            let mut pending = self.pending.lock();
            pending.closed = true;
            std::mem::take(&mut pending.cancels)
        };
        for cancel in cancels.iter().filter_map(Weak::upgrade) {
            cancel.cancel();
        }
    }
}

/// Drops stderr, which is not part of the answer.
fn command_text(argv: &[String]) -> String {
    format!("{} 2>/dev/null", exec_line(argv))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reaches_the_program_unchanged() {
        let argv = ["claude", "-p", "it's =x ~ $HOME\n`id`", ""].map(str::to_owned);
        assert_eq!(
            command_text(&argv),
            "exec 'claude' '-p' 'it'\\''s =x ~ $HOME\n`id`' '' 2>/dev/null"
        );
    }
}
