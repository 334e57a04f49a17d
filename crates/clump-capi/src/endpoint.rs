//! Endpoints: opening and closing, names and tags, the translation table, segments for deposits.

use clump::am::{Dest, Endpoint, Events, Name, Tag};
use clump_ffi::border::{guard, guard_or, guard_pointer, hot, to_int};
use clump_ffi::endpoint_handle::{SharedEndpointHandle, ThreadEndpoint, not_in_its_handler};
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::inline::{self, InlineTable};
use clump_ffi::job::{clump_t, with};
use clump_ffi::on_endpoint;
use clump_ffi::slot::Slot;
use clump_ffi::status::clump_status as S;
use std::ffi::{c_int, c_void};

/// An endpoint of a virtual network: it sends and receives messages. A rank has up to 32 at one
/// time, some of which one-sided operations and collectives take.
#[derive(Debug)]
pub struct clump_ep(());

/// The global name of an endpoint: plain data that ranks may send each other. 0 names nothing.
pub type clump_name = u64;

/// The events that end a ::clump_wait.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum clump_events {
    /// A message was handled. The default of an endpoint.
    CLUMP_EVENTS_NOT_EMPTY = 0,
    /// No event but an error: the thread serves its endpoints.
    CLUMP_EVENTS_NONE = 1,
}

/// Opens an endpoint that only the calling thread may use. `tag` is the right to send to it.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT. Closed by ::clump_ep_close, at the end of the
/// thread, or by ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_open(cl: *mut clump_t, tag: u64) -> *mut clump_ep {
    guard_pointer(|| {
        with(cl, |job| {
            let endpoint = Endpoint::open(&job.runtime, Tag(tag)).map_err(Fault::from)?;
            let table = InlineTable::new(endpoint.view()?);
            let slot = Slot::fill(ThreadEndpoint(endpoint, table))?;
            // No other code has the pointer yet.
            Slot::enter::<ThreadEndpoint, _>(slot.pointer::<()>().cast_const(), |mine, slot| {
                inline::allow(mine, &slot.inline);
                Ok(())
            })?;
            Ok(slot.pointer())
        })
    })
}

/// Opens an endpoint that all threads may use. Each call takes a lock; handlers run in any thread
/// that polls, one at a time. Only calls on it poll it: a thread that waits for something else, in
/// a barrier for example, does not poll it, and replies that wait for space are sent by the next
/// call that polls (::clump_drain ensures it).
///
/// It is locked while a handler of it runs; calls of other threads wait. A handler that uses
/// another shared endpoint, whose handler runs in another thread and waits for this one, gets
/// ::CLUMP_ERR_BUSY.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT. Closed by ::clump_ep_close, or by ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_open_shared(cl: *mut clump_t, tag: u64) -> *mut clump_ep {
    guard_pointer(|| {
        with(cl, |job| {
            let endpoint = Endpoint::open_shared(&job.runtime, Tag(tag)).map_err(Fault::from)?;
            Ok(Slot::fill(SharedEndpointHandle(endpoint))?.pointer())
        })
    })
}

/// Closes an endpoint. Messages sent to it that it has not handled are returned to sender; memory
/// that it has exported is freed. Closing a null pointer does nothing.
///
/// Errors: ::CLUMP_ERR_BUSY (inside one of its handlers, or another thread is inside a call),
/// ::CLUMP_ERR_HANDLE, ::CLUMP_ERR_THREAD.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_close(ep: *mut clump_ep) -> c_int {
    guard(|| {
        let pointer: *const () = ep.cast_const().cast();
        match Slot::at(pointer) {
            None if ep.is_null() => {}
            Some(slot) if slot.is::<SharedEndpointHandle>() => {
                drop(Slot::empty_of::<SharedEndpointHandle>(pointer)?);
            }
            _ => drop(Slot::empty_of::<ThreadEndpoint>(pointer)?),
        }
        Ok(0)
    })
}

/// Returns the global name of an endpoint, to send to other ranks; 0 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_name(ep: *const clump_ep) -> clump_name {
    guard_or(0, || on_endpoint!(ep, |endpoint| Ok(endpoint.name().to_bits())))
}

/// Returns the rank of a named endpoint, even if there is no such rank. Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn clump_name_rank(name: clump_name) -> c_int {
    to_int(Name::from_bits(name).rank() as usize)
}

/// Writes the tag that senders need now to `tag`.
///
/// Errors: ::CLUMP_ERR_IN_HANDLER.
///
/// # Safety
/// `tag` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_ep_tag(ep: *mut clump_ep, tag: *mut u64) -> c_int {
    guard(|| {
        let found = on_endpoint!(ep, |endpoint| Ok(endpoint.tag()?.0))?;
        write_to(tag, found, "the place for the tag")?;
        Ok(0)
    })
}

