//! Times as people and programs read them.

use std::time::Duration;

/// Whole seconds, minutes, hours: `18s`, `3m05s`, `2h10m`.
pub fn seconds(duration: Duration) -> String {
    let all = duration.as_secs();
    match all {
        0..120 => format!("{all}s"),
        120..7200 => format!("{}m{:02}s", all / 60, all % 60),
        _ => format!("{}h{:02}m", all / 3600, all % 3600 / 60),
    }
}

/// Milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
