//! A lock of a home, a rank there, and three ranks elsewhere, whose messages arrive in any order:
//! random schedules with deaths at every step, checked against the guarantees of a lock.

use super::{Bench, engine_name, own, request};
use crate::engine::claims::ClaimState;
use crate::engine::{Engine, ReplySink};
use clump_onesided::protocol::{ask, atomic_handler, how, tell};
use clump_onesided::{AtomicOp, Completion, LockTurn, Refusal, Requester, TurnStatus, Width};
use clump_os::sync::Ordering;
use clump_shm::cells::Cells;
use clump_shm::name::Name;
use clump_shm::queue_lock::{LockHead, QueueLock, lock_words};
use clump_test_tier::Sampler;
use clump_wire::{Message, Reason, SendResult};

const RANKS: u32 = 4;
/// Offset of the lock, and of the word that holders change.
const LOCK: u64 = 64;
const DATA: u64 = 8;
const TURNS: u32 = 4;

#[derive(Debug, Clone)]
struct HomeMessage {
    /// Sender; `None`: the home.
    from: Option<Name>,
    to: Option<Name>,
    handler: u8,
    words: Vec<u64>,
}

/// Outlet of the home; sometimes it has no room.
struct Post<'a> {
    queued: &'a mut Vec<HomeMessage>,
    sampler: &'a mut Sampler,
}

impl ReplySink for Post<'_> {
    fn answer(&mut self, answer: &Message<'_>) -> bool {
        let room = self.sampler.below(12) > 0;
        if room {
            let (to, words) = (Some(Name::from_bits(answer.route.to)), answer.words.to_vec());
            self.queued.push(HomeMessage { from: None, to, handler: answer.handler, words });
        }
        room
    }

    fn report(&mut self, _to: Name, _consumed: [u64; 2]) {}

    fn ask(&mut self, _: u32, _: u8, _: &[u64], _: &[u8]) -> SendResult {
        SendResult::Refused(Reason::PeerLost)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Asks {
        cookie: u64,
        how: u64,
        cancelled: bool,
    },
    Holds {
        cookie: u64,
        position: u64,
        word: u64,
    },
    Quiet {
        cookie: u64,
    },
    /// Died, or left.
    Gone {
        dead: bool,
        known: bool,
        forgotten: bool,
    },
}

struct Rank {
    name: Name,
    books: Requester,
    doing: Doing,
    left: u32,
}

#[derive(Default)]
struct Seen {
    passed: u32,
    early: u32,
    copies: u32,
    broken: u32,
    grants: u32,
}

