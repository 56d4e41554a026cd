//! Frames: how messages are delimited in a byte stream.
//!
//! There are two framings: newline-delimited JSON, which MCP prescribes, and the
//! `Content-Length` headers of the language server protocol, which some clients use.
//! Pure. [`FrameReader`](super::reader::FrameReader) reads frames, [`Framing::encode`] writes them.
//! Limits: neither checks whether a frame is JSON.

use super::message::{INVALID_REQUEST, Malformed};

/// The longest frame that is accepted, in bytes: a message without its line ending or
/// headers.
pub(crate) const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// The longest header line that is accepted, in bytes. Real ones have about 80.
pub(super) const MAX_HEADER_BYTES: usize = 1024;

/// How many bytes of a client's text an error message repeats.
const MAX_QUOTED_BYTES: usize = 40;

const LENGTH_HEADER: &[u8] = b"content-length:";
/// Both headers of the language server protocol begin like this, and no JSON text does.
const HEADER_START: &[u8] = b"content-";

/// One message's bytes, without line ending or headers.
pub(crate) type Frame = Vec<u8>;

/// How the messages of a connection are delimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// One message per line.
    #[default]
    Lines,
    /// A `Content-Length` header, an empty line, then that many bytes.
    Headers,
}

impl Framing {
    const ALL: [Framing; 2] = [Framing::Lines, Framing::Headers];

    /// Its number, from 1.
    pub(crate) fn code(self) -> u8 {
        match self {
            Framing::Lines => 1,
            Framing::Headers => 2,
        }
    }

    /// The framing with this number.
    pub(crate) fn from_code(code: u8) -> Option<Framing> {
        Framing::ALL.into_iter().find(|framing| framing.code() == code)
    }

    /// Frames one JSON message.
    pub fn encode(self, mut message: Vec<u8>) -> Vec<u8> {
        match self {
            Framing::Lines => {
                // Line breaks in JSON are always white space between tokens, since strings escape
                // them. Replacing them keeps the message's meaning and makes it one line.
                for byte in &mut message {
                    if matches!(*byte, b'\n' | b'\r') {
                        *byte = b' ';
                    }
                }
                message.push(b'\n');
                message
            }
            Framing::Headers => {
                let mut frame = format!("Content-Length: {}\r\n\r\n", message.len()).into_bytes();
                frame.append(&mut message);
                frame
            }
        }
    }
}

/// Why a frame was discarded. Reading continues after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is longer than the limit.
    #[error("request larger than {limit} bytes: pass large inputs in a file")]
    TooLong {
        /// In bytes.
        limit: usize,
    },
    /// The headers ended without a length.
    #[error("headers without Content-Length")]
    NoLength,
    /// A length that is not a decimal number.
    #[error("bad Content-Length `{value}`: a decimal number of bytes is expected")]
    BadLength {
        /// What was given, shortened.
        value: String,
    },
    /// Two lengths that differ.
    #[error("two values of Content-Length: {first} and {second}")]
    TwoLengths {
        /// In bytes.
        first: usize,
        /// In bytes.
        second: usize,
    },
    /// A line that is not a header.
    #[error("bad header `{line}`: Content-Length and an empty line are expected")]
    BadHeader {
        /// The line, shortened.
        line: String,
    },
    /// The input ended within the frame.
    #[error("input ended after {got} of {expected} bytes of a request")]
    Truncated {
        /// The announced length in bytes.
        expected: usize,
        /// The bytes received.
        got: usize,
    },
}

impl From<FrameError> for Malformed {
    fn from(error: FrameError) -> Self {
        Malformed { id: None, code: INVALID_REQUEST, message: error.to_string() }
    }
}

/// Whether a connection that begins with this line uses headers.
pub(super) fn is_first_header(line: &[u8]) -> bool {
    starts_with_ignoring_case(line, HEADER_START)
}

