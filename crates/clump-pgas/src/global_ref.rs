//! Elements of global memory, to operate on.

use crate::aggregator::PeerSegment;
use crate::collector::{BatchKind, Destination as _};
use crate::element::{AtomicElement, Bits, Element, combine_narrow, from_word, on_words, to_word};
use crate::error::{ErrorKind, Result};
use crate::global_ptr::GlobalPtr;
use crate::pending::{Pending, PendingWord};
use crate::pgas::{Inner, Pgas};
use clump_rma::{AtomicOp, Target};
use std::marker::PhantomData;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// An element of global memory. Operations without a result have no answer: [`Pgas::sync`] waits
/// for them, and reports refusals.
#[derive(Debug)]
#[must_use = "its methods are the operations"]
pub struct GlobalRef<'a, T> {
    pub(crate) inner: &'a Inner,
    pub(crate) found: FoundElement<'a>,
    pub(crate) offset: u64,
    pub(crate) alone: bool,
    pub(crate) of: PhantomData<T>,
}

/// The segment of an element.
#[derive(Debug)]
pub(crate) enum FoundElement<'a> {
    Lent(&'a PeerSegment),
    Shared(Rc<PeerSegment>),
    /// No element of its array.
    Beyond {
        index: usize,
        len: usize,
    },
}

impl Pgas {
    /// Returns the element that a pointer points to.
    ///
    /// # Errors
    /// Fails if the pointer points outside of its memory, or if that is on this node and freed.
    pub fn at<T: Element>(&self, pointer: GlobalPtr<T>) -> Result<GlobalRef<'_, T>> {
        pointer.check(1)?;
        let found = FoundElement::Shared(self.inner.peer(pointer.segment())?);
        let offset = pointer.offset();
        Ok(GlobalRef { inner: &self.inner, found, offset, alone: false, of: PhantomData })
    }

    /// Begins to write a slice to where a pointer points, and to the elements behind that.
    ///
    /// # Errors
    /// Fails if that is not inside the pointer's memory. On another node, [`Pgas::sync`] reports a
    /// refusal.
    pub fn bulk_put<T: Element>(&self, pointer: GlobalPtr<T>, from: &[T]) -> Result<()> {
        pointer.check(from.len())?;
        let peer = self.inner.peer(pointer.segment())?;
        Ok(peer.target.put_bytes(pointer.offset(), from.as_bytes())?)
    }

    /// Begins to store a slice where a pointer points: its bytes are counted at the rank.
    ///
    /// # Errors
    /// Fails as [`Pgas::bulk_put`] does.
    pub fn bulk_store<T: Element>(&self, pointer: GlobalPtr<T>, from: &[T]) -> Result<()> {
        self.bulk_put(pointer, from)?;
        self.inner.stored.note(pointer.rank(), size_of_val(from), false);
        Ok(())
    }

    /// Reads the elements from where a pointer points on.
    ///
    /// # Errors
    /// Fails if they are not inside the pointer's memory, or refused, or if their node or a rank is
    /// lost. Then the contents of `to` are unspecified.
    pub fn bulk_get<T: Element>(&self, pointer: GlobalPtr<T>, to: &mut [T]) -> Result<()> {
        pointer.check(to.len())?;
        let peer = self.inner.peer(pointer.segment())?;
        self.inner.wait(|| Ok(peer.target.get_bytes(pointer.offset(), to.as_mut_bytes())?))
    }
}

