//! What a command may read, write and reach. Pure.
//!
//! Paths are compared by their components, so they must be absolute and free of symbolic links for
//! the answer to hold; the enforcement resolves them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The memory that processes share, which the mode workspace lets commands write to.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// How much of the file system a command may change, loosest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// There is no sandbox.
    #[default]
    Off,
    /// The project, the temporary directory and listed directories.
    Workspace,
    /// A temporary directory of its own.
    ReadOnly,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Workspace => "workspace",
            Mode::ReadOnly => "read-only",
        }
    }
}

/// What of the network a command may use, loosest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    #[default]
    On,
    /// A loopback interface of its own.
    Loopback,
    Off,
}

impl Network {
    pub fn name(self) -> &'static str {
        match self {
            Network::On => "on",
            Network::Loopback => "loopback",
            Network::Off => "off",
        }
    }
}

/// What one command may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// With [`Mode::Off`] nothing else counts.
    pub mode: Mode,
    /// The trees that may be written to in the mode workspace.
    pub write: Vec<PathBuf>,
    /// What may not be written to inside of those trees.
    pub keep: Vec<PathBuf>,
    /// The same where own mount namespaces can be made, and otherwise writable: Landlock cannot take
    /// away a right below a directory that has it.
    pub protect: Vec<PathBuf>,
    /// The `.git` of these trees and of what is around them, a directory or a file that leads to one. What
    /// else makes git run programs is looked up there and protected too when a command starts.
    #[serde(default)]
    pub git: Vec<PathBuf>,
    /// What may not be read, and not written to either.
    pub deny_read: Vec<PathBuf>,
    pub network: Network,
    /// Whether the command runs even if the kernel cannot enforce all of this.
    pub best_effort: bool,
}

impl Policy {
    /// No sandbox.
    pub fn off() -> Policy {
        Policy {
            mode: Mode::Off,
            write: Vec::new(),
            keep: Vec::new(),
            protect: Vec::new(),
            git: Vec::new(),
            deny_read: Vec::new(),
            network: Network::On,
            best_effort: true,
        }
    }

    pub fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// Whether all that is not kept or denied may be written to.
    pub fn writes_all(&self) -> bool {
        self.mode == Mode::Workspace && self.write.iter().any(|tree| tree == Path::new("/"))
    }

    pub fn may_read(&self, path: &Path) -> bool {
        self.is_off() || !contains(&self.deny_read, path)
    }

    /// Whether the command may write there, apart from its own temporary directory and devices.
    pub fn may_write(&self, path: &Path) -> bool {
        match self.mode {
            Mode::Off => true,
            Mode::Workspace => {
                let kept = [&self.keep, &self.protect, &self.deny_read];
                contains(&self.write, path) && !kept.iter().any(|trees| contains(trees, path))
            }
            Mode::ReadOnly => false,
        }
    }

    /// The loosest policy that allows nothing that one of the two does not allow.
    #[must_use]
    pub fn meet(&self, other: &Policy) -> Policy {
        match (self.is_off(), other.is_off()) {
            (true, _) => return other.clone().normal(),
            (_, true) => return self.clone().normal(),
            _ => {}
        }
        Policy {
            mode: self.mode.max(other.mode),
            write: common_trees(&self.write, &other.write),
            keep: [&self.keep[..], &other.keep].concat(),
            protect: [&self.protect[..], &other.protect].concat(),
            git: [&self.git[..], &other.git].concat(),
            deny_read: [&self.deny_read[..], &other.deny_read].concat(),
            network: self.network.max(other.network),
            best_effort: self.best_effort && other.best_effort,
        }
        .normal()
    }

    /// The same policy with these paths in place of its own.
    #[must_use]
    pub fn with_paths(mut self, path: impl Fn(PathBuf) -> PathBuf) -> Policy {
        for trees in self.all_paths() {
            *trees = trees.drain(..).map(&path).collect();
        }
        self.normal()
    }

