//! Recognises times, durations and identifiers at the beginning of a text, which differ from line
//! to line without progress.
//!
//! Each function returns the length in bytes, or `None`. The caller ensures that no letter or
//! digit precedes the text. Pure.

use std::time::Duration;

/// The lengths of a UUID's groups (RFC 9562, section 4).
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
/// The shortest hexadecimal identifier: a shorter word may be an ordinary word or a counter.
const HEX_DIGITS: usize = 6;
/// Numbers that count as Unix seconds: from May 2014 to September 2039.
const EPOCH_SECONDS: std::ops::Range<u64> = 1_400_000_000..2_200_000_000;
/// The numbers of digits of Unix times: seconds, milliseconds, microseconds, nanoseconds.
const EPOCH_DIGITS: [usize; 4] = [10, 13, 16, 19];
/// Words after a number that make it an amount instead of a time.
const AMOUNTS: [&str; 6] = ["b", "byte", "bytes", "records", "rows", "lines"];

/// A duration at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Its length in bytes.
    pub(crate) length: usize,
    /// `None` if a part of it is below a second, because it is then a measured duration instead of
    /// an elapsed time.
    pub(crate) time: Option<Duration>,
}

/// `f81d4fae-7dec-11d0-a765-00a0c91e6bf6`
pub(super) fn uuid(text: &str) -> Option<usize> {
    let mut at = 0;
    for (index, group) in UUID_GROUPS.into_iter().enumerate() {
        if index > 0 {
            at += after(text, at, "-")?;
        }
        let digits = run(text, at, |byte| byte.is_ascii_hexdigit());
        if digits != group {
            return None;
        }
        at += group;
    }
    ends(text, at)
}

/// `0x7ffe12`, `42ba7d8`: a word of hexadecimal digits, among them a digit and a letter.
pub(super) fn hex(text: &str) -> Option<usize> {
    if let Some(prefix) = after(text, 0, "0x").or_else(|| after(text, 0, "0X")) {
        let digits = run(text, prefix, |byte| byte.is_ascii_hexdigit());
        return (digits > 0).then(|| ends(text, prefix + digits)).flatten();
    }
    let length = run(text, 0, |byte| byte.is_ascii_hexdigit());
    let word = text.get(..length)?.as_bytes();
    let has_both = word.iter().any(u8::is_ascii_digit) && word.iter().any(u8::is_ascii_alphabetic);
    (length >= HEX_DIGITS && has_both).then(|| ends(text, length)).flatten()
}

/// `1763816401`, `1763816401.123`, `1763816401123`: Unix seconds, or fractions of them.
pub(super) fn epoch(text: &str) -> Option<usize> {
    let length = digits(text, 0);
    let seconds: u64 = text.get(..EPOCH_DIGITS[0])?.parse().ok()?;
    if !EPOCH_DIGITS.contains(&length) || !EPOCH_SECONDS.contains(&seconds) {
        return None;
    }
    let length = ends(text, length + fraction(text, length))?;
    let next = text.get(length..)?.trim_start().split(|c: char| !c.is_alphabetic());
    let next = next.take(1).collect::<String>().to_ascii_lowercase();
    (!AMOUNTS.contains(&next.as_str())).then_some(length)
}

/// `2026-11-22`, `22/Nov/2026`, `22.11.2026`, `20261122T120001Z`, each with a time that directly
/// follows it, if any.
pub(super) fn date(text: &str) -> Option<usize> {
    let length = basic_date(text)
        .or_else(|| date_of(text, '-'))
        .or_else(|| date_of(text, '/'))
        .or_else(|| date_of(text, '.'))?;
    let glued = ["T", "t", ":", "_", "-"]
        .into_iter()
        .find_map(|glue| after(text, length, glue))
        .and_then(|glue| Some(glue + clock(text.get(length + glue..)?)?.length));
    ends(text, length + glued.unwrap_or(0))
}

