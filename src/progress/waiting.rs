//! Decides from evidence whether a task waits for input.
//!
//! Neither a prompt nor silence is proof; a process that is blocked on the terminal is. Other
//! modules collect the evidence. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::wait::{InputWait, ProcessName};
use crate::text::foreign::Foreign;

/// The silence after which a wait with a time limit, or an unreadable process, counts.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// The silence after an unfinished line at which a wait for the input or another source, such as a
/// connection, counts.
pub(crate) const MIXED_SILENCE: Duration = Duration::from_secs(2);

/// The pauses before the probes after output: at 50, 100, 200 and 400 ms of silence.
pub(crate) const FIRST_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];
/// The pause between later probes.
pub(crate) const LATER_PAUSE: Duration = Duration::from_secs(1);
/// The pause between probes of a silent task that takes no input, if no call waits for it: as long
/// as the usual one between probes of progress, so that one scan and one wake-up serve both.
pub(crate) const RARE_PAUSE: Duration = Duration::from_secs(10);
/// How many probes precede the first of these pauses.
pub(crate) const PROBES_BEFORE_RARE: usize = 5;
/// The pause before a probe that confirms the previous one.
pub(crate) const CONFIRMING_PAUSE: Duration = Duration::from_millis(100);

/// What one probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sample {
    /// A process waits for the input.
    Blocked {
        reader: ProcessName,
        how: InputWait,
        /// Whether its main thread waits for the input and for nothing else.
        alone: bool,
        /// Whether it waits at a second terminal that a process of the task relays: the modes of
        /// the task's own terminal are then those of the relay.
        at_second_terminal: bool,
    },
    /// A process in the foreground is unreadable: it belongs to another user, or hides.
    Unreadable {
        reader: ProcessName,
        /// How long it and its children have not run, and so used neither CPU nor I/O.
        idle_for: Duration,
        /// Whether it relays between the terminal and a new session, as sudo does, so that the
        /// terminal's modes prove nothing.
        relays: bool,
        /// On this system no process shows what it waits in, but these show how often they ran:
        /// a prompt and their silence suffice as evidence.
        is_counted: bool,
    },
    /// The processes in the foreground are invisible.
    Unseen {
        /// Their process group, with a descriptive name.
        reader: ProcessName,
    },
    /// No process waits for input.
    NotWaiting,
}

/// Whether the program reads its input, as one probe sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// That cannot be seen.
    #[default]
    Unknown,
    /// No process waits for the input: the program works, or waits for something else.
    No,
    /// The input is one event among others, or a thread beside the main one reads ahead: the
    /// program may be working all the same.
    AmongOthers,
    /// A process does nothing but read.
    Blocked,
}

impl Sample {
    pub(crate) fn reading(&self) -> Reading {
        match self {
            Sample::NotWaiting => Reading::No,
            Sample::Blocked { alone: true, .. } => Reading::Blocked,
            Sample::Blocked { .. } => Reading::AmongOthers,
            Sample::Unreadable { .. } | Sample::Unseen { .. } => Reading::Unknown,
        }
    }
}

/// Whether two unfinished lines are the same prompt, which may count: `In [1]:` and `In [2]:`.
pub(crate) fn is_same_prompt(line: &str, other: &str) -> bool {
    let fixed = |line: &str| -> String {
        line.trim().chars().filter(|character| !character.is_ascii_digit()).collect()
    };
    !line.trim().is_empty() && fixed(line) == fixed(other)
}

/// The terminal's modes; a pipe has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes {
    /// Whether the terminal echoes typed characters.
    pub(crate) echo: bool,
    /// Whether programs get the input line by line.
    pub(crate) canonical: bool,
}

/// What a task's terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ShownText<'a> {
    /// The unfinished last line of the output.
    pub(crate) last_line: &'a str,
    /// The question of the menu that it shows, if it shows one.
    pub(crate) question: Option<&'a str>,
    /// The screen of a full-screen program.
    pub(crate) full_screen: Option<FullScreen>,
}

/// The screen of a full-screen program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FullScreen {
    /// Whether the cursor is visible, as in an editor.
    pub(crate) shows_cursor: bool,
}

