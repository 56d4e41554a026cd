//! Where in a long output the lines are that say what went wrong: found in one pass and in bounded
//! memory, so that they are read besides the head and the tail.

use std::collections::{HashMap, VecDeque};
use std::io;

use super::spool::Spool;
use crate::text::lines::{LinePosition, Position};
use crate::text::signs::{self, Sign};

/// How much is read at once.
const CHUNK: u64 = 1024 * 1024;
/// How much before and after a line is looked at for what belongs to it.
const AROUND: usize = 4 * 1024;
/// A longer line is not kept whole.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// How many lines that belong to it are read before and after it.
const LINES_BEFORE: usize = 30;
const LINES_AFTER: usize = 60;
/// How many are kept of the kinds that have been found often: from the beginning of the output, and as
/// many from its end.
const KEPT: usize = 500;
/// How often what belongs to failures that look the same is read.
const WHOLE: u32 = 2;
/// How many kinds of failures are distinguished.
const KINDS: usize = 4 * KEPT;

/// A part of the output: from the beginning of a line to the end of one.
pub(super) type Part = (LinePosition, u64);

/// The parts of `[from, to)` with lines that say what went wrong, in order and without overlaps, of
/// at most `most` bytes in all: the first and the last of them.
///
/// # Errors
/// A spool file cannot be read.
pub(super) fn find(spool: &Spool, from: LinePosition, to: u64, most: u64) -> io::Result<Vec<Part>> {
    let mut found = Findings::default();
    let mut buffer: Vec<u8> = Vec::new();
    // Where the buffer begins, and how much of it has been searched.
    let (mut begins, mut searched) = (from, 0);
    let mut next = from;
    while let Some(piece) = spool.next_piece(next, to, CHUNK)? {
        if piece.start.at.offset != next.at.offset {
            found.search(&buffer, begins, searched, buffer.len());
            buffer.clear();
            (begins, searched) = (piece.start, 0);
        }
        next = piece.end();
        buffer.extend_from_slice(&piece.bytes);
        // What is near the end is searched when what comes after it is known.
        let until = line_start(&buffer, buffer.len().saturating_sub(AROUND));
        if until > searched {
            found.search(&buffer, begins, searched, until);
            searched = until;
        } else if buffer.len() > LONGEST_LINE {
            // Only the beginning of a line says what it is.
            found.search(&buffer, begins, searched, buffer.len());
            begins = begins.after(&buffer);
            buffer.clear();
            searched = 0;
        }
        let done = line_start(&buffer, searched.saturating_sub(AROUND));
        if let Some(bytes) = buffer.get(..done) {
            begins = begins.after(bytes);
            buffer.drain(..done);
            searched -= done;
        }
    }
    found.search(&buffer, begins, searched, buffer.len());
    Ok(found.parts(most))
}

/// Where the line begins that contains this byte.
fn line_start(bytes: &[u8], place: usize) -> usize {
    let before = bytes.get(..place).unwrap_or_default();
    memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1)
}

#[derive(Debug)]
struct Finding {
    /// The line itself.
    line: Part,
    /// With what belongs to it; the same if many others look like it.
    all: Part,
    /// Whether others say the same of other places.
    is_elsewhere: bool,
}

#[derive(Default)]
struct Findings {
    /// The first of each kind.
    rare: Vec<Finding>,
    first: Vec<Finding>,
    newest: VecDeque<Finding>,
    /// What each kind of lines says, and how often it was found.
    kinds: HashMap<u64, (Option<Sign>, u32)>,
    /// How often the same was found of whatever places in files.
    messages: HashMap<u64, u32>,
}

impl Findings {
    /// Adds what the lines of `[from, to)` say, which begins and ends with a line.
    fn search(&mut self, buffer: &[u8], begins: LinePosition, from: usize, to: usize) {
        let text = buffer.get(from..to).unwrap_or_default();
        // The number of newlines before `counted_to`.
        let (mut newlines, mut counted_to) = (0, 0);
        let mut behind = from;
        for hit in signs::possible(text) {
            let hit = from + hit;
            if hit < behind {
                continue;
            }
            let start = line_start(buffer, hit);
            let rest = buffer.get(hit..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).map_or(buffer.len(), |newline| hit + newline);
            behind = end + 1;
            let line = buffer.get(start..end).unwrap_or_default();
            let (sign, times) = self.know(line);
            let Some(sign) = sign.filter(|sign| *sign > Sign::Warning) else {
                continue;
            };
            let said = self.times_said(line).unwrap_or(times);
            let is_rare = times.min(said) <= WHOLE && sign != Sign::Summary;
            if sign <= Sign::Logged && !is_rare {
                continue;
            }
            let passed = buffer.get(counted_to..start).unwrap_or_default();
            newlines += memchr::memchr_iter(b'\n', passed).count() as u64;
            counted_to = start;
            let position = |place: usize, lines_before: u64| LinePosition {
                at: Position {
                    offset: begins.at.offset + place as u64,
                    line: begins.at.line + newlines - lines_before,
                },
                inside_line: place == 0 && begins.inside_line,
            };
            let offset = |place: usize| begins.at.offset + place as u64;
            let own = (position(start, 0), offset((end + 1).min(buffer.len())));
            let all = if is_rare {
                let (first, lines_before) = lines_back(buffer, start);
                (position(first, lines_before), offset(lines_on(buffer, end)))
            } else {
                own
            };
            self.add(Finding { line: own, all, is_elsewhere: said > WHOLE }, is_rare);
        }
    }

