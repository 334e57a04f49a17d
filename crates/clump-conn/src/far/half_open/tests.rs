use super::*;
use crate::far::handshake::{Handshake, RETRY, Told, Words};
use crate::listener::Listener;
use crate::lock::lock;
use crate::port::Port;
use crate::{Connection, Token};
use clump_am::RankContext;
use clump_os::clock;
use clump_os::sync::{AtomicBool, Ordering};
use clump_test_bed::lone as job;
use clump_trace::{Counter, Counters};
use std::time::Duration;

/// More than ten times what any step here may take.
const LONG: Duration = Duration::from_secs(20);

fn calm() -> Between {
    Between { silence: LONG, security: Security::Aead, faults: None }
}

fn count(job: &RankContext, counter: Counter) -> u64 {
    Counters::over(job.block().counters()).get(counter)
}

fn eventually(mut what: impl FnMut() -> bool) {
    let limit = clock::now_ns() + LONG.as_nanos() as u64;
    while !what() {
        assert!(clock::now_ns() < limit, "it never came");
        std::thread::yield_now();
    }
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn half_open(
    number: u64,
    from: IpAddr,
    reservation: Arc<QueueReservation>,
    opened_ns: u64,
) -> HalfOpen {
    let peer = SocketAddr::new(from, 9);
    let key = clump_net::seal::JobKey::new(&mut [1; 32]).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut client = [0; KEY_BYTES];
    client[..8].copy_from_slice(&number.to_le_bytes());
    let terms = LinkParameters { me: SERVER, epoch: 1, peer, peer_epoch: 2, key };
    HalfOpen {
        number,
        socket,
        terms,
        order: Order::Any,
        reservation,
        client,
        handshake_socket: peer,
        opened_ns,
    }
}

/// Takes as many places as `ip` gets at that moment.
fn fill(all: &mut HalfOpens, queue: &Arc<Queue>, ip: IpAddr, now_ns: u64) -> usize {
    let mut got = 0;
    while let Ok(reservation) = all.reserve(queue, ip, now_ns) {
        all.enter(half_open(now_ns + got, ip, reservation, now_ns));
        got += 1;
        assert!(got < 100, "it never ends");
    }
    got as usize
}

#[test]
fn no_source_takes_all_places_and_the_oldest_makes_room() {
    const NOW: u64 = 1_000_000_000_000;
    let (queue, mut all) = (Arc::new(Queue::new(8)), HalfOpens::default());
    let got: Vec<_> = (1..6).map(|last| fill(&mut all, &queue, ip(last), NOW)).collect();
    assert_eq!(got, [4, 2, 1, 1, 0], "half of what is free, and the next half of the rest");
    assert_eq!(all.reserve(&queue, ip(1), NOW + GRACE_NS - 1).unwrap_err(), BUSY);
    // A source without a place takes that of the source with the most; one with some, its own
    // oldest.
    let reservation = all.reserve(&queue, ip(5), NOW + GRACE_NS).unwrap();
    all.enter(half_open(900, ip(5), reservation, NOW + GRACE_NS));
    let of =
        |all: &HalfOpens, last| all.all.iter().filter(|h| h.terms.peer.ip() == ip(last)).count();
    assert_eq!([1, 2, 3, 4, 5].map(|last| of(&all, last)), [3, 2, 1, 1, 1]);
    let reservation = all.reserve(&queue, ip(3), NOW + GRACE_NS).unwrap();
    all.enter(half_open(901, ip(3), reservation, NOW + GRACE_NS));
    assert_eq!([1, 2, 3, 4, 5].map(|last| of(&all, last)), [3, 2, 1, 1, 1]);
    assert_eq!((all.len(), all.given_up, queue.free()), (8, 2, Ok(0)));
    all.forget_old(NOW + LIMIT_NS);
    assert_eq!((all.len(), all.given_up), (2, 8));
    all.forget_old(NOW + 2 * LIMIT_NS);
    assert_eq!((all.len(), all.all.capacity(), queue.free()), (0, 0, Ok(8)), "all is given back");
}

#[test]
fn addresses_that_one_holder_has_are_one_source() {
    let of = |text: &str| source(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
}

/// A client that has the token and does not follow the protocol.
struct Raw {
    handshake: Handshake,
    socket: UdpSocket,
}

impl Raw {
    fn new(token: &Token, from: [u8; 4]) -> Self {
        let words = Words { code: 0, epoch: 5, port: token.port.0 };
        let handshake = Handshake::begin(&token.secret, words, token.addresses.len()).unwrap();
        let socket = UdpSocket::bind(SocketAddr::from((from, 0))).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Self { handshake, socket }
    }

    fn say(&self, token: &Token, handshake_socket: usize) {
        self.socket
            .send_to(self.handshake.hello(handshake_socket), token.addresses[handshake_socket])
            .unwrap();
    }

    /// Sends its hello to a handshake socket, and returns the effect of the answer.
    fn ask(&mut self, token: &Token, handshake_socket: usize) -> Told {
        self.say(token, handshake_socket);
        let mut packet = [0; 200];
        loop {
            let (bytes, _) = self.socket.recv_from(&mut packet).unwrap();
            // Answers to earlier hellos may still arrive.
            if let Ok(told) =
                self.handshake.handle_answer(&token.secret, handshake_socket, &packet[..bytes])
            {
                return told;
            }
        }
    }
}

fn invitation(listener: &Listener) -> Arc<crate::far::Invitation> {
    listener.hub().far.shared().unwrap().invitations().remove(0)
}

#[test]
fn a_hello_that_was_refused_is_worth_nothing_afterwards() {
    let (server, client) = (job(1), job(2));
    let listener = Listener::bind_with(&server, Port(7), 1).unwrap();
    let token = listener.invite_between(&[([127, 0, 0, 1], 0).into()], &calm()).unwrap();
    let connect = || Connection::connect_between(&client, &token, Order::Ordered, LONG, &calm());
    let one = connect().unwrap();
    eventually(|| count(&server, Counter::ConnEstablished) == 1);
    let mut late = Raw::new(&token, [127, 0, 0, 1]);
    assert!(matches!(late.ask(&token, 0), Told::Again), "a cookie first");
    let refused = late.handshake.hello(0).to_vec();
    assert!(matches!(late.ask(&token, 0), Told::Refused(FULL)));
    // Now there is space. The same packet comes again, from the same address.
    let accepted = listener.accept_within(LONG).unwrap().unwrap();
    late.socket.send_to(&refused, token.addresses[0]).unwrap();
    let mut packet = [0; 200];
    let (bytes, _) = late.socket.recv_from(&mut packet).unwrap();
    assert_eq!(packet[8 + KEY_BYTES], RETRY, "it is asked for a new cookie");
    let told = late.handshake.handle_answer(&token.secret, 0, &packet[..bytes]);
    assert!(matches!(told, Ok(Told::Later(RETRY))), "only its maker can go on: {told:?}");
    assert_eq!(lock(&invitation(&listener).half_open).len(), 0);
    drop((one, accepted));
    drop(connect().unwrap());
}

#[test]
fn a_client_that_knocks_at_two_addresses_takes_one_place() {
    let server = job(1);
    let listener = Listener::bind_with(&server, Port(7), 1).unwrap();
    let addresses = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| address.parse().unwrap());
    let token = listener.invite_between(&addresses, &calm()).unwrap();
    let mut client = Raw::new(&token, [127, 0, 0, 1]);
    for handshake_socket in 0..2 {
        assert!(matches!(client.ask(&token, handshake_socket), Told::Again));
        client.say(&token, handshake_socket);
        eventually(|| lock(&invitation(&listener).half_open).len() == handshake_socket + 1);
    }
    assert_eq!((count(&server, Counter::ConnRefused), count(&server, Counter::ConnPutOff)), (0, 0));
    assert_eq!(invitation(&listener).queue.free(), Ok(0), "both have one place");
}

#[test]
fn what_comes_for_a_handshake_and_is_not_the_clients_makes_no_connection() {
    let server = job(1);
    let listener = Listener::bind_with(&server, Port(7), 1).unwrap();
    let token = listener.invite_between(&[([127, 0, 0, 1], 0).into()], &calm()).unwrap();
    let mut client = Raw::new(&token, [127, 0, 0, 1]);
    assert!(matches!(client.ask(&token, 0), Told::Again));
    let Told::HandshakeReply(words, _) = client.ask(&token, 0) else { panic!("it is let in") };
    for bytes in [0, 1, 40, 1400] {
        client.socket.send_to(&vec![1; bytes], ("127.0.0.1", words.port)).unwrap();
    }
    let invitation = invitation(&listener);
    let waits = || lock(&invitation.half_open).all[0].socket.peek_from(&mut [0; 1]).is_ok();
    eventually(|| !waits());
    assert_eq!(lock(&invitation.half_open).len(), 1);
    assert_eq!((count(&server, Counter::ConnEstablished), listener.is_ready()), (0, false));
}

/// Sends hellos as fast as it can, with their cookies, and never sends a first packet.
fn flood(token: &Token, from: [u8; 4], over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let mut one = Raw::new(token, from);
        one.socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        one.say(token, 0);
        let mut packet = [0; 200];
        // If the server drops a hello, the next one follows.
        let Ok((bytes, _)) = one.socket.recv_from(&mut packet) else { continue };
        if one.handshake.handle_answer(&token.secret, 0, &packet[..bytes]).is_ok() {
            one.say(token, 0);
        }
    }
}