impl<T: Element> GlobalRef<'_, T> {
    /// Returns it for one operation that is not collected with others, but sent at once.
    pub fn now(self) -> Self {
        Self { alone: true, ..self }
    }

    /// Returns true if it is in memory of this node, where operations happen at once; false if it
    /// does not exist.
    pub fn is_near(&self) -> bool {
        self.peer().is_ok_and(|peer| peer.target.is_near())
    }

    #[inline(always)]
    pub(crate) fn peer(&self) -> Result<&PeerSegment> {
        match &self.found {
            FoundElement::Lent(peer) => Ok(peer),
            FoundElement::Shared(peer) => Ok(peer),
            &FoundElement::Beyond { index, len } => {
                Err(ErrorKind::NoSuchElement { index, len }.into())
            }
        }
    }

    /// Returns its segment, to be kept.
    pub(crate) fn into_peer(self) -> Result<Rc<PeerSegment>> {
        if let FoundElement::Shared(peer) = self.found {
            return Ok(peer);
        }
        let peer = self.peer()?;
        match peer.kept() {
            Some(kept) => Ok(kept),
            None => self.inner.peer(peer.name()),
        }
    }

    /// Begins to write the element.
    ///
    /// # Errors
    /// Fails if it does not exist. On another node, [`Pgas::sync`] reports a refusal.
    #[inline(always)]
    pub fn put(&self, value: T) -> Result<()> {
        let target = &self.peer()?.target;
        match size_of::<T>() {
            8 => self.update_word(AtomicOp::Store, to_word(value)),
            4 => self.update_half(AtomicOp::Store, to_word(value) as u32),
            _ => Ok(target.put_bytes(self.offset, value.as_bytes())?),
        }
    }

    /// Begins to write the element, and counts its bytes at its rank ([`Pgas::store_sync`]).
    ///
    /// # Errors
    /// Fails as [`GlobalRef::put`] does.
    #[inline(always)]
    pub fn store(&self, value: T) -> Result<()> {
        let (inner, peer) = (self.inner, self.peer()?);
        let kind = BatchKind { op: AtomicOp::Store, halves: size_of::<T>() == 4 };
        let is_collected = matches!(size_of::<T>(), 4 | 8) && self.is_collected(peer);
        let forwarded = is_collected && peer.forwarder(kind, self.offset).is_some();
        self.put(value)?;
        inner.stored.note(peer.rank(), size_of::<T>(), forwarded);
        Ok(())
    }

    /// Returns true if an update of it is collected with others.
    #[inline(always)]
    fn is_collected(&self, peer: &PeerSegment) -> bool {
        !peer.target.is_near() && self.inner.aggregates() && !self.alone
    }

    /// Writes the element, and waits until it is written.
    ///
    /// # Errors
    /// Fails if it does not exist, or is refused, or if its node or a rank is lost.
    pub fn write(&self, value: T) -> Result<()> {
        let target = &self.peer()?.target;
        if target.is_near() {
            return self.put(value);
        }
        let write = || Ok(target.start_put(self.offset, value.as_bytes())?.wait()?);
        self.inner.wait(write)
    }

    /// Reads the element.
    ///
    /// # Errors
    /// Fails if it does not exist, or is refused, or if its node or a rank is lost.
    #[inline(always)]
    pub fn read(&self) -> Result<T> {
        let target = &self.peer()?.target;
        if target.is_near() {
            return read_from(target, self.offset);
        }
        self.inner.wait(|| read_from(target, self.offset))
    }

    /// Begins an update of a whole word.
    #[inline(always)]
    fn update_word(&self, op: AtomicOp, word: u64) -> Result<()> {
        let peer = self.peer()?;
        if self.is_collected(peer) {
            let kind = BatchKind { op, halves: false };
            return self.inner.aggregator.push(peer, kind, self.offset, word);
        }
        Ok(peer.target.update(self.offset, op, word)?)
    }

    /// Begins an update of a word of four bytes.
    #[inline(always)]
    fn update_half(&self, op: AtomicOp, half: u32) -> Result<()> {
        let peer = self.peer()?;
        if self.is_collected(peer) {
            let kind = BatchKind { op, halves: true };
            return self.inner.aggregator.push(peer, kind, self.offset, half.into());
        }
        Ok(peer.target.update(self.offset, op, half)?)
    }
}

/// Reads an element as a word where it is one.
#[inline(always)]
pub(crate) fn read_from<T: Element>(target: &Target, offset: u64) -> Result<T> {
    match size_of::<T>() {
        8 => Ok(from_word(target.get::<u64>(offset)?)),
        4 => Ok(from_word(target.get::<u32>(offset)?.into())),
        _ => {
            let mut value = T::new_zeroed();
            target.get_bytes(offset, value.as_mut_bytes())?;
            Ok(value)
        }
    }
}

macro_rules! atomics {
    ($($name:ident, $fetch:ident, $op:ident, $what:literal;)+) => {$(
        #[doc = concat!("Begins to ", $what, ".")]
        ///
        /// # Errors
        /// Fails if it does not exist. On another node, [`Pgas::sync`] reports a refusal.
        #[inline(always)]
        pub fn $name(&self, operand: T) -> Result<()> {
            self.update(AtomicOp::$op, operand)
        }

        #[doc = concat!("Begins to ", $what, "; gives what it was before.")]
        ///
        /// # Errors
        /// Fails if it does not exist.
        pub fn $fetch(&self, operand: T) -> Result<Pending<'a, T>> {
            self.fetch(AtomicOp::$op, operand)
        }
    )+};
}

