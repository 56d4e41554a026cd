//! The sandbox that Codex describes with each call, as a policy: `_meta["codex/sandbox-state-meta"]`,
//! which Codex sends to servers that declare the capability of that name. Pure.
//!
//! Only its `permissionProfile` counts, or the older `sandboxPolicy` where there is none. What it
//! restricts and no policy can express is an error: the command then does not run.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sandbox::policy::{Mode, Network, Policy};
use crate::text::foreign::{self, ShowPath};

/// The key of the description, and the capability that asks for it.
pub(crate) use crate::protocol::era::SANDBOX_STATE;

/// How much of a word that is not known an error repeats.
const SHOWN_CHARS: usize = 60;

/// A description that is not understood, or cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Codex's sandbox cannot be carried over to this command: {0}; the command was not started. Run it \
     with Codex's own shell, or choose another permission profile"
)]
pub(crate) struct NotExpressible(String);

/// What is added to each policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The policy in the mode workspace that the user has set up.
    pub(crate) workspace: &'a Policy,
    /// The directory of this program's own state.
    pub(crate) state: Option<&'a Path>,
    pub(crate) temporary: &'a Path,
}

impl Surroundings<'_> {
    fn policy(&self, network: Network) -> Policy {
        Policy {
            mode: Mode::ReadOnly,
            write: Vec::new(),
            keep: self.workspace.keep.clone(),
            protect: self.workspace.protect.clone(),
            deny_read: self.state.map(Path::to_path_buf).into_iter().collect(),
            network,
            best_effort: self.workspace.best_effort,
        }
    }
}

/// The policy of a description.
///
/// # Errors
/// Names what cannot be expressed.
pub(crate) fn policy(state: &Value, with: &Surroundings) -> Result<Policy, NotExpressible> {
    let directory = state.get("sandboxCwd").and_then(Value::as_str).and_then(path_of);
    let given = |name: &str| state.get(name).filter(|value| !value.is_null());
    match (given("permissionProfile"), given("sandboxPolicy")) {
        (Some(profile), _) => Profile { directory, with }.policy(profile),
        (None, Some(policy)) => Profile { directory, with }.older_policy(policy),
        (None, None) => Err(NotExpressible("it has no permissionProfile".to_owned())),
    }
}

struct Profile<'a> {
    /// Codex's working directory, which is its project.
    directory: Option<PathBuf>,
    with: &'a Surroundings<'a>,
}

