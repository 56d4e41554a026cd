//! Settings of the sandbox against what commands do to the paths that they name.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;

use crate::sandbox::{DONE, LANDLOCK_ALONE, assert_refused, client_with, each_kind_with, home};
use crate::support::env::Env;
use crate::support::program::{ran, run, zsh_tool};

fn shell(env: &Env, script: &str) {
    let mut command = env.command("sh");
    command.args(["-ec", script]).env("GIT_CONFIG_GLOBAL", "/dev/null");
    assert!(command.status().expect("sh").success(), "{script}");
}

#[test]
fn a_path_that_leads_through_a_writable_tree_is_not_followed_later() {
    let env = home();
    fs::remove_dir(env.path("home/.cache")).expect("an empty directory");
    fs::create_dir(env.path("home/.config")).expect("a directory");
    fs::create_dir(env.work().join("cache")).expect("a directory");
    symlink(env.work().join("cache"), env.path("home/.cache")).expect("a link");
    env.configure("sandbox: {mode: workspace}\n");
    let replaced = ran(
        &env,
        &["exec", "--", "echo x > ~/.cache/file && rm -r cache && ln -s ~/.config cache"],
    );
    assert_eq!(replaced.code, 0, "{}", replaced.stderr);
    assert_eq!(ran(&env, &["exec", "--", "echo x > ~/.config/evil"]).code, 1);
    assert!(!env.path("home/.config/evil").exists());
}

#[test]
fn a_configuration_behind_a_link_that_commands_can_replace_refuses_them() {
    let env = home();
    let (real, way) = (env.path("configuration"), env.work().join("way"));
    fs::create_dir(&real).expect("a directory");
    fs::write(real.join("config.yaml"), "sandbox: {mode: workspace}\n").expect("a file");
    symlink(&real, &way).expect("a link");
    fs::create_dir(env.path("home/.config")).expect("a directory");
    symlink(&way, env.path("home/.config/zsh-tool")).expect("a link");
    let refused = ran(&env, &["exec", "--", "true"]);
    assert_eq!(refused.code, 125, "{}", refused.stderr);
    assert!(refused.stderr.contains("could replace it"), "{}", refused.stderr);
}

#[test]
fn what_is_denied_by_a_link_is_denied_where_it_leads() {
    for (kind, env, client) in each_kind_with(|env| {
        fs::create_dir(env.path("home/secret")).expect("a directory");
        fs::write(env.path("home/secret/key"), "SECRET\n").expect("a file");
        symlink("secret", env.path("home/link")).expect("a link");
        "sandbox: {mode: workspace, deny_read: [~/link]}\n".to_owned()
    }) {
        assert_refused(&client.run("cat ~/link/key; cat ~/secret/key"), kind);
        fs::remove_file(env.path("home/link")).expect("a link");
        assert_refused(&client.run("cat ~/secret/key"), kind);
    }
    // A command could remove this one.
    let env = home();
    symlink("/", env.work().join("link")).expect("a link");
    for (key, effort) in [("deny_read", false), ("deny_write", false), ("deny_read", true)] {
        env.configure(&format!(
            "sandbox: {{mode: workspace, {key}: [{}/link/etc], best_effort: {effort}}}\n",
            env.work().display()
        ));
        let refused = ran(&env, &["exec", "--", "true"]);
        assert_eq!(refused.code, 125, "{}", refused.stderr);
        assert!(refused.stderr.contains("could lead it elsewhere"), "{}", refused.stderr);
    }
}

#[test]
fn what_is_kept_or_denied_above_a_writable_tree_is_not_written_to() {
    for (kind, env, client) in each_kind_with(|env| {
        fs::create_dir_all(env.path("home/.cargo/registry")).expect("a directory");
        format!(
            "sandbox:\n  mode: workspace\n  deny_read: [~/.cargo]\n  deny_write: [~/.cache, {}]\n",
            env.work().display()
        )
    }) {
        for path in ["~/.cargo/registry/file", "~/.cache/file", "file"] {
            assert_refused(&client.run(&format!("echo x > {path} && echo {DONE}")), kind);
        }
        let allowed = client.run(&format!("echo x > ~/.npm/file && echo {DONE}"));
        assert!(allowed.output().contains(DONE), "{kind}: {}", allowed.text);
        drop(env);
    }
    for denied in ["~/.cache", "/dev/shm"] {
        let env = home();
        env.configure(&format!("sandbox: {{mode: workspace, deny_read: [{denied}]}}\n"));
        let ended = ran(&env, &["exec", "--", "echo works"]);
        assert_eq!(ended.text(), "works\n", "{denied}: {}", ended.stderr);
    }
}

