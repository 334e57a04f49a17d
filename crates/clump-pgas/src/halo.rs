//! Exchange of boundaries between neighbours, counted by sender.
//!
//! A count of stored bytes does not identify their sender: of two neighbours one may be a round
//! ahead, and its bytes are counted for those of the other. And a neighbour that is ahead
//! overwrites what this rank still reads. So each neighbour has two places at this rank, each with
//! a word for the round that it holds. Places take turns: a neighbour writes into one again two
//! rounds later, which it begins after it has this rank's boundary of the round between. One word
//! for both would not do: between nodes, a signal of the next round may overtake the boundary of
//! this one.

use crate::element::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::pgas::{Pgas, took_part};
use clump_rma::{Comparison, Segment, SegmentName, Signal, Target};
use std::cell::Cell;
use std::marker::PhantomData;
use zerocopy::{FromBytes, IntoBytes};

/// A neighbour of a rank in a [`Halo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HaloNeighbour {
    /// The rank that it is; this one, too, where a grid is closed.
    pub rank: usize,
    /// The position, among the neighbours of that rank, of this rank on this side: data given here
    /// arrives there.
    pub entry: usize,
    /// Elements that each gives the other in a round.
    pub len: usize,
}

/// Offsets of a neighbour's parts of a rank's memory: two words for rounds, and a place for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Places {
    words: [u64; 2],
    data: [u64; 2],
}

/// The other side of an exchange, as this rank uses it.
#[derive(Debug)]
struct Side {
    rank: usize,
    target: Target,
    places: Places,
    len: usize,
}

/// An exchange of boundaries between neighbours, in rounds: the halo cells of a grid, for example.
/// Its memory is freed when a rank drops it: let all ranks be done with it before
/// ([`Pgas::barrier`]).
#[derive(Debug)]
pub struct Halo<T> {
    pgas: Pgas,
    own: Segment,
    sides: Vec<Side>,
    /// Places in this rank's memory, by neighbour.
    layout: Vec<Places>,
    round: Cell<u64>,
    of: PhantomData<T>,
}

/// Returns the places of a rank's neighbours, and the bytes of all, by the bytes that each gives.
fn lay_out(bytes: impl ExactSizeIterator<Item = u64>) -> Option<(Vec<Places>, u64)> {
    let mut end = bytes.len() as u64 * 16;
    let mut layout = Vec::with_capacity(bytes.len());
    for (at, bytes) in bytes.enumerate() {
        let place = bytes.checked_next_multiple_of(8)?;
        let second = end.checked_add(place)?;
        let word = at as u64 * 16;
        layout.push(Places { words: [word, word + 8], data: [end, second] });
        end = second.checked_add(place)?;
    }
    // Memory of no bytes cannot be named.
    Some((layout, end.max(8)))
}

impl Pgas {
    /// Prepares an exchange of boundaries with neighbours. A collective; ranks have as many
    /// neighbours as they like, none too. If rank `a` has rank `b` at position `i`, with entry `j`,
    /// then `b` has `a` at position `j`, with entry `i` and the same length.
    ///
    /// # Errors
    /// Fails if neighbours do not agree, at all ranks; if a rank has no memory for it, or if a rank
    /// died or left.
    pub fn halo<T: Element>(&self, neighbours: &[HaloNeighbour]) -> Result<Halo<T>> {
        let bytes_of = |len: usize| (len as u64).saturating_mul(size_of::<T>() as u64);
        let bytes = neighbours.iter().map(|neighbour| bytes_of(neighbour.len));
        let impossible = || Error::from(ErrorKind::DifferentHalos { rank: self.rank() });
        let own = lay_out(bytes).ok_or_else(impossible).and_then(|(layout, bytes)| {
            let own = self.rma().export(bytes)?;
            Ok((own, layout))
        });
        let name = own.as_ref().map_or(0, |(own, _)| own.name().to_bits());
        let mut mine = vec![name];
        for HaloNeighbour { rank, entry, len } in neighbours {
            mine.extend([*rank as u64, *entry as u64, bytes_of(*len)]);
        }
        let all = self.inner.together(|team| team.all_gather_bytes(mine.as_bytes()))?;
        let (own, layout) = took_part(own)?;
        let all: Vec<Vec<u64>> = all.iter().map(|given| words(given)).collect();
        if let Some(rank) = all.iter().position(|given| given.first() == Some(&0)) {
            return Err(ErrorKind::RankFailed { rank }.into());
        }
        // All ranks check all neighbours, so that all fail, or none.
        if let Some(rank) = (0..all.len()).find(|&rank| !agrees(&all, rank)) {
            return Err(ErrorKind::DifferentHalos { rank }.into());
        }
        let sides: Result<Vec<Side>> = neighbours
            .iter()
            .map(|neighbour| {
                let theirs = all.get(neighbour.rank).ok_or_else(impossible)?;
                let name = SegmentName::from_bits(theirs.first().copied().unwrap_or_default());
                let bytes: Vec<u64> = entries(theirs).map(|[_, _, bytes]| bytes).collect();
                let (layout, _) = lay_out(bytes.into_iter()).ok_or_else(impossible)?;
                let places = *layout.get(neighbour.entry).ok_or_else(impossible)?;
                let (rank, target) = (neighbour.rank, self.rma().target(name)?);
                Ok(Side { rank, target, places, len: neighbour.len })
            })
            .collect();
        let (pgas, round, of) = (self.clone(), Cell::new(0), PhantomData);
        Ok(Halo { pgas, own, sides: sides?, layout, round, of })
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).filter_map(|word| u64::read_from_bytes(word).ok()).collect()
}

