//! Interpreters and a debugger, statement by statement.

use std::fs;
use std::process::Command;

use super::session::Session;
use crate::support::env::Env;

#[test]
fn python_is_talked_to_with_a_readable_echo() {
    let env = Env::new();
    let python = Session::start(&env, "PYTHON_BASIC_REPL=1 exec python3 -q");
    python.asks(">>> ").enter("x = 6 * 7").asks("\n>>> ");
    python.enter("print('x is', x)").asks("x is 42\n>>> ");
    python.enter("def double(a):").asks("... ");
    python.enter("    return a * 2").asks("2\n... ");
    python.enter("").asks("\n>>> ");
    // Longer than the terminal is wide: the line editor goes on in the next row.
    let long =
        "print([number * number for number in range(10) if number % 2 == 0], double(x), 'ends')";
    python.enter(long).asks("84 ends\n>>> ");
    python.enter("1/0").asks("by zero\n>>> ");
    python.end_input();
    let text = python.ends_with_exit(0);
    let begin = format!(
        ">>> x = 6 * 7\n>>> print('x is', x)\nx is 42\n>>> def double(a):\n...     return a * 2\n... \n\
         >>> {long}\n[0, 4, 16, 36, 64] 84 ends\n>>> 1/0\nTraceback (most recent call last):\n"
    );
    assert!(text.starts_with(&begin), "{text}");
    assert!(text.contains("\nZeroDivisionError: division by zero\n>>>"), "{text}");
}

#[test]
fn what_history_and_cursor_keys_change_reads_as_it_stands_in_the_end() {
    let env = Env::new();
    let shell = Session::start(&env, "INPUTRC=/dev/null PS1='$ ' exec bash --norc --noprofile -i");
    shell.asks("$ ").enter("echo one").asks("one\n$ ");
    shell.enter("echo two").asks("two\n$ ");
    shell.press("\u{1b}[A\u{1b}[A").asks("\n$ echo one");
    shell.press("\u{1b}[B").asks("\n$ echo two");
    shell.press("\u{1b}[D\u{1b}[D\u{1b}[Dtwen\u{1b}[3~").asks("\n$ echo twenwo");
    shell.enter("").asks("\ntwenwo\n$ ");
    shell.end_input();
    let text = shell.ends_with_exit(0);
    let wanted = "$ echo one\none\n$ echo two\ntwo\n$ echo twenwo\ntwenwo\n$ ";
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn an_interactive_zsh_reads_as_it_was_typed() {
    let env = Env::new();
    let shell = Session::start(&env, "PS1='%# ' PROMPT_EOL_MARK= exec zsh -f -i");
    let sign = shell.text();
    let sign = sign.trim();
    shell.asks(&format!("{sign} "));
    shell.enter("echo hello").asks(&format!("\nhello\n{sign} "));
    let long = format!("echo {}", "seventeen letters ".repeat(6).trim());
    shell.enter(&long).asks(&format!("letters\n{sign} "));
    shell.enter("exit 7");
    let text = shell.ends_with_exit(7);
    let (_, said) = long.split_once(' ').unwrap_or_default();
    let wanted = format!("{sign} echo hello\nhello\n{sign} {long}\n{said}\n{sign} exit 7");
    assert!(text.starts_with(&wanted), "{text}");
}

#[test]
fn node_evaluates_and_ends() {
    let env = Env::new();
    let node = Session::start(&env, "NODE_REPL_HISTORY= exec node");
    node.asks("\n> ").enter("const x = 6 * 7").asks("\nundefined\n> ");
    node.enter("x * 2").asks("\n84\n> ");
    node.enter("[1, 2].map(n => n * 2)").asks("\n[ 2, 4 ]\n> ");
    node.end_input();
    let text = node.ends_with_exit(0);
    let wanted = "> const x = 6 * 7\nundefined\n> x * 2\n84\n> [1, 2].map(n => n * 2)\n[ 2, 4 ]\n>";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn gdb_stops_shows_where_and_asks_before_it_quits() {
    let env = Env::new();
    let source = "int add(int a, int b) { return a + b; }\nint main(void) { return add(2, 3); }\n";
    fs::write(env.work().join("sum.c"), source).expect("a source file");
    let built = Command::new("cc")
        .args(["-g", "-O0", "-o", "sum", "sum.c"])
        .current_dir(env.work())
        .status();
    assert!(built.expect("a C compiler").success());
    let gdb = Session::start(&env, "DEBUGINFOD_URLS= SHELL=/bin/sh exec gdb -nx -q ./sum");
    gdb.asks("(gdb) ").enter("break add").asks("line 1.\n(gdb) ");
    gdb.enter("run").asks("return a + b; }\n(gdb) ");
    gdb.enter("bt").asks("at sum.c:2\n(gdb) ");
    gdb.enter("quit").asks("Quit anyway? (y or n) ").enter("y");
    let text = gdb.ends_with_exit(0);
    for line in [
        "(gdb) break add",
        "(gdb) run",
        "Breakpoint 1, add (a=2, b=3) at sum.c:1",
        "(gdb) bt",
        "#0  add (a=2, b=3) at sum.c:1",
        "(gdb) quit",
        "Quit anyway? (y or n) y",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
}
