//! Collectives in two phases: begun by `start_...`, waited for later. Several may be under way at
//! one time. They go on whenever the rank polls or waits for anything: handlers take them on.

use crate::arguments::check_bytes;
use crate::fold::{Fold, copy_in};
use crate::mailbox::failed;
use crate::parcel::{pack, unpack};
use crate::pending_collective::{Finish, PendingCollective};
use crate::schedule::{Schedule, Step, Taken};
use crate::signature::Signature;
use crate::team::copy_of;
use crate::{Number, Op, Plain, Team, step};
use clump_am::Result;
use clump_trace::Counter;
use zerocopy::IntoBytes;

/// Combines nothing: for collectives that do not.
fn unused(_: &mut [u8], _: &[u8], _: bool) {
    clump_bug::bug!("this collective combines nothing");
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

/// Returns the schedule of steps that combine `values`, none of which are taken without values.
fn reduction<T: Number, O: Op<T>>(mut steps: Vec<Step>, values: &[T]) -> Result<Schedule> {
    if values.is_empty() {
        steps.clear();
    }
    let value = copy_of(values.as_bytes())?;
    Ok(Schedule::new(steps, (value, Vec::new()), combined::<T, O>))
}

/// Returns the value, whole.
fn whole_value<T: Plain>(done: &Schedule, _: &Team, _: u64) -> Result<Vec<T>> {
    Ok(to_values(&done.value))
}

/// Returns the parts, one behind the other.
fn all_parts<T: Plain>(done: &Schedule, _: &Team, _: u64) -> Result<Vec<T>> {
    Ok(to_values(&done.parts.concat()))
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
        self.start(Counter::Barriers, schedule, |_, _, _| Ok(()))
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
        self.prepared(|| {
            self.check_rank(root).and_then(|()| check_bytes(size_of_val(values) as u64))
        })?;
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
        let value = self.prepared(|| copy_of(values.as_bytes()))?;
        let schedule = Schedule::new(steps, (value, Vec::new()), unused);
        self.start(Counter::Broadcasts, schedule, whole_value)
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
        self.prepared(|| check_bytes(size_of_val(values) as u64))?;
        let (me, fold) = (self.rank(), Fold::of(self.nranks()));
        let mut steps = Vec::new();
        let take = |rank, step, then| self.take_step(rank, step, then);
        let give = |rank, step| self.give_step(rank, step);
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
        let schedule = self.prepared(|| reduction::<T, O>(steps, values))?;
        self.start(Counter::AllReduces, schedule, whole_value)
    }

    /// Begins to combine all ranks' slices element by element at `root`. The result, `None`
    /// elsewhere, has the bits that [`Team::all_reduce_slice`] gives.
    ///
    /// # Errors
    /// Fails if there is no such root, if a rank left, or if sending fails.
    pub fn start_reduce<T: Number, O: Op<T>>(
        &self,
        root: usize,
        values: &[T],
        _op: O,
    ) -> Result<PendingCollective<'_, Option<Vec<T>>>> {
        self.prepared(|| {
            self.check_rank(root).and_then(|()| check_bytes(size_of_val(values) as u64))
        })?;
        let (me, fold) = (self.rank(), Fold::of(self.nranks()));
        let mut steps = Vec::new();
        match fold.position(me) {
            Some(position) => {
                if fold.is_paired(me) {
                    steps.push(self.take_step(me + 1, step::UP, Taken::Combined(false)));
                }
                // Up the tree of the all-reduce, as far as this position gets others' values.
                let height = position.trailing_zeros().min(fold.power.ilog2());
                for bit in 0..height {
                    let (from, step) = (position + (1 << bit), step::BETWEEN + u64::from(bit));
                    steps.push(self.take_step(fold.rank_of(from), step, Taken::Combined(false)));
                }
                if position != 0 {
                    let (to, step) = (position - (1 << height), step::BETWEEN + u64::from(height));
                    steps.push(self.give_step(fold.rank_of(to), step));
                }
            }
            None => steps.push(self.give_step(me - 1, step::UP)),
        }
        if root != 0 && me == 0 {
            steps.push(self.give_step(root, step::DOWN));
        } else if root != 0 && me == root {
            steps.push(self.take_step(0, step::DOWN, Taken::Value));
        }
        let schedule = self.prepared(|| reduction::<T, O>(steps, values))?;
        let finish: Finish<_> = match me == root {
            true => |done, team, seq| whole_value(done, team, seq).map(Some),
            false => |_, _, _| Ok(None),
        };
        self.start(Counter::Reduces, schedule, finish)
    }

    /// Begins to combine the slices of all ranks up to this one, element by element. The result has
    /// the bits that [`Team::scan_slice`] gives.
    ///
    /// # Errors
    /// Fails if a rank left, or if sending fails.
    pub fn start_scan<T: Number, O: Op<T>>(
        &self,
        values: &[T],
        _op: O,
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        self.prepared(|| check_bytes(size_of_val(values) as u64))?;
        let schedule = self.prepared(|| reduction::<T, O>(self.scan_steps(), values))?;
        self.start(Counter::Scans, schedule, whole_value)
    }

    /// Begins to combine the slices of all ranks before this one, element by element. The result,
    /// `None` at the first rank, has the bits that [`Team::exclusive_scan_slice`] gives.
    ///
    /// # Errors
    /// Fails if a rank left, or if sending fails.
    pub fn start_exclusive_scan<T: Number, O: Op<T>>(
        &self,
        values: &[T],
        _op: O,
    ) -> Result<PendingCollective<'_, Option<Vec<T>>>> {
        self.prepared(|| check_bytes(size_of_val(values) as u64))?;
        let me = self.rank();
        let mut steps = self.scan_steps();
        if me + 1 < self.nranks() {
            steps.push(self.give_step(me + 1, step::DOWN));
        }
        if me > 0 {
            steps.push(self.take_step(me - 1, step::DOWN, Taken::Value));
        }
        let schedule = self.prepared(|| reduction::<T, O>(steps, values))?;
        let finish: Finish<_> = match me == 0 {
            true => |_, _, _| Ok(None),
            false => |done, team, seq| whole_value(done, team, seq).map(Some),
        };
        self.start(Counter::Scans, schedule, finish)
    }

    /// Begins to gather all ranks' values, of equal numbers, in rank order, at `root`; the result
    /// is `None` elsewhere.
    ///
    /// # Errors
    /// Fails if there is no such root, if a rank left, or if sending fails; too many values for
    /// memory.
    pub fn start_gather<T: Plain>(
        &self,
        root: usize,
        mine: &[T],
    ) -> Result<PendingCollective<'_, Option<Vec<T>>>> {
        self.prepared(|| self.check_rank(root))?;
        let mine = mine.as_bytes();
        self.prepared(|| check_bytes((mine.len() as u64).saturating_mul(self.nranks() as u64)))?;
        let (me, n, step) = (self.rank(), self.nranks(), step::UP);
        let (steps, parts) = match me == root {
            true => {
                let others = (0..n).filter(|&rank| rank != root);
                let take = |rank| self.take_step(rank, step, Taken::Part(rank));
                let mut parts = vec![Vec::new(); n];
                parts[me] = self.prepared(|| copy_of(mine))?;
                (others.map(take).collect(), (Vec::new(), parts))
            }
            false => {
                let mine = self.prepared(|| copy_of(mine))?;
                (vec![self.give_step(root, step)], (mine, Vec::new()))
            }
        };
        let steps: Vec<Step> = if mine.is_empty() { Vec::new() } else { steps };
        let schedule = Schedule::new(steps, parts, unused).of_length(Some(mine.len()));
        let finish: Finish<_> = match me == root {
            true => |done, team, seq| all_parts(done, team, seq).map(Some),
            false => |_, _, _| Ok(None),
        };
        self.start(Counter::Gathers, schedule, finish)
    }

    /// Begins to give each rank its `each` values of those in `all` of `root`, in rank order. `all`
    /// of other ranks is not read.
    ///
    /// # Errors
    /// Fails if there is no such root, if `all` has not so many values for each rank, if a rank
    /// left, or if sending fails; too many values for memory.
    pub fn start_scatter<T: Plain>(
        &self,
        root: usize,
        all: &[T],
        each: usize,
    ) -> Result<PendingCollective<'_, Vec<T>>> {
        self.prepared(|| self.check_rank(root))?;
        let bytes = each.saturating_mul(size_of::<T>());
        self.prepared(|| check_bytes((bytes as u64).saturating_mul(self.nranks() as u64)))?;
        let (me, n, step) = (self.rank(), self.nranks(), step::DOWN);
        let (steps, value, parts) = match me == root {
            true => {
                self.prepared(|| self.check_room(size_of_val(all), bytes))?;
                let part = |rank: usize| copy_of(all[rank * each..][..each].as_bytes());
                let give = |part: usize| Step::GivePart { to: self.member(part), step, part };
                let others = (0..n).filter(|&rank| rank != root);
                let parts = self.prepared(|| (0..n).map(part).collect::<Result<Vec<_>>>())?;
                (others.map(give).collect(), self.prepared(|| part(me))?, parts)
            }
            false => (vec![self.take_step(root, step, Taken::Value)], Vec::new(), Vec::new()),
        };
        let steps: Vec<Step> = if bytes == 0 { Vec::new() } else { steps };
        let schedule = Schedule::new(steps, (value, parts), unused).of_length(Some(bytes));
        self.start(Counter::Scatters, schedule, whole_value)
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
        self.prepared(|| {
            check_bytes((size_of_val(mine) as u64).saturating_mul(self.nranks() as u64))
        })?;
        let part = |_| copy_of(mine.as_bytes());
        let parts = self.prepared(|| (0..self.nranks()).map(part).collect::<Result<_>>())?;
        let length = Some(size_of_val(mine));
        self.start_exchange(Counter::AllGathers, (parts, length), all_parts)
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
        self.prepared(|| self.check_one_each(values.len()))?;
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
        self.prepared(|| check_bytes(size_of_val(given) as u64))?;
        let each = given.len() / self.nranks();
        self.prepared(|| self.check_room(size_of_val(given), each * size_of::<T>()))?;
        let part = |at: usize| copy_of(given[at * each..][..each].as_bytes());
        let parts = self.prepared(|| (0..self.nranks()).map(part).collect::<Result<_>>())?;
        let length = Some(each * size_of::<T>());
        self.start_exchange(Counter::AllToAlls, (parts, length), all_parts)
    }

    /// Begins to give `parts[i]`, of any length, to rank `i`. The result are the byte strings that
    /// the ranks give to this one, in rank order.
    ///
    /// # Errors
    /// Fails if not one was given for each rank, if a rank left, or if sending fails; no memory.
    pub fn start_all_to_all_bytes<B: AsRef<[u8]>>(
        &self,
        parts: &[B],
    ) -> Result<PendingCollective<'_, Vec<Vec<u8>>>> {
        self.prepared(|| self.check_one_each(parts.len()))?;
        let lengths = parts.iter().map(|part| part.as_ref().len() as u64);
        self.prepared(|| check_bytes(lengths.fold(0, u64::saturating_add)))?;
        // With their lengths, so that also those without bytes are sent.
        let pack = || parts.iter().map(|part| pack(&[part])).collect::<Result<_>>();
        let parts = self.prepared(pack)?;
        self.start_exchange(Counter::AllToAlls, (parts, None), |done, team, seq| {
            let of_rank = |(from, parcel): (u32, &Vec<u8>)| {
                unpack(parcel, 1, (from, seq)).map(|got| got.concat()).map_err(failed)
            };
            team.members().zip(&done.parts).map(of_rank).collect()
        })
    }

    /// Begins to give a part to each rank, and to take one of this length, or any, from each.
    fn start_exchange<R>(
        &self,
        counter: Counter,
        (parts, length): (Vec<Vec<u8>>, Option<usize>),
        finish: Finish<R>,
    ) -> Result<PendingCollective<'_, R>> {
        let (me, n, step) = (self.rank(), self.nranks(), step::BETWEEN);
        let others = (1..n).map(|distance| (me + distance) % n);
        let others = others.filter(|_| length != Some(0));
        let give = |part: usize| Step::GivePart { to: self.member(part), step, part };
        let take = |part| self.take_step(part, step, Taken::Part(part));
        // All are given before the first is taken, so that a part is not replaced before.
        let steps: Vec<Step> = others.clone().map(give).chain(others.map(take)).collect();
        let schedule = Schedule::new(steps, (Vec::new(), parts), unused).of_length(length);
        self.start(counter, schedule, finish)
    }

    /// Returns the steps of Hillis and Steele's scan: in round k every rank combines with what the
    /// one 2^k before it has.
    fn scan_steps(&self) -> Vec<Step> {
        let (me, n) = (self.rank(), self.nranks());
        let mut steps = Vec::new();
        for k in 0..n.next_power_of_two().ilog2() {
            let (distance, step) = (1 << k, step::BETWEEN + u64::from(k));
            if me + distance < n {
                steps.push(self.give_step(me + distance, step));
            }
            if me >= distance {
                steps.push(self.take_step(me - distance, step, Taken::Combined(true)));
            }
        }
        steps
    }

    fn give_step(&self, rank: usize, step: u64) -> Step {
        Step::Give { to: self.member(rank), step }
    }

    fn take_step(&self, rank: usize, step: u64, then: Taken) -> Step {
        Step::Take { from: self.member(rank), step, then }
    }

    /// Begins a collective.
    fn start<R>(
        &self,
        counter: Counter,
        schedule: Schedule,
        finish: Finish<R>,
    ) -> Result<PendingCollective<'_, R>> {
        let (seq, outgoing) = self.begin(counter, |seq| {
            // Handlers send, too, and cannot map.
            schedule.targets().try_for_each(|rank| self.post().dest(rank).map(drop))?;
            Ok((seq, self.post().begin_schedule((self.id(), seq), schedule)))
        })?;
        let pending = PendingCollective { team: self, seq, finish };
        outgoing
            .into_iter()
            .try_for_each(|it| self.send_to(it.to, (seq, it.step), (Signature::ANY, &it.bytes)))?;
        Ok(pending)
    }
}
