//! Agent runs that are interrupted, killed, stopped and taken up again.

use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zsh_tool::testing::oneshot::log_line::LineKind;
use zsh_tool::testing::oneshot::log_reader;

use crate::support::client::SECOND_THOUGHT;
use crate::support::oneshot::{Runs, lives, says, verdict};
use crate::support::processes::wait_until;
use crate::support::program::{Finished, Program};

/// The last line of a program's stderr.
fn last_line(ended: &Finished) -> &str {
    ended.stderr.lines().last().unwrap_or_default()
}

fn waiting_worker() -> Value {
    json!([
        [{"init": 1}, {"tool": "begin"}, {"touch": "begun"}, {"wait": "never"}, {"result": "x"}],
        says("the work"),
    ])
}

fn wait_for_flag(runs: &Runs, name: &str) {
    wait_until(name, || runs.env.work().join(name).exists().then_some(()));
}

#[test]
fn a_signal_pauses_the_run_at_once_and_the_last_line_resumes_it() {
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)] {
        let runs = Runs::working(waiting_worker());
        let runner = runs.start(&["make it"]);
        wait_for_flag(&runs, "begun");
        let worker = runs.told("worker", 1)["pid"].as_i64().unwrap();
        let asked = Instant::now();
        runner.signal(signal);
        runs.wait_for_state("INTERRUPTED");
        let ended = runner.finish();
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(ended.code, 128 + number, "{}", ended.stderr);
        assert!(!lives(worker));
        assert_eq!(runs.state().1, Some(format!("signal:{number}")));
        let last = last_line(&ended);
        assert!(last.ends_with(&format!("oneshot --resume {}", runs.id())), "{last}");
        let mut resume = runs.surround(runs.env.command("sh"));
        resume.args(["-c", last]);
        let ended = crate::support::program::run(resume);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(ended.text(), "the work\n");
        // An iteration that was interrupted does not count.
        assert_eq!(runs.file()["iteration_count"], 1);
    }
}

