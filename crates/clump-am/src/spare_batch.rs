//! Buffers of the network that a thread polls with, whichever endpoint it polls: an endpoint that
//! is no longer polled keeps none.

use clump_net::Batch;
use clump_os::thread_value;
use std::cell::RefCell;

/// Boxed: each poll takes one and puts it back.
type Spare = RefCell<Vec<Box<Batch>>>;

thread_value! {
    /// Batches that no poll of this thread uses. More than one only where handlers have polled
    /// other endpoints.
    static SPARE: Spare = RefCell::new(Vec::new());
}

/// Takes a batch for a poll of this thread: the one put back last, else a new one.
#[inline]
pub(crate) fn take() -> Box<Batch> {
    SPARE.with(|spare| spare.get().borrow_mut().pop()).unwrap_or_default()
}

/// Puts a batch back for the next poll.
#[inline]
pub(crate) fn put(batch: Box<Batch>) {
    SPARE.with(|spare| spare.get().borrow_mut().push(batch));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_polls_with_the_batch_that_it_put_back_last() {
        let (outer, nested) = (take(), take());
        let (outer_at, nested_at) = (&raw const *outer, &raw const *nested);
        assert_ne!(outer_at, nested_at);
        put(nested);
        put(outer);
        assert_eq!(&raw const *take(), outer_at);
        std::thread::spawn(|| put(take())).join().unwrap();
    }
}
