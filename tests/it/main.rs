//! The integration tests: the real binary, driven over stdio as a client drives it.
//!
//! One test binary for all of them, since each links the same harness. Every test has
//! a directory tree and a server of its own, so they run side by side. The program
//! under test is the one that Cargo built, or the one that `ZSH_TOOL_BIN` names (the
//! static build is tested so).

#![expect(clippy::disallowed_methods, reason = "the paths of tests are plain")]

mod agent_openai;
mod agents;
mod alan_faults;
mod arguments;
mod attach;
mod calls_under_way;
mod ceilings;
mod client_terminal;
mod clients;
mod command_text;
mod control_socket;
mod costs;
mod database;
mod detached;
mod dialect;
mod earlier_state;
mod environment;
mod era;
mod events;
mod evidence;
mod exec;
mod exit_codes;
mod faults;
mod fuzz_seeds;
mod history_insights;
mod history_shared;
mod history_tools;
mod hosts;
mod hosts_faults;
mod hosts_roots;
mod http;
mod http_times;
mod inherited;
mod judge;
mod keys;
mod kill;
mod late_output;
mod leftovers;
mod lexer;
mod lifetime;
mod limits;
mod line_view;
mod listen_window;
mod long;
mod long_lines;
mod manopt;
mod memory;
mod monitor;
mod oneshot_agents;
mod oneshot_budgets;
mod oneshot_changes;
mod oneshot_checks;
mod oneshot_commands;
mod oneshot_executors;
mod oneshot_interrupts;
mod oneshot_outages;
mod oneshot_project;
mod oneshot_runs;
mod oneshot_watch;
mod output;
mod own_shell;
mod permissions;
mod ports;
mod progress;
mod prompting_programs;
mod protocol;
mod pty;
mod readme;
mod replies;
mod restarts;
mod run_files;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod sandbox;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod sandbox_around;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod sandbox_control;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod sandbox_kernel;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod sandbox_refusals;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod sandbox_settings;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod sandbox_ways_round;
mod sandboxes;
mod screen;
mod searches;
mod secrets;
mod sessions;
mod setup;
mod shown;
mod shutdown;
mod soak;
mod soak_restarts;
mod streams;
mod structured;
mod subcommands;
mod timing;
mod tombstones;
mod voice;
mod waiting;
mod zsh_suite;

/// Real programs on a terminal, used as an agent uses them.
mod programs {
    mod colours;
    mod editors;
    mod prompts;
    mod repl;
    mod session;
}

/// A corpus of process shapes, each with the verdict that it is to get.
mod shapes {
    mod agent;
    mod answer;
    pub mod corpus;
    mod ending;
    pub mod further;
    mod healthy;
    mod lookalikes;
    mod outcomes;
    mod prompts;
    mod repeating;
    pub mod reproductions;
    mod services;
    mod shape;
    mod spinners;
    mod stuck;
    mod tree;
    mod turns;
    mod unending;
    mod verdict;
    mod waiting;
    mod workshop;
}

/// What the tests are written with; no test of its own.
mod support {
    pub mod client;
    pub mod database;
    pub mod endpoint;
    pub mod env;
    pub mod http;
    pub mod inbox;
    pub mod oneshot;
    pub mod processes;
    pub mod program;
    pub mod recordings;
    pub mod result;
    pub mod runs;
    pub mod schema;
    pub mod ssh_host;
    pub mod state_files;
    pub mod terminal;
    pub mod tmux;
    pub mod trees;
    pub mod unprivileged;
    pub mod watcher;
}
