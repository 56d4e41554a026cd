//! Model checks. Of the listen window: whatever the schedule, no wake-up is lost, and no output from
//! before the end is missing in the answers up to the one that names the end. Of what is written to
//! the client: no message is lost, and those of one thread stay in order.
//!
//! Needs the feature `shuttle`, with which both are made of the model checker's mutex and condvar.
//! Its timed waits never time out, so that a lost wake-up shows as a deadlock.

/// Schedules tried for each property.
const SCHEDULES: usize = 10_000;
/// A probabilistic scheduler finds a bug of this depth with a known chance.
const DEPTH: usize = 3;

fn check(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_pct(model, SCHEDULES, DEPTH);
}

mod listen_window {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use shuttle::thread;
    use zsh_tool::testing::base::clock::{Clock, SystemClock};
    use zsh_tool::testing::mcp::render::view::View;
    use zsh_tool::testing::process::probe::Identity;
    use zsh_tool::testing::process::signals::Exit;
    use zsh_tool::testing::shell::outcome::Outcome;
    use zsh_tool::testing::task::live::{Cancel, End, Facts, Input, LiveState, LiveTask, WaitStep};

    use super::check;

    fn task() -> Arc<LiveTask> {
        Arc::new(LiveTask::new(Facts {
            id: "00000001".to_owned(),
            command: "make".to_owned(),
            description: None,
            directory: PathBuf::from("/"),
            started: SystemClock.now(),
            timeout: None,
            at_timeout: Default::default(),
            memory_max: None,
            sandbox: None,
            input: Input::None,
            shell: Identity { pid: 1, started: 0 },
            start_notes: Vec::new(),
            chosen_shell: None,
            in_session: false,
            part_of: None,
            detached: None,
        }))
    }

    /// The task for an answer that reports its end without the output.
    fn report_end(task: &LiveTask) -> View {
        View::take_with(task, |state| {
            state.mark_end_shown();
            state.deltas()
        })
    }

    fn write(task: &LiveTask, bytes: u64) {
        task.report_output(|state| state.streams.output.end.offset += bytes);
    }

    fn end(task: &LiveTask) {
        task.report(|state| {
            state.ended = Some(End {
                exit: Exit::Code(0),
                exit_assumed: false,
                outcome: Outcome::Success,
                duration: Duration::ZERO,
                pipestatus: Vec::new(),
                moved_to: None,
                output_cut: false,
                cost: None,
                over_memory: None,
            });
            state.closed = true;
        });
    }

    fn far() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(3600))
    }

    /// Waits as `zsh_poll` does: for bytes beyond those shown, or for the end.
    fn listen(task: &Arc<LiveTask>, cancel: &Cancel, shown: u64) -> bool {
        let heard = |state: &LiveState| {
            if state.streams.output.end.offset > shown || state.closed {
                WaitStep::Found(())
            } else {
                WaitStep::WaitUntil(None)
            }
        };
        task.wait_for(far(), cancel, heard, Instant::now).is_some()
    }

    /// Waits for the end, whatever is written before.
    fn await_end(task: &Arc<LiveTask>) -> bool {
        let ended = |state: &LiveState| match state.ended {
            Some(_) => WaitStep::Found(()),
            None => WaitStep::WaitDespiteOutput(None),
        };
        task.wait_for(far(), &Cancel::default(), ended, Instant::now).is_some()
    }

    #[test]
    fn output_wakes_everyone_who_listens() {
        check(|| {
            let task = task();
            let listeners: Vec<_> = (0..3)
                .map(|_| {
                    let task = Arc::clone(&task);
                    thread::spawn(move || assert!(listen(&task, &Cancel::default(), 0)))
                })
                .collect();
            write(&task, 5);
            for listener in listeners {
                listener.join().expect("a listener that was woken");
            }
        });
    }

    #[test]
    fn every_byte_is_taken_once_by_polls_side_by_side() {
        check(|| {
            let task = task();
            let pollers: Vec<_> = (0..2)
                .map(|_| {
                    let task = Arc::clone(&task);
                    thread::spawn(move || {
                        let mut taken = 0;
                        loop {
                            let closed = task.state().closed;
                            let shown = task.state().told.bytes();
                            taken += View::take_with(&task, LiveState::take_deltas)
                                .deltas
                                .output
                                .new_bytes();
                            if closed {
                                return taken;
                            }
                            listen(&task, &Cancel::default(), shown);
                        }
                    })
                })
                .collect();
            for _ in 0..3 {
                write(&task, 7);
            }
            end(&task);
            let taken: u64 =
                pollers.into_iter().map(|poller| poller.join().expect("a poller that ended")).sum();
            assert_eq!(taken, 21);
        });
    }

    #[test]
    fn nothing_from_before_the_end_is_missing_when_an_answer_names_it() {
        check(|| {
            let task = task();
            let caller = {
                let task = Arc::clone(&task);
                thread::spawn(move || {
                    let mut taken = 0;
                    loop {
                        let view = View::take_with(&task, LiveState::take_deltas);
                        taken += view.deltas.output.new_bytes();
                        if view.task.ended.is_some() {
                            return taken;
                        }
                        listen(&task, &Cancel::default(), taken);
                    }
                })
            };
            for _ in 0..3 {
                write(&task, 7);
            }
            end(&task);
            let taken: u64 = caller.join().expect("a caller that read of the end");
            assert_eq!(taken, 21);
        });
    }

    #[test]
    fn an_end_that_no_answer_has_named_is_not_taken_for_told() {
        check(|| {
            let task = task();
            let killer = {
                let task = Arc::clone(&task);
                thread::spawn(move || report_end(&task).task.ended.is_some())
            };
            end(&task);
            let named = killer.join().expect("an answer");
            assert_eq!(task.state().told.end, named);
        });
    }

    #[test]
    fn the_end_wakes_everyone_who_waits_for_it() {
        check(|| {
            let task = task();
            let waiter = {
                let task = Arc::clone(&task);
                thread::spawn(move || assert!(await_end(&task)))
            };
            write(&task, 1);
            end(&task);
            waiter.join().expect("a waiter that was woken");
        });
    }

    #[test]
    fn output_wakes_a_listener_beside_one_who_waits_for_the_end() {
        check(|| {
            let task = task();
            let waiter = {
                let task = Arc::clone(&task);
                thread::spawn(move || assert!(await_end(&task)))
            };
            let listener = {
                let task = Arc::clone(&task);
                thread::spawn(move || assert!(listen(&task, &Cancel::default(), 0)))
            };
            write(&task, 1);
            listener.join().expect("a listener that was woken");
            end(&task);
            waiter.join().expect("a waiter that was woken");
        });
    }

    #[test]
    fn a_cancelled_call_does_not_wait_on() {
        check(|| {
            let task = task();
            let cancel = Arc::new(Cancel::default());
            let waiter = {
                let (task, cancel) = (Arc::clone(&task), Arc::clone(&cancel));
                thread::spawn(move || assert!(!listen(&task, &cancel, 0)))
            };
            cancel.cancel();
            waiter.join().expect("a waiter that was woken");
        });
    }
}

