//! What happens around sandboxed commands: what prepares them, what they leave to later ones, and what
//! they need of the server.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::sandbox::{client_with, home};
use crate::support::client::Client;
use crate::support::env::{Env, binary};
use crate::support::processes::wait_until;
use crate::support::program::{ran, run, zsh_tool};
use crate::support::result::ToolResult;

const TIGHT: &str = "read-only network=off";

/// Runs a command to its end, in this sandbox unless it is empty.
fn run_in(client: &Client, sandbox: &str, command: &str, mut arguments: Value) -> ToolResult {
    arguments["command"] = json!(command);
    arguments["yield_after"] = json!(25);
    if !sandbox.is_empty() {
        arguments["sandbox"] = json!(sandbox);
    }
    client.call("zsh", arguments)
}

#[test]
fn what_prepares_a_command_runs_in_the_sandbox_that_its_call_asks_for() {
    const PREPARES: &str = "$(touch made 2> /dev/null && echo free || echo confined)";
    const SHOWS: &str = "print -r -- $FROM_LOGIN,$FROM_DIRENV";
    for mode in ["off", "workspace"] {
        let env = home();
        // The login shell runs in the home directory.
        let write = env.path("home/shared");
        fs::create_dir(&write).expect("a directory");
        fs::write(
            env.path("zdotdir/.zprofile"),
            format!("export FROM_LOGIN=\"$(cd {} && echo {PREPARES})\"\n", write.display()),
        )
        .expect("a file");
        fs::write(env.work().join(".envrc"), format!("export FROM_DIRENV=\"{PREPARES}\"\n"))
            .expect("a file");
        let allowed = env.command("direnv").arg("allow").status().expect("direnv");
        assert!(allowed.success());
        let yaml = format!(
            "sandbox: {{mode: {mode}, write: [{}]}}\nenvironment: login\n\
             environment_tools: [direnv]\n",
            write.display()
        );
        let client = client_with(&env, &yaml, &[]);
        let made = || {
            let below = |folder: &Path| {
                let entries = fs::read_dir(folder).expect("a directory");
                entries.filter(|entry| {
                    let name = entry.as_ref().expect("an entry").file_name();
                    name.to_string_lossy().starts_with("made")
                })
            };
            below(&write).count() + below(&env.work()).count()
        };
        for _ in 0..2 {
            let tight = run_in(&client, TIGHT, SHOWS, json!({}));
            assert_eq!(tight.output(), "confined,confined", "{mode}: {}", tight.text);
        }
        let detached = run_in(&client, TIGHT, SHOWS, json!({"detach": true, "until": "confined"}));
        assert!(detached.output().contains("confined,confined"), "{mode}: {}", detached.text);
        assert_eq!(made(), 0, "{mode}");
        let plain = run_in(&client, "", SHOWS, json!({}));
        assert_eq!(plain.output(), "free,free", "{mode}: {}", plain.text);
        assert_eq!(made(), 2, "{mode}");
        // What it has answered outside is not for a command inside.
        let tight = run_in(&client, TIGHT, SHOWS, json!({}));
        assert_eq!(tight.output(), "confined,confined", "{mode}: {}", tight.text);
    }
}

#[test]
fn a_directory_is_kept_for_commands_in_the_same_sandbox() {
    let env = home();
    let client = client_with(&env, "keep_cwd: true\n", &[]);
    let here = env.work().display().to_string();
    let place = |sandbox: &str| run_in(&client, sandbox, "pwd", json!({})).output();
    let moved = run_in(&client, "workspace", "mkdir one two && cd one", json!({}));
    assert!(!moved.text.contains("not kept"), "{}", moved.text);
    assert_eq!((place(""), place("read-only")), (here.clone(), here.clone()));
    assert_eq!(place("workspace"), format!("{here}/one"));
    run_in(&client, "", "cd two", json!({}));
    assert_eq!((place(""), place("workspace")), (format!("{here}/two"), format!("{here}/one")));
    let detached = json!({"detach": true, "until": "o(ne|wo)"});
    let found = run_in(&client, "workspace", "pwd", detached);
    assert!(found.output().ends_with("/one"), "{}", found.text);
}

