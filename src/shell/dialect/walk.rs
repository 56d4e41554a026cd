//! Walks through a text in its order. Pure.

use std::collections::HashSet;

use super::Found;
use super::finder::{Finder, Spot, Unit, Use};
use super::names::special;
use super::values::{Value, Variables, changed_in, is_name, loop_value};
use super::{Sign, TrapKind};
use crate::shell::command_line::CommandLine;
use crate::shell::interpreters;
use crate::shell::options::is_listed;
use crate::shell::token::{Reserved, Separator, Token, TokenKind, WordRole};
use crate::shell::unquote::{Unquoted, unquote};

/// How deep substitutions within substitutions are read.
const LEVELS: usize = 4;

/// Commands that bash does not have.
const COMMANDS_OF_ZSH: &str = "\
    print integer float setopt unsetopt emulate zmodload autoload zparseopts zstyle whence bindkey \
    compdef noglob vared zcompile zle strftime functions limit sched zformat ztcp zselect zsystem";

/// Declares variables.
const DECLARATIONS: &str = "declare local typeset export readonly integer float";

/// Commands that are traps without any special character.
const PLAIN_TRAPS: &str = "\
    mapfile readarray shopt compgen help complete bind caller read type export declare local typeset wait \
    disown printf trap set hash enable alias unset history dirs jobs time . source eval";

/// Whether a text may hold a trap, by its bytes alone. It may for most texts that are not plain
/// words.
pub(super) fn may_hold_any(line: &CommandLine) -> bool {
    line.text().bytes().any(|byte| b"$*?[=~\\<>`".contains(&byte))
        || line.lexed().tokens.iter().any(|token| {
            token.kind == TokenKind::Word(WordRole::Command)
                && is_listed(line.written(&token.span), PLAIN_TRAPS)
        })
        || line.text().contains(";;&")
        || line.text().contains(" path")
        || line.text().contains(" status")
}

/// The traps of a text, and the functions that it defines.
pub(super) fn find<'a>(
    line: &'a CommandLine,
    is_set: &'a dyn Fn(&str) -> bool,
) -> (Vec<Found>, HashSet<String>) {
    let text = line.text();
    let finder = Finder {
        found: Vec::new(),
        variables: Variables::default(),
        defined: HashSet::new(),
        nested: Vec::new(),
        text,
        is_for_zsh: false,
        uses_positional: ["$@", "$*", "$#", "$1", "${1"].iter().any(|sign| text.contains(sign)),
        is_set,
    };
    let mut walk = Walk { finder };
    walk.line(line, Place { first_line: 1, depth: 0, is_inner: false, is_script: false });
    let Finder { mut found, is_for_zsh, defined, .. } = walk.finder;
    if is_for_zsh {
        found.retain(|it| it.sign != Sign::None);
        found.iter_mut().for_each(|it| it.is_certain = false);
    }
    (found, defined)
}

/// Where a text is that is walked through.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The number of its first line.
    first_line: usize,
    depth: usize,
    /// Whether it runs in a subshell.
    is_inner: bool,
    /// Whether it is within quotes, as for `eval`.
    is_script: bool,
}

struct Walk<'a> {
    finder: Finder<'a>,
}

