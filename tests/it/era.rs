//! The stateless era beside the legacy ones: envelopes, discovery, tasks of the client's.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::{Client, PROTOCOL_VERSION, Pending};
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::result::ToolResult;

const VERSION: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
const TASKS: &str = "io.modelcontextprotocol/tasks";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// The envelope of a client without any capability.
fn plain() -> Value {
    json!({VERSION_KEY: VERSION, CAPABILITIES_KEY: {}})
}

/// The envelope of a client that takes tasks.
fn taking_tasks() -> Value {
    json!({VERSION_KEY: VERSION, CAPABILITIES_KEY: {"extensions": {TASKS: {}}}})
}

fn ask<'a>(client: &'a Client, method: &str, mut params: Value, meta: Value) -> Pending<'a> {
    params["_meta"] = meta;
    client.request(method, params)
}

/// A result of the stateless era, which says that it is whole and who answers.
fn result(client: &Client, method: &str, params: Value, meta: Value) -> Value {
    let response = ask(client, method, params, meta).wait();
    let result = response["result"].clone();
    assert!(result["resultType"].is_string(), "{response}");
    assert_eq!(result["_meta"][SERVER_KEY]["name"], json!("zsh-tool"));
    result
}

fn error_code(client: &Client, method: &str, params: Value, meta: Value) -> Value {
    ask(client, method, params, meta).wait()["error"]["code"].clone()
}

/// A command that becomes a task of the client's; its id.
pub fn begin_task(client: &Client, mut arguments: Value) -> String {
    arguments["background"] = json!(true);
    let call = json!({"name": "zsh", "arguments": arguments});
    let created = result(client, "tools/call", call, taking_tasks());
    assert_eq!(created["resultType"], json!("task"), "{created}");
    assert_eq!(created["status"], json!("working"), "{created}");
    assert_eq!(created.get("content"), None, "{created}");
    created["taskId"].as_str().expect("a task id").to_owned()
}

pub fn get_task(client: &Client, task: &str) -> Value {
    let task = result(client, "tasks/get", json!({"taskId": task}), taking_tasks());
    assert_eq!(task["resultType"], json!("complete"), "{task}");
    task
}

pub fn await_task(client: &Client, task: &str) -> Value {
    wait_until("the task is over", || {
        let task = get_task(client, task);
        (task["status"] != json!("working")).then_some(task)
    })
}

pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn discovery_tells_versions_capabilities_and_instructions() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let discovery = result(&client, "server/discover", json!({}), plain());
    assert_eq!(discovery["resultType"], json!("complete"));
    assert_eq!(discovery["supportedVersions"], json!([VERSION]));
    assert_eq!(discovery["capabilities"]["tools"], json!({}));
    assert_eq!(discovery["capabilities"]["extensions"], json!({TASKS: {}}));
    assert!(discovery["instructions"].is_string(), "{discovery}");
    assert!(discovery["ttlMs"].is_u64(), "{discovery}");
    assert_eq!(discovery["cacheScope"], json!("private"));
    client.assert_only_frames();
}

