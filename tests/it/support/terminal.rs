//! A server whose controlling terminal is a PTY, like that of a client in a terminal window.
//!
//! `script` (Debian: bsdutils) creates the terminal; the connection uses pipes. Output to the
//! terminal goes to a file.

use std::fs;
use std::path::PathBuf;

use super::client::Client;
use super::env::{Env, binary};

/// Passes the pipes to the server past `script`, whose own standard streams are the terminal's. Its
/// stdin is a pipe that never ends, since it types Ctrl-D at the end.
const START: &str = r#"mkfifo "$TEST_KEYBOARD" || exit 125
exec 3<&0 4>&1 5<>"$TEST_KEYBOARD"
exec script --quiet --flush --return --command \
  'exec "$TEST_BINARY" serve <&3 >&4 2>"$TEST_STDERR" 3<&- 4>&- 5<&-' \
  /dev/null <&5 >"$TEST_SCREEN" 2>&1"#;

/// A server on a terminal.
pub struct OnTerminal {
    pub client: Client,
    screen: PathBuf,
}

impl OnTerminal {
    /// Starts and initializes a server.
    pub fn start(env: &Env) -> OnTerminal {
        let screen = env.path("screen");
        let mut command = env.command("sh");
        command
            .args(["-c", START])
            .env("SHELL", "/bin/sh")
            .env("TEST_BINARY", binary())
            .env("TEST_KEYBOARD", env.path("keyboard"))
            .env("TEST_SCREEN", &screen)
            .env("TEST_STDERR", env.path("stderr"));
        let client = Client::start(command, env.path("script-stderr"));
        client.initialize();
        OnTerminal { client, screen }
    }

    /// The output to the terminal so far.
    pub fn screen(&self) -> String {
        let bytes = fs::read(&self.screen).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