struct World {
    engine: Engine<Bench>,
    cells: Cells,
    ranks: Vec<Rank>,
    /// The rank of the home: its turn, and the lock that it holds.
    local: Option<LockTurn>,
    local_has: Option<(u64, u64)>,
    local_left: u32,
    queued: Vec<HomeMessage>,
    sampler: Sampler,
    deaths: u32,
    /// The rank whose messages to the home are slow; 0: none.
    slow: u32,
    /// Expected state of the lock: holder, word, last position, minimum of its data.
    holder: Option<u32>,
    broken: bool,
    word: u64,
    last: Option<u64>,
    data: u64,
    seen: Seen,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut sampler = Sampler::new(seed);
        let bench = Bench::new();
        let cells = bench.cells.clone();
        let rank = |number| Rank {
            name: Name::new(number, 3, 1),
            books: Requester::new(1),
            doing: Doing::Nothing,
            left: TURNS,
        };
        let deaths = if sampler.below(2) == 0 { 0 } else { 1 + sampler.below(2) as u32 };
        let slow = sampler.below(u64::from(RANKS)) as u32;
        Self {
            engine: Engine::new(engine_name(), bench, RANKS, 1 << 16),
            cells,
            ranks: (1..RANKS).map(rank).collect(),
            local: None,
            local_has: None,
            local_left: TURNS,
            queued: Vec::new(),
            sampler,
            deaths,
            slow,
            holder: None,
            broken: false,
            word: 0,
            last: None,
            data: 0,
            seen: Seen::default(),
        }
    }

    fn lock(&self) -> QueueLock<'_> {
        QueueLock::over(self.cells.words(LOCK, lock_words(RANKS as usize)).unwrap()).unwrap()
    }

    fn granted(&mut self, rank: u32, (position, word): (u64, u64)) {
        self.seen.grants += 1;
        assert_eq!(self.holder, None, "rank {rank} got what another has");
        assert!(!self.broken, "rank {rank} got what a rank died with");
        assert!(self.last.is_none_or(|last| last < position), "rank {rank} jumped the line");
        assert_eq!(word, self.word, "the word of rank {rank}");
        let data = self.cells.word(DATA).unwrap().load(Ordering::SeqCst);
        assert!(
            data >= self.data,
            "rank {rank} has the lock before what its holder put behind a fence"
        );
        (self.holder, self.last) = (Some(rank), Some(position));
    }

    fn send_home(&mut self, at: usize, handler: u8, words: &[u64]) {
        let from = Some(self.ranks[at].name);
        self.queued.push(HomeMessage { from, to: None, handler, words: words.to_vec() });
    }

    fn ask_home(&mut self, at: usize, handler: u8, words: &[u64]) {
        let encoded = self.ranks[at].books.word(0, handler, words).unwrap();
        self.send_home(at, encoded.handler, encoded.words());
    }

    fn deliver(&mut self) {
        if self.queued.is_empty() {
            return;
        }
        let at = self.sampler.below(self.queued.len() as u64) as usize;
        let slow = self.queued[at].from.is_some_and(|from| from.rank() == self.slow);
        if slow && self.queued[at].to.is_none() && self.sampler.below(6) > 0 {
            return;
        }
        let queued = self.queued.swap_remove(at);
        let Self { engine, queued: bag, sampler, ranks, .. } = self;
        let Some(to) = queued.to else {
            let (from, words) = (queued.from.unwrap(), &queued.words[..]);
            let request = request(from, (queued.handler, words), &[], 0);
            engine.handle_request(&request.message(), &mut Post { queued: bag, sampler });
            let early = |place: &super::super::claims::ClaimAccount| {
                matches!(place.state, ClaimState::Early(..))
            };
            self.seen.early += u32::from(!self.engine.locks.claims.find(early).is_empty());
            return;
        };
        let rank = &mut ranks[to.rank() as usize - 1];
        if rank.name == to && !matches!(rank.doing, Doing::Gone { .. }) {
            rank.books.on_answer(queued.handler, &queued.words, |_| 0);
        }
    }

    /// Runs a turn of the home's interface.
    fn run_interface(&mut self) {
        let Self { engine, queued, sampler, .. } = self;
        engine.handle_room(&mut Post { queued, sampler });
        engine.handle_waits(&mut Post { queued, sampler });
    }

    fn is_known_dead(&self, rank: u32) -> bool {
        self.engine.memory.dead.contains(&rank)
    }

    /// Returns true if none of its messages is in flight.
    fn has_arrived(&self, name: Name) -> bool {
        self.queued.iter().all(|queued| queued.from != Some(name))
    }

    fn act(&mut self, at: usize) {
        let number = at as u32 + 1;
        match self.ranks[at].doing {
            Doing::Nothing if self.ranks[at].left == 0 || self.sampler.below(20) == 0 => {
                let name = self.ranks[at].name;
                let asked = self.ranks[at].books.quiet(0);
                if let Some((cookie, encoded)) = asked {
                    self.send_home(at, encoded.handler, encoded.words());
                    self.ranks[at].doing = Doing::Quiet { cookie };
                } else if self.ranks[at].left > 0 {
                    // All its requests have been executed: it closes its endpoint, and opens a new
                    // one.
                    if self.has_arrived(name) {
                        let name = Name::new(number, 3, name.generation() + 1);
                        (self.ranks[at].name, self.ranks[at].books) = (name, Requester::new(1));
                    }
                } else if self.has_arrived(name) && self.sampler.below(4) == 0 {
                    let (dead, known, forgotten) = (false, true, false);
                    self.ranks[at].doing = Doing::Gone { dead, known, forgotten };
                }
            }
            Doing::Nothing => {
                self.ranks[at].left -= 1;
                let how = [how::STAYS, how::STAYS, how::STAYS, how::WAITS, how::TRIES];
                let how = how[self.sampler.below(5) as usize];
                let cookie = self.ranks[at].books.begin(0);
                self.ask_home(at, ask::LOCK, &[own(), LOCK, cookie, how]);
                self.ranks[at].doing = Doing::Asks { cookie, how, cancelled: false };
            }
            Doing::Asks { cookie, how, cancelled } => {
                if self.ranks[at].books.completion(cookie) == Some(Completion::Waiting) {
                    if how == how::WAITS && !cancelled && self.sampler.below(10) == 0 {
                        let encoded = self.ranks[at].books.cancel(0, cookie).unwrap();
                        self.send_home(at, encoded.handler, encoded.words());
                        self.ranks[at].doing = Doing::Asks { cookie, how, cancelled: true };
                    }
                    return;
                }
                self.ranks[at].doing = match self.ranks[at].books.take(cookie) {
                    Some(Completion::Granted(position, word)) => {
                        self.granted(number, (position, word));
                        Doing::Holds { cookie, position, word }
                    }
                    Some(Completion::Refused(Refusal::HolderDied, ..)) => {
                        assert!(!self.engine.memory.dead.is_empty(), "no rank has died");
                        Doing::Nothing
                    }
                    Some(Completion::Refused(Refusal::TimedOut, ..)) if cancelled => Doing::Nothing,
                    Some(Completion::Refused(Refusal::LockBusy, ..)) if how == how::TRIES => {
                        Doing::Nothing
                    }
                    other => panic!("rank {number} got {other:?}"),
                };
            }
            Doing::Holds { cookie, position, word } => self.release(at, cookie, (position, word)),
            Doing::Quiet { cookie } => match self.ranks[at].books.completion(cookie) {
                Some(Completion::Waiting) => {}
                _ => {
                    self.ranks[at].books.take(cookie);
                    let failed = self.ranks[at].books.failure(0);
                    let died = !self.engine.memory.dead.is_empty();
                    assert!(
                        failed.is_none_or(|(_, why, ..)| why == Refusal::HolderDied && died),
                        "{failed:?}"
                    );
                    self.ranks[at].doing = Doing::Nothing;
                }
            },
            Doing::Gone { dead, known, forgotten } => self.end(at, (dead, known, forgotten)),
        }
    }

    fn release(&mut self, at: usize, cookie: u64, (position, word): (u64, u64)) {
        if self.sampler.below(4) == 0 {
            let store = atomic_handler(AtomicOp::Max, Width::Word, false);
            self.data = position + 1;
            let data = self.data;
            self.ask_home(at, store, &[own(), DATA, data]);
            self.ranks[at].books.fence();
        }
        (self.holder, self.word) = (None, word + 1);
        let successor = self.ranks[at].books.take_successor(cookie, 0, position);
        let room = self.sampler.below(10) > 0;
        let mut passed = 0;
        if let Some(successor) =
            successor.filter(|successor| room && !self.is_known_dead(successor.name.rank()))
        {
            let (from, to) = (Some(self.ranks[at].name), Some(successor.name));
            let words = successor.grant(word + 1).to_vec();
            self.queued.push(HomeMessage { from, to, handler: tell::GRANTED, words });
            (passed, self.seen.passed) = (1, self.seen.passed + 1);
        }
        self.ask_home(at, ask::UNLOCK, &[own(), LOCK, 0, position, word + 1, passed]);
        self.ranks[at].doing = Doing::Nothing;
    }

    fn die(&mut self, at: usize) {
        let Rank { name, doing, .. } = self.ranks[at];
        if matches!(doing, Doing::Gone { .. }) {
            return;
        }
        self.deaths -= 1;
        if self.holder == Some(at as u32 + 1) {
            (self.broken, self.holder) = (true, None);
            self.seen.broken += 1;
        }
        let (known, forgotten) = (false, false);
        self.ranks[at].doing = Doing::Gone { dead: true, known, forgotten };
        let Self { queued, sampler, .. } = self;
        queued.retain(|queued| queued.from != Some(name) || sampler.below(2) == 0);
    }

    /// Announces a rank's end to the others; its home forgets it.
    fn end(&mut self, at: usize, (dead, known, forgotten): (bool, bool, bool)) {
        let number = at as u32 + 1;
        if !known {
            self.engine.memory.dead.push(number);
            self.ranks[at].doing = Doing::Gone { dead, known: true, forgotten };
        } else if !forgotten {
            // Its messages to other ranks may arrive all the same.
            let name = self.ranks[at].name;
            self.queued.retain(|queued| queued.from != Some(name) || queued.to.is_some());
            self.engine.forget(number);
            self.seen.copies += u32::from(self.engine.locks.orphans);
            self.ranks[at].doing = Doing::Gone { dead, known, forgotten: true };
        }
    }

    fn act_at_home(&mut self) {
        let dead = self.engine.memory.dead.clone();
        if let Some((position, word)) = self.local_has.take() {
            (self.holder, self.word) = (None, word + 1);
            assert!(self.lock().release(position, 0, word + 1));
            self.lock().pass_over_withdrawn(|rank| dead.contains(&rank));
        } else if let Some(mut turn) = self.local {
            let look = turn.poll(self.lock(), |rank| dead.contains(&rank));
            self.local = Some(turn);
            match look {
                TurnStatus::Taken(position, word) => {
                    self.granted(0, (position, word));
                    (self.local, self.local_has) = (None, Some((position, word)));
                }
                TurnStatus::HolderDied => {
                    assert!(!dead.is_empty());
                    if turn.give_up(self.lock()) {
                        self.lock().pass_over_withdrawn(|rank| dead.contains(&rank));
                    }
                    self.local = None;
                }
                TurnStatus::NotYet | TurnStatus::OwnerDied => {}
            }
        } else if self.local_left > 0 {
            self.local_left -= 1;
            self.local = Some(LockTurn::new(0, 0));
        }
    }

    fn is_over(&self) -> bool {
        let gone = |rank: &Rank| matches!(rank.doing, Doing::Gone { forgotten: true, .. });
        let local = self.local_left == 0 && self.local.is_none() && self.local_has.is_none();
        local && self.ranks.iter().all(gone) && self.queued.is_empty()
    }

    fn run(mut self) -> Seen {
        for _ in 0..20_000 {
            if self.is_over() {
                self.check_end();
                return self.seen;
            }
            match self.sampler.below(20) {
                0..8 => self.deliver(),
                8..10 => self.run_interface(),
                10..12 => self.act_at_home(),
                12 if self.deaths > 0 && self.sampler.below(6) == 0 => {
                    let at = self.sampler.below(3) as usize;
                    self.die(at);
                }
                _ => {
                    let at = self.sampler.below(3) as usize;
                    self.act(at);
                }
            }
            self.engine.check_invariants();
            self.ranks.iter().for_each(|rank| rank.books.check_invariants());
        }
        let doing: Vec<_> = self.ranks.iter().map(|rank| rank.doing).collect();
        let claims: Vec<_> = self.lock().claims().collect();
        let Self { local, local_has, queued, .. } = &self;
        let Engine { locks, waits, .. } = &self.engine;
        let home = format!("{local:?} {local_has:?} {claims:?} {waits:?} {locks:?}");
        panic!("somebody waits for ever: {doing:?} {queued:?} {home}");
    }

    fn check_end(&mut self) {
        self.run_interface();
        assert!(!self.engine.has_waits() || self.engine.wants_room());
        let head = self.lock().pass_over_withdrawn(|_| false);
        if self.engine.memory.dead.is_empty() {
            assert_eq!((head, self.seen.grants), (LockHead::Free, self.word as u32));
        } else if head != LockHead::Free {
            let (LockHead::Held(rank) | LockHead::Broken(rank)) = head else { panic!("{head:?}") };
            assert!(self.is_known_dead(rank), "{head:?}");
        } else {
            assert!(!self.broken, "a rank died with the lock, and it is free");
        }
        assert_eq!(
            self.engine.locks.claims.len(),
            0,
            "claims without a holder: {:?}",
            self.engine.locks.claims
        );
    }
}

#[test]
fn whatever_arrives_when_a_lock_has_one_holder_and_all_who_wait_are_told() {
    let mut all = Seen::default();
    for seed in 0..6000 {
        let seen = std::panic::catch_unwind(|| World::new(seed).run());
        let Ok(seen) = seen else { panic!("seed {seed} failed") };
        all.passed += seen.passed;
        all.early += seen.early;
        all.copies += seen.copies;
        all.broken += seen.broken;
    }
    // The events under test have happened, and often.
    let Seen { passed, early, copies, broken, .. } = all;
    let counts = [passed, early, copies, broken];
    assert!(
        counts.iter().zip([4000, 400, 40, 100]).all(|(count, least)| *count > least),
        "{counts:?}"
    );
}
