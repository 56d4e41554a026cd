//! Which rows to show where there is not enough room for all: what went wrong before anything else,
//! then the end and the beginning. Pure.

use std::collections::{HashMap, HashSet};
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
/// The share of the room that rows of a kind that is shown already leave to blocks: one of this many.
const RESERVE: usize = 4;
/// The longest line that says where a failure is.
const PLACE_BYTES: usize = 120;
/// How many rows before and after a block are shown besides, and how many characters of them, since
/// not all that belongs to a failure has a form: the name of a test above it, a paragraph below it.
const CONTEXT_BEFORE: (usize, usize) = (600, 8);
const CONTEXT_AFTER: (usize, usize) = (1_200, 15);
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
    let (mut worthiest, mut others, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for wanted in [[Sign::Failure, Sign::Summary], [Sign::Detail, Sign::Detail]] {
        let mut tiers = tiers(rows, &signs, &places(&signs, |sign| wanted.contains(&sign)));
        repeated.append(&mut tiers.repeated);
        choice.add_from_both_ends(&tiers.first);
        // What the first of each kind is about is worth more than that others look like it.
        let reserve = choice.room.chars / RESERVE;
        choice.room.chars -= reserve;
        choice.add_from_both_ends(&tiers.other_places);
        choice.add_from_both_ends(&tiers.others);
        choice.room.chars += reserve;
        for place in tiers.first.iter().chain(&tiers.other_places).chain(&tiers.others) {
            choice.add_place_of(rows, *place);
            choice.add_header_of(rows, *place);
        }
        worthiest.append(&mut tiers.first);
        others.push(tiers.other_places);
        others.push(tiers.others);
    }
    let (mut kinds, mut looked_at, mut blocks) = (HashSet::new(), HashSet::new(), Vec::new());
    worthiest.retain(|place| signs.get(*place) != Some(&Some(Sign::Summary)));
    worthiest.extend(places(&signs, |sign| matches!(sign, Sign::Failure | Sign::Detail)));
    worthiest.extend(places(&signs, |sign| sign == Sign::Logged));
    let mut add_blocks = |choice: &mut Choice, all: Vec<usize>| {
        for place in all {
            if !looked_at.insert(place) {
                continue;
            }
            let (block, end) = block_around(rows, &signs, place);
            let first = block.clone().find(|place| signs.get(*place) == Some(&Some(Sign::Failure)));
            if kinds.insert((kind(rows, first.unwrap_or(place)), first.is_some())) {
                choice.add_whole(block.clone());
                choice.add_whole(end.clone());
                blocks.push(block.start..end.end);
            }
        }
    };
    add_blocks(&mut choice, worthiest);
    for places in others {
        choice.add_from_both_ends(&places);
    }
    choice.narrow_to(aim);
    add_blocks(&mut choice, places(&signs, |sign| sign == Sign::Vague));
    choice.add_context(&blocks);
    for place in repeated {
        choice.add(place);
    }
    for place in places(&signs, |sign| sign == Sign::Warning) {
        if kinds.insert((kind(rows, place), false)) {
            choice.add_whole(place..place + 1);
        }
    }
    choice.add_ends();
    choice.close_small_gaps();
    choice.shown
}

/// Rows with signs of one rank, the worthiest first.
#[derive(Default)]
struct Tiers {
    /// The first of each kind, since a rare one may be the cause of all others. What is said of
    /// another place in a file is no other kind.
    first: Vec<usize>,
    /// The first of each kind and place.
    other_places: Vec<usize>,
    others: Vec<usize>,
    /// What was said before, to the letter, where no header tells one from the other; and that nothing
    /// failed, but for the last time of each kind.
    repeated: Vec<usize>,
}

