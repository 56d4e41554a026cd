//! A task at one moment: taken under the task's lock, in one place. Results render it, the state
//! directory keeps it as the task's file, and lists, events and the page show it.
//!
//! Times are Unix seconds, for other processes and later ones. The status of a running task depends
//! on when it is read: [`Snapshot::status`] computes it. Other versions' files may lack fields.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::live::{End, Facts, Input, LiveState, LiveTask};
use super::output::spool::{Spool, Spools};
use super::told::ShownMark;
use crate::progress::condition::{Condition, Visibility};
use crate::progress::cost::Usage;
use crate::progress::progress_state::Verdict;
use crate::progress::status_forecast::{BlockedOn, Status, StatusForecast};
use crate::progress::tracker::{ActivityDelta, ChangeKind, Repetition};
use crate::progress::tree_state::TreeState;
use crate::progress::wait::ProcessName;
use crate::progress::waiting::Waiting;
use crate::shell::outcome::Outcome;
use crate::text::lines::Position;
use crate::text::redact::Redactor;

/// A task at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Snapshot {
    pub facts: Arc<Facts>,
    /// `None` while its shell runs.
    pub ended: Option<End>,
    pub output: OutputState,
    #[serde(skip)]
    pub input: InputState,
    #[serde(default)]
    pub probed: Probed,
    /// Processes that outlive its shell.
    #[serde(default)]
    pub leftovers: Vec<ProcessName>,
    /// Daemons that outlive it by rule; not looked up while it runs, nor for its file.
    #[serde(skip)]
    pub kept: Vec<ProcessName>,
    /// Whether a person is attached to it, and may type.
    #[serde(default)]
    pub attached: bool,
    /// The verdict when it was killed or its deadline passed.
    #[serde(skip)]
    pub at_stop: Option<Verdict>,
    /// How much results have shown, of a detached task.
    pub shown: Option<ShownMark>,
}

/// What a task has printed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputState {
    #[serde(flatten)]
    pub kept: KeptStream,
    /// When the last of it came.
    pub last: Option<f64>,
    /// The width of its terminal.
    pub columns: Option<u16>,
    /// Its stderr, if that is apart.
    pub errors: KeptStream,
}

impl OutputState {
    /// How many bytes there are, of all streams.
    pub fn bytes(&self) -> u64 {
        self.kept.bytes + self.errors.bytes
    }
}

/// What a task has written to a stream, and where it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptStream {
    pub bytes: u64,
    /// An unfinished line counts.
    pub lines: u64,
    /// The files that hold it; earlier ones may be gone.
    pub files: Vec<PathBuf>,
    /// Where the output in each of them begins, by the file's number.
    pub starts: Vec<(u64, Position)>,
}

impl KeptStream {
    fn note_files(&mut self, spool: &Spool) {
        (self.files, self.starts) = (spool.files(), spool.starts());
    }
}

/// What callers have typed.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputState {
    /// How many bytes wait to be read by the program.
    pub queued: usize,
    /// Whether it is closed, or its end queued.
    pub closed: bool,
}

/// What probes have found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Probed {
    /// The process that waits for input.
    pub waiting: Option<Waiting>,
    /// States of its processes that are worth knowing.
    pub conditions: Vec<Condition>,
    /// How much of its processes is visible.
    #[serde(skip)]
    pub evidence: Visibility,
    /// What it has used; zeros before the first probe.
    pub usage: Usage,
    /// `None` before the first probe.
    pub progress: Option<Progress>,
}

