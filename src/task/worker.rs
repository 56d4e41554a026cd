//! The worker: one thread per task, the only one that reads its output, writes its input,
//! signals its processes and reports its state.
//!
//! It blocks in `poll(2)` on the output, the shell's end, the wake-up of its requests and,
//! while they matter, the input and the ends of processes that are being killed or that
//! outlived the shell. It decides nothing about the task's life: `state` does.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::completion::Completion;
use super::input::{Flushed, InputChunk, InputQueue};
use super::journal::{self, Journal};
use super::leftovers::{Leftovers, may_leave_processes};
use super::live::{End, Input, LiveTask, OverMemory};
use super::output::collector::{Collector, OnPressure};
use super::output::spool::{SpoolWriter, Spools};
use super::probes::Probes;
use super::shell::{self, Report, SideBand};
use super::state::{Deadline, Effect, Machine, TaskEvent};
use super::stream::{PerStream, StreamName};
use super::termination::TreeKill;
use super::worker_requests::{RequestReceiver, WorkerRequest};
use crate::process::descriptors::{self, Interest, Poller, Transfer, Waker};
use crate::process::files::{Temporary, TemporaryDirectory};
use crate::process::probe::InputSource;
use crate::process::pty::{self, TerminalSize};
use crate::process::scans::Scans;
use crate::process::signals::Exit;
use crate::process::spawn::Spawned;
use crate::process::tree::{self, Identity, MatchCriteria, Scan, TaskProcesses};
use crate::progress::cost::Cost;
use crate::progress::tracker::TrackerSettings;
use crate::progress::wait::ProcessName;
use crate::shell::outcome::Outcome;

/// The most bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Reads in one turn, so that a flood does not delay requests.
const READS_PER_TURN: usize = 8;
/// How many reads empty the pipe after the exit. It may hold a megabyte, and the disk may be
/// slow, so time is no limit.
const PIPE_READS: usize = 1024 * 1024 / READ_BYTES;

/// Called with a shell's report when its command has ended by itself.
pub(super) type OnShellEnd = Box<dyn FnOnce(&Report) + Send>;

/// What a worker gets from its supervisor, besides the started shell.
pub(super) struct Setup {
    pub(crate) spools: PerStream<SpoolWriter>,
    /// What the task's processes carry in their environment.
    pub(crate) cookie: String,
    pub(crate) requests: RequestReceiver,
    pub(crate) first_input: InputChunk,
    /// Names of programs that do not count as leftovers once they have left the session.
    pub(crate) daemons: Arc<[String]>,
    pub(crate) journal: Journal,
    /// The script of a long command, and the startup file of bash: removed with the worker.
    pub(crate) files: Vec<Temporary>,
    /// The temporary directory of a sandboxed command: removed too.
    pub(crate) temporary: Option<TemporaryDirectory>,
    pub(crate) sideband: Option<SideBand>,
    /// Takes what the shell of a session reports at its end.
    pub(crate) on_shell_end: Option<OnShellEnd>,
    /// Scans of the machine, shared by all tasks.
    pub(crate) scans: Arc<Scans>,
    /// Whether the server ends all tasks.
    pub(crate) server_ending: Arc<AtomicBool>,
    pub(crate) tracker: TrackerSettings,
    /// Called when the spools of all tasks together exceed the directory's quota.
    pub(crate) on_pressure: OnPressure,
    pub(crate) completion: Arc<Completion>,
    /// Woken when the shell has ended, and when the worker ends.
    pub(crate) housekeeping: Option<Arc<Waker>>,
}

