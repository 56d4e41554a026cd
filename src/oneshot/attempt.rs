//! Follows one agent from its start to its end: its output, its progress, its time limits, and
//! requests to the run.
//!
//! The engine decides how the end of an agent changes the run's state.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::controls::{Control, Controls, Waker};
use super::liveness::Liveness;
use super::log::{LineKind, Origin, RunLog, result_data};
use super::pipeline::{
    ByteSource, Pipeline, PipelineDeps, PipelineEvent, Published, Received, Stream,
};
use super::policy::{AgentWatch, BudgetLimits, WatchAction, WatchRules};
use super::reporter::{Reporter, RunNews};
use super::run_files::FileError;
use super::run_tracker::RunTracker;
use super::runtime::Runtime;
use super::state::{Role, RunEvent};
use super::transcript::Transcript;
use crate::agent::activity::Activity;
use crate::agent::checks::{CHECK_TIME, CheckState};
use crate::agent::executor::Executor;
use crate::agent::judge::{Evidence, Finding, Judgement, heuristic};
use crate::agent::stream::{Framer, Record};
use crate::agent::usage::Usage;
use crate::process::signals::Exit;
use crate::progress::tracker::Status;
use crate::task::follower::{Follower, TaskEvent, Topics};
use crate::task::live::{LiveState, LiveTask, WaitStep};
use crate::task::registry::TaskHandle;
use crate::task::state::{KILL_GRACE, KILL_PATIENCE, KillRequest};
use crate::task::stream::StreamName;
use crate::task::supervisor::Supervisor;
use crate::text::redact::Redactor;

/// How much longer to wait for an agent after killing it has failed. The agent is then abandoned:
/// it is blocked in the kernel.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// How long to read output that an agent has already written when its run is paused.
const FINAL_OUTPUT_TIME: Duration = Duration::from_millis(100);

/// Why following an agent ended.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    /// It exited by itself.
    Exited(Exit),
    /// It was killed because of this event.
    Killed(RunEvent),
    /// The run should pause or end permanently; the agent is still alive.
    Stopped(RunEvent),
}

/// Why an agent cannot be followed to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttemptError {
    /// The log cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The output cannot be read.
    #[error("cannot read the agent's output: {0}")]
    Output(io::Error),
}

/// An agent that has been started.
pub(super) struct Attempt<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) task: Arc<TaskHandle>,
    pub(crate) executor: &'a Executor,
    pub(crate) role: Role,
    pub(crate) iteration: u32,
    /// The run's id.
    pub(crate) run: &'a str,
    /// The beginning of the run's prompt, redacted.
    pub(crate) prompt_start: &'a str,
    pub(crate) rules: WatchRules,
    /// The interval between heartbeats.
    pub(crate) interval: Duration,
    /// What the agents may use up, and what earlier agents have used.
    pub(crate) budget: BudgetLimits,
    pub(crate) spent: Usage,
    pub(crate) redactor: &'a Redactor,
    pub(crate) controls: &'a Controls,
}

/// The result of an agent that has ended.
pub(super) struct EndedAttempt {
    pub(crate) outcome: AttemptOutcome,
    pub(crate) transcript: Transcript,
    /// The id that the agent gave its session.
    pub(crate) session: Option<String>,
}

/// The state of a running agent.
struct AttemptState<'a> {
    attempt: &'a Attempt<'a>,
    pipeline: Pipeline<'a, AgentSource>,
    watch: AgentWatch,
    run_tracker: &'a mut RunTracker,
    reporter: &'a mut dyn Reporter,
    transcript: Transcript,
    next_tick: Instant,
    /// How many probes of its processes were already evaluated.
    probes: u64,
    /// The event for which it is being killed, and when to stop waiting for its end.
    ending: Option<(RunEvent, Instant)>,
    /// Whether the person has been asked about this agent.
    asked: bool,
    session: Option<String>,
    /// What the agent has used when it first exceeded the budget.
    over_budget: Option<Usage>,
}

