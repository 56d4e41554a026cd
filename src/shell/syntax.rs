//! Finds the commands of a command line: lists, pipelines, their segments, simple commands.
//!
//! Limits: finds only pipelines at the top level; a subshell, a loop or a function is part of one
//! segment. Finds simple commands at any depth, but not in substitutions. Pure.

use std::ops::Range;

use super::command_line::CommandLine;
use super::prefix::{base_name, innermost};
use super::programs::{Program, is_builtin};
use super::token::{Reserved, Separator, Token, TokenKind, WordRole};
use super::unquote::{Unquoted, unquote};

/// The exit code of a program that SIGPIPE ended, the usual end of a segment whose reader has
/// stopped reading.
const BROKEN_PIPE: i32 = 141;

/// Commands after which the rest of a command line does not run.
const ENDS: &[&str] = &["exit", "return", "exec", "logout", "bye"];

/// Words that begin compound commands, which contain pipelines in the same shell.
const COMPOUND: &[&str] =
    &["{", "if", "case", "for", "foreach", "while", "until", "repeat", "select"];

/// Settings that make the first failure end the shell.
const ENDS_ON_FAILURE: &[&str] = &["errexit", "err_exit", "ERR_EXIT", "ERREXIT", "set -e"];

/// A simple command with its words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Simple {
    /// The unchanged assignments; only the beginning of an array.
    pub(crate) assignments: Vec<String>,
    /// Its name and arguments, without quotes and redirections.
    pub(crate) words: Vec<Unquoted>,
    /// How many compound commands contain it.
    pub(crate) depth: u32,
    /// The range from its first token to its last.
    pub(crate) span: Range<usize>,
    pub(crate) ended_by: Option<Separator>,
}

impl Simple {
    /// The program that it runs, without directory and prefixes (`sudo`, `env`); `None` if the name
    /// has an expansion.
    pub(crate) fn program(&self) -> Option<&str> {
        innermost(&self.words).first().and_then(Unquoted::fixed).map(base_name)
    }

    /// The words of the command itself, without its prefixes.
    pub(crate) fn core(&self) -> &[Unquoted] {
        innermost(&self.words)
    }
}

/// The simple commands of a command line, in order.
pub(crate) fn simple_commands(line: &CommandLine) -> Vec<Simple> {
    let mut commands = Vec::new();
    let mut current: Option<Simple> = None;
    for token in &line.lexed().tokens {
        if take(&mut current, token, line) {
            continue;
        }
        if let Some(mut simple) = current.take() {
            if let TokenKind::Separator(separator) = token.kind {
                simple.ended_by = Some(separator);
            }
            commands.push(simple);
        }
    }
    commands.extend(current);
    commands
}

/// Adds a token to the current simple command, or begins a new one. Returns false for a token that
/// ends it.
pub(super) fn take(current: &mut Option<Simple>, token: &Token, line: &CommandLine) -> bool {
    let begun = matches!(
        token.kind,
        TokenKind::Word(WordRole::Command | WordRole::Argument)
            | TokenKind::Assignment
            | TokenKind::ArrayOpen
            | TokenKind::Redirection
    );
    if begun && current.is_none() {
        *current =
            Some(Simple { depth: token.depth, span: token.span.clone(), ..Simple::default() });
    }
    let word = line.written(&token.span);
    let Some(simple) = current else {
        return matches!(
            token.kind,
            TokenKind::Word(WordRole::Target | WordRole::Element)
                | TokenKind::ArrayClose
                | TokenKind::Comment
                | TokenKind::HereDocument
        );
    };
    match token.kind {
        TokenKind::Assignment | TokenKind::ArrayOpen if simple.words.is_empty() => {
            simple.assignments.push(word.to_owned());
        }
        TokenKind::Word(WordRole::Command | WordRole::Argument)
        | TokenKind::Assignment
        | TokenKind::ArrayOpen => {
            simple.words.push(unquote(word));
        }
        TokenKind::Redirection
        | TokenKind::Word(WordRole::Target | WordRole::Element)
        | TokenKind::ArrayClose => {}
        TokenKind::Comment | TokenKind::HereDocument => return true,
        _ => return false,
    }
    simple.span.end = token.span.end;
    true
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct List {
    pub(crate) pipelines: Vec<Pipeline>,
    /// Whether the shell runs it without waiting for it.
    pub(crate) is_background: bool,
}

/// Commands joined by `|` and `|&`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pipeline {
    /// Its segments, by their positions in the text.
    pub(crate) segments: Vec<Range<usize>>,
    /// Whether `!` inverts its status.
    pub(crate) is_negated: bool,
    /// The operator after it; `None` for the last of a list.
    pub(crate) joint: Option<Separator>,
}

