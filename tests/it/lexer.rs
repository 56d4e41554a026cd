//! The lexer and what is derived from command lines: the table in `tests/fixtures/commands`,
//! and zsh itself as the oracle of word boundaries.

use std::process::Command;

use zsh_tool::testing::shell::command_line::CommandLine;
use zsh_tool::testing::shell::lexer::lex;
use zsh_tool::testing::shell::ssh::ssh_of_segment;
use zsh_tool::testing::shell::syntax::last_pipeline_segments;
use zsh_tool::testing::shell::template::{template, with_subcommands};
use zsh_tool::testing::shell::token::{Reserved, Separator, TokenKind, WordRole};

const TABLE: &str = include_str!("../fixtures/commands/commands.txt");

/// A command line of the table, with what is to be told of it.
#[derive(Debug, Default)]
struct Row {
    command: String,
    template: Option<String>,
    with_subcommands: Option<String>,
    segments: Vec<String>,
    ssh: Option<String>,
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let is_heading = |line: &&str| !line.starts_with("  ") && !line.starts_with("--");
    for line in TABLE.lines().skip(1).filter(is_heading) {
        let (mark, text) = line.split_at_checked(1).unwrap_or_default();
        let text = text.strip_prefix(' ').unwrap_or(text);
        if mark == "$" {
            rows.push(Row { command: text.to_owned(), ..Row::default() });
            continue;
        }
        let Some(row) = rows.last_mut() else { continue };
        match mark {
            // The further lines of a command, or of a segment of it.
            ">" => {
                let longer = row.segments.last_mut().unwrap_or(&mut row.command);
                longer.push('\n');
                longer.push_str(text);
            }
            "=" => row.template = Some(text.to_owned()),
            "+" => row.with_subcommands = Some(text.to_owned()),
            "|" => row.segments.push(text.to_owned()),
            "@" => row.ssh = Some(text.to_owned()),
            "" => {}
            _ => panic!("the table has a line that is none: {line}"),
        }
    }
    rows
}

