//! Deadlines that were not asked for: they end what is in trouble, and nothing else.

use serde_json::json;

use crate::hosts;
use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::wait_until;
use crate::support::result::ToolResult;

/// A server whose deadlines are short.
fn with_short_deadlines(env: &Env, more: &str) -> Client {
    env.configure(&format!("timeout_default: 1\ntimeout_max: 3\n{more}"));
    env.client()
}

/// Polls a task to its end, also past a question.
fn end_of(client: &Client, task: &str) -> ToolResult {
    wait_until("its end", || {
        let polled = client.poll(task, json!({"listen": 0.5}));
        (polled.status() != "running").then_some(polled)
    })
}

/// Prints a line now and then until a file is there.
const WORKS: &str = "until [[ -e over ]]; do print line; sleep 0.1; done; exit 3";

#[test]
fn a_sound_command_continues_past_a_deadline_that_it_did_not_set_and_says_so_once() {
    let env = Env::new();
    let client = with_short_deadlines(&env, "");
    let started = client.call("zsh", json!({"command": WORKS, "yield_after": 0.2}));
    let task = started.task_id();
    assert!(!started.text.contains("continues"), "{}", started.text);
    let told = wait_until("an answer past the deadline", || {
        let polled = client.poll(&task, json!({"listen": 0.2}));
        polled.text.contains("past 1s, continues: ").then_some(polled)
    });
    assert!(told.text.contains("zsh_kill ends it"), "{}", told.text);
    assert!(told.text.contains("⟳ RUNNING"), "{}", told.text);
    let again = client.poll(&task, json!({"listen": 0.2}));
    assert!(!again.text.contains("continues"), "{}", again.text);
    std::fs::write(env.work().join("over"), "").expect("a file");
    let ended = client.poll_to_end(&task);
    assert!(ended.text.contains("✘ exit=3"), "{}", ended.text);
    let query = client.call("zsh_neverhang_status", json!({})).text;
    assert!(!query.contains("until [["), "{query}");
}

#[test]
fn a_stuck_command_ends_at_a_deadline_that_it_did_not_set() {
    let env = Env::new();
    let client = with_short_deadlines(&env, "");
    let pipe = env.named_pipe("pipe");
    let started = client.call("zsh", json!({"command": "cat pipe", "yield_after": 0.1}));
    let ended = end_of(&client, &started.task_id());
    assert!(ended.text.contains("⏱ TIMEOUT"), "{}", ended.text);
    assert!(ended.text.contains("pipe, and no process has its other end"), "{}", ended.text);
    drop(pipe);
}

#[test]
fn a_question_without_an_answer_ends_at_the_longest_deadline() {
    let env = Env::new();
    let client = with_short_deadlines(&env, "");
    let asks = json!({"command": "print -n 'Name: '; read name; print $name", "pty": true});
    let asked = client.call("zsh", asks.clone());
    assert!(asked.text.contains("WAITING FOR INPUT"), "{}", asked.text);
    let ended = end_of(&client, &asked.task_id());
    assert!(ended.text.contains("⏱ TIMEOUT"), "{}", ended.text);
    assert!(ended.text.contains("blocked: waiting for input"), "{}", ended.text);
    let duration = ended.meta["duration_ms"].as_u64().expect("a duration");
    assert!(duration >= 3000, "{}", ended.text);
    // One that is answered in time ends by itself.
    let asked = client.call("zsh", asks);
    let answered = json!({"task_id": asked.task_id(), "input": "me"});
    client.call("zsh_send", answered);
    assert_eq!(client.poll_to_end(&asked.task_id()).status(), "completed");
}

#[test]
fn a_deadline_that_was_asked_for_is_hard() {
    let env = Env::new();
    let client = with_short_deadlines(&env, "");
    let limited = json!({"command": WORKS, "timeout": 0.5, "yield_after": 25});
    let ended = client.call("zsh", limited);
    assert!(ended.text.contains("⏱ TIMEOUT"), "{}", ended.text);
    let env = Env::new();
    let client = with_short_deadlines(&env, "unasked_deadline: kill\n");
    let ended = client.call("zsh", json!({"command": WORKS, "yield_after": 25}));
    assert!(ended.text.contains("⏱ TIMEOUT"), "{}", ended.text);
}

