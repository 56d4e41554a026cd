//! What servers make of a history: that of the original tool, that of another server,
//! that of a program whose manual page is asked for; and what none of it may hold.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE};
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::result::ToolResult;

/// The tables of the original, which are also the first of this program's.
const ORIGINAL: &str = include_str!("../../data/schema/1-tables.sql");
/// What a later version of the original added.
const OUTCOMES: &str = "ALTER TABLE observations ADD COLUMN outcome_type TEXT;
    ALTER TABLE observations ADD COLUMN kill_elapsed_ms INTEGER;
    ALTER TABLE recent_commands ADD COLUMN outcome_type TEXT;
    CREATE INDEX idx_outcome_type ON observations(outcome_type);
    CREATE INDEX idx_recent_outcome ON recent_commands(outcome_type);";

/// Makes a database of the original.
pub fn original(env: &Env, with_outcomes: bool) -> Connection {
    let database = Connection::open(env.path("state/alan.db")).expect("a database");
    database.execute_batch(ORIGINAL).expect("tables");
    if with_outcomes {
        database.execute_batch(OUTCOMES).expect("columns");
    }
    database
}

/// Adds runs of a command that all took so long.
pub fn add_runs(database: &Connection, command: &str, runs: u32, milliseconds: u32) {
    for run in 0..runs {
        let added = database.execute(
            "INSERT INTO observations (id, command_hash, command_template, command_preview,
                 exit_code, duration_ms, created_at)
             VALUES (?1 || ?2, 'of the original', ?1, ?1, 0, ?3,
                 strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now', '-' || (?2 + 1) || ' minutes'))",
            (command, run, milliseconds),
        );
        added.expect("a row");
    }
}

/// A program of the test's own in the working directory.
fn program(env: &Env, name: &str, text: &str) {
    let path = env.work().join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
}

fn start(client: &Client, command: &str, yield_after: f64) -> ToolResult {
    let result = client.call("zsh", json!({"command": command, "yield_after": yield_after}));
    assert_eq!(result.status(), "running", "{}", result.text);
    result
}

/// Waits until a server knows runs of a command that others made: opening the database
/// may take longer than a command waits for it.
pub fn wait_for_runs(client: &Client, command: &str) {
    wait_until("earlier runs are known", || {
        let found = client.call("zsh_alan_query", json!({"command": command}));
        let runs = found.raw["structuredContent"]["runs"].as_u64()?;
        (runs > 0).then_some(())
    });
}

#[test]
fn the_originals_history_serves_and_its_estimate_spares_turns() {
    for with_outcomes in [false, true] {
        let env = Env::new();
        let database = original(&env, with_outcomes);
        // A little less than before: on a busy machine it takes longer than it sleeps.
        program(&env, "job", "sleep 2.5");
        add_runs(&database, "./job x", 6, 3000);
        if with_outcomes {
            add_runs(&database, "./job  x", 4, 20);
            let killed = "UPDATE observations SET outcome_type = 'KILLED', kill_elapsed_ms = 20,
                exit_code = -9 WHERE duration_ms = 20";
            assert_eq!(database.execute(killed, []).expect("kills"), 4);
        }
        let rows = if with_outcomes { 10 } else { 6 };
        drop(database);

        let client = env.client();
        wait_for_runs(&client, "./job x");
        let mut result = start(&client, "./job x", 0.3);
        assert!(!result.text.contains("New pattern"), "{}", result.text);
        let estimate = result.meta["poll_meta"]["alan_estimate"].clone();
        assert_eq!(estimate["sample_size"], json!(6), "{estimate}");
        assert_eq!(estimate["basis"], json!("exact"), "{estimate}");
        // Runs that were killed at once do not shorten it.
        assert_eq!(estimate["median_duration_s"], json!(3.0), "{estimate}");
        let mut turns = 1;
        while result.status() == "running" {
            let next = result.meta["poll_meta"]["next_poll_s"].clone();
            assert!(next.is_number(), "{}", result.raw);
            let task = result.task_id();
            result = client.poll(&task, json!({"wait_for": "end", "listen": next}));
            turns += 1;
        }
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert!(turns <= 4, "{turns} turns");

        let count = wait_until("the run is written beside the old rows", || {
            let database = Connection::open(env.path("state/alan.db")).expect("a database");
            let count = "SELECT count(*) FROM observations WHERE command_template LIKE 'job%'";
            let count: i64 = database.query_row(count, [], |row| row.get(0)).ok()?;
            (count > rows).then_some(count)
        });
        assert_eq!(count, rows + 1);
    }
}

