//! The rules of dying, without processes: events and times in, actions out.
//!
//! The process that decides about a job (on one node its agent, on several the launcher) feeds
//! [`RankSupervisor`] with events ([`RankSupervisor::handle`], `on_*`), wakes it at
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

use crate::event::Event;
use crate::outcome::ProcessEnd;
use crate::spec::OnDeath;
use clump_os::process::Exit;
use clump_shm::job::{Death, DeathCause};
use clump_shm::rank::RankState;
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
/// Time until the user is told that ranks run on while others have ended.
pub const NOTICE_NS: u64 = 5_000 * MS;

/// An action to execute on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisorAction {
    /// Record the activity of every rank, then declare this death.
    Declare(Death),
    /// Send this signal to every rank.
    Signal(u8),
    /// Kill everything, descendants of ranks too.
    Kill,
    /// Tell the user.
    Notice(String),
    /// Every rank has ended.
    Finished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    joined: bool,
    leaving: bool,
    stopped: bool,
    end: Option<ProcessEnd>,
    clean: bool,
    /// True once its process runs another program.
    replaced: bool,
    /// True if the end of the job killed it.
    killed: bool,
}

/// The life of a job's ranks.
#[derive(Debug)]
pub struct RankSupervisor {
    lives: Vec<Life>,
    on_death: OnDeath,
    linger_ns: Option<u64>,
    actions: VecDeque<SupervisorAction>,
    first_death: Option<(Death, u64)>,
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
        let life = Life {
            joined: false,
            leaving: false,
            stopped: false,
            end: None,
            clean: false,
            replaced: false,
            killed: false,
        };
        Self {
            lives: vec![life; ranks as usize],
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
        }
    }

    /// Handles an event.
    pub fn handle(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Joined(rank) => self.on_joined(rank, now_ns),
            Event::Ended { rank, end: ProcessEnd::Exit(code), standing } => {
                self.on_ended(rank, Exit::Code(code), standing.into(), now_ns);
            }
            Event::Ended { rank, end: ProcessEnd::Signal(signal), standing } => {
                self.on_ended(rank, Exit::Signal(signal), standing.into(), now_ns);
            }
            Event::Replaced(rank) => self.on_replaced(rank, now_ns),
            Event::Leaving(rank) => self.on_leaving(rank, now_ns),
            Event::Stopped(rank) => self.on_stopped(rank, now_ns),
            Event::Continued(rank) => self.on_continued(rank, now_ns),
            Event::Interrupted(signal) => self.on_interrupt(signal, now_ns),
            // Of nodes, or without effect here.
            Event::Finalized(..) | Event::Silent(_) | Event::Heard(_) => {}
            Event::Ended { end: ProcessEnd::Unknown, .. } => {}
        }
    }

    /// Records that a rank joined.
    pub fn on_joined(&mut self, rank: u32, now_ns: u64) {
        let Some(life) = self.lives.get_mut(rank as usize) else { return };
        life.joined = true;
        // Rule 1, seen late: a rank left before any joined.
        let gone = |life: &Life| life.end == Some(ProcessEnd::Exit(0)) && !life.joined;
        if let Some(absent) = self.lives.iter().position(gone) {
            self.lives[absent].clean = false;
            self.die(absent, DeathCause::NeverJoined, now_ns);
        }
    }

    /// Records that the process of a rank runs another program: the rank is lost, whatever happens
    /// to the process.
    pub fn on_replaced(&mut self, rank: u32, now_ns: u64) {
        let over = self.killing || self.interrupted.is_some();
        let life = self.lives.get_mut(rank as usize);
        let Some(life) = life.filter(|life| life.end.is_none() && !life.replaced) else { return };
        life.replaced = true;
        if !over {
            self.die(rank as usize, DeathCause::Replaced, now_ns);
        }
    }

    /// Records that the process of a rank ended; `state` is the state in its block.
    pub fn on_ended(&mut self, rank: u32, exit: Exit, state: RankState, now_ns: u64) {
        let at = rank as usize;
        if self.lives.get(at).is_none_or(|life| life.end.is_some()) {
            return;
        }
        let joined = self.lives[at].joined || state != RankState::Absent;
        let others_joined = self.lives.iter().enumerate().any(|(i, l)| i != at && l.joined);
        let how = match (exit, state) {
            _ if self.lives[at].replaced => Some(DeathCause::Replaced),
            (Exit::Signal(signal), _) => Some(DeathCause::Signal(signal)),
            (Exit::Code(0), RankState::Finalized) => None,
            (Exit::Code(0), _) if joined => Some(DeathCause::NoFinalize),
            (Exit::Code(0), _) if others_joined => Some(DeathCause::NeverJoined),
            (Exit::Code(0), _) => None,
            (Exit::Code(code), _) => Some(DeathCause::Exit(code)),
        };
        let life = &mut self.lives[at];
        (life.joined, life.stopped, life.clean) = (joined, false, how.is_none());
        life.end = Some(match exit {
            Exit::Code(code) => ProcessEnd::Exit(code),
            Exit::Signal(signal) => ProcessEnd::Signal(signal),
        });
        life.killed = self.killing && exit == Exit::Signal(clump_os::signal::KILL);
        match how {
            None => (self.last_clean_end, self.noticed) = (Some(now_ns), false),
            // That death has been declared.
            Some(DeathCause::Replaced) => {}
            Some(how) if self.interrupted.is_none() && !self.killing => self.die(at, how, now_ns),
            Some(_) => {}
        }
        self.evaluate(now_ns);
    }

    /// Records that a node was lost with these ranks (rule 6).
    pub fn on_node_lost(&mut self, ranks: Range<u32>, now_ns: u64) {
        for rank in ranks {
            let at = rank as usize;
            let Some(life) = self.lives.get_mut(at).filter(|life| life.end.is_none()) else {
                continue;
            };
            (life.stopped, life.clean, life.end) = (false, false, Some(ProcessEnd::Unknown));
            life.killed = self.killing;
            if self.interrupted.is_none() && !self.killing {
                self.die(at, DeathCause::NodeLost, now_ns);
            }
        }
        self.evaluate(now_ns);
    }

    /// Records that a rank only waits for others to take what it sent.
    pub fn on_leaving(&mut self, rank: u32, now_ns: u64) {
        if let Some(life) = self.lives.get_mut(rank as usize) {
            life.leaving = true;
            self.evaluate(now_ns);
        }
    }

    /// Records that a signal stopped the process of a rank.
    pub fn on_stopped(&mut self, rank: u32, now_ns: u64) {
        self.set_stopped(rank, true, now_ns);
    }

    /// Records that the process of a rank continues.
    pub fn on_continued(&mut self, rank: u32, now_ns: u64) {
        self.set_stopped(rank, false, now_ns);
    }

    fn set_stopped(&mut self, rank: u32, stopped: bool, now_ns: u64) {
        if let Some(life) = self.lives.get_mut(rank as usize).filter(|life| life.end.is_none()) {
            life.stopped = stopped;
            self.evaluate(now_ns);
        }
    }

    /// Ends the job for the user, or after the loss of the launcher.
    pub fn on_interrupt(&mut self, signal: u8, now_ns: u64) {
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
        self.kill_at = Some(now_ns + INTERRUPT_GRACE_NS);
    }

    /// Ends the job at once.
    pub fn on_kill(&mut self) {
        if self.first_death.is_none() {
            self.interrupted.get_or_insert(clump_os::signal::KILL);
        }
        self.kill();
    }

    /// Returns the time for the next call of [`RankSupervisor::handle_timeout`].
    pub fn next_deadline_ns(&self) -> Option<u64> {
        if self.finished || self.killing {
            return None;
        }
        let stopped = self.stopped_since.map(|since| since + STOPPED_NS);
        let (linger, notice) = match self.last_clean_end.filter(|_| self.calm()) {
            Some(end) => {
                let notice = (!self.noticed).then_some(end + NOTICE_NS);
                (self.linger_ns.map(|linger| end.saturating_add(linger)), notice)
            }
            None => (None, None),
        };
        [self.kill_at, stopped, linger, notice].into_iter().flatten().min()
    }

    /// Handles deadlines that have passed.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now_ns);
        if due(self.kill_at) {
            self.kill();
            return;
        }
        if due(self.stopped_since.map(|since| since + STOPPED_NS)) {
            self.stopped_since = None;
            for rank in self.running() {
                if self.lives[rank].stopped {
                    self.die(rank, DeathCause::Stopped, now_ns);
                }
            }
            if self.running().into_iter().all(|rank| self.lives[rank].stopped) {
                self.kill();
            } else {
                // Ranks that wait for these to take what was sent need not any more, and end.
                self.kill_at = Some(now_ns + GRACE_NS);
            }
            return;
        }
        let Some(end) = self.last_clean_end.filter(|_| self.calm()) else { return };
        if due(self.linger_ns.map(|linger| end.saturating_add(linger))) {
            for rank in self.running() {
                self.die(rank, DeathCause::Lingered, now_ns);
            }
            // A rank that is still there after all this time gets the grace period too, even if
            // survivors go on.
            self.kill_at = Some(now_ns + GRACE_NS);
        } else if !self.noticed && due(Some(end + NOTICE_NS)) {
            self.noticed = true;
            self.actions.push_back(SupervisorAction::Notice(self.lingering()));
        }
    }

    /// Returns the next action.
    pub fn poll_action(&mut self) -> Option<SupervisorAction> {
        self.actions.pop_front()
    }

    /// Returns the first death.
    pub fn first_death(&self) -> Option<Death> {
        self.first_death.map(|(death, _)| death)
    }

    /// Returns the time of the first death, in ns.
    pub fn first_death_ns(&self) -> Option<u64> {
        self.first_death.map(|(_, at)| at)
    }

    /// Returns the signal with which the user ended the job, if no death had ended it before.
    pub fn interrupted(&self) -> Option<u8> {
        self.interrupted
    }

    /// Returns true while everything is being killed.
    pub fn is_killing(&self) -> bool {
        self.killing
    }

    /// Returns true if every rank has ended.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns how a rank ended, whether that was clean, and whether the end of the job killed it.
    pub fn end_of(&self, rank: u32) -> (Option<ProcessEnd>, bool, bool) {
        let life = self.lives.get(rank as usize);
        life.map_or((None, false, false), |life| (life.end, life.clean, life.killed))
    }

    /// Returns true if the process of a rank is stopped.
    pub fn is_stopped(&self, rank: u32) -> bool {
        self.lives.get(rank as usize).is_some_and(|life| life.stopped)
    }

    /// Returns true if there is no death that ends the job, no interrupt, and a rank left to wait
    /// for.
    fn calm(&self) -> bool {
        self.kill_at.is_none()
            && self.interrupted.is_none()
            && self.lives.iter().any(|l| l.end.is_none())
    }

    fn running(&self) -> Vec<usize> {
        (0..self.lives.len()).filter(|&rank| self.lives[rank].end.is_none()).collect()
    }

    fn kill(&mut self) {
        self.kill_at = None;
        if !self.killing && !self.finished {
            self.killing = true;
            self.actions.push_back(SupervisorAction::Kill);
        }
    }

    fn die(&mut self, rank: usize, how: DeathCause, now_ns: u64) {
        let death = Death { rank: u32::try_from(rank).unwrap_or(u32::MAX), how };
        self.actions.push_back(SupervisorAction::Declare(death));
        self.first_death.get_or_insert((death, now_ns));
        if self.on_death == OnDeath::End && self.kill_at.is_none() {
            self.kill_at = Some(now_ns + GRACE_NS);
        }
    }

    /// Re-evaluates the job after a change.
    fn evaluate(&mut self, now_ns: u64) {
        let ended = self.lives.iter().filter(|life| life.end.is_some()).count();
        if ended == self.lives.len() {
            if !self.finished {
                self.finished = true;
                self.actions.push_back(SupervisorAction::Finished);
            }
            return;
        }
        let done = |life: &Life| life.end.is_some() || life.leaving && !life.stopped;
        let stopped = |life: &Life| life.end.is_none() && life.stopped;
        let all = self.lives.iter().all(|life| done(life) || stopped(life));
        let both = self.lives.iter().any(done) && self.lives.iter().any(stopped);
        self.stopped_since = match self.stopped_since {
            _ if !all || !both || self.kill_at.is_some() => None,
            None => Some(now_ns),
            since => since,
        };
    }

    fn lingering(&self) -> String {
        let running = self.running();
        let which = crate::report::rank_list(&running);
        let (is, are) = (format!("rank {which} is"), format!("ranks {which} are"));
        let who = if running.len() == 1 { is } else { are };
        let bound = match self.linger_ns {
            Some(ns) => format!("it ends {} s after the last clean end", ns / (1000 * MS)),
            None => "`--linger SECONDS` bounds that".into(),
        };
        format!("{who} still running, all others ended {} s ago; {bound}", NOTICE_NS / (1000 * MS))
    }
}

#[cfg(test)]
mod tests;
