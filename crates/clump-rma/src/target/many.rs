//! Many operations on a segment in one request: batches, gathers, applies, and waits for a word of
//! another node. They are executed by services of the node's interface, or here if it is near.

use super::Target;
use crate::error::{Refusal, Result, refused};
use crate::lock::Granted;
use crate::request_payload::RequestPayload;
use clump_onesided::batch::{self, HALVES, may_be_batched, read_many};
use clump_onesided::protocol::{MAX_PIECE, code};
use clump_onesided::runs::{self, MAX_RANGES};
use clump_onesided::{AdvanceWord, AnswerSink, AtomicOp, Comparison, Range, Update};
use clump_os::clock;
use clump_shm::cells::Cells;
use clump_shm::rank::WaitReason;
use std::ptr::NonNull;
use std::time::Duration;
use zerocopy::IntoBytes;

// Words of requests and answers are copied as they are.
const _: () = assert!(cfg!(target_endian = "little"));

impl Target {
    /// Most words that one answer holds.
    pub(crate) const WORDS_AT_ONCE: usize = MAX_PIECE / 8;

    /// Executes one operation without a result on many words, each by its index from `offset` on.
    /// Batches of up to [`Update::MOST`] go to another node as one request, which changes all words
    /// or none; larger ones as several, in any order. Does not wait until that has happened.
    ///
    /// # Errors
    /// Fails for operations that are made for their results. On this node it fails if it is
    /// refused; on another, [`crate::Rma::quiet`] reports a refusal.
    pub fn update_many(&self, offset: u64, op: AtomicOp, updates: &[Update]) -> Result<()> {
        let no = |why| refused(self.name, offset, why);
        if !may_be_batched(op) {
            return Err(no(Refusal::Unknown));
        }
        if self.near.is_none() {
            let words = [self.name.to_bits(), offset, 0, op as u64];
            for part in updates.chunks(Update::MOST) {
                let load = RequestPayload::Bytes(part.as_bytes());
                self.inner.send(self.node, code::BATCH, &words, load)?;
            }
            return Ok(());
        }
        let Some(last) = updates.iter().map(Update::index).max() else { return Ok(()) };
        let count = last as usize + 1;
        let cells = self.reach(offset, count as u64 * 8)?;
        let words = cells.and_then(|cells| cells.words(offset, count));
        let done = batch::execute(words.ok_or_else(|| no(Refusal::Misaligned))?, op, updates);
        debug_assert!(done, "the highest index is inside");
        Ok(())
    }

    /// Does the same with words of four bytes: indexes count those, and of operands the lower half
    /// is used.
    ///
    /// # Errors
    /// Fails as [`Target::update_many`] does.
    pub fn update_halves(&self, offset: u64, op: AtomicOp, updates: &[Update]) -> Result<()> {
        let no = |why| refused(self.name, offset, why);
        if !may_be_batched(op) {
            return Err(no(Refusal::Unknown));
        }
        if self.near.is_none() {
            let words = [self.name.to_bits(), offset, 0, op as u64 | HALVES];
            for part in updates.chunks(Update::MOST) {
                let load = RequestPayload::Bytes(part.as_bytes());
                self.inner.send(self.node, code::BATCH, &words, load)?;
            }
            return Ok(());
        }
        let Some(last) = updates.iter().map(Update::index).max() else { return Ok(()) };
        debug_assert!(self.near.is_some(), "others go to the node of the words");
        let cells = self.reach(offset, (u64::from(last) + 1) * 4)?;
        let done = cells.is_some_and(|cells| batch::execute_halves(cells, offset, op, updates));
        if done { Ok(()) } else { Err(no(Refusal::Misaligned)) }
    }

