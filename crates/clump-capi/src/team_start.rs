//! Collectives of a team in two phases: begun here, and waited for by ::clump_pending_wait.

use crate::element::{ReductionCall, clump_op, clump_type, dispatch};
use crate::pending::{BegunCollective, PendingKind, begun, clump_pending};
use crate::send::{bytes, room};
use crate::team::{TeamHandle, clump_team, team_handle};
use crate::team_bytes::{GivenParts, PartsSpace, Space, bytes_of_all, prepared, root_of};
use crate::team_elements::{GivenElements, Reach};
use clump::op::{Number, Op};
use clump::{PendingCollective, Team};
use clump_ffi::border::guard_pointer;
use clump_ffi::fault::Result;
use std::ffi::{c_int, c_void};

/// Begins a barrier of a team: when ::clump_pending_wait returns, all ranks of the team have begun
/// it.
///
/// This and the other calls that begin a collective return null on failure: as
/// ::clump_team_barrier. Several may be under way at one time, of one team or of several, and be
/// waited for in any order, between other calls. They progress whenever this rank polls or waits.
/// Each counts as a call of its team: all ranks of the team begin the same ones in the same order.
/// One that is dropped (::clump_pending_drop) progresses as long as the team is open.
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_barrier_start(team: *mut clump_team) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_barrier_start", |handle| {
            start(handle, |team| Ok((team.start_barrier()?, |()| Ok(()))))
        })
    })
}

/// Begins ::clump_team_broadcast. On the root `values` may be reused when this returns;
/// ::clump_pending_wait writes them on all ranks: they must live until then.
///
/// # Safety
/// `values` has `values_bytes` bytes until ::clump_pending_wait or ::clump_pending_drop has
/// returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_broadcast_start(
    team: *mut clump_team,
    root: c_int,
    values: *mut c_void,
    values_bytes: usize,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_broadcast_start", |handle| {
            // SAFETY: the caller's.
            let arguments = root_of(handle.team(), root).and_then(|root| unsafe {
                let place = ResultPlace::new(values, values_bytes)?;
                Ok((root, place, bytes(values, values_bytes)?))
            });
            let (root, place, given) = prepared(handle.team(), arguments)?;
            start(handle, |team| {
                Ok((team.start_broadcast(root, given)?, move |got: Vec<u8>| place.write(&got)))
            })
        })
    })
}

/// Begins ::clump_team_all_reduce. `from` may be reused when this returns; ::clump_pending_wait
/// writes `to`, which must live until then.
///
/// # Safety
/// `from` has `count` elements; `to` has space for them until ::clump_pending_wait or
/// ::clump_pending_drop has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_reduce_start(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_all_reduce_start", |handle| {
            // SAFETY: the caller's.
            unsafe { reduce(handle, (from, to, count), (r#type, op), Reach::All) }
        })
    })
}

/// Begins ::clump_team_reduce. `from` may be reused when this returns; on the root
/// ::clump_pending_wait writes `to`, which must live until then.
///
/// # Safety
/// `from` has `count` elements; on the root `to` has space for them until ::clump_pending_wait or
/// ::clump_pending_drop has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_reduce_start(
    team: *mut clump_team,
    root: c_int,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_reduce_start", |handle| {
            let reach = Reach::Root(prepared(handle.team(), root_of(handle.team(), root))?);
            // SAFETY: the caller's.
            unsafe { reduce(handle, (from, to, count), (r#type, op), reach) }
        })
    })
}

/// Begins ::clump_team_scan. `from` may be reused when this returns; ::clump_pending_wait writes
/// `to`, which must live until then.
///
/// # Safety
/// As for ::clump_team_all_reduce_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_scan_start(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_scan_start", |handle| {
            // SAFETY: the caller's.
            unsafe { reduce(handle, (from, to, count), (r#type, op), Reach::Through) }
        })
    })
}

/// Begins ::clump_team_exclusive_scan. `from` may be reused when this returns; on ranks other than
/// the first ::clump_pending_wait writes `to`, which must live until then.
///
/// # Safety
/// As for ::clump_team_all_reduce_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_exclusive_scan_start(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_exclusive_scan_start", |handle| {
            // SAFETY: the caller's.
            unsafe { reduce(handle, (from, to, count), (r#type, op), Reach::Before) }
        })
    })
}

