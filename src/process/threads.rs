//! Threads that are kept for the next job: to start one takes longer than a short job.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::Builder;

use parking_lot::Mutex;

use crate::base::sync::{Giver, handover};

/// How many threads wait for a job at most. Each keeps the stack that its jobs have touched, about
/// 50 KiB.
const MAX_IDLE: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs, each on a thread that runs no other meanwhile. Once this is dropped, idle threads end
/// at once and busy ones with their job; they are not joined.
pub(crate) struct KeptThreads {
    /// The name of idle threads, and the first part of the name of those that run a job.
    name: &'static str,
    stack_size: usize,
    idle: Arc<Mutex<Idle>>,
}

/// The threads without a job, the last one to become idle at the end.
#[derive(Default)]
struct Idle {
    threads: Vec<Giver<Job>>,
    /// No thread may become idle any more.
    is_closed: bool,
}

impl fmt::Debug for KeptThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptThreads").field("name", &self.name).finish_non_exhaustive()
    }
}

impl KeptThreads {
    pub(crate) fn new(name: &'static str, stack_size: usize) -> KeptThreads {
        KeptThreads { name, stack_size, idle: Arc::default() }
    }

    /// Runs a job on an idle thread, or else on a new one. The thread is called NAME-JOB
    /// meanwhile. A job that panics ends its thread.
    ///
    /// # Errors
    /// No thread is idle and none can be started: the job is dropped.
    pub(crate) fn run(
        &self,
        job_name: &str,
        job: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let (name, job_name) = (self.name, format!("{}-{job_name}", self.name));
        let job: Job = Box::new(move || {
            name_thread(&job_name);
            job();
            name_thread(name);
        });
        let idle = self.idle.lock().threads.pop();
        if let Some(thread) = idle {
            thread.give(job);
            return Ok(());
        }
        let idle = Arc::clone(&self.idle);
        let thread = Builder::new().name(self.name.to_owned()).stack_size(self.stack_size);
        thread.spawn(move || run_jobs(&idle, job)).map(drop)
    }
}

impl Drop for KeptThreads {
    fn drop(&mut self) {
        let mut idle = self.idle.lock();
        idle.is_closed = true;
        // Each thread waits for its giver, which ends the wait when it is dropped.
        idle.threads.clear();
    }
}

/// Runs a first job and all those that follow, until enough other threads are idle.
fn run_jobs(idle: &Mutex<Idle>, first: Job) {
    let mut next = Some(first);
    while let Some(job) = next {
        job();
        let (giver, taker) = handover();
        {
            let mut idle = idle.lock();
            if idle.is_closed || idle.threads.len() >= MAX_IDLE {
                return;
            }
            idle.threads.push(giver);
        }
        next = taker.take();
    }
}

/// Names the calling thread, which std cannot do.
fn name_thread(name: &str) {
    // A thread without the name works as well.
    let Ok(name) = CString::new(name) else { return };
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(&name);
    #[cfg(target_os = "macos")]
    // SAFETY: the text ends with NUL, and is copied.
    unsafe {
        libc::pthread_setname_np(name.as_ptr())
    };
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    drop(name);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    use super::*;

    fn threads() -> KeptThreads {
        KeptThreads::new("kept", 128 * 1024)
    }

    /// Runs one job and returns its thread, once that waits for the next job.
    fn run_one(threads: &KeptThreads) -> ThreadId {
        let before = threads.idle.lock().threads.len().saturating_sub(1);
        let (done, end) = channel();
        threads.run("job", move || done.send(thread::current().id()).expect("sent")).expect("run");
        let id = end.recv().expect("the job has run");
        while threads.idle.lock().threads.len() <= before {
            thread::yield_now();
        }
        id
    }

    #[test]
    fn a_thread_is_kept_for_the_next_job() {
        let threads = threads();
        let first = run_one(&threads);
        for _ in 0..100 {
            assert_eq!(run_one(&threads), first);
        }
    }

    /// Runs jobs that end together, on a thread each.
    fn run_together(threads: &KeptThreads, jobs: usize) -> Vec<ThreadId> {
        let (started, starts) = channel();
        let gates: Vec<Sender<()>> = (0..jobs)
            .map(|_| {
                let (gate, opened) = channel();
                let started = started.clone();
                let job = move || {
                    started.send(thread::current().id()).expect("sent");
                    opened.recv().expect("opened");
                };
                threads.run("job", job).expect("run");
                gate
            })
            .collect();
        let ids = starts.iter().take(jobs).collect();
        for gate in gates {
            gate.send(()).expect("the job waits");
        }
        ids
    }

    #[test]
    fn each_of_many_jobs_has_a_thread_and_few_of_them_are_kept() {
        let threads = threads();
        let mut ids = run_together(&threads, 3 * MAX_IDLE);
        ids.sort_unstable_by_key(|id| format!("{id:?}"));
        ids.dedup();
        assert_eq!(ids.len(), 3 * MAX_IDLE);
        while Arc::strong_count(&threads.idle) > 1 + MAX_IDLE {
            thread::yield_now();
        }
        assert_eq!(threads.idle.lock().threads.len(), MAX_IDLE);
    }

    /// Reports the end of the thread that has it.
    struct AtEnd(Sender<()>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    thread_local! {
        static AT_END: Cell<Option<AtEnd>> = const { Cell::new(None) };
    }

    #[test]
    fn idle_and_busy_threads_end_once_no_more_jobs_can_come() {
        let (ended, ends) = channel();
        let watch = move || AT_END.set(Some(AtEnd(ended.clone())));
        let pool = threads();
        let (gate, opened) = channel::<()>();
        let busy = watch.clone();
        pool.run("busy", move || {
            busy();
            let _ = opened.recv();
        })
        .expect("run");
        pool.run("idle", watch).expect("run");
        drop(pool);
        ends.recv().expect("the idle one ends");
        drop(gate);
        ends.recv().expect("the busy one ends");
    }

    #[test]
    fn a_job_that_panics_takes_no_other_with_it() {
        let threads = threads();
        let kept = run_one(&threads);
        threads.run("panic", || panic!("a test")).expect("run");
        assert_ne!(run_one(&threads), kept);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_has_the_name_of_its_job() {
        let threads = threads();
        let name = || std::fs::read_to_string("/proc/thread-self/comm").expect("its name");
        let (done, end) = channel();
        threads.run("first", move || done.send(name()).expect("sent")).expect("run");
        assert_eq!(end.recv().expect("a name").trim_end(), "kept-first");
    }
}
