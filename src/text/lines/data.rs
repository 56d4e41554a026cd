//! Decodes spans of text that is not UTF-8, and takes data that is no text out of spans, so that it
//! is named instead of shown. Pure.

use std::borrow::Cow;

use super::{OutputSpan, Piece};
use crate::text::binary;
use crate::text::encoding::{self, Found};

/// How many lines in a row that could be text belong to the data around them: more if it is known what
/// the data is, since programs have lists of messages.
const LINES_WITHIN: usize = 3;
const LINES_WITHIN_KNOWN: usize = 12;
const LINES_WITHIN_PROGRAMS: usize = 300;

/// The spans with their text in UTF-8, and what was found, if it was not.
pub(super) fn decoded(spans: &[OutputSpan]) -> (Cow<'_, [OutputSpan]>, Option<Found>) {
    let parts = spans.iter().filter_map(|span| match span {
        OutputSpan::Read(piece) => Some(piece.bytes.as_slice()),
        OutputSpan::Missing { .. } | OutputSpan::Data { .. } => None,
    });
    let found = encoding::find(parts);
    let Some(Found { encoding: Some(encoding), is_sure: true, .. }) = found else {
        return (Cow::Borrowed(spans), found);
    };
    let decoded = spans.iter().map(|span| match span {
        OutputSpan::Read(piece) => OutputSpan::Read(Piece {
            start: piece.start,
            bytes: encoding::decode(encoding, &piece.bytes),
        }),
        other => other.clone(),
    });
    (Cow::Owned(decoded.collect()), found)
}

/// The spans with each run of lines that are data as one [`OutputSpan::Data`].
pub(super) fn set_apart(spans: Cow<'_, [OutputSpan]>) -> Cow<'_, [OutputSpan]> {
    let has_data = spans.iter().any(|span| match span {
        OutputSpan::Read(piece) => may_have_data(&piece.bytes),
        _ => false,
    });
    if !has_data {
        return spans;
    }
    let mut apart: Vec<OutputSpan> = Vec::with_capacity(spans.len());
    for span in spans.into_owned() {
        match span {
            OutputSpan::Read(piece) => {
                let continues = is_within_known(&apart);
                parts(&piece, continues).into_iter().for_each(|part| add(&mut apart, part));
            }
            other => add(&mut apart, other),
        }
    }
    Cow::Owned(apart)
}

/// Looks at all bytes, without a copy.
fn may_have_data(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes).is_some() || std::str::from_utf8(bytes).is_err()
}

/// Whether the next piece continues data of a known kind, of which a part is not read.
fn is_within_known(spans: &[OutputSpan]) -> bool {
    let before = match spans {
        [.., before, OutputSpan::Missing { .. }] | [.., before] => before,
        [] => return false,
    };
    matches!(before, OutputSpan::Data { kind: Some(_), .. })
}

/// A piece as text and data in turns; it may continue data of a known kind.
fn parts(piece: &Piece, continues: bool) -> Vec<OutputSpan> {
    let mut spans = Vec::new();
    let mut start = piece.start;
    let mut rest: &[u8] = &piece.bytes;
    let mut push = |bytes: &[u8], is_data: bool| {
        if !bytes.is_empty() {
            let part = Piece { start, bytes: bytes.to_vec() };
            start = part.end();
            spans.push(if is_data { data(&part) } else { OutputSpan::Read(part) });
        }
    };
    if continues {
        let (data, after) = rest.split_at(data_end(rest, LINES_WITHIN_KNOWN));
        push(data, true);
        rest = after;
    }
    while let Some(begin) = data_begin(rest) {
        let (before, data) = rest.split_at(begin);
        // At least the line with which it begins.
        let line = memchr::memchr(b'\n', data).map_or(data.len(), |newline| newline + 1);
        let end = data_end(data, within(data));
        let (data, after) = data.split_at(if end == 0 { line } else { end });
        push(before, false);
        push(data, true);
        rest = after;
    }
    push(rest, false);
    spans
}

