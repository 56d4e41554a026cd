//! The account of one command: what was remembered of it when it began, what it came to,
//! and what of both a result has told.

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::pattern::Known;
use super::repetition::Repetition;
use super::{git, manopt};
use crate::alan::fingerprint::Fingerprint;
use crate::alan::history::{History, Place};
use crate::alan::insight::after::{self, EndFacts};
use crate::alan::insight::{Insight, before};
use crate::alan::kill::{KillFacts, KillInsight, classify};
use crate::alan::options::OptionsPolicy;
use crate::alan::outcome::{Ending, Outcome};
use crate::alan::run::{self, Run};
use crate::alan::store::Store;
use crate::neverhang::{Lease, RunEnd};
use crate::process::memory;
use crate::shell::lint::Lint;
use crate::shell::manpage::{self, SHOWN_LINES};
use crate::shell::programs::builtins;
use crate::shell::syntax::failing_command;
use crate::task::ending::{Circumstances, Ended, OnEnd};
use crate::task::reading;
use crate::task::state;
use crate::text::redact::Redactor;

/// The exit code of a shell that has not found a command.
const NOT_FOUND: i32 = 127;
/// The exit code that SIGKILL makes, which is also how the kernel gets memory back.
const KILLED: i32 = 137;

/// What all accounts have in common.
pub(super) struct Common {
    pub store: Store,
    pub redactor: Arc<Redactor>,
    pub options: OptionsPolicy,
    /// How long a manual page may take.
    pub options_time: Duration,
    /// The environment in which it is read.
    pub environment: Vec<(OsString, OsString)>,
    /// Commands whose manual pages have been looked for: at once is once enough, and
    /// what has no page will not get one.
    pub looked_up: Mutex<HashSet<String>>,
    /// What results have told lately.
    pub repetition: Mutex<Repetition>,
}

/// The account of one command.
pub struct Account {
    common: Arc<Common>,
    known: Known,
    pitfalls: Vec<Lint>,
    lease: Mutex<Option<Lease>>,
    /// Processes that the kernel had ended for want of memory when the command began.
    out_of_memory: Option<u64>,
    /// What was remembered before, once it has been looked up.
    history: Mutex<Arc<OnceLock<Arc<History>>>>,
    end: OnceLock<Learned>,
    told: Told,
}

/// What a result has told already.
#[derive(Default)]
struct Told {
    before: AtomicBool,
    end: AtomicBool,
    options: AtomicBool,
    kill: AtomicBool,
}

/// What was learned at the end.
struct Learned {
    ending: Ending,
    outcome: Outcome,
    /// The program whose exit status it is.
    program: Option<String>,
    pipestatus: Vec<i32>,
    /// The programs of these segments.
    segment_programs: Vec<Option<String>>,
    silent: bool,
    /// The name of a command that was not found.
    missing: Option<String>,
    out_of_memory: bool,
    fingerprint: Option<Fingerprint>,
    place: Place,
    asked: Option<Circumstances>,
}

impl Account {
    pub(super) fn new(
        common: Arc<Common>,
        known: Known,
        pitfalls: Vec<Lint>,
        lease: Option<Lease>,
    ) -> Account {
        Account {
            common,
            known,
            pitfalls,
            lease: Mutex::new(lease),
            out_of_memory: memory::out_of_memory_kills(),
            history: Mutex::default(),
            end: OnceLock::new(),
            told: Told::default(),
        }
    }

    /// What takes the task's end in.
    pub fn on_end(self: &Arc<Account>) -> OnEnd {
        let account = Arc::clone(self);
        Box::new(move |ended| account.close(ended))
    }

    /// The command was not run after all.
    pub fn abandon(&self) {
        self.report_to_circuit(RunEnd::Stopped);
    }

    /// What was remembered of the command before this run. Looked up once; to be called
    /// while the command runs, so that nobody waits for it.
    pub fn history(&self) -> Arc<History> {
        // The database is asked without the lock; who comes second waits for the first.
        let history = Arc::clone(&self.history.lock());
        Arc::clone(history.get_or_init(|| {
            let now = SystemTime::now();
            Arc::new(self.common.store.history(&self.known.pattern, now))
        }))
    }