/// The lists of the top level in order. `!` and `time` are not part of a segment.
pub(crate) fn lists(line: &CommandLine) -> Vec<List> {
    let mut lists = Vec::new();
    let mut list = List::default();
    let mut pipeline = Pipeline::default();
    let mut segment: Option<Range<usize>> = None;
    for token in &line.lexed().tokens {
        let Some(separator) = top_level_separator(token) else {
            pipeline.is_negated ^=
                token.kind == TokenKind::Reserved(Reserved::Not) && token.depth == 0;
            if belongs(token, segment.is_some()) {
                let start = segment.map_or(token.span.start, |segment| segment.start);
                segment = Some(start..token.span.end);
            }
            continue;
        };
        pipeline.segments.extend(segment.take());
        if separator.is_pipe() {
            continue;
        }
        let ended = std::mem::take(&mut pipeline);
        list.pipelines.extend((!ended.segments.is_empty()).then_some(ended));
        let Some(last) = list.pipelines.last_mut() else {
            continue;
        };
        if separator.waits_for_more() {
            last.joint = Some(separator);
            continue;
        }
        list.is_background = matches!(separator, Separator::Background | Separator::Disown);
        lists.push(std::mem::take(&mut list));
    }
    pipeline.segments.extend(segment);
    if !pipeline.segments.is_empty() {
        list.pipelines.push(pipeline);
    }
    if !list.pipelines.is_empty() {
        lists.push(list);
    }
    lists
}

fn top_level_separator(token: &Token) -> Option<Separator> {
    match token.kind {
        TokenKind::Separator(separator) if token.depth == 0 => Some(separator),
        _ => None,
    }
}

fn belongs(token: &Token, has_begun: bool) -> bool {
    match token.kind {
        TokenKind::Comment | TokenKind::HereDocument => false,
        TokenKind::Reserved(Reserved::Not | Reserved::Time | Reserved::NoCorrect) => has_begun,
        _ => true,
    }
}

/// The segments of the last top-level pipeline that is not a background job: for `a | b; c` it is
/// `c`. Omits bodies of here-documents.
pub fn last_pipeline_segments(line: &CommandLine) -> Vec<CommandLine> {
    let lists = lists(line);
    let last = lists.iter().rev().find(|list| !list.is_background);
    let pipeline = last.and_then(|list| list.pipelines.last());
    pipeline.map(|pipeline| pipeline.parts(line)).unwrap_or_default()
}

/// The segments of the pipeline that ran last, given the number of statuses in zsh's final
/// `pipestatus`. Empty if several pipelines may have run last, as in `a | b && c | d`, or if
/// none has that many segments.
pub(crate) fn reported_segments(line: &CommandLine, statuses: usize) -> Vec<CommandLine> {
    let lists = lists(line);
    let any_may_run_last = ENDS_ON_FAILURE.iter().any(|setting| line.text().contains(setting));
    let last = lists.iter().rposition(|list| !list.is_background);
    let candidates: Vec<&Pipeline> = lists
        .iter()
        .enumerate()
        .filter(|(at, list)| Some(*at) == last || any_may_run_last || may_end(line, list))
        .flat_map(|(_, list)| &list.pipelines)
        .collect();
    if candidates.iter().any(|pipeline| is_open(line, pipeline)) {
        return Vec::new();
    }
    let mut fitting = candidates.into_iter().filter(|pipeline| pipeline.segments.len() == statuses);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => only.parts(line),
        _ => Vec::new(),
    }
}

