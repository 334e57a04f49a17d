//! Messages in flight in virtual time: NICs take them in the order in which they were sent, which
//! is not the order in which actors have run.

use super::table::{MessageRecord, RECORDS, TimeTable};
use clump_os::sync::Ordering::Relaxed;
use clump_virtual::turn;

/// Most records that are taken when a request takes another one: the rest is for replies.
const MAX_OF_REQUESTS: u64 = RECORDS as u64 / 4 * 3;

/// A message that is being sent: its record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingMessage(u32);

/// Role of a message, to its sender and its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageRole {
    /// True for a request, false for a reply.
    pub request: bool,
    /// True for one between endpoints of the runtime: its overheads stand for what sends and
    /// handles it, and how many there are depends on the machine.
    pub of_runtime: bool,
}

/// A message whose due time is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Time from which its receiver can see it.
    pub due_ns: u64,
    /// Its sender.
    pub source: u64,
    /// Its number among the messages of its sender.
    pub number: u64,
    /// Its key: the number among the program's own, or that of the message whose handler sent it.
    pub key: u64,
    /// Time at which it was sent, as its sender's clock showed it.
    pub sent_ns: u64,
}

impl PendingMessage {
    /// Returns its number, less than 2^24.
    pub fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// Reads [`PendingMessage::number`].
    pub fn of_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().filter(|&at| (at as usize) < RECORDS).map(Self)
    }
}

impl TimeTable {
    /// Takes a free record; `None`: all are in use, or as many as requests may have.
    pub(super) fn take_record(&self, request: bool) -> Option<PendingMessage> {
        let taken = self.header.taken.load(Relaxed);
        debug_assert!(taken <= RECORDS as u64, "as many as there are");
        debug_assert!(self.header.used.load(Relaxed) >= taken, "taken ones were used before");
        if request && taken >= MAX_OF_REQUESTS {
            return None;
        }
        self.header.taken.store(taken + 1, Relaxed);
        let free = self.header.free.load(Relaxed);
        if let Some(at) = free.checked_sub(1) {
            let record = self.records.get(usize::try_from(at).ok()?)?;
            self.header.free.store(record.next.load(Relaxed), Relaxed);
            record.due_ns.store(0, Relaxed);
            return PendingMessage::of_number(at);
        }
        let used = self.header.used.load(Relaxed);
        let taken = PendingMessage::of_number(used)?;
        self.header.used.store(used + 1, Relaxed);
        Some(taken)
    }

    /// Gives a record back.
    pub(super) fn give_back(&self, message: PendingMessage) {
        let Some(record) = self.record(message) else { return };
        debug_assert!(self.header.used.load(Relaxed) > message.number(), "it was taken");
        let taken = &self.header.taken;
        taken.store(taken.load(Relaxed).saturating_sub(1), Relaxed);
        record.next.store(self.header.free.load(Relaxed), Relaxed);
        self.header.free.store(message.number() + 1, Relaxed);
    }

    pub(super) fn record(&self, message: PendingMessage) -> Option<&MessageRecord> {
        debug_assert!((message.0 as usize) < RECORDS, "numbers are checked where they are read");
        self.records.get(message.0 as usize)
    }

    /// Queues a message until all that were sent before it are known.
    pub(super) fn enqueue(&self, message: PendingMessage) {
        let count = self.header.queued.load(Relaxed);
        let Some(mut at) = usize::try_from(count).ok().filter(|&at| at < RECORDS) else {
            clump_bug::bug!("{count} messages are queued, and there are fewer records");
            return;
        };
        self.header.queued.store(count + 1, Relaxed);
        debug_assert!(count < self.header.used.load(Relaxed), "each record is queued once");
        // Sift up.
        while at > 0 {
            let above = (at - 1) / 2;
            let Some(parent) = self.queued(above) else { break };
            if self.order(parent) <= self.order(message) {
                break;
            }
            self.queue[at].store(parent.0, Relaxed);
            at = above;
        }
        self.queue[at].store(message.0, Relaxed);
    }

