//! A stream of full-sized datagrams with a window, runs cut and joined by the kernel on both ways.

use crate::{Failure, Kind, TURNS, pin, report};
use clump_driver::{Driver, Inbound, Outgoing, Udp, UdpOptions};
use clump_os::clock::now_ns;
use clump_os::raw_udp;
use std::net::{SocketAddr, UdpSocket};

const DATAGRAM: usize = 1400;
const RUN: usize = 46;
const RUN_BYTES: usize = RUN * DATAGRAM;
/// Bytes under way at most.
const WINDOW: usize = 8 * RUN_BYTES;
/// Runs in one turn: 16 MB.
const RUNS: usize = 250;
const PATIENCE_NS: u64 = 2_000_000_000;
/// What buffers of both kinds are raised to.
const BUFFER_BYTES: usize = 4 << 20;

/// One side: a bare connected socket and a driver.
struct Side {
    bare: UdpSocket,
    driver: Udp,
    peer: SocketAddr,
    inbound: Inbound,
    buffer: Vec<u8>,
    deadline: u64,
}

impl Side {
    /// Two sides that reach each other.
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
            buffer: vec![3; 1 << 16],
            deadline: u64::MAX,
        };
        Ok([side(near, drivers.0, addresses.1), side(far, drivers.1, addresses.0)])
    }

    /// Bytes of what is there.
    fn receive(&mut self, kind: Kind) -> Result<usize, Failure> {
        let bytes = match kind {
            Kind::Bare => raw_udp::read(&self.bare, &mut self.buffer)?.unwrap_or(0),
            Kind::Driver => {
                self.inbound.clear();
                let received = self.driver.receive(&mut self.inbound)?;
                (0..received).map(|i| self.inbound.datagram(i).bytes.len()).sum()
            }
        };
        if bytes == 0 && now_ns() > self.deadline {
            return Err("the stream stands still".into());
        }
        Ok(bytes)
    }

    /// One run; what does not fit is tried again by the caller.
    fn send_run(&mut self, kind: Kind, skip: usize) -> Result<usize, Failure> {
        match kind {
            Kind::Bare => {
                let sent = raw_udp::write(&self.bare, &self.buffer[..RUN_BYTES])?;
                Ok(sent.map_or(0, |_| RUN))
            }
            Kind::Driver => {
                let part = |i: usize| {
                    let bytes = &self.buffer[i * DATAGRAM..(i + 1) * DATAGRAM];
                    let (head, rest) = bytes.split_at(64);
                    let (body, tail) = rest.split_at(rest.len() - 16);
                    Outgoing { to: self.peer, head, body, tail }
                };
                let run: [Outgoing<'_>; RUN] = std::array::from_fn(part);
                Ok(self.driver.send(&run[skip..])?)
            }
        }
    }

    /// Tells the sender how much arrived.
    fn credit(&mut self, kind: Kind, arrived: usize) -> Result<(), Failure> {
        let bytes = vec![0; arrived / RUN_BYTES + 1];
        let to = self.peer;
        match kind {
            Kind::Bare => drop(raw_udp::write(&self.bare, &bytes)?),
            Kind::Driver => {
                self.driver.send(&[Outgoing { to, head: &bytes, body: &[], tail: &[] }])?;
            }
        }
        Ok(())
    }
}

/// Sends a turn; each byte of an answer is worth a run.
fn send(side: &mut Side, kind: Kind) -> Result<(), Failure> {
    side.deadline = now_ns() + PATIENCE_NS;
    let (mut sent, mut done, mut part) = (0, 0, 0);
    while done < RUNS {
        if sent < RUNS && (sent - done) * RUN_BYTES < WINDOW {
            part += side.send_run(kind, part)?;
            if part == RUN {
                (sent, part) = (sent + 1, 0);
            }
        }
        // Asking is a system call: only when there may be something to learn.
        if (sent - done) * RUN_BYTES >= WINDOW / 2 || sent == RUNS {
            done += side.receive(kind)?;
        }
    }
    Ok(())
}

/// Receives a turn and answers each whole run.
fn sink(side: &mut Side, kind: Kind) -> Result<(), Failure> {
    side.deadline = now_ns() + PATIENCE_NS;
    let (mut arrived, mut answered) = (0, 0);
    while answered < RUNS {
        arrived += side.receive(kind)?;
        let runs = arrived / RUN_BYTES;
        if runs > answered {
            side.credit(kind, (runs - answered - 1) * RUN_BYTES)?;
            answered = runs;
        }
    }
    Ok(())
}

fn order(turn: usize) -> [Kind; 2] {
    if turn.is_multiple_of(2) { [Kind::Bare, Kind::Driver] } else { [Kind::Driver, Kind::Bare] }
}

/// Measures the stream.
pub fn measure() -> Result<(), Failure> {
    let [mut near, mut far] = Side::pair()?;
    let receiver = std::thread::spawn(move || -> Result<(), Failure> {
        pin_elsewhere()?;
        for turn in 0..TURNS {
            for kind in order(turn) {
                sink(&mut far, kind)?;
            }
        }
        Ok(())
    });
    let mut turns = Vec::new();
    for turn in 0..TURNS {
        let mut rate = [0.0; 2];
        for kind in order(turn) {
            let start = now_ns();
            send(&mut near, kind)?;
            rate[kind as usize] = (RUNS * RUN_BYTES) as f64 / (now_ns() - start) as f64;
        }
        turns.push((rate[0], rate[1]));
    }
    receiver.join().map_err(|_| "the receiver gave up")??;
    report("stream of 1400 bytes", "GB/s", &turns);
    Ok(())
}

/// The main thread is pinned already, and threads inherit that.
fn pin_elsewhere() -> Result<bool, Failure> {
    clump_os::topology::set_affinity(&[0, 1]).ok();
    pin(1)
}
