//! Connections within a job: one node, several, and networks that lose packets; ends of every
//! kind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of a test may give up")]

use clump_am::{Endpoint, Handler, Tag};
use clump_conn::{
    Connection, End, Error, Listener, Order, Port, Received, Refusal, SendAttempt, wait_any,
};
use clump_os::clock;
use clump_os::sync::{AtomicBool, Ordering};
use clump_shm::geometry::ENDPOINTS;
use clump_shm::job::{Death, DeathCause};
use clump_test_bed::{Seat, Shape, run};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time limit, many times the usual duration.
const LONG: Duration = Duration::from_secs(120);

/// Returns true if an attempt failed since peers have not let go of the endpoints of earlier ones.
fn has_no_endpoint(error: &clump_am::Error) -> bool {
    matches!(error.kind(), clump_am::ErrorKind::Memory(clump_shm::Error::NoFreeEndpoint { .. }))
}

/// Returns one node, two, three, and three over a network that loses, duplicates and delays
/// packets.
fn shapes() -> [Shape; 4] {
    [Shape::of(2, 1), Shape::of(2, 2), Shape::of(3, 3), Shape::of(3, 3).troubled()]
}

fn message(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + number * 7) as u8).collect()
}

/// Serves, on rank 0 at port 7, as many connections as there are other ranks; those connect.
fn serve(
    shape: &Shape,
    order: Order,
    server: impl Fn(&Seat, Vec<Connection>) + Clone + Send + 'static,
    client: impl Fn(&Seat, Connection) + Clone + Send + 'static,
) {
    run(shape, 5, move |seat| {
        if seat.rank() == 0 {
            let listener = Listener::bind(&seat.context, Port(7)).unwrap();
            seat.meet();
            let accept = |_| listener.accept_within(LONG).unwrap().expect("nobody connects");
            server(seat, (1..seat.ranks()).map(accept).collect());
        } else {
            seat.meet();
            let connection =
                Connection::connect_within(&seat.context, 0, Port(7), order, LONG).unwrap();
            client(seat, connection);
        }
    });
}

#[test]
fn messages_of_all_lengths_go_both_ways_in_order() {
    const LENGTHS: [usize; 9] = [0, 1, 64, 1000, 32_768, 32_769, 65_536, 300_000, 5_000_000];
    for shape in shapes() {
        let echo = |_: &Seat, connections: Vec<Connection>| {
            for connection in connections {
                while let Some(message) = connection.recv().unwrap() {
                    connection.send(&message).unwrap();
                }
                connection.close().unwrap();
            }
        };
        serve(&shape, Order::Ordered, echo, |_, connection| {
            for (number, &len) in (0..).zip(&LENGTHS) {
                connection.send(&message(number, len)).unwrap();
                let back = connection.recv().unwrap().unwrap();
                assert!(back == message(number, len), "{len} bytes were altered");
            }
            connection.finish().unwrap();
            assert_eq!(connection.recv().unwrap(), None);
            assert!(matches!(connection.send(b"more"), Err(Error::Finished(_))));
        });
    }
}

#[test]
fn a_flood_is_received_once_in_order_or_in_any() {
    const MESSAGES: u64 = 3000;
    for shape in shapes() {
        for order in [Order::Ordered, Order::Any] {
            let collect = move |_: &Seat, connections: Vec<Connection>| {
                for connection in connections {
                    let mut seen = Vec::new();
                    while let Some(bytes) = connection.recv().unwrap() {
                        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                        assert!(bytes[8..] == message(number, number as usize % 700)[..]);
                        seen.push(number);
                    }
                    if order == Order::Any {
                        seen.sort_unstable();
                    }
                    assert!(seen.into_iter().eq(0..MESSAGES));
                }
            };
            serve(&shape, order, collect, |_, connection| {
                for number in 0..MESSAGES {
                    let mut bytes = number.to_le_bytes().to_vec();
                    bytes.extend(message(number, number as usize % 700));
                    connection.send(&bytes).unwrap();
                }
                connection.close().unwrap();
            });
        }
    }
}

