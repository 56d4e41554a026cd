//! L2: is a silent task slow or stuck, and what does it wait for? Everything here is pure: `task::probes`
//! samples, this folder decides, `task::describe` says it.
//!
//! Sample, classify, say:
//!
//! - Sample: [`wait`] is what one probe has seen of each thread, [`counters`] adds up what processes
//!   have read, written and computed, [`condition`] is a state worth a line (stopped, disk sleep).
//! - Classify one probe: [`tree_state`] (what do the processes do?), [`standstill`] (have the threads of
//!   a runtime done nothing?), [`waiting`] (is it the task's input?), [`question`] (what is asked?),
//!   [`mentions`] and [`novelty`] (is a line news?), [`runner_summary`] (is its work done?).
//! - Judge over time: [`tracker`] tells heartbeats from changes, [`progress_state`] joins that with the
//!   probes into a verdict, [`status_forecast`] says how the verdict changes until the next probe.
//! - Say: [`advice`] to an agent that polls.

pub(crate) mod advice;
pub(crate) mod condition;
pub(crate) mod cost;
pub(crate) mod counters;
pub(crate) mod mentions;
pub(crate) mod novelty;
pub(crate) mod progress_state;
pub(crate) mod question;
pub(crate) mod runner_summary;
pub(crate) mod standstill;
pub(crate) mod status_forecast;
pub(crate) mod tracker;
pub(crate) mod tree_state;
pub(crate) mod wait;
pub(crate) mod waiting;
