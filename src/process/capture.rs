//! One short program and what it prints on stdout.
//!
//! For programs that the server itself asks something, within a time and a size. Limits:
//! stdin is empty, stderr goes nowhere, and what the program prints is kept by nobody but
//! the caller: it is overwritten when dropped.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::descriptors::{self, Interest, Poller, Transfer};
use super::files;
use super::kill::Handle;
use super::signals::{Exit, Signal};
use super::spawn::{Launch, SpawnError, Spawned, Wiring};
use super::tree::{self, COOKIE_VARIABLE, Family, Signs, Snapshot};

/// How long a tree is hunted that was sent SIGKILL; what hangs in the kernel is left.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// How soon it is scanned again while it has members.
const RESCAN: Duration = Duration::from_millis(20);

/// What a program may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Its time, after which its tree is ended.
    pub time: Duration,
    /// What it may print.
    pub bytes: usize,
    /// Programs that are meant to outlive it.
    pub daemons: Arc<[String]>,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It was not started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It said that it failed.
    #[error("it ended with exit code {}", .0.code())]
    Failed(Exit),
    /// It was ended.
    #[error("it did not end within {} s and was ended", .0.as_secs_f64())]
    Late(Duration),
    /// It was ended.
    #[error("it printed more than {0} bytes and was ended")]
    TooMuch(usize),
}

/// Runs a program in this directory to its end and gives what it has printed; processes
/// that it leaves behind are left alone. The calling thread waits.
///
/// # Errors
/// When it cannot be started, fails, or passes a limit; then its tree is ended.
pub fn output_of(
    program: &Path,
    arguments: &[String],
    mut environment: Vec<(OsString, OsString)>,
    directory: &Path,
    limits: &Limits,
) -> Result<Zeroizing<Vec<u8>>, CaptureError> {
    let cookie = format!("capture/{}", files::random_id());
    environment.push((COOKIE_VARIABLE.into(), cookie.as_str().into()));
    let launch = Launch {
        program: program.to_path_buf(),
        args: arguments.iter().map(Into::into).collect(),
        environment,
        directory: directory.to_path_buf(),
        wiring: Wiring::StdoutAlone,
        sideband: false,
    };
    let spawned = launch.spawn()?;
    let run = Run {
        family: Family::new(Signs {
            shell: spawned.id,
            cookie,
            output: tree::name_of_descriptor(&spawned.output),
            daemons: Arc::clone(&limits.daemons),
        }),
        spawned,
        output: Zeroizing::new(Vec::with_capacity(limits.bytes + 1)),
        is_open: true,
    };
    run.finish(limits)
}

struct Run {
    spawned: Spawned,
    family: Family,
    /// Never grows beyond what it has room for: a copy would stay in memory.
    output: Zeroizing<Vec<u8>>,
    /// Whether more may come.
    is_open: bool,
}

impl Run {
    fn finish(mut self, limits: &Limits) -> Result<Zeroizing<Vec<u8>>, CaptureError> {
        let deadline = Instant::now() + limits.time;
        loop {
            let mut poller = Poller::default();
            let output = self
                .is_open
                .then(|| poller.watch(self.spawned.output.as_fd(), Interest::Read));
            poller.watch(self.spawned.child.ended(), Interest::Read);
            poller.wait(Some(deadline.saturating_duration_since(Instant::now())));
            let has_output = poller.ready(output);
            // Looked up first: what it wrote before its end is read below.
            let exit = self.spawned.child.peek_exit();
            if has_output || exit.is_some() {
                self.is_open = read_into(&self.spawned.output, &mut self.output);
            }
            if self.output.len() > limits.bytes {
                self.end_tree();
                return Err(CaptureError::TooMuch(limits.bytes));
            }
            match exit {
                Some(Exit::Code(0)) => {
                    self.spawned.child.reap();
                    return Ok(self.output);
                }
                Some(exit) => {
                    self.spawned.child.reap();
                    return Err(CaptureError::Failed(exit));
                }
                None if Instant::now() >= deadline => {
                    self.end_tree();
                    return Err(CaptureError::Late(limits.time));
                }
                None => {}
            }
        }
    }

