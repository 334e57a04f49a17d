//! The collectives of [`crate::collective`] on a team.

use crate::team::{clump_team, in_team};
use crate::team_bytes as on;
use clump_ffi::border::guard;
use std::ffi::{c_int, c_void};

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

/// Executes ::clump_broadcast among the ranks of a team; `root` is one of them.
///
/// # Safety
/// As for ::clump_broadcast.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_broadcast(
    team: *mut clump_team,
    root: c_int,
    values: *mut c_void,
    values_bytes: usize,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_broadcast", |team| {
            // SAFETY: the caller's.
            unsafe { on::broadcast(team, root, (values, values_bytes)) }
        })
    })
}

/// Executes ::clump_gather among the ranks of a team; `root` is one of them.
///
/// # Safety
/// As for ::clump_gather.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_gather(
    team: *mut clump_team,
    root: c_int,
    mine: *const c_void,
    mine_bytes: usize,
    all: *mut c_void,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_gather", |team| {
            // SAFETY: the caller's.
            unsafe { on::gather(team, root, (mine, mine_bytes), all) }
        })
    })
}

/// Executes ::clump_all_gather among the ranks of a team.
///
/// # Safety
/// As for ::clump_all_gather.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_gather(
    team: *mut clump_team,
    mine: *const c_void,
    mine_bytes: usize,
    all: *mut c_void,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_all_gather", |team| {
            // SAFETY: the caller's.
            unsafe { on::all_gather(team, (mine, mine_bytes), all) }
        })
    })
}

/// Executes ::clump_scatter among the ranks of a team; `root` is one of them.
///
/// # Safety
/// As for ::clump_scatter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_scatter(
    team: *mut clump_team,
    root: c_int,
    all: *const c_void,
    mine: *mut c_void,
    mine_bytes: usize,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_scatter", |team| {
            // SAFETY: the caller's.
            unsafe { on::scatter(team, root, all, (mine, mine_bytes)) }
        })
    })
}

/// Executes ::clump_all_to_all among the ranks of a team.
///
/// # Safety
/// As for ::clump_all_to_all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_to_all(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    each_bytes: usize,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_all_to_all", |team| {
            // SAFETY: the caller's.
            unsafe { on::all_to_all(team, (from, to), each_bytes) }
        })
    })
}

/// Executes ::clump_all_to_all_v among the ranks of a team.
///
/// # Safety
/// As for ::clump_all_to_all_v.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_to_all_v(
    team: *mut clump_team,
    from: *const c_void,
    from_bytes: *const usize,
    to: *mut c_void,
    room: usize,
    to_bytes: *mut usize,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_all_to_all_v", |team| {
            // SAFETY: the caller's.
            unsafe { on::all_to_all_v(team, (from, from_bytes), (to, room), to_bytes) }
        })
    })
}
