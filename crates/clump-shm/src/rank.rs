//! A rank's block: its process, what its threads wait for, and the park where they sleep.

#[cfg(not(loom))]
pub use crate::process_address::{FurtherAddresses, ProcessAddress};
pub use crate::wait_reason::{COLLECTIVES, HeapWait, WaitReason};
pub use crate::wait_table::{PublishedWait, WAIT_RECORDS, WaitRecord};

use crate::export::{ExportTable, SegmentName, watch_bit};
use crate::geometry::{COUNTERS, RANK_BLOCK};
use crate::park::Park;
use crate::shared::SharedLayout;
use crate::wait_table::WaitTable;
use clump_os::alarm::Alarm;
use clump_os::fence::FenceKind;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};

/// State of a rank's life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankState {
    /// The process has not called the library yet.
    Absent,
    /// Joined, not finalized.
    Joined,
    /// Finalized: will send and receive nothing more.
    Finalized,
    /// Dead: its process ended without finalizing.
    Dead,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct ProcessLine {
    pid: AtomicU32,
    joined_ns: AtomicU64,
    finalized_ns: AtomicU64,
    /// Proxies that have completed the close handshake: all that this rank had handed to them has
    /// been put into the lanes of endpoints, or was returned to sender.
    close_handshakes: AtomicU32,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct NoteLine {
    /// One more than the rank or interface that does not answer, and the time since; 0 for none.
    unanswered: AtomicU64,
    unanswered_ns: AtomicU64,
    /// One more than the rank or interface to which the path became narrower, above the bytes of
    /// the longest IP packet that it carries; 0 once the note is taken.
    narrowed: AtomicU64,
    /// Why the rank or interface receives nothing any more; 0 while it does.
    receive_failure: AtomicU64,
}

const _: () = assert!(size_of::<NoteLine>() == 64);

/// Words that requests to the interface of this block watch, by bits ([`watch_bit`]).
#[derive(Debug)]
#[repr(C, align(64))]
struct WatchLine {
    /// Bits of words that are watched.
    watched: AtomicU64,
    /// Bits of words that ranks of the node have changed.
    changed: AtomicU64,
    /// Bits of ranks of the node that have called a service of the interface.
    called: AtomicU64,
}

/// The number of the last barrier that a rank arrived at.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct ArrivalLine {
    pub(crate) epoch: AtomicU64,
}

// The geometry sets a line of 64 bytes aside for each rank of the node.
const _: () = assert!(size_of::<ArrivalLine>() == 64 && size_of::<ProcessLine>() == 64);

// SAFETY: atomics only.
unsafe impl SharedLayout for ArrivalLine {}

/// The block of a rank or network interface of this node.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RankBlock {
    process: ProcessLine,
    park: Park,
    note: NoteLine,
    counters: [AtomicU64; COUNTERS],
    gauges: [AtomicU64; 40],
    exports: ExportTable,
    watch: WatchLine,
    waits: WaitTable,
}

const _: () = assert!(size_of::<RankBlock>() <= RANK_BLOCK);

// SAFETY: atomics only.
unsafe impl SharedLayout for RankBlock {}

/// The wait of this thread, published from its first sleep until this value is dropped.
#[derive(Debug)]
pub struct Published<'a> {
    block: &'a RankBlock,
    record: Option<WaitRecord>,
}

impl<'a> Published<'a> {
    /// Creates a wait that is not published yet.
    #[inline]
    pub fn none(block: &'a RankBlock) -> Self {
        Self { block, record: None }
    }

    /// Publishes what the thread waits for now.
    pub fn publish(&mut self, reason: WaitReason) {
        match &self.record {
            Some(record) => self.block.update_wait(record, reason),
            None => self.record = Some(self.block.begin_wait(reason)),
        }
    }
}

impl Drop for Published<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.block.end_wait(record);
        }
    }
}

