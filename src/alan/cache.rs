//! What the database knows of a command, kept in memory, so that its next history costs one small
//! read instead of hundreds of rows.
//!
//! A cached command contains times instead of ages, and this server's own runs are added to it as they
//! are recorded. It is valid until others change the history, which the database counts
//! ([`CommandCache`]). Limits: the cached commands of the 16 commands that were asked for last, up to 30 KB
//! each. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use super::estimate::{Estimate, RUNS_CONSIDERED, Sample, can_estimate, suffices_alone};
use super::history::{
    EqualFailures, History, HostHistory, PastRun, RETRY_WINDOW_MINUTES, RemoteHistory, RunPlace,
    UsualCost, failures_after,
};
use super::pattern::CommandPattern;
use super::rows::{SshObservation, Streak, seconds_of};
use super::run::RunRows;
use crate::shell::outcome::Outcome;
use crate::shell::ssh::ExitType;

/// How many of the newest runs of a kind are reported as similar.
pub(super) const SIMILAR: usize = 5;
/// How many of the newest connections to a host, and runs of a remote command, are considered.
pub(super) const TRIES_CONSIDERED: usize = 50;
/// How many cached commands are kept.
const KEPT: usize = 16;

/// One run of the command.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownRun {
    pub(super) outcome: Outcome,
    /// When it ended, in seconds since 1970; 0 if the database has no readable time.
    pub(super) at: f64,
    /// Of its failure. Equal ones in a row share their text.
    pub(super) fingerprint: Option<Arc<str>>,
}

impl KnownRun {
    /// The run of a row. Shares the fingerprint of its neighbour in the list if they are equal.
    pub(super) fn new(
        outcome: Outcome,
        created_at: &str,
        fingerprint: Option<&str>,
        neighbour: Option<&KnownRun>,
    ) -> KnownRun {
        let shared = neighbour.and_then(|run| run.fingerprint.as_ref());
        let fingerprint = fingerprint.map(|text| match shared {
            Some(shared) if **shared == *text => Arc::clone(shared),
            _ => Arc::from(text),
        });
        KnownRun { outcome, at: seconds_of(created_at).unwrap_or_default(), fingerprint }
    }
}

/// One run of this session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SessionRun {
    pub(super) outcome: Outcome,
    /// When it ended, in seconds since 1970.
    pub(super) at: f64,
}

/// Durations of commands of the same kind, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Alike {
    /// Of the kind with its possible subcommand.
    pub(super) subcommand: Vec<Sample>,
    pub(super) template: Vec<Sample>,
}

/// One run of the remote command.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RemoteTry {
    pub(super) host: String,
    /// `None` if the connection failed, otherwise whether the command failed.
    pub(super) failed: Option<bool>,
}

impl RemoteTry {
    /// The try of a row with this [`ExitType::name`].
    pub(super) fn new(host: &str, exit_type: Option<&str>) -> RemoteTry {
        let is = |kind: ExitType| exit_type == Some(kind.name());
        let failed = (!is(ExitType::ConnectionFailed)).then(|| is(ExitType::CommandFailed));
        RemoteTry { host: host.to_owned(), failed }
    }
}

/// The maximum number of runs that say what a command usually costs.
pub(super) const COSTS_CONSIDERED: usize = 9;

/// What a history of a command is made from. Every list is newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CachedCommand {
    pub(super) pattern: CommandPattern,
    /// The time for which the session's runs were read, in seconds since 1970.
    pub(super) read_at: f64,
    /// When the newest run of the command or of its kind ended, in seconds since 1970.
    pub(super) newest_at: f64,
    /// Whether a run was added that ended before that, for example because another server wrote a
    /// newer one first. Only the database then has their order.
    pub(super) is_disordered: bool,
    /// At most [`RUNS_CONSIDERED`].
    pub(super) runs: Vec<KnownRun>,
    /// Durations of the command, at most [`RUNS_CONSIDERED`].
    pub(super) samples: Vec<(Outcome, Sample)>,
    /// CPU time in milliseconds and peak of memory in bytes of the newest runs of which they are
    /// known, at most [`COSTS_CONSIDERED`].
    pub(super) costs: Vec<(i64, Option<i64>)>,
    /// Where the command last succeeded.
    pub(super) last_success: Option<RunPlace>,
    /// Its runs in this session within [`RETRY_WINDOW_MINUTES`] of `read_at`, at most
    /// [`RUNS_CONSIDERED`].
    pub(super) retries: Vec<SessionRun>,
    /// The runs of its kind in the same period, at most [`SIMILAR`].
    pub(super) similar: Vec<SessionRun>,
    /// As [`History::failures`].
    pub(super) failures: u32,
    pub(super) streak: Streak,
    /// Whether a command of its kind has run before.
    pub(super) is_kind_known: bool,
    /// `None` while the durations of the command suffice.
    pub(super) alike: Option<Alike>,
    /// Whether each connection to the host failed, at most [`TRIES_CONSIDERED`].
    pub(super) connections: Vec<bool>,
    /// Runs of the remote command on any host, at most [`TRIES_CONSIDERED`].
    pub(super) remote_tries: Vec<RemoteTry>,
}

