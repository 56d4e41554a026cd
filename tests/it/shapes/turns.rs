//! Permits: at most so many do something at a time.

use std::sync::{Condvar, Mutex};

/// A number of permits.
pub struct Turns {
    free: Mutex<usize>,
    returned: Condvar,
}

/// A permit; it is given back when it is dropped.
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// So many permits.
    pub const fn of(count: usize) -> Turns {
        Turns { free: Mutex::new(count), returned: Condvar::new() }
    }

    /// Waits for a permit.
    pub fn take(&self) -> Turn<'_> {
        let free = self.free.lock().expect("no holder panicked here");
        let mut free =
            self.returned.wait_while(free, |free| *free == 0).expect("no holder panicked here");
        *free -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Ok(mut free) = self.0.free.lock() {
            *free += 1;
        }
        self.0.returned.notify_one();
    }
}
