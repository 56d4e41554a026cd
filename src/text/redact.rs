//! Removes secrets from text before it is stored: commands in the database, logs, text of agents.
//!
//! A secret is recognised by its own shape (`ghp_…`, a JWT, a private key block), by what precedes
//! it (`--password`, `API_KEY=`, `Authorization:`), or because the caller knows its value. Only the
//! value is replaced, so that the text stays readable. A doubtful value is replaced: a lost word
//! costs less than a leaked secret.
//!
//! Limits: approximates the syntax of shells, JSON and YAML without parsing; does not find a secret
//! without a shape, a name or a known value. Linear in the text's length: no rule backtracks, and
//! the number of passes is fixed. Pure.

mod names;
mod rules;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use self::names::Sureness;
use self::rules::{
    ARGUMENTS, BEFORE_A_WORD, COUNTING_NAME, Extent, MESSAGE_OPTIONS, Needles, OPTION_NAME,
    OPTION_NAME_WORDS, OPTIONS_OF, PATTERN_OPTIONS, PATTERNS, READERS, SECRET_NAME,
    SECRET_NAME_WORDS, WRITER, WRITTEN_LINE,
};
use super::quoting::{Quotes, find_end, opening_quote, quoted_end, word_end};

/// Replaces a secret.
pub(crate) const PLACEHOLDER: &str = "[redacted]";

/// Known values shorter than this are too likely to be ordinary words.
const MIN_LITERAL_CHARS: usize = 8;

/// How often to repeat the rules: a replacement may reveal another secret. Ordinary text is stable
/// after one pass.
const MAX_PASSES: usize = 4;

/// How often the length of the text may be read in values that hold others, so that the time stays
/// linear.
const MAX_TIMES_READ: usize = 16;

/// The greatest length of a value that is a number with a few words.
const MAX_COUNT_BYTES: usize = 100;

/// A rule that is compiled when a text first contains one of its words: most commands
/// contain none, and all rules together cost milliseconds and megabytes.
struct Rule {
    /// The places of its words among [`WORDS`].
    words: Vec<usize>,
    source: String,
    compiled: OnceLock<Regex>,
}

impl Rule {
    fn new(words: Needles, source: impl Into<String>) -> Rule {
        let words = words.iter().filter_map(|word| WORDS.places.get(word).copied()).collect();
        Rule { words, source: source.into(), compiled: OnceLock::new() }
    }

    /// The rule, if it can match a text with these words.
    fn regex_if_possible(&self, present: &Present) -> Option<&Regex> {
        let may_match = self.words.iter().any(|word| present.0.get(*word) == Some(&true));
        may_match.then(|| self.regex())
    }

    /// Cannot fail, since the rules are constants that the tests compile. Word boundaries are
    /// ASCII: Unicode boundaries would prevent the regex engine's fast path.
    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            let source = self.source.replace("{readers}", READERS).replace("{writer}", WRITER);
            Regex::new(&source.replace(r"\b", r"(?-u:\b)"))
                .unwrap_or_else(|error| unreachable!("rule {}: {error}", self.source))
        })
    }
}

/// The words of all rules, for which a text is read once.
struct Words {
    finder: AhoCorasick,
    places: HashMap<&'static str, usize>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let of_patterns = PATTERNS.iter().chain(BEFORE_A_WORD).map(|(words, _)| *words);
    let of_options = OPTIONS_OF.iter().map(|(words, ..)| *words);
    let of_names = [SECRET_NAME_WORDS, OPTION_NAME_WORDS];
    let all = of_patterns.chain(of_options).chain(of_names).flatten();
    let mut words: Vec<&'static str> = all.copied().collect();
    words.sort_unstable();
    words.dedup();
    // A DFA of them takes 0.9 MiB, for texts of a few KiB.
    let finder = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(&words)
        .unwrap_or_else(|error| unreachable!("the words of the rules: {error}"));
    let places = words.into_iter().enumerate().map(|(place, word)| (word, place)).collect();
    Words { finder, places }
});

/// Which of [`WORDS`] a text has.
struct Present(Vec<bool>);

impl Present {
    fn find(text: &str) -> Present {
        let mut present = vec![false; WORDS.places.len()];
        for found in WORDS.finder.find_overlapping_iter(&fold(text)) {
            if let Some(word) = present.get_mut(found.pattern().as_usize()) {
                *word = true;
            }
        }
        Present(present)
    }
}

/// The text in lower case, as the regex engine sees it: beyond ASCII only the Kelvin sign
/// and the long s are letters of a rule's words.
fn fold(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        letter => letter.to_ascii_lowercase(),
    });
    letters.collect()
}

