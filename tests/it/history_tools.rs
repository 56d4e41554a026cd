//! The tools and commands that tell what is remembered of commands: `zsh_alan_stats`,
//! `zsh_alan_query`, `zsh_neverhang_status`, `zsh_neverhang_reset` and `zsh-tool alan`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::database::wait_for_observations;
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::program::{Finished, ran, run_with_input, zsh_tool};
use crate::support::schema::assert_valid;

/// A command that always runs into its deadline of 0.2 s.
const HANGS: &str = "sleep 61";

fn hang(client: &Client, command: &str) {
    let arguments = json!({"command": command, "timeout": 0.2, "yield_after": 25});
    let result = client.call("zsh", arguments);
    assert_eq!(result.status(), "timeout", "{}", result.text);
}

fn query(client: &Client, command: &str) -> Value {
    assert_valid(client, "zsh_alan_query", json!({"command": command}))
}

/// Waits until somebody, who may have to open the database first, tells of so many runs.
fn wait_for_runs(runs: u64, mut ask: impl FnMut() -> Value) -> Value {
    wait_until(&format!("{runs} runs are known"), || {
        let found = ask();
        (found["runs"] == json!(runs)).then_some(found)
    })
}

fn messages(found: &Value) -> Vec<&str> {
    let insights = found["insights"].as_array().expect("insights");
    insights.iter().filter_map(|insight| insight["message"].as_str()).collect()
}

/// Runs `zsh-tool alan`, which must succeed and say nothing on stderr.
fn alan(env: &Env, arguments: &[&str]) -> String {
    let finished = ran(env, &[&["alan"], arguments].concat());
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{finished:?}");
    finished.text()
}

fn imported(env: &Env, database: &Path, lines: &str) -> Finished {
    let mut command = zsh_tool(env, &["alan", "import"]);
    command.env("ALAN_DB_PATH", database);
    run_with_input(command, lines.as_bytes().to_vec())
}

#[test]
fn runs_are_counted_and_what_is_known_of_a_command_is_told_in_numbers() {
    let env = Env::new();
    let client = env.client();
    let before = assert_valid(&client, "zsh_alan_stats", json!({}));
    assert_eq!(before["observations"], json!(0));
    for command in ["true one", "true one", "true one", "true two", "false | cat"] {
        client.run(command);
    }
    let stats = assert_valid(&client, "zsh_alan_stats", json!({}));
    assert_eq!(stats["observations"], json!(7), "a pipeline and its parts: {stats}");
    assert_eq!(stats["database"]["failure"], Value::Null);
    let most = &stats["most_frequent"][0];
    let wanted = json!({"template": "true *", "runs": 4, "successes": 4, "kills": 0});
    assert_eq!(*most, wanted, "{stats}");
    let text = client.call("zsh_alan_stats", json!({})).text;
    assert!(text.contains("most frequent  true *: 4 runs, 4 succeeded"), "{text}");

    let found = query(&client, "true one");
    assert_eq!(found["template"], json!("true *"));
    assert_eq!(found["runs"], json!(3));
    assert_eq!(found["success_rate"], json!(1.0));
    assert_eq!(found["streak"]["current"], json!(3));
    assert_eq!(found["retry"], json!({"window_minutes": 15, "previous": 3, "succeeded": 3}));
    assert_eq!(found["estimate"]["sample_size"], json!(4), "{found}");
    assert_eq!(found["estimate"]["basis"], json!("template"));
    assert_eq!(found["circuit"], Value::Null);
    assert_eq!(
        messages(&found),
        ["Retry #4. Previous 3 succeeded.", "Streak: 3 successes in a row. Solid."]
    );
    let text = client.call("zsh_alan_query", json!({"command": "true one"}));
    let lines: Vec<&str> = text.text.lines().collect();
    assert_eq!(lines[..2], ["$ true one", "kind      true *"], "{lines:?}");
    let streak = "streak    3 successes in a row (longest: 3 successes, 0 failures)";
    assert!(lines.contains(&streak), "{lines:?}");
}

#[test]
fn a_query_runs_nothing_and_records_nothing() {
    let env = Env::new();
    let client = env.client();
    for _ in 0..3 {
        let found = query(&client, "touch made");
        assert_eq!(messages(&found), ["New pattern. No history yet."]);
    }
    assert!(!env.work().join("made").exists());
    let stats = assert_valid(&client, "zsh_alan_stats", json!({}));
    assert_eq!(stats["observations"], json!(0), "{stats}");
}

