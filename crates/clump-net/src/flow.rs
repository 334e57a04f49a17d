//! Credit-based flow control between two endpoints: the bytes that one may have sent and the other
//! has not consumed.
//!
//! Without it an endpoint that is never polled would fill its rank's memory, or stop all other
//! messages from that peer. Counts are cumulative, so reports may arrive late, in any order, or not
//! at all.

pub use clump_proto::REQUEST_COST;
use clump_wire::frame::{FrameHead, FrameKind, Route};
use clump_wire::{Message, Original};
use std::collections::HashMap;

/// Identifies one direction between two endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowId(pub(crate) u32);

/// State of one direction between two endpoints.
#[derive(Debug)]
pub struct Flow {
    /// The rank that it leads to.
    pub peer: u32,
    /// The endpoint that it begins at.
    pub from: u64,
    /// The endpoint that it leads to.
    pub to: u64,
    /// True if its messages are to be handled in the order in which they were sent.
    pub ordered: bool,
    /// Bytes that may be sent and not consumed.
    credit: u64,
    sent: u64,
    consumed: u64,
    refunded: u64,
    /// The total that the peer was last asked to report, since it last reported any; 0: none.
    asked: u64,
}

impl Flow {
    /// Returns the bytes sent that are not known to be consumed.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        debug_assert!(self.consumed <= self.sent, "no more is consumed than was sent");
        self.sent.saturating_sub(self.consumed.saturating_add(self.refunded))
    }

    /// Returns true if there is no credit for a request that costs so much. With nothing
    /// outstanding there is for any.
    #[inline]
    pub fn lacks_credit(&self, cost: u64) -> bool {
        let outstanding = self.outstanding();
        outstanding + cost > self.credit && outstanding != 0
    }

    /// Returns the bytes that may be sent and not consumed.
    pub fn credit(&self) -> u64 {
        self.credit
    }

    /// Returns true if it leads from the sender of a message to its receiver.
    pub fn carries(&self, message: &Message<'_>) -> bool {
        (message.route.from, message.route.to) == (self.from, self.to)
    }

    /// Returns the route of messages that show `tag`.
    pub fn route(&self, tag: u64) -> Route {
        Route { from: self.from, to: self.to, tag }
    }

    /// Returns the total for a credit request to the peer; `None` if the peer was asked for that
    /// already.
    pub fn poll_credit_request(&mut self) -> Option<u64> {
        debug_assert!(self.outstanding() != 0, "nothing is asked about what is consumed");
        let expected = self.sent.saturating_sub(self.refunded);
        debug_assert!(self.asked <= self.sent, "the peer was asked about what was sent");
        (std::mem::replace(&mut self.asked, expected) != expected).then_some(expected)
    }

    /// Counts a request that was sent.
    #[inline]
    pub fn spend(&mut self, bytes: u64) {
        debug_assert!(bytes >= REQUEST_COST, "each request costs something");
        self.sent += bytes;
    }

    /// Counts a request that was returned without having been consumed.
    pub fn refund(&mut self, bytes: u64) {
        debug_assert!(bytes >= REQUEST_COST, "as it was spent");
        self.refunded = self.refunded.saturating_add(bytes);
    }

    /// Takes the peer's count of consumed bytes, and the credit that it grants from now on; 0: as
    /// before. If that is not all, the peer may be asked again:
    /// credit requests may overtake each other, and this report may answer an earlier one.
    pub fn on_report(&mut self, [total, granted]: [u64; 2]) {
        // A report that another has overtaken says nothing of credit.
        if granted != 0 && total >= self.consumed {
            self.credit = granted;
        }
        self.asked = 0;
        let before = self.consumed;
        self.consumed = self.consumed.max(total.min(self.sent));
        debug_assert!(self.consumed >= before, "reports may come late");
        debug_assert!(self.consumed <= self.sent, "a peer reports no more than was sent");
    }

    /// Clears the account of a lost peer: nothing is outstanding.
    pub fn on_peer_lost(&mut self) {
        (self.consumed, self.refunded) = (self.sent, 0);
        debug_assert!(self.outstanding() == 0, "nothing is outstanding at a lost peer");
    }
}

/// All flows that begin at a rank.
#[derive(Debug, Default)]
pub struct Flows {
    all: Vec<Option<Flow>>,
    by_names: HashMap<(u64, u64), u32>,
}

