//! Walks through a text in its order, with what is known of the variables that it sets. Pure.

use super::builtins::{BashUse, bash_use};
use super::names::{bash_variable, is_assigned_silently, is_certain, is_hidden_by_local, special};
use super::pieces::{Parameter, Piece, PieceKind, Quote, pieces, subscript};
use super::shape::Shape;
use super::{Found, Sign, Trap, TrapKind};
use crate::shell::command_line::CommandLine;
use crate::shell::interpreters;
use crate::shell::options::is_listed;
use crate::shell::programs::is_builtin;
use crate::shell::token::{Reserved, Separator, Token, TokenKind, WordRole};
use crate::shell::unquote::{Unquoted, unquote};

/// How deep substitutions within substitutions are read.
const LEVELS: usize = 4;
/// The longest command that a suggestion repeats, in bytes.
const LONGEST_REPEATED: usize = 100;
/// How many traps of one text are kept.
const MAX_FOUND: usize = 64;

/// Constructs that show that a text was written for zsh, if for bash too. What nothing reports is then
/// not noted.
const WRITTEN_FOR_ZSH: &[&str] = &[
    "setopt",
    "unsetopt",
    "emulate ",
    "zmodload",
    "autoload",
    "${(",
    "$=",
    "$~",
    "${=",
    "${~",
    "${^",
    "$^",
    "(N)",
    "(.)",
    "(/)",
    "(@",
    "print -",
    "zparseopts",
    "zstyle",
    "whence",
    "bindkey",
    "$pipestatus",
    "${pipestatus",
    "$match[",
    "${match[",
    "zsh_",
    "ZSH_",
    "BASH_VERSION",
    "foreach ",
    "$+",
    "${+",
    "add-zsh-hook",
    "typeset -U",
    "typeset -T",
    "typeset -g",
    "always {",
    "$options[",
    "$commands[",
    "$functions[",
    "$aliases[",
    "repeat ",
];

/// Commands that bash does not have.
const COMMANDS_OF_ZSH: &str = "\
    print integer float setopt unsetopt emulate zmodload autoload zparseopts zstyle whence bindkey \
    compdef noglob vared zcompile zle strftime functions limit sched zformat ztcp zselect zsystem";
/// Declares variables.
const DECLARATIONS: &str = "declare local typeset export readonly integer float";
/// Commands of files, whose unquoted arguments are names of files.
const FILE_COMMANDS: &str = "\
    ls rm cp mv cat wc tar head tail chmod chown chgrp du stat touch gzip gunzip zip unzip file sort diff \
    sha256sum md5sum ln rsync scp";
/// Commands that are not given lists, but options.
const NO_LISTS: &str = "grep egrep fgrep rg ag sed awk jq git";
/// Commands that take each word for what it is.
const NO_WORDS: &str = "[ test cd let return exit eval";
/// Options whose value is a text.
const TEXT_OPTIONS: &str = "\
    -m --message -t --title -b --body --description -d --data --data-raw --json -H --header -e --author \
    --format --pretty -c -C --name -F -A --user-agent -u --user -X --grep -k -K";
/// Commands that usually print more than one word.
const LISTERS: &str = "\
    ls find seq cat printf echo grep rg fd awk cut sort uniq sed jq pgrep ps tr xargs comm head tail \
    basename dirname";

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

/// Commands that are traps without any special character.
const PLAIN_TRAPS: &str = "\
    mapfile readarray shopt compgen help complete bind caller read type export declare local typeset wait \
    disown printf trap set hash enable alias unset history dirs jobs time . source eval";

pub(super) fn find<'a>(line: &'a CommandLine, is_set: &'a dyn Fn(&str) -> bool) -> Vec<Found> {
    let text = line.text();
    let mut walk = Walk {
        found: Vec::new(),
        variables: Vec::new(),
        defined: Vec::new(),
        separators: None,
        text,
        is_for_zsh: WRITTEN_FOR_ZSH.iter().any(|sign| text.contains(sign)),
        uses_positional: ["$@", "$*", "$#", "$1", "${1"].iter().any(|sign| text.contains(sign)),
        is_set,
    };
    walk.line(line, Place { first_line: 1, depth: 0, is_inner: false, is_script: false });
    let Walk { mut found, is_for_zsh, .. } = walk;
    if is_for_zsh {
        found.retain(|it| it.sign != Sign::None);
        found.iter_mut().for_each(|it| it.is_certain = false);
    }
    found
}

/// What is known of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    /// This text, without its quotes.
    Text(String),
    /// What a command has printed that usually prints more than one word.
    Listing,
    /// Some text.
    Scalar,
    Array,
    /// An associative array.
    Table,
}

impl Value {
    fn is_array(&self) -> bool {
        matches!(self, Value::Array | Value::Table)
    }
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
    found: Vec<Found>,
    variables: Vec<(String, Value)>,
    /// The functions that the text defines.
    defined: Vec<String>,
    /// The value of IFS, if the text sets it.
    separators: Option<String>,
    text: &'a str,
    is_for_zsh: bool,
    uses_positional: bool,
    is_set: &'a dyn Fn(&str) -> bool,
}

