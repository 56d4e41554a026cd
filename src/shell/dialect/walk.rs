//! Walks through a text in its order. Pure.

use std::collections::HashSet;

use super::Found;
use super::finder::{Finder, Spot, Unit, Use};
use super::names::special;
use super::values::{Value, Variables, changed_in, is_name, loop_value};
use super::{Sign, TrapKind};
use crate::shell::command_line::CommandLine;
use crate::shell::interpreters;
use crate::shell::lexer::Lexed;
use crate::shell::options::is_listed;
use crate::shell::programs::is_builtin;
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
    disown printf trap set hash enable alias unset history dirs jobs time . source eval -p";

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
        quoted_keys: Vec::new(),
        no_glob: None,
        has_exit_trap: false,
        exit_trap_of_function: None,
        is_for_zsh: false,
        uses_positional: ["$@", "$*", "$#", "$1", "${1"].iter().any(|sign| text.contains(sign)),
        is_set,
    };
    let mut walk = Walk { finder, calls: Vec::new() };
    walk.line(line, Place { first_line: 1, depth: 0, is_inner: false, is_script: false });
    walk.settle(line.lexed());
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
    /// Whether zsh continues after a failure there, as it does after one in a subshell.
    is_inner: bool,
    /// Whether it is within quotes, as for `eval`.
    is_script: bool,
}

struct Walk<'a> {
    finder: Finder<'a>,
    /// The commands after the first function of the text.
    calls: Vec<Call>,
}

/// A command of a text with functions.
struct Call {
    /// The position in the text; 0 in substitutions and scripts.
    at: usize,
    is_inner: bool,
    in_function: bool,
    /// Whether it is a function of the text.
    is_own: bool,
}

