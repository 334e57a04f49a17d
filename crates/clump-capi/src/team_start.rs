//! Beginnings of collectives of a team, which ::clump_pending_wait ends.

use crate::element::{ReductionCall, clump_op, clump_type, dispatch};
use crate::pending::{BegunCollective, PendingKind, begun, clump_pending};
use crate::send::room;
use crate::team::{TeamHandle, clump_team, team_handle};
use crate::team_bytes::{Space, bytes_of_all, prepared, root_of};
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

/// Begins a reduction or a scan.
///
/// # Safety
/// `from` has `count` elements; `to` has space for them until the end of what is begun has been
/// written, where this rank gets any.
pub(crate) unsafe fn reduce(
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
pub(crate) fn rooted(team: &Team, root: c_int, each: usize) -> Result<(usize, usize)> {
    let root = root_of(team, root)?;
    let count = if team.rank() == root { bytes_of_all(team, each)? } else { 0 };
    Ok((root, count))
}

/// Begins a collective; `begin` gives it, and what to do with its result.
pub(crate) fn start<R: 'static, F: FnOnce(R) -> Result<()> + 'static>(
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
pub(crate) struct ResultPlace(Space);

impl ResultPlace {
    /// # Safety
    /// `to` is null, or has space for so many bytes, which nothing else uses when the result is
    /// written.
    pub(crate) unsafe fn new(to: *mut c_void, bytes: usize) -> Result<Self> {
        // SAFETY: by the function's own.
        unsafe { room(to, bytes) }?;
        Ok(Self((to, bytes)))
    }

    pub(crate) fn write(&self, got: &[u8]) -> Result<()> {
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
