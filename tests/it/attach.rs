//! `zsh-tool attach`: a person in a real terminal (tmux) takes the terminal of a task.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::{Client, send_signal};
use crate::support::env::{Env, unique_word};
use crate::support::processes::{
    Found, UniqueSleep, assert_none_left, guards_and_guarded, processes_with, wait_until,
};
use crate::support::program::ran;
use crate::support::result::ToolResult;
use crate::support::state_files::server_files;
use crate::support::tmux::Window;
use crate::support::unprivileged;

const HINT: &str = "C-] detaches";

/// A task once other processes can know of it.
fn task(env: &Env, client: &Client, command: &str, more: Value) -> String {
    let mut arguments = json!({"command": command, "background": true});
    for (name, value) in more.as_object().expect("arguments") {
        arguments[name] = value.clone();
    }
    let task = client.call("zsh", arguments).task_id();
    wait_until("other processes can know of it", || {
        let files = server_files(env, &format!("{task}.json"));
        files.first()?.with_file_name("control.sock").exists().then_some(())
    });
    task
}

fn on_terminal(env: &Env, client: &Client, command: &str) -> String {
    task(env, client, command, json!({"pty": true}))
}

/// The processes of `zsh-tool attach`, without those that restore terminals.
fn attached(env: &Env) -> Vec<Found> {
    let is_attached = |process: &Found| process.arguments.contains("zsh-tool attach");
    let mut found = processes_with(env.mark());
    // The shell of the window is no such process, though its command line may name it.
    found.retain(|process| is_attached(process) && !process.arguments.contains("tmux"));
    found
}

fn restorers(env: &Env) -> Vec<Found> {
    let mut found = processes_with(env.mark());
    found.retain(|process| process.arguments.contains("restore-terminal"));
    found
}

fn detach(window: &Window) {
    window.press("C-]");
    window.await_text("code=0");
}

/// Sends an empty line once the task's server has seen that the person who detached is gone.
fn send_after_person(client: &Client, task: &str) -> ToolResult {
    wait_until("the person has left", || {
        let sent = client.call("zsh_send", json!({"task_id": task, "input": ""}));
        (!sent.is_error).then_some(sent)
    })
}

#[test]
fn vim_is_drawn_typed_into_and_drawn_the_same_again() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&env, &client, "vim -u NONE -n -i NONE file");
    let window = Window::open(&env, 24, 80);
    window.zsh_tool(&format!("attach {}", &task[..5]));
    let shown = window.await_screen("the hint on the last line", |screen| {
        screen.lines().nth(23).is_some_and(|last| last.contains(HINT))
    });
    assert!(shown.contains(&task), "{shown}");
    window.type_text("ihello from a person");
    window.press("Escape");
    window.type_text("yypx");
    let first = window.await_screen("vim without the hint", |screen| {
        screen.contains("hello from a person\nello from a person\n~\n") && !screen.contains(HINT)
    });
    detach(&window);
    window.await_text(&format!("detached from task {task}"));
    let agent = client.poll(&task, json!({"screen": true}));
    assert!(agent.output().contains("hello from a person"), "{}", agent.text);

    window.zsh_tool(&format!("attach {task}"));
    window.await_text(HINT);
    let again = window.await_screen("the same again", |screen| !screen.contains(HINT));
    assert_eq!(again, first);
    window.type_text(":wq");
    window.press("Enter");
    window.await_text("code=0");
    let text = fs::read_to_string(env.work().join("file")).expect("the file");
    assert_eq!(text, "hello from a person\nello from a person\n");
    assert!(window.screen().contains("✔ exit=0"), "{}", window.screen());
}

#[test]
fn python_answers_and_every_key_but_one_goes_to_it() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&env, &client, "PYTHON_HISTORY=/dev/null python3 -q");
    let window = Window::open(&env, 24, 80);
    window.zsh_tool(&format!("attach {task} --detach-key C-x"));
    window.await_text("C-x detaches");
    window.enter("print(6 * 7)");
    window.await_text("\n42\n");
    window.enter("input()");
    window.press("C-c");
    window.await_text("KeyboardInterrupt");
    window.press("C-x");
    window.await_text("code=0");
    client.kill_task(&task);
}

