//! The interface between the driver and the sockets that carry frames.

use crate::error::DriverError;
use clump_os::packet::{self, PacketRing};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sends and receives frames, without blocking.
pub trait FrameSocket: Send + std::fmt::Debug {
    /// Name in reports of a driver over it.
    const NAME: &'static str;

    /// Returns the longest frame that is received, its Ethernet header included.
    fn max_bytes(&self) -> usize;

    /// Returns true if it sends by this interface.
    fn reaches(&self, _interface: u32) -> bool {
        true
    }

    /// Sends a frame by an interface that it reaches.
    ///
    /// # Errors
    /// Fails with `AGAIN` or `NOBUFS` if there is no room now.
    fn send(&mut self, interface: u32, frame: &[u8]) -> Result<(), Errno>;

    /// Returns the bytes of the waiting frame, if there is one; 0 for a malformed one.
    fn waiting(&mut self) -> Option<usize>;

    /// Copies from the waiting frame, from byte `from` on.
    fn copy(&self, from: usize, into: &mut [u8]);

    /// Discards the waiting frame.
    fn advance(&mut self);

    /// Returns the descriptor that becomes readable when a frame waits.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Returns the number of frames lost since the last call, because earlier ones had not been
    /// taken.
    fn dropped(&mut self) -> u64;

    /// Clears readiness that may have had another cause than frames.
    fn calm(&mut self) {}
}

/// A packet socket with a ring.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    ring: PacketRing,
    /// The interface that the socket is bound to; 0: none.
    bound: u32,
}

impl PacketSocket {
    /// Takes a socket from [`packet_socket`](super::packet_socket).
    pub(super) fn new(socket: OwnedFd) -> Result<Self, DriverError> {
        if !packet::is_packet_socket(&socket) {
            return Err(DriverError::Socket("a descriptor is no packet socket"));
        }
        let ring = PacketRing::over(socket.as_fd())?;
        let bound = packet::bound(&socket).unwrap_or(0);
        Ok(Self { socket, ring, bound })
    }
}

impl FrameSocket for PacketSocket {
    const NAME: &'static str = "packet";

    fn max_bytes(&self) -> usize {
        packet::MAX_BYTES
    }

    #[inline]
    fn send(&mut self, interface: u32, frame: &[u8]) -> Result<(), Errno> {
        if interface == self.bound {
            return packet::send_bound(self.socket.as_fd(), frame);
        }
        packet::send(self.socket.as_fd(), interface, frame)
    }

    #[inline]
    fn waiting(&mut self) -> Option<usize> {
        self.ring.waiting()
    }

    #[inline]
    fn copy(&self, from: usize, into: &mut [u8]) {
        self.ring.copy(from, into);
    }

    #[inline]
    fn advance(&mut self) {
        self.ring.advance();
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn dropped(&mut self) -> u64 {
        packet::dropped(&self.socket)
    }

    fn calm(&mut self) {
        packet::forget_errors(&self.socket);
    }
}
