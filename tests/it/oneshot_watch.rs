//! Agents that fall silent, hang, repeat themselves or flood, and what is done about it.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::oneshot::{Runs, lives, says, verdict};
use crate::support::processes::{assert_none_left, memory_kib, wait_until};
use crate::support::program::{Program, run};

/// How many seconds the run was in a state that it came to once, by its own history.
fn seconds_in(runs: &Runs, state: &str) -> f64 {
    let file = runs.file();
    let history = file["history"].as_array().expect("a history");
    let at = history.iter().position(|entry| entry["state"] == state);
    let at = at.unwrap_or_else(|| panic!("no {state} in {history:?}"));
    let time = |entry: &serde_json::Value| entry["ts"].as_f64().expect("a time");
    time(&history[at + 1]) - time(&history[at])
}

#[test]
fn silence_ends_the_worker_though_no_byte_comes() {
    let runs = Runs::working(json!([[{"hang": 1}]]));
    let ended = runs.ran(&["--inactivity", "2", "make it"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let state = ("FAILED".to_owned(), Some("inactivity_timeout".to_owned()));
    assert_eq!(runs.state(), state);
    let took = seconds_in(&runs, "WORKER_EXECUTING");
    assert!((1.9..10.0).contains(&took), "{took} s");
    assert_none_left(runs.env.mark());
}

#[test]
fn a_worker_that_computes_and_does_nothing_else_is_silent() {
    let runs = Runs::working(json!([[{"spin": 1}]]));
    let ended = runs.ran(&["--inactivity", "1.5", "make it"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_eq!(runs.state().1.as_deref(), Some("inactivity_timeout"));
}

#[test]
fn a_silent_auditor_fails_the_run() {
    let runs = Runs::new(json!({"worker": [says("work")], "auditor": [[{"hang": 1}]]}));
    let ended = runs.ran(&["--inactivity", "4", "make it"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let state = ("FAILED".to_owned(), Some("inactivity_timeout".to_owned()));
    assert_eq!(runs.state(), state);
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (1, 1));
    assert_none_left(runs.env.mark());
}

/// As a program does whose endpoint never answers: its runtime is never quite idle.
#[test]
fn a_worker_that_only_dribbles_bytes_is_silent() {
    let dribble = json!({"path": "out", "text": "x".repeat(40)});
    let runs = Runs::working(json!([[{"forever": {"append": dribble, "every": 0.1}}]]));
    let ended = runs.ran(&["--inactivity", "2", "make it"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_eq!(runs.state().1.as_deref(), Some("inactivity_timeout"));
    let took = seconds_in(&runs, "WORKER_EXECUTING");
    assert!((1.9..10.0).contains(&took), "{took} s");
    assert_none_left(runs.env.mark());
}

#[test]
fn a_worker_that_writes_files_in_silence_is_not_silent() {
    let file = json!({"path": "out", "text": "x".repeat(8192)});
    let runs = Runs::working(json!([[
        {"repeat": {"append": file, "every": 0.2, "until": "FLAG"}},
        {"result": "written"},
    ]]));
    let flag = runs.flag("enough");
    let script = fs::read_to_string(runs.env.path("script.json")).unwrap();
    fs::write(runs.env.path("script.json"), script.replace("FLAG", &flag)).unwrap();
    let runner = runs.start(&["--inactivity", "4", "make it"]);
    runs.wait_for_start("worker", 1);
    // Half as long again as silence would be borne.
    let enough = Instant::now() + Duration::from_secs(6);
    wait_until("time", || (Instant::now() >= enough).then_some(()));
    runs.raise("enough");
    let ended = runner.finish();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn by_plain_time_limits_only_output_counts() {
    let file = json!({"path": "out", "text": "x".repeat(8192)});
    let runs = Runs::working(json!([[{"forever": {"append": file, "every": 0.2}}]]));
    let mut command = runs.command(&["--inactivity", "1", "make it"]);
    command.env("AUTONOMOUS_STATUS_BASED_TIMEOUT", "0");
    let ended = run(command);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_eq!(runs.state().1.as_deref(), Some("inactivity_timeout"));
}

#[test]
fn a_gap_between_events_that_is_shorter_than_the_limit_is_borne() {
    let runs = Runs::working(json!([[
        {"init": 1}, {"tool": "sleep"}, {"sleep": 1.5}, {"tool_result": "x"}, {"sleep": 1.5}, {"result": "done"},
    ]]));
    let ended = runs.ran(&["--inactivity", "10", "make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn what_hangs_after_its_result_is_ended_and_its_result_counts() {
    let runs = Runs::working(json!([[{"init": 1}, {"result": "all done"}, {"hang": 1}]]));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "all done\n");
    let file = runs.file();
    let history = file["history"].as_array().unwrap();
    let recovery = history.iter().find(|entry| entry["state"] == "RECOVERY_PENDING");
    assert_eq!(recovery.unwrap()["reason"], "exit_hang");
    let hung = seconds_in(&runs, "WORKER_EXECUTING");
    assert!((4.9..10.0).contains(&hung), "{hung} s");
    assert!(!lives(runs.told("worker", 1)["pid"].as_i64().unwrap()));
}

#[test]
fn a_silent_worker_whose_own_storage_has_its_answer_is_salvaged() {
    let line = |value: serde_json::Value| format!("{value}\n");
    let answer = json!({
        "type": "assistant", "uuid": "1", "message": {
            "role": "assistant", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "stored answer"}],
        },
    });
    let runs = Runs::working(json!([[
        {"init": 1},
        {"store": {"path": ".claude/projects/work/SESSION.jsonl", "text": line(answer)}},
        {"hang": 1},
    ]]));
    let ended = runs.ran(&["--inactivity", "4", "make it"]);
    assert_eq!(ended.code, 0, "{}\n{:?}", ended.stderr, runs.log());
    assert_eq!(ended.text(), "stored answer\n");
    let recovered = &runs.lines("recovered")[0]["data"];
    assert_eq!(recovered["text"], "stored answer");
}

#[test]
fn an_auditor_that_hangs_after_its_verdict_is_believed() {
    let text = json!({"verdict": "DONE", "feedback": ""}).to_string();
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [[{"init": 1}, {"result": text}, {"hang": 1}]],
    }));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.history().last().unwrap(), "COMPLETED");
}

#[test]
fn a_worker_that_ignores_sigterm_is_ended_all_the_same() {
    let runs = Runs::working(json!([[{"ignore": "TERM"}, {"hang": 1}]]));
    let ended = runs.ran(&["--inactivity", "4", "make it"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_none_left(runs.env.mark());
}

#[test]
fn what_a_worker_leaves_behind_lives_until_the_run_ends_and_holds_nothing_up() {
    let runs = Runs::new(json!({
        "worker": [[{"grandchild": "left.pid"}, {"result": "work"}]],
        "auditor": [[{"wait": "go"}, {"result": "VERDICT: DONE"}]],
    }));
    let runner = runs.start(&["make it"]);
    runs.wait_for_start("auditor", 1);
    let left = fs::read_to_string(runs.env.work().join("left.pid")).unwrap();
    let left: i64 = left.parse().unwrap();
    assert!(lives(left), "until the run ends");
    runs.raise("go");
    let ended = runner.finish();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!lives(left));
}

#[test]
fn the_run_ends_when_its_time_is_up() {
    let runs = Runs::working(json!([[{"forever": {"text": "still here", "every": 0.1}}]]));
    let begun = Instant::now();
    let ended = runs.ran(&["--max-runtime", "2", "make it"]);
    let took = begun.elapsed();
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("max_runtime".to_owned())));
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_none_left(runs.env.mark());
}

/// A worker that makes the same call for ever, and flags that make evidence come fast.
fn looping() -> serde_json::Value {
    json!([[{"init": 1}, {"forever": {"tool": "cat config.json", "every": 0.02}}], says("at last")])
}

const FAST: [&str; 4] = ["--heartbeat", "0.2", "--stuck-threshold", "3"];

#[test]
fn the_same_call_for_ever_is_stuck_and_a_judge_confirms_it() {
    let runs = Runs::working(looping());
    let arguments = [&FAST[..], &["--on-stuck", "recover", "make it"]].concat();
    let ended = runs.ran(&arguments);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let file = runs.file();
    let reasons: Vec<&str> = file["history"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["reason"].as_str())
        .collect();
    assert_eq!(reasons, ["stuck_confirmed"]);
    let check = &runs.lines("status_check")[0]["data"];
    assert_eq!(check["status"], "B");
    assert_eq!(check["time_based"], "ok");
    let beats = runs.lines("heartbeat");
    assert!(beats.iter().any(|beat| beat["data"]["stuck"] == true), "{beats:?}");
    assert!(runs.prompt("worker", 2).contains("cat config.json"));
}

#[test]
fn a_stuck_worker_fails_the_run_where_that_is_asked_for() {
    let runs = Runs::working(looping());
    let arguments = [&FAST[..], &["--on-stuck", "fail", "make it"]].concat();
    assert_eq!(runs.ran(&arguments).code, 1);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("stuck_confirmed".to_owned())));
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn a_stuck_auditor_fails_the_run_whatever_is_done_about_stuck_workers() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [[{"init": 1}, {"forever": {"tool": "cat config.json", "every": 0.02}}]],
    }));
    let arguments = [&FAST[..], &["--on-stuck", "recover", "make it"]].concat();
    assert_eq!(runs.ran(&arguments).code, 1);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("stuck_confirmed".to_owned())));
}