/// The estimate that `zsh_alan_query` gives of a command.
fn estimate(client: &Client, command: &str) -> Value {
    let found = client.call("zsh_alan_query", json!({"command": command}));
    found.raw["structuredContent"]["estimate"].clone()
}

#[test]
fn a_word_that_recurs_is_a_kind_of_command_of_its_own() {
    let env = Env::new();
    let folder = env.path("programs");
    fs::create_dir(&folder).expect("a folder");
    let fooctl = folder.join("fooctl");
    fs::write(&fooctl, "#!/bin/sh\n[ \"$1\" != up ] || sleep 1\n").expect("written");
    fs::set_permissions(&fooctl, fs::Permissions::from_mode(0o755)).expect("made executable");
    // What the original has recorded gets its kinds as well.
    let database = original(&env, false);
    add_runs(&database, "fooctl sync now", 3, 60_000);
    drop(database);
    let path = std::env::var("PATH").expect("a PATH");
    let mut serve = env.serve();
    serve.env("PATH", format!("{}:{path}", folder.display()));
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    wait_for_runs(&client, "fooctl sync now");

    for host in ["one", "two", "three"] {
        for word in ["up", "status"] {
            let result = client.run(&format!("fooctl {word} {host}"));
            assert_eq!(result.status(), "completed", "{}", result.text);
        }
    }
    let kind = |command: &str| {
        let found = estimate(&client, command);
        let median = found["median_duration_s"].as_f64();
        (
            found["command_template"].clone(),
            found["sample_size"].clone(),
            median.unwrap_or_else(|| panic!("no median: {found}")),
            found["p90_at_least"].clone(),
        )
    };
    let (template, runs, up, is_bound) = kind("fooctl up four");
    assert_eq!((template, runs), (json!("fooctl up *"), json!(3)));
    assert_eq!(is_bound, json!(true));
    let (template, runs, status, _) = kind("fooctl status four");
    assert_eq!((template, runs), (json!("fooctl status *"), json!(3)));
    assert!(up >= 1.0 && status < up, "{up} s and {status} s");
    let (template, runs, sync, _) = kind("fooctl sync later");
    assert_eq!((template, runs, sync), (json!("fooctl sync *"), json!(3), 60.0));
    let (template, runs, _, is_bound) = kind("fooctl down four");
    assert_eq!((template, runs), (json!("fooctl *"), json!(9)), "a new word");
    assert_eq!(is_bound, json!(false));

    let running = start(&client, "fooctl up four", 0.2);
    let shown = &running.meta["poll_meta"]["alan_estimate"]["command_template"];
    assert_eq!(*shown, json!("fooctl up *"), "{}", running.text);
    assert!(running.text.contains(" or more; "), "{}", running.text);
    let ended = client.poll(&running.task_id(), json!({"wait_for": "end", "listen": 50}));
    assert_eq!(ended.status(), "completed", "{}", ended.text);
}

