//! Derives templates, which commands share that differ only in their operands.
//!
//! A template keeps the program's name, its subcommands, the remote of `git push`, the names of
//! scripts, and flags. All other words become `*`, and a run of `*` becomes one. A template omits
//! assignments and prefixes such as `sudo`, comments, redirections with their targets, bodies of
//! here-documents, and the text of substitutions.
//!
//! For a program that is in no table, a subcommand (`tailscale up`) cannot be distinguished from an
//! operand (`mytool input`). Its template contains neither; [`with_subcommands`] keeps the word,
//! and the command history decides which of the two templates to use.
//!
//! Equal commands have equal templates in all releases that have the same [`VERSION`]. Pure.

use super::command_line::CommandLine;
use super::interpreters::{Interpreter, ScriptOption};
use super::options::is_option;
use super::prefix::{base_name, split_prefix};
use super::programs::{Program, takes_operand_first};
use super::syntax::{Simple, is_lower_case_word, is_subcommand, take};
use super::token::{Reserved, Separator, TokenKind, WordRole};
use super::unquote::Unquoted;

/// The algorithm's version.
pub(crate) const VERSION: u32 = 2;

/// The longest template, in characters; longer ones are cut.
pub(crate) const MAX_TEMPLATE: usize = 500;

/// Replaces everything that may differ.
const ANY: &str = "*";
/// Replaces the patterns of a branch of a `case`.
const PATTERN: &str = "*)";

/// The longest short option, in bytes; a longer one contains a value.
const MAX_FLAG: usize = 24;

/// The template of a command line. Accepts any text; linear in its length.
pub fn template(line: &CommandLine) -> String {
    written(line, Writer::default()).finish()
}

/// The template with the first operand of programs that are in no table, if it is a
/// lower-case word: `tailscale up` for `tailscale *`. `None` if there is none. Accepts any
/// text; linear in its length.
pub fn with_subcommands(line: &CommandLine) -> Option<String> {
    let template = written(line, Writer { keeps_second_words: true, ..Writer::default() });
    template.has_second_word.then(|| template.finish())
}

fn written(line: &CommandLine, mut template: Writer) -> Writer {
    let mut current = None;
    for token in &line.lexed().tokens {
        if template.is_full() {
            break;
        }
        if !take(&mut current, token, line) {
            simple(current.take(), &mut template);
            structure(token.kind, line.written(&token.span), &mut template);
        }
    }
    simple(current, &mut template);
    template
}

/// Writes a token between simple commands.
fn structure(kind: TokenKind, text: &str, template: &mut Writer) {
    match kind {
        TokenKind::Separator(Separator::Semicolon | Separator::Newline) => template.separator(),
        TokenKind::Separator(Separator::Disown) => template.word("&!"),
        TokenKind::Separator(Separator::CaseEnd) => template.word(";;"),
        TokenKind::Reserved(Reserved::Time | Reserved::NoCorrect) => {}
        TokenKind::Separator(_)
        | TokenKind::Reserved(_)
        | TokenKind::ConditionOperator
        | TokenKind::Word(WordRole::FunctionName) => template.word(text),
        TokenKind::Open => template.opening("("),
        TokenKind::Close => template.closing(")"),
        TokenKind::ListParen if text == "(" => template.opening("("),
        TokenKind::ListParen => template.closing(")"),
        TokenKind::FunctionParens => template.closing("()"),
        TokenKind::Arithmetic => template.word("((*))"),
        TokenKind::Word(WordRole::Pattern) => template.pattern(),
        TokenKind::Word(WordRole::Condition) if is_condition_operator(text) => template.word(text),
        TokenKind::Word(_) => template.any(),
        _ => {}
    }
}

