//! The shape of a line: its words without parts that change by themselves, and separately its
//! counters and durations.
//!
//! One pass over the line, without regular expressions. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::stamps::{self, Span};

/// How many numbers of one line to compare.
pub(super) const COUNTERS_PER_LINE: usize = 8;
/// How many durations of one line to compare: the elapsed and the remaining time.
pub(super) const TIMES_PER_LINE: usize = 2;

/// Characters of a spinner that are also ordinary characters.
const SPINNERS: [&str; 4] = ["|", "/", "-", "\\"];
/// The shortest bar of ASCII characters, and of drawing characters.
const ASCII_BAR: usize = 4;
const DRAWN_BAR: usize = 2;
/// The shortest bar between brackets, in columns including blanks.
const BRACKETED_BAR: usize = 3;
/// The widest bar between brackets.
const WIDEST_BAR: usize = 400;

/// Words next to a time that make it a duration.
const ELAPSED: [&str; 8] =
    ["elapsed", "after", "for", "passed", "running", "runtime", "uptime", "duration"];

/// A line without parts that change by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// The hash of its kind and its words.
    pub(crate) fingerprint: u64,
    /// Possible counters, in thousandths, and the lengths of bars; 0 for none.
    pub(crate) counters: [u64; COUNTERS_PER_LINE],
    /// Durations, in milliseconds; 0 for none.
    pub(crate) times: [u64; TIMES_PER_LINE],
}

/// The sort of report that a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportKind {
    /// Its numbers may be counters.
    Plain,
    /// A wait: only parts of a whole are counters (`1 of 3`).
    Waits,
    /// A retry: its numbers and durations rise without meaning.
    Tries,
}

/// Determines the shape of a line of this kind.
pub(super) fn of(kind: impl Hash, line: &str) -> Shape {
    let mut builder = ShapeBuilder::new(line);
    let mut at = 0;
    while let Some(taken) = builder.take(line, at) {
        at += taken;
    }
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    builder.words.hash(&mut hasher);
    Shape {
        fingerprint: hasher.finish(),
        counters: builder.counters.items,
        times: builder.times.items,
    }
}

/// Builds a shape.
struct ShapeBuilder {
    /// The line so far, with one letter for each part removed from it.
    words: String,
    manner: ReportKind,
    /// Whether blanks have followed the last part.
    apart: bool,
    counters: FirstNumbers<COUNTERS_PER_LINE>,
    times: FirstNumbers<TIMES_PER_LINE>,
}

/// The first few of many numbers.
struct FirstNumbers<const CAPACITY: usize> {
    items: [u64; CAPACITY],
    next: usize,
}

impl<const CAPACITY: usize> FirstNumbers<CAPACITY> {
    fn push(&mut self, item: u64) {
        if let Some(place) = self.items.get_mut(self.next) {
            *place = item;
            self.next += 1;
        }
    }
}

impl ShapeBuilder {
    fn new(line: &str) -> ShapeBuilder {
        ShapeBuilder {
            words: String::with_capacity(line.len()),
            manner: manner(line),
            apart: false,
            counters: FirstNumbers { items: [0; COUNTERS_PER_LINE], next: 0 },
            times: FirstNumbers { items: [0; TIMES_PER_LINE], next: 0 },
        }
    }

    /// Processes the part that begins at this position of the line, and returns its length.
    fn take(&mut self, line: &str, at: usize) -> Option<usize> {
        let rest = line.get(at..)?;
        let first = rest.chars().next()?;
        if first.is_whitespace() {
            self.apart = !self.words.is_empty();
            return Some(first.len_utf8());
        }
        let before = line.get(..at)?.chars().next_back();
        let in_word = before.is_some_and(char::is_alphanumeric);
        if first.is_ascii_alphabetic() {
            return Some(self.word(rest, in_word));
        }
        let begins_word = before.is_none_or(char::is_whitespace);
        if let Some(length) = decoration(rest, begins_word) {
            return Some(length);
        }
        if let Some((length, amount)) = bar(rest) {
            self.part('B');
            self.count(amount);
            return Some(length);
        }
        if first == '['
            && let Some(length) = bracket(rest, before)
        {
            self.part('T');
            return Some(length);
        }
        if first.is_ascii_digit()
            && !in_word
            && let Some(length) = self.stamp(line, at)
        {
            return Some(length);
        }
        if let Some((length, value)) = stamps::number(rest) {
            self.part('#');
            if self.manner != ReportKind::Waits || is_part_of_whole(line, at, length) {
                self.count(value);
            }
            return Some(length);
        }
        self.part(first);
        Some(first.len_utf8())
    }

