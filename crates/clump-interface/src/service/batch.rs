//! The service *batch*: many operations of one kind on words of a segment, of eight or four bytes,
//! by index.

use super::{Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup};
use crate::memory::Memory;
use clump_onesided::batch::{execute, execute_halves, kind_of, may_be_batched, read_many};
use clump_onesided::protocol::{MAX_PIECE, code};
use clump_onesided::{AtomicOp, Refusal, Update};
use clump_os::sync::AtomicU64;
use clump_shm::export::{SegmentName, SegmentOwner};
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

/// Most words that one answer holds.
const MAX_READ: usize = MAX_PIECE / 8;

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
