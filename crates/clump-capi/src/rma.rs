//! One-sided operations of a thread, memory that it exports, and the segments of others that it
//! accesses.

use crate::endpoint::write_to;
use ::clump_rma::OpenPhase;
use clump::rma::{Rma, Segment, SegmentName, Target};
use clump_ffi::border::{guard, guard_or, guard_pointer};
use clump_ffi::fault::{Fault, Result, null};
use clump_ffi::job::{clump_t, outside_handlers, with};
use clump_ffi::slot::{Object, Slot};
use clump_os::sync::Ordering;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// One-sided operations of the thread that opened them. Takes one of the rank's endpoints.
#[derive(Debug)]
pub struct clump_rma(());

/// Memory of this rank that others may access, until it is closed.
#[derive(Debug)]
pub struct clump_segment(());

/// A segment of any rank, to operate on. Belongs to the thread that opened it.
#[derive(Debug)]
pub struct clump_target(());

/// The global name of a segment: plain data that ranks may send each other. 0 names nothing.
pub type clump_segment_id = u64;

/// The object behind a ::clump_rma.
#[derive(Debug)]
pub(crate) struct RmaHandle {
    pub(crate) rma: Rma,
    phase: Rc<OpenPhase>,
}

/// The object behind a ::clump_segment.
#[derive(Debug)]
pub(crate) struct SegmentHandle(Segment);

/// The object behind a ::clump_target.
#[derive(Debug)]
pub(crate) struct TargetHandle {
    pub(crate) target: Target,
    phase: Rc<OpenPhase>,
}

impl Object for RmaHandle {
    const KIND: u32 = 4;
    const NAME: &'static str = "one-sided operations (clump_rma)";
}

impl Object for SegmentHandle {
    const KIND: u32 = 5;
    const NAME: &'static str = "segment (clump_segment)";
}

impl Object for TargetHandle {
    const KIND: u32 = 6;
    const NAME: &'static str = "target (clump_target)";
}

/// Runs `run` with a thread's one-sided operations.
pub(crate) fn access<R>(
    rma: *const clump_rma,
    run: impl FnOnce(&RmaHandle) -> Result<R>,
) -> Result<R> {
    Slot::enter::<RmaHandle, R>(rma.cast(), |access, _| run(access))
}

/// Runs `run` with a target. The directly accessible part of it may have grown meanwhile.
#[inline(always)]
pub(crate) fn place<R>(
    target: *const clump_target,
    run: impl FnOnce(&TargetHandle) -> Result<R>,
) -> Result<R> {
    Slot::enter::<TargetHandle, R>(target.cast(), |place, slot| {
        let done = run(place);
        slot.near_end.store(place.target.near_end(), Ordering::Relaxed);
        done
    })
}

fn new_place(access: &RmaHandle, target: Target) -> Result<&'static Slot> {
    let (base, end) = (target.near_base(), target.near_end());
    let slot = Slot::fill(TargetHandle { target, phase: access.phase.clone() })?;
    if let Some(base) = base {
        slot.near_base.store(base.as_ptr(), Ordering::Relaxed);
        slot.near_end.store(end, Ordering::Relaxed);
    }
    Ok(slot)
}

/// Opens one-sided operations for the calling thread.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT (all endpoints are open). Closed by
/// ::clump_rma_close, at the end of the thread, or by ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_open(cl: *mut clump_t) -> *mut clump_rma {
    guard_pointer(|| {
        with(cl, |job| {
            let rma = Rma::open(&job.runtime).map_err(Fault::from)?;
            let phase = Rc::new(rma.open_phase());
            Ok(Slot::fill(RmaHandle { rma, phase })?.pointer())
        })
    })
}

/// Closes one-sided operations. Targets, segments, locks and flags that were opened through them
/// stay open. Null does nothing.
///
/// Errors: ::CLUMP_ERR_HANDLE, ::CLUMP_ERR_THREAD, ::CLUMP_ERR_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_close(rma: *mut clump_rma) -> c_int {
    close::<RmaHandle>(rma.cast_const().cast())
}

/// Closes an object.
pub(crate) fn close<T: Object>(pointer: *const ()) -> c_int {
    guard(|| {
        if !pointer.is_null() {
            drop(Slot::empty_of::<T>(pointer)?);
        }
        Ok(0)
    })
}

/// Handles answers that have arrived, without waiting; every call that waits does so too. Returns
/// how many messages were handled.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_poll(rma: *mut clump_rma) -> c_int {
    guard(|| access(rma, |access| Ok(clump_ffi::border::to_int(access.rma.poll()?))))
}