mod outbox {
    use std::io::{self, Write};
    use std::sync::Arc;

    use shuttle::sync::Mutex;
    use shuttle::thread;
    use zsh_tool::testing::protocol::outbox::{OnWritten, Outbox};

    use super::check;

    /// What the client has received; it hangs up after `accepts` messages.
    #[derive(Clone)]
    struct Received {
        text: Arc<Mutex<String>>,
        accepts: usize,
    }

    impl Write for Received {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut text = self.text.lock().expect("no panic");
            if text.lines().count() >= self.accepts {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            text.push_str(str::from_utf8(bytes).expect("ASCII"));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Two threads send two messages each, in both ways, through a queue with room for one.
    /// Returns what has arrived, whether all was written, and how many messages were accepted.
    fn send(accepts: usize) -> (String, bool, usize) {
        let received = Received { text: Arc::default(), accepts };
        let outbox = Arc::new(Outbox::new(Box::new(received.clone()), 1));
        let writer = {
            let outbox = Arc::clone(&outbox);
            thread::spawn(move || outbox.write_queued().is_ok())
        };
        let senders: Vec<_> = ["a", "b"]
            .map(|name| {
                let outbox = Arc::clone(&outbox);
                thread::spawn(move || {
                    let message = |number| format!("{name}{number}").into_bytes();
                    let queued = outbox.queue(message(1), None).is_ok();
                    let answer = outbox.hand_over(message(2), None);
                    let answered = answer.is_ok();
                    if let Ok(Some(answer)) = answer {
                        answer.write();
                    }
                    usize::from(queued) + usize::from(answered)
                })
            })
            .into();
        let accepted = senders.into_iter().map(|sender| sender.join().expect("a sender")).sum();
        outbox.finish();
        let written = writer.join().expect("a writer that ended");
        let text = received.text.lock().expect("no panic").clone();
        (text, written, accepted)
    }

    #[test]
    fn every_message_is_written_and_those_of_one_thread_in_order() {
        check(|| {
            let (text, written, accepted) = send(usize::MAX);
            assert!(written && accepted == 4, "{text}");
            assert_eq!(text.lines().count(), 4, "{text}");
            for name in ["a", "b"] {
                let place = |number| text.find(&format!("{name}{number}\n"));
                assert!(place(1).is_some() && place(1) < place(2), "{text}");
            }
        });
    }

    #[test]
    fn what_is_accepted_before_the_finish_is_written() {
        check(|| {
            let received = Received { text: Arc::default(), accepts: usize::MAX };
            let outbox = Arc::new(Outbox::new(Box::new(received.clone()), 1));
            let calls = Arc::new(Mutex::new(0));
            let writer = {
                let outbox = Arc::clone(&outbox);
                thread::spawn(move || outbox.write_queued().is_ok())
            };
            let sender = {
                let (outbox, calls) = (Arc::clone(&outbox), Arc::clone(&calls));
                thread::spawn(move || {
                    let on_written = || {
                        let calls = Arc::clone(&calls);
                        Some(Box::new(move || *calls.lock().expect("no panic") += 1) as OnWritten)
                    };
                    let queued = outbox.queue(b"1".to_vec(), on_written()).is_ok();
                    let answer = outbox.hand_over(b"2".to_vec(), on_written());
                    let answered = answer.is_ok();
                    if let Ok(Some(answer)) = answer {
                        answer.write();
                    }
                    usize::from(queued) + usize::from(answered)
                })
            };
            outbox.finish();
            assert!(writer.join().expect("a writer that ended"));
            let accepted = sender.join().expect("a sender");
            assert_eq!(received.text.lock().expect("no panic").lines().count(), accepted);
            assert_eq!(*calls.lock().expect("no panic"), accepted);
        });
    }

    #[test]
    fn a_client_that_hangs_up_leaves_no_sender_waiting() {
        check(|| {
            let (text, written, _) = send(1);
            assert!(!written && text.lines().count() == 1, "{text}");
        });
    }
}
