//! Remote calls: functions that all ranks register, called at any rank by their numbers.

use crate::pgas::{clump_pgas, space};
use crate::rma::close;
use clump::pgas::{
    Dist, GlobalError, GlobalErrorKind, PendingCall, RawBytes, RemoteCalls, RemoteContext, RemoteFn,
};
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Result, null, range};
use clump_ffi::slot::{Object, Slot};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::rc::Rc;

/// A thread's remote calls.
#[derive(Debug)]
pub struct clump_calls(());

/// A call under way, whose result is waited for. Belongs to the thread that made it.
#[derive(Debug)]
pub struct clump_future(());

/// The call that a function executes; valid until the function returns.
#[derive(Debug)]
pub struct clump_call {
    from: usize,
    /// The function's [`RemoteContext`].
    context: *const c_void,
    functions: Functions,
    result: Vec<u8>,
}

/// A function that ranks call: gets the call, what it was registered with, and its arguments, which
/// are freed when it returns. Returns 0, or a failure, which its caller gets as
/// ::CLUMP_ERR_ARGUMENT, with the number in the text. It may not wait.
pub type clump_remote = Option<
    unsafe extern "C" fn(
        call: *mut clump_call,
        data: *mut c_void,
        arguments: *const c_void,
        bytes: usize,
    ) -> c_int,
>;

/// Some of a rank's own work, for ::clump_calls_end: returns 1 if it did some, 0 if there was none,
/// or a failure below 0.
pub type clump_work = Option<unsafe extern "C" fn(data: *mut c_void) -> c_int>;

/// Registered functions, by number.
type Functions = Rc<RefCell<Vec<RemoteFn<RawBytes, RawBytes>>>>;

/// The address of a rank's object.
#[derive(Debug)]
pub(crate) struct ObjectAddress(pub(crate) *mut c_void);

/// The object behind a ::clump_calls.
#[derive(Debug)]
pub(crate) struct CallsHandle {
    pub(crate) calls: RemoteCalls,
    functions: Functions,
    /// This rank's objects that functions find, by number.
    pub(crate) objects: RefCell<BTreeMap<u64, Dist<ObjectAddress>>>,
}

/// The object behind a ::clump_future.
#[derive(Debug)]
struct FutureHandle(RefCell<Option<PendingCall<RawBytes>>>);

impl Object for CallsHandle {
    const KIND: u32 = 13;
    const NAME: &'static str = "remote calls (clump_calls)";
}

impl Object for FutureHandle {
    const KIND: u32 = 14;
    const NAME: &'static str = "call under way (clump_future)";
}

/// Runs `run` with a thread's remote calls.
pub(crate) fn with<R>(
    calls: *const clump_calls,
    run: impl FnOnce(&CallsHandle) -> Result<R>,
) -> Result<R> {
    Slot::enter::<CallsHandle, R>(calls.cast(), |handle, _| run(handle))
}

/// Returns a registered function.
fn function(functions: &Functions, number: c_int) -> Result<RemoteFn<RawBytes, RawBytes>> {
    let found = usize::try_from(number).ok().and_then(|at| functions.borrow().get(at).copied());
    found.ok_or_else(|| range("a function", number, "one that clump_calls_register has returned"))
}

fn rank_of(rank: c_int) -> Result<usize> {
    usize::try_from(rank).map_err(|_| range("a rank", rank, "from 0"))
}

/// Opens remote calls for the calling thread. Collective. Takes one of the rank's endpoints.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT (all endpoints are open), and as ::clump_barrier.
/// Closed by ::clump_calls_close, at the end of the thread, or by ::clump_finalize: meet in
/// ::clump_calls_end before.
#[unsafe(no_mangle)]
pub extern "C" fn clump_calls_open(gas: *mut clump_pgas) -> *mut clump_calls {
    guard_pointer(|| {
        space(gas, |space| {
            let calls = space.pgas.remote_calls()?;
            let (functions, objects) = Default::default();
            Ok(Slot::fill(CallsHandle { calls, functions, objects })?.pointer())
        })
    })
}

/// Closes remote calls. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_calls_close(calls: *mut clump_calls) -> c_int {
    close::<CallsHandle>(calls.cast_const().cast())
}

