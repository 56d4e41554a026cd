//! Warns about a command before it runs: waits without a deadline, patterns that match themselves,
//! detached jobs, programs that need a terminal.
//!
//! Covers the command line, its substitutions, and the scripts that it passes to shells
//! (`bash -c '…'`), to a bounded depth, but not commands on other hosts. A doubtful case gives no
//! warning: agents ignore advice that is often wrong. Pure.

mod interactive;
mod self_match;
mod wait_loop;

use std::fmt;

use self::interactive::terminal_need;
use self::self_match::{count_matches, pattern_of, without_self_match};
use self::wait_loop::waits_without_deadline;
use super::command_line::CommandLine;
use super::interpreters;
use super::prefix::{base_name, split_prefix};
use super::syntax::{Simple, simple_commands};
use super::token::Separator;
use super::unquote::Unquoted;
use crate::text::foreign;

/// How deep scripts within scripts are checked.
const LEVELS: usize = 4;

/// How many patterns of `pgrep` to try per command line.
const MAX_PATTERNS: usize = 8;

/// A part of a command that will not do what its author intended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lint {
    /// A loop waits for something and has no deadline.
    WaitLoopWithoutDeadline,
    /// `pgrep -f` or `pkill -f` finds its own shell.
    SelfMatchingPgrep {
        program: String,
        pattern: String,
        /// The same pattern in a form that does not match this command (`[s]erver`), if
        /// there is one.
        instead: Option<String>,
    },
    /// A job is detached from the shell (`nohup … &`, `… & disown`).
    NohupBackground,
    /// An editor without a terminal, or a program that starts one.
    EditorWithoutTerminal {
        /// `vim`, `git commit`.
        program: String,
    },
    PagerWithoutTerminal {
        program: String,
    },
    /// A program that draws on the screen, without a terminal.
    ScreenWithoutTerminal {
        program: String,
    },
}

/// A warning in one line: what will happen, and what to do instead.
impl fmt::Display for Lint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lint::WaitLoopWithoutDeadline => out.write_str(
                "This loop waits without a deadline: if what it waits for never comes, only a \
                 timeout that you pass ends it. Count the tries (for i in {1..30}), or start the \
                 program itself with background: true and until: REGEX.",
            ),
            Lint::SelfMatchingPgrep { program, pattern, instead } => {
                let does = match program.as_str() {
                    "pkill" => "kills its own shell too",
                    _ => "always finds its own shell",
                };
                write!(
                    out,
                    "{program} -f '{}' {does}, since this command's text matches. ",
                    foreign::between_quotes(pattern)
                )?;
                // What is not shown as it is cannot be copied.
                let instead =
                    instead.as_ref().filter(|form| foreign::between_quotes(form) == **form);
                match instead {
                    Some(form) => write!(out, "Use '{form}', or zsh_kill for a task of this tool."),
                    None => out.write_str("Use a pid, or zsh_kill for a task of this tool."),
                }
            }
            Lint::NohupBackground => out.write_str(
                "A detached job has no task: its exit code is lost, and it still ends with the \
                 server. Run it in the foreground with background: true; then zsh_poll shows its \
                 output and zsh_kill ends it.",
            ),
            Lint::EditorWithoutTerminal { program } if program.starts_with("git ") => write!(
                out,
                "{program} opens an editor and there is no terminal: it hangs or fails. Pass the \
                 text with an option (-m, -F, --no-edit), set GIT_SEQUENCE_EDITOR, or pass pty: true."
            ),
            Lint::EditorWithoutTerminal { program } => write!(
                out,
                "{program} needs a terminal: without one it hangs or fails. Pass pty: true and \
                 type with zsh_send, or change the file with a command."
            ),
            Lint::PagerWithoutTerminal { program } => write!(
                out,
                "{program} has no terminal and prints everything at once, as cat does. Leave it \
                 out; zsh_poll shows parts with from_line and grep. To page, pass pty: true."
            ),
            Lint::ScreenWithoutTerminal { program } => write!(
                out,
                "{program} draws on a terminal and there is none: it fails. Pass pty: true and \
                 look at the screen with zsh_poll, or use its batch mode (top -b -n 1)."
            ),
        }
    }
}

