//! How long calls wait is up to the client, and a call that the client gives up does not end its
//! command.
//!
//! `tests/fixtures/clients/recorded.json` holds what real programs send: how they name
//! themselves, and with which reason they cancel a call whose time is up (`timed_out`) and one
//! that a person interrupts (`interrupted`). `takes_tasks` is null for programs that open with
//! `initialize`.

use std::fs;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::client::{Client, PROTOCOL_VERSION, Pending};
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::result::ToolResult;

const RECORDED: &str = include_str!("../fixtures/clients/recorded.json");

#[derive(Debug, Deserialize)]
struct Recorded {
    program: String,
    info: Value,
    takes_tasks: Option<bool>,
    ceiling_s: f64,
    timed_out: Option<TimedOut>,
    interrupted: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TimedOut {
    reason: String,
    after_ms: u64,
}

fn recorded() -> Vec<Recorded> {
    serde_json::from_str(RECORDED).expect("the recordings")
}

/// A connection that looks like that of another program.
struct Disguised<'a> {
    client: &'a Client,
    meta: Value,
}

impl<'a> Disguised<'a> {
    fn new(client: &'a Client, info: &Value, takes_tasks: Option<bool>) -> Disguised<'a> {
        let Some(takes_tasks) = takes_tasks else {
            let params = json!({
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": {},
                "clientInfo": info,
            });
            client.request("initialize", params).wait();
            client.notify("notifications/initialized", json!({}));
            return Disguised { client, meta: json!({}) };
        };
        let extensions =
            if takes_tasks { json!({"io.modelcontextprotocol/tasks": {}}) } else { json!({}) };
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
            "io.modelcontextprotocol/clientInfo": info,
        });
        Disguised { client, meta }
    }

    fn call_async(&self, tool: &str, arguments: Value) -> Pending<'a> {
        let params = json!({"name": tool, "arguments": arguments, "_meta": self.meta});
        self.client.request("tools/call", params)
    }

    fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_async(tool, arguments).tool_result()
    }

    fn kill(&self, task: &str) {
        let receipt = self.call("zsh_kill", json!({"task_id": task}));
        assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
    }

    fn health(&self) -> ToolResult {
        self.call("zsh_health", json!({}))
    }

    fn ceiling_s(&self) -> f64 {
        self.health().raw["structuredContent"]["ceiling_s"].as_f64().expect("seconds")
    }

    fn cancel(&self, call: &Pending<'_>, reason: Option<&str>) {
        let params = match reason {
            Some(reason) => json!({"requestId": call.id(), "reason": reason}),
            None => json!({"requestId": call.id()}),
        };
        self.client.notify("notifications/cancelled", params);
    }
}

fn named(name: &str, version: &str) -> Value {
    json!({"name": name, "version": version})
}

fn learned_file(env: &Env) -> std::path::PathBuf {
    env.path("state/ceilings.json")
}

