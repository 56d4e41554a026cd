//! The tools: their names, arguments, schemas and descriptions.
//!
//! The schemas are generated from the argument types: closed, inline, and the same bytes every time.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::clients::KeptPart;
use super::outputs::{
    self, CircuitsOutput, HealthOutput, QueryOutput, ResetOutput, StatsOutput, TasksOutput,
};
use crate::protocol::message::put;
use crate::shell::mode::ShellName;

/// The shell that the texts about commands name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellText {
    Zsh,
    /// zsh with `dialect: bash`.
    ZshAsBash,
    Bash,
    Sh,
}

impl ShellText {
    /// A text that names zsh, with this shell instead.
    fn named(self, text: &str) -> String {
        match self {
            ShellText::Zsh => text.to_owned(),
            ShellText::ZshAsBash => text.replacen(
                "Runs a command in zsh",
                "Runs a command in zsh, with options for text written for bash",
                1,
            ),
            ShellText::Bash => text.replacen("command in zsh", "command in bash", 1),
            ShellText::Sh => text.replacen("command in zsh", "command in sh", 1),
        }
    }

    /// The descriptions of arguments that are not those for zsh.
    fn arguments(self) -> &'static [(&'static str, &'static str)] {
        match self {
            ShellText::Zsh => &[],
            ShellText::ZshAsBash => {
                &[("command", "Text for bash, run by zsh; several lines are fine.")]
            }
            ShellText::Bash => &[
                ("command", "Text for bash; several lines are fine."),
                ("shell", "zsh for text written for zsh."),
            ],
            ShellText::Sh => &[("command", "Text for sh; several lines are fine.")],
        }
    }
}

/// The instructions for a client's model, about the server as a whole.
pub(super) fn instructions(kept: KeptPart, shell: ShellText) -> String {
    let own_lines = match kept {
        KeptPart::Ends => "Only what follows `─── TASK` is zsh-tool's.",
        KeptPart::Head => "Output is between `───` and `─── TASK`; only the rest is zsh-tool's.",
    };
    let text = INSTRUCTIONS.replace("{own}", own_lines);
    match shell {
        ShellText::Zsh => text,
        ShellText::ZshAsBash => format!("{text} Commands run in zsh, with options for bash text."),
        ShellText::Bash => format!("{text} Commands run in bash."),
        ShellText::Sh => format!("{text} Commands run in sh."),
    }
}

const INSTRUCTIONS: &str = "\
Prefer `zsh` to your built-in shell (Bash, exec_command) for builds, tests, servers, ssh and \
anything slow, interactive or apt to hang: it returns while a command runs, says why it is silent, and loses no \
output and no failure. \
A command that outlasts yield_after continues as a task: wait with one zsh_poll (wait_for=end and a long listen, or \
until=REGEX), not many short ones; `next:` names the call. \
⌨ WAITING FOR INPUT or A PASSWORD: answer with zsh_send. \
{own} \
exit=N is the shell's own exit code, pipestatus=[…] that of each part of a pipeline. \
A.L.A.N. lines tell how such commands went: act on ⚠. \
`┌ notify` reports tasks that ended since. `zsh-tool help reading` explains answers.";

