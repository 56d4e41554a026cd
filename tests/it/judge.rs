//! Whether a run gets on, as a model judges it: what the endpoint is asked, what its
//! failures come to, and what checks cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use zsh_tool::testing::agent::checks::{CheckRefusal, CheckState, Checks};
use zsh_tool::testing::agent::endpoint;
use zsh_tool::testing::agent::executor::{Executor, Executors, PromptBy};
use zsh_tool::testing::agent::judge::command::CommandJudge;
use zsh_tool::testing::agent::judge::openai::OpenaiJudge;
use zsh_tool::testing::agent::judge::{Evidence, Finding, Judge, Judgement};
use zsh_tool::testing::base::clock::SystemClock;
use zsh_tool::testing::config::UserExecutor;
use zsh_tool::testing::progress::{
    status_forecast::Status,
    tracker::{ChangeKind, TrackerSettings},
};
use zsh_tool::testing::sandbox;
use zsh_tool::testing::shell::command_line::CommandLine;
use zsh_tool::testing::shell::mode::ShellMode;
use zsh_tool::testing::task::environment::EnvironmentSettings;
use zsh_tool::testing::task::live::{Cancel, WaitStep};
use zsh_tool::testing::task::registry::TaskHandle;
use zsh_tool::testing::task::request::Request;
use zsh_tool::testing::task::state::KillRequest;
use zsh_tool::testing::task::supervisor::{Settings, Supervisor};
use zsh_tool::testing::text::redact::Redactor;

use crate::support::client::PATIENCE;
use crate::support::endpoint::{Endpoint, Refusing};
use crate::support::env::Env;
use crate::support::processes::wait_until;

const KEY: &str = "sk-sesame-open-1234567890";

fn evidence(session: &str, status: Status) -> Evidence {
    Evidence {
        session: session.to_owned(),
        prompt_or_command: "make test".to_owned(),
        status,
        evidence: vec!["read or wrote 0 B".to_owned()],
        heartbeats: 12,
        state_changes: 3,
        last_change: Some((ChangeKind::Output, Duration::from_secs(75))),
        elapsed: Duration::from_secs(130),
        iteration: None,
        recent: vec!["retrying".to_owned()],
    }
}

fn judge_at(base_url: String) -> Arc<dyn Judge> {
    let endpoint = endpoint::Endpoint::new(endpoint::EndpointSettings {
        base_url: Some(base_url),
        model: Some("small".to_owned()),
        key: Some(KEY.to_owned()),
        key_variable: "THE_KEY".to_owned(),
    });
    let endpoint = endpoint.expect("an endpoint");
    Arc::new(OpenaiJudge::new(endpoint, Arc::new(Redactor::default())))
}

/// The judgement of one check of a stuck run, asked of this address.
fn judged(base_url: String) -> Judgement {
    let checks = Checks::new(judge_at(base_url), true);
    let started = checks.start("3dc8c9ee", None, evidence("3dc8c9ee", Status::Stuck));
    finished(&checks, &started.expect("a check"))
}

fn finished(checks: &Checks, id: &str) -> Judgement {
    match checks.get(id, PATIENCE) {
        Some(CheckState::Done(judgement)) => judgement,
        other => panic!("no judgement: {other:?}"),
    }
}

/// The heuristic's finding for what is stuck, and that it stands in for the judge.
fn assert_heuristic(judgement: &Judgement, cause: &str) {
    assert_eq!(judgement.finding, Finding::Loop, "{}", judgement.reason);
    let reason = &judgement.reason;
    assert!(reason.contains("(by the heuristic: the judge openai "), "{reason}");
    assert!(reason.contains(cause), "{reason}");
    assert!(!reason.contains(KEY), "{reason}");
}

#[test]
fn the_question_is_one_message_with_its_bounds() {
    let env = Env::new();
    let endpoint = Endpoint::start(&env, &json!([{"text": "**D** - the key is wrong"}]));
    let judgement = judged(endpoint.base_url());
    assert_eq!(judgement.finding, Finding::Failed);
    assert_eq!(judgement.reason, "the key is wrong");
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!(request["path"], "/v1/chat/completions");
    let headers = &request["headers"];
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(headers["content-type"], "application/json");
    let body = request["body"].as_object().expect("a JSON body");
    let fields: Vec<&str> = body.keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "messages", "max_tokens", "temperature"]);
    assert_eq!(body["model"], "small");
    assert_eq!(body["max_tokens"], 100);
    assert_eq!(body["temperature"], 0.0);
    let messages = body["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["role"], "user");
    let question = messages[0]["content"].as_str().expect("a text");
    assert!(question.contains("\"what\": \"make test\""), "{question}");
    assert!(question.contains("B) Stuck in a loop"), "{question}");
}

