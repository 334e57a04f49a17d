//! Barrier: every rank waits until all have come.

use crate::choice::Operation;
use crate::meeting::AtBarrier;
use crate::stage::call::StagedCall;
use crate::team_state::TeamState;
use crate::{Team, step};
use clump_am::{AsContext, ErrorKind, RankContext, Result};
use clump_os::clock;
use clump_os::sync::Ordering;
use clump_trace::{Counter, EventKind, histogram};

impl Team {
    /// Returns once all ranks of the team have called it. Messages that ranks of other nodes sent
    /// before may still be in flight.
    ///
    /// # Errors
    /// Fails if a rank died or left. An error that a handler of another endpoint has given
    /// meanwhile, or that a collective before has kept, is reported once all ranks have called it
    /// ([`clump_am::ErrorKind::TookPart`]).
    pub fn barrier(&self) -> Result<()> {
        self.meet_all()?;
        match self.post().endpoint.take_kept_failure() {
            None => Ok(()),
            Some(error) => Err(ErrorKind::TookPart(error).into()),
        }
    }

    /// Returns once all ranks of the team have called it, as [`Team::barrier`] does. An error that
    /// is not the barrier's own is left to a later call: for collectives of layers above that have
    /// a result, which this rank alone would lose.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn meet_all(&self) -> Result<()> {
        let started = cycles(self.context());
        let mut state = self.state.lock()?;
        self.note_barrier(EventKind::Barrier, state.seq);
        let TeamState { barrier: Some(barrier), seq } = &mut *state else {
            let number = state.seq;
            drop(state);
            self.together(Operation::Barrier, None, |seq| self.meet(seq))?;
            self.note_barrier(EventKind::BarrierEnd, number);
            self.count_barrier_wait(started);
            return Ok(());
        };
        let sent = self.post().send_unsent();
        self.heed(sent, *seq + 1)?;
        barrier.arrive();
        if !barrier.complete() {
            let node = self.context().node();
            let mut wait = AtBarrier { barrier, post: self.post(), node };
            let done = self.post().endpoint.block_on(&mut wait);
            self.heed(done, *seq + 1)?;
        }
        self.note_barrier(EventKind::BarrierEnd, *seq);
        self.count(Counter::Barriers, 1);
        self.count_barrier_wait(started);
        Ok(())
    }

    /// Notes a barrier of this team in the rank's trace. Barriers of a team follow each other, so
    /// that the team's number tells those of several teams apart.
    fn note_barrier(&self, kind: EventKind, seq: u64) {
        let ranks = u32::try_from(self.nranks()).unwrap_or(u32::MAX);
        let number = (self.id().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) ^ seq;
        self.context().note(kind, (ranks, 0, number as u32));
    }

    /// Meets by messages, or in the memory of each node.
    fn meet(&self, seq: u64) -> Result<()> {
        let Some(group) = self.stage_for(Operation::Barrier, None) else {
            return self.disseminate(seq, &(0..self.nranks()).collect::<Vec<_>>());
        };
        let mut call = StagedCall::new(self, group, seq)?;
        call.publish_bytes(&[], 0)?;
        if !self.layout.is_spread() {
            return call.await_all(0, call.all_others());
        }
        if call.me() != 0 {
            call.read_nothing();
            call.next_phase();
            return call.await_chunk(0, 0).map(drop);
        }
        call.await_all(0, call.all_others())?;
        call.next_phase();
        self.disseminate(seq, &self.layout.leaders())?;
        call.publish_bytes(&[], 0)
    }

    /// Runs a dissemination barrier among `members`: in round k each hears of the one 2^k before
    /// it.
    fn disseminate(&self, seq: u64, members: &[usize]) -> Result<()> {
        let n = members.len();
        let me = members.iter().position(|&member| member == self.rank()).unwrap_or(0);
        let (mut distance, mut round) = (1, step::BETWEEN);
        while distance < n {
            self.send(members[(me + distance) % n], (seq, round), &[1])?;
            self.receive(members[(me + n - distance) % n], (seq, round), 1)?;
            distance *= 2;
            round += 1;
        }
        Ok(())
    }

    fn count_barrier_wait(&self, started: u64) {
        let (now, per_us) = (cycles(self.context()), clock::cycles_per_us());
        self.count(Counter::BarrierWait, now.wrapping_sub(started) * 1000 / per_us);
        let last = self.last_barrier.swap(now, Ordering::Relaxed);
        if last != 0 {
            let interval_ns = u128::from(now.wrapping_sub(last)) * 1000 / u128::from(per_us);
            let interval_ns = u64::try_from(interval_ns).unwrap_or(u64::MAX);
            histogram::record(self.post().block.barrier_intervals(), interval_ns);
        }
    }
}

/// Returns the cycles of a rank's time.
fn cycles(context: &RankContext) -> u64 {
    let Some(actor) = context.actor() else { return clock::cycles() };
    debug_assert!(clock::cycles_per_us() > 0, "time passes");
    debug_assert!(actor.clock_ns() < u64::MAX / 1_000_000, "a clock of a year");
    actor.clock_ns().saturating_mul(clock::cycles_per_us()) / 1000
}
