//! The sockets of the driver over UDP, and the state of its calls.

use super::connections::Connections;
use super::density::Density;
use super::options::{Timestamps, UdpCounts, UdpOptions};
use super::sizes::{COPY_LIMIT, MESSAGES};
use super::zero_copy_path::ZeroCopyPath;
use crate::driver::Capabilities;
use crate::error::DriverError;
use crate::watch::watch;
use clump_os::OsError;
use clump_os::udp::{self, Inbox, Outbox};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// One bound socket and its traffic density.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    pub(super) local: SocketAddr,
    pub(super) density: Density,
    /// True if the kernel stamps received datagrams; left on once it is: the first to enable it
    /// makes the kernel patch itself.
    pub(super) stamped: bool,
}

/// The driver over UDP sockets.
///
/// With several sockets all of them receive; a datagram leaves by one of its address family, always
/// the same for the same destination.
#[derive(Debug)]
pub struct Udp {
    pub(super) sockets: Vec<Socket>,
    pub(super) connections: Connections,
    /// Watches all sockets, where there are several.
    pub(super) watch: Option<OwnedFd>,
    pub(super) options: UdpOptions,
    pub(super) capabilities: Capabilities,
    pub(super) counts: UdpCounts,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    /// State of zero-copy sends.
    pub(super) showing: ZeroCopyPath,
    /// Buffer in which small parts are joined.
    pub(super) scratch: Box<[u8; COPY_LIMIT]>,
    /// The socket that is polled first, so that none starves behind another.
    pub(super) first: usize,
    /// True if the last full receive returned long runs.
    pub(super) large_runs: bool,
}

impl Udp {
    /// Binds a socket to `address` (port 0: any free one) and drives it.
    ///
    /// # Errors
    /// Fails if the socket cannot be bound or set up.
    pub fn bind(address: SocketAddr, options: UdpOptions) -> Result<Self, DriverError> {
        Self::new(vec![udp::bind(address)?], options)
    }

    /// Drives sockets that are bound already. It sets their options as it needs them.
    ///
    /// # Errors
    /// Fails if no socket is given, if one is not a bound UDP socket, or if the kernel refuses.
    pub fn new(sockets: Vec<OwnedFd>, options: UdpOptions) -> Result<Self, DriverError> {
        if sockets.is_empty() {
            return Err(DriverError::Socket("no socket was given"));
        }
        let options = options.within_limits();
        let mut capabilities = Capabilities {
            name: "udp".to_owned(),
            max_datagram: 0,
            gso: options.gso,
            gro: options.gro,
            ecn: options.ecn,
            timestamps: options.timestamps == Timestamps::Always,
            answerable: sockets.len() == 1 && options.connections == 0,
            receive_buffer: usize::MAX,
            send_buffer: usize::MAX,
        };
        let mut prepared = Vec::with_capacity(sockets.len());
        for fd in sockets {
            prepared.push(Socket::new(fd, &options, &mut capabilities)?);
        }
        let sockets = prepared.iter().map(|socket| socket.fd.as_fd());
        let watch = if prepared.len() > 1 { Some(watch(sockets)?) } else { None };
        Ok(Self {
            sockets: prepared,
            connections: Connections::default(),
            watch,
            options,
            capabilities,
            counts: UdpCounts::default(),
            outbox: Outbox::new(MESSAGES, MESSAGES * 3 * udp::MAX_SEGMENTS),
            inbox: Inbox::new(MESSAGES),
            showing: ZeroCopyPath::default(),
            scratch: Box::new([0; COPY_LIMIT]),
            first: 0,
            large_runs: false,
        })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> UdpCounts {
        let dropped = self.sockets.iter().filter_map(|socket| udp::dropped(&socket.fd)).sum();
        UdpCounts { dropped, ..self.counts }
    }

    /// Returns the addresses of all sockets.
    pub fn locals(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|socket| socket.local)
    }
}

impl Socket {
    /// Sets `fd` up and narrows the capabilities that all sockets share.
    fn new(fd: OwnedFd, options: &UdpOptions, all: &mut Capabilities) -> Result<Self, DriverError> {
        let Some(local) = udp::bound(&fd) else {
            return Err(DriverError::Socket("a descriptor is no bound UDP socket; bind it first"));
        };
        let can = udp::prepare(fd.as_fd(), options.buffer_bytes)?;
        all.gso &= can.gso;
        all.gro &= can.gro;
        all.ecn &= can.ecn;
        all.receive_buffer = all.receive_buffer.min(can.receive_buffer);
        all.send_buffer = all.send_buffer.min(can.send_buffer);
        let largest = if local.is_ipv4() { udp::MAX_BYTES_V4 } else { udp::MAX_BYTES_V6 };
        all.max_datagram = all.max_datagram.max(largest);
        let mut socket = Self { fd, local, density: Density::default(), stamped: false };
        if options.timestamps == Timestamps::Always || !options.adaptive {
            socket.density = Density::always_full();
            socket.report_all(true, options)?;
        }
        Ok(socket)
    }

    /// Turns the reporting of marks and the joining of runs on or off.
    pub(super) fn report_all(&mut self, on: bool, options: &UdpOptions) -> Result<(), OsError> {
        // An option that the kernel does not know is not in the capabilities, and off for good.
        let tolerate = |result: Result<(), OsError>| if on { result } else { Ok(()) };
        if options.ecn {
            tolerate(udp::set_marks(self.fd.as_fd(), on))?;
        }
        if on && !self.stamped && options.timestamps != Timestamps::Never {
            udp::set_timestamps(self.fd.as_fd())?;
            self.stamped = true;
        }
        if options.gro {
            tolerate(udp::set_gro(self.fd.as_fd(), on))?;
        }
        Ok(())
    }
}
