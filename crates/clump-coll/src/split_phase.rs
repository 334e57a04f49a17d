//! Collectives in two phases: begun by `start_...`, waited for later. Several may be under way at
//! one time. They go on whenever the rank polls or waits for anything: handlers take them on.

use crate::fold::{Fold, copy_in};
use crate::mailbox::failed;
use crate::schedule::{Schedule, Step, Taken};
use crate::signature::Signature;
use crate::team::{check_bytes, copy_of};
use crate::{Number, Op, Plain, Team, step};
use clump_am::{ErrorKind, Result, WaitFor};
use clump_shm::rank::WaitReason;
use clump_trace::Counter;
use zerocopy::IntoBytes;

/// A collective under way. One that is dropped goes on; other ranks do not notice.
#[must_use = "its result is had by `wait`"]
pub struct PendingCollective<'a, R> {
    team: &'a Team,
    seq: u64,
    /// Makes the result of the schedule at its end.
    finish: fn(Schedule) -> R,
}

impl<R> std::fmt::Debug for PendingCollective<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PendingCollective({} of team {:x})", self.seq, self.team.id())
    }
}

/// Combines nothing: for collectives that do not.
fn unused(_: &mut [u8], _: &[u8], _: bool) {
    debug_assert!(false, "this collective combines nothing");
}

/// Combines values of lower with values of higher ranks.
fn combined<T: Number, O: Op<T>>(value: &mut [u8], other: &[u8], other_is_lower: bool) {
    let mut values = to_values::<T>(value);
    if other_is_lower {
        copy_in(&mut values, other, |mine, lower| O::combine(lower, mine));
    } else {
        copy_in(&mut values, other, O::combine);
    }
    value.copy_from_slice(values.as_bytes());
}

fn to_values<T: Plain>(bytes: &[u8]) -> Vec<T> {
    let chunks = bytes.chunks_exact(size_of::<T>().max(1));
    chunks.filter_map(|chunk| T::read_from_bytes(chunk).ok()).collect()
}

