//! `zsh-tool oneshot list`, `show`, `follow` and `stop`, on runs with and without a runner.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::{Value, json};
use zsh_tool::testing::oneshot::log_line::{LineKind, Origin};
use zsh_tool::testing::oneshot::run::OpenRun;
use zsh_tool::testing::oneshot::state::{Role, RunEvent, RunState};
use zsh_tool::testing::process::signals::Exit;
use zsh_tool::testing::process::tree;

use crate::support::env::{Env, binary};
use crate::support::processes::wait_until;
use crate::support::program::{Finished, Program, ran, run, zsh_tool};
use crate::support::runs::{self, create, now, open};

fn oneshot(env: &Env, arguments: &[&str]) -> Finished {
    ran(env, &[&["oneshot"], arguments].concat())
}

fn apply(run: &mut OpenRun, event: &RunEvent) {
    run.apply(event, None, now()).expect("the state takes it");
}

fn note(run: &mut OpenRun, kind: LineKind, data: Value) {
    let origin = Origin {
        executor: Some("claude".to_owned()),
        role: Some(Role::Worker),
        iteration: Some(1),
    };
    run.note(kind, origin, data, now()).expect("a line");
}

/// A run that is over: rejected.
fn rejected(env: &Env) -> OpenRun {
    let mut run = create(env, "buy a pony\nand a saddle");
    apply(&mut run, &RunEvent::Start);
    note(&mut run, LineKind::Result, json!({"text": "I looked for\nponies"}));
    apply(&mut run, &RunEvent::Exit0);
    apply(&mut run, &RunEvent::Next);
    let feedback = "I need a credit card\nto go on".to_owned();
    apply(&mut run, &RunEvent::Impossible { feedback });
    run
}

#[test]
fn list_shows_every_run_with_what_is_true_of_it() {
    let env = Env::new();
    let none = oneshot(&env, &["list"]);
    assert_eq!((none.code, none.stdout.len()), (0, 0));
    assert!(none.stderr.contains("no agent runs"), "{none:?}");

    let over = rejected(&env);
    let mut died = create(&env, "die");
    apply(&mut died, &RunEvent::Start);
    let mut paused = create(&env, "pause");
    apply(&mut paused, &RunEvent::Interrupt(2));
    let live = create(&env, "live");
    let ids: Vec<String> = [&over, &died, &paused, &live].map(|run| run.id().to_owned()).into();
    drop((over, died, paused));

    let listed = oneshot(&env, &["list"]);
    let text = listed.text();
    let line_of = |id: &str| {
        let mut lines = text.lines();
        let found = lines.find(|line| line.starts_with(&id[..8]));
        found.unwrap_or_else(|| panic!("{id} in {text}")).to_owned()
    };
    let line = line_of(&ids[0]);
    assert!(line.contains("REJECTED (I need a credit card)"), "{line}");
    assert!(line.contains("1/5") && line.contains("buy a pony …"), "{line}");
    let line = line_of(&ids[1]);
    assert!(line.contains("WORKER_EXECUTING (runner died, resumable)"), "{line}");
    assert!(line_of(&ids[2]).contains("INTERRUPTED (resumable)"));
    assert!(line_of(&ids[3]).contains("CREATED  "), "{text}");
    // The one that changed last comes first, and all columns begin at the same place.
    assert!(text.starts_with(&ids[3][..8]), "{text}");
    let columns: Vec<usize> = text.lines().filter_map(|line| line.find("claude")).collect();
    assert!(columns.windows(2).all(|two| two[0] == two[1]), "{text}");

    let listed = oneshot(&env, &["list", "--json"]).text();
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let found = |id: &String| listed.iter().find(|run| run["oneshot_id"] == **id).unwrap();
    assert_eq!(found(&ids[3])["live"], true);
    assert_eq!(found(&ids[3])["runner_pid"], std::process::id());
    assert_eq!(found(&ids[1])["resumable"], true);
    assert_eq!(found(&ids[0])["resumable"], false);
}