pub(super) struct Worker {
    task: Arc<LiveTask>,
    spawned: Spawned,
    output: Collector,
    /// Takes stderr if that is apart.
    errors: Collector,
    /// Whether nothing more will come on the output; stderr may still be open.
    output_ended: bool,
    requests: RequestReceiver,
    journal: Journal,
    sideband: Option<SideBand>,
    on_shell_end: Option<OnShellEnd>,
    _files: Vec<Temporary>,
    _temporary: Option<TemporaryDirectory>,
    machine: Machine,
    completion: Arc<Completion>,
    housekeeping: Option<Arc<Waker>>,
    processes: TaskProcesses,
    input: InputQueue,
    termination: TreeKill,
    leftovers: Leftovers,
    probes: Probes,
    /// Set once it needed more memory than it may.
    over_memory: Option<OverMemory>,
    /// Whether the task's state is final.
    closed: bool,
    shutting_down: bool,
    server_ending: Arc<AtomicBool>,
}

/// Which descriptors became ready.
struct Ready {
    requests: bool,
    output: bool,
    errors: bool,
    input: bool,
    input_broken: bool,
    exit: bool,
    ended: Vec<Identity>,
}

impl Worker {
    pub(super) fn new(task: Arc<LiveTask>, spawned: Spawned, setup: Setup) -> Worker {
        let facts = &task.facts;
        let deadline = Deadline::new(facts.started.mono, facts.timeout, facts.at_timeout);
        let mut input = InputQueue::default();
        input.push(setup.first_input);
        let collector = |stream, spool| {
            Collector::new(Arc::clone(&task), stream, spool, Arc::clone(&setup.on_pressure))
        };
        let (output_name, source) = match facts.input {
            Input::Terminal => {
                let name = pty::terminal_name(&spawned.output);
                (name.clone(), name.map(InputSource::Terminal))
            }
            Input::Pipe => {
                let name = spawned.input.as_ref().and_then(tree::name_of_descriptor);
                (tree::name_of_descriptor(&spawned.output), name.map(InputSource::Pipe))
            }
            Input::None => (tree::name_of_descriptor(&spawned.output), None),
        };
        let errors_name = spawned.stderr.as_ref().and_then(tree::name_of_descriptor);
        Worker {
            probes: Probes::new(
                setup.tracker,
                setup.scans,
                source,
                spawned.id.pid,
                deadline.moving(),
                facts.memory_max.is_some(),
            ),
            processes: TaskProcesses::new(MatchCriteria {
                shell: spawned.id,
                cookie: setup.cookie,
                outputs: output_name.into_iter().chain(errors_name).collect(),
                daemons: setup.daemons,
            }),
            output: collector(StreamName::Output, setup.spools.output),
            errors: collector(StreamName::Errors, setup.spools.errors),
            output_ended: false,
            task,
            spawned,
            requests: setup.requests,
            journal: setup.journal,
            sideband: setup.sideband,
            on_shell_end: setup.on_shell_end,
            _files: setup.files,
            _temporary: setup.temporary,
            machine: Machine::new(deadline),
            completion: setup.completion,
            housekeeping: setup.housekeeping,
            input,
            termination: TreeKill::default(),
            leftovers: Leftovers::default(),
            over_memory: None,
            closed: false,
            shutting_down: false,
            server_ending: setup.server_ending,
        }
    }

    /// Works until the task and its leftovers are gone.
    pub(super) fn run(mut self) {
        self.journal.schedule(journal::AFTER_START);
        while !self.is_over() {
            self.turn();
        }
        self.close();
    }

    fn is_over(&self) -> bool {
        let written = self.shutting_down || self.journal.due().is_none();
        let idle = !self.termination.under_way() && self.leftovers.is_empty();
        self.machine.finished() && idle && written
    }

    fn turn(&mut self) {
        let ready = self.wait();
        if self.output.begin_turn(Instant::now()) {
            self.note_output();
        }
        // Commands come first: one may have caused the exit.
        if ready.requests || ready.exit {
            self.take_requests();
        }
        if ready.input {
            self.feed_input();
        }
        if ready.input_broken {
            self.close_input();
        }
        if ready.output {
            self.read_output(READS_PER_TURN);
        }
        if ready.errors {
            self.read_errors(READS_PER_TURN);
        }
        if ready.exit {
            self.note_exit();
        }
        self.follow_termination(&ready.ended);
        self.follow_leftovers(&ready.ended);
        if self.output.release(Instant::now()) {
            self.note_output();
        }
        self.probe();
        self.step(TaskEvent::Time);
        if self.shutting_down {
            self.completion.set_provisional(self.machine.end_so_far());
        }
        let was_due = self.journal.write_if_due(&self.task, &self.output.spool);
        // With the first write, since commands that end at once need neither.
        if was_due && !self.machine.exited() {
            self.completion.count_memory_kills();
        }
    }

