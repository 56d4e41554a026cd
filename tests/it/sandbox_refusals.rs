//! What answers say that the sandbox refused a command: only what it has refused, and with the setting or
//! the place that decides it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::sandbox::{LANDLOCK_ALONE, client_with, each_kind, each_kind_with, home};
use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::unprivileged;

const WORKSPACE: &str = "sandbox: {mode: workspace}\n";

/// What an answer says of the sandbox's refusals.
fn said(text: &str) -> String {
    let is_refusal = |line: &&str| {
        line.starts_with('⚠') && line.contains("sandbox") && !line.contains("made while this ran")
    };
    text.lines().filter(is_refusal).collect::<Vec<_>>().join("\n")
}

/// Asserts that the answer has this sentence, or says nothing of the sandbox if that is empty.
fn assert_said(client: &Client, kind: &str, command: &str, sentence: &str) {
    let text = client.run(command).text;
    assert!(text.contains("✘"), "{kind}: {command} should fail: {text}");
    let said = said(&text);
    let is_right = if sentence.is_empty() { said.is_empty() } else { said.contains(sentence) };
    assert!(is_right, "{kind}: {command}: {sentence:?}\n{text}");
}

/// Runs a command outside of any sandbox, in the directory of this test.
fn outside(env: &Env, script: &str) {
    let ran = Command::new("sh").args(["-ec", script]).current_dir(env.path("")).status();
    assert!(ran.expect("a shell").success(), "{script}");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its own");
}

/// A server whose project is the home directory.
fn client_at_home(env: &Env, yaml: &str, variables: &[(&str, &str)]) -> Client {
    let home = env.path("home");
    let mut variables = variables.to_vec();
    variables.push(("CLAUDE_PROJECT_DIR", home.to_str().expect("a plain path")));
    client_with(env, yaml, &variables)
}

#[test]
fn a_denied_path_behind_a_link_is_named() {
    for variables in [&[][..], &[LANDLOCK_ALONE]] {
        let env = home();
        symlink(env.path("home"), env.path("linked")).expect("a link");
        fs::create_dir(env.path("home/elsewhere")).expect("a directory");
        fs::write(env.path("home/elsewhere/key"), "SECRET\n").expect("a file");
        symlink("elsewhere", env.path("home/.aws")).expect("a link");
        let mut all = variables.to_vec();
        let linked = env.path("linked");
        all.push(("HOME", linked.to_str().expect("a plain path")));
        let client = client_with(&env, WORKSPACE, &all);
        let kind = if variables.is_empty() { "with mounts" } else { "Landlock alone" };
        let read = "the sandbox refused to read ~/.ssh/key (mode workspace): the user can take it off \
                    sandbox.deny_read";
        assert_said(&client, kind, "cat ~/.ssh/key", read);
        assert_said(&client, kind, "cat ~/.aws/key", "refused to read ~/.aws/key (mode workspace)");
        let direct = format!("cat {}", env.path("home/.ssh/key").display());
        assert_said(&client, kind, &direct, read);
        let write =
            "refused a write to ~/target (mode workspace): the user can add it to sandbox.write";
        assert_said(&client, kind, "echo x > ~/target", write);
        let own = format!("cat {}/alan.db", env.path("state").display());
        assert_said(&client, kind, &own, "alan.db (mode workspace): it belongs to zsh-tool itself");
        assert_said(&client, kind, "cat ~/.ssh/none", "");
        assert_said(&client, kind, "cat ~/none", "");
    }
}

#[test]
fn what_the_user_keeps_is_told_from_what_is_protected() {
    let yaml = "sandbox: {mode: workspace, write: [~/data], deny_write: [~/data/kept, ~/apart]}\n";
    for variables in [&[][..], &[LANDLOCK_ALONE]] {
        let env = home();
        outside(
            &env,
            "mkdir -p home/data/kept home/data/free home/apart work/.git/hooks; echo a > home/data/kept/a",
        );
        let client = client_with(&env, yaml, variables);
        let kind = if variables.is_empty() { "with mounts" } else { "Landlock alone" };
        let kept = "refused a write to ~/data/kept/a (mode workspace): ~/data/kept is in \
                    sandbox.deny_write, or zsh-tool's own";
        assert_said(&client, kind, "echo x > ~/data/kept/a", kept);
        let apart = "~/apart is in sandbox.deny_write, or zsh-tool's own";
        assert_said(&client, kind, "touch ~/apart/a", apart);
        assert_said(&client, kind, "echo x > ~/data/free/new; false", "");
        let hook =
            if variables.is_empty() { "it is protected, since programs outside" } else { "" };
        assert_said(&client, kind, "echo x > .git/hooks/a; false", hook);
    }
}