#[test]
fn a_file_that_is_no_runs_does_not_hide_the_others() {
    let env = Env::new();
    let good = create(&env, "good");
    let bad = create(&env, "bad");
    fs::write(bad.directory().join("oneshot.json"), "{").unwrap();
    fs::create_dir(env.path("state/sessions/not-a-run")).unwrap();
    let listed = oneshot(&env, &["list"]);
    assert_eq!(listed.code, 0);
    assert!(listed.text().starts_with(&good.id()[..8]));
    assert_eq!(listed.text().lines().count(), 1);
    assert!(listed.stderr.contains(bad.id()), "{}", listed.stderr);
    assert_eq!(oneshot(&env, &["show", bad.id()]).code, 1);
}

#[test]
fn show_tells_a_run_from_its_beginning_to_its_end() {
    let env = Env::new();
    let run = rejected(&env);
    let id = run.id().to_owned();
    drop(run);
    let by_prefix = oneshot(&env, &["show", &id[..8]]);
    assert_eq!(by_prefix.code, 0, "{}", by_prefix.stderr);
    let text = by_prefix.text();
    for expected in [
        id.as_str(),
        "REJECTED (I need a credit card)",
        "1 of 5",
        "codex, model small",
        "WORKER_EXECUTING",
        "AUDIT_PENDING",
        "  buy a pony\n  and a saddle\n",
        "last result (worker)\n  I looked for\n  ponies\n",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert!(!text.contains("--resume"), "{text}");
    assert_eq!(oneshot(&env, &["show", "latest"]).text(), text);
    let object: Value =
        serde_json::from_str(&oneshot(&env, &["show", &id, "--json"]).text()).unwrap();
    assert_eq!(object["history"].as_array().unwrap().len(), 5);
}

#[test]
fn what_a_terminal_would_obey_is_not_printed() {
    let env = Env::new();
    let mut run = create(&env, "\u{1b}]0;title\u{7}\u{1b}[2Jwipe\u{9b}31m");
    note(&mut run, LineKind::Activity, json!({"text": "\u{1b}[2J\u{7}bell"}));
    let id = run.id().to_owned();
    drop(run);
    for arguments in [["list", ""], ["show", &id], ["follow", &id]] {
        let words: Vec<&str> = arguments.into_iter().filter(|word| !word.is_empty()).collect();
        let text = oneshot(&env, &words).text();
        let strange = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(strange, None, "{text:?}");
    }
}

#[test]
fn an_unknown_or_ambiguous_id_is_a_usage_error() {
    let env = Env::new();
    for command in ["show", "follow", "stop"] {
        assert_eq!(oneshot(&env, &[command, "latest"]).code, 2, "{command}");
    }
    let run = create(&env, "x");
    for command in ["show", "follow", "stop"] {
        for id in ["ffffffff-0", "", "..", "../servers", "%"] {
            let refused = oneshot(&env, &[command, id]);
            assert_eq!(refused.code, 2, "{command} {id:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("oneshot list"), "{}", refused.stderr);
        }
    }
    // Seventeen runs: two of them begin with the same of sixteen digits.
    let more: Vec<OpenRun> = (0..16).map(|_| create(&env, "y")).collect();
    let ids = || more.iter().chain([&run]).map(OpenRun::id);
    let digit = ids()
        .map(|id| &id[..1])
        .find(|digit| ids().filter(|id| id.starts_with(digit)).count() > 1)
        .expect("two that begin with the same digit");
    let refused = oneshot(&env, &["show", digit]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("give more of it"), "{}", refused.stderr);
}

#[test]
fn follow_prints_as_it_goes_and_exits_as_the_run_does() {
    let env = Env::new();
    let mut run = create(&env, "x");
    let mut follower = Program::start(zsh_tool(&env, &["oneshot", "follow", run.id()]));
    assert!(follower.read_line().contains("→ CREATED"));
    apply(&mut run, &RunEvent::Start);
    assert!(follower.read_line().contains("→ WORKER_EXECUTING"));
    note(&mut run, LineKind::Activity, json!({"text": "thinking"}));
    let line = follower.read_line();
    assert!(line.contains("worker   1  thinking"), "{line}");
    // As the agent's own program writes it; what says nothing to a person is left out.
    let saying = |content: Value| json!({"type": "assistant", "message": {"role": "assistant", "content": [content]}});
    let begins = json!({"type": "system", "subtype": "init", "session_id": "s"});
    note(&mut run, LineKind::Activity, begins);
    let tool = json!({"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "ls"}});
    note(&mut run, LineKind::Activity, saying(tool));
    let line = follower.read_line();
    assert!(line.contains("Bash: ls"), "{line}");
    note(&mut run, LineKind::Activity, json!({"stderr": "a warning"}));
    assert!(follower.read_line().contains("stderr: a warning"));
    let crash = RunEvent::Crash(Exit::Code(7));
    apply(&mut run, &crash);
    assert!(follower.read_line().contains("→ RECOVERY_PENDING (exit_code:7)"));
    apply(&mut run, &RunEvent::RecoveryNothing);
    drop(run);
    let finished = follower.finish();
    assert!(finished.text().contains("→ FAILED (exit_code:7)"), "{finished:?}");
    assert_eq!(finished.code, 1);
}

#[test]
fn follow_of_a_run_that_is_over_prints_all_of_it() {
    let env = Env::new();
    let run = rejected(&env);
    let directory = run.directory().to_path_buf();
    let id = run.id().to_owned();
    drop(run);
    let before = fs::read(directory.join("oneshot.json")).unwrap();
    let followed = oneshot(&env, &["follow", &id]);
    assert_eq!(followed.code, 3);
    assert_eq!(followed.text().lines().count(), 6, "{}", followed.text());
    let as_json = oneshot(&env, &["follow", &id, "--json"]).text();
    let log = fs::read_to_string(directory.join("oneshot-log.json")).unwrap();
    let objects = |text: &str| -> Vec<Value> {
        let lines = text.lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(objects(&as_json), objects(&log));
    assert_eq!(fs::read(directory.join("oneshot.json")).unwrap(), before);
}

/// Not a test of its own: a runner that does what it is told by SIGUSR1, or by its stdin
/// hangs.
#[test]
#[ignore = "started by the tests that stop it"]
fn runner() {
    let Some(directory) = runs::given() else {
        return;
    };
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGUSR1]).unwrap();
    let mut run = open(&directory);
    println!("\nopen");
    if signals.forever().next().is_some() {
        apply(&mut run, &RunEvent::Cancel);
    }
}

fn started_runner(env: &Env, run: OpenRun) -> Program {
    let directory = run.directory().to_path_buf();
    drop(run);
    let command = runs::elsewhere(env, "oneshot_commands::runner", &directory);
    let mut runner = Program::start_with(command, Stdio::null());
    runner.read_lines_to("open");
    runner
}

#[test]
fn stop_tells_the_runner_and_waits_for_it() {
    let env = Env::new();
    let run = create(&env, "x");
    let (id, directory) = (run.id().to_owned(), run.directory().to_path_buf());
    let runner = started_runner(&env, run);
    let stopped = oneshot(&env, &["stop", &id]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.text().contains("stopped, FAILED"), "{}", stopped.text());
    assert_eq!(runner.finish().code, 0);
    assert_eq!(open(&directory).position().state(), RunState::Failed);
    let again = oneshot(&env, &["stop", &id]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("already FAILED"), "{}", again.stderr);
}

#[test]
fn follow_ends_when_the_runner_is_killed() {
    let env = Env::new();
    let run = create(&env, "x");
    let id = run.id().to_owned();
    let runner = started_runner(&env, run);
    let mut follower = Program::start(zsh_tool(&env, &["oneshot", "follow", &id]));
    follower.read_line();
    runner.signal("KILL");
    runner.finish();
    assert_eq!(follower.finish().code, 1);
}

/// A runner that is not seen by its pid: another container's, or one that is just ending.
#[test]
fn follow_ends_when_a_runner_that_cannot_be_seen_gives_the_run_up() {
    let env = Env::new();
    let run = create(&env, "x");
    let id = run.id().to_owned();
    let lock = run.directory().join("lock");
    drop(run);
    let mut command = env.command("flock");
    command.arg(lock).args(["-c", "echo locked; read -r line"]);
    let mut runner = Program::start(command);
    assert_eq!(runner.read_line(), "locked");
    let mut follower = Program::start(zsh_tool(&env, &["oneshot", "follow", &id]));
    assert!(follower.read_line().contains("→ CREATED"));
    runner.finish();
    assert_eq!(follower.finish().code, 1);
}

#[test]
fn stop_ends_what_a_killed_runner_has_left() {
    let env = Env::new();
    let mut run = create(&env, "x");
    let (id, directory) = (run.id().to_owned(), run.directory().to_path_buf());
    let mut command = env.command("setsid");
    command.args(["sh", "-c", "trap '' TERM; sleep 600 & echo up; wait"]).env("ONESHOT_ID", &id);
    let mut agent = Program::start(command);
    agent.read_line();
    let shell = wait_until("the agent's shell leads a session", || {
        let found = crate::support::processes::processes_with(&id);
        let shell = found.iter().find(|found| found.arguments.contains("trap"))?;
        tree::look_up(i32::try_from(shell.pid).ok()?).filter(|found| found.session == found.id.pid)
    });
    run.apply(&RunEvent::Start, Some(shell.id), now()).unwrap();
    drop(run);
    let stopped = oneshot(&env, &["stop", "latest"]);
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.text().contains("2 processes"), "{}", stopped.text());
    agent.finish();
    assert_eq!(crate::support::processes::processes_with(&id), []);
    let run = open(&directory);
    let reason = run.file().last().unwrap().basis.reason.as_ref().unwrap();
    assert_eq!(reason.to_string(), "user_cancelled");
}

#[test]
fn another_process_of_the_noted_pid_is_left_alone() {
    let env = Env::new();
    let mut run = create(&env, "x");
    let mut command = env.command("setsid");
    command.args(["sh", "-c", "echo up; sleep 600"]);
    let mut stranger = Program::start(command);
    stranger.read_line();
    let found = wait_until("the stranger", || {
        let all = crate::support::processes::processes_with(env.mark());
        let sleep = all.iter().find(|found| found.arguments.contains("sleep 600"))?;
        tree::look_up(i32::try_from(sleep.pid).ok()?)
    });
    let mut other = found.id;
    other.started -= 1;
    run.apply(&RunEvent::Start, Some(other), now()).unwrap();
    drop(run);
    let stopped = oneshot(&env, &["stop", "latest"]);
    assert!(stopped.text().contains("it was not running\n"), "{stopped:?}");
    assert_eq!(tree::look_up(found.id.pid).map(|found| found.zombie), Some(false));
}

#[test]
fn a_link_named_oneshot_is_the_same_command() {
    let env = Env::new();
    let link = env.path("oneshot");
    symlink(binary(), &link).unwrap();
    let _run = create(&env, "by another name");
    let mut command = env.command(&link);
    command.arg("list");
    let listed = run(command);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.text().contains("by another name"));
}

#[test]
fn arguments_that_make_no_run_are_usage_errors() {
    let env = Env::new();
    for arguments in [
        &[][..],
        &["--max-iterations", "0", "x"],
        &["--max-iterations", "many", "x"],
        &["--inactivity", "0", "x"],
        &["--inactivity", "-3", "x"],
        &["--on-stuck", "panic", "x"],
        &["--resume", "latest", "x"],
        &["show"],
        &["--frobnicate", "x"],
    ] {
        let refused = oneshot(&env, arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
    }
}
