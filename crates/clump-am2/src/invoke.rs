//! Calls of a program's handlers, with as many arguments as the message has.

use crate::message::{MessageHead, argument};
use std::ffi::{c_int, c_void};

/// A handler as C gave it; its real type depends on the message.
pub(crate) type Function = *mut ();

/// A token as C gets it.
pub(crate) type TokenValue = *mut c_void;

/// Calls `function` with the values in brackets, and then the arguments of these numbers.
macro_rules! call_with {
    ($function:expr, $words:expr, [$($value:expr => $type:ty),*], $($at:literal)*) => {{
        type Exact = extern "C" fn($($type,)* $(int!($at)),*);
        // SAFETY: the program set this function to be called with these arguments
        // (`AM_SetHandler`).
        let function = unsafe { std::mem::transmute::<Function, Exact>($function) };
        function($($value,)* $(argument($words, $at)),*);
    }};
}

/// The type of each argument.
macro_rules! int {
    ($at:literal) => {
        c_int
    };
}

/// Calls `function` with the values in brackets, and then the first `count` arguments.
macro_rules! call_with_first {
    ($function:expr, $count:expr, $words:expr, $first:tt) => {
        match $count {
            0 => call_with!($function, $words, $first,),
            1 => call_with!($function, $words, $first, 0),
            2 => call_with!($function, $words, $first, 0 1),
            3 => call_with!($function, $words, $first, 0 1 2),
            4 => call_with!($function, $words, $first, 0 1 2 3),
            5 => call_with!($function, $words, $first, 0 1 2 3 4),
            6 => call_with!($function, $words, $first, 0 1 2 3 4 5),
            7 => call_with!($function, $words, $first, 0 1 2 3 4 5 6),
            8 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7),
            9 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8),
            10 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8 9),
            11 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8 9 10),
            12 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8 9 10 11),
            13 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8 9 10 11 12),
            14 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8 9 10 11 12 13),
            15 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
            16 => call_with!($function, $words, $first, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            // `MessageHead::read` admits no more.
            _ => {}
        }
    };
}

/// Calls a handler of a short message.
///
/// # Safety
/// `function` is a handler that the program set.
#[inline(always)]
pub(crate) unsafe fn short(
    function: Function,
    token: TokenValue,
    head: MessageHead,
    words: &[u64],
) {
    call_with_first!(function, head.count, words, [token => TokenValue]);
}

/// Calls a handler of a medium message with its copy, or of a long one with its memory in the
/// segment.
///
/// # Safety
/// As for [`short`].
pub(crate) unsafe fn bulk(
    function: Function,
    token: TokenValue,
    (bytes, len): (*mut u8, usize),
    head: MessageHead,
    words: &[u64],
) {
    call_with_first!(
        function,
        head.count,
        words,
        [token => TokenValue, bytes => *mut u8, len => usize]
    );
}

/// Calls a handler 0.
///
/// # Safety
/// As for [`short`].
pub(crate) unsafe fn returned(function: Function, status: c_int, opcode: c_int, token: TokenValue) {
    // SAFETY: the program set this function at index 0, to be called so.
    let function: extern "C" fn(c_int, c_int, TokenValue) =
        unsafe { std::mem::transmute(function) };
    function(status, opcode, token);
}
