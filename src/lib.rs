//! zsh-tool: the shell that reports the truth to AI coding agents.
//!
//! # In five sentences
//!
//! A command runs under a *worker*, the only thread that reads its output, writes its
//! input, signals its processes and reports its state. It turns what it observes into events
//! for a pure state machine and carries out the effects. Output goes to a *spool* under a
//! quota; watchers wait on the task's condvar and read the spool. A *supervisor* starts tasks
//! within the limits and ends them all. Front ends (MCP tools, command line, monitor) only translate.
//!
//! # Data flow
//!
//! ```text
//! stdin → protocol::transport → framing → message → mcp::server → mcp::dispatch
//!       → task::supervisor → task::worker → process
//! process → task::worker → task::output::spool, task::live → (condvar) → task::watch
//!       → task::output::reading → text::lines → mcp::render → protocol::transport → stdout
//! task::worker → task::completion → history::run_record → alan::store
//!       → history::recorder → alan::{estimate, insight, kill} → mcp::render
//! ```
//!
//! Agent runs start from the command line and use the same supervision:
//!
//! ```text
//! commands::oneshot → oneshot::engine → oneshot::runtime → task::supervisor → process
//! task::worker → task::follower → oneshot::attempt → oneshot::pipeline (→ the log)
//!       → oneshot::attempt (run_tracker, policy) → oneshot::engine → oneshot::state → files
//! ```
//!
//! A call about a host is forwarded to zsh-tool on that host, over a single connection:
//!
//! ```text
//! mcp::hosts → peer::hosts → (carrier: ssh, docker exec …) → commands::far → mcp::server
//! ```
//!
//! There are no other paths. Clients of both eras of MCP use them: those with one handshake
//! ([`protocol::era`]), and those that describe themselves in every request
//! ([`protocol::stateless`]); [`mcp::server`] hides the difference. The client starts the server's
//! *guard* ([`process::guard`]), which starts the server; no data passes through it.
//!
//! # Layers
//!
//! A folder imports only from strictly lower layers; `tests/layering.rs` checks it.
//!
//! | layer | module | what it may touch |
//! |---|---|---|
//! | L0 | [`base`] | the clock, locks |
//! | L1 | [`text`], [`shell`], [`progress`], [`neverhang`], [`cli`] | nothing: pure |
//! | L2 | [`process`] | the kernel; the only `unsafe`, `libc`, `rustix`, `procfs` |
//! | L2 | [`protocol`] | stdin and stdout |
//! | L3 | [`task`] | processes and spool files, through [`process`] |
//! | L3 | [`alan`] | the database of command history |
//! | L3 | [`config`] | the environment and the configuration file |
//! | L4 | [`history`] | the recorded history of tasks |
//! | L4 | [`peer`] | the control sockets of other processes that own tasks; carriers to hosts |
//! | L4 | [`agent`] | agent programs' own storage, read-only; a model's endpoint |
//! | L5 | [`oneshot`] | the files of agent runs, and the processes of their agents |
//! | L6 | [`mcp`] | nothing: it renders results; phrases come from [`task::describe`], [`progress::advice`], [`alan::insight`] |
//! | L6 | [`monitor`] | sockets; responses for browsers and programs |
//! | L7 | [`commands`] | the user's terminal |
//! | L8 | [`app`] | wires everything together |
//!
//! # Platforms
//!
//! Linux is complete. Linux-only code is in `process/linux`, with twins in
//! `process/portable` for other systems and the feature `portable`.
//!
//! # Invariants
//!
//! - A command's exit code is its shell's own wait status. The prologue ([`task::prologue`])
//!   reports pipeline statuses and the directory, and is trusted only where both agree.
//!   The shell behaves as under bare `zsh -c`; `zsh-tool help shell` lists each difference.
//! - A task ends with its shell and a short drain. It never waits for a pipe to close that
//!   another process may hold open.
//! - A signal is sent to a process only if its pid *and* its start time match
//!   ([`process::kill`]). A shell stays a zombie, and keeps its pid, until its task is closed.
//! - Threads' system calls show what a silent task does ([`process::waits`]); one pure function
//!   classifies it ([`progress::tree_state`]). Answers advise `zsh_kill` when it is stuck.
//! - The newest output is never lost, whatever disk and quotas do ([`task::output::spool`]).
//! - By default a result shows only output that no earlier result has shown: taking a delta moves
//!   the cursor, under the task's lock. Ranges, grep, `full_output` and results of MCP tasks do
//!   not move it.
//! - When a client stops waiting for a call's answer, the call's command continues; when it
//!   cancels the call, the command ends (`mcp::ceilings`).
//! - The server never sends its client a request.
//! - A run is recorded before any caller can see its end ([`task::completion`]), so that the next
//!   call sees it. Command history advises; only an open circuit ([`neverhang`]) refuses.
//! - No command line is written or logged without [`text::redact`].
//! - While a person is attached to a task ([`task::attached`]), no tool types into it, and the
//!   person's keystrokes are not stored.
//! - A typed secret is masked before output is stored or shown ([`text::mask`],
//!   [`task::output::mask`]).
//! - The files of a task outlive its server: every later server answers for the task
//!   ([`task::tombstone`], [`task::recalled`]).
//! - No outside input causes a panic; a panic in a call becomes that call's error.
//!
//! # Locks
//!
//! Order: the registry, then a task's monitor, then a spool's index, then the store's queue.
//! None is held during a read, a write, a spawn or a channel send. No other lock is taken under
//! that of a task's emulated screen ([`task::terminal`]), and none is held when the event signal
//! ([`task::events`]) is notified. Only [`task::live::LiveTask::report`] changes state that other
//! threads wait for; it holds the task's monitor, and then notifies them; a model
//! check (`tests/model`) shows that no wake-up is lost. A thread that waits for another's
//! scan of the machine ([`process::snapshots`]) holds no lock.
//!
//! # Threads
//!
//! | thread | how many | waits in |
//! |---|---|---|
//! | main | 1 | a channel: end of input, a signal |
//! | `reader` | 1 | `read(2)` of stdin |
//! | `writer` | 1 | a bounded channel, `write(2)` of stdout |
//! | `signals` | 1 | signal-hook's pipe |
//! | `hangup` | 1 | `poll(2)` of stdin: its end, even while the reader is blocked on an answer |
//! | `housekeeping` | 1 | `poll(2)`; the end of a task or of an adopted process wakes it |
//! | `control` | 1 | `accept(2)` on the control socket |
//! | `control-call` | one for each control connection, at most 16, with a reader and a writer | their channels |
//! | `call-…` | one for each tool call, request about an MCP task or a page, event stream or attached person, at most 64 | a task's monitor, the signal for events |
//! | `store` | 1, from the first use of the database | a condvar, SQLite |
//! | `check-wait` | one for each check of a run's agent | a status check |
//! | `recovery` | 1 for each recovery of a run; abandoned if the run is paused, cancelled or out of time | `read(2)` of logs |
//! | `answers` | 1, once the user was asked about a stuck agent | `read(2)` of stdin |
//! | `check-…` | one for each status check, at most 3 | an endpoint, a task's monitor |
//! | `task-…` | one for each task while it or its leftovers live | `poll(2)` |
//! | `monitor` | 1, if HTTP is served | `poll(2)` of its listener and of streams' sockets |
//! | `monitor-…` | one for each connection, at most 32 | its socket, what the request needs |
//! | `host` | one for each connection to a host, with a reader and a writer | the connection's end, a channel |
//! | `host-errors` | one for each connection to a host | `read(2)` of its carrier's stderr |
//! | `earlier` | on a host, one for each far side of an earlier connection | a channel |
//! | `manopt` | one for each look-up, until its time limit | `poll(2)` |
//!
//! `exec` has `input` and `output` as well, `attach` has `input` and `task-events`, `doctor` has `self-check`, the portable twins `child-end`, `guard`, `groups`,
//! `look-again` and, on macOS, `lineage`. The reader, `hangup`, `control`, `signals`, `input`, `answers`, `check-wait`, an abandoned `recovery` and
//! look-ups ([`history::manopt`]) may be blocked until the process ends; all others are joined or
//! counted at the end. The thread that starts a child is the one that waits for it.
//!
//! # How to add
//!
//! - **A tool**: its argument type and its entry in [`mcp::tools`], a variant of
//!   `ToolName`, a method on `Tools` that returns an `Answer`, and its line in
//!   `Tools::call`. The schema comes from the type.
//! - **A setting**: one entry in the table of [`config`]; it is parsed, printed and
//!   documented from there.
//! - **An insight**: a variant of [`alan::insight::Insight`] with its text there, and a
//!   condition in one of its two submodules.
//! - **Something on the page**: `data/dashboard`, where only `elements.js` adds text; a new
//!   script also goes into [`monitor::dashboard`].
//! - **A column, a table, an index**: a new file in `data/schema` and its entry in
//!   [`alan::schema`]; steps that have been released never change.
//! - **A judge**: a type that implements [`agent::judge::Judge`], a variant of
//!   [`config::JudgeChoice`], and its line in [`commands::setup::judge`].
//! - **A reason, a state, an outcome**: a variant that carries its data; [`mcp::render`]
//!   and [`commands`] put it into words.
//! - **A program** whose subcommands matter: a line in [`shell`]'s tables, a fixture's row.
//! - **A client** whose calls may wait longer or less: an arm in `mcp::ceilings`.
//! - **A path of the monitor**: an arm in [`monitor::api`]; `http::connection` checks tokens.
//! - **An agent program**: an entry in `data/executors.yaml`, with fixtures.
//! - **A system call**: a function in [`process`] with its `SAFETY:` line.

