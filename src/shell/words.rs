//! Reads the inside of words (quotes, expansions, patterns) and determines the purpose of a
//! finished word. Pure.

use super::lexer::{Before, CommandPosition, Frame, Lexer, Target, Word};
use super::scan::{
    HereDocument, after_escape, assignment_value, bracket_end, escaped_end, number_range_end,
    single_quoted_end,
};
use super::token::{Reserved, TokenKind, WordRole};
use super::unquote::unquote;

/// Builtins whose arguments may be assignments, including arrays.
const DECLARATIONS: &[&str] =
    &["declare", "export", "float", "integer", "local", "readonly", "typeset"];

impl Lexer<'_> {
    pub(super) fn begin_word(&mut self) {
        self.frames.push(Frame::Word(Word {
            start: self.at,
            parentheses: 0,
            had_parentheses: false,
            braces: 0,
        }));
    }

    /// Reads the unquoted parts of a word, up to its end or to a part with its own frame.
    pub(super) fn word(&mut self, mut word: Word) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.at = after_escape(self.bytes, self.at),
                b'\'' => self.at = single_quoted_end(self.bytes, self.at + 1),
                b'`' => self.at = escaped_end(self.bytes, self.at + 1, b'`'),
                b'"' | b'$' => {
                    self.set_word(word);
                    if self.expansion(byte, false) {
                        return;
                    }
                }
                b'<' | b'>' if self.peek(1) == Some(b'(') => {
                    self.set_word(word);
                    return self.substitute(2);
                }
                b'<' | b'>' => match number_range_end(self.bytes, self.at) {
                    Some(end) if byte == b'<' => self.at = end,
                    _ if word.parentheses > 0 => self.at += 1,
                    _ => return self.end_word(word),
                },
                b'(' if self.opens_array(word) => return self.open_array(word),
                b'(' if self.is_function(word) => return self.end_word(word),
                b'(' => {
                    word.parentheses = word.parentheses.saturating_add(1);
                    word.had_parentheses = true;
                    self.at += 1;
                }
                b')' if word.parentheses > 0 => {
                    word.parentheses -= 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'|' if word.parentheses > 0 => self.at += 1,
                b' ' | b'\t' | b'|' | b'\n' | b';' | b'&' | b')' => return self.end_word(word),
                b'}' if self.is_closing_brace(word) => return self.end_word(word),
                b'{' => {
                    word.braces = word.braces.saturating_add(1);
                    self.at += 1;
                }
                b'}' => {
                    word.braces = word.braces.saturating_sub(1);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        self.set_word(word);
    }

    fn set_word(&mut self, word: Word) {
        if let Some(Frame::Word(open)) = self.frames.last_mut() {
            *open = word;
        }
    }

    /// Whether the word is `name` of `name()`.
    fn is_function(&self, word: Word) -> bool {
        word.parentheses == 0
            && self.at > word.start
            && matches!(self.list.place, CommandPosition::Command | CommandPosition::FunctionName)
            && self.peek(1) == Some(b')')
    }

    fn opens_array(&self, word: Word) -> bool {
        let is_candidate = !word.had_parentheses
            && self.list.place.may_assign()
            && self.list.target.is_none()
            && self.at > word.start
            && self.bytes.get(self.at - 1) == Some(&b'=');
        let name = self.text.get(word.start..self.at).unwrap_or_default();
        is_candidate && assignment_value(name) == Some(name.len())
    }

    fn open_array(&mut self, word: Word) {
        self.pop();
        self.at += 1;
        self.add(TokenKind::ArrayOpen, word.start..self.at);
        let after = match self.list.place {
            CommandPosition::Declaration => CommandPosition::Declaration,
            _ => CommandPosition::Assigned,
        };
        self.push(Frame::Array { after });
        self.list.place = CommandPosition::Array;
    }

    /// Whether this `}` ends the word without a `{` in it, as in `{echo a}`.
    fn is_closing_brace(&self, word: Word) -> bool {
        word.braces == 0
            && word.parentheses == 0
            && self.at > word.start
            && matches!(self.peek(1), None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')'))
    }

    pub(super) fn double_quote(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.at = after_escape(self.bytes, self.at),
                b'`' => self.at = escaped_end(self.bytes, self.at + 1, b'`'),
                b'"' => {
                    self.at += 1;
                    self.pop();
                    return;
                }
                b'$' => {
                    if self.expansion(byte, true) {
                        return;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    pub(super) fn parameter(&mut self, is_quoted: bool, mut braces: u32) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.at = after_escape(self.bytes, self.at),
                b'`' => self.at = escaped_end(self.bytes, self.at + 1, b'`'),
                b'\'' if !is_quoted => self.at = single_quoted_end(self.bytes, self.at + 1),
                b'{' if !is_quoted => {
                    braces = braces.saturating_add(1);
                    self.at += 1;
                }
                b'}' if braces > 0 => {
                    braces -= 1;
                    self.at += 1;
                }
                b'}' => {
                    self.at += 1;
                    self.pop();
                    return;
                }
                b'"' | b'$' => {
                    if let Some(Frame::Parameter { braces: open, .. }) = self.frames.last_mut() {
                        *open = braces;
                    }
                    if self.expansion(byte, is_quoted) {
                        return;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// Reads the construct that `"` or `$` begins within a word. Returns whether it opened a frame.
    fn expansion(&mut self, byte: u8, is_quoted: bool) -> bool {
        if byte == b'"' {
            self.at += 1;
            self.push(Frame::DoubleQuote);
            return true;
        }
        match self.peek(1) {
            Some(b'\'') if !is_quoted => self.at = escaped_end(self.bytes, self.at + 2, b'\''),
            Some(b'{') => {
                self.at += 2;
                self.push(Frame::Parameter { is_quoted, braces: 0 });
                return true;
            }
            Some(b'[') => self.at = bracket_end(self.bytes, self.at + 2),
            Some(b'(') => {
                let arithmetic = match self.peek(2) {
                    Some(b'(') => self.look_ahead.arithmetic_end(self.bytes, self.at + 3),
                    _ => None,
                };
                match arithmetic {
                    Some(end) => self.at = end,
                    None => {
                        self.substitute(2);
                        return true;
                    }
                }
            }
            _ => self.at += 1,
        }
        false
    }

    pub(super) fn substitute(&mut self, length: usize) {
        self.at += length;
        let outer = std::mem::take(&mut self.list);
        self.push(Frame::Substitution { inside: self.at, outer });
    }

    pub(super) fn substituted(&mut self, inside: usize, end: usize) {
        if self.substitutions == 0 {
            self.lexed.substitutions.push(inside..end);
        }
    }

    fn end_word(&mut self, word: Word) {
        self.pop();
        self.finish_word(word.start);
    }

    /// Records the word that ends here, with its purpose.
    pub(super) fn finish_word(&mut self, start: usize) {
        let span = start..self.at;
        let text = self.text.get(span.clone()).unwrap_or_default();
        if let Some(target) = self.list.target.take() {
            if let Target::Delimiter { strips_tabs } = target {
                self.list
                    .here_documents
                    .push(HereDocument { delimiter: unquote(text).text, strips_tabs });
            }
            return self.add(TokenKind::Word(WordRole::Target), span);
        }
        let place = self.list.place;
        if let Some(word) = self.reserved_at(place, text) {
            return self.reserved(word, span);
        }
        let is_assignment = place.may_assign() && assignment_value(text).is_some();
        let (kind, next) = match place {
            CommandPosition::Declaration if is_assignment => (TokenKind::Assignment, place),
            _ if is_assignment => (TokenKind::Assignment, CommandPosition::Assigned),
            CommandPosition::Command if self.peek(0) == Some(b'(') => {
                (TokenKind::Word(WordRole::FunctionName), CommandPosition::Command)
            }
            CommandPosition::Command | CommandPosition::Assigned
                if DECLARATIONS.contains(&text) =>
            {
                (TokenKind::Word(WordRole::Command), CommandPosition::Declaration)
            }
            CommandPosition::Command | CommandPosition::Assigned => {
                (TokenKind::Word(WordRole::Command), CommandPosition::Argument)
            }
            CommandPosition::Argument | CommandPosition::Declaration => {
                (TokenKind::Word(WordRole::Argument), place)
            }
            CommandPosition::LoopName => (TokenKind::Word(WordRole::LoopName), place),
            CommandPosition::LoopWords | CommandPosition::LoopList => {
                (TokenKind::Word(WordRole::LoopWord), place)
            }
            CommandPosition::RepeatCount => {
                (TokenKind::Word(WordRole::LoopWord), CommandPosition::Command)
            }
            CommandPosition::CaseSubject => {
                (TokenKind::Word(WordRole::CaseSubject), CommandPosition::CaseIn)
            }
            CommandPosition::CaseIn | CommandPosition::CasePattern => {
                (TokenKind::Word(WordRole::Pattern), self.after_pattern(text))
            }
            CommandPosition::FunctionName => (TokenKind::Word(WordRole::FunctionName), place),
            CommandPosition::Condition => (TokenKind::Word(WordRole::Condition), place),
            CommandPosition::Array => (TokenKind::Word(WordRole::Element), place),
        };
        if matches!(place, CommandPosition::Command) {
            self.begin_command();
        }
        self.add(kind, span);
        self.list.place = next;
        self.list.condition_words = match place {
            CommandPosition::Condition => self.list.condition_words.saturating_add(1),
            _ => 0,
        };
        if kind == TokenKind::Word(WordRole::Command) {
            self.list.before = Before::CommandName;
        }
    }

    fn reserved_at(&self, place: CommandPosition, text: &str) -> Option<Reserved> {
        match (place, text) {
            (CommandPosition::Command, _) => Reserved::at_command(text),
            (CommandPosition::Argument, "}") => {
                matches!(self.frames.last(), Some(Frame::Brace { .. }))
                    .then_some(Reserved::BraceClose)
            }
            (CommandPosition::LoopName | CommandPosition::CaseIn, "in") => Some(Reserved::In),
            (CommandPosition::CasePattern, "esac") => Some(Reserved::Esac),
            (CommandPosition::Condition, "]]") => Some(Reserved::ConditionClose),
            _ => None,
        }
    }

    /// `(a|b)` may be a whole pattern with both parentheses, or only its beginning, which `)` then
    /// follows.
    fn after_pattern(&self, pattern: &str) -> CommandPosition {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let next = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
        if pattern.starts_with('(') && !matches!(next, Some(b')' | b'|')) {
            CommandPosition::Command
        } else {
            CommandPosition::CasePattern
        }
    }
}
