//! Amounts in words.

use std::time::Duration;

/// Bytes for people: `2.0 KB`, `5.5 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// Whole seconds, minutes, hours: `18s`, `3m05s`, `2h10m`.
pub fn seconds(duration: Duration) -> String {
    let all = duration.as_secs();
    match all {
        0..120 => format!("{all}s"),
        120..7200 => format!("{}m{:02}s", all / 60, all % 60),
        _ => format!("{}h{:02}m", all / 3600, all % 3600 / 60),
    }
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
