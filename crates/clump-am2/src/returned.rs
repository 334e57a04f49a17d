//! Handler 0: messages returned to sender, and replies that no handler takes.

use crate::endpoint_name::en_t;
use crate::endpoint_slot::EndpointSlot;
use crate::invoke::{self, TokenValue};
use crate::message::{MAX_ARGUMENTS, MessageHead, MessageKind, argument};
use crate::returned_message::ReturnedMessage;
use crate::status::{bad, call, give};
use crate::token::{self, Running};
use clump_am::{Name, Payload, Reason, Returned};
use clump_os::sync::Ordering;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// `EBADENTRY`: nothing is bound to that entry of the translation table.
const BAD_ENTRY: c_int = 2;

/// A returned message, as C sees it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clump_am_returned_t {
    status: c_int,
    opcode: c_int,
    handler: c_int,
    count: c_int,
    arguments: [i32; MAX_ARGUMENTS],
    to: en_t,
    payload: *const c_void,
    bytes: usize,
    offset: usize,
}

/// Converts a reason to the status of `<clump/am2.h>`.
fn status_of(reason: Reason) -> c_int {
    match reason {
        Reason::BadArguments => 1,
        Reason::BadTag => 3,
        Reason::BadHandler => 4,
        Reason::BadOffset => 5,
        Reason::BadLength => 6,
        Reason::NoSuchEndpoint | Reason::EndpointGone => 7,
        Reason::Congestion => 8,
        Reason::PeerLost => 9,
        Reason::ReplyRejected => 10,
    }
}

/// `AM_REQUEST_M` (1) to `AM_REPLY_XFER_M` (6).
fn opcode(kind: MessageKind, reply: bool) -> c_int {
    kind as c_int + if reply { 3 } else { 0 }
}

/// Delivers a message of the endpoint in `slot` that was returned to sender.
pub(crate) fn receive(slot: &'static EndpointSlot, back: &Returned) {
    let head = MessageHead::read(&back.words);
    // Every message of this endpoint has a head.
    let kind = head.map_or(MessageKind::Short, |head| head.kind);
    deliver(
        slot,
        head,
        &ReturnedMessage {
            status: status_of(back.reason),
            opcode: opcode(kind, back.reply),
            handler: back.handler.0,
            words: &back.words,
            payload: &back.payload,
            deposit: back.deposit,
            to: back.dest,
        },
    );
}

/// Delivers a reply that the endpoint in `slot` does not take to its handler 0.
pub(crate) fn own_reply(
    slot: &'static EndpointSlot,
    handler: u8,
    from: Name,
    reason: Reason,
    words: &[u64],
    payload: &Payload<'_>,
) {
    let head = MessageHead::read(words);
    let kind = head.map_or(MessageKind::Short, |head| head.kind);
    let deposit = payload.offset().map(|offset| (offset, payload.len() as u64));
    let bytes = if deposit.is_none() { payload.to_vec() } else { Vec::new() };
    deliver(
        slot,
        head,
        &ReturnedMessage {
            status: status_of(reason),
            opcode: opcode(kind, true),
            handler,
            words,
            payload: &bytes,
            deposit,
            to: from,
        },
    );
}

/// Delivers a request to an unmapped entry to handler 0. The caller is inside the endpoint cell.
#[cold]
pub(crate) fn unbound(
    slot: &'static EndpointSlot,
    handler: u8,
    kind: MessageKind,
    words: &[u64],
    (payload, deposit): (&[u8], Option<(u64, u64)>),
) {
    deliver(
        slot,
        MessageHead::read(words),
        &ReturnedMessage {
            status: BAD_ENTRY,
            opcode: opcode(kind, false),
            handler,
            words,
            payload,
            deposit,
            to: Name::from_bits(0),
        },
    );
}

/// Runs handler 0, or keeps the text for the call that reports it.
fn deliver(slot: &'static EndpointSlot, head: Option<MessageHead>, back: &ReturnedMessage<'_>) {
    run(slot, head, back);
    slot.note_handled();
}

fn run(slot: &'static EndpointSlot, head: Option<MessageHead>, back: &ReturnedMessage<'_>) {
    let function = slot.handlers[0].load(Ordering::Relaxed);
    if function.is_null() {
        let what = format!(
            "a message to {} came back (status {}, opcode {}, handler {}) and handler 0 is not set",
            back.to, back.status, back.opcode, back.handler
        );
        // SAFETY: messages are returned inside the endpoint cell; nothing is called.
        unsafe { slot.own(|own| own.unclaimed = Some(what)) };
        slot.has_unclaimed.store(true, Ordering::Relaxed);
        return;
    }
    let head = head.unwrap_or(MessageHead { kind: MessageKind::Short, count: 0, tag: 0 });
    let answer = Cell::new(None);
    let running = Running { slot, head, from: back.to, answer, request: false, back: Some(back) };
    // SAFETY: the program set it at index 0.
    token::run(&running, |token| unsafe {
        invoke::returned(function, back.status, back.opcode, token);
    });
}

/// Writes the message that handler 0 runs for; documented in the header.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_returned(token: TokenValue, message: *mut clump_am_returned_t) -> c_int {
    call(|| {
        token::with(token, |running| {
            let Some(back) = running.back else {
                return Err(bad(
                    "clump_am_returned is for handler 0, the handler of what came back",
                ));
            };
            let mut arguments = [0; MAX_ARGUMENTS];
            for (at, to) in arguments.iter_mut().enumerate().take(running.head.count) {
                *to = argument(back.words, at);
            }
            let (offset, bytes) = back.deposit.unwrap_or((0, back.payload.len() as u64));
            let payload = if back.payload.is_empty() {
                std::ptr::null()
            } else {
                back.payload.as_ptr().cast()
            };
            let seen = clump_am_returned_t {
                status: back.status,
                opcode: back.opcode,
                handler: c_int::from(back.handler),
                count: running.head.count as c_int,
                arguments,
                to: en_t::of(back.to),
                payload,
                bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
                offset: usize::try_from(offset).unwrap_or(usize::MAX),
            };
            give(message, "the place for a message", seen)
        })
    })
}
