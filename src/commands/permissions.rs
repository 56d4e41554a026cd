//! `zsh-tool hook permissions`: applies the permission rules that Claude Code has for its own Bash
//! to a call of `zsh` or `zsh_send`.
//!
//! Limits: knows the rules of the settings files, not those of the command line or of a running
//! session.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{output, shared};
use crate::process::files;
use crate::shell::permission::{Decision, Request, Rule, Rules};
use crate::text::foreign::ShowPath;

/// The directory of the settings that an administrator sets.
const MANAGED: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode"
} else {
    "/etc/claude-code"
};
/// The largest input: a client's calls may have megabytes.
const MAX_INPUT: u64 = 64 << 20;
/// The largest file of settings.
const MAX_SETTINGS: u64 = 4 << 20;

/// The modes in which Claude Code itself asks nothing that no rule demands.
const UNASKED_MODES: [&str; 2] = ["auto", "bypassPermissions"];

/// Answers the hook.
pub(super) fn answer() -> ExitCode {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut bytes);
    let input = read
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string()));
    let input = input.unwrap_or_else(|error| {
        tracing::debug!("the hook's input: {error}");
        Value::Null
    });
    let tool = text(&input, "tool_name").rsplit("__").next().unwrap_or_default();
    let decision = match tool {
        "zsh" | "zsh_send" => match rules(&input) {
            Ok(rules) => judge(&rules, tool, input.get("tool_input").unwrap_or(&Value::Null)),
            Err(error) => Decision::Ask(error),
        },
        // Nothing is allowed by what cannot be read.
        "" => Decision::Ask("the hook's input cannot be read".to_owned()),
        _ => return ExitCode::SUCCESS,
    };
    let is_unasked = UNASKED_MODES.contains(&text(&input, "permission_mode"));
    let (word, reason) = match decision {
        Decision::Allow(reason) => ("allow", reason),
        Decision::Ask(reason) => ("ask", reason),
        Decision::Unsure(_) if is_unasked => return ExitCode::SUCCESS,
        Decision::Unsure(reason) => ("ask", reason),
        Decision::Deny(reason) => ("deny", reason),
    };
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": word,
        "permissionDecisionReason": format!("zsh-tool: {reason}"),
    }});
    output::conclude(output::print(&format!("{answer}\n")), 0)
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

fn judge(rules: &Rules, tool: &str, call: &Value) -> Decision {
    let variables = call["env"].as_object();
    let variables = variables.map(|all| all.keys().map(String::as_str).collect());
    if tool == "zsh" {
        let Some(command) = call["command"].as_str() else {
            return Decision::Unsure("the call has no command".to_owned());
        };
        return rules.judge(&Request {
            text: command,
            is_typed: false,
            stdin: call["stdin"].as_str(),
            variables: variables.unwrap_or_default(),
            host: call["host"].as_str(),
            is_elsewhere: !call["cwd"].is_null() || !call["session"].is_null(),
        });
    }
    let keys = call["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let keys = keys.map(|key| match key {
        "Enter" => "\n",
        "Space" => " ",
        key if key.chars().count() == 1 => key,
        // What this makes of the text that was typed is not known.
        "Backspace" | "Delete" | "Left" | "Right" | "Up" | "Down" | "Home" | "End" => "\u{8}",
        key if key.starts_with("C-") && !matches!(key, "C-c" | "C-d" | "C-z" | "C-l") => "\u{8}",
        key if key.starts_with("M-") => "\u{8}",
        _ => "",
    });
    let enter = if call["enter"] == false { "" } else { "\n" };
    let typed = format!("{}{enter}{}", text(call, "input"), keys.collect::<String>());
    rules.judge(&Request { text: &typed, is_typed: true, ..Request::default() })
}

/// The rules of all settings files; the error names a file that cannot be used.
fn rules(input: &Value) -> Result<Rules, String> {
    let (config, _) = shared::load_config();
    let mut found = Rules { keeps_directory: config.keep_cwd, ..Rules::default() };
    let mut managed_only = false;
    for path in managed_files() {
        if let Some(settings) = read(&path)? {
            add(&mut found, &settings, &path)?;
            managed_only |= settings.get("allowManagedPermissionRulesOnly") == Some(&true.into());
        }
    }
    if managed_only {
        return Ok(found);
    }
    let project = std::env::var_os("CLAUDE_PROJECT_DIR").filter(|value| !value.is_empty());
    let project = project.unwrap_or_else(|| text(input, "cwd").into());
    let project = PathBuf::from(project);
    for path in user_files(&project) {
        if let Some(settings) = read(&path)? {
            add(&mut found, &settings, &path)?;
        }
    }
    Ok(found)
}

