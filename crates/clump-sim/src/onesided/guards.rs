//! Operations of ranks on locks and flags: request, wait, hold, release, give up.

use super::activity::CallerActivity;
use super::caller::{Caller, CallerEnvironment};
use super::line::OperationPayload;
use super::mailbox::wake;
use super::model::SharedSum;
use crate::kernel::Time;
use clump_onesided::protocol::{ask, how};
use clump_onesided::{Comparison, Completion, FlagWords, LockTurn, Refusal, TurnStatus};
use clump_shm::node::NodeMemory;
use clump_shm::queue_lock::{Claim, LockHead, QueueLock};

fn pass_on(memory: &NodeMemory, lock: QueueLock<'_>) {
    if let LockHead::Offered(next) =
        lock.pass_over_withdrawn(|rank| memory.death_of(rank).is_some())
    {
        wake(memory, next);
    }
}

impl Caller {
    pub(super) fn until(&mut self, around: &CallerEnvironment<'_>) -> Time {
        let limited = self.random.one_in(4);
        if limited { around.now + self.random.below(4 * around.plan.hold + 1) } else { Time::MAX }
    }

    pub(super) fn ask_lock(
        &mut self,
        home: u32,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        let (node, tries) = (around.layout.node(home), self.random.one_in(5));
        let until = self.until(around);
        around.model.on_lock_request(home, self.rank, around.now);
        if !self.is_near(home, around) {
            let cookie = self.requester.begin(node);
            let how = match (tries, until) {
                (true, _) => how::TRIES,
                (false, Time::MAX) => how::STAYS,
                (false, _) => how::WAITS,
            };
            let words = [around.layout.bits(home), around.layout.lock_at(), cookie, how];
            if self.post(node, ask::LOCK, &words, OperationPayload::Nothing) {
                return CallerActivity::AsksLock { home, cookie, until, cancelled: false };
            }
            self.requester.take(cookie);
            return CallerActivity::Nothing;
        }
        if !tries {
            let turn = LockTurn::new(self.rank, home);
            let at_once = self.await_turn(home, turn, until, around);
            return at_once
                .unwrap_or_else(|| std::mem::replace(&mut self.doing, CallerActivity::Nothing));
        }
        let Some(lock) = around.layout.lock(home) else { return CallerActivity::Nothing };
        lock.pass_over_withdrawn(|rank| around.memory.death_of(rank).is_some());
        match lock.claim_free(self.rank) {
            Claim::At(position) => match lock.enter(position, self.rank) {
                Some(word) => self.hold(home, (position, word), 0, around),
                None => CallerActivity::Nothing,
            },
            Claim::None => CallerActivity::Nothing,
        }
    }

    pub(super) fn hold(
        &mut self,
        home: u32,
        (position, word): (u64, u64),
        cookie: u64,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        around.model.on_granted(home, self.rank, (position, word));
        around.model.on_handed(around.layout, home, self.rank, around.now);
        let until = around.now + self.random.below(around.plan.hold + 1);
        CallerActivity::Holds { home, position, word: word + 1, cookie, until }
    }

    pub(super) fn await_grant(
        &mut self,
        (home, cookie): (u32, u64),
        limit: (Time, bool),
        around: &mut CallerEnvironment<'_>,
    ) -> Option<CallerActivity> {
        let given_up = CallerActivity::AsksLock { home, cookie, until: limit.0, cancelled: true };
        let completion = match self.await_end((home, cookie), limit, around) {
            Ok(completion) => completion,
            Err(now) => return now.then_some(given_up),
        };
        Some(match completion {
            Completion::Granted(position, word) => {
                around.model.counts.locks_far += 1;
                self.hold(home, (position, word), cookie, around)
            }
            Completion::Refused(Refusal::HolderDied, ..) => {
                around.model.on_holder_died(home, self.rank);
                CallerActivity::Nothing
            }
            Completion::Refused(Refusal::TimedOut, ..) => {
                around.model.counts.locks_timed_out += 1;
                CallerActivity::Nothing
            }
            _ => CallerActivity::Nothing,
        })
    }

    /// Returns how a request for a lock or a flag has ended. While it has not, the error is true if
    /// its time limit passed just now and it was given up. An answer arrives all the same.
    pub(super) fn await_end(
        &mut self,
        (home, cookie): (u32, u64),
        (until, cancelled): (Time, bool),
        around: &mut CallerEnvironment<'_>,
    ) -> Result<Completion, bool> {
        let node = around.layout.node(home);
        if let Some((completion, _)) = self.end_of(cookie, (node, home), around) {
            return Ok(completion);
        }
        if cancelled || around.now < until {
            return Err(false);
        }
        if let (Some(line), Some(encoded)) = (&mut self.line, self.requester.cancel(node, cookie)) {
            line.post(node, encoded, OperationPayload::Nothing);
        }
        Err(true)
    }

