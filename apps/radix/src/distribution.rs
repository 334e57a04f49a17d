//! Distribution: every key goes to its place in the whole array.

use crate::ranking::{DIGITS, DigitPlaces};
use anyhow::Result;
use clump::pgas::Spread;
use clump::{Clump, Sum};
use clump_app_frame::{Manner, Traffic};

/// Returns the digit of a key in a pass.
#[inline]
pub fn digit(key: u32, pass: u32) -> usize {
    (key >> (16 * pass)) as usize & (DIGITS - 1)
}

/// Sorts keys by a digit; equal ones stay in their order. By one half of the digit after the other:
/// so many places as a digit has values would each be in a page of its own.
fn sort_by_digit(keys: &mut Vec<u32>, pass: u32) {
    let mut other = vec![0; keys.len()];
    for half in 0..2 {
        let value = |key: u32| (digit(key, pass) >> (8 * half)) & 0xff;
        let mut next = [0_usize; 256];
        keys.iter().for_each(|&key| next[value(key)] += 1);
        let mut before = 0;
        next.iter_mut().for_each(|place| before += std::mem::replace(place, before));
        for &key in keys.iter() {
            let place = &mut next[value(key)];
            other[*place] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut other);
    }
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
    let mut stored = vec![0; to.pgas().nranks()];
    let block = to.layout().block();
    for &key in keys {
        let place = &mut next[digit(key, pass)];
        let at = to.at(*place as usize);
        match manner {
            Manner::Aggregated => at.store(key)?,
            Manner::Single => at.now().store(key)?,
            Manner::Blocking => at.write(key)?,
        }
        stored[*place as usize / block] += 1;
        *place += 1;
    }
    stored.iter().enumerate().for_each(|(rank, &count)| traffic.writes(rank, count, 4));
    Ok(to.pgas().all_store_sync()?)
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
    let mut next: Vec<_> = places.begins.iter().zip(&places.before).map(|(a, b)| a + b).collect();
    // About as many for each rank; exactly as many would take another look at all keys.
    let room = keys.len() / cl.nranks() * 9 / 8;
    let mut parts: Vec<_> = (0..cl.nranks()).map(|_| Vec::with_capacity(room)).collect();
    for &key in keys {
        let place = &mut next[digit(key, pass)];
        parts[*place as usize / block].push(key);
        *place += 1;
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

    // All keys of these places are here, in the order of ranks: a sort that keeps it places them.
    let mut keys = inbox.local().to_vec()?;
    sort_by_digit(&mut keys, pass);
    to.local().copy_from(0, &keys)?;
    Ok(gas.all_store_sync()?)
}

#[cfg(test)]
mod tests {
    use super::{digit, sort_by_digit};
    use clump_app_frame::random::Random;

    #[test]
    fn keys_are_in_the_order_of_a_digit_and_otherwise_in_theirs() {
        for (pass, count) in [(0, 0), (0, 1), (0, 30_000), (1, 30_000)] {
            let mut random = Random::from(7, pass.into());
            // Few values of each digit: many keys are equal in it.
            let mut keys: Vec<u32> =
                (0..count).map(|_| random.number() as u32 & 0x0301_0705).collect();
            let mut expected = keys.clone();
            expected.sort_by_key(|&key| digit(key, pass));
            sort_by_digit(&mut keys, pass);
            assert_eq!(keys, expected);
        }
    }
}
