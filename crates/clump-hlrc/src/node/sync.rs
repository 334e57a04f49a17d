//! Locks and flags, as ranks and homes see them.

use crate::config::TwinTime;
use crate::flag_home::{FlagHome, FlagWaiter};
use crate::lock_home::{LockHome, LockOrder};
use crate::lock_token::{LockToken, TokenStep};
use crate::message::{Action, NodeMessage, RankWait};
use crate::node::{NodeState, Pending};
use crate::vector_time::VectorTime;

impl<P> NodeState<P> {
    /// Handles a rank that acquires a lock. [`crate::Action::Resume`] reports that it has it.
    pub fn acquire_lock(&mut self, rank: u16, lock: u64) {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        let step = self.token(lock).acquire(rank);
        self.carry_out_token(lock, step);
        self.ask_for_lock(lock);
        self.drain_loopback();
    }

    /// Handles a rank that gives a lock back. It continues at once.
    pub fn release_lock(&mut self, rank: u16, lock: u64) {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        self.end_section(rank);
        self.leave_lock(rank, lock);
    }

    /// Takes a lock from a rank that has released it without a call, and continues. A rank may keep
    /// a lock that way, and enter it again, until [`Action::AskLock`] recalls it.
    ///
    /// Everything that the rank has written so far is published, if need be: also what it wrote
    /// behind its release. Where writes are faults, it keeps its rights to write.
    pub fn take_lock_back(&mut self, rank: u16, lock: u64) {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        match self.config.twins {
            TwinTime::AtWrite => self.copy_section(rank),
            TwinTime::AtFetch => self.end_section(rank),
        }
        self.leave_lock(rank, lock);
    }

    /// Returns true if others wait for a lock that a rank of this node has, or keeps.
    pub fn is_lock_wanted(&self, lock: u64) -> bool {
        debug_assert!(self.loopback.is_empty(), "events are complete");
        self.tokens.get(&lock).is_some_and(|token| token.wanted_from().is_some())
    }

    /// Ends the entry of a rank, whose writes are to be published before another node enters.
    fn leave_lock(&mut self, rank: u16, lock: u64) {
        let max_turns = self.config.local_turns;
        if !self.token(lock).passes_locally(max_turns) {
            self.publish();
            self.release_time(rank);
        }
        let time = self.ranks[usize::from(rank)].time().clone();
        let step = self.token(lock).release(rank, &time, max_turns);
        self.carry_out_token(lock, step);
        self.drain_loopback();
    }

    /// Recalls a lock from the rank that has it, if others wait.
    fn ask_for_lock(&mut self, lock: u64) {
        if let Some(rank) = self.token(lock).wanted_from() {
            debug_assert!(rank < self.config.ranks, "the rank exists");
            self.actions.push_back(Action::AskLock { rank, lock });
        }
    }

    /// Returns this node's state of a lock.
    fn token(&mut self, lock: u64) -> &mut LockToken {
        let nodes = usize::from(self.config.nodes);
        self.tokens.entry(lock).or_insert_with(|| LockToken::new(nodes))
    }

    /// Carries out the step of a token.
    fn carry_out_token(&mut self, lock: u64, step: TokenStep) {
        let keeper = self.keeper(lock);
        match step {
            TokenStep::Wait => {}
            TokenStep::Request => self.send(keeper, NodeMessage::RequestLock { lock }),
            TokenStep::Enter(rank, time) => {
                debug_assert!(rank < self.config.ranks, "the rank exists");
                let wait = RankWait::Lock(lock);
                self.wait_for_notices(Pending::Acquire { rank, wait, time });
            }
            TokenStep::Return { time, again } => {
                debug_assert!(self.seen.covers(&time), "what was released was seen");
                self.send(keeper, NodeMessage::ReturnLock { lock, time, again });
            }
        }
    }

    /// Takes a lock that its home grants.
    pub(super) fn on_lock_grant(&mut self, lock: u64, grant: u32, time: &VectorTime) {
        let step = self.token(lock).handle_grant(grant, time);
        self.carry_out_token(lock, step);
    }

    /// Takes the home's wish to have a token back.
    pub(super) fn on_lock_recall(&mut self, lock: u64, grant: u32) {
        let step = self.token(lock).handle_recall(grant);
        self.carry_out_token(lock, step);
        self.ask_for_lock(lock);
    }

