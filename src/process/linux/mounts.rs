//! File systems that another process or another machine provides, on which any call may wait.
//!
//! Never touches the file system itself, which may be what hangs: paths and descriptors are held
//! against `/proc/<pid>/mountinfo` (proc_pid_mountinfo(5)). Limits: a path that leads through a
//! symbolic link to another file system is taken as written.

use std::path::{Path, PathBuf};

use crate::process::processes;
use crate::text::foreign::{Phrase, ShowPath};

/// Types of file systems with a provider. `fuse.*` and `fuseblk` are of programs on this machine.
const PROVIDED: &[&str] = &[
    "9p",
    "afs",
    "autofs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "gfs2",
    "glusterfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
    "smbfs",
    "virtiofs",
];

/// The file system of a path that a thread uses, if it has a provider: `fuse.sshfs at /mnt`.
/// `thread` is the thread's directory in `/proc`.
pub(super) fn provider_of_path(thread: &Path, path: &str) -> Option<Phrase> {
    let path = match Path::new(path) {
        path if path.is_absolute() => path.to_owned(),
        path => std::fs::read_link(thread.join("cwd")).ok()?.join(path),
    };
    let path = normal(&path);
    let text = processes::read_proc_text(thread.join("mountinfo")).ok()?;
    let mounts = text.lines().filter_map(Mount::parse);
    // A later mount hides an earlier one at the same place.
    let found = mounts
        .filter(|mount| path.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.components().count())?;
    found.provider()
}

/// The same of the file behind a descriptor.
pub(super) fn provider_of_descriptor(thread: &Path, descriptor: i32) -> Option<Phrase> {
    let info = processes::read_proc_text(thread.join(format!("fdinfo/{descriptor}"))).ok()?;
    let id = processes::field(&info, "mnt_id:")?;
    let text = processes::read_proc_text(thread.join("mountinfo")).ok()?;
    let found = text.lines().filter_map(Mount::parse).find(|mount| mount.id == id)?;
    found.provider()
}

/// One line of `mountinfo`.
struct Mount<'a> {
    id: &'a str,
    at: PathBuf,
    kind: &'a str,
}

impl<'a> Mount<'a> {
    /// `36 35 98:0 /root /at rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (place, file_system) = line.split_once(" - ")?;
        let mut words = place.split(' ');
        let id = words.next()?;
        let at = words.nth(3)?;
        Some(Mount { id, at: PathBuf::from(unescape(at)), kind: file_system.split(' ').next()? })
    }

    fn provider(&self) -> Option<Phrase> {
        let is_provided = PROVIDED.contains(&self.kind) || self.kind.starts_with("fuse");
        is_provided.then(|| Phrase::new(format_args!("{} at {}", self.kind, self.at.shown())))
    }
}

/// A path in which a blank, a tab, a line feed and a backslash are written in octal: `\040`.
fn unescape(path: &str) -> String {
    let mut plain = path.to_owned();
    for (written, meant) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        plain = plain.replace(written, meant);
    }
    plain
}

/// A path without `.` and `..`, by its text alone.
fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_named_by_type_and_place() {
        let line = "36 35 0:42 / /mnt/my\\040share rw,nosuid - fuse.sshfs host:/x rw";
        let mount = Mount::parse(line).expect("a line");
        assert_eq!((mount.id, mount.at.to_str()), ("36", Some("/mnt/my share")));
        let provider = mount.provider();
        assert_eq!(provider, Some(r#"fuse.sshfs at "/mnt/my share""#.into()));
        let line = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw";
        assert_eq!(Mount::parse(line).and_then(|mount| mount.provider()), None);
        assert!(Mount::parse("36 35 0:42").is_none());
    }

    #[test]
    fn paths_are_made_normal_by_their_text() {
        assert_eq!(normal(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(normal(Path::new("/../a")), Path::new("/a"));
    }

    #[test]
    fn files_of_this_machine_have_no_provider() {
        let own = Path::new("/proc/thread-self");
        assert_eq!(provider_of_path(own, "/proc/self/status"), None);
        assert_eq!(provider_of_descriptor(own, -1), None);
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in ".{0,120}") {
            let _ = Mount::parse(&line).map(|mount| mount.provider());
        }
    }
}
