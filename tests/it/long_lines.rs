//! Long lines and long results: what is left out is named, counted and reachable, whatever
//! the client shows of a result.

use serde_json::json;

use crate::support::client::{Client, PROTOCOL_VERSION};
use crate::support::env::Env;
use crate::support::result::ToolResult;

/// A line of 6,006 characters with a word in its middle.
const NEEDLE: &str = "printf 'a%.0s' {1..3000}; printf NEEDLE; printf 'b%.0s' {1..3000}; echo";

fn run(client: &Client, mut arguments: serde_json::Value) -> ToolResult {
    arguments["yield_after"] = json!(25);
    client.call("zsh", arguments)
}

/// The arguments of the call that a text names to read on.
fn call_named_in(text: &str) -> serde_json::Value {
    let (_, call) = text.rsplit_once("zsh_poll task_id=").expect("a call");
    let mut arguments = json!({});
    for word in call.split_whitespace().skip(1) {
        let Some((name, value)) = word.split_once('=') else {
            break;
        };
        let value: u64 = value.parse().expect("a number");
        arguments[name] = json!(value);
    }
    arguments
}

#[test]
fn a_line_over_two_thousand_characters_is_whole_where_the_result_fits() {
    let env = Env::new();
    let client = env.client();
    let line = format!("{}NEEDLE{}", "a".repeat(3000), "b".repeat(3000));
    for pty in [false, true] {
        let result = run(&client, json!({"command": NEEDLE, "pty": pty}));
        assert_eq!(result.output(), line, "pty: {pty}");
        assert_eq!(result.meta["omitted_bytes"], json!(0));
        let task = result.task_id();
        let whole = client.poll(&task, json!({"full_output": true}));
        assert_eq!(whole.output(), format!("1: {line}"), "pty: {pty}");
        let range = client.poll(&task, json!({"from_line": 1, "to_line": 1}));
        assert_eq!(range.output(), format!("1: {line}"), "pty: {pty}");
    }
}

#[test]
fn grep_shows_a_window_around_each_match_of_a_long_line_with_its_column() {
    let env = Env::new();
    let client = env.client();
    for pty in [false, true] {
        let command = format!("echo NEEDLE in a short one; {NEEDLE}");
        let task = run(&client, json!({"command": command, "pty": pty})).task_id();
        let found = client.poll(&task, json!({"grep": "NEEDLE"}));
        let window = format!("{}NEEDLE{}", "a".repeat(97), "b".repeat(97));
        let wanted = format!("1: NEEDLE in a short one\n2: [char 3001] …{window}…");
        assert_eq!(found.output(), wanted, "pty: {pty}");
        assert_eq!(found.meta["omitted_bytes"], json!(5_806), "{}", found.text);
        assert!(found.footer().contains("5,806 bytes of long lines omitted"), "{}", found.text);
        let from = client.poll(&task, json!({"from_line": 2, "from_char": 3001}));
        let rest = format!("2: …NEEDLE{}", "b".repeat(3000));
        assert_eq!(from.output(), rest, "pty: {pty}");
        let behind = json!({"grep": "NEEDLE", "from_line": 2, "from_char": 3002});
        let none = client.poll(&task, behind);
        assert_eq!(none.output(), "(no line matches NEEDLE)", "pty: {pty}");
    }
}

#[test]
fn each_match_of_a_line_longer_than_any_result_is_reached_by_the_calls_that_are_named() {
    let env = Env::new();
    let client = env.client();
    // 100 matches in one line of 900,900 characters.
    let command = "for n in {1..100}; do printf 'x%.0s' {1..9000}; printf '<%03d>' $n; done";
    let task = run(&client, json!({"command": command})).task_id();
    let mut arguments = json!({"from_line": 1});
    let mut seen = Vec::new();
    loop {
        arguments["grep"] = json!("<[0-9]+>");
        arguments["max_output"] = json!(2000);
        let found = client.poll(&task, arguments);
        for row in found.output().lines().filter(|row| row.starts_with("1: [char ")) {
            let (_, match_and_more) = row.split_once('<').expect("a match");
            seen.push(match_and_more[..3].to_owned());
        }
        assert!(seen.len() <= 100, "each match is shown once: {seen:?}");
        let last = found.output().lines().last().unwrap_or_default().to_owned();
        let Some((_, more)) = last.split_once(" more matches: ") else {
            break;
        };
        arguments = call_named_in(&more.replace("grep=… ", ""));
    }
    let all: Vec<String> = (1..=100).map(|number| format!("{number:03}")).collect();
    assert_eq!(seen, all);
}

