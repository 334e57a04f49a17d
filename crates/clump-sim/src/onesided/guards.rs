//! Operations of ranks on locks and flags: request, wait, hold, release, give up.

use super::caller::{Around, Caller};
use super::line::Load;
use super::model::Sum;
use super::program::Doing;
use crate::switch::Time;
use clump_rma::protocol::{ask, how};
use clump_rma::{Comparison, Fate, FlagWords, Look, Turn, Why};
use clump_shm::node::NodeMemory;
use clump_shm::queue_lock::{Claim, Head, QueueLock};

/// Wakes a rank of this node, or this node's interface on behalf of a rank of another
/// (`clump-rma`).
pub(super) fn wake(memory: &NodeMemory, rank: u32) {
    if !memory.is_local(rank) {
        if let Some(alarm) = memory.interface_alarm() {
            alarm.ring();
        }
    } else if let Some(block) = memory.rank(rank) {
        let alarm = memory.alarm(rank).map(|alarm| &**alarm);
        block.park().wake_if_asleep(memory.fence(), alarm);
    }
}

fn pass_on(memory: &NodeMemory, lock: QueueLock<'_>) {
    if let Head::Offered(next) = lock.settle(|rank| memory.death_of(rank).is_some()) {
        wake(memory, next);
    }
}

impl Caller {
    pub(super) fn until(&mut self, around: &Around<'_>) -> Time {
        let limited = self.random.one_in(4);
        if limited { around.now + self.random.below(4 * around.plan.hold + 1) } else { Time::MAX }
    }

    pub(super) fn ask_lock(&mut self, home: u32, around: &mut Around<'_>) -> Doing {
        let (node, tries) = (around.layout.node(home), self.random.one_in(5));
        let until = self.until(around);
        around.model.on_ask(home, self.rank, around.now);
        if !self.is_near(home, around) {
            let cookie = self.requester.begin(node);
            let how = match (tries, until) {
                (true, _) => how::TRIES,
                (false, Time::MAX) => how::STAYS,
                (false, _) => how::WAITS,
            };
            let words = [around.layout.bits(home), around.layout.lock_at(), cookie, how];
            if self.post(node, ask::LOCK, &words, Load::Nothing) {
                return Doing::AsksLock { home, cookie, until, cancelled: false };
            }
            self.requester.take(cookie);
            return Doing::Nothing;
        }
        if !tries {
            let turn = Turn::new(self.rank, home);
            let at_once = self.await_turn(home, turn, until, around);
            return at_once.unwrap_or_else(|| std::mem::replace(&mut self.doing, Doing::Nothing));
        }
        let Some(lock) = around.layout.lock(home) else { return Doing::Nothing };
        lock.settle(|rank| around.memory.death_of(rank).is_some());
        match lock.claim_free(self.rank) {
            Claim::At(position) => match lock.enter(position, self.rank) {
                Some(word) => self.hold(home, (position, word), 0, around),
                None => Doing::Nothing,
            },
            Claim::None => Doing::Nothing,
        }
    }

    pub(super) fn hold(
        &mut self,
        home: u32,
        (position, word): (u64, u64),
        cookie: u64,
        around: &mut Around<'_>,
    ) -> Doing {
        around.model.on_granted(home, self.rank, (position, word));
        around.model.on_handed(around.layout, home, self.rank, around.now);
        let until = around.now + self.random.below(around.plan.hold + 1);
        Doing::Holds { home, position, word: word + 1, cookie, until }
    }

    pub(super) fn await_grant(
        &mut self,
        (home, cookie): (u32, u64),
        limit: (Time, bool),
        around: &mut Around<'_>,
    ) -> Option<Doing> {
        let given_up = Doing::AsksLock { home, cookie, until: limit.0, cancelled: true };
        let fate = match self.await_end((home, cookie), limit, around) {
            Ok(fate) => fate,
            Err(now) => return now.then_some(given_up),
        };
        Some(match fate {
            Fate::Granted(position, word) => {
                around.model.counts.locks_far += 1;
                self.hold(home, (position, word), cookie, around)
            }
            Fate::Refused(Why::HolderDied, ..) => {
                around.model.on_holder_died(home, self.rank);
                Doing::Nothing
            }
            Fate::Refused(Why::TimedOut, ..) => {
                around.model.counts.locks_timed_out += 1;
                Doing::Nothing
            }
            _ => Doing::Nothing,
        })
    }

    /// Returns how a request for a lock or a flag has ended. While it has not, the error is true if
    /// its time limit passed just now and it was given up. An answer arrives all the same.
    fn await_end(
        &mut self,
        (home, cookie): (u32, u64),
        (until, cancelled): (Time, bool),
        around: &mut Around<'_>,
    ) -> Result<Fate, bool> {
        let node = around.layout.node(home);
        if let Some((fate, _)) = self.end_of(cookie, (node, home), around) {
            return Ok(fate);
        }
        if cancelled || around.now < until {
            return Err(false);
        }
        if let (Some(line), Some(worded)) = (&mut self.line, self.requester.cancel(node, cookie)) {
            line.post(node, worded, Load::Nothing);
        }
        Err(true)
    }

