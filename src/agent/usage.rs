//! What an agent reports of its cost: tokens, money and turns.
//!
//! Agents report it of each answer of their model, of their whole session so far, or both. [`Meter`]
//! makes one sum of these reports, which is complete up to the last report of an agent that was
//! killed.
//!
//! Limits: the numbers are the agents' own. Nothing is estimated, and prices are not known here.
//! Pure.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::quantity::{grouped, plural};

/// More than this is a mistake of the program.
const MOST_TOKENS: u64 = 1_000_000_000_000;
const MOST_USD: f64 = 1e9;

/// A cost. What is not reported is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of prompts, including those that come from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens of answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Money in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Answers of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
}

impl Usage {
    /// Whether anything is reported.
    pub fn is_reported(&self) -> bool {
        *self != Usage::default()
    }

    /// Input and output tokens together, if either is reported.
    pub fn tokens(&self) -> Option<u64> {
        let mut both = self.input_tokens;
        add_count(&mut both, self.output_tokens);
        both
    }

    /// Adds another cost. What only one of them reports is the sum.
    pub fn add(&mut self, other: &Usage) {
        add_count(&mut self.input_tokens, other.input_tokens);
        add_count(&mut self.output_tokens, other.output_tokens);
        add_count(&mut self.turns, other.turns);
        self.usd = match (self.usd, other.usd) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }

    /// Replaces what the other one reports.
    fn replace_with(&mut self, other: &Usage) {
        self.input_tokens = other.input_tokens.or(self.input_tokens);
        self.output_tokens = other.output_tokens.or(self.output_tokens);
        self.usd = other.usd.or(self.usd);
        self.turns = other.turns.or(self.turns);
    }

    /// Without numbers that no session can have.
    fn plausible(mut self) -> Usage {
        let is_plausible = |count: &u64| *count <= MOST_TOKENS;
        self.input_tokens = self.input_tokens.filter(is_plausible);
        self.output_tokens = self.output_tokens.filter(is_plausible);
        self.turns = self.turns.filter(is_plausible);
        self.usd = self.usd.filter(|usd| (0.0..=MOST_USD).contains(usd));
        self
    }

    /// Without a price of 0 for tokens: programs that do not know a model's price report that.
    fn without_unknown_price(mut self) -> Usage {
        if self.tokens().is_some_and(|tokens| tokens > 0) {
            self.usd = self.usd.filter(|usd| *usd > 0.0);
        }
        self
    }
}

/// `$0.12, 15,200 tokens (14,000 in, 1,200 out), 7 turns`; empty if nothing is reported.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let money = self.usd.map(|usd| {
            let digits = if usd < 1.0 { 4 } else { 2 };
            if usd > 0.0 && usd < 0.0001 {
                "less than $0.0001".to_owned()
            } else {
                format!("${usd:.digits$}")
            }
        });
        let tokens = self.tokens().map(|all| {
            let part = |count: Option<u64>, word| Some(format!("{} {word}", grouped(count?)));
            let parts = [part(self.input_tokens, "in"), part(self.output_tokens, "out")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("{} tokens ({})", grouped(all), parts.join(", "))
        });
        let turns = self.turns.map(|turns| plural(turns, "turn", "turns"));
        let parts: Vec<String> = [money, tokens, turns].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

fn add_count(sum: &mut Option<u64>, more: Option<u64>) {
    *sum = match (*sum, more) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    };
}

/// One report of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageReport {
    usage: Usage,
    covers: Covers,
}

/// What a report covers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Covers {
    /// The session from its beginning.
    Session,
    /// One answer of the model.
    Answer {
        /// Its id, if it has one; several reports may cover the same answer.
        id: Option<String>,
    },
}

impl UsageReport {
    /// A report of the session from its beginning; `None` if it says nothing.
    pub(super) fn of_session(usage: Usage) -> Option<UsageReport> {
        UsageReport::of(usage, Covers::Session)
    }

    /// A report of one answer of the model; `None` if it says nothing. Of several reports with the
    /// same id, the last one counts.
    pub(super) fn of_answer(usage: Usage, id: Option<&str>) -> Option<UsageReport> {
        UsageReport::of(usage, Covers::Answer { id: id.map(str::to_owned) })
    }

    fn of(usage: Usage, covers: Covers) -> Option<UsageReport> {
        let usage = usage.plausible().without_unknown_price();
        usage.is_reported().then_some(UsageReport { usage, covers })
    }
}

/// How many answers may be reported again, such as those of subagents that work side by side.
const MAX_OPEN: usize = 32;

/// The sum of an agent's reports.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    settled: Usage,
    /// The newest answers by their ids, with what their last report says.
    open: VecDeque<(String, Usage)>,
}

