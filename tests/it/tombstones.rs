//! What a server's end leaves of its tasks, as later servers of the same user tell of it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::era::{await_task, begin_task, get_task, text};
use crate::support::client::{Client, send_signal};
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, await_end, wait_until};
use crate::support::state_files::server_files;

/// How a server comes to its end.
#[derive(Debug, Clone, Copy)]
enum How {
    InOrder,
    Killed,
    WithItsGuard,
}

fn end(client: Client, how: How) {
    match how {
        How::InOrder => client.close_stdin(),
        How::Killed => client.kill_server(),
        How::WithItsGuard => {
            // Stopped, it sees nothing of the server's end; killed before, it would take the
            // server along in order.
            let server = client.server_pid();
            send_signal("STOP", client.pid());
            send_signal("KILL", server);
            await_end(server);
            send_signal("KILL", client.pid());
        }
    }
    client.wait_exit(Duration::from_secs(20));
}

/// A background task that has printed `begun` and sleeps.
fn interrupted_task(env: &Env, client: &Client, sleep: &UniqueSleep) -> String {
    let command = format!("API_TOKEN=hunter2hunter2 true; echo begun; {sleep}");
    let task = begin_task(client, json!({"command": command}));
    let shown = client.poll(&task, json!({"until": "begun", "listen": 25}));
    assert_eq!(shown.output(), "1: begun", "{}", shown.text);
    wait_until("other processes can know of it", || {
        let files = server_files(env, &format!("{task}.json"));
        (files.len() == 1).then_some(())
    });
    task
}

fn failure(task: &Value) -> &str {
    assert_eq!(task["status"], json!("failed"), "{task}");
    task["error"]["message"].as_str().unwrap_or_default()
}

#[test]
fn a_later_server_tells_that_the_end_of_the_first_interrupted_a_task() {
    for how in [How::InOrder, How::Killed] {
        let env = Env::new();
        let client = env.client();
        let sleep = UniqueSleep::new();
        let task = interrupted_task(&env, &client, &sleep);
        end(client, how);
        sleep.assert_gone();
        let client = env.client();
        let got = get_task(&client, &task);
        let told = failure(&got);
        assert!(told.starts_with("the server ended before"), "{told}");
        assert!(told.contains("\nbegun\n"), "{how:?}: {told}");
        let polled = client.poll(&task, json!({}));
        assert_eq!(polled.status(), "interrupted", "{}", polled.text);
        assert_eq!(polled.output(), "1: begun");
        assert!(!polled.is_error);
        let server = match how {
            How::InOrder => "⚠ its server ended at ",
            _ => "⚠ its server was killed by signal 9 at ",
        };
        assert!(polled.text.contains(server), "{how:?}: {}", polled.text);
        if cfg!(all(target_os = "linux", not(feature = "portable"))) {
            assert_eq!(polled.meta["exit_code"], json!(143), "{}", polled.text);
        }
        for told in [told, &polled.text] {
            assert!(!told.contains("hunter2"), "{told}");
        }
        assert_eq!(client.poll(&task, json!({})).output(), "(no more output)");
    }
}

