//! People at a task's terminal or pipe, who answer its program in the agent's place.
//!
//! The terminal has the size of the window that was attached or resized last, and the agent's size
//! again once no person is attached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::input::{InputChunk, MAX_QUEUED_INPUT};
use super::live::{Input, LiveState, People};
use super::registry::TaskHandle;
use super::request::InputError;
use super::supervisor::Supervisor;
use super::terminal::Terminal;
use super::worker_requests::WorkerRequest;
use crate::process::pty::TerminalSize;
use crate::text::screen::MAX_SIDE;

/// How long a person's input waits for a program that reads too slowly.
const ROOM_LIMIT: Duration = Duration::from_secs(1);

/// A person attached to a task; dropping this detaches the person.
pub(crate) struct Person {
    supervisor: Arc<Supervisor>,
    task: Arc<TaskHandle>,
    number: u64,
    /// The program did not read within the limit: further input does not wait for it.
    starved: AtomicBool,
}

impl Person {
    /// Attaches a person to a task that accepts input.
    ///
    /// # Errors
    /// The task has ended, or accepts no input.
    pub(crate) fn attach(
        supervisor: &Arc<Supervisor>,
        task: &Arc<TaskHandle>,
        size: TerminalSize,
    ) -> Result<Person, InputError> {
        static ARRIVALS: AtomicU64 = AtomicU64::new(0);
        if task.live.facts.input == Input::None && task.live.state().ended.is_none() {
            return Err(InputError::NoInput(task.id().to_owned()));
        }
        let size = supported(size);
        let number = ARRIVALS.fetch_add(1, Ordering::Relaxed);
        let size_before = task.live.terminal().and_then(Terminal::size);
        task.live.report(|state| {
            if state.ended.is_some() {
                return Err(InputError::Ended(task.id().to_owned()));
            }
            state
                .people
                .get_or_insert_with(|| Box::new(People::new(size_before)))
                .set_size(number, size);
            Ok(())
        })?;
        let person = Person {
            supervisor: Arc::clone(supervisor),
            task: Arc::clone(task),
            number,
            starved: AtomicBool::new(false),
        };
        person.apply(size);
        Ok(person)
    }

    /// Adopts the size of the person's terminal. If it has not changed, the screen is only redrawn.
    pub(crate) fn resize(&self, size: TerminalSize) {
        let size = supported(size);
        let is_new = self.task.live.report(|state| {
            let Some(people) = &mut state.people else {
                return false;
            };
            let is_new = people.set_size(self.number, size);
            state.redraws += u64::from(!is_new);
            is_new
        });
        if is_new {
            self.apply(size);
        }
    }

    /// Sends the person's input. Waits a moment if the program does not read.
    ///
    /// # Errors
    /// Nothing was sent.
    pub(crate) fn send(&self, sending: InputChunk) -> Result<(), InputError> {
        let is_full = |sent: &Result<(), InputError>| {
            matches!(sent, Err(InputError::Full { .. } | InputError::Busy { .. }))
        };
        let mut sent = self.supervisor.send(&self.task, sending.clone());
        if is_full(&sent) && !self.starved.load(Ordering::Relaxed) {
            let max_queued = MAX_QUEUED_INPUT.saturating_sub(sending.weight());
            let has_room = |state: &LiveState| state.queued_input <= max_queued;
            self.task.live.await_state(Instant::now() + ROOM_LIMIT, has_room);
            sent = self.supervisor.send(&self.task, sending);
        }
        self.starved.store(is_full(&sent), Ordering::Relaxed);
        sent
    }

    /// Resizes the terminal, if there is one, and has the task's file updated.
    fn apply(&self, size: TerminalSize) {
        // Fails if the task has ended, or has no terminal.
        let _ = self.supervisor.resize(&self.task, size);
        let _ = self.task.requests.send(WorkerRequest::NoteChange);
    }
}

/// The nearest size that the emulated terminal supports.
fn supported(size: TerminalSize) -> TerminalSize {
    TerminalSize { rows: size.rows.clamp(1, MAX_SIDE), cols: size.cols.clamp(2, MAX_SIDE) }
}

impl Drop for Person {
    fn drop(&mut self) {
        let size = self.task.live.report(|state| {
            let people = state.people.as_mut()?;
            people.remove(self.number);
            let size = people.size();
            state.people.take_if(|people| people.count() == 0);
            size
        });
        match size {
            Some(size) => self.apply(size),
            None => {
                let _ = self.task.requests.send(WorkerRequest::NoteChange);
            }
        }
    }
}