/// All settings files of this user and project that exist, the most important last; the error names one
/// that cannot be used.
pub(super) fn settings(project: &Path) -> Result<Vec<(PathBuf, Value)>, String> {
    let files = user_files(project).into_iter().chain(managed_files());
    files.filter_map(|path| Some(read(&path).transpose()?.map(|value| (path, value)))).collect()
}

/// The user's settings files, and those of a project.
fn user_files(project: &Path) -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = variable("HOME").map(|home| PathBuf::from(home).join(".claude"));
    let own = variable("CLAUDE_CONFIG_DIR").map(PathBuf::from).or(home);
    let own = own.map(|own| own.join("settings.json"));
    let names = [".claude/settings.json", ".claude/settings.local.json"];
    let mut files: Vec<PathBuf> = own.into_iter().collect();
    for path in names.map(|name| project.join(name)) {
        if !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

fn managed_files() -> Vec<PathBuf> {
    let directory = Path::new(MANAGED);
    let mut more: Vec<PathBuf> = files::entries(&directory.join("managed-settings.d"))
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    more.sort();
    more.insert(0, directory.join("managed-settings.json"));
    more
}

/// The settings in a file, if there is one.
fn read(path: &Path) -> Result<Option<Value>, String> {
    let named = |error: &dyn std::fmt::Display| {
        format!("the rules in {} cannot be read: {error}", path.shown())
    };
    let mut bytes = Vec::new();
    let opened = files::open_regular(path);
    match opened.and_then(|file| file.take(MAX_SETTINGS).read_to_end(&mut bytes)) {
        Ok(_) if bytes.trim_ascii().is_empty() => Ok(None),
        Ok(_) => serde_json::from_slice(&bytes).map(Some).map_err(|error| named(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(&error)),
    }
}

/// Adds the rules of one file.
fn add(rules: &mut Rules, settings: &Value, path: &Path) -> Result<(), String> {
    let file = path.shown().to_string();
    let kinds = [("allow", &mut rules.allow), ("ask", &mut rules.ask), ("deny", &mut rules.deny)];
    for (kind, own) in kinds {
        let listed = settings.get("permissions").and_then(|all| all.get(kind));
        let listed: Vec<String> = listed
            .map_or(Ok(Vec::new()), Vec::deserialize)
            .map_err(|error| format!("the rules in {file} cannot be read: {kind}: {error}"))?;
        rules.hides_files |= kind != "allow" && listed.iter().any(|rule| rule.starts_with("Read"));
        own.extend(listed.iter().filter_map(|rule| Rule::parse(rule, &file)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_judged_by_the_text_that_they_type() {
        let mut rules = Rules::default();
        let settings = json!({"permissions": {
            "allow": ["Bash", "Edit"], "deny": ["Bash(rm *)", "Read(./.env)"],
        }});
        add(&mut rules, &settings, Path::new("/etc/settings.json")).unwrap();
        assert!(rules.hides_files);
        let faulty = json!({"permissions": {"deny": "Bash(rm *)"}});
        assert!(add(&mut Rules::default(), &faulty, Path::new("/etc/settings.json")).is_err());
        for (call, is_denied) in [
            (json!({"input": "rm x"}), true),
            (json!({"keys": ["r", "m", "Space", "x", "Enter"]}), true),
            (json!({"input": "print(1)"}), false),
            (json!({"keys": ["C-c"]}), false),
        ] {
            let decision = judge(&rules, "zsh_send", &call);
            assert_eq!(matches!(decision, Decision::Deny(_)), is_denied, "{call}: {decision:?}");
        }
        // Two calls can type one line.
        for (call, is_allowed) in [
            (json!({"input": "r", "enter": false}), false),
            (json!({"input": "r", "enter": false, "keys": ["Enter"]}), true),
            (json!({"keys": ["C-c"]}), true),
        ] {
            let decision = judge(&rules, "zsh_send", &call);
            assert_eq!(matches!(decision, Decision::Allow(_)), is_allowed, "{call}: {decision:?}");
        }
        assert!(matches!(judge(&rules, "zsh", &json!({})), Decision::Unsure(_)));
    }
}
