//! Reading a spool: what is retained of a stretch, where it goes on after a gap, and
//! from line numbers to places and back.
//!
//! The files are read without the lock. A segment that the quota takes away meanwhile is
//! a gap like any other.

use std::io;

use super::segment::Segment;
use super::spool::Spool;
use crate::text::lines::{Piece, Place, Position};

/// Read at once when a place is looked for.
const READ_BYTES: u64 = 256 * 1024;

impl Spool {
    /// Reads what is retained of `[from, to)`, as one piece for each stretch without a
    /// gap.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&self, from: Place, to: u64) -> io::Result<Vec<Piece>> {
        self.read_segments(&self.segments(), from, to)
    }

    fn read_segments(&self, segments: &[Segment], from: Place, to: u64) -> io::Result<Vec<Piece>> {
        let mut pieces: Vec<Piece> = Vec::new();
        for segment in segments.iter().filter(|segment| holds(segment, from, to)) {
            let Some(piece) = self.read_segment(segment, from, to)? else {
                continue;
            };
            match pieces.last_mut() {
                Some(last) if last.end_offset() == piece.start.at.offset => {
                    last.bytes.extend_from_slice(&piece.bytes);
                }
                _ => pieces.push(piece),
            }
        }
        Ok(pieces)
    }

    /// The first piece that is retained of `[from, to)`, of at most `most` bytes, however
    /// far away it begins.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn next_piece(&self, from: Place, to: u64, most: u64) -> io::Result<Option<Piece>> {
        for segment in self.segments() {
            if holds(&segment, from, to) {
                let start = segment.start.at.offset.max(from.at.offset);
                let piece = self.read_segment(&segment, from, to.min(start + most))?;
                if piece.is_some() {
                    return Ok(piece);
                }
            }
        }
        Ok(None)
    }

    /// `None`: the segment has been given up since it was seen.
    fn read_segment(&self, segment: &Segment, from: Place, to: u64) -> io::Result<Option<Piece>> {
        match segment.piece(from, to) {
            Ok(piece) => Ok(Some(piece)),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && self.is_dropped(segment.number) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The stretches that are retained of `[from, to)`, from where to where.
    pub fn retained(&self, from: Place, to: Place) -> Vec<(Place, Place)> {
        let mut stretches: Vec<(Place, Place)> = Vec::new();
        for segment in self.segments() {
            if !holds(&segment, from, to.at.offset) {
                continue;
            }
            let start = if segment.start.at.offset < from.at.offset {
                from
            } else {
                segment.start
            };
            let end = if segment.end.at.offset > to.at.offset {
                to
            } else {
                segment.end
            };
            match stretches.last_mut() {
                Some(last) if last.1.at.offset == start.at.offset => last.1 = end,
                _ => stretches.push((start, end)),
            }
        }
        stretches
    }

    /// Where retained output goes on: at `from`, or behind the gap that it lies in;
    /// `None` when nothing is retained from there on.
    pub fn goes_on(&self, from: Place) -> Option<Place> {
        let segments = self.segments();
        let next = segments
            .iter()
            .find(|segment| holds(segment, from, u64::MAX))?;
        if next.start.at.offset < from.at.offset {
            Some(from)
        } else {
            Some(next.start)
        }
    }

    /// Where line `line` begins, or the first retained place behind that, if it is gone;
    /// `None`: there is no such line before `end`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn find_line(&self, line: u64, end: Place) -> io::Result<Option<Place>> {
        if line >= end.next_line() {
            return Ok(None);
        }
        // Line `line` begins after the newline that ends line `line - 1`.
        let mut next = self.checkpoint(|checkpoint| checkpoint.line < line);
        while let Some(piece) = self.next_piece(next, end.at.offset, READ_BYTES)? {
            if piece.start.at.line >= line {
                return Ok(Some(piece.start));
            }
            let mut number = piece.start.at.line;
            for newline in memchr::memchr_iter(b'\n', &piece.bytes) {
                number += 1;
                if number == line {
                    let at = Position {
                        offset: piece.start.at.offset + newline as u64 + 1,
                        line,
                    };
                    return Ok(Some(Place {
                        at,
                        inside_line: false,
                    }));
                }
            }
            next = piece.end();
        }
        Ok(Some(end))
    }

    /// The place of byte `offset`, or the first retained one behind it; `None` when
    /// nothing is retained from there on.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn place_of(&self, offset: u64) -> io::Result<Option<Place>> {
        let mut next = self.checkpoint(|checkpoint| checkpoint.offset <= offset);
        while let Some(piece) = self.next_piece(next, offset, READ_BYTES)? {
            next = piece.end();
        }
        if next.at.offset < offset {
            // The line does not matter: the place that is looked for lies behind a gap.
            next.at.offset = offset;
        }
        Ok(self.goes_on(next))
    }
}