impl Profile<'_> {
    fn policy(&self, profile: &Value) -> Result<Policy, NotExpressible> {
        let kind = word(profile, "type").unwrap_or_default();
        let network = match word(profile, "network") {
            Some("enabled") => Network::On,
            // Codex leaves out its default.
            Some("restricted") | None => Network::Off,
            Some(other) => return Err(unknown("network", other)),
        };
        match kind {
            "disabled" => Ok(Policy::off()),
            // Another program confines the files.
            "external" if network == Network::On => Ok(Policy::off()),
            "external" => Ok(self.writing(vec![PathBuf::from("/")], network)),
            "managed" => {
                let files = profile.get("file_system").unwrap_or(&Value::Null);
                match word(files, "type").unwrap_or_default() {
                    "unrestricted" if network == Network::On => Ok(Policy::off()),
                    "unrestricted" => Ok(self.writing(vec![PathBuf::from("/")], network)),
                    "restricted" => self.restricted(files, network),
                    other => Err(unknown("file_system", other)),
                }
            }
            other => Err(unknown("permissionProfile", other)),
        }
    }

    fn writing(&self, write: Vec<PathBuf>, network: Network) -> Policy {
        let mode = if write.is_empty() { Mode::ReadOnly } else { Mode::Workspace };
        Policy { mode, write, ..self.with.policy(network) }
    }

    fn restricted(&self, files: &Value, network: Network) -> Result<Policy, NotExpressible> {
        let entries = files.get("entries").and_then(Value::as_array);
        let (mut write, mut read, mut denied) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries.into_iter().flatten() {
            let path = self.entry(entry.get("path").unwrap_or(&Value::Null))?;
            match (word(entry, "access").unwrap_or_default(), path) {
                ("write", EntryPath::At(path)) => write.push(path),
                ("read", EntryPath::At(path)) => read.push(path),
                ("none" | "deny", EntryPath::At(path)) => denied.push(path),
                // What programs need to run: readable with everything else.
                (_, EntryPath::Nothing) => {}
                (other, _) => return Err(unknown("access", other)),
            }
        }
        let all = Path::new("/");
        if !read.iter().chain(&write).any(|path| path == all) {
            let text =
                "it lets only listed paths be read, and a sandbox here reads all but listed paths";
            return Err(NotExpressible(text.to_owned()));
        }
        let within = |outer: &[PathBuf], path: &Path| {
            outer.iter().any(|outer| outer != all && path != outer && path.starts_with(outer))
        };
        let both = [&read[..], &denied].concat();
        if let Some(path) = write.iter().find(|path| within(&both, path)) {
            return Err(NotExpressible(format!(
                "{} is writable inside of a directory that is not",
                path.shown()
            )));
        }
        if let Some(path) = read.iter().find(|path| within(&denied, path)) {
            return Err(NotExpressible(format!(
                "{} is readable inside of a directory that is not",
                path.shown()
            )));
        }
        let mut policy = self.writing(write, network);
        let kept =
            read.into_iter().filter(|path| policy.write.iter().any(|tree| path.starts_with(tree)));
        let kept: Vec<PathBuf> = kept.filter(|path| path != all).collect();
        policy.keep.extend(kept);
        policy.deny_read.extend(denied);
        Ok(policy)
    }

    fn entry(&self, path: &Value) -> Result<EntryPath, NotExpressible> {
        let at = |path: PathBuf| Ok(EntryPath::At(path));
        match word(path, "type").unwrap_or_default() {
            "path" => {
                let path = word(path, "path").and_then(path_of);
                path.map_or_else(|| Err(unknown("path", "no absolute path")), at)
            }
            "glob_pattern" => {
                let pattern = word(path, "pattern").unwrap_or_default();
                Err(NotExpressible(format!(
                    "it denies a pattern, {}, and only paths can be",
                    foreign::in_quotes(pattern, SHOWN_CHARS)
                )))
            }
            "special" => {
                let value = path.get("value").unwrap_or(&Value::Null);
                match word(value, "kind").unwrap_or_default() {
                    "root" => at(PathBuf::from("/")),
                    "minimal" => Ok(EntryPath::Nothing),
                    "current_working_directory" => at(self.project()?),
                    "project_roots" => {
                        let project = self.project()?;
                        at(word(value, "subpath")
                            .map_or(project.clone(), |part| project.join(part)))
                    }
                    "tmpdir" => at(self.with.temporary.to_path_buf()),
                    "slash_tmp" => at(PathBuf::from("/tmp")),
                    other => Err(unknown("special path", other)),
                }
            }
            other => Err(unknown("path", other)),
        }
    }

    fn project(&self) -> Result<PathBuf, NotExpressible> {
        let missing = || NotExpressible("it has no sandboxCwd with an absolute path".to_owned());
        self.directory.clone().ok_or_else(missing)
    }

    fn older_policy(&self, policy: &Value) -> Result<Policy, NotExpressible> {
        let has_network = match policy.get("network_access") {
            Some(Value::Bool(has)) => *has,
            other => other.and_then(Value::as_str) == Some("enabled"),
        };
        let network = if has_network { Network::On } else { Network::Off };
        let is_set = |name: &str| policy.get(name).and_then(Value::as_bool).unwrap_or(false);
        match word(policy, "type").or_else(|| word(policy, "mode")).unwrap_or_default() {
            "danger-full-access" => Ok(Policy::off()),
            "external-sandbox" if has_network => Ok(Policy::off()),
            "external-sandbox" => Ok(self.writing(vec![PathBuf::from("/")], network)),
            "read-only" => Ok(self.writing(Vec::new(), network)),
            "workspace-write" => {
                let roots = policy.get("writable_roots").and_then(Value::as_array);
                let roots = roots.into_iter().flatten().filter_map(Value::as_str);
                let mut write: Vec<PathBuf> = roots.filter_map(path_of).collect();
                write.push(self.project()?);
                if !is_set("exclude_tmpdir_env_var") {
                    write.push(self.with.temporary.to_path_buf());
                }
                if !is_set("exclude_slash_tmp") {
                    write.push(PathBuf::from("/tmp"));
                }
                Ok(self.writing(write, network))
            }
            other => Err(unknown("sandboxPolicy", other)),
        }
    }
}

