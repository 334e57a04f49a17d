//! Ranges of a segment that are read together, or written together before words change.

use crate::atomic::{AtomicOp, Word, execute};
use crate::protocol::MAX_PIECE;
use crate::refusal::Refusal;
use clump_os::sync::{Ordering, fence};
use clump_shm::cells::Cells;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most ranges of one request.
pub const MAX_RANGES: usize = MAX_PIECE / size_of::<Range>();

/// Range of a segment.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Range {
    offset: U64,
    bytes: U64,
}

impl Range {
    /// Creates the range of `bytes` bytes from `offset` on.
    pub fn new(offset: u64, bytes: u64) -> Self {
        Self { offset: U64::new(offset), bytes: U64::new(bytes) }
    }

    /// Returns its offset.
    pub fn offset(&self) -> u64 {
        self.offset.get()
    }

    /// Returns its length.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}

/// Set in how a word changes if that is before the runs.
const AHEAD: u64 = 1 << 8;

/// Change of a word, after all runs, or before them.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AdvanceWord {
    offset: U64,
    value: U64,
    /// 0: to the value, 1: by the value, 2: to the value at least; and [`AHEAD`].
    how: U64,
}

impl AdvanceWord {
    /// Creates the change of the word at `offset` to `value`.
    pub fn to(offset: u64, value: u64) -> Self {
        Self { offset: U64::new(offset), value: U64::new(value), how: U64::new(0) }
    }

    /// Creates the change of the word at `offset` by `value`.
    pub fn by(offset: u64, value: u64) -> Self {
        Self { how: U64::new(1), ..Self::to(offset, value) }
    }

    /// Creates the change of the word at `offset` to `value`, unless it is more.
    pub fn at_least(offset: u64, value: u64) -> Self {
        Self { how: U64::new(2), ..Self::to(offset, value) }
    }

    /// Returns the same change before the runs.
    #[must_use]
    pub fn ahead(self) -> Self {
        Self { how: U64::new(self.how.get() | AHEAD), ..self }
    }

    fn is_ahead(&self) -> bool {
        self.how.get() & AHEAD != 0
    }

    /// Returns the operation; none if another program wrote the change.
    fn op(&self) -> Option<AtomicOp> {
        match self.how.get() & !AHEAD {
            0 => Some(AtomicOp::Store),
            1 => Some(AtomicOp::Add),
            2 => Some(AtomicOp::Max),
            _ => None,
        }
    }

    /// Returns the offset of its word.
    pub fn offset(&self) -> u64 {
        self.offset.get()
    }
}

/// Changes the words that change first, writes runs, whose bytes are contiguous in `data`, and then
/// changes the other words. Does nothing if any is refused.
///
/// # Errors
/// Fails with the reason if one is refused, or if bytes are left over or missing.
pub fn apply(
    (runs, run_cells): (&[Range], &Cells),
    (advances, word_cells): (&[AdvanceWord], &Cells),
    data: &[u8],
) -> Result<(), Refusal> {
    let mut rest = data;
    for run in runs {
        if !run_cells.holds(run.offset(), run.bytes()) {
            return Err(Refusal::OutOfBounds);
        }
        let bytes = usize::try_from(run.bytes()).map_err(|_| Refusal::OutOfBounds)?;
        rest = rest.get(bytes..).ok_or(Refusal::Unknown)?;
    }
    for advance in advances {
        if !word_cells.holds(advance.offset(), 8) {
            return Err(Refusal::OutOfBounds);
        }
        word_cells.word(advance.offset()).ok_or(Refusal::Misaligned)?;
        advance.op().ok_or(Refusal::Unknown)?;
    }
    if !rest.is_empty() {
        return Err(Refusal::Unknown);
    }
    rest = data;
    change(advances.iter().filter(|advance| advance.is_ahead()), word_cells);
    for run in runs {
        let (bytes, behind) = rest.split_at(run.bytes() as usize);
        let written = run_cells.write(run.offset(), bytes);
        debug_assert!(written, "what may be accessed is mapped");
        rest = behind;
    }
    debug_assert!(rest.is_empty(), "each byte belongs to a run");
    change(advances.iter().filter(|advance| !advance.is_ahead()), word_cells);
    // Who stores, and then finds a word unchanged, has stored before what is read behind this.
    fence(Ordering::SeqCst);
    Ok(())
}

/// Changes words in their order, which have been looked at.
fn change<'a>(advances: impl Iterator<Item = &'a AdvanceWord>, cells: &Cells) {
    for advance in advances {
        let changed = advance.op().and_then(|op| {
            execute(cells, advance.offset(), (op, u64::WIDTH), (advance.value.get(), 0))
        });
        debug_assert!(changed.is_some(), "such a word can be changed");
    }
}
