//! Handlers in C: how a message reaches them, and messages returned to sender.

use crate::endpoint::{clump_ep, clump_name};
use crate::handler_number::number;
use crate::token::{Live, clump_token};
use clump::am::{HandlerFailure, Payload, Returned, Token};
use clump_ffi::border::guard;
use clump_ffi::endpoint_handle::{
    SharedEndpointHandle, ThreadEndpoint, enter_shared, not_in_its_handler,
};
use clump_ffi::fault::{null, range};
use clump_ffi::slot::Slot;
use clump_ffi::thread::{Handling, ThreadState};
use clump_os::sync::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};

/// A function of the program for a message: `words` are its `nwords` words (0 to 8), `payload` its
/// `bytes` bytes, none in short messages. The payload of a medium message is at a multiple of 64
/// only if it came from this node, that of a long one in the endpoint's segment; both may be
/// written by their sender's process at any time. `token` and all of these are valid until the
/// handler returns.
///
/// A handler may reply once (::clump_reply), queue requests (::clump_defer), and use other
/// endpoints; it must not wait for messages of its own. It must return. A handler that leaves by
/// `longjmp` leaves its endpoint inside a handler for good (all calls fail with
/// ::CLUMP_ERR_IN_HANDLER); one that leaves by a C++ exception ends the process; one that calls
/// `exit` ends the rank without ::clump_finalize, which counts as its death.
pub type clump_handler = Option<
    unsafe extern "C-unwind" fn(
        token: *mut clump_token,
        words: *const u64,
        nwords: c_int,
        payload: *const c_void,
        bytes: usize,
    ),
>;

/// Reasons why a message was returned to sender.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum clump_reason {
    /// Its handler takes another number of words, or no payload; or it was addressed to handler 0,
    /// which takes no requests.
    CLUMP_RETURNED_BAD_ARGUMENTS = 1,
    /// No endpoint was ever opened under that name.
    CLUMP_RETURNED_NO_ENDPOINT = 2,
    /// The tag did not match the endpoint's.
    CLUMP_RETURNED_BAD_TAG = 3,
    /// The endpoint has no handler of that number.
    CLUMP_RETURNED_BAD_HANDLER = 4,
    /// The deposit starts outside of the target's segment, or it has none.
    CLUMP_RETURNED_BAD_OFFSET = 5,
    /// The deposit ends outside of the target's segment.
    CLUMP_RETURNED_BAD_LENGTH = 6,
    /// The endpoint was closed before it read the message.
    CLUMP_RETURNED_ENDPOINT_GONE = 7,
    /// The target's rank died.
    CLUMP_RETURNED_PEER_LOST = 8,
    /// The target had no space for as long as `CLUMP_SEND_TIMEOUT_MS` allows.
    CLUMP_RETURNED_CONGESTION = 9,
    /// The requester of a reply closed its endpoint before it read the reply.
    CLUMP_RETURNED_REPLY_REJECTED = 10,
}

/// Returns the text of a reason, valid for ever. Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn clump_reason_text(reason: c_int) -> *const c_char {
    let text: &CStr = match reason {
        1 => c"bad arguments: its handler takes others",
        2 => c"no such endpoint",
        3 => c"bad tag",
        4 => c"no handler of that number",
        5 => c"offset outside of the target's segment",
        6 => c"deposit longer than the target's segment",
        7 => c"endpoint closed",
        8 => c"its rank died",
        9 => c"congestion: the target made no room in time",
        10 => c"reply rejected: the requester is gone",
        _ => c"no reason of clump",
    };
    text.as_ptr()
}

/// A message returned to the endpoint that sent it. Valid until the function that gets it returns.
#[repr(C)]
#[derive(Debug)]
pub struct clump_returned {
    /// The context given with that function.
    pub context: *mut c_void,
    /// The rank that sent it: this one.
    pub rank: c_int,
    /// Why it was returned: a ::clump_reason.
    pub reason: c_int,
    /// The endpoint that it was sent to.
    pub dest: clump_name,
    /// 1 if it was a reply, else 0.
    pub is_reply: c_int,
    /// The handler that it was addressed to.
    pub handler: c_int,
    /// Words of the message.
    pub words: *const u64,
    /// Number of words.
    pub nwords: c_int,
    /// 1 if it was a long message, else 0.
    pub is_long: c_int,
    /// The payload of a medium message.
    pub payload: *const c_void,
    /// Bytes of that; 0 for short and long messages.
    pub payload_bytes: usize,
    /// Offset in the target's segment of the deposit of a long message.
    pub offset: u64,
    /// Bytes of that. It is unknown if they were written.
    pub deposit_bytes: u64,
}

/// A function of the program for a message returned to sender. It must not wait, nor use the
/// endpoint.
pub type clump_on_returned = Option<unsafe extern "C-unwind" fn(message: *const clump_returned)>;

/// A function of the program and its context, which may be used in any thread: the program states
/// that by giving them to a shared endpoint.
#[derive(Clone, Copy)]
struct Callee<F> {
    run: F,
    context: *mut c_void,
    slot: &'static Slot,
}

// SAFETY: see the type.
unsafe impl<F: Send> Send for Callee<F> {}

type Run = unsafe extern "C-unwind" fn(*mut clump_token, *const u64, c_int, *const c_void, usize);
type RunReturned = unsafe extern "C-unwind" fn(*const clump_returned);

/// Marks that a handler of an endpoint runs in this thread, while this lives.
struct Inside {
    slot: &'static Slot,
    _handling: Handling,
}

