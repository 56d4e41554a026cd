//! The mask between a task's output and its spool, and the silence that it waits for.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::text::mask::{Mask, Secret};

/// Output is silent when nothing has come for so long: longer than a program pauses
/// between two writes of one text, shorter than the silence after which a reply counts as
/// complete.
const SILENCE: Duration = Duration::from_millis(60);

/// The mask between a task's output and its spool; none until a secret is typed.
#[derive(Default)]
pub(super) struct Masking {
    mask: Option<Mask>,
    /// When the output will have been silent, while something is held back that silence
    /// brings out.
    silent_at: Option<Instant>,
}

impl Masking {
    /// From now on this secret is masked.
    pub fn cover(&mut self, name: &str, secret: &Secret) {
        let mask = self.mask.get_or_insert_default();
        mask.cover(name, secret);
    }

    /// What of this output can be kept and shown now.
    pub fn pass<'a>(&mut self, chunk: &'a [u8], now: Instant) -> Cow<'a, [u8]> {
        let Some(mask) = &mut self.mask else {
            return Cow::Borrowed(chunk);
        };
        let shown = mask.feed(chunk);
        self.silent_at = mask.waits_for_silence().then(|| now + SILENCE);
        shown
    }

    /// When to ask for what is held back.
    pub fn due(&self) -> Option<Instant> {
        self.silent_at
    }

    /// What was held back and is shown after silence, if that is due.
    pub fn release(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.silent_at.take_if(|at| now >= *at)?;
        self.mask.as_mut().map(Mask::release)
    }

    /// All that is held back: nothing comes after it.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        self.silent_at = None;
        let rest = self.mask.as_mut()?.finish();
        (!rest.is_empty()).then_some(rest)
    }
}
