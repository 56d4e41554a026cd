//! What a text makes of the variables that it sets. Pure.

use std::collections::HashMap;

use super::pieces::{Parameter, Piece, PieceKind, Quote, pieces, subscript};
use crate::shell::command_line::CommandLine;
use crate::shell::syntax::{Simple, simple_commands};
use crate::shell::token::{Separator, TokenKind, WordRole};
use crate::shell::unquote::unquote;

/// What is known of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
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
    pub(super) fn is_array(&self) -> bool {
        matches!(self, Value::Array | Value::Table)
    }
}

/// The variables that a text has set so far.
#[derive(Debug, Default)]
pub(super) struct Variables {
    known: HashMap<String, Value>,
    /// What each change has replaced, in order.
    replaced: Vec<(String, Option<Value>)>,
    /// The value of IFS, if the text sets it.
    pub(super) separators: Option<String>,
}

impl Variables {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.known.get(name)
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        let replaced = self.known.insert(name.to_owned(), value);
        self.replaced.push((name.to_owned(), replaced));
    }

    /// The place to which [`Variables::restore`] goes back, at the start of a subshell.
    pub(super) fn mark(&self) -> usize {
        self.replaced.len()
    }

    /// Takes back what was set since a mark, at the end of a subshell.
    pub(super) fn restore(&mut self, mark: usize) {
        while self.replaced.len() > mark
            && let Some((name, value)) = self.replaced.pop()
        {
            match value {
                Some(value) => self.known.insert(name, value),
                None => self.known.remove(&name),
            };
        }
    }

    /// Remembers what a text assigns.
    pub(super) fn assign(&mut self, written: &str) {
        let Some((name, value)) = written.split_once('=') else { return };
        if name.contains('[') {
            let name = name.split('[').next().unwrap_or_default();
            if self.get(name).is_none() {
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
        let longer = match (self.get(name), self.value_of(value)) {
            (Some(Value::Text(old)), Value::Text(new)) => Value::Text(format!("{old}{new}")),
            (Some(old), _) if old.is_array() => return,
            _ => Value::Scalar,
        };
        self.set(name, longer);
    }

    /// What a value without its name is.
    pub(super) fn value_of(&self, value: &str) -> Value {
        let word = unquote(value);
        if word.expands_at.is_none() {
            return Value::Text(word.text);
        }
        let parts = pieces(value);
        let inside = match parts.as_slice() {
            [Piece { kind: PieceKind::Substitution(inside), .. }] => Some((*inside).to_owned()),
            [piece @ Piece { kind: PieceKind::Backticks, .. }] => Some(in_backticks(piece.text)),
            _ => None,
        };
        if let Some(inside) = inside {
            if let Some(text) = document_of_cat(&inside) {
                return Value::Text(text);
            }
            return if is_listing(&inside) { Value::Listing } else { Value::Scalar };
        }
        let known = |parameter: &Parameter| match self.get(parameter.name) {
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

    /// Whether an index is 0, or a variable that begins at 0.
    pub(super) fn is_from_zero(&self, index: &str) -> bool {
        let bare = index.trim_matches(['$', '{', '}', '(', ')', ' ']);
        let is_zero = |text: &str| text.trim() == "0";
        let bare = bare.trim_end_matches("++");
        is_zero(bare)
            || is_name(bare) && matches!(self.get(bare), Some(Value::Text(value)) if is_zero(value))
    }
}

/// Whether an expansion has a text for the case that the parameter is not set.
pub(super) fn has_default(after: &str) -> bool {
    let rest = subscript(after).map_or(after, |(_, rest)| rest);
    rest.trim_start_matches(':').starts_with(['-', '+', '='])
}

/// The default of `${name:-text}`, if it has no expansion.
pub(super) fn default_text(after: &str) -> Option<String> {
    let text = after.strip_prefix(":-").or_else(|| after.strip_prefix('-'))?;
    unquote(text).fixed().map(str::to_owned)
}

/// What a loop variable is in the first round.
pub(super) fn loop_value(words: &[&str]) -> Value {
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
            let is_plain = !first.contains(['*', '?', '[', '{']);
            match with_blanks {
                Some(word) => Value::Text(word.clone()),
                None if is_plain => Value::Text(first),
                None => Value::Scalar,
            }
        }
        None => Value::Scalar,
    }
}

/// The text of a `cat` with a here-document, if it is printed as it is written.
fn document_of_cat(inside: &str) -> Option<String> {
    if !inside.trim_start().starts_with("cat <<") {
        return None;
    }
    let line = CommandLine::parse(inside);
    let kinds: Vec<_> = line.lexed().tokens.iter().map(|token| token.kind).collect();
    let [
        TokenKind::Word(WordRole::Command),
        TokenKind::Redirection,
        TokenKind::Word(WordRole::Target),
        TokenKind::Separator(Separator::Newline),
        TokenKind::HereDocument,
        rest @ ..,
    ] = kinds.as_slice()
    else {
        return None;
    };
    if !rest.iter().all(|kind| matches!(kind, TokenKind::Separator(Separator::Newline))) {
        return None;
    }
    let [_, operator, delimiter, _, document, ..] = line.lexed().tokens.as_slice() else {
        return None;
    };
    let text = line.written(&document.span).trim_end_matches('\n');
    let text = text.rsplit_once('\n').map_or("", |(text, _)| text);
    let is_quoted = line.written(&delimiter.span).contains(['\'', '"', '\\']);
    let is_plain = is_quoted || !text.contains(['$', '`']) && !text.contains("\\\\");
    (is_plain && line.written(&operator.span) == "<<").then(|| text.to_owned())
}

/// Whether a command in a substitution usually prints more than one word.
fn is_listing(inside: &str) -> bool {
    let line = CommandLine::parse(inside);
    let commands = simple_commands(&line);
    let Some((only, filters)) = commands.split_first() else { return false };
    let keeps_lines = |it: &Simple| matches!(it.program(), Some("sort" | "uniq"));
    if !filters.iter().all(keeps_lines) {
        return false;
    }
    let words: Vec<&str> = only.core().iter().map(|word| word.text.as_str()).collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    match only.program() {
        Some("git") => has(&["ls-files", "--name-only", "branch", "tag", "for-each-ref"]),
        Some("docker") => has(&["ps", "images"]) && has(&["-q", "-aq", "-qa"]),
        Some("echo") => words.len() > 2 || words.get(1).is_some_and(|word| word.contains(' ')),
        Some("printf") => words.iter().any(|word| word.contains("\\n") || word.contains(' ')),
        Some("grep" | "rg") => words.iter().any(|word| {
            word.starts_with('-') && !word.starts_with("--") && word.contains(['l', 'L'])
        }),
        Some("find" | "fd") => !has(&["-quit"]),
        Some("ls") => words
            .iter()
            .skip(1)
            .all(|word| word.ends_with('/') || word.contains('*') || word.starts_with('-')),
        Some("jq") => words.iter().any(|word| word.contains("[]")),
        Some("cat" | "seq") => true,
        _ => false,
    }
}

/// The command between backticks, without their escapes.
pub(super) fn in_backticks(written: &str) -> String {
    let inside = written.strip_prefix('`').unwrap_or(written);
    let inside = inside.strip_suffix('`').unwrap_or(inside);
    inside.replace("\\`", "`").replace("\\$", "$").replace("\\\\", "\\")
}

/// The variables that an arithmetic expression changes: by `++` and `--`, or by an assignment.
pub(super) fn changed_in(expression: &str) -> Vec<&str> {
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let mut changed = Vec::new();
    for operator in ["++", "--", "+=", "-=", "*=", "/=", "%="] {
        for (at, _) in expression.match_indices(operator) {
            let (before, after) = expression.split_at(at);
            let after = after.get(operator.len()..).unwrap_or_default().trim_start();
            let start = before.trim_end().rfind(|it| !is_part(it)).map_or(0, |at| at + 1);
            let end = after.find(|it| !is_part(it)).unwrap_or(after.len());
            changed.extend(before.trim_end().get(start..).filter(|name| is_name(name)));
            changed.extend(after.get(..end).filter(|name| is_name(name)));
        }
    }
    changed
}

/// The value of a word, with the escapes of `$'…'`.
fn decoded(word: &str) -> String {
    unquote(word).text
}

/// The index after one that counts from 0.
pub(super) fn plus_one(index: &str) -> String {
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

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
