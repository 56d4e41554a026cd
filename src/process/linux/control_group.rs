//! A control group of memory for the processes of one task: the kernel holds them together to a
//! limit, and ends them when they need more.
//!
//! It is made in version 2 where a directory above this process's own group is delegated to this
//! user, as systemd does for a user's session, and in version 1 where root may write. Limits: the
//! memory that caches files counts, but is freed before anything is ended; version 1 ends single
//! processes, so that the caller must look at [`ControlGroup::kills`] and end the others.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

use super::memory::CONTROL_GROUPS;
use super::processes::field;

/// The beginning of a group's name: the pid of the process that made it and a word follow.
const NAME: &str = "zsh-tool";

/// A group without processes yet. Removed when dropped, unless a process is still in it.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    directory: PathBuf,
    /// Its `cgroup.procs`.
    processes: File,
}

/// The files of a version of control groups.
struct Version {
    limit: &'static str,
    /// Memory and swap together, or swap alone.
    swap: (&'static str, Swap),
    highest: &'static str,
    kills: &'static str,
}

#[derive(Clone, Copy)]
enum Swap {
    /// Counts memory too.
    WithMemory,
    Alone,
}

const VERSIONS: [Version; 2] = [
    Version {
        limit: "memory.max",
        swap: ("memory.swap.max", Swap::Alone),
        highest: "memory.peak",
        kills: "memory.events",
    },
    Version {
        limit: "memory.limit_in_bytes",
        swap: ("memory.memsw.limit_in_bytes", Swap::WithMemory),
        highest: "memory.max_usage_in_bytes",
        kills: "memory.oom_control",
    },
];

impl ControlGroup {
    /// Makes a group whose processes may occupy so many bytes; `None` where this user cannot.
    pub(crate) fn create(word: &str, limit: u64) -> Option<ControlGroup> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let name = format!("{NAME}-{}-{word}", std::process::id());
        parents(&own, Path::new(CONTROL_GROUPS)).iter().find_map(|parent| {
            remove_abandoned(parent);
            let directory = parent.join(&name);
            fs::create_dir(&directory).ok()?;
            let group = ControlGroup::limited(directory.clone(), limit);
            if group.is_none() {
                let _ = fs::remove_dir(&directory);
            }
            group
        })
    }

    /// Whether this user can make one.
    pub(crate) fn can_be_made() -> bool {
        const ANY: u64 = 1 << 40;
        ControlGroup::create("check", ANY).is_some()
    }

    fn limited(directory: PathBuf, limit: u64) -> Option<ControlGroup> {
        let version = VERSIONS.iter().find(|version| directory.join(version.limit).exists())?;
        let write = |file: &str, value: &str| fs::write(directory.join(file), value);
        write(version.limit, &limit.to_string()).ok()?;
        let (swap, kind) = version.swap;
        // Fails without swap, where none can be used.
        let _ = match kind {
            Swap::WithMemory => write(swap, &limit.to_string()),
            Swap::Alone => write(swap, "0"),
        };
        // All at once, rather than one of them; only version 2 can.
        let _ = write("memory.oom.group", "1");
        let processes = OpenOptions::new().write(true).open(directory.join("cgroup.procs")).ok()?;
        let group = ControlGroup { directory, processes };
        // The kernel refuses to move a process here that it does not let this user move.
        group.accepts().then_some(group)
    }

    /// Whether this user may move processes of this process's group here.
    fn accepts(&self) -> bool {
        let parents = self.directory.parent();
        let common = parents.map(|parent| parent.join("cgroup.procs"));
        common.is_some_and(|common| OpenOptions::new().write(true).open(common).is_ok())
    }

    /// Where a child enters it, see [`Birth`](crate::process::birth::Birth).
    pub(crate) fn entrance(&self) -> RawFd {
        self.processes.as_raw_fd()
    }

    /// How many of its processes the kernel has ended for lack of memory.
    pub(crate) fn kills(&self) -> u64 {
        let counts = VERSIONS.iter().find_map(|version| self.read(version.kills));
        let kills = counts.as_deref().and_then(|counts| field(counts, "oom_kill "));
        kills.and_then(|kills| kills.parse().ok()).unwrap_or_default()
    }

    /// The most memory that its processes have occupied, in bytes, if the kernel tells.
    pub(crate) fn highest(&self) -> Option<u64> {
        let highest = VERSIONS.iter().find_map(|version| self.read(version.highest))?;
        highest.trim().parse().ok()
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(file)).ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Refused while a daemon is still in it, which stays within the limit: a later task removes
        // the group.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Where a group may be made, the best first. `own` is `/proc/self/cgroup`, `root` where control
/// groups are mounted.
fn parents(own: &str, root: &Path) -> Vec<PathBuf> {
    if let Some((_, path)) = own.lines().find_map(|line| line.split_once(":memory:/")) {
        let root = root.join("memory");
        // In a container the name may be that of the host, which is not visible.
        return vec![root.join(path), root];
    }
    let path = field(own, "0::/").unwrap_or_default();
    let controls_memory = |directory: &&Path| {
        let controllers = fs::read_to_string(directory.join("cgroup.subtree_control"));
        controllers.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory"))
    };
    let own = root.join(path);
    let above = own.ancestors().take_while(|directory| directory.starts_with(root));
    above.filter(controls_memory).map(Path::to_path_buf).collect()
}

/// Removes the empty groups of processes that have ended without removing them.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(NAME)?.strip_prefix('-'));
        let maker = maker.and_then(|rest| rest.split_once('-')?.0.parse().ok());
        let Some(maker) = maker.and_then(Pid::from_raw) else {
            continue;
        };
        if maker.as_raw_nonzero().get().unsigned_abs() != std::process::id()
            && test_kill_process(maker) == Err(rustix::io::Errno::SRCH)
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_where_memory_is_delegated() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        let scope = root.join("user.slice/app.slice/editor.scope");
        fs::create_dir_all(&scope).expect("directories");
        for (directory, controllers) in
            [("user.slice", "cpu memory pids"), ("user.slice/app.slice", "memory"), ("", "cpu")]
        {
            let file = root.join(directory).join("cgroup.subtree_control");
            fs::write(file, controllers).expect("a file");
        }
        let own = "0::/user.slice/app.slice/editor.scope\n";
        assert_eq!(
            parents(own, root),
            [root.join("user.slice/app.slice"), root.join("user.slice")]
        );
        let own = "9:name=systemd:/\n4:memory:/docker/1a2b\n0::/\n";
        assert_eq!(parents(own, root), [root.join("memory/docker/1a2b"), root.join("memory")]);
        assert_eq!(parents("", root), [] as [PathBuf; 0]);
    }
}
