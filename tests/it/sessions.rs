//! `session`: the directory and the exported variables of one command are those of the next.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, unique_word};
use crate::support::processes::processes_with;

fn call(
    client: &Client,
    session: &str,
    command: &str,
    more: Value,
) -> crate::support::result::ToolResult {
    let mut arguments = json!({"command": command, "session": session, "yield_after": 40});
    for (name, value) in more.as_object().expect("arguments") {
        arguments[name] = value.clone();
    }
    client.call("zsh", arguments)
}

fn run(client: &Client, session: &str, command: &str) -> String {
    let result = call(client, session, command, json!({}));
    assert!(!result.is_error, "{}", result.text);
    result.output()
}

#[test]
fn directory_and_exported_variables_hold_for_the_next_command() {
    let env = Env::new();
    let client = env.client();
    let activate = "VIRTUAL_ENV=$PWD/venv; export VIRTUAL_ENV; PATH=$VIRTUAL_ENV/bin:$PATH; \
        export PATH; deactivate() { unset VIRTUAL_ENV; }; unset GONE\n";
    fs::write(env.work().join("activate"), activate).expect("a script");
    fs::create_dir_all(env.work().join("sub/venv")).expect("a directory");
    run(&client, "a", "export GONE=1 OLD=first; typeset -r FIXED=1; LOCAL=2");
    assert_eq!(
        run(&client, "a", "echo $GONE $OLD ${LOCAL-none} ${FIXED-none}"),
        "1 first none none"
    );
    let moved = call(&client, "a", "cd sub; source ../activate; export OLD=second", json!({}));
    assert!(moved.text.contains("/sub") && !moved.text.contains("not kept"), "{}", moved.text);
    let seen = run(
        &client,
        "a",
        "echo ${PWD:t} ${VIRTUAL_ENV:t} ${PATH%%:*} ${GONE-unset} $OLD; typeset -f deactivate",
    );
    let path = env.work().join("sub/venv/bin");
    assert_eq!(seen, format!("sub venv {} unset second", path.display()));
    // A function that exports, a value of several lines, an empty one, and options that stay.
    let odd =
        "use() { export VERSION=$1; }; use 18; export LINES_OF='a\nb =c' EMPTY=; setopt nounset";
    run(&client, "a", odd);
    assert_eq!(run(&client, "a", "echo \"$VERSION|$LINES_OF|$EMPTY|$UNKNOWN\""), "18|a\nb =c||");
    // Without PATH zsh has one of its own.
    run(&client, "a", "unset PATH VERSION");
    assert_eq!(
        run(&client, "a", "echo ${VERSION-unset} ${${(M)PATH:#*venv*}:-other}"),
        "unset other"
    );
    // Nor is PATH needed for what the shell reports.
    run(&client, "a", "export PATH=/not/there VERSION=20");
    run(&client, "a", "export VERSION=22");
    assert_eq!(run(&client, "a", "echo $PATH $VERSION"), "/not/there 22");
    assert_eq!(run(&client, "b", "echo ${VERSION-none} ${PWD:t}"), "none work");
    run(&client, "", "export VERSION=1");
    assert_eq!(run(&client, "", "echo ${VERSION-none}"), "none", "an empty name is none");
    assert_eq!(client.run("echo ${VERSION-none} ${PWD:t}").output(), "none work");
}

#[test]
fn a_session_holds_however_the_command_ends_by_itself() {
    let env = Env::new();
    let client = env.client();
    for (number, shape) in [
        "export N=NUMBER; exit 3",
        "export N=NUMBER; false",
        "set -e; export N=NUMBER; false; true",
        "set -x; export N=NUMBER",
        "export N=NUMBER; set -u; echo $NOT_SET",
        "trap 'true' EXIT; export N=NUMBER",
        "export N=NUMBER; (export N=wrong; exit 1)",
        "export N=NUMBER; sleep 600 &!",
    ]
    .iter()
    .enumerate()
    {
        let command = shape.replace("NUMBER", &number.to_string());
        let result = call(&client, "a", &command, json!({}));
        assert!(!result.text.contains("env -0"), "{}", result.text);
        assert_eq!(run(&client, "a", "echo $N"), number.to_string(), "{command}");
        client.kill_all_of(&result.task_id());
    }
    // A shell that another program replaces reports nothing, nor does one that is killed.
    for shape in ["export N=no; exec true", "export N=no; kill -9 $$", "export N=no; sleep 600"] {
        call(&client, "a", shape, json!({"timeout": 1}));
        assert_eq!(run(&client, "a", "echo $N"), "7", "{shape}");
    }
    let started = call(
        &client,
        "a",
        "export N=no; trap 'exit 0' TERM; sleep 600 & wait",
        json!({"background": true, "yield_after": 0}),
    );
    client.kill_all_of(&started.task_id());
    assert_eq!(run(&client, "a", "echo $N"), "7");
}

