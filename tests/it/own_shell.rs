//! The shell is the user's: what a command can see of its shell and of the processes that
//! it starts is what it sees under bare `zsh -c`.
//!
//! Each row runs alone, where zsh is given nothing but the row, and with a pipeline and a
//! change of directory in front of it or behind it, where a prologue reports both. What
//! differs all the same has its test at the end, and its entry in `zsh-tool help shell`.

use std::fs;

use serde_json::json;

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::processes::{UniqueSleep, assert_none_left};

/// Around a row: as it is, and where there is something to report.
const FORMS: [(&str, &str); 3] = [("", ""), ("cd . && true | true; ", ""), ("", "\ncd .")];

/// Waits until a background process is the program that it is to become, and says which.
const BECOMES: &str = "p=$!; repeat 1000; do [[ $(</proc/$p/comm) == sleep ]] && break; \
    sleep 0.01; done; cat /proc/$p/comm; kill $p; wait $p; echo $?";

const BACKGROUND: &[&str] = &[
    "sleep 99 & BECOMES",
    "(cd / && sleep 99) & BECOMES",
    "{ cd /; sleep 99 } & BECOMES",
    "(true; (true; sleep 99)) & BECOMES",
    "sleep 99 & kill %1; wait; jobs; echo $?",
    "(sleep 99) & kill %1; wait $!; echo $?",
    "coproc sleep 99; kill $!; wait $!; echo $?",
    "sleep 99 &! kill $!; echo $?",
];

const PROCESS_COUNTS: &[&str] = &[
    // A program that replaced its subshell is a child of the shell itself.
    "x=$(sh -c 'echo $PPID'); [[ $x == $$ ]]; echo $?",
    "x=$(true; sh -c 'echo $PPID'); [[ $x == $$ ]]; echo $?",
    "(sh -c 'echo $PPID' >parent); [[ $(<parent) == $$ ]]; echo $?",
    "(true; (true; sh -c 'echo $PPID') >parent); [[ $(<parent) == $$ ]]; echo $?",
    "x=`sh -c 'echo $PPID'`; [[ $x == $$ ]]; echo $?",
    "read -r x < <(sh -c 'echo $PPID'); [[ $x == $$ ]]; echo $?",
    "sh -c 'echo $PPID' | read -r x; [[ $x == $$ ]]; echo $?",
];

const TRAPS: &[&str] = &[
    "trap 'echo debug $LINENO' DEBUG\ntrue\nfalse",
    "TRAPDEBUG() { echo debug $((++n)) $LINENO }\ntrue\nfalse",
    "trap 'echo zerr $?' ZERR\nfalse\n(exit 3)\ntrue",
    "TRAPZERR() { echo zerr $? }\nfalse",
    "set -e; trap 'echo zerr' ZERR; false; echo no",
    "trap 'echo bye $?' EXIT; (exit 3)",
    "TRAPEXIT() { echo bye $? }; (exit 3)",
    "zshexit() { echo hook $? }; exit 3",
    "trap 'echo bye' EXIT; cd /; set -u; echo $nope",
    "set -e; trap 'echo bye' EXIT; f() { false }; f",
    "trap 'echo bye' EXIT; (true); x=$(true); echo done",
    "(trap)",
    "echo $(trap)",
    "trap | cat",
    "trap 'echo usr1' USR1; (trap); kill -USR1 $$; echo on",
    "trap - EXIT; trap",
];

const TRACES: &[&str] = &[
    "set -x; cd /; exit 3",
    "set -x\nzshexit() { echo hook }\nexit 3",
    "set -x; set -u; cd /; echo $nope",
    "set -x; set -e; f() { false; }; f",
    "set -x; (exit 3); x=$(echo a)",
    "PS4='+%N:%i:%I:%x> '; set -x\ntrue\n() { true }",
    "set -v; echo a",
    "exec 2>&1; set -x; exit",
];

