//! Running a short program for its output, within limits of time and output.
//!
//! For programs that the server runs for its own purposes. Limits: stdin is empty and there is no
//! terminal; only the caller keeps the output, which is overwritten when dropped. A process that
//! hangs in the kernel, or has become another user's, is left behind.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::descriptors::{self, Interest, Poller, Transfer};
use super::files;
use super::kill::{Handle, handles};
use super::signals::{Exit, Signal};
use super::spawn::{Launch, SpawnError, Spawned};
use super::terminate::{PATIENCE, Target, Termination};
use super::tree::{self, COOKIE_VARIABLE, MatchCriteria, Scan, TaskProcesses};
use super::wait::Child;

/// The limits of a run.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// From start to end; when it is over, the process tree is ended.
    pub(crate) time: Duration,
    /// Bytes of output; when they are exceeded, the process tree is ended.
    pub(crate) output: usize,
    /// `None`: processes that outlive it are ended. Otherwise they survive if it ends by itself,
    /// and programs of these names survive even where the tree is ended.
    pub(crate) daemons: Option<Arc<[String]>>,
}

#[derive(Debug)]
pub(crate) struct Captured {
    /// How it ended; `None` if it exceeded its output limit and was ended.
    pub(crate) exit: Option<Exit>,
    /// Its output, up to the limit.
    pub(crate) output: Zeroizing<Vec<u8>>,
}

/// Why a program has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It was ended.
    #[error("it did not end within {} s and was ended", .0.as_secs_f64())]
    Late(Duration),
}

/// Why the output of a program is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error(transparent)]
    Run(#[from] RunError),
    /// It ended by itself, and not with exit code 0.
    #[error("it ended with exit code {}", .0.code())]
    Failed(Exit),
    /// It was ended.
    #[error("it printed more than {0} bytes and was ended")]
    TooMuch(usize),
}

/// Runs a program until it ends or exceeds a limit; the calling thread waits.
///
/// # Errors
/// It cannot be started, or takes too long and is ended.
pub(crate) fn run(launch: Launch, limits: &Limits) -> Result<Captured, RunError> {
    let deadline = Instant::now() + limits.time;
    let mut running = Running::start(launch, limits.daemons.clone().unwrap_or_default())?;
    // Room for all of it from the start: growing would leave copies in memory.
    let mut output = Zeroizing::new(Vec::with_capacity(limits.output + 1));
    let stop = running.gather(&mut output, limits.output, deadline);
    match (&stop, &limits.daemons) {
        (Stop::Ended(_), Some(_)) => running.spawned.child.reap(),
        _ => running.end_all(),
    }
    match stop {
        Stop::Ended(exit) => Ok(Captured { exit: Some(exit), output }),
        Stop::Full => Ok(Captured { exit: None, output }),
        Stop::Late => Err(RunError::Late(limits.time)),
    }
}

/// The whole output of a program that must succeed.
///
/// # Errors
/// It fails, or exceeds a limit.
pub(crate) fn output_of(
    launch: Launch,
    limits: &Limits,
) -> Result<Zeroizing<Vec<u8>>, CaptureError> {
    let captured = run(launch, limits)?;
    match captured.exit {
        Some(Exit::Code(0)) => Ok(captured.output),
        Some(exit) => Err(CaptureError::Failed(exit)),
        None => Err(CaptureError::TooMuch(limits.output)),
    }
}

/// Why no more is read.
enum Stop {
    Ended(Exit),
    Full,
    Late,
}

/// A program that runs for the server's own purposes, with all that it starts.
pub(crate) struct Running {
    pub(crate) spawned: Spawned,
    processes: TaskProcesses,
}

impl Running {
    /// Starts it. The cookie in its environment, by which its processes are found, is unique to
    /// this run. Programs named in `daemons` survive its end.
    ///
    /// # Errors
    /// As [`Launch::spawn`].
    pub(crate) fn start(mut launch: Launch, daemons: Arc<[String]>) -> Result<Running, SpawnError> {
        let cookie = format!("capture/{}", files::random_id());
        launch.environment.retain(|(name, _)| name != COOKIE_VARIABLE);
        let variable = (COOKIE_VARIABLE.into(), cookie.clone().into());
        launch.environment.push(variable);
        let spawned = launch.spawn()?;
        let processes = TaskProcesses::new(MatchCriteria {
            shell: spawned.id,
            cookie,
            outputs: tree::name_of_descriptor(&spawned.output).into_iter().collect(),
            daemons,
        });
        Ok(Running { spawned, processes })
    }

