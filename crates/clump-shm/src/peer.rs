//! Facts about the ranks and network interfaces of a job, on whatever node they are: state, death,
//! last barrier, address. Each node has a record for all of them. The agent copies into it the
//! reports of other nodes; ranks of the node write their own states.

use crate::geometry::{PEER_ADDRESS, PEER_RECORD};
use crate::job::{Death, DeathCause};
use crate::process_address::{ProcessAddress, ProcessAddressLine};
use crate::rank::RankState;
use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU64, Ordering};

const ABSENT: u64 = 0;
const JOINED: u64 = 1;
const FINALIZED: u64 = 2;
const DEAD: u64 = 3;
/// Bits below the cause of a death.
const CAUSE_SHIFT: u32 = 16;
// A record that was never written is that of a rank that has not joined.
const _: () = assert!(ABSENT == 0 && DEAD >> 8 == 0);

/// A peer record in shared memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PeerRecord {
    /// The state, and above it the cause of a death: a reader that sees the death sees its cause.
    state: AtomicU64,
    /// Last barrier that a rank of another node arrived at before it left.
    last_barrier: AtomicU64,
}

const _: () = assert!(size_of::<PeerRecord>() == PEER_RECORD);
const _: () = assert!(size_of::<ProcessAddressLine>() == PEER_ADDRESS);

// SAFETY: atomics only.
unsafe impl SharedLayout for PeerRecord {}

/// This node's record of a rank or network interface of the job.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    id: u32,
    record: &'a PeerRecord,
    address: &'a ProcessAddressLine,
}

impl<'a> Peer<'a> {
    pub(crate) fn new(id: u32, record: &'a PeerRecord, address: &'a ProcessAddressLine) -> Self {
        Self { id, record, address }
    }

    /// Returns its state.
    #[inline]
    pub fn state(self) -> RankState {
        match self.record.state.load(Ordering::Acquire) & 0xff {
            ABSENT => RankState::Absent,
            JOINED => RankState::Joined,
            FINALIZED => RankState::Finalized,
            _ => RankState::Dead,
        }
    }

    /// Returns how it died, if it did.
    #[inline]
    pub fn death(self) -> Option<Death> {
        let state = self.record.state.load(Ordering::Acquire);
        if state & 0xff != DEAD {
            return None;
        }
        Some(Death { rank: self.id, how: DeathCause::unpack(state >> CAUSE_SHIFT)? })
    }

    /// Returns the address at which other nodes reach it; `None` if it has none.
    pub fn place(self) -> Option<ProcessAddress> {
        self.address.get()
    }

    /// For the agent: notes its address.
    pub fn set_place(self, place: ProcessAddress) {
        self.address.set(place);
    }

    /// For the agent: copies the state of a rank of another node from that node's memory. Without
    /// effect on dead ranks, which stay dead.
    pub fn mirror_state(self, state: RankState) {
        let number = match state {
            RankState::Absent => ABSENT,
            RankState::Joined => JOINED,
            RankState::Finalized => FINALIZED,
            // Deaths are declared.
            RankState::Dead => return,
        };
        let (new, old) = (Ordering::AcqRel, Ordering::Acquire);
        let alive = |now: u64| (now & 0xff < DEAD).then_some(number);
        let _ = self.record.state.fetch_update(new, old, alive);
        debug_assert!(number < DEAD, "a mirror brings no death");
    }

    /// Joins; returns false if it had joined.
    pub(crate) fn join(self) -> bool {
        let (new, old) = (Ordering::AcqRel, Ordering::Acquire);
        self.record.state.compare_exchange(ABSENT, JOINED, new, old).is_ok()
    }

    /// Finalizes. Without effect unless it had joined.
    pub(crate) fn finalize(self) {
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.record.state.compare_exchange(JOINED, FINALIZED, new, old);
    }

    pub(crate) fn mark_dead(self, how: DeathCause) {
        self.record.state.store(how.pack() << CAUSE_SHIFT | DEAD, Ordering::Release);
        let death = Death { rank: self.id, how };
        debug_assert_eq!(self.death(), Some(death), "peers read which rank died, and how");
    }

    /// Returns the last barrier that a rank of another node arrived at before it left; 0 until that
    /// is known.
    pub(crate) fn last_barrier(self) -> u64 {
        self.record.last_barrier.load(Ordering::Acquire)
    }

    /// Notes the last barrier of a rank of another node.
    pub(crate) fn mirror_last_barrier(self, epoch: u64) {
        self.record.last_barrier.fetch_max(epoch, Ordering::Release);
        debug_assert!(self.last_barrier() >= epoch, "a record only grows");
    }
}
