//! Ways round the sandbox: programs, tasks and services that run outside of it, and do for a command
//! what it may not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::sandbox::{DONE, MODES, assert_refused, client_with, each_kind, each_kind_with, home};
use crate::support::client::Client;
use crate::support::env::binary;
use crate::support::http::Site;
use crate::support::program::{Program, ran, run, zsh_tool};
use crate::support::ssh_host::installed;

#[test]
fn what_is_loaded_into_other_programs_stays_inside() {
    const LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/target", getenv("HOME"));
    FILE *file = fopen(path, "w");
    if (file) { fputs("x\n", file); fclose(file); puts("IT WORKED"); }
}
"#;
    for mode in MODES {
        for (kind, env, client) in each_kind(mode) {
            let (source, library) = (env.work().join("load.c"), env.work().join("load.so"));
            fs::write(&source, LIBRARY).expect("a file");
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
            assert!(compiler.status().expect("cc").success());
            for attempt in [
                format!("LD_PRELOAD={0} true; LD_PRELOAD={0} ls", library.display()),
                format!("LD_PRELOAD={} su -c true < /dev/null", library.display()),
                "sudo -n sh -c 'echo x > ~/target' && echo IT WORKED".to_owned(),
                "su -c 'echo x > ~/target && echo IT WORKED' < /dev/null".to_owned(),
            ] {
                assert_refused(&client.run(&attempt), &format!("{mode}, {kind}: {attempt}"));
            }
            let text = fs::read_to_string(env.path("home/target")).expect("the file is there");
            assert_eq!(text, "before\n", "{mode}, {kind}");
        }
    }
}

#[test]
fn the_memory_and_descriptors_of_outside_processes_are_out_of_reach() {
    const TRIES: &str = r#"/usr/bin/python3 -c '
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
own = ctypes.create_string_buffer(8)
local, remote = Vector(ctypes.addressof(own), 8), Vector(0x400000, 8)
def tried(name, result):
    print(name, "IT WORKED" if result >= 0 else os.strerror(ctypes.get_errno()))
for name in ["process_vm_readv", "process_vm_writev"]:
    call = getattr(libc, name)
    tried(name, call(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
handle = libc.syscall(434, pid, 0)
tried("pidfd_getfd", libc.syscall(438, handle, 0, 0))
tried("kcmp", libc.syscall(312, os.getpid(), pid, 0, 0, 0))
'"#;
    for mode in MODES {
        for (kind, _env, client) in each_kind(mode) {
            let result = client.run(&format!("{TRIES} {}", client.server_pid()));
            assert_refused(&result, &format!("{mode}, {kind}"));
            assert_eq!(result.output().lines().count(), 4, "{mode}, {kind}: {}", result.text);
        }
    }
}

#[test]
fn a_task_outside_gets_no_input_from_inside() {
    for mode in MODES {
        for (kind, env, client) in each_kind(mode) {
            // The same user's server without a sandbox, with the same state directory.
            let mut free = env.serve();
            free.env("ZSH_TOOL_SANDBOX_MODE", "off");
            let free = Client::start(free, env.path("free"));
            free.initialize();
            let arguments = json!({"command": "echo $$; cat > ~/target.new", "stdin_open": true});
            let task = free.call("zsh", arguments);
            let (id, pid) = (task.task_id(), task.output());
            let program = binary().display().to_string();
            for attempt in [
                format!("{program} send {id} x"),
                format!("{program} kill {id}"),
                format!("{program} log {id} && {program} tasks | grep {id}"),
                format!("echo x > /proc/{pid}/fd/0"),
                format!("kill {pid}"),
            ] {
                let result = client.run(&format!("{attempt} && echo {DONE}"));
                assert_refused(&result, &format!("{mode}, {kind}: {attempt}"));
            }
            let made = fs::read_to_string(env.path("home/target.new")).unwrap_or_default();
            assert_eq!(made, "", "{mode}, {kind}");
            free.kill_task(&id);
        }
    }
}

#[test]
fn the_page_answers_nothing_without_its_token_which_cannot_be_read() {
    for mode in MODES {
        let env = home();
        let client = client_with(&env, &format!("sandbox: {{mode: {mode}}}\n"), &[]);
        let mut monitor = Program::start(zsh_tool(&env, &["monitor"]));
        let site = Site::of(&mut monitor);
        let attempt = format!(
            "curl -s -m 5 -o /dev/null -w '%{{http_code}}\n' http://{}/api/sessions; \
             grep -rqs {} {}/ /proc/*/environ && echo {DONE}",
            site.address,
            site.token,
            env.path("state").display()
        );
        let result = client.run(&attempt);
        assert_refused(&result, mode);
        assert_eq!(result.output().lines().next(), Some("401"), "{}", result.text);
        monitor.signal("TERM");
        monitor.finish();
    }
}

#[test]
fn a_container_engine_and_keys_are_refused_and_named() {
    let env = home();
    let socket = env.path("home/docker.sock");
    let _engine = UnixListener::bind(&socket).expect("a socket");
    let key = env.path("home/.ssh/id_ed25519");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key);
    assert!(keygen.status().expect("ssh-keygen").success());
    let address = format!("unix://{}", socket.display());
    let agent = env.path("home/agent.sock");
    let _agent = UnixListener::bind(&agent).expect("a socket");
    let agent = agent.to_str().expect("a path");
    let variables = [("DOCKER_HOST", &*address), ("SSH_AUTH_SOCK", agent)];
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &variables);
    let unreached = client.run("ssh-add -l");
    assert!(unreached.text.contains("such as ~/agent.sock"), "{}", unreached.text);
    let engine = client.run(&format!(
        "curl -s --unix-socket {} http://engine/containers/json && echo {DONE}",
        socket.display()
    ));
    assert_refused(&engine, "the engine's socket");
    if Path::new("/usr/bin/docker").exists() || Path::new("/usr/local/bin/docker").exists() {
        assert_refused(&client.run(&format!("docker ps && echo {DONE}")), "docker");
    }
    let result = client.run(&format!("ssh-keygen -y -f ~/.ssh/id_ed25519 && echo {DONE}"));
    assert_refused(&result, "a key");
    assert!(
        result.text.contains("the sandbox refused to read ~/.ssh/id_ed25519"),
        "{}",
        result.text
    );
}

