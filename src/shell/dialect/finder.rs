//! What is found in a text, and what is known while it is read. Pure.

use std::collections::HashSet;

use super::values::Variables;
use super::{Found, Sign, Trap, TrapKind};
use crate::shell::token::Token;

/// How many traps of one text are kept.
const MAX_FOUND: usize = 64;

/// Collects the traps of a text. Its methods in the sibling modules check words and commands.
pub(super) struct Finder<'a> {
    pub(super) found: Vec<Found>,
    pub(super) variables: Variables,
    /// The functions that the text defines.
    pub(super) defined: HashSet<String>,
    /// The insides of substitutions that are still to be read.
    pub(super) nested: Vec<(String, Spot)>,
    pub(super) text: &'a str,
    /// The tables that have keys in quotes, and whether the text reads keys without quotes.
    pub(super) quoted_keys: Vec<(String, bool)>,
    /// `set -f`, until a pattern follows.
    pub(super) no_glob: Option<(String, Spot)>,
    /// Whether the text itself, outside of functions, sets a trap on EXIT.
    pub(super) has_exit_trap: bool,
    /// The first function that does.
    pub(super) exit_trap_of_function: Option<Spot>,
    pub(super) is_for_zsh: bool,
    pub(super) uses_positional: bool,
    /// Whether an environment variable has a value.
    pub(super) is_set: &'a dyn Fn(&str) -> bool,
}

impl Finder<'_> {
    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= MAX_FOUND
    }

    /// Adds a trap for which the text alone is reason enough.
    pub(super) fn add(
        &mut self,
        kind: TrapKind,
        written: &str,
        instead: &str,
        sign: Sign,
        spot: Spot,
    ) {
        self.push(kind, written, instead, sign, spot, true);
    }

    pub(super) fn push(
        &mut self,
        kind: TrapKind,
        written: &str,
        instead: &str,
        sign: Sign,
        spot: Spot,
        is_certain: bool,
    ) {
        if self.is_full() || sign == Sign::None && self.is_for_zsh {
            return;
        }
        let trap = Trap {
            kind,
            written: written.to_owned(),
            instead: instead.to_owned(),
            line: Some(spot.line),
            skips_rest: false,
            also: Vec::new(),
        };
        let is_fatal = !spot.is_inner && spot.is_followed;
        let is_certain = is_certain && !self.is_for_zsh;
        let Spot { at, in_function, .. } = spot;
        self.found.push(Found { trap, sign, is_fatal, is_certain, at, in_function });
    }
}

/// Where a trap is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) line: usize,
    /// The position in the line of commands that is being read.
    pub(super) at: usize,
    pub(super) depth: usize,
    /// Whether zsh continues after a failure there, as it does after one in a subshell.
    pub(super) is_inner: bool,
    /// Whether a command follows.
    pub(super) is_followed: bool,
    pub(super) in_function: bool,
    pub(super) is_script: bool,
}

/// A command that is being read.
#[derive(Default)]
pub(super) struct Unit<'a> {
    pub(super) words: Vec<(&'a str, usize)>,
    pub(super) assignments: Vec<(&'a str, usize)>,
    pub(super) redirections: Vec<(&'a str, &'a str)>,
    /// Whether its stdin is a pipe.
    pub(super) reads_pipe: bool,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Unit<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.assignments.is_empty() && self.redirections.is_empty()
    }

    pub(super) fn extend(&mut self, token: &Token) {
        if self.is_empty() {
            self.start = token.span.start;
        }
        self.end = token.span.end;
    }
}

/// What a word is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use<'a> {
    Command,
    /// Of this command, after this word.
    Argument(&'a str, &'a str),
    Loop,
    Element,
    Target,
    Value,
    /// In `[[ … ]]`, and whether it is a pattern.
    Condition {
        is_pattern: bool,
    },
    CaseSubject,
    CasePattern,
}