/// Arguments of `zsh`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunArguments {
    /// Text for zsh.
    pub command: String,
    /// Run it on this listed host.
    pub host: Option<String>,
    /// bash for text written for bash.
    pub shell: Option<ShellName>,
    /// Deadline in seconds, at most 600; 0 = none, with background, detach, stdin_open or pty. Default: after 120, if in trouble.
    #[schemars(range(min = 0))]
    pub timeout: Option<f64>,
    /// progress: extended on progress.
    pub timeout_mode: Option<TimeoutMode>,
    /// MB of memory; killed above.
    #[schemars(range(min = 16))]
    pub memory_max: Option<u64>,
    /// Tighter: workspace, read-only, network=off.
    pub sandbox: Option<String>,
    /// Seconds until it returns while the command runs. Default 2.
    #[schemars(range(min = 0, max = 600))]
    pub yield_after: Option<f64>,
    /// Purpose, for zsh_tasks.
    pub description: Option<String>,
    /// Run it on a terminal.
    pub pty: Option<bool>,
    /// Directory. Default: the project's.
    pub cwd: Option<String>,
    /// Variables to add.
    pub env: Option<BTreeMap<String, String>>,
    /// Start with the directory and exports of its last command.
    pub session: Option<String>,
    /// Text for stdin, then end of file.
    pub stdin: Option<String>,
    /// Keep stdin open for zsh_send.
    pub stdin_open: Option<bool>,
    /// separate: apart from stdout.
    pub stderr: Option<StderrMode>,
    /// For servers and long jobs: returns at once, no deadline.
    pub background: Option<bool>,
    /// Like background; outlives the server.
    pub detach: Option<bool>,
    /// Hours until it is killed. Default 24; 0 = never.
    #[schemars(range(min = 0))]
    pub detached_hours: Option<f64>,
    /// Return when a line matches (Rust regex).
    pub until: Option<String>,
    /// Return when it serves a port: 3000, host:port.
    pub until_port: Option<String>,
    /// Terminal lines. Default 24.
    #[schemars(range(min = 1, max = 500))]
    pub rows: Option<u16>,
    /// Terminal columns. Default 80.
    #[schemars(range(min = 2, max = 500))]
    pub cols: Option<u16>,
    /// Most characters of output. Default 30000.
    #[schemars(range(min = 200, max = 490_000))]
    pub max_output: Option<usize>,
}

/// Arguments of `zsh_poll`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PollArguments {
    /// `task=…` of a result.
    pub task_id: String,
    /// Show all output, not only new.
    pub full_output: Option<bool>,
    /// Seconds to wait at most. Default 2.
    #[schemars(range(min = 0, max = 600))]
    pub listen: Option<f64>,
    /// end: until the task ends, waits for input or is stopped. Default output.
    pub wait_for: Option<WaitFor>,
    /// Wait until a new line matches.
    pub until: Option<String>,
    /// As in zsh.
    pub until_port: Option<String>,
    /// First line to show.
    #[schemars(range(min = 1))]
    pub from_line: Option<u64>,
    /// Where in from_line to begin.
    #[schemars(range(min = 1))]
    pub from_char: Option<u64>,
    /// Last line to show.
    #[schemars(range(min = 1))]
    pub to_line: Option<u64>,
    /// Show only lines that match.
    pub grep: Option<String>,
    /// Lines around each match.
    #[schemars(range(min = 0, max = 100))]
    pub context: Option<usize>,
    /// Show the screen (pty).
    pub screen: Option<bool>,
    /// From its separate stderr.
    pub stderr: Option<bool>,
    /// Compare with the last run.
    pub diff: Option<DiffWith>,
    /// As in zsh.
    #[schemars(range(min = 200, max = 490_000))]
    pub max_output: Option<usize>,
}

/// Where the stderr of a command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StderrMode {
    Separate,
}

/// What `zsh_poll` compares the output with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffWith {
    Last,
}

/// Arguments of `zsh_send`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendArguments {
    /// `task=…` of a result.
    pub task_id: String,
    /// Text to type.
    pub input: Option<String>,
    /// Enter follows input. Default true.
    pub enter: Option<bool>,
    /// Name of a listed secret, typed with Enter.
    pub secret_env: Option<String>,
    /// Such as Enter, Escape, PageUp, F1; characters; chords: C-c, M-x, S-Tab.
    pub keys: Option<Vec<String>>,
    /// End the input: closes the pipe, or types Ctrl-D.
    pub eof: Option<bool>,
    /// New terminal lines; needs cols.
    #[schemars(range(min = 1, max = 500))]
    pub rows: Option<u16>,
    /// New terminal columns; needs rows.
    #[schemars(range(min = 2, max = 500))]
    pub cols: Option<u16>,
    /// Seconds to wait at most. Default 2.
    #[schemars(range(min = 0, max = 600))]
    pub listen: Option<f64>,
    /// As in zsh_poll.
    pub until: Option<String>,
}

/// Arguments of `zsh_kill`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KillArguments {
    /// `task=…` of a result.
    pub task_id: String,
    /// Send only this signal: INT, TERM, KILL, HUP, QUIT, USR1, USR2, STOP or CONT.
    pub signal: Option<String>,
}

