//! Agent runs from the prompt to the verdict: prompts, results, verdicts, limits, files.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use zsh_tool::testing::base::clock::Now;
use zsh_tool::testing::oneshot::state::RunEvent;
use zsh_tool::testing::process::probe::Identity;
use zsh_tool::testing::process::signals::Exit;

use crate::support::env::binary;
use crate::support::oneshot::{FAKE, Runs, lives, says, states, verdict};
use crate::support::processes::wait_until;
use crate::support::program::{Program, run, run_with_input};
use crate::support::runs::{create, now};
use crate::support::unprivileged;

#[test]
fn a_run_goes_from_the_prompt_to_the_verdict() {
    let runs = Runs::new(json!({
        "worker": [says("first work"), says("second work")],
        "auditor": [verdict("RETRY", "add tests"), verdict("DONE", "good")],
    }));
    let ended = runs.ran(&["make", "it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "second work\n");
    let wanted = [
        "CREATED",
        "WORKER_EXECUTING",
        "AUDIT_PENDING",
        "AUDITOR_EXECUTING",
        "REITERATION_PENDING",
        "WORKER_EXECUTING",
        "AUDIT_PENDING",
        "AUDITOR_EXECUTING",
        "COMPLETED",
    ];
    assert_eq!(runs.history(), wanted);
    let file = runs.file();
    assert_eq!(file["state"], "COMPLETED");
    assert_eq!(file["iteration_count"], 2);
    assert_eq!(file["max_iterations"], 5);
    let entries = file["history"].as_array().unwrap();
    for entry in entries {
        let executing = entry["state"].as_str().unwrap().ends_with("_EXECUTING");
        assert_eq!(entry["pid"].is_i64(), executing, "{entry}");
        assert!(entry["ts"].is_f64(), "{entry}");
    }
}

#[test]
fn replaying_the_log_gives_the_history() {
    let runs = Runs::working(json!([says("work")]));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    let changes = runs.lines("state_change");
    assert!(changes[0]["data"]["from"].is_null());
    let to: Vec<&Value> = changes.iter().map(|line| &line["data"]["to"]).collect();
    assert_eq!(json!(to), json!(runs.history()));
    for pair in changes.windows(2) {
        assert_eq!(pair[0]["data"]["to"], pair[1]["data"]["from"]);
    }
    let sequence: Vec<u64> = runs.log().iter().filter_map(|line| line["seq"].as_u64()).collect();
    let counted: Vec<u64> = (1..=sequence.len() as u64).collect();
    assert_eq!(sequence, counted);
}

#[test]
fn the_audit_is_pending_on_disk_before_the_auditor_starts() {
    let runs = Runs::working(json!([says("work")]));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    let seen = states(&runs.told("auditor", 1)["run"]["history"]);
    assert!(seen.contains(&"AUDIT_PENDING".to_owned()), "{seen:?}");
}

#[test]
fn agents_are_told_who_they_are_and_get_their_prompt_on_stdin() {
    let runs = Runs::working(json!([says("work")]));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    for role in ["worker", "auditor"] {
        let told = runs.told(role, 1);
        assert_eq!(told["env"]["ONESHOT_ID"], runs.id().as_str());
        assert_eq!(told["env"]["ONESHOT_ROLE"], role);
        assert_eq!(told["env"]["ONESHOT_ITERATION"], "1");
        assert_eq!(told["cwd"], runs.env.work().canonicalize().unwrap().to_str().unwrap());
        let argv = told["argv"].to_string();
        assert!(!argv.contains("make it"), "{argv}");
    }
    assert_eq!(runs.prompt("worker", 1), "make it");
}

#[test]
fn feedback_stands_word_for_word_in_the_next_workers_prompt() {
    let feedback = "1. \"quote\" the $HOME\n\n   2. émigré — 漢字 `backticks` \\n";
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [verdict("RETRY", feedback), verdict("DONE", "")],
    }));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    let prompt = runs.prompt("worker", 2);
    assert!(prompt.starts_with("make it"), "{prompt}");
    assert!(prompt.contains(feedback), "{prompt}");
}