    /// Whether this policy allows nothing that the other does not allow.
    pub fn is_as_tight_as(&self, other: &Policy) -> bool {
        self.meet(other) == self.clone().normal()
    }

    /// The same policy, written in one way only: what has no effect is left out.
    fn normal(mut self) -> Policy {
        if self.is_off() {
            return Policy::off();
        }
        if self.mode == Mode::ReadOnly {
            for trees in [&mut self.write, &mut self.keep, &mut self.protect, &mut self.git] {
                trees.clear();
            }
        }
        for trees in self.all_paths() {
            without_nested(trees);
        }
        self
    }

    fn all_paths(&mut self) -> [&mut Vec<PathBuf>; 5] {
        [&mut self.write, &mut self.keep, &mut self.protect, &mut self.git, &mut self.deny_read]
    }
}

/// The policy as a status line shows it: `workspace`, or `read-only network=off`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.name())?;
        match self.network {
            Network::On => Ok(()),
            restricted => write!(f, " network={}", restricted.name()),
        }
    }
}

/// Whether one of these trees contains the path.
fn contains(trees: &[PathBuf], path: &Path) -> bool {
    trees.iter().any(|tree| path.starts_with(tree))
}

/// What is in a tree of both lists.
fn common_trees(some: &[PathBuf], others: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |inner: &[PathBuf], outer: &[PathBuf]| -> Vec<PathBuf> {
        inner.iter().filter(|tree| contains(outer, tree)).cloned().collect()
    };
    [inside(some, others), inside(others, some)].concat()
}

fn without_nested(trees: &mut Vec<PathBuf>) {
    // A tree sorts directly before what is inside of it.
    trees.sort();
    let mut kept: Vec<PathBuf> = Vec::with_capacity(trees.len());
    for tree in trees.drain(..) {
        if !kept.last().is_some_and(|last| tree.starts_with(last)) {
            kept.push(tree);
        }
    }
    *trees = kept;
}

/// What the caller of one command asks for: a mode, a network, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tightening {
    pub mode: Option<Mode>,
    pub network: Option<Network>,
}

/// A `sandbox` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "sandbox must be workspace or read-only, network=off or network=loopback, or both, as in \"read-only network=off\""
)]
pub struct UnknownSandbox;

/// A command asked for more than its user allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "sandbox {asked} is looser than the user's {setting}: {configured}, and a call can only tighten \
     it: leave it out, or the user changes {setting} in the configuration"
)]
pub struct TooLoose {
    pub asked: String,
    pub setting: &'static str,
    pub configured: &'static str,
}

/// A command that does not get a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSandbox {
    #[error(transparent)]
    TooLoose(#[from] TooLoose),
    #[error("{0}; the command was not started")]
    Fault(String),
}

impl Tightening {
    /// Reads `workspace`, `network=off` or `read-only network=off`.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Tightening, UnknownSandbox> {
        let mut asked = Tightening::default();
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        for word in words {
            match word.strip_prefix("network=") {
                Some(name) if asked.network.is_none() => {
                    let network = Network::from_str(name, false).map_err(|_| UnknownSandbox)?;
                    asked.network = Some(network);
                }
                None if asked.mode.is_none() => {
                    asked.mode = Some(Mode::from_str(word, false).map_err(|_| UnknownSandbox)?);
                }
                _ => return Err(UnknownSandbox),
            }
        }
        let restricted = asked.network.is_some_and(|network| network != Network::On);
        match asked {
            Tightening { mode: None, network: None } => Err(UnknownSandbox),
            Tightening { mode: Some(Mode::Off), .. } if restricted => Err(UnknownSandbox),
            asked => Ok(asked),
        }
    }
}

/// What the user has set up, from which policies are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The mode in use.
    pub mode: Mode,
    bounds: Arc<LazyLock<Bounds, Box<dyn FnOnce() -> Bounds + Send>>>,
}

