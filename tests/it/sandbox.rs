//! Commands in a sandbox: what they may not do, tried as real processes in each mode, as root and as
//! an ordinary user, with own mounts and with Landlock alone; and what must work nevertheless.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::client::{Client, PATIENCE};
use crate::support::env::{Env, binary, unique_word};
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::program::{ran, run, zsh_tool};
use crate::support::result::ToolResult;
use crate::support::unprivileged;

pub const MODES: [&str; 2] = ["workspace", "read-only"];

/// Makes the server do without own mounts.
pub const LANDLOCK_ALONE: (&str, &str) = ("ZSH_TOOL_SANDBOX_LOWERED", "namespaces=none");

/// A home with a secret and a file that commands may not change.
pub fn home() -> Env {
    // Not below /tmp, which is writable in a workspace.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(directory).expect("a directory");
    let env = Env::new_in(directory);
    for name in [".ssh", ".cache", ".npm"] {
        fs::create_dir(env.path("home").join(name)).expect("a directory");
    }
    fs::write(env.path("home/.ssh/key"), "SECRET\n").expect("a file");
    fs::write(env.path("home/target"), "before\n").expect("a file");
    fs::write(env.work().join("own"), "own\n").expect("a file");
    env
}

fn client_in(env: &Env, mode: &str) -> Client {
    env.configure(&format!("sandbox: {{mode: {mode}}}\n"));
    env.client()
}

pub fn client_with(env: &Env, yaml: &str, variables: &[(&str, &str)]) -> Client {
    env.configure(yaml);
    let mut server = env.serve();
    server.envs(variables.iter().copied());
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    client
}

/// A server of each kind, each with a home of its own, for this mode.
pub fn each_kind(mode: &str) -> Vec<(&'static str, Env, Client)> {
    each_kind_with(|_| format!("sandbox: {{mode: {mode}}}\n"))
}

/// The same, for a configuration that depends on the home.
pub fn each_kind_with(yaml: impl Fn(&Env) -> String) -> Vec<(&'static str, Env, Client)> {
    let with_mounts = home();
    let alone = home();
    let mut kinds = Vec::new();
    let client = client_with(&with_mounts, &yaml(&with_mounts), &[]);
    kinds.push(("with mounts", with_mounts, client));
    let client = client_with(&alone, &yaml(&alone), &[LANDLOCK_ALONE]);
    kinds.push(("Landlock alone", alone, client));
    if unprivileged::is_root() {
        let ordinary = home();
        ordinary.configure(&yaml(&ordinary));
        let client = unprivileged::client(&ordinary);
        kinds.push(("an ordinary user", ordinary, client));
    }
    kinds
}

/// What a command prints when what it tries has worked.
pub const DONE: &str = "IT WORKED";

pub fn assert_refused(result: &ToolResult, what: &str) {
    let output = result.output();
    assert!(!output.contains(DONE) && !output.contains("SECRET"), "{what}: {}", result.text);
}