#[test]
fn secrets_of_the_run_do_not_reach_the_endpoint() {
    let env = Env::new();
    let endpoint = Endpoint::start(&env, &json!([{"text": "A: fine"}]));
    let checks = Checks::new(judge_at(endpoint.base_url()), true);
    let mut evidence = evidence("a", Status::Slow);
    evidence.prompt_or_command = "mysql -phunter2hunter2 db".to_owned();
    evidence.recent = vec!["API_TOKEN=tok_abcdef1234567890".to_owned()];
    let id = checks.start("a", None, evidence).expect("a check");
    assert_eq!(finished(&checks, &id).finding, Finding::Progress);
    let sent = endpoint.requests()[0]["body"].to_string();
    for secret in ["hunter2hunter2", "tok_abcdef1234567890"] {
        assert!(!sent.contains(secret), "{sent}");
    }
}

#[test]
fn an_endpoint_that_recovers_is_asked_again() {
    let env = Env::new();
    for (first, count) in [
        (json!([{"status": 500}, {"status": 503}]), 3),
        (json!([{"drop": true}]), 2),
        (json!([{"status": 500}, {"drop": true}, {"status": 502}]), 4),
    ] {
        let mut steps = first.as_array().expect("steps").clone();
        steps.push(json!({"text": "C) waits"}));
        let endpoint = Endpoint::start(&env, &Value::Array(steps));
        let judgement = judged(endpoint.base_url());
        assert_eq!(judgement.finding, Finding::Blocked, "{first}: {}", judgement.reason);
        assert_eq!(endpoint.requests().len(), count, "{first}");
    }
}

#[test]
fn an_endpoint_that_fails_four_times_is_asked_no_more() {
    let env = Env::new();
    let endpoint = Endpoint::start(&env, &json!([{"status": 500, "message": "overloaded"}]));
    assert_heuristic(&judged(endpoint.base_url()), "answered 500: overloaded");
    assert_eq!(endpoint.requests().len(), 4);
}

#[test]
fn what_would_fail_again_is_asked_once() {
    let env = Env::new();
    for (step, cause) in [
        (
            json!({"status": 401, "message": format!("no such key: {KEY}")}),
            "answered 401: no such key: [redacted] (the key comes from $THE_KEY)",
        ),
        (json!({"status": 403, "message": "no"}), "answered 403: no"),
        (json!({"status": 404, "body": "no such model"}), "answered 404: no such model"),
        (json!({"status": 429, "message": "slow down"}), "answered 429: slow down"),
        (
            json!({"status": 307, "headers": {"location": "http://127.0.0.1:1/"}}),
            "correct openai.base_url",
        ),
        (json!({"body": "<html>"}), "it is not a completion"),
        (json!({"text": ""}), "it contains no text"),
    ] {
        let endpoint = Endpoint::start(&env, &json!([step]));
        assert_heuristic(&judged(endpoint.base_url()), cause);
        assert_eq!(endpoint.requests().len(), 1, "{cause}");
    }
}

#[test]
fn a_refused_connection_falls_back_to_the_heuristic() {
    let refusing = Refusing::new();
    assert_heuristic(&judged(refusing.url().to_owned()), "cannot connect to http://127.0.0.1:");
}

#[test]
fn an_answer_that_is_none_is_unknown() {
    let env = Env::new();
    let endpoint = Endpoint::start(&env, &json!([{"text": "A build is running, or D."}]));
    let judgement = judged(endpoint.base_url());
    assert_eq!(judgement.finding, Finding::Unknown);
    assert_eq!(judgement.reason, "A build is running, or D.");
}

#[test]
fn three_checks_run_at_once_and_a_fourth_is_refused() {
    let env = Env::new();
    let go = env.path("go");
    let endpoint = Endpoint::start(&env, &json!([{"text": "A", "wait_for": go}]));
    let checks = Checks::new(judge_at(endpoint.base_url()), true);
    let start = |session: &str, id: Option<&str>| {
        checks.start(session, id, evidence(session, Status::Slow))
    };
    assert_eq!(start("a", Some("one")).expect("a check"), "one");
    assert!(matches!(start("b", Some("one")), Err(CheckRefusal::SameId)));
    assert!(matches!(start("a", Some("two")), Err(CheckRefusal::SameSession)));
    let others = ["b", "c"].map(|session| start(session, None).expect("a check"));
    assert!(matches!(start("d", None), Err(CheckRefusal::TooMany)));
    // All three are with the endpoint, and none has an answer.
    wait_until("three requests", || (endpoint.requests().len() == 3).then_some(()));
    assert_eq!(checks.get("one", Duration::ZERO), Some(CheckState::Pending));
    std::fs::write(&go, "").expect("a file");
    for id in others.iter().map(String::as_str).chain(["one"]) {
        assert_eq!(finished(&checks, id).finding, Finding::Progress);
    }
    start("d", None).expect("a place is free again");
}

