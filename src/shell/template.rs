//! Templates: what commands have in common that differ in their operands.
//!
//! Kept are the program's name, its subcommands, the remote of `git push`, the names of
//! scripts, and flags; everything else becomes `*`, and runs of `*` one. Left out are
//! what says nothing of the work: assignments and prefixes such as `sudo` in front,
//! comments, redirections with their targets, bodies of here-documents, the text of
//! substitutions.
//!
//! Equal commands have equal templates for ever: whoever changes the algorithm changes
//! [`VERSION`] with it.

use super::interpreters::{Interpreter, ScriptOption};
use super::lexer::lex;
use super::options::is_option;
use super::prefix::{base_name, part};
use super::programs::Program;
use super::syntax::is_subcommand;
use super::token::{Kind, Reserved, Role, Separator};
use super::unquote::{Unquoted, unquote};

/// The algorithm's version.
pub const VERSION: u32 = 1;

/// The longest template, in characters; the rest is cut off.
pub const LONGEST_TEMPLATE: usize = 500;

/// Stands for whatever differs.
const ANY: &str = "*";
/// Stands for the patterns of a branch of a `case`.
const PATTERN: &str = "*)";

/// The longest flag that is kept as it is, in bytes: a longer one carries a value.
const LONGEST_FLAG: usize = 24;

/// The template of a command line. Any text will do; linear in its length.
pub fn template(command: &str) -> String {
    let lexed = lex(command);
    let mut template = Writer::default();
    let mut simple = Simple::default();
    for token in &lexed.tokens {
        if template.is_full() {
            break;
        }
        let text = || command.get(token.span.clone()).unwrap_or_default();
        match token.kind {
            Kind::Word(Role::Command | Role::Argument) => simple.words.push(unquote(text())),
            Kind::Assignment | Kind::ArrayOpen => simple.assign(text()),
            Kind::Redirection => simple.is_redirected = true,
            Kind::Word(Role::Target | Role::Element)
            | Kind::ArrayClose
            | Kind::Comment
            | Kind::HereDocument => {}
            kind => {
                simple.finish(&mut template);
                structure(kind, text(), &mut template);
            }
        }
    }
    simple.finish(&mut template);
    template.finish()
}

/// What stands between simple commands.
fn structure(kind: Kind, text: &str, template: &mut Writer) {
    match kind {
        Kind::Separator(separator) => separate(separator, template),
        Kind::Reserved(Reserved::Time | Reserved::NoCorrect) => {}
        Kind::Reserved(_) => template.word(text),
        Kind::Open => template.opening("("),
        Kind::Close => template.closing(")"),
        Kind::ListParen if text == "(" => template.opening("("),
        Kind::ListParen => template.closing(")"),
        Kind::FunctionParens => template.closing("()"),
        Kind::Arithmetic => template.word("((*))"),
        Kind::Word(Role::Pattern) => template.pattern(),
        Kind::ConditionOperator => template.word(text),
        Kind::Word(Role::FunctionName) => template.word(text),
        Kind::Word(Role::Condition) if is_condition_operator(text) => template.word(text),
        Kind::Word(_) => template.any(),
        _ => {}
    }
}

fn separate(separator: Separator, template: &mut Writer) {
    match separator {
        Separator::Semicolon | Separator::Newline => template.separator(),
        Separator::Background => template.word("&"),
        Separator::Disown => template.word("&!"),
        Separator::And => template.word("&&"),
        Separator::Or => template.word("||"),
        Separator::Pipe => template.word("|"),
        Separator::PipeBoth => template.word("|&"),
        Separator::CaseEnd => template.word(";;"),
    }
}