#[test]
fn the_same_command_with_an_id_starts_resumes_and_reports_one_run() {
    const ID: &str = "11111111-2222-4333-8444-555555555555";
    let runs = Runs::working(waiting_worker());
    // What a process that was killed while it created the run has left.
    let left = runs.env.path("state/sessions").join(format!("{ID}.new"));
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("oneshot-log.json"), "{\"seq\":1}\n").unwrap();
    for folder in [left.as_path(), left.parent().unwrap()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let command = ["--id", ID, "make it"];
    let runner = runs.start(&command);
    wait_for_flag(&runs, "begun");
    assert_eq!(runs.id(), ID);
    let second = runs.ran(&command);
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains("this run is active"), "{}", second.stderr);
    runner.signal("TERM");
    assert_eq!(runner.finish().code, 143);
    let other = runs.ran(&["--id", ID, "make something else"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("has another prompt"), "{}", other.stderr);
    // To its end, and then once more without a start of an agent.
    for _ in 0..2 {
        let ended = runs.ran(&command);
        assert_eq!((ended.code, ended.text()), (0, "the work\n".to_owned()), "{}", ended.stderr);
        assert!(ended.stderr.contains("COMPLETED"), "{}", ended.stderr);
        assert!(runs.env.path("notes/worker-2.json").exists());
        assert!(!runs.env.path("notes/worker-3.json").exists());
    }
    let wrong = runs.ran(&["--id", "nightly", "make it"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}

#[test]
fn of_commands_with_the_same_id_at_once_one_runs() {
    const ID: &str = "11111111-2222-4333-8444-555555555555";
    let runs = Runs::working(json!([[{"touch": "begun"}, {"wait": "go"}, {"result": "the work"}]]));
    let runners: Vec<_> = (0..6).map(|_| runs.start(&["--id", ID, "make it"])).collect();
    wait_for_flag(&runs, "begun");
    let (ended, ends) = mpsc::channel();
    for runner in runners {
        let ended = ended.clone();
        thread::spawn(move || ended.send(runner.finish().code));
    }
    // The one that runs waits for the flag.
    let mut codes: Vec<i32> = (0..5).map(|_| ends.recv().unwrap()).collect();
    runs.raise("go");
    codes.push(ends.recv().unwrap());
    codes.sort_unstable();
    assert_eq!(codes, [0, 1, 1, 1, 1, 1]);
    assert!(!runs.env.path("notes/worker-2.json").exists());
}

#[test]
fn a_paused_run_is_nobody_elses_until_its_worker_has_ended() {
    let runs = Runs::working(json!([
        [{"ignore": "TERM"}, {"touch": "begun"}, {"wait": "never"}],
        says("the work"),
    ]));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    let worker = runs.told("worker", 1)["pid"].as_i64().unwrap();
    runner.signal("INT");
    runs.wait_for_state("INTERRUPTED");
    // Whoever is refused is refused while it lives.
    let mut resumed = runs.ran(&["--resume", "latest"]);
    while resumed.code == 1 {
        resumed = runs.ran(&["--resume", "latest"]);
    }
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(!lives(worker));
    assert_eq!(runner.finish().code, 130);
    assert_eq!(runs.starts("worker"), 2);
}

#[test]
fn the_state_is_saved_before_a_worker_that_does_not_end_is_ended() {
    let runs = Runs::working(json!([
        [{"ignore": "TERM"}, {"touch": "begun"}, {"wait": "never"}],
    ]));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    let worker = runs.told("worker", 1)["pid"].as_i64().unwrap();
    runner.signal("TERM");
    runs.wait_for_state("INTERRUPTED");
    assert_eq!(runner.finish().code, 143);
    assert!(!lives(worker));
}

#[test]
fn a_second_signal_kills_at_once() {
    let runs = Runs::working(json!([
        [{"ignore": "TERM"}, {"touch": "begun"}, {"wait": "never"}],
    ]));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    let worker = runs.told("worker", 1)["pid"].as_i64().unwrap();
    runner.signal("INT");
    thread::sleep(SECOND_THOUGHT);
    runner.signal("TERM");
    let code = runner.finish().code;
    assert!([130, 143].contains(&code), "{code}");
    wait_until("the worker's end", || (!lives(worker)).then_some(()));
}

#[test]
fn an_interrupted_audit_is_made_again() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [[{"init": 1}, {"touch": "begun"}, {"wait": "never"}], verdict("DONE", "")],
    }));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let ended = runs.ran(&["--resume", &runs.id()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (1, 2));
    assert!(runs.prompt("auditor", 2).contains("work"));
}

#[test]
fn a_worker_that_had_finished_when_it_was_interrupted_is_not_run_again() {
    let runs = Runs::working(json!([
        [{"init": 1}, {"result": "finished"}, {"touch": "begun"}, {"wait": "never"}],
    ]));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    wait_until("the result in the log", || (!runs.lines("result").is_empty()).then_some(()));
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let ended = runs.ran(&["--resume", "latest"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "finished\n");
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn a_second_runner_of_a_live_run_is_refused() {
    let runs = Runs::working(json!([[{"touch": "begun"}, {"wait": "go"}, {"result": "x"}]]));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    let second = runs.ran(&["--resume", "latest"]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains(&runner.id().to_string()), "{}", second.stderr);
    runs.raise("go");
    assert_eq!(runner.finish().code, 0);
}

#[test]
fn stop_ends_a_run_for_good() {
    let runs = Runs::working(waiting_worker());
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    let worker = runs.told("worker", 1)["pid"].as_i64().unwrap();
    let stopped = runs.ran(&["stop", "latest"]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(!lives(worker), "when stop returns, it is over");
    assert_eq!(runner.finish().code, 1);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("user_cancelled".to_owned())));
    assert!(!lives(worker));
    assert_eq!(runs.ran(&["--resume", "latest"]).code, 1);
}

#[test]
fn after_kill_9_a_resume_ends_what_survived_and_goes_on() {
    let runs = Runs::working(json!([
        [{"init": 1}, {"grandchild": "left.pid"}, {"touch": "begun"}, {"wait": "never"}],
        says("the work"),
    ]));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    let worker = runs.told("worker", 1)["pid"].as_i64().unwrap();
    let left = fs::read_to_string(runs.env.work().join("left.pid")).unwrap();
    let left: i64 = left.parse().unwrap();
    runner.signal("KILL");
    assert_eq!(runner.finish().code, 137);
    assert!(lives(worker) && lives(left), "nobody was there to end them");
    let ended = runs.ran(&["--resume", "latest"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!lives(worker) && !lives(left));
    assert_eq!(ended.text(), "the work\n");
    let reason = &runs.file()["history"][2]["reason"];
    assert_eq!(reason, "supervisor_died");
}

#[test]
fn after_kill_9_of_an_audits_runner_the_audit_is_made_again() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [[{"touch": "begun"}, {"wait": "never"}], verdict("DONE", "")],
    }));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    let auditor = runs.told("auditor", 1)["pid"].as_i64().unwrap();
    runner.signal("KILL");
    runner.finish();
    let ended = runs.ran(&["--resume", "latest"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!lives(auditor));
    assert_eq!(runs.starts("worker"), 1);
}

