//! L8: the subcommands. One file each, named as it is; [`crate::cli`] defines their arguments.
//!
//! - [`serve`] is the server, [`shim`] the owner of a detached task, [`far`] a host's side: each is an
//!   `owner` of tasks. [`shared`] builds what all share, `sandbox` the sandbox of commands.
//! - For people: [`exec`], [`tasks`], [`log`], [`control`], [`attach`], [`monitor`], [`oneshot`],
//!   [`alan`], [`manopt`], [`doctor`], [`config`], [`setup`], [`help`], [`man`], [`completions`].
//! - For agents' hooks: [`events`], `permissions`, [`agent_openai`].
//! - [`output`] writes to stdout and stderr, `signals` handles signals, `on_host` runs a command on a
//!   host.
//!
//! May touch: the user's terminal.

pub(crate) mod agent_openai;
pub(crate) mod alan;
pub(crate) mod attach;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod far;
pub(crate) mod help;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod manopt;
pub(crate) mod monitor;
mod on_host;
pub(crate) mod oneshot;
pub(crate) mod output;
mod owner;
mod permissions;
mod sandbox;
pub(crate) mod serve;
pub(crate) mod setup;
pub(crate) mod shared;
pub(crate) mod shim;
mod signals;
pub(crate) mod tasks;