struct Rules {
    shapes: Vec<Rule>,
    before_a_word: Vec<Rule>,
    options: Vec<(Rule, Rule, Extent)>,
    option: Rule,
    assignment: Rule,
    line_entry: Rule,
    inline_entry: Rule,
    written_entry: Rule,
    quoted_entry: Rule,
    said: Rule,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rules = |table: &[(Needles, &str)]| {
        let rules = table.iter().map(|(words, rule)| Rule::new(words, *rule));
        rules.collect()
    };
    let of_names = |rule| Rule::new(SECRET_NAME_WORDS, rule);
    Rules {
        shapes: rules(PATTERNS),
        before_a_word: rules(BEFORE_A_WORD),
        options: OPTIONS_OF
            .iter()
            .map(|(words, program, option, extent)| {
                let arguments = Rule::new(words, format!("(?:{program})({ARGUMENTS})"));
                (arguments, Rule::new(words, *option), *extent)
            })
            .collect(),
        option: Rule::new(OPTION_NAME_WORDS, format!(r"(?i)--?({OPTION_NAME})(?:=|\s+\\?\s*)")),
        assignment: of_names(format!(r"(?i){SECRET_NAME}(?:\[[^\]\s]*\])?\+?=")),
        line_entry: of_names(format!(
            r#"(?im)^(?:[\w./-]+[:-]\d+[:-])?[ \t+<>-]*(?:- |export )?["']?{SECRET_NAME}["']?(?:[ \t]*:[ \t]*|[ \t]+=[ \t]*)"#
        )),
        inline_entry: of_names(format!(
            r#"(?i)(?:[{{,][ \t]*|["']){SECRET_NAME}\\?["']?[ \t]*:[ \t]*"#
        )),
        written_entry: of_names(format!(
            r#"(?i){WRITTEN_LINE}[ \t]*(?:- |export )?{SECRET_NAME}(?:[ \t]*:[ \t]*|[ \t]+=[ \t]*)"#
        )),
        quoted_entry: of_names(format!(
            r#"(?i){SECRET_NAME}\\?["']?\]?(?::[ \t]*[\w.\[\]<>]+)?[ \t]*(?:=>|:=|=|:)[ \t]*(?:[bfru@N]|\[\]byte\(|Buffer\.from\(|Secret(?:Str|String)?\(|String::from\(|Some\()?"#
        )),
        said: of_names(format!(
            r#"(?i)(?:^|[^\w./-])((?:(?:access|api|auth|license|private|secret)[ \t])?{SECRET_NAME})["'`]?(?:([ \t]*(?::|=>|->|=)[ \t]+)|[ \t]+(?:(?:is|was)[ \t]+)?)["'`]?([\w+/=~%.-]{{12,}})"#
        )),
    }
});

/// Replaces secrets by [`PLACEHOLDER`].
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    literals: Vec<String>,
}

impl Redactor {
    /// A redactor that also replaces the given values anywhere. Values of less than 8
    /// characters are ignored: they are too often part of ordinary words.
    pub fn new(literals: impl IntoIterator<Item = String>) -> Self {
        let mut literals: Vec<String> = literals
            .into_iter()
            .map(|literal| literal.trim().to_owned())
            .filter(|literal| literal.chars().count() >= MIN_LITERAL_CHARS)
            .filter(|literal| !PLACEHOLDER.contains(literal.as_str()))
            .collect();
        literals.sort();
        literals.dedup();
        Redactor { literals }
    }

    /// The text without its secrets; borrowed if there are none. Redacting it again changes
    /// nothing. A text that is not stable after four passes consists of nested secrets and is
    /// replaced entirely.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(mut redacted) = self.pass(text) else {
            return Cow::Borrowed(text);
        };
        for _ in 1..MAX_PASSES {
            match self.pass(&redacted) {
                Some(next) => redacted = next,
                None => return Cow::Owned(redacted),
            }
        }
        Cow::Owned(PLACEHOLDER.to_owned())
    }

    /// One pass of all rules; `None` if it changes nothing.
    fn pass(&self, text: &str) -> Option<String> {
        let present = Present::find(text);
        let mut secrets = shaped(text, &present);
        for literal in &self.literals {
            secrets.extend(
                text.match_indices(literal.as_str()).map(|(at, found)| at..at + found.len()),
            );
        }
        secrets.extend(named(text, &present));
        let redacted = replace(text, secrets);
        (redacted != text).then_some(redacted)
    }
}

/// Whether a variable with this name and value is a secret, by the rule that [`Redactor::redact`]
/// applies to assignments.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    names::sureness(name).covers(value) && !names::is_stand_in(value)
}

fn shaped(text: &str, present: &Present) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    for shape in RULES.shapes.iter().filter_map(|rule| rule.regex_if_possible(present)) {
        for found in shape.captures_iter(text) {
            let group = found.iter().skip(1).flatten().next();
            let secret = group.or(found.get(0));
            let secret = secret.filter(|secret| !names::is_stand_in(secret.as_str()));
            secrets.extend(secret.map(|secret| secret.range()));
        }
    }
    secrets
}

/// Where a value may begin, and what the text before it says of the value.
struct Start {
    at: usize,
    extent: Extent,
    sureness: Sureness,
    /// Its name is a count, such as `max_tokens`.
    is_of_count: bool,
    /// It is part of a message for people.
    is_message: bool,
}

impl Start {
    /// That of a secret.
    fn new(at: usize, extent: Extent) -> Start {
        Start { at, extent, sureness: Sureness::Yes, is_of_count: false, is_message: false }
    }
}

