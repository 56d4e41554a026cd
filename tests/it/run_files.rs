//! The files of agent runs: whole at every moment, private, without secrets.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::num::NonZeroU32;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use zsh_tool::testing::agent::activity::AgentError;
use zsh_tool::testing::oneshot::log_line::{LineKind, Origin};
use zsh_tool::testing::oneshot::log_reader::{self, Follower};
use zsh_tool::testing::oneshot::run::{OpenError, OpenRun};
use zsh_tool::testing::oneshot::run_files::{LockError, RunFile};
use zsh_tool::testing::oneshot::state::{Action, Reason, Role, RunEvent, RunState};
use zsh_tool::testing::process::probe::Identity;
use zsh_tool::testing::process::signals::Exit;

use crate::support::env::Env;
use crate::support::program::Program;
use crate::support::recordings::copy;
use crate::support::runs::{self, KNOWN_SECRET, TOKEN, create, now, open, redactor};

/// How often the writer is killed.
const KILLS: usize = 200;
/// So many states at least are written meanwhile.
const ENOUGH_STATES: usize = KILLS / 4;

const INTERRUPT: RunEvent = RunEvent::Interrupt(15);
const RESUME: RunEvent = RunEvent::Resume { maximum: None };

fn apply(run: &mut OpenRun, event: &RunEvent) -> Action {
    run.apply(event, None, now()).expect("the state takes it")
}

fn text_of(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).expect("a file of the run")
}

/// The log's lines as JSON; every one of them is an object.
fn lines(directory: &Path) -> Vec<Value> {
    let text = text_of(directory, "oneshot-log.json");
    assert!(text.is_empty() || text.ends_with('\n'), "a torn end");
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("strict JSON"))
        .inspect(|line| assert!(line.is_object()))
        .collect()
}

#[test]
fn a_run_is_told_in_the_documented_form() {
    let env = Env::new();
    let mut run = create(&env, "fix the tests");
    let agent = Identity { pid: 1001, started: 77 };
    run.apply(&RunEvent::Start, Some(agent), now()).expect("begins");
    apply(&mut run, &RunEvent::Inactivity);
    let file: Value = serde_json::from_str(&text_of(run.directory(), "oneshot.json")).unwrap();
    assert_eq!(file["oneshot_id"].as_str().unwrap().len(), 36);
    assert_eq!(file["state"], "RECOVERY_PENDING");
    assert_eq!((&file["iteration_count"], &file["max_iterations"]), (&json!(1), &json!(5)));
    for name in ["created_at", "updated_at"] {
        let time = file[name].as_str().unwrap();
        assert!(time.contains('T') && time.ends_with('Z'), "{time}");
    }
    let history = file["history"].as_array().unwrap();
    assert_eq!(history[0]["state"], "CREATED");
    assert_eq!(history[1]["pid"], 1001);
    assert_eq!(history[2]["reason"], "inactivity_timeout");
    assert!(history[2]["ts"].as_f64().unwrap() > 1_700_000_000.0);
    assert_eq!(history[2].get("pid"), None);
    let changes: Vec<(Value, Value)> = lines(run.directory())
        .into_iter()
        .map(|line| {
            assert_eq!(line["type"], "state_change");
            (line["data"]["from"].clone(), line["data"]["to"].clone())
        })
        .collect();
    assert_eq!(
        changes,
        [
            (Value::Null, json!("CREATED")),
            (json!("CREATED"), json!("WORKER_EXECUTING")),
            (json!("WORKER_EXECUTING"), json!("RECOVERY_PENDING")),
        ]
    );
    let replayed = log_reader::history(run.directory()).unwrap();
    assert_eq!(replayed, run.file().history);
}