    fn wait(&self) -> Ready {
        let mut poller = Poller::default();
        let requests = Some(poller.watch(self.requests.wakes(), Interest::Read));
        // Reads pause while the screen or a reader that must not miss a byte is behind.
        let must_wait = self.output.is_behind() || self.output.leaves_a_reader_behind();
        // In XNU the leader of a session does not end before its terminal's output is read.
        let ends_by_reading = cfg!(target_os = "macos")
            && self.termination.under_way()
            && self.spawned.terminal.is_some();
        let reads = !self.output_ended && !self.closed && (!must_wait || ends_by_reading);
        let output = reads.then(|| poller.watch(self.spawned.output.as_fd(), Interest::Read));
        let errors = self.spawned.stderr.as_ref();
        let errors = errors.filter(|_| !self.closed && !self.errors.leaves_a_reader_behind());
        let errors = errors.map(|errors| poller.watch(errors.as_fd(), Interest::Read));
        let exit = (!self.machine.exited())
            .then(|| poller.watch(self.spawned.child.ended(), Interest::Read));
        let input = input_descriptor(self.task.facts.input, &self.spawned)
            .filter(|_| self.input.wants_to_write());
        let input = input.map(|fd| poller.watch(fd.as_fd(), Interest::Write));
        // A pipe that lost its last reader is noticed before anything is written to it.
        let pipe = self.spawned.input.as_ref().filter(|_| input.is_none());
        let input_broken = pipe.map(|fd| poller.watch(fd.as_fd(), Interest::Hangup));
        let ends: Vec<(usize, Identity)> = self
            .termination
            .watched_ends()
            .chain(self.leftovers.watched_ends())
            .map(|(id, fd)| (poller.watch(fd, Interest::Read), id))
            .collect();
        poller.wait(self.time_to_wait());
        let ended = ends.into_iter().filter(|(place, _)| poller.ready(Some(*place)));
        Ready {
            requests: poller.ready(requests),
            output: poller.ready(output),
            errors: poller.ready(errors),
            input: poller.ready(input),
            input_broken: poller.ready(input_broken),
            exit: poller.ready(exit),
            ended: ended.map(|(_, id)| id).collect(),
        }
    }

