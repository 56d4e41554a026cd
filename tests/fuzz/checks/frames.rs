//! What a client sends: frames cut out of any bytes, the same however they come, and
//! messages read from frames.

use std::io::{self, Read};

use serde_json::Value;
use zsh_tool::testing::protocol::message;
use zsh_tool::testing::protocol::reader::FrameReader;

/// Short, so that frames above it are within reach.
const LIMIT: usize = 256;

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let Some((size, input)) = data.split_first() else {
        return;
    };
    let whole = frames(input);
    let step = usize::from(*size % 16) + 1;
    let chunks = frames(Chunks { rest: input, step });
    assert_eq!(whole, chunks);
    for frame in whole.iter().flatten() {
        if let Err(malformed) = message::parse(frame) {
            let reply = malformed.reply().unwrap_or_else(|| b"{}".to_vec());
            serde_json::from_slice::<Value>(&reply).expect("a reply is JSON");
        }
    }
}

fn frames(input: impl Read) -> Vec<Result<Vec<u8>, String>> {
    let mut reader = FrameReader::new(input, LIMIT);
    let mut frames = Vec::new();
    while let Some(next) = reader.next_frame().expect("reading from memory") {
        if let Ok(frame) = &next {
            assert!(frame.len() <= LIMIT);
        }
        frames.push(next.map_err(|error| error.to_string()));
    }
    frames
}

/// Gives few bytes at a time.
struct Chunks<'a> {
    rest: &'a [u8],
    step: usize,
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.step.min(buffer.len()).min(self.rest.len());
        let (now, rest) = self.rest.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.rest = rest;
        Ok(count)
    }
}
