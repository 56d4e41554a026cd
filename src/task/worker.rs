//! The worker: one thread per task, the only one that reads its output, writes its
//! input, signals its processes and reports its state.
//!
//! It blocks in `poll(2)` on the output, the shell's end, the wake-up of its orders and,
//! while they matter, the input and the ends of processes that are being killed or that
//! outlived the shell. It decides nothing about the task's life: `state` does.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::collector::{Collector, OnPressure};
use super::ending::Ending;
use super::errors::ErrorPipe;
use super::input::{InputQueue, Sending};
use super::journal::Journal;
use super::kill_run::Kills;
use super::leftovers::{self, Leftovers};
use super::live::{End, LiveTask};
use super::looks::Looks;
use super::order::Order;
use super::order_line::Orders;
use super::shell;
use super::spool::SpoolWriter;
use super::state::{Deadline, Effect, Event, Machine, Outcome};
use super::wiring::{
    close_input, feed_input, input_descriptor, input_source, output_name, read_report, resize,
};
use crate::process::descriptors::{self, Interest, Poller, Transfer};
use crate::process::files::Temporary;
use crate::process::signals::Exit;
use crate::process::snapshots::Snapshots;
use crate::process::spawn::Spawned;
use crate::process::tree::{Family, Identity, Signs};
use crate::progress::tracker;

/// Read at once.
const READ_BYTES: usize = 64 * 1024;
/// Reads in one turn, so that a flood does not keep orders waiting.
const READS_PER_TURN: usize = 8;
/// After the exit a megabyte may still stand in the pipe: it is read in any case, however
/// slow the disk is.
const PIPE_READS: usize = 1024 * 1024 / READ_BYTES;

/// A worker before it starts to work.
pub struct Worker {
    /// The task that it reports to.
    pub task: Arc<LiveTask>,
    /// The started shell.
    pub spawned: Spawned,
    /// Where output goes.
    pub spool: SpoolWriter,
    /// What the task's processes carry in their environment.
    pub cookie: String,
    /// Orders.
    pub orders: Orders,
    /// Input to begin with.
    pub first_input: Option<Sending>,
    /// Names of programs that are no leftovers once they have left the session.
    pub daemons: Arc<[String]>,
    /// The task's file in the state directory.
    pub journal: Journal,
    /// The script of a long command, to be removed in any case: it holds the command's
    /// text.
    pub script: Option<Temporary>,
    /// Scans of the machine that all tasks share.
    pub snapshots: Arc<Snapshots>,
    /// How it is judged whether the task gets on.
    pub tracking: tracker::Settings,
    /// Called when the spools of all tasks have passed the directory's quota.
    pub on_pressure: OnPressure,
    /// Tells of the end.
    pub ending: Arc<Ending>,
}

struct Work {
    task: Arc<LiveTask>,
    spawned: Spawned,
    output: Collector,
    orders: Orders,
    journal: Journal,
    machine: Machine,
    ending: Arc<Ending>,
    family: Family,
    input: InputQueue,
    kills: Kills,
    leftovers: Leftovers,
    looks: Looks,
    /// Its stderr, where that is kept apart.
    errors: ErrorPipe,
    /// The state says that no output and no change will come.
    closed: bool,
    shutting_down: bool,
}

/// Which descriptors became ready.
#[derive(Default)]
struct Ready {
    orders: bool,
    output: bool,
    errors: bool,
    input: bool,
    input_broken: bool,
    exit: bool,
    ended: Vec<Identity>,
}