#[test]
fn a_wait_is_shortened_to_what_the_client_allows() {
    let sources = [
        ("gemini-cli-mcp-client-zsh", 580.0),
        ("Visual Studio Code", 280.0),
        ("goose", 280.0),
        ("JetBrains-IU/copilot-intellij", 20.0),
        ("Zed", 50.0),
        ("Cline", 50.0),
        ("opencode", 330.0),
        ("qwen-cli-mcp-client-zsh", 580.0),
        ("copilot-cli", 330.0),
    ];
    let sources = sources.map(|(name, ceiling_s)| (named(name, "1"), None, ceiling_s));
    let recorded = recorded().into_iter();
    let recorded = recorded.map(|client| (client.info, client.takes_tasks, client.ceiling_s));
    let mut schemas = Vec::new();
    let is_sdk = |info: &Value| info["name"] == "mcp";
    let env = Env::new();
    for (info, takes_tasks, ceiling) in recorded.chain(sources) {
        let client = env.client_before_initialize();
        let disguised = Disguised::new(&client, &info, takes_tasks);
        assert_eq!(disguised.ceiling_s(), ceiling, "{info}");
        let line = format!("waits      {ceiling} s at most in one call");
        assert!(disguised.health().text.contains(&line), "{}", disguised.health().text);
        for (tool, argument, longer) in [
            ("zsh", "yield_after", "For longer waits pass background: true and poll."),
            ("zsh_poll", "listen", "To wait longer, poll again."),
        ] {
            let arguments = match tool {
                "zsh" => json!({"command": "true", "yield_after": 999}),
                _ => {
                    let task = disguised.call("zsh", json!({"command": "true"})).task_id();
                    json!({"task_id": task, "listen": 999})
                }
            };
            let result = disguised.call(tool, arguments);
            let said = format!(
                "{argument} 999 s is above the ceiling of this client's calls: {ceiling} s is used. {longer}"
            );
            assert!(result.text.contains(&said), "{info}: {}", result.text);
        }
        let list = client.request("tools/list", json!({"_meta": disguised.meta})).wait();
        if !is_sdk(&info) {
            schemas.push(list["result"]["tools"].to_string());
        }
    }
    assert!(schemas.iter().all(|schema| *schema == schemas[0]), "the same for all");
    assert!(schemas[0].contains(r#""maximum":600"#), "{}", schemas[0]);
}

#[test]
fn the_setting_is_how_long_the_client_waits() {
    let env = Env::new();
    env.configure("client_timeout: 120\n");
    let client = env.client_before_initialize();
    let disguised = Disguised::new(&client, &named("claude-code", "1"), Some(true));
    assert_eq!(disguised.ceiling_s(), 110.0);
    env.configure("client_timeout: 5\n");
    let client = env.client_before_initialize();
    let disguised = Disguised::new(&client, &named("claude-code", "1"), Some(true));
    assert_eq!(disguised.ceiling_s(), 4.5);
}

#[test]
fn a_command_survives_a_call_whose_time_is_up_and_the_next_answer_reports_it() {
    for recorded in recorded() {
        let Some(timed_out) = recorded.timed_out else {
            continue;
        };
        let env = Env::new();
        let client = env.client_before_initialize();
        let disguised = Disguised::new(&client, &recorded.info, recorded.takes_tasks);
        let sleep = UniqueSleep::new();
        let command = format!("echo begun; {sleep}");
        let call = disguised.call_async("zsh", json!({"command": command, "yield_after": 600}));
        sleep.wait_for(1);
        if recorded.info["name"] == "codex-mcp-client" {
            // Its reason does not say so, only the time does: the middle of what counts as the
            // limit, so that neither a request nor a cancellation that is late on a busy machine
            // falls out of it.
            assert!((5_000..5_100).contains(&timed_out.after_ms));
            std::thread::sleep(call.left_of(Duration::from_millis(5_100)));
        }
        disguised.cancel(&call, Some(&timed_out.reason));
        let next = disguised.call("zsh", json!({"command": "echo on", "yield_after": 20}));
        let notice = next.text.lines().next().unwrap_or_default();
        let task = notice.split('\'').nth(2).unwrap_or_default().to_owned();
        let begin = format!(
            "┌ notify: your earlier call's command still runs as task '{task}' (the call timed out): \
             zsh_poll task_id={task} wait_for=end listen="
        );
        let end = format!("  {command}");
        let is_whole = notice.starts_with(&begin) && notice.ends_with(&end);
        assert!(is_whole, "{}: {}", recorded.program, next.text);
        let after = disguised.call("zsh", json!({"command": "echo on", "yield_after": 20}));
        assert!(!after.text.contains("notify"), "once: {}", after.text);
        assert_eq!(sleep.running().len(), 1);
        let poll = disguised.call("zsh_poll", json!({"task_id": task, "listen": 5}));
        assert_eq!(poll.without_numbers(), "begun", "nothing was lost: {}", poll.text);
        assert!(!call.has_arrived(), "{}", client.describe());
        disguised.kill(&task);
    }
}

#[test]
fn a_person_who_interrupts_a_call_ends_its_command() {
    for recorded in recorded() {
        let env = Env::new();
        let client = env.client_before_initialize();
        let disguised = Disguised::new(&client, &recorded.info, recorded.takes_tasks);
        let sleep = UniqueSleep::new();
        let arguments = json!({"command": sleep.to_string(), "yield_after": 600});
        let call = disguised.call_async("zsh", arguments);
        sleep.wait_for(1);
        disguised.cancel(&call, recorded.interrupted.as_deref());
        sleep.assert_gone();
        assert!(!learned_file(&env).exists(), "{}: nothing is learned", recorded.program);
    }
}

#[test]
fn a_command_that_ends_after_its_call_was_given_up_is_reported_with_its_end() {
    let env = Env::new();
    let client = env.client();
    let gate = env.named_pipe("gate");
    let command = "echo early; read -r word < gate; echo $word; exit 3";
    let call = client.call_async("zsh", json!({"command": command, "yield_after": 40}));
    wait_until("the command runs", || {
        let tasks = client.call("zsh_tasks", json!({}));
        tasks.text.contains("running").then_some(())
    });
    let params = json!({"requestId": call.id(), "reason": "Request timed out"});
    client.notify("notifications/cancelled", params);
    fs::write(gate, "late\n").expect("the command reads");
    let task = wait_until("the end is known", || {
        let tasks = client.call("zsh_tasks", json!({"all": true}));
        let row = &tasks.raw["structuredContent"]["tasks"][0];
        (row["status"] == "failed").then(|| row["task_id"].as_str().unwrap_or_default().to_owned())
    });
    let poll = client.poll(&task, json!({"listen": 1}));
    assert_eq!(poll.without_numbers(), "early\nlate", "{}", poll.text);
    assert_eq!(poll.meta["exit_code"], json!(3));
}

#[test]
fn a_poll_whose_time_is_up_shows_nothing_and_loses_nothing() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = client.start_until(&format!("echo begun; {sleep}"), "begun");
    let arguments = json!({"task_id": task, "wait_for": "end", "listen": 40});
    let call = client.call_async("zsh_poll", arguments);
    client.ping();
    let params = json!({"requestId": call.id(), "reason": "Request timed out"});
    client.notify("notifications/cancelled", params);
    let next = client.call("zsh", json!({"command": "echo on", "yield_after": 20}));
    assert!(!next.text.contains("notify"), "the task is known: {}", next.text);
    client.kill_all_of(&task);
}

#[test]
fn a_detached_command_survives_too() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let arguments = json!({"command": sleep.to_string(), "detach": true, "yield_after": 40});
    let call = client.call_async("zsh", arguments);
    sleep.wait_for(1);
    let params = json!({"requestId": call.id(), "reason": "Request timed out"});
    client.notify("notifications/cancelled", params);
    let task = wait_until("an answer reports it", || {
        let next = client.call("zsh", json!({"command": "echo on", "yield_after": 20}));
        let line = next.text.lines().next()?.strip_prefix("┌ detached: task '")?.to_owned();
        Some(line.split('\'').next()?.to_owned())
    });
    assert_eq!(sleep.running().len(), 1);
    client.kill_all_of(&task);
}

