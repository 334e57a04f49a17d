//! The service *spread*: batches for segments of any nodes, split at an interface, which forwards
//! the updates of other nodes to theirs, with those of other requesters.
//!
//! Updates are forwarded once: what an interface is sent is executed there (*deliver*). A request
//! ends when the interfaces of all its updates have answered, so `quiet` counts each hop.

use super::batch::change;
use super::{Service, ServiceContext, ServiceId, ServiceOutcome, ServiceRequest, Ticket, Wakeup};
use clump_onesided::batch::{kind_of, may_be_batched};
use clump_onesided::protocol::{MAX_PIECE, code};
use clump_onesided::{AtomicOp, Refusal, SpreadUpdate, Update};
use clump_shm::export::{SegmentName, SegmentOwner};
use std::collections::{BTreeMap, HashMap};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most spreads under way.
const MAX_KEPT: usize = 1 << 12;

/// A segment whose updates were refused, in the answer of the interface that refused them.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RefusedSegment {
    segment: U64,
    why: U64,
}

/// First refusal of a request, and the segment that it concerns.
type FirstRefusal = Option<(Refusal, SegmentName)>;

/// Parts of a spread that have not been answered, and the first refusal.
#[derive(Debug, Default)]
struct Parts {
    open: usize,
    refused: FirstRefusal,
    /// Segments of other nodes that it updates, by node.
    far: Vec<(u32, SegmentName)>,
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
        debug_assert!(matches!(request.code, code::SPREAD | code::DELIVER), "its own requests");
        let &[kind] = request.words else { return Err(Refusal::Unknown) };
        let (op, halves) = kind_of(kind)?;
        let updates = request.payload;
        let updates = <[SpreadUpdate]>::ref_from_bytes(updates).map_err(|_| Refusal::Unknown)?;
        if !may_be_batched(op) {
            return Err(Refusal::Unknown);
        }
        if request.code == code::DELIVER {
            let here = updates.iter().map(|one| (one.segment(), one.update()));
            return Ok(deliver(request, here, (op, halves), context));
        }
        let mut far: BTreeMap<u32, Vec<SpreadUpdate>> = BTreeMap::new();
        let mut near = Vec::new();
        for one in updates {
            match context.home(one.segment()) {
                (_, true) => near.push((one.segment(), one.update())),
                (node, false) => far.entry(node).or_default().push(*one),
            }
        }
        let split = near.len() + far.values().map(Vec::len).sum::<usize>();
        debug_assert_eq!(split, updates.len(), "each update belongs to one part");
        // All or no nodes get a request, so that a refusal for lack of room changes nothing.
        if far.len() > context.budget() {
            return Err(Refusal::Overloaded);
        }
        let refused = execute(near.into_iter(), (op, halves), context).into_iter().next();
        let mut parts = Parts { refused, ..Parts::default() };
        for (node, updates) in far {
            let mut names: Vec<_> = updates.iter().map(|one| (node, one.segment())).collect();
            names.dedup();
            let payload = updates.as_bytes().to_vec();
            context.ask_jointly(node, code::DELIVER, kind, payload)?;
            parts.open += 1;
            parts.far.append(&mut names);
        }
        debug_assert!(parts.far.len() >= parts.open, "each node has an update at least");
        if parts.open == 0 {
            return Ok(outcome(parts.refused));
        }
        let before = self.parts.insert(context.ticket(), parts);
        debug_assert!(before.is_none(), "a ticket is of one request");
        Ok(ServiceOutcome::Later)
    }
}

impl Parts {
    /// Takes in the answer of a node.
    fn take(&mut self, node: u32, answer: Result<&[u8], Refusal>) {
        debug_assert!(self.open > 0, "a part is answered once");
        self.open -= 1;
        let mine = |name: &SegmentName| self.far.contains(&(node, *name));
        let refused = match answer {
            Ok(bytes) => {
                let all = <[RefusedSegment]>::ref_from_bytes(bytes).unwrap_or_default().iter();
                let named = all.map(|one| (one.why.get(), one.segment.get()));
                let named = named.map(|(why, segment)| (why, SegmentName::from_bits(segment)));
                // Others that share the request may have been refused, too.
                let own = named.filter(|(_, name)| mine(name));
                own.map(|(why, name)| (Refusal::from_bits(why), name)).next()
            }
            Err(why) => {
                let first = self.far.iter().find(|(of, _)| *of == node);
                first.map(|(_, name)| (why, *name))
            }
        };
        debug_assert!(refused.is_none_or(|(_, name)| mine(&name)), "it reports its own");
        self.refused = self.refused.or(refused);
    }
}

fn outcome(refused: FirstRefusal) -> ServiceOutcome {
    refused.map_or(ServiceOutcome::Done, |(why, name)| ServiceOutcome::RefusedAt(why, name))
}

/// Executes updates of segments of this node. The answer has those that are refused.
fn deliver(
    request: &ServiceRequest<'_>,
    updates: impl Iterator<Item = (SegmentName, Update)>,
    kind: (AtomicOp, bool),
    context: &mut ServiceContext<'_>,
) -> ServiceOutcome {
    debug_assert_eq!(request.code, code::DELIVER, "a spread is split before");
    let refused = execute(updates, kind, context);
    if refused.is_empty() || !request.answered {
        return outcome(refused.into_iter().next());
    }
    let encode = |(why, name): (Refusal, SegmentName)| RefusedSegment {
        segment: U64::new(name.to_bits()),
        why: U64::new(why as u64),
    };
    let all: Vec<_> = refused.into_iter().map(encode).collect();
    debug_assert!(size_of_val(&*all) <= MAX_PIECE, "no more than updates, which are longer");
    context.bytes().extend_from_slice(all.as_bytes());
    ServiceOutcome::Bytes
}

/// Executes updates of segments of this node, and wakes the ranks that own them. Returns the
/// segments that are refused, of which nothing was changed.
fn execute(
    updates: impl Iterator<Item = (SegmentName, Update)>,
    kind: (AtomicOp, bool),
    context: &mut ServiceContext<'_>,
) -> Vec<(Refusal, SegmentName)> {
    debug_assert!(may_be_batched(kind.0), "others were refused");
    let mut by_segment: BTreeMap<SegmentName, Vec<Update>> = BTreeMap::new();
    for (name, update) in updates {
        by_segment.entry(name).or_default().push(update);
    }
    let mut refused = Vec::new();
    for (name, updates) in by_segment {
        debug_assert!(!updates.is_empty(), "segments are found by their updates");
        match change(name, 0, kind, &updates, context) {
            Ok(()) if matches!(name.owner(), SegmentOwner::Rank(_)) => context.wake(name.rank()),
            Ok(()) => {}
            Err(why) => refused.push((why, name)),
        }
    }
    debug_assert!(refused.is_sorted_by_key(|(_, name)| *name), "each segment is named once");
    refused
}

impl Service for Spread {
    fn id(&self) -> ServiceId {
        ServiceId { name: "spread", version: 2, first: code::SPREAD, count: 2 }
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
            clump_bug::bug!("what is resumed has parts under way");
            return ServiceOutcome::Refused(Refusal::Unknown);
        };
        let Wakeup::Answered(node, answer) = why else {
            clump_bug::bug!("a spread watches no word");
            return ServiceOutcome::Later;
        };
        parts.take(node, answer);
        if parts.open > 0 {
            return ServiceOutcome::Later;
        }
        let ended = outcome(parts.refused);
        self.parts.remove(&ticket);
        ended
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
