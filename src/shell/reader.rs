//! How far a command line has been read: the position, what is open there, and what was
//! found so far.
//!
//! The reading itself is in `lexer` (between words), `words` and `compound`.

use std::ops::Range;

use super::frame::{Before, Frame, List};
use super::scan::LookAhead;
use super::token::{Kind, Token};

/// A command line, read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lexed {
    /// Its tokens in order; nothing of what is within a word.
    pub tokens: Vec<Token>,
    /// The insides of the outermost substitutions of its words, in order of their ends.
    pub substitutions: Vec<Range<usize>>,
    /// Runs of blanks that only part tokens, also within substitutions.
    pub blanks: Vec<Range<usize>>,
}

pub(super) struct Reader<'a> {
    pub text: &'a str,
    pub bytes: &'a [u8],
    pub at: usize,
    pub frames: Vec<Frame>,
    /// The innermost list of commands; those around it wait in their frames.
    pub list: List,
    /// Open compound commands.
    depth: u32,
    /// Open frames that a `)` can close.
    pub parentheses: usize,
    /// Open substitutions: within them no token is noted.
    pub substitutions: usize,
    pub look_ahead: LookAhead,
    pub lexed: Lexed,
}

impl<'a> Reader<'a> {
    /// At the text's beginning.
    pub(super) fn new(text: &'a str) -> Self {
        Reader {
            text,
            bytes: text.as_bytes(),
            at: 0,
            frames: Vec::new(),
            list: List::default(),
            depth: 0,
            parentheses: 0,
            substitutions: 0,
            look_ahead: LookAhead::new(text.len()),
            lexed: Lexed::default(),
        }
    }

    pub(super) fn push(&mut self, frame: Frame) {
        self.depth += u32::from(frame.is_compound());
        self.parentheses += usize::from(frame.is_parenthesis());
        self.substitutions += usize::from(matches!(frame, Frame::Substitution { .. }));
        self.frames.push(frame);
    }

    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        self.depth -= u32::from(frame.is_compound());
        self.parentheses -= usize::from(frame.is_parenthesis());
        self.substitutions -= usize::from(matches!(frame, Frame::Substitution { .. }));
        Some(frame)
    }

    /// Takes an operator of this many bytes.
    pub(super) fn operator(&mut self, kind: Kind, length: usize) {
        let start = self.at;
        self.at = (start + length).min(self.bytes.len());
        self.note(kind, start..self.at);
    }

    pub(super) fn note(&mut self, kind: Kind, span: Range<usize>) {
        if !matches!(kind, Kind::Comment | Kind::HereDocument) {
            self.list.waits_for_more = false;
            self.list.before = Before::Other;
        }
        if self.substitutions == 0 {
            self.lexed.tokens.push(Token {
                kind,
                span,
                depth: self.depth,
            });
        }
    }

    pub(super) fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }
}