/// Arguments of `zsh_tasks`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TasksArguments {
    /// List the tasks of this host instead.
    pub host: Option<String>,
    /// List ended tasks too. Default false.
    pub all: Option<bool>,
    /// Maximum number of tasks, newest first. Default 50, from 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
}

/// Arguments of `zsh_alan_query`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryArguments {
    /// The command text, as for zsh. It is not run.
    pub command: String,
    /// As in zsh.
    pub shell: Option<ShellName>,
    /// Look the command up on this host.
    pub host: Option<String>,
}

/// Arguments of `zsh_neverhang_reset`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetArguments {
    /// The command text as it was refused, or the hash that zsh_neverhang_status shows. Default: all circuits.
    pub command: Option<String>,
}

/// For tools without arguments.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// The kind of a command's deadline.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum TimeoutMode {
    Deadline,
    Progress,
}

/// What `zsh_poll` waits for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum WaitFor {
    Output,
    End,
}

/// The tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolName {
    /// `zsh`
    Run,
    /// `zsh_poll`
    Poll,
    /// `zsh_send`
    Send,
    /// `zsh_kill`
    Kill,
    /// `zsh_tasks`
    Tasks,
    /// `zsh_health`
    Health,
    /// `zsh_alan_stats`
    AlanStats,
    /// `zsh_alan_query`
    AlanQuery,
    /// `zsh_neverhang_status`
    NeverhangStatus,
    /// `zsh_neverhang_reset`
    NeverhangReset,
}

/// What a tool may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    ReadOnly,
    Idempotent,
    Destructive,
    DestructiveIdempotent,
    DestructiveOpenWorld,
}

/// A tool as clients see it.
pub struct Tool {
    pub name: ToolName,
    /// What clients call it.
    pub wire_name: &'static str,
    pub title: &'static str,
    /// What it does and when to use it.
    pub description: &'static str,
    effect: Effect,
    /// The closed schema of its arguments.
    pub schema: Value,
    /// The schema of its structured result, if any. Clients show a structured result instead of the
    /// text, so tools about commands have none.
    output: Option<Value>,
}

/// The maximum number of characters of a result: Claude Code passes on 495,000, and of a longer
/// result only the beginning (measured).
pub(crate) const RESULT_CHARS: usize = 490_000;