/// Whether this is an operator within `[[ … ]]`, such as `-f`.
fn is_condition_operator(text: &str) -> bool {
    matches!(text, "=" | "==" | "!=" | "=~" | "!")
        || text
            .strip_prefix('-')
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// Writes the template of a simple command, without its assignments if it has words.
fn simple(command: Option<Simple>, template: &mut Writer) {
    let Some(command) = command else { return };
    if !command.words.is_empty() {
        return command_words(&command.words, template);
    }
    for assignment in &command.assignments {
        let name = assignment.split(['=', '+', '[']).next().unwrap_or_default();
        template.word(&format!("{name}=*"));
    }
    // Only redirections.
    if command.assignments.is_empty() && (template.is_separated || !template.ends_command) {
        template.word("> *");
    }
}

fn command_words(words: &[Unquoted], template: &mut Writer) {
    let mut words = words;
    while let Some(split) = split_prefix(words) {
        if split.prefix.is_kept {
            plain_words(split.own, template);
        }
        words = split.command;
    }
    let Some((first, rest)) = words.split_first() else {
        return;
    };
    let name = written_name(first, template);
    match name.and_then(Interpreter::named) {
        Some(interpreter) => script(interpreter, rest, template),
        None => arguments(name.unwrap_or_default(), rest, template),
    }
}

/// Writes the words of a prefix: its name (both words of `uv run`), its flags, and `*` for
/// the rest.
fn plain_words(words: &[Unquoted], template: &mut Writer) {
    let Some((first, rest)) = words.split_first() else {
        return;
    };
    written_name(first, template);
    for (at, word) in rest.iter().enumerate() {
        match word.fixed() {
            Some("run" | "exec" | "dlx") if at == 0 => template.word(&word.text),
            _ if is_option(word) => flag(word, template),
            _ => template.any(),
        }
    }
}

/// Writes a program's name and returns it, unless it has an expansion.
fn written_name<'a>(word: &'a Unquoted, template: &mut Writer) -> Option<&'a str> {
    let name = word.fixed().map(base_name);
    match name {
        Some(name) if !name.is_empty() && !name.contains(char::is_control) => template.word(name),
        _ => template.any(),
    }
    name
}

fn arguments(name: &str, words: &[Unquoted], template: &mut Writer) {
    let program = Program::named(name);
    let mut missing = program.depth;
    let mut first = None;
    let mut has_remote = false;
    let mut awaits_second =
        template.keeps_second_words && missing == 0 && !takes_operand_first(name);
    let mut follows_option = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.fixed() == Some("--") {
            template.word("--");
            if words.len() > 0 {
                template.any();
            }
            return;
        }
        if is_option(word) {
            flag(word, template);
            follows_option = true;
            let waits = missing > 0 || has_remote || awaits_second;
            if waits && word.fixed().is_some_and(|option| program.values.takes_next(option)) {
                words.next();
                template.any();
                follows_option = false;
            }
            continue;
        }
        if awaits_second {
            let second = word.fixed().filter(|word| is_lower_case_word(word));
            match second {
                Some(second) => {
                    template.word(second);
                    template.has_second_word = true;
                }
                None => template.any(),
            }
            // After an option, this word may be the option's value.
            awaits_second = second.is_none() && std::mem::take(&mut follows_option);
            continue;
        }
        // `cargo +nightly`.
        let toolchain = word.fixed().and_then(|word| word.strip_prefix('+'));
        if missing > 0 && toolchain.is_some_and(is_subcommand) {
            template.word(&word.text);
            continue;
        }
        if name == "[" && word.fixed() == Some("]") && words.len() == 0 {
            template.word("]");
            continue;
        }
        let subcommand = word.fixed().filter(|word| is_subcommand(word));
        match subcommand {
            Some(text) if missing > 0 || has_remote => template.word(text),
            _ => template.any(),
        }
        has_remote = false;
        missing = match subcommand {
            Some(text) if missing > 0 && first.is_none() => {
                first = Some(text);
                has_remote = name == "git" && matches!(text, "push" | "pull" | "fetch");
                missing - 1 + program.deeper(text)
            }
            Some(_) => missing.saturating_sub(1),
            None => 0,
        };
    }
}

