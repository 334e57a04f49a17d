//! The waits that the threads of a rank publish, for observers in other processes.
//!
//! A thread publishes its wait when it leaves the spin phase: a wait that ends before costs
//! nothing. Its record is guarded by a version, odd while the record is written, so that an
//! observer gets all of one wait or nothing. A process that maps the memory may write anything
//! there: each word is checked when it is read.

use crate::wait_reason::WaitReason;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering, fence};
use clump_os::{clock, thread};

/// Threads of a rank that can publish a wait at one time; further ones wait unseen.
pub const WAIT_RECORDS: usize = 32;
/// Tries to read a record that is being written.
const TRIES: u32 = 8;

/// A wait that a thread has published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedWait {
    /// The thread, by its number in the kernel, as the rank's process has it.
    pub thread: u32,
    /// The reason.
    pub reason: WaitReason,
    /// Time when it began to sleep for it ([`clump_os::clock::machine_ns`]).
    pub since_ns: u64,
}

/// The record that a thread owns while it waits.
#[derive(Debug)]
#[must_use = "a wait that has begun is ended"]
pub struct WaitRecord(Option<u8>);

#[derive(Debug)]
#[repr(C, align(64))]
struct WaitLine {
    version: AtomicU32,
    thread: AtomicU32,
    reason: [AtomicU64; 3],
    since_ns: AtomicU64,
}

/// The records of a rank.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct WaitTable {
    /// A bit for each record that a thread owns.
    owned: AtomicU64,
    lines: [WaitLine; WAIT_RECORDS],
}

// Each record has a bit.
const _: () = assert!(WAIT_RECORDS <= u64::BITS as usize);

impl WaitTable {
    /// Publishes a wait of this thread.
    pub(crate) fn begin(&self, reason: WaitReason) -> WaitRecord {
        let claim = |owned: u64| {
            let free = (!owned).trailing_zeros();
            ((free as usize) < WAIT_RECORDS).then(|| owned | 1 << free)
        };
        let (new, old) = (Ordering::Acquire, Ordering::Relaxed);
        let claimed = self.owned.fetch_update(new, old, claim);
        let index = claimed.ok().map(|before| (!before).trailing_zeros() as u8);
        if let Some(line) = index.and_then(|index| self.lines.get(usize::from(index))) {
            line.write(reason, Some((thread::number(), clock::machine_ns())));
        }
        debug_assert!(index.is_none_or(|index| usize::from(index) < WAIT_RECORDS));
        WaitRecord(index)
    }

    /// Publishes what the thread waits for now, in the same wait.
    pub(crate) fn update(&self, record: &WaitRecord, reason: WaitReason) {
        debug_assert!(record.0.is_none_or(|index| usize::from(index) < WAIT_RECORDS));
        if let Some(line) = record.0.and_then(|index| self.lines.get(usize::from(index))) {
            line.write(reason, None);
        }
    }

    /// Withdraws a wait that is over.
    #[allow(clippy::needless_pass_by_value, reason = "a record is used up")]
    pub(crate) fn end(&self, record: WaitRecord) {
        if let Some(index) = record.0 {
            // The next owner's bit is seen before its wait is.
            self.lines[usize::from(index)].reason[0].store(0, Ordering::Relaxed);
            let owned = self.owned.fetch_and(!(1 << index), Ordering::Release);
            debug_assert!(owned & 1 << index != 0, "a record ends once");
        }
    }

    /// Returns the published waits.
    pub(crate) fn waits(&self) -> impl Iterator<Item = PublishedWait> {
        let owned = self.owned.load(Ordering::Acquire);
        let is_owned = move |index: &usize| owned & 1 << *index != 0;
        (0..WAIT_RECORDS).filter(is_owned).filter_map(|index| self.lines[index].read())
    }
}

impl WaitLine {
    /// Writes the record; of a new wait with its thread and the time when it began.
    fn write(&self, reason: WaitReason, began: Option<(u32, u64)>) {
        // Only the owner writes; other processes may have written anything.
        let odd = self.version.load(Ordering::Relaxed) | 1;
        debug_assert!(odd & 1 == 1, "observers see that it is being written");
        self.version.store(odd, Ordering::Relaxed);
        // SYNC 45: pairs with read
        fence(Ordering::Release);
        if let Some((thread, since_ns)) = began {
            self.thread.store(thread, Ordering::Relaxed);
            self.since_ns.store(since_ns, Ordering::Relaxed);
        }
        for (word, value) in self.reason.iter().zip(reason.pack()) {
            word.store(value, Ordering::Relaxed);
        }
        self.version.store(odd.wrapping_add(1), Ordering::Release);
    }

    fn read(&self) -> Option<PublishedWait> {
        for _ in 0..TRIES {
            let version = self.version.load(Ordering::Acquire);
            let words = self.reason.each_ref().map(|word| word.load(Ordering::Relaxed));
            let thread = self.thread.load(Ordering::Relaxed);
            let since_ns = self.since_ns.load(Ordering::Relaxed);
            // SYNC 45: pairs with write
            fence(Ordering::Acquire);
            if version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
                let reason = WaitReason::unpack(words)?;
                return Some(PublishedWait { thread, reason, since_ns });
            }
            clump_os::sync::pause();
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn table() -> WaitTable {
        let line = |_| WaitLine {
            version: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            reason: [0; 3].map(AtomicU64::new),
            since_ns: AtomicU64::new(0),
        };
        WaitTable { owned: AtomicU64::new(0), lines: std::array::from_fn(line) }
    }

    fn reasons(table: &WaitTable) -> Vec<WaitReason> {
        table.waits().map(|wait| wait.reason).collect()
    }

    #[test]
    fn a_wait_is_seen_from_its_beginning_to_its_end() {
        let table = table();
        let one = table.begin(WaitReason::Message);
        let other = table.begin(WaitReason::Room { peer: 1 });
        let own = thread::number();
        assert!(own != 0 && table.waits().all(|wait| wait.thread == own && wait.since_ns != 0));
        assert_eq!(reasons(&table), [WaitReason::Message, WaitReason::Room { peer: 1 }]);
        table.update(&other, WaitReason::Room { peer: 2 });
        table.end(one);
        assert_eq!(reasons(&table), [WaitReason::Room { peer: 2 }]);
        table.end(other);
        assert_eq!(reasons(&table), []);
    }

    #[test]
    fn more_waits_than_records_are_left_out() {
        let table = table();
        let begun: Vec<_> =
            (0..WAIT_RECORDS + 2).map(|_| table.begin(WaitReason::Condition)).collect();
        assert_eq!(reasons(&table).len(), WAIT_RECORDS);
        table.update(&begun[WAIT_RECORDS], WaitReason::Message);
        assert!(reasons(&table).iter().all(|reason| *reason == WaitReason::Condition));
        begun.into_iter().for_each(|record| table.end(record));
        assert_eq!(reasons(&table), []);
    }

    #[test]
    fn a_record_that_is_being_written_or_makes_no_sense_is_no_wait() {
        let table = table();
        let record = table.begin(WaitReason::Message);
        table.lines[0].version.fetch_add(1, Ordering::Relaxed);
        assert_eq!(reasons(&table), [], "it is odd for ever");
        table.update(&record, WaitReason::Message);
        assert_eq!(reasons(&table), [WaitReason::Message], "its owner goes on");
        table.lines[0].reason[0].store(u64::MAX, Ordering::Relaxed);
        table.owned.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(reasons(&table), []);
    }
}