/// A command that is being read.
#[derive(Default)]
struct Unit<'a> {
    words: Vec<(&'a str, usize)>,
    assignments: Vec<(&'a str, usize)>,
    redirections: Vec<(&'a str, &'a str)>,
    /// Whether its stdin is a pipe.
    reads_pipe: bool,
    start: usize,
    end: usize,
}

/// What a word is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use<'a> {
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
        let mut subshells = 0_usize;
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
                is_inner: place.is_inner || subshells > 0,
                is_followed: at < last_command,
                in_function: functions > 0,
                is_script: place.is_script,
            };
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
                    self.set(name, loop_value(&loop_words));
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
                    self.is_for_zsh = true;
                }
                TokenKind::Word(WordRole::Command | WordRole::Argument) => {
                    let is_command = token.kind == TokenKind::Word(WordRole::Command);
                    self.is_for_zsh |= is_command && is_listed(written, COMMANDS_OF_ZSH);
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
                        self.assigned_name(name, spot, true);
                    }
                    continue;
                }
                TokenKind::Word(WordRole::Element) => {
                    self.word(written, Use::Element, spot);
                    continue;
                }
                TokenKind::ArrayClose => {
                    if let Some((name, is_table)) = array.take() {
                        let known = self.value(&name).is_some_and(|it| *it == Value::Table);
                        let value = if is_table || known { Value::Table } else { Value::Array };
                        self.set(&name, value);
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
                        self.target(written, unit.redirections.last(), spot);
                    }
                    continue;
                }
                TokenKind::Word(WordRole::LoopName) => {
                    self.special_name(written, spot, false);
                    loop_names.push((written, at));
                }
                TokenKind::Word(WordRole::LoopWord) => {
                    loop_words.push(written);
                    self.word(written, Use::Loop, spot);
                }
                TokenKind::Word(WordRole::Condition) => {
                    let is_pattern = matches!(condition.last(), Some(&("==" | "=" | "!=")));
                    if !matches!(written, "==" | "=" | "!=") {
                        self.word(written, Use::Condition { is_pattern }, spot);
                    }
                    condition.push(written);
                }
                TokenKind::Word(WordRole::CaseSubject) => {
                    self.word(written, Use::CaseSubject, spot);
                }
                TokenKind::Word(WordRole::Pattern) => {
                    self.word(written, Use::CasePattern, spot);
                }
                TokenKind::Word(WordRole::FunctionName) => {
                    self.defined.push(written.to_owned());
                    functions += 1;
                }
                TokenKind::Arithmetic => self.arithmetic(written, spot),
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
                        self.add(TrapKind::BashOnly, "coproc NAME {", "", report, spot);
                    }
                }
                TokenKind::Open => subshells += 1,
                TokenKind::Close => subshells = subshells.saturating_sub(1),
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
                        self.add(TrapKind::BashOnly, ";;&", ";|", report, spot);
                    }
                }
                _ => {}
            }
        }
        if !unit.is_empty() {
            let spot = Spot {
                line: number - newlines(line, unit.start, read),
                depth: place.depth,
                is_inner: place.is_inner || subshells > 0,
                is_followed: false,
                in_function: functions > 0,
                is_script: place.is_script,
            };
            self.unit(&unit, line, None, spot, place);
        }
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
            self.assignment(written, spot);
        }
        let raw: Vec<&str> = unit.words.iter().map(|(word, _)| *word).collect();
        let words: Vec<Unquoted> = raw.iter().map(|word| unquote(word)).collect();
        let name = words.first().and_then(Unquoted::fixed).unwrap_or_default();
        let is_declaration = is_listed(name, DECLARATIONS);
        let is_table = is_declaration && raw.iter().any(|word| is_table_flag(word));
        let is_array = is_declaration && raw.iter().any(|word| is_array_flag(word));
        self.several_redirections(unit, line, ended_by, spot);
        let is_own = self.defined.iter().any(|defined| defined == name);
        if !is_own && ended_by != Some(Separator::Or) {
            self.builtin(name, (unit, line), &words, &raw, spot);
        }
        if name == "echo" {
            self.echo(&words, &raw, spot);
        }
        let mut before = "";
        for (index, (written, _)) in unit.words.iter().enumerate() {
            let is_assignment = is_declaration && index > 0 && !written.starts_with('-');
            if is_assignment {
                let (declared, value) = written.split_once('=').unwrap_or((written, ""));
                if !(spot.in_function && name != "export" && is_hidden_by_local(declared)) {
                    self.special_name(declared, spot, false);
                }
                if written.contains('=') {
                    self.word(value, Use::Value, spot);
                }
                let value = if is_table {
                    Value::Table
                } else if is_array {
                    Value::Array
                } else {
                    self.value_of(value)
                };
                if written.contains('=') || is_table || is_array {
                    self.set(declared, value);
                }
            } else if index == 0 {
                self.word(written, Use::Command, spot);
            } else {
                self.word(written, Use::Argument(name, before), spot);
            }
            before = written;
        }
        if name == "read" {
            let is_array =
                raw.iter().any(|word| word.starts_with('-') && word.contains(['A', 'a']));
            let value = if is_array { Value::Array } else { Value::Scalar };
            for word in words.iter().skip(1).filter_map(Unquoted::fixed) {
                if word.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_') {
                    self.special_name(word, spot, false);
                    self.set(word, value.clone());
                }
            }
        }
        let assigned = match (name, words.as_slice()) {
            ("getopts", [_, _, word, ..]) => word.fixed(),
            ("printf", [_, flag, word, ..]) if flag.text == "-v" => word.fixed(),
            _ => None,
        };
        if let Some(assigned) = assigned {
            self.special_name(assigned, spot, false);
            self.set(assigned, Value::Scalar);
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
        if unit.words.is_empty() {
            for (written, _) in &unit.assignments {
                self.assign(written);
            }
        }
    }

    /// Remembers what a text assigns.
    fn assign(&mut self, written: &str) {
        let Some((name, value)) = written.split_once('=') else { return };
        if name.contains('[') {
            let name = name.split('[').next().unwrap_or_default();
            if self.value(name).is_none() {
                self.set(name, Value::Array);
            }
            return;
        }
        let Some(name) = name.strip_suffix('+') else {
            if name == "IFS" {
                self.separators = Some(decoded(value));
            }
            let value = self.value_of(value);
            return self.set(name, value);
        };
        let longer = match (self.value(name), self.value_of(value)) {
            (Some(Value::Text(old)), Value::Text(new)) => Value::Text(format!("{old}{new}")),
            (Some(old), _) if old.is_array() => return,
            _ => Value::Scalar,
        };
        self.set(name, longer);
    }

    /// What a value without its name is.
    fn value_of(&self, value: &str) -> Value {
        let word = unquote(value);
        if word.expands_at.is_none() {
            return Value::Text(word.text);
        }
        let parts = pieces(value);
        if let [Piece { kind: PieceKind::Substitution(inside), .. }] = parts.as_slice() {
            return if is_listing(inside) { Value::Listing } else { Value::Scalar };
        }
        let known = |parameter: &Parameter| match self.value(parameter.name) {
            Some(Value::Text(text)) if parameter.is_plain() => Some(text.clone()),
            _ => default_text(parameter.after),
        };
        // What expands to an unknown text counts as one word without blanks.
        let (mut text, mut is_known) = (String::new(), true);
        for piece in &parts {
            match piece.kind {
                PieceKind::Text if piece.quote == Quote::Dollar => {
                    text.push_str(&decoded(&format!("$'{}'", piece.text)))
                }
                PieceKind::Text => text.push_str(piece.text),
                PieceKind::Parameter(parameter) => {
                    let known = known(&parameter);
                    is_known &= known.is_some();
                    text.push_str(&known.unwrap_or_else(|| "x".to_owned()));
                }
                _ => {
                    is_known = false;
                    text.push('x');
                }
            }
        }
        if is_known || text.contains(char::is_whitespace) {
            Value::Text(text)
        } else {
            Value::Scalar
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn set(&mut self, name: &str, value: Value) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1 = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    /// Checks `NAME=value` before a command, or as one.
    fn assignment(&mut self, written: &str, spot: Spot) {
        let Some((target, value)) = written.split_once('=') else { return };
        let name = target.trim_end_matches('+');
        self.assigned_name(name, spot, false);
        if target.ends_with('+') && self.value(name) == Some(&Value::Array) {
            let instead = format!("{name}[1]+=");
            self.add(TrapKind::FirstElement, &format!("{name}+="), &instead, Sign::None, spot);
        }
        self.word(value, Use::Value, spot);
    }

    /// Checks the target of an assignment: a name, or an element of an array.
    fn assigned_name(&mut self, target: &str, spot: Spot, is_array: bool) {
        let Some((name, index)) = target.split_once('[') else {
            return self.special_name(target, spot, is_array);
        };
        let index = index.trim_end_matches(']');
        if self.value(name).is_some_and(|known| *known == Value::Table) {
            return;
        }
        if index.contains("#") && index.contains(name) {
            if self.value(name).is_some_and(Value::is_array) {
                let instead = format!("{name}[${{#{name}[@]}}+1]=");
                self.add(TrapKind::FirstElement, &format!("{target}="), &instead, Sign::None, spot);
            }
        } else if self.is_from_zero(index) {
            let report = format!("{name}: assignment to invalid subscript range");
            let instead = format!("{name}[{}]=", plus_one(index));
            let written = format!("{target}=");
            let is_certain = self.value(name).is_some();
            let sign = Sign::Report(vec![report]);
            self.push(TrapKind::FirstElement, &written, &instead, sign, spot, is_certain);
        }
    }

    fn special_name(&mut self, name: &str, spot: Spot, is_array: bool) {
        let Some(meaning) = special(name) else { return };
        let reports = vec![
            format!("read-only variable: {name}"),
            format!("{name}: attempt to set slice of associative array"),
            "bad set of key/value pairs for associative array".to_owned(),
            format!("{name}: inconsistent type for assignment"),
            format!("{name}: can't change type of autoloaded parameter"),
            "invalid value: ".to_owned(),
        ];
        let instead = format!("my_{}", name.to_lowercase());
        let kind = TrapKind::SpecialName(meaning);
        self.push(kind, name, &instead, Sign::Report(reports), spot, is_certain(name));
        let is_table = is_array && meaning.starts_with("a table");
        let is_used =
            |forms: &[&str]| forms.iter().any(|form| self.text.contains(&form.replace('N', name)));
        let silent = match name {
            "path" => Sign::NotFound,
            "argv" if !self.uses_positional => return,
            "cdpath" | "fpath" | "manpath" | "mailpath" | "module_path" | "psvar" | "fignore"
            | "watch" | "dirstack"
                if is_array || !is_used(&["N+=", "{#N}", "{N:"]) =>
            {
                return;
            }
            _ if is_table || is_assigned_silently(name) => Sign::None,
            _ => return,
        };
        let is_certain = !(is_array && name == "path");
        self.push(kind, name, &instead, silent, spot, is_certain);
    }

    /// Checks one word.
    fn word(&mut self, written: &str, used: Use, spot: Spot) {
        // Most words hold nothing special.
        if !written.bytes().any(|byte| b"$*?[=~<`(".contains(&byte)) {
            return;
        }
        let parts = pieces(written);
        self.whole_word(written, &parts, used, spot);
        for (index, piece) in parts.iter().enumerate() {
            match piece.kind {
                PieceKind::Parameter(parameter) => {
                    let end = piece.at + piece.text.len();
                    let follows = match parts.get(index + 1) {
                        Some(next) if next.at == end && next.kind == PieceKind::Text => {
                            written.get(end..).unwrap_or_default()
                        }
                        _ => "",
                    };
                    self.parameter(written, piece, &parameter, follows, used, spot);
                }
                PieceKind::Substitution(inside) if spot.depth < LEVELS => {
                    if matches!(used, Use::Argument("[" | "test", _) | Use::Condition { .. })
                        && let Some(program) = inside.trim().strip_prefix("which ")
                        && !self.is_for_zsh
                    {
                        let instead = format!("$(command -v {program})");
                        self.add(TrapKind::Which, piece.text, &instead, Sign::None, spot);
                    }
                    let inner = Place {
                        first_line: spot.line,
                        depth: spot.depth + 1,
                        is_inner: true,
                        is_script: spot.is_script,
                    };
                    let names = self.variables.len();
                    self.line(&CommandLine::parse(inside), inner);
                    self.variables.truncate(names);
                }
                PieceKind::Arithmetic(inside) => self.arithmetic(inside, spot),
                PieceKind::Translation if !self.is_for_zsh => {
                    let instead = written.replacen("$\"", "\"", 1);
                    self.add(TrapKind::BashOnly, written, &instead, Sign::None, spot);
                }
                _ => {}
            }
        }
    }

    /// Checks patterns, `=word` and `~name`.
    fn whole_word(&mut self, written: &str, parts: &[Piece], used: Use, spot: Spot) {
        let is_pattern_of_shell =
            matches!(used, Use::CasePattern | Use::Condition { is_pattern: true });
        if is_pattern_of_shell
            && let Some(sign) = ["@(", "!(", "+("].iter().find(|sign| {
                parts.iter().any(|it| it.quote == Quote::None && it.text.contains(*sign))
            })
        {
            let instead = match *sign {
                "@(" => written.replace("@(", "("),
                _ => "setopt ksh_glob".to_owned(),
            };
            self.add(TrapKind::BashOnly, written, &instead, Sign::None, spot);
        }
        if matches!(used, Use::Value | Use::Condition { .. } | Use::CaseSubject | Use::CasePattern)
        {
            return;
        }
        let unquoted = || {
            parts.iter().filter(|piece| piece.kind == PieceKind::Text && piece.quote == Quote::None)
        };
        if let Some(rest) = written.strip_prefix('=')
            && !rest.is_empty()
            && !rest.starts_with('(')
        {
            let report = Sign::ReportOf("", Shape::of_path(&pieces(rest)));
            let (instead, is_test) = match used {
                Use::Argument("[" | "test", _) if rest == "=" => ("=".to_owned(), true),
                _ => (quoted(written, parts), false),
            };
            let is_no_program = rest.starts_with(|it: char| !it.is_alphanumeric());
            if matches!(used, Use::Argument("grep" | "egrep" | "fgrep" | "rg" | "ag", _)) {
                self.add(TrapKind::EqualsWord, written, &instead, Sign::None, spot);
            }
            self.push(
                TrapKind::EqualsWord,
                written,
                &instead,
                report,
                spot,
                is_test || is_no_program,
            );
        }
        if written.starts_with('~')
            && let Some(name) = written.get(1..).and_then(|rest| rest.split('/').next())
            && name.starts_with(|it: char| it.is_alphabetic())
        {
            let report = format!("no such user or named directory: {name}");
            self.push(
                TrapKind::NoSuchHome,
                written,
                &quoted(written, parts),
                Sign::Report(vec![report]),
                spot,
                false,
            );
        }
        let is_pattern = |text: &str| text.contains(['*', '?', '[']);
        if !unquoted().any(|piece| is_pattern(piece.text)) {
            return;
        }
        let shape = Shape::of(parts);
        let bad = Sign::ReportOf("bad pattern: ", shape.clone());
        let unmatched = Sign::ReportOf("no matches found: ", shape);
        // For another program the words are expanded after the fork.
        let is_fatal = match used {
            Use::Argument(command, _) => {
                is_builtin(command) || self.defined.iter().any(|defined| defined == command)
            }
            _ => matches!(used, Use::Loop | Use::Element),
        };
        // A quoted brace makes one word of several, and in a quoted script is no place for quotes.
        let instead = if written.contains('{') && !written.contains("${") || spot.is_script {
            String::new()
        } else {
            quoted(written, parts)
        };
        let is_url = written.contains("://");
        let (kind, instead, is_certain) = match used {
            Use::Argument("unset", _) => match written.split_once('[') {
                Some((name, index)) if is_name(name) => {
                    let index = plus_one(index.trim_end_matches(']'));
                    (TrapKind::FirstElement, format!("{name}[{index}]=()"), true)
                }
                _ => (TrapKind::Unmatched, instead.clone(), false),
            },
            _ if is_url => (TrapKind::PatternInText, instead.clone(), true),
            Use::Argument(..)
                if !instead.is_empty() && (written.starts_with('-') || is_requirement(written)) =>
            {
                (TrapKind::PatternInText, instead.clone(), false)
            }
            _ => (TrapKind::Unmatched, instead.clone(), false),
        };
        let whole = format!("unset {written}");
        let written = if kind == TrapKind::FirstElement { &whole } else { written };
        self.push_fatal(
            kind,
            written,
            &instead,
            unmatched,
            Spot { is_inner: spot.is_inner || !is_fatal, ..spot },
            is_certain,
        );
        self.push(TrapKind::BadPattern, written, &quoted(written, parts), bad, spot, false);
    }

    fn target(&mut self, written: &str, redirection: Option<&(&str, &str)>, spot: Spot) {
        let is_input = redirection.is_some_and(|(operator, _)| operator.contains('<'));
        if let Some(address) =
            ["/dev/tcp/", "/dev/udp/"].iter().find_map(|it| written.strip_prefix(it))
        {
            let _ = is_input;
            let sign = Sign::ReportOf("no such file or directory: ", Shape::of(&pieces(written)));
            let _ = address;
            self.add(TrapKind::BashOnly, written, "", sign, spot);
        }
        self.word(written, Use::Target, spot);
    }

    fn parameter(
        &mut self,
        word: &str,
        piece: &Piece,
        parameter: &Parameter,
        follows: &str,
        used: Use,
        spot: Spot,
    ) {
        let name = parameter.name;
        let reported = || Sign::Report(vec!["bad substitution".to_owned()]);
        if let Some(mut instead) = bash_expansion(parameter) {
            if parameter.before == "!" && self.value(name) == Some(&Value::Array) {
                instead.clear();
            }
            let sign = if name == "!" { Sign::None } else { reported() };
            return self.add(TrapKind::BashOnly, piece.text, &instead, sign, spot);
        }
        let known = self.value(name).cloned();
        if self.is_for_zsh {
            return;
        }
        if known.is_none()
            && !has_default(parameter.after)
            && !(self.is_set)(name)
            && let Some(instead) = bash_variable(parameter)
        {
            return self.add(TrapKind::BashVariable, piece.text, &instead, Sign::None, spot);
        }
        if !parameter.is_braced {
            if is_modifier(name, follows, word) {
                let instead = word.replace(&format!("${name}:"), &format!("${{{name}}}:"));
                return self.add(TrapKind::Modifier, word, &instead, Sign::None, spot);
            }
            let index = subscript(follows).map(|(index, _)| index);
            if known.as_ref().is_some_and(|value| !value.is_array())
                && index.is_some_and(|index| self.is_no_index(index))
            {
                let instead = word.replace(&format!("${name}["), &format!("${{{name}}}["));
                return self.add(TrapKind::Subscript, word, &instead, Sign::None, spot);
            }
        }
        if name == "#"
            && piece.quote == Quote::Double
            && follows.starts_with(|it: char| it.is_ascii_alphabetic())
        {
            let length =
                follows.bytes().take_while(|it| it.is_ascii_alphanumeric() || *it == b'_').count();
            let array = follows.get(..length).unwrap_or_default();
            if self.value(array).is_none() && special(array).is_none() && !(self.is_set)(array) {
                let instead = format!("${{#}}{array}");
                return self.add(
                    TrapKind::Modifier,
                    &format!("$#{array}"),
                    &instead,
                    Sign::None,
                    spot,
                );
            }
        }
        self.pattern_in_expansion(parameter, spot);
        if known == Some(Value::Array)
            && let Some((index, rest)) = parameter.index()
        {
            let squeezed: String = index.chars().filter(|it| !it.is_whitespace()).collect();
            let from_end = format!("#{name}[");
            if squeezed.contains(&from_end) && squeezed.ends_with("-1") {
                let instead = format!("${{{}{name}[-1]{rest}}}", parameter.before);
                return self.add(TrapKind::FirstElement, piece.text, &instead, Sign::None, spot);
            }
            if self.is_from_zero(index) {
                let instead = format!("${{{}{name}[{}]{rest}}}", parameter.before, plus_one(index));
                return self.add(TrapKind::FirstElement, piece.text, &instead, Sign::None, spot);
            }
        }
        if matches!(known, Some(Value::Text(_)))
            && let Some(("0", "")) = parameter.index()
        {
            let instead = format!("${name}");
            return self.add(TrapKind::FirstElement, piece.text, &instead, Sign::None, spot);
        }
        if piece.quote != Quote::None {
            return;
        }
        if parameter.is_plain() {
            self.unquoted_value(piece, parameter, known.as_ref(), used, spot);
        } else if let Some(default) = default_text(parameter.after)
            && known.is_none()
        {
            self.unquoted_value(piece, parameter, Some(&Value::Text(default)), used, spot);
        }
    }

    /// Checks `${name%$pattern}` and the like.
    fn pattern_in_expansion(&mut self, parameter: &Parameter, spot: Spot) {
        let operators = ['%', '#', '/'];
        let Some(pattern) = parameter.after.strip_prefix(operators) else { return };
        let pattern = pattern.trim_start_matches(operators);
        for piece in pieces(pattern) {
            let PieceKind::Parameter(inner) = piece.kind else { continue };
            let is_pattern = |value: &Value| matches!(value, Value::Text(text) if text.contains(['*', '?', '[']));
            let is_known = self.value(inner.name).is_some_and(is_pattern);
            if inner.is_plain() && piece.quote == Quote::None && is_known {
                let instead = format!("${{~{}}}", inner.name);
                return self.add(TrapKind::ValueAsPattern, piece.text, &instead, Sign::None, spot);
            }
        }
    }

    /// Whether a text in brackets cannot be meant as the index of a character.
    fn is_no_index(&self, index: &str) -> bool {
        let text = match index.strip_prefix('$') {
            None => index,
            Some(name) => match self.value(name.trim_matches(['{', '}'])) {
                Some(Value::Text(text)) => text.as_str(),
                _ => return false,
            },
        };
        let is_number = |part: &str| {
            let digits = part.trim().trim_start_matches('-');
            !digits.is_empty() && digits != "0" && digits.bytes().all(|it| it.is_ascii_digit())
        };
        !text.split(',').all(is_number) && !text.starts_with('(')
    }

    /// Checks an unquoted `$name`, whose value bash splits and takes as a pattern.
    fn unquoted_value(
        &mut self,
        piece: &Piece,
        parameter: &Parameter,
        known: Option<&Value>,
        used: Use,
        spot: Spot,
    ) {
        let name = parameter.name;
        let (command, before) = match used {
            Use::Argument(command, before) => (command, before),
            _ => ("", ""),
        };
        let is_argument = matches!(used, Use::Argument(..)) && !is_listed(command, NO_WORDS);
        let is_list = matches!(used, Use::Loop | Use::Element | Use::Command)
            || is_argument
                && (command == "set"
                    || !is_listed(command, NO_LISTS) && !is_listed(before, TEXT_OPTIONS));
        let split = format!("${{={name}{}}}", parameter.after);
        if used == Use::Command {
            // Whatever the value is, a name with blanks is none of a program.
            let report = Sign::ReportOfWords;
            self.push(TrapKind::NotSplit, piece.text, &split, report, spot, false);
        }
        let is_path = matches!(name, "PATH" | "LD_LIBRARY_PATH" | "MANPATH" | "PYTHONPATH");
        let splits_path = is_path && self.separators.as_ref().is_some_and(|it| it.contains(':'));
        let value = match known {
            Some(Value::Text(text)) => text.as_str(),
            Some(Value::Listing) if is_list && !matches!(command, "echo" | "printf") => {
                let is_sure = matches!(used, Use::Loop | Use::Element | Use::Argument("set", _));
                let sign = if is_sure { Sign::None } else { Sign::Failure };
                return self.push(TrapKind::NotSplit, piece.text, &split, sign, spot, is_sure);
            }
            Some(Value::Scalar) if command == "set" && before == "--" => {
                return self.add(TrapKind::NotSplit, piece.text, &split, Sign::None, spot);
            }
            None if splits_path && is_list => {
                return self.add(TrapKind::NotSplit, piece.text, &split, Sign::None, spot);
            }
            _ => return,
        };
        let is_list = is_list || is_argument && value.trim_start().starts_with('-');
        let separators = self.separators.as_deref().unwrap_or(" \t\n");
        let words: Vec<&str> =
            value.split(|it| separators.contains(it)).filter(|it| !it.is_empty()).collect();
        let is_one = words.len() == 1 && words.first() == Some(&value);
        let is_same_for_echo = command == "echo" && words.join(" ") == value;
        let is_plain = |it: char| it.is_alphanumeric() || "_./:@%+,=~-".contains(it);
        let is_text =
            is_argument && command != "set" && !words.iter().all(|it| it.chars().all(is_plain));
        if is_list && !is_one && !value.is_empty() && !is_same_for_echo && !is_text {
            return self.add(TrapKind::NotSplit, piece.text, &split, Sign::None, spot);
        }
        let is_pattern = value.contains(['*', '?']) || value.contains('[') && value.contains(']');
        let is_used_as_one = match used {
            Use::Loop | Use::Element | Use::CasePattern => true,
            Use::Condition { is_pattern } => is_pattern,
            Use::Argument(command, _) => is_listed(command, FILE_COMMANDS),
            _ => false,
        };
        if is_pattern && is_used_as_one {
            self.add(
                TrapKind::ValueAsPattern,
                piece.text,
                &format!("${{~{name}}}"),
                Sign::None,
                spot,
            );
        }
    }

    /// Checks an arithmetic expression, with or without its `((`.
    fn arithmetic(&mut self, inside: &str, spot: Spot) {
        for piece in pieces(inside) {
            match piece.kind {
                PieceKind::Parameter(parameter) => {
                    let used = Use::Condition { is_pattern: false };
                    self.parameter(inside, &piece, &parameter, "", used, spot);
                }
                PieceKind::Text => self.elements(piece.text, spot),
                _ => {}
            }
        }
        // `i=0` in the head of a loop.
        let inside = inside.trim_start_matches("((").trim_end_matches("))");
        for part in inside.split([';', ',']) {
            if let Some((name, value)) = part.split_once('=')
                && is_name(name.trim())
                && !value.starts_with('=')
            {
                let value = value.trim();
                let is_number = !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
                let value = if is_number { Value::Text(value.to_owned()) } else { Value::Scalar };
                self.set(name.trim(), value);
            }
        }
    }

    /// Checks octal numbers, and elements of arrays as in `a[0] + 1`.
    fn elements(&mut self, text: &str, spot: Spot) {
        let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '.' | '#');
        let octal = text.split(|it| !is_part(it)).find(|word| {
            word.len() > 1
                && word.starts_with('0')
                && word.bytes().all(|it| (b'0'..=b'7').contains(&it))
                && word.bytes().any(|it| it != b'0')
        });
        if let Some(number) = octal {
            let instead = format!("8#{}", number.trim_start_matches('0'));
            self.add(TrapKind::Octal, number, &instead, Sign::None, spot);
        }
        for (at, _) in text.match_indices('[') {
            let (before, rest) = text.split_at(at);
            let start = before.rfind(|it: char| !it.is_ascii_alphanumeric() && it != '_');
            let name = before.get(start.map_or(0, |at| at + 1)..).unwrap_or_default();
            let index = subscript(rest).map(|(index, _)| index);
            if let Some(index) = index
                && self.value(name) == Some(&Value::Array)
                && self.is_from_zero(index)
            {
                let instead = format!("{name}[{}]", plus_one(index));
                let written = format!("{name}[{index}]");
                self.add(TrapKind::FirstElement, &written, &instead, Sign::None, spot);
            }
        }
    }

    /// Whether an index is 0, or a variable that begins at 0.
    fn is_from_zero(&self, index: &str) -> bool {
        let bare = index.trim_matches(['$', '{', '}', '(', ')', ' ']);
        let is_zero = |text: &str| text.trim() == "0";
        let bare = bare.trim_end_matches("++");
        is_zero(bare)
            || is_name(bare)
                && matches!(self.value(bare), Some(Value::Text(value)) if is_zero(value))
    }

    fn builtin(
        &mut self,
        name: &str,
        (unit, line): (&Unit, &CommandLine),
        words: &[Unquoted],
        raw: &[&str],
        spot: Spot,
    ) {
        let input =
            unit.redirections.iter().rfind(|(operator, _)| matches!(*operator, "<" | "<<<"));
        if let Some(BashUse { written, instead, sign, is_certain }) =
            bash_use(name, words, raw, input.copied())
        {
            let whole = line.written(&(unit.start..unit.end));
            let written =
                if written == "mapfile" || written == "readarray" { whole } else { &written };
            let written = written.to_owned();
            let spot = Spot { is_inner: true, ..spot };
            self.push(TrapKind::BashOnly, &written, &instead, sign, spot, is_certain);
        }
        if name == "trap"
            && spot.in_function
            && !spot.is_inner
            && words.last().is_some_and(|word| matches!(word.text.as_str(), "EXIT" | "0"))
            && !words.get(1).is_some_and(|word| word.text == "-" || word.text.is_empty())
            && words.len() > 2
            && words.get(1).is_some_and(|word| {
                ["rm ", "kill ", "clean", "rmdir "].iter().any(|it| word.text.contains(it))
            })
        {
            let written = "trap EXIT";
            self.add(TrapKind::TrapOfFunction, written, "setopt posix_traps", Sign::None, spot);
        }
        if name == "unset"
            && let Some(element) = words.last().and_then(Unquoted::fixed)
            && let Some((array, index)) = element.split_once('[')
            && raw.last().is_some_and(|word| word.contains(['\'', '"', '\\']))
            && self.is_from_zero(index.trim_end_matches(']'))
        {
            let instead = format!("{array}[{}]=()", plus_one(index.trim_end_matches(']')));
            let report = format!("{array}: assignment to invalid subscript range");
            let written = raw.join(" ");
            self.add(TrapKind::FirstElement, &written, &instead, Sign::Report(vec![report]), spot);
        }
        if name == "."
            && let Some(file) = words.get(1).and_then(Unquoted::fixed)
            && !file.contains('/')
        {
            let report = format!("no such file or directory: {file}");
            let written = raw.join(" ");
            let instead = written.replacen(". ", ". ./", 1);
            self.push(
                TrapKind::SourcedFile,
                &written,
                &instead,
                Sign::Report(vec![report]),
                Spot { is_inner: true, ..spot },
                true,
            );
        }
    }

    /// Checks the escapes that echo replaces.
    fn echo(&mut self, words: &[Unquoted], raw: &[&str], spot: Spot) {
        if self.is_for_zsh || spot.is_script {
            return;
        }
        for (word, written) in words.iter().zip(raw).skip(1) {
            let is_flag = word.text.len() > 1
                && word
                    .text
                    .strip_prefix('-')
                    .is_some_and(|it| it.bytes().all(|byte| b"neE".contains(&byte)));
            if is_flag {
                if word.text.contains(['e', 'E']) {
                    return;
                }
                continue;
            }
            let mut printed = String::new();
            for piece in pieces(written) {
                match piece.kind {
                    PieceKind::Text if piece.quote == Quote::Dollar => {}
                    PieceKind::Text => printed.push_str(piece.text),
                    PieceKind::Parameter(parameter) if parameter.is_plain() => {
                        if let Some(Value::Text(value)) = self.value(parameter.name) {
                            printed.push_str(value);
                        }
                    }
                    _ => {}
                }
            }
            if let Some(escape) = escape_in(&printed) {
                return self.add(TrapKind::EchoEscape, &escape, "echo -E", Sign::None, spot);
            }
        }
    }

    /// Checks for a stream with several targets, of which a pipe is one.
    fn several_redirections(
        &mut self,
        unit: &Unit,
        line: &CommandLine,
        ended_by: Option<Separator>,
        spot: Spot,
    ) {
        if self.is_for_zsh {
            return;
        }
        let writes = |wanted: u8| {
            unit.redirections.iter().filter(move |(operator, target)| {
                let (descriptor, operator) = match operator.as_bytes().split_first() {
                    Some((digit @ b'0'..=b'9', rest)) => (*digit, rest),
                    _ => (b'1', operator.as_bytes()),
                };
                let is_write =
                    matches!(operator, b">" | b">>" | b">|" | b">!" | b"&>" | b"&>>" | b">&");
                let both = operator.starts_with(b"&>");
                let is_closing =
                    *target == "-" || *target == "1" && wanted == b'1' && operator == b">&";
                is_write && !is_closing && (descriptor == wanted || both)
            })
        };
        let is_pipe = ended_by.is_some_and(Separator::is_pipe);
        let command = line.written(&(unit.start..unit.end)).trim();
        let inputs =
            unit.redirections.iter().filter(|(operator, _)| matches!(*operator, "<" | "0<"));
        let (outputs, inputs) = (writes(b'1').count(), inputs.count());
        let kind = TrapKind::SeveralRedirections;
        if inputs > 0 && unit.reads_pipe {
            let instead = if_short(command, || format!("| {{ {command}; }}"));
            self.add(kind, &format!("| {command}"), &instead, Sign::None, spot);
        } else if is_pipe && outputs > 0 {
            let instead = if_short(command, || format!("{{ {command}; }} |"));
            self.add(kind, &format!("{command} |"), &instead, Sign::None, spot);
        } else if outputs > 1 || inputs > 1 || writes(b'2').count() > 1 {
            // Of a compound command only the place is shown, since its text is long.
            let instead =
                if unit.words.is_empty() { String::new() } else { last_redirections(unit) };
            self.add(kind, command, &instead, Sign::None, spot);
        }
    }

    fn add(&mut self, kind: TrapKind, written: &str, instead: &str, sign: Sign, spot: Spot) {
        self.push(kind, written, instead, sign, spot, true);
    }

    fn push(
        &mut self,
        kind: TrapKind,
        written: &str,
        instead: &str,
        sign: Sign,
        spot: Spot,
        is_certain: bool,
    ) {
        self.push_fatal(kind, written, instead, sign, spot, is_certain);
    }

    fn push_fatal(
        &mut self,
        kind: TrapKind,
        written: &str,
        instead: &str,
        sign: Sign,
        spot: Spot,
        is_certain: bool,
    ) {
        if self.found.len() >= MAX_FOUND || sign == Sign::None && self.is_for_zsh {
            return;
        }
        let trap = Trap {
            kind,
            written: written.to_owned(),
            instead: instead.to_owned(),
            line: Some(spot.line),
            skips_rest: false,
        };
        let is_fatal = !spot.is_inner && spot.is_followed;
        let is_certain = is_certain && !self.is_for_zsh;
        self.found.push(Found { trap, sign, is_fatal, is_certain });
    }
}