impl ShownText<'_> {
    /// What to quote as the prompt. The last line of a full screen is part of a frame or a menu.
    fn prompt(self) -> String {
        let last_line = if self.full_screen.is_some() { "" } else { self.last_line };
        self.question.unwrap_or(last_line).to_owned()
    }
}

/// The kind of input that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WantedInput {
    Input,
    /// Input that the terminal does not echo.
    Password,
}

/// The evidence that a task waits for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputProof {
    /// A probe found the process blocked on the input.
    Blocked,
    /// The process waits for the input or another source; the last line and the silence indicate
    /// the input.
    Probable,
    /// The process is unreadable; the terminal's modes, the last line and the silence indicate a
    /// wait for input.
    Signs,
}

/// A task's wait for input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub wanted: WantedInput,
    pub proof: InputProof,
    pub reader: ProcessName,
    /// What the reader executes, where its name does not say it.
    #[serde(default)]
    pub program: Option<Foreign>,
    /// The unfinished last line of the output.
    pub prompt: String,
}

/// The result of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputJudgement {
    Nothing,
    /// The task waits, if it stays silent for this much longer.
    After(Duration),
    Waits(Waiting),
}

impl InputJudgement {
    fn after(silence: Duration, silent_for: Duration, waiting: Waiting) -> InputJudgement {
        match silence.saturating_sub(silent_for) {
            Duration::ZERO => InputJudgement::Waits(waiting),
            rest => InputJudgement::After(rest),
        }
    }
}

/// Judges one probe. `modes` are the modes of the task's terminal; `silent_for` is the time without
/// output.
pub(crate) fn judge(
    sample: &Sample,
    modes: Option<Modes>,
    silent_for: Duration,
    shown: ShownText<'_>,
) -> InputJudgement {
    let last_line = shown.last_line;
    let hidden = modes.is_some_and(|modes| !modes.echo && modes.canonical);
    let waiting = |reader: &ProcessName, proof, is_password| Waiting {
        wanted: if is_password { WantedInput::Password } else { WantedInput::Input },
        proof,
        reader: reader.clone(),
        program: None,
        prompt: shown.prompt(),
    };
    match sample {
        Sample::NotWaiting => InputJudgement::Nothing,
        Sample::Blocked { reader, how, at_second_terminal, .. } => {
            let is_password = if *at_second_terminal {
                asks_for_a_secret(last_line)
            } else {
                hidden && *how == InputWait::Reading
            };
            match how {
                InputWait::Reading => {
                    InputJudgement::Waits(waiting(reader, InputProof::Blocked, is_password))
                }
                InputWait::Waiting { timed: false, in_loop }
                    if !(*in_loop && is_watched(shown)) =>
                {
                    InputJudgement::Waits(waiting(reader, InputProof::Blocked, is_password))
                }
                InputWait::Waiting { timed: true, .. } if accepts_input(modes, shown) => {
                    let waiting = waiting(reader, InputProof::Blocked, is_password);
                    InputJudgement::after(SILENCE, silent_for, waiting)
                }
                InputWait::Mixed if is_prompt(last_line) => {
                    let waiting = waiting(reader, InputProof::Probable, is_password);
                    InputJudgement::after(MIXED_SILENCE, silent_for, waiting)
                }
                InputWait::Waiting { .. } | InputWait::Mixed => InputJudgement::Nothing,
            }
        }
        Sample::Unreadable { reader, idle_for, relays, is_counted } => {
            let echo_off = modes.is_some_and(|modes| !modes.echo) && !relays;
            let silence = if echo_off || is_strong_prompt(last_line) {
                SILENCE
            } else if *is_counted && modes.is_some() && is_prompt(last_line) {
                MIXED_SILENCE
            } else {
                return InputJudgement::Nothing;
            };
            let waiting = waiting(reader, InputProof::Signs, hidden);
            InputJudgement::after(silence, silent_for.min(*idle_for), waiting)
        }
        // The process may also be working, so require both signs.
        Sample::Unseen { reader } if hidden && is_strong_prompt(last_line) => {
            InputJudgement::after(SILENCE, silent_for, waiting(reader, InputProof::Signs, true))
        }
        Sample::Unseen { .. } => InputJudgement::Nothing,
    }
}

/// Whether a person only watches the full screen of a program: it accepts keys but asks nothing.
fn is_watched(shown: ShownText<'_>) -> bool {
    shown.full_screen.is_some_and(|screen| !screen.shows_cursor)
}

