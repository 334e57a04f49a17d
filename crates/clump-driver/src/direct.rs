//! More direct access to the wire, in two halves: who has the privileges opens it ([`open`]), who drives
//! takes it by descriptors ([`take`]).

use crate::driver::Driver;
use crate::error::DriverError;
use crate::frames::{Packet, packet_socket};
use crate::udp::{Udp, UdpOptions};
use clump_os::packet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A mechanism that takes privileges to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    /// A packet socket (AF_PACKET).
    Packet,
}

/// Opens `mechanism` for who is reached at `local` by UDP. The descriptors are for [`take`], in this
/// process or another of the same network namespace.
///
/// # Errors
/// `local` is no IPv4 address, or the kernel refuses: mostly for want of privileges.
pub fn open(mechanism: Direct, local: SocketAddr) -> Result<Vec<OwnedFd>, DriverError> {
    let SocketAddr::V4(local) = local else {
        return Err(DriverError::Socket("frames need an address of IPv4"));
    };
    match mechanism {
        Direct::Packet => Ok(vec![packet_socket(local)?]),
    }
}

/// A driver over a bound UDP socket and what [`open`] opened for its address; nothing: UDP alone.
///
/// # Errors
/// The descriptors are not what they should be, or the kernel refuses.
pub fn take(
    socket: OwnedFd,
    direct: Vec<OwnedFd>,
    options: UdpOptions,
) -> Result<Box<dyn Driver>, DriverError> {
    let mut direct = direct.into_iter();
    match (direct.next(), direct.next()) {
        (None, _) => Ok(Box::new(Udp::new(vec![socket], options)?)),
        (Some(one), None) if packet::is_packet_socket(&one) => {
            Ok(Box::new(Packet::new(socket, one, options)?))
        }
        _ => Err(DriverError::Socket("these descriptors belong to no mechanism known here")),
    }
}
