//! Room between two endpoints: how much one may have sent that the other has not consumed.
//!
//! Without it an endpoint that nobody polls would fill its rank's memory, or stop everything else that
//! comes from that peer. Counts are cumulative, so news may arrive late, in any order, or not at all.

use std::collections::HashMap;

/// What a request costs besides its payload, in bytes.
pub const REQUEST_COST: u64 = 64;

/// One direction between two endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowId(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) peer: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) ordered: bool,
    sent: u64,
    consumed: u64,
    refunded: u64,
    /// What the peer was asked to report last, since it last reported anything; 0: nothing.
    asked: u64,
}

impl Flow {
    /// Bytes sent that are not known to be consumed.
    #[inline]
    pub(crate) fn outstanding(&self) -> u64 {
        self.sent.saturating_sub(self.consumed.saturating_add(self.refunded))
    }

    /// What to ask the peer to report; `None` when it was asked that already.
    pub(crate) fn question(&mut self) -> Option<u64> {
        let expected = self.sent.saturating_sub(self.refunded);
        (std::mem::replace(&mut self.asked, expected) != expected).then_some(expected)
    }

    #[inline]
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// A request came back without having been consumed.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.refunded = self.refunded.saturating_add(bytes);
    }

    /// The peer's count of what it has consumed. If that is not all, it may be asked again: questions
    /// overtake each other, and this may answer an earlier one.
    pub(crate) fn on_consumed(&mut self, total: u64) {
        self.asked = 0;
        self.consumed = self.consumed.max(total.min(self.sent));
    }

    pub(crate) fn settle(&mut self) {
        (self.consumed, self.refunded) = (self.sent, 0);
    }
}

/// All flows that begin at this stack.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    all: Vec<Option<Flow>>,
    by_names: HashMap<(u64, u64), u32>,
}

impl Flows {
    /// The flow between two endpoints; made when it is new.
    pub(crate) fn open(&mut self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        if let Some(&at) = self.by_names.get(&(from, to))
            && let Some(Some(flow)) = self.all.get_mut(at as usize)
        {
            flow.ordered |= ordered;
            return FlowId(at);
        }
        let flow = Flow { peer, from, to, ordered, sent: 0, consumed: 0, refunded: 0, asked: 0 };
        let free = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        match self.all.get_mut(free) {
            Some(place) => *place = Some(flow),
            None => self.all.push(Some(flow)),
        }
        self.by_names.insert((from, to), free as u32);
        FlowId(free as u32)
    }

    #[inline]
    pub(crate) fn get(&self, id: FlowId) -> Option<&Flow> {
        self.all.get(id.0 as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.all.get_mut(id.0 as usize)?.as_mut()
    }

    /// The flow between two endpoints, if there is one.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> Option<&mut Flow> {
        let at = *self.by_names.get(&(from, to))?;
        self.get_mut(FlowId(at))
    }

    /// All flows towards a peer.
    pub(crate) fn towards(&mut self, peer: u32) -> impl Iterator<Item = &mut Flow> {
        self.all.iter_mut().flatten().filter(move |flow| flow.peer == peer)
    }

    /// Forgets the flows of an endpoint that is closed.
    pub(crate) fn forget(&mut self, from: u64) {
        for place in &mut self.all {
            if let Some(flow) = place.take_if(|flow| flow.from == from) {
                self.by_names.remove(&(flow.from, flow.to));
            }
        }
    }
}
