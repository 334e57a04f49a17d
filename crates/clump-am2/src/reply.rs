//! Replies: the implementation of the header's `AM_ReplyN`, `AM_ReplyIN` and `AM_ReplyXferN`.

use crate::invoke::TokenValue;
use crate::limits::{checked_bytes, max_long, max_medium};
use crate::message::{MessageKind, Packed};
use crate::send::pack;
use crate::status::{AmFailure, Code, Result, bad, call, call_hot};
use crate::token;
use clump_am::{Handler, LayerPayload};
use std::ffi::{c_int, c_void};

/// Replies to the request of `token` once.
#[inline(always)]
fn reply(
    token: TokenValue,
    handler: u8,
    parcel: LayerPayload<'_>,
    words: &mut Packed,
) -> Result<()> {
    token::with(token, |running| {
        if !running.request {
            let what = "a reply cannot be answered, and neither can what came back";
            return Err(AmFailure::new(Code::BadArg, what));
        }
        let Some(token) = running.answer.take() else {
            return Err(bad("this request has been answered; each is at most once"));
        };
        Ok(token.take_reply().answer(Handler(handler), words.tagged(running.head.tag), parcel)?)
    })
}

/// `AM_ReplyN`: a short reply with `count` arguments.
///
/// # Safety
/// `arguments` leads to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_am_reply(
    token: TokenValue,
    handler: u8,
    count: u32,
    arguments: *const i32,
) -> c_int {
    call_hot(|| {
        let mut words = Packed::new();
        // SAFETY: the caller's.
        unsafe { pack(&mut words, MessageKind::Short, count, arguments) }?;
        reply(token, handler, LayerPayload::Short, &mut words)
    })
}

/// `AM_ReplyIN`: a reply with a payload that is copied.
///
/// # Safety
/// `arguments` leads to `count` of them, and `source` to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_am_reply_medium(
    token: TokenValue,
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
        reply(token, handler, LayerPayload::Medium(payload), &mut words)
    })
}

/// `AM_ReplyXferN`: a reply whose payload is deposited in the requester's segment.
///
/// # Safety
/// As for [`clump_am_reply_medium`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_am_reply_long(
    token: TokenValue,
    offset: usize,
    handler: u8,
    source: *const c_void,
    bytes: usize,
    count: u32,
    arguments: *const i32,
) -> c_int {
    call(|| {
        let mut words = Packed::new();
        // SAFETY: the caller's.
        unsafe { pack(&mut words, MessageKind::Long, count, arguments) }?;
        // SAFETY: the caller's.
        let payload = unsafe { checked_bytes(source, bytes, max_long(), "AM_MaxLong") }?;
        reply(token, handler, LayerPayload::Long(offset as u64, payload), &mut words)
    })
}
