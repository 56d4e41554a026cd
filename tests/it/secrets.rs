//! Secrets that the user lists: typed by name, never shown, by whatever way they come
//! back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, unique_word};
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::program::{ran, run, zsh_tool};
use crate::support::result::ToolResult;
use crate::support::unprivileged;

/// Far above the time in which a waiting task is found.
const LONG: u32 = 25;

/// Reads a line with echo off, and prints it as the rest of the script says, in which it
/// is `word`.
fn reader(script: &str) -> String {
    format!(
        "python3 -uc '
import getpass, sys, time
word = getpass.getpass(\"Password: \")
out = sys.stdout
{script}
print(\"over\")
'"
    )
}

/// A server that has these secrets in its environment, in variables of their names, and
/// is configured so.
fn with_secrets(env: &Env, secrets: &[(&str, &str)]) -> Client {
    let listed: Vec<String> = secrets
        .iter()
        .map(|(name, _)| format!("  {name}: {{env: VARIABLE_{name}, programs: any}}\n"))
        .collect();
    env.configure(&format!("secrets:\n{}", listed.concat()));
    let mut serve = env.serve();
    for (name, value) in secrets {
        serve.env(format!("VARIABLE_{name}"), value);
    }
    started(env, serve)
}

fn started(env: &Env, mut serve: std::process::Command) -> Client {
    serve.env("ZSH_TOOL_LOG", "trace").env("ZSH_TOOL_LOG_FILE", env.path("log"));
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    client
}

/// Starts a command on a terminal and waits until it asks for a password.
fn asks(client: &Client, command: &str) -> String {
    let arguments = json!({"command": command, "pty": true, "yield_after": LONG});
    let result = client.call("zsh", arguments);
    assert_eq!(result.meta["waiting_for"], json!("password"), "{}", result.text);
    result.task_id()
}

fn send_secret(client: &Client, task: &str, name: &str) -> ToolResult {
    let arguments = json!({"task_id": task, "secret_env": name, "listen": LONG});
    client.call("zsh_send", arguments)
}

/// Waits until a task asks again.
fn asks_again(client: &Client, task: &str, kind: &str) {
    let asked = client.poll(task, json!({"wait_for": "end", "listen": LONG}));
    assert_eq!(asked.meta["waiting_for"], json!(kind), "{}", asked.text);
}

/// All output of a task, once it has ended.
fn whole(client: &Client, task: &str) -> String {
    let end = client.poll_to_end(task);
    assert_eq!(end.status(), "completed", "{}", end.text);
    client.poll(task, json!({"full_output": true})).without_numbers()
}

/// Looks for a secret in all that anybody could read of a server: its frames, its log,
/// its stderr, its files.
fn assert_nowhere(env: &Env, client: &Client, secret: &str) {
    let mut places: Vec<(String, Vec<u8>)> = client
        .frames()
        .iter()
        .map(|frame| ("a frame".to_owned(), frame.raw.clone().into_bytes()))
        .collect();
    for name in ["log", "stderr"] {
        let bytes = fs::read(env.path(name)).expect(name);
        places.push((name.to_owned(), bytes));
    }
    let state = files_below(&env.path("state"));
    assert!(state.len() > 1, "the server keeps files: {state:?}");
    places.extend(state);
    for arguments in [&["tasks", "--json"][..], &["tasks", "--all"], &["config"]] {
        let finished = ran(env, arguments);
        places.push((format!("{arguments:?}"), finished.stdout));
    }
    for (place, bytes) in places {
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{place}: {}", String::from_utf8_lossy(&bytes));
    }
}

fn files_below(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if let Ok(bytes) = fs::read(&path) {
            files.push((path.display().to_string(), bytes));
        }
    }
    files
}

#[test]
fn a_key_is_made_with_a_passphrase_that_nobody_sees() {
    let env = Env::new();
    let passphrase = format!("correct horse {}", unique_word());
    let client = with_secrets(&env, &[("KEY", &passphrase)]);
    let task = asks(&client, "ssh-keygen -t ed25519 -C comment -f key");
    send_secret(&client, &task, "KEY");
    // The end of the line that was typed may have been all of the reply.
    wait_until("it is asked for again", || {
        let all = client.poll(&task, json!({"full_output": true, "listen": 0}));
        all.text.contains("same passphrase").then_some(())
    });
    asks_again(&client, &task, "password");
    let made = send_secret(&client, &task, "KEY");
    assert!(!made.is_error, "{}", made.text);
    let output = whole(&client, &task);
    assert!(output.contains("has been saved"), "{output}");
    assert_nowhere(&env, &client, &passphrase);
    let opens = |passphrase: &str| {
        let mut command = env.command("ssh-keygen");
        command.args(["-y", "-P", passphrase, "-f", "key"]);
        run(command).code == 0
    };
    assert!(opens(&passphrase));
    assert!(!opens("another passphrase"));
}

#[test]
fn a_secret_that_is_printed_back_is_masked() {
    let env = Env::new();
    let secret = format!("s3cret'\"{}", unique_word());
    let client = with_secrets(&env, &[("WORD", &secret)]);
    for (script, expected) in [
        ("print(word)", "[secret WORD]"),
        ("print(\"a \" + word + \" in a line\")", "a [secret WORD] in a line"),
        (
            "out.write(\"<\" + word[:9]); out.flush(); out.write(word[9:] + \">\\n\")",
            "<[secret WORD]>",
        ),
        ("import json; print(json.dumps({\"word\": word}))", "{\"word\": \"[secret WORD]\"}"),
        (
            "import subprocess; subprocess.run([\"zsh\", \"-c\", \"print -r -- ${(q)1} ${(qq)1}\", \"-\", word])",
            "[secret WORD] '[secret WORD]'",
        ),
    ] {
        let task = asks(&client, &reader(script));
        let sent = send_secret(&client, &task, "WORD");
        assert!(!sent.is_error, "{}", sent.text);
        let output = whole(&client, &task);
        assert_eq!(output, format!("Password: \n{expected}\nover"), "{script}");
    }
    assert_nowhere(&env, &client, &secret);
    assert_nowhere(&env, &client, &unique_part(&secret));
}

/// The part of a secret that has no quotes in it.
fn unique_part(secret: &str) -> String {
    secret.chars().skip_while(|c| *c != '"').skip(1).collect()
}

#[test]
fn a_secret_in_two_halves_with_a_pause_between_is_masked() {
    let env = Env::new();
    let secret = unique_word();
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let halves = "out.write(word[:16]); out.flush(); time.sleep(0.7); print(word[16:])";
    let task = asks(&client, &reader(halves));
    send_secret(&client, &task, "WORD");
    assert_eq!(whole(&client, &task), "Password: \n[secret WORD]\nover");
    assert_nowhere(&env, &client, &secret[..16]);
}

#[test]
fn a_secret_that_comes_byte_by_byte_is_masked() {
    let env = Env::new();
    let secret = format!("Q~W~{}", unique_word());
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let bytewise = "for byte in word + word + \"\\n\": out.write(byte); out.flush()";
    let task = asks(&client, &reader(bytewise));
    send_secret(&client, &task, "WORD");
    let output = whole(&client, &task);
    assert_eq!(output.matches("[secret WORD]").count(), 2, "{output}");
    // Had the program been held up between two bytes, up to three would be there.
    assert_nowhere(&env, &client, &secret[..4]);
}

#[test]
fn a_prompt_that_ends_as_a_secret_begins_is_shown() {
    let env = Env::new();
    let secret = format!("> {}", unique_word());
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let task = asks(&client, &reader("input(\"name> \")"));
    send_secret(&client, &task, "WORD");
    asks_again(&client, &task, "input");
    wait_until("the whole prompt is shown", || {
        let all = client.poll(&task, json!({"full_output": true, "listen": 0}));
        all.without_numbers().ends_with("name> ").then_some(())
    });
    let answered = client.call("zsh_send", json!({"task_id": task, "input": "Ada"}));
    assert!(!answered.is_error, "{}", answered.text);
    assert!(whole(&client, &task).contains("name> Ada"));
}

#[test]
fn what_is_held_back_at_the_end_is_not_lost() {
    let env = Env::new();
    let secret = format!("beginning-{}", unique_word());
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let command = "read -s 'word?Password: '; print; print -n beginning-";
    let task = asks(&client, command);
    send_secret(&client, &task, "WORD");
    assert_eq!(whole(&client, &task), "Password: \nbeginning-");
}

#[test]
fn of_two_secrets_the_longest_gives_the_name() {
    let env = Env::new();
    let short = unique_word();
    let long = format!("{short}-and-more");
    let client = with_secrets(&env, &[("SHORT", &short), ("LONG", &long)]);
    let command = "read -s 'one?First: '; print; read -s 'two?Second: '; print; \
                   print \"$two $one ${two}x$one\"";
    let task = asks(&client, command);
    send_secret(&client, &task, "SHORT");
    asks_again(&client, &task, "password");
    send_secret(&client, &task, "LONG");
    let output = whole(&client, &task);
    let expected = "[secret LONG] [secret SHORT] [secret LONG]x[secret SHORT]";
    assert!(output.ends_with(expected), "{output}");
    assert_nowhere(&env, &client, &short);
}

#[test]
fn a_name_that_is_not_listed_tells_the_names_and_nothing_else() {
    let env = Env::new();
    let secret = unique_word();
    let client = with_secrets(&env, &[("LISTED", &secret)]);
    let task = asks(&client, &reader("print(len(word))"));
    for name in ["HOME", "VARIABLE_LISTED", " ", "listed", "../etc/passwd"] {
        let refused = send_secret(&client, &task, name);
        assert!(refused.is_error, "{name}: {}", refused.text);
        assert!(refused.text.contains("LISTED;"), "{}", refused.text);
        let home = env.path("home").display().to_string();
        assert!(!refused.text.contains(&home), "{}", refused.text);
        if name != "VARIABLE_LISTED" {
            assert!(!refused.text.contains("VARIABLE_"), "{}", refused.text);
        }
    }
    client.call("zsh_send", json!({"task_id": task, "input": "four"}));
    assert!(whole(&client, &task).contains("\n4\n"));
}

#[test]
fn nothing_is_typed_where_it_would_be_seen() {
    let env = Env::new();
    let secret = unique_word();
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let arguments = json!({"command": "cat", "pty": true, "yield_after": LONG});
    let task = client.call("zsh", arguments).task_id();
    let refused = send_secret(&client, &task, "WORD");
    assert!(refused.is_error, "{}", refused.text);
    for word in ["was not typed", "echo is on", "zsh_poll", "WORD"] {
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
    let sent = client.call("zsh_send", json!({"task_id": task, "input": "seen", "listen": 0}));
    assert!(!sent.is_error, "{}", sent.text);
    client.call("zsh_send", json!({"task_id": task, "eof": true, "listen": 0}));
    assert_eq!(whole(&client, &task), "seen\nseen");
    assert_nowhere(&env, &client, &secret);
}

#[test]
fn a_pipe_and_an_ended_task_are_refused_before_the_secret_is_looked_up() {
    let env = Env::new();
    let marker = env.work().join("asked");
    let command = format!("touch {}; echo value", marker.display());
    env.configure(&format!("secrets: {{WORD: {{command: [sh, -c, '{command}'], programs: any}}}}"));
    let client = started(&env, env.serve());
    let arguments = json!({"command": "cat", "stdin_open": true, "yield_after": 0});
    let piped = client.call("zsh", arguments).task_id();
    let refused = send_secret(&client, &piped, "WORD");
    assert!(refused.is_error && refused.text.contains("pty: true"), "{}", refused.text);
    client.kill_task(&piped);
    let over = client.call("zsh", json!({"command": "true", "pty": true, "yield_after": LONG}));
    let refused = send_secret(&client, &over.task_id(), "WORD");
    assert!(refused.is_error && refused.text.contains("ended"), "{}", refused.text);
    assert!(!marker.exists());
}

#[test]
fn commands_do_not_find_a_listed_variable() {
    let env = Env::new();
    let secret = unique_word();
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let command = "print \"<$VARIABLE_WORD>\"; env | grep -c VARIABLE_WORD";
    for pty in [false, true] {
        let arguments = json!({"command": command, "pty": pty, "yield_after": LONG});
        let result = client.call("zsh", arguments);
        assert_eq!(result.output(), "<>\n0", "{}", result.text);
    }
    let mut exec = zsh_tool(&env, &["exec", "print \"<$VARIABLE_WORD>\""]);
    exec.env("VARIABLE_WORD", &secret);
    let finished = run(exec);
    assert_eq!(finished.text(), "<>\n", "{}", finished.stderr);
}

#[test]
fn every_kind_of_source_is_typed_without_its_line_end() {
    let env = Env::new();
    let (file, link, windows) = (unique_word(), unique_word(), unique_word());
    fs::write(env.path("home/file"), format!("{file}\n")).expect("a file");
    fs::write(env.path("home/target"), &link).expect("a file");
    std::os::unix::fs::symlink("target", env.path("home/link")).expect("a link");
    fs::write(env.path("home/windows"), format!("{windows}\r\n")).expect("a file");
    env.configure(
        "secrets:\n  FILE: {file: ~/file, programs: any}\n  LINK: {file: ~/link, programs: any}\n  WINDOWS: {file: ~/windows, programs: any}\n  \
         COMMAND: {command: [sh, -c, 'echo noise >&2; cat; cat ~/file; test -z \"$OTHER\"'], programs: any}\n  \
         ENV: {env: OTHER, programs: any}\n",
    );
    let mut serve = env.serve();
    serve.env("OTHER", "of the environment");
    let client = started(&env, serve);
    for (name, value) in [
        ("FILE", file.as_str()),
        ("LINK", &link),
        ("WINDOWS", &windows),
        ("COMMAND", &file),
        ("ENV", "of the environment"),
    ] {
        let told = "import hashlib; print(hashlib.md5(word.encode()).hexdigest())";
        let task = asks(&client, &reader(told));
        let sent = send_secret(&client, &task, name);
        assert!(!sent.is_error, "{}", sent.text);
        let mut md5 = env.command("sh");
        md5.args(["-c", "printf %s \"$1\" | md5sum", "sh", value]);
        let sum: String = run(md5).text().chars().take(32).collect();
        let output = whole(&client, &task);
        assert!(output.contains(&sum), "{name}: {output}");
        assert_nowhere(&env, &client, value);
    }
}

#[test]
fn a_source_without_a_secret_is_told_without_its_place() {
    let env = Env::new();
    let home = env.path("home");
    fs::write(home.join("empty"), "\n").expect("a file");
    fs::write(home.join("lines"), "one line\nanother line\n").expect("a file");
    fs::write(home.join("large"), "x".repeat(100_000)).expect("a file");
    env.named_pipe("pipe");
    let pipe = env.work().join("pipe");
    env.configure(&format!(
        "secrets:\n  UNSET: {{env: NO_SUCH_VARIABLE}}\n  MISSING: {{file: ~/missing}}\n  \
         EMPTY: {{file: ~/empty}}\n  LINES: {{file: ~/lines}}\n  LARGE: {{file: ~/large}}\n  \
         PIPE: {{file: {}}}\n  DIRECTORY: {{file: ~/.config}}\n  SHORT: {{command: [echo, ab]}}\n  \
         FAILS: {{command: [sh, -c, 'echo stderr-text >&2; echo stdout-text; exit 3']}}\n  \
         FLOOD: {{command: [yes]}}\n  NONE: {{command: [no-such-program]}}\n",
        pipe.display()
    ));
    let client = started(&env, env.serve());
    let task = asks(&client, &reader("print(len(word))"));
    for (name, cause) in [
        ("UNSET", "not set"),
        ("MISSING", "cannot be read"),
        ("EMPTY", "empty"),
        ("LINES", "line end"),
        ("LARGE", "longer than"),
        ("PIPE", "not a regular file"),
        ("DIRECTORY", "not a regular file"),
        ("SHORT", "shorter than"),
        ("FAILS", "exit code 3"),
        ("FLOOD", "printed more than"),
        ("NONE", "not found"),
    ] {
        let refused = send_secret(&client, &task, name);
        assert!(refused.is_error, "{name}: {}", refused.text);
        assert!(refused.text.contains(cause), "{name}: {}", refused.text);
        for hidden in ["NO_SUCH", "missing", "no-such", "std", "another line"] {
            assert!(!refused.text.contains(hidden), "{name}: {}", refused.text);
        }
    }
    client.call("zsh_send", json!({"task_id": task, "input": "four"}));
    assert!(whole(&client, &task).contains("\n4\n"), "nothing was typed before");
}

#[test]
fn a_program_that_gives_no_secret_in_time_is_ended_with_its_tree() {
    let env = Env::new();
    let (sleep, child) = (UniqueSleep::new(), UniqueSleep::new());
    env.configure(&format!(
        "secrets: {{WORD: {{command: [sh, -c, 'setsid {child} & exec {sleep}'], programs: any}}}}"
    ));
    let client = started(&env, env.serve());
    let task = asks(&client, &reader("print(len(word))"));
    let pending =
        client.call_async("zsh_send", json!({"task_id": task, "secret_env": "WORD", "listen": 0}));
    sleep.wait_for(1);
    child.wait_for(1);
    let refused = pending.tool_result();
    assert!(refused.is_error, "{}", refused.text);
    assert!(refused.text.contains("within 10 s"), "{}", refused.text);
    assert!(refused.elapsed >= Duration::from_secs(9), "{:?}", refused.elapsed);
    sleep.assert_gone();
    child.assert_gone();
    client.kill_task(&task);
}

#[test]
fn a_server_that_ends_meanwhile_leaves_no_program_behind() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    env.configure(&format!(
        "secrets: {{WORD: {{command: [sh, -c, '{sleep}; true'], programs: any}}}}"
    ));
    let client = started(&env, env.serve());
    let task = asks(&client, &reader("print(len(word))"));
    let _pending = client.call_async("zsh_send", json!({"task_id": task, "secret_env": "WORD"}));
    sleep.wait_for(1);
    client.close_stdin();
    client.wait_exit(Duration::from_secs(20));
    sleep.assert_gone();
}

#[test]
fn keys_follow_a_secret() {
    let env = Env::new();
    let secret = unique_word();
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let task = asks(&client, &reader("print(len(word))"));
    let arguments = json!({
        "task_id": task, "secret_env": "WORD", "enter": false, "keys": ["x", "Enter"], "listen": LONG,
    });
    let sent = client.call("zsh_send", arguments);
    assert!(!sent.is_error, "{}", sent.text);
    assert!(whole(&client, &task).contains("\n33\n"));
}

/// The names of a process's threads.
fn threads_of(pid: u32) -> impl Iterator<Item = String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let names = threads.flatten();
    names.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok())
}

