//! At each limit, the tool's or the system's: a clear answer, the server lives, and the
//! next call works.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, binary, copy_program};
use crate::support::processes::{UniqueSleep, memory_kib, wait_until};
use crate::support::state_files::server_files;

#[test]
fn the_task_above_the_limit_is_refused_and_the_oldest_are_named() {
    const LIMIT: usize = 64;
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let command = sleep.to_string();
    let tasks: Vec<String> = (0..LIMIT).map(|_| client.start_task(&command)).collect();
    let refused = client.run("echo one more");
    assert!(refused.is_error, "{}", refused.text);
    for word in ["64", "max_tasks", "zsh_kill", &tasks[0], &tasks[1]] {
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
    client.ping();
    client.kill_task(&tasks[5]);
    assert_eq!(client.run("echo one more").output(), "one more");
    // What a command left running is none of the running.
    let left = client.run(&format!("setsid -f {sleep} >/dev/null 2>&1; echo left"));
    assert_eq!(left.output(), "left");
    assert_eq!(client.run("echo one more").output(), "one more");
}

#[test]
fn the_call_above_the_limit_is_told_so_and_the_others_go_on() {
    const LIMIT: usize = 64;
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let task = client.start_task(&sleep.to_string());
    let wait = json!({"task_id": task, "wait_for": "end", "listen": 50});
    let polls: Vec<_> = (0..LIMIT).map(|_| client.call_async("zsh_poll", wait.clone())).collect();
    client.ping();
    let refused = client.call("zsh_poll", wait.clone());
    assert!(refused.is_error, "{}", refused.text);
    assert!(refused.text.contains("64 calls"), "{}", refused.text);
    client.cancel(&polls[0]);
    wait_until("there is room again", || {
        let killed = client.kill_task(&task);
        (!killed.is_error).then_some(())
    });
    for poll in polls.into_iter().skip(1) {
        assert_eq!(poll.tool_result().status(), "killed");
    }
    client.assert_only_frames();
}

#[test]
fn descriptors_that_run_out_are_named_and_killing_goes_on() {
    let env = Env::new();
    let client = started(&env, "ulimit -n 60; exec \"$0\" serve");
    let sleep = UniqueSleep::new();
    let command = format!("setsid -f {sleep}; {sleep}");
    let mut tasks = Vec::new();
    let refused = loop {
        let result = client.call("zsh", json!({"command": command, "yield_after": 0}));
        if result.is_error {
            break result;
        }
        tasks.push(result.task_id());
        assert!(tasks.len() < 60, "sixty descriptors never run out");
    };
    assert!(!tasks.is_empty(), "{}", refused.text);
    assert!(
        refused.text.contains("descriptor") && refused.text.contains("ulimit -n"),
        "{}",
        refused.text
    );
    sleep.wait_for(2 * tasks.len());
    for task in &tasks {
        let polled = client.poll(task, json!({"listen": 0}));
        assert_eq!(polled.status(), "running", "{}", polled.text);
    }
    for task in &tasks {
        let receipt = client.kill_all_of(task);
        assert_eq!(receipt.status(), "killed", "{}", receipt.text);
    }
    sleep.assert_gone();
    let next = client.run("echo next");
    assert_eq!(next.output(), "next", "{}", next.text);
}

#[test]
fn a_tree_of_more_processes_than_descriptors_is_ended() {
    const CHILDREN: usize = 100;
    let env = Env::new();
    let client = started(&env, "ulimit -n 60; exec \"$0\" serve");
    let sleep = UniqueSleep::new();
    let task = client.start_task(&format!("repeat {CHILDREN} do {sleep} & done; wait"));
    sleep.wait_for(CHILDREN);
    let receipt = client.kill_task(&task);
    let signalled = &receipt.meta["signalled"];
    assert_eq!(*signalled, json!(CHILDREN + 1), "{}", receipt.text);
    let survivors = receipt.meta["survivors"].as_array().map(Vec::len);
    let gone = survivors.map(|survivors| CHILDREN + 1 - survivors);
    assert_eq!(receipt.meta["gone"], json!(gone), "{}", receipt.text);
    client.kill_all_of(&task);
    sleep.assert_gone();
}

#[test]
fn a_refused_fork_is_named_and_the_next_command_runs() {
    let env = Env::new();
    // The limit counts the processes of a user, and root has none: another user's id,
    // which nothing else on the machine has.
    let id = unused_user();
    let program = allow_others(&env, id);
    let start = format!("exec setpriv --reuid={id} --clear-groups prlimit --nproc=24 \"$0\" serve");
    let client = started_from(&env, &start, program);
    let mut tasks = Vec::new();
    let refused = loop {
        let result = client.call("zsh", json!({"command": "exec sleep 98765", "yield_after": 0}));
        if result.is_error {
            break result;
        }
        tasks.push(result.task_id());
        assert!(tasks.len() < 24, "twenty-four processes never run out");
    };
    assert!(!tasks.is_empty(), "{}", refused.text);
    eprintln!("{}", refused.text);
    // It may be the shell that is refused, or a thread for the worker or for the call.
    let of_a_process = refused.text.contains("the system refuses more processes (EAGAIN)");
    let of_a_thread = refused.text.contains("cannot start a ")
        && refused.text.contains("Resource temporarily unavailable");
    assert!(of_a_process || of_a_thread, "{}", refused.text);
    client.ping();
    for task in tasks.iter().take(3) {
        wait_until("there is room for the kill", || {
            let receipt = client.kill_task(task);
            (!receipt.is_error).then_some(())
        });
    }
    let next = client.run("echo next");
    assert_eq!(next.output(), "next", "{}", next.text);
}

#[test]
fn without_zsh_bash_takes_its_place_and_then_sh_and_each_is_said() {
    let env = Env::new();
    for (shell, statuses) in [("bash", json!([1, 0])), ("sh", json!([]))] {
        let programs = env.path(&format!("only_{shell}"));
        fs::create_dir(&programs).expect("a folder");
        for name in [shell, "true", "false", "kill", "sleep", "mkfifo", "rm"] {
            let found = program(name);
            symlink(found, programs.join(name)).expect("a link");
        }
        let mut command = env.serve();
        command.env("PATH", &programs);
        let client = Client::start(command, env.path("stderr"));
        client.initialize();
        let result = client.run("echo hi; false | true");
        assert_eq!(result.output(), "hi", "{}", result.text);
        assert_eq!(result.meta["pipestatus"], statuses, "{}", result.text);
        let footer = result.footer();
        let warning = footer.lines().find(|line| line.starts_with('⚠'));
        assert!(warning.is_some_and(|line| line.contains(shell)), "{footer}");
        assert_eq!(client.run("exit 7").meta["exit_code"], json!(7));
        let long = format!(": {}; exit 5", "x".repeat(200_000));
        assert_eq!(client.run(&long).meta["exit_code"], json!(5), "{shell}");
        let health = client.call("zsh_health", json!({}));
        assert!(health.text.contains("zsh was not found"), "{}", health.text);
    }
}

#[test]
fn without_any_shell_the_error_says_what_to_do() {
    let env = Env::new();
    fs::create_dir(env.path("empty")).expect("a folder");
    let mut command = env.serve();
    command.env("PATH", env.path("empty"));
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    let refused = client.run("echo hi");
    assert!(refused.is_error, "{}", refused.text);
    assert!(refused.text.contains("no shell found"), "{}", refused.text);
    assert!(refused.text.contains("install zsh"), "{}", refused.text);
    assert!(!refused.text.contains("exit="), "{}", refused.text);
    client.ping();
}

#[test]
fn a_shell_that_cannot_run_is_an_error_and_leaves_no_script() {
    let env = Env::new();
    let broken = env.path("zsh-broken");
    fs::write(&broken, "#!/no/such/interpreter\n").expect("a file");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).expect("its mode");
    env.configure(&format!("shell: {}\n", broken.display()));
    let client = env.client();
    for command in ["echo hi".to_owned(), format!(": {}", "x".repeat(200_000))] {
        let refused = client.run(&command);
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains("cannot start"), "{}", refused.text);
    }
    assert!(env.path("state/servers").is_dir());
    assert_eq!(server_files(&env, ".zsh"), Vec::<PathBuf>::new());
    let listed = client.call("zsh_tasks", json!({"all": true}));
    assert_eq!(listed.text, "no tasks");
}

