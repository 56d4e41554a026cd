//! Reading a spool: the retained parts of a span, where output continues after a gap, and where
//! lines and bytes are.
//!
//! The files are read without the lock. A segment that is dropped meanwhile for the quota is a gap
//! like any other.

use std::io;

use super::segment::Segment;
use super::spool::Spool;
use crate::text::lines::{LinePosition, Piece, Position};

/// How much is read at once to find a position.
const READ_BYTES: u64 = 64 * 1024;

impl Spool {
    /// Reads what is retained of `[from, to)`, in one piece for each part without a gap.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self, from: LinePosition, to: u64) -> io::Result<Vec<Piece>> {
        self.read_segments(&self.segments(), from, to)
    }

    fn read_segments(
        &self,
        segments: &[Segment],
        from: LinePosition,
        to: u64,
    ) -> io::Result<Vec<Piece>> {
        let mut pieces: Vec<Piece> = Vec::new();
        for segment in segments.iter().filter(|segment| overlaps(segment, from, to)) {
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

    /// The first retained piece of `[from, to)`, of at most `max_bytes` bytes, however far away it
    /// begins.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn next_piece(
        &self,
        from: LinePosition,
        to: u64,
        max_bytes: u64,
    ) -> io::Result<Option<Piece>> {
        for segment in self.segments() {
            if overlaps(&segment, from, to) {
                let start = segment.start.at.offset.max(from.at.offset);
                let piece = self.read_segment(&segment, from, to.min(start + max_bytes))?;
                if piece.is_some() {
                    return Ok(piece);
                }
            }
        }
        Ok(None)
    }

    /// `None` if the segment has been dropped since it was listed.
    fn read_segment(
        &self,
        segment: &Segment,
        from: LinePosition,
        to: u64,
    ) -> io::Result<Option<Piece>> {
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

    /// The retained parts of `[from, to)`: where each begins and ends.
    pub fn retained(
        &self,
        from: LinePosition,
        to: LinePosition,
    ) -> Vec<(LinePosition, LinePosition)> {
        let mut spans: Vec<(LinePosition, LinePosition)> = Vec::new();
        for segment in self.segments() {
            if !overlaps(&segment, from, to.at.offset) {
                continue;
            }
            let start = if segment.start.at.offset < from.at.offset { from } else { segment.start };
            let end = if segment.end.at.offset > to.at.offset { to } else { segment.end };
            match spans.last_mut() {
                Some(last) if last.1.at.offset == start.at.offset => last.1 = end,
                _ => spans.push((start, end)),
            }
        }
        spans
    }

    /// Where retained output continues: at `from`, or after the gap that contains it; `None` when
    /// nothing is retained from there on.
    pub fn next_retained(&self, from: LinePosition) -> Option<LinePosition> {
        let segments = self.segments();
        let next = segments.iter().find(|segment| overlaps(segment, from, u64::MAX))?;
        if next.start.at.offset < from.at.offset { Some(from) } else { Some(next.start) }
    }

    /// Where line `line` begins, or the first retained position after it if it is gone; `None` if
    /// there is no such line before `end`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn find_line(&self, line: u64, end: LinePosition) -> io::Result<Option<LinePosition>> {
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
                    let at = Position { offset: piece.start.at.offset + newline as u64 + 1, line };
                    return Ok(Some(LinePosition { at, inside_line: false }));
                }
            }
            next = piece.end();
        }
        Ok(Some(end))
    }

    /// The position of byte `offset`, or the first retained one after it; `None` if nothing is
    /// retained from there on.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn position_of(&self, offset: u64) -> io::Result<Option<LinePosition>> {
        let mut next = self.checkpoint(|checkpoint| checkpoint.offset <= offset);
        while let Some(piece) = self.next_piece(next, offset, READ_BYTES)? {
            next = piece.end();
        }
        if next.at.offset < offset {
            // The line number is irrelevant: the wanted position is after a gap.
            next.at.offset = offset;
        }
        Ok(self.next_retained(next))
    }
}

/// Whether some of the segment's bytes are in `[from, to)`.
fn overlaps(segment: &Segment, from: LinePosition, to: u64) -> bool {
    let start = segment.start.at.offset.max(from.at.offset);
    start < segment.end.at.offset.min(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::output::budget::{Budget, StorageKind};
    use crate::task::output::spool::SpoolWriter;

    /// The lines between the head and the newest output, of which nothing is retained.
    fn gap(writer: &SpoolWriter) -> (u64, u64) {
        let spans = writer.reader().retained(LinePosition::FIRST, writer.line_end());
        let [(_, before), (after, _)] = spans[..] else {
            panic!("one gap: {spans:?}");
        };
        assert!(after.at.offset - before.at.offset > 4 * READ_BYTES);
        (before.next_line(), after.at.line - 1)
    }

    #[test]
    fn a_retained_line_is_found_where_it_is_on_both_sides_of_a_gap() {
        let writer = SpoolWriter::count_to(2_000_000);
        let (spool, end) = (writer.reader(), writer.line_end());
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
        let writer = SpoolWriter::count_to(2_000_000);
        let (spool, end) = (writer.reader(), writer.line_end());
        let (first_gone, last_gone) = gap(&writer);
        for line in [first_gone + 1, (first_gone + last_gone) / 2, last_gone] {
            let place = spool.find_line(line, end).expect("memory");
            assert_eq!(place.expect("the line existed").at.line, last_gone + 1);
        }
    }

    #[test]
    fn a_byte_in_a_gap_leads_to_what_is_retained_behind_it() {
        let writer = SpoolWriter::count_to(2_000_000);
        let (spool, end) = (writer.reader(), writer.line_end());
        let spans = spool.retained(LinePosition::FIRST, end);
        let (before, after) = (spans[0].1, spans[1].0);
        let behind = |offset| spool.position_of(offset).expect("memory");
        assert_eq!(behind(before.at.offset + 1), Some(after));
        assert_eq!(behind(after.at.offset - 1), Some(after));
        assert_eq!(behind(after.at.offset), Some(after));
        let inside = behind(after.at.offset + 100_000).expect("it is retained");
        let read = spool.read(after, inside.at.offset).expect("memory");
        assert_eq!(read[0].end(), inside);
        assert_eq!(behind(end.at.offset), None);
    }

    #[test]
    fn a_segment_that_is_dropped_while_it_is_read_is_a_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join("task");
        let mut writer = SpoolWriter::new(Some(base), 80, Budget::new(1 << 20));
        writer.append(b"first line in the head\nsecond\nthird\n");
        let spool = writer.reader();
        let seen = spool.segments();
        assert!(spool.drop_oldest(StorageKind::Disk, writer.end().line) > 0);
        let pieces = spool.read_segments(&seen, LinePosition::FIRST, writer.end().offset);
        let pieces = pieces.expect("what is left");
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].start.at.offset, 20);
        assert_eq!(pieces[0].bytes, b"ad\nsecond\nthird\n");
        assert!(pieces[0].start.inside_line);
    }

    #[test]
    fn a_file_that_another_process_removed_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join("task");
        let mut writer = SpoolWriter::new(Some(base), 80, Budget::new(1 << 20));
        writer.append(b"a line\n");
        std::fs::remove_file(&writer.reader().files()[0]).expect("the spool's file");
        let error = writer.reader().read(LinePosition::FIRST, 7).expect_err("no file");
        assert!(error.to_string().contains("cannot read"), "{error}");
    }
}
