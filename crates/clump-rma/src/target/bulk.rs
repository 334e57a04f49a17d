//! Bulk operations on a segment: put and get, contiguous or strided, and put with a signal.

use super::{Pending, Target};
use crate::error::{Refusal, Result, refused};
use crate::request_payload::RequestPayload;
use clump_onesided::protocol::{MAX_PIECE, ask, deposit_offset};
use clump_onesided::{AnswerSink, AtomicOp, MAX_AHEAD, Word};
use clump_os::clock;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use std::collections::VecDeque;
use std::ptr::NonNull;

/// Bytes above which a put is deposited as it arrives, without a copy in between.
const LONG_FROM: usize = 4 << 10;

/// Blocks of equal length at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strides {
    /// Offset of the first block.
    pub offset: u64,
    /// Bytes of a block.
    pub block: usize,
    /// Bytes from the beginning of one block to that of the next.
    pub stride: u64,
}

/// Write that follows a put, so that a rank that sees it sees the data put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Segment on the node that is put to.
    pub segment: SegmentName,
    /// Offset in it; a multiple of 8.
    pub offset: u64,
    /// Value written there, or added.
    pub value: u64,
    /// True if it is added.
    pub adds: bool,
}

impl Signal {
    fn words(self) -> [u64; 4] {
        [self.segment.to_bits(), self.offset, self.value, u64::from(self.adds)]
    }
}

impl Target {
    #[inline]
    pub(super) fn reach(&self, offset: u64, bytes: u64) -> Result<Option<&Cells>> {
        let Some(near) = &self.near else { return Ok(None) };
        debug_assert!(near.bytes.get() <= near.cells.bytes(), "what may be accessed is mapped");
        match near.reach(offset, bytes) {
            Some(cells) => Ok(Some(cells)),
            None => self.reach_grown(offset, bytes).map(Some),
        }
    }

    /// Writes bytes. `from` may be used again when it returns; [`crate::Rma::quiet`] waits until
    /// the bytes are there.
    ///
    /// # Errors
    /// On this node it fails if the put is refused. On another, [`crate::Rma::quiet`] reports a
    /// refusal.
    #[inline]
    pub fn put_bytes(&self, offset: u64, from: &[u8]) -> Result<()> {
        if let Some(cells) = self.reach(offset, from.len() as u64)? {
            let written = cells.write(offset, from);
            debug_assert!(written, "what may be accessed is mapped");
            return Ok(());
        }
        self.put_far(offset, from, 0, None)
    }

    /// Writes bytes. Returns a handle that reports when they are there.
    ///
    /// # Errors
    /// On this node it fails if the put is refused. On another, waiting for the handle reports a
    /// refusal.
    pub fn start_put(&self, offset: u64, from: &[u8]) -> Result<Pending<()>> {
        if let Some(cells) = self.reach(offset, from.len() as u64)? {
            let written = cells.write(offset, from);
            debug_assert!(written, "what may be accessed is mapped");
            return Ok(Pending::ready(&self.inner, 0));
        }
        let cookie = self.inner.books.borrow_mut().begin(self.node);
        let pending = Pending::waiting(&self.inner, cookie);
        self.put_far(offset, from, cookie, None)?;
        Ok(pending)
    }

    /// Writes bytes, and then a signal: a rank that waits for it ([`Target::wait_until`]) sees the
    /// bytes.
    ///
    /// # Errors
    /// Fails as [`Target::put_bytes`] does.
    pub fn put_signal(&self, offset: u64, from: &[u8], signal: Signal) -> Result<()> {
        let Some(cells) = self.reach(offset, from.len() as u64)? else {
            return self.put_far(offset, from, 0, Some(signal));
        };
        let written = cells.write(offset, from);
        debug_assert!(written, "what may be accessed is mapped");
        let bell = Target::open(&self.inner, signal.segment)?;
        bell.signal(signal.offset, signal.value, signal.adds)
    }

    /// Writes a word, or adds to it, and wakes the segment's rank if it waits. The write comes
    /// after everything that this thread has put to this node, if [`crate::Rma::fence`] came
    /// between.
    ///
    /// # Errors
    /// Fails as [`Target::put_bytes`] does.
    pub fn signal(&self, offset: u64, value: u64, adds: bool) -> Result<()> {
        if self.near.is_none() {
            let signal = Signal { segment: self.name, offset, value, adds };
            return self.put_far(offset, &[], 0, Some(signal));
        }
        let op = if adds { AtomicOp::Add } else { AtomicOp::Store };
        let cells = self.reach(offset, 8)?;
        debug_assert!(cells.is_some(), "the segment is near");
        let cell = cells.and_then(|cells| u64::find(cells, offset));
        let cell = cell.ok_or_else(|| refused(self.name, offset, Refusal::Misaligned))?;
        self.access_word();
        u64::apply(cell, op, value, 0);
        self.wake();
        self.notify(offset);
        Ok(())
    }