/// The run's files as they were right after the n-th change of state, for a runner that
/// was killed then. With `behind`, the file still lacks the last one.
fn cut_at(directory: &Path, changes: usize, behind: bool) {
    let log_path = directory.join("oneshot-log.json");
    let file_path = directory.join("oneshot.json");
    let log = fs::read_to_string(&log_path).unwrap();
    let mut kept = String::new();
    let mut seen: Vec<Value> = Vec::new();
    for text in log.lines() {
        let line: Value = serde_json::from_str(text).unwrap();
        kept.push_str(text);
        kept.push('\n');
        if line["type"] == "state_change" {
            seen.push(line);
        }
        if seen.len() == changes {
            break;
        }
    }
    fs::write(&log_path, kept).unwrap();
    let saved = changes - usize::from(behind);
    let last = &seen[saved - 1];
    let mut file: Value = serde_json::from_str(&fs::read_to_string(&file_path).unwrap()).unwrap();
    let history = file["history"].as_array_mut().unwrap();
    history.truncate(saved);
    file["state"] = last["data"]["to"].clone();
    file["log_seq"] = last["seq"].clone();
    file["iteration_count"] = json!(last["iteration"].as_u64().unwrap_or(0));
    fs::write(&file_path, file.to_string()).unwrap();
    let _ = fs::remove_file(directory.join("lock"));
}

#[test]
fn killed_at_any_change_of_state_a_run_ends_as_if_it_had_not_been() {
    let script = || {
        json!({
            // Each start does the next piece of the work, whoever it is.
            "worker": [[{"init": 1}, {"result": "the result"}]],
            "auditor": [[{"init": 1}, {"verdict_by": "audits"}]],
        })
    };
    // Red after the first iteration, green after the second.
    let check = "[ -e checked ] || { touch checked; exit 3 }";
    let start = ["--check", check, "make it"];
    let whole = Runs::new(script());
    assert_eq!(whole.ran(&start).code, 0);
    let changes = whole.history().len();
    assert!(changes >= 15, "{:?}", whole.history());
    for behind in [false, true] {
        for cut in 2..changes {
            let runs = Runs::new(script());
            assert_eq!(runs.ran(&start).code, 0);
            cut_at(&runs.directory(), cut, behind);
            for made in ["audits", "checked"] {
                let _ = fs::remove_file(runs.env.work().join(made));
            }
            let at = runs.state();
            let ended = runs.ran(&["--resume", "latest"]);
            assert_eq!(ended.code, 0, "cut at {cut} ({at:?}): {}", ended.stderr);
            assert_eq!(ended.text(), "the result\n", "cut at {cut} ({at:?})");
            assert_eq!(runs.history().last().unwrap(), "COMPLETED");
            assert_eq!(runs.logged_history(), runs.history(), "cut at {cut} ({at:?})");
        }
    }
}