/// Returns rank, entry and bytes of a rank's neighbours.
fn entries(given: &[u64]) -> impl Iterator<Item = [u64; 3]> + '_ {
    given.get(1..).unwrap_or_default().chunks_exact(3).map(|it| [it[0], it[1], it[2]])
}

/// Returns true if the neighbours of a rank agree with it.
fn agrees(all: &[Vec<u64>], rank: usize) -> bool {
    let given = all.get(rank).map_or(&[][..], Vec::as_slice);
    entries(given).enumerate().all(|(at, [other, entry, bytes])| {
        let theirs = usize::try_from(other).ok().and_then(|other| all.get(other));
        let entry = usize::try_from(entry).unwrap_or(usize::MAX);
        let theirs = theirs.and_then(|theirs| entries(theirs).nth(entry));
        theirs == Some([rank as u64, at as u64, bytes])
    })
}

impl<T: Element> Halo<T> {
    /// Returns the number of neighbours.
    pub fn neighbours(&self) -> usize {
        self.sides.len()
    }

    /// Gives each neighbour its boundary, and writes what each gave in this round into the halo
    /// cells; both by position. Returns when all neighbours' are there: ranks that are no
    /// neighbours are not waited for.
    ///
    /// # Errors
    /// Fails if a slice has not the agreed length, before anything is sent; if a store is refused
    /// on this node, or if a rank is lost, and survivors do not continue. On another node,
    /// [`Pgas::sync`] reports a refusal.
    pub fn exchange(&self, boundaries: &[&[T]], ghosts: &mut [&mut [T]]) -> Result<()> {
        let counted = |given| ErrorKind::WrongLength { given, wanted: self.sides.len() };
        if boundaries.len() != self.sides.len() || ghosts.len() != self.sides.len() {
            return Err(counted(boundaries.len().min(ghosts.len())).into());
        }
        for (side, (boundary, ghost)) in self.sides.iter().zip(boundaries.iter().zip(&*ghosts)) {
            for given in [boundary.len(), ghost.len()] {
                if given != side.len {
                    return Err(ErrorKind::WrongLength { given, wanted: side.len }.into());
                }
            }
        }
        let round = self.round.get() + 1;
        self.round.set(round);
        let turn = (round % 2) as usize;
        for (side, boundary) in self.sides.iter().zip(boundaries) {
            debug_assert!(side.rank < self.pgas.nranks(), "a rank of the job");
            let (segment, offset) = (side.target.name(), side.places.words[turn]);
            let signal = Signal { segment, offset, value: round, adds: false };
            side.target.put_signal(side.places.data[turn], boundary.as_bytes(), signal)?;
        }
        self.pgas.inner.wait(|| {
            for (places, ghost) in self.layout.iter().zip(ghosts.iter_mut()) {
                self.own.wait_until(places.words[turn], Comparison::AtLeast, round)?;
                self.own.get_bytes(places.data[turn], ghost.as_mut_bytes())?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{agrees, lay_out};

    #[test]
    fn words_and_places_do_not_overlap() {
        let (layout, bytes) = lay_out([5, 0, 16].into_iter()).unwrap();
        let data: Vec<_> = layout.iter().map(|places| places.data).collect();
        assert_eq!(data, [[48, 56], [64, 64], [64, 80]]);
        assert_eq!(layout[2].words, [32, 40]);
        assert_eq!(bytes, 96);
        assert_eq!(lay_out([].into_iter()).unwrap().1, 8);
        assert!(lay_out([u64::MAX].into_iter()).is_none());
    }

    #[test]
    fn neighbours_that_do_not_name_each_other_disagree() {
        // A ring of two, closed over both sides.
        let ring = [vec![9, 1, 1, 8, 1, 0, 8], vec![9, 0, 1, 8, 0, 0, 8]];
        assert!(agrees(&ring, 0) && agrees(&ring, 1));
        let other_length = [vec![9, 1, 0, 8], vec![9, 0, 0, 16]];
        assert!(!agrees(&other_length, 0));
        let nobody = [vec![9, 7, 0, 8]];
        assert!(!agrees(&nobody, 0));
    }
}
