//! More direct access to the wire, in two halves: who has the privileges opens it ([`open`]), who drives
//! takes it by descriptors ([`take`]).

use crate::driver::Driver;
use crate::error::DriverError;
use crate::frames::{Packet, Xdp, packet_socket, xdp_socket};
use crate::several::{PeerPaths, Several};
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
    /// An AF_XDP socket, in the driver of the device where that works. One for an interface.
    Xdp,
}

/// What was opened.
#[derive(Debug, Default)]
pub struct Opened {
    /// For [`take`].
    pub descriptors: Vec<OwnedFd>,
    /// To be kept by whoever opened it, as long as it is to work; it undoes itself when dropped.
    pub kept: Option<Attached>,
}

/// Opens `mechanism` for who is reached at `local` by UDP. The descriptors are for [`take`], in this
/// process or another of the same network namespace.
///
/// # Errors
/// `local` is no IPv4 address, or the kernel refuses: mostly for want of privileges.
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
        (Some(socket_of_xdp), Some(memory)) if xdp::is_xdp_socket(&socket_of_xdp) => {
            Ok(Box::new(Xdp::new(socket, socket_of_xdp, &memory, options)?))
        }
        _ => Err(DriverError::Socket("these descriptors belong to no mechanism known here")),
    }
}

/// A driver over one bound UDP socket for each address of this node, and what [`open`] opened for all of these
/// addresses, in order. Peers are needed where there are several.
///
/// # Errors
/// As for [`take`]; there is no socket, or there are too many.
pub fn take_all(
    sockets: Vec<OwnedFd>,
    direct: Vec<OwnedFd>,
    options: UdpOptions,
    peers: impl IntoIterator<Item = PeerPaths>,
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
            Ok(Box::new(Several::new(drivers, peers)?))
        }
    }
}
