//! Checks of agent runs: command lines that judge a worker's result before any auditor.

use serde_json::json;

use crate::support::oneshot::{Runs, lives, says, verdict};
use crate::support::processes::wait_until;

/// Runs whose auditor accepts everything.
fn runs() -> Runs {
    let worker = json!([says("first"), says("second")]);
    Runs::new(json!({"worker": worker, "auditor": [verdict("DONE", "")]}))
}

/// A check that is red in the first iteration and green in the second.
const SECOND: &str =
    "if [[ $ONESHOT_ITERATION = 1 ]]; then print -u2 'roof.c:7: error: no roof'; exit 2; fi";

#[test]
fn a_red_check_goes_to_the_next_worker_without_an_audit() {
    let runs = runs();
    let ended = runs.ran(&["--check", "true", "--check", SECOND, "make it"]);
    assert_eq!((ended.code, ended.text()), (0, "second\n".to_owned()), "{}", ended.stderr);
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (2, 1));
    let prompt = runs.prompt("worker", 2);
    assert!(prompt.starts_with("make it\n"), "{prompt}");
    assert!(prompt.contains("roof.c:7: error: no roof\n[exit 2]"), "{prompt}");
    assert!(!prompt.contains("$ true"), "{prompt}");
    let audit = runs.prompt("auditor", 1);
    assert!(audit.contains("Checks that pass:\n$ true\n$ if"), "{audit}");
    let steps = ["WORKER_EXECUTING", "CHECK_PENDING", "CHECK_EXECUTING"];
    let history = runs.history();
    assert_eq!(history[1..5], [&steps[..], &["REITERATION_PENDING"]].concat(), "{history:?}");
    assert_eq!(history[5..9], [&steps[..], &["AUDIT_PENDING"]].concat(), "{history:?}");
    let file = runs.file();
    let passed: Vec<_> = file["check_results"].as_array().unwrap().iter().collect();
    let passed: Vec<_> = passed.iter().map(|check| check["passed"].as_bool().unwrap()).collect();
    assert_eq!(passed, [true, false, true, true]);
    assert_eq!(file["failed_checks"], json!(null));
    assert!(ended.stderr.contains("✘ if"), "{}", ended.stderr);
    assert!(ended.stderr.contains("✔ true: passed"), "{}", ended.stderr);
    let log = runs.lines("check");
    assert!(log[1]["data"]["output"].as_str().unwrap().contains("no roof"), "{log:?}");
    let shown = runs.ran(&["show", "latest"]).text();
    assert!(shown.contains("check      true: passed"), "{shown}");
    let followed = runs.ran(&["follow", "latest"]).text();
    assert!(followed.contains("check true: passed"), "{followed}");
    assert!(followed.contains("failed, exit 2 (") && followed.contains("no roof"), "{followed}");
}

#[test]
fn without_an_auditor_green_checks_complete_the_run() {
    let runs = runs();
    let ended = runs.ran(&["--auditor", "none", "--check", SECOND, "make it"]);
    assert_eq!((ended.code, ended.text()), (0, "second\n".to_owned()), "{}", ended.stderr);
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (2, 0));
    assert_eq!(runs.state(), ("COMPLETED".to_owned(), None));
    let never =
        runs.ran(&["--auditor", "none", "--max-iterations", "2", "--check", "false", "do it"]);
    assert_eq!(never.code, 4, "{}", never.stderr);
    let nothing = runs.ran(&["--auditor", "none", "make it"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("--check"), "{}", nothing.stderr);
}

#[test]
fn a_failure_that_a_pipe_hides_is_red_and_a_reader_that_leaves_is_not() {
    for (check, code) in [
        ("(print wrong; exit 3) | tail -1", 4),
        ("yes | head -1", 0),
        ("no-such-program", 4),
        ("kill -9 $$", 4),
    ] {
        let runs = runs();
        let arguments = ["--auditor", "none", "--max-iterations", "1", "--check", check, "make it"];
        let ended = runs.ran(&arguments);
        assert_eq!(ended.code, code, "{check}: {}", ended.stderr);
    }
}