#[test]
fn a_directory_whose_time_was_set_back_is_looked_at_again() {
    let env = home();
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    let made = client.run("touch -r . /tmp/$$.t; git init -q; touch -r /tmp/$$.t .; rm /tmp/$$.t");
    assert!(made.text.contains("made while this ran"), "{}", made.text);
    let attempt = format!("echo x > .git/hooks/post-commit && echo {DONE}");
    assert_refused(&client.run(&attempt), "the next command");
}

#[test]
fn what_makes_git_run_programs_in_submodules_and_work_trees_is_kept() {
    let env = home();
    let git = "git -c user.name=a -c user.email=a@b -c protocol.file.allow=always";
    shell(
        &env,
        &format!(
            "git init -q ../part && {git} -C ../part commit -q --allow-empty -m part && git init -q && \
             {git} submodule --quiet add ../part third/part && {git} commit -qm one && \
             git config extensions.worktreeConfig true && git config core.hooksPath .githooks && \
             mkdir .githooks && git worktree add -q ../tree && \
             git -C ../tree config --worktree core.bare false"
        ),
    );
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    let module = ".git/modules/third/part";
    for path in [
        &format!("{module}/config"),
        &format!("{module}/hooks/post-commit"),
        ".git/worktrees/tree/config.worktree",
        ".git/worktrees/tree/commondir",
        ".git/worktrees/tree/gitdir",
        ".githooks/pre-commit",
        "third/part/.git",
    ] {
        let attempt = format!("rm -f {path}; echo x > {path} && echo {DONE}");
        assert_refused(&client.run(&attempt), path);
    }
    // A submodule that is added while the server runs.
    shell(&env, &format!("{git} submodule --quiet add ../part other"));
    for path in [".git/modules/other/config", "other/.git"] {
        let attempt = format!("rm -f {path}; echo x > {path} && echo {DONE}");
        assert_refused(&client.run(&attempt), path);
    }
    // What a command makes beside it does not hide it.
    client.run("mkdir .git/modules/third/{objects,refs}; touch .git/modules/third/HEAD");
    let path = format!("{module}/config");
    assert_refused(&client.run(&format!("echo x > {path} && echo {DONE}")), &path);
    let commit = format!("cd other && {git} commit -q --allow-empty -m two && echo {DONE}");
    let committed = client.run(&commit);
    assert!(committed.output().contains(DONE), "{}", committed.text);
}

#[test]
fn hooks_and_configurations_are_kept_wherever_git_is_told_to_find_them() {
    let env = home();
    fs::write(env.path("home/.gitconfig"), "[core]\n hooksPath = .all\n").expect("a file");
    let git = "git -c user.name=a -c user.email=a@b -c protocol.file.allow=always";
    shell(
        &env,
        &format!(
            "git init -q ../part && {git} -C ../part commit -q --allow-empty -m part && git init -q && \
             {git} submodule --quiet add ../part part && {git} commit -qm one && \
             mkdir .all part/.all .own && git config include.path ../.gitinclude && \
             printf '[core]\n hooksPath = .o\\\\\nwn\n' > .gitinclude && test -d .o''wn"
        ),
    );
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &[]);
    for path in [".all/pre-commit", "part/.all/pre-commit", ".own/pre-commit", ".gitinclude"] {
        assert_refused(&client.run(&format!("echo x > {path} && echo {DONE}")), path);
    }
    // What is missing is told when it is made.
    shell(
        &env,
        "rmdir .all && ln -s elsewhere part/.git-hooks && git config core.hooksPath part/.git-hooks",
    );
    for made in [".all", "elsewhere"] {
        let told = client.run(&format!("mkdir {made} part/{made}; true"));
        assert!(told.text.contains("made while this ran"), "{}", told.text);
        assert!(told.text.contains(&format!("/{made}")), "{}", told.text);
    }
}

