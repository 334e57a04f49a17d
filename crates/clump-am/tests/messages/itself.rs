//! Requests of an endpoint to itself, of which most are handled without a lane.

use super::{PING, PONG, TAG};
use clump_am::{
    Dest, Endpoint, ErrorKind, Handler, HandlerFailure, RankContext, Reason, SendAttempt, Settings,
};
use clump_shm::node::NodeMemory;
use clump_trace::{Counter, Counters};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const FAILS: Handler = Handler(3);
const REFUSES: Handler = Handler(4);

/// An endpoint that is mapped into its own table.
struct Own {
    node: NodeMemory,
    context: Arc<RankContext>,
    ep: Endpoint,
    to: Dest,
}

impl Own {
    fn open(settings: Settings) -> Self {
        let node = clump_test_bed::node(1, false);
        let context = clump_test_bed::context(&node, 0, settings);
        let ep = Endpoint::open(&context, TAG).unwrap();
        let to = ep.map(&ep.name(), TAG).unwrap();
        Self { node, context, ep, to }
    }

    fn counts<const N: usize>(&self, which: [Counter; N]) -> [u64; N] {
        let block = self.node.endpoint_block(0, usize::from(self.ep.name().index())).unwrap();
        which.map(|counter| Counters::over(block.counters()).get(counter))
    }

    /// Sends one request after which the lane is known, so that those that follow need none.
    fn warm_up(&self) {
        self.ep.set_handler(Handler(9), |_, _, _| ()).unwrap();
        (0..2).for_each(|_| self.ep.request(self.to, Handler(9), &[]).unwrap());
    }
}

#[test]
fn requests_to_itself_are_handled_without_a_lane_unless_words_are_to_be_copied() {
    let own = Own::open(Settings::default());
    own.warm_up();
    own.ep.drain().unwrap();
    for copied in [false, true, false] {
        let before = own.counts([Counter::PollsEmpty, Counter::HandlerRuns]);
        for at in 0..100 {
            let words = [at, 2];
            match copied {
                false => own.ep.request(own.to, Handler(9), &words).unwrap(),
                true => own.ep.request_copied(own.to, Handler(9), &words).unwrap(),
            }
        }
        assert_eq!(own.counts([Counter::HandlerRuns]), [before[1] + 100]);
        // Polls are counted now and then. The one after each request finds something in the lane,
        // or not.
        own.ep.drain().unwrap();
        let empty = own.counts([Counter::PollsEmpty])[0] - before[0];
        assert_eq!(empty < 50, copied, "{empty} polls in vain");
    }
}

#[test]
fn requests_to_itself_keep_their_order_among_all_kinds_and_are_counted() {
    for lanes in [true, false] {
        let own = Own::open(Settings { lanes, ..Settings::default() });
        let other = Endpoint::open(&own.context, TAG).unwrap();
        let there = other.map(&own.ep.name(), TAG).unwrap();
        let log: Rc<RefCell<Vec<(bool, u64)>>> = Rc::default();
        let (me, sink) = (own.ep.name(), log.clone());
        own.ep
            .set_handler(PING, move |token, words, _| {
                sink.borrow_mut().push((token.from() == me, words[0]));
            })
            .unwrap();
        let (mut sent, mut others, mut short) = (0, 0, [0; 2]);
        for round in 0..400 {
            let words = [sent, 1, 2, 3, 4, 5, 6, 7];
            match round % 7 {
                // Others' messages come first or last, but in their own order.
                0 | 4 => {
                    assert_eq!(
                        other.try_request(there, PING, &[others]).unwrap(),
                        SendAttempt::Sent
                    );
                    others += 1;
                    continue;
                }
                1 => own.ep.request_bulk(own.to, PING, &[7; 100], &words[..1]).unwrap(),
                // Later messages may not overtake it.
                2 | 5 => {
                    let attempt = own.ep.try_request(own.to, PING, &words[..2]).unwrap();
                    assert_eq!(attempt, SendAttempt::Sent);
                    short = [short[0] + 1, short[1] + 16];
                }
                3 => {
                    own.ep.request(own.to, PING, &words).unwrap();
                    short = [short[0] + 1, short[1] + 64];
                }
                _ => {
                    own.ep.request(own.to, PING, &words[..3]).unwrap();
                    short = [short[0] + 1, short[1] + 24];
                }
            }
            sent += 1;
        }
        own.ep.poll_until(|| log.borrow().len() as u64 == sent + others).unwrap();
        for (of_itself, count) in [(true, sent), (false, others)] {
            let log = log.borrow();
            let of_one = log.iter().filter(|entry| entry.0 == of_itself).map(|entry| entry.1);
            assert!(of_one.eq(0..count), "lanes {lanes}: out of order");
        }
        use Counter::{HandlerRuns, RequestShortReceived, RequestShortReceivedBytes};
        use Counter::{RequestShortSent, RequestShortSentBytes};
        assert_eq!(own.counts([RequestShortSent, RequestShortSentBytes]), short);
        let received = own.counts([RequestShortReceived, RequestShortReceivedBytes]);
        assert_eq!(received, [short[0] + others, short[1] + 8 * others]);
        assert_eq!(own.counts([HandlerRuns]), [sent + others]);
    }
}

