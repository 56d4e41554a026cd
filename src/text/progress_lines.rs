//! Recognises progress bars that print a line for each step.
//!
//! Lines belong to one run if they differ only in bar characters, sizes and times, and their percentage
//! or counter does not fall. Tables (`df -h`) and lists whose text differs are
//! not progress. Pure.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// A percentage, or a counter `N/M`. The digits are ASCII's: compiled for all of Unicode's, it would
/// take half a MiB.
static MEASURE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let percentage = r"(?:^|[^0-9.])([0-9]+(?:\.[0-9]+)?)\s?%";
    let counter = r"(?-u:\b)([0-9]+)\s?/\s?([0-9]+)(?-u:\b)";
    Regex::new(&format!("{percentage}|{counter}")).ok()
});

/// Characters of bars, which do not count for a line's shape.
const BAR: &[char] = &[
    '=', '>', '-', '#', '.', ' ', '|', '/', '\\', '█', '▉', '▊', '▋', '▌', '▍', '▎', '▏', '░', '▒',
    '▓', '━', '╸', '╺', '─', '■', '□', '●', '○', '⣿',
];

/// The current run of progress lines.
#[derive(Debug, Default)]
pub(super) struct Run {
    last: Option<Step>,
}

#[derive(Debug, PartialEq)]
struct Step {
    shape: String,
    share: Share,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Share {
    Percent(f64),
    Counter { done: f64, all: f64 },
}

impl Share {
    /// Whether `next` may follow in one run.
    fn leads_to(self, next: Share) -> bool {
        match (self, next) {
            (Share::Percent(before), Share::Percent(after)) => after >= before,
            (Share::Counter { done, all }, Share::Counter { done: after, all: same }) => {
                after >= done && all == same
            }
            _ => false,
        }
    }
}

impl Run {
    /// Adds the next line; returns whether it replaces the previous one.
    pub(super) fn add(&mut self, line: &str) -> bool {
        let step = step(line);
        let continues = match (&self.last, &step) {
            (Some(last), Some(next)) => last.shape == next.shape && last.share.leads_to(next.share),
            _ => false,
        };
        self.last = step;
        continues
    }
}

/// Whether both are steps of one progress bar that is drawn over itself: their words are the same, and
/// their share does not fall; without one, the bar or spinner moves, or the only number rises.
pub(super) fn are_of_one_bar(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    if shape(one) != shape(other) || reports_failure(other) {
        return false;
    }
    match (share(one), share(other)) {
        (Some((before, _)), Some((after, _))) => before.leads_to(after),
        (None, None) => {
            let bar = |text: &str| -> String {
                text.chars().filter(|character| !character.is_ascii_digit()).collect()
            };
            bar(one) != bar(other)
                || only_number(one).zip(only_number(other)).is_some_and(|(one, other)| one <= other)
        }
        _ => false,
    }
}

/// The number of a text that has words and just one number.
fn only_number(text: &str) -> Option<f64> {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit() && character != '.');
    let number = numbers.find_map(|part| part.parse::<f64>().ok())?;
    let has_words = text.chars().filter(|character| character.is_alphabetic()).count() > 2;
    (has_words && numbers.all(|part| part.parse::<f64>().is_err())).then_some(number)
}

/// Whether a line says that something is wrong: such lines are no progress.
fn reports_failure(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    ["fail", "error", "warn", "fatal"].iter().any(|word| lower.contains(word))
}

/// The share that a line tells, and where.
fn share(line: &str) -> Option<(Share, Range<usize>)> {
    let found = MEASURE.as_ref()?.captures(line)?;
    let number = |group: usize| found.get(group).and_then(|text| text.as_str().parse::<f64>().ok());
    let share = match number(1) {
        Some(percent) if percent <= 100.0 => Share::Percent(percent),
        Some(_) => return None,
        None => Share::Counter { done: number(2)?, all: number(3)? },
    };
    match share {
        Share::Counter { done, all } if done > all => None,
        share => Some((share, found.get(0)?.range())),
    }
}

