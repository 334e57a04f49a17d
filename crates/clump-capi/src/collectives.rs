//! Collectives that C calls: each of all ranks and of a team, at once and in two phases.
//!
//! A row of the table has what the functions have in common once. The headers are made of it, too.

use crate::collective_table::collectives;
use crate::element::{clump_op, clump_type};
use crate::pending::clump_pending;
use crate::send::bytes;
use crate::team::{clump_team, in_team, team_handle};
use crate::team_bytes::{self as on, GivenParts, PartsSpace, bytes_of_all, prepared, root_of};
use crate::team_elements::{Reach, combine};
use crate::team_start::{ResultPlace, reduce, rooted, start};
use clump_ffi::border::{guard, guard_pointer};
use clump_ffi::job::{clump_t, outside_handlers};
use std::ffi::{c_int, c_void};

collectives! {
clump_broadcast, clump_team_broadcast, clump_team_broadcast_start(
    root: c_int, values: *mut c_void, values_bytes: usize
)
/// Copies the `values_bytes` bytes of `root` to all ranks, which give equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank).
///
/// # Safety
/// `values` has `values_bytes` bytes.
|team| on::broadcast(team, root, (values, values_bytes)),
/// Begins ::clump_team_broadcast. On the root `values` may be reused when this returns;
/// ::clump_pending_wait writes them on all ranks: they must live until then.
///
/// # Safety
/// `values` has `values_bytes` bytes until ::clump_pending_wait or ::clump_pending_drop has
/// returned.
|handle| {
    let arguments = root_of(handle.team(), root).and_then(|root| {
        let place = ResultPlace::new(values, values_bytes)?;
        Ok((root, place, bytes(values, values_bytes)?))
    });
    let (root, place, given) = prepared(handle.team(), arguments)?;
    start(handle, |team| {
        Ok((team.start_broadcast(root, given)?, move |got: Vec<u8>| place.write(&got)))
    })
};

clump_gather, clump_team_gather, clump_team_gather_start(
    root: c_int, mine: *const c_void, mine_bytes: usize, all: *mut c_void
)
/// Gathers `mine_bytes` bytes of every rank in `all` on `root`, in rank order: there `all` has
/// space for as many as there are ranks; elsewhere it is not used. All ranks contribute equally
/// many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank; on the root also: a rank
/// gave another number of bytes).
///
/// # Safety
/// `mine` has `mine_bytes` bytes; on the root `all` has space for as many of each rank.
|team| on::gather(team, root, (mine, mine_bytes), all),
/// Begins ::clump_team_gather. `mine` may be reused when this returns; on the root
/// ::clump_pending_wait writes `all`, which must live until then.
///
/// # Safety
/// `mine` has `mine_bytes` bytes; on the root `all` has space for as many of each rank until
/// ::clump_pending_wait or ::clump_pending_drop has returned.
|handle| {
    let arguments = rooted(handle.team(), root, mine_bytes).and_then(|(root, count)| {
        Ok((root, ResultPlace::new(all, count)?, bytes(mine, mine_bytes)?))
    });
    let (root, place, mine) = prepared(handle.team(), arguments)?;
    start(handle, |team| {
        let write = move |got: Option<Vec<u8>>| got.map_or(Ok(()), |got| place.write(&got));
        Ok((team.start_gather(root, mine)?, write))
    })
};

clump_all_gather, clump_team_all_gather, clump_team_all_gather_start(
    mine: *const c_void, mine_bytes: usize, all: *mut c_void
)
/// Gathers `mine_bytes` bytes of every rank in `all` on every rank, in rank order: `all` has space
/// for as many as there are ranks; `mine` may be this rank's place there. All ranks contribute
/// equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
///
/// # Safety
/// `mine` has `mine_bytes` bytes, `all` space for as many of each rank.
|team| on::all_gather(team, (mine, mine_bytes), all),
/// Begins ::clump_team_all_gather. `mine` may be reused when this returns; ::clump_pending_wait
/// writes `all`, which must live until then.
///
/// # Safety
/// `mine` has `mine_bytes` bytes; `all` has space for as many of each rank until
/// ::clump_pending_wait or ::clump_pending_drop has returned.
|handle| {
    let arguments = bytes_of_all(handle.team(), mine_bytes).and_then(|count| {
        Ok((ResultPlace::new(all, count)?, bytes(mine, mine_bytes)?))
    });
    let (place, mine) = prepared(handle.team(), arguments)?;
    start(handle, |team| {
        Ok((team.start_all_gather_slice(mine)?, move |got: Vec<u8>| place.write(&got)))
    })
};

clump_scatter, clump_team_scatter, clump_team_scatter_start(
    root: c_int, all: *const c_void, mine: *mut c_void, mine_bytes: usize
)
/// Hands out what `root` gives: `mine_bytes` bytes for each rank, in rank order in `all`, which is
/// not used elsewhere. This rank's go to `mine`. All ranks expect equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank, the root gives another
/// number of bytes).
///
/// # Safety
/// On the root `all` has `mine_bytes` bytes for each rank; `mine` has space for as many.
|team| on::scatter(team, root, all, (mine, mine_bytes)),
/// Begins ::clump_team_scatter. `all` may be reused when this returns; ::clump_pending_wait writes
/// `mine`, which must live until then.
///
/// # Safety
/// `mine` has space for `mine_bytes` bytes until ::clump_pending_wait or ::clump_pending_drop has
/// returned; on the root `all` has as many bytes for each rank.
|handle| {
    let arguments = rooted(handle.team(), root, mine_bytes).and_then(|(root, count)| {
        Ok((root, ResultPlace::new(mine, mine_bytes)?, bytes(all, count)?))
    });
    let (root, place, all) = prepared(handle.team(), arguments)?;
    start(handle, |team| {
        let pending = team.start_scatter(root, all, mine_bytes)?;
        Ok((pending, move |got: Vec<u8>| place.write(&got)))
    })
};

clump_all_to_all, clump_team_all_to_all, clump_team_all_to_all_start(
    from: *const c_void, to: *mut c_void, each_bytes: usize
)
/// Gives `each_bytes` bytes of `from` to each rank, in rank order, and puts those that each rank
/// gives to this one in `to`, in rank order. All ranks give equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
///
/// # Safety
/// `from` has `each_bytes` bytes for each rank; `to` has space for as many.
|team| on::all_to_all(team, (from, to), each_bytes),
/// Begins ::clump_team_all_to_all. `from` may be reused when this returns; ::clump_pending_wait
/// writes `to`, which must live until then.
///
/// # Safety
/// `from` has `each_bytes` bytes for each rank of the team; `to` has space for as many until
/// ::clump_pending_wait or ::clump_pending_drop has returned.
|handle| {
    let arguments = bytes_of_all(handle.team(), each_bytes).and_then(|count| {
        Ok((ResultPlace::new(to, count)?, bytes(from, count)?))
    });
    let (place, from) = prepared(handle.team(), arguments)?;
    start(handle, |team| {
        Ok((team.start_all_to_all_slice(from)?, move |got: Vec<u8>| place.write(&got)))
    })
};

clump_all_to_all_v, clump_team_all_to_all_v, clump_team_all_to_all_v_start(
    from: *const c_void, from_bytes: *const usize,
    to: *mut c_void, room: usize, to_bytes: *mut usize
)
/// Gives `from_bytes[i]` bytes of `from` to rank i, in rank order, and puts those that each rank
/// gives to this one in `to`, in rank order, and their numbers in `to_bytes`. Ranks give any
/// numbers of bytes. `to` has space for `room` bytes.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null); ::CLUMP_ERR_TOO_LONG (`to` has too
/// little space: it is not written, `to_bytes` is; other ranks do not notice).
///
/// # Safety
/// `from_bytes` has, and `to_bytes` has space for, a number for each rank; `from` has the bytes of
/// `from_bytes`, `to` has space for `room` bytes.
|team| on::all_to_all_v(team, (from, from_bytes), (to, room), to_bytes),
/// Begins ::clump_team_all_to_all_v. `from` and `from_bytes` may be reused when this returns;
/// ::clump_pending_wait writes `to` and `to_bytes`, which must live until then, and returns
/// ::CLUMP_ERR_TOO_LONG if `to` has too little space.
///
/// # Safety
/// `from_bytes` has a number for each rank, and `from` as many bytes as those say; until
/// ::clump_pending_wait or ::clump_pending_drop has returned, `to_bytes` has space for a number for
/// each rank, and `to` for `room` bytes.
|handle| {
    let arguments = GivenParts::new(handle.team(), from, from_bytes)
        .and_then(|parts| Ok((parts, PartsSpace::new((to, room), to_bytes)?)));
    let (parts, space) = prepared(handle.team(), arguments)?;
    start(handle, |team| {
        let pending = team.start_all_to_all_bytes(parts.all())?;
        Ok((pending, move |got: Vec<Vec<u8>>| space.write(&got)))
    })
};

clump_all_reduce, clump_team_all_reduce, clump_team_all_reduce_start(
    from: *const c_void, to: *mut c_void, count: usize, r#type: clump_type, op: clump_op
)
/// Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
/// in rank order; all ranks get the same bits. `from` and `to` may be the same. All ranks give
/// equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such type or operation, bits of
/// floating-point numbers).
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
|team| combine(team, (from, to, count), (r#type, op), Reach::All),
/// Begins ::clump_team_all_reduce. `from` may be reused when this returns; ::clump_pending_wait
/// writes `to`, which must live until then.
///
/// # Safety
/// `from` has `count` elements; `to` has space for them until ::clump_pending_wait or
/// ::clump_pending_drop has returned.
|handle| reduce(handle, (from, to, count), (r#type, op), Reach::All);

clump_reduce, clump_team_reduce, clump_team_reduce_start(
    root: c_int, from: *const c_void,
    to: *mut c_void, count: usize, r#type: clump_type, op: clump_op
)
/// Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
/// in rank order, in `to` of `root`: the bits that ::clump_all_reduce gives. `to` of other ranks is
/// not used. `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce; ::CLUMP_ERR_ARGUMENT (no such rank).
///
/// # Safety
/// `from` has, and `to` of the root has space for, `count` elements.
|team| {
    let reach = Reach::Root(prepared(team, root_of(team, root))?);
    combine(team, (from, to, count), (r#type, op), reach)
},
/// Begins ::clump_team_reduce. `from` may be reused when this returns; on the root
/// ::clump_pending_wait writes `to`, which must live until then.
///
/// # Safety
/// `from` has `count` elements; on the root `to` has space for them until ::clump_pending_wait or
/// ::clump_pending_drop has returned.
|handle| {
    let reach = Reach::Root(prepared(handle.team(), root_of(handle.team(), root))?);
    reduce(handle, (from, to, count), (r#type, op), reach)
};

clump_scan, clump_team_scan, clump_team_scan_start(
    from: *const c_void, to: *mut c_void, count: usize, r#type: clump_type, op: clump_op
)
/// Combines the `count` elements of all ranks up to this one, this one's included, in rank order.
/// `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce.
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
|team| combine(team, (from, to, count), (r#type, op), Reach::Through),
/// Begins ::clump_team_scan. `from` may be reused when this returns; ::clump_pending_wait writes
/// `to`, which must live until then.
///
/// # Safety
/// As for ::clump_team_all_reduce_start.
|handle| reduce(handle, (from, to, count), (r#type, op), Reach::Through);

clump_exclusive_scan, clump_team_exclusive_scan, clump_team_exclusive_scan_start(
    from: *const c_void, to: *mut c_void, count: usize, r#type: clump_type, op: clump_op
)
/// Combines the `count` elements of all ranks before this one, in rank order; `to` of rank 0 is not
/// written. `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce.
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
|team| combine(team, (from, to, count), (r#type, op), Reach::Before),
/// Begins ::clump_team_exclusive_scan. `from` may be reused when this returns; on ranks other than
/// the first ::clump_pending_wait writes `to`, which must live until then.
///
/// # Safety
/// As for ::clump_team_all_reduce_start.
|handle| reduce(handle, (from, to, count), (r#type, op), Reach::Before);
}