// The guide above also links to private modules.
#![allow(rustdoc::private_intra_doc_links)]
#![deny(unsafe_code)]
// Stdout carries the protocol; `commands::output` writes what a person reads.
#![warn(clippy::print_stdout)]
// Outside input must never cause a panic. Tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

pub mod app;
#[cfg(test)]
#[path = "../tests/arbitrary.rs"]
mod arbitrary;
pub mod cli;
pub mod config;
pub mod neverhang;
pub(crate) mod peer;

/// L0: time and locks.
pub mod base {
    pub mod clock;
    pub mod sync;
}

/// L1: terminal output made readable, and its formats. Pure.
pub mod text {
    pub mod ansi;
    pub mod canvas;
    pub mod keys;
    pub mod line_drawing;
    pub mod lines;
    pub mod mask;
    pub mod progress_lines;
    pub mod quantity;
    pub mod quoting;
    pub mod redact;
    pub mod screen;
    pub mod sequences;
    pub mod sgr;
    pub mod without_queries;
}

/// L1: zsh command lines: parsing, linting, what they report; manual pages. Pure.
pub mod shell {
    pub mod exit_status_source;
    mod interpreters;
    pub mod lexer;
    pub mod lint;
    pub mod manpage;
    pub mod mode;
    pub mod normalise;
    mod options;
    pub mod outcome;
    mod prefix;
    pub mod programs;
    pub mod reports;
    mod scan;
    pub mod ssh;
    pub mod syntax;
    pub mod template;
    pub mod token;
    pub mod unquote;
    mod words;
}

