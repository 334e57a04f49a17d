//! Regions that nodes own, from ranks of the node and of others.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_rma::{Comparison, Refusal, RegionOptions, Rma, SegmentName};
use clump_test_bed::{Seat, Shape, run};

const WHOLE: u64 = 1 << 40;

fn everywhere(body: impl Fn(&Seat) + Clone + Send + 'static) {
    let mut all = vec![Shape::of(2, 1), Shape::of(2, 2), Shape::of(3, 3).troubled()];
    all.extend(Shape::of(3, 2).every_way());
    for (seed, shape) in (1..).zip(all) {
        run(&shape, seed, body.clone());
    }
}

#[test]
fn regions_of_every_node_are_reached_from_every_node() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let region = rma.node_region(3, WHOLE, RegionOptions::default()).unwrap();
        seat.meet();
        let (me, nodes) = (seat.rank() as u64, seat.context.node().nnodes());
        let sent: Vec<u8> = (0..40_000_u64).map(|i| (i % 251 + me) as u8).collect();
        for node in 0..nodes {
            let there = rma.target_on(node, 3).unwrap();
            there.add(8, 1_u64).unwrap();
            there.put_bytes(WHOLE / 2 + me * 40_000, &sent).unwrap();
            there.put_bytes(WHOLE - (me + 1) * 100, &sent[..100]).unwrap();
            assert_eq!(there.get::<u64>(1 << 39).map(|_| ()).map_err(|e| e.why()), Ok(()));
            let beyond = there.get::<u64>(WHOLE).map_err(|e| e.why());
            assert_eq!(beyond, Err(Some(Refusal::OutOfBounds)));
            let absent = rma.target_on(node, 4).and_then(|target| target.get::<u64>(0));
            assert_eq!(absent.map_err(|e| e.why()), Err(Some(Refusal::NoSuchSegment)));
        }
        rma.quiet().unwrap();
        seat.meet();
        let ranks = seat.ranks() as u64;
        assert_eq!(region.load::<u64>(8).unwrap(), ranks);
        let mut got = vec![0; sent.len()];
        for node in 0..nodes {
            let there = rma.target_on(node, 3).unwrap();
            there.get_bytes(WHOLE / 2 + me * 40_000, &mut got).unwrap();
            assert!(got == sent, "of node {node}");
            there.get_bytes(WHOLE - (me + 1) * 100, &mut got[..100]).unwrap();
            assert!(got[..100] == sent[..100], "the end of node {node}");
        }
        assert!(rma.target_on(nodes, 3).is_err(), "there is no such node");
        seat.meet();
    });
}

#[test]
fn a_signal_in_a_region_wakes_whoever_waits_for_it() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let region = rma.node_region(0, 8192, RegionOptions::default()).unwrap();
        seat.meet();
        let (ranks, nodes) = (seat.ranks() as u64, seat.context.node().nnodes());
        if seat.rank() == 0 {
            for node in 0..nodes {
                rma.target_on(node, 0).unwrap().signal(64, ranks, true).unwrap();
            }
            rma.quiet().unwrap();
        }
        region.wait_until(64, Comparison::Equal, ranks).unwrap();
        let flag = rma.flag(SegmentName::of_node(nodes - 1, 0), 20).unwrap();
        if seat.rank() == 1 {
            flag.set(9).unwrap();
        }
        assert_eq!(flag.wait(Comparison::AtLeast, 9).unwrap(), 9);
        seat.meet();
    });
}