impl RankBlock {
    /// For an interface: announces that words of that bit are watched, or no longer.
    pub fn watch(&self, bit: u32, watched: bool) {
        debug_assert!(bit < u64::BITS, "a bit of a word");
        // SYNC 20: pairs with mark_changed
        match watched {
            true => drop(self.watch.watched.fetch_or(1 << bit, Ordering::SeqCst)),
            false => drop(self.watch.watched.fetch_and(!(1 << bit), Ordering::SeqCst)),
        }
    }

    /// For a rank that has changed a word, by an operation with sequentially consistent ordering:
    /// notes that if the word is watched. Returns true if this interface has to be woken.
    #[inline]
    pub fn mark_changed(&self, name: SegmentName, offset: u64) -> bool {
        let bit = 1_u64 << watch_bit(name, offset);
        // SYNC 20: pairs with watch
        if self.watch.watched.load(Ordering::SeqCst) & bit == 0 {
            return false;
        }
        self.watch.changed.fetch_or(bit, Ordering::SeqCst) & bit == 0
    }

    /// For an interface: returns the bits of watched words that may have changed since the last
    /// call.
    #[inline]
    pub fn take_changed(&self) -> u64 {
        if self.watch.changed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.watch.changed.swap(0, Ordering::SeqCst)
    }

    /// For a rank of the node that has left a call for a service of this interface: notes that, and
    /// wakes the interface by its alarm if it sleeps.
    #[inline]
    pub fn call_interface(&self, rank: u32, alarm: Option<&Alarm>) {
        debug_assert!((rank as usize) < crate::geometry::MAX_RANKS, "ranks call");
        // SYNC 25: pairs with take_called
        self.watch.called.fetch_or(1 << (rank % u64::BITS), Ordering::SeqCst);
        // An interface that is no proxy announces its sleep with a full fence.
        self.park.wake_if_asleep(FenceKind::Symmetric, alarm);
    }

    /// For an interface that has announced its sleep: returns true if a rank has left a call.
    #[inline]
    pub fn has_calls(&self) -> bool {
        self.watch.called.load(Ordering::SeqCst) != 0
    }

    /// For an interface: returns the bits of ranks, modulo 64, that have left a call since the last
    /// time.
    #[inline]
    pub fn take_called(&self) -> u64 {
        if self.watch.called.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // SYNC 25: pairs with call_interface
        self.watch.called.swap(0, Ordering::Acquire)
    }

