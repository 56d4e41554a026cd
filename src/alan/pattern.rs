//! The identity of a command in the history: values derived from its text by a shell lexer.
//!
//! All values are redacted; the store never sees a command line in any other form. Pure.

use crate::shell::exit_status_source::is_complaint;

/// The identity of a command line in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandPattern {
    /// 16 hex digits; equal for equal commands only.
    pub hash: String,
    /// The kind of command, as in `git push origin *`.
    pub template: String,
    /// The kind including a word that may be a subcommand, as in `tailscale up` where the
    /// template is `tailscale *`; `None` without such a word.
    pub subcommand_template: Option<String>,
    /// The redacted command, at most [`PREVIEW_BYTES`] long.
    pub preview: String,
    /// Base name of the program that determines the exit status, unless the shell reported an
    /// error ([`CommandPattern::deciding_program`]): a single command, or the last segment of a pipeline.
    /// `None` for lists (`a && b`), whose status may come from any member.
    pub program: Option<String>,
    /// The segments of a pipeline, from the left; empty for anything else.
    pub segments: Vec<Segment>,
    /// The SSH connection, if the command uses one.
    pub ssh: Option<Ssh>,
}

impl CommandPattern {
    /// The program that determined a run's exit status. `None` if the output contains an error of
    /// the shell itself, which may have failed before it started the program.
    pub fn deciding_program(&self, output: &[&str]) -> Option<&str> {
        let mut lines = output.iter().flat_map(|text| text.lines());
        let program = self.program.as_deref();
        program.filter(|_| !lines.any(is_complaint))
    }
}

/// The longest preview, in bytes. A shorter preview is the whole command, so its hash can be
/// recomputed.
pub(crate) const PREVIEW_BYTES: usize = 200;

/// One segment of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// As [`CommandPattern::hash`].
    pub hash: String,
    /// As [`CommandPattern::template`].
    pub template: String,
    /// As [`CommandPattern::preview`].
    pub preview: String,
    /// Base name of its program.
    pub program: Option<String>,
}

/// A connection to another host: by ssh itself, or by scp, rsync or git over ssh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ssh {
    /// The host, without a user.
    pub host: String,
    /// `None` if the command only uses the connection (scp, rsync, git) or opens a shell.
    pub remote: Option<RemoteCommand>,
}

/// What runs on the other host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteCommand {
    /// The redacted command.
    pub preview: String,
    /// Its kind, as in `git pull *`.
    pub template: String,
}
