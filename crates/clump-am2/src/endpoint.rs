//! Endpoints: their table, their data, and their handles in C.

use crate::bundle::{self, Bundle, eb_t};
use crate::message::MAX_ARGUMENTS;
use crate::status::{AmFailure, Code, Result, bad, call, give, in_handler};
use crate::table::TranslationEntry;
use crate::token::en_t;
use crate::{receive, start, token};
use clump_am::{Access, BorrowedEndpoint, Dest, EndpointCell, Tag};
use clump_os::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};

/// Maximum number of endpoints of a rank, one of which the collectives take.
pub(crate) const ENDPOINTS: usize = 32;
/// Entries of a handler table, handler 0 included.
pub(crate) const HANDLERS: usize = 256;
/// `AM_NONE`: the tag that no message matches.
pub(crate) const NONE: u64 = 0;
/// `AM_ALL`: the tag that every message matches.
pub(crate) const ALL: u64 = 1;

const _: () = assert!(MAX_ARGUMENTS == 16);

/// The opaque type of an endpoint in C. Never dereferenced.
#[derive(Debug)]
pub struct clump_am_ep(());
/// A handle of an endpoint: its index and generation.
pub type ep_t = *mut clump_am_ep;

/// Mark in each handle of an endpoint.
const KIND: usize = 0xe9;

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
    const fn none() -> Self {
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
    generation: AtomicU32,
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

static SLOTS: [EndpointSlot; ENDPOINTS] = [const { EndpointSlot::empty() }; ENDPOINTS];

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
        bundle.ok_or_else(|| start::refuse("an endpoint"))
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

/// An endpoint that C named: its table entry, and the expected generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedEndpoint {
    pub(crate) slot: &'static EndpointSlot,
    generation: u32,
}

/// Returns the handle of the endpoint in `slot`.
pub(crate) fn handle_of(slot: &EndpointSlot) -> ep_t {
    let generation = slot.generation.load(Ordering::Relaxed) as usize;
    std::ptr::without_provenance_mut(generation << 16 | KIND << 8 | slot.index())
}

impl NamedEndpoint {
    /// Reads a handle.
    #[inline(always)]
    pub(crate) fn read(endpoint: ep_t) -> Result<Self> {
        let bits = endpoint.addr();
        let generation = (bits >> 16) as u32;
        match EndpointSlot::at(bits & 0xff) {
            Some(slot) if bits >> 8 & 0xff == KIND && bits >> 48 == 0 => {
                let named = Self { slot, generation };
                named.check().map(|()| named)
            }
            _ => Err(start::refuse("an endpoint")),
        }
    }

    #[inline(always)]
    pub(crate) fn check(&self) -> Result<()> {
        // The entry may have been emptied and filled again between two reads by a thread that is
        // not inside.
        if self.generation & 1 == 1
            && self.slot.generation.load(Ordering::Relaxed) == self.generation
        {
            Ok(())
        } else {
            Err(start::refuse("an endpoint"))
        }
    }

    /// Enters the endpoint cell to send, receive or change state that handlers may not change.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<BorrowedEndpoint<'static>> {
        if !self.slot.cell.is_mine() {
            self.slot.bundle()?.bind()?;
        }
        let inside = self.slot.cell.enter()?;
        self.check()?;
        Ok(inside)
    }

    /// Enters the endpoint cell to read or change something, whichever thread owns the bundle: one
    /// thread may set up an endpoint that another will use. A handler does not wait for a thread
    /// that is inside, which may wait for it.
    pub(crate) fn visit(&self) -> Result<BorrowedEndpoint<'static>> {
        let cell = &self.slot.cell;
        let inside =
            if clump_ffi::thread::is_handling() { cell.try_enter()? } else { cell.enter()? };
        self.check()?;
        Ok(inside)
    }

    /// Runs `look` with the data of the endpoint, inside its handlers too.
    pub(crate) fn with_own<R>(&self, look: impl FnOnce(&mut Own) -> Result<R>) -> Result<R> {
        let _inside = if self.slot.cell.is_inside() { None } else { Some(self.visit()?) };
        // SAFETY: inside, in a handler or since just now; no `look` calls a handler.
        unsafe { self.slot.own(look) }
    }
}