#[test]
fn a_program_that_does_not_receive_stops_its_sender_and_nobody_else() {
    for shape in [Shape::of(2, 1), Shape::of(2, 2), Shape::of(2, 2).troubled()] {
        run(&shape, 3, |seat| {
            if seat.rank() == 0 {
                let listener = Listener::bind(&seat.context, Port(9)).unwrap();
                seat.meet();
                let [slow, quick] = [(); 2].map(|()| listener.accept().unwrap());
                let mut numbers = 0..;
                // The fast side continues while the slow one's messages wait.
                while let Some(bytes) = quick.recv().unwrap() {
                    assert_eq!(bytes, message(numbers.next().unwrap(), 500));
                    quick.send(b"got it").unwrap();
                }
                let mut received = 0;
                while let Some(bytes) = slow.recv().unwrap() {
                    assert_eq!(bytes.len(), 4000);
                    received += 1;
                }
                assert!(received > 40, "{received}");
            } else {
                seat.meet();
                let connect = || {
                    Connection::connect_within(&seat.context, 0, Port(9), Order::Ordered, LONG)
                        .unwrap()
                };
                let (slow, quick) = (connect(), connect());
                let mut accepted = 0;
                while slow.try_send(&[1; 4000]).unwrap() == SendAttempt::Sent {
                    accepted += 1;
                }
                assert!((40..=70).contains(&accepted), "the window is 256 KiB: {accepted}");
                for number in 0..300 {
                    quick.send(&message(number, 500)).unwrap();
                    assert_eq!(quick.recv().unwrap().unwrap(), b"got it");
                }
                let short = Duration::from_millis(1);
                assert_eq!(slow.send_within(&[1; 4000], short).unwrap(), SendAttempt::Full);
                quick.close().unwrap();
                slow.close().unwrap();
            }
        });
    }
}

/// Makes progress for clients that connect, without accepting, until they have set `flag`.
fn serve_until(flag: &AtomicBool, listener: &Listener) {
    while !flag.load(Ordering::Acquire) {
        assert!(listener.accept_within(Duration::from_millis(1)).unwrap().is_none());
    }
}

