//! One collective on a stage: contributions that are made known, awaited and read.

use super::area::{Awaited, CHUNK, CellHeader, Front, INLINE};
use super::group::StageGroup;
use super::numbering::{before_phase, last_of, number_of, slot_of};
use crate::Team;
use crate::mailbox::{PartMismatch, failed};
use crate::signature::Signature;
use clump_am::{ErrorKind, Result, WaitFor};
use clump_shm::rank::WaitReason;

/// A collective on a stage. Its contributions are numbered: collective, phase, chunk. When it ends,
/// however it does, this rank reads nothing more of it.
pub(crate) struct StagedCall<'a> {
    team: &'a Team,
    group: &'a StageGroup,
    front: &'a Front,
    signature: Signature,
    seq: u64,
    phase: u64,
    posted: u64,
}

/// A contribution of a member.
pub(crate) struct Chunk<'a> {
    call: &'a StagedCall<'a>,
    member: usize,
    slot: usize,
    header: CellHeader,
}

/// The place that a contribution is written into.
pub(crate) struct Sink<'a> {
    call: &'a StagedCall<'a>,
    slot: usize,
    len: usize,
}

impl<'a> StagedCall<'a> {
    /// Begins collective `seq`.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub(crate) fn new(team: &'a Team, group: &'a StageGroup, seq: u64) -> Result<Self> {
        let front = group.front()?;
        Ok(Self { team, group, front, signature: team.signature(), seq, phase: 0, posted: 0 })
    }

    /// Returns the number of members.
    pub(crate) fn len(&self) -> usize {
        self.group.len()
    }

    /// Returns the place of this rank.
    pub(crate) fn me(&self) -> usize {
        self.group.me()
    }

    /// Returns the other members, the next one first, so that not all read from the same one.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, n) = (self.me(), self.len());
        (1..n).map(move |distance| (me + distance) % n)
    }

    /// Begins the next phase: chunks are counted anew, and those of the last have been read.
    pub(crate) fn next_phase(&mut self) {
        self.phase += 1;
        self.posted = 0;
        self.set_taken(before_phase(self.seq, self.phase));
    }

    /// Announces that this rank reads nothing of this phase: others need not wait for it.
    pub(crate) fn read_nothing(&self) {
        self.set_taken(before_phase(self.seq, self.phase + 1));
    }

    fn number(&self, chunk: u64) -> u64 {
        number_of(self.seq, self.phase, chunk)
    }

    fn set_taken(&self, number: u64) {
        self.front.set_taken(self.me(), number);
        self.group.wake(self.front);
    }

    /// Makes the next contribution known: `len` bytes, which `fill` writes, of `total` in all.
    ///
    /// # Errors
    /// A rank died or left that had to read an earlier one; the memory cannot be mapped.
    pub(crate) fn publish(
        &mut self,
        (len, total): (usize, usize),
        fill: impl FnOnce(&mut Sink<'_>) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(len <= CHUNK, "a chunk holds it");
        let number = self.number(self.posted);
        let slot = slot_of(number);
        let before = self.group.written(slot);
        debug_assert!(before < number, "numbers grow");
        if self.group.lacks(before)? != 0 {
            self.wait(Awaited::Taken(before), self.group.all_others())?;
        }
        self.group.set_written(slot, number);
        fill(&mut Sink { call: self, slot, len })?;
        let (operation, total) = (self.signature.operation(), total as u64);
        let header = CellHeader { operation, total, len, long: len > INLINE };
        self.front.publish(self.me(), number, header);
        self.group.wake(self.front);
        self.posted += 1;
        Ok(())
    }

    /// Makes bytes known, as one contribution.
    pub(crate) fn publish_bytes(&mut self, bytes: &[u8], total: usize) -> Result<()> {
        self.publish((bytes.len(), total), |sink| sink.put(0, bytes))
    }

    /// Waits for the contributions `chunk` of this phase of some members, a bit for each; of
    /// several at once: it sleeps once, until all are there.
    ///
    /// # Errors
    /// A rank died or left.
    pub(crate) fn await_all(&self, chunk: u64, members: u64) -> Result<()> {
        let awaited = Awaited::Posted(self.number(chunk));
        if self.group.missing(self.front, awaited, members) == 0 {
            return Ok(());
        }
        self.wait(awaited, members)
    }

    /// Returns the bits of all other members.
    pub(crate) fn all_others(&self) -> u64 {
        self.group.all_others()
    }

    /// Waits for a member's contribution of this phase.
    ///
    /// # Errors
    /// A rank died or left.
    pub(crate) fn await_chunk(&self, member: usize, chunk: u64) -> Result<Chunk<'_>> {
        let number = self.number(chunk);
        let header = match self.front.header(member, number) {
            Some(header) => header,
            None => {
                self.wait(Awaited::Posted(number), 1 << member)?;
                let there = self.front.header(member, number);
                there.ok_or_else(|| self.misfit(member))?
            }
        };
        if header.operation != self.signature.operation() {
            return Err(self.unlike(member, header.operation));
        }
        if header.len > if header.long { CHUNK } else { INLINE } {
            return Err(self.misfit(member));
        }
        // A member that is here has ended all collectives before.
        self.group.note_taken(member, last_of(self.seq - 1));
        Ok(Chunk { call: self, member, slot: slot_of(number), header })
    }

    /// Announces that this rank has read the contributions of all members up to `chunk` of this
    /// phase.
    pub(crate) fn took(&self, chunk: u64) {
        self.set_taken(self.number(chunk));
    }

    /// Returns the error of a member that executes another operation.
    fn unlike(&self, member: usize, operation: u8) -> clump_am::Error {
        let (from, seq) = (self.group.rank(member), self.seq);
        let [theirs, mine] = [operation, self.signature.operation()].map(Signature::of_operation);
        failed(PartMismatch::Signature { from, seq, theirs, mine })
    }

    fn misfit(&self, member: usize) -> clump_am::Error {
        failed(PartMismatch::Pieces { from: self.group.rank(member), seq: self.seq })
    }

    /// Returns the error of a member that gave another number of bytes.
    pub(crate) fn check_total(&self, member: usize, given: u64, expected: usize) -> Result<()> {
        let (from, seq, expected) = (self.group.rank(member), self.seq, expected as u64);
        match given == expected {
            true => Ok(()),
            false => Err(failed(PartMismatch::Length { from, seq, given, expected })),
        }
    }

    fn wait(&self, awaited: Awaited, of: u64) -> Result<()> {
        self.team.post().endpoint.block_on(&mut StageWait { call: self, awaited, of })
    }
}

