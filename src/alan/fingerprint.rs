//! Fingerprints of failures, so that a repeated one is recognised.
//!
//! A fingerprint covers the last lines of the output that look like an error, without parts that
//! differ from run to run: times, durations, process ids, temporary paths, addresses, counters.
//! Parts that distinguish errors stay: errno, HTTP statuses, ports, line numbers, exit codes.
//! Limits: error lines are found by English words; texts that differ only by a counter have the
//! same fingerprint. Linear in the text's length. Pure.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};
use sha2::{Digest, Sha256};

use crate::text::ansi::{self, Colours};
use crate::text::redact::Redactor;

/// How many of the last lines that look like errors are used.
const LINES: usize = 5;
/// How many bytes of a line are used.
const LINE_BYTES: usize = 300;
/// How many bytes at the end of the output are used.
const TAIL_BYTES: usize = 64 * 1024;
/// How far before a number to look for the word that names it.
const WORD_BYTES: usize = 24;

/// The fingerprint of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// 16 hex digits, equal for failures that look the same.
    pub hash: String,
    /// The error lines as printed, without escape sequences and secrets.
    pub lines: Vec<String>,
}

impl Fingerprint {
    /// The first error line.
    pub fn first_line(&self) -> &str {
        self.lines.first().map_or("", String::as_str)
    }
}

/// The fingerprint of a failed run; `None` when it printed nothing.
pub fn of_failure(output: &str, exit_code: i32, redactor: &Redactor) -> Option<Fingerprint> {
    let printed = error_lines(output).join("\n");
    if printed.is_empty() {
        return None;
    }
    let redacted = redactor.redact(&printed);
    let lines: Vec<String> = redacted.lines().map(str::to_owned).collect();
    let mut hasher = Sha256::new();
    hasher.update(exit_code.to_le_bytes());
    for line in &lines {
        hasher.update(normalised(line).as_bytes());
        hasher.update(b"\n");
    }
    let digest = hasher.finalize();
    let hash = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
    Some(Fingerprint { hash: hash.collect(), lines })
}

/// The last lines that look like an error, or the last line that is not blank.
fn error_lines(output: &str) -> Vec<String> {
    let tail = output.ceil_char_boundary(output.len().saturating_sub(TAIL_BYTES));
    let lines: Vec<String> = output
        .get(tail..)
        .unwrap_or_default()
        .lines()
        .map(|line| ansi::readable(line.as_bytes(), Colours::Drop, None))
        .map(|line| {
            let line = line.trim();
            line.get(..line.floor_char_boundary(LINE_BYTES)).unwrap_or(line).to_owned()
        })
        .filter(|line| !line.is_empty())
        .collect();
    let errors: Vec<&String> = lines.iter().filter(|line| ERROR.is_match(line)).collect();
    let first = errors.len().saturating_sub(LINES);
    match errors.get(first..) {
        Some(errors) if !errors.is_empty() => errors.iter().map(|line| (*line).clone()).collect(),
        _ => lines.last().cloned().into_iter().collect(),
    }
}

/// Removes the parts of a line that differ from run to run.
fn normalised(line: &str) -> String {
    let mut line = line.to_owned();
    for (rule, instead) in VOLATILE.iter() {
        line = rule.replace_all(&line, *instead).into_owned();
    }
    let numbers = NUMBER.replace_all(&line, |found: &Captures<'_>| {
        let number = found.get(0);
        let (start, end) = number.map_or((0, 0), |number| (number.start(), number.end()));
        let kept = distinguishes_errors(&line, start, end);
        let digits = line.get(start..end).unwrap_or_default();
        if kept { digits } else { "#" }.to_owned()
    });
    numbers.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a number distinguishes errors: part of a name, an address or a version, or after
/// a word such as `errno`.
fn distinguishes_errors(line: &str, start: usize, end: usize) -> bool {
    let before = line.get(..start).unwrap_or_default();
    let number = line.get(start..end).unwrap_or_default();
    let after = line.get(end..).unwrap_or_default();
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.');
    let joined = before.ends_with(in_name) || after.starts_with(|c: char| c.is_alphanumeric());
    let from = before.len().saturating_sub(WORD_BYTES);
    let near = before.get(before.floor_char_boundary(from)..).unwrap_or_default();
    let status = number.len() == 3
        && number.starts_with(['4', '5'])
        && after.starts_with(' ')
        && after.trim_start().starts_with(char::is_uppercase);
    // `error: 404` is a status, `error: 3 tests failed` a count.
    let counts = near.trim_end().ends_with(':')
        && after.strip_prefix(' ').is_some_and(|rest| rest.starts_with(char::is_lowercase));
    let named = NAMES_NUMBER.is_match(near) && !counts;
    joined || number.matches('.').count() >= 2 || status || named
}

static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)error|fail|fatal|panic|exception|traceback|abort|cannot|can't|could not|unable|",
        r"denied|refused|not found|no such|not permitted|undefined|unknown|unrecognized|",
        r"invalid|illegal|unexpected|missing|timed out|segmentation|assert|unresolved|usage:"
    ))
});

