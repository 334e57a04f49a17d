//! Places in an array that is spread cyclically, sorted by hand by the rank that has them, and
//! exchanged all at once: what a program without a global address space does.

use anyhow::{Result, ensure};
use clump::{Max, Team};

/// Places that are exchanged at a time, by each rank.
pub const EXCHANGED: u64 = 1 << 20;

/// Places by rank, four bytes each.
#[derive(Debug)]
pub struct Buckets {
    parts: Vec<Vec<u8>>,
}

impl Buckets {
    /// Creates empty buckets for an array of `len` elements over all ranks.
    ///
    /// # Errors
    /// Fails if a rank has more elements than four bytes can count.
    pub fn new(team: &Team, len: usize) -> Result<Self> {
        let ranks = team.nranks();
        let most = (u32::MAX as usize).saturating_mul(ranks);
        ensure!(len <= most, "{len} elements are too many to be exchanged by hand: {most} at most");
        Ok(Self { parts: vec![Vec::new(); ranks] })
    }

    /// Returns the number of exchanges of ranks that have up to `count` places each. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn rounds(team: &Team, count: u64) -> Result<u64> {
        Ok(team.all_reduce(count, Max)?.div_ceil(EXCHANGED))
    }

    /// Adds an element. Returns the rank that has it.
    #[inline]
    pub fn push(&mut self, index: usize) -> usize {
        let (rank, place) = (index % self.parts.len(), index / self.parts.len());
        if let Some(part) = self.parts.get_mut(rank) {
            part.extend_from_slice(&(place as u32).to_le_bytes());
        }
        rank
    }

    /// Gives each rank its places, and empties the buckets. Returns the places that the ranks give
    /// to this one, by rank. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn exchange(&mut self, team: &Team) -> Result<Vec<Vec<u8>>> {
        let given = team.all_to_all_bytes(&self.parts)?;
        self.parts.iter_mut().for_each(Vec::clear);
        debug_assert_eq!(given.len(), self.parts.len(), "one of each rank");
        Ok(given)
    }
}

/// Returns the places that a rank gave.
pub fn places(given: &[u8]) -> impl Iterator<Item = usize> {
    let place = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes) as usize;
    given.chunks_exact(4).map(place)
}
