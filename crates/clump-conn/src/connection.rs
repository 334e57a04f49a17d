//! A connection as programs use it.

mod connect;

use crate::deadline::after;
use crate::error::{End, Error, Peer, Result};
use crate::hub::{Hub, Notice};
use crate::line::{ConnectionLine, MAX_MESSAGE, Rest};
use crate::outbound::Sending;
use crate::route::{ConnectionRoute, RouteThroughHub};
use crate::transport::{push, push_rest, send_due, send_last};
use crate::wait::wait;
use crate::words::ask;
use clump_am::SendAttempt;
use clump_os::clock;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Default time for which connecting waits for an answer.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time for which dropping a connection waits until its messages have left.
const LINGER: Duration = Duration::from_secs(2);

/// Result of a receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The next message.
    Message(Vec<u8>),
    /// No message has arrived yet.
    Nothing,
    /// The other side has finished sending, and everything was received.
    End,
}

/// One side of a connection: messages of up to 1 GiB, each received exactly once by the other side,
/// in the order that was chosen (paper 002, sections 2.2 and 2.3).
///
/// Any thread may use it; messages that several threads send at once follow each other. Calls that
/// block handle messages for this rank meanwhile. Dropping it closes it; messages sent before are
/// received.
pub struct Connection {
    hub: Arc<Hub>,
    line: Arc<ConnectionLine>,
    way: ConnectionRoute,
}

impl Connection {
    pub(crate) fn over(hub: Arc<Hub>, line: Arc<ConnectionLine>, way: ConnectionRoute) -> Self {
        Self { hub, line, way }
    }

    /// Returns the other side.
    pub fn peer(&self) -> Peer {
        self.way.peer(&self.hub)
    }

    /// Sends a message; blocks while the other side has too much that its program has not received.
    ///
    /// # Errors
    /// The connection has ended, this side has finished, or the message is too long. When waiting
    /// fails for another reason (another endpoint's handler), a message that has begun is completed
    /// in the background.
    pub fn send(&self, message: &[u8]) -> Result<()> {
        self.send_until(message, None).map(drop)
    }

