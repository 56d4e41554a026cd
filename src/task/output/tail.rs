//! The newest bytes of a stream. Pure.

use std::collections::VecDeque;

/// How much of the end is kept, where a program says why it failed.
pub(crate) const KEPT: usize = 64 * 1024;

/// The newest bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    total: u64,
}

impl Tail {
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let surplus = (self.bytes.len() + bytes.len()).saturating_sub(KEPT);
        self.bytes.drain(..surplus.min(self.bytes.len()));
        let newest = bytes.len().saturating_sub(KEPT);
        self.bytes.extend(bytes.get(newest..).unwrap_or_default());
    }

    /// How many bytes there were in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is kept of the bytes after the first `seen`.
    pub fn since(&self, seen: u64) -> Vec<u8> {
        let new = usize::try_from(self.total.saturating_sub(seen)).unwrap_or(usize::MAX);
        let old = self.bytes.len().saturating_sub(new);
        self.bytes.iter().skip(old).copied().collect()
    }

    /// All that is kept.
    pub fn bytes(&self) -> Vec<u8> {
        self.since(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_are_kept_and_all_are_counted() {
        let mut tail = Tail::default();
        tail.push(b"first ");
        let seen = tail.total();
        tail.push(b"second");
        assert_eq!(tail.since(seen), b"second");
        assert_eq!(tail.bytes(), b"first second");
        tail.push(&vec![b'x'; KEPT - 3]);
        assert_eq!(tail.bytes().len(), KEPT);
        assert!(tail.bytes().starts_with(b"ondx"));
        tail.push(&vec![b'y'; 2 * KEPT]);
        assert_eq!(tail.bytes(), vec![b'y'; KEPT]);
        assert_eq!(tail.total(), (12 + KEPT - 3 + 2 * KEPT) as u64);
        assert_eq!(tail.since(tail.total()), b"");
    }
}