/// Changes the tag: messages with the old tag are refused from now on.
///
/// Errors: ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_set_tag(ep: *mut clump_ep, tag: u64) -> c_int {
    guard(|| {
        on_endpoint!(ep, |endpoint| endpoint.set_tag(Tag(tag)).map_err(Fault::from))?;
        Ok(0)
    })
}

/// Maps an endpoint into the translation table; returns its index there, the destination of
/// requests. Nothing is sent: a wrong name or tag shows when a message is sent (it is returned to
/// sender).
///
/// Errors: ::CLUMP_ERR_IN_HANDLER, ::CLUMP_ERR_SYSTEM.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_map(ep: *mut clump_ep, name: clump_name, tag: u64) -> c_int {
    guard(|| {
        let name = Name::from_bits(name);
        let dest = on_endpoint!(ep, |endpoint| Ok(endpoint.map(&name, Tag(tag))?))?;
        note(ep, dest)
    })
}

/// Maps an endpoint as ::clump_ep_map does; requests to this destination are handled in the order
/// in which they were sent. Otherwise, messages between nodes may overtake each other (those within
/// one node never do).
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_map_ordered(ep: *mut clump_ep, name: clump_name, tag: u64) -> c_int {
    guard(|| {
        let name = Name::from_bits(name);
        let dest = on_endpoint!(ep, |endpoint| Ok(endpoint.map_ordered(&name, Tag(tag))?))?;
        note(ep, dest)
    })
}

/// Unmaps a destination. Messages sent before are still delivered, or returned to sender.
///
/// Errors: ::CLUMP_ERR_DESTINATION, ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_unmap(ep: *mut clump_ep, dest: c_int) -> c_int {
    guard(|| {
        let dest = destination(dest)?;
        on_endpoint!(ep, |endpoint| endpoint.unmap(dest).map_err(Fault::from))?;
        note(ep, dest)?;
        Ok(0)
    })
}

/// Updates the route of a destination for inline functions; returns its index.
fn note(ep: *mut clump_ep, dest: Dest) -> Result<c_int> {
    let pointer: *const () = ep.cast_const().cast();
    let noted = Slot::enter_mine::<ThreadEndpoint, _>(pointer, |mine, slot| {
        inline::note(mine, &slot.inline, dest)
    });
    noted.unwrap_or(Ok(()))?;
    Ok(to_int(dest.0 as usize))
}

/// Converts an index of a translation table.
#[inline(always)]
pub(crate) fn destination(dest: c_int) -> Result<Dest> {
    let index = u32::try_from(dest).map_err(|_| {
        let what = format!("destination {dest} is none: clump_ep_map gave an error, not an index");
        Fault::new(S::CLUMP_ERR_DESTINATION, what)
    })?;
    Ok(Dest(index))
}

/// Exports `bytes` bytes of zeroed memory, into which others deposit by ::clump_request_long and
/// ::clump_reply_long; writes its address to `base`, if that is not null. Once for each endpoint;
/// the memory lives until the endpoint is closed.
///
/// Errors: ::CLUMP_ERR_BUSY (it has a segment already), ::CLUMP_ERR_LIMIT, ::CLUMP_ERR_SYSTEM,
/// ::CLUMP_ERR_IN_HANDLER.
///
/// # Safety
/// `base` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_ep_export(
    ep: *mut clump_ep,
    bytes: u64,
    base: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let segment = on_endpoint!(ep, |endpoint| Ok(endpoint.export_segment(bytes)?))?;
        if !base.is_null() {
            // SAFETY: the caller gave a place to write to. The endpoint keeps the segment mapped.
            unsafe { base.write(segment.base().as_ptr().cast()) };
        }
        Ok(0)
    })
}

/// Returns the maximum number of bytes of a medium message; 0 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_max_medium(ep: *const clump_ep) -> usize {
    guard_or(0, || on_endpoint!(ep, |endpoint| Ok(endpoint.max_medium())))
}

/// Sets the events that end a ::clump_wait of this endpoint, which must not be shared.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such events, or the endpoint is shared).
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_set_events(ep: *mut clump_ep, events: c_int) -> c_int {
    guard(|| {
        let events = match events {
            0 => Events::NotEmpty,
            1 => Events::None,
            other => return Err(range("events", other, "one of clump_events")),
        };
        if Slot::at(ep.cast_const().cast()).is_some_and(Slot::is::<SharedEndpointHandle>) {
            let what = "a shared endpoint waits for messages only; open it with clump_ep_open";
            return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
        }
        Slot::enter::<ThreadEndpoint, _>(ep.cast_const().cast(), |mine, _| {
            mine.0.set_event_mask(events);
            Ok(0)
        })
    })
}

