//! Sandboxes for commands: Landlock for files, a packet filter of the kernel for system calls, own
//! namespaces where they can be made.
//!
//! All is prepared before the fork; the child only makes system calls. The order there: namespaces and
//! mounts first, which the later parts refuse, then capabilities, `no_new_privs`, Landlock and the
//! filter. Everything that the command starts inherits it, and nothing takes it off again.

mod filter;
mod mounts;
mod real;
mod rules;
mod user;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::process::needs::{Needs, SandboxError};
use crate::sandbox::limits::{self, Abilities, Loss, Namespaces};
use crate::sandbox::policy::{Mode, Network, Policy};

use filter::Filters;
use mounts::MountPlan;

/// Lowers what this system is taken for, as in `abi=3 namespaces=none`. For tests: it can only make
/// commands be refused.
const LOWERED: &str = "ZSH_TOOL_SANDBOX_LOWERED";

/// Capabilities that root keeps in a sandbox: those with which it uses its own files as other users'.
/// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, SYS_CHROOT and
/// SETFCAP, by their numbers in `linux/capability.h`.
const KEPT_CAPABILITIES: [u64; 11] = [0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31];
/// The kernel knows no number above this.
const LAST_CAPABILITY: u64 = 63;

/// A sandbox that the next command can be started in.
#[derive(Debug, Default)]
pub(crate) struct Sandbox {
    /// Only for the process from which the namespace of others is taken.
    enters_user_namespace: bool,
    layers: Vec<Arc<OwnedFd>>,
    filters: Option<&'static Filters>,
    mounts: Option<MountPlan>,
    drops_capabilities: bool,
}

/// What this system can enforce; looked up once.
pub(crate) fn abilities() -> Abilities {
    static KNOWN: OnceLock<Abilities> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let lowered = std::env::var(LOWERED).unwrap_or_default();
        let word = |name: &str| {
            lowered.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let abi = word("abi").and_then(|abi| abi.parse().ok()).unwrap_or(u32::MAX);
        Abilities {
            abi: rules::abi().min(abi),
            filters: filter::are_supported() && word("filters") != Some("none"),
            namespaces: match word("namespaces") {
                Some("none") => Namespaces::Unavailable,
                _ => mounts::namespaces(),
            },
        }
    })
}

impl Sandbox {
    /// Prepares the sandbox of one command. `None` if the policy is none.
    ///
    /// # Errors
    /// The system cannot enforce it and the policy does not accept less, or descriptors have run out.
    pub(crate) fn prepare(policy: &Policy, needs: &Needs) -> Result<Option<Sandbox>, SandboxError> {
        if policy.is_off() {
            return Ok(None);
        }
        let mode = policy.mode.name();
        let system = abilities();
        let losses = limits::losses(policy, system);
        if !losses.is_empty() && !policy.best_effort {
            let missing: Vec<&str> = losses.iter().map(|loss| loss.text()).collect();
            return Err(SandboxError::NotEnforced { mode, missing: missing.join("; ") });
        }
        let failed = |source| SandboxError::Io { mode, source };
        let places = Places::resolve(policy, needs);
        let has_mounts = system.namespaces != Namespaces::Unavailable;
        let plan = || MountPlan::new(&places, policy.network, system.namespaces);
        let mounts = has_mounts.then(plan).transpose().map_err(failed)?;
        let mut layers = Vec::new();
        if !losses.contains(&Loss::Files) {
            layers = rules::layers(&places, has_mounts, system.abi).map_err(failed)?;
        }
        let filters = system.filters.then(|| filter::filters(policy.network == Network::Off));
        Ok(Some(Sandbox {
            enters_user_namespace: false,
            layers,
            filters: filters.transpose().map_err(failed)?,
            mounts,
            drops_capabilities: rustix::process::geteuid().is_root(),
        }))
    }

    /// Confines this process. Runs in the child: makes only system calls.
    ///
    /// # Errors
    /// A part cannot be enforced.
    pub(in crate::process) fn carry_out(&self) -> io::Result<()> {
        if self.enters_user_namespace {
            // SAFETY: changes what this process shares; it has one thread.
            check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into())?;
            return Ok(());
        }
        if let Some(mounts) = &self.mounts {
            mounts.carry_out()?;
        }
        if self.drops_capabilities {
            for number in 0..=LAST_CAPABILITY {
                if !KEPT_CAPABILITIES.contains(&number) {
                    // Fails for a number that the kernel does not know. What remains in the other sets
                    // is lost at the exec.
                    // SAFETY: changes an attribute of this process.
                    unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
                }
            }
        }
        // SAFETY: changes an attribute of this process.
        let ambient =
            unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
        // Before Linux 4.3 there are none.
        let _ = ambient;
        // SAFETY: changes an attribute of this process.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
        for layer in &self.layers {
            // SAFETY: takes a descriptor that the parent keeps open, and no memory.
            check(unsafe {
                libc::syscall(libc::SYS_landlock_restrict_self, layer.as_raw_fd(), 0)
            })?;
        }
        self.filters.map_or(Ok(()), Filters::install)
    }
}