#[test]
fn a_flood_by_one_that_holds_the_token_keeps_nobody_out_and_takes_bounded_memory() {
    const PLACES: usize = 16;
    for flooder in [[127, 0, 0, 1], [127, 0, 0, 3]] {
        let (server, client) = (job(1), job(2));
        let listener = Listener::bind_with(&server, Port(7), PLACES).unwrap();
        let token = listener.invite_between(&[([127, 0, 0, 1], 0).into()], &calm()).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| flood(&token, flooder, &over));
            // Also when a check below fails.
            let _over = End(&over);
            eventually(|| count(&server, Counter::ConnPutOff) > 0);
            for word in [b"one", b"two"] {
                let connect =
                    Connection::connect_between(&client, &token, Order::Ordered, LONG, &calm());
                let connection = connect.unwrap();
                connection.send(word).unwrap();
                let accepted = listener.accept_within(LONG).unwrap().unwrap();
                assert_eq!(accepted.recv().unwrap().unwrap(), word);
                assert!(lock(&invitation(&listener).half_open).len() <= PLACES / 2 + 1);
            }
            // A handshake that never completes has no stack, and makes way for others of its kind.
            assert_eq!(count(&server, Counter::ConnEstablished), 2);
            eventually(|| count(&server, Counter::ConnGivenUp) > 0);
        });
        let invitation = invitation(&listener);
        // Hellos that were still queued at the socket may add some meanwhile.
        eventually(|| {
            invitation.forget_old(clock::now_ns() + 2 * LIMIT_NS);
            invitation.kept() == (0, 0) && lock(&invitation.half_open).all.capacity() == 0
        });
    }
}

/// Sets its flag when dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
