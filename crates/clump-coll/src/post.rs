//! The endpoint by which a rank takes part in the collectives of all its teams.

use crate::mailbox::{Broken, FragmentRange, Mailbox, PartId};
use clump_am::{
    Dest, Endpoint, Handler, Name, RankContext, Result, SendAttempt, SharedEndpoint, Tag,
};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::barrier::Barrier;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Fragment of a contribution; words: team, sequence number, step, offset of the fragment, bytes of
/// the contribution.
pub(crate) const PART: Handler = Handler(1);
/// The sender's node has arrived at a barrier of all ranks; words: its number.
const TOLD: Handler = Handler(2);
/// A collective failed at the sender; words: team, its number, the rank that had left.
const BROKEN: Handler = Handler(3);

/// The endpoint, its known destinations, and what has arrived.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) endpoint: SharedEndpoint,
    tag: Tag,
    /// Destinations, by rank of the job.
    dests: Mutex<Vec<Option<Dest>>>,
    mailbox: Arc<Mutex<Mailbox>>,
    /// Numbers of teams that this rank has proposed.
    proposed: AtomicU64,
}

impl Post {
    /// Opens the endpoint, which hands messages about barriers of all ranks to `barrier`.
    pub(crate) fn open(context: &Arc<RankContext>, barrier: &Barrier) -> Result<Self> {
        let tag = tag(context);
        let endpoint = Endpoint::open_shared(context, tag)?;
        let mailbox = Arc::new(Mutex::new(Mailbox::default()));
        let box_of_handler = mailbox.clone();
        endpoint.set_handler(PART, move |token, words, payload| {
            let &[team, seq, step, offset, total] = words else {
                return Err("a part of a collective has five words".to_owned());
            };
            let part = PartId { team, seq, from: token.from().rank(), step };
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
            let &[team, seq, by] = words else { return Err("a failure is told in three words") };
            lock(&box_of_handler).give_up(team, Broken { seq, by: by as u32 });
            Ok(())
        })?;
        // A returned message went to a rank that died or left; the call that waits for that rank
        // reports it.
        endpoint.on_returned(|_| ())?;
        let dests = Mutex::new(vec![None; context.node().ranks()]);
        Ok(Self { endpoint, tag, dests, mailbox, proposed: AtomicU64::new(0) })
    }

    /// Returns what has arrived.
    pub(crate) fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        lock(&self.mailbox)
    }

    /// Returns a number for a team of which `rank`, this one, is the first member. No other team of
    /// the job has it.
    pub(crate) fn propose(&self, rank: u32) -> u64 {
        let count = self.proposed.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(count < 1 << 32, "more teams than a rank counts");
        u64::from(rank) << 32 | count
    }

    /// Returns the destination of a rank of the job.
    pub(crate) fn dest(&self, rank: u32) -> Result<Dest> {
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

    /// Tells `rank` of a barrier of all ranks, if there is room now.
    pub(crate) fn try_notify(&self, rank: u32, epoch: u64) -> Result<bool> {
        self.try_send(rank, TOLD, &[epoch])
    }

    /// Tells `rank` that a collective of a team failed, if there is room now.
    pub(crate) fn try_tell_broken(&self, rank: u32, team: u64, broken: Broken) -> Result<bool> {
        self.try_send(rank, BROKEN, &[team, broken.seq, u64::from(broken.by)])
    }

    fn try_send(&self, rank: u32, handler: Handler, words: &[u64]) -> Result<bool> {
        let dest = self.dest(rank)?;
        Ok(self.endpoint.try_request(dest, handler, words)? == SendAttempt::Sent)
    }
}

/// Returns the tag of the collectives' virtual network.
fn tag(context: &RankContext) -> Tag {
    Tag(context.node().job().id() ^ 0xc011_ec71_0e5e_5eed)
}

/// Locks what a panic cannot leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