#[test]
fn a_client_that_gave_a_call_up_gets_shorter_ones_for_thirty_days() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let info = named("patient", "1.2");
    let disguised = Disguised::new(&client, &info, None);
    let sleep = UniqueSleep::new();
    let task = client.start_until(&format!("echo begun; {sleep}"), "begun");
    let arguments = json!({"task_id": task, "wait_for": "end", "listen": 40});
    let call = disguised.call_async("zsh_poll", arguments);
    client.ping();
    disguised.cancel(&call, Some("Request timed out"));
    wait_until("it is learned", || (disguised.ceiling_s() == 2.5).then_some(()));
    let health = disguised.health();
    let said = "learned    2.5 s at most for patient 1.2, whose call timed out after 0.";
    assert!(health.text.contains(said), "{}", health.text);
    let row = &health.raw["structuredContent"]["learned_ceilings"][0];
    assert_eq!((&row["client"], &row["version"]), (&json!("patient"), &json!("1.2")));
    client.kill_all_of(&task);

    let of = |info: Value| {
        let client = env.client_before_initialize();
        Disguised::new(&client, &info, None).ceiling_s()
    };
    assert_eq!(of(info.clone()), 2.5, "of the next server too");
    assert_eq!(of(named("patient", "1.3")), 50.0, "not of another version");
    assert_eq!(of(named("codex-mcp-client", "1.2")), 280.0, "not of another client");

    let content = fs::read_to_string(learned_file(&env)).expect("what was learned");
    let mut learned: Value = serde_json::from_str(&content).expect("JSON");
    let at = learned[0]["at"].as_f64().expect("seconds");
    let old = |days: f64| json!(at - days * 24.0 * 3600.0);
    learned[0]["at"] = old(29.0);
    fs::write(learned_file(&env), learned.to_string()).expect("the file");
    assert_eq!(of(info.clone()), 2.5);
    learned[0]["at"] = old(31.0);
    fs::write(learned_file(&env), learned.to_string()).expect("the file");
    assert_eq!(of(info.clone()), 50.0);
    let entry =
        r#"{"name": "patient", "version": "1.2", "at": 1e300, "after_s": -1e300, "is_sure": true}"#;
    for garbage in ["", "\0\0", "{}", "[1, null, {}]", &format!("[{entry}]"), "[[[[[["] {
        fs::write(learned_file(&env), garbage).expect("the file");
        assert_eq!(of(info.clone()), 50.0, "{garbage:?}");
    }
}

