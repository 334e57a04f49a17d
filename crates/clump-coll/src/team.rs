//! Teams: ranks of a job that execute collectives together.

use crate::layout::Layout;
use crate::mailbox::{Broken, PartId, PartMismatch};
use crate::meeting::AtBarrier;
use crate::post::{PART, Post, lock};
use crate::step;
use clump_am::{AsContext, ErrorKind, RankContext, Result, WaitFor};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::barrier::Barrier;
use clump_shm::rank::WaitReason;
use clump_trace::{Counter, Counters, EventKind, histogram};
use std::sync::{Arc, Mutex};

/// The team of all ranks.
const ALL: u64 = 0;

/// Ranks of a job that execute collectives together, in the same order: all of them
/// ([`Team::form`]), or some ([`Team::split`]). A rank may be in many teams, and different threads
/// of it may execute collectives of different teams at one time.
#[derive(Debug)]
pub struct Team {
    context: Arc<RankContext>,
    post: Arc<Post>,
    id: u64,
    /// Ranks of the job, by rank of the team.
    members: Vec<u32>,
    pub(crate) layout: Layout,
    state: Mutex<TeamState>,
    /// End of the last barrier in cycles of the clock; 0 before the first.
    last_barrier: AtomicU64,
}

#[derive(Debug)]
struct TeamState {
    /// The barrier by shared lines, which the team of all ranks has.
    barrier: Option<Barrier>,
    seq: u64,
}

impl Team {
    /// Opens this rank's endpoint for collectives and waits until all ranks have. It must be the
    /// first endpoint that the rank opens, so that its name is known in advance.
    ///
    /// # Errors
    /// Fails if no endpoint can be opened, or if a rank died meanwhile.
    pub fn form(context: &Arc<RankContext>) -> Result<Self> {
        let barrier = Barrier::new(context.node(), context.rank())?;
        let post = Arc::new(Post::open(context, &barrier)?);
        let members: Vec<u32> = (0..context.node().ranks() as u32).collect();
        let team = Self::of(context, &post, (ALL, members), context.rank() as usize, Some(barrier));
        team.barrier()?;
        Ok(team)
    }

    fn of(
        context: &Arc<RankContext>,
        post: &Arc<Post>,
        (id, members): (u64, Vec<u32>),
        me: usize,
        barrier: Option<Barrier>,
    ) -> Self {
        debug_assert_eq!(members.get(me), Some(&context.rank()), "this rank is at its place");
        let layout = Layout::of(context.node(), &members, me);
        let state = Mutex::new(TeamState { barrier, seq: 0 });
        let (context, post) = (context.clone(), post.clone());
        let last_barrier = AtomicU64::new(0);
        Self { context, post, id, members, layout, state, last_barrier }
    }

    /// Divides the team: ranks that give the same `color` form a team, in the order of their
    /// `key`s, and of their ranks in this team where keys are equal. `None`: this rank is in none.
    /// All ranks of the team call it.
    ///
    /// # Errors
    /// Fails if a rank of the team died or left.
    pub fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Self>> {
        let proposal = self.post.propose(self.context.rank());
        let is_in = u64::from(color.is_some());
        let all = self.all_gather([is_in, color.unwrap_or(0), key, proposal])?;
        let Some(color) = color else { return Ok(None) };
        let of_color = |(_, given): &(usize, &[u64; 4])| given[0] == 1 && given[1] == color;
        let mut chosen: Vec<(u64, usize)> =
            all.iter().enumerate().filter(of_color).map(|(at, given)| (given[2], at)).collect();
        chosen.sort_unstable();
        let me = chosen.iter().position(|&(_, at)| at == self.rank());
        debug_assert!(me.is_some(), "a rank is in the team of its color");
        let (Some(me), Some(&(_, first))) = (me, chosen.first()) else { return Ok(None) };
        let members = chosen.iter().map(|&(_, at)| self.members[at]).collect();
        Ok(Some(Self::of(&self.context, &self.post, (all[first][3], members), me, None)))
    }

    /// Returns the number of this rank in the team.
    pub fn rank(&self) -> usize {
        self.layout.me()
    }

    /// Returns the number of ranks of the team.
    pub fn nranks(&self) -> usize {
        self.layout.ranks()
    }