    /// Reads many words, each by its index from `offset` on, into `to`.
    ///
    /// # Errors
    /// Fails if `to` has not a place for each, if the words are refused, or if their node or a rank
    /// is lost. Then the contents of `to` are unspecified.
    pub fn get_many(&self, offset: u64, indexes: &[u32], to: &mut [u64]) -> Result<()> {
        let no = |why| refused(self.name, offset, why);
        if indexes.len() != to.len() {
            return Err(no(Refusal::OutOfBounds));
        }
        if self.near.is_some() {
            let Some(last) = indexes.iter().max() else { return Ok(()) };
            let count = *last as usize + 1;
            let cells = self.reach(offset, count as u64 * 8)?;
            let words = cells.and_then(|cells| cells.words(offset, count));
            let words = words.ok_or_else(|| no(Refusal::Misaligned))?;
            let mut places = to.iter_mut();
            let mut give = |word| {
                if let Some(place) = places.next() {
                    *place = word;
                }
            };
            let read = read_many(words, indexes.iter().copied(), &mut give);
            debug_assert!(read, "the highest index is inside");
            return Ok(());
        }
        for (indexes, to) in
            indexes.chunks(Self::WORDS_AT_ONCE).zip(to.chunks_mut(Self::WORDS_AT_ONCE))
        {
            let cookie = self.request_words(offset, indexes, NonNull::from(&mut *to).cast())?;
            // Taken from the requester there, however it ends.
            self.inner.await_one(cookie)?;
        }
        Ok(())
    }

    /// Requests words by index, no more than one answer holds. The buffer must be borrowed until the
    /// operation has been waited for, or taken from the requester.
    pub(crate) fn request_words(
        &self,
        offset: u64,
        indexes: &[u32],
        buffer: NonNull<u8>,
    ) -> Result<u64> {
        debug_assert!(self.near.is_none(), "ranks of a node need no interface");
        debug_assert!((1..=Self::WORDS_AT_ONCE).contains(&indexes.len()), "one answer");
        let words = |cookie| [self.name.to_bits(), offset, cookie, AtomicOp::Load as u64];
        let sink = AnswerSink::Buffer(buffer, size_of_val(indexes) * 2);
        let load = RequestPayload::Bytes(indexes.as_bytes());
        self.inner.begin(self.node, code::BATCH, sink, words, load)
    }

    /// Reads several ranges into `to`, one after the other. Up to 1024 ranges of 16 KiB together
    /// come in one answer.
    ///
    /// # Errors
    /// Fails if `to` is not as long as all ranges together, or has a range of more than 16 KiB; else
    /// as [`Target::get_bytes`] does.
    pub fn gather(&self, ranges: &[Range], to: &mut [u8]) -> Result<()> {
        self.each_answer(ranges, to, |ranges, to| self.gather_once(ranges, to))
    }

    /// Divides ranges, and the bytes they are read into, by the answers that they come in.
    pub(crate) fn each_answer<'a>(
        &self,
        ranges: &[Range],
        to: &'a mut [u8],
        mut each: impl FnMut(&[Range], &'a mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let no = |offset, why| refused(self.name, offset, why);
        let mut rest = to;
        let mut ranges = ranges;
        while let Some(first) = ranges.first() {
            let (mut count, mut bytes) = (0, 0);
            for range in ranges.iter().take(MAX_RANGES) {
                let more = usize::try_from(range.bytes()).unwrap_or(usize::MAX);
                match more.checked_add(bytes) {
                    Some(sum) if sum <= MAX_PIECE => (count, bytes) = (count + 1, sum),
                    _ => break,
                }
            }
            if count == 0 || bytes > rest.len() {
                return Err(no(first.offset(), Refusal::OutOfBounds));
            }
            let (these, behind) = ranges.split_at(count);
            let (here, later) = rest.split_at_mut(bytes);
            (ranges, rest) = (behind, later);
            debug_assert!(!these.is_empty(), "each request has a range");
            each(these, here)?;
        }
        if rest.is_empty() { Ok(()) } else { Err(no(0, Refusal::OutOfBounds)) }
    }

    /// Requests ranges, no more than one answer holds. The buffer must be borrowed until the
    /// operation has been waited for, or taken from the requester.
    pub(crate) fn request_ranges(&self, ranges: &[Range], to: &mut [u8]) -> Result<u64> {
        debug_assert!(self.near.is_none(), "ranks of a node need no interface");
        debug_assert!(ranges.len() <= MAX_RANGES && to.len() <= MAX_PIECE, "one message each");
        let words = |cookie| [self.name.to_bits(), 0, cookie];
        let sink = AnswerSink::Buffer(NonNull::from(&mut *to).cast(), to.len());
        let load = RequestPayload::Bytes(ranges.as_bytes());
        self.inner.begin(self.node, code::GATHER, sink, words, load)
    }

