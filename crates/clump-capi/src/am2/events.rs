//! Polling, and waiting for events.

use super::bundle::{Bundle, Named, eb_t};
use super::status::{Result, bad, call, give, in_handler};
use super::{start, token};
use clump_am::{ErrorKind, WaitFor, block_on};
use clump_os::sync::Ordering;
use clump_shm::rank::Waiting;
use std::ffi::c_int;

/// `AM_NOEVENTS`: nothing is an event.
const NO_EVENTS: u32 = 0;
/// `AM_NOTEMPTY`: a message is.
const NOT_EMPTY: u32 = 1;

/// See `AM_Poll` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn AM_Poll(bundle: eb_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_Poll"));
        }
        let bundle = Named::read(bundle)?.bundle;
        for slot in bundle.members() {
            if !slot.berth.is_mine() {
                bundle.bind()?;
            }
            match slot.berth.try_enter() {
                Ok(mut inside) => {
                    inside.poll()?;
                }
                // Another thread polls it, or has just freed it.
                Err(error)
                    if matches!(error.kind(), ErrorKind::OtherThread | ErrorKind::NoEndpoint) => {}
                Err(error) => return Err(error.into()),
            }
            slot.check_claimed()?;
        }
        Ok(())
    })
}

/// See `AM_SetEventMask` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetEventMask(bundle: eb_t, mask: c_int) -> c_int {
    call(|| {
        let bundle = Named::read(bundle)?.bundle;
        bundle.check_thread()?;
        let known = u32::try_from(mask).ok().filter(|mask| [NO_EVENTS, NOT_EMPTY].contains(mask));
        let mask = known.ok_or_else(|| {
            bad(format!("an event mask is AM_NOEVENTS or AM_NOTEMPTY, not {mask}"))
        })?;
        bundle.mask.store(mask, Ordering::Relaxed);
        Ok(())
    })
}

/// See `AM_GetEventMask` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetEventMask(bundle: eb_t, mask: *mut c_int) -> c_int {
    call(|| {
        let bundle = Named::read(bundle)?.bundle;
        give(mask, "the place for a mask", bundle.mask.load(Ordering::Relaxed) as c_int)
    })
}

/// See `AM_WaitSema` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn AM_WaitSema(bundle: eb_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_WaitSema"));
        }
        let named = Named::read(bundle)?;
        wait(named)?;
        named.bundle.check_claimed()
    })
}

fn wait(named: Named) -> Result<()> {
    let bundle = named.bundle;
    if bundle.mask.load(Ordering::Relaxed) == NO_EVENTS {
        return Err(bad(
            "nothing would end this wait: the mask is AM_NOEVENTS; see AM_SetEventMask",
        ));
    }
    bundle.bind()?;
    let context = start::context()?;
    let mut event = Event { bundle, named, before: bundle.handled() };
    block_on(&context, bundle, &mut event)?;
    named.check()
}

/// The wait for an event of a bundle's mask.
struct Event {
    bundle: &'static Bundle,
    named: Named,
    /// Messages that had been handled when it began.
    before: u64,
}

impl WaitFor for Event {
    fn done(&mut self) -> clump_am::Result<bool> {
        let masked = self.bundle.mask.load(Ordering::Relaxed) == NO_EVENTS;
        // A bundle that another thread frees has no events any more.
        let freed = self.named.check().is_err();
        Ok(freed || !masked && self.bundle.handled() != self.before)
    }

    fn waiting(&self) -> Waiting {
        Waiting::Message
    }
}