#[test]
fn feedback_that_asks_for_another_iteration_is_shown_by_its_first_lines() {
    let long = "x".repeat(500);
    let feedback = format!("the \u{1b}[31mtests fail\n\n{long}\nthree\nfour\nfive");
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [verdict("RETRY", &feedback), verdict("DONE", "well made")],
    }));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0);
    let (_, after) = ended.stderr.split_once("REITERATION_PENDING\n").unwrap();
    let lines: Vec<&str> = after.lines().map(str::trim).take(4).collect();
    let [first, second, third, more] = lines[..] else {
        panic!("{after}");
    };
    assert_eq!(first, "feedback: the tests fail");
    assert!(second.contains("300 characters omitted"));
    assert!(second.chars().count() < 250, "{second}");
    assert_eq!((third, more), ("feedback: three", "… 2 more lines"));
    assert!(!ended.stderr.contains("well made"), "{}", ended.stderr);
}

#[test]
fn an_auditor_sees_the_task_and_the_result_of_its_own_iteration_only() {
    let runs = Runs::new(json!({
        "worker": [says("FIRST-RESULT"), says("SECOND-RESULT")],
        "auditor": [verdict("RETRY", "again"), verdict("DONE", "")],
    }));
    assert_eq!(runs.ran(&["the original task"]).code, 0);
    let first = runs.prompt("auditor", 1);
    assert!(first.contains("the original task") && first.contains("FIRST-RESULT"), "{first}");
    let second = runs.prompt("auditor", 2);
    assert!(second.contains("the original task") && second.contains("SECOND-RESULT"));
    assert!(!second.contains("FIRST-RESULT"), "{second}");
    assert!(!second.contains("again"), "{second}");
}

#[test]
fn a_failed_run_says_what_the_agent_complained_of_and_what_can_be_done() {
    let runs = Runs::working(json!([[{"complain": "no such \u{1b}[31mmodel"}, {"exit": 3}]]));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("stderr: no such model\n"), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.ends_with(&format!("oneshot follow {}", runs.id())), "{last}");
}

#[test]
fn a_run_that_used_up_its_iterations_says_how_it_gets_more() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [verdict("RETRY", "more")],
    }));
    let ended = runs.ran(&["--max-iterations", "1", "make it"]);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    let way_out = format!("--resume {} --max-iterations N", runs.id());
    assert!(ended.stderr.contains(&way_out), "{}", ended.stderr);
    let shown = runs.ran(&["show", "latest"]);
    assert!(shown.text().contains(&way_out), "{}", shown.text());
}

#[test]
fn three_retries_with_a_maximum_of_three_are_three_workers_and_three_audits() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [verdict("RETRY", "more")],
    }));
    let ended = runs.ran(&["--max-iterations", "3", "make it"]);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("max_iterations".to_owned())));
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (3, 3));
    assert_eq!(runs.file()["max_iterations"], 3);
}

#[test]
fn a_larger_maximum_resumes_what_has_used_up_its_iterations() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [verdict("RETRY", "more"), verdict("DONE", "")],
    }));
    assert_eq!(runs.ran(&["--max-iterations", "1", "make it"]).code, 4);
    assert_eq!(runs.ran(&["--resume", "latest"]).code, 1);
    let ended = runs.ran(&["--resume", "latest", "--max-iterations", "2"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(runs.prompt("worker", 2).contains("more"));
}

#[test]
fn impossible_is_rejected_and_cannot_be_resumed() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [verdict("IMPOSSIBLE", "needs a credit card\nand a name")],
    }));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let state = ("REJECTED".to_owned(), Some("needs a credit card".to_owned()));
    assert_eq!(runs.state(), state);
    let before = runs.file();
    let resumed = runs.ran(&["--resume", &runs.id()]);
    assert_eq!(resumed.code, 1);
    assert!(resumed.stderr.contains("needs a credit card"), "{}", resumed.stderr);
    assert_eq!(runs.file(), before);
    assert_eq!(runs.starts("worker"), 1);
}

#[test]
fn an_auditor_without_a_verdict_is_reminded_once() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [says("the task is unsuccessful, not DONE yet"), verdict("DONE", "")],
    }));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (1, 2));
    let (first, second) = (runs.prompt("auditor", 1), runs.prompt("auditor", 2));
    assert!(second.starts_with(&first) && second.len() > first.len(), "{second}");
}

#[test]
fn no_verdict_twice_fails() {
    let runs = Runs::new(json!({
        "worker": [says("work")],
        "auditor": [says("garbage")],
    }));
    assert_eq!(runs.ran(&["make it"]).code, 1);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("no_verdict".to_owned())));
    assert_eq!(runs.starts("auditor"), 2);
}

