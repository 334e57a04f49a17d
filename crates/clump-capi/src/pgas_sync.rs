//! Completion of operations through global pointers, and counters of their aggregation.

use crate::pgas::{PgasHandle, clump_pgas, space};
use crate::pgas_access::read_waiting;
use clump_ffi::border::guard;
use clump_ffi::fault::Result;
use std::ffi::c_int;

/// Counters of aggregation since a ::clump_pgas was opened.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clump_aggregation {
    /// Operations that were sent in batches.
    pub updates: u64,
    /// Batches that were sent.
    pub batches: u64,
}

/// Runs a step of completion.
fn step(gas: *const clump_pgas, run: impl FnOnce(&PgasHandle) -> Result<()>) -> c_int {
    guard(|| space(gas, |space| run(space).map(|()| 0)))
}

/// Waits until the puts, stores, gets and atomics that this thread began have happened.
///
/// Errors: of the first that was refused, as ::clump_rma_quiet; ::CLUMP_ERR_NODE_LOST,
/// ::CLUMP_ERR_RANK_DIED. After an error, what was being read may hold anything.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_sync(gas: *mut clump_pgas) -> c_int {
    step(gas, |space| {
        let read = read_waiting(space);
        let synced = space.pgas.sync();
        read?;
        Ok(synced?)
    })
}

/// Waits as ::clump_pgas_sync does, and for what handlers of this thread began meanwhile.
///
/// Errors: as ::clump_pgas_sync.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_quiet(gas: *mut clump_pgas) -> c_int {
    step(gas, |space| {
        let read = read_waiting(space);
        let quiet = space.pgas.quiet();
        read?;
        Ok(quiet?)
    })
}

/// Waits until `bytes` bytes more have been stored at this rank (::clump_pgas_store), by any rank.
/// Where two ranks store here in rounds, one that is a round ahead makes up for the other, and
/// overwrites what this rank still reads: let all ranks meet between rounds
/// (::clump_pgas_all_store_sync).
///
/// Errors: ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_store_sync(gas: *mut clump_pgas, bytes: usize) -> c_int {
    step(gas, |space| Ok(space.pgas.store_sync(bytes)?))
}

/// Returns when everything that any rank began before has landed, everywhere. Collective. Bytes
/// that were not waited for by ::clump_pgas_store_sync are forgotten.
///
/// Errors: as ::clump_pgas_sync, when all ranks have come and this one, too; as ::clump_barrier.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_all_store_sync(gas: *mut clump_pgas) -> c_int {
    step(gas, |space| {
        // The others wait for this rank, whatever it has read.
        let read = read_waiting(space);
        space.pgas.all_store_sync()?;
        read
    })
}

/// Returns once all ranks have called it. Sends what was collected, and does not wait for it.
///
/// Errors: as ::clump_barrier.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_barrier(gas: *mut clump_pgas) -> c_int {
    step(gas, |space| Ok(space.pgas.barrier()?))
}

/// Sends what was collected, and handles messages that have arrived, without waiting. Programs that
/// compute for long between operations call it.
///
/// Errors: ::CLUMP_ERR_NODE_LOST.
#[unsafe(no_mangle)]
pub extern "C" fn clump_pgas_flush(gas: *mut clump_pgas) -> c_int {
    step(gas, |space| {
        space.pgas.flush()?;
        Ok(space.pgas.poll()?)
    })
}

/// Writes counters of aggregation to `to`.
///
/// Errors: ::CLUMP_ERR_ARGUMENT.
///
/// # Safety
/// `to` is null, or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_aggregation(
    gas: *const clump_pgas,
    to: *mut clump_aggregation,
) -> c_int {
    step(gas, |space| {
        let counts = space.pgas.aggregation();
        let (updates, batches) = (counts.updates, counts.batches());
        crate::endpoint::write_to(to, clump_aggregation { updates, batches }, "counters")
    })
}