/// Begins ::clump_team_gather. `mine` may be reused when this returns; on the root
/// ::clump_pending_wait writes `all`, which must live until then.
///
/// # Safety
/// `mine` has `mine_bytes` bytes; on the root `all` has space for as many of each rank until
/// ::clump_pending_wait or ::clump_pending_drop has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_gather_start(
    team: *mut clump_team,
    root: c_int,
    mine: *const c_void,
    mine_bytes: usize,
    all: *mut c_void,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_gather_start", |handle| {
            // SAFETY: the caller's.
            let arguments =
                rooted(handle.team(), root, mine_bytes).and_then(|(root, count)| unsafe {
                    Ok((root, ResultPlace::new(all, count)?, bytes(mine, mine_bytes)?))
                });
            let (root, place, mine) = prepared(handle.team(), arguments)?;
            start(handle, |team| {
                let write = move |got: Option<Vec<u8>>| got.map_or(Ok(()), |got| place.write(&got));
                Ok((team.start_gather(root, mine)?, write))
            })
        })
    })
}

/// Begins ::clump_team_scatter. `all` may be reused when this returns; ::clump_pending_wait writes
/// `mine`, which must live until then.
///
/// # Safety
/// `mine` has space for `mine_bytes` bytes until ::clump_pending_wait or ::clump_pending_drop has
/// returned; on the root `all` has as many bytes for each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_scatter_start(
    team: *mut clump_team,
    root: c_int,
    all: *const c_void,
    mine: *mut c_void,
    mine_bytes: usize,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_scatter_start", |handle| {
            // SAFETY: the caller's.
            let arguments =
                rooted(handle.team(), root, mine_bytes).and_then(|(root, count)| unsafe {
                    Ok((root, ResultPlace::new(mine, mine_bytes)?, bytes(all, count)?))
                });
            let (root, place, all) = prepared(handle.team(), arguments)?;
            start(handle, |team| {
                let pending = team.start_scatter(root, all, mine_bytes)?;
                Ok((pending, move |got: Vec<u8>| place.write(&got)))
            })
        })
    })
}

/// Begins ::clump_team_all_gather. `mine` may be reused when this returns; ::clump_pending_wait
/// writes `all`, which must live until then.
///
/// # Safety
/// `mine` has `mine_bytes` bytes; `all` has space for as many of each rank until
/// ::clump_pending_wait or ::clump_pending_drop has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_gather_start(
    team: *mut clump_team,
    mine: *const c_void,
    mine_bytes: usize,
    all: *mut c_void,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_all_gather_start", |handle| {
            // SAFETY: the caller's.
            let arguments = bytes_of_all(handle.team(), mine_bytes).and_then(|count| unsafe {
                Ok((ResultPlace::new(all, count)?, bytes(mine, mine_bytes)?))
            });
            let (place, mine) = prepared(handle.team(), arguments)?;
            start(handle, |team| {
                Ok((team.start_all_gather_slice(mine)?, move |got: Vec<u8>| place.write(&got)))
            })
        })
    })
}

/// Begins ::clump_team_all_to_all. `from` may be reused when this returns; ::clump_pending_wait
/// writes `to`, which must live until then.
///
/// # Safety
/// `from` has `each_bytes` bytes for each rank of the team; `to` has space for as many until
/// ::clump_pending_wait or ::clump_pending_drop has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_to_all_start(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    each_bytes: usize,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_all_to_all_start", |handle| {
            // SAFETY: the caller's.
            let arguments = bytes_of_all(handle.team(), each_bytes).and_then(|count| unsafe {
                Ok((ResultPlace::new(to, count)?, bytes(from, count)?))
            });
            let (place, from) = prepared(handle.team(), arguments)?;
            start(handle, |team| {
                Ok((team.start_all_to_all_slice(from)?, move |got: Vec<u8>| place.write(&got)))
            })
        })
    })
}

/// Begins ::clump_team_all_to_all_v. `from` and `from_bytes` may be reused when this returns;
/// ::clump_pending_wait writes `to` and `to_bytes`, which must live until then, and returns
/// ::CLUMP_ERR_TOO_LONG if `to` has too little space.
///
/// # Safety
/// `from_bytes` has a number for each rank, and `from` as many bytes as those say; until
/// ::clump_pending_wait or ::clump_pending_drop has returned, `to_bytes` has space for a number for
/// each rank, and `to` for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_to_all_v_start(
    team: *mut clump_team,
    from: *const c_void,
    from_bytes: *const usize,
    to: *mut c_void,
    room: usize,
    to_bytes: *mut usize,
) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_all_to_all_v_start", |handle| {
            // SAFETY: the caller's.
            let arguments = unsafe {
                GivenParts::new(handle.team(), from, from_bytes)
                    .and_then(|parts| Ok((parts, PartsSpace::new((to, room), to_bytes)?)))
            };
            let (parts, space) = prepared(handle.team(), arguments)?;
            start(handle, |team| {
                let pending = team.start_all_to_all_bytes(parts.all())?;
                Ok((pending, move |got: Vec<Vec<u8>>| space.write(&got)))
            })
        })
    })
}

