//! Names that zsh and bash use themselves. Pure.

use super::pieces::Parameter;

/// A name that zsh itself uses, where bash has an ordinary variable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Special {
    /// What it is in zsh.
    pub(super) meaning: &'static str,
    pub(super) assigned: Assigned,
    /// Whether a `local` of this name in a function hides that.
    pub(super) is_hidden_by_local: bool,
}

/// What an assignment to such a name does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assigned {
    /// zsh reports it and assigns nothing.
    Refused,
    /// As [`Assigned::Refused`]; an array replaces the entries of a table silently.
    RefusedText,
    /// It takes the programs out of reach.
    PathLost,
    /// Something else than a variable is set, and nothing says so.
    Silent,
    /// It is an array: a text behaves otherwise when it is lengthened or measured.
    Array,
    /// It replaces the positional parameters.
    Positional,
}

/// The parameters of zsh(1) and of its module zsh/parameter that cannot be assigned as a variable.
pub(super) fn special(name: &str) -> Option<Special> {
    let (meaning, assigned, is_hidden_by_local) = match name {
        "path" => ("$PATH as an array", Assigned::PathLost, false),
        "status" => ("the exit status, as $?,", Assigned::Refused, false),
        "options" | "commands" | "functions" | "aliases" | "galiases" | "saliases"
        | "nameddirs" | "dis_aliases" | "dis_functions" => {
            ("a table of the shell", Assigned::RefusedText, true)
        }
        "ARGC" | "HISTCMD" | "ZSH_SUBSHELL" => ("read-only", Assigned::Refused, false),
        "history" | "historywords" | "parameters" | "modules" | "builtins" | "reswords"
        | "patchars" | "jobstates" | "jobtexts" | "jobdirs" | "terminfo" | "termcap"
        | "widgets" | "keymaps" | "userdirs" | "usergroups" | "funcstack" | "functrace"
        | "funcfiletrace" | "funcsourcetrace" | "zsh_eval_context" => {
            ("read-only", Assigned::Refused, true)
        }
        "cdpath" | "fpath" | "manpath" | "mailpath" | "module_path" | "psvar" | "fignore" => {
            ("an array of the shell", Assigned::Array, false)
        }
        "watch" | "dirstack" => ("an array of the shell", Assigned::Array, true),
        "argv" => ("the positional parameters", Assigned::Positional, false),
        "USERNAME" => ("the user that the shell runs as", Assigned::Silent, false),
        "GID" | "EGID" | "EUID" => ("the user that the shell runs as", Assigned::Silent, true),
        "ERRNO" | "KEYTIMEOUT" | "histchars" | "pipestatus" => {
            ("a parameter of the shell", Assigned::Silent, true)
        }
        _ => return None,
    };
    Some(Special { meaning, assigned, is_hidden_by_local })
}

/// What to write for a variable that only bash sets; empty where zsh has nothing like it.
pub(super) fn bash_variable(parameter: &Parameter) -> Option<String> {
    if !parameter.before.is_empty() {
        let is_known = matches!(
            parameter.name,
            "PIPESTATUS" | "FUNCNAME" | "GROUPS" | "DIRSTACK" | "BASH_REMATCH"
        );
        return is_known.then(|| match parameter.name {
            "PIPESTATUS" => format!("${{{}pipestatus{}}}", parameter.before, parameter.after),
            "FUNCNAME" => format!("${{{}funcstack{}}}", parameter.before, parameter.after),
            _ => String::new(),
        });
    }
    let index = parameter.index().filter(|(_, rest)| rest.is_empty()).map(|(index, _)| index);
    let next = |index: Option<&str>| match index {
        None => "1".to_owned(),
        Some(index) => index.parse::<u32>().map_or(index.to_owned(), |it| (it + 1).to_string()),
    };
    Some(match parameter.name {
        "PIPESTATUS" => format!("${{pipestatus[{}]}}", next(index)),
        "BASH_REMATCH" if matches!(index, None | Some("0")) => "$MATCH".to_owned(),
        "BASH_REMATCH" => format!("${{match[{}]}}", index.unwrap_or_default()),
        "FUNCNAME" => format!("${{funcstack[{}]}}", next(index)),
        "BASH_SOURCE" => "${(%):-%x}".to_owned(),
        "HOSTNAME" => "$HOST".to_owned(),
        "BASHPID" => "$(exec sh -c 'echo $PPID')".to_owned(),
        "EPOCHSECONDS" => "$(date +%s)".to_owned(),
        "EPOCHREALTIME" => "$(date +%s.%6N)".to_owned(),
        "SRANDOM" => "$RANDOM".to_owned(),
        "GROUPS" => "$(id -G)".to_owned(),
        "DIRSTACK" => match index {
            None | Some("0") => "$PWD".to_owned(),
            Some("@" | "*") => "$PWD $dirstack".to_owned(),
            Some(index) => format!("${{dirstack[{index}]}}"),
        },
        "BASH_SUBSHELL" => "$ZSH_SUBSHELL".to_owned(),
        "BASH_VERSINFO" | "BASH_COMMAND" | "BASH_LINENO" | "BASHOPTS" | "SHELLOPTS" | "COPROC"
        | "COPROC_PID" => String::new(),
        _ => return None,
    })
}
