//! The exit code, the output and the pipestatus of a command are zsh's own.
//!
//! Bare `zsh -c` is the oracle for the exit code and the output of every row; the
//! pipestatus is written by hand. Not in the tables: what prints in no fixed order, as the
//! trace of a pipeline's parts.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::{Env, binary, unique_word};
use crate::support::program::run;
use crate::support::result::ToolResult;

/// No pipestatus is shown: a single command, or one that the exit code contradicts.
const NONE: &[i64] = &[];

/// A command and the pipestatus that its result shows.
type Row = (&'static str, &'static [i64]);

/// How many commands run side by side.
const AT_ONCE: usize = 8;

const PLAIN: &[Row] = &[
    ("true", NONE),
    ("false", NONE),
    ("echo a; echo b >&2; echo c", NONE),
    ("print -n no newline", NONE),
    ("true && false", NONE),
    ("false && true", NONE),
    ("false || exit 5", NONE),
    ("! false", NONE),
    ("! true", NONE),
    ("true; false; true", NONE),
    ("[[ -f /nonexistent ]]", NONE),
    ("(( 0 ))", NONE),
    ("$(exit 5)", NONE),
    ("x=$(exit 5)", NONE),
    ("ls /nonexistent", NONE),
    ("echo ok > /nonexistent/x", NONE),
    ("no-such-command-at-all", NONE),
    ("./no-such-file", NONE),
    ("/etc/passwd", NONE),
    ("source /nonexistent", NONE),
    ("cd /nonexistent", NONE),
    ("cd /; false", NONE),
    ("zsh -c 'exit 42'", NONE),
    ("echo $0 $# $*", NONE),
    ("echo $?", NONE),
    ("false; echo $?", NONE),
    ("read x; echo got=$x:$?", NONE),
    ("(exit 3) & wait $!", NONE),
];

const PIPELINES: &[Row] = &[
    ("true | true", &[0, 0]),
    ("true | false", &[0, 1]),
    ("false | true", &[1, 0]),
    ("true | false | true", &[0, 1, 0]),
    ("sleep 0.1 | true | false", &[0, 0, 1]),
    ("exit 3 | true", &[3, 0]),
    ("true | (exit 3)", &[0, 3]),
    ("(sleep 0.1; exit 3) | true", &[3, 0]),
    ("yes | head -1", &[141, 0]),
    ("ls /nonexistent | cat", &[2, 0]),
    ("true | no-such-command-at-all", &[0, 127]),
    ("false |\n  true", &[1, 0]),
    ("{ true | false }", &[0, 1]),
    ("! false | true", &[1, 0]),
    ("for i in 1 2 3; do echo $i; done | tail -1", &[0, 0]),
    ("setopt pipefail; false | true", &[1, 0]),
    ("setopt pipefail; (exit 3) | (exit 4) | true", &[3, 4, 0]),
    ("setopt ksharrays; false | true", &[1, 0]),
    ("emulate sh; false | true", &[1, 0]),
    ("true | false; exit", &[0, 1]),
    ("true | false; exit 0", NONE),
    ("! true | false", NONE),
    ("false | true | exit 3", NONE),
    ("(true | false); true", NONE),
    ("true | false; echo $pipestatus", NONE),
    ("f() { true | false }; f", NONE),
    ("eval 'true | false'", NONE),
];

const ENDINGS: &[Row] = &[
    ("exit 7", NONE),
    ("exit 256", NONE),
    ("exit -1", NONE),
    ("exit $((40 + 2))", NONE),
    ("return 3", NONE),
    ("return", NONE),
    ("eval 'exit 3'", NONE),
    ("(exit 4)", NONE),
    ("(exit 4); true", NONE),
    ("() { return 8 }", NONE),
    ("f() {\n  return 4\n}\nf", NONE),
    ("exec true", NONE),
    ("exec false", NONE),
    ("exec sh -c 'exit 9'", NONE),
    ("exec no-such-program", NONE),
    ("logout", NONE),
    ("setopt nounset; echo $nope; echo on", NONE),
];

