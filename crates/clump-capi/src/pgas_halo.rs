//! Exchanges of boundaries between neighbours: the halo cells of a grid, for example.

use crate::pgas::{clump_pgas, space};
use crate::rma::close;
use crate::send::{bytes, room};
use crate::team_bytes::prepared;
use clump::pgas::{Halo, HaloNeighbour};
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Result, null, range};
use clump_ffi::slot::{Object, Slot};
use std::ffi::{c_int, c_void};

/// An exchange of boundaries between neighbours, in rounds. Belongs to the thread that made it.
#[derive(Debug)]
pub struct clump_halo(());

/// A neighbour of a rank in a ::clump_halo.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_halo_neighbour {
    /// The rank that it is; this one, too, where a grid is closed.
    pub rank: c_int,
    /// The position, among the neighbours of that rank, of this rank on this side: what is given
    /// here arrives there.
    pub entry: c_int,
    /// Elements that each gives the other in a round.
    pub count: usize,
}

/// The object behind a ::clump_halo.
#[derive(Debug)]
pub(crate) struct HaloHandle {
    halo: Halo<u8>,
    /// Bytes of a boundary, by neighbour.
    lengths: Vec<usize>,
}

impl Object for HaloHandle {
    const KIND: u32 = 16;
    const NAME: &'static str = "exchange of boundaries (clump_halo)";
}

/// Runs `run` with an exchange.
fn with<R>(halo: *const clump_halo, run: impl FnOnce(&HaloHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<HaloHandle, R>(halo.cast(), |held, _| run(held))
}

/// Returns the neighbours that a program gives, with lengths in bytes.
///
/// # Safety
/// `neighbours` is null or points to so many.
unsafe fn neighbours_of(
    neighbours: *const clump_halo_neighbour,
    count: c_int,
    element: usize,
) -> Result<Vec<HaloNeighbour>> {
    let count = usize::try_from(count).map_err(|_| range("a number", count, "0 or more"))?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if neighbours.is_null() {
        return Err(null("neighbours"));
    }
    if element == 0 {
        return Err(range("bytes of an element", element, "1 or more"));
    }
    // SAFETY: by the function's own.
    let given = unsafe { std::slice::from_raw_parts(neighbours, count) };
    let index = |what, at: c_int| usize::try_from(at).map_err(|_| range(what, at, "0 or more"));
    let of = |one: &clump_halo_neighbour| {
        let too_long = || range("a number of elements", one.count, "what fits into memory");
        let len = one.count.checked_mul(element).ok_or_else(too_long)?;
        Ok(HaloNeighbour {
            rank: index("a rank", one.rank)?,
            entry: index("an entry", one.entry)?,
            len,
        })
    };
    given.iter().map(of).collect()
}

/// Prepares an exchange of boundaries with `count` neighbours, of elements of `bytes` bytes.
/// Collective; ranks have as many neighbours as they like, none too. If rank a has rank b at
/// position i, with entry j, then b has a at position j, with entry i and the same count.
///
/// Returns null on failure: ::CLUMP_ERR_ARGUMENT (null; neighbours do not agree: at all ranks),
/// ::CLUMP_ERR_SYSTEM (a rank has no memory for it), and as ::clump_barrier. Closed by
/// ::clump_halo_free, at the end of the thread, or by ::clump_finalize: meet in a barrier before.
///
/// # Safety
/// `neighbours` has `count` neighbours.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_halo_alloc(
    gas: *mut clump_pgas,
    neighbours: *const clump_halo_neighbour,
    count: c_int,
    bytes: usize,
) -> *mut clump_halo {
    guard_pointer(|| {
        space(gas, |space| {
            // SAFETY: the caller's.
            let given = unsafe { neighbours_of(neighbours, count, bytes) };
            let given = prepared(space.pgas.team(), given)?;
            let lengths = given.iter().map(|neighbour| neighbour.len).collect();
            let halo = space.pgas.halo::<u8>(&given)?;
            Ok(Slot::fill(HaloHandle { halo, lengths })?.pointer())
        })
    })
}

/// Gives each neighbour its boundary, and writes what each gave in this round into the halo cells;
/// both by position. Returns when all neighbours' are there: ranks that are no neighbours are not
/// waited for.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null: nothing is sent), ::CLUMP_ERR_NODE_LOST,
/// ::CLUMP_ERR_RANK_DIED, and as ::clump_rma_quiet where a store is refused; a refusal on another
/// node is reported by ::clump_pgas_sync.
///
/// # Safety
/// `boundaries` and `cells` have a pointer for each neighbour, to as many elements as were agreed;
/// cells overlap neither each other nor boundaries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_halo_exchange(
    halo: *mut clump_halo,
    boundaries: *const *const c_void,
    cells: *const *mut c_void,
) -> c_int {
    guard(|| {
        with(halo, |held| {
            let count = held.lengths.len();
            if count > 0 && (boundaries.is_null() || cells.is_null()) {
                return Err(null("boundaries or halo cells"));
            }
            let (mut given, mut got) = (Vec::with_capacity(count), Vec::with_capacity(count));
            for (at, &len) in held.lengths.iter().enumerate() {
                // SAFETY: the caller's: there is a pointer for each, to as many bytes.
                let (from, to) = unsafe { (*boundaries.add(at), *cells.add(at)) };
                // SAFETY: as above; nothing else uses the cells meanwhile.
                unsafe {
                    given.push(bytes(from, len)?);
                    got.push(room(to, len)?);
                }
            }
            held.halo.exchange(&given, &mut got)?;
            Ok(0)
        })
    })
}

/// Returns the number of neighbours of this rank. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_halo_neighbours(halo: *const clump_halo) -> c_int {
    guard(|| with(halo, |held| Ok(to_int(held.halo.neighbours()))))
}

/// Frees this rank's part of an exchange: meet in a barrier before. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_halo_free(halo: *mut clump_halo) -> c_int {
    close::<HaloHandle>(halo.cast_const().cast())
}
