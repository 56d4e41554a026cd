//! The loop of an agent run: gets an action from the state machine, carries it out, applies the
//! resulting event and saves it.
//!
//! The executors and the verdict parse agents' output; the state machine chooses the states.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, select};
use serde_json::{Value, json};

use super::attempt::{Attempt, AttemptError, AttemptOutcome, EndedAttempt};
use super::check::{self, CheckOutcome, CheckResult, RunningCheck};
use super::controls::{Control, Controls};
use super::log::{LineKind, Origin, result_data};
use super::policy::{BudgetLimits, WatchRules};
use super::prompt_file::PromptFile;
use super::prompts::{self, ToAudit, ToWork};
use super::recovery::{self, RecoveryContext};
use super::reporter::{Reporter, RunNews};
use super::repository::{self, Moment, Repository, SNAPSHOTS, Snapshot};
use super::run::{ApplyError, OpenRun};
use super::run_files::{AgentSession, FileError};
use super::run_tracker::RunTracker;
use super::runtime::{Runtime, check_agents};
use super::sessions::ID_VARIABLE;
use super::state::{Action, Active, Audit, Invalid, Role, RunEvent, Stage};
use super::transcript::Transcript;
use crate::agent::activity::AgentError;
use crate::agent::executor::{
    Executor, ITERATION_VARIABLE, Ids, MAX_ARGUMENT_PROMPT, PromptBy, Recovery, UnknownExecutor,
    classify_failure,
};
use crate::agent::outage;
use crate::agent::verdict::{self, Judged, Verdict};
use crate::process::files;
use crate::process::signals::Exit;
use crate::process::tree::{self, Identity};
use crate::progress::tracker;
use crate::task::registry::TaskHandle;
use crate::text::foreign::ShowPath;
use crate::text::lines;
use crate::text::quantity::seconds;

/// How much of the prompt a judge gets, in characters.
const PROMPT_START_CHARS: usize = 500;
/// The fewest runs of an agent that give a usual time.
const MIN_RUNS: usize = 3;

/// The settings of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchSettings {
    /// When to act on a running agent.
    pub(crate) rules: WatchRules,
    /// How progress is measured.
    pub(crate) tracker: tracker::TrackerSettings,
    /// How long a check may take.
    pub(crate) check_timeout: Duration,
    /// What the agents may use up.
    pub(crate) budget: BudgetLimits,
}

/// Why a run cannot continue. Its files are intact, so it can be resumed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error(transparent)]
    Executor(#[from] UnknownExecutor),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Attempt(#[from] AttemptError),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("cannot read the log of the run: {0}")]
    OwnLog(std::io::Error),
    #[error("cannot start the thread that recovers a worker's result: {0}")]
    NoThread(std::io::Error),
}

/// Runs one agent run.
pub(crate) struct Engine<'a> {
    runtime: &'a Runtime,
    plan: WatchSettings,
    run: OpenRun,
    /// The prompt without redaction; the run's file contains the redacted prompt.
    prompt: String,
    controls: &'a Controls,
    reporter: &'a mut dyn Reporter,
    run_tracker: RunTracker,
    /// The number of an iteration, with its worker's final text.
    result: Option<(u32, String)>,
    /// The last auditor's feedback, not redacted.
    feedback: Option<String>,
    /// What the red checks of the last iteration say, not redacted.
    failed_checks: Option<String>,
    /// The outage that the last agent ended with.
    outage: Option<OutageWait>,
    /// The repository of the run's directory, unless git is missing or has failed.
    repository: Option<Repository>,
}

/// The wait for an endpoint that fails for now.
#[derive(Debug, Clone, Copy)]
struct OutageWait {
    /// When the first of the failures in a row came.
    since: Instant,
    /// How long the next wait lasts if the endpoint does not say.
    pause: Duration,
    /// When to try again.
    until: Instant,
}

