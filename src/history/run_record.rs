//! The record of one run: the command's history from before it, how it ended, and which insights
//! results have already reported.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::git;
use super::identity::CommandIdentity;
use super::manopt::{self, OptionsPolicy};
use super::recently_shown::RecentlyShown;
use crate::alan::history::History;
use crate::alan::insight::after::{self, EndFacts, OutOfMemory};
use crate::alan::insight::{self, Insight, before};
use crate::alan::kill::{KillFacts, KillInsight, classify};
use crate::alan::run::{EndedRun, Ending, Run};
use crate::alan::store::{QueuedRun, Store};
use crate::config::InsightChoice;
use crate::neverhang::{Lease, RunEnd};
use crate::process::memory;
use crate::sandbox::policy::Policy;
use crate::shell::command_line::CommandLine;
use crate::shell::dialect::{Trap, Traps};
use crate::shell::lint::Lint;
use crate::shell::manpage::{self, SHOWN_LINES};
use crate::shell::outcome::Outcome;
use crate::shell::programs::builtins;
use crate::shell::purpose::{self, Prints};
use crate::shell::syntax::failing_command;
use crate::task::completion::{FinishedTask, KillContext, OnEnd};
use crate::task::output::reading;
use crate::task::stream::StreamName;
use crate::text::ansi::{self, Colours};
use crate::text::failures::{self, Change};
use crate::text::redact::Redactor;
use crate::text::signs;

/// The exit code of a shell that has not found a command.
const NOT_FOUND: i32 = 127;
/// The exit code after SIGKILL, which the kernel also sends when memory runs out.
const KILLED: i32 = 137;

pub(crate) struct RecorderSettings {
    pub(crate) store: Store,
    /// When options of failing commands are looked up and shown.
    pub(crate) options: OptionsPolicy,
    /// The time limit of `man`.
    pub(crate) options_time: Duration,
    /// The environment of `man`, which is that of commands.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The sandbox of `man`, if commands have one.
    pub(crate) sandbox: Option<Policy>,
    /// Redacts everything that is recorded.
    pub(crate) redactor: Arc<Redactor>,
}

/// The state that all records share.
pub(super) struct RecordContext {
    pub(crate) settings: RecorderSettings,
    /// Commands whose manual pages have been or are being looked up.
    pub(crate) looked_up: Mutex<HashSet<String>>,
    /// Texts that results have shown recently.
    pub(crate) shown: Mutex<RecentlyShown>,
}

impl RecordContext {
    pub(super) fn without_secrets(&self, trap: Trap) -> Trap {
        trap.map(|text| self.settings.redactor.redact(text).into_owned())
    }
}

/// The record of one run.
pub(crate) struct RunRecord {
    context: Arc<RecordContext>,
    identity: CommandIdentity,
    pitfalls: Vec<Lint>,
    traps: Traps,
    lease: Mutex<Option<Lease>>,
    /// The history from before the run, once it is looked up.
    history: OnceLock<Mutex<Arc<History>>>,
    end: OnceLock<EndFindings>,
    reported: ReportedInsights,
}

/// Which insights results have already reported.
#[derive(Default)]
struct ReportedInsights {
    before: AtomicBool,
    /// A trap that the text shows, while the command ran.
    trap: AtomicBool,
    end: AtomicBool,
    options: AtomicBool,
    kill: AtomicBool,
}

/// Facts about the end of the run.
struct EndFindings {
    facts: EndFacts,
    /// What differs from the failures of the last run in this directory.
    change: Option<Change>,
    /// The trap that has shown.
    trap: Option<Trap>,
    /// From the start to the request that killed it.
    killed_after: Option<Duration>,
    kill_context: Option<KillContext>,
}

impl RunRecord {
    pub(super) fn new(
        context: Arc<RecordContext>,
        identity: CommandIdentity,
        pitfalls: Vec<Lint>,
        traps: Traps,
        lease: Option<Lease>,
    ) -> RunRecord {
        RunRecord {
            context,
            identity,
            pitfalls,
            traps,
            lease: Mutex::new(lease),
            history: OnceLock::new(),
            end: OnceLock::new(),
            reported: ReportedInsights::default(),
        }
    }