    /// Letters, or an identifier that begins with one.
    fn word(&mut self, rest: &str, in_word: bool) -> usize {
        let identifier = || stamps::uuid(rest).or_else(|| stamps::hex(rest));
        if !in_word && let Some(length) = identifier() {
            self.part('T');
            return length;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphabetic());
        let letters = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
        self.text(letters);
        letters.len()
    }

    /// A time, a duration or an identifier that begins with a digit.
    fn stamp(&mut self, line: &str, at: usize) -> Option<usize> {
        let rest = line.get(at..)?;
        if let Some(length) = stamps::uuid(rest).or_else(|| stamps::date(rest)) {
            self.part('T');
            return Some(length);
        }
        // `file.rs:12:34` is a position in a file.
        let behind_colon = line.get(..at)?.ends_with(':');
        if let Some(Span { length, time }) = stamps::clock(rest).filter(|_| !behind_colon) {
            self.part('T');
            if is_elapsed(line, at, length) {
                self.last(time);
            }
            return Some(length);
        }
        let duration = stamps::duration_of_limit(rest).or_else(|| stamps::duration(rest));
        if let Some(Span { length, time }) = duration {
            self.part('T');
            self.last(time);
            return Some(length);
        }
        let identifies = stamps::hex(rest).or_else(|| stamps::epoch(rest))?;
        self.part('T');
        Some(identifies)
    }

    fn part(&mut self, part: char) {
        self.text(part.encode_utf8(&mut [0; 4]));
    }

    fn text(&mut self, text: &str) {
        if std::mem::take(&mut self.apart) {
            self.words.push(' ');
        }
        self.words.push_str(text);
    }

    fn count(&mut self, value: u64) {
        if self.manner != ReportKind::Tries {
            self.counters.push(value);
        }
    }

    fn last(&mut self, time: Option<std::time::Duration>) {
        if self.manner != ReportKind::Tries
            && let Some(time) = time
        {
            let millis = time.as_millis().try_into().unwrap_or(u64::MAX);
            self.times.push(millis);
        }
    }
}

/// The length of a spinner, or of dots that are not part of a name.
fn decoration(rest: &str, begins_word: bool) -> Option<usize> {
    let turning = |c: &char| is_spinner(*c);
    let length: usize = rest.chars().take_while(turning).map(char::len_utf8).sum();
    if length > 0 {
        return Some(length);
    }
    if begins_word {
        let word = rest.split(char::is_whitespace).next()?;
        if SPINNERS.contains(&word.trim_matches(['[', ']', '(', ')'])) {
            return Some(word.len());
        }
    }
    let dots = |c: &char| matches!(c, '.' | '…');
    let length: usize = rest.chars().take_while(dots).map(char::len_utf8).sum();
    let next = rest.get(length..)?.chars().next();
    let ends_word = next.is_none_or(|next| !next.is_alphanumeric());
    (length > 1 || length == 1 && ends_word).then_some(length)
}

/// Braille patterns, turning circles and squares, stars, moons and clocks.
fn is_spinner(c: char) -> bool {
    matches!(c,
        '\u{2800}'..='\u{28ff}' | '◐'..='◓' | '◴'..='◷' | '◜'..='◟' | '◢'..='◥' | '▖'..='▟'
        | '✢' | '✳' | '✶'..='✻' | '✽' | '·' | '🌑'..='🌘' | '🕐'..='🕧')
}

/// The length of a bar, and how far it is filled.
fn bar(rest: &str) -> Option<(usize, u64)> {
    if let Some(found) = bracketed_bar(rest) {
        return Some(found);
    }
    let is_ascii_bar = |c: &char| matches!(c, '=' | '#' | '>' | '*' | '+' | '_' | '-');
    let ascii = rest.chars().take_while(is_ascii_bar).count();
    if ascii >= ASCII_BAR {
        return Some((ascii, ascii as u64));
    }
    let drawn = || rest.chars().take_while(|c| is_drawn(*c));
    let is_filled =
        |c: &char| !matches!(c, '░' | '▒' | '─' | '╺' | '╌' | '□' | '▫' | '○' | '◯' | '▱');
    let length: usize = drawn().map(char::len_utf8).sum();
    let filled = drawn().filter(is_filled).count() as u64;
    (drawn().count() >= DRAWN_BAR).then_some((length, filled))
}

/// `[=====> ]`, `|#### |`: the trailing run of its last character is the unfilled part.
fn bracketed_bar(rest: &str) -> Option<(usize, u64)> {
    let close = match rest.chars().next()? {
        '[' => ']',
        '|' => '|',
        _ => return None,
    };
    let is_bar = |c: char| {
        matches!(c, ' ' | '.' | '=' | '#' | '>' | '*' | '+' | '-' | '_' | 'o' | 'O' | '<' | ':')
            || is_drawn(c)
    };
    let inside = rest.get(1..)?;
    let mut inside_and_behind = inside.char_indices().take(WIDEST_BAR);
    let (end, behind) = inside_and_behind.find(|(_, c)| !is_bar(*c))?;
    let inside = inside.get(..end)?;
    let width = inside.chars().count();
    if behind != close || width < BRACKETED_BAR {
        return None;
    }
    let last = inside.chars().next_back()?;
    let left = inside.chars().rev().take_while(|c| *c == last).count();
    let filled = match width - left {
        0 if !" .-_".contains(last) => width,
        filled => filled,
    };
    Some((end + 2, filled as u64))
}

