//! The tools: their names, arguments, schemas and descriptions.
//!
//! The schemas come from the argument types, closed and inline, the same bytes every
//! time.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::choices::{TimeoutMode, WaitFor};
use super::memory::outputs::{CircuitsOutput, QueryOutput, ResetOutput, StatsOutput};
use super::outputs::{self, HealthOutput, TasksOutput};

/// What the client is told of the server as a whole.
pub const INSTRUCTIONS: &str = "\
zsh-tool runs shell commands in zsh and tells the truth about them. \
`zsh` returns when the command ends, or after yield_after seconds (2) with the output so far while the command goes on: \
then use zsh_poll with wait_for=end and listen=50 (or until=REGEX) instead of polling often. \
zsh_poll shows only output that no result has shown yet, with line numbers; full_output, from_line/to_line and grep read \
the rest, also after the end. \
exit=N is the shell's own exit code; pipestatus=[…] shows which part of a pipeline failed. \
A command that leaves processes behind (server &) ends all the same and names them; poll it with until=\"ready\", end \
them with zsh_kill. For commands that take long or never end pass background: true. \
Commands have no terminal and stdin is empty: for programs that ask on a terminal (passwords, REPLs, editors) pass \
pty: true; for a pipe that stays open pass stdin_open: true. A task found waiting for input returns at once and says so \
(⌨ WAITING FOR INPUT or A PASSWORD): answer with zsh_send (secret_env types a secret that the user \
listed by name, unseen); so does a stopped one (⏸ STOPPED). \
Full-screen programs (pty) show their screen; zsh_send presses keys by name. \
Unless the user has set keep_cwd, every command starts in the project directory: pass cwd to run elsewhere. \
A.L.A.N. lines tell how such commands went before: act on ⚠, change something before you retry what it says fails. \
Text ahead of a result that begins with `┌ notify` tells of tasks that ended meanwhile.";

/// Arguments of `zsh`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunArguments {
    /// The command text, run by zsh as it stands; several lines are fine. At most 1 MiB.
    pub command: String,
    /// Deadline in seconds, after which the whole process tree is ended. Default 120, at most 600 (both configurable); 0 = none, with background, stdin_open or pty.
    #[schemars(range(min = 0))]
    pub timeout: Option<f64>,
    /// deadline: timeout holds in any case; progress: it moves while output, I/O or processes show that the command gets on, up to the maximum, and ends what is stuck. Default deadline.
    pub timeout_mode: Option<TimeoutMode>,
    /// Seconds until the call returns with the command still running. Default 2, from 0 to 50.
    #[schemars(range(min = 0, max = 50))]
    pub yield_after: Option<f64>,
    /// What the command is for, in a few words; shown in zsh_tasks.
    pub description: Option<String>,
    /// Run on a terminal of its own: for passwords, REPLs, editors, programs that want a tty. While a full-screen program runs there, zsh and zsh_send show its screen instead of lines. Default false.
    pub pty: Option<bool>,
    /// Directory to start in, absolute or relative to the project directory. Default: the project directory.
    pub cwd: Option<String>,
    /// Environment variables to add, name to value.
    pub env: Option<BTreeMap<String, String>>,
    /// Text for the command's stdin, then end of file. Default: /dev/null.
    pub stdin: Option<String>,
    /// Keep stdin open as a pipe for zsh_send. Default false.
    pub stdin_open: Option<bool>,
    /// For commands that take long or never end: returns after 0.3 s and has no deadline unless timeout is given. Default false.
    pub background: Option<bool>,
    /// Return as soon as a line of output matches this regular expression (Rust syntax).
    pub until: Option<String>,
    /// Terminal height in lines with pty. Default 24, from 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    pub rows: Option<u16>,
    /// Terminal width in columns with pty. Default 80, from 2 to 500.
    #[schemars(range(min = 2, max = 500))]
    pub cols: Option<u16>,
    /// Characters of output in the result; what is left out is named and can be read by zsh_poll. Default 30000, from 200 to 1000000.
    #[schemars(range(min = 200, max = 1_000_000))]
    pub max_output: Option<usize>,
}

