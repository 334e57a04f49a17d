//! A stream of full-sized datagrams, a window at a time, runs segmented and joined by the kernel in
//! both directions.

use crate::{Failure, Kind, TURNS, report};
use clump_driver::{Driver, Inbound, Outgoing, Udp, UdpOptions};
use clump_os::clock::now_ns;
use clump_os::raw_udp;
use std::net::{SocketAddr, UdpSocket};

const DATAGRAM: usize = 1400;
const RUN: usize = 46;
const RUN_BYTES: usize = RUN * DATAGRAM;
/// Maximum number of runs in flight: 256 KB, a window that suits the caches.
const WINDOW_RUNS: usize = 4;
/// Windows in one turn.
const WINDOWS: usize = 20;
const TIME_LIMIT_NS: u64 = 10_000_000_000;
/// Size to which buffers of both kinds are raised.
const BUFFER_BYTES: usize = 4 << 20;

/// One side: a bare connected socket and a driver.
struct Side {
    bare: UdpSocket,
    driver: Udp,
    peer: SocketAddr,
    inbound: Inbound,
    buffer: Vec<u8>,
    layout: Layout,
}

/// Layout of a run's datagrams in memory; bare calls always have them back to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Header, frames and tag of each apart.
    Parts,
    /// Each contiguous, with gaps between them.
    Slots,
    /// Back to back.
    Piece,
}

/// Distance between datagrams in memory, where there are gaps.
const SLOT: usize = 1536;

impl Side {
    /// Creates two sides that reach each other.
    fn pair() -> Result<[Self; 2], Failure> {
        let any: SocketAddr = "127.0.0.1:0".parse()?;
        let bare = [UdpSocket::bind(any)?, UdpSocket::bind(any)?];
        bare[0].connect(bare[1].local_addr()?)?;
        bare[1].connect(bare[0].local_addr()?)?;
        for socket in &bare {
            socket.set_nonblocking(true)?;
            raw_udp::set_buffers(socket, i32::try_from(BUFFER_BYTES)?)?;
        }
        raw_udp::set_segment(&bare[0], u16::try_from(DATAGRAM)?)?;
        raw_udp::set_joining(&bare[1], true)?;
        let [near, far] = bare;
        let options = UdpOptions { buffer_bytes: BUFFER_BYTES, ..UdpOptions::default() };
        let drivers = (Udp::bind(any, options)?, Udp::bind(any, options)?);
        let addresses = (drivers.0.local(), drivers.1.local());
        let side = |bare, driver, peer| Self {
            bare,
            driver,
            peer,
            inbound: Inbound::new(16),
            buffer: vec![3; RUN * SLOT],
            layout: Layout::Piece,
        };
        Ok([side(near, drivers.0, addresses.1), side(far, drivers.1, addresses.0)])
    }

    /// Receives, and returns the bytes received.
    fn receive(&mut self, kind: Kind) -> Result<usize, Failure> {
        let bytes = match kind {
            Kind::Bare => raw_udp::read(&self.bare, &mut self.buffer)?.unwrap_or(0),
            Kind::Driver => {
                self.inbound.clear();
                let received = self.driver.receive(&mut self.inbound)?;
                (0..received).map(|i| self.inbound.datagram(i).bytes.len()).sum()
            }
        };
        Ok(bytes)
    }

    /// Sends one run. The caller retries the datagrams that did not fit.
    fn send_run(&mut self, kind: Kind, skip: usize) -> Result<usize, Failure> {
        match kind {
            Kind::Bare => {
                let sent = raw_udp::write(&self.bare, &self.buffer[..RUN_BYTES])?;
                Ok(sent.map_or(0, |_| RUN))
            }
            Kind::Driver => {
                let part = |i: usize| {
                    let (to, tail) = (self.peer, &self.buffer[..0]);
                    match self.layout {
                        Layout::Parts => {
                            // Tags are apart from headers as in two arrays.
                            let slot = &self.buffer[i * SLOT..(i + 1) * SLOT];
                            let (head, rest) = (&slot[..64], &slot[80..]);
                            Outgoing { to, head, body: &rest[..DATAGRAM - 80], tail: &slot[64..80] }
                        }
                        Layout::Slots => {
                            let head = &self.buffer[i * SLOT..i * SLOT + DATAGRAM];
                            Outgoing { to, head, body: tail, tail }
                        }
                        Layout::Piece => {
                            let head = &self.buffer[i * DATAGRAM..(i + 1) * DATAGRAM];
                            Outgoing { to, head, body: tail, tail }
                        }
                    }
                };
                let run: [Outgoing<'_>; RUN] = std::array::from_fn(part);
                Ok(self.driver.send(&run[skip..])?)
            }
        }
    }
}

/// Cost of one side's part of a window.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    send_ns: u64,
    receive_ns: u64,
}

/// Sends a window of runs and receives it, on one processor: the cost of a stream without waiting.
fn window(near: &mut Side, far: &mut Side, kind: Kind) -> Result<Cost, Failure> {
    let deadline = now_ns() + TIME_LIMIT_NS;
    let start = now_ns();
    for _ in 0..WINDOW_RUNS {
        let mut sent = 0;
        while sent < RUN {
            sent += near.send_run(kind, sent)?;
        }
    }
    let sent_at = now_ns();
    let mut arrived = 0;
    while arrived < WINDOW_RUNS * RUN_BYTES {
        let some = far.receive(kind)?;
        arrived += some;
        if some == 0 && now_ns() > deadline {
            return Err("the stream stands still".into());
        }
    }
    Ok(Cost { send_ns: sent_at - start, receive_ns: now_ns() - sent_at })
}

/// Measures the stream.
pub fn measure() -> Result<(), Failure> {
    println!("header, frames and tag apart:");
    measure_layout(Layout::Parts)?;
    println!("in one piece each:");
    measure_layout(Layout::Slots)?;
    println!("all back to back:");
    measure_layout(Layout::Piece)
}

fn measure_layout(layout: Layout) -> Result<(), Failure> {
    let [mut near, mut far] = Side::pair()?;
    near.layout = layout;
    let (mut sends, mut receives, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..TURNS * WINDOWS {
        let mut cost = [Cost::default(); 2];
        for kind in crate::order(turn) {
            cost[kind as usize] = window(&mut near, &mut far, kind)?;
        }
        // The first windows touch buffers for the first time.
        if turn >= WINDOWS {
            let us = |ns: u64| ns as f64 / WINDOW_RUNS as f64 / 1000.0;
            let [bare, driver] = cost;
            sends.push((us(bare.send_ns), us(driver.send_ns)));
            receives.push((us(bare.receive_ns), us(driver.receive_ns)));
            let rate = |cost: Cost| {
                (WINDOW_RUNS * RUN_BYTES) as f64 / (cost.send_ns + cost.receive_ns) as f64
            };
            both.push((rate(bare), rate(driver)));
        }
    }
    report("sending 46 of 1400 bytes", "us  ", &sends);
    report("receiving 46 of 1400 bytes", "us  ", &receives);
    report("stream, both on one core", "GB/s", &both);
    Ok(())
}
