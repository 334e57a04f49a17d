//! A hostile sender beside a running job: nothing of it is delivered, kept, or answered.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

mod cluster;

use clump_am::{Endpoint, Handler, Name, RankContext, Settings, Tag};
use clump_os::sync::Ordering::{Acquire, Release};
use clump_os::sync::{AtomicBool, AtomicU64};
use clump_trace::{Counter, Counters};
use clump_wire::Security;
use cluster::enemy::{Enemy, TRICKS};
use cluster::net::{self, Between};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const TAG: Tag = Tag(0x5eed);
const ROUNDS: u64 = 3_000;
const PACKETS: usize = 50_000;

fn thrown_away(context: &RankContext) -> u64 {
    let counters = Counters::over(context.block().counters());
    let kinds =
        [Counter::NetForged, Counter::NetForeign, Counter::NetMalformed, Counter::NetReplayed];
    kinds.into_iter().map(|counter| counters.get(counter)).sum()
}

#[test]
fn what_an_enemy_sends_is_counted_and_nothing_else() {
    for security in [Security::Aead, Security::Crc] {
        let between = Between::nodes(2, security);
        let (contexts, _nodes) = net::contexts(2, Settings::default(), &between, false);
        let place = |rank: u32| contexts[0].node().rank(rank).unwrap().place().unwrap();
        let key = clump_net::seal::JobKey::new(&mut [7; 32]).unwrap();
        let (a, b) = (place(0), place(1));
        // It even knows the number by which packets of the job are told from those of others.
        let mut enemy = Enemy::new((0, a.epoch), (1, b.epoch), key.job_tag(), b.address);
        let (done, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, count) = (done.clone(), sent.clone());
        let attack = std::thread::spawn(move || {
            let mut at = 0;
            while at < PACKETS || !stop.load(Acquire) {
                count.fetch_add(u64::from(enemy.send(TRICKS[at % TRICKS.len()])), Release);
                at += 1;
                if at % 64 == 0 {
                    clump_os::clock::yield_now();
                }
            }
        });
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
        let thrown = thrown_away(&contexts[1]);
        assert!(thrown > 0, "{security}: the attack never reached the rank");
        assert!(thrown <= sent.load(Acquire), "{security}: more thrown away than were sent");
        assert_eq!(thrown_away(&contexts[0]), 0, "{security}: nobody attacked rank 0");
    }
}

/// Both ranks ask each other, and see exactly the answers to what they asked.
fn talk(context: &Arc<RankContext>, sent: &AtomicU64) {
    let ep = Endpoint::open(context, TAG).unwrap();
    let (asked, answered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (a, b) = (asked.clone(), answered.clone());
    ep.set_handler(Handler(1), move |token, words, _| {
        assert_eq!(words, [a.get(), !a.get()]);
        a.set(a.get() + 1);
        token.reply(Handler(2), words)
    });
    ep.set_handler(Handler(2), move |_, words, _| {
        assert_eq!(words, [b.get(), !b.get()]);
        b.set(b.get() + 1);
    });
    let peer = Name::new(1 - context.rank(), 0, 1);
    let dest = ready(&ep, peer);
    let before = context.network().unwrap().memory_bytes();
    for i in 0..ROUNDS {
        ep.request(dest, Handler(1), &[i, !i]).unwrap();
        ep.poll_until(|| answered.get() == i + 1).unwrap();
    }
    ep.poll_until(|| asked.get() == ROUNDS).unwrap();
    // As long as the attack goes on nothing grows.
    ep.poll_until(|| sent.load(Acquire) >= PACKETS as u64).unwrap();
    ep.drain().unwrap();
    let after = context.network().unwrap().memory_bytes();
    assert!(after <= before + (64 << 10), "from {before} to {after} bytes");
    drop(ep);
    context.close_network();
}

fn ready(ep: &Endpoint, peer: Name) -> clump_am::Dest {
    loop {
        let reason = Rc::new(Cell::new(None));
        let seen = reason.clone();
        ep.on_returned(move |m| seen.set(Some(m.reason)));
        let dest = ep.map(&peer, TAG).unwrap();
        ep.request(dest, Handler(250), &[]).unwrap();
        ep.poll_until(|| reason.get().is_some()).unwrap();
        if reason.get() == Some(clump_am::Reason::BadHandler) {
            return dest;
        }
        ep.unmap(dest).unwrap();
    }
}
