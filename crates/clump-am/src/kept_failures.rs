//! Failures of endpoints that a wait on which other ranks depend has found, and leaves to a later
//! call.
//!
//! A collective polls all endpoints of its thread. The handler of another one that fails meanwhile
//! must not end the collective at this rank alone: the others would wait for it.

use crate::core::Core;
use crate::error::Error;
use crate::progress::{Pollable, each_beside};
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
        self.0.push((Rc::downgrade(core), error));
    }

    /// Gives them back to their endpoints, whose next polls report them. An endpoint that has been
    /// closed reports nothing any more.
    pub(crate) fn give_back(self) {
        for (core, error) in self.0 {
            let left = core.upgrade().and_then(|core| core.keep_failure(error));
            debug_assert!(left.is_none(), "no handler of it runs when a wait is over");
            note_kept();
        }
    }
}

/// Returns a failure of another endpoint of this thread that waits on which other ranks depend have
/// kept, if there is one; `mine` is the endpoint of those waits.
pub(crate) fn take_kept_failure(mine: &impl Pollable) -> Option<Error> {
    if KEPT.get() { search(mine) } else { None }
}

#[cold]
fn search(mine: &impl Pollable) -> Option<Error> {
    let mut found = None;
    each_beside(mine, |member| {
        if found.is_none() {
            found = member.slow().take_kept_failure();
        }
    });
    KEPT.set(found.is_some());
    found
}
