//! Times as people and programs read them.

use std::time::Duration;

pub use crate::text::quantity::seconds;

/// Milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
