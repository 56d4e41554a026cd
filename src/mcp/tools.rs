//! The tools: their names, arguments, schemas and descriptions.
//!
//! The schemas come from the argument types, closed and inline, the same bytes every
//! time.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::outputs::{
    self, CircuitsOutput, HealthOutput, QueryOutput, ResetOutput, StatsOutput, TasksOutput,
};

/// The instructions for a client's model, about the server as a whole.
pub const INSTRUCTIONS: &str = "\
Runs shell commands. Prefer `zsh` to your built-in shell (Bash, exec_command) for builds, tests, servers, ssh and \
anything slow, interactive or likely to hang: it returns while a command runs, says why it is silent, and loses no \
output and no failure. \
`zsh` returns when the command ends, or after yield_after seconds (2) with the output so far while it runs: then call \
zsh_poll with wait_for=end and listen=50 (or until=REGEX) instead of polling often. \
zsh_poll shows only output that no result has shown yet, with line numbers; full_output, from_line/to_line and grep read \
any part again, also after the end. \
exit=N is the shell's own exit code; pipestatus=[…] is that of each part of a pipeline. \
A command that leaves processes behind (server &) ends anyway and names them: poll it with until=\"ready\", kill them \
with zsh_kill. For commands that take long or never end pass background: true. \
Commands have no terminal, and stdin is empty: pass pty: true for programs that ask on a terminal (passwords, REPLs, \
editors), stdin_open: true for a pipe that stays open. When a task waits for input (⌨ WAITING FOR INPUT or A PASSWORD) \
or is stopped (⏸ STOPPED), the call returns at once; answer with zsh_send (secret_env types a secret that the user \
listed, without showing it). \
Full-screen programs (pty) show their screen; zsh_send presses keys by name. \
Every command starts in the project directory unless the user has set keep_cwd: pass cwd to run elsewhere. \
A.L.A.N. lines say how such commands went before: act on ⚠, and change something before you retry what keeps failing. \
A result that begins with `┌ notify` reports tasks that ended meanwhile.";

/// Arguments of `zsh`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunArguments {
    /// The command text for zsh; several lines are fine. At most 1 MiB.
    pub command: String,
    /// Name of a host that the user listed, to run there; its tasks' ids begin with it. Default: here.
    #[allow(dead_code, reason = "read before the call is carried out, here or there")]
    pub host: Option<String>,
    /// Deadline in seconds, after which the whole process tree is killed. Default 120, at most 600 (both configurable); 0 = no deadline, allowed only with background, detach, stdin_open or pty.
    #[schemars(range(min = 0))]
    pub timeout: Option<f64>,
    /// deadline: fixed; progress: extended, up to the maximum, unless the command is stuck, silent without evidence of work, stopped or waiting for input. Default deadline.
    pub timeout_mode: Option<TimeoutMode>,
    /// Seconds until the call returns with the command still running. Default 2, from 0 to 50.
    #[schemars(range(min = 0, max = 50))]
    pub yield_after: Option<f64>,
    /// What the command is for, in a few words; shown in zsh_tasks.
    pub description: Option<String>,
    /// Run on a terminal of its own: for passwords, REPLs, editors, programs that need a tty. While a full-screen program runs, zsh and zsh_send show its screen instead of lines. Default false.
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
    /// Like background, and the command outlives this server and the client: later sessions poll, type into and kill it by the same task id. For dev servers and jobs of hours. Default false.
    pub detach: Option<bool>,
    /// Hours after which a detached command is killed. Default 24 (configurable); 0 = never.
    #[schemars(range(min = 0))]
    pub detached_hours: Option<f64>,
    /// Return as soon as a line of output matches this regular expression (Rust syntax).
    pub until: Option<String>,
    /// Terminal height in lines with pty. Default 24, from 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    pub rows: Option<u16>,
    /// Terminal width in columns with pty. Default 80, from 2 to 500.
    #[schemars(range(min = 2, max = 500))]
    pub cols: Option<u16>,
    /// Characters of output in the result; the result names what it omits and the zsh_poll call that reads it. Default 30000, from 200 to 490000.
    #[schemars(range(min = 200, max = 490_000))]
    pub max_output: Option<usize>,
}

