//! Connections between jobs: by a token, over a network that loses packets, and the admission of
//! clients.

#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_conn::{
    Between, Connection, End, Error, Listener, Order, Port, Received, Refusal, Security,
    SendAttempt, Token,
};
use clump_os::sync::{AtomicBool, Ordering};
use clump_test_bed::lone as job;
use clump_test_bed::pair::{LONG, anywhere, both, calm, troubled};
use clump_trace::{Counter, Counters};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

fn message(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + number * 7) as u8).collect()
}

fn connect(
    job: &std::sync::Arc<clump_am::RankContext>,
    token: &Token,
    between: &Between,
) -> Connection {
    Connection::connect_between(job, token, Order::Ordered, LONG, between).unwrap()
}

#[test]
fn messages_go_both_ways_under_each_protection_and_over_a_bad_network() {
    const LENGTHS: [usize; 7] = [0, 1, 1000, 32_768, 32_769, 300_000, 3_000_000];
    let crc = Between { security: Security::Crc, ..calm() };
    for between in [calm(), crc, troubled(3)] {
        let (server, client) = (job(1), job(2));
        let listener = Listener::bind(&server, Port(7)).unwrap();
        let token = listener.invite_between(&anywhere(), &between).unwrap();
        // Serialized, as it would go from one job to the other.
        let token: Token = token.to_string().parse().unwrap();
        both(
            || {
                let connection = listener.accept_within(LONG).unwrap().unwrap();
                while let Some(message) = connection.recv().unwrap() {
                    connection.send(&message).unwrap();
                }
                connection.close().unwrap();
            },
            || {
                let connection = connect(&client, &token, &between);
                for (number, &len) in (0..).zip(&LENGTHS) {
                    connection.send(&message(number, len)).unwrap();
                    let back = connection.recv().unwrap().unwrap();
                    assert!(back == message(number, len), "{len} bytes were altered");
                }
                connection.finish().unwrap();
                assert_eq!(connection.recv().unwrap(), None);
            },
        );
    }
}

#[test]
fn floods_from_many_clients_arrive_once_and_in_order() {
    const CLIENTS: u64 = 8;
    const MESSAGES: u64 = 400;
    let server = job(1);
    let listener = Listener::bind(&server, Port(7)).unwrap();
    let token = listener.invite_between(&anywhere(), &troubled(9)).unwrap();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (token, client) = (&token, job(2 + number));
            scope.spawn(move || {
                let connection = connect(&client, token, &troubled(number));
                for at in 0..MESSAGES {
                    connection.send(&message(at, at as usize * 7 % 3000)).unwrap();
                }
                connection.close().unwrap();
            });
        }
        let all: Vec<_> =
            (0..CLIENTS).map(|_| listener.accept_within(LONG).unwrap().unwrap()).collect();
        for connection in all {
            for at in 0..MESSAGES {
                let received = connection.recv().unwrap().unwrap();
                assert!(received == message(at, at as usize * 7 % 3000));
            }
            assert_eq!(connection.recv().unwrap(), None);
        }
    });
    assert_eq!(count(&server, Counter::ConnEstablished), CLIENTS);
}

fn count(job: &clump_am::RankContext, counter: Counter) -> u64 {
    Counters::over(job.block().counters()).get(counter)
}

/// Waits for a condition that another thread brings about.
fn eventually(mut what: impl FnMut() -> bool) {
    let limit = clump_os::clock::now_ns() + LONG.as_nanos() as u64;
    while !what() {
        assert!(clump_os::clock::now_ns() < limit, "it never came");
        std::thread::yield_now();
    }
}

