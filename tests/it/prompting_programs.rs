//! Real programs that wait for input, all found; and real programs that look like it and
//! do not, none ever taken for one that does.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::env::Env;
use crate::support::result::ToolResult;

/// Far above the time in which a waiting program is found.
const LONG: u32 = 40;
/// In which a program that is wrongly taken for a waiting one would be found: more than
/// three looks.
const WATCHED: u32 = 4;

#[test]
fn interactive_programs_wait() {
    let env = Env::new();
    let client = env.client();
    fs::write(env.work().join("text"), "line\n".repeat(100)).expect("a text");
    let commands = [
        "vim -u NONE -N text",
        "less text",
        "man zsh",
        "python3 -q",
        "PYTHON_BASIC_REPL=1 python3 -q",
        "node",
        "gdb -q -nx",
        "bash --norc -i",
        "zsh -fi",
        "dialog --yesno question 7 20",
        "cat",
        "select word in a b; do break; done",
        "vared -c word",
        "bash -c 'read -n 1 key'",
        "python3 -c \"input('Do you want to continue? [Y/n] ')\"",
        "sleep 0.1 | { sleep 0.2; cat < /dev/tty }",
        "(trap '' INT; cat) | cat",
        // A session of its own, which `su -c` makes too: no job of the terminal's.
        "setsid -w sh -c 'read word'",
        "setsid -w setsid -w sh -c 'read word'",
        // At a second terminal, whose program passes the input on.
        "script -qc cat /dev/null",
    ];
    for (command, result) in commands.iter().zip(client.on_terminals(&commands, LONG)) {
        assert_waits(&result, "input", command);
        assert_eq!(result.meta["reader"]["seen"], json!(true), "{command}");
    }
}

#[test]
fn programs_that_ask_are_found_with_their_question() {
    let env = Env::new();
    let client = env.client();
    let server = HttpServer::that_refuses();
    let fetch = format!("git -c credential.helper= ls-remote http://127.0.0.1:{}/x", server.port);
    for (command, wanted, question) in [
        ("ssh-keygen -q -t ed25519", "input", "Enter file in which"),
        ("ssh-keygen -q -t ed25519 -f key", "password", "Enter passphrase"),
        ("bash -c 'read -s -p Secret: word'", "password", "Secret:"),
        ("python3 -c 'import getpass; getpass.getpass()'", "password", "Password:"),
        (fetch.as_str(), "input", "Username for"),
        ("rm -i text", "input", "rm: remove regular"),
    ] {
        fs::write(env.work().join("text"), "line\n").expect("a text");
        let result = client.on_terminals(&[command], LONG).remove(0);
        assert_waits(&result, wanted, command);
        let prompt = result.meta["prompt"].as_str().unwrap_or_default();
        assert!(prompt.starts_with(question), "{command}: {}", result.text);
        client.kill_task(&result.task_id());
    }
}

#[test]
fn a_menu_is_quoted_by_the_question_above_its_options() {
    let env = Env::new();
    let client = env.client();
    let options = "print 'Old? yes\nChoose an option:\n 1) build\n 2) test\n'; read word";
    let commands = [
        ("dialog --menu 'Which one?' 15 40 4 a apple b banana", "Which one?"),
        ("whiptail --menu 'Which one?' 15 40 4 a apple b banana", "Which one?"),
        ("whiptail --yesno 'Really delete?' 10 40", "Really delete?"),
        ("print 'Which colour?'; select word in red green; do break; done", "Which colour?"),
        ("bash -c 'echo Which colour?; select word in red green; do :; done'", "Which colour?"),
        ("PS3='Your choice: '; select word in red green; do break; done", "Your choice:"),
        (options, "Choose an option:"),
        // What is edited is no menu.
        ("print 'Which one?\n* a\n* b' > list; vim -u NONE -N + list", ""),
        ("print 'Which one?\n* a\n* b'; read 'word?> '", ">"),
    ];
    let on_terminals = client.on_terminals(&commands.map(|(command, _)| command), LONG);
    for ((command, question), result) in commands.iter().zip(on_terminals) {
        assert_waits(&result, "input", command);
        assert_eq!(result.meta["prompt"], json!(question), "{command}: {}", result.text);
    }
    let arguments = json!({"command": options, "stdin_open": true, "yield_after": LONG});
    let result = client.call("zsh", arguments);
    assert_waits(&result, "input", options);
    assert_eq!(result.meta["prompt"], json!("Choose an option:"), "{}", result.text);
}

