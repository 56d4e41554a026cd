//! zsh-tool: the shell that tells an AI agent the truth.
//!
//! # In five sentences
//!
//! A command runs under a *worker*, a thread that is the only one to read its output,
//! write its input, signal its processes and report its state. What the worker sees
//! becomes events of a pure state machine, whose effects it carries out. Output goes to
//! a *spool* under a quota; watchers wait on the task's monitor and read the spool by
//! themselves. A *supervisor* starts tasks within the limits and ends them all. Faces
//! (the MCP tools, the command line) only translate.
//!
//! # The way in, the way back
//!
//! ```text
//! stdin → protocol::transport → framing → message → mcp::server → mcp::dispatch
//!       → task::supervisor → task::worker → process
//! process → task::worker → task::spool, task::live → (condvar) → task::watch
//!       → task::reading → text::lines → mcp::render → protocol::transport → stdout
//! task::worker → task::ending → record::account → alan::store
//!       → record::recorder → alan::{estimate, insight, kill} → mcp::render
//! ```
//!
//! An agent run comes in by the command line, and uses the same supervision:
//!
//! ```text
//! commands::oneshot → oneshot::engine → oneshot::equipment → task::supervisor → process
//! task::worker → task::follower → oneshot::agent_task → oneshot::pipeline (→ the log)
//!       → oneshot::attempt (pulse, policy) → oneshot::engine → oneshot::state → files
//! ```
//!
//! There is no other way. Two eras of MCP come in by it side by side: clients that shake
//! hands once ([`protocol::era`]), and clients whose every request speaks for itself
//! ([`protocol::stateless`]); what they differ in ends in [`mcp::server`]. Above the
//! server stands its *guard* ([`process::guard`]), the process that the client started;
//! no data passes through it.
//!
//! # Layers
//!
//! A folder knows only strictly lower layers, none of its own; `tests/layering.rs` sees to it.
//!
//! | layer | module | what it may touch |
//! |---|---|---|
//! | L0 | [`base`] | the clock, locks |
//! | L1 | [`text`], [`shell`], [`progress`], [`neverhang`], [`cli`] | nothing: pure |
//! | L2 | [`process`] | the kernel; the only `unsafe`, `libc`, `rustix`, `procfs` |
//! | L2 | [`protocol`] | stdin and stdout |
//! | L3 | [`task`] | processes and spool files, through [`process`] |
//! | L3 | [`alan`] | the database of what commands did |
//! | L3 | [`config`] | the environment and the configuration file |
//! | L4 | [`record`] | what is remembered of tasks |
//! | L4 | [`agent`] | what agent programs keep of their own, to read; a model's endpoint |
//! | L5 | [`oneshot`] | the files of agent runs, and the processes of their agents |
//! | L6 | [`mcp`] | words: states and reasons become text here |
//! | L6 | [`monitor`] | sockets; words for browsers and programs |
//! | L7 | [`commands`] | the terminal of a person |
//! | L8 | [`app`] | puts all of it together |
//!
//! # Platforms
//!
//! Linux is complete. What it alone can do is in `process/linux`, with a twin of each file in
//! `process/portable` for other systems and the feature `portable`: twins know what they have
//! started by its process groups, and claim nothing that they cannot see.
//!
//! # What always holds
//!
//! - A command's exit code is its shell's own wait status. The prologue's side-band
//!   ([`task::shell`]) adds pipeline statuses and the directory, and is believed only
//!   where it agrees.
//! - A task ends with its shell and a short drain, never with the end of a pipe that
//!   some other process may hold.
//! - A process is signalled only when its pid *and* its start time are the ones meant
//!   ([`process::kill`]). A shell stays a zombie until its task is closed, so that the
//!   number of its process group is its own as well.
//! - The newest output is never lost, whatever disk and quotas do ([`task::spool`]).
//! - One result shows what no earlier one has shown: the cursor moves when a delta is
//!   taken, under the task's lock. Only what a client asks of a task of its own
//!   ([`mcp::task_answers`]) shows everything, and moves nothing.
//! - The server never asks its client anything.
//! - A run is recorded before anybody knows of its end ([`task::ending`]), so that the
//!   next call sees it. What is remembered advises; only an open circuit
//!   ([`neverhang`]) refuses.
//! - No command line is written or logged without [`text::redact`].
//! - A secret that was typed into a task is masked before its output goes anywhere
//!   ([`text::mask`], [`task::masking`]).
//! - Nothing that comes from outside panics; a panic in one call answers that call.
//!
//! # Locks
//!
//! Order: the registry, then a task's monitor, then a spool's index, then the store's
//! queue. None is held over a read, a write, a spawn or a channel send. A task's emulated
//! screen ([`task::terminal`]) has a lock of its own, under which no other is taken. Whoever
//! changes what others wait for does so under the task's monitor and notifies
//! ([`task::live::LiveTask::report`]); a model check (`tests/model`) shows that no wake-up
//! is lost. Who needs a scan of the machine while another takes one waits for that one
//! ([`process::snapshots`]), and holds nothing then.
//!
//! # Threads
//!
//! | thread | how many | waits in |
//! |---|---|---|
//! | main | 1 | a channel: the input's end, a signal |
//! | `reader` | 1 | `read(2)` of stdin |
//! | `writer` | 1 | a bounded channel, `write(2)` of stdout |
//! | `signals` | 1 | signal-hook's pipe |
//! | `hangup` | 1 | `poll(2)` of stdin: its end, also while the reader waits to answer |
//! | `housekeeping` | 1 | a channel; SIGCHLD wakes it |
//! | `call-…` | one for each call of a tool or about a client's task, at most 64 | a task's monitor |
//! | `store` | 1, from the first use of the database on | a condvar, SQLite |
//! | `check-wait` | one for each check of a run's agent | a status check |
//! | `answers` | 1, once a person was asked about a stuck agent | `read(2)` of stdin |
//! | `check-…` | one for each status check, at most 3 | an endpoint, a task's monitor |
//! | `task-…` | one for each task while it or its leftovers live | `poll(2)` |
//! | `monitor` | 1, if HTTP is served | `poll(2)` of its listener and of streams' sockets |
//! | `monitor-…` | one for each connection, at most 32 | its socket, what it is asked for |
//! | `manopt` | one for each look-up, until its time limit at most | `poll(2)` |
//!
//! `exec` has `input` and `output` as well, the portable twins `child-end`, `guard`, `groups`
//! and `look-again`. The reader, `hangup`, `signals`, `input` and `answers` may be blocked for
//! as long as the client lives, and end with the process, and so do look-ups
//! ([`record::manopt`]), whose processes the server's end takes along; all others are joined
//! or counted at the end. The thread that starts a child is the one that waits for it.
//!
//! # How to add
//!
//! - **A tool**: its argument type and its entry in [`mcp::tools`], a variant of
//!   `ToolName`, a method on `Tools` that gives an `Answer`, and its line in
//!   `Tools::call`. The schema comes from the type.
//! - **A setting**: one entry in the table of [`config`]; it is parsed, printed and
//!   documented from there.
//! - **An insight**: a variant of [`alan::insight::Insight`] with its words there, and a
//!   condition in one of its two submodules.
//! - **Something on the page**: `data/dashboard`, where text gets into the page through
//!   `elements.js` alone; a new script also goes into the list of [`monitor::dashboard`].
//! - **A column, a table, an index**: a new file in `data/schema` and its entry in
//!   [`alan::schema`]; steps that have been released never change.
//! - **A judge**: a type that is a [`agent::judge::Judge`], a variant of
//!   [`config::JudgeChoice`], and its line in [`commands::setup::judge`].
//! - **A reason, a state, an outcome**: a variant that carries its data; [`mcp::render`]
//!   and [`commands`] give it words.
//! - **A program** whose subcommands or options matter to templates: one line in the
//!   tables of [`shell`], and a row in `tests/fixtures/commands`.
//! - **A path of the monitor**: an arm in its routes; what a page may ask without the token
//!   is decided in [`monitor::connection`] alone.
//! - **An agent program**: an entry in `data/executors.yaml`, with fixtures of what it
//!   keeps; only what no entry can say gets code in [`agent::executor`].
//! - **A system call**: a function in [`process`] with its `SAFETY:` line.