    /// The callback for the task's end.
    pub(crate) fn on_end(self: &Arc<RunRecord>) -> OnEnd {
        let run_record = Arc::clone(self);
        Box::new(move |ended| Box::new(run_record.close(ended)))
    }

    /// Releases the lease of a command that was not run after all.
    pub(crate) fn abandon(&self) {
        self.report_to_circuit(RunEnd::Stopped);
    }

    /// The history from before this run. It is looked up once. Call this while the command runs, so
    /// that no caller waits for the look-up.
    pub(crate) fn history(&self) -> Arc<History> {
        // A second caller waits for the first.
        let history = self.history.get_or_init(|| {
            let now = SystemTime::now();
            let found = self.context.settings.store.history(&self.identity.pattern, now);
            Mutex::new(Arc::new(found))
        });
        Arc::clone(&history.lock())
    }

    /// Takes the insights that no result of this run has reported, without tables of options that
    /// results of other runs of the command have recently shown. `is_alone` is set if the result
    /// has no other remarks.
    pub(crate) fn take_new_insights(&self, choice: InsightChoice, is_alone: bool) -> Vec<Insight> {
        // Get the history first: taking the insights about the end drops the part that decides
        // which are useful.
        let history = self.history();
        let may_be_new = is_alone && self.end.get().is_none();
        let mut insights = self.take_insights();
        if choice == InsightChoice::Useful {
            insights = insight::useful(insights, &history, may_be_new);
        }
        let now = Instant::now();
        let hash = &self.identity.pattern.hash;
        insights.retain(|insight| {
            let Insight::Options { table, .. } = insight else {
                return true;
            };
            self.context.shown.lock().is_new(hash, table, now)
        });
        insights
    }

    /// Takes all insights that no result of this run has reported.
    pub(crate) fn take_insights(&self) -> Vec<Insight> {
        let mut insights = Vec::new();
        let history = self.history();
        if !self.reported.before.swap(true, Ordering::Relaxed) {
            insights.extend(before::insights(&history, &self.pitfalls));
            insights.extend(before::memory(&history, memory::available));
            if self.end.get().is_none()
                && let Some(trap) = self.traps.silent()
            {
                self.reported.trap.store(true, Ordering::Relaxed);
                insights.push(Insight::Dialect(self.context.without_secrets(trap)));
            }
            insights.extend(self.options_after(history.failures));
        }
        if let Some(end) = self.end.get()
            && !self.reported.end.swap(true, Ordering::Relaxed)
        {
            let is_new = |trap: &&Trap| {
                !self.reported.trap.load(Ordering::Relaxed)
                    || self.traps.silent().as_ref() != Some(*trap)
            };
            let trap = end.trap.as_ref().filter(is_new).cloned();
            let trap = trap.map(|trap| self.context.without_secrets(trap));
            insights.extend(trap.map(Insight::Dialect));
            insights.extend(self.at_end(&end.facts, &history));
            insights.extend(end.change.clone().map(Insight::Changes));
            if end.facts.outcome == Some(Outcome::Failure) {
                insights.extend(self.options_after(history.failures + 1));
            }
            self.drop_earlier_runs(end.killed_after.is_some());
        }
        insights.extend(self.context.settings.store.take_warnings());
        insights
    }

    /// Takes the insight about a kill, unless a result has reported it. `None` while the command
    /// runs, or if it was not killed.
    pub(crate) fn take_kill_insight(&self) -> Option<KillInsight> {
        let end = self.end.get()?;
        let elapsed = end.killed_after?;
        if self.reported.kill.swap(true, Ordering::Relaxed) {
            return None;
        }
        let template = self.identity.pattern.template.clone();
        let counts = self.context.settings.store.kills(&template);
        let stop = end.kill_context.as_ref();
        let waiting = stop.and_then(|stop| stop.waiting.as_ref());
        Some(classify(KillFacts {
            template,
            elapsed,
            kills: counts.kills,
            runs: counts.runs,
            session_kills: counts.session_kills,
            estimate: self.history().estimate.clone(),
            silent_for: stop.map(|stop| stop.silent_for),
            waiting_at: waiting.map(|waiting| {
                let prompt = waiting.prompt.trim();
                self.context.settings.redactor.redact(prompt).into_owned()
            }),
        }))
    }