/// Implements `AM_AllocateEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_AllocateEndpoint(bundle: eb_t, endpoint: *mut ep_t, name: *mut en_t) -> c_int {
    call(|| {
        if endpoint.is_null() {
            return Err(crate::status::null("the place for an endpoint"));
        }
        if token::is_handling() {
            return Err(in_handler("AM_AllocateEndpoint"));
        }
        let bundle = bundle::NamedBundle::read(bundle)?;
        let books = bundle::books();
        bundle.check()?;
        let bundle = bundle.bundle;
        bundle.check_thread()?;
        let context = start::context()?;
        let free = SLOTS.iter().find(|slot| slot.generation.load(Ordering::Relaxed) & 1 == 0);
        let Some(slot) = free else {
            let what = format!("this rank has {ENDPOINTS} endpoints, the most there may be");
            return Err(AmFailure::new(Code::Resource, what));
        };
        let given = slot.cell.open(&context)?;
        let mut inside = slot.cell.enter()?;
        receive::install(&mut inside, slot)?;
        let words = context.node().geometry().max_medium().div_ceil(8);
        let own = Own {
            name: en_t::of(given),
            table: vec![None; crate::table::FIRST_ENTRIES],
            buffer: vec![0; words],
            ..Own::none()
        };
        // SAFETY: this thread is inside; nothing is called.
        unsafe { slot.own(|there| *there = own) };
        for handler in &slot.handlers {
            handler.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        slot.has_unclaimed.store(false, Ordering::Relaxed);
        slot.bundle.store(bundle.index(), Ordering::Relaxed);
        drop(inside);
        slot.generation.fetch_add(1, Ordering::Release);
        bundle.add(slot)?;
        drop(books);
        if !name.is_null() {
            give(name, "an endpoint's name", en_t::of(given))?;
        }
        give(endpoint, "an endpoint", handle_of(slot))
    })
}

/// Frees the endpoint in `slot`. The caller holds the lock of [`bundle::books`].
pub(crate) fn free(slot: &'static EndpointSlot) -> Result<()> {
    slot.bundle()?.check_thread()?;
    slot.cell.close()?;
    slot.generation.fetch_add(1, Ordering::Release);
    slot.bundle()?.remove(slot);
    // This thread gives up the endpoint cell, which the next endpoint in it may use.
    slot.cell.let_go()?;
    Ok(())
}

/// Implements `AM_FreeEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_FreeEndpoint(endpoint: ep_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_FreeEndpoint"));
        }
        let named = NamedEndpoint::read(endpoint)?;
        let _books = bundle::books();
        named.check()?;
        free(named.slot)
    })
}

/// Implements `AM_MoveEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MoveEndpoint(endpoint: ep_t, from: eb_t, to: eb_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_MoveEndpoint"));
        }
        let (named, from, to) = (
            NamedEndpoint::read(endpoint)?,
            bundle::NamedBundle::read(from)?,
            bundle::NamedBundle::read(to)?,
        );
        let _books = bundle::books();
        named.check()?;
        from.check()?;
        to.check()?;
        let slot = named.slot;
        if slot.bundle.load(Ordering::Relaxed) != from.bundle.index() {
            return Err(bad("the endpoint is not in the bundle that it is to be moved from"));
        }
        from.bundle.check_thread()?;
        slot.cell.let_go()?;
        from.bundle.remove(slot);
        slot.bundle.store(to.bundle.index(), Ordering::Relaxed);
        to.bundle.add(slot)
    })
}

/// Implements `AM_SetTag` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetTag(endpoint: ep_t, tag: u64) -> c_int {
    call(|| {
        let named = NamedEndpoint::read(endpoint)?;
        if named.slot.cell.is_inside() {
            return Err(in_handler("AM_SetTag"));
        }
        let mut inside = named.visit()?;
        inside.set_access(match tag {
            NONE => Access::Nobody,
            ALL => Access::Everyone,
            tag => Access::Tag(Tag(tag)),
        })?;
        // SAFETY: this thread is inside; nothing is called.
        unsafe { named.slot.own(|own| own.tag = tag) };
        Ok(())
    })
}

/// Implements `AM_GetTag` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetTag(endpoint: ep_t, tag: *mut u64) -> c_int {
    call(|| NamedEndpoint::read(endpoint)?.with_own(|own| give(tag, "a tag", own.tag)))
}

/// Writes the name of an endpoint, as `AM_AllocateEndpoint` returned it.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_name(endpoint: ep_t, name: *mut en_t) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?.with_own(|own| give(name, "an endpoint's name", own.name))
    })
}

/// Returns the rank of a named endpoint.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_rank_of(name: en_t) -> c_int {
    c_int::try_from(name.name().rank()).unwrap_or(c_int::MAX)
}

/// Converts a pointer that C gave as memory.
pub(crate) fn memory(at: *mut c_void) -> *mut u8 {
    at.cast()
}
