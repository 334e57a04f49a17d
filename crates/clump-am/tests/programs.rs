//! Random programs of many endpoints in one thread, polled in any order: no message is lost,
//! doubled, altered or returned for a wrong reason.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::world;

use clump_am::{Dest, Endpoint, Handler, Name, RankContext, Reason, SendAttempt, Settings, Tag};
use clump_loggp::{BaseParameters, KnobTable};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use world::{Carried, DEPOSIT, ECHO, MISSING, RELAY, SEGMENT, SINK, Sent, SharedLog};

/// Most endpoints that a program opens.
const MAX_COUNT: usize = 12;
/// A name that no program opens.
const NOBODY: u8 = 31;

/// Contents of a message; lengths in bytes.
#[derive(Debug, Clone, Copy)]
enum Body {
    Short,
    Medium(usize),
    Long(usize),
    /// A deposit that starts behind the segment.
    Outside,
    /// A deposit that ends behind the segment.
    TooLong,
}

/// Name and tag that a sender uses: the right ones or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    Good,
    WrongTag,
    Nobody,
}

/// One step of a program. Endpoints are chosen modulo their number.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send {
        from: usize,
        to: usize,
        handler: Handler,
        way: Way,
        body: Body,
        extra: usize,
    },
    /// Short requests without polling, until there is no room.
    Burst {
        from: usize,
        to: usize,
        handler: Handler,
        count: usize,
    },
    Poll {
        at: usize,
    },
    Drain {
        at: usize,
    },
    Unmap {
        from: usize,
        to: usize,
    },
    Retag {
        at: usize,
    },
    Close {
        at: usize,
    },
    Open {
        rank: usize,
    },
    /// Delays messages on purpose from now on, or no more.
    Turn {
        knobs: &'static str,
    },
}

/// An endpoint of the program.
struct Station {
    endpoint: Option<Endpoint>,
    name: Name,
    tag: u64,
    dests: HashMap<(usize, Way), (Dest, u64)>,
    deposits: u64,
}

struct World {
    contexts: Vec<Arc<RankContext>>,
    stations: Vec<Station>,
    sent: HashMap<u64, Sent>,
    log: SharedLog,
    /// True once messages were delayed on purpose.
    slowed: bool,
}

impl World {
    fn new(ranks: usize, settings: Settings) -> Self {
        let node = clump_test_bed::node(ranks, false);
        let contexts =
            (0..ranks).map(|rank| clump_test_bed::context(&node, rank as u32, settings)).collect();
        let (stations, sent, log) = Default::default();
        let mut world = Self { contexts, stations, sent, log, slowed: false };
        (0..ranks).for_each(|rank| world.open(rank));
        world
    }

    fn open(&mut self, rank: usize) {
        if self.stations.len() == MAX_COUNT {
            return;
        }
        let (at, tag) = (self.stations.len(), self.stations.len() as u64 * 1000 + 2);
        let context = &self.contexts[rank % self.contexts.len()];
        let endpoint = Endpoint::open(context, Tag(tag)).unwrap();
        let name = endpoint.name();
        endpoint.export_segment(SEGMENT).unwrap();
        let myself = endpoint.map(&name, Tag(tag)).unwrap();
        world::equip(&endpoint, at, &self.log, myself);
        let endpoint = Some(endpoint);
        self.stations.push(Station { endpoint, name, tag, dests: HashMap::new(), deposits: 0 });
    }

    fn index(&self, at: usize) -> usize {
        at % self.stations.len()
    }

    /// Returns the destination that `from` has for `to`, and the tag it was mapped with.
    fn dest(&mut self, from: usize, to: usize, way: Way) -> Option<(Dest, u64)> {
        let (name, tag) = match way {
            Way::Good => (self.stations[to].name, self.stations[to].tag),
            Way::WrongTag => (self.stations[to].name, 1),
            Way::Nobody => (Name::new(0, NOBODY, 1), 1),
        };
        let station = &mut self.stations[from];
        let endpoint = station.endpoint.as_ref()?;
        let new = || (endpoint.map(&name, Tag(tag)).unwrap(), tag);
        Some(*station.dests.entry((to, way)).or_insert_with(new))
    }

