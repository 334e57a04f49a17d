//! Messages that are delayed on purpose (docs/adr/0038): whatever a test measures here has a lower
//! bound that no load can break, by the clock of the test.

use clump_am::{Dest, Endpoint, Handler, Name, Payload, RankContext, Tag};
use clump_loggp::{BaseParameters, KnobTable};
use clump_os::clock;
use clump_test_bed::{Seat, Shape, run};
use clump_wire::Security;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const TAG: Tag = Tag(5);
const ASK: Handler = Handler(1);
const ANSWER: Handler = Handler(2);
/// A request like all others of it, which is answered by how many came before it.
const ALIKE: Handler = Handler(3);
/// Bytes of a long message that leaves in parts: more than wait for one peer at most.
const LONG: usize = 1 << 20;
/// Every bound allows for what clocks and stamps round.
const ROUNDING_NS: u64 = 200;

/// Shapes in which two ranks are on one node, on two, and on two with proxies.
fn shapes() -> Vec<Shape> {
    let net = Shape::of_messages(2, 2, Security::Crc);
    let proxied = Shape::of(2, 2).by_proxies(1, clump_transport::Dispatch::Fixed);
    vec![Shape::of_messages(2, 1, Security::Crc), net, proxied]
}

fn turn(context: &Arc<RankContext>, text: &str) {
    let table = KnobTable::parse(text, &[BaseParameters::default(); 2]).unwrap();
    context.node().set_knobs(&table.to_words()).unwrap();
}

/// An endpoint and its view of the other rank's.
struct Side {
    endpoint: Endpoint,
    other: Dest,
    answers: Rc<Cell<u64>>,
    /// Payload bytes that requests have brought.
    brought: Rc<Cell<u64>>,
    /// Words that came back.
    returned: Rc<Cell<u64>>,
}

impl Side {
    fn open(seat: &Seat) -> Self {
        let endpoint = Endpoint::open(&seat.context, TAG).unwrap();
        let counts = || Rc::new(Cell::new(0));
        let (answers, brought, returned) = (counts(), counts(), counts());
        let bytes = brought.clone();
        let on_ask = move |token: clump_am::Token<'_>, words: &[u64], payload: Payload<'_>| {
            bytes.set(bytes.get() + payload.len() as u64);
            token.reply(ANSWER, words).unwrap();
        };
        endpoint.set_handler(ASK, on_ask).unwrap();
        let handled = counts();
        let on_alike = move |token: clump_am::Token<'_>, words: &[u64], _: Payload<'_>| {
            let number = handled.replace(handled.get() + 1);
            token.reply(ANSWER, &[&[number], words].concat()).unwrap();
        };
        endpoint.set_handler(ALIKE, on_alike).unwrap();
        let count = answers.clone();
        let on_answer = move |_: clump_am::Token<'_>, words: &[u64], _: Payload<'_>| {
            assert_eq!(words, [count.get(), 7, 5, 6], "in order, with its words");
            count.set(count.get() + 1);
        };
        endpoint.set_handler(ANSWER, on_answer).unwrap();
        let back = returned.clone();
        endpoint
            .on_returned(move |message| {
                assert_eq!(message.words.last(), Some(&6), "with the words it was sent with");
                back.set(back.get() + 1);
            })
            .unwrap();
        endpoint.export_segment(LONG as u64 + 8).unwrap();
        let other = Name::new(1 - seat.context.rank(), 0, 1);
        let other = endpoint.map_ordered(&other, TAG).unwrap();
        seat.meet();
        Self { endpoint, other, answers, brought, returned }
    }

    fn ask_long(&self, handler: Handler, payload: &[u8], words: &[u64]) {
        self.endpoint.request_long(self.other, handler, 8, payload, words).unwrap();
    }

    /// Sends request number `number`, of kind 0 to 3.
    fn ask(&self, number: u64, kind: usize) {
        let words = [number, 7, 5, 6];
        match kind {
            0 => self.endpoint.request(self.other, ASK, words.as_slice()).unwrap(),
            1 => self.endpoint.request_bulk(self.other, ASK, &[9; 4096], words.as_slice()).unwrap(),
            2 => self.ask_long(ASK, &[9; 20_000], &words),
            // Without its number: what one of them has spent is not for the next.
            _ => self.ask_long(ALIKE, &vec![9; LONG], &words[1..]),
        }
    }

    fn await_answers(&self, number: u64) {
        let answers = self.answers.clone();
        self.endpoint.poll_until(move || answers.get() >= number).unwrap();
    }
}

/// Runs `time` on rank 0 of every shape while rank 1 serves, with the knobs of `text`: turned
/// before the endpoints are opened, and after. Each must return at least `least_ns`.
fn takes_at_least(text: &'static str, least_ns: u64, time: fn(&Side) -> u64) {
    for (at, shape) in shapes().into_iter().enumerate() {
        for before in [true, false] {
            let results = run(&shape, 1, move |seat| {
                if before {
                    turn(&seat.context, text);
                }
                seat.meet();
                let side = Side::open(seat);
                if !before {
                    turn(&seat.context, text);
                    side.endpoint.poll().unwrap();
                }
                seat.meet();
                let took = if seat.rank() == 0 { time(&side) } else { 0 };
                serve_until_met(seat, &side);
                took
            });
            let (took, least) = (results[0], least_ns.saturating_sub(ROUNDING_NS));
            assert!(took >= least, "shape {at}, {text}: {took} ns, not {least_ns}");
        }
    }
}

/// Serves until all ranks are here.
fn serve_until_met(seat: &Seat, side: &Side) {
    seat.meet_serving(|| {
        side.endpoint.poll().unwrap();
    });
}

