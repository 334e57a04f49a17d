//! Random programs of ranks that run at the same time, one thread each: requests and replies under
//! the same rule, while endpoints close and destinations come and go.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::world;

use clump_am::{Dest, Endpoint, Handler, Name, RankContext, Settings, Tag};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use world::{Carried, DEPOSIT, ECHO, Log, MISSING, SEGMENT, SINK, Sent, SharedLog};

const TAG: Tag = Tag(11);
/// Time for which one thread may wait for the others, in ns; a program takes milliseconds.
const LIMIT_NS: u64 = 15_000_000_000;

/// One step of a rank. Every rank has a lasting endpoint and one that it closes at some time.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send {
        to: usize,
        handler: Handler,
        body: Body,
    },
    /// Short requests to a lasting endpoint.
    Flood {
        to: usize,
        count: u64,
    },
    /// Requests without reply to an endpoint that may close.
    SendMayfly {
        to: usize,
        len: usize,
    },
    Unmap {
        to: usize,
    },
    CloseMayfly,
    Poll,
}

#[derive(Debug, Clone, Copy)]
enum Body {
    Short,
    Medium(usize),
    Long(usize),
}

/// State that all ranks of a program share.
struct RankTable {
    ranks: usize,
    opened: Barrier,
    /// Ranks whose requests have all been read or returned.
    drained: AtomicU64,
    /// Ranks that have all their replies, too.
    finished: AtomicU64,
}

/// A rank that runs its steps. Endpoints are numbered: twice the rank, and one more for the one
/// that closes.
struct Runner {
    rank: usize,
    handshake: Arc<RankTable>,
    endpoint: Endpoint,
    mayfly: Option<Endpoint>,
    dests: HashMap<usize, Dest>,
    sent: HashMap<u64, Sent>,
    log: SharedLog,
    deposits: u64,
}

fn name_of(station: usize) -> Name {
    Name::new((station / 2) as u32, (station % 2) as u8, 1)
}

impl Runner {
    fn new(context: &Arc<RankContext>, handshake: Arc<RankTable>) -> Self {
        let rank = context.rank() as usize;
        let log = SharedLog::default();
        let open = |station: usize| {
            let endpoint = Endpoint::open(context, TAG).unwrap();
            assert_eq!(endpoint.name(), name_of(station));
            endpoint.export_segment(SEGMENT * 4).unwrap();
            let myself = endpoint.map(&endpoint.name(), TAG).unwrap();
            world::equip(&endpoint, station, &log, myself);
            endpoint
        };
        let (endpoint, mayfly) = (open(rank * 2), Some(open(rank * 2 + 1)));
        handshake.opened.wait();
        let (dests, sent) = Default::default();
        Self { rank, handshake, endpoint, mayfly, dests, sent, log, deposits: 0 }
    }

    fn send(&mut self, station: usize, handler: Handler, body: Body) {
        let id = (self.rank as u64) << 32 | self.sent.len() as u64;
        let name = name_of(station);
        let map = || self.endpoint.map(&name, TAG).unwrap();
        let dest = *self.dests.entry(station).or_insert_with(map);
        let mut reply_at = 0;
        let carried = match body {
            Body::Short => Carried::Nothing,
            Body::Medium(len) => Carried::Medium(world::pattern(id, len)),
            Body::Long(len) => {
                // Offsets by sender, so that ranks do not overwrite each other's deposits.
                let place = (self.rank as u64 * 128 + self.deposits % 128) * DEPOSIT;
                self.deposits += 1;
                reply_at = SEGMENT * 2 + place;
                Carried::Long(place, world::pattern(id, len))
            }
        };
        let (from, to) = (self.rank * 2, Some(station));
        let words = vec![id, reply_at, id * 3];
        let message = Sent { from, to, name, handler, words, carried, refused: vec![] };
        world::send(&self.endpoint, dest, &message).unwrap();
        self.sent.insert(id, message);
    }

    fn step(&mut self, step: Step) {
        let ranks = self.handshake.ranks;
        match step {
            Step::Send { to, handler, body } => self.send(to % ranks * 2, handler, body),
            Step::Flood { to, count } => {
                (0..count).for_each(|_| self.send(to % ranks * 2, ECHO, Body::Short));
            }
            Step::SendMayfly { to, len } => {
                self.send(to % ranks * 2 + 1, SINK, Body::Medium(len));
            }
            Step::Unmap { to } => {
                if let Some(dest) = self.dests.remove(&(to % (ranks * 2))) {
                    self.endpoint.unmap(dest).unwrap();
                }
            }
            Step::CloseMayfly => self.mayfly = None,
            Step::Poll => {
                self.endpoint.poll().unwrap();
            }
        }
    }