#[test]
fn what_a_repository_elsewhere_obeys_in_the_project_is_kept() {
    let env = home();
    let git = "git -c user.name=a -c user.email=a@b";
    let make = |name: &str, options: &str| {
        let script = format!(
            "mkdir ../{name} && cd ../{name} && git init -q {options} && \
             {git} commit -q --allow-empty -m one && git config core.hooksPath p/h && \
             git config include.path ../p/c && mkdir -p p/h && touch p/c"
        );
        shell(&env, &script);
    };
    make("plain", "");
    make("apart", "--separate-git-dir=../apart.git .");
    shell(&env, &format!("cd ../plain && {git} worktree add -q ../tree && mkdir -p ../tree/p/h"));
    fs::write(env.path("home/system"), "[core]\n hooksPath = s\n").expect("a file");
    fs::create_dir(env.path("plain/s")).expect("a directory");
    env.configure("sandbox: {mode: workspace}\n");
    let refused = |directory: &str, path: &str| {
        let line = format!("echo x > {path} || rm -f {path}; echo {DONE}");
        let mut exec = zsh_tool(&env, &["exec", "--", &line]);
        exec.current_dir(env.path(directory)).env("GIT_CONFIG_SYSTEM", env.path("home/system"));
        let ended = run(exec);
        assert!(ended.text().contains(DONE), "{directory}: {}", ended.stderr);
        ended.stderr.matches("read-only file system").count() == 1
    };
    for (directory, path) in [
        ("plain", "p/h/pre-commit"),
        ("plain/p", "h/pre-commit"),
        ("plain/p", "c"),
        ("plain", "s/pre-commit"),
        ("apart", "p/h/pre-commit"),
        ("tree", "p/h/pre-commit"),
        ("tree/p", "h/pre-commit"),
    ] {
        assert!(refused(directory, path), "{directory}: {path}");
        assert!(!refused(directory, "free"), "{directory}");
    }
    // The repository of a linked worktree is led by a file that is missing.
    let line = format!("echo x > {}/.git/commondir", env.path("plain").display());
    let mut exec = zsh_tool(&env, &["exec", "--", &line]);
    exec.current_dir(env.path("tree"));
    let made = run(exec);
    assert!(made.stderr.contains("made while this ran"), "{}", made.stderr);
}

#[test]
fn a_denied_file_in_a_writable_tree_cannot_be_opened() {
    for (kind, env, client) in each_kind_with(|env| {
        fs::write(env.work().join(".env"), "SECRET\n").expect("a file");
        format!("sandbox: {{mode: workspace, deny_read: [{}/.env]}}\n", env.work().display())
    }) {
        for line in ["cat .env", "echo x >> .env", "cp .env copy"] {
            let result = client.run(&format!("{line} && echo {DONE}"));
            assert!(!result.output().contains(DONE), "{kind}: {line}: {}", result.text);
        }
        let read = client.run("cat .env");
        let why = "the user can take it off sandbox.deny_read";
        assert!(read.text.contains(why), "{kind}: {}", read.text);
        let text = fs::read_to_string(env.work().join(".env")).expect("a file");
        assert_eq!(text, "SECRET\n", "{kind}");
    }
}

#[test]
fn a_second_name_of_a_file_gives_no_way_to_it() {
    let env = home();
    fs::create_dir(env.path("home/notes")).expect("a directory");
    fs::write(env.path("home/notes/kept"), "before\n").expect("a file");
    fs::hard_link(env.path("home/notes/kept"), env.path("home/notes/other")).expect("a link");
    let yaml = "sandbox: {mode: workspace, write: [~/notes], deny_write: [~/notes/kept]}\n";
    let client = client_with(&env, yaml, &[LANDLOCK_ALONE]);
    for name in ["kept", "other"] {
        assert_refused(&client.run(&format!("echo x > ~/notes/{name} && echo {DONE}")), name);
    }
    let allowed = client.run(&format!("echo x > ~/notes/new && echo {DONE}"));
    assert!(allowed.text.contains(DONE) || allowed.text.contains("ermission"), "{}", allowed.text);
}

#[test]
fn odd_settings_mean_what_they_say_or_are_faults() {
    let env = home();
    env.configure("sandbox: {mode: workspace}\n");
    let with = |name: &str, value: &str, line: &str| {
        let mut exec = zsh_tool(&env, &["exec", "--", line]);
        exec.env(name, value);
        run(exec)
    };
    assert_eq!(with("TMPDIR", "", "echo x > file").code, 0);
    for name in ["TMPDIR", "XDG_CACHE_HOME"] {
        assert_eq!(with(name, "/", "echo x > ~/target").code, 1, "{name}");
    }
    fs::write(env.work().join(".env"), "SECRET\n").expect("a file");
    env.configure(&format!(
        "sandbox: {{mode: workspace, deny_read: [{}/.env/]}}\n",
        env.work().display()
    ));
    assert!(!ran(&env, &["exec", "--", "cat .env"]).text().contains("SECRET"));
    for denied in ["/proc", "/dev", "/missing/../etc"] {
        env.configure(&format!("sandbox: {{mode: workspace, deny_read: [{denied}]}}\n"));
        let refused = ran(&env, &["exec", "--", "true"]);
        assert_eq!(refused.code, 125, "{denied}: {}", refused.stderr);
    }
    let contradiction = ran(&env, &["exec", "--sandbox", "off network=off", "--", "true"]);
    assert_eq!(contradiction.code, 125, "{}", contradiction.stderr);
}

