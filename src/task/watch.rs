//! Waiting for an event of a task: new output (the listen window), its end, or a line that
//! matches.

use std::io;
use std::time::{Duration, Instant};

use super::live::{LiveState, WaitStep};
use super::output::effort::Effort;
use super::output::reading::{self, Match, PatternWatch};
use super::port::PortFound;
use super::port_watch::{CHECK_INTERVAL, PortWatch};
use super::registry::TaskHandle;
use super::stream::{PerStream, StreamName};
use crate::base::cancel::Cancel;
use crate::process::timers::PreciseWaits;
use crate::progress::waiting::Reading;
use crate::text::pattern::Pattern;

/// How long to wait for more after the first new output, so that a line does not arrive in
/// halves.
pub(crate) const SETTLE: Duration = Duration::from_millis(30);

/// A reply to input is over when output has been silent for this long.
pub(crate) const REPLY_SILENCE: Duration = Duration::from_millis(80);

/// The same for a program that never blocks on its input.
pub(crate) const LOOP_SILENCE: Duration = Duration::from_millis(300);

/// How much longer a reply waits for the probe that confirms that the task waits for input again;
/// without it the caller would have to poll for that.
pub(crate) const CONFIRMATION: Duration = Duration::from_millis(150);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal<'a> {
    /// Output that no result has shown, or the end.
    Output,
    /// The end, whatever is output before.
    End,
    /// Output after `after`, and then silence.
    Reply {
        /// The end of each stream before the input was sent.
        after: PerStream<u64>,
        /// The text that was typed, if nothing else was. While only its echo has come, the reply
        /// may be on its way, and silence ends the wait only if the task's processes are idle.
        typed: Option<&'a str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// New output came, or had come before.
    Output,
    /// The task has ended.
    Ended,
    /// A line matched.
    Matched(Match),
    /// The port is served, or another process holds it.
    Port(PortFound),
    /// The task waits for input.
    WaitsForInput,
    /// A signal has stopped the task.
    TaskStopped,
    /// The task has become stuck, and no result has reported that.
    Stuck,
    /// The task prints the same again and again, and no result has reported that.
    Repeats,
    /// The pattern costs too much: the search was given up after this much work.
    TooMuchWork(Duration),
    /// The time is up.
    Limit,
    /// The call was cancelled.
    Cancelled,
}

/// An action to repeat while waiting.
pub(crate) struct Tick<'a> {
    /// The shortest interval.
    pub(crate) every: Duration,
    pub(crate) call: &'a mut dyn FnMut(&TaskHandle),
}

pub(crate) struct TaskWatch<'a> {
    pub(crate) goal: Goal<'a>,
    /// A matching line ends the wait; other output does not.
    pub(crate) pattern: Option<&'a Pattern>,
    /// The task's listening at this port ends the wait; output does not.
    pub(crate) port: Option<&'a mut PortWatch>,
    pub(crate) limit: Instant,
    /// Ends the wait early.
    pub(crate) cancel: &'a Cancel,
    pub(crate) tick: Option<Tick<'a>>,
}

/// What one wait on the condvar found.
enum Woken {
    Stop(WaitEnd),
    /// Silence after output that may be only an echo.
    Silence,
    MoreToMatch,
}

/// What a wait knows of the output.
struct Look {
    /// Up to where it counts as shown.
    shown: u64,
    /// Whether a result has reported the task's end.
    end_reported: bool,
    settled_at: Option<Instant>,
    /// The end of the output that is only the echo of what was typed.
    echoed: Option<u64>,
}

