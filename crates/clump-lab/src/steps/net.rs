//! The cost of a message between nodes on both sides, step by step (paper 004's cost table).
//!
//! One thread is sender and receiver with the parts that a rank uses, over loopback: the send's
//! system call contains the kernel's whole path into the receiver's queue, the receive's the path
//! out of it. Everything is in the first-level cache.

use super::pieces::{self, time};
use crate::wire::{Call, Unmet, Wire};
use anyhow::{Context, Result, ensure};
use clump_driver::{Direct, Driver, Inbound, Outgoing, Udp, UdpOptions};
use clump_loggp::Median;
use clump_net::seal::{JobKey, Opener, Sealer};
use clump_os::{clock, console, raw_udp};
use clump_proto::{Channel, Config, SackBuf};
use clump_wire::frame::{FrameHead, FrameKind, Frames, MAX_WORDS, Route, append};
use clump_wire::{HEADER_BYTES, Header, Packet, Security};
use serde::Serialize;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Measured payloads: a short message, and a medium that fills most of an Ethernet packet.
pub const PAYLOADS: [usize; 2] = [0, 1024];
/// Datagrams of a batch, as in the laboratory's other batches.
const BATCH: usize = 64;
/// Samples of a median of system calls.
const SAMPLES: usize = 501;
/// Time in which drivers must find their route.
const FIND_NS: u64 = 2_000_000_000;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// One step, in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct NetStep {
    /// Name of the step; the last of a side is the sum.
    pub name: &'static str,
    /// Times by payload ([`PAYLOADS`]) and protection: aead, crc.
    pub ns: [[f64; 2]; 2],
}

/// One kind of kernel calls, nanoseconds a datagram by payload.
#[derive(Debug, Clone, Serialize)]
pub struct Calls {
    /// Name of the calls.
    pub name: String,
    /// Time to send.
    pub send_ns: [f64; 2],
    /// Time to receive.
    pub receive_ns: [f64; 2],
}

/// The whole table.
#[derive(Debug, Clone, Serialize)]
pub struct Cost {
    /// Bytes of the packets, by payload and protection.
    pub packet_bytes: [[usize; 2]; 2],
    /// Steps of sending a packet with one message in it.
    pub send: Vec<NetStep>,
    /// Steps of receiving that packet.
    pub receive: Vec<NetStep>,
    /// The packet with AEAD through other calls.
    pub calls: Vec<Calls>,
}

/// The figures of one packet.
#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    bytes: usize,
    send: [f64; 4],
    receive: [f64; 6],
}

const SEND: [&str; 4] = [
    "frame built, payload copied into the packet",
    "protocol: unit, window, numbers, header",
    "AES-128-GCM or CRC-32C",
    "system call, to the other socket's queue",
];
const RECEIVE: [&str; 6] = [
    "system call, out of the queue",
    "parsed; AES-128-GCM or CRC-32C",
    "protocol: replay, unit, acknowledgements",
    "frame read",
    "handler found and run, counted",
    "payload copied out",
];

/// Times everything.
///
/// # Errors
/// Fails if a socket or driver cannot be opened, or if datagrams do not arrive over loopback.
pub fn measure() -> Result<Cost> {
    let handler_ns = pieces::measure()?
        .receive
        .iter()
        .find(|step| step.name.starts_with("handler"))
        .and_then(|step| step.ns)
        .unwrap_or(0.0);
    let mut figures = [[Figures::default(); 2]; 2];
    for (row, payload) in figures.iter_mut().zip(PAYLOADS) {
        for (cell, security) in row.iter_mut().zip([Security::Aead, Security::Crc]) {
            *cell = packet(payload, security, handler_ns)?;
        }
    }
    let sum = |part: fn(&Figures) -> f64| figures.map(|row| row.map(|cell| part(&cell)));
    let mut send: Vec<NetStep> = (0..SEND.len())
        .map(|at| NetStep { name: SEND[at], ns: figures.map(|row| row.map(|cell| cell.send[at])) })
        .collect();
    send.push(NetStep { name: "sum of a send", ns: sum(|f| f.send.iter().sum()) });
    let mut receive: Vec<NetStep> = (0..RECEIVE.len())
        .map(|at| NetStep {
            name: RECEIVE[at],
            ns: figures.map(|row| row.map(|cell| cell.receive[at])),
        })
        .collect();
    receive.push(NetStep { name: "sum of a receive", ns: sum(|f| f.receive.iter().sum()) });
    let packet_bytes = figures.map(|row| row.map(|cell| cell.bytes));
    let calls = calls(packet_bytes.map(|row| row[0]))?;
    Ok(Cost { packet_bytes, send, receive, calls })
}

