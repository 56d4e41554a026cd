//! The newest of many.

use std::collections::VecDeque;

/// Keeps an item, and of those before it so many that there are no more than `most`.
pub fn keep<T>(ring: &mut VecDeque<T>, most: usize, item: T) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(item);
}
