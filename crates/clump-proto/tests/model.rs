//! Comparison with a naive model, and random plans of faults: a phase of faults, then one in which
//! the network is whole and everything must complete, each unit exactly once.

use crate::pair;

use clump_proto::{Channel, Config, Congestion, Nanos, SackBuf, UnitStatus};
use clump_wire::{Header, PacketKind};
use pair::{MS, Pair, SEC, Sampler, US};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Sets the links to a random network for one phase.
fn worsen(pair: &mut Pair) {
    let chance = &mut pair.chance;
    for link in &mut pair.links {
        link.delay = (1 + chance.below(200)) * US;
        link.jitter = if chance.hits(500) { chance.below(300) * US } else { 0 };
        link.loss = [0, 5, 50, 300, 700][chance.below(5) as usize];
        link.duplication = [0, 0, 50, 500][chance.below(4) as usize];
        link.rate = [0, 1_000_000, 100_000, 10_000][chance.below(4) as usize];
        link.queue = [u64::MAX, 200_000, 30_000][chance.below(3) as usize];
        link.mark_from = [u64::MAX, 20_000][chance.below(2) as usize];
        link.cut = chance.hits(100);
        link.mtu = [usize::MAX, 9000, 1500][chance.below(3) as usize];
    }
}

fn heal(pair: &mut Pair) {
    for (end, link) in pair.links.iter_mut().enumerate() {
        *link = pair::Link::default();
        pair.ends[end].channel.set_receive_window(1 << 20);
    }
    for end in 0..2 {
        pair.service(end);
    }
}

/// One plan: phases of faults, work and absence at random, then repair. Assertions everywhere bound
/// the memory: at most 1024 units in flight.
fn plan(seed: u64) {
    let mut pick = Sampler::new(seed ^ 0x5eed);
    let config = Config {
        congestion: if pick.hits(200) {
            Congestion::Static(1000 + pick.below(500_000) as usize)
        } else {
            Congestion::Adaptive
        },
        receive_window_bytes: [1 << 20, 60_000, 3000][pick.below(3) as usize],
        keepalive: if pick.hits(200) { Some(50 * MS) } else { None },
        ..Config::default()
    };
    let mut pair = Pair::at(&config, seed, pick.below(1 << 39));
    for _ in 0..1 + pick.below(6) {
        worsen(&mut pair);
        for end in 0..2 {
            if pick.hits(200) {
                pair.leave(end, [300 * US, 20 * MS, 2 * SEC][pick.below(3) as usize]);
            }
            if pick.hits(200) {
                let bytes = [0, 5000, 1 << 20][pick.below(3) as usize];
                pair.ends[end].channel.set_receive_window(bytes);
            }
            pair.offer(end, pick.below(600));
        }
        pair.pass([MS, 30 * MS, SEC][pick.below(3) as usize] + pick.below(MS));
    }
    heal(&mut pair);
    let units: u64 = pair.ends.iter().map(|end| end.waiting + 1024).sum();
    // One timeout at its longest, one absence, and then a slow round trip for a few units each.
    pair.finish(5 * SEC + units * MS);
}

#[test]
fn whatever_went_wrong_all_arrives_once_when_the_network_is_whole_again() {
    for seed in 0..clump_test_tier::pick(150, 600) {
        let ran = std::panic::catch_unwind(|| plan(seed));
        assert!(ran.is_ok(), "seed {seed}: run `plan({seed})` alone");
    }
}

/// Naive model of a receiver and a sender: sets.
#[derive(Default)]
struct Model {
    received: BTreeSet<u64>,
    seen: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    sent: u64,
}

#[derive(Debug, Clone)]
enum Step {
    Send,
    /// Sends a unit whose packet the driver does not take.
    Refuse,
    Deliver(usize),
    Drop(usize),
    Copy(usize),
    Ack,
    Pass(Nanos),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Send),
        1 => Just(Step::Refuse),
        4 => (0_usize..30).prop_map(Step::Deliver),
        1 => (0_usize..30).prop_map(Step::Drop),
        1 => (0_usize..30).prop_map(Step::Copy),
        2 => Just(Step::Ack),
        1 => (0_u64..3_000_000).prop_map(Step::Pass),
    ]
}