/// All tools, in the order in which they are listed.
pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        Tool {
            name: ToolName::Run,
            wire_name: "zsh",
            title: "Run a command in zsh",
            description: "Runs a command in zsh; prefer it to a built-in shell for what is slow, interactive or may \
                hang. Returns when it ends, or after yield_after seconds with the output so \
                far, while it continues as a task. stdin is \
                empty: pass pty: true, a terminal, for passwords, REPLs and editors, or stdin_open, a pipe, \
                and answer with zsh_send. cd and export carry over within a session. After timeout \
                seconds the whole process tree is killed; processes left behind (server &) are named.",
            effect: Effect::DestructiveOpenWorld,
            schema: schema_of::<RunArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Poll,
            wire_name: "zsh_poll",
            title: "Read a task's output",
            description: "Shows a task's new output, with line numbers, and its status. Waits up to \
                listen seconds for output; wait_for=end: for the end; until=REGEX: for a line. from_line, to_line and grep show any part again.",
            effect: Effect::ReadOnly,
            schema: schema_of::<PollArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Send,
            wire_name: "zsh_send",
            title: "Type into a task",
            description: "Types into a task with pty or stdin_open and returns the response or the \
                screen. Order: rows and cols, input, keys such as [\"Escape\", \":\", \"q\", \"Enter\"], eof. \
                To interrupt a program that reads no input: zsh_kill signal=INT.",
            effect: Effect::Destructive,
            schema: schema_of::<SendArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Kill,
            wire_name: "zsh_kill",
            title: "Kill a task",
            description: "Kills a task and all its processes, also those left behind after its end: TERM, then \
                KILL after 2 s. The receipt says how many are gone, which survived, and why.",
            effect: Effect::DestructiveIdempotent,
            schema: schema_of::<KillArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Tasks,
            wire_name: "zsh_tasks",
            title: "List tasks",
            description: "Lists running tasks and tasks with processes left behind: id, status, age, silence, \
                what it waits for or what stopped it, command. With all, also ended tasks.",
            effect: Effect::ReadOnly,
            schema: schema_of::<TasksArguments>(),
            output: Some(outputs::schema_of::<TasksOutput>()),
        },
        Tool {
            name: ToolName::Health,
            wire_name: "zsh_health",
            title: "Health of the server",
            description: "Shows the server's version, shell, limits and their use, state directory, and configuration \
                problems.",
            effect: Effect::ReadOnly,
            schema: schema_of::<NoArguments>(),
            output: Some(outputs::schema_of::<HealthOutput>()),
        },
        Tool {
            name: ToolName::AlanStats,
            wire_name: "zsh_alan_stats",
            title: "Statistics of the command history",
            description: "Shows what the command history (A.L.A.N.) holds: the number of runs, the most frequent kinds \
                of commands, and the path of the database.",
            effect: Effect::ReadOnly,
            schema: schema_of::<NoArguments>(),
            output: Some(outputs::schema_of::<StatsOutput>()),
        },
        Tool {
            name: ToolName::AlanQuery,
            wire_name: "zsh_alan_query",
            title: "History of a command",
            description: "Shows the history of a command without running it: how often it succeeded, how long it takes, \
                retries in this session, its host, pitfalls in its text, and whether NEVERHANG would refuse it. Call it \
                before a long or risky command.",
            effect: Effect::ReadOnly,
            schema: schema_of::<QueryArguments>(),
            output: Some(outputs::schema_of::<QueryOutput>()),
        },
        Tool {
            name: ToolName::NeverhangStatus,
            wire_name: "zsh_neverhang_status",
            title: "List commands that timed out",
            description: "Lists the NEVERHANG circuits: commands that timed out recently, which of them are refused \
                now, and the seconds until each may run again. Only that exact command is refused, and not if it is \
                given twice the timeout.",
            effect: Effect::ReadOnly,
            schema: schema_of::<NoArguments>(),
            output: Some(outputs::schema_of::<CircuitsOutput>()),
        },
        Tool {
            name: ToolName::NeverhangReset,
            wire_name: "zsh_neverhang_reset",
            title: "Let refused commands run",
            description: "Closes NEVERHANG circuits and forgets their timeouts, so that refused commands may run \
                again: one command's circuit, or all. Call it once the cause of the timeouts is fixed.",
            effect: Effect::Idempotent,
            schema: schema_of::<ResetArguments>(),
            output: Some(outputs::schema_of::<ResetOutput>()),
        },
    ]
});

/// The answer to `tools/list`. Some programs take an optional argument for a required one, unless it
/// is marked as nullable (smolagents).
pub(crate) fn list(marks_nullable: bool, shell: ShellText) -> Value {
    let tools = TOOLS.iter().map(|tool| tool.listed(marks_nullable, shell));
    #[cfg(feature = "conformance")]
    let tools = tools.chain(super::conformance::listed());
    let tools: Vec<Value> = tools.collect();
    json!({ "tools": tools })
}

/// Looks a tool up by the name that clients use.
pub(crate) fn find(wire_name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.wire_name == wire_name)
}

impl Tool {
    /// Whether clients that load tools on demand should always load it.
    fn is_always_loaded(&self) -> bool {
        matches!(self.name, ToolName::Run | ToolName::Poll | ToolName::Send | ToolName::Kill)
    }

