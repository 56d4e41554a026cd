//! Whether a task waits for input, decided from evidence.
//!
//! A prompt proves nothing and neither does silence: a process that is blocked on the
//! terminal does. Limits: the evidence is gathered elsewhere.

use std::time::Duration;

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The process in the foreground belongs to another user and cannot be read.
    Unreadable {
        /// Which.
        reader: Reader,
        /// It has used neither CPU nor I/O since the last sample, as far as is known.
        idle: bool,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Text or keys.
    Input,
    /// Something that is not shown while it is typed.
    Password,
}

/// A task that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// For what.
    pub wanted: Wanted,
    /// Who waits.
    pub reader: Reader,
    /// The unfinished last line of the output.
    pub prompt: String,
}

/// Decides from one sample. `modes` are those of the task's terminal, `silent_for` how
/// long its output has been silent, `last_line` the unfinished last line.
pub fn judge(
    sample: &Sample,
    modes: Option<Modes>,
    silent_for: Duration,
    last_line: &str,
) -> Option<Waiting> {
    let hidden = modes.is_some_and(|modes| !modes.echo && modes.canonical);
    match sample {
        Sample::Nobody => None,
        Sample::Blocked { reader, how } => {
            let raw = modes.is_some_and(|modes| !modes.canonical);
            let waits = match how {
                Blocked::Reading | Blocked::Waiting => true,
                Blocked::WaitingForATime => raw && silent_for >= SILENCE,
            };
            waits.then(|| Waiting {
                wanted: if hidden && *how == Blocked::Reading {
                    Wanted::Password
                } else {
                    Wanted::Input
                },
                reader: reader.clone(),
                prompt: last_line.to_owned(),
            })
        }
        Sample::Unreadable { reader, idle } => {
            let echo_off = modes.is_some_and(|modes| !modes.echo);
            let asks = echo_off || is_strong_prompt(last_line);
            (asks && *idle && silent_for >= SILENCE).then(|| Waiting {
                wanted: if hidden {
                    Wanted::Password
                } else {
                    Wanted::Input
                },
                reader: reader.clone(),
                prompt: last_line.to_owned(),
            })
        }
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
    pub fn take(&mut self, judged: Option<Waiting>) -> Option<Waiting> {
        let confirmed = judged.is_some() && judged == self.last;
        self.last = judged;
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
        judge(sample, modes, silent_for, line).map(|waiting| waiting.wanted)
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

    #[test]
    fn an_unreadable_process_needs_a_sign_silence_and_idleness() {
        let unreadable = |idle| Sample::Unreadable {
            reader: reader(),
            idle,
        };
        assert_eq!(
            wanted(&unreadable(true), HIDDEN, SILENCE, ""),
            Some(Wanted::Password)
        );
        assert_eq!(
            wanted(&unreadable(true), LINE, SILENCE, "Continue? [Y/n] "),
            Some(Wanted::Input)
        );
        assert_eq!(wanted(&unreadable(true), LINE, SILENCE, "building: "), None);
        assert_eq!(wanted(&unreadable(false), HIDDEN, SILENCE, ""), None);
        assert_eq!(wanted(&unreadable(true), HIDDEN, NOW, ""), None);
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
        let waiting = Some(Waiting {
            wanted: Wanted::Input,
            reader: reader(),
            prompt: String::new(),
        });
        let mut confirmation = Confirmation::default();
        assert_eq!(confirmation.take(waiting.clone()), None);
        assert_eq!(confirmation.take(waiting.clone()), waiting);
        assert_eq!(confirmation.take(None), None);
        assert_eq!(confirmation.take(waiting.clone()), None);
        confirmation.reset();
        assert_eq!(confirmation.take(waiting), None);
    }
}
