//! Collectives of a team in two phases: begun here, and waited for by ::clump_pending_wait.

use crate::element::{ReductionCall, clump_op, clump_type, dispatch};
use crate::pending::{BegunCollective, PendingKind, begun, clump_pending};
use crate::send::{bytes, room};
use crate::team::{TeamHandle, clump_team, team_handle};
use crate::team_bytes::{bytes_of_all, root_of};
use crate::team_elements::GivenElements;
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
/// waited for in any order, between other calls. They go on whenever this rank polls or waits. Each
/// counts as a call of its team: all ranks of the team begin the same ones in the same order. One
/// that is dropped (::clump_pending_drop) goes on as long as the team is open.
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_barrier_start(team: *mut clump_team) -> *mut clump_pending {
    guard_pointer(|| {
        team_handle(team, "clump_team_barrier_start", |handle| {
            start(handle, |team| Ok((team.start_barrier()?, |()| ())))
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
            let place = unsafe { ResultPlace::new(values, values_bytes) }?;
            start(handle, |team| {
                let root = root_of(team, root)?;
                // SAFETY: the caller's.
                let given = unsafe { bytes(values, values_bytes) }?;
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
            let elements = unsafe { GivenElements::new(from, Some(to), count) };
            dispatch((r#type, op), StartedReduction { handle, elements })
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
            let count = bytes_of_all(handle.team(), mine_bytes)?;
            // SAFETY: the caller's.
            let (place, mine) =
                unsafe { (ResultPlace::new(all, count)?, bytes(mine, mine_bytes)?) };
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
            let count = bytes_of_all(handle.team(), each_bytes)?;
            // SAFETY: the caller's.
            let (place, from) = unsafe { (ResultPlace::new(to, count)?, bytes(from, count)?) };
            start(handle, |team| {
                Ok((team.start_all_to_all_slice(from)?, move |got: Vec<u8>| place.write(&got)))
            })
        })
    })
}

/// Begins a collective; `begin` gives it, and what to do with its result.
fn start<R: 'static, F: FnOnce(R) + 'static>(
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

impl<R, F: FnOnce(R)> BegunCollective for Collective<R, F> {
    fn test(&self) -> Result<bool> {
        Ok(self.pending.test()?)
    }

    fn wait(self: Box<Self>) -> Result<()> {
        let Self { pending, deliver, _team } = *self;
        deliver(pending.wait()?);
        Ok(())
    }
}

/// The place for the result of a collective that has begun.
struct ResultPlace {
    to: *mut c_void,
    bytes: usize,
}

impl ResultPlace {
    /// # Safety
    /// `to` is null, or has space for so many bytes, which nothing else uses when the result is
    /// written.
    unsafe fn new(to: *mut c_void, bytes: usize) -> Result<Self> {
        // SAFETY: by the function's own.
        unsafe { room(to, bytes) }?;
        Ok(Self { to, bytes })
    }

    fn write(&self, got: &[u8]) {
        debug_assert_eq!(got.len(), self.bytes, "contributions of other lengths are errors");
        // SAFETY: by `new`.
        if let Ok(place) = unsafe { room(self.to, self.bytes) } {
            place.copy_from_slice(got);
        }
    }
}

/// A reduction to begin.
struct StartedReduction<'a> {
    handle: &'a TeamHandle,
    elements: GivenElements,
}

impl ReductionCall for StartedReduction<'_> {
    type Output = *mut clump_pending;

    fn run<T: Number, O: Op<T>>(self, op: O) -> Result<*mut clump_pending> {
        let Self { handle, elements } = self;
        let values = elements.copied::<T>()?;
        start(handle, |team| {
            let pending = team.start_all_reduce(&values, op)?;
            Ok((pending, move |got: Vec<T>| elements.write(&got)))
        })
    }
}
