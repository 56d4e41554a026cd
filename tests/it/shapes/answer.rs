//! What one answer says of a task: the part of it that an agent acts on.

use serde_json::Value;

use crate::support::result::ToolResult;

/// The word that precedes a call which an answer names.
const NAMED_CALL: &str = "→ ";

/// One answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Seconds since the task's start.
    pub at: f64,
    /// Whether it is a row of `zsh_tasks`; all others are answers to calls about the task.
    pub listed: bool,
    /// The task's status: `running`, `completed` …
    pub task: String,
    /// The status of its progress; empty before the first look, and after the end.
    pub status: String,
    /// The evidence, the strongest first.
    pub evidence: Vec<String>,
    /// `input`, `password` or nothing.
    pub waiting_for: Option<String>,
    /// Seconds since the last output, or since the start before any.
    pub silent_for: f64,
    /// The advice, if there is any.
    pub suggestion: String,
    /// What stands below the output.
    pub footer: String,
    /// For how many seconds the next wait is worth it, where that is said.
    pub next_poll: Option<f64>,
    /// The exit code, once there is one.
    pub exit_code: Option<i64>,
}

impl Answer {
    /// Of the result of a call.
    pub fn of(result: &ToolResult) -> Answer {
        let meta = &result.meta;
        let poll = &meta["poll_meta"];
        let progress = &poll["progress"];
        Answer {
            at: meta["duration_ms"].as_f64().unwrap_or_default() / 1000.0,
            listed: false,
            task: result.status().to_owned(),
            status: text(&progress["status"]),
            evidence: texts(&progress["evidence"]),
            waiting_for: meta["waiting_for"].as_str().map(str::to_owned),
            silent_for: poll["elapsed_since_last_output_s"].as_f64().unwrap_or_default(),
            suggestion: text(&poll["suggestion"]),
            footer: result.footer(),
            next_poll: poll["next_poll_s"].as_f64(),
            exit_code: meta["exit_code"].as_i64(),
        }
    }

    /// Of a task's row in the structured result of `zsh_tasks`.
    pub fn from_row(row: &Value) -> Answer {
        let milliseconds = |value: &Value| value.as_f64().unwrap_or_default() / 1000.0;
        Answer {
            at: milliseconds(&row["age_ms"]),
            listed: true,
            task: text(&row["status"]),
            status: text(&row["progress"]),
            evidence: texts(&row["evidence"]),
            waiting_for: row["waiting_for"].as_str().map(str::to_owned),
            silent_for: milliseconds(&row["silent_ms"]),
            suggestion: String::new(),
            footer: String::new(),
            next_poll: None,
            exit_code: row["exit_code"].as_i64(),
        }
    }

    /// Whether the task has not ended.
    pub fn is_running(&self) -> bool {
        self.task == "running"
    }

    /// Whether it says that the task is stuck.
    pub fn is_stuck(&self) -> bool {
        self.status == "stuck"
    }

    /// Whether it advises to kill the task, in words or as the call to make; letting what
    /// is stopped go on is no kill, nor is naming it as the way out of a wait that may succeed.
    pub fn names_kill(&self) -> bool {
        let in_call = self
            .named_calls()
            .any(|call| call.starts_with("zsh_kill") && !call.contains("signal=CONT"));
        in_call || self.suggestion.to_lowercase().contains("consider zsh_kill")
    }

    /// Whether it calls the task hung.
    pub fn says_hung(&self) -> bool {
        [&self.suggestion, &self.footer].iter().any(|text| text.to_lowercase().contains("hung"))
    }

    /// Whether one of these words stands in its evidence, or one of more than one word below
    /// its output; true for no words.
    pub fn says_any(&self, words: &[&str]) -> bool {
        let says = |word: &&str| {
            self.evidence.iter().any(|evidence| evidence.contains(word))
                || word.contains(' ') && self.footer.contains(word)
        };
        words.is_empty() || words.iter().any(says)
    }

    /// The seconds of the wait that it names: those of the call that it names, else those
    /// of `next: zsh_poll …`, else the number that programs get.
    pub fn named_wait(&self) -> Option<f64> {
        self.named_calls()
            .filter(|call| call.starts_with("zsh_poll"))
            .find_map(listen_of)
            .or_else(|| self.footer.split("next: ").nth(1).and_then(listen_of))
            .or(self.next_poll)
    }

    /// In one line.
    pub fn line(&self) -> String {
        let how = if self.listed { "list" } else { "call" };
        let waits = self.waiting_for.as_deref().map(|what| format!(" waits for {what}"));
        let advice = match self.suggestion.as_str() {
            "" => String::new(),
            advice => format!(" | {advice}"),
        };
        let kill = if self.names_kill() { " → zsh_kill" } else { "" };
        format!(
            "{:6.1}s {how} {}{} {:?}{advice}{kill}",
            self.at,
            if self.is_running() { &self.status } else { &self.task },
            waits.unwrap_or_default(),
            self.evidence,
        )
    }

    fn named_calls(&self) -> impl Iterator<Item = &str> {
        self.footer.lines().filter_map(|line| Some(line.rsplit_once(NAMED_CALL)?.1))
    }
}

fn listen_of(call: &str) -> Option<f64> {
    let (_, rest) = call.split_once("listen=")?;
    let number: String =
        rest.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect();
    number.parse().ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[test]
fn the_call_that_an_answer_names_is_read_from_its_text() {
    let answer = |footer: &str| Answer {
        footer: footer.to_owned(),
        ..Answer::of(&ToolResult::new(
            serde_json::json!({"content": [{"text": "$ true\n───\n(no output)\n─── 3dc8c9ee\n"}]}),
            std::time::Duration::ZERO,
        ))
    };
    let menu = "↻ lines 1-2  |  zsh_poll · zsh_send · zsh_kill";
    assert!(!answer(menu).names_kill());
    let goes_on = "⏸ STOPPED: 4711 cat — goes on with → zsh_kill task_id=ab signal=CONT";
    assert!(!answer(goes_on).names_kill());
    assert!(answer("Consider it. → zsh_kill task_id=ab").names_kill());
    let wait = "Consider it. → zsh_poll task_id=ab wait_for=end listen=45";
    assert_eq!(answer(wait).named_wait(), Some(45.0));
    assert_eq!(
        answer("◷ silent 2s · next: zsh_poll wait_for=end listen=20").named_wait(),
        Some(20.0)
    );
    assert_eq!(answer(menu).named_wait(), None);
}
