//! What a task waits for and which states its processes are in: when to probe, and what the probes
//! show together.
//!
//! The first probe comes when the output has been quiet for a moment, later ones less and
//! less often; output and input restart the series. A probe that finds something is soon
//! followed by one that confirms it. Observations are judged in `progress::waiting` and
//! `progress::condition`.
//!
//! Limits: a program that passes input on to a second terminal is followed for one level only.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::process::executable;
use crate::process::probe::{InputSource, StallReason};
use crate::process::scans::Scans;
use crate::process::spawn::Spawned;
use crate::process::tree::{Identity, ProcessInfo, Scan, TaskProcesses};
use crate::process::waits::{self, Waits};
use crate::process::{descriptors, processes, pty, signals, tree, usage};
use crate::progress::condition::{Condition, Sighting, Sightings, Visibility};
use crate::progress::question;
use crate::progress::wait::{InputWait, ProcessName, ProcessWaits, Thread, WaitSource};
use crate::progress::waiting::{
    CONFIRMING_PAUSE, Confirmation, FIRST_PAUSES, FullScreen, InputJudgement, LATER_PAUSE, Modes,
    PROBES_BEFORE_RARE, RARE_PAUSE, Reading, Sample, ShownText, is_same_prompt, judge,
};
use crate::task::live::{Detected, Input, LiveTask, SentInput};
use crate::task::output::reading;
use crate::task::output::spool::SpoolWriter;
use crate::task::stream::PerStream;
use crate::task::terminal::{ScreenContent, Terminal};
use crate::task::watch::is_echo;

/// One scan of the machine serves all tasks that probe within this time.
const MAX_SCAN_AGE: Duration = Duration::from_millis(40);
/// How much of the newest output may hold a menu.
const MENU_BYTES: u64 = 4096;
/// How long a program that itself shows what is typed may work before it has shown any of it: Erlang
/// loads what it needs for its first line.
const ECHO_PATIENCE: Duration = Duration::from_secs(10);
/// The name of a process that is not shown.
const UNSEEN: &str = "(hidden)";

/// The series of probes of one task.
#[derive(Default)]
pub(crate) struct InputDetection {
    /// The input that the task may wait for; `None` if it takes none.
    source: Option<InputSource>,
    scans: Arc<Scans>,
    phase_offset: Duration,
    /// When the next probe is due; `None` once the task has ended.
    pub(crate) next: Option<Instant>,
    /// No more probes.
    over: bool,
    /// Probes since the last output or input.
    probes_taken: usize,
    /// The next probe is to confirm the last.
    confirming: bool,
    confirmation: Confirmation,
    sightings: Sightings,
    /// The usage of unreadable processes at the last probe, and since when it is unchanged.
    usage: Option<(Vec<Usage>, Instant)>,
    /// The usage of all processes at the last probe, measured while a call is about the task.
    all_usage: Option<Vec<Usage>>,
    /// Whether the program read its input at the last probe.
    reading: Reading,
    /// Whether the prompt of before the last input is shown again.
    prompts: bool,
    evidence: Option<Visibility>,
    /// Whether there may be processes that are not visible.
    may_hide_processes: Option<bool>,
}

/// CPU ticks and context switches of a process, which any user may read.
type Usage = (Identity, u64, Option<u64>);

/// What one probe examines.
struct TreeView<'a> {
    scan: &'a Scan,
    processes: &'a [ProcessInfo],
    /// The process group that holds the terminal.
    foreground: Option<i32>,
    shell: i32,
}