#[test]
fn an_envelope_that_lacks_something_is_refused_by_name() {
    let env = Env::new();
    let client = env.client_before_initialize();
    for (meta, named) in [
        (json!({}), VERSION_KEY),
        (json!({VERSION_KEY: VERSION}), CAPABILITIES_KEY),
        (json!({CAPABILITIES_KEY: {}}), VERSION_KEY),
        (json!({VERSION_KEY: 20260728, CAPABILITIES_KEY: {}}), VERSION_KEY),
        (json!({VERSION_KEY: VERSION, CAPABILITIES_KEY: "none"}), CAPABILITIES_KEY),
    ] {
        let answer = ask(&client, "server/discover", json!({}), meta.clone()).wait();
        assert_eq!(answer["error"]["code"], json!(INVALID_PARAMS), "{meta}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(named), "{meta}: {message}");
    }
    let bare = client.request("server/discover", json!({})).wait();
    assert_eq!(bare["error"]["code"], json!(INVALID_PARAMS), "{bare}");
}

#[test]
fn an_unknown_version_is_answered_with_those_that_are_served() {
    let env = Env::new();
    let client = env.client_before_initialize();
    for requested in ["2026-07-29", "2025-11-25", "", "v999.0.0"] {
        for method in ["server/discover", "tools/list", "tools/call"] {
            let meta = json!({VERSION_KEY: requested, CAPABILITIES_KEY: {}});
            let answer = ask(&client, method, json!({}), meta).wait();
            assert_eq!(answer["error"]["code"], json!(UNSUPPORTED_VERSION));
            let data = json!({"supported": [VERSION], "requested": requested});
            assert_eq!(answer["error"]["data"], data, "{method}");
        }
        // What else that version asks for is not known, so nothing else is missed.
        let bare = json!({VERSION_KEY: requested});
        let code = error_code(&client, "server/discover", json!({}), bare);
        assert_eq!(code, json!(UNSUPPORTED_VERSION), "{requested}");
    }
}

#[test]
fn what_the_handshake_era_has_is_unknown_in_the_stateless_one() {
    let env = Env::new();
    let client = env.client_before_initialize();
    for method in
        ["initialize", "ping", "logging/setLevel", "tasks/result", "tasks/list", "prompts/list"]
    {
        let code = error_code(&client, method, json!({}), taking_tasks());
        assert_eq!(code, json!(METHOD_NOT_FOUND), "{method}");
    }
}

#[test]
fn both_eras_are_served_side_by_side_on_one_connection() {
    let env = Env::new();
    let client = env.client_before_initialize();
    // Nothing has been said about eras yet: as before there was a second one.
    assert!(client.request("tools/list", json!({})).wait()["result"].is_object());
    result(&client, "server/discover", json!({}), plain());
    let eraless = client.request("tools/list", json!({})).wait();
    assert_eq!(eraless["error"]["code"], json!(INVALID_PARAMS), "{eraless}");

    let initialized = client.initialize_at("2025-11-25");
    assert_eq!(initialized["protocolVersion"], json!("2025-11-25"));
    let legacy = client.call("zsh", json!({"command": "echo legacy", "yield_after": 20}));
    assert_eq!(legacy.output(), "legacy");
    assert_eq!(legacy.raw.get("resultType"), None, "{}", legacy.raw);
    assert_eq!(legacy.raw["_meta"].get(SERVER_KEY), None, "{}", legacy.raw);

    let call =
        json!({"name": "zsh", "arguments": {"command": "echo stateless", "yield_after": 20}});
    let stateless = result(&client, "tools/call", call, plain());
    assert_eq!(stateless["resultType"], json!("complete"));
    assert!(text(&stateless).contains("\nstateless\n"), "{stateless}");
    client.ping();
}

#[test]
fn both_eras_list_the_same_tools_and_one_says_how_long_the_list_holds() {
    let env = Env::new();
    let client = env.client_before_initialize();
    // The requests of the other era name no client either.
    client.initialize_as("", PROTOCOL_VERSION);
    let legacy = client.request("tools/list", json!({})).wait();
    let [first, second] =
        [(); 2].map(|()| result(&client, "tools/list", json!({}), plain()).to_string());
    assert_eq!(first, second);
    let stateless: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(stateless["tools"].to_string(), legacy["result"]["tools"].to_string());
    assert_eq!(stateless["cacheScope"], json!("private"), "the list is for such clients");
    assert!(stateless["ttlMs"].as_u64() > Some(0));
    assert_eq!(legacy["result"].get("ttlMs"), None);
}

#[test]
fn wrong_calls_get_the_same_codes_as_in_the_legacy_era() {
    let env = Env::new();
    let client = env.client_before_initialize();
    for params in [json!({"name": "none"}), json!({}), json!({"name": 5})] {
        let code = error_code(&client, "tools/call", params.clone(), plain());
        assert_eq!(code, json!(INVALID_PARAMS), "{params}");
    }
    let call = json!({"name": "zsh", "arguments": {"comand": "true"}});
    let wrong = result(&client, "tools/call", call, plain());
    assert_eq!(wrong["isError"], json!(true), "{wrong}");
    assert_eq!(wrong["resultType"], json!("complete"), "{wrong}");
}

#[test]
fn stateless_calls_report_progress_and_can_be_cancelled() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let mut meta = plain();
    meta["progressToken"] = json!("token-9");
    // It goes on until the test has seen enough.
    let command = "until [[ -e enough ]]; do echo tick $RANDOM; sleep 0.1; done";
    let call = json!({"name": "zsh", "arguments": {"command": command, "yield_after": 25}});
    let told = ask(&client, "tools/call", call, meta);
    wait_until("progress is told", || {
        let frames = client.frames();
        let mut frames = frames.iter();
        let is_told = frames.any(|frame| {
            frame.value["method"] == json!("notifications/progress")
                && frame.value["params"]["progressToken"] == json!("token-9")
        });
        is_told.then_some(())
    });
    std::fs::write(env.work().join("enough"), "").expect("a file");
    let ended = told.tool_result();
    assert_eq!(ended.status(), "completed", "{}", ended.text);

    let sleep = UniqueSleep::new();
    let call =
        json!({"name": "zsh", "arguments": {"command": sleep.to_string(), "yield_after": 50}});
    let running = ask(&client, "tools/call", call, plain());
    sleep.wait_for(1);
    client.cancel(&running);
    sleep.assert_gone();
    result(&client, "tools/list", json!({}), plain());
    assert!(!running.has_arrived(), "{}", client.describe());
}

