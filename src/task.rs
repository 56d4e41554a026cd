//! L4: one task: its shell, its output, its state; and all tasks with their limits.
//!
//! Read in this order:
//!
//! - Start: [`request`] is what is asked for, [`supervisor`] starts it within the limits, [`registry`]
//!   has all of them, `planner` decides what is started: [`shell`], [`prologue`] and [`invocation`]
//!   make the shell's arguments, [`environment`] its variables, [`sessions`] has what earlier commands
//!   left, [`sandboxes`] what a sandboxed command has of its own, `by_policy` keeps commands in
//!   different sandboxes apart, [`unprotected`] watches what no sandbox can protect.
//! - Run: [`state`] is a task's life as a pure machine, [`worker`] the thread that carries it out,
//!   [`worker_requests`] how others reach it, [`input`], [`terminal`], [`secret_input`] and
//!   [`attached`] the ways in.
//! - Look: [`live`] is the state that watchers see, [`snapshot`] that state at one moment, for all
//!   that show or keep it, [`watch`] waits for a change, [`probes`] asks
//!   the kernel, [`describe`] puts evidence into words, [`events`] tells what is worth waking an agent,
//!   [`port_watch`] and [`port`] are about TCP ports.
//! - End: [`termination`] kills the tree, `leftovers` follows what outlives
//!   the shell, [`completion`] records the end before anybody sees it,
//!   [`housekeeping`] frees what is old.
//! - Other processes and later servers: [`journal`] is the file of a task, `earlier` that of an older
//!   version, [`tombstone`] and [`recalled`] what remains of ended servers, [`follower`] a reader that
//!   misses no byte.
//! - [`output`]: the spool under its quota, and its readers.
//!
//! May touch: processes and files, through [`crate::process`].

pub(crate) mod attached;
mod by_policy;
pub(crate) mod completion;
pub(crate) mod describe;
mod earlier;
pub(crate) mod environment;
pub(crate) mod events;
pub(crate) mod follower;
pub(crate) mod housekeeping;
pub(crate) mod input;
pub(crate) mod invocation;
pub(crate) mod journal;
mod leftovers;
pub(crate) mod live;
mod planner;
pub(crate) mod port;
pub(crate) mod port_watch;
pub(crate) mod probes;
pub(crate) mod prologue;
pub(crate) mod recalled;
pub(crate) mod registry;
pub(crate) mod request;
pub(crate) mod sandboxes;
pub(crate) mod secret_input;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod supervisor;
pub(crate) mod terminal;
pub(crate) mod termination;
pub(crate) mod told;
pub(crate) mod tombstone;
pub(crate) mod unprotected;
pub(crate) mod watch;
pub(crate) mod worker;
pub(crate) mod worker_requests;

/// A task's output: kept under a quota, and read for results.
pub(crate) mod output {
    pub(crate) mod amount;
    pub(crate) mod budget;
    pub(crate) mod collector;
    pub(crate) mod effort;
    mod findings;
    pub(crate) mod lookup;
    pub(crate) mod mask;
    pub(crate) mod reading;
    pub(crate) mod segment;
    pub(crate) mod spool;
}
