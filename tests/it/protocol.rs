//! The protocol, frame by frame: versions, framing, errors, schemas.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::{Client, Pending};
use crate::support::env::{Env, binary};
use crate::support::inbox::Framing;

/// The legacy versions, oldest first.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// The longest line that the server takes.
const LINE_LIMIT: usize = 16 * 1024 * 1024;

#[test]
fn initialize_echoes_a_known_version_and_offers_the_newest_for_another() {
    let newest = VERSIONS[VERSIONS.len() - 1];
    let asked = VERSIONS.map(|version| (version, version));
    for (version, expected) in asked.into_iter().chain([("1999-01-01", newest)]) {
        let env = Env::new();
        let client = env.client_before_initialize();
        let result = client.initialize_at(version);
        assert_eq!(result["protocolVersion"], json!(expected));
        assert_eq!(result["serverInfo"]["name"], json!("zsh-tool"));
        assert!(result["serverInfo"]["version"].is_string());
        assert!(result["capabilities"]["tools"].is_object());
        let instructions = result["instructions"].as_str().unwrap_or_default();
        assert!((1..=2000).contains(&instructions.chars().count()));
        client.ping();
    }
}

#[test]
fn an_environment_of_home_and_path_is_enough() {
    let env = Env::new();
    let mut command = env.serve();
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", env.path("home"));
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    let result = client.run("print -r -- $LANG; x=äö; print ${#x}");
    assert_eq!(result.output(), "C.UTF-8\n2", "{}", result.text);
    let log = result.meta["log_path"].as_str().unwrap_or_default();
    let state = env.path("home/.local/state/zsh-tool");
    assert!(log.starts_with(&state.display().to_string()), "{log}");
    let health = client.call("zsh_health", json!({}));
    assert_eq!(health.raw["structuredContent"]["status"], json!("ok"));
}

#[test]
fn a_ping_is_answered_while_a_command_runs() {
    let env = Env::new();
    let client = env.client();
    let go_on = env.named_pipe("go_on");
    let arguments = json!({"command": "read -r _ <go_on", "yield_after": 25});
    let call = client.call_async("zsh", arguments);
    client.ping();
    assert!(!call.has_arrived(), "{}", client.describe());
    fs::write(go_on, "\n").expect("the command reads");
    assert_eq!(call.tool_result().meta["exit_code"], json!(0));
}

#[test]
fn the_list_of_tools_is_the_same_bytes_every_time() {
    let env = Env::new();
    let client = env.client();
    let lists = ["list-a", "list-b"].map(|id| {
        let request = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}));
        client.send_raw(request.as_bytes());
        client.next_raw_response().raw.replace(id, "list")
    });
    assert_eq!(lists[0], lists[1]);
    let other = Env::new();
    let other = other.client();
    let request = json!({"jsonrpc": "2.0", "id": "list-a", "method": "tools/list"});
    other.send_raw(format!("{request}\n").as_bytes());
    assert_eq!(lists[0], other.next_raw_response().raw.replace("list-a", "list"));
}

#[test]
fn every_schema_is_closed_and_every_argument_described() {
    let env = Env::new();
    let client = env.client();
    let tools = tools(&client);
    let names: BTreeSet<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let expected = [
        "zsh",
        "zsh_poll",
        "zsh_send",
        "zsh_kill",
        "zsh_tasks",
        "zsh_health",
        "zsh_alan_stats",
        "zsh_alan_query",
        "zsh_neverhang_status",
        "zsh_neverhang_reset",
    ];
    for name in expected {
        assert!(names.contains(name), "{name} in {names:?}");
    }
    assert_eq!(names.len(), tools.len(), "a name stands twice");
    for tool in &tools {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], json!("object"), "{tool}");
        assert_eq!(schema["additionalProperties"], json!(false), "{tool}");
        assert!(!tool.to_string().contains("$ref"), "{tool}");
        let described = tool["description"].as_str().map_or(0, |text| text.chars().count());
        assert!((1..=2000).contains(&described), "{tool}");
        let none = serde_json::Map::new();
        for (name, argument) in schema["properties"].as_object().unwrap_or(&none) {
            assert!(argument["description"].is_string(), "{name} of {tool}");
        }
    }
}