/// The first wait for an endpoint that does not say how long its failure lasts; each further one is
/// twice as long …
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);
/// What share of that is waited at least after a further failure, whatever the endpoint says: one,
/// two, four seconds.
const LEAST_SHARE: u32 = 60;
/// What `--then` finds in its environment besides the id and the iteration.
const STATE_VARIABLE: &str = "ONESHOT_STATE";
const REASON_VARIABLE: &str = "ONESHOT_REASON";
const DIRECTORY_VARIABLE: &str = "ONESHOT_DIRECTORY";
/// How many changed files are logged …
const LISTED_FILES: usize = 100;
/// … and named in a note.
const NAMED_FILES: usize = 5;
/// How much of an error's message is shown.
const SAID_CHARS: usize = 300;

impl<'a> Engine<'a> {
    /// An engine for a new or resumed run. `prompt` is the prompt
    /// without redaction; without it, the redacted one of the run's file is used.
    pub(crate) fn new(
        runtime: &'a Runtime,
        plan: WatchSettings,
        run: OpenRun,
        prompt: Option<String>,
        controls: &'a Controls,
        reporter: &'a mut dyn Reporter,
    ) -> Engine<'a> {
        let prompt = prompt.unwrap_or_else(|| run.file().prompt.clone());
        let feedback = run.file().feedback.clone();
        let failed_checks = run.file().failed_checks.clone();
        let run_tracker = RunTracker::new(plan.tracker, plan.rules.inactivity, Instant::now());
        Engine {
            runtime,
            plan,
            run,
            prompt,
            controls,
            reporter,
            run_tracker,
            result: None,
            feedback,
            failed_checks,
            outage: None,
            repository: None,
        }
    }

    /// The run of this engine.
    pub(crate) fn run(&self) -> &OpenRun {
        &self.run
    }

    /// The final text of the last iteration's worker, if it is known.
    pub(crate) fn result(&self) -> Option<String> {
        match &self.result {
            Some((_, text)) => Some(text.clone()),
            None => recovery::result(self.run.directory(), self.run.position().iteration).ok()?,
        }
    }

    /// Runs until the run ends or pauses, beginning with the event `first`, if any. Agents may
    /// still be running when this returns.
    ///
    /// # Errors
    /// If the run cannot continue.
    pub(crate) fn go(&mut self, first: Option<RunEvent>) -> Result<(), EngineError> {
        self.find_repository();
        self.recall_usage()?;
        if let Some(event) = first {
            self.apply(&event)?;
        }
        loop {
            if let Some(event) = self.requested_event() {
                self.apply(&event)?;
            }
            match self.run.position().action() {
                Action::Take(event) => self.enter(&event)?,
                Action::Recover => self.recover()?,
                // `enter` starts an agent together with its state and follows it to its end. A run
                // found in that state was abandoned by a runner that died.
                Action::RunWorker | Action::RunAuditor(_) | Action::RunChecks => {
                    self.apply(&RunEvent::SupervisorDied)?;
                }
                Action::ReadVerdict | Action::Stop => {
                    self.run_then();
                    return Ok(());
                }
            }
        }
    }

    /// A stop request or the end of the run's time, between agents.
    fn requested_event(&self) -> Option<RunEvent> {
        if self.run.position().action() == Action::Stop {
            return None;
        }
        while let Some(control) = self.controls.take() {
            // Other requests concern an agent that has ended.
            if let Control::Stop(event) = control {
                return Some(event);
            }
        }
        let is_over = |end| Instant::now() >= end;
        let over = self.plan.rules.runtime_ends.is_some_and(is_over);
        over.then_some(RunEvent::MaxRuntime)
    }

    fn apply(&mut self, event: &RunEvent) -> Result<(), EngineError> {
        self.apply_with(event, None).map(|_| ())
    }

    /// Applies an event that starts the agent with this process, if any.
    fn apply_with(
        &mut self,
        event: &RunEvent,
        process: Option<Identity>,
    ) -> Result<Action, EngineError> {
        let now = self.runtime.clock.now();
        let action = self.run.apply(event, process, now)?;
        if action != Action::ReadVerdict {
            let position = self.run.position();
            self.reporter.report(&RunNews::State {
                state: position.state(),
                reason: position.stage.reason().as_ref(),
                iteration: position.iteration,
                maximum: position.maximum.get(),
            });
        }
        Ok(action)
    }

    /// Applies an event. If an agent runs in the next state, starts the agent first.
    fn enter(&mut self, event: &RunEvent) -> Result<(), EngineError> {
        let (next, _) = self.run.look_ahead(event)?;
        if next.state().has_agent() {
            if let Some(budget) = self.plan.budget.exceeded_by(&self.run.file().usage()) {
                return self.apply(&RunEvent::OverBudget(budget));
            }
            if let Some(request) = self.wait_for_endpoint() {
                return self.apply(&request);
            }
        }
        match next.stage {
            Stage::Active(Active::WorkerExecuting) => {
                self.run_agent(event, Role::Worker, next.iteration, Audit::First)
            }
            Stage::Active(Active::AuditorExecuting(audit)) => {
                self.run_agent(event, Role::Auditor, next.iteration, audit)
            }
            Stage::Active(Active::CheckExecuting) => self.run_checks(event, next.iteration),
            _ => self.apply(event),
        }
    }

    // Agents.

    fn run_agent(
        &mut self,
        event: &RunEvent,
        role: Role,
        iteration: u32,
        audit: Audit,
    ) -> Result<(), EngineError> {
        let runtime = self.runtime;
        let executor = runtime.executors.find(self.executor_name(role))?;
        let prompt = match role {
            Role::Worker => self.worker_prompt()?,
            Role::Auditor => self.auditor_prompt(iteration, audit)?,
        };
        let prompt_file = self.prompt_file(executor, &prompt);
        if role == Role::Worker {
            self.take_snapshot(iteration, Moment::BeforeWorker)?;
        }
        let session = uuid::Uuid::new_v4().to_string();
        let model = match role {
            Role::Worker => self.run.file().model.as_deref(),
            Role::Auditor => self.run.file().auditor_model.as_deref(),
        };
        let launch = executor.launch(&Ids {
            oneshot: self.run.id(),
            role,
            iteration,
            agent_session: &session,
            model,
            prompt: &prompt,
            prompt_file: prompt_file.as_ref().and_then(PromptFile::path),
            allow_edits: self.run.file().options.allow_edits,
        });
        let executor_name = executor.name().to_owned();
        self.run.update(|run| {
            let id = session;
            let executor = executor_name;
            let session = AgentSession { role, iteration, executor, id, usage: None };
            run.agent_sessions.push(session);
        })?;
        self.note(LineKind::Prompt, role, iteration, json!({"text": prompt}))?;
        let file = self.run.file();
        let directory = file.directory.as_path();
        let able = match role {
            Role::Worker => {
                let Runtime { executors, environment, .. } = runtime;
                check_agents(executors, environment, directory, &file.executor, file.auditor())
            }
            Role::Auditor => Ok(()),
        };
        let start = || runtime.start_agent(executor, role, directory, launch);
        let task = match able.and_then(|()| start()) {
            Ok(task) => task,
            Err(why) => {
                self.reporter.report(&RunNews::Note(&why));
                self.apply(event)?;
                return self.apply(&RunEvent::SpawnFailed);
            }
        };
        let pid = task.live.facts.shell.pid;
        let process = tree::look_up(pid).map_or(Identity { pid, started: 0 }, |found| found.id);
        self.apply_with(event, Some(process))?;
        let ended = self.follow(executor, role, iteration, &task)?;
        drop(prompt_file);
        if !matches!(ended.outcome, AttemptOutcome::Stopped(_)) {
            let moment = match role {
                Role::Worker => Moment::AfterWorker,
                Role::Auditor => Moment::AfterAuditor,
            };
            self.take_snapshot(iteration, moment)?;
        }
        let failure = executor.failure_in(ended.transcript.final_text());
        self.conclude(role, iteration, ended, failure)
    }

    /// A file with a prompt that is too long for an argument, if the program takes it as one.
    fn prompt_file(&mut self, executor: &Executor, prompt: &str) -> Option<PromptFile> {
        if executor.prompt_by() != PromptBy::Argument || prompt.len() <= MAX_ARGUMENT_PROMPT {
            return None;
        }
        // Agents may read the files of their directory. A secret must not reach a disk.
        let has_secret = self.run.redactor.redact(prompt) != prompt;
        let directory = if has_secret {
            files::volatile_directory()
        } else {
            Some(self.run.file().directory.clone())
        };
        let made = directory
            .ok_or_else(|| io::Error::other("it contains a secret, and no directory is in memory"))
            .and_then(|directory| PromptFile::make(&directory, self.run.id(), prompt));
        match made {
            Ok(file) => Some(file),
            Err(error) => {
                self.reporter.report(&RunNews::Note(&format!(
                    "the prompt is too long for an argument and cannot be put into a file \
                     ({error}): its middle is omitted"
                )));
                None
            }
        }
    }

    /// Reads from the log what an agent has cost whose runner was killed.
    fn recall_usage(&mut self) -> Result<(), EngineError> {
        let Some(session) = self.run.file().agent_sessions.last() else { return Ok(()) };
        let Ok(executor) = self.runtime.executors.find(&session.executor) else { return Ok(()) };
        if session.usage.is_some() {
            return Ok(());
        }
        let usage = recovery::usage(self.run.directory(), session, executor);
        let usage = usage.map_err(EngineError::OwnLog)?;
        self.run.update(|run| {
            if let Some(session) = run.agent_sessions.last_mut() {
                session.usage = Some(usage);
            }
        })?;
        Ok(())
    }

    fn executor_name(&self, role: Role) -> &str {
        match role {
            Role::Worker => &self.run.file().executor,
            Role::Auditor => &self.run.file().auditor,
        }
    }

    /// Writes a line about an agent to the run's log.
    fn note(
        &mut self,
        kind: LineKind,
        role: Role,
        iteration: u32,
        data: Value,
    ) -> Result<(), EngineError> {
        let origin = Origin {
            executor: Some(self.executor_name(role).to_owned()),
            role: Some(role),
            iteration: Some(iteration),
        };
        let now = self.runtime.clock.now();
        self.run.note(kind, origin, data, now)?;
        Ok(())
    }

    fn follow(
        &mut self,
        executor: &Executor,
        role: Role,
        iteration: u32,
        task: &Arc<TaskHandle>,
    ) -> Result<EndedAttempt, EngineError> {
        self.run_tracker.begin(role.name(), iteration, Instant::now());
        let run_record = self.runtime.recorder.record_of(task.id());
        let history = run_record.as_ref().map(|run_record| run_record.history());
        let estimate = history.as_ref().and_then(|known| known.estimate.as_ref());
        if let Some(known) = estimate.filter(|known| known.sample_size >= MIN_RUNS) {
            let usual = Duration::try_from_secs_f64(known.p90.seconds);
            self.run_tracker.expect(usual.unwrap_or_default());
        }
        let redactor = Arc::clone(&self.run.redactor);
        let id = self.run.id().to_owned();
        let what: String = self.run.file().prompt.chars().take(PROMPT_START_CHARS).collect();
        let attempt = Attempt {
            runtime: self.runtime,
            task: Arc::clone(task),
            executor,
            role,
            iteration,
            run: &id,
            prompt_start: &what,
            rules: self.plan.rules,
            interval: self.plan.tracker.heartbeat_interval,
            budget: self.plan.budget,
            spent: self.run.file().usage(),
            redactor: &redactor,
            controls: self.controls,
        };
        let ended = attempt.follow(&mut self.run.log, &mut self.run_tracker, self.reporter)?;
        let usage = ended.transcript.usage();
        self.run.update(|run| {
            if let Some(session) = run.agent_sessions.last_mut() {
                session.id = ended.session.clone().unwrap_or_else(|| session.id.clone());
                session.usage = Some(usage);
            }
        })?;
        if let Some(note) = self.plan.budget.unmeasured_by(executor.name(), &usage) {
            self.reporter.report(&RunNews::Note(&note));
        }
        Ok(ended)
    }

    /// Applies the event that an agent's end causes; `failure` is what its final text reports.
    fn conclude(
        &mut self,
        role: Role,
        iteration: u32,
        ended: EndedAttempt,
        failure: Option<AgentError>,
    ) -> Result<(), EngineError> {
        let EndedAttempt { outcome, transcript, .. } = ended;
        let text = transcript.final_text();
        let reported = transcript.error().or(failure);
        let event = match outcome {
            AttemptOutcome::Killed(event) | AttemptOutcome::Stopped(event) => event,
            AttemptOutcome::Exited(Exit::Code(0)) => match reported {
                Some(error) => RunEvent::AgentError(error),
                None => {
                    self.outage = None;
                    if role == Role::Worker {
                        self.note_shortfall(iteration, &transcript)?;
                    }
                    return self.take_result(role, iteration, text, transcript.has_ended());
                }
            },
            AttemptOutcome::Exited(exit) => {
                match reported.or_else(|| classify_failure(transcript.stderr(), text)) {
                    Some(error) => RunEvent::AgentError(error),
                    None => RunEvent::Crash(exit),
                }
            }
        };
        let event = match event {
            RunEvent::AgentError(error) => {
                // Without an error of its own stream, its stderr says what happened.
                let message = match reported {
                    Some(_) if !text.trim().is_empty() => text.to_owned(),
                    _ => format!("{text}\n{}", transcript.stderr()),
                };
                self.after_error(error, &message, role, iteration)?
            }
            event => {
                self.outage = None;
                event
            }
        };
        match self.apply_with(&event, None)? {
            Action::ReadVerdict => self.read_verdict(text),
            _ => Ok(()),
        }
    }

    // Snapshots.

    fn find_repository(&mut self) {
        let store = self.run.directory().join(SNAPSHOTS);
        let directory = &self.run.file().directory;
        match Repository::find(directory, &store, &self.runtime.environment) {
            Ok(found) => self.repository = found,
            Err(error) => tracing::info!("no snapshots of {}: {error}", directory.shown()),
        }
    }

    /// Takes a snapshot of the repository's files, and logs what has changed since the last one.
    fn take_snapshot(&mut self, iteration: u32, moment: Moment) -> Result<(), EngineError> {
        let Some(repository) = &self.repository else { return Ok(()) };
        let taken = repository.snapshot().and_then(|tree| {
            let last = self.run.file().snapshots.last();
            let changes = last.map(|last| repository.changes(&last.tree, &tree)).transpose()?;
            Ok((tree, changes.unwrap_or_default()))
        });
        let (tree, changes) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.repository = None;
                let note =
                    format!("no further snapshots of the files, and no differences: {error}");
                self.reporter.report(&RunNews::Note(&note));
                return Ok(());
            }
        };
        self.run.update(|run| run.snapshots.push(Snapshot { iteration, moment, tree }))?;
        let role = match moment {
            _ if changes.is_empty() => return Ok(()),
            // A person's changes, or those of the user's own checks.
            Moment::BeforeWorker | Moment::AfterChecks => return Ok(()),
            Moment::AfterWorker => Role::Worker,
            Moment::AfterAuditor => Role::Auditor,
        };
        let summary = repository::summary(&changes);
        let files = changes.iter().map(|file| file.path.shown().to_string());
        let files: Vec<String> = files.take(LISTED_FILES).collect();
        if role == Role::Auditor {
            let more = if files.len() > NAMED_FILES { ", …" } else { "" };
            let named = files.iter().take(NAMED_FILES).map(String::as_str);
            let named = named.collect::<Vec<_>>().join(", ");
            let note = format!("the auditor has changed files ({summary}): {named}{more}");
            self.reporter.report(&RunNews::Note(&note));
        } else {
            self.reporter.report(&RunNews::Changed(&summary));
        }
        self.note(LineKind::Changes, role, iteration, json!({"summary": summary, "files": files}))
    }

    // The end.

    /// Runs the user's command line for the end of the run, if the run is over.
    fn run_then(&mut self) {
        let position = self.run.position();
        let Some(then) = self.run.file().then.clone() else { return };
        if !position.state().is_terminal() {
            return;
        }
        let reason = position.stage.reason().map(|reason| reason.to_string());
        let directory = &self.run.file().directory;
        let mut variables = check_variables(self.run.id(), position.iteration);
        variables.extend([
            (STATE_VARIABLE.to_owned(), position.state().name().to_owned()),
            (REASON_VARIABLE.to_owned(), reason.unwrap_or_default()),
            (DIRECTORY_VARIABLE.to_owned(), directory.to_string_lossy().into_owned()),
        ]);
        let (run, iteration) = (self.run.id(), position.iteration);
        let started =
            RunningCheck::start(self.runtime, run, iteration, directory, &then, variables);
        let ended = started.and_then(|running| {
            let finished = running.finish(self.plan.check_timeout, None, self.controls);
            finished.map_err(|error| error.to_string())
        });
        let problem = match ended {
            Ok(CheckOutcome::Ended { result, .. }) if result.passed => return,
            Ok(CheckOutcome::Ended { result, output }) => {
                let last = output.lines().rfind(|line| !line.trim().is_empty());
                format!("{}: {}", result.ended, last.unwrap_or("(no output)").trim())
            }
            Ok(CheckOutcome::Stopped(_)) => "it was interrupted".to_owned(),
            Err(why) => why,
        };
        self.reporter.report(&RunNews::Note(&format!("--then {then}: {problem}")));
    }

    // Checks.

    /// Runs all checks of an iteration, and applies the event that they result in.
    fn run_checks(&mut self, event: &RunEvent, iteration: u32) -> Result<(), EngineError> {
        let mut red = Vec::new();
        for (number, command) in self.run.file().checks.clone().into_iter().enumerate() {
            self.reporter.report(&RunNews::Checking(&command));
            let started = RunningCheck::start(
                self.runtime,
                self.run.id(),
                iteration,
                &self.run.file().directory,
                &command,
                check_variables(self.run.id(), iteration),
            );
            let process = started.as_ref().ok().and_then(|check| {
                tree::look_up(check.task.live.facts.shell.pid).map(|found| found.id)
            });
            if number == 0 {
                self.apply_with(event, process)?;
            }
            let check = match started {
                Ok(check) => check,
                Err(why) => {
                    self.reporter.report(&RunNews::Note(&why));
                    return self.apply(&RunEvent::SpawnFailed);
                }
            };
            let limit = self.plan.check_timeout;
            let finished = check.finish(limit, self.plan.rules.runtime_ends, self.controls);
            let (result, output) = match finished.map_err(AttemptError::Output)? {
                CheckOutcome::Ended { result, output } => (result, output),
                CheckOutcome::Stopped(event) => return self.apply(&event),
            };
            self.note_check(&result, &output)?;
            if !result.passed {
                red.push((result, output));
            }
        }
        self.take_snapshot(iteration, Moment::AfterChecks)?;
        let is_green = red.is_empty();
        let failures = (!is_green).then(|| check::failures(&red));
        // Saved before the state that depends on it.
        self.run.update(|run| run.failed_checks.clone_from(&failures))?;
        self.failed_checks = failures;
        self.apply(if is_green { &RunEvent::ChecksPassed } else { &RunEvent::ChecksFailed })
    }

    fn note_check(&mut self, result: &CheckResult, output: &str) -> Result<(), EngineError> {
        let mut data = serde_json::to_value(result).unwrap_or_default();
        if let Some(fields) = data.as_object_mut()
            && !output.is_empty()
        {
            fields.insert("output".to_owned(), output.into());
        }
        let origin = Origin { iteration: Some(result.iteration), ..Origin::default() };
        let now = self.runtime.clock.now();
        self.run.note(LineKind::Check, origin, data, now)?;
        self.run.update(|run| run.check_results.push(result.clone()))?;
        self.reporter.report(&RunNews::Checked(result));
        Ok(())
    }

    /// Says if a worker that ended well did next to nothing or was denied its tools, before the
    /// auditor is paid for it.
    fn note_shortfall(
        &mut self,
        iteration: u32,
        transcript: &Transcript,
    ) -> Result<(), EngineError> {
        let executor = self.runtime.executors.find(self.executor_name(Role::Worker))?;
        let allow_edits = self.run.file().options.allow_edits;
        let Some(advice) = executor.permission_advice(allow_edits) else {
            if transcript.final_text().trim().is_empty() {
                self.reporter.report(&RunNews::Note("the worker answered nothing"));
            }
            return Ok(());
        };
        let Some(shortfall) = transcript.deeds().shortfall(transcript.final_text()) else {
            return Ok(());
        };
        let data = json!({"text": shortfall.to_string(), "advice": advice});
        self.note(LineKind::Shortfall, Role::Worker, iteration, data)?;
        self.reporter.report(&RunNews::Note(&format!("the worker {shortfall}: {advice}")));
        Ok(())
    }

    // Outages.

    /// The event of an agent's error: an outage if it may pass within the limit of waiting.
    fn after_error(
        &mut self,
        error: AgentError,
        message: &str,
        role: Role,
        iteration: u32,
    ) -> Result<RunEvent, EngineError> {
        let known = self.outage.take();
        let unix = self.runtime.clock.now().unix_seconds();
        let Some(found) = outage::of(error, message, unix) else {
            return Ok(RunEvent::AgentError(error));
        };
        let now = Instant::now();
        let since = known.map_or(now, |known| known.since);
        let pause = known.map_or(FIRST_PAUSE, |known| known.pause);
        // One that says "at once" each time is not asked without end.
        let least = known.map_or(Duration::ZERO, |known| known.pause / LEAST_SHARE);
        let lasts = found.lasts.map_or(pause, |said| said.max(least));
        let Some(until) = now.checked_add(lasts) else {
            return Ok(RunEvent::AgentError(error));
        };
        if until - since > self.plan.rules.wait_limit {
            return Ok(RunEvent::AgentError(error));
        }
        self.outage = Some(OutageWait { since, pause: (pause * 2).min(LONGEST_PAUSE), until });
        let said = message.lines().rfind(|line| line.chars().any(char::is_alphanumeric));
        let said = lines::truncate(said.unwrap_or_default().trim(), SAID_CHARS);
        let said = self.run.redactor.redact(&said).into_owned();
        let data = json!({
            "error": error.name(), "message": said, "tries_again_in": lasts.as_secs_f64(),
        });
        self.note(LineKind::Outage, role, iteration, data)?;
        self.reporter.report(&RunNews::Note(&format!(
            "{}: {said}; trying again in {}",
            error.name(),
            seconds(lasts)
        )));
        Ok(RunEvent::Outage)
    }

    /// Waits until an endpoint that has failed is to be tried again. Returns the event of a request
    /// that comes first, or of the end of the run's time.
    fn wait_for_endpoint(&self) -> Option<RunEvent> {
        let until = self.outage?.until;
        let overtime = match self.plan.rules.runtime_ends {
            Some(end) => crossbeam_channel::at(end),
            None => crossbeam_channel::never(),
        };
        let over = crossbeam_channel::at(until);
        loop {
            select! {
                recv(over) -> _ => return None,
                recv(overtime) -> _ => return Some(RunEvent::MaxRuntime),
                recv(self.controls.receiver) -> control => {
                    if let Ok(Control::Stop(event)) = control {
                        return Some(event);
                    }
                }
            }
        }
    }

    fn take_result(
        &mut self,
        role: Role,
        iteration: u32,
        text: &str,
        is_logged: bool,
    ) -> Result<(), EngineError> {
        if !is_logged {
            self.note(LineKind::Result, role, iteration, result_data(text, None))?;
        }
        match role {
            Role::Worker => {
                self.result = Some((iteration, text.to_owned()));
                self.apply(&RunEvent::Exit0)
            }
            Role::Auditor => self.read_verdict(text),
        }
    }

    fn read_verdict(&mut self, text: &str) -> Result<(), EngineError> {
        let Some(Judged { verdict, feedback }) = verdict::read(text) else {
            return self.apply(&RunEvent::NoVerdict);
        };
        // Save the feedback before the state that depends on it.
        self.run.update(|run| run.feedback = Some(feedback.clone()))?;
        self.feedback = Some(feedback.clone());
        let event = match verdict {
            Verdict::Done => RunEvent::Done,
            Verdict::Retry => RunEvent::Retry,
            Verdict::Impossible => RunEvent::Impossible { feedback },
        };
        self.apply(&event)?;
        if let (RunEvent::Retry, Some(feedback)) = (event, &self.run.file().feedback) {
            self.reporter.report(&RunNews::Feedback(feedback));
        }
        Ok(())
    }

    // Prompts.

    fn worker_prompt(&self) -> Result<String, EngineError> {
        let cut_off = recovery::interrupted_work(self.run.directory(), self.run.file())
            .map_err(EngineError::OwnLog)?;
        Ok(prompts::worker(&ToWork {
            task: &self.prompt,
            feedback: self.feedback.as_deref(),
            failed_checks: self.failed_checks.as_deref(),
            cut_off: cut_off.as_deref(),
        }))
    }

    fn auditor_prompt(&self, iteration: u32, audit: Audit) -> Result<String, EngineError> {
        let result = match &self.result {
            Some((of, text)) if *of == iteration => text.clone(),
            _ => {
                let recalled = recovery::result(self.run.directory(), iteration);
                recalled.map_err(EngineError::OwnLog)?.unwrap_or_default()
            }
        };
        let shortfall =
            recovery::shortfall(self.run.directory(), iteration).map_err(EngineError::OwnLog)?;
        Ok(prompts::auditor(&ToAudit {
            task: &self.prompt,
            result: &result,
            shortfall: shortfall.as_deref(),
            reminded: audit == Audit::Reminded,
            passed_checks: &self.run.file().checks,
        }))
    }

    // Recovery.

    /// The recovered work of the last worker, or the event of a request that arrives first. Logs
    /// and conversations may be long, so a thread reads them. After a request, the thread is
    /// abandoned and ends with the process.
    fn recover_last_result(&self) -> Result<Result<Recovery, RunEvent>, EngineError> {
        let name = self.executor_name(Role::Worker);
        let executor = Arc::clone(self.runtime.executors.find(name)?);
        let directory = self.run.directory().to_path_buf();
        let file = self.run.file().clone();
        let home = self.runtime.home.clone();
        let environment = self.runtime.environment.clone();
        let (sender, receiver) = bounded(1);
        let read = move || {
            let context = RecoveryContext { home: &home, environment: &environment };
            // After a request, the receiver is gone.
            let _ =
                sender.send(recovery::recover_last_worker(&directory, &file, &executor, context));
        };
        std::thread::Builder::new()
            .name("recovery".to_owned())
            .spawn(read)
            .map_err(EngineError::NoThread)?;
        let overtime = match self.plan.rules.runtime_ends {
            Some(end) => crossbeam_channel::at(end),
            None => crossbeam_channel::never(),
        };
        loop {
            select! {
                recv(receiver) -> found => {
                    let lost = |_| std::io::Error::other("the recovery thread ended early");
                    let found = found.map_err(lost).and_then(|found| found);
                    return found.map(Ok).map_err(EngineError::OwnLog);
                }
                recv(self.controls.receiver) -> control => {
                    if let Ok(Control::Stop(event)) = control {
                        return Ok(Err(event));
                    }
                }
                recv(overtime) -> _ => return Ok(Err(RunEvent::MaxRuntime)),
            }
        }
    }

    fn recover(&mut self) -> Result<(), EngineError> {
        let found = match self.recover_last_result()? {
            Ok(found) => found,
            Err(event) => return self.apply(&event),
        };
        let iteration = self.run.position().iteration;
        let last = self.run.file().snapshots.last();
        if last.is_some_and(|last| last.moment == Moment::BeforeWorker) {
            self.take_snapshot(iteration, Moment::AfterWorker)?;
        }
        let (data, event) = match found {
            Recovery::Success { text } => {
                let data = json!({"found": "success", "text": text});
                self.result = Some((iteration, text));
                (data, RunEvent::RecoverySuccess)
            }
            Recovery::Partial { what } => {
                (json!({"found": "partial", "what": what}), RunEvent::RecoveryPartial)
            }
            Recovery::Nothing => (json!({"found": "nothing"}), RunEvent::RecoveryNothing),
        };
        self.note(LineKind::Recovered, Role::Worker, iteration, data)?;
        self.apply(&event)
    }
}

/// The variables by which a check's processes are known as the run's.
fn check_variables(run: &str, iteration: u32) -> Vec<(String, String)> {
    let variables = [(ID_VARIABLE, run.to_owned()), (ITERATION_VARIABLE, iteration.to_string())];
    variables.map(|(name, value)| (name.to_owned(), value)).into()
}
