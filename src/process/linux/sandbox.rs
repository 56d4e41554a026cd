//! Sandboxes for commands: Landlock for files, a packet filter of the kernel for system calls, own
//! namespaces where they can be made.
//!
//! All is prepared before the fork; the child only makes system calls. The order there: namespaces and
//! mounts first, which the later parts refuse, then capabilities, `no_new_privs`, Landlock and the
//! filter. Everything that the command starts inherits it, and nothing takes it off again.
//!
//! What commands share is kept ([`Common`]), as long as what it was made of remains.

mod filter;
mod mounts;
mod places;
mod repositories;
mod rules;
mod seen;
mod system;
mod user;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;

use crate::process::needs::{Needs, SandboxError, socket_names};
use crate::sandbox::limits::{self, Abilities, Namespaces};
use crate::sandbox::policy::Policy;

use filter::Filter;
use mounts::{Entrance, MountPlan, Mounts, Services};
use places::Places;
use rules::Layer;
use seen::Seen;

/// Lowers what this system is taken for, as in `abi=3 namespaces=none`. For tests: it can only make
/// commands be refused.
const LOWERED: &str = "ZSH_TOOL_SANDBOX_LOWERED";

/// Capabilities that root keeps in a sandbox: those with which it uses its own files as other users'.
/// CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE and SYS_CHROOT, by their
/// numbers in `linux/capability.h`. Without FSETID a set-user-ID file that is written to is one no more.
const KEPT_CAPABILITIES: [u64; 9] = [0, 1, 3, 5, 6, 7, 8, 10, 18];
/// The kernel knows no number above this.
const LAST_CAPABILITY: u64 = 63;

/// How many policies' mounts and rules are kept.
const POLICIES_KEPT: usize = 8;

/// A sandbox that the next command can be started in.
#[derive(Debug)]
pub(crate) struct Sandbox {
    layers: Vec<Arc<OwnedFd>>,
    filter: Option<&'static Filter>,
    entrance: Option<Entrance>,
    drops_capabilities: bool,
    common: Arc<Common>,
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
            filters: filter::is_supported() && word("filters") != Some("none"),
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
        let common = Common::of(policy, needs, system).map_err(failed)?;
        let directory = needs.directory.canonicalize().unwrap_or_default();
        if common.places.denies(&directory) {
            return Err(SandboxError::Directory { mode, directory });
        }
        let mut layers = Vec::new();
        if let Some(layer) = &common.layer {
            layers.push(Arc::clone(&layer.rules));
        }
        if let Some(layer) = &common.layer {
            layers.extend(layer.own(needs, system.abi).map_err(failed)?.map(Arc::new));
        }
        let enter = |mounts: &Arc<Mounts>| Entrance::new(Arc::clone(mounts), policy.network, needs);
        let entrance = common.mounts.as_ref().map(enter).transpose().map_err(failed)?;
        let filter = system.filters.then(|| filter::filter(policy.network));
        Ok(Some(Sandbox {
            layers,
            filter,
            entrance,
            drops_capabilities: rustix::process::geteuid().is_root(),
            common,
        }))
    }

    /// What is protected inside of writable trees.
    pub(crate) fn protected(&self) -> &[PathBuf] {
        &self.common.places.protect
    }

    /// What would be protected and was not there when it was prepared.
    pub(crate) fn absent(&self) -> &[PathBuf] {
        &self.common.places.absent
    }

    /// The sockets, and directories of sockets, that it closes.
    pub(crate) fn closed(&self) -> Vec<PathBuf> {
        let services = self.common.mounts.as_ref().map(|mounts| mounts.services());
        services.map(|it| [&it.directories[..], &it.sockets].concat()).unwrap_or_default()
    }

    /// Confines this process. Runs in the child: makes only system calls.
    ///
    /// # Errors
    /// A part cannot be enforced.
    pub(in crate::process) fn carry_out(&self) -> io::Result<()> {
        if let Some(entrance) = &self.entrance {
            entrance.carry_out()?;
        }
        if self.drops_capabilities {
            drop_capabilities()?;
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
        self.filter.map_or(Ok(()), Filter::install)
    }
}

