//! Requests whose answer has to wait for somebody: locks, and words that are to become something.

use super::{Engine, Outlet};
use crate::atomic::Comparison;
use crate::error::Why;
use crate::lock::{FLAG_BYTES, WATCHERS};
use crate::memory::Memory;
use crate::protocol::tell;
use clump_os::sync::Ordering;
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::queue_lock::{Claim, Head, QueueLock, lock_words};

/// Waits that an endpoint may have at one time: it is one thread, which waits for one thing.
const MOST_WAITS: usize = 64;

/// What is waited for.
#[derive(Debug, Clone, Copy)]
enum For {
    /// A lock: the position that was claimed, once there was room for a claim.
    Lock(Option<u64>),
    /// A word that compares so to a value.
    Word(Comparison, u64),
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    account: usize,
    from: Name,
    cookie: u64,
    segment: SegmentName,
    offset: u64,
    what: For,
}

/// What has become of it.
enum Turn {
    NotYet,
    Value(u64),
    Granted(u64, u64),
    Refused(Why),
}

impl<M: Memory> Engine<M> {
    /// `segment offset cookie tries`: takes a lock, or waits for it unless it only tries.
    pub(super) fn lock(
        &mut self,
        at: usize,
        (segment, offset, cookie): (SegmentName, u64, u64),
        tries: bool,
        out: &mut impl Outlet,
    ) -> Result<(), Why> {
        let from = self.accounts[at].name;
        if tries {
            // Claims of ranks that died waiting do not count.
            self.pass_on(segment, offset);
        }
        let lock = queue_lock(&mut self.memory, self.ranks, segment, offset)?;
        let claim = if tries { lock.claim_free(from.rank()) } else { lock.claim(from.rank()) };
        let position = match claim {
            Claim::None if tries => return Err(self.why_taken(segment, offset)),
            Claim::None => None,
            Claim::At(position) => Some(position),
        };
        let what = For::Lock(position);
        self.wait(Wait { account: at, from, cookie, segment, offset, what }, out)
    }

    /// `segment offset cookie position word`: gives a lock back.
    pub(super) fn unlock(
        &mut self,
        at: usize,
        (segment, offset): (SegmentName, u64),
        (position, word): (u64, u64),
    ) -> Result<(), Why> {
        let rank = self.accounts[at].name.rank();
        let lock = queue_lock(&mut self.memory, self.ranks, segment, offset)?;
        if !lock.leave(position, rank, word) {
            return Err(Why::NotHeld);
        }
        self.pass_on(segment, offset);
        Ok(())
    }

    /// Looks who is at the head of a lock that has moved on, and wakes whoever that is. Those of other nodes
    /// are told by [`Engine::handle_waits`].
    fn pass_on(&mut self, segment: SegmentName, offset: u64) {
        let Self { memory, ranks, .. } = self;
        let dead = memory.dead();
        let Ok(lock) = queue_lock(memory, *ranks, segment, offset) else { return };
        if let Head::Offered(rank) = lock.settle(|rank| dead.contains(&rank)) {
            self.memory.wake(rank);
        }
    }

    /// `segment offset cookie comparison value`: waits for a flag.
    pub(super) fn watch(
        &mut self,
        at: usize,
        (segment, offset, cookie): (SegmentName, u64, u64),
        (comparison, value): (u64, u64),
        out: &mut impl Outlet,
    ) -> Result<(), Why> {
        let comparison = Comparison::from_bits(comparison).ok_or(Why::Unknown)?;
        let cells = self.memory.segment(segment, offset, FLAG_BYTES)?;
        let watchers = cells.word(offset.saturating_add(WATCHERS)).ok_or(Why::Misaligned)?;
        // SYNC 14: pairs with change
        watchers.fetch_add(1, Ordering::SeqCst);
        let from = self.accounts[at].name;
        let what = For::Word(comparison, value);
        let wait = Wait { account: at, from, cookie, segment, offset, what };
        self.wait(wait, out).inspect_err(|_| self.unwatch(segment, offset))
    }