/// The result of a system call.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// A policy's paths as they are now: resolved, and only those that exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Places {
    write: Vec<PathBuf>,
    /// What is not written to inside of those.
    keep: Vec<PathBuf>,
    /// The same, if it can be mounted.
    protect: Vec<PathBuf>,
    denied: Vec<PathBuf>,
    /// The denied paths as they were given, for what appears there later.
    denied_as_given: Vec<PathBuf>,
    directory: PathBuf,
    /// What the command alone writes to: files, and its temporary directory.
    files: Vec<PathBuf>,
    temporary: Vec<PathBuf>,
    shared: Option<PathBuf>,
}

impl Places {
    fn resolve(policy: &Policy, needs: &Needs) -> Places {
        let existing =
            |paths: &[PathBuf]| -> Vec<PathBuf> { paths.iter().filter_map(real::path).collect() };
        let mut write = existing(&policy.write);
        if policy.mode == Mode::Workspace {
            write.extend(existing(&[PathBuf::from("/dev/shm")]));
        }
        let temporary = needs.temporary.iter().cloned();
        if needs.shared.is_none() {
            write.extend(temporary.clone());
        }
        outermost(&mut write);
        let mut denied = existing(&policy.deny_read);
        outermost(&mut denied);
        let inside = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            let is_inside =
                |path: &PathBuf| write.iter().any(|tree| path.starts_with(tree) && path != tree);
            let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_inside).collect();
            outermost(&mut paths);
            paths
        };
        // What the server has just made is not a link.
        Places {
            keep: inside(existing(&policy.keep)),
            protect: inside(existing(&policy.protect)),
            directory: needs.directory.clone(),
            files: needs.files.clone(),
            temporary: temporary.filter(|_| needs.shared.is_some()).collect(),
            shared: needs.shared.as_ref().and_then(real::path),
            denied_as_given: policy.deny_read.clone(),
            write,
            denied,
        }
    }

    /// The denied paths inside of trees that are writable.
    fn denied_inside(&self) -> impl Iterator<Item = &PathBuf> {
        let is_inside = |path: &&PathBuf| self.write.iter().any(|tree| path.starts_with(tree));
        self.denied.iter().filter(is_inside)
    }
}

/// Leaves out what is inside of another path of the list.
fn outermost(paths: &mut Vec<PathBuf>) {
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::with_capacity(paths.len());
    for path in paths.drain(..) {
        if !kept.last().is_some_and(|last| path.starts_with(last)) {
            kept.push(path);
        }
    }
    *paths = kept;
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::process::birth::Birth;
    use crate::process::program::Program;
    use crate::process::start::start;

    fn policy(write: &Path) -> Policy {
        let deny_read = vec![write.join("secret")];
        Policy {
            mode: Mode::Workspace,
            write: vec![write.to_path_buf()],
            deny_read,
            best_effort: false,
            ..Policy::off()
        }
    }

    /// How long the parent needs until the program runs, and until it has ended.
    fn time(policy: &Policy) -> (Duration, Duration) {
        let begun = Instant::now();
        let needs = Needs { directory: "/".into(), ..Needs::default() };
        let sandbox = Sandbox::prepare(policy, &needs).expect("a sandbox").map(Arc::new);
        let pid = start(&Program {
            path: Path::new("/bin/true"),
            arguments: vec![OsStr::new("true")],
            environment: &[],
            directory: Path::new("/"),
            descriptors: &[],
            birth: Birth { sandbox, ..Birth::default() },
        });
        let started = begun.elapsed();
        let pid = rustix::process::Pid::from_raw(pid.expect("a process"));
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).expect("its end");
        (started, begun.elapsed())
    }

    /// `cargo test --release --lib sandbox -- --ignored --nocapture` prints what a sandbox costs.
    #[test]
    #[ignore = "measures"]
    fn what_a_start_costs() {
        const STARTS: usize = 400;
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(folder.path().join("secret")).expect("a directory");
        for (name, policy) in [("off", Policy::off()), ("workspace", policy(folder.path()))] {
            let mut times: Vec<_> = (0..STARTS).map(|_| time(&policy)).collect();
            let mut median = |part: fn(&(Duration, Duration)) -> Duration| {
                times.sort_by_key(part);
                (part(&times[STARTS / 10]), part(&times[STARTS / 2]))
            };
            eprintln!("{name}: started {:?}, ended {:?}", median(|it| it.0), median(|it| it.1));
        }
    }
}
