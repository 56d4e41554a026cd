//! The structured results of tools. Each `outputSchema` is generated from the type that is
//! serialized.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Value, json};

use super::ceilings::Learned;
use crate::alan::history::{HostHistory, RemoteHistory};
use crate::alan::insight::truncate;
use crate::alan::store::KillCounts;
use crate::progress::condition::{Condition, StopSignal};
use crate::progress::cost::Usage;
use crate::protocol::message::put;
use crate::shell::mode::ShellName;
use crate::task::describe::{self, ConditionKind};
use crate::task::snapshot::Snapshot;

/// How much of a client's name and version a line shows.
const CLIENT_CHARS: usize = 60;

/// What each answer and each list says of a task.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskFacts {
    /// Its id.
    pub(crate) task_id: String,
    /// running, completed, failed, timeout, killed or interrupted.
    pub(crate) status: &'static str,
    /// The exit code of its shell; null while it runs, and if it is not known.
    pub(crate) exit_code: Option<i32>,
    /// What it waits for: input or password; null otherwise.
    pub(crate) waiting_for: Option<&'static str>,
    /// Whether a person has taken its terminal, and answers.
    pub(crate) attached: bool,
    /// The pid of its shell.
    pub(crate) pid: i32,
    /// The shell that its caller chose; null for the configured one.
    pub(crate) shell: Option<ShellName>,
    /// Its sandbox, such as workspace network=off; null without one.
    pub(crate) sandbox: Option<String>,
}

impl From<&Snapshot> for TaskFacts {
    fn from(task: &Snapshot) -> TaskFacts {
        let waiting = task.probed.waiting.as_ref().filter(|_| !task.attached);
        TaskFacts {
            task_id: task.id().to_owned(),
            status: describe::status_word(task),
            exit_code: task.exit_code(),
            waiting_for: waiting.map(|waiting| describe::wanted_word(waiting.wanted)),
            attached: task.attached,
            pid: task.facts.shell.pid,
            shell: task.facts.chosen_shell,
            sandbox: task.facts.sandbox.as_ref().map(|sandbox| sandbox.policy.to_string()),
        }
    }
}

impl TaskFacts {
    /// As an object with these members too.
    pub(crate) fn with(&self, more: Value) -> Value {
        let mut all = json!(self);
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
        all
    }
}

/// A task in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskRow {
    #[serde(flatten)]
    pub(crate) facts: TaskFacts,
    /// Whether it makes progress: progressing, slow, idle, silent, stuck or blocked; null if
    /// it has ended or has just started.
    pub(crate) progress: Option<String>,
    /// The evidence for that, the strongest first.
    pub(crate) evidence: Vec<String>,
    /// Milliseconds since its start.
    pub(crate) age_ms: u64,
    /// Milliseconds since its last output; null if no more can come.
    pub(crate) silent_ms: Option<u64>,
    /// What its processes use; null before the first look at them.
    pub(crate) usage: Option<UsageRow>,
    /// Notable states of its processes.
    pub(crate) conditions: Vec<ConditionRow>,
    /// Processes that outlived its shell.
    pub(crate) leftovers: usize,
    /// The TCP ports at which its processes listen.
    pub(crate) listening: Vec<u16>,
    /// The first line of its command, shortened.
    pub(crate) command: String,
    /// The caller's description.
    pub(crate) description: Option<String>,
}

/// What the processes of a task use, as the last look at them found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsageRow {
    /// Seconds of CPU time so far.
    pub(crate) cpu_s: f64,
    /// Bytes of memory now.
    pub(crate) memory_bytes: u64,
    /// The most at any look.
    pub(crate) peak_bytes: u64,
    /// How many processes there are.
    pub(crate) processes: usize,
}

impl UsageRow {
    /// `None` before the first look.
    pub(crate) fn of(usage: &Usage) -> Option<UsageRow> {
        (usage.processes_peak > 0).then(|| UsageRow {
            cpu_s: usage.cpu.total().as_secs_f64(),
            memory_bytes: usage.memory,
            peak_bytes: usage.memory_peak,
            processes: usage.processes,
        })
    }
}

/// A restart of the server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RestartRow {
    /// When, in Unix seconds.
    pub(crate) at: f64,
    /// How the server before had ended.
    pub(crate) cause: String,
}

/// A notable state of a process.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConditionRow {
    /// stopped, disk_sleep, zombie_leader or other_user.
    pub(crate) kind: &'static str,
    /// The pid of the process.
    pub(crate) pid: i32,
    /// Its name.
    pub(crate) name: String,
    /// The signal that stopped it; null if unknown, missing if it is not stopped.
    #[schemars(default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<Option<&'static str>>,
    /// Whether the task cannot continue because of it; missing if it is not stopped.
    #[schemars(default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holds_up: Option<bool>,
    /// Its user; missing if it is this user.
    #[schemars(default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
}