/// The ranges of values that are secret because of the text before them.
fn named(text: &str, present: &Present) -> Vec<Range<usize>> {
    let mut starts: Vec<Start> = Vec::new();
    let options = RULES.option.regex_if_possible(present).into_iter();
    for found in options.flat_map(|rule| rule.captures_iter(text)) {
        let (Some(whole), Some(name)) = (found.get(0), found.get(1)) else { continue };
        let before = text[..whole.start()].chars().next_back();
        if before.is_some_and(|it| !it.is_whitespace() && !matches!(it, '"' | '\'' | '`' | '(')) {
            continue;
        }
        let sureness = names::sureness_of_option(name.as_str());
        // `gcloud --secret=db-password` names one.
        let names_one = || {
            let value = text[whole.end()..].split_whitespace().next().unwrap_or_default();
            name.as_str() == "secret"
                && !value.bytes().any(|it| it.is_ascii_digit())
                && names::sureness(value) == Sureness::Yes
        };
        if sureness != Sureness::No && !is_before_option(text, &whole.range()) && !names_one() {
            starts.push(Start { sureness, ..Start::new(whole.end(), Extent::Word) });
        }
    }
    // Output repeats its names.
    let mut known: HashMap<&str, Sureness> = HashMap::new();
    let mut sureness_of = |found| {
        let name = name_in(found);
        *known.entry(name).or_insert_with(|| names::sureness(name))
    };
    let counts = |found: &str| {
        static NAME: LazyLock<Rule> = LazyLock::new(|| Rule::new(SECRET_NAME_WORDS, COUNTING_NAME));
        NAME.regex().is_match(found)
    };
    let before_a_word = RULES.before_a_word.iter();
    for rule in before_a_word.filter_map(|rule| rule.regex_if_possible(present)) {
        let found = rule.find_iter(text).map(|found| found.range());
        let found = found.filter(|found| !is_before_option(text, found));
        starts.extend(found.map(|found| Start::new(found.end, Extent::Word)));
    }
    for (scope, option, extent) in &RULES.options {
        let scopes = scope.regex_if_possible(present).into_iter();
        let scopes = scopes.flat_map(|scope| scope.captures_iter(text));
        for arguments in scopes.filter_map(|found| found.get(1)) {
            let options = option.regex().find_iter(arguments.as_str());
            let options = options
                .map(|found| arguments.start() + found.start()..arguments.start() + found.end());
            let options = options.filter(|found| !is_before_option(text, found));
            starts.extend(options.map(|found| Start::new(found.end, *extent)));
        }
    }
    let assignments = RULES.assignment.regex_if_possible(present).into_iter();
    for found in assignments.flat_map(|rule| rule.find_iter(text)) {
        // Long options have their own rule: `--key=2` and `--token-file=x` stay. `go test -run
        // 'TestPassword=x'` looks for a test.
        let is_pattern = || is_argument_of(PATTERN_OPTIONS, text, found.start());
        let sureness = sureness_of(found.as_str());
        if sureness != Sureness::No && !found.as_str().starts_with("--") && !is_pattern() {
            let extent = extent_of_assignment(&text[..found.start()]);
            let is_of_count = counts(found.as_str());
            starts.push(Start { sureness, is_of_count, ..Start::new(found.end(), extent) });
        }
    }
    for (rule, extent, is_written) in [
        (&RULES.line_entry, Extent::Line, false),
        (&RULES.inline_entry, Extent::Item, false),
        (&RULES.written_entry, Extent::Item, true),
    ] {
        let Some(rule) = rule.regex_if_possible(present) else {
            continue;
        };
        for found in rule.find_iter(text) {
            // `key::path` and `key == value` are code, `'Password: '` is a question and `PASS: name` the
            // result of a test.
            let quote = found.as_str().chars().find(|it| matches!(it, '"' | '\''));
            let is_question = quote.is_some_and(|quote| {
                text[found.end()..].starts_with(quote) && found.as_str().matches(quote).count() == 1
            });
            // `${NAME:?why}` is a variable.
            let is_variable = text[..found.start()].ends_with('$');
            // `.token:hover { … }` is a rule of a style sheet.
            let is_style = found.as_str().starts_with('.');
            if is_question || is_variable || is_style || name_in(found.as_str()) == "PASS" {
                continue;
            }
            let sureness = sureness_of(found.as_str());
            if sureness != Sureness::No && !text[found.end()..].starts_with([':', '=']) {
                let delimiter = found.as_str().strip_prefix('s').and_then(|it| it.bytes().next());
                let of_sed = delimiter.filter(|it| is_written && b"/|#".contains(it));
                starts.push(Start {
                    sureness,
                    is_of_count: counts(found.as_str()),
                    // `git commit -m 'token: rename'` is a message.
                    is_message: quote.is_some()
                        && is_argument_of(MESSAGE_OPTIONS, text, found.start()),
                    ..Start::new(found.end(), of_sed.map_or(extent, Extent::Until))
                });
            }
        }
    }
    // In the source text of programs, a name and a string.
    let entries = RULES.quoted_entry.regex_if_possible(present).into_iter();
    for found in entries.flat_map(|rule| rule.find_iter(text)) {
        let name = found.as_str().split([':', '=']).next().unwrap_or_default();
        let is_string = text[found.end()..].starts_with(['"', '\'', '`']);
        // `PASSWORD :'name'` is a variable of psql.
        let is_variable = found.as_str().ends_with(" :");
        let before = text[..found.start()].chars().next_back();
        let is_question = before.is_some_and(|quote| {
            matches!(quote, '"' | '\'')
                && text[found.end()..].starts_with(quote)
                && !found.as_str().contains(quote)
        });
        if is_string
            && !is_variable
            && !is_question
            && !found.as_str().starts_with("--")
            && !counts(name)
            && sureness_of(name) != Sureness::No
        {
            let sureness = sureness_of(name);
            starts.push(Start { sureness, ..Start::new(found.end(), Extent::Item) });
        }
    }
    starts.sort_by_key(|start| start.at);

    let mut quotes = Quotes::new(text);
    let mut read_to: BTreeMap<Extent, usize> = BTreeMap::new();
    let mut bytes_read = 0;
    let mut secrets = Vec::new();
    for Start { at, extent, sureness, is_of_count, is_message } in starts {
        let enclosing = quotes.enclosing(at);
        // A value that begins inside a value of the same kind is part of it. Reading nested values
        // again would take quadratic time.
        if read_to.get(&extent).is_some_and(|&end| at < end) {
            continue;
        }
        let secret = value(text, at, extent, enclosing);
        let shown = &text[secret.clone()];
        // The command whose output is the value may have a secret of its own, as may an object.
        bytes_read += shown.len();
        let may_hold_others = shown.starts_with("$(") || shown.starts_with('{');
        if !may_hold_others || bytes_read > MAX_TIMES_READ * text.len() {
            read_to.insert(extent, secret.end);
        }
        let is_doubtful = is_of_count && is_count(shown)
            || !sureness.covers(shown)
            || is_message && !names::looks_made(shown)
            || names::is_stand_in(shown)
            // The output of a command.
            || text[..secret.start].ends_with("=`") && shown.contains(' ')
            || matches!(extent, Extent::Line | Extent::Item)
                && enclosing.is_none()
                && !text[..secret.start].ends_with(['"', '\'', '`'])
                && names::is_bare_name(shown);
        if !is_doubtful {
            secrets.push(secret);
        }
    }
    secrets.extend(said(text, present));
    secrets
}