// What comes from outside must not be able to panic, so nothing may that can be written
// otherwise. Tests may.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

pub mod app;
#[cfg(test)]
mod arbitrary;
pub mod cli;
pub mod config;
pub mod neverhang;

/// L0: time and locks.
pub mod base {
    pub mod clock;
    pub mod sync;
}

/// L1: text as people read it. Pure.
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
    pub mod replies;
    pub mod row;
    pub mod screen;
    pub mod sequences;
    pub mod sgr;
}

/// L1: command lines as zsh reads them, what can be told from them, and manual pages. Pure.
pub mod shell {
    mod compound;
    pub mod decisive;
    mod frame;
    mod interactive;
    mod interpreters;
    pub mod lexer;
    pub mod lint;
    pub mod manpage;
    pub mod normalise;
    mod options;
    mod prefix;
    pub mod programs;
    pub mod reader;
    mod scan;
    mod self_match;
    pub mod ssh;
    pub mod syntax;
    pub mod template;
    pub mod token;
    pub mod unquote;
    mod wait_loop;
    mod words;
}

/// L1: how far a task has come. Pure.
pub mod progress {
    pub mod advice;
    pub mod condition;
    pub mod findings;
    pub mod ledger;
    pub mod novelty;
    pub mod outlook;
    mod ring;
    pub mod tracker;
    pub mod waiting;
}

