//! Operations of one kind on many words: their encoding, and their execution where the words are.

use crate::atomic::{AtomicOp, Word};
use crate::protocol::MAX_PIECE;
use crate::refusal::Refusal;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bit of the kind of a request whose words have four bytes.
pub const HALVES: u64 = 1 << 8;

/// Operand of a word: by its index from the beginning of the batch, in words.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Update {
    index: U32,
    value: U64,
}

impl Update {
    /// Most updates of one request.
    pub const MOST: usize = MAX_PIECE / size_of::<Self>();

    /// Creates the update of a word.
    #[inline]
    pub fn new(index: u32, value: u64) -> Self {
        Self { index: U32::new(index), value: U64::new(value) }
    }

    /// Returns the index of its word.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index.get()
    }

    /// Returns its operand.
    #[inline]
    pub fn value(&self) -> u64 {
        self.value.get()
    }
}

/// Operand of a word of a segment.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SpreadUpdate {
    segment: U64,
    update: Update,
}

impl SpreadUpdate {
    /// Most updates of one request.
    pub const MOST: usize = MAX_PIECE / size_of::<Self>();

    /// Creates the update of a word of a segment, by its index.
    #[inline]
    pub fn new(segment: SegmentName, index: u32, value: u64) -> Self {
        Self { segment: U64::new(segment.to_bits()), update: Update::new(index, value) }
    }

    /// Returns its segment.
    #[inline]
    pub fn segment(&self) -> SegmentName {
        SegmentName::from_bits(self.segment.get())
    }

    /// Returns the update of the word.
    #[inline]
    pub fn update(&self) -> Update {
        self.update
    }
}

/// Returns the operation of a kind, and whether its words have four bytes.
///
/// # Errors
/// Fails if there is no such operation.
pub fn kind_of(kind: u64) -> Result<(AtomicOp, bool), Refusal> {
    let op = u8::try_from(kind & !HALVES).ok().and_then(AtomicOp::from_bits);
    Ok((op.ok_or(Refusal::Unknown)?, kind & HALVES != 0))
}

/// Returns true for operations that a batch of updates may have: those without a result.
pub fn may_be_batched(op: AtomicOp) -> bool {
    !op.is_answered()
}

/// Executes one operation on many words. Returns false, and changes nothing, if an index is not
/// inside.
pub fn execute(words: &[AtomicU64], op: AtomicOp, updates: &[Update]) -> bool {
    debug_assert!(may_be_batched(op), "callers have checked that");
    if !updates.iter().all(|update| (update.index() as usize) < words.len()) {
        return false;
    }
    let order = Ordering::AcqRel;
    match op {
        AtomicOp::Store => each(words, updates, |word, value| word.store(value, Ordering::Release)),
        AtomicOp::Add => each(words, updates, |word, value| word.fetch_add(value, order)),
        AtomicOp::And => each(words, updates, |word, value| word.fetch_and(value, order)),
        AtomicOp::Or => each(words, updates, |word, value| word.fetch_or(value, order)),
        AtomicOp::Xor => each(words, updates, |word, value| word.fetch_xor(value, order)),
        AtomicOp::Min => each(words, updates, |word, value| word.fetch_min(value, order)),
        AtomicOp::Max => each(words, updates, |word, value| word.fetch_max(value, order)),
        AtomicOp::Load | AtomicOp::Swap | AtomicOp::CompareSwap => return false,
        op => each(words, updates, |word, value| u64::apply(word, op, value, 0)),
    }
    true
}

/// Changes the word of each update: a loop of its own for each operation.
#[inline(always)]
fn each<R>(words: &[AtomicU64], updates: &[Update], change: impl Fn(&AtomicU64, u64) -> R) {
    for update in updates {
        debug_assert!((update.index() as usize) < words.len(), "all were checked before");
        if let Some(word) = words.get(update.index() as usize) {
            change(word, update.value());
        }
    }
}

/// Executes one operation on many words of four bytes, by index from an offset. Returns false, and
/// changes nothing, if one is not inside.
pub fn execute_halves(cells: &Cells, offset: u64, op: AtomicOp, updates: &[Update]) -> bool {
    debug_assert!(may_be_batched(op), "callers have checked that");
    let half = |update: &Update| {
        let at = offset.checked_add(u64::from(update.index()) * 4)?;
        Some((cells.half(at)?, update.value() as u32))
    };
    if !updates.iter().all(|update| half(update).is_some()) {
        return false;
    }
    for (cell, value) in updates.iter().filter_map(half) {
        u32::apply(cell, op, value, 0);
    }
    true
}

/// Reads many words. Returns false if an index is not inside.
pub fn read_many(
    words: &[AtomicU64],
    indexes: impl Iterator<Item = u32>,
    mut give: impl FnMut(u64),
) -> bool {
    for index in indexes {
        let Some(word) = words.get(index as usize) else { return false };
        give(word.load(Ordering::Acquire));
    }
    true
}