#[test]
fn what_git_obeys_is_named_wherever_it_is() {
    let env = home();
    outside(
        &env,
        "cd work && git init -q && git config core.hooksPath tools/hooks && mkdir -p tools/hooks",
    );
    let client = client_with(&env, WORKSPACE, &[]);
    let obeyed = "it is protected, since programs outside";
    assert_said(&client, "written", "echo x > tools/hooks/pre-commit", obeyed);
    assert_said(&client, "moved", "mv tools other", "is protected (zsh-tool help sandbox)");
    outside(&env, "cd work && git config --unset core.hooksPath");
    let lock = "what is made or removed in ~ itself needs all of it in sandbox.write";
    assert_said(&client, "locked", "git config --global a.b c", lock);
    let two = format!("git init {}/one/two", env.path("home").display());
    let make = "the user can make ~/one and add it to sandbox.write";
    assert_said(&client, "two missing", &two, make);
    assert_said(&client, "kernel's", "echo 1 > /proc/self/oom_score_adj", "files of the kernel");
    let gained = "echo 'sudo: The \"no new privileges\" flag is set'; false";
    assert_said(&client, "sudo", gained, "no program gains privileges");
}

#[test]
fn what_begins_an_error_is_no_file() {
    for (kind, env, client) in each_kind_with(|env| {
        let work = env.work();
        fs::write(work.join(".env"), "SECRET\n").expect("a file");
        format!(
            "sandbox: {{mode: workspace, network: off, deny_read: [{}/.env]}}\n",
            work.display()
        )
    }) {
        for line in [
            "git@github.com: Permission denied (publickey).",
            "PermissionError: [Errno 13] Permission denied",
            "remote: Permission denied to me",
            "docker: permission denied while trying to connect",
            "Error: EACCES: permission denied",
            "FAIL test_getaddrinfo",
        ] {
            assert_said(&client, kind, &format!("echo '{line}' >&2; false"), "");
        }
        assert_said(&client, kind, "sqlite3 /opt 'create table t(a)'", "");
        drop(env);
    }
}

#[test]
fn where_nothing_can_be_made_it_is_said_why() {
    let env = home();
    fs::create_dir(env.path("home/free")).expect("a directory");
    let client = client_at_home(&env, WORKSPACE, &[LANDLOCK_ALONE]);
    let why =
        "this system refuses own mounts, and without them nothing is made or removed directly in ~";
    for (command, path) in [
        ("touch ~/new", "~/new"),
        ("git init -q", "~/.git"),
        ("echo x > ~/.bashrc", "~/.bashrc"),
        ("rm ~/target", "~/target"),
        ("mkdir dir", "~/dir"),
        ("/usr/bin/python3 -c 'open(\"new\", \"w\")'", "~/new"),
    ] {
        let sentence =
            format!("the sandbox refused to make, move or remove {path} (mode workspace): {why}");
        assert_said(&client, "Landlock alone", command, &sentence);
    }
    for command in [
        "echo x > ~/target; false",
        "touch ~/free/new; false",
        "touch ~/free/no/new",
        "mount -t tmpfs none ~/free",
    ] {
        assert_said(&client, "Landlock alone", command, "");
    }
    let with_mounts = home();
    let client = client_at_home(&with_mounts, WORKSPACE, &[]);
    assert_said(&client, "with mounts", "touch ~/new && git init -q && false", "");
}

