use super::*;
use std::io::IoSlice;

fn pair(host: &str) -> Option<[(OwnedFd, SocketAddr); 2]> {
    let address: SocketAddr = host.parse().unwrap();
    let one = || {
        let socket = bind(address)?;
        let bound = bound(&socket).unwrap();
        Ok::<_, OsError>((socket, bound))
    };
    match (one(), one()) {
        (Ok(a), Ok(b)) => Some([a, b]),
        _ => {
            eprintln!("SKIPPED for {host}: this machine has no such address");
            None
        }
    }
}

#[test]
fn datagrams_go_by_every_call_and_keep_their_marks() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        let Some([(a, from), (b, to)]) = pair(host) else { continue };
        let prepared = prepare(a.as_fd(), 1 << 20).unwrap();
        assert!(prepared.receive_buffer > 0 && prepared.send_buffer > 0);
        prepare(b.as_fd(), 1 << 20).unwrap();
        let mut buffer = vec![0; 65_536];
        assert_eq!(receive(b.as_fd(), &mut buffer).unwrap_err(), Errno::AGAIN);
        assert_eq!(receive_full(b.as_fd(), &mut buffer).unwrap_err(), Errno::AGAIN);

        send(a.as_fd(), Some(&to), b"whole").unwrap();
        assert_eq!(receive(b.as_fd(), &mut buffer).unwrap(), (5, from));
        assert_eq!(&buffer[..5], b"whole");

        set_marks(b.as_fd(), true).unwrap();
        set_timestamps(b.as_fd()).unwrap();
        let parts = [IoSlice::new(b"in "), IoSlice::new(b"parts")];
        send_parts(a.as_fd(), Some(&to), &parts).unwrap();
        let arrived = receive_full(b.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..arrived.bytes], arrived.from), (&b"in parts"[..], from));
        assert_eq!(arrived.class & 3, if prepared.ecn { 2 } else { 0 });
        assert!(arrived.arrived_ns.is_some_and(|ns| ns > 1_500_000_000_000_000_000));
        assert_eq!(dropped(&b), Some(0));
        assert!(path_hint(from, to).unwrap() >= 1232);
    }
}

#[test]
fn a_segmented_message_arrives_as_a_run_beside_a_plain_one() {
    let Some([(a, from), (b, to)]) = pair("127.0.0.1:0") else { return };
    let (sender, receiver) =
        (prepare(a.as_fd(), 1 << 20).unwrap(), prepare(b.as_fd(), 1 << 20).unwrap());
    if !sender.gso || !receiver.gro {
        eprintln!("SKIPPED: UDP_SEGMENT and UDP_GRO need Linux 5.0");
        return;
    }
    set_gro(b.as_fd(), true).unwrap();
    let mut outbox = Outbox::new(2, 4);
    let mut post = outbox.post();
    post.message(Some(&to), Some(4));
    post.datagrams([[&b"aaaa"[..], b""], [b"bb", b"bb"], [b"", b"cc"]].into_iter());
    post.message(Some(&to), None);
    post.datagrams([[&b"alone"[..]]].into_iter());
    assert_eq!((post.len(), post.is_empty()), (2, false));
    assert_eq!(post.send(a.as_fd()), Ok(2));

    let mut buffers = vec![vec![0; 65_536]; 3];
    let mut inbox = Inbox::new(3);
    let slices = buffers.iter_mut().map(Vec::as_mut_slice);
    assert_eq!(inbox.receive(b.as_fd(), slices), Ok(2));
    let run = inbox.arrived(0).unwrap();
    assert_eq!((run.bytes, run.segment, run.from), (10, Some(4), from));
    assert_eq!(&buffers[0][..10], b"aaaabbbbcc");
    assert_eq!(inbox.arrived(1).unwrap().segment, None);
    assert_eq!(&buffers[1][..5], b"alone");
    assert_eq!(inbox.arrived(2), None);
    assert_eq!(outbox.post().send(a.as_fd()), Ok(0));
}

#[test]
fn parts_arrive_in_order_however_they_lie_in_memory() {
    let Some([(a, _), (b, to)]) = pair("127.0.0.1:0") else { return };
    prepare(a.as_fd(), 1 << 20).unwrap();
    prepare(b.as_fd(), 1 << 20).unwrap();
    let bytes: Vec<u8> = (0..60_000u32).map(|i| (i ^ (i >> 8)) as u8).collect();
    let (mut outbox, mut buffer) = (Outbox::new(1, 8), vec![0; 65_536]);
    let mut check = |ranges: &[std::ops::Range<usize>]| {
        let mut post = outbox.post();
        post.message(Some(&to), None);
        post.datagrams(ranges.iter().map(|range| [&bytes[range.clone()]]));
        assert_eq!(post.send(a.as_fd()), Ok(1));
        let (received, _) = receive(b.as_fd(), &mut buffer).unwrap();
        let expected: Vec<u8> =
            ranges.iter().flat_map(|range| &bytes[range.clone()]).copied().collect();
        assert!(buffer[..received] == expected, "{ranges:?}");
    };
    check(&[]);
    check(&[5..5, 7..7]);
    check(&[0..3, 3..9, 9..10]);
    check(&[0..30_000, 30_000..30_000, 30_000..60_000]);
    check(&[0..100, 200..300, 300..400]);
    check(&[0..100, 5000..10_000, 10_000..15_000, 0..50, 50..90]);
    check(&[9..20_000, 0..9, 0..9, 20_000..40_000]);
    check(&[0..2048, 3000..5049, 0..2048, 6000..7000, 1..2]);
}

