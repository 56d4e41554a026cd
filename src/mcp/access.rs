//! Who may do what: by the way on which a client reaches the server, and by what confines it.

use std::borrow::Cow;
use std::fmt;

use super::call::Call;
use super::tools::Tool;
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
    pub(super) fn refusal(self, tool: &Tool, call: &Call) -> Option<Cow<'static, str>> {
        let client = match self {
            Access::Full | Access::Carrier => return None,
            Access::Launch if matches!(call, Call::Run(_)) => return None,
            Access::Launch => return Some("a shim starts only its one task".into()),
            Access::ControlSocket(client) => client,
        };
        match call {
            Call::Run(_) => {
                Some("the control socket starts no command: call the server's own zsh".into())
            }
            Call::Send(_) if call.secret().is_some() => {
                Some("the control socket types no secret: call the server's own zsh_send".into())
            }
            Call::Send(_) | Call::Kill(_) | Call::NeverhangReset(_) => {
                if let Some(reason) = client.confinement() {
                    return Some(confined(tool.wire_name, reason).into());
                }
                let task: String =
                    call.task_id().unwrap_or_default().chars().take(TASK_CHARS).collect();
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
