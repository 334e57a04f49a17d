//! Random traffic of several requesters against a model of what each of them must get.

use super::*;
use clump_net::Words;
use clump_wire::Reason;
use clump_wire::frame::Route;
use proptest::prelude::*;

const ME: u64 = 7 << 40 | 1 << 8;
const CREDIT: u64 = 4096;

/// A network with room for some replies, and what arrived at each requester.
#[derive(Debug, Default)]
struct Network {
    room: usize,
    lost: Option<u64>,
    replies: HashMap<u64, Vec<u64>>,
    reports: HashMap<u64, u64>,
    granted: u64,
}

impl Network {
    fn deliver(&mut self, reply: &Message<'_>) {
        assert_eq!(reply.route.from, ME);
        self.replies.entry(reply.route.to).or_default().extend(reply.words);
    }
}

impl ReplyOutlet for Network {
    fn reply(&mut self, reply: &Message<'_>) -> SendResult {
        if self.lost == Some(reply.route.to) {
            return SendResult::Refused(Reason::PeerLost);
        }
        if self.room == 0 {
            return SendResult::Full;
        }
        self.room -= 1;
        self.deliver(reply);
        SendResult::Sent
    }

    fn reply_anyway(&mut self, reply: &Message<'_>) {
        self.deliver(reply);
    }

    fn report(&mut self, from: u64, to: u64, [total, granted]: [u64; 2]) {
        assert_eq!(from, ME);
        self.granted = self.granted.max(granted);
        let before = self.reports.insert(to, total).unwrap_or(0);
        assert!(before <= total, "{to:x} was told {total} after {before}");
    }

    fn credit(&self) -> u64 {
        CREDIT
    }
}

fn requesters() -> Requesters {
    Requesters::new(ME, crate::pool_of(1))
}

fn request(from: u64, kind: FrameKind, words: Vec<u64>, payload: usize) -> OwnedMessage {
    OwnedMessage {
        kind,
        reply: false,
        handler: 1,
        route: Route { from, to: ME, tag: 0 },
        words,
        payload: vec![0; payload],
    }
}

