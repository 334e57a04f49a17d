//! Properties that every driver guarantees.

use crate::bench::{Bench, contents, deadline, in_parts, payload};
use clump_driver::{DriverError, Ecn, Inbound, Outgoing};
use rustix::event::{PollFd, PollFlags, Timespec};

/// Bytes that fit into any receive buffer at once, kernel overhead included.
const SAFE_BYTES: usize = 64 << 10;

pub fn sizes_from_nothing_to_the_largest_arrive_whole(bench: &mut Bench) {
    let largest = bench.largest(1);
    assert!(largest <= bench.drivers[0].capabilities().max_datagram);
    let sizes = [0, 1, 2, 63, 64, 65, 255, 256, 1471, 1472, 1473, 2047, 2048, 2049, 8972, 40_000];
    let carried = sizes.into_iter().filter(|bytes| *bytes <= largest);
    for (i, bytes) in carried.chain([largest - 1, largest]).enumerate() {
        for how in 0..4 {
            let sent = payload(i, bytes);
            let to = bench.address(1);
            bench.send_all(0, &[in_parts(to, &sent, how)]);
            let arrived = bench.receive(1, 1);
            assert_eq!(arrived[0].bytes, sent, "{bytes} bytes");
            if bench.drivers[0].capabilities().answerable {
                assert_eq!(arrived[0].from, bench.address(0));
            }
            assert_eq!(arrived[0].from.ip(), bench.address(0).ip());
        }
    }
}

pub fn a_batch_keeps_its_order_and_boundaries(bench: &mut Bench) {
    for count in [2, 3, 15, 16, 17, 64, 150] {
        let payloads: Vec<_> = (0..count).map(|i| payload(i, (i * 37 + count) % 300)).collect();
        bench.send_payloads(0, 1, &payloads);
        assert_eq!(contents(&bench.receive(1, count)), payloads);
    }
    let bytes = bench.largest(1).min(SAFE_BYTES / 4);
    let large: Vec<_> = (0..4).map(|i| payload(i, bytes - i)).collect();
    bench.send_payloads(0, 1, &large);
    assert_eq!(contents(&bench.receive(1, large.len())), large);
}

pub fn runs_of_equal_datagrams_are_cut_where_they_were(bench: &mut Bench) {
    for (bytes, count) in [(1, 200), (64, 64), (64, 65), (96, 130), (1400, 40), (9000, 7)] {
        if bytes > bench.largest(1) {
            continue;
        }
        for last in [bytes, bytes / 2 + 1, 0] {
            let mut payloads: Vec<_> = (0..count - 1).map(|i| payload(i, bytes)).collect();
            payloads.push(payload(count, last));
            bench.send_payloads(0, 1, &payloads);
            let arrived = contents(&bench.receive(1, count));
            assert!(arrived == payloads, "{count} of {bytes} bytes, the last of {last}");
        }
    }
}

pub fn one_batch_reaches_several_destinations(bench: &mut Bench) {
    let payloads: Vec<_> = (0..90).map(|i| payload(i, 40 + i % 3)).collect();
    // Alternating, then in runs: each order of destinations cuts a batch in another way.
    for group in [1, 10] {
        let to = |i: usize| 1 + i / group % 3;
        let addresses = [0, 1, 2, 3].map(|i| bench.address(i));
        let batch: Vec<_> =
            payloads.iter().enumerate().map(|(i, p)| in_parts(addresses[to(i)], p, i)).collect();
        bench.send_all(0, &batch);
        for destination in 1..4 {
            let expected: Vec<_> =
                (0..90).filter(|i| to(*i) == destination).map(|i| payloads[i].clone()).collect();
            assert_eq!(contents(&bench.receive(destination, expected.len())), expected);
        }
    }
}