/// Operators within `[[ … ]]`, among them `-f` and its like.
fn is_condition_operator(text: &str) -> bool {
    matches!(text, "=" | "==" | "!=" | "=~" | "!")
        || text
            .strip_prefix('-')
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// A simple command that is being collected.
#[derive(Default)]
struct Simple {
    assigned: Vec<String>,
    words: Vec<Unquoted>,
    is_redirected: bool,
}

impl Simple {
    fn assign(&mut self, text: &str) {
        if self.words.is_empty() {
            let name = text.split(['=', '+', '[']).next().unwrap_or_default();
            self.assigned.push(format!("{name}=*"));
        } else {
            self.words.push(unquote(text));
        }
    }

    /// Writes its template. Assignments are the template of what has nothing else, and so
    /// is a redirection.
    fn finish(&mut self, template: &mut Writer) {
        let command = std::mem::take(self);
        if !command.words.is_empty() {
            command_words(&command.words, template);
        } else if !command.assigned.is_empty() {
            for assigned in &command.assigned {
                template.word(assigned);
            }
        } else if command.is_redirected && template.begins_command() {
            template.word("> *");
        }
    }
}

fn command_words(words: &[Unquoted], template: &mut Writer) {
    let mut words = words;
    while let Some(parted) = part(words) {
        if parted.prefix.is_kept {
            plain_words(parted.own, template);
        }
        words = parted.command;
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

/// The words of a prefix: its name, its flags, and `*` for the rest; of `uv run` both.
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

/// Writes a program's name and returns it, if the shell does not change it.
fn written_name<'a>(word: &'a Unquoted, template: &mut Writer) -> Option<&'a str> {
    let name = word.fixed().map(base_name);
    match name {
        Some(name) if is_printable(name) => template.word(name),
        _ => template.any(),
    }
    name
}

fn is_printable(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(char::is_control)
}

/// The arguments of a program.
fn arguments(name: &str, words: &[Unquoted], template: &mut Writer) {
    let program = Program::named(name);
    let mut missing = program.depth();
    let mut first = None;
    let mut has_remote = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.fixed() == Some("--") {
            template.word("--");
            return rest(words.as_slice(), template);
        }
        if is_option(word) {
            flag(word, template);
            let waits = missing > 0 || has_remote;
            if waits
                && word
                    .fixed()
                    .is_some_and(|option| program.values.takes_next(option))
            {
                words.next();
                template.any();
            }
            continue;
        }
        if missing > 0 && word.fixed().is_some_and(is_toolchain) {
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

/// `cargo +nightly`.
fn is_toolchain(word: &str) -> bool {
    word.strip_prefix('+').is_some_and(is_subcommand)
}

/// Operands behind `--`.
fn rest(words: &[Unquoted], template: &mut Writer) {
    if !words.is_empty() {
        template.any();
    }
}

/// The arguments of an interpreter: its options, then a script and what that is given.
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

/// A flag: what may be a value becomes `*`.
fn flag(word: &Unquoted, template: &mut Writer) {
    let fixed = word.fixed_part();
    let is_name = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte))
    };
    match fixed.split_once('=') {
        Some((name, _)) if is_name(name) && name.len() <= LONGEST_OPTION => {
            template.word(&format!("{name}=*"));
        }
        _ if is_name(fixed) && word.fixed().is_some() && is_short_or_long(fixed) => {
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
const LONGEST_OPTION: usize = 60;

/// A long option may be long; a short one that is has a value in it.
fn is_short_or_long(flag: &str) -> bool {
    let most = if flag.starts_with("--") {
        LONGEST_OPTION
    } else {
        LONGEST_FLAG
    };
    flag.len() <= most
}

/// Joins the parts of a template.
#[derive(Default)]
struct Writer {
    text: String,
    /// A `;` waits for a command to follow.
    is_separated: bool,
    /// No blank stands in front of what follows.
    is_tight: bool,
    /// What was written last was `*`.
    ends_with_any: bool,
    /// What was written last may be followed by `;`.
    ends_command: bool,
}

impl Writer {
    /// Whether what follows would be cut off.
    fn is_full(&self) -> bool {
        // No character has more than four bytes.
        self.text.len() > 4 * LONGEST_TEMPLATE
    }

    /// Whether what follows is no part of what was written last.
    fn begins_command(&self) -> bool {
        self.is_separated || !self.ends_command
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

    /// All patterns of one branch of a `case` are one.
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
        match self.text.char_indices().nth(LONGEST_TEMPLATE) {
            Some((end, _)) => self.text.get(..end).unwrap_or_default().to_owned(),
            None => self.text,
        }
    }
}
