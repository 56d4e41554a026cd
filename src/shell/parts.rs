//! Splits a command line into the parts that permission rules judge one by one: each simple command
//! at any depth, including those in substitutions and in scripts for shells (`sh -c '…'`).
//!
//! What the text alone does not tell is reported as a doubt: a program whose name is expanded, code
//! in a pattern, a redefined name.
//!
//! Limits: does not read scripts in files, code for other interpreters, or commands for other
//! machines. Pure.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::command_line::CommandLine;
use super::interpreters::script_of;
use super::prefix::{base_name, split_prefix};
use super::scan::assignment_value;
use super::syntax::take;
use super::token::{Reserved, Token, TokenKind, WordRole};
use super::unquote::{Unquoted, unquote};

/// How deep substitutions and scripts are read.
const LEVELS: usize = 8;

/// Builtins that redefine names, or run text from elsewhere.
const CHANGE_MEANING: &[&str] = &[
    ".",
    "add-zsh-hook",
    "alias",
    "autoload",
    "bindkey",
    "coproc",
    "disable",
    "emulate",
    "enable",
    "fc",
    "functions",
    "hash",
    "rehash",
    "sched",
    "setopt",
    "source",
    "trap",
    "unalias",
    "unfunction",
    "unhash",
    "unsetopt",
    "zle",
    "zmodload",
];