    fn listed(&self, marks_nullable: bool, shell: ShellText) -> Value {
        let mut listed = Map::new();
        listed.insert("name".into(), self.wire_name.into());
        listed.insert("title".into(), shell.named(self.title).into());
        listed.insert("description".into(), shell.named(self.description).into());
        let mut schema = as_listed(self.schema.clone(), marks_nullable);
        let others = shell.arguments().iter().filter(|_| self.name == ToolName::Run);
        for (argument, description) in others {
            if let Some(argument) = schema.pointer_mut(&format!("/properties/{argument}")) {
                put(argument, "description", *description);
            }
        }
        listed.insert("inputSchema".into(), schema);
        if let Some(output) = &self.output {
            listed.insert("outputSchema".into(), output.clone());
        }
        listed.insert(
            "annotations".into(),
            match self.effect {
                Effect::ReadOnly => json!({"readOnlyHint": true, "openWorldHint": false}),
                Effect::Idempotent => json!({
                    "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false
                }),
                Effect::Destructive => {
                    json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": false})
                }
                Effect::DestructiveIdempotent => json!({
                    "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false
                }),
                Effect::DestructiveOpenWorld => {
                    json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true})
                }
            },
        );
        let mut meta = Map::new();
        if self.is_always_loaded() {
            meta.insert("anthropic/alwaysLoad".into(), true.into());
        }
        if matches!(self.name, ToolName::Run | ToolName::Poll) {
            meta.insert("anthropic/maxResultSizeChars".into(), RESULT_CHARS.into());
        }
        if !meta.is_empty() {
            listed.insert("_meta".into(), meta.into());
        }
        listed.into()
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = outputs::generated_schema::<T>();
    if let Value::Object(fields) = &mut schema {
        // Clients do not need the type's name and documentation.
        fields.remove("title");
        fields.remove("description");
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    simplify(&mut schema);
    schema
}

/// A schema for clients. 0 leaves an optional argument out (see [`super::arguments`]), so that some
/// clients' own checks must let it pass; some of them take what is not nullable for required.
fn as_listed(mut schema: Value, marks_nullable: bool) -> Value {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|names| names.iter().any(|it| it == name));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if is_required(name) {
            continue;
        }
        if property.get("minimum").is_some() {
            put(property, "minimum", 0);
        }
        if marks_nullable {
            put(property, "nullable", true);
        }
    }
    schema
}

/// Replaces unions with null by the plain type: callers leave optional arguments out.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("format");
            if let Some(Value::Array(types)) = fields.get("type")
                && let Some(only) = types.iter().find(|name| *name != "null").cloned()
            {
                fields.insert("type".into(), only);
            }
            if let Some(Value::Array(choices)) = fields.remove("anyOf") {
                let null = json!("null");
                let choice = choices.into_iter().find(|choice| choice.get("type") != Some(&null));
                if let Some(Value::Object(choice)) = choice {
                    fields.extend(choice);
                }
            }
            if let Some(Value::Array(values)) = fields.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every session pays for the instructions and the tools that are always loaded: 7,000
    /// characters with what a list of tools adds.
    const ALWAYS_LOADED_CHARS: usize = 6_980;

    #[test]
    fn schemas_are_closed_inline_and_described() {
        for tool in TOOLS.iter() {
            let text = tool.schema.to_string();
            assert!(!text.contains("$ref") && !text.contains("null\""), "{text}");
            assert_eq!(tool.schema["additionalProperties"], json!(false), "{}", tool.wire_name);
            for (name, property) in tool.schema["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].is_string(), "{name} of {}", tool.wire_name);
                assert!(property["type"].is_string(), "{name} of {}: {property}", tool.wire_name);
            }
        }
    }

    #[test]
    fn what_every_session_loads_is_short() {
        // As Claude Code shows them to its model.
        let always = TOOLS.iter().filter(|tool| tool.is_always_loaded()).map(|tool| {
            json!({
                "name": format!("mcp__zsh-tool__{}", tool.wire_name),
                "description": tool.description,
                "input_schema": tool.schema,
            })
        });
        let tools: usize = always.map(|tool| tool.to_string().chars().count()).sum();
        let instructions = instructions(KeptPart::Ends, ShellText::Zsh);
        let all = instructions.chars().count() + tools;
        assert!((4_000..=ALWAYS_LOADED_CHARS).contains(&all), "{all} characters");
        // Some clients show only this much of the instructions.
        let beginning: String = instructions.chars().take(250).collect();
        assert!(beginning.contains("Prefer `zsh`"), "{beginning}");
        assert!(beginning.contains("loses no output"), "{beginning}");
    }

    #[test]
    fn descriptions_fit_what_clients_show() {
        let instructions = instructions(KeptPart::Head, ShellText::ZshAsBash);
        assert!(instructions.len() <= 2000, "{}", instructions.len());
        for tool in TOOLS.iter() {
            assert!(tool.description.len() <= 2000);
        }
    }
}
