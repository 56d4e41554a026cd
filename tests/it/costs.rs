//! What a command has cost: CPU time, memory and processes.

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::database::{open_database, wait_for_observations};
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::program::ran;
use crate::support::unprivileged;

/// Runs a command as its child and prints what the kernel counts for both.
const ACCOUNTED: &str = r#"
import json, resource, subprocess, sys
subprocess.run(["zsh", "-fc", sys.argv[1]], stdout=subprocess.DEVNULL, check=True)
both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({
    "user": sum(one.ru_utime for one in both),
    "system": sum(one.ru_stime for one in both),
    "largest": max(one.ru_maxrss for one in both) * 1024,
}))
"#;

/// Uses this much CPU time.
fn burning(seconds: f64) -> String {
    format!("python3 -c 'import time\nwhile time.process_time() < {seconds}: pass'")
}

/// Occupies this many megabytes for a moment.
fn occupying(megabytes: u64) -> String {
    format!("python3 -c 'x = b\"x\" * {megabytes}_000_000'")
}

#[test]
fn costs_are_what_the_kernel_counts() {
    let env = Env::new();
    std::fs::write(env.work().join("accounted.py"), ACCOUNTED).expect("a program");
    let client = env.client();
    let commands = [
        "true".to_owned(),
        occupying(300),
        // The peak is over when a probe looks.
        format!("{}; sleep 0.6", occupying(200)),
        burning(0.7),
        "dd if=/dev/zero of=/dev/null bs=1M count=3000".to_owned(),
        "python3 -c 'import hashlib, threading\n\
         ts = [threading.Thread(target=lambda: hashlib.sha256(b\"x\" * 90_000_000)) for _ in \"ab\"]\n\
         [t.start() for t in ts]\n[t.join() for t in ts]'"
            .to_owned(),
        format!("{0} & {0} & {0} & wait", occupying(100)),
        "yes | head -c 100M | wc -c".to_owned(),
        "sh -c 'python3 -c \"x = 150_000_000 * chr(120)\"; true'; true".to_owned(),
        "for i in {1..60}; do /bin/true; done".to_owned(),
    ];
    for command in commands {
        let quoted = command.replace('\'', "'\\''");
        let wrapped = format!("python3 accounted.py '{quoted}'");
        let result = client.call("zsh", json!({"command": wrapped, "yield_after": 50}));
        let counted: Value = serde_json::from_str(
            result.text.lines().find(|line| line.starts_with('{')).unwrap_or_default(),
        )
        .unwrap_or_else(|error| panic!("{error}: {}", result.text));
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}: {command}"));
        let cost = &result.meta["cost"];
        for part in ["user", "system"] {
            let (told, counted) = (number(&cost[format!("{part}_s")]), number(&counted[part]));
            // The end of Python and the start of the shell come on top.
            assert!(
                told > counted - 0.002 && told < counted + 0.5,
                "{part} {told}, {counted}: {command}"
            );
        }
        let largest = number(&counted["largest"]);
        // Less cannot be told apart from what the server itself occupies.
        if largest > 64e6 {
            let peak = number(&cost["peak_bytes"]);
            // A probe may have seen several at once.
            assert!(peak >= largest && peak < 3.0 * largest + 60e6, "{peak}, {largest}: {command}");
        }
        assert!(number(&cost["wall_s"]) > 0.0 && number(&cost["processes"]) >= 1.0, "{cost}");
    }
}

#[test]
fn a_command_too_small_to_be_measured_says_so() {
    let env = Env::new();
    let result = env.client().run("true");
    let cost = &result.meta["cost"];
    assert_eq!((&cost["peak_bytes"], &cost["processes"]), (&Value::Null, &json!(1)), "{cost}");
    assert!(!result.text.contains(" · "), "{}", result.text);
}

#[test]
fn the_status_line_tells_of_much_time_and_of_much_memory() {
    let env = Env::new();
    let client = env.client();
    let run =
        |command: String| client.call("zsh", json!({"command": command, "yield_after": 50})).text;
    let burnt = run(burning(2.1));
    assert!(burnt.contains("s · cpu 2."), "{burnt}");
    assert!(!burnt.contains("peak"), "{burnt}");
    let occupied = run(occupying(530));
    assert!(occupied.contains(" · peak "), "{occupied}");
    let little = run(format!("{}; {}", burning(0.2), occupying(20)));
    assert!(!little.contains(" · "), "{little}");
    let finished = ran(&env, &["exec", "--json", "--", "true"]);
    let told: Value = serde_json::from_slice(&finished.stdout).expect("JSON");
    assert!(told["cost"]["wall_s"].is_number(), "{told}");
}

#[test]
fn what_nothing_has_waited_for_counts_too() {
    let env = Env::new();
    let client = env.client();
    let command = "sh -c 'while :; do :; done'; true";
    let task = client.call("zsh", json!({"command": command, "yield_after": 0.1})).task_id();
    let row = wait_until("a second of CPU time in the list", || {
        let tasks = client.call("zsh_tasks", json!({}));
        let row = tasks.raw["structuredContent"]["tasks"][0].clone();
        (row["usage"]["cpu_s"].as_f64()? >= 1.0).then_some((row, tasks.text))
    });
    let (row, list) = row;
    assert_eq!(row["usage"]["processes"], 2, "{row}");
    assert!(row["usage"]["memory_bytes"].as_u64() > Some(1_000_000), "{row}");
    assert!(list.contains(", cpu ") && list.contains(", memory "), "{list}");
    client.kill_task(&task);
    let ended = client.poll(&task, json!({}));
    let cost = &ended.meta["cost"];
    let spent = |part: &str| cost[part].as_f64().unwrap_or_default();
    assert!(spent("user_s") + spent("system_s") >= 1.0, "{cost}: the shell waited for nothing");
    assert_eq!(cost["processes"], 2, "{cost}");
}