#[test]
fn a_call_that_is_cancelled_meanwhile_types_nothing() {
    let env = Env::new();
    let gate = env.named_pipe("gate");
    let command = format!("cat {}", gate.display());
    env.configure(&format!("secrets: {{WORD: {{command: [sh, -c, '{command}'], programs: any}}}}"));
    let client = started(&env, env.serve());
    let task = asks(&client, &reader("print(len(word))"));
    let sent = client.call_async("zsh_send", json!({"task_id": task, "secret_env": "WORD"}));
    // Opened when the program reads it, so that the call is under way.
    let mut pipe = fs::OpenOptions::new().write(true).open(&gate).expect("a reader");
    client.cancel(&sent);
    client.ping();
    std::io::Write::write_all(&mut pipe, b"from the program\n").expect("a write");
    drop(pipe);
    let server = client.server_pid();
    wait_until("the cancelled call is over", || {
        (!threads_of(server).any(|name| name.starts_with("call-"))).then_some(())
    });
    let typed = client.call("zsh_send", json!({"task_id": task, "input": "four"}));
    assert!(!typed.is_error, "{}", typed.text);
    assert!(whole(&client, &task).contains("\n4\n"));
}

#[test]
fn enter_is_left_out_when_asked_and_never_with_other_input() {
    let env = Env::new();
    let secret = unique_word();
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let task = asks(&client, &reader("print(len(word))"));
    let both = json!({"task_id": task, "secret_env": "WORD", "input": "x"});
    let refused = client.call("zsh_send", both);
    assert!(refused.is_error && refused.text.contains("two calls"), "{}", refused.text);
    let alone = json!({"task_id": task, "secret_env": "WORD", "enter": false, "listen": 0});
    let sent = client.call("zsh_send", alone);
    assert_eq!(sent.status(), "running", "{}", sent.text);
    client.call("zsh_send", json!({"task_id": task, "input": "7890"}));
    assert!(whole(&client, &task).contains("\n36\n"));
}

