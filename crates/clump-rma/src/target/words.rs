//! Word operations on a segment: put, get, atomic operations.

use super::Target;
use crate::error::{Refusal, Result, refused};
use crate::lock::nap;
use crate::request_payload::RequestPayload;
use crate::rma::Inner;
use clump_am::WaitFor;
use clump_onesided::protocol::atomic_handler;
use clump_onesided::{AnswerSink, AtomicOp, Comparison, Given, Word};
use clump_os::clock;
use clump_shm::rank::WaitReason;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

/// An operation that has begun and returns a `T` when it has been executed. One that is dropped is
/// executed all the same.
#[derive(Debug)]
#[must_use = "what it gives is had by `wait`"]
pub struct Pending<T> {
    state: PendingState,
    inner: Rc<Inner>,
    of: PhantomData<T>,
}

#[derive(Debug)]
enum PendingState {
    Ready(u64),
    Waiting(u64),
    Taken,
}

impl<T: Given> Pending<T> {
    pub(super) fn ready(inner: &Rc<Inner>, bits: u64) -> Self {
        Self { state: PendingState::Ready(bits), inner: inner.clone(), of: PhantomData }
    }

    pub(super) fn waiting(inner: &Rc<Inner>, cookie: u64) -> Self {
        debug_assert_ne!(cookie, 0, "an answered request has a cookie");
        Self { state: PendingState::Waiting(cookie), inner: inner.clone(), of: PhantomData }
    }

    /// Returns true if the operation was executed, or failed. Handles messages that have arrived.
    ///
    /// # Errors
    /// Fails if handling a message fails.
    pub fn is_done(&self) -> Result<bool> {
        let PendingState::Waiting(cookie) = self.state else { return Ok(true) };
        self.inner.endpoint.poll()?;
        Ok(self.inner.has_ended(cookie))
    }

    /// Waits until the operation was executed. Returns its result.
    ///
    /// # Errors
    /// Fails if it was refused, or if its node or a rank is lost.
    pub fn wait(mut self) -> Result<T> {
        match std::mem::replace(&mut self.state, PendingState::Taken) {
            PendingState::Ready(bits) => Ok(T::from_word(bits)),
            PendingState::Waiting(cookie) => Ok(T::from_word(self.inner.await_one(cookie)?)),
            PendingState::Taken => {
                clump_bug::bug!("a result is taken once");
                Ok(T::from_word(0))
            }
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let PendingState::Waiting(cookie) = self.state {
            self.inner.books.borrow_mut().take(cookie);
        }
    }
}

/// Returns the bytes of a word.
const fn bytes<T: Word>() -> u64 {
    size_of::<T>() as u64
}

macro_rules! fetching {
    ($($name:ident, $silent:ident, $op:ident, $what:literal;)+) => {$(
        #[doc = concat!($what, " and gives what it was before.")]
        ///
        /// # Errors
        /// Fails if it is refused, or if its node or a rank is lost.
        #[inline(always)]
        pub fn $name<T: Word>(&self, offset: u64, operand: T) -> Result<T> {
            self.fetch(offset, AtomicOp::$op, operand)
        }

        #[doc = concat!($what, ". Does not wait until that has happened.")]
        ///
        /// # Errors
        /// On this node it fails if it is refused. On another, [`crate::Rma::quiet`] reports a
        /// refusal.
        #[inline(always)]
        pub fn $silent<T: Word>(&self, offset: u64, operand: T) -> Result<()> {
            self.update(offset, AtomicOp::$op, operand)
        }
    )+};
}

impl Target {
    /// Writes a word. Does not wait until that has been executed.
    ///
    /// # Errors
    /// On this node it fails if it is refused. On another, [`crate::Rma::quiet`] reports a refusal.
    #[inline(always)]
    pub fn put<T: Word>(&self, offset: u64, value: T) -> Result<()> {
        if let Some(cell) = self.cell::<T>(offset) {
            T::write(cell, value);
            return Ok(());
        }
        self.atomic_slowly(offset, AtomicOp::Store, value)
    }