pub fn what_does_not_fit_is_named_and_stops_the_batch(bench: &mut Bench) {
    let too_large = payload(0, bench.largest(1) + 1);
    let (before, after, to) = (payload(1, 20), payload(2, 20), bench.address(1));
    for fitting in [0, 1, 3, 40] {
        let mut batch = vec![in_parts(to, &before, 0); fitting];
        batch.push(in_parts(to, &too_large, 3));
        batch.push(in_parts(to, &after, 0));
        let deadline = deadline();
        let result = loop {
            assert!(clump_os::clock::now_ns() < deadline, "{} bytes were taken", too_large.len());
            match bench.drivers[0].send(&batch) {
                // The wire was full first; datagrams that were taken are not sent again.
                Ok(taken) => drop(batch.drain(..taken)),
                Err(e) => break e,
            }
        };
        let DriverError::Oversized { index, bytes, to: refused } = &result else {
            panic!("refused by: {result}");
        };
        assert_eq!((*index, *bytes, *refused), (batch.len() - 2, too_large.len(), to));
        assert_eq!(result.index(), Some(batch.len() - 2));
        assert_eq!(contents(&bench.receive(1, fitting)), vec![before.clone(); fitting]);
        assert_eq!(contents(&bench.drain(1)), Vec::<Vec<u8>>::new());
    }
}

pub fn nothing_to_receive_is_no_error(bench: &mut Bench) {
    for _ in 0..2000 {
        assert_eq!(bench.receive_once(1), []);
    }
    assert_eq!(bench.drivers[0].send(&[]).unwrap(), 0);
    bench.send_payloads(0, 1, &[payload(1, 9)]);
    assert_eq!(contents(&bench.receive(1, 1)), [payload(1, 9)]);
    assert_eq!(bench.receive_once(1), []);
}

pub fn without_room_nothing_is_lost(bench: &mut Bench) {
    let payloads: Vec<_> = (0..20).map(|i| payload(i, 30 + i)).collect();
    bench.send_payloads(0, 1, &payloads);
    let mut one = Inbound::new(1);
    let (mut arrived, deadline) = (Vec::new(), deadline());
    while arrived.len() < payloads.len() {
        bench.push_along();
        one.clear();
        bench.drivers[1].receive(&mut one).unwrap();
        if one.room() == 0 {
            assert_eq!(bench.drivers[1].receive(&mut one).unwrap(), 0);
        }
        for i in 0..one.len() {
            arrived.push(one.datagram(i).bytes.to_vec());
        }
        assert!(clump_os::clock::now_ns() < deadline, "only {} arrived", arrived.len());
    }
    assert_eq!(arrived, payloads);
}

pub fn a_flood_is_refused_or_lost_but_never_spoilt(bench: &mut Bench) {
    let bytes = 1000;
    // More than any of them queues: 24 MB.
    let payloads: Vec<_> = (0..64).map(|i| payload(i, bytes)).collect();
    let to = bench.address(1);
    let batch: Vec<_> = payloads.iter().map(|p| in_parts(to, p, 0)).collect();
    let (mut taken, mut refusals, mut next) = (0, 0, 0);
    for _ in 0..375 {
        let sent = bench.drivers[0].send(&batch[next..]).unwrap();
        taken += sent;
        refusals += u64::from(sent < batch.len() - next);
        next = (next + sent) % batch.len();
    }
    let arrived = bench.drain(1);
    assert!(!arrived.is_empty() && arrived.len() <= taken, "{} of {taken}", arrived.len());
    assert!(refusals > 0 || arrived.len() < taken, "24 MB fitted into its queues");
    let mut expected = 0;
    for one in &arrived {
        let place = payloads.iter().position(|p| *p == one.bytes).expect("spoilt");
        if refusals > 0 {
            assert_eq!(place, expected, "lost although the wire refuses");
            expected = (expected + 1) % payloads.len();
        }
    }
    bench.send_payloads(0, 1, &[payload(9, 9)]);
    assert_eq!(contents(&bench.receive(1, 1)), [payload(9, 9)]);
}

pub fn marks_are_reported(bench: &mut Bench) {
    if !bench.drivers[1].capabilities().ecn {
        eprintln!("SKIPPED: this driver knows no marks");
        return;
    }
    // A crowd, since marks of single datagrams need not be reported.
    let payloads: Vec<_> = (0..200).map(|i| payload(i, 10 + i % 2)).collect();
    bench.send_payloads(0, 1, &payloads);
    let mut arrived = bench.receive(1, 200);
    bench.send_payloads(0, 1, &payloads);
    arrived.extend(bench.receive(1, 200));
    assert!(arrived.iter().all(|one| matches!(one.ecn, Ecn::Ect0 | Ecn::NotEct)));
    let marked = arrived.iter().filter(|one| one.ecn == Ecn::Ect0).count();
    assert!(marked >= 200, "{marked} of 400 were marked");
}