impl TaskWatch<'_> {
    /// The end of the output, if everything after `after` is only an echo.
    fn echo_until(&self, task: &TaskHandle, after: u64, columns: Option<u16>) -> Option<u64> {
        let Goal::Reply { typed: Some(typed), .. } = self.goal else {
            return None;
        };
        // Only terminals echo, and they have a single stream.
        let end = task.live.state().showable();
        let output = reading::newest_text(&task.spools.output, after, end, columns);
        is_echo(&output, typed).then_some(end)
    }

    /// Waits until the goal is reached or something else ends the wait.
    ///
    /// # Errors
    /// The output cannot be searched for the pattern.
    pub(crate) fn run(mut self, task: &TaskHandle) -> io::Result<WaitEnd> {
        let (mut look, columns) = {
            let state = task.live.state();
            let shown = match self.goal {
                Goal::Reply { after, .. } => after.output + after.errors,
                Goal::Output | Goal::End => state.told.bytes(),
            };
            let awaits_echo = matches!(self.goal, Goal::Reply { typed: Some(_), .. });
            let look = Look {
                shown,
                end_reported: state.told.end,
                settled_at: None,
                echoed: awaits_echo.then_some(shown),
            };
            (look, state.columns)
        };
        let deltas = task.live.state().deltas();
        let watch_stream = |pattern, name: StreamName| {
            let mut watch = PatternWatch::new(pattern, name, deltas.get(name), columns);
            if let Goal::Reply { after, typed } = self.goal {
                watch.begin_after_input(*after.get(name), typed.unwrap_or_default());
            }
            watch
        };
        let mut patterns: Option<[PatternWatch<'_>; 2]> = self.pattern.map(|pattern| {
            [StreamName::Output, StreamName::Errors].map(|name| watch_stream(pattern, name))
        });
        let mut effort = Effort::new(self.cancel, self.limit);
        // The end of the listen window is a time, so a late wake-up delays the answer.
        let _precise = PreciseWaits::begin();
        let mut next_tick = self.tick.as_ref().map(|tick| Instant::now() + tick.every);
        loop {
            let streams = task.live.state().streams;
            for pattern in patterns.iter_mut().flatten() {
                let (spool, end) =
                    (task.spools.get(pattern.stream), streams.get(pattern.stream).end);
                match pattern.search(spool, end, &mut effort)? {
                    Some(Ok(found)) => {
                        self.await_line_end(task, &found);
                        return Ok(WaitEnd::Matched(found));
                    }
                    Some(Err(_)) => return Ok(self.given_up(&effort)),
                    None => {}
                }
            }
            let mut slice = next_tick.map_or(self.limit, |tick| tick.min(self.limit));
            if let Some(port) = &mut self.port {
                if let Some(found) = port.check() {
                    return Ok(WaitEnd::Port(found));
                }
                slice = slice.min(Instant::now() + CHECK_INTERVAL);
            }
            let searched =
                patterns.as_ref().map(|watches| watches.iter().map(|watch| watch.seen).sum());
            match self.wait(task, slice, searched, &mut look) {
                Some(Woken::Stop(stopped)) => return Ok(stopped),
                Some(Woken::Silence) => match self.echo_until(task, look.shown, columns) {
                    Some(end) => look.echoed = Some(end),
                    None => return Ok(WaitEnd::Output),
                },
                Some(Woken::MoreToMatch) if Instant::now() < self.limit => {}
                Some(Woken::MoreToMatch) | None => {
                    if !self.cancel.is_cancelled() && Instant::now() >= self.limit {
                        let end = task.live.state().showable();
                        let has_output =
                            self.effective_goal(searched) != Goal::End && end > look.shown;
                        return Ok(if has_output { WaitEnd::Output } else { WaitEnd::Limit });
                    }
                }
            }
            if self.cancel.is_cancelled() {
                return Ok(WaitEnd::Cancelled);
            }
            if let (Some(tick), Some(due)) = (&mut self.tick, next_tick)
                && Instant::now() >= due
            {
                (tick.call)(task);
                next_tick = Some(Instant::now() + tick.every);
            }
        }
    }

    /// Waits for the end of a line that matched, if it comes at once: programs without a buffer write
    /// it by itself, and the next wait for output would end with it.
    fn await_line_end(&self, task: &TaskHandle, found: &Match) {
        let step = |state: &LiveState| {
            let is_whole = state.streams.get(found.stream).end.line > found.line;
            if is_whole || state.ended.is_some() {
                WaitStep::Found(())
            } else {
                WaitStep::WaitUntil(None)
            }
        };
        let until = self.limit.min(Instant::now() + SETTLE);
        task.live.wait_for(Some(until), self.cancel, step, Instant::now);
    }

    /// Why a search for the pattern was given up.
    fn given_up(&self, effort: &Effort) -> WaitEnd {
        if self.cancel.is_cancelled() {
            WaitEnd::Cancelled
        } else if Instant::now() >= self.limit {
            WaitEnd::Limit
        } else {
            WaitEnd::TooMuchWork(effort.done())
        }
    }

    /// What output can end the wait: none while a line or a port is awaited.
    fn effective_goal(&self, searched: Option<u64>) -> Goal<'_> {
        if searched.is_some() || self.port.is_some() { Goal::End } else { self.goal }
    }

    /// One wait on the task's state, until this time at the latest. `searched` is up to where the output
    /// was searched for the pattern.
    fn wait(
        &self,
        task: &TaskHandle,
        until: Instant,
        searched: Option<u64>,
        look: &mut Look,
    ) -> Option<Woken> {
        let awaits_more = searched.is_some() || self.port.is_some();
        let goal = self.effective_goal(searched);
        let step = |state: &LiveState| {
            if searched.is_some_and(|searched| state.printed() > searched) {
                return WaitStep::Found(Woken::MoreToMatch);
            }
            let ended = state.ended.is_some() && !look.end_reported && !awaits_more;
            let stop = if ended || state.closed {
                Some(WaitEnd::Ended)
            } else {
                needs_attention(state, self.goal == Goal::End && !awaits_more)
            };
            if let Some(stop) = stop {
                return WaitStep::Found(Woken::Stop(stop));
            }
            match goal {
                Goal::End if searched.is_none() => WaitStep::WaitDespiteOutput(None),
                Goal::End => WaitStep::WaitUntil(None),
                Goal::Output => new_output(state, look.shown, &mut look.settled_at),
                Goal::Reply { .. } => reply(state, look.shown, look.echoed),
            }
        };
        task.live.wait_for(Some(until), self.cancel, step, Instant::now)
    }
}