    /// Whether results have reported everything.
    pub(super) fn is_settled(&self) -> bool {
        let Some(end) = self.end.get() else {
            return false;
        };
        // About the end of a run that was ended there is at most the insight about a kill.
        let reported = match end.facts.outcome {
            Some(outcome) if outcome.is_complete() => &self.reported.end,
            _ => &self.reported.before,
        };
        let is_kill = end.killed_after.is_some();
        reported.load(Ordering::Relaxed) && (!is_kill || self.reported.kill.load(Ordering::Relaxed))
    }

    /// Drops the earlier runs from memory, since thousands of finished tasks are kept. Once the end
    /// has been reported, only the insight about a kill still needs the estimate.
    fn drop_earlier_runs(&self, is_kill: bool) {
        let history = self.history();
        let mut rest = history.without_runs();
        if is_kill {
            rest.estimate.clone_from(&history.estimate);
        }
        if let Some(history) = self.history.get() {
            *history.lock() = Arc::new(rest);
        }
    }

    fn close(&self, ended: &FinishedTask<'_>) -> QueuedRun {
        // Read the history before this run is added to it.
        let history = self.history();
        let (head, mut tail) = reading::head_and_tail(&ended.spools.output, ended.ends.output);
        if ended.ends.errors.offset > 0 {
            tail.push('\n');
            tail += &reading::head_and_tail(&ended.spools.errors, ended.ends.errors).1;
        }
        let directory = &ended.facts.directory;
        let code = ended.end.exit.code();
        let killed_after = (ended.end.outcome == Outcome::Killed)
            .then(|| ended.kill_context.map_or(ended.end.duration, |asked| asked.elapsed));
        let ending = match (ended.end.outcome, killed_after) {
            (_, Some(after)) => Ending::Killed { after },
            (Outcome::Timeout, _) => Ending::TimedOut(code),
            (Outcome::Interrupted, _) => Ending::Interrupted(code),
            _ => Ending::Exited(code),
        };
        let run = Run::new(
            EndedRun {
                pattern: self.identity.with_segments(&ended.end.pipestatus),
                ending,
                duration: ended.end.duration,
                cpu: ended.end.cost.map(|cost| cost.cpu.total()),
                peak: ended.end.cost.and_then(|cost| cost.peak),
                pipestatus: ended.end.pipestatus.clone(),
                output_head: &head,
                output_tail: &tail,
                cwd: Some(directory.to_string_lossy().into_owned()),
                git_head: git::head(directory),
                at: SystemTime::now(),
            },
            &self.context.settings.redactor,
        );
        let change = self.change_of_failures(ended, &run, &tail);
        let queued = self.context.settings.store.record(&run);
        self.report_to_circuit(run_end(ended));
        if run.outcome == Outcome::Failure {
            self.look_up_options(history.failures + 1, &ended.end.pipestatus);
        }
        let out_of_memory = (code == KILLED).then(|| out_of_memory(ended)).flatten();
        let is_silent = ended.ends.output.offset + ended.ends.errors.offset == 0;
        let facts = end_facts(&self.identity, run, is_silent, out_of_memory);
        let _ = self.end.set(EndFindings {
            facts,
            change,
            trap: self.trap_shown(ended),
            killed_after,
            kill_context: ended.kill_context.cloned(),
        });
        queued
    }