impl Inside {
    /// # Safety
    /// `here` was found in this thread.
    #[inline(always)]
    unsafe fn begin<F>(callee: &Callee<F>, here: ThreadState, live: *mut ()) -> Self {
        // SAFETY: the caller's.
        let handling = unsafe { Handling::begin(here) };
        let slot = callee.slot;
        slot.handling.store(handling.thread(), Ordering::Relaxed);
        slot.context.store(callee.context.cast(), Ordering::Relaxed);
        slot.live.store(live, Ordering::Relaxed);
        slot.inline.pause();
        Self { slot, _handling: handling }
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        // `live` dangles from here on, but nothing reads it while no handler runs.
        self.slot.handling.store(0, Ordering::Relaxed);
        self.slot.inline.resume();
    }
}

impl Callee<Run> {
    /// # Safety
    /// `here` was found in this thread.
    #[inline(always)]
    unsafe fn call(
        &self,
        here: ThreadState,
        token: &mut Token<'_>,
        words: &[u64],
        payload: &Payload<'_>,
    ) -> Option<Box<HandlerFailure>> {
        let (at, bytes) = (payload.as_ptr(), payload.len());
        let mut live = Live::new(token, payload);
        // SAFETY: the caller's. The program gave this function as a handler; everything lives until
        // it returns.
        let inside = unsafe {
            let inside = Inside::begin(self, here, (&raw mut live).cast());
            (self.run)(
                self.slot.pointer(),
                words.as_ptr(),
                words.len() as c_int,
                if bytes == 0 { std::ptr::null() } else { at.cast() },
                bytes,
            );
            inside
        };
        drop(inside);
        live.outcome()
    }
}

impl Callee<RunReturned> {
    fn call(&self, message: &Returned) {
        let (offset, deposit_bytes) = message.deposit.unwrap_or_default();
        let payload = &message.payload;
        let returned = clump_returned {
            context: self.context,
            rank: message.rank as c_int,
            reason: message.reason as c_int,
            dest: message.dest.to_bits(),
            is_reply: c_int::from(message.reply),
            handler: c_int::from(message.handler.0),
            words: message.words.as_ptr(),
            nwords: message.words.len() as c_int,
            is_long: c_int::from(message.deposit.is_some()),
            payload: if payload.is_empty() { std::ptr::null() } else { payload.as_ptr().cast() },
            payload_bytes: payload.len(),
            offset,
            deposit_bytes,
        };
        // SAFETY: the program gave this function for this; everything lives until it returns.
        unsafe {
            let _inside = Inside::begin(self, ThreadState::find(), std::ptr::null_mut());
            (self.run)(&raw const returned);
        }
    }
}

/// Sets the handler of that number (1 to 255), which gets messages from then on. In a shared
/// endpoint it may run in any thread that uses the endpoint.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (number or function), ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_handler(ep: *mut clump_ep, handler: c_int, run: clump_handler) -> c_int {
    clump_ep_handler_with(ep, handler, run, std::ptr::null_mut())
}

/// Sets a handler as ::clump_ep_handler does, with a context, which it gets from
/// ::clump_token_context.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_handler_with(
    ep: *mut clump_ep,
    handler: c_int,
    run: clump_handler,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        let run = run.ok_or_else(|| null("a handler"))?;
        let number = number(handler)?;
        if number.0 == 0 {
            return Err(range("a handler", 0, "from 1 to 255; 0 is set by clump_ep_on_returned"));
        }
        let pointer: *const () = ep.cast_const().cast();
        if Slot::at(pointer).is_some_and(Slot::is::<SharedEndpointHandle>) {
            return enter_shared(pointer, |ours, slot| {
                let callee = Callee { run, context, slot };
                let call = move |mut token: Token<'_>, words: &[u64], payload: Payload<'_>| {
                    // Captured whole, so that it is known to be Send.
                    let callee = &callee;
                    // SAFETY: just found.
                    unsafe { callee.call(ThreadState::find(), &mut token, words, &payload) }
                };
                ours.0.set_handler(number, call)?;
                Ok(0)
            });
        }
        Slot::enter::<ThreadEndpoint, _>(pointer, |mine, slot| {
            not_in_its_handler(slot)?;
            let (callee, here) = (Callee { run, context, slot }, ThreadState::find());
            let call = move |mut token: Token<'_>, words: &[u64], payload: Payload<'_>| {
                // SAFETY: the endpoint, and so its handlers, are this thread's alone.
                unsafe { callee.call(here, &mut token, words, &payload) }
            };
            mine.0.set_handler(number, call)?;
            Ok(0)
        })
    })
}

/// Sets the function for messages returned to sender; it gets `context` as a part of the message.
/// Without it, a returned message is an error of the call that found it (::CLUMP_ERR_RETURNED).
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no function), ::CLUMP_ERR_IN_HANDLER.
#[unsafe(no_mangle)]
pub extern "C" fn clump_ep_on_returned(
    ep: *mut clump_ep,
    run: clump_on_returned,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        let run = run.ok_or_else(|| null("a function for returned messages"))?;
        let pointer: *const () = ep.cast_const().cast();
        if Slot::at(pointer).is_some_and(Slot::is::<SharedEndpointHandle>) {
            return enter_shared(pointer, |ours, slot| {
                let callee = Callee::<RunReturned> { run, context, slot };
                ours.0.on_returned(move |message| {
                    let callee = &callee;
                    callee.call(message);
                })?;
                Ok(0)
            });
        }
        Slot::enter::<ThreadEndpoint, _>(pointer, |mine, slot| {
            not_in_its_handler(slot)?;
            let callee = Callee::<RunReturned> { run, context, slot };
            mine.0.on_returned(move |message| callee.call(message))?;
            Ok(0)
        })
    })
}