/// Takes all capabilities but the kept ones from this process. Makes only system calls.
///
/// As nothing gives new privileges afterwards, it does not gain them at an exec either, even if its
/// bounding set still has them.
fn drop_capabilities() -> io::Result<()> {
    // `_LINUX_CAPABILITY_VERSION_3`, and this process.
    let header: [u32; 2] = [0x2008_0522, 0];
    // What is effective, permitted and inheritable, of the first 32 capabilities and of the others.
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: the kernel reads the header and writes both sets, which have the size of this version.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) })?;
    let kept = KEPT_CAPABILITIES.iter().fold(0, |kept, number| kept | 1u64 << number);
    for (half, kept) in sets.iter_mut().zip([kept as u32, (kept >> 32) as u32]) {
        *half = half.map(|set| set & kept);
    }
    // SAFETY: as above, and the kernel only reads both.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })?;
    for number in 0..=LAST_CAPABILITY {
        if !KEPT_CAPABILITIES.contains(&number) {
            // Fails without SETPCAP, and for numbers that the kernel does not know.
            // SAFETY: changes an attribute of this process.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        }
    }
    Ok(())
}

/// The result of a system call.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// What commands with the same policy share.
#[derive(Debug)]
struct Common {
    policy: Policy,
    shared: Option<PathBuf>,
    /// The values of the variables that may name sockets.
    named: Vec<String>,
    places: Places,
    /// The paths that the places and mounts are made of.
    seen: Seen,
    mounts: Option<Arc<Mounts>>,
    layer: Option<Arc<Layer>>,
}

static KEPT: Mutex<Vec<Arc<Common>>> = Mutex::new(Vec::new());

impl Common {
    /// What was kept for this policy, or made anew as far as that has become out of date.
    ///
    /// # Errors
    /// The system refuses it, or descriptors have run out.
    fn of(policy: &Policy, needs: &Needs, system: Abilities) -> io::Result<Arc<Common>> {
        static OWN: LazyLock<Vec<String>> =
            LazyLock::new(|| socket_names(&std::env::vars_os().collect::<Vec<_>>()));
        let mut named: Vec<String> = OWN.iter().chain(&needs.named).cloned().collect();
        named.sort();
        named.dedup();
        let is_for = |common: &Arc<Common>| {
            common.shared == needs.shared && common.named == named && common.policy == *policy
        };
        let known = KEPT.lock().iter().find(|common| is_for(common)).cloned();
        let is_whole = |mounts: &Option<Arc<Mounts>>| {
            mounts.as_ref().is_none_or(|mounts| mounts.are_current())
        };
        let known = known.filter(|known| is_whole(&known.mounts) && known.seen.is_current());
        if let Some(known) = &known
            && known.layer.as_ref().is_none_or(|layer| layer.is_current())
        {
            return Ok(Arc::clone(known));
        }
        let mut seen = Seen::default();
        let places = Places::resolve(policy, needs, &mut seen)?;
        let has_mounts = system.namespaces != Namespaces::Unavailable;
        let mounts = match known {
            _ if !has_mounts => None,
            Some(known) => {
                Services::find(policy.network, &named, &places, &mut seen);
                known.mounts.clone()
            }
            None => {
                let services = Services::find(policy.network, &named, &places, &mut seen);
                let plan = MountPlan::new(&places, &services, system.namespaces)?;
                Some(Arc::new(plan.make(services)?))
            }
        };
        let layer = || Layer::make(&places, has_mounts, system.abi).map(Arc::new);
        let layer = (system.abi > 0).then(layer).transpose()?;
        let common = Arc::new(Common {
            policy: policy.clone(),
            shared: needs.shared.clone(),
            named: named.clone(),
            places,
            seen,
            mounts,
            layer,
        });
        let mut kept = KEPT.lock();
        kept.retain(|common| !is_for(common));
        if kept.len() >= POLICIES_KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&common));
        Ok(common)
    }
}
