//! What the sandbox refused a command that has failed.
//!
//! The output names a path and an error. They count only if the policy denies what was tried, and if this
//! process, which is outside of the sandbox, could do it. A path is shown as the output names it: where a
//! link in a denied directory leads is not told.

use std::path::{Path, PathBuf};

use super::shown_below;
use crate::process::sandbox;
use crate::process::spawn::SpawnError;
use crate::process::{files, kill};
use crate::sandbox::limits::{self, Abilities, Namespaces};
use crate::sandbox::policy::{Mode, Network, Policy};
use crate::sandbox::refusal::{Change, Kind, Scene, Told};
use crate::task::journal::SERVERS;
use crate::task::live::{Confined, End, Facts};
use crate::task::request::StartError;

/// Says what the sandbox refused a command that has failed, by the end of its output.
pub(crate) fn refusal(facts: &Facts, end: &End, tail: &str) -> Option<String> {
    let confined = facts.sandbox.as_ref()?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.as_deref();
    let directories = [Some(&facts.directory), end.moved_to.as_ref()];
    let directories = directories.into_iter().flatten().map(PathBuf::as_path).collect();
    let scene = Scene { command: &facts.command, tail, directories, home };
    let system = sandbox::abilities();
    let judge = Judge {
        policy: enforced(confined, system),
        has_mounts: system.namespaces != Namespaces::Unavailable,
        system,
        confined,
        home,
        written: scene.written_paths(),
        run: scene.run_paths(),
        scene,
    };
    let told = judge.scene.told();
    let is_missing = |told: &&Told| told.kind == Kind::Missing;
    judge
        .by_namespace()
        .or_else(|| judge.by_privileges())
        .or_else(|| judge.by_socket())
        .or_else(|| told.iter().filter(|told| !is_missing(told)).find_map(|told| judge.by(told)))
        .or_else(|| told.iter().filter(is_missing).find_map(|told| judge.by(told)))
        .or_else(|| judge.by_guess())
        .or_else(|| judge.by_network())
        .or_else(|| judge.by_signal())
}

/// Says that a program was not started since the sandbox denies reading it.
pub(in crate::task) fn start_error(error: SpawnError, sandbox: Option<&Confined>) -> StartError {
    let (SpawnError::MissingProgram(program) | SpawnError::NotPermitted(program)) = &error else {
        return error.into();
    };
    let is_denied = |confined: &Confined| {
        let policy = enforced(confined, sandbox::abilities());
        files::way(program).iter().any(|at| !policy.may_read(at))
    };
    match sandbox.filter(|confined| is_denied(confined) && files::is_program(program)) {
        Some(confined) => StartError::SandboxProgram {
            mode: confined.policy.mode.name(),
            program: program.clone(),
        },
        None => error.into(),
    }
}

/// The policy as it is enforced: its paths without links, and none that could not be protected.
fn enforced(confined: &Confined, system: Abilities) -> Policy {
    let mut policy = confined.policy.clone();
    policy.protect.extend_from_slice(&confined.protected);
    // What is missing when a command starts is not kept from it.
    policy.protect.retain(|path| !confined.absent.contains(path));
    for trees in [&mut policy.keep, &mut policy.protect, &mut policy.deny_read] {
        for tree in trees.iter_mut() {
            if let Some(real) = files::real_path(tree) {
                *tree = real;
            }
        }
    }
    if system.namespaces == Namespaces::Unavailable {
        let Policy { write, protect, .. } = &mut policy;
        protect.retain(|path| !write.iter().any(|tree| path.starts_with(tree)));
    }
    policy
}

/// A path that the output names.
struct Place<'a> {
    named: &'a Path,
    /// Without links. Its last part need not exist.
    real: PathBuf,
    /// Whether a link in a denied directory is on the way, so that it must not be told where it leads.
    is_hidden: bool,
}