/// Patterns of parts that differ from run to run, with their replacements.
static VOLATILE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        // Points in time: dates with or without a time, times of day.
        (
            r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
            "<time>",
        ),
        (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?", "<time>"),
        // Identifiers: UUIDs, addresses, hashes.
        (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"(?i)\b0x[0-9a-f]+", "<address>"),
        (r"\b[0-9a-f]{12,64}\b", "<id>"),
        // Temporary files.
        (r"(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/(?u:[^\s:'\x22,)\]])+", "<temporary>"),
        (r"\btmp[._-]?[A-Za-z0-9_]{6,}", "<temporary>"),
        // Processes: pid 123, [123], program[123]:.
        (r"(?i)\b(pid|process|thread|ppid|tid)([ =:#']+)\d+", "$1$2#"),
        (r"\[\d+\]", "[#]"),
        // Durations.
        (
            r"(?i)\b\d+(?:[.,]\d+)?\s?(?:ns|us|µs|ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b",
            "<duration>",
        ),
        (r"\b\d+(?:\.\d+)?\s?(?:[kKMGT]i?)?B(?:/s)?\b", "<size>"),
        (r"\b\d+/\d+\b", "#/#"),
    ];
    let rules = rules.into_iter();
    rules.map(|(rule, instead)| (regex(rule), instead)).collect()
});

static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"\d+(?:\.\d+)*"));

/// Words after which a number identifies the error.
static NAMES_NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\b(?:errno|error|err|status|code|http(?:/\d(?:\.\d)?)?|port|signal|exit|exited|",
        r"line|column|returned)[\s:=#(\[]*(?:with |code |error:? |status )?$"
    ))
});

/// Cannot fail: the rules are constants that every test compiles. ASCII only, since the tables for
/// digits and word boundaries of all scripts would take a megabyte.
fn regex(rule: &str) -> Regex {
    let built = RegexBuilder::new(rule).unicode(false).build();
    built.unwrap_or_else(|error| unreachable!("rule {rule}: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(output: &str, exit_code: i32) -> Option<Fingerprint> {
        of_failure(output, exit_code, &Redactor::default())
    }

    fn same(one: &str, other: &str) -> bool {
        of(one, 1).map(|found| found.hash) == of(other, 1).map(|found| found.hash)
    }

    #[test]
    fn parts_that_differ_from_run_to_run_do_not_matter() {
        for (one, other) in [
            ("error at 12:03:04", "error at 13:59:01.5"),
            ("2026-01-02T03:04:05Z ERROR no", "2025-12-31T23:59:59Z ERROR no"),
            ("failed in 0.52s", "failed in 13.1s"),
            ("failed after 120 ms", "failed after 9 ms"),
            ("worker pid 123 failed", "worker pid 4567 failed"),
            ("sshd[123]: error: x", "sshd[99]: error: x"),
            ("cannot open /tmp/abc123/x.c", "cannot open /tmp/zzz/x.c"),
            ("panic at 0x7ffe12", "panic at 0xdeadbeef"),
            ("error: 3 tests failed", "error: 17 tests failed"),
            ("failed 3/20", "failed 19/20"),
            ("error: read 3.5 MB", "error: read 17.0 MB"),
            ("\x1b[31merror\x1b[0m: x", "error: x"),
        ] {
            assert!(same(one, other), "{:?}\n{:?}", normalised(one), normalised(other));
        }
    }

    #[test]
    fn parts_that_distinguish_errors_stay() {
        for (one, other) in [
            ("open failed: errno 2", "open failed: errno 13"),
            ("[Errno 2] error", "[Errno 13] error"),
            ("io failed (os error 2)", "io failed (os error 13)"),
            ("HTTP/1.1 404 error", "HTTP/1.1 500 error"),
            ("curl: error: 404 Not Found", "curl: error: 503 Service Unavailable"),
            ("The requested URL returned error: 404", "The requested URL returned error: 500"),
            ("connect to localhost:8080 refused", "connect to localhost:9090 refused"),
            ("error: port 80 is taken", "error: port 443 is taken"),
            ("error[E0425]: no", "error[E0308]: no"),
            ("x.c:3:5: error: a", "x.c:9:5: error: a"),
            ("make: *** [all] Error 1", "make: *** [all] Error 2"),
            ("error: needs version 1.2.3", "error: needs version 1.2.4"),
            ("error: no file a", "error: no file b"),
        ] {
            assert!(!same(one, other), "{:?}", normalised(one));
        }
    }

    #[test]
    fn the_last_error_lines_count_not_the_last_lines() {
        let found = of("start\nerror: broken\nall 3 jobs done\nbye\n", 2);
        assert_eq!(found.as_ref().map(Fingerprint::first_line), Some("error: broken"));
        let many: String = (0..20).map(|n| format!("error: case_{n}\n")).collect();
        let found = of(&many, 2).expect("a fingerprint");
        assert_eq!(found.lines.len(), LINES);
        assert_eq!(found.first_line(), "error: case_15");
    }

    #[test]
    fn without_an_error_line_the_last_line_counts_and_silence_has_none() {
        let found = of("one\ntwo\n\n", 1).expect("a fingerprint");
        assert_eq!(found.first_line(), "two");
        assert_eq!(of(" \n\n", 1), None);
    }

    #[test]
    fn another_exit_code_is_another_failure() {
        let hash = |code| of("error: x", code).map(|found| found.hash);
        assert_ne!(hash(1), hash(2));
    }

    #[test]
    fn a_fingerprint_never_changes() {
        let found = of("error: no such file", 1).expect("a fingerprint");
        assert_eq!(found.hash, "1825f2f0c51bffe3");
    }

    proptest! {
        #[test]
        fn any_text_has_a_fingerprint_or_none(text in any::<String>(), code in any::<i32>()) {
            let found = of(&text, code);
            prop_assert!(found.is_none_or(|found| found.lines.len() <= LINES));
        }
    }
}
