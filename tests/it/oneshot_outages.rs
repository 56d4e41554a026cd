//! Agent runs whose agents' endpoint fails for now: they wait, say so, and continue.

use serde_json::json;

use crate::support::endpoint::Endpoint;
use crate::support::oneshot::{Runs, says, verdict};

/// An agent that its endpoint refuses, and says when to ask again.
fn refused(message: &str) -> serde_json::Value {
    json!([{"init": 1}, {"fault": message}, {"exit": 1}])
}

const SOON: &str = "API Error: 429 too many requests, retry-after: 0.2";
const LATE: &str = "API Error: 429 too many requests, retry-after: 600";

fn done() -> serde_json::Value {
    verdict("DONE", "")
}

#[test]
fn a_worker_whose_endpoint_fails_for_now_is_asked_again() {
    let worker = json!([
        refused(SOON),
        refused("API Error: 503 unavailable, try again in 200 ms"),
        [{"complain": "connect ECONNREFUSED 127.0.0.1:9, retry in 0.2 s"}, {"exit": 1}],
        says("it is done")
    ]);
    let runs = Runs::new(json!({"worker": worker, "auditor": [done()]}));
    let ended = runs.ran(&["--max-iterations", "1", "make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(runs.starts("worker"), 4);
    // What an outage has cut off does not count.
    assert_eq!(runs.file()["iteration_count"], 1);
    assert_eq!(runs.state(), ("COMPLETED".to_owned(), None));
    let told = "api_error: API Error: 429 too many requests, retry-after: 0.2; trying again in ";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let outages = runs.lines("outage");
    assert_eq!(outages.len(), 3, "{outages:?}");
    assert_eq!(outages[0]["data"]["error"], "api_error");
    assert_eq!(outages[2]["data"]["error"], "connection_refused");
}

#[test]
fn an_auditor_whose_endpoint_fails_for_now_does_not_fail_a_finished_worker() {
    let auditor = json!([refused(SOON), refused(SOON), done()]);
    let runs = Runs::new(json!({"worker": [says("it is done")], "auditor": auditor}));
    let ended = runs.ran(&["make it"]);
    assert_eq!((ended.code, ended.text()), (0, "it is done\n".to_owned()), "{}", ended.stderr);
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (1, 3));
}

#[test]
fn an_endpoint_is_asked_again_when_it_says() {
    let runs = Runs::new(json!({}));
    let busy = json!({"status": 429, "message": "slow down", "headers": {"retry-after": "1"}});
    let steps = json!([busy, {"stream": ["it is done"]}, busy, {"stream": ["VERDICT: DONE"]}]);
    let endpoint = Endpoint::start(&runs.env, &steps);
    let text = format!("openai: {{base_url: {}, model: small}}", endpoint.base_url());
    runs.env.configure(&text);
    let ended = runs.ran(&["--executor", "openai", "--auditor", "openai", "make it"]);
    assert_eq!((ended.code, ended.text()), (0, "it is done\n".to_owned()), "{}", ended.stderr);
    // One request each: only the run waits.
    assert_eq!(endpoint.requests().len(), 4);
    let outages = runs.lines("outage");
    assert_eq!(outages.len(), 2, "{outages:?}");
    assert!(ended.stderr.contains("answered 429: slow down, retry-after: 1"), "{}", ended.stderr);
    assert!(ended.stderr.contains("trying again in 1"), "{}", ended.stderr);
}

#[test]
fn work_before_an_outage_is_told_to_the_next_worker() {
    let worker = json!([
        [{"init": 1}, {"tool": "touch half-done"}, {"tool_result": "ok"}, {"fault": SOON}],
        says("it is done")
    ]);
    let runs = Runs::new(json!({"worker": worker, "auditor": [done()]}));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    let prompt = runs.prompt("worker", 2);
    assert!(prompt.starts_with("make it") && prompt.contains("half-done"), "{prompt}");
}

#[test]
fn a_run_that_waits_can_be_paused_and_resumed() {
    let runs = Runs::new(json!({
        "worker": [refused(LATE), says("it is done")], "auditor": [done()],
    }));
    let runner = runs.start(&["make it"]);
    runs.wait_for_start("worker", 1);
    runs.wait_for_state("REITERATION_PENDING");
    runner.signal("INT");
    assert_eq!(runner.finish().code, 130);
    assert_eq!(runs.state().0, "INTERRUPTED");
    let resumed = runs.ran(&["--resume", &runs.id()]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!(runs.starts("worker"), 2);
}

#[test]
fn what_no_wait_ends_and_what_takes_too_long_fails() {
    for (message, reason) in [
        ("API Error: 400 no such model", "api_error"),
        ("API Error: 401 authentication_error, retry-after: 0.2", "auth_failed"),
        (LATE, "api_error"),
    ] {
        let runs = Runs::new(json!({"worker": [refused(message)], "auditor": [done()]}));
        let ended = runs.ran(&["--wait-limit", "60", "make it"]);
        assert_eq!(ended.code, 1, "{message}");
        assert_eq!(runs.state(), ("FAILED".to_owned(), Some(reason.to_owned())), "{message}");
        assert_eq!(runs.starts("worker"), 1, "{message}");
    }
}