/// Year, month and day in either order, separated by this character.
fn date_of(text: &str, separator: char) -> Option<usize> {
    let separator = separator.encode_utf8(&mut [0; 4]).to_owned();
    let first = digits(text, 0);
    let mut at = first + after(text, first, &separator)?;
    let month = match run(text, at, |byte| byte.is_ascii_alphabetic()) {
        0 => digits(text, at),
        name => name,
    };
    at += month;
    at += after(text, at, &separator)?;
    let last = digits(text, at);
    let is_date = match (first, month, last) {
        (4, 1..=3, 1..=2) | (1..=2, 1..=3, 4) => true,
        (2, 2, 2) => separator == "/",
        _ => false,
    };
    is_date.then_some(at + last)
}

/// `20261122T120001Z`, `20261122-120001`
fn basic_date(text: &str) -> Option<usize> {
    let day = digits(text, 0);
    let year = text.get(..2)?;
    let glue = ["T", "-", "_"].into_iter();
    let glue = glue.filter_map(|glue| after(text, day, glue)).next()?;
    let time = digits(text, day + glue);
    if day != 8 || !matches!(year, "19" | "20") || time != 6 {
        return None;
    }
    let end = day + glue + time;
    Some(end + fraction(text, end) + zone(text, end + fraction(text, end)))
}

/// `12:00:01`, `12:00`, `12:00:01,123Z`, also read as a duration.
pub(super) fn clock(text: &str) -> Option<Span> {
    let mut at = digits(text, 0);
    let mut seconds: u64 = text.get(..at)?.parse().ok()?;
    if at > 3 {
        return None;
    }
    let mut parts = 1;
    while let Some(colon) = after(text, at, ":")
        && digits(text, at + colon) == 2
        && parts < 3
    {
        let part = text.get(at + colon..at + colon + 2)?;
        let part: u64 = part.parse().ok().filter(|part| *part < 60)?;
        seconds = seconds * 60 + part;
        at += colon + 2;
        parts += 1;
    }
    if parts == 1 || after(text, at, ":").is_some_and(|colon| digits(text, at + colon) > 0) {
        return None;
    }
    at += fraction(text, at);
    at += zone(text, at);
    for half in ["am", "pm", "AM", "PM"] {
        at += after(text, at, half).unwrap_or(0);
    }
    Some(Span { length: ends(text, at)?, time: Some(Duration::from_secs(seconds)) })
}

/// `Z`, `+01:00`, `-0800`; 0 if there is none.
fn zone(text: &str, at: usize) -> usize {
    if let Some(utc) = after(text, at, "Z") {
        return utc;
    }
    let Some(sign) = after(text, at, "+").or_else(|| after(text, at, "-")) else {
        return 0;
    };
    let hours = digits(text, at + sign);
    let colon = after(text, at + sign + hours, ":").unwrap_or(0);
    let minutes = digits(text, at + sign + hours + colon);
    match (hours, colon, minutes) {
        (2, 1, 2) | (4, 0, 0) => sign + hours + colon + minutes,
        _ => 0,
    }
}

/// `40s`, `1m 5s`, `1h02m03s`, `3.2 sec`, `2 minutes and 5 seconds`, `120ms`
pub(super) fn duration(text: &str) -> Option<Span> {
    let mut span = part_of_duration(text)?;
    while let Some(next) = next_part(text, span.length) {
        span.length = next.length;
        let sum = |(one, other): (Duration, Duration)| one.saturating_add(other);
        span.time = span.time.zip(next.time).map(sum);
    }
    ends(text, span.length)?;
    Some(span)
}

/// A time that has passed, of the time that there is, in the same unit: `12/60s`, `12 / 60 sec`.
pub(super) fn duration_of_limit(text: &str) -> Option<Span> {
    let (count, number) = leading_count(text)?;
    let slash = [" / ", "/"].into_iter().find_map(|gap| after(text, number, gap))?;
    let limit_text = text.get(number + slash..)?;
    let (limit_count, _) = leading_count(limit_text)?;
    let limit = duration(limit_text)?;
    let time = limit.time?.as_secs_f64() * count / limit_count;
    let time = Duration::try_from_secs_f64(time).ok();
    Some(Span { length: number + slash + limit.length, time })
}

