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
    let mut parts = vec![Vec::new(); cl.nranks()];
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

    let first = (cl.rank() * block) as u64;
    let mut next: Vec<u64> = places.begins.iter().map(|&begin| begin.max(first)).collect();
    let local = to.local();
    for key in inbox.local().to_vec()? {
        let place = &mut next[digit(key, pass)];
        local.set((*place - first) as usize, key)?;
        *place += 1;
    }
    Ok(gas.all_store_sync()?)
}
