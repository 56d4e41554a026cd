//! Threads that wait a while for more work when theirs is done, since to start one takes longer
//! than much of the work. Their names say what they do.

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

/// How long a thread waits for more work. Its stack is kept meanwhile.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// The name of a thread that waits.
const IDLE: &str = "idle";

/// Threads of one kind.
pub(crate) struct Threads {
    stack_size: usize,
    /// Without a buffer: what is sent has been taken by a thread that waits.
    hand_over: Sender<Work>,
    take: Receiver<Work>,
}

struct Work {
    name: String,
    run: Box<dyn FnOnce() + Send>,
}

impl Threads {
    /// None yet; each has a stack of this many bytes.
    pub(crate) fn new(stack_size: usize) -> Threads {
        let (hand_over, take) = bounded(0);
        Threads { stack_size, hand_over, take }
    }

    /// Runs this on a thread that waits or on a new one. The first 15 bytes of the name count.
    ///
    /// # Errors
    /// A new thread is needed and cannot be started.
    pub(crate) fn run(&self, name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let work = Work { name, run: Box::new(run) };
        let Err(refused) = self.hand_over.try_send(work) else {
            return Ok(());
        };
        let (first, take) = (refused.into_inner(), self.take.clone());
        let work = move || {
            let mut next = Some(first);
            while let Some(Work { name, run }) = next {
                set_name(&name);
                run();
                set_name(IDLE);
                next = take.recv_timeout(IDLE_LIMIT).ok();
            }
        };
        let builder = thread::Builder::new().name(IDLE.to_owned()).stack_size(self.stack_size);
        builder.spawn(work).map(drop)
    }
}

#[cfg(target_os = "linux")]
fn set_name(name: &str) {
    let name: String = name.chars().filter(|c| *c != '\0').collect();
    if let Ok(name) = std::ffi::CString::new(name) {
        // Without a name it runs as well.
        let _ = rustix::thread::set_name(&name);
    }
}

#[cfg(not(target_os = "linux"))]
fn set_name(_name: &str) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_takes_the_next_work_and_two_works_run_at_once() {
        let threads = Threads::new(64 * 1024);
        let (report, reported) = bounded(2);
        let (go, wait) = bounded::<()>(0);
        for _ in 0..2 {
            let (report, wait) = (report.clone(), wait.clone());
            let work = move || {
                let _ = report.send(thread::current().id());
                let _ = wait.recv();
            };
            threads.run("work".to_owned(), work).unwrap();
        }
        let first = [reported.recv().unwrap(), reported.recv().unwrap()];
        assert_ne!(first[0], first[1]);
        drop(go);
        // One of them waits soon.
        let next = || {
            let report = report.clone();
            let work = move || {
                let _ = report.send(thread::current().id());
            };
            threads.run("work".to_owned(), work).unwrap();
            reported.recv().unwrap()
        };
        assert!((0..1000).any(|_| first.contains(&next())));
    }
}
