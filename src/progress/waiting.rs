//! Whether a task waits for input, decided from evidence.
//!
//! A prompt proves nothing and neither does silence: a process that is blocked on the
//! terminal does. Limits: the evidence is gathered elsewhere.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A wait with a time limit, and a process that cannot be read, count only after so much
/// silence.
pub const SILENCE: Duration = Duration::from_secs(1);

/// The pauses before the looks that follow an output: at 50, 100, 200 and 400 ms of
/// silence …
pub const FIRST_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];
/// … and then every second.
pub const LATER_PAUSE: Duration = Duration::from_secs(1);
/// The pause before the look that is to confirm one which has found something.
pub const CONFIRMING_PAUSE: Duration = Duration::from_millis(100);

/// How a process is blocked on the terminal or on its stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// In `read` on it.
    Reading,
    /// In `poll` or its kin on a set that holds it and no socket nor terminal master,
    /// without a time limit.
    Waiting,
    /// The same with a time limit.
    WaitingForATime,
}

/// A process, for people to look it up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reader {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// What one sample found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sample {
    /// Somebody is blocked on the input.
    Blocked {
        /// Who.
        reader: Reader,
        /// How.
        how: Blocked,
    },
    /// A process in the foreground cannot be read: it is another user's, or hides.
    Unreadable {
        /// Which.
        reader: Reader,
        /// How long it and what it has started have not run, and so have used neither
        /// CPU nor I/O.
        idle_for: Duration,
        /// It stands between the terminal and a session of its own, as sudo does: the
        /// terminal's modes are then those of a relay and tell nothing.
        relays: bool,
    },
    /// The processes in the foreground are not shown at all.
    Unseen {
        /// Their process group, under a name that says so.
        reader: Reader,
    },
    /// Nobody waits.
    Nobody,
}

/// The terminal's modes; a pipe has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// What is typed is shown.
    pub echo: bool,
    /// Input comes by lines.
    pub canonical: bool,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// Text or keys.
    Input,
    /// Something that is not shown while it is typed.
    Password,
}

/// How it is known that a task waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// The process was seen blocked on the input.
    Blocked,
    /// The process cannot be read; the terminal's modes, the last line and silence say so.
    Signs,
}

/// A task that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// For what.
    pub wanted: Wanted,
    /// How that is known.
    pub proof: Proof,
    /// Who waits.
    pub reader: Reader,
    /// The unfinished last line of the output.
    pub prompt: String,
}

/// What one sample amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Nobody waits.
    Nothing,
    /// It may be said after so much more silence.
    After(Duration),
    /// Somebody waits.
    Waits(Waiting),
}

impl Judgement {
    fn after_silence(silent_for: Duration, waiting: Waiting) -> Judgement {
        match SILENCE.saturating_sub(silent_for) {
            Duration::ZERO => Judgement::Waits(waiting),
            rest => Judgement::After(rest),
        }
    }
}

/// Decides from one sample. `modes` are those of the task's terminal, `silent_for` how
/// long its output has been silent, `last_line` the unfinished last line.
pub fn judge(
    sample: &Sample,
    modes: Option<Modes>,
    silent_for: Duration,
    last_line: &str,
) -> Judgement {
    let hidden = modes.is_some_and(|modes| !modes.echo && modes.canonical);
    let waiting = |reader: &Reader, proof, is_password| Waiting {
        wanted: if is_password {
            Wanted::Password
        } else {
            Wanted::Input
        },
        proof,
        reader: reader.clone(),
        prompt: last_line.to_owned(),
    };
    match sample {
        Sample::Nobody => Judgement::Nothing,
        Sample::Blocked { reader, how } => {
            let is_password = hidden && *how == Blocked::Reading;
            let waiting = waiting(reader, Proof::Blocked, is_password);
            let raw = modes.is_some_and(|modes| !modes.canonical);
            match how {
                Blocked::Reading | Blocked::Waiting => Judgement::Waits(waiting),
                Blocked::WaitingForATime if raw => Judgement::after_silence(silent_for, waiting),
                Blocked::WaitingForATime => Judgement::Nothing,
            }
        }
        Sample::Unreadable {
            reader,
            idle_for,
            relays,
        } => {
            let echo_off = modes.is_some_and(|modes| !modes.echo) && !relays;
            if !echo_off && !is_strong_prompt(last_line) {
                return Judgement::Nothing;
            }
            let waiting = waiting(reader, Proof::Signs, hidden);
            Judgement::after_silence(silent_for.min(*idle_for), waiting)
        }
        // Whether it works is not known either: both signs must be there.
        Sample::Unseen { reader } if hidden && is_strong_prompt(last_line) => {
            Judgement::after_silence(silent_for, waiting(reader, Proof::Signs, true))
        }
        Sample::Unseen { .. } => Judgement::Nothing,
    }
}

