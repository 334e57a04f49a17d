//! One side: a bare socket and a driver of each kind.

use crate::Failure;
use clump_driver::{
    Driver, Inbound, Outgoing, Packet, Udp, UdpOptions, Xdp, packet_socket, xdp_socket,
};
use clump_os::clock::now_ns;
use clump_os::xdp::{Attached, Mode};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

const TIME_LIMIT_NS: u64 = 10_000_000_000;

/// Driver under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// System calls alone.
    Bare,
    /// The UDP driver.
    Udp,
    /// The driver over a packet socket.
    Packet,
    /// The driver over an XDP socket.
    Xdp,
}

impl Way {
    /// All drivers, in the order of turns; the others are compared with the first.
    pub const ALL: [Self; 4] = [Self::Bare, Self::Udp, Self::Packet, Self::Xdp];

    /// Returns its name in the report.
    pub fn name(self) -> &'static str {
        ["bare UDP", "udp", "packet", "xdp"][self as usize]
    }
}

/// One side of a round trip.
pub struct Side {
    _program: Attached,
    bare: UdpSocket,
    drivers: Vec<Box<dyn Driver>>,
    inbound: Inbound,
    buffer: Vec<u8>,
    message: Vec<u8>,
}

impl Side {
    /// Opens all drivers at `address`.
    pub fn open(address: Ipv4Addr, bytes: usize, modes: &[Mode]) -> Result<Self, Failure> {
        let any: SocketAddr = (address, 0).into();
        let bare = UdpSocket::bind(any)?;
        bare.set_nonblocking(true)?;
        let mut drivers: Vec<Box<dyn Driver>> =
            vec![Box::new(Udp::bind(any, UdpOptions::default())?)];
        let bound = || -> Result<_, Failure> {
            let socket = clump_os::udp::bind(any)?;
            match clump_os::udp::bound(&socket) {
                Some(SocketAddr::V4(local)) => Ok((socket, local)),
                _ => Err("no address of IPv4".into()),
            }
        };
        let (socket, local) = bound()?;
        let packet = packet_socket(local)?;
        drivers.push(Box::new(Packet::new(socket, packet, UdpOptions::default())?));
        let (socket, local) = bound()?;
        let xdp = xdp_socket(local, modes)?;
        println!("xdp: {:?}, zero copy: {}", xdp.mode, xdp.zero_copy);
        drivers.push(Box::new(Xdp::new(socket, xdp.socket, &xdp.memory, UdpOptions::default())?));
        let (inbound, buffer, message) = (Inbound::new(16), vec![0; 65_536], vec![1; bytes.max(1)]);
        Ok(Self { _program: xdp.attached, bare, drivers, inbound, buffer, message })
    }

    /// Returns the addresses of all drivers.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Failure> {
        let drivers = self.drivers.iter().map(|driver| driver.local());
        Ok(std::iter::once(self.bare.local_addr()?).chain(drivers).collect())
    }

    /// Sends a datagram and waits for the answer; the last one of a turn is marked.
    pub fn trip(&mut self, way: Way, to: SocketAddr, last: bool) -> Result<(), Failure> {
        self.send(way, to, last)?;
        self.wait(way)?;
        Ok(())
    }

    /// Answers the next datagram. Returns true if it was the last one.
    pub fn answer(&mut self, way: Way, to: SocketAddr) -> Result<bool, Failure> {
        let last = self.wait(way)?;
        self.send(way, to, last)?;
        Ok(last)
    }

    #[inline]
    fn send(&mut self, way: Way, to: SocketAddr, last: bool) -> Result<(), Failure> {
        self.message[0] = u8::from(last);
        if way == Way::Bare {
            self.bare.send_to(&self.message, to)?;
            return Ok(());
        }
        // In parts as a stack sends: header, frames, tag.
        let (head, rest) = self.message.split_at(64.min(self.message.len()));
        let (body, tail) = rest.split_at(rest.len().saturating_sub(16));
        self.drivers[way as usize - 1].send(&[Outgoing { to, head, body, tail }])?;
        Ok(())
    }

    /// Waits for the next datagram. Returns true if it is the last one.
    #[inline]
    fn wait(&mut self, way: Way) -> Result<bool, Failure> {
        let (mut polls, mut deadline) = (0u32, None);
        loop {
            if way == Way::Bare {
                match self.bare.recv_from(&mut self.buffer) {
                    Ok(_) => return Ok(self.buffer[0] != 0),
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(e) => return Err(e.into()),
                }
            } else {
                self.inbound.clear();
                if self.drivers[way as usize - 1].receive(&mut self.inbound)? > 0 {
                    return Ok(self.inbound.bytes(0)[0] != 0);
                }
            }
            polls += 1;
            if polls.is_multiple_of(4096) {
                let limit = *deadline.get_or_insert_with(|| now_ns() + TIME_LIMIT_NS);
                if now_ns() > limit {
                    return Err(format!("no answer for ten seconds by {way:?}").into());
                }
            }
        }
    }
}
