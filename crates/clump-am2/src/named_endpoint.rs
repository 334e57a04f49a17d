//! Endpoints that C names by their handles.

use crate::endpoint_slot::{EndpointSlot, KIND, Own, ep_t};
use crate::job_context::refuse;
use crate::status::Result;
use clump_am::BorrowedEndpoint;
use clump_os::sync::Ordering;

/// An endpoint that C named: its table entry, and the expected generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedEndpoint {
    pub(crate) slot: &'static EndpointSlot,
    generation: u32,
}

impl NamedEndpoint {
    /// Reads a handle.
    #[inline(always)]
    pub(crate) fn read(endpoint: ep_t) -> Result<Self> {
        let bits = endpoint.addr();
        let generation = (bits >> 16) as u32;
        match EndpointSlot::at(bits & 0xff) {
            Some(slot) if bits >> 8 & 0xff == KIND && bits >> 48 == 0 => {
                let named = Self { slot, generation };
                named.check().map(|()| named)
            }
            _ => Err(refuse("an endpoint")),
        }
    }

    #[inline(always)]
    pub(crate) fn check(&self) -> Result<()> {
        // The entry may have been emptied and filled again between two reads by a thread that is
        // not inside.
        if self.generation & 1 == 1
            && self.slot.generation.load(Ordering::Relaxed) == self.generation
        {
            Ok(())
        } else {
            Err(refuse("an endpoint"))
        }
    }

    /// Enters the endpoint cell to send, receive or change state that handlers may not change.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<BorrowedEndpoint<'static>> {
        if !self.slot.cell.is_mine() {
            self.slot.bundle()?.bind()?;
        }
        let inside = self.slot.cell.enter()?;
        self.check()?;
        Ok(inside)
    }

    /// Enters the endpoint cell to read or change something, whichever thread owns the bundle: one
    /// thread may set up an endpoint that another will use. A handler does not wait for a thread
    /// that is inside, which may wait for it.
    pub(crate) fn visit(&self) -> Result<BorrowedEndpoint<'static>> {
        let cell = &self.slot.cell;
        let inside =
            if clump_ffi::thread::is_handling() { cell.try_enter()? } else { cell.enter()? };
        self.check()?;
        Ok(inside)
    }

    /// Runs `look` with the data of the endpoint, inside its handlers too.
    pub(crate) fn with_own<R>(&self, look: impl FnOnce(&mut Own) -> Result<R>) -> Result<R> {
        let _inside = if self.slot.cell.is_inside() { None } else { Some(self.visit()?) };
        // SAFETY: inside, in a handler or since just now; no `look` calls a handler.
        unsafe { self.slot.own(look) }
    }
}
