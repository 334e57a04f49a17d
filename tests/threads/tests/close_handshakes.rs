//! Ranks that leave: delayed by the messages they sent themselves, and by nothing that others did.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_am::{Endpoint, Handler, Name, Tag};
use clump_shm::rank::RankState;
use clump_test_bed::{Seat, Shape, run};
use clump_transport::Dispatch;
use std::cell::Cell;
use std::rc::Rc;

const TAG: Tag = Tag(7);
const COUNT: Handler = Handler(1);
/// More messages than a lane holds, and fewer than two endpoints may have unconsumed.
const FLOOD: u64 = 8_000;

/// Opens the first endpoint of a rank, which counts messages.
fn endpoint(seat: &Seat) -> (Endpoint, Rc<Cell<u64>>) {
    let endpoint = Endpoint::open(&seat.context, TAG).unwrap();
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    endpoint.set_handler(COUNT, move |_, _, _| count.set(count.get() + 1)).unwrap();
    seat.meet();
    (endpoint, seen)
}

#[test]
fn an_endpoint_that_does_not_read_holds_up_nobody_but_who_sent_to_it() {
    let shapes = [(1, Dispatch::Fixed), (2, Dispatch::RoundRobin)];
    for (seed, (proxies, dispatch)) in (1..).zip(shapes) {
        run(&Shape::of(4, 2).by_proxies(proxies, dispatch), seed, |seat| {
            let (endpoint, seen) = endpoint(seat);
            let to = |rank| endpoint.map(&Name::new(rank, 0, 1), TAG).unwrap();
            let send = |rank, many| {
                let dest = to(rank);
                (0..many).for_each(|at| endpoint.request(dest, COUNT, &[at]).unwrap());
            };
            match seat.rank() {
                0 => {
                    send(2, FLOOD);
                    seat.meet();
                }
                1 => {
                    seat.meet();
                    send(3, 1);
                }
                2 => {
                    seat.meet();
                    // Reads nothing before rank 1 has left.
                    let peer = seat.context.node().peer(1).unwrap();
                    while peer.state() != RankState::Finalized {
                        std::thread::yield_now();
                    }
                    endpoint.poll_until(|| seen.get() == FLOOD).unwrap();
                }
                _ => {
                    seat.meet();
                    endpoint.poll_until(|| seen.get() == 1).unwrap();
                }
            }
        });
    }
}
