//! More direct access to the wire, in two halves: a process with privileges opens it ([`open`]),
//! the process that drives takes it by descriptors ([`take`]).

use crate::driver::Driver;
use crate::error::DriverError;
use crate::frames::{Packet, Xdp, packet_socket, xdp_socket};
use crate::multirail::Multirail;
use crate::udp::{Udp, UdpOptions};
use clump_os::packet;
use clump_os::xdp::{self, Attached, Mode};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A mechanism that takes privileges to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    /// A packet socket (AF_PACKET).
    Packet,
    /// An AF_XDP socket, in the driver of the device where that works. One for each interface.
    Xdp,
}

/// Result of [`open`].
#[derive(Debug, Default)]
pub struct Opened {
    /// Descriptors for [`take`].
    pub descriptors: Vec<OwnedFd>,
    /// The process that opened it keeps this as long as the socket is in use; it undoes itself when
    /// dropped.
    pub kept: Option<Attached>,
}

/// Opens `mechanism` for the UDP socket at `local`. The descriptors are for [`take`], in this
/// process or another of the same network namespace.
///
/// # Errors
/// Fails if `local` is no IPv4 address, or if the kernel refuses, mostly for lack of privileges.
pub fn open(mechanism: Direct, local: SocketAddr) -> Result<Opened, DriverError> {
    let SocketAddr::V4(local) = local else {
        return Err(DriverError::Socket("frames need an address of IPv4"));
    };
    match mechanism {
        Direct::Packet => Ok(Opened { descriptors: vec![packet_socket(local)?], kept: None }),
        Direct::Xdp => {
            let opened = xdp_socket(local, &[Mode::Native, Mode::Generic])?;
            let descriptors = vec![opened.socket, opened.memory];
            Ok(Opened { descriptors, kept: Some(opened.attached) })
        }
    }
}

/// Creates a driver over a bound UDP socket and the descriptors that [`open`] returned for its
/// address; without descriptors: UDP alone.
///
/// # Errors
/// Fails if the descriptors are of the wrong kind, or if the kernel refuses.
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
        (Some(socket_of_xdp), Some(memory)) if xdp::is_xdp_socket(&socket_of_xdp) => {
            Ok(Box::new(Xdp::new(socket, socket_of_xdp, &memory, options)?))
        }
        _ => Err(DriverError::Socket("these descriptors belong to no mechanism known here")),
    }
}

/// Creates a driver over one bound UDP socket for each address of this node, and the descriptors
/// that [`open`] returned for all of these addresses, in order.
///
/// # Errors
/// Fails as [`take`] does, and if there is no socket, or too many.
pub fn take_all(
    sockets: Vec<OwnedFd>,
    direct: Vec<OwnedFd>,
    options: UdpOptions,
) -> Result<Box<dyn Driver>, DriverError> {
    let count = sockets.len();
    let each = direct.len() / count.max(1);
    let mut direct = direct.into_iter();
    let mut take = |socket| take(socket, direct.by_ref().take(each).collect(), options);
    let mut drivers = sockets.into_iter().map(&mut take).collect::<Result<Vec<_>, _>>()?;
    match drivers.pop() {
        Some(one) if count == 1 => Ok(one),
        last => {
            drivers.extend(last);
            Ok(Box::new(Multirail::new(drivers)?))
        }
    }
}
