//! The sandbox that Codex describes with each call, as a policy: `_meta["codex/sandbox-state-meta"]`,
//! which Codex sends to servers that declare the capability of that name. Pure.
//!
//! Only its `permissionProfile` counts, or the older `sandboxPolicy` where there is none. What it
//! restricts and no policy can express is an error, and so is what is not known here: the command then
//! does not run.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::sandbox::policy::{Mode, Network, Policy, SHARED_MEMORY};
use crate::text::foreign::{self, ShowPath};

/// The key of the description, and the capability that asks for it.
pub(crate) use crate::protocol::era::SANDBOX_STATE;

/// How much of what is not understood an error repeats.
const SHOWN_CHARS: usize = 160;

/// A description that is not understood, or cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Codex's sandbox cannot be carried over to this command: {0}; the command was not started. Run it \
     with Codex's own shell, or choose another permission profile"
)]
pub(crate) struct NotExpressible(String);

impl NotExpressible {
    fn new(what: impl Into<String>) -> NotExpressible {
        NotExpressible(what.into())
    }
}

/// What is added to each policy.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The policy in the mode workspace that the user has set up.
    pub(crate) workspace: &'a Policy,
    /// The directory of this program's own state.
    pub(crate) state: Option<&'a Path>,
    pub(crate) temporary: &'a Path,
    /// The path without links and dots. One place may have several names, and only that one is compared.
    pub(crate) resolve: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

impl Surroundings<'_> {
    fn policy(&self, network: Network) -> Policy {
        Policy {
            mode: Mode::ReadOnly,
            write: Vec::new(),
            keep: self.workspace.keep.clone(),
            protect: self.workspace.protect.clone(),
            git: self.workspace.git.clone(),
            deny_read: self.state.map(Path::to_path_buf).into_iter().collect(),
            network,
            best_effort: self.workspace.best_effort,
        }
    }
}

