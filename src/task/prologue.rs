//! The code that precedes a command's text, and how both reach a shell.
//!
//! zsh reports from two places. A list trap on EXIT runs whenever a command ends by itself, by
//! `exit`, or under `errexit`. Subshells do not inherit a list trap, so that zsh still executes
//! their last command in place, and `$!` is its pid; a function trap (`TRAPEXIT`) they would
//! inherit. The trap does not run after a fatal error (an unset parameter under `nounset`, a
//! division by zero), nor if the command sets an EXIT trap of its own; in these cases the hook
//! `zshexit` reports the directory. `errexit` skips that hook.
//!
//! The command must not notice this code:
//! - It leaves no trace under `set -x`. While `exit` runs, zsh keeps its trace on a descriptor of
//!   its own, which no redirection reaches; an expansion turns the option off before the command
//!   that contains it is traced. The count of a `repeat` is never traced.
//! - In a restricted shell it does nothing: redirections are errors there.
//! - Descriptors, parameters and modules are those of bare zsh. The key of the reports comes in a
//!   variable, which is removed before the command's own text. Arguments would show it to every
//!   process of the machine, even to those in a sandbox; the environment of a process is closed to
//!   those in another user namespace.
//!
//! So the command is not passed to `eval`, which would overwrite `$pipestatus`. Nothing follows it
//! either, since that would break here-documents.
//!
//! bash quotes its whole first line in the message about a syntax error there. So its code is not in
//! the command's text, but in a startup file of its own, which `BASH_ENV` or `--rcfile` names.
//!
//! Limits: under `POSIXLY_CORRECT` bash reads no such file, and reports nothing.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::shell::{Shell, ShellKind};
use crate::shell::mode::ShellMode;
use crate::shell::reports::Reportable;

/// The longest argument that Linux accepts, including its terminating NUL (MAX_ARG_STRLEN).
const LONGEST_ARGUMENT: usize = 128 * 1024;

/// Ends each zsh prologue. `$?` and `$_` begin as in bare zsh.
const CLEAN_START: &str = ": ''; ";

/// Turns tracing off before the command that contains it is traced, and expands to nothing.
const UNTRACED: &str = "${${${-##*x*}:-${options[xtrace]::=off}${__zsh_tool_traced::=x}}:+}";

/// Expands to nothing in a restricted shell. Without the letter before it, it would do so under
/// `emulate -R sh` too, where `$-` is empty.
const UNRESTRICTED: &str = "${${:-_$-}##*r*}";

/// The options with which zsh takes text written for bash (zshoptions(1)).
const BASH_OPTIONS: &str = "no_nomatch no_bad_pattern no_equals no_multios sh_word_split \
    glob_subst ksh_arrays ksh_glob no_bare_glob_qual bsd_echo bash_rematch octal_zeroes posix_traps \
    sh_nullcmd no_function_argzero";

/// Ends a script, since a command substitution removes newlines at the end.
const SCRIPT_END: &str = "x";

/// The variable in which the shell finds the key of its reports.
pub(crate) const KEY_VARIABLE: &str = "__zsh_tool_key";

/// Marks where the key goes in the text of a trap; [`quoted`] escapes `%`, so no path contains it.
const KEY: &str = "%key%";

/// The parameter that `zregexparse` insists on setting.
const POSITION: &str = "__zsh_tool_position";

/// The startup file of a shell that is not interactive, and where its own value is kept meanwhile.
const BASH_ENV: &str = "BASH_ENV";
const OWN_BASH_ENV: &str = "__zsh_tool_env";

/// Removes the script that is being read; the open file remains until it is read.
const REMOVE_SCRIPT_PORTABLE: &str = "rm -f -- \"$0\" 2>/dev/null; ";

/// A file that is sourced before the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartupFile {
    pub(crate) path: PathBuf,
    /// Whether its errors are shown: the first time, and after the file has changed.
    pub(crate) show_errors: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WrappedCommand {
    pub(crate) arguments: Vec<OsString>,
    /// The content of the file that the arguments name, for a command that is longer than an
    /// argument may be.
    pub(crate) script: Option<String>,
    /// The content of bash's startup file, if it needs one.
    pub(crate) startup: Option<String>,
    /// Added to the environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// How to wrap a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrologueContext<'a> {
    pub(crate) mode: ShellMode,
    /// Whether zsh gets the options of `dialect: bash`.
    pub(crate) takes_bash: bool,
    /// Sourced before the command.
    pub(crate) startup_files: &'a [StartupFile],
    /// Where a long command would be written.
    pub(crate) script: &'a Path,
    /// Where bash's startup file would be written.
    pub(crate) startup: &'a Path,
    /// The command's.
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) report: Option<ReportContext<'a>>,
    /// The programs that report the exported variables, for a command of a session.
    pub(crate) exports: Option<ExportsReport<'a>>,
}