fn tiers(rows: &[LineRow], signs: &[Option<Sign>], all: &[usize]) -> Tiers {
    let mut tiers = Tiers::default();
    let (mut messages, mut kinds, mut texts) = (HashSet::new(), HashSet::new(), HashSet::new());
    let last_of_kind: HashMap<Option<u64>, usize> =
        all.iter().map(|place| (kind(rows, *place), *place)).collect();
    for place in all {
        let text = text(rows, *place).unwrap_or_default();
        let kind = kind(rows, *place);
        let is_summary = signs.get(*place) == Some(&Some(Sign::Summary));
        let tier = if is_summary && !signs::counts_failures(text) {
            if last_of_kind.get(&kind) == Some(place) {
                &mut tiers.first
            } else {
                &mut tiers.repeated
            }
        } else if !texts.insert(text.trim()) && !signs::needs_header(text) {
            &mut tiers.repeated
        } else {
            let is_new = kinds.insert(kind);
            match signs::kind_of_message(text.as_bytes()) {
                Some(message) if messages.insert(message) => &mut tiers.first,
                None if is_new => &mut tiers.first,
                Some(_) if is_new => &mut tiers.other_places,
                _ => &mut tiers.others,
            }
        };
        tier.push(*place);
    }
    tiers
}

fn text(rows: &[LineRow], place: usize) -> Option<&str> {
    rows.get(place).and_then(LineRow::as_line).map(|line| &*line.text)
}

/// What rows have in common that differ in numbers alone.
fn kind(rows: &[LineRow], place: usize) -> Option<u64> {
    text(rows, place).map(|text| signs::kind_of(text.as_bytes()))
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
    // Where the line itself has a prefix, what belongs to it has one, too.
    let has_prefix = text(rows, place).is_some_and(|text| signs::without_prefix(text) != text);
    let text = |place: usize| {
        let text = text(rows, place);
        if has_prefix { text.map(signs::without_prefix) } else { text }
    };
    let is_blank = |place: usize| text(place).is_none_or(|text| text.trim().is_empty());
    let indentation = |place: usize| {
        let text = text(place).unwrap_or_default();
        text.len() - text.trim_start().len()
    };
    let depth = indentation(place);
    let belongs = |place: usize| {
        let text = text(place).unwrap_or_default();
        indentation(place) > depth
            || text.starts_with(['>', '|', '+', '-', '^', '~'])
            || signs::continues(text)
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
            if next.is_none_or(|next| indentation(next) <= depth && !belongs(next)) {
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
        let is_place = text(rows, place + 1).is_some_and(|text| {
            text.starts_with([' ', '\t']) && !text.trim().is_empty() && text.len() <= PLACE_BYTES
        });
        if is_place && self.shown.get(place) == Some(&true) {
            self.add(place + 1);
        }
    }

    /// Shows the header above a failure that is shown, if only that says what has failed.
    fn add_header_of(&mut self, rows: &[LineRow], place: usize) {
        if self.shown.get(place) != Some(&true)
            || !text(rows, place).is_some_and(signs::needs_header)
        {
            return;
        }
        let above = (place.saturating_sub(HEADER_ABOVE)..place).rev();
        if let Some(header) =
            { above }.find(|place| text(rows, *place).is_some_and(signs::is_header))
        {
            self.add(header);
        }
    }

    /// Shows some of the rows around these, up to half of the room.
    fn add_context(&mut self, blocks: &[Range<usize>]) {
        let left = self.room.chars / 2;
        self.room.chars -= left;
        for block in blocks {
            let after = (block.end..self.shown.len()).take_while(|place| !self.is_missing(*place));
            let after: Vec<usize> = after.take(CONTEXT_AFTER.1).collect();
            self.add_while_small(after.into_iter(), CONTEXT_AFTER);
            let before = (0..block.start).rev().take_while(|place| !self.is_missing(*place));
            let before: Vec<usize> = before.take(CONTEXT_BEFORE.1).collect();
            self.add_while_small(before.into_iter(), CONTEXT_BEFORE);
        }
        self.room.chars += left;
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