    fn unwatch(&mut self, segment: SegmentName, offset: u64) {
        if let Ok(cells) = self.memory.segment(segment, offset, FLAG_BYTES)
            && let Some(watchers) = cells.word(offset.saturating_add(WATCHERS))
        {
            watchers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn wait(&mut self, wait: Wait, out: &mut impl Outlet) -> Result<(), Why> {
        let mut wait = wait;
        if self.answer_wait(&mut wait, out) {
            return Ok(());
        }
        if self.waits.iter().filter(|other| other.from == wait.from).count() >= MOST_WAITS {
            self.abandon(&wait);
            return Err(Why::LockBusy);
        }
        self.waits.push(wait);
        Ok(())
    }

    /// Something may have changed: answers whoever has waited for it.
    pub fn handle_waits(&mut self, out: &mut impl Outlet) {
        let mut at = 0;
        while let Some(&wait) = self.waits.get(at) {
            let mut wait = wait;
            if self.answer_wait(&mut wait, out) {
                self.waits.remove(at);
            } else {
                self.waits[at] = wait;
                at += 1;
            }
        }
    }

    /// Whether anybody waits.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Why a lock that is not free cannot be had now, or never.
    fn why_taken(&mut self, segment: SegmentName, offset: u64) -> Why {
        let dead = self.memory.dead();
        match queue_lock(&mut self.memory, self.ranks, segment, offset) {
            Ok(lock) => match lock.settle(|_| false) {
                Head::Held(holder) if dead.contains(&holder) => Why::HolderDied,
                _ => Why::LockBusy,
            },
            Err(why) => why,
        }
    }

    /// Answers if it is time to.
    fn answer_wait(&mut self, wait: &mut Wait, out: &mut impl Outlet) -> bool {
        let turn = self.turn(wait).unwrap_or_else(Turn::Refused);
        let account = &mut self.accounts[wait.account];
        let cookie = wait.cookie;
        match turn {
            Turn::NotYet => return false,
            Turn::Value(value) => account.tell(out, tell::VALUE, &[cookie, value], &[]),
            Turn::Granted(position, word) => {
                account.tell(out, tell::GRANTED, &[cookie, position, word], &[]);
            }
            Turn::Refused(why) => {
                let words = [cookie, why as u64, wait.segment.to_bits(), wait.offset];
                account.tell(out, tell::FAILED, &words, &[]);
                self.stuck |= account.is_stuck();
                self.abandon(wait);
                return true;
            }
        }
        self.stuck |= account.is_stuck();
        if matches!(wait.what, For::Word(..)) {
            self.unwatch(wait.segment, wait.offset);
        }
        true
    }

    fn turn(&mut self, wait: &mut Wait) -> Result<Turn, Why> {
        let Wait { from, segment, offset, .. } = *wait;
        if let For::Word(comparison, value) = wait.what {
            let cells = self.memory.segment(segment, offset, FLAG_BYTES)?;
            let word = cells.word(offset).ok_or(Why::Misaligned)?.load(Ordering::SeqCst);
            return Ok(if comparison.holds(word, value) {
                Turn::Value(word)
            } else {
                Turn::NotYet
            });
        }
        let lock = queue_lock(&mut self.memory, self.ranks, segment, offset)?;
        if let For::Lock(place @ None) = &mut wait.what
            && let Claim::At(position) = lock.claim(from.rank())
        {
            *place = Some(position);
        }
        if let For::Lock(Some(position)) = wait.what {
            if let Some(word) = lock.enter(position, from.rank()) {
                return Ok(Turn::Granted(position, word));
            }
            // Claims before it may have been given up, or be of ranks that died.
            self.pass_on(segment, offset);
        }
        let lock = queue_lock(&mut self.memory, self.ranks, segment, offset)?;
        match lock.settle(|_| false) {
            Head::Held(rank) if self.memory.dead().contains(&rank) => Err(Why::HolderDied),
            _ => Ok(Turn::NotYet),
        }
    }

    /// Gives up whatever a wait has claimed.
    fn abandon(&mut self, wait: &Wait) {
        match wait.what {
            For::Word(..) => self.unwatch(wait.segment, wait.offset),
            For::Lock(None) => {}
            For::Lock(Some(position)) => {
                let rank = wait.from.rank();
                let lock = queue_lock(&mut self.memory, self.ranks, wait.segment, wait.offset);
                if lock.is_ok_and(|lock| lock.give_up(position, rank)) {
                    self.pass_on(wait.segment, wait.offset);
                }
            }
        }
    }

    /// `cookie`: that wait has lasted too long.
    pub(super) fn cancel(&mut self, at: usize, cookie: u64, out: &mut impl Outlet) {
        let is_it = |wait: &Wait| (wait.account, wait.cookie) == (at, cookie);
        let Some(place) = self.waits.iter().position(is_it) else { return };
        let wait = self.waits.remove(place);
        self.abandon(&wait);
        let words = [cookie, Why::TimedOut as u64, wait.segment.to_bits(), wait.offset];
        self.accounts[at].tell(out, tell::FAILED, &words, &[]);
    }

    /// Gives up what a rank has waited for, or an endpoint of it that was opened anew.
    pub(super) fn abandon_all(&mut self, gone: impl Fn(Name) -> bool) {
        let (gone, rest) = std::mem::take(&mut self.waits).into_iter().partition(|w| gone(w.from));
        self.waits = rest;
        let gone: Vec<Wait> = gone;
        for wait in &gone {
            self.abandon(wait);
        }
    }
}

/// The lock at a place of a segment.
fn queue_lock<M: Memory>(
    memory: &mut M,
    ranks: u32,
    segment: SegmentName,
    offset: u64,
) -> Result<QueueLock<'_>, Why> {
    let count = lock_words(ranks as usize);
    let cells = memory.segment(segment, offset, count as u64 * 8)?;
    cells.words(offset, count).and_then(QueueLock::over).ok_or(Why::Misaligned)
}