impl TreeView<'_> {
    /// Processes that may ask for input: a terminal serves only its foreground.
    fn candidates(&self) -> Vec<&ProcessInfo> {
        match self.foreground {
            Some(group) => self.group(group),
            None => self.processes.iter().collect(),
        }
    }

    /// Processes of other sessions that may read the terminal, which job control does not prevent.
    /// Every foreground process is their ancestor and waits for them, as with `su -c`.
    fn readers_in_other_sessions(&self) -> Vec<&ProcessInfo> {
        let outside = self.processes.iter().filter(|process| process.session != self.shell);
        let mut outside = outside.peekable();
        let Some(group) = self.foreground.filter(|_| outside.peek().is_some()) else {
            return Vec::new();
        };
        let below: Vec<Vec<i32>> = self
            .group(group)
            .iter()
            .map(|member| self.scan.descendants(member.id.pid))
            .map(|below| below.iter().map(|process| process.id.pid).collect())
            .collect();
        let is_awaited = |process: &&ProcessInfo| {
            !below.is_empty() && below.iter().all(|below| below.contains(&process.id.pid))
        };
        outside.filter(is_awaited).collect()
    }

    /// Whether stopped processes hold up the task: the group that the shell waits for has some, and
    /// every other member is an ancestor of one and waits for it.
    fn is_held_up(&self) -> bool {
        let members = self.group(self.awaited_group());
        let stopped: Vec<i32> = members
            .iter()
            .filter(|member| is_stopped(member))
            .map(|member| member.id.pid)
            .collect();
        !stopped.is_empty()
            && members.iter().all(|member| {
                let pid = member.id.pid;
                let below = || self.scan.descendants(pid);
                stopped.contains(&pid)
                    || below().iter().any(|child| stopped.contains(&child.id.pid))
            })
    }

    /// The living members of a process group of the task's own session.
    fn group(&self, group: i32) -> Vec<&ProcessInfo> {
        let members = self.scan.group(group);
        members.filter(|process| process.session == self.shell).collect()
    }

    /// The process group that the shell waits for, as far as groups show.
    fn awaited_group(&self) -> i32 {
        self.foreground.unwrap_or(self.shell)
    }
}

impl InputDetection {
    pub(super) fn new(
        source: Option<InputSource>,
        (scans, phase_offset): (Arc<Scans>, Duration),
    ) -> InputDetection {
        let mut input_detection =
            InputDetection { source, scans, phase_offset, ..InputDetection::default() };
        input_detection.restart(Instant::now());
        input_detection
    }

    /// Output came, or input or a signal was sent: earlier observations no longer
    /// count. A series that is over does not begin again.
    pub(super) fn restart(&mut self, now: Instant) {
        if self.over {
            return;
        }
        self.confirmation = Confirmation::default();
        self.sightings = Sightings::default();
        self.probes_taken = 0;
        self.confirming = false;
        self.next = Some(self.time_after_pause(now, true));
    }

    /// Ends a rare pause.
    pub(super) fn hasten(&mut self, now: Instant) {
        if let Some(next) = self.next {
            self.next = Some(next.min(self.time_after_pause(now, true)));
        }
    }

    /// The first probes follow fixed pauses, later ones the times that all tasks share. A task that
    /// takes no input has no early probes, and rare ones once it has been silent for long and no
    /// call is about it.
    fn time_after_pause(&self, now: Instant, awaited: bool) -> Instant {
        let common = |pause| self.scans.common_time(now, pause, self.phase_offset);
        match (FIRST_PAUSES.get(self.probes_taken), &self.source) {
            (Some(pause), Some(_)) => now + *pause,
            (_, None) if !awaited && self.probes_taken >= PROBES_BEFORE_RARE => common(RARE_PAUSE),
            _ => common(LATER_PAUSE),
        }
    }

    /// The task has ended: no more probes.
    pub(super) fn stop(&mut self) {
        self.over = true;
        self.next = None;
    }

