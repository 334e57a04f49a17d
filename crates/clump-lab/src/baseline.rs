//! Baselines of the bare machine, which are printed beside every claim.
//!
//! Each runs between two threads of the issuing rank while the other rank waits, and parks, in its
//! poll. To the caches that is the same as two processes; it needs no memory shared between ranks.
//! The line ping-pong does run between the ranks ([`crate::pair::Pair::flag_rounds`]).
#![allow(clippy::disallowed_types, reason = "taken from clump_os::sync; the lint sees through it")]

use clump_os::sync::{AtomicU64, Ordering, pause};
use clump_os::{clock, thread};
use std::sync::{Mutex, PoisonError};

/// Slots of the raw ring: 32 KiB, as large as the lanes of the same order.
const SLOTS: usize = 512;
/// Slots of the copy pipeline, and the bytes of one: few enough to stay in the second-level cache.
const PIPES: usize = 4;
const PIPE_BYTES: usize = 64 << 10;

/// One cache line.
#[repr(align(64))]
struct Line([AtomicU64; 8]);

impl Line {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Spins until `ready`, yielding the processor at intervals in case both sides share one.
fn spin_until(mut ready: impl FnMut() -> bool) {
    let mut tries = 0u32;
    while !ready() {
        tries += 1;
        if tries.is_multiple_of(1 << 14) {
            clock::yield_now();
        } else {
            pause();
        }
    }
}

/// Spins long enough for the other rank to find no messages, and to park.
fn let_the_other_park() {
    const PARKED_NS: u64 = 300_000;
    let start = clock::now_ns();
    spin_until(|| clock::now_ns() - start > PARKED_NS);
}

/// Leaves the processors in `busy` to others, where there are others. The thread of the far side
/// inherited the rank's own processor when ranks are bound.
fn move_away_from(busy: &[usize]) {
    let free = clump_os::topology::Topology::read().spread();
    let free: Vec<usize> = free.into_iter().filter(|cpu| !busy.contains(cpu)).collect();
    if busy.len() == 1 && !free.is_empty() {
        // A refusal (a container's limits) leaves the thread in place: the figures then show it.
        let _ = clump_os::topology::set_affinity(&free);
    }
}

fn own_processors() -> Vec<usize> {
    clump_os::topology::affinity().unwrap_or_default()
}

/// Messages per second through a bare ring of 64-byte slots with one sender and one receiver:
/// header and two words written, read and summed; room given back by the quarter.
///
/// # Errors
/// There is no thread to be had.
pub fn ring_rate(messages: u64) -> clump_os::Result<f64> {
    let ring: Vec<Line> = (0..SLOTS).map(|_| Line::new()).collect();
    let (credit, ready) = (Line::new(), Line::new());
    let busy = own_processors();
    std::thread::scope(|threads| {
        thread::spawn_scoped(threads, "clump-ring", || {
            move_away_from(&busy);
            ready.0[0].store(1, Ordering::Release);
            let mut sum = 0u64;
            for at in 0..messages {
                let slot = &ring[slot_of(at)].0;
                spin_until(|| slot[0].load(Ordering::Acquire) == at + 1);
                let words = slot[1].load(Ordering::Relaxed) ^ slot[2].load(Ordering::Relaxed);
                sum = sum.wrapping_add(words);
                if (at + 1).is_multiple_of(SLOTS as u64 / 4) {
                    credit.0[0].store(at + 1, Ordering::Release);
                }
            }
            credit.0[1].store(std::hint::black_box(sum) | 1, Ordering::Release);
        })?;
        spin_until(|| ready.0[0].load(Ordering::Acquire) == 1);
        let_the_other_park();
        let start = clock::now_ns();
        let mut seen = 0;
        for at in 0..messages {
            if at - seen >= SLOTS as u64 {
                spin_until(|| {
                    seen = credit.0[0].load(Ordering::Acquire);
                    at - seen < SLOTS as u64
                });
            }
            let slot = &ring[slot_of(at)].0;
            slot[1].store(at, Ordering::Relaxed);
            slot[2].store(!at, Ordering::Relaxed);
            slot[0].store(at + 1, Ordering::Release);
        }
        spin_until(|| credit.0[1].load(Ordering::Acquire) != 0);
        Ok(per_second(messages, start))
    })
}

fn slot_of(at: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "masked to the ring")]
    let at = at as usize;
    at & (SLOTS - 1)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are far below 2^53")]
fn per_second(count: u64, start_ns: u64) -> f64 {
    count as f64 * 1e9 / (clock::now_ns() - start_ns).max(1) as f64
}

/// Bytes that start on a page. Where a copy's target lies a little behind its source within a page,
/// its loads wait for stores that they only seem to depend on, and memcpy is ten times slower; a
/// baseline must not be slow by such an accident.
#[derive(Debug)]
pub struct PageAligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl PageAligned {
    /// Creates `len` bytes of this value.
    pub fn filled(len: usize, value: u8) -> Self {
        const PAGE: usize = clump_os::map::PAGE;
        let bytes = vec![value; len + PAGE];
        let start = bytes.as_ptr().addr().next_multiple_of(PAGE) - bytes.as_ptr().addr();
        Self { bytes, start, len }
    }
}