#[test]
fn the_end_of_the_input_ends_a_line_that_a_secret_has_begun() {
    let env = Env::new();
    let client = with_secrets(&env, &[("KEY", "hunter2hunter2")]);
    let task = asks(&client, "stty -echo; wc -c");
    let arguments = json!({
        "task_id": task, "secret_env": "KEY", "enter": false, "eof": true, "listen": LONG,
    });
    let sent = client.call("zsh_send", arguments);
    assert!(!sent.is_error, "{}", sent.text);
    assert_eq!(whole(&client, &task).trim(), "14");
}

#[test]
fn two_tasks_get_their_secrets_at_once_and_each_masks_its_own() {
    let env = Env::new();
    let (one, two) = (unique_word(), unique_word());
    let client = with_secrets(&env, &[("ONE", &one), ("TWO", &two)]);
    let command = reader("print(\"got \" + word)");
    let tasks = [asks(&client, &command), asks(&client, &command)];
    let send = |task: &str, name: &str| {
        let arguments = json!({"task_id": task, "secret_env": name, "listen": LONG});
        client.call_async("zsh_send", arguments)
    };
    let sent = [send(&tasks[0], "ONE"), send(&tasks[1], "TWO")];
    for pending in sent {
        let result = pending.tool_result();
        assert!(!result.is_error, "{}", result.text);
    }
    assert!(whole(&client, &tasks[0]).contains("got [secret ONE]"));
    assert!(whole(&client, &tasks[1]).contains("got [secret TWO]"));
    assert_nowhere(&env, &client, &one);
    assert_nowhere(&env, &client, &two);
}