    pub(super) fn await_turn(
        &mut self,
        home: u32,
        mut turn: Turn,
        until: Time,
        around: &mut Around<'_>,
    ) -> Option<Doing> {
        let memory = around.memory;
        let lock = around.layout.lock(home)?;
        let look = turn.look(lock, |rank| memory.death_of(rank).is_some());
        let late = around.now >= until;
        match look {
            Look::Taken(position, word) => {
                return Some(self.hold(home, (position, word), 0, around));
            }
            Look::HolderDied => around.model.on_holder_died(home, self.rank),
            Look::OwnerDied => {}
            Look::NotYet if late => around.model.counts.locks_timed_out += 1,
            Look::NotYet => {
                self.doing = Doing::AwaitsLock { home, turn, until };
                return None;
            }
        }
        if turn.give_up(lock) {
            pass_on(memory, lock);
        }
        Some(Doing::Nothing)
    }

    pub(super) fn release(
        &mut self,
        home: u32,
        (position, word): (u64, u64),
        cookie: u64,
        around: &mut Around<'_>,
    ) -> Doing {
        around.model.on_release(home, self.rank, word, around.now);
        let layout = around.layout;
        if !self.is_near(home, around) {
            let passed = u64::from(self.pass(home, (position, word), cookie, around));
            let words = [layout.bits(home), layout.lock_at(), 0, position, word, passed];
            self.post(layout.node(home), ask::UNLOCK, &words, Load::Nothing);
            return Doing::Nothing;
        }
        if let Some(lock) = layout.lock(home) {
            if !lock.leave(position, self.rank, word) {
                let what =
                    format!("rank {} does not hold the lock of rank {home} any more", self.rank);
                around.model.complain(what);
            }
            pass_on(around.memory, lock);
        }
        Doing::Nothing
    }

    /// Grants a lock of another node to its successor, if that is known and there is room for the
    /// message.
    fn pass(
        &mut self,
        home: u32,
        (position, word): (u64, u64),
        cookie: u64,
        around: &mut Around<'_>,
    ) -> bool {
        let node = around.layout.node(home);
        let heir = self.requester.take_heir(cookie, node, position);
        let Some((heir, line)) = heir.zip(self.line.as_mut()) else { return false };
        if around.memory.death_of(heir.name.rank()).is_some() {
            return false;
        }
        let passed = line.grant(around.now + self.clock, &heir, word);
        if passed {
            around.model.on_passed(home);
        }
        passed
    }

    pub(super) fn add_to_flag(&mut self, home: u32, around: &mut Around<'_>) -> Doing {
        let (node, value) = (around.layout.node(home), self.random.between(1, 9));
        let sum = (Sum::Flag(home), value);
        let at = around.layout.flag_at();
        if !self.is_near(home, around) {
            let words = [around.layout.bits(home), at, 0, 1, value];
            if self.post(node, ask::SET, &words, Load::Nothing) {
                around.model.on_add(self.rank, node, sum, false);
            }
        } else if let Some(flag) = FlagWords::over(around.layout.cells(home), at) {
            around.model.on_add(self.rank, node, sum, true);
            if flag.change(value, true) {
                around.memory.wake_all();
            }
        }
        Doing::Nothing
    }

    /// Waits for a value that a flag surely reaches; or, with a time limit, for a larger one.
    pub(super) fn ask_flag(&mut self, home: u32, around: &mut Around<'_>) -> Doing {
        let sure = around.model.sure(Sum::Flag(home));
        let (node, mut until) = (around.layout.node(home), self.until(around));
        let value = if until == Time::MAX { sure } else { sure + self.random.below(20) };
        if value == 0 {
            return Doing::Nothing;
        }
        if !self.is_near(home, around) {
            let cookie = self.requester.begin(node);
            let (segment, at) = (around.layout.bits(home), around.layout.flag_at());
            let words = [segment, at, cookie, Comparison::AtLeast as u64, value];
            if self.post(node, ask::WAIT, &words, Load::Nothing) {
                return Doing::AsksFlag { home, cookie, value, until, cancelled: false };
            }
            self.requester.take(cookie);
            return Doing::Nothing;
        }
        let Some(flag) = FlagWords::over(around.layout.cells(home), around.layout.flag_at()) else {
            return Doing::Nothing;
        };
        if flag.get() >= value {
            return Doing::Nothing;
        }
        flag.watch();
        until = until.max(around.now + 1);
        Doing::AwaitsFlag { home, value, until }
    }

    pub(super) fn await_told(
        &mut self,
        (home, cookie, value): (u32, u64, u64),
        limit: (Time, bool),
        around: &mut Around<'_>,
    ) -> Option<Doing> {
        let given_up = Doing::AsksFlag { home, cookie, value, until: limit.0, cancelled: true };
        let fate = match self.await_end((home, cookie), limit, around) {
            Ok(fate) => fate,
            Err(now) => return now.then_some(given_up),
        };
        if let Fate::Done(seen) = fate {
            around.model.counts.flags_awaited += 1;
            if seen < value {
                let what = format!("rank {} waited for {value} and was told {seen}", self.rank);
                around.model.complain(what);
            }
        }
        Some(Doing::Nothing)
    }
}