/// An agent program of the configuration that judges with this line.
fn judge_with(runs: &Runs, line: &str) {
    let path = runs.env.path("bin/judge");
    fs::write(
        &path,
        // A judge may be asked while the test reads what an earlier one was.
        format!(
            "#!/bin/sh\ncat > \"$HOME/asked.$$\"\nmv \"$HOME/asked.$$\" \"$HOME/asked\"\n\
             echo '{line}'\n"
        ),
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    runs.env.configure(&format!("executors: {{arbiter: {{argv: [{}]}}}}", path.display()));
}

#[test]
fn a_judge_that_sees_progress_lets_the_worker_go_on() {
    let runs = Runs::working(json!([[
        {"init": 1},
        {"repeat": {"tool": "cat config.json", "every": 0.02, "until": "go"}},
        {"result": "done"},
    ]]));
    judge_with(&runs, "A: it is slow but works");
    let arguments =
        [&FAST[..], &["--on-stuck", "recover", "--judge", "command:arbiter", "make it"]].concat();
    let runner = runs.start(&arguments);
    runs.wait_for_start("worker", 1);
    wait_until("two checks", || (runs.lines("status_check").len() >= 2).then_some(()));
    runs.raise("go");
    let ended = runner.finish();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.starts("worker"), 1);
    let checks = runs.lines("status_check");
    assert!(checks.iter().all(|check| check["data"]["status"] == "A"), "{checks:?}");
    let asked = fs::read_to_string(runs.env.path("home/asked")).unwrap();
    assert!(asked.contains("cat config.json"), "{asked}");
}

