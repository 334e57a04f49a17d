//! Gets that complete together: the closing brace of a phase is their `sync`.

use crate::error::{ErrorKind, Result};
use crate::rma::Rma;
use crate::target::Target;
use clump_onesided::{Range, Word};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::rc::Rc;

/// Gets in flight. Buffers are borrowed until the phase ends, so none can be read, used twice, or
/// freed before its bytes are there:
/// ```
/// # fn gather(rma: &clump_rma::Rma, table: &clump_rma::Target) -> clump_rma::Result<u64> {
/// let (mut a, mut b) = (0_u64, 0_u64);
/// rma.phase(|phase| {
///     phase.get(table, 0, &mut a)?;
///     phase.get(table, 8, &mut b)
/// })?;
/// Ok(a + b)
/// # }
/// ```
/// A read before the end:
/// ```compile_fail
/// # fn gather(rma: &clump_rma::Rma, table: &clump_rma::Target) -> clump_rma::Result<u64> {
/// let mut a = 0_u64;
/// rma.phase(|phase| {
///     phase.get(table, 0, &mut a)?;
///     println!("{a}");
///     Ok(())
/// })?;
/// Ok(a)
/// # }
/// ```
/// Two gets into one word:
/// ```compile_fail
/// # fn gather(rma: &clump_rma::Rma, table: &clump_rma::Target) -> clump_rma::Result<u64> {
/// let mut a = 0_u64;
/// rma.phase(|phase| {
///     phase.get(table, 0, &mut a)?;
///     phase.get(table, 8, &mut a)
/// })?;
/// Ok(a)
/// # }
/// ```
/// A buffer that dies early:
/// ```compile_fail
/// # fn gather(rma: &clump_rma::Rma, table: &clump_rma::Target) -> clump_rma::Result<()> {
/// rma.phase(|phase| {
///     let mut a = 0_u64;
///     phase.get(table, 0, &mut a)
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct Phase<'scope, 'env: 'scope> {
    gets: &'scope Gets,
    /// Neither lifetime may be shortened or lengthened.
    scope: PhantomData<Cell<&'scope ()>>,
    env: PhantomData<Cell<&'env ()>>,
}

/// The gets of a phase.
#[derive(Debug)]
struct Gets {
    rma: Rma,
    under_way: RefCell<VecDeque<u64>>,
    failed: RefCell<Option<crate::Error>>,
}

/// Maximum number of gets in flight before the first is waited for.
const MAX_UNDER_WAY: usize = 4096;

impl Rma {
    /// Runs `run`, and waits for all gets that it began.
    ///
    /// # Errors
    /// Fails with the error of `run`, with that of the first get that was refused, or if a node or
    /// rank is lost.
    pub fn phase<'env, T>(
        &self,
        run: impl for<'scope> FnOnce(&'scope Phase<'scope, 'env>) -> Result<T>,
    ) -> Result<T> {
        let gets =
            Gets { rma: self.clone(), under_way: RefCell::default(), failed: RefCell::default() };
        let phase = Phase { gets: &gets, scope: PhantomData, env: PhantomData };
        let result = run(&phase);
        while gets.end_first() {}
        debug_assert!(gets.under_way.borrow().is_empty(), "invariant 2: all gets have ended");
        let failed = gets.failed.take();
        result.and_then(|value| failed.map_or(Ok(value), Err))
    }
}

impl<'scope, 'env: 'scope> Phase<'scope, 'env> {
    /// Begins to read a word.
    ///
    /// # Errors
    /// On this node it fails if the get is refused. On another, the end of the phase reports a
    /// refusal; it fails if another [`Rma`] has opened the target.
    pub fn get<T: Word>(&'scope self, target: &Target, offset: u64, to: &'env mut T) -> Result<()> {
        if target.is_near() {
            *to = target.get(offset)?;
            return Ok(());
        }
        debug_assert!(size_of::<T>() <= 8, "a word is one fragment");
        self.gets.ask(target, offset, NonNull::from(to).cast(), size_of::<T>())
    }

    /// Begins to read bytes.
    ///
    /// # Errors
    /// On this node it fails if the get is refused. On another, the end of the phase reports a
    /// refusal; it fails if another [`Rma`] has opened the target.
    pub fn get_bytes(&'scope self, target: &Target, offset: u64, to: &'env mut [u8]) -> Result<()> {
        if target.is_near() {
            return target.get_bytes(offset, to);
        }
        self.gets.ask(target, offset, NonNull::from(&mut *to).cast(), to.len())
    }

    /// Begins to read many words, each by its index from `offset` on. 2048 come in one answer.
    ///
    /// # Errors
    /// Fails if `to` has not a place for each. On this node it fails if the words are refused. On
    /// another, the end of the phase reports a refusal; it fails if another [`Rma`] has opened the
    /// target.
    pub fn get_many(
        &'scope self,
        target: &Target,
        offset: u64,
        indexes: &[u32],
        to: &'env mut [u64],
    ) -> Result<()> {
        if target.is_near() || indexes.len() != to.len() {
            return target.get_many(offset, indexes, to);
        }
        debug_assert_eq!(indexes.len(), to.len(), "a place for each word");
        let places = to.chunks_mut(Target::WORDS_AT_ONCE);
        for (indexes, to) in indexes.chunks(Target::WORDS_AT_ONCE).zip(places) {
            let base = NonNull::from(&mut *to).cast();
            self.gets.ask_once(target, || target.request_words(offset, indexes, base))?;
        }
        Ok(())
    }

    /// Begins to read several ranges into `to`, one after the other: [`Target::gather`].
    ///
    /// # Errors
    /// Fails if `to` is not as long as all ranges together, or has a range of more than 16 KiB. On
    /// this node it fails if they are refused. On another, the end of the phase reports a refusal;
    /// it fails if another [`Rma`] has opened the target.
    pub fn gather(
        &'scope self,
        target: &Target,
        ranges: &[Range],
        to: &'env mut [u8],
    ) -> Result<()> {
        if target.is_near() {
            return target.gather(ranges, to);
        }
        target.each_answer(ranges, to, |ranges, to| {
            debug_assert!(!ranges.is_empty(), "each answer has a range");
            if to.is_empty() {
                return Ok(());
            }
            self.gets.ask_once(target, || target.request_ranges(ranges, to))
        })
    }
}