/// What the settings say of commands in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The policy in the mode workspace, whatever the mode in use is.
    pub workspace: Policy,
    /// Why commands cannot be confined in a mode.
    pub faults: Vec<(Mode, String)>,
}

impl Bounds {
    /// Why commands cannot be confined in this mode, if that is so.
    pub fn fault_in(&self, mode: Mode) -> Option<&str> {
        let mut faults = self.faults.iter().filter(|(of, _)| *of == mode);
        faults.next().map(|(_, fault)| fault.as_str())
    }
}

impl Settings {
    /// Calls `bounds` once a command has a sandbox, or a call asks for one: it may take
    /// milliseconds to look up where hundreds of paths lead.
    pub fn new(mode: Mode, bounds: impl FnOnce() -> Bounds + Send + 'static) -> Settings {
        Settings { mode, bounds: Arc::new(LazyLock::new(Box::new(bounds))) }
    }

    /// No sandbox, and none to tighten to.
    pub fn off() -> Settings {
        Settings::new(Mode::Off, || Bounds { workspace: Policy::off(), faults: Vec::new() })
    }

    /// The policy in the mode workspace, whatever the mode in use is.
    pub fn workspace(&self) -> &Policy {
        &self.bounds.workspace
    }

    /// The policy in use.
    pub fn policy(&self) -> Policy {
        self.policy_in(self.mode)
    }

    fn policy_in(&self, mode: Mode) -> Policy {
        match mode {
            Mode::Off => Policy::off(),
            _ => Policy { mode, ..self.workspace().clone() }.normal(),
        }
    }

