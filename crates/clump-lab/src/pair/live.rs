//! A pair of real ranks: [`Issuer`] is the side that measures, [`Server`] the side that answers.
#![allow(clippy::disallowed_types, reason = "the probe lines are clump_os::sync atomics")]

use super::ring::{RING_BYTES, RingReader, ring_places};
use super::{BulkPath, Pair, PairNetwork};
use crate::baseline::PageAligned;
use crate::wire::{Wire, WireWorkload};
use anyhow::{Context, Result};
use clump_am::{AsContext, Dest, Endpoint, Handler, Name, Tag};
use clump_os::clock;
use clump_os::sync::Ordering;
use clump_shm::geometry::LANE_SLOTS;
use std::cell::Cell;
use std::rc::Rc;

const TAG: Tag = Tag(0x106_9106_9106_9106);

/// A request to be answered with [`ANSWER`].
const ECHO: Handler = Handler(1);
const ANSWER: Handler = Handler(2);
/// A message to be counted and discarded; a payload is copied out first.
const SINK: Handler = Handler(3);
const SINK_MEDIUM: Handler = Handler(4);
/// A request for the number counted, answered with [`COUNTED`].
const COUNT: Handler = Handler(5);
const COUNTED: Handler = Handler(6);
/// An invitation to the line ping-pong: first number, number of rounds.
const FLAGS: Handler = Handler(7);
const QUIT: Handler = Handler(8);
/// An invitation to a workload of the bare network: the words of a [`Workload`].
const WIRE: Handler = Handler(9);
/// Number of answered requests that the laboratory assumes to be in flight at once between nodes.
/// The actual limit there is in bytes; bursts from twice this number on show the steady interval.
const NET_WINDOW: u32 = 256;
/// Time for which a side that was invited to the bare network goes on polling before it begins, so
/// that no acknowledgement is owed while it does not poll.
const SETTLE_NS: u64 = 300_000;

/// The largest long payload that the plans use.
const PAYLOAD_BYTES: usize = 4 << 20;
/// A message of a ring, to be read and counted: a word that is not 0 demands [`READ`].
const RING: Handler = Handler(10);
/// Number of messages of rings that were read.
const READ: Handler = Handler(11);
/// Number of polls of a line before a side of the ping-pong checks that the other still lives.
const LOOKS: u32 = 1 << 14;

/// Opens this side's endpoint and maps the other: `exchange` hands over this side's name and
/// returns the other's.
fn meet(
    rank: &impl AsContext,
    exchange: impl FnOnce(Name) -> Result<Name>,
    prepare: impl FnOnce(&Endpoint) -> Result<()>,
) -> Result<(Endpoint, Dest)> {
    let endpoint = Endpoint::open(rank, TAG)?;
    prepare(&endpoint)?;
    let other = exchange(endpoint.name())?;
    let dest = endpoint.map(&other, TAG)?;
    Ok((endpoint, dest))
}

/// The side that measures.
#[derive(Debug)]
pub struct Issuer {
    endpoint: Endpoint,
    dest: Dest,
    ns_per_tick: f64,
    sent: u64,
    answered: Rc<Cell<u64>>,
    posted: u64,
    /// Number of messages that the other side had counted at the last request; number of answers so
    /// far.
    counted: Rc<Cell<(u64, u64)>>,
    asked: u64,
    flags_played: u64,
    /// Number of messages sent to rings; number of those that the other side has read.
    ringed: u64,
    read: Rc<Cell<u64>>,
    /// Payloads of rings, once there was one.
    ring: Option<PageAligned>,
    payload: PageAligned,
    net: Option<(PairNetwork, Wire)>,
}

impl Issuer {
    /// Opens the issuing side; `net` when the two are on different nodes.
    ///
    /// # Errors
    /// Fails if the endpoint cannot be opened, or if the exchange fails.
    pub fn open(
        rank: &impl AsContext,
        exchange: impl FnOnce(Name) -> Result<Name>,
        net: Option<(PairNetwork, Wire)>,
    ) -> Result<Self> {
        let answered = Rc::new(Cell::new(0));
        let counted = Rc::new(Cell::new((0, 0)));
        let read = Rc::new(Cell::new(0));
        let (endpoint, dest) = meet(rank, exchange, |endpoint| {
            let count = answered.clone();
            endpoint.set_handler(ANSWER, move |_, _, _| count.set(count.get() + 1))?;
            let reported = read.clone();
            endpoint.set_handler(READ, move |_, words, _| {
                reported.set(words.first().copied().unwrap_or(0));
            })?;
            let heard = counted.clone();
            endpoint.set_handler(COUNTED, move |_, words, _| {
                heard.set((words.first().copied().unwrap_or(0), heard.get().1 + 1));
            })?;
            Ok(())
        })?;
        #[expect(clippy::cast_precision_loss, reason = "a clock rate in MHz")]
        let ns_per_tick = 1e3 / clock::cycles_per_us() as f64;
        Ok(Self {
            endpoint,
            dest,
            ns_per_tick,
            sent: 0,
            answered,
            posted: 0,
            counted,
            asked: 0,
            flags_played: 0,
            ringed: 0,
            read,
            ring: None,
            payload: PageAligned::filled(PAYLOAD_BYTES, 7),
            net,
        })
    }