const ERREXIT: &[Row] = &[
    ("set -e; false; echo no", NONE),
    ("set -e; (exit 12)", NONE),
    ("set -e; false || true; echo on", NONE),
    ("set -e; f() { false; echo no }; f", NONE),
    ("set -e; true | false; echo no", &[0, 1]),
    ("set -e; false | true; echo yes", NONE),
    ("set -e -o pipefail; false | true; echo no", &[1, 0]),
    ("setopt errreturn; f() { false; echo no }; f", NONE),
];

const TRAPS: &[Row] = &[
    ("trap 'echo bye' EXIT; false", NONE),
    ("trap 'echo bye' EXIT; true | false", NONE),
    ("trap 'exit 9' EXIT; true", NONE),
    ("trap '' EXIT; exit 3", NONE),
    ("trap - EXIT; false | true", NONE),
    ("f() { trap 'echo in f' EXIT; return 4 }; f", NONE),
    ("TRAPEXIT() { echo fn }; false", NONE),
    ("TRAPZERR() { echo zerr }; false", NONE),
    ("zshexit() { echo hook }; exit 3", NONE),
    ("zshexit_functions+=(f); f() { echo f }; exit 2", NONE),
    ("zshexit_functions=(); exit 2", NONE),
    ("unset zshexit_functions; exit 3", NONE),
    ("unfunction -m '*'; exit 3", NONE),
    ("disable print; echo x", NONE),
    ("trap 'echo usr1' USR1; kill -USR1 $$; echo done", NONE),
    ("trap 'echo int; exit 77' INT; kill -INT $$", NONE),
];

const SIGNALS: &[Row] = &[
    ("kill -KILL $$", NONE),
    ("kill -TERM $$", NONE),
    ("kill -INT $$", NONE),
    ("kill -PIPE $$", NONE),
    ("kill -HUP $$", NONE),
    ("sh -c 'kill -KILL $$'", NONE),
    ("sh -c 'kill -TERM $$'", NONE),
    ("sh -c 'kill -INT $$'", NONE),
    ("ulimit -c 0; sh -c 'kill -SEGV $$'", NONE),
    ("sh -c 'kill -TERM $$' | true", &[143, 0]),
];

const TEXTS: &[Row] = &[
    ("cat <<'EOF'\nit's \"quoted\" $HOME `x`\nEOF", NONE),
    ("cat <<EOF | tr a-z A-Z\nhello 'a' \"b\"\nEOF", &[0, 0]),
    ("cat <<-EOF\n\ttabbed\n\tEOF\nfalse", NONE),
    ("cat <<A <<B\na\nA\nb\nB\nexit 6", NONE),
    ("cat <<<here", NONE),
    ("echo hi # comment at the end", NONE),
    ("false # false", NONE),
    ("# only a comment", NONE),
    ("true\nfalse\n", NONE),
    ("echo a\n\n\nfalse | true\n", &[1, 0]),
    ("if false; then\n  echo no\nfi", NONE),
    ("echo a \\\n  b", NONE),
    ("alias x=false\nx", NONE),
];

const DESCRIPTORS: &[Row] = &[
    ("exec 3>file; echo 1 >&3; cat file", NONE),
    ("exec 3>other", NONE),
    ("echo 1 >&3", NONE),
    ("exec 3>&1; echo 1 >&3; false", NONE),
    ("exec 9>&1; echo x >&9", NONE),
    ("print -rN -- T 0 0 / >&9", NONE),
    ("print -u 9 forged", NONE),
];

const LINE_NUMBERS: &[Row] = &[
    ("echo $LINENO\necho $LINENO", NONE),
    ("\n\necho $LINENO", NONE),
    ("f() {\n  echo $LINENO\n}\nf", NONE),
    ("\n\nno-such-command-at-all", NONE),
    ("echo ok\n\ncd /nonexistent", NONE),
    ("echo (", NONE),
    ("if true", NONE),
    ("echo 'unterminated", NONE),
    ("}", NONE),
    ("echo one;;", NONE),
    ("echo ok\necho )", NONE),
];

