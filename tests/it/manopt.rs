//! `zsh-tool manopt`: the options of real programs, read from their real manual pages,
//! and a `man` that does not do its work.
//!
//! The expected names were written down by reading the pages; they are such that older
//! and newer releases of the programs have them too.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::Instant;

use crate::support::client::PATIENCE;
use crate::support::env::{Env, binary};
use crate::support::processes::{UniqueSleep, assert_none_left};
use crate::support::program::{Finished, Program, run, zsh_tool};

/// A look-up with time enough for a busy machine.
fn manopt(env: &Env, words: &[&str]) -> Command {
    let mut command = zsh_tool(env, &[&["manopt"], words].concat());
    command.env("ALAN_MANOPT_TIMEOUT", "60");
    command
}

/// A program called `man` in a directory of its own, which is first in PATH then.
fn with_fake_man(env: &Env, mut command: Command, script: &str) -> Command {
    let directory = env.path("fake");
    fs::create_dir_all(&directory).expect("a directory");
    let program = directory.join("man");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("an executable");
    let path = std::env::var("PATH").expect("a PATH");
    command.env("PATH", format!("{}:{path}", directory.display()));
    command
}

#[test]
fn man_finds_no_listed_secret_in_its_environment() {
    let env = Env::new();
    env.configure("secrets:\n  KEY: {env: VARIABLE_KEY}\n");
    let seen = env.path("seen");
    let script = format!("printf %s \"${{VARIABLE_KEY-unset}}\" > {}", seen.display());
    let mut command = with_fake_man(&env, manopt(&env, &["ls"]), &script);
    command.env("VARIABLE_KEY", "hunter2");
    run(command);
    assert_eq!(fs::read_to_string(seen).expect("man was run"), "unset");
}

/// The table of a page that this machine must have.
fn table(words: &[&str]) -> String {
    let env = Env::new();
    let finished = run(manopt(&env, words));
    assert_eq!(finished.code, 0, "{words:?}: {} (`make test` installs the pages)", finished.stderr);
    assert_eq!(finished.stderr, "", "{words:?}");
    finished.text()
}

/// What stands before the summary.
fn head(line: &str) -> &str {
    line.split("  ").next().unwrap_or_default()
}

/// The options of a table with what they take, each written as on the page: `-f`,
/// `--file=ARCHIVE`, `-name pattern`.
fn options(table: &str) -> Vec<&str> {
    table.lines().flat_map(|line| head(line).split(", ")).collect()
}

/// The table of a page, which has these options and none of those that it only mentions.
fn assert_options(words: &[&str], expected: &[&str], mentioned: &[&str]) {
    let table = table(words);
    let found = options(&table);
    for option in expected {
        assert!(found.contains(option), "{option} is missing: {table}");
    }
    for option in mentioned {
        let is_named = |found: &str| found.split([' ', '=', '[']).next() == Some(option);
        assert!(!found.iter().any(|found| is_named(found)), "{option}: {table}");
    }
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(line.split_once("  ").is_some_and(|(_, rest)| !rest.trim().is_empty()), "{line}");
    }
}

#[test]
fn the_options_of_ls() {
    assert_options(
        &["ls"],
        &[
            "-a",
            "--all",
            "--author",
            "--block-size=SIZE",
            "-c",
            "--color[=WHEN]",
            "-d",
            "--directory",
            "-f",
            "--full-time",
            "-H",
            "--dereference-command-line",
            "--hide=PATTERN",
            "-p",
            "--indicator-style=slash",
            "--time-style=TIME_STYLE",
            "-Z",
            "-1",
            "--help",
        ],
        &["-cftuvSUX", "-lt"],
    );
}

#[test]
fn the_options_of_tar() {
    assert_options(
        &["tar"],
        &[
            "-A",
            "--catenate",
            "--concatenate",
            "-c",
            "--create",
            "-x",
            "--extract",
            "--get",
            "-f",
            "--file=ARCHIVE",
            "-?",
            "-g",
            "--listed-incremental=FILE",
            "-C",
            "--directory=DIR",
            "--occurrence[=N]",
            "--owner=NAME[:UID]",
            "-z",
            "--ungzip",
            "--strip-components=NUMBER",
            "--xform=EXPRESSION",
            "-p",
            "--same-permissions",
            "-v",
            "--no-recursion",
        ],
        &["-cvf", "-vkp", "-vkpf", "-print0", "--verb"],
    );
}