#[test]
fn a_worker_that_crashes_without_a_trace_fails_the_run() {
    for (end, reason) in [(json!({"exit": 3}), "exit_code:3"), (json!({"kill": 9}), "signal:9")] {
        let runs = Runs::working(json!([[end]]));
        assert_eq!(runs.ran(&["make it"]).code, 1);
        assert_eq!(runs.state(), ("FAILED".to_owned(), Some(reason.to_owned())));
        assert!(runs.history().contains(&"RECOVERY_PENDING".to_owned()));
    }
}

#[test]
fn a_worker_that_crashes_after_its_result_is_salvaged() {
    let runs = Runs::working(json!([[{"init": 1}, {"result": "it was done"}, {"exit": 7}]]));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "it was done\n");
    assert!(runs.prompt("auditor", 1).contains("it was done"));
    let recovered = runs.lines("recovered");
    assert_eq!(recovered[0]["data"]["text"], "it was done");
}

#[test]
fn a_worker_that_crashes_after_it_began_to_act_is_followed_by_another() {
    let runs = Runs::working(json!([
        [{"init": 1}, {"tool": "touch half-done"}, {"exit": 1}],
        says("done"),
    ]));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let prompt = runs.prompt("worker", 2);
    assert!(prompt.starts_with("make it") && prompt.contains("half-done"), "{prompt}");
    assert_eq!(runs.file()["iteration_count"], 2);
}

#[test]
fn an_auditor_that_crashes_fails_the_run() {
    let runs = Runs::new(json!({"worker": [says("work")], "auditor": [[{"exit": 5}]]}));
    assert_eq!(runs.ran(&["make it"]).code, 1);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("exit_code:5".to_owned())));
}

#[test]
fn an_auditors_own_error_fails_the_run_by_its_name() {
    for (words, reason) in [
        ("API Error: connect ECONNREFUSED 127.0.0.1:9", "connection_refused"),
        ("API Error: 500 internal server error", "api_error"),
    ] {
        let auditor = json!([[{"init": 1}, {"fault": words}]]);
        let runs = Runs::new(json!({"worker": [says("work")], "auditor": auditor}));
        assert_eq!(runs.ran(&["--wait-limit", "0", "make it"]).code, 1);
        assert_eq!(runs.state(), ("FAILED".to_owned(), Some(reason.to_owned())));
        assert_eq!(runs.starts("auditor"), 1);
    }
}