/// L2: the kernel. The only module with `unsafe`.
pub mod process {
    pub mod capture;
    pub mod descriptors;
    pub mod files;
    pub mod hindrance;
    pub mod kill;
    mod marking;
    pub mod owner;
    pub mod process_info;
    mod program;
    pub mod pty;
    pub mod sight;
    pub mod signals;
    pub mod snapshots;
    pub mod spawn;
    pub mod survivors;
    pub mod tree;
    pub mod wait;

    /// What Linux alone can do, file by file.
    #[cfg(all(target_os = "linux", not(feature = "portable")))]
    #[path = "linux"]
    mod system {
        pub mod close_on_exec;
        pub mod ends;
        pub mod guard;
        pub mod memory;
        pub mod network;
        pub mod orphans;
        pub mod privacy;
        pub mod probe;
        pub mod processes;
        pub mod start;
        pub mod terminal_pair;
        pub mod usage;
        pub mod watch_file;
    }

    /// The twin of each: what any Unix can do in its place.
    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    #[path = "portable"]
    mod system {
        pub mod close_on_exec;
        pub mod ends;
        pub mod groups;
        pub mod guard;
        pub mod libproc;
        pub mod memory;
        pub mod network;
        pub mod orphans;
        pub mod privacy;
        pub mod probe;
        pub mod processes;
        pub mod start;
        pub mod terminal_pair;
        pub mod usage;
        pub mod watch_file;
    }

    pub use system::*;
}

/// L2: JSON-RPC over stdio.
pub mod protocol {
    pub mod era;
    pub mod framing;
    pub mod header;
    pub mod id;
    pub mod message;
    pub mod reader;
    pub mod stateless;
    pub mod tasks;
    pub mod transport;
}

/// L3: what commands did, and what that says of the next ones. The store and its schema
/// are the only ones that speak SQL; the rest is pure.
pub mod alan {
    pub mod estimate;
    pub mod fingerprint;
    pub mod history;
    pub mod insight;
    pub mod kill;
    pub mod options;
    pub mod outcome;
    pub mod pattern;
    pub mod rows;
    pub mod run;
    pub mod schema;
    pub mod store;
}