    /// Reads a word.
    ///
    /// # Errors
    /// Fails if it is refused, or if its node or a rank is lost.
    #[inline(always)]
    pub fn get<T: Word>(&self, offset: u64) -> Result<T> {
        if let Some(cell) = self.cell::<T>(offset) {
            return Ok(T::read(cell));
        }
        let zero = T::from_bits(0);
        let mut value = zero;
        match self.fetch_slowly(offset, AtomicOp::Load, (zero, zero), &mut value) {
            Ok(()) => Ok(value),
            Err(error) => Err(error),
        }
    }

    /// Reads a word with acquire ordering: the caller sees everything that the word's writer wrote
    /// before it.
    ///
    /// # Errors
    /// Fails if it is refused, or if its node or a rank is lost.
    #[inline(always)]
    pub fn load<T: Word>(&self, offset: u64) -> Result<T> {
        let zero = T::from_bits(0);
        self.atomic(offset, AtomicOp::Load, zero, zero)
    }

    /// Writes `new` if the word is `old`. Returns the previous value.
    ///
    /// # Errors
    /// Fails if it is refused, or if its node or a rank is lost.
    #[inline(always)]
    pub fn compare_swap<T: Word>(&self, offset: u64, old: T, new: T) -> Result<T> {
        self.atomic(offset, AtomicOp::CompareSwap, new, old)
    }

    /// Writes a word. Returns the previous value.
    ///
    /// # Errors
    /// Fails if it is refused, or if its node or a rank is lost.
    #[inline(always)]
    pub fn swap<T: Word>(&self, offset: u64, value: T) -> Result<T> {
        self.atomic(offset, AtomicOp::Swap, value, T::from_bits(0))
    }

    /// Writes a word with release ordering: a rank that reads it by [`Target::load`] sees
    /// everything written before. Does not wait until that has been executed.
    ///
    /// # Errors
    /// On this node it fails if it is refused. On another, [`crate::Rma::quiet`] reports a refusal.
    #[inline(always)]
    pub fn store<T: Word>(&self, offset: u64, value: T) -> Result<()> {
        self.update(offset, AtomicOp::Store, value)
    }

    fetching! {
        fetch_add, add, Add, "Adds to a word, wrapping around";
        fetch_and, and, And, "Keeps those bits of a word that are set in both";
        fetch_or, or, Or, "Sets bits of a word";
        fetch_xor, xor, Xor, "Turns bits of a word over";
        fetch_min, min, Min, "Makes a word the smaller of itself and `operand`";
        fetch_max, max, Max, "Makes a word the larger of itself and `operand`";
    }

    /// Begins any atomic operation; `other` is the value that [`AtomicOp::CompareSwap`] compares
    /// with.
    ///
    /// # Errors
    /// On this node it fails if it is refused. On another, waiting for the handle reports a
    /// refusal.
    pub fn start_atomic<T: Word>(
        &self,
        offset: u64,
        op: AtomicOp,
        operand: T,
        other: T,
    ) -> Result<Pending<T>> {
        if self.near.is_some() {
            let value = self.atomic(offset, op, operand, other)?;
            return Ok(Pending::ready(&self.inner, value.to_bits()));
        }
        debug_assert!(self.near.is_none(), "operations on this node end at once");
        let cookie = self.begin_atomic(offset, op, operand, other)?;
        Ok(Pending::waiting(&self.inner, cookie))
    }

    #[inline(always)]
    fn atomic<T: Word>(&self, offset: u64, op: AtomicOp, operand: T, other: T) -> Result<T> {
        if let Some(cell) = self.atomic_cell::<T>(offset) {
            return Ok(T::apply(cell, op, operand, other));
        }
        let mut value = operand;
        match self.fetch_slowly(offset, op, (operand, other), &mut value) {
            Ok(()) => Ok(value),
            Err(error) => Err(error),
        }
    }

    /// Executes an atomic operation with one operand (no compare-and-swap), and gives what the word
    /// was before.
    ///
    /// # Errors
    /// Fails if it is refused, or if its node or a rank is lost.
    #[inline(always)]
    pub fn fetch<T: Word>(&self, offset: u64, op: AtomicOp, operand: T) -> Result<T> {
        debug_assert!(op != AtomicOp::CompareSwap, "that has two");
        self.atomic(offset, op, operand, T::from_bits(0))
    }