#[test]
fn the_place_to_add_exists() {
    for (kind, env, client) in each_kind("workspace") {
        outside(
            &env,
            "git init -q home/repo; touch home/repo/a; mkdir home/repo/sub; chmod -R a+rwX home",
        );
        for (command, advice) in [
            (
                "touch ~/repo/.git/index.lock",
                "the user can start zsh-tool in ~/repo, or add that to sandbox.write",
            ),
            (
                "git -c safe.directory='*' -C ~/repo add a",
                "the user can start zsh-tool in ~/repo, or add that to sandbox.write",
            ),
            ("touch ~/repo/sub/a.lock", "the user can add ~/repo/sub to sandbox.write"),
            ("mkdir ~/repo/new", "the user can add ~/repo to sandbox.write"),
            ("rm ~/repo/a", "the user can add ~/repo to sandbox.write"),
            ("echo x > ~/repo/a", "(mode workspace): the user can add it to sandbox.write"),
        ] {
            assert_said(&client, kind, command, advice);
        }
        assert_said(&client, kind, "touch ~/repo/none/a.lock", "");
    }
}

#[test]
fn what_is_refused_without_a_sandbox_too_is_not_blamed_on_it() {
    for (kind, env, client) in each_kind("workspace") {
        fs::create_dir(env.path("home/tools")).expect("a directory");
        for name in ["s.sh", "p.sh"] {
            fs::write(env.path("home/tools").join(name), "#!/bin/sh\necho ran\n").expect("a file");
        }
        fs::write(env.path("home/tools/only"), "a\n").expect("a file");
        fs::write(env.work().join("calls"), "#!/bin/sh\n~/tools/p.sh\n").expect("a file");
        set_mode(&env.work().join("calls"), 0o755);
        set_mode(&env.path("home/tools/only"), 0o200);
        let is_ordinary = kind == "an ordinary user" || !unprivileged::is_root();
        if is_ordinary && unprivileged::is_root() {
            outside(&env, "chown -R 65534:65534 home work");
        }
        for command in [
            "~/tools/s.sh",
            "cd ~/tools && ./s.sh",
            "env ~/tools/s.sh",
            "sh -c '~/tools/s.sh'",
            "./calls",
            "~/tools",
        ] {
            assert_said(&client, kind, command, "");
        }
        let write = "refused a write to ~/tools/s.sh (mode workspace)";
        assert_said(&client, kind, "echo x > ~/tools/s.sh", write);
        assert_said(&client, kind, "tee ~/tools/s.sh < /dev/null", write);
        if is_ordinary {
            assert_said(&client, kind, "cat ~/tools/only", "");
            let write = "refused a write to ~/tools/only (mode workspace)";
            assert_said(&client, kind, "echo x > ~/tools/only", write);
            for command in ["kill 1", "sh -c 'kill 1'", "/bin/kill 1", "kill -0 1"] {
                assert_said(&client, kind, command, "");
            }
        }
        let server = client.server_pid();
        let signals = "in a sandbox a command signals only its own processes";
        for command in [format!("kill {server}"), format!("sh -c 'kill -0 {server}'")] {
            assert_said(&client, kind, &command, signals);
        }
    }
}

#[test]
fn a_shell_that_must_not_be_read_is_named() {
    let shell = fs::canonicalize("/bin/sh").expect("a shell");
    for (kind, env, client) in each_kind_with(|env| {
        let (tools, shell) = (env.path("home/tools"), env.path("home/tools/sh"));
        format!(
            "shell: {}\nsandbox: {{mode: workspace, deny_read: [{}]}}\n",
            shell.display(),
            tools.display()
        )
    }) {
        fs::create_dir(env.path("home/tools")).expect("a directory");
        let copy = env.path("home/tools/sh");
        fs::copy(&shell, &copy).expect("a copy");
        let result = client.run("echo ran");
        let expected = "the sandbox (workspace) does not let commands read ";
        assert!(
            result.is_error
                && result.text.contains(expected)
                && result.text.contains("home/tools/sh")
                && result.text.contains("sandbox.deny_read"),
            "{kind}: {}",
            result.text
        );
    }
}

#[test]
fn a_shell_that_cannot_be_started_anyway_is_not_blamed_on_the_sandbox() {
    for (kind, env, client) in each_kind_with(|env| {
        let shell = env.work().join("sh");
        format!("shell: {}\nsandbox: {{mode: workspace, deny_read: [~/.ssh]}}\n", shell.display())
    }) {
        let shell = env.work().join("sh");
        fs::write(&shell, "#!/no/such/interpreter\n").expect("a file");
        set_mode(&shell, 0o755);
        let result = client.run("echo ran");
        assert!(result.is_error && result.text.contains("cannot start"), "{kind}: {}", result.text);
        assert!(!result.text.contains("sandbox"), "{kind}: {}", result.text);
    }
}

