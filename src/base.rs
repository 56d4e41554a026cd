//! L0: what every layer may use, and what knows no other.
//!
//! - [`cancel`]: a call that may be cancelled until its answer begins.
//! - [`clock`]: the time as a value, so that pure code gets it passed in.
//! - [`sync`]: one mutex with its condvar. With the feature `shuttle` it is a model, whose schedules
//!   `tests/model` tries.
//!
//! May touch: the clock and locks.

pub(crate) mod cancel;
pub(crate) mod clock;
pub(crate) mod sync;
