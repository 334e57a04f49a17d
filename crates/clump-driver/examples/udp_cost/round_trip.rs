//! Round trips of one datagram between two threads on two processors.

use crate::{Failure, Kind, TURNS, order, pin, report};
use clump_driver::{Driver, Inbound, Outgoing, Udp, UdpOptions};
use clump_os::clock::now_ns;
use std::net::{SocketAddr, UdpSocket};

/// Round trips in one turn: about 20 ms.
const TRIPS: usize = 2000;
const TIME_LIMIT_NS: u64 = 10_000_000_000;

/// One side: a bare socket and a driver.
struct Side {
    bare: UdpSocket,
    driver: Udp,
    inbound: Inbound,
    buffer: Vec<u8>,
    message: Vec<u8>,
}

impl Side {
    fn new(bytes: usize) -> Result<Self, Failure> {
        let any: SocketAddr = "127.0.0.1:0".parse()?;
        let bare = UdpSocket::bind(any)?;
        bare.set_nonblocking(true)?;
        let driver = Udp::bind(any, UdpOptions::default())?;
        let (inbound, buffer) = (Inbound::new(16), vec![0; 65_536]);
        Ok(Self { bare, driver, inbound, buffer, message: vec![1; bytes] })
    }

    fn address(&self, kind: Kind) -> Result<SocketAddr, Failure> {
        match kind {
            Kind::Bare => Ok(self.bare.local_addr()?),
            Kind::Driver => Ok(self.driver.local()),
        }
    }

    #[inline]
    fn send(&mut self, kind: Kind, to: SocketAddr) -> Result<(), Failure> {
        match kind {
            Kind::Bare => {
                self.bare.send_to(&self.message, to)?;
            }
            Kind::Driver => {
                // In parts as a stack sends: header, frames, tag.
                let (head, rest) = self.message.split_at(64.min(self.message.len()));
                let (body, tail) = rest.split_at(rest.len().saturating_sub(16));
                self.driver.send(&[Outgoing { to, head, body, tail }])?;
            }
        }
        Ok(())
    }

    /// Waits for the next datagram. Returns its sender.
    #[inline]
    fn wait(&mut self, kind: Kind) -> Result<SocketAddr, Failure> {
        let mut polls = 0u32;
        let mut deadline = None;
        loop {
            match kind {
                Kind::Bare => match self.bare.recv_from(&mut self.buffer) {
                    Ok((_, from)) => return Ok(from),
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(e) => return Err(e.into()),
                },
                Kind::Driver => {
                    self.inbound.clear();
                    if self.driver.receive(&mut self.inbound)? > 0 {
                        return Ok(self.inbound.datagram(0).from);
                    }
                }
            }
            polls += 1;
            if polls.is_multiple_of(4096) {
                let limit = *deadline.get_or_insert_with(|| now_ns() + TIME_LIMIT_NS);
                if now_ns() > limit {
                    return Err("no answer for ten seconds".into());
                }
            }
        }
    }
}

/// Measures round trips of datagrams of `bytes`.
pub fn measure(bytes: usize) -> Result<(), Failure> {
    let (mut here, mut there) = (Side::new(bytes)?, Side::new(bytes)?);
    let targets = [there.address(Kind::Bare)?, there.address(Kind::Driver)?];
    let echo = std::thread::spawn(move || -> Result<(), Failure> {
        pin(1)?;
        for turn in 0..TURNS {
            for kind in order(turn) {
                for _ in 0..TRIPS {
                    let from = there.wait(kind)?;
                    there.send(kind, from)?;
                }
            }
        }
        Ok(())
    });
    if !pin(0)? {
        println!("only one processor: both sides share it, the figures mean little");
    }
    let mut turns = Vec::new();
    for turn in 0..TURNS {
        let mut us = [0.0; 2];
        for kind in order(turn) {
            let start = now_ns();
            for _ in 0..TRIPS {
                here.send(kind, targets[kind as usize])?;
                here.wait(kind)?;
            }
            us[kind as usize] = (now_ns() - start) as f64 / TRIPS as f64 / 1000.0;
        }
        turns.push((us[0], us[1]));
    }
    echo.join().map_err(|_| "the echo gave up")??;
    report(&format!("round trip of {bytes} bytes"), "us  ", &turns);
    Ok(())
}