/// What the shell reports, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportContext<'a> {
    pub(crate) wanted: Reportable,
    pub(crate) pipe: &'a Path,
}

/// Reports the exported variables: `head` passes on as much of the output of `env -0` as fits into
/// the pipe. A longer environment lacks its last NUL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExportsReport<'a> {
    pub(crate) env: &'a Path,
    pub(crate) head: &'a Path,
    /// In bytes.
    pub(crate) limit: usize,
}

impl PrologueContext<'_> {
    pub(crate) fn wrap(&self, shell: &Shell, command: &str) -> WrappedCommand {
        let prologue = match shell.kind {
            ShellKind::Zsh => self.zsh_prologue(),
            ShellKind::Bash => return self.bash(command),
            ShellKind::Sh => self.sources(shell.kind),
        };
        if prologue.len() + command.len() < LONGEST_ARGUMENT {
            let mut arguments: Vec<OsString> = flags(self.mode).collect();
            arguments.push("-c".into());
            arguments.push(format!("{prologue}{command}").into());
            return WrappedCommand { arguments, ..WrappedCommand::default() };
        }
        match shell.kind {
            ShellKind::Zsh => self.zsh_script(command),
            ShellKind::Bash | ShellKind::Sh => self.sh_script(shell, &prologue, command),
        }
    }

    /// A long command is a script, which bash reads line by line, as it does the text after `-c`.
    fn bash(&self, command: &str) -> WrappedCommand {
        let mut wrapped = WrappedCommand::default();
        let startup = Some(self.bash_startup()).filter(|code| !code.is_empty());
        if startup.is_some() && self.mode == ShellMode::Interactive {
            wrapped.arguments = vec!["--rcfile".into(), self.startup.into()];
        } else if startup.is_some() {
            let own = self.environment.iter().find(|(name, _)| name == BASH_ENV);
            let own = own.map(|(_, value)| (OWN_BASH_ENV.into(), value.clone()));
            let startup = (BASH_ENV.into(), in_double_quotes(self.startup));
            wrapped.variables = own.into_iter().chain([startup]).collect();
        }
        wrapped.startup = startup;
        wrapped.arguments.extend(flags(self.mode));
        if command.len() < LONGEST_ARGUMENT {
            wrapped.arguments.extend(["-c".into(), command.into()]);
        } else {
            wrapped.arguments.push(self.script.into());
            wrapped.script = Some(command.to_owned());
        }
        wrapped
    }

    /// Empty if there is nothing to add: the command then runs under bare zsh.
    fn zsh_prologue(&self) -> String {
        let parts = self.zsh_report() + &self.sources(ShellKind::Zsh) + &self.zsh_options();
        if parts.is_empty() {
            return parts;
        }
        // The prologue contains its own length, padded to a fixed width; zsh accepts blanks.
        let restore = |length: usize| {
            format!(
                "ZSH_EXECUTION_STRING=${{ZSH_EXECUTION_STRING:{length:7}}}; {parts}{CLEAN_START}"
            )
        };
        restore(restore(0).len())
    }

    fn zsh_report(&self) -> String {
        let Some(ReportContext { wanted, pipe }) = self.report else {
            return String::new();
        };
        let pipe = quoted(pipe);
        let exports = self.exports(|env| {
            format!(
                "() {{ emulate -L zsh; unsetopt multibyte; \
                 builtin print -rN -- '' {KEY} E ${{#1}} \"$1\" F:{KEY} 1<>{pipe} }} \"$({env})\"; "
            )
        });
        let trap = format!(
            "repeat \"${{{UNRESTRICTED}:+1}}\"; do {{ \
             builtin print -rN -- '' {KEY} T \"${{pipestatus[@]}}\" \"$PWD\" \
             {UNTRACED} 1<>{pipe}; {exports}\
             repeat \"0${{${{__zsh_tool_traced:+${{options[xtrace]::=on}}}}:+}}\"; do :; done \
             }} 2>/dev/null; done"
        );
        let mut text = format!("trap {} EXIT; ", with_key(&trap));
        if wanted.directory && !wanted.shows_functions {
            // `emulate -c` gives the hook default options, whatever the command sets.
            let hook = format!(
                "zshexit() {{ repeat \"${{{UNRESTRICTED}:+$(( ! ZSH_SUBSHELL ))}}\"; do {{ \
                 builtin print -rN -- '' {KEY} D \"$PWD\" 1<>{pipe}; {exports} }} 2>/dev/null; done }}"
            );
            let hook = with_key(&hook);
            // A hook that the user's startup file defines stays.
            text += &format!("typeset -f zshexit >/dev/null || emulate -R zsh -c {hook}; ");
        }
        text + &forget_key()
    }

    /// Sets the options of `dialect: bash`, after all startup files: those are written for zsh.
    fn zsh_options(&self) -> String {
        if !self.takes_bash {
            return String::new();
        }
        format!("builtin setopt {BASH_OPTIONS}; ")
    }

    /// The code that reports the exported variables, made from the code that prints them; empty
    /// where they are not reported.
    fn exports(&self, report: impl FnOnce(&str) -> String) -> String {
        self.exports.map_or_else(String::new, |ExportsReport { env, head, limit }| {
            report(&format!("{} -0 | {} -c {limit}", quoted(env), quoted(head)))
        })
    }

    /// What bash runs before the command; empty if there is nothing to add. `$?` and `$_` begin as in
    /// bare bash.
    fn bash_startup(&self) -> String {
        let code = self.bash_report() + &self.sources(ShellKind::Bash);
        if code.is_empty() {
            return code;
        }
        let before = match self.mode {
            ShellMode::Interactive => "[ -f ~/.bashrc ] && . ~/.bashrc\n".to_owned(),
            ShellMode::Plain | ShellMode::Login => format!(
                "if [ -n \"${{{OWN_BASH_ENV}+x}}\" ]; then\n\
                 {BASH_ENV}=${OWN_BASH_ENV}; unset {OWN_BASH_ENV}\n\
                 eval \"[ -r \\\"${BASH_ENV}\\\" ] && . \\\"${BASH_ENV}\\\"\"\n\
                 else unset {BASH_ENV}; fi\n"
            ),
        };
        // An exported SHELLOPTS may turn tracing on. A function call leaves `$_` as its last argument.
        format!(
            "{{ __zsh_tool_options=$-; set +xv; }} 2>/dev/null\n{before}{code}\n\
             __zsh_tool_begin() {{ unset -f __zsh_tool_begin; unset __zsh_tool_options; \
             case $1 in *v*x*) set -xv;; *x*) set -x;; *v*) set -v;; esac; }}; \
             __zsh_tool_begin \"$__zsh_tool_options\" \"$0\"\n"
        )
    }

    fn bash_report(&self) -> String {
        let trap = self.report.map(|ReportContext { pipe, .. }| {
            let pipe = quoted(pipe);
            let exports = self.exports(|env| {
                format!(
                    "{{ printf '%s\\0' '' {KEY} E \"$({env} | wc -c)\"; {env}; \
                     printf '\\0F:%s\\0' {KEY}; }} 1<>{pipe}; "
                )
            });
            let report = format!(
                // A trap on DEBUG runs there too, and prints nothing.
                "{{ printf '%s\\0' '' {KEY} T \"${{PIPESTATUS[@]}}\" \"$PWD\" 1<>{pipe}; {exports}}} \
                 >/dev/null 2>&1"
            );
            format!("trap {} EXIT; {}", with_key(&report), forget_key())
        });
        trap.unwrap_or_default()
    }

    fn sources(&self, kind: ShellKind) -> String {
        let source = |startup_file: &StartupFile| {
            let errors = if startup_file.show_errors { "" } else { " 2>/dev/null" };
            if kind != ShellKind::Sh {
                return format!("source {}{errors}; ", quoted(&startup_file.path));
            }
            let path = single_quoted(&startup_file.path.to_string_lossy());
            // A missing file would end a POSIX shell.
            format!("[ -r {path} ] && . {path}{errors}; ")
        };
        self.startup_files.iter().map(source).collect()
    }

    /// zsh takes the text of a long command from a file and passes it to the one builtin that runs
    /// a string as `-c` does: parsed whole, with its own line numbers, and under the name `zsh` in
    /// messages, prompts and `$funcfiletrace`. (`eval` and `source` have names of their own, and
    /// a script is parsed line by line.) `zregexparse` matches nothing here and runs three actions.
    /// The first resets a parameter and an option that the builtin sets. The second is the command.
    /// The third leaves before the builtin ends, whose own status would replace the command's and
    /// `$pipestatus`.
    fn zsh_script(&self, command: &str) -> WrappedCommand {
        let script = quoted(self.script);
        let prologue = format!(
            "ZSH_EXECUTION_STRING=\"$(<{script})\"; \
             ZSH_EXECUTION_STRING=${{ZSH_EXECUTION_STRING%{SCRIPT_END}}}; \
             {{ zmodload -F zsh/files b:zf_rm && builtin zf_rm -f -- {script} && \
             zmodload -u zsh/files }} 2>/dev/null; {}{}[[ -o extendedglob ]]; \
             builtin zregexparse {POSITION} {POSITION} '' \
             \"{{unset {POSITION}; repeat $?; do builtin unsetopt extendedglob; done; \
             {}{CLEAN_START}}}\" \"{{$ZSH_EXECUTION_STRING}}\" \
             '{{\\builtin exit {UNTRACED}}}'",
            self.zsh_report(),
            self.sources(ShellKind::Zsh),
            self.zsh_options(),
        );
        let mut arguments: Vec<OsString> = flags(self.mode).collect();
        arguments.push("-c".into());
        arguments.push(prologue.into());
        let script = Some(format!("{command}{SCRIPT_END}"));
        WrappedCommand { arguments, script, ..WrappedCommand::default() }
    }

    fn sh_script(&self, shell: &Shell, prologue: &str, command: &str) -> WrappedCommand {
        // The check comes first, so that after a syntax error nothing runs, as with `-c`.
        let flags = self.mode.flags().join(" ");
        let check_and_run = format!("\"$1\" -n \"$2\" && exec \"$1\" {flags} \"$2\"");
        let arguments: Vec<OsString> = vec![
            "-c".into(),
            check_and_run.into(),
            "zsh-tool".into(),
            shell.path.clone().into(),
            self.script.into(),
        ];
        let script = Some(format!("{REMOVE_SCRIPT_PORTABLE}{prologue}{command}\n"));
        WrappedCommand { arguments, script, ..WrappedCommand::default() }
    }
}

