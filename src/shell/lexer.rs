//! Splits command lines as zsh does: into words with their quotes and substitutions, operators,
//! reserved words, here-documents and comments.
//!
//! The lexer follows only enough grammar to know the purpose of a word: a list follows `for x (`, a
//! pattern follows `echo (`. A substitution is part of its word. The same rules apply inside it, so
//! a `)` in a pattern, a comment or a here-document does not end it.
//!
//! Accepts any text: an unclosed construct extends to the end, and a closing token without an
//! opening one is a separate token. Time is linear in the text's length, and nesting uses memory,
//! not stack.
//!
//! Limits: ignores aliases and options (zsh's defaults for scripts apply), does not read the inside
//! of backticks, and does not check whether zsh would accept the text. Pure.

use std::ops::Range;

use super::scan::{HereDocument, Lookahead, number_range_end};
use super::token::{Reserved, Separator, Token, TokenKind, WordRole};

pub fn lex(text: &str) -> Lexed {
    let mut reader = Lexer::new(text);
    reader.run();
    reader.lexed
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lexed {
    /// The tokens in order, without those inside words.
    pub tokens: Vec<Token>,
    /// The insides of the words' outermost substitutions, in order of their ends.
    pub substitutions: Vec<Range<usize>>,
    /// Runs of blanks that only separate tokens, including those within substitutions.
    pub blanks: Vec<Range<usize>>,
}

/// The state of reading a command line: the position, the open constructs there, and the tokens
/// found so far. [`words`](super::words) reads the inside of words.
pub(super) struct Lexer<'a> {
    pub(crate) text: &'a str,
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) frames: Vec<Frame>,
    /// The innermost list of commands; the outer lists are saved in their frames.
    pub(crate) list: List,
    /// Open compound commands.
    depth: u32,
    /// Open frames that a `)` can close.
    pub(crate) parentheses: usize,
    /// Open substitutions: within them no token is recorded.
    pub(crate) substitutions: usize,
    pub(crate) look_ahead: Lookahead,
    pub(crate) lexed: Lexed,
}

// A construct that is open at a position: a compound command, or a part of the current word. One
// stack contains both, since each may contain the other (`"$(case x in …)"`). It is a vector, so
// nesting uses memory instead of the thread's stack.

#[derive(Debug)]
pub(super) enum Frame {
    /// `(`
    Subshell,
    /// `{`. If it is the body of a loop or a branch, its end also ends that.
    Brace {
        is_body: bool,
    },
    If(Branches),
    Loop(LoopKind, Stage),
    Case,
    /// `[[`
    Condition,
    /// `NAME=(`, with the position after its end.
    Array {
        after: CommandPosition,
    },
    Word(Word),
    /// `"` within a word.
    DoubleQuote,
    /// `${` within a word.
    Parameter {
        is_quoted: bool,
        braces: u32,
    },
    /// `$(`, `<(`, `>(` or `=(` within a word: the start of its inside, and the saved state of the
    /// outer list of commands.
    Substitution {
        inside: usize,
        outer: List,
    },
}

impl Frame {
    /// Whether it nests its contents one level deeper.
    fn is_compound(&self) -> bool {
        !matches!(
            self,
            Frame::Word(_)
                | Frame::DoubleQuote
                | Frame::Parameter { .. }
                | Frame::Substitution { .. }
        )
    }

    /// Whether a `)` can close it.
    fn is_parenthesis(&self) -> bool {
        matches!(self, Frame::Subshell | Frame::Substitution { .. })
    }
}

/// An unfinished word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    pub(crate) start: usize,
    /// Open parentheses of patterns and glob qualifiers.
    pub(crate) parentheses: u32,
    /// Whether the word has contained any.
    pub(crate) had_parentheses: bool,
    /// Open braces, as of `{a,b}`.
    pub(crate) braces: u32,
}

