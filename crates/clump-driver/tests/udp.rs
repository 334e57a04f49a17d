//! Properties that only the UDP driver guarantees: runs, options, several sockets, counts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_driver::{
    Clock, Driver, DriverError, Fault, FaultPlan, Inbound, Outgoing, Udp, UdpOptions,
};
use std::net::SocketAddr;

fn bind(options: UdpOptions) -> Udp {
    Udp::bind("127.0.0.1:0".parse().unwrap(), options).unwrap()
}

fn equal(to: SocketAddr, count: usize) -> Vec<Outgoing<'static>> {
    vec![Outgoing { to, head: &[7; 100], body: &[8; 900], tail: &[] }; count]
}

/// Receives until `count` datagrams have arrived.
fn receive(driver: &mut Udp, count: usize) -> Vec<Vec<u8>> {
    let (mut inbound, mut all) = (Inbound::new(16), Vec::new());
    let deadline = clump_os::clock::now_ns() + 20_000_000_000;
    while all.len() < count {
        inbound.clear();
        for i in 0..driver.receive(&mut inbound).unwrap() {
            all.push(inbound.datagram(i).bytes.to_vec());
        }
        assert!(clump_os::clock::now_ns() < deadline, "only {} of {count} arrived", all.len());
    }
    all
}

#[test]
fn a_batch_of_equal_datagrams_goes_in_few_calls_and_arrives_joined() {
    let mut from = bind(UdpOptions::default());
    let mut to = bind(UdpOptions { adaptive: false, ..UdpOptions::default() });
    if !from.capabilities().gso || !to.capabilities().gro {
        eprintln!("SKIPPED: UDP_SEGMENT and UDP_GRO need Linux 5.0");
        return;
    }
    assert_eq!(from.send(&equal(to.local(), 130)).unwrap(), 130);
    let counts = from.counts();
    assert_eq!((counts.sent, counts.send_calls, counts.segmented), (130, 1, 130));
    assert_eq!(receive(&mut to, 130).len(), 130);
    let counts = to.counts();
    assert_eq!((counts.received, counts.dropped), (130, 0));
    // 64, 64 and 2 were sent, in a buffer each unless a device cut them on the way.
    assert_eq!(counts.joined, 3);
}

#[test]
fn runs_respect_the_cap() {
    let mut to = bind(UdpOptions { adaptive: false, ..UdpOptions::default() });
    for (options, runs) in [
        (UdpOptions { gso_segments: 4, ..UdpOptions::default() }, 5),
        (UdpOptions { gso_bytes: 10_500, ..UdpOptions::default() }, 2),
        (UdpOptions { gso_segments: 0, ..UdpOptions::default() }, 0),
        (UdpOptions { gso: false, ..UdpOptions::default() }, 0),
    ] {
        let mut from = bind(options);
        let before = to.counts().joined;
        assert_eq!(from.send(&equal(to.local(), 20)).unwrap(), 20);
        assert!(receive(&mut to, 20).iter().all(|bytes| bytes.len() == 1000));
        if from.capabilities().gso && to.capabilities().gro {
            assert_eq!(to.counts().joined - before, runs, "{options:?}");
        }
        assert_eq!(from.counts().sent, 20);
    }
}

#[test]
fn a_crowd_is_noticed_and_forgotten() {
    let (mut from, mut to) = (bind(UdpOptions::default()), bind(UdpOptions::default()));
    let lone = |from: &mut Udp, to: &mut Udp, times| {
        for _ in 0..times {
            from.send(&equal(to.local(), 1)).unwrap();
            receive(to, 1);
            assert_eq!(to.receive(&mut Inbound::new(1)).unwrap(), 0);
        }
    };
    lone(&mut from, &mut to, 100);
    assert_eq!(to.counts().grew_dense, 0);
    for crowds in 1..3 {
        from.send(&equal(to.local(), 64)).unwrap();
        receive(&mut to, 64);
        assert_eq!(to.counts().grew_dense, crowds);
        lone(&mut from, &mut to, 200);
    }
}

#[test]
fn datagrams_nobody_reads_are_counted_as_dropped() {
    let mut from = bind(UdpOptions::default());
    let to = bind(UdpOptions { buffer_bytes: 65_536, ..UdpOptions::default() });
    let buffer = to.capabilities().receive_buffer;
    for _ in 0..buffer / 20_000 + 8 {
        assert_eq!(from.send(&equal(to.local(), 40)).unwrap(), 40);
    }
    assert!(to.counts().dropped > 0, "{:?} with a buffer of {buffer}", to.counts());
}