/// Whether the shell may end within this list.
fn may_end(line: &CommandLine, list: &List) -> bool {
    list.pipelines
        .iter()
        .flat_map(|pipeline| &pipeline.segments)
        .map(|segment| line.written(segment))
        .any(|text| text.split([' ', '\t', '\n', ';', '(', '{']).any(|word| ENDS.contains(&word)))
}

/// Whether the statuses may belong to a pipeline within this one: zsh reports the inner statuses if
/// a group or a branch is the whole pipeline.
fn is_open(line: &CommandLine, pipeline: &Pipeline) -> bool {
    let [segment] = pipeline.segments.as_slice() else { return false };
    let first = line.written(segment).split([' ', '\t', '\n', ';']).next();
    first.is_some_and(|word| COMPOUND.contains(&word))
}

impl Pipeline {
    /// The segments as lines of their own.
    pub(super) fn parts(&self, line: &CommandLine) -> Vec<CommandLine> {
        self.segments.iter().map(|segment| line.part(segment)).collect()
    }
}

/// The program whose manual explains a failure, with its subcommands (`git`, `push`): the program
/// of the rightmost failing segment if the statuses show one, otherwise that of the last simple
/// command that is not a builtin.
pub(crate) fn failing_command(line: &CommandLine, pipestatus: &[i32]) -> Option<Vec<String>> {
    let failing = pipestatus.iter().rposition(|status| *status != 0 && *status != BROKEN_PIPE);
    let segments = match pipestatus.len() {
        0 | 1 => Vec::new(),
        statuses => reported_segments(line, statuses),
    };
    match failing.and_then(|at| segments.get(at)) {
        Some(segment) => last_program(segment),
        None => last_program(line),
    }
}

fn last_program(line: &CommandLine) -> Option<Vec<String>> {
    let commands = simple_commands(line);
    commands.iter().rev().find_map(|simple| {
        let name = simple.program().filter(|name| !is_builtin(name))?;
        Some(with_subcommands(name, simple.core()))
    })
}

/// A program's name and the subcommands at the beginning of these words.
fn with_subcommands(name: &str, words: &[Unquoted]) -> Vec<String> {
    let program = Program::named(name);
    let mut found = vec![name.to_owned()];
    let mut missing = program.depth;
    let mut words = words.iter().skip(1);
    while missing > 0 {
        let Some(word) = words.next().and_then(Unquoted::fixed) else {
            break;
        };
        if word.starts_with('-') {
            if program.values.takes_next(word) {
                words.next();
            }
            continue;
        }
        if !is_subcommand(word) {
            break;
        }
        missing -= 1;
        if found.len() == 1 {
            missing += program.deeper(word);
        }
        found.push(word.to_owned());
    }
    found
}

/// The longest subcommand, in bytes.
const MAX_SUBCOMMAND: usize = 40;

/// Whether a word looks like a subcommand of a program in no table: lower-case letters,
/// digits, `-`, `_` and `:`, as in `up` and `db:migrate`, but not a file name with a dot.
pub(super) fn is_lower_case_word(word: &str) -> bool {
    let is_in_word =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_:".contains(&byte);
    word.len() <= MAX_SUBCOMMAND
        && word.starts_with(|first: char| first.is_ascii_lowercase())
        && word.bytes().all(is_in_word)
}

/// Whether a word looks like a subcommand instead of a path, an address or text.
pub(super) fn is_subcommand(word: &str) -> bool {
    word.len() <= MAX_SUBCOMMAND
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:.-".contains(&byte))
}

/// The command of a segment that consists of one simple command.
pub(crate) fn only_command(segment: &CommandLine) -> Option<Simple> {
    let mut commands = simple_commands(segment);
    let only = commands.pop()?;
    (commands.is_empty() && only.depth == 0).then_some(only)
}