    /// Returns the ranks of the job that form the team, by rank of the team.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Returns once all ranks of the team have called it. Messages that ranks of other nodes sent
    /// before may still be in flight.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn barrier(&self) -> Result<()> {
        let started = clock::cycles();
        let mut state = lock(&self.state);
        self.note_barrier(EventKind::Barrier, state.seq);
        let TeamState { barrier: Some(barrier), seq } = &mut *state else {
            let number = state.seq;
            drop(state);
            self.together(Counter::Barriers, |seq| self.meet(seq))?;
            self.note_barrier(EventKind::BarrierEnd, number);
            self.count_barrier_wait(started);
            return Ok(());
        };
        barrier.arrive();
        if !barrier.complete() {
            let node = self.context.node();
            let mut wait = AtBarrier { barrier, post: &self.post, node };
            let done = self.post.endpoint.block_on(&mut wait);
            self.heed(done, *seq + 1)?;
        }
        self.note_barrier(EventKind::BarrierEnd, *seq);
        self.count(Counter::Barriers, 1);
        self.count_barrier_wait(started);
        Ok(())
    }

    /// Notes a barrier of this team in the rank's trace. Barriers of a team follow each other, so
    /// that the team's number tells those of several teams apart.
    fn note_barrier(&self, kind: EventKind, seq: u64) {
        let ranks = u32::try_from(self.nranks()).unwrap_or(u32::MAX);
        let number = (self.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) ^ seq;
        self.context.note(kind, (ranks, 0, number as u32));
    }

    /// Runs a dissemination barrier: in round k every rank hears of the one 2^k before it.
    fn meet(&self, seq: u64) -> Result<()> {
        let (me, n) = (self.rank(), self.nranks());
        let (mut distance, mut round) = (1, step::BETWEEN);
        while distance < n {
            self.send((me + distance) % n, (seq, round), &[1])?;
            self.receive((me + n - distance) % n, (seq, round), 1)?;
            distance *= 2;
            round += 1;
        }
        Ok(())
    }

    fn count_barrier_wait(&self, started: u64) {
        let (now, per_us) = (clock::cycles(), clock::cycles_per_us());
        self.count(Counter::BarrierWait, now.wrapping_sub(started) * 1000 / per_us);
        let last = self.last_barrier.swap(now, Ordering::Relaxed);
        if last != 0 {
            let interval_ns = u128::from(now.wrapping_sub(last)) * 1000 / u128::from(per_us);
            let interval_ns = u64::try_from(interval_ns).unwrap_or(u64::MAX);
            histogram::record(self.post.block.barrier_intervals(), interval_ns);
        }
    }

    pub(crate) fn count(&self, counter: Counter, amount: u64) {
        Counters::over(self.context.block().counters()).add(counter, amount);
    }

    /// Returns the number of the team.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    /// Returns the rank of the job of a member, counted around.
    pub(crate) fn member(&self, rank: usize) -> u32 {
        debug_assert!(!self.members.is_empty(), "this rank is a member");
        self.members[rank % self.members.len()]
    }

    /// Returns a member that is dead, if one is.
    pub(crate) fn first_dead(&self) -> Option<u32> {
        let node = self.context.node();
        self.members.iter().copied().find(|&rank| node.death_of(rank).is_some())
    }

    /// Returns the first death of the job, if a member is dead.
    pub(crate) fn first_death(&self) -> Option<clump_shm::job::Death> {
        self.first_dead().and_then(|_| self.context.node().job().first_death())
    }

    /// Counts a collective in two phases, and returns its number.
    pub(crate) fn begin(&self, counter: Counter) -> Result<u64> {
        self.together(counter, Ok)
    }

    /// Executes one collective, given its number.
    pub(crate) fn together<R>(
        &self,
        counter: Counter,
        make: impl FnOnce(u64) -> Result<R>,
    ) -> Result<R> {
        let mut state = lock(&self.state);
        state.seq += 1;
        let broken = self.post.mailbox().is_broken(self.id, state.seq);
        if let Some(by) = broken {
            return self.heed(Err(ErrorKind::RankLeft(by).into()), state.seq);
        }
        self.count(counter, 1);
        self.heed(make(state.seq), state.seq)
    }

    /// Handles the failure of collective `seq`. A rank whose collective fails because a rank left
    /// takes part in no further one of the team, and tells all others: they would wait for its
    /// contributions, and it for theirs. A rank that left after a death mostly did so because of
    /// it.
    pub(crate) fn heed<R>(&self, made: Result<R>, seq: u64) -> Result<R> {
        let Err(error) = &made else { return made };
        let ErrorKind::RankLeft(by) = *error.kind() else { return made };
        if let Some(death) = self.context.node().job().first_death() {
            return Err(ErrorKind::RankDied(death).into());
        }
        let broken = Broken { seq, by };
        if self.post.mailbox().give_up(self.id, broken) {
            for &rank in self.members.iter().filter(|&&rank| rank != self.context.rank()) {
                let _ = self.post.try_tell_broken(rank, self.id, broken);
            }
        }
        made
    }

    /// Checks that the team has a rank `rank`.
    pub(crate) fn check_rank(&self, rank: usize) -> Result<()> {
        let ranks = self.nranks();
        if rank < ranks {
            return Ok(());
        }
        Err(ErrorKind::NoSuchRank { rank, ranks }.into())
    }

    /// Checks that `given` values, one for each rank, were given.
    pub(crate) fn check_one_each(&self, given: usize) -> Result<()> {
        let ranks = self.nranks();
        if given == ranks {
            return Ok(());
        }
        Err(ErrorKind::NotOneEach { given, ranks }.into())
    }

    /// Sends one contribution to a rank of the team, in fragments that fit medium messages.
    pub(crate) fn send(&self, to: usize, (seq, step): (u64, u64), bytes: &[u8]) -> Result<()> {
        self.send_to(self.members[to], (seq, step), bytes)
    }

    /// Sends one contribution to a rank of the job.
    pub(crate) fn send_to(&self, to: u32, (seq, step): (u64, u64), bytes: &[u8]) -> Result<()> {
        let dest = self.post.dest(to)?;
        let (most, total) = (self.post.endpoint.max_medium(), bytes.len() as u64);
        let mut offset = 0;
        for fragment in bytes.chunks(most) {
            let words = &[self.id, seq, step, offset, total];
            self.post.endpoint.request_bulk(dest, PART, fragment, words)?;
            offset += fragment.len() as u64;
        }
        debug_assert_eq!(offset, total, "all of it was sent");
        Ok(())
    }

    /// Waits for one contribution of `bytes` bytes of a rank of the team.
    pub(crate) fn receive(
        &self,
        from: usize,
        (seq, step): (u64, u64),
        bytes: usize,
    ) -> Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        self.await_part(from, (seq, step), Some(bytes))
    }

    /// Waits for one contribution of a rank of the team, of as many bytes as that rank gives, at
    /// least one.
    pub(crate) fn receive_any(&self, from: usize, key: (u64, u64)) -> Result<Vec<u8>> {
        self.await_part(from, key, None)
    }

    fn await_part(
        &self,
        from: usize,
        (seq, step): (u64, u64),
        bytes: Option<usize>,
    ) -> Result<Vec<u8>> {
        let part = PartId { team: self.id, seq, from: self.members[from], step };
        let mut wait = Awaited { team: self, part, bytes, got: None };
        self.post.endpoint.block_on(&mut wait)?;
        let got = wait.got.unwrap_or_default();
        debug_assert!(bytes.is_none_or(|bytes| got.len() == bytes), "all of it, and no more");
        Ok(got)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.post.forget_schedules(self.id);
        self.post.mailbox().close(self.id);
    }
}

