//! Locks at a node: the token that its ranks hand each other.

use std::collections::VecDeque;

use crate::vector_time::VectorTime;

/// Outcome of a rank's request or release, for the node to carry out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TokenStep {
    /// No action now.
    Wait,
    /// The token is to be requested from its home.
    Request,
    /// The rank has the lock, as of the time of the last release.
    Enter(u16, VectorTime),
    /// The token is returned to the home with this time; `again` if local ranks still wait.
    Return {
        /// Time of the last release.
        time: VectorTime,
        /// True if the token is to be requested again at once.
        again: bool,
    },
}

/// Token of one lock at one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockToken {
    /// Number of the grant by which the node has the token.
    held: Option<u32>,
    requested: bool,
    holder: Option<u16>,
    waiting: VecDeque<u16>,
    /// Highest grant that the home has recalled.
    recalled: u32,
    /// Entries under the present grant since the recall.
    turns: u32,
    time: VectorTime,
}

impl LockToken {
    /// Returns the state of a node that never had the token.
    pub fn new(nodes: usize) -> Self {
        let (waiting, time) = (VecDeque::new(), VectorTime::zero(nodes));
        Self { held: None, requested: false, holder: None, waiting, recalled: 0, turns: 0, time }
    }

    /// Handles a rank that acquires the lock.
    pub fn acquire(&mut self, rank: u16) -> TokenStep {
        debug_assert_ne!(self.holder, Some(rank), "a rank acquires a lock once");
        debug_assert!(!self.waiting.contains(&rank), "a rank waits once");
        self.waiting.push_back(rank);
        if self.held.is_some() {
            return self.enter();
        }
        if std::mem::replace(&mut self.requested, true) {
            return TokenStep::Wait;
        }
        TokenStep::Request
    }

    /// Lets the first rank that waits in, if the lock is free.
    fn enter(&mut self) -> TokenStep {
        debug_assert!(self.held.is_some(), "entries take the token");
        if self.holder.is_some() {
            return TokenStep::Wait;
        }
        let Some(rank) = self.waiting.pop_front() else { return TokenStep::Wait };
        self.holder = Some(rank);
        debug_assert!(!self.waiting.contains(&rank), "a rank waits once");
        TokenStep::Enter(rank, self.time.clone())
    }

    /// Handles a grant of the home.
    pub fn handle_grant(&mut self, grant: u32, time: &VectorTime) -> TokenStep {
        debug_assert!(self.requested && self.held.is_none(), "grants answer requests");
        debug_assert!(!self.waiting.is_empty(), "a rank waits for the grant");
        self.requested = false;
        self.held = Some(grant);
        self.turns = 0;
        self.time.join(time);
        self.enter()
    }

    /// Handles a recall of the home, which may overtake its grant.
    pub fn handle_recall(&mut self, grant: u32) -> TokenStep {
        debug_assert!(self.held.is_none_or(|held| grant <= held), "the present grant at most");
        self.recalled = self.recalled.max(grant);
        debug_assert!(self.holder.is_none() || self.held.is_some(), "a holder has the token");
        if self.holder.is_none() && self.is_recalled() {
            return self.give_up();
        }
        TokenStep::Wait
    }

    /// Returns true if the home has recalled the token.
    fn is_recalled(&self) -> bool {
        self.held.is_some_and(|held| held <= self.recalled)
    }

    /// Returns the rank that has the lock, or keeps it, while others wait for it.
    pub fn wanted_from(&self) -> Option<u16> {
        debug_assert!(self.holder.is_none() || self.held.is_some(), "a holder has the token");
        self.holder.filter(|_| self.is_recalled() || !self.waiting.is_empty())
    }

    /// Returns true if the next entry is a local rank's, so that the release need not be published
    /// to other nodes. After a recall, `max_turns` local ranks may still go first.
    pub fn passes_locally(&self, max_turns: u32) -> bool {
        !self.waiting.is_empty() && (!self.is_recalled() || self.turns < max_turns)
    }

    /// Handles the holder's release at `time`.
    pub fn release(&mut self, rank: u16, time: &VectorTime, max_turns: u32) -> TokenStep {
        debug_assert_eq!(self.holder, Some(rank), "the holder releases");
        debug_assert!(self.held.is_some(), "a holder has the token");
        self.time.join(time);
        self.holder = None;
        if self.passes_locally(max_turns) {
            self.turns += u32::from(self.is_recalled());
            return self.enter();
        }
        if self.is_recalled() { self.give_up() } else { TokenStep::Wait }
    }

    /// Gives the token back.
    fn give_up(&mut self) -> TokenStep {
        debug_assert!(self.holder.is_none(), "a lock in use stays");
        debug_assert!(self.held.is_some() && !self.requested, "the token is here");
        self.held = None;
        self.requested = !self.waiting.is_empty();
        TokenStep::Return { time: self.time.clone(), again: self.requested }
    }
}
