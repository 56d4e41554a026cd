//! Recognises progress bars that print a line for each step.
//!
//! Lines belong to one run if they differ only in numbers and bar characters and their
//! percentage or counter does not fall. Tables (`df -h`) and lists whose text differs are
//! not progress. Pure.

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

/// Whether both are steps of one progress bar that is drawn over itself: with other numbers, or another
/// bar or spinner, but the same words.
pub(super) fn are_of_one_bar(one: &str, other: &str) -> bool {
    one == other || shape(one) == shape(other)
}

fn step(line: &str) -> Option<Step> {
    let found = MEASURE.as_ref()?.captures(line)?;
    let number = |group: usize| found.get(group).and_then(|text| text.as_str().parse::<f64>().ok());
    let share = match number(1) {
        Some(percent) if percent <= 100.0 => Share::Percent(percent),
        Some(_) => return None,
        None => Share::Counter { done: number(2)?, all: number(3)? },
    };
    if let Share::Counter { done, all } = share
        && done > all
    {
        return None;
    }
    // A report of results names its own share at the end of each line: what is before it must be
    // the same.
    let measured = found.get(0).map_or(0..0, |measure| measure.range());
    let is_report = matches!(share, Share::Percent(_))
        && line
            .get(measured.end..)
            .unwrap_or_default()
            .trim_matches(BAR)
            .trim_matches(']')
            .is_empty();
    let shape = if is_report {
        let rest = line.get(..measured.start).unwrap_or_default();
        rest.chars().filter(|character| !BAR.contains(character)).collect()
    } else {
        shape(line)
    };
    Some(Step { shape, share })
}

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
