//! Noticing that another process has changed the files of a directory, where the system does
//! not report it: a descriptor for `poll(2)` that becomes readable at regular intervals, so
//! that the caller checks the files itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::process::close_on_exec::pipe_without_waiting;
use crate::process::descriptors::{self, Interest, Poller, drain_wakes};

/// How often the caller is to check.
const PAUSE: Duration = Duration::from_millis(250);

/// Directories in which something may have changed.
#[derive(Debug)]
pub struct DirectoryWatch {
    times: OwnedFd,
    /// Closed for the thread to end.
    stop: Option<OwnedFd>,
    clock: Option<JoinHandle<()>>,
}

impl DirectoryWatch {
    /// Watches a directory.
    ///
    /// # Errors
    /// When the directory is gone, or there is no descriptor or thread to be had.
    pub(crate) fn new(directory: &Path) -> io::Result<DirectoryWatch> {
        let (times, writer) = pipe_without_waiting()?;
        let (stopped, stop) = pipe_without_waiting()?;
        let clock = std::thread::Builder::new()
            .name("look-again".to_owned())
            .spawn(move || mark_times(&writer, &stopped))?;
        let watch = DirectoryWatch { times, stop: Some(stop), clock: Some(clock) };
        watch.add(directory)?;
        Ok(watch)
    }

    /// Watches another directory as well.
    ///
    /// # Errors
    /// When the directory is gone.
    pub(crate) fn add(&self, directory: &Path) -> io::Result<()> {
        std::fs::read_dir(directory).map(drop)
    }

    /// From now on only a later time makes it ready. To be called before looking at the
    /// files.
    pub(crate) fn drain(&self) {
        drain_wakes(&self.times);
    }
}

impl Drop for DirectoryWatch {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(clock) = self.clock.take() {
            let _ = clock.join();
        }
    }
}

impl AsFd for DirectoryWatch {
    /// Readable when something may have changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.times.as_fd()
    }
}

fn mark_times(writer: &OwnedFd, stopped: &OwnedFd) {
    loop {
        let mut poller = Poller::default();
        let stop = poller.watch(stopped.as_fd(), Interest::Read);
        poller.wait(Some(PAUSE));
        if poller.ready(Some(stop)) {
            return;
        }
        // A full pipe has the same effect.
        descriptors::write(writer, &[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn becomes_ready_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let watch = DirectoryWatch::new(directory.path()).unwrap();
        for _ in 0..2 {
            let mut poller = Poller::default();
            let place = poller.watch(watch.as_fd(), Interest::Read);
            poller.wait(Some(Duration::from_secs(10)));
            assert!(poller.ready(Some(place)));
            watch.drain();
        }
    }

    #[test]
    fn a_directory_that_is_gone_is_an_error() {
        assert!(DirectoryWatch::new(Path::new("/nonexistent/here")).is_err());
    }
}