/// Arguments of `zsh_poll`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PollArguments {
    /// The task, as `task=…` of an earlier result names it.
    pub task_id: String,
    /// Show the whole output instead of what is new. Default false.
    pub full_output: Option<bool>,
    /// Seconds to wait at most. Default 2, from 0 to 50.
    #[schemars(range(min = 0, max = 50))]
    pub listen: Option<f64>,
    /// output: return at the first new output; end: go on through output until the task ends, waits for input or is stopped. Default output.
    pub wait_for: Option<WaitFor>,
    /// Return as soon as a line not shown yet matches this regular expression (Rust syntax); output alone does not end the wait then.
    pub until: Option<String>,
    /// First line to read again, counted from 1; does not wait.
    #[schemars(range(min = 1))]
    pub from_line: Option<u64>,
    /// Last line to read again; does not wait.
    #[schemars(range(min = 1))]
    pub to_line: Option<u64>,
    /// Show only lines that match this regular expression (Rust syntax), with their numbers; does not wait.
    pub grep: Option<String>,
    /// Lines of context around each match of grep. Default 0, from 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub context: Option<usize>,
    /// Show the terminal's screen as a person sees it now (vim, htop, less, menus) instead of output: text without colours, cursor and size; only with pty. At once unless there is new output or listen, wait_for or until is passed; output stays new for the next poll. Default false.
    pub screen: Option<bool>,
    /// Characters of output in the result. Default 30000, from 200 to 1000000.
    #[schemars(range(min = 200, max = 1_000_000))]
    pub max_output: Option<usize>,
}

/// Arguments of `zsh_send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendArguments {
    /// The task, as `task=…` of an earlier result names it.
    pub task_id: String,
    /// Text to type, before keys. On a terminal a line's end is typed as Enter, and several lines arrive as one paste where the program asks for that.
    pub input: Option<String>,
    /// Whether Enter follows input. Default true.
    pub enter: Option<bool>,
    /// Name of a secret that the user listed in the config: typed, with Enter, while the terminal hides input (pty only), before keys, and masked in all output. Not together with input.
    pub secret_env: Option<String>,
    /// Keys to press on a terminal (pty), in order, after input: Enter Tab Escape Space Backspace Insert Delete Up Down Left Right Home End PageUp PageDown F1 to F12, single characters, and chords: C-c, M-x, C-M-x, S-Tab, C-Left. A key right after Escape may be taken as M-: end the call with Escape where that matters.
    pub keys: Option<Vec<String>>,
    /// End of input, after input and keys: closes the pipe, or types the terminal's end-of-file character (Ctrl-D), in mid-line twice so that the program sees the end; line editors take it on an empty line only. Default false.
    pub eof: Option<bool>,
    /// New terminal height in lines, together with cols. From 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    pub rows: Option<u16>,
    /// New terminal width in columns, together with rows. From 2 to 500.
    #[schemars(range(min = 2, max = 500))]
    pub cols: Option<u16>,
    /// Seconds to wait for what the input brings; ends 80 ms after output falls silent. Default 2, from 0 to 50.
    #[schemars(range(min = 0, max = 50))]
    pub listen: Option<f64>,
}

/// Arguments of `zsh_kill`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KillArguments {
    /// The task, as `task=…` of an earlier result names it.
    pub task_id: String,
    /// One signal to the whole tree: INT, TERM, KILL, HUP, QUIT, USR1, USR2, STOP or CONT. Default: TERM, then KILL to what is left after 2 s.
    pub signal: Option<String>,
}

/// Arguments of `zsh_tasks`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TasksArguments {
    /// List ended tasks too. Default false.
    pub all: Option<bool>,
    /// How many at most, newest first. Default 50, from 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
}

/// Arguments of `zsh_alan_query`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryArguments {
    /// The command text, as it would be passed to zsh. It is not run.
    pub command: String,
}

/// Arguments of `zsh_neverhang_reset`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetArguments {
    /// The command text as it was refused, or the hash that zsh_neverhang_status shows. Default: all circuits.
    pub command: Option<String>,
}

/// For tools without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// Which tool.
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
    DestructiveOnce,
    DestructiveOpenWorld,
}

/// A tool as clients see it.
pub struct Tool {
    /// Which.
    pub name: ToolName,
    /// What clients call it.
    pub wire_name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    /// Kept at hand by clients that otherwise load tools on demand.
    always_loaded: bool,
    large_results: bool,
    /// The closed schema of its arguments.
    pub schema: Value,
    /// The schema of its structured result, where it has one. Clients show a structured
    /// result instead of the text, so what runs commands has none.
    output: Option<Value>,
}