/// Parses a header line: the length in bytes, or `None` for another header. A number that is out of
/// range becomes `usize::MAX`, which is over any limit.
///
/// # Errors
/// When the line is not a header or is too long, or its length is not a number.
pub(super) fn parse_header(line: &[u8]) -> Result<Option<usize>, FrameError> {
    if line.len() > MAX_HEADER_BYTES {
        return Err(FrameError::BadHeader { line: quote(line) });
    }
    if starts_with_ignoring_case(line, LENGTH_HEADER) {
        let value = line.get(LENGTH_HEADER.len()..).unwrap_or_default();
        return parse_length(value.trim_ascii()).map(Some);
    }
    let colon = line.iter().position(|byte| *byte == b':');
    let name = colon.and_then(|colon| line.get(..colon));
    match name {
        Some(name) if is_name(name) => Ok(None),
        Some(_) | None => Err(FrameError::BadHeader { line: quote(line) }),
    }
}

/// The length header at the end of a line.
///
/// It lets a reader that has lost track find the next message: a body has no line ending, so the
/// next header is on the body's last line. A line of JSON cannot end like this, since a string that
/// contained the header would be closed on the same line.
pub(super) fn header_at_end(line: &[u8]) -> Option<&[u8]> {
    let start = line
        .windows(LENGTH_HEADER.len())
        .rposition(|window| window.eq_ignore_ascii_case(LENGTH_HEADER))?;
    let header = line.get(start..)?;
    matches!(parse_header(header), Ok(Some(_))).then_some(header)
}

fn parse_length(value: &[u8]) -> Result<usize, FrameError> {
    // `parse` would also accept a plus sign.
    let digits = std::str::from_utf8(value)
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits {
        Some(digits) => Ok(digits.parse().unwrap_or(usize::MAX)),
        None => Err(FrameError::BadLength { value: quote(value) }),
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

fn quote(bytes: &[u8]) -> String {
    let start = bytes.get(..MAX_QUOTED_BYTES).unwrap_or(bytes);
    String::from_utf8_lossy(start).trim().to_owned()
}

fn starts_with_ignoring_case(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_frame_is_a_bad_request_without_id() {
        let malformed = Malformed::from(FrameError::TooLong { limit: 16 });
        assert_eq!((malformed.id, malformed.code), (None, INVALID_REQUEST));
        assert!(malformed.message.starts_with("request larger than 16 bytes"));
    }

    #[test]
    fn a_message_with_line_breaks_still_is_one_line() {
        let message = b"{\r\n\"a\": 1\n}".to_vec();
        assert_eq!(Framing::Lines.encode(message), b"{  \"a\": 1 }\n");
    }

    #[test]
    fn lengths_are_decimal_and_names_ignore_case() {
        for line in ["Content-Length: 52", "content-length:52", "CONTENT-LENGTH: \t052 \r"] {
            assert_eq!(parse_header(line.as_bytes()), Ok(Some(52)), "{line}");
        }
        for value in ["", "abc", "-1", "+5", "5.0", "0x10", "5 6", "٥"] {
            let line = format!("Content-Length: {value}\r");
            assert_eq!(
                parse_header(line.as_bytes()),
                Err(FrameError::BadLength { value: value.to_owned() })
            );
        }
        let huge = format!("Content-Length: {}", "9".repeat(100));
        assert_eq!(parse_header(huge.as_bytes()), Ok(Some(usize::MAX)));
    }

    #[test]
    fn other_headers_are_ignored_and_other_lines_refused() {
        let other = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r";
        assert_eq!(parse_header(other), Ok(None));
        for line in ["hello", ": 5", r#"{"jsonrpc":"2.0"}"#, "a b: c"] {
            assert!(parse_header(line.as_bytes()).is_err(), "{line}");
        }
        let long = format!("X: {}", "x".repeat(MAX_HEADER_BYTES));
        let error = parse_header(long.as_bytes()).map_err(|error| error.to_string().len());
        assert!(error.is_err_and(|shown| shown < 200));
    }

    #[test]
    fn a_length_is_found_behind_a_body() {
        assert_eq!(
            header_at_end(b"{\"a\":1}Content-Length: 5\r"),
            Some(&b"Content-Length: 5\r"[..])
        );
        assert_eq!(header_at_end(b"{\"a\":\"Content-Length: 5\"}"), None);
        assert_eq!(header_at_end(b"Content-Length: x"), None);
        assert_eq!(header_at_end(b""), None);
    }
}