#[test]
fn a_task_that_did_not_get_a_secret_is_shown_as_it_prints() {
    let env = Env::new();
    let client = with_secrets(&env, &[("WORD", "plain words")]);
    let result = client.run("print plain words");
    assert_eq!(result.output(), "plain words");
}

#[test]
fn doctor_and_config_tell_names_and_sources_and_no_value() {
    let env = Env::new();
    let secret = unique_word();
    let open = env.path("home/open");
    fs::write(&open, &secret).expect("a file");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).expect("a mode");
    let closed = env.path("home/closed");
    fs::write(&closed, &secret).expect("a file");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).expect("a mode");
    let marker = env.work().join("was-run");
    env.configure(&format!(
        "secrets:\n  SET: {{env: MY_VARIABLE}}\n  UNSET: {{env: NO_SUCH}}\n  OPEN: {{file: ~/open}}\n  \
         CLOSED: {{file: ~/closed}}\n  ASKED: {{command: [touch, {}]}}\n  GONE: {{command: [no-such-program, {secret}]}}\n  \
         BAD: {secret}\n",
        marker.display()
    ));
    let told = |arguments: &[&str]| {
        let mut command = zsh_tool(&env, arguments);
        command.env("MY_VARIABLE", &secret);
        let finished = run(command);
        let text = finished.text() + &finished.stderr;
        assert!(!text.contains(&secret), "{text}");
        text
    };
    let doctor = told(&["doctor"]);
    for line in [
        "ok       secret: SET, env MY_VARIABLE, exists",
        "warning  secret: UNSET, env NO_SUCH: its variable is not set",
        "every user of this machine can read it → run `chmod o-r ",
        "ok       secret: CLOSED, file ",
        "ok       secret: ASKED, command touch, exists (not run)",
        "warning  secret: GONE, command no-such-program: its program is not found",
        "secrets.BAD: expected {env: VARIABLE}",
    ] {
        assert!(doctor.contains(line), "{line}\n{doctor}");
    }
    assert!(!marker.exists());
    let config = told(&["config"]);
    assert!(config.contains("SET (env MY_VARIABLE)"), "{config}");
    assert!(config.contains("config.yaml:1"), "{config}");
}