/// Orders operations: those that this thread begins after it on a target come after all that it
/// began before on targets of the same node. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_fence(rma: *mut clump_rma) -> c_int {
    guard(|| {
        access(rma, |access| {
            access.rma.fence();
            Ok(0)
        })
    })
}

/// Waits until everything that this thread began is complete, everywhere. Does not wait for gets in
/// flight (::clump_rma_get_start).
///
/// Errors: the first refused operation of those begun without waiting since the last call
/// (::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_ALIGNMENT, ::CLUMP_ERR_OWNER_DIED), with
/// their number in the text; ::CLUMP_ERR_NODE_LOST (a node was lost with such operations in flight;
/// reported once, afterwards the call covers the other nodes); ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_quiet(rma: *mut clump_rma) -> c_int {
    guard(|| {
        access(rma, |access| {
            access.rma.quiet()?;
            Ok(0)
        })
    })
}

/// Waits until everything that was begun by ::clump_rma_get_start through this has arrived.
///
/// Errors: of the first that was refused, as of ::clump_rma_get.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_sync(rma: *mut clump_rma) -> c_int {
    guard(|| {
        access(rma, |access| {
            access.phase.end()?;
            Ok(0)
        })
    })
}

/// Exports `bytes` bytes of zeroed memory, with address space for `reserved` bytes if that is more,
/// which ::clump_segment_grow fills. A rank exports up to 64 segments at one time, those of
/// endpoints among them.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT, ::CLUMP_ERR_SYSTEM. Closed by ::clump_segment_close,
/// at the end of the thread, or by ::clump_finalize; then the memory is freed.
#[unsafe(no_mangle)]
pub extern "C" fn clump_segment_export(
    rma: *mut clump_rma,
    bytes: u64,
    reserved: u64,
) -> *mut clump_segment {
    guard_pointer(|| {
        access(rma, |access| {
            let segment = access.rma.export_growing(bytes, reserved.max(bytes))?;
            Ok(Slot::fill(SegmentHandle(segment))?.pointer())
        })
    })
}

/// Puts an exported segment into a slot of its own.
pub(crate) fn exported(segment: Segment) -> Result<*mut clump_segment> {
    Ok(Slot::fill(SegmentHandle(segment))?.pointer())
}

/// Closes a segment: operations on it are refused from then on. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_segment_close(segment: *mut clump_segment) -> c_int {
    close::<SegmentHandle>(segment.cast_const().cast())
}

/// Returns the global name of a segment, to send to other ranks; 0 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_segment_name(segment: *const clump_segment) -> clump_segment_id {
    guard_or(0, || {
        Slot::enter::<SegmentHandle, _>(segment.cast(), |export, _| Ok(export.0.name().to_bits()))
    })
}

/// Returns the address of a segment of this rank; null on failure. (A target of it has the same
/// memory at another address.) Others write there at any time: words that they access are read by
/// atomics.
#[unsafe(no_mangle)]
pub extern "C" fn clump_segment_base(segment: *const clump_segment) -> *mut c_void {
    guard_pointer(|| {
        Slot::enter::<SegmentHandle, _>(segment.cast(), |export, _| {
            let base = export.0.near_base().ok_or_else(|| null("memory of this rank"))?;
            Ok(base.as_ptr().cast())
        })
    })
}

/// Grows a segment to `bytes` bytes, if it is shorter; the new bytes are zero. Other ranks are not
/// notified.
///
/// Errors: ::CLUMP_ERR_LIMIT (more than was reserved), ::CLUMP_ERR_SYSTEM (memory has run out).
#[unsafe(no_mangle)]
pub extern "C" fn clump_segment_grow(segment: *mut clump_segment, bytes: u64) -> c_int {
    guard(|| {
        Slot::enter::<SegmentHandle, _>(segment.cast_const().cast(), |export, _| {
            export.0.grow(bytes)?;
            Ok(0)
        })
    })
}

/// Exports `bytes` bytes of zeroed memory on each rank, and writes the targets of all ranks to
/// `all`, by rank: space for as many targets as there are ranks. Collective: all ranks call it.
/// Returns this rank's segment.
///
/// Returns null on failure: as ::clump_segment_export and ::clump_barrier.
///
/// # Safety
/// `all` has space for a target of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_allocate(
    cl: *mut clump_t,
    rma: *mut clump_rma,
    bytes: u64,
    all: *mut *mut clump_target,
) -> *mut clump_segment {
    guard_pointer(|| {
        outside_handlers(cl, "clump_allocate", |job| {
            access(rma, |access| {
                if all.is_null() {
                    return Err(null("the place for targets"));
                }
                let (mine, targets) = job.runtime.allocate(&access.rma, bytes)?;
                let places: Result<Vec<_>> =
                    targets.into_iter().map(|target| new_place(access, target)).collect();
                for (rank, slot) in places?.into_iter().enumerate() {
                    // SAFETY: the caller has space for one of each rank.
                    unsafe { all.add(rank).write(slot.pointer()) };
                }
                exported(mine)
            })
        })
    })
}