impl Walk<'_> {
    fn line(&mut self, line: &CommandLine, place: Place) {
        let tokens = &line.lexed().tokens;
        let begins = |token: &&Token| token.kind == TokenKind::Word(WordRole::Command);
        let last_command = tokens.iter().rfind(begins).map_or(0, |token| token.span.start);
        let mut unit = Unit::default();
        let mut array: Option<(String, bool)> = None;
        let mut elements: Vec<&str> = Vec::new();
        let mut loop_names: Vec<(&str, usize)> = Vec::new();
        let mut loop_words: Vec<&str> = Vec::new();
        let mut condition: Vec<&str> = Vec::new();
        let mut subshells: Vec<usize> = Vec::new();
        // Where the open compound commands begin, and the one that has just ended.
        let mut compounds: Vec<usize> = Vec::new();
        let mut ended_compound = None;
        let mut functions = 0_u32;
        let mut coprocess: Option<u32> = None;
        let mut is_timed = false;
        let (mut number, mut read) = (place.first_line, 0);
        for (index, token) in tokens.iter().enumerate() {
            let written = line.written(&token.span);
            let at = token.span.start;
            number += newlines(line, read, at);
            read = at;
            let spot = Spot {
                line: number,
                at,
                depth: place.depth,
                is_inner: place.is_inner || !subshells.is_empty() || coprocess.is_some(),
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
                    elements.clear();
                    if !written.contains("+=") {
                        self.finder.assigned_name(name, spot, true);
                    }
                    continue;
                }
                TokenKind::Word(WordRole::Element) => {
                    self.finder.word(written, Use::Element, spot);
                    elements.push(written);
                    continue;
                }
                TokenKind::ArrayClose => {
                    if let Some((name, is_table)) = array.take() {
                        let known =
                            self.finder.variables.get(&name).is_some_and(|it| *it == Value::Table);
                        let value = if is_table || known { Value::Table } else { Value::Array };
                        if value == Value::Array {
                            self.finder.elements_by_index(&name, &elements, spot);
                        }
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
                    if !is_document && !is_version(&unit, line, token) {
                        // A program's redirections are made after the fork.
                        let name = unit.words.first().map(|(name, _)| *name);
                        let is_inner = spot.is_inner || !name.is_some_and(is_builtin);
                        self.finder.target(written, Spot { is_inner, ..spot });
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
                TokenKind::Arithmetic => {
                    self.finder.arithmetic(written, Spot { is_inner: true, ..spot });
                }
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
                    at: unit.start,
                    is_inner: spot.is_inner || is_pipe,
                    ..spot
                };
                if is_timed {
                    self.finder.times(&unit, spot);
                }
                self.unit(&unit, line, ended_by, spot, place);
                unit = Unit::default();
            }
            unit.reads_pipe = is_pipe;
            ended_compound = None;
            if ended_by.is_some() && coprocess.is_some_and(|depth| token.depth <= depth) {
                coprocess = None;
            }
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
                TokenKind::Reserved(Reserved::Time) => is_timed = true,
                TokenKind::Reserved(Reserved::Coproc) => {
                    coprocess = Some(token.depth);
                    let named = tokens.get(index + 1).is_some_and(|next| {
                        next.kind == TokenKind::Word(WordRole::Command)
                            && is_name(line.written(&next.span))
                    });
                    let braced =
                        tokens.get(index + 2).is_some_and(|next| line.written(&next.span) == "{");
                    if named && braced {
                        let report = Sign::Report(vec!["parse error near `}'".to_owned()]);
                        let spot = of_parse_error(spot);
                        self.finder.add(TrapKind::BashOnly, "coproc NAME {", "", report, spot);
                    }
                }
                TokenKind::Open => subshells.push(self.finder.variables.mark()),
                TokenKind::Close => {
                    if let Some(mark) = subshells.pop() {
                        self.finder.variables.restore(mark);
                    }
                    if token.depth == 0 {
                        functions = 0;
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
                        let spot = of_parse_error(spot);
                        self.finder.add(TrapKind::BashOnly, ";;&", ";|", report, spot);
                    }
                }
                _ => {}
            }
        }
        if !unit.is_empty() {
            let spot = Spot {
                line: number - newlines(line, unit.start, read),
                at: unit.start,
                depth: place.depth,
                is_inner: place.is_inner || !subshells.is_empty() || coprocess.is_some(),
                is_followed: false,
                in_function: functions > 0,
                is_script: place.is_script,
            };
            if is_timed {
                self.finder.times(&unit, spot);
            }
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
        // Those before a program are made after the fork.
        let is_inner = spot.is_inner || !unit.words.is_empty();
        for (written, _) in &unit.assignments {
            self.finder.assignment(written, Spot { is_inner, ..spot });
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
        if !self.finder.defined.is_empty() {
            let Spot { is_inner, in_function, .. } = spot;
            let at = if place.depth == 0 { spot.at } else { 0 };
            self.calls.push(Call { at, is_inner, in_function, is_own });
        }
        if !is_own {
            self.finder.builtin(name, (unit, line), &words, &raw, spot);
        }
        if name == "echo" {
            self.finder.echo(&words, &raw, spot);
        }
        let mut before = "";
        for (index, (written, at)) in unit.words.iter().enumerate() {
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
            } else if let Some(version) = version_after(line, *at, written) {
                self.finder.requirement(written, version, spot);
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
            let inner = Place {
                first_line: spot.line,
                depth: place.depth + 1,
                is_inner: true,
                is_script: true,
            };
            self.line(&CommandLine::parse(script), inner);
        }
        self.nested();
        if unit.words.is_empty() {
            for (written, _) in &unit.assignments {
                self.finder.variables.assign(written);
            }
        }
    }

    /// Clears `is_fatal` where zsh continues after the failure: in the background, in any part of a
    /// pipeline but the last, and in functions called there. Text after a function's definition does
    /// not run after its calls.
    fn settle(&mut self, lexed: &Lexed) {
        if !self.finder.found.iter().any(|found| found.is_fatal) {
            return;
        }
        let inner = runs_apart(&lexed.tokens);
        let is_apart = |at: usize| {
            let token = lexed.tokens.partition_point(|token| token.span.start <= at);
            inner.get(token.wrapping_sub(1)).is_some_and(|it| *it)
        };
        let mut own = self.calls.iter().filter(|call| call.is_own);
        let is_called_apart = own.any(|call| call.is_inner || is_apart(call.at));
        for found in self.finder.found.iter_mut().filter(|found| found.is_fatal) {
            let follows = |call: &&Call| call.at > found.at && !call.in_function;
            let next = self.calls.iter().find(follows).filter(|call| call.is_own);
            let goes_on = found.in_function && (is_called_apart || next.is_none());
            found.is_fatal = !goes_on && !is_apart(found.at);
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

/// A parse error concerns the whole text, or the script for `eval`.
fn of_parse_error(spot: Spot) -> Spot {
    Spot { is_followed: true, is_inner: spot.is_script, ..spot }
}

/// Whether each token belongs to what runs in the background, or in a part of a pipeline other than
/// the last.
fn runs_apart(tokens: &[Token]) -> Vec<bool> {
    #[derive(Clone, Copy, Default)]
    struct List {
        is_within: bool,
        in_background: bool,
        in_pipe: bool,
    }
    impl List {
        fn is_apart(self) -> bool {
            self.is_within || self.in_background || self.in_pipe
        }
    }
    // The lists that contain the token, from the end of the text.
    let mut lists: Vec<List> = Vec::new();
    let mut apart = vec![false; tokens.len()];
    for (token, apart) in tokens.iter().zip(&mut apart).rev() {
        let depth = token.depth as usize;
        lists.truncate(depth + 1);
        while lists.len() <= depth {
            let is_within = lists.last().is_some_and(|list| list.is_apart());
            lists.push(List { is_within, ..List::default() });
        }
        let Some(list) = lists.last_mut() else { continue };
        match token.kind {
            TokenKind::Separator(Separator::Background | Separator::Disown) => {
                *list = List { in_background: true, in_pipe: false, ..*list };
            }
            TokenKind::Separator(Separator::And | Separator::Or) => list.in_pipe = false,
            TokenKind::Separator(Separator::Pipe | Separator::PipeBoth) => list.in_pipe = true,
            TokenKind::Separator(_) => {
                *list = List { in_background: false, in_pipe: false, ..*list };
            }
            _ => {}
        }
        *apart = list.is_apart();
    }
    apart
}

/// The rest of a requirement of a version (`>=1.0`) right after a word.
fn version_after<'l>(line: &'l CommandLine, at: usize, word: &str) -> Option<&'l str> {
    let rest = line.text().get(at + word.len()..)?;
    let version = rest.strip_prefix('>').or_else(|| rest.strip_prefix('<'))?;
    let is_version = version.strip_prefix('=')?.starts_with(|it: char| it.is_ascii_digit());
    let end = rest.find(|it: char| it.is_whitespace() || ";&|)\"'".contains(it));
    rest.get(..end.unwrap_or(rest.len())).filter(|_| is_version)
}

/// Whether the target of a redirection belongs to such a requirement.
fn is_version(unit: &Unit, line: &CommandLine, target: &Token) -> bool {
    let Some((word, at)) = unit.words.last() else { return false };
    let version = version_after(line, *at, word);
    version.is_some_and(|version| target.span.start < at + word.len() + version.len())
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
