//! Finds the part of a command line that determines its exit status.
//!
//! The last pipeline of a list determines the status if no earlier command can end the shell, and
//! if each `&&` before it follows a builtin whose failure makes the shell print a message. The
//! caller must search the output for such a message ([`is_complaint`]): a shell may also stop in
//! the middle of a line, as zsh does for a pattern without matches.
//!
//! Limits: conservative. Returns `None` after a compound command, a function or another program
//! before `&&`. Does not recognise a user's function named like a builtin. Pure.

use super::command_line::CommandLine;
use super::syntax::{Pipeline, lists, only_command};
use super::token::{Separator, Token, TokenKind};
use super::unquote::Unquoted;

/// Commands after which the rest of a line may not run, or may run differently.
const CHANGES_SHELL: &[&str] = &[
    "exit", "return", "exec", "logout", "bye", "eval", "source", ".", "set", "setopt", "unsetopt",
    "emulate", "trap", "break", "continue", "autoload", "disable", "enable", "zmodload", "shopt",
    "builtin", "command", "-",
];

/// Builtins whose failure makes the shell print a message.
const REPORTS_FAILURE: &[&str] = &["cd", "pushd", "popd", "echo", "export", "true", ":"];

/// Programs that start others. Their messages begin with these names.
const STARTERS: &[&str] = &["zsh", "bash", "sh", "dash", "sudo", "doas"];

/// The pipeline that determines the exit status of a command line.
#[derive(Debug, Clone)]
pub(crate) struct ExitStatusSource {
    pub(crate) segments: Vec<CommandLine>,
    /// Whether the command line consists only of that pipeline.
    pub(crate) is_alone: bool,
}

/// The pipeline that determines a command line's status, unless the shell prints an error. `None`
/// if another pipeline may determine it, or if `!` inverts it.
pub(crate) fn exit_status_source(line: &CommandLine) -> Option<ExitStatusSource> {
    let lists = lists(line);
    let (last, earlier) = lists.split_last()?;
    let (pipeline, before) = last.pipelines.split_last()?;
    if last.is_background || pipeline.is_negated {
        return None;
    }
    let continues = |pipeline: &Pipeline| pipeline.parts(line).iter().all(leaves_shell_alone);
    let mut foreground = earlier.iter().filter(|list| !list.is_background);
    if !foreground.all(|list| list.pipelines.iter().all(continues)) {
        return None;
    }
    // Before `||` a failure is not the command's failure.
    let mut may_fail_for_all = true;
    for earlier in before.iter().rev() {
        may_fail_for_all &= earlier.joint == Some(Separator::And);
        let is_fine = match earlier.parts(line).as_slice() {
            [only] if may_fail_for_all => !earlier.is_negated && reports_failure(only),
            _ => !may_fail_for_all && continues(earlier),
        };
        if !is_fine {
            return None;
        }
    }
    Some(ExitStatusSource {
        segments: pipeline.parts(line),
        is_alone: earlier.is_empty() && before.is_empty(),
    })
}

fn leaves_shell_alone(segment: &CommandLine) -> bool {
    let Some(simple) = only_command(segment) else {
        return false;
    };
    match simple.words.first() {
        Some(name) => name.fixed().is_some_and(|name| !CHANGES_SHELL.contains(&name)),
        None => !simple.assignments.is_empty(),
    }
}

fn reports_failure(segment: &CommandLine) -> bool {
    let is_redirected = |token: &Token| token.kind == TokenKind::Redirection;
    let Some(simple) = only_command(segment).filter(|simple| simple.assignments.is_empty()) else {
        return false;
    };
    let name = simple.words.first().and_then(Unquoted::fixed);
    name.is_some_and(|name| REPORTS_FAILURE.contains(&name))
        && !segment.lexed().tokens.iter().any(is_redirected)
}

/// Whether a line of output is a message of a shell or `sudo`: `zsh:1: no matches found:
/// *.c`, `zsh:cd:1: …`, `bash: line 1: …`, `sudo: …`.
pub(crate) fn is_complaint(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else {
        return false;
    };
    let name = name.rsplit('/').next().unwrap_or(name);
    STARTERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pipeline_gives_the_status_where_nothing_else_can_have() {
        let table: &[(&str, Option<&[&str]>)] = &[
            ("grep x f", Some(&["grep x f"])),
            ("cat f | grep x", Some(&["cat f", "grep x"])),
            ("cd d && grep x f", Some(&["grep x f"])),
            ("cd d && cd e; cat f | grep x", Some(&["cat f", "grep x"])),
            ("make; grep x f", Some(&["grep x f"])),
            ("make\ngrep x f\n", Some(&["grep x f"])),
            ("A=1; grep $A f", Some(&["grep $A f"])),
            ("sleep 9 & grep x f", Some(&["grep x f"])),
            ("make || grep x f", Some(&["grep x f"])),
            ("make && ls || grep x f", Some(&["grep x f"])),
            ("make || cd d && grep x f", Some(&["grep x f"])),
            // Another command may have failed.
            ("make && grep x f", None),
            ("make || ls && grep x f", None),
            ("cd d | cat && grep x f", None),
            ("[ -d d ] && grep x f", None),
            ("[[ -d d ]] && grep x f", None),
            ("sudo cd d && grep x f", None),
            // A command may have failed without a message.
            ("cd d 2>/dev/null && grep x f", None),
            ("! cd d && grep x f", None),
            ("X=1 cd d && grep x f", None),
            // The shell may have ended, or have been replaced.
            ("set -e; make; grep x f", None),
            ("[ -d d ] || exit 1; grep x f", None),
            ("source env; grep x f", None),
            ("if a; then exit 1; fi; grep x f", None),
            ("(exit 1); grep x f", None),
            ("f() { exit 1 }; f; grep x f", None),
            ("$TOOL; grep x f", None),
            // The pipeline's status is not the command's.
            ("! grep x f", None),
            ("cd d && ! grep x f", None),
            ("grep x f &", None),
            ("", None),
        ];
        for (command, segments) in table {
            let found =
                exit_status_source(&CommandLine::parse(*command)).map(|found| found.segments);
            let found = found.as_deref().map(|found| found.iter().map(CommandLine::text));
            let found: Option<Vec<&str>> = found.map(Iterator::collect);
            assert_eq!(found.as_deref(), *segments, "{command}");
        }
    }

    #[test]
    fn only_a_single_pipeline_is_alone() {
        for (command, is_alone) in [
            ("grep x f", true),
            ("a | b", true),
            ("cd d && grep x f", false),
            ("grep x f; grep x f", false),
            ("true && true", false),
        ] {
            let found =
                exit_status_source(&CommandLine::parse(command)).map(|found| found.is_alone);
            assert_eq!(found, Some(is_alone), "{command}");
        }
    }

    #[test]
    fn a_shells_messages_are_known_by_its_name() {
        for line in [
            "zsh:1: no matches found: *.zzz",
            "zsh:cd:1: no such file or directory: x",
            "zsh: command not found: x",
            "bash: line 1: cd: x: No such file or directory",
            "/bin/sh: 1: cd: can't cd to x",
        ] {
            assert!(is_complaint(line), "{line}");
        }
        for line in ["1,2c1,2", "src/zsh.c:3: x", "a: b", "zsh", ""] {
            assert!(!is_complaint(line), "{line}");
        }
    }
}