    /// Probes; returns what this and earlier probes make certain.
    pub(super) fn probe(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        processes: &mut TaskProcesses,
        spools: PerStream<&SpoolWriter>,
    ) -> Detected {
        self.probes_taken += 1;
        let terminal = match task.facts.input {
            Input::Terminal => Some(spawned.output.as_fd()),
            Input::Pipe | Input::None => None,
        };
        let scan = self.scans.recent(MAX_SCAN_AGE);
        let members = processes.known_members(&scan);
        let view = TreeView {
            scan: &scan,
            processes: &members,
            foreground: terminal.and_then(pty::foreground_group),
            shell: spawned.id.pid,
        };
        let conditions = self.sightings.add(sightings(&view), Instant::now());
        let judged = self.judge(&view, task, terminal, spools, processes);
        let mut waiting = self.confirmation.add(&judged);
        if let Some(waiting) = &mut waiting {
            waiting.program = executable::beyond_name(&waiting.reader);
        }
        let unconfirmed = matches!(judged, InputJudgement::Waits(_)) && waiting.is_none()
            || self.sightings.unconfirmed;
        // One try, and then the regular time: a state that comes and goes is never confirmed.
        self.confirming = unconfirmed && !self.confirming;
        let soon = match &judged {
            _ if self.confirming => Some(CONFIRMING_PAUSE),
            InputJudgement::After(rest) => Some(*rest),
            _ => None,
        };
        let now = Instant::now();
        let regular = self.time_after_pause(now, task.state().active_calls > 0);
        self.next = Some(soon.map_or(regular, |pause| regular.min(now + pause)));
        let (active, computes) = self.activity(&members, task);
        // What it printed before it read again is part of its reply.
        let is_unread = || {
            let streams = [Some(&spawned.output), spawned.stderr.as_ref()];
            streams.into_iter().flatten().any(descriptors::has_unread)
        };
        let reads = self.reading != Reading::No && !is_unread();
        let reading = if reads { self.reading } else { Reading::No };
        Detected {
            waiting: waiting.map(Box::new),
            unconfirmed: self.confirming,
            conditions,
            evidence: self.evidence(view.shell),
            active,
            reading,
            prompts: self.prompts,
            computes,
        }
    }

    /// The processes that read the terminal now, or may because they cannot be observed.
    pub(super) fn readers(
        &mut self,
        task: &LiveTask,
        spawned: &Spawned,
        processes: &mut TaskProcesses,
    ) -> Vec<ProcessName> {
        let (Input::Terminal, Some(source)) = (task.facts.input, self.source.clone()) else {
            return Vec::new();
        };
        let scan = self.scans.recent(Duration::ZERO);
        let members = processes.known_members(&scan);
        let view = TreeView {
            scan: &scan,
            processes: &members,
            foreground: pty::foreground_group(spawned.output.as_fd()),
            shell: spawned.id.pid,
        };
        let mut readers = Vec::new();
        let mut waits = Waits::new(Some(&source), view.shell, view.processes);
        let all = view.candidates().into_iter().chain(view.readers_in_other_sessions());
        for process in all.filter(|process| !is_stopped(process)) {
            let waits = waits.read_one(process);
            let may_read =
                |thread: &Thread| *thread == Thread::Unreadable || thread.input_wait().is_some();
            if waits.threads.iter().any(may_read) {
                readers.push(waits.process);
            }
        }
        // Job control does not keep a process of another session from reading.
        let outside = scan.processes().filter(|process| process.session != view.shell);
        for process in outside.filter(|process| !is_stopped(process)) {
            let waits = waits.read_one(process);
            let reads = waits.threads.iter().any(|thread| thread.input_wait().is_some());
            if reads && !readers.contains(&waits.process) {
                readers.push(waits.process);
            }
        }
        // One at a second terminal.
        match self.sample(&view, &source, processes) {
            Sample::Blocked { reader, .. } | Sample::Unseen { reader } => {
                if !readers.contains(&reader) {
                    readers.push(reader);
                }
            }
            Sample::Unreadable { .. } | Sample::NotWaiting => {}
        }
        readers
    }

