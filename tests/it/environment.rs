//! What commands start with: the environment of a login shell, the files of Claude Code's hooks,
//! the variables of direnv and mise.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::{Env, binary, unique_word};
use crate::support::processes::processes_with;

fn with_start_file(env: &Env, name: &str, text: &str) {
    fs::create_dir_all(env.path("zdotdir")).expect("a directory");
    fs::write(env.path("zdotdir").join(name), text).expect("a start file");
}

fn with_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a program");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

#[test]
fn commands_start_with_what_a_noisy_login_shell_sets_and_it_runs_once() {
    let env = Env::new();
    env.configure("environment: login\n");
    let count = env.path("count");
    let start_file = |value: &str| {
        format!(
            "print noise; print -u2 noise; echo x >>{}; export FROM_RC={value} EMPTY= LINES_OF=$'a\\nb'\n\
             alias env=false printf=false; local_one=1; path=(/of/the/user $path); unset DROPPED\n\
             read -t 1 answer; setopt errexit; cd /; false\n",
            count.display()
        )
    };
    with_start_file(&env, ".zshrc", &start_file("first"));
    with_start_file(&env, ".zlogout", "print bye\n");
    let mut serve = env.serve();
    serve.env("DROPPED", "1").env("CLIENT_ONLY", "1");
    serve.env("PATH", format!("{}:/of/the/client", std::env::var("PATH").expect("PATH")));
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let show = "echo $FROM_RC/${EMPTY-unset}/${LINES_OF//$'\\n'/+}/${DROPPED-unset}/$CLIENT_ONLY/\
                ${local_one-none}/$PWD; echo $path[1] $path[-1]; alias env";
    let first = client.run(show);
    let expected = |value: &str| {
        let work = env.work();
        format!("{value}//a+b/unset/1/none/{}\n/of/the/user /of/the/client", work.display())
    };
    assert_eq!(first.output(), expected("first"), "{}", first.text);
    assert_eq!(client.run(show).output(), expected("first"));
    assert_eq!(fs::read_to_string(&count).expect("the count"), "x\n");
    with_start_file(&env, ".zshrc", &start_file("another"));
    // Two at once wait for the same shell.
    let running = [client.call_async("zsh", json!({"command": show, "yield_after": 30}))]
        .into_iter()
        .chain([client.call_async("zsh", json!({"command": show, "yield_after": 30}))]);
    for running in running.collect::<Vec<_>>() {
        assert_eq!(running.tool_result().output(), expected("another"));
    }
    assert_eq!(fs::read_to_string(&count).expect("the count"), "x\nx\n");
    // A detached command starts with it too, and its shim asks no shell for it.
    let detached = client.call("zsh", json!({"command": show, "detach": true, "yield_after": 30}));
    assert_eq!(detached.output(), expected("another"), "{}", detached.text);
    assert_eq!(fs::read_to_string(&count).expect("the count"), "x\nx\n");
}

#[test]
fn a_login_shell_that_fails_is_named_once_and_the_clients_environment_serves() {
    let env = Env::new();
    env.configure("environment: login\n");
    with_start_file(&env, ".zshrc", "export FROM_RC=1; exit 3\n");
    let client = env.client();
    let first = client.run("echo ${FROM_RC-unset}");
    assert_eq!(first.output(), "unset");
    assert!(
        first.text.contains("environment: login") && first.text.contains(".zshrc"),
        "{}",
        first.text
    );
    let second = client.run("echo ${FROM_RC-unset} again");
    assert!(!second.text.contains("environment: login"), "{}", second.text);
    with_start_file(&env, ".zshrc", "export FROM_RC=mended\n");
    assert_eq!(client.run("echo $FROM_RC").output(), "mended");
}