#[test]
fn a_directory_that_cannot_be_entered_is_named() {
    let env = Env::new();
    let client = env.client();
    fs::write(env.work().join("file"), "").expect("a file");
    for (cwd, named) in
        [("no/such/dir", "no/such/dir"), ("file", "/file"), ("/dev/null", "/dev/null")]
    {
        let refused = client.call("zsh", json!({"command": "echo hi", "cwd": cwd}));
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains(named), "{}", refused.text);
        assert!(refused.text.contains("cwd"), "{}", refused.text);
    }
    // The project's own directory may go too.
    fs::remove_dir_all(env.work()).expect("the working directory");
    let refused = client.run("echo hi");
    assert!(refused.is_error, "{}", refused.text);
    assert!(refused.text.contains("/work"), "{}", refused.text);
    let elsewhere = json!({"command": "echo hi", "cwd": "/", "yield_after": 20});
    assert_eq!(client.call("zsh", elsewhere).output(), "hi");
}

#[test]
fn a_directory_of_another_user_is_named_and_not_the_shell() {
    let env = Env::new();
    let id = unused_user();
    let program = allow_others(&env, id);
    // Another user's, and nobody else may enter it.
    let closed = env.path("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
    let start = format!("exec setpriv --reuid={id} --clear-groups \"$0\" serve");
    let client = started_from(&env, &start, program);
    for pty in [false, true] {
        let refused = client.call("zsh", json!({"command": "echo hi", "cwd": &closed, "pty": pty}));
        assert!(refused.is_error, "{}", refused.text);
        for word in ["/closed", "cwd"] {
            assert!(refused.text.contains(word), "{word}: {}", refused.text);
        }
    }
}

#[test]
fn input_that_nobody_reads_any_more_is_refused_before_it_is_written() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    let arguments = json!({
        "command": format!("exec <&-; echo closed; {sleep}"),
        "stdin_open": true,
        "until": "closed",
        "yield_after": 20,
    });
    let task = client.call("zsh", arguments).task_id();
    let refused = client.call("zsh_send", json!({"task_id": task, "input": "hi"}));
    assert!(refused.is_error, "{}", refused.text);
    assert!(refused.text.contains("closed"), "{}", refused.text);
    client.kill_task(&task);
}

