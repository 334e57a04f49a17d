//! Long requests: packed a little at a time, so that the first packets are sent before the rest is
//! packed.

use super::{MAX_WAITING, Nanos, Pushed, Request, Stack};
use crate::flow::REQUEST_COST;
use crate::outbox::{PayloadFragment, Progress};
use clump_wire::frame::{FrameHead, Route};

/// Bytes that are packed ahead of the window before the window is checked again.
const STEP: usize = 64 << 10;

impl Stack {
    /// Sends a long request, or as much of it as there is room for; `progress` tells how much.
    /// Accepted once everything is packed.
    pub fn request_long(
        &mut self,
        now: impl Fn() -> Nanos,
        request: &Request<'_>,
        payload: &[u8],
        progress: &mut Progress,
    ) -> Pushed {
        let Some(flow) = self.flows.get(request.flow) else { return Pushed::Full };
        let (peer, ordered) = (flow.peer, flow.ordered);
        let begun = *progress != Progress::default();
        let route = Route { from: flow.from, to: flow.to, tag: request.tag };
        let no_room = flow.outstanding() + REQUEST_COST > self.config.credit_bytes;
        if let Some(refusal) = self.lost(peer) {
            // A message that was begun has been returned already.
            return if begun { Pushed::Accepted } else { Pushed::Lost(refusal) };
        }
        let Some(connection) = self.connection(now(), peer) else { return Pushed::Full };
        if connection.outbox.waiting() >= MAX_WAITING || (no_room && !begun) {
            return Pushed::Full;
        }
        let order = ordered.then_some(connection.next_order);
        let (kind, handler) = (request.kind, request.handler);
        let head = FrameHead { kind, reply: false, handler, route, order, fragment: None };
        if !begun {
            connection.next_order += u64::from(ordered);
            if let Some(flow) = self.flows.get_mut(request.flow) {
                flow.spend(REQUEST_COST);
            }
        }
        let payload_fragment = PayloadFragment::whole(payload);
        let mut all = false;
        loop {
            let at = now();
            let Some(connection) = self.connection(at, peer) else { break };
            if !connection.outbox.has_waiting() {
                connection.opened_at = at;
            }
            let goes_on = self.feed(at, peer, |outbox| {
                let more = !all;
                all =
                    all || outbox.append_some(&head, request.words, payload_fragment, progress, 1);
                more
            });
            if !all && !goes_on {
                // Fragments beyond the window are packed ahead, while its acknowledgements come.
                let Some(connection) = self.connection(at, peer) else { break };
                let waiting = connection.outbox.waiting();
                if waiting >= MAX_WAITING {
                    break;
                }
                let most = STEP.min(MAX_WAITING - waiting);
                all = connection.outbox.append_some(
                    &head,
                    request.words,
                    payload_fragment,
                    progress,
                    most,
                );
            }
            if all {
                self.kick(now(), peer, false);
                return Pushed::Accepted;
            }
        }
        Pushed::Full
    }
}