/// The warnings about a command, each once, in order of position. `has_terminal` is set with
/// `pty: true`.
pub fn lints(line: &CommandLine, has_terminal: bool) -> Vec<Lint> {
    let command = line.text();
    let mut search = Search {
        command,
        has_terminal,
        editor_is_set: ["EDITOR=", "VISUAL=", "core.editor", "sequence.editor"]
            .iter()
            .any(|setting| command.contains(setting)),
        patterns: 0,
        found: Vec::new(),
    };
    let mut scripts = Vec::new();
    search.script(line, false, &mut scripts);
    for _ in 1..LEVELS {
        let mut inner = Vec::new();
        for Script { text, has_deadline } in scripts {
            search.script(&CommandLine::parse(text), has_deadline, &mut inner);
        }
        scripts = inner;
    }
    search.found
}

/// A piece of shell text.
struct Script {
    text: String,
    /// Whether it runs under `timeout`.
    has_deadline: bool,
}

struct Search<'a> {
    command: &'a str,
    has_terminal: bool,
    editor_is_set: bool,
    patterns: usize,
    found: Vec<Lint>,
}

impl Search<'_> {
    /// Checks one script and collects the scripts within it.
    fn script(&mut self, line: &CommandLine, has_deadline: bool, inner: &mut Vec<Script>) {
        if !has_deadline && waits_without_deadline(line) {
            self.add(Lint::WaitLoopWithoutDeadline);
        }
        let commands = simple_commands(line);
        if detaches(&commands) {
            self.add(Lint::NohupBackground);
        }
        for simple in &commands {
            self.simple(simple);
            inner.extend(script_of(simple).map(|mut within| {
                within.has_deadline |= has_deadline;
                within
            }));
        }
        let substitutions = line.lexed().substitutions.iter();
        inner.extend(
            substitutions.map(|span| Script { text: line.written(span).to_owned(), has_deadline }),
        );
    }

    fn simple(&mut self, simple: &Simple) {
        if let Some((program, pattern)) = pattern_of(simple)
            && let Some(pattern) = pattern.fixed()
            && self.patterns < MAX_PATTERNS
        {
            self.patterns += 1;
            let matches = count_matches(pattern, self.command);
            if matches > 0 {
                self.add(Lint::SelfMatchingPgrep {
                    program: program.to_owned(),
                    pattern: pattern.to_owned(),
                    instead: without_self_match(pattern).filter(|_| matches == 1),
                });
            }
        }
        if !self.has_terminal
            && let Some(lint) = terminal_need(simple, self.editor_is_set)
        {
            self.add(lint);
        }
    }

    fn add(&mut self, lint: Lint) {
        if !self.found.contains(&lint) {
            self.found.push(lint);
        }
    }
}

/// Whether a job is detached: run by `nohup` or `setsid` in the background, or disowned.
fn detaches(commands: &[Simple]) -> bool {
    // Backwards, since the end of a pipeline or a list applies to each of its parts.
    let mut is_background = false;
    let mut has_background = false;
    let mut has_disown = false;
    for simple in commands.iter().rev() {
        match simple.ended_by {
            Some(Separator::Disown) => return true,
            Some(separator) if separator.waits_for_more() => {}
            ended_by => is_background = ended_by == Some(Separator::Background),
        }
        has_background |= is_background;
        has_disown |= simple.program() == Some("disown");
        if is_background && is_detached(&simple.words) {
            return true;
        }
    }
    has_disown && has_background
}

/// Whether one of the prefixes detaches the command.
fn is_detached(words: &[Unquoted]) -> bool {
    let mut words = words;
    while let Some(split) = split_prefix(words) {
        if is_named(words, &["nohup", "setsid"]) {
            return true;
        }
        words = split.command;
    }
    false
}

fn is_named(words: &[Unquoted], names: &[&str]) -> bool {
    words.first().and_then(Unquoted::fixed).is_some_and(|name| names.contains(&base_name(name)))
}

