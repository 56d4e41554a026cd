//! Derives the identity of a command: redacts it, then runs the lexer on the redacted text.

use std::borrow::Cow;

use crate::alan::pattern::{CommandPattern, PREVIEW_BYTES, RemoteCommand, Segment, Ssh};
use crate::shell::command_line::CommandLine;
use crate::shell::exit_status_source::exit_status_source;
use crate::shell::ssh::{self, ssh_of_segment};
use crate::shell::syntax::{only_command, reported_segments};
use crate::shell::{normalise, template};
use crate::text::redact::Redactor;

/// The version of hashes and templates. When it changes, the database recomputes its stored ones.
pub(crate) const DERIVATION_VERSION: u32 = normalise::VERSION << 16 | template::VERSION;

/// The identity of a command, and the redacted text from which it is derived.
#[derive(Debug, Clone)]
pub(crate) struct CommandIdentity {
    /// The part that the store keeps.
    pub(crate) pattern: CommandPattern,
    /// The whole command without secrets.
    pub(crate) redacted: CommandLine,
    /// Whether timeout(1) limits the program that determines the exit status.
    pub(crate) is_time_limited: bool,
}

impl CommandIdentity {
    pub(crate) fn derive(command: &CommandLine, redactor: &Redactor) -> CommandIdentity {
        let redacted = match redactor.redact(command.text()) {
            Cow::Borrowed(_) => command.clone(),
            Cow::Owned(redacted) => CommandLine::parse(redacted),
        };
        let decisive = exit_status_source(&redacted);
        let last = decisive.as_ref();
        let last = last.and_then(|found| Some((found.segments.last()?, found.is_alone)));
        let sole = last.filter(|(_, is_alone)| *is_alone);
        let sole = sole.map(|(segment, _)| segment);
        let pattern = CommandPattern {
            hash: normalise::hash(&redacted),
            template: template::template(&redacted),
            subcommand_template: template::with_subcommands(&redacted),
            preview: preview(redacted.text()),
            program: last.and_then(|(segment, _)| program(segment)),
            segments: Vec::new(),
            ssh: sole.and_then(ssh_of_segment).map(over_ssh),
        };
        let is_time_limited = pattern.program.is_some()
            && last.is_some_and(|(last, _)| template::template(last).starts_with("timeout "));
        CommandIdentity { pattern, redacted, is_time_limited }
    }

    /// An identity that consists only of a name, without any command line.
    pub(crate) fn named(name: &str) -> CommandIdentity {
        CommandIdentity {
            pattern: CommandPattern {
                hash: normalise::hash(&CommandLine::parse(name)),
                template: name.to_owned(),
                preview: name.to_owned(),
                ..CommandPattern::default()
            },
            redacted: CommandLine::default(),
            is_time_limited: false,
        }
    }

    /// The pattern with the pipeline segments that have these exit statuses.
    pub(crate) fn with_segments(&self, pipestatus: &[i32]) -> CommandPattern {
        let segments = if pipestatus.len() < 2 {
            Vec::new()
        } else {
            reported_segments(&self.redacted, pipestatus.len())
        };
        CommandPattern { segments: segments.iter().map(segment).collect(), ..self.pattern.clone() }
    }

    /// The words that look like options.
    pub(crate) fn flags(&self) -> Vec<&str> {
        self.redacted
            .text()
            .split_whitespace()
            .filter(|word| word.starts_with('-') && word.len() > 1)
            .collect()
    }
}

fn segment(line: &CommandLine) -> Segment {
    Segment {
        hash: normalise::hash(line),
        template: template::template(line),
        preview: preview(line.text()),
        program: program(line),
    }
}

fn program(segment: &CommandLine) -> Option<String> {
    only_command(segment)?.program().map(str::to_owned)
}

fn over_ssh(ssh: ssh::Ssh) -> Ssh {
    Ssh {
        host: ssh.host,
        remote: ssh.remote_command.map(|command| RemoteCommand {
            preview: preview(&command),
            template: template::template(&CommandLine::parse(command)),
        }),
    }
}

/// The beginning of a command. Only a whole command gives a preview shorter than
/// [`PREVIEW_BYTES`]: one that is cut at the start of a character is padded with dots.
fn preview(command: &str) -> String {
    if command.len() < PREVIEW_BYTES {
        return command.to_owned();
    }
    let end = command.floor_char_boundary(PREVIEW_BYTES);
    let mut preview = command.get(..end).unwrap_or_default().to_owned();
    preview.extend(std::iter::repeat_n('.', PREVIEW_BYTES - end));
    preview
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(command: &str) -> CommandIdentity {
        CommandIdentity::derive(&CommandLine::parse(command), &Redactor::new([]))
    }

    #[test]
    fn the_program_is_the_one_that_sets_the_exit_status() {
        for (command, wanted) in [
            ("grep x f", Some("grep")),
            ("/usr/bin/grep x f", Some("grep")),
            ("sudo -u bob grep x f", Some("grep")),
            ("cat f | grep x", Some("grep")),
            ("make && grep x f", None),
            ("make; grep x f", Some("grep")),
            ("cd d && grep x f", Some("grep")),
            ("! grep x f", None),
            ("grep x f &", None),
            ("$PROGRAM x", None),
        ] {
            let program = known(command).pattern.program;
            assert_eq!(program.as_deref(), wanted, "{command}");
        }
    }

    #[test]
    fn the_last_segment_sets_the_time_limit() {
        for (command, wanted) in [
            ("timeout 5 make", true),
            ("cat f | timeout 5 grep x", true),
            ("timeout 5 cat f | grep x", false),
            ("timeout 5 make && ls", false),
            ("timeout 5 make; ls", false),
            ("cd d && timeout 5 make", true),
            ("make", false),
        ] {
            assert_eq!(known(command).is_time_limited, wanted, "{command}");
        }
    }

    #[test]
    fn no_secret_remains_in_a_command() {
        let command = "API_TOKEN=hunter2hunter2 curl -H 'Authorization: Bearer abcdefghijkl' x";
        let known = known(command);
        let all = format!("{known:?}");
        for secret in ["hunter2", "abcdefghijkl"] {
            assert!(!all.contains(secret), "{all}");
        }
    }

    #[test]
    fn segments_match_the_statuses() {
        let pattern = known("cat f | grep x | sort").with_segments(&[0, 1, 0]);
        let programs: Vec<_> =
            pattern.segments.iter().filter_map(|segment| segment.program.as_deref()).collect();
        assert_eq!(programs, ["cat", "grep", "sort"]);
        assert_eq!(known("true").with_segments(&[0]).segments, []);
    }

    #[test]
    fn a_previews_length_shows_whether_it_is_whole() {
        assert_eq!(preview("ls"), "ls");
        assert_eq!(preview(&"ä".repeat(99)).len(), 198);
        for long in ["x".repeat(200), "ä".repeat(100), format!("x{}", "ä".repeat(100))] {
            assert_eq!(preview(&long).len(), PREVIEW_BYTES, "{long}");
        }
    }

    #[test]
    fn ssh_is_known_by_its_host_and_remote_command() {
        let ssh = known("ssh -p 2222 ada@example.org 'git pull origin'").pattern.ssh;
        let ssh = ssh.expect("it is ssh");
        assert_eq!(ssh.host, "example.org");
        let remote = ssh.remote.expect("it runs a command");
        assert_eq!(remote.template, "git pull origin");
        assert_eq!(known("ls").pattern.ssh, None);
    }
}