/// Every event that may happen, for a walk through the states.
fn events() -> Vec<RunEvent> {
    let nine = NonZeroU32::new(9);
    let impossible = RunEvent::Impossible { feedback: "no card\nat all".to_owned() };
    vec![
        RunEvent::Start,
        RunEvent::Exit0,
        RunEvent::Crash(Exit::Code(7)),
        RunEvent::Crash(Exit::Signal(9)),
        RunEvent::Inactivity,
        RunEvent::Stuck { fails: false },
        RunEvent::Stuck { fails: true },
        RunEvent::AgentError(AgentError::ApiError),
        RunEvent::ExitHang,
        RunEvent::SupervisorDied,
        RunEvent::SpawnFailed,
        INTERRUPT,
        RunEvent::Cancel,
        RunEvent::MaxRuntime,
        RunEvent::RecoverySuccess,
        RunEvent::RecoveryPartial,
        RunEvent::RecoveryNothing,
        RunEvent::Next,
        RunEvent::MaxIterations,
        RunEvent::Done,
        RunEvent::Retry,
        impossible,
        RunEvent::NoVerdict,
        RunEvent::Resume { maximum: nine },
        RESUME,
    ]
}

/// What holds of a run's file at every moment.
fn assert_form(file: &Value) {
    let history = file["history"].as_array().expect("a history");
    let last = history.last().expect("an entry");
    assert_eq!(file["state"], last["state"]);
    assert!(file["iteration_count"].is_u64() && file["max_iterations"].is_u64());
    for name in ["oneshot_id", "created_at", "updated_at", "prompt", "executor", "auditor"] {
        assert!(file[name].is_string(), "{name}: {file}");
    }
    let mut before = 0.0;
    for entry in history {
        let state = entry["state"].as_str().expect("a state");
        let ts = entry["ts"].as_f64().expect("a time");
        assert!(ts >= before, "{entry}");
        before = ts;
        assert_eq!(entry["pid"].is_i64(), state.ends_with("_EXECUTING"), "{entry}");
        let reasoned = ["RECOVERY_PENDING", "FAILED", "REJECTED", "INTERRUPTED"];
        if reasoned.contains(&state) {
            assert!(entry["reason"].is_string(), "{entry}");
        }
    }
}

#[test]
fn the_files_keep_their_form_by_every_change_of_state() {
    let env = Env::new();
    let agent = Identity { pid: 1001, started: 77 };
    let first = create(&env, "every way");
    let mut known = vec![first.position().stage.clone()];
    let mut places = VecDeque::from([first.directory().to_path_buf()]);
    drop(first);
    let mut ways = 0;
    while let Some(from) = places.pop_front() {
        let possible = |event: &RunEvent| open(&from).look_ahead(event).is_ok();
        for event in events().into_iter().filter(possible) {
            ways += 1;
            let directory = from.with_file_name(format!("way-{ways}"));
            copy(&from, &directory, "");
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
            let mut run = open(&directory);
            let (next, _) = run.look_ahead(&event).expect("it is possible");
            let process = next.state().is_executing().then_some(agent);
            let action = run.apply(&event, process, now()).expect("the disk takes it");
            let file = text_of(&directory, "oneshot.json");
            assert_form(&serde_json::from_str(&file).expect("JSON"));
            let told = log_reader::history(&directory).unwrap();
            assert_eq!(told, run.file().history, "{event:?}");
            drop(run);
            // Whoever opens it finds the same.
            assert_eq!(open(&directory).position(), &next, "{event:?}");
            if action != Action::ReadVerdict && !known.contains(&next.stage) {
                known.push(next.stage);
                places.push_back(directory);
            }
        }
    }
    assert!(ways > 100 && known.len() > 30, "{ways} ways, {} stages", known.len());
}

#[test]
fn the_files_are_the_users_alone_and_no_link_leads_away() {
    let env = Env::new();
    let run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    drop(run);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(directory.parent().unwrap()), 0o700);
    for name in ["oneshot.json", "oneshot-log.json", "lock"] {
        assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
        let away = env.path(name);
        fs::rename(directory.join(name), &away).unwrap();
        symlink(&away, directory.join(name)).unwrap();
        assert!(OpenRun::open(&directory, redactor()).is_err(), "{name}");
        fs::remove_file(directory.join(name)).unwrap();
        fs::rename(&away, directory.join(name)).unwrap();
    }
    open(&directory);
}