impl std::ops::Deref for PageAligned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for PageAligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// One reused buffer between the two threads of the copy pipeline. The state decides whose turn it
/// is, so the lock is never contended; it is there because the bytes are plain memory.
struct Pipe {
    state: Line,
    bytes: Mutex<PageAligned>,
}

/// Returns the fragments of `count` messages of `bytes`, in order: buffer, offset, length.
fn turns(bytes: usize, count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let parts = move |_| (0..bytes).step_by(PIPE_BYTES);
    let all = (0..count).flat_map(parts).enumerate();
    all.map(move |(at, from)| (at % PIPES, from, PIPE_BYTES.min(bytes - from)))
}

/// Bytes per second of messages of `bytes` that one thread copies into reused buffers and another
/// copies out of them, `count` of them.
///
/// # Errors
/// There is no thread to be had.
pub fn two_copies(bytes: usize, count: usize) -> clump_os::Result<f64> {
    let pipes: Vec<Pipe> = (0..PIPES)
        .map(|_| Pipe { state: Line::new(), bytes: Mutex::new(PageAligned::filled(PIPE_BYTES, 1)) })
        .collect();
    let (source, mut target) = (PageAligned::filled(bytes, 7), PageAligned::filled(bytes, 1));
    let ready = Line::new();
    let busy = own_processors();
    std::thread::scope(|threads| {
        let receiver = thread::spawn_scoped(threads, "clump-copy", || {
            move_away_from(&busy);
            ready.0[0].store(1, Ordering::Release);
            for (pipe, from, len) in turns(bytes, count) {
                let pipe = &pipes[pipe];
                spin_until(|| pipe.state.0[0].load(Ordering::Acquire) == 1);
                let full = pipe.bytes.lock().unwrap_or_else(PoisonError::into_inner);
                target[from..from + len].copy_from_slice(&full[..len]);
                drop(full);
                pipe.state.0[0].store(0, Ordering::Release);
            }
        })?;
        spin_until(|| ready.0[0].load(Ordering::Acquire) == 1);
        let_the_other_park();
        let start = clock::now_ns();
        for (pipe, from, len) in turns(bytes, count) {
            let pipe = &pipes[pipe];
            spin_until(|| pipe.state.0[0].load(Ordering::Acquire) == 0);
            let mut free = pipe.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            free[..len].copy_from_slice(&source[from..from + len]);
            drop(free);
            pipe.state.0[0].store(1, Ordering::Release);
        }
        let last = receiver.join().is_ok();
        debug_assert!(last, "the far side copies and nothing else");
        Ok(per_second((bytes * count) as u64, start))
    })
}

/// Steps of the computation that shows if two processors share a core: some 1 ms.
const STEPS: u32 = 300_000;
/// Samples of it.
const COMPUTED: usize = 9;

/// Returns the nanoseconds of a computation that keeps all units of a core busy: eight chains of
/// multiplications beside each other.
fn compute_ns() -> u64 {
    let mut chains: [u64; 8] = std::array::from_fn(|at| std::hint::black_box(at as u64 + 3));
    let start = clock::now_ns();
    for _ in 0..STEPS {
        for x in &mut chains {
            *x = (*x ^ (*x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
    }
    let ns = clock::now_ns() - start;
    std::hint::black_box(chains);
    ns
}

/// Returns the speed of a processor while the other one computes too, over its speed alone: about 1
/// for cores of their own, 0.5 to 0.8 for two hyper-threads of a core.
///
/// # Errors
/// There is no thread to be had.
pub fn speed_beside_another() -> clump_os::Result<f64> {
    let (busy, ready, stop) = (own_processors(), Line::new(), Line::new());
    let least = || (0..COMPUTED).map(|_| compute_ns()).min().unwrap_or(1).max(1);
    let_the_other_park();
    let alone = least();
    std::thread::scope(|threads| {
        thread::spawn_scoped(threads, "clump-beside", || {
            move_away_from(&busy);
            ready.0[0].store(1, Ordering::Release);
            while stop.0[0].load(Ordering::Acquire) == 0 {
                compute_ns();
            }
        })?;
        spin_until(|| ready.0[0].load(Ordering::Acquire) == 1);
        let beside = least();
        stop.0[0].store(1, Ordering::Release);
        #[expect(clippy::cast_precision_loss, reason = "times of a millisecond")]
        Ok(alone as f64 / beside as f64)
    })
}

/// Returns the bytes per second of this machine's memcpy: the same `bytes` from one buffer to
/// another, `count` times.
pub fn one_copy(bytes: usize, count: usize) -> f64 {
    let (source, mut target) = (PageAligned::filled(bytes, 7), PageAligned::filled(bytes, 1));
    let_the_other_park();
    let start = clock::now_ns();
    for _ in 0..count {
        target.copy_from_slice(std::hint::black_box(&*source));
        std::hint::black_box(&mut *target);
    }
    per_second((bytes * count) as u64, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_baseline_moves_what_it_says() {
        // Odd counts: wrap-around and a last part that is not a whole buffer.
        assert!(ring_rate(3 * SLOTS as u64 + 5).unwrap() > 0.0);
        assert!(two_copies(PIPE_BYTES + 17, 9).unwrap() > 0.0);
        assert!(two_copies(1, 3).unwrap() > 0.0);
        assert!(one_copy(4096, 3) > 0.0);
        assert!(speed_beside_another().unwrap() > 0.0);
    }
}