#[test]
fn the_usual_cost_is_known_and_warns_of_too_little_memory() {
    let env = Env::new();
    let client = env.client();
    let command = occupying(80);
    for _ in 0..2 {
        client.run(&command);
    }
    let query = |client: &Client| client.call("zsh_alan_query", json!({"command": command}));
    let known = query(&client);
    let usual = &known.raw["structuredContent"]["usual_cost"];
    assert_eq!(usual["runs"], 2, "{usual}");
    assert!(usual["peak_bytes"].as_u64() > Some(80_000_000), "{usual}");
    assert!(known.text.contains("memory "), "{}", known.text);
    assert!(!known.text.contains("of memory, and"), "{}", known.text);
    wait_for_observations(&env, 2);
    drop(client);
    open_database(&env.path("state/alan.db"))
        .execute("UPDATE observations SET peak_bytes = 1 << 55", [])
        .expect("it is changed");
    let client = env.client();
    for text in [query(&client).text, client.run(&command).text] {
        let line = text.lines().find(|line| line.contains("of memory, and"));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        assert!(
            line.starts_with("⚠ A.L.A.N.: Usually takes ") && line.contains("may be killed"),
            "{line}"
        );
    }
}

/// A program that needs 10 MB more every few milliseconds, up to 600 MB.
const GROWS: &str = "python3 -c 'import time\nlist = []\nfor i in range(60):\n    \
                     list.append(b\"x\" * 10_000_000); time.sleep(0.02)\ntime.sleep(60)'";

/// Whether a control group holds this user's commands to a limit.
fn by_group(client: &Client) -> bool {
    let health = client.call("zsh_health", json!({})).text;
    let line = health.lines().find(|line| line.starts_with("memory ")).expect("a line about it");
    assert!(line.contains("200.0 MB at most for a command"), "{line}");
    let is_by_group = line.contains("held by a control group");
    assert!(is_by_group || line.contains("checked once a second"), "{line}");
    is_by_group
}

/// Ends commands of all kinds that need too much, and none that does not.
fn assert_limited(client: &Client) {
    let is_by_group = by_group(client);
    for arguments in [
        json!({"command": GROWS}),
        json!({"command": GROWS, "pty": true}),
        json!({"command": format!("{GROWS}; echo after; sleep 60")}),
        json!({"command": format!("({GROWS}) & ({GROWS}) & wait"), "memory_max": 300}),
    ] {
        let limit = arguments["memory_max"].as_u64().unwrap_or(200);
        let mut call = arguments.clone();
        call["yield_after"] = json!(40);
        let ended = client.call("zsh", call);
        let said = format!("✘ KILLED (memory {limit}.0 MB, limit {limit} MB)");
        let line = ended.text.lines().find(|line| line.contains("KILLED"));
        let line = line.unwrap_or_else(|| panic!("{}: {arguments}", ended.text));
        if is_by_group {
            assert!(line.starts_with(&said), "{line}");
        } else {
            assert!(line.contains(&format!(" MB, limit {limit} MB)")), "{line}");
        }
        assert_eq!(ended.status(), "killed", "{line}");
    }
    let enough = client.call("zsh", json!({"command": GROWS, "memory_max": 2000}));
    client.kill_task(&enough.task_id());
    assert!(client.run("echo still here").text.contains("✔ exit=0"));
}

#[test]
fn commands_that_need_too_much_memory_are_ended() {
    let env = Env::new();
    env.configure("memory_max: 200\n");
    let client = env.client();
    assert_limited(&client);
    let groups = "find /sys/fs/cgroup -name 'zsh-tool-*' -path \"*-$PPID-*\" 2>/dev/null";
    let left = client.call("zsh", json!({"command": groups, "memory_max": 100_000}));
    let others: Vec<&str> = left.text.lines().filter(|line| line.starts_with("/sys/")).collect();
    assert!(others.len() <= 1, "only its own: {others:?}");
    let finished = ran(&env, &["exec", "--", GROWS]);
    assert!(finished.stderr.contains("✘ KILLED (memory "), "{}", finished.stderr);
    let finished = ran(&env, &["doctor"]);
    assert!(finished.text().contains("200.0 MB at most for a command"), "{}", finished.text());
}

#[test]
fn an_ordinary_users_commands_that_need_too_much_memory_are_ended() {
    let env = Env::new();
    env.configure("memory_max: 200\n");
    assert_limited(&unprivileged::client(&env));
}

#[test]
fn memory_that_processes_share_counts_once() {
    let env = Env::new();
    let client = unprivileged::client(&env);
    // Four times 60 MB, in 16 processes.
    let shared = "for i in 1 2 3 4; do python3 -c 'import os, time\nx = b\"x\" * 60_000_000\n\
                  os.fork(); os.fork()\ntime.sleep(2.5)' & done; wait; echo fine";
    let arguments = json!({"command": shared, "memory_max": 500, "yield_after": 40});
    let ended = client.call("zsh", arguments);
    assert!(ended.text.contains("✔ exit=0"), "{}", ended.text);
    let peak = ended.meta["cost"]["peak_bytes"].as_u64().expect("a peak");
    assert!((200_000_000..500_000_000).contains(&peak), "{peak}");
}
