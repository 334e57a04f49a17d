//! The global address space of a thread, and arrays over all ranks.

use crate::rma::close;
use crate::team_bytes::prepared;
use clump::pgas::{GlobalPtr, Layout, Pgas, Spread};
use clump::rma::Target;
use clump_ffi::border::{guard, guard_or, guard_pointer};
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::job::{clump_t, outside_handlers};
use clump_ffi::slot::{Object, Slot};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};

/// The global address space, as the thread that opened it uses it.
#[derive(Debug)]
pub struct clump_pgas(());

/// An array whose elements are in the memories of all ranks. Belongs to the thread that made it.
#[derive(Debug)]
pub struct clump_spread(());

/// Distribution of an array's elements over ranks.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum clump_layout {
    /// One contiguous block for each rank.
    CLUMP_BLOCK = 0,
    /// Element by element, around all ranks.
    CLUMP_CYCLIC = 1,
}

/// A global pointer: an address in the memory of any rank. Plain data that ranks may send each
/// other. All zero points nowhere. Arithmetic: ::clump_gptr_add.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_gptr {
    /// The segment that it points into.
    pub segment: u64,
    /// Offset in that, in bytes.
    pub offset: u64,
    /// End of the memory that it may be used in.
    pub end: u64,
}

/// Pointer that points nowhere.
const NOWHERE: clump_gptr = clump_gptr { segment: 0, offset: 0, end: 0 };

/// A get that waits for ::clump_pgas_sync.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingGet {
    pub(crate) from: GlobalPtr<u8>,
    pub(crate) to: *mut c_void,
    pub(crate) bytes: usize,
}

/// The object behind a ::clump_pgas.
#[derive(Debug)]
pub(crate) struct PgasHandle {
    pub(crate) pgas: Pgas,
    pub(crate) gets: RefCell<Vec<WaitingGet>>,
}

/// The object behind a ::clump_spread.
#[derive(Debug)]
pub(crate) struct SpreadHandle {
    pub(crate) spread: Spread<u8>,
    pub(crate) element: usize,
    /// This rank's part, mapped as long as the array lives.
    own: Option<Target>,
}

impl Object for PgasHandle {
    const KIND: u32 = 10;
    const NAME: &'static str = "global address space (clump_pgas)";
}

impl Object for SpreadHandle {
    const KIND: u32 = 11;
    const NAME: &'static str = "array of all ranks (clump_spread)";
}

/// Runs `run` with a thread's global address space.
pub(crate) fn space<R>(
    gas: *const clump_pgas,
    run: impl FnOnce(&PgasHandle) -> Result<R>,
) -> Result<R> {
    Slot::enter::<PgasHandle, R>(gas.cast(), |space, _| run(space))
}

/// Runs `run` with an array.
pub(crate) fn array<R>(
    spread: *const clump_spread,
    run: impl FnOnce(&SpreadHandle) -> Result<R>,
) -> Result<R> {
    Slot::enter::<SpreadHandle, R>(spread.cast(), |array, _| run(array))
}

impl clump_gptr {
    /// Returns the pointer in Rust.
    pub(crate) fn pointer<T>(self) -> GlobalPtr<T> {
        GlobalPtr::from_words([self.segment, self.offset, self.end])
    }

    /// Returns the pointer in C.
    pub(crate) fn of<T>(pointer: GlobalPtr<T>) -> Self {
        let [segment, offset, end] = pointer.to_words();
        Self { segment, offset, end }
    }
}

/// Opens the global address space for the calling thread. Collective: all ranks call it. Takes one
/// of the rank's endpoints. The settings `CLUMP_PGAS_*` bound its aggregation.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT (all endpoints are open), and as ::clump_barrier.
/// Closed by ::clump_pgas_close, at the end of the thread, or by ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_open(cl: *mut clump_t) -> *mut clump_pgas {
    guard_pointer(|| {
        outside_handlers(cl, "clump_pgas_open", |job| {
            let pgas = job.runtime.pgas().map_err(Fault::from)?;
            Ok(Slot::fill(PgasHandle { pgas, gets: RefCell::default() })?.pointer())
        })
    })
}

/// Closes the global address space. Collected operations are sent with the next operation of its
/// arrays, which stay open: call ::clump_pgas_sync before. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_close(gas: *mut clump_pgas) -> c_int {
    close::<PgasHandle>(gas.cast_const().cast())
}