impl Meter {
    /// Adds the next report.
    pub fn add(&mut self, report: &UsageReport) {
        match &report.covers {
            Covers::Session => {
                self.settle(0);
                self.settled.replace_with(&report.usage);
            }
            Covers::Answer { id: None } => self.settled.add(&report.usage),
            Covers::Answer { id: Some(id) } => {
                match self.open.iter_mut().find(|(known, _)| known == id) {
                    Some((_, usage)) => *usage = report.usage,
                    None => self.open.push_back((id.clone(), report.usage)),
                }
                self.settle(MAX_OPEN);
            }
        }
    }

    /// The sum so far.
    pub fn usage(&self) -> Usage {
        let mut sum = self.settled;
        self.open.iter().for_each(|(_, usage)| sum.add(usage));
        sum
    }

    /// Settles the oldest answers, except for this many.
    fn settle(&mut self, kept: usize) {
        let settled = self.open.len().saturating_sub(kept);
        for (_, usage) in self.open.drain(..settled) {
            self.settled.add(&usage);
        }
    }
}

/// The amount, if it is one.
pub(super) fn money(amount: f64) -> Option<f64> {
    (amount.is_finite() && amount >= 0.0).then_some(amount)
}

/// A count in words, as in `950`, `5.2k` and `1.3M`.
pub(super) fn count_in_words(words: &str) -> Option<u64> {
    let (number, unit) = match words.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => match words.strip_suffix(['m', 'M']) {
            Some(number) => (number, 1e6),
            None => (words, 1.0),
        },
    };
    let number: f64 = number.replace(',', "").parse().ok()?;
    let number = money(number)? * unit;
    Some(number.round() as u64)
}

/// An amount of money in words, as in `0.0060`.
pub(super) fn money_in_words(words: &str) -> Option<f64> {
    money(words.replace(',', "").parse().ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() }
    }

    fn sum(reports: &[Option<UsageReport>]) -> Usage {
        let mut meter = Meter::default();
        reports.iter().flatten().for_each(|report| meter.add(report));
        meter.usage()
    }

    #[test]
    fn nothing_is_reported_without_a_report() {
        assert!(!sum(&[]).is_reported());
        assert_eq!(sum(&[]).tokens(), None);
        assert_eq!(UsageReport::of_session(Usage::default()), None);
        assert!(usage(0, 0).is_reported());
    }

    #[test]
    fn answers_add_up_and_their_last_report_counts() {
        let answer = |id, usage| UsageReport::of_answer(usage, id);
        let reports = [
            answer(Some("a"), usage(10, 1)),
            answer(Some("b"), usage(20, 2)),
            answer(Some("a"), usage(10, 5)),
            answer(None, usage(1, 1)),
        ];
        assert_eq!(sum(&reports), usage(31, 8));
    }

    #[test]
    fn a_report_of_the_session_replaces_what_it_reports() {
        let turn = Usage { turns: Some(1), ..usage(10, 1) };
        let whole = Usage { usd: Some(0.5), ..usage(35, 9) };
        let reports = [
            UsageReport::of_answer(turn, Some("a")),
            UsageReport::of_answer(turn, Some("b")),
            UsageReport::of_session(whole),
        ];
        assert_eq!(sum(&reports), Usage { turns: Some(2), ..whole });
        assert_eq!(sum(&reports[..2]), Usage { turns: Some(2), ..usage(20, 2) });
    }

    #[test]
    fn a_price_of_zero_for_tokens_is_not_a_report() {
        let free = |usage| UsageReport::of_session(Usage { usd: Some(0.0), ..usage });
        assert_eq!(sum(&[free(usage(5, 5))]), usage(5, 5));
        assert_eq!(sum(&[free(usage(0, 0))]).usd, Some(0.0));
    }

    #[test]
    fn counts_in_words_are_read() {
        for (words, expected) in [
            ("950", Some(950)),
            ("5.2k", Some(5_200)),
            ("17k", Some(17_000)),
            ("1.3M", Some(1_300_000)),
            ("1,024", Some(1_024)),
            ("-3", None),
            ("inf", None),
            ("k", None),
            ("", None),
        ] {
            assert_eq!(count_in_words(words), expected, "{words}");
        }
        assert_eq!(money_in_words("0.0060"), Some(0.006));
        assert_eq!(money_in_words("nan"), None);
    }

    proptest! {
        #[test]
        fn the_order_of_answers_does_not_matter(
            reports in prop::collection::vec((0_u8..80, 0_u64..1_000), 0..100),
        ) {
            let last: std::collections::BTreeMap<u8, u64> = reports.iter().copied().collect();
            // Only as many answers as may be open are certain to be known again.
            prop_assume!(last.len() <= MAX_OPEN);
            let reports: Vec<_> = reports
                .iter()
                .map(|(id, input)| UsageReport::of_answer(usage(*input, 0), Some(&id.to_string())))
                .collect();
            let expected: u64 = last.values().sum();
            prop_assert_eq!(sum(&reports).input_tokens.unwrap_or_default(), expected);
        }
    }
}