    fn put_far(&self, offset: u64, from: &[u8], cookie: u64, signal: Option<Signal>) -> Result<()> {
        debug_assert!(self.near.is_none(), "ranks of a node need no interface");
        debug_assert!(cookie == 0 || signal.is_none(), "a put with a signal is not answered");
        let mut words = [self.name.to_bits(), offset, cookie, 0, 0, 0, 0];
        let mut count = 3;
        if let Some(signal) = signal {
            words[3..].copy_from_slice(&signal.words());
            count = words.len();
        }
        let words = words.get(..count).unwrap_or_default();
        debug_assert_eq!(words.len(), count, "a put has three words, its signal four");
        if from.len() < LONG_FROM.min(self.inner.endpoint.max_medium()) {
            return self.inner.send(self.node, ask::PUT, words, RequestPayload::Bytes(from));
        }
        if self.inner.context.actor().is_some() {
            return self.put_in_virtual_time(offset, from, words);
        }
        let first = self.inner.first_rank(self.node);
        debug_assert!(first <= self.name.rank(), "the lowest rank of the segment's node");
        // Data beyond any segment's end is not sent.
        let at = deposit_offset(self.name, first, offset, from.len() as u64);
        let at = at.ok_or_else(|| refused(self.name, offset, Refusal::OutOfBounds))?;
        // Deposits are made as they arrive, and so before requests that are held there.
        if self.inner.is_fenced(self.node) {
            self.inner.quiet_node(self.node)?;
        }
        self.inner.send(self.node, ask::PUT_LONG, words, RequestPayload::Deposit(at, from))
    }

    /// Writes bytes of another virtual node in fragments, none of which an executor deposits before
    /// it is due. `words` are those of the put: its answer and its signal come with the last one.
    #[cold]
    fn put_in_virtual_time(&self, offset: u64, from: &[u8], words: &[u64]) -> Result<()> {
        let most = MAX_PIECE.min(self.inner.endpoint.max_medium());
        let mut at = 0;
        debug_assert!(from.len() >= LONG_FROM.min(most), "others are one message");
        for fragment in from.chunks(most) {
            let end = at + fragment.len();
            let mut all = [0; 7];
            let count = if end == from.len() { words.len() } else { 3 };
            all.iter_mut().zip(words).take(count).for_each(|(to, word)| *to = *word);
            all[1] = offset.saturating_add(at as u64);
            all[2] = if end == from.len() { all[2] } else { 0 };
            let words = all.get(..count).unwrap_or_default();
            self.inner.send(self.node, ask::PUT, words, RequestPayload::Bytes(fragment))?;
            at = end;
        }
        Ok(())
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// Fails if the get is refused, or if its node or a rank is lost. Then the contents of `to` are
    /// unspecified.
    #[inline]
    pub fn get_bytes(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        if let Some(cells) = self.reach(offset, to.len() as u64)? {
            let read = cells.read(offset, to);
            debug_assert!(read, "what may be accessed is mapped");
            return Ok(());
        }
        let mut message_fragments = GetFragments::of(self);
        let buffer = (NonNull::from(&mut *to).cast::<u8>(), to.len());
        for fragment in self.fragments(offset, buffer) {
            message_fragments.make_room()?;
            message_fragments.add(self.request_fragment(fragment)?);
        }
        message_fragments.finish()
    }

    /// Returns the fragments in which bytes are requested.
    pub(crate) fn fragments(
        &self,
        offset: u64,
        (base, len): (NonNull<u8>, usize),
    ) -> impl Iterator<Item = GetFragment> + use<> {
        debug_assert!(isize::try_from(len).is_ok(), "a slice");
        (0..len).step_by(MAX_PIECE).map(move |at| GetFragment {
            offset: offset.wrapping_add(at as u64),
            // SAFETY: `at` is less than `len`, which the buffer has.
            base: unsafe { base.add(at) },
            len: (len - at).min(MAX_PIECE),
            continues: at > 0,
        })
    }

    /// Requests a fragment. Its buffer must be borrowed until the operation has been waited for, or
    /// taken from the requester.
    pub(crate) fn request_fragment(&self, fragment: GetFragment) -> Result<u64> {
        let GetFragment { offset, base, len, continues } = fragment;
        debug_assert!((1..=MAX_PIECE).contains(&len), "an interface gives so much at once");
        self.inner.note_fragment(continues);
        let words = |cookie| [self.name.to_bits(), offset, cookie, len as u64];
        self.inner.begin(
            self.node,
            ask::GET,
            AnswerSink::Buffer(base, len),
            words,
            RequestPayload::Nothing,
        )
    }

    /// Writes `from`, contiguous whole blocks, to the blocks of `to`.
    ///
    /// # Errors
    /// Fails if `from` does not consist of whole blocks; else as [`Target::put_bytes`] does.
    pub fn put_strided(&self, to: Strides, from: &[u8]) -> Result<()> {
        let wrong = || refused(self.name, to.offset, Refusal::OutOfBounds);
        if to.block == 0 || !from.len().is_multiple_of(to.block) {
            return Err(wrong());
        }
        if self.near.is_none() && to.block <= MAX_PIECE {
            let whole = MAX_PIECE / to.block * to.block;
            debug_assert!((to.block..=MAX_PIECE).contains(&whole), "a message has whole blocks");
            for (chunk, at) in from.chunks(whole).zip(to.starts(whole / to.block)) {
                let at = at.ok_or_else(wrong)?;
                let words = [self.name.to_bits(), at, 0, to.stride, to.block as u64];
                self.inner.note_fragment(at != to.offset);
                self.inner.send(
                    self.node,
                    ask::PUT_STRIDED,
                    &words,
                    RequestPayload::Bytes(chunk),
                )?;
            }
            return Ok(());
        }
        for (block, at) in from.chunks(to.block).zip(to.starts(1)) {
            self.put_bytes(at.ok_or_else(wrong)?, block)?;
        }
        Ok(())
    }

    /// Reads the blocks of `from` contiguously into `to`, until that is full.
    ///
    /// # Errors
    /// Fails if `to` does not hold whole blocks; else as [`Target::get_bytes`] does.
    pub fn get_strided(&self, from: Strides, to: &mut [u8]) -> Result<()> {
        let wrong = || refused(self.name, from.offset, Refusal::OutOfBounds);
        if from.block == 0 || !to.len().is_multiple_of(from.block) {
            return Err(wrong());
        }
        if self.near.is_some() || from.block > MAX_PIECE {
            for (block, at) in to.chunks_mut(from.block).zip(from.starts(1)) {
                self.get_bytes(at.ok_or_else(wrong)?, block)?;
            }
            return Ok(());
        }
        let mut message_fragments = GetFragments::of(self);
        let whole = MAX_PIECE / from.block;
        debug_assert!(whole >= 1, "a message has whole blocks");
        for (chunk, at) in to.chunks_mut(whole * from.block).zip(from.starts(whole)) {
            message_fragments.make_room()?;
            let at = at.ok_or_else(wrong)?;
            debug_assert!(chunk.len().is_multiple_of(from.block), "a message has whole blocks");
            let count = (chunk.len() / from.block) as u64;
            let sink = AnswerSink::Buffer(NonNull::from(&mut *chunk).cast(), chunk.len());
            let words =
                |cookie| [self.name.to_bits(), at, cookie, from.stride, from.block as u64, count];
            self.inner.note_fragment(at != from.offset);
            let begun =
                self.inner.begin(self.node, ask::GET_STRIDED, sink, words, RequestPayload::Nothing);
            message_fragments.add(begun?);
        }
        message_fragments.finish()
    }
}

/// Fragment of a get, and its destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GetFragment {
    offset: u64,
    base: NonNull<u8>,
    len: usize,
    /// True if another is before it.
    continues: bool,
}

