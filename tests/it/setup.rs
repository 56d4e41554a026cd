//! `zsh-tool setup`: the server's entry in the settings of clients, in a home of the test's own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::env::{Env, binary};
use crate::support::program::ran;

/// Each client, the file of its settings below the home, and what the user has in it.
const CLIENTS: [(&str, &str, &str); 9] = [
    ("claude", ".claude.json", r#"{"numStartups": 3, "mcpServers": {"other": {"command": "x"}}}"#),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"x\"\n",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        r#"{"theme": "x", "mcpServers": {"other": {"command": "x"}}}"#,
    ),
    ("qwen", ".qwen/settings.json", "{}"),
    ("copilot", ".copilot/mcp-config.json", r#"{"mcpServers": {"other": {"command": "x"}}}"#),
    ("opencode", ".config/opencode/opencode.json", r#"{"$schema": "s", "model": "x"}"#),
    ("cline", ".cline/data/settings/cline_mcp_settings.json", r#"{"mcpServers": {}}"#),
    ("cursor", ".cursor/mcp.json", r#"{"mcpServers": {"other": {"command": "x"}}}"#),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        r#"{"servers": {"other": {"command": "x"}}, "inputs": []}"#,
    ),
];

fn place(env: &Env, file: &str) -> PathBuf {
    env.path("home").join(file)
}

fn write(env: &Env, file: &str, text: &str) -> PathBuf {
    let path = place(env, file);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a new directory");
    fs::write(&path, text).expect("a new file");
    path
}

fn setup(env: &Env, arguments: &[&str]) -> (i32, String, String) {
    let finished = ran(env, &[&["setup"], arguments].concat());
    let text = finished.text();
    (finished.code, text, finished.stderr)
}

/// The strings of a JSON value or of TOML that name this program.
fn starts_this_program(text: &str) -> bool {
    text.contains(&json!(binary()).to_string()) && text.contains("\"serve\"")
}

#[test]
fn an_entry_is_added_once_and_removed_and_the_rest_is_kept() {
    let env = Env::new();
    for (client, file, mine) in CLIENTS {
        let path = write(&env, file, mine);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("the mode");
        let (code, said, stderr) = setup(&env, &[client]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{client}: {said}");
        assert!(said.contains(&format!("zsh-tool setup {client} --remove")), "{said}");
        let added = fs::read_to_string(&path).expect("the file");
        assert!(starts_this_program(&added), "{client}: {added}");
        let mode = fs::metadata(&path).expect("the file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "{client}");

        let (code, said, _) = setup(&env, &[client]);
        assert!(code == 0 && said.contains("already"), "{client}: {said}");
        assert_eq!(fs::read_to_string(&path).expect("the file"), added, "{client}");

        let (_, listed, _) = setup(&env, &[]);
        let row = listed.lines().find(|line| line.starts_with(client)).unwrap_or_default();
        assert!(row.contains("has the entry"), "{listed}");
        let doctor = ran(&env, &["doctor"]).text();
        assert!(doctor.contains(" has this server, in "), "{client}: {doctor}");

        let (code, said, _) = setup(&env, &[client, "--remove"]);
        assert!(code == 0 && said.starts_with("removed from "), "{client}: {said}");
        let removed = fs::read_to_string(&path).expect("the file");
        if file.ends_with(".toml") {
            assert_eq!(removed, mine);
        } else {
            let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
            let (mut removed, mine) = (parsed(&removed), parsed(mine));
            // An empty section may stay.
            for section in ["mcpServers", "mcp"] {
                if mine.get(section).is_none() && removed[section] == json!({}) {
                    removed.as_object_mut().expect("an object").remove(section);
                }
            }
            assert_eq!(removed, mine, "{client}");
        }
        let (code, said, _) = setup(&env, &[client, "--remove"]);
        assert!(code == 0 && said.contains("has no entry"), "{client}: {said}");
        fs::remove_file(&path).expect("the file");
    }
}

#[test]
fn a_client_without_settings_gets_a_file_and_a_link_stays_a_link() {
    let env = Env::new();
    let (code, ..) = setup(&env, &["cursor"]);
    assert_eq!(code, 0);
    let added = fs::read_to_string(place(&env, ".cursor/mcp.json")).expect("a new file");
    assert!(starts_this_program(&added), "{added}");

    let kept = write(&env, "dotfiles/gemini.json", "{\"a\": 1}");
    let link = place(&env, ".gemini/settings.json");
    fs::create_dir_all(link.parent().expect("a directory")).expect("a new directory");
    symlink(&kept, &link).expect("a link");
    assert_eq!(setup(&env, &["gemini"]).0, 0);
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert!(starts_this_program(&fs::read_to_string(&kept).expect("the file")));
}

#[test]
fn a_file_that_is_not_understood_is_left_alone_and_the_entry_is_printed() {
    let env = Env::new();
    let mine = "{\n  // mine\n  \"mcp\": {}\n}\n";
    let path = write(&env, ".config/opencode/opencode.json", mine);
    for arguments in [&["opencode"][..], &["opencode", "--remove"]] {
        let (code, said, stderr) = setup(&env, arguments);
        assert_eq!((code, said.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains("left as it is"), "{stderr}");
        let removes = arguments.len() > 1;
        assert_eq!(starts_this_program(&stderr), !removes, "{stderr}");
        assert_eq!(fs::read_to_string(&path).expect("the file"), mine);
    }
    let path = place(&env, ".codex/config.toml");
    fs::create_dir_all(&path).expect("a directory in its place");
    let (code, _, stderr) = setup(&env, &["codex"]);
    assert!(code == 1 && stderr.contains("it is no file"), "{stderr}");
}

#[test]
fn what_is_printed_changes_nothing() {
    let env = Env::new();
    for (client, file, _) in CLIENTS {
        let (code, said, _) = setup(&env, &[client, "--print"]);
        assert!(code == 0 && starts_this_program(&said) && said.contains(file), "{said}");
        assert!(!place(&env, file).exists());
    }
    let (code, said, _) = setup(&env, &["--print", "agents"]);
    assert!(code == 0 && said.contains("`zsh_poll`"), "{said}");
    assert_eq!(setup(&env, &["--print", "something"]).0, 2);
    assert_eq!(setup(&env, &["emacs"]).0, 2);
}

#[test]
fn the_sandbox_of_claude_code_is_carried_over_once_and_what_cannot_be_is_named() {
    let env = Env::new();
    let config = ".config/zsh-tool/config.yaml";
    let settings = json!({"sandbox": {
        "enabled": true,
        "filesystem": {"allowWrite": ["~/data"], "denyRead": ["~/private"]},
        "network": {"allowedDomains": ["github.com"]},
        "excludedCommands": ["docker"],
    }});
    let (code, said, _) = setup(&env, &["claude", "--sandbox"]);
    assert!(code == 0 && said.contains("is off"), "{said}");
    write(&env, ".claude/settings.json", &settings.to_string());
    let own = json!({"sandbox": {"filesystem": {"denyWrite": ["vendor"]}}});
    fs::create_dir(env.work().join(".claude")).expect("a new directory");
    fs::write(env.work().join(".claude/settings.local.json"), own.to_string()).expect("a file");

    let (code, said, _) = setup(&env, &["claude", "--sandbox", "--print"]);
    assert!(code == 0 && said.contains("mode: workspace"), "{said}");
    assert!(!place(&env, config).exists());
    let mine = write(&env, config, "# mine\ntimeout_max: 600\n");
    let (code, said, stderr) = setup(&env, &["claude", "--sandbox"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{said}");
    for named in ["network.allowedDomains [\"github.com\"]", "excludedCommands [\"docker\"]"] {
        assert!(said.contains(&format!("sandbox.{named}")), "{said}");
    }
    let text = fs::read_to_string(&mine).expect("the file");
    assert!(text.starts_with("# mine\ntimeout_max: 600\n\nsandbox:\n"), "{text}");
    let shown = ran(&env, &["config"]).text();
    let row = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    assert!(row("sandbox.mode").contains("workspace"), "{shown}");
    assert!(row("sandbox.write").contains("~/data"), "{shown}");
    assert!(row("sandbox.deny_write").contains("work/vendor"), "{shown}");
    assert!(row("sandbox.network").contains("off"), "{shown}");
    let denied = row("sandbox.deny_read");
    assert!(denied.contains("~/.ssh") && denied.contains("~/private"), "{shown}");

    let (code, said, _) = setup(&env, &["claude", "--sandbox"]);
    assert!(code == 0 && said.contains("already"), "{said}");
    assert_eq!(fs::read_to_string(&mine).expect("the file"), text);
    fs::write(&mine, "sandbox: {mode: read-only}\n").expect("the file");
    let (code, said, stderr) = setup(&env, &["claude", "--sandbox"]);
    assert!(code == 1 && said.is_empty() && stderr.contains("left as it is"), "{stderr}");
    assert!(stderr.contains("mode: workspace"), "{stderr}");
    assert_eq!(fs::read_to_string(&mine).expect("the file"), "sandbox: {mode: read-only}\n");
    assert_eq!(setup(&env, &["codex", "--sandbox"]).0, 2);
}