#[test]
fn htop_is_drawn_and_takes_its_keys() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&env, &client, "htop");
    let window = Window::open(&env, 24, 80);
    for _ in 0..2 {
        window.zsh_tool(&format!("attach {task}"));
        window.await_screen("all of htop", |screen| {
            ["Load average", "PID", "F10Quit"].iter().all(|part| screen.contains(part))
        });
        detach(&window);
    }
    window.zsh_tool(&format!("attach {task}"));
    window.await_text("F10Quit");
    window.press("q");
    window.await_text("code=0");
    assert!(window.screen().contains("✔ exit=0"), "{}", window.screen());
}

#[test]
fn a_build_keeps_its_colours() {
    let env = Env::new();
    let client = env.client();
    let pipes = [env.named_pipe("go"), env.named_pipe("on")];
    let makefile = "all: ; @printf '\\033[32mok\\033[0m one\\n'; read x < go; \
        printf '\\033[31mbad\\033[0m two\\n'; read x < on\n";
    fs::write(env.work().join("Makefile"), makefile).expect("a makefile");
    let task = on_terminal(&env, &client, "make");
    let window = Window::open(&env, 24, 80);
    window.zsh_tool(&format!("attach {task}"));
    window.await_text("ok one");
    fs::write(&pipes[0], "\n").expect("a reader");
    window.await_text("bad two");
    let shown = window.coloured_screen();
    for coloured in ["\x1b[32mok", "\x1b[31mbad"] {
        assert!(shown.contains(coloured), "{shown:?}");
    }
    detach(&window);
    window.zsh_tool(&format!("attach {task}"));
    window.await_text("bad two");
    assert!(window.coloured_screen().contains("\x1b[31mbad"), "{:?}", window.coloured_screen());
    fs::write(&pipes[1], "\n").expect("a reader");
    window.await_text("code=0");
}

#[test]
fn a_person_types_the_password_of_sudo() {
    let env = Env::new();
    let secret = unique_word();
    let rights = format!(
        "printf 'nobody ALL=(ALL) ALL\\nDefaults !lecture,use_pty\\n' > \"$1/sudoers\"
        chmod 440 \"$1/sudoers\"; mount --bind \"$1/sudoers\" /etc/sudoers
        sed \"s#^nobody:[^:]*:#nobody:$(openssl passwd -6 {secret}):#\" /etc/shadow > \"$1/shadow\"
        chmod 640 \"$1/shadow\"; mount --bind \"$1/shadow\" /etc/shadow"
    );
    let client = unprivileged::client_after(&env, &rights);
    let started = client.call(
        "zsh",
        json!({"command": "sudo -k; sudo sh -c 'id -un'; read", "pty": true, "yield_after": 40}),
    );
    let task = started.task_id();
    assert!(started.text.contains("⌨ WAITING FOR A PASSWORD"), "{}", started.text);
    let window = Window::open(&env, 24, 80);
    let program = env.path("zsh-tool");
    // The person's shell is where the server is: what the server's mounts do not confine.
    let user = format!(
        "nsenter --mount --target {} setpriv --reuid=65534 --regid=65534 --clear-groups",
        client.server_pid()
    );
    window.enter(&format!("{user} {} attach {task}; echo code=$?", program.display()));
    window.await_text("password for nobody:");
    window.enter(&secret);
    window.await_text("\nroot\n");
    assert!(!window.screen().contains(&secret), "{}", window.screen());
    detach(&window);
    let polled = client.poll(&task, json!({"full_output": true}));
    assert!(polled.output().contains("root"), "{}", polled.text);
    client.kill_task(&task);
    assert_eq!(is_kept(&env.path("state"), &secret), None);
    assert_eq!(is_kept(&env.path("home"), &secret), None);
}

/// A prompt as sudo's: nothing that is typed is shown.
fn asks_for(word: &str) -> String {
    format!(
        "stty -echo; print -n 'Password: '; read answer; stty echo; print; \
         [[ $(print -rn -- $answer | md5sum) = $(cat sum)* ]] && print welcome; read; print {word}"
    )
}

/// Whether a file below the directory contains the word.
fn is_kept(directory: &Path, word: &str) -> Option<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return is_kept(&path, word);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes()).then_some(path)
    })
}