/// A line that asks beyond doubt: a word for a secret, or a choice in brackets, at its
/// end. A colon or an arrow alone is none.
fn is_strong_prompt(line: &str) -> bool {
    let line = line.trim_end().to_lowercase();
    let asked = line.trim_end_matches([':', '?']).trim_end();
    let secret = [
        "password",
        "passphrase",
        "passcode",
        "pin",
        "verification code",
    ];
    let choice = [
        "[y/n]",
        "(y/n)",
        "[yes/no]",
        "(yes/no)",
        "(yes/no/[fingerprint])",
    ];
    let ends_a_question = line.ends_with(':') || line.ends_with('?');
    (ends_a_question && secret.iter().any(|word| asked.ends_with(word)))
        || (line.ends_with(':') && asked.contains("password for "))
        || choice.iter().any(|word| asked.ends_with(word))
}

/// Two samples in a row that agree make a verdict.
#[derive(Debug, Default)]
pub struct Confirmation {
    last: Option<Waiting>,
}

impl Confirmation {
    /// Takes the next judgement in; the verdict.
    pub fn take(&mut self, judged: &Judgement) -> Option<Waiting> {
        let waits = match judged {
            Judgement::Waits(waiting) => Some(waiting.clone()),
            Judgement::Nothing | Judgement::After(_) => None,
        };
        let confirmed = waits.is_some() && waits == self.last;
        self.last = waits;
        self.last.clone().filter(|_| confirmed)
    }

    /// Output came, or input was sent: what was seen before counts no longer.
    pub fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Option<Modes> = Some(Modes {
        echo: true,
        canonical: true,
    });
    const HIDDEN: Option<Modes> = Some(Modes {
        echo: false,
        canonical: true,
    });
    const RAW: Option<Modes> = Some(Modes {
        echo: false,
        canonical: false,
    });
    const NOW: Duration = Duration::from_millis(100);

    fn reader() -> Reader {
        Reader {
            pid: 4711,
            name: "passwd".to_owned(),
        }
    }

    fn blocked(how: Blocked) -> Sample {
        Sample::Blocked {
            reader: reader(),
            how,
        }
    }

    fn wanted(
        sample: &Sample,
        modes: Option<Modes>,
        silent_for: Duration,
        line: &str,
    ) -> Option<Wanted> {
        match judge(sample, modes, silent_for, line) {
            Judgement::Waits(waiting) => Some(waiting.wanted),
            Judgement::Nothing | Judgement::After(_) => None,
        }
    }

    #[test]
    fn a_blocked_read_is_waiting_whatever_stands_on_the_screen() {
        let reads = blocked(Blocked::Reading);
        assert_eq!(wanted(&reads, LINE, NOW, ""), Some(Wanted::Input));
        assert_eq!(wanted(&reads, HIDDEN, NOW, ""), Some(Wanted::Password));
        assert_eq!(wanted(&reads, RAW, NOW, ""), Some(Wanted::Input));
        assert_eq!(wanted(&reads, None, NOW, ""), Some(Wanted::Input));
    }

    #[test]
    fn a_wait_with_a_time_limit_counts_on_a_raw_terminal_after_silence() {
        let waits = blocked(Blocked::WaitingForATime);
        assert_eq!(wanted(&waits, RAW, NOW, ""), None);
        assert_eq!(wanted(&waits, RAW, SILENCE, ""), Some(Wanted::Input));
        assert_eq!(wanted(&waits, LINE, SILENCE, ""), None);
    }

