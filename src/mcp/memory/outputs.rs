//! The structured results of the tools that tell what is remembered: what is written is
//! what is declared (`outputSchema`).

use schemars::JsonSchema;
use serde::Serialize;

use crate::alan::estimate::Estimate;
use crate::alan::history::{History, HostHistory, RETRY_WINDOW_MINUTES, RemoteHistory};
use crate::alan::insight::Insight;
use crate::alan::outcome::Outcome;
use crate::alan::rows::Streak;
use crate::alan::store::breaker::Reset;
use crate::alan::store::maintenance::Counts;
use crate::alan::store::{KillCounts, Status};
use crate::record::consultation::{Consultation, Standing};

/// The database and its state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DatabaseOutput {
    /// Its path.
    pub path: String,
    /// Why it cannot be written; what is learned stays in memory then. Null when it can.
    pub failure: Option<String>,
    /// Records that wait to be written.
    pub queued: usize,
    /// Records that had to go, because too many waited.
    pub dropped: u64,
    /// Where a corrupt one was moved to; null when none was.
    pub moved_aside: Option<String>,
}

impl From<&Status> for DatabaseOutput {
    fn from(status: &Status) -> Self {
        DatabaseOutput {
            path: status.path.display().to_string(),
            failure: status.failure.clone(),
            queued: status.queued,
            dropped: status.dropped,
            moved_aside: status
                .moved_aside
                .as_ref()
                .map(|path| path.display().to_string()),
        }
    }
}

/// What `zsh_alan_stats` gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StatsOutput {
    /// Where it is kept.
    pub database: DatabaseOutput,
    /// Remembered runs, and parts of pipelines.
    pub observations: u64,
    /// Different commands that have run to their end.
    pub commands: u64,
    /// Kinds of commands.
    pub templates: u64,
    /// Remembered connections to hosts.
    pub ssh_observations: u64,
    /// Tables of options from manual pages.
    pub cached_options: u64,
    /// NEVERHANG circuits that refuse calls at the moment.
    pub circuits_open: usize,
    /// The kinds that ran most often, ten at most.
    pub most_frequent: Vec<KindOutput>,
}

/// A kind of command.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KindOutput {
    /// Its template, as in git push origin *.
    pub template: String,
    /// Its runs.
    pub runs: u64,
    /// Those that succeeded.
    pub successes: u64,
    /// Those that were killed.
    pub kills: u64,
}

impl StatsOutput {
    /// From what was counted.
    pub fn new(status: &Status, counts: Counts, circuits: &[Standing]) -> StatsOutput {
        let most_frequent = counts.most_frequent.into_iter();
        StatsOutput {
            database: DatabaseOutput::from(status),
            observations: counts.observations,
            commands: counts.commands,
            templates: counts.templates,
            ssh_observations: counts.ssh_observations,
            cached_options: counts.cached_options,
            circuits_open: open(circuits),
            most_frequent: most_frequent
                .map(|(template, runs, successes, kills)| KindOutput {
                    template,
                    runs,
                    successes,
                    kills,
                })
                .collect(),
        }
    }
}

/// How many circuits refuse calls.
pub fn open(circuits: &[Standing]) -> usize {
    circuits.iter().filter(|circuit| circuit.refuses()).count()
}

/// What `zsh_alan_query` gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QueryOutput {
    /// The command, without secrets.
    pub command: String,
    /// Equal for equal commands only.
    pub hash: String,
    /// Its kind.
    pub template: String,
    /// What a run would be told now, warnings and information mixed.
    pub insights: Vec<InsightOutput>,
    /// Remembered runs that the rates are made from, 200 at most.
    pub runs: usize,
    /// The part that succeeded, 0 to 1; a run weighs half after a day. Null without runs.
    pub success_rate: Option<f64>,
    /// The part that timed out, in the same way.
    pub timeout_rate: Option<f64>,
    /// Equal results in a row.
    pub streak: StreakOutput,
    /// Its runs of the last minutes in this session.
    pub retry: RetryOutput,
    /// Runs of other commands of its kind in the same time; not looked for when it is a retry itself.
    pub similar: RecentOutput,
    /// Failures of its kind in a row in this session.
    pub failures: u32,
    /// Kills of its kind.
    pub kills: KillsOutput,
    /// How long it takes; null while fewer than 3 runs are known.
    pub estimate: Option<EstimateOutput>,
    /// The host that it connects to; null when to none.
    pub host: Option<HostOutput>,
    /// What it runs there; null when nothing.
    pub remote: Option<RemoteOutput>,
    /// Its NEVERHANG circuit; null when it has not timed out lately.
    pub circuit: Option<CircuitOutput>,
}

