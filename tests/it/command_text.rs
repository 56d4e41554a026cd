//! Commands of any script and any length are run, or refused clearly; never a crash.

use serde_json::json;

use crate::support::env::Env;

/// The kernel's limit on one argument (`MAX_ARG_STRLEN`).
const ARGUMENT_LIMIT: usize = 128 * 1024;

/// The tool's limit on the text of a command.
const COMMAND_LIMIT: usize = 1024 * 1024;

/// How many characters of the first line the result echoes.
const ECHOED: usize = 120;

#[test]
fn commands_of_any_script_run_and_come_back_unchanged() {
    let env = Env::new();
    let client = env.client();
    let texts = [
        "こんにちは世界、端末です",
        "👩‍👩‍👧‍👦 🏳️‍🌈 🧑🏽‍💻",
        "مرحبا بالعالم",
        "שלום עולם",
        "e\u{301}a\u{308}o\u{302} Z\u{351}\u{36b}a\u{343}lgo",
        "Ünïcödé ßtraße ﬁ",
        "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u{10FFFD}",
        "ไทย हिन्दी 한국어",
    ];
    for text in texts {
        let command = format!("print -r -- '{text}'; false");
        let result = client.call("zsh", json!({"command": command, "yield_after": 20}));
        assert_eq!(result.output(), text);
        assert_eq!(result.header(), format!("$ {command}"));
        assert_eq!(result.meta["exit_code"], json!(1), "{}", result.text);
    }
}

#[test]
fn commands_around_the_kernels_argument_limit_keep_their_line_numbers() {
    let env = Env::new();
    let client = env.client();
    for length in [ARGUMENT_LIMIT - 1024, ARGUMENT_LIMIT, 200 * 1024, COMMAND_LIMIT] {
        let (command, lines) = long_command(length);
        let result = client.call("zsh", json!({"command": command, "yield_after": 25}));
        assert!(!result.is_error, "{length}: {}", result.text);
        assert_eq!(result.output(), lines.to_string(), "{length}");
        assert_eq!(result.meta["exit_code"], json!(3), "{length}");
    }
}

#[test]
fn a_long_command_reports_its_pipestatus() {
    let env = Env::new();
    let client = env.client();
    let (filler, _) = long_command(200 * 1024);
    let command = filler.replace("; exit 3", "; false | true");
    let result = client.call("zsh", json!({"command": command, "yield_after": 25}));
    assert_eq!(result.meta["pipestatus"], json!([1, 0]), "{}", result.text);
    assert_eq!(result.meta["exit_code"], json!(0), "{}", result.text);
}

#[test]
fn a_long_command_with_a_syntax_error_runs_nothing() {
    let env = Env::new();
    let client = env.client();
    let (filler, _) = long_command(200 * 1024);
    let command = format!("touch began\n{filler}\nif true\n");
    let result = client.call("zsh", json!({"command": command, "yield_after": 25}));
    assert!(result.text.contains("parse error"), "{}", result.text);
    assert_eq!(result.meta["exit_code"], json!(1), "{}", result.text);
    assert!(!env.work().join("began").exists());
}

/// Each text runs alone under bare `zsh -c`, and behind a command that makes it longer than an
/// argument can be.
#[test]
fn a_long_command_behaves_as_a_short_one() {
    let env = Env::new();
    let client = env.client();
    let texts = [
        "print a\nprint ${x!y}\nprint b",
        "print a\nprint $((1/0))\nprint b",
        "set -u\nprint a\nprint $nope\nprint b",
        ". ./nofile",
        "source ./nofile\nprint $?",
        "print $0 $ZSH_ARGZERO ${+ZSH_SCRIPT} $ZSH_NAME $# $? \"$_\" $LINENO",
        "f() { print $funcfiletrace $funcsourcetrace; print -P %x %N %i; nocmd }\nf; print -P %x %N %i",
        "f() { }\nwhence -v f; print $functions_source[f]",
        "return 3\nprint no",
        "cat <<X\nabc\n$((1 + 1))",
        "print a\\",
        "print a; if true",
        "print a\nprint 'b",
        "print ok; eval 'print ('\nnocmd",
        "alias foo='print hi'\nfoo",
        "exec print hi",
        "set -x\nprint a\nf() { print c }\nf; false",
        "set -e\nprint a\nfalse\nprint b",
        "read x; print $? got=$x",
        "trap 'print bye $?' EXIT\nfalse",
        "TRAPZERR() { print zerr $LINENO }\nfalse\ntrue",
        "touch aa; print ^aa; setopt extendedglob; print a#; [[ -o extendedglob ]]; print $?",
        "setopt posixbuiltins\n. ./nofile\nprint no",
        "for i in 1 2; do\n  nocmd $i\ndone; exit 5",
        "print ${1:?none}\nprint no",
        "fi; print x; if true; then",
        "exit() { print mine }\nalias builtin=false\nfalse | true",
    ];
    for text in texts {
        let bare =
            env.command("zsh").args(["-f", "-c", &format!("exec 2>&1; : x; : y; {text}")]).output();
        let bare = bare.expect("zsh");
        let output = String::from_utf8_lossy(&bare.stdout).trim_end().to_owned();
        let errors = String::from_utf8_lossy(&bare.stderr).trim_end().to_owned();
        let filler = "x".repeat(ARGUMENT_LIMIT);
        let long = format!("exec 2>&1; : {filler}; : y; {text}");
        let result = client.call("zsh", json!({"command": long, "yield_after": 25}));
        let told = result.output().trim_end().to_owned();
        assert_eq!(told, format!("{output}{errors}"), "{text}");
        assert_eq!(result.meta["exit_code"], json!(bare.status.code()), "{text}: {told}");
    }
}

