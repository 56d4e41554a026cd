//! What Claude Code's settings say of its sandbox, as settings of this program's. Pure.
//!
//! Nothing becomes looser than it is there. What cannot be expressed is named.
//!
//! Limits: knows the settings files, not what the command line or a running session changes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::text::foreign::{self, ShowPath};

/// How much of a value that is not carried over is shown.
const SHOWN_CHARS: usize = 80;

/// One file of settings, and where its relative paths begin.
pub(super) struct Settings {
    pub(super) value: Value,
    pub(super) base: PathBuf,
}

/// The sandbox that was found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sandbox {
    pub(super) is_enabled: bool,
    write: Vec<String>,
    deny_write: Vec<String>,
    deny_read: Vec<String>,
    is_open: bool,
    /// What cannot be expressed, and what holds instead.
    pub(super) left_out: Vec<String>,
}

/// Reads the files, the most important last.
pub(super) fn read(files: &[Settings], project: &Path) -> Sandbox {
    let mut found = Sandbox::default();
    for Settings { value, base } in files {
        let empty = Value::Null;
        let sandbox = value.get("sandbox").unwrap_or(&empty);
        for (key, value) in sandbox.as_object().into_iter().flatten() {
            found.add(key, value, base);
        }
        found.add_permissions(value.get("permissions").unwrap_or(&empty), base, project);
    }
    for list in [&mut found.write, &mut found.deny_write, &mut found.deny_read] {
        list.sort();
        list.dedup();
    }
    let mut left_out = std::mem::take(&mut found.left_out);
    left_out.retain(|text| {
        let is_new = !found.left_out.contains(text);
        found.left_out.extend(is_new.then(|| text.clone()));
        is_new
    });
    found
}

impl Sandbox {
    fn add(&mut self, key: &str, value: &Value, base: &Path) {
        match (key, value) {
            ("enabled", Value::Bool(is_enabled)) => self.is_enabled = *is_enabled,
            // Commands are refused where a sandbox cannot be enforced.
            ("failIfUnavailable", Value::Bool(true)) => {}
            ("filesystem" | "network", Value::Object(members)) => {
                for (name, value) in members {
                    self.add_member(&format!("{key}.{name}"), value, base);
                }
            }
            ("excludedCommands", _) => {
                self.leave_out(key, value, "they run in the sandbox like all others");
            }
            ("autoAllowBashIfSandboxed" | "allowUnsandboxedCommands", _) => {
                self.leave_out(
                    key,
                    value,
                    "calls can only tighten the sandbox, and no prompt asks to leave it",
                );
            }
            _ => self.leave_out(key, value, "there is nothing like it here"),
        }
    }

    fn add_member(&mut self, key: &str, value: &Value, base: &Path) {
        let list = match key {
            "filesystem.allowWrite" => &mut self.write,
            "filesystem.denyWrite" => &mut self.deny_write,
            "filesystem.denyRead" => &mut self.deny_read,
            "network.allowedDomains" => {
                if texts(value).any(|domain| domain == "*") {
                    self.is_open = true;
                } else {
                    let text = "no domain can be allowed by itself, so the network is closed; \
                                sandbox.network: on opens all of it";
                    self.leave_out(key, value, text);
                }
                return;
            }
            "network.deniedDomains" => {
                return self.leave_out(key, value, "no domain can be denied by itself");
            }
            "network.allowLocalBinding" => {
                return self.leave_out(key, value, "sandbox.network: loopback is like it");
            }
            "filesystem.allowRead" => {
                let text = "nothing is readable inside of what is not";
                return self.leave_out(key, value, text);
            }
            _ => return self.leave_out(key, value, "there is nothing like it here"),
        };
        let mut odd = Vec::new();
        for text in texts(value) {
            match path_of(text, base, Path::new("/")) {
                Some(path) => list.push(path),
                None => odd.push(text.to_owned()),
            }
        }
        if !odd.is_empty() || !value.is_array() {
            let left = if value.is_array() { json!(odd) } else { value.clone() };
            self.leave_out(key, &left, "only paths can be listed, and no patterns");
        }
    }

    /// Rules for Claude Code's own tools that its sandbox applies to commands too.
    fn add_permissions(&mut self, permissions: &Value, base: &Path, project: &Path) {
        // A rule's path is relative to the working directory, unless it begins with a slash.
        let directories = permissions.get("additionalDirectories").unwrap_or(&Value::Null);
        for text in texts(directories) {
            self.write.extend(path_of(text, project, Path::new("/")));
        }
        for kind in ["allow", "deny"] {
            for rule in texts(permissions.get(kind).unwrap_or(&Value::Null)) {
                let (tool, spec) = rule.split_once('(').unwrap_or((rule, ""));
                let spec = spec.strip_suffix(')').unwrap_or(spec);
                let list = match (kind, tool) {
                    ("allow", "Edit" | "Write") if !spec.is_empty() => &mut self.write,
                    ("deny", "Edit" | "Write") => &mut self.deny_write,
                    ("deny", "Read") => &mut self.deny_read,
                    _ => continue,
                };
                let path = path_of(spec, project, base).filter(|_| !spec.is_empty());
                let is_name = !spec.contains('/') && !spec.starts_with('~');
                let key = format!("permissions.{kind}");
                match path {
                    // Denied in each directory of the project.
                    Some(path) if is_name => {
                        if kind == "deny" {
                            list.push(path);
                        }
                        let text = "only paths can be listed, so it counts in the project's directory alone";
                        self.leave_out_of(&key, &json!(rule), text);
                    }
                    Some(path) => list.push(path),
                    None => {
                        let text = "only paths can be listed, and no patterns";
                        self.leave_out_of(&key, &json!(rule), text);
                    }
                }
            }
        }
    }

