//! What carries a connection: messages of this job, or a stack of its own towards another.

use crate::error::{End, Peer};
use crate::far::Link;
use crate::hub::{Hub, MOST_PIECE};
use crate::line::{Line, Rest};
use crate::outbound::Sending;
use crate::words::ask;
use clump_am::{Attempt, Dest, Handler, Name, Result};
use clump_shm::rank::RankState;
use std::sync::Arc;

/// Towards a rank of this job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near {
    /// The number of the connection here.
    pub(crate) number: u64,
    pub(crate) peer: Name,
    pub(crate) dest: Dest,
}

/// See the module.
#[derive(Debug)]
pub(crate) enum Way {
    Near(Near),
    Far(Arc<Link>),
}

/// What takes the messages of one connection to its other side.
pub(crate) trait Carrier {
    /// Sends one message if there is room now. Its words begin with the two numbers of the connection.
    fn send(&self, line: &Line, handler: u8, rest: &[u64], payload: &[u8]) -> Result<Attempt>;

    /// Most bytes of one piece.
    fn most_piece(&self) -> usize {
        MOST_PIECE
    }
}

/// A way, and the hub that it goes through.
pub(crate) type Through<'a> = (&'a Hub, &'a Way);

impl Carrier for Through<'_> {
    fn send(&self, line: &Line, handler: u8, rest: &[u64], payload: &[u8]) -> Result<Attempt> {
        match self {
            (hub, Way::Near(near)) => (*hub, near).send(line, handler, rest, payload),
            (_, Way::Far(link)) => link.send(line, handler, rest, payload),
        }
    }

    fn most_piece(&self) -> usize {
        match self {
            (hub, Way::Near(near)) => (*hub, near).most_piece(),
            (_, Way::Far(link)) => link.most_piece(),
        }
    }
}

impl Carrier for (&Hub, &Near) {
    fn send(&self, line: &Line, handler: u8, rest: &[u64], payload: &[u8]) -> Result<Attempt> {
        let (endpoint, near) = (&self.0.endpoint, self.1);
        let theirs = line.state().theirs;
        with_numbers(theirs, near.number, rest, |words| {
            if payload.is_empty() {
                return endpoint.try_request(near.dest, Handler(handler), words);
            }
            endpoint.try_request_bulk(near.dest, Handler(handler), payload, words)
        })
    }

    fn most_piece(&self) -> usize {
        self.0.endpoint.max_medium().min(MOST_PIECE)
    }
}

/// Puts the two numbers of a connection before the words of a message.
pub(crate) fn with_numbers<T>(
    theirs: u64,
    mine: u64,
    rest: &[u64],
    send: impl FnOnce(&[u64]) -> T,
) -> T {
    let mut words = [theirs, mine, 0, 0, 0];
    for (to, from) in words.iter_mut().skip(2).zip(rest) {
        *to = *from;
    }
    send(words.get(..rest.len() + 2).unwrap_or_default())
}

impl Way {
    /// The other side.
    pub(crate) fn peer(&self, hub: &Hub) -> Peer {
        match self {
            Way::Near(near) => hub.peer_of(near.peer),
            Way::Far(link) => Peer::Far(link.address()),
        }
    }

    /// Looks for what has arrived for this connection, besides the endpoint of the hub.
    pub(crate) fn look(&self) {
        if let Way::Far(link) = self {
            link.look();
        }
    }

    /// Whether the other side's rank is gone; what it sent before may still arrive.
    pub(crate) fn gone(&self, hub: &Hub) -> Option<End> {
        let Way::Near(near) = self else { return None };
        match hub.context.node().rank(near.peer.rank())?.state() {
            RankState::Dead => Some(End::PeerDied),
            RankState::Finalized => Some(End::PeerLeft),
            RankState::Absent | RankState::Joined => None,
        }
    }

    /// The rank that has to act.
    pub(crate) fn rank(&self) -> Option<u32> {
        match self {
            Way::Near(near) => Some(near.peer.rank()),
            Way::Far(_) => None,
        }
    }
}

/// Sends as much of a message as there is room for, to a peer that still takes it; true when that was all.
/// `message` is what follows its first `skipped` bytes. The caller has the right to send.
pub(crate) fn push(
    carrier: &impl Carrier,
    line: &Line,
    (skipped, message): (u64, &[u8]),
    sending: &mut Sending,
) -> Result<bool> {
    let most = carrier.most_piece();
    while !sending.is_done() {
        let state = line.state();
        let next = state.outbound.poll_piece(sending, most);
        let Some((piece, bytes)) = next.filter(|_| state.end.is_none()) else { return Ok(false) };
        drop(state);
        let at = piece.offset.saturating_sub(skipped) as usize;
        let payload = message.get(at..at + bytes).unwrap_or_default();
        let words = [piece.number, piece.bytes, piece.offset];
        if carrier.send(line, ask::PIECE, &words, payload)? == Attempt::Full {
            return Ok(false);
        }
        line.state().outbound.on_sent(sending, bytes);
    }
    Ok(true)
}

/// Sends what a line owes: credit, and the rest of a message. False when credit found no room.
pub(crate) fn tell_due(carrier: &impl Carrier, line: &Line) -> Result<bool> {
    let credit = line.state().inbound.poll_credit();
    if let Some(total) = credit {
        let sent = carrier.send(line, ask::CREDIT, &[total], &[]);
        if !matches!(sent, Ok(Attempt::Sent)) {
            line.state().inbound.on_credit_unsent();
            return sent.map(|_| false);
        }
    }
    if let Some(_sender) = line.try_sender() {
        push_rest(carrier, line)?;
    }
    Ok(true)
}

/// Sends what is left of a message that was taken over; true when nothing is. The caller has the right to
/// send.
pub(crate) fn push_rest(carrier: &impl Carrier, line: &Line) -> Result<bool> {
    let Some(mut rest) = line.state().rest.take() else { return Ok(true) };
    let Rest { skipped, bytes, sending } = &mut rest;
    let done = push(carrier, line, (*skipped, bytes), sending);
    if !matches!(done, Ok(true)) {
        line.state().rest = Some(rest);
    }
    done
}

/// Says that nothing more is sent; or (`CLOSE`) also that nothing more is taken. False when there is no room
/// for it.
pub(crate) fn tell_last(carrier: &impl Carrier, line: &Line, handler: u8) -> Result<bool> {
    let (total, broken) = {
        let mut state = line.state();
        (state.outbound.finish(), state.rest.is_some())
    };
    let words = [total, u64::from(broken)];
    let words = if handler == ask::CLOSE { &words[..] } else { &words[..1] };
    Ok(carrier.send(line, handler, words, &[])? == Attempt::Sent)
}
