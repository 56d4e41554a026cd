//! Calls about commands on hosts. The host carries them out, over the one connection to it, and this
//! server passes on the answers. A host knows its tasks by plain ids; this server puts the host's
//! name before them.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::call::Call;
use super::dispatch::{Answered, CallContext, Given, NoResult, ToolResult, Tools};
use super::relay;
use super::tools::{Tool, ToolName};
use crate::config::MAX_WAIT;
use crate::peer::PeerError;
use crate::peer::client::{Peer, PeerCall};
use crate::peer::hosts::{self, Host};
use crate::peer::relayed::RelayedSecret;
use crate::process::files;
use crate::protocol::message;
use crate::sandbox::policy::{Mode, Policy};
use crate::task::journal::is_task_id;
use crate::text::ansi::{Colours, readable};
use crate::text::foreign::{self, ShowPath};

/// How much longer than its own wait a call may take: results may be large and lines slow. Pings
/// find a lost connection sooner.
const CALL_GRACE: Duration = Duration::from_secs(2 * hosts::SILENCE_LIMIT.as_secs());
/// The words before a task id in text that zsh-tool writes.
const BEFORE_IDS: [&str; 6] = ["task=", "task_id=", "task '", "task ", "attach ", "─── "];
const ID_LENGTH: usize = 8;

impl Tools {
    /// Lets a host carry out a call. `None` if the call was cancelled.
    pub(super) fn call_on_host(
        &self,
        tool: &Tool,
        host: &str,
        typed: &Call,
        call: &mut CallContext,
    ) -> Option<Answered> {
        match self.ask_host(tool, host, typed, call) {
            Ok((peer, result)) => self.pass_on(peer, result, call),
            Err(HostFailure::Cancelled) => None,
            Err(HostFailure::Error(text)) => Some(Answered::from_result(ToolResult::error(text))),
        }
    }

    fn ask_host(
        &self,
        tool: &Tool,
        name: &str,
        typed: &Call,
        call: &mut CallContext,
    ) -> Result<(Peer, Value), HostFailure> {
        let host = self.hosts.find(name).map_err(HostFailure::of)?;
        if !call.relays() {
            let text = "hosts are reached by the server that lists them: call it directly";
            return Err(HostFailure::Error(text.to_owned()));
        }
        // Resolved here: secrets are listed in this server's configuration.
        let secret = typed.secret().map(|name| self.secret(name));
        let secret = secret.transpose().map_err(HostFailure::of)?;
        let link = host.link().map_err(HostFailure::of)?;
        let mut peer = Peer::carried(link).map_err(HostFailure::of)?;
        let mut client = call.relayed_client();
        client.sandbox = client.sandbox.map(|most| without_own_paths(most, self.state_directory()));
        client.task_id = matches!(typed, Call::Run(_)).then(files::random_id);
        // The task that the call starts, or that it is about.
        let started = client.task_id.clone();
        let starts = started.is_some();
        let task = started.as_deref().or(typed.task_id());
        client.secret = secret
            .map(|(secret, programs)| RelayedSecret { data: secret.bytes().to_vec(), programs });
        started.iter().for_each(|task| host.note(task));
        let mut arguments = typed.arguments();
        if let Call::Run(run) = typed {
            // Enforced there, in the project of that side.
            let policy = self.sandbox(run.sandbox.as_deref(), &call.given);
            let policy = policy.map_err(|error| match error {
                NoResult::Refused(text) => HostFailure::Error(text),
                _ => HostFailure::Cancelled,
            })?;
            if let Some(text) = self.untold(name, &policy, &call.given) {
                return Err(HostFailure::Error(text));
            }
            if !policy.is_off() {
                message::put(&mut arguments, "sandbox", policy.to_string());
            }
        }
        let request = PeerCall {
            tool: tool.wire_name,
            arguments: &arguments,
            client,
            // How long a command may be waited for, the host's own settings decide.
            limit: if starts { MAX_WAIT } else { typed.wait() } + CALL_GRACE,
            cancel: call.cancel,
        };
        let mut forward = relay::forward_progress(&mut call.progress);
        match peer.call(&request, forward.as_mut().map(|forward| forward as _)) {
            Ok(mut result) => {
                if !explain_unknown(&mut result, host, task) {
                    task.iter().for_each(|task| host.note(task));
                }
                with_host(&mut result, host, tool);
                Ok((peer, result))
            }
            Err(PeerError::Cancelled) => Err(HostFailure::Cancelled),
            Err(PeerError::Refused(text)) => {
                Err(HostFailure::Error(format!("host {}: {}", name, foreign::shown(&text))))
            }
            Err(PeerError::Silent { waited, .. }) => {
                let cause = format!("host {name} has not answered for {} s", waited.as_secs());
                Err(HostFailure::Error(match task.filter(|_| !starts) {
                    Some(task) => format!("{cause}: zsh_poll task_id={name}:{task} asks again"),
                    None => unanswered(&cause, host, task, starts),
                }))
            }
            Err(_) => {
                let reason = host.final_reason();
                let cause = format!("connection to {} lost ({})", name, foreign::composed(&reason));
                Err(HostFailure::Error(unanswered(&cause, host, task, starts)))
            }
        }
    }
}

