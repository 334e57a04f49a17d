//! Requests: the implementation of the header's `AM_RequestN`, `AM_RequestIN` and
//! `AM_RequestXferN`.

use crate::endpoint_slot::ep_t;
use crate::limits::{checked_bytes, max_long, max_medium};
use crate::message::{MAX_ARGUMENTS, MessageKind, Packed};
use crate::named_endpoint::NamedEndpoint;
use crate::status::{AmFailure, Code, Result, bad, call, call_hot};
use crate::{bundle, returned, token};
use clump_am::{Handler, LayerPayload, SendAttempt};
use std::ffi::{c_int, c_void};

/// Packs the arguments that C gave.
///
/// # Safety
/// `arguments` leads to `count` of them, or is null.
#[inline(always)]
pub(crate) unsafe fn pack(
    words: &mut Packed,
    kind: MessageKind,
    count: u32,
    arguments: *const i32,
) -> Result<()> {
    // SAFETY: the caller's.
    if unsafe { words.fill(kind, count, arguments) } { Ok(()) } else { Err(too_many(count)) }
}

#[cold]
fn too_many(count: u32) -> AmFailure {
    bad(format!("a message has 0 to {MAX_ARGUMENTS} arguments, not {count}, at a place in memory"))
}

#[cold]
fn in_handler() -> AmFailure {
    let what = "a request was sent inside a handler, which may only answer with AM_Reply";
    AmFailure::new(Code::NotSent, what)
}

/// Sends, and polls the endpoint. Waits for space if `wait`.
#[inline(always)]
fn request(
    endpoint: ep_t,
    index: c_int,
    handler: u8,
    (kind, parcel): (MessageKind, LayerPayload<'_>),
    words: &mut Packed,
    wait: bool,
) -> Result<()> {
    if token::is_handling() {
        return Err(in_handler());
    }
    let named = NamedEndpoint::read(endpoint)?;
    let mut inside = named.enter()?;
    // SAFETY: this thread is inside; nothing is called.
    let found = unsafe { named.slot.own(|own| own.destination(index, &mut inside)) }?;
    let Some((dest, tag)) = found else {
        let carried = match parcel {
            LayerPayload::Short => (&[][..], None),
            LayerPayload::Medium(payload) => (payload, None),
            LayerPayload::Long(offset, payload) => (&[][..], Some((offset, payload.len() as u64))),
        };
        returned::unbound(named.slot, handler, kind, words.tagged(0), carried);
        drop(inside);
        return named.slot.check_claimed();
    };
    let (to, words) = ((dest, Handler(handler)), words.tagged(tag));
    if wait {
        inside.send(&bundle::All, to, words, parcel)?;
    } else {
        let sent = inside.try_send(to, words, parcel)?;
        inside.poll()?;
        drop(inside);
        if sent == SendAttempt::Full {
            let what = "there is no room for this message now; poll, and send it again";
            return Err(AmFailure::new(Code::NotSent, what));
        }
    }
    named.slot.check_claimed()
}

/// `AM_RequestN`: a short request with `count` arguments.
///
/// # Safety
/// `arguments` leads to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_am_request(
    endpoint: ep_t,
    index: c_int,
    handler: u8,
    count: u32,
    arguments: *const i32,
) -> c_int {
    call_hot(|| {
        let mut words = Packed::new();
        // SAFETY: the caller's.
        unsafe { pack(&mut words, MessageKind::Short, count, arguments) }?;
        request(
            endpoint,
            index,
            handler,
            (MessageKind::Short, LayerPayload::Short),
            &mut words,
            true,
        )
    })
}

/// `AM_RequestIN`: a request with a payload that is copied.
///
/// # Safety
/// `arguments` leads to `count` of them, and `source` to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_am_request_medium(
    endpoint: ep_t,
    index: c_int,
    handler: u8,
    source: *const c_void,
    bytes: usize,
    count: u32,
    arguments: *const i32,
) -> c_int {
    call(|| {
        let mut words = Packed::new();
        // SAFETY: the caller's.
        unsafe { pack(&mut words, MessageKind::Medium, count, arguments) }?;
        // SAFETY: the caller's.
        let payload = unsafe { checked_bytes(source, bytes, max_medium(), "AM_MaxMedium") }?;
        let what = (MessageKind::Medium, LayerPayload::Medium(payload));
        request(endpoint, index, handler, what, &mut words, true)
    })
}

/// `AM_RequestXferN` and, if not `wait`, `AM_RequestXferAsyncN`: a request whose payload is
/// deposited in the target's segment.
///
/// # Safety
/// As for [`clump_am_request_medium`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_am_request_long(
    endpoint: ep_t,
    index: c_int,
    offset: usize,
    handler: u8,
    source: *const c_void,
    bytes: usize,
    wait: c_int,
    count: u32,
    arguments: *const i32,
) -> c_int {
    call(|| {
        let mut words = Packed::new();
        // SAFETY: the caller's.
        unsafe { pack(&mut words, MessageKind::Long, count, arguments) }?;
        // SAFETY: the caller's.
        let payload = unsafe { checked_bytes(source, bytes, max_long(), "AM_MaxLong") }?;
        let what = (MessageKind::Long, LayerPayload::Long(offset as u64, payload));
        request(endpoint, index, handler, what, &mut words, wait != 0)
    })
}
