//! Spread arrays: elements dealt out over the memories of all ranks.

use crate::aggregator::PeerSegment;
use crate::element::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::global_ptr::GlobalPtr;
use crate::global_ref::{FoundElement, GlobalRef};
use crate::layout::{ElementPlace, Layout, SpreadLayout};
use crate::local_part::LocalPart;
use crate::pgas::{Pgas, took_part};
use clump_rma::{Segment, SegmentName};
use std::marker::PhantomData;
use std::rc::Rc;

/// An array whose elements are in the memories of all ranks. Its memory is freed when a rank drops
/// it: let all ranks be done with it before ([`Pgas::all_store_sync`]).
#[derive(Debug)]
pub struct Spread<T> {
    pgas: Pgas,
    layout: SpreadLayout,
    /// Bytes of each rank's memory.
    bytes: u64,
    /// Memories of all ranks, by rank.
    parts: Vec<Rc<PeerSegment>>,
    _own: Segment,
    of: PhantomData<T>,
}

impl Pgas {
    /// Spreads an array of `len` elements, whose bytes are zero, over all ranks. A collective.
    ///
    /// # Errors
    /// Fails if no memory can hold it, at all ranks if that is so at one; if ranks request
    /// different arrays, or if a rank died or left. An error of something that was begun before
    /// does not take the array from this rank: the next call that synchronizes or polls reports it.
    pub fn spread<T: Element>(&self, len: usize, layout: Layout) -> Result<Spread<T>> {
        let ranks = self.nranks();
        let block = if let Layout::BlockCyclic(block) = layout { block } else { 0 };
        let impossible = || ErrorKind::BadArray { len, bytes: size_of::<T>(), block };
        let arithmetic = SpreadLayout::new(len, layout, ranks);
        let part = arithmetic.and_then(|arithmetic| {
            let most = (0..ranks).map(|rank| arithmetic.count(rank)).max().unwrap_or(0);
            let bytes = most.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(7));
            let bytes = bytes.filter(|_| size_of::<T>() > 0)? as u64 & !7;
            Some((arithmetic, bytes))
        });
        let lacks = part.as_ref().map_or(0, |(_, bytes)| *bytes);
        // Memory of no bytes cannot be named.
        let part = part.ok_or_else(|| impossible().into());
        let own = part.and_then(|(arithmetic, bytes)| {
            Ok((self.rma().export(bytes.max(8))?, arithmetic, bytes))
        });
        // A rank without its part reports it, with the reason: the others do not wait for it.
        let asked = own.as_ref().map_or([0, 0, 0, lacks], |(own, arithmetic, bytes)| {
            [own.name().to_bits(), len as u64, arithmetic.block() as u64, *bytes]
        });
        let all = self.inner.together(|team| team.all_gather(asked))?;
        let (own, arithmetic, bytes) = took_part::<_, Error>(own)?;
        if let Some(rank) = all.iter().position(|given| given[0] == 0) {
            let lacking = ErrorKind::NoMemoryAt { rank, bytes: all[rank][3] };
            let failed = ErrorKind::RankFailed { rank };
            return Err(if all[rank][3] > 0 { lacking } else { failed }.into());
        }
        if all.iter().any(|given| given[1..] != asked[1..]) {
            return Err(ErrorKind::DifferentArrays.into());
        }
        let open = |given: &[u64; 4]| self.inner.peer(SegmentName::from_bits(given[0]));
        let parts: Result<_> = all.iter().map(open).collect();
        let (pgas, of) = (self.clone(), PhantomData);
        Ok(Spread { pgas, layout: arithmetic, bytes, parts: parts?, _own: own, of })
    }
}

impl<T: Element> Spread<T> {
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// Returns the arithmetic of its layout.
    pub fn layout(&self) -> SpreadLayout {
        self.layout
    }

    /// Returns its address space.
    pub fn pgas(&self) -> &Pgas {
        &self.pgas
    }

    /// Returns an element. Operations on one beyond the end fail.
    #[inline(always)]
    pub fn at(&self, index: usize) -> GlobalRef<'_, T> {
        self.at_place(index, self.layout.place(index))
    }

    /// Returns the element of an index, whose place is known.
    #[inline(always)]
    pub(crate) fn at_place(&self, index: usize, place: Option<ElementPlace>) -> GlobalRef<'_, T> {
        debug_assert_eq!(place.is_some(), index < self.len(), "elements alone have places");
        let (found, offset) = match place {
            Some(ElementPlace { rank, local }) => {
                (self.parts.get(rank), local as u64 * size_of::<T>() as u64)
            }
            None => (None, 0),
        };
        let found = match found {
            Some(part) => FoundElement::Lent(part),
            None => FoundElement::Beyond { index, len: self.len() },
        };
        GlobalRef { inner: &self.pgas.inner, found, offset, alone: false, of: PhantomData }
    }

    /// Returns what begins at an element as an element of another type: of words in an array of
    /// bytes, for example. Operations fail if it reaches beyond the end, or another rank.
    #[inline]
    pub fn view<U: Element>(&self, index: usize) -> GlobalRef<'_, U> {
        let GlobalRef { inner, mut found, offset, alone, .. } = self.at(index);
        let last = index.saturating_add(size_of::<U>().div_ceil(size_of::<T>().max(1)).max(1) - 1);
        let (first, end) = (self.layout.place(index), self.layout.place(last));
        let together = first.zip(end).is_some_and(|(first, end)| {
            first.rank == end.rank && end.local.wrapping_sub(first.local) == last - index
        });
        if !together || !offset.is_multiple_of(align_of::<U>() as u64) {
            found = FoundElement::Beyond { index: last, len: self.len() };
        }
        GlobalRef { inner, found, offset, alone, of: PhantomData }
    }

    /// Returns the pointer to an element; `None` beyond the end.
    pub fn ptr(&self, index: usize) -> Option<GlobalPtr<T>> {
        let ElementPlace { rank, local } = self.layout.place(index)?;
        Some(self.on(rank)?.offset_by(local as isize))
    }

    /// Returns the pointer to the first element at a rank; `None` if there is no such rank.
    pub fn on(&self, rank: usize) -> Option<GlobalPtr<T>> {
        let part = self.parts.get(rank)?;
        let bytes = self.layout.count(rank) as u64 * size_of::<T>() as u64;
        debug_assert!(bytes <= self.bytes, "the memory of each rank holds its elements");
        Some(GlobalPtr::new(part.name(), 0, bytes))
    }

    /// Returns the rank of an element; `None` beyond the end.
    pub fn owner(&self, index: usize) -> Option<usize> {
        self.layout.place(index).map(|place| place.rank)
    }

    /// Returns the elements at this rank.
    pub fn local(&self) -> LocalPart<'_, T> {
        LocalPart::new(self.part(self.pgas.rank()), self.layout, self.pgas.rank())
    }

    pub(crate) fn part(&self, rank: usize) -> Option<&Rc<PeerSegment>> {
        self.parts.get(rank)
    }
}
