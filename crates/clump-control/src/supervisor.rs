//! The rules of dying, without processes: events and times in, actions out.
//!
//! The process that decides about a job (on one node its agent, on several the launcher) feeds
//! [`RankSupervisor`] with events ([`RankSupervisor::handle`], `handle_*`), wakes it at
//! [`RankSupervisor::next_deadline_ns`] ([`RankSupervisor::handle_timeout`]), and executes, or has
//! executed on all nodes, [`RankSupervisor::poll_action`] until it returns nothing more.
//!
//! 1. A *death* is: killed by a signal, a code that is not 0, leaving after joining without
//!    finalizing, running another program (exec) then, or leaving without joining although another
//!    joined.
//! 2. The first death ends the job, unless survivors go on: the others have [`GRACE_NS`] to return
//!    their errors, then everything is killed.
//! 3. Once an interrupt came, ranks get the signal and [`INTERRUPT_GRACE_NS`]; a second interrupt
//!    kills.
//! 4. Ranks that are stopped while all others have ended, or only wait until other nodes have
//!    taken what they sent, die after [`STOPPED_NS`].
//! 5. Ranks that run on while others have ended cleanly may do so for ever, or as long as the user
//!    says.
//! 6. With a node all ranks are lost that had not ended there, and each of them died.
//! 7. A rank dies once. No rank dies once the user has ended the job or everything is being killed.

use crate::death::{DeathManner, KILL, OnDeath, ProcessEnd, RankDeath};
use crate::event::{Event, RankStatus};
use crate::rank_life::{RankEnd, RankLife};
use crate::tally::RankTally;
use crate::verdict::JobVerdict;
use std::collections::VecDeque;
use std::ops::Range;

const MS: u64 = 1_000_000;
/// Time that survivors have to return their errors.
pub const GRACE_NS: u64 = 250 * MS;
/// Time that ranks have to react to the user's signal.
pub const INTERRUPT_GRACE_NS: u64 = 300 * MS;
/// Time that a rank may be stopped after all others have ended: a shell or a debugger stops and
/// continues processes for moments.
pub const STOPPED_NS: u64 = 300 * MS;
/// Time until a notice to the user that ranks run on while others have ended.
pub const NOTICE_NS: u64 = 5_000 * MS;
/// Ranks that a debug build checks one by one after each event; of more it would do little else,
/// and checks them at the end.
const MAX_CHECKED: usize = 64;

/// Ranks that run on although all others have ended cleanly [`NOTICE_NS`] ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanksLeft {
    /// The ranks.
    pub ranks: Vec<usize>,
    /// Time that they have after the last clean end, if that is limited.
    pub linger_ns: Option<u64>,
}

/// An action to execute on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisorAction {
    /// Record the activity of every rank, then declare this death.
    Declare(RankDeath),
    /// Send this signal to every rank.
    Signal(u8),
    /// Kill everything, descendants of ranks too.
    Kill,
    /// Tell the user.
    Notice(RanksLeft),
    /// Every rank has ended.
    Finished,
}

/// The life of a job's ranks.
#[derive(Debug)]
pub struct RankSupervisor {
    lives: Vec<RankLife>,
    /// Numbers of `lives` by state.
    tally: RankTally,
    on_death: OnDeath,
    linger_ns: Option<u64>,
    actions: VecDeque<SupervisorAction>,
    first_death: Option<(RankDeath, u64)>,
    interrupted: Option<u8>,
    killing: bool,
    finished: bool,
    kill_at: Option<u64>,
    stopped_since: Option<u64>,
    last_clean_end: Option<u64>,
    noticed: bool,
}