    pub(super) fn await_turn(
        &mut self,
        home: u32,
        mut turn: LockTurn,
        until: Time,
        around: &mut CallerEnvironment<'_>,
    ) -> Option<CallerActivity> {
        let memory = around.memory;
        let lock = around.layout.lock(home)?;
        let look = turn.poll(lock, |rank| memory.death_of(rank).is_some());
        let late = around.now >= until;
        match look {
            TurnStatus::Taken(position, word) => {
                return Some(self.hold(home, (position, word), 0, around));
            }
            TurnStatus::HolderDied => around.model.on_holder_died(home, self.rank),
            TurnStatus::OwnerDied => {}
            TurnStatus::NotYet if late => around.model.counts.locks_timed_out += 1,
            TurnStatus::NotYet => {
                self.doing = CallerActivity::AwaitsLock { home, turn, until };
                return None;
            }
        }
        if turn.give_up(lock) {
            pass_on(memory, lock);
        }
        Some(CallerActivity::Nothing)
    }

    pub(super) fn release(
        &mut self,
        home: u32,
        (position, word): (u64, u64),
        cookie: u64,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        around.model.on_release(home, self.rank, word, around.now);
        let layout = around.layout;
        if !self.is_near(home, around) {
            let passed = u64::from(self.pass(home, (position, word), cookie, around));
            let words = [layout.bits(home), layout.lock_at(), 0, position, word, passed];
            self.post(layout.node(home), ask::UNLOCK, &words, OperationPayload::Nothing);
            return CallerActivity::Nothing;
        }
        if let Some(lock) = layout.lock(home) {
            if !lock.release(position, self.rank, word) {
                let what =
                    format!("rank {} does not hold the lock of rank {home} any more", self.rank);
                around.model.complain(what);
            }
            pass_on(around.memory, lock);
        }
        CallerActivity::Nothing
    }

    /// Grants a lock of another node to its successor, if that is known and there is room for the
    /// message.
    fn pass(
        &mut self,
        home: u32,
        (position, word): (u64, u64),
        cookie: u64,
        around: &mut CallerEnvironment<'_>,
    ) -> bool {
        let node = around.layout.node(home);
        let successor = self.requester.take_successor(cookie, node, position);
        let Some((successor, line)) = successor.zip(self.line.as_mut()) else { return false };
        if around.memory.death_of(successor.name.rank()).is_some() {
            return false;
        }
        let passed = line.grant(around.now + self.clock, &successor, word);
        if passed {
            around.model.on_passed(home);
        }
        passed
    }

    pub(super) fn add_to_flag(
        &mut self,
        home: u32,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        let (node, value) = (around.layout.node(home), self.random.between(1, 9));
        let sum = (SharedSum::Flag(home), value);
        let at = around.layout.flag_at();
        if !self.is_near(home, around) {
            let words = [around.layout.bits(home), at, 0, 1, value];
            if self.post(node, ask::SET, &words, OperationPayload::Nothing) {
                around.model.on_add(self.rank, node, sum, false);
            }
        } else if let Some(flag) = FlagWords::over(around.layout.cells(home), at) {
            around.model.on_add(self.rank, node, sum, true);
            if flag.change(value, true) {
                around.memory.wake_all();
            }
        }
        CallerActivity::Nothing
    }

    /// Waits for a value that a flag surely reaches; or, with a time limit, for a larger one.
    pub(super) fn ask_flag(
        &mut self,
        home: u32,
        around: &mut CallerEnvironment<'_>,
    ) -> CallerActivity {
        let sure = around.model.sure(SharedSum::Flag(home));
        let (node, mut until) = (around.layout.node(home), self.until(around));
        let value = if until == Time::MAX { sure } else { sure + self.random.below(20) };
        if value == 0 {
            return CallerActivity::Nothing;
        }
        if !self.is_near(home, around) {
            let cookie = self.requester.begin(node);
            let (segment, at) = (around.layout.bits(home), around.layout.flag_at());
            let words = [segment, at, cookie, Comparison::AtLeast as u64, value];
            if self.post(node, ask::WAIT, &words, OperationPayload::Nothing) {
                return CallerActivity::AsksFlag { home, cookie, value, until, cancelled: false };
            }
            self.requester.take(cookie);
            return CallerActivity::Nothing;
        }
        let Some(flag) = FlagWords::over(around.layout.cells(home), around.layout.flag_at()) else {
            return CallerActivity::Nothing;
        };
        if flag.get() >= value {
            return CallerActivity::Nothing;
        }
        flag.watch();
        until = until.max(around.now + 1);
        CallerActivity::AwaitsFlag { home, value, until }
    }

    pub(super) fn await_told(
        &mut self,
        (home, cookie, value): (u32, u64, u64),
        limit: (Time, bool),
        around: &mut CallerEnvironment<'_>,
    ) -> Option<CallerActivity> {
        let given_up =
            CallerActivity::AsksFlag { home, cookie, value, until: limit.0, cancelled: true };
        let completion = match self.await_end((home, cookie), limit, around) {
            Ok(completion) => completion,
            Err(now) => return now.then_some(given_up),
        };
        if let Completion::Done(seen) = completion {
            around.model.counts.flags_awaited += 1;
            if seen < value {
                let what = format!("rank {} waited for {value} and got {seen}", self.rank);
                around.model.complain(what);
            }
        }
        Some(CallerActivity::Nothing)
    }
}
