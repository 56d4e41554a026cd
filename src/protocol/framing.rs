//! Frames: how single messages stand in a byte stream.
//!
//! Two framings are known: newline-delimited JSON, which MCP prescribes, and the
//! `Content-Length` headers of the language server protocol, which some clients speak.
//! Pure: the way in is [`FrameReader`](super::reader::FrameReader), the way out
//! [`Framing::encode`]. Limits: whether a frame is JSON is not looked at.

use super::header::HeaderError;
use super::message::{INVALID_REQUEST, Malformed};

/// The longest frame that is taken, in bytes: a message, without its line ending or
/// headers (MCP interface, section 3).
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// One message's bytes, without line ending or headers.
pub type Frame = Vec<u8>;

/// How the messages of a connection are told from one another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// One message a line.
    #[default]
    Lines,
    /// A `Content-Length` header, an empty line, then that many bytes.
    Headers,
}

impl Framing {
    /// Puts one JSON message in its frame, ready to be written in one piece.
    pub fn encode(self, mut message: Vec<u8>) -> Vec<u8> {
        match self {
            Framing::Lines => {
                // Line breaks in JSON can only be space between tokens: those of a
                // quoted text are escaped. So replacing them changes no message, and no
                // message can ever break the framing.
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

/// A frame that could not be had. It has been thrown away, and reading goes on behind it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It was longer than the limit.
    #[error("request larger than {limit} bytes: pass large inputs in a file")]
    TooLong {
        /// In bytes.
        limit: usize,
    },
    /// Its headers do not say how long it is.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The input ended within it.
    #[error("input ended after {got} of {expected} bytes of a request")]
    Truncated {
        /// The announced length in bytes.
        expected: usize,
        /// The bytes that came.
        got: usize,
    },
}

impl From<FrameError> for Malformed {
    fn from(error: FrameError) -> Self {
        Malformed {
            id: None,
            code: INVALID_REQUEST,
            message: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_frame_is_a_bad_request_without_id() {
        let malformed = Malformed::from(FrameError::TooLong { limit: 16 });
        assert_eq!((malformed.id, malformed.code), (None, INVALID_REQUEST));
        assert!(
            malformed
                .message
                .starts_with("request larger than 16 bytes")
        );
    }

    #[test]
    fn a_message_with_line_breaks_still_is_one_line() {
        let message = b"{\r\n\"a\": 1\n}".to_vec();
        assert_eq!(Framing::Lines.encode(message), b"{  \"a\": 1 }\n");
    }
}
