//! Checks single words: patterns, `=word`, expansions, unquoted values. Pure.

use super::finder::{Finder, Spot, Use};
use super::names::{bash_variable, special};
use super::pieces::{Parameter, Piece, PieceKind, Quote, pieces, subscript};
use super::shape::Shape;
use super::values::{
    Value, changed_in, default_text, has_default, in_backticks, is_name, plus_one,
};
use super::{Sign, TrapKind};
use crate::shell::options::is_listed;
use crate::shell::programs::is_builtin;

/// How much of what follows a parameter is read, in bytes.
const FOLLOWS: usize = 256;
/// Commands of files, whose unquoted arguments are names of files.
const FILE_COMMANDS: &str = "\
    ls rm cp mv cat wc tar head tail chmod chown chgrp du stat touch gzip gunzip zip unzip file sort diff \
    sha256sum md5sum ln rsync scp";

/// Commands that read stdin or the directory if no file is named.
const READS_WITHOUT: &str = "\
    ls cat wc tail head sort uniq grep egrep fgrep rg du stat tar cut sed awk nl tac od xargs diff";
/// Commands that fail without a file, or do something else.
const NEEDS_FILE: &str = "\
    [ test find tr cp mv ln chmod chown chgrp touch rsync scp unzip gunzip gzip git cd source . mkdir \
    echo printf expr env";
/// Commands that are not given lists, but options.
const NO_LISTS: &str = "grep egrep fgrep rg ag sed awk jq git";

/// Commands that print their arguments.
const PRINTS: &str = "echo printf mkdir";
/// Commands that take each word for what it is.
const NO_WORDS: &str = "[ test cd let return exit eval";

/// Options whose value is a text.
const TEXT_OPTIONS: &str = "\
    -m --message -t --title -b --body --description -d --data --data-raw --json -H --header -e --author \
    --format --pretty -c -C --name -F -A --user-agent -u --user -X --grep -k -K";