    /// Releases the other side. Both should keep their endpoints until both are here, at a barrier.
    ///
    /// # Errors
    /// Fails if the message cannot be sent.
    pub fn finish(&mut self) -> Result<()> {
        self.endpoint.request(self.dest, QUIT, &[])?;
        Ok(self.endpoint.drain()?)
    }
}

impl Pair for Issuer {
    #[inline(always)]
    fn now(&mut self) -> u64 {
        clock::cycles()
    }

    fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    fn delay(&mut self, loops: u32) {
        compute(loops);
    }

    #[inline(always)]
    fn request(&mut self) -> Result<()> {
        self.sent += 1;
        Ok(self.endpoint.request(self.dest, ECHO, &[self.sent])?)
    }

    #[inline(always)]
    fn post(&mut self) -> Result<()> {
        self.posted += 1;
        Ok(self.endpoint.request(self.dest, SINK, &[self.posted])?)
    }

    fn bulk(&mut self, way: BulkPath, bytes: usize) -> Result<()> {
        self.posted += 1;
        let payload = self.payload.get(..bytes).context("payload over the segment's size")?;
        match way {
            BulkPath::Medium => self.endpoint.request_bulk(self.dest, SINK_MEDIUM, payload, &[])?,
            BulkPath::Long => self.endpoint.request_long(self.dest, SINK, 0, payload, &[])?,
        }
        Ok(())
    }

    fn ring(&mut self, bytes: usize) -> Result<()> {
        let places = ring_places(bytes) as u64;
        let (ringed, read) = (self.ringed, &self.read);
        if ringed - read.get() >= places {
            self.endpoint.poll_until(|| ringed - read.get() < places)?;
        }
        // Room is given back by the quarter.
        let wanted = u64::from((ringed + 1).is_multiple_of((places / 4).max(1)));
        self.posted += 1;
        self.ringed += 1;
        let offset = ringed % places * bytes as u64;
        // What is not written never travels: it stays where it was read last.
        let place = usize::try_from(offset).context("an offset in the ring")?;
        let payload = self.ring.get_or_insert_with(|| PageAligned::filled(RING_BYTES, 7));
        let payload = payload.get_mut(place..place + bytes).context("payload over the ring")?;
        payload.fill((ringed & 0xff) as u8);
        Ok(self.endpoint.request_long(self.dest, RING, offset, payload, &[wanted])?)
    }

    fn largest(&self, way: BulkPath) -> usize {
        match way {
            BulkPath::Medium => self.endpoint.max_medium(),
            BulkPath::Long => PAYLOAD_BYTES,
        }
    }

    #[inline(always)]
    fn poll(&mut self) -> Result<()> {
        self.endpoint.poll()?;
        Ok(())
    }

    #[inline(always)]
    fn outstanding(&self) -> u64 {
        self.sent - self.answered.get()
    }

    fn await_handled(&mut self) -> Result<()> {
        // The lane keeps order, so the first answer counts everything; a sender that ran out of
        // lanes uses a queue that does not, and asks again.
        loop {
            self.asked += 1;
            self.endpoint.request(self.dest, COUNT, &[])?;
            let (counted, asked) = (&self.counted, self.asked);
            self.endpoint.poll_until(|| counted.get().1 == asked)?;
            if self.counted.get().0 == self.posted {
                return Ok(());
            }
        }
    }

    fn window(&self) -> u32 {
        match self.net {
            None => u32::try_from(LANE_SLOTS).unwrap_or(u32::MAX),
            Some(_) => NET_WINDOW,
        }
    }

    fn link(&self) -> Option<&PairNetwork> {
        Some(&self.net.as_ref()?.0)
    }

    fn wire_game(&mut self, workload: WireWorkload) -> Result<f64> {
        let (_, wire) = self.net.as_mut().context("the two ranks share a node: no network")?;
        self.endpoint.request(self.dest, WIRE, &workload.to_words())?;
        let ns = wire.open_side(workload, || Ok(self.endpoint.poll().map(drop)?))?;
        #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ns")]
        let ns = ns as f64;
        Ok(ns)
    }

