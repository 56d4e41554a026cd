//! Output that comes after the command's exit: its end is waited for unless some process
//! holds the output open.
//!
//! The delay is that of a descriptor on its way between two processes: in the queue of a
//! socket nothing holds it, and the kernel keeps what it leads to open.

use std::process::Command;

use serde_json::json;

use crate::support::env::Env;
use crate::support::program::Program;
use crate::support::result::ToolResult;

/// Sends its stdout through the socket, and ends.
const SENDER: &str = r#"
import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
print("early", flush=True)
socket.send_fds(peer, [b"x"], [1])
if sys.argv[2] == "holds":
    peer.recv(1)
"#;

/// Takes what SENDER sends: half a second after its end, or never, or at once to hold it.
const RECEIVER: &str = r#"
import os, select, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
peer, _ = listener.accept()
ended = select.poll()
ended.register(peer, select.POLLRDHUP)
if sys.argv[2] == "late":
    ended.poll()
    time.sleep(0.5)
    fd = socket.recv_fds(peer, 1, 1)[1][0]
    os.write(fd, b"late\n")
else:
    if sys.argv[2] == "holds":
        fd = socket.recv_fds(peer, 1, 1)[1][0]
        peer.send(b"x")
    sys.stdin.read()
"#;

/// Runs SENDER on pipes and on a terminal at once, each with a RECEIVER of its own.
fn results(behaviour: &str) -> [ToolResult; 2] {
    let env = Env::new();
    let client = env.client();
    let receivers = [false, true].map(|pty| {
        let socket = env.path(if pty { "pty.sock" } else { "pipe.sock" });
        let mut command = Command::new("python3");
        command.args(["-c", RECEIVER]).arg(&socket).arg(behaviour);
        let mut receiver = Program::start(command);
        assert_eq!(receiver.read_line(), "ready");
        (pty, socket, receiver)
    });
    let calls = receivers.each_ref().map(|(pty, socket, _)| {
        let command =
            format!("python3 -c '{SENDER}' {} {behaviour}", socket.to_str().expect("a plain path"));
        let arguments = json!({"command": command, "pty": pty, "yield_after": 25});
        client.call_async("zsh", arguments)
    });
    let results = calls.map(|call| call.tool_result());
    for (_, _, receiver) in receivers {
        receiver.finish();
    }
    results
}

fn warns(result: &ToolResult) -> bool {
    result.footer().contains("the last lines may be missing")
}

#[test]
fn output_that_the_kernel_hands_over_late_is_in_the_answer_that_names_the_end() {
    for result in results("late") {
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert_eq!(result.output(), "early\nlate", "{}", result.text);
        assert!(!warns(&result), "{}", result.text);
    }
}

#[test]
fn an_end_of_output_that_does_not_come_is_reported() {
    for result in results("never") {
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert_eq!(result.output(), "early", "{}", result.text);
        assert!(warns(&result), "{}", result.text);
    }
}

#[test]
fn output_that_a_process_unknown_to_the_server_holds_open_ends_by_silence() {
    for result in results("holds") {
        assert_eq!(result.status(), "completed", "{}", result.text);
        assert_eq!(result.output(), "early", "{}", result.text);
        assert!(!warns(&result), "{}", result.text);
    }
}