#[test]
fn what_had_ended_before_its_server_completes_with_its_whole_result() {
    for how in [How::InOrder, How::Killed, How::WithItsGuard] {
        let env = Env::new();
        let client = env.client();
        let command = "seq 1 20; mkdir aside; cd aside; false | (exit 7)";
        let task = begin_task(&client, json!({"command": command}));
        let before = await_task(&client, &task);
        let unread = client.start_task("echo unread; read go; exit 3 < /dev/null");
        wait_until("the other has ended as well", || {
            let tasks = client.call("zsh_tasks", json!({"all": true}));
            tasks.text.contains("failed exit=3").then_some(())
        });
        wait_until("both ends are on the disk", || {
            let files = server_files(&env, ".json").into_iter();
            let is_over = |file: &PathBuf| {
                fs::read_to_string(file).is_ok_and(|text| text.contains(r#""outcome":"FAILURE""#))
            };
            (files.filter(is_over).count() == 2).then_some(())
        });
        end(client, how);
        let client = env.client();
        let after = get_task(&client, &task);
        assert_eq!(after["status"], json!("completed"), "{how:?}: {after}");
        let own = |task: &Value| {
            let told = text(&task["result"]).to_owned();
            let lines =
                told.lines().filter(|line| !line.contains("A.L.A.N.") && !line.starts_with('ℹ'));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(own(&after), own(&before), "{how:?}");
        let polled = client.poll(&unread, json!({}));
        assert_eq!(polled.output(), "1: unread", "{how:?}: {}", polled.text);
        assert_eq!(polled.meta["exit_code"], json!(3), "{}", polled.text);
    }
}

#[test]
fn without_a_word_of_server_or_guard_a_task_is_told_as_interrupted() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = interrupted_task(&env, &client, &sleep);
    end(client, How::WithItsGuard);
    let client = env.client();
    let polled = client.poll(&task, json!({}));
    assert_eq!(polled.status(), "interrupted", "{}", polled.text);
    assert!(polled.text.contains("its server disappeared"), "{}", polled.text);
    assert!(polled.text.contains("exit code is not known"), "{}", polled.text);
    assert!(failure(&get_task(&client, &task)).contains("begun"));
}

#[test]
fn every_way_to_a_task_answers_for_one_of_an_ended_server() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = client.start_until(&format!("seq 1 40; {sleep}"), "40");
    let arguments = json!({"command": sleep.to_string(), "pty": true, "yield_after": 0});
    let on_terminal = client.call("zsh", arguments).task_id();
    end(client, How::InOrder);
    let client = env.client();
    let range = client.poll(&task, json!({"from_line": 7, "to_line": 8}));
    assert_eq!(range.output(), "7: 7\n8: 8");
    let found = client.poll(&task, json!({"grep": "^3"}));
    assert_eq!(found.output().lines().count(), 11, "{}", found.text);
    let whole = client.poll(&task, json!({"full_output": true}));
    assert_eq!(whole.output().lines().count(), 40, "{}", whole.text);
    let killed = client.call("zsh_kill", json!({"task_id": task}));
    assert!(killed.text.contains("ended with all its processes"), "{}", killed.text);
    let sent = client.call("zsh_send", json!({"task_id": task, "input": "x"}));
    assert!(sent.text.contains("has ended"), "{}", sent.text);
    let screen = client.poll(&on_terminal, json!({"screen": true}));
    assert!(screen.text.contains("gone with its server"), "{}", screen.text);
    let waited = client.poll_to_end(&on_terminal);
    assert_eq!(waited.status(), "interrupted", "{}", waited.text);
    for unknown in ["../lock", "00000000", "", "DEADBEEFF"] {
        let refused = client.poll(unknown, json!({}));
        assert!(refused.is_error && refused.text.contains("unknown"), "{}", refused.text);
    }
    // It is in no list, and the next end leaves it as it is.
    let tasks = client.call("zsh_tasks", json!({"all": true}));
    assert!(!tasks.text.contains(&task), "{}", tasks.text);
    client.run("true");
    end(client, How::InOrder);
    let third = env.client();
    assert_eq!(third.poll(&task, json!({"grep": "^40"})).output(), "40: 40");
}

#[test]
fn lines_keep_their_numbers_where_the_quota_has_left_a_gap() {
    let env = Env::new();
    env.configure("spool_task_quota: 1048576\n");
    let client = env.client();
    let task = client.run("seq 1 600000").task_id();
    let before = client.poll(&task, json!({"from_line": 599_998}));
    end(client, How::InOrder);
    let client = env.client();
    let after = client.poll(&task, json!({"from_line": 599_998}));
    assert_eq!(after.output(), before.output(), "{}", after.text);
    assert_eq!(after.output(), "599998: 599998\n599999: 599999\n600000: 600000");
    let lost = |text: &str| text.lines().find(|line| line.contains("are gone")).map(str::to_owned);
    assert_eq!(lost(&after.text), lost(&before.text), "{}", after.text);
}

#[test]
fn output_that_was_kept_in_memory_is_told_to_be_gone() {
    let env = Env::new();
    env.configure("spool: memory\n");
    let client = env.client();
    let task = client.run("echo secret; exit 5").task_id();
    let silent = client.run("true").task_id();
    end(client, How::InOrder);
    let client = env.client();
    let polled = client.poll(&task, json!({}));
    let told = "has ended (failed, exit=5), and its output is no longer kept";
    assert!(polled.text.contains(told), "{}", polled.text);
    let got = get_task(&client, &task);
    assert_eq!(got["status"], json!("completed"), "{got}");
    assert!(text(&got["result"]).contains(told), "{got}");
    let polled = client.poll(&silent, json!({}));
    assert!(polled.text.contains("\n(no output)\n"), "{}", polled.text);
}

#[test]
fn a_later_server_tells_of_evicted_tasks_too() {
    let env = Env::new();
    env.configure("max_finished_tasks: 2\n");
    let client = env.client();
    let tasks: Vec<String> = (0..6).map(|_| client.run("echo x; exit 6").task_id()).collect();
    end(client, How::InOrder);
    let client = env.client();
    let gone = client.poll(&tasks[0], json!({}));
    assert!(gone.text.contains("(failed, exit=6)"), "{}", gone.text);
    assert!(gone.text.contains("no longer kept"), "{}", gone.text);
    assert_eq!(client.poll(&tasks[5], json!({})).output(), "1: x");
}

#[test]
fn ended_servers_hold_no_more_output_than_one_may() {
    let env = Env::new();
    env.configure("spool_quota: 1048576\n");
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let client = env.client();
        tasks.push(client.run("seq 1 60000").task_id());
        end(client, How::InOrder);
    }
    let client = env.client();
    wait_until("the oldest is gone", || (server_files(&env, "/ended").len() == 3).then_some(()));
    assert!(client.poll(&tasks[0], json!({})).text.contains("unknown"));
    let newest = client.poll(&tasks[3], json!({"from_line": 60_000}));
    assert_eq!(newest.output(), "60000: 60000");
}