pub fn arrival_times_are_reported(bench: &mut Bench) {
    bench.send_payloads(0, 1, &[payload(1, 10), payload(2, 10), payload(3, 11)]);
    let arrived = bench.receive(1, 3);
    if bench.drivers[1].capabilities().timestamps {
        let year_2017_ns = 1_500_000_000_000_000_000;
        assert!(arrived.iter().all(|one| one.arrived_ns.is_some_and(|ns| ns > year_2017_ns)));
    } else {
        assert!(arrived.iter().all(|one| one.arrived_ns.is_none()));
        eprintln!("SKIPPED: this driver knows no arrival times");
    }
}

pub fn readiness_follows_the_queue(bench: &mut Bench) {
    if bench.drivers[1].readiness().is_none() {
        eprintln!("SKIPPED: this driver lives in one process and has nothing to wait for");
        return;
    }
    let ready = |bench: &Bench, limit: &Timespec| {
        let fd = bench.drivers[1].readiness().unwrap();
        let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        rustix::event::poll(&mut watched, Some(limit)).unwrap() == 1
    };
    let (now, spin_policy) =
        (Timespec { tv_sec: 0, tv_nsec: 0 }, Timespec { tv_sec: 20, tv_nsec: 0 });
    for _ in 0..3 {
        assert!(!ready(bench, &now));
        bench.send_payloads(0, 1, &[payload(1, 10), payload(2, 12)]);
        while !ready(bench, &now) {
            bench.push_along();
            ready(bench, &Timespec { tv_nsec: 1_000_000, ..spin_policy });
        }
        assert_eq!(contents(&bench.receive(1, 2)), [payload(1, 10), payload(2, 12)]);
    }
}

pub fn crowds_and_lone_datagrams_alternate(bench: &mut Bench) {
    for round in 0..4 {
        // A crowd of runs, met in the receive mode that the quiet period before left behind.
        let crowd: Vec<_> = (0..120).map(|i| payload(i + round, 200)).collect();
        bench.send_payloads(0, 1, &crowd);
        assert!(contents(&bench.receive(1, crowd.len())) == crowd, "crowd {round}");
        for i in 0..200 {
            bench.send_payloads(0, 1, &[payload(i, 50)]);
            assert_eq!(contents(&bench.receive(1, 1)), [payload(i, 50)]);
            assert_eq!(bench.receive_once(1), []);
        }
        if round % 2 == 1 {
            assert_eq!((0..1000).map(|_| bench.receive_once(1).len()).sum::<usize>(), 0);
        }
    }
}

pub fn an_unreachable_destination_disturbs_nobody(bench: &mut Bench) {
    let gone = bench.drivers.pop().unwrap();
    let nowhere = gone.local();
    drop(gone);
    let (lost, kept, to) = (payload(1, 30), payload(2, 30), bench.address(1));
    for _ in 0..20 {
        let batch: [Outgoing<'_>; 4] = [
            in_parts(nowhere, &lost, 0),
            in_parts(to, &kept, 0),
            in_parts(nowhere, &lost, 1),
            in_parts(to, &kept, 2),
        ];
        bench.send_all(0, &batch);
        bench.send_all(0, &batch[..1]);
        bench.send_all(0, &batch[1..2]);
        assert_eq!(bench.receive_once(0), []);
    }
    assert_eq!(contents(&bench.receive(1, 60)), vec![kept; 60]);
}

pub fn contents_may_be_changed_in_place(bench: &mut Bench) {
    let payloads: Vec<_> = (0..64).map(|i| payload(i, 100)).collect();
    let mut inbound = Inbound::new(64);
    for _ in 0..3 {
        bench.send_payloads(0, 1, &payloads);
        let deadline = deadline();
        inbound.clear();
        while inbound.len() < payloads.len() {
            bench.push_along();
            bench.drivers[1].receive(&mut inbound).unwrap();
            assert!(clump_os::clock::now_ns() < deadline, "only {} arrived", inbound.len());
        }
        for (i, sent) in payloads.iter().enumerate() {
            assert_eq!(inbound.datagram(i).bytes, sent);
            inbound.datagram(i).bytes.fill(0xee);
        }
        assert!((0..64).all(|i| inbound.datagram(i).bytes.iter().all(|byte| *byte == 0xee)));
    }
}