/// Where the first line begins that is data, or the first of those right before it that are no clean
/// text.
fn data_begin(bytes: &[u8]) -> Option<usize> {
    let (mut place, mut unclean_from) = (0, None);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        if binary::is_binary(content) {
            return Some(unclean_from.unwrap_or(place));
        }
        if binary::is_clean(content) {
            unclean_from = None;
        } else {
            unclean_from.get_or_insert(place);
        }
        place += line.len();
    }
    None
}

/// How many lines of clean text may be within data that begins so. An archive may be of text.
fn within(data: &[u8]) -> usize {
    match binary::kind(data) {
        Some(kind) if binary::has_texts(kind) => LINES_WITHIN_PROGRAMS,
        Some(kind) if kind != binary::TAR => LINES_WITHIN_KNOWN,
        _ => LINES_WITHIN,
    }
}

/// Where data ends that begins here: at more lines of clean text than may be within it.
fn data_end(bytes: &[u8], within: usize) -> usize {
    let (mut place, mut end, mut texts) = (0, 0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        place += line.len();
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        if binary::is_clean(content) && !binary::is_binary(content) {
            texts += 1;
            if texts > within {
                break;
            }
        } else {
            let text = binary::text_at_end(content).map(|begin| line.len() - begin);
            (end, texts) = (place - text.unwrap_or_default(), 0);
        }
    }
    end
}

fn data(part: &Piece) -> OutputSpan {
    let end = part.end();
    OutputSpan::Data {
        lines: part.start.at.line..end.next_line(),
        offsets: part.start.at.offset..end.at.offset,
        kind: binary::kind(&part.bytes),
    }
}

/// Adds a span; data on both sides of output that was not read is one.
fn add(spans: &mut Vec<OutputSpan>, span: OutputSpan) {
    if let OutputSpan::Data { lines, offsets, .. } = &span {
        let is_missing = matches!(spans.last(), Some(OutputSpan::Missing { readable: true, .. }));
        let before = spans.len().wrapping_sub(if is_missing { 2 } else { 1 });
        if let Some(OutputSpan::Data { lines: first_lines, offsets: first_offsets, .. }) =
            spans.get_mut(before)
        {
            first_lines.end = lines.end;
            first_offsets.end = offsets.end;
            spans.truncate(before + 1);
            return;
        }
    }
    spans.push(span);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lines::LinePosition;

    fn outline(bytes: &[u8]) -> Vec<String> {
        let piece = Piece { start: LinePosition::FIRST, bytes: bytes.to_vec() };
        let spans = [OutputSpan::Read(piece)];
        let apart = set_apart(Cow::Borrowed(&spans));
        let outline = apart.iter().map(|span| match span {
            OutputSpan::Read(piece) => String::from_utf8_lossy(&piece.bytes).into_owned(),
            OutputSpan::Data { lines, offsets, kind } => {
                format!("{lines:?} {} {kind:?}", offsets.end - offsets.start)
            }
            OutputSpan::Missing { .. } => "missing".to_owned(),
        });
        outline.collect()
    }

    #[test]
    fn data_between_lines_of_text_is_set_apart() {
        assert_eq!(outline("text\nもっと\n".as_bytes()), ["text\nもっと\n"]);
        assert_eq!(
            outline(b"begun\n\x1f\x8b\x08\0\0\x01\nabc\n\x02\x03\xff\0\nended\n"),
            ["begun\n", "2..5 16 Some(\"gzip data\")", "ended\n"]
        );
        assert_eq!(outline(b"\0\0\0\0\0\0\0"), ["1..2 7 None"]);
        let lines = "one\ntwo\nthree\nfour\n";
        let all = [b"\0\0\0\n".as_slice(), lines.as_bytes(), b"\0\0\0\n"].concat();
        assert_eq!(outline(&all), ["1..2 4 None", lines, "6..7 4 None"]);
    }
}