const LISTINGS: &[&str] = &[
    "functions",
    "typeset -f",
    "typeset +f",
    "whence -m 'z*' '_*'; which zshexit",
    "echo $+functions[zshexit] ${(k)functions}",
    "typeset +m 'z*' 'Z*'",
    "typeset + | LC_ALL=C sort",
    "set | wc -l",
    "set | cut -d= -f1 | LC_ALL=C sort",
    "env | cut -d= -f1 | LC_ALL=C sort",
    "zmodload",
    "zmodload -L",
    "zmodload -e zsh/system; echo $?",
    "setopt",
    "set -o",
    "echo $-",
    "alias; hash -d; enable | wc -l",
    "jobs; dirs",
    "print -r -- $ZSH_EXECUTION_STRING",
    "print -r -- 'é あ' $ZSH_EXECUTION_STRING",
    "print -r -- \\\n  \"$ZSH_EXECUTION_STRING\"\n\n",
    "typeset -p ZSH_EXECUTION_STRING ZSH_ARGZERO",
];

const VALUES: &[&str] = &[
    "print -r -- \"[$_]\" $? $# \"$*\" $0 $ZSH_ARGZERO $ZSH_NAME",
    "print -r -- $LINENO $ZSH_SUBSHELL $SECONDS $HISTCMD $ZSH_EVAL_CONTEXT\n\necho $LINENO",
    "print -r -- $pipestatus $SHLVL $+TTY $TTYIDLE",
    "print -r -- ${(%):-%N %i %I %x %_ %?} $funcstack $funcfiletrace",
    "f() { print -r -- $funcstack $funcfiletrace $0 }\nf",
    "echo a\n\nno-such-command-at-all",
    "echo a\n}\necho b",
    "print -r -- $OLDPWD; cd /; print -r -- $PWD",
    "alias x=false\nx",
    "umask; ulimit -n",
];

const DESCRIPTORS: &[&str] = &[
    "exec {fd}>file; echo $fd",
    "exec {a}>file {b}>&1; echo $a $b; exec {a}>&-; exec {c}<file; echo $c",
    "print -l /proc/$$/fd/*(N:t)",
    "ls /proc/self/fd",
    "exec 9>file; echo x >&9; cat file",
    "echo x >&9",
    "zmodload zsh/system; sysopen -w -o creat -u fd file; echo $fd",
    "(ls /proc/self/fd)",
    "echo $(ls /proc/self/fd)",
];

const RESTRICTED: &[&str] = &[
    "setopt restricted; cd /; echo $?",
    "set -r; echo x >file; echo $?",
    "setopt restricted; PATH=/; echo $?",
    "set -r; exit 3",
    "set -r; true | false",
];

#[test]
fn a_background_process_is_the_program_itself_and_kill_ends_it() {
    runs_as_in_bare_zsh(BACKGROUND);
}

#[test]
fn a_subshell_costs_no_process_more() {
    runs_as_in_bare_zsh(PROCESS_COUNTS);
}

#[test]
fn the_users_traps_run_when_and_as_often_as_they_would() {
    runs_as_in_bare_zsh(TRAPS);
}

#[test]
fn a_trace_shows_what_the_command_does_alone() {
    runs_as_in_bare_zsh(TRACES);
}

#[test]
fn functions_parameters_modules_and_options_are_listed_as_they_would_be() {
    runs_as_in_bare_zsh(LISTINGS);
}

#[test]
fn special_parameters_and_messages_are_those_of_the_command() {
    runs_as_in_bare_zsh(VALUES);
}

#[test]
fn descriptors_have_the_numbers_that_they_would_have() {
    runs_as_in_bare_zsh(DESCRIPTORS);
}

#[test]
fn a_restricted_shell_says_what_it_would_say() {
    runs_as_in_bare_zsh(RESTRICTED);
}

fn runs_as_in_bare_zsh(rows: &[&str]) {
    let env = Env::new();
    let client = env.client();
    for (before, after) in FORMS {
        for row in rows {
            let command = format!("{before}{}{after}", row.replace("BECOMES", BECOMES));
            let bare = env.bare_zsh(&command);
            let result = client.run(&command);
            assert_eq!(result.output().trim_end(), bare.output.trim_end(), "{command}");
            assert_eq!(
                result.meta["exit_code"],
                json!(bare.exit_code),
                "{command}: {}",
                result.text
            );
        }
    }
    drop(client);
    assert_none_left(env.mark());
}

