//! The shape of structured results, as tools that have one declare it (`outputSchema`).
//!
//! The types here are read by nobody: they describe, member by member, what
//! [`overview`](super::overview) writes. Tests hold one to the other.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::memory::outputs::DatabaseOutput;

/// A task in a list.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct TaskRow {
    /// Its id.
    task_id: String,
    /// running, completed, failed, timeout, killed or interrupted.
    status: String,
    /// Of its shell; null while it runs.
    exit_code: Option<i32>,
    /// Milliseconds since its start.
    age_ms: u64,
    /// Milliseconds since its last output; null when none can come.
    silent_ms: Option<u64>,
    /// What it waits for: input or password; null when for nothing, or when that is not known.
    waiting_for: Option<String>,
    /// States of its processes that are worth knowing.
    conditions: Vec<ConditionRow>,
    /// Processes that outlived its shell.
    leftovers: u64,
    /// The first line of its command, shortened.
    command: String,
    /// What the caller said it is for.
    description: Option<String>,
    /// The pid of its shell.
    pid: i32,
}

/// A state of a process that is worth knowing.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct ConditionRow {
    /// stopped, disk_sleep, zombie_leader or other_user.
    kind: String,
    /// The pid of the process.
    pid: i32,
    /// Its name.
    name: String,
    /// The signal that stopped it; null when that is not known, missing when none did.
    #[schemars(default)]
    signal: Option<String>,
    /// Whether the task stands still because of it; missing when it is not stopped.
    #[schemars(default)]
    holds_up: Option<bool>,
    /// Whose it is; missing when it is this user's.
    #[schemars(default)]
    user: Option<String>,
}

/// A process of some task, but which is not known.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct StrayRow {
    /// Its pid.
    pid: i32,
    /// Its name.
    name: String,
}

/// What `zsh_tasks` gives.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub struct TasksOutput {
    /// The tasks, newest first.
    tasks: Vec<TaskRow>,
    /// How many more there are than limit allows.
    not_listed: u64,
    /// Processes that belong to a task, but which is not known.
    unattributed: Vec<StrayRow>,
}

/// What `zsh_health` gives.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub struct HealthOutput {
    /// ok or problems.
    status: String,
    /// Of the server.
    version: String,
    /// The server's name in the state directory.
    instance: String,
    /// The shell that runs commands, or why there is none.
    shell: String,
    /// Running tasks.
    running: u64,
    /// Ended tasks whose processes live on.
    lingering: u64,
    /// Ended tasks that are kept.
    ended: u64,
    /// Tasks that may run at once.
    max_tasks: u64,
    /// Seconds of a command's deadline that names none.
    timeout_default_s: f64,
    /// Seconds of the longest deadline.
    timeout_max_s: f64,
    /// Bytes of output on disk.
    spool_bytes: u64,
    /// Bytes of output that may be.
    spool_quota: u64,
    /// Where state is kept, or why nowhere.
    state_directory: String,
    /// The database of what commands did.
    database: DatabaseOutput,
    /// NEVERHANG circuits that refuse calls at the moment.
    circuits_open: u64,
    /// Where the monitor's page is; null when HTTP is off.
    http: Option<String>,
    /// What is wrong, in words.
    problems: Vec<String>,
}

/// The schema of a structured result: inline, with null where a member may be so.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    drop_noise(&mut schema, true);
    schema
}

/// Leaves out what says nothing to a client: the types' own names and documentation, and
/// the widths of numbers.
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
        Value::Array(members) => members
            .iter_mut()
            .for_each(|member| drop_noise(member, true)),
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
        assert_eq!(described, Some("What the caller said it is for."));
    }
}