impl Strides {
    /// Returns the beginning of every `blocks`-th block; `None` beyond all addresses.
    fn starts(self, blocks: usize) -> impl Iterator<Item = Option<u64>> {
        (0_u64..).map(move |turn| {
            let far = self.stride.checked_mul(turn.checked_mul(blocks as u64)?)?;
            self.offset.checked_add(far)
        })
    }
}

/// Fragments of a get in flight into a borrowed buffer; given up when dropped.
#[derive(Debug)]
struct GetFragments<'a> {
    target: &'a Target,
    /// Cookies, with the time of each request.
    under_way: VecDeque<(u64, u64)>,
    /// True once the first has ended.
    begun: bool,
}

impl<'a> GetFragments<'a> {
    fn of(target: &'a Target) -> Self {
        Self { target, under_way: VecDeque::new(), begun: false }
    }

    /// Waits until another fragment may be requested.
    fn make_room(&mut self) -> Result<()> {
        let Target { inner, node, .. } = self.target;
        while self.under_way.len() >= inner.fragments_ahead(*node) {
            self.end_first()?;
        }
        debug_assert!(self.under_way.len() < MAX_AHEAD as usize, "there is room for another");
        Ok(())
    }

    /// Adds a fragment that has just been requested.
    fn add(&mut self, cookie: u64) {
        self.under_way.push_back((cookie, clock::now_ns()));
        debug_assert!(self.under_way.len() <= MAX_AHEAD as usize, "room was made before");
    }

    fn finish(&mut self) -> Result<()> {
        while !self.under_way.is_empty() {
            self.end_first()?;
        }
        debug_assert!(self.under_way.is_empty(), "all fragments have ended");
        Ok(())
    }

    fn end_first(&mut self) -> Result<()> {
        let Some((first, begun_ns)) = self.under_way.pop_front() else {
            clump_bug::bug!("fragments are in flight");
            return Ok(());
        };
        let Target { inner, node, .. } = self.target;
        // Taken from the requester there, however it ends.
        inner.await_one(first)?;
        let first = !std::mem::replace(&mut self.begun, true);
        inner.note_fragment_end(*node, (begun_ns, first), self.under_way.len());
        Ok(())
    }
}

impl Drop for GetFragments<'_> {
    fn drop(&mut self) {
        let mut books = self.target.inner.books.borrow_mut();
        for (cookie, _) in self.under_way.drain(..) {
            let taken = books.take(cookie);
            debug_assert!(taken.is_some(), "a fragment in flight has an entry");
        }
    }
}