#[test]
fn a_person_answers_a_password_prompt_that_no_tool_answers_meanwhile() {
    for detached in [false, true] {
        let env = Env::new();
        env.configure("log: trace\n");
        let secret = unique_word();
        let mut sum = env.command("sh");
        sum.args(["-c", "printf %s \"$1\" | md5sum | cut -c 1-32 > sum", "sh", &secret]);
        assert!(sum.status().expect("md5sum").success());
        let client = env.client();
        let command = asks_for("over");
        let started = client.call(
            "zsh",
            json!({"command": command, "pty": true, "detach": detached, "yield_after": 40}),
        );
        let task = started.task_id();
        let waits = wait_until("a password is awaited", || {
            let poll = client.poll(&task, json!({"listen": 1}));
            poll.text.contains("⌨ WAITING FOR A PASSWORD").then_some(poll)
        });
        let line = format!("\nA person can answer: zsh-tool attach {task}");
        assert!(waits.text.contains(&line), "{}", waits.text);
        assert!(!waits.text.contains("Answer it with zsh_send"), "{}", waits.text);
        let suggestion = &waits.meta["poll_meta"]["suggestion"];
        assert_eq!(*suggestion, json!(line.trim()), "{}", waits.meta);
        wait_until("other processes know it", || {
            ran(&env, &["tasks"]).text().contains("waits for password").then_some(())
        });

        let window = Window::open(&env, 24, 80);
        window.zsh_tool("attach");
        window.await_text(HINT);
        window.await_text("Password:");
        let refused = client.call("zsh_send", json!({"task_id": task, "input": "x"}));
        assert!(refused.is_error, "{}", refused.text);
        let why = "a person has been attached to this terminal for ";
        assert!(refused.text.contains(why), "{}", refused.text);
        assert!(refused.text.ends_with("s: poll, or wait"), "{}", refused.text);
        let sizes = json!({"task_id": task, "rows": 10, "cols": 40});
        assert!(client.call("zsh_send", sizes).is_error);
        // The prompt does not end the wait: the person answers it.
        let wait = client
            .call_async("zsh_poll", json!({"task_id": task, "until": "welcome", "listen": 25}));
        let polled = client.poll(&task, json!({"listen": 1, "wait_for": "end"}));
        assert!(polled.text.contains("◷ person attached"), "{}", polled.text);
        assert!(!polled.text.contains("A person can answer"), "{}", polled.text);
        wait_until("the list names the person", || {
            ran(&env, &["tasks"]).text().contains("person attached").then_some(())
        });
        window.enter(&secret);
        window.await_text("welcome");
        let welcomed = wait.tool_result();
        assert!(welcomed.text.contains("welcome"), "{}", welcomed.text);
        detach(&window);
        window.zsh_tool(&format!("attach {task}"));
        window.await_text("welcome");
        assert!(!window.screen().contains(&secret), "{}", window.screen());
        detach(&window);

        let sent = send_after_person(&client, &task);
        assert!(sent.text.contains("over"), "{}", sent.text);
        let all = client.poll(&task, json!({"full_output": true}));
        assert!(!all.text.contains(&secret), "{}", all.text);
        for kept in [env.path("state"), env.path("home")] {
            assert_eq!(is_kept(&kept, &secret), None);
        }
        assert_eq!(is_kept(&env.path("."), &secret), None);
    }
}

#[test]
fn the_terminal_has_the_size_of_the_last_person_and_then_the_agents_again() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&env, &client, "while read; do stty size; done");
    let first = Window::open(&env, 20, 70);
    let second = Window::open(&env, 30, 100);
    first.zsh_tool(&format!("attach {task}"));
    first.await_text(HINT);
    first.press("Enter");
    first.await_text("20 70");
    second.zsh_tool(&format!("attach {task}"));
    second.await_text(HINT);
    second.press("Enter");
    first.await_text("30 100");
    second.await_text("30 100");
    // Having its hint removed is no new size.
    first.await_screen("no hint", |screen| !screen.contains(HINT));
    second.press("Enter");
    second.await_screen("the size of the second", |screen| screen.matches("30 100").count() > 1);
    first.type_text("seen by both");
    second.await_text("seen by both");
    second.press("Enter");
    detach(&second);
    first.press("Enter");
    first.await_screen("the size of the first", |screen| screen.matches("20 70").count() > 1);
    first.resize(22, 60);
    wait_until("the size is followed", || {
        first.press("Enter");
        first.screen().contains("22 60").then_some(())
    });
    assert!(client.call("zsh_send", json!({"task_id": task, "input": ""})).is_error);
    detach(&first);
    let sent = send_after_person(&client, &task);
    let polled = client.poll(&task, json!({"until": "24 80", "listen": 20}));
    assert!(format!("{}{}", sent.text, polled.text).contains("24 80"), "{}", polled.text);
    assert!(!polled.text.contains("person attached"), "{}", polled.text);
    client.kill_task(&task);
}