    /// What a line says, and how many of its kind have been found with it.
    fn know(&mut self, line: &[u8]) -> (Option<Sign>, u32) {
        let kind = signs::kind_of(line);
        let sign = || signs::sign_of(&String::from_utf8_lossy(line));
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&kind) {
            return (sign(), u32::MAX);
        }
        let (sign, times) = self.kinds.entry(kind).or_insert_with(|| (sign(), 0));
        *times = times.saturating_add(1);
        (*sign, *times)
    }

    /// How often has been found what a line says of a place in a file, with it; `None` if it names none.
    fn times_said(&mut self, line: &[u8]) -> Option<u32> {
        let kind = signs::kind_of_message(line)?;
        if self.messages.len() >= KINDS && !self.messages.contains_key(&kind) {
            return Some(u32::MAX);
        }
        let times = self.messages.entry(kind).or_default();
        *times = times.saturating_add(1);
        Some(*times)
    }

    fn add(&mut self, finding: Finding, is_rare: bool) {
        if is_rare {
            self.rare.push(finding);
            return;
        }
        if self.first.len() < KEPT {
            self.first.push(finding);
            return;
        }
        if self.newest.len() == KEPT {
            self.newest.pop_front();
        }
        self.newest.push_back(finding);
    }

    /// Each finding alone first: those of rare kinds, then the first and the last of the others; then
    /// what belongs to the rare ones.
    fn parts(self, most: u64) -> Vec<Part> {
        let others: Vec<Finding> = self.first.into_iter().chain(self.newest).collect();
        let size = |part: &Part| part.1 - part.0.at.offset;
        let mut left = most;
        let mut chosen: Vec<Part> = Vec::new();
        let from_both_ends = (0..others.len()).map(|number| match number % 2 {
            0 => number / 2,
            _ => others.len() - 1 - number / 2,
        });
        let others = from_both_ends.filter_map(|place| others.get(place));
        let (elsewhere, new): (Vec<&Finding>, Vec<&Finding>) =
            self.rare.iter().partition(|finding| finding.is_elsewhere);
        let rare = || new.iter().chain(&elsewhere).copied();
        let lines = rare().chain(others).map(|finding| finding.line);
        for part in lines.chain(rare().map(|finding| finding.all)) {
            if size(&part) <= left {
                left -= size(&part);
                chosen.push(part);
            }
        }
        chosen.sort_by_key(|(from, _)| from.at.offset);
        merged(chosen)
    }
}

/// Joins parts that overlap or touch.
pub(super) fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        match merged.last_mut() {
            Some(last) if part.0.at.offset <= last.1 => last.1 = last.1.max(part.1),
            _ => merged.push(part),
        }
    }
    merged
}

/// The beginning of a line before this one, and how many lines before it.
fn lines_back(buffer: &[u8], start: usize) -> (usize, u64) {
    let from = start.saturating_sub(AROUND);
    let before = buffer.get(from..start).unwrap_or_default();
    let (mut first, mut lines) = (start, 0);
    for newline in memchr::memrchr_iter(b'\n', before).take(LINES_BEFORE + 1) {
        if from + newline + 1 < start {
            first = from + newline + 1;
            lines += 1;
        }
    }
    (first, lines)
}

/// The end of a line after the one that ends here.
fn lines_on(buffer: &[u8], end: usize) -> usize {
    let to = (end + AROUND).min(buffer.len());
    let after = buffer.get(end..to).unwrap_or_default();
    let newlines = memchr::memchr_iter(b'\n', after).take(LINES_AFTER + 1);
    newlines.last().map_or(buffer.len(), |newline| end + newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::output::budget::Budget;
    use crate::task::output::spool::SpoolWriter;

    const QUOTA: u64 = 4 * 1024 * 1024;

    /// The lines that are found, as they are.
    fn found(text: &str, most: u64) -> Vec<String> {
        let mut writer = SpoolWriter::new(None, QUOTA, Budget::new(QUOTA));
        writer.append(text.as_bytes());
        let to = writer.end().offset;
        let parts = find(&writer.reader(), LinePosition::FIRST, to, most).expect("memory");
        let mut all = Vec::new();
        for (from, end) in parts {
            let (begin, end) = (from.at.offset as usize, end as usize);
            let before = text.get(..begin).expect("a boundary");
            assert_eq!(from.at.line, before.matches('\n').count() as u64 + 1);
            assert!(before.is_empty() || before.ends_with('\n'));
            all.extend(text.get(begin..end).expect("a boundary").lines().map(str::to_owned));
        }
        all
    }

    #[test]
    fn a_failure_is_found_anywhere_with_what_belongs_to_it() {
        let healthy = |lines: usize| -> String {
            (0..lines).map(|line| format!("a line of ordinary work {line}\n")).collect()
        };
        for before in [0, 1, 40_000] {
            let text = format!("{}error: it broke\n  here\n{}", healthy(before), healthy(500));
            let lines = found(&text, 100_000);
            let place = lines.iter().position(|line| line == "error: it broke").expect("found");
            assert_eq!(lines.get(place + 1).map(String::as_str), Some("  here"));
            assert!(lines.len() <= LINES_BEFORE + LINES_AFTER + 2, "{}", lines.len());
        }
        assert!(found(&healthy(1_000), 100_000).is_empty());
    }

    #[test]
    fn of_many_that_look_the_same_a_rare_one_is_kept() {
        let many = "a.ts(1,7): error TS2322: Type 'string'\n".repeat(5_000);
        let text = format!("{many}a.ts(2,7): error TS2304: Cannot find name\n{many}");
        let lines = found(&text, 30_000);
        assert!(lines.iter().any(|line| line.contains("TS2304")));
        assert!(lines.iter().map(|line| line.len() + 1).sum::<usize>() < 60_000);
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_whole() {
        let text = format!("error: first\n{}", "x".repeat(3 * 1024 * 1024));
        assert_eq!(found(&text, 30_000).first().map(String::as_str), Some("error: first"));
    }
}
