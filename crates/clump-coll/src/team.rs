//! All ranks of a job, as the collectives see them.

use crate::layout::Layout;
use crate::mailbox::{Broken, FragmentRange, Mailbox, PartId, PartMismatch};
use crate::meeting::AtBarrier;
use clump_am::{
    AsContext, Dest, Endpoint, ErrorKind, Handler, Name, RankContext, Result, SendAttempt,
    SharedEndpoint, Tag, WaitFor,
};
use clump_os::clock;
use clump_shm::barrier::Barrier;
use clump_shm::rank::WaitReason;
use clump_trace::{Counter, Counters};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Fragment of a contribution; words: sequence number, step, offset of the fragment, bytes of the
/// contribution.
const PART: Handler = Handler(1);
/// The sender's node has arrived at a barrier; words: its number.
const TOLD: Handler = Handler(2);
/// A collective failed at the sender; words: its number, the rank that had left.
const BROKEN: Handler = Handler(3);

/// All ranks of a job.
#[derive(Debug)]
pub struct Team {
    context: Arc<RankContext>,
    pub(crate) layout: Layout,
    team_endpoint: TeamEndpoint,
    mailbox: Arc<Mutex<Mailbox>>,
    state: Mutex<TeamState>,
}

/// The endpoint, and its known destinations.
#[derive(Debug)]
pub(crate) struct TeamEndpoint {
    endpoint: SharedEndpoint,
    tag: Tag,
    dests: Mutex<Vec<Option<Dest>>>,
}

#[derive(Debug)]
pub(crate) struct TeamState {
    barrier: Barrier,
    seq: u64,
}

impl Team {
    /// Opens this rank's endpoint for collectives and waits until all ranks have. It must be the
    /// first endpoint that the rank opens, so that its name is known in advance.
    ///
    /// # Errors
    /// Fails if no endpoint can be opened, or if a rank died meanwhile.
    pub fn form(context: &Arc<RankContext>) -> Result<Self> {
        let tag = tag(context);
        let barrier = Barrier::new(context.node(), context.rank())?;
        let endpoint = Endpoint::open_shared(context, tag)?;
        let mailbox = Arc::new(Mutex::new(Mailbox::default()));
        let box_of_handler = mailbox.clone();
        endpoint.set_handler(PART, move |token, words, payload| {
            let &[seq, step, offset, total] = words else {
                return Err("a part of a collective has four words".to_owned());
            };
            let part = PartId { seq, from: token.from().rank(), step };
            let put =
                lock(&box_of_handler).put(part, FragmentRange { offset, total }, payload.to_vec());
            put.map_err(|misfit| misfit.to_string())
        })?;
        let ear = barrier.ear().clone();
        endpoint.set_handler(TOLD, move |token, words, _| {
            let &[epoch] = words else { return Err("a barrier is told in one word") };
            ear.handle_message(token.from().rank(), epoch)
        })?;
        let box_of_handler = mailbox.clone();
        endpoint.set_handler(BROKEN, move |_, words, _| {
            let &[seq, by] = words else { return Err("a failure is told in two words") };
            lock(&box_of_handler).give_up(Broken { seq, by: by as u32 });
            Ok(())
        })?;
        // A returned message went to a rank that died or left; the call that waits for that rank
        // reports it.
        endpoint.on_returned(|_| ())?;
        let layout = Layout::of(context.node(), context.rank());
        let dests = Mutex::new(vec![None; layout.ranks()]);
        let team_endpoint = TeamEndpoint { endpoint, tag, dests };
        let state = Mutex::new(TeamState { barrier, seq: 0 });
        let team = Self { context: context.clone(), layout, team_endpoint, mailbox, state };
        team.barrier()?;
        Ok(team)
    }

    /// Returns the number of this rank.
    pub fn rank(&self) -> usize {
        self.layout.me()
    }

    /// Returns the number of ranks of the team.
    pub fn nranks(&self) -> usize {
        self.layout.ranks()
    }