/// Writes the arguments of an interpreter: its options, then a script and its arguments.
fn script(interpreter: &Interpreter, words: &[Unquoted], template: &mut Writer) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !is_option(word) {
            let name = written_name(word, template);
            return arguments(name.unwrap_or_default(), words.as_slice(), template);
        }
        let option = word.fixed().map(|option| interpreter.option(option));
        let is_module = option == Some(ScriptOption::Module) && word.text.ends_with('m');
        if option == Some(ScriptOption::Module) && !is_module {
            template.any();
        } else {
            flag(word, template);
        }
        match option {
            Some(ScriptOption::Code) => {
                words.next();
                template.any();
                return arguments("", words.as_slice(), template);
            }
            Some(ScriptOption::AttachedCode) => {
                return arguments("", words.as_slice(), template);
            }
            Some(ScriptOption::Module) => {
                let module = words.next().filter(|_| is_module);
                let name = module.and_then(|word| written_name(word, template));
                return arguments(name.unwrap_or_default(), words.as_slice(), template);
            }
            Some(ScriptOption::Value) => {
                words.next();
                template.any();
            }
            Some(ScriptOption::Plain) | None => {}
        }
    }
}

/// Writes a flag, replacing a possible value by `*`.
fn flag(word: &Unquoted, template: &mut Writer) {
    let fixed = word.fixed_part();
    let is_name = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte))
    };
    // An overlong short option contains a value.
    let max_length = if fixed.starts_with("--") { MAX_OPTION } else { MAX_FLAG };
    match fixed.split_once('=') {
        Some((name, _)) if is_name(name) && name.len() <= MAX_OPTION => {
            template.word(&format!("{name}=*"));
        }
        _ if is_name(fixed) && word.fixed().is_some() && fixed.len() <= max_length => {
            template.word(fixed);
        }
        _ if is_name(fixed) && word.fixed().is_none() => template.word(&format!("{fixed}*")),
        _ => {
            let letter = fixed.chars().nth(1).filter(char::is_ascii_alphanumeric);
            let shown: String = ['-'].into_iter().chain(letter).chain(['*']).collect();
            template.word(&shown);
        }
    }
}

/// The longest name of an option, in bytes.
const MAX_OPTION: usize = 60;

/// Joins the parts of a template.
#[derive(Default)]
struct Writer {
    text: String,
    /// Whether to write `;` if a command follows.
    is_separated: bool,
    /// Whether to write no blank before the next word.
    is_tight: bool,
    ends_with_any: bool,
    /// Whether `;` may follow the last word.
    ends_command: bool,
    /// Whether to keep words that may be subcommands.
    keeps_second_words: bool,
    /// Whether such a word was kept.
    has_second_word: bool,
}

impl Writer {
    /// Whether further words would be cut.
    fn is_full(&self) -> bool {
        // A character has at most four bytes.
        self.text.len() > 4 * MAX_TEMPLATE
    }

    fn word(&mut self, word: &str) {
        if self.is_separated {
            self.text.push(';');
        }
        if !(self.text.is_empty() || self.is_tight) {
            self.text.push(' ');
        }
        self.text.push_str(word);
        self.is_separated = false;
        self.is_tight = false;
        self.ends_with_any = false;
        self.ends_command = !matches!(
            word,
            "do" | "then" | "else" | "{" | "&" | "&!" | "&&" | "||" | "|" | "|&" | ";;" | "in"
        );
    }

    fn any(&mut self) {
        if self.is_separated || !self.ends_with_any {
            self.word(ANY);
            self.ends_with_any = true;
        }
    }

    /// Writes all patterns of one branch of a `case` as one pattern.
    fn pattern(&mut self) {
        if !self.text.ends_with(PATTERN) {
            self.word(PATTERN);
            self.ends_command = false;
        }
    }

    fn opening(&mut self, parenthesis: &str) {
        self.word(parenthesis);
        self.is_tight = true;
        self.ends_command = false;
    }

    fn closing(&mut self, parenthesis: &str) {
        self.is_separated = false;
        self.is_tight = true;
        self.word(parenthesis);
        self.ends_command = parenthesis == ")";
    }

    fn separator(&mut self) {
        self.is_separated = self.ends_command;
    }

    fn finish(self) -> String {
        match self.text.char_indices().nth(MAX_TEMPLATE) {
            Some((end, _)) => self.text.get(..end).unwrap_or_default().to_owned(),
            None => self.text,
        }
    }
}