impl RankSupervisor {
    /// Watches `ranks` running ranks.
    pub fn new(ranks: u32, on_death: OnDeath, linger_ms: Option<u64>) -> Self {
        debug_assert!(ranks > 0, "a job has ranks");
        let lives = vec![RankLife::default(); ranks as usize];
        let watch = Self {
            tally: RankTally::of(&lives),
            lives,
            on_death,
            linger_ns: linger_ms.map(|ms| ms.saturating_mul(MS)),
            actions: VecDeque::new(),
            first_death: None,
            interrupted: None,
            killing: false,
            finished: false,
            kill_at: None,
            stopped_since: None,
            last_clean_end: None,
            noticed: false,
        };
        watch.check_invariants();
        watch
    }

    /// Watches the ranks of one node whose launcher is gone. Ranks that do not run here count as
    /// ended: their agents end them.
    pub fn of_orphaned_node(
        ranks: u32,
        on_death: OnDeath,
        runs: impl Fn(u32) -> bool,
        now_ns: u64,
    ) -> Self {
        let mut watch = Self::new(ranks, on_death, None);
        for rank in (0..ranks).filter(|&rank| !runs(rank)) {
            watch.handle_ended(rank, ProcessEnd::Exit(0), RankStatus::Finalized(0), now_ns);
        }
        debug_assert_eq!(watch.first_death, None, "what others end is no death here");
        debug_assert_eq!(watch.tally.running, (0..ranks).filter(|&rank| runs(rank)).count());
        watch
    }

