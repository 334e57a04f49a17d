//! The endpoint by which a rank takes part in the collectives of all its teams.

use crate::mailbox::{Broken, FragmentRange, Mailbox, PartId};
use crate::schedule::{Outgoing, Schedule};
use crate::signature::Signature;
use crate::stage::pool::StagePool;
use crate::team_disagreements::Disagreement;
use clump_am::{
    Dest, Endpoint, ErrorKind, Handler, Name, RankContext, Reason, Result, SendAttempt,
    SharedEndpoint, Tag, Token,
};
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_shm::barrier::Barrier;
use clump_shm::block::EndpointBlock;
use clump_shm::shared::Shared;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Fragment of a contribution; words: team, sequence number, step, offset of the fragment, bytes of
/// the contribution, signature of the collective.
pub(crate) const PART: Handler = Handler(1);
/// The sender's node has arrived at a barrier of all ranks; words: its number.
const TOLD: Handler = Handler(2);
/// A collective failed at the sender; words: team, its number, the rank that had left.
const BROKEN: Handler = Handler(3);
/// The sender found that ranks do not agree about a collective; words: team, its number; payload:
/// the reason.
const DISAGREED: Handler = Handler(4);
/// A message of a collective came back to the sender; words: the rank it was for, the reason.
const CAME_BACK: Handler = Handler(5);

/// A rank that lives, and from which a message of a collective came back.
#[derive(Debug, Clone, Copy)]
struct CameBack {
    rank: u32,
    reason: Reason,
    /// True if it was sent to all ranks.
    is_told: bool,
}

/// Collectives in two phases, by team and number.
type RunningSchedules = HashMap<(u64, u64), Schedule>;

/// The endpoint, its known destinations, and what has arrived.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) endpoint: SharedEndpoint,
    /// The endpoint's block.
    pub(crate) block: Shared<EndpointBlock>,
    tag: Tag,
    /// Destinations that were mapped, by rank of the job.
    dests: Arc<Mutex<HashMap<u32, Dest>>>,
    /// Collectives in two phases that are under way, by team and number. Locked before the mailbox,
    /// and never while anything is sent.
    running: Arc<Mutex<RunningSchedules>>,
    /// True if a handler could not send something for one of them, or if `came_back` is set: the
    /// one word that a wait reads.
    unsent: Arc<AtomicBool>,
    /// A rank that lives and does not take messages of collectives. Collectives fail from then on:
    /// it, or this rank, would wait for ever.
    came_back: Arc<Mutex<Option<CameBack>>>,
    mailbox: Arc<Mutex<Mailbox>>,
    /// Numbers of teams that this rank has proposed.
    proposed: AtomicU64,
    /// Memory for the stages of teams.
    stages: Mutex<StagePool>,
}

impl Post {
    /// Opens the endpoint, which hands messages about barriers of all ranks to `barrier`.
    ///
    /// Messages may arrive as soon as it is open. They are handled in calls on this endpoint alone,
    /// of which there is none before all handlers are set; and ranks of this node look for the
    /// segment behind the first barrier.
    pub(crate) fn open(context: &Arc<RankContext>, barrier: &Barrier) -> Result<Self> {
        let tag = tag(context);
        let stages = StagePool::new(context)?;
        let endpoint = Endpoint::open_shared(context, tag)?;
        clump_am::belongs_to_runtime(&endpoint)?;
        let index = usize::from(endpoint.name().index());
        let block = context.node().endpoint_block(context.rank(), index)?;
        let mailbox = Arc::new(Mutex::new(Mailbox::default()));
        let dests = Arc::new(Mutex::new(HashMap::new()));
        let running = Arc::new(Mutex::new(RunningSchedules::new()));
        let unsent = Arc::new(AtomicBool::new(false));
        let (box_of_handler, known, schedules) = (mailbox.clone(), dests.clone(), running.clone());
        let rest = unsent.clone();
        endpoint.set_handler(PART, move |mut token, words, payload| {
            let &[team, seq, step, offset, total, signature] = words else {
                return Err("a part of a collective has six words".to_owned());
            };
            let part = PartId { team, seq, from: token.from().rank(), step };
            let mut mailbox = lock(&box_of_handler);
            let mut fragment = mailbox.spare();
            payload.append_to(&mut fragment);
            let fragment = (Signature::from_word(signature), fragment);
            let put = mailbox.put(part, FragmentRange { offset, total }, fragment);
            drop(mailbox);
            put.map_err(|misfit| misfit.to_string())?;
            take_on((team, seq), &mut token, (&schedules, &box_of_handler), (&known, &rest));
            Ok(())
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
        let box_of_handler = mailbox.clone();
        endpoint.set_handler(DISAGREED, move |_, words, payload| {
            let &[team, seq] = words else { return Err("a disagreement is told in two words") };
            let why = String::from_utf8_lossy(&payload.to_vec()).into_owned();
            lock(&box_of_handler).disagree((team, seq), Disagreement { why, was_told: true });
            Ok(())
        })?;
        let came_back = Arc::new(Mutex::new(None));
        watch_returns(&endpoint, &came_back, &unsent)?;
        let proposed = AtomicU64::new(0);
        // Ranks of this node look there for it.
        block.set_segment(stages.region().name());
        let stages = Mutex::new(stages);
        Ok(Self {
            endpoint,
            block,
            tag,
            dests,
            running,
            unsent,
            came_back,
            mailbox,
            proposed,
            stages,
        })
    }

    /// Returns what has arrived.
    pub(crate) fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        lock(&self.mailbox)
    }

    /// Returns the memory for the stages of this rank's teams.
    pub(crate) fn stages(&self) -> MutexGuard<'_, StagePool> {
        lock(&self.stages)
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
        if let Some(&dest) = dests.get(&rank) {
            return Ok(dest);
        }
        let dest = self.endpoint.map(&Name::new(rank, 0, 1), self.tag)?;
        dests.insert(rank, dest);
        Ok(dest)
    }

