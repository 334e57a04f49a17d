//! Passes over the keys.

use clump::svm::{Home, SharedArray, Svm};
use std::ops::Range;

/// Keys, from and to which passes store them, and the counts of all ranks.
#[derive(Debug)]
pub struct Passes {
    svm: Svm,
    keys: [SharedArray<u32>; 2],
    /// A block of digits for each rank.
    counts: SharedArray<u64>,
    digit_bits: u32,
}

impl Passes {
    /// Allocates room for `count` keys. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, count: usize, digit_bits: u32) -> clump::Result<Self> {
        debug_assert!((1..=16).contains(&digit_bits), "a digit is part of a key");
        let keys = [svm.array(count, Home::Block)?, svm.array(count, Home::Block)?];
        let counts = svm.array(svm.nranks() << digit_bits, Home::Block)?;
        Ok(Self { svm: svm.clone(), keys, counts, digit_bits })
    }

    /// Returns the number of passes.
    pub fn count(&self) -> u32 {
        u32::BITS.div_ceil(self.digit_bits)
    }

    /// Returns the keys, where the last pass has left them.
    pub fn sorted(&self) -> &SharedArray<u32> {
        &self.keys[self.count() as usize % 2]
    }

    /// Stores the keys of this rank, to be sorted.
    pub fn fill(&self, key: impl Fn(usize) -> u32) {
        let own = self.keys[0].own_block();
        let keys: Vec<u32> = own.clone().map(key).collect();
        self.keys[0].write(own.start, &keys);
    }

    fn digits(&self) -> usize {
        1 << self.digit_bits
    }

    fn digit(&self, key: u32, pass: u32) -> usize {
        (key >> (pass * self.digit_bits)) as usize & (self.digits() - 1)
    }

    /// Makes a pass; a barrier ends it.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn pass(&self, pass: u32, local: bool) -> clump::Result<()> {
        let (from, to) = (&self.keys[pass as usize % 2], &self.keys[(pass as usize + 1) % 2]);
        let own = from.own_block();
        let mut keys = vec![0; own.len()];
        from.read(own.start, &mut keys);
        let mut counts = vec![0_u64; self.digits()];
        keys.iter().for_each(|&key| counts[self.digit(key, pass)] += 1);
        self.counts.write(self.svm.rank() * self.digits(), &counts);
        self.svm.barrier()?;
        let places = self.places();
        if local {
            self.store_runs(to, &keys, &counts, (pass, places));
        } else {
            let mut places = places;
            for &key in &keys {
                let place = &mut places[self.digit(key, pass)];
                to.set(*place as usize, key);
                *place += 1;
            }
        }
        self.svm.barrier()?;
        Ok(())
    }

    /// Returns the place of this rank's first key of each digit.
    fn places(&self) -> Vec<u64> {
        let digits = self.digits();
        let mut before = vec![0_u64; digits];
        let mut all = vec![0_u64; digits];
        let mut counts = vec![0_u64; digits];
        for rank in 0..self.svm.nranks() {
            self.counts.read(rank * digits, &mut counts);
            if rank < self.svm.rank() {
                before.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
            }
            all.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
        }
        let mut first = 0;
        for (before, all) in before.iter_mut().zip(all) {
            *before += first;
            first += all;
        }
        before
    }

    /// Stores keys in runs of equal digits.
    fn store_runs(
        &self,
        to: &SharedArray<u32>,
        keys: &[u32],
        counts: &[u64],
        (pass, places): (u32, Vec<u64>),
    ) {
        let mut sorted = vec![0; keys.len()];
        let mut next: Vec<usize> = counts
            .iter()
            .scan(0, |first, &count| {
                let begin = *first;
                *first += count as usize;
                Some(begin)
            })
            .collect();
        let runs: Vec<Range<usize>> =
            next.iter().zip(counts).map(|(&at, &count)| at..at + count as usize).collect();
        for &key in keys {
            let at = &mut next[self.digit(key, pass)];
            sorted[*at] = key;
            *at += 1;
        }
        for (run, place) in runs.into_iter().zip(places).filter(|(run, _)| !run.is_empty()) {
            to.write(place as usize, &sorted[run]);
        }
    }
}
