//! Recordings of agent programs: their streams and their storage.

use std::fs;
use std::path::{Path, PathBuf};

/// The path of a recorded file or folder.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents").join(path)
}

/// Copies a tree, replacing `@DIRECTORY@` in its files by the project's directory.
pub fn copy(from: &Path, to: &Path, project: &str) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a fixture").flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to, project);
        } else {
            let text = fs::read_to_string(entry.path()).expect("text");
            fs::write(to, text.replace("@DIRECTORY@", project)).expect("a copy");
        }
    }
}