#[test]
fn a_kept_directory_that_is_gone_is_given_up_and_named() {
    let env = home();
    let client = client_with(&env, "keep_cwd: true\n", &[]);
    let here = env.work().display().to_string();
    let (folder, given_up) =
        (env.work().join("folder"), format!("is gone: this one starts in {here}"));
    for arguments in [json!({}), json!({"detach": true, "until": "work"})] {
        fs::create_dir(&folder).expect("a directory");
        run_in(&client, "workspace", "cd folder", json!({}));
        fs::remove_dir(&folder).expect("it was there");
        let next = run_in(&client, "workspace", "pwd", arguments.clone());
        assert!(next.output().ends_with(&here), "{}", next.text);
        assert!(next.text.contains(&given_up), "{}", next.text);
        let last = run_in(&client, "workspace", "pwd", json!({}));
        assert_eq!((last.output(), last.text.contains(&given_up)), (here.clone(), false));
    }
}

#[test]
fn a_temporary_directory_that_goes_with_its_task_is_not_kept() {
    let env = home();
    let client = client_with(&env, "keep_cwd: true\nsandbox: {mode: read-only}\n", &[]);
    let here = env.work().display().to_string();
    let moved = client.run("cd $TMPDIR");
    assert!(moved.text.contains("not kept"), "{}", moved.text);
    assert_eq!(client.run("pwd").output(), here);
    let session = json!({"session": "s"});
    run_in(&client, "", "cd $TMPDIR; export KEPT=1", session.clone());
    let next = run_in(&client, "", "print $PWD $KEPT", session);
    assert_eq!(next.output(), format!("{here} 1"), "{}", next.text);
    assert!(next.text.contains(&format!("is gone: this one starts in {here}")), "{}", next.text);
}

/// Waits for a file that a command makes later.
fn await_file(path: &Path) {
    wait_until("the file", || path.symlink_metadata().is_ok().then_some(()));
}

#[test]
fn what_a_process_left_behind_makes_is_told_once() {
    let env = home();
    symlink("nowhere", env.work().join(".mise.toml")).expect("a link");
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    let pipe = env.named_pipe("go");
    let left = client.run("(read < go; print x > .mcp.json) > /dev/null 2>&1 &!");
    assert!(!left.text.contains("look at it first"), "{}", left.text);
    fs::write(&pipe, "go\n").expect("it is read");
    await_file(&env.work().join(".mcp.json"));
    let next = client.run("true");
    assert!(next.text.contains("made since an earlier command started:"), "{}", next.text);
    assert!(next.text.contains("/.mcp.json. Programs outside"), "{}", next.text);
    let last = client.run("true");
    assert!(!last.text.contains("look at it first"), "{}", last.text);
    let again = client.run("rm .mcp.json");
    assert_eq!(again.meta["exit_code"], 1, "it is protected now: {}", again.text);
}

#[test]
fn the_receipt_of_a_kill_names_what_was_made() {
    let env = home();
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    let pipe = env.named_pipe("go");
    let task = client.start_task("read < go; mkdir .husky; sleep 60");
    fs::write(&pipe, "go\n").expect("it is read");
    await_file(&env.work().join(".husky"));
    let killed = client.kill_task(&task);
    assert!(killed.text.contains("made while this ran:"), "{}", killed.text);
    assert!(killed.text.contains("/.husky. Programs outside"), "{}", killed.text);
    let polled = client.poll_to_end(&task);
    assert!(!polled.text.contains("look at it first"), "{}", polled.text);
}

#[test]
fn an_answer_names_at_once_what_a_running_command_has_made() {
    let env = home();
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    let made = client.call(
        "zsh",
        json!({"command": "mkdir .husky; print ready; sleep 60", "until": "ready", "yield_after": 25}),
    );
    assert!(made.text.contains("/.husky. Programs outside"), "{}", made.text);
    let killed = client.kill_task(&made.task_id());
    assert!(!killed.text.contains("look at it first"), "{}", killed.text);
}

#[test]
fn the_doctor_asks_a_shell_for_its_version_in_the_tightest_sandbox() {
    let env = home();
    env.configure("sandbox: {mode: workspace}\n");
    // A directory of the project that PATH has, as that of an activated environment.
    let programs = env.work().join("bin");
    fs::create_dir(&programs).expect("a directory");
    let program = programs.join("zsh");
    let text = "#!/bin/sh\n[ \"$1\" = --version ] || exec /bin/sh \"$@\"\n\
                echo x > ~/target; echo x > made; echo x > /tmp/made-$$; echo shell 1.0\n";
    fs::write(&program, text.replace("made;", &format!("{}/made;", env.work().display())))
        .expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut doctor = zsh_tool(&env, &["doctor"]);
    let path = std::env::var("PATH").expect("a PATH");
    doctor.env("PATH", format!("{}:{path}", programs.display()));
    let told = run(doctor);
    let line = told.text().lines().find(|line| line.contains("shell:")).map(str::to_owned);
    assert!(line.as_ref().is_some_and(|line| line.ends_with("zsh, shell 1.0")), "{line:?}");
    let kept = fs::read_to_string(env.path("home/target")).expect("the file is there");
    assert_eq!(kept, "before\n");
    assert!(!env.work().join("made").exists());
}

