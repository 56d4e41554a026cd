//! What agent runs cost, as their agents report it, and the budgets that end them.

use serde_json::{Value, json};

use crate::support::oneshot::{Runs, lives, says, verdict};
use crate::support::processes::wait_until;

/// Steps of an agent that ends with this text and has cost this much.
fn priced(text: &str, usd: f64) -> Value {
    json!([{"init": 1}, {"json": {
        "type": "result", "subtype": "success", "is_error": false, "result": text, "num_turns": 3,
        "total_cost_usd": usd, "usage": {"input_tokens": 1000, "output_tokens": 200},
    }}])
}

/// An answer of the model within a worker's work.
fn answer(number: u32) -> Value {
    json!({"json": {"type": "assistant", "message": {
        "id": format!("msg_{number}"), "role": "assistant",
        "content": [{"type": "text", "text": format!("step {number}")}],
        "usage": {"input_tokens": 900, "output_tokens": 100},
    }}})
}

fn done_for(usd: f64) -> Value {
    priced(&json!({"verdict": "DONE", "feedback": ""}).to_string(), usd)
}

#[test]
fn costs_are_summed_and_shown() {
    let runs = Runs::new(json!({"worker": [priced("done", 0.5)], "auditor": [done_for(0.25)]}));
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let sum = "$0.7500, 2,400 tokens (2,000 in, 400 out), 6 turns";
    assert!(ended.stderr.contains(sum), "{}", ended.stderr);
    let shown = runs.ran(&["show", "latest"]).text();
    assert!(shown.contains(&format!("cost       {sum}")), "{shown}");
    assert!(shown.contains("1  auditor  claude: $0.2500, 1,200 tokens"), "{shown}");
    assert!(runs.ran(&["list"]).text().contains("$0.75"));
    let listed: Value = serde_json::from_str(&runs.ran(&["list", "--json"]).text()).unwrap();
    assert_eq!(listed["usage"]["usd"], 0.75);
    assert_eq!(listed["agent_sessions"][0]["usage"]["turns"], 3);
    let json: Value = serde_json::from_str(&runs.ran(&["--json", "make it"]).text()).unwrap();
    assert_eq!(json["usage"]["input_tokens"], 2000);
}

#[test]
fn an_exhausted_budget_ends_the_run_before_the_next_agent_and_a_larger_one_resumes_it() {
    let runs = Runs::new(json!({"worker": [priced("done", 0.5)], "auditor": [done_for(0.25)]}));
    let ended = runs.ran(&["--max-cost", "0.5", "make it"]);
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("max_cost".to_owned())));
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (1, 0));
    assert!(ended.stderr.contains("--max-cost USD"), "{}", ended.stderr);
    let same = runs.ran(&["--resume", "latest"]);
    assert_eq!((same.code, runs.starts("auditor")), (5, 0), "{}", same.stderr);
    let more = runs.ran(&["--resume", "latest", "--max-cost", "1"]);
    assert_eq!((more.code, more.text()), (0, "done\n".to_owned()), "{}", more.stderr);
    assert_eq!((runs.starts("worker"), runs.starts("auditor")), (1, 1));
}

#[test]
fn green_checks_complete_a_run_that_has_used_up_its_budget() {
    let runs = Runs::new(json!({"worker": [priced("done", 0.5)]}));
    let arguments = ["--max-tokens", "100", "--auditor", "none", "--check", "true", "make it"];
    let ended = runs.ran(&arguments);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn an_agent_that_goes_on_spending_is_ended() {
    let steps = json!([
        {"init": 1}, answer(1), answer(2), {"touch": "two"}, {"wait": "go"}, answer(3), answer(4),
        {"hang": 1},
    ]);
    let worker = json!([steps, says("done")]);
    let runs = Runs::new(json!({"worker": worker, "auditor": [done_for(0.1)]}));
    let runner = runs.start(&["--max-tokens", "2000", "make it"]);
    let pid = runs.wait_for_start("worker", 1);
    wait_until("two answers", || runs.env.work().join("two").exists().then_some(()));
    runs.raise("go");
    let ended = runner.finish();
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    assert_eq!(runs.state(), ("FAILED".to_owned(), Some("max_tokens".to_owned())));
    assert!(!lives(pid));
    assert_eq!(runs.starts("auditor"), 0);
    let more = runs.ran(&["--resume", "latest", "--max-tokens", "0"]);
    assert_eq!((more.code, more.text()), (0, "done\n".to_owned()), "{}", more.stderr);
}

#[test]
fn the_cost_of_an_agent_whose_runner_was_killed_counts() {
    let steps = json!([{"init": 1}, answer(1), answer(2), {"touch": "two"}, {"wait": "go"}]);
    let runs = Runs::new(json!({"worker": [steps, says("done")], "auditor": [done_for(0.1)]}));
    let runner = runs.start(&["make it"]);
    wait_until("both answers are logged", || {
        let log = runs.env.work().join("two").exists() && runs.lines("activity").len() >= 3;
        log.then_some(())
    });
    runner.signal("KILL");
    runner.finish();
    let ended = runs.ran(&["--resume", "latest", "--max-tokens", "2000"]);
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    assert_eq!(runs.file()["agent_sessions"][0]["usage"]["input_tokens"], 1800);
}

#[test]
fn an_agent_that_reports_nothing_is_named_where_a_budget_counts_on_it() {
    let runs = Runs::new(json!({"worker": [says("done")], "auditor": [verdict("DONE", "")]}));
    let ended = runs.ran(&["--max-cost", "1", "make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = "claude has reported no cost: --max-cost does not count it";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert!(runs.ran(&["show", "latest"]).text().contains("cost       not reported"));
    let refused = runs.ran(&["--max-cost", "much", "make it"]);
    assert!(refused.code == 2 && refused.stderr.contains("dollars"), "{}", refused.stderr);
}