#[test]
fn a_command_above_the_limit_is_refused_with_the_limit() {
    let env = Env::new();
    let client = env.client();
    let (command, _) = long_command(COMMAND_LIMIT + 1);
    let result = client.call("zsh", json!({"command": command}));
    assert!(result.is_error, "{}", result.text);
    let limit = regex::Regex::new("1 ?MiB|1,?048,?576").expect("a regex");
    assert!(limit.is_match(&result.text), "{}", result.text);
    let next = client.call("zsh", json!({"command": "echo on", "yield_after": 20}));
    assert_eq!(next.output(), "on");
}

#[test]
fn a_command_that_no_shell_could_take_is_a_clear_error() {
    let env = Env::new();
    let client = env.client();
    let refused = [("", "command"), (" \t\n ", "command"), ("echo a\0b", "NUL")];
    for (command, word) in refused {
        let result = client.call("zsh", json!({"command": command}));
        assert!(result.is_error, "{command:?}: {}", result.text);
        assert!(result.text.contains(word), "{command:?}: {}", result.text);
        assert!(!result.text.contains("exit=0"), "{command:?}: {}", result.text);
    }
}

#[test]
fn the_echoed_command_is_cut_on_a_character_and_counts_the_lines_left_out() {
    let env = Env::new();
    let client = env.client();
    for letter in ["x", "あ", "🧑"] {
        let first = format!(": {}", letter.repeat(200));
        let command = format!("{first}\n:\n:\n:");
        let result = client.call("zsh", json!({"command": command, "yield_after": 20}));
        let header = result.header();
        let shown = header
            .strip_prefix("$ ")
            .and_then(|rest| rest.split_once('…'))
            .map(|(shown, _)| shown.trim_end())
            .unwrap_or_else(|| panic!("not cut: {header}"));
        assert!(first.starts_with(shown), "{header}");
        let length = shown.chars().count();
        assert!((ECHOED - 1..=ECHOED).contains(&length), "{length}: {header}");
        assert!(header.ends_with("… +3 lines"), "{header}");
    }
}

#[test]
fn a_short_first_line_is_echoed_whole() {
    let env = Env::new();
    let client = env.client();
    let result = client.call("zsh", json!({"command": "echo a\n:\n:\n:", "yield_after": 20}));
    assert!(result.header().starts_with("$ echo a"), "{}", result.text);
    assert!(result.header().ends_with("… +3 lines"), "{}", result.text);
    let whole = format!("echo {}", "y".repeat(ECHOED - 5));
    let result = client.call("zsh", json!({"command": &whole, "yield_after": 20}));
    assert_eq!(result.header(), format!("$ {whole}"));
}

/// A command of exactly so many bytes that prints the number of its last line and ends
/// with 3; gives the number too.
fn long_command(length: usize) -> (String, usize) {
    const FILLER: &str = ": 'a line of words, some of them in 日本語, to fill the text'\n";
    const LAST: &str = "echo $LINENO; exit 3";
    let mut command = String::with_capacity(length);
    while command.len() + FILLER.len() + LAST.len() <= length {
        command.push_str(FILLER);
    }
    let padding = length - command.len() - LAST.len();
    command.push_str(&" ".repeat(padding));
    command.push_str(LAST);
    let lines = command.lines().count();
    (command, lines)
}