/// Whether a wait with a time limit is a wait for an answer. On a raw terminal it is, unless a
/// person only watches the screen. A line-by-line terminal needs an unfinished line; for a pipe, the
/// wait itself is the only sign.
fn accepts_input(modes: Option<Modes>, shown: ShownText<'_>) -> bool {
    match modes {
        Some(modes) if !modes.canonical => !is_watched(shown),
        Some(_) => !shown.last_line.trim().is_empty(),
        None => true,
    }
}

/// Whether an unfinished line may be a question instead of a progress report: it ends like a
/// prompt, not with dots or a percentage.
fn is_prompt(line: &str) -> bool {
    let line = line.trim_end();
    let mut ending = line.chars().rev();
    match (ending.next(), ending.next()) {
        (Some('%'), before) => !before.is_some_and(|it| it.is_ascii_digit()),
        (Some(last), _) => ":?>$#])}❯›»→➜".contains(last),
        (None, _) => false,
    }
}

/// Whether a line certainly asks a question: it ends with a word for a secret or a choice in
/// brackets. A colon or an arrow does not suffice.
fn is_strong_prompt(line: &str) -> bool {
    let line = line.trim_end().to_lowercase();
    let asked = line.trim_end_matches([':', '?']).trim_end();
    let choice = ["[y/n]", "(y/n)", "[yes/no]", "(yes/no)", "(yes/no/[fingerprint])"];
    asks_for_a_secret(&line) || choice.iter().any(|word| asked.ends_with(word))
}

/// Whether a line asks for a password or another secret.
fn asks_for_a_secret(line: &str) -> bool {
    let line = line.trim_end().to_lowercase();
    let asked = line.trim_end_matches([':', '?']).trim_end();
    let secret = ["password", "passphrase", "passcode", "pin", "verification code"];
    let ends_a_question = line.ends_with(':') || line.ends_with('?');
    (ends_a_question && secret.iter().any(|word| asked.ends_with(word)))
        || (line.ends_with(':') && asked.contains("password for "))
}

/// Confirms a verdict by two consecutive probes that agree.
#[derive(Debug, Default)]
pub(crate) struct Confirmation {
    last: Option<Waiting>,
}

