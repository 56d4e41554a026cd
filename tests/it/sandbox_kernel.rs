//! What the kernel would let a sandboxed command do to others without files or networks: limits, modes,
//! kinds of sockets, devices, and what services of the same user offer.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{DONE, MODES, assert_refused, client_with, each_kind, home};
use crate::support::processes::{UniqueSleep, wait_until};
use crate::support::program::{run, zsh_tool};
use crate::support::unprivileged;

#[test]
fn limits_of_other_processes_are_not_changed() {
    let sleep = UniqueSleep::new();
    let mut outside = Command::new("sleep")
        .arg(sleep.to_string().split_once(' ').unwrap().1)
        .spawn()
        .expect("the sleep program");
    let change = |pid: &str| {
        format!(
            "/usr/bin/python3 -c 'import os, resource
print(len(resource.prlimit({pid}, resource.RLIMIT_CORE)))
resource.prlimit({pid}, resource.RLIMIT_CORE, (0, 0))' && echo {DONE}"
        )
    };
    for mode in MODES {
        for (kind, _env, client) in each_kind(mode) {
            let others = client.run(&change(&outside.id().to_string()));
            assert_refused(&others, &format!("{mode}, {kind}"));
            assert!(others.output().contains("Operation not permitted"), "{}", others.text);
            assert_refused(&client.run(&change(&client.server_pid().to_string())), kind);
            let own = client.run(&format!("ulimit -c 0 && {}", change("0")));
            assert!(own.output().contains(DONE), "{mode}, {kind}: {}", own.text);
        }
    }
    outside.kill().expect("it lives");
    outside.wait().expect("its end");
}

#[test]
fn no_file_is_made_that_gives_others_the_rights_of_its_owner() {
    let by = |call: &str| {
        format!(
            "/usr/bin/python3 -c 'import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if {call} < 0: raise OSError(ctypes.get_errno(), \"it failed\")'"
        )
    };
    for (kind, env, client) in each_kind("workspace") {
        let attempts = [
            "cp /bin/true a && chmod u+s a".to_owned(),
            "cp /bin/true a && chmod 2755 a".to_owned(),
            "install -m 4755 /bin/true b".to_owned(),
            "mkdir d && chmod g+s d".to_owned(),
            by("os.open(\"c\", os.O_CREAT | os.O_WRONLY, 0o4755)"),
            by("os.open(\".\", os.O_TMPFILE | os.O_WRONLY, 0o4755)"),
            by("libc.creat(b\"e\", 0o4755)"),
            by("libc.mknod(b\"f\", 0o104755, 0)"),
            by("libc.syscall(452, -100, b\"own\", 0o4755, 0)"),
            by("libc.syscall(437, -100, b\"g\", (ctypes.c_uint64 * 3)(0o101, 0o4755, 0), 24)"),
            "setcap cap_chown+ep a".to_owned(),
        ];
        for attempt in attempts {
            let result = client.run(&format!("{attempt} && echo {DONE}"));
            assert_refused(&result, &format!("{kind}: {attempt}"));
        }
        for entry in fs::read_dir(env.work()).expect("the project") {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("its mode").permissions().mode();
            assert_eq!(mode & 0o6000, 0, "{kind}: {}", entry.path().display());
        }
    }
}

#[test]
fn modes_of_ordinary_files_are_set_as_ever() {
    for (kind, _env, client) in each_kind("workspace") {
        let result = client.run(
            "set -e; umask 022; install -m 755 /bin/true t; chmod 640 own; chmod +t .; cp -a t u; \
             tar cf a.tar t own && mkdir x && tar xpf a.tar -C x; git init -q r; \
             install -d -m 700 x/y; print -n > made; stat -c %a x/t x/own u made x/y",
        );
        let modes: Vec<String> = result.output().lines().map(str::to_owned).collect();
        assert_eq!(modes, ["755", "640", "755", "644", "700"], "{kind}: {}", result.text);
    }
}

#[test]
fn no_command_starts_in_a_directory_that_it_may_not_read() {
    for lowered in ["", "namespaces=none"] {
        let env = home();
        let directory = env.work().join("private/sub");
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("key"), "SECRET\n").expect("a file");
        env.configure(&format!(
            "sandbox: {{mode: workspace, deny_read: [{}]}}\n",
            env.work().join("private").display()
        ));
        for arguments in [&["exec", "--cwd"][..], &["exec", "--pty", "--cwd"]] {
            let mut exec = zsh_tool(&env, arguments);
            exec.arg(&directory).args(["--", "cat key"]).env("ZSH_TOOL_SANDBOX_LOWERED", lowered);
            let refused = run(exec);
            assert_eq!(refused.code, 125, "{arguments:?}: {}", refused.stderr);
            assert!(refused.stderr.contains("does not let commands into"), "{}", refused.stderr);
            assert!(!refused.text().contains("SECRET"), "{arguments:?}");
        }
    }
}

