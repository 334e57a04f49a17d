//! Execution of one request: check, operation, answer.

use super::claims::At;
use super::served::is_served;
use super::wait::flag_words;
use super::{Engine, ReplySink, Request};
use crate::memory::Memory;
use crate::service::ServiceOutcome;
use clump_onesided::protocol::{MAX_PIECE, ask, atomic_of, tell};
use clump_onesided::{AtomicOp, Refusal, Width, execute};
use clump_shm::export::{SegmentName, SegmentOwner};

/// Result of an executed request.
enum ExecutionResult {
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
    Refused(u64, Refusal),
    /// The request's part of this segment was refused; its cookie, or 0.
    RefusedAt(u64, Refusal, SegmentName),
}

impl<M: Memory> Engine<M> {
    /// Executes a request. Returns false if it is kept; it then counts when it is executed.
    pub(super) fn execute(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl ReplySink,
    ) -> bool {
        let outcome = self.perform(at, request, out);
        let outcome = outcome.unwrap_or(ExecutionResult::Refused(0, Refusal::Unknown));
        if matches!(outcome, ExecutionResult::Kept) {
            return false;
        }
        let account = &mut self.accounts[at];
        match outcome {
            ExecutionResult::Done(0) | ExecutionResult::Later | ExecutionResult::Kept => {}
            ExecutionResult::Done(cookie) => account.answer(out, tell::DONE, &[cookie], &[]),
            ExecutionResult::Value(cookie, value) => {
                account.answer(out, tell::VALUE, &[cookie, value], &[]);
            }
            ExecutionResult::Bytes(cookie) => {
                account.answer(out, tell::BYTES, &[cookie, 0], &self.scratch);
            }
            ExecutionResult::Quiet(cookie) => {
                debug_assert!(account.first_failure.is_none() || account.failed > 0);
                let (why, segment, offset) =
                    account.first_failure.take().unwrap_or((Refusal::Unknown, 0, 0));
                let words = [cookie, account.executed, account.failed, why as u64, segment, offset];
                account.answer(out, tell::QUIET, &words, &[]);
            }
            ExecutionResult::Refused(cookie, why) => {
                let place = [0, 1].map(|at| request.words.get(at).copied().unwrap_or(0));
                self.refuse(at, (cookie, why), place, out);
            }
            ExecutionResult::RefusedAt(cookie, why, segment) => {
                self.refuse(at, (cookie, why), [segment.to_bits(), 0], out);
            }
        }
        true
    }

    /// Reports a refusal: to its requester if it has an answer, else at the next quiet.
    fn refuse(
        &mut self,
        at: usize,
        (cookie, why): (u64, Refusal),
        [segment, offset]: [u64; 2],
        out: &mut impl ReplySink,
    ) {
        self.counts.refused += 1;
        debug_assert!(self.counts.refused <= self.counts.executed, "a request is refused once");
        let account = &mut self.accounts[at];
        if cookie == 0 {
            account.failed += 1;
            account.first_failure.get_or_insert((why, segment, offset));
        } else {
            account.answer(out, tell::FAILED, &[cookie, why as u64, segment, offset], &[]);
        }
        debug_assert!(cookie != 0 || account.first_failure.is_some(), "the next quiet reports it");
    }

