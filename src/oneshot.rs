//! L6: an agent run: worker and auditor in turns, until the work is done. It survives every crash.
//!
//! Read in this order:
//!
//! - Decide: [`state`] is the state machine of a run, with every transition; [`policy`] says when to act
//!   on an agent; [`prompts`] what agents are told.
//! - Act: [`engine`] carries out the machine's actions, [`attempt`] follows one agent, [`runtime`] starts
//!   it, [`check`] runs the user's checks, [`repository`] takes snapshots of the files, [`prompt_file`]
//!   passes long prompts, [`recovery`] finds what earlier agents had done, [`controls`] takes requests
//!   from outside.
//! - See: [`pipeline`] turns an agent's output into records, [`transcript`], [`run_tracker`] and
//!   [`liveness`] say how far it is, [`reporter`] tells the display.
//! - Keep: [`run`] and [`run_files`] are the run's directory, [`log`], [`log_line`] and [`log_reader`]
//!   its log, [`redaction`] what may be written there, [`sessions`] all runs of a user,
//!   [`unreported`] which ends `zsh-tool events` has yet to report.
//!
//! May touch: the files of runs; agents' processes, through [`crate::task`].

pub(crate) mod attempt;
pub(crate) mod check;
pub(crate) mod controls;
pub(crate) mod engine;
pub(crate) mod liveness;
pub(crate) mod log;
pub(crate) mod log_line;
pub(crate) mod log_reader;
pub(crate) mod pipeline;
pub(crate) mod policy;
pub(crate) mod prompt_file;
pub(crate) mod prompts;
pub(crate) mod recovery;
pub(crate) mod redaction;
pub(crate) mod reporter;
pub(crate) mod repository;
pub(crate) mod run;
pub(crate) mod run_files;
pub(crate) mod run_tracker;
pub(crate) mod runtime;
pub(crate) mod sessions;
pub(crate) mod state;
pub(crate) mod transcript;
pub(crate) mod unreported;
