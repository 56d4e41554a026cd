//! Command lines as zsh reads them: words with their quotes and substitutions, operators,
//! reserved words where they are ones, here-documents, comments.
//!
//! The lexer follows just as much grammar as it takes to know what a word is for: after
//! `for x (` stands a list, after `echo (` a pattern. A substitution is a part of its
//! word; what is in it is read by the same rules, so that a `)` in a pattern, a comment or
//! a here-document of its does not end it.
//!
//! It takes any text: what never closes reaches to the end, what closes nothing stands
//! alone. It is linear in the text's length, and nesting takes memory, not stack.
//!
//! Limits: aliases and options are not known (zsh's defaults for scripts apply), backticks
//! are not looked into, and nothing says whether zsh would accept the text.

use super::frame::{Before, Branches, Frame, Place, Target};
use super::reader::{Lexed, Reader};
use super::scan::number_range_end;
use super::token::{Kind, Reserved, Role, Separator};

/// Reads a command line.
pub fn lex(text: &str) -> Lexed {
    let mut reader = Reader::new(text);
    reader.run();
    reader.lexed
}

impl Reader<'_> {
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

    /// At the end of the text: the outermost open word reaches up to it.
    fn finish(&mut self) {
        let outermost = self.frames.iter().find_map(|frame| match frame {
            Frame::Word(word) => Some(word.start),
            _ => None,
        });
        let Some(start) = outermost else { return };
        while let Some(frame) = self.pop() {
            match frame {
                Frame::Substitution { inside, around } => {
                    self.substituted(inside, self.at);
                    self.list = around;
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
            b';' | b'&' | b'|' if self.list.place == Place::Condition => self.condition_operator(),
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

    /// After `if … { … }` only `else` and `elif` go on with the same `if`.
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
                self.note(Kind::HereDocument, start..self.at);
            }
            // The line's end belongs to the delimiter where another body follows.
            if self.peek(0) == Some(b'\n') {
                self.at += 1;
            }
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        self.at = start + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.note(Kind::Comment, start..self.at);
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
        if self.list.place == Place::CasePattern && separator == Separator::Pipe {
            return self.operator(Kind::PatternOperator, 1);
        }
        self.end_command(separator, length);
    }

    fn end_command(&mut self, separator: Separator, length: usize) {
        if !separator.waits_for_more() {
            self.close_short_loops();
        }
        self.operator(Kind::Separator(separator), length);
        self.list.waits_for_more = separator.waits_for_more();
        let in_case = matches!(self.frames.last(), Some(Frame::Case));
        self.list.place = if separator == Separator::CaseEnd && in_case {
            Place::CasePattern
        } else {
            Place::Command
        };
    }

    fn condition_operator(&mut self) {
        let doubled = self.peek(1) == self.peek(0);
        self.operator(Kind::ConditionOperator, if doubled { 2 } else { 1 });
        self.list.condition_words = 0;
    }

    fn angle(&mut self) {
        let is_range =
            self.peek(0) == Some(b'<') && number_range_end(self.bytes, self.at).is_some();
        if self.peek(1) == Some(b'(') || is_range {
            self.begin_word();
        } else if self.list.place == Place::Condition {
            self.operator(Kind::ConditionOperator, 1);
            self.list.condition_words += 1;
        } else {
            self.redirection(0);
        }
    }

    /// A redirection behind `prefix` bytes of its descriptor.
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
        self.note(Kind::Redirection, start..self.at);
        self.list.target = Some(match operator {
            "<<" => Target::Delimiter { strips_tabs: false },
            "<<-" => Target::Delimiter { strips_tabs: true },
            _ => Target::Plain,
        });
    }

    fn brace(&mut self) {
        if matches!(self.list.place, Place::Command | Place::FunctionName)
            && self.list.target.is_none()
        {
            self.list.place = Place::Command;
            return self.reserved(Reserved::BraceOpen, self.at..self.at + 1);
        }
        match self.descriptor_name() {
            Some(length) => self.redirection(length),
            None => self.begin_word(),
        }
    }

    /// The length of `{name}` in front of a redirection.
    fn descriptor_name(&self) -> Option<usize> {
        let rest = self.bytes.get(self.at + 1..)?;
        let name = rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        let is_one = name > 0
            && rest.get(name) == Some(&b'}')
            && matches!(rest.get(name + 1), Some(b'<' | b'>'));
        is_one.then_some(name + 2)
    }

    fn open(&mut self) {
        match self.list.place {
            Place::Condition if self.list.condition_words < 2 => {
                self.operator(Kind::ConditionOperator, 1);
            }
            Place::Command | Place::FunctionName if self.peek(1) == Some(b')') => {
                self.operator(Kind::FunctionParens, 2);
                self.list.place = Place::Command;
            }
            Place::Argument
                if self.peek(1) == Some(b')') && self.list.before == Before::CommandName =>
            {
                self.rename_function();
                self.operator(Kind::FunctionParens, 2);
                self.list.place = Place::Command;
            }
            Place::Command | Place::LoopName if self.peek(1) == Some(b'(') => self.open_two(),
            Place::LoopName => {
                self.operator(Kind::ListParen, 1);
                self.list.place = Place::LoopList;
            }
            Place::Command | Place::FunctionName if self.list.target.is_none() => self.subshell(),
            _ => self.begin_word(),
        }
    }

    /// `name ()`: what looked like a command's name is a function's.
    fn rename_function(&mut self) {
        if self.substitutions > 0 {
            return;
        }
        if let Some(name) = self.lexed.tokens.last_mut() {
            name.kind = Kind::Word(Role::FunctionName);
        }
    }

    fn open_two(&mut self) {
        match self.look_ahead.arithmetic_end(self.bytes, self.at + 2) {
            Some(end) => {
                self.begin_command();
                self.operator(Kind::Arithmetic, end - self.at);
                self.list.place = Place::Command;
                self.list.before = Before::ConditionEnd;
            }
            None => self.subshell(),
        }
    }

    fn subshell(&mut self) {
        self.begin_command();
        self.operator(Kind::Open, 1);
        self.push(Frame::Subshell);
        self.list.place = Place::Command;
    }

    fn close(&mut self) {
        match (self.list.place, self.frames.last()) {
            (Place::Condition, _) => {
                self.operator(Kind::ConditionOperator, 1);
                self.list.condition_words = 0;
            }
            (Place::CasePattern, _) => {
                self.operator(Kind::PatternOperator, 1);
                self.list.place = Place::Command;
            }
            (Place::LoopList, _) => {
                self.operator(Kind::ListParen, 1);
                self.list.place = Place::Command;
            }
            (_, Some(Frame::Array { after })) => {
                self.list.place = *after;
                self.pop();
                self.operator(Kind::ArrayClose, 1);
            }
            _ => self.close_parenthesis(),
        }
    }

    fn close_parenthesis(&mut self) {
        // Nothing that is open could be closed: it stands alone.
        if self.parentheses > 0 {
            while let Some(frame) = self.pop() {
                if let Frame::Substitution { inside, around } = frame {
                    self.substituted(inside, self.at);
                    self.list = around;
                    self.at += 1;
                    return;
                }
                if matches!(frame, Frame::Subshell) {
                    break;
                }
            }
        }
        self.operator(Kind::Close, 1);
        self.list.place = Place::Command;
        self.list.before = Before::ConditionEnd;
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::shell::lint::lints;
    use crate::shell::normalise::{hash, normalise};
    use crate::shell::ssh::ssh_of_segment;
    use crate::shell::syntax::{failing_command, last_pipeline_segments, reported_segments};
    use crate::shell::template::{LONGEST_TEMPLATE, template};
    use crate::shell::token::Token;

    /// What command lines are made of.
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

    /// Everything that is told of a command.
    fn tell(text: &str) -> (Lexed, String, String, usize) {
        let segments = last_pipeline_segments(text).len() + reported_segments(text, 2).len();
        failing_command(text, &[0, 1]);
        for lint in lints(text, false) {
            assert!(!lint.to_string().is_empty());
        }
        ssh_of_segment(text);
        (lex(text), template(text), hash(text), segments)
    }

    fn check(text: &str) {
        let (lexed, template, _, _) = tell(text);
        let mut end = 0;
        for Token { span, .. } in &lexed.tokens {
            assert!(
                end <= span.start && span.start < span.end,
                "{text:?}: {span:?}"
            );
            assert!(text.get(span.clone()).is_some(), "{text:?}: {span:?}");
            end = span.end;
        }
        for span in lexed.substitutions.iter().chain(&lexed.blanks) {
            assert!(text.get(span.clone()).is_some(), "{text:?}: {span:?}");
        }
        assert!(template.chars().count() <= LONGEST_TEMPLATE);
        assert_eq!(tell(text), tell(text), "{text:?}");
        let normal = normalise(text);
        assert_eq!(normalise(&normal), normal, "{text:?}");
    }

    proptest! {
        #[test]
        fn any_text_can_be_told_of(text in "\\PC{0,60}") {
            check(&text);
        }

        #[test]
        fn whatever_looks_like_a_command_can_be_told_of(text in glued()) {
            check(&text);
        }

        #[test]
        fn nothing_but_blanks_and_line_continuations_is_between_tokens(text in glued()) {
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
    fn whatever_repeats_is_read_in_linear_time() {
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
                tell(&text);
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
