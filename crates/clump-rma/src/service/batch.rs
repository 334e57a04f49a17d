//! The service *batch*: many operations of one kind on words of a segment, of eight or four bytes,
//! by index.

use super::{
    Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup, code,
};
use crate::atomic::{AtomicOp, Word};
use crate::error::Refusal;
use crate::memory::Memory;
use crate::protocol::MAX_PIECE;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;
use clump_shm::export::{SegmentName, SegmentOwner};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bit of the kind of a request whose words have four bytes.
pub(crate) const HALVES: u64 = 1 << 8;

/// Most words that one answer holds.
const MAX_READ: usize = MAX_PIECE / 8;

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

/// Returns the operation of a kind, and whether its words have four bytes.
///
/// # Errors
/// Fails if there is no such operation.
pub(super) fn kind_of(kind: u64) -> Result<(AtomicOp, bool), Refusal> {
    let op = u8::try_from(kind & !HALVES).ok().and_then(AtomicOp::from_bits);
    Ok((op.ok_or(Refusal::Unknown)?, kind & HALVES != 0))
}

/// Returns true for operations that a batch of updates may have: those without a result.
pub(crate) fn may_be_batched(op: AtomicOp) -> bool {
    !op.is_answered()
}

/// Executes one operation on many words. Returns false, and changes nothing, if an index is not
/// inside.
pub(crate) fn execute(words: &[AtomicU64], op: AtomicOp, updates: &[Update]) -> bool {
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
pub(crate) fn execute_halves(cells: &Cells, offset: u64, op: AtomicOp, updates: &[Update]) -> bool {
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

/// Returns the words of a segment from an offset to the highest of these indexes. Of a region,
/// whose memory is sparse, only the words of the indexes have to be there.
///
/// # Errors
/// Fails if one of them may not be accessed.
pub(crate) fn reach_words(
    memory: &mut dyn Memory,
    (name, offset): (SegmentName, u64),
    indexes: impl Iterator<Item = u32> + Clone,
) -> Result<&[AtomicU64], Refusal> {
    let count = indexes.clone().max().map_or(0, |last| last as usize + 1);
    let cells = if let SegmentOwner::Rank(_) = name.owner() {
        memory.segment(name, offset, count as u64 * 8)?
    } else {
        for index in indexes {
            let at = offset.checked_add(u64::from(index) * 8).ok_or(Refusal::OutOfBounds)?;
            memory.segment(name, at, 8)?;
        }
        memory.segment(name, 0, 0)?
    };
    cells.words(offset, count).ok_or(Refusal::Misaligned)
}

/// Reads many words. Returns false if an index is not inside.
pub(crate) fn read_many(
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

/// Executor of batches.
pub(super) struct Batch;

impl Batch {
    fn run(
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> Result<ServiceOutcome, Refusal> {
        let &[kind] = request.words else { return Err(Refusal::Unknown) };
        let (op, halves) = kind_of(kind)?;
        if halves && !may_be_batched(op) {
            return Err(Refusal::Unknown);
        }
        if op == AtomicOp::Load {
            return read(request, context);
        }
        let updates = <[Update]>::ref_from_bytes(request.payload).map_err(|_| Refusal::Unknown)?;
        if !may_be_batched(op) {
            return Err(Refusal::Unknown);
        }
        change(request.segment, request.offset, (op, halves), updates, context)?;
        Ok(ServiceOutcome::Done)
    }
}

/// Executes one operation on words of a segment, by index from an offset: words of four bytes, if
/// `halves`. Changes nothing if one may not be accessed.
///
/// # Errors
/// Fails with the reason if one may not be accessed.
pub(super) fn change(
    segment: SegmentName,
    offset: u64,
    (op, halves): (AtomicOp, bool),
    updates: &[Update],
    context: &mut ServiceContext<'_>,
) -> Result<(), Refusal> {
    debug_assert!(may_be_batched(op), "callers have checked that");
    if updates.is_empty() {
        return Ok(());
    }
    if halves {
        return change_halves((segment, offset), op, updates, context);
    }
    let place = (segment, offset);
    let words = reach_words(context.parts().0, place, updates.iter().map(Update::index))?;
    let bytes = size_of_val(words) as u64;
    let done = execute(words, op, updates);
    debug_assert!(done, "the highest index is inside");
    context.changed(segment, offset, bytes);
    Ok(())
}

fn change_halves(
    (segment, offset): (SegmentName, u64),
    op: AtomicOp,
    updates: &[Update],
    context: &mut ServiceContext<'_>,
) -> Result<(), Refusal> {
    debug_assert!(!updates.is_empty(), "a batch of none changes nothing");
    let last = updates.iter().map(Update::index).max().unwrap_or(0);
    let bytes = (u64::from(last) + 1) * 4;
    let memory = context.parts().0;
    let cells = if let SegmentOwner::Rank(_) = segment.owner() {
        memory.segment(segment, offset, bytes)?
    } else {
        // Memory of a region is sparse: only what is changed has to be there.
        for update in updates {
            let at = offset.checked_add(u64::from(update.index()) * 4);
            memory.segment(segment, at.ok_or(Refusal::OutOfBounds)?, 4)?;
        }
        memory.segment(segment, 0, 0)?
    };
    if !execute_halves(cells, offset, op, updates) {
        return Err(Refusal::Misaligned);
    }
    context.changed(segment, offset, bytes);
    Ok(())
}

fn read(
    request: &ServiceRequest<'_>,
    context: &mut ServiceContext<'_>,
) -> Result<ServiceOutcome, Refusal> {
    let indexes = <[U32]>::ref_from_bytes(request.payload).map_err(|_| Refusal::Unknown)?;
    if indexes.len() > MAX_READ {
        return Err(Refusal::Overloaded);
    }
    let (memory, bytes) = context.parts();
    debug_assert!(bytes.is_empty(), "an answer begins empty");
    let count = indexes.len();
    let indexes = indexes.iter().map(|index| index.get());
    let words = reach_words(memory, (request.segment, request.offset), indexes.clone())?;
    let read = read_many(words, indexes, |word| bytes.extend_from_slice(&word.to_le_bytes()));
    debug_assert!(read, "the highest index is inside");
    debug_assert_eq!(bytes.len(), count * 8, "a word for each index");
    Ok(ServiceOutcome::Bytes)
}

impl Service for Batch {
    fn id(&self) -> ServiceId {
        ServiceId { name: "batch", version: 2, first: code::BATCH, count: 1 }
    }

    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        Self::run(request, context).unwrap_or_else(ServiceOutcome::Refused)
    }

    fn resume(&mut self, _: Ticket, _: Wakeup<'_>, _: &mut ServiceContext<'_>) -> ServiceOutcome {
        clump_bug::bug!("a batch ends at once");
        ServiceOutcome::Refused(Refusal::Unknown)
    }

    fn forget(&mut self, _: Ticket) {
        clump_bug::bug!("nothing is kept of a batch");
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn memory_bound(&self) -> usize {
        usize::MAX
    }
}