impl Team {
    /// Begins a barrier: when its wait returns, all ranks of the team have begun it.
    ///
    /// # Errors
    /// Fails if a rank left, or if sending fails.
    pub fn start_barrier(&self) -> Result<PendingCollective<'_, ()>> {
        let (me, n) = (self.rank(), self.nranks());
        let round = |k: u32| {
            let (distance, step) = (1 << k, step::BETWEEN + u64::from(k));
            let (to, from) = (self.member(me + distance), self.member(me + n - distance));
            [Step::Give { to, step }, Step::Take { from, step, then: Taken::Dropped }]
        };
        let steps = (0..n.next_power_of_two().ilog2()).flat_map(round);
        let schedule = Schedule::new(steps, (vec![1], Vec::new()), unused);
        self.start(Counter::Barriers, schedule, |_| ())
    }

    /// Begins to make `values` of `root` the values of all ranks, which pass equally many.
    ///
    /// # Errors
    /// Fails if there is no such root, if a rank left, if sending fails, or without memory for a
    /// copy.
    pub fn start_broadcast<T: Plain>(
        &self,
        root: usize,
        values: &[T],
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        self.check_rank(root)?;
        check_bytes(size_of_val(values) as u64)?;
        // A binomial tree, numbered from the root.
        let (n, step) = (self.nranks(), step::BETWEEN);
        let me = (self.rank() + n - root) % n;
        let of = |number: usize| self.member(number + root);
        let lowest = if me == 0 { n.next_power_of_two() } else { 1 << me.trailing_zeros() };
        let take = Step::Take { from: of(me - (me & lowest)), step, then: Taken::Value };
        let children = (0..lowest.ilog2()).rev().map(|bit| me + (1 << bit));
        let give =
            children.filter(|&child| child < n).map(|child| Step::Give { to: of(child), step });
        let steps: Vec<Step> = (me != 0).then_some(take).into_iter().chain(give).collect();
        let steps = if values.is_empty() { Vec::new() } else { steps };
        let value = copy_of(values.as_bytes())?;
        let schedule = Schedule::new(steps, (value, Vec::new()), unused);
        self.start(Counter::Broadcasts, schedule, |done| to_values(&done.value))
    }

    /// Begins to combine all ranks' slices element by element. The result has the bits that
    /// [`Team::all_reduce_slice`] gives.
    ///
    /// # Errors
    /// Fails if a rank left, or if sending fails.
    pub fn start_all_reduce<T: Number, O: Op<T>>(
        &self,
        values: &[T],
        _op: O,
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        check_bytes(size_of_val(values) as u64)?;
        let (me, fold) = (self.rank(), Fold::of(self.nranks()));
        let mut steps = Vec::new();
        let take = |rank: usize, step, then| Step::Take { from: self.member(rank), step, then };
        let give = |rank: usize, step| Step::Give { to: self.member(rank), step };
        if let Some(position) = fold.position(me) {
            if fold.is_paired(me) {
                steps.push(take(me + 1, step::UP, Taken::Combined(false)));
            }
            for bit in 0..fold.power.ilog2() {
                let partner = fold.rank_of(position ^ 1 << bit);
                let step = step::BETWEEN + u64::from(bit);
                steps.push(give(partner, step));
                steps.push(take(partner, step, Taken::Combined(partner < me)));
            }
            if fold.is_paired(me) {
                steps.push(give(me + 1, step::DOWN));
            }
        } else {
            steps.push(give(me - 1, step::UP));
            steps.push(take(me - 1, step::DOWN, Taken::Value));
        }
        if values.is_empty() {
            steps.clear();
        }
        let value = copy_of(values.as_bytes())?;
        let schedule = Schedule::new(steps, (value, Vec::new()), combined::<T, O>);
        self.start(Counter::AllReduces, schedule, |done| to_values(&done.value))
    }

    /// Begins to gather all ranks' values, in rank order.
    ///
    /// # Errors
    /// Fails if a rank left, or if sending fails.
    pub fn start_all_gather<T: Plain>(&self, value: T) -> Result<PendingCollective<'_, Vec<T>>> {
        self.start_all_gather_slice(&[value])
    }

    /// Begins to gather all ranks' values, of equal numbers, in rank order.
    ///
    /// # Errors
    /// Fails if a rank left, or if sending fails; too many values for memory.
    pub fn start_all_gather_slice<T: Plain>(
        &self,
        mine: &[T],
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        check_bytes((size_of_val(mine) as u64).saturating_mul(self.nranks() as u64))?;
        let parts = (0..self.nranks()).map(|_| copy_of(mine.as_bytes())).collect::<Result<_>>()?;
        self.start_exchange(Counter::AllGathers, parts)
    }

    /// Begins to give `values[i]` to rank `i`. The result is what the ranks give to this one, in
    /// rank order.
    ///
    /// # Errors
    /// Fails if not one value was given for each rank, if a rank left, or if sending fails.
    pub fn start_all_to_all<T: Plain>(
        &self,
        values: &[T],
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        self.check_one_each(values.len())?;
        self.start_all_to_all_slice(values)
    }

    /// Begins to give each rank its values of `given`, equally many, in rank order. The result is
    /// what the ranks give to this one, in rank order.
    ///
    /// # Errors
    /// Fails if `given` has not equally many values for each rank, if a rank left, or if sending
    /// fails.
    pub fn start_all_to_all_slice<T: Plain>(
        &self,
        given: &[T],
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        check_bytes(size_of_val(given) as u64)?;
        let each = given.len() / self.nranks();
        self.check_room(size_of_val(given), each * size_of::<T>())?;
        let part = |at: usize| copy_of(given[at * each..][..each].as_bytes());
        let parts = (0..self.nranks()).map(part).collect::<Result<_>>()?;
        self.start_exchange(Counter::AllToAlls, parts)
    }

    /// Begins to give a part to each rank, and to take one, as long, from each.
    fn start_exchange<T: Plain>(
        &self,
        counter: Counter,
        parts: Vec<Vec<u8>>,
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        let (me, n, step) = (self.rank(), self.nranks(), step::BETWEEN);
        let value = parts.get(me).cloned().unwrap_or_default();
        let others = (1..n).map(|distance| (me + distance) % n);
        let others = others.filter(|_| !value.is_empty());
        let give = |part: usize| Step::GivePart { to: self.member(part), step, part };
        let take = |part| Step::Take { from: self.member(part), step, then: Taken::Part(part) };
        // All are given before the first is taken, so that a part is not replaced before.
        let steps: Vec<Step> = others.clone().map(give).chain(others.map(take)).collect();
        let schedule = Schedule::new(steps, (value, parts), unused);
        self.start(counter, schedule, |done| to_values(&done.parts.concat()))
    }

    /// Begins a collective.
    fn start<R>(
        &self,
        counter: Counter,
        schedule: Schedule,
        finish: fn(Schedule) -> R,
    ) -> Result<PendingCollective<'_, R>> {
        let seq = self.begin(counter)?;
        // Handlers send, too, and cannot map.
        schedule.targets().try_for_each(|rank| self.post().dest(rank).map(drop))?;
        let outgoing = self.post().begin_schedule((self.id(), seq), schedule);
        let pending = PendingCollective { team: self, seq, finish };
        outgoing
            .into_iter()
            .try_for_each(|it| self.send_to(it.to, (seq, it.step), (Signature::ANY, &it.bytes)))?;
        Ok(pending)
    }
}

