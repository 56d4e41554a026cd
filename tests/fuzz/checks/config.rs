//! The files that set something, as their authors or a repository's have left them: each setting has
//! a value within its bounds, what is wrong is said on one line, and a project raises no limit that
//! the user has set. The same bytes are the user's `config.yaml` and the project's `.oneshot.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use zsh_tool::testing::config::{ShownConfig, show};
use zsh_tool::testing::text::foreign::is_plain_line;

/// The longest value or warning, in characters, however long what it quotes is. Only lists of names
/// are longer.
const LONGEST: usize = 2_000;

/// Checks what this input leads to.
pub fn check(data: &[u8]) {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    let home = HOME.get_or_init(|| {
        let name = format!("zsh-tool-fuzz-config-{}", std::process::id());
        std::env::temp_dir().join(name)
    });
    let project = home.join("project");
    write(&home.join(".config/zsh-tool/config.yaml"), data);
    write(&project.join(".oneshot.json"), data);
    let own = show(home, None);
    let with_project = show(home, Some(&project));
    fs::remove_dir_all(home).expect("the files are removed");
    for shown in [&own, &with_project] {
        check_shown(shown);
    }
    let limits = [&own, &with_project].map(limits);
    if let [(Some(own_count), own_time), (Some(count), time)] = limits {
        if source(&own, "oneshot.max_iterations") != "default" {
            assert!(count <= own_count, "{count} iterations");
        }
        if source(&own, "oneshot.max_runtime") != "default" {
            assert!(time <= own_time, "{time} s");
        }
    } else {
        panic!("the limits of runs are not numbers");
    }
}

fn check_shown(shown: &ShownConfig) {
    for [key, value, source] in &shown.rows {
        for text in [value, source] {
            assert!(is_plain_line(text), "{key}: {text:?}");
        }
        let is_list = value.contains(", ");
        assert!(is_list || value.chars().count() <= LONGEST, "{key}: {value:?}");
        // The seeds have it as an argument and in the environment of an executor.
        if key == "executors" {
            assert!(!value.contains("hunter2"), "it shows more than names: {value}");
        }
    }
    for warning in &shown.warnings {
        assert!(is_plain_line(warning), "{warning:?}");
        assert!(warning.chars().count() <= LONGEST, "{warning:?}");
    }
    let seconds = |key| number(value(shown, key)).expect("a time");
    assert!((0.1..=604_800.0).contains(&seconds("timeout_default")));
    assert!(seconds("timeout_default") <= seconds("timeout_max"));
    assert!((1.0..=1_000.0).contains(&seconds("oneshot.max_iterations")));
}

/// The most iterations, and the longest time in seconds, of a run.
fn limits(shown: &ShownConfig) -> (Option<f64>, f64) {
    let time = number(value(shown, "oneshot.max_runtime")).filter(|time| *time > 0.0);
    (number(value(shown, "oneshot.max_iterations")), time.unwrap_or(f64::INFINITY))
}

fn number(value: &str) -> Option<f64> {
    value.split(' ').next()?.parse().ok()
}

fn value<'a>(shown: &'a ShownConfig, key: &str) -> &'a str {
    let row = shown.rows.iter().find(|[known, _, _]| known == key);
    row.map_or("", |[_, value, _]| value)
}

fn source<'a>(shown: &'a ShownConfig, key: &str) -> &'a str {
    let row = shown.rows.iter().find(|[known, _, _]| known == key);
    row.map_or("", |[_, _, source]| source)
}

fn write(path: &Path, data: &[u8]) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a new directory");
    fs::write(path, data).expect("a new file");
}
