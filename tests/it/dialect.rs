//! Text written for bash: what zsh does with it is noted with a way out, and `shell: bash` runs it as
//! bash does.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use serde::Deserialize;
use serde_json::json;

use crate::support::client::Client;
use crate::support::env::{ADDED, Env, binary, shell_exit_code};
use crate::support::program::{exec_merged, merged, ran, run};

/// A line that bash and zsh run with different results.
#[derive(Debug, Deserialize)]
struct Differing {
    /// Run before, in an empty directory.
    #[serde(default)]
    setup: String,
    line: String,
    note: String,
    /// The line with the way out of the note, where that is not `shell: bash`.
    fix: Option<String>,
}

/// `make test` takes every so many'th line; `make test-long` takes all.
const SAMPLE: usize = 5;
/// Lines that run at once.
const AT_ONCE: usize = 4;

fn differing() -> Vec<Differing> {
    let text = fs::read_to_string("tests/fixtures/dialect/differ.jsonl").expect("the lines");
    text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

/// Runs a check for every `step`th line, with a test directory for each of a few threads.
fn for_each_line(
    step: usize,
    check: impl Fn(&Env, &Client, &Differing) -> Result<(), String> + Sync,
) {
    let lines = differing();
    assert!(lines.len() > 400);
    let queue = Mutex::new(lines.iter().step_by(step));
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let env = Env::new();
                let client = env.client();
                loop {
                    let next = queue.lock().expect("no panic under the lock").next();
                    let Some(line) = next else { return };
                    if let Err(how) = check(&env, &client, line) {
                        let mut failures = failures.lock().expect("no panic under the lock");
                        failures.push(format!("{}\n  {how}", line.line));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic under the lock");
    assert!(failures.is_empty(), "{} lines:\n{}", failures.len(), failures.join("\n"));
}

/// Makes the files that a line needs in an empty directory.
fn prepare(env: &Env, line: &Differing) {
    fs::remove_dir_all(env.work()).expect("the last line's files");
    fs::create_dir(env.work()).expect("a directory");
    if line.setup.is_empty() {
        return;
    }
    let mut setup = env.command("bash");
    setup.args(["-c", &line.setup]).stdin(Stdio::null());
    setup.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(setup.status().expect("bash is installed").code().is_some());
}

/// stdout, stderr and the exit code of a bare shell.
fn bare(env: &Env, line: &Differing, shell: &str, text: &str) -> (Vec<u8>, Vec<u8>, i64) {
    prepare(env, line);
    let mut command = env.command(shell);
    command.args(["-c", text]).envs(ADDED.iter().copied()).stdin(Stdio::null());
    let output = command.output().expect("the shell is installed");
    (output.stdout, output.stderr, shell_exit_code(output.status))
}

#[test]
fn differences_are_noted_with_a_way_out_that_gives_what_bash_gives() {
    each_difference_is_noted(SAMPLE);
}

#[test]
fn with_shell_bash_lines_give_the_bytes_of_bare_bash() {
    each_line_gives_the_bytes_of_bare_bash(SAMPLE);
}

pub fn each_difference_is_noted(step: usize) {
    for_each_line(step, |env, client, line| {
        let bash = bare(env, line, "bash", &line.line);
        let zsh = bare(env, line, "zsh", &line.line);
        let differs = (&bash.0, bash.2) != (&zsh.0, zsh.2) || bash.1.is_empty() != zsh.1.is_empty();
        if !differs && line.setup.is_empty() && !line.line.contains("2>/dev/null") {
            return Err(format!("no difference: {bash:?} {zsh:?}"));
        }
        if let Some(fix) = &line.fix {
            let fixed = bare(env, line, "zsh", fix);
            if (&fixed.0, fixed.2) != (&bash.0, bash.2) {
                return Err(format!("{fix} is no way out: {bash:?} {fixed:?}"));
            }
        }
        prepare(env, line);
        let answer = client.call("zsh", json!({"command": line.line, "yield_after": 20}));
        let warnings = answer.text.lines().filter(|it| it.starts_with('⚠'));
        match warnings.filter(|it| it.contains(&line.note)).count() {
            1 => Ok(()),
            _ => Err(format!("not noted: {}", answer.text)),
        }
    });
}

/// Places of a line in a text that goes on, some of them after the line has failed.
const PLACES: &[&str] = &[
    "LINE\necho after",
    "{ LINE\n} | cat; echo after",
    "{ LINE\n} & wait; echo after",
    "f() {\nLINE\n}; f; echo after",
    "f() {\nLINE\n}\necho after\nf; :",
    "x=$(LINE\n); echo after",
];

#[test]
fn what_a_note_says_did_not_run_did_not_run() {
    for_each_line(SAMPLE * 2, |env, client, line| {
        for place in PLACES {
            prepare(env, line);
            let text = place.replace("LINE", &line.line);
            let answer = client.call("zsh", json!({"command": text, "yield_after": 20}));
            let runs_on = answer.text.lines().any(|it| it == "after");
            if runs_on && answer.text.contains("Nothing after it ran.") {
                return Err(format!("in {place:?}: {}", answer.text));
            }
        }
        Ok(())
    });
}

pub fn each_line_gives_the_bytes_of_bare_bash(step: usize) {
    for_each_line(step, |env, _, line| {
        prepare(env, line);
        let (bytes, code) = merged_of_shell(env.command("bash").args(["-c", &line.line]));
        prepare(env, line);
        let mut exec = env.command(binary());
        let ran =
            exec_merged(exec.args(["exec", "--shell", "bash", "--", &line.line])).without_status();
        let bare = (bytes, code);
        if ran == bare { Ok(()) } else { Err(format!("{bare:?}: {ran:?}")) }
    });
}

/// What a bare shell writes, stderr where stdout goes, and its exit code.
fn merged_of_shell(command: &mut Command) -> (Vec<u8>, i64) {
    merged(command.envs(ADDED.iter().copied()))
}

/// Texts whose errors a shell reports with a part of the text, and others that could show what runs
/// before the text.
const ERRORS: &[&str] = &[
    "echo (p)",
    "echo hi\necho (p)",
    "echo hi\nif true; then",
    "echo hi; )",
    "echo \"abc",
    "echo 'x",
    "echo $(",
    "a=(1 2",
    "for",
    "case x in",
    "}",
    "cat <<E\nfoo",
    "x=${y",
    "echo \"$_\" $? $0 $#",
    "set -u; echo $nope",
    "set -x; echo a",
    "(exit 4)",
    "set -e; false; echo no",
    "echo \"[$BASH_ENV]\"; env | grep -c zsh_tool",
    "readonly BASH_ENV; echo ok",
    "kill -TERM $$",
    "trap 'echo \"debug $BASH_COMMAND\"' DEBUG; cd /; echo x",
];

#[test]
fn nothing_of_the_prologue_appears_in_any_shell() {
    let env = Env::new();
    for shell in ["zsh", "bash", "sh"] {
        for text in ERRORS {
            let (bytes, code) = merged_of_shell(env.command(shell).args(["-c", text]));
            let mut exec = env.command(binary());
            let (output, exit) =
                exec_merged(exec.args(["exec", "--shell", shell, "--", text])).without_status();
            let [output, bytes] =
                [output, bytes].map(|it| String::from_utf8_lossy(&it).into_owned());
            assert_eq!((output, exit), (bytes, code), "{shell}: {text}");
        }
    }
}

#[test]
fn a_startup_file_of_the_users_own_is_read_by_bash_as_without_the_tool() {
    let env = Env::new();
    let file = env.path("own $(startup)");
    fs::write(&file, "echo sourced; export FROM=there\n").expect("a file");
    let named = file.display().to_string().replace('$', "\\$");
    for text in ["echo \"$FROM $BASH_ENV\"", "bash -c 'echo inner $FROM'", "false | true; cd /"] {
        let (bytes, code) =
            merged_of_shell(env.command("bash").args(["-c", text]).env("BASH_ENV", &named));
        let mut command = env.command(binary());
        command.args(["exec", "--shell", "bash", "--", text]).env("BASH_ENV", &named);
        let ran = run(command);
        assert_eq!((ran.stdout, i64::from(ran.code)), (bytes, code), "{text}");
    }
    let client = env.client();
    let long = format!("true {}\nfalse | true", "x".repeat(200_000));
    let answer = client.call("zsh", json!({"command": long, "shell": "bash"}));
    assert!(answer.text.contains("pipestatus=[1,0]"), "{}", answer.footer());
}

#[test]
fn an_environment_that_changes_bash_changes_it_alone() {
    let env = Env::new();
    for (name, value) in [("POSIXLY_CORRECT", "1"), ("SHELLOPTS", "xtrace")] {
        for text in
            ["echo hi; (exit 3)", "env -u POSIXLY_CORRECT bash -c 'trap -p EXIT; echo ${!__zsh*}'"]
        {
            let (bytes, code) =
                merged_of_shell(env.command("bash").args(["-c", text]).env(name, value));
            let mut command = env.command(binary());
            command.args(["exec", "--shell", "bash", "--", text]).env(name, value);
            let (output, exit) = exec_merged(&mut command).without_status();
            let [tool, bare] = [output, bytes].map(|it| String::from_utf8_lossy(&it).into_owned());
            assert_eq!((tool, exit), (bare, code), "{name}: {text}");
        }
    }
}

#[test]
fn the_shell_of_a_call_is_told_and_reports_as_zsh_does() {
    let env = Env::new();
    fs::create_dir(env.work().join("sub")).expect("a directory");
    let client = env.client();
    let run = |command: &str, shell: &str| {
        client.call("zsh", json!({"command": command, "shell": shell, "session": "s"}))
    };
    let first = run("cd sub; export A=1; false | true; s=HELLO; echo ${s,,}", "bash");
    assert_eq!(first.output(), "hello");
    assert!(first.text.contains("  shell=bash"), "{}", first.text);
    assert_eq!(first.meta["shell"], json!("bash"));
    let statuses = run("false | true", "bash");
    assert!(statuses.text.contains("pipestatus=[1,0]  "), "{}", statuses.text);
    // The session is the same for all shells.
    let next = run("print -r -- $A $PWD:t ${ZSH_VERSION:+zsh}", "zsh");
    assert_eq!(next.output(), "1 sub zsh");
    assert!(!next.text.contains("shell="), "{}", next.text);
    let sh = client.call("zsh", json!({"command": "echo $0", "shell": "sh"}));
    assert_eq!(sh.output(), "sh");
    assert!(sh.text.contains("  shell=sh"), "{}", sh.text);
    let wrong = client.call("zsh", json!({"command": "ls", "shell": "fish"}));
    assert!(wrong.text.contains("shell"), "{}", wrong.text);
    assert_eq!(wrong.raw["isError"], json!(true));
}

#[test]
fn a_shell_that_is_not_there_is_an_error_that_names_it() {
    let env = Env::new();
    let programs = env.path("programs");
    fs::create_dir(&programs).expect("a directory");
    for program in ["zsh", "env", "head"] {
        let found = ["/usr/bin", "/bin"].map(|folder| format!("{folder}/{program}"));
        let found = found.iter().find(|path| fs::exists(path).expect("a look")).expect(program);
        std::os::unix::fs::symlink(found, programs.join(program)).expect("a link");
    }
    let mut serve = env.serve();
    serve.env("PATH", &programs);
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let refused = client.call("zsh", json!({"command": "echo hi", "shell": "bash"}));
    assert!(refused.text.contains("bash is not installed: leave `shell` out"), "{}", refused.text);
    assert_eq!(client.run("echo hi").output(), "hi");
}

#[test]
fn descriptions_name_the_configured_shell() {
    for (config, in_description, in_instructions) in [
        ("", "Runs a command in zsh;", ""),
        ("shell: bash\n", "Runs a command in bash;", "Commands run in bash."),
        ("shell: sh\n", "Runs a command in sh;", "Commands run in sh."),
        (
            "dialect: bash\n",
            "with options for text written for bash;",
            "with options for bash text.",
        ),
    ] {
        let env = Env::new();
        env.configure(config);
        let client = env.client_before_initialize();
        let initialized = client.initialize().to_string();
        assert!(initialized.contains(in_instructions), "{config}: {initialized}");
        let list = client.request("tools/list", json!({})).wait().to_string();
        assert!(list.contains(in_description), "{config}: {list}");
    }
}

#[test]
fn a_note_is_in_the_answer_that_ends_a_command_and_in_a_query_before_it() {
    let env = Env::new();
    let client = env.client();
    let query = |command: &str| client.call("zsh_alan_query", json!({"command": command})).text;
    assert!(query("mapfile -t l < f").contains("is bash's, not zsh's"));
    assert!(!query("ls *.foo").contains("No file matches"));
    assert!(!query("ls").contains('⚠'));
    // The report is far from both ends of the output.
    let far = "seq 200000; (ls *.foo); seq 200000";
    let answer = client.call("zsh", json!({"command": far, "yield_after": 30}));
    assert!(answer.text.contains("No file matches `*.foo`"), "{}", answer.footer());
    // What nothing reports is said while the command runs, and once.
    let slow = "o='-l -a'; ls $o; read -t 60 < pipe";
    let pipe = env.named_pipe("pipe");
    let first = client.call("zsh", json!({"command": slow, "yield_after": 0.2}));
    assert!(first.text.contains("zsh does not split `$o`"), "{}", first.text);
    fs::write(pipe, "\n").expect("a writer");
    let ended = client.poll_to_end(&first.task_id());
    assert!(!ended.text.contains("does not split"), "{}", ended.text);
    // At most one.
    let two = client.run("a=(x y); echo ${a[0]} ${PIPESTATUS[0]} \"$a:latest\"");
    assert_eq!(two.text.matches("zsh counts elements").count(), 1, "{}", two.text);
    assert!(!two.text.contains("PIPESTATUS[0]}` is"), "{}", two.text);
}

#[test]
fn the_dialect_of_bash_makes_text_for_bash_do_what_it_says() {
    let env = Env::new();
    env.configure("dialect: bash\n");
    fs::write(env.path("zdotdir/.zshenv"), "a=(1 2)\nfrom_startup=$a[2]\n").expect("a file");
    let client = env.client();
    for (text, output) in [
        ("a=(x y); echo ${a[0]} $a", "x x"),
        ("o='a b'; for w in $o; do echo $w; done", "a\nb"),
        ("echo 'C:\\new'; echo =====", "C:\\new\n====="),
        ("ls *.foo 2>/dev/null; echo $?", "2"),
        ("[ a == a ] && echo same", "same"),
        ("sha=abc; echo \"$sha:app.js\" \"$sha[0]\"", "abc:app.js abc[0]"),
        ("p='a*'; [[ abc == $p ]] && echo yes; echo $((010))", "yes\n8"),
        ("echo one >f | cat; cat f", "one"),
        ("echo $from_startup", "2"),
    ] {
        let answer = client.run(text);
        assert_eq!(answer.output(), output, "{text}");
        assert!(!answer.text.contains('⚠'), "{}", answer.text);
        // As a script, too.
        let long = format!("true {}\n{text}", "x".repeat(200_000));
        assert_eq!(client.run(&long).output(), output, "{text}");
    }
    let moved = client.run("false | true; cd /; false | true");
    assert!(moved.text.contains("pipestatus=[1,0]"), "{}", moved.text);
    assert!(moved.text.contains("cwd=/"), "{}", moved.text);
    let health = client.call("zsh_health", json!({})).text;
    assert!(health.contains("dialect: bash"), "{health}");
    let doctor = ran(&env, &["doctor"]).text();
    assert!(doctor.contains("with the options of dialect: bash"), "{doctor}");
}
