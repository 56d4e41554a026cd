//! Whether a process is confined more than this one: by namespaces, by `no_new_privs`, by a seccomp
//! filter. What a sandbox keeps it from doing, this process must not do for it.
//!
//! Limits: without `/proc` nothing is known. A process that Landlock or a security module confines,
//! without `no_new_privs`, looks like any other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::process::probe::{Environment, Identity};
use crate::process::processes::{environment, field, proc_directory, read_proc_text};
use crate::process::tree;

/// The variables by which the loader puts other code into a program (ld.so(8)).
const LOADER_VARIABLES: [&str; 3] = ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"];

/// Why a process may not be what the file that it executes says: a sandbox, in which a process can
/// name any file as its own; a tracer; or libraries that this process was not given itself.
pub(crate) fn disguise(pid: i32) -> Option<&'static str> {
    if let Some(reason) = confinement(tree::look_up(pid).map(|process| process.id)) {
        return Some(reason);
    }
    let status = read_proc_text(proc_directory(pid).join("status")).unwrap_or_default();
    if field(&status, "TracerPid:") != Some("0") {
        return Some("another process traces it");
    }
    let Environment::Entries(entries) = environment(pid) else {
        return Some("its environment cannot be read");
    };
    entries
        .split(|byte| *byte == 0)
        .any(brings_code)
        .then_some("LD_PRELOAD, LD_AUDIT or LD_LIBRARY_PATH puts other code into it")
}

/// Whether an entry of the environment puts code into a program that this server's own does not.
fn brings_code(entry: &[u8]) -> bool {
    LOADER_VARIABLES.iter().any(|name| {
        let value = entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.is_some_and(|value| {
            let own = std::env::var_os(name).unwrap_or_default();
            !value.is_empty() && own.as_os_str() != OsStr::from_bytes(value)
        })
    })
}

/// Why a process may do less than this one; `None` if it may do as much. `process` is `None` for one
/// that is not shown.
pub(crate) fn confinement(process: Option<Identity>) -> Option<&'static str> {
    let own = Limits::read(std::process::id() as i32)?;
    let theirs = process.and_then(|process| Limits::read(process.pid));
    // Looked up afterwards: a number that another process has got meanwhile would mislead.
    let now = process.and_then(|process| tree::look_up(process.pid)).map(|now| now.id);
    if now.is_none() || now != process {
        return Some("it has ended, or this process cannot see it");
    }
    theirs.map_or(Some("what confines it cannot be read"), |theirs| theirs.beyond(&own))
}

/// What confines a process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limits {
    namespaces: [PathBuf; 3],
    no_new_privs: bool,
    /// The mode of seccomp: 0 none, 1 strict, 2 filters.
    seccomp: u32,
    /// The number of filters; 0 where the kernel does not show it (before Linux 5.9).
    filters: u32,
}

impl Limits {
    fn read(pid: i32) -> Option<Limits> {
        let directory = proc_directory(pid);
        let status = read_proc_text(directory.join("status")).ok()?;
        let number = |name| field(&status, name).and_then(|value| value.trim().parse().ok());
        let namespace = |name: &str| std::fs::read_link(directory.join("ns").join(name)).ok();
        Some(Limits {
            namespaces: [namespace("user")?, namespace("mnt")?, namespace("pid")?],
            no_new_privs: number("NoNewPrivs:")? != 0,
            // A kernel without seccomp shows neither.
            seccomp: number("Seccomp:").unwrap_or_default(),
            filters: number("Seccomp_filters:").unwrap_or_default(),
        })
    }

    fn beyond(&self, own: &Limits) -> Option<&'static str> {
        let [user, mount, pid] =
            [0, 1, 2].map(|at| self.namespaces.get(at) == own.namespaces.get(at));
        if !user {
            Some("it is in another user namespace")
        } else if !mount {
            Some("it is in another mount namespace")
        } else if !pid {
            Some("it is in another pid namespace")
        } else if self.no_new_privs && !own.no_new_privs {
            Some("it may gain no privileges (no_new_privs)")
        } else if self.seccomp > own.seccomp || self.filters > own.filters {
            Some("a seccomp filter confines it")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_like_this_one_is_not_confined() {
        let own = tree::look_up(std::process::id() as i32).expect("this process").id;
        assert_eq!(confinement(Some(own)), None);
        assert!(confinement(None).is_some());
    }

    #[test]
    fn what_the_owner_has_as_well_does_not_confine() {
        let own = Limits::read(std::process::id() as i32).expect("its limits");
        let with = |change: fn(&mut Limits)| {
            let mut limits = own.clone();
            change(&mut limits);
            limits
        };
        let harder = [
            with(|limits| limits.no_new_privs = true),
            with(|limits| (limits.seccomp, limits.filters) = (2, limits.filters + 1)),
            with(|limits| limits.namespaces[1] = "mnt:[1]".into()),
        ];
        let free = with(|limits| (limits.no_new_privs, limits.seccomp) = (false, 0));
        for limits in harder {
            assert!(limits.beyond(&free).is_some(), "{limits:?}");
            assert_eq!(limits.beyond(&limits), None, "{limits:?}");
        }
        let harder = with(|limits| limits.no_new_privs = true);
        assert_eq!(free.beyond(&Limits { seccomp: 2, ..harder }), None);
    }
}
