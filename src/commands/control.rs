//! `zsh-tool kill` and `zsh-tool send`: calls about a task of any running server, over its control
//! socket. Output that they show stays new for the task's agent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::{on_host, output, shared, tasks};
use crate::cli::{KillArguments, SendArguments};
use crate::peer::{self, Owner};
use crate::protocol::message::put;
use crate::task::journal;
use crate::task::snapshot::Snapshot;
use crate::task::supervisor::KILL_LIMIT;

/// How long to wait for the reply to input.
const LISTEN: Duration = Duration::from_secs(2);

/// Runs `kill`.
pub(crate) fn kill(arguments: &KillArguments) -> ExitCode {
    if let Some((host, task)) = on_host::task_on_host(&arguments.task) {
        let signal = arguments.signal.iter().flat_map(|signal| ["--signal", signal.as_str()]);
        let words = ["kill", task].into_iter().chain(signal).map(str::to_owned);
        return on_host::run(host, &words.collect::<Vec<_>>());
    }
    let mut call = json!({});
    if let Some(signal) = &arguments.signal {
        put(&mut call, "signal", signal.as_str());
    }
    conclude(&arguments.task, "zsh_kill", call, KILL_LIMIT)
}

/// Runs `send`.
pub(crate) fn send(arguments: &SendArguments) -> ExitCode {
    if let Some((host, task)) = on_host::task_on_host(&arguments.task) {
        return on_host::run(host, &send_words(task, arguments));
    }
    let mut call = json!({"enter": !arguments.no_enter, "eof": arguments.eof});
    if let Some(text) = &arguments.text {
        put(&mut call, "input", text.as_str());
    }
    if !arguments.keys.is_empty() {
        put(&mut call, "keys", arguments.keys.clone());
    }
    conclude(&arguments.task, "zsh_send", call, LISTEN)
}

fn send_words(task: &str, arguments: &SendArguments) -> Vec<String> {
    let mut words = vec!["send".to_owned()];
    let flags = [("--no-enter", arguments.no_enter), ("--eof", arguments.eof)];
    words.extend(flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned()));
    words.extend(arguments.keys.iter().map(|key| format!("--key={key}")));
    words.extend(["--".to_owned(), task.to_owned()]);
    words.extend(arguments.text.clone());
    words
}

/// The running task whose id begins with `wanted`. Otherwise reports why there is none.
pub(super) fn find_running(state: &Path, wanted: &str) -> Option<(PathBuf, Snapshot)> {
    let (directory, snapshot) = tasks::find(state, wanted)?;
    if snapshot.is_over() || !journal::server_lives(&directory) {
        output::complain(format_args!(
            "task {} has ended: `zsh-tool log {}` prints its output",
            snapshot.id(),
            snapshot.id()
        ));
        return None;
    }
    Some((directory, snapshot))
}

/// Calls a tool about the task whose id begins with `wanted`, and prints its answer.
fn conclude(wanted: &str, tool: &str, mut arguments: Value, wait: Duration) -> ExitCode {
    let (config, _) = shared::load_config();
    let state = match shared::state_directory(&config) {
        Ok(state) => state,
        Err(code) => return code,
    };
    let Some((directory, snapshot)) = find_running(state, wanted) else {
        return ExitCode::FAILURE;
    };
    put(&mut arguments, "task_id", snapshot.id());
    match peer::client::call_for_person(Owner { directory }, tool, &arguments, wait) {
        Ok(result) => {
            output::conclude(output::print(&format!("{}\n", peer::client::text_of(&result))), 0)
        }
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}
