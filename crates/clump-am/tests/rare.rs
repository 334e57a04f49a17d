//! A program that computes and seldom polls: its next polls find messages that the network brought
//! meanwhile.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_am::{Endpoint, Handler, Name, Tag};
use clump_test_bed::{Job, Shape};
use clump_wire::Security;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Barrier;

const TAG: Tag = Tag(7);
const COUNT: Handler = Handler(1);
/// Requests, one after the other, each found by the first polls after it was acknowledged.
const REQUESTS: u64 = 4;
/// Far fewer than between two polls of a silent network.
const POLLS: usize = 3;

#[test]
fn what_came_while_a_rank_computed_is_found_by_its_next_polls() {
    // Ranks 0 and 1 share a node, so they poll the network only now and then.
    let job = Job::new(&Shape::of_messages(3, 2, Security::Crc), 1);
    let meet = Barrier::new(2);
    std::thread::scope(|scope| {
        let [computes, sends] = [&job.seats[0].context, &job.seats[2].context];
        let meet = &meet;
        scope.spawn(move || {
            let ep = Endpoint::open(computes, TAG).unwrap();
            let seen = Rc::new(Cell::new(0));
            let count = seen.clone();
            ep.set_handler(COUNT, move |_, _, _| count.set(count.get() + 1)).unwrap();
            // Mapping an endpoint of another node starts the progress thread.
            let _back = ep.map(&Name::new(2, 0, 1), TAG).unwrap();
            for _ in 0..64 {
                ep.poll().unwrap();
            }
            meet.wait();
            let mut found = Vec::new();
            for _ in 0..REQUESTS {
                // The rank computes here, until the other one sees that the message has arrived.
                meet.wait();
                for _ in 0..POLLS {
                    ep.poll().unwrap();
                }
                found.push(seen.get());
                meet.wait();
            }
            assert_eq!(found, (1..=REQUESTS).collect::<Vec<_>>(), "the next polls did not look");
            drop(ep);
            computes.close_network();
        });
        scope.spawn(move || {
            let ep = Endpoint::open(sends, TAG).unwrap();
            meet.wait();
            let to = ep.map(&Name::new(0, 0, 1), TAG).unwrap();
            for sent in 1..=REQUESTS {
                ep.request(to, COUNT, &[sent]).unwrap();
                while sends.network().unwrap().snapshot().memory_bytes > 0 {
                    ep.poll().unwrap();
                    clump_os::clock::yield_now();
                }
                meet.wait();
                meet.wait();
            }
            drop(ep);
            sends.close_network();
        });
    });
}
