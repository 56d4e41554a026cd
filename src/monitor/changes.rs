//! Waits until a session changes: on the task's monitor if this process runs it, otherwise
//! on the files in the state directory.
//!
//! Some changes touch neither (a server is killed, a task falls silent): a check every [`RECHECK`]
//! finds them while a client watches.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::cancel::Cancel;
use crate::process::descriptors::{Interest, Poller, Waker};
use crate::process::directory_watch::DirectoryWatch;
use crate::task::live::{ChangeStamp, WaitStep};
use crate::task::registry::TaskHandle;
use crate::text::foreign::ShowPath;

/// How often the state is checked if no change is reported.
const RECHECK: Duration = Duration::from_secs(5);
/// How often the state is checked if changes cannot be watched: without a state directory, or when
/// the user has no inotify watches left.
const BLIND_RECHECK: Duration = Duration::from_secs(1);
/// How long small pieces of output are gathered.
pub(super) const GATHER: Duration = Duration::from_millis(50);
/// Enough output to be sent at once, in bytes.
const ENOUGH: u64 = 16 * 1024;

/// Waits for changes of a task of this process.
pub(crate) struct OwnChanges {
    task: Arc<TaskHandle>,
    seen: ChangeStamp,
    noted: Instant,
}

impl OwnChanges {
    pub(crate) fn new(task: Arc<TaskHandle>) -> OwnChanges {
        let seen = task.live.state().change_stamp();
        OwnChanges { task, seen, noted: Instant::now() }
    }

    /// Remembers the current state, so that only later changes count. Call it before reading the
    /// state.
    pub(crate) fn note(&mut self) {
        self.seen = self.task.live.state().change_stamp();
        self.noted = Instant::now();
    }

    /// Waits for a change since [`OwnChanges::note`], or until the deadline.
    pub(crate) fn wait(&self, deadline: Instant, cancel: &Cancel) {
        let limit = deadline.min(Instant::now() + RECHECK);
        let worth_reporting = self.noted + GATHER;
        self.task.live.wait_for(
            Some(limit),
            cancel,
            |state| {
                let mark = state.change_stamp();
                let much = mark.output.saturating_sub(self.seen.output) >= ENOUGH;
                if mark == self.seen {
                    WaitStep::WaitUntil(None)
                } else if much || Instant::now() >= worth_reporting {
                    WaitStep::Found(())
                } else {
                    WaitStep::WaitUntil(Some(worth_reporting))
                }
            },
            Instant::now,
        );
    }
}

/// Waits for changes of files.
pub(crate) struct FileChanges {
    watch: Option<DirectoryWatch>,
    woken: Option<OwnedFd>,
    noted: Instant,
    gather: Duration,
}

impl FileChanges {
    /// Changes within `gather` are reported together.
    pub(crate) fn new(gather: Duration) -> FileChanges {
        FileChanges { watch: None, woken: None, noted: Instant::now(), gather }
    }

    /// Watches these directories from now on, so that only later changes count. Call it
    /// before reading them.
    pub(crate) fn note<P: AsRef<Path>>(&mut self, directories: &[P]) {
        self.noted = Instant::now();
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
                // It may have been removed.
                tracing::debug!("cannot watch {}: {error}", directory.as_ref().shown());
            }
        }
    }

    /// Waits for a change since [`FileChanges::note`], until one of `others` is readable, or until
    /// the deadline. `shows_all` says that every change appears in the directories.
    pub(crate) fn wait(
        &mut self,
        deadline: Instant,
        cancel: &Cancel,
        shows_all: bool,
        others: &[BorrowedFd],
    ) {
        self.wake_on(cancel);
        let sees_all = shows_all && self.watch.is_some() && self.woken.is_some();
        let recheck = if sees_all { RECHECK } else { BLIND_RECHECK };
        let limit = deadline.min(Instant::now() + recheck);
        let gathered = self.noted + self.gather;
        // Further changes are not read until it is time to report them.
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
        for other in others {
            poller.watch(*other, Interest::Read);
        }
        poller.wait(Some(limit.saturating_duration_since(Instant::now())));
    }

    /// Waits until the given time or the cancellation.
    fn pause(&self, until: Instant) {
        let mut poller = Poller::default();
        if let Some(woken) = &self.woken {
            poller.watch(woken.as_fd(), Interest::Read);
        }
        let time = until.saturating_duration_since(Instant::now());
        if !time.is_zero() {
            poller.wait(Some(time));
        }
    }

    fn wake_on(&mut self, cancel: &Cancel) {
        if self.woken.is_some() {
            return;
        }
        match Waker::new() {
            Ok((waker, woken)) => {
                cancel.set_waker(waker);
                self.woken = Some(woken);
            }
            Err(error) => {
                tracing::debug!("cannot create a waker, streams end at the next check: {error}")
            }
        }
    }
}