/// L3: one task, its output and its worker; all tasks and their limits.
pub mod task {
    pub mod attendance;
    pub mod budget;
    pub mod cancel;
    pub mod collector;
    pub mod deadline;
    pub mod ending;
    pub mod entry;
    pub mod environment;
    pub mod errors;
    pub mod follower;
    pub mod housekeeping;
    pub mod input;
    pub mod journal;
    pub mod kill_run;
    pub mod leftovers;
    pub mod live;
    pub mod looks;
    pub mod lookup;
    pub mod masking;
    pub mod order;
    pub mod order_line;
    pub mod preludes;
    pub mod reading;
    pub mod registry;
    pub mod request;
    pub mod sampling;
    pub mod secrets;
    pub mod segment;
    pub mod sending;
    pub mod shell;
    pub mod spool;
    pub mod state;
    pub mod supervisor;
    pub mod tail;
    pub mod terminal;
    pub mod tracking;
    pub mod typing;
    pub mod watch;
    pub mod wiring;
    pub mod words;
    pub mod worker;
}

/// L4: where tasks meet what is remembered of them.
pub mod record {
    pub mod account;
    pub mod consultation;
    pub mod git;
    pub mod manopt;
    pub mod notices;
    pub mod pattern;
    pub mod recorder;
    mod repetition;
}

/// L4: agent programs: how they are started, what they say, what they leave behind, what
/// their verdicts mean, and who judges whether they get on.
pub mod agent {
    pub mod activity;
    pub mod checks;
    pub mod endpoint;
    pub mod executor;
    mod failure;
    pub mod interrupt;
    mod json;
    pub mod judge;
    mod storage;
    pub mod stream;
    pub mod verdict;
}

/// L5: agent runs: their states, their files, and what goes on in them.
pub mod oneshot {
    pub mod agent_task;
    pub mod attempt;
    pub mod context;
    pub mod controls;
    pub mod engine;
    pub mod equipment;
    pub mod event;
    pub mod face;
    pub mod life;
    pub mod lock;
    pub mod log;
    pub mod log_line;
    pub mod log_reader;
    pub mod pipeline;
    pub mod policy;
    pub mod prompts;
    pub mod pulse;
    pub mod reason;
    pub mod recall;
    pub mod redaction;
    pub mod run;
    pub mod salvage;
    pub mod sessions;
    pub mod source;
    pub mod stage;
    pub mod state;
    pub mod transcript;
    mod unfinished;
    mod writer;
}

/// L6: the tools of the MCP server.
pub mod mcp {
    pub mod arguments;
    pub mod calls;
    pub mod choices;
    pub mod conditions;
    #[cfg(feature = "conformance")]
    pub mod conformance;
    pub mod control;
    pub mod dispatch;
    pub mod insight;
    pub mod memory;
    pub mod meter;
    pub mod notice;
    pub mod outputs;
    pub mod overview;
    pub mod poll;
    pub mod progress;
    pub mod receipt;
    pub mod refusal;
    pub mod render;
    pub mod run;
    pub mod screen;
    pub mod search;
    pub mod server;
    pub mod task_answers;
    pub mod times;
    pub mod tools;
    pub mod view;
}

/// L6: the monitor's HTTP server.
pub mod monitor {
    pub mod access;
    pub mod answers;
    pub mod changes;
    pub mod checks;
    pub mod connection;
    pub mod dashboard;
    pub mod events;
    pub mod history;
    pub mod http;
    pub mod output;
    pub mod readable;
    pub mod request;
    pub mod response;
    pub mod routes;
    pub mod run_events;
    pub mod run_words;
    pub mod runs;
    pub mod session;
    pub mod sessions;
    pub mod stream;
    pub mod tasks;
    pub mod wire;
}

/// L7: what the command line can do.
pub mod commands {
    pub mod agent_openai;
    pub mod alan;
    pub mod completions;
    pub mod config;
    pub mod doctor;
    pub mod exec;
    pub mod log;
    pub mod man;
    pub mod manopt;
    pub mod monitor;
    pub mod oneshot;
    pub mod output;
    pub mod serve;
    pub mod setup;
    mod signals;
    pub mod tasks;
}