/// Bytes that a collective moves at one time, at most: so many that no rank has them, and few
/// enough that all ranks refuse more before one of them waits for another.
const MAX_BYTES: u64 = 1 << 36;

/// Fails if a collective would move `bytes` bytes or more to a rank, all parts together.
pub(crate) fn check_bytes(bytes: u64) -> Result<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(ErrorKind::TooMuch { given: bytes, most: MAX_BYTES }.into())
}

/// A copy of what this rank gives, or an error where there is no memory for it.
pub(crate) fn copy_of(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| ErrorKind::NoMemory(bytes.len()))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl AsContext for Team {
    fn context(&self) -> &Arc<RankContext> {
        &self.context
    }
}

struct Awaited<'a> {
    team: &'a Team,
    part: PartId,
    /// Bytes of it, if they are known.
    bytes: Option<usize>,
    got: Option<Vec<u8>>,
}

impl WaitFor for Awaited<'_> {
    fn done(&mut self) -> Result<bool> {
        self.team.post.send_unsent()?;
        if self.got.is_none() {
            let mut mailbox = self.team.post.mailbox();
            self.got = mailbox.take(self.part, self.bytes).map_err(failed)?;
            if self.got.is_none()
                && let Some(by) = mailbox.is_broken(self.part.team, self.part.seq)
            {
                return Err(ErrorKind::RankLeft(by).into());
            }
        }
        Ok(self.got.is_some())
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Collective { seq: self.part.seq, peer: self.part.from }
    }

    fn depends_on(&self) -> Option<u32> {
        // The death of any member keeps the collective from ending: who waits for the dead one
        // fails, and contributes nothing more.
        Some(self.team.first_dead().unwrap_or(self.part.from))
    }
}

/// Returns the error of a call to which a rank gave what does not fit.
pub(crate) fn failed(misfit: PartMismatch) -> clump_am::Error {
    ErrorKind::HandlerFailed { handler: PART.0, why: misfit.to_string() }.into()
}
