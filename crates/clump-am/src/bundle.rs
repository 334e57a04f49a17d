//! The endpoints of a thread, which its blocking calls poll together.

use crate::core::Core;
use crate::error::Result;
use crate::pollable::Pollable;
use clump_os::thread_value;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

thread_value! {
    pub(crate) static BUNDLE: RefCell<Vec<Weak<RefCell<Core>>>> = RefCell::new(Vec::new());
}

thread_local! {
    pub(crate) static OTHERS: Cell<Option<&'static dyn Pollable>> = const { Cell::new(None) };
}

/// Makes blocking calls of this thread poll `others` too: endpoints that an interface on top of
/// this one keeps in endpoint cells.
#[inline]
pub fn poll_also(others: &'static dyn Pollable) {
    OTHERS.set(Some(others));
}

/// An endpoint, or group of endpoints, that a blocking call of this thread polls.
pub(crate) enum PolledEndpoint<'a> {
    Core(&'a Rc<RefCell<Core>>),
    Others(&'static dyn Pollable),
}

impl PolledEndpoint<'_> {
    #[inline(always)]
    pub(crate) fn poll_once(&self) -> Result<usize> {
        match self {
            PolledEndpoint::Core(core) => core.poll_once(),
            PolledEndpoint::Others(others) => others.poll_once(),
        }
    }

    pub(crate) fn slow(&self) -> &dyn Pollable {
        match self {
            PolledEndpoint::Core(core) => &***core,
            PolledEndpoint::Others(others) => *others,
        }
    }
}

/// Calls `each` with every endpoint of this thread that a call blocking on `mine` polls.
pub(crate) fn each_beside(mine: &impl Pollable, mut each: impl FnMut(PolledEndpoint<'_>)) {
    if !mine.polls_bundle() {
        return;
    }
    // Cloned, because a handler may open or close endpoints.
    let bundle = BUNDLE.with(|bundle| bundle.get().borrow().clone());
    for core in bundle.iter().filter_map(Weak::upgrade) {
        let restricted = core.try_borrow().is_ok_and(|core| core.restricted);
        debug_assert!(!restricted, "a restricted endpoint is polled by its own calls alone");
        each(PolledEndpoint::Core(&core));
    }
    if let Some(others) = OTHERS.get() {
        each(PolledEndpoint::Others(others));
    }
}
