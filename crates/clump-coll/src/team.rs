//! Teams: ranks of a job that execute collectives together.

use crate::Number;
use crate::awaited_part::AwaitedPart;
use crate::choice::{self, Algorithm, Operation, TeamShape};
use crate::fold::copy_in;
use crate::layout::Layout;
use crate::mailbox::{Broken, PartId, PartMismatch, Pieces, failed};
use crate::members::Members;
use crate::post::{PART, Post};
use crate::signature::Signature;
use crate::stage::area::MAX_MEMBERS;
use crate::stage::group::StageGroup;
use crate::stage::numbering::last_of;
use crate::team_state::StateLock;
use clump_am::{AsContext, Error, ErrorKind, RankContext, Result};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::barrier::Barrier;
use clump_shm::virtual_time::Actor;
use clump_trace::{Counter, Counters};
use std::sync::Arc;

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
    members: Members,
    pub(crate) layout: Layout,
    shape: TeamShape,
    /// The ranks of this node, and this rank's area, if they have memory in common.
    stage: Option<(Arc<StageGroup>, u32)>,
    pub(crate) state: StateLock,
    /// End of the last barrier in cycles of the clock; 0 before the first.
    pub(crate) last_barrier: AtomicU64,
    /// Signature of the collective that is executed, as a word.
    signature: AtomicU64,
    /// Position of the preferred algorithm, from 1; 0 for none.
    preferred: AtomicU64,
}

/// A team to be made.
struct NewTeam {
    id: u64,
    members: Members,
    /// This rank's place.
    me: usize,
    /// Areas by member; none where not every member has one.
    areas: Option<Vec<u32>>,
    barrier: Option<Barrier>,
}

/// Value of a rank in a split that has no area left.
const NO_AREA: u64 = u64::MAX;

impl Team {
    /// Opens this rank's endpoint for collectives and waits until all ranks have. It must be the
    /// first endpoint that the rank opens, so that its name is known in advance.
    ///
    /// # Errors
    /// Fails if no endpoint can be opened, or if a rank died meanwhile.
    pub fn form(context: &Arc<RankContext>) -> Result<Self> {
        let barrier = Barrier::new(context.node(), context.rank())?;
        let post = Arc::new(Post::open(context, &barrier)?);
        let is_virtual = context.actor().is_some();
        let area = if is_virtual { None } else { post.stages().take() };
        debug_assert!(is_virtual || area == Some(0), "its first area is that of all ranks");
        let members = Members::All(context.node().ranks() as u32);
        let (me, barrier) = (context.rank() as usize, Some(barrier));
        let areas = area.map(|_| vec![0; members.len()]);
        let team = Self::of(context, &post, NewTeam { id: ALL, members, me, areas, barrier });
        team.barrier()?;
        if is_virtual {
            // Its lines take no virtual time; messages do.
            team.state.lock()?.barrier = None;
        }
        Ok(team)
    }

    fn of(context: &Arc<RankContext>, post: &Arc<Post>, new: NewTeam) -> Self {
        let NewTeam { id, members, me, areas, barrier } = new;
        debug_assert_eq!(members.get(me), Some(context.rank()), "this rank is at its place");
        let layout = Layout::of(context.node(), &members, me);
        let has_memory = layout.has_memory() && context.actor().is_none();
        let staged = has_memory && layout.most_local() <= MAX_MEMBERS;
        let stage = areas.filter(|_| staged).map(|areas| {
            let local = layout.local();
            let of_group = (members.of(local.clone()), areas[local.clone()].to_vec());
            let group = StageGroup::new(context.node(), id, of_group, me - local.start);
            (Arc::new(group), areas[me])
        });
        let shape = TeamShape {
            ranks: members.len(),
            nodes: layout.nodes().len(),
            even: layout.even().is_some(),
            staged: stage.is_some(),
            lines: id == ALL && context.actor().is_none(),
        };
        let state = StateLock::new(barrier);
        let (context, post) = (context.clone(), post.clone());
        Self {
            context,
            post,
            id,
            members,
            layout,
            shape,
            stage,
            state,
            last_barrier: AtomicU64::new(0),
            signature: AtomicU64::new(0),
            preferred: AtomicU64::new(0),
        }
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
        let area = color.and_then(|_| self.post.stages().take());
        let given = [is_in, color.unwrap_or(0), key, proposal, area.map_or(NO_AREA, u64::from)];
        let all = self.all_gather(given);
        let team = all.map(|all| self.of_color(color, &all));
        // The new team may have had no use for it.
        if let Some(area) = area
            && !matches!(&team, Ok(Some(team)) if team.stage.is_some())
        {
            self.post.stages().give_back(area);
        }
        team
    }

