//! Checks commands: what they assign, their builtins and redirections. Pure.

use super::builtins::{BashUse, bash_use};
use super::finder::{Finder, Spot, Unit, Use};
use super::names::{Assigned, special};
use super::pieces::{PieceKind, Quote, pieces};
use super::values::{Value, plus_one};
use super::{Sign, TrapKind};
use crate::shell::command_line::CommandLine;
use crate::shell::token::Separator;
use crate::shell::unquote::Unquoted;

/// The longest command that a suggestion repeats, in bytes.
const LONGEST_REPEATED: usize = 100;

impl Finder<'_> {
    /// Checks `NAME=value` before a command, or as one.
    pub(super) fn assignment(&mut self, written: &str, spot: Spot) {
        let Some((target, value)) = written.split_once('=') else { return };
        let name = target.trim_end_matches('+');
        self.assigned_name(name, spot, false);
        if target.ends_with('+') && self.variables.get(name) == Some(&Value::Array) {
            let instead = format!("{name}[1]+=");
            self.add(TrapKind::FirstElement, &format!("{name}+="), &instead, Sign::None, spot);
        }
        self.word(value, Use::Value, spot);
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
            && self.variables.is_from_zero(index.trim_end_matches(']'))
        {
            let instead = format!("{array}[{}]=()", plus_one(index.trim_end_matches(']')));
            let report = format!("{array}: assignment to invalid subscript range");
            let written = raw.join(" ");
            self.add(TrapKind::UnsetElement, &written, &instead, Sign::Report(vec![report]), spot);
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
