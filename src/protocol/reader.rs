//! Reads frames from an arbitrary byte stream, in bounded memory.
//!
//! The first non-blank line decides the framing of the whole connection. A frame that is too long
//! or has unusable headers is reported as an error and skipped. Limits: waits for the rest of a
//! frame until the input is closed.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use super::framing::{
    Frame, FrameError, Framing, MAX_HEADER_BYTES, header_at_end, is_first_header, parse_header,
};

/// How many bytes are read at once: the capacity of a pipe on Linux.
const READ_BYTES: usize = 64 * 1024;

/// How many bytes a line may have in addition to its frame: a byte order mark and a CR.
const LINE_EXTRA_BYTES: usize = BYTE_ORDER_MARK.len() + 1;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A frame or why it was discarded; `None` at the end of the input.
type Next = io::Result<Option<Result<Frame, FrameError>>>;

/// Splits an input into frames.
#[derive(Debug)]
pub struct FrameReader<B> {
    input: B,
    limit: usize,
    state: State,
}

/// The reader's place in the stream, between two frames.
#[derive(Debug)]
enum State {
    /// Nothing but blank lines so far.
    Undetected,
    /// At the start of a line.
    InLines,
    /// At the start of a header block.
    AtHeaders,
    /// After unusable headers, the last of them `line`: looks for the next length.
    Lost { line: Vec<u8> },
    /// At the end of the input.
    Ended,
}

/// A line of the input, without its ending.
enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

/// The outcome of reading a header block.
enum HeaderBlock {
    Length(usize),
    Unusable { error: FrameError, line: Vec<u8> },
    End,
}

impl<R: Read> FrameReader<BufReader<R>> {
    /// Reads frames of at most `limit` bytes from `input`. Never buffers more than about twice
    /// `limit`.
    pub fn new(input: R, limit: usize) -> Self {
        FrameReader::buffered(BufReader::with_capacity(READ_BYTES, input), limit, None)
    }
}

impl<B: BufRead> FrameReader<B> {
    /// The same from an input with a buffer. `framing` is the client's, if frames were read from it
    /// before.
    pub(crate) fn buffered(input: B, limit: usize, framing: Option<Framing>) -> Self {
        let state = match framing {
            None => State::Undetected,
            Some(Framing::Lines) => State::InLines,
            Some(Framing::Headers) => State::AtHeaders,
        };
        FrameReader { input, limit, state }
    }

    /// The client's framing; `None` before its first frame and after the end.
    pub fn framing(&self) -> Option<Framing> {
        match self.state {
            State::Undetected | State::Ended => None,
            State::InLines => Some(Framing::Lines),
            State::AtHeaders | State::Lost { .. } => Some(Framing::Headers),
        }
    }

    /// Waits for the next frame; `Ok(None)` at the end of the input. An inner error concerns only
    /// one frame, and the next call continues after it.
    ///
    /// # Errors
    /// When the input cannot be read. Later calls return `Ok(None)`.
    pub fn next_frame(&mut self) -> io::Result<Option<Result<Frame, FrameError>>> {
        let next = match &mut self.state {
            State::Undetected => self.first_frame(),
            State::InLines => self.next_line_frame(),
            State::AtHeaders => self.frame_after_headers(None),
            State::Lost { line } => {
                let line = std::mem::take(line);
                self.frame_after_resync(line)
            }
            State::Ended => Ok(None),
        };
        if !matches!(next, Ok(Some(_))) {
            self.state = State::Ended;
        }
        next
    }

    fn first_frame(&mut self) -> Next {
        match self.next_line_frame()? {
            Some(Ok(line)) if is_first_header(&line) => self.frame_after_headers(Some(line)),
            other => {
                self.state = State::InLines;
                Ok(other)
            }
        }
    }

    fn next_line_frame(&mut self) -> Next {
        loop {
            let frame = match self.read_line()? {
                Line::End => return Ok(None),
                Line::Whole(line) if line.trim_ascii().is_empty() => continue,
                Line::Whole(line) if line.len() <= self.limit => Ok(line),
                Line::Whole(_) | Line::TooLong => Err(self.too_long()),
            };
            return Ok(Some(frame));
        }
    }