impl From<&Condition> for ConditionRow {
    fn from(condition: &Condition) -> ConditionRow {
        let process = condition.process();
        let mut row = ConditionRow {
            kind: ConditionKind::from_condition(condition).word(),
            pid: process.pid,
            name: process.name.raw().to_owned(),
            signal: None,
            holds_up: None,
            user: None,
        };
        match condition {
            Condition::Stopped { by, holds_up, .. } => {
                let is_known = *by != StopSignal::Unknown;
                row.signal = Some(is_known.then(|| describe::signal_name(*by)));
                row.holds_up = Some(*holds_up);
            }
            Condition::OutOfReach { user, .. } => row.user = Some(user.raw().to_owned()),
            Condition::DiskSleep { .. } | Condition::ZombieLeader { .. } => {}
        }
        row
    }
}

/// A process whose task is unknown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StrayRow {
    /// Its pid.
    pub(crate) pid: i32,
    /// Its name.
    pub(crate) name: String,
}

/// A host.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HostRow {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is connected, its system and what connecting took, or why it is not.
    pub(crate) status: String,
}

/// A detached task in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DetachedRow {
    #[serde(flatten)]
    pub(crate) facts: TaskFacts,
    /// Whether it makes progress, as for other tasks.
    pub(crate) progress: Option<String>,
    /// Milliseconds since its start.
    pub(crate) age_ms: u64,
    /// Milliseconds until it is killed; null if it has ended or has no limit.
    pub(crate) ends_in_ms: Option<u64>,
    /// The name of the client that started it.
    pub(crate) client: String,
    /// The directory of the project from which it was started.
    pub(crate) project: String,
    /// The TCP ports at which its processes listen.
    pub(crate) listening: Vec<u16>,
    /// The first line of its command, shortened.
    pub(crate) command: String,
    /// The caller's description.
    pub(crate) description: Option<String>,
}

/// The result of `zsh_tasks`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TasksOutput {
    /// The detached tasks of this user, newest first; they outlive this server.
    pub(crate) detached: Vec<DetachedRow>,
    /// The tasks, newest first.
    pub(crate) tasks: Vec<TaskRow>,
    /// How many more there are than `limit` allows.
    pub(crate) not_listed: usize,
    /// Processes that belong to an unknown task.
    pub(crate) unattributed: Vec<StrayRow>,
}

/// The result of `zsh_health`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HealthOutput {
    /// ok or problems.
    pub(crate) status: &'static str,
    /// The server's version.
    pub(crate) version: &'static str,
    /// The server's name in the state directory.
    pub(crate) instance: String,
    /// The shell that runs commands, or why there is none.
    pub(crate) shell: String,
    /// The sandbox of commands, what enforces it and what it does not stop.
    pub(crate) sandbox: String,
    /// Running tasks.
    pub(crate) running: usize,
    /// Ended tasks with processes left behind.
    pub(crate) lingering: usize,
    /// Ended tasks that are kept.
    pub(crate) ended: usize,
    /// The maximum number of running tasks.
    pub(crate) max_tasks: usize,
    /// The default deadline of a command in seconds.
    pub(crate) timeout_default_s: f64,
    /// The longest deadline in seconds.
    pub(crate) timeout_max_s: f64,
    /// The longest wait of one call in seconds.
    pub(crate) ceiling_s: f64,
    /// Clients whose calls have timed out.
    pub(crate) learned_ceilings: Vec<LearnedRow>,
    /// How often a server that was killed has been replaced in this connection.
    pub(crate) restarts: usize,
    /// Why, the last time; null if never.
    pub(crate) last_restart: Option<RestartRow>,
    /// Bytes of output on disk.
    pub(crate) spool_bytes: u64,
    /// The maximum number of bytes of output.
    pub(crate) spool_quota: u64,
    /// The state directory, or why there is none.
    pub(crate) state_directory: String,
    /// The database of the command history.
    pub(crate) database: DatabaseOutput,
    /// NEVERHANG circuits that refuse calls now.
    pub(crate) circuits_open: usize,
    /// The address of the monitor's page; null if HTTP is off.
    pub(crate) http: Option<String>,
    /// The listed hosts.
    pub(crate) hosts: Vec<HostRow>,
    /// Problems, in words.
    pub(crate) problems: Vec<String>,
}