    /// Returns the time at which the first queued message was sent.
    pub(super) fn first_sent(&self) -> Option<u64> {
        if self.header.queued.load(Relaxed) == 0 {
            return None;
        }
        self.queued(0).map(|first| self.order(first).0)
    }

    /// Lets NICs take all messages that were sent before `horizon_ns`; later sends are later ones.
    /// Returns true if there were any.
    pub(super) fn resolve(&self, horizon_ns: u64) -> bool {
        let mut any = false;
        while self.first_sent().is_some_and(|sent_ns| sent_ns < horizon_ns) {
            let Some(message) = self.dequeue() else { break };
            self.transmit(message);
            any = true;
        }
        debug_assert!(self.first_sent().is_none_or(|sent_ns| sent_ns >= horizon_ns));
        any
    }

    /// Removes the first queued message.
    fn dequeue(&self) -> Option<PendingMessage> {
        let first = self.queued(0)?;
        let count = usize::try_from(self.header.queued.load(Relaxed)).ok()?.min(RECORDS) - 1;
        self.header.queued.store(count as u64, Relaxed);
        let last = self.queued(count)?;
        debug_assert!(self.order(first) <= self.order(last), "the first of all is at the top");
        debug_assert!(first != last || count == 0, "each record is queued once");
        // Sift down.
        let mut at = 0;
        loop {
            let below = 2 * at + 1;
            let children = [below, below + 1].into_iter().filter(|&child| child < count);
            let children = children.filter_map(|child| Some((child, self.queued(child)?)));
            let least = children.min_by_key(|&(_, child)| self.order(child));
            match least {
                Some((child, message)) if self.order(message) < self.order(last) => {
                    self.queue[at].store(message.0, Relaxed);
                    at = child;
                }
                _ => break,
            }
        }
        self.queue[at].store(last.0, Relaxed);
        Some(first)
    }

    fn queued(&self, at: usize) -> Option<PendingMessage> {
        debug_assert!(at < RECORDS, "a place of the heap");
        PendingMessage::of_number(u64::from(self.queue.get(at)?.load(Relaxed)))
    }

    /// Returns what a message is ordered by: time, sender, number.
    fn order(&self, message: PendingMessage) -> (u64, u64, u64) {
        let Some(record) = self.record(message) else { return (turn::NEVER, 0, 0) };
        debug_assert!(record.sent_ns.load(Relaxed) > 0, "a send takes time");
        [&record.sent_ns, &record.source, &record.number].map(|word| word.load(Relaxed)).into()
    }

    /// Charges the NICs of a message, and makes its due time known.
    fn transmit(&self, message: PendingMessage) {
        let Some(record) = self.record(message) else { return };
        let [sent_ns, from, to, bytes] =
            [&record.sent_ns, &record.source, &record.to, &record.bytes]
                .map(|word| word.load(Relaxed));
        let [from, to] = [from, to].map(|actor| usize::try_from(actor).unwrap_or(usize::MAX));
        let between = self.is_between_nodes(from, to);
        let costs = self.machine.costs(between);
        let (Some(source), Some(target)) = (self.nic_of(from, between), self.nic_of(to, between))
        else {
            clump_bug::bug!("a message from {from} to {to} has no NICs");
            return;
        };
        debug_assert!(from < self.actors.len() && to < self.actors.len(), "ranks of the job");
        debug_assert_eq!(record.due_ns.load(Relaxed), 0, "each is sent once");
        let (start_ns, free_ns) = costs.leaves(sent_ns, source.out_ns.load(Relaxed), bytes);
        source.out_ns.store(free_ns, Relaxed);
        let (due_ns, free_ns) = costs.arrives(start_ns, target.in_ns.load(Relaxed), bytes);
        target.in_ns.store(free_ns, Relaxed);
        debug_assert!(due_ns >= sent_ns + costs.latency_ns, "no message is early");
        record.due_ns.store(due_ns.max(1), Relaxed);
        if let Some(line) = self.actors.get(to) {
            line.due_ns.store(line.due_ns.load(Relaxed).min(due_ns), Relaxed);
        }
    }
}