/// Gets that complete together, for callers that cannot express the lifetimes of their buffers.
#[derive(Debug)]
pub struct OpenPhase(Gets);

impl Rma {
    /// Opens a phase whose gets complete at [`OpenPhase::end`], which may be called repeatedly.
    pub fn open_phase(&self) -> OpenPhase {
        let (under_way, failed) = (RefCell::default(), RefCell::default());
        OpenPhase(Gets { rma: self.clone(), under_way, failed })
    }
}

impl OpenPhase {
    /// Begins to read `len` bytes to `to`.
    ///
    /// # Errors
    /// On this node it fails if the get is refused. On another, [`OpenPhase::end`] reports a
    /// refusal; it fails if another [`Rma`] has opened the target.
    ///
    /// # Safety
    /// Those bytes must be writable, and not used otherwise, until [`OpenPhase::end`] has returned,
    /// or this was dropped.
    pub unsafe fn get_bytes(
        &self,
        target: &Target,
        offset: u64,
        to: NonNull<u8>,
        len: usize,
    ) -> Result<()> {
        if target.is_near() {
            // SAFETY: invariant 2, by the caller's contract; the reference ends here.
            let to = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), len) };
            return target.get_bytes(offset, to);
        }
        self.0.ask(target, offset, to, len)
    }

    /// Waits for all gets that were begun.
    ///
    /// # Errors
    /// Fails with the first refusal, or if a node or rank is lost.
    pub fn end(&self) -> Result<()> {
        while self.0.end_first() {}
        debug_assert!(self.0.under_way.borrow().is_empty(), "invariant 2: all gets have ended");
        self.0.failed.take().map_or(Ok(()), Err)
    }
}

impl Gets {
    fn ask(&self, target: &Target, offset: u64, base: NonNull<u8>, len: usize) -> Result<()> {
        debug_assert!(!target.is_near(), "gets on this node end at once");
        for fragment in target.fragments(offset, (base, len)) {
            self.ask_once(target, || target.request_fragment(fragment))?;
        }
        Ok(())
    }

    /// Makes a request of a target, when there is room for it.
    fn ask_once(&self, target: &Target, request: impl FnOnce() -> Result<u64>) -> Result<()> {
        debug_assert!(!target.is_near(), "words of this node are read at once");
        if !Rc::ptr_eq(&target.inner, &self.rma.inner) {
            // Invariant 4: the end of the get would be waited for where it has not begun.
            return Err(ErrorKind::ForeignTarget { segment: target.name() }.into());
        }
        while self.under_way.borrow().len() >= MAX_UNDER_WAY {
            self.end_first();
        }
        let cookie = request()?;
        self.under_way.borrow_mut().push_back(cookie);
        Ok(())
    }

    /// Waits for the oldest get.
    fn end_first(&self) -> bool {
        let Some(&first) = self.under_way.borrow().front() else { return false };
        debug_assert!(self.under_way.borrow().len() <= MAX_UNDER_WAY, "the first were waited for");
        let ended = self.rma.inner.await_one(first);
        let popped = self.under_way.borrow_mut().pop_front();
        debug_assert_eq!(popped, Some(first), "gets end in the order in which they began");
        if let Err(error) = ended {
            self.failed.borrow_mut().get_or_insert(error);
        }
        true
    }
}

impl Drop for Gets {
    /// Forgets all gets after a panic: answers that arrive later must not be written anywhere.
    fn drop(&mut self) {
        let mut books = self.rma.inner.books.borrow_mut();
        for cookie in self.under_way.get_mut().drain(..) {
            let taken = books.take(cookie).is_some();
            debug_assert!(taken || std::thread::panicking(), "a get in flight has an entry");
        }
    }
}
