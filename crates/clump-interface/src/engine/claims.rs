//! An interface's record of claims of ranks of other nodes on its locks, from the claim until the
//! lock is released: announced successors, and the source from which each claim gets its lock.

use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use std::collections::HashMap;

/// Maximum number of recorded claims of an endpoint; further claims get their lock from this
/// interface only.
pub(super) const MAX_PLACES: u32 = 64;

/// Key of a claim: segment and offset of its lock, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct At {
    pub(super) segment: SegmentName,
    pub(super) offset: u64,
    pub(super) position: u64,
}

impl At {
    pub(super) fn next(self) -> Self {
        Self { position: self.position.wrapping_add(1), ..self }
    }

    pub(super) fn before(self) -> Option<Self> {
        Some(Self { position: self.position.checked_sub(1)?, ..self })
    }
}

/// State of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimState {
    /// Waits for this interface, or has been granted the lock by it.
    Ours,
    /// The rank of the claim before it was notified of it, and decides which rank grants it the
    /// lock.
    Promised,
    /// Promised, and released already, with this word, and passed on or not: the release arrived
    /// before the hand-over.
    Early(u64, bool),
    /// The lock was passed to it by this rank with this word.
    Passed(u32, u64),
    /// Passed, and that rank has left since: its grant may be lost.
    Orphaned(u64),
}

/// A recorded claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimAccount {
    pub(super) account: usize,
    pub(super) from: Name,
    pub(super) cookie: u64,
    pub(super) state: ClaimState,
    /// True if its endpoint has closed. The claim stays as long as the lock may be on its way to
    /// it.
    pub(super) gone: bool,
}

impl ClaimAccount {
    pub(super) fn new(account: usize, from: Name, cookie: u64) -> Self {
        Self { account, from, cookie, state: ClaimState::Ours, gone: false }
    }

    /// Returns true if the claim before it decides about it.
    pub(super) fn is_promised(&self) -> bool {
        matches!(self.state, ClaimState::Promised | ClaimState::Early(..))
    }

    /// Returns the claim with the word of its lock, if it is orphaned.
    pub(super) fn orphaned(&mut self) -> Option<(&mut Self, u64)> {
        let ClaimState::Orphaned(word) = self.state else { return None };
        Some((self, word))
    }
}

/// All recorded claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    all: HashMap<At, ClaimAccount>,
    /// Number of claims of each endpoint.
    counts: HashMap<Name, u32>,
}

impl Claims {
    pub(super) fn get(&self, at: At) -> Option<&ClaimAccount> {
        self.all.get(&at)
    }

    pub(super) fn get_mut(&mut self, at: At) -> Option<&mut ClaimAccount> {
        self.all.get_mut(&at)
    }

    /// Records a claim. Returns false when the endpoint has too many.
    pub(super) fn insert(&mut self, at: At, place: ClaimAccount) -> bool {
        debug_assert!(!place.gone, "an endpoint that is gone claims nothing");
        // A record may be left of a rank that overwrote the lock.
        self.remove(at);
        let count = self.counts.entry(place.from).or_default();
        debug_assert!(*count <= MAX_PLACES, "no more are recorded");
        let fits = *count < MAX_PLACES;
        if fits {
            *count += 1;
            self.all.insert(at, place);
        }
        debug_assert_eq!(fits, self.all.contains_key(&at), "only what is recorded is counted");
        fits
    }

    pub(super) fn remove(&mut self, at: At) -> Option<ClaimAccount> {
        let place = self.all.remove(&at)?;
        let Some(count) = self.counts.get_mut(&place.from) else {
            clump_bug::bug!("every recorded claim is counted");
            return Some(place);
        };
        debug_assert!(*count > 0, "every recorded claim is counted");
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(&place.from);
        }
        Some(place)
    }

    /// Checks that all claims are counted, and that no endpoint has more than it may.
    pub(super) fn check_invariants(&self) {
        let counted: u64 = self.counts.values().map(|count| u64::from(*count)).sum();
        debug_assert_eq!(counted, self.all.len() as u64, "every recorded claim is counted");
        for (name, count) in &self.counts {
            debug_assert!((1..=MAX_PLACES).contains(count), "an endpoint has so many claims");
            let of_it = self.all.values().filter(|place| place.from == *name).count();
            debug_assert_eq!(of_it, *count as usize, "a claim is counted for its endpoint");
        }
    }

    /// Returns true if a claim matches.
    pub(super) fn any(&self, like: impl Fn(&ClaimAccount) -> bool) -> bool {
        self.all.values().any(like)
    }

    /// Returns the keys of matching claims, in a fixed order.
    pub(super) fn find(&self, like: impl Fn(&ClaimAccount) -> bool) -> Vec<At> {
        let found = self.all.iter().filter(|(_, place)| like(place));
        let mut found: Vec<At> = found.map(|(at, _)| *at).collect();
        found.sort_unstable_by_key(|at| (at.segment.to_bits(), at.offset, at.position));
        found
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}