#[test]
fn a_task_goes_to_its_end_and_its_result_is_the_whole_output() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let pipe = env.named_pipe("go");
    let task = begin_task(&client, json!({"command": "echo one; read < go; echo two; exit 3"}));
    let working = wait_until("it shows its newest line", || {
        let working = get_task(&client, &task);
        (working["statusMessage"] == json!("one")).then_some(working)
    });
    assert_eq!(working["status"], json!("working"));
    assert_eq!(working["taskId"], json!(task));
    assert!(working["ttlMs"].as_u64() > Some(0), "{working}");
    assert!(working["pollIntervalMs"].as_u64() > Some(0), "{working}");
    for time in ["createdAt", "lastUpdatedAt"] {
        let written = working[time].as_str().unwrap_or_default();
        assert!(written.starts_with("20") && written.ends_with('Z'), "{working}");
    }
    for absent in ["result", "error", "inputRequests", "requestState"] {
        assert_eq!(working.get(absent), None, "{working}");
    }

    // What a poll has shown is in the result all the same.
    let poll =
        json!({"name": "zsh_poll", "arguments": {"task_id": task, "until": "one", "listen": 20}});
    let polled = result(&client, "tools/call", poll, taking_tasks());
    assert!(text(&polled).contains("1: one"), "{polled}");
    std::fs::write(pipe, "\n").expect("the command reads");
    let ended = await_task(&client, &task);
    assert_eq!(ended["status"], json!("completed"), "{ended}");
    let outcome = ToolResult::new(ended["result"].clone(), Duration::ZERO);
    assert_eq!(outcome.output(), "one\ntwo");
    assert_eq!(outcome.meta["exit_code"], json!(3));
    assert!(!outcome.is_error);
    assert_eq!(ended["result"]["resultType"], json!("complete"));
    // Asking again gives it again.
    assert_eq!(get_task(&client, &task)["result"], ended["result"]);
}

#[test]
fn a_task_that_was_told_by_its_client_is_told_by_no_notice() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let task = begin_task(&client, json!({"command": "exit 7"}));
    wait_until("it is listed as ended", || {
        let call = json!({"name": "zsh_tasks", "arguments": {"all": true}});
        let listed = result(&client, "tools/call", call, plain());
        assert!(!text(&listed).contains("┌ notify"), "{listed}");
        text(&listed).contains("failed exit=7").then_some(())
    });
    assert_eq!(get_task(&client, &task)["status"], json!("completed"));
}

#[test]
fn the_result_of_a_task_is_cut_as_the_call_asked() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let task = begin_task(&client, json!({"command": "print -l {1..9000}", "max_output": 500}));
    let ended = await_task(&client, &task);
    let shown = text(&ended["result"]);
    assert!(shown.chars().count() < 1_000, "{}", shown.len());
    assert!(shown.contains("\n1\n") && shown.contains("\n9000\n"), "{shown}");
}

#[test]
fn the_result_of_a_task_says_all_there_is_to_say_however_often_it_is_asked_for() {
    let env = Env::new();
    env.configure("insights: all\n");
    let client = env.client_before_initialize();
    let task =
        begin_task(&client, json!({"command": "no-such-command-anywhere", "timeout": 99_999}));
    let ended = await_task(&client, &task);
    let said = text(&ended["result"]);
    for part in
        ["timeout 99999 s is above the maximum", "A.L.A.N.: command not found", "New pattern"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    for _ in 0..2 {
        assert_eq!(get_task(&client, &task)["result"], ended["result"]);
    }
}

#[test]
fn the_result_of_a_task_is_coloured_for_the_client_that_shows_colours() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let task = begin_task(&client, json!({"command": "exit 3"}));
    let plain = await_task(&client, &task);
    assert!(!text(&plain["result"]).contains('\x1b'), "{plain}");
    let mut meta = taking_tasks();
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "claude-code", "version": "2"});
    let shown = result(&client, "tasks/get", json!({"taskId": task}), meta);
    let shown = text(&shown["result"]);
    assert!(shown.contains("\x1b[31m✘ exit=3\x1b[0m"), "{shown:?}");
}

