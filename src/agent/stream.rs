//! Records out of an agent's stdout: see [`Framer`].

/// What shape a program's stdout has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// JSON values, one a line or indented over many, with other lines in between.
    Lines,
    /// Text; every line is a record.
    Plain,
}

/// One piece of an agent's stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A JSON object or array as it was written.
    Json(String),
    /// A line of text, without its end.
    Line(String),
}

/// Cuts bytes into records as they come.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
}

impl Framer {
    /// Before the first byte.
    pub fn new(framing: Framing) -> Framer {
        Framer { framing }
    }

    /// The records that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Record> {
        let _ = (bytes, self.framing);
        todo!()
    }

    /// What is left at the end of the stream.
    pub fn finish(&mut self) -> Vec<Record> {
        todo!()
    }
}
