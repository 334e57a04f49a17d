//! Ranges of a global array: one transfer for each rank that has elements of it.

use crate::typed::Typed;
use clump::pgas::{GlobalPtr, GlobalResult, Layout, Pgas, SpreadLayout};
use std::ops::Range;

/// A range of elements of an array with that layout, of `size` bytes each.
pub(crate) struct Run<'a> {
    pub(crate) typed: &'a Typed,
    pub(crate) pgas: &'a Pgas,
    pub(crate) layout: SpreadLayout,
    pub(crate) size: usize,
    pub(crate) range: Range<usize>,
}

impl Run<'_> {
    /// Returns the number of elements before `end` at a rank.
    fn before(&self, end: usize, rank: usize) -> usize {
        let layout = Layout::BlockCyclic(self.layout.block());
        let part = SpreadLayout::new(end, layout, self.pgas.nranks());
        part.map_or(0, |part| part.count(rank))
    }

    /// Returns the bytes of the range at a rank: where they are, and how many.
    fn part(&self, rank: usize) -> Option<(GlobalPtr<u8>, usize)> {
        let begin = self.before(self.range.start, rank);
        let elements = self.before(self.range.end, rank) - begin;
        if elements == 0 {
            return None;
        }
        let at = self.typed.part(rank)?.offset_by((begin * self.size) as isize);
        Some((at, elements * self.size))
    }

    /// Calls `each` with the rank and the bytes of each block of the range, in order.
    fn blocks(&self, mut each: impl FnMut(usize, Range<usize>)) {
        let block = self.layout.block();
        let mut index = self.range.start;
        while index < self.range.end {
            let Some(place) = self.layout.place(index) else { return };
            let end = (index + block - index % block).min(self.range.end);
            let bytes = |index: usize| (index - self.range.start) * self.size;
            each(place.rank, bytes(index)..bytes(end));
            index = end;
        }
    }

    /// Returns true if each rank has one block of the range at most, in the order of ranks or after
    /// it.
    fn is_direct(&self) -> bool {
        let block = self.layout.block();
        let first = self.range.start / block;
        let blocks = self.range.end.div_ceil(block) - first;
        blocks <= self.pgas.nranks()
    }

    /// Reads the range.
    pub(crate) fn get(&self, to: &mut [u8]) -> GlobalResult<()> {
        if self.is_direct() {
            return self.get_direct(to);
        }
        let parts: Vec<_> = (0..self.pgas.nranks()).map(|rank| self.part(rank)).collect();
        let mut bytes: Vec<Vec<u8>> =
            parts.iter().map(|part| vec![0; part.as_ref().map_or(0, |part| part.1)]).collect();
        self.pgas.phase(|phase| {
            for (part, to) in parts.iter().zip(&mut bytes) {
                if let Some((at, _)) = part {
                    phase.bulk_get(*at, to)?;
                }
            }
            Ok(())
        })?;
        let mut taken = vec![0; bytes.len()];
        self.blocks(|rank, place| {
            let begin = taken[rank];
            taken[rank] += place.len();
            if let (Some(to), Some(from)) =
                (to.get_mut(place.clone()), bytes[rank].get(begin..begin + place.len()))
            {
                to.copy_from_slice(from);
            }
        });
        Ok(())
    }

    fn get_direct(&self, mut to: &mut [u8]) -> GlobalResult<()> {
        let mut blocks = Vec::new();
        self.blocks(|rank, place| {
            let rest = std::mem::take(&mut to);
            let (block, rest) = rest.split_at_mut(place.len().min(rest.len()));
            to = rest;
            blocks.push((rank, block));
        });
        self.pgas.phase(|phase| {
            for (rank, block) in blocks {
                if let Some((at, bytes)) = self.part(rank) {
                    debug_assert_eq!(bytes, block.len(), "one block at each rank");
                    phase.bulk_get(at, block)?;
                }
            }
            Ok(())
        })
    }

    /// Begins to write the range.
    pub(crate) fn put(&self, from: &[u8]) -> GlobalResult<()> {
        let mut bytes = vec![Vec::new(); self.pgas.nranks()];
        let direct = self.is_direct();
        let mut result = Ok(());
        self.blocks(|rank, place| {
            let Some(block) = from.get(place) else { return };
            match (direct, self.part(rank)) {
                (true, Some((at, _))) if result.is_ok() => result = self.pgas.bulk_put(at, block),
                (true, _) => {}
                (false, _) => bytes[rank].extend_from_slice(block),
            }
        });
        result?;
        for (rank, block) in bytes.iter().enumerate().filter(|(_, block)| !block.is_empty()) {
            if let Some((at, _)) = self.part(rank) {
                self.pgas.bulk_put(at, block)?;
            }
        }
        Ok(())
    }
}