#[test]
fn who_has_no_token_costs_a_counter_and_gets_no_answer() {
    let (server, client) = (job(1), job(2));
    let listener = Listener::bind(&server, Port(7)).unwrap();
    let token = listener.invite_between(&anywhere(), &calm()).unwrap();
    let handshake_socket = token.addresses()[0];
    // Right in all but the secret.
    let text = token.to_string();
    let (front, secret) = text.rsplit_once(':').unwrap();
    let other = if secret.starts_with('0') { "1" } else { "0" };
    let wrong: Token = format!("{front}:{other}{}", &secret[1..]).parse().unwrap();
    let short = Duration::from_millis(200);
    let refused = Connection::connect_between(&client, &wrong, Order::Ordered, short, &calm());
    assert!(matches!(refused, Err(Error::NoAnswer { .. })), "{refused:?}");
    eventually(|| count(&server, Counter::ConnForeign) > 0);
    // Random packets.
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before = count(&server, Counter::ConnForeign);
    for len in [0, 1, 7, 8, 80, 81, 1400] {
        noise.send_to(&vec![0x63; len], handshake_socket).unwrap();
        noise.send_to(&[b"clumphi2".to_vec(), vec![1; len]].concat(), handshake_socket).unwrap();
    }
    // A last packet of the client without the secret may come after the count was read.
    eventually(|| count(&server, Counter::ConnForeign) >= before + 14);
    noise.set_nonblocking(true).unwrap();
    assert!(noise.recv_from(&mut [0; 100]).is_err(), "somebody answered");
    assert_eq!((listener.is_ready(), count(&server, Counter::ConnEstablished)), (false, 0));
    // A client with the token is admitted all the same.
    let connection = connect(&client, &token, &calm());
    connection.send(b"let me in").unwrap();
    let accepted = listener.accept_within(LONG).unwrap().unwrap();
    assert_eq!(accepted.recv().unwrap().unwrap(), b"let me in");
}

#[test]
fn a_full_queue_is_told_and_a_token_ends_with_its_listener() {
    let (server, client) = (job(1), job(2));
    let listener = Listener::bind_with(&server, Port(7), 2).unwrap();
    let token = listener.invite_between(&anywhere(), &calm()).unwrap();
    let (one, two) = (connect(&client, &token, &calm()), connect(&client, &token, &calm()));
    let full = Connection::connect_between(&client, &token, Order::Any, LONG, &calm());
    assert!(matches!(full, Err(Error::Refused { why: Refusal::QueueFull, .. })), "{full:?}");
    assert_eq!(count(&server, Counter::ConnRefused), 1);
    let accepted = listener.accept_within(LONG).unwrap().unwrap();
    let third = connect(&client, &token, &calm());
    drop(listener);
    // Waiting connections are closed, accepted ones are not.
    assert_eq!([&two, &third].map(|c| c.recv().unwrap()), [None, None]);
    one.send(b"still here").unwrap();
    assert_eq!(accepted.recv().unwrap().unwrap(), b"still here");
    let short = Duration::from_millis(200);
    let late = Connection::connect_between(&client, &token, Order::Any, short, &calm());
    assert!(matches!(late, Err(Error::NoAnswer { .. })), "{late:?}");
}

#[test]
fn silence_ends_a_connection_within_its_time() {
    let (server, client) = (job(1), job(2));
    let listener = Listener::bind(&server, Port(7)).unwrap();
    let between = Between { silence: Duration::from_millis(300), ..calm() };
    let token = listener.invite_between(&anywhere(), &between).unwrap();
    let wire = Wire::before(token.addresses()[0]);
    let token = wire.through(&token);
    let connection = connect(&client, &token, &between);
    connection.send(b"hello").unwrap();
    let accepted = listener.accept_within(LONG).unwrap().unwrap();
    assert_eq!(accepted.recv().unwrap().unwrap(), b"hello");
    // Neither program sends for longer than that; the threads of both send keepalives.
    assert_eq!(accepted.recv_within(between.silence * 4).unwrap(), Received::Nothing);
    accepted.send(b"and now").unwrap();
    assert_eq!(connection.recv().unwrap().unwrap(), b"and now");
    wire.cut.store(true, Ordering::Release);
    let ended = accepted.recv().unwrap_err();
    assert!(matches!(ended, Error::Ended { why: End::Silent, .. }), "{ended}");
    let ended = loop {
        match connection.try_send(&[1; 10_000]) {
            Ok(SendAttempt::Sent | SendAttempt::Full) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, Error::Ended { why: End::Silent, .. }), "{ended}");
}

