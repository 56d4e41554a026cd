//! Which rows to show where there is not enough room for all: what went wrong before anything else,
//! then the end and the beginning. Pure.

use std::collections::HashSet;
use std::ops::Range;

use super::rows::LineRow;
use super::{Layout, Room};
use crate::text::signs::{self, Sign};

/// How much of the end is always shown, in characters and rows: summaries are there.
const END: (usize, usize) = (1_500, 20);
/// How much of the beginning is always shown.
const BEGINNING: (usize, usize) = (300, 4);
/// How many rows before and after a sign belong to it at most.
const BEFORE: usize = 30;
const AFTER: usize = 60;
/// How far what belongs to it is followed, and how many rows of its end are shown then.
const FARTHEST: usize = 5_000;
const ENDING: usize = 15;
/// How many of the rows before and after it that are not indented belong to it …
const LOOSE_BEFORE: usize = 2;
const LOOSE_AFTER: usize = 3;
/// … unless a blank line ends the paragraph within this many rows.
const PARAGRAPH: usize = 12;
/// The longest line that says where a failure is.
const PLACE_BYTES: usize = 120;
/// How many rows above a failure its header may be.
const HEADER_ABOVE: usize = 200;
/// Gaps of fewer characters are shown, since the marker would be as long.
const MARKER: usize = 90;

/// Which of the rows to show, within the room of the layout; `aim` is the number of characters up
/// to which rows are shown that have nothing to do with a failure.
pub(super) fn chosen(rows: &[LineRow], layout: &Layout, aim: usize) -> Vec<bool> {
    let mut choice = Choice::new(rows, layout);
    let signs: Vec<Option<Sign>> = rows.iter().map(sign_of).collect();
    // Even if it does not fit.
    if let Some(last) = rows.len().checked_sub(1).filter(|last| !choice.is_missing(*last)) {
        choice.take(last);
    }
    choice.add_while_small((0..rows.len()).rev(), END);
    choice.add_while_small(0..rows.len(), BEGINNING);
    // Of each kind the first, since a rare one may be the cause of all others; then all of them.
    let kind = |place: usize| {
        let line = rows.get(place).and_then(LineRow::as_line);
        line.map(|line| signs::kind_of(line.text.as_bytes()))
    };
    for wanted in [[Sign::Failure, Sign::Summary], [Sign::Detail, Sign::Detail]] {
        let all = places(&signs, |sign| wanted.contains(&sign));
        let mut kinds = HashSet::new();
        let (first, others): (Vec<usize>, Vec<usize>) =
            all.into_iter().partition(|place| kinds.insert(kind(*place)));
        choice.add_from_both_ends(&first);
        choice.add_from_both_ends(&others);
        for place in first.iter().chain(&others) {
            choice.add_place_of(rows, *place);
            choice.add_header_of(rows, *place);
        }
    }
    let mut kinds = HashSet::new();
    for place in places(&signs, |sign| !matches!(sign, Sign::Summary | Sign::Warning)) {
        let (block, end) = block_around(rows, &signs, place);
        let first = block.clone().find(|place| signs.get(*place) == Some(&Some(Sign::Failure)));
        if kinds.insert((kind(first.unwrap_or(place)), first.is_some())) {
            choice.add_whole(block);
            choice.add_whole(end);
        }
    }
    choice.narrow_to(aim);
    for place in places(&signs, |sign| sign == Sign::Warning) {
        if kinds.insert((kind(place), false)) {
            choice.add_whole(place..place + 1);
        }
    }
    choice.add_ends();
    choice.close_small_gaps();
    choice.shown
}

fn sign_of(row: &LineRow) -> Option<Sign> {
    row.as_line().and_then(|line| line.text.split('\n').filter_map(signs::sign_of).max())
}

fn places(signs: &[Option<Sign>], wanted: impl Fn(Sign) -> bool) -> Vec<usize> {
    let found = signs.iter().enumerate().filter(|(_, sign)| sign.is_some_and(&wanted));
    found.map(|(place, _)| place).collect()
}