    fn gather_once(&self, ranges: &[Range], to: &mut [u8]) -> Result<()> {
        debug_assert!(ranges.len() <= MAX_RANGES, "a request is one message");
        if self.near.is_none() {
            if to.is_empty() {
                return Ok(());
            }
            let cookie = self.request_ranges(ranges, to)?;
            // Taken from the requester there, however it ends.
            return self.inner.await_one(cookie).map(drop);
        }
        let mut rest = to;
        for range in ranges {
            let (here, later) = rest.split_at_mut(range.bytes() as usize);
            self.get_bytes(range.offset(), here)?;
            rest = later;
        }
        Ok(())
    }

    /// Writes several runs, and then changes words: a rank that sees one of them changed, by
    /// [`Target::load`] or by waiting for it, sees all runs. Wakes the segment's rank and all that
    /// wait for the words. Does not wait until that has happened.
    ///
    /// # Errors
    /// Fails if runs and changes together take more than 16 KiB, with 16 bytes for each run and 24
    /// for each change; else as [`Target::put_bytes`] does.
    pub fn apply(&self, runs: &[(u64, &[u8])], advances: &[AdvanceWord]) -> Result<()> {
        self.apply_beside(runs, (self, advances))
    }

    /// Does the same with words of another segment of the same node.
    ///
    /// # Errors
    /// Fails as [`Target::apply`] does, and if the segment is of another node.
    pub fn apply_beside(
        &self,
        runs: &[(u64, &[u8])],
        (words, advances): (&Self, &[AdvanceWord]),
    ) -> Result<()> {
        let no = |offset, why| refused(self.name, offset, why);
        let ranges: Vec<_> =
            runs.iter().map(|(at, bytes)| Range::new(*at, bytes.len() as u64)).collect();
        let mut load = ranges.as_bytes().to_vec();
        load.extend_from_slice(advances.as_bytes());
        let data = load.len();
        runs.iter().for_each(|(_, bytes)| load.extend_from_slice(bytes));
        if load.len() > MAX_PIECE {
            return Err(no(0, Refusal::Overloaded));
        }
        if self.node != words.node {
            return Err(no(0, Refusal::NoSuchSegment));
        }
        if self.near.is_none() {
            let counts = [runs.len() as u64, advances.len() as u64];
            let second = words.name.to_bits();
            let all = [self.name.to_bits(), 0, 0, counts[0], counts[1], second];
            let used = if words.name == self.name { 5 } else { 6 };
            let load = RequestPayload::Bytes(&load);
            return self.inner.send(self.node, code::APPLY, &all[..used], load);
        }
        debug_assert_eq!(data, size_of_val(&*ranges) + size_of_val(advances), "heads, then data");
        let ends = ranges.iter().map(|range| range.offset().checked_add(range.bytes()));
        let cells = self.near_until(ends)?;
        let ends = advances.iter().map(|advance| advance.offset().checked_add(8));
        let word_cells = words.near_until(ends)?;
        let data = load.get(data..).unwrap_or_default();
        self.access_word();
        runs::apply((&ranges, cells), (advances, word_cells), data).map_err(|why| no(0, why))?;
        words.wake();
        advances.iter().for_each(|advance| words.notify(advance.offset()));
        Ok(())
    }

    /// Returns the cells of a near segment, if they reach so far.
    fn near_until(&self, mut ends: impl Iterator<Item = Option<u64>>) -> Result<&Cells> {
        let no = |why| refused(self.name, 0, why);
        let end = ends.try_fold(0, |end: u64, one| one.map(|one| end.max(one)));
        let end = end.ok_or_else(|| no(Refusal::OutOfBounds))?;
        self.reach(0, end)?.ok_or_else(|| no(Refusal::NoSuchSegment))
    }