#[test]
fn the_shell_is_the_servers_whatever_path_a_call_gives_to_its_command() {
    let env = Env::new();
    let client = env.client();
    fs::create_dir(env.path("empty")).expect("a folder");
    let arguments = json!({
        "command": "print -r -- $PATH",
        "env": {"PATH": env.path("empty")},
        "yield_after": 20,
    });
    let result = client.call("zsh", arguments);
    assert_eq!(result.output(), env.path("empty").to_string_lossy());
    assert!(!result.footer().contains("not found"), "{}", result.text);
}

#[test]
fn a_server_whose_path_is_no_text_finds_its_shell() {
    use std::os::unix::ffi::OsStringExt;
    let env = Env::new();
    let mut path = b"/no/such/\xff:".to_vec();
    path.extend(std::env::var_os("PATH").expect("a PATH").into_encoded_bytes());
    let mut command = env.serve();
    command.env("PATH", std::ffi::OsString::from_vec(path));
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    let result = client.run("print -r -- $ZSH_NAME");
    assert_eq!(result.output(), "zsh", "{}", result.text);
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains("status     ok"), "{}", health.text);
}

#[test]
fn a_command_above_its_limit_is_refused_with_the_limit_and_its_key() {
    let env = Env::new();
    env.configure("max_command: 1024\n");
    let client = env.client();
    let fits = format!("echo hi; : {}", "x".repeat(1024 - 11));
    assert_eq!(fits.len(), 1024);
    assert_eq!(client.run(&fits).output(), "hi");
    let refused = client.run(&format!("{fits}x"));
    assert!(refused.is_error, "{}", refused.text);
    for word in ["1025", "1024", "max_command"] {
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
}

#[test]
fn of_the_finished_tasks_the_newest_stay() {
    let env = Env::new();
    env.configure("max_finished_tasks: 5\n");
    let client = env.client();
    let sleep = UniqueSleep::new();
    let running = client.start_until(&format!("echo up; {sleep}"), "up");
    let left = client.run(&format!("setsid -f {sleep} >/dev/null 2>&1; echo left")).task_id();
    let tasks: Vec<String> =
        (0..12).map(|number| client.run(&format!("echo {number}")).task_id()).collect();
    // The sixth of the finished goes when the next is started.
    client.run("true");
    for (number, task) in tasks.iter().enumerate() {
        let read = client.poll(task, json!({"full_output": true}));
        if number < 7 {
            assert!(read.is_error, "{number}: {}", read.text);
            let told = "has ended (completed, exit=0), and its output is no longer kept";
            assert!(read.text.contains(told), "{}", read.text);
            assert!(read.text.contains("max_finished_tasks"), "{}", read.text);
        } else if number > 8 {
            assert_eq!(read.output(), format!("1: {number}"));
        }
    }
    let alive = client.poll(&running, json!({"full_output": true}));
    assert_eq!(alive.output(), "1: up", "a running task is never evicted");
    let alive = client.poll(&left, json!({"full_output": true}));
    assert_eq!(alive.output(), "1: left", "nor one that left processes");
    client.kill_task(&running);
    client.kill_task(&left);
}

#[test]
fn the_end_of_the_oldest_task_is_answered_whole_while_others_end() {
    let env = Env::new();
    env.configure("max_finished_tasks: 10\n");
    let client = env.client();
    let command = "read -r line; seq 2000; echo $line";
    let open = json!({"command": command, "stdin_open": true, "yield_after": 0});
    let oldest: Vec<String> = (0..40).map(|_| client.call("zsh", open.clone()).task_id()).collect();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..400).for_each(|_| drop(client.run("true"))));
        }
        // Each is the first that may go as soon as its end counts as shown.
        for task in &oldest {
            let input = json!({"task_id": task, "input": "the last line", "listen": 25});
            let sent = client.call("zsh_send", input);
            let answer = match sent.status() {
                "running" => client.poll_to_end(task),
                _ => sent,
            };
            assert!(answer.output().ends_with("the last line"), "{}", answer.text);
            assert!(!answer.text.contains("quota"), "{}", answer.text);
        }
    });
}

