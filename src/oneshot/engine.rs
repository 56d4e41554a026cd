//! The loop of an agent run: load → ask for the action → do it through the supervision
//! core → feed the event back → save → repeat.
//!
//! Limits: parses nothing of what agents say and decides nothing about states; the
//! executors and the verdict do the first, the state machine the second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::attempt::{Attempt, AttemptError, Ended, Outcome};
use super::context::AgentSession;
use super::controls::{Control, Controller, Controls};
use super::equipment::{Equipment, agents_role};
use super::event::{Action, Event};
use super::face::{Face, News};
use super::log::{Kind, LogError, Origin};
use super::policy::Rules;
use super::prompts::{self, Before, ToAudit};
use super::pulse::Pulse;
use super::reason::Crash;
use super::recall;
use super::run::{ApplyError, OpenRun};
use super::salvage::{Surroundings, salvage};
use super::stage::{Active, Audit, Role, Stage};
use super::state::Invalid;
use super::writer::result_data;
use crate::agent::executor::{
    Executor, Ids, MAX_ARGUMENT_PROMPT, PromptBy, Recovery, UnknownExecutor, classify_failure,
};
use crate::agent::verdict::{self, Judged, Verdict};
use crate::process::signals::Exit;
use crate::process::tree::{self, Identity};
use crate::progress::tracker;
use crate::task::registry::TaskHandle;

/// Of the task, for those who judge.
const WHAT_CHARS: usize = 500;
/// The history of an agent counts from so many runs on.
const FEWEST_RUNS: usize = 3;

/// How one run is to be run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// When an agent is acted upon.
    pub rules: Rules,
    /// How it is judged whether the run gets on.
    pub tracking: tracker::Settings,
}

/// Why a run cannot go on. Its files are as they were; it can be resumed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum EngineError {
    #[error(transparent)]
    Executor(#[from] UnknownExecutor),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Attempt(#[from] AttemptError),
    #[error("cannot read the log of the run: {0}")]
    OwnLog(std::io::Error),
}

impl From<Invalid> for EngineError {
    fn from(invalid: Invalid) -> Self {
        EngineError::Apply(invalid.into())
    }
}

/// A run under way.
pub struct Engine<'a> {
    equipment: &'a Equipment,
    plan: Plan,
    run: OpenRun,
    /// The task as it was given; the run's file has it without its secrets.
    task: String,
    controls: &'a Controls,
    controller: &'a Controller,
    face: &'a mut dyn Face,
    pulse: Pulse,
    /// What the worker of this iteration said in the end.
    result: Option<(u32, String)>,
    /// What the last auditor said, as it was said.
    feedback: Option<String>,
}

/// What an engine is connected to.
pub struct Connections<'a> {
    /// What is asked of the run.
    pub controls: &'a Controls,
    /// What asks it.
    pub controller: &'a Controller,
    /// What shows it.
    pub face: &'a mut dyn Face,
}

