use super::*;
use crate::clock::SetClock;
use crate::loopback::{Hub, Loopback};

/// One disturbed sender, one receiver, one clock.
struct Scene {
    sender: Fault<Loopback>,
    receiver: Loopback,
    switch: FaultSwitch,
    clock: SetClock,
}

fn scene(seed: u64, plan: FaultPlan) -> Scene {
    let hub = Hub::default();
    let clock = SetClock::default();
    let inner = hub.attach("10.0.0.1:1".parse().unwrap()).unwrap();
    let receiver = hub.attach("10.0.0.2:1".parse().unwrap()).unwrap();
    let sender = Fault::new(inner, seed, plan, Clock::Set(clock.clone()));
    let switch = sender.switch();
    Scene { sender, receiver, switch, clock }
}

impl Scene {
    fn send(&mut self, numbers: std::ops::Range<u32>) -> usize {
        let payloads: Vec<_> = numbers.map(u32::to_le_bytes).collect();
        let to = self.receiver.local();
        let batch: Vec<_> = payloads
            .iter()
            .map(|bytes| Outgoing { to, head: &bytes[..1], body: &bytes[1..], tail: &[] })
            .collect();
        self.sender.send(&batch).unwrap()
    }

    fn received(&mut self) -> Vec<u32> {
        // Lets those in flight advance, as the sender's own polls do.
        self.sender.receive(&mut Inbound::new(1)).unwrap();
        let mut inbound = Inbound::new(8);
        let mut numbers = Vec::new();
        while self.receiver.receive(&mut inbound).unwrap() > 0 {
            for i in 0..inbound.len() {
                let bytes: &[u8] = inbound.datagram(i).bytes;
                numbers.push(u32::from_le_bytes(bytes.try_into().unwrap()));
            }
            inbound.clear();
        }
        numbers
    }
}

#[test]
fn without_faults_nothing_changes() {
    let mut scene = scene(1, FaultPlan::default());
    assert_eq!(scene.send(0..100), 100);
    assert_eq!(scene.received(), (0..100).collect::<Vec<_>>());
    assert_eq!(
        scene.switch.counts(),
        FaultCounts { taken: 100, passed: 100, ..Default::default() }
    );
}

#[test]
fn a_seed_repeats_everything_and_another_does_not() {
    let plan = FaultPlan {
        loss: 0.1,
        duplication: 0.1,
        reordering: 0.1,
        corruption: 0.1,
        jitter_ns: 1000,
        ..FaultPlan::default()
    };
    let run = |seed| {
        let mut scene = scene(seed, plan.clone());
        let mut got = Vec::new();
        for step in 0..50 {
            scene.send(step * 20..step * 20 + 20);
            scene.clock.pass(100);
            got.extend(scene.received());
        }
        scene.clock.pass(10_000_000);
        got.extend(scene.received());
        (got, scene.switch.counts())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).0, run(4).0);
    let (got, counts) = run(3);
    assert_eq!(counts.taken, 1000);
    assert_eq!(counts.passed, 1000 + counts.duplicated - counts.lost);
    assert_eq!(got.len() as u64, counts.passed);
    for kind in [counts.lost, counts.duplicated, counts.reordered, counts.corrupted] {
        assert!((50..200).contains(&kind), "{counts:?}");
    }
}

#[test]
fn loss_alone_keeps_the_order() {
    let mut scene = scene(5, FaultPlan { loss: 0.5, ..FaultPlan::default() });
    scene.send(0..1000);
    let got = scene.received();
    assert!(got.is_sorted() && (400..600).contains(&got.len()), "{}", got.len());
}

#[test]
fn loss_on_arrival_leaves_what_is_sent_alone() {
    let mut scene = scene(5, FaultPlan { loss_on_arrival: 0.25, ..FaultPlan::default() });
    assert_eq!(scene.send(0..1000), 1000);
    assert_eq!(scene.received().len(), 1000);
    let to = scene.sender.local();
    let numbers: Vec<_> = (0..1000_u32).map(u32::to_le_bytes).collect();
    let batch: Vec<_> =
        numbers.iter().map(|head| Outgoing { to, head, body: b"", tail: b"" }).collect();
    assert_eq!(scene.receiver.send(&batch).unwrap(), 1000);
    let (mut inbound, mut got) = (Inbound::new(64), Vec::new());
    while scene.sender.receive(&mut inbound).unwrap() > 0 {
        got.extend((0..inbound.len()).map(|i| inbound.bytes(i).to_vec()));
        inbound.clear();
    }
    assert!(got.is_sorted_by_key(|bytes| u32::from_le_bytes(bytes[..].try_into().unwrap())));
    let lost = scene.switch.counts().lost;
    assert!((180..320).contains(&lost), "{lost}");
    assert_eq!(got.len() as u64 + lost, 1000);
}