impl Finder<'_> {
    /// Checks one word.
    pub(super) fn word(&mut self, written: &str, used: Use, spot: Spot) {
        // Most words hold nothing special.
        if !written.bytes().any(|byte| b"$*?[=~<`(".contains(&byte)) {
            return;
        }
        if self.is_full() {
            return;
        }
        let parts = pieces(written);
        self.is_for_zsh |= !matches!(used, Use::Condition { .. }) && parts.iter().any(is_of_zsh);
        self.whole_word(written, &parts, used, spot);
        for (index, piece) in parts.iter().enumerate() {
            match piece.kind {
                PieceKind::Parameter(parameter) => {
                    let end = piece.at + piece.text.len();
                    let follows = match parts.get(index + 1) {
                        Some(next) if next.at == end && next.kind == PieceKind::Text => {
                            let rest = written.get(end..).unwrap_or_default();
                            rest.get(..rest.floor_char_boundary(FOLLOWS)).unwrap_or_default()
                        }
                        _ => "",
                    };
                    self.parameter(written, piece, &parameter, follows, used, spot);
                }
                PieceKind::Substitution(inside) => {
                    if matches!(used, Use::Argument("[" | "test", _) | Use::Condition { .. })
                        && let Some(program) = inside.trim().strip_prefix("which ")
                        && !self.is_for_zsh
                    {
                        let instead = format!("$(command -v {program})");
                        self.add(TrapKind::Which, piece.text, &instead, Sign::None, spot);
                    }
                    self.nested.push((inside.to_owned(), spot));
                }
                PieceKind::Backticks => self.nested.push((in_backticks(piece.text), spot)),
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
                _ => (literal(written, parts, spot), false),
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
                &literal(written, parts, spot),
                Sign::Report(vec![report]),
                spot,
                false,
            );
        }
        let is_pattern = |text: &str| text.contains(['*', '?', '[']);
        let is_test = written == "[" && used == Use::Command;
        if is_test || !unquoted().any(|piece| is_pattern(piece.text)) {
            return;
        }
        if let Some((written, at)) = self.no_glob.take() {
            self.add(TrapKind::NoGlob, &written, "set -o noglob", Sign::None, at);
        }
        let shape = Shape::of(parts);
        let bad = Sign::ReportOf("bad pattern: ", shape.clone());
        let unmatched = Sign::ReportOf("no matches found: ", shape);
        // For another program the words are expanded after the fork.
        let is_fatal = match used {
            Use::Argument("command", _) => false,
            Use::Argument(command, _) => is_builtin(command) || self.defined.contains(command),
            _ => matches!(used, Use::Loop | Use::Element),
        };
        let literal = literal(written, parts, spot);
        let is_url = written.contains("://");
        // Without a file these read stdin, or the directory; an option lacks its value.
        let is_optional = match used {
            Use::Argument(command, before) => {
                !is_listed(command, READS_WITHOUT)
                    && !is_listed(command, NEEDS_FILE)
                    && (!before.starts_with('-') || is_listed(command, FILE_COMMANDS))
            }
            Use::Command | Use::Target => false,
            _ => true,
        };
        let unmatched_kind = TrapKind::Unmatched { is_optional };
        // A loop over the pattern itself is never meant, nor a test of it; of the words that braces
        // make, others may match.
        let instead = match used {
            Use::Loop | Use::Argument("[" | "test", _) => String::new(),
            _ if !is_url && has_braces(parts) => String::new(),
            _ => literal.clone(),
        };
        let (kind, instead, is_certain) = match used {
            Use::Argument("unset", _) => match written.split_once('[') {
                Some((name, index)) if is_name(name) => {
                    let index = plus_one(index.trim_end_matches(']'));
                    (TrapKind::UnsetElement, format!("{name}[{index}]=()"), true)
                }
                _ => (unmatched_kind, instead.clone(), false),
            },
            _ if is_url || matches!(used, Use::Argument("tr", _)) => {
                (TrapKind::PatternInText, instead.clone(), is_url)
            }
            Use::Argument(..)
                if !instead.is_empty() && (written.starts_with('-') || is_requirement(written)) =>
            {
                (TrapKind::PatternInText, instead.clone(), false)
            }
            _ => (unmatched_kind, instead.clone(), false),
        };
        let whole = format!("unset {written}");
        let written = if kind == TrapKind::UnsetElement { &whole } else { written };
        self.push(
            kind,
            written,
            &instead,
            unmatched,
            Spot { is_inner: spot.is_inner || !is_fatal, ..spot },
            is_certain,
        );
        self.push(TrapKind::BadPattern, written, &literal, bad, spot, false);
    }

    /// Checks a word with a requirement of a version after it, which any shell takes as a redirection
    /// (`foo>=1.0`).
    pub(super) fn requirement(&mut self, name: &str, version: &str, spot: Spot) {
        let whole = format!("{name}{version}");
        let instead = quoted(&whole, &pieces(&whole));
        let spot = Spot { is_inner: true, ..spot };
        let is_pattern = name.contains(['*', '?', '[']);
        if is_pattern {
            let report = Sign::ReportOf("no matches found: ", Shape::of(&pieces(name)));
            self.push(TrapKind::PatternInText, &whole, &instead, report, spot, false);
        }
        let path = version.get(2..).unwrap_or_default();
        let path = path.split(['<', '>']).next().unwrap_or_default();
        let report = Sign::ReportOf("", Shape::of_path(&pieces(path)));
        self.push(TrapKind::EqualsWord, &whole, &instead, report, spot, true);
    }

    pub(super) fn target(&mut self, written: &str, spot: Spot) {
        if written.starts_with("/dev/tcp/") || written.starts_with("/dev/udp/") {
            let sign = Sign::ReportOf("no such file or directory: ", Shape::of(&pieces(written)));
            let spot = Spot { is_inner: true, ..spot };
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
        if self.is_full() {
            return;
        }
        let name = parameter.name;
        let reported = || Sign::Report(vec!["bad substitution".to_owned()]);
        if let Some(instead) = with_dollars(parameter) {
            let reports = ["unrecognized modifier `", "unrecognized modifier"];
            let reports = reports.map(str::to_owned).to_vec();
            let place = parameter.after.rsplit(']').next().unwrap_or_default();
            // What is no modifier of zsh's own.
            let is_set = |it: &&str| {
                (it.len() > 1 || !"aAcehlPqQrstux".contains(*it))
                    && self.variables.get(it).is_some()
            };
            let set =
                place.split([':', '+', '-', '*', ' ']).filter(|it| !it.is_empty()).find(is_set);
            let sign = match set {
                // `:s` replaces, and reports nothing.
                Some(set) if set.starts_with('s') => Sign::None,
                _ => Sign::Report(reports),
            };
            let is_certain = set.is_some();
            return self.push(TrapKind::BashOnly, piece.text, &instead, sign, spot, is_certain);
        }
        if let Some(mut instead) = bash_expansion(parameter) {
            if parameter.after == "@P"
                && !matches!(self.variables.get(name), Some(Value::Text(text)) if !text.contains('\\'))
            {
                instead.clear();
            }
            if parameter.before == "!" && self.variables.get(name) == Some(&Value::Array) {
                instead.clear();
            }
            let sign = if name == "!" { Sign::None } else { reported() };
            return self.add(TrapKind::BashOnly, piece.text, &instead, sign, spot);
        }
        let known = self.variables.get(name).cloned();
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
            if follows.starts_with('[') && subscript(follows).is_none() {
                let instead = word.replace(&format!("${name}["), &format!("${{{name}}}["));
                let report = Sign::Report(vec!["invalid subscript".to_owned()]);
                return self.push(TrapKind::Subscript, word, &instead, report, spot, false);
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
            if self.variables.get(array).is_none()
                && special(array).is_none()
                && !(self.is_set)(array)
            {
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
        if known == Some(Value::Table)
            && let Some((index, rest)) = parameter.index()
            && let Some(key) = without_quotes(index)
            && !self.quoted_keys.iter().any(|(table, _)| table == name)
        {
            let instead = format!("${{{}{name}[{key}]{rest}}}", parameter.before);
            return self.add(TrapKind::QuotedKey, piece.text, &instead, Sign::None, spot);
        }
        self.pattern_in_expansion(parameter, spot);
        if known == Some(Value::Array)
            && let Some((index, rest)) = parameter.index()
        {
            let bare = index.strip_prefix("$((").and_then(|it| it.strip_suffix("))"));
            let squeezed: String =
                bare.unwrap_or(index).chars().filter(|it| !it.is_whitespace()).collect();
            let from_end = format!("#{name}[");
            if squeezed.contains(&from_end) && squeezed.ends_with("-1") {
                let instead = format!("${{{}{name}[-1]{rest}}}", parameter.before);
                return self.add(TrapKind::FirstElement, piece.text, &instead, Sign::None, spot);
            }
            if self.variables.is_from_zero(index) {
                let instead = format!("${{{}{name}[{}]{rest}}}", parameter.before, plus_one(index));
                return self.add(TrapKind::FirstElement, piece.text, &instead, Sign::None, spot);
            }
            if is_number(index) && self.counts_from_zero(name) {
                let instead = format!("${{{}{name}[{}]{rest}}}", parameter.before, plus_one(index));
                return self.push(
                    TrapKind::FirstElement,
                    piece.text,
                    &instead,
                    Sign::Beside,
                    spot,
                    false,
                );
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

    /// Whether an element of this array was found that zsh counts otherwise.
    pub(super) fn counts_from_zero(&self, array: &str) -> bool {
        self.found.iter().any(|found| {
            found.trap.kind == TrapKind::FirstElement && array_of(&found.trap.written) == array
        })
    }

    /// Checks `${name%$pattern}` and the like.
    fn pattern_in_expansion(&mut self, parameter: &Parameter, spot: Spot) {
        let operators = ['%', '#', '/'];
        let Some(pattern) = parameter.after.strip_prefix(operators) else { return };
        let pattern = pattern.trim_start_matches(operators);
        for piece in pieces(pattern) {
            let PieceKind::Parameter(inner) = piece.kind else { continue };
            let is_pattern = |value: &Value| matches!(value, Value::Text(text) if text.contains(['*', '?', '[']));
            let is_known = self.variables.get(inner.name).is_some_and(is_pattern);
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
            Some(name) => match self.variables.get(name.trim_matches(['{', '}'])) {
                Some(Value::Text(text)) => text.as_str(),
                _ => return false,
            },
        };
        let is_word = text.contains(|it: char| it.is_alphabetic())
            && text.chars().all(|it| it.is_alphanumeric() || "_-.".contains(it));
        // As a class of a regular expression.
        let is_range = matches!(text.as_bytes(), [first, b'-', last]
            if first.is_ascii_digit() && last.is_ascii_digit() || first.is_ascii_alphabetic());
        matches!(text, "0" | "" | "@" | "*")
            || text.contains(['^', ':', '.', '!', '[', ';', '"', '\\'])
            || is_range
            || is_word && self.variables.get(text).is_none()
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
            let spot = Spot { is_inner: true, ..spot };
            self.push(TrapKind::NotSplit, piece.text, &split, report, spot, false);
        }
        let is_path = matches!(name, "PATH" | "LD_LIBRARY_PATH" | "MANPATH" | "PYTHONPATH");
        let splits_path =
            is_path && self.variables.separators.as_ref().is_some_and(|it| it.contains(':'));
        let value = match known {
            Some(Value::Text(text)) => text.as_str(),
            Some(Value::Listing) if is_list && !is_listed(command, PRINTS) => {
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
        let separators = self.variables.separators.as_deref().unwrap_or(" \t\n");
        let words: Vec<&str> =
            value.split(|it| separators.contains(it)).filter(|it| !it.is_empty()).collect();
        let is_one = words.len() == 1 && words.first() == Some(&value);
        let is_same_for_echo = command == "echo" && words.join(" ") == value;
        let is_plain = |it: char| it.is_alphanumeric() || "_./:@%+,=~-".contains(it);
        let is_text =
            is_argument && command != "set" && !words.iter().all(|it| it.chars().all(is_plain));
        if is_list && !is_one && !value.is_empty() && !is_same_for_echo && !is_text {
            // One argument with a blank in it may be meant: then the command does what it should.
            let is_plural = name.ends_with(['s', 'S'])
                || name.to_ascii_lowercase().ends_with("list")
                || words.iter().all(|it| it.starts_with('-'));
            let is_certain = !is_argument
                || matches!(command, "set" | "echo")
                || is_plural
                || is_option(value)
                || self.uses_positional && self.defined.contains(command);
            let sign = if is_certain { Sign::None } else { Sign::Failure };
            return self.push(TrapKind::NotSplit, piece.text, &split, sign, spot, is_certain);
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
    pub(super) fn arithmetic(&mut self, inside: &str, spot: Spot) {
        self.octal_variable(inside, spot);
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
        // In the head of a loop they follow the first round.
        if !inside.contains(';') {
            for name in changed_in(inside) {
                self.variables.set(name, Value::Scalar);
            }
        }
        // `i=0` in the head of a loop.
        let inside = inside.trim_start_matches("((").trim_end_matches("))");
        for part in inside.split([';', ',']) {
            if let Some((name, "0")) =
                part.split_once(">=").map(|(name, end)| (name.trim(), end.trim()))
                && is_name(name)
                && inside.contains(';')
            {
                self.variables.set(name, Value::Text("0".to_owned()));
                continue;
            }
            if let Some((name, value)) = part.split_once('=')
                && is_name(name.trim())
                && !value.starts_with('=')
                && !name.ends_with(['+', '-', '*', '/', '%'])
            {
                let value = value.trim();
                let is_number = !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
                let value = if is_number { Value::Text(value.to_owned()) } else { Value::Scalar };
                self.variables.set(name.trim(), value);
            }
        }
    }

    /// Checks for a variable that is an octal number in bash.
    fn octal_variable(&mut self, inside: &str, spot: Spot) {
        let mut end = 0;
        for name in inside.split(|it: char| !it.is_ascii_alphanumeric() && it != '_') {
            // What separates names is one character.
            let at = inside.get(end..).and_then(|rest| rest.find(name)).map_or(end, |it| end + it);
            end = at + name.len();
            let is_octal = matches!(
                self.variables.get(name), Some(Value::Text(text)) if is_octal(text));
            let (before, rest) = inside.split_at(at);
            let after = rest.get(name.len()..).unwrap_or_default();
            let bare = before.strip_suffix('$').unwrap_or(before);
            let is_assigned = after.trim_start().starts_with('=') && !after.contains("==");
            if is_octal && !is_assigned && !bare.ends_with(['#', '{', '[']) {
                let trimmed = |text: &str| {
                    text.trim_start_matches("((").trim_end_matches("))").trim().to_owned()
                };
                let (written, instead) =
                    (trimmed(inside), trimmed(&format!("{bare}8#${name}{after}")));
                return self.add(TrapKind::Octal, &written, &instead, Sign::None, spot);
            }
        }
    }

    /// Checks octal numbers, and elements of arrays as in `a[0] + 1`.
    fn elements(&mut self, text: &str, spot: Spot) {
        let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '.' | '#');
        if let Some(number) = text.split(|it| !is_part(it)).find(|word| is_octal(word)) {
            let instead = format!("8#{}", number.trim_start_matches('0'));
            self.add(TrapKind::Octal, number, &instead, Sign::None, spot);
        }
        for (at, _) in text.match_indices('[') {
            let (before, rest) = text.split_at(at);
            let start = before.rfind(|it: char| !it.is_ascii_alphanumeric() && it != '_');
            let name = before.get(start.map_or(0, |at| at + 1)..).unwrap_or_default();
            let index = subscript(rest).map(|(index, _)| index);
            if let Some(index) = index
                && self.variables.get(name) == Some(&Value::Array)
                && self.variables.is_from_zero(index)
            {
                let instead = format!("{name}[{}]", plus_one(index));
                let written = format!("{name}[{index}]");
                self.add(TrapKind::FirstElement, &written, &instead, Sign::None, spot);
            }
        }
    }
}

/// Whether a piece has a meaning in zsh alone, so that the text was written for zsh, if for bash too:
/// flags and marks of expansions, glob qualifiers, names of zsh's own.
fn is_of_zsh(piece: &Piece) -> bool {
    const QUALIFIERS: &[&str] = &[
        "(N)", "(.)", "(/)", "(@)", "(*)", "(D)", "(N.)", "(.N)", "(N/)", "(/N)", "(DN)", "(ND)",
        "(om)", "(On)", "(om[1])",
    ];
    match piece.kind {
        PieceKind::Parameter(parameter) => {
            let is_marked = parameter.before.contains(['(', '=', '~', '^', '+']);
            is_marked
                || matches!(
                    parameter.name,
                    "pipestatus"
                        | "match"
                        | "mbegin"
                        | "mend"
                        | "zsh_eval_context"
                        | "ZSH_VERSION"
                        | "ZSH_NAME"
                        | "ZSH_EVAL_CONTEXT"
                        | "ZDOTDIR"
                        | "BASH_VERSION"
                )
        }
        PieceKind::Text if piece.quote == Quote::None => {
            QUALIFIERS.iter().any(|it| piece.text.ends_with(it))
                || ["$=", "$~", "$^", "$+"].iter().any(|it| piece.text.contains(it))
        }
        _ => false,
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
        "@P" => format!("${{(e){name}{index}}}"),
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
        || next == '-'
            && !matches!(letter, 'r' | 't' | 'h' | 'e')
            && letters.next().is_some_and(|it| it.is_ascii_alphanumeric());
    // `git show $sha:a.txt`
    let is_name = next == '.' && !word.contains('/') && !matches!(letter, 'r' | 'e' | 'h' | 't');
    is_text || is_name
}

/// Whether a text begins with an option.
fn is_option(text: &str) -> bool {
    let letters = text.trim_start_matches('-');
    letters.len() < text.len() && letters.starts_with(|it: char| it.is_ascii_alphabetic())
}

/// Whether a word is a requirement with extras (`package[extra]`), or an element of an array.
fn is_requirement(word: &str) -> bool {
    word.ends_with(']')
        && !word.contains(['*', '?', '/'])
        && word.split_once('[').is_some_and(|(name, _)| !name.is_empty())
}

/// Whether bash takes this for an octal number, other than as a decimal one.
pub(super) fn is_octal(word: &str) -> bool {
    word.len() > 1
        && word.starts_with('0')
        && word.bytes().all(|it| (b'0'..=b'7').contains(&it))
        && word.trim_start_matches('0').len() > 1
}

/// The array of which a text names an element.
pub(super) fn array_of(element: &str) -> &str {
    element.trim_start_matches(['$', '{', '#', '"']).split('[').next().unwrap_or_default()
}

/// A key of a table that is in quotes, without them.
pub(super) fn without_quotes(key: &str) -> Option<&str> {
    let inside = ['"', '\''].iter().find_map(|it| key.strip_prefix(*it)?.strip_suffix(*it))?;
    (!inside.contains(['"', '\'', '\\', ']'])).then_some(inside)
}

pub(super) fn is_number(index: &str) -> bool {
    !index.is_empty() && index.bytes().all(|it| it.is_ascii_digit())
}

/// `${name:offset:length}` with `$` before the names in offset and length, if there are any that a
/// modifier could begin.
fn with_dollars(parameter: &Parameter) -> Option<String> {
    if !parameter.before.is_empty() {
        return None;
    }
    let (index, rest) = match subscript(parameter.after) {
        Some((index, rest)) => (format!("[{index}]"), rest),
        None => (String::new(), parameter.after),
    };
    let places = rest.strip_prefix(':')?;
    let is_part = |it: char| it.is_ascii_alphanumeric() || "_+-*: ".contains(it);
    let is_letter = |it: char| it.is_ascii_alphabetic();
    if !places.chars().all(is_part)
        || !places.starts_with(|it: char| it.is_ascii_alphanumeric())
        || !places.split(':').any(|place| place.starts_with(is_letter))
    {
        return None;
    }
    let mut instead = String::new();
    let mut before = ':';
    for character in places.chars() {
        let is_begun = before.is_ascii_alphanumeric() || before == '_';
        if !is_begun && (is_letter(character) || character == '_') {
            instead.push('$');
        }
        instead.push(character);
        before = character;
    }
    Some(format!("${{{}{index}:{instead}}}", parameter.name))
}

/// The word with its characters as they are, for a place within quotes too.
fn literal(written: &str, parts: &[Piece], spot: Spot) -> String {
    // A quoted brace would make one word of several.
    if spot.is_script || has_braces(parts) {
        escaped(written, parts)
    } else {
        quoted(written, parts)
    }
}

/// Whether braces make several words of one.
fn has_braces(parts: &[Piece]) -> bool {
    parts.iter().any(|piece| {
        let text = piece.text;
        piece.kind == PieceKind::Text
            && piece.quote == Quote::None
            && text.contains('{')
            && (text.contains(',') || text.contains(".."))
    })
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
    escaped(written, parts)
}

fn escaped(written: &str, parts: &[Piece]) -> String {
    let mut escaped = String::new();
    let mut at = 0;
    let in_home = written.starts_with("~/");
    for piece in parts {
        if piece.kind == PieceKind::Text && piece.quote == Quote::None {
            escaped.push_str(written.get(at..piece.at).unwrap_or_default());
            for (index, character) in piece.text.char_indices() {
                let is_first = piece.at + index == 0;
                let is_special = if is_first { "*?[]()|<>=~^#" } else { "*?[]()|<>" };
                if is_special.contains(character) && !(is_first && in_home) {
                    escaped.push('\\');
                }
                escaped.push(character);
            }
            at = piece.at + piece.text.len();
        }
    }
    escaped.push_str(written.get(at..).unwrap_or_default());
    escaped
}
