//! An agent's task as the pipeline's source: its output as it comes, the bell of the run's
//! controls, and a look at its processes when everything has been silent.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::controls::Bell;
use super::life::Life;
use super::source::{self, Received};
use crate::process::signals::Exit;
use crate::task::follower::{Follower, Heard, Topics};
use crate::task::live::{LiveTask, Look};
use crate::task::registry::TaskHandle;
use crate::task::supervisor::Supervisor;

/// A look that was asked for comes within this time, or not at all.
const LOOK_TIME: Duration = Duration::from_millis(500);

/// How an agent's task ended.
#[derive(Debug)]
pub enum AgentEnd {
    /// By itself, or by a signal.
    Exited(Exit),
    /// Its output cannot be read any more.
    Unreadable(io::Error),
}

/// The task of an agent.
pub struct AgentSource {
    supervisor: Arc<Supervisor>,
    follower: Follower,
    bell: Arc<Bell>,
    life: Life,
    /// Output is the only sign of life.
    pub output_only: bool,
}

impl AgentSource {
    /// Follows a task from its beginning; `life` tells its signs of life.
    pub fn new(
        supervisor: Arc<Supervisor>,
        task: Arc<TaskHandle>,
        bell: Arc<Bell>,
        life: Life,
    ) -> AgentSource {
        let topics = Topics {
            output: true,
            errors: true,
            looks: true,
        };
        AgentSource {
            supervisor,
            follower: Follower::new(task, topics),
            bell,
            life,
            output_only: false,
        }
    }

    fn live(&self) -> &Arc<LiveTask> {
        &self.follower.task().live
    }

    /// When the agent last gave a sign of life beside what came here, as far as looks have
    /// told.
    pub fn last_life(&mut self) -> Option<Instant> {
        if self.output_only {
            return None;
        }
        let totals = {
            let state = self.live().state();
            state.progress.as_ref()?.tracker.totals()
        };
        self.life.look(totals, Instant::now())
    }
}

impl source::Source for AgentSource {
    type End = AgentEnd;

    fn next(&mut self, until: Instant) -> Received<AgentEnd> {
        if self.bell.heard() {
            return Received::Quiet;
        }
        let cancel = self.bell.wait();
        match self.follower.next(Some(until), &cancel) {
            Ok(Heard::Output(bytes)) => Received::Bytes(bytes),
            // What was begun before the gap cannot be finished by what comes after it.
            Ok(Heard::Gap(_)) => Received::Bytes(b"\n".to_vec()),
            Ok(Heard::Errors(bytes)) => Received::Stderr(bytes),
            Ok(Heard::Looked | Heard::Quiet) => Received::Quiet,
            Ok(Heard::Cancelled) => {
                self.bell.heard();
                Received::Quiet
            }
            Ok(Heard::Exit | Heard::Over) => {
                let exit = self.live().state().ended.as_ref().map(|end| end.exit);
                Received::Ended(AgentEnd::Exited(exit.unwrap_or(Exit::Code(0))))
            }
            Err(error) => Received::Ended(AgentEnd::Unreadable(error)),
        }
    }

    fn last_evidence(&mut self) -> Option<Instant> {
        if self.output_only {
            return None;
        }
        let before = self.live().state().looks;
        self.supervisor.look(self.follower.task());
        let looked = |state: &crate::task::live::State| match state.looks > before {
            true => Look::Found(()),
            false => Look::WaitUntil(None),
        };
        let limit = Some(Instant::now() + LOOK_TIME);
        let live = self.live();
        live.wait_for(limit, &self.bell.wait(), looked, Instant::now);
        self.last_life()
    }
}