impl Attempt<'_> {
    /// Follows the agent until it or the run ends.
    ///
    /// # Errors
    /// If the log cannot be written or the output cannot be read. The agent may then still be
    /// alive.
    pub(super) fn follow(
        &self,
        log: &mut RunLog,
        run_tracker: &mut RunTracker,
        reporter: &mut dyn Reporter,
    ) -> Result<EndedAttempt, AttemptError> {
        let now = Instant::now();
        let (runtime, executor) = (self.runtime, self.executor);
        let watch = AgentWatch::new(self.rules, now);
        let mut source = AgentSource::new(
            Arc::clone(&runtime.supervisor),
            Arc::clone(&self.task),
            Arc::clone(&self.controls.controller.waker),
            Liveness::new(self.rules.inactivity, now),
        );
        source.output_only = watch.counts_output_only();
        let deps = PipelineDeps {
            clock: runtime.clock.as_ref(),
            inactivity: self.rules.inactivity,
            redactor: self.redactor,
            log,
            origin: Origin {
                executor: Some(executor.name().to_owned()),
                role: Some(self.role),
                iteration: Some(self.iteration),
            },
        };
        let framer = Framer::new(executor.framing());
        let parse = |record: &Record| executor.classify(record);
        let mut state = AttemptState {
            attempt: self,
            pipeline: Pipeline::new(source, framer, &parse, deps),
            watch,
            run_tracker,
            reporter,
            transcript: Transcript::new(executor.answer(), executor.final_text_is_stdout()),
            next_tick: now + self.interval,
            probes: 0,
            ending: None,
            asked: false,
            session: None,
            over_budget: None,
        };
        let outcome = state.follow()?;
        Ok(EndedAttempt { outcome, transcript: state.transcript, session: state.session })
    }

    fn live(&self) -> &LiveTask {
        &self.task.live
    }

    fn ask_judge(&self, evidence: &Evidence) -> Result<(), String> {
        let checks = Arc::clone(&self.runtime.checks);
        let id = checks
            .start(self.run, None, evidence.clone())
            .map_err(|refused| refused.to_string())?;
        let task = self.task.id().to_owned();
        let controller = self.controls.controller.clone();
        let wait = move || {
            let state = checks.get(&id, CHECK_TIME);
            controller.send(Control::Judged { task, state });
        };
        std::thread::Builder::new()
            .name("check-wait".to_owned())
            .spawn(wait)
            .map(|_| ())
            .map_err(|error| format!("cannot start the thread that waits for the judge: {error}"))
    }
}

