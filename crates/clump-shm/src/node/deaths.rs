//! Deaths of ranks, and the wake-ups that spread the news of them and of everything else.

use super::NodeMemory;
use crate::job::{Death, DeathCause};
use crate::rank::RankState;
use clump_os::sync::Ordering;

impl NodeMemory {
    /// Returns true if `node` is lost: its agent is, and with it all of its ranks.
    pub fn is_node_lost(&self, node: u32) -> bool {
        if self.job.deaths() == 0 {
            return false;
        }
        let word = self.job.lost_nodes.get(node as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (node % 64) & 1 == 1)
    }

    /// Declares a rank dead, and wakes all ranks so that they notice. For the agent only; the first
    /// death is kept as the job's.
    pub fn declare_dead(&self, death: Death) {
        let Some(peer) = self.peer(death.rank) else { return };
        if peer.state() == RankState::Dead {
            return;
        }
        peer.mark_dead(death.how);
        let node = self.node_of(death.rank);
        let lost = self.job.lost_nodes.get(node as usize / 64);
        if let Some(word) = lost.filter(|_| death.how == DeathCause::NodeLost) {
            word.fetch_or(1 << (node % 64), Ordering::AcqRel);
        }
        let fate = &self.job.fate;
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = fate.first_death.compare_exchange(0, death.pack(), new, old);
        let before = fate.deaths.fetch_add(1, Ordering::AcqRel);
        debug_assert!(before < self.geometry.ids() as u64, "no rank dies twice");
        self.wake_all();
    }

    /// Wakes every rank of this node, asleep or about to be, and its network interfaces.
    pub fn wake_all(&self) {
        for rank in self.local_ranks().chain(self.own_interfaces()) {
            let Some(block) = self.rank(rank) else {
                clump_bug::bug!("ranks and interfaces of this node have blocks");
                continue;
            };
            block.park().wake(self.alarm(rank).map(|alarm| &**alarm));
        }
    }

    /// Wakes those ranks of this node that sleep.
    pub fn wake_sleepers(&self) {
        for rank in self.local_ranks() {
            self.wake_sleeper(rank);
        }
    }

    /// Wakes `rank`, or the network interface of that number, if it is of this node and sleeps.
    /// Returns true when a system call was made.
    pub fn wake_sleeper(&self, rank: u32) -> bool {
        let alarm = self.alarm(rank).map(|alarm| &**alarm);
        self.rank(rank).is_some_and(|block| block.park().wake_if_asleep(self.fence, alarm))
    }

    /// Wakes those ranks and network interfaces of this node that sleep and whose bits, modulo 64,
    /// are set. Returns how many system calls were made.
    pub(crate) fn wake_marked(&self, marked: u64) -> u32 {
        debug_assert!(marked != 0, "some rank waits");
        let all = self.local_ranks().chain(self.own_interfaces());
        let woken = all.filter(|rank| marked >> (rank % 64) & 1 != 0 && self.wake_sleeper(*rank));
        u32::try_from(woken.count()).unwrap_or(u32::MAX)
    }

    /// Returns how a rank died, if it did.
    #[inline]
    pub fn death_of(&self, rank: u32) -> Option<Death> {
        if self.job.deaths() == 0 {
            return None;
        }
        self.peer(rank)?.death()
    }
}
