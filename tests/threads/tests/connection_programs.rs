//! Random programs of many connections against a model: messages of one side are received by the
//! other, once, in order if requested, or the connection ended with a reason.

#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_test_bed::pair;

use clump_conn::{Between, Connection, Listener, Order, Port, Received, SendAttempt};
use clump_test_bed::{Shape, run};
use proptest::prelude::*;
use std::time::Duration;

/// Longest wait for what the other side does at once: a machine may have much else to do.
const LIMIT: Duration = Duration::from_secs(120);

/// An action of one side of a connection.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send(usize),
    TrySend(usize),
    Recv,
    TryRecv,
}

fn step() -> impl Strategy<Value = Step> {
    let len = || prop_oneof![0usize..100, 100usize..5000, 30_000usize..120_000];
    prop_oneof![
        4 => len().prop_map(Step::Send),
        2 => len().prop_map(Step::TrySend),
        4 => Just(Step::Recv),
        3 => Just(Step::TryRecv),
    ]
}

/// The programs of the two sides of a connection, and its order.
#[derive(Debug, Clone)]
struct Script {
    sides: [Vec<Step>; 2],
    kept: bool,
}

fn scripts(most: usize) -> impl Strategy<Value = Vec<Script>> {
    let steps = || prop::collection::vec(step(), 0..25);
    let script = (steps(), steps(), any::<bool>())
        .prop_map(|(one, other, kept)| Script { sides: [one, other], kept });
    prop::collection::vec(script, 1..=most)
}

/// Returns message `at` of side `side` of connection `number`.
fn message(number: usize, side: usize, at: usize, len: usize) -> Vec<u8> {
    let seed = number * 31 + side * 7 + at * 3;
    let mut bytes: Vec<u8> = (0..len).map(|i| (i * 13 + seed) as u8).collect();
    let head = (at as u64).to_le_bytes();
    let most = bytes.len().min(8);
    bytes[..most].copy_from_slice(&head[..most]);
    bytes
}

/// One side while it runs.
struct Side {
    connection: Connection,
    number: usize,
    side: usize,
    steps: std::vec::IntoIter<Step>,
    sent: Vec<usize>,
    received: Vec<Vec<u8>>,
}

impl Side {
    fn note(&mut self, received: Received) {
        if let Received::Message(message) = received {
            self.received.push(message);
        }
    }

    /// Executes one step; returns true if there was one. Other sides of this thread would wait for
    /// a blocking call, so such calls have a limit, within which the other side always sends.
    fn step(&mut self) -> bool {
        let short = Duration::from_millis(2);
        let Some(step) = self.steps.next() else { return false };
        match step {
            Step::Send(len) | Step::TrySend(len) => {
                let bytes = message(self.number, self.side, self.sent.len(), len);
                let sent = match step {
                    Step::Send(_) => self.connection.send_within(&bytes, short),
                    _ => self.connection.try_send(&bytes),
                };
                if sent.unwrap() == SendAttempt::Sent {
                    self.sent.push(len);
                }
            }
            Step::Recv => {
                let received = self.connection.recv_within(short).unwrap();
                self.note(received);
            }
            Step::TryRecv => {
                let received = self.connection.try_recv().unwrap();
                self.note(received);
            }
        }
        true
    }
}

