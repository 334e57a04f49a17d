//! Requests whose answer has to wait for another rank: locks, and words that are to reach a value.

use super::places::Place;
use super::{Engine, Outlet};
use crate::atomic::Comparison;
use crate::error::Why;
use crate::lock::{FLAG_BYTES, WATCHERS};
use crate::memory::Memory;
use crate::protocol::{how, tell};
use clump_os::sync::Ordering;
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::queue_lock::{Claim, Head, QueueLock, lock_words};

/// Maximum number of waits of an endpoint at one time: it is one thread, which waits for one thing.
const MOST_WAITS: usize = 64;

/// Condition that a request waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum For {
    /// A lock: the claimed position, once there was room for a claim; `stays`: the wait has no time
    /// limit.
    Lock { position: Option<u64>, stays: bool },
    /// A word that compares in this way to a value.
    Word(Comparison, u64),
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) account: usize,
    pub(super) from: Name,
    pub(super) cookie: u64,
    pub(super) segment: SegmentName,
    pub(super) offset: u64,
    pub(super) what: For,
    /// True if the claim before it has been told, where that is needed.
    lined_up: bool,
}

/// State of a wait.
enum Turn {
    NotYet,
    Value(u64),
    Granted(u64, u64),
    Refused(Why),
}

impl<M: Memory> Engine<M> {
    /// Executes `segment offset cookie how`: takes a lock, or waits for it unless it only tries.
    pub(super) fn lock(
        &mut self,
        at: usize,
        (segment, offset, cookie): (SegmentName, u64, u64),
        how: u64,
        out: &mut impl Outlet,
    ) -> Result<(), Why> {
        let tries = match how {
            how::WAITS | how::STAYS => false,
            how::TRIES => true,
            _ => return Err(Why::Unknown),
        };
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
        let what = For::Lock { position, stays: how == how::STAYS };
        self.wait(Wait { account: at, from, cookie, segment, offset, what, lined_up: false }, out)
    }

    /// Executes `segment offset cookie comparison value`: waits for a flag.
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
        let wait = Wait { account: at, from, cookie, segment, offset, what, lined_up: true };
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
        self.line_up_once(&mut wait, out);
        self.waits.push(wait);
        Ok(())
    }

    /// Records a waiting claim in the queue, once it has a position.
    fn line_up_once(&mut self, wait: &mut Wait, out: &mut impl Outlet) {
        if !wait.lined_up && matches!(wait.what, For::Lock { position: Some(_), .. }) {
            wait.lined_up = true;
            self.line_up(wait, out);
        }
    }

    /// Answers all requests whose wait has ended. Called when something may have changed.
    pub fn handle_waits(&mut self, out: &mut impl Outlet) {
        self.tell_orphans(out);
        self.release_moved(out);
        let mut at = 0;
        while let Some(&wait) = self.waits.get(at) {
            let mut wait = wait;
            if self.answer_wait(&mut wait, out) {
                self.waits.remove(at);
            } else {
                self.line_up_once(&mut wait, out);
                self.waits[at] = wait;
                at += 1;
            }
        }
    }

    /// Returns true if requests wait, or messages are due.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty() || self.orphans || !self.moved.is_empty()
    }

    /// Returns the reason why a lock that is not free cannot be had now, or never.
    pub(super) fn why_taken(&mut self, segment: SegmentName, offset: u64) -> Why {
        let dead = self.memory.dead();
        match queue_lock(&mut self.memory, self.ranks, segment, offset) {
            Ok(lock) => match lock.settle(|_| false) {
                Head::Held(holder) if dead.contains(&holder) => Why::HolderDied,
                _ => Why::LockBusy,
            },
            Err(why) => why,
        }
    }

    /// Answers a wait if its condition holds. Returns true if the wait has ended.
    fn answer_wait(&mut self, wait: &mut Wait, out: &mut impl Outlet) -> bool {
        let turn = self.turn(wait).unwrap_or_else(Turn::Refused);
        let account = &mut self.accounts[wait.account];
        let cookie = wait.cookie;
        match turn {
            Turn::NotYet => return false,
            Turn::Value(value) => account.tell(out, tell::VALUE, &[cookie, value], &[]),
            Turn::Granted(position, word) => {
                account.tell(out, tell::GRANTED, &[cookie, position, word], &[]);
                self.stuck |= account.is_stuck();
                self.note_grant(wait);
                return true;
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
        if let For::Lock { position: place @ None, .. } = &mut wait.what
            && let Claim::At(position) = lock.claim(from.rank())
        {
            *place = Some(position);
        }
        if let For::Lock { position: Some(position), .. } = wait.what {
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

    /// Gives up the claim or watch of a wait.
    fn abandon(&mut self, wait: &Wait) {
        match wait.what {
            For::Word(..) => self.unwatch(wait.segment, wait.offset),
            For::Lock { .. } => self.leave_line(wait),
        }
    }

    /// Executes `cookie`: ends a wait that has lasted too long. A wait whose claim is promised,
    /// which only an unlimited one's can be, cannot be ended.
    pub(super) fn cancel(&mut self, at: usize, cookie: u64, out: &mut impl Outlet) {
        let is_it = |wait: &Wait| (wait.account, wait.cookie) == (at, cookie);
        let Some(place) = self.waits.iter().position(is_it) else { return };
        if self.waits.get(place).is_none_or(|wait| self.is_promised(wait)) {
            return;
        }
        let wait = self.waits.remove(place);
        self.abandon(&wait);
        let words = [cookie, Why::TimedOut as u64, wait.segment.to_bits(), wait.offset];
        self.accounts[at].tell(out, tell::FAILED, &words, &[]);
    }

    /// Gives up the waits of a rank, or of an endpoint of it that was opened anew.
    pub(super) fn abandon_all(&mut self, gone: impl Fn(Name) -> bool) {
        let is_gone = |place: &Place| gone(place.from);
        let (waits, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waits).into_iter().partition(|wait| gone(wait.from));
        self.waits = rest;
        for wait in &waits {
            // The claim of a promised wait stays: `leave_all` decides.
            if !self.is_promised(wait) {
                self.abandon(wait);
            }
        }
        self.leave_all(is_gone);
    }
}

/// Returns the lock at a place of a segment.
pub(super) fn queue_lock<M: Memory>(
    memory: &mut M,
    ranks: u32,
    segment: SegmentName,
    offset: u64,
) -> Result<QueueLock<'_>, Why> {
    let count = lock_words(ranks as usize);
    let cells = memory.segment(segment, offset, count as u64 * 8)?;
    cells.words(offset, count).and_then(QueueLock::over).ok_or(Why::Misaligned)
}
