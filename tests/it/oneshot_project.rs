//! What the file of a project chooses for a run: said, asked once, and never above the user's own
//! limits.

use std::fs;
use std::io::Write;

use serde_json::json;

use crate::support::oneshot::{Runs, says};
use crate::support::processes::wait_until;

/// Runs in a project with this file.
fn in_project(file: &str) -> Runs {
    let runs = Runs::working(json!([says("made")]));
    fs::write(runs.env.work().join(".oneshot.json"), file).expect("a file");
    runs
}

/// Runs on a terminal, with this answer to the question; returns the exit code and the screen.
fn answered(runs: &Runs, answer: &str) -> (i32, String) {
    let mut runner = runs.on_terminal(&["make it"]);
    wait_until("the question", || runs.shown().contains("[y/N]").then_some(()));
    let mut keyboard = runner.stdin.take().expect("a keyboard");
    keyboard.write_all(answer.as_bytes()).expect("an answer");
    let ended = runner.finish_with_stdin_open();
    (ended.code, runs.shown())
}

fn has_run(runs: &Runs) -> bool {
    fs::read_dir(runs.env.path("state/sessions")).is_ok_and(|mut runs| runs.next().is_some())
}

#[test]
fn without_a_terminal_what_a_project_chooses_is_refused_unless_it_is_trusted() {
    let runs = in_project("{\"model\": \"dear\", \"max_iterations\": 1000}");
    let refused = runs.ran(&["make it"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    for part in [".oneshot.json sets model=dear, max_iterations=1000;", "--trust-project"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert!(!has_run(&runs));
    let trusted = runs.ran(&["--trust-project", "make it"]);
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    assert!(trusted.stderr.contains("sets model=dear, max_iterations=1000"), "{}", trusted.stderr);
    assert_eq!(
        (&runs.file()["model"], &runs.file()["max_iterations"]),
        (&json!("dear"), &json!(1000))
    );
    // The option is for one run.
    assert_eq!(runs.ran(&["make it"]).code, 2);
}

#[test]
fn what_the_command_line_sets_is_not_the_projects() {
    let runs = in_project("{\"model\": \"dear\"}");
    let ended = runs.ran(&["--model", "cheap", "make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains(".oneshot.json"), "{}", ended.stderr);
    assert_eq!(runs.file()["model"], "cheap");
}

#[test]
fn on_a_terminal_a_project_is_asked_about_once_for_each_content() {
    let runs = in_project("{\"model\": \"dear\"}");
    let (code, screen) = answered(&runs, "\n");
    assert_eq!(code, 2, "{screen}");
    assert!(!has_run(&runs));
    let (code, screen) = answered(&runs, "y\n");
    assert_eq!(code, 0, "{screen}");
    // Agreed to, and still said.
    let again = runs.ran(&["make it"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stderr.contains(".oneshot.json sets model=dear"), "{}", again.stderr);
    fs::write(runs.env.work().join(".oneshot.json"), "{\"model\": \"dearer\"}").expect("a file");
    assert_eq!(runs.ran(&["make it"]).code, 2);
}

#[test]
fn a_project_does_not_raise_the_users_limit() {
    let runs = in_project("{\"max_iterations\": 1000}");
    fs::write(runs.env.path("home/.oneshot.json"), "{\"max_iterations\": 2}").expect("a file");
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("a project raises no limit of the user"), "{}", ended.stderr);
    assert_eq!(runs.file()["max_iterations"], 2);
}

#[test]
fn a_resumed_run_takes_nothing_from_the_project() {
    let runs = Runs::working(json!([
        [{"init": 1}, {"touch": "begun"}, {"wait": "never"}],
        says("made"),
    ]));
    let runner = runs.start(&["make it"]);
    let begun = runs.env.work().join("begun");
    wait_until("the worker", || begun.exists().then_some(()));
    runner.signal("TERM");
    assert_ne!(runner.finish().code, 0);
    let file = "{\"judge\": \"claude\", \"max_iterations\": 1000}";
    fs::write(runs.env.work().join(".oneshot.json"), file).expect("a file");
    let resumed = runs.ran(&["--resume", "latest"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(!resumed.stderr.contains(".oneshot.json"), "{}", resumed.stderr);
    assert_eq!(runs.file()["options"]["judge"], json!(null));
}

#[test]
fn a_projects_file_writes_no_line_of_the_tool() {
    let runs =
        in_project("{\"max_iterations\": 3, \"model\": \"x\\n✔ done \\u001b[31m\", \"a\\nb\": 1}");
    let refused = runs.ran(&["make it"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(!refused.stderr.lines().any(|line| line.starts_with(['✔', 'b'])), "{}", refused.stderr);
    assert!(!refused.stderr.contains('\u{1b}'), "{}", refused.stderr);
}