impl Worker {
    /// Works until the task and its leftovers are gone.
    pub fn run(self) {
        let facts = &self.task.facts;
        let deadline = Deadline::new(facts.started.mono, facts.timeout, facts.timeout_most);
        let mut input = InputQueue::default();
        input.push(self.first_input.unwrap_or_default());
        let family = Family::new(Signs {
            shell: self.spawned.id,
            cookie: self.cookie,
            output: output_name(&self.task, &self.spawned),
            daemons: self.daemons,
        });
        let source = input_source(&self.task, &self.spawned);
        let looks = Looks::new(self.tracking, self.snapshots, source, deadline.moving());
        let mut spawned = self.spawned;
        let mut work = Work {
            output: Collector::new(Arc::clone(&self.task), self.spool, self.on_pressure),
            task: self.task,
            errors: ErrorPipe::new(spawned.errors.take()),
            spawned,
            orders: self.orders,
            journal: self.journal,
            machine: Machine::new(deadline),
            ending: self.ending,
            family,
            input,
            kills: Kills::default(),
            leftovers: Leftovers::default(),
            looks,
            closed: false,
            shutting_down: false,
        };
        work.journal.note_start(Instant::now());
        while !work.over() {
            work.turn();
        }
        work.close();
    }
}

impl Work {
    fn over(&self) -> bool {
        let told = self.shutting_down || self.journal.due().is_none();
        self.machine.finished() && !self.kills.under_way() && self.leftovers.is_empty() && told
    }

    fn turn(&mut self) {
        let ready = self.wait();
        if self.output.begin_turn(Instant::now()) {
            self.look_after_output();
        }
        // An end may be what an order has brought about: the order comes first.
        if ready.orders || ready.exit {
            self.take_orders();
        }
        if ready.input {
            self.feed_input();
        }
        if ready.input_broken {
            close_input(&mut self.input, &self.task, &mut self.spawned);
        }
        if ready.output {
            self.read_output(READS_PER_TURN);
        }
        if ready.errors {
            self.read_errors();
        }
        if ready.exit {
            self.see_exit();
        }
        self.follow_kill(&ready.ended);
        self.follow_leftovers(&ready.ended);
        if self.output.release(Instant::now()) {
            self.look_after_output();
        }
        self.look_at_processes();
        self.step(Event::Time);
        if self.shutting_down {
            self.ending.foresee(self.machine.end_so_far());
        }
        self.journal.keep_up(&self.task, &self.output.spool);
    }

    fn wait(&self) -> Ready {
        let mut poller = Poller::default();
        let orders = Some(poller.watch(self.orders.wakes(), Interest::Read));
        // The program has to wait for a reader that must not miss a byte.
        let lags = self.output.is_behind() || self.output.leaves_a_reader_behind();
        let reads = self.machine.output_open() && !self.closed && !lags;
        let output = reads.then(|| poller.watch(self.spawned.output.as_fd(), Interest::Read));
        let errors = self.errors.descriptor();
        let errors = errors.map(|errors| poller.watch(errors, Interest::Read));
        let exit = (!self.machine.exited())
            .then(|| poller.watch(self.spawned.child.ended(), Interest::Read));
        let input = match (
            self.input.wants_to_write(),
            input_descriptor(&self.task, &self.spawned),
        ) {
            (true, Some(fd)) => Some(poller.watch(fd.as_fd(), Interest::Write)),
            _ => None,
        };
        // A pipe that nobody reads any more is known before anything is written to it.
        let input_broken = match (input, &self.spawned.input) {
            (None, Some(fd)) => Some(poller.watch(fd.as_fd(), Interest::Hangup)),
            _ => None,
        };
        let ends: Vec<(usize, Identity)> = self
            .kills
            .ends()
            .chain(self.leftovers.ends())
            .map(|(id, fd)| (poller.watch(fd, Interest::Read), id))
            .collect();
        poller.wait(self.time_to_wait());
        Ready {
            orders: poller.ready(orders),
            output: poller.ready(output),
            errors: poller.ready(errors),
            input: poller.ready(input),
            input_broken: poller.ready(input_broken),
            exit: poller.ready(exit),
            ended: ends
                .into_iter()
                .filter(|(place, _)| poller.ready(Some(*place)))
                .map(|(_, id)| id)
                .collect(),
        }
    }