/// The number that a text begins with, and its length.
fn leading_count(text: &str) -> Option<(f64, usize)> {
    let whole = digits(text, 0);
    let number = whole + fraction(text, whole);
    Some((text.get(..number)?.replace(',', ".").parse().ok()?, number))
}

/// The next part of a duration; the returned length includes the earlier parts.
fn next_part(text: &str, at: usize) -> Option<Span> {
    let gaps = ["", " ", ", ", " and "].into_iter();
    gaps.filter_map(|gap| {
        let from = at + after(text, at, gap)?;
        let part = part_of_duration(text.get(from..)?)?;
        Some(Span { length: from + part.length, ..part })
    })
    .next()
}

fn part_of_duration(text: &str) -> Option<Span> {
    let (count, number) = leading_count(text)?;
    let gap = after(text, number, " ").unwrap_or(0);
    let letters = text.get(number + gap..)?;
    let letters = letters.split(|c: char| !c.is_alphabetic()).next()?;
    let unit = match letters {
        "ns" | "us" | "µs" | "μs" | "ms" | "msec" | "msecs" | "millis" | "milliseconds" => None,
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3_600.0),
        "d" if gap == 0 => Some(86_400.0),
        "day" | "days" => Some(86_400.0),
        _ => return None,
    };
    let time = unit.and_then(|unit| Duration::try_from_secs_f64(count * unit).ok());
    Some(Span { length: number + gap + letters.len(), time })
}

/// `4711]:` after the bracket of `sshd[4711]:`
pub(super) fn pid(text: &str) -> Option<usize> {
    let number = digits(text, 0);
    (number > 0 && after(text, number, "]:").is_some()).then_some(number + 1)
}

/// ` 1012.345678]` after the bracket that begins a line of the kernel's log.
pub(super) fn since_boot(text: &str) -> Option<usize> {
    let blanks = run(text, 0, |byte| byte == b' ');
    let seconds = digits(text, blanks);
    let end = blanks + seconds + fraction(text, blanks + seconds);
    let is_stamp = seconds > 0 && end > blanks + seconds;
    (is_stamp && after(text, end, "]").is_some()).then_some(end + 1)
}

/// A number, with separators and a fraction: its length and its value in thousandths.
pub(super) fn number(text: &str) -> Option<(usize, u64)> {
    let mut at = digits(text, 0);
    let mut whole: u64 = text.get(..at)?.parse().unwrap_or(u64::MAX);
    if at == 0 {
        return None;
    }
    if at <= 3 {
        while let Some(comma) = after(text, at, ",")
            && digits(text, at + comma) == 3
        {
            let group = text.get(at + comma..at + comma + 3)?;
            let group: u64 = group.parse().ok()?;
            whole = whole.saturating_mul(1_000).saturating_add(group);
            at += comma + 3;
        }
    }
    let mut value = whole.saturating_mul(1_000);
    if let Some(point) = after(text, at, ".") {
        let decimals = digits(text, at + point);
        let thousandths = text.get(at + point..at + point + decimals.min(3))?;
        for (digit, worth) in thousandths.bytes().zip([100, 10, 1]) {
            value = value.saturating_add(u64::from(digit - b'0') * worth);
        }
        if decimals > 0 {
            at += point + decimals;
        }
    }
    Some((at, value))
}

/// The length of a point or comma with the digits after it; 0 if there are none.
fn fraction(text: &str, at: usize) -> usize {
    let point = after(text, at, ".").or_else(|| after(text, at, ","));
    match point.map(|point| digits(text, at + point)) {
        Some(decimals) if decimals > 0 => 1 + decimals,
        _ => 0,
    }
}

fn digits(text: &str, at: usize) -> usize {
    run(text, at, |byte| byte.is_ascii_digit())
}

fn run(text: &str, at: usize, is_part: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes().get(at..).unwrap_or_default();
    bytes.iter().take_while(|byte| is_part(**byte)).count()
}

/// The length of `wanted` if the text continues with it at this position.
fn after(text: &str, at: usize, wanted: &str) -> Option<usize> {
    text.get(at..)?.starts_with(wanted).then_some(wanted.len())
}