#[test]
fn only_bound_udp_sockets_are_usable() {
    assert_eq!(bound(crate::socket::message_pair().unwrap().0), None);
    let unbound = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    assert_eq!(bound(&unbound), None);
    assert!(bind("203.0.113.1:0".parse().unwrap()).is_err());
}

#[test]
fn pages_that_are_shown_arrive_as_one_datagram_wherever_they_begin() {
    let Some([(a, _), (b, to)]) = pair("127.0.0.1:0") else { return };
    drop(a);
    let socket = connect("127.0.0.1:0".parse().unwrap(), to, 1 << 20).unwrap();
    let mut zero_copy_pipe = ZeroCopyPipe::new().unwrap();
    let memory: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let page = memory.as_ptr().addr().wrapping_neg() % 4096;
    let memory = &memory[page..];
    // The kernel would make two fragments of 17 pages.
    let long = &memory[4000..4000 + MAX_BYTES_V4];
    assert!(zero_copy_pipe.send(socket.as_fd(), std::iter::once(long)).is_none());
    let mut into = vec![0; 70_000];
    for (begin, bytes) in [(0, MAX_BYTES_V4), (21, MAX_BYTES_V4), (4095, 40_000), (77, 4096)] {
        let datagram = &memory[begin..begin + bytes];
        zero_copy_pipe.send(socket.as_fd(), std::iter::once(datagram)).unwrap().unwrap();
        let (got, _) = receive(b.as_fd(), &mut into).unwrap();
        assert!(into[..got] == *datagram, "{got} bytes of {bytes} at {begin}");
    }
    // Too long for a datagram: refused as a whole.
    let long = &memory[..MAX_BYTES_V4 + 10];
    assert!(zero_copy_pipe.send(socket.as_fd(), std::iter::once(long)).unwrap().is_err());
    assert_eq!(receive(b.as_fd(), &mut into).unwrap_err(), Errno::AGAIN);
    let mut zero_copy_pipe = ZeroCopyPipe::new().unwrap();
    zero_copy_pipe.send(socket.as_fd(), std::iter::once(&memory[..5000])).unwrap().unwrap();
    assert_eq!(receive(b.as_fd(), &mut into).unwrap().0, 5000);
}

#[test]
fn a_run_that_lies_back_to_back_is_shown_at_once_and_cut() {
    let Some([(a, _), (b, to)]) = pair("127.0.0.1:0") else { return };
    drop(a);
    let socket = connect("127.0.0.1:0".parse().unwrap(), to, 1 << 20).unwrap();
    let mut zero_copy_pipe = ZeroCopyPipe::new().unwrap();
    let memory: Vec<u8> = (0..60_000_u32).map(|i| (i % 251) as u8).collect();
    set_segment(socket.as_fd(), 1468).unwrap();
    zero_copy_pipe.send(socket.as_fd(), memory[..44_000].chunks(1468)).unwrap().unwrap();
    let mut into = vec![0; 70_000];
    for expected in memory[..44_000].chunks(1468) {
        let (got, _) = receive(b.as_fd(), &mut into).unwrap();
        assert!(into[..got] == *expected, "{got} bytes");
    }
    assert_eq!(receive(b.as_fd(), &mut into).unwrap_err(), Errno::AGAIN);
    let apart = memory.chunks(1468).step_by(2);
    assert!(zero_copy_pipe.send(socket.as_fd(), apart).is_none(), "they are not contiguous");
}

#[test]
fn what_was_shown_is_sent_whatever_lies_there_once_it_is_withdrawn() {
    const PAGE: usize = 4096;
    let [to, from] = ["127.0.0.1:0"; 2].map(|any| std::net::UdpSocket::bind(any).unwrap());
    from.connect(to.local_addr().unwrap()).unwrap();
    let mut memory: Vec<u8> = Vec::with_capacity(12 * PAGE);
    let start = memory.as_ptr().addr().wrapping_neg() % PAGE;
    memory.resize(start + 10 * PAGE, 7);
    let mut zero_copy_pipe = ZeroCopyPipe::new().unwrap();
    zero_copy_pipe.send(from.as_fd(), std::iter::once(&memory[start..])).unwrap().unwrap();
    memory.clear();
    assert!(withdraw(memory.spare_capacity_mut()));
    memory.resize(memory.capacity(), 9);
    let mut got = vec![0; 11 * PAGE];
    let bytes = to.recv(&mut got).unwrap();
    assert_eq!(bytes, 10 * PAGE);
    assert!(got[..bytes].iter().all(|&byte| byte == 7));
}