fn round_trip(side: &Side, kind: usize) -> u64 {
    let begun = clock::now_ns();
    side.ask(0, kind);
    side.await_answers(1);
    clock::now_ns() - begun
}

#[test]
fn a_round_trip_takes_the_latency_of_both_directions() {
    takes_at_least("L=+2ms", 4_000_000, |side| round_trip(side, 0));
    takes_at_least("L=+2ms", 4_000_000, |side| round_trip(side, 1));
    takes_at_least("L=+2ms", 4_000_000, |side| round_trip(side, 2));
}

#[test]
fn a_window_of_requests_in_flight_takes_a_round_trip_each_time() {
    takes_at_least("L=+2ms,capacity=2", 5 * 4_000_000, |side| {
        let begun = clock::now_ns();
        (0..10).for_each(|number| side.ask(number, 0));
        side.await_answers(10);
        clock::now_ns() - begun
    });
}

#[test]
fn a_round_trip_takes_the_overhead_of_two_sends_and_two_receptions() {
    takes_at_least("o=+500us", 2_000_000, |side| round_trip(side, 0));
    takes_at_least("o_s=+500us", 1_000_000, |side| round_trip(side, 2));
    takes_at_least("o_r=+500us", 1_000_000, |side| round_trip(side, 1));
}

#[test]
fn overhead_occupies_the_sender_and_latency_does_not() {
    takes_at_least("o_s=+1ms,class=short", 3_000_000, |side| {
        let begun = clock::now_ns();
        (0..3).for_each(|number| side.ask(number, 0));
        let took = clock::now_ns() - begun;
        side.await_answers(3);
        took
    });
    // The other direction is not bounded by time: no answer can be there before it is due.
    takes_at_least("L=+5s", 0, |side| {
        (0..3).for_each(|number| side.ask(number, 0));
        assert_eq!(side.answers.get(), 0, "the sends have not waited for it");
        clock::now_ns()
    });
}

#[test]
fn messages_are_injected_at_the_gap() {
    takes_at_least("g=1ms", 9_000_000, |side| {
        let begun = clock::now_ns();
        (0..10).for_each(|number| side.ask(number, 0));
        side.await_answers(10);
        clock::now_ns() - begun
    });
}

#[test]
fn each_byte_of_a_payload_takes_its_time() {
    // 4096 and 20,000 bytes; the answers have none.
    takes_at_least("G=+100ns/B", 409_600, |side| round_trip(side, 1));
    takes_at_least("G=+100ns/B", 2_000_000, |side| round_trip(side, 2));
    takes_at_least("G=+100ns/B", 4_000_000, |side| {
        let begun = clock::now_ns();
        (0..2).for_each(|number| side.ask(number, 2));
        side.await_answers(2);
        clock::now_ns() - begun
    });
}

/// Returns the times until four long messages are sent, and answered.
fn send_four(side: &Side) -> (u64, u64) {
    let begun = clock::now_ns();
    (0..4).for_each(|number| side.ask(number, 3));
    let sent = clock::now_ns() - begun;
    side.await_answers(4);
    (sent, clock::now_ns() - begun)
}

#[test]
fn long_messages_that_leave_in_parts_cost_what_others_do() {
    takes_at_least("o_s=+5ms,class=bulk", 4 * 5_000_000, |side| send_four(side).0);
    takes_at_least("g=+20ms", 3 * 20_000_000, |side| send_four(side).1);
    takes_at_least("G=+20ns/B", 4 * 20 * LONG as u64, |side| send_four(side).1);
    // Longer than 268 ms in one.
    takes_at_least("G=+400ns/B", 400 * LONG as u64, |side| round_trip(side, 3));
}

#[test]
fn nothing_is_lost_or_changed_and_order_stays() {
    const MESSAGES: u64 = 2_000;
    for shape in shapes() {
        run(&shape, 1, |seat| {
            turn(&seat.context, "L=+300us,g=200ns,o=+100ns,G=+1ns/B");
            let side = Side::open(seat);
            if seat.rank() == 0 {
                for number in 0..MESSAGES {
                    side.ask(number, (number % 3) as usize);
                }
                side.await_answers(MESSAGES);
                // From now on without delay.
                side.endpoint.drain().unwrap();
            }
            serve_until_met(seat, &side);
            turn(&seat.context, "");
            side.endpoint.poll().unwrap();
            seat.meet();
            if seat.rank() == 1 {
                let bytes = MESSAGES / 3 * (4096 + 20_000) + 4096;
                assert_eq!(side.brought.get(), bytes, "every payload came once");
            }
        });
    }
}

#[test]
fn what_a_closing_endpoint_has_not_handled_comes_back() {
    for shape in shapes() {
        run(&shape, 1, |seat| {
            turn(&seat.context, "L=+10s");
            let side = Side::open(seat);
            if seat.rank() == 0 {
                (0..3).for_each(|number| side.ask(number, number as usize));
                let returned = side.returned.clone();
                seat.meet();
                side.endpoint.poll_until(move || returned.get() == 3).unwrap();
            } else {
                seat.meet();
                // Some are in a lane or in the stack, some are hidden already: all are returned.
                for _ in 0..1000 {
                    side.endpoint.poll().unwrap();
                }
                drop(side);
            }
        });
    }
}

#[test]
fn a_message_to_itself_is_delayed_too() {
    takes_at_least("L=+2ms,scope=shm", 4_000_000, |side| {
        let mine = side.endpoint.map(&side.endpoint.name(), TAG).unwrap();
        let begun = clock::now_ns();
        side.endpoint.request(mine, ASK, [0, 7, 5, 6].as_slice()).unwrap();
        side.await_answers(1);
        clock::now_ns() - begun
    });
}