    /// Begins a collective in two phases. Returns what is to be sent.
    pub(crate) fn begin_schedule(&self, key: (u64, u64), mut schedule: Schedule) -> Vec<Outgoing> {
        let mut running = lock(&self.running);
        let outgoing = schedule.advance(key, &mut self.mailbox());
        let before = running.insert(key, schedule);
        debug_assert!(before.is_none(), "each collective has a number of its own");
        outgoing
    }

    /// Sends what handlers could not send, as far as there is room. Called by everything that waits
    /// for a collective: another one of this rank may be what others wait for.
    #[inline]
    pub(crate) fn send_unsent(&self) -> Result<()> {
        if self.unsent.load(Ordering::Relaxed) { self.send_rest() } else { Ok(()) }
    }

    #[cold]
    fn send_rest(&self) -> Result<()> {
        self.unsent.store(false, Ordering::Relaxed);
        if let Some(CameBack { rank, reason, .. }) = *lock(&self.came_back) {
            self.unsent.store(true, Ordering::Relaxed);
            return Err(ErrorKind::CollectiveReturned { rank, reason }.into());
        }
        // Nothing is locked while it is sent: that may run handlers, which lock.
        let taken: Vec<_> = lock(&self.running)
            .iter_mut()
            .flat_map(|(&key, it)| it.unsent.drain(..).map(move |rest| (key, rest)))
            .collect();
        for (key, mut rest) in taken {
            let dest = self.dest(rest.to)?;
            while let Some((words, bytes)) = rest.fragment(key, self.endpoint.max_medium()) {
                match self.endpoint.try_request_bulk(dest, PART, bytes, &words)? {
                    SendAttempt::Sent => rest.sent += bytes.len(),
                    _ => break,
                }
            }
            if rest.sent < rest.bytes.len()
                && let Some(schedule) = lock(&self.running).get_mut(&key)
            {
                schedule.unsent.push(rest);
                self.unsent.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Returns true if it is done, or has failed.
    pub(crate) fn has_ended(&self, key: (u64, u64)) -> bool {
        let ended = |it: &Schedule| it.is_done() || it.failed.is_some();
        lock(&self.running).get(&key).is_none_or(ended)
    }

    /// Takes it out.
    pub(crate) fn end_schedule(&self, key: (u64, u64)) -> Option<Schedule> {
        lock(&self.running).remove(&key)
    }

    /// Forgets those of a team.
    pub(crate) fn forget_schedules(&self, team: u64) {
        lock(&self.running).retain(|key, _| key.0 != team);
    }

    /// Lets it go on without anybody who waits for it.
    pub(crate) fn drop_schedule(&self, key: (u64, u64)) {
        let mut running = lock(&self.running);
        if running.get(&key).is_some_and(Schedule::is_done) {
            running.remove(&key);
        } else if let Some(schedule) = running.get_mut(&key) {
            schedule.is_dropped = true;
        }
    }

    /// Forgets why ranks did not agree about the collectives of a team before `seq`, all of which
    /// are over at this rank but for those in two phases that are under way.
    #[cold]
    pub(crate) fn forget_disagreements(&self, team: u64, seq: u64) {
        let mut running = lock(&self.running);
        let mut mailbox = self.mailbox();
        // One that fails, and that nothing waits for, has no other end.
        running.retain(|&(of, seq), it| {
            let fails = it.failed.is_some() || mailbox.disagreement(of, seq).is_some();
            of != team || !it.is_dropped || !fails
        });
        let open = running.keys().filter(|key| key.0 == team).map(|key| key.1).collect();
        mailbox.forget_disagreements(team, seq, open);
        debug_assert!(mailbox.has_disagreements(team), "they are noted until the team is gone");
    }

    /// Tells `rank` of a barrier of all ranks, if there is room now.
    pub(crate) fn try_notify(&self, rank: u32, epoch: u64) -> Result<bool> {
        self.try_send(rank, TOLD, &[epoch])
    }

    /// Tells `rank` that a collective of a team failed, if there is room now.
    pub(crate) fn try_tell_broken(&self, rank: u32, team: u64, broken: Broken) -> Result<bool> {
        self.try_send(rank, BROKEN, &[team, broken.seq, u64::from(broken.by)])
    }

    /// Tells all ranks, once, that a message of a collective came back from one that lives: it may
    /// wait for that message, and others for what it would have sent then.
    pub(crate) fn tell_returned(&self) {
        let untold = match &mut *lock(&self.came_back) {
            Some(found) if !found.is_told => {
                found.is_told = true;
                *found
            }
            _ => return,
        };
        let words = [u64::from(untold.rank), untold.reason as u64];
        for rank in 0..self.endpoint.context().node().ranks() as u32 {
            // One that died or left waits for nothing.
            let _ = self.dest(rank).and_then(|dest| self.endpoint.request(dest, CAME_BACK, &words));
        }
    }

    /// Tells `rank` why ranks do not agree about a collective, given by team and number.
    pub(crate) fn tell_disagreement(
        &self,
        rank: u32,
        (team, seq): (u64, u64),
        why: &str,
    ) -> Result<()> {
        let most = self.endpoint.max_medium();
        let why = why.as_bytes();
        let why = why.get(..most).unwrap_or(why);
        self.endpoint.request_bulk(self.dest(rank)?, DISAGREED, why, &[team, seq])
    }

    fn try_send(&self, rank: u32, handler: Handler, words: &[u64]) -> Result<bool> {
        let dest = self.dest(rank)?;
        Ok(self.endpoint.try_request(dest, handler, words)? == SendAttempt::Sent)
    }
}

/// Makes collectives fail once one of their messages has come back from a rank that lives, here or
/// at another rank.
fn watch_returns(
    endpoint: &SharedEndpoint,
    came_back: &Arc<Mutex<Option<CameBack>>>,
    attention: &Arc<AtomicBool>,
) -> Result<()> {
    let (found, noticed) = (came_back.clone(), attention.clone());
    endpoint.on_returned(move |message| {
        // What waits for a rank that died or left reports that.
        if !matches!(message.reason, Reason::PeerLost | Reason::EndpointGone) {
            let (rank, reason) = (message.dest.rank(), message.reason);
            lock(&found).get_or_insert(CameBack { rank, reason, is_told: false });
            noticed.store(true, Ordering::Relaxed);
        }
    })?;
    let (found, noticed) = (came_back.clone(), attention.clone());
    endpoint.set_handler(CAME_BACK, move |_, words, _| {
        let &[rank, reason] = words else { return Err("a return is told in two words") };
        let reason = u8::try_from(reason).ok().and_then(Reason::from_bits);
        let (reason, rank) = (reason.ok_or("no such reason")?, rank as u32);
        lock(&found).get_or_insert(CameBack { rank, reason, is_told: true });
        noticed.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// Takes a collective in two phases on, in the handler that brought something for it.
fn take_on(
    key: (u64, u64),
    token: &mut Token<'_>,
    (running, mailbox): (&Mutex<RunningSchedules>, &Mutex<Mailbox>),
    (dests, unsent): (&Mutex<HashMap<u32, Dest>>, &AtomicBool),
) {
    let mut running = lock(running);
    let Some(schedule) = running.get_mut(&key) else { return };
    let outgoing = schedule.advance(key, &mut lock(mailbox));
    for mut it in outgoing {
        let dest = lock(dests).get(&it.to).copied();
        debug_assert!(dest.is_some(), "destinations were mapped when it was begun");
        let most = token.max_medium();
        while let Some((words, bytes)) = it.fragment(key, most) {
            let queue = |dest| token.defer_bulk(dest, PART, Some(bytes), &words).is_ok();
            if !dest.is_some_and(queue) {
                break;
            }
            it.sent += bytes.len();
        }
        if it.sent < it.bytes.len() {
            // The queue is full: what waits for anything sends the rest.
            schedule.unsent.push(it);
            unsent.store(true, Ordering::Release);
        }
    }
    if schedule.is_dropped && schedule.is_done() {
        running.remove(&key);
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