impl AttemptState<'_> {
    fn follow(&mut self) -> Result<AttemptOutcome, AttemptError> {
        let outcome = loop {
            if let Some(outcome) = self.advance()? {
                break outcome;
            }
        };
        if matches!(outcome, AttemptOutcome::Stopped(_)) {
            // Its output so far may contain its result, which must not be lost.
            self.attempt.controls.controller.waker.take_wakeup();
            let last = Instant::now() + FINAL_OUTPUT_TIME;
            while Instant::now() < last
                && let PipelineEvent::Record(published) = self.pipeline.next(Instant::now())
            {
                self.handle_record(&published)?;
            }
        }
        if self.asked {
            self.reporter.report(&RunNews::WithdrawQuestion);
        }
        Ok(outcome)
    }

    /// Handles requests and deadlines, then waits for the next event.
    fn advance(&mut self) -> Result<Option<AttemptOutcome>, AttemptError> {
        if let Some(outcome) = self.take_controls()? {
            return Ok(Some(outcome));
        }
        let now = Instant::now();
        if let Some(action) = self.watch.overdue(now) {
            self.act_on(action)?;
        }
        if now >= self.next_tick {
            self.next_tick = now + self.attempt.interval;
            self.tick()?;
        }
        if self.reporter.due().is_some_and(|due| now >= due) {
            self.reporter.refresh();
        }
        if let Some((event, _)) = self.ending.take_if(|(_, give_up)| now >= *give_up) {
            return Ok(Some(AttemptOutcome::Killed(event)));
        }
        let until = self.until();
        match self.pipeline.next(until) {
            PipelineEvent::Record(published) => self.handle_record(&published)?,
            PipelineEvent::Quiet => {
                let probed = self.note_probes()?;
                let output_only = self.watch.counts_output_only();
                self.pipeline.source().output_only = output_only;
                if probed && let Some(liveness) = self.pipeline.source().last_life() {
                    self.pipeline.note_evidence(liveness);
                }
            }
            PipelineEvent::Inactive => {
                if let Some(action) = self.watch.silent() {
                    self.act_on(action)?;
                }
                self.pipeline.note_evidence(Instant::now());
            }
            PipelineEvent::Ended(Ok(exit)) => {
                let killed = self.ending.take().map(|(event, _)| AttemptOutcome::Killed(event));
                return Ok(Some(killed.unwrap_or(AttemptOutcome::Exited(exit))));
            }
            PipelineEvent::Ended(Err(error)) => return Err(AttemptError::Output(error)),
            PipelineEvent::Unwritable(error) => return Err(error.into()),
        }
        Ok(None)
    }

    /// When to stop waiting for output.
    fn until(&self) -> Instant {
        let limit = match &self.ending {
            Some((_, give_up)) => Some(*give_up),
            None => self.watch.due(),
        };
        let others = [limit, self.reporter.due()].into_iter().flatten();
        others.fold(self.next_tick, Instant::min)
    }

    fn take_controls(&mut self) -> Result<Option<AttemptOutcome>, FileError> {
        while let Some(control) = self.attempt.controls.take() {
            match control {
                Control::Stop(event) => return Ok(Some(AttemptOutcome::Stopped(event))),
                Control::Judged { task, state } if task == self.attempt.task.id() => {
                    let judgement = match state {
                        Some(CheckState::Done(judgement)) => judgement,
                        _ => heuristic(&self.evidence()),
                    };
                    self.judged(&judgement)?;
                }
                Control::KeepWaiting(goes_on) if self.asked => {
                    self.asked = false;
                    if !goes_on {
                        return Ok(Some(AttemptOutcome::Stopped(RunEvent::Cancel)));
                    }
                }
                // An answer about another agent.
                Control::Judged { .. } | Control::KeepWaiting(_) => {}
            }
        }
        Ok(None)
    }

    fn handle_record(&mut self, published: &Published) -> Result<(), FileError> {
        let role = self.attempt.role;
        let at = published.at.mono;
        self.watch.output(at);
        if published.stream == Stream::Stderr {
            if let Record::Line(line) = &published.record {
                let activity = self.attempt.executor.classify_stderr(line);
                self.transcript.add_stderr(line, activity.as_ref());
                self.reporter.report(&RunNews::StderrLine { role, line });
                if let Some(activity) = &activity {
                    self.reporter.report(&RunNews::Activity(activity));
                }
            }
            return Ok(());
        }
        self.transcript.add(&published.record, &published.activities);
        self.run_tracker.record(&published.activities, at);
        for activity in &published.activities {
            if let Activity::Session { id } = activity {
                self.session = Some(id.clone());
            }
            self.reporter.report(&RunNews::Activity(activity));
        }
        let is_final = |activity: &Activity| matches!(activity, Activity::Final(_));
        if published.activities.iter().any(is_final) {
            self.watch.finish(at);
            let data = result_data(self.transcript.final_text(), self.transcript.error());
            self.pipeline.note(LineKind::Result, data)?;
        } else {
            self.check_budget();
        }
        Ok(())
    }

    /// Ends an agent that spends more after the budget was used up. The answer that exceeded the
    /// budget may be the last one, and its result is paid for.
    fn check_budget(&mut self) {
        let usage = self.transcript.usage();
        let mut all = self.attempt.spent;
        all.add(&usage);
        let Some(budget) = self.attempt.budget.exceeded_by(&all) else { return };
        match self.over_budget {
            None => self.over_budget = Some(usage),
            Some(before) if before != usage => self.end(RunEvent::OverBudget(budget)),
            Some(_) => {}
        }
    }

    /// Records whether the agent's processes are visible. Returns whether they have been probed
    /// since the last call.
    fn note_probes(&mut self) -> Result<bool, FileError> {
        let (probes, blind) = {
            let state = self.attempt.live().state();
            let blind = state.progress.as_ref().is_some_and(|seen| seen.degraded);
            (state.progress_probes, blind)
        };
        if std::mem::replace(&mut self.probes, probes) == probes {
            return Ok(false);
        }
        if self.watch.note_sight(!blind) {
            let reason = if self.watch.is_blind() {
                "its processes cannot be measured: only output counts as a sign of life"
            } else {
                "its processes can be measured again"
            };
            self.note_check(None, reason)?;
        }
        Ok(true)
    }

    fn tick(&mut self) -> Result<(), FileError> {
        let now = Instant::now();
        let (totals, tree_state) = {
            let state = self.attempt.live().state();
            let verdict = state.verdict(now);
            let tracker = state.progress.as_ref().map(|seen| &seen.tracker);
            let totals = tracker.map(|tracker| tracker.totals).unwrap_or_default();
            (totals, verdict.and_then(|verdict| verdict.tree_state))
        };
        let tree_state = tree_state.as_ref();
        let tree_state = tree_state.map(|(state, lasted)| (state, *lasted));
        self.run_tracker.probe(totals, tree_state, now);
        let status = self.run_tracker.status(now);
        let unix = self.pipeline.unix_now();
        let heartbeat = self.run_tracker.heartbeat(self.attempt.role, now, unix);
        let data = serde_json::to_value(heartbeat).unwrap_or_default();
        self.pipeline.note(LineKind::Heartbeat, data)?;
        self.reporter.report(&RunNews::Status(&status.to_string()));
        if self.ending.is_none()
            && let Some(action) = self.watch.tick(status == Status::Stuck)
        {
            self.act_on(action)?;
        }
        Ok(())
    }

    fn act_on(&mut self, action: WatchAction) -> Result<(), FileError> {
        match action {
            WatchAction::End(event) => self.end(event),
            WatchAction::Ask => {
                self.asked = true;
                self.reporter.report(&RunNews::Ask);
            }
            WatchAction::Judge => {
                let evidence = self.evidence();
                if let Err(reason) = self.attempt.ask_judge(&evidence) {
                    tracing::debug!("{reason}: the heuristic judges");
                    self.judged(&heuristic(&evidence))?;
                }
            }
        }
        Ok(())
    }

    fn judged(&mut self, judgement: &Judgement) -> Result<(), FileError> {
        let (finding, reason) = (judgement.finding.letter(), &*judgement.reason);
        self.note_check(finding, reason)?;
        self.reporter.report(&RunNews::Judged { finding, reason });
        let confirmed = matches!(judgement.finding, Finding::Loop | Finding::Failed);
        match self.watch.judged(confirmed) {
            Some(action) if self.ending.is_none() && !self.asked => self.act_on(action),
            _ => Ok(()),
        }
    }

    fn note_check(&mut self, finding: Option<char>, reason: &str) -> Result<(), FileError> {
        let times_out = self.watch.would_time_out(Instant::now());
        let data: Value = json!({
            "status": finding.map(String::from),
            "reason": reason,
            "time_based": if times_out { "would_timeout" } else { "ok" },
        });
        self.pipeline.note(LineKind::StatusCheck, data)
    }

    fn evidence(&self) -> Evidence {
        let now = Instant::now();
        let since = |at| now.saturating_duration_since(at);
        let tracker = self.run_tracker.tracker();
        let change = tracker.last_change;
        Evidence {
            session: self.attempt.run.to_owned(),
            prompt_or_command: self.attempt.prompt_start.to_owned(),
            status: self.run_tracker.status(now),
            evidence: self.run_tracker.evidence(),
            heartbeats: tracker.heartbeat_count,
            state_changes: tracker.change_count,
            last_change: change.map(|change| (change.kind, since(change.at))),
            elapsed: since(self.attempt.live().facts.started.mono),
            iteration: Some(u64::from(self.attempt.iteration)),
            recent: self.transcript.recent(),
        }
    }

    /// Begins to kill the agent. Its end then arrives like any other end.
    fn end(&mut self, event: RunEvent) {
        if self.ending.is_some() {
            return;
        }
        let attempt = self.attempt;
        // An agent that has already ended refuses the kill; its end will arrive.
        let _ = attempt.runtime.supervisor.begin_kill(&attempt.task, KillRequest::Escalate);
        let give_up = Instant::now() + KILL_GRACE + KILL_PATIENCE + END_PATIENCE;
        self.ending = Some((event, give_up));
    }
}