    /// What there is to say and no result has said yet; a table of options is not told
    /// again word for word by the next runs of the command.
    pub fn take_news(&self) -> Vec<Insight> {
        let mut insights = self.take_insights();
        let now = Instant::now();
        let hash = &self.known.pattern.hash;
        insights.retain(|insight| {
            let Insight::Options { table, .. } = insight else {
                return true;
            };
            self.common.repetition.lock().is_new(hash, table, now)
        });
        insights
    }

    /// What there is to say and no result of this run has said yet.
    pub fn take_insights(&self) -> Vec<Insight> {
        let mut insights = Vec::new();
        let history = self.history();
        if !self.told.before.swap(true, Ordering::Relaxed) {
            insights.extend(before::insights(&history, &self.pitfalls));
            insights.extend(self.options_after(history.failures));
        }
        if let Some(end) = self.end.get()
            && !self.told.end.swap(true, Ordering::Relaxed)
        {
            insights.extend(self.at_end(end, &history));
            if end.outcome == Outcome::Failure {
                insights.extend(self.options_after(history.failures + 1));
            }
            self.let_runs_go(&end.ending);
        }
        insights.extend(self.common.store.take_warning());
        insights
    }

    /// What there is to say about a kill and no result has said yet; none while the
    /// command runs, or when it ended in another way.
    pub fn take_kill_insight(&self) -> Option<KillInsight> {
        let end = self.end.get()?;
        let Ending::Killed { after } = end.ending else {
            return None;
        };
        if self.told.kill.swap(true, Ordering::Relaxed) {
            return None;
        }
        let template = self.known.pattern.template.clone();
        let counts = self.common.store.kills(&template);
        let asked = end.asked.as_ref();
        let waiting = asked.and_then(|asked| asked.waiting.as_ref());
        Some(classify(KillFacts {
            template,
            elapsed: after,
            kills: counts.kills,
            runs: counts.runs,
            session_kills: counts.session_kills,
            estimate: self.history().estimate.clone(),
            silent_for: asked.map(|asked| asked.silent_for),
            waiting_at: waiting.map(|waiting| {
                let prompt = waiting.prompt.trim();
                self.common.redactor.redact(prompt).into_owned()
            }),
        }))
    }

    /// Forgets the runs before this one, which nothing is said of after its end has been
    /// told, but how early or late a kill was: finished tasks are kept by the thousand.
    fn let_runs_go(&self, ending: &Ending) {
        let history = self.history();
        let mut rest = history.without_runs();
        if let Ending::Killed { .. } = ending {
            rest.estimate.clone_from(&history.estimate);
        }
        *self.history.lock() = Arc::new(OnceLock::from(Arc::new(rest)));
    }

    fn close(&self, ended: &Ended<'_>) {
        // The history is to be that from before this run.
        let history = self.history();
        let (head, tail) = reading::head_and_tail(ended.output, ended.output_end);
        let directory = &ended.facts.directory;
        let code = ended.end.exit.code();
        let ending = ending(ended);
        let run = Run::new(
            run::Ended {
                pattern: self.known.with_segments(&ended.end.pipestatus),
                ending,
                duration: ended.end.duration,
                pipestatus: ended.end.pipestatus.clone(),
                output_head: &head,
                output_tail: &tail,
                cwd: Some(directory.to_string_lossy().into_owned()),
                git_head: git::head(directory),
                at: SystemTime::now(),
            },
            &self.common.redactor,
        );
        self.common.store.record(&run);
        self.report_to_circuit(run_end(ended));
        if run.outcome == Outcome::Failure {
            self.look_options_up(history.failures + 1, &ended.end.pipestatus);
        }
        let missing = (code == NOT_FOUND)
            .then(|| after::missing_command(&tail).map(str::to_owned))
            .flatten();
        let segments = run.pattern.segments.iter();
        let learned = Learned {
            segment_programs: segments.map(|segment| segment.program.clone()).collect(),
            ending,
            outcome: run.outcome,
            program: run.program.clone(),
            pipestatus: ended.end.pipestatus.clone(),
            silent: ended.output_end.offset == 0,
            missing,
            out_of_memory: code == KILLED && self.ran_out_of_memory(),
            place: run.place(),
            fingerprint: run.fingerprint,
            asked: ended.asked.cloned(),
        };
        let _ = self.end.set(learned);
    }