#[test]
fn the_options_of_grep() {
    assert_options(
        &["grep"],
        &[
            "-E",
            "--extended-regexp",
            "-e",
            "--regexp=PATTERNS",
            "-f",
            "--file=FILE",
            "-v",
            "--invert-match",
            "--color",
            "--colour[=WHEN]",
            "-m",
            "--max-count=NUM",
            "-q",
            "--silent",
            "--label=LABEL",
            "-NUM",
            "--context=NUM",
            "--exclude-dir=GLOB",
            "-I",
            "-r",
            "-z",
        ],
        &["-lZ", "-print0", "-1", "-0"],
    );
}

#[test]
fn the_options_of_git_push() {
    assert_options(
        &["git", "push"],
        &[
            "--all",
            "--prune",
            "--mirror",
            "-n",
            "--dry-run",
            "--porcelain",
            "-d",
            "--delete",
            "--tags",
            "--[no-]atomic",
            "-o",
            "--push-option=<option>",
            "--repo=<repository>",
            "-u",
            "--set-upstream",
            "-f",
            "--force",
            "--[no-]force-if-includes",
            "--progress",
            "-4",
            "--ipv4",
        ],
        &["--amend", "--rebase", "-i", "--local"],
    );
}

#[test]
fn the_options_of_curl() {
    assert_options(
        &["curl"],
        &[
            "-d",
            "--data <data>",
            "-H",
            "-o",
            "--output <file>",
            "-L",
            "--location",
            "-k",
            "--insecure",
            "-u",
            "--user <user:password>",
            "-X",
            "-:",
            "--next",
            "-#",
            "--progress-bar",
            "-0",
            "--http1.0",
            "--tlsv1.2",
            "--alt-svc <file name>",
            "--retry <num>",
            "--data-urlencode <data>",
            "--anyauth",
        ],
        &["--eprt", "--no-append", "-OJ", "-500", "--option"],
    );
}

#[test]
fn the_options_of_bash_and_of_its_builtin_commands() {
    assert_options(
        &["bash"],
        &[
            "-c",
            "-i",
            "-l",
            "-s",
            "-D",
            "-O [shopt_option]",
            "--",
            "--init-file",
            "--rcfile file",
            "--login",
            "--noprofile",
            "--norc",
            "--posix",
            "set -e",
            "set -u",
            "set -x",
            "set -o option-name",
            "read -t timeout",
            "read -n nchars",
            "read -r",
            "shopt -s",
            "ulimit -n",
            "complete -F function",
            "bind -x keyseq:shell-command",
        ],
        &["-eq", "-nt", "-ef", "--id", "-z"],
    );
}

#[test]
fn the_options_of_rsync() {
    assert_options(
        &["rsync"],
        &[
            "--archive",
            "-a",
            "--verbose",
            "-v",
            "-e",
            "--rsh=COMMAND",
            "--delete",
            "--exclude=PATTERN",
            "--no-OPTION",
            "--compress",
            "-z",
            "--dry-run",
            "-n",
            "--one-file-system",
            "-x",
            "-P",
            "-D",
            "--info=FLAGS",
            "--no-W",
            "-B",
            "--block-size=SIZE",
            "--from0",
            "-0",
            "--bwlimit=RATE",
        ],
        &["-avz", "-av", "-rw-rw-r--", "--sender", "--delete-WHEN"],
    );
}

#[test]
fn the_options_and_tests_of_find() {
    assert_options(
        &["find"],
        &[
            "-H",
            "-L",
            "-P",
            "-D debugopts",
            "-Olevel",
            "-maxdepth levels",
            "-name pattern",
            "-iname pattern",
            "-mtime n",
            "-newerXY reference",
            "-perm -mode",
            "-perm /mode",
            "-size n[cwbkMG]",
            "-exec command ;",
            "-exec command {} +",
            "-print0",
            "-delete",
            "-prune",
            "-xdev",
            "-warn",
            "-nowarn",
            "-true",
            "-gid n",
            "-fprintf file format",
            "-not expr",
        ],
        &["-n", "-664", "-0", "-1M", "-pmd0"],
    );
}