impl Walk<'_> {
    fn line(&mut self, line: &CommandLine, place: Place) {
        let tokens = &line.lexed().tokens;
        let begins = |token: &&Token| token.kind == TokenKind::Word(WordRole::Command);
        let last_command = tokens.iter().rfind(begins).map_or(0, |token| token.span.start);
        let mut unit = Unit::default();
        let mut array: Option<(String, bool)> = None;
        let mut loop_names: Vec<(&str, usize)> = Vec::new();
        let mut loop_words: Vec<&str> = Vec::new();
        let mut condition: Vec<&str> = Vec::new();
        let mut subshells: Vec<usize> = Vec::new();
        // Where the open compound commands begin, and the one that has just ended.
        let mut compounds: Vec<usize> = Vec::new();
        let mut ended_compound = None;
        let mut functions = 0_u32;
        let (mut number, mut read) = (place.first_line, 0);
        for (index, token) in tokens.iter().enumerate() {
            let written = line.written(&token.span);
            let at = token.span.start;
            number += newlines(line, read, at);
            read = at;
            let spot = Spot {
                line: number,
                depth: place.depth,
                is_inner: place.is_inner || !subshells.is_empty(),
                is_followed: at < last_command,
                in_function: functions > 0,
                is_script: place.is_script,
            };
            self.nested();
            if !loop_names.is_empty()
                && !matches!(
                    token.kind,
                    TokenKind::Word(WordRole::LoopName | WordRole::LoopWord)
                        | TokenKind::Reserved(Reserved::In)
                        | TokenKind::ListParen
                        | TokenKind::Comment
                )
            {
                for (name, _) in loop_names.drain(..) {
                    self.finder.variables.set(name, loop_value(&loop_words));
                }
                loop_words.clear();
            }
            match token.kind {
                TokenKind::FunctionParens
                    if !tokens.get(index.wrapping_sub(1)).is_some_and(|before| {
                        before.kind == TokenKind::Word(WordRole::FunctionName)
                    }) =>
                {
                    // A function without a name.
                    self.finder.is_for_zsh = true;
                }
                TokenKind::Word(WordRole::Command | WordRole::Argument) => {
                    let is_command = token.kind == TokenKind::Word(WordRole::Command);
                    self.finder.is_for_zsh |= is_command && is_listed(written, COMMANDS_OF_ZSH);
                    unit.extend(token);
                    unit.words.push((written, at));
                    continue;
                }
                TokenKind::Assignment => {
                    unit.extend(token);
                    if unit.words.is_empty() {
                        unit.assignments.push((written, at));
                    } else {
                        unit.words.push((written, at));
                    }
                    continue;
                }
                TokenKind::ArrayOpen => {
                    unit.extend(token);
                    let name = written.trim_end_matches('(').trim_end_matches(['=', '+']);
                    let is_table = unit.words.iter().any(|(word, _)| is_table_flag(word));
                    array = Some((name.to_owned(), is_table));
                    if !written.contains("+=") {
                        self.finder.assigned_name(name, spot, true);
                    }
                    continue;
                }
                TokenKind::Word(WordRole::Element) => {
                    self.finder.word(written, Use::Element, spot);
                    continue;
                }
                TokenKind::ArrayClose => {
                    if let Some((name, is_table)) = array.take() {
                        let known =
                            self.finder.variables.get(&name).is_some_and(|it| *it == Value::Table);
                        let value = if is_table || known { Value::Table } else { Value::Array };
                        self.finder.variables.set(&name, value);
                    }
                    unit.end = token.span.end;
                    continue;
                }
                TokenKind::Redirection => {
                    unit.extend(token);
                    if let Some(start) = ended_compound.take() {
                        unit.start = start;
                    }
                    unit.redirections.push((written, ""));
                    continue;
                }
                TokenKind::Word(WordRole::Target) => {
                    unit.end = token.span.end;
                    if let Some(last) = unit.redirections.last_mut() {
                        last.1 = written;
                    }
                    let is_document =
                        unit.redirections.last().is_some_and(|(operator, _)| is_document(operator));
                    if !is_document {
                        self.finder.target(written, spot);
                    }
                    continue;
                }
                TokenKind::Word(WordRole::LoopName) => {
                    self.finder.special_name(written, spot, false);
                    loop_names.push((written, at));
                }
                TokenKind::Word(WordRole::LoopWord) => {
                    loop_words.push(written);
                    self.finder.word(written, Use::Loop, spot);
                }
                TokenKind::Word(WordRole::Condition) => {
                    let is_pattern = matches!(condition.last(), Some(&("==" | "=" | "!=")));
                    if !matches!(written, "==" | "=" | "!=") {
                        self.finder.word(written, Use::Condition { is_pattern }, spot);
                    }
                    condition.push(written);
                }
                TokenKind::Word(WordRole::CaseSubject) => {
                    self.finder.word(written, Use::CaseSubject, spot);
                }
                TokenKind::Word(WordRole::Pattern) => {
                    self.finder.word(written, Use::CasePattern, spot);
                }
                TokenKind::Word(WordRole::FunctionName) => {
                    self.finder.defined.insert(written.to_owned());
                    functions += 1;
                }
                TokenKind::Arithmetic => self.finder.arithmetic(written, spot),
                TokenKind::HereDocument | TokenKind::Comment => continue,
                _ => {}
            }
            let ended_by = match token.kind {
                TokenKind::Separator(separator) => Some(separator),
                _ => None,
            };
            let is_pipe = ended_by.is_some_and(Separator::is_pipe);
            if !unit.is_empty() {
                let spot = Spot {
                    line: number - newlines(line, unit.start, at),
                    is_inner: spot.is_inner || is_pipe,
                    ..spot
                };
                self.unit(&unit, line, ended_by, spot, place);
                unit = Unit::default();
            }
            unit.reads_pipe = is_pipe;
            ended_compound = None;
            match token.kind {
                TokenKind::Open => compounds.push(at),
                TokenKind::Reserved(reserved) if opens(reserved) => compounds.push(at),
                TokenKind::Close => ended_compound = compounds.pop(),
                TokenKind::Reserved(reserved) if closes(reserved) => {
                    ended_compound = compounds.pop()
                }
                _ => {}
            }
            match token.kind {
                TokenKind::Reserved(Reserved::Coproc) => {
                    let named = tokens.get(index + 1).is_some_and(|next| {
                        next.kind == TokenKind::Word(WordRole::Command)
                            && is_name(line.written(&next.span))
                    });
                    let braced =
                        tokens.get(index + 2).is_some_and(|next| line.written(&next.span) == "{");
                    if named && braced {
                        let report = Sign::Report(vec!["parse error near `}'".to_owned()]);
                        let spot = Spot { is_followed: true, is_inner: false, ..spot };
                        self.finder.add(TrapKind::BashOnly, "coproc NAME {", "", report, spot);
                    }
                }
                TokenKind::Open => subshells.push(self.finder.variables.mark()),
                TokenKind::Close => {
                    if let Some(mark) = subshells.pop() {
                        self.finder.variables.restore(mark);
                    }
                }
                TokenKind::Reserved(Reserved::Always | Reserved::Repeat | Reserved::Foreach) => {
                    self.finder.is_for_zsh = true;
                }
                TokenKind::Reserved(Reserved::BraceClose) if token.depth == 0 => functions = 0,
                TokenKind::Reserved(Reserved::ConditionOpen) | TokenKind::ConditionOperator => {
                    condition.clear();
                }
                TokenKind::Separator(Separator::CaseEnd) => {
                    let next = tokens.get(index + 1);
                    let follows = next.is_some_and(|next| {
                        next.span.start == token.span.end
                            && next.kind == TokenKind::Separator(Separator::Background)
                    });
                    if written == ";;" && follows {
                        let report = Sign::Report(vec!["parse error near `&'".to_owned()]);
                        let spot = Spot { is_followed: true, is_inner: false, ..spot };
                        self.finder.add(TrapKind::BashOnly, ";;&", ";|", report, spot);
                    }
                }
                _ => {}
            }
        }
        if !unit.is_empty() {
            let spot = Spot {
                line: number - newlines(line, unit.start, read),
                depth: place.depth,
                is_inner: place.is_inner || !subshells.is_empty(),
                is_followed: false,
                in_function: functions > 0,
                is_script: place.is_script,
            };
            self.unit(&unit, line, None, spot, place);
        }
        self.nested();
    }

    /// Checks a command that was read to its end.
    fn unit(
        &mut self,
        unit: &Unit,
        line: &CommandLine,
        ended_by: Option<Separator>,
        spot: Spot,
        place: Place,
    ) {
        for (written, _) in &unit.assignments {
            self.finder.assignment(written, spot);
        }
        let raw: Vec<&str> = unit.words.iter().map(|(word, _)| *word).collect();
        let words: Vec<Unquoted> = raw.iter().map(|word| unquote(word)).collect();
        let name = words.first().and_then(Unquoted::fixed).unwrap_or_default();
        let is_declaration = is_listed(name, DECLARATIONS);
        // -U, -T and -g are zsh's.
        self.finder.is_for_zsh |= is_declaration
            && raw.iter().skip(1).any(|word| word.starts_with('-') && word.contains(['U', 'T']));
        let is_table = is_declaration && raw.iter().any(|word| is_table_flag(word));
        let is_array = is_declaration && raw.iter().any(|word| is_array_flag(word));
        self.finder.several_redirections(unit, line, ended_by, spot);
        let is_own = self.finder.defined.contains(name);
        if !is_own {
            self.finder.builtin(name, (unit, line), &words, &raw, spot);
        }
        if name == "echo" {
            self.finder.echo(&words, &raw, spot);
        }
        let mut before = "";
        for (index, (written, _)) in unit.words.iter().enumerate() {
            let is_assignment = is_declaration && index > 0 && !written.starts_with('-');
            if is_assignment {
                let (declared, value) = written.split_once('=').unwrap_or((written, ""));
                let is_hidden_by_local =
                    special(declared).is_some_and(|found| found.is_hidden_by_local);
                if !(spot.in_function && name != "export" && is_hidden_by_local) {
                    self.finder.special_name(declared, spot, false);
                }
                if written.contains('=') {
                    self.finder.word(value, Use::Value, spot);
                }
                let value = if is_table {
                    Value::Table
                } else if is_array {
                    Value::Array
                } else {
                    self.finder.variables.value_of(value)
                };
                if written.contains('=') || is_table || is_array {
                    self.finder.variables.set(declared, value);
                }
            } else if index == 0 {
                self.finder.word(written, Use::Command, spot);
            } else {
                self.finder.word(written, Use::Argument(name, before), spot);
            }
            before = written;
        }
        if name == "let" {
            for word in &words {
                for changed in changed_in(&word.text) {
                    self.finder.variables.set(changed, Value::Scalar);
                }
            }
        }
        if name == "read" {
            let is_array =
                raw.iter().any(|word| word.starts_with('-') && word.contains(['A', 'a']));
            let value = if is_array { Value::Array } else { Value::Scalar };
            for word in words.iter().skip(1).filter_map(Unquoted::fixed) {
                if word.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_') {
                    self.finder.special_name(word, spot, false);
                    self.finder.variables.set(word, value.clone());
                }
            }
        }
        self.nested();
        let assigned = match (name, words.as_slice()) {
            ("getopts", [_, _, word, ..]) => word.fixed(),
            ("printf", [_, flag, word, ..]) if flag.text == "-v" => word.fixed(),
            _ => None,
        };
        if let Some(assigned) = assigned {
            self.finder.special_name(assigned, spot, false);
            self.finder.variables.set(assigned, Value::Scalar);
        }
        let script = match name {
            "eval" => interpreters::script_of(&words).and_then(Unquoted::fixed).map(str::to_owned),
            "trap" => words.get(1).and_then(Unquoted::fixed).map(str::to_owned),
            _ => None,
        };
        if let Some(script) = script.filter(|_| place.depth < LEVELS) {
            let inner =
                Place { first_line: spot.line, depth: place.depth + 1, is_script: true, ..place };
            self.line(&CommandLine::parse(script), inner);
        }
        self.nested();
        if unit.words.is_empty() {
            for (written, _) in &unit.assignments {
                self.finder.variables.assign(written);
            }
        }
    }

    /// Reads the substitutions that were found last.
    fn nested(&mut self) {
        for (inside, spot) in std::mem::take(&mut self.finder.nested) {
            if spot.depth >= LEVELS {
                continue;
            }
            let mark = self.finder.variables.mark();
            let place = Place {
                first_line: spot.line,
                depth: spot.depth + 1,
                is_inner: true,
                is_script: spot.is_script,
            };
            self.line(&CommandLine::parse(inside), place);
            self.finder.variables.restore(mark);
        }
    }
}

fn newlines(line: &CommandLine, from: usize, to: usize) -> usize {
    line.written(&(from..to)).matches('\n').count()
}

fn opens(reserved: Reserved) -> bool {
    matches!(
        reserved,
        Reserved::BraceOpen
            | Reserved::If
            | Reserved::While
            | Reserved::Until
            | Reserved::For
            | Reserved::Foreach
            | Reserved::Select
            | Reserved::Repeat
            | Reserved::Case
    )
}

fn closes(reserved: Reserved) -> bool {
    matches!(
        reserved,
        Reserved::BraceClose | Reserved::Fi | Reserved::Done | Reserved::End | Reserved::Esac
    )
}

fn is_table_flag(word: &str) -> bool {
    word.starts_with('-') && word.contains('A')
}

fn is_array_flag(word: &str) -> bool {
    word.starts_with('-') && word.contains('a')
}

fn is_document(operator: &str) -> bool {
    operator.contains("<<") && !operator.contains("<<<")
}
