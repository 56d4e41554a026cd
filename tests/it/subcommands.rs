//! The commands for people and scripts beside `exec`: `tasks`, `log`, `doctor`, `config`
//! and `completions`.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE, send_signal};
use crate::support::env::{Env, binary, unique_word};
use crate::support::processes::{assert_none_left, wait_until};
use crate::support::program::{Program, ran, run, zsh_tool};

/// What a command of this program prints on a terminal.
fn on_terminal(env: &Env, words: &str) -> (String, i32) {
    let mut command = env.command("script");
    command
        .args(["--quiet", "--flush", "--return", "--command"])
        .arg(format!("\"$TEST_BINARY\" {words}"))
        .arg("/dev/null")
        .env("SHELL", "/bin/sh")
        .env("TEST_BINARY", binary());
    let finished = run(command);
    (finished.text(), finished.code)
}

#[test]
fn a_log_asks_and_changes_nothing_on_a_terminal() {
    let env = Env::new();
    let client = env.client();
    let hostile = r"a\e]52;c;eA==\a\e]0;t\a\e[6n\eP0;1q#1!9~\e\\\e#8\u202eb\e[?1049hc";
    let task = client.run(&format!("print -n '{hostile}'")).task_id();
    let (shown, code) = on_terminal(&env, &format!("log {task}"));
    assert_eq!((shown.as_str(), code), ("a<U+202E>bc", 0));
    let (refused, code) = on_terminal(&env, &format!("log --raw {task}"));
    assert!(refused.contains("--raw is for files and pipes") && code == 2, "{code}: {refused}");
    let (forced, code) = on_terminal(&env, &format!("log --raw --force {task}"));
    assert!(forced.contains("\u{1b}]52;c;eA==\u{7}") && code == 0, "{code}: {forced:?}");
    let piped = ran(&env, &["log", &task]);
    assert_eq!(piped.text(), forced);
}

#[test]
fn usage_errors_exit_with_2() {
    let env = Env::new();
    for arguments in [
        &["exec"][..],
        &["exec", "--tmeout", "5", "true"],
        &["exec", "--timeout", "-1", "true"],
        &["exec", "--timeout", "soon", "true"],
        &["exec", " "],
        &["log"],
        &["no-such-command"],
        &["completions", "no-such-shell"],
    ] {
        let finished = ran(&env, arguments);
        assert_eq!(finished.code, 2, "{arguments:?}: {finished:?}");
        assert_eq!(finished.text(), "", "{arguments:?}");
        assert!(!finished.stderr.is_empty(), "{arguments:?}");
    }
}

// tasks and log

/// A task that prints `one`, waits for a line in the pipe `go`, and prints `two`.
fn start_waiting_task(env: &Env, client: &Client) -> String {
    let command = "mkfifo go; echo one; read < go; echo two --password=hunter2";
    let arguments = json!({"command": command, "until": "one", "yield_after": 20});
    let id = client.call("zsh", arguments).task_id();
    wait_until("the pipe is there", || env.work().join("go").exists().then_some(()));
    wait_until_listed(env, &id, "running");
    id
}

/// A server tells other processes of a task a moment after it has told its client.
fn wait_until_listed(env: &Env, id: &str, status: &str) {
    let row = format!("{id}  {status}");
    wait_until("the task is listed", || {
        let text = ran(env, &["tasks", "--all"]).text();
        text.lines().any(|line| line.starts_with(&row)).then_some(())
    });
}

