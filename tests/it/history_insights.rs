//! What is remembered of commands and said of them, over the whole life of a server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::database::{open_database, wait_for_observations, wait_for_row};
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::program::{run_with_input, zsh_tool};
use crate::support::result::ToolResult;

fn run(client: &Client, command: &str) -> ToolResult {
    client.call("zsh", json!({"command": command, "yield_after": 40}))
}

/// The insights of a result, as (level, message).
fn insights(result: &ToolResult) -> Vec<(String, String)> {
    let insights = result.meta["insights"].as_array();
    let insights = insights.unwrap_or_else(|| panic!("no insights: {}", result.raw));
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    insights.iter().map(|insight| (word(&insight[0]), word(&insight[1]))).collect()
}

#[track_caller]
fn assert_says(result: &ToolResult, level: &str, message: &str) {
    let said = insights(result);
    let found = said.iter().any(|(of, text)| of == level && text.contains(message));
    assert!(found, "no {level} `{message}` in {said:?}");
    for part in message.lines() {
        assert!(result.text.contains(part), "{part}: {}", result.text);
    }
}

#[track_caller]
fn assert_silent_about(result: &ToolResult, message: &str) {
    assert!(!result.text.contains(message), "{}", result.text);
}

/// A program of the test's own in the working directory.
fn program(env: &Env, name: &str, text: &str) {
    let path = env.work().join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
}

#[test]
fn the_third_failure_in_a_row_shows_the_options() {
    let env = Env::new();
    env.configure("insights: all\n");
    let client = env.client();
    let first = run(&client, "ls --badopt");
    assert_says(&first, "info", "New pattern. No history yet.");
    assert_silent_about(&first, "Options for");
    let second = run(&client, "ls --badopt");
    assert_says(&second, "warning", "Retry #2. Previous 1 all failed. Different approach?");
    assert_says(&second, "warning", "Same failure 2 times: ");
    assert_silent_about(&second, "Options for");
    // The page is read in the background; the table comes with the failure after that.
    let third = wait_until("the options are shown", || {
        let result = run(&client, "ls --badopt");
        result.text.contains("Options for 'ls'").then_some(result)
    });
    assert_says(&third, "info", "Options for 'ls':");
    assert_eq!(third.text, third.text.trim_end());
    assert!(third.text.contains("--all"), "{}", third.text);
    // It is long, and whoever goes on with the same has read it.
    let again = run(&client, "ls --badopt");
    assert_silent_about(&again, "Options for");
    assert!(again.text.contains("Retry #"), "{}", again.text);
    let asked = client.call("zsh_alan_query", json!({"command": "ls --badopt"}));
    assert!(asked.text.contains("Options for"), "{}", asked.text);
    let shown = third.text.lines().filter(|line| line.contains("  ")).count();
    assert!(shown <= 60, "{}", third.text);
    // What is known of a program serves all sessions at their own third failure: those who
    // have opened the database, once it is there.
    let known = "SELECT count(*) > 0 FROM manopt_cache WHERE base_command = ?1";
    wait_for_row(&env, known, "ls");
    let other = env.client();
    wait_until("the other server knows of the failures", || {
        let asked = other.call("zsh_alan_query", json!({"command": "ls --badopt"}));
        let runs = asked.raw["structuredContent"]["runs"].as_u64();
        (runs > Some(0)).then_some(())
    });
    for _ in 0..2 {
        assert_silent_about(&run(&other, "ls --badopt -l"), "Options for");
    }
    let third = run(&other, "ls --badopt -l");
    let table: Vec<&str> = third.text.lines().collect();
    let title = table.iter().position(|line| line.contains("Options for 'ls'"));
    let title = title.unwrap_or_else(|| panic!("no options: {}", third.text));
    assert!(table[title + 1].trim_start().starts_with("-l"), "{}", third.text);
}

#[test]
fn kills_and_timeouts_look_no_options_up() {
    let env = Env::new();
    let client = env.client();
    for _ in 0..3 {
        let result = client.call("zsh", json!({"command": "sleep 60", "yield_after": 0}));
        client.call("zsh_kill", json!({"task_id": result.task_id()}));
    }
    for _ in 0..2 {
        let arguments = json!({"command": "sleep 61", "timeout": 0.2, "yield_after": 40});
        assert_eq!(client.call("zsh", arguments).status(), "timeout");
    }
    let fourth = run(&client, "sleep x");
    assert_eq!(fourth.status(), "failed");
    assert_silent_about(&fourth, "Options for");
}

