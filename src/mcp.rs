//! L7: the MCP server and its ten tools. It only translates: what is said of a task is decided below.
//!
//! Read in this order:
//!
//! - [`server`] receives frames and starts calls, [`in_flight`] knows those that run, [`access`] says who
//!   may do what, [`rpc_error`] answers what cannot be carried out.
//! - [`tools`] has the names, arguments and descriptions of the tools, [`arguments`] checks a call
//!   against them, `call` is a call with its arguments, [`dispatch`] finds who carries it out: this process, another ([`relay`], [`detach`])
//!   or a host ([`hosts`]).
//! - The tools: `run`, `poll`, `send`, `kill`, [`status`], [`history_tools`]; `search` is `grep`.
//! - The answer: `task_result` decides what is shown of a task, [`render`] lays it out as text, [`outputs`] as JSON.
//! - How long a call waits: `ceilings`, `learned`, [`extension_tasks`].
//! - What a client is known for: `clients`; `elicitation` asks a person by the page, `codex` reads the
//!   sandbox that Codex describes.
//! - The other ways in: [`control`] is the socket for the user's other processes, `attach` a person at a
//!   terminal, [`events`] what wakes an agent.

pub(crate) mod access;
pub(crate) mod arguments;
mod attach;
mod call;
mod ceilings;
pub(crate) mod clients;
mod codex;
#[cfg(feature = "conformance")]
pub(crate) mod conformance;
pub(crate) mod control;
pub(crate) mod detach;
mod diff;
pub(crate) mod dispatch;
mod elicitation;
pub(crate) mod events;
pub(crate) mod extension_tasks;
pub(crate) mod history_tools;
pub(crate) mod hosts;
pub(crate) mod in_flight;
mod kill;
mod learned;
pub(crate) mod outputs;
mod poll;
mod relay;
pub(crate) mod rpc_error;
mod run;
mod search;
mod send;
pub(crate) mod server;
mod status;
mod task_result;
pub(crate) mod tools;

/// States, reasons and outcomes in words.
pub(crate) mod render {
    pub(crate) mod notes;
    pub(crate) mod progress;
    pub(crate) mod result;
    pub(crate) mod view;
}
