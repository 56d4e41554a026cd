//! Where shapes run: a server, the programs and peers that their commands name, and a
//! directory for each.
//!
//! A command finds its own directory as the working one, and these variables:
//! `PROGRAMS`, the folder of this module's program files; `PEER_PORT` and `PEER_SOCKET`,
//! of a server that takes connections and never answers; `FREE_PORT`, which nothing
//! listens on; `ON_DISK`, a folder on a disk. The compiled programs, and what
//! `scripts/shape-programs` has installed, come first in its `PATH`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::{Value, json};

use super::shape::{First, Input, Shape};
use crate::history_shared::{add_runs, original, wait_for_runs};
use crate::support::client::{Client, send_signal};
use crate::support::env::{Env, binary, free_port};
use crate::support::processes::assert_none_left;

/// Far beyond what any of the preparations takes, in seconds.
const PREPARATION: u32 = 25;
/// The deadline of a shape's task in seconds: beyond every watch.
const DEADLINE: u32 = 300;
/// A server with all that shapes need around it.
pub struct Workshop {
    env: Env,
    /// The connection to the server.
    pub client: Client,
    programs: PathBuf,
    path: String,
    /// Follows the events of the server, as an agent's monitor does.
    follower: Child,
    peer: TcpListener,
    /// The kernel takes its connections; nothing accepts them.
    _peer_socket: UnixListener,
}

impl Workshop {
    /// Compiles the programs and starts the server with this configuration file.
    pub fn open(configuration: &str, shapes: &[Shape]) -> Workshop {
        let env = Env::new();
        env.configure(configuration);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let programs = source.join("tests/it/shapes/programs");
        let compiled = env.path("programs");
        fs::create_dir(&compiled).expect("a folder for the programs");
        compile(&env, &programs, &compiled);

        let remembered: Vec<_> =
            shapes.iter().filter_map(|shape| Some((shape.command, shape.remembered()?))).collect();
        if !remembered.is_empty() {
            let database = original(&env, true);
            for (command, (runs, milliseconds)) in &remembered {
                add_runs(&database, command, *runs, *milliseconds);
            }
        }
        let client = env.client();
        for (command, _) in &remembered {
            wait_for_runs(&client, command);
        }

        let installed = source.join("target/shapes/python/bin");
        assert!(
            installed.join("ipython").exists(),
            "run scripts/shape-programs first: {} lacks ipython",
            installed.display()
        );
        let path = std::env::var("PATH").expect("a path");
        let of_npm = source.join("target/shapes/npm/node_modules/.bin");
        let built = source.join("target/shapes/built");
        // Not the proxy of rustup, which looks for its settings at home.
        let cargo = Path::new(env!("CARGO")).parent().expect("a folder");
        let folders = [&compiled, &installed, &of_npm, &built, cargo].map(|path| path.display());
        let path = folders.iter().map(|folder| format!("{folder}:")).chain([path]).collect();
        let mut follow = env.command("sh");
        follow.args(["-c", "exec \"$0\" events --follow --json >events"]).arg(binary());
        let follower = follow.spawn().expect("the follower of events");
        let peer = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer_socket = UnixListener::bind(env.path("peer")).expect("a socket");
        Workshop { env, client, programs, path, follower, peer, _peer_socket: peer_socket }
    }

    /// Makes the directory of a shape and what has to be there first; gives the arguments
    /// of the call that starts it, and the tasks that hold something meanwhile.
    pub fn prepare(&self, shape: &Shape) -> (Value, Vec<String>) {
        let directory = self.directory(shape);
        fs::create_dir(&directory).expect("a directory for the shape");
        let arguments = self.arguments(shape, &directory);
        let mut holders = Vec::new();
        for first in shape.first {
            match first {
                First::Remembered { .. } => {}
                First::Ran(command) => {
                    let mut call = arguments.clone();
                    call["command"] = json!(command);
                    call["yield_after"] = json!(PREPARATION);
                    let ran = self.client.call("zsh", call);
                    assert_eq!(ran.status(), "completed", "{}", ran.text);
                }
                First::Holds(command) => {
                    let mut call = arguments.clone();
                    call["command"] = json!(command);
                    call["yield_after"] = json!(PREPARATION);
                    call["until"] = json!("^held$");
                    let held = self.client.call("zsh", call);
                    assert!(!held.meta["matched_line"].is_null(), "{}", held.text);
                    holders.push(held.task_id());
                }
            }
        }
        let mut call = arguments;
        call["command"] = json!(shape.command);
        match shape.input {
            Input::Nothing => {}
            Input::OpenPipe => call["stdin_open"] = json!(true),
            Input::Terminal => call["pty"] = json!(true),
        }
        (call, holders)
    }

    /// Ends the tasks of a shape, and what it leaves behind by design.
    pub fn clean_up(&self, shape: &Shape, task: &str, holders: &[String]) {
        // Nothing can end what waits for a file system until that has ended.
        for holder in holders {
            self.client.kill_all_of(holder);
        }
        self.client.kill_all_of(task);
        if let Some(command) = shape.afterwards {
            let mut call = self.arguments(shape, &self.directory(shape));
            call["command"] = json!(command);
            call["yield_after"] = json!(PREPARATION);
            let ran = self.client.call("zsh", call);
            // What is to be ended may have ended by itself.
            assert_ne!(ran.status(), "running", "{}", ran.text);
        }
    }

    /// Ends the server; no process may be left. Returns the tasks of which an event said that
    /// they are stuck.
    pub fn close(mut self) -> Vec<String> {
        send_signal("TERM", self.follower.id());
        self.follower.wait().expect("the end of the follower");
        drop(self.client);
        assert_none_left(self.env.mark());
        let events = fs::read_to_string(self.env.work().join("events")).expect("the events");
        let events = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let stuck = events.filter(|event| event["event"] == "stuck");
        stuck.filter_map(|event| event["task_id"].as_str().map(str::to_owned)).collect()
    }

    fn directory(&self, shape: &Shape) -> PathBuf {
        let name = shape.name.replace(|letter: char| !letter.is_alphanumeric(), "_");
        self.env.work().join(name)
    }

    fn arguments(&self, shape: &Shape, directory: &Path) -> Value {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        json!({
            "cwd": directory,
            "timeout": DEADLINE,
            "description": shape.name,
            "env": {
                "PATH": self.path,
                "PROGRAMS": self.programs,
                "BUILT": source.join("target/shapes/built"),
                "NODE_PATH": source.join("target/shapes/npm/node_modules"),
                "PEER_PORT": self.peer.local_addr().expect("its address").port().to_string(),
                "PEER_SOCKET": self.env.path("peer"),
                "FREE_PORT": free_port().to_string(),
                // Where temporary files are may be memory.
                "ON_DISK": env!("CARGO_TARGET_TMPDIR"),
                "TERM": "xterm-256color",
            },
        })
    }
}

fn compile(env: &Env, sources: &Path, compiled: &Path) {
    for entry in fs::read_dir(sources).expect("the program files").flatten() {
        let source = entry.path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let program = compiled.join(source.file_stem().expect("a name"));
        let mut compiler = env.command("cc");
        compiler.args(["-O1", "-pthread", "-o"]).arg(program).arg(&source);
        assert!(runs(&mut compiler), "{} does not compile", source.display());
    }
}

fn runs(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
