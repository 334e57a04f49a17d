//! Vector forms: one call for many elements, by a slice of their indexes.

use crate::element::{AtomicElement, Element, from_word};
use crate::error::{ErrorKind, Result};
use crate::layout::ElementPlace;
use crate::spread::Spread;

/// Elements of a gather that are requested together.
const GATHERED: usize = 1 << 16;

impl<T: AtomicElement> Spread<T> {
    /// Begins to add `value` to each of these elements, as often as it is named.
    ///
    /// # Errors
    /// Fails if one does not exist: then some have been begun.
    pub fn scatter_add(&self, indexes: &[usize], value: T) -> Result<()> {
        indexes.iter().try_for_each(|&index| self.at(index).add(value))
    }
}

impl<T: Element> Spread<T> {
    /// Begins to write each of these elements.
    ///
    /// # Errors
    /// Fails if there is not one value for each, or if one does not exist: then some have been
    /// begun.
    pub fn scatter(&self, indexes: &[usize], values: &[T]) -> Result<()> {
        same(indexes.len(), values.len())?;
        indexes.iter().zip(values).try_for_each(|(&index, &value)| self.at(index).put(value))
    }

    /// Reads each of these elements into its place in `to`.
    ///
    /// # Errors
    /// Fails if `to` has not a place for each, if one does not exist, or is refused, or if a node
    /// or rank is lost. Then the contents of `to` are unspecified.
    pub fn gather(&self, indexes: &[usize], to: &mut [T]) -> Result<()> {
        same(indexes.len(), to.len())?;
        let size = size_of::<T>();
        let words = size.is_power_of_two() && size <= 8;
        if !words || !self.pgas().inner.aggregates() {
            let mut places = indexes.iter().zip(to);
            let pgas = self.pgas();
            return pgas.phase(|ph| places.try_for_each(|(&i, to)| ph.get(self.at(i).now(), to)));
        }
        let mut chunks = indexes.chunks(GATHERED).zip(to.chunks_mut(GATHERED));
        chunks.try_for_each(|(indexes, to)| self.gather_chunk(indexes, to))
    }

    /// Reads elements that are words or parts of words, sorted by rank.
    fn gather_chunk(&self, indexes: &[usize], to: &mut [T]) -> Result<()> {
        let size = size_of::<T>() as u64;
        let mut by_rank = vec![RankWords::default(); self.pgas().nranks()];
        for (place, &index) in indexes.iter().enumerate() {
            let missing = || ErrorKind::NoSuchElement { index, len: self.len() };
            let found = self.layout().place(index).ok_or_else(missing)?;
            let ElementPlace { rank, local } = found;
            let offset = local as u64 * size;
            let part = self.part(rank).filter(|part| part.target.is_near());
            match (part, u32::try_from(offset / 8)) {
                (None, Ok(word)) => {
                    if let Some(words) = by_rank.get_mut(rank) {
                        words.indexes.push(word);
                        words.places.push((place, offset as u32 % 8 * 8));
                    }
                }
                // Of this node, or further on than an index reaches.
                _ => {
                    if let Some(to) = to.get_mut(place) {
                        *to = self.at(index).read()?;
                    }
                }
            }
        }
        let mut words: Vec<_> = by_rank.iter().map(|rank| vec![0; rank.indexes.len()]).collect();
        let inner = &self.pgas().inner;
        inner.wait(|| {
            Ok(inner.rma.phase(|phase| {
                let far = by_rank.iter().zip(&mut words).enumerate();
                for (rank, (wanted, words)) in far.filter(|(_, (_, words))| !words.is_empty()) {
                    if let Some(part) = self.part(rank) {
                        phase.get_many(&part.target, 0, &wanted.indexes, words)?;
                    }
                }
                Ok(())
            })?)
        })?;
        for (wanted, words) in by_rank.iter().zip(&words) {
            for (&(place, shift), word) in wanted.places.iter().zip(words) {
                if let Some(to) = to.get_mut(place) {
                    *to = from_word(word >> shift);
                }
            }
        }
        Ok(())
    }
}

/// Words requested from one rank, and their destinations by place and bits.
#[derive(Debug, Clone, Default)]
struct RankWords {
    indexes: Vec<u32>,
    places: Vec<(usize, u32)>,
}

fn same(wanted: usize, given: usize) -> Result<()> {
    if wanted == given { Ok(()) } else { Err(ErrorKind::WrongLength { given, wanted }.into()) }
}
