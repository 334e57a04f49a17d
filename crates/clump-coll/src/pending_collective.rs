//! A collective in two phases that this rank has begun, and will wait for.

use crate::Team;
use crate::mailbox::failed;
use crate::schedule::Schedule;
use clump_am::{Error, ErrorKind, Result, WaitFor, is_in_handler};
use clump_shm::rank::WaitReason;

/// Makes the result of a schedule at its end; the number is that of the collective.
pub(crate) type Finish<R> = fn(&Schedule, &Team, u64) -> Result<R>;

/// A collective under way. One that is dropped goes on; other ranks do not notice.
#[must_use = "its result is had by `wait`"]
pub struct PendingCollective<'a, R> {
    pub(crate) team: &'a Team,
    pub(crate) seq: u64,
    pub(crate) finish: Finish<R>,
}

impl<R> std::fmt::Debug for PendingCollective<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingCollective({} of team {:x})", self.seq, self.team.id())
    }
}

impl<R> PendingCollective<'_, R> {
    fn key(&self) -> (u64, u64) {
        (self.team.id(), self.seq)
    }

    /// Returns true if the result is there. Polls.
    ///
    /// # Errors
    /// Fails if a rank died or left without which it cannot end.
    pub fn test(&self) -> Result<bool> {
        self.team.post().endpoint.poll()?;
        let mut end = ScheduleEnd { team: self.team, seq: self.seq };
        let done = end.done()?;
        match self.team.first_death().filter(|_| !done) {
            Some(death) => Err(ErrorKind::RankDied(death).into()),
            None => Ok(done),
        }
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; in a handler, where it goes
    /// on without its result.
    pub fn wait(self) -> Result<R> {
        if is_in_handler() {
            return Err(Error::from(ErrorKind::CollectiveInHandler).having_taken_part());
        }
        let mut end = ScheduleEnd { team: self.team, seq: self.seq };
        let waited = self.team.post().endpoint.block_on(&mut end);
        let schedule = self.team.post().end_schedule(self.key());
        self.team.heed(waited, self.seq)?;
        let gone = || ErrorKind::HandlerFailed { handler: 1, why: "the collective is gone".into() };
        let schedule = schedule.ok_or_else(gone)?;
        match schedule.failed {
            Some(misfit) => Err(failed(misfit)),
            None => (self.finish)(&schedule, self.team, self.seq),
        }
    }
}

impl<R> Drop for PendingCollective<'_, R> {
    fn drop(&mut self) {
        self.team.post().drop_schedule(self.key());
    }
}

/// The end of a collective in two phases, to wait for.
struct ScheduleEnd<'a> {
    team: &'a Team,
    seq: u64,
}

impl WaitFor for ScheduleEnd<'_> {
    fn done(&mut self) -> Result<bool> {
        let key = (self.team.id(), self.seq);
        self.team.post().send_unsent()?;
        if self.team.post().has_ended(key) {
            return Ok(true);
        }
        if let Some(found) = self.team.post().mailbox().disagreement(key.0, key.1) {
            return Err(ErrorKind::Disagreement(found.why.clone()).into());
        }
        match self.team.post().mailbox().is_broken(key.0, key.1) {
            Some(by) => Err(ErrorKind::RankLeft(by).into()),
            None => Ok(false),
        }
    }

    fn waiting(&self) -> WaitReason {
        let peer = self.team.member(self.team.rank() + 1);
        let team = self.team.id();
        WaitReason::Collective { team, seq: self.seq, peer, call: 0 }
    }

    fn depends_on(&self) -> Option<u32> {
        // The death of any member may keep it from ending.
        Some(self.team.first_dead().unwrap_or_else(|| self.team.member(self.team.rank() + 1)))
    }

    /// Other ranks wait for this one.
    fn keeps_failures(&self) -> bool {
        true
    }
}
