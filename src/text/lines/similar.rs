//! Shrinks runs of lines, or of groups of lines, that differ only in their numbers. Pure.

use super::rows::LineRow;
use crate::text::signs::{self, Sign};

/// How many lines a repeated group has at most.
const MOST_LINES: usize = 8;
/// How often a group is repeated at least.
const REPEATS: usize = 4;
/// How many letters a group has at least: a list of numbers is no repetition.
const LETTERS: usize = 3;

/// Shows the first of the groups of lines with a warning that differ only in numbers, with how many
/// there are and where they end. Of all other lines, the numbers may be what matters: results, values,
/// exit codes. Numbers that belong to names distinguish warnings, too.
pub(super) fn similar_rows(rows: Vec<LineRow>) -> Vec<LineRow> {
    let kinds: Vec<Option<String>> = rows.iter().map(kind).collect();
    let mut kept: Vec<LineRow> = Vec::with_capacity(rows.len());
    let mut rows = rows.into_iter();
    let mut place = 0;
    while place < kinds.len() {
        let rest = kinds.get(place..).unwrap_or_default();
        let group = (1..=MOST_LINES).find_map(|lines| {
            let times = repeats(rest, lines);
            (times >= REPEATS).then_some((lines, times))
        });
        let Some((lines, times)) = group else {
            kept.extend(rows.next());
            place += 1;
            continue;
        };
        let all: Vec<LineRow> = rows.by_ref().take(lines * times).collect();
        let last = all.last().map(|row| row.last);
        kept.extend(all.into_iter().take(lines));
        if let (Some(row), Some(last)) = (kept.last_mut(), last) {
            row.stand_for(lines, times, last);
        }
        place += lines * times;
    }
    kept
}

/// How often the group of the first `lines` lines comes in a row.
fn repeats(kinds: &[Option<String>], lines: usize) -> usize {
    let Some(group) = kinds.get(..lines) else {
        return 0;
    };
    let letters = group.iter().flatten().flat_map(|kind| kind.chars());
    let warns = group.iter().flatten().any(|kind| signs::sign_of(kind) == Some(Sign::Warning));
    if !warns
        || group.iter().any(Option::is_none)
        || letters.filter(|character| character.is_alphabetic()).take(LETTERS).count() < LETTERS
    {
        return 0;
    }
    kinds.chunks_exact(lines).take_while(|next| *next == group).count()
}

/// The line without the numbers that stand alone; `None` if it cannot be one of many.
fn kind(row: &LineRow) -> Option<String> {
    let line = row.as_line().filter(|line| line.cut.is_none() && row.first == row.last)?;
    let sign = signs::sign_of(&line.text);
    if sign.is_some_and(|sign| sign > Sign::Warning) {
        return None;
    }
    Some(without_numbers(&line.text))
}

/// A text without the numbers that stand alone: those of names stay.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut kind = String::with_capacity(text.len());
    let mut in_name = false;
    for character in text.chars() {
        let is_digit = character.is_ascii_digit();
        if !is_digit || in_name {
            kind.push(character);
        } else if !kind.ends_with('0') {
            kind.push('0');
        }
        in_name = character.is_alphabetic() || character == '_' || (in_name && is_digit);
    }
    kind
}
