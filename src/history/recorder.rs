//! Connects tasks and the command history. The MCP server and the command line ask the recorder
//! whether a command may run, and get the insights about running commands from it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::identity::CommandIdentity;
use super::run_record::{RecordContext, RecorderSettings, RunRecord};
use crate::alan::history::History;
use crate::alan::insight::Insight;
use crate::alan::store::circuits::CircuitStatus;
use crate::alan::store::{KillCounts, Store};
use crate::neverhang::{CircuitOpen, Decision};
use crate::shell::command_line::CommandLine;
use crate::shell::dialect::{Dialect, Traps};
use crate::shell::lint::lints;
use crate::task::live::LiveTask;

/// At this many records, those of finished runs are removed.
const MIN_TO_TIDY: usize = 64;

/// Records what commands do.
pub(crate) struct Recorder {
    context: Arc<RecordContext>,
    run_records: Mutex<RunRecords>,
}

#[derive(Default)]
struct RunRecords {
    by_task: HashMap<String, (Weak<LiveTask>, Arc<RunRecord>)>,
    tidy_at: usize,
}

/// A summary of a command's history.
#[derive(Debug, Clone)]
pub(crate) struct CommandReport {
    pub(crate) identity: CommandIdentity,
    pub(crate) history: History,
    pub(crate) kills: KillCounts,
    /// The insights that a run without a terminal would report now.
    pub(crate) insights: Vec<Insight>,
    /// Its circuit, unless it is closed without timeouts.
    pub(crate) circuit: Option<CircuitStatus>,
}

/// Refuses a command that has often timed out.
#[derive(Debug, thiserror::Error)]
#[error(
    "NEVERHANG: not run. `{}` timed out {} times, {longest}{when}. Run it in parts or \
     with background: true, or close its circuit with zsh_neverhang_reset",
    crate::text::foreign::row(.preview), .refusal.timeouts
)]
pub(crate) struct CircuitRefusal {
    preview: String,
    longest: String,
    when: String,
    pub(crate) refusal: CircuitOpen,
}

impl Recorder {
    /// Creates a recorder. Its database is opened at the first use.
    pub(crate) fn new(settings: RecorderSettings) -> Recorder {
        Recorder {
            context: Arc::new(RecordContext {
                settings,
                looked_up: Mutex::default(),
                shown: Mutex::default(),
            }),
            run_records: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.settings.store
    }

    pub(crate) fn identify(&self, command: &CommandLine) -> CommandIdentity {
        CommandIdentity::derive(command, &self.context.settings.redactor)
    }

    /// Begins the record of a command that is about to run with this time limit.
    ///
    /// # Errors
    /// If its circuit is open; the command must then not run.
    pub(crate) fn begin(
        &self,
        command: &CommandLine,
        deadline: Option<Duration>,
        has_terminal: bool,
        dialect: Dialect,
    ) -> Result<Arc<RunRecord>, CircuitRefusal> {
        let identity = self.identify(command);
        let now = SystemTime::now();
        let store = &self.context.settings.store;
        let lease = match store.circuit_check_and_lease(&identity.pattern, now, deadline) {
            Decision::Allow => None,
            Decision::Probe(lease) => Some(lease),
            Decision::Refuse(refusal) => return Err(CircuitRefusal::new(&identity, refusal)),
        };
        let pitfalls = lints(&identity.redacted, has_terminal);
        let traps = self.traps(command, dialect);
        let context = Arc::clone(&self.context);
        Ok(Arc::new(RunRecord::new(context, identity, pitfalls, traps, lease)))
    }

    /// Begins the record of an agent that is about to run in a role. Its identity is
    /// `agent:EXECUTOR:ROLE` and contains no part of the prompt. No circuit refuses an agent, since
    /// no deadline ends it.
    pub(crate) fn begin_agent(&self, executor: &str, role: &str) -> Arc<RunRecord> {
        let identity = CommandIdentity::named(&format!("agent:{executor}:{role}"));
        let context = Arc::clone(&self.context);
        Arc::new(RunRecord::new(context, identity, Vec::new(), Traps::default(), None))
    }

    /// Keeps the record of a task. It may be dropped once results have reported all of it, or once
    /// the task is forgotten.
    pub(crate) fn follow(&self, task: &Arc<LiveTask>, run_record: &Arc<RunRecord>) {
        let entry = (Arc::downgrade(task), Arc::clone(run_record));
        let mut run_records = self.run_records.lock();
        if run_records.by_task.len() >= run_records.tidy_at.max(MIN_TO_TIDY) {
            run_records.by_task.retain(|_, (task, run_record)| {
                task.strong_count() > 0 && !run_record.is_settled()
            });
            run_records.tidy_at = run_records.by_task.len() * 5 / 4;
        }
        run_records.by_task.insert(task.facts.id.clone(), entry);
    }

    /// The record of a task.
    pub(crate) fn record_of(&self, task: &str) -> Option<Arc<RunRecord>> {
        let run_records = self.run_records.lock();
        let (_, run_record) = run_records.by_task.get(task)?;
        Some(Arc::clone(run_record))
    }

    /// Writes the queue and ends the store's thread.
    pub(crate) fn close(&self) {
        self.context.settings.store.close();
    }

    /// Summarises a command's history without running it.
    pub(crate) fn summarise(&self, command: &CommandLine, dialect: Dialect) -> CommandReport {
        let identity = self.identify(command);
        let pitfalls = lints(&identity.redacted, false);
        let circuits = self.circuits();
        let context = Arc::clone(&self.context);
        // The record of a run that never begins has all insights from before a run.
        let run_record =
            RunRecord::new(context, identity.clone(), pitfalls, Traps::default(), None);
        let mut insights = run_record.take_insights();
        let trap = self.traps(command, dialect).before();
        insights.extend(trap.map(|trap| self.context.without_secrets(trap)).map(Insight::Dialect));
        CommandReport {
            history: History::clone(&run_record.history()),
            kills: self.store().kills(&identity.pattern.template),
            insights,
            circuit: circuits.into_iter().find(|circuit| circuit.hash == identity.pattern.hash),
            identity,
        }
    }

    /// From the command as it will run: what takes the place of a secret is not zsh's.
    fn traps(&self, command: &CommandLine, dialect: Dialect) -> Traps {
        let environment = &self.context.settings.environment;
        let is_set = |wanted: &str| environment.iter().any(|(name, _)| name == wanted);
        Traps::find(command, dialect, &is_set)
    }

    /// All circuits that are not blank, open and half-open ones first.
    pub(crate) fn circuits(&self) -> Vec<CircuitStatus> {
        self.store().circuits(SystemTime::now())
    }
}

impl CircuitRefusal {
    fn new(identity: &CommandIdentity, refusal: CircuitOpen) -> CircuitRefusal {
        let longest = refusal.longest.map_or_else(String::new, |seconds| {
            let enough = (2.0 * seconds).ceil();
            format!("with limits of up to {seconds} s (timeout={enough} is allowed); ")
        });
        let seconds = refusal.retry_in.ceil();
        let when = if refusal.probing {
            format!("a trial run is under way, at most {seconds:.0} s more")
        } else {
            format!("it may be tried again in {seconds:.0} s")
        };
        CircuitRefusal { preview: identity.pattern.preview.clone(), longest, when, refusal }
    }
}