/// What is said of a run whose auditor's program cannot run. Nothing has been started then.
fn refusal_of_auditor(runs: &Runs, program: &str) -> String {
    runs.env.configure(&format!("executors: {{checker: {{argv: [{program}]}}}}"));
    let ended = runs.ran(&["--auditor", "checker", "make it"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let state = ("FAILED".to_owned(), Some("spawn_failed".to_owned()));
    assert_eq!(runs.state(), state);
    assert_eq!(runs.starts("worker"), 0);
    ended.stderr
}

#[test]
fn an_auditor_that_is_not_there_fails_the_run_before_its_worker_starts() {
    let runs = Runs::working(json!([says("work")]));
    let said = refusal_of_auditor(&runs, "/nonexistent/checker");
    for words in [
        "the auditor's program /nonexistent/checker was not found",
        "executors.checker.argv",
        "--auditor",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_program_that_may_not_be_run_is_told_with_its_path() {
    let runs = Runs::working(json!([says("work")]));
    let path = runs.env.path("bin/checker");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    let said = refusal_of_auditor(&runs, "checker");
    let told = format!("checker is not executable: {}", path.display());
    assert!(said.contains(&told), "{said}");
}

#[test]
fn a_refused_connection_is_named() {
    let words = "API Error: connect ECONNREFUSED 127.0.0.1:9";
    for worker in [
        json!([[{"init": 1}, {"fault": words}, {"exit": 1}]]),
        json!([[{"complain": words}, {"exit": 1}]]),
        json!([[{"init": 1}, {"fault": words}]]),
    ] {
        let runs = Runs::working(worker.clone());
        assert_eq!(runs.ran(&["--wait-limit", "0", "make it"]).code, 1);
        let state = ("FAILED".to_owned(), Some("connection_refused".to_owned()));
        assert_eq!(runs.state(), state, "{worker}");
    }
}

#[test]
fn a_missing_program_fails_with_the_way_to_install_it() {
    let runs = Runs::working(json!([says("work")]));
    std::fs::remove_file(runs.env.path("bin/claude")).unwrap();
    let mut command = runs.command(&["make it"]);
    command.env("PATH", runs.env.path("bin"));
    // The shell itself is found by its own setting.
    runs.env.configure("shell: /bin/sh");
    let ended = crate::support::program::run(command);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("claude"), "{}", ended.stderr);
    assert!(ended.stderr.contains("npm install"), "{}", ended.stderr);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("spawn_failed".to_owned())));
}

#[test]
fn wrong_usage_exits_with_2_and_starts_nothing() {
    let runs = Runs::working(json!([says("work")]));
    for arguments in [
        &["--executor", "no-such", "x"][..],
        &["--max-iterations", "0", "x"],
        &["--judge", "nobody", "x"],
        &["--judge", "command:nobody", "x"],
        &["--resume", "ffffffff"],
        &["  "],
        &[],
    ] {
        let ended = runs.ran(arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(runs.starts("worker"), 0);
    assert!(!runs.env.path("state/sessions").exists());
}

#[test]
fn a_prompt_that_says_nothing_is_refused() {
    let runs = Runs::working(json!([says("work")]));
    for prompt in ["", "\0\0", " \0 \n\t\u{a0}\u{1b}\0"] {
        let ended = run_with_input(runs.command(&["-"]), prompt.into());
        assert_eq!(ended.code, 2, "{prompt:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("the prompt is empty"), "{}", ended.stderr);
    }
    assert!(!runs.env.path("state/sessions").exists());
}

#[test]
fn a_mistyped_subcommand_starts_no_agent() {
    let runs = Runs::working(json!([says("work")]));
    for (arguments, meant) in
        [(&["lsit"][..], "list"), (&["--json", "lsit"], "list"), (&["shwo", "latest"], "show")]
    {
        let ended = runs.ran(arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.stderr);
        let words = format!("did you mean `{meant}`?");
        assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    }
    assert_eq!(runs.starts("worker"), 0);
    let refused = runs.ran(&["lsit"]);
    let (_, way) = refused.stderr.trim_end().split_once("As a prompt: ").unwrap();
    let mut again = runs.surround(runs.env.command("sh"));
    let ended = crate::support::program::run({
        again.args(["-c", way]);
        again
    });
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.prompt("worker", 1), "lsit");
}

#[test]
fn json_is_one_object_with_the_end_of_the_run() {
    let runs = Runs::working(json!([says("the result")]));
    let ended = runs.ran(&["--json", "make it"]);
    let value: Value = serde_json::from_str(&ended.text()).expect("one object");
    assert_eq!(value["state"], "COMPLETED");
    assert_eq!(value["exit_code"], 0);
    assert_eq!(value["result"], "the result");
    assert_eq!(value["oneshot_id"], runs.id().as_str());
    assert_eq!(value["iteration_count"], 1);
}

#[test]
fn in_json_an_empty_result_is_not_the_same_as_none() {
    for (worker, result) in
        [(says(""), json!("")), (json!([{"init": 1}, {"exit": 7}]), Value::Null)]
    {
        let runs = Runs::working(json!([worker]));
        let ended = runs.ran(&["--json", "make it"]);
        let value: Value = serde_json::from_str(&ended.text()).expect("one object");
        assert_eq!(value["result"], result, "{value}");
    }
}

#[test]
fn a_prompt_of_a_mebibyte_reaches_the_worker_whole() {
    let runs = Runs::working(json!([says("work")]));
    let prompt = "0123456789abcde\n".repeat(65_536);
    let ended = run_with_input(runs.command(&["-"]), prompt.clone().into_bytes());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(runs.prompt("worker", 1) == prompt, "the prompt came through");
}

#[test]
fn indented_json_and_a_line_of_five_mebibytes_lose_nothing_that_follows() {
    let runs = Runs::working(json!([[
        {"init": 1},
        {"pretty": {"type": "assistant", "message": {"content": [{"type": "text", "text": "indented"}]}}},
        {"long_line": 5 << 20},
        {"write": "not JSON, and no newline at its end"},
        {"say": ""},
        {"result": "after all that"},
    ]]));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "after all that\n");
}

#[test]
fn no_secret_reaches_the_state_or_the_log() {
    let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let words = format!("export GITHUB_TOKEN={token}");
    let runs = Runs::new(json!({
        "worker": [[{"tool": words}, {"tool_result": words}, {"complain": words}, {"result": words}]],
        "auditor": [verdict("RETRY", &words), verdict("DONE", &words)],
    }));
    let ended = runs.ran(&[&format!("push with {token}")]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(runs.prompt("worker", 1).contains(token), "the worker needs it");
    for name in ["oneshot.json", "oneshot-log.json"] {
        let text = std::fs::read_to_string(runs.directory().join(name)).unwrap();
        assert!(!text.contains(token), "{name}");
    }
    assert!(!ended.stderr.contains(token) && !ended.text().contains(token));
}

#[test]
fn a_program_of_the_configuration_answers_with_all_of_its_stdout() {
    let runs = Runs::working(json!([says("unused")]));
    let script = r#"case $ONESHOT_ROLE in
  worker) tr a-z A-Z; echo noise >&2 ;;
  auditor) cat > "$HOME/audited"; echo "looks good"; echo "VERDICT: DONE" ;;
esac"#;
    let path = runs.env.path("bin/mine");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    runs.env.configure(&format!("executors: {{mine: {{argv: [{}]}}}}", path.display()));
    let ended = runs.ran(&["--executor", "mine", "shout it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "SHOUT IT\n");
    let audited = std::fs::read_to_string(runs.env.path("home/audited")).unwrap();
    assert!(audited.contains("SHOUT IT") && !audited.contains("noise"), "{audited}");
}

#[test]
fn a_run_serves_the_dashboard_where_that_is_asked_for() {
    let runs = Runs::working(json!([[{"init": 1}, {"wait": "go"}, {"result": "work"}]]));
    let mut program = runs.start(&["--http", "127.0.0.1:0", "make it"]);
    runs.wait_for_start("worker", 1);
    let servers = runs.env.path("state/servers");
    let link = wait_until("the link", || {
        let mut folders = std::fs::read_dir(&servers).ok()?.flatten();
        folders.find_map(|folder| std::fs::read_to_string(folder.path().join("monitor.url")).ok())
    });
    let address = link.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let mut socket = std::net::TcpStream::connect(address).expect("a listener");
    let asked = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(asked.as_bytes()).expect("a request");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    runs.raise("go");
    program.close_stdout();
    let ended = program.finish();
    assert!(ended.stderr.contains("dashboard at http://127.0.0.1:"), "{}", ended.stderr);
}

#[test]
fn runs_are_remembered_by_executor_and_role() {
    let runs = Runs::working(json!([says("work")]));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    let mut command = runs.env.command(crate::support::env::binary());
    command.args(["alan", "export"]);
    let exported = crate::support::program::run(command).text();
    for template in ["agent:claude:worker", "agent:claude:auditor"] {
        assert!(exported.contains(template), "{exported}");
    }
    assert!(!exported.contains("make it"), "{exported}");
}

/// The first run on a file system of six megabytes, the second when it has grown.
/// A run that came so many days ago to where these events lead.
fn old_run(runs: &Runs, days: u64, events: &[RunEvent]) -> PathBuf {
    let mut run = create(&runs.env, "make it");
    let wall = SystemTime::now() - Duration::from_secs(days * 86_400);
    let at = Now { wall, ..now() };
    let agent = Identity { pid: i32::MAX, started: 1 };
    for event in events {
        let (next, _) = run.look_ahead(event).expect("the state takes it");
        let agent = next.state().is_executing().then_some(agent);
        run.apply(event, agent, at).expect("the disk takes it");
    }
    run.directory().to_path_buf()
}

#[test]
fn runs_that_are_over_go_after_their_days_and_those_that_can_be_resumed_never() {
    let runs = Runs::working(json!([says("work")]));
    let impossible = RunEvent::Impossible { feedback: "no card".to_owned() };
    let audited = |end| [RunEvent::Start, RunEvent::Exit0, RunEvent::Next, end];
    let retried = [RunEvent::Next, RunEvent::Exit0, RunEvent::Next, RunEvent::Retry];
    let used_up = audited(RunEvent::Retry)
        .into_iter()
        .chain((2..=5).flat_map(|_| retried.clone()))
        .chain([RunEvent::MaxIterations])
        .collect::<Vec<_>>();
    let crashed = [RunEvent::Start, RunEvent::Crash(Exit::Code(7)), RunEvent::RecoveryNothing];
    let over = [
        old_run(&runs, 31, &audited(RunEvent::Done)),
        old_run(&runs, 31, &audited(impossible)),
        old_run(&runs, 31, &crashed),
    ];
    let kept = [
        old_run(&runs, 29, &audited(RunEvent::Done)),
        old_run(&runs, 400, &used_up),
        old_run(&runs, 400, &[RunEvent::Start, RunEvent::Interrupt(2)]),
        old_run(&runs, 400, &[RunEvent::Start]),
        old_run(&runs, 400, &audited(RunEvent::Done)),
    ];
    std::fs::write(kept[4].join("oneshot.json"), "{").expect("an unusable file");
    let mut never = runs.command(&["make it"]);
    never.env("ONESHOT_KEEP_DAYS", "0");
    assert_eq!(run(never).code, 0);
    assert!(over.iter().chain(&kept).all(|run| run.exists()));
    // What a repository brings along does not decide about other runs.
    std::fs::write(runs.env.work().join(".oneshot.json"), "{\"keep_days\": 1}").expect("a file");
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("keep_days"), "{}", ended.stderr);
    assert!(!over.iter().any(|run| run.exists()), "{over:?}");
    assert!(kept.iter().all(|run| run.exists()), "{kept:?}");
    let sessions = std::fs::read_dir(runs.env.path("state/sessions")).expect("the runs");
    assert_eq!(sessions.count(), kept.len() + 2);
}

#[test]
fn a_disk_that_fills_up_in_the_middle_ends_the_runner_and_not_the_run() {
    const STEPS: &str = "mount -t tmpfs -o size=6m,mode=700 none \"$ZSH_TOOL_STATE_DIR\" && \
        { \"$0\" oneshot 'make it'; echo \"exit $?\"; \
          cat \"$ZSH_TOOL_STATE_DIR\"/sessions/*/oneshot-log.json > log; \
          mount -o remount,size=64m \"$ZSH_TOOL_STATE_DIR\"; \
          exec \"$0\" oneshot --resume latest; }";
    unprivileged::require_root();
    let runs = Runs::working(json!([
        [{"init": 1}, {"tool": "begin"}, {"flood": 32 << 20}, {"result": "too much"}],
        says("the work"),
    ]));
    std::fs::create_dir_all(runs.env.path("state")).unwrap();
    let mut command = runs.surround(runs.env.command("unshare"));
    command.args(["--mount", "sh", "-c", STEPS]).arg(crate::support::env::binary());
    let ended = crate::support::program::run(command);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.text(), "exit 1\nthe work\n", "{}", ended.stderr);
    let told = ended.stderr.find("oneshot-log.json: No space left");
    let resume = ended.stderr.find(" oneshot --resume ");
    assert!(told.is_some() && told < resume, "{}", ended.stderr);
    let log = std::fs::read_to_string(runs.env.work().join("log")).unwrap();
    assert!(log.ends_with('\n') && log.len() > 1 << 20);
    for line in log.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    assert!(!lives(runs.told("worker", 1)["pid"].as_i64().unwrap()));
}

/// Runs with an agent program that takes its prompt as an argument.
fn by_argument(script: Value) -> Runs {
    let runs = Runs::new(script);
    runs.env.configure(&format!("executors: {{mine: {{argv: [{FAKE}], prompt_by: argument}}}}"));
    runs
}

#[test]
fn a_prompt_that_is_too_long_for_an_argument_is_in_a_file_and_whole() {
    let script = json!({
        "worker": [[{"touch": "begun"}, {"wait": "go"}, {"say": "done"}]],
        "auditor": [[{"say": "{\"verdict\": \"DONE\", \"feedback\": \"\"}"}]],
    });
    let runs = by_argument(script);
    let task = format!("begin {} end", "é ".repeat(150_000));
    std::fs::write(runs.env.work().join("task"), &task).unwrap();
    let line = "exec \"$TEST_BINARY\" oneshot --executor mine - < task";
    let mut shell = runs.surround(runs.env.command("sh"));
    shell.args(["-c", line]).env("TEST_BINARY", binary());
    let runner = Program::start(shell);
    runs.wait_for_start("worker", 1);
    let argv = runs.told("worker", 1)["argv"].clone();
    let prompt = argv.as_array().unwrap().last().unwrap().as_str().unwrap();
    let (_, named) = prompt.split_once("the file ").unwrap();
    let (named, _) = named.split_once(". Read").unwrap();
    let file = std::path::Path::new(named);
    assert!(file.starts_with(runs.env.work()), "{named}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), task);
    assert_eq!(std::fs::read_to_string(file.with_file_name(".gitignore")).unwrap(), "*\n");
    runs.raise("go");
    let ended = runner.finish();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!file.parent().unwrap().exists());
}
