//! Elements of an array at this rank: loads and stores, without layout arithmetic.

use crate::aggregator::PeerSegment;
use crate::element::{Element, to_word};
use crate::error::{ErrorKind, Result};
use crate::global_ref::read_from;
use crate::layout::{ElementPlace, SpreadLayout};
use std::marker::PhantomData;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// The elements of an array at this rank, in the order of their indexes. Other ranks may change
/// them at any time, so they are copied in and out.
#[derive(Debug, Clone, Copy)]
pub struct LocalPart<'a, T> {
    part: Option<&'a PeerSegment>,
    layout: SpreadLayout,
    rank: usize,
    of: PhantomData<T>,
}

impl<'a, T: Element> LocalPart<'a, T> {
    pub(crate) fn new(
        part: Option<&'a Rc<PeerSegment>>,
        layout: SpreadLayout,
        rank: usize,
    ) -> Self {
        debug_assert!(part.is_some_and(|part| part.target.is_near()), "memory of this rank");
        Self { part: part.map(|part| &**part), layout, rank, of: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.layout.count(self.rank)
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index in the whole array of an element; `None` beyond the end.
    pub fn index(&self, local: usize) -> Option<usize> {
        self.layout.index(ElementPlace { rank: self.rank, local })
    }

    /// Returns an element.
    ///
    /// # Errors
    /// Fails beyond the end.
    #[inline(always)]
    pub fn get(&self, local: usize) -> Result<T> {
        read_from(&self.element(local)?.target, (local * size_of::<T>()) as u64)
    }

    /// Changes an element.
    ///
    /// # Errors
    /// Fails beyond the end.
    #[inline(always)]
    pub fn set(&self, local: usize, value: T) -> Result<()> {
        let (target, offset) = (&self.element(local)?.target, (local * size_of::<T>()) as u64);
        match size_of::<T>() {
            8 => Ok(target.put(offset, to_word(value))?),
            4 => Ok(target.put(offset, to_word(value) as u32)?),
            _ => Ok(target.put_bytes(offset, value.as_bytes())?),
        }
    }

    /// Returns all elements.
    ///
    /// # Errors
    /// Fails if the memory is not exported any more.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut all = vec![T::new_zeroed(); self.len()];
        if let Some(part) = self.part {
            part.target.get_bytes(0, all.as_mut_bytes())?;
        }
        Ok(all)
    }

    /// Copies the elements from `local` on into `to`.
    ///
    /// # Errors
    /// Fails if there are fewer.
    pub fn copy_to(&self, local: usize, to: &mut [T]) -> Result<()> {
        let Some(part) = self.range(local, to.len())? else { return Ok(()) };
        let offset = (local * size_of::<T>()) as u64;
        Ok(part.target.get_bytes(offset, to.as_mut_bytes())?)
    }

    /// Changes the elements from `local` on to those of `from`.
    ///
    /// # Errors
    /// Fails if there are fewer.
    pub fn copy_from(&self, local: usize, from: &[T]) -> Result<()> {
        let Some(part) = self.range(local, from.len())? else { return Ok(()) };
        Ok(part.target.put_bytes((local * size_of::<T>()) as u64, from.as_bytes())?)
    }

    /// Returns the memory of `count` elements from `local` on; `None` of no elements.
    fn range(&self, local: usize, count: usize) -> Result<Option<&'a PeerSegment>> {
        match local.checked_add(count) {
            Some(end) if end <= self.len() && count == 0 => Ok(None),
            Some(end) if end <= self.len() => self.element(end - 1).map(Some),
            _ => Err(self.missing(local.saturating_add(count)).into()),
        }
    }

    fn missing(&self, index: usize) -> ErrorKind {
        ErrorKind::NoSuchElement { index, len: self.len() }
    }

    #[inline(always)]
    fn element(&self, local: usize) -> Result<&'a PeerSegment> {
        let part = self.part.filter(|_| local < self.len());
        part.ok_or_else(|| self.missing(local).into())
    }
}
