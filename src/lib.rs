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
//! | L1 | [`text`] | nothing: pure |
//! | L2 | [`shell`], [`progress`], [`neverhang`], [`sandbox`], [`cli`] | nothing: pure |
//! | L3 | [`process`] | the kernel; the only `unsafe`, `libc`, `rustix`, `procfs` |
//! | L3 | [`protocol`] | stdin and stdout |
//! | L4 | [`task`] | processes and spool files, through [`process`] |
//! | L4 | [`alan`] | the database of command history |
//! | L4 | [`config`] | the environment and the configuration file |
//! | L5 | [`history`] | the recorded history of tasks |
//! | L5 | [`peer`] | the control sockets of other processes that own tasks; carriers to hosts |
//! | L5 | [`agent`] | agent programs' own storage, read-only; a model's endpoint |
//! | L6 | [`oneshot`] | the files of agent runs, and the processes of their agents |
//! | L7 | [`mcp`] | nothing: it renders results; phrases come from [`task::describe`], [`progress::advice`], [`alan::insight`] |
//! | L7 | [`monitor`] | sockets; responses for browsers and programs |
//! | L8 | [`commands`] | the user's terminal |
//! | L9 | [`app`] | wires everything together |
//! | L9 | [`testing`] | nothing: the public names, for tests alone |
//!
//! # Platforms
//!
//! Linux is complete. Linux-only code is in `process/linux`, with twins in
//! `process/portable` for other systems and the feature `portable`.
//!
//! # Invariants
//!
//! - A command's exit code is its shell's own wait status. The prologue ([`task::prologue`])
//!   also reports pipeline statuses and the directory; they are used only if the last status is
//!   the exit code.
//!   The shell behaves as under bare `zsh -c`; `zsh-tool help shell` lists each difference.
//! - A task ends with its shell and a short drain. It never waits for a pipe to close that
//!   another process may hold open.
//! - A signal is sent to a process only if its pid *and* its start time match
//!   ([`process::kill`]). A shell stays a zombie, and keeps its pid, until its task is closed.
//! - A sandbox is prepared before the fork, and the child only makes system calls
//!   ([`process::sandbox`]). What a call or its client asks for only tightens it ([`sandbox::policy`]);
//!   what cannot be enforced is refused, or named in each answer.
//! - What a task's shell has started, through any number of processes, carries the task's
//!   birthmark ([`process::birthmark`]): a daemon that keeps nothing else of its task is counted
//!   and ended as the others are.
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
//! - A server that is killed, or panics, is replaced on the same pipes; each request is taken and
//!   answered once ([`process::ledger`]).
//! - The files of a task outlive its server: every later server answers calls about the task
//!   ([`task::tombstone`], [`task::recalled`]).
//! - No outside input causes a panic; a panic in a call becomes that call's error.
//!
//! # Locks
//!
//! Order: the registry, then a task's state, then a spool's index, then the store's queue.
//! None is held during a read, a write, a spawn or a channel send. No other lock is taken under
//! that of a task's emulated screen ([`task::terminal`]), and none is held when the event signal
//! ([`task::events`]) is notified. Only [`task::live::LiveTask::report`] changes state that other
//! threads wait for; it changes the state under the task's lock, then notifies those that wait; a model
//! check (`tests/model`) shows that no wake-up is lost. A thread that waits for another's
//! scan of the machine ([`process::scans`]) holds no lock.
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
//! | `call-…` | one for each tool call, request about an MCP task or a page, event stream or attached person, at most 64 | a task's state, the signal for events |
//! | `call` | at most 4 for each connection, which wait for the next call | a condvar |
//! | `store` | 1, from the first use of the database | a condvar, SQLite |
//! | `check-wait` | one for each check of a run's agent | a status check |
//! | `recovery` | 1 for each recovery of a run; abandoned if the run is paused, cancelled or out of time | `read(2)` of logs |
//! | `answers` | 1, once the user was asked about a stuck agent | `read(2)` of stdin |
//! | `check-…` | one for each status check, at most 3 | an endpoint, a task's state |
//! | `task-…` | one for each task while it or its leftovers live | `poll(2)` |
//! | `monitor` | 1, if HTTP is served | `poll(2)` of its listener and of streams' sockets |
//! | `monitor-…` | one for each connection, at most 32 | its socket, what the request needs |
//! | `host` | one for each connection to a host, with a reader and a writer | the connection's end, a channel |
//! | `host-errors` | one for each connection to a host | `read(2)` of its carrier's stderr |
//! | `earlier` | on a host, one for each far side of an earlier connection | a channel |
//! | `manopt` | one for each look-up, until its time limit | `poll(2)` |
//!
//! Further threads: `exec` has `input` and `output`, `attach` has `input` and `task-events`, `doctor` has `self-check`; the code in `process/portable` has `child-end`, `guard`, `groups`,
//! `look-again` and, on macOS, `lineage`. The reader, `hangup`, `control`, `signals`, `input`, `answers`, `check-wait`, an idle `call`, an abandoned `recovery` and
//! look-ups ([`history::manopt`]) may be blocked until the process ends; all others are joined, or
//! waited for by their number, before it exits. The thread that starts a child is the one that waits for it.
//!
//! # How to add
//!
//! - **A tool**: its argument type and its entry in [`mcp::tools`], a variant of `ToolName` and of
//!   `mcp::call::Call`, a method on `Tools` that returns an `Answer`, and its line in `Tools::call`.
//!   The schema comes from the type.
//! - **A fact about a task**: a field of [`task::snapshot`], taken there, with a default for files of
//!   other versions, and a field of `TaskFacts` in [`mcp::outputs`], which all answers and lists
//!   contain; the page's `Session` is written by hand in [`monitor`]. A fact that is fixed at the
//!   start is a field of [`task::live::Facts`]. Its words belong to [`task::describe`].
//! - **A setting**: one entry in the table of [`config`]; it is parsed, printed and
//!   documented from there.
//! - **An insight**: a variant of [`alan::insight::Insight`] with its text and its usefulness
//!   there, and a condition in `before` (from the history) or `after` (at the end of a run);
//!   its row in `history::replay`, and its line in `data/help/history.txt`.
//! - **Something on the page**: `data/dashboard`, where only `elements.js` adds text; a new
//!   script also goes into [`monitor::dashboard`].
//! - **A column, a table, an index**: a new file in `data/schema` and its entry in
//!   [`alan::schema`]; steps that have been released never change.
//! - **A judge**: a type that implements [`agent::judge::Judge`], a variant of
//!   [`config::JudgeChoice`], and its line in [`commands::shared::judge`].
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
// `testing` names what is public.
#![warn(unreachable_pub)]
// Stdout carries the protocol; `commands::output` writes what a person reads.
#![warn(clippy::print_stdout)]
// Outside input must never cause a panic. Tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod agent;
mod alan;
pub mod app;
#[cfg(test)]
#[path = "../tests/arbitrary.rs"]
mod arbitrary;
mod base;
mod cli;
mod commands;
mod config;
mod history;
mod mcp;
mod monitor;
mod neverhang;
mod oneshot;
mod peer;
#[allow(unsafe_code)]
mod process;
mod progress;
mod protocol;
mod sandbox;
mod shell;
mod task;
#[doc(hidden)]
pub mod testing;
mod text;