/// A client whose calls wait less because one timed out.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LearnedRow {
    /// The client's name.
    pub(crate) client: String,
    /// The client's version.
    pub(crate) version: String,
    /// The longest wait of its calls in seconds, unless client_timeout is set.
    pub(crate) ceiling_s: f64,
    /// Seconds after which its call timed out.
    pub(crate) timed_out_after_s: f64,
}

impl LearnedRow {
    /// `learned    20 s at most for app 1.2, whose call timed out after 3.0s (client_timeout overrides)`
    pub(super) fn line(&self) -> String {
        let client = [self.client.as_str(), self.version.as_str()].join(" ");
        format!(
            "learned    {} s at most for {}, whose call timed out after {:.1}s (client_timeout overrides)",
            self.ceiling_s,
            truncate(client.trim_end(), CLIENT_CHARS),
            self.timed_out_after_s
        )
    }
}

impl From<Learned> for LearnedRow {
    fn from(learned: Learned) -> LearnedRow {
        LearnedRow {
            ceiling_s: learned.ceiling().as_secs_f64(),
            timed_out_after_s: learned.after_s,
            client: learned.name,
            version: learned.version,
        }
    }
}

/// The database and its state.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DatabaseOutput {
    /// Its path.
    pub(crate) path: String,
    /// Why it cannot be written, so that new records stay in memory; null if it can.
    pub(crate) failure: Option<String>,
    /// Records waiting to be written.
    pub(crate) queued: usize,
    /// Records that were dropped because too many were waiting.
    pub(crate) dropped: u64,
    /// Where a corrupt database was moved to; null if none was.
    pub(crate) moved_aside: Option<String>,
}

/// The result of `zsh_alan_stats`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatsOutput {
    /// The database.
    pub(crate) database: DatabaseOutput,
    /// Stored runs, and parts of pipelines.
    pub(crate) observations: u64,
    /// Different commands that have ended.
    pub(crate) commands: u64,
    /// Kinds of commands.
    pub(crate) templates: u64,
    /// Stored connections to hosts.
    pub(crate) ssh_observations: u64,
    /// Stored tables of options from manual pages.
    pub(crate) cached_options: u64,
    /// NEVERHANG circuits that refuse calls now.
    pub(crate) circuits_open: usize,
    /// The kinds that ran most often, at most ten.
    pub(crate) most_frequent: Vec<KindOutput>,
}

/// A kind of command.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KindOutput {
    /// Its template, as in git push origin *.
    pub(crate) template: String,
    /// Its runs.
    pub(crate) runs: u64,
    /// Runs that succeeded.
    pub(crate) successes: u64,
    /// Runs that were killed.
    pub(crate) kills: u64,
}

/// The result of `zsh_alan_query`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueryOutput {
    /// The command, without secrets.
    pub(crate) command: String,
    /// The hash of the command; equal commands have equal hashes.
    pub(crate) hash: String,
    /// Its kind.
    pub(crate) template: String,
    /// What a run would report now, warnings and information mixed.
    pub(crate) insights: Vec<InsightOutput>,
    /// Stored runs that the rates are based on, at most 200.
    pub(crate) runs: usize,
    /// The share that succeeded, 0 to 1; the weight of a run halves every day. Null without runs.
    pub(crate) success_rate: Option<f64>,
    /// The share that timed out, weighted the same way.
    pub(crate) timeout_rate: Option<f64>,
    /// Equal results in a row.
    pub(crate) streak: StreakOutput,
    /// Its recent runs in this session.
    pub(crate) retry: RetryOutput,
    /// Recent runs of other commands of its kind; not counted if it is a retry itself.
    pub(crate) similar: RecentOutput,
    /// Failures of its kind in a row in this session.
    pub(crate) failures: u32,
    /// Kills of its kind.
    pub(crate) kills: KillCounts,
    /// How long it takes; null while fewer than 3 runs are known.
    pub(crate) estimate: Option<EstimateOutput>,
    /// What it usually costs; null if no run was measured.
    pub(crate) usual_cost: Option<UsualCostOutput>,
    /// The host that it connects to; null if none.
    pub(crate) host: Option<HostHistory>,
    /// The command that it runs there; null if none.
    pub(crate) remote: Option<RemoteHistory>,
    /// Its NEVERHANG circuit; null if it has not timed out recently.
    pub(crate) circuit: Option<CircuitOutput>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InsightOutput {
    /// info or warning.
    pub(crate) level: &'static str,
    /// The text.
    pub(crate) message: String,
}

/// Equal results in a row.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StreakOutput {
    /// Successes in a row, or failures as a negative number.
    pub(crate) current: i64,
    /// The most successes in a row.
    pub(crate) longest_success: i64,
    /// The most failures in a row.
    pub(crate) longest_fail: i64,
}

