//! Vector forms: one call for many elements, by a slice of their indexes.

use crate::element::{AtomicElement, Element, from_word};
use crate::error::{ErrorKind, Result};
use crate::global_ref::GlobalRef;
use crate::spread::Spread;

/// Elements of a gather that are requested together.
const GATHERED: usize = 1 << 16;

/// Elements whose memory is fetched ahead of their turn: as many as a processor has in flight.
const AHEAD: usize = 16;

impl<T: AtomicElement> Spread<T> {
    /// Begins to add `value` to each of these elements, as often as it is named.
    ///
    /// # Errors
    /// Fails if one does not exist: then some have been begun.
    pub fn scatter_add(&self, indexes: &[usize], value: T) -> Result<()> {
        self.each(indexes, |_, element| element.add(value))
    }
}

impl<T: Element> Spread<T> {
    /// Calls `run` with the position of each index, and its element, which it is to change. Faster
    /// than a loop with [`Spread::at`], because lines of this node's memory come ahead of their
    /// turn.
    ///
    /// # Errors
    /// Those of `run`: the first ends it.
    #[inline(always)]
    pub fn each(
        &self,
        indexes: &[usize],
        run: impl FnMut(usize, GlobalRef<'_, T>) -> Result<()>,
    ) -> Result<()> {
        self.each_ahead(indexes, true, run)
    }

    #[inline(always)]
    fn each_ahead(
        &self,
        indexes: &[usize],
        for_write: bool,
        mut run: impl FnMut(usize, GlobalRef<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let layout = self.layout();
        let fetched = |index: &usize| {
            let place = layout.place(*index);
            debug_assert!(
                place.is_none_or(|it| it.local < layout.count(it.rank)),
                "a place is one of its rank's"
            );
            if let Some((part, place)) = place.and_then(|it| Some((self.part(it.rank)?, it))) {
                part.target.prefetch(place.local as u64 * size_of::<T>() as u64, for_write);
            }
            place
        };
        let mut places = [None; AHEAD];
        for (place, index) in places.iter_mut().zip(indexes) {
            *place = fetched(index);
        }
        let next = indexes.iter().skip(AHEAD).map(Some).chain(std::iter::repeat(None));
        for ((position, &index), next) in indexes.iter().enumerate().zip(next) {
            let Some(turn) = places.get_mut(position % AHEAD) else { break };
            debug_assert_eq!(*turn, layout.place(index), "what was fetched is what is due");
            let place = std::mem::replace(turn, next.and_then(fetched));
            run(position, self.at_place(index, place))?;
        }
        Ok(())
    }

    /// Begins to write each of these elements.
    ///
    /// # Errors
    /// Fails if there is not one value for each, or if one does not exist: then some have been
    /// begun.
    pub fn scatter(&self, indexes: &[usize], values: &[T]) -> Result<()> {
        same(indexes.len(), values.len())?;
        self.each(indexes, |position, element| {
            values.get(position).map_or(Ok(()), |&value| element.put(value))
        })
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
        let mut by_rank = vec![RankWords::default(); self.pgas().nranks()];
        self.each_ahead(indexes, false, |place, element| {
            let (part, offset) = (element.peer()?, element.offset);
            debug_assert!(place < indexes.len(), "the position of an index");
            match (part.target.is_near(), u32::try_from(offset / 8)) {
                (false, Ok(word)) => {
                    if let Some(words) = by_rank.get_mut(part.rank()) {
                        words.indexes.push(word);
                        words.places.push((place, offset as u32 % 8 * 8));
                    }
                }
                // Of this node, or further on than an index reaches.
                _ => {
                    if let Some(to) = to.get_mut(place) {
                        *to = element.read()?;
                    }
                }
            }
            Ok(())
        })?;
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