/// Returns a frame with one word and this payload.
fn frame(payload: &[u8]) -> (FrameHead, &[u8]) {
    let kind = if payload.is_empty() { FrameKind::Short } else { FrameKind::Medium };
    let route = Route { from: 1, to: 2, tag: 3 };
    (FrameHead { kind, reply: false, handler: 1, route, order: None, fragment: None }, payload)
}

fn packet(payload: usize, security: Security, handler_ns: f64) -> Result<Figures> {
    let payload = vec![7; payload];
    let (head, payload) = frame(&payload);
    let mut body = Vec::with_capacity(4096);
    let build = time(
        || {
            body.clear();
            append(&mut body, black_box(&head), false, black_box(&[1]), black_box(payload));
            Ok(body.len())
        },
        || Ok(()),
    )?;
    let read = time(
        || {
            let mut words = [0; MAX_WORDS];
            let mut sum = 0;
            for frame in Frames::new(black_box(&body)) {
                let frame = frame?;
                sum += frame.words(&mut words).len() + frame.payload.len();
            }
            Ok(sum)
        },
        || Ok(()),
    )?;
    let mut inbox = vec![0; payload.len()];
    let copy_out = match payload.len() {
        0 => 0.0,
        _ => time(
            || {
                inbox.copy_from_slice(black_box(payload));
                Ok(black_box(&mut inbox).len())
            },
            || Ok(()),
        )?,
    };
    let (send_protocol, receive_protocol) = protocol(HEADER_BYTES + body.len())?;
    let (seal, open) = sealing(&body, security)?;
    let bytes = HEADER_BYTES + body.len() + security.trailer_bytes();
    let (send_call, receive_call) = driver_calls(bytes, 1)?;
    Ok(Figures {
        bytes,
        send: [build, send_protocol, seal, send_call],
        receive: [receive_call, open, receive_protocol, read, handler_ns, copy_out],
    })
}

/// Two channels, and a clock between them that only this code advances.
struct Path {
    here: Channel<()>,
    there: Channel<()>,
    now: u64,
    sack: SackBuf,
    packets: Vec<Header>,
}

impl Path {
    /// Time between two packets: so little that a batch builds no queue.
    const STEP: u64 = 100;

    fn new() -> Self {
        // As ranks configure it, but open for a batch from the start.
        let config = Config { initial_window_bytes: 1 << 20, ..Config::default() };
        let (here, there) = (Channel::new(&config, 0), Channel::new(&config, 0));
        Self { here, there, now: 0, sack: SackBuf::new(), packets: Vec::with_capacity(BATCH) }
    }

    fn send(&mut self, bytes: usize) -> Result<()> {
        self.now += Self::STEP;
        ensure!(self.here.room(self.now) > 0, "no room in a channel after one batch");
        let unit = self.here.launch(self.now, bytes, ());
        let mut header = Header { unit, ..Header::default() };
        self.here.stamp(self.now, &mut header, &mut self.sack);
        black_box(header.encode(0));
        self.packets.push(header);
        Ok(())
    }

    fn receive(&mut self, at: usize, bytes: usize) {
        self.now += Self::STEP;
        if let Some(header) = self.packets.get(at) {
            let replay = self.there.is_replay(header.number);
            black_box((replay, self.there.handle_packet(self.now, header, &[], bytes, false)));
        }
    }

    /// Handles the rest of a batch: packets not taken in yet, and the acknowledgement.
    fn answer(&mut self, from: usize, bytes: usize) {
        for at in from..self.packets.len() {
            self.receive(at, bytes);
        }
        self.packets.clear();
        let mut answer = Header { kind: clump_wire::PacketKind::Ack, ..Header::default() };
        self.there.stamp(self.now, &mut answer, &mut self.sack);
        self.now += Self::STEP;
        self.here.handle_packet(self.now, &answer, self.sack.words(), HEADER_BYTES, false);
        while self.here.poll_acked().is_some() {}
    }
}

/// Times the channel's part of a send and of a receive.
fn protocol(bytes: usize) -> Result<(f64, f64)> {
    let path = std::cell::RefCell::new(Path::new());
    // The window opens as acknowledgements arrive.
    for _ in 0..1000 {
        path.borrow_mut().send(bytes)?;
        path.borrow_mut().answer(0, bytes);
    }
    let send = time(
        || path.borrow_mut().send(bytes),
        || {
            path.borrow_mut().answer(0, bytes);
            Ok(())
        },
    )?;
    let fill = || -> Result<()> {
        for _ in 0..BATCH {
            path.borrow_mut().send(bytes)?;
        }
        Ok(())
    };
    fill()?;
    let at = std::cell::Cell::new(0);
    let receive = time(
        || {
            path.borrow_mut().receive(at.replace(at.get() + 1), bytes);
            Ok(())
        },
        || {
            path.borrow_mut().answer(at.replace(0), bytes);
            fill()
        },
    )?;
    Ok((send, receive))
}

