//! Failures of endpoints that a wait on which other ranks depend has found, and leaves to a later
//! call.
//!
//! A collective polls all endpoints of its thread. The handler of another one that fails meanwhile
//! must not end the collective at this rank alone: the others would wait for it.

use crate::core::Core;
use crate::error::Error;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

thread_local! {
    /// True if an endpoint of this thread may have been given a failure back.
    static KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Notes that an endpoint of this thread keeps a failure.
pub(crate) fn note_kept() {
    KEPT.set(true);
}

/// Failures of one wait, with the endpoints that they are of.
#[derive(Debug, Default)]
pub(crate) struct KeptFailures(Vec<(Weak<RefCell<Core>>, Error)>);

impl KeptFailures {
    /// Keeps a failure of an endpoint until the wait is over.
    #[cold]
    pub(crate) fn keep(&mut self, core: &Rc<RefCell<Core>>, error: Error) {
        debug_assert!(Rc::strong_count(core) > 0, "an endpoint that is polled is there");
        self.0.push((Rc::downgrade(core), error));
    }

    /// Returns them with their endpoints. An endpoint that has been closed reports nothing any
    /// more.
    pub(crate) fn into_open(self) -> impl Iterator<Item = (Rc<RefCell<Core>>, Error)> {
        debug_assert!(
            self.0.iter().all(|(core, _)| core.weak_count() > 0),
            "each failure is of an endpoint"
        );
        self.0.into_iter().filter_map(|(core, error)| Some((core.upgrade()?, error)))
    }
}

/// Returns true if an endpoint of this thread may have been given a failure back.
#[inline]
pub(crate) fn may_be_kept() -> bool {
    KEPT.get()
}

/// Notes that the endpoints of this thread have been searched, and whether one had a failure: there
/// may be another.
pub(crate) fn note_searched(found: bool) {
    debug_assert!(KEPT.get(), "endpoints are searched only where one may have a failure");
    KEPT.set(found);
}
