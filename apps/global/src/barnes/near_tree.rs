//! Private copies of the cells and bodies of this node's ranks, for the walks of a step: a walk
//! finds them by number in one array, as the serial version does.

use anyhow::Result;
use clump::pgas::{Element, Pgas, Spread};
use clump_app_frame::barnes::moments::CellMoments;
use clump_app_frame::barnes::walk::OctantWord;

/// Copies of the elements of ranks that follow each other, by their numbers in global memory.
#[derive(Debug, Default)]
pub struct NearPart<T> {
    /// Number of the first one.
    first: usize,
    copies: Vec<T>,
}

impl<T: Element> NearPart<T> {
    /// Returns the copy of an element, if it is one of these ranks.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        self.copies.get(number.wrapping_sub(self.first))
    }

    /// Copies the first `counts` elements of each of these ranks, which have equal parts of the
    /// array.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn copy(
        &mut self,
        gas: &Pgas,
        array: &Spread<T>,
        (first_rank, counts): (usize, &[usize]),
    ) -> Result<()> {
        let per_rank = array.len() / gas.nranks();
        debug_assert!(counts.iter().all(|count| *count <= per_rank), "parts of ranks");
        self.first = first_rank * per_rank;
        if self.copies.len() != counts.len() * per_rank {
            // Pages that are not written take no memory.
            self.copies = vec![T::new_zeroed(); counts.len() * per_rank];
        }
        for (at, count) in counts.iter().enumerate() {
            let to = self.copies.get_mut(at * per_rank..at * per_rank + count);
            if let (Some(from), Some(to)) = (array.on(first_rank + at), to) {
                gas.bulk_get(from, to)?;
            }
        }
        Ok(())
    }

    /// Forgets all copies.
    pub fn clear(&mut self) {
        self.first = usize::MAX / 2;
    }
}

/// The tree of this node's ranks.
#[derive(Debug, Default)]
pub struct NearTree {
    /// Parts of cells.
    pub octants: NearPart<[OctantWord; 8]>,
    /// Sums of cells.
    pub moments: NearPart<CellMoments>,
    /// Places, masses and costs of bodies.
    pub leaves: NearPart<[f64; 5]>,
}

impl NearTree {
    /// Forgets all copies: elements may change.
    pub fn clear(&mut self) {
        self.octants.clear();
        self.moments.clear();
        self.leaves.clear();
    }
}
