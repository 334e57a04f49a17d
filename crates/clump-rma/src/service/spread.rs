//! The service *spread*: a batch for segments of any nodes, split at an interface, which forwards
//! the parts of other nodes to theirs.

use super::{
    Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Update, Wakeup,
    code,
};
use crate::atomic::AtomicOp;
use crate::error::Refusal;
use crate::protocol::MAX_PIECE;
use clump_shm::export::SegmentName;
use std::collections::{BTreeMap, HashMap};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most spreads under way.
const MAX_KEPT: usize = 1 << 12;

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
    pub fn new(segment: SegmentName, index: u32, value: u64) -> Self {
        Self { segment: U64::new(segment.to_bits()), update: Update::new(index, value) }
    }
}

/// Parts of a spread that have not been answered, and the first refusal.
#[derive(Debug, Default)]
struct Parts {
    open: usize,
    refused: Option<Refusal>,
}

/// The spreads whose parts are under way.
#[derive(Debug, Default)]
pub(super) struct Spread {
    parts: HashMap<Ticket, Parts>,
}

impl Spread {
    fn begin(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> Result<ServiceOutcome, Refusal> {
        let &[kind] = request.words else { return Err(Refusal::Unknown) };
        let op = u8::try_from(kind).ok().and_then(AtomicOp::from_bits).ok_or(Refusal::Unknown)?;
        let updates = request.payload;
        let updates = <[SpreadUpdate]>::ref_from_bytes(updates).map_err(|_| Refusal::Unknown)?;
        if !super::may_be_batched(op) {
            return Err(Refusal::Unknown);
        }
        let mut by_segment: BTreeMap<u64, Vec<Update>> = BTreeMap::new();
        for SpreadUpdate { segment, update } in updates {
            by_segment.entry(segment.get()).or_default().push(*update);
        }
        let split: usize = by_segment.values().map(Vec::len).sum();
        debug_assert_eq!(split, updates.len(), "each update belongs to one part");
        let budget = context.budget();
        let is_far = |segment: &&u64| !context.home(SegmentName::from_bits(**segment)).1;
        // All or none are asked, so that a refusal for lack of room changes nothing.
        if by_segment.keys().filter(is_far).count() > budget {
            return Err(Refusal::Overloaded);
        }
        let mut parts = Parts::default();
        for (segment, updates) in by_segment {
            let name = SegmentName::from_bits(segment);
            let (node, is_here) = context.home(name);
            let done = if is_here {
                update_here(name, op, &updates, context)
            } else {
                let payload = updates.as_bytes().to_vec();
                let asked = context.ask(node, code::BATCH, (name, 0), &[kind], payload);
                parts.open += usize::from(asked.is_ok());
                asked
            };
            parts.refused = parts.refused.or(done.err());
        }
        if parts.open == 0 {
            return Ok(parts.outcome());
        }
        debug_assert_eq!(context.budget() + parts.open, budget, "each part is asked once");
        let before = self.parts.insert(context.ticket(), parts);
        debug_assert!(before.is_none(), "a ticket is of one request");
        Ok(ServiceOutcome::Later)
    }
}

impl Parts {
    fn outcome(&self) -> ServiceOutcome {
        debug_assert_eq!(self.open, 0, "all parts have been answered");
        self.refused.map_or(ServiceOutcome::Done, ServiceOutcome::Refused)
    }
}

fn update_here(
    name: SegmentName,
    op: AtomicOp,
    updates: &[Update],
    context: &mut ServiceContext<'_>,
) -> Result<(), Refusal> {
    debug_assert!(!updates.is_empty(), "segments are found by their updates");
    let words =
        super::reach_words(context.parts().0, (name, 0), updates.iter().map(Update::index))?;
    let bytes = size_of_val(words) as u64;
    let done = super::execute_batch(words, op, updates);
    debug_assert!(done, "the highest index is inside");
    context.changed(name, 0, bytes);
    Ok(())
}

impl Service for Spread {
    fn id(&self) -> ServiceId {
        ServiceId { name: "spread", version: 1, first: code::SPREAD, count: 1 }
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
        why: Wakeup<'_>,
        _: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        let Some(parts) = self.parts.get_mut(&ticket) else {
            debug_assert!(false, "what is resumed has parts under way");
            return ServiceOutcome::Refused(Refusal::Unknown);
        };
        let Wakeup::Answered(answer) = why else {
            debug_assert!(false, "a spread watches no word");
            return ServiceOutcome::Later;
        };
        debug_assert!(parts.open > 0, "a part is answered once");
        parts.open -= 1;
        parts.refused = parts.refused.or(answer.err());
        if parts.open > 0 {
            return ServiceOutcome::Later;
        }
        let outcome = parts.outcome();
        self.parts.remove(&ticket);
        outcome
    }

    fn forget(&mut self, ticket: Ticket) {
        let known = self.parts.remove(&ticket);
        debug_assert!(known.is_some(), "what is forgotten has parts under way");
    }

    fn memory_bytes(&self) -> usize {
        self.parts.len() * size_of::<(Ticket, Parts)>()
    }

    fn memory_bound(&self) -> usize {
        MAX_KEPT * size_of::<(Ticket, Parts)>()
    }
}
