//! What agent runs change in a git repository: differences, work trees of their own, and what runs
//! at their end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::oneshot::{Runs, says, verdict};
use crate::support::processes::wait_until;
use crate::support::program::Program;

fn git(directory: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
        .args(words)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs in a repository with a committed file and an ignored one.
fn in_repository(script: Value) -> Runs {
    let runs = Runs::new(script);
    let work = runs.env.work();
    git(&work, &["init", "-q", "-b", "main"]);
    fs::write(work.join("roof.txt"), "one\ntwo\n").unwrap();
    fs::write(work.join(".gitignore"), "*.log\n").unwrap();
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "begin"]);
    fs::write(work.join("staged.txt"), "staged\n").unwrap();
    git(&work, &["add", "staged.txt"]);
    runs
}

/// Steps of a worker that writes these files and says it is done.
fn writes(files: &[&str]) -> Value {
    let mut steps = vec![json!({"init": 1})];
    steps.extend(files.iter().map(|file| json!({"touch": file})));
    steps.push(json!({"result": "done"}));
    Value::Array(steps)
}

#[test]
fn the_difference_of_each_iteration_is_shown_and_the_repository_is_not_changed() {
    let runs = in_repository(json!({
        "worker": [writes(&["roof.txt", "new.txt", "made.log"]), writes(&["later.txt"])],
        "auditor": [verdict("RETRY", "more"), verdict("DONE", "")],
    }));
    let work = runs.env.work();
    let state = || {
        let index = fs::read(work.join(".git/index")).unwrap();
        (index, git(&work, &["count-objects", "-v"]), git(&work, &["branch", "--list"]))
    };
    let before = state();
    let ended = runs.ran(&["make it"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(state() == before, "the repository has changed");
    assert!(ended.stderr.contains("changed 2 files, +0 −2"), "{}", ended.stderr);
    let diff = |iteration: &[&str]| runs.ran(&[&["show", "latest", "--diff"], iteration].concat());
    let first = diff(&["1"]).text();
    assert!(first.contains("-two\n") && first.contains("b/new.txt"), "{first}");
    assert!(!first.contains("made.log") && !first.contains("staged.txt"), "{first}");
    let second = diff(&["2"]).text();
    assert!(second.contains("b/later.txt") && !second.contains("new.txt"), "{second}");
    let whole = diff(&[]).text();
    assert!(whole.contains("b/later.txt") && whole.contains("b/new.txt"), "{whole}");
    let none = diff(&["3"]);
    assert!(none.code == 2 && none.stderr.contains("iteration 3"), "{}", none.stderr);
    let followed = runs.ran(&["follow", "latest"]).text();
    assert!(followed.contains("changed 2 files, +0 −2: new.txt, roof.txt"), "{followed}");
}

#[test]
fn an_auditor_that_writes_is_named() {
    let auditor = json!([{"init": 1}, {"touch": "sneaky.txt"}, {"verdict_by": "audits"}]);
    let script = json!({"worker": [says("done")], "auditor": [auditor]});
    let runs = in_repository(script);
    fs::write(runs.env.work().join("audits"), "").unwrap();
    let ended = runs.ran(&["make it"]);
    let told = "the auditor has changed files (1 file, +0 −0): sneaky.txt";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn a_run_outside_of_a_repository_has_no_differences() {
    let runs = Runs::working(json!([writes(&["new.txt"])]));
    assert_eq!(runs.ran(&["make it"]).code, 0);
    let none = runs.ran(&["show", "latest", "--diff"]);
    assert!(none.code == 2 && none.stderr.contains("git repository"), "{}", none.stderr);
    let refused = runs.ran(&["--worktree", "make it"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("no git repository"),
        "{}",
        refused.stderr
    );
}

/// The command of an end's line that begins with this word.
fn offered(stderr: &str, word: &str) -> String {
    let line = stderr.lines().find_map(|line| line.strip_prefix(&format!("{word}: ")));
    line.unwrap_or_else(|| panic!("{stderr}")).to_owned()
}

#[test]
fn a_work_tree_of_its_own_is_taken_over_or_thrown_away() {
    for word in ["take over", "throw away"] {
        let runs = in_repository(json!({
            "worker": [writes(&["new.txt"])], "auditor": [verdict("DONE", "")],
        }));
        let work = runs.env.work();
        let ended = runs.ran(&["--worktree", "make it"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(ended.stderr.contains("not committed"), "{}", ended.stderr);
        assert!(!work.join("new.txt").exists());
        let tree = runs.file()["work_tree"].clone();
        let path = Path::new(tree["path"].as_str().unwrap());
        assert!(path.join("new.txt").exists());
        let [worker, auditor] = ["worker", "auditor"].map(|role| runs.told(role, 1)["cwd"].clone());
        assert_eq!((worker.as_str(), worker.clone()), (path.to_str(), auditor));
        let diff = runs.ran(&["show", "latest", "--diff"]).text();
        assert!(diff.contains("b/new.txt"), "{diff}");
        let shell = runs.env.command("sh");
        let mut shell = shell;
        shell
            .args(["-c", &offered(&ended.stderr, word)])
            .env("GIT_AUTHOR_NAME", "T")
            .env("GIT_AUTHOR_EMAIL", "t@example.org")
            .env("GIT_COMMITTER_NAME", "T")
            .env("GIT_COMMITTER_EMAIL", "t@example.org");
        assert!(shell.output().unwrap().status.success());
        let branches = git(&work, &["branch", "--list"]);
        assert!(!path.exists());
        assert_eq!(branches, "* main\n");
        assert_eq!(work.join("new.txt").exists(), word == "take over");
        let diff = runs.ran(&["show", "latest", "--diff"]).text();
        assert!(diff.contains("b/new.txt"), "{diff}");
    }
}

#[test]
fn a_runner_that_is_killed_loses_neither_the_work_tree_nor_what_was_changed_in_it() {
    let waits = |flag: &str, mut steps: Value| {
        let list = steps.as_array_mut().unwrap();
        list.insert(list.len() - 1, json!({"touch": flag}));
        list.insert(list.len() - 1, json!({"wait": "never"}));
        steps
    };
    // The worker, the check and the auditor are each killed with their runner once.
    let runs = in_repository(json!({
        "worker": [waits("worker-begun", writes(&["half.txt"])), writes(&["new.txt"])],
        "auditor": [waits("auditor-begun", verdict("DONE", "")), verdict("DONE", "")],
    }));
    let work = runs.env.work();
    let checks = work.join("check-begun");
    let check = format!("[ -e {0} ] || {{ touch {0}; sleep 1000 }}", checks.display());
    let mut command = runs.command(&["--worktree", "--check", &check, "make it"]);
    for flag in ["worker-begun", "check-begun", "auditor-begun"] {
        let runner = Program::start_with(command, std::process::Stdio::null());
        let tree = wait_until("its work tree", || {
            let sessions = fs::read_dir(runs.env.path("state/sessions")).ok()?;
            let whole = sessions.flatten().any(|run| run.path().extension().is_none());
            whole.then(|| runs.file()["work_tree"]["path"].as_str().unwrap().to_owned())
        });
        let place = if flag == "check-begun" { work.clone() } else { tree.into() };
        wait_until(flag, || place.join(flag).exists().then_some(()));
        runner.signal("KILL");
        runner.finish();
        command = runs.command(&["--resume", "latest"]);
    }
    let ended = crate::support::program::run(command);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let tree = runs.file()["work_tree"].clone();
    let path = Path::new(tree["path"].as_str().unwrap());
    for file in ["half.txt", "new.txt"] {
        assert!(path.join(file).exists() && !work.join(file).exists(), "{file}");
    }
    let diff = runs.ran(&["show", "latest", "--diff"]).text();
    assert!(diff.contains("b/half.txt") && diff.contains("b/new.txt"), "{diff}");
    assert_eq!(runs.logged_history(), runs.history());
    let trees = git(&work, &["worktree", "list"]);
    assert_eq!(trees.lines().count(), 2, "{trees}");
}

#[test]
fn a_second_run_in_a_directory_is_warned_of() {
    let runs = Runs::new(json!({
        "worker": [[{"init": 1}, {"touch": "begun"}, {"wait": "go"}, {"result": "one"}], says("two")],
        "auditor": [verdict("DONE", "")],
    }));
    let first = runs.start(&["make it"]);
    runs.wait_for_start("worker", 1);
    let second = runs.ran(&["make it too"]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert!(second.stderr.contains("works in this directory too"), "{}", second.stderr);
    runs.raise("go");
    assert_eq!(first.finish().code, 0);
}

#[test]
fn a_command_line_runs_at_the_end_and_changes_nothing_of_it() {
    let then =
        "print -r -- $ONESHOT_STATE $ONESHOT_REASON $ONESHOT_ID >> $ONESHOT_DIRECTORY/ends; exit 3";
    let runs = Runs::working(json!([says("done")]));
    let ended = runs.ran(&["--then", then, "make it"]);
    assert_eq!((ended.code, ended.text()), (0, "done\n".to_owned()), "{}", ended.stderr);
    assert!(ended.stderr.contains("exit 3: (no output)"), "{}", ended.stderr);
    let ends = || fs::read_to_string(runs.env.work().join("ends")).unwrap();
    assert_eq!(ends(), format!("COMPLETED  {}\n", runs.id()).replace("  ", " "));
    runs.script(json!({"worker": [[{"init": 1}, {"exit": 7}]]}));
    assert_eq!(runs.ran(&["--then", then, "make it"]).code, 1);
    assert!(ends().lines().last().unwrap().starts_with("FAILED exit_code:7 "), "{}", ends());
}

#[test]
fn what_checks_change_and_the_state_directory_are_no_auditor_s_changes() {
    let script = json!({"worker": [writes(&["new.txt"])], "auditor": [verdict("DONE", "")]});
    let runs = in_repository(script);
    let mut command = runs.command(&["--check", "print built > built.txt", "make it"]);
    command.env("ZSH_TOOL_STATE_DIR", "state");
    let ended = crate::support::program::run(command);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("the auditor has changed"), "{}", ended.stderr);
    assert!(ended.stderr.contains("changed 1 file, +0 −0"), "{}", ended.stderr);
}

#[test]
fn a_commit_that_fails_ends_the_line_that_takes_work_over() {
    let runs = in_repository(json!({
        "worker": [writes(&["new.txt"])], "auditor": [verdict("DONE", "")],
    }));
    let ended = runs.ran(&["--worktree", "--json", "make it"]);
    let end: Value = serde_json::from_str(&ended.text()).expect("one object");
    let hook = runs.env.work().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut shell = runs.env.command("sh");
    shell.args(["-c", end["take_over"].as_str().unwrap()]);
    assert!(!shell.output().unwrap().status.success());
    let tree = end["work_tree"]["path"].as_str().unwrap();
    assert!(Path::new(tree).join("new.txt").exists());
}