#[test]
fn who_finds_the_queue_full_or_nobody_is_told() {
    for shape in [Shape::of(2, 1), Shape::of(2, 2)] {
        let [full, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        run(&shape, 4, move |seat| {
            if seat.rank() == 0 {
                let listener = Listener::bind_with(&seat.context, Port(7), 3).unwrap();
                let taken = Listener::bind(&seat.context, Port(7)).unwrap_err();
                assert!(matches!(taken, Error::PortTaken { port: Port(7), holder: 0 }));
                let any = Listener::bind(&seat.context, Port::ANY).unwrap();
                assert!(any.port().0 >= 49_152);
                seat.meet();
                serve_until(&full, &any);
                for _ in 0..3 {
                    assert_eq!(listener.accept().unwrap().recv().unwrap(), None);
                }
                assert_eq!(listener.accept().unwrap().recv().unwrap().unwrap(), b"the fourth");
                drop(listener);
                seat.meet();
                serve_until(&over, &any);
            } else {
                seat.meet();
                let node = seat.context.node().node_of(0);
                let connect = |node, port| {
                    Connection::connect_within(&seat.context, node, port, Order::Any, LONG)
                };
                let held: Vec<_> = (0..3).map(|_| connect(node, Port(7)).unwrap()).collect();
                let refused = connect(node, Port(7)).unwrap_err();
                let full_queue = matches!(refused, Error::Refused { why: Refusal::QueueFull, .. });
                assert!(full_queue, "{refused}");
                drop(held);
                full.store(true, Ordering::Release);
                let late = loop {
                    // The three that are closed still wait to be accepted.
                    match connect(node, Port(7)) {
                        Ok(late) => break late,
                        Err(Error::Refused { why: Refusal::QueueFull, .. }) => {}
                        // Peers let go of the endpoints of refused attempts a little later.
                        Err(Error::Messages(error)) if has_no_endpoint(&error) => {}
                        Err(error) => panic!("{error}"),
                    }
                };
                late.send(b"the fourth").unwrap();
                late.close().unwrap();
                seat.meet();
                let nobody = connect(node, Port(7)).unwrap_err();
                assert!(
                    matches!(nobody, Error::Refused { why: Refusal::NoListener, .. }),
                    "{nobody}"
                );
                assert!(matches!(connect(9, Port(7)), Err(Error::NoSuchNode { node: 9, .. })));
                assert!(matches!(connect(node, Port(0)), Err(Error::NoSuchPort)));
                over.store(true, Ordering::Release);
            }
        });
    }
}

#[test]
fn a_connect_waits_for_endpoints_that_peers_have_yet_to_let_go() {
    let tag = Tag(9);
    let shared = Arc::new((OnceLock::new(), AtomicBool::new(false)));
    run(&Shape::of(2, 1), 4, move |seat| {
        let (target, closed) = &*shared;
        if seat.rank() == 0 {
            let listener = Listener::bind(&seat.context, Port(7)).unwrap();
            let answering = Endpoint::open(&seat.context, tag).unwrap();
            answering
                .set_handler(Handler(1), |token, words, _| token.reply(Handler(2), words))
                .unwrap();
            target.set(answering.name()).unwrap();
            seat.meet();
            // Without polling it cannot notice that its senders have closed.
            let mut answered = 0;
            while answered < ENDPOINTS {
                answered += answering.poll().unwrap();
            }
            while !closed.load(Ordering::Acquire) {
                clock::yield_now();
            }
            let accepted = loop {
                answering.try_drain().unwrap();
                if let Some(accepted) = listener.accept_within(Duration::ZERO).unwrap() {
                    break accepted;
                }
            };
            assert_eq!(accepted.recv().unwrap(), None);
        } else {
            seat.meet();
            let all: Vec<_> =
                (0..ENDPOINTS).map(|_| Endpoint::open(&seat.context, tag).unwrap()).collect();
            for endpoint in &all {
                let answered = Rc::new(Cell::new(false));
                let seen = answered.clone();
                endpoint.set_handler(Handler(2), move |_, _, _| seen.set(true)).unwrap();
                let dest = endpoint.map(target.get().unwrap(), tag).unwrap();
                endpoint.request(dest, Handler(1), &[]).unwrap();
                endpoint.poll_until(|| answered.get()).unwrap();
            }
            drop(all);
            closed.store(true, Ordering::Release);
            let node = seat.context.node().node_of(0);
            let connected =
                Connection::connect_within(&seat.context, node, Port(7), Order::Any, LONG);
            connected.unwrap().close().unwrap();
        }
    });
}

#[test]
fn what_was_sent_before_a_close_is_received_and_sending_to_who_closed_fails() {
    for shape in shapes() {
        let server = |seat: &Seat, connections: Vec<Connection>| {
            for connection in connections {
                // It is dropped with messages in flight in both directions.
                let first = connection.recv().unwrap().unwrap();
                connection.send(&first).unwrap();
                drop(connection);
            }
            seat.meet();
        };
        serve(&shape, Order::Ordered, server, |seat, connection| {
            connection.send(&message(1, 100_000)).unwrap();
            let ended = loop {
                match connection.send(&message(2, 1000)) {
                    Ok(()) => {}
                    Err(error) => break error,
                }
            };
            assert!(matches!(ended, Error::Ended { why: End::Closed, .. }), "{ended}");
            assert!(connection.recv().unwrap().unwrap() == message(1, 100_000));
            assert_eq!(connection.recv().unwrap(), None);
            seat.meet();
        });
    }
}

#[test]
fn a_listener_that_goes_closes_those_who_wait() {
    for shape in [Shape::of(2, 1), Shape::of(2, 2)] {
        run(&shape, 8, |seat| {
            if seat.rank() == 0 {
                let listener = Listener::bind(&seat.context, Port(7)).unwrap();
                let kept = Listener::bind(&seat.context, Port(8)).unwrap();
                seat.meet();
                assert!(wait_any(&[&listener], Some(LONG)).unwrap());
                drop(listener);
                // The others of this rank continue.
                assert_eq!(kept.accept().unwrap().recv().unwrap(), None);
            } else {
                seat.meet();
                let connect =
                    |port| Connection::connect_within(&seat.context, 0, port, Order::Ordered, LONG);
                let waiting = connect(Port(7)).unwrap();
                assert_eq!(waiting.recv().unwrap(), None, "nobody will ever send");
                connect(Port(8)).unwrap().close().unwrap();
            }
        });
    }
}

#[test]
fn a_rank_that_dies_or_leaves_ends_its_connections() {
    for shape in [Shape::of(3, 1).surviving(), Shape::of(3, 3).surviving()] {
        run(&shape, 9, |seat| {
            let death = Death { rank: 0, how: DeathCause::Signal(9) };
            if seat.rank() == 0 {
                let listener = Listener::bind(&seat.context, Port(7)).unwrap();
                seat.meet();
                let both = [(); 2].map(|()| listener.accept().unwrap());
                for connection in &both {
                    assert_eq!(connection.recv().unwrap().unwrap(), b"hello");
                    connection.send(b"last words").unwrap();
                }
                // A dead process sends nothing more.
                std::mem::forget((both, listener));
                seat.meet();
                seat.declare_dead(death);
            } else {
                seat.meet();
                let connection =
                    Connection::connect_within(&seat.context, 0, Port(7), Order::Ordered, LONG)
                        .unwrap();
                connection.send(b"hello").unwrap();
                assert_eq!(connection.recv().unwrap().unwrap(), b"last words");
                if seat.rank() == 1 {
                    seat.meet();
                    let ended = connection.recv().unwrap_err();
                    assert!(matches!(ended, Error::Ended { why: End::PeerDied, .. }), "{ended}");
                } else {
                    seat.meet();
                    let ready = wait_any(&[&connection], Some(LONG)).unwrap();
                    assert!(ready, "its end is something to receive");
                    assert!(connection.try_recv().is_err());
                }
                let refused = connection.send(b"to nobody").unwrap_err();
                assert!(matches!(refused, Error::Ended { .. }), "{refused}");
                let again = Connection::connect(&seat.context, 0, Port(7), Order::Ordered);
                assert!(matches!(again, Err(Error::Refused { why: Refusal::NoListener, .. })));
            }
        });
    }
}

#[test]
fn many_connections_share_what_carries_them() {
    const EACH: usize = 100;
    for shape in [Shape::of(3, 1), Shape::of(3, 3).troubled()] {
        run(&shape, 11, |seat| {
            if seat.rank() == 0 {
                let listener = Listener::bind_with(&seat.context, Port(80), 1000).unwrap();
                seat.meet();
                let mut open: Vec<Connection> = Vec::new();
                let (mut served, mut ended) = (0, 0);
                while ended < 2 * EACH {
                    let mut sources: Vec<&dyn clump_conn::Source> = vec![&listener];
                    sources.extend(open.iter().map(|c| c as &dyn clump_conn::Source));
                    assert!(wait_any(&sources, Some(LONG)).unwrap());
                    open.extend(listener.try_accept().unwrap());
                    open.retain(|connection| match connection.try_recv().unwrap() {
                        Received::Message(message) => {
                            connection.send(&message).unwrap();
                            served += 1;
                            true
                        }
                        Received::Nothing => true,
                        Received::End => {
                            ended += 1;
                            false
                        }
                    });
                }
                assert_eq!(served, 2 * EACH * 3);
            } else {
                seat.meet();
                let connect = |_| {
                    Connection::connect_within(&seat.context, 0, Port(80), Order::Ordered, LONG)
                        .unwrap()
                };
                let all: Vec<Connection> = (0..EACH).map(connect).collect();
                for round in 0..3 {
                    for (number, connection) in (0..).zip(&all) {
                        connection.send(&message(number + round, 777)).unwrap();
                    }
                    for (number, connection) in (0..).zip(&all) {
                        assert_eq!(
                            connection.recv().unwrap().unwrap(),
                            message(number + round, 777)
                        );
                    }
                }
            }
        });
    }
}
