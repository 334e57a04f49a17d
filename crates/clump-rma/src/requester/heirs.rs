//! Who comes next for each lock that a thread waits for or has: what the homes of the locks have told it.

use clump_shm::name::Name;

/// Who gets a lock next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heir {
    /// Its endpoint.
    pub name: Name,
    /// What it calls the lock.
    pub cookie: u64,
    /// Where it stands in the line.
    pub position: u64,
}

impl Heir {
    pub(super) fn new(name: u64, cookie: u64, position: u64) -> Self {
        Self { name: Name::from_bits(name), cookie, position }
    }

    /// What tells it that the lock is its own, with this word: [`crate::protocol::tell::GRANTED`].
    pub fn grant(&self, word: u64) -> [u64; 3] {
        [self.cookie, self.position, word]
    }
}

/// See the module. One for each lock on another node that was asked for and not given back, few at a time.
#[derive(Debug, Default)]
pub(super) struct Heirs {
    of: Vec<(u64, Option<Heir>)>,
}

impl Heirs {
    /// A lock is asked for: from now on it may be told who comes next.
    pub(super) fn expect(&mut self, cookie: u64) {
        self.of.push((cookie, None));
    }

    /// It has been told. What is not expected counts for nothing: the lock was given back meanwhile.
    pub(super) fn name(&mut self, cookie: u64, heir: Heir) {
        if let Some((_, place)) = self.of.iter_mut().find(|(known, _)| *known == cookie) {
            *place = Some(heir);
        }
    }

    pub(super) fn get(&self, cookie: u64) -> Option<Heir> {
        self.of.iter().find(|(known, _)| *known == cookie)?.1
    }

    /// Expects nothing more.
    pub(super) fn take(&mut self, cookie: u64) -> Option<Heir> {
        let at = self.of.iter().position(|(known, _)| *known == cookie)?;
        self.of.swap_remove(at).1
    }
}