#[test]
fn without_a_state_directory_no_command_is_sandboxed_among_the_files_of_others() {
    let env = home();
    fs::write(env.path("file"), "").expect("a file");
    for mode in ["workspace", "read-only", "off"] {
        env.configure(&format!("sandbox: {{mode: {mode}}}\n"));
        let mut server = env.serve();
        server.env("ZSH_TOOL_STATE_DIR", env.path("file"));
        let client = Client::start(server, env.path("stderr"));
        client.initialize();
        for arguments in [json!({}), json!({"shell": "bash"})] {
            let result = run_in(&client, "", "print -r IT RAN || echo IT RAN", arguments);
            if mode == "off" {
                assert!(result.output().contains("IT RAN"), "{}", result.text);
            } else {
                assert!(result.is_error && !result.text.contains("exit="), "{}", result.text);
                assert!(
                    result.text.contains("no directory for the files of its sandbox")
                        && result.text.contains("let it be written"),
                    "{}",
                    result.text
                );
            }
        }
        drop(client);
        assert_eq!(fs::read_dir(env.path("tmp")).expect("a directory").count(), 0, "{mode}");
    }
}

#[test]
fn a_refused_namespace_ends_no_command() {
    // As Docker's default profile does: `unshare` and `setns` fail.
    const WITHOUT: &str = r#"
import ctypes, os, struct, sys
numbers = {"x86_64": (272, 308), "aarch64": (97, 268)}[os.uname().machine]
def step(code, true, false, value):
    return struct.pack("HBBI", code, true, false, value)
program = (step(0x20, 0, 0, 0) + step(0x15, 1, 0, numbers[0]) + step(0x15, 0, 1, numbers[1])
    + step(6, 0, 0, 0x00050001) + step(6, 0, 0, 0x7fff0000))
text = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
filter = Program(len(program) // 8, ctypes.addressof(text))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(filter), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;
    // Whatever else reaps children is faster than the standard library.
    const LATE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
pid_t waitpid(pid_t pid, int *status, int options) {
    struct timespec left = {2, 500000000};
    if (strcmp(program_invocation_short_name, "zsh-tool") == 0)
        while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
    return wait4(pid, status, options, NULL);
}
"#;
    let env = home();
    let (source, library) = (env.work().join("late.c"), env.work().join("late.so"));
    fs::write(&source, LATE).expect("a file");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().expect("cc").success());
    let mut python = env.command("/usr/bin/python3");
    python.env("LD_PRELOAD", &library).args(["-c", WITHOUT]).arg(binary());
    python.args(["exec", "--sandbox", "workspace", "--", "echo it ran"]);
    let ended = run(python);
    assert_eq!((ended.code, ended.text()), (0, "it ran\n".to_owned()), "{}", ended.stderr);
}

#[test]
fn the_files_of_a_killed_server_s_sandboxes_are_removed() {
    let env = home();
    let client = client_with(&env, "sandbox: {mode: read-only}\n", &[]);
    let task = client.start_until("print x > $TMPDIR/file; print ready; sleep 60", "ready");
    let folders = || sandboxes_of(&env);
    let files = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    assert_eq!(folders().iter().map(|folder| files(folder)).sum::<usize>(), 1, "{task}");
    client.kill_server();
    wait_until("its files to go", || {
        // The next one sweeps.
        assert_eq!(ran(&env, &["exec", "--", "true"]).code, 0);
        let next = env.client();
        next.run("true");
        let left = folders().iter().map(|folder| files(folder)).sum::<usize>();
        (left == 0).then_some(())
    });
}

/// The directories of servers for the files of sandboxed tasks.
fn sandboxes_of(env: &Env) -> Vec<std::path::PathBuf> {
    let servers = fs::read_dir(env.path("state/servers")).expect("a directory");
    servers.map(|server| server.expect("an entry").path().join("sandbox")).collect()
}