#[test]
fn of_a_task_that_went_as_soon_as_it_ended_the_end_is_told() {
    let env = Env::new();
    env.configure("max_finished_tasks: 1\n");
    let client = env.client();
    thread::scope(|scope| {
        for _ in 0..6 {
            // They last until their files are written for the first time.
            scope.spawn(|| {
                for _ in 0..60 {
                    let task = client.run("sleep 0.02; echo done").task_id();
                    let polled = client.poll(&task, json!({"full_output": true}));
                    let told = "has ended (completed, exit=0), and its output is no longer kept";
                    let is_told = polled.text.contains(told) || polled.output() == "1: done";
                    assert!(is_told, "{}", polled.text);
                }
            });
        }
    });
    wait_until("only the files of the newest are left", || {
        // A task that a call still reads goes when the next one starts.
        client.run("true");
        (server_files(&env, ".json").len() <= 2).then_some(())
    });
}

#[test]
fn a_result_that_was_not_read_is_evicted_last() {
    let env = Env::new();
    env.configure("max_finished_tasks: 5\n");
    let client = env.client();
    let go = env.named_pipe("go");
    let unread = client.start_task("read line < go; echo $line; exit 4");
    fs::write(go, "unread\n").expect("a reader");
    wait_until("it has ended", || {
        let tasks = client.call("zsh_tasks", json!({"all": true}));
        tasks.text.contains("failed exit=4").then_some(())
    });
    let read: Vec<String> = (0..9).map(|_| client.run("echo read").task_id()).collect();
    let gone = client.poll(&read[0], json!({}));
    assert!(gone.text.contains("no longer kept"), "{}", gone.text);
    let kept = client.poll(&unread, json!({}));
    assert_eq!(kept.output(), "1: unread", "{}", kept.text);
    // Read by now, it is the oldest.
    client.run("true");
    client.run("true");
    let gone = client.poll(&unread, json!({}));
    assert!(gone.text.contains("no longer kept"), "{}", gone.text);
}

#[test]
fn finished_tasks_keep_no_descriptors_and_little_memory() {
    const TASKS: u64 = 250;
    let env = Env::new();
    let client = started(&env, "ulimit -n 100; exec \"$0\" serve");
    let run = || {
        let result = client.run("true");
        assert_eq!(result.status(), "completed", "{}", result.text);
    };
    // What the first ones load is no task's.
    for _ in 0..50 {
        run();
    }
    let server = client.server_pid();
    let before = memory_kib(server, "VmRSS");
    for _ in 0..TASKS {
        run();
    }
    let grown = memory_kib(server, "VmRSS").saturating_sub(before);
    assert!(grown < 12 * TASKS, "{grown} KiB for {TASKS} finished tasks");
}

