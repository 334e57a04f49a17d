//! The bare network between two ranks: the kernel's work alone with packets of the same size.
//!
//! Two sockets a side, of their own, on the address of the rank's node; the sides take part through
//! [`Wire::open_side`] (the one that measures) and [`Wire::answer`]. Everything here is plain
//! system calls of `clump_os::raw_udp` and `std`, shared with nothing that is measured.
//!
//! Types to know: [`Workload`] (a workload), [`Call`] (its system calls), [`Wire`] (a side).
//!
//! # Invariants
//! 1. A datagram begins with the number of its workload: remains of an earlier one are skipped.
//! 2. Every wait ends: after [`RESEND_NS`] lost datagrams are sent again, after [`GIVE_UP_NS`]
//!    without any progress the workload fails.

mod ping;
mod stream;
mod workload;

use anyhow::{Context, Result, bail, ensure};
use clump_os::{clock, raw_udp};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

pub use workload::{Call, WireWorkload};

/// Time without an answer after which a datagram is sent again.
const RESEND_NS: u64 = 20_000_000;
/// Time after which a silent other side is given up.
const GIVE_UP_NS: u64 = 2_000_000_000;
/// Number of polls before the processor is yielded, in case both sides share one.
const LOOKS: u32 = 256;
/// Bytes that every datagram carries: its workload and its turn.
pub const LEAST: usize = 8;
/// Size of sockets' buffers: several windows, and the kernel's overhead of small packets.
const BUFFERS: i32 = 8 << 20;
/// Bytes in flight in a stream. More do not stay in the cache; fewer leave the receiver waiting.
pub const WINDOW: usize = 256 << 10;

/// A side that knows its own addresses but not yet the other's.
#[derive(Debug)]
pub struct Unmet {
    free: UdpSocket,
    bound: UdpSocket,
}

impl Unmet {
    /// Opens sockets on this address.
    ///
    /// # Errors
    /// Fails if the address cannot be bound to.
    pub fn open(address: IpAddr) -> Result<Self> {
        let open =
            || UdpSocket::bind((address, 0)).with_context(|| format!("binding to {address}"));
        let (free, bound) = (open()?, open()?);
        for socket in [&free, &bound] {
            raw_udp::set_buffers(socket, BUFFERS)?;
        }
        Ok(Self { free, bound })
    }

    /// Returns the addresses for the other side.
    ///
    /// # Errors
    /// Fails if the system does not report them.
    pub fn addresses(&self) -> Result<String> {
        Ok(format!("{} {}", self.free.local_addr()?, self.bound.local_addr()?))
    }

    /// Takes the addresses of the other side.
    ///
    /// # Errors
    /// Fails if they are malformed, or if they cannot be connected to.
    pub fn meet(self, theirs: &str) -> Result<Wire> {
        let mut words = theirs.split(' ');
        let mut address = || -> Result<SocketAddr> {
            let word = words.next().context("an address is missing")?;
            word.parse().with_context(|| format!("`{word}` is no address"))
        };
        let (other, bound_to) = (address()?, address()?);
        self.bound.connect(bound_to).with_context(|| format!("connecting to {bound_to}"))?;
        let buffer = vec![0; raw_udp::BATCH * 2048];
        let largest = raw_udp::path_datagram(&self.bound)?;
        Ok(Wire {
            free: self.free,
            bound: self.bound,
            other,
            largest,
            workload: 0,
            buffer,
            give_up_ns: GIVE_UP_NS,
        })
    }
}

/// A connected side.
#[derive(Debug)]
pub struct Wire {
    /// Not connected.
    free: UdpSocket,
    /// Connected to the other side's connected one.
    bound: UdpSocket,
    /// The other side's free socket.
    other: SocketAddr,
    largest: usize,
    /// Number of workloads run; the same on both sides.
    workload: u32,
    buffer: Vec<u8>,
    /// Time for which the other side may be silent.
    give_up_ns: u64,
}

