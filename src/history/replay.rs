//! Measures the characters that insights cost in whole sessions: replays `tests/fixtures/sessions`
//! through the insights and a real database, at the times of their commands.
//!
//! `cargo test --lib history::replay -- --nocapture` prints each text with its condition and
//! how often it is shown. Limit: tables of options need manual pages and are not counted.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::identity::{CommandIdentity, DERIVATION_VERSION};
use super::run_record::{end_facts, nearest_program};
use crate::alan::history::History;
use crate::alan::insight::{self, Insight, Level, UniversalExit, after, before};
use crate::alan::run::{EndedRun, Ending, Run};
use crate::alan::schema::Derivation;
use crate::alan::store::{Store, StoreSettings};
use crate::neverhang::Rules;
use crate::shell::command_line::CommandLine;
use crate::shell::lint::lints;
use crate::shell::{normalise, template};
use crate::text::foreign::ShowPath;
use crate::text::redact::Redactor;

const SESSIONS: usize = 30;
/// The most characters that `insights: useful` shows, as a percentage of `insights: all`.
const MAX_PERCENT: usize = 60;
/// When a call returns with the command still running.
const YIELD_SECONDS: f64 = 2.0;
/// The time from an answer to the agent's next call.
const THINKING: Duration = Duration::from_secs(15);
/// The time from the start of a session to the start of the next one.
const BETWEEN: Duration = Duration::from_secs(2 * 3600);

/// One line of a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    command: String,
    exit: i32,
    seconds: f64,
    output: String,
    #[serde(default)]
    pipestatus: Vec<i32>,
    #[serde(default)]
    timeout: bool,
    #[serde(default)]
    killed: bool,
}

/// A text, the condition of `insights: useful`, and which insights have the text.
type Kind = (&'static str, &'static str, fn(&Insight) -> bool);

const ALWAYS: &str = "always";
const NEVER: &str = "never";

const KINDS: &[Kind] = &[
    ("New pattern. No history yet.", "runs, first of its kind, alone", |insight| {
        *insight == Insight::NewPattern
    }),
    ("Retry #N. Previous N all failed.", ALWAYS, |insight| {
        matches!(insight, Insight::RetryFailed { .. })
    }),
    ("Retry #N. Previous N succeeded.", NEVER, |insight| {
        matches!(insight, Insight::RetrySucceeded { .. })
    }),
    ("Retry #N in last 15m. S/N succeeded.", "the newest failed", |insight| {
        matches!(insight, Insight::RetryMixed { .. })
    }),
    ("Similar to 'T' - S/N succeeded recently.", "the newest failed", |insight| {
        matches!(insight, Insight::Similar { .. })
    }),
    ("Streak: N successes in a row. Solid.", NEVER, |insight| {
        matches!(insight, Insight::SuccessStreak(_))
    }),
    ("Failing streak: N. Same approach?", ALWAYS, |insight| {
        matches!(insight, Insight::FailingStreak(_))
    }),
    ("N% timeout rate for this pattern.", ALWAYS, |insight| {
        matches!(insight, Insight::Timeouts { .. })
    }),
    ("Reliable pattern: N% success (R runs).", NEVER, |insight| {
        matches!(insight, Insight::Reliable { .. })
    }),
    ("Usually takes ~Ns.", NEVER, |insight| matches!(insight, Insight::UsuallyTakes { .. })),
    ("Host 'H' has N% connection failure rate", ALWAYS, |insight| {
        matches!(insight, Insight::HostFails { .. })
    }),
    ("Host 'H' is reliable: N connections.", NEVER, |insight| {
        matches!(insight, Insight::HostReliable { .. })
    }),
    ("Remote command 'T' fails often (F/N).", ALWAYS, |insight| {
        matches!(insight, Insight::RemoteFails { .. })
    }),
    ("Remote command 'T' reliable across N hosts.", NEVER, |insight| {
        matches!(insight, Insight::RemoteReliable { .. })
    }),
    ("a wait without deadline, pkill -f, nohup, …", ALWAYS, |insight| {
        matches!(insight, Insight::Pitfall(_))
    }),
    ("No file matches …, zsh does not split …, …", ALWAYS, |insight| {
        matches!(insight, Insight::Dialect(_))
    }),
    ("Options for 'C':", "not in the last 15 minutes", |insight| {
        matches!(insight, Insight::Options { .. })
    }),
    ("No output produced.", NEVER, |insight| *insight == Insight::NoOutput),
    ("command not found (exit 127)", ALWAYS, |insight| {
        matches!(insight, Insight::Exit(UniversalExit::NotFound { .. }))
    }),
    (
        "exit 124, 126, 130, 137, 139, 143; 255 of ssh",
        ALWAYS,
        |insight| matches!(insight, Insight::Exit(exit) if !matches!(exit, UniversalExit::NotFound { .. })),
    ),
    ("grep exit 1 = no match (normal)", NEVER, |insight| {
        matches!(insight, Insight::NormalExit { .. })
    }),
    ("pipe segment N exited C (masked …)", ALWAYS, |insight| {
        matches!(insight, Insight::MaskedSegment { .. })
    }),
    ("Same failure N times: …", ALWAYS, |insight| matches!(insight, Insight::SameFailure { .. })),
    ("the database is corrupt, unreadable, not on disk", ALWAYS, |insight| {
        matches!(
            insight,
            Insight::MovedAside { .. } | Insight::UnreadableRows { .. } | Insight::NotOnDisk { .. }
        )
    }),
];

