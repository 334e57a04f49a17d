//! Locks at their homes: which node has the token, and which nodes wait for it.

use std::collections::VecDeque;

use crate::vector_time::VectorTime;

/// Message to be sent for the home of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockOrder {
    /// The node gets the token.
    Grant {
        /// Node that gets it.
        to: u16,
        /// Number of the grant, from 1.
        grant: u32,
        /// Time of the last release.
        time: VectorTime,
    },
    /// The node is to return the token once no rank of it has the lock.
    Recall {
        /// Node that has it.
        to: u16,
        /// Number of the grant that ends.
        grant: u32,
    },
}

/// Token of one lock at its home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockHome {
    owner: Option<u16>,
    grants: u32,
    recalled: bool,
    queue: VecDeque<u16>,
    time: VectorTime,
}

impl LockHome {
    /// Returns a lock that was never held.
    pub fn new(nodes: usize) -> Self {
        let time = VectorTime::zero(nodes);
        Self { owner: None, grants: 0, recalled: false, queue: VecDeque::new(), time }
    }

    /// Handles the request of a node, which waits for no other grant of this lock.
    pub fn handle_request(&mut self, node: u16) -> Option<LockOrder> {
        debug_assert!(!self.queue.contains(&node), "a node asks once");
        debug_assert!((node as usize) < self.time.nodes(), "the node exists");
        self.queue.push_back(node);
        self.next_order()
    }

    /// Handles the token's return, with the time of the last release. The grant that the return
    /// ends is the current one: another is made only after it.
    pub fn handle_return(&mut self, node: u16, time: &VectorTime) -> Option<LockOrder> {
        debug_assert_eq!(self.owner, Some(node), "the owner returns the token");
        debug_assert!(time.covers(&self.time), "a release comes after the grant");
        self.owner = None;
        self.recalled = false;
        self.time.join(time);
        self.next_order()
    }

    /// Returns what follows from the queue.
    fn next_order(&mut self) -> Option<LockOrder> {
        match self.owner {
            None => {
                let to = self.queue.pop_front()?;
                self.owner = Some(to);
                self.grants += 1;
                debug_assert!(!self.recalled, "a recall ends with its grant");
                Some(LockOrder::Grant { to, grant: self.grants, time: self.time.clone() })
            }
            Some(to) if !self.recalled && !self.queue.is_empty() => {
                self.recalled = true;
                debug_assert!(self.grants > 0, "an owner has been granted the lock");
                Some(LockOrder::Recall { to, grant: self.grants })
            }
            Some(_) => None,
        }
    }

    /// Returns the recall that a grant needs at once because others wait.
    pub fn poll_recall(&mut self) -> Option<LockOrder> {
        self.owner.and_then(|_| self.next_order())
    }
}
