//! All ranks of a job, as the collectives see them.

use crate::mailbox::{Mailbox, Part};
use crate::{Number, Op, Plain};
use clump_am::{
    AsContext, Dest, Endpoint, ErrorKind, Handler, Name, RankContext, Result, SharedEndpoint, Tag,
    WaitFor,
};
use clump_os::clock;
use clump_shm::barrier::Barrier;
use clump_shm::rank::Waiting;
use clump_trace::{Counter, Counters};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes;

/// Handler of the collectives' endpoints: words are sequence number and step, payload is the part.
const PART: Handler = Handler(1);

/// All ranks of a job.
#[derive(Debug)]
pub struct Team {
    context: Arc<RankContext>,
    endpoint: SharedEndpoint,
    mailbox: Arc<Mutex<Mailbox>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    barrier: Barrier,
    dests: Vec<Option<Dest>>,
    seq: u64,
}

impl Team {
    /// Opens this rank's endpoint for collectives and waits until all ranks have. It must be the first
    /// endpoint that the rank opens, so that its name is known without asking.
    ///
    /// # Errors
    /// No endpoint to be had; a rank died meanwhile.
    pub fn form(context: &Arc<RankContext>) -> Result<Self> {
        let endpoint = Endpoint::open_shared(context, tag(context))?;
        let mailbox = Arc::new(Mutex::new(Mailbox::default()));
        let box_of_handler = mailbox.clone();
        endpoint.set_handler(PART, move |token, words, payload| {
            let &[seq, step] = words else { return Err("a part of a collective has two words") };
            let part = Part { seq, from: token.from().rank(), step };
            payload.append_to(lock(&box_of_handler).open(part));
            Ok(())
        });
        // A part that comes back went to a rank that died or left; whoever waits for that rank says so.
        endpoint.on_returned(|_| ());
        let ranks = context.node().ranks();
        let barrier = Barrier::new(context.node(), context.rank())?;
        let state = Mutex::new(State { barrier, dests: vec![None; ranks], seq: 0 });
        let team = Self { context: context.clone(), endpoint, mailbox, state };
        team.barrier()?;
        Ok(team)
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.context.rank() as usize
    }

    /// Ranks of the team.
    pub fn nranks(&self) -> usize {
        self.context.node().ranks()
    }

    fn count(&self, counter: Counter, amount: u64) {
        Counters::over(self.context.block().counters()).add(counter, amount);
    }

    /// Returns once all ranks have called it.
    ///
    /// # Errors
    /// A rank died or left.
    pub fn barrier(&self) -> Result<()> {
        let mut state = lock(&self.state);
        let started = clock::cycles();
        state.barrier.arrive();
        if !state.barrier.complete() {
            let mut wait = AtBarrier { barrier: &mut state.barrier, context: &self.context };
            self.endpoint.block_on(&mut wait)?;
        }
        let waited = clock::cycles().wrapping_sub(started);
        self.count(Counter::Barriers, 1);
        self.count(Counter::BarrierWait, waited * 1000 / clock::cycles_per_us());
        Ok(())
    }

    /// All ranks' values, in rank order.
    ///
    /// # Errors
    /// A rank died or left, or sent another size.
    pub fn exchange<T: Plain>(&self, value: T) -> Result<Vec<T>> {
        let lengths = vec![size_of::<T>(); self.nranks()];
        let all = self.gather(value.as_bytes().to_vec(), &lengths)?;
        Ok(all.iter().filter_map(|bytes| T::read_from_bytes(bytes).ok()).collect())
    }

