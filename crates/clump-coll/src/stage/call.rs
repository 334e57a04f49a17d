//! One collective on a stage: contributions that are made known, awaited and read.

use super::area::{CHUNK, CellHeader, Front, INLINE, SLOTS};
use super::group::StageGroup;
use super::pool::{SEQ_SHIFT, last_of};
use crate::Team;
use crate::mailbox::PartMismatch;
use crate::team::failed;
use clump_am::{ErrorKind, Result, WaitFor};
use clump_shm::rank::WaitReason;

/// Bits below its phase.
const PHASE_SHIFT: u32 = 22;

/// A collective on a stage. Its contributions are numbered: collective, phase, chunk. When it ends,
/// however it does, this rank reads nothing more of it.
pub(crate) struct StagedCall<'a> {
    team: &'a Team,
    group: &'a StageGroup,
    front: &'a Front,
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
        debug_assert!(seq < 1 << (64 - SEQ_SHIFT), "more collectives than are counted");
        let front = group.front()?;
        Ok(Self { team, group, front, seq, phase: 0, posted: 0 })
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
        debug_assert!(self.phase < 1 << (SEQ_SHIFT - PHASE_SHIFT), "few phases");
        self.posted = 0;
        self.set_taken((self.seq << SEQ_SHIFT | self.phase << PHASE_SHIFT) - 1);
    }

    /// Announces that this rank reads nothing of this phase: others need not wait for it.
    pub(crate) fn read_nothing(&self) {
        self.set_taken((self.seq << SEQ_SHIFT | (self.phase + 1) << PHASE_SHIFT) - 1);
    }

    fn number(&self, chunk: u64) -> u64 {
        debug_assert!(chunk + 1 < 1 << PHASE_SHIFT, "few chunks");
        self.seq << SEQ_SHIFT | self.phase << PHASE_SHIFT | (chunk + 1)
    }

    fn slot(&self, chunk: u64) -> usize {
        ((self.seq + self.phase + chunk) % SLOTS as u64) as usize
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
        let (number, slot) = (self.number(self.posted), self.slot(self.posted));
        let before = self.group.written(slot);
        debug_assert!(before < number, "numbers grow");
        if self.group.lacks(before)?.is_some() {
            self.wait(Awaited::Read(before))?;
        }
        self.group.set_written(slot, number);
        fill(&mut Sink { call: self, slot, len })?;
        let header = CellHeader { total: total as u64, len, long: len > INLINE };
        self.front.publish((self.me(), slot), number, header);
        self.group.wake(self.front);
        self.posted += 1;
        Ok(())
    }

    /// Makes bytes known, as one contribution.
    pub(crate) fn publish_bytes(&mut self, bytes: &[u8], total: usize) -> Result<()> {
        self.publish((bytes.len(), total), |sink| sink.put(0, bytes))
    }

    /// Waits for a member's contribution of this phase.
    ///
    /// # Errors
    /// A rank died or left.
    pub(crate) fn await_chunk(&self, member: usize, chunk: u64) -> Result<Chunk<'_>> {
        let (number, slot) = (self.number(chunk), self.slot(chunk));
        let there = self.front.header((member, slot), number);
        let header = match there {
            Some(header) => header,
            None => {
                self.wait(Awaited::Posted { member, slot, number })?;
                let there = self.front.header((member, slot), number);
                there.ok_or_else(|| self.misfit(member))?
            }
        };
        if header.len > if header.long { CHUNK } else { INLINE } {
            return Err(self.misfit(member));
        }
        // A member that is here has ended all collectives before.
        self.group.note_taken(member, (self.seq << SEQ_SHIFT) - 1);
        Ok(Chunk { call: self, member, slot, header })
    }

    /// Announces that this rank has read the contributions of all members up to `chunk` of this
    /// phase.
    pub(crate) fn took(&self, chunk: u64) {
        self.set_taken(self.number(chunk));
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

    fn wait(&self, what: Awaited) -> Result<()> {
        self.team.post().endpoint.block_on(&mut StageWait { call: self, what })
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

/// An event that a rank waits for.
#[derive(Debug, Clone, Copy)]
enum Awaited {
    /// A contribution of a member.
    Posted { member: usize, slot: usize, number: u64 },
    /// All members to have read everything up to a contribution.
    Read(u64),
}

struct StageWait<'a> {
    call: &'a StagedCall<'a>,
    what: Awaited,
}

impl StageWait<'_> {
    /// Returns a member that is missing.
    fn missing(&self) -> Result<Option<usize>> {
        let StagedCall { front, group, .. } = *self.call;
        match self.what {
            Awaited::Posted { member, slot, number } => {
                Ok(front.header((member, slot), number).is_none().then_some(member))
            }
            Awaited::Read(number) => group.lacks(number),
        }
    }
}

impl WaitFor for StageWait<'_> {
    fn done(&mut self) -> Result<bool> {
        let team = self.call.team;
        team.post().send_unsent()?;
        if self.missing()?.is_none() {
            return Ok(true);
        }
        match team.post().mailbox().is_broken(team.id(), self.call.seq) {
            Some(by) => Err(ErrorKind::RankLeft(by).into()),
            None => Ok(false),
        }
    }

    fn waiting(&self) -> WaitReason {
        let member = self.missing().ok().flatten().unwrap_or(self.call.me());
        WaitReason::Collective { seq: self.call.seq, peer: self.call.group.rank(member) }
    }

    fn depends_on(&self) -> Option<u32> {
        // The death of any member keeps the collective from ending.
        let missing = || self.missing().ok().flatten().map(|member| self.call.group.rank(member));
        self.call.team.first_dead().or_else(missing)
    }

    fn before_sleep(&mut self) {
        self.call.front.count_asleep(true);
    }

    fn after_sleep(&mut self) {
        self.call.front.count_asleep(false);
    }
}