const TRACES: &[Row] = &[
    ("set -x; echo a; false", NONE),
    ("set -x\necho a\n\necho b", NONE),
    // A builtin that leaves keeps the trace on a descriptor of its own, past any
    // redirection of stderr in the prologue's traps.
    ("set -x; exit 3", NONE),
    ("set -x; return 3", NONE),
    ("set -x; (exit 4)", NONE),
    ("set -x; eval 'exit 3'", NONE),
    ("set -x\ntrue && exit", NONE),
    ("setopt xtrace; f() { false }; f", NONE),
    ("set -v; echo a", NONE),
];

#[test]
fn plain_commands_end_as_in_bare_zsh() {
    ends_as_in_bare_zsh(PLAIN);
}

#[test]
fn pipelines_show_the_status_of_each_part() {
    ends_as_in_bare_zsh(PIPELINES);
}

#[test]
fn every_way_to_leave_the_shell_keeps_its_exit_code() {
    ends_as_in_bare_zsh(ENDINGS);
}

#[test]
fn errexit_stops_where_bare_zsh_stops() {
    ends_as_in_bare_zsh(ERREXIT);
}

#[test]
fn the_users_own_traps_and_exit_hooks_run() {
    ends_as_in_bare_zsh(TRAPS);
}

#[test]
fn a_death_by_signal_is_128_and_its_number() {
    ends_as_in_bare_zsh(SIGNALS);
}

#[test]
fn here_documents_comments_and_many_lines_are_taken_as_written() {
    ends_as_in_bare_zsh(TEXTS);
}

#[test]
fn descriptors_of_the_command_are_those_of_bare_zsh() {
    ends_as_in_bare_zsh(DESCRIPTORS);
}

#[test]
fn line_numbers_in_messages_are_those_of_the_command() {
    ends_as_in_bare_zsh(LINE_NUMBERS);
}

#[test]
fn traces_show_the_command_and_nothing_of_the_prologue() {
    ends_as_in_bare_zsh(TRACES);
}

/// The exit codes that the specification names, not only the oracle's.
#[test]
fn named_exit_codes_are_as_specified() {
    let env = Env::new();
    let client = env.client();
    let expected = [
        ("sh -c 'kill -KILL $$'", 137),
        ("kill -TERM $$", 143),
        ("kill -INT $$", 130),
        ("/etc/passwd", 126),
        ("no-such-command-at-all", 127),
        ("true | false; exit 0", 0),
        ("false || exit 5", 5),
        ("! false", 0),
    ];
    for (command, code) in expected {
        let result = client.call("zsh", json!({"command": command, "yield_after": 20}));
        assert_eq!(result.meta["exit_code"], json!(code), "{command}: {}", result.text);
    }
}

/// Programs get the three standard descriptors, and nothing of the server's, of the
/// shell's, or of what the server itself inherited.
#[test]
fn programs_get_the_three_standard_descriptors_only() {
    let env = Env::new();
    let client = env.client();
    for command in ["ls /proc/self/fd", "exec ls /proc/self/fd", "true | ls /proc/self/fd"] {
        let called = client.call("zsh", json!({"command": command, "yield_after": 20}));
        let started = client.call("zsh", json!({"command": command, "yield_after": 0}));
        let task = started.task_id();
        let end = json!({"task_id": &task, "wait_for": "end", "listen": 20});
        client.call("zsh_poll", end);
        let whole = json!({"task_id": &task, "full_output": true, "listen": 0});
        let polled = client.call("zsh_poll", whole);
        for listing in [called.output(), polled.without_numbers()] {
            // The last is the one on which ls reads the folder.
            assert_eq!(listing, "0\n1\n2\n3", "{command}");
        }
    }
}