/// The longest result that Claude Code is asked to pass on uncut, in characters: the
/// largest `max_output`, and room for what stands around it.
const MAX_RESULT_CHARS: u64 = 1_010_000;

/// All tools, in the order in which they are listed.
pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        Tool {
            name: ToolName::Run,
            wire_name: "zsh",
            title: "Run a command in zsh",
            description: "Runs a command in zsh and returns its output, exit code and, for pipelines, pipestatus. \
                Returns at the command's end, or after yield_after seconds (2) with the output so far while it goes \
                on: then wait with zsh_poll (wait_for=end, listen=50, or until=REGEX). stdout and stderr come as one \
                stream, long output as head and tail with the omitted lines named. There is no terminal and stdin is \
                /dev/null: pass pty: true for programs that ask for passwords or want a tty (answer with zsh_send), \
                stdin for text, stdin_open for a pipe. Pass background: true for servers and long jobs. Each call \
                starts in the project directory unless cwd says otherwise; cd carries over only where the user has set \
                keep_cwd. A deadline \
                (timeout, 120 s) ends the whole process tree. Processes left behind (server &) are named in the \
                result and ended with zsh_kill.",
            effect: Effect::DestructiveOpenWorld,
            always_loaded: true,
            large_results: true,
            schema: schema_of::<RunArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Poll,
            wire_name: "zsh_poll",
            title: "Read a task's output",
            description: "Shows what a task has written since the last result, with line numbers, and how it is \
                doing. Waits up to listen seconds (2) for new output; with wait_for=end it goes on through output to \
                the end, with until=REGEX to a line that matches: both save turns. full_output, from_line/to_line and \
                grep (with context) read any part again, during and after the run. For full-screen programs on a \
                terminal (pty) screen=true shows what a person would see there, also after the end.",
            effect: Effect::ReadOnly,
            always_loaded: true,
            large_results: true,
            schema: schema_of::<PollArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Send,
            wire_name: "zsh_send",
            title: "Type into a task",
            description: "Types into a running task that was started with pty: true or stdin_open: true, and returns \
                what that brought: new output, or the screen of a full-screen program. input is text, followed by \
                Enter unless enter is false; keys are keys by name, for terminals: keys=[\"Down\", \"Down\", \"Enter\"], [\"Escape\", \":\", \"w\", \"q\", \"Enter\"], [\"C-c\"]; \
                eof ends the input. One call may do all of it: rows and cols resize the terminal first, then come \
                input, keys and eof, with nothing from other calls in between. At a password prompt secret_env types \
                a secret that the user listed by name, which you never see. To interrupt what reads no input, \
                use zsh_kill with signal=INT.",
            effect: Effect::Destructive,
            always_loaded: true,
            large_results: false,
            schema: schema_of::<SendArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Kill,
            wire_name: "zsh_kill",
            title: "End a task",
            description: "Ends a task with all processes that belong to it, also detached ones and those left behind \
                after its end: SIGTERM, then SIGKILL after 2 s. Returns a receipt: how many were signalled, how many \
                are gone, who survived and why. With signal, sends just that signal.",
            effect: Effect::DestructiveOnce,
            always_loaded: true,
            large_results: false,
            schema: schema_of::<KillArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Tasks,
            wire_name: "zsh_tasks",
            title: "List tasks",
            description: "Lists running tasks and those with processes left behind: id, status, age, silence, \
                what it waits for or is stopped by, command. With all, ended ones too.",
            effect: Effect::ReadOnly,
            always_loaded: false,
            large_results: false,
            schema: schema_of::<TasksArguments>(),
            output: Some(outputs::schema_of::<TasksOutput>()),
        },
        Tool {
            name: ToolName::Health,
            wire_name: "zsh_health",
            title: "Health of the server",
            description: "Shows the server's version, shell, limits and how far they are used, its state directory, \
                and problems of its configuration.",
            effect: Effect::ReadOnly,
            always_loaded: false,
            large_results: false,
            schema: schema_of::<NoArguments>(),
            output: Some(outputs::schema_of::<HealthOutput>()),
        },
        Tool {
            name: ToolName::AlanStats,
            wire_name: "zsh_alan_stats",
            title: "What is remembered of commands",
            description: "Shows what A.L.A.N. has learned from commands so far: how many runs, of which kinds of \
                commands most, and where the database is.",
            effect: Effect::ReadOnly,
            always_loaded: false,
            large_results: false,
            schema: schema_of::<NoArguments>(),
            output: Some(outputs::schema_of::<StatsOutput>()),
        },
        Tool {
            name: ToolName::AlanQuery,
            wire_name: "zsh_alan_query",
            title: "Ask about a command",
            description: "Tells what is known of a command without running it: how often it succeeded, how long it \
                takes, retries in this session, its host, pitfalls in its text, and whether NEVERHANG would refuse \
                it. Worth a call before something long or risky.",
            effect: Effect::ReadOnly,
            always_loaded: false,
            large_results: false,
            schema: schema_of::<QueryArguments>(),
            output: Some(outputs::schema_of::<QueryOutput>()),
        },
        Tool {
            name: ToolName::NeverhangStatus,
            wire_name: "zsh_neverhang_status",
            title: "List refused commands",
            description: "Lists the NEVERHANG circuits: commands that timed out lately, those that are refused for \
                it, and the seconds until the next try. Only that very command is refused, and one with twice the \
                timeout is let through.",
            effect: Effect::ReadOnly,
            always_loaded: false,
            large_results: false,
            schema: schema_of::<NoArguments>(),
            output: Some(outputs::schema_of::<CircuitsOutput>()),
        },
        Tool {
            name: ToolName::NeverhangReset,
            wire_name: "zsh_neverhang_reset",
            title: "Let refused commands run",
            description: "Closes NEVERHANG circuits and forgets their timeouts, so that refused commands may run \
                again: that of one command, or all. Do so once the cause of the timeouts is mended.",
            effect: Effect::Idempotent,
            always_loaded: false,
            large_results: false,
            schema: schema_of::<ResetArguments>(),
            output: Some(outputs::schema_of::<ResetOutput>()),
        },
    ]
});

