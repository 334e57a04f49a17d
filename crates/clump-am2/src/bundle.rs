//! Bundles: endpoints that are polled together, and the threads that own them.

use crate::bundle_slot::{BUNDLES, Bundle, HIGHEST, PLACES};
use crate::endpoint_slot::{ENDPOINTS, EndpointSlot};
use crate::job_context;
use crate::status::{AmFailure, Code, Result, bad, call, give, in_handler};
use crate::token;
use clump_am::{Pollable, this_thread};
use clump_os::sync::Ordering;
use clump_os::thread_value;
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// `AM_SEQ`: one thread uses the bundle.
const SEQ: c_int = 0;
/// `AM_PAR`: any thread may use the bundle.
const PAR: c_int = 1;

/// The opaque type of a bundle in C. Never dereferenced.
#[derive(Debug)]
pub struct clump_am_eb(());
/// A handle of a bundle: its index and generation.
pub type eb_t = *mut clump_am_eb;

/// Mark in each handle of a bundle.
const KIND: usize = 0xeb;

const _: () = assert!(ENDPOINTS <= u32::BITS as usize);

/// All bundles, as blocking calls of a thread poll them: those of other threads are skipped.
#[derive(Debug)]
pub(crate) struct All;

impl All {
    fn each() -> impl Iterator<Item = &'static Bundle> {
        let used = |bundle: &&Bundle| bundle.members.load(Ordering::Relaxed) != 0;
        PLACES.iter().take(HIGHEST.load(Ordering::Relaxed) + 1).filter(used)
    }
}

/// Held while bundles and endpoints are created, moved, bound and freed, and never by a handler:
/// its holder may wait for an endpoint cell, and a handler is inside one.
static BOOKS: Mutex<()> = Mutex::new(());

pub(crate) fn books() -> MutexGuard<'static, ()> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sequential bundles of a thread. They become unowned when it ends.
#[derive(Default)]
struct Bound(Vec<&'static Bundle>);

thread_value! {
    static BOUND: RefCell<Bound> = RefCell::new(Bound(Vec::new()));
}

impl Drop for Bound {
    fn drop(&mut self) {
        if clump_os::forked::is_child() {
            return;
        }
        let _books = books();
        for bundle in &self.0 {
            if bundle.thread.load(Ordering::Relaxed) == this_thread() {
                bundle.let_go();
            }
        }
    }
}

impl Bundle {
    /// Returns its endpoints.
    #[inline(always)]
    pub(crate) fn members(&self) -> impl Iterator<Item = &'static EndpointSlot> + use<> {
        let mut left = self.members.load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            EndpointSlot::at(at)
        })
    }

    /// Makes this thread the owner of a sequential bundle, as the first call that sends, polls or
    /// waits does. From then on blocking calls of this thread, those of collectives too, poll
    /// bundles.
    #[inline(always)]
    pub(crate) fn bind(&'static self) -> Result<()> {
        if self.parallel.load(Ordering::Relaxed) {
            clump_am::poll_also(&All);
            Ok(())
        } else {
            self.bind_here()
        }
    }

    #[cold]
    fn bind_here(&'static self) -> Result<()> {
        let _books = books();
        self.check_thread()?;
        clump_am::poll_also(&All);
        if self.thread.load(Ordering::Relaxed) == 0 {
            self.thread.store(this_thread(), Ordering::Relaxed);
            BOUND.with(|bound| bound.get().borrow_mut().0.push(self));
        }
        for slot in self.members() {
            slot.cell.take()?;
        }
        Ok(())
    }

    /// Makes the bundle unowned. The caller holds the lock of [`books`].
    fn let_go(&self) {
        for slot in self.members() {
            // Only a thread that ends inside a handler is still in there.
            let _ = slot.cell.let_go();
        }
        self.thread.store(0, Ordering::Relaxed);
    }

    /// Adds an endpoint. The caller holds the lock of [`books`].
    pub(crate) fn add(&self, slot: &'static EndpointSlot) -> Result<()> {
        self.offset.fetch_sub(slot.handled.load(Ordering::Relaxed), Ordering::Relaxed);
        self.members.fetch_or(1 << slot.index(), Ordering::Relaxed);
        if self.thread.load(Ordering::Relaxed) == this_thread() {
            slot.cell.take()?;
        }
        Ok(())
    }

    /// Takes an endpoint out. The caller holds the lock of [`books`].
    pub(crate) fn remove(&self, slot: &EndpointSlot) {
        self.members.fetch_and(!(1 << slot.index()), Ordering::Relaxed);
        self.offset.fetch_add(slot.handled.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the number of messages that its endpoints have handled while they were in it.
    pub(crate) fn handled(&self) -> u64 {
        // SYNC 17: pairs with Slot::note_handled
        let all = self.members().map(|slot| slot.handled.load(Ordering::Acquire));
        all.fold(self.offset.load(Ordering::Relaxed), u64::wrapping_add)
    }

    /// Fails if a message of its endpoints was returned to sender and found no handler 0.
    pub(crate) fn check_claimed(&self) -> Result<()> {
        self.members().try_for_each(|slot| slot.check_claimed())
    }
}

/// A bundle that C named: its table entry, and the expected generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedBundle {
    pub(crate) bundle: &'static Bundle,
    generation: u32,
}