#[test]
fn other_processes_see_the_tasks_of_a_server() {
    let env = Env::new();
    let client = env.client();
    let running = start_waiting_task(&env, &client);
    let ended = client.call("zsh", json!({"command": "echo three; exit 3"}));
    let ended = ended.task_id();
    wait_until_listed(&env, &ended, "failed");

    let finished = ran(&env, &["tasks"]);
    assert_eq!(finished.code, 0);
    let text = finished.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with(&format!("{running}  running  ")), "{text}");
    assert!(text.contains("echo one"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");

    let text = ran(&env, &["tasks", "--all"]).text();
    let row = format!("{ended}  failed exit=3  ");
    assert!(text.lines().any(|line| line.starts_with(&row)), "{text}");

    let text = ran(&env, &["tasks", "--json"]).text();
    let task: Value = serde_json::from_str(text.trim_end()).expect("one object on a line");
    assert_eq!(task["task_id"], json!(running));
    assert_eq!(task["status"], json!("running"));
    assert_eq!(task["exit_code"], Value::Null);

    assert_eq!(ran(&env, &["log", &ended]).text(), "three\n");
    assert_eq!(ran(&env, &["log", &running]).text(), "one\n");
}

#[test]
fn a_log_can_be_printed_as_soon_as_the_answer_names_its_task() {
    let env = Env::new();
    let client = env.client();
    for number in 0..20 {
        let task = client.run(&format!("echo {number}")).task_id();
        let finished = ran(&env, &["log", &task]);
        assert_eq!(finished.text(), format!("{number}\n"), "{}", finished.stderr);
    }
}

#[test]
fn following_a_log_ends_with_its_task() {
    let env = Env::new();
    let client = env.client();
    let task = start_waiting_task(&env, &client);
    let mut follower = Program::start(zsh_tool(&env, &["log", "--follow", &task]));
    assert_eq!(follower.read_line(), "one");
    fs::write(env.work().join("go"), "\n").expect("a reader of the pipe");
    let finished = follower.finish_with_stdin_open();
    assert_eq!(finished.text(), "two --password=hunter2\n");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

#[test]
fn following_a_log_ends_with_a_killed_server() {
    let env = Env::new();
    let client = env.client();
    let task = start_waiting_task(&env, &client);
    let mut follower = Program::start(zsh_tool(&env, &["log", "-f", &task]));
    assert_eq!(follower.read_line(), "one");
    client.kill_server();
    assert_eq!(follower.finish_with_stdin_open().code, 0);
    let finished = ran(&env, &["tasks", "--all"]);
    assert_eq!(finished.text(), "", "a dead server has no tasks");
}

#[test]
fn a_log_says_where_output_is_missing() {
    let env = Env::new();
    env.configure("spool_task_quota: 64 KiB\n");
    let client = env.client();
    let arguments = json!({"command": "seq 1 100000", "yield_after": 20});
    let task = client.call("zsh", arguments).task_id();
    wait_until_listed(&env, &task, "completed");
    let finished = ran(&env, &["log", &task]);
    let text = finished.text();
    assert!(text.starts_with("1\n2\n"), "the head is kept");
    assert!(text.ends_with("99999\n100000\n"), "the tail is kept");
    assert_eq!(finished.stderr.matches("output is missing here").count(), 1, "{}", finished.stderr);
}

#[test]
fn an_id_may_be_shortened_but_not_to_nothing_certain() {
    let env = Env::new();
    let client = env.client();
    let ids: Vec<String> =
        (0..2).map(|_| client.call("zsh", json!({"command": "echo x"})).task_id()).collect();
    for id in &ids {
        wait_until_listed(&env, id, "completed");
    }
    let unique = (1..=8)
        .find_map(|length| {
            let start = ids[0].get(..length)?;
            (!ids[1].starts_with(start)).then_some(start)
        })
        .expect("two ids differ");
    assert_eq!(ran(&env, &["log", unique]).text(), "x\n");

    let finished = ran(&env, &["log", ""]);
    assert_eq!(finished.code, 1);
    assert!(ids.iter().all(|id| finished.stderr.contains(id)), "{}", finished.stderr);
    let finished = ran(&env, &["log", "no-such-task"]);
    assert_eq!(finished.code, 1);
    assert!(finished.stderr.contains("zsh-tool tasks --all"), "{}", finished.stderr);
}

#[test]
fn detached_tasks_are_marked_in_the_list_and_named_by_doctor_and_uninstall() {
    let env = Env::new();
    let client = env.client();
    let ordinary = client.start_task("sleep 600");
    let detached = client.call("zsh", json!({"command": "sleep 601", "detach": true})).task_id();
    wait_until_listed(&env, &ordinary, "running  ");
    wait_until_listed(&env, &detached, "running, detached  ");
    let listed = ran(&env, &["tasks", "--json"]).text();
    let of = |id: &str| -> Value {
        let mut tasks = listed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        tasks.find(|task: &Value| task["task_id"] == id).expect("it is listed")
    };
    assert_eq!(of(&ordinary)["detached"], Value::Null);
    assert_eq!(of(&detached)["detached"]["project"], json!(env.work()));
    assert!(of(&detached)["detached"]["until"].is_f64(), "{listed}");
    let shim = of(&detached)["server_pid"].as_i64().expect("the pid of its shim");

    let doctor = ran(&env, &["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
    let text = doctor.text();
    let line = text.lines().find(|line| line.contains("detached task:")).expect("a line");
    assert!(line.starts_with(&format!("ok       detached task: {detached}, started ")), "{line}");
    assert!(line.contains(&format!("shim pid {shim}: sleep 601")), "{line}");
    assert!(line.ends_with(&format!("→ `zsh-tool kill {detached}` ends it")), "{line}");
    assert!(!text.contains("control socket"), "none is stale: {text}");

    // As scripts/install lays the plugin out.
    let plugin = env.path("plugins/zsh-tool");
    fs::create_dir_all(plugin.join("bin")).expect("a folder");
    std::os::unix::fs::symlink(binary(), plugin.join("bin/zsh-tool")).expect("the program");
    fs::write(plugin.join(".installed-files"), "bin/zsh-tool\n").expect("the record");
    let mut uninstall = env.command(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/uninstall"));
    uninstall.env("PREFIX", env.path("plugins"));
    let uninstalled = run(uninstall);
    assert_eq!(uninstalled.code, 0, "{uninstalled:?}");
    let text = uninstalled.text();
    assert!(text.contains(&format!("  {detached}  running, detached  ")), "{text}");
    assert!(text.contains(&format!("(pid {shim})")), "{text}");
    assert!(!text.contains(&ordinary), "{text}");
    assert!(!plugin.exists(), "{text}");
    assert_eq!(client.poll(&detached, json!({"listen": 0})).status(), "running");
    // The way out that it names.
    assert!(text.contains("kill PID"), "{text}");
    send_signal("TERM", u32::try_from(shim).expect("a pid"));
    client.close_stdin();
    client.wait_exit(PATIENCE);
    assert_none_left(env.mark());
    let all = ran(&env, &["tasks", "--all"]).text();
    assert_eq!(all.lines().count(), 1, "of ended servers, the detached ones: {all}");
    assert!(all.starts_with(&format!("{detached}  ")) && all.contains(", detached  "), "{all}");
    assert!(!all.contains("running"), "{all}");
    assert_eq!(ran(&env, &["tasks"]).text(), "");
}

#[test]
fn doctor_names_the_socket_of_a_server_that_was_killed_with_its_guard() {
    let env = Env::new();
    let client = env.client();
    client.run("echo one");
    let socket = wait_until("there is a control socket", || {
        crate::support::state_files::server_files(&env, "control.sock").pop()
    });
    let server = client.server_pid();
    send_signal("STOP", client.pid());
    send_signal("KILL", server);
    client.signal("KILL");
    client.wait_exit(PATIENCE);
    let stale = wait_until("the server is gone", || {
        let doctor = ran(&env, &["doctor"]);
        assert_eq!(doctor.code, 0, "{doctor:?}");
        let text = doctor.text();
        text.lines().find(|line| line.contains("control socket:")).map(str::to_owned)
    });
    assert!(stale.starts_with("warning  "), "{stale}");
    assert!(stale.contains(&socket.display().to_string()), "{stale}");
    let next = env.client();
    next.run("echo two");
    wait_until("the next server removes it", || (!socket.exists()).then_some(()));
}

// doctor, config, completions

#[test]
fn doctor_finds_a_healthy_place_healthy() {
    let env = Env::new();
    let finished = ran(&env, &["doctor"]);
    let text = finished.text();
    assert_eq!(finished.code, 0, "{text}");
    for what in ["shell:", "pidfd:", "state directory:", "terminal:", "self-check:"] {
        let line = text.lines().find(|line| line.contains(what));
        assert!(line.is_some_and(|line| line.starts_with("ok ")), "{what} {text}");
    }
    let left: Vec<_> = fs::read_dir(env.path("state"))
        .expect("the state directory")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    assert_none_left(env.mark());
}

#[test]
fn doctor_names_a_missing_shell_and_the_mend() {
    let env = Env::new();
    let mut command = zsh_tool(&env, &["doctor"]);
    command.env("PATH", "/nonexistent");
    let finished = run(command);
    assert_eq!(finished.code, 1);
    let text = finished.text();
    let shell = text.lines().find(|line| line.contains("shell:"));
    assert!(
        shell.is_some_and(|line| line.starts_with("error ") && line.contains("→ install zsh")),
        "{text}"
    );
    assert!(text.contains("error    self-check:"), "{text}");
}

#[test]
fn doctor_repeats_what_is_wrong_with_the_configuration() {
    let env = Env::new();
    env.configure("max_task: 3\n");
    let finished = ran(&env, &["doctor"]);
    assert_eq!(finished.code, 0);
    let text = finished.text();
    let line = text.lines().find(|line| line.contains("max_tasks?"));
    assert!(line.is_some_and(|line| line.starts_with("warning ")), "{text}");
}

#[test]
fn config_shows_each_value_and_its_source() {
    let env = Env::new();
    env.configure("max_tasks: 3\ncolour: blue\n");
    let mut command = zsh_tool(&env, &["config"]);
    command.env("NEVERHANG_TIMEOUT_MAX", "300");
    let finished = run(command);
    assert_eq!(finished.code, 0);
    let text = finished.text();
    let row = |key: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|words| words.first() == Some(&key))
            .unwrap_or_else(|| panic!("{key} is missing: {text}"))
            .join(" ")
    };
    assert_eq!(row("timeout_max"), "timeout_max 300 s $NEVERHANG_TIMEOUT_MAX");
    assert_eq!(row("yield_after"), "yield_after 2 s default");
    assert!(row("max_tasks").starts_with("max_tasks 3 "), "{text}");
    assert!(row("max_tasks").ends_with("config.yaml:1"), "{text}");
    assert!(row("state_dir").ends_with("$ZSH_TOOL_STATE_DIR"), "{text}");
    assert!(finished.stderr.contains("colour: unknown setting"), "{}", finished.stderr);
}

#[test]
fn completions_name_the_commands() {
    let env = Env::new();
    for shell in ["zsh", "bash", "fish"] {
        let finished = ran(&env, &["completions", shell]);
        assert_eq!(finished.code, 0, "{shell}");
        assert!(finished.text().contains("doctor"), "{shell}");
    }
}

#[test]
fn the_manual_page_tells_of_every_command_and_man_reads_it_without_complaint() {
    let env = Env::new();
    let page = ran(&env, &["man"]);
    assert_eq!(page.code, 0, "{}", page.stderr);
    let file = env.path("zsh-tool.1");
    fs::write(&file, page.text()).expect("a file for the page");
    let mut man = env.command("man");
    man.args(["--warnings", "-l"]).arg(&file);
    man.env("MANWIDTH", "100");
    let shown = run(man);
    assert_eq!(shown.stderr, "");
    let text = shown.text();
    for wanted in [
        "A shell for AI agents",
        "   zsh-tool exec\n",
        "   zsh-tool alan forget\n",
        "--timeout SECONDS\n",
        "-f, --follow\n",
        "config.yaml",
    ] {
        assert!(text.contains(wanted), "{wanted:?} in {text}");
    }
    let hidden = ["--guarded", "zsh-tool man\n"];
    assert!(!hidden.iter().any(|name| text.contains(name)), "{text}");
    // Every command of --help.
    let help = ran(&env, &["--help"]).text();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let mut commands = commands.map_while(|line| line.split_whitespace().next());
    let told = |command| text.contains(&format!("zsh-tool {command}"));
    assert!(commands.all(|command| command == "help" || told(command)), "{text}");
}

#[test]
fn nobody_reading_is_no_panic() {
    let env = Env::new();
    for command in ["config", "completions zsh", "man", "doctor", "--help"] {
        let mut shell = env.command("sh");
        let word = unique_word();
        // The pipe's reader is gone before the first byte is written.
        let script = format!(
            r#"mkfifo {word}; sh -c ': < {word}' & exec 3> {word}; wait; "$0" {command} >&3 2>&1"#
        );
        shell.args(["-c", &script]).arg(binary());
        let finished = run(shell);
        assert_ne!(finished.code, 101, "{command}: {}", finished.stderr);
    }
}