    /// Sends a message if there is space now, at least for its beginning: the rest is copied then,
    /// and sent by later calls for any connection of this rank. Never blocks.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn try_send(&self, message: &[u8]) -> Result<SendAttempt> {
        self.hub.endpoint.poll()?;
        self.send_until(message, Some(0))
    }

    /// Sends a message if there is space within `limit`, at least for its beginning.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_within(&self, message: &[u8], limit: Duration) -> Result<SendAttempt> {
        self.send_until(message, Some(after(limit)))
    }

    fn send_until(&self, message: &[u8], until: Option<u64>) -> Result<SendAttempt> {
        if message.len() > MAX_MESSAGE {
            return Err(Error::TooLong { given: message.len(), most: MAX_MESSAGE });
        }
        let Some(sender) = self.sender(until)? else { return Ok(SendAttempt::Full) };
        let mut sending: Option<Sending> = None;
        let Self { hub, line, way } = self;
        let sent = self.wait(until, || {
            let through: RouteThroughHub<'_> = (hub, way);
            if line.has_ended() || !push_rest(&through, line)? {
                return Ok(line.has_ended());
            }
            let sending = sending.get_or_insert_with(|| line.state().outbound.begin(message.len()));
            Ok(push(&through, line, (0, message), sending)? || line.has_ended())
        });
        let begun = sending.filter(|sending| sending.is_begun() && !sending.is_done());
        if let Some(sending) = begun {
            line.state().rest = Some(Rest::of(message, sending));
        }
        drop(sender);
        if !sent? && begun.is_none() {
            return Ok(SendAttempt::Full);
        }
        if sending.is_none_or(|sending| !sending.is_done()) {
            self.check_open()?;
        }
        Ok(SendAttempt::Sent)
    }

    /// Returns the right to send, once no other thread has it; `None` when the time has passed.
    fn sender(&self, until: Option<u64>) -> Result<Option<MutexGuard<'_, ()>>> {
        let mut sender = self.line.try_sender();
        if sender.is_none() {
            self.wait(until, || {
                sender = sender.take().or_else(|| self.line.try_sender());
                Ok(sender.is_some())
            })?;
        }
        if sender.is_some() {
            if self.line.state().outbound.is_finished() {
                return Err(Error::Finished(self.peer()));
            }
            self.check_open()?;
        }
        Ok(sender)
    }

    fn check_open(&self) -> Result<()> {
        match self.line.state().end {
            Some(why) => Err(Error::Ended { peer: self.peer(), why }),
            None => Ok(()),
        }
    }

    fn wait(
        &self,
        until: Option<u64>,
        ready: impl FnMut() -> clump_am::Result<bool>,
    ) -> Result<bool> {
        wait(&self.hub, &[(&self.way, &self.line)], until, ready)
    }

    /// Returns the next message; `None` once the other side has finished or closed, and everything
    /// was received.
    ///
    /// # Errors
    /// The other side is gone without having finished, and everything that arrived was received.
    pub fn recv(&self) -> Result<Option<Vec<u8>>> {
        match self.recv_until(None)? {
            Received::Message(message) => Ok(Some(message)),
            Received::Nothing | Received::End => Ok(None),
        }
    }

    /// Returns the next message if one has arrived. Never blocks.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn try_recv(&self) -> Result<Received> {
        if let Some(received) = self.take()? {
            return Ok(received);
        }
        self.hub.step()?;
        self.way.poll();
        self.line.handle_time(clock::now_ns());
        if !self.line.state().is_ready()
            && let Some(end) = self.way.gone(&self.hub)
        {
            // Its last messages have arrived by now.
            while self.hub.endpoint.poll_network()? > 0 {}
            self.line.end(end);
        }
        Ok(self.take()?.unwrap_or(Received::Nothing))
    }

    /// Returns the next message, if it comes within `limit`.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn recv_within(&self, limit: Duration) -> Result<Received> {
        self.recv_until(Some(after(limit)))
    }

    fn recv_until(&self, until: Option<u64>) -> Result<Received> {
        loop {
            if let Some(received) = self.take()? {
                return Ok(received);
            }
            // Another thread may take the message first.
            if !self.wait(until, || Ok(self.line.state().is_ready()))? {
                return Ok(Received::Nothing);
            }
        }
    }

    /// Takes a message, the end or an error if one is ready; else `None`.
    fn take(&self) -> Result<Option<Received>> {
        let mut state = self.line.state();
        if let Some(message) = state.inbound.poll_message() {
            let due = state.inbound.wants_credit() && state.end.is_none();
            drop(state);
            // A failure to send credit must not lose the message: a later call meets it again.
            let through: RouteThroughHub<'_> = (&self.hub, &self.way);
            if due && !matches!(send_due(&through, &self.line), Ok(true)) {
                self.mark_due();
            }
            return Ok(Some(Received::Message(message)));
        }
        if state.inbound.is_over() {
            return Ok(Some(Received::End));
        }
        match state.end.filter(|_| state.is_cut()) {
            Some(why) => Err(Error::Ended { peer: self.peer(), why }),
            None => Ok(None),
        }
    }

    fn mark_due(&self) {
        match &self.way {
            ConnectionRoute::Near(near) => self.hub.book.mark_due(near.number),
            ConnectionRoute::Far(link) => link.mark_due(),
        }
    }

    /// Returns true if a receive would return at once: a message, the end, or an error.
    pub fn is_ready(&self) -> bool {
        self.line.state().is_ready()
    }

    pub(crate) fn watched(&self) -> (&Hub, &ConnectionRoute, &ConnectionLine) {
        (&self.hub, &self.way, &self.line)
    }

    /// Ends sending from this side: the other receives what was sent, and then the end. Blocks
    /// until what was sent has left. Receiving goes on.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn finish(&self) -> Result<()> {
        let Some(_sender) = self.sender(None)? else { return Ok(()) };
        if self.tell_last(ask::FINISH, None)? { Ok(()) } else { self.check_open() }
    }

    /// Sends the rest of a message that was taken over, and then FINISH or CLOSE; returns true if
    /// that was sent.
    fn tell_last(&self, handler: u8, until: Option<u64>) -> Result<bool> {
        let Self { hub, line, way } = self;
        let through: RouteThroughHub<'_> = (hub, way);
        let flushed = self.wait(until, || Ok(line.has_ended() || push_rest(&through, line)?));
        if handler == ask::FINISH && flushed.is_err() {
            // The message that has begun goes on, and is counted only when it is whole.
            return flushed;
        }
        let limit = if flushed.is_ok() { until } else { Some(0) };
        let mut told = false;
        self.wait(limit, || {
            told = told || !line.has_ended() && send_last(&through, line, handler)?;
            Ok(told || line.has_ended())
        })?;
        flushed.map(|_| told)
    }

    /// Closes the connection: the other side receives what was sent, and then the end. Messages
    /// from it that this side has not received are lost. Blocks until what was sent has left, as
    /// sending does; dropping does the same for 2 s at most, and then breaks off.
    ///
    /// # Errors
    /// The other side is gone before everything sent has left.
    pub fn close(self) -> Result<()> {
        let broken = self.hang_up(None);
        match self.line.state().end.filter(|&why| why != End::Closed) {
            Some(why) => Err(Error::Ended { peer: self.peer(), why }),
            None => broken,
        }
    }

    fn hang_up(&self, linger: Option<Duration>) -> Result<()> {
        if self.line.state().hung_up {
            return Ok(());
        }
        self.line.state().hung_up = true;
        let until = linger.map(after);
        let mut sender = None;
        let had = self.wait(until, || {
            // Another thread may be sending the rest of a message.
            sender = sender.take().or_else(|| self.line.try_sender());
            Ok(sender.is_some())
        });
        let told = had.and_then(|_| self.tell_last(ask::CLOSE, until));
        drop(sender);
        if !matches!(told, Ok(true))
            && let ConnectionRoute::Near(near) = &self.way
            && !self.line.has_ended()
        {
            // There was no space for it: the hub sends it later.
            let mut state = self.line.state();
            let (messages, broken) = (state.outbound.finish(), state.rest.is_some());
            let notice = Notice::hang_up(near.peer, state.theirs, near.number);
            self.hub.book.note(notice.after(messages, broken));
        }
        let broken = self.line.state().rest.is_some();
        match &self.way {
            ConnectionRoute::Near(near) => {
                self.hub.book.forget(near.number);
                self.hub.release_route(near.peer);
            }
            ConnectionRoute::Far(link) => link.begin_close(),
        }
        match told {
            Ok(_) if broken => {
                let why = self.line.state().end.unwrap_or(End::Broken);
                Err(Error::Ended { peer: self.peer(), why })
            }
            told => told.map(drop),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connection to {}", self.peer())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The connection belongs to the rank, not to its child by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        let linger = if std::thread::panicking() { Duration::ZERO } else { LINGER };
        // No caller is left to report the error to.
        let _ = self.hang_up(Some(linger));
    }
}