    /// Returns the reasons for which a request must be returned at once, in its target's present
    /// state.
    fn refusal(
        &self,
        to: usize,
        handler: Handler,
        (way, tag): (Way, u64),
        body: Body,
    ) -> Vec<Reason> {
        let target = &self.stations[to];
        match (handler, way, body) {
            (Handler(0), _, _) => vec![Reason::BadArguments],
            (_, Way::Nobody, _) => vec![Reason::NoSuchEndpoint],
            // Its index may have been used again since.
            _ if target.endpoint.is_none() => vec![Reason::EndpointGone, Reason::NoSuchEndpoint],
            _ if tag != target.tag => vec![Reason::BadTag],
            (_, _, Body::Outside) => vec![Reason::BadOffset],
            (_, _, Body::TooLong) => vec![Reason::BadLength],
            _ => vec![],
        }
    }

    /// Composes the next request; words are its number, the offset for its reply's deposit, and
    /// more.
    fn compose(
        &mut self,
        from: usize,
        to: usize,
        id: u64,
        body: Body,
        extra: usize,
    ) -> (Vec<u64>, Carried) {
        let mut place = |station: usize| {
            let next = &mut self.stations[station].deposits;
            *next = (*next + 1) % (SEGMENT / 2 / DEPOSIT);
            *next * DEPOSIT
        };
        let (carried, reply_at) = match body {
            Body::Short => (Carried::Nothing, 0),
            Body::Medium(len) => (Carried::Medium(world::pattern(id, len)), 0),
            Body::Long(len) => {
                let carried = Carried::Long(place(to), world::pattern(id, len));
                (carried, SEGMENT / 2 + place(from))
            }
            Body::Outside => (Carried::Long(SEGMENT + 1, vec![1; 3]), 0),
            Body::TooLong => (Carried::Long(SEGMENT - 2, vec![1; 3]), 0),
        };
        let mut words = vec![id, reply_at];
        words.extend((0..extra as u64).map(|word| id * 17 + word));
        (words, carried)
    }

    fn send(
        &mut self,
        from: usize,
        to: usize,
        handler: Handler,
        way: Way,
        body: Body,
        extra: usize,
    ) {
        let Some((dest, tag)) = self.dest(from, to, way) else { return };
        let id = self.sent.len() as u64;
        let refused = self.refusal(to, handler, (way, tag), body);
        let (words, carried) = self.compose(from, to, id, body, extra);
        let name =
            if way == Way::Nobody { Name::new(0, NOBODY, 1) } else { self.stations[to].name };
        let to = (way != Way::Nobody).then_some(to);
        let message = Sent { from, to, name, handler, words, carried, refused };
        let endpoint = self.stations[from].endpoint.clone().unwrap();
        world::send(&endpoint, dest, &message).unwrap();
        self.sent.insert(id, message);
    }

    fn burst(&mut self, from: usize, to: usize, handler: Handler, count: usize) {
        let Some((dest, tag)) = self.dest(from, to, Way::Good) else { return };
        let endpoint = self.stations[from].endpoint.clone().unwrap();
        let refused = self.refusal(to, handler, (Way::Good, tag), Body::Short);
        for _ in 0..count {
            let id = self.sent.len() as u64;
            let (words, carried) = self.compose(from, to, id, Body::Short, 0);
            if endpoint.try_request(dest, handler, &words).unwrap() == SendAttempt::Full {
                return;
            }
            let (name, refused) = (self.stations[to].name, refused.clone());
            let to = Some(to);
            self.sent.insert(id, Sent { from, to, name, handler, words, carried, refused });
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send { from, to, handler, way, body, extra } => {
                self.send(self.index(from), self.index(to), handler, way, body, extra);
            }
            Step::Burst { from, to, handler, count } => {
                self.burst(self.index(from), self.index(to), handler, count);
            }
            Step::Poll { at } => {
                if let Some(endpoint) = self.at(at) {
                    endpoint.poll().unwrap();
                }
            }
            Step::Drain { at } => {
                self.at(at).into_iter().for_each(|endpoint| endpoint.drain().unwrap());
            }
            Step::Unmap { from, to } => {
                let (from, to) = (self.index(from), self.index(to));
                let station = &mut self.stations[from];
                if let Some((dest, _)) = station.dests.remove(&(to, Way::Good)) {
                    station.endpoint.as_ref().unwrap().unmap(dest).unwrap();
                }
            }
            Step::Retag { at } => {
                let at = self.index(at);
                let station = &mut self.stations[at];
                if let Some(endpoint) = &station.endpoint {
                    station.tag += 2;
                    endpoint.set_tag(Tag(station.tag)).unwrap();
                }
            }
            Step::Close { at } => {
                let at = self.index(at);
                if self.slowed {
                    // It may hide more than a requester that does not poll can take back
                    // (docs/lab.md).
                    self.drain();
                }
                self.stations[at].endpoint = None;
                self.stations[at].dests.clear();
            }
            Step::Open { rank } => self.open(rank),
            Step::Turn { knobs } => {
                let table = KnobTable::parse(knobs, &[BaseParameters::default(); 2]).unwrap();
                self.contexts[0].node().set_knobs(&table.to_words()).unwrap();
                self.slowed = true;
            }
        }
    }

