//! Noticing that another process has changed the files of a directory, without polling them: a
//! descriptor for `poll(2)` (inotify).
//!
//! Limits: Linux; reports that something changed, not what. Changes that another host makes on
//! a network file system are not seen.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::process::descriptors::{self, Transfer};

/// Directories under watch.
#[derive(Debug)]
pub(crate) struct DirectoryWatch {
    events: OwnedFd,
}

impl DirectoryWatch {
    /// Watches for files that are created, written, closed after that, renamed or removed directly
    /// below `directory`, and for the directory's own removal.
    ///
    /// # Errors
    /// When the directory is gone, or the user's watches have run out.
    pub(crate) fn new(directory: &Path) -> io::Result<DirectoryWatch> {
        let watch =
            DirectoryWatch { events: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? };
        watch.add(directory)?;
        Ok(watch)
    }

    /// Watches another directory as well; has no effect on one that is watched already.
    ///
    /// # Errors
    /// When the directory is gone, or the user's watches have run out.
    pub(crate) fn add(&self, directory: &Path) -> io::Result<()> {
        let changes = WatchFlags::CREATE
            | WatchFlags::MODIFY
            // A [`crate::process::files::FileLock`] closes its file after it releases the lock.
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF;
        inotify::add_watch(&self.events, directory, changes)?;
        Ok(())
    }

    /// Discards the changes so far: only later ones make it ready. Call this before reading the
    /// files.
    pub(crate) fn drain(&self) {
        let mut buffer = [0; 4096];
        while let Transfer::Bytes(_) = descriptors::read(&self.events, &mut buffer) {}
    }
}

impl AsFd for DirectoryWatch {
    /// Readable when something has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::descriptors::{Interest, Poller};
    use std::time::Duration;

    fn is_ready(watch: &DirectoryWatch, patience: Duration) -> bool {
        let mut poller = Poller::default();
        let place = poller.watch(watch.as_fd(), Interest::Read);
        poller.wait(Some(patience));
        poller.ready(Some(place))
    }

    #[test]
    fn becomes_ready_with_each_change_and_not_without_one() {
        let directory = tempfile::tempdir().unwrap();
        let watch = DirectoryWatch::new(directory.path()).unwrap();
        assert!(!is_ready(&watch, Duration::ZERO));
        let file = directory.path().join("file");
        for text in ["one", "two"] {
            std::fs::write(&file, text).unwrap();
            assert!(is_ready(&watch, Duration::from_secs(10)));
            watch.drain();
            assert!(!is_ready(&watch, Duration::ZERO));
        }
        let open = std::fs::File::options().append(true).open(&file).unwrap();
        assert!(!is_ready(&watch, Duration::ZERO));
        drop(open);
        assert!(is_ready(&watch, Duration::from_secs(10)), "closed");
        watch.drain();
        std::fs::remove_file(&file).unwrap();
        assert!(is_ready(&watch, Duration::from_secs(10)));
    }

    #[test]
    fn a_directory_that_is_gone_is_an_error() {
        assert!(DirectoryWatch::new(Path::new("/nonexistent/here")).is_err());
    }
}
