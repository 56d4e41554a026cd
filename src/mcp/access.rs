//! Who may do what: by the way on which a client reaches the server.

use std::borrow::Cow;

use super::call::Call;
use super::tools::Tool;
use crate::process::local_socket::PeerProcess;

/// How much of a task's id is logged, in characters.
const TASK_CHARS: usize = 40;

/// How a client reaches the server, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// As the client that started the server.
    Full,
    /// Through the control socket, which starts no command and types no secret.
    ControlSocket(PeerProcess),
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
