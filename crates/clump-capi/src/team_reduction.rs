//! The collectives of [`crate::reduction`] on a team.

use crate::element::{clump_op, clump_type};
use crate::team::{clump_team, in_team};
use crate::team_bytes::{prepared, root_of};
use crate::team_elements::{Reach, combine};
use clump_ffi::border::guard;
use std::ffi::{c_int, c_void};

/// Executes ::clump_all_reduce among the ranks of a team.
///
/// # Safety
/// As for ::clump_all_reduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_all_reduce(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_all_reduce", |team| {
            // SAFETY: the caller's.
            unsafe { combine(team, (from, to, count), (r#type, op), Reach::All) }
        })
    })
}

/// Executes ::clump_reduce among the ranks of a team; `root` is one of them.
///
/// # Safety
/// As for ::clump_reduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_reduce(
    team: *mut clump_team,
    root: c_int,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_reduce", |team| {
            let reach = Reach::Root(prepared(team, root_of(team, root))?);
            // SAFETY: the caller's.
            unsafe { combine(team, (from, to, count), (r#type, op), reach) }
        })
    })
}

/// Executes ::clump_scan among the ranks of a team.
///
/// # Safety
/// As for ::clump_scan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_scan(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_scan", |team| {
            // SAFETY: the caller's.
            unsafe { combine(team, (from, to, count), (r#type, op), Reach::Through) }
        })
    })
}

/// Executes ::clump_exclusive_scan among the ranks of a team.
///
/// # Safety
/// As for ::clump_exclusive_scan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_team_exclusive_scan(
    team: *mut clump_team,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        in_team(team, "clump_team_exclusive_scan", |team| {
            // SAFETY: the caller's.
            unsafe { combine(team, (from, to, count), (r#type, op), Reach::Before) }
        })
    })
}