#[derive(Debug, Clone)]
enum Step {
    Request { from: u64, payload: usize, replies: bool, hold: bool },
    Ask { from: u64, total: u64 },
    Room(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let request = (1..4_u64, 0..3000_usize, any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(from, payload, replies, hold)| Step::Request { from, payload, replies, hold });
    let ask = (1..4_u64, 0..40_000_u64).prop_map(|(from, total)| Step::Ask { from, total });
    let step = prop_oneof![6 => request, 1 => ask, 3 => (0..3_usize).prop_map(Step::Room)];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Each reply arrives once, in order; reports never lag by more than a quarter of the credit,
    /// and not at all once everything is closed.
    #[test]
    fn what_is_owed_arrives(steps in steps()) {
        let (mut requesters, mut network) = (requesters(), Network::default());
        let (mut sent, mut consumed) = (HashMap::<u64, Vec<u64>>::new(), HashMap::<u64, u64>::new());
        let mut next = 0;
        for step in steps {
            match step {
                Step::Request { from, payload, replies, hold } => {
                    let queued = request(from, FrameKind::Medium, vec![1], payload);
                    match requesters.admit(&mut network, &queued.message(), hold) {
                        Arrival::Wait => {}
                        Arrival::Request(requester) => {
                            prop_assert!(!hold && requester.name() == from);
                            if replies {
                                next += 1;
                                let head = (FrameKind::Short, 2);
                                let _ = requester.send(&mut network, head, &[next], &[]);
                                sent.entry(from).or_default().push(next);
                            }
                            requester.note_consumed(&mut network, payload);
                            let all = consumed.entry(from).or_default();
                            *all += clump_proto::REQUEST_COST + payload as u64;
                            let told = network.reports.get(&from).copied().unwrap_or(0);
                            prop_assert!(*all - told < CREDIT / 4, "{told} of {all} reported");
                        }
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
                Step::Ask { from, total } => {
                    let queued = request(from, FrameKind::Ask, vec![total], 0);
                    let arrival = requesters.admit(&mut network, &queued.message(), true);
                    prop_assert!(matches!(arrival, Arrival::Done));
                    let all = consumed.get(&from).copied().unwrap_or(0);
                    let told = network.reports.get(&from).copied().unwrap_or(0);
                    prop_assert!(all < total || told == all, "asked at {total}, told {told}");
                }
                Step::Room(room) => {
                    network.room = room;
                    let stuck = requesters.flush(&mut network, |reply| panic!("{reply:?}"));
                    prop_assert_eq!(stuck > 0, requesters.is_stuck());
                }
            }
            requesters.check_invariants();
        }
        requesters.close(&mut network);
        prop_assert_eq!(&network.replies, &sent);
        network.reports.retain(|_, total| *total > 0);
        prop_assert_eq!(&network.reports, &consumed);
    }
}

#[test]
fn a_reply_that_nobody_takes_is_shown() {
    let (mut requesters, mut network) = (requesters(), Network::default());
    let queued = request(3, FrameKind::Short, vec![1], 0);
    let mut words = Words::default();
    words[0] = 9;
    if let Arrival::Request(requester) = requesters.admit(&mut network, &queued.message(), false) {
        let pushed = requester.send(&mut network, (FrameKind::Short, 2), &words[..1], &[]);
        assert_eq!(pushed, SendResult::Full);
    }
    let later = requesters.admit(&mut network, &queued.message(), false);
    assert!(matches!(later, Arrival::Wait), "its reply waits: {later:?}");
    network.lost = Some(3);
    let mut shown = Vec::new();
    assert_eq!(requesters.flush(&mut network, |reply| shown.extend(reply.words)), 0);
    assert_eq!((shown, requesters.is_stuck()), (vec![9], false));
}

#[test]
fn messages_are_told_apart() {
    let (mut requesters, mut network) = (requesters(), Network::default());
    let mut message = request(3, FrameKind::Returned, vec![1], 0);
    let answer = requesters.admit(&mut network, &message.message(), true);
    assert!(matches!(answer, Arrival::Answer), "{answer:?}");
    (message.reply, message.kind) = (true, FrameKind::Long);
    let answer = requesters.admit(&mut network, &message.message(), true);
    assert!(matches!(answer, Arrival::Answer), "{answer:?}");
    message.reply = false;
    let waits = requesters.admit(&mut network, &message.message(), true);
    assert!(matches!(waits, Arrival::Wait), "requests are held: {waits:?}");
}

#[test]
fn a_long_latency_is_no_gap_credit_follows_what_is_hidden() {
    // A request of 1 KiB each microsecond, each due a millisecond later: a MiB is hidden at a time.
    const BYTES: usize = 1024;
    const LATENCY: usize = 1_000;
    let (mut requesters, mut network) = (requesters(), Network::default());
    let cost = REQUEST_COST + BYTES as u64;
    let (mut sent, mut due, mut sent_last) = (0, std::collections::VecDeque::new(), 0);
    for now in 0..20 * LATENCY {
        while due.front().is_some_and(|&at| at <= now) {
            due.pop_front();
            let whole = request(9, FrameKind::Medium, vec![], BYTES);
            let arrival = requesters.admit(&mut network, &whole.message(), false);
            let Arrival::Request(requester) = arrival else { panic!("{arrival:?}") };
            requester.note_consumed(&mut network, BYTES);
        }
        let consumed = network.reports.get(&9).copied().unwrap_or(0);
        if sent - consumed + cost <= network.granted.max(CREDIT) {
            sent += cost;
            requesters.note_hidden(&mut network, 9, BYTES);
            due.push_back(now + LATENCY);
            sent_last += u64::from(now >= 19 * LATENCY);
        }
    }
    assert_eq!(sent_last, LATENCY as u64, "one each microsecond, as without a latency");
    assert!(network.granted <= 4 << 20, "and no more than that takes: {}", network.granted);
}

/// Has the endpoint `from` ask for credit; returns what it is told.
fn ask(requesters: &mut Requesters, network: &mut Network, from: u64, wanted: u64) -> u64 {
    let mut asked = request(from, FrameKind::Ask, vec![u64::MAX, wanted], 0);
    asked.reply = true;
    network.granted = 0;
    assert!(matches!(requesters.admit(network, &asked.message(), false), Arrival::Done));
    network.granted
}

#[test]
fn the_endpoints_of_a_rank_grant_out_of_one_pool_and_give_it_back() {
    let pool = crate::pool_of(8); // 48 MiB
    let all = CREDIT + (48 << 20);
    let endpoint = || Requesters::new(ME, pool.clone());
    let (mut first, mut second, mut network) = (endpoint(), endpoint(), Network::default());
    assert_eq!(ask(&mut first, &mut network, 3, 2 * all), all, "all that the rank has");
    assert_eq!(ask(&mut second, &mut network, 4, all), 0, "no other endpoint has any");
    assert_eq!(ask(&mut first, &mut network, 5, all), 0, "a first chance");
    // The other has done nothing since: it is told, and the asker gets what it gave.
    assert_eq!(ask(&mut first, &mut network, 5, all), all);
    assert_eq!(network.reports.len(), 2, "{:?}", network.reports);
    first.close(&mut network);
    assert_eq!(ask(&mut second, &mut network, 4, all), all, "a closed endpoint leaves its own");
}