#[test]
fn a_resume_goes_on_with_the_feedback_that_was_there() {
    let runs = Runs::new(json!({
        "worker": [says("first"), [{"touch": "begun"}, {"wait": "never"}], says("third")],
        "auditor": [verdict("RETRY", "mend the roof"), verdict("DONE", "")],
    }));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let ended = runs.ran(&["--resume", "latest"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(runs.prompt("worker", 3).contains("mend the roof"));
    assert_eq!(runs.file()["iteration_count"], 2);
}

/// How many changes of state stand in the log of the run that is being made.
fn changes_so_far(runs: &Runs) -> usize {
    let runs = fs::read_dir(runs.env.path("state/sessions"));
    let runs = runs.into_iter().flatten().flatten().map(|run| run.path());
    // A run that is being created has another name until it is whole.
    let runs = runs.filter(|run| run.extension().is_none());
    runs.filter_map(|run| fs::read_to_string(run.join("oneshot-log.json")).ok())
        .map(|log| log.matches("\"type\":\"state_change\"").count())
        .sum()
}

#[test]
fn killed_by_kill_9_as_soon_as_a_change_is_on_disk_a_run_ends_as_if_it_had_not_been() {
    let script = json!({
        "worker": [[{"init": 1}, {"result": "the result"}]],
        "auditor": [[{"init": 1}, {"verdict_by": "audits"}]],
    });
    for change in 1..=9 {
        let runs = Runs::new(script.clone());
        let runner = runs.start(&["--check", "true", "make it"]);
        let patience = Instant::now() + Duration::from_secs(60);
        // Some states last for less than a pause between two looks would.
        while changes_so_far(&runs) < change {
            assert!(Instant::now() < patience, "no change {change}");
            std::thread::yield_now();
        }
        runner.signal("KILL");
        runner.finish();
        let ended = runs.ran(&["--resume", "latest"]);
        // One that had come to its end by then is not run again.
        if ended.code != 0 {
            let is_over = ended.stderr.contains("the run is COMPLETED");
            assert!(is_over, "killed at {change}: {}", ended.stderr);
        } else {
            assert_eq!(ended.text(), "the result\n", "killed at {change}");
        }
        assert_eq!(runs.history().last().unwrap(), "COMPLETED");
        assert_eq!(runs.logged_history(), runs.history(), "killed at {change}");
    }
}

#[test]
fn a_resume_whose_auditor_is_not_there_is_refused_and_changes_nothing() {
    let runs = Runs::working(waiting_worker());
    runs.env.configure("executors: {checker: {argv: [/nonexistent/checker]}}");
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let before = runs.file();
    let id = runs.id();
    let ended = runs.ran(&["--resume", &id, "--auditor", "checker"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    for words in ["/nonexistent/checker was not found", "--auditor"] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    assert_eq!(runs.file()["history"], before["history"]);
    let ended = runs.ran(&["--resume", &id, "--auditor", "claude"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.starts("worker"), 2);
}

/// What the only run's files hold.
fn contents(runs: &Runs) -> [Vec<u8>; 2] {
    let directory = runs.directory();
    ["oneshot.json", "oneshot-log.json"].map(|name| fs::read(directory.join(name)).unwrap())
}

#[test]
fn a_resume_whose_working_directory_is_missing_is_refused_and_changes_nothing() {
    let runs = Runs::working(waiting_worker());
    let project = runs.env.path("project");
    fs::create_dir(&project).unwrap();
    let mut command = runs.command(&["make it"]);
    command.current_dir(&project);
    let runner = Program::start_with(command, Stdio::null());
    wait_until("begun", || project.join("begun").exists().then_some(()));
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let before = contents(&runs);
    let elsewhere = runs.env.path("elsewhere");
    fs::rename(&project, &elsewhere).unwrap();
    let ended = runs.ran(&["--resume", &runs.id(), "--max-iterations", "9"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let named = format!("{} cannot be entered", project.display());
    assert!(ended.stderr.contains(&named), "{}", ended.stderr);
    assert!(contents(&runs) == before, "{}", runs.file());
    fs::rename(&elsewhere, &project).unwrap();
    let ended = runs.ran(&["--resume", &runs.id()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.starts("worker"), 2);
}

/// Puts something that is no regular file in the place of one.
fn replace_by(kind: &str, path: &Path) {
    fs::remove_file(path).unwrap();
    match kind {
        "pipe" => {
            let made = Command::new("mkfifo").arg(path).status();
            assert!(made.expect("the mkfifo program").success());
        }
        "socket" => drop(UnixListener::bind(path).unwrap()),
        _ => fs::create_dir(path).unwrap(),
    }
}

#[test]
fn what_is_no_regular_file_in_the_place_of_a_runs_file_is_refused_by_name() {
    let refusing = [
        ("oneshot.json", &["show", "follow", "list", "stop", "--resume"][..]),
        ("oneshot-log.json", &["show", "follow", "stop", "--resume"]),
        ("lock", &["stop", "--resume"]),
    ];
    let runs = Runs::working(waiting_worker());
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let id = runs.id();
    for (name, commands) in refusing {
        let path = runs.directory().join(name);
        let kept = runs.env.path("kept");
        fs::copy(&path, &kept).unwrap();
        for kind in ["pipe", "directory", "socket"] {
            replace_by(kind, &path);
            for command in commands {
                let ended = match *command {
                    "list" => runs.ran(&["list"]),
                    command => runs.ran(&[command, &id]),
                };
                let is_code = match *command {
                    "list" => ended.code == 0,
                    "show" => ended.code == i32::from(name == "oneshot.json"),
                    _ => ended.code == 1,
                };
                let told = format!("{}: it is not a regular file", path.display());
                assert!(
                    is_code && ended.stderr.contains(&told),
                    "{command} with a {kind} as {name}: {ended:?}"
                );
            }
            match kind {
                "directory" => fs::remove_dir(&path).unwrap(),
                _ => fs::remove_file(&path).unwrap(),
            }
            fs::copy(&kept, &path).unwrap();
        }
    }
    assert_eq!(runs.state().0, "INTERRUPTED");
    assert_eq!(runs.ran(&["--resume", &id]).code, 0);
}

/// Puts so many MiB of what the worker said before the last change of state that the log
/// tells of.
fn lengthen(directory: &Path, mebibytes: usize) {
    let (log_path, file_path) =
        (directory.join("oneshot-log.json"), directory.join("oneshot.json"));
    let log = fs::read_to_string(&log_path).unwrap();
    let (before, last) = log.trim_end().rsplit_once('\n').unwrap();
    let mut last: Value = serde_json::from_str(last).unwrap();
    let mut seq = last["seq"].as_u64().unwrap();
    let said = json!({"type": "assistant", "message": {
        "role": "assistant", "content": [{"type": "text", "text": "x".repeat(900)}],
    }});
    let end = format!(
        "\"type\":\"activity\",\"executor\":\"claude\",\"role\":\"worker\",\"iteration\":1,\"data\":{said}}}\n"
    );
    let mut log = BufWriter::new(fs::File::create(&log_path).unwrap());
    writeln!(log, "{before}").unwrap();
    for _ in 0..(mebibytes << 20) / (end.len() + 30) + 1 {
        write!(log, "{{\"ts\":{},\"seq\":{seq},{end}", last["ts"]).unwrap();
        seq += 1;
    }
    last["seq"] = json!(seq);
    writeln!(log, "{last}").unwrap();
    log.flush().unwrap();
    let mut file: Value = serde_json::from_str(&fs::read_to_string(&file_path).unwrap()).unwrap();
    file["log_seq"] = json!(seq);
    fs::write(&file_path, file.to_string()).unwrap();
}

#[test]
fn a_signal_pauses_a_long_recovery_and_a_resume_begins_it_again() {
    let runs = Runs::working(waiting_worker());
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    lengthen(&runs.directory(), 128);
    for _ in 0..2 {
        let runner = runs.start(&["--resume", "latest"]);
        runs.wait_for_state("RECOVERY_PENDING");
        runner.signal("INT");
        assert_eq!(runner.finish().code, 130);
        assert_eq!(runs.state(), ("INTERRUPTED".to_owned(), Some("signal:2".to_owned())));
        let newest = log_reader::newest(&runs.directory(), LineKind::Recovered, 1 << 20).unwrap();
        assert_eq!(newest, None, "it was not done, and is not waited for");
    }
}

#[test]
fn a_log_that_reaches_its_quota_is_shortened_and_says_so() {
    let runs = Runs::working(waiting_worker());
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let log = runs.directory().join("oneshot-log.json");
    lengthen(&runs.directory(), 257);
    let before = fs::metadata(&log).unwrap().len();
    let runner = runs.start(&["--resume", "latest"]);
    runs.wait_for_state("RECOVERY_PENDING");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let after = fs::metadata(&log).unwrap().len();
    assert!(after < 100 << 20, "{after}");
    assert_eq!(runs.logged_history(), runs.history());
    let lines = runs.log();
    assert_eq!(lines[1]["data"]["text"], "make it");
    let mark = lines.iter().find(|line| line["type"] == "omitted").unwrap();
    let omitted = mark["data"]["bytes"].as_u64().unwrap();
    assert!(before - omitted < after, "{before} {mark} {after}");
    let newest = lines.iter().rfind(|line| line["type"] == "activity");
    let last = lines.last().unwrap()["seq"].as_u64().unwrap();
    assert!(newest.unwrap()["seq"].as_u64().unwrap() + 10 > last);
}

#[test]
fn a_log_that_was_emptied_or_changed_is_named_and_nothing_is_audited() {
    let runs = Runs::new(json!({
        "worker": [says("the answer")],
        "auditor": [[{"touch": "begun"}, {"wait": "never"}], verdict("DONE", "")],
    }));
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    let log = runs.directory().join("oneshot-log.json");
    let whole = fs::read_to_string(&log).unwrap();
    let half: String = whole.lines().take(4).map(|line| format!("{line}\n")).collect();
    let relied_on = &runs.file()["history"][2];
    assert_eq!(relied_on["state"], "AUDIT_PENDING");
    for (text, told) in [
        (String::new(), "was cut: it ends with line 0"),
        (half, "was cut: it ends with line 4"),
        (whole.replace("the answer", "an opinion"), "was changed"),
        (whole.replace("\"result\"", "\"heartbeat\""), "was changed"),
    ] {
        fs::write(&log, &text).unwrap();
        let before = runs.file();
        for command in ["--resume", "show"] {
            let ended = runs.ran(&[command, &runs.id()]);
            assert_eq!(ended.code, i32::from(command == "--resume"));
            assert!(ended.stderr.contains(told), "{told}: {}", ended.stderr);
        }
        assert_eq!(runs.file(), before);
        assert_eq!(fs::read_to_string(&log).unwrap(), text);
        assert_eq!(runs.starts("auditor"), 1);
    }
    fs::write(&log, &whole).unwrap();
    let ended = runs.ran(&["--resume", "latest"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "the answer\n");
}

#[test]
fn a_run_whose_log_was_emptied_can_be_stopped() {
    let runs = Runs::working(waiting_worker());
    let runner = runs.start(&["make it"]);
    wait_for_flag(&runs, "begun");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    fs::write(runs.directory().join("oneshot-log.json"), "").unwrap();
    let seq = runs.file()["log_seq"].as_u64().unwrap();
    let ended = runs.ran(&["stop", "latest"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.state().1, Some("user_cancelled".to_owned()));
    assert_eq!(runs.file()["log_seq"], seq + 1);
}
