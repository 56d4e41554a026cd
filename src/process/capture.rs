//! Running a program for what it prints, within limits of time and output.
//!
//! The program and all that it has started are gone when the run is over, however it
//! ends. Limits: no input, no terminal; stdout and stderr are one stream. What hangs in
//! the kernel, or has become another user's, is left behind.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::descriptors::{self, Interest, Poller, Transfer};
use super::files;
use super::kill::Handle;
use super::orphans;
use super::signals::{Exit, Signal};
use super::spawn::{Launch, SpawnError, Spawned};
use super::tree::{self, COOKIE_VARIABLE, Family, Signs, Snapshot};
use super::wait::Child;

/// Read at once.
const CHUNK: usize = 16 * 1024;
/// How long the end of processes is waited for after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much a program may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From its start to its end.
    pub time: Duration,
    /// Bytes of output; a program that prints more is ended.
    pub output: usize,
}

/// What a program printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// How it ended; `None` when it was ended at the limit of its output.
    pub exit: Option<Exit>,
    /// Its output, up to the limit.
    pub output: Vec<u8>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It was not started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It was ended.
    #[error("not ended within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
}

/// Runs a program to its end, or to a limit. The cookie in its environment, by which its
/// processes are found, is one of this run's own.
///
/// # Errors
/// When it cannot be started or takes too long. No process of it is left then either.
pub fn run(mut launch: Launch, limits: Limits) -> Result<Captured, CaptureError> {
    let deadline = Instant::now() + limits.time;
    let cookie = format!("{}/capture", files::random_id());
    launch
        .environment
        .retain(|(name, _)| name != COOKIE_VARIABLE);
    launch
        .environment
        .push((COOKIE_VARIABLE.into(), cookie.clone().into()));
    let mut running = Running::start(launch, cookie)?;
    let mut output = Vec::new();
    let stop = running.gather(&mut output, limits.output, deadline);
    running.end_all();
    match stop {
        Stop::Ended(exit) => Ok(Captured {
            exit: Some(exit),
            output,
        }),
        Stop::Full => Ok(Captured { exit: None, output }),
        Stop::TimedOut => Err(CaptureError::TimedOut(limits.time)),
    }
}

/// Why no more is read.
enum Stop {
    Ended(Exit),
    Full,
    TimedOut,
}

struct Running {
    spawned: Spawned,
    family: Family,
}

impl Running {
    fn start(launch: Launch, cookie: String) -> Result<Running, SpawnError> {
        let spawned = launch.spawn()?;
        let family = Family::new(Signs {
            shell: spawned.id,
            cookie,
            output: tree::name_of_descriptor(&spawned.output),
            daemons: Arc::from([]),
        });
        Ok(Running { spawned, family })
    }

    fn gather(&self, output: &mut Vec<u8>, most: usize, deadline: Instant) -> Stop {
        let mut is_open = true;
        loop {
            // Looked at before reading: what it printed before its end is read below.
            let exit = self.child().peek_exit();
            while is_open {
                match self.read(output, most) {
                    Transfer::Bytes(_) if output.len() == most => return Stop::Full,
                    Transfer::Bytes(_) => {}
                    Transfer::WouldBlock => break,
                    Transfer::Closed => is_open = false,
                }
            }
            if let Some(exit) = exit {
                return Stop::Ended(exit);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Stop::TimedOut;
            }
            let mut poller = Poller::default();
            poller.watch(self.child().ended(), Interest::Read);
            if is_open {
                poller.watch(self.spawned.output.as_fd(), Interest::Read);
            }
            poller.wait(Some(left));
        }
    }

    fn read(&self, output: &mut Vec<u8>, most: usize) -> Transfer {
        let mut buffer = [0; CHUNK];
        let read = descriptors::read(&self.spawned.output, &mut buffer);
        if let Transfer::Bytes(count) = read {
            let count = count.min(most - output.len());
            output.extend_from_slice(buffer.get(..count).unwrap_or_default());
        }
        read
    }

    /// Sends SIGKILL until nobody of the family lives.
    fn end_all(&mut self) {
        let last = Instant::now() + PATIENCE;
        loop {
            let snapshot = Snapshot::take();
            let living = self.family.living(&snapshot);
            if !snapshot.is_whole() {
                // Those of its process group are reached without being seen.
                let _ = self.child().signal_group(Signal::Kill);
            }
            let left = last.saturating_duration_since(Instant::now());
            if (living.is_empty() && self.child().has_ended()) || left.is_zero() {
                break;
            }
            let mut handles: Vec<Handle> = living
                .iter()
                .filter_map(|process| Handle::open(process.id).ok())
                .collect();
            for process in &handles {
                let _ = process.signal(Signal::Kill);
            }
            if handles.is_empty() {
                let mut poller = Poller::default();
                poller.watch(self.child().ended(), Interest::Read);
                poller.wait(Some(left));
            } else {
                orphans::await_ends(&mut handles, left);
            }
        }
        if self.child().has_ended() {
            self.spawned.child.reap();
        }
    }

    fn child(&self) -> &Child {
        &self.spawned.child
    }
}