impl<R> PendingCollective<'_, R> {
    fn key(&self) -> (u64, u64) {
        (self.team.id(), self.seq)
    }

    /// Returns true if the result is there. Polls.
    ///
    /// # Errors
    /// Fails if a rank died or left without which it cannot end.
    pub fn test(&self) -> Result<bool> {
        self.team.post().endpoint.poll()?;
        let mut end = ScheduleEnd { team: self.team, seq: self.seq };
        let done = end.done()?;
        match self.team.first_death().filter(|_| !done) {
            Some(death) => Err(ErrorKind::RankDied(death).into()),
            None => Ok(done),
        }
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values.
    pub fn wait(self) -> Result<R> {
        let mut end = ScheduleEnd { team: self.team, seq: self.seq };
        let waited = self.team.post().endpoint.block_on(&mut end);
        let schedule = self.team.post().end_schedule(self.key());
        self.team.heed(waited, self.seq)?;
        let gone = || ErrorKind::HandlerFailed { handler: 1, why: "the collective is gone".into() };
        let schedule = schedule.ok_or_else(gone)?;
        match schedule.failed {
            Some(misfit) => Err(failed(misfit)),
            None => Ok((self.finish)(schedule)),
        }
    }
}

impl<R> Drop for PendingCollective<'_, R> {
    fn drop(&mut self) {
        self.team.post().drop_schedule(self.key());
    }
}

/// The end of a collective in two phases, to wait for.
struct ScheduleEnd<'a> {
    team: &'a Team,
    seq: u64,
}

impl WaitFor for ScheduleEnd<'_> {
    fn done(&mut self) -> Result<bool> {
        let key = (self.team.id(), self.seq);
        self.team.post().send_unsent()?;
        if self.team.post().has_ended(key) {
            return Ok(true);
        }
        match self.team.post().mailbox().is_broken(key.0, key.1) {
            Some(by) => Err(ErrorKind::RankLeft(by).into()),
            None => Ok(false),
        }
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Collective { seq: self.seq, peer: self.team.member(self.team.rank() + 1) }
    }

    fn depends_on(&self) -> Option<u32> {
        // The death of any member may keep it from ending.
        Some(self.team.first_dead().unwrap_or_else(|| self.team.member(self.team.rank() + 1)))
    }
}