fn is_drawn(c: char) -> bool {
    matches!(c, '▀'..='▐' | '░'..='▓' | '━' | '╸' | '╺' | '─' | '╌' | '■'..='▬' | '●' | '○' | '◉'
        | '◯' | '▰' | '▱')
}

/// A pid or the kernel's time since its start, in brackets.
fn bracket(rest: &str, before: Option<char>) -> Option<usize> {
    let inside = rest.get(1..)?;
    let length = match before {
        None | Some('>') => stamps::since_boot(inside),
        Some(name) if name.is_alphanumeric() || "-_.)".contains(name) => stamps::pid(inside),
        Some(_) => None,
    }?;
    Some(1 + length)
}

/// Whether the number at this position counts parts of a whole: `45%`, `3/10`, `3 of 10`.
fn is_part_of_whole(line: &str, at: usize, length: usize) -> bool {
    let (before, after) = (line.get(..at), line.get(at + length..));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let next = after.trim_start();
    let begins_with_digit = |text: &str| text.trim_start().starts_with(is_digit);
    next.starts_with('%')
        || next.strip_prefix('/').is_some_and(begins_with_digit)
        || next.strip_prefix("of ").is_some_and(begins_with_digit)
        || next.strip_prefix("out of ").is_some_and(begins_with_digit)
        || before.trim_end().ends_with('/')
}

/// Whether a clock time is a duration, by the word before or after it.
fn is_elapsed(line: &str, at: usize, length: usize) -> bool {
    let is_letter = |c: char| c.is_alphabetic();
    let before = line.get(..at).unwrap_or_default();
    let before = before.trim_end_matches(|c: char| !is_letter(c) && !c.is_ascii_digit());
    let before = before.rsplit(|c| !is_letter(c)).next().unwrap_or_default();
    let after = line.get(at + length..).unwrap_or_default();
    let after = after.trim_start_matches(' ').split(|c| !is_letter(c)).next();
    [before, after.unwrap_or_default()]
        .iter()
        .any(|word| ELAPSED.iter().any(|elapsed| word.eq_ignore_ascii_case(elapsed)))
}

/// Classifies a line by its words.
fn manner(line: &str) -> ReportKind {
    let line = line.to_ascii_lowercase();
    let mut manner = ReportKind::Plain;
    let mut before = "";
    for raw in line.split(|c: char| c.is_whitespace() || matches!(c, '=' | ':' | ',' | ';')) {
        if raw.is_empty() {
            continue;
        }
        let word = raw.trim_matches(|c: char| !c.is_alphabetic());
        let numbered = before == "try" && raw.trim_start_matches('#').starts_with(is_digit);
        if numbered || reports_retry(before, word) {
            return ReportKind::Tries;
        }
        if reports_wait(before, word) {
            manner = ReportKind::Waits;
        }
        before = word;
    }
    manner
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Whether a word and the one before it report a retry.
fn reports_retry(before: &str, word: &str) -> bool {
    let alone = matches!(
        word,
        "attempt"
            | "attempts"
            | "attempting"
            | "reattempt"
            | "reattempting"
            | "retry"
            | "retries"
            | "retrying"
            | "retried"
            | "tries"
            | "reconnect"
            | "reconnects"
            | "reconnecting"
            | "reconnection"
            | "refused"
            | "econnrefused"
            | "unreachable"
            | "timeout"
            | "timeouts"
            | "time-out"
            | "timed-out"
            | "etimedout"
            | "backoff"
            | "back-off"
    );
    alone
        || matches!(
            (before, word),
            ("timed", "out")
                | ("try" | "trying", "again")
                | ("connection", "reset" | "closed" | "failed" | "lost")
                | ("no", "response" | "route")
                | ("not", "responding")
                | ("to" | "not" | "cannot" | "can't" | "couldn't", "connect")
                | ("service" | "temporarily", "unavailable")
                | ("temporary", "failure")
                | ("is", "down")
        )
}

/// Whether a word and the one before it report a wait.
fn reports_wait(before: &str, word: &str) -> bool {
    matches!(word, "waiting" | "sleeping" | "polling")
        || matches!((before, word), ("wait", "for") | ("not", "ready" | "yet" | "available"))
}