    fn gather(&self, output: &mut Vec<u8>, max_bytes: usize, deadline: Instant) -> Stop {
        let mut is_open = true;
        loop {
            // Checked before reading, so that all that it printed before its end is read below.
            let exit = self.child().peek_exit();
            is_open = is_open && read_into(&self.spawned.output, output);
            if output.len() > max_bytes {
                output.truncate(max_bytes);
                return Stop::Full;
            }
            if let Some(exit) = exit {
                return Stop::Ended(exit);
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Stop::Late;
            }
            let mut poller = Poller::default();
            poller.watch(self.child().ended(), Interest::Read);
            if is_open {
                poller.watch(self.spawned.output.as_fd(), Interest::Read);
            }
            poller.wait(Some(remaining));
        }
    }

    /// Sends SIGKILL until none of its processes is alive.
    pub(crate) fn end_all(&mut self) {
        let Running { spawned, processes } = self;
        let child = &spawned.child;
        Termination::begin(Duration::ZERO, PATIENCE).finish(
            || {
                let scan = Scan::take();
                let living = processes.living(&scan);
                if !scan.is_whole() {
                    // This reaches the members of its process group that cannot be seen.
                    let _ = child.signal_group(Signal::Kill);
                }
                (!living.is_empty() || !child.has_ended()).then(|| handles(&living))
            },
            |processes, limit| {
                if processes.is_empty() {
                    descriptors::wait_for(&child.ended(), Interest::Read, Some(limit));
                } else {
                    Handle::await_ends(processes, limit);
                }
                false
            },
        );
        if child.has_ended() {
            spawned.child.reap();
        }
    }

    /// Waits for its end, at most until the limit.
    pub(crate) fn await_end(&self, limit: Duration) {
        descriptors::wait_for(&self.child().ended(), Interest::Read, Some(limit));
    }

    fn child(&self) -> &Child {
        &self.spawned.child
    }
}

/// Reads what is available into the spare capacity; returns false if no more will come, or no
/// capacity is left.
fn read_into(fd: &OwnedFd, output: &mut Vec<u8>) -> bool {
    loop {
        let length = output.len();
        output.resize(output.capacity(), 0);
        let room = output.get_mut(length..).unwrap_or_default();
        if room.is_empty() {
            return false;
        }
        let read = descriptors::read(fd, room);
        let count = if let Transfer::Bytes(count) = read { count } else { 0 };
        output.truncate(length + count);
        if count == 0 {
            return read == Transfer::WouldBlock;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::path::PathBuf;

    use crate::process::spawn::{StderrTarget, Wiring};

    fn output(
        script: &str,
        time: Duration,
        daemons: Option<Arc<[String]>>,
    ) -> Result<String, CaptureError> {
        let launch = Launch {
            program: PathBuf::from("/bin/sh"),
            args: ["-c", script].map(Into::into).to_vec(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            directory: PathBuf::from("/"),
            wiring: Wiring::Pipe(StderrTarget::Nowhere),
            group: None,
            sandbox: None,
        };
        let limits = Limits { time, output: 100, daemons };
        output_of(launch, &limits).map(|output| String::from_utf8_lossy(&output).into_owned())
    }

    fn run(script: &str, time: Duration) -> Result<String, CaptureError> {
        output(script, time, Some(Arc::new([])))
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn only_stdout_is_captured() {
        assert_eq!(run("echo out; echo err >&2; cat", LONG).unwrap(), "out\n");
    }

    #[test]
    fn a_failure_is_reported_with_its_exit_code() {
        let error = run("echo out; exit 3", LONG).unwrap_err();
        assert_eq!(error.to_string(), "it ended with exit code 3");
    }

    #[test]
    fn a_program_that_prints_too_much_is_ended() {
        let error = run("yes", LONG).unwrap_err();
        assert!(matches!(error, CaptureError::TooMuch(100)), "{error}");
        let most = run("printf %0100d 7", LONG).unwrap();
        assert_eq!(most.len(), 100);
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended_with_its_descendants() {
        let begun = Instant::now();
        // No other process has these arguments. The first leaves the session.
        let own = std::process::id();
        let seconds = ["1", "2", "3"].map(|which| format!("60.{own}{which}"));
        let [left, background, main] = &seconds;
        let script = format!("setsid sleep {left} & sleep {background} & exec sleep {main}");
        let error = run(&script, Duration::from_millis(300)).unwrap_err();
        assert!(matches!(error, CaptureError::Run(RunError::Late(_))), "{error}");
        assert!(begun.elapsed() < LONG);
        for seconds in &seconds {
            let line = format!("sleep\0{seconds}\0").into_bytes();
            let alive = Scan::take()
                .descendants(1)
                .iter()
                .map(|process| format!("/proc/{}/cmdline", process.id.pid))
                .filter_map(|path| std::fs::read(path).ok())
                .any(|found| found == line);
            assert!(!alive, "{seconds}");
        }
    }

    #[test]
    fn a_process_left_behind_with_the_output_is_not_waited_for() {
        let begun = Instant::now();
        assert_eq!(run("sleep 6 & echo out", LONG).unwrap(), "out\n");
        assert!(begun.elapsed() < Duration::from_secs(6));
    }
}