/// Whether some of a segment's bytes lie in `[from, to)`.
fn holds(segment: &Segment, from: Place, to: u64) -> bool {
    let start = segment.start.at.offset.max(from.at.offset);
    start < segment.end.at.offset.min(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::budget::{Budget, Store};
    use crate::task::spool::SpoolWriter;

    const QUOTA: u64 = 4 * 1024 * 1024;

    fn in_memory() -> SpoolWriter {
        SpoolWriter::new(None, QUOTA, Budget::new(QUOTA))
    }

    fn end_of(writer: &SpoolWriter) -> Place {
        Place {
            at: writer.end(),
            inside_line: writer.line_start() != writer.end(),
        }
    }

    /// Writes `1`, `2`, … each on its line, in chunks that a pipe might give.
    fn count_to(writer: &mut SpoolWriter, last: u64) {
        let text: String = (1..=last).map(|number| format!("{number}\n")).collect();
        for chunk in text.as_bytes().chunks(60_000) {
            writer.append(chunk);
        }
    }

    /// The lines between the head and the newest output, of which nothing is retained.
    fn gap(writer: &SpoolWriter) -> (u64, u64) {
        let stretches = writer.reader().retained(Place::FIRST, end_of(writer));
        let [(_, before), (after, _)] = stretches[..] else {
            panic!("one gap: {stretches:?}");
        };
        assert!(after.at.offset - before.at.offset > 4 * READ_BYTES);
        (before.next_line(), after.at.line - 1)
    }

    #[test]
    fn a_retained_line_is_found_where_it_is_on_both_sides_of_a_gap() {
        let mut writer = in_memory();
        count_to(&mut writer, 2_000_000);
        let (spool, end) = (writer.reader(), end_of(&writer));
        let (first_gone, last_gone) = gap(&writer);
        for line in [1, 2, first_gone - 2, last_gone + 2, 1_999_999, 2_000_000] {
            let place = spool.find_line(line, end).expect("memory");
            let place = place.expect("the line exists");
            assert_eq!((place.at.line, place.inside_line), (line, false));
            let piece = spool.next_piece(place, end.at.offset, 8).expect("memory");
            let text = String::from_utf8(piece.expect("it is retained").bytes).expect("digits");
            assert!(text.starts_with(&format!("{line}\n")), "{line}: {text}");
        }
        assert_eq!(spool.find_line(2_000_001, end).expect("memory"), None);
    }

    #[test]
    fn a_line_that_is_gone_leads_to_what_is_retained_behind_the_gap() {
        let mut writer = in_memory();
        count_to(&mut writer, 2_000_000);
        let (spool, end) = (writer.reader(), end_of(&writer));
        let (first_gone, last_gone) = gap(&writer);
        for line in [first_gone + 1, (first_gone + last_gone) / 2, last_gone] {
            let place = spool.find_line(line, end).expect("memory");
            assert_eq!(place.expect("the line existed").at.line, last_gone + 1);
        }
    }

    #[test]
    fn a_byte_in_a_gap_leads_to_what_is_retained_behind_it() {
        let mut writer = in_memory();
        count_to(&mut writer, 2_000_000);
        let (spool, end) = (writer.reader(), end_of(&writer));
        let stretches = spool.retained(Place::FIRST, end);
        let (before, after) = (stretches[0].1, stretches[1].0);
        let behind = |offset| spool.place_of(offset).expect("memory");
        assert_eq!(behind(before.at.offset + 1), Some(after));
        assert_eq!(behind(after.at.offset - 1), Some(after));
        assert_eq!(behind(after.at.offset), Some(after));
        let inside = behind(after.at.offset + 100_000).expect("it is retained");
        let read = spool.read(after, inside.at.offset).expect("memory");
        assert_eq!(read[0].end(), inside);
        assert_eq!(behind(end.at.offset), None);
    }

    #[test]
    fn a_segment_that_is_given_up_while_it_is_read_is_a_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join("task");
        let mut writer = SpoolWriter::new(Some(base), 80, Budget::new(1 << 20));
        writer.append(b"first line in the head\nsecond\nthird\n");
        let spool = writer.reader();
        let seen = spool.segments();
        assert!(spool.give_up_oldest(Store::Disk, writer.end().line) > 0);
        let pieces = spool.read_segments(&seen, Place::FIRST, writer.end().offset);
        let pieces = pieces.expect("what is left");
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].start.at.offset, 20);
        assert_eq!(pieces[0].bytes, b"ad\nsecond\nthird\n");
        assert!(pieces[0].start.inside_line);
    }

    #[test]
    fn a_file_that_somebody_else_took_away_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join("task");
        let mut writer = SpoolWriter::new(Some(base), 80, Budget::new(1 << 20));
        writer.append(b"a line\n");
        std::fs::remove_file(&writer.reader().files()[0]).expect("the spool's file");
        let error = writer.reader().read(Place::FIRST, 7).expect_err("no file");
        assert!(error.to_string().contains("cannot read"), "{error}");
    }
}