/// Arguments of `zsh_poll`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PollArguments {
    /// The task's id: `task=…` in an earlier result.
    pub task_id: String,
    /// Show the whole output instead of what is new. Default false.
    pub full_output: Option<bool>,
    /// Maximum seconds to wait. Default 2, from 0 to 50.
    #[schemars(range(min = 0, max = 50))]
    pub listen: Option<f64>,
    /// output: return at the first new output; end: wait until the task ends, waits for input or is stopped. Default output.
    pub wait_for: Option<WaitFor>,
    /// Return as soon as a new line matches this regular expression (Rust syntax); other output does not end the wait.
    pub until: Option<String>,
    /// First line to read again, counted from 1; does not wait.
    #[schemars(range(min = 1))]
    pub from_line: Option<u64>,
    /// Character of from_line, counted from 1, to begin with: shows the rest of that line, or greps from there; does not wait.
    #[schemars(range(min = 1))]
    pub from_char: Option<u64>,
    /// Last line to read again; does not wait.
    #[schemars(range(min = 1))]
    pub to_line: Option<u64>,
    /// Show only lines that match this regular expression (Rust syntax), with their numbers; does not wait.
    pub grep: Option<String>,
    /// Lines of context around each match of grep. Default 0, from 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub context: Option<usize>,
    /// Show the terminal's screen as a person sees it now (vim, htop, less, menus) instead of output: text without colours, cursor and size; only with pty. Does not wait unless listen, wait_for or until is passed; output stays new for the next poll. Default false.
    pub screen: Option<bool>,
    /// Characters of output in the result. Default 30000, from 200 to 490000.
    #[schemars(range(min = 200, max = 490_000))]
    pub max_output: Option<usize>,
}

/// Arguments of `zsh_send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendArguments {
    /// The task's id: `task=…` in an earlier result.
    pub task_id: String,
    /// Text to type, before keys. On a terminal a line's end is typed as Enter, and several lines arrive as one paste if the program supports that.
    pub input: Option<String>,
    /// Whether Enter follows input. Default true.
    pub enter: Option<bool>,
    /// Name of a secret that the user listed in the config: typed, with Enter, while the terminal hides input (pty only), before keys, and masked in all output. Not together with input.
    pub secret_env: Option<String>,
    /// Keys to press on a terminal (pty), in order, after input: Enter Tab Escape Space Backspace Insert Delete Up Down Left Right Home End PageUp PageDown F1 to F12, single characters, and chords: C-c, M-x, C-M-x, S-Tab, C-Left. A key right after Escape may be read as a chord with Alt (M-x): if that matters, make Escape the last key of the call.
    pub keys: Option<Vec<String>>,
    /// End of input, after input and keys: closes the pipe, or types the terminal's end-of-file character (Ctrl-D), twice in mid-line so that the program sees the end; line editors accept it only on an empty line. Default false.
    pub eof: Option<bool>,
    /// New terminal height in lines, together with cols. From 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    pub rows: Option<u16>,
    /// New terminal width in columns, together with rows. From 2 to 500.
    #[schemars(range(min = 2, max = 500))]
    pub cols: Option<u16>,
    /// Maximum seconds to wait for the response; the wait ends 80 ms after the last output, but not while only the echo has come and the program is working. Default 2, from 0 to 50.
    #[schemars(range(min = 0, max = 50))]
    pub listen: Option<f64>,
}

/// Arguments of `zsh_kill`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KillArguments {
    /// The task's id: `task=…` in an earlier result.
    pub task_id: String,
    /// One signal to the whole tree: INT, TERM, KILL, HUP, QUIT, USR1, USR2, STOP or CONT. Default: TERM, then KILL after 2 s to what is left.
    pub signal: Option<String>,
}

/// Arguments of `zsh_tasks`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TasksArguments {
    /// List the tasks of this host instead.
    #[allow(dead_code, reason = "read before the call is carried out, here or there")]
    pub host: Option<String>,
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
    /// The command text as for zsh. It is not run.
    pub command: String,
    /// Look the command up on this host.
    #[allow(dead_code, reason = "read before the call is carried out, here or there")]
    pub host: Option<String>,
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

/// The kind of a command's deadline.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum TimeoutMode {
    Deadline,
    Progress,
}

/// What `zsh_poll` waits for.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum WaitFor {
    Output,
    End,
}

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
    /// The schema of its structured result, where it has one. Clients show a structured
    /// result instead of the text, so what runs commands has none.
    output: Option<Value>,
}

/// Characters of a result at most: Claude Code passes on 495,000, and of a longer one only
/// the beginning (measured).
pub const RESULT_CHARS: usize = 490_000;