#[test]
fn a_listed_variable_is_redacted_in_command_lines_too() {
    let env = Env::new();
    let secret = unique_word();
    let client = with_secrets(&env, &[("WORD", &secret)]);
    let task = client.start_task(&format!("sleep 98765; : {secret}"));
    let listed = client.call("zsh_tasks", Value::Null);
    assert!(listed.text.contains("sleep 98765"), "{}", listed.text);
    assert!(!listed.text.contains(&secret), "{}", listed.text);
    client.kill_task(&task);
}

#[test]
fn the_environment_of_the_server_is_closed_to_its_commands() {
    let env = Env::new();
    env.configure("secrets: {KEY: {env: VARIABLE_KEY, programs: any}}\n");
    let client = unprivileged::client_after(&env, "export VARIABLE_KEY=hunter2hunter2");
    let guard = "$(grep ^PPid /proc/$PPID/status | tr -dc 0-9)";
    for file in ["environ", "mem", "fd/0"] {
        for pid in ["$PPID", guard] {
            let command = format!("tr '\\0' '\\n' < /proc/{pid}/{file}");
            let result = client.call("zsh", json!({"command": command, "yield_after": LONG}));
            assert_eq!(result.status(), "failed", "{}", result.text);
            assert!(!result.text.contains("hunter2"), "{}", result.text);
        }
    }
    let asks = "read -s 'x?Word: '; [[ $x = hunter2hunter2 ]] && print right";
    let arguments = json!({"command": asks, "pty": true, "yield_after": LONG});
    let task = client.call("zsh", arguments).task_id();
    let arguments = json!({"task_id": task, "secret_env": "KEY", "listen": LONG});
    let reply = client.call("zsh_send", arguments);
    assert!(reply.text.contains("right"), "{}", reply.text);
}