impl Wire {
    /// Returns the largest datagram that goes to the other side unfragmented.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Returns the address of this side's node.
    ///
    /// # Errors
    /// Fails if the system does not report it.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.bound.local_addr()?)
    }

    /// Runs the measuring side, after the other was invited to the same workload: waits until it
    /// takes part, calling `meanwhile` (which may have to keep other connections alive), and then
    /// runs. Returns nanoseconds.
    ///
    /// # Errors
    /// Fails if a call fails, or if the other side falls silent.
    pub fn open_side(
        &mut self,
        workload: WireWorkload,
        meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<u64> {
        self.begin(workload)?;
        self.await_ready(meanwhile)?;
        match workload {
            WireWorkload::PingPong { call, bytes, rounds } => self.ping(call, bytes, rounds),
            WireWorkload::Stream { call, bytes, total, window } => {
                self.stream_out(call, bytes, total, window)
            }
        }
    }

    /// Runs the other side.
    ///
    /// # Errors
    /// Fails if a call fails, or if the measuring side falls silent.
    pub fn answer(&mut self, workload: WireWorkload) -> Result<()> {
        self.begin(workload)?;
        let ready = self.word(0).to_le_bytes();
        raw_udp::write(&self.bound, &ready)?;
        match workload {
            WireWorkload::PingPong { call, bytes, rounds } => self.pong(call, bytes, rounds),
            WireWorkload::Stream { call, bytes, total, window } => {
                self.stream_in(call, bytes, total, window)
            }
        }
    }

    /// Prepares the sockets; both sides do this for every workload, in the same order.
    fn begin(&mut self, workload: WireWorkload) -> Result<()> {
        workload.check()?;
        self.workload += 1;
        let (WireWorkload::PingPong { call, .. } | WireWorkload::Stream { call, .. }) = workload;
        let blocks = call == Call::Blocking;
        self.free.set_nonblocking(true)?;
        self.bound.set_nonblocking(!blocks)?;
        self.bound.set_read_timeout(blocks.then_some(Duration::from_nanos(RESEND_NS)))?;
        raw_udp::set_segment(&self.bound, 0)?;
        raw_udp::set_joining(&self.bound, call == Call::Segments)?;
        Ok(())
    }

    /// Prepares the sockets for calls of this kind outside any workload.
    pub(crate) fn ready(&mut self, call: Call, bytes: usize) -> Result<()> {
        self.begin(WireWorkload::Stream { call, bytes, total: 0, window: 0 })?;
        if let (Call::Segments, Ok(segment)) = (call, u16::try_from(bytes)) {
            raw_udp::set_segment(&self.bound, segment)?;
        }
        Ok(())
    }

    fn await_ready(&mut self, mut meanwhile: impl FnMut() -> Result<()>) -> Result<()> {
        self.bound.set_nonblocking(true)?;
        let expected = self.word(0).to_le_bytes();
        let start = clock::now_ns();
        let mut looks = 0u32;
        loop {
            let mut word = [0; LEAST];
            if raw_udp::read(&self.bound, &mut word)? == Some(LEAST) && word == expected {
                break;
            }
            meanwhile()?;
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                clock::yield_now();
                if clock::now_ns() - start > self.give_up_ns {
                    bail!("the other side does not take part in measuring the bare network");
                }
            }
        }
        let blocks = self.bound.read_timeout()?.is_some();
        Ok(self.bound.set_nonblocking(!blocks)?)
    }

    /// Returns the word at the beginning of a datagram of this workload.
    fn word(&self, turn: u32) -> u64 {
        u64::from(self.workload) << 32 | u64::from(turn)
    }

    /// Hands over `datagrams` of `each` bytes, as many as one call of this kind takes. Returns the
    /// bytes taken.
    pub(crate) fn send(&self, call: Call, datagrams: &[u8], each: usize) -> Result<usize> {
        let sent = match call {
            Call::Each => match self.free.send_to(datagrams, self.other) {
                Ok(bytes) => Some(bytes),
                Err(e) if is_passing(&e) => None,
                Err(e) => return Err(e).context("sendto"),
            },
            Call::ReadWrite | Call::Blocking | Call::Segments => {
                raw_udp::write(&self.bound, datagrams)?
            }
            Call::Many => {
                let sent = raw_udp::send_many(&self.bound, datagrams, each)?;
                Some((sent * each).min(datagrams.len()))
            }
        };
        Ok(sent.unwrap_or(0))
    }

    /// Receives, and returns the bytes; several datagrams where the call takes several.
    pub(crate) fn receive(
        &self,
        call: Call,
        into: &mut [u8],
        each: usize,
    ) -> Result<Option<usize>> {
        match call {
            Call::Each => match self.free.recv_from(into) {
                Ok((bytes, _)) => Ok(Some(bytes)),
                Err(e) if is_passing(&e) => Ok(None),
                Err(e) => Err(e).context("recvfrom"),
            },
            Call::ReadWrite | Call::Blocking | Call::Segments => {
                Ok(raw_udp::read(&self.bound, into)?)
            }
            Call::Many => {
                let (datagrams, bytes) = raw_udp::receive_many(&self.bound, into, each)?;
                Ok((datagrams > 0).then_some(bytes))
            }
        }
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}