/// Operators that evaluate their operands as arithmetic, in which a subscript may run code.
const COMPARE_NUMBERS: &[&str] = &["-t", "-v", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Builtins that set the parameter that an argument names.
const SET_PARAMETERS: &[&str] = &[
    "declare",
    "export",
    "float",
    "getopts",
    "integer",
    "local",
    "print",
    "printf",
    "read",
    "set",
    "typeset",
    "unset",
    "vared",
    "zparseopts",
];

/// Programs that take a script, as shells do; not all of their options are known.
const SCRIPT_TAKERS: &[&str] =
    &["ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "rbash", "sh", "su", "zsh"];

/// The most commands that run one another (`sudo nice make`) that are followed.
const MOST_PREFIXES: usize = 16;

/// Options of `find` after which a command follows.
const FIND_RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Targets of redirections that write no file.
const NO_FILES: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

/// Variables that change what a program prints, and not what runs.
const HARMLESS_VARIABLES: &[&str] = &[
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Lower-case parameters that mean something to zsh.
const SPECIAL_PARAMETERS: &[&str] = &[
    "aliases",
    "argv",
    "builtins",
    "cdpath",
    "commands",
    "fignore",
    "fpath",
    "functions",
    "galiases",
    "histchars",
    "keymap",
    "mailpath",
    "manpath",
    "module_path",
    "nameddirs",
    "options",
    "path",
    "prompt",
    "psvar",
    "saliases",
    "watch",
    "zsh_eval_context",
];

/// The parts of a command line.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) commands: Vec<Part>,
    /// What cannot be told from the text.
    pub(crate) doubts: Vec<String>,
    /// Effects besides the commands': files that are written, variables that are set.
    pub(crate) effects: Vec<String>,
}

/// A simple command, without its assignments and redirections.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// As it was written.
    pub(crate) written: String,
    pub(crate) words: Vec<Unquoted>,
    /// How many words from the first are literal.
    pub(crate) plain: usize,
    /// Whether it is part of a script that is passed to another command.
    pub(crate) is_given: bool,
}

impl Part {
    /// The words without quotes.
    pub(crate) fn text(&self) -> String {
        join(&self.words)
    }

    /// Its literal words up to the first other one, without quotes.
    pub(crate) fn plain_text(&self) -> String {
        join(self.words.get(..self.plain).unwrap_or_default())
    }

    /// Whether every word is literal.
    pub(crate) fn is_plain(&self) -> bool {
        self.plain >= self.words.len()
    }

    /// The command that its first prefix runs (`sudo`, `timeout 5`), if it has one, and whether the
    /// prefix is one of these.
    pub(crate) fn behind_prefix(&self, names: &[&str]) -> Option<(Part, bool)> {
        let split = split_prefix(&self.words)?;
        // A path may lead to another program of that name.
        let name = self.words.first().map(|word| word.text.as_str());
        let is_named = name.is_some_and(|name| names.contains(&name));
        let own = self.words.len() - split.command.len();
        let written = join(split.command);
        let plain = self.plain.saturating_sub(own);
        let part = Part { written, words: split.command.to_vec(), plain, is_given: self.is_given };
        Some((part, is_named))
    }

    /// The program's name without its directory; `None` if it is not literal.
    pub(crate) fn program(&self) -> Option<&str> {
        let name = self.words.first().filter(|_| self.plain > 0)?;
        Some(base_name(&name.text))
    }

    /// The commands that `find` runs.
    pub(crate) fn run_by_find(&self) -> Vec<Part> {
        if self.program() != Some("find") {
            return Vec::new();
        }
        let is_start = |word: &Unquoted| FIND_RUNS.contains(&word.text.as_str());
        let starts = self.words.iter().enumerate().filter(|(_, word)| is_start(word));
        let command = |(at, _): (usize, &Unquoted)| {
            let words = self.words.get(at + 1..)?;
            let end = words.iter().position(|word| matches!(word.text.as_str(), ";" | "+"));
            let words = words.get(..end.unwrap_or(words.len()))?.to_vec();
            let plain = self.plain.saturating_sub(at + 1).min(words.len());
            Some(Part { written: join(&words), words, plain, is_given: true })
        };
        starts.filter_map(command).filter(|part| !part.words.is_empty()).collect()
    }
}

fn join(words: &[Unquoted]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

/// Splits a command line into its parts.
pub(crate) fn parts(text: &str) -> Parts {
    let mut found = Parts::default();
    let mut scripts = vec![(text.to_owned(), false)];
    for _ in 0..LEVELS {
        let level = std::mem::take(&mut scripts);
        for (text, is_given) in level {
            scripts.extend(found.read(&CommandLine::parse(text), is_given));
        }
    }
    if !scripts.is_empty() {
        found.doubts.push("more than eight commands within each other".to_owned());
    }
    found
}

impl Parts {
    /// Reads one script; returns those within it.
    fn read(&mut self, line: &CommandLine, is_given: bool) -> Vec<(String, bool)> {
        let (text, lexed) = (line.text(), line.lexed());
        let mut inner: Vec<(String, bool)> = lexed
            .substitutions
            .iter()
            .map(|span| (line.written(span).to_owned(), is_given))
            .collect();
        let before_commands = self.commands.len();
        self.commands_of(line, is_given);
        let mut before = None;
        for token in &lexed.tokens {
            self.doubt_about(token, before, text, &lexed.substitutions);
            before = Some(token);
        }
        let has_comment = |(text, _): &(String, bool)| {
            let mut words = text.split_ascii_whitespace();
            words.any(|word| word.starts_with('#'))
        };
        if inner.iter().any(has_comment) {
            self.doubts.push("a comment in a substitution".to_owned());
        }
        if text.contains("((((") {
            self.doubts.push("many parentheses".to_owned());
        }
        for part in self.commands.split_off(before_commands) {
            self.doubt_about_command(&part);
            inner.extend(scripts_of(&part).into_iter().map(|script| (script, true)));
            self.commands.push(part);
        }
        // Zsh begins a group here, and bash expands a word.
        let is_brace = |token: &Token| token.kind == TokenKind::Reserved(Reserved::BraceOpen);
        let mut pairs = lexed.tokens.iter().zip(lexed.tokens.iter().skip(1));
        let is_word = |next: &Token| matches!(next.kind, TokenKind::Word(_));
        let touch = |token: &Token, next: &Token| token.span.end == next.span.start;
        if pairs.any(|(token, next)| is_brace(token) && is_word(next) && touch(token, next)) {
            self.doubts.push("a brace without a blank".to_owned());
        }
        self.effects_of(text, &lexed.tokens);
        inner
    }

    /// Adds the simple commands.
    fn commands_of(&mut self, line: &CommandLine, is_given: bool) {
        let mut simple = None;
        let mut open: Option<Part> = None;
        for token in &line.lexed().tokens {
            let taken = take(&mut simple, token, line);
            if !taken {
                simple = None;
                self.commands.extend(open.take());
                continue;
            }
            let word = line.written(&token.span);
            let is_word = match token.kind {
                TokenKind::Word(WordRole::Command | WordRole::Argument) => true,
                // `export A=1`
                TokenKind::Assignment | TokenKind::ArrayOpen => open.is_some(),
                _ => false,
            };
            if !is_word {
                continue;
            }
            let unquoted = unquote(word);
            let is_plain = is_plain(word) && unquoted.fixed().is_some();
            let part = open.get_or_insert_with(|| {
                if !is_plain || unquoted.text.contains(|it: char| it.is_whitespace() || it == '=') {
                    self.doubts.push(format!("the program {word}"));
                }
                Part { written: String::new(), words: Vec::new(), plain: 0, is_given }
            });
            if !part.written.is_empty() {
                part.written.push(' ');
            }
            part.written.push_str(word);
            part.plain += usize::from(is_plain && part.is_plain());
            part.words.push(unquoted);
        }
        self.commands.extend(open);
    }

    /// Adds a doubt about code that a token may contain.
    fn doubt_about(
        &mut self,
        token: &Token,
        before: Option<&Token>,
        text: &str,
        inner: &[Range<usize>],
    ) {
        let word = text.get(token.span.clone()).unwrap_or_default();
        let is_after = |reserved| before.is_some_and(|it| it.kind == TokenKind::Reserved(reserved));
        let doubt = match token.kind {
            TokenKind::FunctionParens
            | TokenKind::Reserved(Reserved::Function | Reserved::Coproc)
            | TokenKind::Word(WordRole::FunctionName) => Some("a function"),
            // Zsh has forms of it that end otherwise.
            TokenKind::Reserved(Reserved::Case) => Some("a case"),
            TokenKind::HereDocument => word
                .contains(['`', '\\'])
                .then_some("what a here-document expands")
                .or_else(|| unclear_expansion(token, text, &[])),
            TokenKind::Word(WordRole::Condition) if COMPARE_NUMBERS.contains(&word) => {
                Some("an arithmetic expression")
            }
            TokenKind::Word(WordRole::Condition | WordRole::Pattern) => {
                unclear_expansion(token, text, inner)
            }
            TokenKind::Word(WordRole::LoopName) if Reserved::at_command(word).is_some() => {
                Some("the name of a loop")
            }
            TokenKind::Word(WordRole::LoopWord) if is_after(Reserved::Repeat) => {
                (!is_number(word)).then_some("an arithmetic expression")
            }
            TokenKind::Word(_) | TokenKind::Assignment => {
                let parentheses =
                    || has_parentheses(token, text, inner).then_some("parentheses in a word");
                unclear_expansion(token, text, inner).or_else(parentheses)
            }
            TokenKind::Arithmetic => {
                (!is_plain_arithmetic(word)).then_some("an arithmetic expression")
            }
            _ => None,
        };
        if let Some(doubt) = doubt {
            self.doubts.push(doubt.to_owned());
        }
    }

    /// Adds doubts about what a command may run.
    fn doubt_about_command(&mut self, part: &Part) {
        let mut behind = vec![part.clone()];
        let mut levels = 0;
        let mut doubts = Vec::new();
        while let Some(part) = behind.pop() {
            levels += 1;
            if levels > MOST_PREFIXES {
                doubts.push("many commands that run one another".to_owned());
                break;
            }
            let program = part.program();
            let arguments: Vec<&str> =
                part.words.iter().skip(1).map(|word| word.text.as_str()).collect();
            let is_doubtful = match program {
                None => true,
                Some(name) if CHANGE_MEANING.contains(&name) => true,
                Some("env") => {
                    arguments.iter().any(|it| it.starts_with("-S") || it.starts_with("--sp"))
                }
                Some("test" | "[") => arguments.iter().any(|it| COMPARE_NUMBERS.contains(it)),
                Some(name) if SET_PARAMETERS.contains(&name) => {
                    arguments.iter().any(|it| it.contains('['))
                }
                Some("eval") => part.words.iter().any(|word| word.fixed().is_none()),
                Some(name) if SCRIPT_TAKERS.contains(&name) => match script_of(&part.words) {
                    Some(script) => script.text.starts_with(['-', '+']) || script.fixed().is_none(),
                    // Options that this does not know, or a script from stdin.
                    None => arguments.first().is_none_or(|it| it.starts_with(['-', '+'])),
                },
                Some(_) => false,
            };
            if is_doubtful {
                doubts.push(part.written.clone());
            }
            behind.extend(part.behind_prefix(&[]).map(|(next, _)| next));
            behind.extend(part.run_by_find());
        }
        self.doubts.extend(doubts);
    }

    /// Adds the files that are written and the variables that are set.
    fn effects_of(&mut self, text: &str, tokens: &[Token]) {
        let mut redirection = None;
        let mut is_declaration = false;
        for (at, token) in tokens.iter().enumerate() {
            let word = text.get(token.span.clone()).unwrap_or_default();
            match token.kind {
                TokenKind::Redirection => redirection = Some(word),
                TokenKind::Word(WordRole::Target) => {
                    let target = unquote(word).text;
                    if redirection.take().is_some_and(|operator| writes(operator, &target)) {
                        self.effects.push(format!("writes {target}"));
                    }
                }
                TokenKind::Word(WordRole::LoopName) => self.assignment(word, false),
                TokenKind::Word(WordRole::Command) => is_declaration = true,
                TokenKind::Assignment | TokenKind::ArrayOpen => {
                    let after = tokens.get(at + 1..).unwrap_or_default();
                    let after = after.iter().find(|it| it.kind != TokenKind::Assignment);
                    let is_before_command =
                        after.is_some_and(|it| it.kind == TokenKind::Word(WordRole::Command));
                    self.assignment(word, is_declaration || is_before_command);
                }
                TokenKind::Separator(_) => is_declaration = false,
                _ => {}
            }
        }
    }

    /// Adds what an assignment does. `is_exported`: programs may get the variable.
    fn assignment(&mut self, word: &str, is_exported: bool) {
        let name = assignment_value(word).and_then(|value| word.get(..value));
        let name = name.unwrap_or(word).trim_end_matches(['=', '+', '(']);
        let is_own = !name.contains(char::is_uppercase) && !SPECIAL_PARAMETERS.contains(&name);
        if name.contains('[') || name.ends_with("NULLCMD") {
            // An element of `functions` or `aliases`, perhaps.
            self.doubts.push(format!("sets {name}"));
        } else if !is_harmless_variable(name) && (is_exported || !is_own) {
            self.effects.push(format!("sets {name}"));
        }
    }
}

/// Whether a variable changes nothing of what runs.
pub(crate) fn is_harmless_variable(name: &str) -> bool {
    HARMLESS_VARIABLES.contains(&name)
}

/// Whether a redirection writes to a file.
fn writes(operator: &str, target: &str) -> bool {
    let is_descriptor =
        || target == "-" || target == "p" || target.bytes().all(|byte| byte.is_ascii_digit());
    operator.contains('>')
        && !NO_FILES.contains(&target)
        && !(operator.ends_with('&') && !operator.contains(">>") && is_descriptor())
}

/// Whether a word is literal: it has no expansion and no pattern.
fn is_plain(word: &str) -> bool {
    let is_special = |live: &Live| match live.character {
        '`' | '$' => true,
        '*' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '<' | '>' | '#' | '^' | '~' | '=' => {
            !live.is_quoted
        }
        _ => false,
    };
    let mut live = live(word);
    match word {
        "[" | "]" | "{}" | "=" | "==" => true,
        // Only at the beginning do these two mean anything.
        _ => live.all(|it| !is_special(&it) || it.at > 0 && matches!(it.character, '~' | '=')),
    }
}

/// Whether a text is a number.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether arithmetic has no names, whose values would be read as arithmetic, and no quotes.
fn is_plain_arithmetic(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b" ()+-*/%<>=&|!,?:".contains(&byte))
}

/// The expansions that only insert a value: `${x}`, `${x:-word}`, `${x%.*}`, `${x[1]}`, `${#x}`.
static PLAIN_EXPANSION: LazyLock<Regex> = LazyLock::new(|| {
    let name = r"(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!])";
    let forms = [
        format!(r"#?{name}(?:\[(?:@|\*|-?[0-9]+)\])?"),
        format!(r"{name}:?[-+?][A-Za-z0-9_./ ,:-]*"),
        format!(r"{name}(?:##?|%%?)[A-Za-z0-9_.*/?-]*"),
        format!(r"{name}:[thre]"),
    ];
    let pattern = format!(r"^\{{(?:{})\}}", forms.join("|"));
    Regex::new(&pattern).unwrap_or_else(|error| unreachable!("{pattern}: {error}"))
});

/// Names an expansion in a word that may run code or set a parameter. Ignores these substitutions,
/// which are read separately.
fn unclear_expansion(token: &Token, text: &str, inner: &[Range<usize>]) -> Option<&'static str> {
    let word = text.get(token.span.clone())?;
    let is_in = |at: usize| inner.iter().any(|inside| inside.contains(&(token.span.start + at)));
    let begins = |at: usize| inner.iter().any(|inside| inside.start == token.span.start + at);
    live(word).filter(|it| !is_in(it.at)).find_map(|it| {
        if it.character == '`' {
            return Some("backticks");
        }
        let rest = word.get(it.at + 1..).filter(|_| it.character == '$')?;
        let is_clear = match rest.bytes().next() {
            None => true,
            Some(b'(') if begins(it.at + 2) => true,
            Some(b'(') => {
                let arithmetic = rest.strip_prefix("((").and_then(|rest| rest.split_once("))"));
                arithmetic.is_some_and(|(inside, _)| is_plain_arithmetic(inside))
            }
            Some(b'{') => PLAIN_EXPANSION.is_match(rest),
            Some(b'~' | b'=' | b'^' | b'+' | b'[') => false,
            Some(_) => {
                let name = rest.trim_start_matches(|it: char| it.is_alphanumeric() || it == '_');
                let index =
                    name.strip_prefix('[').map(|index| index.split(']').next().unwrap_or_default());
                index.is_none_or(|index| is_number(index.trim_start_matches('-')))
            }
        };
        (!is_clear).then_some("an expansion")
    })
}

