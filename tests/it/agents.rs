//! Agent programs: how they are started, what their output means, and what can be told
//! from what they leave. Streams and storage are those of the real programs, recorded with
//! a scripted endpoint; `tests/fixtures/agents` has one folder for each. In it, the folder of the
//! newest version has a run of each of [`CASES`], recorded by `tests/clients/record_agents.mjs`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use zsh_tool::testing::agent::activity::{Activity, AgentError, Answer};
use zsh_tool::testing::agent::executor::{
    Executor, Executors, Ids, Launch, MAX_ARGUMENT_PROMPT, PromptBy, Recovery, Reference, Role,
    UnknownExecutor,
};
use zsh_tool::testing::agent::stream::{Framer, Framing, Record};
use zsh_tool::testing::agent::usage::{Meter, Usage};
use zsh_tool::testing::config::UserExecutor;

use crate::support::recordings::{copy, fixture};

const SESSION: &str = "11111111-1111-4111-8111-111111111111";
/// Codex names its sessions itself.
const CODEX_SESSION: &str = "01a201d3-7f4b-72a2-97d5-23f326a5f9ce";

/// How the stream of a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answer,
    Error(AgentError),
    /// It says neither.
    Open,
}

/// What is recorded of the newest version of each program: a run that ends well, one whose endpoint
/// never answers, and ones whose endpoint answers with 500, 429 and 401.
const CASES: [(&str, End); 5] = [
    ("good", End::Answer),
    ("hung", End::Open),
    ("failed", End::Error(AgentError::ApiError)),
    ("limited", End::Error(AgentError::ApiError)),
    ("refused", End::Error(AgentError::AuthFailed)),
];

/// The streams that end in another way than the others of their case.
const OTHER_ENDS: [(&str, &str, End); 3] = [
    // It was ended while it tried again, of which it says nothing.
    ("qwen", "limited", End::Open),
    // It reports that it was ended.
    ("copilot", "hung", End::Error(AgentError::ToolError)),
    // All of its output is its answer; that it was ended, only its exit code shows.
    ("aider", "hung", End::Answer),
];

/// The executors without recordings: this program itself, and one that is known by its source.
const NOT_RECORDED: [&str; 2] = ["openai", "goose"];

/// A recorded run of the newest version of a program.
struct Run {
    name: String,
    case: &'static str,
    /// Its folder of `tests/fixtures/agents`.
    folder: String,
    end: End,
}

/// A run of each of [`CASES`] for each program.
fn recorded_runs() -> Vec<Run> {
    let executors = executors(&[]);
    let mut runs = Vec::new();
    for name in executors.names() {
        let Some(newest) = executors.find(name).expect(name).verified_versions().last() else {
            assert!(NOT_RECORDED.contains(&name), "{name} has no verified version");
            continue;
        };
        for (case, end) in CASES {
            let other = OTHER_ENDS.iter().find(|(other, at, _)| (*other, *at) == (name, case));
            runs.push(Run {
                name: name.to_owned(),
                case,
                folder: format!("{name}/{newest}/{case}"),
                end: other.map_or(end, |(_, _, end)| *end),
            });
        }
    }
    runs
}

impl Run {
    fn stream(&self) -> String {
        let form = if self.name == "aider" { "txt" } else { "ndjson" };
        format!("{}/stream.{form}", self.folder)
    }

    /// The session of its conversation; `None` if nothing that is read is kept.
    fn keeps(&self) -> Option<Option<&'static str>> {
        let keeper = KEEPERS.iter().find(|(name, _)| *name == self.name)?;
        Some(keeper.1)
    }
}

fn ids<'a>(prompt: &'a str, model: Option<&'a str>) -> Ids<'a> {
    Ids {
        oneshot: "0f0e0d0c-0000-4000-8000-000000000000",
        role: Role::Worker,
        iteration: 3,
        agent_session: SESSION,
        model,
        prompt,
        prompt_file: None,
        allow_edits: false,
    }
}

fn executors(user: &[UserExecutor]) -> Executors {
    Executors::new(user).expect("the built-in list")
}

fn launch(executors: &Executors, name: &str, prompt: &str, model: Option<&str>) -> Launch {
    let executor = executors.find(name).expect(name);
    executor.launch(&ids(prompt, model))
}

fn entry(name: &str, argv: &[&str], prompt_by: Option<PromptBy>) -> UserExecutor {
    UserExecutor {
        name: name.to_owned(),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        prompt_by,
        ..UserExecutor::default()
    }
}

/// Every command line, with and without a model: program, arguments, prompt on stdin.
const COMMAND_LINES: &[(&str, Option<&str>, &str, bool)] = &[
    ("claude", None, "claude|-p|--output-format|stream-json|--verbose|--session-id|SESSION", true),
    (
        "claude",
        Some("opus"),
        "claude|-p|--output-format|stream-json|--verbose|--session-id|SESSION|--model|opus",
        true,
    ),
    ("codex", None, "codex|exec|--json|-", true),
    ("codex", Some("gpt"), "codex|exec|--json|--model|gpt|-", true),
    ("cline", None, "cline|--json|--|PROMPT", false),
    ("cline", Some("m"), "cline|--json|--model|m|--|PROMPT", false),
    (
        "aider",
        None,
        "aider|--no-pretty|--no-check-update|--no-show-release-notes|--no-show-model-warnings\
         |--message=PROMPT",
        false,
    ),
    (
        "aider",
        Some("m"),
        "aider|--no-pretty|--no-check-update|--no-show-release-notes|--no-show-model-warnings\
         |--model|m|--message=PROMPT",
        false,
    ),
    ("gemini", None, "gemini|--output-format|stream-json|--session-id|SESSION", true),
    (
        "gemini",
        Some("m"),
        "gemini|--output-format|stream-json|--session-id|SESSION|--model|m",
        true,
    ),
    ("qwen", Some("m"), "qwen|--output-format|stream-json|--session-id|SESSION|--model|m", true),
    ("opencode", Some("a/m"), "opencode|run|--format|json|--model|a/m", true),
    ("copilot", Some("m"), "copilot|--output-format|json|--session-id|SESSION|--model|m", true),
    ("goose", Some("m"), "goose|run|--output-format|stream-json|--model|m|--instructions|-", true),
];

