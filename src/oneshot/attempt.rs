//! One agent from its start to its end: its output through the pipeline, its pulse, the
//! watch over it, and what is asked of the run meanwhile.
//!
//! Limits: knows no states; what the end means for the run is the engine's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use serde_json::{Value, json};

use super::agent_task::{AgentEnd, AgentSource};
use super::controls::{Control, Controller, Controls};
use super::equipment::Equipment;
use super::face::{Face, News};
use super::life::Life;
use super::log::{Kind, LogError, Origin, RunLog};
use super::pipeline::{Means, Pipeline, Published, Said};
use super::policy::{Demand, Fault, Rules, Watch};
use super::pulse::Pulse;
use super::source::Stream;
use super::stage::Role;
use super::transcript::Transcript;
use super::writer::{Writer, result_data};
use crate::agent::activity::Activity;
use crate::agent::checks::{CHECK_TIME, CheckState};
use crate::agent::executor::Executor;
use crate::agent::judge::{Evidence, Finding, Judgement, heuristic};
use crate::agent::stream::{Framer, Record};
use crate::process::signals::Exit;
use crate::progress::tracker::Status;
use crate::task::kill_run::Receipt;
use crate::task::live::LiveTask;
use crate::task::registry::TaskHandle;
use crate::task::state::{KILL_GRACE, KILL_PATIENCE, KillOrder};
use crate::text::redact::Redactor;

/// An agent that cannot be ended is left behind after so long: the kernel holds it.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Of what an agent has said when the run is paused, so much time is given to taking it in.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// When nothing is due, one waits so long at a time.
const IDLE: Duration = Duration::from_secs(3600);

/// How an agent ended.
#[derive(Debug)]
pub enum Outcome {
    /// By itself.
    Exited(Exit),
    /// It was ended for this.
    Faulted(Fault),
    /// A signal is to pause the run; the agent still lives.
    Interrupted(i32),
    /// The run is to end for good; the agent still lives.
    Cancelled,
}

/// Why nothing can be said of an agent.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// What is not in the log does not count.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its output is lost.
    #[error("cannot read the agent's output: {0}")]
    Output(std::io::Error),
}

/// What there is to an agent that has been started.
pub struct Attempt<'a> {
    /// What the run is run with.
    pub equipment: &'a Equipment,
    /// Its task.
    pub task: Arc<TaskHandle>,
    /// Its program.
    pub executor: &'a Executor,
    /// What for, and in which iteration.
    pub role: Role,
    /// See [`Attempt::role`].
    pub iteration: u32,
    /// The run's id.
    pub run: &'a str,
    /// The beginning of the task, redacted.
    pub what: &'a str,
    /// When it is acted upon.
    pub rules: Rules,
    /// How often evidence is taken.
    pub interval: Duration,
    /// What takes secrets out of the log.
    pub redactor: &'a Redactor,
    /// What is asked of the run.
    pub controls: &'a Controls,
    /// What asks it.
    pub controller: &'a Controller,
}

/// The state of the watching.
struct Course<'a> {
    watch: Watch,
    pulse: &'a mut Pulse,
    face: &'a mut dyn Face,
    said: Transcript,
    next_tick: Instant,
    /// Looks that have been taken in.
    looks: u64,
    /// What it is being ended for, the receipt, and until when that is waited for.
    ending: Option<(Fault, Option<Receiver<Receipt>>, Instant)>,
    /// The person has been asked.
    asked: bool,
    /// The agent's own name for its session.
    session: Option<String>,
}

/// All that is known of an agent that has ended.
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// What it said.
    pub said: Transcript,
    /// Its own name for its session.
    pub session: Option<String>,
}