#[test]
fn no_worktree_that_a_command_has_made_up_opens_a_tree() {
    for (kind, env, client) in each_kind("workspace") {
        let made = client.run(
            "mkdir -p .git-own && print \"gitdir: $PWD/.git-own\" > .git && \
             print $PWD/.git > .git-own/gitdir && print / > .git-own/commondir && echo ready",
        );
        assert_eq!(made.output(), "ready", "{kind}: {}", made.text);
        let mut later =
            zsh_tool(&env, &["exec", "--sandbox", "workspace", "--", "echo x > ~/target"]);
        // The other one may belong to another user.
        later.env("ZSH_TOOL_STATE_DIR", env.path("own-state"));
        assert_eq!(run(later).code, 1, "{kind}");
        let text = fs::read_to_string(env.path("home/target")).expect("the file is there");
        assert_eq!(text, "before\n", "{kind}");
    }
}

#[test]
fn a_real_worktree_keeps_what_leads_to_its_repository() {
    let env = home();
    let made = "git init -q main && cd main && git -c user.name=a -c user.email=a@b commit -q \
                --allow-empty -m one && git worktree add -q ../linked";
    let mut shell = env.command("sh");
    assert!(shell.args(["-c", made]).status().expect("sh").success());
    let attempt = |line: &str| {
        let mut exec = zsh_tool(&env, &["exec", "--sandbox", "workspace", "--", line]);
        exec.env("CLAUDE_PROJECT_DIR", env.work().join("linked"));
        exec.current_dir(env.work().join("linked"));
        run(exec)
    };
    let commits = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two";
    assert_eq!(attempt(commits).code, 0);
    for name in ["commondir", "gitdir"] {
        let line = format!("print / > ../main/.git/worktrees/linked/{name}");
        assert_ne!(attempt(&line).code, 0, "{name}");
    }
}

#[test]
fn a_writable_path_is_not_led_elsewhere_by_a_link() {
    let env = home();
    let data = env.work().join("sub/data");
    fs::create_dir_all(&data).expect("a directory");
    let way = env.path("home/way");
    std::os::unix::fs::symlink(env.work(), &way).expect("a link");
    env.configure(&format!("sandbox: {{mode: workspace, write: [{}/sub/data]}}\n", way.display()));
    let replaced = ran(&env, &["exec", "--", "rmdir sub/data && ln -s ~ sub/data"]);
    assert_eq!(replaced.code, 0, "{}", replaced.stderr);
    assert_eq!(ran(&env, &["exec", "--", "echo x > ~/target"]).code, 1);
    let text = fs::read_to_string(env.path("home/target")).expect("the file is there");
    assert_eq!(text, "before\n");
}

#[test]
fn what_becomes_a_link_while_a_server_runs_is_not_followed() {
    for (kind, env, client) in each_kind_with(|env| {
        let data = env.path("home/shared/data");
        fs::create_dir_all(&data).expect("a directory");
        format!("sandbox: {{mode: workspace, write: [{}]}}\n", data.display())
    }) {
        let write = |to: &str| client.run(&format!("echo x > {to} && echo {DONE}"));
        let before = write("~/shared/data/file");
        assert!(before.output().contains(DONE), "{kind}: {}", before.text);
        // The project of another server has it inside.
        let mut other = zsh_tool(&env, &["exec", "--", "rm -r data && ln -s .. data && echo ok"]);
        other.env("CLAUDE_PROJECT_DIR", env.path("home/shared"));
        other.current_dir(env.path("home/shared"));
        // The other one may belong to another user.
        other.env("ZSH_TOOL_STATE_DIR", env.path("own-state"));
        assert_eq!(run(other).text(), "ok\n", "{kind}");
        assert_refused(&write("~/target"), kind);
        assert_refused(&write("~/shared/data/target"), kind);
        let text = fs::read_to_string(env.path("home/target")).expect("the file is there");
        assert_eq!(text, "before\n", "{kind}");
    }
}

