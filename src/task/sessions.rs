//! Named sessions: the directory and the exported variables that a command leaves to the next one
//! of the same name. They are kept in memory only. Pure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sandbox::policy::Policy;

/// The maximum number of sessions; the least recently used one is forgotten.
const MAX_SESSIONS: usize = 32;
/// Variables of one shell that the next does not get.
pub(super) const OF_THE_SHELL: [&str; 4] = ["_", "OLDPWD", "PWD", "SHLVL"];

/// The variables of an environment, with their values.
pub(crate) type Variables = Vec<(OsString, OsString)>;

/// The variable in a `NAME=VALUE` entry of an environment.
pub(super) fn variable(entry: &[u8]) -> Option<(OsString, OsString)> {
    let (name, value) = entry.split_at(entry.iter().position(|byte| *byte == b'=')?);
    let text = |bytes| OsStr::from_bytes(bytes).to_owned();
    Some((text(name), text(value.get(1..)?)))
}

/// What the commands of one session have left so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Session {
    pub(crate) directory: Option<PathBuf>,
    /// Variables that were set or, without a value, unset.
    changed: BTreeMap<OsString, Option<OsString>>,
}

/// A report of a shell at its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ShellEnd<'a> {
    pub(crate) directory: Option<&'a Path>,
    pub(crate) variables: &'a [(OsString, OsString)],
}

impl Session {
    /// Changes the environment that a command starts with.
    pub(crate) fn apply(&self, environment: &mut Variables) {
        environment.retain(|(name, _)| !self.changed.contains_key(name));
        let set = self.changed.iter();
        environment.extend(set.filter_map(|(name, value)| Some((name.clone(), value.clone()?))));
    }

    /// The session after a command that started in this one with `started_with`. It records only
    /// variables that the command has changed, not those that the call has added.
    pub(crate) fn after(
        &self,
        started_with: &[(OsString, OsString)],
        end: &ShellEnd<'_>,
    ) -> Session {
        let is_kept = |name: &OsStr| !OF_THE_SHELL.iter().any(|other| name == *other);
        let before: BTreeMap<&OsString, &OsString> =
            started_with.iter().map(|(name, value)| (name, value)).collect();
        let after: BTreeMap<&OsString, &OsString> =
            end.variables.iter().map(|(name, value)| (name, value)).collect();
        let mut next = self.clone();
        for (name, value) in &after {
            if is_kept(name) && before.get(name) != Some(value) {
                next.changed.insert((*name).clone(), Some((*value).clone()));
            }
        }
        for name in before.keys() {
            if is_kept(name) && !after.contains_key(name) {
                next.changed.insert((*name).clone(), None);
            }
        }
        next.directory = end.directory.map(Path::to_path_buf).or(next.directory);
        next
    }
}

/// The sessions of a server, the most recently used last. Commands in different sandboxes have nothing in
/// common: what one exports, such as PATH, decides what the next one runs.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Vec<(String, Policy, Arc<Session>)>);

impl Sessions {
    /// The present state of a session for commands with this policy; a new one is empty.
    pub(crate) fn get(&mut self, name: &str, policy: &Policy) -> Arc<Session> {
        let position = self.0.iter().position(|(known, of, _)| known == name && of == policy);
        let session = position.map(|position| self.0.remove(position).2).unwrap_or_default();
        self.put(name, policy, Arc::clone(&session));
        session
    }

    /// Replaces a session.
    pub(crate) fn put(&mut self, name: &str, policy: &Policy, session: Arc<Session>) {
        self.0.retain(|(known, of, _)| known != name || of != policy);
        if self.0.len() >= MAX_SESSIONS {
            self.0.remove(0);
        }
        self.0.push((name.to_owned(), policy.clone(), session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_command_changes_what_it_has_set_and_unset() {
        let started = variables(&[("KEPT", "1"), ("GONE", "1"), ("OWN", "call"), ("SHLVL", "1")]);
        let ended = variables(&[("KEPT", "1"), ("NEW", "a\nb"), ("OWN", "call"), ("SHLVL", "2")]);
        let end = ShellEnd { directory: Some(Path::new("/tmp")), variables: &ended };
        let session = Session::default().after(&started, &end);
        assert_eq!(session.directory.as_deref(), Some(Path::new("/tmp")));
        let mut next = variables(&[("KEPT", "1"), ("GONE", "1"), ("SHLVL", "1")]);
        session.apply(&mut next);
        assert_eq!(next, variables(&[("KEPT", "1"), ("SHLVL", "1"), ("NEW", "a\nb")]));
        let end = ShellEnd { directory: None, variables: &next };
        assert_eq!(session.after(&next, &end), session);
    }

    #[test]
    fn the_least_recently_used_session_is_forgotten() {
        let (mut sessions, off) = (Sessions::default(), Policy::off());
        let full = Arc::new(Session { directory: Some("/".into()), ..Session::default() });
        for number in 0..MAX_SESSIONS {
            sessions.put(&number.to_string(), &off, Arc::clone(&full));
        }
        assert_eq!(sessions.get("0", &off), full);
        sessions.get("another", &off);
        assert_eq!(sessions.get("0", &off), full);
        assert_eq!(sessions.get("1", &off), Arc::default());
    }
}
