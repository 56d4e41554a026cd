//! Waiting until something of a session changes: on the task's own monitor where it is of
//! this process, else on the files of the state directory.
//!
//! Nobody looks again and again: what passes by time alone (a server that was killed, a
//! task that falls silent) is looked at every [`RECHECK`] as long as somebody watches.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::process::descriptors::{Interest, Poller, Waker};
use crate::process::watch_file::DirectoryWatch;
use crate::task::live::{Cancel, Look, Mark};
use crate::task::registry::TaskHandle;

/// How soon a look is taken where no change has been seen.
const RECHECK: Duration = Duration::from_secs(5);
/// The same where changes show nowhere: without a state directory, or when the user's
/// inotify watches have run out.
const BLIND_RECHECK: Duration = Duration::from_secs(1);
/// Output that comes little by little is gathered for so long.
const GATHER: Duration = Duration::from_millis(50);
/// Enough output to be told at once.
const ENOUGH: u64 = 16 * 1024;

/// Waits for changes of a task of this process.
pub struct OwnChanges {
    task: Arc<TaskHandle>,
    seen: Mark,
    told: Instant,
}

impl OwnChanges {
    /// From now on.
    pub fn new(task: Arc<TaskHandle>) -> OwnChanges {
        let seen = task.live.state().mark();
        OwnChanges {
            task,
            seen,
            told: Instant::now(),
        }
    }

    /// Notes how the task is: only later changes count. To be called before a look at it.
    pub fn note(&mut self) {
        self.seen = self.task.live.state().mark();
        self.told = Instant::now();
    }

    /// Waits for a change since the last note, or until the deadline.
    pub fn wait(&self, deadline: Instant, cancel: &Cancel) {
        let limit = deadline.min(Instant::now() + RECHECK);
        let worth_telling = self.told + GATHER;
        self.task.live.wait_for(
            Some(limit),
            cancel,
            |state| {
                let mark = state.mark();
                let much = mark.output.saturating_sub(self.seen.output) >= ENOUGH;
                match mark != self.seen {
                    true if much || Instant::now() >= worth_telling => Look::Found(()),
                    true => Look::WaitUntil(Some(worth_telling)),
                    false => Look::WaitUntil(None),
                }
            },
            Instant::now,
        );
    }
}

/// Waits for changes of files.
pub struct FileChanges {
    watch: Option<DirectoryWatch>,
    woken: Option<OwnedFd>,
    told: Instant,
    gather: Duration,
}

impl FileChanges {
    /// Changes that follow each other within `gather` are told together.
    pub fn new(gather: Option<Duration>) -> FileChanges {
        FileChanges {
            watch: None,
            woken: None,
            told: Instant::now(),
            gather: gather.unwrap_or(GATHER),
        }
    }

    /// Watches these directories from now on: only later changes count. To be called
    /// before a look at them.
    pub fn note<P: AsRef<Path>>(&mut self, directories: &[P]) {
        self.told = Instant::now();
        if let Some(watch) = &self.watch {
            watch.drain();
        }
        for directory in directories {
            let added = match &self.watch {
                Some(watch) => watch.add(directory.as_ref()),
                None => DirectoryWatch::new(directory.as_ref()).map(|watch| {
                    self.watch = Some(watch);
                }),
            };
            if let Err(error) = added {
                // One that has gone meanwhile is no loss.
                tracing::debug!("cannot watch {}: {error}", directory.as_ref().display());
            }
        }
    }

    /// Waits for a change since the last note, or until the deadline. `shows_all`: every
    /// change shows in the directories.
    pub fn wait(&mut self, deadline: Instant, cancel: &Cancel, shows_all: bool) {
        self.be_woken_by(cancel);
        let recheck = match shows_all && self.watch.is_some() && self.woken.is_some() {
            true => RECHECK,
            false => BLIND_RECHECK,
        };
        let limit = deadline.min(Instant::now() + recheck);
        let gathered = self.told + self.gather;
        // Changes that come at once are left standing until it is time to tell of them.
        self.pause(gathered.min(limit));
        if cancel.is_cancelled() || Instant::now() >= limit {
            return;
        }
        let mut poller = Poller::default();
        if let Some(watch) = &self.watch {
            poller.watch(watch.as_fd(), Interest::Read);
        }
        if let Some(woken) = &self.woken {
            poller.watch(woken.as_fd(), Interest::Read);
        }
        poller.wait(Some(limit.saturating_duration_since(Instant::now())));
    }

    /// Waits for the time or the cancellation.
    fn pause(&self, until: Instant) {
        let mut poller = Poller::default();
        let woken = self
            .woken
            .as_ref()
            .map(|woken| poller.watch(woken.as_fd(), Interest::Read));
        let time = until.saturating_duration_since(Instant::now());
        if !time.is_zero() {
            poller.wait(Some(time));
            let _ = poller.ready(woken);
        }
    }

    fn be_woken_by(&mut self, cancel: &Cancel) {
        if self.woken.is_some() {
            return;
        }
        match Waker::new() {
            Ok((waker, woken)) => {
                cancel.wake_by(waker);
                self.woken = Some(woken);
            }
            Err(error) => tracing::debug!("a stream ends late: {error}"),
        }
    }
}