fn stamped(
    channel: &mut Channel<u64>,
    now: Nanos,
    kind: PacketKind,
    unit: u64,
) -> (Header, Vec<u64>) {
    let mut header = Header { kind, unit, ..Header::default() };
    let mut sack = SackBuf::new();
    channel.stamp(now, &mut header, &mut sack);
    (header, sack.words().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: clump_test_tier::pick(75, 300), failure_persistence: None, ..ProptestConfig::default() })]

    /// The wire is a bag out of which packets are taken in any order. The channel's statement about
    /// each unit must agree with sets of all units and all numbers.
    #[test]
    fn as_sets_would(steps in proptest::collection::vec(any_step(), 1..600)) {
        let config = Config { ack_delay: 1 << 60, ..Config::default() };
        let mut now = 1_000_000;
        let (mut here, mut there) = (Channel::new(&config, now), Channel::new(&config, now));
        let mut model = Model::default();
        let mut wire: Vec<(Header, Vec<u64>)> = Vec::new();
        let mut acks: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for step in steps {
            now += 100;
            match step {
                Step::Send if here.room(now) >= 100 => {
                    let unit = here.launch(now, 100, model.sent);
                    model.sent += 1;
                    wire.push(stamped(&mut here, now, PacketKind::Data, unit));
                }
                Step::Refuse if here.room(now) >= 100 => {
                    let unit = here.launch(now, 100, model.sent);
                    model.sent += 1;
                    stamped(&mut here, now, PacketKind::Data, unit);
                    here.handle_refused(now, false, std::iter::once(unit));
                }
                Step::Drop(at) if at < wire.len() => {
                    wire.swap_remove(at);
                }
                Step::Copy(at) if at < wire.len() => wire.push(wire[at].clone()),
                Step::Deliver(at) if at < wire.len() => {
                    let (header, sack) = wire.swap_remove(at);
                    if header.kind == PacketKind::Data {
                        let fresh = model.seen.insert(header.number);
                        let new = fresh && model.received.insert(header.unit);
                        let unit = there.handle_packet(now, &header, &sack, 100, false).unit;
                        prop_assert_eq!(unit == UnitStatus::New, new);
                        prop_assert_eq!(unit == UnitStatus::None, !fresh);
                    } else {
                        here.handle_packet(now, &header, &sack, 64, false);
                        // Of the units that this packet acknowledges, all those that follow the
                        // first without a gap are free.
                        model.acked.extend(&acks[&header.number]);
                    }
                }
                Step::Ack => {
                    let (header, sack) = stamped(&mut there, now, PacketKind::Ack, 0);
                    let first = (0..).find(|unit| !model.received.contains(unit)).unwrap_or(0);
                    prop_assert_eq!(header.ack, first);
                    for unit in first + 1..first + 1024 {
                        let (word, bit) = ((unit - first - 1) / 64, (unit - first - 1) % 64);
                        let told = sack.get(word as usize).is_some_and(|word| word >> bit & 1 != 0);
                        prop_assert_eq!(told, model.received.contains(&unit));
                    }
                    acks.insert(header.number, model.received.clone());
                    wire.push((header, sack));
                }
                Step::Pass(time) => {
                    now += time;
                    here.handle_timeout(now);
                }
                _ => {}
            }
            while let Some((unit, body)) = here.poll_acked() {
                prop_assert_eq!(unit, body, "each with its own body");
                prop_assert!(model.acked.contains(&unit), "{} is not known to have arrived", unit);
            }
            while let Some(unit) = here.poll_lost(now) {
                prop_assert!(!model.acked.contains(&unit), "{} is known to have arrived", unit);
                here.resend_unit(now, unit);
                wire.push(stamped(&mut here, now, PacketKind::Data, unit));
            }
        }
    }
}