impl<'a, T: AtomicElement> GlobalRef<'a, T> {
    atomics! {
        add, fetch_add, Add, "add to the element; integers wrap around";
        min, fetch_min, Min, "make the element the smaller of itself and `operand`";
        max, fetch_max, Max, "make the element the larger of itself and `operand`";
    }

    /// Begins to write the element; returns the previous value.
    ///
    /// # Errors
    /// Fails if it does not exist.
    pub fn swap(&self, value: T) -> Result<Pending<'a, T>> {
        self.fetch(AtomicOp::Swap, value)
    }

    /// Writes `new` if the element has the bits of `old`. Returns the previous value.
    ///
    /// # Errors
    /// Fails if it does not exist, or is refused, or if its node or a rank is lost.
    pub fn compare_swap(&self, old: T, new: T) -> Result<T> {
        self.change(|before| (to_word(before) == to_word(old)).then_some(new))
    }

    #[inline(always)]
    fn update(&self, op: AtomicOp, operand: T) -> Result<()> {
        let Some(op) = on_words::<T>(op) else {
            return self.change(|before| Some(combine_narrow(op, before, operand))).map(drop);
        };
        if size_of::<T>() == 8 {
            return self.update_word(op, to_word(operand));
        }
        self.update_half(op, to_word(operand) as u32)
    }

    fn fetch(&self, op: AtomicOp, operand: T) -> Result<Pending<'a, T>> {
        let (inner, offset) = (self.inner, self.offset);
        let Some(op) = on_words::<T>(op) else {
            let before = self.change(|before| Some(combine_narrow(op, before, operand)))?;
            return Ok(Pending { inner, state: PendingWord::Ready(before) });
        };
        let (target, word) = (&self.peer()?.target, to_word(operand));
        let state = if size_of::<T>() == 8 {
            PendingWord::Word(target.start_atomic(offset, op, word, 0_u64)?)
        } else {
            PendingWord::Half(target.start_atomic(offset, op, word as u32, 0_u32)?)
        };
        Ok(Pending { inner, state })
    }

    /// Replaces the element by the result of `change`, unless that is `None`. Returns the previous
    /// value.
    fn change(&self, change: impl Fn(T) -> Option<T>) -> Result<T> {
        let target = &self.peer()?.target;
        let swap = || {
            if size_of::<T>() == 8 {
                return swapped::<u64, T>(target, self.offset, 0, change);
            }
            let within = self.offset % 4;
            debug_assert!(within + size_of::<T>() as u64 <= 4, "elements are aligned");
            swapped::<u32, T>(target, self.offset - within, within as u32 * 8, change)
        };
        if target.is_near() { swap() } else { self.inner.wait(swap) }
    }
}

impl<'a, T: Bits> GlobalRef<'a, T> {
    atomics! {
        and, fetch_and, And, "keep those bits of the element that are set in both";
        or, fetch_or, Or, "set bits of the element";
        xor, fetch_xor, Xor, "turn bits of the element over";
    }
}

/// Replaces an element, `shift` bits up in its word, by compare-and-swaps until one succeeds. Each
/// that fails means that another rank's has succeeded.
fn swapped<W: clump_rma::Word + Into<u64> + FromLow, T: AtomicElement>(
    target: &Target,
    offset: u64,
    shift: u32,
    change: impl Fn(T) -> Option<T>,
) -> Result<T> {
    let mut seen: W = target.load(offset)?;
    let mask = (u64::MAX >> (64 - 8 * size_of::<T>() as u32)) << shift;
    loop {
        let word: u64 = seen.into();
        let before = from_word::<T>((word & mask) >> shift);
        let Some(after) = change(before) else { return Ok(before) };
        let after = word & !mask | to_word(after) << shift;
        let found = target.compare_swap(offset, seen, W::from_low(after))?;
        if found == seen {
            return Ok(before);
        }
        seen = found;
    }
}

/// Word made of the lower bits of another.
trait FromLow {
    fn from_low(word: u64) -> Self;
}

impl FromLow for u64 {
    fn from_low(word: u64) -> Self {
        word
    }
}

impl FromLow for u32 {
    fn from_low(word: u64) -> Self {
        word as Self
    }
}