/// A server with one secret, for which these programs are listed.
fn with_programs(env: &Env, value: &str, programs: &str) -> Client {
    env.configure(&format!("secrets: {{WORD: {{env: VARIABLE_WORD{programs}}}}}"));
    let mut serve = env.serve();
    serve.env("VARIABLE_WORD", value);
    started(env, serve)
}

#[test]
fn a_program_gets_a_secret_by_its_file_and_not_by_its_name() {
    let mut command = std::process::Command::new("python3");
    command.args(["-c", "import os, sys; print(os.path.realpath(sys.executable), end='')"]);
    let python = command.output().expect("python3").stdout;
    let python = String::from_utf8(python).expect("UTF-8");
    let listed = format!(", programs: [/nonexistent, {python}]");
    for (programs, script, refusal) in [
        // A script that calls itself sudo.
        (", programs: [/usr/bin/sudo]", "sudo", Some("bash")),
        ("", "reader", Some("bash")),
        (", programs: [/bin/bash]", "sudo", None),
        (listed.as_str(), "python", None),
        // A reader that is not listed, beside one that is.
        (listed.as_str(), "beside", Some("cat")),
    ] {
        let env = Env::new();
        let secret = unique_word();
        let client = with_programs(&env, &secret, programs);
        let command = match script {
            "python" => reader("print(len(word))"),
            "beside" => format!("cat < /dev/tty > /dev/null & {}", reader("print(len(word))")),
            name => {
                let body = "#!/bin/bash\nread -rsp 'Password: ' word; echo; echo ${#word}\n";
                let path = env.work().join(name);
                fs::write(&path, body).expect("a script");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
                format!("./{name}")
            }
        };
        let arguments = json!({"command": command, "pty": true, "until": "Password: ",
            "yield_after": LONG});
        let task = client.call("zsh", arguments).task_id();
        wait_until("it waits", || {
            let polled = client.poll(&task, json!({"listen": 0}));
            (!polled.meta["waiting_for"].is_null()).then_some(())
        });
        let sent = send_secret(&client, &task, "WORD");
        match refusal {
            Some(program) => {
                assert!(sent.is_error, "{programs} {script}: {}", sent.text);
                assert!(sent.text.contains("was not typed"), "{}", sent.text);
                assert!(sent.text.contains(&format!("/{program}, which")), "{}", sent.text);
                assert!(sent.text.contains("programs: [/"), "{}", sent.text);
            }
            None => assert!(sent.output().contains(&secret.len().to_string()), "{}", sent.text),
        }
        client.kill_task(&task);
        assert_nowhere(&env, &client, &secret);
    }
}