    fn at(&self, at: usize) -> Option<&Endpoint> {
        self.stations[self.index(at)].endpoint.as_ref()
    }

    /// Polls until everything in flight has arrived or been returned.
    fn drain(&self) {
        let open = || self.stations.iter().filter_map(|station| station.endpoint.as_ref());
        // Messages of one endpoint may wait at another until they are due, and be answered then.
        let mut quiet = 0;
        while quiet < 4 {
            let drained = open().all(|endpoint| endpoint.try_drain().unwrap());
            let handled = open().map(|endpoint| endpoint.poll().unwrap()).sum::<usize>();
            quiet = if drained && handled == 0 { quiet + 1 } else { 0 };
        }
    }
}

fn run(ranks: usize, lanes: bool, steps: &[Step]) {
    let mut world = World::new(ranks, Settings { lanes, ..Settings::default() });
    steps.iter().for_each(|step| world.step(*step));
    world.drain();
    world.log.borrow().check(&world.sent, |at| world.stations[at].endpoint.is_some());
}

fn any_handler() -> impl Strategy<Value = Handler> {
    prop_oneof![
        4 => Just(SINK), 6 => Just(ECHO), 2 => Just(RELAY), 1 => Just(MISSING), 1 => Just(Handler(0)),
    ]
}

fn any_body() -> impl Strategy<Value = Body> {
    prop_oneof![
        3 => Just(Body::Short),
        2 => (0..300usize).prop_map(Body::Medium),
        1 => (0..=65_536usize).prop_map(Body::Medium),
        2 => (0..=DEPOSIT as usize).prop_map(Body::Long),
        1 => prop_oneof![Just(Body::Outside), Just(Body::TooLong)],
    ]
}

fn any_way() -> impl Strategy<Value = Way> {
    prop_oneof![10 => Just(Way::Good), 1 => Just(Way::WrongTag), 1 => Just(Way::Nobody)]
}

fn any_knobs() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(""),
        Just("o=+100ns,L=+30us,g=100ns"),
        Just("L=+200us"),
        Just("G=+1ns/B,g=500ns,class=bulk"),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let two = || (0..MAX_COUNT, 0..MAX_COUNT);
    let send = (two(), any_handler(), any_way(), any_body(), 0..=6usize).prop_map(
        |((from, to), handler, way, body, extra)| Step::Send {
            from,
            to,
            handler,
            way,
            body,
            extra,
        },
    );
    let burst = (two(), any_handler(), 1..400usize)
        .prop_map(|((from, to), handler, count)| Step::Burst { from, to, handler, count });
    prop_oneof![
        12 => send,
        3 => burst,
        12 => (0..MAX_COUNT).prop_map(|at| Step::Poll { at }),
        1 => (0..MAX_COUNT).prop_map(|at| Step::Drain { at }),
        2 => two().prop_map(|(from, to)| Step::Unmap { from, to }),
        1 => (0..MAX_COUNT).prop_map(|at| Step::Retag { at }),
        1 => (0..MAX_COUNT).prop_map(|at| Step::Close { at }),
        1 => (0..4usize).prop_map(|rank| Step::Open { rank }),
        1 => any_knobs().prop_map(|knobs| Step::Turn { knobs }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: clump_test_tier::pick(200, 1000), max_shrink_iters: 2000, ..Default::default() })]

    #[test]
    fn requests_are_handled_once_or_come_back_once(
        ranks in 1..=4usize,
        lanes: bool,
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        world::in_time(move || run(ranks, lanes, &steps));
    }
}