/// The rows that belong to the one with a sign: those before and after it that are indented, with a
/// few others, up to a blank line or another sign; blank lines with deeper indentation after them
/// belong to it, too.
///
/// If that is long, the second range is its end, where a diff says what it compares and a stack where
/// it began.
fn block_around(
    rows: &[LineRow],
    signs: &[Option<Sign>],
    place: usize,
) -> (Range<usize>, Range<usize>) {
    let text = |place: usize| rows.get(place).and_then(LineRow::as_line).map(|line| &*line.text);
    let is_blank = |place: usize| text(place).is_none_or(|text| text.trim().is_empty());
    let indentation = |place: usize| {
        let text = text(place).unwrap_or_default();
        text.len() - text.trim_start().len()
    };
    let depth = indentation(place);
    let belongs = |place: usize| {
        let text = text(place).unwrap_or_default();
        indentation(place) > depth || text.starts_with(['>', '|', '+', '-', '^', '~'])
    };
    let mut from = place;
    let mut loose = 0;
    while from > 0 && place - from < BEFORE && !is_blank(from - 1) {
        let before = from - 1;
        loose += usize::from(!belongs(before));
        let is_other = matches!(signs.get(before), Some(Some(Sign::Failure | Sign::Summary)));
        if is_other || loose > LOOSE_BEFORE {
            break;
        }
        from = before;
    }
    let mut to = place + 1;
    let paragraph = (to..rows.len()).take(PARAGRAPH).find(|place| is_blank(*place));
    let paragraph = paragraph.unwrap_or(to);
    loose = 0;
    while to < rows.len() && to - place < FARTHEST {
        if is_blank(to) {
            let next = (to..rows.len()).take(3).find(|next| !is_blank(*next));
            if next.is_none_or(|next| indentation(next) <= depth) {
                break;
            }
        } else if to >= paragraph && !belongs(to) {
            loose += 1;
            if loose > LOOSE_AFTER {
                break;
            }
        }
        if to - place >= AFTER && matches!(signs.get(to), Some(Some(Sign::Failure | Sign::Summary)))
        {
            break;
        }
        to += 1;
    }
    let end = to.min(place + AFTER);
    (from..end, to.saturating_sub(ENDING).max(end)..to)
}

/// What is shown so far, and the room that is left.
struct Choice {
    shown: Vec<bool>,
    /// Which rows are gaps already.
    missing: Vec<bool>,
    /// The size of each row: characters with a newline, bytes with a newline, lines.
    sizes: Vec<(usize, usize, usize)>,
    room: Room,
    used: usize,
}

impl Choice {
    fn new(rows: &[LineRow], layout: &Layout) -> Choice {
        let size = |row: &LineRow| {
            if row.is_missing() {
                return (0, 0, 0);
            }
            let shown = row.shown(layout);
            let lines = memchr::memchr_iter(b'\n', shown.as_bytes()).count() + 1;
            (shown.encode_utf16().count() + 1, shown.len() + 1, lines)
        };
        Choice {
            shown: vec![false; rows.len()],
            missing: rows.iter().map(LineRow::is_missing).collect(),
            sizes: rows.iter().map(size).collect(),
            room: layout.room,
            used: 0,
        }
    }

    /// Whether the row is a gap already.
    fn is_missing(&self, place: usize) -> bool {
        self.missing.get(place).copied().unwrap_or(true)
    }

    fn size(&self, place: usize) -> (usize, usize, usize) {
        self.sizes.get(place).copied().unwrap_or_default()
    }

    /// The characters that a row takes with what it changes of the gap that it is in: a gap takes a
    /// marker, or is shown if it is shorter than that.
    fn chars(&self, place: usize) -> isize {
        let before = self.gap((0..place).rev());
        let after = self.gap(place + 1..self.shown.len());
        let all = (before + self.size(place).0 + after).min(MARKER);
        (self.size(place).0 + before + after) as isize - all as isize
    }

    /// The characters of the hidden rows at these places up to the first that is shown, or of the marker
    /// for them.
    fn gap(&self, places: impl Iterator<Item = usize>) -> usize {
        let mut chars = 0;
        for place in places {
            if self.shown.get(place).copied().unwrap_or(true) {
                break;
            }
            chars += self.size(place).0;
            if chars >= MARKER || self.is_missing(place) {
                return MARKER;
            }
        }
        chars
    }

    /// Shows a row if there is room for it.
    fn add(&mut self, place: usize) -> bool {
        if self.is_missing(place) || self.shown.get(place).copied().unwrap_or(true) {
            return true;
        }
        let (_, bytes, lines) = self.size(place);
        let fits = self.chars(place) <= self.room.chars as isize
            && bytes <= self.room.bytes
            && lines <= self.room.lines;
        if fits {
            self.take(place);
        }
        fits
    }