/// The time, in seconds since 1970, after which a run counts as a retry at this time.
pub(super) fn retries_since(now: f64) -> f64 {
    now - f64::from(RETRY_WINDOW_MINUTES) * 60.0
}

/// Adds the newest value to a list with a limited length.
fn add_newest<T>(list: &mut Vec<T>, value: T, most: usize) {
    list.truncate(most.saturating_sub(1));
    list.insert(0, value);
}

impl CachedCommand {
    /// Adds a run of this server's session as the newest, wherever it concerns the command.
    pub(super) fn add(&mut self, rows: &RunRows) {
        self.add_observations(rows);
        let recent = &rows.recent;
        let (outcome, at) = (recent.outcome(), recent.timestamp);
        if recent.command_hash == self.pattern.hash {
            add_newest(&mut self.retries, SessionRun { outcome, at }, RUNS_CONSIDERED);
            self.streak.add(outcome, at);
        }
        if recent.command_template.as_ref() == Some(&self.pattern.template) {
            add_newest(&mut self.similar, SessionRun { outcome, at }, SIMILAR);
            self.failures = failures_after(self.failures, outcome);
        }
        if let Some(ssh) = &rows.ssh {
            self.add_ssh(ssh);
        }
    }

    fn add_observations(&mut self, rows: &RunRows) {
        let CachedCommand { pattern, .. } = self;
        for row in &rows.observations {
            let outcome = row.outcome();
            let sample = Sample::from_run(row.duration_ms, outcome);
            let is_of_kind = row.command_template.as_ref() == Some(&pattern.template);
            let is_same = row.command_hash == pattern.hash;
            if is_same || is_of_kind {
                self.is_kind_known = true;
                let at = seconds_of(&row.created_at).unwrap_or_default();
                self.is_disordered |= at < self.newest_at;
                self.newest_at = self.newest_at.max(at);
            }
            if let (Some(alike), Some(sample)) = (&mut self.alike, sample) {
                let kind = &pattern.subcommand_template;
                if is_of_kind {
                    add_newest(&mut alike.template, sample, RUNS_CONSIDERED);
                }
                if kind.is_some() && row.subcommand_template == *kind {
                    add_newest(&mut alike.subcommand, sample, RUNS_CONSIDERED);
                }
            }
            if !is_same {
                continue;
            }
            if let Some(sample) = sample {
                add_newest(&mut self.samples, (outcome, sample), RUNS_CONSIDERED);
            }
            if let Some(cpu) = row.cpu_ms {
                add_newest(&mut self.costs, (cpu, row.peak_bytes), COSTS_CONSIDERED);
            }
            let fingerprint = row.failure_fingerprint.as_deref();
            let run = KnownRun::new(outcome, &row.created_at, fingerprint, self.runs.first());
            add_newest(&mut self.runs, run, RUNS_CONSIDERED);
            if outcome == Outcome::Success {
                let (cwd, git_head) = (row.cwd.clone(), row.git_head.clone());
                self.last_success = Some(RunPlace { cwd, git_head });
            }
        }
    }

    fn add_ssh(&mut self, row: &SshObservation) {
        let Some(ssh) = &self.pattern.ssh else {
            return;
        };
        let exit_type = row.exit_type.as_deref();
        if row.host == ssh.host {
            let failed = exit_type == Some(ExitType::ConnectionFailed.name());
            add_newest(&mut self.connections, failed, TRIES_CONSIDERED);
        }
        let remote = ssh.remote.as_ref().map(|remote| &remote.template);
        if remote.is_some() && row.remote_command_template.as_ref() == remote {
            let tried = RemoteTry::new(&row.host, exit_type);
            add_newest(&mut self.remote_tries, tried, TRIES_CONSIDERED);
        }
    }

    /// Whether a history at this time needs nothing that only the database has. False if the clock
    /// was set back since, if runs that were cut off have replaced too many of those that
    /// completed, or if the order is lost.
    fn suffices(&self, now: f64) -> bool {
        let has_durations = self.alike.is_some() || self.has_enough_durations();
        now >= self.read_at && has_durations && !self.is_disordered
    }

    /// Whether an estimate needs no commands of the same kind.
    pub(super) fn has_enough_durations(&self) -> bool {
        suffices_alone(&self.exact())
    }

    /// The durations of the command.
    fn exact(&self) -> Vec<Sample> {
        self.samples.iter().map(|(_, sample)| *sample).collect()
    }

