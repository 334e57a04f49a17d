//! What frames leave and arrive by.

use crate::error::DriverError;
use clump_os::packet::{self, Ring};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Puts frames on a wire and takes them off, without blocking.
pub trait Link: Send + std::fmt::Debug {
    /// What a driver over it is called in reports.
    const NAME: &'static str;

    /// Longest frame that is received, its Ethernet header included.
    fn most_bytes(&self) -> usize;

    /// Whether it sends by this interface.
    fn reaches(&self, _interface: u32) -> bool {
        true
    }

    /// Sends a frame by an interface that it reaches. `AGAIN` or `NOBUFS`: no room now.
    fn send(&mut self, interface: u32, frame: &[u8]) -> Result<(), Errno>;

    /// Bytes of the frame that waits, if one does; 0 for one that is not as it should be.
    fn waiting(&mut self) -> Option<usize>;

    /// Copies what waits, from byte `from` of the frame on.
    fn copy(&self, from: usize, into: &mut [u8]);

    /// Forgets what waits.
    fn advance(&mut self);

    /// Becomes readable when a frame waits.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Frames lost since this was asked last, because nobody took those before.
    fn dropped(&mut self) -> u64;

    /// Readiness may have been for something else than frames: forgets that.
    fn calm(&mut self) {}
}

/// A packet socket with a ring.
#[derive(Debug)]
pub struct PacketLink {
    socket: OwnedFd,
    ring: Ring,
    /// The interface that the socket is bound to; 0: to none.
    bound: u32,
}

impl PacketLink {
    /// Takes a socket from [`packet_socket`](super::packet_socket).
    pub(super) fn new(socket: OwnedFd) -> Result<Self, DriverError> {
        if !packet::is_packet_socket(&socket) {
            return Err(DriverError::Socket("a descriptor is no packet socket"));
        }
        let ring = Ring::over(socket.as_fd())?;
        let bound = packet::bound(&socket).unwrap_or(0);
        Ok(Self { socket, ring, bound })
    }
}

impl Link for PacketLink {
    const NAME: &'static str = "packet";

    fn most_bytes(&self) -> usize {
        packet::MOST_BYTES
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