#[test]
fn a_login_shell_that_is_slow_is_ended_and_not_asked_again() {
    let env = Env::new();
    env.configure("environment: login\n");
    let word = unique_word();
    with_start_file(&env, ".zshrc", &format!("(exec -a {word} sleep 60) & sleep 60\n"));
    let client = env.client();
    let begun = Instant::now();
    let first = client.run("echo ran");
    assert_eq!(first.output(), "ran");
    assert!(first.text.contains("did not end within 5 s"), "{}", first.text);
    assert!(begun.elapsed() >= Duration::from_secs(5));
    assert_eq!(processes_with(&word), []);
    let begun = Instant::now();
    assert_eq!(client.run("echo again").output(), "again");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn listed_secrets_of_start_files_reach_no_command_and_doctor_shows_the_path() {
    let env = Env::new();
    env.configure("environment: login\nsecrets:\n  KEY: {env: LISTED_KEY}\n");
    with_start_file(
        &env,
        ".zshrc",
        "export LISTED_KEY=value-of-the-key OTHER=1; path+=(/added/by/rc)\n",
    );
    assert_eq!(env.client().run("echo ${LISTED_KEY-unset} $OTHER").output(), "unset 1");
    let doctor = env.command(binary()).arg("doctor").output().expect("doctor");
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(said.contains("a login shell adds /added/by/rc for commands"), "{said}");
}

#[test]
fn a_listed_secret_of_a_start_file_does_not_reach_direnv() {
    let env = Env::new();
    env.configure(
        "environment: login\nenvironment_tools: [direnv]\nsecrets:\n  KEY: {env: LISTED_KEY}\n",
    );
    with_start_file(&env, ".zshrc", "export LISTED_KEY=value-of-the-key\n");
    let text = "export SEEN=${LISTED_KEY-nothing} LISTED_KEY=again\n";
    fs::write(env.work().join(".envrc"), text).expect("a file");
    let allowed = env.command("direnv").arg("allow").output().expect("direnv");
    assert!(allowed.status.success(), "{allowed:?}");
    let ran = env.client().run("echo $SEEN ${LISTED_KEY-unset}");
    assert_eq!(ran.output(), "nothing unset", "{}", ran.text);
}

#[test]
fn files_of_the_clients_hooks_are_sourced_before_each_command() {
    let env = Env::new();
    let of_session = |name: &str| {
        let directory = env.path("home/.claude/session-env").join(name);
        fs::create_dir_all(&directory).expect("a directory");
        directory
    };
    let (first, second) = (of_session("first"), of_session("second"));
    let mut serve = env.serve();
    serve.env("CLAUDE_CODE_SESSION_ID", "first");
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let show = "echo ${FROM_HOOK-unset}";
    assert_eq!(client.run(show).output(), "unset");
    fs::write(first.join("sessionstart-hook-0.sh"), "export FROM_HOOK=0\n").expect("a file");
    fs::write(first.join("sessionstart-hook-1.sh"), "FROM_HOOK+=1\n").expect("a file");
    fs::write(first.join("cwdchanged-hook-0.sh"), "").expect("a file");
    fs::write(first.join("other.sh"), "FROM_HOOK+=other\n").expect("a file");
    assert_eq!(client.run(show).output(), "01");
    // Another session of the same client begins, which this test stands for.
    fs::write(second.join("sessionstart-hook-0.sh"), "export FROM_HOOK=second\n").expect("a file");
    let begin = |pid: u32| {
        let mut hook = env.command(binary());
        hook.args(["hook", "session-start"]).env("CLAUDE_PID", pid.to_string());
        hook.env("CLAUDE_ENV_FILE", second.join("sessionstart-hook-0.sh"));
        let ended = hook.output().expect("the hook");
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    };
    begin(std::process::id());
    assert_eq!(client.run(show).output(), "second");
    // The note of a client that has ended is removed by the next one.
    let mut ended = Command::new("true").spawn().expect("a process");
    begin(ended.id());
    ended.wait().expect("its end");
    begin(std::process::id());
    let notes = fs::read_dir(env.path("state/clients")).expect("the notes");
    assert_eq!(notes.count(), 1);
    let detached = client.call("zsh", json!({"command": show, "detach": true, "yield_after": 30}));
    assert_eq!(detached.output(), "second", "{}", detached.text);
    // Without the variables that Claude Code sets, the hook does nothing.
    let nothing = env.command(binary()).args(["hook", "session-start"]).output().expect("the hook");
    assert!(nothing.status.success() && nothing.stderr.is_empty(), "{nothing:?}");
}

#[test]
fn direnv_adds_its_variables_where_it_is_allowed() {
    let env = Env::new();
    env.configure("environment_tools: [direnv]\n");
    let client = env.client();
    let project = env.work().join("project");
    fs::create_dir_all(project.join("below")).expect("a directory");
    let count = env.path("count");
    let envrc = |value: &str| {
        let text =
            format!("echo x >>{}; export OF_PROJECT={value}; PATH_add bin\n", count.display());
        fs::write(project.join(".envrc"), text).expect("a file");
        // direnv compares modification times in seconds.
        let file = fs::File::options().append(true).open(project.join(".envrc")).expect("a file");
        let seconds = value.len() as u64;
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
    };
    let allow = || {
        let allowed = env.command("direnv").arg("allow").current_dir(&project).output();
        assert!(allowed.expect("direnv").status.success());
    };
    let show = |directory: &Path| {
        let cwd = directory.to_string_lossy();
        client.call("zsh", json!({"command": "echo ${OF_PROJECT-unset} ${${path[1]:h}:t}", "cwd": cwd, "yield_after": 30}))
    };
    envrc("first");
    let blocked = show(&project);
    assert!(blocked.output().starts_with("unset "), "{}", blocked.text);
    assert!(blocked.text.contains("`direnv export json`"), "{}", blocked.text);
    assert!(blocked.text.contains("is not allowed (`direnv allow`)"), "{}", blocked.text);
    assert!(!show(&project).text.contains("direnv"));
    allow();
    assert_eq!(show(&project).output(), "first project");
    assert_eq!(show(&project.join("below")).output(), "first project");
    assert_eq!(show(&project).output(), "first project");
    let evaluated = || fs::read_to_string(&count).expect("the count").lines().count();
    // Once for each directory that a command starts in.
    assert_eq!(evaluated(), 2);
    assert!(show(&env.work()).output().starts_with("unset "));
    envrc("second");
    allow();
    assert_eq!(show(&project).output(), "second project");
    assert_eq!(evaluated(), 3);
    // Changed, and not allowed: what it had set is gone.
    envrc("the_third");
    let blocked = show(&project);
    assert!(blocked.output().starts_with("unset "), "{}", blocked.text);
}

#[test]
fn mise_is_asked_for_the_commands_directory() {
    let env = Env::new();
    env.configure("environment_tools: [direnv, mise]\n");
    let bin = env.path("bin");
    fs::create_dir_all(&bin).expect("a directory");
    // Prints what mise prints.
    with_program(
        &bin.join("mise"),
        "#!/bin/sh\n[ \"$*\" = 'env --json' ] || exit 9\n\
         case $PWD in */good) echo '{\"OF_MISE\": \"20\", \"CLIENT_ONLY\": null}' ;; */odd) echo '[1' ;; esac\n",
    );
    // A PATH on which direnv is missing.
    let which = Command::new("sh").args(["-c", "command -v zsh"]).output().expect("sh");
    let zsh = String::from_utf8(which.stdout).expect("a path");
    std::os::unix::fs::symlink(zsh.trim(), bin.join("zsh")).expect("a link");
    let mut serve = env.serve();
    serve.env("PATH", &bin).env("CLIENT_ONLY", "1");
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let show = |name: &str| {
        let directory = env.work().join(name);
        fs::create_dir_all(&directory).expect("a directory");
        let command = "echo ${OF_MISE-unset} ${CLIENT_ONLY-unset}";
        client.call(
            "zsh",
            json!({"command": command, "cwd": directory.to_string_lossy(), "yield_after": 30}),
        )
    };
    let good = show("good");
    assert_eq!(good.output(), "20 unset");
    assert!(good.text.contains("environment_tools: direnv was not found."), "{}", good.text);
    assert!(!show("none").text.contains("direnv"), "said once, for all directories");
    assert_eq!(show("none").output(), "unset 1");
    let odd = show("odd");
    assert_eq!(odd.output(), "unset 1");
    assert!(
        odd.text.contains("`mise env --json`") && odd.text.contains("cannot be read"),
        "{}",
        odd.text
    );
}
