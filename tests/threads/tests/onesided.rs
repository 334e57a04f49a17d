//! Every operation, on one node and over several.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests give up where something fails")]

use clump_am::{Endpoint, Handler, Name, Tag};
use clump_loggp::{BaseParameters, KnobTable};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering};
use clump_rma::{AtomicOp, Comparison, ErrorKind, Refusal, Rma, SegmentName, Signal, Strides};
use clump_test_bed::{Seat, Shape, run};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

fn shapes() -> Vec<Shape> {
    let mut all = vec![Shape::of(2, 1), Shape::of(2, 2), Shape::of(3, 3).troubled()];
    all.extend(Shape::of(3, 2).every_way());
    all
}

fn everywhere(body: impl Fn(&Seat) + Clone + Send + 'static) {
    for (seed, shape) in (1..).zip(shapes()) {
        run(&shape, seed, body.clone());
    }
}

#[test]
fn words_are_put_got_and_changed() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (_mine, all) = seat.allocate(&rma, 4096);
        let next = &all[(seat.rank() + 1) % seat.ranks()];
        next.put(8, 40_u64).unwrap();
        next.put(16, 7_u32).unwrap();
        rma.quiet().unwrap();
        assert_eq!((next.get::<u64>(8).unwrap(), next.get::<u32>(16).unwrap()), (40, 7));
        assert_eq!(next.fetch_add(8, 2_u64).unwrap(), 40);
        assert_eq!(next.swap(8, 0xf0_u64).unwrap(), 42);
        assert_eq!(next.compare_swap(8, 1_u64, 9).unwrap(), 0xf0);
        assert_eq!(next.compare_swap(8, 0xf0_u64, 0xff).unwrap(), 0xf0);
        assert_eq!(next.fetch_and(8, 0x3c_u64).unwrap(), 0xff);
        assert_eq!(next.fetch_or(8, 1_u64).unwrap(), 0x3c);
        assert_eq!(next.fetch_xor(8, 0xff_u64).unwrap(), 0x3d);
        assert_eq!(next.fetch_min(8, 5_u64).unwrap(), 0xc2);
        assert_eq!(next.fetch_max(8, 6_u64).unwrap(), 5);
        assert_eq!(next.load::<u64>(8).unwrap(), 6);
        next.fetch_add(20, u32::MAX).unwrap();
        assert_eq!(next.fetch_add(20, 2_u32).unwrap(), u32::MAX);
        assert_eq!(next.get::<u32>(20).unwrap(), 1);
        next.add(24, 3_u64).unwrap();
        next.or(24, 8_u64).unwrap();
        let begun = next.start_atomic(32, AtomicOp::Add, 5_u64, 0).unwrap();
        assert_eq!(begun.wait().unwrap(), 0);
        rma.quiet().unwrap();
        assert_eq!(next.get::<u64>(24).unwrap(), 11);
        let words = next.near_words();
        assert_eq!(words.map(<[_]>::len), next.is_near().then_some(512));
        assert!(words.is_none_or(|w| w[3].load(clump_os::sync::Ordering::Relaxed) == 11));
        seat.meet();
    });
}