/// The ranges of values that an output or a message names in a sentence: `error: token: X`, `invalid
/// token 'X'`. Nearly all words there are no secrets, so the value must look like one.
fn said<'a>(text: &'a str, present: &Present) -> impl Iterator<Item = Range<usize>> + use<'a> {
    let rule = RULES.said.regex_if_possible(present);
    let found = rule.into_iter().flat_map(move |rule| rule.captures_iter(text));
    found.filter_map(|found| {
        let (name, value) = (found.get(1)?, found.get(3)?);
        let shown = value.as_str().trim_end_matches(['.', '-']);
        // Behind `: ` or `=`, a value of one word that looks made is enough.
        let is_entry = found.get(2).is_some();
        let is_of_words = shown.contains(['-', '.', '/']);
        let may_be = (is_entry || !is_of_words) && names::looks_random(shown)
            || is_entry && !is_of_words && !shown.contains('_') && names::looks_made(shown);
        let is_secret = may_be
            && names::sureness(name.as_str()) == Sureness::Yes
            && !names::is_stand_in(shown)
            // A call or a type.
            && !text[value.end()..].starts_with(['(', '<', '[', ':']);
        is_secret.then(|| value.start()..value.start() + shown.len())
    })
}

/// Whether what follows these words is another option: `--password --user x` asks for the password.
fn is_before_option(text: &str, words: &Range<usize>) -> bool {
    text[..words.end].ends_with(|it: char| it.is_ascii_whitespace())
        && text[words.end..].starts_with('-')
}

/// Whether what begins at a position, also within a quote, is the argument of one of these options.
fn is_argument_of(options: &[&str], text: &str, position: usize) -> bool {
    let before = text[..position].trim_end_matches(['"', '\'']).trim_end_matches([' ', '=']);
    let precedes = |option: &&str| {
        let others = before.strip_suffix(option);
        others.is_some_and(|others| others.ends_with(|it: char| it.is_ascii_whitespace()))
    };
    options.iter().any(precedes)
}

/// The name in what precedes a value: `  "api_key": `, `keys[token]=`.
fn name_in(found: &str) -> &str {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let found = found.trim_end_matches(['b', 'f', 'r', 'u', 'B', 'F', 'R', 'U', '@', 'N']);
    let found =
        if found.ends_with(is_part) { found } else { found.trim_end_matches(|c| !is_part(c)) };
    let start = found.rfind(|c| !is_part(c)).map_or(0, |at| at + 1);
    // `keys[token]=`: the index is what is named, or the list.
    found.get(start..).unwrap_or(found).trim_start_matches('-')
}

/// Whether a value is a number, possibly with words: `1,200`, `2.3k sent, 120 received.`
fn is_count(value: &str) -> bool {
    let is_number = |word: &str| {
        let digits = word.trim_start_matches(['$', '~', '+', '-']);
        let digits = digits.trim_end_matches(['k', 'K', 'm', 'M', '%']);
        digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '_' | '/'))
    };
    let is_word = |word: &str| word.chars().all(char::is_alphabetic);
    let words = value.split_whitespace();
    let mut words = words.map(|word| word.trim_matches(['.', ',', ';', ':', '(', ')']));
    value.len() <= MAX_COUNT_BYTES
        && words.next().is_some_and(is_number)
        && words.all(|word| is_number(word) || is_word(word))
}

/// `"NAME=a b"` is one word; `sh -c "NAME=a b"` is a command line.
fn extent_of_assignment(before: &str) -> Extent {
    let (opener, quote) = match (before.strip_suffix('"'), before.strip_suffix('\'')) {
        (Some(opener), _) => (opener, b'"'),
        (_, Some(opener)) => (opener, b'\''),
        _ => return Extent::Word,
    };
    if !opener.ends_with(char::is_whitespace) {
        return Extent::Word;
    }
    let last_word = opener.split_ascii_whitespace().next_back().unwrap_or("");
    let is_command_line =
        last_word == "eval" || (last_word.starts_with('-') && last_word.ends_with('c'));
    if is_command_line { Extent::Word } else { Extent::Enclosed(quote) }
}

