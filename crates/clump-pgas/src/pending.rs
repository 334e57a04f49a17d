//! Atomics in flight whose results are waited for later.

use crate::element::{Element, from_word};
use crate::error::Result;
use crate::pgas::Inner;

/// An atomic operation that has begun, and gives the element that was there before it. One that is
/// dropped is executed all the same.
#[derive(Debug)]
#[must_use = "what it gives is had by `wait`"]
pub struct Pending<'a, T> {
    pub(crate) inner: &'a Inner,
    pub(crate) state: PendingWord<T>,
}

#[derive(Debug)]
pub(crate) enum PendingWord<T> {
    Ready(T),
    Word(clump_rma::Pending<u64>),
    Half(clump_rma::Pending<u32>),
}

impl<T: Element> Pending<'_, T> {
    /// Waits until the operation was executed. Returns the element before it.
    ///
    /// # Errors
    /// Fails if it was refused, or if its node or a rank is lost.
    pub fn wait(self) -> Result<T> {
        match self.state {
            PendingWord::Ready(value) => Ok(value),
            PendingWord::Word(word) => self.inner.wait(|| Ok(from_word(word.wait()?))),
            PendingWord::Half(half) => self.inner.wait(|| Ok(from_word(half.wait()?.into()))),
        }
    }
}