#[test]
fn the_terminal_is_restored_when_either_end_is_killed() {
    for victim in ["client", "client by TERM", "server", "shim"] {
        let env = Env::new();
        let client = env.client();
        let more = json!({"pty": true, "detach": victim == "shim"});
        let task = task(&env, &client, "vim -u NONE -n -i NONE file", more);
        let window = Window::open(&env, 24, 80);
        let before = window.settings();
        window.zsh_tool_below("mine", &format!("attach {task}"));
        let shown = window.await_text(HINT);
        assert!(!shown.contains("mine"), "{shown}");
        assert_ne!(window.settings(), before, "raw");
        assert_eq!(restorers(&env).len(), 1);
        match victim {
            "client" => {
                let [person] = &attached(&env)[..] else { panic!("{:?}", attached(&env)) };
                send_signal("KILL", person.pid);
            }
            "client by TERM" => {
                let [person] = &attached(&env)[..] else { panic!("{:?}", attached(&env)) };
                send_signal("TERM", person.pid);
                window.await_text("code=143");
            }
            "server" => client.kill_server(),
            _ => {
                let (_, mut shims) = guards_and_guarded(env.mark(), "shim");
                send_signal("KILL", shims.pop().expect("a shim").pid);
            }
        }
        if matches!(victim, "server" | "shim") {
            window.await_text("code=1");
            window.await_screen("what has happened", |screen| {
                screen.contains("the connection to the server of task")
            });
        }
        wait_until("the settings are back", || (window.settings() == before).then_some(()));
        wait_until("the restorer is gone", || restorers(&env).is_empty().then_some(()));
        window.enter("echo still here");
        let shown = window.await_text("\nstill here\n");
        assert!(shown.starts_with("mine\n") && !shown.contains("~\n~"), "{victim}: {shown}");
        if victim.starts_with("client") {
            wait_until("the person has left", || {
                let text = client.poll(&task, json!({"listen": 0})).text;
                (!text.contains("person attached")).then_some(())
            });
            client.kill_task(&task);
        }
        drop(window);
        client.close_stdin();
        client.wait_exit(Duration::from_secs(20));
        assert_none_left(env.mark());
    }
}

#[test]
fn a_person_gets_the_own_screen_back_with_the_last_lines_of_a_line_program() {
    let env = Env::new();
    let client = env.client();
    let pipe = env.named_pipe("go");
    let lines = "print -l line-{01..30}; read x < go; print over";
    let line_program = on_terminal(&env, &client, lines);
    let editor = on_terminal(&env, &client, "print before; vim -u NONE -n -i NONE file; read");
    let window = Window::open(&env, 24, 80);
    window.zsh_tool_below("mine", &format!("attach {line_program}"));
    window.await_text(HINT);
    window.resize(20, 70);
    let shown = window.await_text("line-30");
    assert!(!shown.contains("mine"), "{shown}");
    detach(&window);
    let shown = window.screen();
    let last: Vec<String> = (21..=30).map(|number| format!("line-{number}\n")).collect();
    let told = format!("mine\n{}detached from task {line_program}\n", last.concat());
    assert!(shown.starts_with(&told), "{shown}");

    window.zsh_tool_below("mine", &format!("attach {editor}"));
    window.await_text("\n~\n~\n");
    window.type_text(":q");
    window.press("Enter");
    // The editor gives back the task's own screen.
    window.await_screen("what was before the editor", |screen| {
        screen.contains("before") && !screen.contains("\n~\n~\n")
    });
    window.press("Enter");
    let shown = window.await_text("code=0");
    assert!(shown.starts_with("mine\nbefore\n") && !shown.contains("\n~\n~\n"), "{shown}");

    window.zsh_tool_below("mine", &format!("attach {line_program}"));
    window.await_text(HINT);
    fs::write(&pipe, "\n").expect("a reader");
    let shown = window.await_text("code=0");
    assert!(shown.starts_with("mine\n") && shown.contains("line-30\nover\n"), "{shown}");
    assert!(shown.contains("✔ exit=0"), "{shown}");
}