/// Recent runs of the command.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RetryOutput {
    /// The length of the window in minutes.
    pub(crate) window_minutes: u32,
    /// Its runs within that time.
    pub(crate) previous: usize,
    /// Runs that succeeded.
    pub(crate) succeeded: usize,
}

/// Recent runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecentOutput {
    /// How many runs.
    pub(crate) runs: usize,
    /// Runs that succeeded.
    pub(crate) succeeded: usize,
}

/// What a command usually costs: medians of its newest runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsualCostOutput {
    /// Seconds of CPU time.
    pub(crate) cpu_s: f64,
    /// The most memory at once, in bytes; null if it is too little to be measured.
    pub(crate) peak_bytes: Option<u64>,
    /// The runs that were measured.
    pub(crate) runs: usize,
}

/// How long a command takes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EstimateOutput {
    /// exact: from runs of this very command; template: of its kind.
    pub(crate) basis: &'static str,
    /// The kind.
    pub(crate) command_template: String,
    /// Completed runs that it is based on.
    pub(crate) sample_size: usize,
    /// Half of the runs end within this time, in seconds.
    pub(crate) median_duration_s: f64,
    /// Whether the median is only a lower bound, because too many runs were cut off.
    pub(crate) median_at_least: bool,
    /// Nine in ten runs end within this time, in seconds.
    pub p90_duration_s: f64,
    /// Whether the p90 is not measured: with fewer than 9 completed runs it is a prediction, and if
    /// too many runs were cut off a lower bound.
    pub p90_at_least: bool,
}

/// A circuit.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CircuitOutput {
    /// The hash of its command, which zsh_neverhang_reset accepts too.
    pub(crate) hash: String,
    /// The command without secrets, its first 200 bytes.
    pub(crate) command: String,
    /// CLOSED, OPEN or HALF_OPEN.
    pub(crate) state: &'static str,
    /// Timeouts that count.
    pub(crate) timeouts: usize,
    /// The longest deadline among them, in seconds; a call with twice that is let through.
    pub(crate) longest_s: Option<f64>,
    /// Whether a call with the same deadline would be refused now.
    pub(crate) refuses: bool,
    /// Seconds until the next attempt; 0 if a call is let through.
    pub(crate) retry_in_s: f64,
}

/// The result of `zsh_neverhang_status`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CircuitsOutput {
    /// Circuits with timeouts, those that are not closed first.
    pub(crate) circuits: Vec<CircuitOutput>,
}

/// The result of `zsh_neverhang_reset`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResetOutput {
    /// The circuits that were closed.
    pub(crate) closed: Vec<ClosedOutput>,
    /// Why circuits in the database were not changed; null if all were.
    pub(crate) failure: Option<String>,
}

/// A circuit that was closed, as it was before.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClosedOutput {
    /// The hash of its command.
    pub(crate) hash: String,
    /// The command without secrets, its first 200 bytes.
    pub(crate) command: String,
    /// CLOSED (with timeouts), OPEN or HALF_OPEN.
    pub(crate) state: &'static str,
    /// Timeouts that were forgotten.
    pub(crate) timeouts: usize,
}

/// The schema of a type, inline.
pub(super) fn generated_schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The schema of a structured result, in which members may be null. Every result may have notices.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = generated_schema::<T>();
    drop_noise(&mut schema, true);
    if let Some(properties) = schema.get_mut("properties") {
        let notices = json!({
            "type": "array",
            "items": {"type": "string"},
            "description": "News of other tasks, as in the text; missing if there is none.",
        });
        put(properties, "notices", notices);
    }
    schema
}

/// Removes parts that clients do not need: the names and documentation of types, and the widths of
/// numbers.
fn drop_noise(schema: &mut Value, is_schema: bool) {
    match schema {
        Value::Object(members) => {
            if is_schema {
                members.remove("title");
                members.remove("format");
                if members.get("type") == Some(&json!("object")) {
                    members.remove("description");
                }
            }
            for (name, member) in members.iter_mut() {
                drop_noise(member, name != "properties");
            }
        }
        Value::Array(members) => members.iter_mut().for_each(|member| drop_noise(member, true)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_inline_and_keep_what_may_be_null() {
        let schema = schema_of::<TasksOutput>();
        assert!(!schema.to_string().contains("$ref"), "{schema}");
        assert_eq!(schema["type"], json!("object"));
        let row = &schema["properties"]["tasks"]["items"]["properties"];
        assert_eq!(row["exit_code"]["type"], json!(["integer", "null"]));
        assert_eq!(row["pid"]["type"], json!("integer"));
        let described = row["description"]["description"].as_str();
        assert_eq!(described, Some("The caller's description."));
    }
}