/// Registers a function under a name that describes its arguments and result. Collective: all ranks
/// register the same functions in the same order; a rank of another build fails here. Returns the
/// function's number. `data` is handed to it; it must live as long as `calls`.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (ranks register different names; null), and as ::clump_barrier.
///
/// # Safety
/// `name` is a text; `function` may be called with `data` whenever this thread polls or waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_calls_register(
    calls: *mut clump_calls,
    name: *const c_char,
    function: clump_remote,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        if name.is_null() {
            return Err(null("a name"));
        }
        // SAFETY: the caller's; not null.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let run = function.ok_or_else(|| null("a function"))?;
        with(calls, |handle| {
            let functions = handle.functions.clone();
            let body = move |context: &RemoteContext<'_, RawBytes>, arguments: &[u8]| {
                let mut call = clump_call {
                    from: context.from(),
                    context: std::ptr::from_ref(context).cast(),
                    functions: functions.clone(),
                    result: Vec::new(),
                };
                let (at, bytes) = (arguments.as_ptr().cast(), arguments.len());
                // SAFETY: as was promised when it was registered.
                match unsafe { run(&raw mut call, data, at, bytes) } {
                    0 => Ok(call.result),
                    status => Err(failed(status)),
                }
            };
            let registered = handle.calls.register_raw(&name, "C", body)?;
            let mut functions = handle.functions.borrow_mut();
            functions.push(registered);
            Ok(to_int(functions.len() - 1))
        })
    })
}

#[cold]
pub(crate) fn failed(status: c_int) -> GlobalError {
    GlobalErrorKind::FunctionFailed { text: format!("it returned {status}") }.into()
}

impl clump_call {
    /// Returns what the function that executes the call sees.
    ///
    /// # Safety
    /// That function has not returned.
    pub(crate) unsafe fn context(&self) -> &RemoteContext<'_, RawBytes> {
        // SAFETY: the caller's: the context lives until the function has returned.
        unsafe { &*self.context.cast::<RemoteContext<'_, RawBytes>>() }
    }
}

/// Queues a call of a function that runs.
///
/// # Safety
/// The context of `call` is that of the function that runs.
unsafe fn defer(call: &clump_call, rank: c_int, number: c_int, bytes: &[u8]) -> Result<c_int> {
    let function = function(&call.functions, number)?;
    // SAFETY: by the function's own.
    let context = unsafe { call.context() };
    context.send_raw(function, rank_of(rank)?, bytes)?;
    Ok(0)
}

/// Begins to call a function at a rank. Its result is had by ::clump_future_wait.
///
/// Calls to ranks of other nodes are collected: what waits sends them, and ::clump_pgas_flush.
///
/// Returns null on failure: ::CLUMP_ERR_ARGUMENT (no such function or rank; arguments longer than
/// ::clump_max_medium less 16 bytes), and as ::clump_request.
///
/// # Safety
/// `arguments` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_call_begin(
    calls: *mut clump_calls,
    rank: c_int,
    function: c_int,
    arguments: *const c_void,
    bytes: usize,
) -> *mut clump_future {
    guard_pointer(|| {
        // SAFETY: the caller's.
        let arguments = unsafe { crate::send::bytes(arguments, bytes) }?;
        with(calls, |handle| {
            let function = self::function(&handle.functions, function)?;
            let pending = handle.calls.call_raw(function, rank_of(rank)?, arguments)?;
            Ok(Slot::fill(FutureHandle(RefCell::new(Some(pending))))?.pointer())
        })
    })
}

/// Calls a function at a rank, and does not wait for it: ::clump_calls_end does.
///
/// Errors: as ::clump_call_begin.
///
/// # Safety
/// `arguments` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_call_send(
    calls: *mut clump_calls,
    rank: c_int,
    function: c_int,
    arguments: *const c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let arguments = unsafe { crate::send::bytes(arguments, bytes) }?;
        with(calls, |handle| {
            let function = self::function(&handle.functions, function)?;
            handle.calls.send_raw(function, rank_of(rank)?, arguments)?;
            Ok(0)
        })
    })
}