#[test]
fn where_no_person_watches_nothing_is_coloured() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let call = json!({"name": "zsh", "arguments": {"command": "exit 3"}});
    let text_for = |mut meta: Value| {
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "claude-code", "version": "2"});
        text(&result(&client, "tools/call", call.clone(), meta)).to_owned()
    };
    // Headless, Claude Code does not declare the tasks extension.
    let headless = text_for(plain());
    assert!(headless.contains("\n✘ exit=3 "), "{headless:?}");
    assert!(text_for(taking_tasks()).contains("\x1b[31m✘ exit=3\x1b[0m"));
    client.initialize_as("claude-code", "2025-06-18");
    let legacy = client.run("exit 3");
    assert!(legacy.text.contains("\n✘ exit=3 "), "{:?}", legacy.text);
}

#[test]
fn a_subscription_is_acknowledged_and_brings_nothing() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let listen = |params: Value| ask(&client, "subscriptions/listen", params, plain());
    let wanted = json!({"notifications": {"toolsListChanged": true, "taskIds": ["ab"]}});
    let open = listen(wanted);
    let acknowledged = wait_until("the subscription is acknowledged", || {
        let mut frames = client.frames().into_iter().map(|frame| frame.value);
        frames.find(|frame| frame["method"] == json!("notifications/subscriptions/acknowledged"))
    });
    let params = &acknowledged["params"];
    assert_eq!(params["notifications"], json!({}), "{acknowledged}");
    let id = &params["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(id, open.id(), "{acknowledged}");
    let refused = listen(json!({})).wait();
    assert_eq!(refused["error"]["code"], json!(INVALID_PARAMS), "{refused}");
    client.notify("notifications/cancelled", json!({"requestId": open.id()}));
    // The server goes on, and has not answered the subscription.
    result(&client, "tools/list", json!({}), plain());
    assert!(!open.has_arrived());
    client.initialize();
    let legacy = client.request("subscriptions/listen", json!({"notifications": {}}));
    let refused = legacy.wait();
    assert_eq!(refused["error"]["code"], json!(METHOD_NOT_FOUND), "{refused}");
}

#[test]
fn a_background_call_that_waits_for_a_line_becomes_a_task_when_none_comes() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let call = |until: &str, yield_after: f64| {
        let arguments = json!({
            "command": "echo ready; sleep 60", "background": true, "until": until,
            "yield_after": yield_after,
        });
        let call = json!({"name": "zsh", "arguments": arguments});
        result(&client, "tools/call", call, taking_tasks())
    };
    let ready = call("^ready$", 50.0);
    assert!(text(&ready).contains("\nready\n"), "{ready}");
    assert!(text(&ready).contains("RUNNING"), "{ready}");
    assert_eq!(call("^never$", 0.1)["resultType"], json!("task"));
}

#[test]
fn cancelling_a_task_ends_its_whole_tree() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let sleep = UniqueSleep::new();
    let command = format!("(setsid {sleep} &); {sleep}");
    let task = begin_task(&client, json!({"command": command}));
    sleep.wait_for(2);
    let id = json!({"taskId": task});
    let cancelled = result(&client, "tasks/cancel", id, taking_tasks());
    for absent in ["taskId", "status", "result", "error"] {
        assert_eq!(cancelled.get(absent), None, "{cancelled}");
    }
    sleep.assert_gone();
    let ended = await_task(&client, &task);
    assert_eq!(ended["status"], json!("cancelled"), "{ended}");
    assert_eq!(ended.get("result"), None, "{ended}");
    let killed = json!({"name": "zsh_poll", "arguments": {"task_id": task}});
    let killed = result(&client, "tools/call", killed, plain());
    assert!(text(&killed).contains("KILLED"), "{killed}");
}

#[test]
fn cancelling_a_task_after_its_end_spares_what_it_left_behind() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let sleep = UniqueSleep::new();
    let task = begin_task(&client, json!({"command": format!("{sleep} &")}));
    assert_eq!(await_task(&client, &task)["status"], json!("completed"));
    sleep.wait_for(1);
    result(&client, "tasks/cancel", json!({"taskId": task}), taking_tasks());
    assert_eq!(get_task(&client, &task)["status"], json!("completed"));
    assert_eq!(sleep.running().len(), 1);
    client.close_stdin();
    sleep.assert_gone();
}