#[test]
fn matches_and_context_that_do_not_fit_are_named_with_the_call_that_reads_them() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("for n in {1..300}; do echo line $n; done").task_id();
    let poll = |grep: &str| {
        let arguments = json!({"grep": grep, "context": 100, "max_output": 300});
        client.poll(&task, arguments)
    };
    let found = poll("^line 150$");
    let (shown, marker) = found.output().rsplit_once('\n').map(owned).expect("two rows");
    assert!(shown.starts_with("150: line 150\n151- line 151\n"), "{shown}");
    // Context comes last: what is before the match does not fit, and not all behind it does.
    assert_eq!(call_named_in(&marker), json!({"from_line": 50}), "{marker}");
    assert!(shown.lines().count() < 30, "{shown}");
    assert!(found.footer().contains("lines of context: zsh_poll"), "{}", found.text);
    let found = poll("^line (1|290)$");
    assert!(found.output().contains("1 more matches: zsh_poll"), "{}", found.text);
    assert!(found.text.chars().count() < 800, "{}", found.text);
}

fn owned((before, behind): (&str, &str)) -> (String, String) {
    (before.to_owned(), behind.to_owned())
}

#[test]
fn a_line_longer_than_a_result_is_read_whole_by_the_calls_that_are_named() {
    let env = Env::new();
    let client = env.client();
    let command = "echo before; repeat 6000 print -rn -- äöü0123456789; echo; echo behind";
    let result = run(&client, json!({"command": command}));
    let output = result.output();
    let marker = output.lines().nth(1).expect("the long line");
    assert!(marker.contains(" bytes omitted: zsh_poll "), "{}", result.text);
    assert_eq!(result.meta["omitted_lines"], json!(0));
    assert!(result.meta["omitted_bytes"].as_u64() > Some(68_000), "{}", result.meta);
    // Named again behind the output.
    assert!(result.footer().contains("bytes of long lines omitted: zsh_poll"), "{}", result.text);
    let task = result.task_id();
    let mut arguments = json!({"from_line": 2, "to_line": 2});
    let mut line = String::new();
    loop {
        let part = client.poll(&task, arguments);
        let output = part.output();
        let text = output.strip_prefix("2: ").expect("the line's number");
        let text = text.strip_prefix('…').unwrap_or(text);
        let Some((text, _)) = text.split_once("… ") else {
            line += text;
            break;
        };
        assert!(text.chars().count() <= 30_000, "{}", text.len());
        line += text;
        arguments = call_named_in(&part.footer());
    }
    assert!(line == "äöü0123456789".repeat(6000), "{}", line.chars().count());
}

#[test]
fn from_char_is_refused_where_it_means_nothing() {
    let env = Env::new();
    let client = env.client();
    let task = client.run("echo one; echo two").task_id();
    for (arguments, named) in [
        (json!({"from_char": 5}), "pass from_line with it"),
        (json!({"from_char": 5, "from_line": 1, "to_line": 2}), "leave to_line out"),
        (json!({"from_char": -1, "from_line": 1}), "from_char"),
    ] {
        let refused = client.poll(&task, arguments);
        assert!(refused.is_error && refused.text.contains(named), "{}", refused.text);
    }
    let beyond = client.poll(&task, json!({"from_line": 2, "from_char": 50}));
    assert!(beyond.footer().contains("line 2 has 3 characters"), "{}", beyond.text);
    let no_line = client.poll(&task, json!({"from_line": 9, "from_char": 2}));
    assert!(no_line.footer().contains("the output has 2 lines"), "{}", no_line.text);
}