#[test]
fn the_next_call_is_named_with_a_wait_within_the_ceiling() {
    let env = Env::new();
    for (name, takes_tasks, listen) in [
        ("codex-mcp-client", None, 280),
        ("claude-code", Some(true), 110),
        ("claude-code", Some(false), 600),
        ("app", None, 50),
    ] {
        let client = env.client_before_initialize();
        let disguised = Disguised::new(&client, &named(name, "1"), takes_tasks);
        let command = format!("for n in {{1..999}}; do print {listen} $n; sleep 0.2; done");
        let task = disguised.call("zsh", json!({"command": command})).task_id();
        let next = format!("next: zsh_poll wait_for=end listen={listen}");
        wait_until("it is known to make progress", || {
            let poll = disguised.call("zsh_poll", json!({"task_id": task}));
            let line = poll.footer().lines().find(|line| line.starts_with('◷'))?.to_owned();
            line.ends_with(&next).then_some(())
        });
        disguised.kill(&task);
    }
}

/// Takes as many seconds as `WAIT` says, and ends with `CODE`; the same command each time.
const TIMED: &str = "sleep $WAIT; exit $CODE";

fn timed(client: &Client, wait: &str, code: &str, yield_after: Option<f64>) -> ToolResult {
    let mut arguments = json!({"command": TIMED, "env": {"WAIT": wait, "CODE": code}});
    if let Some(yield_after) = yield_after {
        arguments["yield_after"] = json!(yield_after);
    }
    client.call("zsh", arguments)
}

#[test]
fn a_command_that_is_known_to_end_soon_is_waited_for() {
    let env = Env::new();
    env.configure("yield_after: 0.1\n");
    let client = env.client();
    let unknown = timed(&client, "1.5", "0", None);
    assert_eq!(unknown.status(), "running", "{}", unknown.text);
    client.poll_to_end(&unknown.task_id());
    for _ in 0..2 {
        timed(&client, "1.5", "0", Some(25.0));
    }
    let known = timed(&client, "0.4", "0", None);
    assert_eq!(known.status(), "completed", "{}", known.text);
    let asked = timed(&client, "600", "0", Some(0.2));
    assert!(asked.elapsed < Duration::from_secs(1), "{:?}", asked.elapsed);
    client.kill_all_of(&asked.task_id());
    // The one that was killed has not succeeded.
    let unsure = timed(&client, "1.5", "7", None);
    assert_eq!(unsure.status(), "running", "{}", unsure.text);
    client.poll_to_end(&unsure.task_id());
    let failed = timed(&client, "1.5", "0", None);
    assert_eq!(failed.status(), "running", "after a failure: {}", failed.text);
    client.poll_to_end(&failed.task_id());
    // It returns when the time is up.
    let long = timed(&client, "600", "0", None);
    assert_eq!(long.status(), "running", "{}", long.text);
    assert!(long.elapsed >= Duration::from_secs(1), "{:?}", long.elapsed);
    client.kill_all_of(&long.task_id());
}

#[test]
fn the_learned_wait_ends_when_the_command_waits_or_is_stopped() {
    const USUAL: Duration = Duration::from_secs(4);
    let env = Env::new();
    let client = env.client();
    let command = format!(
        "case $HOW in (read) read x;; (stop) sh -c 'kill -STOP $$';; esac; sleep {}",
        USUAL.as_secs()
    );
    let arguments =
        |how: &str| json!({"command": command, "stdin_open": true, "env": {"HOW": how}});
    let mut waited_for = arguments("sleep");
    waited_for["yield_after"] = json!(40);
    let known: Vec<_> = (0..3).map(|_| client.call_async("zsh", waited_for.clone())).collect();
    for call in known {
        assert_eq!(call.tool_result().status(), "completed");
    }
    for (how, said) in [("read", "⌨ WAITING FOR INPUT"), ("stop", "⏸ STOPPED")] {
        assert_eq!(client.call("zsh", arguments("sleep")).status(), "completed", "it is known");
        let result = client.call("zsh", arguments(how));
        assert!(result.text.contains(said), "{}", result.text);
        assert!(result.elapsed < USUAL, "{how}: {:?}", result.elapsed);
        client.kill_all_of(&result.task_id());
        // The one that was killed has not succeeded.
        assert_eq!(client.call("zsh", waited_for.clone()).status(), "completed");
    }
}

#[test]
fn the_learned_wait_has_a_limit_and_can_be_turned_off() {
    for most in ["learned_yield: 0", "learned_yield: 1"] {
        let env = Env::new();
        env.configure(&format!("yield_after: 0.1\n{most}\n"));
        let client = env.client();
        for _ in 0..3 {
            timed(&client, "1.2", "0", Some(25.0));
        }
        let known = timed(&client, "1.2", "0", None);
        assert_eq!(known.status(), "running", "{most}: {}", known.text);
        client.poll_to_end(&known.task_id());
    }
}
