//! A terminal window in tmux, whose screen tests read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::env::{Env, binary};
use super::processes::wait_until;

const CONFIGURATION: &str = "set -g status off\nset -g escape-time 0\nset -g default-shell /bin/sh\n\
    set -g default-terminal screen-256color\n";

/// A window with a shell. Dropping it closes the window.
pub struct Window<'a> {
    env: &'a Env,
    socket: PathBuf,
}

impl<'a> Window<'a> {
    /// Opens a window with this many rows and columns.
    pub fn open(env: &'a Env, rows: u16, cols: u16) -> Window<'a> {
        let folder = tempfile::Builder::new().prefix("tmux-").tempdir_in(env.path("tmp"));
        let folder = folder.expect("a directory").keep();
        let configuration = folder.join("tmux.conf");
        fs::write(&configuration, CONFIGURATION).expect("a configuration");
        let window = Window { env, socket: folder.join("s") };
        let mut start = env.command("tmux");
        start.arg("-S").arg(&window.socket).arg("-f").arg(&configuration);
        start.args(["new-session", "-d", "-x", &cols.to_string(), "-y", &rows.to_string()]);
        start.args(["exec env PS1='$ ' sh"]).stdin(Stdio::null());
        assert!(start.status().expect("tmux is installed").success());
        window.await_text("$");
        window
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = self.env.command("tmux");
        tmux.arg("-S").arg(&self.socket).args(arguments).stdin(Stdio::null());
        let output = tmux.output().expect("tmux is installed");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Types a line.
    pub fn enter(&self, line: &str) {
        self.type_text(line);
        self.press("Enter");
    }

    /// Types text.
    pub fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses a key, by tmux's name.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Pastes the content of a file.
    pub fn paste(&self, file: &Path) {
        self.tmux(&["load-buffer", &file.to_string_lossy()]);
        self.tmux(&["paste-buffer"]);
    }

    /// Runs the program under test with these arguments, then prints its exit code. What the
    /// screen showed before is gone when this returns, so that no test takes it for an answer.
    pub fn zsh_tool(&self, arguments: &str) {
        self.zsh_tool_below("", arguments);
    }

    /// The same, below a line on the screen.
    pub fn zsh_tool_below(&self, line: &str, arguments: &str) {
        self.enter("clear");
        self.await_screen("an empty screen", |screen| screen.trim_end() == "$");
        let line = if line.is_empty() { String::new() } else { format!("echo {line}; ") };
        self.enter(&format!("clear; {line}{} {arguments}; echo code=$?", binary().display()));
    }

    /// The text of the window, without trailing blanks in rows.
    pub fn screen(&self) -> String {
        let screen = self.tmux(&["capture-pane", "-p"]);
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Like [`Window::screen`], with the sequences that set colours.
    pub fn coloured_screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen meets a condition; returns it.
    pub fn await_screen(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(what, || {
                last = self.screen();
                wanted(&last).then(|| last.clone())
            })
        }));
        shown.unwrap_or_else(|_| panic!("never shown: {what}; the screen is:\n{last}"))
    }

    /// Waits until the screen shows this text; returns it.
    pub fn await_text(&self, text: &str) -> String {
        self.await_screen(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Changes the size.
    pub fn resize(&self, rows: u16, cols: u16) {
        let (rows, cols) = (rows.to_string(), cols.to_string());
        self.tmux(&["resize-window", "-x", &cols, "-y", &rows]);
    }

    /// The settings of the terminal, as `stty -g` prints them.
    pub fn settings(&self) -> String {
        let terminal = self.tmux(&["display-message", "-p", "#{pane_tty}"]);
        let mut stty = self.env.command("stty");
        let output = stty.args(["-g", "-F", terminal.trim()]).output().expect("stty");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let mut tmux = self.env.command("tmux");
        tmux.arg("-S").arg(&self.socket).arg("kill-server").stderr(Stdio::null());
        let _ = tmux.status();
    }
}
