//! Connections that wait to be accepted: a bounded queue per listener.

use crate::far::link::FarLink;
use crate::known::Known;
use crate::lock::lock;
use clump_os::sync::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A waiting connection.
#[derive(Debug)]
pub(crate) enum PendingConnection {
    /// A connection of this job, and its number.
    Near(u64, Known),
    /// A connection of another job.
    Far(Arc<FarLink>),
}

/// Result of queueing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Queued {
    Waits,
    Full,
    /// The listener is gone.
    Closed,
}

/// The bounded queue of a listener.
#[derive(Debug)]
pub(crate) struct Queue {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    visitors: VecDeque<PendingConnection>,
    /// Places reserved for connections of other jobs that are being established.
    reserved: usize,
    closed: bool,
}

impl Queue {
    /// Makes a queue for at most `most` connections.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, inner: Mutex::default() }
    }

    /// Queues a connection, if there is space.
    pub(crate) fn push(&self, visitor: PendingConnection) -> Queued {
        let mut inner = lock(&self.inner);
        let state = inner.state(self.most);
        if state == Queued::Waits {
            inner.visitors.push_back(visitor);
        }
        state
    }

    /// Returns the number of places that are neither taken by a waiting connection nor reserved.
    ///
    /// # Errors
    /// All are taken by waiting connections, or the listener is gone.
    pub(crate) fn free(&self) -> Result<usize, Queued> {
        let inner = lock(&self.inner);
        match inner.closed {
            true => Err(Queued::Closed),
            false if inner.visitors.len() >= self.most => Err(Queued::Full),
            false => Ok(self.most.saturating_sub(inner.visitors.len() + inner.reserved)),
        }
    }

    /// Reserves a place for a connection that is being established.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn reserve(self: &Arc<Self>) -> Result<Arc<QueueReservation>, Queued> {
        let mut inner = lock(&self.inner);
        match inner.state(self.most) {
            Queued::Waits => {
                inner.reserved += 1;
                Ok(Arc::new(QueueReservation {
                    queue: self.clone(),
                    taken: AtomicBool::new(false),
                }))
            }
            none => Err(none),
        }
    }

    /// Returns the connection that has waited longest.
    pub(crate) fn pop(&self) -> Option<PendingConnection> {
        lock(&self.inner).visitors.pop_front()
    }

    /// Returns true if no connection waits.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.inner).visitors.is_empty()
    }

    /// Closes the queue; returns the waiting connections.
    pub(crate) fn close(&self) -> VecDeque<PendingConnection> {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        std::mem::take(&mut inner.visitors)
    }
}

/// A reserved place in a queue, for the first of several half-open handshakes of one client that
/// completes; free again when all of them are dropped.
#[derive(Debug)]
pub(crate) struct QueueReservation {
    queue: Arc<Queue>,
    taken: AtomicBool,
}

impl QueueReservation {
    /// Puts `visitor` into the place; false if another handshake has taken it, or the listener is
    /// gone.
    pub(crate) fn take(&self, visitor: PendingConnection) -> bool {
        if self.taken.swap(true, Ordering::AcqRel) {
            return false;
        }
        let mut inner = lock(&self.queue.inner);
        inner.reserved = inner.reserved.saturating_sub(1);
        if inner.closed {
            return false;
        }
        inner.visitors.push_back(visitor);
        true
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }
}

impl Drop for QueueReservation {
    fn drop(&mut self) {
        if !self.is_taken() {
            let mut inner = lock(&self.queue.inner);
            inner.reserved = inner.reserved.saturating_sub(1);
        }
    }
}

impl Inner {
    fn state(&self, most: usize) -> Queued {
        if self.closed {
            Queued::Closed
        } else if self.visitors.len() + self.reserved >= most {
            Queued::Full
        } else {
            Queued::Waits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::ConnectionLine;
    use crate::port::Order;
    use clump_am::Name;

    fn visitor() -> PendingConnection {
        let line = Arc::new(ConnectionLine::new(Order::Any, 0));
        PendingConnection::Near(1, Known { line, peer: Name::from_bits(1) })
    }

    #[test]
    fn a_reservation_is_taken_once_and_free_when_nobody_wants_it() {
        let queue = Arc::new(Queue::new(1));
        let reservation = queue.reserve().unwrap();
        assert_eq!(queue.reserve().unwrap_err(), Queued::Full);
        assert_eq!(queue.push(visitor()), Queued::Full);
        let other_way = reservation.clone();
        drop(reservation);
        assert_eq!(queue.reserve().unwrap_err(), Queued::Full, "one way is left");
        drop(other_way);
        let (reservation, other_way) = {
            let reservation = queue.reserve().unwrap();
            (reservation.clone(), reservation)
        };
        assert!(reservation.take(visitor()) && !other_way.take(visitor()));
        drop((reservation, other_way));
        assert_eq!(queue.reserve().unwrap_err(), Queued::Full, "it waits to be accepted");
        assert!(queue.pop().is_some() && queue.pop().is_none());
        let reservation = queue.reserve().unwrap();
        queue.close();
        assert!(!reservation.take(visitor()));
        assert_eq!(queue.reserve().unwrap_err(), Queued::Closed);
    }
}