#[test]
fn tools_say_what_they_do_to_the_world() {
    let env = Env::new();
    let client = env.client();
    for tool in tools(&client) {
        let name = tool["name"].as_str().unwrap_or_default();
        let hint = |hint: &str| tool["annotations"][hint] == json!(true);
        match name {
            "zsh" | "zsh_send" | "zsh_kill" => assert!(hint("destructiveHint"), "{tool}"),
            "zsh_neverhang_reset" => {
                assert!(hint("idempotentHint") && !hint("destructiveHint"), "{tool}");
            }
            _ => assert!(hint("readOnlyHint"), "{tool}"),
        }
        if ["zsh", "zsh_poll", "zsh_send", "zsh_kill"].contains(&name) {
            // Clients drop the text when there is structured content.
            assert_eq!(tool["outputSchema"], Value::Null, "{tool}");
            assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], json!(true), "{tool}");
        }
        if ["zsh", "zsh_poll"].contains(&name) {
            assert!(tool["_meta"]["anthropic/maxResultSizeChars"].is_u64(), "{tool}");
        }
    }
}

#[test]
fn results_of_commands_have_no_structured_content() {
    let env = Env::new();
    let client = env.client();
    let result = client.call("zsh", json!({"command": "false", "yield_after": 20}));
    assert_eq!(result.raw["structuredContent"], Value::Null);
    // A command that failed is the command's affair, not the tool's.
    assert!(!result.is_error);
    assert_eq!(result.raw["content"].as_array().map(Vec::len), Some(1));
    assert_eq!(result.raw["content"][0]["type"], json!("text"));
}

#[test]
fn malformed_frames_get_their_code_and_the_server_goes_on() {
    let env = Env::new();
    let client = env.client();
    let cases: [(&[u8], i64, Value); 13] = [
        (b"{bad", PARSE_ERROR, Value::Null),
        (b"}", PARSE_ERROR, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1", PARSE_ERROR, Value::Null),
        (b"\xff\xfe\xfd", PARSE_ERROR, Value::Null),
        (b"[]", INVALID_REQUEST, Value::Null),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            INVALID_REQUEST,
            Value::Null,
        ),
        (b"42", INVALID_REQUEST, Value::Null),
        (br#""ping""#, INVALID_REQUEST, Value::Null),
        (
            br#"{"jsonrpc":"2.0","id":"m","method":"no/such"}"#,
            METHOD_NOT_FOUND,
            json!("m"),
        ),
        (
            br#"{"jsonrpc":"2.0","id":70,"method":"tools/call","params":{"name":"none","arguments":{}}}"#,
            INVALID_PARAMS,
            json!(70),
        ),
        (
            br#"{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{}}"#,
            INVALID_PARAMS,
            json!(71),
        ),
        (
            br#"{"jsonrpc":"2.0","id":72,"method":"tools/call","params":[1]}"#,
            INVALID_PARAMS,
            json!(72),
        ),
        (
            br#"{"jsonrpc":"2.0","id":73,"method":"tools/call"}"#,
            INVALID_PARAMS,
            json!(73),
        ),
    ];
    for (bytes, code, id) in cases {
        let shown = String::from_utf8_lossy(bytes);
        client.send_raw(bytes);
        client.send_raw(b"\n");
        let response = client.next_raw_response().value;
        assert_eq!(response["error"]["code"], json!(code), "{shown}: {response}");
        assert_eq!(response["id"], id, "{shown}: {response}");
        assert!(response["error"]["message"].is_string(), "{shown}: {response}");
        client.ping();
    }
    client.assert_only_frames();
}

#[test]
fn a_method_that_is_no_string_is_a_bad_request() {
    let env = Env::new();
    let client = env.client();
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":5}\n");
    let response = client.next_raw_response().value;
    assert_eq!(response["error"]["code"], json!(INVALID_REQUEST), "{response}");
    client.ping();
}