#[test]
fn a_task_that_waits_for_input_says_so_and_goes_on_when_it_gets_some() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let task =
        begin_task(&client, json!({"command": "read 'x?Name: '; echo hello $x", "pty": true}));
    wait_until("it says what it waits for", || {
        let working = get_task(&client, &task);
        assert_eq!(working["status"], json!("working"), "{working}");
        let message = working["statusMessage"].as_str().unwrap_or_default();
        message.starts_with("waits for input \"Name:\"").then_some(())
    });
    let update = json!({"taskId": task, "inputResponses": {"unheard-of": {"action": "accept"}}});
    result(&client, "tasks/update", update, taking_tasks());
    let send = json!({"name": "zsh_send", "arguments": {"task_id": task, "input": "Ada"}});
    result(&client, "tools/call", send, plain());
    let ended = await_task(&client, &task);
    assert!(text(&ended["result"]).contains("hello Ada"), "{ended}");
}

#[test]
fn a_tasks_methods_need_the_extension_and_a_known_task() {
    let env = Env::new();
    let client = env.client_before_initialize();
    let methods = ["tasks/get", "tasks/cancel", "tasks/update"];
    for method in methods {
        let params = || json!({"taskId": "ffffffff", "inputResponses": {}});
        let undeclared = ask(&client, method, params(), plain()).wait();
        assert_eq!(undeclared["error"]["code"], json!(MISSING_CAPABILITY));
        let required = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
        assert_eq!(undeclared["error"]["data"], required, "{method}");
        let code = error_code(&client, method, params(), taking_tasks());
        assert_eq!(code, json!(INVALID_PARAMS), "{method}");
        let code = error_code(&client, method, json!({}), taking_tasks());
        assert_eq!(code, json!(INVALID_PARAMS), "{method}");
    }
    client.initialize();
    for method in methods {
        let answer = client.request(method, json!({"taskId": "x"})).wait();
        assert_eq!(answer["error"]["code"], json!(METHOD_NOT_FOUND), "{method}");
    }
}

#[test]
fn only_a_background_call_of_a_client_that_takes_tasks_becomes_one() {
    let env = Env::new();
    let client = env.client();
    let call = |arguments: Value, meta: Value| {
        let call = json!({"name": "zsh", "arguments": arguments});
        result(&client, "tools/call", call, meta)["resultType"].clone()
    };
    let running = json!({"command": "sleep 60", "yield_after": 0});
    let background = json!({"command": "sleep 60", "background": true});
    assert_eq!(call(running, taking_tasks()), json!("complete"));
    assert_eq!(call(background.clone(), plain()), json!("complete"));
    let legacy = client.call("zsh", background.clone());
    assert_eq!(legacy.status(), "running", "{}", legacy.text);
    assert_eq!(call(background, taking_tasks()), json!("task"));
}

#[test]
fn the_configuration_turns_tasks_off_or_on_for_every_call_that_yields() {
    let off = Env::new();
    off.configure("mcp_tasks: off\n");
    let client = off.client_before_initialize();
    let discovery = result(&client, "server/discover", json!({}), taking_tasks());
    assert_eq!(
        discovery["capabilities"],
        json!({"tools": {}, "experimental": {"codex/sandbox-state-meta": {}}})
    );
    let background =
        json!({"name": "zsh", "arguments": {"command": "sleep 60", "background": true}});
    let running = result(&client, "tools/call", background, taking_tasks());
    assert!(text(&running).contains("RUNNING"), "{running}");
    let code = error_code(&client, "tasks/get", json!({"taskId": "x"}), taking_tasks());
    assert_eq!(code, json!(METHOD_NOT_FOUND));

    let always = Env::new();
    always.configure("mcp_tasks: always\n");
    let client = always.client_before_initialize();
    let call = |command: &str, yield_after: f64| {
        let arguments = json!({"command": command, "yield_after": yield_after});
        let call = json!({"name": "zsh", "arguments": arguments});
        result(&client, "tools/call", call, taking_tasks())
    };
    assert!(text(&call("echo at once", 20.0)).contains("\nat once\n"));
    assert_eq!(call("sleep 60", 0.1)["resultType"], json!("task"));
}