/// L1: whether a task makes progress, and what it waits for. Pure.
pub mod progress {
    pub(crate) mod advice;
    pub(crate) mod condition;
    pub(crate) mod counters;
    pub(crate) mod novelty;
    pub(crate) mod progress_snapshot;
    pub(crate) mod status_forecast;
    pub mod tracker;
    pub(crate) mod tree_state;
    pub(crate) mod wait;
    pub(crate) mod waiting;
}

/// L2: the kernel. The only module with `unsafe`.
#[allow(unsafe_code)]
pub mod process {
    pub mod capture;
    pub mod descriptors;
    pub mod files;
    pub mod kill;
    mod launcher;
    pub(crate) mod local_socket;
    mod marking;
    pub mod probe;
    mod program;
    pub mod pty;
    pub(crate) mod restorer;
    pub mod signals;
    pub mod snapshots;
    pub mod spawn;
    pub mod survivors;
    pub mod terminate;
    pub mod tree;
    pub mod wait;

    /// The implementation for Linux.
    #[cfg(all(target_os = "linux", not(feature = "portable")))]
    #[path = "linux"]
    mod system {
        mod calls;
        pub mod close_on_exec;
        pub mod directory_watch;
        pub mod ends;
        pub mod guard;
        pub mod hangup;
        pub mod listening;
        mod locks;
        pub mod memory;
        pub mod orphans;
        pub mod processes;
        mod sockets;
        pub mod start;
        pub mod terminal_pair;
        pub mod usage;
        pub mod waits;
    }

    /// The twin of each file, for any other Unix.
    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    #[path = "portable"]
    mod system {
        pub mod close_on_exec;
        mod darwin;
        pub mod directory_watch;
        pub mod ends;
        pub mod groups;
        pub mod guard;
        pub mod hangup;
        mod libproc;
        mod lineage;
        pub mod listening;
        pub mod memory;
        pub mod orphans;
        pub mod processes;
        mod queue;
        pub mod start;
        pub mod terminal_pair;
        pub mod usage;
        pub mod waits;
    }

    pub use system::*;
}

/// L2: JSON-RPC over stdio.
pub mod protocol {
    pub mod era;
    pub mod framing;
    pub mod id;
    pub mod message;
    pub mod reader;
    pub mod stateless;
    pub mod tasks;
    pub mod transport;
}