    /// Kills whoever belongs to the program until nobody is left.
    fn end_tree(&mut self) {
        let deadline = Instant::now() + END_PATIENCE;
        loop {
            let snapshot = Snapshot::take();
            let alive = self.family.living(&snapshot);
            for process in &alive {
                if let Ok(handle) = Handle::open(process.id) {
                    let _ = handle.signal(Signal::Kill);
                }
            }
            let _ = self.spawned.child.signal_group(Signal::Kill);
            let has_ended = self.spawned.child.has_ended();
            if (alive.is_empty() && has_ended) || Instant::now() >= deadline {
                break;
            }
            let mut poller = Poller::default();
            if !has_ended {
                poller.watch(self.spawned.child.ended(), Interest::Read);
            }
            poller.wait(Some(RESCAN));
        }
        if self.spawned.child.has_ended() {
            self.spawned.child.reap();
        }
    }
}

/// Reads what is there into the room that is left; false: no more will come, or there is
/// no room.
fn read_into(fd: &OwnedFd, output: &mut Vec<u8>) -> bool {
    loop {
        let length = output.len();
        output.resize(output.capacity(), 0);
        let room = output.get_mut(length..).unwrap_or_default();
        if room.is_empty() {
            return false;
        }
        let read = descriptors::read(fd, room);
        let count = match read {
            Transfer::Bytes(count) => count,
            Transfer::WouldBlock | Transfer::Closed => 0,
        };
        output.truncate(length + count);
        match read {
            Transfer::Bytes(_) => {}
            Transfer::WouldBlock => return true,
            Transfer::Closed => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, time: Duration) -> Result<String, CaptureError> {
        let limits = Limits {
            time,
            bytes: 100,
            daemons: Arc::new([]),
        };
        let arguments = ["-c".to_owned(), script.to_owned()];
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let root = Path::new("/");
        output_of(Path::new("/bin/sh"), &arguments, environment, root, &limits)
            .map(|output| String::from_utf8_lossy(&output).into_owned())
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn stdout_alone_is_taken() {
        assert_eq!(run("echo out; echo err >&2; cat", LONG).unwrap(), "out\n");
    }

    #[test]
    fn a_failure_is_told_by_its_exit_code() {
        let error = run("echo out; exit 3", LONG).unwrap_err();
        assert_eq!(error.to_string(), "it ended with exit code 3");
    }

    #[test]
    fn who_prints_too_much_is_ended() {
        let error = run("yes", LONG).unwrap_err();
        assert!(matches!(error, CaptureError::TooMuch(100)), "{error}");
        let most = run("printf %0100d 7", LONG).unwrap();
        assert_eq!(most.len(), 100);
    }

    #[test]
    fn who_takes_too_long_is_ended_with_all_that_it_started() {
        let begun = Instant::now();
        // No other process has these arguments. The first leaves the session.
        let own = std::process::id();
        let seconds = ["1", "2", "3"].map(|which| format!("60.{own}{which}"));
        let [left, background, main] = &seconds;
        let script = format!("setsid sleep {left} & sleep {background} & exec sleep {main}");
        let error = run(&script, Duration::from_millis(300)).unwrap_err();
        assert!(matches!(error, CaptureError::Late(_)), "{error}");
        assert!(begun.elapsed() < LONG);
        for seconds in &seconds {
            let line = format!("sleep\0{seconds}\0").into_bytes();
            let alive = Snapshot::take()
                .descendants(1)
                .iter()
                .map(|process| format!("/proc/{}/cmdline", process.id.pid))
                .filter_map(|path| std::fs::read(path).ok())
                .any(|found| found == line);
            assert!(!alive, "{seconds}");
        }
    }

    #[test]
    fn who_leaves_a_process_with_the_output_behind_is_not_waited_for() {
        let begun = Instant::now();
        assert_eq!(run("sleep 6 & echo out", LONG).unwrap(), "out\n");
        assert!(begun.elapsed() < Duration::from_secs(6));
    }
}
