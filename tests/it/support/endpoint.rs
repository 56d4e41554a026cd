//! A scripted OpenAI-compatible endpoint: a separate process on loopback that logs its requests.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::env::Env;
use super::program::Program;

/// The endpoint's program, which documents its steps.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agents/fake-openai");

/// A running endpoint.
pub struct Endpoint {
    program: Option<Program>,
    port: String,
    log: PathBuf,
}

impl Endpoint {
    /// Starts an endpoint with these steps, one per request; the last step repeats forever.
    pub fn start(env: &Env, steps: &Value) -> Endpoint {
        let (script, log) = (env.path("endpoint.json"), env.path("endpoint.log"));
        fs::write(&script, steps.to_string()).expect("a script");
        fs::write(&log, "").expect("a log");
        let mut program = Program::start(command(env, &script, &log));
        let port = program.read_line();
        Endpoint { program: Some(program), port, log }
    }

    /// The address, with the version.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).expect("its log");
        // The last line may be incomplete while the endpoint writes it.
        let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("a request")).collect()
    }
}

impl Drop for Endpoint {
    /// The endpoint ends with its input.
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

/// An address on loopback that refuses connections while this value lives.
pub struct Refusing {
    url: String,
    _held: (TcpListener, TcpStream),
}

impl Refusing {
    /// Uses the local port of an outgoing connection, which no process can get or listen on.
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
