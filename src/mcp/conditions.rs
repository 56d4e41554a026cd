//! What a task waits for and what its processes are in, in words: one short line for
//! each, and what it means where not all can be seen.

use serde_json::{Value, json};

use crate::process::probe::Shortcoming;
use crate::progress::condition::{Condition, Evidence, StopSignal};
use crate::progress::waiting::{Proof, Waiting, Wanted};
use crate::protocol::message::put;
use crate::task::live::Input;
use crate::task::words::{Kind, kinds, name, signal_name};
pub use crate::task::words::{proof, summary, wanted_word};
use crate::text::lines;

/// How much of a prompt is repeated.
const PROMPT_CHARS: usize = 120;

/// `⌨ WAITING FOR INPUT "Password:" (reads tty: 4711 passwd)`
pub fn waiting_line(waiting: &Waiting, input: Input) -> String {
    let what = match waiting.wanted {
        Wanted::Input => "INPUT",
        Wanted::Password => "A PASSWORD",
    };
    let prompt = match waiting.prompt.trim() {
        "" => String::new(),
        prompt => format!(" \"{}\"", lines::clip(prompt, PROMPT_CHARS)),
    };
    let proof = proof(waiting, input);
    format!("⌨ WAITING FOR {what}{prompt} ({proof})")
}

/// Who waits, for programs; `seen` is false where only signs say that he does.
pub fn reader_meta(waiting: &Waiting) -> Value {
    json!({
        "pid": waiting.reader.pid,
        "name": waiting.reader.name,
        "seen": waiting.proof == Proof::Blocked,
    })
}

/// `⏸ STOPPED (SIGTSTP): 4711 vim — zsh_kill task_id=… signal=CONT resumes it`
pub fn condition_lines(conditions: &[Condition], task: &str) -> Vec<String> {
    kinds(conditions)
        .into_iter()
        .map(|(kind, processes)| {
            let them = if processes.len() == 1 { "it" } else { "them" };
            let named = name(&processes);
            match kind {
                Kind::Stopped { by, holds_up } => {
                    let may_want_terminal =
                        !holds_up && !matches!(by, StopSignal::Stop | StopSignal::Keyboard);
                    let by = match by {
                        StopSignal::Unknown => String::new(),
                        by => format!(" ({})", signal_name(by)),
                    };
                    let resumes = format!("zsh_kill task_id={task} signal=CONT");
                    // Continued in the background, it would want the terminal again.
                    let mend = if may_want_terminal {
                        format!("fg in its shell if it is a job there, or {resumes}")
                    } else {
                        format!("{resumes} resumes {them}")
                    };
                    format!("⏸ STOPPED{by}: {named} — {mend}")
                }
                Kind::DiskSleep => format!(
                    "⏸ DISK SLEEP: {named} — in a sleep that no signal ends (disk, network file system)"
                ),
                Kind::ZombieLeader => format!(
                    "⚠ ZOMBIE LEADER: {named} — the main thread has ended, other threads run on"
                ),
                Kind::OutOfReach(user) => {
                    format!("⚠ OF ANOTHER USER ({user}): {named} — zsh_kill cannot end {them}")
                }
            }
        })
        .collect()
}

/// For programs: `{kind, pid, name}`, with `signal` and `holds_up` of a stopped process,
/// `user` of another user's.
pub fn meta(conditions: &[Condition]) -> Vec<Value> {
    conditions
        .iter()
        .map(|condition| {
            let process = condition.process();
            let mut value = json!({
                "kind": Kind::of(condition).word(),
                "pid": process.pid,
                "name": process.name,
            });
            match condition {
                Condition::Stopped { by, holds_up, .. } => {
                    let known = *by != StopSignal::Unknown;
                    put(&mut value, "signal", known.then(|| signal_name(*by)));
                    put(&mut value, "holds_up", *holds_up);
                }
                Condition::OutOfReach { user, .. } => put(&mut value, "user", user.as_str()),
                Condition::DiskSleep { .. } | Condition::ZombieLeader { .. } => {}
            }
            value
        })
        .collect()
}

/// What it means that not all can be seen; nothing where it can.
pub fn evidence_words(evidence: Evidence) -> Option<&'static str> {
    match evidence {
        Evidence::Whole => None,
        Evidence::NoCalls => Some(
            "the kernel does not tell what processes are blocked in: that a command waits for \
             input is told by prompts and silence alone.",
        ),
        Evidence::Nothing => Some(
            "no processes can be seen: that a command waits for input is told of plain password \
             prompts alone, and stopped ones are not found.",
        ),
    }
}

/// What a shortcoming of the machine means.
pub fn shortcoming_words(shortcoming: Shortcoming) -> &'static str {
    match shortcoming {
        Shortcoming::NoProc => {
            "/proc cannot be read: what commands wait for is told of plain password prompts \
             alone, and stopped ones are not found"
        }
        Shortcoming::AnotherNamespace => {
            "/proc shows the processes of another PID namespace: what commands wait for is told \
             of plain password prompts alone, and stopped ones are not found"
        }
        Shortcoming::NoCalls => {
            "what processes are blocked in cannot be read: that a command waits for input is \
             told by prompts and silence alone"
        }
        Shortcoming::Portable => {
            "this system does not tell what processes are blocked in: what commands wait for is \
             told of plain password prompts alone, and stopped ones are not found"
        }
        Shortcoming::OthersHidden => {
            "/proc hides other users' processes: that sudo or su asks is told of plain password \
             prompts alone"
        }
    }
}

/// The same for programs.
pub fn evidence_word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Whole => "whole",
        Evidence::NoCalls => "no_calls",
        Evidence::Nothing => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::waiting::Reader;

    fn stopped(pid: i32, by: StopSignal, holds_up: bool) -> Condition {
        Condition::Stopped {
            process: Reader {
                pid,
                name: "vim".to_owned(),
            },
            by,
            holds_up,
        }
    }

    #[test]
    fn each_kind_has_one_line_that_says_what_to_do() {
        let mut all: Vec<Condition> = (1..=6)
            .map(|pid| stopped(pid, StopSignal::Keyboard, true))
            .collect();
        all.push(stopped(7, StopSignal::Reading, false));
        let lines = condition_lines(&all, "3dc8c9ee");
        assert_eq!(
            lines,
            [
                "⏸ STOPPED (SIGTSTP): 1 vim, 2 vim, 3 vim, 4 vim, 2 more — zsh_kill \
                 task_id=3dc8c9ee signal=CONT resumes them",
                "⏸ STOPPED (SIGTTIN): 7 vim — fg in its shell if it is a job there, or zsh_kill \
                 task_id=3dc8c9ee signal=CONT",
            ]
        );
        let one = [stopped(7, StopSignal::Unknown, true)];
        assert_eq!(crate::task::words::summary(&one), ["stopped: 7 vim"]);
        assert_eq!(meta(&one)[0]["signal"], Value::Null);
    }
}