struct Judge<'a> {
    scene: Scene<'a>,
    confined: &'a Confined,
    policy: Policy,
    system: Abilities,
    has_mounts: bool,
    home: Option<&'a Path>,
    written: Vec<PathBuf>,
    run: Vec<PathBuf>,
}

impl Judge<'_> {
    /// By the mode, as sentences have it.
    fn mode(&self) -> &'static str {
        self.policy.mode.name()
    }

    fn place<'a>(&self, named: &'a Path, change: Option<Change>) -> Option<Place<'a>> {
        // A link itself is removed, not what it leads to.
        let real = match change {
            Some(Change::Entry) if named.is_symlink() => {
                named.parent()?.canonicalize().ok()?.join(named.file_name()?)
            }
            _ => files::resolved(named)?,
        };
        let mut way = files::way(named).into_iter();
        let is_hidden = way.any(|at| !self.policy.may_read(&at) && at.is_symlink());
        Some(Place { named, real, is_hidden })
    }

    fn shown(&self, path: &Path) -> String {
        // Without dots, if that names the same.
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                std::path::Component::ParentDir => {
                    plain.pop();
                }
                std::path::Component::CurDir => {}
                part => plain.push(part),
            }
        }
        let is_same = files::resolved(&plain) == files::resolved(path);
        shown_below(if is_same { &plain } else { path }, self.home)
    }

    /// What an output line says about the sandbox.
    fn by(&self, told: &Told) -> Option<String> {
        match told.kind {
            Kind::Busy => self.by_mount(told),
            Kind::CrossDevice => self.by_border(told),
            Kind::NotPermitted => self.by_mode(told),
            Kind::Missing if !self.has_mounts => None,
            Kind::Missing => told.paths.iter().find_map(|path| self.unread(path, told)),
            Kind::ReadOnly | Kind::Denied | Kind::Unopened => {
                let mut named = told.paths.iter().filter(|path| self.is_file_named(path, told));
                named.find_map(|path| {
                    self.unread(path, told).or_else(|| self.unwritten(path, told.kind, told.change))
                })
            }
        }
    }

    /// Whether the line is about a file of this path, and not about what begins it: a program, a host or
    /// the class of an error.
    fn is_file_named(&self, named: &Path, told: &Told) -> bool {
        let name = named.file_name().unwrap_or_default().to_string_lossy();
        let begins = told.line.strip_prefix(&*name).is_some_and(|rest| rest.starts_with(':'));
        !begins
            || told.change.is_some()
            || self.written.iter().any(|written| written == named)
            || named.symlink_metadata().is_ok()
    }

    fn unread(&self, named: &Path, told: &Told) -> Option<String> {
        let is_write = told.kind == Kind::ReadOnly
            || told.kind != Kind::Missing && self.change(named, told.change).is_some();
        let place = self.place(named, None)?;
        if is_write || !place.is_hidden && self.policy.may_read(&place.real) {
            return None;
        }
        let could = match place.is_hidden {
            true => self.has_mounts,
            false if self.run.iter().any(|run| run == named) => files::is_program(&place.real),
            false => files::is_readable(&place.real),
        };
        let mut trees = self.policy.deny_read.iter().filter(|tree| place.real.starts_with(tree));
        let is_own = trees.any(|tree| tree.join(SERVERS).is_dir());
        let why = if is_own && !place.is_hidden {
            "it belongs to zsh-tool itself"
        } else {
            "the user can take it off sandbox.deny_read"
        };
        could.then(|| {
            let (shown, mode) = (self.shown(named), self.mode());
            format!("the sandbox refused to read {shown} (mode {mode}): {why}")
        })
    }

    /// What was tried with this path, if the line or the command says so.
    fn change(&self, named: &Path, told: Option<Change>) -> Option<Change> {
        let is_written = || self.written.iter().any(|written| written == named);
        told.or_else(|| is_written().then_some(Change::Content))
    }

    fn unwritten(&self, named: &Path, kind: Kind, told: Option<Change>) -> Option<String> {
        let change = self.change(named, told);
        let place = self.place(named, change).or_else(|| {
            // More than the last part is missing.
            let real = files::real_path(named).filter(|_| kind == Kind::ReadOnly)?;
            Some(Place { named, real, is_hidden: false })
        })?;
        let (shown, mode) = (self.shown(named), self.mode());
        let denied = format!(
            "the sandbox refused a write to {shown} (mode {mode}): what may not be read is not written \
             either (sandbox.deny_read)"
        );
        if place.is_hidden {
            return (kind == Kind::ReadOnly && self.has_mounts).then_some(denied);
        }
        let real = place.real;
        if files::is_device(&real) {
            return self.unopened_device(&real, &shown, kind);
        }
        let could = match change {
            Some(Change::Entry) => files::is_entry_changeable(&real),
            Some(Change::Attributes) => files::is_own(&real),
            _ => files::is_changeable(&real),
        };
        if !could || !self.is_write(named, &real, kind, change) {
            return None;
        }
        if self.policy.may_write(&real) {
            return self.unmade(&real, &shown, kind, change);
        }
        if !self.policy.may_read(&real) {
            return Some(denied);
        }
        if self.policy.mode == Mode::ReadOnly {
            return Some(format!(
                "the sandbox refused a write to {shown} (mode read-only): only $TMPDIR is writable; \
                 where more is needed, the mode is workspace"
            ));
        }
        if let Some(why) = self.guard(&real) {
            return Some(format!("the sandbox refused a write to {shown} (mode {mode}): {why}"));
        }
        let advice = self.advice(&real, change);
        Some(format!("the sandbox refused a write to {shown} (mode {mode}): {advice}"))
    }

    /// Whether it was a write that the sandbox may have refused, and not another use of the file, which
    /// is refused without a sandbox too.
    fn is_write(&self, named: &Path, real: &Path, kind: Kind, change: Option<Change>) -> bool {
        let is_there = real.exists();
        match kind {
            Kind::ReadOnly => true,
            Kind::Unopened => !is_there || real.is_file() && files::is_readable(real),
            _ if change.is_some() => true,
            // Mounts refuse writes with another error.
            _ if self.has_mounts => false,
            // Of processes it refuses more.
            _ if files::is_of_kernel(real) => false,
            _ if !is_there => true,
            _ => {
                let is_run = self.run.iter().any(|run| run == named);
                let needs_right =
                    real.is_file() && !files::is_program(real) && files::is_like_program(real);
                files::is_readable(real) && !is_run && !needs_right
            }
        }
    }

    /// Why nothing is written there although it is in a writable tree or could be added to one.
    fn guard(&self, real: &Path) -> Option<String> {
        let of = |trees: &[PathBuf]| trees.iter().find(|tree| real.starts_with(tree)).cloned();
        if let Some(tree) = of(&self.policy.keep) {
            let what = if tree == real { "it".to_owned() } else { shown_below(&tree, self.home) };
            return Some(format!("{what} is in sandbox.deny_write, or zsh-tool's own"));
        }
        of(&self.policy.protect).map(|_| {
            "it is protected, since programs outside of the sandbox obey it (zsh-tool help sandbox)"
                .to_owned()
        })
    }

    /// How the user can let it be written.
    fn advice(&self, real: &Path, change: Option<Change>) -> String {
        if let Some(link) = self.entrance(real) {
            return format!(
                "the project was entered through {}, a link that commands can change; start zsh-tool \
                 where it leads",
                shown_below(&link, self.home)
            );
        }
        let above = real.ancestors().skip(1).filter(|above| above.ends_with(".git"));
        if let Some(repository) = above.last().and_then(Path::parent) {
            let repository = shown_below(repository, self.home);
            return format!(
                "the user can start zsh-tool in {repository}, or add that to sandbox.write"
            );
        }
        if files::is_of_kernel(real) {
            return "files of the kernel are read-only in every sandbox".to_owned();
        }
        if real.exists() && change != Some(Change::Entry) {
            return "the user can add it to sandbox.write".to_owned();
        }
        let is_wide = |directory: &Path| self.home.is_some_and(|home| home.starts_with(directory));
        match real.parent() {
            Some(directory)
                if is_wide(directory) && (real.exists() || change == Some(Change::Entry)) =>
            {
                let directory = shown_below(directory, self.home);
                format!(
                    "what is made or removed in {directory} itself needs all of it in sandbox.write"
                )
            }
            Some(directory) if is_wide(directory) => {
                "the user can make it and add it to sandbox.write".to_owned()
            }
            Some(directory) if !directory.exists() => format!(
                "the user can make {} and add it to sandbox.write",
                shown_below(directory, self.home)
            ),
            Some(directory) if directory != Path::new("/") => {
                format!("the user can add {} to sandbox.write", shown_below(directory, self.home))
            }
            _ => "it is not in a directory that is in sandbox.write".to_owned(),
        }
    }

    /// A link in a writable tree by which the project was entered, if that is why this path in the project
    /// is not writable.
    fn entrance(&self, real: &Path) -> Option<PathBuf> {
        let given = |name| std::env::var_os(name).map(PathBuf::from);
        let named = given("CLAUDE_PROJECT_DIR").filter(|path| path.is_absolute());
        let project =
            named.clone().or_else(|| std::env::current_dir().ok())?.canonicalize().ok()?;
        let mut ways = [given("PWD"), named].into_iter().flatten();
        let entered = ways.find(|way| way.canonicalize().is_ok_and(|real| real == project))?;
        let mut way = files::way(&entered).into_iter().filter(|_| real.starts_with(&project));
        way.find(|at| at.is_symlink() && at.parent().is_some_and(|at| self.policy.may_write(at)))
    }

    /// Says why something in a writable tree is not written.
    fn unmade(
        &self,
        real: &Path,
        shown: &str,
        kind: Kind,
        change: Option<Change>,
    ) -> Option<String> {
        let mode = self.mode();
        if self.has_mounts {
            let is_tree = self.policy.write.iter().any(|tree| tree == real);
            return (is_tree && kind == Kind::ReadOnly && change == Some(Change::Entry)).then(|| {
                format!(
                    "the sandbox refused to move or remove {shown} (mode {mode}): what is in it is \
                     writable, but not the directory above it"
                )
            });
        }
        // A right that a directory has cannot be taken away below it, so it has none.
        let directory = real.parent()?;
        let is_made = kind == Kind::Denied && (!real.exists() || change == Some(Change::Entry));
        let is_inside = |path: &Path| self.policy.write.iter().any(|tree| path.starts_with(tree));
        let mut kept = self.policy.deny_read.iter().chain(&self.policy.keep);
        let kept =
            kept.find(|kept| *kept != directory && kept.starts_with(directory) && kept.exists());
        let kept = kept.filter(|_| is_made && is_inside(directory))?;
        Some(format!(
            "the sandbox refused to make, move or remove {shown} (mode {mode}): this system refuses own \
             mounts, and without them nothing is made or removed directly in {}, to protect {}",
            shown_below(directory, self.home),
            shown_below(kept, self.home)
        ))
    }

    fn unopened_device(&self, real: &Path, shown: &str, kind: Kind) -> Option<String> {
        let could = files::is_readable(real) || files::is_changeable(real);
        (kind == Kind::Denied && could).then(|| {
            format!(
                "the sandbox refused the use of {shown} (mode {}): of devices, only terminals, /dev/null \
                 and the like are open",
                self.mode()
            )
        })
    }

    /// What is mounted in a sandbox cannot be moved or removed, nor the directories above it.
    fn by_mount(&self, told: &Told) -> Option<String> {
        if !self.has_mounts {
            return None;
        }
        told.paths.iter().find_map(|named| {
            let real =
                self.place(named, Some(Change::Entry)).filter(|place| !place.is_hidden)?.real;
            let above = real.parent()?;
            // What is mounted there outside is busy there, too.
            if real.exists() && !files::are_on_one_mount(&real, above) {
                return None;
            }
            self.held(named, &real).or_else(|| {
                // A program that writes a new file and cannot put it into the place of a protected one
                // may name the new one only.
                let mut others = self.scene.named_paths().into_iter();
                others.find_map(|other| {
                    let place = self.place(&other, Some(Change::Entry))?;
                    let is_other = place.real.parent() == Some(above) && place.real.is_file();
                    (is_other && !place.is_hidden).then(|| self.held(&other, &place.real))?
                })
            })
        })
    }

    fn held(&self, named: &Path, real: &Path) -> Option<String> {
        let (shown, mode) = (self.shown(named), self.mode());
        let is_inside = self.policy.write.iter().any(|tree| real.starts_with(tree) && real != tree);
        if !is_inside || !files::is_entry_changeable(real) {
            return None;
        }
        if self.confined.closed.iter().any(|closed| closed.starts_with(real)) {
            return Some(self.closed_socket(&shown));
        }
        if let Some(why) = self.guard(real) {
            return Some(format!("the sandbox refused a write to {shown} (mode {mode}): {why}"));
        }
        let Policy { keep, protect, deny_read, .. } = &self.policy;
        let reasons = [
            (keep, "is in sandbox.deny_write, or zsh-tool's own"),
            (protect, "is protected (zsh-tool help sandbox)"),
            (deny_read, "is in sandbox.deny_read, or zsh-tool's own"),
        ];
        reasons.into_iter().find_map(|(trees, reason)| {
            let tree = trees.iter().find(|tree| tree.starts_with(real) && tree.exists())?;
            let what = if tree == real {
                "it".to_owned()
            } else {
                format!("{} in it", shown_below(tree, self.home))
            };
            Some(format!(
                "the sandbox refused to move or remove {shown} (mode {mode}): {what} {reason}"
            ))
        })
    }

    /// Between parts that are mounted apart, and out of what is not writable, files are only copied.
    fn by_border(&self, told: &Told) -> Option<String> {
        let place = |named| self.place(named, Some(Change::Entry)).filter(|place| !place.is_hidden);
        let places: Vec<Place> = told.paths.iter().filter_map(|path| place(path)).collect();
        let pairs = places.iter().flat_map(|from| places.iter().map(move |to| (from, to)));
        pairs.filter(|(from, to)| from.real != to.real).find_map(|(from, to)| {
            let (above, below) = (from.real.parent()?, to.real.parent()?);
            let could = from.real.symlink_metadata().is_ok_and(|data| data.is_file())
                && files::are_on_one_mount(above, below)
                && files::are_on_one_mount(&from.real, below)
                && files::is_own(&from.real)
                && files::is_entry_changeable(&to.real);
            let is_border = match self.policy.mode {
                Mode::Workspace if self.has_mounts => self.part(&from.real) != self.part(below),
                Mode::Workspace => !self.policy.may_write(&from.real),
                _ => true,
            };
            (could && is_border).then(|| {
                format!(
                    "the sandbox refused to link or move {} to {} (mode {}): between parts of the file \
                     system with different rights, files are only copied",
                    self.shown(from.named),
                    self.shown(to.named),
                    self.mode()
                )
            })
        })
    }

    /// The innermost part that has a mount of its own, and this path in it.
    fn part(&self, real: &Path) -> Option<&Path> {
        let Policy { write, keep, protect, deny_read, .. } = &self.policy;
        let is_inside = |path: &&Path| write.iter().any(|tree| path.starts_with(tree));
        let guarded = [keep, protect, deny_read].into_iter().flatten().filter(|path| path.exists());
        let guarded = guarded.flat_map(|path| path.ancestors()).filter(is_inside);
        let parts = guarded.chain(write.iter().map(PathBuf::as_path));
        parts.filter(|part| real.starts_with(part)).max_by_key(|part| part.components().count())
    }

    /// No command gives a file the rights of its owner or group.
    fn by_mode(&self, told: &Told) -> Option<String> {
        let is_asked = || self.scene.sets_id(told.line);
        told.paths.iter().find_map(|named| {
            let real = self.place(named, None).filter(|place| !place.is_hidden)?.real;
            let is_own = real.exists() && files::is_own(&real);
            if !is_own || !self.system.filters || told.change == Some(Change::Entry) {
                return None;
            }
            (files::has_set_id(&real) || is_asked() || self.is_copy_with_set_id(named)).then(|| {
                format!(
                    "the sandbox refused to set the mode of {} (mode {}): no command in it sets the bits \
                     set-user-ID and set-group-ID",
                    self.shown(named),
                    self.mode()
                )
            })
        })
    }

    /// Whether the command names what this path may be a copy of, and that has such a mode.
    fn is_copy_with_set_id(&self, copy: &Path) -> bool {
        let has_it = |path: &Path| path != copy && files::has_set_id(path);
        let parts: Vec<_> = copy.components().collect();
        self.scene.named_paths().iter().filter(|named| named.exists()).any(|named| {
            (1..parts.len()).any(|start| {
                let rest: PathBuf = parts.iter().skip(start).collect();
                has_it(&named.join(rest))
            }) || has_it(named) && !named.starts_with(copy) && !copy.starts_with(named)
        })
    }

    fn by_guess(&self) -> Option<String> {
        let guessed = self.scene.guessed_paths();
        // A directory is no database.
        let is_unopened = self.scene.told().iter().any(|told| told.kind == Kind::Unopened);
        let mut meant = guessed.iter().filter(|path| !is_unopened || !path.is_dir());
        meant.find_map(|path| self.unwritten(path, Kind::ReadOnly, None))
    }

    fn by_namespace(&self) -> Option<String> {
        let is_refused = self.scene.misses_namespace() && self.has_mounts;
        is_refused.then(|| "in a sandbox nothing is mounted and no namespace is made".to_owned())
    }

    fn by_privileges(&self) -> Option<String> {
        self.scene.misses_privileges().then(|| {
            "in a sandbox no program gains privileges, as sudo does (zsh-tool help sandbox)"
                .to_owned()
        })
    }

    fn by_network(&self) -> Option<String> {
        let network = self.policy.network;
        let is_closed = network == Network::Off;
        let is_missed = network != Network::On && self.scene.misses_network(is_closed);
        is_missed.then(|| {
            let network = network.name();
            format!("the sandbox has network={network}: the user can change sandbox.network")
        })
    }

    fn by_signal(&self) -> Option<String> {
        let missed = self.scene.missed_processes();
        // Another user's process is not signalled without a sandbox either.
        let is_refused = |pid: &Option<u32>| pid.and_then(kill::may_signal) != Some(false);
        let is_kept = limits::keeps_signals(self.system);
        (is_kept && missed.iter().any(is_refused)).then(|| {
            "in a sandbox a command signals only its own processes: zsh_kill ends other tasks"
                .to_owned()
        })
    }

    fn by_socket(&self) -> Option<String> {
        let mut sockets = self.scene.socket_paths();
        if self.scene.misses_agent() {
            sockets.extend(std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from));
        }
        let is_closed = |path: &PathBuf| {
            let real = files::resolved(path);
            real.is_some_and(|real| self.confined.closed.iter().any(|it| real.starts_with(it)))
        };
        sockets
            .iter()
            .find(|path| is_closed(path))
            .map(|path| self.closed_socket(&self.shown(path)))
    }

    fn closed_socket(&self, shown: &str) -> String {
        format!(
            "the sandbox closes sockets of programs outside of it, such as {shown} (mode {})",
            self.mode()
        )
    }
}