#[test]
fn where_a_hidden_link_leads_is_not_told() {
    for (kind, env, client) in each_kind("workspace") {
        outside(&env, "mkdir home/place; echo a > home/place/a; chmod -R a+rwX home/place");
        for (name, target) in [("cur", "../place/a"), ("new", "../place/none"), ("key2", "key")] {
            symlink(target, env.path("home/.ssh").join(name)).expect("a link");
        }
        symlink(env.path("home/.ssh/new"), env.work().join("far")).expect("a link");
        for command in [
            "echo 'cat: ~/.ssh/cur: Permission denied'; false",
            "echo 'cat: ~/.ssh/cur: No such file or directory'; false",
            "echo 'touch: cannot touch ~/.ssh/new: Read-only file system'; false",
            "echo 'touch: cannot touch ~/.ssh/new: Permission denied'; false",
            "echo 'touch: cannot touch far: Read-only file system'; false",
            "echo 'rm: cannot remove ~/.ssh/cur: Device or resource busy'; false",
            "echo 'chmod: changing permissions of ~/.ssh/cur: Operation not permitted'; false",
            "echo 'error connecting to ~/.ssh/cur'; false",
            "cat ~/.ssh/cur; false",
        ] {
            let text = client.run(command).text;
            assert!(!text.contains("place"), "{kind}: {command}: {text}");
        }
        let named = "refused to read ~/.ssh/key2 (mode workspace)";
        assert_said(
            &client,
            kind,
            "ls -d /; echo 'cat: ~/.ssh/key: Permission denied'; false",
            "refused to read ~/.ssh/key (mode workspace)",
        );
        if kind != "Landlock alone" {
            assert_said(&client, kind, "cat ~/.ssh/key2", named);
        }
    }
}

#[test]
fn what_is_busy_is_named_where_a_mount_holds_it() {
    let yaml = "sandbox: {mode: workspace, write: [~/data], deny_write: [~/data/sub/kept]}\n";
    let env = home();
    outside(
        &env,
        "mkdir -p home/data/sub/kept home/.cache/inner; cd work; git init -q; echo a > .mcp.json",
    );
    let client = client_with(&env, yaml, &[]);
    let move_git = "(mode workspace): ";
    for (command, sentence) in [
        ("mv .git x", "the sandbox refused to move or remove "),
        ("mv .git x", move_git),
        ("mv .git x", "in it is protected (zsh-tool help sandbox)"),
        ("sed -i s/a/b/ .git/config", ".git/config (mode workspace): it is protected"),
        ("sed -i s/a/b/ .mcp.json", ".mcp.json (mode workspace): it is protected"),
        ("git config a.b c", ".git/config (mode workspace): it is protected"),
        (
            "mv ~/data/sub ~/data/x",
            "refused to move or remove ~/data/sub (mode workspace): ~/data/sub/kept in it is in \
             sandbox.deny_write",
        ),
        (
            "mv ~/data/sub/kept ~/data/x",
            "refused a write to ~/data/sub/kept (mode workspace): it is in sandbox.deny_write",
        ),
        ("rm -r ~/data", "the sandbox refused"),
        (
            "rmdir ~/.npm",
            "refused to move or remove ~/.npm (mode workspace): what is in it is writable",
        ),
    ] {
        assert_said(&client, "with mounts", command, sentence);
    }
    for command in [
        "echo 'mv: cannot move own: Device or resource busy'; false",
        "echo 'rm: cannot remove /proc: Device or resource busy'; false",
        "echo 'dd: failed to open /dev/null: Device or resource busy'; false",
        "echo 'umask: Device or resource busy'; false",
        "echo 'mv: cannot move /dev/shm: Device or resource busy'; false",
    ] {
        assert_said(&client, "with mounts", command, "");
    }
}

