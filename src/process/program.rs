//! A program to start, with what it gets from this process.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;

use super::birth::Birth;

/// A program to start.
pub(crate) struct Program<'a> {
    pub(crate) path: &'a Path,
    /// Its `$0` and its arguments.
    pub(crate) arguments: Vec<&'a OsStr>,
    /// All variables that it gets.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// Where it starts.
    pub(crate) directory: &'a Path,
    /// Descriptors of this process and the numbers that they get in the child; all others are
    /// close-on-exec. None of the former may have a number of the latter, and numbers above 2 must
    /// be open in this process: otherwise the cause of a failed start may be lost.
    pub(crate) descriptors: &'a [(BorrowedFd<'a>, RawFd)],
    pub(crate) birth: Birth,
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};
    use std::os::fd::AsFd;

    use super::*;
    use crate::process::birthmark::Birthmark;
    use crate::process::descriptors;
    use crate::process::start::start;

    /// Runs a script with `sh`; returns what it prints.
    fn run(path: &str, script: &str, directory: &str) -> io::Result<String> {
        run_with(&[], path, script, directory)
    }

    /// The same, with its output at these numbers as well.
    fn run_with(
        numbers: &[RawFd],
        path: &str,
        script: &str,
        directory: &str,
    ) -> io::Result<String> {
        let (ours, theirs) = descriptors::pipe()?;
        // Whatever else this process has open, no number of ours is among the child's.
        let theirs = rustix::io::fcntl_dupfd_cloexec(theirs, 10)?;
        let null = rustix::io::fcntl_dupfd_cloexec(descriptors::open_null()?, 10)?;
        let mut descriptors = vec![(null.as_fd(), 0), (theirs.as_fd(), 1)];
        descriptors.extend(numbers.iter().map(|number| (theirs.as_fd(), *number)));
        let program = Program {
            path: Path::new(path),
            arguments: ["name", "-c", script, "argument"].map(OsStr::new).to_vec(),
            environment: &[("A".into(), "a b".into()), ("B".into(), "".into())],
            directory: Path::new(directory),
            descriptors: &descriptors,
            birth: Birth { birthmark: Some(Birthmark::for_cookie("a/1")), ..Birth::default() },
        };
        let pid = start(&program)?;
        drop(theirs);
        let mut text = String::new();
        std::fs::File::from(ours).read_to_string(&mut text)?;
        let pid = rustix::process::Pid::from_raw(pid);
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty())?;
        Ok(text)
    }

    #[test]
    fn arguments_environment_and_directory_arrive() {
        let text = run("/bin/sh", "echo $0 \"$A\" ${B-unset}.; pwd", "/usr");
        assert_eq!(text.ok().as_deref(), Some("argument a b .\n/usr\n"));
    }

    #[test]
    fn the_child_holds_the_given_descriptors_only() {
        let text = run_with(&[7], "/bin/sh", "echo seven >&7; echo eight >&8", "/");
        assert_eq!(text.ok().as_deref(), Some("seven\n"));
    }

    #[test]
    fn the_child_leads_a_session() {
        let script =
            "read -r pid _ _ _ _ session _ < /proc/$$/stat; test $pid = $session && echo leads";
        assert_eq!(run("/bin/sh", script, "/").ok().as_deref(), Some("leads\n"));
    }

    #[test]
    fn the_child_blocks_and_ignores_no_signal() {
        // This process ignores SIGPIPE, as every Rust program does. The numbers from 32
        // are real-time signals, some of which the C library keeps for itself. The shell
        // gives way to grep, since it blocks signals for a moment while it starts one.
        let text = run("/bin/sh", "exec grep -E '^Sig(Blk|Ign)' /proc/self/status", "/");
        let text = text.unwrap_or_default();
        let masks = text.lines().filter_map(|line| line.split_once(':'));
        let masks: Vec<_> = masks
            .map(|(_, mask)| u64::from_str_radix(mask.trim(), 16).map(|mask| mask & 0x7fff_ffff))
            .collect();
        assert_eq!(masks, [Ok(0), Ok(0)]);
    }

    #[test]
    fn a_failed_start_reports_its_cause() {
        let error =
            |path, directory| run(path, "", directory).err().and_then(|error| error.raw_os_error());
        assert_eq!(error("/no/such/program", "/"), Some(libc::ENOENT));
        assert_eq!(error("/etc/passwd", "/"), Some(libc::EACCES));
        assert_eq!(error("/bin/sh", "/no/such/directory"), Some(libc::ENOENT));
    }
}
