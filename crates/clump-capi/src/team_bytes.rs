//! Collectives of a team that move bytes, given as C gives them.

use crate::send::{bytes, room};
use clump::Team;
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::job::checked_rank_below;
use clump_ffi::status::clump_status as S;
use std::borrow::Cow;
use std::ffi::{c_int, c_void};

/// Bytes that a program gives: their address and number.
pub(crate) type Given = (*const c_void, usize);
/// Space that a program has: its address and size in bytes.
pub(crate) type Space = (*mut c_void, usize);

/// Gathers the bytes of every rank in `all`, in rank order.
///
/// # Errors
/// As ::clump_all_gather.
///
/// # Safety
/// `mine` are bytes of the program; `all` has space for as many of each rank.
pub(crate) unsafe fn all_gather(team: &Team, mine: Given, all: *mut c_void) -> Result<c_int> {
    let count = prepared(team, bytes_of_all(team, mine.1))?;
    // SAFETY: by the function's own.
    let mine = prepared(team, unsafe { apart(mine, (all, count)) })?;
    // SAFETY: by the function's own; nothing else uses it meanwhile.
    let all = prepared(team, unsafe { room(all, count) })?;
    team.all_gather_slice(&mine, all)?;
    Ok(0)
}

/// Copies the bytes of `root` to all ranks.
///
/// # Errors
/// As ::clump_broadcast.
///
/// # Safety
/// `values` is memory of the program.
pub(crate) unsafe fn broadcast(team: &Team, root: c_int, values: Space) -> Result<c_int> {
    let root = prepared(team, root_of(team, root))?;
    // SAFETY: by the function's own; nothing else uses it meanwhile.
    let values = prepared(team, unsafe { room(values.0, values.1) })?;
    team.broadcast(root, values)?;
    Ok(0)
}

/// Gathers the bytes of every rank in `all` of `root`, in rank order.
///
/// # Errors
/// As ::clump_gather.
///
/// # Safety
/// `mine` are bytes of the program; on the root `all` has space for as many of each rank.
pub(crate) unsafe fn gather(
    team: &Team,
    root: c_int,
    mine: Given,
    all: *mut c_void,
) -> Result<c_int> {
    let root = prepared(team, root_of(team, root))?;
    let count = if team.rank() == root { prepared(team, bytes_of_all(team, mine.1))? } else { 0 };
    // SAFETY: by the function's own.
    let mine = prepared(team, unsafe { apart(mine, (all, count)) })?;
    // SAFETY: by the function's own; nothing else uses it meanwhile.
    let all = prepared(team, unsafe { room(all, count) })?;
    team.gather_slice(root, &mine, all)?;
    Ok(0)
}

/// Hands out the bytes in `all` of `root`, equally many for each rank, in rank order.
///
/// # Errors
/// As ::clump_scatter.
///
/// # Safety
/// `mine` is space of the program; on the root `all` has as many bytes for each rank.
pub(crate) unsafe fn scatter(
    team: &Team,
    root: c_int,
    all: *const c_void,
    mine: Space,
) -> Result<c_int> {
    let root = prepared(team, root_of(team, root))?;
    let count = if team.rank() == root { prepared(team, bytes_of_all(team, mine.1))? } else { 0 };
    // SAFETY: by the function's own.
    let all = prepared(team, unsafe { apart((all, count), mine) })?;
    // SAFETY: by the function's own; nothing else uses it meanwhile.
    let mine = prepared(team, unsafe { room(mine.0, mine.1) })?;
    team.scatter_slice(root, &all, mine)?;
    Ok(0)
}

/// Exchanges `each` bytes between every two ranks.
///
/// # Errors
/// As ::clump_all_to_all.
///
/// # Safety
/// `from` has `each` bytes for each rank, and `to` space for as many.
pub(crate) unsafe fn all_to_all(
    team: &Team,
    (from, to): (*const c_void, *mut c_void),
    each: usize,
) -> Result<c_int> {
    let count = prepared(team, bytes_of_all(team, each))?;
    // SAFETY: by the function's own.
    let given = prepared(team, unsafe { apart((from, count), (to, count)) })?;
    // SAFETY: by the function's own; nothing else uses it meanwhile.
    let got = prepared(team, unsafe { room(to, count) })?;
    team.all_to_all_slice(&given, got)?;
    Ok(0)
}

/// Exchanges any numbers of bytes between every two ranks.
///
/// # Errors
/// As ::clump_all_to_all_v.
///
/// # Safety
/// `from.1` has, and `to_bytes` has space for, a number for each rank; `from.0` has as many bytes
/// as those say; `to` is space of the program.
pub(crate) unsafe fn all_to_all_v(
    team: &Team,
    from: (*const c_void, *const usize),
    to: Space,
    to_bytes: *mut usize,
) -> Result<c_int> {
    // SAFETY: by the function's own.
    let (parts, space) =
        unsafe { (GivenParts::new(team, from.0, from.1), PartsSpace::new(to, to_bytes)) };
    let (parts, space) = prepared(team, parts.and_then(|parts| Ok((parts, space?))))?;
    let got = team.all_to_all_bytes(parts.all())?;
    space.write(&got).map_err(|fault| fault.having_taken_part(true))?;
    Ok(0)
}

