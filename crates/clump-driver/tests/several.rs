//! Properties that only a driver with several paths guarantees: a path that dies is left, and taken
//! back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_driver::{
    Clock, Driver, DriverError, Fault, FaultPlan, FaultSwitch, Inbound, Multirail, Outgoing,
    PathCounts, PeerPaths, Udp, UdpOptions,
};
use std::net::SocketAddr;

/// Time after which anything missing counts as lost.
const TIME_LIMIT_NS: u64 = 20_000_000_000;

/// One side of an exchange: a driver with two paths, and the other side's name.
struct Side {
    driver: Multirail<Fault<Udp>>,
    cuts: Vec<FaultSwitch>,
    peer: SocketAddr,
    inbound: Inbound,
    received: u64,
}

/// Creates two sides that prefer path `preferred`.
fn pair(preferred: usize) -> [Side; 2] {
    let bind = |_| Udp::bind("127.0.0.1:0".parse().unwrap(), UdpOptions::default()).unwrap();
    let all = [0, 1].map(|_| (0..2).map(bind).collect::<Vec<_>>());
    let places = all.each_ref().map(|paths| paths.iter().map(Driver::local).collect::<Vec<_>>());
    let mut other = 2;
    all.map(|paths| {
        other -= 1;
        let addresses = places[other].clone();
        let peer = addresses[0];
        let faulty = |udp| Fault::new(udp, 1, FaultPlan::default(), Clock::Steady);
        let paths: Vec<_> = paths.into_iter().map(faulty).collect();
        let cuts = paths.iter().map(Fault::switch).collect();
        let mut driver = Multirail::new(paths).unwrap();
        driver.add_peer(PeerPaths { addresses, preferred });
        Side { driver, cuts, peer, inbound: Inbound::new(16), received: 0 }
    })
}

impl Side {
    fn send(&mut self) {
        let one = [Outgoing { to: self.peer, head: &[1; 40], body: &[], tail: &[] }];
        self.driver.send(&one).unwrap();
    }

    fn receive(&mut self) {
        self.inbound.clear();
        for at in 0..self.driver.receive(&mut self.inbound).unwrap() {
            let path = self.inbound.datagram(at).path;
            self.driver.on_authenticated(self.peer, path);
            self.received += 1;
        }
    }

    fn counts(&self) -> PathCounts {
        *self.driver.paths().unwrap()
    }
}

/// Lets both send and receive until a condition holds.
fn talk(sides: &mut [Side; 2], what: &str, so: impl Fn(&[Side; 2]) -> bool) {
    let deadline = clump_os::clock::now_ns() + TIME_LIMIT_NS;
    while !so(sides) {
        for side in &mut *sides {
            side.send();
            side.receive();
        }
        assert!(clump_os::clock::now_ns() < deadline, "no {what}: {:?}", sides[0].counts());
    }
}

#[test]
fn a_path_that_is_cut_is_left_and_comes_back_when_it_is_mended() {
    for preferred in [0, 1] {
        let mut sides = pair(preferred);
        talk(&mut sides, "talk", |sides| sides.iter().all(|side| side.received > 100));
        for round in 1..=2 {
            sides.iter().for_each(|side| side.cuts[preferred].cut_all());
            let out = |side: &Side| side.counts().taken_out >= round;
            talk(&mut sides, "path taken out", |sides| sides.iter().all(out));
            let before = sides.each_ref().map(|side| side.received);
            let goes_on = |sides: &[Side; 2]| {
                sides.iter().zip(before).all(|(side, before)| side.received > before + 100)
            };
            talk(&mut sides, "talk by the other path", goes_on);
            sides.iter().for_each(|side| side.cuts[preferred].mend_all());
            let back = |side: &Side| side.counts().came_back >= round;
            talk(&mut sides, "path that comes back", |sides| sides.iter().all(back));
            let before = sides.each_ref().map(|side| side.counts().sent[preferred]);
            let used = |sides: &[Side; 2]| {
                let sent = sides.iter().map(|side| side.counts().sent[preferred]);
                sent.zip(before).all(|(sent, before)| sent > before + 100)
            };
            talk(&mut sides, "use of the path that came back", used);
        }
    }
}

#[test]
fn what_nobody_vouches_for_keeps_no_path_alive() {
    let [mut a, mut b] = pair(0);
    let deadline = clump_os::clock::now_ns() + TIME_LIMIT_NS;
    // Answers arrive by both paths, and are not authenticated.
    while a.counts().sent[1] == 0 {
        a.send();
        b.send();
        a.inbound.clear();
        a.driver.receive(&mut a.inbound).unwrap();
        assert!(clump_os::clock::now_ns() < deadline, "it is still believed: {:?}", a.counts());
    }
}

#[test]
fn a_destination_that_is_no_peer_is_reached_by_the_first_path() {
    let [mut a, b] = pair(1);
    let mut foreign = Udp::bind("127.0.0.1:0".parse().unwrap(), UdpOptions::default()).unwrap();
    let to = foreign.local();
    assert_eq!(a.driver.send(&[Outgoing { to, head: b"x", body: &[], tail: &[] }]).unwrap(), 1);
    let (mut inbound, deadline) = (Inbound::new(1), clump_os::clock::now_ns() + TIME_LIMIT_NS);
    while foreign.receive(&mut inbound).unwrap() == 0 {
        assert!(clump_os::clock::now_ns() < deadline);
    }
    assert_eq!(inbound.datagram(0).from, a.driver.local());
    assert!(a.driver.path_hint(b.driver.local()).is_some());
}

#[test]
fn no_path_and_too_many_are_refused() {
    let none = Multirail::<Udp>::new(Vec::new());
    assert!(matches!(none.unwrap_err(), DriverError::Socket(why) if why.contains("no path")));
    let bind = |_| Udp::bind("127.0.0.1:0".parse().unwrap(), UdpOptions::default()).unwrap();
    let many = Multirail::new((0..5).map(bind).collect());
    assert!(matches!(many.unwrap_err(), DriverError::Socket(why) if why.contains("addresses")));
}