    /// All ranks' byte strings, of any lengths, in rank order.
    ///
    /// # Errors
    /// A rank died or left.
    pub fn exchange_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.exchange(mine.len() as u64)?;
        let lengths: Vec<usize> = lengths.iter().map(|&len| len as usize).collect();
        self.gather(mine.to_vec(), &lengths)
    }

    /// Bruck's all-gather: in round k every rank passes on what it knows to the rank 2^k below, so it
    /// takes ceil(log2 N) rounds at any N.
    fn gather(&self, mine: Vec<u8>, lengths: &[usize]) -> Result<Vec<Vec<u8>>> {
        let (me, n) = (self.rank(), self.nranks());
        let mut state = lock(&self.state);
        let seq = state.next();
        self.count(Counter::Exchanges, 1);
        // known[i] is the part of rank me + i.
        let mut known = vec![mine];
        let mut round = 0;
        while known.len() < n {
            let have = known.len();
            let take = have.min(n - have);
            let to = (me + n - have) % n;
            let from = (me + have) % n;
            self.send(&mut state, to, (seq, round), &known[..take].concat())?;
            let sizes = (0..take).map(|i| lengths[(from + i) % n]);
            let bytes: usize = sizes.clone().sum();
            let got = self.receive(from, (seq, round), bytes)?;
            let mut at = 0;
            for size in sizes {
                known.push(got[at..at + size].to_vec());
                at += size;
            }
            round += 1;
        }
        known.rotate_right(me % n);
        Ok(known)
    }

    /// Makes `values` of `root` the values of all ranks (which must give equally many), along a
    /// binomial tree.
    ///
    /// # Errors
    /// A rank died or left.
    pub fn broadcast<T: Plain>(&self, root: usize, values: &mut [T]) -> Result<()> {
        let (me, n) = (self.rank(), self.nranks());
        let mut state = lock(&self.state);
        let seq = state.next();
        self.count(Counter::Broadcasts, 1);
        let bytes = size_of_val(values);
        let relative = (me + n - root % n) % n;
        // The parent differs in the lowest set bit; children in the bits below it.
        let lowest =
            if relative == 0 { n.next_power_of_two() } else { relative & relative.wrapping_neg() };
        let data = if relative == 0 {
            values.as_bytes().to_vec()
        } else {
            let parent = (relative - lowest + root) % n;
            self.receive(parent, (seq, 0), bytes)?
        };
        let mut bit = lowest / 2;
        while bit > 0 {
            if relative + bit < n {
                self.send(&mut state, (relative + bit + root) % n, (seq, 0), &data)?;
            }
            bit /= 2;
        }
        for (value, chunk) in values.iter_mut().zip(data.chunks_exact(size_of::<T>().max(1))) {
            if let Ok(read) = T::read_from_bytes(chunk) {
                *value = read;
            }
        }
        Ok(())
    }

    /// Combines all ranks' values with `op`; all ranks get the same bits.
    ///
    /// # Errors
    /// A rank died or left.
    pub fn all_reduce<T: Number, O: Op<T>>(&self, value: T, op: O) -> Result<T> {
        let mut one = [value];
        self.all_reduce_slice(&mut one, op)?;
        Ok(one[0])
    }

    /// Combines all ranks' slices element by element.
    ///
    /// Recursive doubling over the largest power of two p <= N; the first 2 (N - p) ranks are folded
    /// in pairs before and unfolded after, neighbours first, so that operands stay in rank order.
    ///
    /// # Errors
    /// A rank died or left.
    pub fn all_reduce_slice<T: Number, O: Op<T>>(&self, values: &mut [T], _op: O) -> Result<()> {
        let (me, n) = (self.rank(), self.nranks());
        let mut state = lock(&self.state);
        let seq = state.next();
        self.count(Counter::AllReduces, 1);
        let power = if n.is_power_of_two() { n } else { n.next_power_of_two() / 2 };
        let folded = 2 * (n - power);
        if me < folded && me % 2 == 1 {
            self.send(&mut state, me - 1, (seq, 0), values.as_bytes())?;
            let result = self.receive(me - 1, (seq, u64::MAX), size_of_val(values))?;
            return copy_in(values, &result, |_, new| new);
        }
        if me < folded {
            let higher = self.receive(me + 1, (seq, 0), size_of_val(values))?;
            copy_in(values, &higher, O::combine)?;
        }
        let position = if me < folded { me / 2 } else { me - folded / 2 };
        let rank_of = |at: usize| if at < folded / 2 { at * 2 } else { at + folded / 2 };
        let mut bit = 1;
        while bit < power {
            let partner = rank_of(position ^ bit);
            let step = bit as u64;
            self.send(&mut state, partner, (seq, step), values.as_bytes())?;
            let other = self.receive(partner, (seq, step), size_of_val(values))?;
            if position & bit == 0 {
                copy_in(values, &other, O::combine)?;
            } else {
                copy_in(values, &other, |mine, lower| O::combine(lower, mine))?;
            }
            bit *= 2;
        }
        if me < folded {
            self.send(&mut state, me + 1, (seq, u64::MAX), values.as_bytes())?;
        }
        Ok(())
    }

    /// Sends one part, in pieces that fit medium messages.
    fn send(
        &self,
        state: &mut State,
        to: usize,
        (seq, step): (u64, u64),
        bytes: &[u8],
    ) -> Result<()> {
        let dest = match state.dests[to] {
            Some(dest) => dest,
            None => {
                let name = Name::new(to as u32, 0, 1);
                *state.dests[to].insert(self.endpoint.map(&name, tag(&self.context))?)
            }
        };
        for piece in bytes.chunks(self.endpoint.max_medium()) {
            self.endpoint.request_bulk(dest, PART, piece, &[seq, step])?;
        }
        Ok(())
    }

    /// Waits for one part of `bytes` bytes.
    fn receive(&self, from: usize, (seq, step): (u64, u64), bytes: usize) -> Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let part = Part { seq, from: from as u32, step };
        let mut wait = Awaited { team: self, part, bytes, got: None };
        self.endpoint.block_on(&mut wait)?;
        Ok(wait.got.unwrap_or_default())
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
}