    #[test]
    fn a_prompt_or_a_silent_terminal_alone_is_nothing() {
        assert_eq!(wanted(&Sample::Nobody, HIDDEN, SILENCE, "Password:"), None);
        assert_eq!(wanted(&Sample::Nobody, LINE, SILENCE, "> "), None);
    }

    fn unreadable(idle_for: Duration, relays: bool) -> Sample {
        Sample::Unreadable {
            reader: reader(),
            idle_for,
            relays,
        }
    }

    #[test]
    fn an_unreadable_process_needs_a_sign_silence_and_idleness() {
        let idle = unreadable(SILENCE, false);
        assert_eq!(wanted(&idle, HIDDEN, SILENCE, ""), Some(Wanted::Password));
        assert_eq!(wanted(&idle, RAW, SILENCE, ""), Some(Wanted::Input));
        let question = "Continue? [Y/n] ";
        assert_eq!(wanted(&idle, LINE, SILENCE, question), Some(Wanted::Input));
        assert_eq!(wanted(&idle, LINE, SILENCE, "building: "), None);
        assert_eq!(wanted(&idle, HIDDEN, NOW, ""), None);
        let works = unreadable(NOW, false);
        assert_eq!(wanted(&works, HIDDEN, SILENCE, "Password:"), None);
    }

    #[test]
    fn the_modes_of_a_relay_tell_nothing() {
        let relay = unreadable(SILENCE, true);
        assert_eq!(wanted(&relay, RAW, SILENCE, ""), None);
        let question = "Password:";
        assert_eq!(wanted(&relay, RAW, SILENCE, question), Some(Wanted::Input));
    }

    #[test]
    fn what_is_not_shown_needs_both_signs() {
        let unseen = Sample::Unseen { reader: reader() };
        let asks = "Password:";
        assert_eq!(
            wanted(&unseen, HIDDEN, SILENCE, asks),
            Some(Wanted::Password)
        );
        assert_eq!(wanted(&unseen, HIDDEN, SILENCE, ""), None);
        assert_eq!(wanted(&unseen, LINE, SILENCE, asks), None);
        assert_eq!(wanted(&unseen, HIDDEN, NOW, asks), None);
    }

    #[test]
    fn how_much_silence_is_missing_is_told() {
        let judged = judge(&unreadable(SILENCE, false), HIDDEN, NOW, "");
        assert_eq!(judged, Judgement::After(SILENCE - NOW));
        let judged = judge(&unreadable(NOW, false), HIDDEN, SILENCE, "");
        assert_eq!(judged, Judgement::After(SILENCE - NOW));
        let judged = judge(&blocked(Blocked::WaitingForATime), RAW, NOW, "");
        assert_eq!(judged, Judgement::After(SILENCE - NOW));
    }

    #[test]
    fn strong_prompts_ask_beyond_doubt() {
        for line in [
            "Password:",
            "[sudo] password for me: ",
            "Enter passphrase:",
            "Do you want to continue? [Y/n] ",
            "Are you sure (yes/no)?",
        ] {
            assert!(is_strong_prompt(line), "{line}");
        }
        for line in [
            "",
            "> ",
            "foo:",
            "step 3:",
            "password changed",
            "tests (yes)",
            "shopping:",
        ] {
            assert!(!is_strong_prompt(line), "{line}");
        }
    }

    #[test]
    fn two_samples_in_a_row_make_a_verdict() {
        let waiting = Waiting {
            wanted: Wanted::Input,
            proof: Proof::Blocked,
            reader: reader(),
            prompt: String::new(),
        };
        let judged = Judgement::Waits(waiting.clone());
        let mut confirmation = Confirmation::default();
        assert_eq!(confirmation.take(&judged), None);
        assert_eq!(confirmation.take(&judged), Some(waiting));
        assert_eq!(confirmation.take(&Judgement::Nothing), None);
        assert_eq!(confirmation.take(&judged), None);
        confirmation.reset();
        assert_eq!(confirmation.take(&judged), None);
    }
}