/// The everyday script: a server in another directory, which `kill $!` ends.
#[test]
fn kill_of_the_last_background_process_leaves_nothing_alive() {
    let env = Env::new();
    let client = env.client();
    let sleep = UniqueSleep::new();
    for command in [
        format!("(cd / && {sleep}) & pid=$!; sleep 0.1; kill $pid; wait $pid"),
        format!("mkdir -p d; (cd d && {sleep}) & kill %1; wait; cd d | true"),
    ] {
        let result = client.run(&command);
        assert!(!result.text.contains("still running"), "{}", result.text);
        sleep.assert_gone();
    }
}

/// What is not heard of: a pipeline that does not end the command, a directory that it
/// does not move to. What is: both, however the command ends.
#[test]
fn the_directory_and_the_statuses_are_reported_however_the_command_ends() {
    let env = Env::new();
    let client = env.client();
    let rows: [(&str, Option<&str>, &[i64]); 15] = [
        ("cd /usr; false | true", Some("/usr"), &[1, 0]),
        ("cd /usr; ls -d .", Some("/usr"), &[]),
        ("cd /usr && exit 3", Some("/usr"), &[]),
        ("set -e; cd /usr; true | false; echo no", Some("/usr"), &[0, 1]),
        ("set -x; cd /usr; true | false; exit", Some("/usr"), &[0, 1]),
        ("cd /usr; set -u; echo $nope", Some("/usr"), &[]),
        ("cd /usr; echo $((1 / 0))", Some("/usr"), &[]),
        ("trap 'echo bye' EXIT; cd /usr; true", Some("/usr"), &[]),
        ("TRAPEXIT() { echo bye }; cd /usr", Some("/usr"), &[]),
        ("zshexit() { echo bye }; cd /usr", Some("/usr"), &[]),
        ("emulate sh; cd /usr; false | true", Some("/usr"), &[1, 0]),
        ("emulate -R sh; cd /usr; false | true", Some("/usr"), &[1, 0]),
        ("ulimit -f 0; cd /usr; false | true", Some("/usr"), &[1, 0]),
        ("exec >&- 2>&-; cd /usr; false | true", Some("/usr"), &[1, 0]),
        ("(cd /usr); x=$(cd /usr; false | true)", None, &[]),
    ];
    for (command, directory, pipestatus) in rows {
        let result = client.run(command);
        let context = format!("{command}: {}", result.text);
        let work = env.work();
        let directory = directory.map_or(work.to_string_lossy(), Into::into);
        assert_eq!(result.meta["cwd"], json!(directory), "{context}");
        let shown = result.meta["pipestatus"].as_array().cloned();
        let shown: Vec<i64> =
            shown.unwrap_or_default().iter().filter_map(|status| status.as_i64()).collect();
        let shown = if shown.len() < 2 { Vec::new() } else { shown };
        assert_eq!(shown, pipestatus, "{context}");
    }
}

/// A function or an alias of a startup file may change the directory.
#[test]
fn a_startup_file_that_can_change_the_directory_is_reckoned_with() {
    let env = Env::new();
    fs::write(env.path("zdotdir/.zshenv"), "go() { cd $1 }\n").unwrap();
    let client = env.client();
    let result = client.run("go /usr");
    assert_eq!(result.meta["cwd"], json!("/usr"), "{}", result.text);
}

/// A path of any letters, in which the shell reports.
#[test]
fn a_state_directory_of_any_name_takes_reports() {
    let env = Env::new();
    let state = env.path("it's a \"$x\" `é`\n あ");
    let mut serve = env.serve();
    serve.env("ZSH_TOOL_STATE_DIR", &state);
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let command = "cd /usr; print -r -- $ZSH_EXECUTION_STRING; false | true";
    let result = client.run(command);
    assert_eq!(result.output(), command);
    assert_eq!(result.meta["cwd"], json!("/usr"), "{}", result.text);
    assert_eq!(result.meta["pipestatus"], json!([1, 0]), "{}", result.text);
}