#[test]
fn several_sockets_all_receive_and_all_send() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let sockets = (0..3).map(|_| clump_os::udp::bind(any).unwrap()).collect();
    let mut multirail = Udp::new(sockets, UdpOptions::default()).unwrap();
    assert!(!multirail.capabilities().answerable);
    let addresses: Vec<_> = multirail.locals().collect();
    let mut others: Vec<_> = (0..12).map(|_| bind(UdpOptions::default())).collect();

    let batch: Vec<_> = addresses.iter().flat_map(|to| equal(*to, 20)).collect();
    assert_eq!(others[0].send(&batch).unwrap(), 60);
    assert_eq!(receive(&mut multirail, 60).len(), 60);

    let batch: Vec<_> = others.iter().flat_map(|other| equal(other.local(), 5)).collect();
    assert_eq!(multirail.send(&batch).unwrap(), 60);
    let mut sources = std::collections::BTreeSet::new();
    for other in &mut others {
        let mut inbound = Inbound::new(8);
        let (mut here, deadline) = (0, clump_os::clock::now_ns() + 20_000_000_000);
        let mut of_this = std::collections::BTreeSet::new();
        while here < 5 {
            inbound.clear();
            for i in 0..other.receive(&mut inbound).unwrap() {
                of_this.insert(inbound.datagram(i).from);
                here += 1;
            }
            assert!(clump_os::clock::now_ns() < deadline, "only {here} of 5 arrived");
        }
        assert_eq!(of_this.len(), 1, "one destination saw several sources");
        sources.extend(of_this);
    }
    assert!(sources.len() > 1 && sources.iter().all(|source| addresses.contains(source)));
}

#[test]
fn a_socket_of_both_families_reaches_and_names_peers_of_ipv4() {
    use rustix::net::{AddressFamily, SocketType, sockopt};
    let Ok(socket) = rustix::net::socket(AddressFamily::INET6, SocketType::DGRAM, None) else {
        eprintln!("SKIPPED: this machine has no IPv6");
        return;
    };
    sockopt::set_ipv6_v6only(&socket, false).unwrap();
    let any: SocketAddr = "[::]:0".parse().unwrap();
    if rustix::net::bind(&socket, &any).is_err() {
        eprintln!("SKIPPED: this machine has no IPv6");
        return;
    }
    let mut both = Udp::new(vec![socket], UdpOptions::default()).unwrap();
    let mut v4 = bind(UdpOptions::default());
    let there: SocketAddr = ([127, 0, 0, 1], both.local().port()).into();
    for count in [1, 40] {
        assert_eq!(v4.send(&equal(there, count)).unwrap(), count);
        let (mut inbound, mut here) = (Inbound::new(64), 0);
        let deadline = clump_os::clock::now_ns() + 20_000_000_000;
        while here < count {
            inbound.clear();
            for i in 0..both.receive(&mut inbound).unwrap() {
                assert_eq!(inbound.datagram(i).from, v4.local());
                here += 1;
            }
            assert!(clump_os::clock::now_ns() < deadline, "only {here} of {count} arrived");
        }
        assert_eq!(both.send(&equal(v4.local(), count)).unwrap(), count);
        receive(&mut v4, count);
    }
}

#[test]
fn what_is_no_bound_udp_socket_is_refused() {
    assert!(matches!(Udp::new(Vec::new(), UdpOptions::default()), Err(DriverError::Socket(_))));
    let (end, _other) = clump_os::socket::message_pair().unwrap();
    let refused = Udp::new(vec![end], UdpOptions::default());
    assert!(matches!(refused, Err(DriverError::Socket(_))));
    let nowhere = Udp::bind("203.0.113.1:9".parse().unwrap(), UdpOptions::default());
    assert!(nowhere.unwrap_err().to_string().contains("203.0.113.1:9"));
}

#[test]
fn a_destination_that_no_socket_may_send_to_is_named() {
    let mut from = bind(UdpOptions::default());
    let (good, bad) = (from.local(), "[::1]:9".parse().unwrap());
    let batch = [equal(good, 1), equal(bad, 1), equal(good, 1)].concat();
    let refused = from.send(&batch).unwrap_err();
    assert_eq!(refused.index(), Some(1));
    assert!(refused.to_string().contains("[::1]:9"), "{refused}");
    assert_eq!(receive(&mut from, 1).len(), 1);
}

#[test]
fn path_hints_come_from_the_interface() {
    let driver = bind(UdpOptions::default());
    assert_eq!(driver.path_hint("127.0.0.1:9".parse().unwrap()), Some(65_507));
    let largest = driver.capabilities().max_datagram;
    assert_eq!(largest, 65_507);
    assert!(driver.capabilities().receive_buffer >= 200_000);
}