impl NamedBundle {
    /// Reads a handle.
    #[inline(always)]
    pub(crate) fn read(bundle: eb_t) -> Result<Self> {
        let bits = bundle.addr();
        match Bundle::at(bits & 0xff) {
            Some(bundle) if bits >> 8 & 0xff == KIND && bits >> 48 == 0 => {
                let named = Self { bundle, generation: (bits >> 16) as u32 };
                named.check().map(|()| named)
            }
            _ => Err(job_context::refuse("a bundle")),
        }
    }

    #[inline(always)]
    pub(crate) fn check(&self) -> Result<()> {
        let there = self.bundle.generation.load(Ordering::Relaxed);
        let known = self.generation & 1 == 1 && there == self.generation;
        if known { Ok(()) } else { Err(job_context::refuse("a bundle")) }
    }
}

/// Polls each of `all`. Returns how many messages were handled, or the first error.
fn of_each<T>(
    all: impl Iterator<Item = T>,
    poll: impl Fn(T) -> clump_am::Result<usize>,
) -> clump_am::Result<usize> {
    let (mut handled, mut first) = (0, Ok(()));
    for one in all {
        match poll(one) {
            Ok(some) => handled += some,
            Err(error) => first = first.and(Err(error)),
        }
    }
    first.map(|()| handled)
}

/// A bundle as a blocking call polls it.
impl Pollable for Bundle {
    fn poll_once(&self) -> clump_am::Result<usize> {
        of_each(self.members(), |slot| slot.cell.poll_once())
    }

    fn poll_thoroughly(&self) -> clump_am::Result<usize> {
        of_each(self.members(), |slot| slot.cell.poll_thoroughly())
    }

    fn housekeeping(&self) -> clump_am::Result<()> {
        let first_error = |before: clump_am::Result<()>, slot: &EndpointSlot| {
            before.and(slot.cell.housekeeping())
        };
        self.members().fold(Ok(()), first_error)
    }

    fn in_bundle(&self) -> bool {
        false
    }

    fn force_network_poll(&self) {
        self.members().for_each(|slot| slot.cell.force_network_poll());
    }

    fn activity(&self) -> u64 {
        self.members().fold(0, |sum: u64, slot| sum.wrapping_add(slot.cell.activity()))
    }

    fn arm_notifications(&self) {
        self.members().for_each(|slot| slot.cell.arm_notifications());
    }

    fn request_room(&self) {
        self.members().for_each(|slot| slot.cell.request_room());
    }

    fn due_in(&self) -> Option<Duration> {
        self.members().filter_map(|slot| slot.cell.due_in()).min()
    }

    fn first_due_ns(&self) -> Option<u64> {
        self.members().filter_map(|slot| slot.cell.first_due_ns()).min()
    }

    fn anything_waiting(&self) -> bool {
        // No short circuit: a message sent before its lane was armed for the doorbell is found by
        // this check alone.
        self.members().fold(false, |busy, slot| slot.cell.anything_waiting() | busy)
    }
}

impl Pollable for All {
    fn poll_once(&self) -> clump_am::Result<usize> {
        of_each(Self::each(), Bundle::poll_once)
    }

    fn poll_thoroughly(&self) -> clump_am::Result<usize> {
        of_each(Self::each(), Bundle::poll_thoroughly)
    }