#[test]
fn every_command_line_is_as_it_was_verified() {
    let executors = executors(&[]);
    // Neither what looks like a placeholder nor what looks like an option is one.
    let prompt = "-p {model} {session} 'quoted' $(x)\nend";
    for (name, model, expected, by_stdin) in COMMAND_LINES {
        let launch = launch(&executors, name, prompt, *model);
        let argv: Vec<String> = expected
            .split('|')
            .map(|word| word.replace("SESSION", SESSION).replace("PROMPT", prompt))
            .collect();
        assert_eq!(launch.argv, argv, "{name}");
        let stdin = by_stdin.then(|| prompt.to_owned());
        assert_eq!(launch.stdin, stdin, "{name}");
    }
    let openai = launch(&executors, "openai", prompt, Some("m"));
    assert_eq!(openai.argv[1..], ["agent-openai", "--model", "m"]);
    assert!(Path::new(&openai.argv[0]).is_absolute());
    assert_eq!(openai.stdin.as_deref(), Some(prompt));
}

#[test]
fn no_executor_of_ours_skips_what_an_agent_asks_for() {
    let executors = executors(&[]);
    for name in executors.names() {
        let line = launch(&executors, name, "go", Some("m")).argv.join(" ");
        for word in ["dangerous", "skip", "yolo", "bypass", "yes", "approv", "trust", "full"] {
            assert!(!line.contains(word), "{line}");
        }
    }
}

fn argv_of(executors: &Executors, name: &str, role: Role) -> String {
    let ids = Ids { role, ..ids("go", None) };
    executors.find(name).expect(name).launch(&ids).argv.join(" ")
}

/// Verified with the real programs: each of them answers.
#[test]
fn auditors_are_started_so_that_they_only_look() {
    let ours = executors(&[]);
    for (name, expected) in [
        ("claude", "--permission-mode plan"),
        ("codex", "--sandbox read-only -"),
        ("gemini", "--approval-mode plan"),
        ("qwen", "--approval-mode plan"),
        ("opencode", "--agent plan"),
        ("copilot", "--deny-tool=write"),
        ("cline", "--plan -- go"),
        ("aider", "--chat-mode ask --message=go"),
    ] {
        let (worker, auditor) =
            (argv_of(&ours, name, Role::Worker), argv_of(&ours, name, Role::Auditor));
        assert!(auditor.ends_with(expected), "{auditor}");
        assert!(!worker.contains(expected), "{worker}");
    }
}

#[test]
fn the_users_arguments_do_not_let_an_auditor_write_unless_the_user_says_so() {
    let allowing = ["claude", "--permission-mode", "acceptEdits", "--verbose"];
    let mut codex = entry("codex", &["codex", "--sandbox=workspace-write", "-q"], None);
    let mut mine = entry("mine", &["agent", "-x"], Some(PromptBy::Argument));
    mine.auditor = Some(vec!["--look".to_owned()]);
    let user = [entry("claude", &allowing, None), codex.clone(), mine];
    let changed = executors(&user);
    let argv = |name, role| argv_of(&changed, name, role);
    assert!(argv("claude", Role::Worker).ends_with("--permission-mode acceptEdits --verbose"));
    let auditor = argv("claude", Role::Auditor);
    assert!(auditor.ends_with("--verbose --permission-mode plan"), "{auditor}");
    assert!(!auditor.contains("acceptEdits"), "{auditor}");
    assert_eq!(argv("codex", Role::Auditor), "codex exec --json -q --sandbox read-only -");
    assert_eq!(argv("mine", Role::Worker), "agent -x go");
    assert_eq!(argv("mine", Role::Auditor), "agent -x --look go");
    codex.auditor = Some(Vec::new());
    let both = argv_of(&executors(&[codex]), "codex", Role::Auditor);
    assert_eq!(both, "codex exec --json --sandbox=workspace-write -q -");
}