#[test]
fn a_hello_that_is_replayed_makes_no_second_connection() {
    let (server, client) = (job(1), job(2));
    let listener = Listener::bind(&server, Port(7)).unwrap();
    let token = listener.invite_between(&anywhere(), &calm()).unwrap();
    let wire = Wire::before(token.addresses()[0]);
    let connection = connect(&client, &wire.through(&token), &calm());
    connection.send(b"once").unwrap();
    let accepted = listener.accept_within(LONG).unwrap().unwrap();
    assert_eq!(accepted.recv().unwrap().unwrap(), b"once");
    let hellos = wire.hellos.lock().unwrap().clone();
    assert!(hellos.len() >= 2, "one without a cookie, and one with it");
    let replayer = UdpSocket::bind("127.0.0.1:0").unwrap();
    for hello in hellos.iter().cycle().take(50) {
        replayer.send_to(hello, token.addresses()[0]).unwrap();
        // It gets the original answer, which is useless without the key, or a cookie that only its
        // maker can use.
        replayer.set_read_timeout(Some(LONG)).unwrap();
        let (bytes, _) = replayer.recv_from(&mut [0; 200]).unwrap();
        assert!(bytes <= hello.len(), "nobody is flooded through a listener");
    }
    assert_eq!((count(&server, Counter::ConnEstablished), listener.is_ready()), (1, false));
    connection.send(b"and on").unwrap();
    assert_eq!(accepted.recv().unwrap().unwrap(), b"and on");
}

/// Two loopback addresses, with any port.
fn both_addresses() -> [SocketAddr; 2] {
    ["127.0.0.1:0", "127.0.0.2:0"].map(|address| address.parse().unwrap())
}

#[test]
fn a_client_comes_by_whichever_address_answers() {
    let (server, client) = (job(1), job(2));
    let listener = Listener::bind(&server, Port(7)).unwrap();
    let token = listener.invite_between(&both_addresses(), &calm()).unwrap();
    // Nothing answers at the first, and the second family is at most reachable on this machine.
    let silent = bound();
    let (first, text) = (token.addresses()[0].to_string(), token.to_string());
    let elsewhere = format!("{},[::1]:9", silent.local_addr().unwrap());
    let token: Token = text.replacen(&first, &elsewhere, 1).parse().unwrap();
    let connection = connect(&client, &token, &calm());
    connection.send(b"by the second").unwrap();
    let accepted = listener.accept_within(LONG).unwrap().unwrap();
    assert_eq!(accepted.recv().unwrap().unwrap(), b"by the second");
}

#[test]
fn who_asks_for_another_port_takes_no_place() {
    let (server, client) = (job(1), job(2));
    let listener = Listener::bind_with(&server, Port(7), 1).unwrap();
    let token = listener.invite_between(&anywhere(), &calm()).unwrap();
    let other: Token = token.to_string().replacen(":7:", ":8:", 1).parse().unwrap();
    for _ in 0..3 {
        let refused = Connection::connect_between(&client, &other, Order::Any, LONG, &calm());
        assert!(
            matches!(refused, Err(Error::Refused { why: Refusal::NoListener, .. })),
            "{refused:?}"
        );
    }
    drop(connect(&client, &token, &calm()));
}

/// A relay between a client and a server that can be cut; keeps the hellos.
struct Wire {
    address: SocketAddr,
    cut: std::sync::Arc<AtomicBool>,
    hellos: std::sync::Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
}

impl Wire {
    /// Makes a relay in front of a handshake socket. Packets from that socket, or any other socket
    /// of its job, go to the client; the rest go to the socket of that job that was heard last.
    fn before(handshake_socket: SocketAddr) -> Self {
        let (near, far) = (bound(), bound());
        let address = near.local_addr().unwrap();
        let cut = std::sync::Arc::new(AtomicBool::new(false));
        let hellos = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let (is_cut, kept) = (cut.clone(), hellos.clone());
        std::thread::spawn(move || {
            let (mut client, mut server) = (None, handshake_socket);
            let mut packet = vec![0; 1 << 16];
            // Its sockets live as long as the process.
            loop {
                if let Ok((bytes, from)) = near.recv_from(&mut packet) {
                    client = Some(from);
                    if packet.starts_with(b"clumphi2") {
                        kept.lock().unwrap().push(packet[..bytes].to_vec());
                    }
                    if !is_cut.load(Ordering::Acquire) {
                        let _ = far.send_to(&packet[..bytes], server);
                    }
                }
                if let Ok((bytes, from)) = far.recv_from(&mut packet) {
                    server = from;
                    if let Some(client) = client.filter(|_| !is_cut.load(Ordering::Acquire)) {
                        let _ = near.send_to(&packet[..bytes], client);
                    }
                }
                std::thread::yield_now();
            }
        });
        Self { address, cut, hellos }
    }

    /// Returns the token of a client behind it.
    fn through(&self, token: &Token) -> Token {
        let text = token.to_string();
        let handshake_socket = token.addresses()[0].to_string();
        text.replace(&handshake_socket, &self.address.to_string()).parse().unwrap()
    }
}

fn bound() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}