/// Where a trap is.
#[derive(Debug, Clone, Copy)]
struct Spot {
    line: usize,
    depth: usize,
    is_inner: bool,
    /// Whether a command follows.
    is_followed: bool,
    in_function: bool,
    is_script: bool,
}

impl Unit<'_> {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.assignments.is_empty() && self.redirections.is_empty()
    }

    fn extend(&mut self, token: &Token) {
        if self.is_empty() {
            self.start = token.span.start;
        }
        self.end = token.span.end;
    }
}

fn newlines(line: &CommandLine, from: usize, to: usize) -> usize {
    line.written(&(from..to)).matches('\n').count()
}

/// A command with the last redirection of each stream. The files of the others are emptied before it,
/// or read by nobody.
fn last_redirections(unit: &Unit) -> String {
    let is_input = |operator: &str| operator.contains('<');
    let is_last = |index: usize| {
        let (operator, _) = unit.redirections.get(index).copied().unwrap_or_default();
        let later = unit.redirections.iter().skip(index + 1);
        !later.clone().any(|(other, _)| {
            is_input(other) == is_input(operator)
                && other.starts_with(|it: char| it.is_ascii_digit())
                    == operator.starts_with(|it: char| it.is_ascii_digit())
        })
    };
    let mut emptied = String::new();
    let mut kept: Vec<String> = unit.words.iter().map(|(word, _)| (*word).to_owned()).collect();
    for (index, (operator, target)) in unit.redirections.iter().enumerate() {
        if is_last(index) {
            kept.push(format!("{operator}{target}"));
        } else if matches!(*operator, ">" | ">|") {
            emptied.push_str(&format!(": {operator}{target}; "));
        }
    }
    emptied + &kept.join(" ")
}