    /// The history at this time, in seconds since 1970.
    pub(super) fn history(&self, now: f64) -> History {
        let since = retries_since(now);
        let within = |runs: &[SessionRun]| -> Vec<Outcome> {
            let runs = runs.iter().filter(|run| run.at > since);
            runs.map(|run| run.outcome).collect()
        };
        let retries = within(&self.retries);
        let mut equal_failures = EqualFailures::default();
        for run in &self.runs {
            equal_failures.add(run.outcome, run.fingerprint.as_deref());
        }
        let past = |run: &KnownRun| PastRun { outcome: run.outcome, age: now - run.at };
        let ssh = self.pattern.ssh.as_ref();
        let remote = ssh.and_then(|ssh| ssh.remote.as_ref());
        History {
            template: self.pattern.template.clone(),
            runs: self.runs.iter().map(past).collect(),
            equal_failures,
            last_success: self.last_success.clone(),
            similar: if retries.is_empty() { within(&self.similar) } else { Vec::new() },
            retries,
            streak: self.streak.clone(),
            is_first_of_kind: !self.is_kind_known,
            estimate: self.estimate(),
            usual_cost: UsualCost::of(&self.costs),
            host: ssh.map(|ssh| self.host(&ssh.host)),
            remote: remote.map(|remote| self.remote(&remote.template)),
            failures: self.failures,
        }
    }

    /// Estimates how long the command takes from its runs, or from the runs of its kind if there
    /// are too few. Prefers the kind with a possible subcommand if that has enough runs.
    fn estimate(&self) -> Option<Estimate> {
        let exact = self.exact();
        let pattern = &self.pattern;
        let Some(alike) = self.alike.as_ref().filter(|_| !suffices_alone(&exact)) else {
            return Estimate::new(&pattern.template, &exact, &[]);
        };
        match &pattern.subcommand_template {
            Some(kind) if can_estimate(&alike.subcommand) => {
                Estimate::new(kind, &exact, &alike.subcommand)
            }
            _ => Estimate::new(&pattern.template, &exact, &alike.template),
        }
    }

    /// The median duration of the command's successes, in seconds.
    pub(super) fn usual_success(&self) -> Option<f64> {
        let successes = self.samples.iter().filter(|(outcome, _)| *outcome == Outcome::Success);
        let mut successes: Vec<f64> = successes.map(|(_, sample)| sample.seconds).collect();
        successes.sort_by(f64::total_cmp);
        successes.get(successes.len() / 2).copied()
    }

    fn host(&self, host: &str) -> HostHistory {
        HostHistory {
            host: host.to_owned(),
            tries: self.connections.len() as u64,
            failed: self.connections.iter().filter(|failed| **failed).count() as u64,
        }
    }

    fn remote(&self, template: &str) -> RemoteHistory {
        let connected = || self.remote_tries.iter().filter(|tried| tried.failed.is_some());
        let hosts: HashSet<&str> = connected().map(|tried| tried.host.as_str()).collect();
        RemoteHistory {
            template: template.to_owned(),
            runs: connected().count() as u64,
            failed: connected().filter(|tried| tried.failed == Some(true)).count() as u64,
            hosts: hosts.len() as u64,
        }
    }
}

/// The cached commands of the commands that were asked for last, the newest first, each with the number
/// of transactions of others at which it was read. It is valid while they have made no more.
#[derive(Debug, Default)]
pub(super) struct CommandCache {
    kept: Vec<(i64, Arc<CachedCommand>)>,
}

impl CommandCache {
    /// Whether there is a cached command of this command, valid or not.
    pub(super) fn contains(&self, pattern: &CommandPattern) -> bool {
        self.kept.iter().any(|(_, cached)| cached.pattern == *pattern)
    }

    /// The cached command for this time, in seconds since 1970; `None` without a valid one.
    pub(super) fn valid(
        &mut self,
        pattern: &CommandPattern,
        by_others: i64,
        now: f64,
    ) -> Option<Arc<CachedCommand>> {
        let place = self.kept.iter().position(|(_, cached)| cached.pattern == *pattern)?;
        self.kept.get_mut(..=place)?.rotate_right(1);
        let (read_at, cached) = self.kept.first()?;
        let is_valid = *read_at == by_others && cached.suffices(now);
        is_valid.then(|| Arc::clone(cached))
    }

    /// Keeps a cached command instead of an older one of the command.
    pub(super) fn keep(&mut self, by_others: i64, cached: Arc<CachedCommand>) {
        self.kept.retain(|(_, known)| known.pattern != cached.pattern);
        add_newest(&mut self.kept, (by_others, cached), KEPT);
    }

    /// Adds a run of this server to every cached command that it concerns.
    pub(super) fn add(&mut self, rows: &RunRows) {
        for (_, cached) in &mut self.kept {
            Arc::make_mut(cached).add(rows);
        }
    }