/// Whether a word has parentheses that begin no substitution: those of a glob qualifier may be
/// code.
fn has_parentheses(token: &Token, text: &str, inner: &[Range<usize>]) -> bool {
    let word = text.get(token.span.clone()).unwrap_or_default();
    let is_in = |at: usize| inner.iter().any(|inside| inside.contains(&(token.span.start + at)));
    let begins = |at: usize| inner.iter().any(|inside| inside.start == token.span.start + at);
    let is_arithmetic = |at: usize| {
        word.get(..at).is_some_and(|before| before.ends_with('$') || before.ends_with("$("))
    };
    live(word)
        .filter(|it| it.character == '(' && !it.is_quoted && !is_in(it.at))
        .any(|it| !begins(it.at + 1) && !is_arithmetic(it.at))
}

/// The scripts that a command gives to shells, also behind prefixes and `find`.
fn scripts_of(part: &Part) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut behind = vec![part.clone()];
    for _ in 0..MOST_PREFIXES {
        let Some(part) = behind.pop() else { break };
        if part.program() == Some("eval") {
            let script = join(part.words.get(1..).unwrap_or_default());
            scripts.push(script.strip_prefix("-- ").map_or(script.clone(), str::to_owned));
        } else if let Some(script) = script_of(&part.words) {
            scripts.push(script.text.clone());
        }
        behind.extend(part.behind_prefix(&[]).map(|(next, _)| next));
        behind.extend(part.run_by_find());
    }
    scripts
}