    fn take(&mut self, place: usize) {
        let (_, bytes, lines) = self.size(place);
        let chars = self.chars(place);
        self.room.chars = self.room.chars.saturating_add_signed(-chars);
        self.room.bytes = self.room.bytes.saturating_sub(bytes);
        self.room.lines = self.room.lines.saturating_sub(lines);
        self.used = self.used.saturating_add_signed(chars);
        if let Some(shown) = self.shown.get_mut(place) {
            *shown = true;
        }
    }

    /// Shows the row after one that is shown if it is indented and short: there, compilers say where.
    fn add_place_of(&mut self, rows: &[LineRow], place: usize) {
        let text =
            |place: usize| rows.get(place).and_then(LineRow::as_line).map(|line| &*line.text);
        let is_place = text(place + 1).is_some_and(|text| {
            text.starts_with([' ', '\t']) && !text.trim().is_empty() && text.len() <= PLACE_BYTES
        });
        if is_place && self.shown.get(place) == Some(&true) {
            self.add(place + 1);
        }
    }

    /// Shows the header above a failure that is shown, if only that says what has failed.
    fn add_header_of(&mut self, rows: &[LineRow], place: usize) {
        let text =
            |place: usize| rows.get(place).and_then(LineRow::as_line).map(|line| &*line.text);
        if self.shown.get(place) != Some(&true) || !text(place).is_some_and(signs::needs_header) {
            return;
        }
        let above = (place.saturating_sub(HEADER_ABOVE)..place).rev();
        if let Some(header) = { above }.find(|place| text(*place).is_some_and(signs::is_header)) {
            self.add(header);
        }
    }

    /// Shows the first of the rows, up to this many characters and rows, and the very first in any
    /// case if the room allows it.
    fn add_while_small(&mut self, places: impl Iterator<Item = usize>, most: (usize, usize)) {
        let (mut chars, mut rows) = most;
        for (number, place) in places.enumerate() {
            let size = self.size(place).0;
            if rows == 0 || (size > chars && number > 0) || !self.add(place) {
                return;
            }
            chars = chars.saturating_sub(size);
            rows -= 1;
        }
    }

    /// Shows these rows; if not all of them fit, the first third and the last two thirds by size.
    fn add_from_both_ends(&mut self, places: &[usize]) {
        let all: usize = places.iter().map(|place| self.size(*place).0).sum();
        if all <= self.room.chars {
            for place in places {
                self.add(*place);
            }
            return;
        }
        let most = self.room.chars / 3;
        let mut taken = 0;
        for place in places {
            taken += self.chars(*place).max(0).unsigned_abs();
            if taken > most || !self.add(*place) {
                break;
            }
        }
        for place in places.iter().rev() {
            if !self.add(*place) {
                break;
            }
        }
    }

    /// Shows the rows if all of them fit.
    fn add_whole(&mut self, rows: Range<usize>) {
        let (mut chars, mut bytes, mut lines) = (0, 0, 0);
        for place in rows.clone().filter(|place| self.shown.get(*place) == Some(&false)) {
            let size = self.size(place);
            (chars, bytes, lines) = (chars + size.0, bytes + size.1, lines + size.2);
        }
        if chars <= self.room.chars && bytes <= self.room.bytes && lines <= self.room.lines {
            rows.for_each(|place| {
                self.add(place);
            });
        }
    }

    /// Leaves room for no more than this many characters in all.
    fn narrow_to(&mut self, aim: usize) {
        self.room.chars = self.room.chars.min(aim.saturating_sub(self.used));
    }

    /// Shows more of the end and of the beginning: two thirds and one third of the room.
    fn add_ends(&mut self) {
        let (head, tail) = self.room.third();
        let rows = self.shown.len();
        self.room = tail;
        self.add_while_small((0..rows).rev(), (usize::MAX, usize::MAX));
        self.room = Room {
            chars: self.room.chars + head.chars,
            bytes: self.room.bytes.saturating_add(head.bytes),
            lines: self.room.lines.saturating_add(head.lines),
        };
        self.add_while_small(0..rows, (usize::MAX, usize::MAX));
    }

    /// Shows what takes no more room than the marker in its place.
    fn close_small_gaps(&mut self) {
        let mut place = 0;
        while place < self.shown.len() {
            let hidden = self.shown.iter().skip(place).take_while(|shown| !**shown).count();
            let gap = place..place + hidden;
            let chars: usize = gap.clone().map(|place| self.size(place).0).sum();
            if hidden > 0 && chars <= MARKER && !gap.clone().any(|place| self.is_missing(place)) {
                gap.clone().for_each(|place| self.take(place));
            }
            place = gap.end + 1;
        }
    }
}
