//! Short bursts as Ethernet frames of an own type, past the kernel's IP; long ones by UDP; received
//! from both. Made for latency: a round trip takes half of that by UDP (ADR 16).
//!
//! Peers are named by the addresses of their UDP sockets. The driver finds the way to them by
//! itself ([`clump_os::link`]) and uses frames only where the other side has said that they arrive
//! ([`paths`], under a key: [`probe`]); everything else, IPv6, routers, datagrams longer than a
//! frame, goes by UDP as it always did. So this driver reaches all peers that the UDP driver
//! reaches, and both may be in one job.
//!
//! A poll for frames is a load from memory, one for UDP a system call. While frames are in use and
//! nothing arrives by UDP, a poll includes UDP only if [`UDP_PAUSE_NS`] have passed since the last
//! time, and if it finds no frame: a waiting frame waits for nothing, not even for reading the
//! clock.

mod format;
mod paths;
mod probe;
mod receive;
mod send;
mod socket;
mod xdp;

pub use socket::{FrameSocket, PacketSocket};
pub use xdp::{XdpSocket, xdp_socket};

use crate::driver::{Capabilities, Driver, Outgoing, PROBE_KEY_BYTES};
use crate::error::{DriverError, or_received};
use crate::inbound::Inbound;
use crate::udp::{Timestamps, Udp, UdpOptions};
use crate::watch::watch;
use clump_os::link::NeighborTable;
use clump_os::{packet, udp};
use paths::FramePaths;
use probe::Probes;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Time between polls of UDP while nothing arrives by it: a frame that arrives during such a poll
/// (300 to 600 ns) waits for its end.
const UDP_PAUSE_NS: u64 = 4_000;
/// Number of vain polls of UDP after which it counts as quiet.
const UDP_QUIET: u32 = 64;
/// Number of polls that find frames after which the next goes to UDP, even if frames wait.
const FRAMES_IN_TURN: u32 = 16;

/// Counts of a driver's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameCounts {
    /// Datagrams sent by frame.
    pub sent: u64,
    /// Datagrams received by frame.
    pub received: u64,
    /// Malformed frames.
    pub malformed: u64,
    /// Questions and answers that were not made with the key.
    pub forged: u64,
    /// Questions sent.
    pub asked: u64,
    /// Answers to probes sent.
    pub answered: u64,
    /// Destinations that became reachable by frames.
    pub opened: u64,
    /// Frames that were lost because the ring was full.
    pub dropped: u64,
}

/// A driver that joins UDP and frames over a link `L`.
#[derive(Debug)]
pub struct Frames<L> {
    udp: Udp,
    link: L,
    local: SocketAddrV4,
    paths: FramePaths,
    probes: Probes,
    /// Table of the ways to peers, in the network namespace in which this was made.
    ways: NeighborTable,
    watch: OwnedFd,
    capabilities: Capabilities,
    counts: FrameCounts,
    /// Buffer in which a frame is assembled.
    frame: Box<[u8; packet::MAX_BYTES]>,
    /// Number of vain polls of UDP since one found something, and the time of the last of them.
    quiet: u32,
    looked_ns: u64,
    /// Number of polls that found frames, since the last poll of UDP.
    in_turn: u32,
}

/// Frames by a packet socket (AF_PACKET).
pub type Packet = Frames<PacketSocket>;

/// Frames by an AF_XDP socket.
pub type Xdp = Frames<XdpSocket>;

/// Opens a packet socket for the UDP socket at `local`: it receives frames for that address and no
/// others. If exactly one interface has the address, it receives only frames that arrive by that
/// interface, and sending by it costs less.
///
/// # Errors
/// Fails with `PERM` without CAP_NET_RAW in this network namespace.
pub fn packet_socket(local: SocketAddrV4) -> Result<OwnedFd, DriverError> {
    Ok(packet::open(format::ETHERTYPE, interface_of(local), &format::accept(local))?)
}

/// Returns the number of packet sockets of all processes that the kernel offers each frame for
/// `local` to; `None` where that cannot be known, or there are no frames (IPv6).
pub fn listeners(local: SocketAddr) -> Option<usize> {
    let SocketAddr::V4(local) = local else { return None };
    clump_os::listeners::count(format::ETHERTYPE, interface_of(local))
}