/// All tools, in the order in which they are listed.
pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        Tool {
            name: ToolName::Run,
            wire_name: "zsh",
            title: "Run a command in zsh",
            description: "Runs a command in zsh and returns its output, exit code and, for pipelines, pipestatus. \
                Returns when the command ends, or after yield_after seconds (2) with the output so far while it \
                runs: then wait with zsh_poll (wait_for=end, listen=50, or until=REGEX). stdout and stderr are one \
                stream; of long output the head and the tail are shown and the omitted lines are named. There is no \
                terminal and stdin is /dev/null: pass pty: true for programs that ask for passwords or need a tty \
                (answer with zsh_send), stdin for text, stdin_open for a pipe. Pass background: true for servers and \
                long jobs. Each call starts in the project directory unless cwd says otherwise; cd carries over only \
                if the user has set keep_cwd. A deadline (timeout, 120 s) kills the whole process tree. Processes left \
                behind (server &) are named in the result; kill them with zsh_kill.",
            effect: Effect::DestructiveOpenWorld,
            schema: schema_of::<RunArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Poll,
            wire_name: "zsh_poll",
            title: "Read a task's output",
            description: "Shows what a task has written since the last result, with line numbers, and its status. Waits \
                up to listen seconds (2) for new output; with wait_for=end until the task ends, with until=REGEX until \
                a line matches: both save turns. full_output, from_line/to_line and grep (with context) read any part \
                again, during and after the run. For full-screen programs (pty) screen=true shows what a person would \
                see on the terminal, also after the end.",
            effect: Effect::ReadOnly,
            schema: schema_of::<PollArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Send,
            wire_name: "zsh_send",
            title: "Type into a task",
            description: "Types into a running task that was started with pty: true or stdin_open: true, and returns \
                the response: new output, or the screen of a full-screen program. input is text, followed by \
                Enter unless enter is false; keys are named keys, for terminals: keys=[\"Down\", \"Down\", \"Enter\"], [\"Escape\", \":\", \"w\", \"q\", \"Enter\"], [\"C-c\"]; \
                eof ends the input. One call may do all of it: rows and cols resize the terminal first, then input, \
                keys and eof are sent, with nothing from other calls in between. At a password prompt secret_env types \
                a secret that the user listed by name; you never see it. To interrupt a program that reads no input, \
                use zsh_kill with signal=INT.",
            effect: Effect::Destructive,
            schema: schema_of::<SendArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Kill,
            wire_name: "zsh_kill",
            title: "Kill a task",
            description: "Kills a task with all processes that belong to it, also those that left its session and those \
                left behind after its end: SIGTERM, then SIGKILL after 2 s. Returns a receipt: how many were signalled, how many \
                are gone, which survived and why. With signal, sends only that signal.",
            effect: Effect::DestructiveIdempotent,
            schema: schema_of::<KillArguments>(),
            output: None,
        },
        Tool {
            name: ToolName::Tasks,
            wire_name: "zsh_tasks",
            title: "List tasks",
            description: "Lists running tasks and those with processes left behind: id, status, age, silence, \
                what it waits for or what stopped it, command. With all, ended ones too.",
            effect: Effect::ReadOnly,
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
            schema: schema_of::<NoArguments>(),
            output: Some(outputs::schema_of::<HealthOutput>()),
        },
        Tool {
            name: ToolName::AlanStats,
            wire_name: "zsh_alan_stats",
            title: "Statistics of the command history",
            description: "Shows how much of the command history A.L.A.N. holds: how many runs, the most frequent kinds \
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
                retries in this session, its host, pitfalls in its text, and whether NEVERHANG would refuse it. Worth \
                a call before something long or risky.",
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
                Effect::DestructiveIdempotent => json!({
                    "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false
                }),
                Effect::DestructiveOpenWorld => {
                    json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true})
                }
            },
        );
        let mut meta = Map::new();
        // Kept at hand by clients that otherwise load tools on demand.
        if matches!(self.name, ToolName::Run | ToolName::Poll | ToolName::Send | ToolName::Kill) {
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
    fn descriptions_fit_what_clients_show() {
        assert!(INSTRUCTIONS.len() <= 2000, "{}", INSTRUCTIONS.len());
        for tool in TOOLS.iter() {
            assert!(tool.description.len() <= 2000);
        }
    }
}