    /// Whether a process runs, is ready to run, or has run since the last probe, and whether they
    /// have used more than a tick of processor time since. Always true unless a call is about the
    /// task and the task takes input: nothing else needs it.
    fn activity(&mut self, members: &[ProcessInfo], task: &LiveTask) -> (bool, bool) {
        if self.source.is_none() || task.state().active_calls == 0 {
            self.all_usage = None;
            return (true, true);
        }
        let ticks = |usage: &[Usage]| {
            usage.iter().fold(0_u64, |sum, (_, ticks, _)| sum.saturating_add(*ticks))
        };
        let mut done: Vec<Usage> = members.iter().map(usage_of).collect();
        done.sort_unstable();
        let before = self.all_usage.replace(done);
        let is_busy = |process: &ProcessInfo| {
            process.runnable || process.stall_reason == Some(StallReason::DiskSleep)
        };
        // What waits for a processor has work to do, however little it gets done.
        let computes = members.iter().any(|process| process.runnable)
            || match (&before, &self.all_usage) {
                (Some(before), Some(now)) => ticks(now).abs_diff(ticks(before)) > 1,
                _ => true,
            };
        let is_active = before.is_none() || before != self.all_usage || members.iter().any(is_busy);
        (is_active, computes)
    }

    fn judge(
        &mut self,
        view: &TreeView<'_>,
        task: &LiveTask,
        terminal: Option<BorrowedFd<'_>>,
        spools: PerStream<&SpoolWriter>,
        processes: &mut TaskProcesses,
    ) -> InputJudgement {
        let sample = match self.source.clone() {
            Some(source) => self.sample(view, &source, processes),
            None => Sample::NotWaiting,
        };
        // Without a way to see what processes wait in, that none is seen reading says nothing.
        self.reading = match sample.reading() {
            Reading::No if self.evidence(view.shell) != Visibility::default() => Reading::Unknown,
            reading => reading,
        };
        self.prompts = false;
        if sample == Sample::NotWaiting {
            return InputJudgement::Nothing;
        }
        let modes =
            terminal.and_then(pty::input_modes).map(|(echo, canonical)| Modes { echo, canonical });
        let (newest, columns) = {
            let state = task.state();
            (state.last_output, state.columns)
        };
        let silent_for = newest.unwrap_or(task.facts.started.mono).elapsed();
        let unfinished = |spool: &SpoolWriter| {
            let (line_start, end) = (spool.line_start(), spool.end());
            reading::unfinished_line(&spool.reader(), line_start, end, columns)
        };
        let (spool, end) = (spools.output, spools.output.end());
        // Shells and password prompts ask on stderr.
        let last_line = match unfinished(spools.errors) {
            line if line.is_empty() => unfinished(spool),
            line => line,
        };
        let sent = task.state().sent.clone();
        if let Some(sent) = &sent
            && is_without_echo(sent, end.offset, modes, &sample)
            && !task.terminal().is_some_and(Terminal::is_full_screen)
        {
            return InputJudgement::Nothing;
        }
        if let Some(sent) = sent.filter(|_| self.reading == Reading::AmongOthers) {
            self.prompts = is_same_prompt(&last_line, &sent.prompt);
            // The program reads ahead, or its event loop continues, while it carries out a line.
            let is_pending = || {
                let output = reading::newest_text(&spool.reader(), sent.after, end.offset, columns);
                last_line.trim().is_empty() && is_echo(&output, &sent.typed)
            };
            if !self.prompts && !sent.prompt.trim().is_empty() && is_pending() {
                return InputJudgement::Nothing;
            }
        }
        let screen = task.terminal().and_then(Terminal::full_screen);
        let question = match (&screen, task.terminal()) {
            (Some(screen), _) => question_on(screen, screen.view.cursor_visible),
            _ if question::is_whole(&last_line) => None,
            (None, Some(terminal)) => question_on(&terminal.content(), false),
            (None, None) => {
                let from = end.offset.saturating_sub(MENU_BYTES);
                let text = reading::newest_text(&spool.reader(), from, end.offset, columns);
                question::of_menu(text.lines(), false)
            }
        };
        let shown = ShownText {
            last_line: &last_line,
            question: question.as_deref(),
            full_screen: screen
                .as_ref()
                .map(|screen| FullScreen { shows_cursor: screen.view.cursor_visible }),
        };
        judge(&sample, modes, silent_for, shown)
    }