#[test]
fn a_kill_is_classed_by_what_such_commands_take() {
    let env = Env::new();
    let database = original(&env, true);
    for (name, milliseconds) in [("early", 100_000), ("normal", 6000), ("late", 50)] {
        program(&env, name, "sleep 600");
        add_runs(&database, &format!("./{name}"), 5, milliseconds);
    }
    drop(database);
    let client = env.client();
    for (name, after, category, words) in [
        ("early", 0.1, "EARLY_KILL", "likely needs more time"),
        ("normal", 3.5, "NORMAL_KILL", "(median: 6s)"),
        ("late", 1.0, "LATE_KILL", "this isn't normal duration"),
    ] {
        wait_for_runs(&client, &format!("./{name}"));
        let running = start(&client, &format!("./{name}"), after);
        let killed = client.kill_task(&running.task_id());
        let insight = &killed.meta["insight"];
        assert_eq!(insight["category"], json!(category), "{}", killed.text);
        let said = insight["message"].as_str().unwrap_or_default();
        assert!(said.contains(name), "{said}");
        let words = words.replace("6s", "6.0s");
        let shorter = words.replace("6.0s", "6s");
        assert!(said.contains(&words) || said.contains(&shorter), "{said}");
        let row = wait_until("the kill is written", || {
            let database = Connection::open(env.path("state/alan.db")).expect("a database");
            database
                .query_row(
                    "SELECT exit_code, timed_out, kill_elapsed_ms FROM observations
                     WHERE command_preview = ?1 AND outcome_type = 'KILLED'",
                    [format!("./{name}")],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
                .ok()
        });
        let (code, timed_out, elapsed): (i64, i64, f64) = row;
        assert_eq!((code, timed_out), (-9, 0));
        assert!(elapsed >= 900.0 * after, "{elapsed}");
    }
}

#[test]
fn of_two_servers_that_ask_at_once_a_half_open_circuit_lets_one_through() {
    let env = Env::new();
    // The last calls are made within this time.
    env.configure("neverhang_recovery: 10\n");
    let servers = [env.client(), env.client()];
    for server in &servers {
        // Both have opened the database before either needs it at once.
        wait_until("the database has been opened", || {
            let stats = server.call("zsh_alan_stats", json!({}));
            (!stats.is_error).then_some(())
        });
    }
    let hang =
        |timeout: f64| json!({"command": "sleep 600", "timeout": timeout, "yield_after": 25});
    for _ in 0..3 {
        let ended = servers[0].call("zsh", hang(0.8));
        assert_eq!(ended.status(), "timeout", "{}", ended.text);
    }
    let answers = wait_until("the circuit lets some through", || {
        let asked = [0, 1].map(|server: usize| servers[server].call_async("zsh", hang(0.8)));
        let answers = asked.map(|call| call.tool_result());
        answers.iter().any(|answer| !answer.is_error).then_some(answers)
    });
    let [first, second] = answers;
    assert!(first.is_error != second.is_error, "{}\n{}", first.text, second.text);
    for server in &servers {
        let again = server.call("zsh", hang(0.8));
        assert!(again.is_error, "it has timed out again: {}", again.text);
    }
}

/// A manual page as `man` prints it.
const PAGE: &str = "cat <<'END'
TOOL(1)                     General Commands Manual                    TOOL(1)

NAME
       tool - does nothing

OPTIONS
       -x, --extract
              Take things out.

       -q, --quiet
              Say nothing.
END";

/// A server that finds this `man` first; it notes what it is asked for.
fn server_with_man(env: &Env, man: &str, settings: &[(&str, &str)]) -> Client {
    let folder = env.path("man");
    fs::create_dir_all(&folder).expect("a folder");
    let asked = env.path("asked");
    let text = format!("#!/bin/sh\necho \"$@\" >> {}\n{man}\n", asked.display());
    fs::write(folder.join("man"), text).expect("written");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.join("man"), mode).expect("made executable");
    let path = std::env::var("PATH").expect("a PATH");
    let mut serve: Command = env.serve();
    serve.env("PATH", format!("{}:{path}", folder.display()));
    serve.envs(settings.iter().copied());
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    client
}

fn asked(env: &Env) -> Vec<String> {
    let asked = fs::read_to_string(env.path("asked")).unwrap_or_default();
    asked.lines().map(str::to_owned).collect()
}

fn fail(client: &Client, command: &str) -> ToolResult {
    let result = client.run(command);
    assert_eq!(result.status(), "failed", "{}", result.text);
    result
}