#[test]
fn a_command_that_continues_unpolled_is_named_now_and_then() {
    let env = Env::new();
    let client = with_short_deadlines(&env, "");
    let started = client.call("zsh", json!({"command": WORKS, "yield_after": 0.1}));
    let task = started.task_id();
    let named = format!("task '{task}' runs, unpolled for ");
    let notice = || {
        let answer = client.call("zsh_health", json!({}));
        let line = answer.text.lines().find(|line| line.contains(&named)).map(str::to_owned)?;
        let (seconds, _) = line.split_once(&named)?.1.split_once('s')?;
        Some((seconds.parse::<u64>().ok()?, line))
    };
    let (seconds, first) = wait_until("a notice", notice);
    assert!(seconds >= 3 && first.contains("progressing"), "{first}");
    let (seconds, second) = wait_until("the next one, after twice the time", notice);
    assert!(seconds >= 6, "{second}");
    // A poll begins it anew.
    client.poll(&task, json!({"listen": 0}));
    assert_eq!(notice(), None);
    std::fs::write(env.work().join("over"), "").expect("a file");
    client.poll_to_end(&task);
}

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Ends,
    Continues,
}
use Fate::{Continues, Ends};

/// The commands, each by what is found of it.
const KINDS: [(&str, &str); 6] = [
    ("computes", "while :; do :; done"),
    ("prints", "while :; do print line $((i++)); sleep 0.05; done"),
    ("sleeps", "sleep 600"),
    ("serves", "exec python3 -m http.server 0"),
    ("stuck", "cat pipe"),
    ("asks", "print -n 'Name: '; read name"),
];

#[test]
fn what_becomes_of_a_command_depends_on_its_state_and_on_who_asked_for_its_deadline() {
    let given = json!({"timeout": 1.5});
    let moving = json!({"timeout": 1.5, "timeout_mode": "progress"});
    // In the order of the kinds. A question ends at the longest deadline, a moving one too.
    let table = [
        ("no deadline", json!({}), [Continues, Continues, Continues, Continues, Ends, Ends]),
        ("a given one", given.clone(), [Ends; 6]),
        ("a moving one", moving, [Ends; 6]),
        ("background", json!({"background": true}), [Continues; 6]),
        ("background with one", json!({"background": true, "timeout": 1.5}), [Ends; 6]),
        ("detached", json!({"detach": true}), [Continues; 6]),
        ("a terminal", json!({"pty": true, "timeout": 1.5}), [Ends; 6]),
        (
            "a terminal without one",
            json!({"pty": true}),
            [Continues, Continues, Continues, Continues, Ends, Ends],
        ),
        ("on a host", json!({"host": "build1", "timeout": 1.5}), [Ends; 6]),
        ("on a host without one", json!({"host": "build1"}), [Ends; 6]),
    ];
    let (env, _host) = hosts::by_ssh(60);
    let hosts = std::fs::read_to_string(env.path("home/.config/zsh-tool/config.yaml"));
    let hosts = hosts.expect("the configuration of the host");
    let deadlines = "timeout_default: 1.5\ntimeout_max: 5\nneverhang_threshold: 100\n";
    env.configure(&format!("{hosts}{deadlines}"));
    // A host has settings of its own.
    let there = env.path("far/.config/zsh-tool");
    std::fs::create_dir_all(&there).expect("a directory");
    std::fs::write(there.join("config.yaml"), deadlines).expect("the settings of the host");
    let client = env.client();
    let pipe = env.named_pipe("pipe");
    let mut started = Vec::new();
    for (number, (mode, arguments, fates)) in table.iter().enumerate() {
        for ((kind, command), fate) in KINDS.iter().zip(fates) {
            // So that other tests find a processor, only the first modes get those that keep one busy.
            if number > 3 && matches!(*kind, "computes" | "prints") {
                continue;
            }
            let mut call = arguments.clone();
            // A host begins elsewhere.
            let pipe = env.work().join("pipe");
            call["command"] = json!(command.replace("pipe", &pipe.to_string_lossy()));
            // Where nothing can answer, nothing is asked.
            if *kind == "asks" && call["pty"].is_null() {
                call["stdin_open"] = json!(true);
            }
            call["yield_after"] = json!(0);
            let task = client.call("zsh", call).task_id();
            started.push((format!("{kind}, {mode}"), task, *fate));
        }
    }
    for (what, task, fate) in &started {
        if *fate == Ends {
            let ended = wait_until(what, || {
                let polled = client.poll(task, json!({"listen": 0}));
                (polled.status() != "running").then_some(polled)
            });
            assert!(ended.text.contains("⏱ TIMEOUT"), "{what}: {}", ended.text);
        }
    }
    // By now every deadline is past.
    for (what, task, fate) in &started {
        if *fate == Continues {
            let polled = client.poll(task, json!({"listen": 0}));
            assert_eq!(polled.status(), "running", "{what}: {}", polled.text);
            client.kill_task(task);
        }
    }
    drop(pipe);
}