/// The words of a segment that is one simple command, without its prefixes.
pub(crate) fn segment_words(segment: &CommandLine) -> Option<Vec<Unquoted>> {
    Some(only_command(segment)?.core().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pipeline_is_that_of_the_top_level() {
        let table: &[(&str, &[&str])] = &[
            ("a | b; c", &["c"]),
            ("a; b x | c 'y|z'", &["b x", "c 'y|z'"]),
            ("cd d && cat f |& grep x", &["cat f", "grep x"]),
            ("a | b\n\n# done | over\n", &["a", "b"]),
            ("a |\n  # why\n  b", &["a", "b"]),
            ("! time a | b", &["a", "b"]),
            (
                "for i in 1 2; do a | b; done | tail -1",
                &["for i in 1 2; do a | b; done", "tail -1"],
            ),
            ("(a | b; c) | { d; e | f }", &["(a | b; c)", "{ d; e | f }"]),
            ("a | b; sleep 9 &", &["a", "b"]),
            ("a | b &", &[]),
            ("cat <<E | sort > f\nx | y\nE\n", &["cat <<E", "sort > f"]),
            ("case x in a|b) c | d;; esac", &["case x in a|b) c | d;; esac"]),
            ("[[ a == (b|c) || d ]] | e", &["[[ a == (b|c) || d ]]", "e"]),
            ("f() { a | b }", &["f() { a | b }"]),
            ("echo $(a | b) \"`c | d`\" | e", &["echo $(a | b) \"`c | d`\"", "e"]),
            ("", &[]),
            (" ; ", &[]),
        ];
        for (command, segments) in table {
            assert_eq!(
                last_pipeline_segments(&CommandLine::parse(*command)),
                *segments,
                "{command}"
            );
        }
    }

    #[test]
    fn statuses_belong_to_a_pipeline_only_if_no_other_can_have_run_last() {
        let table: &[(&str, usize, &[&str])] = &[
            ("a | b", 2, &["a", "b"]),
            ("a | b", 3, &[]),
            ("cd d && a | b", 2, &["a", "b"]),
            ("a | b || true", 2, &["a", "b"]),
            ("a | b && c | d", 2, &[]),
            ("a | b && c | d | e", 3, &["c", "d", "e"]),
            ("a | b; c | d", 2, &["c", "d"]),
            ("a | b || exit 1; c | d", 2, &[]),
            ("a | b || { exit 1 }; c | d", 2, &[]),
            ("a | b && { c | d }", 2, &[]),
            ("a | b; if c; then d | e; fi", 2, &[]),
            ("if ! a | b; then exit 1; fi; c | d", 2, &[]),
            ("if ! a; then return; fi; c | d", 2, &[]),
            ("{ a; b } | c", 2, &["{ a; b }", "c"]),
            ("if a; then b; fi; c | d", 2, &["c", "d"]),
            ("set -eo pipefail; a | b; c | d", 2, &[]),
            ("set -e; cd x; c | d", 2, &["c", "d"]),
        ];
        for (command, statuses, segments) in table {
            assert_eq!(
                reported_segments(&CommandLine::parse(*command), *statuses),
                *segments,
                "{command}"
            );
        }
    }

    #[test]
    fn the_manual_is_that_of_the_failing_program() {
        let table: &[(&str, &[i32], Option<&str>)] = &[
            ("git push origin x", &[], Some("git push")),
            ("cat f | grep -q x | sort --bad", &[0, 1, 2], Some("sort")),
            ("cat f | grep --bad x | sort", &[0, 2, 0], Some("grep")),
            ("yes | head -1; cd /nowhere", &[141, 0], Some("head")),
            ("yes | head --bad", &[141, 1], Some("head")),
            ("make && cd x && echo done", &[1], Some("make")),
            ("sudo -u bob git -C d remote add x y", &[], Some("git remote add")),
            ("docker compose -f x.yml up -d", &[], Some("docker compose up")),
            ("/usr/bin/tar xf a.tar", &[], Some("tar")),
            ("timeout 5 curl x", &[], Some("curl")),
            ("cd x", &[1], None),
            ("$TOOL x", &[1], None),
            ("for f in *; do gzip -d $f; done", &[], Some("gzip")),
            ("x=$(curl y)", &[], None),
            ("a | b && c | d", &[1, 0], Some("d")),
            ("", &[], None),
        ];
        for (command, pipestatus, expected) in table {
            let found = failing_command(&CommandLine::parse(*command), pipestatus)
                .map(|words| words.join(" "));
            assert_eq!(found.as_deref(), *expected, "{command}");
        }
    }
}
