//! The header lines of `Content-Length` framing.
//!
//! Pure: takes single lines, knows nothing of the stream. Limits: only the length means
//! anything; every other header is recognised as one and ignored.

/// The longest header line that is taken, in bytes. Real ones have some 80.
pub const MAX_HEADER_BYTES: usize = 1024;

/// Bytes of a client's own text that an error message repeats.
const MAX_QUOTED_BYTES: usize = 40;

const LENGTH_HEADER: &[u8] = b"content-length:";
/// What both headers of the language server protocol begin with, and no JSON text does.
const HEADER_START: &[u8] = b"content-";

/// A header block that does not say how long the message is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The headers ended without a length.
    #[error("headers without Content-Length")]
    NoLength,
    /// A length that is no decimal number.
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
    /// A line where a header should be, but is none.
    #[error("bad header `{line}`: Content-Length and an empty line are expected")]
    BadHeader {
        /// The line, shortened.
        line: String,
    },
}

/// Whether a connection that begins with this line uses headers.
pub fn is_first_header(line: &[u8]) -> bool {
    starts_with_ignoring_case(line, HEADER_START)
}

/// Reads one line: the length in bytes if this is the header that gives it, `None` for
/// another header. A number beyond the range is as long as it can be: over any limit.
///
/// # Errors
/// The line is no header, or too long for one, or its length is no number.
pub fn parse_header(line: &[u8]) -> Result<Option<usize>, HeaderError> {
    if line.len() > MAX_HEADER_BYTES {
        return Err(HeaderError::BadHeader { line: quote(line) });
    }
    if starts_with_ignoring_case(line, LENGTH_HEADER) {
        let value = line.get(LENGTH_HEADER.len()..).unwrap_or_default();
        return parse_length(value.trim_ascii()).map(Some);
    }
    let colon = line.iter().position(|byte| *byte == b':');
    let name = colon.and_then(|colon| line.get(..colon));
    match name {
        Some(name) if is_name(name) => Ok(None),
        Some(_) | None => Err(HeaderError::BadHeader { line: quote(line) }),
    }
}

/// The length header that a line ends with, after whatever else.
///
/// This is how a reader that has lost track finds the next message: a body has no line
/// ending, so the header behind it is on its last line. No line of a JSON text ends so
/// by itself: the header would be within a quoted text, and that is closed on its line.
pub fn header_at_end(line: &[u8]) -> Option<&[u8]> {
    let start = line
        .windows(LENGTH_HEADER.len())
        .rposition(|window| window.eq_ignore_ascii_case(LENGTH_HEADER))?;
    let header = line.get(start..)?;
    matches!(parse_header(header), Ok(Some(_))).then_some(header)
}

fn parse_length(value: &[u8]) -> Result<usize, HeaderError> {
    // `parse` on its own would take a plus sign too.
    let digits = std::str::from_utf8(value)
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits {
        Some(digits) => Ok(digits.parse().unwrap_or(usize::MAX)),
        None => Err(HeaderError::BadLength {
            value: quote(value),
        }),
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

fn quote(bytes: &[u8]) -> String {
    let start = bytes.get(..MAX_QUOTED_BYTES).unwrap_or(bytes);
    String::from_utf8_lossy(start).trim().to_owned()
}

fn starts_with_ignoring_case(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_decimal_and_names_ignore_case() {
        for line in [
            "Content-Length: 52",
            "content-length:52",
            "CONTENT-LENGTH: \t052 \r",
        ] {
            assert_eq!(parse_header(line.as_bytes()), Ok(Some(52)), "{line}");
        }
        for value in ["", "abc", "-1", "+5", "5.0", "0x10", "5 6", "٥"] {
            let line = format!("Content-Length: {value}\r");
            assert_eq!(
                parse_header(line.as_bytes()),
                Err(HeaderError::BadLength {
                    value: value.to_owned()
                })
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
