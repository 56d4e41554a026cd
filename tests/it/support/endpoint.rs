//! An OpenAI-compatible endpoint that answers by a script: a process of its own, on
//! loopback, that writes down what it was asked.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::env::Env;
use super::program::Program;

/// What it is started with; `tests/fixtures/agents/fake-openai` says what a step is.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agents/fake-openai");

/// An endpoint that runs.
pub struct Endpoint {
    program: Option<Program>,
    port: String,
    log: PathBuf,
}

impl Endpoint {
    /// Starts it with these steps, one for each request; the last goes on for ever.
    pub fn start(env: &Env, steps: &Value) -> Endpoint {
        let (script, log) = (env.path("endpoint.json"), env.path("endpoint.log"));
        fs::write(&script, steps.to_string()).expect("a script");
        fs::write(&log, "").expect("a log");
        let mut program = Program::start(command(env, &script, &log));
        let port = program.read_line();
        Endpoint { program: Some(program), port, log }
    }

    /// Its address, with the version.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// What it was asked, in order.
    pub fn requests(&self) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).expect("its log");
        // While it is being written, the last line may not be whole.
        let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("a request")).collect()
    }
}

impl Drop for Endpoint {
    /// It ends with its input.
    fn drop(&mut self) {
        if let Some(program) = self.program.take()
            && !std::thread::panicking()
        {
            program.finish();
        }
    }
}

fn command(env: &Env, script: &Path, log: &Path) -> Command {
    let mut command = env.command("python3");
    command.arg(PROGRAM).arg(script).arg(log);
    command
}

/// An address on loopback where nobody listens, for as long as this lives.
pub struct Refusing {
    url: String,
    _held: (TcpListener, TcpStream),
}

impl Refusing {
    /// The port is the one that a connection goes out from: nobody else gets it, and
    /// nobody listens there.
    pub fn new() -> Refusing {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let connection = TcpStream::connect(address).expect("a connection");
        let port = connection.local_addr().expect("its address").port();
        Refusing { url: format!("http://127.0.0.1:{port}/v1"), _held: (listener, connection) }
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }
}
