//! The table of endpoints, and their data.

use crate::bundle_slot::Bundle;
use crate::endpoint_name::en_t;
use crate::job_context::refuse;
use crate::status::{AmFailure, Code, Result};
use crate::translation_entry::TranslationEntry;
use clump_am::{Dest, EndpointCell};
use clump_os::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::cell::UnsafeCell;

/// Maximum number of endpoints of a rank, one of which the collectives take.
pub(crate) const ENDPOINTS: usize = 32;
/// Entries of a handler table, handler 0 included.
pub(crate) const HANDLERS: usize = 256;
/// `AM_NONE`: the tag that no message matches.
pub(crate) const NONE: u64 = 0;
/// The opaque type of an endpoint in C. Never dereferenced.
#[derive(Debug)]
pub struct clump_am_ep(());
/// A handle of an endpoint: its index and generation.
pub type ep_t = *mut clump_am_ep;

/// Mark in each handle of an endpoint.
pub(crate) const KIND: usize = 0xe9;

/// The data of an endpoint beside its core.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) name: en_t,
    /// The tag that the program set.
    pub(crate) tag: u64,
    /// The translation table.
    pub(crate) table: Vec<Option<TranslationEntry>>,
    /// Destinations that handlers took out of the table.
    pub(crate) retired: Vec<Dest>,
    /// Number of entries of the handler table.
    pub(crate) handlers: usize,
    /// The program's memory for deposits: address and number of bytes.
    pub(crate) segment: (*mut u8, usize),
    /// Buffer for medium payloads while their handlers run.
    pub(crate) buffer: Vec<u64>,
    /// Text about the last returned message that found no handler 0.
    pub(crate) unclaimed: Option<String>,
}

impl Own {
    pub(crate) const fn none() -> Self {
        Self {
            name: en_t::NONE,
            tag: NONE,
            table: Vec::new(),
            retired: Vec::new(),
            handlers: HANDLERS,
            segment: (std::ptr::null_mut(), 0),
            buffer: Vec::new(),
            unclaimed: None,
        }
    }
}

/// A table entry for an endpoint.
#[derive(Debug)]
pub(crate) struct EndpointSlot {
    pub(crate) cell: EndpointCell,
    /// Odd while there is one.
    pub(crate) generation: AtomicU32,
    /// The index of its bundle.
    pub(crate) bundle: AtomicUsize,
    /// Number of messages handled here.
    pub(crate) handled: AtomicU64,
    /// True if `Own::unclaimed` is set.
    pub(crate) has_unclaimed: AtomicBool,
    pub(crate) handlers: [AtomicPtr<()>; HANDLERS],
    own: UnsafeCell<Own>,
}

// SAFETY: invariant 2 of `am2`: `own` is touched by the thread inside the endpoint cell alone.
unsafe impl Sync for EndpointSlot {}

/// The entries of all endpoints.
pub(crate) static SLOTS: [EndpointSlot; ENDPOINTS] = [const { EndpointSlot::empty() }; ENDPOINTS];

/// Invalidates all handles of endpoints.
pub(crate) fn abandon_all() {
    SLOTS.iter().for_each(|slot| slot.generation.store(0, Ordering::Relaxed));
}

impl EndpointSlot {
    const fn empty() -> Self {
        Self {
            cell: EndpointCell::new(),
            generation: AtomicU32::new(0),
            bundle: AtomicUsize::new(0),
            handled: AtomicU64::new(0),
            has_unclaimed: AtomicBool::new(false),
            handlers: [const { AtomicPtr::new(std::ptr::null_mut()) }; HANDLERS],
            own: UnsafeCell::new(Own::none()),
        }
    }

    /// Returns the table entry of that index.
    #[inline(always)]
    pub(crate) fn at(index: usize) -> Option<&'static Self> {
        SLOTS.get(index)
    }

    pub(crate) fn index(&self) -> usize {
        (std::ptr::from_ref(self).addr() - SLOTS.as_ptr().addr()) / size_of::<Self>()
    }

    /// Returns the bundle that the endpoint is in.
    pub(crate) fn bundle(&self) -> Result<&'static Bundle> {
        let bundle = Bundle::at(self.bundle.load(Ordering::Relaxed));
        bundle.ok_or_else(|| refuse("an endpoint"))
    }

    /// Runs `look` with the data of the endpoint.
    ///
    /// # Safety
    /// This thread is inside the endpoint cell, and `look` calls no handler.
    #[inline(always)]
    pub(crate) unsafe fn own<R>(&self, look: impl FnOnce(&mut Own) -> R) -> R {
        // SAFETY: invariant 2 of `am2`.
        look(unsafe { &mut *self.own.get() })
    }

    /// Counts a handler that has returned. Only inside the endpoint cell.
    #[inline(always)]
    pub(crate) fn note_handled(&self) {
        let handled = self.handled.load(Ordering::Relaxed);
        // SYNC 17: pairs with Bundle::handled
        self.handled.store(handled.wrapping_add(1), Ordering::Release);
        if let Some(bundle) = Bundle::at(self.bundle.load(Ordering::Relaxed)) {
            bundle.tell_waiters();
        }
    }

    /// Fails if a message was returned to sender since the last time and found no handler 0.
    #[inline(always)]
    pub(crate) fn check_claimed(&self) -> Result<()> {
        if self.has_unclaimed.load(Ordering::Relaxed) { self.claim() } else { Ok(()) }
    }

    #[cold]
    fn claim(&self) -> Result<()> {
        // Another thread is inside the endpoint cell, or it was emptied meanwhile: the next call
        // that enters it reports the message.
        let Ok(_inside) = self.cell.enter() else { return Ok(()) };
        self.has_unclaimed.store(false, Ordering::Relaxed);
        // SAFETY: this thread is inside; nothing is called.
        match unsafe { self.own(|own| own.unclaimed.take()) } {
            Some(said) => Err(AmFailure::new(Code::NotSent, said)),
            // Another thread has reported it.
            None => Ok(()),
        }
    }
}

/// Returns the handle of the endpoint in `slot`.
pub(crate) fn handle_of(slot: &EndpointSlot) -> ep_t {
    let generation = slot.generation.load(Ordering::Relaxed) as usize;
    std::ptr::without_provenance_mut(generation << 16 | KIND << 8 | slot.index())
}
