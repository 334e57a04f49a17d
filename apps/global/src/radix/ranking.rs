//! Places of digits: the counts of all ranks, added up in a ring.
//!
//! Rank by rank, counts of a digit are added to those of the ranks before, and the sums passed on,
//! piece by piece, so that ranks work on different pieces at a time. The last rank adds up digits,
//! and the sums are passed round in the same way. The time of both is proportional to the number of
//! digits, and grows with the number of ranks: the serial part of this sort (paper 001, section
//! 5.1).

use crate::traffic::Traffic;
use anyhow::Result;
use clump::pgas::{Layout, Pgas, Spread};

/// Digits of a pass.
pub const DIGITS: usize = 1 << 16;
/// Digits that are passed on together.
const PIECE: usize = 1 << 12;

/// The places of this rank's keys, by digit.
#[derive(Debug)]
pub struct DigitPlaces {
    /// Place of the first key of a digit, of any rank.
    pub begins: Vec<u64>,
    /// Keys of a digit at the ranks before this one.
    pub before: Vec<u64>,
}

/// The words that ranks pass on.
#[derive(Debug)]
pub struct Ring {
    /// Sums of counts of the ranks before, by digit.
    sums: Spread<u64>,
    /// First places, by digit.
    firsts: Spread<u64>,
}

impl Ring {
    /// Spreads the words. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn new(gas: &Pgas) -> Result<Self> {
        let spread = || gas.spread(DIGITS * gas.nranks(), Layout::Block);
        Ok(Self { sums: spread()?, firsts: spread()? })
    }

    /// Finds the places of keys from the counts of all ranks' digits. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn places(&self, counts: &[u64], traffic: &mut Traffic) -> Result<DigitPlaces> {
        let gas = self.sums.pgas();
        let (me, last) = (gas.rank(), gas.nranks() - 1);
        let mut before = vec![0; DIGITS];
        let mut totals = vec![0; DIGITS];
        for piece in pieces() {
            if me > 0 {
                receive(&self.sums, &mut before, piece.clone())?;
            }
            for digit in piece.clone() {
                totals[digit] = before[digit] + counts[digit];
            }
            if me < last {
                pass_on(&self.sums, me + 1, &totals, piece, traffic)?;
            }
        }
        let mut begins = vec![0; DIGITS];
        if me == last {
            let mut sum = 0;
            for (begin, total) in begins.iter_mut().zip(&totals) {
                *begin = sum;
                sum += total;
            }
        }
        for piece in pieces() {
            if me != last {
                receive(&self.firsts, &mut begins, piece.clone())?;
            }
            let next = if me == last { 0 } else { me + 1 };
            if next != last {
                pass_on(&self.firsts, next, &begins, piece, traffic)?;
            }
        }
        // What comes next is stored too, and counted.
        gas.all_store_sync()?;
        Ok(DigitPlaces { begins, before })
    }
}

fn pieces() -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..DIGITS).step_by(PIECE).map(|begin| begin..begin + PIECE)
}

/// Stores a piece, word by word, at the next rank.
fn pass_on(
    to: &Spread<u64>,
    rank: usize,
    words: &[u64],
    piece: std::ops::Range<usize>,
    traffic: &mut Traffic,
) -> Result<()> {
    traffic.writes(rank, piece.len() as u64, 8);
    for digit in piece {
        to.at(rank * DIGITS + digit).store(words[digit])?;
    }
    Ok(to.pgas().flush()?)
}

/// Waits for a piece. All that is stored here in a ring comes from one rank, which counts its bytes
/// in order, so as many as have been counted are there.
fn receive(from: &Spread<u64>, words: &mut [u64], piece: std::ops::Range<usize>) -> Result<()> {
    from.pgas().store_sync(piece.len() * size_of::<u64>())?;
    let local = from.local();
    for digit in piece {
        words[digit] = local.get(digit)?;
    }
    Ok(())
}
