//! Frames by an AF_XDP socket: taken from an interface before the kernel's protocols see them.

use super::format;
use super::socket::FrameSocket;
use crate::error::DriverError;
use clump_os::link;
use clump_os::xdp::{self, Mode, Opened, Rings};
use rustix::io::Errno;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An XDP socket on one interface.
#[derive(Debug)]
pub struct XdpSocket {
    socket: OwnedFd,
    rings: Rings,
    interface: u32,
}

/// Opens an XDP socket for the UDP socket at `local`, on the interface that has that address, in
/// the first of `modes` that works. `attached` must be kept as long as frames are to arrive.
///
/// # Errors
/// Fails if no interface has the address, with `PERM` without privileges, and with `BUSY` when its
/// queue is taken.
pub fn xdp_socket(local: SocketAddrV4, modes: &[Mode]) -> Result<Opened, DriverError> {
    let interface = interface(local)?;
    Ok(xdp::open(interface, &format::accept(local), modes)?)
}

fn interface(local: SocketAddrV4) -> Result<u32, DriverError> {
    let found = link::interfaces_of(*local.ip()).first().copied();
    found.ok_or(DriverError::Socket("no interface has the address of this UDP socket"))
}

impl XdpSocket {
    /// Takes the descriptors that [`xdp_socket`] opened.
    pub(super) fn new(
        socket: OwnedFd,
        memory: &OwnedFd,
        local: SocketAddrV4,
    ) -> Result<Self, DriverError> {
        if !xdp::is_xdp_socket(&socket) {
            return Err(DriverError::Socket("a descriptor is no XDP socket"));
        }
        let rings = Rings::over(socket.as_fd(), memory.as_fd())?;
        Ok(Self { socket, rings, interface: interface(local)? })
    }
}

impl FrameSocket for XdpSocket {
    const NAME: &'static str = "xdp";

    fn max_bytes(&self) -> usize {
        xdp::MAX_BYTES
    }

    fn reaches(&self, interface: u32) -> bool {
        interface == self.interface
    }

    #[inline]
    fn send(&mut self, _interface: u32, frame: &[u8]) -> Result<(), Errno> {
        self.rings.send(self.socket.as_fd(), frame)
    }

    #[inline]
    fn waiting(&mut self) -> Option<usize> {
        self.rings.waiting()
    }

    #[inline]
    fn copy(&self, from: usize, into: &mut [u8]) {
        self.rings.copy(from, into);
    }

    #[inline]
    fn advance(&mut self) {
        self.rings.advance();
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn dropped(&mut self) -> u64 {
        self.rings.dropped(self.socket.as_fd())
    }
}