#[test]
fn a_line_above_the_limit_is_a_bad_request_and_the_next_one_is_read() {
    let env = Env::new();
    let client = env.client();
    let mut line = br#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":""#.to_vec();
    line.resize(LINE_LIMIT + 1024 * 1024, b'x');
    line.extend_from_slice(b"\"}}\n");
    client.send_raw(&line);
    let response = client.next_raw_response().value;
    assert_eq!(response["error"]["code"], json!(INVALID_REQUEST));
    client.ping();
}

#[test]
fn line_ends_blank_lines_and_a_byte_order_mark_pass() {
    let env = Env::new();
    let client = env.client_before_initialize();
    client.send_raw(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":\"bom\",\"method\":\"ping\"}\r\n");
    client.send_raw(b"\n\r\n  \n");
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":\"crlf\",\"method\":\"ping\"}\r\n");
    for id in ["bom", "crlf"] {
        let response = client.next_raw_response();
        assert_eq!(response.value["id"], json!(id), "{}", client.describe());
        assert_eq!(response.value["result"], json!({}), "{}", client.describe());
        assert_eq!(response.framing, Framing::Line);
    }
    client.ping();
}

#[test]
fn a_client_with_content_length_headers_is_answered_with_them() {
    let env = Env::new();
    let client = env.client_before_initialize();
    for id in ["first", "日本語"] {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
        client.send_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        let response = client.next_raw_response();
        assert_eq!(response.framing, Framing::ContentLength);
        assert_eq!(response.value["id"], json!(id));
    }
    client.assert_only_frames();
}

#[test]
fn ids_keep_their_type_and_get_one_response() {
    let env = Env::new();
    let client = env.client();
    let ids = [
        json!("word"),
        json!("7"),
        json!(7),
        json!(0),
        json!(-3),
        json!(9_007_199_254_740_993_u64),
    ];
    for id in &ids {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        client.send_raw(format!("{request}\n").as_bytes());
    }
    for id in &ids {
        assert_eq!(&client.next_raw_response().value["id"], id);
    }
    client.ping();
    for id in &ids {
        let answers = client.frames().iter().filter(|frame| frame.answers(id)).count();
        assert_eq!(answers, 1, "{id}");
    }
}

#[test]
fn notifications_and_stray_responses_are_not_answered() {
    let env = Env::new();
    let client = env.client();
    let before = client.frames().len();
    client.notify("notifications/unheard_of", json!({}));
    client.notify("notifications/cancelled", json!({"requestId": "nobody's"}));
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n");
    client.ping();
    assert_eq!(client.frames().len(), before + 1, "{}", client.describe());
}

#[test]
fn only_frames_are_ever_written_to_stdout() {
    let env = Env::new();
    let client = env.client();
    let commands = [
        "echo to stdout; echo to stderr >&2",
        "printf '\\0\\001\\033[2J\\r\\n{\"jsonrpc\":\"2.0\"}\\n'",
        "head -c 100000 /dev/urandom",
        "(sleep 0.2; echo late) &",
        "exec 1>&2; echo moved",
    ];
    let calls: Vec<Pending<'_>> = commands
        .iter()
        .map(|command| client.call_async("zsh", json!({"command": command, "yield_after": 20})))
        .collect();
    for call in calls {
        assert!(!call.tool_result().is_error);
    }
    client.close_stdin();
    client.wait_exit(Duration::from_secs(10));
    client.assert_only_frames();
}

fn tools(client: &Client) -> Vec<Value> {
    let response = client.request("tools/list", json!({})).wait();
    response["result"]["tools"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| panic!("no list of tools: {response}"))
}

#[test]
fn a_connection_that_others_have_set_not_to_block_is_waited_for() {
    const SET: &str = "import os, sys; os.set_blocking(0, False); os.set_blocking(1, False); \
        os.execv(sys.argv[1], sys.argv[1:])";
    let env = Env::new();
    let mut command = env.command("python3");
    command.args(["-c", SET]).arg(binary()).arg("serve");
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    // More than a pipe holds.
    let result = client.call(
        "zsh",
        json!({"command": "for n in {10001..30000}; do echo $n-wide; done", "yield_after": 25, "max_output": 490_000}),
    );
    assert_eq!(result.output().lines().count(), 20_000);
}