#[test]
fn the_options_of_ssh() {
    assert_options(
        &["ssh"],
        &[
            "-4",
            "-A",
            "-a",
            "-B bind_interface",
            "-C",
            "-D [bind_address:]port",
            "-i identity_file",
            "-J destination",
            "-l login_name",
            "-N",
            "-o option",
            "-p port",
            "-T",
            "-t",
            "-v",
            "-W host:port",
            "-w local_tun[:remote_tun]",
            "-Y",
        ],
        &["-lv", "-KD", "-r"],
    );
    let table = table(&["ssh", "-L"]);
    let first = table.lines().next().unwrap_or_default();
    assert!(first.starts_with("-L [bind_address:]port:host:hostport"), "{first}");
}

/// Sections whose tagged paragraphs describe no options.
const WITHOUT_OPTIONS: [&str; 4] = ["SYNOPSIS", "EXAMPLES", "ENVIRONMENT", "DIAGNOSTICS"];

/// The names with which the tagged paragraphs of a page's source begin: of `.TP`, `.IP`
/// and `.It Fl`, outside of sections without options.
fn described(page: &str) -> Vec<String> {
    let source = Command::new("sh")
        .args(["-c", "zcat -f -- \"$(man -w -- \"$1\")\"", "sh", page])
        .output()
        .expect("the source");
    let source = String::from_utf8_lossy(&source.stdout).into_owned();
    let mut is_left_out = false;
    let mut is_tag = false;
    let mut names = Vec::new();
    for line in source.lines() {
        if let Some(title) = line.strip_prefix(".SH ").or(line.strip_prefix(".Sh ")) {
            let title = title.trim_matches('"');
            is_left_out = WITHOUT_OPTIONS.contains(&title);
        }
        let tag = match line.strip_prefix(".It Fl ").map(|name| format!("-{name}")) {
            Some(tag) => Some(tag),
            None if is_tag => Some(line.to_owned()),
            None => line.strip_prefix(".IP ").map(str::to_owned),
        };
        is_tag = line.starts_with(".TP") || is_tag && line.starts_with(".PD");
        let tag = tag.unwrap_or_default().replace("\\-", "-");
        let tag = ["\\fB", "\\fI", "\\fR", "\\fP", "\\&", ".B ", ".BR ", ".BI ", "\""]
            .iter()
            .fold(tag, |tag, macros| tag.replace(macros, ""));
        let is_part = |part: char| ['-', '.'].contains(&part) || part.is_ascii_alphanumeric();
        let name = tag.split(|part| !is_part(part)).next().unwrap_or_default();
        let name = name.trim_end_matches('.');
        // `-500` are the last 500 bytes.
        let is_number = name.len() > 2 && name.bytes().skip(1).all(|byte| byte.is_ascii_digit());
        if !is_left_out && name.len() > 1 && name.starts_with('-') && !is_number {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn every_option_that_a_paragraph_of_a_page_begins_with_is_in_its_table() {
    for (page, at_least) in [
        ("ls", 40),
        ("grep", 30),
        ("curl", 200),
        ("rsync", 100),
        ("ssh", 35),
        ("ssh-keygen", 35),
        ("gzip", 10),
    ] {
        let described = described(page);
        assert!(described.len() >= at_least, "{page}: {described:?}");
        let table = table(&[page]);
        let words = table.lines().flat_map(|line| head(line).split([' ', ',', '=', '[']));
        let found: Vec<&str> = words.collect();
        let missing = described.iter().filter(|name| !found.contains(&name.as_str()));
        let missing: Vec<&String> = missing.collect();
        assert!(missing.is_empty(), "{page}: {missing:?}: {table}");
    }
}

#[test]
fn the_options_of_jq() {
    assert_options(
        &["jq"],
        &[
            "--seq",
            "--stream",
            "--slurp",
            "-s",
            "--raw-input",
            "-R",
            "--null-input",
            "-n",
            "--compact-output",
            "-c",
            "--tab",
            "--indent n",
            "-C",
            "-M",
            "--raw-output",
            "-r",
            "--join-output",
            "-j",
            "-f",
            "--arg name value",
            "-e",
            "--exit-status",
            "--args",
        ],
        &["-1", "-2"],
    );
}

#[test]
fn options_on_the_command_line_come_first() {
    for (words, expected) in [
        (&["tar", "-xzf"][..], &["-x", "-f", "-z"][..]),
        (&["git", "push", "--no-verify"], &["--[no-]verify"]),
        (&["find", "-name"], &["-name pattern"]),
    ] {
        let table = table(words);
        let first: Vec<&str> = table
            .lines()
            .take(expected.len())
            .filter_map(|line| head(line).split(", ").next())
            .collect();
        assert_eq!(first, expected, "{words:?}");
    }
}

#[test]
fn a_strange_environment_gives_the_same_table() {
    let env = Env::new();
    let plain = run(manopt(&env, &["ls"])).text();
    let mut command = manopt(&env, &["ls"]);
    command
        .env("MANWIDTH", "40")
        .env("MANPAGER", "less")
        .env("MAN_KEEP_FORMATTING", "1")
        .env("MANROFFOPT", "-rLL=40n")
        .env("LC_ALL", "C");
    assert_eq!(run(command).text(), plain);
    assert!(plain.starts_with("-a, --all "), "{plain}");
}

// Without a table

fn assert_no_table(finished: &Finished, expected: &str) {
    assert_eq!(finished.code, 1, "{finished:?}");
    assert_eq!(finished.text(), "");
    assert_eq!(finished.stderr, format!("zsh-tool: {expected}\n"));
}

#[test]
fn what_is_missing_is_named() {
    let env = Env::new();
    let no_page = run(manopt(&env, &["no-such-program", "sub"]));
    assert_no_table(&no_page, "there is no manual page no-such-program-sub or no-such-program");
    let empty = with_fake_man(&env, manopt(&env, &["thing"]), "echo 'THING(1)'; echo nothing");
    assert_no_table(&run(empty), "no options were found in the manual page thing");
    let mut no_man = manopt(&env, &["ls"]);
    no_man.env("PATH", "/nonexistent");
    assert_no_table(&run(no_man), "`man` was not found in PATH: install man-db, or mandoc");
    let killed = with_fake_man(&env, manopt(&env, &["ls"]), "kill -s TERM $$");
    assert_no_table(&run(killed), "man was ended by signal 15: try again");
    let failed = with_fake_man(&env, manopt(&env, &["ls"]), "exit 2");
    assert_no_table(&run(failed), "man failed with exit code 2: run it by hand to see why");
    let path = run(manopt(&env, &["./ls"]));
    assert_eq!(path.code, 1, "{path:?}");
    assert!(path.stderr.contains("\"./ls\" is not a valid name"), "{path:?}");
    for usage in [&[][..], &["-k", "ls"]] {
        assert_eq!(run(manopt(&env, usage)).code, 2, "{usage:?}");
    }
}

#[test]
fn a_page_of_the_command_itself_is_said_to_be_so() {
    let env = Env::new();
    let finished = run(manopt(&env, &["ls", "nosuchsubcommand"]));
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(finished.stderr, "zsh-tool: these are the options of ls\n");
}

/// What a page that takes no end leaves is ended with it: in its own session, and with
/// nothing in its environment.
#[test]
fn a_man_that_hangs_is_ended_with_all_that_it_has_started() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let script =
        format!("setsid sh -c '{sleep} & {sleep}' & env -i /usr/bin/env setsid {sleep} & {sleep}");
    let mut command = with_fake_man(&env, manopt(&env, &["ls"]), &script);
    command.env("ALAN_MANOPT_TIMEOUT", "2");
    let started = Instant::now();
    let finished = run(command);
    assert_no_table(&finished, "man has not printed the page within 2 s: see ALAN_MANOPT_TIMEOUT");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    sleep.assert_gone();
    assert_none_left(env.mark());
}

#[test]
fn a_look_up_that_is_interrupted_takes_man_along() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let script = format!("setsid {sleep} & {sleep}");
    let program = Program::start(with_fake_man(&env, manopt(&env, &["ls"]), &script));
    sleep.wait_for(2);
    program.signal("INT");
    assert_eq!(program.finish().code, 130);
    sleep.assert_gone();
}

#[test]
fn a_man_that_leaves_something_behind_is_cleaned_up_after() {
    let env = Env::new();
    let sleep = UniqueSleep::new();
    let script = format!(
        "setsid {sleep} > /dev/null 2>&1 &\n\
         printf 'THING(1)\\n\\nOPTIONS\\n       -a     first\\n       -b     second\\n'"
    );
    let finished = run(with_fake_man(&env, manopt(&env, &["thing"]), &script));
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(options(&finished.text()), ["-a", "-b"]);
    sleep.assert_gone();
}

/// The table is that of the part that was read.
#[test]
fn a_page_without_an_end_is_cut() {
    let env = Env::new();
    let script = "trap '' PIPE\necho 'THING(1)'; printf '\\n       -a     first\\n'; exec yes";
    let finished = run(with_fake_man(&env, manopt(&env, &["thing"]), script));
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(options(&finished.text()), ["-a"]);
    assert_none_left(env.mark());
}

#[test]
fn an_option_of_man_cannot_be_passed_as_a_name() {
    let env = Env::new();
    let script = r#"printf 'X(1)\n\n       -a     %s\n' "$*""#;
    let finished = run(with_fake_man(&env, manopt(&env, &["thing; id", "-Pid"]), script));
    assert_eq!(finished.code, 1, "{finished:?}");
    let finished = run(with_fake_man(&env, manopt(&env, &["$(id)"]), script));
    assert!(finished.text().ends_with(" -- $(id)\n"), "{finished:?}");
}

// Around it

#[test]
fn the_script_finds_the_program_of_its_tree() {
    let env = Env::new();
    let tree = env.path("tree with a blank");
    for folder in ["scripts", "bin"] {
        fs::create_dir_all(tree.join(folder)).expect("a directory");
    }
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/manopt");
    let script = tree.join("scripts/manopt");
    fs::copy(own, &script).expect("a copy of the script");
    let link = env.path("link");
    symlink(&script, &link).expect("a link");

    let finished = run(env.command(&link));
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stderr.contains("run 'make build'"), "{finished:?}");

    symlink(binary(), tree.join("bin/zsh-tool")).expect("a link");
    let mut command = env.command(&link);
    command.args(["ls", "--zero"]).env("ALAN_MANOPT_TIMEOUT", "60");
    let finished = run(command);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(options(&finished.text()).contains(&"--all"), "{finished:?}");
}

