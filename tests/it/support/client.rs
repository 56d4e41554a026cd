//! A client that speaks raw frames, so that a test sees exactly what a server writes.
//!
//! Every wait has a deadline; when it passes, the failure shows the server's last messages. Limits:
//! tests check protocol rules, not the client.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::env::host;
use super::inbox::{Frame, Inbox};
use super::processes::descendants_of;
use super::result::ToolResult;

/// How long a test waits before it fails; far longer than any real duration.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long a server may take to end after its client has closed the connection.
const PARTING: Duration = Duration::from_secs(5);

/// After this time a second signal counts separately; earlier signals are merged.
pub const SECOND_THOUGHT: Duration = Duration::from_millis(100);

/// This many kills end a task with any processes.
const MAX_KILLS: usize = 5;

/// How many characters of a frame a failure shows.
const SHOWN_OF_A_FRAME: usize = 600;

/// The legacy protocol version of tests that are not about versions.
pub const PROTOCOL_VERSION: &str = "2025-06-18";

/// A running server, with the connection to it.
pub struct Client {
    process: Arc<Process>,
    stdin: Mutex<Option<ChildStdin>>,
    inbox: Arc<Inbox>,
    next_id: AtomicU64,
    stderr: PathBuf,
}

/// The server's process; a thread waits for its end.
struct Process {
    pid: u32,
    ended: Mutex<Option<(ExitStatus, Instant)>>,
    changed: Condvar,
}

impl Client {
    /// Starts the server; its stderr goes to a file.
    pub fn start(mut command: Command, stderr: PathBuf) -> Client {
        let log = File::create(&stderr).expect("a file for stderr");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("a piped stdout");
        let inbox = Arc::new(Inbox::default());
        let process =
            Arc::new(Process { pid: child.id(), ended: Mutex::new(None), changed: Condvar::new() });
        let filled = Arc::clone(&inbox);
        thread::spawn(move || filled.fill_from(stdout));
        let awaited = Arc::clone(&process);
        thread::spawn(move || {
            let status = child.wait().expect("the end of the server");
            *awaited.ended.lock().expect("no waiter panicked") = Some((status, Instant::now()));
            awaited.changed.notify_all();
        });
        Client { process, stdin: Mutex::new(stdin), inbox, next_id: AtomicU64::new(1), stderr }
    }

    /// Initializes the connection as every legacy client does; returns the server's answer.
    pub fn initialize(&self) -> Value {
        self.initialize_at(PROTOCOL_VERSION)
    }

    /// Like [`Client::initialize`], with another protocol version.
    pub fn initialize_at(&self, version: &str) -> Value {
        self.initialize_as("zsh-tool-tests", version)
    }