#[test]
fn kept_datagrams_are_shown_where_they_lie_by_sockets_that_are_connected() {
    let memory: Vec<u8> = (0..1_u32 << 18).map(|i| (i % 249) as u8).collect();
    // The kernel gets whole pages of it; a datagram that begins elsewhere lies in too many.
    let page = memory.as_ptr().addr().wrapping_neg() % 4096;
    let mut to = bind(UdpOptions::default());
    for connections in [0, 1] {
        let mut from = bind(UdpOptions { connections, ..UdpOptions::default() });
        let there = to.local();
        let datagram = |head| Outgoing { to: there, head, body: &[], tail: &[] };
        let long = |at: usize| &memory[page + at..][..65_507];
        let batch = [long(0), long(1 << 16), long(2 << 16), long(4000), &memory[..100]];
        let batch = batch.map(datagram);
        assert_eq!(from.send_zero_copy(&batch).unwrap(), 5);
        let arrived = receive(&mut to, 5);
        assert!(arrived.iter().zip(&batch).all(|(bytes, sent)| bytes == sent.head));
        assert_eq!(from.counts().sent, 5);
        // Where the kernel has no zero-copy send, all are copied.
        let shown = from.counts().shown;
        assert!(shown == 3 * connections as u64 || shown == 0, "{shown} shown");
        let too_long = vec![0; 66_000];
        assert!(from.send_zero_copy(&[datagram(&too_long)]).is_err());
        assert_eq!(
            from.send_zero_copy(&batch[..1]).unwrap(),
            1,
            "what is refused spoils nothing behind it"
        );
        assert!(receive(&mut to, 1)[0] == batch[0].head);
    }
}

#[test]
fn a_kept_run_is_shown_at_once_and_what_is_longer_is_not_cut_behind_it() {
    let memory: Vec<u8> = (0..1_u32 << 17).map(|i| (i % 249) as u8).collect();
    let page = memory.as_ptr().addr().wrapping_neg() % 4096;
    let mut to = bind(UdpOptions::default());
    let mut from = bind(UdpOptions { connections: 1, ..UdpOptions::default() });
    let there = to.local();
    let datagram = |head| Outgoing { to: there, head, body: &[], tail: &[] };
    let run: Vec<_> = memory[page..][..44 * 1468].chunks(1468).map(datagram).collect();
    let long = datagram(&memory[..5000]);
    for (shown, lone) in [(44, &[long][..]), (88, &[long, datagram(&memory[..40])])] {
        assert_eq!(from.send_zero_copy(&run).unwrap(), 44);
        let arrived = receive(&mut to, 44);
        assert!(arrived.iter().zip(&run).all(|(bytes, sent)| bytes == sent.head));
        let counted = from.counts().shown;
        assert!(counted == shown || counted == 0, "{counted} shown of {shown}");
        assert_eq!(from.send(lone).unwrap(), lone.len());
        let arrived = receive(&mut to, lone.len());
        assert!(arrived.iter().zip(lone).all(|(bytes, sent)| bytes == sent.head));
    }
}

#[test]
fn a_sender_that_loses_only_what_arrives_shows_what_it_would_show_without() {
    let memory: Vec<u8> = vec![7; 1 << 17];
    let page = memory.as_ptr().addr().wrapping_neg() % 4096;
    let to = bind(UdpOptions::default());
    let there = to.local();
    let datagram = |head| Outgoing { to: there, head, body: &[], tail: &[] };
    let run: Vec<_> = memory[page..][..44 * 1468].chunks(1468).map(datagram).collect();
    let mut plain = bind(UdpOptions { connections: 1, ..UdpOptions::default() });
    assert_eq!(plain.send_zero_copy(&run).unwrap(), 44);
    let plan = FaultPlan { loss_on_arrival: 1.0, ..FaultPlan::default() };
    let lossy = bind(UdpOptions { connections: 1, ..UdpOptions::default() });
    let mut lossy = Fault::new(lossy, 1, plan, Clock::Steady);
    assert_eq!(lossy.send_zero_copy(&run).unwrap(), 44);
    assert_eq!(lossy.inner().counts(), plain.counts());
}

#[test]
fn the_end_of_one_row_is_no_reason_to_copy_the_next() {
    let rows: [Vec<u8>; 2] =
        [7, 9].map(|fill| (0..1_u32 << 17).map(|i| (i % fill) as u8).collect());
    let [end, next] = rows.each_ref().map(|row| &row[row.as_ptr().addr().wrapping_neg() % 4096..]);
    let mut to = bind(UdpOptions::default());
    for ends in [2, 20] {
        let mut from = bind(UdpOptions { connections: 1, ..UdpOptions::default() });
        let there = to.local();
        let datagram = |head| Outgoing { to: there, head, body: &[], tail: &[] };
        let pieces = end[..ends * 1468].chunks(1468).chain(next[..44 * 1468].chunks(1468));
        let batch: Vec<_> = pieces.map(datagram).collect();
        assert_eq!(from.send_zero_copy(&batch).unwrap(), batch.len());
        let arrived = receive(&mut to, batch.len());
        assert!(arrived.iter().zip(&batch).all(|(bytes, sent)| bytes == sent.head));
        let counts = from.counts();
        assert_eq!(counts.sent, batch.len() as u64);
        if counts.shown > 0 {
            // Datagrams too short for a zero-copy send are copied, and nothing else.
            let all = if ends < 12 { 44 } else { ends as u64 + 44 };
            assert_eq!((counts.shown, counts.send_calls), (all, 2));
        }
    }
}