/// A suggestion that repeats a command, if that is short.
fn if_short(command: &str, instead: impl FnOnce() -> String) -> String {
    if command.len() <= LONGEST_REPEATED { instead() } else { String::new() }
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

fn is_name(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether an expansion has a text for the case that the parameter is not set.
fn has_default(after: &str) -> bool {
    let rest = subscript(after).map_or(after, |(_, rest)| rest);
    rest.trim_start_matches(':').starts_with(['-', '+', '='])
}

/// The text that stands in for a parameter that is not set, if it has no expansion.
fn default_text(after: &str) -> Option<String> {
    let text = after.strip_prefix(":-").or_else(|| after.strip_prefix('-'))?;
    unquote(text).fixed().map(str::to_owned)
}

/// What a loop variable is in the first round.
fn loop_value(words: &[&str]) -> Value {
    let Some(first) = words.first() else { return Value::Scalar };
    let squeezed = first.trim_start_matches("$(").trim();
    if first.starts_with("{0..") || squeezed.starts_with("seq 0 ") {
        return Value::Text("0".to_owned());
    }
    let fixed: Option<Vec<String>> =
        words.iter().map(|word| unquote(word).fixed().map(str::to_owned)).collect();
    match fixed {
        Some(all) => {
            let with_blanks = all.iter().find(|word| word.contains(char::is_whitespace));
            let first = all.first().cloned().unwrap_or_default();
            let is_plain = !first.contains(['*', '?', '[']);
            match with_blanks {
                Some(word) => Value::Text(word.clone()),
                None if is_plain => Value::Text(first),
                None => Value::Scalar,
            }
        }
        None => Value::Scalar,
    }
}

/// Whether a command in a substitution usually prints more than one word.
fn is_listing(inside: &str) -> bool {
    let line = CommandLine::parse(inside);
    let commands = crate::shell::syntax::simple_commands(&line);
    let Some(last) = commands.last() else { return false };
    let words: Vec<&str> = last.core().iter().map(|word| word.text.as_str()).collect();
    match last.program() {
        Some("git") => words.iter().any(|word| {
            matches!(
                *word,
                "ls-files" | "--name-only" | "branch" | "tag" | "diff-tree" | "for-each-ref"
            )
        }),
        Some("docker") => words.iter().any(|word| matches!(*word, "ps" | "images")),
        Some("echo") => words.len() > 2 || words.get(1).is_some_and(|word| word.contains(' ')),
        Some("printf") => words.iter().any(|word| word.contains("\\n") || word.contains(' ')),
        Some("head" | "tail") => !words.iter().any(|word| matches!(*word, "-1" | "-n1" | "1")),
        Some("grep" | "rg") => !words.iter().any(|word| {
            word.starts_with("-c") || word.starts_with("-q") || word.starts_with("-m1")
        }),
        Some("jq") => words.iter().any(|word| word.contains("[]")),
        Some("basename" | "dirname" | "tr" | "sed" | "awk" | "cut") => false,
        Some(program) => is_listed(program, LISTERS),
        None => false,
    }
}

/// The expansions that zsh does not have, and what to write instead.
fn bash_expansion(parameter: &Parameter) -> Option<String> {
    let name = parameter.name;
    if name == "!" && parameter.after == "#" {
        return Some("${@[-1]}".to_owned());
    }
    if parameter.before == "!" && !name.is_empty() {
        return Some(match parameter.after {
            "[@]" | "[*]" => format!("${{(@k){name}}}"),
            "*" | "@" => format!("${{(k)parameters[(I){name}*]}}"),
            "" => format!("${{(P){name}}}"),
            rest => format!("${{(P){name}{rest}}}"),
        });
    }
    if !parameter.before.is_empty() || name.is_empty() {
        return None;
    }
    let (index, rest) = match subscript(parameter.after) {
        Some((index, rest)) => (format!("[{index}]"), rest),
        None => (String::new(), parameter.after),
    };
    Some(match rest {
        ",," => format!("${{(L){name}{index}}}"),
        "^^" => format!("${{(U){name}{index}}}"),
        "," => format!("${{(L){name}[1]}}${{{name}[2,-1]}}"),
        "^" => format!("${{(U){name}[1]}}${{{name}[2,-1]}}"),
        "@Q" => format!("${{(qq){name}{index}}}"),
        "@U" => format!("${{(U){name}{index}}}"),
        "@L" => format!("${{(L){name}{index}}}"),
        "@u" => format!("${{(U){name}[1]}}${{{name}[2,-1]}}"),
        "@E" => format!("${{(g::){name}{index}}}"),
        "@P" => format!("${{(%){name}{index}}}"),
        "@A" | "@a" | "@K" | "@k" => String::new(),
        _ if rest.starts_with(",,") || rest.starts_with("^^") => String::new(),
        _ => return None,
    })
}

/// Whether zsh takes what follows `$name` as a modifier, though a plain text is meant: zsh's own
/// idioms (`$file:h`, `$file:t:r`) have no letter or digit after the modifier.
fn is_modifier(name: &str, follows: &str, word: &str) -> bool {
    let mut letters = follows.chars();
    if letters.next() != Some(':')
        || !name.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_')
    {
        return false;
    }
    let (Some(letter), next) = (letters.next(), letters.next()) else { return false };
    if !"aAcehlPqQrstu".contains(letter) {
        return false;
    }
    let Some(next) = next else {
        return false;
    };
    let is_text = next.is_ascii_alphabetic()
        || next == '_'
        || next.is_ascii_digit() && !matches!(letter, 'h' | 't')
        || next == '-' && letters.next().is_some_and(|it| it.is_ascii_alphanumeric());
    // `git show $sha:a.txt`
    let is_name = next == '.' && !word.contains('/') && !matches!(letter, 'r' | 'e' | 'h');
    is_text || is_name
}

/// The first escape that zsh's echo replaces.
fn escape_in(printed: &str) -> Option<String> {
    let mut characters = printed.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            continue;
        }
        let next = characters.next()?;
        if "abcefnrtv\\".contains(next) {
            return Some(format!("\\{next}"));
        }
        let is_digit = |it: char| if next == '0' { it.is_digit(8) } else { it.is_ascii_hexdigit() };
        if next == '0' || "xuU".contains(next) && characters.clone().next().is_some_and(is_digit) {
            return Some(format!("\\{next}"));
        }
    }
    None
}

