//! Delivery of an arrived message to the handler that C set for it.

use crate::endpoint_slot::EndpointSlot;
use crate::invoke::{self, Function};
use crate::message::{MessageHead, MessageKind};
use crate::returned;
use crate::token::{self, Running};
use clump_am::{BorrowedEndpoint, Handler, HandlerFailure, Payload, Reason, Token};
use clump_os::sync::Ordering;
use std::cell::Cell;

/// Lets the endpoint in `slot` take messages, for handlers that the program sets later.
pub(crate) fn install(
    inside: &mut BorrowedEndpoint<'_>,
    slot: &'static EndpointSlot,
) -> clump_am::Result<()> {
    for number in 1..=u8::MAX {
        inside.set_handler(Handler(number), move |mut token, words, payload| {
            receive(slot, number, &mut token, words, &payload)
        })?;
    }
    inside.on_returned(move |back| returned::receive(slot, back));
    Ok(())
}

#[inline]
fn receive(
    slot: &'static EndpointSlot,
    number: u8,
    token: &mut Token<'_>,
    words: &[u64],
    payload: &Payload<'_>,
) -> Option<Box<HandlerFailure>> {
    let head = MessageHead::read(words);
    let function = slot.handlers[usize::from(number)].load(Ordering::Relaxed);
    match head {
        Some(head) if !function.is_null() => {
            let failure = match head.kind {
                MessageKind::Short => {
                    let running = running(slot, head, token);
                    // SAFETY: the program set it.
                    token::run(&running, |token| unsafe {
                        invoke::short(function, token, head, words);
                    });
                    None
                }
                MessageKind::Medium => {
                    medium(function, &running(slot, head, token), words, payload)
                }
                MessageKind::Long => {
                    long(function, number, running(slot, head, token), words, payload)
                }
            };
            slot.note_handled();
            failure
        }
        Some(_) => refuse(slot, number, token, Reason::BadHandler, words, payload),
        None => refuse(slot, number, token, Reason::BadArguments, words, payload),
    }
}

#[inline(always)]
fn running<'a, 'b>(
    slot: &'static EndpointSlot,
    head: MessageHead,
    token: &'a mut Token<'b>,
) -> Running<'a, 'b> {
    let (from, request) = (token.from(), token.may_reply());
    let answer = Cell::new(Some(token));
    Running { slot, head, from, answer, request, back: None }
}

#[inline(never)]
fn medium(
    function: Function,
    running: &Running<'_, '_>,
    words: &[u64],
    payload: &Payload<'_>,
) -> Option<Box<HandlerFailure>> {
    let bytes = payload.len();
    // SAFETY: a message is handled inside the endpoint cell; no handler is called here.
    let buffer = unsafe {
        running.slot.own(|own| {
            if own.buffer.len() * 8 < bytes {
                own.buffer.resize(bytes.div_ceil(8), 0);
            }
            own.buffer.as_mut_ptr().cast::<u8>()
        })
    };
    // SAFETY: the buffer is that long, and one message of an endpoint is handled at a time.
    payload.copy_to(unsafe { std::slice::from_raw_parts_mut(buffer, bytes) });
    // SAFETY: the program set it.
    token::run(running, |token| unsafe {
        invoke::bulk(function, token, (buffer, bytes), running.head, words);
    });
    None
}

#[inline(never)]
fn long(
    function: Function,
    number: u8,
    running: Running<'_, '_>,
    words: &[u64],
    payload: &Payload<'_>,
) -> Option<Box<HandlerFailure>> {
    let bytes = payload.len();
    let offset = usize::try_from(payload.offset().unwrap_or(0)).unwrap_or(usize::MAX);
    // SAFETY: as above.
    let (memory, len) = unsafe { running.slot.own(|own| own.segment) };
    // The deposit was inside the segment that the endpoint exports, which never shrinks; the
    // program's segment may be shorter.
    if offset.checked_add(bytes).is_none_or(|end| end > len) {
        let reason = if offset > len { Reason::BadOffset } else { Reason::BadLength };
        let (slot, token) = (running.slot, running.answer.into_inner()?);
        return refuse(slot, number, token, reason, words, payload);
    }
    let at = memory.wrapping_add(offset);
    if bytes != 0 {
        // SAFETY: the program has given this memory for deposits (`AM_SetSeg`).
        payload.copy_to(unsafe { std::slice::from_raw_parts_mut(at, bytes) });
    }
    // SAFETY: the program set it.
    token::run(&running, |token| unsafe {
        invoke::bulk(function, token, (at, bytes), running.head, words);
    });
    None
}

/// Refuses a message that no handler takes: a request is returned to sender, a reply is passed to
/// this endpoint's own handler 0.
#[cold]
fn refuse(
    slot: &'static EndpointSlot,
    number: u8,
    token: &Token<'_>,
    reason: Reason,
    words: &[u64],
    payload: &Payload<'_>,
) -> Option<Box<HandlerFailure>> {
    if token.may_reply() {
        return Some(Box::new(HandlerFailure::Refused(reason)));
    }
    returned::own_reply(slot, number, token.from(), reason, words, payload);
    None
}
