//! Messages that others have accounted for: what a proxy sends for the ranks of its node.

use super::{MOST_WAITING, Nanos, Push, Stack};
use crate::doors::Refusal;
use crate::mail::Mail;
use crate::outbox::{Outbox, Progress, Stretch};
use clump_wire::frame::{Head, Kind};

/// A part of a long message.
#[derive(Debug, Clone, Copy)]
pub struct Portion<'a> {
    /// Bytes of the whole payload.
    pub total: usize,
    /// Where this part begins.
    pub at: usize,
    /// The part.
    pub bytes: &'a [u8],
}

/// How much has been handed to a stack at one time, for each peer.
#[derive(Debug)]
pub struct Mark(Vec<(u32, u64)>);

impl Mark {
    /// The peers that something had been handed over for.
    pub fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|(id, _)| *id)
    }
}

impl Stack {
    /// What has been handed over up to now.
    pub fn mark(&self) -> Mark {
        let open = (0..).zip(&self.peers).filter_map(|(id, peer)| Some((id, peer.as_ref()?)));
        let ends = open.filter_map(|(id, peer)| Some((id, peer.conduit.as_ref()?.outbox.end())));
        Mark(ends.collect())
    }

    /// How far what has been packed for a peer reaches: for [`Stack::has_sent_before`].
    pub fn packed_before(&self, peer: u32) -> u64 {
        self.outbox_of(peer).map_or(0, Outbox::end)
    }

    /// Whether all that had been packed for a peer then has been sent, or will never be.
    pub fn has_sent_before(&self, peer: u32, number: u64) -> bool {
        self.outbox_of(peer).is_none_or(|outbox| outbox.has_sent_before(number))
    }

    /// Whether a message that found no room would find it now, or would come back.
    pub fn would_take(&self, peer: u32, head: &Head, ordered: bool, payload: &[u8]) -> bool {
        let known = self.peers.get(peer as usize).and_then(Option::as_ref);
        let Some(conduit) = known.filter(|peer| peer.is_open()).and_then(|p| p.conduit.as_deref())
        else {
            return true;
        };
        let long = matches!(head.kind, Kind::Long | Kind::Part);
        let most = if head.reply && !long { 2 * MOST_WAITING } else { MOST_WAITING };
        conduit.outbox.waiting() < most || conduit.passes(head, ordered, payload)
    }

    fn outbox_of(&self, peer: u32) -> Option<&Outbox> {
        let known = self.peers.get(peer as usize)?.as_ref()?;
        known.conduit.as_deref().filter(|_| known.lost.is_none()).map(|conduit| &conduit.outbox)
    }

    /// The smoothed round trip to each peer that is talked to, where it is known.
    pub fn round_trips(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.open_conduits().map(|(_, conduit)| conduit.channel.srtt()).filter(|&srtt| srtt != 0)
    }

    /// Whether all that had been handed over at `mark` has arrived, or cannot.
    pub fn is_past(&self, mark: &mut Mark) -> bool {
        mark.0.retain(|&(id, end)| {
            let peer = self.peers.get(id as usize).and_then(Option::as_ref);
            let open = peer.filter(|peer| peer.is_open());
            let conduit = open.and_then(|peer| peer.conduit.as_deref());
            conduit.is_some_and(|conduit| !conduit.outbox.has_arrived_before(end))
        });
        mark.0.is_empty()
    }

    /// Sends a message to a peer, in order with others that ask for order. Replies find room for longer.
    #[inline]
    pub fn relay(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        head: Head,
        ordered: bool,
        body: (&[u64], &[u8]),
    ) -> Push {
        let most = if head.reply { 2 * MOST_WAITING } else { MOST_WAITING };
        self.push(now, peer, head, ordered, body, most)
    }

    /// Sends the next part of a long message, all of it or nothing. `head.order` of a first part is not
    /// looked at.
    pub fn relay_long(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        (mut head, ordered): (Head, bool),
        words: &[u64],
        portion: Portion<'_>,
        progress: &mut Progress,
    ) -> Push {
        let begun = *progress != Progress::default();
        if let Some(refusal) = self.lost(peer) {
            // What was begun has come back already.
            return if begun { Push::Accepted } else { Push::Lost(refusal) };
        }
        let Some(conduit) = self.conduit(now(), peer) else { return Push::Full };
        let waiting = conduit.outbox.waiting();
        if waiting >= MOST_WAITING {
            let at = now();
            self.kick(at, peer, false);
            return Push::Full;
        }
        head.order = None;
        if ordered && !begun {
            head.order = Some(conduit.next_order);
            conduit.next_order += 1;
        }
        let Portion { total, at, bytes } = portion;
        let stretch = Stretch { total, at, bytes };
        let _ = conduit.outbox.append_some(&head, words, stretch, progress, usize::MAX);
        let at = now();
        if waiting == 0
            && let Some(conduit) = self.conduit(at, peer)
        {
            conduit.opened_at = at;
        }
        self.kick(at, peer, false);
        Push::Accepted
    }

    /// The rest of a long message that was begun will not come, since its sender is gone: the peer hands nothing of it
    /// to anybody, and waits for it no longer.
    pub fn abandon_long(&mut self, now: impl Fn() -> Nanos, peer: u32, progress: Progress) {
        if self.lost(peer).is_some() {
            return; // what was begun has been forgotten
        }
        let at = now();
        let Some(conduit) = self.conduit(at, peer) else { return };
        if !conduit.outbox.has_waiting() {
            conduit.opened_at = at;
        }
        conduit.outbox.abandon(progress);
        self.kick(at, peer, false);
    }

    /// Sends a message that was handed over and that nobody will handle back to where it came from.
    pub fn return_mail_for(&mut self, now: impl Fn() -> Nanos, mail: &Mail, why: Refusal) {
        self.send_back(&now, mail, why);
    }

    /// Tells an endpoint something in the name of another, come what may: for what is bounded by what it asks.
    pub fn tell(
        &mut self,
        now: impl Fn() -> Nanos,
        head: (Kind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) {
        let peer = self.doors.stack_of(names.1);
        self.reply_anyway(now, peer, head, names, body);
    }
}