#[test]
fn damaged_files_of_an_ended_server_hide_no_other_task() {
    let env = Env::new();
    let client = env.client();
    let tasks: Vec<String> =
        (0..4).map(|number| client.run(&format!("echo {number}")).task_id()).collect();
    end(client, How::InOrder);
    let directory = server_files(&env, "/ended")[0].parent().expect("a folder").to_path_buf();
    fs::write(directory.join("ended"), "{").expect("a record");
    fs::write(directory.join(format!("{}.json", tasks[0])), "[]").expect("an entry");
    let entry = directory.join(format!("{}.json", tasks[1]));
    let mut odd: Value =
        serde_json::from_slice(&fs::read(&entry).expect("a file")).expect("an entry");
    odd["started"] = json!(-1e300);
    odd["segments"] = json!([[0, u64::MAX]]);
    odd["duration_ms"] = json!(u64::MAX);
    fs::write(&entry, odd.to_string()).expect("an entry");
    fs::remove_file(directory.join(format!("{}.0", tasks[2]))).expect("output");
    let client = env.client();
    assert!(client.poll(&tasks[0], json!({})).text.contains("unknown"));
    let told = client.poll(&tasks[1], json!({}));
    assert_eq!(told.output(), "1: 1", "{}", told.text);
    get_task(&client, &tasks[1]);
    assert!(client.poll(&tasks[2], json!({})).text.contains("no longer kept"));
    let told = client.poll(&tasks[3], json!({}));
    assert_eq!(told.output(), "1: 3", "{}", told.text);
}
