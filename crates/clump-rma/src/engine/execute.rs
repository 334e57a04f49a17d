//! Execution of one request: check, operation, answer.

use super::places::At;
use super::{Engine, Outlet, Request};
use crate::atomic::{AtomicOp, Width, execute};
use crate::error::Why;
use crate::lock::{FLAG_BYTES, WATCHERS};
use crate::memory::Memory;
use crate::protocol::{MOST_PIECE, ask, atomic_of, tell};
use clump_os::sync::{Ordering, fence};
use clump_shm::export::SegmentName;

/// Result of an executed request.
enum Outcome {
    /// No result; if the request carried a cookie, it is answered with DONE.
    Done(u64),
    /// The request answers by itself, at once or later.
    Later,
    /// The request is valid, and is executed later.
    Kept,
    /// A value for this cookie.
    Value(u64, u64),
    /// The bytes in the engine's scratch.
    Bytes(u64),
    /// The progress of the account.
    Quiet(u64),
    /// The request was refused; its cookie, or 0.
    Refused(u64, Why),
}

impl<M: Memory> Engine<M> {
    /// Executes a request. Returns false if it is kept; it then counts when it is executed.
    pub(super) fn execute(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl Outlet,
    ) -> bool {
        let outcome = self.perform(at, request, out);
        let outcome = outcome.unwrap_or(Outcome::Refused(0, Why::Unknown));
        if matches!(outcome, Outcome::Kept) {
            return false;
        }
        let account = &mut self.accounts[at];
        match outcome {
            Outcome::Done(0) | Outcome::Later | Outcome::Kept => {}
            Outcome::Done(cookie) => account.tell(out, tell::DONE, &[cookie], &[]),
            Outcome::Value(cookie, value) => account.tell(out, tell::VALUE, &[cookie, value], &[]),
            Outcome::Bytes(cookie) => account.tell(out, tell::BYTES, &[cookie, 0], &self.scratch),
            Outcome::Quiet(cookie) => {
                let (why, segment, offset) =
                    account.first_failure.take().unwrap_or((Why::Unknown, 0, 0));
                let words = [cookie, account.executed, account.failed, why as u64, segment, offset];
                account.tell(out, tell::QUIET, &words, &[]);
            }
            Outcome::Refused(cookie, why) => {
                let [segment, offset] =
                    [0, 1].map(|at| request.words.get(at).copied().unwrap_or(0));
                if cookie == 0 {
                    account.failed += 1;
                    account.first_failure.get_or_insert((why, segment, offset));
                } else {
                    account.tell(out, tell::FAILED, &[cookie, why as u64, segment, offset], &[]);
                }
            }
        }
        true
    }

    /// Performs a request. Returns `None` if it does not have the words that it should.
    fn perform(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl Outlet,
    ) -> Option<Outcome> {
        let Request { handler, words, payload, .. } = *request;
        if let Some((op, width, answered)) = atomic_of(handler) {
            let (&[segment, offset], rest) = words.split_first_chunk()?;
            let (cookie, operands) = match (answered, rest) {
                (true, &[cookie, ref operands @ ..]) => (cookie, operands),
                (true, []) => return None,
                (false, operands) => (0, operands),
            };
            let operand = operands.first().copied().unwrap_or(0);
            let other = operands.get(1).copied().unwrap_or(0);
            let bytes = if width == Width::Word { 8 } else { 4 };
            let name = SegmentName::from_bits(segment);
            let done = self.memory.segment(name, offset, bytes).and_then(|cells| {
                execute(cells, offset, (op, width), (operand, other)).ok_or(Why::Misaligned)
            });
            return Some(match done {
                Ok(value) if answered => Outcome::Value(cookie, value),
                Ok(_) => Outcome::Done(0),
                Err(why) => Outcome::Refused(cookie, why),
            });
        }
        if handler == ask::QUIET {
            return Some(Outcome::Quiet(*words.first()?));
        }
        if handler == ask::CANCEL {
            self.cancel(at, *words.first()?, out);
            return Some(Outcome::Later);
        }
        if handler == ask::PORT {
            let &[cookie, port] = words else { return None };
            return Some(Outcome::Value(cookie, self.memory.port(port)));
        }
        let (&[segment, offset, cookie], rest) = words.split_first_chunk()?;
        let name = SegmentName::from_bits(segment);
        let done = match (handler, rest) {
            (ask::GET, &[bytes]) => self.get(name, offset, cookie, bytes),
            (ask::PUT, signal) => self
                .put(name, offset, payload)
                .and_then(|()| self.signal(signal).map(|()| Outcome::Done(cookie))),
            (ask::PUT_LONG, signal) => {
                let there = self.memory.segment(name, offset, request.deposited).map(drop);
                there.and_then(|()| self.signal(signal)).map(|()| Outcome::Done(cookie))
            }
            (ask::GET_STRIDED, &[stride, block, count]) => {
                self.get_strided((name, offset), (stride, block, count), cookie)
            }
            (ask::PUT_STRIDED, &[stride, block]) => self
                .put_strided((name, offset), (stride, block), payload)
                .map(|()| Outcome::Done(cookie)),
            (ask::WAIT, &[comparison, value]) => self
                .watch(at, (name, offset, cookie), (comparison, value), out)
                .map(|()| Outcome::Later),
            (ask::LOCK, &[how]) => {
                self.lock(at, (name, offset, cookie), how, out).map(|()| Outcome::Later)
            }
            (ask::UNLOCK, &[position, word, passed @ (0 | 1)]) => {
                let place = At { segment: name, offset, position };
                let done = self.unlock(at, place, (word, passed == 1));
                done.map(|done| if done { Outcome::Done(0) } else { Outcome::Kept })
            }
            (ask::SET, &[adds, value]) => {
                self.set_flag(name, offset, adds, value).map(|()| Outcome::Done(0))
            }
            _ => Err(Why::Unknown),
        };
        Some(done.unwrap_or_else(|why| Outcome::Refused(cookie, why)))
    }