    fn housekeeping(&self) -> clump_am::Result<()> {
        let first_error =
            |before: clump_am::Result<()>, bundle: &Bundle| before.and(bundle.housekeeping());
        Self::each().fold(Ok(()), first_error)
    }

    fn in_bundle(&self) -> bool {
        true
    }

    fn force_network_poll(&self) {
        Self::each().for_each(Bundle::force_network_poll);
    }

    fn activity(&self) -> u64 {
        Self::each().fold(0, |sum: u64, bundle| sum.wrapping_add(bundle.activity()))
    }

    fn arm_notifications(&self) {
        Self::each().for_each(Bundle::arm_notifications);
    }

    fn request_room(&self) {
        Self::each().for_each(Bundle::request_room);
    }

    fn due_in(&self) -> Option<Duration> {
        Self::each().filter_map(Bundle::due_in).min()
    }

    fn first_due_ns(&self) -> Option<u64> {
        Self::each().filter_map(Bundle::first_due_ns).min()
    }

    fn anything_waiting(&self) -> bool {
        Self::each().fold(false, |busy, bundle| bundle.anything_waiting() | busy)
    }
}

/// Implements `AM_AllocateBundle` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_AllocateBundle(kind: c_int, bundle: *mut eb_t) -> c_int {
    call(|| {
        job_context::context()?;
        if token::is_handling() {
            return Err(in_handler("AM_AllocateBundle"));
        }
        if kind != SEQ && kind != PAR {
            return Err(bad(format!("a bundle is AM_SEQ or AM_PAR, not {kind}")));
        }
        if bundle.is_null() {
            return Err(crate::status::null("the place for a bundle"));
        }
        let _books = books();
        let free = PLACES.iter().find(|place| place.generation.load(Ordering::Relaxed) & 1 == 0);
        let Some(place) = free else {
            let what = format!("this process has {BUNDLES} bundles, the most there may be");
            return Err(AmFailure::new(Code::Resource, what));
        };
        place.parallel.store(kind == PAR, Ordering::Relaxed);
        place.thread.store(0, Ordering::Relaxed);
        place.members.store(0, Ordering::Relaxed);
        place.offset.store(0, Ordering::Relaxed);
        place.mask.store(0, Ordering::Relaxed);
        HIGHEST.fetch_max(place.index(), Ordering::Relaxed);
        clump_am::poll_also(&All);
        let generation = place.generation.fetch_add(1, Ordering::Release).wrapping_add(1);
        let bits = (generation as usize) << 16 | KIND << 8 | place.index();
        give(bundle, "a bundle", std::ptr::without_provenance_mut(bits))
    })
}

/// Frees the endpoint in `slot`. The caller holds the lock of [`books`].
pub(crate) fn free_endpoint(slot: &'static EndpointSlot) -> Result<()> {
    slot.bundle()?.check_thread()?;
    slot.cell.close()?;
    slot.generation.fetch_add(1, Ordering::Release);
    slot.bundle()?.remove(slot);
    // This thread gives up the endpoint cell, which the next endpoint in it may use.
    slot.cell.let_go()?;
    Ok(())
}

/// Frees a bundle and its endpoints. The caller holds the lock of [`books`].
fn free(bundle: &'static Bundle) -> Result<()> {
    bundle.check_thread()?;
    bundle.members().try_for_each(free_endpoint)?;
    bundle.generation.fetch_add(1, Ordering::Release);
    bundle.thread.store(0, Ordering::Relaxed);
    BOUND.with(|bound| {
        bound.get().borrow_mut().0.retain(|known| !std::ptr::eq(*known, bundle));
    });
    Ok(())
}

/// Implements `AM_FreeBundle` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_FreeBundle(bundle: eb_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_FreeBundle"));
        }
        let named = NamedBundle::read(bundle)?;
        let _books = books();
        named.check()?;
        free(named.bundle)
    })
}

/// Invalidates all handles of bundles.
pub(crate) fn abandon_all() {
    PLACES.iter().for_each(|place| place.generation.store(0, Ordering::Relaxed));
}

/// Frees all bundles and endpoints, or none if one of them belongs to another thread.
pub(crate) fn free_all() -> Result<()> {
    let _books = books();
    let there = || PLACES.iter().filter(|place| place.generation.load(Ordering::Relaxed) & 1 == 1);
    there().try_for_each(Bundle::check_thread)?;
    there().try_for_each(free)
}