/// Runs one side of all connections in one thread, in turns.
fn play(mut sides: Vec<Side>) -> Vec<Side> {
    while sides.iter_mut().map(Side::step).filter(|&stepped| stepped).count() > 0 {}
    // Finishing waits until all messages have left, which needs the other side to receive: by
    // threads.
    let threads: Vec<_> = sides
        .into_iter()
        .map(|mut side| {
            std::thread::spawn(move || {
                std::thread::scope(|scope| {
                    let connection = &side.connection;
                    let finish = scope.spawn(move || connection.finish());
                    let mut rest = Vec::new();
                    while let Some(message) = connection.recv().unwrap() {
                        rest.push(message);
                    }
                    finish.join().unwrap().unwrap();
                    side.received.extend(rest);
                });
                assert!(side.connection.send(b"too late").is_err());
                side
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn sides(connections: Vec<(usize, Connection)>, side: usize, scripts: &[Script]) -> Vec<Side> {
    let make = |(number, connection): (usize, Connection)| Side {
        connection,
        number,
        side,
        steps: scripts[number].sides[side].clone().into_iter(),
        sent: Vec::new(),
        received: Vec::new(),
    };
    connections.into_iter().map(make).collect()
}

/// The messages sent and received by one side of one connection.
type Record = (usize, usize, Vec<usize>, Vec<Vec<u8>>);

fn records(sides: Vec<Side>) -> Vec<Record> {
    sides.into_iter().map(|s| (s.number, s.side, s.sent, s.received)).collect()
}

/// Checks that every message sent was received once, and nothing else was.
fn check(scripts: &[Script], records: &[Record]) {
    assert_eq!(records.len(), 2 * scripts.len());
    for (number, side, sent, _) in records {
        let other = records.iter().find(|(n, s, ..)| n == number && s != side).unwrap();
        let mut expected: Vec<Vec<u8>> =
            sent.iter().enumerate().map(|(at, &len)| message(*number, *side, at, len)).collect();
        let mut received = other.3.clone();
        if !scripts[*number].kept {
            expected.sort();
            received.sort();
        }
        assert!(expected == received, "connection {number}, side {side}: altered, lost or doubled");
    }
}

/// Returns the order of a connection.
fn order(script: &Script) -> Order {
    if script.kept { Order::Ordered } else { Order::Any }
}

/// Connects all sides, each after the connection before it was accepted, so that both sides number
/// them alike. By a connection of its own: on one without order, the first message might overtake
/// any greeting.
fn introduce(
    scripts: &[Script],
    connect: impl Fn(Order) -> Connection,
) -> Vec<(usize, Connection)> {
    let clerk = connect(Order::Ordered);
    let accepted = || {
        let told = clerk.recv_within(LIMIT).unwrap();
        assert_eq!(told, Received::Message(b"accepted".to_vec()));
    };
    accepted();
    let one = |(number, script): (usize, &Script)| {
        let connection = connect(order(script));
        accepted();
        (number, connection)
    };
    scripts.iter().enumerate().map(one).collect()
}

fn accept_all(listener: &Listener, count: usize) -> Vec<(usize, Connection)> {
    let clerk = listener.accept_within(LIMIT).unwrap().unwrap();
    clerk.send(b"accepted").unwrap();
    let one = |number| {
        let connection = listener.accept_within(LIMIT).unwrap().unwrap();
        clerk.send(b"accepted").unwrap();
        (number, connection)
    };
    (0..count).map(one).collect()
}

fn within(shape: &Shape, scripts: &[Script], seed: u64) {
    let (tell, told) = std::sync::mpsc::channel();
    let (all, body) = (scripts.to_vec(), scripts.to_vec());
    run(shape, seed, move |seat| {
        let port = Port(7);
        let mine = if seat.rank() == 0 {
            let listener = Listener::bind(&seat.context, port).unwrap();
            seat.meet();
            sides(accept_all(&listener, body.len()), 0, &body)
        } else {
            seat.meet();
            let connect =
                |order| Connection::connect_within(&seat.context, 0, port, order, LIMIT).unwrap();
            sides(introduce(&body, connect), 1, &body)
        };
        tell.send(records(play(mine))).unwrap();
    });
    let records: Vec<Record> = told.iter().flatten().collect();
    check(&all, &records);
}

fn between(scripts: &[Script], how: &Between) {
    let (server, client) = (clump_test_bed::lone(1), clump_test_bed::lone(2));
    let listener = Listener::bind(&server, Port(7)).unwrap();
    let token = listener.invite_between(&pair::anywhere(), how).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let other = tell.clone();
    pair::both(
        move || {
            let mine = sides(accept_all(&listener, scripts.len()), 0, scripts);
            tell.send(records(play(mine))).unwrap();
        },
        move || {
            let connect =
                |order| Connection::connect_between(&client, &token, order, LIMIT, how).unwrap();
            let mine = sides(introduce(scripts, connect), 1, scripts);
            other.send(records(play(mine))).unwrap();
        },
    );
    let records: Vec<Record> = told.iter().flatten().collect();
    check(scripts, &records);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: clump_test_tier::pick(3, 12), ..ProptestConfig::default() })]

    #[test]
    fn on_one_node(scripts in scripts(6)) {
        within(&Shape::of(2, 1), &scripts, 1);
    }

    #[test]
    fn over_two_nodes_and_a_bad_network(scripts in scripts(6), seed in 1u64..1000) {
        within(&Shape::of(2, 2).troubled(), &scripts, seed);
    }

    #[test]
    fn by_proxies_and_a_bad_network(scripts in scripts(6), seed in 1u64..1000) {
        for shape in Shape::of(2, 2).troubled().every_way() {
            within(&shape, &scripts, seed);
        }
    }

    #[test]
    fn between_two_jobs_and_a_bad_network(scripts in scripts(4), seed in 1u64..1000) {
        between(&scripts, &pair::troubled(seed));
    }
}