/// The syntax of the branches of an `if`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Branches {
    /// Unknown yet, or with `then` and `fi`.
    Words,
    /// `if [[ … ]] { … } else { … }`, before a branch.
    Braces,
    /// Like [`Branches::Braces`], after a branch: only `else` or `elif` continues it.
    BraceClosed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopKind {
    /// `while` and `until`.
    Condition,
    /// `for`, `select` and `repeat`.
    Counted,
    /// `foreach`, which `end` ends.
    Foreach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before its body.
    Head,
    /// After `do`.
    Body,
    /// In a body of a single command, which ends the loop.
    Short,
}

/// What may follow in a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CommandPosition {
    /// A command, an assignment or a reserved word.
    #[default]
    Command,
    /// A command or another assignment.
    Assigned,
    Argument,
    /// An argument of `typeset` and its like, which may assign.
    Declaration,
    /// The variable of a `for`, or `in`.
    LoopName,
    /// The values of a `for`, up to the end of the line.
    LoopWords,
    /// The values of a `for` in parentheses.
    LoopList,
    RepeatCount,
    /// The word after `case`.
    CaseSubject,
    CaseIn,
    /// A pattern of a `case`, or `esac`.
    CasePattern,
    /// The name after `function`.
    FunctionName,
    /// Within `[[ … ]]`.
    Condition,
    /// Within an array.
    Array,
}

impl CommandPosition {
    /// Whether line ends are ignored here.
    fn ignores_newlines(self) -> bool {
        matches!(
            self,
            CommandPosition::CaseSubject
                | CommandPosition::CaseIn
                | CommandPosition::CasePattern
                | CommandPosition::LoopList
                | CommandPosition::Condition
                | CommandPosition::Array
        )
    }

    /// Whether a word may be an assignment here, including one of an array.
    pub(crate) fn may_assign(self) -> bool {
        matches!(
            self,
            CommandPosition::Command | CommandPosition::Assigned | CommandPosition::Declaration
        )
    }
}

/// The word that a redirection still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A file, a descriptor or a here-string.
    Plain,
    /// The delimiter of a here-document.
    Delimiter { strips_tabs: bool },
}

/// The state of a list of commands: the text itself, or a substitution within it.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(crate) place: CommandPosition,
    /// The redirection that still needs its word.
    pub(crate) target: Option<Target>,
    /// Here-documents whose bodies follow the end of the line.
    pub(crate) here_documents: Vec<HereDocument>,
    /// Whether a command must follow, if necessary on the next line.
    pub(crate) waits_for_more: bool,
    pub(crate) before: Before,
    /// Words of a condition since its last `&&`, `||` or parenthesis: after an operand
    /// and an operator a parenthesis belongs to a pattern.
    pub(crate) condition_words: u32,
}

/// The last token, if it matters for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Before {
    #[default]
    Other,
    /// The end of a condition (`]]`, `))`, `)`): `{` begins the body.
    ConditionEnd,
    /// A command's name: `()` makes it a function's.
    CommandName,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Self {
        Lexer {
            text,
            bytes: text.as_bytes(),
            at: 0,
            frames: Vec::new(),
            list: List::default(),
            depth: 0,
            parentheses: 0,
            substitutions: 0,
            look_ahead: Lookahead::new(text.len()),
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

    /// Adds an operator of this many bytes.
    fn operator(&mut self, kind: TokenKind, length: usize) {
        let start = self.at;
        self.at = (start + length).min(self.bytes.len());
        self.add(kind, start..self.at);
    }

    pub(super) fn add(&mut self, kind: TokenKind, span: Range<usize>) {
        if !matches!(kind, TokenKind::Comment | TokenKind::HereDocument) {
            self.list.waits_for_more = false;
            self.list.before = Before::Other;
        }
        if self.substitutions == 0 {
            self.lexed.tokens.push(Token { kind, span, depth: self.depth });
        }
    }

    pub(super) fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }
}

