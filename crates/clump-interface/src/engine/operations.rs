//! Operations on the memory of a node that end at once: puts, gets, atomics, signals.

use super::execution_context::flag_words;
use super::request::Request;
use crate::memory::Memory;
use clump_onesided::protocol::{MAX_PIECE, ask};
use clump_onesided::{AtomicOp, Refusal, Width, execute};
use clump_shm::export::{SegmentName, SegmentOwner};

/// Result of an executed request.
pub(super) enum ExecutionResult {
    /// No result; if the request carried a cookie, it is answered with DONE.
    Done(u64),
    /// The request answers by itself, at once or later.
    Later,
    /// The request is valid, and is executed later.
    Kept,
    /// A value for this cookie.
    Value(u64, u64),
    /// The bytes of the answer.
    Bytes(u64),
    /// The progress of the account.
    Quiet(u64),
    /// The request was refused; its cookie, or 0.
    Refused(u64, Refusal),
    /// The request's part of this segment was refused; its cookie, or 0.
    RefusedAt(u64, Refusal, SegmentName),
}

/// Executes an atomic operation. Returns `None` if the request does not have the words that it
/// should.
#[inline]
pub(super) fn atomic(
    memory: &mut impl Memory,
    (op, width, answered): (AtomicOp, Width, bool),
    words: &[u64],
) -> Option<ExecutionResult> {
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
    let done = memory.segment(name, offset, bytes).and_then(|cells| {
        debug_assert!(cells.holds(offset, bytes), "what may be accessed is mapped");
        execute(cells, offset, (op, width), (operand, other)).ok_or(Refusal::Misaligned)
    });
    Some(match done {
        Ok(value) if answered => ExecutionResult::Value(cookie, value),
        Ok(_) => ExecutionResult::Done(0),
        Err(why) => ExecutionResult::Refused(cookie, why),
    })
}

/// Executes a request of `segment offset cookie` and the words `rest`; the bytes that it reads are
/// put in `bytes`.
pub(super) fn perform(
    memory: &mut impl Memory,
    request: &Request<'_>,
    (name, offset, cookie): (SegmentName, u64, u64),
    rest: &[u64],
    bytes: &mut Vec<u8>,
) -> Result<ExecutionResult, Refusal> {
    debug_assert_eq!(request.handler & ask::AFTER, 0, "what it waited for was executed");
    let place = (name, offset);
    match (request.handler, rest) {
        (ask::GET, &[count]) => return get(memory, place, cookie, count, bytes),
        (ask::GET_STRIDED, &[stride, block, count]) => {
            get_strided(memory, place, (stride, block, count), bytes)?;
            return Ok(ExecutionResult::Bytes(cookie));
        }
        (ask::PUT, signal_words) => {
            put(memory, place, request.payload)?;
            signal(memory, signal_words)?;
        }
        (ask::PUT_LONG, signal_words) => {
            memory.deposited(name, offset, request.deposited)?;
            signal(memory, signal_words)?;
        }
        (ask::PUT_STRIDED, &[stride, block]) => {
            put_strided(memory, place, (stride, block), request.payload)?;
        }
        (ask::SET, &[adds, value]) => {
            if flag_words(memory, name, offset)?.change(value, adds != 0) {
                memory.wake_all();
            }
            return Ok(ExecutionResult::Done(0));
        }
        _ => return Err(Refusal::Unknown),
    }
    Ok(ExecutionResult::Done(cookie))
}

fn get(
    memory: &mut impl Memory,
    (name, offset): (SegmentName, u64),
    cookie: u64,
    count: u64,
    bytes: &mut Vec<u8>,
) -> Result<ExecutionResult, Refusal> {
    if count > MAX_PIECE as u64 {
        return Err(Refusal::Unknown);
    }
    let cells = memory.segment(name, offset, count)?;
    if count <= 8 {
        let mut value = [0; 8];
        let part = value.get_mut(..count as usize).ok_or(Refusal::Unknown)?;
        let read = cells.read(offset, part);
        debug_assert!(read, "what may be accessed is mapped");
        return Ok(ExecutionResult::Value(cookie, u64::from_le_bytes(value)));
    }
    bytes.resize(count as usize, 0);
    let read = cells.read(offset, bytes);
    debug_assert!(read, "what may be accessed is mapped");
    Ok(ExecutionResult::Bytes(cookie))
}

fn put(
    memory: &mut impl Memory,
    (name, offset): (SegmentName, u64),
    payload: &[u8],
) -> Result<(), Refusal> {
    let cells = memory.segment(name, offset, payload.len() as u64)?;
    let written = cells.write(offset, payload);
    debug_assert!(written, "what may be accessed is mapped");
    Ok(())
}

/// Executes the signal after a put: a rank that sees it sees everything put.
fn signal(memory: &mut impl Memory, words: &[u64]) -> Result<(), Refusal> {
    let &[segment, offset, value, adds] = words else {
        return if words.is_empty() { Ok(()) } else { Err(Refusal::Unknown) };
    };
    let name = SegmentName::from_bits(segment);
    let op = if adds == 0 { AtomicOp::Store } else { AtomicOp::Add };
    let cells = memory.segment(name, offset, 8)?;
    debug_assert!(cells.holds(offset, 8), "what may be accessed is mapped");
    execute(cells, offset, (op, Width::Word), (value, 0)).ok_or(Refusal::Misaligned)?;
    let of_node = matches!(name.owner(), SegmentOwner::Node(_));
    debug_assert!(of_node || memory.home(name).1, "ranks of this node export segments here");
    memory.wake(name.rank());
    Ok(())
}

fn get_strided(
    memory: &mut impl Memory,
    (name, offset): (SegmentName, u64),
    (stride, block, count): (u64, u64, u64),
    bytes: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let all = block.checked_mul(count).filter(|&all| all <= MAX_PIECE as u64);
    let all = all.ok_or(Refusal::Unknown)?;
    let span = span((stride, block, count)).ok_or(Refusal::OutOfBounds)?;
    let cells = memory.segment(name, offset, span)?;
    bytes.resize(all as usize, 0);
    debug_assert!(cells.holds(offset, span), "what may be accessed is mapped");
    if block != 0 {
        for (index, fragment) in (0..).zip(bytes.chunks_exact_mut(block as usize)) {
            let read = cells.read(offset + index * stride, fragment);
            debug_assert!(read, "blocks lie in their span");
        }
    }
    Ok(())
}

fn put_strided(
    memory: &mut impl Memory,
    (name, offset): (SegmentName, u64),
    (stride, block): (u64, u64),
    payload: &[u8],
) -> Result<(), Refusal> {
    let bytes = payload.len() as u64;
    if block == 0 || !bytes.is_multiple_of(block) {
        return Err(Refusal::Unknown);
    }
    let span = span((stride, block, bytes / block)).ok_or(Refusal::OutOfBounds)?;
    let cells = memory.segment(name, offset, span)?;
    for (index, fragment) in (0..).zip(payload.chunks_exact(block as usize)) {
        let written = cells.write(offset + index * stride, fragment);
        debug_assert!(written, "blocks lie in their span");
    }
    Ok(())
}

/// Returns the bytes from the beginning of the first block to the end of the last.
fn span((stride, block, count): (u64, u64, u64)) -> Option<u64> {
    match count.checked_sub(1) {
        None => Some(0),
        Some(steps) => stride.checked_mul(steps)?.checked_add(block),
    }
}
