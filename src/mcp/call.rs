//! A call of a tool, with its arguments by type: who carries it out is decided by these, and what
//! another process gets of it is written from these.

use std::mem;
use std::time::Duration;

use serde_json::Value;

use super::arguments::{self, ArgumentError};
use super::render::notes::ResultNote;
use super::tools::{
    KillArguments, NoArguments, PollArguments, QueryArguments, ResetArguments, RunArguments,
    SendArguments, TasksArguments, Tool, ToolName, WaitFor,
};
use crate::process::pty::TerminalSize;
use crate::task::supervisor::KILL_LIMIT;

/// The default of `listen`.
pub(super) const DEFAULT_LISTEN: Duration = Duration::from_secs(2);
/// The default of `detached_hours` that its description names.
const DEFAULT_DETACHED_HOURS: f64 = 24.0;

#[derive(Debug)]
pub(super) enum Call {
    Run(Box<RunArguments>),
    Poll(Box<PollArguments>),
    Send(Box<SendArguments>),
    Kill(KillArguments),
    Tasks(TasksArguments),
    Health,
    AlanStats,
    AlanQuery(QueryArguments),
    NeverhangStatus,
    NeverhangReset(ResetArguments),
}

/// A call with wrong arguments.
#[derive(Debug)]
pub(super) struct WrongCall {
    pub(super) error: ArgumentError,
    /// The task that it names.
    pub(super) task_id: Option<String>,
}

impl Call {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// Describes the first wrong argument.
    pub(super) fn parse(tool: &Tool, given: Option<&Value>) -> Result<Call, WrongCall> {
        Call::read(tool, given).map_err(|error| {
            let task = given.and_then(|given| given.get("task_id")).and_then(Value::as_str);
            WrongCall { error, task_id: task.map(str::to_owned) }
        })
    }

    fn read(tool: &Tool, given: Option<&Value>) -> Result<Call, ArgumentError> {
        use arguments::read;
        let nothing = || read::<NoArguments>(tool, given);
        Ok(match tool.name {
            ToolName::Run => Call::Run(Box::new(without_defaults_of_run(read(tool, given)?))),
            ToolName::Poll => Call::Poll(Box::new(without_defaults_of_poll(read(tool, given)?))),
            ToolName::Send => Call::Send(Box::new(without_defaults_of_send(read(tool, given)?))),
            ToolName::Kill => Call::Kill(read(tool, given)?),
            ToolName::Tasks => Call::Tasks(read(tool, given)?),
            ToolName::Health => nothing().map(|_| Call::Health)?,
            ToolName::AlanStats => nothing().map(|_| Call::AlanStats)?,
            ToolName::AlanQuery => Call::AlanQuery(read(tool, given)?),
            ToolName::NeverhangStatus => nothing().map(|_| Call::NeverhangStatus)?,
            ToolName::NeverhangReset => Call::NeverhangReset(read(tool, given)?),
        })
    }

    /// The task that it is about.
    pub(super) fn task_id(&self) -> Option<&str> {
        match self {
            Call::Poll(poll) => Some(&poll.task_id),
            Call::Send(send) => Some(&send.task_id),
            Call::Kill(kill) => Some(&kill.task_id),
            _ => None,
        }
    }

    /// Takes out the host on which it is to be carried out: an argument, or a part of the task's id.
    pub(super) fn take_host(&mut self) -> Option<String> {
        let id = match self {
            Call::Run(run) => return run.host.take(),
            Call::Tasks(tasks) => return tasks.host.take(),
            Call::AlanQuery(query) => return query.host.take(),
            Call::Poll(poll) => &mut poll.task_id,
            Call::Send(send) => &mut send.task_id,
            Call::Kill(kill) => &mut kill.task_id,
            _ => return None,
        };
        let (host, task) = id.rsplit_once(':')?;
        let (host, task) = (host.to_owned(), task.to_owned());
        *id = task;
        Some(host)
    }

