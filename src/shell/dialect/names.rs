//! Names that zsh and bash use themselves. Pure.

use super::pieces::Parameter;

/// What a name is in zsh, where bash has an ordinary variable: the parameters of zsh(1) and of its
/// module zsh/parameter that cannot be assigned as one.
pub(super) fn special(name: &str) -> Option<&'static str> {
    Some(match name {
        "path" => "$PATH as an array",
        "status" => "the exit status, as $?,",
        "options" | "commands" | "functions" | "aliases" | "galiases" | "saliases"
        | "nameddirs" | "dis_aliases" | "dis_functions" => "a table of the shell",
        "history" | "historywords" | "parameters" | "modules" | "builtins" | "reswords"
        | "patchars" | "jobstates" | "jobtexts" | "jobdirs" | "terminfo" | "termcap"
        | "widgets" | "keymaps" | "userdirs" | "usergroups" | "funcstack" | "functrace"
        | "funcfiletrace" | "funcsourcetrace" | "zsh_eval_context" | "ARGC" | "HISTCMD"
        | "ZSH_SUBSHELL" => "read-only",
        "cdpath" | "fpath" | "manpath" | "mailpath" | "module_path" | "psvar" | "fignore" => {
            "an array of the shell"
        }
        "argv" => "the positional parameters",
        "USERNAME" | "GID" | "EGID" | "EUID" => "the user that the shell runs as",
        "watch" | "dirstack" => "an array of the shell",
        "ERRNO" | "KEYTIMEOUT" | "histchars" | "pipestatus" => "a parameter of the shell",
        _ => return None,
    })
}

/// Whether zsh takes an assignment to this name silently for something else.
pub(super) fn is_assigned_silently(name: &str) -> bool {
    matches!(
        name,
        "argv"
            | "cdpath"
            | "fpath"
            | "manpath"
            | "mailpath"
            | "module_path"
            | "psvar"
            | "fignore"
            | "watch"
            | "dirstack"
            | "USERNAME"
            | "GID"
            | "EGID"
            | "EUID"
            | "ERRNO"
            | "KEYTIMEOUT"
            | "histchars"
            | "pipestatus"
    )
}

/// Whether zsh refuses an assignment to this name.
pub(super) fn is_refused(name: &str) -> bool {
    name != "path" && !is_assigned_silently(name)
}

/// Whether a `local` of this name in a function hides what it is to zsh.
pub(super) fn is_hidden_by_local(name: &str) -> bool {
    !matches!(
        name,
        "path"
            | "status"
            | "cdpath"
            | "fpath"
            | "manpath"
            | "mailpath"
            | "module_path"
            | "psvar"
            | "fignore"
            | "ARGC"
            | "argv"
            | "USERNAME"
            | "HISTCMD"
            | "ZSH_SUBSHELL"
    )
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
        "DIRSTACK" => "$dirstack".to_owned(),
        "BASH_SUBSHELL" => "$ZSH_SUBSHELL".to_owned(),
        "BASH_VERSINFO" | "BASH_COMMAND" | "BASH_LINENO" | "BASHOPTS" | "SHELLOPTS" => {
            String::new()
        }
        _ => return None,
    })
}