    /// Performs a request. Returns `None` if it does not have the words that it should.
    fn perform(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl ReplySink,
    ) -> Option<ExecutionResult> {
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
                execute(cells, offset, (op, width), (operand, other)).ok_or(Refusal::Misaligned)
            });
            return Some(match done {
                Ok(value) if answered => ExecutionResult::Value(cookie, value),
                Ok(_) => ExecutionResult::Done(0),
                Err(why) => ExecutionResult::Refused(cookie, why),
            });
        }
        if handler == ask::QUIET {
            return Some(ExecutionResult::Quiet(*words.first()?));
        }
        if handler == ask::CANCEL {
            self.cancel(at, *words.first()?, out);
            return Some(ExecutionResult::Later);
        }
        if handler == ask::PORT {
            let &[cookie, port] = words else { return None };
            return Some(ExecutionResult::Value(cookie, self.memory.port(port)));
        }
        if is_served(handler) {
            return Some(self.execute_served(at, request, out));
        }
        let (&[segment, offset, cookie], rest) = words.split_first_chunk()?;
        let name = SegmentName::from_bits(segment);
        let done = match (handler, rest) {
            (ask::GET, &[bytes]) => self.get(name, offset, cookie, bytes),
            (ask::PUT, signal) => self
                .put(name, offset, payload)
                .and_then(|()| self.signal(signal).map(|()| ExecutionResult::Done(cookie))),
            (ask::PUT_LONG, signal) => {
                let there = self.memory.deposited(name, offset, request.deposited);
                there.and_then(|()| self.signal(signal)).map(|()| ExecutionResult::Done(cookie))
            }
            (ask::GET_STRIDED, &[stride, block, count]) => {
                self.get_strided((name, offset), (stride, block, count), cookie)
            }
            (ask::PUT_STRIDED, &[stride, block]) => self
                .put_strided((name, offset), (stride, block), payload)
                .map(|()| ExecutionResult::Done(cookie)),
            (ask::WAIT, &[comparison, value]) => self
                .watch(at, (name, offset, cookie), (comparison, value), out)
                .map(|()| ExecutionResult::Later),
            (ask::LOCK, &[how]) => {
                self.lock(at, (name, offset, cookie), how, out).map(|()| ExecutionResult::Later)
            }
            (ask::UNLOCK, &[position, word, passed @ (0 | 1)]) => {
                let place = At { segment: name, offset, position };
                let done = self.unlock(at, place, (word, passed == 1));
                done.map(|done| if done { ExecutionResult::Done(0) } else { ExecutionResult::Kept })
            }
            (ask::SET, &[adds, value]) => {
                self.set_flag(name, offset, adds, value).map(|()| ExecutionResult::Done(0))
            }
            _ => Err(Refusal::Unknown),
        };
        Some(done.unwrap_or_else(|why| ExecutionResult::Refused(cookie, why)))
    }

    fn execute_served(
        &mut self,
        at: usize,
        request: &Request<'_>,
        out: &mut impl ReplySink,
    ) -> ExecutionResult {
        let cookie = request.words.get(2).copied().unwrap_or(0);
        let outcome = self.serve(at, request, out);
        if !self.concerns_others() {
            self.touch_changed();
        }
        match outcome.unwrap_or_else(ServiceOutcome::Refused) {
            ServiceOutcome::Done => ExecutionResult::Done(cookie),
            // The requester wants no result (cookie 0).
            ServiceOutcome::Value(_) | ServiceOutcome::Bytes if cookie == 0 => {
                ExecutionResult::Done(0)
            }
            ServiceOutcome::Value(value) => ExecutionResult::Value(cookie, value),
            ServiceOutcome::Bytes => ExecutionResult::Bytes(cookie),
            ServiceOutcome::Later if cookie == 0 => ExecutionResult::Kept,
            ServiceOutcome::Later => ExecutionResult::Later,
            ServiceOutcome::Refused(why) => ExecutionResult::Refused(cookie, why),
            ServiceOutcome::RefusedAt(why, name) => ExecutionResult::RefusedAt(cookie, why, name),
        }
    }

    fn get(
        &mut self,
        name: SegmentName,
        at: u64,
        cookie: u64,
        bytes: u64,
    ) -> Result<ExecutionResult, Refusal> {
        if bytes > MAX_PIECE as u64 {
            return Err(Refusal::Unknown);
        }
        let cells = self.memory.segment(name, at, bytes)?;
        if bytes <= 8 {
            let mut value = [0; 8];
            let part = value.get_mut(..bytes as usize).ok_or(Refusal::Unknown)?;
            let read = cells.read(at, part);
            debug_assert!(read, "what may be accessed is mapped");
            return Ok(ExecutionResult::Value(cookie, u64::from_le_bytes(value)));
        }
        self.scratch.resize(bytes as usize, 0);
        let read = cells.read(at, &mut self.scratch);
        debug_assert!(read, "what may be accessed is mapped");
        Ok(ExecutionResult::Bytes(cookie))
    }

    fn put(&mut self, name: SegmentName, offset: u64, payload: &[u8]) -> Result<(), Refusal> {
        let cells = self.memory.segment(name, offset, payload.len() as u64)?;
        let written = cells.write(offset, payload);
        debug_assert!(written, "what may be accessed is mapped");
        Ok(())
    }

    /// Executes the signal after a put: a rank that sees it sees everything put.
    fn signal(&mut self, words: &[u64]) -> Result<(), Refusal> {
        let &[segment, offset, value, adds] = words else {
            return if words.is_empty() { Ok(()) } else { Err(Refusal::Unknown) };
        };
        let name = SegmentName::from_bits(segment);
        let op = if adds == 0 { AtomicOp::Store } else { AtomicOp::Add };
        let cells = self.memory.segment(name, offset, 8)?;
        let whole = (op, Width::Word);
        execute(cells, offset, whole, (value, 0)).ok_or(Refusal::Misaligned)?;
        let of_node = matches!(name.owner(), SegmentOwner::Node(_));
        debug_assert!(of_node || name.rank() < self.ranks, "ranks of the job export segments");
        self.memory.wake(name.rank());
        Ok(())
    }

    fn set_flag(
        &mut self,
        name: SegmentName,
        offset: u64,
        adds: u64,
        value: u64,
    ) -> Result<(), Refusal> {
        if flag_words(&mut self.memory, name, offset)?.change(value, adds != 0) {
            self.memory.wake_all();
        }
        Ok(())
    }

    fn get_strided(
        &mut self,
        (name, offset): (SegmentName, u64),
        (stride, block, count): (u64, u64, u64),
        cookie: u64,
    ) -> Result<ExecutionResult, Refusal> {
        let bytes = block.checked_mul(count).filter(|&bytes| bytes <= MAX_PIECE as u64);
        let bytes = bytes.ok_or(Refusal::Unknown)?;
        let span = span((stride, block, count)).ok_or(Refusal::OutOfBounds)?;
        let cells = self.memory.segment(name, offset, span)?;
        self.scratch.resize(bytes as usize, 0);
        debug_assert!(cells.holds(offset, span), "what may be accessed is mapped");
        if block != 0 {
            for (index, fragment) in (0..).zip(self.scratch.chunks_exact_mut(block as usize)) {
                let read = cells.read(offset + index * stride, fragment);
                debug_assert!(read, "blocks lie in their span");
            }
        }
        Ok(ExecutionResult::Bytes(cookie))
    }

    fn put_strided(
        &mut self,
        (name, offset): (SegmentName, u64),
        (stride, block): (u64, u64),
        payload: &[u8],
    ) -> Result<(), Refusal> {
        let bytes = payload.len() as u64;
        if block == 0 || !bytes.is_multiple_of(block) {
            return Err(Refusal::Unknown);
        }
        let span = span((stride, block, bytes / block)).ok_or(Refusal::OutOfBounds)?;
        let cells = self.memory.segment(name, offset, span)?;
        for (index, fragment) in (0..).zip(payload.chunks_exact(block as usize)) {
            let written = cells.write(offset + index * stride, fragment);
            debug_assert!(written, "blocks lie in their span");
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