#[test]
fn a_person_is_asked_about_a_stuck_worker_and_no_cancels_the_run() {
    let runs = Runs::working(looping());
    let arguments = [&FAST[..], &["make it"]].concat();
    let mut runner = runs.on_terminal(&arguments);
    wait_until("the question", || runs.shown().contains("Continue waiting?").then_some(()));
    let worker = runs.told("worker", 1)["pid"].as_i64().unwrap();
    assert!(lives(worker), "it goes on while the question stands");
    let mut keyboard = runner.stdin.take().unwrap();
    std::io::Write::write_all(&mut keyboard, b"n\n").unwrap();
    let ended = runner.finish_with_stdin_open();
    assert_eq!(ended.code, 1, "{}", runs.shown());
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("user_cancelled".to_owned())));
    assert_eq!(runs.starts("worker"), 1);
    assert!(!lives(worker));
    let screen = runs.shown();
    assert!(screen.contains("n cancels the run"), "{screen}");
}

#[test]
fn a_question_stands_where_the_status_would_and_no_finding_is_told_twice() {
    let runs = Runs::working(json!([[
        {"init": 1},
        {"repeat": {"tool": "cat config.json", "every": 0.02, "until": "go"}},
        {"result": "done"},
    ]]));
    let arguments = [&FAST[..], &["make it"]].concat();
    let mut runner = runs.on_terminal(&arguments);
    let keyboard = runner.stdin.take();
    wait_until("the question", || runs.shown().contains("Continue waiting?").then_some(()));
    wait_until("the judge's third answer", || {
        (runs.lines("status_check").len() >= 3).then_some(())
    });
    let screen = runs.shown();
    let (_, since) = screen.split_once("Continue waiting?").unwrap();
    assert!(!since.contains("worker 1/5"), "{screen}");
    assert_eq!(screen.matches("judged B").count(), 1, "{screen}");
    runs.raise("go");
    let ended = runner.finish_with_stdin_open();
    assert_eq!(ended.code, 0, "{}", runs.shown());
    drop(keyboard);
}