/// Returns the word at the start of a datagram.
fn first_word(datagram: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*datagram.first_chunk()?))
}

/// Supervises a wait.
#[derive(Debug)]
struct Silence {
    looks: u32,
    since: u64,
    resent: u64,
    give_up_ns: u64,
}

impl Silence {
    fn begin(give_up_ns: u64) -> Self {
        let now = clock::now_ns();
        Self { looks: 0, since: now, resent: now, give_up_ns }
    }

    /// Notes a vain poll. Returns true if it is time to send again.
    fn goes_on(&mut self, call: Call) -> Result<bool> {
        self.looks += 1;
        // A blocking call has waited already.
        if call != Call::Blocking && !self.looks.is_multiple_of(LOOKS) {
            return Ok(false);
        }
        clock::yield_now();
        let now = clock::now_ns();
        ensure!(
            now - self.since < self.give_up_ns,
            "the other side fell silent while the bare network was measured"
        );
        let again = now - self.resent >= RESEND_NS;
        if again {
            self.resent = now;
        }
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs both sides in this process, the other on a thread.
    fn play(workload: WireWorkload) -> u64 {
        let here = IpAddr::from([127, 0, 0, 1]);
        let (a, b) = (Unmet::open(here).unwrap(), Unmet::open(here).unwrap());
        let (said_a, said_b) = (a.addresses().unwrap(), b.addresses().unwrap());
        let (mut a, mut b) = (a.meet(&said_b).unwrap(), b.meet(&said_a).unwrap());
        let (invite, invited) = std::sync::mpsc::channel::<WireWorkload>();
        std::thread::scope(|threads| {
            threads.spawn(move || invited.iter().for_each(|workload| b.answer(workload).unwrap()));
            let mut ns = 0;
            for _ in 0..2 {
                invite.send(workload).unwrap();
                ns = a.open_side(workload, || Ok(())).unwrap();
            }
            drop(invite);
            ns
        })
    }

    #[test]
    fn every_call_plays_ping_pong() {
        for call in [Call::Each, Call::ReadWrite, Call::Blocking, Call::Many] {
            assert!(play(WireWorkload::PingPong { call, bytes: 100, rounds: 50 }) > 0, "{call:?}");
        }
    }

    #[test]
    fn every_call_carries_a_stream() {
        for call in Call::ALL {
            for bytes in [64, 1400, 20_000] {
                let total = 40 * bytes as u64 + 1;
                let window = 10 * bytes;
                assert!(play(WireWorkload::Stream { call, bytes, total, window }) > 0, "{call:?}");
            }
        }
    }

    #[test]
    fn a_side_that_nobody_answers_is_given_up() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let (a, b) = (Unmet::open(here).unwrap(), Unmet::open(here).unwrap());
        let mut a = a.meet(&b.addresses().unwrap()).unwrap();
        a.give_up_ns = 1;
        let workload = WireWorkload::PingPong { call: Call::Each, bytes: 64, rounds: 1 };
        let mut polls = 0;
        let error = a
            .open_side(workload, || {
                polls += 1;
                Ok(())
            })
            .unwrap_err();
        assert!(error.to_string().contains("does not take part") && polls > 0);
    }
}