    fn flag_rounds(&mut self, rounds: u32) -> Result<u64> {
        let first = self.flags_played + 1;
        self.flags_played += u64::from(rounds);
        self.endpoint.request(self.dest, FLAGS, &[first, u64::from(rounds)])?;
        // The first rounds wait for the other side to leave its poll; they are not timed.
        let lead = u64::from(rounds.min(8) / 2);
        play(&self.endpoint, first, lead, Player::Opens)?;
        let start = clock::cycles();
        play(&self.endpoint, first + lead, u64::from(rounds) - lead, Player::Opens)?;
        let ticks = clock::cycles().wrapping_sub(start);
        Ok(ticks * u64::from(rounds) / (u64::from(rounds) - lead))
    }

    #[inline(always)]
    fn drain(&mut self) -> Result<()> {
        let (answered, sent) = (&self.answered, self.sent);
        Ok(self.endpoint.poll_until(|| answered.get() == sent)?)
    }
}

/// Computes a chain of dependent operations in registers: no clock, and no memory either, because a
/// value that goes through the stack takes twice as long at one call as at another. Never inlined,
/// so that the calibrated delays are those used in measurements.
#[inline(never)]
fn compute(loops: u32) {
    let mut x = std::hint::black_box(0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..loops {
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    std::hint::black_box(x);
}

/// Role in a round of the line ping-pong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Player {
    Opens,
    Answers,
}

/// Runs `rounds` rounds: the opener writes a number to its line, the answerer sees it and writes it
/// to the other line. Two lines, nothing else, not even a pause between polls: the minimum that any
/// request and reply must do.
fn play(endpoint: &Endpoint, first: u64, rounds: u64, player: Player) -> Result<()> {
    let context = endpoint.context();
    let lines = context.node().job().probes();
    let (mine, theirs) = match player {
        Player::Opens => (&lines[0].word, &lines[1].word),
        Player::Answers => (&lines[1].word, &lines[0].word),
    };
    for round in first..first + rounds {
        if player == Player::Opens {
            mine.store(round, Ordering::Release);
        }
        let mut looks = 0u32;
        while theirs.load(Ordering::Acquire) != round {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                context.check_alive()?;
                clock::yield_now(); // both may share one processor
            }
        }
        if player == Player::Answers {
            mine.store(round, Ordering::Release);
        }
    }
    Ok(())
}

/// Workload that the answering side was invited to.
#[derive(Debug, Clone, Copy)]
enum Invitation {
    /// The line ping-pong: first number, rounds.
    Lines(u64, u64),
    /// The bare network.
    Wire(WireWorkload),
}

/// The side that answers.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    invited: Rc<Cell<Option<Invitation>>>,
    quit: Rc<Cell<bool>>,
    wire: Option<Wire>,
}

impl Server {
    /// Opens the answering side; `wire` when the two are on different nodes.
    ///
    /// # Errors
    /// Fails if the endpoint cannot be opened, or if the exchange fails.
    pub fn open(
        rank: &impl AsContext,
        exchange: impl FnOnce(Name) -> Result<Name>,
        wire: Option<Wire>,
    ) -> Result<Self> {
        let invited = Rc::new(Cell::new(None));
        let quit = Rc::new(Cell::new(false));
        let sunk = Rc::new(Cell::new(0u64));
        let (endpoint, _) = meet(rank, exchange, |endpoint| {
            endpoint.set_handler(ECHO, |token, words, _| token.reply(ANSWER, words))?;
            let count = sunk.clone();
            endpoint.set_handler(SINK, move |_, _, _| count.set(count.get() + 1))?;
            let count = sunk.clone();
            let mut inbox = PageAligned::filled(endpoint.max_medium(), 1);
            endpoint.set_handler(SINK_MEDIUM, move |_, _, payload| {
                payload.copy_to(&mut inbox);
                std::hint::black_box(&mut *inbox);
                count.set(count.get() + 1);
            })?;
            let (count, mut ring) = (sunk.clone(), RingReader::default());
            endpoint.set_handler(RING, move |token, words, payload| {
                let read = ring.take(&payload);
                count.set(count.get() + 1);
                if words == [0] { Ok(()) } else { token.reply(READ, &[read]) }
            })?;
            endpoint.set_handler(COUNT, move |token, _, _| token.reply(COUNTED, &[sunk.get()]))?;
            let invitation = invited.clone();
            endpoint.set_handler(FLAGS, move |_, words, _| {
                if let [first, rounds] = *words {
                    invitation.set(Some(Invitation::Lines(first, rounds)));
                }
            })?;
            let invitation = invited.clone();
            endpoint.set_handler(WIRE, move |_, words, _| {
                invitation.set(WireWorkload::from_words(words).map(Invitation::Wire));
            })?;
            let end = quit.clone();
            endpoint.set_handler(QUIT, move |_, _, _| end.set(true))?;
            endpoint.export_segment(RING_BYTES as u64)?;
            Ok(())
        })?;
        Ok(Self { endpoint, invited, quit, wire })
    }