#[test]
fn bytes_of_any_length_arrive_as_they_are() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (_mine, all) = seat.allocate(&rma, 1 << 20);
        let next = &all[(seat.rank() + 1) % seat.ranks()];
        let sent: Vec<u8> = (0..400_000_u32).map(|i| (i * 31 % 253) as u8).collect();
        for (at, bytes) in [(3, 1), (8, 8), (9, 100), (0, 4095), (1, 5000), (77, 400_000)] {
            next.put_bytes(at, &sent[..bytes]).unwrap();
            rma.quiet().unwrap();
            let mut got = vec![0; bytes];
            next.get_bytes(at, &mut got).unwrap();
            assert!(got == sent[..bytes], "{bytes} at {at}");
        }
        let (mut a, mut b, mut c) = (0_u64, 0_u32, vec![0; 40_000]);
        rma.phase(|phase| {
            phase.get(next, 80, &mut a)?;
            phase.get(next, 88, &mut b)?;
            phase.get_bytes(next, 77, &mut c)
        })
        .unwrap();
        assert_eq!(a.to_le_bytes(), sent[3..11]);
        assert_eq!(b.to_le_bytes(), sent[11..15]);
        assert!(c == sent[..40_000]);
        let outside = rma.phase(|phase| phase.get(next, 1 << 30, &mut a));
        assert_eq!(outside.map_err(|e| e.why()), Err(Some(Refusal::OutOfBounds)));
        next.start_put(500_000, &sent[..70_000]).unwrap().wait().unwrap();
        let rows = Strides { offset: 500_000, block: 24, stride: 40 };
        let mut got = vec![0; 24 * 1500];
        next.get_strided(rows, &mut got).unwrap();
        for (row, block) in got.chunks(24).enumerate() {
            assert_eq!(block, &sent[row * 40..row * 40 + 24]);
        }
        let columns = Strides { offset: 700_001, block: 3, stride: 100 };
        next.put_strided(columns, &sent[..3 * 2000]).unwrap();
        rma.quiet().unwrap();
        let mut back = vec![1; 3 * 2000];
        next.get_strided(columns, &mut back).unwrap();
        assert!(back == sent[..6000]);
        let mut between = [9; 97];
        next.get_bytes(700_004, &mut between).unwrap();
        assert_eq!(between, [0; 97]);
        seat.meet();
    });
}

#[test]
fn a_phase_refuses_a_target_whose_gets_it_cannot_wait_for() {
    everywhere(|seat| {
        let (rma, other) = (Rma::open(&seat.context).unwrap(), Rma::open(&seat.context).unwrap());
        let (_mine, all) = seat.allocate(&rma, 4096);
        let next = &all[(seat.rank() + 1) % seat.ranks()];
        let mut word = 7_u64;
        let got = other.phase(|phase| phase.get(next, 8, &mut word));
        if next.is_near() {
            got.unwrap();
            assert_eq!(word, 0);
        } else {
            let error = got.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::ForeignTarget { .. }), "{error}");
            assert_eq!(word, 7, "nothing arrives once the phase has ended");
        }
        seat.meet();
    });
}

#[test]
fn whoever_sees_the_signal_sees_what_was_put() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (mine, all) = seat.allocate(&rma, 1 << 16);
        let next = &all[(seat.rank() + 1) % seat.ranks()];
        for turn in 1..=60_u64 {
            let bytes = [8, 100, 9000][turn as usize % 3];
            let payload = vec![turn as u8; bytes];
            if turn % 2 == 0 {
                let segment = next.name();
                let signal = Signal { segment, offset: 0, value: turn, adds: false };
                next.put_signal(64, &payload, signal).unwrap();
            } else {
                next.put_bytes(64, &payload).unwrap();
                rma.fence();
                next.signal(0, 1, true).unwrap();
            }
            assert_eq!(mine.wait_until(0, Comparison::AtLeast, turn).unwrap(), turn);
            let mut got = vec![0; bytes];
            mine.get_bytes(64, &mut got).unwrap();
            assert!(got.iter().all(|byte| *byte == turn as u8), "turn {turn}");
            seat.meet();
        }
    });
}

#[test]
fn a_fence_keeps_the_order_of_puts() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (mine, all) = seat.allocate(&rma, 4096);
        seat.meet();
        if seat.rank() == 0 {
            let last = all.last().unwrap();
            for turn in 1..=500_u64 {
                last.put(8, turn).unwrap();
                rma.fence();
                last.store(16, turn).unwrap();
                rma.fence();
            }
            rma.quiet().unwrap();
        } else if seat.rank() + 1 == seat.ranks() {
            loop {
                let second = mine.load::<u64>(16).unwrap();
                assert!(mine.load::<u64>(8).unwrap() >= second);
                if second == 500 {
                    break;
                }
                std::thread::yield_now();
            }
        }
        seat.meet();
    });
}

