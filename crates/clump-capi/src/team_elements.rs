//! Collectives of a team that combine elements, given as C gives them.

use crate::element::{ReductionCall, clump_op, clump_type, dispatch};
use crate::team_bytes::prepared;
use clump::Team;
use clump::op::{Number, Op};
use clump_ffi::fault::{Result, null, range};
use std::ffi::{c_int, c_void};

/// Ranks whose elements are combined, and ranks that get them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Elements of all ranks, for all.
    All,
    /// Elements of all ranks, for one.
    Root(usize),
    /// Elements of the ranks up to each.
    Through,
    /// Elements of the ranks before each.
    Before,
}

impl Reach {
    /// Returns true if this rank of the team gets a result.
    pub(crate) fn has_result(self, team: &Team) -> bool {
        match self {
            Self::All | Self::Through => true,
            Self::Root(root) => team.rank() == root,
            Self::Before => team.rank() != 0,
        }
    }
}

/// Combines `count` elements of the ranks of a team, one by one.
///
/// # Errors
/// As ::clump_all_reduce.
///
/// # Safety
/// `from` has so many elements, and `to` has space for them, where this rank gets any.
pub(crate) unsafe fn combine(
    team: &Team,
    (from, to, count): (*const c_void, *mut c_void, usize),
    kinds: (clump_type, clump_op),
    reach: Reach,
) -> Result<c_int> {
    let to = reach.has_result(team).then_some(to);
    // SAFETY: by the function's own.
    let elements = unsafe { GivenElements::new(from, to, count) };
    dispatch(kinds, Combination { team, elements, reach })?;
    Ok(0)
}

/// Elements of a type that is not known yet, and the place for as many.
#[derive(Debug)]
pub(crate) struct GivenElements {
    from: *const c_void,
    /// `None` where no elements are written.
    to: Option<*mut c_void>,
    count: usize,
}

impl GivenElements {
    /// # Safety
    /// `from` has so many elements, and `to` space for them, of any type that they are read and
    /// written as, while this is used.
    pub(crate) unsafe fn new(from: *const c_void, to: Option<*mut c_void>, count: usize) -> Self {
        Self { from, to, count }
    }

    /// Returns a copy of the elements, because they may be anywhere, aligned or not, and overlap
    /// the result.
    ///
    /// # Errors
    /// A null pointer; more than fits into memory.
    pub(crate) fn copied<T: Number>(&self) -> Result<Vec<T>> {
        let bytes = self.count.checked_mul(size_of::<T>());
        let Some(bytes) = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()) else {
            return Err(range("a number of elements", self.count, "what fits into memory"));
        };
        let mut values: Vec<T> = Vec::new();
        if self.count == 0 {
            return Ok(values);
        }
        if self.from.is_null() || self.to.is_some_and(<*mut c_void>::is_null) {
            return Err(null("elements"));
        }
        if values.try_reserve_exact(self.count).is_err() {
            return Err(clump_am::Error::from(clump_am::ErrorKind::NoMemory(bytes)).into());
        }
        // SAFETY: by `new` there are that many bytes; all bits are a number; the space was just
        // allocated.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.from.cast::<u8>(),
                values.as_mut_ptr().cast(),
                bytes,
            );
            values.set_len(self.count);
        }
        Ok(values)
    }

    /// Writes the result, as many elements as were copied, to its place, if there is one.
    pub(crate) fn write<T: Number>(&self, values: &[T]) {
        debug_assert_eq!(values.len(), self.count, "as many as were given");
        if let Some(to) = self.to.filter(|_| self.count > 0) {
            // SAFETY: by `new` there is space for that many bytes, which belong to the caller.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    values.as_ptr().cast(),
                    to.cast::<u8>(),
                    size_of_val(values),
                );
            }
        }
    }
}

/// A reduction that is complete when its call returns.
struct Combination<'a> {
    team: &'a Team,
    elements: GivenElements,
    reach: Reach,
}

impl ReductionCall for Combination<'_> {
    type Output = ();

    fn run<T: Number, O: Op<T>>(self, op: O) -> Result<()> {
        let mut values = prepared(self.team, self.elements.copied::<T>())?;
        match self.reach {
            Reach::All => self.team.all_reduce_slice(&mut values, op),
            Reach::Root(root) => self.team.reduce_slice(root, &mut values, op),
            Reach::Through => self.team.scan_slice(&mut values, op),
            Reach::Before => self.team.exclusive_scan_slice(&mut values, op),
        }?;
        self.elements.write(&values);
        Ok(())
    }
}