impl Attempt<'_> {
    /// Follows the agent to its end, or to that of the run.
    ///
    /// # Errors
    /// When the log cannot be written or the output not be read; the agent may live then.
    pub fn follow(
        &self,
        log: &mut RunLog,
        pulse: &mut Pulse,
        face: &mut dyn Face,
    ) -> Result<Ended, AttemptError> {
        let now = Instant::now();
        let mut course = Course {
            watch: Watch::new(self.rules, now),
            pulse,
            face,
            said: Transcript::new(self.executor.answer(), self.executor.final_text_is_stdout()),
            next_tick: now + self.interval,
            looks: 0,
            ending: None,
            asked: false,
            session: None,
        };
        let (equipment, executor) = (self.equipment, self.executor);
        let source = AgentSource::new(
            Arc::clone(&equipment.supervisor),
            Arc::clone(&self.task),
            Arc::clone(&self.controls.bell),
            Life::new(self.rules.inactivity, now),
        );
        let origin = Origin {
            executor: Some(executor.name().to_owned()),
            role: Some(self.role),
            iteration: Some(self.iteration),
        };
        let means = Means {
            clock: equipment.clock.as_ref(),
            inactivity: self.rules.inactivity,
            redactor: self.redactor,
            log,
            origin: origin.clone(),
        };
        let framer = Framer::new(executor.framing());
        let parse = |record: &Record| executor.classify(record);
        let mut stages = Pipeline::new(source, framer, parse, means);
        stages.source().output_only = course.watch.counts_output_only();
        let writer = Writer {
            redactor: self.redactor,
            origin,
            clock: equipment.clock.as_ref(),
        };
        let outcome = loop {
            if let Some(outcome) = self.hear(&mut course, stages.log(), &writer)? {
                break outcome;
            }
            let now = Instant::now();
            if let Some(demand) = course.watch.overdue(now) {
                self.meet(demand, &mut course, stages.log(), &writer)?;
            }
            if now >= course.next_tick {
                course.next_tick = now + self.interval;
                self.tick(&mut course, stages.log(), &writer)?;
            }
            if course.face.due().is_some_and(|due| now >= due) {
                course.face.refresh();
            }
            if let Some((fault, _, give_up)) = &course.ending
                && now >= *give_up
            {
                break Outcome::Faulted(*fault);
            }
            match stages.next(course.until()) {
                Said::Record(published) => {
                    self.take(&published, &mut course, stages.log(), &writer)?;
                }
                Said::Quiet => {
                    let looked = self.see_looks(&mut course, stages.log(), &writer)?;
                    stages.source().output_only = course.watch.counts_output_only();
                    if looked && let Some(life) = stages.source().last_life() {
                        stages.note_evidence(life);
                    }
                }
                Said::Inactive { .. } => match course.watch.silent() {
                    Some(demand) => {
                        self.meet(demand, &mut course, stages.log(), &writer)?;
                        stages.note_evidence(Instant::now());
                    }
                    None => stages.note_evidence(Instant::now()),
                },
                Said::Ended(AgentEnd::Exited(exit)) => match course.ending {
                    Some((fault, ..)) => break Outcome::Faulted(fault),
                    None => break Outcome::Exited(exit),
                },
                Said::Ended(AgentEnd::Unreadable(error)) => {
                    return Err(AttemptError::Output(error));
                }
                Said::Unwritable(error) => return Err(error.into()),
            }
        };
        if matches!(outcome, Outcome::Interrupted(_) | Outcome::Cancelled) {
            // What it has said by now may be its result: it is not to be lost with it.
            self.controls.bell.heard();
            let last = Instant::now() + LAST_WORDS;
            while Instant::now() < last
                && let Said::Record(published) = stages.next(Instant::now())
            {
                self.take(&published, &mut course, stages.log(), &writer)?;
            }
        }
        if course.asked {
            course.face.tell(&News::AskNoMore);
        }
        Ok(Ended {
            outcome,
            said: course.said,
            session: course.session,
        })
    }

    fn hear(
        &self,
        course: &mut Course<'_>,
        log: &mut RunLog,
        writer: &Writer<'_>,
    ) -> Result<Option<Outcome>, LogError> {
        while let Some(control) = self.controls.take() {
            match control {
                Control::Interrupt(signal) => return Ok(Some(Outcome::Interrupted(signal))),
                Control::Cancel => return Ok(Some(Outcome::Cancelled)),
                Control::Judged { task, state } if task == self.task.id() => {
                    let judgement = match state {
                        Some(CheckState::Done(judgement)) => judgement,
                        _ => heuristic(&self.evidence(course)),
                    };
                    self.judged(&judgement, course, log, writer)?;
                }
                Control::GoOn(goes_on) if course.asked => {
                    course.asked = false;
                    if !goes_on {
                        self.end(Fault::Stuck { fails: false }, course);
                    }
                }
                // An answer to what was asked of another agent.
                Control::Judged { .. } | Control::GoOn(_) => {}
            }
        }
        Ok(None)
    }

    fn take(
        &self,
        published: &Published<Activity>,
        course: &mut Course<'_>,
        log: &mut RunLog,
        writer: &Writer<'_>,
    ) -> Result<(), LogError> {
        let role = self.role;
        let at = published.at.mono;
        course.watch.output(at);
        if published.stream == Stream::Stderr {
            if let Record::Line(line) = &published.record {
                course.said.take_complaint(line);
                course.face.tell(&News::Complaint { role, line });
            }
            return Ok(());
        }
        course.said.take(&published.record, &published.activities);
        course.pulse.take(&published.activities, at);
        for activity in &published.activities {
            if let Activity::Session { id } = activity {
                course.session = Some(id.clone());
            }
            course.face.tell(&News::Activity { role, activity });
        }
        let is_final = |activity: &Activity| matches!(activity, Activity::Final(_));
        if published.activities.iter().any(is_final) {
            course.watch.finish(at);
            let data = result_data(course.said.final_text(), course.said.error());
            writer.note(log, Kind::Result, data)?;
        }
        Ok(())
    }

    /// Takes in whether the agent's processes can be seen; the answer is whether they have
    /// been looked at since the last time.
    fn see_looks(
        &self,
        course: &mut Course<'_>,
        log: &mut RunLog,
        writer: &Writer<'_>,
    ) -> Result<bool, LogError> {
        let (looks, blind) = {
            let state = self.live().state();
            let blind = state.progress.as_ref().is_some_and(|seen| seen.degraded);
            (state.looks, blind)
        };
        if std::mem::replace(&mut course.looks, looks) == looks {
            return Ok(false);
        }
        if course.watch.note_sight(!blind) {
            let reason = match course.watch.is_blind() {
                true => "its processes cannot be seen: time limits on output take over",
                false => "its processes can be seen again",
            };
            let data = self.check_data(None, reason, course);
            writer.note(log, Kind::StatusCheck, data)?;
        }
        Ok(true)
    }

    fn tick(
        &self,
        course: &mut Course<'_>,
        log: &mut RunLog,
        writer: &Writer<'_>,
    ) -> Result<(), LogError> {
        let now = Instant::now();
        let seen = {
            let state = self.live().state();
            let tracker = state.progress.as_ref().map(|seen| &seen.tracker);
            tracker.map(|tracker| (tracker.totals(), tracker.blocked()))
        };
        let (totals, blocked) = seen.unwrap_or_default();
        course.pulse.look(totals, blocked, now);
        let status = course.pulse.status(now);
        let heartbeat = course.pulse.heartbeat(self.role, now, writer.now());
        let data = serde_json::to_value(heartbeat).unwrap_or_default();
        writer.note(log, Kind::Heartbeat, data)?;
        course.face.tell(&News::Status(&status.to_string()));
        if course.ending.is_none()
            && let Some(demand) = course.watch.tick(status == Status::Stuck)
        {
            self.meet(demand, course, log, writer)?;
        }
        Ok(())
    }

    fn meet(
        &self,
        demand: Demand,
        course: &mut Course<'_>,
        log: &mut RunLog,
        writer: &Writer<'_>,
    ) -> Result<(), LogError> {
        match demand {
            Demand::End(fault) => self.end(fault, course),
            Demand::Ask => {
                course.asked = true;
                course.face.tell(&News::Ask);
            }
            Demand::Judge => {
                let evidence = self.evidence(course);
                if let Err(reason) = self.ask_judge(&evidence) {
                    tracing::debug!("{reason}: the heuristic judges");
                    self.judged(&heuristic(&evidence), course, log, writer)?;
                }
            }
        }
        Ok(())
    }

    fn ask_judge(&self, evidence: &Evidence) -> Result<(), String> {
        let checks = Arc::clone(&self.equipment.checks);
        let id = checks
            .start(self.run, None, evidence.clone())
            .map_err(|refused| refused.to_string())?;
        let task = self.task.id().to_owned();
        let controller = self.controller.clone();
        let wait = move || {
            let state = checks.get(&id, CHECK_TIME);
            controller.ask(Control::Judged { task, state });
        };
        std::thread::Builder::new()
            .name("check-wait".to_owned())
            .spawn(wait)
            .map(|_| ())
            .map_err(|error| format!("no thread waits for the judge: {error}"))
    }

    fn judged(
        &self,
        judgement: &Judgement,
        course: &mut Course<'_>,
        log: &mut RunLog,
        writer: &Writer<'_>,
    ) -> Result<(), LogError> {
        let finding = judgement.finding.letter();
        let data = self.check_data(finding, &judgement.reason, course);
        writer.note(log, Kind::StatusCheck, data)?;
        let reason = &judgement.reason;
        course.face.tell(&News::Judged { finding, reason });
        let confirmed = matches!(judgement.finding, Finding::Loop | Finding::Failed);
        match course.watch.judged(confirmed) {
            Some(demand) if course.ending.is_none() && !course.asked => {
                self.meet(demand, course, log, writer)
            }
            _ => Ok(()),
        }
    }

    fn check_data(&self, finding: Option<char>, reason: &str, course: &Course<'_>) -> Value {
        let time_based = match course.watch.would_time_out(Instant::now()) {
            true => "would_timeout",
            false => "ok",
        };
        json!({
            "status": finding.map(String::from),
            "reason": reason,
            "time_based": time_based,
        })
    }

    fn evidence(&self, course: &Course<'_>) -> Evidence {
        let now = Instant::now();
        let tracker = course.pulse.tracker();
        let change = tracker.last_change();
        Evidence {
            session: self.run.to_owned(),
            what: self.what.to_owned(),
            status: course.pulse.status(now),
            evidence: course.pulse.evidence(),
            heartbeats: tracker.heartbeat_count(),
            state_changes: tracker.change_count(),
            last_change: change
                .map(|change| (change.kind, now.saturating_duration_since(change.at))),
            elapsed: now.saturating_duration_since(self.live().facts.started.mono),
            iteration: Some(u64::from(self.iteration)),
            recent: course.said.recent(),
        }
    }

    /// Begins to end the agent; its end is then waited for as any other.
    fn end(&self, fault: Fault, course: &mut Course<'_>) {
        if course.ending.is_some() {
            return;
        }
        let supervisor = &self.equipment.supervisor;
        // Without a receipt it is over already, and its end is on the way.
        let receipt = supervisor.begin_kill(&self.task, KillOrder::InOrder).ok();
        let give_up = Instant::now() + KILL_GRACE + KILL_PATIENCE + END_PATIENCE;
        course.ending = Some((fault, receipt, give_up));
    }

    fn live(&self) -> &LiveTask {
        &self.task.live
    }
}

impl Course<'_> {
    fn until(&self) -> Instant {
        let ending = self.ending.as_ref().map(|(.., give_up)| *give_up);
        let watch = match ending {
            Some(_) => None,
            None => self.watch.due(),
        };
        let soonest = [Some(self.next_tick), watch, ending, self.face.due()];
        let soonest = soonest.into_iter().flatten().min();
        soonest.unwrap_or_else(|| Instant::now() + IDLE)
    }
}
