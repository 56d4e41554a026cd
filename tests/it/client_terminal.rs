//! A server that shares its client's terminal never writes to it, nor do its commands.

use serde_json::json;

use crate::support::env::Env;
use crate::support::terminal::OnTerminal;

#[test]
fn nothing_is_ever_written_to_the_clients_terminal() {
    let env = Env::new();
    let on_terminal = OnTerminal::start(&env);
    let client = &on_terminal.client;
    let commands = [
        "echo to stdout; echo to stderr >&2",
        "echo to the terminal > /dev/tty",
        "sh -c 'echo to the terminal > /dev/tty'",
        "stty -a < /dev/tty",
        "read -r answer < /dev/tty",
        "printf '\\a\\033]0;title\\007'",
        "no-such-command-at-all",
    ];
    for command in commands {
        for pty in [false, true] {
            let arguments = json!({"command": command, "pty": pty, "yield_after": 2});
            let result = client.call("zsh", arguments);
            assert!(!result.is_error, "{command}: {}", result.text);
        }
    }
    client.assert_only_frames();
    assert_eq!(on_terminal.screen(), "");
}

#[test]
fn a_command_in_pipe_mode_has_no_terminal_to_open() {
    let env = Env::new();
    let on_terminal = OnTerminal::start(&env);
    let command = "(: > /dev/tty) 2>/dev/null && echo opened || echo refused";
    let arguments = json!({"command": command, "yield_after": 20});
    let result = on_terminal.client.call("zsh", arguments);
    assert_eq!(result.output(), "refused");
}

#[test]
fn what_asks_on_the_terminal_ends_at_once_in_pipe_mode() {
    let env = Env::new();
    let on_terminal = OnTerminal::start(&env);
    let client = &on_terminal.client;
    for command in [
        "read x </dev/tty",
        "python3 -c 'import getpass; getpass.getpass()'",
        "sh -c 'stty -echo </dev/tty && read word </dev/tty'",
    ] {
        let arguments = json!({"command": command, "yield_after": 40});
        let result = client.call("zsh", arguments);
        assert_eq!(result.status(), "failed", "{command}: {}", result.text);
    }
    let arguments = json!({"command": "read x </dev/tty", "yield_after": 40});
    let result = client.call("zsh", arguments);
    assert!(result.text.contains("pty: true"), "{}", result.text);
    client.assert_only_frames();
    assert_eq!(on_terminal.screen(), "");
}