    /// The policy for a command whose caller asks for this.
    ///
    /// # Errors
    /// It asks for more than the settings allow, or for what they do not describe.
    pub fn tightened(&self, asked: Option<Tightening>) -> Result<Policy, NoSandbox> {
        let Some(asked) = asked else { return Ok(self.policy()) };
        let too_loose =
            |asked: String, setting, configured| TooLoose { asked, setting, configured }.into();
        // A network that is restricted needs a sandbox, and no looser one than workspace.
        let mode = asked.mode.unwrap_or(self.mode.max(Mode::Workspace));
        if mode < self.mode {
            return Err(too_loose(mode.name().to_owned(), "sandbox.mode", self.mode.name()));
        }
        let configured = match self.mode {
            Mode::Off => Network::On,
            _ => self.workspace().network,
        };
        // Where no sandbox is in use, its network setting holds for one that a call asks for too,
        // unless the call chooses otherwise.
        let network = asked.network.unwrap_or(self.workspace().network);
        if network < configured {
            let asked = format!("network={}", network.name());
            return Err(too_loose(asked, "sandbox.network", configured.name()));
        }
        match self.bounds.fault_in(mode) {
            Some(fault) => Err(NoSandbox::Fault(fault.to_owned())),
            None => Ok(Policy { network, ..self.policy_in(mode) }.normal()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Paths of few names, so that trees are often nested.
    fn path() -> impl Strategy<Value = PathBuf> {
        prop::collection::vec("[ab]", 0..4)
            .prop_map(|names| names.iter().fold(PathBuf::from("/"), |path, name| path.join(name)))
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let paths = || prop::collection::vec(path(), 0..4);
        let mode = prop::sample::select(vec![Mode::Off, Mode::Workspace, Mode::ReadOnly]);
        let network = prop::sample::select(vec![Network::On, Network::Loopback, Network::Off]);
        (mode, paths(), paths(), paths(), paths(), network, any::<bool>()).prop_map(
            |(mode, write, keep, protect, deny_read, network, best_effort)| {
                let git = Vec::new();
                Policy { mode, write, keep, protect, git, deny_read, network, best_effort }.normal()
            },
        )
    }

    proptest! {
        #[test]
        fn a_meet_does_not_depend_on_the_order(a in policy(), b in policy()) {
            prop_assert_eq!(a.meet(&b), b.meet(&a));
        }

        #[test]
        fn a_meet_with_itself_or_with_none_changes_nothing(a in policy()) {
            prop_assert_eq!(a.meet(&a), a.clone());
            prop_assert_eq!(a.meet(&Policy::off()), a);
        }

        #[test]
        fn meets_may_be_grouped_in_any_way(a in policy(), b in policy(), c in policy()) {
            prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
        }

        #[test]
        fn a_meet_allows_what_both_allow_and_no_more(a in policy(), b in policy(), p in path()) {
            let met = a.meet(&b);
            prop_assert_eq!(met.may_read(&p), a.may_read(&p) && b.may_read(&p));
            prop_assert_eq!(met.may_write(&p), a.may_write(&p) && b.may_write(&p));
            let network = |policy: &Policy| match policy.mode {
                Mode::Off => Network::On,
                _ => policy.network,
            };
            prop_assert_eq!(network(&met), network(&a).max(network(&b)));
            prop_assert!(met.is_as_tight_as(&a) && met.is_as_tight_as(&b));
        }

        #[test]
        fn what_may_not_be_read_is_not_written(a in policy(), p in path()) {
            prop_assert!(a.may_read(&p) || !a.may_write(&p));
        }

        #[test]
        fn a_call_never_loosens(a in policy(), text in "(off|workspace|read-only)?( network=(on|off|loopback))?", p in path()) {
            let workspace = Policy { mode: Mode::Workspace, ..a.clone() };
            let bounds = Bounds { workspace, faults: Vec::new() };
            let settings = Settings::new(a.mode, || bounds);
            let Ok(asked) = Tightening::parse(&text) else { return Ok(()) };
            let Ok(policy) = settings.tightened(Some(asked)) else { return Ok(()) };
            let configured = settings.policy();
            prop_assert_eq!(configured.meet(&policy), policy.clone());
            prop_assert!(configured.may_write(&p) || !policy.may_write(&p));
        }
    }

    fn settings(mode: Mode, network: Network) -> Settings {
        let write = vec!["/project".into()];
        let workspace = Policy { mode: Mode::Workspace, write, network, ..Policy::off() };
        Settings::new(mode, || Bounds { workspace, faults: Vec::new() })
    }

    fn tightened(settings: &Settings, text: &str) -> Result<String, String> {
        let asked = Tightening::parse(text).map_err(|error| error.to_string())?;
        let policy = settings.tightened(Some(asked)).map_err(|error| error.to_string())?;
        Ok(policy.to_string())
    }

    #[test]
    fn a_call_tightens_and_the_refusal_to_loosen_names_the_setting() {
        let off = settings(Mode::Off, Network::On);
        for (text, policy) in [
            ("workspace", "workspace"),
            ("read-only", "read-only"),
            ("network=off", "workspace network=off"),
            ("read-only, network=loopback", "read-only network=loopback"),
            ("off", "off"),
        ] {
            assert_eq!(tightened(&off, text).as_deref(), Ok(policy), "{text}");
        }
        let on = settings(Mode::Workspace, Network::Loopback);
        assert_eq!(tightened(&on, "read-only").as_deref(), Ok("read-only network=loopback"));
        assert_eq!(tightened(&on, "network=off").as_deref(), Ok("workspace network=off"));
        for (text, setting) in [("off", "sandbox.mode"), ("network=on", "sandbox.network")] {
            let error = tightened(&on, text).unwrap_err();
            assert!(error.contains(setting) && error.contains("can only tighten"), "{error}");
        }
    }

    #[test]
    fn what_is_no_sandbox_is_refused_with_the_words_that_are() {
        for text in ["", "strict", "network=no", "workspace read-only", "network=off network=on"] {
            let error = Tightening::parse(text).unwrap_err().to_string();
            assert!(error.contains("workspace or read-only"), "{text}: {error}");
        }
    }
}