/// Runs every row twice, seen by the call and seen by a poll, and compares both with
/// bare zsh.
fn ends_as_in_bare_zsh(rows: &[Row]) {
    let env = Env::new();
    let client = env.client();
    for (command, pipestatus) in rows {
        let result = client.call("zsh", json!({"command": command, "yield_after": 25}));
        compare(&env, command, pipestatus, &result, &result.output());
    }
    for some in rows.chunks(AT_ONCE) {
        polled_ends_as_in_bare_zsh(&env, &client, some);
    }
    client.assert_only_frames();
}

/// The same for commands that outlive their first call.
fn polled_ends_as_in_bare_zsh(env: &Env, client: &Client, rows: &[Row]) {
    let started: Vec<(String, &[i64], String)> = rows
        .iter()
        .map(|(command, pipestatus)| {
            // The pause is on the first line, so that line numbers stay.
            let command = format!("sleep 0.3; {command}");
            let result = client.call("zsh", json!({"command": &command, "yield_after": 0}));
            (command, *pipestatus, result.task_id())
        })
        .collect();
    for (command, pipestatus, task) in started {
        let end = json!({"task_id": &task, "wait_for": "end", "listen": 25});
        client.call("zsh_poll", end);
        let whole = json!({"task_id": &task, "full_output": true, "listen": 0});
        let result = client.call("zsh_poll", whole);
        compare(env, &command, pipestatus, &result, &result.without_numbers());
    }
}

fn compare(env: &Env, command: &str, pipestatus: &[i64], result: &ToolResult, output: &str) {
    let bare = env.bare_zsh(command);
    let context = format!("of {command:?} in {}", result.text);
    assert!(!result.is_error, "an error {context}");
    assert_eq!(result.meta["exit_code"], json!(bare.exit_code), "exit code {context}");
    let status = if bare.exit_code == 0 { "completed" } else { "failed" };
    assert_eq!(result.status(), status, "status {context}");
    assert_eq!(output.trim_end(), bare.output.trim_end(), "output {context}");

    let footer = result.footer();
    assert!(footer.contains(&format!("exit={}  ", bare.exit_code)), "status line {context}");
    if pipestatus.is_empty() {
        assert!(!footer.contains("pipestatus"), "pipestatus {context}");
        let reported = result.meta["pipestatus"].as_array().map_or(0, Vec::len);
        assert!(reported < 2, "pipestatus {context}");
    } else {
        assert_eq!(result.meta["pipestatus"], json!(pipestatus), "pipestatus {context}");
        let shown = serde_json::to_string(pipestatus).expect("a list of numbers");
        assert!(footer.contains(&format!("pipestatus={shown}  ")), "pipestatus {context}");
    }
}

/// What a command writes into its own side-band never decides its exit code.
#[test]
fn a_forged_record_does_not_change_the_exit_code() {
    let env = Env::new();
    let client = env.client();
    let word = unique_word();
    let reports = env.path("state/servers/*/*.report");
    let forged = format!(
        "true | true; key=$(trap | grep -oE '[0-9a-f]{{16}} T' | head -c 16); \
         for pipe in {}; do print -rN -- '' $key T 0 0 / 1<>$pipe && echo {word}; done; exit 4",
        reports.display()
    );
    let result = client.call("zsh", json!({"command": forged, "yield_after": 20}));
    assert_eq!(result.meta["exit_code"], json!(4), "{}", result.text);
    assert!(result.output().contains(&word), "{}", result.text);
}