#[test]
fn the_end_of_the_task_is_the_end_with_its_status_line_and_exit_code() {
    for detached in [false, true] {
        let env = Env::new();
        let client = env.client();
        let more = json!({"pty": true, "detach": detached});
        let task = task(&env, &client, "read; print last words; exit 7", more);
        let window = Window::open(&env, 24, 80);
        let before = window.settings();
        window.zsh_tool(&format!("attach {task}"));
        window.await_text(HINT);
        window.press("Enter");
        let shown = window.await_text("code=7");
        assert!(shown.contains("last words") && shown.contains("✘ exit=7"), "{shown}");
        assert!(!shown.contains(HINT), "{shown}");
        assert_eq!(window.settings(), before);
        let end = client.poll_to_end(&task);
        assert_eq!(end.status(), "failed", "the agent hears of it: {}", end.text);
        window.zsh_tool(&format!("attach {task}"));
        window.await_text("has ended");
        window.await_text("code=1");
    }
}

#[test]
fn an_open_pipe_takes_lines_and_a_task_without_input_is_watched() {
    let env = Env::new();
    let client = env.client();
    let lines = task(&env, &client, "seq 300; cat", json!({"stdin_open": true}));
    let window = Window::open(&env, 24, 80);
    window.zsh_tool(&format!("attach {lines}"));
    window.await_text("\n300\n");
    window.enter("from a person");
    window.await_screen("echo and reply", |screen| screen.matches("from a person").count() == 2);
    assert!(client.call("zsh_send", json!({"task_id": lines, "input": "x"})).is_error);
    window.press("C-]");
    window.press("Enter");
    window.await_text("code=0");
    window.zsh_tool(&format!("attach {lines}"));
    window.await_text("\nfrom a person\n");
    window.press("C-d");
    window.await_text("✔ exit=0");

    let watched = task(&env, &client, "print seen; read < go; sleep 300", json!({}));
    window.zsh_tool(&format!("attach {watched}"));
    window.await_text("takes no input, you only watch it");
    window.await_text("\nseen\n");
    let refused = client.call("zsh_send", json!({"task_id": watched, "input": "x"}));
    assert!(refused.text.contains("has no stdin"), "{}", refused.text);
    let killed = client.kill_task(&watched);
    assert!(killed.text.contains("no survivors"), "{}", killed.text);
    window.await_text("KILLED");
}

#[test]
fn stderr_that_is_apart_is_seen_among_the_output() {
    let env = Env::new();
    let client = env.client();
    let command = "print before >&2; cat; print -u2 after; exit 4";
    let task = task(&env, &client, command, json!({"stdin_open": true, "stderr": "separate"}));
    let window = Window::open(&env, 24, 80);
    window.zsh_tool(&format!("attach {task}"));
    window.await_text("\nbefore\n");
    window.enter("typed");
    window.await_screen("echo and reply", |screen| screen.matches("typed").count() == 2);
    window.press("C-d");
    window.await_text("\nafter\n");
    window.await_text("exit=4");
}

#[test]
fn who_only_watches_types_nothing_and_hinders_no_tool() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&env, &client, "cat");
    let window = Window::open(&env, 30, 100);
    window.zsh_tool(&format!("attach {task} --read-only"));
    window.await_text("watching task");
    window.enter("not typed");
    let sent = client.call("zsh_send", json!({"task_id": task, "input": "by the agent"}));
    assert!(sent.text.contains("by the agent"), "{}", sent.text);
    assert!(!sent.text.contains("person attached"), "{}", sent.text);
    let shown = window.await_text("by the agent");
    assert!(!shown.contains("not typed"), "{shown}");
    detach(&window);
    client.kill_task(&task);
}

