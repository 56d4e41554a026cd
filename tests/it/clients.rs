//! What reaches the model through each kind of client: notices, the status of a command whose output is
//! cut, calls of programs that say nothing when they give one up.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::{Client, PROTOCOL_VERSION};
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::result::ToolResult;
use crate::support::state_files::{await_end, server_files};

fn client_named(env: &Env, name: &str) -> Client {
    let client = env.client_before_initialize();
    client.initialize_as(name, PROTOCOL_VERSION);
    client
}

#[test]
fn a_notice_is_in_the_text_and_in_the_structured_result_of_each_tool_and_only_once() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("echo x").task_id();
    let tools = [
        ("zsh", json!({"command": "echo y", "yield_after": 20}), false),
        ("zsh_poll", json!({"task_id": task, "from_line": 1}), false),
        ("zsh_send", json!({"task_id": task, "input": "x"}), false),
        ("zsh_kill", json!({"task_id": task}), false),
        ("zsh_tasks", json!({}), true),
        ("zsh_health", json!({}), true),
        ("zsh_alan_stats", json!({}), true),
        ("zsh_alan_query", json!({"command": "true"}), true),
        ("zsh_neverhang_status", json!({}), true),
        ("zsh_neverhang_reset", json!({}), true),
    ];
    let gate = env.named_pipe("gate");
    for (tool, arguments, is_structured) in tools {
        let command = "read < gate; exit 3";
        let ends = client.call("zsh", json!({"command": command, "background": true})).task_id();
        std::fs::write(&gate, "\n").expect("a reader");
        await_end(&env, &ends);
        let result = client.call(tool, arguments.clone());
        let notice = format!("┌ notify: task '{ends}' failed (exit=3, ");
        assert_eq!(result.text.matches("┌ notify").count(), 1, "{tool}: {}", result.text);
        assert!(result.text.starts_with(&notice), "{tool}: {}", result.text);
        let notices = &result.raw["structuredContent"]["notices"];
        if is_structured {
            let line = result.text.lines().next().unwrap_or_default();
            assert_eq!(*notices, json!([line]), "{tool}: {}", result.raw);
        } else {
            assert!(result.raw.get("structuredContent").is_none(), "{tool}");
        }
        let again = client.call(tool, arguments);
        assert!(!again.raw.to_string().contains("┌ notify"), "{tool}: {}", again.raw);
        assert!(again.raw["structuredContent"]["notices"].is_null(), "{tool}: {}", again.raw);
    }
}