/// Times protecting a packet, and parsing and opening one.
fn sealing(body: &[u8], security: Security) -> Result<(f64, f64)> {
    let key = JobKey::new(&mut [7; 32])?;
    let sealer: Sealer = key.sealer(security, 0, 1, 1)?;
    let opener: Opener = key.opener(security, 0, 1, 1)?;
    let head = Header { number: 9, ..Header::default() }.encode(0);
    let mut tag = vec![0; sealer.tag_bytes()];
    let mut work = body.to_vec();
    let seal = time(
        || {
            if sealer.in_place() {
                sealer.seal(9, black_box(&head), black_box(&mut work), &mut tag);
            } else {
                sealer.checksum(black_box(&head), black_box(&work), &mut tag);
            }
            Ok(())
        },
        || Ok(()),
    )?;
    work.copy_from_slice(body);
    sealer.seal(9, &head, &mut work, &mut tag);
    let datagram = [&head, work.as_slice(), tag.as_slice()].concat();
    // Opening changes the packet, so each gets a copy; the cost of the copy is subtracted.
    let mut copy = datagram.clone();
    let copying = time(
        || {
            copy.copy_from_slice(black_box(&datagram));
            Ok(black_box(&mut copy).len())
        },
        || Ok(()),
    )?;
    let open = time(
        || {
            copy.copy_from_slice(black_box(&datagram));
            let packet = Packet::parse(&copy)?;
            let (head, sealed) = copy.split_at_mut(packet.sealed_at);
            let opened = opener.open(packet.header.number, head, sealed);
            Ok(opened.context("a packet of our own does not open")?.len())
        },
        || Ok(()),
    )?;
    Ok((seal, (open - copying).max(0.0)))
}

/// Returns the nanoseconds a datagram of `act`, which handles `count`; `prepare` runs untimed
/// before each.
fn each(
    count: usize,
    mut prepare: impl FnMut() -> Result<()>,
    mut act: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        prepare()?;
        let empty = clock::cycles();
        let start = clock::cycles();
        act()?;
        let end = clock::cycles();
        #[expect(clippy::cast_precision_loss, reason = "short spans")]
        let ticks = (end.wrapping_sub(start)) as f64 - (start.wrapping_sub(empty)) as f64;
        samples.push(ticks);
    }
    let ticks = Median::of(samples).context("no samples")?.value;
    #[expect(clippy::cast_precision_loss, reason = "a clock rate in MHz, and a small count")]
    let per = clock::cycles_per_us() as f64 * count as f64;
    Ok((ticks * 1e3 / per).max(0.0))
}

/// Times the UDP driver: a send and a receive of `count` datagrams in one call each.
fn driver_calls(bytes: usize, count: usize) -> Result<(f64, f64)> {
    let open = || Udp::bind(SocketAddr::new(HERE, 0), UdpOptions::default());
    calls_of([open()?, open()?], bytes, count)
}

/// Times the driver over packet sockets; fails where there is none.
fn packet_calls(bytes: usize) -> Result<(f64, f64)> {
    let open = || -> Result<clump_driver::Packet> {
        let socket = clump_os::udp::bind(SocketAddr::new(HERE, 0))?;
        let local = clump_os::udp::bound(&socket).context("a socket without an address")?;
        let mut direct = clump_driver::open(Direct::Packet, local)?.descriptors;
        let packet = direct.pop().context("a driver without a packet socket")?;
        Ok(clump_driver::Packet::new(socket, packet, UdpOptions::default())?)
    };
    let mut both = [open()?, open()?];
    let (locals, mut inbound) = (both.each_ref().map(Driver::local), Inbound::new(BATCH));
    let give_up_ns = clock::now_ns() + FIND_NS;
    // Until frames are known to arrive, in both directions.
    while both.iter_mut().any(|driver| driver.counts().opened == 0) {
        ensure!(clock::now_ns() < give_up_ns, "frames do not arrive over loopback");
        for (driver, to) in both.iter_mut().zip(locals.into_iter().rev()) {
            driver.send(&[Outgoing { to, head: &[], body: &[], tail: &[] }])?;
        }
        for driver in &mut both {
            inbound.clear();
            driver.receive(&mut inbound)?;
        }
    }
    for driver in &mut both {
        let mut empty = 0;
        while empty < SAMPLES {
            inbound.clear();
            empty = if driver.receive(&mut inbound)? > 0 { 0 } else { empty + 1 };
        }
    }
    calls_of(both, bytes, 1)
}