impl Drop for StagedCall<'_> {
    fn drop(&mut self) {
        self.set_taken(last_of(self.seq));
    }
}

impl Chunk<'_> {
    /// Returns the bytes of the whole.
    pub(crate) fn total(&self) -> u64 {
        self.header.total
    }

    /// Copies bytes from `offset` on.
    ///
    /// # Errors
    /// It has not as many.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let (call, cell) = (self.call, (self.member, self.slot));
        let inside = offset.checked_add(to.len()).is_some_and(|end| end <= self.header.len);
        let read = inside
            && match self.header.long {
                false => call.front.read(cell, offset, to),
                true => {
                    let (segment, at) = call.group.long(self.member, self.slot)?;
                    let bytes = segment.bytes(at + offset as u64, to.len() as u64);
                    bytes.is_some_and(|bytes| bytes.copy_to(to) == to.len())
                }
            };
        if read { Ok(()) } else { Err(call.misfit(self.member)) }
    }
}

impl Sink<'_> {
    /// Writes bytes at `offset`.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        debug_assert!(offset + bytes.len() <= self.len, "no more than was said");
        let (call, me) = (self.call, self.call.me());
        if self.len <= INLINE {
            call.front.write((me, self.slot), offset, bytes);
            return Ok(());
        }
        let (segment, at) = call.group.long(me, self.slot)?;
        match segment.write(at + offset as u64, bytes) {
            true => Ok(()),
            false => Err(ErrorKind::Overwritten.into()),
        }
    }
}

/// Wait of a rank for an event of some members, a bit for each.
struct StageWait<'a> {
    call: &'a StagedCall<'a>,
    awaited: Awaited,
    of: u64,
}

impl StageWait<'_> {
    /// Returns the members that are missing.
    fn missing(&self) -> u64 {
        self.call.group.missing(self.call.front, self.awaited, self.of)
    }

    /// Returns the first of them.
    fn first_missing(&self) -> Option<u32> {
        let missing = self.missing();
        (missing != 0).then(|| self.call.group.rank(missing.trailing_zeros() as usize))
    }
}

impl WaitFor for StageWait<'_> {
    fn done(&mut self) -> Result<bool> {
        let team = self.call.team;
        team.post().send_unsent()?;
        if self.missing() == 0 {
            return Ok(true);
        }
        let mut mailbox = team.post().mailbox();
        mailbox.begin(team.id(), self.call.seq, self.call.signature);
        if let Some(by) = mailbox.is_broken(team.id(), self.call.seq) {
            return Err(ErrorKind::RankLeft(by).into());
        }
        match mailbox.disagreement(team.id(), self.call.seq) {
            Some(found) => Err(ErrorKind::Disagreement(found.why.clone()).into()),
            None => Ok(false),
        }
    }

    fn waiting(&self) -> WaitReason {
        let call = self.call;
        let peer = self.first_missing().unwrap_or_else(|| call.group.rank(call.me()));
        let (team, operation) = (call.team.id(), call.signature.operation());
        WaitReason::Collective { team, seq: call.seq, peer, call: operation }
    }

    fn depends_on(&self) -> Option<u32> {
        // The death of any member keeps the collective from ending.
        self.call.team.first_dead().or_else(|| self.first_missing())
    }

    fn before_sleep(&mut self) {
        let StagedCall { front, .. } = *self.call;
        front.set_awaited(self.call.me(), self.awaited, self.missing());
        front.count_asleep(true);
    }

    fn after_sleep(&mut self) {
        let StagedCall { front, .. } = *self.call;
        front.count_asleep(false);
        front.clear_awaited(self.call.me());
    }

    /// Other ranks wait for this one.
    fn keeps_failures(&self) -> bool {
        true
    }
}