/// A character that is not in single quotes and not escaped.
struct Live {
    at: usize,
    character: char,
    /// Whether it is in double quotes.
    is_quoted: bool,
}

/// The characters of a word that may mean something to the shell.
fn live(word: &str) -> impl Iterator<Item = Live> {
    let mut characters = word.char_indices().peekable();
    let mut is_quoted = false;
    let mut before = None;
    std::iter::from_fn(move || {
        loop {
            let (at, character) = characters.next()?;
            let after = before.replace(character);
            match character {
                '\\' => {
                    characters.next();
                }
                '"' => is_quoted = !is_quoted,
                '\'' if !is_quoted => {
                    let escapes = after == Some('$');
                    while let Some((_, character)) = characters.next() {
                        match character {
                            '\\' if escapes => {
                                characters.next();
                            }
                            '\'' => break,
                            _ => {}
                        }
                    }
                }
                '$' if !is_quoted && characters.peek().is_some_and(|(_, next)| *next == '\'') => {}
                _ => return Some(Live { at, character, is_quoted }),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<String> {
        let found = parts(text);
        assert_eq!(found.doubts, Vec::<String>::new(), "{text}");
        found.commands.into_iter().map(|part| part.written).collect()
    }

    #[test]
    fn each_command_at_any_depth_is_a_part() {
        for (text, expected) in [
            ("git status", &["git status"][..]),
            ("cd x && make -j2 | tee log; echo $?", &["cd x", "make -j2", "tee log", "echo $?"]),
            ("(a; { b; }) & if c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
            ("for x in 1 2; do rm $x; done", &["rm $x"]),
            (
                "echo \"$(git log | head -1)\" <(sort x)",
                &["echo \"$(git log | head -1)\" <(sort x)", "git log", "head -1", "sort x"],
            ),
            ("A=1 npm test 2>&1 > /dev/null", &["npm test"]),
            ("sh -c 'rm x; ls'", &["sh -c 'rm x; ls'", "rm x", "ls"]),
            ("[[ $a == x* ]] && [ -e f ]", &["[ -e f ]"]),
            ("find . -exec sh -c 'rm x' \\;", &["find . -exec sh -c 'rm x' \\;", "rm x"]),
            ("eval : ';' rm x", &["eval : ';' rm x", ":", "rm x"]),
            ("x=$(rm y)", &["rm y"]),
            ("echo $((1 + $(rm z)))", &[]),
        ] {
            if !expected.is_empty() {
                assert_eq!(written(text), expected, "{text}");
            }
        }
    }

    #[test]
    fn what_the_text_does_not_tell_is_a_doubt() {
        for text in [
            "$cmd x",
            "{rm,-rf,/}",
            "r* x",
            "=rm x",
            "'git status'",
            "echo `rm x`",
            "echo \"`rm x`\"",
            "echo *(e:'rm x':)",
            "echo ${(e)x}",
            "echo \"${(e)x}\"",
            "echo $((1 + $(rm z)))",
            "f() { rm x; }; f",
            "function git { rm x; }",
            "functions[git]='rm x'",
            "alias git=rm",
            "trap 'rm x' EXIT",
            "source ./x",
            "sudo . ./x",
            "eval $x",
            "sh -c \"$x\"",
            "cat <<E\n$(rm x)\nE",
            "cat <<E\nE\\\n\nrm x\nE",
            ": ${functions[ls]::=rm}",
            "echo $~x",
            "echo $path['$(rm x)']",
            "((x))",
            "[[ -v 'path[$(rm x)]' ]]",
            "repeat x :",
            "((##')) && rm x; ((##'))",
            "echo $[1]",
            "case x { (y) : ;; }\nrm x",
            "echo $(: # \"\n)*(e:rm:)",
            "for x do rm x; done",
            "command $x",
            "env -S 'rm x'",
            "bash +x -c 'rm x'",
            "echo rm x | sh",
            "printf -v 'functions[g]' rm",
            "NULLCMD=rm; > x",
            "1=x rm y",
            "coproc rm x",
        ] {
            assert_ne!(parts(text).doubts, Vec::<String>::new(), "{text}");
        }
        for text in
            ["git commit -m 'fix `x` (y) ${(e)z}'", "echo \"a (b)\"", "test a = b", "echo ~/x"]
        {
            assert_eq!(parts(text).doubts, Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn files_that_are_written_and_variables_that_are_set_are_told() {
        for (text, effects) in [
            ("a > f 2>&1", &["writes f"][..]),
            ("a >> 'x y' 2>/dev/null", &["writes x y"]),
            ("a &> f", &["writes f"]),
            ("a >& f", &["writes f"]),
            ("a < f", &[]),
            ("PATH=x:$PATH git status", &["sets PATH"]),
            ("path=(x)", &["sets path"]),
            ("n=5; LANG=C sort", &[]),
            ("http_proxy=x npm i", &["sets http_proxy"]),
            ("export LD_PRELOAD=x", &["sets LD_PRELOAD"]),
        ] {
            assert_eq!(parts(text).effects, effects, "{text}");
        }
    }

    #[test]
    fn any_text_is_read_in_bounded_time() {
        for unit in
            ["$(", "sh -c '", "((", "a`", "${(", "{", "find -exec ", "nice ", "find . -exec "]
        {
            let _ = parts(&unit.repeat(2_000));
        }
    }
}