    fn get(&mut self, name: SegmentName, at: u64, cookie: u64, bytes: u64) -> Result<Outcome, Why> {
        if bytes > MOST_PIECE as u64 {
            return Err(Why::Unknown);
        }
        let cells = self.memory.segment(name, at, bytes)?;
        if bytes <= 8 {
            let mut value = [0; 8];
            let part = value.get_mut(..bytes as usize).ok_or(Why::Unknown)?;
            cells.read(at, part);
            return Ok(Outcome::Value(cookie, u64::from_le_bytes(value)));
        }
        self.scratch.resize(bytes as usize, 0);
        cells.read(at, &mut self.scratch);
        Ok(Outcome::Bytes(cookie))
    }

    fn put(&mut self, name: SegmentName, offset: u64, payload: &[u8]) -> Result<(), Why> {
        let cells = self.memory.segment(name, offset, payload.len() as u64)?;
        cells.write(offset, payload);
        Ok(())
    }

    /// Executes the signal after a put: a rank that sees it sees everything put.
    fn signal(&mut self, words: &[u64]) -> Result<(), Why> {
        let &[segment, offset, value, adds] = words else {
            return if words.is_empty() { Ok(()) } else { Err(Why::Unknown) };
        };
        let name = SegmentName::from_bits(segment);
        let op = if adds == 0 { AtomicOp::Store } else { AtomicOp::Add };
        let cells = self.memory.segment(name, offset, 8)?;
        let whole = (op, Width::Word);
        execute(cells, offset, whole, (value, 0)).ok_or(Why::Misaligned)?;
        self.memory.wake(name.rank());
        Ok(())
    }

    fn set_flag(
        &mut self,
        name: SegmentName,
        offset: u64,
        adds: u64,
        value: u64,
    ) -> Result<(), Why> {
        let op = if adds == 0 { AtomicOp::Store } else { AtomicOp::Add };
        let cells = self.memory.segment(name, offset, FLAG_BYTES)?;
        execute(cells, offset, (op, Width::Word), (value, 0)).ok_or(Why::Misaligned)?;
        fence(Ordering::SeqCst);
        let watchers = cells.word(offset.saturating_add(WATCHERS)).ok_or(Why::Misaligned)?;
        if watchers.load(Ordering::SeqCst) != 0 {
            self.memory.wake_all();
        }
        Ok(())
    }

    fn get_strided(
        &mut self,
        (name, offset): (SegmentName, u64),
        (stride, block, count): (u64, u64, u64),
        cookie: u64,
    ) -> Result<Outcome, Why> {
        let bytes = block.checked_mul(count).filter(|&bytes| bytes <= MOST_PIECE as u64);
        let bytes = bytes.ok_or(Why::Unknown)?;
        let span = span((stride, block, count)).ok_or(Why::OutOfBounds)?;
        let cells = self.memory.segment(name, offset, span)?;
        self.scratch.resize(bytes as usize, 0);
        if block != 0 {
            for (index, piece) in (0..).zip(self.scratch.chunks_exact_mut(block as usize)) {
                cells.read(offset + index * stride, piece);
            }
        }
        Ok(Outcome::Bytes(cookie))
    }

    fn put_strided(
        &mut self,
        (name, offset): (SegmentName, u64),
        (stride, block): (u64, u64),
        payload: &[u8],
    ) -> Result<(), Why> {
        let bytes = payload.len() as u64;
        if block == 0 || !bytes.is_multiple_of(block) {
            return Err(Why::Unknown);
        }
        let span = span((stride, block, bytes / block)).ok_or(Why::OutOfBounds)?;
        let cells = self.memory.segment(name, offset, span)?;
        for (index, piece) in (0..).zip(payload.chunks_exact(block as usize)) {
            cells.write(offset + index * stride, piece);
        }
        Ok(())
    }
}

/// Returns the bytes from the beginning of the first block to the end of the last.
fn span((stride, block, count): (u64, u64, u64)) -> Option<u64> {
    match count.checked_sub(1) {
        None => Some(0),
        Some(steps) => stride.checked_mul(steps)?.checked_add(block),
    }
}
