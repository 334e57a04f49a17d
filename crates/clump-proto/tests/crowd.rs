//! Many senders whose packets meet in one queue.

use crate::pair;

use clump_proto::{Config, Nanos};
use pair::{End, Link, MS, Packet, SEC, Sampler, US};
use std::collections::BTreeMap;

/// Bytes per millisecond of a 10 Gbit/s link.
const TEN_GBIT: u64 = 1_250_000;

/// Senders, each with its channel at the one receiver, and the queue before that.
struct Crowd {
    now: Nanos,
    channels: Vec<[End; 2]>,
    queue: Link,
    back: Vec<Link>,
    chance: Sampler,
    wire: BTreeMap<(Nanos, u64), (usize, usize, Packet)>,
    sent: u64,
}

impl Crowd {
    fn new(senders: usize, queue: Link) -> Self {
        let config = Config::default();
        let end = || End::new(&config, SEC);
        let channels = (0..senders).map(|_| [end(), end()]).collect();
        let back = vec![Link::default(); senders];
        let (chance, wire) = (Sampler::new(3), BTreeMap::new());
        Self { now: SEC, channels, queue, back, chance, wire, sent: 0 }
    }

    fn service(&mut self, channel: usize, end: usize) {
        for mut packet in self.channels[channel][end].service(self.now) {
            let link = if end == 0 { &mut self.queue } else { &mut self.back[channel] };
            if let Some((at, marked)) = link.pass(self.now, packet.bytes, &mut self.chance) {
                packet.ce = marked;
                self.sent += 1;
                self.wire.insert((at, self.sent), (channel, 1 - end, packet));
            }
        }
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        loop {
            let due = self.channels.iter().flatten().filter_map(|end| end.channel.next_timeout());
            let wire = self.wire.keys().next().map(|(at, _)| *at);
            let next = due.chain(wire).min().unwrap_or(Nanos::MAX);
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            while let Some(first) = self.wire.first_entry()
                && first.key().0 <= self.now
            {
                let (channel, end, packet) = first.remove();
                self.channels[channel][end].handle(self.now, &packet);
                self.service(channel, end);
            }
            for channel in 0..self.channels.len() {
                for end in 0..2 {
                    let due = self.channels[channel][end].channel.next_timeout();
                    if due.is_some_and(|at| at <= self.now) {
                        self.service(channel, end);
                    }
                }
            }
        }
        self.now = until;
    }

    /// Returns the bytes per millisecond of each sender that arrive in `time`.
    fn rates(&mut self, time: Nanos) -> Vec<u64> {
        let counts = |crowd: &Self| -> Vec<u64> {
            crowd.channels.iter().map(|channel| channel[1].delivered.len() as u64).collect()
        };
        let before = counts(self);
        self.pass(time);
        counts(self).iter().zip(before).map(|(n, b)| (n - b) * 1400 * MS / time).collect()
    }
}

/// Fails if a sender is further from its fair share than that share divided by `parts`.
fn incast(senders: usize, queue: &Link, parts: u64) {
    let mut crowd = Crowd::new(senders, queue.clone());
    for channel in 0..senders {
        crowd.channels[channel][0].waiting = u64::MAX / 2;
        crowd.service(channel, 0);
    }
    crowd.pass(30 * MS);
    let rates = crowd.rates(70 * MS);
    let all: u64 = rates.iter().sum();
    let fair = all / senders as u64;
    println!("{all} of {TEN_GBIT} bytes/ms: {rates:?}");
    assert!(all >= TEN_GBIT * 85 / 100, "collapsed to {all} bytes/ms over {queue:?}: {rates:?}");
    let unfair = rates.iter().any(|rate| rate.abs_diff(fair) * parts > fair);
    assert!(!unfair, "not near {fair} over {queue:?}: {rates:?}");
}

#[test]
fn eight_senders_that_took_a_queue_for_the_path_learn_better() {
    // Long enough for their first packets to queue by far more than the target of delay.
    let queue = Link { rate: TEN_GBIT, delay: 10 * US, queue: 500_000, ..Link::default() };
    let mut crowd = Crowd::new(8, queue);
    for channel in 0..8 {
        crowd.channels[channel][0].waiting = u64::MAX / 2;
        crowd.service(channel, 0);
    }
    crowd.pass(320 * MS);
    let rates = crowd.rates(100 * MS);
    let fair = rates.iter().sum::<u64>() / 8;
    println!("{rates:?}");
    assert!(rates.iter().all(|rate| rate.abs_diff(fair) * 5 < fair), "not near {fair}: {rates:?}");
}

#[test]
fn eight_senders_share_a_long_queue_a_marking_one_and_a_short_one() {
    let queue = Link { rate: TEN_GBIT, delay: 10 * US, queue: 2_000_000, ..Link::default() };
    incast(8, &queue, 5);
    incast(8, &Link { mark_from: 60_000, ..queue.clone() }, 5);
    // A full queue drops packets at random, and only loss signals it: less even, and no collapse.
    incast(8, &Link { queue: 150_000, ..queue }, 3);
}