#[test]
fn a_query_says_what_the_next_run_is_told() {
    let env = Env::new();
    env.configure("insights: all\n");
    let client = env.client();
    let command = "while true; do sleep 0.01; grep -q x there && break; done";
    fs::write(env.work().join("there"), "x").expect("a file");
    for _ in 0..3 {
        let asked = query(&client, command);
        let told = client.run(command);
        let told = told.meta["insights"].as_array().expect("insights");
        let asked: Vec<Value> = asked["insights"]
            .as_array()
            .expect("insights")
            .iter()
            .map(|insight| json!([insight["level"], insight["message"]]))
            .collect();
        assert!(!asked.is_empty());
        // A run is also told what its end says.
        assert_eq!(told[..asked.len()], asked, "{told:?}");
    }
}

#[test]
fn hosts_and_what_runs_there_are_told_in_numbers() {
    let env = Env::new();
    let ssh = env.work().join("ssh");
    fs::write(&ssh, "#!/bin/sh\nexit 255\n").expect("a program");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("executable");
    let client = env.client();
    let command = "PATH=$PWD:$PATH; ssh me@far.example uptime";
    for _ in 0..3 {
        client.run("./ssh me@far.example uptime");
    }
    let found = query(&client, "./ssh me@far.example uptime");
    let wanted = json!({"host": "far.example", "tries": 3, "failed": 3});
    assert_eq!(found["host"], wanted, "{found}");
    let text = "Host 'far.example' has 100% connection failure rate (3/3).";
    assert!(messages(&found).contains(&text), "{found}");
    assert_eq!(query(&client, command)["host"], Value::Null, "of a list nobody knows");
}

#[test]
fn wrong_arguments_are_named() {
    let env = Env::new();
    let client = env.client();
    for (tool, arguments, named) in [
        ("zsh_alan_query", json!({}), "needs the argument command"),
        ("zsh_alan_query", json!({"command": " \n"}), "command is empty"),
        ("zsh_alan_query", json!({"comand": "ls"}), "command"),
        ("zsh_alan_stats", json!({"x": 1}), "no arguments"),
        ("zsh_neverhang_status", json!({"x": 1}), "no arguments"),
        ("zsh_neverhang_reset", json!({"command": 5}), "command"),
    ] {
        let result = client.call(tool, arguments);
        assert!(result.is_error, "{}", result.text);
        assert!(result.text.contains(named), "{}", result.text);
    }
}

#[test]
fn a_refused_command_is_listed_told_of_and_let_through_again() {
    let env = Env::new();
    let client = env.client();
    let circuits = |client: &Client| {
        let listed = assert_valid(client, "zsh_neverhang_status", json!({}));
        listed["circuits"].as_array().expect("circuits").clone()
    };
    assert_eq!(circuits(&client), [] as [Value; 0]);
    // While the database is being opened, timeouts may be kept where others do not see them.
    client.run("true");
    wait_for_observations(&env, 1);
    hang(&client, "sleep 62");
    for _ in 0..3 {
        hang(&client, HANGS);
    }
    let refused = client.call("zsh", json!({"command": HANGS, "timeout": 0.2}));
    assert!(refused.is_error, "{}", refused.text);

    // Another server sees it, and tells the same.
    let other = env.client();
    let listed = wait_until("both circuits are listed", || {
        let listed = circuits(&other);
        (listed.len() == 2).then_some(listed)
    });
    assert_eq!(listed[0]["command"], json!(HANGS));
    assert_eq!(listed[0]["state"], json!("OPEN"));
    assert_eq!(listed[0]["timeouts"], json!(3));
    assert_eq!(listed[0]["refuses"], json!(true));
    let left = listed[0]["retry_in_s"].as_f64().unwrap_or_default();
    assert!((200.0..=300.0).contains(&left), "{left}");
    assert_eq!(listed[1]["state"], json!("CLOSED"));
    let text = other.call("zsh_neverhang_status", json!({})).text;
    let first = text.lines().next().unwrap_or_default();
    for part in ["  OPEN    ", "3 timeouts of up to 0.2s", "may be tried again in ", HANGS] {
        assert!(first.contains(part), "{text}");
    }
    let found = query(&other, HANGS);
    assert_eq!(found["circuit"]["state"], json!("OPEN"), "{found}");
    let text = other.call("zsh_alan_query", json!({"command": HANGS})).text;
    assert!(text.contains("⚠ NEVERHANG: OPEN, may be tried again in "), "{text}");
    let health = assert_valid(&other, "zsh_health", json!({}));
    assert_eq!(health["circuits_open"], json!(1));

    let reset = json!({"command": HANGS});
    let closed = assert_valid(&other, "zsh_neverhang_reset", reset.clone());
    assert_eq!(closed["closed"][0]["command"], json!(HANGS));
    assert_eq!(circuits(&client).len(), 1, "only that one");
    hang(&client, HANGS);
    let text = client.call("zsh_neverhang_reset", json!({})).text;
    assert!(text.contains("was not open; 1 timeout forgotten: sleep 61"), "{text}");
    let again = client.call("zsh_neverhang_reset", reset);
    assert!(!again.is_error);
    assert_eq!(again.text, format!("nothing to close: no circuit of {HANGS}"));
    assert_eq!(circuits(&other), [] as [Value; 0]);
}