impl Tools {
    fn state_directory(&self) -> Option<&Path> {
        self.supervisor.settings.state.as_deref().ok()
    }

    /// What of Codex's sandbox a host cannot be told, which gets the mode and the network of this policy.
    fn untold(&self, host: &str, policy: &Policy, given: &Given) -> Option<String> {
        let codex = self.codex_policy(given).ok()??;
        let codex = without_own_paths(codex, self.state_directory());
        let part = if let Some(denied) = codex.deny_read.first() {
            format!("{} may not be read", denied.shown())
        } else if policy.mode == Mode::Workspace && codex.write.is_empty() {
            "only listed directories may be written to".to_owned()
        } else {
            return None;
        };
        Some(format!(
            "Codex's sandbox cannot be carried over to host {host}: {part}, and only the mode and the \
             network are sent there; the command was not started. Use sandbox=read-only, or choose another \
             permission profile"
        ))
    }
}

/// What of a policy holds on another machine: its paths mean others there, apart from the root.
fn without_own_paths(mut policy: Policy, state: Option<&Path>) -> Policy {
    policy.write.retain(|path| path == Path::new("/"));
    policy.deny_read.retain(|path| Some(path.as_path()) != state);
    let (keep, protect, git) = (Vec::new(), Vec::new(), Vec::new());
    Policy { keep, protect, git, best_effort: true, ..policy }
}

enum HostFailure {
    Cancelled,
    Error(String),
}

impl HostFailure {
    fn of(error: impl std::fmt::Display) -> HostFailure {
        HostFailure::Error(error.to_string())
    }
}

/// The error for a call that its host has not answered.
fn unanswered(cause: &str, host: &Host, task: Option<&str>, starts: bool) -> String {
    let name = &host.entry.name;
    let until = Timestamp::now()
        .checked_add(host.entry.linger)
        .map(|at| at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string())
        .unwrap_or_default();
    match task {
        None => format!("{cause}: call again to reconnect"),
        Some(task) if starts => format!(
            "{cause}: it is not known whether the command started, so it is not repeated. \
             zsh_poll task_id={name}:{task} reconnects and says whether it runs; if it does and the \
             connection was lost, it keeps running there until {until}"
        ),
        Some(task) => format!(
            "{cause}; the task keeps running there until {until}; zsh_poll task_id={name}:{task} \
             reconnects"
        ),
    }
}

