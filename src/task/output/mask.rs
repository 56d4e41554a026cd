//! The mask between a task's output and its spool, and the silence that it waits for.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::text::mask::{Mask, Secret};

/// Output is silent when nothing has come for this long: longer than a program pauses
/// between two writes of one text, shorter than the silence after which a reply counts as
/// complete.
const SILENCE: Duration = Duration::from_millis(60);

/// The mask between a task's output and its spool; empty until a secret is typed.
#[derive(Default)]
pub(crate) struct Masking {
    mask: Option<Mask>,
    /// When held-back output is released if no more comes.
    silent_at: Option<Instant>,
}

impl Masking {
    /// Masks this secret from now on.
    pub(crate) fn cover(&mut self, name: &str, secret: &Secret) {
        let mask = self.mask.get_or_insert_default();
        mask.cover(name, secret);
    }

    /// The part of this output that can be kept and shown now.
    pub(crate) fn pass<'a>(&mut self, chunk: &'a [u8], now: Instant) -> Cow<'a, [u8]> {
        let Some(mask) = &mut self.mask else {
            return Cow::Borrowed(chunk);
        };
        let shown = mask.feed(chunk);
        self.silent_at = mask.waits_for_silence().then(|| now + SILENCE);
        shown
    }

    /// When to call [`release`](Self::release).
    pub(crate) fn due(&self) -> Option<Instant> {
        self.silent_at
    }

    /// The output that was held back, if it is due.
    pub(crate) fn release(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.silent_at.take_if(|at| now >= *at)?;
        self.mask.as_mut().map(Mask::release)
    }

    /// All that is held back; no more output will come.
    pub(crate) fn finish(&mut self) -> Option<Vec<u8>> {
        self.silent_at = None;
        let rest = self.mask.as_mut()?.finish();
        (!rest.is_empty()).then_some(rest)
    }
}