fn flags(mode: ShellMode) -> impl Iterator<Item = OsString> {
    mode.flags().iter().map(OsString::from)
}

/// A path in a text that bash expands as one between double quotes.
fn in_double_quotes(path: &Path) -> OsString {
    let special = |byte: &u8| matches!(byte, b'$' | b'`' | b'"' | b'\\');
    let bytes = path.as_os_str().as_bytes().iter();
    let escaped = bytes.flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte]));
    OsString::from_vec(escaped.collect())
}

pub(super) fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Code as a word that contains the key.
fn with_key(code: &str) -> String {
    single_quoted(code).replace(KEY, &format!("'\"${KEY_VARIABLE}\"'"))
}

/// What follows does not see the key.
fn forget_key() -> String {
    format!("builtin unset {KEY_VARIABLE}; ")
}

/// A path as a word of zsh or bash, in ASCII whatever its bytes are, so that the length of a
/// prologue in bytes is its length in characters.
fn quoted(path: &Path) -> String {
    let escaped = path.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
            char::from(*byte).to_string()
        }
        _ => format!("\\x{byte:02x}"),
    });
    format!("$'{}'", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(kind: ShellKind) -> Shell {
        Shell { path: "/bin/zsh".into(), kind, note: None }
    }

    fn context(pipe: Option<&Path>) -> PrologueContext<'_> {
        PrologueContext {
            mode: ShellMode::Plain,
            takes_bash: false,
            startup_files: &[],
            script: Path::new("/state/id.zsh"),
            startup: Path::new("/state/id.bash"),
            environment: &[],
            exports: None,
            report: pipe.map(|pipe| ReportContext { wanted: Reportable::ALL, pipe }),
        }
    }

    #[test]
    fn a_command_that_has_nothing_to_report_is_not_wrapped() {
        for kind in [ShellKind::Zsh, ShellKind::Bash, ShellKind::Sh] {
            let wrapped = context(None).wrap(&shell(kind), "make -j");
            let bare = ["-c", "make -j"].map(OsString::from).to_vec();
            assert_eq!(wrapped, WrappedCommand { arguments: bare, ..WrappedCommand::default() });
        }
    }

    #[test]
    fn a_prologue_with_any_path_is_one_line_of_ascii_and_contains_its_length() {
        for path in ["/state/a", "/sta'te/é\n\"$x", "/\u{10FFFD}\\ b"] {
            let wrapped = context(Some(Path::new(path))).wrap(&shell(ShellKind::Zsh), "cd /");
            assert_eq!(wrapped.script, None, "a short command is an argument");
            let arguments = wrapped.arguments;
            let text = arguments[1].to_str().unwrap();
            let prologue = text.strip_suffix("cd /").unwrap();
            assert!(prologue.is_ascii() && !prologue.contains('\n'), "{text}");
            let length = format!("{:7}}}", prologue.len());
            assert!(prologue.contains(&length), "{text}");
        }
    }

    #[test]
    fn only_a_long_command_becomes_a_script() {
        let short = "x".repeat(LONGEST_ARGUMENT - 1);
        let long = "x".repeat(LONGEST_ARGUMENT);
        for kind in [ShellKind::Zsh, ShellKind::Bash, ShellKind::Sh] {
            let wrap = |text: &str| context(None).wrap(&shell(kind), text);
            assert!(wrap(&short).script.is_none());
            assert!(wrap(&long).script.is_some());
        }
    }
}