/// Puts the host's name before the task ids in a result from that host, and makes its text plain.
pub(crate) fn with_host(result: &mut Value, host: &Host, tool: &Tool) {
    let name = &host.entry.name;
    let prefix = |id: &mut Value| {
        if let Some(text) = id.as_str().filter(|text| is_task_id(text)) {
            host.note(text);
            *id = format!("{name}:{text}").into();
        }
    };
    if let Some(id) = result.pointer_mut("/_meta/zsh-tool~1result/task_id") {
        prefix(id);
    }
    for list in ["/structuredContent/tasks", "/structuredContent/detached"] {
        let rows = result.pointer_mut(list).and_then(Value::as_array_mut);
        rows.into_iter().flatten().filter_map(|row| row.get_mut("task_id")).for_each(prefix);
    }
    // Whatever runs there, its text does not control a terminal here.
    let plain = |text: &str, is_list: bool| {
        let lines = text.split('\n').map(|line| readable(line.as_bytes(), Colours::Keep, None));
        let text = lines.collect::<Vec<_>>().join("\n");
        ids_with_host(&text, name, is_list, |id| host.knows(id))
    };
    let notices = result.pointer_mut("/structuredContent/notices").and_then(Value::as_array_mut);
    for notice in notices.into_iter().flatten() {
        let line = notice.as_str().unwrap_or_default().replace('\n', " ");
        *notice = plain(&line, false).into();
    }
    let contents = result.pointer_mut("/content").and_then(Value::as_array_mut);
    for content in contents.into_iter().flatten() {
        let Some(Value::String(text)) = content.get_mut("text") else { continue };
        *text = plain(text, tool.name == ToolName::Tasks);
    }
}

/// Puts the host's name before the ids of its tasks in text that zsh-tool wrote, and leaves the
/// output of commands alone. In a list, ids begin lines.
fn ids_with_host(text: &str, host: &str, is_list: bool, knows: impl Fn(&str) -> bool) -> String {
    let mut prefixed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, from) = rest.split_at(at);
        prefixed.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let begins_line = is_list && (prefixed.is_empty() || prefixed.ends_with('\n'));
        let is_id = begins_line || BEFORE_IDS.iter().any(|lead| prefixed.ends_with(lead));
        if word.len() == ID_LENGTH && is_id && knows(word) {
            prefixed.push_str(host);
            prefixed.push(':');
        }
        prefixed.push_str(word);
        rest = after;
    }
    prefixed + rest
}

/// If the host reports that it does not know this task, replaces the error by one that explains it.
/// Returns whether it did.
fn explain_unknown(result: &mut Value, host: &Host, task: Option<&str>) -> bool {
    let Some(Value::String(text)) = result.pointer_mut("/content/0/text") else {
        return false;
    };
    if let Some(task) = task
        && text.starts_with(&format!("task_id {task} is unknown"))
    {
        let name = &host.entry.name;
        *text = format!(
            "task_id {name}:{task} is unknown on {name}: if its zsh call was not answered, the command \
             never started; zsh_tasks with host={name} and all=true lists the tasks that are known"
        );
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_get_the_hosts_name_where_our_words_name_them() {
        let known = |id: &str| id == "3dc8c9ee";
        let named = |text: &str| ids_with_host(text, "b", false, known);
        for (text, expected) in [
            ("[RUNNING task=3dc8c9ee]", "[RUNNING task=b:3dc8c9ee]"),
            ("zsh_poll task_id=3dc8c9ee x", "zsh_poll task_id=b:3dc8c9ee x"),
            ("zsh-tool attach 3dc8c9ee", "zsh-tool attach b:3dc8c9ee"),
            ("┌ notify: task '3dc8c9ee' é", "┌ notify: task 'b:3dc8c9ee' é"),
            ("task=12345678 /x/3dc8c9ee.0 3dc8c9ee", "task=12345678 /x/3dc8c9ee.0 3dc8c9ee"),
            ("3dc8c9ee  running", "3dc8c9ee  running"),
            ("", ""),
        ] {
            assert_eq!(named(text), expected);
        }
        let list = ids_with_host("3dc8c9ee  running\n3dc8c9ee", "b", true, known);
        assert_eq!(list, "b:3dc8c9ee  running\nb:3dc8c9ee");
    }
}