#[test]
fn what_others_sent_is_handled_by_a_rank_that_sends_to_itself_alone() {
    let own = Own::open(Settings::default());
    let other = Endpoint::open(&own.context, TAG).unwrap();
    let there = other.map(&own.ep.name(), TAG).unwrap();
    let hits = Rc::new(Cell::new(0));
    let count = hits.clone();
    own.ep.set_handler(PING, move |_, _, _| count.set(count.get() + 1)).unwrap();
    own.warm_up();
    for round in 1..=10 {
        assert_eq!(other.try_request(there, PING, &[]).unwrap(), SendAttempt::Sent);
        own.ep.request(own.to, Handler(9), &[]).unwrap();
        assert_eq!(hits.get(), round);
    }
}

#[test]
fn no_handler_of_an_endpoint_runs_inside_another() {
    let own = Own::open(Settings::default());
    own.warm_up();
    let (inside, runs) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let (to, inner, within, count) = (own.to, own.ep.clone(), inside.clone(), runs.clone());
    own.ep
        .set_handler(PING, move |mut token, words, _| {
            assert!(!within.replace(true), "inside another");
            let refused = inner.request(to, PING, &[0]).unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::InHandler), "{refused}");
            if words[0] > 0 {
                token.defer(to, PING, &[words[0] - 1]).unwrap();
            }
            token.reply(PONG, words).unwrap();
            count.set(count.get() + 1);
            within.set(false);
        })
        .unwrap();
    let (within, replies) = (inside.clone(), Rc::new(Cell::new(0)));
    let count = replies.clone();
    own.ep
        .set_handler(PONG, move |_, _, _| {
            assert!(!within.get(), "inside the handler of the request");
            count.set(count.get() + 1);
        })
        .unwrap();
    for _ in 0..10 {
        own.ep.request(own.to, PING, &[3]).unwrap();
    }
    own.ep.poll_until(|| replies.get() == 40).unwrap();
    assert_eq!(runs.get(), 40);
    own.ep.drain().unwrap();
}

#[test]
fn a_request_to_itself_may_fail_come_back_and_be_locked_out() {
    let own = Own::open(Settings::default());
    let log = super::Log::on(&own.ep);
    own.ep.set_handler(FAILS, |_, _, _| Err::<(), _>("as it should")).unwrap();
    own.ep
        .set_handler(REFUSES, |_, _, _| Some(Box::new(HandlerFailure::Refused(Reason::BadLength))))
        .unwrap();
    own.warm_up();
    let before = own.counts([Counter::RequestShortSent, Counter::RequestShortReceived]);
    for _ in 0..3 {
        own.ep.request(own.to, FAILS, &[1]).unwrap();
        let failed = own.ep.poll().unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::HandlerFailed { .. }), "{failed}");
        own.ep.request(own.to, REFUSES, &[5, 6]).unwrap();
    }
    own.ep.poll_until(|| log.reasons().len() == 3).unwrap();
    assert_eq!(log.reasons(), [Reason::BadLength; 3]);
    assert_eq!(log.0.borrow()[2].words, [5, 6]);
    let after = own.counts([Counter::RequestShortSent, Counter::RequestShortReceived]);
    assert_eq!(after, before.map(|count| count + 6));
    own.ep.request(own.to, Handler(77), &[]).unwrap();
    own.ep.poll_until(|| log.reasons().len() == 4).unwrap();
    own.ep.set_tag(clump_am::Tag(TAG.0 + 1)).unwrap();
    own.ep.request(own.to, FAILS, &[]).unwrap();
    own.ep.poll_until(|| log.reasons().len() == 5).unwrap();
    assert_eq!(log.reasons()[3..], [Reason::BadHandler, Reason::BadTag]);
}

#[test]
fn requests_to_itself_go_on_after_a_sleep_and_by_another_entry() {
    let own = Own::open(Settings::default());
    own.warm_up();
    let hits = Rc::new(Cell::new(0));
    let count = hits.clone();
    own.ep
        .set_handler(PING, move |_, words, _| {
            assert_eq!(words, [count.get()]);
            count.set(count.get() + 1);
        })
        .unwrap();
    let parks = || Counters::over(own.context.block().counters()).get(Counter::Parks);
    let mut to = own.to;
    for round in 0..4 {
        // Asleep, it looks at no lane.
        let before = parks();
        own.ep.poll_until(|| parks() > before).unwrap();
        for at in 0..5 {
            own.ep.request(to, PING, &[round * 5 + at]).unwrap();
        }
        assert_eq!(hits.get(), round * 5 + 5);
        own.ep.unmap(to).unwrap();
        to = own.ep.map(&own.ep.name(), TAG).unwrap();
    }
    own.ep.drain().unwrap();
}