    /// Reads headers and their frame. `first` is a header that has already been read.
    fn frame_after_headers(&mut self, first: Option<Vec<u8>>) -> Next {
        let length = match self.read_headers(first)? {
            HeaderBlock::Length(length) if length <= self.limit => length,
            HeaderBlock::Length(_) => {
                // The length is not used to skip the body: if it were wrong, the next request
                // would be skipped too, and the client would wait for its answer forever.
                self.state = State::Lost { line: Vec::new() };
                return Ok(Some(Err(self.too_long())));
            }
            HeaderBlock::Unusable { error, line } => {
                self.state = State::Lost { line };
                return Ok(Some(Err(error)));
            }
            HeaderBlock::End => return Ok(None),
        };
        self.state = State::AtHeaders;
        // Not allocated up front: the length is only a claim.
        let mut frame = Vec::new();
        let got = (&mut self.input).take(length as u64).read_to_end(&mut frame)?;
        if got < length {
            return Ok(Some(Err(FrameError::Truncated { expected: length, got })));
        }
        Ok(Some(Ok(frame)))
    }

    /// Reads up to the empty line that ends the headers.
    fn read_headers(&mut self, first: Option<Vec<u8>>) -> io::Result<HeaderBlock> {
        let mut length: Option<usize> = None;
        let mut seen_any = false;
        let mut unread = first;
        loop {
            let (line, ended) = match unread.take() {
                Some(line) => (line, false),
                None => self.read_line_tail(MAX_HEADER_BYTES + 1)?,
            };
            if line.trim_ascii().is_empty() {
                match length {
                    Some(length) if !ended => return Ok(HeaderBlock::Length(length)),
                    _ if seen_any => {
                        return Ok(HeaderBlock::Unusable { error: FrameError::NoLength, line });
                    }
                    _ if ended => return Ok(HeaderBlock::End),
                    // Blank lines between a body and the next headers.
                    _ => continue,
                }
            }
            seen_any = true;
            match (parse_header(&line), length) {
                (Ok(None), _) => {}
                (Ok(Some(second)), Some(first)) if first != second => {
                    let error = FrameError::TwoLengths { first, second };
                    return Ok(HeaderBlock::Unusable { error, line: Vec::new() });
                }
                (Ok(given), _) => length = given,
                // The next message's header may follow a stray body on this line.
                (Err(error), _) => return Ok(HeaderBlock::Unusable { error, line }),
            }
        }
    }

    /// Discards input, beginning with the bad header's `line`, until a line ends with a length
    /// header, and continues there.
    fn frame_after_resync(&mut self, mut line: Vec<u8>) -> Next {
        loop {
            if let Some(header) = header_at_end(&line) {
                let header = header.to_vec();
                return self.frame_after_headers(Some(header));
            }
            let ended;
            (line, ended) = self.read_line_tail(MAX_HEADER_BYTES + 1)?;
            if ended {
                return Ok(None);
            }
        }
    }

    fn too_long(&self) -> FrameError {
        FrameError::TooLong { limit: self.limit }
    }

    /// Reads a line without its ending (LF or CRLF) and without a byte order mark. A line over the
    /// limit is skipped to its end.
    fn read_line(&mut self) -> io::Result<Line> {
        let longest = self.limit.saturating_add(LINE_EXTRA_BYTES);
        let mut line = Vec::new();
        (&mut self.input).take(longest.saturating_add(1) as u64).read_until(b'\n', &mut line)?;
        match line.last() {
            None => return Ok(Line::End),
            Some(b'\n') => {
                line.pop();
            }
            Some(_) if line.len() > longest => {
                // Freed first, since skipping the rest may take long.
                drop(line);
                self.input.skip_until(b'\n')?;
                return Ok(Line::TooLong);
            }
            // The last line needs no ending.
            Some(_) => {}
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Line::Whole(line))
    }