#[test]
fn devices_work_in_dev_alone() {
    if !unprivileged::is_root() {
        return;
    }
    let env = home();
    let mut make = env.command("mknod");
    make.arg(env.work().join("zero")).args(["-m", "666", "c", "1", "5"]);
    assert!(make.status().expect("mknod").success());
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    for attempt in ["head -c 1 zero", "echo x > zero"] {
        assert_refused(&client.run(&format!("{attempt} && echo {DONE}")), attempt);
    }
    let usual =
        client.run("head -c 1 /dev/zero | wc -c; echo x > /dev/null && echo y | tee /dev/tty");
    assert!(usual.output().starts_with('1'), "{}", usual.text);
}

#[test]
fn memory_and_queues_of_outside_processes_are_not_in_view() {
    let mut make = Command::new("ipcmk");
    let made = make.args(["-Q", "-p", "0666"]).output().expect("ipcmk");
    let text = String::from_utf8(made.stdout).expect("text");
    let id = text.trim().rsplit(' ').next().expect("an id").to_owned();
    for mode in MODES {
        for (kind, _env, client) in each_kind(mode) {
            if kind != "Landlock alone" {
                let result = client.run(&format!("ipcs -q -i {id} | grep -q mode && echo {DONE}"));
                assert_refused(&result, &format!("{mode}, {kind}"));
            }
        }
    }
    let removed = Command::new("ipcrm").args(["-q", &id]).status().expect("ipcrm");
    assert!(removed.success(), "it is still there");
}

#[test]
fn root_keeps_few_capabilities_whichever_it_has() {
    if !unprivileged::is_root() {
        return;
    }
    const KEPT: u64 = 1 | 1 << 1 | 1 << 3 | 0b1111 << 5 | 1 << 10 | 1 << 18;
    let env = home();
    env.configure("sandbox: {mode: workspace}\n");
    for taken in ["-setpcap", "-sys_time"] {
        let exec = zsh_tool(&env, &["exec", "--", "grep -E '^Cap(Prm|Eff|Inh)' /proc/self/status"]);
        let mut limited = env.command("setpriv");
        limited.args(["--bounding-set", taken, "--inh-caps", taken]).arg(exec.get_program());
        limited.args(exec.get_args()).current_dir(env.work());
        limited.envs(exec.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let result = run(limited);
        assert_eq!(result.code, 0, "{}", result.stderr);
        let text = result.text();
        assert_eq!(text.lines().count(), 3, "{text}");
        for line in text.lines() {
            let set = line.rsplit('\t').next().expect("a set");
            let set = u64::from_str_radix(set, 16).expect("a number");
            assert_eq!(set & !KEPT, 0, "{taken}: {line}");
        }
    }
}

fn connect(path: &Path) -> String {
    format!(
        "/usr/bin/python3 -c 'import socket
socket.socket(socket.AF_UNIX).connect(\"{}\")' && echo {DONE}",
        path.display()
    )
}

#[test]
fn a_directory_of_sockets_is_closed_whatever_becomes_of_it() {
    let env = home();
    let user = fs::metadata(env.work()).expect("the project").uid();
    let directory = env.work().join(format!("tmux-{user}"));
    fs::create_dir(&directory).expect("a directory");
    let first = UnixListener::bind(directory.join("default")).expect("a socket");
    let place = env.work().display().to_string();
    let variables = [("TMUX_TMPDIR", place.as_str())];
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &variables);
    let try_all = || {
        for name in ["default", "new"] {
            assert_refused(&client.run(&connect(&directory.join(name))), name);
            assert_refused(&client.run(&connect(&env.work().join("other").join(name))), name);
        }
    };
    try_all();
    let moved = client.run(&format!("mv tmux-{user} other && echo {DONE}"));
    assert_refused(&moved, "another name");
    let _later = UnixListener::bind(directory.join("new")).expect("a socket");
    drop(first);
    fs::remove_file(directory.join("default")).expect("a socket");
    let _again = UnixListener::bind(directory.join("default")).expect("a socket");
    try_all();
    let own = client.run(&format!(
        "/usr/bin/python3 -c 'import socket
listener = socket.socket(socket.AF_UNIX)
listener.bind(\"tmux-{user}/own\")' && echo made"
    ));
    assert_eq!(own.output(), "made", "{}", own.text);
}

#[test]
fn a_service_that_starts_between_two_commands_is_closed() {
    let env = home();
    let directory = env.path("home/service");
    fs::create_dir(&directory).expect("a directory");
    fs::write(directory.join("pid"), "1\n").expect("a file");
    let socket = directory.join("agent");
    let address = socket.display().to_string();
    let variables = [("SSH_AUTH_SOCK", address.as_str())];
    for mode in MODES {
        let client = client_with(&env, &format!("sandbox: {{mode: {mode}}}\n"), &variables);
        // Missing at the first command, there at the next; and once more, for one that restarts.
        for round in 0..2 {
            assert_eq!(client.run("echo ran").output(), "ran");
            let _listener = UnixListener::bind(&socket).expect("a socket");
            assert_refused(&client.run(&connect(&socket)), &format!("{mode}, {round}"));
            fs::remove_file(&socket).expect("a socket");
        }
    }
}

#[test]
fn the_directory_above_a_closed_socket_keeps_its_name() {
    let env = home();
    let directory = env.work().join("run");
    fs::create_dir(&directory).expect("a directory");
    fs::write(directory.join("pid"), "1\n").expect("a file");
    let socket = directory.join("agent");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    let address = format!("{}/", socket.display());
    let variables = [("SSH_AUTH_SOCK", address.as_str())];
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &variables);
    assert_refused(&client.run(&connect(&socket)), "the socket");
    assert_refused(&client.run(&format!("mv run other && echo {DONE}")), "another name");
    assert_refused(&client.run(&connect(&env.work().join("other/agent"))), "the socket");
}

#[test]
fn sockets_in_a_denied_directory_are_closed() {
    for mode in MODES {
        let env = home();
        let socket = env.path("home/.ssh/control");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let client = client_with(&env, &format!("sandbox: {{mode: {mode}}}\n"), &[]);
        assert_refused(&client.run(&connect(&socket)), mode);
        let _later = UnixListener::bind(env.path("home/.ssh/later")).expect("a socket");
        assert_refused(&client.run(&connect(&env.path("home/.ssh/later"))), mode);
    }
}

#[test]
fn a_socket_that_the_sandbox_closes_is_named() {
    let env = home();
    let socket = env.path("home/docker.sock");
    let _engine = UnixListener::bind(&socket).expect("a socket");
    let address = format!("unix://{}", socket.display());
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[("DOCKER_HOST", &address)]);
    let result = client.run(
        "echo \"Cannot connect to the Docker daemon at $DOCKER_HOST. Is the docker daemon running?\"; \
         false",
    );
    let expected = "the sandbox closes sockets of programs outside of it, such as ~/docker.sock";
    assert!(result.text.contains(expected), "{}", result.text);
}

