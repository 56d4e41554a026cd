//! What a command finds in its environment.

use std::ffi::{OsStr, OsString};

use crate::process::tree::COOKIE_VARIABLE;

/// Makes programs print instead of starting a pager or asking at a prompt that nobody
/// sees. Set in pipe mode, where the user has not decided otherwise.
const NON_INTERACTIVE: [(&str, &str); 5] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GH_PROMPT_DISABLED", "1"),
];

/// What a terminal of ours understands.
const TERMINAL: &str = "xterm-256color";

/// Clients hand these to their servers; they are none of a command's business.
const CLIENT_TOKENS: [&str; 1] = ["CLAUDE_CODE_MESSAGING_TOKEN"];

/// Where programs are looked for when no PATH is set (as the shells themselves do).
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The PATH of an environment: where the server finds the shell. What a call adds to its
/// command's environment is the command's business.
pub fn search_path(environment: &[(OsString, OsString)]) -> &OsStr {
    environment
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value)
}

/// Builds a command's environment from the server's.
pub fn build(
    inherited: &[(OsString, OsString)],
    added: &[(String, String)],
    cookie: &str,
    on_terminal: bool,
) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = inherited
        .iter()
        .filter(|(name, _)| !CLIENT_TOKENS.iter().any(|token| name == token))
        .cloned()
        .collect();
    let is_set = |variables: &[(OsString, OsString)], name: &str| {
        variables
            .iter()
            .any(|(known, value)| known == name && !value.is_empty())
    };
    if !["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .any(|name| is_set(&variables, name))
    {
        set(&mut variables, "LANG", "C.UTF-8");
    }
    if on_terminal {
        set(&mut variables, "TERM", TERMINAL);
    } else {
        for (name, value) in NON_INTERACTIVE {
            if !variables.iter().any(|(known, _)| known == name) {
                set(&mut variables, name, value);
            }
        }
    }
    for (name, value) in added {
        set(&mut variables, name, value);
    }
    set(&mut variables, COOKIE_VARIABLE, cookie);
    variables
}

fn set(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    variables.retain(|(known, _)| known != OsStr::new(name));
    variables.push((name.into(), value.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(
        inherited: &[(&str, &str)],
        added: &[(&str, &str)],
        on_terminal: bool,
    ) -> Vec<(String, String)> {
        let inherited: Vec<_> = inherited
            .iter()
            .map(|(n, v)| (n.into(), v.into()))
            .collect();
        let added: Vec<_> = added
            .iter()
            .map(|(n, v)| ((*n).into(), (*v).into()))
            .collect();
        build(&inherited, &added, "i/t", on_terminal)
            .into_iter()
            .map(|(n, v)| {
                (
                    n.to_string_lossy().into_owned(),
                    v.to_string_lossy().into_owned(),
                )
            })
            .collect()
    }

    fn value<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
        variables
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    #[test]
    fn the_user_decides_and_the_defaults_fill_in() {
        let variables = built(&[("PAGER", "less"), ("LANG", "de_DE.UTF-8")], &[], false);
        assert_eq!(value(&variables, "PAGER"), Some("less"));
        assert_eq!(value(&variables, "GIT_PAGER"), Some("cat"));
        assert_eq!(value(&variables, "LANG"), Some("de_DE.UTF-8"));
        assert_eq!(value(&variables, "ZSH_TOOL_TASK"), Some("i/t"));
    }

    #[test]
    fn a_terminal_gets_no_non_interactive_defaults() {
        let variables = built(&[("TERM", "dumb")], &[("EDITOR", "vi")], true);
        assert_eq!(value(&variables, "TERM"), Some("xterm-256color"));
        assert_eq!(value(&variables, "PAGER"), None);
        assert_eq!(value(&variables, "EDITOR"), Some("vi"));
        assert_eq!(value(&variables, "LANG"), Some("C.UTF-8"));
    }

    #[test]
    fn a_command_can_neither_see_client_tokens_nor_forge_the_cookie() {
        let variables = built(
            &[("CLAUDE_CODE_MESSAGING_TOKEN", "t")],
            &[("ZSH_TOOL_TASK", "other")],
            false,
        );
        assert_eq!(value(&variables, "CLAUDE_CODE_MESSAGING_TOKEN"), None);
        assert_eq!(value(&variables, "ZSH_TOOL_TASK"), Some("i/t"));
    }
}
