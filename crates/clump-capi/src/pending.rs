//! Operations that have begun, to be tested and waited for: one-sided ones, and collectives.

use crate::rma::{close, write_if};
use clump::rma::Pending;
use clump_ffi::border::guard;
use clump_ffi::fault::Result;
use clump_ffi::job::refuse_in_handlers;
use clump_ffi::slot::{Object, Slot};
use std::cell::RefCell;
use std::ffi::c_int;

/// An operation that has begun. Belongs to the thread that began it.
#[derive(Debug)]
pub struct clump_pending(());

/// The object behind a ::clump_pending.
#[derive(Debug)]
pub(crate) struct PendingHandle(RefCell<Option<PendingKind>>);

/// An operation by the kind of its result.
#[derive(Debug)]
pub(crate) enum PendingKind {
    Put(Pending<()>),
    Long(Pending<u64>),
    Short(Pending<u32>),
    Collective(Box<dyn BegunCollective>),
}

/// A collective that has begun, and its place for the result.
pub(crate) trait BegunCollective: std::fmt::Debug {
    /// Returns true if it is complete. Polls.
    ///
    /// # Errors
    /// It cannot complete.
    fn test(&self) -> Result<bool>;
    /// Waits until it is complete, and writes the result to its place.
    ///
    /// # Errors
    /// It has failed.
    fn wait(self: Box<Self>) -> Result<()>;
}

impl Object for PendingHandle {
    const KIND: u32 = 7;
    const NAME: &'static str = "operation (clump_pending)";
}

impl PendingKind {
    fn is_collective(&self) -> bool {
        matches!(self, Self::Collective(_))
    }
}

/// Makes an operation that has begun known to C.
pub(crate) fn begun(kind: PendingKind) -> Result<*mut clump_pending> {
    Ok(Slot::fill(PendingHandle(RefCell::new(Some(kind))))?.pointer())
}

/// Runs `run` with an operation, unless it is a collective and a handler of this thread runs.
fn with<R>(
    pending: *const clump_pending,
    what: &str,
    run: impl FnOnce(Option<&PendingKind>) -> Result<R>,
) -> Result<R> {
    Slot::enter::<PendingHandle, _>(pending.cast(), |begun, _| {
        let kind = begun.0.borrow();
        if kind.as_ref().is_some_and(PendingKind::is_collective) {
            refuse_in_handlers(what)?;
        }
        run(kind.as_ref())
    })
}

/// Returns 1 if an operation is complete, or failed; 0 if not yet. Polls.
///
/// Errors: of a collective: those of ::clump_barrier, if it cannot complete any more.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pending_test(pending: *mut clump_pending) -> c_int {
    guard(|| {
        with(pending, "clump_pending_test", |kind| {
            let done = match kind {
                Some(PendingKind::Put(put)) => put.is_done()?,
                Some(PendingKind::Long(long)) => long.is_done()?,
                Some(PendingKind::Short(short)) => short.is_done()?,
                Some(PendingKind::Collective(collective)) => collective.test()?,
                None => true,
            };
            Ok(c_int::from(done))
        })
    })
}

/// Waits until an operation is complete, writes the word that it returns to `value` (if that is not
/// null; a put and a collective return none, and 0 is written), and closes it, also if it failed.
/// The result of a collective is in its place when this returns.
///
/// Errors: as ::clump_rma_get; ::CLUMP_ERR_ALIGNMENT. Of a collective: as the call that waits. Only
/// ::CLUMP_ERR_IN_HANDLER leaves a collective as it is.
///
/// # Safety
/// `value` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pending_wait(pending: *mut clump_pending, value: *mut u64) -> c_int {
    guard(|| {
        with(pending, "clump_pending_wait", |_| Ok(()))?;
        let begun = Slot::empty_of::<PendingHandle>(pending.cast_const().cast())?;
        let given = match begun.0.take() {
            Some(PendingKind::Put(put)) => put.wait().map(|()| 0)?,
            Some(PendingKind::Long(long)) => long.wait()?,
            Some(PendingKind::Short(short)) => u64::from(short.wait()?),
            Some(PendingKind::Collective(collective)) => collective.wait().map(|()| 0)?,
            None => 0,
        };
        write_if(value, given);
        Ok(0)
    })
}

/// Lets an operation complete without waiting for it; a collective's result is not written. Null
/// does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pending_drop(pending: *mut clump_pending) -> c_int {
    close::<PendingHandle>(pending.cast_const().cast())
}