/// One thing worth saying.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InsightOutput {
    /// info or warning.
    pub level: String,
    /// What.
    pub message: String,
}

/// Equal results in a row.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StreakOutput {
    /// Successes in a row, or failures as a negative number.
    pub current: i64,
    /// The most successes in a row.
    pub longest_success: i64,
    /// The most failures in a row.
    pub longest_fail: i64,
}

/// Recent runs of the command.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RetryOutput {
    /// How many minutes count.
    pub window_minutes: u32,
    /// Its runs in them.
    pub previous: usize,
    /// Those that succeeded.
    pub succeeded: usize,
}

/// Recent runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecentOutput {
    /// How many.
    pub runs: usize,
    /// Those that succeeded.
    pub succeeded: usize,
}

/// Kills of a kind.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KillsOutput {
    /// Its kills.
    pub kills: u64,
    /// Of so many runs.
    pub runs: u64,
    /// Its kills in this session.
    pub session_kills: u64,
}

/// How long a command takes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EstimateOutput {
    /// exact: from runs of this very command; template: of its kind.
    pub basis: String,
    /// The kind.
    pub command_template: String,
    /// Completed runs in it.
    pub sample_size: usize,
    /// Half of the runs are over by then, in seconds.
    pub median_duration_s: f64,
    /// The median is longer than that: too many runs were cut off.
    pub median_at_least: bool,
    /// Nine in ten runs are over by then, in seconds.
    pub p90_duration_s: f64,
    /// The same of the p90.
    pub p90_at_least: bool,
}

/// What is remembered of a host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostOutput {
    /// Its name.
    pub host: String,
    /// Tries to connect.
    pub tries: u64,
    /// Those that failed to.
    pub failed: u64,
}

/// What is remembered of a remote command, on all hosts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RemoteOutput {
    /// Its kind.
    pub template: String,
    /// Its runs where the connection held.
    pub runs: u64,
    /// Those that failed.
    pub failed: u64,
    /// The hosts it ran on.
    pub hosts: u64,
}

/// A circuit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CircuitOutput {
    /// Of which command; zsh_neverhang_reset takes it too.
    pub hash: String,
    /// The command without secrets, its first 200 bytes.
    pub command: String,
    /// CLOSED, OPEN or HALF_OPEN.
    pub state: String,
    /// Timeouts that it remembers.
    pub timeouts: usize,
    /// The longest that one of them had, in seconds; a call with twice that is let through.
    pub longest_s: Option<f64>,
    /// Whether a call with the same deadline would be refused now.
    pub refuses: bool,
    /// Seconds until the next try; 0 when a call is let through.
    pub retry_in_s: f64,
}

/// What `zsh_neverhang_status` gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CircuitsOutput {
    /// Circuits that remember timeouts, those that are not closed first.
    pub circuits: Vec<CircuitOutput>,
}

/// What `zsh_neverhang_reset` gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResetOutput {
    /// The circuits that remember nothing any more.
    pub closed: Vec<ClosedOutput>,
    /// Why circuits in the database are as they were; null when all was done.
    pub failure: Option<String>,
}

/// A circuit that was closed, as it was before.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClosedOutput {
    /// Of which command.
    pub hash: String,
    /// The command without secrets, its first 200 bytes.
    pub command: String,
    /// CLOSED (it remembered timeouts only), OPEN or HALF_OPEN.
    pub state: String,
    /// Timeouts that are forgotten.
    pub timeouts: usize,
}