/// The position, if a word ends there.
fn ends(text: &str, at: usize) -> Option<usize> {
    let next = text.get(at..)?.chars().next();
    next.is_none_or(|next| !next.is_alphanumeric()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_end_with_their_word() {
        let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        assert_eq!(uuid(id), Some(36));
        assert_eq!(uuid(&format!("{id}, next")), Some(36));
        assert_eq!(uuid(&format!("{id}0")), None);
        assert_eq!(uuid("f81d4fae-7dec-11d0-a765"), None);
        for (text, length) in [
            ("0x1f)", Some(4)),
            ("0x", None),
            ("0xfoo", None),
            ("42ba7d8 Decide", Some(7)),
            ("a3ed95caeb02: Pulling", Some(12)),
            ("facade", None),
            ("123456", None),
            ("12ab", None),
            ("42ba7d8x", None),
        ] {
            assert_eq!(hex(text), length, "{text}");
        }
    }

    #[test]
    fn dates_and_times_of_day_are_read_in_their_usual_forms() {
        for text in [
            "2026-11-22",
            "2026/11/22",
            "22.11.2026",
            "11/22/26",
            "22/Nov/2026:12:00:01",
            "22-Nov-2026",
            "2026-11-22T12:00:01Z",
            "2026-11-22T12:00:01.123456789+01:00",
            "2026-11-22T12:00:01-0800",
            "2026-11-22-12:00:01",
            "20261122T120001Z",
            "20261122-120001",
        ] {
            assert_eq!(date(text), Some(text.len()), "{text}");
            assert_eq!(date(&format!("{text}] x")), Some(text.len()), "{text}");
        }
        for text in ["1.2.3", "12-24", "1/2/3", "2026", "2026-11-22x", "10.0.0.1"] {
            assert_eq!(date(text), None, "{text}");
        }
        for (text, length, seconds) in [
            ("12:00:01", 8, 43_201),
            ("12:00:01,123 INFO", 12, 43_201),
            ("00:12<00:30", 5, 12),
            ("9:24:14PM", 9, 33_854),
            ("100:00:01", 9, 360_001),
        ] {
            let span = clock(text).expect(text);
            assert_eq!(span.length, length, "{text}");
            assert_eq!(span.time, Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["12", "1:2", "12:60", "12:345", "1:02:03:04", "8080:22"] {
            assert_eq!(clock(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        let seconds = |text: &str| duration(text).map(|span| (span.length, span.time));
        let of = |length, seconds| Some((length, Some(Duration::from_secs_f64(seconds))));
        assert_eq!(seconds("40s elapsed"), of(3, 40.0));
        assert_eq!(seconds("1m 5s)"), of(5, 65.0));
        assert_eq!(seconds("1h02m03s"), of(8, 3_723.0));
        assert_eq!(seconds("3.2 sec"), of(7, 3.2));
        assert_eq!(seconds("2 minutes and 5 seconds"), of(23, 125.0));
        assert_eq!(seconds("2 minutes, 5 seconds."), of(20, 125.0));
        assert_eq!(seconds("3d"), of(2, 259_200.0));
        assert_eq!(seconds("120ms"), Some((5, None)));
        assert_eq!(seconds("1.5 µs"), Some(("1.5 µs".len(), None)));
        for text in ["12", "5 main", "5x", "10.5.3s", "5d3f1a", "3 MB"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_of_seconds_since_1970_is_a_time_and_an_amount_is_none() {
        assert_eq!(epoch("1763816401"), Some(10));
        assert_eq!(epoch("1763816401.123] x"), Some(14));
        assert_eq!(epoch("1763816401123"), Some(13));
        for text in ["1763816401 bytes", "1234567890", "17638164012", "12", ""] {
            assert_eq!(epoch(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_completely() {
        for (text, wanted) in [
            ("7", Some((1, 7_000))),
            ("1,999 of", Some((5, 1_999_000))),
            ("1,2,3", Some((1, 1_000))),
            ("1.9%", Some((3, 1_900))),
            ("0.12345", Some((7, 123))),
            ("5.", Some((1, 5_000))),
            ("99999999999999999999999", Some((23, u64::MAX))),
            ("x", None),
        ] {
            assert_eq!(number(text), wanted, "{text}");
        }
    }
}
