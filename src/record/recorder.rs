//! Where tasks meet what is remembered: every face asks here before it runs a command,
//! and finds here what is to be said of one that runs.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::account::{Account, Common};
use super::pattern::Known;
use crate::alan::options::OptionsPolicy;
use crate::alan::store::{self, Store};
use crate::neverhang::{Decision, Refusal};
use crate::shell::lint::lints;
use crate::task::live::LiveTask;
use crate::text::redact::Redactor;

/// Accounts are looked through for those of forgotten tasks when there are so many.
const FEWEST_TO_TIDY: usize = 64;

/// What a recorder needs.
pub struct Settings {
    /// The store.
    pub store: store::Settings,
    /// When options of failing commands are looked up and shown.
    pub options: OptionsPolicy,
    /// How long a manual page may take.
    pub options_time: Duration,
    /// The environment in which it is read: that of commands.
    pub environment: Vec<(OsString, OsString)>,
    /// Takes secrets out of all that is remembered.
    pub redactor: Arc<Redactor>,
}

/// Remembers what commands do.
pub struct Recorder {
    common: Arc<Common>,
    accounts: Mutex<Accounts>,
}

#[derive(Default)]
struct Accounts {
    by_task: HashMap<String, (Weak<LiveTask>, Arc<Account>)>,
    tidy_at: usize,
}

/// A command that has timed out again and again, and is not run for a while.
#[derive(Debug, thiserror::Error)]
#[error(
    "NEVERHANG: not run. `{preview}` timed out {} times, {longest}{when}. Run it in parts or \
     with background: true, or close its circuit with zsh_neverhang_reset",
    .refusal.timeouts
)]
pub struct Refused {
    preview: String,
    longest: String,
    when: String,
    /// The numbers.
    pub refusal: Refusal,
}

impl Recorder {
    /// A recorder; its database is opened when it is first needed.
    pub fn new(settings: Settings) -> Recorder {
        Recorder {
            common: Arc::new(Common {
                store: Store::open(settings.store),
                redactor: settings.redactor,
                options: settings.options,
                options_time: settings.options_time,
                environment: settings.environment,
                looked_up: Mutex::new(HashSet::new()),
                repetition: Mutex::default(),
            }),
            accounts: Mutex::default(),
        }
    }

    /// What is remembered.
    pub fn store(&self) -> &Store {
        &self.common.store
    }

    pub(super) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// What a command is known by here.
    pub fn known(&self, command: &str) -> Known {
        Known::of(command, &self.common.redactor)
    }

    /// Begins the account of a command that is about to run with this time limit.
    ///
    /// # Errors
    /// When its circuit is open: it is not to be run.
    pub fn begin(
        &self,
        command: &str,
        deadline: Option<Duration>,
        has_terminal: bool,
    ) -> Result<Arc<Account>, Refused> {
        let known = self.known(command);
        let now = SystemTime::now();
        let store = &self.common.store;
        let lease = match store.circuit_check_and_lease(&known.pattern, now, deadline) {
            Decision::Allow => None,
            Decision::Probe(lease) => Some(lease),
            Decision::Refuse(refusal) => return Err(Refused::new(&known, refusal)),
        };
        let pitfalls = lints(&known.redacted, has_terminal);
        let common = Arc::clone(&self.common);
        Ok(Arc::new(Account::new(common, known, pitfalls, lease)))
    }

    /// Begins the account of an agent that is about to run in a role. It is known as
    /// `agent:EXECUTOR:ROLE` and by nothing of its prompt; no circuit refuses it, since
    /// no deadline ends it.
    pub fn begin_agent(&self, executor: &str, role: &str) -> Arc<Account> {
        let known = Known::named(&format!("agent:{executor}:{role}"));
        let common = Arc::clone(&self.common);
        Arc::new(Account::new(common, known, Vec::new(), None))
    }

    /// Keeps the account of a task, as long as the task is known.
    pub fn follow(&self, task: &Arc<LiveTask>, account: &Arc<Account>) {
        let entry = (Arc::downgrade(task), Arc::clone(account));
        let mut accounts = self.accounts.lock();
        if accounts.by_task.len() >= accounts.tidy_at.max(FEWEST_TO_TIDY) {
            accounts
                .by_task
                .retain(|_, (task, _)| task.strong_count() > 0);
            accounts.tidy_at = accounts.by_task.len() * 5 / 4;
        }
        accounts.by_task.insert(task.facts.id.clone(), entry);
    }

    /// The account of a task.
    pub fn account(&self, task: &str) -> Option<Arc<Account>> {
        let accounts = self.accounts.lock();
        let (_, account) = accounts.by_task.get(task)?;
        Some(Arc::clone(account))
    }

    /// Writes what is queued and ends the store's thread.
    pub fn close(&self) {
        self.common.store.close();
    }
}

impl Refused {
    fn new(known: &Known, refusal: Refusal) -> Refused {
        let longest = refusal.longest.map_or_else(String::new, |seconds| {
            let enough = (2.0 * seconds).ceil();
            format!("given {seconds} s at most (timeout={enough} is let through); ")
        });
        let seconds = refusal.retry_in.ceil();
        let when = if refusal.probing {
            format!("another run is being tried, at most {seconds:.0} s more")
        } else {
            format!("the next try is in {seconds:.0} s")
        };
        Refused {
            preview: known.pattern.preview.clone(),
            longest,
            when,
            refusal,
        }
    }
}