    /// Drops all.
    pub(super) fn clear(&mut self) {
        self.kept = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::alan::estimate::{Basis, MIN_EXACT_SAMPLES};
    use crate::alan::rows::unix_seconds;
    use crate::alan::run::tests::{ended, pattern};
    use crate::alan::run::{Ending, Run};
    use crate::text::redact::Redactor;

    fn cached(command: &str) -> CachedCommand {
        let alike = Some(Alike::default());
        CachedCommand { pattern: pattern(command), alike, ..CachedCommand::default() }
    }

    fn rows(command: &str, ending: Ending) -> RunRows {
        let now = SystemTime::now();
        Run::new(ended(command, ending, now), &Redactor::default()).rows("id", "s")
    }

    #[test]
    fn a_cached_command_is_used_until_others_write_or_the_clock_is_set_back() {
        let make = pattern("make");
        let mut kept = CommandCache::default();
        assert_eq!(kept.valid(&make, 7, 1000.0), None);
        kept.keep(7, Arc::new(CachedCommand { read_at: 1000.0, ..cached("make") }));
        assert!(kept.contains(&make));
        assert!(kept.valid(&make, 7, 1000.0).is_some());
        assert_eq!(kept.valid(&make, 8, 1000.0), None, "others have written");
        assert_eq!(kept.valid(&make, 7, 999.0), None, "read for a later time");
        kept.keep(8, Arc::new(cached("make")));
        assert!(kept.valid(&make, 8, 1000.0).is_some(), "replaced");
        kept.clear();
        assert!(!kept.contains(&make));
    }

    #[test]
    fn the_commands_asked_for_last_are_kept() {
        let mut kept = CommandCache::default();
        for number in 0..KEPT {
            kept.keep(0, Arc::new(cached(&number.to_string())));
        }
        assert!(kept.valid(&pattern("0"), 0, 0.0).is_some());
        kept.keep(0, Arc::new(cached("one more")));
        assert!(kept.contains(&pattern("0")), "just asked for");
        assert!(!kept.contains(&pattern("1")) && kept.contains(&pattern("2")));
    }

    #[test]
    fn lists_keep_their_lengths_and_their_newest() {
        let mut known = cached("make");
        for _ in 0..RUNS_CONSIDERED {
            known.add(&rows("make", Ending::Exited(0)));
        }
        known.add(&rows("make", Ending::Exited(2)));
        let history = known.history(unix_seconds(SystemTime::now()));
        assert_eq!((history.runs.len(), history.retries.len()), (RUNS_CONSIDERED, RUNS_CONSIDERED));
        assert_eq!(history.runs.first().map(|run| run.outcome), Some(Outcome::Failure));
        assert_eq!(known.samples.len(), RUNS_CONSIDERED);
        assert_eq!((history.streak.current_streak, history.failures), (-1, 1));
    }

    #[test]
    fn durations_of_the_kind_must_be_read_once_those_of_the_command_no_longer_suffice() {
        let mut known = cached("make");
        for _ in 0..MIN_EXACT_SAMPLES {
            known.add(&rows("make", Ending::Exited(0)));
        }
        known.alike = None;
        assert!(known.suffices(0.0));
        let basis = known.estimate().map(|estimate| estimate.basis);
        assert_eq!(basis, Some(Basis::Exact));
        let after = Duration::from_secs(1);
        for _ in 0..RUNS_CONSIDERED {
            known.add(&rows("make", Ending::Killed { after }));
        }
        assert!(!known.suffices(0.0));
    }

    #[test]
    fn a_run_older_than_the_newest_needs_another_look() {
        let mut known = cached("make");
        known.add(&rows("make", Ending::Exited(0)));
        assert!(known.suffices(0.0));
        let before = SystemTime::now() - Duration::from_secs(60);
        for (command, suffices) in [("ls", true), ("make x", false)] {
            let run = Run::new(ended(command, Ending::Exited(0), before), &Redactor::default());
            known.add(&run.rows("id", "s"));
            assert_eq!(known.suffices(0.0), suffices, "{command}");
        }
    }

    #[test]
    fn equal_fingerprints_in_a_row_share_their_text() {
        let first = KnownRun::new(Outcome::Failure, "", Some("a"), None);
        let second = KnownRun::new(Outcome::Failure, "", Some("a"), Some(&first));
        let texts = first.fingerprint.as_ref().zip(second.fingerprint.as_ref());
        assert!(texts.is_some_and(|(one, other)| Arc::ptr_eq(one, other)));
        let third = KnownRun::new(Outcome::Failure, "", Some("b"), Some(&second));
        assert_eq!(third.fingerprint.as_deref(), Some("b"));
    }
}
