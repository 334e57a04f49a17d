//! Tokens: the message that a handler of this thread is called with.

use crate::endpoint_name::en_t;
use crate::endpoint_slot::{EndpointSlot, ep_t, handle_of};
use crate::invoke::TokenValue;
use crate::message::MessageHead;
use crate::returned_message::ReturnedMessage;
use crate::status::{Result, bad, call, give};
use clump_am::{Name, Token};
use std::cell::Cell;
use std::ffi::c_int;

/// A running handler and its message.
pub(crate) struct Running<'a, 'b> {
    pub(crate) slot: &'static EndpointSlot,
    pub(crate) head: MessageHead,
    pub(crate) from: Name,
    /// The right to reply, until it is used; never present for a returned message. A reference to
    /// the incoming token: a copy of data just written in smaller stores would wait until all of
    /// them have reached the cache.
    pub(crate) answer: Cell<Option<&'a mut Token<'b>>>,
    /// True for a request, even after the reply.
    pub(crate) request: bool,
    /// The returned message, in handler 0.
    pub(crate) back: Option<&'a ReturnedMessage<'a>>,
}

thread_local! {
    /// The handler that runs in this thread, and the number of its token.
    static RUNNING: Cell<(*const Running<'static, 'static>, usize)> =
        const { Cell::new((std::ptr::null(), 0)) };
}

/// Returns true if a handler runs in this thread.
#[inline(always)]
pub(crate) fn is_handling() -> bool {
    !RUNNING.get().0.is_null()
}

/// Restores the handler that ran before, even if the handler unwinds.
struct Restore(*const Running<'static, 'static>);

impl Drop for Restore {
    #[inline(always)]
    fn drop(&mut self) {
        RUNNING.set((self.0, RUNNING.get().1));
    }
}

/// Number of bits of a token that name its thread.
const THREAD_BITS: u32 = 16;

/// Runs `handler` with a token for `running`.
#[inline(always)]
pub(crate) fn run(running: &Running<'_, '_>, handler: impl FnOnce(TokenValue)) {
    let (before, last) = RUNNING.get();
    let number = last.wrapping_add(1);
    let thread = clump_am::this_thread() as usize & ((1 << THREAD_BITS) - 1);
    let value = number << THREAD_BITS | thread;
    let erased: *const Running<'_, '_> = running;
    RUNNING.set((erased.cast(), number));
    let _restore = Restore(before);
    handler(std::ptr::without_provenance_mut(value));
}

/// Forgets the running handler in this thread, the only one of a child by `fork`.
pub(crate) fn abandon() {
    RUNNING.set((std::ptr::null(), 0));
}

/// Runs `look` with the message of a token.
#[inline(always)]
pub(crate) fn with<R>(
    token: TokenValue,
    look: impl FnOnce(&Running<'_, '_>) -> Result<R>,
) -> Result<R> {
    let (running, number) = RUNNING.get();
    let thread = clump_am::this_thread() as usize & ((1 << THREAD_BITS) - 1);
    if running.is_null() || token.addr() != (number << THREAD_BITS | thread) {
        return Err(bad(
            "the program gave something as a token that is none: a token is valid inside the handler that \
             is called with it, and in its thread",
        ));
    }
    // SAFETY: invariant 3: `run` is on this thread's stack as long as the pointer is there, and so
    // is what it points to; the lifetime is that of this call.
    look(unsafe { &*running })
}

/// Implements `AM_GetSourceEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetSourceEndpoint(token: TokenValue, name: *mut en_t) -> c_int {
    call(|| with(token, |running| give(name, "an endpoint's name", en_t::of(running.from))))
}

/// Implements `AM_GetDestEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetDestEndpoint(token: TokenValue, endpoint: *mut ep_t) -> c_int {
    call(|| with(token, |running| give(endpoint, "an endpoint", handle_of(running.slot))))
}

/// Implements `AM_GetMsgTag` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetMsgTag(token: TokenValue, tag: *mut u64) -> c_int {
    call(|| with(token, |running| give(tag, "a tag", running.head.tag)))
}
