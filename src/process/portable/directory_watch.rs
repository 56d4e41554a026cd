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
pub(crate) struct DirectoryWatch {
    ticks: OwnedFd,
    /// Closed for the thread to end.
    stop: Option<OwnedFd>,
    ticker: Option<JoinHandle<()>>,
}

impl DirectoryWatch {
    /// Watches a directory.
    ///
    /// # Errors
    /// When the directory is gone, or no descriptor or thread is available.
    pub(crate) fn new(directory: &Path) -> io::Result<DirectoryWatch> {
        let (ticks, writer) = pipe_without_waiting()?;
        let (stopped, stop) = pipe_without_waiting()?;
        let ticker = std::thread::Builder::new()
            .name("ticker".to_owned())
            .spawn(move || write_ticks(&writer, &stopped))?;
        let watch = DirectoryWatch { ticks, stop: Some(stop), ticker: Some(ticker) };
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

    /// Discards past ticks: only a later one makes it readable. Call this before checking the
    /// files.
    pub(crate) fn drain(&self) {
        drain_wakes(&self.ticks);
    }
}

impl Drop for DirectoryWatch {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

impl AsFd for DirectoryWatch {
    /// Readable when something may have changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ticks.as_fd()
    }
}

fn write_ticks(writer: &OwnedFd, stopped: &OwnedFd) {
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