/// The step that a line of its own tells: all but its shares, sizes, rates and times must be the same
/// in the next, since other numbers are results.
fn step(line: &str) -> Option<Step> {
    let (share, _) = share(line)?;
    if reports_failure(line) {
        return None;
    }
    let without_shares = MEASURE.as_ref()?.replace_all(line, "%");
    let without_amounts = AMOUNT.as_ref()?.replace_all(&without_shares, "~");
    let is_bar = |character: &char| BAR.contains(character) || is_spinner(*character);
    let shape = without_amounts.chars().filter(|character| !is_bar(character)).collect();
    Some(Step { shape, share })
}

/// A size, a rate, or a time with colons.
static AMOUNT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let size = r"[0-9]+(?:\.[0-9]+)?\s?(?:[kKMGT]i?)?(?:B|b|bytes|it|items|files)?(?:/s|ps)";
    let bytes = r"[0-9]+(?:\.[0-9]+)?\s?[kKMGT]?i?B(?-u:\b)";
    let time = r"[0-9]+:[0-9][0-9](?::[0-9][0-9])?";
    Regex::new(&format!("{size}|{bytes}|{time}")).ok()
});

/// Braille, of which many spinners and bars are made, and turning circles.
fn is_spinner(character: char) -> bool {
    matches!(character, '\u{2800}'..='\u{28ff}' | '◐'..='◓' | '◴'..='◷')
}

/// The line without bar characters, each number as one `0` unless it belongs to a name (`test_1`).
fn shape(line: &str) -> String {
    let mut shape = String::with_capacity(line.len());
    let (mut in_number, mut in_name) = (false, false);
    for character in line.chars() {
        let is_digit = character.is_ascii_digit();
        in_name = character.is_alphabetic() || character == '_' || (in_name && is_digit);
        if is_digit && in_name {
            shape.push(character);
        } else if is_digit {
            if !in_number {
                shape.push('0');
            }
            in_number = true;
        } else if BAR.contains(&character) || is_spinner(character) {
            // A point inside a number belongs to it.
            in_number &= character == '.';
        } else {
            in_number = false;
            shape.push(character);
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lines: &[&str]) -> usize {
        let mut run = Run::default();
        lines.iter().filter(|line| !run.add(line)).count()
    }

    #[test]
    fn steps_of_one_bar_are_one_line() {
        assert_eq!(kept(&["10%", "20%", "30%"]), 1);
        assert_eq!(kept(&["[=>   ] 10%", "[===> ] 60%", "[=====] 100%"]), 1);
        assert_eq!(
            kept(&["Receiving objects:  41% (41/100)", "Receiving objects:  42% (42/100)"]),
            1
        );
        assert_eq!(kept(&["fetched 3/10 files", "fetched 9/10 files"]), 1);
        assert_eq!(kept(&["12.5% 1.2MB/s", "99.9% 1.9MB/s"]), 1);
    }

    #[test]
    fn different_words_or_falling_numbers_are_no_progress() {
        assert_eq!(kept(&["t.py::test_1 PASSED [ 10%]", "t.py::test_2 PASSED [ 20%]"]), 2);
        assert_eq!(kept(&["Test 1 PASSED [ 10%]", "Test 2 PASSED [ 20%]"]), 2);
        assert_eq!(kept(&["test_1 ok (1/9)", "test_2 ok (2/9)"]), 2);
        assert_eq!(
            kept(&["attempt 1/3 failed with status 500", "attempt 2/3 failed with status 404"]),
            2
        );
        assert_eq!(kept(&["1/12 rent 500", "2/12 rent 510"]), 2);
        assert_eq!(kept(&["Epoch 1/5 - loss 0.52", "Epoch 2/5 - loss 0.41"]), 2);
        assert_eq!(
            kept(&["/dev/sda1 40G 10G 26% /", "tmpfs 40G 10G 27% /run", "udev 1G 0G 28% /dev"]),
            3
        );
        assert_eq!(kept(&["1% a", "2% b", "3% c"]), 3);
        assert_eq!(kept(&["[#1] a", "[#2] b"]), 2);
        assert_eq!(kept(&["[#1] a", "[#2] a"]), 2);
        assert_eq!(kept(&["50%", "40%", "30%"]), 3);
        assert_eq!(kept(&["1/10 done", "1/20 done"]), 2);
        assert_eq!(kept(&["line 1", "line 2"]), 2);
        assert_eq!(kept(&["250% cpu", "260% cpu"]), 2);
    }
}