impl From<&Reset> for ResetOutput {
    fn from(reset: &Reset) -> Self {
        let closed = reset.closed.iter().map(|named| ClosedOutput {
            hash: named.hash.clone(),
            command: named.preview.clone(),
            state: named.circuit.state.as_str().to_owned(),
            timeouts: named.circuit.timeouts.len(),
        });
        ResetOutput {
            closed: closed.collect(),
            failure: reset.failure.as_ref().map(ToString::to_string),
        }
    }
}

impl From<&Consultation> for QueryOutput {
    fn from(found: &Consultation) -> Self {
        let history = &found.history;
        let rates = history.rates();
        let rate = |rate: f64| (rates.runs > 0).then_some(rate);
        QueryOutput {
            command: found.known.redacted.clone(),
            hash: found.known.pattern.hash.clone(),
            template: found.known.pattern.template.clone(),
            insights: found.insights.iter().map(InsightOutput::from).collect(),
            runs: rates.runs,
            success_rate: rate(rates.success),
            timeout_rate: rate(rates.timeout),
            streak: StreakOutput::from(&history.streak),
            retry: RetryOutput::from(history),
            similar: recent(&history.similar),
            failures: history.failures,
            kills: KillsOutput::from(found.kills),
            estimate: history.estimate.as_ref().map(EstimateOutput::from),
            host: history.host.as_ref().map(HostOutput::from),
            remote: history.remote.as_ref().map(RemoteOutput::from),
            circuit: found.circuit.as_ref().map(CircuitOutput::from),
        }
    }
}

impl From<&Insight> for InsightOutput {
    fn from(insight: &Insight) -> Self {
        InsightOutput {
            level: insight.level().as_str().to_owned(),
            message: insight.to_string(),
        }
    }
}

impl From<&Streak> for StreakOutput {
    fn from(streak: &Streak) -> Self {
        StreakOutput {
            current: streak.current_streak,
            longest_success: streak.longest_success_streak,
            longest_fail: streak.longest_fail_streak,
        }
    }
}

impl From<&History> for RetryOutput {
    fn from(history: &History) -> Self {
        let RecentOutput { runs, succeeded } = recent(&history.retries);
        RetryOutput {
            window_minutes: RETRY_WINDOW_MINUTES,
            previous: runs,
            succeeded,
        }
    }
}

/// Interrupted runs are the server's doing and say nothing.
fn recent(outcomes: &[Outcome]) -> RecentOutput {
    let count = |is: &dyn Fn(Outcome) -> bool| outcomes.iter().filter(|o| is(**o)).count();
    RecentOutput {
        runs: count(&|outcome| outcome != Outcome::Interrupted),
        succeeded: count(&|outcome| outcome == Outcome::Success),
    }
}

impl From<KillCounts> for KillsOutput {
    fn from(counts: KillCounts) -> Self {
        KillsOutput {
            kills: counts.kills,
            runs: counts.runs,
            session_kills: counts.session_kills,
        }
    }
}

impl From<&Estimate> for EstimateOutput {
    fn from(estimate: &Estimate) -> Self {
        EstimateOutput {
            basis: estimate.basis.as_str().to_owned(),
            command_template: estimate.template.clone(),
            sample_size: estimate.sample_size,
            median_duration_s: estimate.median.seconds,
            median_at_least: estimate.median.at_least,
            p90_duration_s: estimate.p90.seconds,
            p90_at_least: estimate.p90.at_least,
        }
    }
}

impl From<&HostHistory> for HostOutput {
    fn from(history: &HostHistory) -> Self {
        HostOutput {
            host: history.host.clone(),
            tries: history.tries,
            failed: history.failed,
        }
    }
}

impl From<&RemoteHistory> for RemoteOutput {
    fn from(history: &RemoteHistory) -> Self {
        RemoteOutput {
            template: history.template.clone(),
            runs: history.runs,
            failed: history.failed,
            hosts: history.hosts,
        }
    }
}

impl From<&Standing> for CircuitOutput {
    fn from(standing: &Standing) -> Self {
        let circuit = &standing.circuit;
        CircuitOutput {
            hash: standing.hash.clone(),
            command: standing.preview.clone(),
            state: circuit.state.as_str().to_owned(),
            timeouts: circuit.timeouts.len(),
            longest_s: circuit.longest(),
            refuses: standing.refuses(),
            retry_in_s: standing.retry_in,
        }
    }
}