    /// Like [`Client::initialize_at`], with another client name.
    pub fn initialize_as(&self, name: &str, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": name, "version": "1"},
        });
        let response = self.request("initialize", params).wait();
        self.notify("notifications/initialized", json!({}));
        response["result"].clone()
    }

    /// Sends a request without waiting.
    pub fn request(&self, method: &str, params: Value) -> Pending<'_> {
        let id = json!(self.next_id.fetch_add(1, Ordering::Relaxed));
        let sent = Instant::now();
        let asked = ["yield_after", "listen"].map(|name| params["arguments"][name].as_f64());
        let asked = asked.into_iter().flatten().find_map(|s| Duration::try_from_secs_f64(s).ok());
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        Pending { client: self, id, sent, asked: asked.unwrap_or_default() }
    }

    /// Calls a tool without waiting.
    pub fn call_async(&self, tool: &str, mut arguments: Value) -> Pending<'_> {
        let takes_host = ["zsh", "zsh_tasks", "zsh_alan_query"].contains(&tool);
        if let Some(host) = host().filter(|_| takes_host && arguments.get("host").is_none()) {
            arguments["host"] = json!(host);
        }
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and waits for its result.
    pub fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_async(tool, arguments).tool_result()
    }

    /// Starts a command in the background; returns the task's id.
    pub fn start_task(&self, command: &str) -> String {
        self.call("zsh", json!({"command": command, "yield_after": 0})).task_id()
    }

    /// Starts a command and waits until a line matches; returns the task's id.
    pub fn start_until(&self, command: &str, pattern: &str) -> String {
        let arguments = json!({"command": command, "until": pattern, "yield_after": 25});
        let result = self.call("zsh", arguments);
        assert!(!result.meta["matched_line"].is_null(), "{}", result.text);
        result.task_id()
    }

    /// Runs a command to its end.
    pub fn run(&self, command: &str) -> ToolResult {
        self.call("zsh", json!({"command": command, "yield_after": 25}))
    }

    /// Polls a task; `arguments` are the arguments other than its id.
    pub fn poll(&self, task: &str, mut arguments: Value) -> ToolResult {
        arguments["task_id"] = json!(task);
        self.call("zsh_poll", arguments)
    }

    /// Polls a task to its end.
    pub fn poll_to_end(&self, task: &str) -> ToolResult {
        self.poll(task, json!({"wait_for": "end", "listen": 25}))
    }

    /// Runs commands in parallel, each on its own terminal; waits until all calls have returned.
    pub fn on_terminals(&self, commands: &[&str], yield_after: u32) -> Vec<ToolResult> {
        let calls: Vec<_> = commands
            .iter()
            .map(|command| {
                let arguments =
                    json!({"command": command, "pty": true, "yield_after": yield_after});
                self.call_async("zsh", arguments)
            })
            .collect();
        calls.into_iter().map(|call| call.tool_result()).collect()
    }

    /// Kills a task; returns the receipt.
    pub fn kill_task(&self, task: &str) -> ToolResult {
        self.call("zsh_kill", json!({"task_id": task}))
    }

    /// Kills a task, repeatedly while the receipt lists survivors; returns the receipt without
    /// survivors. On a busy machine the kernel may take longer to end a process after SIGKILL than
    /// a receipt waits, and a task that keeps starting processes may be faster than the scans for
    /// them.
    pub fn kill_all_of(&self, task: &str) -> ToolResult {
        let mut receipt = self.kill_task(task);
        for _ in 1..MAX_KILLS {
            let nobody = receipt.meta["survivors"] == json!([]);
            if nobody && receipt.status() != "running" {
                break;
            }
            receipt = self.kill_task(task);
        }
        assert_eq!(receipt.meta["survivors"], json!([]), "{}", receipt.text);
        receipt
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Cancels a request.
    pub fn cancel(&self, request: &Pending<'_>) {
        let params = json!({"requestId": request.id, "reason": "the test changed its mind"});
        self.notify("notifications/cancelled", params);
    }

    /// Sends a ping and waits for its answer, so that the server has read all earlier messages.
    pub fn ping(&self) {
        let response = self.request("ping", json!({})).wait();
        assert_eq!(response["result"], json!({}), "{}", self.describe());
    }

    /// Writes bytes unchanged.
    pub fn send_raw(&self, bytes: &[u8]) {
        let mut stdin = self.stdin.lock().expect("no writer panicked");
        let stdin = stdin.as_mut().expect("stdin is still open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).unwrap_or_else(|error| {
            panic!("the server has stopped reading: {error}\n{}", self.describe())
        });
    }

    /// The next response that was not taken yet, with any id.
    pub fn next_raw_response(&self) -> Frame {
        self.take("a response", PATIENCE, Frame::is_response)
    }

    /// All frames so far, taken or not, in order of arrival.
    pub fn frames(&self) -> Vec<Frame> {
        self.inbox.frames()
    }

    /// Kills the server for good: while its client is there, its guard would replace it. Frozen, it
    /// does not see that the client has gone.
    pub fn kill_server(&self) {
        let server = self.server_pid();
        send_signal("STOP", server);
        self.close_stdin();
        send_signal("KILL", server);
    }

    /// Closes the connection, as an exiting client does.
    pub fn close_stdin(&self) {
        self.stdin.lock().expect("no writer panicked").take();
    }

    /// Sends a signal, by name without `SIG`, to the process that the client started.
    pub fn signal(&self, name: &str) {
        let ended = self.process.ended.lock().expect("no waiter panicked");
        // Under the lock the pid belongs to this process, or did a moment ago: the waiting thread
        // may be about to record the end.
        if ended.is_none() {
            try_signal(name, self.process.pid);
        }
    }

    /// The process that the client started (the guard).
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// The server, which the guard has started.
    pub fn server_pid(&self) -> u32 {
        descendants_of(self.pid())
            .first()
            .map(|process| process.pid)
            .expect("the guard has started the server")
    }

    /// Waits for the end of the process; returns its status and how long that took.
    pub fn wait_exit(&self, patience: Duration) -> (ExitStatus, Duration) {
        let asked = Instant::now();
        let (status, at) = self.process.wait(patience).unwrap_or_else(|| {
            panic!("the server did not end within {patience:?}\n{}", self.describe())
        });
        (status, at.saturating_duration_since(asked))
    }

    /// Panics if stdout contained anything other than frames.
    pub fn assert_only_frames(&self) {
        let noise = self.inbox.noise();
        assert!(noise.is_empty(), "not frames: {noise:?}");
    }

    /// What the server and its guard have written to stderr so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// The last frames and stderr, for failures.
    pub fn describe(&self) -> String {
        let frames = self.inbox.frames();
        let last: Vec<String> = frames
            .iter()
            .rev()
            .take(6)
            .rev()
            .map(|frame| frame.raw.chars().take(SHOWN_OF_A_FRAME).collect())
            .collect();
        let stderr = self.stderr();
        format!(
            "last frames:\n{}\nother output: {:?}\nstderr:\n{stderr}",
            last.join("\n"),
            self.inbox.noise(),
        )
    }

    fn send(&self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    fn take(&self, what: &str, patience: Duration, matches: impl Fn(&Frame) -> bool) -> Frame {
        self.inbox
            .take(Instant::now() + patience, matches)
            .unwrap_or_else(|| panic!("{what} did not arrive\n{}", self.describe()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Ok(mut stdin) = self.stdin.lock() {
            stdin.take();
        }
        if self.process.wait(PARTING).is_none() {
            self.signal("KILL");
        }
    }
}

impl Process {
    fn wait(&self, patience: Duration) -> Option<(ExitStatus, Instant)> {
        let ended = self.ended.lock().expect("no waiter panicked");
        let (ended, _) = self
            .changed
            .wait_timeout_while(ended, patience, |ended| ended.is_none())
            .expect("no waiter panicked");
        *ended
    }
}

/// Sends a signal with the system's `kill`.
pub fn send_signal(name: &str, pid: u32) {
    assert!(try_signal(name, pid), "cannot send {name} to {pid}");
}

/// Kills processes, of which some may have ended meanwhile, if only because others were killed.
pub fn kill_those_alive(pids: impl IntoIterator<Item = u32>) {
    for pid in pids {
        try_signal("KILL", pid);
    }
}

/// Like [`send_signal`], for a process that may just have ended; returns whether the signal
/// arrived.
fn try_signal(name: &str, pid: u32) -> bool {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .expect("the kill program");
    status.success()
}

/// A request that was sent.
pub struct Pending<'a> {
    client: &'a Client,
    id: Value,
    sent: Instant,
    /// How long the call itself may wait.
    asked: Duration,
}

impl Pending<'_> {
    /// Waits for the response: a result or an error.
    pub fn wait(self) -> Value {
        self.frame().value
    }

    /// Waits for the result of a tool; a protocol error is a failure.
    pub fn tool_result(self) -> ToolResult {
        let sent = self.sent;
        let client = self.client;
        let frame = self.frame();
        let result = frame
            .value
            .get("result")
            .cloned()
            .unwrap_or_else(|| panic!("an error instead of a result\n{}", client.describe()));
        ToolResult::new(result, frame.arrived.saturating_duration_since(sent))
    }

    /// Whether the response has arrived.
    pub fn has_arrived(&self) -> bool {
        self.client.inbox.frames().iter().any(|frame| frame.answers(&self.id))
    }

    /// The rest of a time that began when the request was sent.
    pub fn left_of(&self, time: Duration) -> Duration {
        time.saturating_sub(self.sent.elapsed())
    }

    /// The request's id.
    pub fn id(&self) -> &Value {
        &self.id
    }

    fn frame(self) -> Frame {
        let what = format!("the response to {}", self.id);
        self.client.take(&what, PATIENCE + self.asked, |frame| frame.answers(&self.id))
    }
}