impl Flows {
    /// Opens the flow between two endpoints, or returns the one that is open.
    pub fn open(
        &mut self,
        (from, to): (u64, u64),
        peer: u32,
        ordered: bool,
        credit: u64,
    ) -> FlowId {
        debug_assert!(credit > 0, "without credit no request leaves");
        if let Some(&at) = self.by_names.get(&(from, to))
            && let Some(Some(flow)) = self.all.get_mut(at as usize)
        {
            debug_assert!(flow.peer == peer, "an endpoint does not move");
            debug_assert!(flow.from == from && flow.to == to, "flows lie under their names");
            flow.ordered |= ordered;
            return FlowId(at);
        }
        let (sent, consumed, refunded, asked) = (0, 0, 0, 0);
        let flow = Flow { peer, from, to, ordered, credit, sent, consumed, refunded, asked };
        let free = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        match self.all.get_mut(free) {
            Some(place) => *place = Some(flow),
            None => self.all.push(Some(flow)),
        }
        let before = self.by_names.insert((from, to), free as u32);
        debug_assert!(before.is_none(), "a flow is opened once");
        debug_assert!(self.get(FlowId(free as u32)).is_some(), "and found under its number");
        FlowId(free as u32)
    }

    /// Returns the flow of that number.
    #[inline]
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.all.get(id.0 as usize)?.as_ref()
    }

    /// Returns the flow of that number, mutably.
    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.all.get_mut(id.0 as usize)?.as_mut()
    }

    /// Returns the flow between two endpoints, if there is one.
    pub fn between(&mut self, from: u64, to: u64) -> Option<&mut Flow> {
        let at = *self.by_names.get(&(from, to))?;
        self.get_mut(FlowId(at))
    }

    /// Takes what an arrived message says of credit: a report of what was consumed, or the return
    /// of a request that was not. `first` are its first words. Returns true if that is all that it
    /// says.
    #[inline]
    pub fn on_arrival(&mut self, head: &FrameHead, first: [u64; 2], payload: usize) -> bool {
        let FrameHead { kind, route, .. } = *head;
        match kind {
            FrameKind::Credit => match self.between(route.to, route.from) {
                Some(flow) => flow.on_report(first),
                // It is of a rank that this one relays for.
                None => return false,
            },
            FrameKind::Returned => self.on_returned(route, first[0], payload),
            _ => {}
        }
        kind == FrameKind::Credit
    }

    #[cold]
    fn on_returned(&mut self, route: Route, first: u64, payload: usize) {
        let original = Original::unpack(first);
        if !original.was_consumed()
            && !original.reply
            && let Some(flow) = self.between(route.to, route.from)
        {
            debug_assert!(flow.from == route.to, "it went out from where it comes back to");
            flow.refund(REQUEST_COST + payload as u64);
        }
    }

    /// Iterates over all flows towards a peer.
    pub fn towards(&mut self, peer: u32) -> impl Iterator<Item = &mut Flow> {
        self.all.iter_mut().flatten().filter(move |flow| flow.peer == peer)
    }

    /// Forgets the flows of an endpoint that is closed.
    pub fn forget(&mut self, from: u64) {
        for place in &mut self.all {
            if let Some(flow) = place.take_if(|flow| flow.from == from) {
                let named = self.by_names.remove(&(flow.from, flow.to));
                debug_assert!(named.is_some(), "every flow has its names");
            }
        }
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.by_names.len(), self.all.iter().flatten().count(), "all have names");
        for (at, flow) in (0..).zip(&self.all).filter_map(|(at, flow)| Some((at, flow.as_ref()?))) {
            assert!(flow.consumed <= flow.sent, "no more is consumed than was sent");
            assert!(flow.asked <= flow.sent, "the peer is asked about what was sent");
            let named = self.by_names.get(&(flow.from, flow.to));
            assert_eq!(named, Some(&at), "a flow is found by its names");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_follows_reports_and_an_overtaken_report_changes_nothing() {
        let mut flows = Flows::default();
        let id = flows.open((1, 2), 2, false, 1000);
        let flow = flows.get_mut(id).unwrap();
        flow.spend(1000);
        assert!(flow.lacks_credit(REQUEST_COST));
        flow.on_report([400, 4000]);
        assert_eq!((flow.credit(), flow.outstanding()), (4000, 600));
        flow.spend(3400);
        assert!(flow.lacks_credit(REQUEST_COST) && flow.credit() == 4000);
        // The receiver takes it away; what is outstanding stays so.
        flow.on_report([900, 1000]);
        assert_eq!((flow.credit(), flow.outstanding()), (1000, 3500));
        for late in [[400, 4000], [0, 4000], [950, 0], [0, 0]] {
            flow.on_report(late);
            assert_eq!(flow.credit(), 1000, "{late:?}");
        }
        assert_eq!(flow.outstanding(), 3450);
        flows.check_invariants();
    }
}