#[test]
fn a_circuit_is_closed_by_the_hash_that_the_list_shows() {
    let env = Env::new();
    let client = env.client();
    let long = format!("sleep 61 # {}", "x".repeat(300));
    hang(&client, &long);
    let listed = assert_valid(&client, "zsh_neverhang_status", json!({}));
    let hash = listed["circuits"][0]["hash"].clone();
    let closed = assert_valid(&client, "zsh_neverhang_reset", json!({"command": hash}));
    assert_eq!(closed["closed"].as_array().map(Vec::len), Some(1), "{closed}");
}

#[test]
fn no_tool_shows_a_secret_of_a_command() {
    let env = Env::new();
    let client = env.client();
    let command = "sleep 63; app --password hunter2hunter2";
    for _ in 0..3 {
        hang(&client, command);
    }
    for (tool, arguments) in [
        ("zsh_alan_stats", json!({})),
        ("zsh_alan_query", json!({"command": command})),
        ("zsh_neverhang_status", json!({})),
        ("zsh_neverhang_reset", json!({"command": command})),
        ("zsh_neverhang_reset", json!({"command": command})),
    ] {
        let result = client.call(tool, arguments);
        let all = result.raw.to_string();
        assert!(!all.contains("hunter2"), "{tool}: {all}");
        assert!(tool == "zsh_alan_stats" || all.contains("[redacted]"), "{all}");
    }
}

#[test]
fn two_servers_and_the_command_line_see_each_others_history() {
    let env = Env::new();
    let (one, other) = (env.client(), env.client());
    one.run("true shared");
    let found = wait_for_runs(1, || query(&other, "true shared"));
    assert_eq!(found["retry"]["previous"], json!(0), "another session's is no retry");
    other.run("true shared");
    assert_eq!(ran(&env, &["exec", "true shared"]).code, 0);
    let found = wait_for_runs(3, || query(&one, "true shared"));
    assert_eq!(found["streak"]["current"], json!(3), "{found}");
    wait_for_runs(3, || {
        let text = alan(&env, &["query", "--json", "true", "shared"]);
        serde_json::from_str(&text).expect("JSON")
    });
}

// zsh-tool exec

#[test]
fn exec_remembers_and_refuses() {
    let env = Env::new();
    // To make a database takes longer than to open one: a command that times out meanwhile
    // tells nobody.
    assert_eq!(ran(&env, &["exec", "true"]).code, 0);
    wait_for_observations(&env, 1);
    for _ in 0..3 {
        let finished = ran(&env, &["exec", "--timeout", "0.2", HANGS]);
        assert_eq!(finished.code, 124, "{finished:?}");
    }
    let refused = ran(&env, &["exec", "--timeout", "0.3", HANGS]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.starts_with("zsh-tool: NEVERHANG: not run."), "{refused:?}");
    assert_eq!(refused.text(), "");
    // More time than the longest had: let through, and so was the circuit's one run.
    let probe = ran(&env, &["exec", "--timeout", "1", HANGS]);
    assert_eq!(probe.code, 124, "{probe:?}");
    assert_eq!(ran(&env, &["exec", "false"]).code, 1);
    let stats: Value = serde_json::from_str(&alan(&env, &["stats", "--json"])).expect("JSON");
    assert_eq!(stats["observations"], json!(6), "{stats}");
}

// zsh-tool alan