#[test]
fn a_listed_program_that_may_be_something_else_gets_no_secret() {
    let (env, secret) = (Env::new(), unique_word());
    let client = with_programs(&env, &secret, ", programs: [/bin/bash]");
    let reads = r#"bash -c 'read -rsp "Password: " word; echo; echo ${#word}'"#;
    for (before, reason) in [
        ("setpriv --no-new-privs ", "no_new_privs"),
        ("unshare --user --map-root-user ", "user namespace"),
        ("LD_LIBRARY_PATH=/nonexistent ", "LD_PRELOAD, LD_AUDIT or LD_LIBRARY_PATH"),
        ("LD_PRELOAD= ", ""),
    ] {
        let arguments = json!({"command": format!("{before}{reads}"), "pty": true,
            "until": "Password: ", "yield_after": LONG});
        let task = client.call("zsh", arguments).task_id();
        wait_until("it waits", || {
            let polled = client.poll(&task, json!({"listen": 0}));
            (!polled.meta["waiting_for"].is_null()).then_some(())
        });
        let sent = send_secret(&client, &task, "WORD");
        if reason.is_empty() {
            assert!(sent.output().contains(&secret.len().to_string()), "{}", sent.text);
            continue;
        }
        assert!(sent.is_error && sent.text.contains(reason), "{before}: {}", sent.text);
        client.kill_task(&task);
    }
    assert_nowhere(&env, &client, &secret);
}