/// The path of an entry.
enum EntryPath {
    At(PathBuf),
    /// A set of paths that adds nothing.
    Nothing,
}

fn word<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

fn unknown(what: &str, value: &str) -> NotExpressible {
    let value = foreign::in_quotes(value, SHOWN_CHARS);
    NotExpressible(format!("its {what} is {value}, which is not known here"))
}

/// An absolute path, or that of a `file:` address.
fn path_of(text: &str) -> Option<PathBuf> {
    let path = match text.strip_prefix("file://") {
        Some(path) => unescaped(path)?,
        None => text.to_owned(),
    };
    Some(PathBuf::from(path)).filter(|path| path.is_absolute())
}

/// The text without `%XX`.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(state: &Value) -> Result<Policy, String> {
        let workspace = Policy { best_effort: false, ..Policy::off() };
        let (state_directory, temporary) = (Path::new("/state"), Path::new("/var/tmp"));
        let with = Surroundings { workspace: &workspace, state: Some(state_directory), temporary };
        policy(state, &with).map_err(|error| error.to_string())
    }

    fn managed(entries: Value, network: &str) -> Value {
        let files = json!({"type": "restricted", "entries": entries});
        json!({
            "permissionProfile": {"type": "managed", "file_system": files, "network": network},
            "sandboxCwd": "file:///my%20project",
        })
    }

    fn special(kind: &str, access: &str) -> Value {
        json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access})
    }

    fn at(path: &str, access: &str) -> Value {
        json!({"path": {"type": "path", "path": path}, "access": access})
    }

    #[test]
    fn the_usual_profiles_become_policies() {
        let read_only = managed(json!([special("root", "read")]), "restricted");
        let policy = translated(&read_only).unwrap();
        assert_eq!((policy.mode, policy.network), (Mode::ReadOnly, Network::Off));
        assert!(!policy.may_read(Path::new("/state/token")) && !policy.best_effort);

        let part = json!({"kind": "project_roots", "subpath": ".git"});
        let git = json!({"path": {"type": "special", "value": part}, "access": "read"});
        let entries = json!([
            special("root", "read"),
            special("project_roots", "write"),
            special("tmpdir", "write"),
            special("slash_tmp", "write"),
            git,
            at("/home/me/secret", "none"),
        ]);
        let policy = translated(&managed(entries, "enabled")).unwrap();
        assert_eq!((policy.mode, policy.network), (Mode::Workspace, Network::On));
        for (path, writable) in [
            ("/my project/a", true),
            ("/my project/.git/config", false),
            ("/tmp/a", true),
            ("/var/tmp/a", true),
            ("/home/me/a", false),
        ] {
            assert_eq!(policy.may_write(Path::new(path)), writable, "{path}");
        }
        assert!(!policy.may_read(Path::new("/home/me/secret/key")));
    }

    #[test]
    fn the_older_description_counts_where_there_is_no_profile() {
        let workspace = json!({
            "sandboxPolicy": {
                "type": "workspace-write", "writable_roots": ["/data"], "exclude_slash_tmp": true,
            },
            "sandboxCwd": "/project",
        });
        let policy = translated(&workspace).unwrap();
        assert_eq!(policy.network, Network::Off);
        assert!(
            policy.may_write(Path::new("/data/a")) && policy.may_write(Path::new("/project/a"))
        );
        assert!(!policy.may_write(Path::new("/tmp/a")));
        let full = json!({"sandboxPolicy": {"type": "danger-full-access"}});
        assert!(translated(&full).unwrap().is_off());
    }

    #[test]
    fn what_cannot_be_expressed_is_named() {
        let pattern =
            json!({"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "none"});
        let root = special("root", "read");
        for (state, named) in [
            (managed(json!([special("minimal", "read")]), "enabled"), "only listed paths"),
            (managed(json!([root, pattern]), "enabled"), "**/*.env"),
            (managed(json!([root, at("/a", "none"), at("/a/b", "write")]), "enabled"), "/a/b"),
            (managed(json!([root, at("/a", "deny"), at("/a/b", "read")]), "enabled"), "/a/b"),
            (managed(json!([special("moon", "read")]), "enabled"), "moon"),
            (json!({"permissionProfile": {"type": "new"}}), "\"new\""),
            (json!({}), "no permissionProfile"),
        ] {
            let error = translated(&state).unwrap_err();
            assert!(error.contains(named) && error.contains("not started"), "{error}");
        }
    }
}
