//! The rights of a handler: to reply once, to defer requests, to report a failure.

use crate::endpoint::{clump_name, destination};
use crate::handler_number::number;
use crate::send::{bytes, words};
use clump::am::{Handler, HandlerFailure, Payload, Reason, Token};
use clump_ffi::border::{guard, guard_or, hot};
use clump_ffi::endpoint_handle::{SharedEndpointHandle, ThreadEndpoint};
use clump_ffi::fault::{Fault, Result, null};
use clump_ffi::slot::Slot;
use clump_ffi::status::clump_status as S;
use clump_os::sync::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};

/// A handler's view of the message that it handles: the right to reply once, and to defer requests.
/// Valid in its handler's thread, until the handler returns.
#[derive(Debug)]
pub struct clump_token(());

/// The state behind a token while its handler runs. It refers to the incoming message: a copy of
/// data just written in smaller stores would wait until all of them have reached the cache.
#[derive(Debug)]
pub(crate) struct Live<'a, 'b> {
    token: &'a mut Token<'b>,
    payload: &'a Payload<'a>,
    replied: bool,
    failure: Option<Box<HandlerFailure>>,
}

impl<'a, 'b> Live<'a, 'b> {
    #[inline(always)]
    pub(crate) fn new(token: &'a mut Token<'b>, payload: &'a Payload<'a>) -> Self {
        Self { token, payload, replied: false, failure: None }
    }

    /// Returns the handler's result.
    #[inline(always)]
    pub(crate) fn outcome(self) -> Option<Box<HandlerFailure>> {
        self.failure
    }

    /// Takes the right to reply, which is used up.
    #[inline(always)]
    fn reply(&mut self) -> Result<Token<'_>> {
        if !self.token.may_reply() {
            return Err(self.spent());
        }
        self.replied = true;
        Ok(self.token.take_reply())
    }

    /// Replies if that is possible at once.
    #[inline(always)]
    fn reply_at_once(&mut self, handler: Handler, words: &[u64]) -> bool {
        let replied = self.token.reply_at_once(handler, words);
        self.replied |= replied;
        replied
    }

    #[cold]
    fn spent(&self) -> Fault {
        let what = match self.replied {
            true => "this handler has replied; a request is answered once",
            false => "this message is a reply, and replies are not answered",
        };
        Fault::new(S::CLUMP_ERR_TOKEN, what)
    }
}

/// Runs `run` with the state behind a token.
#[inline(always)]
fn with<R>(
    token: *const clump_token,
    run: impl FnOnce(&mut Live<'_, '_>) -> Result<R>,
) -> Result<R> {
    let found = Slot::at(token.cast())
        .filter(|slot| slot.is::<ThreadEndpoint>() || slot.is::<SharedEndpointHandle>());
    let Some(slot) = found else { return Err(unknown(token)) };
    let live: *mut Live<'_, '_> = slot.live.load(Ordering::Relaxed).cast();
    if live.is_null() || !slot.is_handling_here() {
        return Err(late());
    }
    // SAFETY: it is on the stack of the handler's caller, in this thread, and used by this call
    // alone: a handler's endpoint runs no other handler meanwhile, and `run` calls nothing of the
    // program.
    run(unsafe { &mut *live })
}

/// Returns the state behind a token of an endpoint of this thread alone, whose handler runs: the
/// fast path.
#[inline(always)]
fn mine<'a>(token: *const clump_token) -> Option<&'a mut Live<'a, 'a>> {
    let slot = Slot::at(token.cast()).filter(|slot| slot.inline.is_handling_here())?;
    let live: *mut Live<'_, '_> = slot.live.load(Ordering::Relaxed).cast();
    // SAFETY: as in `with`; null in the function for returned messages.
    unsafe { live.as_mut() }
}

#[cold]
fn unknown(token: *const clump_token) -> Fault {
    if token.is_null() {
        return null("a token");
    }
    clump_ffi::job::not_running().unwrap_or_else(|| {
        Fault::new(S::CLUMP_ERR_HANDLE, "the program gave a token that no handler got")
    })
}

#[cold]
fn late() -> Fault {
    let what = "this token's handler does not run any more, or in another thread; a token is used in \
                its handler only";
    Fault::new(S::CLUMP_ERR_TOKEN, what)
}

/// Returns the endpoint that sent the message; 0 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_token_from(token: *const clump_token) -> clump_name {
    guard_or(0, || with(token, |live| Ok(live.token.from().to_bits())))
}

/// Returns 1 if the message is a request that has not been replied to, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn clump_token_may_reply(token: *const clump_token) -> c_int {
    guard(|| with(token, |live| Ok(c_int::from(live.token.may_reply()))))
}

/// Writes the offset of a long message's bytes in this endpoint's segment to `offset`. Returns 1,
/// or 0 for a message that is not long.
///
/// # Safety
/// `offset` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_token_offset(token: *const clump_token, offset: *mut u64) -> c_int {
    guard(|| {
        let found = with(token, |live| Ok(live.payload.offset()))?;
        if let Some(found) = found {
            crate::endpoint::write_to(offset, found, "the place for the offset")?;
        }
        Ok(c_int::from(found.is_some()))
    })
}