    /// Reads to the end of the line. Returns its last `keep` bytes without the LF, and whether the
    /// input ended first.
    fn read_line_tail(&mut self, keep: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut tail = Vec::new();
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let line_end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..line_end.unwrap_or(chunk.len()));
            tail.extend_from_slice(last_bytes(part.unwrap_or_default(), keep));
            tail.drain(..tail.len().saturating_sub(keep));
            let used = line_end.map_or(chunk.len(), |end| end + 1);
            self.input.consume(used);
            if line_end.is_some() || used == 0 {
                return Ok((tail, line_end.is_none()));
            }
        }
    }
}

fn last_bytes(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(count)..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// An input with scripted reads.
    #[derive(Debug, Default)]
    struct Script(VecDeque<io::Result<Vec<u8>>>);

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut chunk) = self.0.pop_front().transpose()? else {
                return Ok(0);
            };
            let rest = chunk.split_off(chunk.len().min(buffer.len()));
            buffer[..chunk.len()].copy_from_slice(&chunk);
            if !rest.is_empty() {
                self.0.push_front(Ok(rest));
            }
            Ok(chunk.len())
        }
    }

    /// The input in chunks of these sizes, cycled, with an interruption before each.
    fn chunked(input: &[u8], sizes: &[usize]) -> Script {
        let mut script = Script::default();
        let mut rest = input;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, more) = rest.split_at((*size).min(rest.len()));
            script.0.push_back(Err(ErrorKind::Interrupted.into()));
            script.0.push_back(Ok(chunk.to_vec()));
            rest = more;
        }
        script
    }

    fn read_all(input: impl Read, limit: usize) -> Vec<Result<String, FrameError>> {
        let mut reader = FrameReader::new(input, limit);
        let mut all = Vec::new();
        while let Some(next) = reader.next_frame().expect("no I/O error is scripted") {
            all.push(next.map(|frame| String::from_utf8_lossy(&frame).into_owned()));
        }
        all
    }

    fn frames(input: &[u8], limit: usize) -> Vec<Result<String, FrameError>> {
        read_all(input, limit)
    }

    fn good(frames: &[&str]) -> Vec<Result<String, FrameError>> {
        frames.iter().map(|frame| Ok((*frame).to_owned())).collect()
    }

    #[test]
    fn lines_may_end_in_anything_and_be_blank() {
        assert_eq!(
            frames(b"\xef\xbb\xbf\r\n\n \t\n{1}\r\n\n{2}\n\xef\xbb\xbf{3}\n{4}", 99),
            good(&["{1}", "{2}", "{3}", "{4}"])
        );
        assert_eq!(frames(b"", 99), good(&[]));
        assert_eq!(frames(b"\n\r\n", 99), good(&[]));
    }

    #[test]
    fn headers_are_detected_and_stay_the_framing() {
        let input = b"\n\xef\xbb\xbfContent-Length: 3\r\n\r\n{1}content-type: x\ncontent-length: 4\n\n{\n2}\r\n\r\nContent-Length: 0\r\n\r\nContent-Length: 3\r\n\r\n{3}";
        assert_eq!(frames(input, 99), good(&["{1}", "{\n2}", "", "{3}"]));
    }

    #[test]
    fn the_framing_is_known_with_the_first_frame() {
        for (input, framing) in [
            (&b"{}\n"[..], Framing::Lines),
            (b"hello\n", Framing::Lines),
            (b"Content-Length: 2\r\n\r\n{}", Framing::Headers),
            (b"Content-Length: x\r\n\r\n{}", Framing::Headers),
        ] {
            let mut reader = FrameReader::new(input, 99);
            assert_eq!(reader.framing(), None);
            assert!(matches!(reader.next_frame(), Ok(Some(_))));
            assert_eq!(reader.framing(), Some(framing));
        }
    }

    #[test]
    fn a_frame_of_the_limit_passes_and_a_longer_one_is_dropped() {
        let too_long = || Err(FrameError::TooLong { limit: 5 });
        let input = b"12345\r\n\xef\xbb\xbf12345\r\n123456\n12345678901234567890\n{2}\n1234567890";
        let mut expected = good(&["12345", "12345"]);
        expected.extend([too_long(), too_long()]);
        expected.extend(good(&["{2}"]));
        expected.push(too_long());
        assert_eq!(frames(input, 5), expected);

        let whole = "x".repeat(32);
        let mut input = format!("Content-Length: 32\r\n\r\n{whole}").into_bytes();
        for length in ["33", "4000", "99999999999999999999999999"] {
            input.extend(format!("Content-Length: {length}\r\n\r\n").into_bytes());
            input.extend([b'x'; 4000]);
        }
        input.extend(b"Content-Length: 3\r\n\r\n{2}");
        let mut expected = good(&[&whole]);
        expected.extend(vec![Err(FrameError::TooLong { limit: 32 }); 3]);
        expected.extend(good(&["{2}"]));
        assert_eq!(frames(&input, 32), expected);
    }

    #[test]
    fn unusable_headers_are_reported_once_and_the_next_message_is_found() {
        let bodies = [
            "Content-Length: x\r\n\r\n{\"say\":\"Content-Length: 5\"}",
            "Content-Length: -1\r\n\r\n{\n}",
            "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            "Content-Type: y\r\n\r\n{}\n{}",
            "hello\r\n\r\n",
            "}",
        ];
        for body in bodies {
            let input = format!(
                "Content-Length: 3\r\n\r\n{{1}}{body}Content-Length: 3\r\nContent-Type: y\r\n\r\n{{2}}"
            );
            let all = frames(input.as_bytes(), 99);
            assert_eq!(all.len(), 3, "{body}: {all:?}");
            assert_eq!(all.first(), Some(&Ok("{1}".to_owned())), "{body}");
            let error = all.get(1).cloned();
            assert!(
                matches!(
                    error,
                    Some(Err(FrameError::BadHeader { .. }
                        | FrameError::BadLength { .. }
                        | FrameError::NoLength
                        | FrameError::TwoLengths { .. }))
                ),
                "{body}"
            );
            assert_eq!(all.last(), Some(&Ok("{2}".to_owned())), "{body}");
        }
    }

    #[test]
    fn an_end_within_headers_or_body_is_reported() {
        let expected = vec![Err(FrameError::NoLength)];
        assert_eq!(frames(b"Content-Length: 5\r\n", 99), expected);
        let (expected, got) = (5, 2);
        let expected = vec![Err(FrameError::Truncated { expected, got })];
        assert_eq!(frames(b"Content-Length: 5\r\n\r\n{}", 99), expected);
    }

    #[test]
    fn a_failing_input_ends_the_stream() {
        let script = Script(VecDeque::from([
            Ok(b"{1}\n{2".to_vec()),
            Err(ErrorKind::ConnectionReset.into()),
            Ok(b"}\n".to_vec()),
        ]));
        let mut reader = FrameReader::new(script, 99);
        assert!(matches!(reader.next_frame(), Ok(Some(Ok(frame))) if frame == b"{1}"));
        assert!(reader.next_frame().is_err());
        assert!(matches!(reader.next_frame(), Ok(None)));
    }

    proptest! {
        #[test]
        fn frames_survive_any_chunking(
            messages in proptest::collection::vec("[{]\"\\PC{0,30}\"[}]", 0..6),
            framing in prop_oneof![Just(Framing::Lines), Just(Framing::Headers)],
            sizes in proptest::collection::vec(1usize..20, 1..8),
        ) {
            let mut input = Vec::new();
            for message in &messages {
                input.extend(framing.encode(message.clone().into_bytes()));
            }
            let expected: Vec<_> = messages.into_iter().map(Ok).collect();
            prop_assert_eq!(read_all(chunked(&input, &sizes), 1000), expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_read_the_same_in_any_chunks(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just(b"Content-Length: ".to_vec()),
                    Just(b"Content-Length: 3\r\n\r\n".to_vec()),
                    Just(b"\r\n".to_vec()),
                    Just(b"\n".to_vec()),
                    Just(BYTE_ORDER_MARK.to_vec()),
                    "[0-9]{1,22}".prop_map(String::into_bytes),
                    proptest::collection::vec(any::<u8>(), 0..20),
                ],
                0..20,
            ),
            sizes in proptest::collection::vec(1usize..20, 1..8),
        ) {
            let input = pieces.concat();
            let whole = frames(&input, 16);
            prop_assert_eq!(read_all(chunked(&input, &sizes), 16), whole);
        }
    }
}