#[test]
fn agents_know_their_run_by_their_environment() {
    let mut mine = entry("mine", &["agent"], None);
    mine.env = vec![
        ("KEY".to_owned(), "value".to_owned()),
        ("ONESHOT_ID".to_owned(), "another".to_owned()),
    ];
    let executors = executors(&[mine]);
    let expected = [
        ("KEY", "value"),
        ("ONESHOT_ID", "0f0e0d0c-0000-4000-8000-000000000000"),
        ("ONESHOT_ROLE", "worker"),
        ("ONESHOT_ITERATION", "3"),
        ("ONESHOT_MODEL", "m"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = launch(&executors, "mine", "go", Some("m")).environment;
    assert_eq!(environment, expected);
    let environment = launch(&executors, "claude", "go", None).environment;
    assert_eq!(environment, expected[1..4]);
}

#[test]
fn prompts_lose_their_nul_and_what_an_argument_cannot_hold() {
    let user = [
        entry("mine", &["agent"], Some(PromptBy::Argument)),
        entry("yours", &["agent", "--do={prompt}", "-q"], Some(PromptBy::Argument)),
    ];
    let executors = executors(&user);
    let of_stdin = launch(&executors, "claude", "a\0b", None).stdin;
    assert_eq!(of_stdin.as_deref(), Some("ab"));
    let argv = launch(&executors, "mine", "a\0b", None).argv;
    assert_eq!(argv, ["agent", "ab"]);
    let argv = launch(&executors, "yours", "a {prompt}", None).argv;
    assert_eq!(argv, ["agent", "--do=a {prompt}", "-q"]);
    let long = "é".repeat(MAX_ARGUMENT_PROMPT);
    for name in ["mine", "cline", "aider"] {
        let argv = launch(&executors, name, &long, None).argv;
        let longest = argv.iter().map(String::len).max().expect("words");
        assert!(longest < 131_072 && longest > 100_000, "{name}: {longest}");
    }
    assert_eq!(launch(&executors, "codex", &long, None).stdin.as_deref(), Some(&*long));
    let by_file = Ids { prompt_file: Some("/w/p"), ..ids(&long, None) };
    let last = |name| executors.find(name).unwrap().launch(&by_file).argv.pop().unwrap();
    assert_eq!(last("aider"), "--message-file=/w/p");
    assert!(last("cline").contains("the file /w/p."), "{}", last("cline"));
    assert!(last("mine").contains("the file /w/p."), "{}", last("mine"));
}

#[test]
fn a_worker_is_allowed_to_edit_where_the_user_says_so() {
    let user = [entry("gemini", &["gemini", "--approval-mode=default"], None)];
    let executors = executors(&user);
    let argv = |name, role| {
        let allowed = Ids { role, allow_edits: true, ..ids("go", None) };
        executors.find(name).unwrap().launch(&allowed).argv.join(" ")
    };
    assert!(argv("claude", Role::Worker).contains("--permission-mode acceptEdits"));
    assert!(argv("codex", Role::Worker).contains("--sandbox workspace-write"));
    assert!(argv("claude", Role::Auditor).contains("--permission-mode plan"));
    let chosen = argv("gemini", Role::Worker);
    assert!(chosen.contains("=default") && !chosen.contains("auto_edit"), "{chosen}");
}

#[test]
fn the_user_adds_programs_and_changes_ours() {
    let user = [
        entry("mine", &["/opt/agent", "-x"], None),
        entry("command", &["other"], None),
        entry("claude", &["/opt/claude", "--permission-mode", "plan"], None),
        entry("codex", &["codex", "--sandbox", "workspace-write"], Some(PromptBy::Stdin)),
        entry("aider", &["aider", "--yes-always"], None),
        entry("gemini", &[], Some(PromptBy::Argument)),
        entry("empty", &[], None),
    ];
    let executors = executors(&user);
    let argv = |name| launch(&executors, name, "go", None).argv;
    assert_eq!(argv("mine"), ["/opt/agent", "-x"]);
    assert_eq!(argv("command"), ["other"]);
    assert_eq!(
        argv("claude").join(" "),
        format!(
            "/opt/claude -p --output-format stream-json --verbose --session-id {SESSION} \
             --permission-mode plan"
        )
    );
    assert_eq!(argv("codex").join(" "), "codex exec --json --sandbox workspace-write -");
    assert!(argv("aider").ends_with(&["--yes-always".to_owned(), "--message=go".to_owned()]));
    assert_eq!(executors.find("claude").expect("claude").program(), "/opt/claude");
    let problem = |name| executors.find(name).expect_err(name).to_string();
    assert!(problem("gemini").contains("executors.gemini of config.yaml: its prompt_by"));
    assert!(problem("empty").contains("executors.empty of config.yaml: it has no argv"));
    let names: Vec<&str> = executors.names().collect();
    assert_eq!(
        names,
        [
            "claude", "codex", "openai", "aider", "cline", "qwen", "opencode", "copilot", "goose",
            "mine", "command"
        ]
    );
}

/// An entry with this part, which says how to read the program.
fn reading(name: &str, part: &str, value: serde_json::Value) -> UserExecutor {
    let mut entry = entry(name, &["agent"], None);
    entry.reading = vec![(part.to_owned(), value)];
    entry
}

#[test]
fn an_entry_says_how_to_read_its_program() {
    let events = json!([
        {"when": {"kind": "say"}, "text": "words.0"},
        {"when": {"kind": "end"}, "final": "", "usage": {"input": ["in"], "usd": "price"}},
    ]);
    let user = [
        reading("mine", "events", events),
        reading("yours", "records", json!("claude")),
        reading("wrong", "events", json!([{"when": {}}, {"wen": {}}])),
        reading("worse", "storage", json!({"roots": ["."], "files": ["x"], "format": "xml"})),
        reading("worst", "records", json!("gpt")),
    ];
    let executors = executors(&user);
    let mine = executors.find("mine").expect("mine");
    assert!(!mine.final_text_is_stdout());
    let classify = |line: &str| mine.classify(&Record::Json(line.to_owned()));
    let text = classify(r#"{"kind":"say","words":["hello"]}"#);
    assert_eq!(text, [Activity::Text("hello".to_owned())]);
    let end = classify(r#"{"kind":"end","in":5,"price":0.25}"#);
    assert!(matches!(end.as_slice(), [Activity::Final(_), Activity::Usage(_)]), "{end:?}");
    let yours = executors.find("yours").expect("yours");
    let (activities, answer) = said(yours, "claude/streams/ok.ndjson");
    assert_eq!((answer.text(), activities.len()), ("all is done", 11));
    for (name, expected) in [
        ("wrong", "executors.wrong of config.yaml: events, number 2: unknown field `wen`"),
        ("worse", "executors.worse of config.yaml: storage: unknown variant `xml`"),
        ("worst", "executors.worst of config.yaml: records: unknown variant `gpt`"),
    ] {
        let text = executors.find(name).expect_err(name).to_string();
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let executors = executors(&[]);
    let error = executors.find("cursor").expect_err("no such executor");
    assert!(matches!(error, UnknownExecutor::NoSuch { .. }));
    let text = error.to_string();
    assert!(text.contains("\"cursor\"") && text.contains("claude, codex, openai, aider, cline"));
    let text = executors.find("command").expect_err("no program").to_string();
    assert!(text.contains("executors.command of config.yaml: it has no argv"), "{text}");
}

#[test]
fn every_executor_says_how_to_get_it() {
    let executors = executors(&[entry("mine", &["agent"], None)]);
    for (name, part) in [
        ("claude", "npm install -g @anthropic-ai/claude-code"),
        ("codex", "npm install -g @openai/codex"),
        ("cline", "npm install -g cline"),
        ("gemini", "npm install -g @google/gemini-cli"),
        ("qwen", "npm install -g @qwen-code/qwen-code"),
        ("opencode", "npm install -g opencode-ai"),
        ("copilot", "npm install -g @github/copilot"),
        ("goose", "getgoose.ai"),
        ("aider", "pip install"),
        ("mine", "executors.mine.argv"),
    ] {
        let hint = executors.find(name).expect(name).install_hint();
        assert!(hint.contains(part), "{hint}");
    }
}

/// All that a recorded stream says, read in pieces of 7 bytes.
fn said(executor: &Executor, path: &str) -> (Vec<Activity>, Answer) {
    let bytes = fs::read(fixture(path)).expect(path);
    let mut framer = Framer::new(executor.framing());
    let mut records: Vec<_> = bytes.chunks(7).flat_map(|part| framer.push(part)).collect();
    records.extend(framer.finish());
    let activities: Vec<Activity> =
        records.iter().flat_map(|record| executor.classify(record)).collect();
    let mut answer = executor.answer();
    for activity in &activities {
        answer.add(activity);
    }
    (activities, answer)
}

/// Activities in short: kind and what tells.
fn short(activities: &[Activity]) -> Vec<String> {
    let told = activities.iter().filter_map(|activity| match activity {
        Activity::Session { id } => Some(format!("session {id}")),
        Activity::Text(text) => Some(format!("text {text}")),
        Activity::ToolCall { name, argument } => Some(format!("call {name} {argument}")),
        Activity::ToolResult { text, failed } => {
            let text: String = text.lines().next().unwrap_or_default().chars().take(24).collect();
            Some(format!("{} {text}", if *failed { "failed" } else { "result" }))
        }
        Activity::Final(end) => Some(format!("final {:?} {}", end.error, end.text)),
        Activity::FileWritten { path } => Some(format!("wrote {path}")),
        Activity::Denied(what) => {
            Some(format!("denied {}", what.chars().take(17).collect::<String>()))
        }
        Activity::Reflection(_)
        | Activity::Plan(_)
        | Activity::Retry(_)
        | Activity::Usage(_)
        | Activity::Other => None,
    });
    told.map(|told| told.trim_end().to_owned()).collect()
}

#[test]
fn recorded_streams_are_understood() {
    let executors = executors(&[]);
    for (name, expected) in [
        (
            "claude",
            vec![
                "session 11111111-1111-4111-8111-111111111111",
                "call Read /work/project/a.txt",
                "result 1\thello",
                "call Write /work/project/b.txt",
                "failed Claude requested permiss",
                "call Bash false",
                "failed Exit code 1",
                "text all is done",
                "denied Write",
                "final None all is done",
            ],
        ),
        (
            "codex",
            vec![
                "session 01a201d3-7f4b-72a2-97d5-23f326a5f9ce",
                "call command /bin/bash -lc ls",
                "result",
                "text all is done",
                "final None",
            ],
        ),
        (
            "gemini",
            vec![
                "session 11111111-1111-4111-8111-111111111111",
                "call read_file a.txt",
                "result",
                "call write_file b.txt",
                "failed Tool \"write_file\" not fo",
                "denied Tool \"write_file\"",
                "text all is done",
                "final None",
            ],
        ),
        (
            "cline",
            vec![
                "call read_files [{\"path\":\"/work/project/a.txt\"}]",
                "result {\"query\":\"/work/project/",
                "call run_commands ls",
                "result {\"query\":\"ls\",\"result\":\"",
                "text all is done",
                "final None all is done",
            ],
        ),
        (
            "qwen",
            vec![
                "session 11111111-1111-4111-8111-111111111111",
                "call read_file /work/project/a.txt",
                "result hello",
                "call write_file /work/project/b.txt",
                "result ",
                "call run_shell_command touch c.txt",
                "result ",
                "text all is done",
                "final None all is done",
            ],
        ),
        (
            "opencode",
            vec![
                "session ",
                "call read /work/project/a.txt",
                "result <path>/work/project/a.tx",
                "session ",
                "call write /work/project/b.txt",
                "result Wrote file successfully.",
                "session ",
                "call bash touch c.txt",
                "result (no output)",
                "session ",
                "text all is done",
                "final None",
            ],
        ),
        (
            "copilot",
            vec![
                "call view /work/project/a.txt",
                "result hello",
                "call create /work/project/b.txt",
                "result ",
                "call bash touch c.txt",
                "failed Permission denied becaus",
                "denied Permission denied",
                "text all is done",
                "final None",
            ],
        ),
    ] {
        let executor = executors.find(name).expect(name);
        let (activities, answer) = said(executor, &format!("{name}/streams/ok.ndjson"));
        let short = short(&activities);
        assert_eq!(short.len(), expected.len(), "{name}: {short:?}");
        for (found, expected) in short.iter().zip(expected) {
            // What a program names or says itself is not of interest here.
            let fits = match expected.strip_suffix(' ') {
                Some(begin) => found.starts_with(begin),
                None => found == expected,
            };
            assert!(fits, "{name}: {short:?}");
        }
        assert_eq!(answer.text(), "all is done", "{name}");
        assert!(answer.is_final() && answer.error().is_none(), "{name}");
    }
}

/// What the first records of a recorded stream report of their cost.
fn cost(executor: &Executor, path: &str, records: usize) -> Usage {
    let text = fs::read_to_string(fixture(path)).expect(path);
    let mut framer = Framer::new(executor.framing());
    let mut all = framer.push(text.as_bytes());
    all.extend(framer.finish());
    let mut meter = Meter::default();
    for activity in all.iter().take(records).flat_map(|record| executor.classify(record)) {
        if let Activity::Usage(report) = activity {
            meter.add(&report);
        }
    }
    meter.usage()
}

#[test]
fn the_costs_that_recorded_streams_report_are_read() {
    let executors = executors(&[]);
    let tokens = |input, output| (Some(input), Some(output));
    for (path, (input_tokens, output_tokens), usd, turns) in [
        // Each answer has 10 tokens of its own, 3 written to the cache and 60 read from it.
        ("claude/streams/denied.ndjson", tokens(292, 20), Some(0.000_668), Some(4)),
        // Before versions reported tokens to those who record them.
        ("claude/streams/ok.ndjson", (None, None), Some(0.000_7), Some(4)),
        ("codex/streams/ok.ndjson", tokens(3, 3), None, None),
        ("gemini/streams/ok.ndjson", tokens(4, 4), None, None),
        ("cline/streams/ok.ndjson", tokens(3, 3), None, Some(3)),
        // Its 60 cached tokens of each answer are among the 100.
        ("qwen/streams/ok.ndjson", tokens(400, 20), None, Some(4)),
        ("opencode/streams/ok.ndjson", tokens(400, 20), Some(0.000_78), None),
        ("copilot/streams/ok.ndjson", (None, None), None, None),
        ("aider/streams/ok.txt", tokens(1, 1), None, None),
        ("aider/streams/priced.txt", tokens(2_400, 1), Some(0.006), None),
        ("aider/streams/auth.txt", (None, None), None, None),
        ("codex/streams/auth.ndjson", (None, None), None, None),
    ] {
        let name = path.split('/').next().unwrap_or_default();
        let found = cost(executors.find(name).expect(name), path, usize::MAX);
        let rounded = found.usd.map(|usd| (usd * 1e9).round() / 1e9);
        let found = Usage { usd: rounded, ..found };
        assert_eq!(found, Usage { input_tokens, output_tokens, usd, turns }, "{path}");
        let is_reported = input_tokens.is_some() || usd.is_some();
        assert_eq!(found.is_reported(), is_reported, "{path}");
    }
}

/// Its answers count one by one until its result counts them all.
#[test]
fn a_killed_agents_cost_is_what_it_has_reported() {
    let executors = executors(&[]);
    let claude = executors.find("claude").expect("claude");
    let killed = cost(claude, "claude/streams/denied.ndjson", 4);
    let expected =
        Usage { input_tokens: Some(2 * 73), output_tokens: Some(2 * 5), usd: None, turns: Some(2) };
    assert_eq!(killed, expected);
    let cline = executors.find("cline").expect("cline");
    assert_eq!(cost(cline, "cline/streams/ok.ndjson", 12).tokens(), Some(4));
}

/// A new newest version has its runs recorded. What is kept holds the prompt, so that no agent is
/// said to have done nothing for want of a conversation.
#[test]
fn every_case_of_every_newest_version_is_recorded() {
    let mut missing = Vec::new();
    for run in recorded_runs() {
        if !fixture(&run.stream()).is_file() {
            missing.push(run.stream());
        }
        let folder = if run.name == "aider" { "project" } else { "home" };
        let storage = format!("{}/{folder}", run.folder);
        let holds_prompt = || {
            let kept = fs::read_to_string(largest(&fixture(&storage))).expect("a conversation");
            kept.contains("do the thing")
        };
        if run.keeps().is_some() && !(fixture(&storage).is_dir() && holds_prompt()) {
            missing.push(storage);
        }
    }
    assert!(missing.is_empty(), "record them with tests/clients/record_agents.mjs: {missing:#?}");
}

#[test]
fn the_ends_of_recorded_runs_are_told_apart() {
    let executors = executors(&[]);
    for run in recorded_runs() {
        let (folder, executor) = (&run.folder, executors.find(&run.name).expect(&run.name));
        let (activities, answer) = said(executor, &run.stream());
        let error = answer.error().or_else(|| executor.failure_in(answer.text()));
        let end = match error {
            Some(error) => End::Error(error),
            None if answer.is_final() || executor.final_text_is_stdout() => End::Answer,
            None => End::Open,
        };
        assert_eq!(end, run.end, "{folder}: {:?}", short(&activities));
        let text = answer.text();
        match end {
            End::Answer if run.case == "good" => {
                assert!(text.contains("all is done"), "{folder}: {text}");
            }
            End::Answer => assert!(!text.contains("Tokens: "), "{folder}: {text}"),
            End::Error(_) => assert!(!text.is_empty(), "{folder} says what went wrong"),
            End::Open => assert_eq!(text, "", "{folder}"),
        }
        let acts = activities.iter().any(Activity::is_act);
        assert_eq!(acts, run.case == "good" && run.name != "aider", "{folder}");
    }
}

#[test]
fn the_errors_of_recorded_streams_are_told_apart() {
    let executors = executors(&[]);
    for (path, expected) in [
        ("claude/streams/refused.ndjson", AgentError::ConnectionRefused),
        ("claude/streams/auth.ndjson", AgentError::AuthFailed),
        ("claude/streams/api.ndjson", AgentError::ApiError),
        ("claude/streams/bad.ndjson", AgentError::ApiError),
        ("codex/streams/auth.ndjson", AgentError::AuthFailed),
        ("codex/streams/api.ndjson", AgentError::ApiError),
        ("gemini/streams/auth.ndjson", AgentError::AuthFailed),
        ("cline/streams/auth.ndjson", AgentError::AuthFailed),
        ("qwen/streams/auth.ndjson", AgentError::AuthFailed),
        ("qwen/streams/auth-0.24.ndjson", AgentError::AuthFailed),
        ("opencode/streams/auth.ndjson", AgentError::AuthFailed),
        ("copilot/streams/auth.ndjson", AgentError::AuthFailed),
        ("copilot/streams/limited.ndjson", AgentError::ApiError),
    ] {
        let name = path.split('/').next().unwrap_or_default();
        let (activities, answer) = said(executors.find(name).expect(name), path);
        assert_eq!(answer.error(), Some(expected), "{path}");
        assert!(!answer.text().is_empty(), "{path} says what went wrong");
        assert!(!activities.iter().any(Activity::is_act), "{path}");
    }
    // Their endpoint did not answer, or they were ended while they tried again.
    for path in ["qwen/streams/hung.ndjson", "qwen/streams/limited.ndjson"] {
        let (_, answer) = said(executors.find("qwen").expect("qwen"), path);
        assert!(!answer.is_final() && answer.text().is_empty(), "{path}");
    }
    let copilot = executors.find("copilot").expect("copilot");
    let (_, answer) = said(copilot, "copilot/streams/hung.ndjson");
    assert_eq!(answer.error(), Some(AgentError::ToolError));
    // It waits for its network, and has no terminal event.
    let codex = executors.find("codex").expect("codex");
    let (_, answer) = said(codex, "codex/streams/refused.ndjson");
    assert!(!answer.is_final());
}

#[test]
fn all_of_a_plain_programs_output_is_its_answer() {
    let executors = executors(&[entry("mine", &["agent"], None)]);
    let aider = executors.find("aider").expect("aider");
    assert!(aider.final_text_is_stdout() && aider.framing() == Framing::Plain);
    let (_, answer) = said(aider, "aider/streams/ok.txt");
    let all = fs::read_to_string(fixture("aider/streams/ok.txt")).expect("a recording");
    assert_eq!(answer.text(), all);
    assert!(executors.find("mine").expect("mine").final_text_is_stdout());
}

/// Aider exits with 0 after them.
#[test]
fn an_error_in_plain_text_is_told_from_an_answer() {
    let executors = executors(&[]);
    let aider = executors.find("aider").expect("aider");
    let stdout = |name: &str| {
        fs::read_to_string(fixture(&format!("aider/streams/{name}.txt"))).expect("a recording")
    };
    assert_eq!(aider.failure_in(&stdout("auth")), Some(AgentError::AuthFailed));
    assert_eq!(aider.failure_in(&stdout("api")), Some(AgentError::ApiError));
    assert_eq!(aider.failure_in(&stdout("ok")), None);
    // It tried again, and was answered.
    let answered = stdout("api") + &stdout("ok");
    assert_eq!(aider.failure_in(&answered), None);
    assert_eq!(aider.failure_in("I wrote about litellm.AuthenticationError"), None);
}

/// A scratch home and project with what an agent left there.
struct Left {
    scratch: tempfile::TempDir,
    environment: Vec<(OsString, OsString)>,
}

impl Left {
    fn nothing() -> Left {
        let scratch = tempfile::tempdir().expect("a directory");
        for name in ["home", "project", "moved"] {
            fs::create_dir(scratch.path().join(name)).expect("a directory");
        }
        let environment = Vec::new();
        Left { scratch, environment }
    }

    fn of(case: &str) -> Left {
        let left = Left::nothing();
        let project = left.path("project").display().to_string();
        copy(&fixture(case), left.scratch.path(), &project);
        left
    }

    fn with(mut self, name: &str, path: &str) -> Left {
        self.environment.push((name.into(), self.path(path).into()));
        self
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn recover(&self, name: &str, session: Option<&str>) -> Recovery {
        let since = SystemTime::now() - Duration::from_secs(60);
        self.recover_since(name, session, since)
    }

    fn recover_since(&self, name: &str, session: Option<&str>, since: SystemTime) -> Recovery {
        let executors = executors(&[entry("mine", &["agent"], None)]);
        executors.find(name).expect(name).recover(&Reference {
            home: &self.path("home"),
            directory: &self.path("project"),
            agent_session: session,
            since,
            environment: &self.environment,
        })
    }
}

fn done() -> Recovery {
    let text = "all is done".to_owned();
    Recovery::Success { text }
}

/// The executors that keep something, and the session of their fixtures where its id is
/// known to whoever started them.
const KEEPERS: [(&str, Option<&str>); 6] = [
    ("claude", Some(SESSION)),
    ("codex", Some(CODEX_SESSION)),
    ("gemini", Some(SESSION)),
    ("qwen", Some(SESSION)),
    ("cline", None),
    ("aider", None),
];

#[test]
fn a_finished_conversation_is_success() {
    for (name, session) in KEEPERS {
        let left = Left::of(&format!("{name}/success"));
        assert_eq!(left.recover(name, session), done(), "{name}");
        // Also when the id is not known: it is the newest of this directory.
        assert_eq!(left.recover(name, None), done(), "{name}");
    }
    for run in recorded_runs().iter().filter(|run| run.case == "good") {
        let (name, left) = (&run.name, Left::of(&run.folder));
        let expected = if run.keeps().is_some() { done() } else { Recovery::Nothing };
        assert_eq!(left.recover(name, run.keeps().flatten()), expected, "{}", run.folder);
        assert_eq!(left.recover(name, None), expected, "{}", run.folder);
    }
    assert_eq!(Left::of("gemini/document").recover("gemini", Some(SESSION)), done());
    assert_eq!(Left::of("cline/shown").recover("cline", None), done());
}

#[test]
fn acts_without_an_answer_are_partial_work() {
    for (name, session, parts) in [
        ("claude", Some(SESSION), ["- Read: ", "- Bash: false"]),
        ("codex", Some(CODEX_SESSION), ["actions:", "- exec_command: ls"]),
        ("gemini", Some(SESSION), ["- read_file: a.txt", "- write_file: b.txt"]),
        ("qwen", Some(SESSION), ["- read_file: ", "- run_shell_command: touch c.txt"]),
        ("cline", None, ["- read_files: ", "- run_commands: ls"]),
        ("aider", None, ["- wrote new.txt", "- Commit: 1a2b3c4 feat: Add new.txt"]),
    ] {
        let recovery = Left::of(&format!("{name}/partial")).recover(name, session);
        let Recovery::Partial { what } = recovery else {
            panic!("{name}: {recovery:?}");
        };
        for part in parts {
            assert!(what.contains(part), "{name}: {what}");
        }
        assert!(!what.contains("old.txt"), "{what}");
    }
    let recovery = Left::of("cline/shown-partial").recover("cline", None);
    assert!(matches!(recovery, Recovery::Partial { .. }), "{recovery:?}");
}

#[test]
fn a_prompt_alone_is_nothing() {
    for (name, session) in KEEPERS {
        let left = Left::of(&format!("{name}/nothing"));
        assert_eq!(left.recover(name, session), Recovery::Nothing, "{name}");
    }
    // Errors of its endpoint are no answer, nor is what was sent there: Claude Code stores its
    // system prompt, and Cline stores an error as its own message.
    for run in recorded_runs().iter().filter(|run| run.case != "good") {
        let left = Left::of(&run.folder);
        for session in [run.keeps().flatten(), None] {
            let recovery = left.recover(&run.name, session);
            assert_eq!(recovery, Recovery::Nothing, "{}", run.folder);
        }
    }
    // Earlier versions, and an endpoint that refused the connection.
    for (name, case) in
        [("claude", "refused"), ("qwen", "hung"), ("qwen", "denied"), ("qwen", "limited")]
    {
        let left = Left::of(&format!("{name}/{case}"));
        assert_eq!(left.recover(name, Some(SESSION)), Recovery::Nothing, "{name}/{case}");
    }
}

#[test]
fn a_torn_answer_is_no_answer() {
    for (name, session) in KEEPERS {
        let recovery = Left::of(&format!("{name}/torn")).recover(name, session);
        match name {
            // It has done nothing else.
            "aider" => assert_eq!(recovery, Recovery::Nothing),
            _ => assert!(matches!(recovery, Recovery::Partial { .. }), "{name}: {recovery:?}"),
        }
    }
}

#[test]
fn a_storage_that_was_moved_is_found() {
    for (name, session, variable, path) in [
        ("claude", Some(SESSION), "CLAUDE_CONFIG_DIR", "moved"),
        ("codex", Some(CODEX_SESSION), "CODEX_HOME", "moved"),
        ("gemini", Some(SESSION), "GEMINI_CLI_HOME", "moved"),
        ("cline", None, "CLINE_DIR", "moved"),
        ("cline", None, "CLINE_DATA_DIR", "moved/data"),
        ("aider", None, "AIDER_CHAT_HISTORY_FILE", "moved/chats/history.md"),
    ] {
        let left = Left::of(&format!("{name}/moved"));
        assert_eq!(left.recover(name, session), Recovery::Nothing, "{name}");
        let left = left.with(variable, path);
        assert_eq!(left.recover(name, session), done(), "{name}");
    }
}

#[test]
fn aiders_history_lies_at_the_top_of_the_repository() {
    let left = Left::of("aider/success");
    fs::rename(left.path("project"), left.path("top")).expect("a move");
    fs::create_dir_all(left.path("top/.git")).expect("a repository");
    fs::create_dir_all(left.path("top/below")).expect("a directory");
    let executors = executors(&[]);
    let recovery = executors.find("aider").expect("aider").recover(&Reference {
        home: &left.path("home"),
        directory: &left.path("top/below"),
        agent_session: None,
        since: SystemTime::UNIX_EPOCH,
        environment: &[],
    });
    assert_eq!(recovery, done());
}

#[test]
fn conversations_of_before_and_of_other_directories_are_not_taken() {
    let later = SystemTime::now() + Duration::from_secs(3600);
    for (name, _) in KEEPERS {
        let left = Left::of(&format!("{name}/success"));
        let recovery = left.recover_since(name, None, later);
        assert_eq!(recovery, Recovery::Nothing, "{name}");
    }
    for name in ["claude", "codex", "gemini", "cline"] {
        let left = Left::nothing();
        copy(&fixture(&format!("{name}/success")), left.scratch.path(), "/another/project");
        assert_eq!(left.recover(name, None), Recovery::Nothing, "{name}");
    }
}

#[test]
fn nothing_is_read_out_of_the_storage() {
    use std::os::unix::fs::symlink;
    let left = Left::of("claude/success");
    let folder = left.path("home/.claude/projects/-work-project");
    let file = folder.join(format!("{SESSION}.jsonl"));
    let outside = left.path("moved/outside.jsonl");
    fs::rename(&file, &outside).expect("a move");
    symlink(&outside, &file).expect("a link");
    assert_eq!(left.recover("claude", Some(SESSION)), Recovery::Nothing);
    // Within it a link is as good as a file.
    fs::remove_file(&file).expect("removed");
    let inside = left.path("home/.claude/kept.jsonl");
    fs::rename(&outside, &inside).expect("a move");
    symlink(&inside, &file).expect("a link");
    assert_eq!(left.recover("claude", None), done());
}

#[test]
fn a_pipe_in_the_storage_holds_nobody_up() {
    let left = Left::of("claude/success");
    let folder = left.path("home/.claude/projects/-work-project");
    let pipe = folder.join(format!("x-{SESSION}.jsonl"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    assert_eq!(left.recover("claude", Some(SESSION)), done());
}

#[test]
fn programs_that_keep_nothing_leave_nothing() {
    let left = Left::nothing();
    for name in [
        "mine", "openai", "claude", "codex", "gemini", "qwen", "cline", "aider", "opencode",
        "goose",
    ] {
        assert_eq!(left.recover(name, Some(SESSION)), Recovery::Nothing, "{name}");
    }
}

#[test]
fn a_conversation_torn_anywhere_gives_no_answer_but_its_own() {
    /// Places at which each file is torn.
    const CUTS: usize = 60;
    for (name, session) in KEEPERS {
        let left = Left::of(&format!("{name}/success"));
        let file = largest(left.scratch.path());
        let whole = fs::read(&file).expect("a conversation");
        for cut in (0..CUTS).map(|cut| whole.len() * cut / CUTS) {
            fs::write(&file, &whole[..cut]).expect("a torn file");
            if let Recovery::Success { text } = left.recover(name, session) {
                // Aider's history of before is whole where the file ends with it.
                let known = ["all is done", "the older answer"];
                assert!(known.contains(&text.as_str()), "{name} at {cut}: {text}");
            }
        }
    }
}

/// The conversation among what a program keeps.
fn largest(folder: &Path) -> PathBuf {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            if entry.file_type().expect("a type").is_dir() {
                folders.push(entry.path())
            } else {
                files.push((entry.metadata().expect("a size").len(), entry.path()))
            }
        }
    }
    files.into_iter().max().expect("a file").1
}

#[test]
fn records_of_any_shape_mean_something() {
    use serde_json::{Value, json};
    let executors = executors(&[entry("mine", &["agent"], None)]);
    let odd = [json!(null), json!(7), json!("x"), json!([]), json!({}), json!([[{"a": null}]])];
    for name in executors.names() {
        let executor = executors.find(name).expect(name);
        let path = fixture(&format!("{name}/streams/ok.ndjson"));
        let stream = fs::read_to_string(path).unwrap_or_default();
        for line in stream.lines() {
            let event: Value = serde_json::from_str(line).expect("a record");
            for changed in changed(&event, &odd) {
                let record = Record::Json(changed.to_string());
                assert!(!executor.classify(&record).is_empty(), "{name}: {changed}");
            }
        }
        for record in ["", "{", "[]", "7"].map(|text| Record::Json(text.to_owned())) {
            assert!(!executor.classify(&record).is_empty(), "{name}: {record:?}");
        }
    }

    /// The value with each of its parts replaced in turn.
    fn changed(value: &Value, odd: &[Value]) -> Vec<Value> {
        let mut all = odd.to_vec();
        let keys: Vec<String> = match value {
            Value::Object(fields) => fields.keys().cloned().collect(),
            _ => Vec::new(),
        };
        for key in keys {
            for part in changed(&value[&key], odd) {
                let mut copy = value.clone();
                copy[&key] = part;
                all.push(copy);
            }
        }
        all
    }
}