#[test]
fn the_command_line_tells_what_the_tools_tell() {
    let env = Env::new();
    let client = env.client();
    client.run("true one");
    wait_for_observations(&env, 1);
    let path = env.path("state/alan.db");
    assert_eq!(alan(&env, &["path"]), format!("{}\n", path.display()));
    let stats = client.call("zsh_alan_stats", json!({})).text;
    assert_eq!(alan(&env, &["stats"]), format!("{stats}\n"));
    let text = alan(&env, &["query", "true", "one"]);
    assert!(text.starts_with("$ true one\nkind "), "{text}");
    assert!(!text.contains("retries"), "no session: {text}");
    let pruned = alan(&env, &["prune"]);
    assert_eq!(pruned, "0 observations and 0 other rows removed\n");
    for arguments in [
        &["alan"][..],
        &["alan", "query"],
        &["alan", "forget"],
        &["alan", "stats", "x"],
        &["alan", "no-such"],
    ] {
        assert_eq!(ran(&env, arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn commands_and_kinds_are_forgotten() {
    let env = Env::new();
    let client = env.client();
    for command in ["true a", "true b", "true b", "false", "echo one"] {
        client.run(command);
    }
    wait_for_observations(&env, 5);
    let text = alan(&env, &["forget", "true", "a"]);
    assert!(text.starts_with("1 observations and "), "{text}");
    assert_eq!(query(&client, "true a")["runs"], json!(0));
    assert_eq!(query(&client, "true b")["runs"], json!(2));
    let text = alan(&env, &["forget", "true *"]);
    assert!(text.starts_with("2 observations and "), "{text}");
    let found = query(&client, "true b");
    assert_eq!(
        (&found["runs"], &found["streak"]["current"], &found["retry"]["previous"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(query(&client, "false")["runs"], json!(1));
    let nothing = ran(&env, &["alan", "forget", "--", "true *"]);
    assert_eq!((nothing.code, nothing.text().as_str()), (1, ""));
    assert!(nothing.stderr.contains("\"true *\" is not in the history"), "{nothing:?}");
}

/// One row of each table, with every column filled in.
const EXPORT: &str = include_str!("../fixtures/alan/export.ndjson");

#[test]
fn an_export_and_its_import_lose_nothing() {
    let env = Env::new();
    let first = env.path("one/alan.db");
    let second = env.path("two/alan.db");
    let done = imported(&env, &first, EXPORT);
    assert_eq!((done.code, done.text()), (0, "7 rows added, 0 already known\n".to_owned()));
    let exported = |database: &Path| {
        let mut command = zsh_tool(&env, &["alan", "export"]);
        command.env("ALAN_DB_PATH", database);
        let finished = run_with_input(command, Vec::new());
        assert_eq!((finished.code, finished.stderr.as_str()), (0, ""));
        finished.text()
    };
    assert_eq!(exported(&first), EXPORT);
    let run = {
        let mut command = zsh_tool(&env, &["exec", "printf 'ünï\\n'; exit 3"]);
        command.env("ALAN_DB_PATH", &first);
        run_with_input(command, Vec::new())
    };
    assert_eq!(run.code, 3);
    let all = exported(&first);
    assert_eq!(all.lines().count(), EXPORT.lines().count() + 3, "{all}");
    assert_eq!(imported(&env, &second, &all).code, 0);
    assert_eq!(exported(&second), all);
    let again = imported(&env, &second, &all).text();
    assert_eq!(again, "0 rows added, 10 already known\n");
    let file = env.path("export.ndjson");
    fs::write(&file, &all).expect("a file");
    let third = env.path("three.db");
    let mut command = zsh_tool(&env, &["alan", "import"]);
    command.arg(&file).env("ALAN_DB_PATH", &third);
    assert_eq!(run_with_input(command, Vec::new()).code, 0);
    assert_eq!(exported(&third), all);
}

#[test]
fn a_faulty_line_of_an_import_is_named_and_those_before_it_stay() {
    let env = Env::new();
    let database = env.path("alan.db");
    let row = EXPORT.lines().next().expect("a row");
    for (fault, cause) in [
        ("{\"table\":\"nonsense\"}", "not a row of an export"),
        ("\u{fffd}{", "not a row of an export"),
        (&"x".repeat(2 << 20), "longer than"),
    ] {
        let done = imported(&env, &database, &format!("{row}\n\n{fault}\n{row}\n"));
        assert_eq!((done.code, done.text().as_str()), (1, ""), "{}", done.stderr);
        assert!(done.stderr.contains("stdin, line 3: "), "{}", done.stderr);
        assert!(done.stderr.contains(cause), "{}", done.stderr);
    }
    let missing = ran(&env, &["alan", "import", "no-such-file"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("no-such-file"), "{missing:?}");
    let mut stats = zsh_tool(&env, &["alan", "stats", "--json"]);
    stats.env("ALAN_DB_PATH", &database);
    let stats: Value =
        serde_json::from_str(&run_with_input(stats, Vec::new()).text()).expect("JSON");
    assert_eq!(stats["observations"], json!(1));
}

#[test]
fn it_may_be_used_while_servers_run() {
    let env = Env::new();
    let client = env.client();
    client.run("true before");
    wait_for_observations(&env, 1);
    let task = client.start_task("sleep 60");
    assert_eq!(imported(&env, &env.path("state/alan.db"), EXPORT).code, 0);
    alan(&env, &["forget", "true", "before"]);
    client.run("true after");
    wait_until("both are there", || {
        let text = alan(&env, &["export"]);
        (text.contains("true after") && text.contains("far.example")).then_some(())
    });
    client.kill_task(&task);
    let kills = &query(&client, "sleep 60")["kills"];
    let wanted = json!({"kills": 2, "runs": 2, "session_kills": 1});
    assert_eq!(*kills, wanted, "one of them imported");
}