/// What a shell that ends by `exec` has not reported, a process in another user namespace
/// reports in vain, although it can write to the pipe and sees the shell.
#[test]
fn no_sandbox_reports_in_the_shells_place() {
    let env = Env::new();
    let client = env.client();
    let script = env.path("forge");
    let forge = format!(
        "keys=$(cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' |
         sed -n 's/^__zsh_tool_key=//p')\n\
         for pipe in {}; do for key in 0 $keys; do\n\
         printf '\\0%s\\0T\\0007\\0000\\0/etc\\0' $key 1<>\"$pipe\"; done; echo forged; done\n",
        env.path("state/servers/*/*.report").display()
    );
    fs::write(&script, forge).expect("a script");
    let sandbox = "unshare --user --map-root-user --mount";
    let deeper = format!("{sandbox} --pid --fork --mount-proc");
    for (sandbox, is_forged) in [(sandbox, false), (&*deeper, false), ("", true)] {
        let command = format!("cd /usr; true | true; {sandbox} sh {}; exec true", script.display());
        let result = client.call("zsh", json!({"command": command, "yield_after": 20}));
        assert!(result.output().contains("forged"), "{}", result.text);
        let cwd = &result.meta["cwd"];
        assert_eq!(*cwd == json!("/etc"), is_forged, "{sandbox}: {}", result.text);
    }
}

#[test]
fn a_static_zsh_without_modules_tells_of_pipelines_and_directories_as_well() {
    let env = Env::new();
    let zsh = env.path("zsh");
    std::os::unix::fs::symlink("/bin/zsh-static", &zsh).expect("a link");
    assert!(zsh.exists(), "zsh-static is missing: apt-get install zsh-static");
    env.configure(&format!("shell: {}\n", zsh.display()));
    let client = env.client();
    let command = "cd /usr; (exit 2) | { read; : } | print 0";
    let result = client.call("zsh", json!({"command": command, "yield_after": 20}));
    assert_eq!(result.meta["pipestatus"], json!([2, 0, 0]), "{}", result.text);
    assert_eq!(result.meta["cwd"], json!("/usr"), "{}", result.text);
    let result = client.call("zsh", json!({"command": "zmodload zsh/system", "yield_after": 20}));
    assert!(result.output().contains("failed to load"), "{}", result.text);
}

#[test]
fn a_missing_shell_is_an_error_and_never_an_exit_code() {
    let env = Env::new();
    env.configure("shell: /nonexistent/zsh\n");
    let client = env.client();
    let result = client.call("zsh", json!({"command": "true"}));
    assert!(result.is_error, "{}", result.text);
    assert!(result.text.contains("/nonexistent/zsh"), "{}", result.text);
    assert!(!result.text.contains("exit=0"), "{}", result.text);
    assert_eq!(result.meta["exit_code"], Value::Null, "{}", result.text);
}

#[test]
fn a_working_directory_that_is_gone_is_an_error_that_names_it() {
    let env = Env::new();
    let client = env.client();
    let result = client.call("zsh", json!({"command": "true", "cwd": "/nonexistent/here"}));
    assert!(result.is_error, "{}", result.text);
    assert!(result.text.contains("/nonexistent/here"), "{}", result.text);
}

#[test]
fn where_its_own_directory_was_removed_nothing_runs_elsewhere() {
    let env = Env::new();
    let removed = env.path("removed");
    fs::create_dir(&removed).unwrap();
    let script = "rmdir ../removed; exec \"$0\" \"$@\"";
    let mut command = env.command("sh");
    command.args(["-c", script]).arg(binary()).args(["exec", "touch here"]).current_dir(&removed);
    let ended = run(command);
    assert_eq!(ended.code, 126, "{}", ended.stderr);
    let named = removed.display().to_string();
    assert!(ended.stderr.contains(&named), "{}", ended.stderr);
    for project in [true, false] {
        fs::create_dir(&removed).unwrap();
        let mut command = env.command("sh");
        command.args(["-c", script]).arg(binary()).arg("serve").current_dir(&removed);
        if project {
            command.env("CLAUDE_PROJECT_DIR", &removed);
        }
        let client = Client::start(command, env.path("stderr"));
        client.initialize();
        let result = client.call("zsh", json!({"command": "touch here"}));
        assert!(result.is_error, "{}", result.text);
        assert!(result.text.contains(&named), "{}", result.text);
        let elsewhere = client.call("zsh", json!({"command": "pwd", "cwd": env.work()}));
        assert_eq!(elsewhere.meta["exit_code"], json!(0), "{}", elsewhere.text);
    }
}
