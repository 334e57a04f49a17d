//! Teams: ranks of the job that execute collectives together.

use crate::endpoint::write_to;
use crate::rma::close;
use crate::team_bytes::{prepared, root_of};
use clump::{Clump, Team};
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Result, null};
use clump_ffi::job::{clump_t, refuse_in_handlers, with};
use clump_ffi::slot::{Object, Slot};
use std::ffi::c_int;
use std::sync::Arc;

/// Ranks of the job that execute collectives together: all of them (::clump_team_world), or those
/// of one color (::clump_team_split). They are numbered from 0 in the team. Any thread may use it.
#[derive(Debug)]
pub struct clump_team(());

/// The object behind a ::clump_team.
#[derive(Debug, Clone)]
pub(crate) struct TeamHandle {
    /// `None`: the team of all ranks.
    part: Option<Arc<Team>>,
    /// Keeps the rank in its job, and owns the team of all ranks.
    runtime: Clump,
}

impl Object for TeamHandle {
    const KIND: u32 = 15;
    const NAME: &'static str = "team (clump_team)";
    const BOUND: bool = false;
}

impl TeamHandle {
    /// Returns the team, which stays at its address as long as the handle or a clone of it.
    pub(crate) fn team(&self) -> &Team {
        self.part.as_deref().unwrap_or_else(|| self.runtime.team())
    }
}

/// Runs `run` with the handle of a team, unless a handler of this thread runs.
///
/// # Errors
/// `team` is none; inside a handler; errors of `run`.
pub(crate) fn team_handle<R>(
    team: *const clump_team,
    what: &str,
    run: impl FnOnce(&TeamHandle) -> Result<R>,
) -> Result<R> {
    Slot::enter::<TeamHandle, R>(team.cast(), |handle, _| {
        refuse_in_handlers(what)?;
        run(handle)
    })
}

/// Runs `run` with a team, unless a handler of this thread runs.
///
/// # Errors
/// As for [`team_handle`].
pub(crate) fn in_team<R>(
    team: *const clump_team,
    what: &str,
    run: impl FnOnce(&Team) -> Result<R>,
) -> Result<R> {
    team_handle(team, what, |handle| run(handle.team()))
}

/// Returns a property of a team.
fn of_team(team: *const clump_team, ask: impl FnOnce(&Team) -> Result<usize>) -> c_int {
    guard(|| Slot::enter::<TeamHandle, _>(team.cast(), |it, _| ask(it.team()).map(to_int)))
}

/// Opens the team of all ranks. Not a collective. It executes the collectives of the job:
/// ::clump_barrier and ::clump_team_barrier of it are the same.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_world(cl: *mut clump_t) -> *mut clump_team {
    guard_pointer(|| {
        with(cl, |job| {
            let runtime = job.runtime.clone();
            Ok(Slot::fill(TeamHandle { part: None, runtime })?.pointer())
        })
    })
}

/// Divides a team: ranks that give the same `color` form a team, in the order of their `key`s, and
/// of their ranks in `team` where keys are equal. It is written to `part`. If `color` is negative,
/// this rank is in none, and null is written. A collective: all ranks of `team` call it.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null); ::CLUMP_ERR_LIMIT.
///
/// # Safety
/// `part` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_split(
    team: *mut clump_team,
    color: i64,
    key: i64,
    part: *mut *mut clump_team,
) -> c_int {
    guard(|| {
        team_handle(team, "clump_team_split", |handle| {
            if part.is_null() {
                return prepared(handle.team(), Err(null("the place for the new team")));
            }
            // The order of keys with a sign is that of numbers without one, half the range higher.
            let key = key.cast_unsigned() ^ (1 << 63);
            let new = handle.team().split(u64::try_from(color).ok(), key)?;
            let slot = new.map(|new| {
                let runtime = handle.runtime.clone();
                Slot::fill(TeamHandle { part: Some(Arc::new(new)), runtime })
            });
            let pointer = slot.transpose()?.map_or(std::ptr::null_mut(), Slot::pointer);
            write_to(part, pointer, "the place for the new team")?;
            Ok(0)
        })
    })
}

/// Closes a team at this rank. Not a collective. A collective that was begun on it may be waited
/// for afterwards. One that this rank has dropped is given up: ranks that wait for it have done so
/// before. Null does nothing.
///
/// Errors: ::CLUMP_ERR_BUSY (a call on it has not returned).
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_free(team: *mut clump_team) -> c_int {
    close::<TeamHandle>(team.cast_const().cast())
}

/// Returns the number of this rank in a team, from 0. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_rank(team: *const clump_team) -> c_int {
    of_team(team, |team| Ok(team.rank()))
}

/// Returns the number of ranks of a team. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_nranks(team: *const clump_team) -> c_int {
    of_team(team, |team| Ok(team.nranks()))
}

/// Returns the job's number of rank `rank` of a team. Errors: ::CLUMP_ERR_ARGUMENT if the team has
/// no such rank.
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_member(team: *const clump_team, rank: c_int) -> c_int {
    of_team(team, |team| Ok(team.member(root_of(team, rank)?) as usize))
}

/// Returns once all ranks of a team have called it; polls meanwhile. All ranks of a team make the
/// same collective calls on it in the same order; calls on different teams have no order.
///
/// Errors: as ::clump_barrier, with the death of a rank of the team. Any thread; different threads
/// may execute collectives of different teams at one time.
#[unsafe(no_mangle)]
pub extern "C" fn clump_team_barrier(team: *mut clump_team) -> c_int {
    guard(|| {
        in_team(team, "clump_team_barrier", |team| {
            team.barrier()?;
            Ok(0)
        })
    })
}