/// What a client keeps of a text: the head alone, cut as it cuts.
fn head(text: &str, bytes: usize, lines: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let cut = &text[..end.unwrap_or(0)];
    cut.lines().take(lines).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_status_and_the_rest_of_a_long_output_survive_every_cut() {
    let env = Env::new();
    // The client, the most that it keeps whole, and how much it keeps of a longer text.
    for (name, whole_bytes, whole_lines, kept_bytes) in [
        ("opencode", 50 * 1024, 2_000, 50 * 1024),
        ("qwen-cli-mcp-client-zsh-tool", 27_700, usize::MAX, 2_000),
        ("copilot-cli", 20 * 1024, usize::MAX, 500),
    ] {
        let client = client_named(&env, name);
        for command in
            ["seq 1 60000; exit 7", "for i in {1..5000}; do echo; done; exit 7", "exit 7"]
        {
            for max_output in [200, 30_000, 490_000] {
                let arguments =
                    json!({"command": command, "yield_after": 40, "max_output": max_output});
                let result = client.call("zsh", arguments);
                let text = &result.text;
                let is_whole = text.len() <= whole_bytes && text.lines().count() <= whole_lines;
                assert!(is_whole, "{name} {command} {max_output}: {} bytes", text.len());
                let seen = head(text, kept_bytes, whole_lines);
                assert!(seen.starts_with("✘ exit=7"), "{name}: {seen}");
                if text.contains("omitted") {
                    assert!(seen.contains("zsh_poll task_id="), "{name}: {seen}");
                }
                let last = text.lines().last().unwrap_or_default();
                let task = last.strip_prefix("─── ").unwrap_or_default();
                assert!(seen.contains(&format!("task={task}")), "{name}: {last}: {seen}");
            }
        }
        // An outcome comes before notices too.
        let gate = env.named_pipe("gate");
        let arguments = json!({"command": "read < gate", "background": true});
        let started = client.call("zsh", arguments).text;
        let ends = started.lines().last().and_then(|line| line.strip_prefix("─── "));
        let ends = ends.expect("the task").to_owned();
        std::fs::write(&gate, "\n").expect("a reader");
        await_end(&env, &ends);
        std::fs::remove_file(&gate).expect("the pipe");
        let result = client.run("echo x");
        let lines: Vec<&str> = result.text.lines().collect();
        assert!(lines[0].starts_with("✔ exit=0"), "{name}: {}", result.text);
        assert!(lines[1].starts_with(&format!("┌ notify: task '{ends}'")), "{}", result.text);
    }
}

#[test]
fn clients_that_keep_both_ends_get_no_more_than_they_keep() {
    let env = Env::new();
    for (name, bytes) in [
        ("codex-mcp-client", 40_000),
        ("gemini-cli-mcp-client-zsh", 40_000),
        ("@cline/core", 8_000),
    ] {
        let client = client_named(&env, name);
        let arguments =
            json!({"command": "seq 1 60000; exit 7", "yield_after": 40, "max_output": 490_000});
        let result = client.call("zsh", arguments);
        assert!(result.text.len() <= bytes, "{name}: {}", result.text.len());
        assert!(result.text.starts_with("$ seq"), "{name}: {}", result.text);
        let is_last = |line: &&str| line.starts_with("✘ exit=7");
        assert!(result.text.lines().rev().take(4).any(|line| is_last(&line)), "{}", result.text);
        // Two of them show their models whole objects.
        let has_meta = result.raw.get("_meta").is_some();
        assert_eq!(has_meta, name == "codex-mcp-client", "{}", result.raw);
    }
}

#[test]
fn a_model_is_told_where_the_tools_own_lines_are() {
    let env = Env::new();
    for (name, said) in [
        ("copilot-cli", "Output is between `───` and `─── TASK`; only the rest is zsh-tool's."),
        ("claude-code", "Only what follows `─── TASK` is zsh-tool's."),
    ] {
        let client = env.client_before_initialize();
        let instructions = client.initialize_as(name, PROTOCOL_VERSION)["instructions"].to_string();
        assert!(instructions.contains(said), "{instructions}");
        assert!(!instructions.contains('{'), "{instructions}");
    }
}

#[test]
fn optional_arguments_are_nullable_for_programs_that_use_an_sdk() {
    let env = Env::new();
    for (name, is_sdk) in [("mcp", true), ("claude-code", false)] {
        let client = client_named(&env, name);
        let list = client.request("tools/list", json!({})).wait();
        for tool in list["result"]["tools"].as_array().expect("tools") {
            let schema = &tool["inputSchema"];
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            for (property, described) in schema["properties"].as_object().into_iter().flatten() {
                let is_marked = described["nullable"] == json!(true);
                let is_optional = !required.contains(&json!(property));
                assert_eq!(is_marked, is_sdk && is_optional, "{name}: {property}");
            }
        }
    }
}

#[test]
fn a_receipt_begins_with_the_outcome_where_the_head_is_kept() {
    let env = Env::new();
    let client = client_named(&env, "copilot-cli");
    let sleep = UniqueSleep::new();
    let task = client.start_task(&sleep.to_string());
    let receipt = client.kill_task(&task);
    let first = receipt.text.lines().next().unwrap_or_default();
    assert!(first.starts_with("✘ KILLED"), "{}", receipt.text);
    assert!(receipt.text.contains("no survivors"), "{}", receipt.text);
    assert!(receipt.text.contains(&format!("\n$ {sleep}")), "{}", receipt.text);
}

#[test]
fn a_list_is_as_long_as_the_client_keeps_it() {
    let env = Env::new();
    let client = client_named(&env, "@cline/core");
    for _ in 0..30 {
        client.run("true");
    }
    let list = client.call("zsh_tasks", json!({"all": true, "limit": 1000}));
    let bytes = list.text.len() + list.raw["structuredContent"].to_string().len();
    assert!(bytes <= 8_000, "{bytes}: {}", list.text);
    assert!(list.text.contains("more: raise limit"), "{}", list.text);
}

fn ceiling_s(client: &Client) -> Value {
    client.call("zsh_health", json!({})).raw["structuredContent"]["ceiling_s"].clone()
}

#[test]
fn what_a_program_of_an_sdk_gives_up_counts_for_its_connection_alone() {
    let env = Env::new();
    let client = client_named(&env, "mcp");
    assert_eq!(ceiling_s(&client), json!(50.0));
    let sleep = UniqueSleep::new();
    let task = client.start_until(&format!("echo begun; {sleep}"), "begun");
    let arguments = json!({"task_id": task, "wait_for": "end", "listen": 40});
    let call = client.call_async("zsh_poll", arguments);
    client.ping();
    let params = json!({"requestId": call.id(), "reason": "timed out after 1s"});
    client.notify("notifications/cancelled", params);
    wait_until("it is learned", || (ceiling_s(&client) == json!(2.5)).then_some(()));
    client.kill_all_of(&task);
    assert!(!env.path("state/ceilings.json").exists());
    assert_eq!(ceiling_s(&client_named(&env, "mcp")), json!(50.0), "another program");
}

#[test]
fn a_call_that_is_given_up_without_a_word_is_found_by_the_next() {
    let env = Env::new();
    let client = client_named(&env, "mcp");
    let sleep = UniqueSleep::new();
    let command = format!("echo begun; {sleep}");
    let given_up = client.call_async("zsh", json!({"command": command, "yield_after": 40}));
    sleep.wait_for(1);
    // As long as the least patient of these programs waits, from when the server has the call for sure.
    std::thread::sleep(Duration::from_millis(3_100));
    // Its own request is not of a call.
    client.ping();
    let next = wait_until("the next answer tells of it", || {
        let next = client.call("zsh", json!({"command": "echo next", "yield_after": 20}));
        next.text.contains("┌ notify").then_some(next)
    });
    let notice = next.text.lines().next().unwrap_or_default();
    let begin = "┌ notify: your earlier call's command still runs as task '";
    assert!(notice.starts_with(begin), "{}", next.text);
    let task = notice.split('\'').nth(2).unwrap_or_default().to_owned();
    assert_eq!(sleep.running().len(), 1);
    // The client may still wait: it gets an answer.
    let late: ToolResult = given_up.tool_result();
    assert!(late.is_error && late.text.contains("zsh_tasks lists what runs"), "{}", late.text);
    wait_until("it is learned", || {
        let ceiling = ceiling_s(&client).as_f64().expect("seconds");
        (2.5..=4.5).contains(&ceiling).then_some(())
    });
    let polled = client.poll(&task, json!({"listen": 1}));
    assert_eq!(polled.without_numbers(), "begun", "nothing was lost: {}", polled.text);
    client.kill_all_of(&task);
}

#[test]
fn calls_at_once_are_not_taken_for_given_up() {
    let env = Env::new();
    for name in ["mcp", "claude-code"] {
        let client = client_named(&env, name);
        let sleep = UniqueSleep::new();
        let task = client.start_until(&format!("echo begun; {sleep}"), "begun");
        // Two in one turn: later ones may come at any time.
        let arguments = json!({"task_id": task, "wait_for": "end", "listen": 40});
        let first = client.call_async("zsh_poll", arguments);
        if name == "mcp" {
            client.run("echo beside");
        }
        std::thread::sleep(first.left_of(Duration::from_millis(3_200)));
        client.run("echo later");
        assert!(!first.has_arrived(), "{name}: it still waits");
        client.kill_all_of(&task);
        assert_eq!(first.tool_result().status(), "killed", "{name}");
    }
}

#[test]
fn progress_is_in_tenths() {
    let env = Env::new();
    let client = env.client();
    let command = "for i in {1..12}; do echo $i; sleep 0.2; done";
    let params = json!({
        "name": "zsh",
        "arguments": {"command": command, "yield_after": 20},
        "_meta": {"progressToken": 7},
    });
    client.request("tools/call", params).wait();
    let mut values = Vec::new();
    for frame in client.frames() {
        let message = &frame.value;
        if message["method"] == "notifications/progress" {
            assert!(message["params"]["total"].is_null(), "it is not known: {message}");
            values.push(message["params"]["progress"].to_string());
        }
    }
    assert!(!values.is_empty());
    for value in values {
        let decimals = value.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        assert!(decimals <= 1, "{value}");
    }
}

#[test]
fn a_person_is_asked_for_a_password_by_the_page_where_the_client_opens_addresses() {
    let env = Env::new();
    env.configure("http: 127.0.0.1:0\n");
    let asks = json!({"command": "read -s 'a?Password: '; echo got ${#a}", "pty": true, "yield_after": 20});
    let requests = |client: &Client| -> Vec<Value> {
        let frames = client.frames().into_iter().map(|frame| frame.value);
        frames.filter(|message| message["method"] == "elicitation/create").collect()
    };
    for (capabilities, opens) in [
        (json!({"elicitation": {"form": {}, "url": {}}}), true),
        (json!({"elicitation": {}}), false),
        (json!({}), false),
    ] {
        let client = env.client_before_initialize();
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": capabilities,
            "clientInfo": {"name": "codex-mcp-client", "version": "1"},
        });
        client.request("initialize", params).wait();
        let waits = client.call("zsh", asks.clone());
        assert!(waits.text.contains("WAITING FOR A PASSWORD"), "{}", waits.text);
        let task = waits.task_id();
        client.poll(&task, json!({"listen": 0}));
        client.ping();
        let asked = requests(&client);
        assert_eq!(asked.len(), usize::from(opens), "{asked:?}");
        if let Some(asked) = asked.first() {
            let params = &asked["params"];
            assert_eq!(params["mode"], "url");
            let message = params["message"].as_str().unwrap_or_default();
            assert!(message.contains(&task) && message.contains("\"Password:\""), "{message}");
            // The token is for the person alone.
            let file = server_files(&env, "monitor.url").pop().expect("the link's file");
            let link = std::fs::read_to_string(&file).expect("the link");
            let (address, token) = link.trim().split_once("#token=").expect("a link");
            assert_eq!(params["url"], address);
            assert!(message.contains(&file.display().to_string()), "{message}");
            assert!(!asked.to_string().contains(token), "{asked}");
            // A refusal changes nothing.
            let refusal =
                json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
            client.send_raw(format!("{refusal}\n").as_bytes());
        }
        let sent = client.call("zsh_send", json!({"task_id": task, "input": "four", "listen": 20}));
        assert!(sent.text.contains("got 4"), "{}", sent.text);
        let completed = || {
            client.ping();
            let frames = client.frames();
            let method = |frame: &Value| frame["method"] == "notifications/elicitation/complete";
            frames.iter().filter(|frame| method(&frame.value)).count()
        };
        if opens {
            // It is sent beside the answer.
            wait_until("the completion", || (completed() > 0).then_some(()));
        }
        assert_eq!(completed(), usize::from(opens));
    }
}