/// Begins a reduction or a scan.
///
/// # Safety
/// `from` has `count` elements; `to` has space for them until the end of what is begun has been
/// written, where this rank gets any.
unsafe fn reduce(
    handle: &TeamHandle,
    (from, to, count): (*const c_void, *mut c_void, usize),
    kinds: (clump_type, clump_op),
    reach: Reach,
) -> Result<*mut clump_pending> {
    let to = reach.has_result(handle.team()).then_some(to);
    // SAFETY: by the function's own.
    let elements = unsafe { GivenElements::new(from, to, count) };
    dispatch(kinds, StartedReduction { handle, elements, reach })
}

/// Returns the root, and the bytes of all ranks that it gives or gets; other ranks have none.
fn rooted(team: &Team, root: c_int, each: usize) -> Result<(usize, usize)> {
    let root = root_of(team, root)?;
    let count = if team.rank() == root { bytes_of_all(team, each)? } else { 0 };
    Ok((root, count))
}

/// Begins a collective; `begin` gives it, and what to do with its result.
fn start<R: 'static, F: FnOnce(R) -> Result<()> + 'static>(
    handle: &TeamHandle,
    begin: impl FnOnce(&'static Team) -> Result<(PendingCollective<'static, R>, F)>,
) -> Result<*mut clump_pending> {
    let held = handle.clone();
    // SAFETY: the team stays at its address while `held` lives, which is dropped after what borrows
    // the team.
    let team: &'static Team = unsafe { &*std::ptr::from_ref(held.team()) };
    let (pending, deliver) = begin(team)?;
    begun(PendingKind::Collective(Box::new(Collective { pending, deliver, _team: held })))
}

/// A collective that has begun, and what to do with its result. Fields are dropped in order.
struct Collective<R: 'static, F> {
    pending: PendingCollective<'static, R>,
    deliver: F,
    /// Keeps the team that `pending` borrows.
    _team: TeamHandle,
}

impl<R, F> std::fmt::Debug for Collective<R, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pending.fmt(f)
    }
}

impl<R, F: FnOnce(R) -> Result<()>> BegunCollective for Collective<R, F> {
    fn test(&self) -> Result<bool> {
        Ok(self.pending.test()?)
    }

    fn wait(self: Box<Self>) -> Result<()> {
        let Self { pending, deliver, _team } = *self;
        deliver(pending.wait()?)
    }
}

/// The place for the result of a collective that has begun.
struct ResultPlace(Space);

impl ResultPlace {
    /// # Safety
    /// `to` is null, or has space for so many bytes, which nothing else uses when the result is
    /// written.
    unsafe fn new(to: *mut c_void, bytes: usize) -> Result<Self> {
        // SAFETY: by the function's own.
        unsafe { room(to, bytes) }?;
        Ok(Self((to, bytes)))
    }

    fn write(&self, got: &[u8]) -> Result<()> {
        let (to, bytes) = self.0;
        debug_assert_eq!(got.len(), bytes, "contributions of other lengths are errors");
        // SAFETY: by `new`.
        unsafe { room(to, bytes) }?.copy_from_slice(got);
        Ok(())
    }
}

/// A reduction to begin.
struct StartedReduction<'a> {
    handle: &'a TeamHandle,
    elements: GivenElements,
    reach: Reach,
}

impl ReductionCall for StartedReduction<'_> {
    type Output = *mut clump_pending;

    fn run<T: Number, O: Op<T>>(self, op: O) -> Result<*mut clump_pending> {
        let Self { handle, elements, reach } = self;
        let values = prepared(handle.team(), elements.copied::<T>())?;
        let write = move |got: Vec<T>| {
            elements.write(&got);
            Ok(())
        };
        match reach {
            Reach::All => start(handle, |team| Ok((team.start_all_reduce(&values, op)?, write))),
            Reach::Through => start(handle, |team| Ok((team.start_scan(&values, op)?, write))),
            Reach::Root(root) => start(handle, |team| {
                let pending = team.start_reduce(root, &values, op)?;
                Ok((pending, move |got: Option<Vec<T>>| got.map_or(Ok(()), write)))
            }),
            Reach::Before => start(handle, |team| {
                let pending = team.start_exclusive_scan(&values, op)?;
                Ok((pending, move |got: Option<Vec<T>>| got.map_or(Ok(()), write)))
            }),
        }
    }
}