    /// Reads ranges of a second segment of the same node, then ranges of this one, then others of
    /// the second, all into `to`, one after the other and in this order: in one answer, of 16 KiB
    /// at most.
    ///
    /// # Errors
    /// Fails if `to` is not as long as all ranges together, or too long for an answer, and if the
    /// second segment is of another node; else as [`Target::gather`] does.
    pub fn gather_between(
        &self,
        ranges: &[Range],
        (second, before, behind): (&Self, &[Range], &[Range]),
        to: &mut [u8],
    ) -> Result<()> {
        let all: Vec<_> = before.iter().chain(ranges).chain(behind).copied().collect();
        let bytes = all.iter().try_fold(0, |sum: u64, range| sum.checked_add(range.bytes()));
        if bytes != Some(to.len() as u64) || to.len() > MAX_PIECE || all.len() > MAX_RANGES {
            return Err(refused(self.name, 0, Refusal::Overloaded));
        }
        if self.node != second.node {
            return Err(refused(second.name, 0, Refusal::NoSuchSegment));
        }
        if self.near.is_none() && !to.is_empty() {
            let counts = (before.len() as u64, behind.len() as u64);
            let words = |cookie| {
                let name = second.name.to_bits();
                [self.name.to_bits(), 0, cookie, name, counts.0, counts.1]
            };
            let sink = AnswerSink::Buffer(NonNull::from(&mut *to).cast(), to.len());
            let load = RequestPayload::Bytes(all.as_bytes());
            let cookie = self.inner.begin(self.node, code::GATHER, sink, words, load)?;
            // Taken from the requester there, however it ends.
            return self.inner.await_one(cookie).map(drop);
        }
        let own = before.len()..all.len() - behind.len();
        let mut rest = to;
        for (number, range) in all.iter().enumerate() {
            let (here, later) = rest.split_at_mut(range.bytes() as usize);
            let target = if own.contains(&number) { self } else { second };
            target.get_bytes(range.offset(), here)?;
            rest = later;
        }
        Ok(())
    }

    /// Waits until a word of any node compares in this way, at most for `limit`. Returns the word,
    /// or `None` when that has passed. On another node the interface answers once the word is
    /// changed so: by anything that an interface executes, by signals, flags and applies of its
    /// ranks, or by a store that [`Target::notify`] reports.
    ///
    /// # Errors
    /// Fails if its rank has died ([`Refusal::OwnerDead`]), if its node is lost, or if a rank died
    /// and survivors do not continue.
    pub fn when_within(
        &self,
        offset: u64,
        comparison: Comparison,
        value: u64,
        limit: Option<Duration>,
    ) -> Result<Option<u64>> {
        let limit = limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        let until = limit.map(|limit| clock::now_ns().saturating_add(limit));
        if self.near.is_some() {
            self.reach_grown(offset, 8)?;
            return self.await_near(offset, (comparison, value), until);
        }
        let (inner, node) = (&self.inner, self.node);
        let words = |cookie| [self.name.to_bits(), offset, cookie, comparison as u64, value];
        let load = RequestPayload::Nothing;
        let cookie = inner.begin(node, code::WHEN, AnswerSink::Value, words, load)?;
        let reason = WaitReason::Word { segment: self.name, offset, from: None };
        let mut wait = Granted { inner, cookie, until, cancelled: false, reason };
        let waited = inner.endpoint.block_on(&mut wait);
        debug_assert!(until.is_some() || !wait.cancelled, "only waits with a limit are cancelled");
        if wait.cancelled && waited.is_ok() && !inner.has_ended(cookie) {
            inner.cancel(node, cookie)?;
        }
        match inner.await_one(cookie) {
            Ok(seen) => Ok(Some(seen)),
            Err(error) if error.why() == Some(Refusal::TimedOut) => Ok(None),
            Err(error) => waited.map_err(Into::into).and(Err(error)),
        }
    }

    /// Waits as [`Target::when_within`] does, without a limit.
    ///
    /// # Errors
    /// Fails as [`Target::when_within`] does.
    pub fn when(&self, offset: u64, comparison: Comparison, value: u64) -> Result<u64> {
        let seen = self.when_within(offset, comparison, value, None)?;
        debug_assert!(seen.is_none_or(|seen| comparison.holds(seen, value)), "this ended it");
        seen.ok_or_else(|| refused(self.name, offset, Refusal::TimedOut))
    }
}