#[test]
fn what_is_wrong_is_said() {
    everywhere(|seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let mine = rma.export_growing(100, 10_000).unwrap();
        let names = seat.exchange(mine.name());
        let next = rma.target(names[(seat.rank() + 1) % seat.ranks()]).unwrap();
        let why = |error: clump_rma::Error| error.why().unwrap();
        assert_eq!(next.get::<u64>(96).map_err(why), Err(Refusal::OutOfBounds));
        assert_eq!(next.get::<u64>(u64::MAX - 3).map_err(why), Err(Refusal::OutOfBounds));
        assert_eq!(next.fetch_add(12, 1_u64).map_err(why), Err(Refusal::Misaligned));
        assert_eq!(next.get_bytes(50, &mut [0; 51]).map_err(why), Err(Refusal::OutOfBounds));
        let far = Strides { offset: 0, block: 8, stride: u64::MAX / 2 };
        assert_eq!(next.get_strided(far, &mut [0; 32]).map_err(why), Err(Refusal::OutOfBounds));
        // Operations without a reply fail at quiet; on this node the call fails.
        let mut failed = 0;
        for at in [101, 200] {
            failed += u64::from(next.put_bytes(at, &[1; 8]).is_err());
        }
        failed += match rma.quiet().map_err(|e| e.to_string()) {
            Ok(()) => 0,
            Err(text) => {
                assert!(
                    text.starts_with("2 operations since the last quiet were refused"),
                    "{text}"
                );
                2
            }
        };
        assert_eq!(failed, 2);
        rma.quiet().unwrap();
        seat.meet();
        mine.grow(10_000).unwrap();
        let too_much = mine.grow(1 << 30).unwrap_err();
        let ErrorKind::Messages(below) = too_much.kind() else { panic!("{too_much}") };
        assert!(matches!(below.kind(), clump_am::ErrorKind::CannotGrow { .. }), "{too_much}");
        seat.meet();
        next.put(9_992, 5_u64).unwrap();
        rma.quiet().unwrap();
        assert_eq!(next.get::<u64>(9_992).unwrap(), 5);
        seat.meet();
        drop(mine);
        seat.meet();
        let gone = next.get_bytes(0, &mut [0; 8]);
        // A rank that has it mapped may still read it.
        assert!(next.is_near() || gone.map_err(why) == Err(Refusal::NoSuchSegment));
        seat.meet();
    });
}

#[test]
fn messages_and_one_sided_operations_share_a_region() {
    for (seed, shape) in (1..).zip(shapes()) {
        let arrived = Arc::new(AtomicU64::new(0));
        run(&shape, seed, move |seat| share_a_region(seat, &arrived));
    }
}

/// Message of a deposit that has come.
const FILLED: Handler = Handler(1);