    fn sample(
        &mut self,
        view: &TreeView<'_>,
        source: &InputSource,
        processes: &mut TaskProcesses,
    ) -> Sample {
        let candidates = view.candidates();
        let mut waits = Waits::new(Some(source), view.shell, view.processes);
        let mut unreadable = Vec::new();
        let mut seen = Vec::new();
        // A stopped process reads nothing, although the kernel shows the call that it will
        // continue.
        for process in candidates.iter().filter(|process| !is_stopped(process)) {
            let waits = waits.read_one(process);
            let is_readable = |thread: &Thread| *thread != Thread::Unreadable;
            if !waits.threads.is_empty() && !waits.threads.iter().any(is_readable) {
                unreadable.push(*process);
            }
            seen.push(waits);
        }
        let others = view.readers_in_other_sessions().into_iter();
        let others = others.filter(|process| !is_stopped(process));
        let of_others: Vec<ProcessWaits> = others.map(|process| waits.read_one(process)).collect();
        // A process that passes input on to a second terminal, or waits for it among other
        // events, is considered last.
        let own = strongest(&seen, false);
        let found = own
            .clone()
            .filter(|sample| !is_mixed(sample))
            .or_else(|| strongest(&of_others, false))
            .or_else(|| {
                let (scan, shell) = (view.scan, view.shell);
                reader_at_second_terminal(scan, shell, view.processes, &seen, processes)
            })
            .or_else(|| {
                view.foreground?;
                pinentry(view.scan, &mut waits)
            })
            .or(own);
        if let Some(sample) = found {
            return sample;
        }
        unreadable.sort_by_key(|process| (process.id.started, process.id.pid));
        // Presumably the youngest asks, since the others have started it.
        match unreadable.last() {
            Some(process) => self.unreadable_reader(view.scan, process, &unreadable),
            None => self.hidden_reader(view, &candidates),
        }
    }

    fn unreadable_reader(
        &mut self,
        scan: &Scan,
        youngest: &ProcessInfo,
        all: &[&ProcessInfo],
    ) -> Sample {
        let below: Vec<&ProcessInfo> =
            all.iter().flat_map(|process| scan.descendants(process.id.pid)).collect();
        let relays = below.iter().any(|process| process.session != youngest.session);
        let usage: Vec<Usage> = all.iter().chain(&below).map(|process| usage_of(process)).collect();
        // Only where no process can be read is silence after a plain question a sign of a prompt:
        // on other systems such a line may be ordinary output.
        let is_counted =
            cfg!(target_os = "macos") && usage.iter().all(|(_, _, switches)| switches.is_some());
        let now = Instant::now();
        // A process that waits for a processor is not idle, although its usage is unchanged.
        let works = all.iter().chain(&below).any(|process| process.runnable);
        let since = match &self.usage {
            Some((before, since)) if *before == usage && !works => *since,
            _ => now,
        };
        self.usage = Some((usage, since));
        Sample::Unreadable {
            reader: youngest.label(),
            idle_for: now.duration_since(since),
            relays,
            is_counted,
        }
    }

    /// The process that may wait for input where some processes are not shown.
    fn hidden_reader(&mut self, view: &TreeView<'_>, candidates: &[&ProcessInfo]) -> Sample {
        let hides =
            *self.may_hide_processes.get_or_insert_with(|| processes::visibility_limit().is_some());
        let Some(group) = view.foreground.filter(|_| hides) else {
            return Sample::NotWaiting;
        };
        let is_hidden = |pid: &i32| view.scan.process(*pid).is_none() && signals::lives(*pid);
        let hidden = if candidates.is_empty() {
            signals::group_lives(group).then_some(group)
        } else {
            let children =
                candidates.iter().filter_map(|process| tree::children_of(process.id.pid));
            children.flatten().find(is_hidden)
        };
        hidden.map_or(Sample::NotWaiting, |pid| Sample::Unseen {
            reader: ProcessName { pid, name: UNSEEN.into() },
        })
    }

