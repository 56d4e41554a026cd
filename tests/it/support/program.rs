//! Runs the program under test like a person or a script: with arguments, input, output and an exit
//! code.
//!
//! Every wait has a deadline, after which the program is killed; so it is if its test fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::client::{PATIENCE, send_signal};
use super::env::{Env, binary, shell_exit_code};

/// A running program, whose stderr is collected.
pub struct Program {
    /// Present until its end is waited for.
    child: Option<Child>,
    /// Present until a test closes or takes it.
    pub stdin: Option<ChildStdin>,
    stdout: Option<BufReader<std::process::ChildStdout>>,
    stderr: Receiver<Vec<u8>>,
}

/// The result of a program.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; 128 + N if signal N ended it.
    pub code: i32,
    /// The stdout that was not read before.
    pub stdout: Vec<u8>,
    /// The whole stderr.
    pub stderr: String,
}

impl Finished {
    /// stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Program {
    /// Starts a command with a pipe as stdin; see [`Program::start_with`] for another stdin.
    pub fn start(command: Command) -> Program {
        Program::start_with(command, Stdio::piped())
    }

    /// Starts a command with this stdin.
    pub fn start_with(mut command: Command, stdin: Stdio) -> Program {
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        let stderr = in_background(child.stderr.take().expect("a piped stderr"));
        Program { child: Some(child), stdin, stdout, stderr }
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("its end is not waited for").id()
    }

    /// Sends a signal, by name without `SIG`.
    pub fn signal(&self, name: &str) {
        send_signal(name, self.id());
    }

    /// The next line of its stdout, without the line's end. The program must print one.
    pub fn read_line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("stdout is still open");
        stdout.read_line(&mut line).expect("a line of stdout");
        line.trim_end_matches('\n').to_owned()
    }

    /// Reads its stdout up to this line.
    pub fn read_lines_to(&mut self, wanted: &str) {
        loop {
            let mut line = String::new();
            let stdout = self.stdout.as_mut().expect("stdout is still open");
            let length = stdout.read_line(&mut line).expect("a line of stdout");
            assert_ne!(length, 0, "it ended before it wrote {wanted:?}");
            if line.trim_end_matches('\n') == wanted {
                return;
            }
        }
    }

    /// Closes the reading end of its stdout.
    pub fn close_stdout(&mut self) {
        self.stdout.take();
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Finished {
        self.stdin.take();
        self.finish_with_stdin_open()
    }

    /// Waits for its end without closing its stdin.
    pub fn finish_with_stdin_open(mut self) -> Finished {
        let stdout = self.stdout.take().map(in_background);
        let pid = self.id();
        let (ended, end) = mpsc::channel();
        let mut child = self.child.take().expect("its end is not waited for");
        thread::spawn(move || {
            let _ = ended.send(child.wait().expect("the end of the program"));
        });
        let Ok(status) = end.recv_timeout(PATIENCE) else {
            send_signal("KILL", pid);
            panic!("the program did not end");
        };
        let gathered = |from: &Receiver<Vec<u8>>| from.recv_timeout(PATIENCE).expect("its end");
        Finished {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            stdout: stdout.as_ref().map(gathered).unwrap_or_default(),
            stderr: String::from_utf8_lossy(&gathered(&self.stderr)).into_owned(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take().filter(|_| thread::panicking()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a program writes, stderr where stdout goes, and its exit code as a shell has it.
pub fn merged(command: &mut Command) -> (Vec<u8>, i64) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().expect("a second end")).stderr(writer);
    let mut child = command.spawn().expect("the program is installed");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("the output");
    (bytes, shell_exit_code(child.wait().expect("its end")))
}

/// What `zsh-tool exec` writes with stderr where stdout goes.
pub struct ExecMerged {
    pub output: Vec<u8>,
    /// The status line and what follows it.
    pub status: String,
    pub code: i64,
}

impl ExecMerged {
    pub fn without_status(self) -> (Vec<u8>, i64) {
        (self.output, self.code)
    }
}

/// Runs this `zsh-tool exec`.
pub fn exec_merged(command: &mut Command) -> ExecMerged {
    const STATUS: [&str; 4] = ["✔ exit=", "✘ exit=", "✘ KILLED", "⏱ TIMEOUT"];
    let (mut output, code) = merged(command);
    let text = String::from_utf8_lossy(&output).into_owned();
    let place = STATUS.iter().filter_map(|status| text.rfind(status)).max();
    let status = text[place.unwrap_or(text.len())..].to_owned();
    output.truncate(output.len() - status.len());
    ExecMerged { output, status, code }
}

/// `zsh-tool` with these arguments.
pub fn zsh_tool(env: &Env, arguments: &[&str]) -> Command {
    let mut command = env.command(binary());
    command.args(arguments);
    command
}

/// Runs `zsh-tool` with these arguments and nothing on stdin.
pub fn ran(env: &Env, arguments: &[&str]) -> Finished {
    run(zsh_tool(env, arguments))
}

/// Runs a program with nothing on stdin.
pub fn run(command: Command) -> Finished {
    Program::start_with(command, Stdio::null()).finish()
}

/// Runs a program with these bytes on a pipe at its stdin.
pub fn run_with_input(command: Command, input: Vec<u8>) -> Finished {
    let mut program = Program::start(command);
    let mut stdin = program.stdin.take().expect("a piped stdin");
    let writer = thread::spawn(move || stdin.write_all(&input));
    let finished = program.finish();
    // The program may have ended before it read all.
    let _ = writer.join().expect("no panic");
    finished
}

fn in_background(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (gathered, received) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let _ = gathered.send(bytes);
    });
    received
}
