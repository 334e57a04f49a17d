//! Message handlers of the endpoint of a hub.

use super::state::{HubState, Notice, hang_up};
use crate::error::End;
use crate::known::Known;
use crate::line::{ConnectAnswer, ConnectionLine};
use crate::lock::lock;
use crate::port::Order;
use crate::queue::{PendingConnection, Queued};
use crate::words::{ask, refusal, tell};
use clump_am::{Handler, Name, Returned, SharedEndpoint, Token};
use clump_onesided::protocol;
use clump_os::clock;
use std::sync::Arc;

pub(super) fn equip(endpoint: &SharedEndpoint, book: &Arc<HubState>) -> clump_am::Result<()> {
    let mine = book.clone();
    let connect = move |token: Token<'_>, words: &[u64], _: clump_am::Payload<'_>| {
        on_connect(&mine, token, words);
    };
    endpoint.set_handler(Handler(ask::CONNECT), connect)?;
    for handler in [ask::FRAGMENT, ask::CREDIT, ask::FINISH, ask::CLOSE] {
        let mine = book.clone();
        endpoint.set_handler(Handler(handler), move |token, words, payload| {
            let Some((number, known)) = addressed(&mine, words, token.from()) else { return };
            if known.line.handle(handler, words, &payload) {
                mine.mark_due(number);
            }
        })?;
    }
    let mine = book.clone();
    endpoint.set_handler(Handler(tell::QUEUED), move |token, words, _| {
        let &[to, from] = words else { return };
        match addressed(&mine, words, token.from()) {
            Some((_, known)) => {
                let mut state = known.line.state();
                (state.theirs, state.answer) = (from, Some(ConnectAnswer::Queued));
            }
            // The side that asked has given up.
            None => mine.note(Notice::hang_up(token.from(), from, to)),
        }
    })?;
    let mine = book.clone();
    endpoint.set_handler(Handler(tell::REFUSED), move |token, words, _| {
        let &[_, why] = words else { return };
        if let Some((_, known)) = addressed(&mine, words, token.from()) {
            known.line.state().answer = Some(ConnectAnswer::Refused(why));
        }
    })?;
    let mine = book.clone();
    endpoint.set_handler(Handler(protocol::tell::VALUE), move |_, words, _| {
        let &[cookie, value] = words else { return };
        if let Some(asked) = lock(&mine.found).get_mut(&cookie) {
            *asked = Some(value);
        }
    })?;
    let mine = book.clone();
    endpoint.on_returned(move |message| on_returned(&mine, message))
}

/// Returns the connection that a message is for, if it comes from its other side.
fn addressed(book: &HubState, words: &[u64], from: Name) -> Option<(u64, Known)> {
    let number = *words.first()?;
    let known = book.known(number).filter(|known| known.peer == from)?;
    Some((number, known))
}

fn on_connect(book: &HubState, token: Token<'_>, words: &[u64]) {
    let &[port, theirs, order] = words else { return };
    let queue = u16::try_from(port).ok().and_then(|port| book.queue(port));
    let peer = token.from();
    let refused = match queue {
        None => refusal::NO_LISTENER,
        Some(queue) => {
            let line = Arc::new(ConnectionLine::new(Order::of_bit(order), theirs));
            let (number, known) = (book.number(), Known { line: line.clone(), peer });
            // A thread that accepts it, maybe at once, finds it known.
            book.enter(number, line, peer);
            match queue.push(PendingConnection::Near(number, known)) {
                Queued::Waits => {
                    // Only a peer that is gone would not take the reply, and then the line ends by
                    // itself.
                    let _ = token.reply(Handler(tell::QUEUED), &[theirs, number]);
                    return;
                }
                Queued::Full => {
                    book.forget(number);
                    refusal::QUEUE_FULL
                }
                Queued::Closed => {
                    book.forget(number);
                    refusal::NO_LISTENER
                }
            }
        }
    };
    let _ = token.reply(Handler(tell::REFUSED), &[theirs, refused]);
}

/// Handles a message returned to sender: its other side is gone.
fn on_returned(book: &HubState, message: &Returned) {
    let word = |at: usize| message.words.get(at).copied().unwrap_or(0);
    let number = match (message.reply, message.handler.0) {
        (false, protocol::ask::PORT) => {
            if let Some(asked) = lock(&book.found).get_mut(&word(0)) {
                *asked = Some(0);
            }
            return;
        }
        // Answers name the connection here second, as requests do.
        (false, ask::CONNECT | ask::FRAGMENT | ask::CREDIT | ask::FINISH | ask::CLOSE)
        | (true, tell::QUEUED) => word(1),
        _ => return,
    };
    let Some(known) = book.known(number) else { return };
    if message.reply {
        return hang_up(book, number, &known);
    }
    let died = message.reason == clump_am::Reason::PeerLost;
    known.line.state().answer.get_or_insert(ConnectAnswer::Refused(refusal::NO_LISTENER));
    if died {
        known.line.end(End::PeerDied);
    } else {
        // Its endpoint is closed. Its earlier messages, and its close, may still be in flight.
        known.line.doubt(clock::now_ns());
    }
}