#[test]
fn a_socket_that_only_the_commands_environment_names_is_closed() {
    let env = home();
    let user = fs::metadata(env.path("home")).expect("a directory").uid();
    let (agent, tmux) = (env.path("home/agent.sock"), env.path(&format!("home/t/tmux-{user}/one")));
    fs::create_dir_all(tmux.parent().expect("a directory")).expect("a directory");
    fs::create_dir_all(env.path("zdotdir")).expect("a directory");
    let export = "export SSH_AUTH_SOCK=$HOME/agent.sock TMUX_TMPDIR=$HOME/t\n";
    fs::write(env.path("zdotdir/.zshenv"), export).expect("a file");
    let yaml = "sandbox: {mode: workspace}\nenvironment: login\n";
    let client = client_with(&env, yaml, &[]);
    for socket in [agent, tmux] {
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let line = format!(
            "print $TMUX_TMPDIR; python3 -c 'import socket; \
             socket.socket(socket.AF_UNIX).connect(\"{}\")' && echo {DONE}",
            socket.display()
        );
        let result = client.run(&line);
        assert!(result.output().contains("/home/t\n"), "{}", result.text);
        assert_refused(&result, "the socket");
    }
}

#[test]
fn a_socket_in_a_directory_that_a_command_has_prepared_is_closed() {
    let env = home();
    let directory = env.path("home/run");
    fs::create_dir_all(directory.join("deep")).expect("a directory");
    fs::write(directory.join("file"), "").expect("a file");
    let variables = [("ZELLIJ_SOCKET_DIR", directory.to_str().expect("a path"))];
    let sockets = [directory.join("one"), directory.join("deep/two")];
    let _listeners: Vec<UnixListener> =
        sockets.iter().map(|socket| UnixListener::bind(socket).expect("a socket")).collect();
    let client = client_with(&env, "sandbox: {mode: workspace}\n", &variables);
    for socket in &sockets {
        let line = format!(
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")' && echo {DONE}",
            socket.display()
        );
        assert_refused(&client.run(&line), &socket.display().to_string());
    }
}

#[test]
fn what_shells_obey_and_commands_could_replace_refuses_them() {
    let env = home();
    fs::create_dir(env.path("other")).expect("a directory");
    fs::write(env.path("other/prelude.zsh"), "").expect("a file");
    symlink(env.path("other"), env.work().join("way")).expect("a link");
    let prelude = env.work().join("way/prelude.zsh");
    for mode in ["off", "workspace"] {
        env.configure(&format!("sandbox: {{mode: {mode}}}\nprelude: {}\n", prelude.display()));
        let refused = ran(&env, &["exec", "--sandbox", "workspace", "--", "true"]);
        assert_eq!(refused.code, 125, "{mode}: {}", refused.stderr);
        assert!(refused.stderr.contains("could replace it"), "{mode}: {}", refused.stderr);
    }
    // In YAML, ~ is nothing.
    env.configure("sandbox: {mode: workspace, deny_read: [~]}\n");
    let refused = ran(&env, &["exec", "--", "true"]);
    assert_ne!(refused.code, 0, "{}", refused.stderr);
    assert!(refused.stderr.contains("sandbox.deny_read"), "{}", refused.stderr);
}

#[test]
fn shared_memory_is_a_writable_tree_as_others_are() {
    let env = home();
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let data = place.path().join("data");
    fs::create_dir(&data).expect("a directory");
    env.configure(&format!("sandbox: {{mode: workspace, write: [{}]}}\n", data.display()));
    let replace = format!("rmdir {0} && ln -s ~ {0}", data.display());
    assert_eq!(ran(&env, &["exec", "--", &replace]).code, 0);
    assert_eq!(ran(&env, &["exec", "--", "echo x > ~/target"]).code, 1);
    fs::write(place.path().join("key"), "SECRET\n").expect("a file");
    for mode in ["workspace", "read-only"] {
        env.configure(&format!(
            "sandbox: {{mode: {mode}, deny_read: [{}/key]}}\n",
            place.path().display()
        ));
        let read = format!("cat {}/key", place.path().display());
        for variables in [&[][..], &[LANDLOCK_ALONE]] {
            let mut exec = zsh_tool(&env, &["exec", "--", &read]);
            exec.envs(variables.iter().copied());
            assert!(!run(exec).text().contains("SECRET"), "{mode}, {variables:?}");
        }
    }
}
