//! The service *apply*: several runs are written, and then words change: a rank that sees one of
//! the words changed sees all runs.

use super::{
    Range, Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup, code,
};
use crate::atomic::{AtomicOp, Word, execute as change};
use crate::error::Refusal;
use clump_shm::cells::Cells;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Change of a word, after all runs.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Advance {
    offset: U64,
    value: U64,
    adds: U64,
}

impl Advance {
    /// Creates the change of the word at `offset` to `value`.
    pub fn to(offset: u64, value: u64) -> Self {
        Self { offset: U64::new(offset), value: U64::new(value), adds: U64::new(0) }
    }

    /// Creates the change of the word at `offset` by `value`.
    pub fn by(offset: u64, value: u64) -> Self {
        Self { adds: U64::new(1), ..Self::to(offset, value) }
    }

    /// Returns the offset of its word.
    pub fn offset(&self) -> u64 {
        self.offset.get()
    }
}

/// Writes runs, whose bytes are contiguous in `data`, and then changes words. `reach` checks a
/// range. Writes nothing if any is refused.
pub(crate) fn execute<'a>(
    runs: &[Range],
    advances: &[Advance],
    data: &[u8],
    mut reach: impl FnMut(u64, u64) -> Result<&'a Cells, Refusal>,
) -> Result<(), Refusal> {
    let mut rest = data;
    for run in runs {
        reach(run.offset(), run.bytes())?;
        let bytes = usize::try_from(run.bytes()).map_err(|_| Refusal::OutOfBounds)?;
        rest = rest.get(bytes..).ok_or(Refusal::Unknown)?;
    }
    for advance in advances {
        let cells = reach(advance.offset(), 8)?;
        cells.word(advance.offset()).ok_or(Refusal::Misaligned)?;
    }
    if !rest.is_empty() {
        return Err(Refusal::Unknown);
    }
    rest = data;
    for run in runs {
        let (bytes, behind) = rest.split_at(run.bytes() as usize);
        let written = reach(run.offset(), run.bytes())?.write(run.offset(), bytes);
        debug_assert!(written, "what may be accessed is mapped");
        rest = behind;
    }
    debug_assert!(rest.is_empty(), "each byte belongs to a run");
    for advance in advances {
        let op = if advance.adds.get() == 0 { AtomicOp::Store } else { AtomicOp::Add };
        let cells = reach(advance.offset(), 8)?;
        let of_word = (op, u64::WIDTH);
        change(cells, advance.offset(), of_word, (advance.value.get(), 0));
    }
    Ok(())
}

/// Executor of applies.
pub(super) struct Apply;

impl Apply {
    fn run(
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> Result<ServiceOutcome, Refusal> {
        let &[runs, advances] = request.words else { return Err(Refusal::Unknown) };
        let whole = |n: u64, each: usize| usize::try_from(n).ok().and_then(|n| n.checked_mul(each));
        let cut = |from: &'_ [u8], n: u64, each: usize| whole(n, each).filter(|n| *n <= from.len());
        let at = cut(request.payload, runs, size_of::<Range>()).ok_or(Refusal::Unknown)?;
        let (runs, rest) = request.payload.split_at(at);
        let at = cut(rest, advances, size_of::<Advance>()).ok_or(Refusal::Unknown)?;
        let (advances, data) = rest.split_at(at);
        let runs = <[Range]>::ref_from_bytes(runs).map_err(|_| Refusal::Unknown)?;
        let advances = <[Advance]>::ref_from_bytes(advances).map_err(|_| Refusal::Unknown)?;
        let heads = size_of_val(runs) + size_of_val(advances);
        debug_assert_eq!(heads + data.len(), request.payload.len(), "each byte has its place");
        let segment = request.segment;
        // Each by itself: between them a region may have no memory.
        for run in runs {
            context.segment(segment, run.offset(), run.bytes())?;
        }
        for advance in advances {
            context.segment(segment, advance.offset(), 8)?;
        }
        let cells = context.segment(segment, 0, 0)?;
        execute(runs, advances, data, |_, _| Ok(cells))?;
        for run in runs {
            context.changed(segment, run.offset(), run.bytes());
        }
        for advance in advances {
            context.changed(segment, advance.offset(), 8);
        }
        context.wake(segment.rank());
        Ok(ServiceOutcome::Done)
    }
}

impl Service for Apply {
    fn id(&self) -> ServiceId {
        ServiceId { name: "apply", version: 1, first: code::APPLY, count: 1 }
    }

    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        Self::run(request, context).unwrap_or_else(ServiceOutcome::Refused)
    }

    fn resume(&mut self, _: Ticket, _: Wakeup<'_>, _: &mut ServiceContext<'_>) -> ServiceOutcome {
        clump_bug::bug!("an apply ends at once");
        ServiceOutcome::Refused(Refusal::Unknown)
    }

    fn forget(&mut self, _: Ticket) {
        clump_bug::bug!("nothing is kept of an apply");
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn memory_bound(&self) -> usize {
        usize::MAX
    }
}