/// Whether a task makes progress, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How many signs of life there were.
    pub heartbeats: u64,
    /// How many state changes there were.
    pub state_changes: u64,
    /// The newest state change, and when it was.
    pub last_change: Option<(ChangeKind, f64)>,
    /// The status as time passes.
    pub outlook: StatusForecast<f64>,
    /// Between the last two probes.
    pub delta: ActivityDelta,
    /// What its processes do, if that is visible, and since when.
    pub tree_state: Option<(TreeState, f64)>,
    /// A process that is stuck beside others that are not.
    pub stuck_part: Option<TreeState>,
    /// The summary with which a runner's output has ended, although the task still waits.
    pub finished: Option<String>,
    /// The line that it prints again and again.
    pub repeated: Option<String>,
    /// The address of this machine that this line names, if nothing listens there.
    pub unserved: Option<String>,
    /// Whether it reads or writes steadily.
    #[serde(skip)]
    pub moves_bytes: bool,
    /// Whether some of what its processes read and write is not visible.
    pub degraded: bool,
}

impl Snapshot {
    /// The present state of a task of this process, without [`Snapshot::kept`] and the files of its
    /// output.
    pub fn take(task: &LiveTask, state: &LiveState, now: Instant) -> Snapshot {
        let facts = &task.facts;
        let kept = state.streams.map(|stream| KeptStream {
            bytes: stream.end.offset,
            lines: stream.lines(),
            ..KeptStream::default()
        });
        Snapshot {
            facts: Arc::clone(facts),
            ended: state.ended.clone(),
            output: OutputState {
                kept: kept.output,
                last: state.last_output.map(|at| facts.started.unix_seconds_at(at)),
                columns: state.columns,
                errors: kept.errors,
            },
            input: InputState { queued: state.queued_input, closed: state.input_closed },
            probed: Probed {
                waiting: state.waiting.as_deref().cloned(),
                conditions: state.conditions.clone(),
                evidence: state.evidence,
                usage: state.usage,
                progress: Progress::from_state(state, facts, now),
            },
            leftovers: state.leftovers.clone(),
            kept: Vec::new(),
            attached: state.people.is_some(),
            at_stop: state.verdict_at_kill.as_deref().cloned(),
            shown: facts.detached.as_ref().map(|_| state.told.mark()),
        }
    }

    /// As other processes see it: with the files of its output, and without secrets.
    pub fn for_others(task: &LiveTask, spools: &Spools, redactor: &Redactor) -> Snapshot {
        let redact = |text: &str| redactor.redact(text).into_owned();
        let mut snapshot = Snapshot::take(task, &task.state(), Instant::now());
        // Not under the task's lock: redaction may take long.
        let facts = &task.facts;
        snapshot.facts = Arc::new(Facts {
            command: redact(&facts.command),
            description: facts.description.as_deref().map(redact),
            ..Facts::clone(facts)
        });
        snapshot.output.kept.note_files(&spools.output);
        snapshot.output.errors.note_files(&spools.errors);
        if let Some(waiting) = &mut snapshot.probed.waiting {
            waiting.prompt = redact(&waiting.prompt);
        }
        snapshot
    }

    pub fn id(&self) -> &str {
        &self.facts.id
    }

    pub fn is_on_terminal(&self) -> bool {
        self.facts.input == Input::Terminal
    }

    /// `None` while its shell runs.
    pub fn outcome(&self) -> Option<Outcome> {
        self.ended.as_ref().map(|end| end.outcome)
    }

    pub fn leftover_pids(&self) -> Vec<i32> {
        self.leftovers.iter().map(|left| left.pid).collect()
    }

    /// When it was started.
    pub fn started(&self) -> f64 {
        self.facts.started.unix_seconds()
    }

    /// Whether its shell runs.
    pub fn running(&self) -> bool {
        self.ended.is_none()
    }

    /// Whether the task has ended, and everything that it left.
    pub fn is_over(&self) -> bool {
        !self.running() && self.leftovers.is_empty()
    }

    /// The exit code, if the task has ended and it is known.
    pub fn exit_code(&self) -> Option<i32> {
        let end = self.ended.as_ref().filter(|end| !end.exit_assumed)?;
        Some(end.exit.code())
    }