    /// Determined once, by the shell, which belongs to this user; it does not change while a task
    /// runs.
    fn evidence(&mut self, shell: i32) -> Visibility {
        self.evidence = self.evidence.or_else(|| processes::evidence_of(shell));
        self.evidence.unwrap_or_default()
    }
}

/// The question of the menu on a screen.
fn question_on(screen: &ScreenContent, boxed_only: bool) -> Option<String> {
    question::of_menu(screen.view.rows.iter().map(String::as_str), boxed_only)
}

fn usage_of(process: &ProcessInfo) -> Usage {
    let switches = usage::switches_of_all(process.id.pid);
    (process.id, process.cpu_ticks, switches)
}

/// The conditions that one probe sees.
fn sightings(view: &TreeView<'_>) -> Vec<Sighting> {
    let mut seen = Vec::new();
    let is_held_up = view.is_held_up();
    for member in view.processes {
        let process = member.label();
        let condition = match member.stall_reason {
            Some(StallReason::Stopped(by)) => Condition::Stopped {
                process,
                by,
                holds_up: is_held_up && member.group == view.awaited_group(),
            },
            // Until its child has started another program.
            Some(StallReason::DiskSleep) if waits::is_in_vfork(member) => continue,
            Some(StallReason::DiskSleep) => Condition::DiskSleep { process },
            Some(StallReason::ZombieLeader) => Condition::ZombieLeader { process },
            None => continue,
        };
        let switches = match condition {
            Condition::DiskSleep { .. } => usage::switches(member.id.pid).unwrap_or_default(),
            _ => 0,
        };
        seen.push(Sighting { condition, switches });
    }
    let strangers = view.processes.iter().filter(|member| signals::is_out_of_reach(member.id.pid));
    seen.extend(strangers.map(|member| {
        Sighting {
            condition: Condition::OutOfReach {
                process: member.label(),
                user: processes::user_of(member.id.pid)
                    .unwrap_or_else(|| "another user".to_owned())
                    .into(),
            },
            switches: 0,
        }
    }));
    seen
}

/// Programs whose terminals are held by a server that is not their child.
const MULTIPLEXERS: [&str; 2] = ["tmux", "screen"];
/// The name prefix of all variants of the program that asks for a passphrase.
const PINENTRY: &str = "pinentry";

/// The process that most certainly waits for input.
pub(crate) fn strongest(seen: &[ProcessWaits], at_second_terminal: bool) -> Option<Sample> {
    let certainty = |how: &InputWait| match how {
        InputWait::Reading => 3,
        InputWait::Waiting { timed: false, .. } => 2,
        InputWait::Waiting { timed: true, .. } => 1,
        InputWait::Mixed => 0,
    };
    let mut best: Option<(&ProcessWaits, InputWait)> = None;
    // A watcher accepts keys while it works, whichever of its threads reads them.
    for waits in seen.iter().filter(|waits| !waits.watches_files()) {
        for how in waits.threads.iter().filter_map(Thread::input_wait) {
            if best.is_none_or(|(_, strongest)| certainty(&how) > certainty(&strongest)) {
                best = Some((waits, how));
            }
        }
    }
    best.map(|(waits, how)| Sample::Blocked {
        reader: waits.process.clone(),
        how,
        alone: waits.only_reads(),
        at_second_terminal,
    })
}

/// Whether the process may be waiting for something other than the input.
pub(crate) fn is_mixed(sample: &Sample) -> bool {
    matches!(sample, Sample::Blocked { how: InputWait::Mixed, .. })
}

