//! L5: agent programs: how they are started, what they print, where they keep their work; and judges.
//!
//! Read in this order:
//!
//! - [`executor`]: the programs that runs can use, from `data/executors.yaml`.
//! - [`stream`], `json` and [`activity`]: their output as activities in terms that all of them share.
//! - [`usage`]: what they report of their cost. [`deeds`]: how much they did.
//! - [`verdict`]: what an auditor decided. `storage`: what a failed agent had done.
//! - [`judge`] and [`checks`]: whether a session makes progress, by rules, by a command or by a model
//!   behind [`endpoint`].
//!
//! May touch: the storage of agent programs, to read it; a model's endpoint.

pub(crate) mod activity;
pub(crate) mod checks;
pub(crate) mod deeds;
pub(crate) mod endpoint;
pub(crate) mod executor;
mod json;
pub(crate) mod judge;
pub(crate) mod outage;
mod storage;
pub(crate) mod stream;
pub(crate) mod usage;
pub(crate) mod verdict;
