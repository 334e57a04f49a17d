//! Status codes that functions return, with their texts.

use std::ffi::{CStr, c_int};

/// Result of a function that returns `int`: 0 or a number of things on success, one of these on
/// failure. The values never change. Any error leaves a text (::clump_error_text) that names the
/// fault, rank and peer, and the remedy.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum clump_status {
    /// Success.
    CLUMP_OK = 0,
    /// A null pointer where none may be, or a number outside of its range. A program error here.
    CLUMP_ERR_ARGUMENT = -1,
    /// No such object: closed before, of another kind, or never made by this library. A program
    /// error here.
    CLUMP_ERR_HANDLE = -2,
    /// The object belongs to another thread, the one that opened it. A program error here.
    CLUMP_ERR_THREAD = -3,
    /// ::clump_init was not called, or ::clump_finalize was. A program error here.
    CLUMP_ERR_NOT_RUNNING = -4,
    /// ::clump_init was called before in this process, or another process has joined as this rank.
    CLUMP_ERR_ALREADY = -5,
    /// This may not be done inside a handler (of this endpoint). A program error here.
    CLUMP_ERR_IN_HANDLER = -6,
    /// The token's handler has returned, or it has replied. A program error here.
    CLUMP_ERR_TOKEN = -7,
    /// The object is in use: by another thread, by a call that has not returned, or by what depends
    /// on it.
    CLUMP_ERR_BUSY = -8,
    /// More than eight words, or a payload longer than ::clump_max_medium.
    CLUMP_ERR_TOO_LONG = -9,
    /// That number is not in the endpoint's translation table.
    CLUMP_ERR_DESTINATION = -10,
    /// A limit was reached: endpoints, segments, queued requests, objects. The text says which and
    /// how many.
    CLUMP_ERR_LIMIT = -11,
    /// Memory or address space has run out, or the operating system refused something.
    CLUMP_ERR_SYSTEM = -12,
    /// A rank died, so what this waits for may never come.
    CLUMP_ERR_RANK_DIED = -13,
    /// A rank finalized, so what this waits for will never come.
    CLUMP_ERR_RANK_LEFT = -14,
    /// A message was returned to sender and the endpoint has no handler for that
    /// (::clump_ep_on_returned).
    CLUMP_ERR_RETURNED = -15,
    /// A handler reported that it failed (::clump_token_fail).
    CLUMP_ERR_HANDLER_FAILED = -16,
    /// A peer wrote or sent what no clump of this version does.
    CLUMP_ERR_DAMAGED = -17,
    /// The network between nodes cannot be used.
    CLUMP_ERR_NETWORK = -18,
    /// A setting (`CLUMP_*`, or the configuration file) has no meaning. The user's fault.
    CLUMP_ERR_SETTING = -19,
    /// Header, library, launcher or job are of different versions.
    CLUMP_ERR_VERSION = -20,
    /// The segment is not exported (any more), or the name names none.
    CLUMP_ERR_SEGMENT = -21,
    /// An access outside of its segment.
    CLUMP_ERR_BOUNDS = -22,
    /// A word must lie at a multiple of its size.
    CLUMP_ERR_ALIGNMENT = -23,
    /// The rank that exported the segment has died.
    CLUMP_ERR_OWNER_DIED = -24,
    /// The node of the segment is lost.
    CLUMP_ERR_NODE_LOST = -25,
    /// The rank that held the lock died with it; no rank can acquire it any more.
    CLUMP_ERR_HOLDER_DIED = -26,
    /// It took longer than it was allowed to. No function returns this today: those with a limit
    /// return 0.
    CLUMP_ERR_TIMED_OUT = -27,
    /// Another rank or thread has the lock. No function returns this today: ::clump_lock_try
    /// returns 0.
    CLUMP_ERR_LOCK_BUSY = -28,
    /// The lock is not held.
    CLUMP_ERR_NOT_HELD = -29,
    /// The process is a child by `fork` of a rank: nothing of clump works in it. A program error
    /// here.
    CLUMP_ERR_FORKED = -30,
    /// A fault of this library.
    CLUMP_ERR_INTERNAL = -99,
}

use clump_status as S;

/// Every status with its text.
const ALL: [(S, &CStr); 32] = [
    (S::CLUMP_OK, c"all went well"),
    (S::CLUMP_ERR_ARGUMENT, c"a null pointer, or a number outside of its range"),
    (S::CLUMP_ERR_HANDLE, c"no such object: closed, of another kind, or none of this library"),
    (S::CLUMP_ERR_THREAD, c"the object belongs to another thread"),
    (S::CLUMP_ERR_NOT_RUNNING, c"clump_init was not called, or clump_finalize was"),
    (S::CLUMP_ERR_ALREADY, c"clump_init was called before, or another process is this rank"),
    (S::CLUMP_ERR_IN_HANDLER, c"not possible inside a handler"),
    (S::CLUMP_ERR_TOKEN, c"the token was used up, or its handler has returned"),
    (S::CLUMP_ERR_BUSY, c"the object is in use"),
    (S::CLUMP_ERR_TOO_LONG, c"too many words, or too long a payload"),
    (S::CLUMP_ERR_DESTINATION, c"not in the translation table"),
    (S::CLUMP_ERR_LIMIT, c"a limit was reached"),
    (S::CLUMP_ERR_SYSTEM, c"memory has run out, or the operating system refused"),
    (S::CLUMP_ERR_RANK_DIED, c"a rank died"),
    (S::CLUMP_ERR_RANK_LEFT, c"a rank has finalized"),
    (S::CLUMP_ERR_RETURNED, c"a message came back and no handler takes it"),
    (S::CLUMP_ERR_HANDLER_FAILED, c"a handler failed"),
    (S::CLUMP_ERR_DAMAGED, c"a peer wrote what no clump of this version writes"),
    (S::CLUMP_ERR_NETWORK, c"the network between nodes cannot be used"),
    (S::CLUMP_ERR_SETTING, c"a setting has no meaning"),
    (S::CLUMP_ERR_VERSION, c"header, library, launcher or job are of different versions"),
    (S::CLUMP_ERR_SEGMENT, c"no such segment (any more)"),
    (S::CLUMP_ERR_BOUNDS, c"outside of the segment"),
    (S::CLUMP_ERR_ALIGNMENT, c"a word must lie at a multiple of its size"),
    (S::CLUMP_ERR_OWNER_DIED, c"the rank that exported the segment has died"),
    (S::CLUMP_ERR_NODE_LOST, c"the node is lost"),
    (S::CLUMP_ERR_HOLDER_DIED, c"the rank that held the lock died with it"),
    (S::CLUMP_ERR_TIMED_OUT, c"it took longer than it was allowed to"),
    (S::CLUMP_ERR_LOCK_BUSY, c"somebody else has the lock"),
    (S::CLUMP_ERR_NOT_HELD, c"the lock is not held"),
    (S::CLUMP_ERR_FORKED, c"a child by fork is no rank"),
    (S::CLUMP_ERR_INTERNAL, c"a fault of libclump itself"),
];

/// Returns the meaning of a status in one line.
pub fn text(status: c_int) -> &'static CStr {
    let known = ALL.iter().find(|(known, _)| *known as c_int == status);
    known.map_or(c"no status of clump", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_text() {
        let mut seen = std::collections::HashSet::new();
        for (status, said) in ALL {
            assert_eq!(text(status as c_int), said);
            assert!(seen.insert(status as c_int) && seen.len() < 100);
        }
        assert_eq!(text(5), c"no status of clump");
    }
}