/// Opens the segment of that name, to operate on. If it is no longer exported on another node, the
/// first operation that reaches it fails.
///
/// Returns null on failure: ::CLUMP_ERR_SEGMENT (it is to be on this node, and is not),
/// ::CLUMP_ERR_SYSTEM, ::CLUMP_ERR_LIMIT. Closed by ::clump_target_close, at the end of the thread,
/// or by ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn clump_target_open(
    rma: *mut clump_rma,
    name: clump_segment_id,
) -> *mut clump_target {
    guard_pointer(|| {
        access(rma, |access| {
            let target = access.rma.target(SegmentName::from_bits(name))?;
            Ok(new_place(access, target)?.pointer())
        })
    })
}

/// Closes a target; the segment stays. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_target_close(target: *mut clump_target) -> c_int {
    close::<TargetHandle>(target.cast_const().cast())
}

/// Returns the name of a target's segment; 0 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_target_name(target: *const clump_target) -> clump_segment_id {
    guard_or(0, || place(target, |place| Ok(place.target.name().to_bits())))
}

/// Returns 1 if a target is on this node, so that operations are executed at once; 0 if not.
#[unsafe(no_mangle)]
pub extern "C" fn clump_target_is_near(target: *const clump_target) -> c_int {
    guard(|| place(target, |place| Ok(c_int::from(place.target.is_near()))))
}

/// Returns the address in this process of `[offset, offset + bytes)` of a segment of this node, for
/// plain loads and stores; null if it is on another node (no error), or on failure:
/// ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_SEGMENT. Valid while the target is open.
#[unsafe(no_mangle)]
pub extern "C" fn clump_target_near(
    target: *const clump_target,
    offset: u64,
    bytes: u64,
) -> *mut c_void {
    guard_pointer(|| {
        place(target, |place| {
            let Some(base) = place.target.near_base() else { return Ok(std::ptr::null_mut()) };
            place.target.check(offset, bytes)?;
            // SAFETY: the range is inside of the mapping, which the target keeps.
            Ok(unsafe { base.add(offset as usize) }.as_ptr().cast())
        })
    })
}

/// Writes `from`, `bytes` bytes, to `offset` of a segment. `from` may be reused when this returns;
/// ::clump_rma_quiet waits until the bytes are there.
///
/// Errors: on this node: ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_SEGMENT; on another, ::clump_rma_quiet
/// reports them. ::CLUMP_ERR_NODE_LOST.
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_put(
    target: *mut clump_target,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let from = unsafe { crate::send::bytes(from, bytes) }?;
        place(target, |place| {
            place.target.put_bytes(offset, from)?;
            Ok(0)
        })
    })
}

/// Reads `bytes` bytes at `offset` of a segment to `to`; they are there when this returns.
///
/// Errors: ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_OWNER_DIED, ::CLUMP_ERR_NODE_LOST,
/// ::CLUMP_ERR_RANK_DIED. Then `to` may hold anything.
///
/// # Safety
/// `to` has space for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_get(
    target: *mut clump_target,
    offset: u64,
    to: *mut c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let to = unsafe { crate::send::room(to, bytes) }?;
        place(target, |place| {
            place.target.get_bytes(offset, to)?;
            Ok(0)
        })
    })
}

/// Begins to read `bytes` bytes at `offset` of a segment to `to`, which must not be used or freed
/// until ::clump_rma_sync has returned (or ::clump_rma_close, and all targets opened through it are
/// closed). From this node they are there at once.
///
/// Errors: on this node: as ::clump_rma_get; on another, ::clump_rma_sync reports them.
///
/// # Safety
/// `to` has space for `bytes` bytes, for so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_get_start(
    target: *mut clump_target,
    offset: u64,
    to: *mut c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let to = unsafe { crate::send::room(to, bytes) }?;
        let (base, len) = (std::ptr::NonNull::from(&mut *to).cast(), to.len());
        place(target, |place| {
            // SAFETY: the caller's, as long as documented.
            unsafe { place.phase.get_bytes(&place.target, offset, base, len) }?;
            Ok(0)
        })
    })
}

/// Writes to a place for a word, if there is one.
pub(crate) fn write_if<T>(to: *mut T, value: T) {
    if !to.is_null() {
        let _ = write_to(to, value, "a place");
    }
}