#[test]
fn nothing_outside_is_written_by_any_way() {
    for mode in MODES {
        for (kind, env, client) in each_kind(mode) {
            let server = client.server_pid();
            let attempts = [
                "echo x > ~/target",
                "echo x > ~/new",
                "mkdir ~/dir",
                "rm ~/target",
                "ln -sf ~/target $TMPDIR/l && echo x > $TMPDIR/l",
                "ln ~/target $TMPDIR/h && echo x > $TMPDIR/h",
                "mv ~/target $TMPDIR/t",
                "echo x > $TMPDIR/f && mv $TMPDIR/f ~/moved",
                "echo x > $TMPDIR/g && ln $TMPDIR/g ~/linked",
                "ln -s /etc ~/link",
                "mkfifo ~/pipe",
                "truncate -s 0 ~/target",
                "/usr/bin/python3 -c 'import os; os.truncate(os.path.expanduser(\"~/target\"), 0)'",
                "/usr/bin/python3 -c 'import os
fd = os.open(os.path.expanduser(\"~/target\"), os.O_PATH)
os.open(f\"/proc/self/fd/{fd}\", os.O_WRONLY | os.O_TRUNC)'",
                "echo x > /proc/self/root$HOME/target",
                &format!("echo x > /proc/{server}/root$HOME/target"),
                &format!("echo x > /proc/{server}/cwd/../home/target"),
                &format!("cd /proc/{server}/cwd/../home && echo x > target"),
                "mkdir $TMPDIR/m && mount --bind ~ $TMPDIR/m && echo x > $TMPDIR/m/target",
                "mount -o remount,bind,rw ~ && echo x > ~/target",
                "umount $PWD && echo x",
                "unshare -rm sh -c 'mount -t tmpfs none ~ && echo x > ~/a'",
                "unshare -r true",
                "setpriv --reuid 65533 --clear-groups sh -c 'echo x > ~/target'",
                "/usr/bin/python3 -c 'import os
fd = os.memfd_create(\"x\", 0)
os.write(fd, b\"#!/bin/sh\\necho x > ~/target\\n\")
os.execve(fd, [\"x\"], dict(os.environ))' && cat ~/target | grep x",
                "mkdir /sys/fs/cgroup/zsh-tool-escape",
                "echo '|/bin/true' > /proc/sys/kernel/core_pattern",
                "echo b > /proc/sysrq-trigger",
                "echo 'touch ~/target' | at now",
                "echo '* * * * * true' | crontab -",
                "systemd-run --user touch ~/target",
                "mknod $TMPDIR/disk b 8 0",
                "dmesg -n 1 && dmesg -C",
            ];
            for attempt in attempts {
                let result = client.run(&format!("{attempt} && echo {DONE}"));
                assert_refused(&result, &format!("{mode}, {kind}: {attempt}"));
            }
            let text = fs::read_to_string(env.path("home/target")).expect("the file is there");
            assert_eq!(text, "before\n", "{mode}, {kind}");
            let mut left: Vec<String> = fs::read_dir(env.path("home"))
                .expect("the home")
                .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
                .collect();
            left.sort();
            assert_eq!(left, [".cache", ".config", ".npm", ".ssh", "target"], "{mode}, {kind}");
        }
    }
}

#[test]
fn what_is_denied_is_read_by_no_way() {
    for mode in MODES {
        for (kind, env, client) in each_kind(mode) {
            let (server, state) = (client.server_pid(), env.path("state"));
            let attempts = [
                "cat ~/.ssh/key".to_owned(),
                "ln -s ~/.ssh $TMPDIR/l; cat $TMPDIR/l/key".to_owned(),
                "ln ~/.ssh/key $TMPDIR/h; cat $TMPDIR/h".to_owned(),
                "cp -r ~/.ssh $TMPDIR/c; cat $TMPDIR/c/key".to_owned(),
                "mv ~/.ssh $TMPDIR/m; cat $TMPDIR/m/key".to_owned(),
                "cat /proc/self/root$HOME/.ssh/key".to_owned(),
                format!("cat /proc/{server}/root$HOME/.ssh/key"),
                format!("cat /proc/{server}/cwd/../home/.ssh/key"),
                format!("tr '\\0' '\\n' < /proc/{server}/environ | grep -q HOME && echo {DONE}"),
                format!("cat /proc/{server}/maps | grep -q . && echo {DONE}"),
                format!("cat {}/alan.db | grep -q . && echo {DONE}", state.display()),
                format!("echo x > {}/new && echo {DONE}", state.display()),
            ];
            for attempt in attempts {
                assert_refused(&client.run(&attempt), &format!("{mode}, {kind}: {attempt}"));
            }
            let lists = client.run("ls ~ /; cat ~/target; cat /etc/passwd | head -1");
            assert!(lists.output().contains("before"), "{mode}, {kind}: {}", lists.text);
        }
    }
}

#[test]
fn other_processes_are_neither_signalled_nor_traced() {
    let sleep = UniqueSleep::new();
    let mut outside = Command::new("sleep")
        .arg(sleep.to_string().split_once(' ').unwrap().1)
        .spawn()
        .expect("the sleep program");
    for mode in MODES {
        for (kind, _env, client) in each_kind(mode) {
            let pid = outside.id();
            for attempt in [
                format!("kill {pid}"),
                format!("kill -STOP {}", client.server_pid()),
                format!(
                    "/usr/bin/python3 -c 'import ctypes, sys
sys.exit(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) != 0)'"
                ),
                format!(
                    "/usr/bin/python3 -c 'import os, sys
open(\"/proc/{pid}/mem\", \"rb\")'"
                ),
            ] {
                let result = client.run(&format!("{attempt} && echo {DONE}"));
                assert_refused(&result, &format!("{mode}, {kind}: {attempt}"));
            }
            let own = client.run("sleep 100 & kill $! && wait $!; echo $?");
            assert_eq!(own.output(), "143", "{mode}, {kind}");
        }
    }
    assert!(outside.try_wait().expect("a child").is_none(), "it lives");
    outside.kill().expect("it lives");
    outside.wait().expect("its end");
}

#[test]
fn abstract_sockets_of_others_are_closed() {
    let name = unique_word();
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let _listener = UnixListener::bind_addr(&address).expect("a socket");
    let attempt = format!(
        "/usr/bin/python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"\\x00{name}\")' && echo {DONE}"
    );
    for (kind, _env, client) in each_kind("workspace") {
        assert_refused(&client.run(&attempt), kind);
    }
    let env = Env::new();
    let free = env.client().run(&attempt);
    assert!(free.output().contains(DONE), "without a sandbox: {}", free.text);
}

#[test]
fn sockets_of_a_persons_programs_are_covered() {
    let env = home();
    let path = env.path("home/agent");
    let _listener = UnixListener::bind(&path).expect("a socket");
    let variables = [("SSH_AUTH_SOCK", path.to_str().expect("a plain path"))];
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &variables);
    let attempt = format!(
        "/usr/bin/python3 -c 'import os, socket
socket.socket(socket.AF_UNIX).connect(os.environ[\"SSH_AUTH_SOCK\"])' && echo {DONE}"
    );
    assert_refused(&client.run(&attempt), "the socket");
    let free = client_with(&env, "", &variables).run(&attempt);
    assert!(free.output().contains(DONE), "without a sandbox: {}", free.text);
}

/// Tries a socket of each family; prints those that can be made or connected.
const NETWORK: &str = r#"/usr/bin/python3 -c '
import socket, sys
def tried(name, make):
    try:
        make()
        print(name, "open")
    except OSError as error:
        print(name, error.errno)
port = int(sys.argv[1])
tried("tcp", lambda: socket.create_connection(("127.0.0.1", port), 2))
tried("tcp6", lambda: socket.socket(socket.AF_INET6))
tried("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("127.0.0.1", port)))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried("packet", lambda: socket.socket(17, socket.SOCK_RAW))
tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
tried("audit", lambda: socket.socket(16, socket.SOCK_RAW, 9))
tried("name", lambda: socket.getaddrinfo("example.org", 80))
tried("pair", socket.socketpair)
tried("route", lambda: socket.socket(16, socket.SOCK_RAW, 0))
def own():
    listener = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(listener.getsockname(), 2)
tried("own", own)
'"#;

#[test]
fn a_closed_network_leaves_local_sockets() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let command = format!("{NETWORK} {port}");
    for (kind, env, client) in each_kind("workspace") {
        let off = client.call("zsh", json!({"command": command, "sandbox": "network=off"}));
        let output = off.output();
        let open: Vec<&str> =
            output.lines().filter_map(|line| line.strip_suffix(" open")).collect();
        assert_eq!(open, ["pair", "route"], "{kind}: {}", off.text);
        assert!(off.text.contains("sandbox=workspace network=off"), "{}", off.text);
        let on = client.run(&command);
        assert!(on.output().contains("tcp open"), "{kind}: {}", on.text);
        drop((client, env));
    }
}

#[test]
fn loopback_connects_a_command_with_itself_alone() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let command = format!("{NETWORK} {port}");
    for (kind, _env, client) in each_kind("workspace") {
        let arguments = json!({"command": command, "sandbox": "network=loopback"});
        let result = client.call("zsh", arguments);
        if kind == "Landlock alone" {
            assert!(
                result.is_error && result.text.contains("network namespaces"),
                "{}",
                result.text
            );
            continue;
        }
        assert!(!result.is_error, "{kind}: {}", result.text);
        let output = result.output();
        assert!(output.contains("own open") && output.contains("tcp 111"), "{kind}: {output}");
        for closed in ["vsock", "packet", "audit"] {
            assert!(output.contains(&format!("{closed} 1\n")), "{kind}: {output}");
        }
    }
}

#[test]
fn a_project_is_writable_but_not_what_others_obey_in_it() {
    let env = home();
    for name in [".git/hooks", ".claude"] {
        fs::create_dir_all(env.work().join(name)).expect("a directory");
    }
    fs::write(env.work().join(".git/config"), "[core]\n").expect("a file");
    fs::write(env.work().join(".mcp.json"), "{}\n").expect("a file");
    let client = client_in(&env, "workspace");
    let works = client.run(
        "echo a > new && cat new && mkdir -p d/e && mv new d/e && rm -r d && \
                            echo x > .git/HEAD && ln -s own l && chmod 600 own && touch own",
    );
    assert_eq!((works.output().as_str(), works.status()), ("a", "completed"), "{}", works.text);
    for attempt in [
        "echo x > .git/hooks/pre-commit",
        "echo x > .git/config",
        "rm .mcp.json",
        "echo x > .mcp.json",
        "mv .claude c",
        "rm -r .claude",
        "mv .git g",
        "mv .git/hooks h",
        "echo x > .claude/settings.json",
    ] {
        let result = client.run(&format!("{attempt} && echo {DONE}"));
        assert_refused(&result, attempt);
    }
    let refusal = client.run("echo x > .git/hooks/pre-commit").text;
    assert!(refusal.contains("⚠") && refusal.contains("it is protected"), "{refusal}");
    assert!(env.work().join(".git/hooks").read_dir().expect("a directory").next().is_none());
}

#[test]
fn a_protected_file_that_a_command_makes_is_named() {
    let env = home();
    let client = client_in(&env, "workspace");
    let made = client.run("echo '{}' > .mcp.json").text;
    assert!(made.contains("⚠ made while this ran:") && made.contains("work/.mcp.json"), "{made}");
    let later = client.run("true").text;
    assert!(!later.contains("made while"), "{later}");
    assert_refused(&client.run(&format!("echo x > .mcp.json && echo {DONE}")), "later");
    let exec = run(zsh_tool(&env, &["exec", "--", "git init -q"]));
    assert!(
        exec.stderr.contains(".git/hooks") && exec.stderr.contains(".git/config"),
        "{}",
        exec.stderr
    );
}

#[test]
fn what_others_replace_between_two_commands_stays_protected_or_writable() {
    let env = home();
    let at = |name: &str| env.work().join(name);
    fs::create_dir_all(at(".git/hooks")).expect("a directory");
    fs::write(at(".mcp.json"), "{}\n").expect("a file");
    fs::create_dir(env.path("home/data")).expect("a directory");
    fs::create_dir(env.path("home/data/kept")).expect("a directory");
    let client = client_in(&env, "workspace, write: [~/data], deny_write: [~/data/kept]");
    assert_refused(&client.run(&format!("echo x > ~/data/kept/a && echo {DONE}")), "deny_write");
    let try_all = |what: &str| {
        let works = client.run("echo x > new && echo x > ~/data/new && cat ~/data/new");
        assert_eq!(works.output(), "x", "{what}: {}", works.text);
        for attempt in ["echo x > .mcp.json", "echo x > .git/hooks/pre-commit", "rm .mcp.json"] {
            let result = client.run(&format!("{attempt} && echo {DONE}"));
            assert_refused(&result, &format!("{what}: {attempt}"));
        }
    };
    try_all("at first");
    // As editors write a file.
    fs::write(at(".mcp.new"), "{}\n").expect("a file");
    fs::rename(at(".mcp.new"), at(".mcp.json")).expect("another file");
    try_all("another file");
    // The same file, which was away for a moment.
    fs::hard_link(at(".mcp.json"), at("kept")).expect("a link");
    fs::remove_file(at(".mcp.json")).expect("its end");
    fs::rename(at("kept"), at(".mcp.json")).expect("the file");
    try_all("the same file again");
    for name in [".git", "../home/data"] {
        fs::remove_dir_all(at(name)).expect("its end");
    }
    fs::create_dir_all(at(".git/hooks")).expect("a directory");
    fs::create_dir(env.path("home/data")).expect("a directory");
    try_all("other directories");
    fs::write(at(".envrc"), "own\n").expect("a file");
    assert_refused(&client.run(&format!("echo x > .envrc && echo {DONE}")), "a new file");
}

#[test]
fn read_only_leaves_a_directory_of_its_own() {
    for (kind, env, client) in each_kind("read-only") {
        let first = client.run("echo a > $TMPDIR/f && cat $TMPDIR/f && echo $TMPDIR && mktemp");
        let output = first.output();
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), 3, "{kind}: {}", first.text);
        let directory = PathBuf::from(lines[1]);
        assert!(lines[2].starts_with(lines[1]), "{kind}: {output}");
        wait_until("its directory is removed", || (!directory.exists()).then_some(()));
        for attempt in [
            "echo x > own",
            "echo x > new",
            "echo x > /tmp/zsh-tool-escape",
            "echo x > ~/.cache/new",
        ] {
            let result = client.run(&format!("{attempt} && echo {DONE}"));
            assert_refused(&result, &format!("{kind}: {attempt}"));
        }
        let task = client.start_task("echo secret > $TMPDIR/mine; echo $TMPDIR; sleep 60");
        let theirs = client.poll(&task, json!({"until": "sandbox", "listen": 20})).output();
        let attempt = format!("echo x > {}/mine && echo {DONE}", theirs.trim());
        assert_refused(&client.run(&attempt), kind);
        client.kill_task(&task);
        drop(env);
    }
}

#[test]
fn a_call_only_tightens() {
    let env = home();
    let client = client_in(&env, "workspace");
    let call = |sandbox: &str| {
        client.call("zsh", json!({"command": "echo x > new; echo ran", "sandbox": sandbox}))
    };
    let tighter = call("read-only");
    assert!(tighter.text.contains("sandbox=read-only") && !env.work().join("new").exists());
    for (sandbox, named) in
        [("off", "sandbox.mode"), ("strict", "sandbox must be workspace or read-only")]
    {
        let result = call(sandbox);
        assert!(result.is_error && result.text.contains(named), "{}", result.text);
    }
    env.configure("sandbox: {mode: workspace, network: off}\n");
    let client = env.client();
    let result = client.call("zsh", json!({"command": "true", "sandbox": "network=on"}));
    assert!(result.is_error && result.text.contains("sandbox.network"), "{}", result.text);
    let off = home();
    let client = off.client();
    let plain = client.run("echo x > ~/target");
    assert!(!plain.text.contains("sandbox="), "{}", plain.text);
    let asked = client.call("zsh", json!({"command": "echo x > ~/new", "sandbox": "workspace"}));
    assert!(asked.text.contains("✘ exit=1") && asked.text.contains("sandbox=workspace"));
}

#[test]
fn a_refused_action_is_named_with_the_setting() {
    let env = home();
    fs::set_permissions(env.path("home/.ssh"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("its own");
    for (mode, command, sentence) in [
        (
            "workspace",
            "echo x > ~/target",
            "⚠ the sandbox refused a write to ~/target (mode workspace): the user can add it to sandbox.write",
        ),
        (
            "workspace",
            "touch ~/.npmrc",
            "refused a write to ~/.npmrc (mode workspace): the user can add ~ to sandbox.write",
        ),
        (
            "workspace",
            "cat ~/.ssh/key",
            "⚠ the sandbox refused to read ~/.ssh/key (mode workspace): the user can take it off",
        ),
        ("read-only", "echo x > own", "own (mode read-only): only $TMPDIR is writable"),
        ("workspace", "cd ~ && echo x > target", "refused a write to ~/target (mode workspace)"),
        (
            "workspace",
            "/usr/bin/python3 -c 'import os; os.makedirs(os.path.expanduser(\"~/new/er\"))'",
            "refused a write to ~/new (mode workspace): the user can add ~ to",
        ),
    ] {
        for variables in [&[][..], &[LANDLOCK_ALONE]] {
            let client = client_with(&env, &format!("sandbox: {{mode: {mode}}}\n"), variables);
            let result = client.run(command);
            assert!(result.text.contains(sentence), "{}", result.text);
        }
    }
    let client = client_in(&env, "workspace");
    // What is refused anyway is not the sandbox's.
    for command in [
        "cat /no/such/file",
        "cat /etc/shadow/x",
        "false",
        "echo 'cannot: /a: Permission denied'",
        "echo x > /proc/version",
        "echo x > /tmp",
        "touch ~/no/such/directory; cat ~/target | grep -q no",
    ] {
        let text = client.run(command).text;
        assert!(!text.contains("the sandbox"), "{text}");
    }
    let guessed = client.run("tar cf a.tar own && tar xf a.tar -C ~").text;
    assert!(guessed.contains("refused a write to ~ (mode workspace)"), "{guessed}");
    let mounts = client.run("unshare -m true").text;
    assert!(mounts.contains("no namespace is made"), "{mounts}");
    for command in [
        "curl -sS http://example.org || exit 1",
        "curl -sS http://127.0.0.1:9",
        "/usr/bin/python3 -c 'import socket; socket.socket()'",
        "/usr/bin/python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:9\")'",
    ] {
        let text = client.call("zsh", json!({"command": command, "sandbox": "network=off"})).text;
        assert!(text.contains("the sandbox has network=off"), "{text}");
    }
}

#[test]
fn what_cannot_be_enforced_is_refused_unless_the_user_accepts_less() {
    let env = home();
    let lowered = [("ZSH_TOOL_SANDBOX_LOWERED", "abi=0 namespaces=none")];
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &lowered);
    let refused = client.run("echo ran");
    assert!(refused.is_error && refused.text.contains("no Landlock"), "{}", refused.text);
    assert!(refused.text.contains("sandbox.best_effort"), "{}", refused.text);
    let health = client.call("zsh_health", json!({})).text;
    assert!(health.contains("commands are refused, since the sandbox"), "{health}");
    let yaml = "sandbox: {mode: workspace, best_effort: true}\n";
    let client = client_with(&env, yaml, &lowered);
    let task = client.start_task("echo ran; sleep 60");
    let ran = client.poll(&task, json!({"until": "ran", "listen": 20}));
    client.kill_task(&task);
    let end = client.poll_to_end(&task);
    for result in [&ran, &end] {
        assert!(
            result
                .text
                .contains("the sandbox is not whole: files are protected by own mounts alone"),
            "{}",
            result.text
        );
        for open in ["denied paths can be read", "can be signalled"] {
            assert!(result.text.contains(open), "{}", result.text);
        }
    }
}

#[test]
fn what_each_kernel_can_do_is_enforced_or_refused_and_said() {
    // A kernel's version of Landlock, whether commands run without own mounts, and whether signals
    // are kept inside.
    for (version, runs, keeps_signals) in
        [(1, false, false), (2, false, false), (3, true, false), (4, true, false), (6, true, true)]
    {
        let env = home();
        let lowered = format!("abi={version} namespaces=none");
        let variables = [("ZSH_TOOL_SANDBOX_LOWERED", lowered.as_str())];
        let client = client_with(&env, "sandbox: {mode: workspace, network: off}\n", &variables);
        let health = client.call("zsh_health", json!({})).text;
        let result = client.run("echo ran");
        assert_eq!(result.is_error, !runs, "{version}: {}", result.text);
        if !runs {
            assert!(result.text.contains("can be emptied"), "{version}: {}", result.text);
            assert!(health.contains("commands are refused"), "{version}: {health}");
            continue;
        }
        let says_signals = health.contains("signals to your other processes");
        assert_eq!(says_signals, !keeps_signals, "{version}: {health}");
        for attempt in [
            "echo x > ~/target",
            ": > ~/target",
            "mv ~/target $TMPDIR/t",
            "cat ~/.ssh/key",
            "/usr/bin/python3 -c 'import socket; socket.socket()'",
        ] {
            let result = client.run(&format!("{attempt} && echo {DONE}"));
            assert_refused(&result, &format!("{version}: {attempt}"));
        }
        let text = fs::read_to_string(env.path("home/target")).expect("the file is there");
        assert_eq!(text, "before\n", "{version}");
    }
}

#[test]
fn wrong_settings_refuse_every_command() {
    let env = home();
    let client = client_with(&env, "sandbox: {mode: workspac}\n", &[]);
    let refused = client.run("echo ran");
    assert!(refused.is_error, "{}", refused.text);
    assert!(
        refused.text.contains("sandbox.mode") && refused.text.contains("no command is started")
    );
    assert!(client.call("zsh_health", json!({})).text.contains("no command is started"));
    let exec = ran(&env, &["exec", "--", "echo ran"]);
    assert_eq!((exec.code, exec.text().as_str()), (125, ""), "{}", exec.stderr);
}

#[test]
fn exec_has_the_sandbox_and_stays_inside() {
    let env = home();
    let ended = ran(&env, &["exec", "--sandbox", "workspace", "--", "echo x > ~/target"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("sandbox=workspace"), "{}", ended.stderr);
    assert!(ended.stderr.contains("refused a write to ~/target"), "{}", ended.stderr);
    let client = client_in(&env, "workspace");
    let program = binary();
    let inner = format!("{} exec -- 'echo x > ~/target && echo {DONE}'", program.display());
    assert_refused(&client.run(&inner), "exec inside");
    let looser = format!("{} exec --sandbox off -- 'echo {DONE}'", program.display());
    let result = client.run(&looser);
    assert!(result.output().contains("looser"), "{}", result.text);
    assert_eq!(fs::read_to_string(env.path("home/target")).expect("a file"), "before\n");
}

#[test]
fn detached_tasks_keep_it_across_servers() {
    let env = home();
    let client = client_in(&env, "workspace");
    let command = "read -r line; echo x > ~/target && echo IT WORKED; echo over";
    let arguments = json!({"command": command, "detach": true, "stdin_open": true});
    let started = client.call("zsh", arguments);
    assert!(started.text.contains("sandbox=workspace"), "{}", started.text);
    let task = started.task_id();
    client.close_stdin();
    client.wait_exit(PATIENCE);
    let later = env.client();
    later.call("zsh_send", json!({"task_id": task, "input": "go", "listen": 5}));
    let end = later.poll(&task, json!({"wait_for": "end", "listen": 25, "full_output": true}));
    assert!(end.text.contains("over"), "{}", end.text);
    assert_refused(&end, "a detached task");
}

#[test]
fn the_control_socket_is_closed_to_sandboxed_processes() {
    let env = home();
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[LANDLOCK_ALONE]);
    let task = client.start_until("echo ready; cat", "ready");
    let program = binary();
    let result = client.run(&format!("{} kill {task} && echo {DONE}", program.display()));
    assert_refused(&result, "kill");
    // The directory is not readable, but the path of the socket is easy to find out.
    let attempt = format!(
        "/usr/bin/python3 -c 'import glob, socket, sys
made = socket.socket(socket.AF_UNIX)
made.connect(sys.argv[1])
print(made.recv(1000).decode())' {}/servers/*/control.sock",
        env.path("state").display()
    );
    let result = client.run(&attempt);
    assert!(result.output().contains("closed to sandboxed processes"), "{}", result.text);
    let hidden = client_in(&env, "workspace");
    let result = hidden.run(&attempt);
    assert!(result.output().contains("no matches found"), "{}", result.text);
    client.kill_task(&task);
}

#[test]
fn a_host_gets_the_sandbox_of_the_server() {
    let env = home();
    let directory = env.work();
    let binaries = binary();
    let binaries = binaries.parent().expect("a folder");
    env.configure(&format!(
        "hosts:\n  there: {{command: [env, -u, ZSH_TOOL_SANDBOX_MODE], directory: {}, \
         binary_directory: {}, install: never}}\n",
        directory.display(),
        binaries.display()
    ));
    let mut server = env.serve();
    server.env("ZSH_TOOL_SANDBOX_MODE", "workspace");
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    let command = format!("echo x > ~/target && echo {DONE}");
    let result = client.call("zsh", json!({"command": command, "host": "there"}));
    assert_refused(&result, "a host");
    assert!(result.text.contains("sandbox=workspace"), "{}", result.text);
    let looser = json!({"command": "true", "host": "there", "sandbox": "off"});
    assert!(client.call("zsh", looser).is_error);
    let mut exec = zsh_tool(&env, &["exec", "--host", "there", "--", &command]);
    exec.env("ZSH_TOOL_SANDBOX_MODE", "workspace");
    let ended = run(exec);
    assert!(!ended.text().contains(DONE), "{}", ended.stderr);
    assert!(ended.stderr.contains("sandbox=workspace"), "{}", ended.stderr);
}

#[test]
fn a_linked_worktree_commits_to_its_repository() {
    let env = home();
    let git = "git -c user.name=a -c user.email=a@b";
    let made = format!(
        "cd ~ && mkdir main && cd main && git init -q && {git} commit -q --allow-empty -m one && \
         git worktree add -q ../linked"
    );
    let outside = env.client();
    let result = outside.run(&made);
    assert_eq!(result.status(), "completed", "{}", result.text);
    env.configure("sandbox: {mode: workspace}\n");
    let mut server = env.serve();
    server.env("CLAUDE_PROJECT_DIR", env.path("home/linked"));
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    let result = client.run(&format!(
        "echo a > a && git add a && {git} commit -q -m two && git log --oneline | wc -l"
    ));
    assert_eq!(result.output().trim(), "2", "{}", result.text);
    for attempt in
        ["echo x > ~/main/.git/hooks/pre-commit", "echo x > ~/main/.git/config", "echo x > .git"]
    {
        assert_refused(&client.run(&format!("{attempt} && echo {DONE}")), attempt);
    }
    // A file that names a directory which does not name it back adds nothing.
    fs::remove_file(env.path("home/linked/.git")).expect("a file");
    let named = format!("gitdir: {}\n", env.path("home/.ssh").display());
    fs::write(env.path("home/linked/.git"), named).expect("a file");
    let mut server = env.serve();
    server.env("CLAUDE_PROJECT_DIR", env.path("home/linked"));
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    assert_refused(&client.run(&format!("echo x > ~/.ssh/new && echo {DONE}")), "a false link");
}

#[test]
fn a_home_that_is_the_project_keeps_what_shells_obey() {
    let env = home();
    fs::write(env.path("home/.zshrc"), "# own\n").expect("a file");
    env.configure("sandbox: {mode: workspace}\n");
    let mut server = env.serve();
    server.env("CLAUDE_PROJECT_DIR", env.path("home"));
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    let works = client.run("echo x > new && cat new && echo y > target && mkdir d && mv new d/");
    assert_eq!((works.output().as_str(), works.status()), ("x", "completed"), "{}", works.text);
    // What is inside of the project is covered, so that programs call it missing.
    let covered = client.run("cat ~/.ssh/key").text;
    assert!(covered.contains("the sandbox refused to read ~/.ssh/key"), "{covered}");
    for attempt in [
        "echo x >> ~/.zshrc",
        "mv ~/.zshrc ~/z",
        "cat ~/.ssh/key",
        "echo x > ~/.ssh/new",
        "mv ~/.ssh ~/s",
        "echo 'sandbox: {mode: off}' > ~/.config/zsh-tool/config.yaml",
        "mv ~/.config ~/c",
    ] {
        assert_refused(&client.run(&format!("{attempt} && echo {DONE}")), attempt);
    }
}

#[test]
fn everything_may_be_writable_while_the_network_is_closed() {
    let env = home();
    let client = client_in(&env, "workspace, network: off, write: [/], deny_read: [~/.ssh]");
    let works = client.run("echo x > ~/target && cat ~/target");
    assert_eq!(works.output(), "x", "{}", works.text);
    assert_refused(&client.run("cat ~/.ssh/key"), "a denied path");
}

#[test]
fn terminals_sessions_and_ends_work_as_without() {
    for (kind, _env, client) in each_kind("workspace") {
        let tty = json!({"command": "test -t 0 && stty size && echo a > /dev/tty && \
            /usr/bin/python3 -c 'import pty; pty.spawn([\"echo\", \"spawned\"])'", "pty": true});
        let result = client.call("zsh", tty);
        let output = result.output();
        assert!(output.contains("24 80") && output.contains("spawned"), "{kind}: {}", result.text);
        let repl = json!({"command": "/usr/bin/python3 -q", "pty": true, "yield_after": 5});
        let repl = client.call("zsh", repl);
        assert!(repl.text.contains("WAITING FOR INPUT"), "{kind}: {}", repl.text);
        let answer = json!({"task_id": repl.task_id(), "input": "6*7"});
        let answer = client.call("zsh_send", answer);
        assert!(answer.output().contains("42"), "{kind}: {}", answer.text);
        client.kill_task(&repl.task_id());
        client.call("zsh", json!({"command": "cd /usr; export A=b", "session": "s"}));
        let next = client.call("zsh", json!({"command": "echo $PWD $A", "session": "s"}));
        assert_eq!(next.output(), "/usr b", "{kind}: {}", next.text);
        let job = client.run("sleep 100 & kill %1; wait; echo done");
        assert!(job.output().contains("done"), "{kind}: {}", job.text);
        let sleep = UniqueSleep::new();
        let left = client.run(&format!("setsid {sleep} & {sleep} &"));
        assert!(left.text.contains("still running"), "{kind}: {}", left.text);
        client.kill_all_of(&left.task_id());
        sleep.assert_gone();
        let piped = client.run("false | true; ls /proc/self/fd > /dev/stdout; echo a > /dev/null");
        assert_eq!(piped.status(), "completed", "{kind}: {}", piped.text);
        let long = "x".repeat(140_000);
        let script = client.run(&format!(": {long}; echo long"));
        assert!(script.output().contains("long"), "{kind}: {}", script.footer());
    }
}

#[test]
fn what_codex_allows_its_own_commands_counts_where_it_is_tighter() {
    let env = home();
    let client = env.client();
    let call = |state: Value, command: &str| {
        let params = json!({
            "name": "zsh",
            "arguments": {"command": command, "yield_after": 25},
            "_meta": {"codex/sandbox-state-meta": state},
        });
        client.request("tools/call", params).tool_result()
    };
    let profile = |entries: Value| {
        json!({
            "permissionProfile": {
                "type": "managed",
                "file_system": {"type": "restricted", "entries": entries},
                "network": "restricted",
            },
            "sandboxCwd": format!("file://{}", env.work().display()),
        })
    };
    let at = |kind: &str, access: &str| json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access});
    let workspace = profile(json!([at("root", "read"), at("project_roots", "write")]));
    let result = call(workspace.clone(), "echo x > new && echo x > ~/new2");
    assert!(result.text.contains("sandbox=workspace network=off"), "{}", result.text);
    assert!(env.work().join("new").exists() && !env.path("home/new2").exists());
    let read_only = profile(json!([at("root", "read")]));
    let result = call(read_only, "echo x > other");
    assert!(result.text.contains("sandbox=read-only"), "{}", result.text);
    let minimal = profile(json!([at("minimal", "read")]));
    let refused = call(minimal, "echo ran");
    assert!(refused.is_error && refused.text.contains("only listed paths"), "{}", refused.text);
    let free = call(json!({"permissionProfile": {"type": "disabled"}}), "echo x > ~/new3");
    assert!(!free.text.contains("sandbox="), "{}", free.text);
    env.configure("sandbox: {mode: read-only}\n");
    let client = env.client();
    let params = json!({
        "name": "zsh",
        "arguments": {"command": "echo x > more"},
        "_meta": {"codex/sandbox-state-meta": workspace},
    });
    let result = client.request("tools/call", params).tool_result();
    assert!(result.text.contains("sandbox=read-only network=off"), "{}", result.text);
}

#[test]
fn health_doctor_and_configuration_show_it() {
    let env = home();
    let client = client_in(&env, "workspace");
    let health = client.call("zsh_health", json!({}));
    assert!(health.text.contains("sandbox    workspace, enforced by Landlock"), "{}", health.text);
    let doctor = run(zsh_tool(&env, &["doctor"])).text();
    assert!(doctor.contains("workspace, enforced by Landlock"), "{doctor}");
    let config = ran(&env, &["config"]).text();
    assert!(config.contains("sandbox.mode") && config.contains("~/.ssh"), "{config}");
    let help = ran(&env, &["help", "sandbox"]).text();
    assert!(help.contains("What it does not stop"), "{help}");
}

/// Tools that people use, each with what it must be able to do.
const TOOLS: [(&str, &str); 12] = [
    (
        "git",
        "git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty \
         -m one && cd .. && git clone -q repo copy && cd copy && git fetch -q && git log --oneline | wc -l",
    ),
    (
        "make",
        "printf 'all:\\n\\tcc -o hello hello.c\\n' > Makefile; printf 'int main(){return 0;}' > hello.c; make -s && ./hello",
    ),
    (
        "cargo",
        "cargo init -q --name hello --vcs none rust && cd rust && cargo build -q --offline && cargo run -q --offline",
    ),
    (
        "go",
        "mkdir go && cd go && printf 'module a\\n\\ngo 1.18\\n' > go.mod && printf 'package main\\nfunc main() {}\\n' > a.go && go build -o a && ./a",
    ),
    (
        "python3",
        "/usr/bin/python3 -m venv venv && venv/bin/python -c 'import multiprocessing as m; m.Lock()'",
    ),
    ("pip", "/usr/bin/python3 -m venv venv2 && venv2/bin/pip --version"),
    ("pytest", "printf 'def test(): pass\\n' > test_a.py && pytest -q test_a.py"),
    (
        "npm",
        "mkdir js && cd js && printf '{\"name\":\"a\",\"version\":\"1.0.0\"}' > package.json && npm install --offline --no-audit --no-fund",
    ),
    ("tsc", "printf 'let a: number = 1;' > a.ts && tsc a.ts && cat a.js"),
    (
        "node",
        "node -e 'require(\"child_process\").execSync(\"true\"); require(\"fs\").writeFileSync(\"n\", \"\")'",
    ),
    ("vim", "vim -es -u NONE -c 'normal iHello' -c 'wq' note.txt; grep Hello note.txt"),
    ("sqlite3", "sqlite3 a.db 'create table a(b); insert into a values(1); select * from a'"),
];

#[test]
fn tools_that_people_use_work_in_a_workspace() {
    let env = home();
    env.configure("sandbox: {mode: workspace}\ntimeout_max: 600\n");
    // The compilers that rustup has installed are looked up there.
    let own = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let rustup = std::env::var_os("RUSTUP_HOME").map_or(own.join(".rustup"), PathBuf::from);
    let mut server = env.serve();
    server.env("RUSTUP_HOME", rustup);
    // Some are installed for the shapes of processes.
    let shapes = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/shapes");
    let installed = [shapes.join("python/bin"), shapes.join("npm/node_modules/.bin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(&path).chain(installed));
    server.env("PATH", path.expect("paths without colons"));
    let client = Client::start(server, env.path("stderr"));
    client.initialize();
    let mut tried = Vec::new();
    for (tool, command) in TOOLS {
        if client.run(&format!("command -v {tool}")).status() != "completed" {
            continue;
        }
        let arguments = json!({"command": command, "yield_after": 120, "timeout": 300});
        let result = client.call("zsh", arguments);
        let end = client.poll(&result.task_id(), json!({"wait_for": "end", "listen": 120}));
        assert_eq!(end.status(), "completed", "{tool}: {}\n{}", result.text, end.text);
        tried.push(tool);
    }
    assert!(tried.len() >= 8, "only {tried:?} are installed");
}
