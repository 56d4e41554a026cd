//! Runs with each agent program as its worker: its recorded stream, and what it keeps of
//! its own when it dies.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::endpoint::{Endpoint, Refusing};
use crate::support::oneshot::{FAKE, Runs, verdict};
use crate::support::recordings::{copy, fixture};

const NAMES: [&str; 5] = ["claude", "codex", "gemini", "cline", "aider"];

/// A run whose worker is a shell script under this program's name; the auditor is content.
fn with_worker(name: &str, script: &str) -> Runs {
    let runs = Runs::new(json!({"auditor": [verdict("DONE", "")]}));
    let path = runs.env.path(&format!("bin/{name}"));
    if path.exists() {
        fs::remove_file(&path).unwrap();
    }
    let text = format!(
        "#!/bin/sh\n[ \"$ONESHOT_ROLE\" = auditor ] && exec '{FAKE}' \"$@\"\n\
         cat > /dev/null\n{script}\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    runs
}

fn run(runs: &Runs, name: &str) -> crate::support::program::Finished {
    runs.ran(&["--executor", name, "--auditor", "claude", "make it"])
}

#[test]
fn the_answer_of_each_recorded_stream_reaches_the_auditor() {
    for name in NAMES {
        let stream = match name {
            "aider" => fixture("aider/streams/ok.txt"),
            _ => fixture(&format!("{name}/streams/ok.ndjson")),
        };
        let runs = with_worker(name, &format!("cat '{}'", stream.display()));
        let ended = run(&runs, name);
        assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        let text = ended.text();
        match name {
            // All that it writes is its answer.
            "aider" => assert!(text.contains("Aider v0.86.2") && text.contains("all is done")),
            _ => assert_eq!(text, "all is done\n", "{name}"),
        }
        assert!(runs.prompt("auditor", 1).contains(text.trim_end()));
    }
}

#[test]
fn an_answer_that_comes_in_pieces_is_whole() {
    let event = |value: serde_json::Value| format!("echo '{value}'\n");
    let piece = |text: &str| {
        event(json!({"type": "message", "role": "assistant", "content": text, "delta": true}))
    };
    let script = [
        piece("I look."),
        event(json!({"type": "tool_use", "tool_name": "ls", "parameters": {}})),
        event(json!({"type": "tool_result", "status": "success", "output": "a"})),
        piece("It is "),
        piece("done."),
        event(json!({"type": "result", "status": "success"})),
    ];
    for end in ["exit 0", "exit 3"] {
        let runs = with_worker("gemini", &format!("{}{end}", script.concat()));
        let ended = run(&runs, "gemini");
        assert_eq!(ended.code, 0, "{end}: {}", ended.stderr);
        assert_eq!(ended.text(), "It is done.\n", "{end}");
    }
}

/// The recorded stdout and stderr of a program that was denied its tools.
fn denied(name: &str) -> Runs {
    let stream = |form| fixture(&format!("{name}/streams/denied.{form}")).display().to_string();
    let stderr = match name {
        "codex" => format!("cat '{}' >&2\n", stream("txt")),
        _ => String::new(),
    };
    with_worker(name, &format!("{stderr}cat '{}'", stream("ndjson")))
}

#[test]
fn a_worker_that_was_denied_its_tools_is_named_before_its_audit() {
    for (name, calls, setting) in [
        ("claude", "2 of the 3", "executors.claude.argv: [claude, --permission-mode, acceptEdits]"),
        ("codex", "2 of the 2", "executors.codex.argv: [codex, --sandbox, workspace-write]"),
        ("gemini", "2 of the 3", "executors.gemini.argv: [gemini, --approval-mode, auto_edit]"),
    ] {
        let runs = denied(name);
        let ended = run(&runs, name);
        assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        let fact = format!("was denied {calls} tools that it called");
        let note = ended.stderr.lines().find(|line| line.contains(&fact));
        assert!(note.is_some_and(|note| note.contains(setting)), "{name}: {}", ended.stderr);
        let known = format!("What is known of the worker: it {fact}.");
        assert!(runs.prompt("auditor", 1).contains(&known), "{name}");
        assert_eq!(runs.lines("shortfall").len(), 1, "{name}");
        let followed = runs.ran(&["follow", "latest"]);
        assert!(followed.text().contains(&fact), "{name}: {}", followed.text());
    }
}

#[test]
fn a_worker_that_did_its_work_is_not_doubted() {
    let runs =
        with_worker("cline", &format!("cat '{}'", fixture("cline/streams/ok.ndjson").display()));
    assert_eq!(run(&runs, "cline").code, 0);
    assert!(runs.lines("shortfall").is_empty());
    assert!(!runs.prompt("auditor", 1).contains("What is known"));
}

/// Copilot ends its output with a result when it is killed.
#[test]
fn an_agent_that_was_ended_has_no_result() {
    let stream = fixture("copilot/streams/hung.ndjson");
    let runs = with_worker("copilot", &format!("cat '{}'; exit 0", stream.display()));
    assert_eq!(run(&runs, "copilot").code, 1);
    assert_eq!(runs.state().1.as_deref(), Some("tool_error"));
    let states = runs.history();
    assert!(!states.contains(&"AUDIT_PENDING".to_owned()), "{states:?}");
}

#[test]
fn the_attempts_of_an_agent_are_followed() {
    let stream = fixture("claude/streams/auth.ndjson");
    let runs = with_worker("claude", &format!("cat '{}'; exit 1", stream.display()));
    assert_eq!(runs.ran(&["--wait-limit", "0", "make it"]).code, 1);
    let followed = runs.ran(&["follow", "latest"]);
    let told = followed.text();
    assert!(told.contains("retrying: 401 from the API, attempt 1"), "{told}");
}

/// The session of the recorded conversations of the programs that are given theirs.
const RECORDED_SESSION: &str = "11111111-1111-4111-8111-111111111111";

/// What a program had kept of a case when it died without a word.
fn dies_having_kept(name: &str, case: &str) -> Runs {
    let script = format!(
        r#"
LEFT=$HOME/../left
mkdir -p "$LEFT/project"
while [ $# -gt 0 ]; do
    [ "$1" = --session-id ] && session=$2
    shift
done
if [ -n "$session" ]; then
    find "$LEFT" -type f -exec sed -i "s/{RECORDED_SESSION}/$session/g" {{}} +
    for file in $(find "$LEFT" -name '*11111111*.jsonl'); do
        mv "$file" "$(printf %s "$file" | sed "s/{RECORDED_SESSION}/$session/; s/-11111111/-${{session%%-*}}/")"
    done
fi
cp -R "$LEFT/." "$HOME/.." && cp -R "$LEFT/project/." .
exit 7"#
    );
    let runs = with_worker(name, &script);
    let project = runs.env.work().canonicalize().unwrap();
    copy(
        &fixture(&format!("{name}/{case}")),
        &runs.env.path("left"),
        &project.display().to_string(),
    );
    runs
}

#[test]
fn what_a_dead_worker_had_finished_by_its_own_storage_is_audited() {
    for name in NAMES {
        let runs = dies_having_kept(name, "success");
        let ended = run(&runs, name);
        assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
        assert_eq!(ended.text(), "all is done\n", "{name}");
        let found = &runs.lines("recovered")[0]["data"];
        assert_eq!(found["found"], "success", "{name}");
        assert_eq!(found["text"], "all is done", "{name}");
        assert!(runs.prompt("auditor", 1).contains("all is done"), "{name}");
    }
}

#[test]
fn the_answer_of_another_agent_is_not_taken_for_that_of_one_that_died() {
    // One that was given its session, one that names it later, and one that names none.
    for name in ["claude", "codex", "cline"] {
        let runs = dies_having_kept(name, "success");
        assert_eq!(run(&runs, name).code, 0, "{name}");
        // The next one dies at once.
        fs::write(runs.env.path(&format!("bin/{name}")), "#!/bin/sh\nexit 7\n").unwrap();
        let ended = run(&runs, name);
        assert_eq!(ended.code, 1, "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains("FAILED (exit_code:7)"), "{name}: {}", ended.stderr);
    }
}

#[test]
fn what_a_dead_worker_had_begun_by_its_own_storage_is_followed_by_another() {
    for name in NAMES {
        let runs = dies_having_kept(name, "partial");
        let ended = runs.ran(&[
            "--executor",
            name,
            "--auditor",
            "claude",
            "--max-iterations",
            "1",
            "make it",
        ]);
        assert_eq!(ended.code, 4, "{name}: {}", ended.stderr);
        let found = &runs.lines("recovered")[0]["data"];
        assert_eq!(found["found"], "partial", "{name}");
        let states = runs.history();
        let wanted = ["RECOVERY_PENDING", "REITERATION_PENDING", "FAILED"];
        assert_eq!(states[2..], wanted, "{name}");
    }
}

#[test]
fn a_dead_worker_that_had_done_nothing_fails_the_run() {
    for name in NAMES {
        let runs = dies_having_kept(name, "nothing");
        let ended = run(&runs, name);
        assert_eq!(ended.code, 1, "{name}: {}", ended.stderr);
        assert_eq!(runs.state().1.as_deref(), Some("exit_code:7"), "{name}");
    }
}

fn ask_models_at(runs: &Runs, base_url: &str) {
    let text = format!("openai: {{base_url: {base_url}, model: small}}");
    runs.env.configure(&text);
}

fn run_models(runs: &Runs) -> crate::support::program::Finished {
    runs.ran(&["--executor", "openai", "--auditor", "openai", "--wait-limit", "0", "make it"])
}

#[test]
fn a_model_at_an_endpoint_works_and_audits() {
    let runs = Runs::new(json!({}));
    let steps = json!([{"stream": ["it ", "is ", "done"]}, {"stream": ["VERDICT: ", "DONE"]}]);
    let endpoint = Endpoint::start(&runs.env, &steps);
    ask_models_at(&runs, &endpoint.base_url());
    let ended = run_models(&runs);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "it is done\n");
    let asked = endpoint.requests();
    let prompt = |number: usize| asked[number]["body"]["messages"][0]["content"].to_string();
    assert_eq!(prompt(0), "\"make it\"");
    assert!(prompt(1).contains("it is done"), "{}", prompt(1));
}

#[test]
fn what_an_endpoint_refuses_is_named() {
    for (status, reason) in [(401, "auth_failed"), (500, "api_error")] {
        let runs = Runs::new(json!({}));
        let endpoint = Endpoint::start(&runs.env, &json!([{"status": status}]));
        ask_models_at(&runs, &endpoint.base_url());
        assert_eq!(run_models(&runs).code, 1);
        assert_eq!(runs.state(), ("FAILED".to_owned(), Some(reason.to_owned())));
    }
    let runs = Runs::new(json!({}));
    ask_models_at(&runs, Refusing::new().url());
    assert_eq!(run_models(&runs).code, 1);
    let state = ("FAILED".to_owned(), Some("connection_refused".to_owned()));
    assert_eq!(runs.state(), state);
}
