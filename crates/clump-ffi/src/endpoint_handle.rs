//! Endpoints behind a program's pointers: of one thread, or shared by threads.

use crate::crossing::Crossing;
use crate::fault::{Fault, Result};
use crate::inline_state::InlineTable;
use crate::slot_entry::{Object, Slot};
use clump::am::{Endpoint, SharedEndpoint};

/// An endpoint of one thread.
#[derive(Debug)]
pub struct ThreadEndpoint(pub Endpoint, pub InlineTable);

/// An endpoint that threads share.
#[derive(Debug)]
pub struct SharedEndpointHandle(pub SharedEndpoint);

impl Object for ThreadEndpoint {
    const KIND: u32 = 2;
    const NAME: &'static str = "endpoint (clump_ep)";
}

impl Object for SharedEndpointHandle {
    const KIND: u32 = 3;
    const NAME: &'static str = "endpoint (clump_ep)";
    const BOUND: bool = false;
}

impl Slot {
    /// Returns the object of a slot that is an endpoint of this thread with no handler running, by
    /// a single comparison. For calls that run no code of the program except its handlers, in which
    /// the endpoint cannot be closed.
    #[inline(always)]
    pub fn here<'a>(pointer: *const ()) -> Option<&'a ThreadEndpoint> {
        let slot = Self::at(pointer).filter(|slot| slot.inline.is_here())?;
        // SAFETY: invariant 2, and see above: what inline functions may use is an open endpoint of
        // this thread.
        Some(unsafe { slot.object::<ThreadEndpoint>() })
    }
}

/// Runs `$body` with an endpoint of either kind, from outside of its handlers. `$endpoint` is an
/// `Endpoint` or a `SharedEndpoint`.
#[macro_export]
macro_rules! on_endpoint {
    ($ep:expr, |$endpoint:ident, $slot:ident| $body:expr) => {{
        let pointer: *const () = $ep.cast();
        match $crate::slot::Slot::enter_mine::<$crate::endpoint_handle::ThreadEndpoint, _>(
            pointer,
            |mine, $slot| {
                let $endpoint = &mine.0;
                $body
            },
        ) {
            Some(done) => done,
            // Shared, or an error.
            None => $crate::endpoint_handle::enter_shared(pointer, |ours, $slot| {
                let $endpoint = &ours.0;
                $body
            })
            .map_err(|fault| $crate::endpoint_handle::why_not(pointer, fault)),
        }
    }};
    ($ep:expr, |$endpoint:ident| $body:expr) => {
        $crate::on_endpoint!($ep, |$endpoint, _slot| $body)
    };
}

/// Uses an endpoint that threads share, unless that would deadlock.
///
/// # Errors
/// There is no such endpoint; inside one of its handlers, or of one that waits for it.
#[inline(always)]
pub fn enter_shared<R>(
    pointer: *const (),
    run: impl FnOnce(&SharedEndpointHandle, &'static Slot) -> Result<R>,
) -> Result<R> {
    Slot::enter::<SharedEndpointHandle, _>(pointer, |ours, slot| {
        not_in_its_handler(slot)?;
        let _crossing = Crossing::begin(slot)?;
        run(ours, slot)
    })
}

/// Returns the error for an endpoint that is neither this thread's nor shared.
#[cold]
pub fn why_not(pointer: *const (), fault: Fault) -> Fault {
    match Slot::at(pointer) {
        Some(slot) if slot.is::<ThreadEndpoint>() => Slot::foreign::<ThreadEndpoint>(pointer, slot),
        _ => fault,
    }
}

/// Checks that no handler of `slot` runs in this thread: a shared endpoint would wait for itself.
///
/// # Errors
/// Inside a handler of `slot`.
#[inline(always)]
pub fn not_in_its_handler(slot: &Slot) -> Result<()> {
    if slot.is_handling_here() { Err(in_handler()) } else { Ok(()) }
}

#[cold]
fn in_handler() -> Fault {
    clump_am::Error::from(clump_am::ErrorKind::InHandler).into()
}