#[test]
fn a_link_between_writable_trees_is_explained() {
    let yaml = "sandbox: {mode: workspace, write: [~/data, ~/other]}\n";
    let env = home();
    outside(&env, "mkdir home/data home/other; echo a > home/data/a; echo b > home/other/b");
    let client = client_with(&env, yaml, &[]);
    let expected =
        "the sandbox refused to link or move ~/data/a to ~/other/a (mode workspace): between";
    for command in [
        "ln ~/data/a ~/other/a",
        "/usr/bin/python3 -c 'import os; os.link(os.environ[\"HOME\"] + \"/data/a\", os.environ[\"HOME\"] + \"/other/a\")'",
        "/usr/bin/python3 -c 'import os; os.rename(os.environ[\"HOME\"] + \"/data/a\", os.environ[\"HOME\"] + \"/other/a\")'",
    ] {
        assert_said(&client, "with mounts", command, expected);
    }
    let outside = "refused to link or move ~/target to ~/data/t (mode workspace)";
    assert_said(&client, "with mounts", "ln ~/target ~/data/t", outside);
    let alone = client_with(&env, yaml, &[LANDLOCK_ALONE]);
    assert_said(&alone, "Landlock alone", "ln ~/target ~/data/t", outside);
    for command in [
        "ln ~/data/a /dev/shm/zsh-tool-none-a",
        "echo 'ln: failed: /proc/version => /tmp/a: Invalid cross-device link'; false",
        "echo \"ln: $HOME/data/b => $HOME/data/a: Invalid cross-device link\"; false",
        "echo 'Invalid cross-device link'; false",
    ] {
        assert_said(&client, "with mounts", command, "");
        if !command.contains("/dev/shm") {
            assert_said(&alone, "Landlock alone", command, "");
        }
    }
}

#[test]
fn a_mode_with_the_rights_of_the_owner_is_explained() {
    for (kind, env, client) in each_kind("workspace") {
        outside(
            &env,
            "mkdir -p work/from/sub work/set; echo a > work/from/sub/a; chmod a+rwX -R work",
        );
        if unprivileged::is_root() && kind == "an ordinary user" {
            outside(&env, "chown -R 65534:65534 work");
        }
        outside(&env, "chmod g+s work/from/sub work/set");
        let copy = "/usr/bin/python3 -c 'import shutil; shutil.copytree(\"from\", \"copy\")'";
        for (command, path) in [
            ("chmod g+s own", "own"),
            ("chmod 4755 own", "own"),
            ("chmod 755 set", "set"),
            ("mkdir -m 2755 made", "made"),
            ("cp -a from copied", "copied/sub"),
            ("rsync -a from/ synced", "synced/sub"),
            (copy, "copy/sub"),
        ] {
            let program = command.split(' ').next().unwrap();
            if client.run(&format!("command -v {program}")).status() != "completed" {
                continue;
            }
            let sentence = format!(
                "work/{path} (mode workspace): no command in it sets the bits set-user-ID and set-group-ID"
            );
            assert_said(&client, kind, command, &sentence);
        }
        for command in [
            "echo \"chmod: changing permissions of 'own': Operation not permitted\"; false",
            "chmod 755 /etc",
            "chown 4711 own && false",
            "chmod 755 none",
        ] {
            let said = said(&client.run(command).text);
            assert!(!said.contains("set-user-ID"), "{kind}: {command}: {said}");
        }
    }
}

#[test]
fn a_project_that_was_entered_through_a_changeable_link_is_explained() {
    let env = home();
    let link =
        std::env::temp_dir().join(format!("zsh-tool-{}", crate::support::env::unique_word()));
    symlink(env.work(), &link).expect("a link");
    let client = client_with(&env, WORKSPACE, &[("PWD", link.to_str().expect("a plain path"))]);
    let expected = format!("the project was entered through {}, a link", link.display());
    assert_said(&client, "with mounts", "touch new", &expected);
    assert_said(
        &client,
        "with mounts",
        "touch ~/new",
        "the user can make it and add it to sandbox.write",
    );
    fs::remove_file(link).expect("the link");
}

#[test]
fn a_closed_device_is_named_as_one() {
    let device = "/dev/kmsg";
    if !Path::new(device).exists() || !unprivileged::is_root() {
        return;
    }
    for variables in [&[][..], &[LANDLOCK_ALONE]] {
        let env = home();
        let client = client_with(&env, WORKSPACE, variables);
        let expected = "the sandbox refused the use of /dev/kmsg (mode workspace)";
        assert_said(&client, "a device", "echo a > /dev/kmsg", expected);
        assert_said(&client, "a device", "echo a > /dev/full", "");
    }
}