#[test]
fn closing_does_not_wait_for_an_endpoint_that_never_answers() {
    let env = Env::new();
    let never = env.path("never");
    let endpoint = Endpoint::start(&env, &json!([{"text": "A", "wait_for": never}]));
    let checks = Checks::new(judge_at(endpoint.base_url()), true);
    let id = checks.start("a", None, evidence("a", Status::Slow));
    wait_until("a request", || (endpoint.requests().len() == 1).then_some(()));
    checks.close();
    let state = checks.get(&id.expect("a check"), PATIENCE);
    assert!(matches!(state, Some(CheckState::Failed(_))), "{state:?}");
    let later = checks.start("b", None, evidence("b", Status::Slow));
    assert!(matches!(later, Err(CheckRefusal::Thread(_))));
}

/// A supervisor within this test's own process. It is never shut down as a whole, since
/// that ends what other tests started.
fn supervisor(env: &Env) -> Arc<Supervisor> {
    let inherited = ["PATH", "HOME", "ZSH_TOOL_TEST_MARK"];
    let inherited = env
        .command("true")
        .get_envs()
        .filter(|(name, _)| inherited.iter().any(|known| name == known))
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let settings = Settings {
        state: Err("none".to_owned()),
        spool_on_disk: false,
        task_quota: 1 << 20,
        directory_quota: 1 << 20,
        retention: Duration::from_secs(60),
        max_running: 8,
        max_finished: 8,
        max_command: 1 << 20,
        shell: "zsh".to_owned(),
        shell_mode: ShellMode::Plain,
        takes_bash: false,
        startup_file: None,
        directory: env.work(),
        keep_directory: false,
        daemons: Arc::from([]),
        environment: EnvironmentSettings {
            inherited: Arc::new(inherited),
            ..EnvironmentSettings::default()
        },
        redactor: Arc::default(),
        sandbox: Ok(sandbox::policy::Settings::off()),
        tracker: TrackerSettings::default(),
    };
    Arc::new(Supervisor::new(settings, Arc::new(SystemClock)))
}

/// An agent program of the user's that is a shell script.
fn script_with(text: &str, env: &[(&str, &str)], prompt_by: PromptBy) -> Arc<Executor> {
    let script = UserExecutor {
        auditor: None,
        reading: Vec::new(),
        name: "script".to_owned(),
        argv: ["sh", "-c", text, "sh"].map(str::to_owned).to_vec(),
        env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        prompt_by: Some(prompt_by),
    };
    let executors = Executors::new(&[script]).expect("executors");
    Arc::clone(executors.find("script").expect("an executor"))
}

fn script(text: &str) -> Arc<Executor> {
    script_with(text, &[], PromptBy::Stdin)
}

fn judged_by(env: &Env, program: Arc<Executor>) -> Judgement {
    let judge = CommandJudge::new(program, supervisor(env));
    let checks = Checks::new(Arc::new(judge), true);
    let id = checks.start("a", None, evidence("a", Status::Stuck));
    finished(&checks, &id.expect("a check"))
}

#[test]
fn a_program_judges_by_what_it_prints() {
    let env = Env::new();
    let told = "grep -c 'ONLY one letter' >&2; printf '**C** waits for a lock\n'";
    let judgement = judged_by(&env, script(told));
    assert_eq!(judgement.finding, Finding::Blocked);
    assert_eq!(judgement.reason, "waits for a lock");
    let text = r#"case $1 in (*'"what": "make test"'*) echo "D $MARK";; (*) echo "$1";; esac"#;
    let by_argument = script_with(text, &[("MARK", "by argument")], PromptBy::Argument);
    let judgement = judged_by(&env, by_argument);
    assert_eq!(judgement.finding, Finding::Failed, "{}", judgement.reason);
    assert_eq!(judgement.reason, "by argument");
}

