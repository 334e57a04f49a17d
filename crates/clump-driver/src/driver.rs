//! The trait that all mechanisms and wrappers share.

use crate::error::DriverError;
use crate::inbound::Inbound;
use crate::peer_paths::PeerPaths;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Capabilities of a driver. Callers choose by these, never by the name of the mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Name in reports: `udp`, `loopback`, `fault(udp)`.
    pub name: String,
    /// Largest datagram in bytes that it takes towards any destination.
    pub max_datagram: usize,
    /// True if runs of equal datagrams to one destination go out in one system call (UDP_SEGMENT).
    pub gso: bool,
    /// True if the kernel hands over runs of equal datagrams at once (UDP_GRO).
    pub gro: bool,
    /// True if datagrams go out as ECT(0), and the mark they arrive with is reported.
    pub ecn: bool,
    /// True if datagrams carry the time at which the kernel received them.
    pub timestamps: bool,
    /// True if datagrams always come from the address at which their sender receives
    /// ([`Driver::local`]). Else only the host is the same: several sockets receive, or others than
    /// it send.
    pub answerable: bool,
    /// Bytes of datagrams that may wait here to be received before more are lost, as the kernel
    /// counts (its bookkeeping included).
    pub receive_buffer: usize,
    /// Bytes of datagrams that may wait here to leave before [`Driver::send`] takes no more.
    pub send_buffer: usize,
}

/// One datagram to send, in three parts that are concatenated (so that a payload need not be copied
/// behind its header). Parts may be empty, even all of them.
///
/// A run of equal datagrams to one destination is cheapest when all their parts lie back to back in
/// memory (46 of 1400 bytes: 8 us instead of 13), so data that is copied or sealed anyway is best
/// put there so.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Destination.
    pub to: SocketAddr,
    /// First part.
    pub head: &'a [u8],
    /// Second part.
    pub body: &'a [u8],
    /// Third part.
    pub tail: &'a [u8],
}

impl Outgoing<'_> {
    /// Returns the bytes of all parts.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.body.len() + self.tail.len()
    }

    /// Appends all parts to `into`.
    pub fn append_to(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self.head);
        into.extend_from_slice(self.body);
        into.extend_from_slice(self.tail);
    }
}

/// Sends and receives datagrams without blocking. Owned by one thread; no call waits for anything.
pub trait Driver: Send {
    /// Returns the capabilities of this driver.
    fn capabilities(&self) -> &Capabilities;

    /// Returns the address that it is bound to; the host part is unspecified when it was bound so.
    fn local(&self) -> SocketAddr;

    /// Sends in order. `Ok(n)`: the first n were taken; n < `batch.len()`: the wire is full, try
    /// the others later. An error names the datagram that it is about; those before it were taken.
    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError>;

    /// Sends datagrams whose memory stays unchanged until their receiver has them, as far as the
    /// caller can know: a driver may send them zero-copy. Worthwhile from [`MIN_KEPT`] bytes up.
    fn send_zero_copy(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.send(batch)
    }

    /// Receives without blocking, and appends to `into`. Returns the number of datagrams appended:
    /// at least one if there is one and `into` has room, maybe not all. `Ok(0)`: nothing is there
    /// (or no room).
    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError>;

    /// Returns the descriptor that becomes readable when there is something to receive (for ppoll);
    /// `None` for drivers inside one process.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;

    /// Returns the largest datagram in bytes that the local interface towards `to` carries (IP MTU
    /// minus IP and UDP headers), if it can be known. Asks the kernel: for setting up and path
    /// probing, not per datagram.
    fn path_hint(&self, to: SocketAddr) -> Option<usize>;

    /// Returns the time after which the driver has something to do although no packet arrives: a
    /// call of [`Driver::receive`] then does it. Only a driver that delays packets has that.
    fn due_in(&self) -> Option<Duration> {
        None
    }

    /// Tells the paths to a peer, before anything is sent to it. Only a driver with several paths
    /// uses this.
    fn add_peer(&mut self, peer: PeerPaths) {
        let _ = peer;
    }

    /// Notes that a datagram that arrived by `path` ([`Datagram::path`](crate::Datagram)) was
    /// authenticated as one from the peer that is sent to at `peer`. Only a driver with several
    /// paths uses this.
    fn on_authenticated(&mut self, peer: SocketAddr, path: u8) {
        let _ = (peer, path);
    }

    /// Gives a driver that asks its peers anything by itself the key to do so: everybody in the job
    /// has it, nobody else. Only a driver with frames cares.
    fn set_probe_key(&mut self, key: &[u8; PROBE_KEY_BYTES]) {
        let _ = key;
    }

    /// Returns the datagrams that the kernel dropped because a receive buffer was full. Asks the
    /// kernel: not for each datagram.
    fn overflowed(&self) -> u64 {
        0
    }

    /// Datagrams lost so far because this machine had no working interface or route for them.
    fn unreachable(&self) -> u64 {
        0
    }

    /// Returns the counts of a driver that has several paths; `None` where there is one.
    fn paths(&self) -> Option<&PathCounts> {
        None
    }
}

/// Minimum bytes of a datagram for which [`Driver::send_zero_copy`] may be cheaper than
/// [`Driver::send`].
pub const MIN_KEPT: usize = 32 << 10;

/// Bytes of the key of [`Driver::set_probe_key`].
pub const PROBE_KEY_BYTES: usize = 32;

/// Most paths of a driver.
pub const MAX_PATHS: usize = 4;

/// Counts of a driver's paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCounts {
    /// Datagrams sent by each path.
    pub sent: [u64; MAX_PATHS],
    /// Times that a path to a peer was taken out.
    pub taken_out: u64,
    /// Times that a path was taken back.
    pub came_back: u64,
}

impl<D: Driver + ?Sized> Driver for Box<D> {
    fn capabilities(&self) -> &Capabilities {
        (**self).capabilities()
    }

    fn local(&self) -> SocketAddr {
        (**self).local()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        (**self).send(batch)
    }

    fn send_zero_copy(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        (**self).send_zero_copy(batch)
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        (**self).receive(into)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        (**self).readiness()
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        (**self).path_hint(to)
    }

    fn due_in(&self) -> Option<Duration> {
        (**self).due_in()
    }

    fn add_peer(&mut self, peer: PeerPaths) {
        (**self).add_peer(peer);
    }

    fn on_authenticated(&mut self, peer: SocketAddr, path: u8) {
        (**self).on_authenticated(peer, path);
    }

    fn set_probe_key(&mut self, key: &[u8; PROBE_KEY_BYTES]) {
        (**self).set_probe_key(key);
    }

    fn unreachable(&self) -> u64 {
        (**self).unreachable()
    }

    fn overflowed(&self) -> u64 {
        (**self).overflowed()
    }

    fn paths(&self) -> Option<&PathCounts> {
        (**self).paths()
    }
}