    /// The name of the secret that it types.
    pub(super) fn secret(&self) -> Option<&str> {
        match self {
            Call::Send(send) => send.secret_env.as_deref(),
            _ => None,
        }
    }

    /// Limits its wait to the ceiling of the client's calls; a remark names what was limited.
    pub(super) fn limit_wait(&mut self, ceiling: Duration) -> Option<ResultNote> {
        let (argument, wait, longer) = match self {
            Call::Run(run) => (
                "yield_after",
                &mut run.yield_after,
                "For longer waits pass background: true and poll.",
            ),
            Call::Poll(poll) => ("listen", &mut poll.listen, "To wait longer, poll again."),
            Call::Send(send) => ("listen", &mut send.listen, "To wait longer, poll again."),
            _ => return None,
        };
        let used = ceiling.as_secs_f64();
        let requested = mem::replace(wait.as_mut().filter(|wait| **wait > used)?, used);
        Some(ResultNote::info(format!(
            "{argument} {requested} s is above the ceiling of this client's calls: {used} s is used. \
             {longer}"
        )))
    }

    /// How long another process that carries it out may wait before it answers.
    pub(super) fn wait(&self) -> Duration {
        let listen = match self {
            Call::Kill(_) => return KILL_LIMIT,
            Call::Poll(poll) => poll.listen,
            Call::Send(send) => send.listen,
            _ => None,
        };
        let listen = listen.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        listen.unwrap_or(DEFAULT_LISTEN)
    }

    /// The arguments, for another process.
    pub(super) fn arguments(&self) -> Value {
        let written = match self {
            Call::Run(run) => serde_json::to_value(run),
            Call::Poll(poll) => serde_json::to_value(poll),
            Call::Send(send) => serde_json::to_value(send),
            Call::Kill(kill) => serde_json::to_value(kill),
            Call::Tasks(tasks) => serde_json::to_value(tasks),
            Call::AlanQuery(query) => serde_json::to_value(query),
            Call::NeverhangReset(reset) => serde_json::to_value(reset),
            Call::Health | Call::AlanStats | Call::NeverhangStatus => Ok(Value::Null),
        };
        // Texts, numbers and lists of them can be written. What was left out stays so: the other process
        // may be of a version that does not know it.
        let mut written = written.unwrap_or_default();
        if let Some(members) = written.as_object_mut() {
            members.retain(|_, member| !member.is_null());
        }
        written
    }
}

/// Leaves out what has its default value, or none, and means nothing beside the others: it was filled
/// in, and would only contradict them.
fn without_defaults_of_run(mut run: RunArguments) -> RunArguments {
    let standard = TerminalSize::default();
    if run.pty != Some(true) {
        run.rows.take_if(|rows| *rows == standard.rows);
        run.cols.take_if(|cols| *cols == standard.cols);
    }
    if run.detach != Some(true) {
        run.detached_hours.take_if(|hours| *hours == 0.0 || *hours == DEFAULT_DETACHED_HOURS);
    }
    run
}

/// As [`without_defaults_of_run`].
fn without_defaults_of_poll(mut poll: PollArguments) -> PollArguments {
    let reads = poll.grep.is_some() || poll.from_line.is_some() || poll.to_line.is_some();
    if reads {
        poll.wait_for.take_if(|goal| *goal == WaitFor::Output);
        poll.listen.take_if(|listen| *listen == DEFAULT_LISTEN.as_secs_f64());
    }
    poll
}