#[test]
fn a_check_that_hangs_is_ended_with_all_that_it_started() {
    let runs = runs();
    let check = "sleep 300 & print $! > child; print begun; wait";
    let ended = runs.ran(&[
        "--auditor",
        "none",
        "--max-iterations",
        "1",
        "--check-timeout",
        "0.5",
        "--check",
        check,
        "make it",
    ]);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    let results = runs.file()["check_results"].clone();
    let how = results[0]["ended"].as_str().unwrap();
    assert!(how.starts_with("stopped after 0s"), "{how}");
    assert!(runs.file()["failed_checks"].as_str().unwrap().contains("begun"));
    let child = std::fs::read_to_string(runs.env.work().join("child")).unwrap();
    let child = child.trim().parse().unwrap();
    wait_until("the child has ended", || (!lives(child)).then_some(()));
}

#[test]
fn of_a_flood_the_next_worker_gets_the_failures() {
    let runs = runs();
    let check = "if [[ $ONESHOT_ITERATION = 1 ]]; then seq 400000; \
                 print 'FAILED test_roof.py::test_rain - assert 1 == 2'; seq 400000; exit 1; fi";
    let ended = runs.ran(&["--auditor", "none", "--check", check, "make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let prompt = runs.prompt("worker", 2);
    assert!(prompt.contains("FAILED test_roof.py::test_rain"), "{prompt}");
    assert!(prompt.len() < 20_000, "{}", prompt.len());
}

#[test]
fn a_run_is_paused_during_a_check_and_repeats_it_when_it_is_resumed() {
    let runs = runs();
    let check = "print >> checks; [[ -e go ]] || { touch begun; sleep 300 }";
    let runner = runs.start(&["--check", check, "make it"]);
    wait_until("the check runs", || runs.env.work().join("begun").exists().then_some(()));
    runs.wait_for_state("CHECK_EXECUTING");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let pid = runs.file()["history"][3]["pid"].as_i64().expect("the check's process");
    wait_until("the check has ended", || (!lives(pid)).then_some(()));
    runs.raise("go");
    let ended = runs.ran(&["--resume", "latest"]);
    assert_eq!((ended.code, ended.text()), (0, "first\n".to_owned()), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(runs.env.work().join("checks")).unwrap(), "\n\n");
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn a_check_of_a_killed_runner_is_ended_and_repeated() {
    let runs = runs();
    let check = "[[ -e go ]] || { touch begun; sleep 300 }";
    let runner = runs.start(&["--check", check, "make it"]);
    wait_until("the check runs", || runs.env.work().join("begun").exists().then_some(()));
    runs.wait_for_state("CHECK_EXECUTING");
    runner.signal("KILL");
    runner.finish();
    let pid = runs.file()["history"][3]["pid"].as_i64().expect("the check's process");
    runs.raise("go");
    let ended = runs.ran(&["--resume", "latest"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!lives(pid));
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn a_project_names_no_checks_and_a_check_has_no_secret() {
    let runs = runs();
    let project = runs.env.work().join(".oneshot.json");
    std::fs::write(project, r#"{"check": "touch harmed"}"#).unwrap();
    let ended = runs.ran(&["--trust-project", "make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("allowed only in config.yaml"), "{}", ended.stderr);
    assert!(!runs.env.work().join("harmed").exists());
    let check = "curl -H 'Authorization: Bearer ghp_012345678901234567890123456789012345' x";
    let refused = runs.ran(&["--check", check, "make it"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("secret"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("ghp_0123"), "{}", refused.stderr);
}

#[test]
fn a_failed_audit_is_repeated_with_the_worker_s_result() {
    let refused =
        json!([{"init": 1}, {"fault": "API Error: 401 authentication_error"}, {"exit": 1}]);
    let auditor = json!([refused, verdict("DONE", "")]);
    let runs = Runs::new(json!({"worker": [says("it is done")], "auditor": auditor}));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("--resume"), "{}", ended.stderr);
    let shown = runs.ran(&["show", "latest"]).text();
    assert!(shown.contains("FAILED (auth_failed, resumable)"), "{shown}");
    let resumed = runs.ran(&["--resume", "latest"]);
    assert_eq!(
        (resumed.code, resumed.text()),
        (0, "it is done\n".to_owned()),
        "{}",
        resumed.stderr
    );
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (1, 2));
}

#[test]
fn a_worker_that_its_service_refused_is_started_again_by_a_resume() {
    let refused =
        json!([{"init": 1}, {"fault": "API Error: 401 authentication_error"}, {"exit": 1}]);
    let worker = json!([refused, says("it is done")]);
    let runs = Runs::new(json!({"worker": worker, "auditor": [verdict("DONE", "")]}));
    assert_eq!(runs.ran(&["--max-iterations", "1", "make it"]).code, 1);
    let resumed = runs.ran(&["--resume", "latest"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!(runs.file()["iteration_count"], 1);
}