/// L3: command history, and what it predicts. Only the store and its schema use SQL; the rest is
/// pure.
pub mod alan {
    pub(crate) mod estimate;
    pub mod fingerprint;
    pub(crate) mod history;
    pub(crate) mod insight;
    pub(crate) mod kill;
    pub mod pattern;
    pub mod rows;
    pub mod run;
    pub mod schema;
    pub mod store;
}

/// L3: one task, its output and its worker; all tasks and their limits.
pub mod task {
    pub mod attached;
    pub(crate) mod commands;
    pub(crate) mod completion;
    pub(crate) mod describe;
    pub mod environment;
    pub mod events;
    pub mod follower;
    pub(crate) mod housekeeping;
    pub(crate) mod input;
    pub(crate) mod invocation;
    pub mod journal;
    pub mod live;
    pub mod port;
    pub mod port_watch;
    pub(crate) mod probes;
    pub(crate) mod prologue;
    pub(crate) mod recalled;
    pub mod registry;
    pub mod request;
    pub(crate) mod secret_input;
    pub(crate) mod sessions;
    pub(crate) mod shell;
    pub mod state;
    pub mod supervisor;
    pub(crate) mod terminal;
    pub(crate) mod termination;
    pub(crate) mod tombstone;
    pub(crate) mod watch;
    pub(crate) mod worker;

    /// A task's output: kept under a quota, and read for results.
    pub(crate) mod output {
        pub(crate) mod budget;
        pub(crate) mod collector;
        pub(crate) mod lookup;
        pub(crate) mod mask;
        pub(crate) mod reading;
        pub(crate) mod segment;
        pub(crate) mod spool;
        pub(crate) mod tail;
    }
}

/// L4: connects tasks with the stored history.
pub(crate) mod history {
    pub(crate) mod git;
    pub(crate) mod identity;
    pub(crate) mod manopt;
    pub(crate) mod notices;
    mod recently_shown;
    pub(crate) mod recorder;
    #[cfg(test)]
    mod replay;
    pub(crate) mod run_record;
}

/// L4: agent programs: how they are started, their streams, their storage and their verdicts, and
/// the judges of their progress.
pub mod agent {
    pub mod activity;
    pub mod checks;
    pub mod endpoint;
    pub mod executor;
    mod json;
    pub mod judge;
    mod storage;
    pub mod stream;
    pub mod verdict;
}

/// L5: agent runs: their states, their files and their execution.
pub mod oneshot {
    pub mod attempt;
    pub mod controls;
    pub mod engine;
    pub mod liveness;
    pub mod log;
    pub mod log_line;
    pub mod log_reader;
    pub mod pipeline;
    pub mod policy;
    pub mod prompts;
    pub mod recovery;
    pub mod redaction;
    pub mod reporter;
    pub mod run;
    pub mod run_files;
    pub mod run_tracker;
    pub mod runtime;
    pub mod sessions;
    pub mod state;
    pub mod transcript;
}

/// L6: the tools of the MCP server.
pub mod mcp {
    pub mod arguments;
    mod attach;
    mod ceilings;
    #[cfg(feature = "conformance")]
    pub mod conformance;
    pub mod control;
    pub mod detach;
    pub mod dispatch;
    pub mod events;
    pub mod extension_tasks;
    mod hosts;
    pub mod in_flight;
    mod kill;
    mod learned;
    pub mod memory;
    pub mod outputs;
    mod poll;
    mod relay;
    pub mod rpc_error;
    mod run;
    mod search;
    mod send;
    pub mod server;
    mod status;
    pub mod tools;

    /// States, reasons and outcomes in words.
    pub mod render {
        pub mod insight;
        pub mod progress;
        pub mod result;
        pub mod view;
    }
}

/// L6: the monitor's HTTP server.
pub mod monitor {
    pub mod api;
    mod changes;
    pub mod dashboard;
    mod events;
    pub(crate) mod far;
    mod hosts;
    mod output;
    mod readable;
    pub mod runs;
    pub mod session;
    pub mod sessions;

    /// The HTTP server.
    pub mod http {
        pub mod access;
        pub mod connection;
        pub mod listener;
        pub mod request;
        pub mod response;
        pub mod sse;
        mod wire;
    }
}

/// L7: the subcommands.
pub mod commands {
    pub mod agent_openai;
    pub mod alan;
    pub mod attach;
    pub mod completions;
    pub mod config;
    pub mod control;
    pub mod doctor;
    pub mod events;
    pub mod exec;
    pub mod far;
    pub mod help;
    pub mod log;
    pub mod man;
    pub mod manopt;
    pub mod monitor;
    mod on_host;
    pub mod oneshot;
    pub mod output;
    pub mod serve;
    pub mod setup;
    pub mod shim;
    mod signals;
    pub mod tasks;
}