#[test]
fn doctor_says_whether_man_works() {
    let env = Env::new();
    let line = |command: Command| {
        let text = run(command).text();
        let line = text.lines().find(|line| line.contains(" man: "));
        line.unwrap_or_else(|| panic!("no line on man: {text}")).to_owned()
    };
    let doctor = || {
        let mut command = zsh_tool(&env, &["doctor"]);
        command.env("ALAN_MANOPT_TIMEOUT", "60");
        command
    };
    let healthy = line(doctor());
    assert!(healthy.starts_with("ok "), "{healthy}");
    let without_pages = line(with_fake_man(&env, doctor(), "exit 16"));
    assert!(
        without_pages.starts_with("warning ") && without_pages.contains("no manual page man →"),
        "{without_pages}"
    );
}

#[test]
fn the_settings_are_those_of_the_environment() {
    let env = Env::new();
    let mut command = zsh_tool(&env, &["config"]);
    for (name, value) in [
        ("ALAN_MANOPT_ENABLED", "off"),
        ("ALAN_MANOPT_TIMEOUT", "0.5"),
        ("ALAN_MANOPT_FAIL_TRIGGER", "4"),
        ("ALAN_MANOPT_FAIL_PRESENT", "0"),
    ] {
        command.env(name, value);
    }
    let finished = run(command);
    let rows: Vec<String> = finished
        .text()
        .lines()
        .filter(|line| line.starts_with("manopt_"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        rows,
        [
            "manopt_enabled false $ALAN_MANOPT_ENABLED",
            "manopt_timeout 0.5 s $ALAN_MANOPT_TIMEOUT",
            "manopt_fail_trigger 4 $ALAN_MANOPT_FAIL_TRIGGER",
            "manopt_fail_present 3 default",
        ]
    );
    assert!(finished.stderr.contains("ALAN_MANOPT_FAIL_PRESENT"), "{finished:?}");
}
