//! Endings: peers that are lost or leave, endpoints that close, and this stack's own good-bye.

use super::{Conduit, Nanos, Peer, Stack};
use crate::assembly::Assembly;
use crate::doors::Refusal;
use crate::mail::{Mail, Sort};
use clump_wire::frame::{Head, Kind};

impl Stack {
    /// A peer is lost, or has finalized: what it did not acknowledge comes back, and so does whatever is
    /// sent to it from now on.
    pub fn lose(&mut self, peer: u32, why: Refusal) {
        let Some(Some(known)) = self.peers.get_mut(peer as usize) else { return };
        if known.lost.is_some() {
            return;
        }
        known.lost = Some(why);
        for flow in self.flows.towards(peer) {
            flow.settle();
        }
        // The channel stays: the numbers of its packets must not be used again.
        let Some(conduit) = known.conduit.as_deref_mut() else { return };
        conduit.assembly = Assembly::default();
        // Units behind a gap are not acknowledged in order, but may have arrived.
        let Conduit { outbox, channel, .. } = conduit;
        for unsent in outbox.take_all(|unit| channel.has_arrived(unit)) {
            let Head { kind, reply, handler, route, .. } = unsent.head;
            if kind == Kind::Returned {
                continue; // what it sent here, on the way back to it
            }
            let why = if reply { Refusal::ReplyRejected } else { why };
            let sort = Sort::Lost(kind, why);
            let (words, payload) = (unsent.words, unsent.payload);
            let mail = Mail { sort, reply, handler, route, words, payload };
            if let Ok(index) = self.doors.admit(route.from, None) {
                self.deliver(index, mail);
            }
        }
    }

    /// An endpoint is closed: what waits for it goes back to where it came from.
    pub fn close_endpoint(&mut self, now: impl Fn() -> Nanos, index: u8, name: u64) {
        let Some(mail) = self.mail.get_mut(usize::from(index)) else { return };
        let mut mail = std::mem::take(mail);
        // What waits for an earlier message would be lost if this stack closed before that came.
        for conduit in
            self.peers.iter_mut().flatten().filter_map(|peer| peer.conduit.as_deref_mut())
        {
            mail.extend(conduit.order_in.take_for(name));
        }
        for mail in mail {
            self.send_back(&now, &mail, Refusal::EndpointGone);
        }
        self.flows.forget(name);
    }

    /// Takes nothing more from now on, and tells every peer what it has got. To be called again, with
    /// time and packets passing, until [`Stack::is_closed`]; before, everything should be quiet.
    pub fn close(&mut self, now: Nanos) {
        self.closed = true;
        for peer in 0..self.peers.len() as u32 {
            let Some(Some(known)) = self.peers.get(peer as usize) else { continue };
            if known.is_open() && !known.saw_close {
                self.send_plain(now, peer, clump_wire::Kind::Close, 0);
            }
        }
    }

    /// Whether every peer knows that this stack is closed, or is lost.
    pub fn is_closed(&self) -> bool {
        let open = |peer: &Peer| peer.is_open() && !peer.saw_close;
        self.closed && !self.peers.iter().flatten().any(open)
    }

    /// Sends messages that were handed over and not handled back to where they came from.
    pub fn return_mail(&mut self, now: impl Fn() -> Nanos, mail: impl IntoIterator<Item = Mail>) {
        for mail in mail {
            self.send_back(&now, &mail, Refusal::EndpointGone);
        }
    }
}