/// The range of the value at `start`, without quotes around it; empty if there is none.
fn value(text: &str, start: usize, extent: Extent, enclosing: Option<u8>) -> Range<usize> {
    let bytes = text.as_bytes();
    // Of three quotes, the last one opens the text.
    let is_tripled = |quotes| text[start..].starts_with(quotes);
    let start = if is_tripled("\"\"\"") || is_tripled("'''") { start + 2 } else { start };
    let range = match extent {
        Extent::AttachedWord if bytes.get(start).is_none_or(u8::is_ascii_whitespace) => {
            return start..start;
        }
        Extent::Word | Extent::AttachedWord => start..word_end(bytes, start, enclosing),
        Extent::AfterColon => {
            let end = word_end(bytes, start, enclosing);
            let secret = text[start..end].find(':').map_or(end, |at| start + at + 1);
            let range = without_trailing_quotes(text, secret..end);
            // `TOKEN:` has no password.
            let only_user = range.is_empty() && secret < end + 1 && text[start..end].contains(':');
            let user = start..secret.saturating_sub(1).max(start);
            return if only_user { unquoted(text, user) } else { range };
        }
        Extent::Until(delimiter) => {
            start..find_end(bytes, start, |byte| byte == delimiter || byte == b'\n')
        }
        Extent::Enclosed(quote) => {
            without_trailing_quotes(text, start..quoted_end(bytes, start, &[quote], None))
        }
        Extent::Line | Extent::Item => match opening_quote(bytes, start, enclosing) {
            Some(quote) => start..quoted_end(bytes, start + quote.len(), quote, enclosing),
            None => {
                let end = find_end(bytes, start, |byte| {
                    Some(byte) == enclosing
                        || matches!(byte, b'\n' | b'\r')
                        || (extent == Extent::Item && matches!(byte, b',' | b'}'))
                });
                let kept = text[start..end].trim_end().trim_end_matches(',').len();
                start..start + kept
            }
        },
    };
    unquoted(text, range)
}

/// The value without the quote that opens it and the same one that closes it.
fn unquoted(text: &str, range: Range<usize>) -> Range<usize> {
    let Some(quote) = opening_quote(text.as_bytes(), range.start, Some(b'"'))
        .or_else(|| opening_quote(text.as_bytes(), range.start, None))
    else {
        return range;
    };
    let start = (range.start + quote.len()).min(range.end);
    let value = text.as_bytes().get(start..range.end).unwrap_or_default();
    let closing = if value.ends_with(quote) { quote.len() } else { 0 };
    start..range.end - closing
}

/// The end of a quoted word, without its closing quote.
fn without_trailing_quotes(text: &str, range: Range<usize>) -> Range<usize> {
    let kept = text[range.clone()].trim_end_matches(['"', '\'', '\\']).len();
    range.start..range.start + kept
}