#[test]
fn a_project_that_was_entered_through_a_writable_directory_is_not_writable() {
    let env = home();
    let (real, link) = (env.path("home/elsewhere"), env.work().join("link"));
    fs::create_dir(&real).expect("a directory");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    env.configure(&format!("sandbox: {{mode: workspace, write: [{}]}}\n", env.work().display()));
    let attempt = |entered: &Path| {
        let mut exec = zsh_tool(&env, &["exec", "--", "echo x > file"]);
        exec.current_dir(&real).env("PWD", entered);
        run(exec)
    };
    let refused = attempt(&link);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("the sandbox refused a write"), "{}", refused.stderr);
    assert_eq!(attempt(&real).code, 0);
}

#[test]
fn a_configuration_that_commands_could_replace_refuses_them() {
    let linked = home();
    let own = linked.work().join("config.yaml");
    fs::write(&own, "sandbox: {mode: workspace}\n").expect("a file");
    let folder = linked.path("home/.config/zsh-tool");
    fs::create_dir_all(&folder).expect("a directory");
    std::os::unix::fs::symlink(&own, folder.join("config.yaml")).expect("a link");
    let missing = home();
    missing.configure("sandbox: {mode: workspace}\n");
    for (env, named) in [(&linked, None), (&missing, Some(missing.work().join("mine.yaml")))] {
        let attempt = |line: &str| {
            let mut exec = zsh_tool(env, &["exec", "--", line]);
            exec.envs(named.as_ref().map(|file| ("ZSH_TOOL_CONFIG", file)));
            exec.env("ZSH_TOOL_SANDBOX_MODE", "workspace");
            run(exec)
        };
        let refused = attempt("echo IT WORKED");
        assert_eq!(refused.code, 125, "{}", refused.stderr);
        assert!(refused.stderr.contains("could replace it"), "{}", refused.stderr);
        assert_eq!(refused.text(), "");
    }
    // A file that is there is kept as it is.
    let file = missing.work().join("mine.yaml");
    fs::write(&file, "sandbox: {mode: workspace}\n").expect("a file");
    let mut exec = zsh_tool(&missing, &["exec", "--", "echo 'sandbox: {mode: off}' > mine.yaml"]);
    exec.env("ZSH_TOOL_CONFIG", &file);
    assert_eq!(run(exec).code, 1);
    assert_eq!(fs::read_to_string(&file).expect("a file"), "sandbox: {mode: workspace}\n");
}

#[test]
fn the_program_for_hosts_is_not_made_by_a_command() {
    for (kind, env, client) in each_kind("workspace") {
        let place = installed(&env, "home");
        let folder = place.parent().expect("a directory").display();
        assert_refused(&client.run(&format!("mkdir -p {folder} && echo {DONE}")), kind);
        let other = client.run(&format!("mkdir -p ~/.cache/other && echo {DONE}"));
        assert!(other.output().contains(DONE), "{kind}: {}", other.text);
    }
}

#[test]
fn what_prepares_a_command_is_confined_as_the_command_is() {
    let env = home();
    env.configure("sandbox: {mode: workspace}\nenvironment: login\nenvironment_tools: [direnv]\n");
    // A directory of the project that PATH has, as that of an activated environment.
    let programs = env.work().join("bin");
    fs::create_dir(&programs).expect("a directory");
    let steal = "echo x > ~/target; echo \"stolen: $(cat ~/.ssh/key 2>/dev/null)\"";
    for name in ["man", "helper"] {
        let program = programs.join(name);
        fs::write(&program, format!("#!/bin/sh\n{steal}\n")).expect("a script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    fs::write(env.path("zdotdir/.zprofile"), "export FROM_LOGIN=\"$(helper)\"\n").expect("a file");
    fs::write(env.work().join(".envrc"), format!("export FROM_DIRENV=\"$({steal})\"\n"))
        .expect("a file");
    let allowed = env.command("direnv").arg("allow").status().expect("direnv");
    assert!(allowed.success());
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{path}", programs.display());
    let mut server = env.serve();
    server.env("PATH", &path);
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    let result = client.run("print -r -- \"$FROM_LOGIN|$FROM_DIRENV\"");
    assert_eq!(result.output(), "stolen: |stolen: ", "{}", result.text);
    let mut page = zsh_tool(&env, &["manopt", "anything"]);
    let page = run({
        page.env("PATH", &path);
        page
    });
    assert!(!page.text().contains("SECRET") && page.code != 0, "{}", page.text());
    let text = fs::read_to_string(env.path("home/target")).expect("the file is there");
    assert_eq!(text, "before\n");
}
