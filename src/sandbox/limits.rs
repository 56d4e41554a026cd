//! What a kernel cannot enforce of a policy, and whether a command runs then. Pure.

use super::policy::{Mode, Network, Policy};

/// The version of Landlock's interface from which on truncating a file is a write.
const ABI_TRUNCATE: u32 = 3;
/// … from which on signals and abstract sockets can be kept inside.
const ABI_SCOPES: u32 = 6;
/// … from which on sockets in the file system can be closed.
const ABI_SOCKETS: u32 = 9;

/// How own namespaces can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    any(not(target_os = "linux"), feature = "portable"),
    allow(dead_code, reason = "only Linux has namespaces")
)]
pub(crate) enum Namespaces {
    /// Without a user namespace, by root.
    Direct,
    /// Inside of an own user namespace.
    WithUser,
    Unavailable,
}

/// What this system can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// The version of Landlock's interface; 0 where there is none.
    pub(crate) abi: u32,
    /// Whether system calls can be filtered.
    pub(crate) filters: bool,
    pub(crate) namespaces: Namespaces,
}

/// A part of a policy that is not enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Files,
    Reads,
    Signals,
    Truncation,
    Calls,
    Network,
    Loopback,
}

impl Loss {
    /// What is not enforced, and why.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Loss::Files => {
                "files are protected by own mounts alone, if at all: this kernel has no Landlock (Linux 5.13, and `lsm=landlock`)"
            }
            Loss::Reads => "denied paths can be read",
            Loss::Signals => "processes outside of the sandbox can be signalled",
            Loss::Truncation => {
                "files elsewhere can be emptied: Landlock refuses that from Linux 6.2 on"
            }
            Loss::Calls => {
                "dangerous system calls are not refused: this system has no seccomp filters"
            }
            Loss::Network => "the network is not closed: this system has no seccomp filters",
            Loss::Loopback => {
                "the network is not closed: this system refuses own network namespaces"
            }
        }
    }
}

/// What of this policy the system cannot enforce. Empty for [`Mode::Off`].
pub(crate) fn losses(policy: &Policy, system: Abilities) -> Vec<Loss> {
    if policy.mode == Mode::Off {
        return Vec::new();
    }
    let mut losses = Vec::new();
    match system.abi {
        0 => {
            losses.push(Loss::Files);
            if system.namespaces == Namespaces::Unavailable {
                losses.push(Loss::Reads);
            }
            losses.push(Loss::Signals);
        }
        // A mount that is read-only refuses it too.
        1..ABI_TRUNCATE if system.namespaces == Namespaces::Unavailable => {
            losses.push(Loss::Truncation);
        }
        _ => {}
    }
    if !system.filters {
        losses.push(Loss::Calls);
    }
    match policy.network {
        Network::Off if !system.filters => losses.push(Loss::Network),
        Network::Loopback if system.namespaces == Namespaces::Unavailable => {
            losses.push(Loss::Loopback);
        }
        _ => {}
    }
    losses
}

/// Whether signals to processes outside of a sandbox are refused.
pub(crate) fn keeps_signals(system: Abilities) -> bool {
    system.abi >= ABI_SCOPES
}

/// What no policy promises here, for people who rely on it.
pub(crate) fn gaps(system: Abilities) -> Vec<&'static str> {
    let mut gaps = Vec::new();
    if !keeps_signals(system) {
        gaps.push(
            "signals to your other processes, and abstract sockets (Landlock refuses them from Linux 6.12 on)",
        );
    }
    if system.namespaces == Namespaces::Unavailable {
        gaps.push(
            "writes to .git/hooks, .git/config, .claude, .codex and .mcp.json inside of the project, and \
             modes, owners, times and attributes of files elsewhere (this system refuses own mount namespaces)",
        );
    } else {
        gaps.push("making .git/hooks, .claude, .mcp.json and the like where they are missing (answers name what was made)");
    }
    if system.abi < ABI_SOCKETS {
        gaps.push(match system.namespaces {
            Namespaces::Unavailable => {
                "sockets in the file system: docker.sock, D-Bus and systemd, ssh-agent (Landlock refuses \
                 them from Linux 7.1 on)"
            }
            _ => {
                "sockets in the file system, except the usual ones of docker, D-Bus, systemd, ssh-agent \
                 and displays (Landlock refuses all from Linux 7.1 on)"
            }
        });
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: Abilities =
        Abilities { abi: 7, filters: true, namespaces: Namespaces::WithUser };

    fn policy(network: Network) -> Policy {
        Policy { mode: Mode::Workspace, network, ..Policy::off() }
    }

    #[test]
    fn each_loss_has_its_cause() {
        let bare = Abilities { abi: 0, filters: false, namespaces: Namespaces::Unavailable };
        for (network, system, expected) in [
            (Network::On, COMPLETE, vec![]),
            (Network::Loopback, COMPLETE, vec![]),
            (Network::On, Abilities { abi: 0, ..COMPLETE }, vec![Loss::Files, Loss::Signals]),
            (Network::On, Abilities { abi: 2, ..COMPLETE }, vec![]),
            (Network::On, Abilities { abi: 2, ..bare }, vec![Loss::Truncation, Loss::Calls]),
            (
                Network::Off,
                bare,
                vec![Loss::Files, Loss::Reads, Loss::Signals, Loss::Calls, Loss::Network],
            ),
            (
                Network::Loopback,
                Abilities { namespaces: Namespaces::Unavailable, ..COMPLETE },
                vec![Loss::Loopback],
            ),
        ] {
            assert_eq!(losses(&policy(network), system), expected, "{network:?} {system:?}");
        }
        assert_eq!(losses(&Policy::off(), bare), []);
    }

    #[test]
    fn the_gaps_become_fewer_with_what_the_system_can() {
        let count = |system| gaps(system).len();
        let abi = |abi| Abilities { abi, ..COMPLETE };
        assert_eq!((count(abi(5)), count(abi(6)), count(abi(9))), (3, 2, 1));
        assert_eq!(count(Abilities { namespaces: Namespaces::Unavailable, ..abi(9) }), 1);
    }
}