#[test]
fn retries_streaks_and_likeness_are_told() {
    let env = Env::new();
    env.configure("insights: all\n");
    let client = env.client();
    run(&client, "echo one");
    assert_says(&run(&client, "echo one"), "info", "Retry #2. Previous 1 succeeded.");
    assert_says(&run(&client, "echo two"), "info", "Similar to 'echo *' - 2/2 succeeded recently.");
    run(&client, "echo one");
    let fourth = run(&client, "echo one");
    assert_says(&fourth, "info", "Streak: 3 successes in a row. Solid.");
    run(&client, "echo one");
    assert_says(&run(&client, "echo one"), "info", "Reliable pattern: 100% success (5 runs).");

    program(&env, "moody", "#!/bin/sh\n[ -e fine ] && exit 0\nexit 3\n");
    run(&client, "./moody");
    fs::write(env.work().join("fine"), "").expect("written");
    run(&client, "./moody");
    assert_says(&run(&client, "./moody"), "info", "Retry #3 in last 15m. 1/2 succeeded.");
    fs::remove_file(env.work().join("fine")).expect("removed");
    for _ in 0..3 {
        run(&client, "./moody");
    }
    assert_says(&run(&client, "./moody"), "warning", "Failing streak: 3. Same approach?");
}

#[test]
fn exits_are_explained() {
    let env = Env::new();
    env.configure("insights: all\n");
    let client = env.client();
    fs::write(env.work().join("plain"), "").expect("written");
    for (command, level, message) in [
        ("true", "info", "No output produced."),
        ("echo x | grep nope", "info", "grep exit 1 = no match (normal)"),
        ("diff /dev/null /etc/passwd > /dev/null", "info", "diff exit 1 = files differ (normal)"),
        ("test 1 = 2", "info", "test exit 1 = condition false (normal)"),
        ("cd / && echo x | grep nope", "info", "grep exit 1 = no match (normal)"),
        ("ls > /dev/null; grep nope /dev/null", "info", "grep exit 1 = no match (normal)"),
        ("./plain", "warning", "permission denied (exit 126)"),
        ("ehco hi", "warning", "command not found (exit 127): did you mean `echo`?"),
        ("false | cat", "warning", "pipe segment 1 exited 1 (masked by downstream)"),
        ("timeout 0.1 sleep 9", "warning", "(exit 124)"),
        ("kill -9 $$", "warning", "(exit 137)"),
    ] {
        assert_says(&run(&client, command), level, message);
    }
    // What failed here is not the program that would have answered, or it has not.
    for command in [
        "cd /nonexistent && grep nope /dev/null",
        "false && grep nope /dev/null",
        "grep nope /nonexistent-*",
        "! grep '' /etc/passwd > /dev/null",
    ] {
        let failed = run(&client, command);
        assert_eq!(failed.meta["exit_code"], json!(1), "{}", failed.raw);
        assert_silent_about(&failed, "(normal)");
    }
    let quiet = run(&client, "yes | head -1");
    assert_silent_about(&quiet, "masked");
    // An answer is no failure, wherever in a pipeline it is given.
    for command in ["grep nope /dev/null | wc -l", "diff /dev/null /etc/passwd | head -n 1"] {
        let answered = run(&client, command);
        assert_eq!(answered.meta["pipestatus"][0], json!(1), "{}", answered.raw);
        assert_silent_about(&answered, "masked");
    }
    let shown = run(&client, "set -o pipefail; false | cat");
    assert_eq!(shown.meta["exit_code"], json!(1), "{}", shown.raw);
    assert_silent_about(&shown, "masked");
    let missing = run(&client, "grep x /nonexistent | wc -l");
    assert_says(&missing, "warning", "pipe segment 1 exited 2");
    let benign = run(&client, "echo x | grep nope");
    assert_eq!(benign.meta["exit_code"], json!(1));
    assert_says(&benign, "info", "Retry #2. Previous 1 succeeded.");
}

#[test]
fn a_program_that_ran_within_a_list_is_known_by_name() {
    let env = Env::new();
    let client = env.client();
    program(&env, "frobnicate", "#!/bin/sh\n");
    let command = "cd . && PATH=$PWD:$PATH frobnicate";
    assert_eq!(run(&client, command).status(), "completed");
    let mistyped = run(&client, "frobnciate --all");
    assert_says(&mistyped, "warning", "did you mean `frobnicate`?");
}

