//! The service *when*: an answer once a word has reached a value.

use super::{Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup};
use clump_onesided::protocol::code;
use clump_onesided::{Comparison, Refusal, read_watched};
use clump_shm::export::SegmentName;
use std::collections::HashMap;

/// Most waits at one time, of all ranks together.
const MAX_KEPT: usize = 1 << 16;

/// Word that is waited for.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    segment: SegmentName,
    offset: u64,
    comparison: Comparison,
    value: u64,
}

impl Awaited {
    fn look(&self, context: &mut ServiceContext<'_>) -> Result<Option<u64>, Refusal> {
        let cells = context.segment(self.segment, self.offset, 8)?;
        let word = read_watched(cells, self.offset).ok_or(Refusal::Misaligned)?;
        Ok(self.comparison.holds(word, self.value).then_some(word))
    }
}

/// The waits of this node's words.
#[derive(Debug, Default)]
pub(super) struct When {
    waits: HashMap<Ticket, Awaited>,
}

impl When {
    fn begin(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> Result<ServiceOutcome, Refusal> {
        let &[comparison, value] = request.words else { return Err(Refusal::Unknown) };
        let comparison = Comparison::from_bits(comparison).ok_or(Refusal::Unknown)?;
        let (segment, offset) = (request.segment, request.offset);
        let awaited = Awaited { segment, offset, comparison, value };
        if let Some(word) = awaited.look(context)? {
            return Ok(ServiceOutcome::Value(word));
        }
        context.watch(segment, offset);
        let before = self.waits.insert(context.ticket(), awaited);
        debug_assert!(before.is_none(), "a ticket is of one request");
        Ok(ServiceOutcome::Later)
    }
}

impl Service for When {
    fn id(&self) -> ServiceId {
        ServiceId { name: "when", version: 1, first: code::WHEN, count: 1 }
    }

    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        self.begin(request, context).unwrap_or_else(ServiceOutcome::Refused)
    }

    fn resume(
        &mut self,
        ticket: Ticket,
        _: Wakeup<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        let Some(awaited) = self.waits.get(&ticket).copied() else {
            clump_bug::bug!("what is resumed waits");
            return ServiceOutcome::Refused(Refusal::Unknown);
        };
        let outcome = match awaited.look(context) {
            Ok(None) => return ServiceOutcome::Later,
            Ok(Some(word)) => ServiceOutcome::Value(word),
            Err(why) => ServiceOutcome::Refused(why),
        };
        self.waits.remove(&ticket);
        outcome
    }

    fn forget(&mut self, ticket: Ticket) {
        let known = self.waits.remove(&ticket);
        debug_assert!(known.is_some(), "what is forgotten waits");
    }

    fn memory_bytes(&self) -> usize {
        self.waits.len() * size_of::<(Ticket, Awaited)>()
    }

    fn memory_bound(&self) -> usize {
        MAX_KEPT * size_of::<(Ticket, Awaited)>()
    }
}
