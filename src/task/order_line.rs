//! The line on which orders reach a task's worker. Requests keep the near end for as long
//! as the task is known, which is long after its end: the line is closed with the worker,
//! so that a finished task keeps neither a descriptor nor the room for orders.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

use super::order::Order;
use crate::process::descriptors::{self, Waker};

/// Orders that may wait for a worker.
pub const MAX_ORDERS: usize = 256;

/// Why an order did not reach a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOrdered {
    /// The task is over.
    Ended,
    /// Too many orders wait.
    Busy,
}

/// The end that requests hold.
#[derive(Debug)]
pub struct OrderLine {
    /// `None`: the worker is gone.
    way: Mutex<Option<Arc<Way>>>,
}

#[derive(Debug)]
struct Way {
    orders: Sender<Order>,
    waker: Waker,
}

/// The worker's end. The line closes when it goes.
pub struct Orders {
    orders: Receiver<Order>,
    wakes: OwnedFd,
    line: Arc<OrderLine>,
}

impl OrderLine {
    /// Both ends of a line.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> io::Result<(Arc<OrderLine>, Orders)> {
        let (sender, orders) = bounded(MAX_ORDERS);
        let (waker, wakes) = Waker::new()?;
        let way = Way {
            orders: sender,
            waker,
        };
        let line = Arc::new(OrderLine {
            way: Mutex::new(Some(Arc::new(way))),
        });
        let far = Orders {
            orders,
            wakes,
            line: Arc::clone(&line),
        };
        Ok((line, far))
    }

    /// Gives the worker an order.
    ///
    /// # Errors
    /// When the worker is gone, or too many orders wait for it.
    pub fn send(&self, order: Order) -> Result<(), NotOrdered> {
        let way = self.way().ok_or(NotOrdered::Ended)?;
        way.orders.try_send(order).map_err(|error| match error {
            TrySendError::Full(_) => NotOrdered::Busy,
            TrySendError::Disconnected(_) => NotOrdered::Ended,
        })?;
        way.waker.wake();
        Ok(())
    }

    /// Has the worker look at what has changed; nothing, if it is gone.
    pub fn wake(&self) {
        if let Some(way) = self.way() {
            way.waker.wake();
        }
    }

    /// The way to the worker, to be gone without the lock.
    fn way(&self) -> Option<Arc<Way>> {
        self.way.lock().clone()
    }
}

impl Orders {
    /// What becomes readable when there is an order, or a change to look at.
    pub fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    /// Takes the wake-ups that have gathered; orders that come from now on wake anew.
    pub fn drain_wakes(&self) {
        descriptors::drain_wakes(&self.wakes);
    }

    /// The oldest order that waits.
    pub fn next(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }
}

impl Drop for Orders {
    /// Orders that wait are dropped unread, which tells their senders that there is no
    /// receipt.
    fn drop(&mut self) {
        *self.line.way.lock() = None;
        while self.next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_closes_with_its_worker_and_keeps_nothing() {
        let (line, orders) = OrderLine::new().unwrap();
        line.send(Order::Look).unwrap();
        let way = Arc::downgrade(line.way.lock().as_ref().unwrap());
        drop(orders);
        assert_eq!(line.send(Order::Look), Err(NotOrdered::Ended));
        line.wake();
        assert!(way.upgrade().is_none(), "descriptor and room are kept");
    }

    #[test]
    fn a_full_line_refuses_and_takes_orders_again_when_one_was_taken() {
        let (line, orders) = OrderLine::new().unwrap();
        for _ in 0..MAX_ORDERS {
            line.send(Order::Look).unwrap();
        }
        assert_eq!(line.send(Order::Look), Err(NotOrdered::Busy));
        assert!(orders.next().is_some());
        line.send(Order::Look).unwrap();
    }
}
