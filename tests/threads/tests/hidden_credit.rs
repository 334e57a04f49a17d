//! Credit between nodes while messages are hidden for a large latency (docs/lab.md).
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_am::{Endpoint, Handler, Name, Tag};
use clump_loggp::{BaseParameters, KnobTable};
use clump_os::clock;
use clump_rma::SegmentName;
use clump_test_bed::{Shape, run};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of a message, and messages.
const BYTES: u64 = 32 << 10;
const MESSAGES: u64 = 1000;
/// Credit without knobs (`clump_transport::credit_bytes`, of few ranks).
const CREDIT: u64 = 1 << 20;
/// The added latency.
const LATENCY_NS: u64 = 100_000_000;

#[test]
fn mediums_under_a_large_latency_do_not_wait_a_round_trip_for_each_window() {
    const COUNT: Handler = Handler(1);
    let took = run(&Shape::of(2, 2), 3, |seat| {
        let knobs = KnobTable::parse("L=+100ms,scope=net", &[BaseParameters::default(); 2]);
        seat.context.node().set_knobs(&knobs.unwrap().to_words()).unwrap();
        let endpoint = Endpoint::open(&seat.context, Tag(1)).unwrap();
        let handled = Rc::new(Cell::new(0));
        let counted = handled.clone();
        endpoint.set_handler(COUNT, move |_, _, _| counted.set(counted.get() + 1)).unwrap();
        let names = seat.exchange(SegmentName::from_bits(endpoint.name().to_bits()));
        seat.meet();
        let begun = clock::now_ns();
        if seat.rank() == 0 {
            let dest = endpoint.map(&Name::from_bits(names[1].to_bits()), Tag(1)).unwrap();
            let payload = vec![5; BYTES as usize];
            for _ in 0..MESSAGES {
                endpoint.request_bulk(dest, COUNT, &payload, &[]).unwrap();
            }
        } else {
            endpoint.poll_until(|| handled.get() == MESSAGES).unwrap();
        }
        let took = clock::now_ns() - begun;
        seat.meet();
        took
    });
    assert!(took[1] >= LATENCY_NS, "{took:?} ns");
    // One credit a round trip takes 6.2 s.
    let by_credit_ns = MESSAGES * BYTES / CREDIT * 2 * LATENCY_NS;
    assert!(took[1] < by_credit_ns / 2, "{took:?} ns; a credit a round trip: {by_credit_ns} ns");
}