#[test]
fn a_page_is_asked_for_once_and_its_options_serve_all_servers() {
    let env = Env::new();
    program(&env, "tool", "exit 2");
    // As long as it takes on a busy machine: a page that came too late is asked for again.
    let patient = [("ALAN_MANOPT_TIMEOUT", "30")];
    let client = server_with_man(&env, PAGE, &patient);
    assert!(!fail(&client, "./tool -q").text.contains("Options for"));
    assert_eq!(asked(&env), [""; 0], "not at the first failure");
    assert!(!fail(&client, "./tool -q").text.contains("Options for"));
    wait_until("the page is asked for", || (!asked(&env).is_empty()).then_some(()));
    let shown = wait_until("its options are shown", || {
        let failed = fail(&client, "./tool -q");
        failed.text.contains("Options for 'tool'").then_some(failed.text)
    });
    assert!(shown.contains("--extract"), "{shown}");
    let before = asked(&env);
    assert_eq!(before.len(), 1, "{before:?}");
    // It is kept: another server shows it at its own third failure and asks nobody.
    wait_until("the options are on disk", || {
        let database = Connection::open(env.path("state/alan.db")).ok()?;
        let count = "SELECT count(*) FROM manopt_cache";
        let count: i64 = database.query_row(count, [], |row| row.get(0)).ok()?;
        (count > 0).then_some(())
    });
    let other = server_with_man(&env, PAGE, &patient);
    wait_for_runs(&other, "./tool -q");
    for _ in 0..2 {
        assert!(!fail(&other, "./tool -q").text.contains("Options for"));
    }
    let third = fail(&other, "./tool -q");
    assert!(third.text.contains("Options for 'tool'"), "{}", third.text);
    assert_eq!(asked(&env), before);
}

#[test]
fn a_man_that_hangs_is_ended_and_delays_no_command() {
    let env = Env::new();
    program(&env, "tool", "exit 2");
    let sleep = UniqueSleep::new();
    let client = server_with_man(&env, &sleep.to_string(), &[("ALAN_MANOPT_TIMEOUT", "8")]);
    for _ in 0..2 {
        fail(&client, "./tool");
    }
    sleep.wait_for(1);
    assert!(!fail(&client, "./tool").text.contains("Options for"));
    sleep.assert_gone();
    assert!(!fail(&client, "./tool").text.contains("Options for"));
}

#[test]
fn options_that_are_turned_off_are_neither_looked_up_nor_shown() {
    let env = Env::new();
    program(&env, "tool", "exit 2");
    let client = server_with_man(&env, PAGE, &[("ALAN_MANOPT_ENABLED", "off")]);
    for _ in 0..5 {
        assert!(!fail(&client, "./tool").text.contains("Options for"));
    }
    assert_eq!(asked(&env), [""; 0]);
}