    fn at_end(&self, end: &Learned, history: &History) -> Vec<Insight> {
        let nearest = end.missing.as_deref().and_then(|missing| {
            let known = self.common.store.programs();
            let names = known
                .iter()
                .map(String::as_str)
                .chain(builtins().map(|name| name as &str));
            after::nearest(missing, names).map(str::to_owned)
        });
        let pattern = &self.known.pattern;
        let facts = EndFacts {
            outcome: Some(end.outcome),
            exit_code: end.ending.exit_code(),
            program: end.program.as_deref(),
            time_limited: self.known.is_time_limited,
            ssh: pattern.ssh.is_some(),
            pipestatus: &end.pipestatus,
            segment_programs: &end.segment_programs,
            silent: end.silent,
            nearest: nearest.as_deref(),
            out_of_memory: end.out_of_memory,
            fingerprint: end.fingerprint.as_ref(),
            place: end.place.clone(),
        };
        after::insights(&facts, history)
    }

    fn report_to_circuit(&self, end: RunEnd) {
        let lease = self.lease.lock().take();
        let (pattern, now) = (&self.known.pattern, SystemTime::now());
        self.common
            .store
            .circuit_report(pattern, end, lease.as_ref(), now);
    }

    /// Whether the kernel has ended a process for want of memory since the command began.
    fn ran_out_of_memory(&self) -> bool {
        self.out_of_memory.is_some() && memory::out_of_memory_kills() > self.out_of_memory
    }

    // Options.

    /// The options of the failing command, told once, after so many failures in a row.
    fn options_after(&self, failures: u32) -> Option<Insight> {
        if !self.common.options.is_to_show(failures) || self.told.options.load(Ordering::Relaxed) {
            return None;
        }
        let pipestatus = self.end.get().map_or(&[][..], |end| &end.pipestatus);
        let command = failing_command(&self.known.redacted, pipestatus)?.join(" ");
        let table = self.common.store.options(&command)?;
        self.told.options.store(true, Ordering::Relaxed);
        Some(Insight::Options {
            command,
            table: manpage::present(&table, &self.known.flags(), SHOWN_LINES)
                .trim_end()
                .to_owned(),
        })
    }

    fn look_options_up(&self, failures: u32, pipestatus: &[i32]) {
        if !self.common.options.is_to_look_up(failures) {
            return;
        }
        let Some(words) = failing_command(&self.known.redacted, pipestatus) else {
            return;
        };
        let command = words.join(" ");
        if !self.common.looked_up.lock().insert(command.clone()) {
            return;
        }
        let common = Arc::clone(&self.common);
        let key = command.clone();
        let store = move |found: Result<manopt::OptionTable, manopt::ManoptError>| match found {
            Ok(table) => common
                .store
                .put_options(&key, &table.text, SystemTime::now()),
            Err(error) if error.is_lasting() => tracing::debug!("no options of {key}: {error}"),
            Err(error) => {
                tracing::debug!("options of {key}: {error}");
                common.looked_up.lock().remove(&key);
            }
        };
        if self.common.store.options(&command).is_some() {
            return;
        }
        let (environment, time) = (self.common.environment.clone(), self.common.options_time);
        if let Err(error) = manopt::in_background(words, environment, time, store) {
            tracing::debug!("no thread to look options up: {error}");
            self.common.looked_up.lock().remove(&command);
        }
    }
}

fn ending(ended: &Ended<'_>) -> Ending {
    let code = ended.end.exit.code();
    match ended.end.outcome {
        state::Outcome::Success | state::Outcome::Failure => Ending::Exited(code),
        state::Outcome::Timeout => Ending::TimedOut(code),
        state::Outcome::Killed => Ending::Killed {
            after: ended
                .asked
                .map_or(ended.end.duration, |asked| asked.elapsed),
        },
        state::Outcome::Interrupted => Ending::Interrupted(code),
    }
}

fn run_end(ended: &Ended<'_>) -> RunEnd {
    match ended.end.outcome {
        state::Outcome::Success | state::Outcome::Failure => RunEnd::Finished,
        state::Outcome::Killed | state::Outcome::Interrupted => RunEnd::Stopped,
        state::Outcome::Timeout => RunEnd::TimedOut {
            allowed: ended
                .facts
                .timeout
                .unwrap_or(ended.end.duration)
                .as_secs_f64(),
            usual: None,
            waited_for_input: ended.asked.is_some_and(|asked| asked.waiting.is_some()),
        },
    }
}