#[test]
fn what_belongs_to_one_call_is_not_kept() {
    let env = Env::new();
    let client = env.client();
    run(&client, "a", "export FOO=session");
    let own = call(&client, "a", "echo $FOO", json!({"env": {"FOO": "call", "BAR": "call"}}));
    assert_eq!(own.output(), "call");
    assert_eq!(run(&client, "a", "echo $FOO ${BAR-none} ${SHLVL}"), "session none 1");
    // Side by side: each starts from what the last ended one has left.
    env.named_pipe("go");
    let slow = call(
        &client,
        "a",
        "export SLOW=1; read < go; export FOO=slow",
        json!({"background": true, "yield_after": 0}),
    );
    run(&client, "a", "export QUICK=1");
    assert_eq!(run(&client, "a", "echo ${SLOW-none} $QUICK $FOO"), "none 1 session");
    fs::write(env.work().join("go"), "\n").expect("a reader");
    client.poll_to_end(&slow.task_id());
    assert_eq!(run(&client, "a", "echo $SLOW ${QUICK-none} $FOO"), "1 none slow");
}

#[test]
fn sessions_side_by_side_lose_no_report() {
    const SESSIONS: u32 = 8;
    let env = Env::new();
    let client = env.client();
    for round in 0..5 {
        let calls: Vec<_> = (0..SESSIONS)
            .map(|session| {
                let directory = format!("d{session}/{round}");
                fs::create_dir_all(env.work().join(&directory)).expect("a directory");
                let directory = env.work().join(directory).display().to_string();
                let command = format!("cd {directory}; export V={round}; true | false | true");
                let arguments = json!({
                    "command": command, "session": session.to_string(), "yield_after": 40,
                });
                (directory, client.call_async("zsh", arguments))
            })
            .collect();
        for (session, (directory, call)) in calls.into_iter().enumerate() {
            let ended = call.tool_result();
            assert_eq!(ended.meta["cwd"], json!(directory), "{}", ended.text);
            assert_eq!(ended.meta["pipestatus"], json!([0, 1, 0]), "{}", ended.text);
            let kept = run(&client, &session.to_string(), "echo $V $PWD");
            assert_eq!(kept, format!("{round} {directory}"));
        }
    }
}

#[test]
fn a_directory_that_is_gone_is_named_and_a_large_environment_is_taken() {
    let env = Env::new();
    let client = env.client();
    run(&client, "a", "mkdir d; cd d; rmdir ../d");
    let gone = call(&client, "a", "echo never", json!({}));
    assert!(gone.is_error && gone.text.contains("/work/d does not exist"), "{}", gone.text);
    assert!(gone.text.contains("give another cwd"), "{}", gone.text);
    let back = call(&client, "a", "pwd", json!({"cwd": "."}));
    assert_eq!(back.output(), env.work().display().to_string());

    run(&client, "a", "for n in {1..4}; do export LARGE$n=${(l:100000::x:)}; done");
    assert_eq!(run(&client, "a", "echo ${#LARGE1} ${#LARGE4}"), "100000 100000");
    // More than a pipe takes: the session stays as it was, and nothing hangs.
    run(&client, "a", "for n in {1..12}; do export LARGE$n=${(l:100000::y:)}; done");
    assert_eq!(run(&client, "a", "echo ${LARGE1[1]} ${#LARGE12}"), "x 0");
}

#[test]
fn sessions_are_forgotten_by_their_age_and_with_the_server_and_never_on_disk() {
    let env = Env::new();
    let client = env.client();
    let word = unique_word();
    run(&client, "first", &format!("x={}; export SECRET=$x${{x:1}}", &word[..8]));
    for number in 0..31 {
        run(&client, &format!("s{number}"), "export N=1");
    }
    let value = run(&client, "first", "echo $SECRET");
    assert_eq!(value.len(), 15, "{value}");
    run(&client, "another", "true");
    assert_eq!(run(&client, "s0", "echo ${N-none}"), "none");
    assert_eq!(run(&client, "s31", "echo ${N-none}"), "none");
    call(&client, "first", "read", json!({"stdin_open": true, "yield_after": 0}));
    let found = env.command("grep").args(["-rlF", &value]).arg(env.path("state")).output();
    let found = String::from_utf8(found.expect("grep").stdout).expect("paths");
    // The output of the command above is in its spool.
    assert!(
        found.lines().all(|file| file.ends_with(".0")
            || file.ends_with("alan.db-wal")
            || file.ends_with("alan.db")),
        "{found}"
    );
    assert!(
        !env.client()
            .call("zsh", json!({"command": "echo $SECRET", "session": "first"}))
            .text
            .contains(&value)
    );
    let refused = call(&client, "a", "true", json!({"detach": true}));
    assert!(refused.is_error && refused.text.contains("exclude each other"), "{}", refused.text);
    assert!(processes_with(env.mark()).iter().all(|found| !found.arguments.contains("env -0")));
}
