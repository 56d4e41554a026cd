//! `zsh-tool exec`: one command for a person or a script.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;

use serde_json::{Value, json};

use crate::support::client::SECOND_THOUGHT;
use crate::support::env::{Env, binary};
use crate::support::processes::{UniqueSleep, assert_none_left};
use crate::support::program::{Program, ran, run, run_with_input, zsh_tool};
use crate::support::trees::command_of;

#[test]
fn exec_gives_the_output_as_it_is_a_status_line_and_the_exit_code() {
    let env = Env::new();
    let rows: [(&str, &[u8], i32, &str); 4] = [
        ("printf 'a\\n\\0\\033[31mb\\r\\xff'", b"a\n\0\x1b[31mb\r\xff", 0, "✔ exit=0  "),
        ("false | true", b"", 0, "✔ exit=0  pipestatus=[1,0]  "),
        ("kill -KILL $$", b"", 137, "✘ exit=137  "),
        ("exit 127", b"", 127, "✘ exit=127  "),
    ];
    for (command, output, code, status) in rows {
        let finished = ran(&env, &["exec", "--", command]);
        assert_eq!(finished.code, code, "{command}: {finished:?}");
        assert_eq!(finished.stdout, output, "{command}");
        assert!(finished.stderr.starts_with(status), "{command}: {}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
    assert_none_left(env.mark());
}

#[test]
fn several_words_are_one_command() {
    let env = Env::new();
    let finished = ran(&env, &["exec", "echo", "-n", "a;", "echo", "--json"]);
    assert_eq!(finished.text(), "a--json\n");
}

#[test]
fn exec_runs_where_it_is_called() {
    let env = Env::new();
    let mut command = zsh_tool(&env, &["exec", "pwd"]);
    command.env("CLAUDE_PROJECT_DIR", env.path("home"));
    let finished = run(command);
    assert_eq!(finished.text().trim_end(), env.work().to_string_lossy());
}

#[test]
fn the_deadline_ends_the_tree_with_exit_code_124() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let command = format!("(env -i setsid {sleep} &); {sleep}");
    let finished = ran(&env, &["exec", "--timeout", "0.5", "--", &command]);
    assert_eq!(finished.code, 124);
    assert!(finished.stderr.starts_with("⏱ TIMEOUT"), "{}", finished.stderr);
    sleep.assert_gone();
    assert_none_left(env.mark());
}

#[test]
fn stdin_passes_through_byte_for_byte() {
    let env = Env::new();
    // More than all queues hold, no text, and no two stretches alike.
    let bytes: Vec<u8> =
        (0..1_500_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let piped = run_with_input(zsh_tool(&env, &["exec", "cat"]), bytes.clone());
    assert_eq!(piped.code, 0, "{}", piped.stderr);
    assert!(piped.stdout == bytes, "{} bytes came", piped.stdout.len());

    let path = env.path("input");
    fs::write(&path, &bytes).expect("a file of input");
    let file = fs::File::open(&path).expect("the same file");
    let from_file =
        Program::start_with(zsh_tool(&env, &["exec", "cat"]), Stdio::from(file)).finish();
    assert!(from_file.stdout == bytes, "{}", from_file.stderr);
}

#[test]
fn a_command_that_does_not_read_its_input_ends_all_the_same() {
    let env = Env::new();
    let mut program = Program::start(zsh_tool(&env, &["exec", "head -n 1"]));
    let mut stdin = program.stdin.take().expect("a piped stdin");
    stdin.write_all(b"first\nsecond\n").expect("room in the pipe");
    let finished = program.finish_with_stdin_open();
    assert_eq!(finished.text(), "first\n");
    assert_eq!(finished.code, 0);
}

#[test]
fn without_a_pipe_a_command_has_no_input() {
    let env = Env::new();
    let finished = ran(&env, &["exec", "readlink /proc/self/fd/0"]);
    assert_eq!(finished.text(), "/dev/null\n");
}

#[test]
fn a_slow_reader_loses_nothing_even_when_little_is_kept() {
    let env = Env::new();
    env.configure("spool: memory\n");
    let mut program = Program::start(zsh_tool(&env, &["exec", "seq 1 1500000"]));
    assert_eq!(program.read_line(), "1");
    let finished = program.finish();
    let numbers: Vec<String> = (2..=1_500_000).map(|number| format!("{number}\n")).collect();
    assert!(finished.text() == numbers.concat(), "{}", finished.stderr);
}

#[test]
fn a_signal_ends_the_tree_in_order() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let env = Env::new();
        let sleep = UniqueSleep::new();
        let command = format!("(env -i setsid {sleep} &); {sleep}");
        let program = Program::start(zsh_tool(&env, &["exec", &command]));
        sleep.wait_for(2);
        program.signal(signal);
        let finished = program.finish_with_stdin_open();
        assert_eq!(finished.code, code, "{signal}: {finished:?}");
        assert!(finished.stderr.contains("✘ KILLED"), "{signal}: {finished:?}");
        sleep.assert_gone();
        assert_none_left(env.mark());
    }
}