    /// Handles an event. One of a rank that is none of the job, as only a faulty agent reports, has
    /// no effect.
    pub fn handle(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Joined(rank) => self.handle_joined(rank, now_ns),
            Event::Ended { rank, end, standing } => self.handle_ended(rank, end, standing, now_ns),
            Event::Replaced(rank) => self.handle_replaced(rank, now_ns),
            Event::Leaving(rank) => self.handle_leaving(rank, now_ns),
            Event::Stopped(rank) => self.handle_stopped(rank, true, now_ns),
            Event::Continued(rank) => self.handle_stopped(rank, false, now_ns),
            Event::Interrupted(signal) => self.handle_interrupt(signal, now_ns),
            // Of nodes, or without effect here.
            Event::Finalized(..) | Event::Silent(_) | Event::Heard(_) => {}
        }
        self.check_invariants();
    }

    /// Records that a rank joined.
    pub fn handle_joined(&mut self, rank: u32, now_ns: u64) {
        if !self.knows(rank) {
            return;
        }
        self.update(rank as usize, |life| life.joined = true);
        // Rule 1, seen late: ranks left before any joined. After the first to join there are none.
        let late = if self.tally.absent == 0 { 0..0 } else { 0..self.lives.len() };
        for absent in late {
            if self.lives[absent].is_absent() {
                self.update(absent, |life| life.end.clean = false);
                self.die(absent, DeathManner::NeverJoined, now_ns);
            }
        }
        debug_assert!(
            self.interrupted.is_some() || self.killing || self.tally.absent == 0,
            "rule 1: once one has joined, no other is merely absent"
        );
        self.check_invariants();
    }

    /// Records that the process of a rank runs another program: the rank is lost, whatever happens
    /// to the process.
    pub fn handle_replaced(&mut self, rank: u32, now_ns: u64) {
        let life = self.lives.get(rank as usize);
        if !life.is_some_and(|life| life.runs() && !life.replaced) {
            return;
        }
        self.update(rank as usize, |life| life.replaced = true);
        self.die(rank as usize, DeathManner::Replaced, now_ns);
        debug_assert!(self.lives[rank as usize].runs(), "the process runs, as another program");
        self.check_invariants();
    }

    /// Records that the process of a rank ended; `status` is the state in its block.
    pub fn handle_ended(&mut self, rank: u32, end: ProcessEnd, status: RankStatus, now_ns: u64) {
        let at = rank as usize;
        let runs = self.lives.get(at).is_some_and(RankLife::runs);
        if !runs || end == ProcessEnd::Unknown {
            return;
        }
        let others_joined = self.tally.joined > usize::from(self.lives[at].joined);
        let manner = self.lives[at].manner_of(end, status, others_joined);
        let how = (manner.is_none(), self.killing);
        self.update(at, |life| life.handle_ended(end, status, how));
        match manner {
            None => (self.last_clean_end, self.noticed) = (Some(now_ns), false),
            Some(manner) => self.die(at, manner, now_ns),
        }
        debug_assert!(!self.lives[at].runs() && !self.lives[at].stopped);
        self.evaluate(now_ns);
    }

    /// Records that a node was lost with these ranks (rule 6).
    pub fn handle_node_lost(&mut self, ranks: Range<u32>, now_ns: u64) {
        debug_assert!(ranks.start <= ranks.end, "ranks of a node are a range");
        for rank in ranks.clone() {
            let at = rank as usize;
            debug_assert!(self.knows(rank), "a node has ranks of the job");
            if self.lives.get(at).is_some_and(RankLife::runs) {
                let killing = self.killing;
                self.update(at, |life| life.handle_lost(killing));
                self.die(at, DeathManner::NodeLost, now_ns);
            }
        }
        debug_assert!(ranks.clone().all(|rank| self.end_of(rank).end.is_some()), "rule 6");
        self.evaluate(now_ns);
    }

    /// Records that a rank only waits for others to take what it sent.
    pub fn handle_leaving(&mut self, rank: u32, now_ns: u64) {
        if self.knows(rank) {
            self.update(rank as usize, |life| life.leaving = true);
            self.evaluate(now_ns);
        }
    }

    /// Records that a signal stopped the process of a rank, or continued it.
    pub fn handle_stopped(&mut self, rank: u32, stopped: bool, now_ns: u64) {
        if self.lives.get(rank as usize).is_some_and(RankLife::runs) {
            self.update(rank as usize, |life| life.stopped = stopped);
            self.evaluate(now_ns);
        }
    }

    /// Records that the user had suspended the job for so long: ranks that have to end in time did
    /// not run meanwhile.
    pub fn handle_resumed(&mut self, suspended_ns: u64) {
        let before = self.last_clean_end;
        self.last_clean_end = before.map(|end| end.saturating_add(suspended_ns));
        debug_assert!(self.last_clean_end >= before, "time goes on");
        self.check_invariants();
    }

    /// Ends the job for the user, or after the loss of the launcher.
    pub fn handle_interrupt(&mut self, signal: u8, now_ns: u64) {
        debug_assert_ne!(signal, 0, "signals begin at 1");
        if self.killing || self.finished {
            return;
        }
        if self.interrupted.is_some() || self.kill_at.is_some() {
            self.interrupted.get_or_insert(signal);
            self.kill();
            return;
        }
        self.interrupted = Some(signal);
        self.actions.push_back(SupervisorAction::Signal(signal));
        self.end_by(now_ns + INTERRUPT_GRACE_NS);
        debug_assert!(self.next_deadline_ns().is_some(), "rule 3: ranks have so long");
        self.check_invariants();
    }

    /// Ends the job at once.
    pub fn handle_kill(&mut self) {
        if self.first_death.is_none() {
            self.interrupted.get_or_insert(KILL);
        }
        self.kill();
        debug_assert_eq!(self.next_deadline_ns(), None, "nothing is waited for any more");
        self.check_invariants();
    }

    /// Returns the time for the next call of [`RankSupervisor::handle_timeout`].
    pub fn next_deadline_ns(&self) -> Option<u64> {
        if self.finished || self.killing {
            return None;
        }
        let stopped = self.stopped_since.map(|since| since + STOPPED_NS);
        let (linger, notice) = match self.last_clean_end.filter(|_| self.is_calm()) {
            Some(end) => {
                let notice = (!self.noticed).then_some(end + NOTICE_NS);
                (self.linger_ns.map(|linger| end.saturating_add(linger)), notice)
            }
            None => (None, None),
        };
        debug_assert!(self.kill_at.is_none() || linger.is_none() && notice.is_none());
        [self.kill_at, stopped, linger, notice].into_iter().flatten().min()
    }

    /// Handles deadlines that have passed.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        debug_assert!(!self.killing || self.kill_at.is_none(), "4: everything is killed once");
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now_ns);
        if due(self.kill_at) {
            self.kill();
        } else if due(self.stopped_since.map(|since| since + STOPPED_NS)) {
            self.end_stopped(now_ns);
        } else if let Some(end) = self.last_clean_end.filter(|_| self.is_calm()) {
            if due(self.linger_ns.map(|linger| end.saturating_add(linger))) {
                self.running().into_iter().for_each(|rank| {
                    self.die(rank, DeathManner::Lingered, now_ns);
                });
                // A rank that is still there after all this time gets the grace period too, even
                // if survivors go on.
                self.end_by(now_ns + GRACE_NS);
            } else if !self.noticed && due(Some(end + NOTICE_NS)) {
                self.noticed = true;
                let left = RanksLeft { ranks: self.running(), linger_ns: self.linger_ns };
                debug_assert!(!left.ranks.is_empty(), "the calm have a rank to wait for");
                self.actions.push_back(SupervisorAction::Notice(left));
            }
        }
        self.check_invariants();
    }

    /// Ends ranks that have been stopped for too long (rule 4).
    fn end_stopped(&mut self, now_ns: u64) {
        debug_assert!(self.kill_at.is_none(), "a job that ends anyway is not looked at");
        debug_assert!(self.tally.stopped > 0, "rule 4: a rank is stopped");
        self.stopped_since = None;
        for rank in self.running() {
            if self.lives[rank].stopped {
                self.die(rank, DeathManner::Stopped, now_ns);
            }
        }
        if self.running().into_iter().all(|rank| self.lives[rank].stopped) {
            self.kill();
        } else {
            // Ranks that wait for these to take what was sent need not any more, and end.
            self.end_by(now_ns + GRACE_NS);
        }
    }

    /// Returns the next action.
    pub fn poll_action(&mut self) -> Option<SupervisorAction> {
        self.actions.pop_front()
    }

    /// Returns the first death.
    pub fn first_death(&self) -> Option<RankDeath> {
        self.first_death.map(|(death, _)| death)
    }

    /// Returns the time of the first death, in ns.
    pub fn first_death_ns(&self) -> Option<u64> {
        self.first_death.map(|(_, at)| at)
    }

    /// Returns the signal with which the user ended the job.
    pub fn interrupted(&self) -> Option<u8> {
        self.interrupted
    }

    /// Returns the cause of the job's end, as far as it is known: a death before the user's
    /// signal.
    pub fn verdict(&self) -> JobVerdict {
        debug_assert!(self.first_death.is_none_or(|(death, _)| self.knows(death.rank)));
        match (self.first_death(), self.interrupted) {
            (Some(death), _) => JobVerdict::Death(death),
            (None, Some(signal)) => JobVerdict::Interrupted(signal),
            (None, None) => JobVerdict::Clean,
        }
    }

    /// Returns true while everything is being killed.
    pub fn is_killing(&self) -> bool {
        self.killing
    }

    /// Returns true if every rank has ended.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns how a rank ended.
    pub fn end_of(&self, rank: u32) -> RankEnd {
        self.lives.get(rank as usize).map(|life| life.end).unwrap_or_default()
    }

    /// Returns true if the process of a rank is stopped.
    pub fn is_stopped(&self, rank: u32) -> bool {
        self.lives.get(rank as usize).is_some_and(|life| life.stopped)
    }

    /// Returns true if nothing ends the job and there is a rank left to wait for.
    fn is_calm(&self) -> bool {
        self.kill_at.is_none()
            && !self.killing
            && self.interrupted.is_none()
            && self.tally.running > 0
    }

    /// Returns true if this is a rank of the job.
    fn knows(&self, rank: u32) -> bool {
        debug_assert!(!self.lives.is_empty(), "a job has ranks");
        (rank as usize) < self.lives.len()
    }

    /// Changes what is known of a rank.
    fn update(&mut self, at: usize, change: impl FnOnce(&mut RankLife)) {
        debug_assert!(at < self.lives.len(), "a rank of the job");
        let Some(life) = self.lives.get_mut(at) else { return };
        self.tally.remove(life);
        change(life);
        self.tally.add(life);
    }

    fn running(&self) -> Vec<usize> {
        (0..self.lives.len()).filter(|&rank| self.lives[rank].runs()).collect()
    }

    fn kill(&mut self) {
        (self.kill_at, self.stopped_since) = (None, None);
        if !self.killing && !self.finished {
            self.killing = true;
            self.actions.push_back(SupervisorAction::Kill);
        }
        debug_assert!(self.killing || self.finished);
    }

    /// Has everything killed at this time, unless that is to happen already.
    fn end_by(&mut self, at_ns: u64) {
        debug_assert!(!self.killing, "everything is killed once");
        self.kill_at.get_or_insert(at_ns);
        self.stopped_since = None;
    }

    /// Declares a rank dead, unless it has been or what ends now ends on demand (rule 7).
    fn die(&mut self, rank: usize, manner: DeathManner, now_ns: u64) {
        debug_assert!(rank < self.lives.len(), "only ranks of the job die");
        let over = self.interrupted.is_some() || self.killing;
        if over || self.lives[rank].declared {
            return;
        }
        self.update(rank, |life| life.declared = true);
        let death = RankDeath { rank: u32::try_from(rank).unwrap_or(u32::MAX), manner };
        self.actions.push_back(SupervisorAction::Declare(death));
        let (_, first_ns) = *self.first_death.get_or_insert((death, now_ns));
        debug_assert!(first_ns <= now_ns, "time runs forward");
        if self.on_death == OnDeath::End {
            self.end_by(now_ns + GRACE_NS);
        }
    }

    /// Re-evaluates the job after a change.
    fn evaluate(&mut self, now_ns: u64) {
        let RankTally { running, done, stopped, .. } = self.tally;
        if running == 0 {
            if !self.finished {
                self.finished = true;
                self.stopped_since = None;
                self.actions.push_back(SupervisorAction::Finished);
            }
        } else {
            let all = done + stopped == self.lives.len();
            let both = done > 0 && stopped > 0;
            self.stopped_since = match self.stopped_since {
                _ if !all || !both || self.kill_at.is_some() || self.killing => None,
                None => Some(now_ns),
                since => since,
            };
        }
        self.check_invariants();
    }

    /// Asserts what always holds; numbers are the crate's invariants.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        debug_assert!(!self.finished || self.tally.running == 0, "4: after every rank");
        debug_assert!(!self.killing || self.kill_at.is_none(), "4: everything is killed once");
        let declared = self.first_death.is_some();
        if self.finished || self.lives.len() <= MAX_CHECKED {
            self.lives.iter().for_each(RankLife::check_invariants);
            debug_assert_eq!(self.tally, RankTally::of(&self.lives), "every rank is counted");
            let dead = self.lives.iter().any(|life| life.declared);
            debug_assert_eq!(dead, declared, "2: the first death counts");
        }
        let ends = self.interrupted.is_some() || declared && self.on_death == OnDeath::End;
        let over = self.killing || self.finished;
        debug_assert!(!ends || over || self.kill_at.is_some(), "3: an end has a deadline");
        debug_assert!(self.kill_at.is_none() || self.stopped_since.is_none(), "3: one deadline");
        debug_assert!(
            self.actions.iter().filter(|a| **a == SupervisorAction::Kill).count() <= 1,
            "4: everything is killed once"
        );
    }
}

#[cfg(test)]
mod tests;
