//! `zsh-tool hook permissions`: the client's rules for its own shell, applied to a call.

use std::fs;

use serde_json::{Value, json};

use crate::support::env::{Env, binary};
use crate::support::program::run_with_input;

/// Writes settings with these permissions: the user's, or the project's if `project`.
fn rules(env: &Env, project: bool, permissions: &Value) {
    let place = if project { "work/.claude" } else { "home/.claude" };
    fs::create_dir_all(env.path(place)).expect("a directory");
    let settings = json!({"permissions": permissions}).to_string();
    fs::write(env.path(place).join("settings.json"), settings).expect("the settings");
}

/// The decision about a call and the reason; `None` if the hook leaves it to the client.
fn decided(env: &Env, tool: &str, call: &Value, mode: &str) -> Option<(String, String)> {
    let mut command = env.command(binary());
    command.args(["hook", "permissions"]).env("CLAUDE_PROJECT_DIR", env.work());
    let input = json!({
        "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": call,
        "permission_mode": mode, "cwd": "/",
    });
    let ended = run_with_input(command, input.to_string().into_bytes());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    if ended.stdout.is_empty() {
        return None;
    }
    let answer: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let answer = &answer["hookSpecificOutput"];
    assert_eq!(answer["hookEventName"], "PreToolUse");
    let text = |key: &str| answer[key].as_str().expect("text").to_owned();
    Some((text("permissionDecision"), text("permissionDecisionReason")))
}

const ZSH: &str = "mcp__plugin_zsh-tool_zsh-tool__zsh";

#[test]
fn the_rules_of_user_and_project_decide_part_by_part() {
    let env = Env::new();
    rules(&env, false, &json!({"allow": ["Bash(make:*)"], "deny": ["Bash", "Bash(rm *)"]}));
    rules(&env, true, &json!({"allow": ["Bash(npm test)"], "ask": ["Bash(make deploy *)"]}));
    for (command, expected, named) in [
        ("make && npm test 2>&1 | tail -3", "allow", ""),
        ("make; /bin/rm x", "deny", "Bash(rm *)"),
        ("make deploy now", "ask", "Bash(make deploy *)"),
        ("make; curl x", "ask", "curl x"),
        ("make > log", "ask", "writes log"),
    ] {
        let (decision, reason) =
            decided(&env, ZSH, &json!({"command": command}), "default").expect("a decision");
        assert_eq!(decision, expected, "{command}: {reason}");
        assert!(reason.contains(named), "{command}: {reason}");
    }
    for (call, named) in [
        (json!({"command": "make", "host": "build1"}), "build1"),
        (json!({"command": "make", "stdin": "x"}), "stdin"),
        (json!({"command": "make", "env": {"MAKEFLAGS": "x"}}), "MAKEFLAGS"),
    ] {
        let (decision, reason) = decided(&env, ZSH, &call, "default").expect("a decision");
        assert!(decision == "ask" && reason.contains(named), "{call}: {decision}: {reason}");
    }
}

#[test]
fn what_is_typed_is_asked_about_and_other_tools_are_not() {
    let env = Env::new();
    rules(&env, false, &json!({"allow": ["Bash(make:*)"], "deny": ["Bash(rm *)"]}));
    let send = "mcp__zsh-tool__zsh_send";
    let typed = |input: &str| decided(&env, send, &json!({"input": input}), "default");
    assert_eq!(typed("make").expect("a decision").0, "ask");
    assert_eq!(typed("rm x").expect("a decision").0, "deny");
    assert_eq!(decided(&env, "mcp__zsh-tool__zsh_poll", &json!({}), "default"), None);
    assert_eq!(decided(&env, "Bash", &json!({"command": "rm x"}), "default"), None);
}

#[test]
fn where_the_client_asks_nothing_only_rules_do() {
    let env = Env::new();
    rules(&env, false, &json!({"deny": ["Bash(rm *)"], "ask": ["Bash(git push *)"]}));
    let decision = |command: &str| {
        let call = json!({"command": command});
        decided(&env, ZSH, &call, "bypassPermissions").map(|(decision, _)| decision)
    };
    assert_eq!(decision("curl x"), None);
    assert_eq!(decision("rm x").as_deref(), Some("deny"));
    assert_eq!(decision("git push").as_deref(), Some("ask"));
}

#[test]
fn settings_that_cannot_be_read_and_input_that_is_none_allow_nothing() {
    let env = Env::new();
    rules(&env, false, &json!({"allow": ["Bash"]}));
    let call = json!({"command": "make"});
    assert_eq!(decided(&env, ZSH, &call, "default").expect("a decision").0, "allow");
    assert_eq!(decided(&env, ZSH, &json!([]), "default").expect("a decision").0, "ask");
    fs::create_dir_all(env.path("work/.claude")).expect("a directory");
    fs::write(env.path("work/.claude/settings.json"), "{").expect("a file");
    let (decision, reason) = decided(&env, ZSH, &call, "default").expect("a decision");
    assert!(decision == "ask" && reason.contains("work/.claude/settings.json"), "{reason}");
}