    /// Answers until the issuer has finished.
    ///
    /// # Errors
    /// Fails if the issuer dies, or if a workload of the bare network fails.
    pub fn serve(&mut self) -> Result<()> {
        loop {
            self.endpoint.poll_until(|| self.quit.get() || self.invited.get().is_some())?;
            match self.invited.take() {
                Some(Invitation::Lines(first, rounds)) => {
                    play(&self.endpoint, first, rounds, Player::Answers)?;
                }
                Some(Invitation::Wire(workload)) => {
                    let wire =
                        self.wire.as_mut().context("invited to a network that is not there")?;
                    let start = clock::now_ns();
                    while clock::now_ns() - start < SETTLE_NS {
                        self.endpoint.poll()?;
                    }
                    wire.answer(workload)?;
                }
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure;
    use crate::wire::{Call, Unmet, WINDOW};
    use clump_am::{RankContext, Settings};
    use clump_shm::node::{NodeConfig, NodeMemory};
    use clump_wire::Security;
    use std::net::IpAddr;
    use std::sync::{Arc, mpsc};

    /// Runs two ranks of a node as two threads of this process.
    fn with_pair(act: impl FnOnce(&mut Issuer)) {
        let config = NodeConfig { spin_ns: 2_000, yield_ns: 20_000, ..NodeConfig::new(2) };
        let node = NodeMemory::create(&config).unwrap();
        let context = |rank| Arc::new(RankContext::new(&node, rank, Settings::default()).unwrap());
        let (first, second) = (context(0), context(1));
        let ((to_second, from_first), (to_first, from_second)) = (mpsc::channel(), mpsc::channel());
        let here = IpAddr::from([127, 0, 0, 1]);
        let (near, far) = (Unmet::open(here).unwrap(), Unmet::open(here).unwrap());
        let (said_near, said_far) = (near.addresses().unwrap(), far.addresses().unwrap());
        let (near, far) = (near.meet(&said_far).unwrap(), far.meet(&said_near).unwrap());
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let exchange = |name| {
                    to_first.send(name)?;
                    Ok(from_first.recv()?)
                };
                let server = Server::open(&second, exchange, Some(far));
                server.unwrap().serve().unwrap();
            });
            let exchange = |name| {
                to_second.send(name)?;
                Ok(from_second.recv()?)
            };
            let link = PairNetwork::new(Security::Crc, near.largest(), here);
            let mut issuer = Issuer::open(&first, exchange, Some((link, near))).unwrap();
            act(&mut issuer);
            issuer.finish().unwrap();
        });
    }

    #[test]
    fn every_game_plays_on_a_live_pair_and_loses_nothing() {
        with_pair(|pair| {
            for _ in 0..300 {
                pair.request().unwrap();
            }
            pair.drain().unwrap();
            assert_eq!(pair.outstanding(), 0);
            assert!(measure::post_rate(pair, 1000).unwrap() > 0.0);
            for way in [BulkPath::Medium, BulkPath::Long] {
                // More than one medium, and an odd rest.
                let bytes = pair.largest(BulkPath::Medium) + 4097;
                assert!(measure::stream(pair, way, bytes, 0.0).unwrap() > 0.0);
            }
            // Round the ring, and a size after another.
            for bytes in [1 << 20, 4096] {
                for _ in 0..2 * ring_places(bytes) + 1 {
                    pair.ring(bytes).unwrap();
                }
                pair.await_handled().unwrap();
            }
            assert_eq!(pair.counted.get().0, pair.posted);
            assert!(pair.flag_rounds(100).unwrap() > 0);
            assert!(pair.flag_rounds(1).unwrap() > 0);
            assert!(pair.bulk(BulkPath::Long, PAYLOAD_BYTES + 1).is_err());
            let bytes = pair.link().unwrap().packet_bytes;
            let workload = WireWorkload::PingPong { call: Call::Each, bytes, rounds: 10 };
            assert!(pair.wire_game(workload).unwrap() > 0.0);
            let workload = WireWorkload::Stream {
                call: Call::Segments,
                bytes,
                total: 1 << 16,
                window: WINDOW,
            };
            assert!(pair.wire_game(workload).unwrap() > 0.0);
            pair.request().unwrap();
            pair.drain().unwrap();
        });
    }
}