#[test]
fn a_person_who_says_yes_is_obeyed() {
    let runs = Runs::working(json!([[
        {"init": 1},
        {"repeat": {"tool": "cat config.json", "every": 0.02, "until": "go"}},
        {"result": "done"},
    ]]));
    let arguments = [&FAST[..], &["make it"]].concat();
    let mut runner = runs.on_terminal(&arguments);
    wait_until("the question", || runs.shown().contains("Continue waiting?").then_some(()));
    let mut keyboard = runner.stdin.take().unwrap();
    std::io::Write::write_all(&mut keyboard, b"y\n").unwrap();
    wait_until("the question again", || {
        (runs.shown().matches("Continue waiting?").count() >= 2).then_some(())
    });
    runs.raise("go");
    let ended = runner.finish_with_stdin_open();
    assert_eq!(ended.code, 0, "{}", runs.shown());
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn on_a_terminal_the_status_is_drawn_in_place_and_taken_away() {
    // One new call alone is progress for some heartbeats only, which may go by undrawn.
    let runs = Runs::working(json!([[
        {"init": 1},
        {"repeat": {"new_tool": "make", "every": 0.1, "until": "go"}},
        {"result": "done"},
    ]]));
    let runner = runs.on_terminal(&["--heartbeat", "0.2", "make it"]);
    wait_until("the status", || {
        let shown = runs.shown();
        (shown.contains("worker 1/5") && shown.contains("progressing")).then_some(())
    });
    runs.raise("go");
    assert_eq!(runner.finish().code, 0);
    let shown = runs.shown();
    let end = shown.rfind("COMPLETED").expect("the end");
    assert!(!shown[end..].contains("worker 1/5"), "{shown}");
}

#[test]
fn ctrl_backslash_pauses_the_run_and_ends_its_agent() {
    let runs = Runs::working(json!([[{"init": 1}, {"touch": "begun"}, {"wait": "never"}]]));
    let mut runner = runs.on_terminal(&["make it"]);
    let mut keyboard = runner.stdin.take().unwrap();
    wait_until("the worker", || runs.env.work().join("begun").exists().then_some(()));
    let worker = runs.wait_for_start("worker", 1);
    std::io::Write::write_all(&mut keyboard, b"\x1c").unwrap();
    let ended = runner.finish_with_stdin_open();
    assert_eq!(ended.code, 131, "{}", runs.shown());
    let reason = Some("signal:3".to_owned());
    assert_eq!(runs.state(), ("INTERRUPTED".to_owned(), reason));
    assert!(!lives(worker));
}

/// What the flood writes; `ZSH_TOOL_FLOOD` asks for more than a debug build can take in
/// good time.
fn flood_bytes() -> u64 {
    let asked = std::env::var("ZSH_TOOL_FLOOD").ok();
    asked.and_then(|bytes| bytes.parse().ok()).unwrap_or(16 << 20)
}

#[test]
fn a_flood_goes_through_and_memory_stays_flat() {
    let runs = Runs::working(json!([[
        {"init": 1},
        {"flood": flood_bytes()},
        {"touch": "flooded"},
        {"wait": "go"},
        {"result": "after the flood"},
    ]]));
    let runner = runs.start(&["--inactivity", "60", "make it"]);
    runs.wait_for_start("worker", 1);
    let log = runs.directory().join("oneshot-log.json");
    let size = || fs::metadata(&log).map_or(0, |found| found.len());
    while !runs.env.work().join("flooded").exists() {
        let before = size();
        wait_until("more of the flood", || {
            let over = runs.env.work().join("flooded").exists();
            (over || size() > before).then_some(())
        });
    }
    let peak = memory_kib(runner.id(), "VmHWM");
    assert!(peak < 64 << 10, "{peak} KiB");
    runs.raise("go");
    let ended = runner.finish();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "after the flood\n");
    assert!(size() > flood_bytes());
}

#[test]
fn several_runs_side_by_side_do_not_touch_each_other() {
    let runs = Runs::new(json!({
        "worker": [[{"echo": 1}]],
        "auditor": [verdict("DONE", "")],
    }));
    let programs: Vec<Program> =
        (0..3).map(|number| runs.start(&[&format!("number {number}")])).collect();
    for (number, program) in programs.into_iter().enumerate() {
        let ended = program.finish();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(ended.text(), format!("number {number}\n"));
    }
}
