//! Formats quantities for people. Pure.

use std::time::Duration;

/// A number of bytes: `2.0 KB`, `5.5 MB`.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = "KB";
    for larger in ["MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    format!("{value:.1} {unit}")
}

/// Rounded to tenths, as programs get durations.
pub(crate) fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

/// A number with thousands separators: `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Whole seconds, minutes, hours: `18s`, `3m05s`, `2h10m`.
pub(crate) fn seconds(duration: Duration) -> String {
    let all = duration.as_secs();
    match all {
        0..120 => format!("{all}s"),
        120..7200 => format!("{}m{:02}s", all / 60, all % 60),
        _ => format!("{}h{:02}m", all / 3600, all % 3600 / 60),
    }
}

/// A count with its noun: `1 process`, `2 processes`.
pub(crate) fn plural(count: impl ToString, one: &str, more: &str) -> String {
    let count = count.to_string();
    let noun = if count == "1" { one } else { more };
    format!("{count} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, wanted) in [
            (0, "0 B"),
            (999, "999 B"),
            (2048, "2.0 KB"),
            (5_500_000, "5.5 MB"),
            (1 << 40, "1.1 TB"),
        ] {
            assert_eq!(size(bytes), wanted);
        }
    }
}