#[test]
fn templates_are_those_of_the_table() {
    let rows = rows();
    assert!(rows.len() >= 150, "only {} rows", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .filter(|row| row.template.as_ref() != Some(&template(&CommandLine::parse(&row.command))))
        .map(|row| {
            let wanted = row.template.as_deref().unwrap_or("(none in the table)");
            format!(
                "{}\n  wanted: {wanted}\n  is:     {}",
                row.command,
                template(&CommandLine::parse(&row.command))
            )
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn words_that_may_be_subcommands_are_those_of_the_table() {
    let wrong: Vec<String> = rows()
        .into_iter()
        .map(|row| (with_subcommands(&CommandLine::parse(&row.command)), row))
        .filter(|(found, row)| *found != row.with_subcommands)
        .map(|(found, row)| {
            let (wanted, found) = (
                row.with_subcommands.as_deref().unwrap_or("(none)"),
                found.as_deref().unwrap_or("(none)"),
            );
            format!("{}\n  wanted: {wanted}\n  is:     {found}", row.command)
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn segments_of_the_last_pipeline_are_those_of_the_table() {
    for row in rows() {
        let segments = last_pipeline_segments(&CommandLine::parse(&row.command));
        if segments.len() < 2 {
            assert!(row.segments.is_empty(), "{}: {segments:?}", row.command);
        } else {
            let texts: Vec<&str> = segments.iter().map(CommandLine::text).collect();
            assert_eq!(texts, row.segments, "{}", row.command);
            for segment in &segments {
                let alone = CommandLine::parse(segment.text());
                assert_eq!(template(segment), template(&alone), "{}", row.command);
            }
        }
    }
}

#[test]
fn hosts_and_remote_commands_are_those_of_the_table() {
    for row in rows() {
        let found = last_pipeline_segments(&CommandLine::parse(&row.command))
            .iter()
            .find_map(ssh_of_segment)
            .map(|ssh| match ssh.remote_command {
                Some(remote_command) => format!("{}: {remote_command}", ssh.host),
                None => ssh.host,
            });
        assert_eq!(found, row.ssh, "{}", row.command);
    }
}

/// Lines that zsh's splitting for `(z)` takes apart otherwise than zsh's parser does, by
/// a word of theirs, with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    ("<<", "bodies of here-documents are words to it"),
    ("for ((", "the three parts of the head are words to it"),
    ("local -a list=(", "it does not know that `local` may assign arrays"),
    ("for x y (", "it knows only one variable in front of a list"),
    ("in (b) c", "a first pattern in parentheses is one word to it, a later one is not"),
];

#[test]
fn words_end_where_zsh_ends_them() {
    let more = include_str!("../fixtures/commands/words.txt");
    let commands = rows().into_iter().map(|row| row.command).chain(more.lines().map(str::to_owned));
    let mut compared = 0;
    let mut wrong = Vec::new();
    for command in commands {
        if OTHERWISE.iter().any(|(word, _)| command.contains(word)) {
            continue;
        }
        let expected = zsh_words(&command);
        let found = words(&command);
        compared += 1;
        if found != expected {
            wrong.push(format!("{command}\n  zsh: {expected:?}\n  is:  {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(compared >= 150, "only {compared} compared");
}

/// The words as zsh splits them, comments known.
fn zsh_words(command: &str) -> Vec<String> {
    let output = Command::new("zsh")
        .args(["-fc", "print -rN -- \"${(@Z+C+)1}\"", "_", command])
        .output()
        .expect("zsh runs");
    let words = String::from_utf8_lossy(&output.stdout).replace("\\\n", "");
    let mut words: Vec<String> = words.split('\0').map(str::to_owned).collect();
    words.pop();
    normal(words)
}

/// The words as the lexer sees them, written as `(Z)` writes them.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for token in lex(command).tokens {
        let text = command[token.span].replace("\\\n", "");
        match token.kind {
            TokenKind::Comment => {}
            TokenKind::Separator(Separator::Newline) => words.push(";".to_owned()),
            TokenKind::Separator(Separator::Disown) => words.push("&|".to_owned()),
            TokenKind::Redirection => words.extend(redirection(&text)),
            // Only with `|` in it is a pattern in parentheses one word to zsh.
            TokenKind::Word(WordRole::Pattern) if text.starts_with('(') && !text.contains('|') => {
                let inside = text.trim_matches(['(', ')']);
                words.extend(["(", inside, ")"].map(str::to_owned));
            }
            _ => words.push(text),
        }
    }
    normal(words)
}

/// Zsh writes a named descriptor as a word, and each operator in one way.
fn redirection(text: &str) -> Vec<String> {
    let name = text.find('}').map_or(0, |end| end + 1);
    let (name, operator) = text.split_at(name);
    let operator = match operator {
        "&>>" => ">>&",
        ">!" => ">|",
        other => other,
    };
    [name, operator].into_iter().filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Each end of a line is a `;` to zsh, also where nothing ends with it.
fn normal(mut words: Vec<String>) -> Vec<String> {
    const GO_ON: &[&str] = &[";", "&&", "||", "|", "|&", "in", ";;", ";&", ";|"];
    words.dedup_by(|next, word| next == ";" && GO_ON.contains(&word.as_str()));
    while words.last().is_some_and(|word| word == ";" || word.is_empty()) {
        words.pop();
    }
    words
}

#[test]
fn reserved_words_are_ones_only_where_a_command_may_begin() {
    let reserved = |command: &str| {
        lex(command)
            .tokens
            .iter()
            .filter(|token| matches!(token.kind, TokenKind::Reserved(_)))
            .count()
    };
    assert_eq!(reserved("echo if then fi do done { [[ !"), 0);
    assert_eq!(reserved("\"if\" x; 'then' y"), 0);
    assert_eq!(reserved("A=1 if x"), 0);
    assert_eq!(reserved("if a; then b; elif c; then d; else e; fi"), 6);
    let braces = lex("{ echo {a,b} }; x").tokens;
    assert_eq!(
        braces
            .iter()
            .filter(|token| token.kind == TokenKind::Reserved(Reserved::BraceClose))
            .count(),
        1
    );
}