#[test]
fn no_secret_reaches_the_disk() {
    let env = Env::new();
    let mut run = create(&env, &format!("push with {TOKEN} and {KNOWN_SECRET}"));
    let origin = Origin {
        executor: Some("claude".to_owned()),
        role: Some(Role::Worker),
        iteration: Some(1),
    };
    for kind in [
        LineKind::Activity,
        LineKind::Prompt,
        LineKind::Result,
        LineKind::Recovered,
        LineKind::StatusCheck,
    ] {
        let data = json!({"text": format!("using {TOKEN}"), "deep": [{"password": "short"}],
            "more": {"line": format!("export X={KNOWN_SECRET}\nnext")}});
        run.note(kind, origin.clone(), data, now()).expect("a line");
    }
    run.update(|details| details.feedback = Some(format!("do not use {TOKEN}"))).expect("a save");
    apply(&mut run, &RunEvent::Start);
    apply(&mut run, &RunEvent::Exit0);
    apply(&mut run, &RunEvent::Next);
    let feedback = format!("{TOKEN} has expired\n{KNOWN_SECRET} as well");
    apply(&mut run, &RunEvent::Impossible { feedback });
    for name in ["oneshot.json", "oneshot-log.json"] {
        let text = text_of(run.directory(), name);
        for secret in [TOKEN, KNOWN_SECRET, "short"] {
            assert!(!text.contains(secret), "{secret} in {name}");
        }
        assert!(text.contains("has expired"), "{name}");
    }
    let directory = run.directory().to_path_buf();
    drop(run);
    assert_eq!(open(&directory).position().state(), RunState::Rejected);
}

#[test]
fn fields_of_later_versions_stay_and_later_formats_are_refused() {
    let env = Env::new();
    let run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    drop(run);
    let path = directory.join("oneshot.json");
    let mut file: Value = serde_json::from_str(&text_of(&directory, "oneshot.json")).unwrap();
    file["mood"] = json!({"of": ["the", "agent"]});
    file["history"][0]["weather"] = json!("fine");
    fs::write(&path, file.to_string()).unwrap();
    let mut run = open(&directory);
    apply(&mut run, &RunEvent::Start);
    drop(run);
    let saved: Value = serde_json::from_str(&text_of(&directory, "oneshot.json")).unwrap();
    assert_eq!(saved["mood"], file["mood"]);
    file["version"] = json!(2);
    fs::write(&path, file.to_string()).unwrap();
    let refusal = OpenRun::open(&directory, redactor()).unwrap_err();
    assert!(refusal.to_string().contains("version 2"), "{refusal}");
}

