//! Locks that ranks keep and others want: what was written under them is found, and they are taken
//! back.

use super::NodeProtocol;
use crate::kept_locks::{KeptLock, word_bytes, word_offset};
use crate::mailbox::{control_bytes, log_place, set_scanned, turn_place};
use crate::node_regions::NodeRegions;
use crate::rank_stores::RankStores;
use crate::scan_turn::ScanTurn;
use crate::written_log::WrittenLog;
use clump_hlrc::RankWait;
use clump_shm::cells::Cells;

impl NodeProtocol {
    /// Runs `change` on the word of a lock, as it concerns a rank.
    pub(super) fn with_kept<R>(
        &self,
        (rank, lock): (u16, u64),
        context: &mut dyn NodeRegions,
        change: impl FnOnce(KeptLock<'_>) -> R,
    ) -> Option<R> {
        let at = control_bytes(self.ranks.len() as u32) + word_offset(lock)?;
        let cells = context.segment(self.control, at, word_bytes()).ok()?;
        KeptLock::over(cells, at, u32::from(rank)).map(change)
    }

    /// Opens the scans of a rank's stores by this interface, if stores are found by scans and the
    /// kernel permits it, and tells the rank.
    pub(super) fn open_scans(&mut self, rank: u16, address: u64, context: &mut dyn NodeRegions) {
        let Some((settings, _)) = self.state.as_ref().filter(|(own, _)| own.scans) else { return };
        let first = self.memory.local_ranks().start;
        let pid = |rank: u32| self.memory.rank(first + rank).map_or(0, |block| block.pid());
        let own = pid(u32::from(rank));
        // In containers of their own, two ranks may have one number, and neither be its process.
        let same = (0..self.ranks.len() as u32).filter(|&other| pid(other) == own).count();
        let address = if same == 1 { address } else { 0 };
        let stores = RankStores::of_process(own, address, settings.pages);
        if let Some(cells) = self.control(context) {
            set_scanned(&cells, u32::from(rank), stores.are_scanned());
        }
        if let Some(local) = self.ranks.get_mut(usize::from(rank)) {
            local.stores = stores;
        }
    }

    /// Notes the pages that a rank has found written and not reported: by releases without a call,
    /// or as they were taken away.
    pub(super) fn note_logged(&mut self, rank: u16, context: &mut dyn NodeRegions, cells: &Cells) {
        let log = WrittenLog::over(cells, log_place(u32::from(rank)));
        self.note_written(rank, log.map(|log| log.take()).unwrap_or_default(), context);
    }

    /// Notes the pages that a rank has written, where this interface scans.
    fn note_scanned(&mut self, rank: u16, context: &mut dyn NodeRegions) {
        let (Some((_, state)), Some(local)) =
            (self.state.as_mut(), self.ranks.get(usize::from(rank)))
        else {
            return;
        };
        local.stores.take(|page, maybe| {
            // A page that the rank is to give up, or never used, need not have been written.
            let sure = !maybe && state.access(rank, page).is_some();
            if state.has_page(page) && (sure || self.pages.may_differ(context, page)) {
                state.note_written(rank, page);
            }
        });
    }

    /// Takes a lock that others want from a rank that keeps it. One that has it tells of its
    /// release.
    pub(super) fn ask_for_lock(
        &mut self,
        (rank, lock): (u16, u64),
        context: &mut dyn NodeRegions,
        cells: &Cells,
    ) {
        debug_assert!(usize::from(rank) < self.ranks.len(), "a rank of this node");
        let Some(local) = self.ranks.get_mut(usize::from(rank)) else { return };
        // A rank that is about to enter reads the request with its entry.
        let has = local.locks.contains(&lock) && !local.awaits(RankWait::Lock(lock));
        if !has {
            return;
        }
        let turn = ScanTurn::over(cells, turn_place(u32::from(rank)));
        let turn = turn.filter(|_| local.stores.are_scanned());
        if turn.is_some_and(|turn| !turn.begin_as_interface()) {
            // The rank will report its stores and ring; retry then.
            local.postponed.push(lock);
            return;
        }
        let is_kept = self.with_kept((rank, lock), context, |kept| kept.ask()) == Some(true);
        if is_kept {
            self.note_logged(rank, context, cells);
            self.note_scanned(rank, context);
        }
        // Record stores before ending the turn.
        self.note_period(cells);
        if let Some(turn) = turn {
            turn.end_as_interface();
        }
        if let (true, Some(local), Some((_, state))) =
            (is_kept, self.ranks.get_mut(usize::from(rank)), self.state.as_mut())
        {
            local.locks.remove(&lock);
            state.take_lock_back(rank, lock);
            self.note_period(cells);
        }
    }
}