/// A process that has left the session and the group in front reads the terminal all the same.
#[test]
fn a_reader_in_another_session_keeps_a_secret_from_being_typed() {
    let (env, secret) = (Env::new(), unique_word());
    let client = with_programs(&env, &secret, ", programs: [/bin/bash]");
    let thief = "import os; os.setsid(); terminal = os.open(os.environ['AT'], os.O_RDONLY | os.O_NOCTTY); \
                 open('thief', 'w').write(str(os.getpid())); os.read(terminal, 100)";
    let command = format!(
        "AT=$TTY python3 -c \"{thief}\" & exec bash -c 'read -rsp \"Password: \" word; echo; echo ${{#word}}'"
    );
    let arguments =
        json!({"command": command, "pty": true, "until": "Password: ", "yield_after": LONG});
    let task = client.call("zsh", arguments).task_id();
    wait_until("both read", || {
        let pid =
            fs::read_to_string(env.work().join("thief")).ok().filter(|pid| !pid.is_empty())?;
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
        let polled = client.poll(&task, json!({"listen": 0}));
        (call.starts_with("0 ") && !polled.meta["waiting_for"].is_null()).then_some(())
    });
    let sent = send_secret(&client, &task, "WORD");
    assert!(sent.is_error && sent.text.contains("python3"), "{}", sent.text);
    client.kill_task(&task);
    assert_nowhere(&env, &client, &secret);
}