#[test]
fn codex_gets_results_that_it_does_not_cut_and_reads_what_is_omitted_at_their_end() {
    let env = Env::new();
    let client = env.client_before_initialize();
    client.initialize_as("codex-mcp-client", PROTOCOL_VERSION);
    let command = "for n in {1..20000}; do print -r -- \"z$n 日本語のテキスト\"; done";
    let arguments = json!({"command": command, "max_output": 100_000});
    let result = run(&client, arguments);
    assert!(result.text.len() < 40_000, "{} bytes", result.text.len());
    assert!(result.text.len() > 30_000, "{} bytes", result.text.len());
    let omitted = result.meta["omitted_lines"].as_u64().expect("a number");
    assert!(omitted > 15_000, "{}", result.meta);
    let call = call_named_in(&result.footer());
    let next = client.poll(&result.task_id(), call);
    assert!(next.text.len() < 40_000, "{} bytes", next.text.len());
    let (first, text) = next.numbered().first().cloned().expect("a line");
    assert_eq!(text, format!("z{first} 日本語のテキスト"));
    let task = result.task_id();
    for arguments in [json!({"grep": "日本"}), json!({"full_output": true, "max_output": 490_000})]
    {
        let result = client.poll(&task, arguments);
        assert!(result.text.len() < 40_000, "{} bytes", result.text.len());
        assert!(result.footer().contains("zsh_poll task_id="), "{}", result.footer());
    }
    let long = "printf 'あ%.0s' {1..50000}";
    let result = run(&client, json!({"command": long, "max_output": 100_000}));
    assert!(result.text.len() < 40_000, "{} bytes", result.text.len());
    let part = client
        .poll(&result.task_id(), json!({"from_line": 1, "to_line": 1, "max_output": 100_000}));
    assert!(part.text.len() < 40_000, "{} bytes", part.text.len());
}

#[test]
fn what_a_client_gets_of_a_result_is_the_users_to_set() {
    let env = Env::new();
    env.configure("client_output: 10000\n");
    let client = env.client();
    let result = run(&client, json!({"command": "seq 1 50000"}));
    assert!(result.text.len() < 10_000, "{} bytes", result.text.len());
    assert!(result.text.len() > 5_000, "{} bytes", result.text.len());
    let plain = Env::new();
    let client = plain.client();
    let result = run(&client, json!({"command": "seq 1 50000"}));
    assert!(result.text.len() > 25_000, "{} bytes", result.text.len());
}

#[test]
fn no_result_is_longer_than_claude_code_passes_on() {
    let env = Env::new();
    let client = env.client();
    let listed = client.request("tools/list", json!({})).wait();
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let limits: Vec<u64> = tools
        .iter()
        .filter_map(|tool| tool["_meta"]["anthropic/maxResultSizeChars"].as_u64())
        .collect();
    assert_eq!(limits, [490_000, 490_000]);
    // Claude Code counts as JavaScript does: a character beyond U+FFFF is two.
    let command = "yes '🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀 0123456789' | head -n 60000";
    let arguments = json!({"command": command, "max_output": 490_000});
    let result = run(&client, arguments.clone());
    assert_eq!(result.meta["omitted_lines"], json!(0), "one line and its count");
    let task = result.task_id();
    let range = json!({"from_line": 1, "max_output": 490_000});
    let result = client.poll(&task, range);
    let units = result.text.encode_utf16().count();
    assert!((480_000..=490_000).contains(&units), "{units}");
    assert!(result.meta["omitted_lines"].as_u64() > Some(0));
    let refused = client.poll(&task, json!({"max_output": 490_001}));
    assert!(refused.is_error && refused.text.contains("490000"), "{}", refused.text);
}
