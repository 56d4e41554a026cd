//! Who may do what: by the way on which a client reaches the server, and by what confines it.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::tools::{Tool, ToolName};
use crate::process::confinement;
use crate::process::probe::Identity;
use crate::process::tree;

/// How much of a task's id is logged, in characters.
const TASK_CHARS: usize = 40;

/// How a client reaches the server, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// As the client that started the server.
    Full,
    /// Through the control socket, which starts no command and types no secret.
    ControlSocket(SocketClient),
    /// As the server that started this shim for one task.
    Launch,
    /// As the server that started this process on a host, where it has a shell anyway.
    Carrier,
}

impl Access {
    /// Why a call is refused, if it is.
    pub(super) fn refusal(
        self,
        tool: &Tool,
        arguments: Option<&Value>,
    ) -> Option<Cow<'static, str>> {
        let client = match self {
            Access::Full | Access::Carrier => return None,
            Access::Launch if tool.name == ToolName::Run => return None,
            Access::Launch => return Some("a shim starts only its one task".into()),
            Access::ControlSocket(client) => client,
        };
        let argument = |name: &str| arguments.and_then(|arguments| arguments.get(name));
        match tool.name {
            ToolName::Run => {
                Some("the control socket starts no command: call the server's own zsh".into())
            }
            ToolName::Send if argument("secret_env").is_some_and(|value| !value.is_null()) => {
                Some("the control socket types no secret: call the server's own zsh_send".into())
            }
            ToolName::Send | ToolName::Kill | ToolName::NeverhangReset => {
                if let Some(reason) = client.confinement() {
                    return Some(confined(tool.wire_name, reason).into());
                }
                let task = argument("task_id").and_then(Value::as_str).unwrap_or_default();
                let task: String = task.chars().take(TASK_CHARS).collect();
                tracing::info!(
                    "{} of task {task:?} by the control socket, from {client}",
                    tool.wire_name
                );
                None
            }
            _ => None,
        }
    }
}

/// The process that has connected to the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketClient {
    /// Its pid, where the system reports it.
    pid: Option<i32>,
    /// The process with that pid when it connected.
    process: Option<Identity>,
}

impl SocketClient {
    /// The client with this pid, which has just connected.
    pub(crate) fn connected(pid: Option<i32>) -> SocketClient {
        let process = pid.and_then(tree::look_up).map(|process| process.id);
        SocketClient { pid, process }
    }

    /// Why the client may only read: a sandbox must not act through this process.
    pub(super) fn confinement(self) -> Option<&'static str> {
        self.pid?;
        confinement::confinement(self.process)
    }
}

impl fmt::Display for SocketClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("an unknown process"),
        }
    }
}

/// Says that a process that is confined more than the owner may not do this.
pub(super) fn confined(what: &str, reason: &str) -> String {
    format!(
        "{what} is refused to this process: {reason}, and the owner of the task is not confined so. \
         Reading is allowed; from a shell outside the sandbox it works"
    )
}