/// Spreads an array of `count` elements of `bytes` bytes each, all zero, over all ranks, in a
/// ::clump_layout. Collective: all ranks give the same.
///
/// Returns null on failure: ::CLUMP_ERR_ARGUMENT (no such layout, an array that no memory holds,
/// different ones), ::CLUMP_ERR_LIMIT, ::CLUMP_ERR_SYSTEM, and as ::clump_barrier. Closed by
/// ::clump_spread_free, at the end of the thread, or by ::clump_finalize: meet in a barrier before.
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_alloc(
    gas: *mut clump_pgas,
    count: usize,
    bytes: usize,
    layout: c_int,
) -> *mut clump_spread {
    guard_pointer(|| {
        space(gas, |space| {
            let ranks = space.pgas.nranks();
            let block = match layout {
                0 => count.div_ceil(ranks).max(1),
                1 => 1,
                other => {
                    let wrong = range("a layout", other, "one of clump_layout");
                    return prepared(space.pgas.team(), Err(wrong));
                }
            };
            spread_in_blocks(space, (count, bytes), block)
        })
    })
}

/// Spreads an array as ::clump_spread_alloc does, in blocks of `block` elements, around all ranks.
/// Collective: all ranks give the same.
///
/// Returns null on failure: as that; ::CLUMP_ERR_ARGUMENT (blocks of no elements).
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_alloc_block_cyclic(
    gas: *mut clump_pgas,
    count: usize,
    bytes: usize,
    block: usize,
) -> *mut clump_spread {
    guard_pointer(|| {
        space(gas, |space| {
            if block == 0 {
                return Err(range("a block", block, "of one element at least"));
            }
            spread_in_blocks(space, (count, bytes), block)
        })
    })
}

/// Spreads `count` elements of `bytes` bytes each, in blocks of `block` elements.
fn spread_in_blocks(
    space: &PgasHandle,
    (count, bytes): (usize, usize),
    block: usize,
) -> Result<*mut clump_spread> {
    let sizes = count.checked_mul(bytes).zip(block.checked_mul(bytes));
    let wrong = || range("an array", count, "of elements, and as many as memory holds");
    let sizes = sizes.filter(|_| bytes > 0).ok_or_else(wrong);
    let (all, block) = prepared(space.pgas.team(), sizes)?;
    let spread = space.pgas.spread::<u8>(all, Layout::BlockCyclic(block))?;
    let own = spread.on(space.pgas.rank());
    let own = own.map(|own| space.pgas.rma().target(own.segment())).transpose()?;
    Ok(Slot::fill(SpreadHandle { spread, element: bytes, own })?.pointer())
}

/// Frees this rank's part of an array: operations of other ranks on it are refused from then on.
/// Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_free(spread: *mut clump_spread) -> c_int {
    close::<SpreadHandle>(spread.cast_const().cast())
}

/// Returns the pointer to an element; one that points nowhere on failure, and beyond the end.
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_at(spread: *const clump_spread, index: usize) -> clump_gptr {
    guard_or(NOWHERE, || {
        array(spread, |array| {
            let beyond = || range("an index", index, "below the number of elements");
            let place = index.checked_mul(array.element).and_then(|at| array.spread.ptr(at));
            Ok(clump_gptr::of(place.ok_or_else(beyond)?))
        })
    })
}

/// Returns the pointer to the first element at a rank; one that points nowhere on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_on(spread: *const clump_spread, rank: c_int) -> clump_gptr {
    guard_or(NOWHERE, || {
        array(spread, |array| {
            let place = usize::try_from(rank).ok().and_then(|rank| array.spread.on(rank));
            let missing = || range("a rank", rank, "one of the job");
            Ok(clump_gptr::of(place.ok_or_else(missing)?))
        })
    })
}

/// Returns the rank of an element, or a status below 0.
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_owner(spread: *const clump_spread, index: usize) -> c_int {
    guard(|| {
        array(spread, |array| {
            let beyond = || range("an index", index, "below the number of elements");
            let owner = index.checked_mul(array.element).and_then(|at| array.spread.owner(at));
            Ok(clump_ffi::border::to_int(owner.ok_or_else(beyond)?))
        })
    })
}

/// Returns the number of elements at this rank; 0 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_count(spread: *const clump_spread) -> usize {
    guard_or(0, || array(spread, |array| Ok(array.spread.local().len() / array.element)))
}

/// Returns the address of this rank's elements, for plain loads and stores; null on failure. Other
/// ranks may write there at any time: words that they access meanwhile are read by atomics.
#[unsafe(no_mangle)]
pub extern "C" fn clump_spread_local(spread: *const clump_spread) -> *mut c_void {
    guard_pointer(|| {
        array(spread, |array| {
            let base = array.own.as_ref().and_then(Target::near_base);
            Ok(base.ok_or_else(|| null("memory of this rank"))?.as_ptr().cast())
        })
    })
}
