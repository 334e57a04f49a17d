//! Requests of all kinds, as C sends them.

use crate::endpoint::{clump_ep, destination};
use crate::handler_number::number;
use clump::am::SendAttempt;
use clump_ffi::border::{guard, hot, to_int};
use clump_ffi::endpoint_handle::{ThreadEndpoint, not_in_its_handler};
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::on_endpoint;
use clump_ffi::slot::Slot;
use clump_ffi::status::clump_status as S;
use std::ffi::{c_int, c_void};

/// Maximum number of words of a message.
pub const CLUMP_MAX_WORDS: c_int = 8;

const _: () = assert!(CLUMP_MAX_WORDS as usize == clump_am::MAX_ARGUMENTS);

/// The words of a message.
///
/// # Safety
/// `given` is null, or has that many words while the reference is used.
#[inline(always)]
pub(crate) unsafe fn words<'a>(given: *const u64, count: c_int) -> Result<&'a [u64]> {
    if count == 0 {
        return Ok(&[]);
    }
    if !(0..=CLUMP_MAX_WORDS).contains(&count) || given.is_null() {
        return Err(bad_words(given, count));
    }
    // SAFETY: by the function's own.
    Ok(unsafe { std::slice::from_raw_parts(given, count as usize) })
}

#[cold]
fn bad_words(given: *const u64, count: c_int) -> Fault {
    match usize::try_from(count) {
        Err(_) => range("a number of words", count, "from 0 to 8"),
        Ok(_) if given.is_null() => null("words"),
        Ok(count) => clump_am::Error::from(clump_am::ErrorKind::TooManyWords(count)).into(),
    }
}

/// The payload of a message.
///
/// # Safety
/// `given` is null, or has that many bytes while the reference is used.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(given: *const c_void, count: usize) -> Result<&'a [u8]> {
    if count == 0 {
        return Ok(&[]);
    }
    if given.is_null() {
        return Err(null("a payload"));
    }
    if isize::try_from(count).is_err() {
        return Err(Fault::new(
            S::CLUMP_ERR_ARGUMENT,
            "the program gave a payload longer than memory",
        ));
    }
    // SAFETY: by the function's own.
    Ok(unsafe { std::slice::from_raw_parts(given.cast(), count) })
}

/// A buffer to write bytes to.
///
/// # Safety
/// `given` is null, or has space for that many bytes, which nothing else uses while the reference
/// is used.
pub(crate) unsafe fn room<'a>(given: *mut c_void, count: usize) -> Result<&'a mut [u8]> {
    if count == 0 {
        return Ok(&mut []);
    }
    if given.is_null() {
        return Err(null("room for bytes"));
    }
    if isize::try_from(count).is_err() {
        return Err(range("a number of bytes", count, "what fits into memory"));
    }
    // SAFETY: by the function's own.
    Ok(unsafe { std::slice::from_raw_parts_mut(given.cast(), count) })
}

/// Sends a short request: `nwords` words (at most 8) to `handler` of `dest`. Polls, and waits while
/// there is no space, for at most `CLUMP_SEND_TIMEOUT_MS`. ::clump_request is easier to write.
///
/// Errors: ::CLUMP_ERR_DESTINATION, ::CLUMP_ERR_TOO_LONG, ::CLUMP_ERR_IN_HANDLER (use
/// ::clump_defer); while it waits for space ::CLUMP_ERR_RANK_DIED and the errors of ::clump_poll.
/// After an error nothing was sent. The error of a handler that runs in the poll after the message
/// was sent is one of the next ::clump_poll, or of another call that polls. A request that the
/// target refuses is returned to sender (::clump_ep_on_returned).
///
/// # Safety
/// `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_request_words(
    ep: *mut clump_ep,
    dest: c_int,
    handler: c_int,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    hot(|| {
        // SAFETY: the caller's.
        let words = unsafe { words(given, nwords) }?;
        let (dest, handler) = (destination(dest)?, number(handler)?);
        on_endpoint!(ep, |endpoint| {
            endpoint.request_copied(dest, handler, words)?;
            Ok(0)
        })
    })
}

