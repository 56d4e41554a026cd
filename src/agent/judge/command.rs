//! The judge behind an agent program's command line, run as a task like any other: its
//! tree is ended with it, its time is limited, and what it leaves behind is found.
//!
//! Limits: what the program prints on stderr is dropped. A program that takes its prompt
//! as an argument shows it to whoever may list processes.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::evidence::{Evidence, Judgement};
use super::{Judge, JudgeError, prompt, reply};
use crate::agent::activity::AgentError;
use crate::agent::executor::{Executor, Executors, Ids, Launch, Role, UnknownExecutor};
use crate::agent::stream::Framer;
use crate::task::attendance::Attendance;
use crate::task::live::{Cancel, Look, State};
use crate::task::registry::TaskHandle;
use crate::task::request::{Request, Stdin};
use crate::task::state::KillOrder;
use crate::task::supervisor::Supervisor;
use crate::text::lines::Place;
use crate::text::redact::Redactor;

/// How long the program may take; an agent starts slowly, and then asks a model.
const TIME: Duration = Duration::from_secs(120);
/// What is read of its output; a reply is a line, its stream a few.
const MAX_OUTPUT: u64 = 1 << 20;
/// What a shell reports for a program that is not there.
const EXIT_NOT_FOUND: i32 = 127;

/// A program that can be asked.
pub trait Program: Send + Sync {
    /// Its name, as the configuration has it.
    fn name(&self) -> &str;

    /// How it is started with this prompt.
    fn launch(&self, prompt: &str) -> Launch;

    /// Its final answer out of what it printed, or what went wrong in its own words.
    ///
    /// # Errors
    /// When there is no answer in it.
    fn answer(&self, stdout: &[u8]) -> Result<String, String>;

    /// What to do where it is missing.
    fn install_hint(&self) -> String;
}

/// An executor, asked for a judgement instead of work.
pub struct ExecutorProgram {
    executors: Arc<Executors>,
    executor: String,
    /// The judge's own.
    name: String,
    model: Option<String>,
}

impl ExecutorProgram {
    /// The executor of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(
        executors: Arc<Executors>,
        name: &str,
        model: Option<String>,
    ) -> Result<ExecutorProgram, UnknownExecutor> {
        executors.find(name)?;
        Ok(ExecutorProgram {
            executors,
            executor: name.to_owned(),
            name: format!("command:{name}"),
            model,
        })
    }

    /// It was there when this was made.
    fn executor(&self) -> Option<&Executor> {
        self.executors.find(&self.executor).ok()
    }
}

impl Program for ExecutorProgram {
    fn name(&self) -> &str {
        &self.name
    }

    fn launch(&self, prompt: &str) -> Launch {
        let ids = Ids {
            // No run: whoever finds these in an environment is to see that it is none.
            oneshot: "status-check",
            role: Role::Auditor,
            iteration: 1,
            agent_session: &uuid::Uuid::new_v4().to_string(),
            model: self.model.as_deref(),
            prompt,
        };
        self.executor().map_or_else(
            || Launch {
                argv: Vec::new(),
                stdin: None,
                environment: Vec::new(),
            },
            |executor| executor.launch(&ids),
        )
    }

    fn answer(&self, stdout: &[u8]) -> Result<String, String> {
        let executor = self.executor().ok_or("the executor is gone")?;
        let mut framer = Framer::new(executor.framing());
        let mut records = framer.push(stdout);
        records.extend(framer.finish());
        let mut answer = executor.answer();
        for activity in records.iter().flat_map(|record| executor.classify(record)) {
            answer.see(&activity);
        }
        match (answer.error(), answer.text()) {
            (Some(error), text) => Err(format!("the agent ended with {}: {text}", word(error))),
            (None, "") => Err("the agent said nothing".to_owned()),
            (None, text) => Ok(text.to_owned()),
        }
    }

    fn install_hint(&self) -> String {
        self.executor()
            .map_or_else(String::new, Executor::install_hint)
    }
}

/// What a class of failure is in a reason that a person reads.
fn word(error: AgentError) -> &'static str {
    match error {
        AgentError::ConnectionRefused => "a refused connection",
        AgentError::AuthFailed => "a failed login",
        AgentError::ApiError => "an error of its endpoint",
        AgentError::ToolError => "an error of its own",
    }
}

/// Asks a program.
pub struct CommandJudge {
    program: Box<dyn Program>,
    supervisor: Arc<Supervisor>,
    redactor: Arc<Redactor>,
    time: Duration,
    under_way: Mutex<UnderWay>,
}

/// Questions that wait for their answer.
#[derive(Default)]
struct UnderWay {
    closed: bool,
    cancels: Vec<Weak<Cancel>>,
}

impl CommandJudge {
    /// Nobody is asked yet.
    pub fn new(program: Box<dyn Program>, supervisor: Arc<Supervisor>) -> CommandJudge {
        let redactor = Arc::clone(&supervisor.settings().redactor);
        CommandJudge {
            program,
            supervisor,
            redactor,
            time: TIME,
            under_way: Mutex::default(),
        }
    }