/// Command lines with secrets, each between `«` and `»`.
const SECRETS: [&str; 42] = [
    "aws configure set x «AKIAIOSFODNN7EXAMPLE»",
    "curl 'https://maps.example/?k=«AIzaSyA1234567890abcdefghijklmnopqrstuv»'",
    "gcloud x «ya29.a0AfH6SMBx1234567890abcdef»",
    "gcloud x «GOCSPX-abcdefghijklmnopqrstuvwxyz»",
    "git clone x «ghp_abcdefghijklmnopqrstuvwxyz0123456789»",
    "echo «gho_abcdefghijklmnopqrstuvwxyz0123456789»",
    "echo «github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz»",
    "echo «glpat-abcdefghij0123456789»",
    "echo «xoxb-123456789012-abcdefGHIJ»",
    "curl https://hooks.slack.com/services/«T00000000/B00000000/XXXXXXXXXXXXXXXX»",
    "stripe «sk_live_abcdefghijklmnop»",
    "twine «pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAw»",
    "mail «SG.abcdefghijklmnopqrst.uvwxyz0123456789ABCD»",
    "doctl «dop_v1_0123456789abcdef0123456789abcdef»",
    "echo «npm_abcdefghijklmnopqrstuvwxyz0123456789»",
    "echo «sk-proj-abc_def-ghijklmnopqrstuvwxyz»",
    "echo «sk-ant-api03-abc_def-ghijklmnopqrstuvwxyz»",
    "echo «hf_abcdefghijklmnopqrstuvwxyzABCDEFGH»",
    "x «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.dozjgNryP4J3jVmNHl0w5N» y",
    "echo '-----BEGIN OPENSSH PRIVATE KEY-----\n«b3BlbnNzaC1rZXktdjEAAAAA»\n-----END OPENSSH PRIVATE KEY-----'",
    "curl -H \"Authorization: Bearer «bearerOne.q1w2e3»\" https://x",
    "curl -H 'Authorization: Basic «dXNlcjpwYXNzQQ»' https://x",
    "curl -u user:«s3crEt-user-01» https://x",
    "curl --user \"user:«s3crEt-user-02»\" https://x",
    "sh -c 'curl -uadmin:«s3crEt-user-03» https://x'",
    "git clone https://user:«s3crEt-url-04»@example.org/a.git",
    "psql postgres://app:«s3crEt-url-05»@db:5432/app",
    "redis-cli -u redis://:«s3crEt-url-06»@cache:6379",
    "app --password «s3crEt-opt-07» --verbose",
    "app --password=«s3crEt-opt-08» --verbose",
    "app --api-key='«s3crEt opt 09»' run",
    "wget --http-password=«s3crEt-opt-10» https://x",
    "mysql -u root -p«s3crEt-opt-11» app",
    "sshpass -p «s3crEt-opt-12» ssh -p 2222 host",
    "docker login -u me -p «s3crEt-opt-13» registry.example",
    "API_KEY=«s3crEt-var-14» make",
    "export GITHUB_TOKEN=\"«s3crEt var 15»\"",
    "docker run -e \"DB_PASSWORD=«s3crEt var 16»\" image",
    "sh -c \"API_KEY=«s3crEt-var-17» run\"",
    "curl 'https://x/?access_token=«s3crEt-var-18»&page=2'",
    "helm upgrade --set db.password=«s3crEt-var-19» x",
    "curl -d '{\"api_key\": \"«s3crEt-var-20»\"}' https://x",
];

/// All files below a directory, as one text.
fn all_text(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            text.push_str(&all_text(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            text.push_str(&path.to_string_lossy());
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text
}

#[test]
fn no_secret_of_a_command_line_is_kept() {
    let env = Env::new();
    env.configure("spool_keep_hours: 0\n");
    let client = env.client();
    let mut secrets: Vec<&str> = Vec::new();
    for (number, line) in SECRETS.iter().enumerate() {
        secrets.extend(line.split(['«', '»']).nth(1));
        // Not carried out, whatever the program is; recorded all the same.
        let command = format!("echo run{number}; false && {}", line.replace(['«', '»'], ""));
        client.run(&command);
        client.run(&command);
    }
    // What fails may print one; of that a fingerprint and snippets are kept.
    let printed = "s3crEt-out-21";
    secrets.push(printed);
    fs::write(env.work().join("note"), format!("error: password={printed} is wrong\n"))
        .expect("written");
    fail(&client, "cat note >&2; exit 3");
    assert_eq!(secrets.len(), SECRETS.len() + 1);
    client.close_stdin();
    client.wait_exit(PATIENCE);
    // The spools went with the server, since they are kept for no time.
    let kept = all_text(&env.path("state")) + &all_text(&env.path("home"));
    assert!(kept.contains("run41") && kept.contains("is wrong"), "recorded");
    assert!(kept.contains("[redacted]"));
    for secret in secrets {
        assert!(!kept.contains(secret), "{secret} is kept");
    }
    let log = fs::read_to_string(env.path("stderr")).expect("the log");
    assert!(!log.contains("s3crEt"), "{log}");
}
