//! The Claude Code plugin, where it is installed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Finding;

const WHAT: &str = "plugin";
const INSTALL: &str = "run `make install` in the sources of this version";

/// Compares the installed plugin with this program.
pub fn check() -> Finding {
    let Some(folder) = folder() else {
        return Finding::ok(WHAT, "not looked for: HOME is not set");
    };
    let manifest = folder.join(".claude-plugin/plugin.json");
    let text = match std::fs::read(&manifest) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let found = format!(
                "not installed at {} (Claude Code alone needs it)",
                folder.display()
            );
            return Finding::ok(WHAT, found);
        }
        Err(error) => {
            let found = format!("cannot read {}: {error}", manifest.display());
            return Finding::warning(WHAT, found, INSTALL);
        }
    };
    let version = serde_json::from_slice::<Value>(&text)
        .ok()
        .and_then(|manifest| Some(manifest.get("version")?.as_str()?.to_owned()));
    let Some(version) = version else {
        let found = format!("{} has no version", manifest.display());
        return Finding::warning(WHAT, found, INSTALL);
    };
    let binary = ["bin/zsh-tool", "target/release/zsh-tool"]
        .iter()
        .map(|name| folder.join(name))
        .find(|path| is_executable(path));
    match binary {
        None => Finding::warning(
            WHAT,
            format!("version {version} at {} has no binary", folder.display()),
            INSTALL,
        ),
        Some(_) if version != env!("CARGO_PKG_VERSION") => Finding::warning(
            WHAT,
            format!(
                "version {version} at {}, this program is {}",
                folder.display(),
                env!("CARGO_PKG_VERSION")
            ),
            INSTALL,
        ),
        Some(binary) => Finding::ok(WHAT, format!("version {version}, {}", binary.display())),
    }
}

/// Where `make install` puts it.
fn folder() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    given("CLAUDE_CONFIG_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(given("HOME")?).join(".claude")))
        .map(|base| base.join("plugins/zsh-tool"))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