    fn time_to_wait(&self) -> Option<Duration> {
        [
            self.machine.next_wake(),
            self.kills.next_sweep(),
            self.leftovers.next_scan(),
            self.journal.due(),
            self.looks.next(),
            self.output.due(),
        ]
        .into_iter()
        .flatten()
        .min()
        .map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn step(&mut self, event: Event) {
        let mut looked = false;
        for effect in self.machine.step(event, Instant::now()) {
            match effect {
                Effect::SignalTree(signals) => {
                    self.ending.note(&self.task);
                    let (family, shell) = (&mut self.family, &self.spawned.child);
                    let over = self.kills.escalate(signals, family, shell);
                    self.see_tree_gone(over);
                }
                Effect::SignalOnce(signal) => {
                    if signal.ends() {
                        self.ending.note(&self.task);
                    }
                    let (family, shell) = (&mut self.family, &self.spawned.child);
                    self.kills.send_once(signal, family, shell);
                    // Before the receipt: whoever has it may ask at once how the task is.
                    self.looks.begin_anew(&self.task);
                }
                Effect::CloseKill => looked = self.close_kill(),
                Effect::Finish {
                    exit,
                    exited,
                    outcome,
                } => self.finish(exit, exited, outcome, looked),
            }
        }
    }

    /// Looks at the processes, when that is due.
    fn look_at_processes(&mut self) {
        let (family, spool) = (&mut self.family, &self.output.spool);
        let (task, shell, journal) = (&self.task, &self.spawned, &mut self.journal);
        if let Some(gets_on) = self.looks.take(task, shell, family, spool, journal) {
            self.step(Event::Looked { gets_on });
        }
    }

    // Orders.

    fn take_orders(&mut self) {
        self.orders.drain_wakes();
        while let Some(order) = self.orders.next() {
            match order {
                Order::Kill { order, receipt } => {
                    self.kills.expect(receipt);
                    self.step(Event::Kill(order));
                    self.looks.begin_anew(&self.task);
                }
                Order::Input(sending) => self.input.push(sending),
                Order::Secret(order) => {
                    self.feed_input();
                    let (input, masking) = (&mut self.input, &mut self.output.masking);
                    order.carry_out(&self.task, &self.spawned.output, input, masking);
                    self.looks.restart();
                }
                Order::Resize(size) => {
                    self.output.resize_screen(size);
                    resize(&self.task, &self.spawned, size);
                    self.looks.begin_anew(&self.task);
                }
                Order::Look => self.looks.hasten(),
                Order::Shutdown => {
                    self.shutting_down = true;
                    self.step(Event::Shutdown);
                }
            }
        }
        if self.input.wants_to_write() {
            self.feed_input();
            self.looks.restart();
        }
    }

    fn feed_input(&mut self) {
        feed_input(&mut self.input, &self.task, &mut self.spawned);
    }

    // Output and exit.

    /// Reads until nothing is there, or `turns` times, or there is more to draw than a
    /// turn has time for.
    fn read_output(&mut self, turns: usize) -> bool {
        // Held while output comes only: most tasks are silent most of the time.
        let mut buffer = vec![0; READ_BYTES];
        for _ in 0..turns {
            match descriptors::read(&self.spawned.output, &mut buffer) {
                Transfer::Bytes(count) => self.take_output(buffer.get(..count).unwrap_or_default()),
                Transfer::WouldBlock => return true,
                Transfer::Closed => {
                    self.finish_output();
                    self.step(Event::OutputClosed);
                    return true;
                }
            }
            if self.output.is_behind() {
                break;
            }
        }
        false
    }

    /// Reads as much as a pipe holds, however much there is to draw.
    fn read_pipe(&mut self) {
        (0..PIPE_READS).any(|_| !self.machine.output_open() || self.read_output(1));
    }

    fn read_errors(&mut self) {
        if self.errors.read(&self.task) {
            self.looks.restart();
        }
    }

    fn take_output(&mut self, chunk: &[u8]) {
        self.output.take(chunk, Instant::now());
        self.look_after_output();
        self.step(Event::Output);
    }

    /// Takes what the mask held back at the output's end.
    fn finish_output(&mut self) {
        if self.output.finish(Instant::now()) {
            self.look_after_output();
        }
    }

    /// Output came: what it asks of the terminal is answered, and what was seen of the
    /// processes before it counts no longer.
    fn look_after_output(&mut self) {
        // No input of the caller's: a task that waits for that goes on waiting.
        let replies = self.output.take_replies();
        if !replies.is_empty() {
            self.input.push_reply(replies.into_bytes());
            self.feed_input();
        }
        self.looks.restart();
    }

    fn see_exit(&mut self) {
        let Some(exit) = self.spawned.child.peek_exit() else {
            return;
        };
        // What the shell wrote before its end stands in the pipe: it is read before the
        // drain's clock may end the task.
        self.read_pipe();
        self.read_errors();
        self.looks.stop();
        self.step(Event::Exited(exit));
    }

    // Kills.

    fn see_tree_gone(&mut self, gone: bool) {
        if gone {
            // The shell may be gone from the tree as a zombie that is still to be seen.
            if !self.machine.exited() {
                self.see_exit();
            }
            self.step(Event::TreeGone);
        }
    }

    fn follow_kill(&mut self, ended: &[Identity]) {
        let (family, shell) = (&mut self.family, &self.spawned.child);
        let gone = self.kills.follow(ended, family, shell);
        self.see_tree_gone(gone);
    }

    /// Gives the receipt. Once the task is over its last look also tells the leftovers, so
    /// that both say the same; the answer is whether it did.
    fn close_kill(&mut self) -> bool {
        let (family, shell) = (&mut self.family, &self.spawned.child);
        match self.kills.close(family, shell) {
            Some(alive) if self.machine.finished() && !self.closed => {
                let named = self.leftovers.take(alive, &mut self.family);
                self.task.report(|state| state.leftovers = named);
                true
            }
            _ => false,
        }
    }

    // The end and what is left.

    fn finish(&mut self, exit: Exit, exited: Instant, outcome: Outcome, looked: bool) {
        let report = read_report(self.spawned.sideband.take());
        if !looked && leftovers::may_be(self.machine.output_open() || self.errors.is_open()) {
            self.scan_leftovers();
        }
        let end = End {
            exit,
            outcome,
            duration: exited - self.task.facts.started.mono,
            moved_to: report.moved_from(&self.task.facts.directory),
            pipestatus: shell::pipestatus_to_show(report.pipestatus, exit),
        };
        self.closed = self.leftovers.is_empty();
        if self.closed {
            self.read_rest();
        }
        let output = &self.output.spool;
        self.ending
            .tell(&self.task.facts, &end, &output.reader(), output.end());
        self.task.report(|state| {
            state.forget_found();
            state.ended = Some(end);
            state.closed = self.closed;
        });
        if self.closed {
            self.spawned.child.reap();
        }
        self.journal.note_end(Instant::now());
    }

    fn scan_leftovers(&mut self) {
        let named = self.leftovers.scan(&mut self.family);
        self.task.report(|state| state.leftovers = named);
    }

    fn follow_leftovers(&mut self, ended: &[Identity]) {
        if self.machine.finished() && self.leftovers.changed(ended, Instant::now()) {
            // What they wrote last is taken before they are struck from the list.
            self.read_output(READS_PER_TURN);
            self.scan_leftovers();
        }
    }

    /// Reads what stands in the pipe when nobody is known to write to it any more.
    fn read_rest(&mut self) {
        self.read_pipe();
        self.read_errors();
        self.finish_output();
    }

    fn close(&mut self) {
        if !self.closed {
            self.read_rest();
            self.task.report(|state| state.leftovers.clear());
            self.journal.write(&self.task);
            self.task.report(|state| state.closed = true);
            // Not before: as long as the shell is a zombie, the numbers of its process
            // group and session are those of its leftovers and of no others.
            self.spawned.child.reap();
        }
        self.output.close_screen(self.shutting_down);
    }
}
