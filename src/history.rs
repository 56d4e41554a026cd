//! L5: connects tasks with the recorded history.
//!
//! Read in this order:
//!
//! - [`recorder`]: what the tools and the command line ask.
//! - [`run_record`]: one run, from its history before to its record after; [`identity`] derives which
//!   command it was, from its redacted text; [`git`] which commit was checked out.
//! - [`notices`]: tasks that ended while no call watched them. `recently_shown`: what need not be said
//!   again.
//! - [`manopt`]: options from manual pages, on a thread with a time limit.
//!
//! May touch: what [`crate::task`] and [`crate::alan`] may; `man`.

pub(crate) mod git;
pub(crate) mod identity;
pub(crate) mod manopt;
pub(crate) mod notices;
mod recently_shown;
pub(crate) mod recorder;
#[cfg(test)]
mod replay;
pub(crate) mod run_record;