impl<'a> Engine<'a> {
    /// For a run that has been created, or is taken up again. `task` is the prompt as it
    /// was given, where that is known.
    pub fn new(
        equipment: &'a Equipment,
        plan: Plan,
        run: OpenRun,
        task: Option<String>,
        connections: Connections<'a>,
    ) -> Engine<'a> {
        let task = task.unwrap_or_else(|| run.file().prompt.clone());
        let feedback = run.file().feedback.clone();
        let pulse = Pulse::new(plan.tracking, plan.rules.inactivity, Instant::now());
        Engine {
            equipment,
            plan,
            run,
            task,
            controls: connections.controls,
            controller: connections.controller,
            face: connections.face,
            pulse,
            result: None,
            feedback,
        }
    }

    /// The run.
    pub fn run(&self) -> &OpenRun {
        &self.run
    }

    /// What the worker of the last iteration said in the end, as far as is known.
    pub fn result(&self) -> Option<String> {
        match &self.result {
            Some((_, text)) => Some(text.clone()),
            None => recall::result(&self.run, self.run.position().iteration).ok()?,
        }
    }

    /// Runs it until it is over or paused, beginning with an event where there is one.
    /// Agents may live on when this returns.
    ///
    /// # Errors
    /// When it cannot go on.
    pub fn go(&mut self, first: Option<Event>) -> Result<(), EngineError> {
        if let Some(event) = first {
            self.apply(&event, None)?;
        }
        loop {
            if let Some(event) = self.asked() {
                self.apply(&event, None)?;
            }
            match self.run.position().action() {
                Action::Take(event) => self.enter(&event)?,
                Action::Recover => self.recover()?,
                // An agent is started on the way into its state and followed to its end
                // there: who is found in it was left by somebody else.
                Action::RunWorker | Action::RunAuditor(_) => {
                    self.apply(&Event::SupervisorDied, None)?;
                }
                Action::ReadVerdict | Action::Stop => return Ok(()),
            }
        }
    }

    /// What is asked of the run, or time has brought about, between agents.
    fn asked(&self) -> Option<Event> {
        if self.run.position().action() == Action::Stop {
            return None;
        }
        while let Some(control) = self.controls.take() {
            match control {
                Control::Interrupt(signal) => return Some(Event::Interrupt(signal)),
                Control::Cancel => return Some(Event::Cancel),
                Control::Judged { .. } | Control::GoOn(_) => {}
            }
        }
        let is_over = |end| Instant::now() >= end;
        let over = self.plan.rules.runtime_ends.is_some_and(is_over);
        over.then_some(Event::MaxRuntime)
    }

    fn apply(&mut self, event: &Event, process: Option<Identity>) -> Result<Action, EngineError> {
        let now = self.equipment.clock.now();
        let action = self.run.apply(event, process, now)?;
        if action != Action::ReadVerdict {
            let position = self.run.position();
            self.face.tell(&News::State {
                state: position.state(),
                reason: position.stage.reason().as_ref(),
                iteration: position.iteration,
                maximum: position.maximum.get(),
            });
        }
        Ok(action)
    }

    /// Takes an event that is due; an agent that runs in the state it leads to is started
    /// on the way.
    fn enter(&mut self, event: &Event) -> Result<(), EngineError> {
        let (next, _) = self.run.look_ahead(event)?;
        match next.stage {
            Stage::Active(Active::WorkerExecuting) => {
                self.run_agent(event, Role::Worker, next.iteration, Audit::First)
            }
            Stage::Active(Active::AuditorExecuting(audit)) => {
                self.run_agent(event, Role::Auditor, next.iteration, audit)
            }
            _ => self.apply(event, None).map(|_| ()),
        }
    }

    // Agents.

    fn run_agent(
        &mut self,
        event: &Event,
        role: Role,
        iteration: u32,
        audit: Audit,
    ) -> Result<(), EngineError> {
        let equipment = self.equipment;
        let executor = equipment.executors.find(self.executor_name(role))?;
        let prompt = match role {
            Role::Worker => self.worker_prompt()?,
            Role::Auditor => self.auditor_prompt(executor, iteration, audit)?,
        };
        if executor.prompt_by() == PromptBy::Argument && prompt.len() > MAX_ARGUMENT_PROMPT {
            self.face.tell(&News::Note(
                "the prompt is longer than an argument may be: the middle of it is left out",
            ));
        }
        let session = uuid::Uuid::new_v4().to_string();
        let model = match role {
            Role::Worker => self.run.file().model.as_deref(),
            Role::Auditor => self.run.file().auditor_model.as_deref(),
        };
        let launch = executor.launch(&Ids {
            oneshot: self.run.id(),
            role: agents_role(role),
            iteration,
            agent_session: &session,
            model,
            prompt: &prompt,
        });
        self.note_start(role, iteration, executor.name(), session, &prompt)?;
        let directory = self.run.file().directory.as_path();
        let able = match role {
            Role::Worker => equipment.check_agents(self.run.file()),
            Role::Auditor => Ok(()),
        };
        let start = || equipment.start_agent(executor, role, directory, launch);
        let task = match able.and_then(|()| start()) {
            Ok(task) => task,
            Err(why) => {
                self.face.tell(&News::Note(&why));
                self.apply(event, None)?;
                self.apply(&Event::SpawnFailed, None)?;
                return Ok(());
            }
        };
        let pid = task.live.facts.pid;
        let process = tree::look_up(pid).map_or(Identity { pid, started: 0 }, |found| found.id);
        self.apply(event, Some(process))?;
        let ended = self.follow(executor, role, iteration, &task)?;
        self.conclude(role, iteration, ended)
    }

    fn executor_name(&self, role: Role) -> &str {
        match role {
            Role::Worker => &self.run.file().executor,
            Role::Auditor => &self.run.file().auditor,
        }
    }

    fn origin(&self, role: Role, iteration: u32) -> Origin {
        Origin {
            executor: Some(self.executor_name(role).to_owned()),
            role: Some(role),
            iteration: Some(iteration),
        }
    }

    fn note_start(
        &mut self,
        role: Role,
        iteration: u32,
        executor: &str,
        session: String,
        prompt: &str,
    ) -> Result<(), EngineError> {
        let executor = executor.to_owned();
        self.run.update(|run| {
            run.agent_sessions.push(AgentSession {
                role,
                iteration,
                executor,
                id: session,
            });
        })?;
        let origin = self.origin(role, iteration);
        let now = self.equipment.clock.now();
        self.run
            .note(Kind::Prompt, origin, json!({"text": prompt}), now)?;
        Ok(())
    }

    fn follow(
        &mut self,
        executor: &Executor,
        role: Role,
        iteration: u32,
        task: &Arc<TaskHandle>,
    ) -> Result<Ended, EngineError> {
        self.pulse.begin(role.name(), iteration, Instant::now());
        let account = self.equipment.recorder.account(task.id());
        let history = account.as_ref().map(|account| account.history());
        let estimate = history.as_ref().and_then(|known| known.estimate.as_ref());
        if let Some(known) = estimate.filter(|known| known.sample_size >= FEWEST_RUNS) {
            let usual = Duration::try_from_secs_f64(known.p90.seconds);
            self.pulse.expect(usual.unwrap_or_default());
        }
        let redactor = Arc::clone(self.run.redactor());
        let id = self.run.id().to_owned();
        let what: String = self.run.file().prompt.chars().take(WHAT_CHARS).collect();
        let attempt = Attempt {
            equipment: self.equipment,
            task: Arc::clone(task),
            executor,
            role,
            iteration,
            run: &id,
            what: &what,
            rules: self.plan.rules,
            interval: self.plan.tracking.heartbeat_interval,
            redactor: &redactor,
            controls: self.controls,
            controller: self.controller,
        };
        let ended = attempt.follow(self.run.log(), &mut self.pulse, self.face)?;
        if let Some(named) = &ended.session {
            self.run.update(|run| {
                if let Some(session) = run.agent_sessions.last_mut() {
                    session.id.clone_from(named);
                }
            })?;
        }
        Ok(ended)
    }

    /// What an agent's end means for the run.
    fn conclude(&mut self, role: Role, iteration: u32, ended: Ended) -> Result<(), EngineError> {
        let Ended { outcome, said, .. } = ended;
        let text = said.final_text();
        let error = said.error();
        let event = match outcome {
            Outcome::Interrupted(signal) => Event::Interrupt(signal),
            Outcome::Cancelled => Event::Cancel,
            Outcome::Faulted(fault) => fault.event(),
            Outcome::Exited(Exit::Code(0)) => match error {
                Some(error) => Event::AgentError(error),
                None => return self.take_result(role, iteration, text, said.has_ended()),
            },
            Outcome::Exited(exit) => {
                match error.or_else(|| classify_failure(said.stderr(), text)) {
                    Some(error) => Event::AgentError(error),
                    None => Event::Crash(crash_of(exit)),
                }
            }
        };
        match self.apply(&event, None)? {
            Action::ReadVerdict => self.read_verdict(text),
            _ => Ok(()),
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
            let origin = self.origin(role, iteration);
            let now = self.equipment.clock.now();
            self.run
                .note(Kind::Result, origin, result_data(text, None), now)?;
        }
        match role {
            Role::Worker => {
                self.result = Some((iteration, text.to_owned()));
                self.apply(&Event::Exit0, None)?;
                Ok(())
            }
            Role::Auditor => self.read_verdict(text),
        }
    }

    fn read_verdict(&mut self, text: &str) -> Result<(), EngineError> {
        let Some(Judged { verdict, feedback }) = verdict::read(text) else {
            self.apply(&Event::NoVerdict, None)?;
            return Ok(());
        };
        // Saved before the state that needs it.
        self.run
            .update(|run| *run.feedback = Some(feedback.clone()))?;
        self.feedback = Some(feedback.clone());
        let event = match verdict {
            Verdict::Done => Event::Done,
            Verdict::Retry => Event::Retry,
            Verdict::Impossible => Event::Impossible { feedback },
        };
        self.apply(&event, None)?;
        if let (Event::Retry, Some(feedback)) = (event, &self.run.file().feedback) {
            self.face.tell(&News::Feedback(feedback));
        }
        Ok(())
    }

    // Prompts.

    fn worker_prompt(&self) -> Result<String, EngineError> {
        let cut_off = recall::cut_off(&self.run).map_err(EngineError::OwnLog)?;
        Ok(prompts::worker(
            &self.task,
            &Before {
                feedback: self.feedback.as_deref(),
                cut_off: cut_off.as_deref(),
            },
        ))
    }

    fn auditor_prompt(
        &self,
        executor: &Executor,
        iteration: u32,
        audit: Audit,
    ) -> Result<String, EngineError> {
        let result = match &self.result {
            Some((of, text)) if *of == iteration => text.clone(),
            _ => {
                let recalled = recall::result(&self.run, iteration);
                recalled.map_err(EngineError::OwnLog)?.unwrap_or_default()
            }
        };
        let by_argument = executor.prompt_by() == PromptBy::Argument;
        Ok(prompts::auditor(&ToAudit {
            task: &self.task,
            result: &result,
            format: verdict::FORMAT,
            reminded: audit == Audit::Reminded,
            most: by_argument.then_some(MAX_ARGUMENT_PROMPT),
        }))
    }

    // Recovery.

    fn recover(&mut self) -> Result<(), EngineError> {
        let equipment = self.equipment;
        let executor = equipment.executors.find(self.executor_name(Role::Worker))?;
        let around = Surroundings {
            home: &equipment.home,
            environment: &equipment.environment,
        };
        let found = salvage(self.run.directory(), self.run.file(), executor, around)
            .map_err(EngineError::OwnLog)?;
        let iteration = self.run.position().iteration;
        let (data, event) = match found {
            Recovery::Success { text } => {
                let data = json!({"found": "success", "text": text});
                self.result = Some((iteration, text));
                (data, Event::RecoverySuccess)
            }
            Recovery::Partial { what } => (
                json!({"found": "partial", "what": what}),
                Event::RecoveryPartial,
            ),
            Recovery::Nothing => (json!({"found": "nothing"}), Event::RecoveryNothing),
        };
        let origin = self.origin(Role::Worker, iteration);
        let now = equipment.clock.now();
        self.run.note(Kind::Recovered, origin, data, now)?;
        self.apply(&event, None)?;
        Ok(())
    }
}

fn crash_of(exit: Exit) -> Crash {
    match exit {
        Exit::Code(code) => Crash::ExitCode(code),
        Exit::Signal(number) => Crash::Signal(number),
    }
}
