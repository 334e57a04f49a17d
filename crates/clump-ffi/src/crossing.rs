//! Deadlock detection between handlers of shared endpoints that use each other's endpoints.
//!
//! An endpoint is locked while its handler runs, so threads whose handlers want each other's
//! endpoints would wait for ever: the call that would close the cycle fails instead.
//!
//! A thread inside a handler notes what it is about to wait for, after checking that this does not
//! lead back to itself. `Slot::handling` of other threads was written before they noted what they
//! wait for.

use crate::fault::{Fault, Result};
use crate::slot_entry::Slot;
use crate::status::clump_status as S;
use crate::thread;
use clump_os::sync::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads that are inside a handler, and the shared endpoint that a call there uses; the latest
/// last.
static CALLS: Mutex<Vec<(u32, &'static Slot)>> = Mutex::new(Vec::new());

fn calls() -> MutexGuard<'static, Vec<(u32, &'static Slot)>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Permission for a call on a shared endpoint to wait for it, while this lives.
pub struct Crossing(Option<u32>);

impl Crossing {
    /// Permits a call on `slot` that this thread is about to make.
    ///
    /// # Errors
    /// Inside a handler, if it would wait for an endpoint that waits for this handler's.
    #[inline(always)]
    pub fn begin(slot: &'static Slot) -> Result<Self> {
        if thread::is_handling() { Self::note(slot) } else { Ok(Self(None)) }
    }

    #[cold]
    fn note(slot: &'static Slot) -> Result<Self> {
        let (me, mut calls) = (thread::number(), calls());
        let mut wanted = slot;
        // At most as many steps as there are waits: a cycle of other threads is theirs to report.
        for _ in 0..=calls.len() {
            let holder = wanted.handling.load(Ordering::Relaxed);
            if holder == me {
                return Err(ring());
            }
            match calls.iter().rev().find(|(thread, _)| *thread == holder) {
                Some((_, next)) => wanted = next,
                None => break,
            }
        }
        calls.push((me, slot));
        Ok(Self(Some(me)))
    }
}

impl Drop for Crossing {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(me) = self.0 {
            forget(me);
        }
    }
}

#[cold]
fn forget(me: u32) {
    let mut calls = calls();
    if let Some(at) = calls.iter().rposition(|(thread, _)| *thread == me) {
        calls.remove(at);
    }
}

#[cold]
fn ring() -> Fault {
    let what = "a handler of this shared endpoint runs in another thread, and waits for the endpoint whose \
                handler this is: neither would ever return; send from outside of handlers, or reply";
    Fault::new(S::CLUMP_ERR_BUSY, what)
}