    /// Takes a node's request, as the lock's home.
    pub(super) fn on_lock_request(&mut self, from: u16, lock: u64) {
        debug_assert_eq!(self.keeper(lock), self.config.node, "a lock has one home");
        let order = self.lock_home(lock).handle_request(from);
        self.send_orders(lock, order);
        debug_assert!(self.lock_homes.contains_key(&lock));
    }

    /// Takes a token back, as the lock's home.
    pub(super) fn on_lock_return(&mut self, from: u16, lock: u64, time: &VectorTime, again: bool) {
        debug_assert_eq!(self.keeper(lock), self.config.node, "a lock has one home");
        let order = self.lock_home(lock).handle_return(from, time);
        self.send_orders(lock, order);
        if again {
            let order = self.lock_home(lock).handle_request(from);
            self.send_orders(lock, order);
        }
        debug_assert!(self.lock_homes.contains_key(&lock));
    }

    /// Returns the state of a lock whose home is here.
    fn lock_home(&mut self, lock: u64) -> &mut LockHome {
        let nodes = usize::from(self.config.nodes);
        self.lock_homes.entry(lock).or_insert_with(|| LockHome::new(nodes))
    }

    /// Sends what a lock's home decides, and the recall that a grant needs at once.
    fn send_orders(&mut self, lock: u64, first: Option<LockOrder>) {
        let mut order = first;
        while let Some(decided) = order {
            match decided {
                LockOrder::Grant { to, grant, time } => {
                    self.send(to, NodeMessage::GrantLock { lock, grant, time });
                }
                LockOrder::Recall { to, grant } => {
                    self.send(to, NodeMessage::RecallLock { lock, grant });
                }
            }
            order = self.lock_home(lock).poll_recall();
        }
        debug_assert_eq!(self.keeper(lock), self.config.node);
        debug_assert!(self.lock_home(lock).poll_recall().is_none());
    }

    /// Handles a rank that sets a flag to at least `value`. It continues at once.
    pub fn set_flag(&mut self, rank: u16, flag: u64, value: u64) {
        self.end_section(rank);
        self.publish();
        let time = self.release_time(rank);
        debug_assert!(self.unpublished.is_empty(), "others may depend on it");
        debug_assert!(self.seen.covers(&time));
        self.send(self.keeper(flag), NodeMessage::SetFlag { flag, value, time });
        self.drain_loopback();
    }

    /// Handles a rank that waits until a flag is at least `at_least`.
    pub fn await_flag(&mut self, rank: u16, flag: u64, at_least: u64) {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        self.send(self.keeper(flag), NodeMessage::AwaitFlag { flag, at_least, rank });
        self.drain_loopback();
    }

    /// Returns the state of a flag whose home is here.
    fn flag_home(&mut self, flag: u64) -> &mut FlagHome {
        let nodes = usize::from(self.config.nodes);
        self.flag_homes.entry(flag).or_insert_with(|| FlagHome::new(nodes))
    }

    /// Takes a flag's new value, as its home.
    pub(super) fn on_set_flag(&mut self, flag: u64, value: u64, time: &VectorTime) {
        debug_assert_eq!(self.keeper(flag), self.config.node, "a flag has one home");
        let ended = self.flag_home(flag).handle_set(value, time);
        let time = self.flag_home(flag).time().clone();
        for FlagWaiter { node, rank, at_least } in ended {
            self.send(node, NodeMessage::FlagReached { flag, at_least, rank, time: time.clone() });
        }
        debug_assert!(self.flag_homes.contains_key(&flag));
    }

    /// Takes a wait for a flag, as its home.
    pub(super) fn on_await_flag(&mut self, node: u16, flag: u64, at_least: u64, rank: u16) {
        debug_assert_eq!(self.keeper(flag), self.config.node, "a flag has one home");
        if self.flag_home(flag).handle_wait(FlagWaiter { node, rank, at_least }) {
            let time = self.flag_home(flag).time().clone();
            self.send(node, NodeMessage::FlagReached { flag, at_least, rank, time });
        }
        debug_assert!(self.flag_homes.contains_key(&flag));
    }
}
