//! Remote calls that wait to be sent, by rank: pure, without a clock or a network.

use crate::call_record::CallRecord;
use crate::collector::SendCause;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Buffers that are kept for the next batches.
const SPARE: usize = 8;

/// Bounds of waiting calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutboxBounds {
    /// Bytes of a batch, at most; of one call, if that is longer.
    pub(crate) batch_bytes: usize,
    /// Bytes of all batches together, at most.
    pub(crate) memory_bytes: usize,
    /// Age at which a batch is sent, in ns.
    pub(crate) delay_ns: u64,
}

/// Calls of one message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallBatch {
    /// Rank that executes them.
    pub(crate) rank: usize,
    /// Number of calls.
    pub(crate) calls: u64,
    /// Records of the calls.
    pub(crate) bytes: Vec<u8>,
    /// Reason for sending them.
    pub(crate) cause: SendCause,
}

#[derive(Debug)]
struct OpenCalls {
    calls: u64,
    bytes: Vec<u8>,
    since_ns: u64,
    /// Number that no other batch has had.
    serial: u64,
}

/// Open batches of calls.
#[derive(Debug)]
pub(crate) struct CallOutbox {
    bounds: OutboxBounds,
    open: FxHashMap<usize, OpenCalls>,
    /// Ranks and serial numbers of batches, in the order in which they were opened; those that
    /// were sent since are skipped.
    order: VecDeque<(usize, u64)>,
    /// Bytes of all open batches.
    held: usize,
    opened: u64,
    spare: Vec<Vec<u8>>,
}

impl CallOutbox {
    pub(crate) fn new(bounds: OutboxBounds) -> Self {
        let (open, order, held, opened, spare) = Default::default();
        Self { bounds, open, order, held, opened, spare }
    }

    /// Returns a batch that is to be sent before a call with `arguments` bytes is added.
    pub(crate) fn obstacle(&mut self, rank: usize, arguments: usize) -> Option<CallBatch> {
        let more = CallRecord::length(arguments);
        let full = self.open.get(&rank).map(|open| open.bytes.len() + more);
        if full.is_some_and(|bytes| bytes > self.bounds.batch_bytes) {
            return self.close(rank, SendCause::Full);
        }
        let too_much = self.held + more > self.bounds.memory_bytes;
        if too_much { self.oldest(SendCause::Displaced) } else { None }
    }

    /// Returns true if a batch of that rank is open.
    pub(crate) fn is_open(&self, rank: usize) -> bool {
        self.open.contains_key(&rank)
    }

    /// Adds a call. Call [`CallOutbox::obstacle`] before, until it returns none.
    pub(crate) fn push(&mut self, rank: usize, call: &CallRecord<'_>, now: u64) {
        let more = CallRecord::length(call.bytes.len());
        let open = self.open.entry(rank).or_insert_with(|| {
            self.opened += 1;
            self.order.push_back((rank, self.opened));
            let bytes = self.spare.pop().unwrap_or_default();
            debug_assert!(bytes.is_empty(), "it was kept empty");
            OpenCalls { calls: 0, bytes, since_ns: now, serial: self.opened }
        });
        call.append_to(&mut open.bytes);
        open.calls += 1;
        self.held += more;
        debug_assert!(open.calls == 1 || open.bytes.len() <= self.bounds.batch_bytes, "it fits");
        debug_assert!(self.order.len() >= self.open.len(), "each batch has its place");
    }

    /// Returns a batch that has waited too long.
    pub(crate) fn expired(&mut self, now: u64) -> Option<CallBatch> {
        let rank = self.first()?;
        let since = self.open.get(&rank)?.since_ns;
        if now.saturating_sub(since) < self.bounds.delay_ns {
            return None;
        }
        self.close(rank, SendCause::Old)
    }

    /// Returns the batch that was opened first.
    pub(crate) fn oldest(&mut self, cause: SendCause) -> Option<CallBatch> {
        let rank = self.first()?;
        self.close(rank, cause)
    }

    /// Takes the batch of a rank out.
    pub(crate) fn close(&mut self, rank: usize, cause: SendCause) -> Option<CallBatch> {
        let OpenCalls { calls, bytes, .. } = self.open.remove(&rank)?;
        debug_assert!(calls > 0 && self.held >= bytes.len(), "a batch has calls");
        self.held -= bytes.len();
        // Full batches leave their places behind while an old one stays in front of them.
        if self.order.len() > 2 * self.open.len() + SPARE {
            let open = &self.open;
            self.order
                .retain(|(rank, serial)| open.get(rank).is_some_and(|it| it.serial == *serial));
        }
        debug_assert!(!self.open.is_empty() || self.held == 0, "nothing waits outside a batch");
        Some(CallBatch { rank, calls, bytes, cause })
    }