#[test]
fn a_file_that_cannot_be_a_runs_is_named_and_left_as_it_is() {
    let env = Env::new();
    let run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    drop(run);
    let path = directory.join("oneshot.json");
    let whole: Value = serde_json::from_str(&text_of(&directory, "oneshot.json")).unwrap();
    let mut contradictory = whole.clone();
    contradictory["state"] = json!("COMPLETED");
    let mut impossible = whole.clone();
    impossible["history"] = json!([{"state": "COMPLETED", "ts": 1}]);
    let mut without_end = whole.clone();
    without_end["max_iterations"] = json!(0);
    for text in [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        contradictory.to_string(),
        impossible.to_string(),
        without_end.to_string(),
        "[".repeat(100_000),
    ] {
        fs::write(&path, &text).unwrap();
        let refusal = OpenRun::open(&directory, redactor()).unwrap_err().to_string();
        assert!(refusal.contains("oneshot.json"), "{refusal}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_second_runner_is_refused_and_told_who_runs_it() {
    let env = Env::new();
    let run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    let refusal = OpenRun::open(&directory, redactor()).unwrap_err();
    assert!(matches!(refusal, OpenError::Lock(LockError::Held { .. })));
    let own = format!("pid {}", std::process::id());
    assert!(refusal.to_string().contains(&own), "{refusal}");
    drop(run);
    open(&directory);
}

#[test]
fn a_torn_line_goes_and_later_lines_stay_whole() {
    let env = Env::new();
    let mut run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    apply(&mut run, &RunEvent::Start);
    drop(run);
    let path = directory.join("oneshot-log.json");
    for torn in ["{", "{\"ts\":1,\"seq\":99,\"type\":\"acti", "\u{0}\u{0}\u{0}"] {
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(torn.as_bytes()).unwrap();
        let seen = log_reader::history(&directory).unwrap();
        assert_eq!(seen.len(), 2, "readers skip it");
        let mut run = open(&directory);
        run.note(LineKind::Activity, Origin::default(), json!({"text": "on"}), now())
            .expect("a line");
        drop(run);
        let numbers: Vec<u64> =
            lines(&directory).iter().map(|line| line["seq"].as_u64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
    assert_eq!(lines(&directory).len(), 5);
    // A whole line that lacks its newline alone stays.
    let whole = text_of(&directory, "oneshot-log.json");
    fs::write(&path, whole.trim_end()).unwrap();
    drop(open(&directory));
    assert_eq!(text_of(&directory, "oneshot-log.json"), whole);
}

#[test]
fn a_log_that_is_one_change_ahead_is_adopted() {
    let env = Env::new();
    let mut run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    for event in [
        RunEvent::Start,
        INTERRUPT,
        RESUME,
        RunEvent::RecoverySuccess,
        RunEvent::Next,
        RunEvent::NoVerdict,
        RunEvent::Next,
        RunEvent::Impossible { feedback: "no card".to_owned() },
    ] {
        let before = text_of(&directory, "oneshot.json");
        let agent = Identity { pid: 5, started: 6 };
        let is_start = run.look_ahead(&event).unwrap().0.state().is_executing();
        run.apply(&event, is_start.then_some(agent), now()).unwrap();
        let file = run.file().clone();
        let position = run.position().clone();
        run.note(LineKind::Activity, Origin::default(), json!({}), now()).unwrap();
        drop(run);
        // As if it had been killed before the save.
        fs::write(directory.join("oneshot.json"), before).unwrap();
        run = open(&directory);
        assert_eq!(run.file(), &file, "{event:?}");
        assert_eq!(run.position(), &position, "{event:?}");
    }
}

#[test]
fn readers_from_the_end_look_as_far_back_as_they_are_told() {
    let env = Env::new();
    let mut run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    let mut note = |kind, data| {
        run.note(kind, Origin::default(), data, now()).expect("a line");
    };
    note(LineKind::Heartbeat, json!({"status": "old"}));
    note(LineKind::Activity, json!({"text": "x".repeat(300_000)}));
    note(LineKind::Heartbeat, json!({"status": "new"}));
    for number in 0..2_000 {
        note(LineKind::Activity, json!({"text": format!("\"heartbeat\" {number}")}));
    }
    let newest = |most| log_reader::newest(&directory, LineKind::Heartbeat, most).unwrap();
    assert_eq!(newest(u64::MAX).unwrap().data["status"], "new");
    assert_eq!(newest(1_000), None);
    let tail = log_reader::tail(&directory, 3, 1 << 20).unwrap();
    let texts: Vec<&str> = tail.iter().map(|line| line.data["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["\"heartbeat\" 1997", "\"heartbeat\" 1998", "\"heartbeat\" 1999"]);
    assert_eq!(log_reader::tail(&directory, 10_000, u64::MAX).unwrap().len(), 2_004);
    let missing = log_reader::newest(&env.work(), LineKind::Heartbeat, 1);
    assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_log_is_followed_line_by_line_as_it_grows() {
    let env = Env::new();
    let run = create(&env, "x");
    let path = run.directory().join("oneshot-log.json");
    let mut follower = Follower::open(run.directory()).unwrap();
    assert!(follower.next_line().unwrap().is_some());
    assert!(follower.next_line().unwrap().is_none());
    let mut log = fs::OpenOptions::new().append(true).open(path).unwrap();
    log.write_all(b"{\"ts\":1,\"seq\":2,\"type\":\"activity\",").unwrap();
    assert!(follower.next_line().unwrap().is_none());
    log.write_all(
        b"\"data\":{}}\nnot json\n{\"ts\":1,\"seq\":3,\"type\":\"result\",\"data\":{}}\n{",
    )
    .unwrap();
    assert_eq!(follower.next_line().unwrap().unwrap().seq, 2);
    assert_eq!(follower.next_line().unwrap().unwrap().seq, 3);
    assert!(follower.next_line().unwrap().is_none());
}

#[test]
fn a_disk_that_refuses_is_an_error_and_the_log_stays_whole() {
    let env = Env::new();
    let mut run = create(&env, "x");
    let directory = run.directory().to_path_buf();
    // The temporary file's place is taken by what cannot be removed as a file.
    fs::create_dir(directory.join("oneshot.new")).unwrap();
    let refusal = run.apply(&RunEvent::Start, None, now()).unwrap_err();
    assert!(refusal.to_string().contains("oneshot.json"), "{refusal}");
    drop(run);
    fs::remove_dir(directory.join("oneshot.new")).unwrap();
    // The log told of it before: this is where the run is.
    assert_eq!(open(&directory).position().state(), RunState::WorkerExecuting);
}

/// Not a test of its own: the process that is killed.
#[test]
#[ignore = "started by the test that kills it"]
fn writer() {
    let Some(directory) = runs::given() else {
        return;
    };
    let mut run = open(&directory);
    println!("\nopen");
    let agent = Identity { pid: 1001, started: 77 };
    for round in 0.. {
        let event = match run.position().action() {
            Action::RunWorker => INTERRUPT,
            Action::Recover => RunEvent::RecoveryNothing,
            Action::Take(event) => event,
            Action::Stop => RESUME,
            other => panic!("never: {other:?}"),
        };
        let is_start = run.look_ahead(&event).unwrap().0.state().is_executing();
        run.apply(&event, is_start.then_some(agent), now()).expect("the disk takes it");
        // Long ones too: a write of many pages can be cut short.
        let length = if round % 2 == 0 { 100 } else { 20_000 };
        let data = json!({"round": round, "text": format!("{TOKEN} {}", "y ".repeat(length))});
        run.note(LineKind::Activity, Origin::default(), data, now()).expect("the disk takes it");
        run.update(|details| details.feedback = Some(format!("{round}: {KNOWN_SECRET}")))
            .expect("the disk takes it");
        println!("written");
    }
}

#[test]
fn a_writer_that_is_killed_at_any_moment_leaves_files_that_can_be_gone_on_with() {
    let env = Env::new();
    let run = create(&env, &format!("use {TOKEN} and {KNOWN_SECRET}"));
    let directory = run.directory().to_path_buf();
    drop(run);
    let (mut ahead, mut torn, mut states) = (0, 0, 0);
    for round in 0..KILLS {
        let mut command: Command = runs::elsewhere(&env, "run_files::writer", &directory);
        command.stderr(Stdio::null());
        let mut writer = Program::start_with(command, Stdio::null());
        // Some are killed while they open the run, most while they write. How long a write takes
        // is up to the disk, so what is awaited first is a number of writes.
        if round % 8 != 0 {
            writer.read_lines_to("open");
            for _ in 0..round % 3 {
                writer.read_lines_to("written");
            }
        }
        let moment = Duration::from_micros((round as u64 * 7_919) % 40_000);
        std::thread::sleep(moment);
        writer.signal("KILL");
        assert_eq!(writer.finish().code, 128 + 9);

        let file = RunFile::load(&directory).unwrap_or_else(|error| panic!("{round}: {error}"));
        let log = fs::read(directory.join("oneshot-log.json")).unwrap();
        let mut pieces: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
        torn += usize::from(pieces.pop().is_some_and(|rest| !rest.is_empty()));
        for piece in pieces {
            serde_json::from_slice::<Value>(piece).expect("a whole line");
        }
        let told = log_reader::history(&directory).unwrap();
        let known = file.history.len();
        assert_eq!(told.get(..known), Some(file.history.as_slice()), "{round}");
        assert!(told.len() <= known + 1, "{round}");
        ahead += usize::from(told.len() == known + 1);
        for name in ["oneshot.json", "oneshot.new", "oneshot-log.json"] {
            let text = fs::read(directory.join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains(TOKEN) && !text.contains(KNOWN_SECRET), "{name}");
        }
        states = known;
    }
    assert!(states > ENOUGH_STATES, "hardly anything was written: {states}");
    let run = open(&directory);
    assert_eq!(log_reader::history(&directory).unwrap(), run.file().history);
    assert!(run.position().iteration <= 1);
    println!("{KILLS} kills, {states} states, {ahead} logs ahead, {torn} torn");
}

#[test]
fn a_reason_is_kept_with_its_state() {
    let env = Env::new();
    let mut run = create(&env, "x");
    apply(&mut run, &RunEvent::Start);
    apply(&mut run, &INTERRUPT);
    let last = run.file().last().unwrap();
    assert_eq!(last.basis.reason, Some(Reason::Signal(15)));
    assert_eq!(run.position().stage.exit_code(), Some(143));
}