    /// For a proxy: completes the close handshake. All messages that this rank had submitted are in
    /// the lanes of endpoints, or were returned to sender.
    pub fn bid_farewell(&self) {
        // SYNC 15: pairs with close_handshakes
        self.process.close_handshakes.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of proxies that have completed the close handshake with this rank.
    pub fn close_handshakes(&self) -> u32 {
        // SYNC 15: pairs with bid_farewell
        self.process.close_handshakes.load(Ordering::Acquire)
    }

    /// Returns the process that joined as this rank; zero before.
    pub fn pid(&self) -> u32 {
        self.process.pid.load(Ordering::Relaxed)
    }

    /// Returns the times at which the rank joined and finalized, in
    /// [`clump_os::clock::machine_ns`]; zero when it has not.
    pub fn lifetime_ns(&self) -> (u64, u64) {
        let joined = self.process.joined_ns.load(Ordering::Relaxed);
        (joined, self.process.finalized_ns.load(Ordering::Relaxed))
    }

    /// Notes that the rank joined as process `pid`.
    pub(crate) fn note_joined(&self, pid: u32) {
        debug_assert!(pid != 0, "no process has joined");
        self.process.pid.store(pid, Ordering::Relaxed);
        self.process.joined_ns.store(clump_os::clock::machine_ns(), Ordering::Relaxed);
    }

    /// Notes that the rank finalizes.
    pub(crate) fn note_finalized(&self) {
        self.process.finalized_ns.store(clump_os::clock::machine_ns(), Ordering::Relaxed);
    }

    /// Returns what the rank is blocked in, and the time since
    /// ([`clump_os::clock::machine_ns`]): of several threads the one that has waited longest.
    /// `None` while it computes.
    pub fn waiting(&self) -> Option<(WaitReason, u64)> {
        let oldest = self.waits.waits().min_by_key(|wait| wait.since_ns)?;
        Some((oldest.reason, oldest.since_ns))
    }

    /// Returns the waits that threads of the rank have published.
    pub fn waits(&self) -> impl Iterator<Item = PublishedWait> {
        self.waits.waits()
    }

    /// Publishes what this thread waits for, for observers. Slow path only.
    pub fn begin_wait(&self, reason: WaitReason) -> WaitRecord {
        self.waits.begin(reason)
    }

    /// Publishes what this thread waits for now, in the same wait. Slow path only.
    pub fn update_wait(&self, record: &WaitRecord, reason: WaitReason) {
        self.waits.update(record, reason);
    }

    /// Withdraws a wait that is over.
    pub fn end_wait(&self, record: WaitRecord) {
        self.waits.end(record);
    }

    /// Returns the peer that acknowledges nothing of what this rank or interface sent it, and the
    /// time since ([`clump_os::clock::machine_ns`]).
    pub fn unanswered(&self) -> Option<(u32, u64)> {
        let peer = self.note.unanswered.load(Ordering::Acquire).checked_sub(1)?;
        Some((u32::try_from(peer).ok()?, self.note.unanswered_ns.load(Ordering::Relaxed)))
    }

    /// Notes the peer that does not answer. Slow path only.
    pub fn note_unanswered(&self, unanswered: Option<(u32, u64)>) {
        debug_assert!(unanswered.is_none_or(|(peer, _)| peer < u32::MAX), "a peer of this job");
        let (peer, since_ns) =
            unanswered.map_or((0, 0), |(peer, since)| (u64::from(peer) + 1, since));
        self.note.unanswered_ns.store(since_ns, Ordering::Relaxed);
        self.note.unanswered.store(peer, Ordering::Release);
    }

    /// Notes that the path to `peer` carries IP packets of no more than `bytes` any more.
    /// Overwrites the last such note, which should have been taken. Slow path only.
    pub fn note_narrowed(&self, (peer, bytes): (u32, u32)) {
        debug_assert!(bytes != 0, "every path carries some packets");
        let note = (u64::from(peer) + 1) << 32 | u64::from(bytes);
        debug_assert!(peer < u32::MAX, "one more than a peer fits above the bytes");
        self.note.narrowed.store(note, Ordering::Release);
    }

    /// Returns true if the last note of a narrow path has been taken.
    pub fn is_narrowed_taken(&self) -> bool {
        self.note.narrowed.load(Ordering::Acquire) == 0
    }

    /// For the agent: takes the last note of a narrow path: the peer, and the bytes of the longest
    /// IP packet.
    pub fn take_narrowed(&self) -> Option<(u32, u32)> {
        let note = self.note.narrowed.swap(0, Ordering::AcqRel);
        let peer = (note >> 32).checked_sub(1)?;
        Some((u32::try_from(peer).ok()?, note as u32))
    }

    /// Records that this rank or interface receives nothing any more, and why, in the driver's
    /// bits. Slow path only.
    pub fn note_receive_failure(&self, bits: u64) {
        self.note.receive_failure.store(bits, Ordering::Release);
    }

    /// Returns the bits of the last [`RankBlock::note_receive_failure`]; 0: none.
    pub fn receive_failure(&self) -> u64 {
        self.note.receive_failure.load(Ordering::Acquire)
    }

    /// Returns the place at which the threads of this rank sleep.
    #[inline]
    pub fn park(&self) -> &Park {
        &self.park
    }

    /// Returns the segments that the rank exports.
    pub fn exports(&self) -> &ExportTable {
        &self.exports
    }

    /// Returns the rank's own counters (those of its endpoints are in their blocks).
    pub fn counters(&self) -> &[AtomicU64; COUNTERS] {
        &self.counters
    }

    /// Returns the gauges that the monitor of the network interface, or of the rank's own stack,
    /// shows.
    pub fn gauges(&self) -> &[AtomicU64; 40] {
        &self.gauges
    }
}