#[test]
fn a_failure_that_comes_again_says_what_changed_since_the_last_success() {
    let env = Env::new();
    let client = env.client();
    for directory in ["good", "bad"] {
        fs::create_dir(env.work().join(directory)).expect("made");
    }
    fs::write(env.work().join("good/data"), "").expect("written");
    let run_in = |directory: &str| {
        let cwd = env.work().join(directory);
        client.call("zsh", json!({"command": "cat data", "cwd": cwd, "yield_after": 40}))
    };
    assert_eq!(run_in("good").status(), "completed");
    run_in("bad");
    let again = run_in("bad");
    assert_says(&again, "warning", "Same failure 2 times: \"cat: data: No such file or directory");
    assert!(again.text.contains("/good"), "{}", again.text);
    assert!(again.text.contains("/bad"), "{}", again.text);
}

#[test]
fn an_estimate_comes_with_every_poll_and_classes_of_kills_with_it() {
    let env = Env::new();
    let client = env.client();
    program(&env, "job", "#!/bin/sh\nsleep \"$1\"\n");
    let start = |seconds: &str| {
        let command = format!("./job {seconds}");
        let result = client.call("zsh", json!({"command": command, "yield_after": 0.1}));
        assert_eq!(result.status(), "running", "{}", result.text);
        result
    };
    let kill = |result: &ToolResult| client.call("zsh_kill", json!({"task_id": result.task_id()}));
    let unknown = kill(&start("6000"));
    assert_eq!(unknown.meta["insight"]["category"], json!("UNKNOWN"), "{}", unknown.text);
    // Runs so long that whatever the test does is soon.
    import_runs(&env, "job *", 4, Duration::from_secs(1000));
    let running = start("6000");
    let estimate = &running.meta["poll_meta"]["alan_estimate"];
    assert_eq!(estimate["command_template"], json!("job *"), "{}", running.raw);
    assert_eq!(estimate["sample_size"], json!(4));
    let median = estimate["median_duration_s"].as_f64().expect("a number");
    assert_eq!(median, 1000.0, "{estimate}");
    assert!(running.text.contains("◷ typical "), "{}", running.text);
    assert!(running.meta["poll_meta"]["remaining_s"].is_number());
    let early = kill(&running);
    assert_eq!(early.meta["insight"]["category"], json!("EARLY_KILL"), "{}", early.text);
    assert!(early.text.contains("This command likely needs more time."), "{}", early.text);

    // The third kill of the kind in this session outranks the time.
    let third = kill(&start("6000"));
    assert_eq!(third.meta["insight"]["category"], json!("PATTERN_PROBLEM"), "{}", third.text);
    assert!(third.text.contains("gets killed"), "{}", third.text);
}

/// Adds successful runs of a kind of command to what is remembered.
fn import_runs(env: &Env, template: &str, runs: u32, took: Duration) {
    let lines: String = (0..runs)
        .map(|run| {
            let row = json!({
                "table": "observations", "id": format!("imported-{run}"),
                "command_hash": "0123456789abcdef", "command_template": template,
                "command_preview": template, "exit_code": 0,
                "duration_ms": took.as_millis() as u64, "timed_out": false,
                "output_snippet": null, "error_snippet": null, "weight": 1.0,
                "created_at": "2026-01-02T03:04:05.000006+00:00", "last_accessed": null,
                "outcome_type": "SUCCESS", "kill_elapsed_ms": null, "cwd": null,
                "git_head": null, "failure_fingerprint": null,
            });
            format!("{row}\n")
        })
        .collect();
    let imported = run_with_input(zsh_tool(env, &["alan", "import"]), lines.into_bytes());
    assert_eq!(
        imported.text(),
        format!("{runs} rows added, 0 already known\n"),
        "{}",
        imported.stderr
    );
}

#[test]
fn a_kill_tells_what_the_command_waited_for() {
    let env = Env::new();
    let client = env.client();
    let arguments = json!({"command": "read 'x?Really? '", "pty": true, "yield_after": 40});
    let asks = client.call("zsh", arguments);
    assert_eq!(asks.meta["waiting_for"], json!("input"), "{}", asks.text);
    let killed = client.call("zsh_kill", json!({"task_id": asks.task_id()}));
    let message = "It was waiting for input at \"Really?\".";
    assert!(killed.text.contains(message), "{}", killed.text);
}