    /// Makes the team of a color, of what the ranks gave to a split.
    fn of_color(&self, color: Option<u64>, all: &[[u64; 5]]) -> Option<Self> {
        let color = color?;
        let of_color = |(_, given): &(usize, &[u64; 5])| given[0] == 1 && given[1] == color;
        let mut chosen: Vec<(u64, usize)> =
            all.iter().enumerate().filter(of_color).map(|(at, given)| (given[2], at)).collect();
        chosen.sort_unstable();
        let me = chosen.iter().position(|&(_, at)| at == self.rank());
        debug_assert!(me.is_some(), "a rank is in the team of its color");
        let (me, &(_, first)) = (me?, chosen.first()?);
        let ranks = chosen.iter().filter_map(|&(_, at)| self.members.get(at));
        let members = Members::Chosen(ranks.collect());
        let areas = chosen.iter().map(|&(_, at)| u32::try_from(all[at][4]).ok()).collect();
        let new = NewTeam { id: all[first][3], members, me, areas, barrier: None };
        Some(Self::of(&self.context, &self.post, new))
    }

    /// Returns the algorithm of an operation for contributions of so many bytes.
    pub fn algorithm(&self, operation: Operation, bytes: usize) -> Algorithm {
        self.choose(operation, Some(bytes))
    }

    /// Returns all algorithms of an operation for contributions of so many bytes, the one that is
    /// chosen first.
    pub fn algorithms(&self, operation: Operation, bytes: usize) -> Vec<Algorithm> {
        choice::candidates(operation, Some(bytes), &self.shape).to_vec()
    }

    /// Makes the operations of this team use an algorithm, those that have it, or end that. For
    /// measurements and tests. All ranks of the team call it between the same collectives.
    pub fn prefer(&self, algorithm: Option<Algorithm>) {
        let place = |it| Algorithm::ALL.iter().position(|&known| known == it);
        let place = algorithm.and_then(place).map_or(0, |place| place as u64 + 1);
        self.preferred.store(place, Ordering::Relaxed);
    }

    /// Returns the algorithm to use; `bytes`: `None` where ranks need not agree about them.
    pub(crate) fn choose(&self, operation: Operation, bytes: Option<usize>) -> Algorithm {
        let preferred = self.preferred.load(Ordering::Relaxed) as usize;
        if let Some(&preferred) = preferred.checked_sub(1).and_then(|at| Algorithm::ALL.get(at))
            && choice::candidates(operation, bytes, &self.shape).contains(&preferred)
        {
            return preferred;
        }
        choice::choose(operation, bytes, &self.shape)
    }

    /// Returns the ranks of this node, if an operation is to use the memory that they have in
    /// common, and the algorithm.
    pub(crate) fn stage_for(
        &self,
        operation: Operation,
        bytes: Option<usize>,
    ) -> Option<&StageGroup> {
        let staged = self.choose(operation, bytes) == Algorithm::Staged;
        self.stage().filter(|_| staged)
    }