/// Called by inlined requests alone, after they have put a message into a lane of the target: rings
/// the doorbell if `ring` is not 0, because the target is not polling that lane now, and polls if
/// `poll` is not 0. Returns how many messages were handled. Errors of that poll are reported by the
/// next one.
///
/// Errors: ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_request_pushed(
    ep: *mut clump_ep,
    dest: c_int,
    ring: c_int,
    poll: c_int,
) -> c_int {
    hot(|| {
        let dest = destination(dest)?;
        Slot::enter::<ThreadEndpoint, _>(ep.cast_const().cast(), |mine, _| {
            Ok(to_int(mine.0.after_push(dest, ring != 0, poll != 0)?))
        })
    })
}

/// Sends a short request if there is space now; returns 1 if it was sent, 0 if there is none. Does
/// not poll.
///
/// Errors: as ::clump_request_words.
///
/// # Safety
/// `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_try_request_words(
    ep: *mut clump_ep,
    dest: c_int,
    handler: c_int,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let words = unsafe { words(given, nwords) }?;
        let (dest, handler) = (destination(dest)?, number(handler)?);
        on_endpoint!(ep, |endpoint| {
            let sent = endpoint.try_request(dest, handler, words)?;
            Ok(c_int::from(sent == SendAttempt::Sent))
        })
    })
}

/// Sends words and a payload of at most ::clump_max_medium bytes, which is copied: it may be reused
/// when this returns. ::clump_request_bulk is easier to write.
///
/// Errors: as ::clump_request_words.
///
/// # Safety
/// `payload` has `payload_bytes` bytes, `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_request_bulk_words(
    ep: *mut clump_ep,
    dest: c_int,
    handler: c_int,
    payload: *const c_void,
    payload_bytes: usize,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let (words, payload) = unsafe { (words(given, nwords)?, bytes(payload, payload_bytes)?) };
        let (dest, handler) = (destination(dest)?, number(handler)?);
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            endpoint.request_bulk(dest, handler, payload, words)?;
            Ok(0)
        })
    })
}

/// Sends words and a payload if there is space now; returns 1 if it was sent, 0 if there is none.
/// Does not poll. Otherwise as ::clump_request_bulk_words; ::clump_try_request_bulk is easier to
/// write.
///
/// Errors: as ::clump_request_words.
///
/// # Safety
/// `payload` has `payload_bytes` bytes, `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_try_request_bulk_words(
    ep: *mut clump_ep,
    dest: c_int,
    handler: c_int,
    payload: *const c_void,
    payload_bytes: usize,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let (words, payload) = unsafe { (words(given, nwords)?, bytes(payload, payload_bytes)?) };
        let (dest, handler) = (destination(dest)?, number(handler)?);
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            let sent = endpoint.try_request_bulk(dest, handler, payload, words)?;
            Ok(c_int::from(sent == SendAttempt::Sent))
        })
    })
}

/// Deposits a payload of any length at `offset` bytes of the target's segment (::clump_ep_export),
/// and then runs the handler there. The payload may be reused when this returns.
/// ::clump_request_long is easier to write.
///
/// Errors: as ::clump_request_words. A deposit that does not fit into the segment is returned to
/// sender.
///
/// # Safety
/// `payload` has `payload_bytes` bytes, `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_request_long_words(
    ep: *mut clump_ep,
    dest: c_int,
    handler: c_int,
    offset: u64,
    payload: *const c_void,
    payload_bytes: usize,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let (words, payload) = unsafe { (words(given, nwords)?, bytes(payload, payload_bytes)?) };
        let (dest, handler) = (destination(dest)?, number(handler)?);
        on_endpoint!(ep, |endpoint, slot| {
            not_in_its_handler(slot)?;
            endpoint.request_long(dest, handler, offset, payload, words)?;
            Ok(0)
        })
    })
}
