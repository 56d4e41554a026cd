//! Files that version 0.1.0 has written: its history, the output of its tasks and its agent runs.
//!
//! `state-0.1.0.tar.gz` is the state directory after commands that succeeded, failed three times in the
//! same way and ran into deadlines, a detached task, a run that completed and one that was interrupted.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::client::PATIENCE;
use crate::support::oneshot::{Runs, says, verdict};
use crate::support::program::ran;
use crate::support::state_files::server_files;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/state-0.1.0.tar.gz");
/// Where the commands and agents worked.
const WORK: &str = "/tmp/zsh-tool-0.1.0/work";

fn with_earlier_state() -> Runs {
    let runs = Runs::new(json!({"worker": [says("the rest")], "auditor": [verdict("DONE", "")]}));
    let mut unpack = runs.env.command("tar");
    unpack.arg("-xzf").arg(FILES).arg("-C").arg(runs.env.path(""));
    assert!(unpack.status().expect("tar").success());
    // As it was then: a server that finds nothing removed for hours would remove what is too old.
    let history = Connection::open(runs.env.path("state/alan.db")).expect("a database");
    let now = "strftime('%Y-%m-%dT%H:%M:%S.000000+00:00', 'now')";
    let sql = format!("UPDATE meta SET value = {now} WHERE key = 'last_pruned'");
    assert_eq!(history.execute(&sql, []).expect("a time"), 1);
    drop(history);
    for run in runs_of(&runs) {
        let file = Path::new(&run).join("oneshot.json");
        let text = fs::read_to_string(&file).expect("a run");
        let here = runs.env.work().display().to_string();
        fs::write(&file, text.replace(WORK, &here)).expect("a run");
    }
    runs
}

fn runs_of(runs: &Runs) -> Vec<String> {
    let entries = fs::read_dir(runs.env.path("state/sessions")).expect("the runs");
    entries.map(|entry| entry.expect("an entry").path().display().to_string()).collect()
}

#[test]
fn the_history_goes_on() {
    let runs = with_earlier_state();
    let before = ran(&runs.env, &["alan", "export"]).text();
    let failures = before.lines().filter(|line| line.contains("ls /nonexistent")).count();
    assert!(failures >= 3, "{before}");
    let client = runs.env.client();
    client.run("echo hello");
    let known = client.call("zsh_alan_query", json!({"command": "echo hello"}));
    assert!(known.text.contains('2'), "{}", known.text);
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let after = ran(&runs.env, &["alan", "export"]).text();
    assert!(after.lines().count() > before.lines().count(), "{after}");
}

#[test]
fn the_output_of_tasks_is_read() {
    let runs = with_earlier_state();
    let mut seen = Vec::new();
    for file in server_files(&runs.env, ".json") {
        let task: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
        let id = task["id"].as_str().expect("an id");
        let shown = ran(&runs.env, &["log", id]);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        seen.push(shown.text());
    }
    for text in ["hello\n", "one\ntwo\nthree\n", "detached output\n"] {
        assert!(seen.iter().any(|shown| shown == text), "{text}: {seen:?}");
    }
}

#[test]
fn its_runs_are_listed_shown_and_resumed() {
    let runs = with_earlier_state();
    let listed = runs.ran(&["list", "--json"]).text();
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("a run")).collect();
    assert_eq!(listed.len(), 2, "{listed:?}");
    for run in &listed {
        let id = run["oneshot_id"].as_str().expect("an id");
        let shown = runs.ran(&["show", id]);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        let resumed = runs.ran(&["--resume", id]);
        match run["state"].as_str() {
            Some("COMPLETED") => assert_eq!(resumed.code, 1, "{}", resumed.stderr),
            Some("INTERRUPTED") => {
                assert_eq!((resumed.code, resumed.text()), (0, "the rest\n".to_owned()));
            }
            other => panic!("{other:?}"),
        }
    }
}