    /// Executes an atomic operation that is not made for its result (no load, swap or
    /// compare-and-swap). Does not wait until that has happened.
    ///
    /// # Errors
    /// On this node it fails if it is refused. On another, [`crate::Rma::quiet`] reports a refusal.
    #[inline(always)]
    pub fn update<T: Word>(&self, offset: u64, op: AtomicOp, operand: T) -> Result<()> {
        debug_assert!(!op.is_answered(), "a load, a swap or a compare-and-swap");
        if let Some(cell) = self.atomic_cell::<T>(offset) {
            T::apply(cell, op, operand, T::from_bits(0));
            return Ok(());
        }
        self.atomic_slowly(offset, op, operand)
    }

    /// Executes an operation on a near segment that has grown since the target was made, or may
    /// have.
    fn near_again<T: Word>(&self, offset: u64, op: AtomicOp, operand: T, other: T) -> Result<T> {
        debug_assert!(self.near.is_some(), "another node executes its operations itself");
        self.access_word();
        let known = self.near.as_ref().and_then(|near| near.reach(offset, bytes::<T>()));
        let cells = known.map_or_else(|| self.reach_grown(offset, bytes::<T>()), Ok)?;
        debug_assert!(cells.holds(offset, bytes::<T>()), "what may be accessed is mapped");
        let cell = T::find(cells, offset);
        let cell = cell.ok_or_else(|| refused(self.name, offset, Refusal::Misaligned))?;
        Ok(T::apply(cell, op, operand, other))
    }

    /// Stores the word in `before`: a result of two words would stay one to the compiler, and be
    /// tested for an error where the word is near.
    #[cold]
    #[inline(never)]
    fn fetch_slowly<T: Word>(
        &self,
        offset: u64,
        op: AtomicOp,
        (operand, other): (T, T),
        before: &mut T,
    ) -> Result<()> {
        debug_assert!(self.atomic_cell::<T>(offset).is_none(), "it is accessed at once");
        if self.near.is_some() {
            *before = self.near_again(offset, op, operand, other)?;
            return Ok(());
        }
        let cookie = self.begin_atomic(offset, op, operand, other)?;
        *before = T::from_bits(self.inner.await_one(cookie)?);
        Ok(())
    }

    fn begin_atomic<T: Word>(
        &self,
        offset: u64,
        op: AtomicOp,
        operand: T,
        other: T,
    ) -> Result<u64> {
        debug_assert!(self.near.is_none(), "ranks of a node need no interface");
        let handler = atomic_handler(op, T::WIDTH, true);
        let (segment, operand, other) = (self.name.to_bits(), operand.to_bits(), other.to_bits());
        let begin = |words: usize| {
            let all = |cookie| [segment, offset, cookie, operand, other];
            match words {
                3 => self.inner.begin(
                    self.node,
                    handler,
                    AnswerSink::Value,
                    |cookie| [segment, offset, cookie],
                    RequestPayload::Nothing,
                ),
                _ => self.inner.begin(
                    self.node,
                    handler,
                    AnswerSink::Value,
                    all,
                    RequestPayload::Nothing,
                ),
            }
        };
        begin(if op == AtomicOp::Load { 3 } else { 5 })
    }

    #[cold]
    #[inline(never)]
    fn atomic_slowly<T: Word>(&self, offset: u64, op: AtomicOp, operand: T) -> Result<()> {
        debug_assert!(self.atomic_cell::<T>(offset).is_none(), "it is accessed at once");
        debug_assert!(!op.is_answered(), "operations made for their results are answered");
        if self.near.is_some() {
            return self.near_again(offset, op, operand, T::from_bits(0)).map(drop);
        }
        let words = [self.name.to_bits(), offset, operand.to_bits()];
        self.inner.send(
            self.node,
            atomic_handler(op, T::WIDTH, false),
            &words,
            RequestPayload::Nothing,
        )
    }