    /// Returns an empty buffer. Give it back by [`CallOutbox::keep`].
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back the memory of a batch that was sent.
    pub(crate) fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Returns the rank of the batch that was opened first.
    fn first(&mut self) -> Option<usize> {
        while let Some((rank, serial)) = self.order.front().copied() {
            if self.open.get(&rank).is_some_and(|open| open.serial == serial) {
                return Some(rank);
            }
            self.order.pop_front();
        }
        debug_assert!(self.open.is_empty(), "a batch is forgotten");
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{CallOutbox, OutboxBounds, SPARE};
    use crate::call_record::{CallRecord, CallRecords, HEAD};
    use crate::collector::SendCause;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const BOUNDS: OutboxBounds = OutboxBounds { batch_bytes: 100, memory_bytes: 300, delay_ns: 50 };

    #[test]
    fn batches_are_sent_when_full_old_or_displaced() {
        let mut outbox = CallOutbox::new(BOUNDS);
        let mut push = |rank, cookie, now| {
            let sent = outbox.obstacle(rank, 24);
            outbox.push(rank, &CallRecord { number: 1, cookie, bytes: &[0; 24] }, now);
            sent.map(|batch| (batch.rank, batch.calls, batch.cause))
        };
        assert_eq!([push(0, 1, 0), push(0, 2, 10), push(1, 3, 20)], [None; 3]);
        assert_eq!(push(0, 4, 30), Some((0, 2, SendCause::Full)));
        assert_eq!([push(2, 5, 31), push(3, 6, 32), push(4, 7, 33), push(5, 8, 34)], [None; 4]);
        assert_eq!([push(4, 9, 35), push(5, 10, 36)], [None, Some((1, 1, SendCause::Displaced))]);
        assert!(outbox.expired(79).is_none(), "the oldest was opened at 30");
        let old = outbox.expired(80).unwrap();
        assert_eq!((old.rank, old.calls, old.cause), (0, 1, SendCause::Old));
        let rest = std::iter::from_fn(|| outbox.oldest(SendCause::Flushed));
        assert_eq!(rest.map(|batch| batch.rank).collect::<Vec<_>>(), [2, 3, 4, 5]);
    }

    proptest! {
        #[test]
        fn each_call_is_sent_once_and_in_order(
            pushes in prop::collection::vec((0..6_usize, 0..200_usize, 0..30_u64), 0..300),
        ) {
            let mut outbox = CallOutbox::new(BOUNDS);
            let mut sent: HashMap<usize, Vec<u64>> = HashMap::new();
            let mut given: HashMap<usize, Vec<u64>> = HashMap::new();
            let mut send = |outbox: &mut CallOutbox, batch: super::CallBatch| {
                let records: Vec<_> =
                    CallRecords::of(&batch.bytes).map(|it| it.unwrap().cookie).collect();
                assert_eq!(records.len() as u64, batch.calls);
                assert!(batch.bytes.len() <= BOUNDS.batch_bytes || batch.calls == 1);
                sent.entry(batch.rank).or_default().extend(records);
                outbox.keep(batch.bytes);
            };
            let mut now = 0;
            for (cookie, (rank, length, pause)) in (1..).zip(pushes) {
                now += pause;
                while let Some(batch) = outbox.obstacle(rank, length) {
                    send(&mut outbox, batch);
                }
                outbox.push(rank, &CallRecord { number: 0, cookie, bytes: &vec![3; length] }, now);
                given.entry(rank).or_default().push(cookie);
                while let Some(batch) = outbox.expired(now) {
                    send(&mut outbox, batch);
                }
                let most = BOUNDS.memory_bytes.max(length + HEAD);
                prop_assert!(outbox.held <= most);
                prop_assert!(outbox.order.len() <= 2 * 6 + SPARE + 1);
            }
            while let Some(batch) = outbox.oldest(SendCause::Flushed) {
                send(&mut outbox, batch);
            }
            prop_assert_eq!(sent, given);
            prop_assert_eq!(outbox.held, 0);
        }
    }
}
