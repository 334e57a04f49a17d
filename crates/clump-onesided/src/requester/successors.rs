//! Successors of the locks that a thread waits for or holds, as the homes of the locks have
//! announced them.

use clump_shm::name::Name;

/// Successor of a lock's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// Endpoint of the successor.
    pub name: Name,
    /// Cookie of the successor's claim.
    pub cookie: u64,
    /// Position in the queue.
    pub position: u64,
}

impl Successor {
    pub(super) fn new(name: u64, cookie: u64, position: u64) -> Self {
        Self { name: Name::from_bits(name), cookie, position }
    }

    /// Returns the words of the grant message with this lock word:
    /// [`crate::protocol::tell::GRANTED`].
    pub fn grant(&self, word: u64) -> [u64; 3] {
        [self.cookie, self.position, word]
    }
}

/// Known successors. One entry for each lock on another node that was requested and not released,
/// few at a time.
#[derive(Debug, Default)]
pub(super) struct Successors {
    of: Vec<(u64, Option<Successor>)>,
}

impl Successors {
    /// Expects the announcement of a successor for a requested lock.
    pub(super) fn expect(&mut self, cookie: u64) {
        debug_assert!(
            self.of.iter().all(|(known, _)| *known != cookie),
            "a lock is requested once"
        );
        self.of.push((cookie, None));
    }

    /// Records an announced successor. One that is not expected is ignored: the lock was released
    /// meanwhile.
    pub(super) fn name(&mut self, cookie: u64, successor: Successor) {
        if let Some((_, place)) = self.of.iter_mut().find(|(known, _)| *known == cookie) {
            *place = Some(successor);
        }
    }

    pub(super) fn get(&self, cookie: u64) -> Option<Successor> {
        self.of.iter().find(|(known, _)| *known == cookie)?.1
    }

    /// Ends the expectation.
    pub(super) fn take(&mut self, cookie: u64) -> Option<Successor> {
        let at = self.of.iter().position(|(known, _)| *known == cookie)?;
        self.of.swap_remove(at).1
    }

    /// Checks that a lock has one successor.
    pub(super) fn check_invariants(&self) {
        let later = |at: usize| self.of.iter().skip(at + 1);
        for (at, (cookie, _)) in self.of.iter().enumerate() {
            debug_assert_ne!(*cookie, 0, "a claim is answered");
            debug_assert!(later(at).all(|(other, _)| other != cookie), "a claim is listed once");
        }
    }
}