/// How long to wait for a probe of the agent's processes.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// The output of an agent's task.
pub(crate) struct AgentSource {
    supervisor: Arc<Supervisor>,
    follower: Follower,
    waker: Arc<Waker>,
    liveness: Liveness,
    /// Output is the only sign of life.
    pub(crate) output_only: bool,
}

impl AgentSource {
    /// Follows a task from its beginning; `liveness` recognises its signs of life.
    pub(crate) fn new(
        supervisor: Arc<Supervisor>,
        task: Arc<TaskHandle>,
        waker: Arc<Waker>,
        liveness: Liveness,
    ) -> AgentSource {
        let topics = Topics { output: true, errors: true, probes: true };
        AgentSource {
            supervisor,
            follower: Follower::new(task, topics),
            waker,
            liveness,
            output_only: false,
        }
    }

    fn live(&self) -> &Arc<LiveTask> {
        &self.follower.task().live
    }

    /// When the agent last gave a sign of life other than output, according to the probes of
    /// its processes.
    pub(crate) fn last_life(&mut self) -> Option<Instant> {
        if self.output_only {
            return None;
        }
        let totals = {
            let state = self.live().state();
            state.progress.as_ref()?.tracker.totals
        };
        self.liveness.update(totals, Instant::now())
    }
}