/// How often each kind is shown, and its characters.
struct Shown([(usize, usize); KINDS.len()]);

impl Shown {
    fn add(&mut self, insights: &[Insight]) {
        for insight in insights {
            let places = KINDS.iter().zip(&mut self.0).filter(|((.., is), _)| is(insight));
            let mut counts: Vec<_> = places.map(|(_, counts)| counts).collect();
            assert_eq!(counts.len(), 1, "{insight:?} has one kind");
            for (times, chars) in &mut counts {
                *times += 1;
                *chars += insight.to_string().chars().count();
            }
        }
    }

    fn chars(&self) -> usize {
        self.0.iter().map(|(_, chars)| chars).sum()
    }
}

/// The insights of each result of a call, and whether the command is still running then.
fn results(
    store: &Store,
    call: &Call,
    history: &History,
    redactor: &Redactor,
    ended_at: SystemTime,
) -> Vec<(Vec<Insight>, bool)> {
    let identity = CommandIdentity::derive(&CommandLine::parse(&*call.command), redactor);
    let mut insights = before::insights(history, &lints(&identity.redacted, false));
    let mut results = Vec::new();
    if call.seconds > YIELD_SECONDS {
        results.push((std::mem::take(&mut insights), true));
    }
    let duration = Duration::from_secs_f64(call.seconds);
    let ending = match (call.killed, call.timeout) {
        (true, _) => Ending::Killed { after: duration },
        (_, true) => Ending::TimedOut(call.exit),
        _ => Ending::Exited(call.exit),
    };
    let run = Run::new(
        EndedRun {
            pattern: identity.with_segments(&call.pipestatus),
            ending,
            duration,
            cpu: None,
            peak: None,
            pipestatus: call.pipestatus.clone(),
            output_head: &call.output,
            output_tail: &call.output,
            cwd: None,
            git_head: None,
            at: ended_at,
        },
        redactor,
    );
    store.record(&run);
    let facts = end_facts(&identity, run, call.output.is_empty(), None);
    let nearest = nearest_program(store, &facts);
    insights.extend(after::insights(&facts, nearest.as_deref(), history));
    results.push((insights, false));
    results
}

fn warnings(insights: &[Insight]) -> Vec<String> {
    let warnings = insights.iter().filter(|insight| insight.level() == Level::Warning);
    warnings.map(ToString::to_string).collect()
}

#[test]
fn useful_insights_take_far_fewer_characters_and_lose_no_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions");
    let entries = fs::read_dir(folder).expect("the sessions").map(|entry| entry.expect("a file"));
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    assert_eq!(files.len(), SESSIONS);
    let directory = tempfile::tempdir().expect("a directory");
    let redactor = Redactor::default();
    let begin = SystemTime::now() - BETWEEN * (SESSIONS as u32 + 1);
    let (mut all, mut useful) = (Shown([(0, 0); KINDS.len()]), Shown([(0, 0); KINDS.len()]));
    let (mut calls, mut warned) = (0, 0);
    for (place, file) in files.iter().enumerate() {
        let name = file.shown();
        let store = Store::open(StoreSettings {
            path: directory.path().join("alan.db"),
            session: name.to_string(),
            derivation: Derivation {
                version: DERIVATION_VERSION,
                hash: |text| normalise::hash(&CommandLine::parse(text)),
                template: |text| template::template(&CommandLine::parse(text)),
                with_subcommands: |text| template::with_subcommands(&CommandLine::parse(text)),
                redactor: redactor.clone(),
            },
            old_databases: Vec::new(),
            rules: Rules::default(),
        });
        let mut now = begin + BETWEEN * place as u32;
        let text = fs::read_to_string(file).expect("a session");
        assert!((20..=60).contains(&text.lines().count()), "{name}");
        for line in text.lines() {
            let call: Call = serde_json::from_str(line).unwrap_or_else(|error| {
                panic!("{name}: {error}: {line}");
            });
            calls += 1;
            let pattern =
                CommandIdentity::derive(&CommandLine::parse(&*call.command), &redactor).pattern;
            let history = store.history(&pattern, now);
            now += Duration::from_secs_f64(call.seconds);
            for (insights, is_running) in results(&store, &call, &history, &redactor, now) {
                let kept = insight::useful(insights.clone(), &history, is_running);
                warned += warnings(&insights).len();
                assert_eq!(warnings(&kept), warnings(&insights), "{name}: {line}");
                assert!(kept.len() == 1 || !kept.contains(&Insight::NewPattern), "{kept:?}");
                all.add(&insights);
                useful.add(&kept);
            }
            now += THINKING;
        }
        assert!(store.take_warnings().is_empty(), "{name}");
        store.close();
    }
    eprintln!("{:<50} {:<30} {:>14} {:>14}", "insight", "useful shows it", "all", "useful");
    for (((text, condition, _), all), useful) in KINDS.iter().zip(all.0).zip(useful.0) {
        let cell = |(times, chars): (usize, usize)| format!("{times} × / {chars}");
        eprintln!("{text:<50} {condition:<30} {:>14} {:>14}", cell(all), cell(useful));
    }
    let (all, useful) = (all.chars(), useful.chars());
    let percent = useful * 100 / all;
    eprintln!("{calls} calls, {warned} warnings: {all} characters, useful {useful} ({percent} %)");
    assert!(warned > 100, "{warned} warnings");
    assert!(useful * 100 <= all * MAX_PERCENT, "{useful} of {all} characters");
}
