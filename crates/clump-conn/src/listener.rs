//! A listener: a port at which a rank accepts connections.

use crate::between::Between;
use crate::connection::Connection;
use crate::deadline::after;
use crate::error::{Error, Result};
use crate::hub::{Hub, hang_up};
use crate::local_route::LocalRoute;
use crate::port::Port;
use crate::queue::{PendingConnection, Queue};
use crate::route::ConnectionRoute;
use crate::token::Token;
use crate::wait::wait;
use clump_am::AsContext;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Default number of connections that wait to be accepted.
pub const MAX_WAITING: usize = 128;
/// First port of [`Port::ANY`].
const FIRST_ANY: u16 = 49_152;

/// A port of this rank's node at which it accepts connections. Any thread may use it. Dropping it
/// frees the port; waiting connections are closed, accepted ones stay open.
pub struct Listener {
    hub: Arc<Hub>,
    port: Port,
    queue: Arc<Queue>,
}

impl Listener {
    /// Listens at `port` of this rank's node ([`Port::ANY`]: a free one); up to [`MAX_WAITING`]
    /// connections wait to be accepted.
    ///
    /// # Errors
    /// A rank of the node listens there; all endpoints of this rank are open.
    pub fn bind(rank: &impl AsContext, port: Port) -> Result<Self> {
        Self::bind_with(rank, port, MAX_WAITING)
    }

    /// Listens as [`Listener::bind`] does, with `max_waiting` waiting connections; further ones are
    /// refused.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind_with(rank: &impl AsContext, port: Port, max_waiting: usize) -> Result<Self> {
        let hub = Hub::of(rank)?;
        let (node, name) = (hub.context.node(), hub.endpoint.name());
        let queue = Arc::new(Queue::new(max_waiting));
        let claim = |port: u16| {
            // A client that finds the port bound finds the queue.
            if !hub.book.enter_queue(port, &queue) {
                return Err(name);
            }
            node.claim_port(port, name).inspect_err(|_| hub.book.forget_queue(port))
        };
        let port = if port == Port::ANY {
            let free = (FIRST_ANY..=u16::MAX).find(|&port| claim(port).is_ok());
            Port(free.ok_or(Error::NoPortFree)?)
        } else {
            let taken = |holder: clump_am::Name| Error::PortTaken { port, holder: holder.rank() };
            claim(port.0).map_err(taken)?;
            port
        };
        Ok(Self { hub, port, queue })
    }

    /// Returns the port that it listens at.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Returns the node that it is on.
    pub fn node(&self) -> u32 {
        self.hub.context.node().node()
    }

    /// Returns the next connection; blocks until there is one.
    ///
    /// # Errors
    /// A rank of this job died.
    pub fn accept(&self) -> Result<Connection> {
        loop {
            if let Some(connection) = self.accept_until(None)? {
                return Ok(connection);
            }
        }
    }

    /// Returns the next connection, if one comes within `limit`.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept_within(&self, limit: Duration) -> Result<Option<Connection>> {
        self.accept_until(Some(after(limit)))
    }

    /// Returns the next connection, if one waits. Never blocks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn try_accept(&self) -> Result<Option<Connection>> {
        self.hub.step()?;
        self.pop()
    }

    fn accept_until(&self, until: Option<u64>) -> Result<Option<Connection>> {
        loop {
            if let Some(connection) = self.pop()? {
                return Ok(Some(connection));
            }
            // Another thread may take the connection first.
            if !wait(&self.hub, &[], until, || Ok(!self.queue.is_empty()))? {
                return Ok(None);
            }
        }
    }

    fn pop(&self) -> Result<Option<Connection>> {
        let Some(visitor) = self.queue.pop() else { return Ok(None) };
        let (line, way) = match visitor {
            PendingConnection::Near(number, known) => {
                let peer = known.peer;
                (
                    known.line,
                    ConnectionRoute::Near(LocalRoute {
                        number,
                        peer,
                        dest: self.hub.route_to(peer)?,
                    }),
                )
            }
            PendingConnection::Far(link) => (link.line().clone(), ConnectionRoute::Far(link)),
        };
        Ok(Some(Connection::over(self.hub.clone(), line, way)))
    }

    /// Lets other jobs connect: returns the token to hand to them. They are answered at
    /// `addresses`, in which port 0 means any port; name all addresses by which this process is
    /// reached. Valid until the listener is dropped.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn invite(&self, addresses: &[SocketAddr]) -> Result<Token> {
        self.invite_between(addresses, &Between::configured()?)
    }

    /// Lets other jobs connect as [`Listener::invite`] does, with the settings of `between`.
    ///
    /// # Errors
    /// As [`Listener::invite`].
    pub fn invite_between(&self, addresses: &[SocketAddr], between: &Between) -> Result<Token> {
        self.hub.far.invite(&self.queue, self.port, addresses, between)
    }

    /// Returns true if a connection waits to be accepted.
    pub fn is_ready(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "listener at {} of node {}", self.port, self.node())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The listener belongs to the rank, not to its child by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        self.hub.context.node().release_port(self.port.0, self.hub.endpoint.name());
        self.hub.book.forget_queue(self.port.0);
        self.hub.far.close_handshake_sockets(&self.queue);
        for visitor in self.queue.close() {
            match visitor {
                PendingConnection::Near(number, known) => hang_up(&self.hub.book, number, &known),
                PendingConnection::Far(link) => link.hang_up(),
            }
        }
        // Messages that find no space now go with the next call, if any; otherwise the end of the
        // endpoint tells the peers.
        let _ = self.hub.pump();
    }
}