fn share_a_region(seat: &Seat, arrived: &AtomicU64) {
    let rma = Rma::open(&seat.context).unwrap();
    let endpoint = Endpoint::open(&seat.context, Tag(1)).unwrap();
    // Polls meanwhile, so that others' messages are read and acknowledged.
    let meet = |times: u64| {
        arrived.fetch_add(1, Ordering::SeqCst);
        let all = times * seat.ranks() as u64;
        endpoint.poll_until(|| arrived.load(Ordering::SeqCst) >= all).unwrap();
    };
    let mine = rma.export_growing(100, 20_000).unwrap();
    endpoint.use_region(mine.region()).unwrap();
    let again = endpoint.use_region(mine.region()).unwrap_err();
    assert!(matches!(again.kind(), clump_am::ErrorKind::HasSegment(100)), "{again}");
    let other = Endpoint::open(&seat.context, Tag(2)).unwrap();
    assert_eq!(other.use_region(mine.region()).unwrap().len(), 100, "it may serve several");
    let runs = Rc::new(Cell::new(0));
    let counted = runs.clone();
    endpoint.set_handler(FILLED, move |_, _, _| counted.set(counted.get() + 1)).unwrap();
    let (came, back) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let (count, reason) = (came.clone(), back.clone());
    endpoint
        .on_returned(move |message| {
            count.set(count.get() + 1);
            reason.set(Some(message.reason));
        })
        .unwrap();
    let (names, segments) = (
        seat.exchange(SegmentName::from_bits(endpoint.name().to_bits())),
        seat.exchange(mine.name()),
    );
    let next = (seat.rank() + 1) % seat.ranks();
    let dest = endpoint.map(&Name::from_bits(names[next].to_bits()), Tag(1)).unwrap();
    endpoint.request_long(dest, FILLED, 50, &[7; 50], &[]).unwrap();
    endpoint.poll_until(|| runs.get() == 1).unwrap();
    meet(1);
    let there = rma.target(segments[next]).unwrap();
    let mut got = [0; 60];
    there.get_bytes(40, &mut got).unwrap();
    assert_eq!((&got[..10], &got[10..]), (&[0; 10][..], &[7; 50][..]));
    endpoint.request_long(dest, FILLED, 90, &[8; 50], &[]).unwrap();
    endpoint.poll_until(|| came.get() == 1).unwrap();
    assert_eq!(back.take(), Some(clump_am::Reason::BadLength));
    meet(2);
    drop((rma, mine));
    // Its endpoints keep the memory.
    endpoint.request_long(dest, FILLED, 0, &[9; 100], &[]).unwrap();
    endpoint.poll_until(|| runs.get() == 2).unwrap();
    meet(3);
}

#[test]
fn a_restricted_wait_runs_no_handler_of_another_endpoint() {
    const MESSAGES: u64 = 40;
    const COUNT: Handler = Handler(1);
    let mut shapes = vec![Shape::of(2, 1), Shape::of(2, 2).troubled()];
    shapes.extend(Shape::of(2, 2).every_way());
    for (seed, shape) in (1..).zip(shapes) {
        run(&shape, seed, |seat| {
            let endpoint = Endpoint::open(&seat.context, Tag(1)).unwrap();
            let runs = Rc::new(Cell::new(0));
            let counted = runs.clone();
            endpoint.set_handler(COUNT, move |_, _, _| counted.set(counted.get() + 1)).unwrap();
            let (rma, restricted) =
                (Rma::open(&seat.context).unwrap(), Rma::open_restricted(&seat.context).unwrap());
            let (_mine, all) = seat.allocate(&rma, 4096);
            let names = seat.exchange(SegmentName::from_bits(endpoint.name().to_bits()));
            seat.meet();
            if seat.rank() == 1 {
                let dest = endpoint.map(&Name::from_bits(names[0].to_bits()), Tag(1)).unwrap();
                for _ in 0..MESSAGES {
                    endpoint.request(dest, COUNT, &[]).unwrap();
                }
                all[0].put(8, 1_u64).unwrap();
                rma.quiet().unwrap();
            } else {
                let there: Vec<_> =
                    all.iter().map(|target| restricted.target(target.name()).unwrap()).collect();
                there[0].wait_until(8, Comparison::Equal, 1_u64).unwrap();
                for turn in 0..clump_test_tier::pick(20, 100_u64) {
                    assert_eq!(there[1].fetch_add(16, 1_u64).unwrap(), turn);
                    restricted.quiet().unwrap();
                }
                assert_eq!(runs.get(), 0, "a handler of the program ran");
                endpoint.poll_until(|| runs.get() == MESSAGES).unwrap();
            }
            seat.meet();
        });
    }
}

