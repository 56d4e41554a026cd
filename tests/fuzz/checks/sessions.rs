//! The files of agent runs, as somebody else or a crash has left them: what is read as a
//! run's file can be written and read again, and a log is read from either end without
//! losing a whole line.

use zsh_tool::testing::oneshot::log_line::LogLine;
use zsh_tool::testing::oneshot::run_files::RunFile;
use zsh_tool::testing::oneshot::state;

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
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