    /// What differs from the failures of the last run in this directory, of which the names are kept
    /// for the next. Only runs that test or build something have any: they print a summary, or name
    /// what failed. Of a part of their output, as `tail` gives it, nothing follows.
    fn change_of_failures(
        &self,
        ended: &FinishedTask<'_>,
        run: &Run<'_>,
        tail: &str,
    ) -> Option<Change> {
        if !ended.end.outcome.is_complete() {
            return None;
        }
        // An exit code of 0 may be that of a pipeline in which the tests failed.
        let sums_up = signs::sums_up(tail);
        if ended.end.exit.code() == 0 && !sums_up {
            return None;
        }
        let command = CommandLine::parse(&*ended.facts.command);
        if purpose::prints(&command) == Prints::Data || purpose::cuts_output(&command) {
            return None;
        }
        let names = self.failed_names(ended);
        if names.is_empty() && !sums_up {
            return None;
        }
        let (store, hash) = (&self.context.settings.store, &self.identity.pattern.hash);
        let cwd = run.ended.cwd.as_deref()?;
        let before = store.failures(hash, cwd);
        store.put_failures(hash, cwd, &names, run.ended.at);
        let change = Change::between(&before?, &names);
        (!change.is_none()).then_some(change)
    }

    /// What the output names as failed, without secrets.
    fn failed_names(&self, ended: &FinishedTask<'_>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let may_matter = |output: &[u8]| signs::possible(output).next().is_some();
        let mut read = |line: &[u8]| {
            if signs::possible(line).next().is_none() {
                return ControlFlow::Continue(());
            }
            let line = ansi::readable(line, Colours::Drop, None);
            names.extend(failures::name_in(&line));
            if names.len() < failures::MOST_NAMES {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        visit_newest(ended, may_matter, &mut read);
        // All at once, since each text costs as much as many lines.
        let names: Vec<String> = names.into_iter().collect();
        let redacted = self.context.settings.redactor.redact(&names.join("\n")).into_owned();
        redacted.lines().map(str::to_owned).collect()
    }

    /// The trap that has shown in a run that has ended by itself.
    fn trap_shown(&self, ended: &FinishedTask<'_>) -> Option<Trap> {
        if !ended.end.outcome.is_complete() {
            return None;
        }
        let mut reports = self.traps.reports();
        if self.traps.needs_output() {
            let may_matter = |output: &[u8]| self.traps.may_report(output);
            let mut read = |line: &[u8]| {
                let is_enough =
                    self.traps.may_report(line) && reports.read(&String::from_utf8_lossy(line));
                if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            visit_newest(ended, may_matter, &mut read);
        }
        let fails = ended.end.pipestatus.iter().any(|status| *status != 0);
        reports.after(ended.end.exit.code(), fails)
    }

    fn at_end(&self, facts: &EndFacts, history: &History) -> Vec<Insight> {
        let nearest = nearest_program(&self.context.settings.store, facts);
        after::insights(facts, nearest.as_deref(), history)
    }

    fn report_to_circuit(&self, end: RunEnd) {
        let lease = self.lease.lock().take();
        let (pattern, now) = (&self.identity.pattern, SystemTime::now());
        self.context.settings.store.circuit_report(pattern, end, lease.as_ref(), now);
    }

    // Options.

    /// The options of the failing command, once, after enough consecutive failures.
    fn options_after(&self, failures: u32) -> Option<Insight> {
        if !self.context.settings.options.is_to_show(failures)
            || self.reported.options.load(Ordering::Relaxed)
        {
            return None;
        }
        let pipestatus = self.end.get().map_or(&[][..], |end| &end.facts.pipestatus);
        let command = failing_command(&self.identity.redacted, pipestatus)?.join(" ");
        let table = self.context.settings.store.options(&command)?;
        self.reported.options.store(true, Ordering::Relaxed);
        Some(Insight::Options {
            command,
            table: manpage::present(&table, &self.identity.flags(), SHOWN_LINES)
                .trim_end()
                .to_owned(),
        })
    }

    fn look_up_options(&self, failures: u32, pipestatus: &[i32]) {
        if !self.context.settings.options.is_to_look_up(failures) {
            return;
        }
        let Some(words) = failing_command(&self.identity.redacted, pipestatus) else {
            return;
        };
        let command = words.join(" ");
        let context = Arc::clone(&self.context);
        if !context.looked_up.lock().insert(command.clone())
            || context.settings.store.options(&command).is_some()
        {
            return;
        }
        let key = command.clone();
        let store = move |found: Result<manopt::OptionTable, manopt::ManoptError>| match found {
            Ok(table) => context.settings.store.put_options(&key, &table.text, SystemTime::now()),
            Err(error) => {
                tracing::debug!("no options of {key}: {error}");
                if !error.is_lasting() {
                    context.looked_up.lock().remove(&key);
                }
            }
        };
        let settings = &self.context.settings;
        let (environment, sandbox) = (settings.environment.clone(), settings.sandbox.clone());
        let time = settings.options_time;
        if let Err(error) = manopt::in_background(words, environment, sandbox, time, store) {
            tracing::debug!("cannot start a thread to look options up: {error}");
            self.context.looked_up.lock().remove(&command);
        }
    }
}

/// Details of an out-of-memory kill, if the kernel has killed a process for lack of memory since soon
/// after the command began.
fn out_of_memory(ended: &FinishedTask<'_>) -> Option<OutOfMemory> {
    let (before, now) = (ended.memory_kills_at_start?, memory::out_of_memory_kills());
    let limit = || before.has_grown_in_group(now).then(memory::group_limit).flatten();
    before.has_grown(now).then(|| OutOfMemory {
        highest: Some(ended.memory_peak).filter(|bytes| *bytes > 0),
        limit: limit(),
    })
}

/// The facts from which the insights about a run's end are derived. `silent` is set if it printed
/// nothing.
pub(super) fn end_facts(
    identity: &CommandIdentity,
    run: Run<'_>,
    silent: bool,
    out_of_memory: Option<OutOfMemory>,
) -> EndFacts {
    let exit_code = run.ended.ending.exit_code();
    let tail = run.ended.output_tail;
    let missing = (exit_code == NOT_FOUND).then(|| after::missing_command(tail)).flatten();
    let segments = run.ended.pattern.segments.iter();
    EndFacts {
        outcome: Some(run.outcome),
        exit_code,
        time_limited: identity.is_time_limited,
        ssh: run.ended.pattern.ssh.is_some(),
        segment_programs: segments.map(|segment| segment.program.clone()).collect(),
        silent,
        missing: missing.map(str::to_owned),
        out_of_memory,
        place: run.place(),
        program: run.program,
        fingerprint: run.fingerprint,
        pipestatus: run.ended.pipestatus,
    }
}

/// The known program whose name is nearest to the one that was not found.
pub(super) fn nearest_program(store: &Store, facts: &EndFacts) -> Option<String> {
    let missing = facts.missing.as_deref()?;
    let known = store.programs();
    let names = known.iter().map(String::as_str).chain(builtins().map(|name| name as &str));
    after::nearest(missing, names).map(str::to_owned)
}

fn run_end(ended: &FinishedTask<'_>) -> RunEnd {
    match ended.end.outcome {
        Outcome::Success | Outcome::Failure => RunEnd::Finished,
        Outcome::Killed | Outcome::Interrupted => RunEnd::Stopped,
        Outcome::Timeout => RunEnd::TimedOut {
            allowed: ended.facts.timeout.unwrap_or(ended.end.duration).as_secs_f64(),
            usual: None,
            waited_for_input: ended.kill_context.is_some_and(|asked| asked.waiting.is_some()),
        },
    }
}

/// Visits the newest lines of each stream, as [`reading::visit_newest`] does.
fn visit_newest(
    ended: &FinishedTask<'_>,
    may_matter: impl Fn(&[u8]) -> bool,
    visit: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
) {
    for name in [StreamName::Output, StreamName::Errors] {
        let (spool, end) = (ended.spools.get(name), *ended.ends.get(name));
        if let Err(error) = reading::visit_newest(spool, end, &may_matter, &mut *visit) {
            tracing::debug!("cannot read the output of {}: {error}", ended.facts.id);
        }
    }
}