#[test]
fn a_screen_that_looks_for_keys_from_time_to_time_asks_nothing() {
    let env = Env::new();
    let client = env.client();
    fs::write(env.work().join("screen.py"), SCREEN).expect("a program");
    let command = "python3 screen.py";
    let screen = client.on_terminals(&[command], WATCHED).remove(0);
    assert_ran_on(&screen, command);
    let status = "idle: interactive screen, accepts keys";
    assert!(screen.footer().contains(status), "{}", screen.text);
    assert!(screen.footer().contains("next: zsh_send keys=["), "{}", screen.text);
    let poll = client.poll(&screen.task_id(), json!({"listen": 2}));
    let suggestion = poll.meta["poll_meta"]["suggestion"].as_str().unwrap_or_default();
    assert!(suggestion.contains("zsh_send keys=["), "{}", poll.text);
}

/// It looks for keys twice a second.
const SCREEN: &str = "
import curses
def show(screen):
    curses.curs_set(0)
    screen.timeout(500)
    screen.addstr('Which one?')
    while screen.getch() != ord('q'):
        pass
curses.wrapper(show)
";

#[test]
fn programs_that_work_in_silence_never_wait() {
    let env = Env::new();
    fs::write(env.work().join("Makefile"), "all:\n\t@sleep 60\n").expect("a makefile");
    let commands = [
        "make",
        "sleep 60",
        "while :; do :; done",
        "echo 'Password:'; sleep 60",
        "printf 'Password: '; sleep 60",
        "printf 'Do you want to continue? [Y/n] '; sleep 60",
        "stty -echo; printf 'Password: '; sleep 60",
        "stty raw -echo; sleep 60",
        "sleep 60 & wait",
        "{ sleep 60 } | gzip | cat",
        "sleep 60 | cat",
        "touch grows; tail -f grows",
        "top -b -d 2 > /dev/null",
        "mkfifo quiet; sleep 60 > quiet & python3 -c 'input()' < quiet",
        "cat < /dev/zero > /dev/null",
        "coproc cat; sleep 60",
        // It reads when the shell has started both: before, nobody else is there.
        "mkfifo both; setsid sh -c 'read -r _ <both; exec cat' & sh -c 'echo >both; exec sleep 60'",
        "zsh -fc 'sleep 60; read word'",
    ];
    assert_never_waiting(&env.client(), &commands);
}

#[test]
fn programs_that_relay_a_terminal_never_wait() {
    let env = Env::new();
    fs::write(env.work().join("server.js"), SERVER_WITH_KEYS).expect("a program");
    let commands = [
        "script -qc 'sleep 60' /dev/null",
        "node server.js",
        // A screen that redraws itself takes keys and asks nothing.
        "top",
        // By lines, and with a time limit: it goes on by itself.
        "read -t 60 word",
        "bash -c 'read -t 60 word'",
    ];
    assert_never_waiting(&env.client(), &commands);
}

/// It listens to single keys and to requests.
const SERVER_WITH_KEYS: &str = "
const readline = require('readline');
readline.emitKeypressEvents(process.stdin);
process.stdin.setRawMode(true);
process.stdin.resume();
process.stdin.on('keypress', () => {});
require('http').createServer(() => {}).listen(0, '127.0.0.1');
";

