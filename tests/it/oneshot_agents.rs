//! `zsh-tool oneshot agents`: which agent programs are installed, and what they may do.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::env::{Env, binary};
use crate::support::program::{Finished, run};

/// An environment with these programs, as shell scripts, before the system's.
fn with_programs(programs: &[(&str, &str)]) -> Env {
    let env = Env::new();
    fs::create_dir(env.path("bin")).expect("a folder");
    for (name, script) in programs {
        let path = env.path(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a program");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a program");
    }
    env
}

fn agents(env: &Env, arguments: &[&str]) -> Finished {
    let mut command = env.command(binary());
    let path = format!("{}:/usr/bin:/bin", env.path("bin").display());
    command.env("PATH", path).args(["oneshot", "agents"]).args(arguments);
    run(command)
}

fn programs() -> Env {
    let env = with_programs(&[
        ("claude", "[ \"$1\" = --version ] && echo '2.1.332 (Claude Code)'"),
        ("codex", "echo codex-cli 9.9.9"),
        ("gemini", "echo broken; exit 3"),
        ("goose", "echo ' 1.44.0'"),
        ("mine", "touch \"$HOME/started\""),
    ]);
    env.configure(
        "executors:\n  mine: {argv: [mine, -x], auditor: [--look]}\n  claude: {argv: [claude, \
         --permission-mode, acceptEdits, --debug]}\n  wrong: {argv: [x], records: gpt}\n",
    );
    env
}

#[test]
fn every_program_is_listed_with_its_version_and_its_permission() {
    let env = programs();
    let listed = agents(&env, &[]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let text = listed.text();
    let line = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.unwrap_or_else(|| panic!("{name}: {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    for expected in [
        "claude 2.1.332, verified worker: --permission-mode acceptEdits; auditor: \
         --permission-mode plan",
        "codex 9.9.9, verified with 0.169.0, 0.171.0 worker: its own settings; auditor: --sandbox \
         read-only",
        "goose 1.44.0, not verified worker: its own settings; auditor: its own settings",
        "gemini installed, verified with 0.61.0 worker: its own settings; auditor: \
         --approval-mode plan",
        "cline not installed install it: npm install -g cline",
        "mine installed worker: its own settings; auditor: --look",
    ] {
        let (name, _) = expected.split_once(' ').expect("a name");
        assert_eq!(line(name), expected);
    }
    assert!(line("wrong").starts_with("wrong unusable executors.wrong of config.yaml: records:"));
    assert!(line("openai").contains(env!("CARGO_PKG_VERSION")));
    // It could be an agent that takes the option for a prompt.
    assert!(!env.path("home/started").exists());
}

#[test]
fn programs_read_the_list_as_json() {
    let env = programs();
    let listed = agents(&env, &["--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let lines: Vec<Value> =
        listed.text().lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let agent = |name: &str| lines.iter().find(|agent| agent["name"] == name).expect(name);
    assert_eq!(
        *agent("claude"),
        json!({
            "name": "claude",
            "installed": true,
            "path": env.path("bin/claude").display().to_string(),
            "version": "2.1.332",
            "verified": true,
            "verified_versions": ["2.1.197", "2.1.332"],
            "permission": {
                "worker": "--permission-mode acceptEdits",
                "auditor": "--permission-mode plan",
            },
        })
    );
    assert_eq!(agent("gemini")["version"], Value::Null);
    assert_eq!(agent("cline")["installed"], false);
    assert!(agent("wrong")["fault"].as_str().is_some_and(|fault| fault.contains("records")));
}