/// The process that waits at a second terminal. A foreground process holds that terminal's master
/// end and passes the task's input on to it, as `script`, rlwrap and tmux do. `seen` are the
/// waits of the foreground, `members` the task's processes, `shell` its session.
pub(crate) fn reader_at_second_terminal(
    scan: &Scan,
    shell: i32,
    members: &[ProcessInfo],
    seen: &[ProcessWaits],
    processes: &mut TaskProcesses,
) -> Option<Sample> {
    let mut second_terminals = HashSet::new();
    for thread in seen.iter().flat_map(|waits| &waits.threads) {
        if let Thread::Waits { on, .. } = thread
            && on.contains(&WaitSource::Input)
        {
            second_terminals.extend(on.iter().filter_map(|source| match source {
                WaitSource::Master(number) => *number,
                _ => None,
            }));
        }
    }
    let multiplexes = seen.iter().any(|waits| {
        let name = waits.process.name.raw();
        MULTIPLEXERS.iter().any(|known| name.starts_with(known))
    });
    let relatives =
        if multiplexes { processes.living_with_daemons(scan) } else { members.to_vec() };
    let readers = relatives.iter().filter(|process| {
        let is_second = |terminal| multiplexes || second_terminals.contains(&terminal);
        process.session != shell
            && process.group == process.foreground
            && process.terminal.is_some_and(is_second)
            && !is_stopped(process)
    });
    for process in readers {
        let terminal = PathBuf::from(format!("/dev/pts/{}", process.terminal?));
        let source = InputSource::Terminal(terminal);
        let waits = Waits::new(Some(&source), process.session, &relatives).read_one(process);
        if let Some(sample) = strongest(&[waits], true) {
            return Some(sample);
        }
    }
    None
}

/// The program that asks for a passphrase on behalf of gpg-agent, which started it outside the
/// task.
pub(crate) fn pinentry(scan: &Scan, waits: &mut Waits<'_>) -> Option<Sample> {
    let asks = |process: &&ProcessInfo| process.name.starts_with(PINENTRY) && !process.zombie;
    let seen: Vec<ProcessWaits> =
        scan.processes().filter(asks).map(|process| waits.read_one(process)).collect();
    strongest(&seen, false)
}

/// Whether a signal has stopped a process.
pub(crate) fn is_stopped(process: &ProcessInfo) -> bool {
    matches!(process.stall_reason, Some(StallReason::Stopped(_)))
}

/// Whether a program that itself shows what is typed has shown nothing of the last line. Another of its
/// threads works on that line, or is about to, while this one waits for the next.
fn is_without_echo(sent: &SentInput, end: u64, modes: Option<Modes>, sample: &Sample) -> bool {
    let shows_it = modes.is_some_and(|modes| !modes.echo && !modes.canonical);
    let may_work = !matches!(sample, Sample::Blocked { how: InputWait::Reading, .. });
    let is_unshown = end <= sent.after && !sent.typed.is_empty();
    is_unshown && shows_it && may_work && sent.at.elapsed() < ECHO_PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_over_does_not_begin_again() {
        let mut input_detection = InputDetection::new(None, (Arc::default(), Duration::ZERO));
        assert!(input_detection.next.is_some());
        input_detection.stop();
        // Input that was still queued when the shell ended.
        input_detection.restart(Instant::now());
        assert_eq!(input_detection.next, None);
    }

    #[test]
    fn a_call_ends_a_rare_pause() {
        let now = Instant::now();
        let mut input_detection = InputDetection::new(None, (Arc::default(), Duration::ZERO));
        input_detection.probes_taken = PROBES_BEFORE_RARE;
        let rare = input_detection.time_after_pause(now, false);
        assert!(rare >= now + RARE_PAUSE / 2);
        input_detection.next = Some(rare);
        input_detection.hasten(now);
        assert!(input_detection.next.is_some_and(|next| next <= now + LATER_PAUSE * 3 / 2));
        input_detection.stop();
        input_detection.hasten(now);
        assert_eq!(input_detection.next, None);
    }
}