#[test]
fn a_reordered_datagram_is_overtaken_by_few_and_never_stuck() {
    let plan = FaultPlan { reordering: 0.2, reorder_span: 3, ..FaultPlan::default() };
    let mut scene = scene(6, plan);
    scene.send(0..1000);
    scene.clock.pass(1_000_000);
    let got = scene.received();
    let mut sorted = got.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
    assert_ne!(got, sorted);
    for (place, number) in got.iter().enumerate() {
        // Three that are queued overtake it, with those among them that are held back themselves.
        assert!(place.abs_diff(*number as usize) <= 32, "{number} at {place}");
    }
}

#[test]
fn delay_and_rate_follow_the_clock() {
    let plan = FaultPlan {
        delay_ns: 1000,
        rate_bytes_per_s: Some(4_000_000), // a datagram of 4 bytes a microsecond
        ..FaultPlan::default()
    };
    let mut scene = scene(7, plan);
    assert_eq!(scene.send(0..10), 10);
    assert_eq!(scene.switch.next_due_ns(), Some(2000));
    scene.clock.set(1999);
    assert_eq!(scene.received(), []);
    scene.clock.set(2000);
    assert_eq!(scene.received(), [0]);
    scene.clock.set(5500);
    assert_eq!(scene.received(), [1, 2, 3]);
    scene.clock.set(1_000_000);
    assert_eq!(scene.received(), [4, 5, 6, 7, 8, 9]);
    assert_eq!(scene.switch.next_due_ns(), None);
}

#[test]
fn a_full_queue_loses_on_a_rated_link_and_refuses_otherwise() {
    let plan = FaultPlan { rate_bytes_per_s: Some(1000), queue_bytes: 40, ..FaultPlan::default() };
    let mut rated = scene(8, plan);
    assert_eq!(rated.send(0..100), 100);
    assert_eq!(rated.switch.counts().overflowed, 90);

    let mut delayed = scene(8, FaultPlan { delay_ns: 5, queue_bytes: 40, ..FaultPlan::default() });
    assert_eq!(delayed.send(0..100), 10);
    delayed.clock.pass(5);
    assert_eq!(delayed.received().len(), 10);
    assert_eq!(delayed.send(10..100), 10);
}

#[test]
fn a_cut_works_both_ways_until_mended() {
    let hub = Hub::default();
    let at = |text: &str| hub.attach(text.parse().unwrap()).unwrap();
    let (inner, mut near, mut far) = (at("10.0.0.1:1"), at("10.0.0.2:1"), at("10.0.0.3:1"));
    let mut driver = Fault::new(inner, 9, FaultPlan::default(), Clock::default());
    let switch = driver.switch();
    switch.cut(far.local());
    let mut inbound = Inbound::new(4);
    let home = driver.local();
    let mut exchange = || {
        for other in [&mut near, &mut far] {
            let there = Outgoing { to: other.local(), head: b"x", body: b"", tail: b"" };
            assert_eq!(driver.send(&[there]).unwrap(), 1);
            let back = Outgoing { to: home, head: b"y", body: b"", tail: b"" };
            assert_eq!(other.send(&[back]).unwrap(), 1);
        }
        let mut heard = Vec::new();
        loop {
            inbound.clear();
            if driver.receive(&mut inbound).unwrap() == 0 {
                break;
            }
            heard.extend((0..inbound.len()).map(|i| inbound.datagram(i).from.to_string()));
        }
        inbound.clear();
        let reached = [&mut near, &mut far].map(|other| {
            let reached = other.receive(&mut inbound).unwrap();
            inbound.clear();
            reached
        });
        (heard, reached)
    };
    let (near_name, far_name) = ("10.0.0.2:1".to_owned(), "10.0.0.3:1".to_owned());
    assert_eq!(exchange(), (vec![near_name.clone()], [1, 0]));
    assert_eq!(switch.counts().cut, 2);
    switch.cut_all();
    assert_eq!(exchange(), (vec![], [0, 0]));
    switch.mend_all();
    assert_eq!(exchange(), (vec![near_name, far_name], [1, 1]));
}

#[test]
fn congestion_marks_what_is_received() {
    let mut scene = scene(10, FaultPlan { congestion: 0.5, ..FaultPlan::default() });
    let to = scene.sender.local();
    let mut inbound = Inbound::new(100);
    for _ in 0..100 {
        scene.receiver.send(&[Outgoing { to, head: b"x", body: b"", tail: b"" }]).unwrap();
    }
    assert_eq!(scene.sender.receive(&mut inbound).unwrap(), 100);
    let marked = (0..100).filter(|i| inbound.datagram(*i).ecn == Ecn::Ce).count();
    assert_eq!(marked as u64, scene.switch.counts().marked);
    assert!((30..70).contains(&marked), "{marked}");
}