#[test]
fn what_waits_for_stores_waits_for_the_gap_of_each() {
    const STORES: u64 = 20;
    const GAP_NS: u64 = 1_000_000;
    for shape in Shape::of(2, 2).every_way() {
        run(&shape, 3, |seat| {
            let knobs = KnobTable::parse("g=1ms,scope=net", &[BaseParameters::default(); 2]);
            seat.context.node().set_knobs(&knobs.unwrap().to_words()).unwrap();
            let rma = Rma::open(&seat.context).unwrap();
            let (_mine, all) = seat.allocate(&rma, 4096);
            seat.meet();
            if seat.rank() == 0 {
                rma.poll().unwrap();
                let begun = clock::now_ns();
                for word in 0..STORES {
                    all[1].put(8 * word, word).unwrap();
                }
                rma.quiet().unwrap();
                // The request that waits for them leaves a gap after the last; stamps round.
                assert!(clock::now_ns() - begun >= STORES * GAP_NS - 200);
            }
            seat.meet();
        });
    }
}

/// Has rank 0 read 1 MiB of rank 1 with these knobs. Returns the time, in ns.
fn time_of_a_get(shape: &Shape, knobs: &'static str) -> u64 {
    const BYTES: usize = 1 << 20;
    let times = run(shape, 3, move |seat| {
        let table = KnobTable::parse(knobs, &[BaseParameters::default(); 2]).unwrap();
        seat.context.node().set_knobs(&table.to_words()).unwrap();
        let rma = Rma::open(&seat.context).unwrap();
        let (_mine, all) = seat.allocate(&rma, BYTES as u64);
        seat.meet();
        let mut took = 0;
        if seat.rank() == 0 {
            rma.poll().unwrap();
            let (mut got, begun) = (vec![1; BYTES], clock::now_ns());
            all[1].get_bytes(0, &mut got).unwrap();
            took = clock::now_ns() - begun;
            assert!(got.iter().all(|&byte| byte == 0));
        }
        seat.meet();
        took
    });
    times[0]
}

#[test]
fn bytes_of_a_get_come_one_after_another_on_a_slower_network() {
    for shape in Shape::of(2, 2).every_way() {
        let took = time_of_a_get(&shape, "G=+100ns/B,scope=net");
        assert!(took >= 104_857_600 - 200, "{shape:?}: {took} ns");
    }
}

#[test]
fn a_get_is_one_message_however_many_fragments_it_has() {
    // Else it would take longer than any test may: a gap of 10 s between fragments, or the overhead
    // of 64 requests and answers.
    let took = time_of_a_get(&Shape::of(2, 2), "g=10s,o=+500ms,scope=net");
    assert!(took >= 1_000_000_000, "a request and an answer: {took} ns");
}

#[test]
fn a_long_put_is_one_message_however_many_fragments_it_has() {
    const BYTES: usize = 1 << 20;
    const GAP_NS: u64 = 1_000_000_000;
    for shape in Shape::of(2, 2).every_way() {
        run(&shape, 3, move |seat| {
            let knobs =
                KnobTable::parse("g=1s,o_s=+500ms,scope=net", &[BaseParameters::default(); 2]);
            seat.context.node().set_knobs(&knobs.unwrap().to_words()).unwrap();
            let rma = Rma::open(&seat.context).unwrap();
            let (_mine, all) = seat.allocate(&rma, BYTES as u64);
            seat.meet();
            if seat.rank() == 0 {
                rma.poll().unwrap();
                let begun = clock::now_ns();
                all[1].put_bytes(0, &vec![7; BYTES]).unwrap();
                rma.quiet().unwrap();
                let took = clock::now_ns() - begun;
                // The request that waits for it leaves a gap later. As 64 messages it would take
                // 32 s of overhead and 64 s of gaps.
                assert!(took >= GAP_NS - 200, "{took} ns");
                assert!(took < 30 * GAP_NS, "{took} ns");
            }
            seat.meet();
        });
    }
}