#[test]
fn a_person_detaches_while_neither_the_program_nor_the_server_reads_a_long_paste() {
    let env = Env::new();
    let client = env.client();
    let paste = env.path("paste");
    fs::write(&paste, "x".repeat(6 << 20)).expect("a file");
    let sleep = UniqueSleep::new();
    let task = on_terminal(&env, &client, &format!("stty raw -echo; print ready; {sleep}"));
    sleep.wait_for(1);
    let window = Window::open(&env, 24, 80);
    let before = window.settings();
    for is_frozen in [false, true] {
        window.zsh_tool(&format!("attach {task}"));
        window.await_text(HINT);
        if is_frozen {
            send_signal("STOP", client.server_pid());
        }
        window.paste(&paste);
        window.press("C-]");
        window.await_text("code=0");
        assert_eq!(window.settings(), before);
        send_signal("CONT", client.server_pid());
        wait_until("the person has left", || {
            let poll = client.poll(&task, json!({"listen": 0}));
            (!poll.text.contains("person attached")).then_some(())
        });
    }
    drop(window);
    client.kill_task(&task);
}

/// Attaches without a terminal.
fn connect(env: &Env, task: &str) -> UnixStream {
    let file = server_files(env, &format!("{task}.json")).remove(0);
    let mut stream = UnixStream::connect(file.with_file_name("control.sock")).expect("a socket");
    let params = json!({"task_id": task, "size": {"rows": 24, "cols": 80}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "zsh-tool/attach", "params": params});
    writeln!(stream, "{request}").expect("room");
    stream
}

#[test]
fn a_person_who_does_not_read_delays_nothing_and_is_dropped() {
    let env = Env::new();
    let client = env.client();
    let pipe = env.named_pipe("go");
    let command = "print begun; read -r < go; seq 300000; print all; cat";
    let task = on_terminal(&env, &client, command);
    let mut deaf = connect(&env, &task);
    wait_until("the person is attached", || {
        let poll = client.poll(&task, json!({"listen": 0}));
        poll.text.contains("person attached").then_some(())
    });
    fs::write(pipe, "\n").expect("a reader");
    let polled = client.poll(&task, json!({"until": "^all", "listen": 25}));
    assert!(polled.output().contains("all"), "{}", polled.text);
    wait_until("the person is dropped", || {
        let sent = client.call("zsh_send", json!({"task_id": task, "input": "agent"}));
        (!sent.is_error).then_some(())
    });
    let mut seen = Vec::new();
    deaf.read_to_end(&mut seen).expect("the end of the connection");
    client.kill_task(&task);
}

/// Is attached for so long without a word.
pub fn silent_attachment_stays(time: Duration) {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&env, &client, "print seen; cat");
    let mut stream = connect(&env, &task);
    stream.set_read_timeout(Some(time)).expect("a socket");
    let mut end = Ok(1);
    while matches!(end, Ok(1..)) {
        end = stream.read(&mut [0; 4096]);
    }
    assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock), "it was closed");
    let kept = client.poll(&task, json!({"listen": 0}));
    assert!(kept.text.contains("person attached"), "{}", kept.text);
    client.kill_task(&task);
}

#[test]
fn without_a_terminal_a_task_or_a_known_key_it_says_what_to_do() {
    let env = Env::new();
    let client = env.client();
    let task = on_terminal(&env, &client, "sleep 300");
    let refused = ran(&env, &["attach", &task]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("needs a terminal"), "{refused:?}");
    let usage = ran(&env, &["attach", &task, "--detach-key", "Nonsense"]);
    assert_eq!(usage.code, 2, "{usage:?}");
    let on_stdin = client.request("zsh-tool/attach", json!({"task_id": task})).wait();
    assert_eq!(on_stdin["error"]["code"], json!(-32601), "{on_stdin}");
    let window = Window::open(&env, 24, 120);
    send_signal("STOP", client.server_pid());
    window.zsh_tool(&format!("attach {task}"));
    window.await_text("has not answered for 5 s: it is stopped");
    window.await_text("code=1");
    send_signal("CONT", client.server_pid());
    window.zsh_tool("attach");
    let shown = window.await_text("no task waits for input: name the task");
    assert!(shown.contains(&task), "{shown}");
    client.kill_task(&task);
}
