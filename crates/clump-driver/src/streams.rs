//! Streams of bytes beside datagrams: for bulk, which the kernel moves cheaper so.
//!
//! A stack asks its [`StreamNetwork`] for a listener when a peer wants to send it bulk, and for a
//! connection when it has bulk to send. No call blocks, and nothing here knows what the bytes mean.

use clump_os::epoll::{Interest, Poller};
pub use clump_os::tcp::StreamTransfer;
use clump_os::{process, tcp};
use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// One end of a stream.
pub trait ByteStream: Send + Debug {
    /// Writes the beginning of these parts, as much as there is room for. Blocked while the
    /// connection is being made.
    fn write(&mut self, parts: &[IoSlice<'_>]) -> StreamTransfer;

    /// Reads what is there into these parts, one behind the other.
    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> StreamTransfer;
}

/// A place where streams arrive.
pub trait StreamListener: Send + Debug {
    /// Returns its port.
    fn port(&self) -> u16;

    /// Takes a stream that has arrived, if there is one.
    fn accept(&mut self) -> Option<Box<dyn ByteStream>>;
}

/// Makes streams between the hosts of stacks.
pub trait StreamNetwork: Send + Debug {
    /// Creates a listener at a free port of this host; `None` where that is not possible.
    fn listen(&mut self) -> Option<Box<dyn StreamListener>>;

    /// Begins a stream to a listener of another host.
    fn connect(&mut self, to: SocketAddr) -> Option<Box<dyn ByteStream>>;

    /// Returns a number that nobody can guess; `None` where there is none.
    fn random(&mut self) -> Option<u64>;

    /// Returns a descriptor that becomes readable when bytes or streams arrive, or datagrams at the
    /// driver that it was made with; `None` inside one process.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;
}

/// Streams by TCP.
#[derive(Debug)]
pub struct TcpStreams {
    local: IpAddr,
    poller: Arc<Poller>,
}

impl TcpStreams {
    /// Makes streams from and to `local`; `datagrams` becomes readable when datagrams arrive.
    /// Returns `None` where the kernel has no more descriptors.
    pub fn new(local: IpAddr, datagrams: BorrowedFd<'_>) -> Option<Self> {
        let poller = Poller::new().ok()?;
        poller.add(datagrams, 0, Interest::Read).ok()?;
        Some(Self { local, poller: Arc::new(poller) })
    }
}

impl StreamNetwork for TcpStreams {
    fn listen(&mut self) -> Option<Box<dyn StreamListener>> {
        let (socket, port) = tcp::listen(self.local).ok()?;
        self.poller.add(&socket, 0, Interest::Read).ok()?;
        Some(Box::new(TcpListener { socket, port, poller: self.poller.clone() }))
    }

    fn connect(&mut self, to: SocketAddr) -> Option<Box<dyn ByteStream>> {
        let socket = tcp::connect(self.local, to).ok()?;
        Some(Box::new(TcpStream { socket }))
    }

    fn random(&mut self) -> Option<u64> {
        process::random().ok()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poller.as_fd())
    }
}

#[derive(Debug)]
struct TcpListener {
    socket: OwnedFd,
    port: u16,
    poller: Arc<Poller>,
}

impl StreamListener for TcpListener {
    fn port(&self) -> u16 {
        self.port
    }

    fn accept(&mut self) -> Option<Box<dyn ByteStream>> {
        let socket = tcp::accept(&self.socket)?;
        // A descriptor that is closed leaves the set by itself.
        self.poller.add(&socket, 0, Interest::Read).ok()?;
        Some(Box::new(TcpStream { socket }))
    }
}

#[derive(Debug)]
struct TcpStream {
    socket: OwnedFd,
}

impl ByteStream for TcpStream {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> StreamTransfer {
        tcp::send(&self.socket, parts)
    }

    fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> StreamTransfer {
        tcp::receive(&self.socket, parts)
    }
}
