//! Distribution: every key is stored at its place in the whole array.

use crate::radix::ranking::{DIGITS, DigitPlaces};
use crate::run::Manner;
use crate::traffic::Traffic;
use anyhow::Result;
use clump::pgas::Spread;
use clump::{Clump, Sum};
use std::collections::HashMap;

/// Keys that are taken from the inbox at a time.
const TAKEN: usize = 4096;

/// Returns the digit of a key in a pass.
#[inline]
pub fn digit(key: u32, pass: u32) -> usize {
    (key >> (16 * pass)) as usize & (DIGITS - 1)
}

/// Owner of a digit whose places are at several ranks.
const SEVERAL: u32 = u32::MAX;

/// Returns for each digit the rank at which all places of its keys are, of `count` in all and
/// `block` at a rank.
fn owners(begins: &[u64], count: usize, block: usize) -> Vec<u32> {
    let ends = begins.iter().skip(1).copied().chain([count as u64]);
    let owner = |place: u64| (place as usize / block.max(1)) as u32;
    let of = |(&begin, end): (&u64, u64)| match owner(begin) {
        first if end <= begin || owner(end - 1) == first => first,
        _ => SEVERAL,
    };
    begins.iter().zip(ends).map(of).collect()
}

/// Stores every key by itself.
///
/// # Errors
/// Fails if a rank is lost.
pub fn by_key(
    keys: &[u32],
    pass: u32,
    places: &DigitPlaces,
    to: &Spread<u32>,
    (manner, traffic): (Manner, &mut Traffic),
) -> Result<()> {
    let mut next: Vec<_> = places.begins.iter().zip(&places.before).map(|(a, b)| a + b).collect();
    let begins = next.clone();
    for &key in keys {
        let place = &mut next[digit(key, pass)];
        let at = to.at(*place as usize);
        match manner {
            Manner::Aggregated => at.store(key)?,
            Manner::Single => at.now().store(key)?,
            Manner::Blocking => at.write(key)?,
        }
        *place += 1;
    }
    let stored = stored(begins.iter().zip(&next), to.layout().block() as u64, to.pgas().nranks());
    stored.iter().enumerate().for_each(|(rank, &count)| traffic.writes(rank, count, 4));
    Ok(to.pgas().all_store_sync()?)
}

/// Returns the number of places at each rank, of ranges of places, `block` at a rank.
fn stored<'a>(
    ranges: impl Iterator<Item = (&'a u64, &'a u64)>,
    block: u64,
    ranks: usize,
) -> Vec<u64> {
    let mut counts = vec![0; ranks];
    for (&begin, &end) in ranges {
        let mut place = begin;
        while place < end {
            let rank = place / block;
            let next = end.min((rank + 1) * block);
            counts[rank as usize] += next - place;
            place = next;
        }
    }
    counts
}

/// Sends each rank the keys whose places are there, in one message, and puts those that come to
/// their places. Messages hold keys alone: what is stored here is in the order of ranks, so the
/// places of each digit follow one another.
///
/// # Errors
/// Fails if a rank is lost.
pub fn in_bulk(
    cl: &Clump,
    keys: &[u32],
    pass: u32,
    places: &DigitPlaces,
    (inbox, to): (&Spread<u32>, &Spread<u32>),
    traffic: &mut Traffic,
) -> Result<()> {
    let gas = to.pgas();
    let block = to.layout().block();
    let first_of = |digit: usize| places.begins[digit] + places.before[digit];
    // About as many for each rank; exactly as many would take another look at all keys.
    let room = keys.len() / cl.nranks() * 9 / 8;
    let mut parts: Vec<_> = (0..cl.nranks()).map(|_| Vec::with_capacity(room)).collect();
    let owners = owners(&places.begins, to.len(), block);
    let mut next: HashMap<usize, u64> = HashMap::new();
    for &key in keys {
        let digit = digit(key, pass);
        let owner = match owners[digit] {
            SEVERAL => {
                let place = next.entry(digit).or_insert_with(|| first_of(digit));
                *place += 1;
                (*place - 1) as usize / block
            }
            owner => owner as usize,
        };
        parts[owner].push(key);
    }
    // Keys of the ranks before this one come first.
    let mut begins: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
    cl.exclusive_scan_slice(&mut begins, Sum)?;
    if cl.rank() == 0 {
        begins.fill(0);
    }
    for (rank, (part, &begin)) in parts.iter().zip(&begins).enumerate() {
        if let Some(at) = inbox.on(rank).filter(|_| !part.is_empty()) {
            gas.bulk_store(at.offset_by(begin as isize), part)?;
            traffic.bulk(rank, part.len() as u64 * 4);
        }
    }
    gas.store_sync(inbox.local().len() * size_of::<u32>())?;

    let first = (cl.rank() * block) as u64;
    // Places of this rank, which are fewer than 2^32.
    let here = |begin: u64| u32::try_from(begin.saturating_sub(first)).unwrap_or(u32::MAX);
    let mut next: Vec<u32> = places.begins.iter().map(|&begin| here(begin)).collect();
    let (got, local) = (inbox.local(), to.local());
    let mut piece = [0; TAKEN];
    for begin in (0..got.len()).step_by(TAKEN) {
        let piece = &mut piece[..TAKEN.min(got.len() - begin)];
        got.copy_to(begin, piece)?;
        for &mut key in piece {
            let place = &mut next[digit(key, pass)];
            local.set(*place as usize, key)?;
            *place += 1;
        }
    }
    Ok(gas.all_store_sync()?)
}

#[cfg(test)]
mod tests {
    use super::{SEVERAL, owners, stored};

    #[test]
    fn digits_whose_places_are_at_several_ranks_have_no_owner() {
        // Places 0 and 1, 2 to 6, none, 7 to 9; three at each rank.
        assert_eq!(owners(&[0, 2, 7, 7], 10, 3), [0, SEVERAL, 2, SEVERAL]);
        assert_eq!(owners(&[0, 1, 2], 3, 1), [0, 1, 2]);
        assert_eq!(owners(&[0, 0], 0, 0), [0, 0]);
    }

    #[test]
    fn places_are_counted_at_their_ranks() {
        let (begins, ends) = ([0, 2, 7, 9], [2, 7, 7, 10]);
        assert_eq!(stored(begins.iter().zip(&ends), 3, 4), [3, 3, 1, 1]);
    }
}