/// Reports that the handler failed: the call that ran it fails with ::CLUMP_ERR_HANDLER_FAILED and
/// `why` (or null). The message counts as handled.
///
/// # Safety
/// `why` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_token_fail(token: *mut clump_token, why: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller gave a string.
        let why = (!why.is_null()).then(|| unsafe { CStr::from_ptr(why) }.to_string_lossy());
        with(token, |live| {
            let why: String = why.map_or_else(|| "it did not say why".to_owned(), Into::into);
            live.failure = Some(Box::new(HandlerFailure::Failed(why)));
            Ok(0)
        })
    })
}

/// Refuses the message once the handler has returned: a request is returned to its sender for
/// ::CLUMP_RETURNED_BAD_ARGUMENTS; for a reply, the call that ran the handler fails with
/// ::CLUMP_ERR_RETURNED. For handlers that take other words, or no payload.
///
/// Errors: ::CLUMP_ERR_TOKEN (replied before, or handler has returned).
#[unsafe(no_mangle)]
pub extern "C" fn clump_token_refuse(token: *mut clump_token) -> c_int {
    guard(|| {
        with(token, |live| {
            if live.replied {
                return Err(live.spent());
            }
            live.failure = Some(Box::new(HandlerFailure::Refused(Reason::BadArguments)));
            Ok(0)
        })
    })
}

/// Replies with `nwords` words (at most 8). ::clump_reply is easier to write.
///
/// Errors: ::CLUMP_ERR_TOKEN (replied before, message is a reply, handler has returned),
/// ::CLUMP_ERR_TOO_LONG. Success does not mean delivery: a reply that is never read is returned to
/// sender.
///
/// # Safety
/// `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_reply_words(
    token: *mut clump_token,
    handler: c_int,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    hot(|| {
        // SAFETY: the caller's.
        let (handler, words) = (number(handler)?, unsafe { words(given, nwords) }?);
        match mine(token).is_some_and(|live| live.reply_at_once(handler, words)) {
            true => Ok(0),
            false => reply_slowly(token, handler, words),
        }
    })
}

/// Slow path of [`clump_reply_words`], kept out of line.
#[cold]
#[inline(never)]
fn reply_slowly(token: *const clump_token, handler: Handler, words: &[u64]) -> Result<c_int> {
    with(token, |live| Ok(live.reply()?.reply(handler, words)?))?;
    Ok(0)
}

/// Replies with words and a payload of at most ::clump_max_medium bytes, which is copied.
/// ::clump_reply_bulk is easier to write.
///
/// Errors: as ::clump_reply_words.
///
/// # Safety
/// `payload` has `payload_bytes` bytes, `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_reply_bulk_words(
    token: *mut clump_token,
    handler: c_int,
    payload: *const c_void,
    payload_bytes: usize,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let (words, payload) = unsafe { (words(given, nwords)?, bytes(payload, payload_bytes)?) };
        let handler = number(handler)?;
        with(token, |live| {
            let most = live.token.max_medium();
            if payload.len() > most {
                let kind = clump_am::ErrorKind::PayloadTooLong { given: payload.len(), most };
                return Err(clump_am::Error::from(kind).into());
            }
            Ok(live.reply()?.reply_bulk(handler, payload, words)?)
        })?;
        Ok(0)
    })
}

/// Deposits a payload of any length at `offset` of the requester's segment, and replies with words;
/// returned to sender when it does not fit into the segment. ::clump_reply_long is easier to write.
///
/// Errors: as ::clump_reply_words.
///
/// # Safety
/// `payload` has `payload_bytes` bytes, `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_reply_long_words(
    token: *mut clump_token,
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
        let handler = number(handler)?;
        with(token, |live| Ok(live.reply()?.reply_long(handler, offset, payload, words)?))?;
        Ok(0)
    })
}

/// Queues a request, to be sent after this handler has returned, which makes requests from handlers
/// safe. ::clump_defer is easier to write.
///
/// Errors: ::CLUMP_ERR_LIMIT (too many are queued), ::CLUMP_ERR_TOO_LONG, ::CLUMP_ERR_TOKEN. A
/// destination that is not mapped is an error of the call that sends it.
///
/// # Safety
/// `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_defer_words(
    token: *mut clump_token,
    dest: c_int,
    handler: c_int,
    given: *const u64,
    nwords: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let (handler, words) = (number(handler)?, unsafe { words(given, nwords) }?);
        let dest = destination(dest)?;
        with(token, |live| Ok(live.token.defer(dest, handler, words)?))?;
        Ok(0)
    })
}

/// Queues a request as ::clump_defer_words does, with a payload of at most ::clump_max_medium
/// bytes, which is copied. ::clump_defer_bulk is easier to write.
///
/// # Safety
/// `payload` has `payload_bytes` bytes, `given` are `nwords` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_defer_bulk_words(
    token: *mut clump_token,
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
        with(token, |live| Ok(live.token.defer_bulk(dest, handler, Some(payload), words)?))?;
        Ok(0)
    })
}
