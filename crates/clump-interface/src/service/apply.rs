//! The service *apply*: several runs are written, and then words change: a rank that sees one of
//! the words changed sees all runs. The words may be of another segment.

use super::{Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup};
use clump_onesided::protocol::code;
use clump_onesided::{AdvanceWord, Range, Refusal, runs};
use clump_shm::export::SegmentName;
use zerocopy::FromBytes;

/// Executor of applies.
pub(super) struct Apply;

impl Apply {
    fn run(
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> Result<ServiceOutcome, Refusal> {
        let (runs, advances, words) = match *request.words {
            [runs, advances] => (runs, advances, request.segment),
            [runs, advances, words] => (runs, advances, SegmentName::from_bits(words)),
            _ => return Err(Refusal::Unknown),
        };
        let whole = |n: u64, each: usize| usize::try_from(n).ok().and_then(|n| n.checked_mul(each));
        let cut = |from: &'_ [u8], n: u64, each: usize| whole(n, each).filter(|n| *n <= from.len());
        let at = cut(request.payload, runs, size_of::<Range>()).ok_or(Refusal::Unknown)?;
        let (runs, rest) = request.payload.split_at(at);
        let at = cut(rest, advances, size_of::<AdvanceWord>()).ok_or(Refusal::Unknown)?;
        let (advances, data) = rest.split_at(at);
        let runs = <[Range]>::ref_from_bytes(runs).map_err(|_| Refusal::Unknown)?;
        let advances = <[AdvanceWord]>::ref_from_bytes(advances).map_err(|_| Refusal::Unknown)?;
        let heads = size_of_val(runs) + size_of_val(advances);
        debug_assert_eq!(heads + data.len(), request.payload.len(), "each byte has its place");
        let segment = request.segment;
        // Each by itself: between them a region may have no memory.
        for run in runs {
            context.segment(segment, run.offset(), run.bytes())?;
        }
        for advance in advances {
            context.segment(words, advance.offset(), 8)?;
        }
        let cells = context.segment(segment, 0, 0)?.clone();
        let word_cells = context.segment(words, 0, 0)?.clone();
        runs::apply((runs, &cells), (advances, &word_cells), data)?;
        for run in runs {
            context.changed(segment, run.offset(), run.bytes());
        }
        for advance in advances {
            context.changed(words, advance.offset(), 8);
        }
        context.wake(words.rank());
        Ok(ServiceOutcome::Done)
    }
}

impl Service for Apply {
    fn id(&self) -> ServiceId {
        ServiceId { name: "apply", version: 3, first: code::APPLY, count: 1 }
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
