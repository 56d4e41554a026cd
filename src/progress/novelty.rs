//! Whether something that happens again and again is new: by its kind and its text without
//! numbers, unless one of its numbers has risen. Memory is bounded.

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::ring::keep;

/// A change is novel when it is not among so many distinct ones before it.
const FINGERPRINTS: usize = 20;
/// Numbers of one line that are watched for rising.
const COUNTERS_PER_LINE: usize = 8;
/// What was seen last.
#[derive(Debug, Clone, Default)]
pub struct Novelty {
    seen: VecDeque<Seen>,
}

impl Novelty {
    /// Takes the next in; whether it is new.
    pub fn take(&mut self, kind: impl Hash, payload: &str) -> bool {
        let (fingerprint, highest) = fingerprint(kind, payload);
        let mut seen = self.seen.iter_mut();
        if let Some(seen) = seen.find(|seen| seen.fingerprint == fingerprint) {
            return seen.rise(&highest);
        }
        let seen = Seen {
            fingerprint,
            highest,
        };
        keep(&mut self.seen, FINGERPRINTS, seen);
        true
    }
}

/// A change that has been seen, without its numbers, and the highest of each of them.
#[derive(Debug, Clone)]
struct Seen {
    fingerprint: u64,
    highest: [u64; COUNTERS_PER_LINE],
}

impl Seen {
    /// Whether a number is higher than it ever was; the highest are remembered.
    fn rise(&mut self, numbers: &[u64; COUNTERS_PER_LINE]) -> bool {
        let mut rose = false;
        for (highest, number) in self.highest.iter_mut().zip(numbers) {
            rose |= number > highest;
            *highest = (*highest).max(*number);
        }
        rose
    }
}

/// What a change is without its numbers, and the numbers that may be counters. Times of
/// day and durations rise by themselves and are none.
fn fingerprint(kind: impl Hash, payload: &str) -> (u64, [u64; COUNTERS_PER_LINE]) {
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    let mut numbers = [0; COUNTERS_PER_LINE];
    let mut places = numbers.iter_mut();
    for word in payload.split_whitespace() {
        ' '.hash(&mut hasher);
        let counts = !is_time(word);
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                first.hash(&mut hasher);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
                continue;
            }
            '#'.hash(&mut hasher);
            let (number, tail) = rest.split_at(digits);
            rest = tail;
            if counts && let Some(place) = places.next() {
                *place = number.parse().unwrap_or(u64::MAX);
            }
        }
    }
    (hasher.finish(), numbers)
}

/// Whether a word is a time of day, a date or a duration: `12:00:01`, `2026-11-22`,
/// `[00:12]`, `1.5s`, `3m20s`, `120ms`.
fn is_time(word: &str) -> bool {
    let core = word.trim_matches(|c: char| !c.is_alphanumeric());
    if !core.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let clock = core.contains(':')
        && core
            .chars()
            .all(|c| c.is_ascii_digit() || ":.,TZ+-".contains(c));
    let date = core.matches('-').count() >= 2
        && core
            .chars()
            .all(|c| c.is_ascii_digit() || ":.-TZ+".contains(c));
    clock || date || is_duration(core)
}

fn is_duration(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let number = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        let (_, tail) = rest.split_at(number);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let known = matches!(
            unit,
            "ns" | "us" | "ms" | "s" | "sec" | "secs" | "m" | "min" | "h"
        );
        if number == 0 || !known {
            return false;
        }
        rest = tail;
    }
    true
}