#[test]
fn programs_clean_up_on_ctrl_c_as_at_a_terminal() {
    let env = Env::new();
    let command = "trap 'echo cleaned up; exit 7' INT; echo ready; while :; do sleep 1; done";
    let mut program = Program::start(zsh_tool(&env, &["exec", command]));
    assert_eq!(program.read_line(), "ready");
    program.signal("INT");
    let finished = program.finish_with_stdin_open();
    assert_eq!(finished.text(), "cleaned up\n");
    assert_eq!(finished.code, 130);
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let command =
        format!("trap 'echo not yet' INT; trap '' TERM; echo ready; while :; do {sleep}; done");
    let mut program = Program::start(zsh_tool(&env, &["exec", &command]));
    assert_eq!(program.read_line(), "ready");
    sleep.wait_for(1);
    program.signal("INT");
    assert_eq!(program.read_line(), "not yet");
    thread::sleep(SECOND_THOUGHT);
    program.signal("INT");
    assert_eq!(program.finish_with_stdin_open().code, 130);
    sleep.assert_gone();
    assert_none_left(env.mark());
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let env = Env::new();
    let mut command = env.command("sh");
    let script = r#"trap '' HUP; exec "$0" exec 'echo ready; read line; echo $line'"#;
    command.args(["-c", script]).arg(binary());
    let mut program = Program::start(command);
    assert_eq!(program.read_line(), "ready");
    program.signal("HUP");
    let mut stdin = program.stdin.take().expect("a piped stdin");
    stdin.write_all(b"still here\n").expect("room in the pipe");
    let finished = program.finish_with_stdin_open();
    assert_eq!(finished.text(), "still here\n");
    assert_eq!(finished.code, 0);
}

#[test]
fn a_reader_that_goes_away_ends_the_tree_quietly() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let command = format!("{sleep} & yes");
    let mut program = Program::start(zsh_tool(&env, &["exec", &command]));
    assert_eq!(program.read_line(), "y");
    program.close_stdout();
    let finished = program.finish_with_stdin_open();
    assert_eq!(finished.code, 141);
    assert_eq!(finished.stderr, "");
    sleep.assert_gone();
    assert_none_left(env.mark());
}

#[test]
fn leftovers_are_ended_and_named() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let command = command_of("SLEEP & AWAIT; echo done; exit 5", &sleep);
    let finished = ran(&env, &["exec", &command]);
    assert_eq!(finished.code, 5);
    assert_eq!(finished.text(), "done\n");
    let told = finished.stderr.lines().last().unwrap_or_default();
    assert!(
        told.starts_with("1 process was still running and had to be killed: ")
            && told.ends_with(" sleep"),
        "{}",
        finished.stderr
    );
    sleep.assert_gone();
}

#[test]
fn json_is_one_object_with_the_whole_result() {
    let env = Env::new();
    let arguments = ["exec", "--json", "--", "echo a; cd /; echo b; true | (exit 4)"];
    let finished = ran(&env, &arguments);
    assert_eq!(finished.code, 4);
    assert_eq!(finished.stderr, "");
    let result: Value = serde_json::from_slice(&finished.stdout).expect("JSON on stdout");
    for (key, expected) in [
        ("status", json!("failed")),
        ("exit_code", json!(4)),
        ("pipestatus", json!([0, 4])),
        ("cwd", json!("/")),
        ("output", json!("a\nb")),
        ("total_lines", json!(2)),
        ("leftovers", json!([])),
        ("warnings", json!([])),
    ] {
        assert_eq!(result[key], expected, "{key} of {result}");
    }
    assert!(result["duration_ms"].is_u64(), "{result}");
}

#[test]
fn what_cannot_start_is_an_error_as_a_shell_has_it() {
    let env = Env::new();
    let mut command = zsh_tool(&env, &["exec", "true"]);
    command.env("PATH", "/nonexistent");
    let finished = run(command);
    assert_eq!(finished.code, 127);
    assert!(finished.stderr.contains("no shell found"), "{}", finished.stderr);
    assert_eq!(finished.text(), "");

    let broken = env.path("zsh");
    // An interpreter that may not be executed.
    fs::write(&broken, "#!/etc/passwd\n").expect("a file");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).expect("its mode");
    env.configure(&format!("shell: {}\n", broken.display()));
    let finished = ran(&env, &["exec", "true"]);
    assert_eq!(finished.code, 126, "{}", finished.stderr);
}

#[test]
fn a_terminal_is_passed_through_and_put_back() {
    let env = Env::new();
    // The command ends the program above it, which must put the terminal back then.
    let on_terminal = r#"stty rows 33 cols 77; stty -g
"$TEST_BINARY" exec --pty -- 'stty size; echo TERM=$TERM; read -rk key; echo key=$key'
"$TEST_BINARY" exec --pty -- 'kill -TERM $PPID; sleep 100'
echo code=$?; stty -g"#;
    let mut command = env.command("script");
    command
        .args(["--quiet", "--flush", "--return", "--command", on_terminal])
        .arg("/dev/null")
        .env("SHELL", "/bin/sh")
        .env("TERM", "a-terminal-of-mine")
        .env("TEST_BINARY", binary());
    let mut program = Program::start(command);
    let mut read = || program.read_line().trim_end().to_owned();
    let before = read();
    assert_eq!(read(), "33 77");
    assert_eq!(read(), "TERM=a-terminal-of-mine");
    let mut stdin = program.stdin.take().expect("a piped stdin");
    // One key, and no Enter after it.
    stdin.write_all(b"k").expect("room in the pipe");
    let finished = program.finish_with_stdin_open();
    let text = finished.text().replace('\r', "");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().any(|line| line.ends_with("key=k")), "{text}");
    assert!(lines.contains(&"code=143"), "{text}");
    assert_eq!(lines.last(), Some(&before.as_str()), "{text}");
    assert_none_left(env.mark());
}