/// As [`without_defaults_of_run`]. An empty input is an empty line, if nothing else is sent.
fn without_defaults_of_send(mut send: SendArguments) -> SendArguments {
    let standard = TerminalSize::default();
    match (send.rows, send.cols) {
        (rows, None) if rows == Some(standard.rows) => send.rows = None,
        (None, cols) if cols == Some(standard.cols) => send.cols = None,
        _ => {}
    }
    let sends_more = send.secret_env.is_some()
        || send.keys.is_some()
        || send.eof == Some(true)
        || send.rows.is_some()
        || send.cols.is_some();
    send.input.take_if(|input| input.is_empty() && sends_more);
    send
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::tools;

    fn call(tool: &str, arguments: Value) -> Call {
        Call::parse(tools::find(tool).unwrap(), Some(&arguments)).unwrap()
    }

    #[test]
    fn waits_above_the_ceiling_are_limited() {
        let ceiling = Duration::from_secs(50);
        let mut long = call("zsh", json!({"command": "x", "yield_after": 5000}));
        let note = long.limit_wait(ceiling).expect("a remark").message.to_string();
        assert!(note.starts_with("yield_after 5000 s is above the ceiling"), "{note}");
        assert_eq!(long.arguments()["yield_after"], 50.0);
        assert!(long.limit_wait(ceiling).is_none());
    }

    #[test]
    fn what_was_filled_in_contradicts_nothing() {
        for (tool, filled, left) in [
            (
                "zsh",
                json!({"command": "x", "rows": 24, "cols": 80, "detached_hours": 24, "detach": false}),
                json!({"command": "x", "detach": false}),
            ),
            (
                "zsh",
                json!({"command": "x", "rows": 30, "detached_hours": 2}),
                json!({"command": "x", "rows": 30, "detached_hours": 2.0}),
            ),
            (
                "zsh",
                json!({"command": "x", "pty": true, "rows": 24}),
                json!({"command": "x", "pty": true, "rows": 24}),
            ),
            (
                "zsh_poll",
                json!({"task_id": "x", "from_line": 3, "listen": 2, "wait_for": "output"}),
                json!({"task_id": "x", "from_line": 3}),
            ),
            (
                "zsh_poll",
                json!({"task_id": "x", "grep": "y", "listen": 5, "wait_for": "end"}),
                json!({"task_id": "x", "grep": "y", "listen": 5.0, "wait_for": "end"}),
            ),
            (
                "zsh_send",
                json!({"task_id": "x", "input": "", "enter": true, "listen": 3}),
                json!({"task_id": "x", "input": "", "enter": true, "listen": 3.0}),
            ),
            (
                "zsh_send",
                json!({"task_id": "x", "input": "", "secret_env": "", "keys": []}),
                json!({"task_id": "x"}),
            ),
            (
                "zsh_send",
                json!({"task_id": "x", "input": "y", "keys": [""], "rows": 24, "cols": 0}),
                json!({"task_id": "x", "input": "y"}),
            ),
            (
                "zsh_send",
                json!({"task_id": "x", "input": "", "keys": ["Up"], "rows": 0}),
                json!({"task_id": "x", "keys": ["Up"]}),
            ),
            (
                "zsh_send",
                json!({"task_id": "x", "input": "", "secret_env": "PIN"}),
                json!({"task_id": "x", "secret_env": "PIN"}),
            ),
        ] {
            assert_eq!(call(tool, filled.clone()).arguments(), left, "{filled}");
        }
    }

    #[test]
    fn a_host_is_taken_from_its_argument_or_from_the_id() {
        for (tool, arguments, host, left) in [
            ("zsh", json!({"command": "x", "host": "b"}), Some("b"), "/command"),
            ("zsh_tasks", json!({"host": "b", "limit": 3}), Some("b"), "/limit"),
            ("zsh_poll", json!({"task_id": "b:1a2b3c4d"}), Some("b"), "/task_id"),
            ("zsh_kill", json!({"task_id": "1a2b3c4d"}), None, "/task_id"),
            ("zsh_health", json!({}), None, ""),
        ] {
            let mut call = call(tool, arguments.clone());
            assert_eq!(call.take_host().as_deref(), host, "{arguments}");
            let rest = call.arguments();
            assert!(!rest.to_string().contains("b:") && rest["host"].is_null(), "{rest}");
            assert!(rest.pointer(left).is_some(), "{rest}");
        }
    }
}