impl ByteSource for AgentSource {
    fn next(&mut self, until: Instant) -> Received {
        if self.waker.take_wakeup() {
            return Received::Quiet;
        }
        let cancel = self.waker.wait();
        match self.follower.next(Some(until), &cancel) {
            Ok(TaskEvent::Output(StreamName::Output, bytes)) => Received::Bytes(bytes),
            Ok(TaskEvent::Output(StreamName::Errors, bytes)) => Received::Stderr(bytes),
            // A record cannot continue across the gap.
            Ok(TaskEvent::Gap(_)) => Received::Bytes(b"\n".to_vec()),
            Ok(TaskEvent::Probed | TaskEvent::Quiet) => Received::Quiet,
            Ok(TaskEvent::Cancelled) => {
                self.waker.take_wakeup();
                Received::Quiet
            }
            Ok(TaskEvent::Exit | TaskEvent::Over) => {
                let exit = self.live().state().ended.as_ref().map(|end| end.exit);
                Received::Ended(Ok(exit.unwrap_or(Exit::Code(0))))
            }
            Err(error) => Received::Ended(Err(error)),
        }
    }

    /// Like [`AgentSource::last_life`], after a new probe.
    fn last_evidence(&mut self) -> Option<Instant> {
        if self.output_only {
            return None;
        }
        let before = self.live().state().progress_probes;
        self.supervisor.request_probe(self.follower.task());
        let is_probed = |state: &LiveState| {
            if state.progress_probes > before {
                WaitStep::Found(())
            } else {
                WaitStep::WaitUntil(None)
            }
        };
        let limit = Some(Instant::now() + PROBE_TIME);
        let live = self.live();
        live.wait_for(limit, &self.waker.wait(), is_probed, Instant::now);
        self.last_life()
    }
}
