//! Where each client keeps its servers, and what an entry looks like there. The environment is given.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::entry::Form;
use crate::cli::ClientName;

/// The environment, as a function from a name to its value.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A client's settings.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) form: Form,
}

/// A client, as this user may have it.
pub(crate) struct Client {
    name: ClientName,
    pub(crate) title: &'static str,
    /// Its program in PATH.
    program: &'static str,
    pub(crate) place: Place,
}

impl Client {
    /// `None` without a home directory.
    pub(crate) fn new(name: ClientName, env: Env<'_>) -> Option<Client> {
        let home = directory(env, "HOME")?;
        let own = |variable: &str, usual: &str| {
            directory(env, variable).unwrap_or_else(|| home.join(usual))
        };
        let config = own("XDG_CONFIG_HOME", ".config");
        // VS Code's settings of the user.
        let code = if cfg!(target_os = "macos") {
            home.join("Library/Application Support/Code/User")
        } else {
            config.join("Code/User")
        };
        let servers = |path: PathBuf| Place { path, form: Form::Json { section: "mcpServers" } };
        let (title, program, place) = match name {
            ClientName::Claude => {
                let directory = directory(env, "CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone());
                ("Claude Code", "claude", servers(directory.join(".claude.json")))
            }
            ClientName::Codex => {
                let path = own("CODEX_HOME", ".codex").join("config.toml");
                ("Codex", "codex", Place { path, form: Form::Toml })
            }
            ClientName::Gemini => {
                let home = own("GEMINI_CLI_HOME", "");
                ("Gemini CLI", "gemini", servers(home.join(".gemini/settings.json")))
            }
            ClientName::Qwen => {
                ("Qwen Code", "qwen", servers(own("QWEN_HOME", ".qwen").join("settings.json")))
            }
            ClientName::Copilot => {
                let path = own("COPILOT_HOME", ".copilot").join("mcp-config.json");
                ("Copilot CLI", "copilot", servers(path))
            }
            ClientName::Opencode => {
                let path = config.join("opencode/opencode.json");
                ("opencode", "opencode", Place { path, form: Form::Json { section: "mcp" } })
            }
            ClientName::Cline => {
                let path = own("CLINE_DIR", ".cline").join("data/settings/cline_mcp_settings.json");
                ("Cline", "cline", servers(path))
            }
            ClientName::Cursor => ("Cursor", "cursor", servers(home.join(".cursor/mcp.json"))),
            ClientName::Vscode => {
                let path = code.join("mcp.json");
                ("VS Code", "code", Place { path, form: Form::Json { section: "servers" } })
            }
        };
        Some(Client { name, title, program, place })
    }

    /// Its entry for this program: a member's value, or the lines of a table.
    pub(crate) fn entry(&self, program: &Path) -> String {
        let program = program.to_string_lossy();
        let value: Value = match self.name {
            ClientName::Codex => {
                // A string of JSON is one of TOML.
                return format!("command = {}\nargs = [\"serve\"]\n", json!(program));
            }
            ClientName::Claude | ClientName::Vscode => {
                json!({"type": "stdio", "command": program, "args": ["serve"]})
            }
            // Without it, the model finds the tools only by searching.
            ClientName::Qwen => {
                json!({"command": program, "args": ["serve"], "alwaysLoadTools": true})
            }
            ClientName::Copilot => {
                json!({"type": "local", "command": program, "args": ["serve"], "tools": ["*"]})
            }
            ClientName::Opencode => json!({"type": "local", "command": [program, "serve"]}),
            ClientName::Gemini | ClientName::Cline | ClientName::Cursor => {
                json!({"command": program, "args": ["serve"]})
            }
        };
        value.to_string()
    }

    /// Whether Claude Code has the server by the plugin.
    pub(crate) fn has_plugin(&self, env: Env<'_>) -> bool {
        let folder = || plugin_folder(env).map(|folder| folder.join(MANIFEST));
        self.name == ClientName::Claude && folder().is_some_and(|manifest| manifest.exists())
    }

    /// Whether its program is in PATH, or it has made the directory of its settings.
    pub(crate) fn is_installed(&self, env: Env<'_>) -> bool {
        let path = env("PATH").unwrap_or_default();
        let in_path =
            std::env::split_paths(&path).any(|directory| directory.join(self.program).is_file());
        // Claude Code's settings may be in the home directory itself.
        let own = self.place.path.parent().filter(|_| self.name != ClientName::Claude);
        in_path || own.is_some_and(Path::is_dir)
    }
}

/// The plugin's manifest.
pub(crate) const MANIFEST: &str = ".claude-plugin/plugin.json";

/// Where Claude Code's plugin is installed.
pub(crate) fn plugin_folder(env: Env<'_>) -> Option<PathBuf> {
    let base = env("CLAUDE_CONFIG_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = base.or_else(|| {
        let home = env("HOME").filter(|value| !value.is_empty())?;
        Some(PathBuf::from(home).join(".claude"))
    });
    base.map(|base| base.join("plugins/zsh-tool"))
}

fn directory(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