/// The text with each range, or run of adjacent ranges, replaced once.
fn replace(text: &str, mut secrets: Vec<Range<usize>>) -> String {
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort_by_key(|secret| (secret.start, secret.end));
    let mut redacted = String::with_capacity(text.len());
    let mut copied = 0;
    let mut open: Option<Range<usize>> = None;
    let mut close = |range: Range<usize>| {
        redacted.push_str(&text[copied..range.start]);
        redacted.push_str(PLACEHOLDER);
        copied = range.end;
    };
    for secret in secrets {
        open = match open {
            Some(run) if secret.start <= run.end => Some(run.start..run.end.max(secret.end)),
            Some(run) => {
                close(run);
                Some(secret)
            }
            None => Some(secret),
        };
    }
    open.into_iter().for_each(&mut close);
    redacted.push_str(&text[copied..]);
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redact(text: &str) -> String {
        Redactor::default().redact(text).into_owned()
    }

    /// The secret is between `«` and `»`; only the value must be replaced.
    fn assert_redacted(cases: &[&str]) {
        for case in cases {
            let mut text = String::new();
            let mut expected = String::new();
            for (index, part) in case.split(['«', '»']).enumerate() {
                text.push_str(part);
                expected.push_str(if index % 2 == 1 { PLACEHOLDER } else { part });
            }
            let redacted = redact(&text);
            assert_eq!(redacted, expected, "of {text}");
            assert_eq!(redact(&redacted), redacted, "twice, of {text}");
        }
    }

    #[test]
    fn tokens_are_known_by_their_shape() {
        assert_redacted(&[
            "aws configure set x «AKIAIOSFODNN7EXAMPLE»",
            "echo «ASIAIOSFODNN7EXAMPLE» | cat",
            "curl 'https://maps.example/?k=«AIzaSyA1234567890abcdefghijklmnopqrstuv»'",
            "gcloud x «ya29.a0AfH6SMBx1234567890abcdef»",
            "gcloud x «GOCSPX-abcdefghijklmnopqrstuvwxyz»",
            "az login x «abc8Q~abcdefghijklmnopqrstuvwxyz0123456»",
            "curl 'https://a.blob.example/c?sv=2020&sig=«abcdefghijklmnopqrstuvwxyz%2Fabc%3D»&se=1'",
            "git clone x «ghp_abcdefghijklmnopqrstuvwxyz0123456789»",
            "echo «gho_abcdefghijklmnopqrstuvwxyz0123456789»",
            "echo «github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz»",
            "echo «glpat-abcdefghij0123456789»",
            "echo «xoxb-123456789012-abcdefGHIJ»",
            "echo «xapp-1-ABCDEFGHIJ-0123456789»",
            "curl https://hooks.slack.com/services/«T00000000/B00000000/XXXXXXXXXXXXXXXX»",
            "stripe «sk_live_abcdefghijklmnop»",
            "stripe «rk_test_abcdefghijklmnop»",
            "stripe «whsec_abcdefghijklmnopqrstuvwxyz»",
            "twine «pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAw»",
            "mail «SG.abcdefghijklmnopqrst.uvwxyz0123456789ABCD»",
            "doctl «dop_v1_0123456789abcdef0123456789abcdef»",
            "echo «npm_abcdefghijklmnopqrstuvwxyz0123456789»",
            "echo «sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL»",
            "echo «sk-proj-abc_def-ghijklmnopqrstuvwxyz»",
            "echo «sk-ant-api03-abc_def-ghijklmnopqrstuvwxyz»",
            "echo «hf_abcdefghijklmnopqrstuvwxyzABCDEFGH»",
            "x «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.dozjgNryP4J3jVmNHl0w5N» y",
            "-----BEGIN RSA PRIVATE KEY-----«\nMIIEow\nAAAA\n»-----END RSA PRIVATE KEY-----\nls",
            "echo '-----BEGIN OPENSSH PRIVATE KEY-----«\nb3BlbnNzaC1rZX»",
        ]);
    }

    #[test]
    fn credentials_of_headers_and_urls_are_replaced_without_their_context() {
        assert_redacted(&[
            r#"curl -H "Authorization: Bearer «abc.def»" https://x"#,
            "curl -H 'Authorization: Basic «dXNlcjpwYXNz»' https://x",
            "curl -H 'authorization: «abcdef»' https://x",
            r"curl -H Authorization:\ Bearer\ «abcdef» https://x",
            "Proxy-Authorization: Token «abcdef»\nHost: x",
            r#"{"Authorization": "Bearer «abc»", "a": 1}"#,
            r#"Authorization: Digest «username="u", response="0123"»"#,
            "grpcurl -H 'x: Bearer «abcdefghijklmnop123»'",
            "curl -u user:«hunter2» https://x",
            "curl -d 'a;b&c' -u user:«hunter2» https://x",
            "curl -s -u 'user:«my pass word»' https://x",
            r#"curl --user "user:«hunter2»" --proxy-user=p:«q» https://x"#,
            "sh -c 'curl -uadmin:«hunter2» https://x'",
            "git clone https://user:«hunter2»@example.org/a.git",
            "psql postgres://app:«p%40ss»@db:5432/app",
            "redis-cli -u redis://:«hunter2»@cache:6379",
            "git clone https://«0123456789abcdef0123456789abcdef»@example.org/a.git",
        ]);
    }

    #[test]
    fn values_of_options_are_replaced() {
        assert_redacted(&[
            "app --password «hunter2» --verbose",
            "app --password=«hunter2» --verbose",
            "app --password \"«two words»\" x",
            "app --token «abc» --api-key='«d e»' run",
            "terraform login -token=«abc»",
            "app --db-password «hunter2» && ls",
            "wget --http-password=«hunter2» https://x",
            "openssl rsa -passin «pass:hunter2» -in a.pem",
            "mysql -u root -p«hunter2» app",
            "mysqldump --single-transaction -p'«a b»' app | gzip",
            "mysql -e \"select 1; select 2\" -p«hunter2» app",
            "ssh host \"mysql -p«hunter2» app\" && mkdir -pv x",
            "sudo mariadb -p«hunter2»",
            "mysql \\\n  -p«hunter2» app",
            "sshpass -p «hunter2» ssh -p 2222 host",
            "sshpass -p'«a b»' ssh host ls",
            "docker login -u me -p «hunter2» registry.example",
            "redis-cli -h cache -a «hunter2» ping",
            "aws configure set aws_secret_access_key «hunter2» --profile x",
            "podman login -p«hunter2» registry.example",
            "az login --service-principal -u id -p «hunter2» --tenant t",
            "mongosh -u me -p «hunter2» db",
            "zip -r -P «hunter2» a.zip b && ls",
            "zip -rP«hunter2» a.zip b",
            "unzip -o -P '«a b»' a.zip",
            "7z a -p«hunter2» a.7z b",
            "7zz x -p\"«a b»\" a.7z",
            "rar a -hp«hunter2» a.rar b",
            "openssl enc -aes-256-cbc -k «hunter2» -in a",
            "openssl enc -aes-256-cbc -K «00ff» -iv 00 -in a",
            "openssl enc -aes-256-cbc -pass «pass:hunter2» -in a",
            "openssl req -passout «pass:hunter2» -newkey rsa:2048",
            "openssl dgst -sha256 -hmac «hunter2» a",
            "openssl passwd -6 -salt ab «hunter2»",
            "ssh-keygen -t ed25519 -N '«a b»' -f id",
            "ssh-keygen -p -P «old» -N «new» -f id",
            "keytool -list -storepass «hunter2» -keystore a",
            "ldapsearch -x -D cn=admin -w «hunter2» -b dc=x",
            "ldapmodify -xw«hunter2» -f a.ldif",
            "ldappasswd -x -w «hunter2» -s «hunter3» cn=me",
            "htpasswd -b file «me» «hunter2»",
            "htpasswd -c -bB -C 10 \"my file\" «me» '«hunter 2»'; ls",
            "htpasswd -nb me «hunter2»",
            "sudo useradd -m -p «hunter2» me",
            "smbclient //host/share -U me%«hunter2»",
            "gpg --batch --passphrase «hunter2» -c a",
            "wget --user=me --password=«hunter2» https://x",
            "psql \"host=db user=me password=«hunter2»\"",
            "kubectl create secret generic s --from-literal=name=«hunter2» --from-literal b=«c»",
        ]);
    }

    #[test]
    fn input_for_a_password_prompt_is_replaced() {
        assert_redacted(&[
            "echo «hunter2» | docker login -u me --password-stdin registry.example",
            "echo -n '«two; words»' | sudo -S ls",
            "echo \"«a|b»\" | sudo -p '' -S ls",
            "printf '%s\\n' \"«hunter2»\" | sudo -k -S true",
            "echo «hunter2» | gh auth login --with-token",
            "echo \"«me:hunter2»\" | sudo chpasswd",
            "curl -H 'Cookie: «session=hunter2»' https://x",
        ]);
    }

    #[test]
    fn lines_that_a_command_writes_are_read_as_lines() {
        assert_redacted(&[
            "echo '  password: «two words»' >> c.yaml",
            "echo \"  - token: «abc»\" >> c.yaml",
            "echo 'secret = «abc»' >> c.ini",
            "cat >> c.ini <<< 'secret = «abc»'",
            r"printf 'host: x\n  password: «hunter2»\n' > c.yaml",
            r#"echo -e "a: b\nsecret: «hunter2»" > c.yaml"#,
            "echo 'requirepass «hunter2»' >> redis.conf",
            r"printf 'masterauth «hunter2»\n' | sudo tee -a redis.conf",
            "sed -i 's/^secret:.*/secret: «abc»/' c.yml",
            "sed -i 's|^token = .*|token = «a/b»|g; s/a/b/' c.yml",
        ]);
    }

    #[test]
    fn values_of_secret_names_are_replaced() {
        assert_redacted(&[
            "API_KEY=«abc» make",
            "PGPASSWORD=«hunter2» psql -h db",
            "REDISCLI_AUTH=«hunter2» redis-cli ping",
            "tokens: «abc, def»",
            "tokens: «1f3a5b»",
            "TOKENS=«12ab34» run",
            "token: «123456»",
            "TOKEN=«123456» run",
            "passwords: «123456»",
            "export GITHUB_TOKEN=\"«two words»\"",
            "export SECRET='«it is»'; ls",
            "db_passwd=«abc»; ls",
            "AWS_SECRET_ACCESS_KEY=«a/b+c» aws s3 ls",
            "TOKEN=«a\"b c\"d» run",
            "PASSWORD=\"«a\\\"b»\" run",
            "PASSWORD=\"«unterminated",
            "keys[token]=«abc» x",
            "TOKEN+=«abc» x",
            "docker run -e API_KEY=«abc» -e \"DB_PASSWORD=«a b»\" image",
            "docker run -e \"TOKEN=«a\\\"b c»\" -e 'KEY=«a \"b\" c»' image",
            "sh -c 'export API_KEY=«abc»; run'",
            "sh -c \"API_KEY=«abc» run\"",
            "bash -lc \"export TOKEN=\\\"«a b»\\\" && run\"",
            "echo \"API_KEY=«abc»\" >> .env",
            "curl 'https://x/?access_token=«abc»&page=2'",
            "java -Ddb.password=«abc» -jar a.jar",
            "helm upgrade --set db.password=«abc» x",
            "docker build --build-arg=NPM_TOKEN=«abc» .",
            r#"curl -d '{"api_key": "«abc»", "user": "me"}' https://x"#,
            r#"curl -d "{\"password\":\"«a b»\",\"user\":1}" https://x"#,
            "{token: «abc», user: me}",
            "user: me\npassword: «two words»\nhost: x",
            "  - secret: «abc»\n",
            "curl -H 'X-Api-Key: «abc»' https://x",
            "[default]\naws_secret_access_key = «a/b+c»\nregion = x",
            "don't forget API_KEY=«abc»",
            "PASSWORD=«größe» ls",
            "écho ключ TOKEN=«значение» ok",
        ]);
    }

    #[test]
    fn harmless_lines_stay() {
        for line in [
            "git commit -m \"token ring\"",
            "git commit -m 'add the key to the door'",
            "ssh -p 2222 host",
            "mkdir -p dir",
            "cp -p a b.zip",
            "docker run -p 80:80 nginx",
            "nmap -p 22 host",
            "grep -P 'a+' a.zip",
            "find . -name '*.zip' | grep -P zip",
            "ls a.zip -P",
            "7z x -p a.7z",
            "7z l a.7z | grep -p",
            "tar -cpf a.tar b",
            "gzip -k a",
            "openssl req -key a.pem -keyout b.pem",
            "openssl x509 -in a.pem -noout",
            "openssl passwd -6",
            "ssh-keygen -t ed25519 -N '' -f id",
            "ldapsearch -x -W -b dc=www",
            "htpasswd -c file me",
            "htpasswd -v file me",
            "useradd -m me",
            "smbclient -U me //host/share",
            "echo hi | cat chpasswd.txt",
            "Tokens: 1 sent",
            "Tokens: 2.3k sent, 120 received. Cost: $0.01 message, $0.02 session.",
            "tokens: 1,200",
            "{\"input_tokens\": 12, \"totalTokens\":\"400\", \"promptTokenCount\": 7}",
            "max_tokens=4096 run",
            "MAX_TOKENS=\"4096\" run",
            "keys: 5 found",
            "KEY_SIZE=2048 make",
            "echo $PW | docker login --password-stdin",
            "echo \"$PW\" | sudo -S ls",
            "echo hi | sudo tee /etc/motd",
            "echo hi | cat; sudo -S ls",
            "mysql -p app",
            "mysql -P3306 -h db app",
            "cd mysql && mkdir -pv dir",
            "app --password-file path",
            "app --password-file=path --token-path x",
            "docker login --username me --password-stdin",
            "app --password --user me",
            "sort --key=2 file",
            "sort -k 2 file",
            "ssh -i ~/.ssh/id_ed25519 git@github.com",
            "git clone ssh://git@github.com/a/b.git",
            "git clone git@github.com:a/b.git",
            "curl https://example.org:8080/path@2",
            "curl -u user https://example.org",
            "grep -rn \"Authorization:\" src/",
            "cargo test --package tokenizer",
            "pip install scikit-learn tokenizers",
            "echo task-management-for-everyone-and-more",
            "vault token lookup",
            "kubectl get secrets -n prod",
            "TOKEN= make",
            "export PASSWORD",
            "if [ -z \"$API_KEY\" ]; then exit 1; fi",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "fn f() { Token::new() }",
            "ls -la /etc/ssl/private",
            "PATH=/usr/bin:/bin FOO=1 npm run build",
            "KEYBOARD=us startx",
            r#"printf 'Token: %s\n' "$1""#,
            "echo 'Password: '",
            "monkey=1",
            "",
        ] {
            assert!(
                matches!(Redactor::default().redact(line), Cow::Borrowed(same) if same == line),
                "of {line}: {}",
                redact(line)
            );
        }
    }

    /// The lines of a fixture, without its comments.
    fn lines_of(fixture: &str) -> impl Iterator<Item = String> {
        let lines = fixture.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| line.replace("\\n", "\n"))
    }

    #[test]
    fn the_shapes_that_services_document_are_removed() {
        let fixture = include_str!("../../tests/fixtures/redaction/secrets.txt");
        let missed: Vec<String> = lines_of(fixture)
            .filter_map(|line| {
                let text = line.replace(['«', '»'], "");
                let redacted = redact(&text);
                let secrets = line.split(['«', '»']).skip(1).step_by(2);
                let is_kept = secrets.into_iter().any(|secret| redacted.contains(secret));
                // A text of nested secrets is replaced as a whole, which hides what was not found.
                let is_lost = redacted == PLACEHOLDER && line.contains(' ');
                (is_kept || is_lost).then(|| format!("{line}\n    {redacted}"))
            })
            .collect();
        assert!(missed.is_empty(), "{} kept:\n{}", missed.len(), missed.join("\n"));
    }

    #[test]
    fn harmless_texts_are_not_touched() {
        let fixture = include_str!("../../tests/fixtures/redaction/harmless.txt");
        let touched: Vec<String> = lines_of(fixture)
            .filter(|line| redact(line) != *line)
            .map(|line| format!("{line}\n    {}", redact(&line)))
            .collect();
        assert!(touched.is_empty(), "{} touched:\n{}", touched.len(), touched.join("\n"));
    }

    #[test]
    fn known_values_are_replaced_everywhere() {
        let redactor = Redactor::new(["correct horse".to_owned(), "short".to_owned()]);
        assert_eq!(
            redactor.redact("echo 'correct horse' short;correct horse"),
            "echo '[redacted]' short;[redacted]"
        );
    }

    #[test]
    fn a_known_value_within_the_placeholder_does_not_grow_the_text() {
        let redactor = Redactor::new(["redacted".to_owned()]);
        assert_eq!(redactor.redact("KEY=abc redacted"), "KEY=[redacted] redacted");
    }

    #[test]
    fn secret_names_are_those_of_the_assignments() {
        assert!(is_secret("GITHUB_TOKEN", "abc"));
        assert!(is_secret("my_passwd_2", "hunter2"));
        for (name, value) in [
            ("PATH", "/usr/bin"),
            ("GITHUB_TOKEN", ""),
            ("SSH_AUTH_SOCK", "/tmp/ssh-a1b2c3d4/agent.4711"),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
            ("DESKTOP_SESSION", "plasma-wayland"),
            ("XDG_SESSION_ID", "c12345678901"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }

    /// Pieces that the rules match, so that random texts reach them.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "KEY=",
            "token: ",
            "\"",
            "'",
            "\\",
            "`",
            " ",
            "\n",
            "(",
            ")",
            ",",
            "{",
            "}",
            "a",
            "[redacted]",
            "[",
            "redacted",
            "]",
            "://",
            ":",
            "@",
            "--password ",
            "--token=",
            "mysql -p",
            "curl -u ",
            "sshpass -p ",
            "htpasswd -b ",
            "zip -rP ",
            "7z -p",
            "tokens: ",
            "12 sent",
            "Authorization: Bearer ",
            "secret = ",
            "é",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "eyJhbGciOiJI.",
            "-c ",
            "ghp_abcdefghijklmnopqrstuvwxyz",
            "$",
            "=",
            ";",
            "&",
            "hunter22",
            "encoy0L7XoMF54kUoL45",
            "--secretKey ",
            "--pin ",
            "error: token: ",
            "invalid token ",
            " -> ",
            "echo '",
            "| su",
            "<<< ",
            "<(echo ",
            "p4 login ",
            "sed 's/a/",
            "git config x.token ",
            "redis-cli AUTH ",
            "https://",
            "x-oauth-basic",
            "\\n",
            "\u{212a}",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    /// Every rule, including those of options.
    fn all_rules() -> impl Iterator<Item = &'static Rule> {
        let options = RULES.options.iter().map(|(program, ..)| program);
        let names = [
            &RULES.option,
            &RULES.assignment,
            &RULES.line_entry,
            &RULES.inline_entry,
            &RULES.written_entry,
            &RULES.quoted_entry,
            &RULES.said,
        ];
        let tables = RULES.shapes.iter().chain(&RULES.before_a_word);
        tables.chain(options).chain(names)
    }

    #[test]
    fn words_of_rules_are_folded_already() {
        for word in WORDS.places.keys() {
            assert_eq!(fold(word), *word);
        }
        assert_eq!(redact("TO\u{212a}EN=abc"), "TO\u{212a}EN=[redacted]");
        assert_eq!(redact("--pa\u{17f}sword=abc"), "--pa\u{17f}sword=[redacted]");
    }

    proptest! {
        #[test]
        fn no_rule_matches_without_one_of_its_words(text in pieces()) {
            let present = Present::find(&text);
            for rule in all_rules() {
                prop_assert!(rule.regex_if_possible(&present).is_some() || !rule.regex().is_match(&text));
            }
        }

        #[test]
        fn twice_is_once_on_any_text(text in any::<String>()) {
            let once = redact(&text);
            prop_assert_eq!(redact(&once), once);
        }

        #[test]
        fn twice_is_once_on_texts_full_of_secrets(text in pieces()) {
            let redactor = Redactor::new(["hunter22".to_owned(), "cted]KEY=".to_owned()]);
            let once = redactor.redact(&text).into_owned();
            prop_assert_eq!(redactor.redact(&once).into_owned(), once);
        }
    }
}
