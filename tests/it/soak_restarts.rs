//! Calls of every tool, detached tasks, commands on a host, and a server that is killed again and again:
//! no line of output and no exit code is lost, and what the processes hold remains the same.
//!
//! `SOAK_MINUTES` says how long the long form goes on.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::hosts::by_ssh;
use crate::restarts::kill_server;
use crate::soak::{
    CALLERS, Holdings, SPARE_DESCRIPTORS, SPARE_KIB, SPARE_THREADS, Soak, size_from,
};
use crate::support::client::Client;
use crate::support::database::wait_for_row;
use crate::support::processes::{UniqueSleep, assert_none_left, memory_kib, wait_until};
use crate::support::result::ToolResult;
use crate::support::ssh_host::{await_far_sides_gone, far_sides};

/// More kills within a minute would end the session.
const BETWEEN_KILLS: Duration = Duration::from_secs(25);
const DEFAULT_MINUTES: usize = 10;
/// The lines of a detached task, one in each half of a second: it outlives the server that started it.
const LINES: usize = 12;
/// What the guard of a server may take more after many servers.
const SPARE_KIB_OF_GUARD: u64 = 1024;

#[test]
fn nothing_is_lost_of_what_runs_while_a_server_is_killed() {
    rounds(|round| round < 2, 40, Duration::ZERO);
}

#[test]
#[ignore = "takes long: make test-long"]
fn minutes_of_calls_of_every_tool_and_kills_lose_nothing_and_leave_nothing() {
    let minutes = size_from("SOAK_MINUTES", DEFAULT_MINUTES);
    let end = Instant::now() + Duration::from_secs(60 * minutes as u64);
    rounds(|_| Instant::now() < end, 600, BETWEEN_KILLS);
}

fn rounds(goes_on: impl Fn(usize) -> bool, calls: usize, between_kills: Duration) {
    let (env, host) = by_ssh(5);
    env.configure(&format!(
        "max_finished_tasks: {}\nhosts:\n  build1: {{command: [{}], linger: 5}}\n",
        crate::soak::KEPT,
        host.carrier()
    ));
    let client = env.client();
    let soak = Soak::new(&env, &client);
    let (mut held, mut guard) = (Vec::new(), Vec::new());
    let mut round = 0;
    while goes_on(round) {
        let begun = Instant::now();
        let detached: Vec<ToolResult> = (0..CALLERS).map(|code| detached(&soak, code)).collect();
        let sleep = UniqueSleep::new();
        soak.call("zsh", json!({"command": sleep.to_string(), "yield_after": 0}));
        sleep.wait_for(1);
        kill_server(&client, None);
        sleep.assert_gone();
        let until = soak.calls.load(Ordering::Relaxed) + calls;
        thread::scope(|scope| {
            let soak = &soak;
            for (caller, detached) in detached.into_iter().enumerate() {
                scope.spawn(move || {
                    let mut kind = caller;
                    while soak.calls.load(Ordering::Relaxed) < until {
                        one_of_a_kind(soak, kind);
                        kind += 1;
                    }
                    let ended = soak.follow(detached, LINES);
                    assert_eq!(ended.meta["exit_code"], json!(caller), "{}", ended.text);
                });
            }
        });
        held.push(soak.rest());
        guard.push(memory_kib(client.pid(), "VmRSS"));
        let far: Vec<u64> = far_sides(&env).iter().map(|it| memory_kib(it.pid, "VmRSS")).collect();
        println!("{round}: {:?}, guard {guard:?} KiB, host {far:?} KiB", held.last());
        round += 1;
        if goes_on(round) {
            thread::sleep(between_kills.saturating_sub(begun.elapsed()));
        }
    }
    println!("{} calls, {round} kills", soak.calls.load(Ordering::Relaxed));
    assert_flat(&client, &held, &guard);
    // What was killed with a server has no outcome.
    let commands = i64::try_from(soak.commands.into_inner() - round).expect("not that many");
    wait_for_row(&env, "SELECT count(*) = ?1 FROM observations", commands);
    client.close_stdin();
    drop(client);
    await_far_sides_gone(&env);
    assert_none_left(env.mark());
}

/// A detached task that ends with this exit code.
fn detached(soak: &Soak, code: usize) -> ToolResult {
    let command = format!("for i in {{1..{LINES}}}; do echo line $i; sleep 0.5; done; exit {code}");
    soak.call("zsh", json!({"command": command, "detach": true, "yield_after": 0}))
}

fn one_of_a_kind(soak: &Soak, kind: usize) {
    match kind % 10 {
        0 => on_host(soak, kind),
        1 => views(soak),
        _ => soak.one_of_a_kind(kind),
    }
}

fn on_host(soak: &Soak, kind: usize) {
    let code = kind % 3;
    let command = format!("seq {kind}; exit {code}");
    let arguments = json!({"command": command, "host": "build1", "yield_after": 25});
    let result = soak.call("zsh", arguments);
    assert_eq!(result.meta["exit_code"], json!(code), "{}", result.text);
    assert_eq!(result.meta["total_lines"], json!(kind), "{}", result.text);
}

/// The tools that start nothing.
fn views(soak: &Soak) {
    for (tool, arguments) in [
        ("zsh_tasks", json!({})),
        ("zsh_tasks", json!({"host": "build1"})),
        ("zsh_health", json!({})),
        ("zsh_alan_stats", json!({})),
        ("zsh_alan_query", json!({"command": "seq 10"})),
        ("zsh_neverhang_status", json!({})),
        ("zsh_neverhang_reset", json!({})),
    ] {
        soak.call(tool, arguments);
    }
}

/// A server after many others holds what the first ones did. While it looks through what they have left
/// it needs memory for that, which it gives back when it is idle.
fn assert_flat(client: &Client, held: &[Holdings], guard: &[u64]) {
    let (early, late) = held.split_at(held.len().min(2));
    let most = |of: fn(&Holdings) -> usize| early.iter().map(of).max().expect("a round");
    let descriptors = most(|it| it.descriptors) + SPARE_DESCRIPTORS;
    let threads = most(|it| it.threads) + SPARE_THREADS;
    let kib = early.iter().map(|it| it.kib).max().expect("a round") + SPARE_KIB;
    for held in late {
        let is_flat = held.descriptors <= descriptors && held.threads <= threads;
        assert!(is_flat, "{held:?}, and early {early:?}");
    }
    wait_until("its memory is given back", || {
        (memory_kib(client.server_pid(), "VmRSS") <= kib).then_some(())
    });
    let (first, last) = (guard.first().expect("a round"), guard.last().expect("a round"));
    assert!(*last <= first + SPARE_KIB_OF_GUARD, "{guard:?}");
}
