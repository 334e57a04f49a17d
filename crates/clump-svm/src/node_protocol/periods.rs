//! Periods between barriers of all ranks, as the interface tells its ranks of them.

use super::NodeProtocol;
use crate::barrier_period::BarrierPeriod;
use clump_shm::cells::Cells;

impl NodeProtocol {
    /// Tells the ranks if this node has changed since the last barrier. Called behind each event,
    /// before anybody is told of its outcome.
    pub(super) fn note_period(&mut self, cells: &Cells) {
        let Some((_, state)) = &self.state else { return };
        let period = BarrierPeriod::over(cells);
        let (number, time) = state.last_barrier();
        if self.last_barrier.as_ref().is_none_or(|(last, _)| *last != number) {
            let unchanged = self.last_barrier.as_ref().is_some_and(|(_, last)| last == time);
            period.note_barrier(unchanged);
            self.last_barrier = Some((number, time.clone()));
        }
        period.note(state.is_unchanged());
    }
}