/// The value of a word, with the escapes of `$'…'`.
fn decoded(word: &str) -> String {
    unquote(word).text
}

/// The index after one that counts from 0.
fn plus_one(index: &str) -> String {
    match index.trim().parse::<u64>() {
        Ok(number) => (number + 1).to_string(),
        Err(_) => {
            let bare = index.trim_matches(['$', '{', '}', '(', ')', ' ']);
            if bare.ends_with("++") {
                format!("++{}", bare.trim_end_matches("++"))
            } else {
                format!("{bare}+1")
            }
        }
    }
}

/// Whether a word is a requirement with extras (`package[extra]`), or an element of an array.
fn is_requirement(word: &str) -> bool {
    word.ends_with(']')
        && !word.contains(['*', '?', '/'])
        && word.split_once('[').is_some_and(|(name, _)| !name.is_empty())
}

/// A word of which nothing is a pattern, otherwise with the same value.
fn quoted(written: &str, parts: &[Piece]) -> String {
    let (home, rest) = match written.split_once('/') {
        Some((home, rest)) if home.starts_with('~') && rest.contains(['*', '?', '[']) => {
            (format!("{home}/"), rest)
        }
        _ => (String::new(), written),
    };
    if !rest.contains(['\'', '"', '\\', '`', '$']) {
        return format!("{home}'{rest}'");
    }
    if !rest.contains(['\'', '"', '\\', '`']) {
        return format!("{home}\"{rest}\"");
    }
    let mut quoted = String::new();
    let mut at = 0;
    for piece in parts {
        if piece.kind == PieceKind::Text && piece.quote == Quote::None {
            quoted.push_str(written.get(at..piece.at).unwrap_or_default());
            for character in piece.text.chars() {
                if "*?[]()|<>=~^#".contains(character) {
                    quoted.push('\\');
                }
                quoted.push(character);
            }
            at = piece.at + piece.text.len();
        }
    }
    quoted.push_str(written.get(at..).unwrap_or_default());
    quoted
}