    /// Polls until `done`, and fails if that takes too long.
    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let start = clock::now_ns();
        let late = || clock::now_ns() - start > LIMIT_NS;
        self.endpoint.poll_until(|| done() || late()).unwrap();
        assert!(done(), "{what} never came");
    }

    /// Waits until every message of every rank has arrived or been returned.
    fn finish(self) -> (HashMap<u64, Sent>, Log, bool) {
        self.endpoint.drain().unwrap();
        let handshake = self.handshake.clone();
        handshake.drained.fetch_add(1, Ordering::AcqRel);
        let ranks = handshake.ranks as u64;
        self.wait("the end of all requests", || handshake.drained.load(Ordering::Acquire) >= ranks);
        let count = |handler: Handler| self.sent.values().filter(|m| m.handler == handler).count();
        let (echoes, missing) = (count(ECHO), count(MISSING));
        // Both go to lasting endpoints only, so each of them is replied to.
        self.wait("an answer", || {
            let log = self.log.borrow();
            let back = log.returned.keys().filter(|id| self.sent[id].handler == MISSING);
            log.replies.len() == echoes && back.count() == missing
        });
        handshake.finished.fetch_add(1, Ordering::AcqRel);
        self.wait("the others", || handshake.finished.load(Ordering::Acquire) == ranks);
        let open = self.mayfly.is_some();
        drop((self.mayfly, self.endpoint));
        (self.sent, std::mem::take(&mut self.log.borrow_mut()), open)
    }
}

fn run(lanes: bool, programs: &[Vec<Step>]) {
    let ranks = programs.len();
    let settings = Settings { lanes, ..Settings::default() };
    let node = clump_test_bed::node(ranks, false);
    let (drained, finished) = Default::default();
    let handshake = Arc::new(RankTable { ranks, opened: Barrier::new(ranks), drained, finished });
    let threads: Vec<_> = programs
        .iter()
        .zip(0..)
        .map(|(steps, rank)| {
            let (node, handshake, steps) = (node.clone(), handshake.clone(), steps.clone());
            std::thread::spawn(move || {
                let mut runner =
                    Runner::new(&clump_test_bed::context(&node, rank, settings), handshake);
                steps.into_iter().for_each(|step| runner.step(step));
                runner.finish()
            })
        })
        .collect();
    let (mut sent, mut log, mut mayflies) = (HashMap::new(), Log::default(), Vec::new());
    for thread in threads {
        let (theirs, seen, open) =
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.extend(theirs);
        log.merge(seen);
        mayflies.push(open);
    }
    log.check(&sent, |station| station % 2 == 0 || mayflies[station / 2]);
}

fn any_step() -> impl Strategy<Value = Step> {
    let lasting = prop_oneof![2 => Just(SINK), 3 => Just(ECHO), 1 => Just(MISSING)];
    let body = prop_oneof![
        2 => Just(Body::Short),
        2 => (0..5000usize).prop_map(Body::Medium),
        1 => (0..=DEPOSIT as usize).prop_map(Body::Long),
    ];
    prop_oneof![
        8 => (0..4usize, lasting, body).prop_map(|(to, handler, body)| Step::Send { to, handler, body }),
        2 => (0..4usize, 1..400u64).prop_map(|(to, count)| Step::Flood { to, count }),
        6 => (0..4usize, 0..300usize).prop_map(|(to, len)| Step::SendMayfly { to, len }),
        2 => (0..8usize).prop_map(|to| Step::Unmap { to }),
        1 => Just(Step::CloseMayfly),
        3 => Just(Step::Poll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: clump_test_tier::pick(30, 150), max_shrink_iters: 200, ..Default::default() })]

    #[test]
    fn ranks_at_once_lose_and_double_nothing(
        lanes: bool,
        programs in prop::collection::vec(prop::collection::vec(any_step(), 1..60), 1..=4),
    ) {
        world::in_time(move || run(lanes, &programs));
    }
}
