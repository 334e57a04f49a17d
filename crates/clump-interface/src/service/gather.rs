//! The service *gather*: several ranges of a segment, and around them ranges of another, in one
//! answer.

use super::{Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup};
use clump_onesided::protocol::{MAX_PIECE, code};
use clump_onesided::{Range, Refusal};
use clump_os::sync::{Ordering, fence};
use clump_shm::export::SegmentName;
use zerocopy::FromBytes;

/// Executor of gathers.
pub(super) struct Gather;

impl Gather {
    fn run(
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> Result<ServiceOutcome, Refusal> {
        let ranges = <[Range]>::ref_from_bytes(request.payload).map_err(|_| Refusal::Unknown)?;
        let (second, own) = match *request.words {
            [] => (request.segment, 0..ranges.len()),
            [second, before, behind] => {
                let before = usize::try_from(before).map_err(|_| Refusal::Unknown)?;
                let behind = usize::try_from(behind).map_err(|_| Refusal::Unknown)?;
                let end = ranges.len().checked_sub(behind).filter(|&end| before <= end);
                (SegmentName::from_bits(second), before..end.ok_or(Refusal::Unknown)?)
            }
            _ => return Err(Refusal::Unknown),
        };
        let (memory, bytes) = context.parts();
        debug_assert!(bytes.is_empty(), "an answer begins empty");
        debug_assert!(own.end <= ranges.len(), "some of these ranges");
        for (number, range) in ranges.iter().enumerate() {
            let name = if own.contains(&number) { request.segment } else { second };
            let cells = memory.segment(name, range.offset(), range.bytes())?;
            // Ranges are read in their order.
            fence(Ordering::Acquire);
            let begin = bytes.len();
            let end = (range.bytes() as usize).checked_add(begin).filter(|&end| end <= MAX_PIECE);
            bytes.resize(end.ok_or(Refusal::Overloaded)?, 0);
            let read = cells.read(range.offset(), bytes.get_mut(begin..).unwrap_or_default());
            debug_assert!(read, "what may be accessed is mapped");
        }
        let whole: u64 = ranges.iter().map(Range::bytes).sum();
        debug_assert_eq!(bytes.len() as u64, whole, "all ranges, one after the other");
        Ok(ServiceOutcome::Bytes)
    }
}

impl Service for Gather {
    fn id(&self) -> ServiceId {
        ServiceId { name: "gather", version: 2, first: code::GATHER, count: 1 }
    }

    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        Self::run(request, context).unwrap_or_else(ServiceOutcome::Refused)
    }

    fn resume(&mut self, _: Ticket, _: Wakeup<'_>, _: &mut ServiceContext<'_>) -> ServiceOutcome {
        clump_bug::bug!("a gather ends at once");
        ServiceOutcome::Refused(Refusal::Unknown)
    }

    fn forget(&mut self, _: Ticket) {
        clump_bug::bug!("nothing is kept of a gather");
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn memory_bound(&self) -> usize {
        usize::MAX
    }
}