impl Confirmation {
    /// Adds the next judgement; returns the verdict, if there is one.
    pub(crate) fn add(&mut self, judged: &InputJudgement) -> Option<Waiting> {
        let waits = match judged {
            InputJudgement::Waits(waiting) => Some(waiting.clone()),
            InputJudgement::Nothing | InputJudgement::After(_) => None,
        };
        let confirmed = waits.is_some() && waits == self.last;
        self.last = waits;
        self.last.clone().filter(|_| confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Option<Modes> = Some(Modes { echo: true, canonical: true });
    const HIDDEN: Option<Modes> = Some(Modes { echo: false, canonical: true });
    const RAW: Option<Modes> = Some(Modes { echo: false, canonical: false });
    const NOW: Duration = Duration::from_millis(100);

    fn reader() -> ProcessName {
        ProcessName { pid: 4711, name: "passwd".into() }
    }

    const WAITS: InputWait = InputWait::Waiting { timed: true, in_loop: false };

    fn blocked(how: InputWait) -> Sample {
        Sample::Blocked { reader: reader(), how, alone: true, at_second_terminal: false }
    }

    fn shown(last_line: &str) -> ShownText<'_> {
        ShownText { last_line, ..ShownText::default() }
    }

    fn wanted(
        sample: &Sample,
        modes: Option<Modes>,
        silent_for: Duration,
        line: &str,
    ) -> Option<WantedInput> {
        match judge(sample, modes, silent_for, shown(line)) {
            InputJudgement::Waits(waiting) => Some(waiting.wanted),
            InputJudgement::Nothing | InputJudgement::After(_) => None,
        }
    }

    #[test]
    fn a_blocked_read_is_waiting_whatever_the_screen_shows() {
        let reads = blocked(InputWait::Reading);
        assert_eq!(wanted(&reads, LINE, NOW, ""), Some(WantedInput::Input));
        assert_eq!(wanted(&reads, HIDDEN, NOW, ""), Some(WantedInput::Password));
        assert_eq!(wanted(&reads, RAW, NOW, ""), Some(WantedInput::Input));
        assert_eq!(wanted(&reads, None, NOW, ""), Some(WantedInput::Input));
    }

    #[test]
    fn a_wait_with_a_time_limit_counts_on_a_raw_terminal_after_silence() {
        let waits = blocked(WAITS);
        assert_eq!(wanted(&waits, RAW, NOW, ""), None);
        assert_eq!(wanted(&waits, RAW, SILENCE, ""), Some(WantedInput::Input));
        assert_eq!(wanted(&waits, LINE, SILENCE, ""), None);
        assert_eq!(wanted(&waits, LINE, SILENCE, "Name: "), Some(WantedInput::Input));
        assert_eq!(wanted(&waits, None, SILENCE, ""), Some(WantedInput::Input));
    }

    #[test]
    fn a_full_screen_that_is_only_watched_asks_nothing() {
        let screen = |shows_cursor| ShownText {
            last_line: "4Sort 5Tree 10Quit",
            full_screen: Some(FullScreen { shows_cursor }),
            ..ShownText::default()
        };
        let asks =
            |how, shows_cursor| match judge(&blocked(how), RAW, SILENCE, screen(shows_cursor)) {
                InputJudgement::Waits(waiting) => {
                    assert_eq!(waiting.prompt, "");
                    true
                }
                InputJudgement::Nothing | InputJudgement::After(_) => false,
            };
        let waiting = |timed, in_loop| InputWait::Waiting { timed, in_loop };
        for (how, with_cursor, without) in [
            (InputWait::Reading, true, true),
            (waiting(false, false), true, true),
            (waiting(false, true), true, false),
            (waiting(true, false), true, false),
            (waiting(true, true), true, false),
        ] {
            assert_eq!(asks(how, true), with_cursor, "{how:?}");
            assert_eq!(asks(how, false), without, "{how:?}");
        }
    }

    #[test]
    fn the_question_of_a_menu_is_its_prompt() {
        let shown = ShownText { question: Some("Which?"), ..shown("  b") };
        let judged = judge(&blocked(InputWait::Reading), RAW, NOW, shown);
        assert!(matches!(judged, InputJudgement::Waits(waiting) if waiting.prompt == "Which?"));
    }

    #[test]
    fn a_wait_for_input_or_a_connection_needs_a_question_and_more_silence() {
        let mixed = blocked(InputWait::Mixed);
        for line in ["Enter OTP:", "version: (1.0.0) ", "me@host:~$ ", "> "] {
            let judged = judge(&mixed, RAW, MIXED_SILENCE, shown(line));
            let is_probable = |waiting: &Waiting| waiting.proof == InputProof::Probable;
            assert!(
                matches!(&judged, InputJudgement::Waits(waiting) if is_probable(waiting)),
                "{line}: {judged:?}"
            );
        }
        let soon = judge(&mixed, RAW, SILENCE, shown("Enter OTP:"));
        assert_eq!(soon, InputJudgement::After(MIXED_SILENCE - SILENCE));
        for line in ["", "Compiling...", "Downloading 45%", "ready in 300 ms"] {
            assert_eq!(wanted(&mixed, RAW, MIXED_SILENCE, line), None, "{line}");
        }
    }

    #[test]
    fn the_modes_of_a_relays_outer_terminal_prove_nothing() {
        let behind = Sample::Blocked {
            reader: reader(),
            how: InputWait::Reading,
            alone: true,
            at_second_terminal: true,
        };
        assert_eq!(wanted(&behind, HIDDEN, NOW, "name: "), Some(WantedInput::Input));
        let secret = wanted(&behind, RAW, NOW, "Password: ");
        assert_eq!(secret, Some(WantedInput::Password));
    }

    #[test]
    fn a_prompt_or_a_silent_terminal_does_not_suffice() {
        assert_eq!(wanted(&Sample::NotWaiting, HIDDEN, SILENCE, "Password:"), None);
        assert_eq!(wanted(&Sample::NotWaiting, LINE, SILENCE, "> "), None);
    }

    fn unreadable(idle_for: Duration, relays: bool) -> Sample {
        Sample::Unreadable { reader: reader(), idle_for, relays, is_counted: false }
    }

    #[test]
    fn an_unreadable_process_needs_a_sign_silence_and_idleness() {
        let idle = unreadable(SILENCE, false);
        assert_eq!(wanted(&idle, HIDDEN, SILENCE, ""), Some(WantedInput::Password));
        assert_eq!(wanted(&idle, RAW, SILENCE, ""), Some(WantedInput::Input));
        let question = "Continue? [Y/n] ";
        assert_eq!(wanted(&idle, LINE, SILENCE, question), Some(WantedInput::Input));
        assert_eq!(wanted(&idle, LINE, SILENCE, "building: "), None);
        assert_eq!(wanted(&idle, HIDDEN, NOW, ""), None);
        let works = unreadable(NOW, false);
        assert_eq!(wanted(&works, HIDDEN, SILENCE, "Password:"), None);
    }

    #[test]
    fn where_silence_is_all_that_there_can_be_a_plain_question_needs_more_of_it() {
        let counted = |idle_for| Sample::Unreadable {
            reader: reader(),
            idle_for,
            relays: false,
            is_counted: true,
        };
        let idle = counted(MIXED_SILENCE);
        assert_eq!(wanted(&idle, LINE, MIXED_SILENCE, "name: "), Some(WantedInput::Input));
        assert_eq!(wanted(&idle, LINE, SILENCE, "name: "), None);
        assert_eq!(wanted(&counted(SILENCE), LINE, MIXED_SILENCE, "name: "), None);
        assert_eq!(wanted(&idle, LINE, MIXED_SILENCE, "Compiling ..."), None);
        assert_eq!(wanted(&idle, LINE, MIXED_SILENCE, "41%"), None);
        // On a pipe the kernel says whether a reader waits.
        assert_eq!(wanted(&idle, None, MIXED_SILENCE, "name: "), None);
        assert_eq!(wanted(&counted(SILENCE), LINE, SILENCE, "Password:"), Some(WantedInput::Input));
    }

    #[test]
    fn the_modes_of_a_relay_prove_nothing() {
        let relay = unreadable(SILENCE, true);
        assert_eq!(wanted(&relay, RAW, SILENCE, ""), None);
        let question = "Password:";
        assert_eq!(wanted(&relay, RAW, SILENCE, question), Some(WantedInput::Input));
    }

    #[test]
    fn invisible_processes_need_both_signs() {
        let unseen = Sample::Unseen { reader: reader() };
        let asks = "Password:";
        assert_eq!(wanted(&unseen, HIDDEN, SILENCE, asks), Some(WantedInput::Password));
        assert_eq!(wanted(&unseen, HIDDEN, SILENCE, ""), None);
        assert_eq!(wanted(&unseen, LINE, SILENCE, asks), None);
        assert_eq!(wanted(&unseen, HIDDEN, NOW, asks), None);
    }

    #[test]
    fn the_missing_silence_is_reported() {
        let judged = judge(&unreadable(SILENCE, false), HIDDEN, NOW, shown(""));
        assert_eq!(judged, InputJudgement::After(SILENCE - NOW));
        let judged = judge(&unreadable(NOW, false), HIDDEN, SILENCE, shown(""));
        assert_eq!(judged, InputJudgement::After(SILENCE - NOW));
        let judged = judge(&blocked(WAITS), RAW, NOW, shown(""));
        assert_eq!(judged, InputJudgement::After(SILENCE - NOW));
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
        for line in ["", "> ", "foo:", "step 3:", "password changed", "tests (yes)", "shopping:"] {
            assert!(!is_strong_prompt(line), "{line}");
        }
    }

    #[test]
    fn two_samples_in_a_row_make_a_verdict() {
        let waiting = Waiting {
            wanted: WantedInput::Input,
            proof: InputProof::Blocked,
            reader: reader(),
            program: None,
            prompt: String::new(),
        };
        let judged = InputJudgement::Waits(waiting.clone());
        let mut confirmation = Confirmation::default();
        assert_eq!(confirmation.add(&judged), None);
        assert_eq!(confirmation.add(&judged), Some(waiting));
        assert_eq!(confirmation.add(&InputJudgement::Nothing), None);
        assert_eq!(confirmation.add(&judged), None);
        confirmation = Confirmation::default();
        assert_eq!(confirmation.add(&judged), None);
    }
}