/// Times a driver's calls between two of a kind.
fn calls_of<D: Driver>([a, b]: [D; 2], bytes: usize, count: usize) -> Result<(f64, f64)> {
    let (a, b) = (std::cell::RefCell::new(a), std::cell::RefCell::new(b));
    let to = b.borrow().local();
    let mut inbound = Inbound::new(BATCH);
    let head = vec![7; HEADER_BYTES];
    let body = vec![7; bytes - HEADER_BYTES];
    let one = || Outgoing { to, head: &head, body: &body, tail: &[] };
    let batch: Vec<_> = (0..count).map(|_| one()).collect();
    let send = || -> Result<()> {
        let taken = a.borrow_mut().send(&batch)?;
        ensure!(taken == count, "a socket took {taken} of {count} datagrams");
        Ok(())
    };
    let mut drain = || -> Result<()> {
        let mut got = 0;
        while got < count {
            inbound.clear();
            got += b.borrow_mut().receive(&mut inbound)?;
        }
        Ok(())
    };
    // Drivers exchange frames of their own too, which must be received.
    let mut heard = Inbound::new(BATCH);
    let mut listen = || -> Result<()> {
        heard.clear();
        Ok(a.borrow_mut().receive(&mut heard).map(drop)?)
    };
    // Twice, so that either side is timed alone.
    send()?;
    let out = each(
        count,
        || {
            drain()?;
            listen()
        },
        send,
    )?;
    drain()?;
    let prepare = || {
        send()?;
        listen()
    };
    let into = each(count, prepare, drain)?;
    Ok((out, into))
}

/// Times all kinds of kernel calls, for packets of these sizes.
fn calls(bytes: [usize; 2]) -> Result<Vec<Calls>> {
    let mut all = Vec::new();
    let mut add = |name: String, figures: [(f64, f64); 2]| {
        let (send_ns, receive_ns) = (figures.map(|f| f.0), figures.map(|f| f.1));
        all.push(Calls { name, send_ns, receive_ns });
    };
    for (name, count) in [("driver udp, one a call", 1), ("driver udp, 64 a call", BATCH)] {
        let [small, large] = bytes.map(|bytes| driver_calls(bytes, count));
        add(name.to_owned(), [small?, large?]);
    }
    match bytes.map(packet_calls) {
        [Ok(small), Ok(large)] => add("driver packet, one a call".to_owned(), [small, large]),
        [small, large] => {
            let why = small.err().or(large.err());
            let why = why.map_or_else(String::new, |e| e.to_string());
            console::err(&format!("no row for the driver packet: {why}"));
        }
    }
    for call in [Call::ReadWrite, Call::Each, Call::Many, Call::Segments] {
        let [small, large] = bytes.map(|bytes| raw_calls(call, bytes));
        let name = match call {
            Call::ReadWrite => "write, read: one a call",
            Call::Each | Call::Blocking => "sendto, recvfrom: one a call",
            Call::Many => "sendmmsg, recvmmsg: 64 a call",
            Call::Segments => "write cut by GSO, read joined by GRO",
        };
        add(name.to_owned(), [small?, large?]);
    }
    Ok(all)
}

/// Times bare calls, with as many datagrams a call as it takes.
fn raw_calls(call: Call, bytes: usize) -> Result<(f64, f64)> {
    let (a, b) = (Unmet::open(HERE)?, Unmet::open(HERE)?);
    let (said_a, said_b) = (a.addresses()?, b.addresses()?);
    let (mut a, mut b): (Wire, Wire) = (a.meet(&said_b)?, b.meet(&said_a)?);
    a.ready(call, bytes)?;
    b.ready(call, bytes)?;
    let count = match call {
        Call::Many => BATCH,
        Call::Segments => (raw_udp::LARGEST / bytes).min(BATCH),
        _ => 1,
    };
    let out = vec![7; count * bytes];
    let mut into = vec![0; raw_udp::LARGEST.max(BATCH * bytes)];
    let send = || -> Result<()> {
        let taken = a.send(call, &out, bytes)?;
        ensure!(taken == out.len(), "a socket took {taken} of {} bytes", out.len());
        Ok(())
    };
    let mut drain = || -> Result<()> {
        let mut got = 0;
        while got < out.len() {
            got += b.receive(call, &mut into, bytes)?.unwrap_or(0);
        }
        Ok(())
    };
    send()?;
    let sent = each(count, &mut drain, send)?;
    drain()?;
    let received = each(count, send, drain)?;
    Ok((sent, received))
}

#[cfg(test)]
mod tests;
