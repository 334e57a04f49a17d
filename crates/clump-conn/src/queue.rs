//! Connections that wait to be accepted: a bounded queue per listener.

use crate::far::Link;
use crate::hub::{Known, lock};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A connection that waits.
#[derive(Debug)]
pub(crate) enum Visitor {
    /// Of this job, and its number.
    Near(u64, Known),
    /// Of another job.
    Far(Arc<Link>),
}

/// What became of one that wants to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Queued {
    Waits,
    Full,
    /// The listener is gone.
    Closed,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    visitors: VecDeque<Visitor>,
    /// Places kept for connections of other jobs that are being made.
    reserved: usize,
    closed: bool,
}

impl Queue {
    /// A queue for at most `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, inner: Mutex::default() }
    }

    /// Lets a connection wait, if there is room.
    pub(crate) fn push(&self, visitor: Visitor) -> Queued {
        let mut inner = lock(&self.inner);
        let state = inner.state(self.most);
        if state == Queued::Waits {
            inner.visitors.push_back(visitor);
        }
        state
    }

    /// Keeps a place for one that is being made.
    pub(crate) fn reserve(&self) -> Queued {
        let mut inner = lock(&self.inner);
        let state = inner.state(self.most);
        inner.reserved += usize::from(state == Queued::Waits);
        state
    }

    /// The place that was kept is not needed, or taken by `visitor`; false when the listener is gone.
    pub(crate) fn settle(&self, visitor: Option<Visitor>) -> bool {
        let mut inner = lock(&self.inner);
        inner.reserved = inner.reserved.saturating_sub(1);
        if inner.closed {
            return false;
        }
        inner.visitors.extend(visitor);
        true
    }

    /// The one that has waited longest.
    pub(crate) fn pop(&self) -> Option<Visitor> {
        lock(&self.inner).visitors.pop_front()
    }

    /// Whether any waits.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.inner).visitors.is_empty()
    }

    /// Takes no more; gives those that wait.
    pub(crate) fn close(&self) -> VecDeque<Visitor> {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        std::mem::take(&mut inner.visitors)
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