impl Lexer<'_> {
    fn run(&mut self) {
        while self.at < self.bytes.len() {
            match self.frames.last() {
                Some(Frame::Word(word)) => self.word(*word),
                Some(Frame::DoubleQuote) => self.double_quote(),
                Some(Frame::Parameter { is_quoted, braces }) => self.parameter(*is_quoted, *braces),
                _ => self.between(),
            }
        }
        self.finish();
    }

    /// Ends the outermost unfinished word at the end of the text.
    fn finish(&mut self) {
        let outermost = self.frames.iter().find_map(|frame| match frame {
            Frame::Word(word) => Some(word.start),
            _ => None,
        });
        let Some(start) = outermost else { return };
        while let Some(frame) = self.pop() {
            match frame {
                Frame::Substitution { inside, outer } => {
                    self.substituted(inside, self.at);
                    self.list = outer;
                }
                Frame::Word(word) if word.start == start => break,
                _ => {}
            }
        }
        self.finish_word(start);
    }

    fn between(&mut self) {
        self.skip_blanks();
        let Some(byte) = self.peek(0) else { return };
        self.settle_branches();
        match byte {
            b'\n' => self.newline(),
            b'#' => self.comment(),
            b'\\' if self.peek(1) == Some(b'\n') => self.at += 2,
            b'(' => self.open(),
            b')' => self.close(),
            b';' | b'&' | b'|' if self.list.place == CommandPosition::Condition => {
                self.condition_operator()
            }
            b'&' if self.peek(1) == Some(b'>') => self.redirection(0),
            b';' | b'&' | b'|' => self.separator(byte),
            b'<' | b'>' => self.angle(),
            b'0'..=b'9'
                if matches!(self.peek(1), Some(b'<' | b'>')) && self.peek(2) != Some(b'(') =>
            {
                self.redirection(1);
            }
            b'{' => self.brace(),
            b'=' if self.peek(1) == Some(b'(') => {
                self.begin_word();
                self.substitute(2);
            }
            _ => self.begin_word(),
        }
    }

    fn skip_blanks(&mut self) {
        let start = self.at;
        while matches!(self.peek(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        if self.at > start {
            self.lexed.blanks.push(start..self.at);
        }
    }

    /// After `if … { … }` only `else` and `elif` continue the same `if`.
    fn settle_branches(&mut self) {
        let Some(Frame::If(Branches::BraceClosed)) = self.frames.last() else {
            return;
        };
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !(rest.starts_with(b"else") || rest.starts_with(b"elif")) {
            self.pop();
        }
    }

    fn newline(&mut self) {
        if !(self.list.waits_for_more || self.list.place.ignores_newlines()) {
            self.end_command(Separator::Newline, 1);
        } else {
            self.at += 1;
        }
        for here_document in std::mem::take(&mut self.list.here_documents) {
            let start = self.at;
            self.at = here_document.end(self.text, start);
            if self.at > start {
                self.add(TokenKind::HereDocument, start..self.at);
            }
            // The line end belongs to the delimiter if another body follows.
            if self.peek(0) == Some(b'\n') {
                self.at += 1;
            }
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        self.at = start + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.add(TokenKind::Comment, start..self.at);
    }

    fn separator(&mut self, byte: u8) {
        let (separator, length) = match (byte, self.peek(1)) {
            (b';', Some(b';' | b'&' | b'|')) => (Separator::CaseEnd, 2),
            (b';', _) => (Separator::Semicolon, 1),
            (b'&', Some(b'&')) => (Separator::And, 2),
            (b'&', Some(b'|' | b'!')) => (Separator::Disown, 2),
            (b'&', _) => (Separator::Background, 1),
            (_, Some(b'|')) => (Separator::Or, 2),
            (_, Some(b'&')) => (Separator::PipeBoth, 2),
            _ => (Separator::Pipe, 1),
        };
        if self.list.place == CommandPosition::CasePattern && separator == Separator::Pipe {
            return self.operator(TokenKind::PatternOperator, 1);
        }
        self.end_command(separator, length);
    }

    fn end_command(&mut self, separator: Separator, length: usize) {
        if !separator.waits_for_more() {
            self.close_short_loops();
        }
        self.operator(TokenKind::Separator(separator), length);
        self.list.waits_for_more = separator.waits_for_more();
        let in_case = matches!(self.frames.last(), Some(Frame::Case));
        self.list.place = if separator == Separator::CaseEnd && in_case {
            CommandPosition::CasePattern
        } else {
            CommandPosition::Command
        };
    }

    fn condition_operator(&mut self) {
        let doubled = self.peek(1) == self.peek(0);
        self.operator(TokenKind::ConditionOperator, if doubled { 2 } else { 1 });
        self.list.condition_words = 0;
    }

    fn angle(&mut self) {
        let is_range =
            self.peek(0) == Some(b'<') && number_range_end(self.bytes, self.at).is_some();
        if self.peek(1) == Some(b'(') || is_range {
            self.begin_word();
        } else if self.list.place == CommandPosition::Condition {
            self.operator(TokenKind::ConditionOperator, 1);
            self.list.condition_words += 1;
        } else {
            self.redirection(0);
        }
    }

    /// Reads a redirection after `prefix` bytes of its descriptor.
    fn redirection(&mut self, prefix: usize) {
        const OPERATORS: &[&str] = &[
            "&>>|", "&>>!", "&>>", "&>|", "&>!", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>&|",
            ">>&!", ">>&", ">>|", ">>!", ">>", ">&|", ">&!", ">&", ">|", ">!", ">",
        ];
        let rest = self.text.get(self.at + prefix..).unwrap_or_default();
        let operator = OPERATORS
            .iter()
            .find(|operator| rest.starts_with(**operator))
            .copied()
            .unwrap_or_default();
        let start = self.at;
        self.at += prefix + operator.len().max(1);
        self.add(TokenKind::Redirection, start..self.at);
        self.list.target = Some(match operator {
            "<<" => Target::Delimiter { strips_tabs: false },
            "<<-" => Target::Delimiter { strips_tabs: true },
            _ => Target::Plain,
        });
    }

    fn brace(&mut self) {
        if matches!(self.list.place, CommandPosition::Command | CommandPosition::FunctionName)
            && self.list.target.is_none()
        {
            self.list.place = CommandPosition::Command;
            return self.reserved(Reserved::BraceOpen, self.at..self.at + 1);
        }
        match self.descriptor_name() {
            Some(length) => self.redirection(length),
            None => self.begin_word(),
        }
    }

    /// The length of `{name}` before a redirection.
    fn descriptor_name(&self) -> Option<usize> {
        let rest = self.bytes.get(self.at + 1..)?;
        let name =
            rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let is_one = name > 0
            && rest.get(name) == Some(&b'}')
            && matches!(rest.get(name + 1), Some(b'<' | b'>'));
        is_one.then_some(name + 2)
    }

    fn open(&mut self) {
        match self.list.place {
            CommandPosition::Condition if self.list.condition_words < 2 => {
                self.operator(TokenKind::ConditionOperator, 1);
            }
            CommandPosition::Command | CommandPosition::FunctionName
                if self.peek(1) == Some(b')') =>
            {
                self.operator(TokenKind::FunctionParens, 2);
                self.list.place = CommandPosition::Command;
            }
            CommandPosition::Argument
                if self.peek(1) == Some(b')') && self.list.before == Before::CommandName =>
            {
                self.rename_function();
                self.operator(TokenKind::FunctionParens, 2);
                self.list.place = CommandPosition::Command;
            }
            CommandPosition::Command | CommandPosition::LoopName if self.peek(1) == Some(b'(') => {
                self.open_two()
            }
            CommandPosition::LoopName => {
                self.operator(TokenKind::ListParen, 1);
                self.list.place = CommandPosition::LoopList;
            }
            CommandPosition::Command | CommandPosition::FunctionName
                if self.list.target.is_none() =>
            {
                self.subshell()
            }
            _ => self.begin_word(),
        }
    }

    /// `name ()`: the previous word was a function's name, not a command's.
    fn rename_function(&mut self) {
        if self.substitutions > 0 {
            return;
        }
        if let Some(name) = self.lexed.tokens.last_mut() {
            name.kind = TokenKind::Word(WordRole::FunctionName);
        }
    }

    fn open_two(&mut self) {
        match self.look_ahead.arithmetic_end(self.bytes, self.at + 2) {
            Some(end) => {
                self.begin_command();
                self.operator(TokenKind::Arithmetic, end - self.at);
                self.list.place = CommandPosition::Command;
                self.list.before = Before::ConditionEnd;
            }
            None => self.subshell(),
        }
    }

    fn subshell(&mut self) {
        self.begin_command();
        self.operator(TokenKind::Open, 1);
        self.push(Frame::Subshell);
        self.list.place = CommandPosition::Command;
    }

    fn close(&mut self) {
        match (self.list.place, self.frames.last()) {
            (CommandPosition::Condition, _) => {
                self.operator(TokenKind::ConditionOperator, 1);
                self.list.condition_words = 0;
            }
            (CommandPosition::CasePattern, _) => {
                self.operator(TokenKind::PatternOperator, 1);
                self.list.place = CommandPosition::Command;
            }
            (CommandPosition::LoopList, _) => {
                self.operator(TokenKind::ListParen, 1);
                self.list.place = CommandPosition::Command;
            }
            (_, Some(Frame::Array { after })) => {
                self.list.place = *after;
                self.pop();
                self.operator(TokenKind::ArrayClose, 1);
            }
            _ => self.close_parenthesis(),
        }
    }

    fn close_parenthesis(&mut self) {
        // Without an opening parenthesis, it is a separate token.
        if self.parentheses > 0 {
            while let Some(frame) = self.pop() {
                if let Frame::Substitution { inside, outer } = frame {
                    self.substituted(inside, self.at);
                    self.list = outer;
                    self.at += 1;
                    return;
                }
                if matches!(frame, Frame::Subshell) {
                    break;
                }
            }
        }
        self.operator(TokenKind::Close, 1);
        self.list.place = CommandPosition::Command;
        self.list.before = Before::ConditionEnd;
    }

    // Reserved words, and the compound commands that they open and close.

    pub(super) fn reserved(&mut self, word: Reserved, span: Range<usize>) {
        let end = span.end;
        let was_closed = self.list.before == Before::ConditionEnd;
        match word {
            Reserved::Fi | Reserved::Done | Reserved::End | Reserved::BraceClose => {
                self.close_short_loops();
                self.close_compound(word);
                self.add(TokenKind::Reserved(word), span);
            }
            Reserved::Esac | Reserved::ConditionClose => {
                self.close_compound(word);
                self.add(TokenKind::Reserved(word), span);
            }
            Reserved::BraceOpen => {
                let is_body = self.is_body(was_closed);
                if !is_body {
                    self.begin_command();
                }
                self.add(TokenKind::Reserved(word), span);
                self.push(Frame::Brace { is_body });
            }
            _ => {
                let opened = opens(word);
                if opened.is_some() {
                    self.begin_command();
                }
                self.add(TokenKind::Reserved(word), span);
                if let Some(frame) = opened {
                    self.push(frame);
                }
            }
        }
        self.at = end;
        self.list.waits_for_more = false;
        self.list.condition_words = 0;
        self.list.before = match word {
            Reserved::ConditionClose => Before::ConditionEnd,
            _ => Before::Other,
        };
        self.list.place = match self.list.place {
            CommandPosition::CaseIn => CommandPosition::CasePattern,
            _ => position_after(word),
        };
        match (word, self.frames.last_mut()) {
            (Reserved::Do, Some(Frame::Loop(_, stage))) => *stage = Stage::Body,
            (Reserved::Else | Reserved::Elif, Some(Frame::If(branches)))
                if *branches == Branches::BraceClosed =>
            {
                *branches = Branches::Braces;
            }
            _ => {}
        }
    }

    /// Whether `{` here begins the body of a loop or a branch.
    fn is_body(&self, is_condition_closed: bool) -> bool {
        match self.frames.last() {
            Some(Frame::Loop(LoopKind::Condition, Stage::Head)) => is_condition_closed,
            Some(Frame::Loop(_, Stage::Head)) => true,
            Some(Frame::If(Branches::Words)) => is_condition_closed,
            Some(Frame::If(_)) => true,
            _ => false,
        }
    }

    /// Closes the innermost frame, if this word closes it.
    fn close_compound(&mut self, word: Reserved) {
        let Some(frame) = self.frames.last() else {
            return;
        };
        let is_body = match (word, frame) {
            (Reserved::BraceClose, Frame::Brace { is_body }) => *is_body,
            (Reserved::Fi, Frame::If(_))
            | (Reserved::Done, Frame::Loop(_, Stage::Body))
            | (Reserved::End, Frame::Loop(LoopKind::Foreach, _))
            | (Reserved::Esac, Frame::Case)
            | (Reserved::ConditionClose, Frame::Condition) => false,
            _ => return,
        };
        self.pop();
        if !is_body {
            return;
        }
        match self.frames.last_mut() {
            Some(Frame::If(branches)) => *branches = Branches::BraceClosed,
            Some(Frame::Loop(..)) => {
                self.pop();
            }
            _ => {}
        }
    }

    /// Records the start of a command: after the head of a `for` it is the whole body.
    pub(super) fn begin_command(&mut self) {
        if let Some(Frame::Loop(kind, stage @ Stage::Head)) = self.frames.last_mut() {
            match kind {
                LoopKind::Condition => {}
                LoopKind::Counted => *stage = Stage::Short,
                LoopKind::Foreach => *stage = Stage::Body,
            }
        }
    }

    fn close_short_loops(&mut self) {
        while let Some(Frame::Loop(_, Stage::Short) | Frame::If(Branches::BraceClosed)) =
            self.frames.last()
        {
            self.pop();
        }
    }
}

/// The frame that a reserved word other than a brace opens.
fn opens(word: Reserved) -> Option<Frame> {
    Some(match word {
        Reserved::If => Frame::If(Branches::Words),
        Reserved::While | Reserved::Until => Frame::Loop(LoopKind::Condition, Stage::Head),
        Reserved::For | Reserved::Select | Reserved::Repeat => {
            Frame::Loop(LoopKind::Counted, Stage::Head)
        }
        Reserved::Foreach => Frame::Loop(LoopKind::Foreach, Stage::Head),
        Reserved::Case => Frame::Case,
        Reserved::ConditionOpen => Frame::Condition,
        _ => return None,
    })
}

/// What may follow a reserved word. Assumes that `in` belongs to a loop.
fn position_after(word: Reserved) -> CommandPosition {
    match word {
        Reserved::For | Reserved::Foreach | Reserved::Select => CommandPosition::LoopName,
        Reserved::Repeat => CommandPosition::RepeatCount,
        Reserved::Case => CommandPosition::CaseSubject,
        Reserved::ConditionOpen => CommandPosition::Condition,
        Reserved::Function => CommandPosition::FunctionName,
        Reserved::In => CommandPosition::LoopWords,
        _ => CommandPosition::Command,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::shell::command_line::CommandLine;
    use crate::shell::lint::lints;
    use crate::shell::normalise::{hash, normalise};
    use crate::shell::ssh::ssh_of_segment;
    use crate::shell::syntax::{failing_command, last_pipeline_segments, reported_segments};
    use crate::shell::template::{MAX_TEMPLATE, template};
    use crate::shell::token::Token;

    /// Random sequences of parts of command lines.
    const PIECES: &[&str] = &[
        "a", "echo", "é", "日", " ", "  ", "\t", "\n", "\\", "\\\n", "'", "\"", "$'", "`", "$",
        "$(", "$((", "${", "$[", "<(", ">(", "=(", "(", ")", "((", "))", "{", "}", "[", "]", "[[",
        "]]", "<<E", "<<-'E'", "<<<", "E", "\nE\n", "<", ">", "2>&1", "&>", ">|", "{fd}>", "<1-2>",
        ";", ";;", ";&", "&", "&&", "|", "||", "|&", "&!", "#", "!", "time", "if", "then", "else",
        "elif", "fi", "while", "until", "for", "foreach", "end", "select", "repeat", "in", "do",
        "done", "case", "esac", "function", "f()", "a=", "a=(", "a+=(", "a[1]=", "export ",
        "always", "coproc", "-x", "--y=z", "git ", "push ", "python ", "-c ", "ssh ", "sudo ",
    ];

    fn glued() -> impl Strategy<Value = String> {
        proptest::collection::vec(proptest::sample::select(PIECES), 0..40)
            .prop_map(|pieces| pieces.concat())
    }

    /// All results computed from a command.
    fn analyse(text: &str) -> (Lexed, String, String, usize) {
        let segments = last_pipeline_segments(&CommandLine::parse(text)).len()
            + reported_segments(&CommandLine::parse(text), 2).len();
        failing_command(&CommandLine::parse(text), &[0, 1]);
        for lint in lints(&CommandLine::parse(text), false) {
            assert!(!lint.to_string().is_empty());
        }
        ssh_of_segment(&CommandLine::parse(text));
        (lex(text), template(&CommandLine::parse(text)), hash(&CommandLine::parse(text)), segments)
    }

    fn check(text: &str) {
        let (lexed, template, _, _) = analyse(text);
        let mut end = 0;
        for Token { span, .. } in &lexed.tokens {
            assert!(end <= span.start && span.start < span.end, "{text:?}: {span:?}");
            assert!(text.get(span.clone()).is_some(), "{text:?}: {span:?}");
            end = span.end;
        }
        for span in lexed.substitutions.iter().chain(&lexed.blanks) {
            assert!(text.get(span.clone()).is_some(), "{text:?}: {span:?}");
        }
        assert!(template.chars().count() <= MAX_TEMPLATE);
        assert_eq!(analyse(text), analyse(text), "{text:?}");
        let normal = normalise(&CommandLine::parse(text));
        assert_eq!(normalise(&CommandLine::parse(&normal)), normal, "{text:?}");
    }

    proptest! {
        #[test]
        fn any_text_can_be_analysed(text in "\\PC{0,60}") {
            check(&text);
        }

        #[test]
        fn any_command_like_text_can_be_analysed(text in glued()) {
            check(&text);
        }

        #[test]
        fn only_blanks_and_line_continuations_separate_tokens(text in glued()) {
            let mut at = 0;
            for Token { span, .. } in lex(&text).tokens {
                let between = text[at..span.start].replace("\\\n", "");
                prop_assert!(between.trim().is_empty(), "{text:?}: {between:?}");
                at = span.end;
            }
            let rest = text[at..].replace("\\\n", "");
            prop_assert!(rest.trim().is_empty(), "{text:?}: {rest:?}");
        }
    }

    #[test]
    fn repetitive_text_is_read_in_linear_time() {
        const LENGTH: usize = 1 << 16;
        let mut pieces: Vec<String> = PIECES.iter().map(|piece| (*piece).to_owned()).collect();
        pieces.extend(
            [
                "a ",
                "a;",
                "(a",
                "a|",
                "$(a ",
                "\"$(",
                "\"${",
                "${x:-",
                "a=(b ",
                "=()",
                "a[x=()",
                "if a; then ",
                "if [[ a ]] {",
                "for x (a) ",
                "case x in (",
                "case x in a) ",
                "f() {",
                "<<E ",
                "<<E\n",
                "[[ ( ",
                "((1",
                "$((1)",
                "$(((",
                "`a",
                "\\`",
                "{ a;",
                "sudo ",
                "timeout 1 ",
                "a\\\n",
                "# a\n",
                ") ",
                "} ",
                "esac ",
                "fi ",
            ]
            .map(str::to_owned),
        );
        for piece in pieces {
            let time = |length: usize| {
                let text = piece.repeat(length / piece.len());
                let start = Instant::now();
                analyse(&text);
                start.elapsed()
            };
            let (small, large) = (time(LENGTH / 8), time(LENGTH));
            // Eight times the text: linear takes eight times as long, quadratic 64 times.
            assert!(
                large < small * 32 + Duration::from_secs(2),
                "{piece:?}: {small:?} for an eighth, {large:?} for all"
            );
        }
    }
}