    /// Returns the ranks of this node, if they have memory in common.
    pub(crate) fn stage(&self) -> Option<&StageGroup> {
        self.stage.as_ref().map(|(group, _)| &**group)
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
    pub fn members(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.members.iter()
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
    pub fn member(&self, rank: usize) -> u32 {
        debug_assert!(self.members.len() > 0, "this rank is a member");
        let found = self.members.get(rank % self.members.len().max(1));
        debug_assert!(found.is_some(), "each member is a rank");
        found.unwrap_or_default()
    }

    /// Returns a member that is dead, if one is.
    pub(crate) fn first_dead(&self) -> Option<u32> {
        self.members.first_dead(self.context.node())
    }

    /// Returns the first death of the job, if a member is dead.
    pub(crate) fn first_death(&self) -> Option<clump_shm::job::Death> {
        self.first_dead().and_then(|_| self.context.node().job().first_death())
    }

    /// Begins a collective in two phases, given its number.
    pub(crate) fn begin<R>(
        &self,
        counter: Counter,
        make: impl FnOnce(u64) -> Result<R>,
    ) -> Result<R> {
        self.execute((counter, Signature::ANY), make)
    }

    /// Executes one collective, given its number; `bytes`: of each rank, which must agree about
    /// them, `None` if they need not.
    pub(crate) fn together<R>(
        &self,
        operation: Operation,
        bytes: Option<usize>,
        make: impl FnOnce(u64) -> Result<R>,
    ) -> Result<R> {
        self.execute((operation.counter(), Signature::of(operation, bytes)), make)
    }

    fn execute<R>(
        &self,
        (counter, signature): (Counter, Signature),
        make: impl FnOnce(u64) -> Result<R>,
    ) -> Result<R> {
        let _call = self.context.actor().map(Actor::call);
        let mut state = self.state.lock()?;
        state.next(&self.post, self.id);
        let broken = self.post.mailbox().is_broken(self.id, state.seq);
        if let Some(by) = broken {
            return self.heed(Err(ErrorKind::RankLeft(by).into()), state.seq);
        }
        self.count(counter, 1);
        self.signature.store(signature.word(), Ordering::Relaxed);
        // Also where nothing would have to be waited for.
        let made = self.post.send_unsent().and_then(|()| make(state.seq));
        self.heed(made, state.seq)
    }

    /// Handles the failure of collective `seq`. A rank whose collective fails because a rank left
    /// takes part in no further one of the team, and tells all others: they would wait for its
    /// contributions, and it for theirs. A rank that left after a death mostly did so because of
    /// it.
    pub(crate) fn heed<R>(&self, made: Result<R>, seq: u64) -> Result<R> {
        let Err(error) = &made else { return made };
        match error.kind() {
            ErrorKind::Disagreement(why) => {
                self.tell_disagreement(seq, why);
                return made.map_err(Error::having_taken_part);
            }
            // The others would wait for what this rank cannot give.
            ErrorKind::NoMemory(_) | ErrorKind::TooMuch { .. } => {
                self.tell_disagreement(seq, &self.lack(error));
                return made.map_err(Error::having_taken_part);
            }
            ErrorKind::CollectiveReturned { .. } => self.post.tell_returned(),
            _ => {}
        }
        let ErrorKind::RankLeft(by) = *error.kind() else { return made };
        if let Some(death) = self.context.node().job().first_death() {
            return Err(ErrorKind::RankDied(death).into());
        }
        let broken = Broken { seq, by };
        if self.post.mailbox().give_up(self.id, broken) {
            for rank in self.members.iter().filter(|&rank| rank != self.context.rank()) {
                let _ = self.post.try_tell_broken(rank, self.id, broken);
            }
        }
        made
    }

    /// Returns what the others receive about a rank that cannot execute a collective.
    pub(crate) fn lack(&self, why: &dyn std::fmt::Display) -> String {
        let rank = self.context.rank();
        format!("rank {rank} could not execute the collective that it called: {why}")
    }

    /// Tells all others that ranks do not agree about collective `seq`, if this rank found it: they
    /// may wait for contributions that nobody gives.
    pub(crate) fn tell_disagreement(&self, seq: u64, why: &str) {
        let found = self.post.mailbox().disagreement(self.id, seq).cloned();
        if found.is_some_and(|found| found.was_told) {
            return;
        }
        for rank in self.members.iter().filter(|&rank| rank != self.context.rank()) {
            // One that died or left waits for nothing.
            let _ = self.post.tell_disagreement(rank, (self.id, seq), why);
        }
    }

    /// Returns true if all ranks of the team are of one node, or count so.
    pub(crate) fn is_one_node(&self) -> bool {
        !self.layout.is_spread()
    }

    /// Checks that rank `from` gave as many bytes as are expected.
    pub(crate) fn check_given(&self, from: u32, given: usize, expected: usize) -> Result<()> {
        let seq = self.state.lock()?.seq;
        let (given, expected) = (given as u64, expected as u64);
        match given == expected {
            true => Ok(()),
            false => Err(failed(PartMismatch::Length { from, seq, given, expected })),
        }
    }

    /// Sends one contribution to a rank of the team, in fragments that fit medium messages.
    pub(crate) fn send(&self, to: usize, (seq, step): (u64, u64), bytes: &[u8]) -> Result<()> {
        self.send_to(self.member(to), (seq, step), (self.signature(), bytes))
    }

    /// Returns the signature of the collective that is executed.
    pub(crate) fn signature(&self) -> Signature {
        Signature::from_word(self.signature.load(Ordering::Relaxed))
    }

    /// Sends one contribution to a rank of the job; an empty one is a message, too.
    pub(crate) fn send_to(
        &self,
        to: u32,
        (seq, step): (u64, u64),
        (signature, bytes): (Signature, &[u8]),
    ) -> Result<()> {
        let dest = self.post.dest(to)?;
        let (most, total) = (self.post.endpoint.max_medium(), bytes.len() as u64);
        let mut offset = 0;
        loop {
            let rest = &bytes[offset as usize..];
            let fragment = rest.get(..most).unwrap_or(rest);
            let words = &[self.id, seq, step, offset, total, signature.word()];
            self.post.endpoint.request_bulk(dest, PART, fragment, words)?;
            offset += fragment.len() as u64;
            if offset == total {
                break;
            }
        }
        debug_assert_eq!(offset, total, "all of it was sent");
        Ok(())
    }

    /// Waits for one contribution of `bytes` bytes of a rank of the team.
    pub(crate) fn receive(&self, from: usize, key: (u64, u64), bytes: usize) -> Result<Vec<u8>> {
        Ok(self.await_part(from, key, Some(bytes))?.into_vec())
    }

    /// Waits for one contribution of a rank of the team, of as many bytes as there is room for.
    pub(crate) fn receive_into(
        &self,
        from: usize,
        key: (u64, u64),
        bytes: &mut [u8],
    ) -> Result<()> {
        let pieces = self.await_part(from, key, Some(bytes.len()))?;
        pieces.copy_to(bytes);
        self.post.mailbox().give_back(pieces);
        Ok(())
    }

    /// Waits for one contribution of a rank of the team, of as many values, and makes each value
    /// what `combine` gives of it and of the rank's.
    pub(crate) fn receive_in<T: Number>(
        &self,
        from: usize,
        key: (u64, u64),
        values: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<()> {
        let pieces = self.await_part(from, key, Some(size_of_val(values)))?;
        if !pieces.are_whole(size_of::<T>()) {
            // Medium messages have room for whole values of any type.
            let (from, seq) = (self.member(from), key.0);
            return Err(failed(PartMismatch::Pieces { from, seq }));
        }
        let mut rest = values;
        for piece in pieces.iter() {
            let (here, behind) = rest.split_at_mut(piece.len() / size_of::<T>());
            copy_in(here, piece, &combine);
            rest = behind;
        }
        self.post.mailbox().give_back(pieces);
        Ok(())
    }

    /// Waits for one contribution of a rank of the team, of as many bytes as that rank gives.
    pub(crate) fn receive_any(&self, from: usize, key: (u64, u64)) -> Result<Vec<u8>> {
        Ok(self.await_part(from, key, None)?.into_vec())
    }

    fn await_part(&self, from: usize, key: (u64, u64), bytes: Option<usize>) -> Result<Pieces> {
        let (seq, step) = key;
        let part = PartId { team: self.id, seq, from: self.member(from), step };
        self.post.mailbox().begin(self.id, seq, self.signature());
        let (post, members, node) = (&*self.post, &self.members, self.context.node());
        let call = self.signature().operation();
        let mut wait = AwaitedPart { post, members, node, part, call, bytes, got: None };
        self.post.endpoint.block_on(&mut wait)?;
        debug_assert!(wait.got.is_some(), "the wait is over");
        let gone = || PartMismatch::Pieces { from: part.from, seq };
        wait.got.ok_or_else(|| failed(gone()))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.post.forget_schedules(self.id);
        if let Some((group, area)) = self.stage.take() {
            self.post.stages().retire(area, group, last_of(self.state.last_seq()));
        }
        self.post.mailbox().close(self.id);
    }
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