    /// Its duration once it has ended, in milliseconds.
    pub fn duration_ms(&self) -> Option<u64> {
        let duration = self.ended.as_ref()?.duration;
        Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// How long it has run, or had run at its end.
    pub fn elapsed(&self, now: f64) -> Duration {
        let running = || Duration::try_from_secs_f64(now - self.started()).unwrap_or_default();
        self.ended.as_ref().map_or_else(running, |end| end.duration)
    }

    /// How long it has printed nothing.
    pub fn silent_for(&self, now: f64) -> Duration {
        let last = self.output.last.unwrap_or(self.started());
        Duration::try_from_secs_f64(now - last).unwrap_or_default()
    }

    /// Its status; `None` if it runs and was not probed yet.
    pub fn status(&self, now: f64) -> Option<Status> {
        let Probed { waiting, conditions, progress, .. } = &self.probed;
        let blocked_on = match (waiting, progress) {
            _ if !self.running() => return Some(Status::Ended),
            (_, Some(progress)) => return Some(progress.outlook.status(now)),
            (Some(_), None) => BlockedOn::Input,
            (None, None) if conditions.iter().any(Condition::holds_up) => BlockedOn::Stop,
            (None, None) => return None,
        };
        Some(Status::Blocked(blocked_on))
    }

    /// Its status and the evidence; `None` before the first probe.
    pub fn verdict(&self, now: f64) -> Option<Verdict> {
        let progress = self.probed.progress.as_ref()?;
        let mut verdict = progress.verdict(self.started(), now);
        if !self.running() {
            verdict.status = Status::Ended;
        }
        Some(verdict)
    }

    /// Whether it runs and is alive. Before the first probe it counts as alive.
    pub fn alive(&self, now: f64) -> bool {
        let lives = |progress: &Progress| progress.outlook.alive(now);
        self.running() && self.probed.progress.as_ref().is_none_or(lives)
    }

    /// Whether it is stuck: its processes wait for each other, or it only repeats itself.
    pub fn stuck(&self, now: f64) -> bool {
        let stuck = |progress: &Progress| progress.outlook.stuck(now);
        self.running() && self.probed.progress.as_ref().is_some_and(stuck)
    }
}

impl Progress {
    fn from_state(state: &LiveState, facts: &Facts, now: Instant) -> Option<Progress> {
        let found = state.progress.as_ref()?;
        let unix = |at: Instant| facts.started.unix_seconds_at(at);
        let tracker = &found.tracker;
        Some(Progress {
            heartbeats: tracker.heartbeat_count,
            state_changes: tracker.change_count,
            last_change: tracker.last_change.map(|change| (change.kind, unix(change.at))),
            outlook: tracker.forecast(state.held_up()).on_clock(unix),
            delta: *tracker.delta()?,
            tree_state: found
                .tree_state
                .clone()
                .map(|tree_state| (tree_state, unix(found.tree_state_since))),
            stuck_part: found.stuck_part.clone(),
            finished: found.finished.clone(),
            repeated: state.repetition(now).map(|repetition| repetition.line),
            unserved: found.unserved.clone(),
            moves_bytes: tracker.moves_bytes(now),
            degraded: found.degraded,
        })
    }

    fn verdict(&self, started: f64, now: f64) -> Verdict {
        let since = |at: f64| Duration::try_from_secs_f64(now - at).unwrap_or_default();
        let unchanged_for = since(self.last_change.map_or(started, |(_, at)| at));
        Verdict {
            status: self.outlook.status(now),
            delta: self.delta,
            tree_state: self.tree_state.clone().map(|(doing, at)| (doing, since(at))),
            stuck_part: self.stuck_part.clone(),
            finished: self.finished.clone(),
            unchanged_for,
            last_change: self.last_change.map(|(kind, _)| kind),
            repetition: self.repeated.clone().map(|line| Repetition { line, lasts: unchanged_for }),
            unserved: self.unserved.clone(),
        }
    }
}
