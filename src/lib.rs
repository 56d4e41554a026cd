//! zsh-tool: the shell that tells an agent the truth.

pub mod app;
pub mod cli;
pub mod config;

/// L0: time and locks.
pub mod base {
    pub mod clock;
    pub mod sync;
}

/// L1: text as people read it. Pure.
pub mod text {
    pub mod ansi;
    pub mod lines;
    pub mod progress_lines;
    pub mod quoting;
    pub mod redact;
}

/// L1: how far a task has come. Pure.
pub mod progress {
    pub mod advice;
}

/// L2: the kernel. The only module with `unsafe`.
pub mod process {
    pub mod descriptors;
    pub mod files;
    pub mod guard;
    pub mod kill;
    pub mod orphans;
    pub mod pty;
    pub mod signals;
    pub mod spawn;
    pub mod tree;
    pub mod wait;
    pub mod watch_file;
}

/// L2: JSON-RPC over stdio.
pub mod protocol {
    pub mod era;
    pub mod framing;
    pub mod header;
    pub mod id;
    pub mod message;
    pub mod reader;
    pub mod transport;
}

/// L3: one task, its output and its worker; all tasks and their limits.
pub mod task {
    pub mod deadline;
    pub mod environment;
    pub mod input;
    pub mod journal;
    pub mod kill_run;
    pub mod live;
    pub mod reading;
    pub mod registry;
    pub mod shell;
    pub mod spool;
    pub mod state;
    pub mod supervisor;
    pub mod watch;
    pub mod worker;
}

/// L4: where tasks meet what is remembered of them.
pub mod record {
    pub mod notices;
}

/// L6: the tools of the MCP server.
pub mod mcp {
    pub mod arguments;
    pub mod dispatch;
    pub mod insight;
    pub mod overview;
    pub mod render;
    pub mod search;
    pub mod server;
    pub mod tools;
}

/// L7: what the command line can do.
pub mod commands {
    pub mod completions;
    pub mod config;
    pub mod doctor;
    pub mod exec;
    pub mod log;
    pub mod output;
    pub mod serve;
    pub mod setup;
    pub mod tasks;
}