/// The answer to `tools/list`.
pub fn list() -> Value {
    let tools = TOOLS.iter().map(Tool::listed);
    #[cfg(feature = "conformance")]
    let tools = tools.chain(super::conformance::listed());
    let tools: Vec<Value> = tools.collect();
    json!({ "tools": tools })
}

/// Looks a tool up by the name that clients use.
pub fn find(wire_name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.wire_name == wire_name)
}

impl Tool {
    fn listed(&self) -> Value {
        let mut listed = Map::new();
        listed.insert("name".into(), self.wire_name.into());
        listed.insert("title".into(), self.title.into());
        listed.insert("description".into(), self.description.into());
        listed.insert("inputSchema".into(), self.schema.clone());
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
                Effect::DestructiveOnce => json!({
                    "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false
                }),
                Effect::DestructiveOpenWorld => {
                    json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true})
                }
            },
        );
        let mut meta = Map::new();
        if self.always_loaded {
            meta.insert("anthropic/alwaysLoad".into(), true.into());
        }
        if self.large_results {
            meta.insert(
                "anthropic/maxResultSizeChars".into(),
                MAX_RESULT_CHARS.into(),
            );
        }
        if !meta.is_empty() {
            listed.insert("_meta".into(), meta.into());
        }
        listed.into()
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Value::Object(fields) = &mut schema {
        // The type's own name and documentation are none of the client's business.
        fields.remove("title");
        fields.remove("description");
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    simplify(&mut schema);
    schema
}

/// Optional arguments are left out, not null: a plain type says so better than a union.
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
                let choice = choices
                    .into_iter()
                    .find(|choice| choice.get("type") != Some(&null));
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

    #[test]
    fn schemas_are_closed_inline_and_described() {
        for tool in TOOLS.iter() {
            let text = tool.schema.to_string();
            assert!(!text.contains("$ref") && !text.contains("null\""), "{text}");
            assert_eq!(
                tool.schema["additionalProperties"],
                json!(false),
                "{}",
                tool.wire_name
            );
            for (name, property) in tool.schema["properties"].as_object().into_iter().flatten() {
                assert!(
                    property["description"].is_string(),
                    "{name} of {}",
                    tool.wire_name
                );
                assert!(
                    property["type"].is_string(),
                    "{name} of {}: {property}",
                    tool.wire_name
                );
            }
        }
    }

    #[test]
    fn descriptions_fit_what_clients_show() {
        assert!(INSTRUCTIONS.len() <= 2000, "{}", INSTRUCTIONS.len());
        for tool in TOOLS.iter() {
            assert!(tool.description.len() <= 2000);
        }
    }
}
