//! Datagrams in flight: ordered by due time, bounded in bytes, their vectors used again.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A datagram in flight.
#[derive(Debug)]
pub(super) struct DelayedDatagram {
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// A datagram that is held back until others have overtaken it.
#[derive(Debug)]
struct ReorderedDatagram {
    held: DelayedDatagram,
    /// It is released once this many datagrams have been queued in all,
    after: u64,
    /// or at this time.
    due_ns: u64,
}

/// All datagrams in flight.
#[derive(Debug, Default)]
pub(super) struct DelayQueue {
    queue: BTreeMap<(u64, u64), DelayedDatagram>,
    overtaken: Vec<ReorderedDatagram>,
    queued: u64,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

/// Vectors kept for use again.
const SPARE: usize = 1024;

impl DelayQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.overtaken.is_empty()
    }

    /// Returns the bytes in flight.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns an empty vector to fill.
    pub(super) fn vector(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a vector back.
    pub(super) fn give_back(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Queues a datagram that is due at that time.
    pub(super) fn push(&mut self, due_ns: u64, held: DelayedDatagram) {
        self.queued += 1;
        self.bytes += held.bytes.len();
        self.queue.insert((due_ns, self.queued), held);
    }

    /// Holds a datagram back until `span` others have been queued, or that time has been reached.
    pub(super) fn hold_back(&mut self, span: u64, due_ns: u64, held: DelayedDatagram) {
        self.bytes += held.bytes.len();
        self.overtaken.push(ReorderedDatagram { held, after: self.queued + span, due_ns });
    }

    /// Queues datagrams that were held back long enough.
    pub(super) fn release(&mut self, now_ns: u64) {
        let mut i = 0;
        while i < self.overtaken.len() {
            let ReorderedDatagram { after, due_ns, .. } = self.overtaken[i];
            if after <= self.queued || due_ns <= now_ns {
                let ReorderedDatagram { held, .. } = self.overtaken.remove(i);
                self.bytes -= held.bytes.len();
                self.push(now_ns, held);
            } else {
                i += 1;
            }
        }
    }

    /// Returns the datagrams due by now, in order.
    pub(super) fn due(&self, now_ns: u64) -> impl Iterator<Item = &DelayedDatagram> {
        self.queue.range(..=(now_ns, u64::MAX)).map(|(_, held)| held)
    }

    /// Removes the first `count`.
    pub(super) fn remove_first(&mut self, count: usize) {
        for _ in 0..count {
            if let Some((_, held)) = self.queue.pop_first() {
                self.bytes -= held.bytes.len();
                self.give_back(held.bytes);
            }
        }
    }

    /// Returns the time at which the next datagram is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let queued = self.queue.first_key_value().map(|((due_ns, _), _)| *due_ns);
        let overtaken = self.overtaken.iter().map(|one| one.due_ns).min();
        queued.into_iter().chain(overtaken).min()
    }
}