#[test]
fn only_what_ended_at_a_deadline_counts_against_a_command() {
    let env = Env::new();
    let client = with_short_deadlines(&env, "");
    let serves = "exec python3 -m http.server 0 --bind 127.0.0.1";
    let known = |command: &str| client.call("zsh_alan_query", json!({"command": command})).text;
    for _ in 0..4 {
        let started = client.call("zsh", json!({"command": serves, "yield_after": 0}));
        assert!(!started.is_error, "{}", started.text);
        let task = started.task_id();
        wait_until("it continues", || {
            client.poll(&task, json!({"listen": 0.2})).text.contains(", continues: ").then_some(())
        });
        client.kill_task(&task);
    }
    let _pipe = env.named_pipe("pipe");
    for _ in 0..3 {
        let started = client.call("zsh", json!({"command": "cat pipe", "yield_after": 0}));
        let task = started.task_id();
        let ended = wait_until("the deadline", || {
            let polled = client.poll(&task, json!({"listen": 1}));
            (polled.status() != "running").then_some(polled)
        });
        assert!(ended.text.contains("⏱ TIMEOUT"), "{}", ended.text);
    }
    let refused = client.call("zsh", json!({"command": "cat pipe"}));
    assert!(refused.is_error && refused.text.contains("3 times"), "{}", refused.text);
    let circuits = client.call("zsh_neverhang_status", json!({})).text;
    assert!(circuits.contains("cat pipe") && !circuits.contains("python3"), "{circuits}");
    let (server, hung) = (known(serves), known("cat pipe"));
    assert!(
        server.contains(", 0% timed out") && hung.contains(", 100% timed out"),
        "{server}\n{hung}"
    );
}

/// A build of four minutes that has no deadline of its own continues past the default one of two
/// minutes, to its own end.
pub fn a_build_of_four_minutes_continues() {
    let env = Env::new();
    let client = env.client();
    let source = "#include <stdio.h>\nint main(void) { return printf(\"built\\n\") != 6; }\n";
    std::fs::write(env.work().join("main.c"), source).expect("a source file");
    let build = "while (( SECONDS < 240 )); do cc -O2 -c -o part.o main.c || exit; (( parts++ )); \
                 (( parts % 20 )) || print part $parts; done; cc -o main part.o && ./main";
    let started = client.call("zsh", json!({"command": build, "yield_after": 5}));
    let task = started.task_id();
    let mut told = 0;
    let begun = std::time::Instant::now();
    let ended = loop {
        let polled = client.poll(&task, json!({"wait_for": "end", "listen": 20}));
        told += usize::from(polled.text.contains(", continues: "));
        if polled.status() != "running" {
            break polled;
        }
        assert!(begun.elapsed().as_secs() < 400, "{}", polled.text);
    };
    assert!(ended.text.contains("exit=0") && ended.text.contains("built"), "{}", ended.text);
    assert_eq!(told, 1, "{}", ended.text);
}
