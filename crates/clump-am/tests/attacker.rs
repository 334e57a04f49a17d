//! An attacker beside a running job: none of its packets is delivered, kept, or answered.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_am::{Endpoint, Handler, Name, RankContext, Tag};
use clump_os::sync::Ordering::{Acquire, Release};
use clump_os::sync::{AtomicBool, AtomicU64};
use clump_test_bed::{Job, Shape};
use clump_trace::{Counter, Counters};
use clump_wire::Security;
use clump_wire::hostile::{Attacker, Claim, Trick};
use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

const TAG: Tag = Tag(0x5eed);
const ROUNDS: u64 = 3_000;
/// Packets of the job that the attacker keeps to send them again.
const KEPT: usize = 64;

/// Returns the number of packets that the attacker sends at least.
fn packets() -> u64 {
    clump_test_tier::pick(50_000, 500_000)
}

/// An attacker on the path of all packets to a rank: passes them on, sends them again later, and
/// adds its own.
struct Attack {
    attacker: Attacker,
    socket: UdpSocket,
    to: SocketAddr,
    kept: Vec<Vec<u8>>,
    passed: usize,
    sent: Arc<AtomicU64>,
}

impl Attack {
    /// Passes on the packets that have arrived.
    fn pass(&mut self) {
        let mut bytes = vec![0; 65_536];
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let packet = bytes[..length].to_vec();
            let _ = self.socket.send_to(&packet, self.to);
            match self.kept.get_mut(self.passed % KEPT) {
                Some(place) => *place = packet,
                None => self.kept.push(packet),
            }
            self.passed += 1;
        }
    }

    fn send(&mut self, packet: &[u8]) {
        let taken = self.socket.send_to(packet, self.to).is_ok();
        self.sent.fetch_add(u64::from(taken), Release);
    }

    /// Sends the requested number of packets, and continues until the test ends.
    fn run(mut self, wanted: impl Fn() -> bool) {
        let (mut at, packets) = (0, packets());
        while self.sent.load(Acquire) < packets || wanted() {
            for trick in Trick::ALL {
                let packet = self.attacker.packet(trick);
                self.send(&packet);
            }
            if let Some(copy) = self.kept.get(at % KEPT).cloned() {
                self.send(&copy);
            }
            self.pass();
            at += 1;
            if at % 16 == 0 {
                clump_os::clock::yield_now();
            }
        }
    }
}

fn thrown_away(context: &RankContext) -> u64 {
    let counters = Counters::over(context.block().counters());
    let kinds =
        [Counter::NetForged, Counter::NetForeign, Counter::NetMalformed, Counter::NetReplayed];
    kinds.into_iter().map(|counter| counters.get(counter)).sum()
}

#[test]
fn a_million_packets_of_an_enemy_are_counted_and_nothing_else() {
    for security in [Security::Aead, Security::Crc] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut shape = Shape::of_messages(2, 2, security);
        shape.detour = Some((1, socket.local_addr().unwrap()));
        let Job { seats, nodes, .. } = Job::new(&shape, 1);
        let contexts: Vec<Arc<RankContext>> = seats.into_iter().map(|seat| seat.context).collect();
        let [a, b] = [0, 1].map(|rank| nodes[rank].peer(rank as u32).unwrap().place().unwrap());
        // The attacker even uses the job's tag, which distinguishes its packets from those of
        // others.
        let job = clump_net::seal::JobKey::new(&mut [7; 32]).unwrap().job_tag();
        let attacker = Attacker::new(Claim { source: (0, a.epoch), target: (1, b.epoch), job });
        let (done, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (to, kept, stop) = (b.address, Vec::new(), done.clone());
        let attack = Attack { attacker, socket, to, kept, passed: 0, sent: sent.clone() };
        let attack = std::thread::spawn(move || attack.run(|| !stop.load(Acquire)));
        let attacked = sent.clone();
        let ranks: Vec<_> = contexts
            .iter()
            .cloned()
            .map(|context| {
                let sent = attacked.clone();
                std::thread::spawn(move || talk(&context, &sent))
            })
            .collect();
        for rank in ranks {
            rank.join().unwrap();
        }
        done.store(true, Release);
        attack.join().unwrap();
        let counters = Counters::over(contexts[1].block().counters());
        let replayed = counters.get(Counter::NetReplayed);
        let (thrown, sent) = (thrown_away(&contexts[1]), sent.load(Acquire));
        println!("{security}: of {sent} packets {thrown} arrived, {replayed} of them known");
        // Others were dropped where the socket's buffer was full.
        assert!(thrown > sent / 10, "{security}: the attack hardly reached the rank: {thrown}");
        assert!(replayed > sent / 100, "{security}: copies hardly reached the rank: {replayed}");
        assert!(thrown <= sent, "{security}: more thrown away than were sent");
        assert_eq!(thrown_away(&contexts[0]), 0, "{security}: rank 0 was not attacked");
    }
}

/// Runs a rank: both send requests to each other, and see exactly the replies to these.
fn talk(context: &Arc<RankContext>, sent: &AtomicU64) {
    let ep = Endpoint::open(context, TAG).unwrap();
    let (asked, answered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (a, b) = (asked.clone(), answered.clone());
    ep.set_handler(Handler(1), move |token, words, _| {
        assert_eq!(words, [a.get(), !a.get()]);
        a.set(a.get() + 1);
        token.reply(Handler(2), words)
    })
    .unwrap();
    ep.set_handler(Handler(2), move |_, words, _| {
        assert_eq!(words, [b.get(), !b.get()]);
        b.set(b.get() + 1);
    })
    .unwrap();
    let peer = Name::new(1 - context.rank(), 0, 1);
    let dest = ready(&ep, peer);
    let before = context.network().unwrap().snapshot().memory_bytes;
    for i in 0..ROUNDS {
        ep.request(dest, Handler(1), &[i, !i]).unwrap();
        ep.poll_until(|| answered.get() == i + 1).unwrap();
    }
    ep.poll_until(|| asked.get() == ROUNDS).unwrap();
    // While the attack continues, no memory grows.
    ep.poll_until(|| sent.load(Acquire) >= packets()).unwrap();
    ep.drain().unwrap();
    let after = context.network().unwrap().snapshot().memory_bytes;
    assert!(after <= before + (64 << 10), "from {before} to {after} bytes");
    drop(ep);
    context.close_network();
}

fn ready(ep: &Endpoint, peer: Name) -> clump_am::Dest {
    loop {
        let reason = Rc::new(Cell::new(None));
        let seen = reason.clone();
        ep.on_returned(move |m| seen.set(Some(m.reason))).unwrap();
        let dest = ep.map(&peer, TAG).unwrap();
        ep.request(dest, Handler(250), &[]).unwrap();
        ep.poll_until(|| reason.get().is_some()).unwrap();
        if reason.get() == Some(clump_am::Reason::BadHandler) {
            return dest;
        }
        ep.unmap(dest).unwrap();
    }
}