#[test]
fn three_timeouts_open_the_circuit_of_that_command_alone() {
    let env = Env::new();
    let client = env.client();
    // While the database is being opened, timeouts may be kept where others do not see them.
    run(&client, "true");
    wait_for_observations(&env, 1);
    let hang = |client: &Client, timeout: f64| {
        let arguments = json!({"command": "sleep 600", "timeout": timeout, "yield_after": 40});
        client.call("zsh", arguments)
    };
    for _ in 0..3 {
        assert_eq!(hang(&client, 0.2).status(), "timeout");
    }
    let refused = hang(&client, 0.2);
    assert!(refused.is_error, "{}", refused.text);
    for part in ["NEVERHANG", "`sleep 600`", "3 times", "zsh_neverhang_reset"] {
        assert!(refused.text.contains(part), "{}", refused.text);
    }
    assert_eq!(run(&client, "sleep 0.01").status(), "completed");
    // It survives the server, and other servers know of it.
    let knows = |client: &Client| {
        wait_until("another server knows of it", || {
            let known = client.call("zsh_neverhang_status", json!({}));
            known.text.contains("sleep 600").then_some(())
        });
    };
    let other = env.client();
    knows(&other);
    assert!(hang(&other, 0.2).is_error);
    drop(client);
    // Half-open lets one through, here soon; its timeout opens the circuit again.
    let opened = || {
        let database = open_database(&env.path("state/alan.db"));
        let sql = "SELECT opened_at, half_open FROM circuits";
        let row =
            database.query_row(sql, [], |row| Ok((row.get::<_, f64>(0)?, row.get::<_, bool>(1)?)));
        row.expect("one circuit")
    };
    let before = opened();
    env.configure("neverhang_recovery: 1\n");
    let prober = env.client();
    knows(&prober);
    let probe = wait_until("the circuit lets one through", || {
        let result = hang(&prober, 0.2);
        (!result.is_error).then_some(result)
    });
    assert_eq!(probe.status(), "timeout");
    let (again, half_open) = opened();
    assert!(again > before.0 && !half_open, "{again} after {before:?}");
    assert!(hang(&other, 0.2).is_error);
    // Much more time is another matter, at once.
    let longer = json!({"command": "sleep 600", "timeout": 30, "yield_after": 0});
    let longer = other.call("zsh", longer);
    assert!(!longer.is_error, "{}", longer.text);
    other.call("zsh_kill", json!({"task_id": longer.task_id()}));
}

#[test]
fn what_a_call_has_recorded_the_next_one_knows() {
    let env = Env::new();
    env.configure("insights: all\n");
    let client = env.client();
    run(&client, "echo same");
    for round in 2..200 {
        let result = run(&client, "echo same");
        let wanted = format!("Retry #{round}. Previous {} succeeded.", round - 1);
        assert_says(&result, "info", &wanted);
    }
}

#[test]
fn a_database_that_cannot_be_used_costs_a_warning_and_no_command() {
    let env = Env::new();
    env.configure("insights: all\n");
    fs::create_dir(env.path("state/alan.db")).expect("made");
    let client = env.client();
    // The database is opened beside the commands: one of the first answers tells.
    let told = wait_until("the warning is given", || {
        let result = run(&client, "echo hi");
        assert_eq!(result.status(), "completed");
        result.text.contains("alan.db").then_some(result)
    });
    assert!(told.text.contains('⚠'), "{}", told.text);
    let third = run(&client, "echo hi");
    assert_silent_about(&third, "alan.db");
    assert!(third.text.contains("Retry #"), "learned in memory: {}", third.text);
}

#[test]
fn by_default_a_result_shows_what_is_not_known_from_elsewhere() {
    let env = Env::new();
    let client = env.client();
    for _ in 0..6 {
        assert_silent_about(&run(&client, "true"), "A.L.A.N.");
    }
    assert_silent_about(&run(&client, "true 2"), "A.L.A.N.");
    run(&client, "false");
    assert_says(&run(&client, "false"), "warning", "Retry #2.");

    // Success after success is known, failure after success is a change.
    program(&env, "moody", "#!/bin/sh\n[ -e fine ] && exit 0\nexit 3\n");
    fs::write(env.work().join("fine"), "").expect("written");
    run(&client, "./moody");
    assert_silent_about(&run(&client, "./moody"), "A.L.A.N.");
    fs::remove_file(env.work().join("fine")).expect("removed");
    run(&client, "./moody");
    assert_says(&run(&client, "./moody"), "info", "Retry #4 in last 15m. 2/3 succeeded.");
    run(&client, "./moody x");
    assert_says(&run(&client, "./moody y"), "info", "Similar to 'moody *' - 0/1 succeeded");

    // That nothing is known is worth a line while the first of a kind runs.
    let first = client.call("zsh", json!({"command": "sleep 600", "yield_after": 0}));
    assert_says(&first, "info", "New pattern. No history yet.");
    client.kill_task(&first.task_id());
    let second = client.call("zsh", json!({"command": "sleep 601", "yield_after": 0}));
    assert_silent_about(&second, "New pattern");
    client.kill_task(&second.task_id());
    let asked = client.call("zsh_alan_query", json!({"command": "true"}));
    assert!(asked.text.contains("Streak: 6 successes in a row."), "{}", asked.text);
}
