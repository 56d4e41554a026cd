//! `zsh-tool agent-openai`: a model as an agent program that says what it says as it
//! comes, and ends by a result.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::endpoint::{Endpoint, Refusing};
use crate::support::env::Env;
use crate::support::program::{Finished, Program, ran, run_with_input, zsh_tool};

const KEY: &str = "sk-sesame-open-1234567890";

fn configured(env: &Env, base_url: &str) -> Command {
    env.configure(&format!(
        "openai:\n  base_url: {base_url}\n  model: small\n  api_key_env: THE_KEY\n"
    ));
    let mut command = zsh_tool(env, &["agent-openai"]);
    command.env("THE_KEY", KEY);
    command
}

fn asked(env: &Env, base_url: &str) -> Finished {
    run_with_input(configured(env, base_url), b"say hello".to_vec())
}

fn lines(finished: &Finished) -> Vec<Value> {
    let text = finished.text();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The last line, and that it ends in this error.
fn assert_error(finished: &Finished, error: &str, cause: &str) {
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    let lines = lines(finished);
    let last = lines.last().expect("a line");
    assert_eq!(last["type"], "result");
    assert_eq!(last["error"], error, "{last}");
    let message = last["message"].as_str().expect("a message");
    assert!(message.contains(cause), "{message}");
    assert!(finished.stderr.contains(cause), "{}", finished.stderr);
    assert!(!finished.text().contains(KEY) && !finished.stderr.contains(KEY));
}

#[test]
fn what_the_model_says_comes_out_as_it_comes() {
    let env = Env::new();
    let go = env.path("go");
    let steps = json!([{"thoughts": ["hm"], "stream": ["he", "llo ", "wörld"], "between": go, "usage": [10, 5]}]);
    let endpoint = Endpoint::start(&env, &steps);
    let mut program = Program::start(configured(&env, &endpoint.base_url()));
    let mut stdin = program.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, b"say hello").expect("to write");
    drop(stdin);
    let mut next = || serde_json::from_str::<Value>(&program.read_line()).expect("JSON");
    assert_eq!(next(), json!({"type": "reasoning", "text": "hm"}));
    assert_eq!(next(), json!({"type": "text", "text": "he"}));
    // The model has not gone on yet.
    std::fs::write(&go, "").expect("a file");
    assert_eq!(next(), json!({"type": "text", "text": "llo "}));
    assert_eq!(next(), json!({"type": "text", "text": "wörld"}));
    let result = json!({
        "type": "result",
        "text": "hello wörld",
        "error": null,
        "message": null,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    });
    assert_eq!(next(), result);
    let finished = program.finish();
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""));
    let request = &endpoint.requests()[0];
    assert_eq!(request["path"], "/v1/chat/completions");
    assert_eq!(request["headers"]["authorization"], format!("Bearer {KEY}"));
    assert_eq!(
        request["body"],
        json!({
            "model": "small",
            "messages": [{"role": "user", "content": "say hello"}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[test]
fn the_command_line_goes_before_the_configuration() {
    let env = Env::new();
    let endpoint = Endpoint::start(&env, &json!([{"stream": ["x"]}]));
    let mut command = configured(&env, Refusing::new().url());
    command.args(["--model", "large", "--base-url", &endpoint.base_url()]);
    // Without a key none is sent.
    command.env_remove("THE_KEY");
    let finished = run_with_input(command, b"hi".to_vec());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let request = &endpoint.requests()[0];
    assert_eq!(request["body"]["model"], "large");
    assert_eq!(request["headers"]["authorization"], Value::Null);
}

#[test]
fn an_endpoint_that_does_not_stream_is_understood() {
    let env = Env::new();
    let endpoint = Endpoint::start(&env, &json!([{"text": "all at once"}]));
    let finished = asked(&env, &endpoint.base_url());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let lines = lines(&finished);
    assert_eq!(lines[0], json!({"type": "text", "text": "all at once"}));
    assert_eq!(lines[1]["text"], "all at once");
}

#[test]
fn an_endpoint_that_knows_no_usage_is_asked_without_it() {
    let env = Env::new();
    let steps = json!([{"status": 422, "message": "stream_options: extra"}, {"stream": ["x"]}]);
    let endpoint = Endpoint::start(&env, &steps);
    let finished = asked(&env, &endpoint.base_url());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let result = lines(&finished).pop().expect("a line");
    assert_eq!((&result["text"], &result["usage"]), (&json!("x"), &Value::Null));
    let asked_with = endpoint
        .requests()
        .iter()
        .map(|request| request["body"]["stream_options"].is_object())
        .collect::<Vec<_>>();
    assert_eq!(asked_with, [true, false]);
    let steps = json!([{"status": 400, "message": "no such model"}]);
    let endpoint = Endpoint::start(&env, &steps);
    assert_error(&asked(&env, &endpoint.base_url()), "api_error", "no such model");
    assert_eq!(endpoint.requests().len(), 2);
}

#[test]
fn failures_before_the_first_word_are_tried_again() {
    let env = Env::new();
    let steps = json!([{"status": 500}, {"drop": true}, {"stream": ["x"]}]);
    let endpoint = Endpoint::start(&env, &steps);
    let finished = asked(&env, &endpoint.base_url());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(endpoint.requests().len(), 3);
    let endpoint = Endpoint::start(&env, &json!([{"status": 500, "message": "overloaded"}]));
    let finished = asked(&env, &endpoint.base_url());
    assert_error(&finished, "api_error", "answered 500: overloaded");
    assert_eq!(endpoint.requests().len(), 4);
}

#[test]
fn an_answer_that_breaks_off_is_an_error_and_is_not_begun_again() {
    let env = Env::new();
    for (step, cause) in [
        (json!({"stream": ["par", "tial"], "unfinished": true}), "broke"),
        (json!({"stream": ["par", "tial"], "error": "out of memory"}), "out of memory"),
    ] {
        let endpoint = Endpoint::start(&env, &json!([step]));
        let finished = asked(&env, &endpoint.base_url());
        assert_error(&finished, "api_error", cause);
        let last = lines(&finished).pop().expect("a line");
        assert_eq!(last["text"], "partial");
        assert_eq!(endpoint.requests().len(), 1);
    }
}

#[test]
fn each_class_of_failure_has_its_word() {
    let env = Env::new();
    let unauthorised = json!([{"status": 401, "message": format!("bad key {KEY}")}]);
    let endpoint = Endpoint::start(&env, &unauthorised);
    let finished = asked(&env, &endpoint.base_url());
    assert_error(&finished, "auth_failed", "answered 401: bad key [redacted]");
    assert_eq!(endpoint.requests().len(), 1);
    let mut command = configured(&env, &endpoint.base_url());
    command.env_remove("THE_KEY");
    let finished = run_with_input(command, b"hi".to_vec());
    assert!(
        finished.stderr.contains("(the key comes from $THE_KEY, which is not set)"),
        "{}",
        finished.stderr
    );
    assert_error(&asked(&env, Refusing::new().url()), "connection_refused", "cannot connect to");
}

#[test]
fn without_an_endpoint_or_a_prompt_it_is_a_usage_error() {
    let env = Env::new();
    let finished = run_with_input(zsh_tool(&env, &["agent-openai"]), b"hi".to_vec());
    assert_eq!(finished.code, 2);
    assert!(finished.stderr.contains("openai.base_url is not set"), "{}", finished.stderr);
    let finished = run_with_input(configured(&env, "http://127.0.0.1:9/v1"), b" \n".to_vec());
    assert_eq!(finished.code, 2);
    assert!(finished.stderr.contains("the prompt is empty"), "{}", finished.stderr);
    assert!(!ran(&env, &["--help"]).text().contains("agent-openai"));
}

#[test]
fn the_endpoint_is_configured_by_a_mapping_or_by_its_keys() {
    let env = Env::new();
    env.configure(
        "openai:\n  base_url: http://127.0.0.1:11434/v1/\n  modle: x\n\
         openai.model: small\njudge: command:claude\n",
    );
    let finished = ran(&env, &["config"]);
    let text = finished.text();
    let row = |key: &str| {
        let row = text.lines().find(|line| line.starts_with(&format!("{key} ")));
        row.unwrap_or_else(|| panic!("{key} in {text}")).to_owned()
    };
    assert!(row("openai.base_url").contains(" http://127.0.0.1:11434/v1 "));
    assert!(row("openai.base_url").ends_with("config.yaml:2"));
    assert!(row("openai.model").contains(" small "));
    assert!(row("judge").contains(" command:claude "));
    assert!(
        finished.stderr.contains(
            "config.yaml:3: openai.modle: unknown setting, ignored; did you mean openai.model?"
        ),
        "{}",
        finished.stderr
    );
}
