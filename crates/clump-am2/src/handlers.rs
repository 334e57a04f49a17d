//! The handler table.

use crate::endpoint_slot::{EndpointSlot, HANDLERS, Own, ep_t};
use crate::invoke::Function;
use crate::named_endpoint::NamedEndpoint;
use crate::status::{AmFailure, Code, Result, bad, call, give, null};
use clump_os::sync::Ordering;
use std::ffi::c_int;

/// Implements the header's macro `AM_SetHandler`. Handlers may call it too.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_set_handler(endpoint: ep_t, handler: u8, function: Function) -> c_int {
    call(|| {
        let named = NamedEndpoint::read(endpoint)?;
        named.with_own(|own| set(named.slot, own, usize::from(handler), function))
    })
}

/// Implements the header's macro `AM_SetHandlerAny`.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_set_handler_any(
    endpoint: ep_t,
    handler: *mut u8,
    function: Function,
) -> c_int {
    call(|| {
        let named = NamedEndpoint::read(endpoint)?;
        named.with_own(|own| {
            let free = |at: &usize| named.slot.handlers[*at].load(Ordering::Relaxed).is_null();
            let Some(free) = (1..own.handlers).find(free) else {
                let what = format!("all {} entries of the handler table are set", own.handlers);
                return Err(AmFailure::new(Code::Resource, what));
            };
            give(handler, "the place for a handler's index", free as u8)?;
            set(named.slot, own, free, function)
        })
    })
}

fn set(slot: &EndpointSlot, own: &Own, handler: usize, function: Function) -> Result<()> {
    if function.is_null() {
        return Err(null("a handler"));
    }
    if handler >= own.handlers {
        let last = own.handlers - 1;
        return Err(bad(format!("the handler table has indices 0 to {last}, not {handler}")));
    }
    slot.handlers[handler].store(function, Ordering::Relaxed);
    Ok(())
}

/// Implements `AM_GetNumHandlers` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetNumHandlers(endpoint: ep_t, entries: *mut c_int) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?
            .with_own(|own| give(entries, "a number of entries", own.handlers as c_int))
    })
}

/// Implements `AM_SetNumHandlers` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetNumHandlers(endpoint: ep_t, entries: c_int) -> c_int {
    call(|| {
        let named = NamedEndpoint::read(endpoint)?;
        named.with_own(|own| {
            let wanted = usize::try_from(entries).unwrap_or(0);
            if !(1..=HANDLERS).contains(&wanted) {
                let what = format!("a handler table has 1 to {HANDLERS} entries, not {entries}");
                return Err(AmFailure::new(Code::Resource, what));
            }
            own.handlers = wanted;
            for handler in &named.slot.handlers[wanted..] {
                handler.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
            Ok(())
        })
    })
}
