//! The files of servers below the state directory.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use zsh_tool::testing::task::snapshot::Snapshot;

use super::env::Env;
use super::processes::wait_until;

/// The files with this suffix of all servers, including ended ones.
pub fn server_files(env: &Env, ending: &str) -> Vec<PathBuf> {
    let servers = fs::read_dir(env.path("state/servers"));
    servers
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|server| fs::read_dir(server.path()).ok())
        .flatten()
        .flatten()
        .map(|file| file.path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

/// Asserts that the file of every task is complete, at whatever moment its server was killed;
/// returns their number. No server may be alive, since servers write and remove these files.
#[track_caller]
pub fn assert_task_files_whole(env: &Env) -> usize {
    let files = server_files(env, ".json");
    for file in &files {
        let text = fs::read(file).expect("a task's file");
        let task: Snapshot = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let id = file.file_stem().expect("a name").to_string_lossy();
        assert_eq!(task.id(), id, "{task:?}");
        assert_eq!(task.id().len(), 8, "{task:?}");
    }
    files.len()
}

/// Waits until the file of a task says that it has ended.
pub fn await_end(env: &Env, task: &str) {
    wait_until("the task has ended", || {
        let file = server_files(env, &format!("{task}.json")).pop()?;
        let task: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        (!task["ended"].is_null()).then_some(())
    });
}
