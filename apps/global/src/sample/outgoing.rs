//! Keys of a rank by their owners, and the ways to bring them there.

use crate::run::Manner;
use crate::sample::splitters::Splitters;
use crate::traffic::Traffic;
use anyhow::Result;
use clump::pgas::Spread;

/// Keys on their way: the owner of each, or those of each owner.
#[derive(Debug)]
pub enum OutgoingKeys<'k> {
    /// Each key is stored by itself.
    Single(&'k [u32], Vec<u32>, Manner),
    /// Keys of one owner are stored at once.
    Packed(Vec<Vec<u32>>),
}

impl<'k> OutgoingKeys<'k> {
    /// Finds the owners of `keys`, the first of which has index `first`, of `ranks` ranks; packed
    /// without a manner. Returns the number of keys for each owner, too.
    pub fn of(
        keys: &'k [u32],
        first: u64,
        (splitters, ranks): (&Splitters, usize),
        manner: Option<Manner>,
    ) -> (Self, Vec<u64>) {
        let owners = keys.iter().zip(first..).map(|(&key, index)| splitters.rank(key, index));
        let mut counts = vec![0; ranks];
        let Some(manner) = manner else {
            let room = keys.len() / ranks * 9 / 8;
            let mut parts: Vec<_> = (0..ranks).map(|_| Vec::with_capacity(room)).collect();
            keys.iter().zip(owners).for_each(|(&key, owner)| parts[owner].push(key));
            counts.iter_mut().zip(&parts).for_each(|(count, part)| *count = part.len() as u64);
            return (Self::Packed(parts), counts);
        };
        let count = |owner: usize| {
            counts[owner] += 1;
            owner as u32
        };
        (Self::Single(keys, owners.map(count).collect(), manner), counts)
    }

    /// Stores the keys, `longest` places for each owner, from the place in `begins` on.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn store(
        &self,
        to: &Spread<u32>,
        (longest, begins): (usize, &[u64]),
        traffic: &mut Traffic,
    ) -> Result<()> {
        let mut next: Vec<_> = begins.iter().map(|&begin| begin as usize).collect();
        match self {
            Self::Single(keys, owners, manner) => {
                for (&key, &owner) in keys.iter().zip(owners) {
                    let owner = owner as usize;
                    store(to, owner * longest + next[owner], key, *manner)?;
                    next[owner] += 1;
                }
                let counts = next.iter().zip(begins).map(|(&next, &begin)| next as u64 - begin);
                counts.enumerate().for_each(|(rank, count)| traffic.writes(rank, count, 4));
            }
            Self::Packed(parts) => {
                for (rank, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                    if let Some(at) = to.on(rank) {
                        to.pgas().bulk_store(at.offset_by(begins[rank] as isize), part)?;
                        traffic.bulk(rank, size_of_val(&part[..]) as u64);
                    }
                }
            }
        }
        Ok(())
    }
}

fn store(to: &Spread<u32>, place: usize, key: u32, manner: Manner) -> clump::Result<()> {
    match manner {
        Manner::Aggregated => to.at(place).store(key)?,
        Manner::Single => to.at(place).now().store(key)?,
        Manner::Blocking => {
            to.at(place).store(key)?;
            to.pgas().sync()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_have_the_same_owners() {
        let keys: Vec<u32> = (0..1000_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let samples = (1..40_u64).map(|n| n << 58 >> 1).collect();
        let splitters = Splitters::of(samples, 3);
        let of = |manner| OutgoingKeys::of(&keys, 5, (&splitters, 3), manner);
        let (single, counts) = of(Some(Manner::Aggregated));
        let (packed, packed_counts) = of(None);
        assert_eq!(counts, packed_counts);
        let (OutgoingKeys::Single(_, owners, _), OutgoingKeys::Packed(parts)) = (single, packed)
        else {
            panic!("as requested")
        };
        for (rank, part) in parts.iter().enumerate() {
            let own = keys.iter().zip(&owners).filter(|&(_, &owner)| owner as usize == rank);
            assert!(own.map(|(key, _)| key).eq(part), "{rank}");
        }
    }
}
