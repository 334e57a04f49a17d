//! Ownership of an endpoint: the threads that may use it, and how a call borrows its state.

use super::shared_core::{LockedCore, SharedCore};
use crate::bundle::BUNDLE;
use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::pollable::Pollable;
use std::cell::{RefCell, RefMut};
use std::ops::DerefMut;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Threads that may use an endpoint: [`SingleThread`] (the one that opened it) or [`MultiThread`]
/// (any).
pub trait Ownership: Clone {
    #[doc(hidden)]
    type Cell: Pollable;
    #[doc(hidden)]
    fn cell(&self) -> &Self::Cell;
    #[doc(hidden)]
    type Guard<'a>: DerefMut<Target = Core>
    where
        Self: 'a;
    /// Borrows the state for one call. Fails inside one of the endpoint's own handlers.
    #[doc(hidden)]
    fn core(&self) -> Result<Self::Guard<'_>>;
}

/// One thread holds the endpoint; no lock.
#[derive(Debug, Clone)]
pub struct SingleThread(pub(super) Rc<RefCell<Core>>);

/// Threads share the endpoint; a lock per call.
#[derive(Debug, Clone)]
pub struct MultiThread(pub(super) Arc<SharedCore>);

impl Ownership for SingleThread {
    type Cell = RefCell<Core>;

    #[inline(always)]
    fn cell(&self) -> &RefCell<Core> {
        &self.0
    }

    type Guard<'a> = RefMut<'a, Core>;

    #[inline(always)]
    fn core(&self) -> Result<RefMut<'_, Core>> {
        self.0.try_borrow_mut().map_err(|_| ErrorKind::InHandler.into())
    }
}

impl Ownership for MultiThread {
    type Cell = SharedCore;

    fn cell(&self) -> &SharedCore {
        &self.0
    }

    type Guard<'a> = LockedCore<'a>;

    #[inline(always)]
    fn core(&self) -> Result<LockedCore<'_>> {
        self.0.lock()
    }
}

/// Returns true in a handler of an endpoint that this thread opened ([`crate::Endpoint`]): its
/// state is borrowed as long as the handler runs. Handlers of endpoints that threads share are not
/// found.
pub fn is_in_handler() -> bool {
    BUNDLE.with(|bundle| {
        debug_assert!(bundle.get().try_borrow().is_ok(), "no endpoint is being opened");
        bundle.get().borrow().iter().filter_map(Weak::upgrade).any(|core| {
            let free = core.try_borrow_mut();
            debug_assert!(free.as_ref().is_ok_and(|core| !core.restricted) || free.is_err());
            free.is_err()
        })
    })
}