#[test]
fn programs_that_wait_for_the_network_never_wait_for_input() {
    let env = Env::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // It never accepts: the kernel has taken the connections, nobody answers.
    let port = listener.local_addr().expect("its address").port();
    let connect = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).recv(1)'"
    );
    let commands = [
        format!("ssh -F none -o StrictHostKeyChecking=no -p {port} 127.0.0.1"),
        format!("git ls-remote git://127.0.0.1:{port}/x"),
        format!("git init -q one; git -C one fetch git://127.0.0.1:{port}/x"),
        connect,
        "python3 -m http.server --bind 127.0.0.1 0".to_owned(),
    ];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    assert_never_waiting(&env.client(), &commands);
}

#[test]
fn a_task_without_input_never_waits() {
    let env = Env::new();
    let client = env.client();
    let commands = ["bash -c 'read word; sleep 60'", "cat; sleep 60", "sleep 60"];
    for input in [json!({}), json!({"stdin": "one line\n"})] {
        let calls: Vec<_> = commands
            .iter()
            .map(|command| {
                let mut arguments = input.clone();
                arguments["command"] = json!(command);
                arguments["yield_after"] = json!(WATCHED);
                client.call_async("zsh", arguments)
            })
            .collect();
        for (command, call) in commands.iter().zip(calls) {
            assert_ran_on(&call.tool_result(), command);
        }
    }
}

#[test]
fn an_open_pipe_is_waited_for_only_by_whom_reads_it() {
    let env = Env::new();
    let client = env.client();
    let call = |command: &str, yield_after| {
        let arguments = json!({"command": command, "stdin_open": true, "yield_after": yield_after});
        client.call_async("zsh", arguments)
    };
    let reads = ["gzip -c | wc -c", "cat | head -1", "sort | uniq", "zsh"];
    let reads: Vec<_> = reads.map(|command| (command, call(command, LONG))).into();
    let works = ["sleep 60", "sleep 60 | cat", "tail -f /dev/null"];
    let works: Vec<_> = works.map(|command| (command, call(command, WATCHED))).into();
    for (command, call) in reads {
        assert_waits(&call.tool_result(), "input", command);
    }
    for (command, call) in works {
        assert_ran_on(&call.tool_result(), command);
    }
}

fn assert_waits(result: &ToolResult, wanted: &str, command: &str) {
    assert_eq!(result.status(), "running", "{command}: {}", result.text);
    let waiting_for = &result.meta["waiting_for"];
    assert_eq!(waiting_for, &json!(wanted), "{command}: {}", result.text);
}

fn assert_never_waiting(client: &Client, commands: &[&str]) {
    let results = client.on_terminals(commands, WATCHED);
    for (command, result) in commands.iter().zip(&results) {
        assert_ran_on(result, command);
    }
}

/// It ran for as long as it was watched, and nothing was said of it.
fn assert_ran_on(result: &ToolResult, command: &str) {
    assert_eq!(result.status(), "running", "{command}: {}", result.text);
    let waiting_for = &result.meta["waiting_for"];
    assert_eq!(waiting_for, &Value::Null, "{command}: {}", result.text);
    assert_eq!(result.meta["conditions"], json!([]), "{command}: {}", result.text);
    let ran = result.meta["duration_ms"].as_u64().unwrap_or_default();
    let all = u64::from(WATCHED) * 1000;
    assert!(ran >= all, "{command} came back early: {}", result.text);
}

/// An HTTP server that asks everybody who he is, until it is dropped.
struct HttpServer {
    port: u16,
    ended: Receiver<()>,
}

impl HttpServer {
    fn that_refuses() -> HttpServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (end, ended) = channel::<()>();
        thread::spawn(move || {
            for connection in listener.incoming() {
                // The receiver is gone, or refuses once more.
                if end.send(()).is_err() {
                    return;
                }
                refuse(connection.expect("a connection"));
            }
        });
        HttpServer { port, ended }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let (_, gone) = channel();
        self.ended = gone;
        // Wakes the thread, which finds nobody who listens.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn refuse(mut connection: TcpStream) {
    use std::io::{Read, Write};
    let mut request = [0; 4096];
    let _ = connection.read(&mut request);
    let _ = connection.write_all(
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\
          Content-Length: 0\r\nConnection: close\r\n\r\n",
    );
}