    /// The same with another limit of time.
    #[must_use]
    pub fn with_time(self, time: Duration) -> CommandJudge {
        CommandJudge { time, ..self }
    }

    /// Its beginning: `None` once the judge is closed.
    fn begin(&self) -> Option<Arc<Cancel>> {
        let mut under_way = self.under_way.lock();
        if under_way.closed {
            return None;
        }
        let cancel = Arc::new(Cancel::default());
        under_way.cancels.retain(|cancel| cancel.strong_count() > 0);
        under_way.cancels.push(Arc::downgrade(&cancel));
        Some(cancel)
    }

    fn request(&self, launch: Launch, session: &str) -> Request {
        Request {
            stderr: crate::task::request::Stderr::Merged,
            command: command_text(&launch.argv),
            description: Some("status check".to_owned()),
            part_of: Some(session.to_owned()),
            directory: None,
            environment: launch.environment,
            stdin: launch.stdin.map_or(Stdin::Null, Stdin::Text),
            terminal: None,
            emulated: false,
            timeout: Some(self.time),
            timeout_most: None,
        }
    }

    /// Waits for the end of a task; whatever is left of it is ended.
    fn wait(&self, task: &TaskHandle, cancel: &Cancel) -> Result<(), JudgeError> {
        // The task's own deadline comes first.
        let limit = Instant::now() + self.time * 2;
        let ended = |state: &State| match state.ended {
            Some(_) => Look::Found(()),
            None => Look::WaitUntil(None),
        };
        let ended = task.live.wait_for(Some(limit), cancel, ended, Instant::now);
        if !task.live.state().closed {
            // Who cannot be ended is reported as what it left behind.
            let _ = self.supervisor.kill(task, KillOrder::InOrder);
        }
        match ended {
            Some(()) => Ok(()),
            None if cancel.is_cancelled() => Err(JudgeError::Closed),
            None => Err(JudgeError::TimedOut(self.time.as_secs())),
        }
    }

    fn answer(&self, task: &TaskHandle) -> Result<Judgement, JudgeError> {
        let (end, output_end) = {
            let state = task.live.state();
            (state.ended.clone(), state.output_end.offset)
        };
        let code = end.as_ref().map_or(0, |end| end.exit.code());
        if end.is_some_and(|end| end.outcome == crate::task::state::Outcome::Timeout) {
            return Err(JudgeError::TimedOut(self.time.as_secs()));
        }
        if code == EXIT_NOT_FOUND {
            let hint = self.program.install_hint();
            return Err(JudgeError::Unreachable(format!(
                "the program is not there (exit code 127); {hint}"
            )));
        }
        let pieces = task
            .spool
            .read(Place::FIRST, output_end.min(MAX_OUTPUT))
            .map_err(|error| JudgeError::Failed(format!("its output is unreadable: {error}")))?;
        let stdout: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.bytes).collect();
        let answer = self.program.answer(&stdout);
        match (answer, code) {
            (Ok(answer), 0) => Ok(reply::parse(&answer)),
            (Ok(_), code) => Err(JudgeError::Failed(format!(
                "it ended with exit code {code}"
            ))),
            (Err(cause), _) => Err(JudgeError::Failed(
                self.redactor.redact(&cause).into_owned(),
            )),
        }
    }
}

impl Judge for CommandJudge {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn judge(&self, evidence: &Evidence) -> Result<Judgement, JudgeError> {
        let cancel = self.begin().ok_or(JudgeError::Closed)?;
        let launch = self
            .program
            .launch(&prompt::prompt(evidence, &self.redactor));
        let task = self
            .supervisor
            .start(self.request(launch, &evidence.session), None)
            .map_err(|error| JudgeError::Unreachable(error.to_string()))?;
        // Its end concerns nobody else.
        let _attendance = Attendance::of_start(&task.live);
        let waited = self.wait(&task, &cancel);
        task.live.tell_end();
        waited?;
        self.answer(&task)
    }

    fn close(&self) {
        let cancels = {
            let mut under_way = self.under_way.lock();
            under_way.closed = true;
            std::mem::take(&mut under_way.cancels)
        };
        for cancel in cancels.iter().filter_map(Weak::upgrade) {
            cancel.cancel();
        }
    }
}

/// The program in the shell's place, its stderr apart from its answer.
fn command_text(argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    format!("exec {} 2>/dev/null", words.join(" "))
}

/// A word that no shell option makes anything else of.
fn quoted(word: &str) -> String {
    let without_nul = word.replace('\0', "");
    format!("'{}'", without_nul.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reaches_the_program_as_it_is() {
        let argv = ["claude", "-p", "it's =x ~ $HOME\n`id`", ""].map(str::to_owned);
        assert_eq!(
            command_text(&argv),
            "exec 'claude' '-p' 'it'\\''s =x ~ $HOME\n`id`' '' 2>/dev/null"
        );
    }
}
