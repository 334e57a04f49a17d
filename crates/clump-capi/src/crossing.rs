//! Handlers of shared endpoints that use each other's. An endpoint is locked while its handler runs, so threads whose
//! handlers want each other's endpoints would wait for ever: the one that would close the ring gets an error.
//!
//! Whoever is inside of a handler notes what it is about to wait for, and looks first whether that leads back to
//! itself. What `Slot::handling` says of others was written before they noted what they wait for.

use crate::fault::{Fault, Result};
use crate::slot::Slot;
use crate::status::clump_status as S;
use crate::thread;
use clump_os::sync::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads that are inside of a handler, and the shared endpoint that a call there is about; the latest last.
static CALLS: Mutex<Vec<(u32, &'static Slot)>> = Mutex::new(Vec::new());

fn calls() -> MutexGuard<'static, Vec<(u32, &'static Slot)>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this lives, a call on a shared endpoint may wait for it.
pub(crate) struct Crossing(Option<u32>);

impl Crossing {
    #[inline(always)]
    pub(crate) fn begin(slot: &'static Slot) -> Result<Self> {
        if thread::is_handling() { Self::note(slot) } else { Ok(Self(None)) }
    }

    #[cold]
    fn note(slot: &'static Slot) -> Result<Self> {
        let (me, mut calls) = (thread::number(), calls());
        let mut wanted = slot;
        // As many steps as there are waits, at most: a ring of others is theirs.
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