/// Byte strings that a program gives, one for each rank of a team.
#[derive(Debug)]
pub(crate) struct GivenParts<'a>(Vec<&'a [u8]>);

impl<'a> GivenParts<'a> {
    /// # Safety
    /// `lengths` has a number for each rank; `from` has as many bytes as those say, which do not
    /// change while this is used.
    pub(crate) unsafe fn new(
        team: &Team,
        from: *const c_void,
        lengths: *const usize,
    ) -> Result<Self> {
        if lengths.is_null() {
            return Err(null("numbers of bytes"));
        }
        // SAFETY: by the function's own; it was checked for null.
        let lengths = unsafe { std::slice::from_raw_parts(lengths, team.nranks()) };
        let total = lengths.iter().try_fold(0, |sum: usize, &length| sum.checked_add(length));
        let total =
            total.ok_or_else(|| range("numbers of bytes", "more", "what fits into memory"))?;
        // SAFETY: by the function's own.
        let mut rest: &'a [u8] = unsafe { bytes(from, total) }?;
        let parts: Vec<&[u8]> = lengths.iter().filter_map(|&n| rest.split_off(..n)).collect();
        debug_assert_eq!(parts.len(), team.nranks(), "the lengths add up");
        Ok(Self(parts))
    }

    pub(crate) fn all(&self) -> &[&'a [u8]] {
        &self.0
    }
}

/// Space for a byte string of each rank of a team, and for their lengths.
#[derive(Debug)]
pub(crate) struct PartsSpace {
    to: Space,
    lengths: *mut usize,
}

impl PartsSpace {
    /// # Safety
    /// `to` is space of the program, and `lengths` space for a number for each rank, which nothing
    /// else uses when they are written.
    pub(crate) unsafe fn new(to: Space, lengths: *mut usize) -> Result<Self> {
        if lengths.is_null() {
            return Err(null("numbers of bytes"));
        }
        Ok(Self { to, lengths })
    }

    /// Writes the strings one behind the other.
    ///
    /// # Errors
    /// They need more space: only their lengths are written.
    pub(crate) fn write(&self, got: &[Vec<u8>]) -> Result<()> {
        for (at, part) in got.iter().enumerate() {
            // SAFETY: by `new`; there is a part of each rank.
            unsafe { self.lengths.add(at).write(part.len()) };
        }
        let (to, most) = self.to;
        let needed = got.iter().map(Vec::len).sum::<usize>();
        if needed > most {
            let what =
                format!("the ranks gave {needed} bytes, and the program has space for {most}");
            return Err(Fault::new(S::CLUMP_ERR_TOO_LONG, what));
        }
        // SAFETY: by `new`; nothing else uses it meanwhile.
        let mut space = unsafe { room(to, needed) }?;
        for part in got {
            if let Some(place) = space.split_off_mut(..part.len()) {
                place.copy_from_slice(part);
            }
        }
        Ok(())
    }
}

/// Returns what a step before a collective gives: a check of arguments, for example. If it fails,
/// the rank takes part first: the others do not wait for it.
///
/// # Errors
/// That of the step, which says so.
pub(crate) fn prepared<R>(team: &Team, step: Result<R>) -> Result<R> {
    step.map_err(|fault| match team.decline(&fault.whole().to_string_lossy()) {
        Ok(()) => fault.having_taken_part(true),
        Err(in_handler) => in_handler.into(),
    })
}

/// Checks that a root is a rank of the team.
pub(crate) fn root_of(team: &Team, root: c_int) -> Result<usize> {
    checked_rank_below(team.nranks(), root)
}

/// Returns the number of bytes of which each rank has `each`.
pub(crate) fn bytes_of_all(team: &Team, each: usize) -> Result<usize> {
    let count = each.checked_mul(team.nranks());
    let count = count.filter(|&count| isize::try_from(count).is_ok());
    count.ok_or_else(|| range("a number of bytes", each, "what fits into memory for each rank"))
}

/// Returns bytes that a program gives; a copy of them where they lie in the memory that the call
/// writes into, as this rank's part of a whole does in many programs.
///
/// # Safety
/// Both are null or memory of so many bytes; the first does not change while the result is used,
/// but for the second.
unsafe fn apart<'a>(
    (given, count): (*const c_void, usize),
    (written, most): (*mut c_void, usize),
) -> Result<Cow<'a, [u8]>> {
    let (from, to) = (given.addr(), written.addr());
    // SAFETY: by the function's own; the result is only kept where nothing is written into it.
    let given = unsafe { bytes(given, count) }?;
    let overlap = from < to.saturating_add(most) && to < from.saturating_add(count);
    if !overlap || count == 0 || most == 0 {
        return Ok(Cow::Borrowed(given));
    }
    let mut copy = Vec::new();
    let what = || Fault::new(S::CLUMP_ERR_SYSTEM, format!("no memory for a copy of {count} bytes"));
    copy.try_reserve_exact(count).map_err(|_| what())?;
    copy.extend_from_slice(given);
    Ok(Cow::Owned(copy))
}
