use super::*;
use std::os::fd::AsRawFd;

fn identity() -> RankIdentity {
    let job_id = 0xdead_beef_0123_4567;
    let (stats, terminal, net) = (true, false, false);
    let services = 0x1234_5678_9abc_def0;
    RankIdentity {
        rank: 3,
        nranks: 5,
        node: 1,
        nnodes: 2,
        job_id,
        stats,
        terminal,
        services,
        net,
        line: net,
    }
}

fn memory() -> OwnedFd {
    clump_os::map::sealed_memory("x", 4096).unwrap()
}

#[test]
fn a_seat_survives_the_journey() {
    assert_eq!(RankIdentity::decode(&identity().encode()).unwrap(), identity());
}

#[test]
fn a_program_started_by_hand_has_no_seat() {
    assert!(!started_as_rank());
    assert!(join().unwrap().is_none());
}

#[test]
fn the_first_process_takes_the_seat_and_the_second_hears_why_not() {
    let (theirs, ours) = offer(&identity(), memory().as_fd(), None).unwrap();
    let number = theirs.as_raw_fd().to_string();
    assert_eq!(boot_socket_event(&ours), None);
    let boot = take(&number).unwrap();
    assert_eq!(boot_socket_event(&ours), Some(BootSocketEvent::Joined));
    assert_eq!((boot.rank, boot.nranks, boot.node, boot.nnodes), (3, 5, 1, 2));
    assert_eq!(boot.job_id, identity().job_id);
    assert!(boot.stats && !boot.terminal && boot.net.is_none() && boot.alarms.is_empty());
    assert_eq!(clump_os::map::sealed_size(boot.memory.as_fd()).unwrap(), Some(4096));
    let error = take(&number).unwrap_err();
    assert!(matches!(error, Error::SeatTaken { .. }), "{error}");
    assert!(error.to_string().contains("joined as that rank already"));
    drop((boot, theirs));
    assert_eq!(boot_socket_event(&ours), Some(BootSocketEvent::Left));
    assert_eq!(boot_socket_event(&ours), Some(BootSocketEvent::Closed));
}

#[test]
fn numbers_that_lead_elsewhere_are_refused() {
    let other = memory();
    for number in ["", "-1", "999999", "abc", &other.as_raw_fd().to_string()] {
        assert!(matches!(take(number).unwrap_err(), Error::SeatTaken { .. }), "{number}");
    }
}

#[test]
fn other_versions_and_nonsense_are_refused() {
    let good = identity().encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        RankIdentity::decode(&bytes)
    };
    assert!(with(0, 0).is_err(), "magic");
    assert!(with(16, 9).unwrap_err().to_string().contains("version 9"));
    assert!(with(24, 5).is_err(), "rank beyond the last");
    assert!(with(32, 2).is_err(), "node beyond the last");
    assert!(RankIdentity::decode(&good[..20]).is_err());
    let (theirs, ours) = socket::message_pair().unwrap();
    socket::send(&ours, &good, None).unwrap();
    let error = take(&theirs.as_raw_fd().to_string()).unwrap_err();
    assert!(error.to_string().contains("without memory"));
}

/// Returns a boot connection of a job with several nodes, with so many alarms.
fn offer_net(key: &Secret<[u8; 32]>, count: usize) -> (OwnedFd, OwnedFd) {
    let alarms: Vec<OwnedFd> = (0..count).map(|_| memory()).collect();
    let alarms: Vec<BorrowedFd<'_>> = alarms.iter().map(AsFd::as_fd).collect();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (sockets, security) = (&[socket.into(), memory()], Security::Crc);
    let line = Some(NetworkAttachment { sockets, key, security, direct: &[memory()] });
    let net = NetworkOffer { line, first: 2, interfaces: 1, alarms: &alarms };
    offer(&identity(), memory().as_fd(), Some(&net)).unwrap()
}

#[test]
fn socket_key_and_alarms_come_with_a_seat_on_several_nodes() {
    let key = Secret::random().unwrap();
    for count in [1, 3, MAX_DESCRIPTORS, MAX_DESCRIPTORS + 1] {
        let (theirs, ours) = offer_net(&key, count);
        let boot = take(&theirs.as_raw_fd().to_string()).unwrap();
        assert_eq!(boot_socket_event(&ours), Some(BootSocketEvent::Joined));
        let net = boot.net.unwrap();
        assert_eq!((*net.key, net.security), (*key, Security::Crc));
        assert_eq!((net.sockets.len(), net.direct.len()), (2, 1));
        let first = net.sockets.into_iter().next().unwrap();
        assert!(std::net::UdpSocket::from(first).local_addr().unwrap().port() != 0);
        let ranks: Vec<u32> = boot.alarms.iter().map(|(rank, _)| *rank).collect();
        // The last is that of the interface of node 1 of 5 ranks.
        assert_eq!(ranks, (2..).take(count - 1).chain([5 + 1]).collect::<Vec<u32>>());
        assert_eq!(clump_os::map::sealed_size(boot.memory.as_fd()).unwrap(), Some(4096));
    }
}

#[test]
fn a_seat_that_is_being_taken_is_taken() {
    let (theirs, _ours) = offer_net(&Secret::random().unwrap(), 1);
    let mut first = [0; BYTES + NET_BYTES + KEY_BYTES];
    scm_message::receive(&theirs, &mut [&mut first]).unwrap().unwrap();
    let error = take(&theirs.as_raw_fd().to_string()).unwrap_err();
    assert!(matches!(error, Error::SeatTaken { .. }), "{error}");
}

#[test]
fn the_program_learns_which_services_its_agent_has() {
    let other = RankIdentity { services: identity().services ^ 1 << 63, ..identity() };
    let (theirs, ours) = offer(&other, memory().as_fd(), None).unwrap();
    let boot = take(&theirs.as_raw_fd().to_string()).unwrap();
    assert_eq!(boot.services, other.services);
    assert_ne!(boot.services, identity().services);
    drop((boot, theirs, ours));
    let line = Error::OtherVersion("other services than batch:1".into()).to_string();
    assert!(
        line.contains("(other services than batch:1)") && line.contains("one version"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
}