/// Without a state directory there is the one for temporary files.
#[test]
fn without_a_state_directory_the_shell_reports_as_well() {
    let env = Env::new();
    fs::write(env.path("taken"), "").unwrap();
    let mut serve = env.serve();
    serve.env("ZSH_TOOL_STATE_DIR", env.path("taken"));
    let client = Client::start(serve, env.path("stderr"));
    client.initialize();
    let result = client.run("cd /usr; false | true");
    assert_eq!(result.meta["cwd"], json!("/usr"), "{}", result.text);
    assert_eq!(result.meta["pipestatus"], json!([1, 0]), "{}", result.text);
    let left: Vec<_> = fs::read_dir(env.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// How a command and a longer one, whose lines are the same, differ: not at all.
#[test]
fn a_long_command_reads_as_a_short_one() {
    let env = Env::new();
    let client = env.client();
    let filler = format!(": '{}'\n", "x".repeat(1000)).repeat(150);
    let empty = "\n".repeat(150);
    for tail in [
        "no-such-command-at-all; print -r -- $LINENO $0 $ZSH_ARGZERO \"[$_]\" $# $-",
        "alias x=false\nx; echo $?",
        "f() {\n no-such-command-at-all\n}\nf",
        "set -e\nfalse\necho no",
        "set -x\n(exit 3)",
        "true | cat; set -x; cd /; (exit 3)",
        "set -x; cd /; echo $(true | true); exit",
        "true | true; trap 'echo zerr' ZERR; (exit 3)",
        "set -e; true | true; cd /; f() { return 3 }; f",
        "trap 'echo zerr $LINENO' ZERR\nfalse",
        "trap 'echo bye' EXIT; exit 3",
        "echo $((1 / 0))\necho no",
        "echo a\nif true\n",
        "echo a\n}\necho b",
        "}; echo a; {",
        "echo 'unmatched\n\n",
        "echo a\n)\n",
        "setopt; functions; trap | cat",
        "exec {fd}>file; echo $fd; ls /proc/self/fd",
        "sleep 99 & BECOMES",
        "return 3",
        "cat <<'E'\na 'b\nE\nfalse | true",
        "print -r -- ${#${ZSH_EXECUTION_STRING##*$'\\n\\n'}} ${ZSH_EXECUTION_STRING[-9,-1]}\n\n",
    ] {
        let tail = tail.replace("BECOMES", BECOMES);
        let bare = env.bare_zsh(&format!("{empty}{tail}"));
        let result = client.run(&format!("{filler}{tail}"));
        assert_eq!(result.output().trim_end(), bare.output.trim_end(), "{tail}");
        assert_eq!(result.meta["exit_code"], json!(bare.exit_code), "{tail}");
    }
    let result = client.run(&format!("{filler}print -rn -- ${{#ZSH_EXECUTION_STRING}}\n"));
    let length = filler.len() + "print -rn -- ${#ZSH_EXECUTION_STRING}\n".len();
    assert_eq!(result.output(), length.to_string());
}

// What `zsh-tool help shell` names.

#[test]
fn the_last_program_of_a_command_that_reports_has_the_shell_above_it() {
    let env = Env::new();
    let client = env.client();
    let above = |command: &str| client.run(command).output();
    let parent = "sh -c 'cat /proc/$PPID/comm'";
    assert_ne!(above(parent), "zsh");
    assert_eq!(above(&format!("cd . && {parent}")), "zsh");
}

#[test]
fn a_command_that_reports_has_its_trap_in_the_list_of_traps() {
    let env = Env::new();
    let client = env.client();
    assert_eq!(client.run("trap").output(), "");
    let listed = client.run("true | true; trap").output();
    assert!(listed.starts_with("trap -- "), "{listed}");
    assert!(listed.ends_with(" EXIT"), "{listed}");
}

#[test]
fn a_restricted_shell_reports_nothing() {
    let env = Env::new();
    let client = env.client();
    let result = client.run("cd /usr; set -r; false | true");
    assert_eq!(result.meta["exit_code"], json!(0), "{}", result.text);
    assert!(!result.footer().contains("pipestatus"), "{}", result.text);
}
