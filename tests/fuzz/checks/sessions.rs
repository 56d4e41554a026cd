//! The files of agent runs, as somebody else or a crash has left them: what is read as a
//! run's file can be written and read again, the run is shown without anything that hides or controls
//! a terminal, and a log is read from either end without losing a whole line.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use zsh_tool::testing::commands::oneshot::shown;
use zsh_tool::testing::oneshot::log_line::LogLine;
use zsh_tool::testing::oneshot::log_reader::{Follower, tail};
use zsh_tool::testing::oneshot::run_files::RunFile;
use zsh_tool::testing::oneshot::state;
use zsh_tool::testing::text::ansi::{Colours, readable};
use zsh_tool::testing::text::foreign::is_plain_line;

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    let name = format!("zsh-tool-fuzz-run-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).expect("a new directory");
    write(&directory.join("oneshot.json"), data);
    write(&directory.join("oneshot-log.json"), data);
    check_run(&directory);
    check_log(&directory);
    fs::remove_dir_all(&directory).expect("the files are removed");
    if let Ok(file) = serde_json::from_slice::<RunFile>(data) {
        if let Ok(position) = file.position() {
            let _ = position.action();
            let _ = state::resume(&position, None);
            let _ = state::resume(&position, Some(file.max_iterations));
        }
        let text = serde_json::to_string(&file).expect("it was read from JSON");
        let again: RunFile = serde_json::from_str(&text).expect("what is written can be read");
        assert_eq!(again.state, file.state);
        assert_eq!(again.history.len(), file.history.len());
    }
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(line) = serde_json::from_slice::<LogLine>(line) {
            let _ = (line.state_change(), line.heartbeat());
            let text = serde_json::to_string(&line).expect("it was read from JSON");
            assert!(serde_json::from_str::<LogLine>(&text).is_ok());
        }
    }
}

fn check_run(directory: &Path) {
    match shown(directory) {
        Ok(text) => {
            for line in text.split('\n') {
                assert_eq!(readable(line.as_bytes(), Colours::Drop, None), line);
            }
        }
        Err(error) => assert!(is_plain_line(&error), "{error:?}"),
    }
}

/// Checks that both ends of the log lead to the same lines.
fn check_log(directory: &Path) {
    let backwards = tail(directory, usize::MAX, u64::MAX).expect("a log");
    let mut follower = Follower::open(directory).expect("a log");
    let mut forwards = Vec::new();
    while let Some(line) = follower.next_line().expect("a log") {
        forwards.push(line);
    }
    let texts = |lines: &[LogLine]| -> Vec<String> {
        lines.iter().map(|line| serde_json::to_string(line).expect("it was read")).collect()
    };
    assert_eq!(texts(&backwards), texts(&forwards));
}

fn write(path: &Path, data: &[u8]) {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(data)).expect("a new file");
}
