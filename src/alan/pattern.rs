//! What a command is known by: the values that a shell lexer derives from it.
//!
//! Everything here has been redacted by whoever made it; the store never sees a command
//! line in any other form. Limits: this module derives nothing itself. Pure.

use crate::shell::decisive::is_complaint;

/// A command line, as the store knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern {
    /// 16 hex digits; equal for equal commands only.
    pub hash: String,
    /// The kind of command, as in `git push origin *`.
    pub template: String,
    /// The redacted command, cut to [`PREVIEW_BYTES`] at most.
    pub preview: String,
    /// Base name of the program whose exit status the command's is, unless the shell
    /// complained ([`Pattern::decides`]): a single command's, or that of the last segment
    /// of a pipeline. `None` for lists (`a && b`) whose status may be another member's.
    pub program: Option<String>,
    /// The segments of a pipeline, from the left; empty for anything else.
    pub segments: Vec<Segment>,
    /// Where the command goes over SSH.
    pub ssh: Option<Ssh>,
}

impl Pattern {
    /// The program whose exit status a run's is, by the run's output: none where the shell
    /// itself complains of something, since it may have failed before the program began.
    pub fn decides(&self, output: &[&str]) -> Option<&str> {
        let mut lines = output.iter().flat_map(|text| text.lines());
        let program = self.program.as_deref();
        program.filter(|_| !lines.any(is_complaint))
    }
}

/// The longest preview, in bytes. One that is shorter is the whole command, so that its
/// hash can be computed again from it.
pub const PREVIEW_BYTES: usize = 200;

/// One segment of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// As [`Pattern::hash`].
    pub hash: String,
    /// As [`Pattern::template`].
    pub template: String,
    /// As [`Pattern::preview`].
    pub preview: String,
    /// Base name of its program.
    pub program: Option<String>,
}

/// A command that goes to another host: ssh itself, or scp, rsync and git over ssh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ssh {
    /// The host, without a user.
    pub host: String,
    /// What runs there; `None` where the command only uses the connection (scp, rsync,
    /// git) or opens a shell.
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