/// What the caller should learn before anything else comes; `of_repetition`: also that the task
/// prints the same again and again.
fn needs_attention(state: &LiveState, of_repetition: bool) -> Option<WaitEnd> {
    // A person who is attached answers.
    if state.waiting.is_some() && state.people.is_none() {
        Some(WaitEnd::WaitsForInput)
    } else if state.is_held_up_by_stop() {
        Some(WaitEnd::TaskStopped)
    } else if state.is_stuck && !state.told.stuck {
        Some(WaitEnd::Stuck)
    } else if of_repetition && !state.told.repetition && state.repeats(Instant::now()) {
        Some(WaitEnd::Repeats)
    } else {
        None
    }
}

/// Whether an output is only the lines that were typed, or the first of them, each perhaps after
/// a prompt.
pub(crate) fn is_echo(output: &str, typed: &str) -> bool {
    let mut typed = typed.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut shown = output.lines().map(str::trim).filter(|line| !line.is_empty());
    shown.all(|line| typed.next().is_some_and(|typed| line.ends_with(typed)))
}

/// The listen window: output that had not been shown when the wait began, settled.
fn new_output(state: &LiveState, shown: u64, settled_at: &mut Option<Instant>) -> WaitStep<Woken> {
    if state.showable() <= shown {
        return WaitStep::WaitUntil(None);
    }
    let newest = state.last_output.unwrap_or_else(Instant::now);
    let settled = *settled_at.get_or_insert(newest + SETTLE);
    if Instant::now() >= settled {
        WaitStep::Found(Woken::Stop(WaitEnd::Output))
    } else {
        WaitStep::WaitDespiteOutput(Some(settled))
    }
}

/// Output has come and become silent. It is the reply if the program reads again. Of one whose
/// reading says nothing, the prompt says it, or output other than an echo and a longer silence.
fn reply(state: &LiveState, before: u64, echoed: Option<u64>) -> WaitStep<Woken> {
    let end = state.showable();
    if end <= before {
        return WaitStep::WaitUntil(None);
    }
    let newest = state.last_output.unwrap_or_else(Instant::now);
    let mut silent_at = newest + REPLY_SILENCE;
    if state.unconfirmed {
        silent_at += CONFIRMATION;
    }
    if Instant::now() < silent_at {
        return WaitStep::WaitDespiteOutput(Some(silent_at));
    }
    let complete = WaitStep::Found(Woken::Stop(WaitEnd::Output));
    // Only a probe since the newest output tells what the program does after it.
    let Some(probe) = state.last_input_probe.filter(|probe| probe.at > newest) else {
        return WaitStep::WaitUntil(None);
    };
    let unless_echo = || match echoed {
        Some(echoed) if end > echoed => WaitStep::Found(Woken::Silence),
        Some(_) => WaitStep::WaitUntil(None),
        None => WaitStep::Found(Woken::Stop(WaitEnd::Output)),
    };
    match probe.reading {
        Reading::Blocked => complete,
        Reading::No => WaitStep::WaitUntil(None),
        Reading::AmongOthers if probe.prompts => complete,
        Reading::AmongOthers if probe.computes || probe.at < newest + LOOP_SILENCE => {
            WaitStep::WaitUntil(None)
        }
        Reading::AmongOthers => unless_echo(),
        Reading::Unknown if !probe.again => WaitStep::WaitUntil(None),
        Reading::Unknown if !probe.active => complete,
        Reading::Unknown => unless_echo(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_echo;

    #[test]
    fn an_echo_is_distinguished_from_a_reply() {
        for (output, typed) in [
            ("two\n", "two"),
            ("\n", "a secret that is not shown"),
            (">>> f(1)\n\n", "f(1)"),
            ("one\ntwo \n", "one\ntwo"),
            ("", "two"),
        ] {
            assert!(is_echo(output, typed), "{output:?}");
        }
        for (output, typed) in [
            ("two\none-two", "two"),
            ("two\nName: ", "two"),
            ("bash: two: command not found", "two"),
            ("something", ""),
        ] {
            assert!(!is_echo(output, typed), "{output:?}");
        }
    }
}
