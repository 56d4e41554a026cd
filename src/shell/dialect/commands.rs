//! Checks commands: what they assign, their builtins and redirections. Pure.

use super::builtins::{BashUse, bash_use};
use super::finder::{Finder, Spot, Unit, Use};
use super::names::{Assigned, special};
use super::pieces::{PieceKind, Quote, pieces};
use super::values::{Value, plus_one};
use super::words::{is_number, is_octal, without_quotes};
use super::{Sign, TrapKind};
use crate::shell::command_line::CommandLine;
use crate::shell::token::Separator;
use crate::shell::unquote::Unquoted;

/// How many tables are looked for in the text.
const MOST_TABLES: usize = 16;

/// The longest command that a suggestion repeats, in bytes.
const LONGEST_REPEATED: usize = 100;

impl Finder<'_> {
    /// Checks `NAME=value` before a command, or as one.
    pub(super) fn assignment(&mut self, written: &str, spot: Spot) {
        let Some((target, value)) = written.split_once('=') else { return };
        let name = target.trim_end_matches('+');
        if !self.quoted_key(name, target, value, spot) {
            self.assigned_name(name, spot, false);
        }
        if target.ends_with('+') && self.variables.get(name) == Some(&Value::Array) {
            let instead = format!("{name}[1]+=");
            self.add(TrapKind::FirstElement, &format!("{name}+="), &instead, Sign::None, spot);
        }
        self.word(value, Use::Value, spot);
    }

    /// Checks the key of an element of a table, and tells whether there is one. The quotes do no harm if
    /// the text always reads the key in quotes.
    fn quoted_key(&mut self, element: &str, target: &str, value: &str, spot: Spot) -> bool {
        let Some((name, index)) = element.split_once('[') else { return false };
        let Some(key) = index.strip_suffix(']').and_then(without_quotes) else { return false };
        if self.variables.get(name) != Some(&Value::Table) {
            return false;
        }
        let known = self.quoted_keys.iter().find(|(table, _)| table == name);
        let is_read = match known {
            Some((_, is_read)) => *is_read,
            None if self.quoted_keys.len() >= MOST_TABLES => false,
            None => {
                let is_read = reads_without_quotes(self.text, name);
                self.quoted_keys.push((name.to_owned(), is_read));
                is_read
            }
        };
        if is_read {
            let is_plain = |it: char| it.is_alphanumeric() || "_${}.-/:".contains(it);
            let (written, instead) = if key.chars().all(is_plain) {
                (
                    format!("{target}="),
                    format!("{}=", target.replacen(index, &format!("{key}]"), 1)),
                )
            } else {
                let quoted = index.trim_end_matches(']');
                (format!("{target}={value}"), format!("{name}+=({quoted} {value})"))
            };
            self.add(TrapKind::QuotedKey, &written, &instead, Sign::None, spot);
        }
        true
    }

    /// Checks `NAME=([0]=x [1]=y)`.
    pub(super) fn elements_by_index(&mut self, name: &str, elements: &[&str], spot: Spot) {
        let mut values = String::new();
        for (place, element) in elements.iter().enumerate() {
            let Some((index, value)) = element.split_once("]=") else { return };
            if index.strip_prefix('[') != Some(place.to_string().as_str()) {
                return;
            }
            if place > 0 {
                values.push(' ');
            }
            values.push_str(value);
        }
        if values.is_empty() {
            return;
        }
        let instead = format!("{name}=({values})");
        let written = format!("{name}=({})", elements.join(" "));
        let report = "bad subscript for direct array assignment: 0".to_owned();
        self.add(TrapKind::FirstElement, &written, &instead, Sign::Report(vec![report]), spot);
    }

    /// Checks a search for what bash's `time` prints.
    pub(super) fn times(&mut self, unit: &Unit, spot: Spot) {
        let name = unit.words.first().map_or("", |(name, _)| *name);
        if matches!(name, "grep" | "egrep" | "awk" | "sed" | "rg")
            && unit.words.iter().skip(1).any(|(word, _)| {
                ["real", "user", "sys"].contains(&word.trim_matches(['"', '\'', '^']))
            })
        {
            self.add(TrapKind::BashOnly, "real of time", "", Sign::None, spot);
        }
    }

    /// Checks the target of an assignment: a name, or an element of an array.
    pub(super) fn assigned_name(&mut self, target: &str, spot: Spot, is_array: bool) {
        let Some((name, index)) = target.split_once('[') else {
            return self.special_name(target, spot, is_array);
        };
        let index = index.trim_end_matches(']');
        if self.variables.get(name).is_some_and(|known| *known == Value::Table) {
            return;
        }
        if index.contains("#") && index.contains(name) {
            if self.variables.get(name).is_some_and(Value::is_array) {
                let instead = format!("{name}[${{#{name}[@]}}+1]=");
                self.add(TrapKind::FirstElement, &format!("{target}="), &instead, Sign::None, spot);
            }
        } else if is_number(index) && index != "0" && self.counts_from_zero(name) {
            let instead = format!("{name}[{}]=", plus_one(index));
            let written = format!("{target}=");
            self.push(TrapKind::FirstElement, &written, &instead, Sign::Beside, spot, false);
        } else if self.variables.is_from_zero(index) {
            let report = format!("{name}: assignment to invalid subscript range");
            let instead = format!("{name}[{}]=", plus_one(index));
            let written = format!("{target}=");
            let is_certain = self.variables.get(name).is_some();
            let sign = Sign::Report(vec![report]);
            self.push(TrapKind::FirstElement, &written, &instead, sign, spot, is_certain);
        }
    }

    pub(super) fn special_name(&mut self, name: &str, spot: Spot, is_array: bool) {
        let Some(found) = special(name) else { return };
        let reports = vec![
            format!("read-only variable: {name}"),
            format!("{name}: attempt to set slice of associative array"),
            "bad set of key/value pairs for associative array".to_owned(),
            format!("{name}: inconsistent type for assignment"),
            format!("{name}: can't change type of autoloaded parameter"),
        ];
        let is_refused = matches!(found.assigned, Assigned::Refused | Assigned::RefusedText);
        let kept = Spot { is_inner: true, ..spot };
        let values = Sign::Report(vec!["invalid value: ".to_owned()]);
        let instead = format!("my_{}", name.to_lowercase());
        let kind = TrapKind::SpecialName(found.meaning);
        self.push(kind, name, &instead, values, kept, false);
        self.push(kind, name, &instead, Sign::Report(reports), spot, is_refused);
        let is_measured =
            ["N+=", "{#N}", "{N:"].iter().any(|form| self.text.contains(&form.replace('N', name)));
        let (sign, is_certain) = match found.assigned {
            Assigned::PathLost => (Sign::NotFound, !is_array),
            Assigned::Silent => (Sign::None, true),
            Assigned::Positional if self.uses_positional => (Sign::None, true),
            Assigned::Array if !is_array && is_measured => (Sign::None, true),
            Assigned::RefusedText if is_array => (Sign::None, true),
            _ => return,
        };
        self.push(kind, name, &instead, sign, spot, is_certain);
    }

    pub(super) fn builtin(
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
            && words.len() > 2
            && words.last().is_some_and(|word| matches!(word.text.as_str(), "EXIT" | "0"))
            && let Some(script) = words.get(1).filter(|it| !matches!(it.text.as_str(), "-" | ""))
        {
            let cleans =
                ["rm ", "kill ", "clean", "rmdir "].iter().any(|it| script.text.contains(it));
            self.exit_trap(cleans, spot);
        }
        if name == "printf" {
            self.printed_octal(words, spot);
        }
        if let ("set", [_, flag]) = (name, words) {
            match flag.text.as_str() {
                "-f" => self.no_glob = Some((raw.join(" "), spot)),
                "+f" => self.no_glob = None,
                _ => {}
            }
        }
        if name == "unset"
            && let Some(element) = words.last().and_then(Unquoted::fixed)
            && let Some((array, index)) = element.split_once('[')
            && raw.last().is_some_and(|word| word.contains(['\'', '"', '\\']))
            && (self.variables.is_from_zero(index.trim_end_matches(']'))
                || is_number(index.trim_end_matches(']'))
                    && self.variables.get(array) == Some(&Value::Array))
        {
            let is_first = self.variables.is_from_zero(index.trim_end_matches(']'));
            let instead = format!("{array}[{}]=()", plus_one(index.trim_end_matches(']')));
            let report = format!("{array}: assignment to invalid subscript range");
            let written = raw.join(" ");
            let sign = if is_first { Sign::Report(vec![report]) } else { Sign::None };
            let spot = Spot { is_inner: true, ..spot };
            self.add(TrapKind::UnsetElement, &written, &instead, sign, spot);
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

    /// Checks a trap on EXIT. That of a function matters to the text if it cleans up, or replaces
    /// another one.
    fn exit_trap(&mut self, cleans: bool, spot: Spot) {
        if spot.is_inner {
            return;
        }
        if !spot.in_function {
            self.has_exit_trap = true;
        } else if self.exit_trap_of_function.is_none() {
            self.exit_trap_of_function = Some(spot);
        }
        if let Some(at) = self.exit_trap_of_function
            && (self.has_exit_trap || cleans && spot.in_function)
        {
            self.add(TrapKind::TrapOfFunction, "trap EXIT", "setopt posix_traps", Sign::None, at);
        }
    }

    /// Checks the numbers that printf gets.
    fn printed_octal(&mut self, words: &[Unquoted], spot: Spot) {
        let Some(format) = words.get(1) else { return };
        let directives = format.text.matches('%').count();
        let numbers = ["%d", "%i", "%u", "%x", "%X"].map(|it| format.text.matches(it).count());
        if directives == 0 || numbers.iter().sum::<usize>() != directives {
            return;
        }
        if let Some(number) = words.iter().skip(2).find(|word| is_octal(&word.text)) {
            let instead = format!("$((8#{}))", number.text.trim_start_matches('0'));
            self.add(TrapKind::Octal, &number.text, &instead, Sign::None, spot);
        }
    }

    /// Checks the escapes that echo replaces.
    pub(super) fn echo(&mut self, words: &[Unquoted], raw: &[&str], spot: Spot) {
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
                        if let Some(Value::Text(value)) = self.variables.get(parameter.name) {
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
    pub(super) fn several_redirections(
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
}

/// Whether a text reads elements of a table by keys without quotes, or its keys.
fn reads_without_quotes(text: &str, table: &str) -> bool {
    let (element, keys) = (format!("{{{table}["), format!("{{!{table}["));
    let mut elements = text.match_indices(&element);
    text.contains(&keys)
        || elements.any(|(at, _)| {
            let key = text.get(at + element.len()..).unwrap_or_default();
            !key.starts_with(['"', '\'', '@', '*'])
        })
}

/// A command with the last redirection of each stream. The files of the others are emptied before it,
/// or or never read.
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
        if matches!(next, '0' | 'u' | 'U')
            || next == 'x' && characters.clone().next().is_some_and(is_digit)
        {
            return Some(format!("\\{next}"));
        }
    }
    None
}