fn interface_of(local: SocketAddrV4) -> Option<u32> {
    match *clump_os::link::interfaces_of(*local.ip()) {
        [one] => Some(one),
        _ => None,
    }
}

impl Packet {
    /// Drives a bound UDP socket and the packet socket that was opened for its address.
    ///
    /// # Errors
    /// Fails if a socket is of the wrong kind, if the UDP socket is not bound to one IPv4 address,
    /// or if the kernel refuses.
    pub fn new(socket: OwnedFd, packet: OwnedFd, options: UdpOptions) -> Result<Self, DriverError> {
        Frames::over(socket, PacketSocket::new(packet)?, options)
    }
}

impl Xdp {
    /// Drives a bound UDP socket, and the socket and memory that were opened for its address.
    ///
    /// # Errors
    /// Fails if a socket is of the wrong kind, if the UDP socket is not bound to one IPv4 address,
    /// or if the kernel refuses.
    pub fn new(
        socket: OwnedFd,
        xdp: OwnedFd,
        memory: &OwnedFd,
        options: UdpOptions,
    ) -> Result<Self, DriverError> {
        let local = local_of(&socket)?;
        Frames::over(socket, XdpSocket::new(xdp, memory, local)?, options)
    }
}

/// Returns the one address that a UDP socket is bound to.
fn local_of(socket: &OwnedFd) -> Result<SocketAddrV4, DriverError> {
    match udp::bound(socket) {
        Some(SocketAddr::V4(local)) if !local.ip().is_unspecified() => Ok(local),
        _ => Err(DriverError::Socket("frames need a UDP socket bound to one IPv4 address")),
    }
}

impl<L: FrameSocket> Frames<L> {
    fn over(socket: OwnedFd, link: L, options: UdpOptions) -> Result<Self, DriverError> {
        let local = local_of(&socket)?;
        // Frames carry no time of arrival, so not all datagrams can have one.
        let timestamps = match options.timestamps {
            Timestamps::Always => Timestamps::Crowds,
            other => other,
        };
        let udp = Udp::new(vec![socket], UdpOptions { timestamps, ..options })?;
        let mut capabilities = udp.capabilities().clone();
        // The receive buffer is that of UDP: of frames, a peer that gets no answer sends 64 at
        // most.
        capabilities.name = L::NAME.to_owned();
        let both = [link.readiness(), udp.readiness().unwrap_or(link.readiness())];
        let watch = watch(both)?;
        Ok(Self {
            udp,
            link,
            local,
            paths: FramePaths::default(),
            probes: Probes::new()?,
            ways: NeighborTable::open()?,
            watch,
            capabilities,
            counts: FrameCounts::default(),
            frame: Box::new([0; packet::MAX_BYTES]),
            quiet: 0,
            looked_ns: 0,
            in_turn: 0,
        })
    }

    /// Returns the counts of frames so far; [`Udp::counts`] has the others.
    pub fn counts(&mut self) -> FrameCounts {
        self.counts.dropped += self.link.dropped();
        self.counts
    }

    /// Returns the inner UDP driver.
    pub fn udp(&self) -> &Udp {
        &self.udp
    }
}

impl<L: FrameSocket> Driver for Frames<L> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        self.local.into()
    }

    #[inline]
    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.send_either(batch, false)
    }

    fn send_zero_copy(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.send_either(batch, true)
    }

    #[inline]
    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        if self.is_udp_quiet() && self.in_turn < FRAMES_IN_TURN {
            let received = self.receive_frames(into);
            if received > 0 {
                self.in_turn += 1;
                return Ok(received);
            }
            if !self.udp_is_due() {
                return Ok(0);
            }
        }
        self.in_turn = 0;
        let by_udp = self.receive_udp(into);
        or_received(by_udp, Ok(self.receive_frames(into)))
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        self.udp.path_hint(to)
    }

    fn set_probe_key(&mut self, key: &[u8; PROBE_KEY_BYTES]) {
        self.probes.take_key(key);
    }

    fn unreachable(&self) -> u64 {
        self.udp.unreachable()
    }

    fn overflowed(&self) -> u64 {
        self.udp.overflowed()
    }
}
