//! Agent runs of the real binary with a fake agent: its script, the prompts that it got, and the
//! contents of the run's files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::env::{Env, binary};
use super::processes::wait_until;
use super::program::{Finished, Program, run};

/// The fake agent.
pub const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agents/fake-agent");

/// An environment for runs in which `claude` is the fake agent.
pub struct Runs {
    pub env: Env,
}

/// Steps that end successfully with this text.
pub fn says(text: &str) -> Value {
    json!([{"init": 1}, {"result": text}])
}

/// Steps of an auditor that gives this verdict.
pub fn verdict(verdict: &str, feedback: &str) -> Value {
    let text = json!({"verdict": verdict, "feedback": feedback}).to_string();
    json!([{"init": 1}, {"result": text}])
}

impl Runs {
    /// An environment with this script.
    pub fn new(script: Value) -> Runs {
        let env = Env::new();
        for folder in ["bin", "notes"] {
            fs::create_dir(env.path(folder)).expect("a folder");
        }
        symlink(FAKE, env.path("bin/claude")).expect("a link");
        let runs = Runs { env };
        runs.script(script);
        runs
    }

    /// An environment with these starts of a worker, and an auditor that accepts the result.
    pub fn working(worker: Value) -> Runs {
        Runs::new(json!({"worker": worker, "auditor": [verdict("DONE", "")]}))
    }

    /// Replaces the script.
    pub fn script(&self, script: Value) {
        fs::write(self.env.path("script.json"), script.to_string()).expect("a script");
    }

    /// The path of a file in the working directory, for which a script can wait.
    pub fn flag(&self, name: &str) -> String {
        self.env.work().join(name).display().to_string()
    }

    /// Creates that file.
    pub fn raise(&self, name: &str) {
        fs::write(self.env.work().join(name), "").expect("a flag");
    }

    /// Gives a command this environment.
    pub fn surround(&self, mut command: Command) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.env.path("bin").display());
        command
            .env("PATH", path)
            .env("FAKE_AGENT", self.env.path("script.json"))
            .env("FAKE_AGENT_NOTES", self.env.path("notes"));
        command
    }

    /// `zsh-tool oneshot` with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.surround(self.env.command(binary()));
        command.arg("oneshot").args(arguments);
        command
    }

    /// Runs `zsh-tool oneshot` to its end.
    pub fn ran(&self, arguments: &[&str]) -> Finished {
        run(self.command(arguments))
    }

    /// Starts `zsh-tool oneshot`.
    pub fn start(&self, arguments: &[&str]) -> Program {
        Program::start_with(self.command(arguments), std::process::Stdio::null())
    }

    /// Starts `zsh-tool oneshot` on a terminal of its own; what is written to its stdin is typed.
    pub fn on_terminal(&self, arguments: &[&str]) -> Program {
        let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("exec \"$TEST_BINARY\" oneshot {}", words.join(" "));
        let mut script = self.surround(self.env.command("script"));
        script
            .args(["--quiet", "--flush", "--return", "--command", &line])
            .arg(self.env.path("typescript"))
            .env("SHELL", "/bin/sh")
            .env("TEST_BINARY", binary());
        Program::start(script)
    }

    /// What that terminal has shown.
    pub fn shown(&self) -> String {
        let bytes = fs::read(self.env.path("typescript")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The directory of the only run.
    pub fn directory(&self) -> PathBuf {
        let entries = fs::read_dir(self.env.path("state/sessions")).expect("the runs");
        // An incomplete run has another name.
        let mut found = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_none());
        let directory = found.next().expect("a run");
        assert!(found.next().is_none(), "one run only");
        directory
    }

    /// The only run's id.
    pub fn id(&self) -> String {
        let directory = self.directory();
        let name = directory.file_name().expect("a name");
        name.to_string_lossy().into_owned()
    }

    /// The only run's file.
    pub fn file(&self) -> Value {
        let text = fs::read_to_string(self.directory().join("oneshot.json")).expect("the file");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The states in its log, in order.
    pub fn logged_history(&self) -> Vec<String> {
        let changes: Vec<Value> = self.lines("state_change");
        let to = changes.iter().map(|line| line["data"]["to"].as_str());
        to.map(|state| state.expect("a state").to_owned()).collect()
    }

    /// The states in its history.
    pub fn history(&self) -> Vec<String> {
        states(&self.file()["history"])
    }

    /// Its state and reason.
    pub fn state(&self) -> (String, Option<String>) {
        let file = self.file();
        let last = file["history"].as_array().and_then(|all| all.last()).cloned();
        let reason = last.as_ref().and_then(|last| last["reason"].as_str());
        (file["state"].as_str().unwrap_or_default().to_owned(), reason.map(str::to_owned))
    }

    /// The lines of its log.
    pub fn log(&self) -> Vec<Value> {
        let path = self.directory().join("oneshot-log.json");
        let text = fs::read_to_string(path).expect("the log");
        // While it is being written, the last line may not be whole.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The lines of one type in its log.
    pub fn lines(&self, kind: &str) -> Vec<Value> {
        let mut lines = self.log();
        lines.retain(|line| line["type"] == kind);
        lines
    }

    /// The log entry of the n-th start of a role.
    pub fn told(&self, role: &str, number: usize) -> Value {
        let path = self.env.path(&format!("notes/{role}-{number}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|_| panic!("no {role} {number}"));
        serde_json::from_str(&text).expect("JSON")
    }

    /// The prompt of the n-th start of a role.
    pub fn prompt(&self, role: &str, number: usize) -> String {
        let told = self.told(role, number);
        told["prompt"].as_str().unwrap_or_default().to_owned()
    }

    /// How many times a role was started.
    pub fn starts(&self, role: &str) -> usize {
        (1..)
            .take_while(|number| {
                let name = format!("notes/{role}-{number}.noted");
                self.env.path(&name).exists()
            })
            .count()
    }

    /// Waits until a role was started this many times; returns the last pid.
    pub fn wait_for_start(&self, role: &str, number: usize) -> i64 {
        wait_until(&format!("start {number} of the {role}"), || {
            (self.starts(role) >= number).then_some(())
        });
        self.told(role, number)["pid"].as_i64().expect("a pid")
    }

    /// Waits until the run's file meets a condition.
    pub fn wait_for_state(&self, wanted: &str) {
        wait_until(&format!("the state {wanted}"), || {
            let sessions = fs::read_dir(self.env.path("state/sessions")).ok()?;
            let directory = sessions.flatten().map(|entry| entry.path()).next()?;
            let text = fs::read_to_string(directory.join("oneshot.json")).ok()?;
            let file: Value = serde_json::from_str(&text).ok()?;
            (file["state"] == wanted).then_some(())
        });
    }
}

/// The states of a history.
pub fn states(history: &Value) -> Vec<String> {
    let entries = history.as_array().expect("a history").iter();
    entries.map(|entry| entry["state"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Whether a process is alive.
pub fn lives(pid: i64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.trim_start());
    fields.is_some_and(|fields| !fields.starts_with('Z'))
}