/// Returns 1 if the result of a call is there, else 0. Sends what was collected, and polls.
///
/// Errors: as ::clump_calls_poll.
#[unsafe(no_mangle)]
pub extern "C" fn clump_future_ready(future: *mut clump_future) -> c_int {
    guard(|| {
        Slot::enter::<FutureHandle, _>(future.cast_const().cast(), |handle, _| {
            let pending = handle.0.borrow();
            Ok(pending.as_ref().map_or(Ok(true), PendingCall::is_done)?.into())
        })
    })
}

/// Waits for the result of a call, writes it to `to`, and frees the future, whatever happens.
/// Returns the bytes of the result.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (the function failed: its rank and number are in the text; the
/// result is longer than `room`), ::CLUMP_ERR_RANK_DIED.
///
/// # Safety
/// `to` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_future_wait(
    future: *mut clump_future,
    to: *mut c_void,
    room: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let to = unsafe { crate::send::room(to, room) }?;
        let FutureHandle(pending) = *Slot::empty_of::<FutureHandle>(future.cast_const().cast())?;
        let Some(pending) = pending.into_inner() else { return Err(null("a call under way")) };
        let result = pending.wait_raw()?;
        let bytes = result.len();
        let part = to.get_mut(..bytes);
        let longer = || range("room for a result", room, &format!("at least {bytes} bytes"));
        part.ok_or_else(longer)?.copy_from_slice(&result);
        Ok(to_int(bytes))
    })
}

/// Frees a future; its call is executed all the same. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_future_free(future: *mut clump_future) -> c_int {
    close::<FutureHandle>(future.cast_const().cast())
}

/// Runs functions that others have called here, without waiting.
///
/// Errors: ::CLUMP_ERR_HANDLER_FAILED (a one-way call has failed here), ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn clump_calls_poll(calls: *mut clump_calls) -> c_int {
    guard(|| with(calls, |handle| Ok(handle.calls.poll().map(|()| 0)?)))
}

/// Returns once no call is under way anywhere, what functions called included, and no rank has work
/// of its own. Collective. `work`, which may be null, does some of this rank's; it is called again
/// whenever functions may have left some.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (`work` failed), and as ::clump_calls_poll and ::clump_barrier.
///
/// # Safety
/// `work` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_calls_end(
    calls: *mut clump_calls,
    work: clump_work,
    data: *mut c_void,
) -> c_int {
    guard(|| {
        with(calls, |handle| {
            handle.calls.detect_termination(|| {
                let Some(work) = work else { return Ok(false) };
                // SAFETY: the caller's.
                match unsafe { work(data) } {
                    0 => Ok(false),
                    status if status < 0 => Err(failed(status)),
                    _ => Ok(true),
                }
            })?;
            Ok(0)
        })
    })
}

/// Runs `run` with the call that a function executes.
///
/// # Safety
/// `call` is null, or what a function that runs was given.
unsafe fn executed(
    call: *mut clump_call,
    run: impl FnOnce(&mut clump_call) -> Result<c_int>,
) -> c_int {
    // SAFETY: the caller's: it is in the frame that called the function.
    guard(|| run(unsafe { call.as_mut() }.ok_or_else(|| null("a call"))?))
}

/// Returns the rank that has called.
///
/// # Safety
/// `call` is what a function that runs was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_call_from(call: *mut clump_call) -> c_int {
    // SAFETY: the caller's.
    unsafe { executed(call, |call| Ok(to_int(call.from))) }
}

/// Sets the result of a call. Called again, it replaces the result.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null).
///
/// # Safety
/// `call` is what a function that runs was given; `result` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_call_result(
    call: *mut clump_call,
    result: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        executed(call, |call| {
            call.result = crate::send::bytes(result, bytes)?.to_vec();
            Ok(0)
        })
    }
}

/// Calls a function at a rank, one-way, once the one that runs has returned.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such function or rank; arguments longer than
/// ::clump_max_medium less 16 bytes), ::CLUMP_ERR_LIMIT (too many are queued).
///
/// # Safety
/// `call` is what a function that runs was given; `arguments` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_call_forward(
    call: *mut clump_call,
    rank: c_int,
    function: c_int,
    arguments: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        executed(call, |call| {
            let arguments = crate::send::bytes(arguments, bytes)?;
            defer(call, rank, function, arguments)
        })
    }
}
