//! Bundles: endpoints that are polled together, and whose threads they are.

use super::endpoint::{self, ENDPOINTS, EndpointSlot};
use super::status::{AmFailure, Code, Result, bad, call, give, in_handler};
use super::{start, token};
use clump_am::{Pollable, this_thread};
use clump_os::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bundles of a process.
pub(super) const BUNDLES: usize = 64;
/// `AM_SEQ`: one thread uses the bundle.
const SEQ: c_int = 0;
/// `AM_PAR`: any threads do.
const PAR: c_int = 1;

/// What C sees of a bundle. Never followed.
#[derive(Debug)]
pub struct clump_am_eb(());
/// A bundle: its place, and which of those that lay there it is.
pub type eb_t = *mut clump_am_eb;

/// In each handle of a bundle.
const KIND: usize = 0xeb;

/// A place for a bundle.
#[derive(Debug)]
pub(super) struct Bundle {
    /// Odd while there is one.
    generation: AtomicU32,
    parallel: AtomicBool,
    /// Of a sequential one: the thread whose it is; 0 before the first sends, polls or waits.
    thread: AtomicU64,
    /// A bit for each endpoint.
    members: AtomicU32,
    /// What makes the sum of its members' counts of messages its own: it changes when they come and go.
    offset: AtomicU64,
    pub(super) mask: AtomicU32,
    /// Threads that wait for an event.
    waiters: AtomicU32,
}

const _: () = assert!(ENDPOINTS <= u32::BITS as usize);

static PLACES: [Bundle; BUNDLES] = [const { Bundle::empty() }; BUNDLES];

/// No bundle has a higher index.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// All bundles, as blocking calls of a thread look at them: those of other threads are passed over.
#[derive(Debug)]
pub(super) struct All;

impl All {
    fn each() -> impl Iterator<Item = &'static Bundle> {
        let used = |bundle: &&Bundle| bundle.members.load(Ordering::Relaxed) != 0;
        PLACES.iter().take(HIGHEST.load(Ordering::Relaxed) + 1).filter(used)
    }
}

/// Held while bundles and endpoints are made, moved, bound and freed, and never by a handler: whoever holds
/// it may wait for a berth, and a handler is inside of one.
static BOOKS: Mutex<()> = Mutex::new(());