#[test]
fn an_executor_of_the_users_judges() {
    let env = Env::new();
    let text = "grep -q 'ONLY one letter' && echo \"B) $ONESHOT_ROLE $MARK\"";
    let users = UserExecutor {
        auditor: None,
        reading: Vec::new(),
        name: "mine".to_owned(),
        argv: ["sh", "-c", text].map(str::to_owned).to_vec(),
        env: vec![("MARK".to_owned(), "says so".to_owned())],
        prompt_by: None,
    };
    let executors = Executors::new(&[users]).expect("executors");
    assert!(executors.find("nobody").is_err());
    let executor = executors.find("mine").expect("an executor");
    let judge = CommandJudge::new(Arc::clone(executor), supervisor(&env));
    assert_eq!(judge.name(), "command:mine");
    let judgement = judge.judge(&evidence("a", Status::Slow)).expect("an answer");
    assert_eq!(judgement.finding, Finding::Loop);
    assert_eq!(judgement.reason, "auditor says so");
}

#[test]
fn a_program_that_fails_or_is_missing_falls_back_to_the_heuristic() {
    let env = Env::new();
    for (text, cause) in [
        ("echo A; exit 3", "failed: it ended with exit code 3"),
        ("exit 127", "give its path in executors.script.argv of config.yaml"),
    ] {
        let judgement = judged_by(&env, script(text));
        assert_eq!(judgement.finding, Finding::Loop);
        let reason = judgement.reason;
        assert!(reason.contains("by the heuristic: the judge command:script "), "{reason}");
        assert!(reason.contains(cause), "{reason}");
    }
}

#[test]
fn a_program_that_hangs_is_ended_with_its_tree() {
    let env = Env::new();
    let hanging = || script("sleep 86399 & sleep 86399");
    let judge = CommandJudge::new(hanging(), supervisor(&env));
    let judge = judge.with_time_limit(Duration::from_millis(500));
    let checks = Checks::new(Arc::new(judge), true);
    let id = checks.start("a", None, evidence("a", Status::Stuck));
    let judgement = finished(&checks, &id.expect("a check"));
    assert!(judgement.reason.contains("gave no answer within"), "{}", judgement.reason);
    crate::support::processes::assert_none_left(env.mark());

    let checks = Checks::new(Arc::new(CommandJudge::new(hanging(), supervisor(&env))), true);
    let id = checks.start("a", None, evidence("a", Status::Stuck));
    wait_until("the program", || {
        let running = crate::support::processes::processes_with(env.mark());
        (running.len() >= 3).then_some(())
    });
    checks.close();
    let state = checks.get(&id.expect("a check"), Duration::ZERO);
    assert!(matches!(state, Some(CheckState::Failed(_))), "{state:?}");
    crate::support::processes::assert_none_left(env.mark());
}

/// Bytes that a flooding task is drained of.
const FLOOD: u64 = 16 << 20;

/// Waits until the task has put out another [`FLOOD`].
fn drain(task: &TaskHandle) {
    let goal = task.live.state().streams.output.end.offset + FLOOD;
    let drained = task.live.wait_for(
        Some(Instant::now() + PATIENCE),
        &Cancel::default(),
        |state| {
            if state.streams.output.end.offset >= goal {
                WaitStep::Found(())
            } else {
                WaitStep::WaitUntil(None)
            }
        },
        Instant::now,
    );
    drained.expect("output of the flood");
}

#[test]
fn a_task_goes_on_while_three_checks_are_under_way() {
    let env = Env::new();
    let go = env.path("go");
    let endpoint = Endpoint::start(&env, &json!([{"text": "A", "wait_for": go}]));
    let supervisor = supervisor(&env);
    let flood = Request::of_own(CommandLine::parse("exec yes a line of output"));
    let task = supervisor.start(flood, None).expect("a task");
    let checks = Checks::new(judge_at(endpoint.base_url()), true);
    // None of them can end before the file is there: to start one does not wait for it.
    let ids = ["a", "b", "c"].map(|session| {
        let started = checks.start(session, None, evidence(session, Status::Slow));
        started.expect("a check")
    });
    wait_until("three requests", || (endpoint.requests().len() == 3).then_some(()));
    drain(&task);
    for id in &ids {
        assert_eq!(checks.get(id, Duration::ZERO), Some(CheckState::Pending));
    }
    std::fs::write(&go, "").expect("a file");
    for id in &ids {
        assert_eq!(finished(&checks, id).finding, Finding::Progress);
    }
    let _ = supervisor.kill(&task, KillRequest::Escalate);
}