/// Codex's `permissionProfile`.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum PermissionProfile {
    // Without braces serde accepts any field.
    Disabled {},
    /// Another program confines the files.
    External {
        #[serde(default)]
        network: ProfileNetwork,
    },
    Managed {
        file_system: Files,
        #[serde(default)]
        network: ProfileNetwork,
    },
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ProfileNetwork {
    // Codex leaves out its default.
    #[default]
    Restricted,
    Enabled,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Files {
    Unrestricted {},
    Restricted { entries: Vec<Entry> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: Place,
    access: Access,
    #[serde(default, rename = "missing_path_behavior")]
    _if_missing: Option<IfMissing>,
}

/// What an entry means for a path that does not exist.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum IfMissing {
    /// Nothing, as here: only what exists is kept.
    Skip,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Access {
    Read,
    Write,
    #[serde(alias = "none")]
    Deny,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Place {
    Path { path: String },
    GlobPattern { pattern: String },
    Special { value: SpecialPlace },
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum SpecialPlace {
    Root {},
    /// What programs need to run.
    Minimal {},
    #[serde(alias = "current_working_directory")]
    ProjectRoots {
        subpath: Option<String>,
    },
    Tmpdir {},
    SlashTmp {},
}

/// Codex's `sandboxPolicy`.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum SandboxPolicy {
    DangerFullAccess {},
    ExternalSandbox {
        #[serde(default)]
        network_access: ProfileNetwork,
    },
    ReadOnly {
        #[serde(default)]
        access: ReadAccess,
        #[serde(default)]
        network_access: bool,
    },
    WorkspaceWrite {
        #[serde(default)]
        writable_roots: Vec<String>,
        #[serde(default)]
        read_only_access: ReadAccess,
        #[serde(default)]
        network_access: bool,
        #[serde(default)]
        exclude_tmpdir_env_var: bool,
        #[serde(default)]
        exclude_slash_tmp: bool,
    },
}

/// What may be read besides what is writable. That it is restricted is refused as not known.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum ReadAccess {
    FullAccess {},
}

impl Default for ReadAccess {
    fn default() -> ReadAccess {
        ReadAccess::FullAccess {}
    }
}

/// The policy of a description.
///
/// # Errors
/// Names what cannot be expressed.
pub(crate) fn policy(state: &Value, with: &Surroundings) -> Result<Policy, NotExpressible> {
    let directory = state.get("sandboxCwd").and_then(Value::as_str).and_then(path_of);
    let translation = Translation { directory, with };
    let given = |name: &str| state.get(name).filter(|value| !value.is_null());
    match (given("permissionProfile"), given("sandboxPolicy")) {
        (Some(profile), _) => translation.profile(read("permissionProfile", profile)?),
        (None, Some(policy)) => translation.older_policy(read("sandboxPolicy", policy)?),
        (None, None) => Err(NotExpressible::new("it has no permissionProfile")),
    }
}

fn read<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T, NotExpressible> {
    T::deserialize(value).map_err(|error| {
        let error = error.to_string();
        let error = foreign::shown_within(&error, SHOWN_CHARS);
        NotExpressible(format!("its {name} is not understood here: {error}"))
    })
}

struct Translation<'a> {
    /// Codex's working directory, which is its project.
    directory: Option<PathBuf>,
    with: &'a Surroundings<'a>,
}

impl Translation<'_> {
    fn profile(&self, profile: PermissionProfile) -> Result<Policy, NotExpressible> {
        match profile {
            PermissionProfile::Disabled {} => Ok(Policy::off()),
            PermissionProfile::External { network }
            | PermissionProfile::Managed { file_system: Files::Unrestricted {}, network } => {
                Ok(self.unrestricted(network))
            }
            PermissionProfile::Managed { file_system: Files::Restricted { entries }, network } => {
                self.restricted(entries, network_of(network == ProfileNetwork::Enabled))
            }
        }
    }

    fn unrestricted(&self, network: ProfileNetwork) -> Policy {
        match network {
            ProfileNetwork::Enabled => Policy::off(),
            ProfileNetwork::Restricted => self.writing(vec![PathBuf::from("/")], Network::Off),
        }
    }

    fn writing(&self, mut write: Vec<PathBuf>, network: Network) -> Policy {
        let mode = if write.is_empty() { Mode::ReadOnly } else { Mode::Workspace };
        if mode == Mode::Workspace {
            // What processes share is not named by its profiles.
            write.extend((self.with.resolve)(Path::new(SHARED_MEMORY)));
        }
        Policy { mode, write, ..self.with.policy(network) }
    }

    fn restricted(&self, entries: Vec<Entry>, network: Network) -> Result<Policy, NotExpressible> {
        let (mut write, mut read, mut denied) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            let Some(path) = self.path(entry.path)? else {
                // What programs need is readable with everything else.
                if entry.access == Access::Read {
                    continue;
                }
                return Err(NotExpressible::new(
                    "it says of what programs need (minimal) something else than read",
                ));
            };
            match entry.access {
                Access::Write => write.push(path),
                Access::Read => read.push(path),
                Access::Deny => denied.push(path),
            }
        }
        let all = Path::new("/");
        if denied.iter().any(|path| path == all) {
            return Err(NotExpressible::new("it denies /, so that no program could be read"));
        }
        if !read.iter().chain(&write).any(|path| path == all) {
            return Err(NotExpressible::new(
                "it lets only listed paths be read, and a sandbox here reads all but listed paths",
            ));
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

    /// The path of an entry; `None` for a set of paths that adds nothing.
    fn path(&self, place: Place) -> Result<Option<PathBuf>, NotExpressible> {
        let path = match place {
            Place::Path { path } => return self.named(&path).map(Some),
            Place::GlobPattern { pattern } => {
                return Err(NotExpressible(format!(
                    "it denies a pattern, {}, and only paths can be",
                    foreign::in_quotes(&pattern, SHOWN_CHARS)
                )));
            }
            Place::Special { value } => match value {
                SpecialPlace::Root {} => PathBuf::from("/"),
                SpecialPlace::Minimal {} => return Ok(None),
                SpecialPlace::ProjectRoots { subpath: None } => self.project()?,
                SpecialPlace::ProjectRoots { subpath: Some(part) } => self.project()?.join(part),
                SpecialPlace::Tmpdir {} => self.with.temporary.to_path_buf(),
                SpecialPlace::SlashTmp {} => PathBuf::from("/tmp"),
            },
        };
        self.resolved(&path).map(Some)
    }

    fn named(&self, text: &str) -> Result<PathBuf, NotExpressible> {
        let path = path_of(text).ok_or_else(|| {
            let text = foreign::in_quotes(text, SHOWN_CHARS);
            NotExpressible(format!("its path {text} is not absolute"))
        })?;
        self.resolved(&path)
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf, NotExpressible> {
        (self.with.resolve)(path).ok_or_else(|| {
            NotExpressible(format!("it is not known where its path {} leads", path.shown()))
        })
    }

    fn project(&self) -> Result<PathBuf, NotExpressible> {
        let missing = || NotExpressible::new("it has no sandboxCwd with an absolute path");
        self.directory.clone().ok_or_else(missing)
    }

    fn older_policy(&self, policy: SandboxPolicy) -> Result<Policy, NotExpressible> {
        match policy {
            SandboxPolicy::DangerFullAccess {} => Ok(Policy::off()),
            SandboxPolicy::ExternalSandbox { network_access } => {
                Ok(self.unrestricted(network_access))
            }
            SandboxPolicy::ReadOnly { access: ReadAccess::FullAccess {}, network_access } => {
                Ok(self.writing(Vec::new(), network_of(network_access)))
            }
            SandboxPolicy::WorkspaceWrite {
                writable_roots,
                read_only_access: ReadAccess::FullAccess {},
                network_access,
                exclude_tmpdir_env_var,
                exclude_slash_tmp,
            } => {
                let named = writable_roots.iter().map(|root| self.named(root));
                let mut write = named.collect::<Result<Vec<PathBuf>, _>>()?;
                write.push(self.resolved(&self.project()?)?);
                if !exclude_tmpdir_env_var {
                    write.push(self.resolved(self.with.temporary)?);
                }
                if !exclude_slash_tmp {
                    write.push(self.resolved(Path::new("/tmp"))?);
                }
                Ok(self.writing(write, network_of(network_access)))
            }
        }
    }
}

fn network_of(is_enabled: bool) -> Network {
    if is_enabled { Network::On } else { Network::Off }
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
        let resolve = &resolved;
        let state_directory = Some(state_directory);
        let with =
            Surroundings { workspace: &workspace, state: state_directory, temporary, resolve };
        policy(state, &with).map_err(|error| error.to_string())
    }

    /// Resolves dots, and the one link `/p/wl`.
    fn resolved(path: &Path) -> Option<PathBuf> {
        let mut real = PathBuf::new();
        for part in path.components() {
            match part {
                std::path::Component::ParentDir => _ = real.pop(),
                part => real.push(part),
            }
            if real == Path::new("/p/wl") {
                real = PathBuf::from("/p/w");
            }
        }
        (path != Path::new("/loop")).then_some(real)
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
        let git = json!({
            "path": {"type": "special", "value": part}, "access": "read",
            "missing_path_behavior": "skip",
        });
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
    fn one_place_by_several_names_is_one_place() {
        for git in ["/p/w/.git", "/p/wl/.git", "/p//w/./.git", "/p/x/../wl/.git"] {
            for project in ["/p/w", "/p/wl", "/p/wl/../w", "file:///p/wl"] {
                let entries =
                    json!([special("root", "read"), at(project, "write"), at(git, "read")]);
                let policy = translated(&managed(entries, "enabled")).unwrap();
                assert!(policy.may_write(Path::new("/p/w/a")), "{git} {project}");
                assert!(!policy.may_write(Path::new("/p/w/.git/config")), "{git} {project}");
            }
        }
        let denied = json!([special("root", "read"), at("/p/wl", "deny")]);
        let policy = translated(&managed(denied, "enabled")).unwrap();
        assert!(!policy.may_read(Path::new("/p/w/a")));
    }

    #[test]
    fn what_cannot_be_expressed_is_named() {
        let pattern =
            json!({"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "none"});
        let root = special("root", "read");
        let with = |name: &str, value: Value, mut state: Value| {
            state["permissionProfile"][name] = value;
            state
        };
        let deep = json!({"type": "restricted", "entries": [root], "glob_scan_max_depth": 3});
        let off = json!({"permissionProfile": {"type": "disabled"}});
        let older = |policy: Value| json!({"sandboxPolicy": policy, "sandboxCwd": "/project"});
        let restricted = json!({"type": "restricted", "readable_roots": ["/usr"]});
        let mut entry = special("root", "read");
        entry["until"] = json!("noon");
        let mut keeping = special("root", "read");
        keeping["missing_path_behavior"] = json!("make");
        for (state, named) in [
            (managed(json!([special("minimal", "read")]), "enabled"), "only listed paths"),
            (managed(json!([root, special("minimal", "none")]), "enabled"), "minimal"),
            (managed(json!([root, special("root", "deny")]), "enabled"), "it denies /"),
            (managed(json!([root, pattern]), "enabled"), "**/*.env"),
            (managed(json!([root, at("/a", "none"), at("/a/b", "write")]), "enabled"), "/a/b"),
            (managed(json!([root, at("/a", "deny"), at("/a/b", "read")]), "enabled"), "/a/b"),
            (managed(json!([root, at("/p/wl", "deny"), at("/p/w/b", "read")]), "enabled"), "/w/b"),
            (managed(json!([root, at("/loop", "deny")]), "enabled"), "/loop"),
            (managed(json!([root, at("a", "deny")]), "enabled"), "\"a\" is not absolute"),
            (managed(json!([special("moon", "read")]), "enabled"), "`moon`"),
            (managed(json!([root, at("/a", "append")]), "enabled"), "`append`"),
            (managed(json!([entry]), "enabled"), "`until`"),
            (managed(json!([keeping]), "enabled"), "`make`"),
            (managed(json!([root]), "limited"), "`limited`"),
            (with("file_system", deep, managed(json!([]), "enabled")), "`glob_scan_max_depth`"),
            (with("domains", json!([]), managed(json!([root]), "enabled")), "`domains`"),
            (with("network", json!("restricted"), off.clone()), "`network`"),
            (with("file_system", json!({"type": "unrestricted"}), off), "`file_system`"),
            (json!({"permissionProfile": {"type": "new"}}), "`new`"),
            (
                older(json!({"type": "danger-full-access", "network_access": false})),
                "network_access",
            ),
            (older(json!({"type": "read-only", "access": restricted})), "`restricted`"),
            (
                older(json!({"type": "workspace-write", "read_only_access": restricted})),
                "`restricted`",
            ),
            (older(json!({"type": "workspace-write", "writable_roots": ["a"]})), "\"a\""),
            (json!({}), "no permissionProfile"),
        ] {
            let error = translated(&state).unwrap_err();
            assert!(error.contains(named) && error.contains("not started"), "{named}: {error}");
        }
    }
}