pub(super) fn books() -> MutexGuard<'static, ()> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sequential bundles of a thread, which end with it being theirs.
struct Bound(Vec<&'static Bundle>);

thread_local! {
    static BOUND: RefCell<Bound> = const { RefCell::new(Bound(Vec::new())) };
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
    const fn empty() -> Self {
        Self {
            generation: AtomicU32::new(0),
            parallel: AtomicBool::new(false),
            thread: AtomicU64::new(0),
            members: AtomicU32::new(0),
            offset: AtomicU64::new(0),
            mask: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn at(index: usize) -> Option<&'static Self> {
        PLACES.get(index)
    }

    pub(super) fn index(&self) -> usize {
        (std::ptr::from_ref(self).addr() - PLACES.as_ptr().addr()) / size_of::<Self>()
    }

    /// Its endpoints.
    #[inline(always)]
    pub(super) fn members(&self) -> impl Iterator<Item = &'static EndpointSlot> + use<> {
        let mut left = self.members.load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            EndpointSlot::at(at)
        })
    }

    /// Fails if the bundle is another thread's.
    pub(super) fn check_thread(&self) -> Result<()> {
        match self.thread.load(Ordering::Relaxed) {
            0 => Ok(()),
            thread if thread == this_thread() => Ok(()),
            _ => Err(foreign()),
        }
    }

    /// Makes a sequential bundle this thread's, as what sends, polls or waits does first. From then on blocking
    /// calls of this thread, those of collectives too, look at bundles.
    #[inline(always)]
    pub(super) fn bind(&'static self) -> Result<()> {
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
            // A thread that is ending keeps nothing; its bundles stay its own.
            let _ = BOUND.try_with(|bound| bound.borrow_mut().0.push(self));
        }
        for slot in self.members() {
            slot.cell.take()?;
        }
        Ok(())
    }

    /// Makes the bundle nobody's. The caller holds the books.
    fn let_go(&self) {
        for slot in self.members() {
            // Only a thread that ends inside of a handler is still in there.
            let _ = slot.cell.let_go();
        }
        self.thread.store(0, Ordering::Relaxed);
    }

    /// Adds an endpoint. The caller holds the books.
    pub(super) fn add(&self, slot: &'static EndpointSlot) -> Result<()> {
        self.offset.fetch_sub(slot.handled.load(Ordering::Relaxed), Ordering::Relaxed);
        self.members.fetch_or(1 << slot.index(), Ordering::Relaxed);
        if self.thread.load(Ordering::Relaxed) == this_thread() {
            slot.cell.take()?;
        }
        Ok(())
    }

    /// Takes an endpoint out. The caller holds the books.
    pub(super) fn remove(&self, slot: &EndpointSlot) {
        self.members.fetch_and(!(1 << slot.index()), Ordering::Relaxed);
        self.offset.fetch_add(slot.handled.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Messages that its endpoints have handled while they were in it, all together.
    pub(super) fn handled(&self) -> u64 {
        // SYNC 17: pairs with Slot::note_handled
        let all = self.members().map(|slot| slot.handled.load(Ordering::Acquire));
        all.fold(self.offset.load(Ordering::Relaxed), u64::wrapping_add)
    }

    /// Which of the bundles that lay in this place it is.
    #[inline(always)]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Whether threads share it.
    #[inline(always)]
    pub(super) fn is_parallel(&self) -> bool {
        self.parallel.load(Ordering::Relaxed)
    }

    /// A thread waits for an event, as long as what this gives lives.
    pub(super) fn wait(&'static self) -> Waiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiter(self)
    }

    /// Wakes threads that wait for a message that this one has handled.
    #[inline(always)]
    pub(super) fn tell_waiters(&self) {
        if self.is_parallel() && self.waiters.load(Ordering::Relaxed) != 0 {
            wake();
        }
    }

    /// Whether a message of its endpoints came back and found no handler 0.
    pub(super) fn check_claimed(&self) -> Result<()> {
        self.members().try_for_each(|slot| slot.check_claimed())
    }
}

/// See [`Bundle::wait`].
pub(super) struct Waiter(&'static Bundle);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A waiter announces that it will sleep, and then looks whether its message was handled; this thread notes that
/// it was, and then looks for sleepers: one of them sees the other.
#[cold]
fn wake() {
    if let Ok(context) = start::context() {
        let alarm = context.node().alarm(context.rank()).map(AsRef::as_ref);
        context.block().park().wake_if_asleep(context.node().fence(), alarm);
    }
}

#[cold]
fn foreign() -> AmFailure {
    let what = "the bundle is sequential (AM_SEQ), and another thread's";
    AmFailure::new(Code::InUse, what)
}

/// A bundle that C named: its place, and the generation to find there.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedBundle {
    pub(super) bundle: &'static Bundle,
    generation: u32,
}

impl NamedBundle {
    /// Reads a handle.
    #[inline(always)]
    pub(super) fn read(bundle: eb_t) -> Result<Self> {
        let bits = bundle.addr();
        match Bundle::at(bits & 0xff) {
            Some(bundle) if bits >> 8 & 0xff == KIND && bits >> 48 == 0 => {
                let named = Self { bundle, generation: (bits >> 16) as u32 };
                named.check().map(|()| named)
            }
            _ => Err(start::refuse("a bundle")),
        }
    }

    #[inline(always)]
    pub(super) fn check(&self) -> Result<()> {
        let there = self.bundle.generation.load(Ordering::Relaxed);
        let known = self.generation & 1 == 1 && there == self.generation;
        if known { Ok(()) } else { Err(start::refuse("a bundle")) }
    }
}

/// A bundle as a blocking call polls it.
impl Pollable for Bundle {
    fn poll_once(&self) -> clump_am::Result<usize> {
        let mut handled = 0;
        let mut first = Ok(());
        for slot in self.members() {
            match slot.cell.poll_once() {
                Ok(some) => handled += some,
                Err(error) => first = first.and(Err(error)),
            }
        }
        first.map(|()| handled)
    }

    fn housekeeping(&self) -> clump_am::Result<()> {
        let attended =
            |first: clump_am::Result<()>, slot: &EndpointSlot| first.and(slot.cell.housekeeping());
        self.members().fold(Ok(()), attended)
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

    fn anything_waiting(&self) -> bool {
        // Each is asked: what was asked to ring, and had been sent to before it was, is found by this alone.
        self.members().fold(false, |busy, slot| slot.cell.anything_waiting() | busy)
    }
}

impl Pollable for All {
    fn poll_once(&self) -> clump_am::Result<usize> {
        let mut handled = 0;
        let mut first = Ok(());
        for bundle in Self::each() {
            match bundle.poll_once() {
                Ok(some) => handled += some,
                Err(error) => first = first.and(Err(error)),
            }
        }
        first.map(|()| handled)
    }

    fn housekeeping(&self) -> clump_am::Result<()> {
        let attended =
            |first: clump_am::Result<()>, bundle: &Bundle| first.and(bundle.housekeeping());
        Self::each().fold(Ok(()), attended)
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

    fn anything_waiting(&self) -> bool {
        Self::each().fold(false, |busy, bundle| bundle.anything_waiting() | busy)
    }
}

/// See `AM_AllocateBundle` in the header.
#[unsafe(no_mangle)]
pub extern "C" fn AM_AllocateBundle(kind: c_int, bundle: *mut eb_t) -> c_int {
    call(|| {
        start::context()?;
        if token::is_handling() {
            return Err(in_handler("AM_AllocateBundle"));
        }
        if kind != SEQ && kind != PAR {
            return Err(bad(format!("a bundle is AM_SEQ or AM_PAR, not {kind}")));
        }
        if bundle.is_null() {
            return Err(super::status::null("the place for a bundle"));
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

/// Frees a bundle and its endpoints. The caller holds the books.
fn free(bundle: &'static Bundle) -> Result<()> {
    bundle.check_thread()?;
    bundle.members().try_for_each(endpoint::free)?;
    bundle.generation.fetch_add(1, Ordering::Release);
    bundle.thread.store(0, Ordering::Relaxed);
    let _ = BOUND.try_with(|bound| {
        bound.borrow_mut().0.retain(|known| !std::ptr::eq(*known, bundle));
    });
    Ok(())
}

/// See `AM_FreeBundle` in the header.
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

/// No handle names a bundle any more.
pub(super) fn abandon_all() {
    PLACES.iter().for_each(|place| place.generation.store(0, Ordering::Relaxed));
}

/// Frees all bundles and endpoints, or none if one of them is another thread's.
pub(super) fn free_all() -> Result<()> {
    let _books = books();
    let there = || PLACES.iter().filter(|place| place.generation.load(Ordering::Relaxed) & 1 == 1);
    there().try_for_each(Bundle::check_thread)?;
    there().try_for_each(free)
}