    /// Returns once all ranks have called it. Messages that ranks of other nodes sent before may
    /// still be in flight.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn barrier(&self) -> Result<()> {
        let mut state = lock(&self.state);
        let started = clock::cycles();
        state.barrier.arrive();
        if !state.barrier.complete() {
            let node = self.context.node();
            let mut wait =
                AtBarrier { barrier: &mut state.barrier, endpoint: &self.team_endpoint, node };
            let done = self.team_endpoint.endpoint.block_on(&mut wait);
            self.heed(done, state.seq + 1)?;
        }
        let waited = clock::cycles().wrapping_sub(started);
        self.count(Counter::Barriers, 1);
        self.count(Counter::BarrierWait, waited * 1000 / clock::cycles_per_us());
        Ok(())
    }

    pub(crate) fn count(&self, counter: Counter, amount: u64) {
        Counters::over(self.context.block().counters()).add(counter, amount);
    }

    /// Executes one collective, given its number.
    pub(crate) fn together<R>(
        &self,
        counter: Counter,
        make: impl FnOnce(u64) -> Result<R>,
    ) -> Result<R> {
        let mut state = lock(&self.state);
        state.seq += 1;
        let broken = lock(&self.mailbox).is_broken(state.seq);
        if let Some(by) = broken {
            return self.heed(Err(ErrorKind::RankLeft(by).into()), state.seq);
        }
        self.count(counter, 1);
        self.heed(make(state.seq), state.seq)
    }

    /// Handles the failure of collective `seq`. A rank whose collective fails because a rank left
    /// takes part in no further one, and tells all others: they would wait for its contributions,
    /// and it for theirs. A rank that left after a death mostly did so because of it.
    fn heed<R>(&self, made: Result<R>, seq: u64) -> Result<R> {
        let Err(error) = &made else { return made };
        let ErrorKind::RankLeft(by) = *error.kind() else { return made };
        if let Some(death) = self.context.node().job().first_death() {
            return Err(ErrorKind::RankDied(death).into());
        }
        if lock(&self.mailbox).give_up(Broken { seq, by }) {
            for rank in (0..self.nranks()).filter(|&rank| rank != self.rank()) {
                let _ = self.team_endpoint.try_send(rank as u32, BROKEN, &[seq, u64::from(by)]);
            }
        }
        made
    }

    /// Sends one contribution, in fragments that fit medium messages.
    pub(crate) fn send(&self, to: usize, (seq, step): (u64, u64), bytes: &[u8]) -> Result<()> {
        let dest = self.team_endpoint.dest(to as u32)?;
        let (most, total) = (self.team_endpoint.endpoint.max_medium(), bytes.len() as u64);
        let mut offset = 0;
        for fragment in bytes.chunks(most) {
            self.team_endpoint.endpoint.request_bulk(
                dest,
                PART,
                fragment,
                &[seq, step, offset, total],
            )?;
            offset += fragment.len() as u64;
        }
        Ok(())
    }

    /// Waits for one contribution of `bytes` bytes.
    pub(crate) fn receive(
        &self,
        from: usize,
        (seq, step): (u64, u64),
        bytes: usize,
    ) -> Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let part = PartId { seq, from: from as u32, step };
        let mut wait = Awaited { mailbox: &self.mailbox, part, bytes, got: None };
        self.team_endpoint.endpoint.block_on(&mut wait)?;
        Ok(wait.got.unwrap_or_default())
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

impl TeamEndpoint {
    fn dest(&self, rank: u32) -> Result<Dest> {
        let mut dests = lock(&self.dests);
        if let Some(&Some(dest)) = dests.get(rank as usize) {
            return Ok(dest);
        }
        let dest = self.endpoint.map(&Name::new(rank, 0, 1), self.tag)?;
        if let Some(place) = dests.get_mut(rank as usize) {
            *place = Some(dest);
        }
        Ok(dest)
    }

    /// Tells `rank` of a barrier, if there is room now.
    pub(crate) fn try_notify(&self, rank: u32, epoch: u64) -> Result<bool> {
        self.try_send(rank, TOLD, &[epoch])
    }

    fn try_send(&self, rank: u32, handler: Handler, words: &[u64]) -> Result<bool> {
        let dest = self.dest(rank)?;
        Ok(self.endpoint.try_request(dest, handler, words)? == SendAttempt::Sent)
    }
}

impl AsContext for Team {
    fn context(&self) -> &Arc<RankContext> {
        &self.context
    }
}

/// Returns the tag of the collectives' virtual network.
fn tag(context: &RankContext) -> Tag {
    Tag(context.node().job().id() ^ 0xc011_ec71_0e5e_5eed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Awaited<'a> {
    mailbox: &'a Mutex<Mailbox>,
    part: PartId,
    bytes: usize,
    got: Option<Vec<u8>>,
}

impl WaitFor for Awaited<'_> {
    fn done(&mut self) -> Result<bool> {
        if self.got.is_none() {
            let mut mailbox = lock(self.mailbox);
            self.got = mailbox.take(self.part, self.bytes).map_err(failed)?;
            if self.got.is_none()
                && let Some(by) = mailbox.is_broken(self.part.seq)
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
        Some(self.part.from)
    }
}

fn failed(misfit: PartMismatch) -> clump_am::Error {
    ErrorKind::HandlerFailed { handler: PART.0, why: misfit.to_string() }.into()
}