    /// Waits until a word of a near segment compares in this way. Returns the word. Signals to a
    /// segment wake its own rank at once, and other ranks of the node after some milliseconds.
    ///
    /// # Errors
    /// Fails if the segment is on another node ([`Refusal::NoSuchSegment`]), if its rank has died
    /// ([`Refusal::OwnerDead`]), or if a rank is lost and survivors do not continue.
    pub fn wait_until<T: Word>(&self, offset: u64, comparison: Comparison, value: T) -> Result<T> {
        self.reach_grown(offset, bytes::<T>())?;
        let seen = self.await_near(offset, (comparison, value), None)?;
        seen.ok_or_else(|| refused(self.name, offset, Refusal::TimedOut))
    }

    /// Waits as [`Target::wait_until`] does, until a time at most. Returns `None` when that has
    /// come.
    pub(super) fn await_near<T: Word>(
        &self,
        offset: u64,
        (comparison, value): (Comparison, T),
        until: Option<u64>,
    ) -> Result<Option<T>> {
        let mut word = Compared { target: self, offset, comparison, value, until, seen: None };
        self.inner.endpoint.block_on(&mut word)?;
        let is_late = || until.is_some_and(|until| clock::now_ns() >= until);
        if word.seen.is_none() && is_late() {
            return Ok(None);
        }
        let holds = |seen: T| comparison.holds(seen.to_bits(), value.to_bits());
        debug_assert!(word.seen.is_none_or(holds), "the word that ended the wait");
        let why = if self.is_owner_dead() { Refusal::OwnerDead } else { Refusal::Misaligned };
        word.seen.map(Some).ok_or_else(|| refused(self.name, offset, why))
    }
}

impl Target {
    /// Waits until a word of a near segment is at least so much, or until another word is: places
    /// and values. Returns false if it was the other. Sleeps as [`Target::wait_until`] does.
    ///
    /// # Errors
    /// Those of [`Target::wait_until`].
    pub fn wait_for_either(&self, word: (u64, u64), other: Option<(u64, u64)>) -> Result<bool> {
        let at_least = |(offset, value): (u64, u64)| -> Result<_> {
            self.reach_grown(offset, bytes::<u64>())?;
            let comparison = Comparison::AtLeast;
            Ok(Compared { target: self, offset, comparison, value, until: None, seen: None })
        };
        let other = other.map(at_least).transpose()?;
        let mut either = Either { word: at_least(word)?, other };
        self.inner.endpoint.block_on(&mut either)?;
        let is_other = either.other.is_some_and(|other| other.seen.is_some());
        let why = if self.is_owner_dead() { Refusal::OwnerDead } else { Refusal::Misaligned };
        match (either.word.seen, is_other) {
            (Some(_), _) => Ok(true),
            (None, true) => Ok(false),
            (None, false) => Err(refused(self.name, word.0, why)),
        }
    }
}

/// A word, or another.
struct Either<'a> {
    word: Compared<'a, u64>,
    other: Option<Compared<'a, u64>>,
}

impl WaitFor for Either<'_> {
    #[inline]
    fn done(&mut self) -> clump_am::Result<bool> {
        let other = self.other.as_mut().map_or(Ok(false), WaitFor::done);
        Ok(self.word.done()? || other?)
    }

    fn nap(&self) -> Duration {
        self.word.nap()
    }

    fn waiting(&self) -> WaitReason {
        self.word.waiting()
    }
}

struct Compared<'a, T> {
    target: &'a Target,
    offset: u64,
    comparison: Comparison,
    value: T,
    until: Option<u64>,
    seen: Option<T>,
}

impl<T: Word> WaitFor for Compared<'_, T> {
    #[inline]
    fn done(&mut self) -> clump_am::Result<bool> {
        self.target.inner.order_words();
        let Some(near) = &self.target.near else {
            clump_bug::bug!("interfaces wait for words of other nodes");
            return Ok(true);
        };
        let zero = T::from_bits(0);
        let Some(cell) = T::find(&near.cells, self.offset) else { return Ok(true) };
        let word = T::apply(cell, AtomicOp::Load, zero, zero);
        let holds = self.comparison.holds(word.to_bits(), self.value.to_bits());
        self.seen = holds.then_some(word);
        let is_late = || self.until.is_some_and(|until| clock::now_ns() >= until);
        Ok(holds || is_late() || self.target.is_owner_dead())
    }

    fn nap(&self) -> Duration {
        nap(self.until)
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Word { segment: self.target.name, offset: self.offset, from: None }
    }
}