/// The script that a command gives to a shell, and whether it has a deadline.
fn script_of(simple: &Simple) -> Option<Script> {
    let mut words = simple.words.as_slice();
    let mut has_deadline = false;
    while let Some(split) = split_prefix(words) {
        has_deadline |= is_named(words, &["timeout"]);
        words = split.command;
    }
    let script = interpreters::script_of(words)?;
    Some(Script { text: script.text.clone(), has_deadline })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pkill(pattern: &str) -> Lint {
        Lint::SelfMatchingPgrep {
            program: "pkill".to_owned(),
            pattern: pattern.to_owned(),
            instead: without_self_match(pattern),
        }
    }

    #[test]
    fn commands_get_their_warnings() {
        let vim = || Lint::EditorWithoutTerminal { program: "vim".to_owned() };
        let table: Vec<(&str, Vec<Lint>)> = vec![
            ("ls -l", vec![]),
            ("until curl x; do sleep 1; done", vec![Lint::WaitLoopWithoutDeadline]),
            ("timeout 60 bash -c 'until curl x; do sleep 1; done'", vec![]),
            ("bash -c 'until curl x; do sleep 1; done'", vec![Lint::WaitLoopWithoutDeadline]),
            ("nohup ./server > log 2>&1 &", vec![Lint::NohupBackground]),
            ("nohup ./server | tee log & sleep 1", vec![Lint::NohupBackground]),
            ("(nohup ./server &)", vec![Lint::NohupBackground]),
            ("./server & disown", vec![Lint::NohupBackground]),
            ("./server &!", vec![Lint::NohupBackground]),
            ("sudo nohup ./server &", vec![Lint::NohupBackground]),
            ("nohup ./server", vec![]),
            ("./server & wait", vec![]),
            ("echo nohup x &", vec![]),
            ("pkill -f server.js", vec![pkill("server.js")]),
            ("kill $(pgrep -f '[s]erver.js')", vec![]),
            ("kill $(pkill -f server.js)", vec![pkill("server.js")]),
            ("echo \"$(echo $(pkill -f abc))\"", vec![pkill("abc")]),
            ("bash -lc \"pkill -f abc\"", vec![pkill("abc")]),
            ("ssh host 'vim x'", vec![]),
            ("vim x; vim y", vec![vim()]),
            ("GIT_EDITOR=true git commit", vec![]),
            ("git -c core.editor=true commit", vec![]),
            ("EDITOR=cat crontab -e", vec![]),
            ("cat <<E\nvim x\nE", vec![]),
            ("eval 'vim x'", vec![vim()]),
        ];
        for (command, expected) in table {
            assert_eq!(lints(&CommandLine::parse(command), false), expected, "{command}");
        }
    }

    #[test]
    fn a_terminal_is_all_that_editors_need() {
        for command in ["vim x", "top", "git commit", "less x"] {
            assert_eq!(lints(&CommandLine::parse(command), false).len(), 1, "{command}");
            assert_eq!(lints(&CommandLine::parse(command), true), [], "{command}");
        }
        assert_eq!(lints(&CommandLine::parse("pkill -f abc"), true).len(), 1);
    }

    #[test]
    fn each_warning_is_one_line() {
        for command in [
            "until a; do sleep 1; done",
            "pkill -f abc",
            "pgrep -f '.*'",
            "nohup a &",
            "vim",
            "git rebase -i x",
            "less",
            "top",
        ] {
            for lint in lints(&CommandLine::parse(command), false) {
                let said = lint.to_string();
                assert!(!said.contains('\n') && !said.contains("  "), "{said}");
                assert!(said.ends_with('.'), "{said}");
            }
        }
        assert_eq!(
            pkill("server.js").to_string(),
            "pkill -f 'server.js' kills its own shell too, since this command's text matches. \
             Use '[s]erver.js', or zsh_kill for a task of this tool."
        );
    }

    #[test]
    fn no_suggested_form_matches_another_word() {
        let found = lints(&CommandLine::parse("pkill -f server.js; node server.js"), false);
        let expected = Lint::SelfMatchingPgrep {
            program: "pkill".to_owned(),
            pattern: "server.js".to_owned(),
            instead: None,
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn nesting_and_many_patterns_are_bounded() {
        let nested = "$(".repeat(20_000) + "pkill -f abc";
        assert!(lints(&CommandLine::parse(&nested), false).is_empty());
        let many = "pkill -f abc;".repeat(20_000);
        assert_eq!(lints(&CommandLine::parse(&many), false).len(), 1);
    }
}