    fn leave_out(&mut self, key: &str, value: &Value, instead: &str) {
        self.leave_out_of(&format!("sandbox.{key}"), value, instead);
    }

    fn leave_out_of(&mut self, key: &str, value: &Value, instead: &str) {
        let is_nothing = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !is_nothing {
            let value =
                foreign::row(&crate::text::lines::truncate(&value.to_string(), SHOWN_CHARS));
            self.left_out.push(format!("{key} {value}: {instead}"));
        }
    }

    /// The section `sandbox` of the configuration. What is denied by default remains denied.
    pub(super) fn section(&self, denied: &[PathBuf]) -> String {
        let mut text = "sandbox:\n  mode: workspace\n".to_owned();
        let denied = denied.iter().map(|path| path.shown().to_string());
        let mut deny_read: Vec<String> = denied.chain(self.deny_read.iter().cloned()).collect();
        let mut seen = Vec::new();
        deny_read.retain(|path| {
            !seen.contains(path) && {
                seen.push(path.clone());
                true
            }
        });
        if self.deny_read.is_empty() {
            deny_read.clear();
        }
        for (key, paths) in
            [("write", &self.write), ("deny_write", &self.deny_write), ("deny_read", &deny_read)]
        {
            if !paths.is_empty() {
                // A string of JSON is one of YAML.
                let _ = writeln!(text, "  {key}:");
                paths.iter().for_each(|path| {
                    let _ = writeln!(text, "    - {}", json!(path));
                });
            }
        }
        let _ = writeln!(text, "  network: {}", if self.is_open { "on" } else { "off" });
        text
    }
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// A path as the configuration takes it; `None` for a pattern. `//a` is absolute, `/a` begins at
/// `root`, and what begins with neither nor with `~/` at `base`.
fn path_of(text: &str, base: &Path, root: &Path) -> Option<String> {
    let text = text.strip_suffix("/**").unwrap_or(text);
    if text.contains(['*', '?', '[', '{', '!', '\0']) {
        return None;
    }
    if text == "~" || text.starts_with("~/") {
        return Some(format!("~/{}", text.trim_start_matches(['~', '/'])));
    }
    let path = match (text.strip_prefix("//"), text.strip_prefix('/')) {
        (Some(rest), _) => Path::new("/").join(rest),
        (None, Some(rest)) => root.join(rest),
        (None, None) => base.join(text.strip_prefix("./").unwrap_or(text)),
    };
    path.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: Value, project: Value) -> Sandbox {
        let files = [
            Settings { value: user, base: "/home/me/.claude".into() },
            Settings { value: project, base: "/project".into() },
        ];
        read(&files, Path::new("/project"))
    }

    #[test]
    fn paths_are_carried_over_and_the_rest_is_named() {
        let user = json!({
            "sandbox": {
                "enabled": true,
                "failIfUnavailable": true,
                "excludedCommands": ["docker"],
                "filesystem": {
                    "allowWrite": ["~/.kube", "//opt/data", "/var/build"],
                    "denyRead": ["~/notes", "**/*.pem"],
                },
                "network": {"allowedDomains": ["github.com"], "allowUnixSockets": []},
                "credentials": {"envVars": []},
            },
            "permissions": {
                "allow": ["Bash(ls *)", "Edit(~/scratch/**)"],
                "deny": ["Read(~/.secrets/**)", "Read", "WebFetch"],
            },
        });
        let project = json!({
            "sandbox": {"filesystem": {"allowWrite": ["./out"], "denyWrite": ["vendor"]}},
            "permissions": {"deny": ["Read(./.env)", "Read(.env)", "Edit(/docs/**)", "Read(//etc/x*)"]},
        });
        let found = of(user, project);
        assert!(found.is_enabled);
        let section = found.section(&["~/.ssh".into()]);
        let expected = "sandbox:\n  mode: workspace\n  write:\n    - \"/opt/data\"\n    - \"/project/out\"\n    \
             - \"/var/build\"\n    - \"~/.kube\"\n    - \"~/scratch\"\n  deny_write:\n    - \"/project/docs\"\n    \
             - \"/project/vendor\"\n  deny_read:\n    - \"~/.ssh\"\n    - \"/project/.env\"\n    - \"~/.secrets\"\n    \
             - \"~/notes\"\n  network: off\n";
        assert_eq!(section, expected);
        let left = found.left_out.join("\n");
        for named in [
            "sandbox.excludedCommands [\"docker\"]",
            "sandbox.network.allowedDomains [\"github.com\"]",
            "sandbox.filesystem.denyRead [\"**/*.pem\"]",
            "permissions.deny \"Read\"",
            "permissions.deny \"Read(.env)\"",
            "permissions.deny \"Read(//etc/x*)\"",
            "sandbox.credentials",
        ] {
            assert!(left.contains(named), "{named}: {left}");
        }
        assert!(!left.contains("allowUnixSockets") && !left.contains("WebFetch"), "{left}");
    }

    #[test]
    fn the_last_file_decides_whether_it_is_on_and_defaults_are_not_repeated() {
        let on = json!({"sandbox": {"enabled": true, "network": {"allowedDomains": ["*"]}}});
        let found = of(on.clone(), json!({}));
        assert_eq!(
            found.section(&["~/.ssh".into()]),
            "sandbox:\n  mode: workspace\n  network: on\n"
        );
        assert!(found.left_out.is_empty());
        assert!(!of(on, json!({"sandbox": {"enabled": false}})).is_enabled);
        assert!(!of(json!({}), Value::Null).is_enabled);
    }
}
