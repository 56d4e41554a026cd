//! Hosts with roots as containers have them: without zsh, without `/proc`, read-only, with a home
//! that is full or does not run programs. The carriers are mount namespaces, as `docker exec` would
//! enter them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::client::{Client, send_signal};
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, assert_none_left, descendants_of, wait_until};
use crate::support::result::ToolResult;
use crate::support::ssh_host::{far_environment, far_home, install, installed};
use crate::support::unprivileged::require_root;

/// A host in a mount namespace of its own, which the script changes first.
fn host(env: &Env, name: &str, changes: &str, more: &str) -> String {
    let script = env.path(&format!("{name}.sh"));
    let enter = format!("set -e; mount --make-rprivate /; {changes}; exec \"$@\"\n");
    fs::write(&script, enter).expect("a script");
    let far = far_environment(env, name).join(", ");
    let script = script.display();
    format!("  {name}: {{command: [unshare, -m, sh, {script}, {far}], linger: 2{more}}}\n")
}

fn started(env: &Env, hosts: &[String]) -> Client {
    require_root();
    env.configure(&format!("hosts:\n{}", hosts.concat()));
    env.client()
}

fn run(client: &Client, host: &str, command: &str) -> ToolResult {
    client.call("zsh", json!({"command": command, "host": host, "yield_after": 45}))
}

#[test]
fn without_zsh_or_proc_and_with_a_read_only_root_commands_run() {
    let env = Env::new();
    let name = |name: &'static str| {
        install(&env, name);
        name
    };
    let home = far_home(&env, "readonly").display().to_string();
    let zsh = "for shell in /bin/zsh* /usr/bin/zsh* /usr/local/bin/zsh*; do \
               if test -e $shell; then mount --bind /dev/null $shell; fi; done";
    let hosts = [
        host(&env, name("nozsh"), zsh, ""),
        host(&env, name("noproc"), "mount -t tmpfs none /proc", ""),
        host(
            &env,
            name("readonly"),
            &format!("mount --bind {home} {home}; mount -o remount,bind,ro {home}"),
            "",
        ),
    ];
    let client = started(&env, &hosts);
    let nozsh = run(&client, "nozsh", "false | true; echo ${BASH_VERSION:+bash}; exit 3");
    assert_eq!(nozsh.output(), "bash", "{}", nozsh.text);
    assert!(nozsh.text.contains("zsh was not found"), "{}", nozsh.text);
    assert!(nozsh.text.contains("exit=3"), "{}", nozsh.text);
    let noproc = run(&client, "noproc", "echo ran; ls /proc | wc -l; exit 4");
    assert_eq!(noproc.output(), "ran\n0", "{}", noproc.text);
    assert!(noproc.text.contains("exit=4"), "{}", noproc.text);
    // Nothing can be written there: the output stays in memory, which the answer says.
    let readonly = run(&client, "readonly", "seq 3; touch ~/file");
    assert!(readonly.output().starts_with("1\n2\n3\n"), "{}", readonly.text);
    assert!(readonly.text.contains("not on disk"), "{}", readonly.text);
    let sleep = UniqueSleep::new();
    for host in ["nozsh", "noproc", "readonly"] {
        let command = json!({"command": sleep.to_string(), "host": host, "yield_after": 0});
        let task = client.call("zsh", command).task_id();
        sleep.wait_for(1);
        let killed = client.kill_task(&task);
        assert!(
            killed.text.contains("gone") || killed.text.contains("no survivors"),
            "{}",
            killed.text
        );
        sleep.assert_gone();
    }
}

#[test]
fn where_the_program_cannot_be_installed_the_error_says_why_and_another_directory_mends_it() {
    let env = Env::new();
    let other = env.path("other");
    let fake = env.path("fake");
    fs::create_dir_all(&fake).expect("a directory");
    fs::write(fake.join("uname"), "#!/bin/sh\necho Linux riscv64\n").expect("a program");
    fs::set_permissions(fake.join("uname"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let mount = |name: &str, options: &str| {
        let home = far_home(&env, name);
        format!("mount -t tmpfs -o {options} none {}", home.display())
    };
    let elsewhere = format!(", binary_directory: {}", other.display());
    let hosts = [
        host(&env, "noexec", &mount("noexec", "noexec"), ""),
        host(&env, "full", &mount("full", "size=1m"), ""),
        host(&env, "mended", &mount("mended", "noexec"), &elsewhere),
        host(&env, "riscv", &format!("PATH={}:$PATH", fake.display()), ""),
    ];
    let client = started(&env, &hosts);
    for (host, reasons) in [
        ("noexec", ["does not run there", "binary_directory"]),
        ("full", ["No space left", "binary_directory"]),
        ("riscv", ["no zsh-tool for Linux riscv64", "binary_directory"]),
    ] {
        let failed = run(&client, host, "echo ran");
        assert_eq!(failed.raw["isError"], json!(true), "{}", failed.text);
        let named = format!("host {host} cannot be reached");
        assert!(failed.text.starts_with(&named), "{}", failed.text);
        assert!(reasons.iter().all(|reason| failed.text.contains(reason)), "{}", failed.text);
    }
    assert_eq!(run(&client, "mended", "echo ran").output(), "ran");
    assert!(other.join("zsh-tool").is_file());
}

#[test]
fn whatever_ends_an_installation_nothing_half_installed_is_run() {
    let env = Env::new();
    let stop = env.named_pipe("stop");
    // A carrier through which only the beginning of the program comes, and then nothing.
    let part = env.path("part.sh");
    let far = far_environment(&env, "far").join(" ");
    let cut = format!(
        "if test -e {0}; then exec \"$@\"; fi; touch {0}; \
         {{ dd bs=65536 count=40 status=none; read -r wait <{1}; }} | {far} sh\n",
        env.path("begun").display(),
        stop.display()
    );
    fs::write(&part, cut).expect("a script");
    let words = far_environment(&env, "far").join(", ");
    env.configure(&format!("hosts: {{build1: {{command: [sh, {}, {words}]}}}}\n", part.display()));
    let client = env.client();
    let first = client.call_async("zsh", json!({"command": "echo ran", "host": "build1"}));
    let folder = installed(&env, "far");
    let folder = folder.parent().expect("a folder");
    wait_until("a part has come", || {
        let found = fs::read_dir(folder).into_iter().flatten().flatten();
        found
            .filter_map(|entry| entry.metadata().ok())
            .any(|file| file.len() > 1_000_000)
            .then_some(())
    });
    let below = descendants_of(client.pid()).into_iter();
    let carriers: Vec<_> = below.filter(|process| process.arguments.contains("part.sh")).collect();
    carriers.iter().for_each(|process| send_signal("KILL", process.pid));
    let failed = first.tool_result();
    assert_eq!(failed.raw["isError"], json!(true), "{}", failed.text);
    assert!(!installed(&env, "far").exists());
    // Two servers install at once.
    let other = env.client();
    let command = json!({"command": "echo ran", "host": "build1", "yield_after": 45});
    let calls = [client.call_async("zsh", command.clone()), other.call_async("zsh", command)];
    for call in calls {
        let ran = call.tool_result();
        assert_eq!(ran.output(), "ran", "{}", ran.text);
    }
    for server in [&client, &other] {
        server.close_stdin();
        server.wait_exit(std::time::Duration::from_secs(20));
    }
    assert_none_left(env.mark());
}