#[test]
fn the_files_of_other_tasks_are_neither_read_nor_written() {
    for mode in MODES {
        for (kind, env, client) in each_kind(mode) {
            let other = client.start_task("echo SECRET > $TMPDIR/other-$$; cd . && sleep 60; cd .");
            let names = client.run(&format!(
                "cd {}/servers/*/sandbox && until ls -d {other}.report; do sleep 0.1; done",
                env.path("state").display()
            ));
            assert!(names.output().contains("report"), "{mode}, {kind}: {}", names.text);
            for attempt in [
                format!("timeout 5 dd if={other}.report iflag=nonblock && echo {DONE}"),
                format!("echo x > {other}.report && echo {DONE}"),
                format!("rm -f {other}.report && echo {DONE}"),
                format!("cat {other}.tmp/other-*"),
                format!("echo x > {other}.tmp/new && echo {DONE}"),
            ] {
                let place =
                    format!("cd {}/servers/*/sandbox && {attempt}", env.path("state").display());
                assert_refused(&client.run(&place), &format!("{mode}, {kind}: {attempt}"));
            }
            client.kill_task(&other);
        }
    }
}

#[test]
fn a_temporary_directory_goes_however_deep_and_closed_it_is() {
    for (kind, _env, client) in each_kind("read-only") {
        let made = client.run(
            "print $TMPDIR; mkdir $TMPDIR/a && chmod 555 $TMPDIR/a && /usr/bin/python3 -c 'import os
os.chdir(os.environ[\"TMPDIR\"])
for level in range(4000):
    os.mkdir(\"d\")
    os.chdir(\"d\")'",
        );
        assert_eq!(made.status(), "completed", "{kind}: {}", made.text);
        let directory = made.output();
        wait_until("it is removed", || (!Path::new(&directory).exists()).then_some(()));
        assert_eq!(client.run("echo alive").output(), "alive", "{kind}");
    }
}

#[test]
fn what_leads_git_elsewhere_is_kept_or_named() {
    let env = home();
    for path in [".git/modules/part/hooks", ".husky"] {
        fs::create_dir_all(env.work().join(path)).expect("a directory");
    }
    for path in [".git/modules/part/config", ".git/config.worktree"] {
        fs::write(env.work().join(path), "[core]\n").expect("a file");
    }
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    for path in [
        ".git/modules/part/config",
        ".git/modules/part/hooks/post-checkout",
        ".git/config.worktree",
        ".husky/pre-commit",
    ] {
        assert_refused(&client.run(&format!("echo x > {path} && echo {DONE}")), path);
    }
    let made = client.run("echo /tmp/other > .git/commondir");
    assert!(made.text.contains("made while this ran: "), "{}", made.text);
    assert!(made.text.contains(".git/commondir"), "{}", made.text);
}