impl AsContext for Team {
    fn context(&self) -> &Arc<RankContext> {
        &self.context
    }
}

/// Collectives have a virtual network of their own.
fn tag(context: &RankContext) -> Tag {
    Tag(context.node().job().id() ^ 0xc011_ec71_0e5e_5eed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Combines `values` with the values in `bytes`.
fn copy_in<T: Number>(values: &mut [T], bytes: &[u8], combine: impl Fn(T, T) -> T) -> Result<()> {
    for (value, chunk) in values.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
        if let Ok(other) = T::read_from_bytes(chunk) {
            *value = combine(*value, other);
        }
    }
    Ok(())
}

struct AtBarrier<'a> {
    barrier: &'a mut Barrier,
    context: &'a RankContext,
}

impl WaitFor for AtBarrier<'_> {
    #[inline]
    fn done(&mut self) -> Result<bool> {
        Ok(self.barrier.complete())
    }

    fn waiting(&self) -> Waiting {
        self.barrier.waiting()
    }

    fn depends_on(&self) -> Option<u32> {
        let Waiting::Barrier { missing, .. } = self.barrier.waiting() else { return None };
        // Any death keeps a barrier from completing, not only that of the first who is missing.
        let dead = self.context.node().job().first_death();
        Some(dead.map_or(missing, |death| death.rank))
    }

    fn before_sleep(&mut self) {
        self.barrier.announce_sleep();
    }

    fn after_sleep(&mut self) {
        self.barrier.awake();
    }
}

struct Awaited<'a> {
    team: &'a Team,
    part: Part,
    bytes: usize,
    got: Option<Vec<u8>>,
}

impl WaitFor for Awaited<'_> {
    fn done(&mut self) -> Result<bool> {
        if self.got.is_none() {
            self.got = lock(&self.team.mailbox).take(self.part, self.bytes);
        }
        if self.got.as_ref().is_some_and(|got| got.len() > self.bytes) {
            return Err(ErrorKind::RankLeft(self.part.from).into());
        }
        Ok(self.got.is_some())
    }

    fn waiting(&self) -> Waiting {
        Waiting::Collective { seq: self.part.seq, peer: self.part.from }
    }

    fn depends_on(&self) -> Option<u32> {
        Some(self.part.from)
    }
}