#[test]
fn past_the_quota_of_all_spools_the_oldest_finished_go_first() {
    let env = Env::new();
    env.configure("spool_quota: 1048576\n");
    let client = env.client();
    let flood = "seq 1 60000";
    let tasks: Vec<String> = (0..5).map(|_| client.run(flood).task_id()).collect();
    let oldest = client.poll(&tasks[0], json!({"from_line": 60_000}));
    assert!(oldest.is_error, "{}", oldest.text);
    let newest = client.poll(&tasks[4], json!({"from_line": 60_000}));
    assert_eq!(newest.output(), "60000: 60000");
    // One task alone above it gives up its oldest bytes.
    let large = client.run("seq 1 400000");
    assert!(large.output().ends_with("\n400000"), "{}", large.text);
    assert!(large.footer().contains("are gone"), "{}", large.footer());
    let used = disk_bytes(&env);
    assert!(used <= 2 * 1_048_576, "{used} bytes on disk");
}

#[test]
fn a_request_above_its_limit_is_refused_and_the_next_is_answered() {
    let env = Env::new();
    let client = env.client();
    let stdin = "x".repeat(17 * 1024 * 1024);
    let params = json!({"name": "zsh", "arguments": {"command": "cat", "stdin": stdin}});
    let call = json!({"jsonrpc": "2.0", "id": "large", "method": "tools/call", "params": params});
    client.send_raw(format!("{call}\n").as_bytes());
    let refused = client.next_raw_response().value;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("16"), "{refused}");
    assert_eq!(client.run("echo next").output(), "next");
    // One just below it is taken whole.
    let stdin = "y".repeat(15 * 1024 * 1024);
    let arguments = json!({"command": "wc -c", "stdin": stdin, "yield_after": 25});
    let counted = client.call("zsh", arguments);
    assert_eq!(counted.output().trim(), (15 * 1024 * 1024).to_string());
}

#[test]
fn environments_that_the_kernel_does_not_take_are_an_error() {
    let env = Env::new();
    let client = env.client();
    let variables: Value = (0..40)
        .map(|number| (format!("V{number}"), json!("x".repeat(120_000))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (variables, word) in [
        (variables, "E2BIG"),
        (json!({"A=B": "c"}), "A=B"),
        (json!({"": "c"}), "env"),
        (json!({"N": "a\u{0}b"}), "\"N\""),
    ] {
        let refused = client.call("zsh", json!({"command": "echo hi", "env": variables}));
        assert!(refused.is_error, "{}", refused.text);
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
    assert_eq!(client.run("echo next").output(), "next");
}

/// A server that a shell starts, by `$0`.
fn started(env: &Env, script: &str) -> Client {
    started_from(env, script, binary())
}

fn started_from(env: &Env, script: &str, program: PathBuf) -> Client {
    let mut command = env.command("sh");
    command.args(["-c", script]).arg(program);
    let client = Client::start(command, env.path("stderr"));
    client.initialize();
    client
}

fn program(name: &str) -> PathBuf {
    std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
        .map(|folder| folder.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is not installed"))
}

/// Bytes of all files below the state directory.
fn disk_bytes(env: &Env) -> u64 {
    let servers = fs::read_dir(env.path("state/servers")).expect("the servers");
    servers
        .flatten()
        .filter_map(|server| fs::read_dir(server.path()).ok())
        .flatten()
        .flatten()
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// A user id that no account and no process has, another one at each call: this process's
/// own id tells runs of the tests apart that are made side by side.
fn unused_user() -> u32 {
    const CALLS: u32 = 64;
    static CALL: AtomicU32 = AtomicU32::new(0);
    let call = CALL.fetch_add(1, Ordering::Relaxed);
    assert!(call < CALLS, "these are another process's");
    1_000_000 + std::process::id() * CALLS + call
}

/// Hands the test's directories to another user, with a copy of the program, which may
/// lie where others cannot go.
fn allow_others(env: &Env, id: u32) -> PathBuf {
    let program = env.path("zsh-tool");
    copy_program(&binary(), &program);
    let root = env.path("");
    let given = Command::new("chown")
        .args(["-R", &id.to_string()])
        .arg(&root)
        .status()
        .expect("the chown program");
    assert!(given.success(), "this test changes its user: run it as root");
    program
}
