//! Long requests: packed a little at a time, so that what is packed is on its way before the rest is.

use super::{MOST_WAITING, Nanos, Push, Request, Stack};
use crate::flow::REQUEST_COST;
use crate::outbox::{Progress, Stretch};
use clump_wire::frame::{Head, Route};

/// Bytes that are packed ahead of the window before it is looked at again.
const STEP: usize = 64 << 10;

impl Stack {
    /// Sends a long request, or as much of it as there is room for; `progress` says how far it got.
    /// Accepted once everything is packed.
    pub fn request_long(
        &mut self,
        now: impl Fn() -> Nanos,
        request: &Request<'_>,
        payload: &[u8],
        progress: &mut Progress,
    ) -> Push {
        let Some(flow) = self.flows.get(request.flow) else { return Push::Full };
        let (peer, ordered) = (flow.peer, flow.ordered);
        let begun = *progress != Progress::default();
        let route = Route { from: flow.from, to: flow.to, tag: request.tag };
        let no_room = flow.outstanding() + REQUEST_COST > self.config.credit_bytes;
        if let Some(refusal) = self.lost(peer) {
            // What was begun has come back already.
            return if begun { Push::Accepted } else { Push::Lost(refusal) };
        }
        let Some(conduit) = self.conduit(now(), peer) else { return Push::Full };
        if conduit.outbox.waiting() >= MOST_WAITING || (no_room && !begun) {
            return Push::Full;
        }
        let order = ordered.then_some(conduit.next_order);
        let (kind, handler) = (request.kind, request.handler);
        let head = Head { kind, reply: false, handler, route, order, piece: None };
        if !begun {
            conduit.next_order += u64::from(ordered);
            if let Some(flow) = self.flows.get_mut(request.flow) {
                flow.spend(REQUEST_COST);
            }
        }
        let stretch = Stretch::whole(payload);
        let mut all = false;
        loop {
            let at = now();
            let Some(conduit) = self.conduit(at, peer) else { break };
            if !conduit.outbox.has_waiting() {
                conduit.opened_at = at;
            }
            let goes_on = self.feed(at, peer, |outbox| {
                let more = !all;
                all = all || outbox.append_some(&head, request.words, stretch, progress, 1);
                more
            });
            if !all && !goes_on {
                // What the window does not let out is packed ahead, while its acknowledgements come.
                let Some(conduit) = self.conduit(at, peer) else { break };
                let waiting = conduit.outbox.waiting();
                if waiting >= MOST_WAITING {
                    break;
                }
                let most = STEP.min(MOST_WAITING - waiting);
                all = conduit.outbox.append_some(&head, request.words, stretch, progress, most);
            }
            if all {
                self.kick(now(), peer, false);
                return Push::Accepted;
            }
        }
        Push::Full
    }
}
