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
    pub mod quoting;
    pub mod redact;
}

/// L1: how far a task has come. Pure.
pub mod progress {
    pub mod advice;
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