/// Handles the messages that have arrived, without waiting; returns how many were handled.
///
/// Errors: ::CLUMP_ERR_HANDLER_FAILED, ::CLUMP_ERR_RETURNED, ::CLUMP_ERR_DAMAGED,
/// ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_poll(ep: *mut clump_ep) -> c_int {
    hot(|| match Slot::here(ep.cast_const().cast()) {
        Some(mine) => Ok(to_int(mine.0.poll()?)),
        None => poll_slowly(ep),
    })
}

/// Slow path of [`clump_poll`], kept out of line.
#[cold]
#[inline(never)]
fn poll_slowly(ep: *const clump_ep) -> Result<c_int> {
    on_endpoint!(ep, |endpoint| Ok(to_int(endpoint.poll()?)))
}

/// Waits until at least one message was handled (or as set by ::clump_ep_set_events); returns how
/// many were. Sleeps when that takes long. All endpoints that the calling thread opened for itself
/// are polled meanwhile.
///
/// Errors: as ::clump_poll; ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn clump_wait(ep: *mut clump_ep) -> c_int {
    guard(|| {
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            Ok(to_int(endpoint.wait()?))
        })
    })
}

/// Polls until `done(argument)` is not 0; sleeps when that takes long, and evaluates it again at
/// the latest after 10 ms. `done` may call functions of clump, except those that wait; it must not
/// leave by `longjmp` or an exception.
///
/// Errors: as ::clump_wait; ::CLUMP_ERR_ARGUMENT (`done` is null).
///
/// # Safety
/// `done` takes `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_poll_until(
    ep: *mut clump_ep,
    done: Option<unsafe extern "C-unwind" fn(argument: *mut c_void) -> c_int>,
    argument: *mut c_void,
) -> c_int {
    guard(|| {
        let done = done.ok_or_else(|| null("the condition to wait for"))?;
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            // SAFETY: the caller gave both together.
            endpoint.poll_until(|| unsafe { done(argument) } != 0)?;
            Ok(0)
        })
    })
}

/// Waits until every request that this endpoint has sent was handled or returned to sender: its
/// handler has returned at the target, or the one of ::clump_ep_on_returned here. Requests that
/// handlers of this endpoint have deferred count. It does not wait for replies, nor for those to
/// these requests.
///
/// If handlers send no requests, this and then ::clump_barrier on all ranks is the end of a phase:
/// all messages sent in it were handled.
///
/// Errors: as ::clump_wait.
#[unsafe(no_mangle)]
pub extern "C" fn clump_drain(ep: *mut clump_ep) -> c_int {
    guard(|| {
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            endpoint.drain()?;
            Ok(0)
        })
    })
}

/// Polls once; returns 1 if ::clump_drain would return without waiting, else 0. Does not wait.
///
/// Errors: as ::clump_poll.
#[unsafe(no_mangle)]
pub extern "C" fn clump_try_drain(ep: *mut clump_ep) -> c_int {
    guard(|| {
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            Ok(c_int::from(endpoint.try_drain()?))
        })
    })
}

/// Holds requests of others back until ::clump_ep_release: no handler of this endpoint runs for a
/// request, and in the end their senders find no space. Replies, and messages returned to sender,
/// are handled, so that waiting calls still make progress. For a rank that is still inside a
/// collective while others, which have left it, send requests that belong after it.
///
/// A rank that waits for the effect of a held request waits in vain, and ::clump_drain of another
/// rank waits until requests are released. On a node with proxies, and only where this endpoint has
/// more senders than lanes, replies from other nodes may be held back with requests.
///
/// Errors: ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_hold(ep: *mut clump_ep) -> c_int {
    guard(|| {
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            endpoint.hold()?;
            Ok(0)
        })
    })
}

/// Lets requests be handled again, from the next poll on. Does nothing if they are not held.
///
/// Errors: ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_release(ep: *mut clump_ep) -> c_int {
    guard(|| {
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            endpoint.release()?;
            Ok(0)
        })
    })
}

/// Writes a result to a place of the program, which must not be null.
pub(crate) fn write_to<T>(place: *mut T, value: T, what: &str) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller gave a place to write to, and it is not null.
    unsafe { place.write(value) };
    Ok(())
}