    fn time_to_wait(&self) -> Option<Duration> {
        let due = [
            self.machine.next_wake(),
            self.termination.next_sweep(),
            self.leftovers.next_scan(),
            self.journal.due(),
            self.probes.next(),
            self.output.due(),
        ];
        let next = due.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn step(&mut self, event: TaskEvent) {
        let mut scanned = false;
        let mut next = Some(event);
        while let Some(event) = next.take() {
            for effect in self.machine.step(event, Instant::now()) {
                let (processes, shell) = (&mut self.processes, &self.spawned.child);
                match effect {
                    Effect::SignalTree(signals) => {
                        let scan = Scan::take();
                        if self.completion.record_kill_context(&self.task) {
                            self.probes.measure(&self.task, &scan, processes);
                        }
                        let gone = self.termination.escalate(signals, scan, processes, shell);
                        self.note_tree_gone(gone);
                    }
                    Effect::SignalOnce(signal) => {
                        let scan = Scan::take();
                        if signal.is_terminating()
                            && self.completion.record_kill_context(&self.task)
                        {
                            self.probes.measure(&self.task, &scan, processes);
                        }
                        self.termination.signal_once(signal, scan, processes, shell);
                        // Before the receipt: its reader may query the task's state at once.
                        self.probes.reset(&self.task);
                    }
                    Effect::CloseKill => scanned = self.close_termination(),
                    Effect::SeekHolders => {
                        next = Some(TaskEvent::OutputHeld(self.seek_holders()));
                        scanned = true;
                    }
                    Effect::Finish { exit, exited, outcome, output_cut } => {
                        self.finish((exit, exited), outcome, output_cut, scanned)
                    }
                }
            }
        }
    }

    /// Probes the processes, when that is due.
    fn probe(&mut self) {
        let processes = &mut self.processes;
        let spools = PerStream { output: &self.output.spool, errors: &self.errors.spool };
        let (task, shell, journal) = (&self.task, &self.spawned, &mut self.journal);
        if let Some(health) = self.probes.take_due(task, shell, processes, spools, journal) {
            self.step(TaskEvent::Probed(health));
            self.check_memory();
        }
    }

    /// Ends the task if it needs more memory than it may.
    fn check_memory(&mut self) {
        let Some(limit) = self.task.facts.memory_max.filter(|_| self.over_memory.is_none()) else {
            return;
        };
        let used = match &self.spawned.group {
            Some(group) => (group.kills() > 0).then(|| group.highest().unwrap_or(limit)),
            None => self.probes.memory_above(limit),
        };
        if let Some(used) = used {
            self.over_memory = Some(OverMemory { used, limit });
            self.step(TaskEvent::OverMemory);
        }
    }

    fn take_requests(&mut self) {
        self.requests.drain_wakes();
        while let Some(request) = self.requests.next() {
            match request {
                WorkerRequest::Kill { request, receipt } => {
                    self.termination.expect(receipt);
                    self.step(TaskEvent::Kill(request));
                    self.probes.reset(&self.task);
                }
                WorkerRequest::Input(sending) => self.input.push(sending),
                WorkerRequest::Secret(secret) => {
                    self.feed_input();
                    let readers =
                        self.probes.readers(&self.task, &self.spawned, &mut self.processes);
                    let (input, masking) = (&mut self.input, &mut self.output.masking);
                    secret.carry_out(&self.task, &readers, &self.spawned.output, input, masking);
                    self.probes.restart();
                }
                WorkerRequest::Resize(size) => self.resize(size),
                WorkerRequest::NoteChange => self.journal.schedule_soon(),
                WorkerRequest::ProbeProgress => self.probes.hasten(),
                WorkerRequest::Shutdown => self.shut_down(),
            }
        }
        if self.input.wants_to_write() {
            self.feed_input();
            self.probes.restart();
        }
    }

    // Input.

    /// Writes as much of the queued input as the program accepts now.
    fn feed_input(&mut self) {
        let input = self.task.facts.input;
        let fd = input_descriptor(input, &self.spawned);
        match fd.and_then(|fd| self.input.flush(fd, input)) {
            // Only replies of the terminal: no caller waits for these.
            Some(Flushed { taken: 0, dropped: 0 }) => {}
            Some(Flushed { taken, dropped }) => self.task.report(|state| {
                state.queued_input = state.queued_input.saturating_sub(taken);
                state.dropped_input += dropped;
            }),
            None => self.close_input(),
        }
    }

    /// Closes the task's input, and drops what is queued.
    fn close_input(&mut self) {
        self.spawned.input = None;
        self.input = InputQueue::default();
        self.task.report(|state| {
            state.queued_input = 0;
            state.input_closed = true;
        });
    }

    fn resize(&mut self, size: TerminalSize) {
        self.output.resize_screen(size);
        let resized = pty::resize(&self.spawned.output, size).is_ok();
        self.task.report(|state| {
            state.queued_sizes = state.queued_sizes.saturating_sub(1);
            state.redraws += 1;
            if resized {
                state.columns = Some(size.cols);
            }
        });
        self.probes.reset(&self.task);
    }

    // Output and exit.

    /// Reads at most `max_reads` times, until nothing is left or the emulated screen falls behind;
    /// returns whether nothing is left.
    fn read_output(&mut self, max_reads: usize) -> bool {
        // Allocated only while output comes: most tasks are silent most of the time.
        let mut buffer = Vec::with_capacity(READ_BYTES);
        for _ in 0..max_reads {
            buffer.clear();
            match descriptors::read_more(&self.spawned.output, &mut buffer) {
                Transfer::Bytes(_) => self.take_output(&buffer),
                Transfer::WouldBlock => {
                    if self.machine.exited() {
                        self.spawned.terminal = None;
                    }
                    return true;
                }
                Transfer::Closed => {
                    self.finish_output();
                    self.output_ended = true;
                    self.note_closed();
                    return true;
                }
            }
            if self.output.is_behind() {
                break;
            }
        }
        false
    }

    /// Reads as much as a pipe holds, even if the emulated screen falls behind.
    fn read_pipe(&mut self) {
        (0..PIPE_READS).any(|_| self.output_ended || self.read_output(1));
    }

    /// Reads stderr that is apart, at most `max_reads` times.
    fn read_errors(&mut self, max_reads: usize) {
        let mut buffer = Vec::new();
        for _ in 0..max_reads {
            let Some(errors) = &self.spawned.stderr else {
                return;
            };
            buffer.clear();
            buffer.reserve(READ_BYTES);
            match descriptors::read_more(errors, &mut buffer) {
                Transfer::Bytes(_) => {
                    self.errors.take(&buffer, Instant::now());
                    self.probes.restart();
                    self.step(TaskEvent::Output);
                }
                Transfer::WouldBlock => return,
                Transfer::Closed => {
                    self.spawned.stderr = None;
                    self.note_closed();
                }
            }
        }
    }

    /// After the end of a stream.
    fn note_closed(&mut self) {
        if self.output_ended && self.spawned.stderr.is_none() {
            self.step(TaskEvent::OutputClosed);
        }
    }

    fn take_output(&mut self, chunk: &[u8]) {
        self.output.take(chunk, Instant::now());
        self.note_output();
        self.step(TaskEvent::Output);
    }

    /// Takes the output that the mask held back to the end.
    fn finish_output(&mut self) {
        if self.output.finish(Instant::now()) {
            self.note_output();
        }
    }

    /// After output: writes the terminal's replies to the program, and restarts the probes.
    fn note_output(&mut self) {
        // Replies are not the caller's input: a task that waits for that continues to wait.
        let replies = self.output.take_replies();
        if !replies.is_empty() {
            self.input.push_reply(replies.into_bytes());
            self.feed_input();
        }
        self.probes.restart();
    }

    fn shut_down(&mut self) {
        if !self.shutting_down {
            self.shutting_down = true;
            self.step(TaskEvent::Shutdown);
        }
    }

    fn note_exit(&mut self) {
        let Some(exit) = self.spawned.child.peek_exit() else {
            return;
        };
        // The server may have ended it before it was listed and could be told.
        if self.server_ending.load(Ordering::SeqCst) {
            self.shut_down();
        }
        // What the shell wrote before its end is in the pipe: read it before the drain's clock may
        // end the task.
        self.read_pipe();
        self.read_errors(PIPE_READS);
        self.probes.stop();
        if self.spawned.group.is_some() {
            self.check_memory();
        }
        self.step(TaskEvent::Exited(exit));
        if self.spawned.terminal.is_some() {
            self.read_pipe();
        }
    }

    // Kills.

    fn note_tree_gone(&mut self, gone: bool) {
        if gone {
            // Scans leave out zombies: the shell's exit may not have been noted yet.
            if !self.machine.exited() {
                self.note_exit();
            }
            self.step(TaskEvent::TreeGone);
        }
    }

    fn follow_termination(&mut self, ended: &[Identity]) {
        let (processes, shell) = (&mut self.processes, &self.spawned.child);
        let gone = self.termination.follow(ended, processes, shell);
        self.note_tree_gone(gone);
    }

    /// Sends the receipt. Once the task is over, the kill's last scan also sets the leftovers, so
    /// that both agree; returns whether it did.
    fn close_termination(&mut self) -> bool {
        let (processes, shell) = (&mut self.processes, &self.spawned.child);
        match self.termination.close(processes, shell) {
            Some(alive) if self.machine.finished() && !self.closed => {
                let named = self.leftovers.update(alive, &mut self.processes);
                self.report_leftovers(named);
                true
            }
            _ => false,
        }
    }

    // The end and the leftovers.

    /// Scans for processes that outlive the shell; returns whether any process holds the output
    /// open.
    fn seek_holders(&mut self) -> bool {
        self.scan_leftovers();
        let held = self.processes.output_is_held();
        // Read what came before the scan: its writers may have ended since.
        self.read_pipe();
        self.read_errors(PIPE_READS);
        held
    }

    fn finish(
        &mut self,
        (exit, exited): (Exit, Instant),
        outcome: Outcome,
        output_cut: bool,
        scanned: bool,
    ) {
        let report = (self.sideband.take()).map_or_else(Report::default, |pipe| pipe.read());
        if let Some(report_end) = self.on_shell_end.take().filter(|_| outcome.is_complete()) {
            report_end(&report);
        }
        let may_be = may_leave_processes(self.machine.output_open());
        if !scanned && (may_be || !self.leftovers.is_empty()) {
            self.scan_leftovers();
        }
        let end = End {
            exit,
            exit_assumed: false,
            outcome,
            duration: exited - self.task.facts.started.mono,
            moved_to: report.moved_from(&self.task.facts.directory),
            pipestatus: shell::pipestatus_to_show(report.pipestatus, exit),
            output_cut,
            cost: Some(Cost::new(self.spawned.child.account(), &self.task.state().usage)),
            over_memory: self.over_memory,
        };
        self.closed = self.leftovers.is_empty();
        if self.closed {
            self.read_rest();
        }
        let readers =
            Spools { output: self.output.spool.reader(), errors: self.errors.spool.reader() };
        let after_end = self.completion.call_on_end(&self.task, &end, &readers);
        self.task.report(|state| {
            state.forget_detected();
            state.ended = Some(end);
            state.closed = self.closed;
        });
        drop(after_end);
        if self.closed {
            self.spawned.child.reap();
        } else {
            // Not only at the end of this worker, which may live for hours.
            self.wake_housekeeping();
        }
        self.journal.schedule(journal::AFTER_END);
    }

    fn scan_leftovers(&mut self) {
        let named = self.leftovers.scan(&mut self.processes);
        self.report_leftovers(named);
    }

    fn report_leftovers(&self, named: Vec<ProcessName>) {
        let kept = self.processes.kept().to_vec();
        self.task.report(|state| {
            state.leftovers = named;
            state.kept = kept;
        });
    }

    fn follow_leftovers(&mut self, ended: &[Identity]) {
        if self.leftovers.scan_is_due(ended, Instant::now()) {
            // Read what they wrote last before removing them from the list.
            self.read_output(READS_PER_TURN);
            self.read_errors(READS_PER_TURN);
            self.scan_leftovers();
        }
    }

    /// Reads what is in the pipe when no known process writes to it any more.
    fn read_rest(&mut self) {
        self.read_pipe();
        self.read_errors(PIPE_READS);
        self.finish_output();
    }

    fn close(&mut self) {
        if !self.closed {
            self.read_rest();
            self.task.report(|state| state.leftovers.clear());
            self.journal.write(&self.task);
            self.task.report(|state| state.closed = true);
            // Not earlier: while the shell is a zombie, its number cannot be that of another
            // process group or session.
            self.spawned.child.reap();
        }
        if self.journal.due().is_some() {
            self.journal.write(&self.task);
        }
        self.output.close_screen(self.shutting_down);
        self.task.state().is_filed = true;
        self.wake_housekeeping();
    }

    fn wake_housekeeping(&self) {
        if let Some(housekeeping) = &self.housekeeping {
            housekeeping.wake();
        }
    }
}

/// Where the task's input is written.
fn input_descriptor(input: Input, spawned: &Spawned) -> Option<&OwnedFd> {
    match input {
        Input::Terminal => Some(&spawned.output),
        Input::Pipe | Input::None => spawned.input.as_ref(),
    }
}
