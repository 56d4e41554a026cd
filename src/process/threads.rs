//! Threads that are kept for the next job, so that it need not wait for one to start; and how long
//! processors have run the calling one.

use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use super::orphans;
use crate::base::sync::{Giver, handover};

/// The most threads that wait for a job. Each keeps the stack that its jobs have touched, about
/// 50 KiB for calls of tools, and the allocator's cache.
const MAX_IDLE: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// For how long processors have run the calling thread. A wait, for a lock or for a processor that
/// others use, does not count.
pub(crate) fn processor_time() -> Duration {
    // No clock of the processor shows a negative time.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

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

impl KeptThreads {
    pub(crate) fn new(name: &'static str, stack_size: usize) -> KeptThreads {
        KeptThreads { name, stack_size, idle: Arc::default() }
    }

    /// Runs a job on an idle thread, or else on a new one. The system calls the
    /// thread NAME-JOB meanwhile; Rust's message of a panic has the NAME alone. A job that panics
    /// ends its thread.
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
        // A child that could not be ended must pass to the main thread, which reaps it.
        if orphans::thread_has_children() {
            return;
        }
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
    use std::collections::HashSet;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn threads() -> KeptThreads {
        KeptThreads::new("kept", 128 * 1024)
    }

    fn receive<T>(receiver: &Receiver<T>) -> T {
        receiver.recv_timeout(LIMIT).expect("it comes")
    }

    fn await_that(what: &str, is_so: impl Fn() -> bool) {
        let limit = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < limit, "not so: {what}");
            thread::yield_now();
        }
    }

    fn await_idle(threads: &KeptThreads, count: usize) {
        await_that("the number of idle threads", || threads.idle.lock().threads.len() == count);
    }

    /// Runs one job; what it returns.
    fn run<T: Send + 'static>(
        threads: &KeptThreads,
        name: &str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, end) = channel();
        threads.run(name, move || done.send(job()).expect("sent")).expect("a thread");
        receive(&end)
    }

    fn thread_id() -> ThreadId {
        thread::current().id()
    }

    #[test]
    fn a_wait_is_no_processor_time() {
        const WORK: Duration = Duration::from_millis(50);
        let before = processor_time();
        let begun = Instant::now();
        let worker = thread::spawn(|| while processor_time() < WORK {});
        worker.join().expect("no panic");
        let waited = begun.elapsed();
        assert!(waited >= WORK && processor_time() - before < WORK / 2, "{waited:?}");
        while processor_time() - before < WORK {}
    }

    #[test]
    fn a_thread_is_kept_for_the_next_job() {
        let threads = threads();
        let first = run(&threads, "job", thread_id);
        for _ in 0..100 {
            await_idle(&threads, 1);
            assert_eq!(run(&threads, "job", thread_id), first);
        }
    }

    #[test]
    fn each_of_many_jobs_has_a_thread_and_few_of_them_are_kept() {
        let threads = threads();
        let (started, starts) = channel();
        let gates: Vec<Sender<()>> = (0..3 * MAX_IDLE)
            .map(|_| {
                let (gate, opened) = channel();
                let started = started.clone();
                let job = move || {
                    started.send(thread_id()).expect("sent");
                    receive(&opened);
                };
                threads.run("job", job).expect("a thread");
                gate
            })
            .collect();
        let ids: HashSet<ThreadId> = gates.iter().map(|_| receive(&starts)).collect();
        assert_eq!(ids.len(), gates.len());
        for gate in &gates {
            gate.send(()).expect("the job waits");
        }
        await_that("few are left", || Arc::strong_count(&threads.idle) <= 1 + MAX_IDLE);
        await_idle(&threads, MAX_IDLE);
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
        let threads = threads();
        let (gate, opened) = channel::<()>();
        let busy = watch.clone();
        let job = move || {
            busy();
            let _ = opened.recv();
        };
        threads.run("busy", job).expect("a thread");
        threads.run("idle", watch).expect("a thread");
        await_idle(&threads, 1);
        drop(threads);
        receive(&ends);
        drop(gate);
        receive(&ends);
    }

    #[test]
    fn a_job_that_panics_takes_no_other_with_it() {
        let threads = threads();
        let kept = run(&threads, "job", thread_id);
        await_idle(&threads, 1);
        threads.run("panic", || panic!("a test")).expect("a thread");
        assert_ne!(run(&threads, "job", thread_id), kept);
    }

    #[cfg(all(target_os = "linux", not(feature = "portable")))]
    #[test]
    fn a_thread_that_leaves_a_child_is_not_kept() {
        let threads = threads();
        let child = || std::process::Command::new("sleep").arg("600").spawn().expect("a child");
        let (parent, mut child) = run(&threads, "job", move || (thread_id(), child()));
        // It remains a child until it is waited for.
        child.kill().expect("it runs");
        await_that("the thread has ended", || Arc::strong_count(&threads.idle) == 1);
        assert_ne!(run(&threads, "job", thread_id), parent);
        child.wait().expect("it ends");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_has_the_name_of_its_job() {
        let threads = threads();
        let comm = |thread: &str| std::fs::read_to_string(format!("/proc/{thread}/comm"));
        let name = move || comm("thread-self").expect("its name");
        let place = || std::fs::read_link("/proc/thread-self").expect("its place");
        assert_eq!(run(&threads, "first", name), "kept-first\n");
        await_idle(&threads, 1);
        assert_eq!(run(&threads, "second", name), "kept-second\n");
        await_idle(&threads, 1);
        let place = run(&threads, "third", place);
        await_idle(&threads, 1);
        assert_eq!(comm(&place.to_string_lossy()).expect("the name of an idle one"), "kept\n");
    }
}
