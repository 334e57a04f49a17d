//! UDP sockets: one or several that are bound already, driven without blocking.
//!
//! A single datagram takes the shortest calls (`sendto`, `recvfrom`: no control data, parts copied
//! together); a batch goes out by `sendmmsg` with runs of equal datagrams segmented by the kernel
//! (GSO), and dense traffic comes in by `recvmmsg` with runs joined (GRO) and marks.
//! `clump_os::udp` has the figures behind that; [`density`] chooses between the two receive modes.

mod connections;
mod density;
mod options;
mod receive;
mod send;
mod sizes;
mod sockets;
mod zero_copy;
mod zero_copy_path;

pub use options::{Timestamps, UdpCounts, UdpOptions};
pub use sockets::Udp;

use crate::driver::{Capabilities, Driver, Outgoing};
use crate::error::DriverError;
use crate::inbound::Inbound;
use clump_os::udp;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

impl Driver for Udp {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        self.sockets[0].local
    }

    #[inline]
    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.send_copied(batch)
    }

    fn send_zero_copy(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.send_zero_copy(batch)
    }

    #[inline]
    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        if self.sockets.len() == 1 { self.receive_from(0, into) } else { self.receive_all(into) }
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_ref().unwrap_or(&self.sockets[0].fd).as_fd())
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        udp::path_hint(self.sockets[self.socket_towards(&to)].local, to)
    }

    fn unreachable(&self) -> u64 {
        self.counts.unreachable
    }

    fn overflowed(&self) -> u64 {
        self.counts().dropped
    }
}
