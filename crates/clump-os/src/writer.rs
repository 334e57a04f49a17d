//! Output that never blocks its caller: a thread writes the queued bytes, in order.
//!
//! An inherited stream belongs to other processes too, so it cannot be made non-blocking. Readiness
//! of a pipe or a terminal does not imply how much of a write it takes, and changes when another
//! process writes there too. So a thread may block, and its callers do not.
//!
//! Contract: [`Writer::write`] queues without a limit. Its callers check [`Writer::pending`], and
//! stop taking in data to write when it grows. The alarm rings when little is left, when nothing is
//! left, and on a failure.

use crate::alarm::Alarm;
use crate::error::{OsError, Result};
use crate::thread;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most bytes of one call of `write`, and of one chunk of the queue.
const PIECE: usize = 64 << 10;
/// Bytes of the thread's stack: it does little.
const STACK: usize = 128 << 10;

/// A thread that writes to some streams, in the order in which bytes were queued.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    targets: Vec<OwnedFd>,
    /// Pending bytes at which the alarm rings.
    few: usize,
    bell: Arc<Alarm>,
    state: Mutex<ClaimState>,
    more: Condvar,
}

#[derive(Debug)]
struct ClaimState {
    queue: VecDeque<(usize, Vec<u8>)>,
    /// Bytes in the queue, and the rest of the chunk that is being written.
    pending: usize,
    /// Error by target, which takes nothing more after it.
    failures: Vec<Option<Errno>>,
    /// Number of calls of [`Writer::discard`]: chunks taken before the last one do not count any
    /// more.
    discarded: u32,
    /// True if the thread has a chunk, with which it may be blocked.
    busy: bool,
    ending: bool,
}

impl Writer {
    /// Starts the thread. `bell` rings when as few as `few` bytes are left.
    ///
    /// # Errors
    /// A limit keeps the thread from being started.
    pub fn start(targets: Vec<OwnedFd>, few: usize, bell: Arc<Alarm>) -> Result<Self> {
        let state = ClaimState {
            queue: VecDeque::new(),
            pending: 0,
            failures: vec![None; targets.len()],
            discarded: 0,
            busy: false,
            ending: false,
        };
        let (state, more) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { targets, few, bell, state, more });
        let mine = shared.clone();
        let thread = thread::spawn_with_stack("clump-writer", STACK, move || mine.work())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues bytes for a target. A failed target ignores them.
    pub fn write(&self, target: usize, bytes: &[u8]) {
        let mut state = self.shared.state();
        if bytes.is_empty() || state.failures.get(target).is_none_or(Option::is_some) {
            return;
        }
        state.pending += bytes.len();
        match state.queue.back_mut() {
            Some((last, chunk)) if *last == target && chunk.len() < PIECE => {
                chunk.extend_from_slice(bytes);
            }
            _ => state.queue.push_back((target, bytes.to_vec())),
        }
        self.shared.more.notify_one();
    }

    /// Returns the bytes that have not been written.
    pub fn pending(&self) -> usize {
        self.shared.state().pending
    }

    /// Returns the error of a target, if it failed; it takes nothing more.
    pub fn failure(&self, target: usize) -> Option<Errno> {
        self.shared.state().failures.get(target).copied().flatten()
    }

    /// Drops the queue. A write that the kernel blocks continues, and is not counted any more.
    pub fn discard(&self) {
        let mut state = self.shared.state();
        state.queue.clear();
        state.pending = 0;
        state.discarded += 1;
    }

    /// Waits until the queue is empty, while `may_wait` returns true; returns true if it became
    /// empty.
    pub fn drain(&self, may_wait: impl Fn() -> bool) -> bool {
        const LOOK: Duration = Duration::from_millis(10);
        while self.pending() > 0 {
            if !may_wait() {
                return false;
            }
            self.shared.bell.wait(None, Some(LOOK));
            self.shared.bell.clear();
        }
        true
    }
}

impl Drop for Writer {
    /// Drops the queue; a thread that the kernel blocks ends with the process.
    fn drop(&mut self) {
        let idle = {
            let mut state = self.shared.state();
            state.ending = true;
            state.queue.clear();
            !state.busy
        };
        self.shared.more.notify_one();
        if let Some(thread) = self.thread.take().filter(|_| idle) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((discarded, target, chunk)) = self.next() {
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let written = self.put(target, &rest[..rest.len().min(PIECE)]);
                let (gone, failed) = match written {
                    Ok(bytes) => (bytes, None),
                    Err(why) => (rest.len(), Some(why)),
                };
                debug_assert!(gone > 0 && gone <= rest.len());
                rest = &rest[gone..];
                if !self.account(discarded, target, gone, failed) {
                    break;
                }
            }
        }
    }

    /// Takes the next chunk, once there is one; returns `None` at the end.
    fn next(&self) -> Option<(u32, usize, Vec<u8>)> {
        let mut state = self.state();
        loop {
            let next = state.queue.pop_front();
            state.busy = next.is_some();
            if let Some((target, chunk)) = next {
                return Some((state.discarded, target, chunk));
            }
            if state.ending {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes some of `piece`, at least a byte; may block.
    fn put(&self, target: usize, piece: &[u8]) -> std::result::Result<usize, Errno> {
        let stream = self.targets.get(target).ok_or(Errno::BADF)?;
        loop {
            match rustix::io::write(stream, piece) {
                // As for a full disk; no file returns 0 for a write of more than nothing.
                Ok(0) => return Err(Errno::NOSPC),
                Ok(bytes) => return Ok(bytes),
                Err(Errno::INTR) => {}
                // Another process that has the stream too made it non-blocking.
                Err(Errno::AGAIN) => {
                    let mut room = [PollFd::new(stream, PollFlags::OUT)];
                    let _ = rustix::event::poll(&mut room, None);
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Accounts for `gone` bytes that are written, or will never be. Returns false when the rest of
    /// the chunk is to be dropped.
    fn account(&self, before: u32, target: usize, gone: usize, failed: Option<Errno>) -> bool {
        let mut state = self.state();
        if let Some(why) = failed {
            state.failures[target].get_or_insert(why);
            let ClaimState { queue, pending, .. } = &mut *state;
            queue.retain(|(of, chunk)| {
                let stays = *of != target;
                *pending -= if stays { 0 } else { chunk.len() };
                stays
            });
        }
        let wanted = state.discarded == before;
        let had = state.pending;
        if wanted {
            state.pending -= gone;
        }
        let crossed = had > self.few && state.pending <= self.few;
        if crossed || state.pending == 0 || failed.is_some() {
            self.bell.ring();
        }
        wanted && failed.is_none()
    }
}

/// Writes `text` to this process's error stream if that takes it within `limit`, else drops it: for
/// last words of a process that has to end.
pub fn say_within(limit: Duration, text: &str) {
    use std::os::fd::AsFd;
    let writer = || {
        let stream = std::io::stderr().as_fd().try_clone_to_owned();
        let stream = stream.map_err(|e| OsError::of("taking the error stream", &e))?;
        Writer::start(vec![stream], 0, Arc::new(Alarm::new()?))
    };
    // Without a thread no write is sure to end.
    let Ok(writer) = writer() else { return };
    writer.write(0, text.as_bytes());
    let end_ns = crate::clock::now_ns().saturating_add(limit.as_nanos() as u64);
    writer.drain(|| crate::clock::now_ns() < end_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    const TIME_LIMIT_NS: u64 = 20_000_000_000;

    fn soon() -> impl Fn() -> bool {
        let end_ns = crate::clock::now_ns() + TIME_LIMIT_NS;
        move || crate::clock::now_ns() < end_ns
    }

    fn start(targets: Vec<OwnedFd>, few: usize) -> Writer {
        Writer::start(targets, few, Arc::new(Alarm::new().unwrap())).unwrap()
    }

    #[test]
    fn two_names_of_one_pipe_keep_their_order_and_nobody_waits() {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let both = [&pipe, &pipe].map(|end| end.as_fd().try_clone_to_owned().unwrap());
        drop(pipe);
        let writer = start(both.into(), 100);
        let mut all = Vec::new();
        // Far more than a pipe holds.
        for line in 0..50_000 {
            let text = format!("line {line}\n");
            writer.write(line % 2, text.as_bytes());
            all.extend_from_slice(text.as_bytes());
        }
        assert!(writer.pending() > 100_000);
        let mut read = vec![0; all.len()];
        reader.read_exact(&mut read).unwrap();
        assert!(read == all, "in the order in which it was handed over");
        assert!(writer.drain(soon()));
        drop(writer);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn what_nobody_reads_is_thrown_away_on_request() {
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let writer = start(vec![pipe.into()], 0);
        writer.write(0, &vec![7; 1 << 20]);
        writer.write(0, &vec![8; 1 << 20]);
        writer.discard();
        assert_eq!(writer.pending(), 0);
        // Later bytes come after those that the kernel had taken, and no others.
        writer.write(0, b"end");
        let mut read = vec![0; 64 << 10];
        let mut last = Vec::new();
        while !last.ends_with(b"end") {
            let bytes = reader.read(&mut read).unwrap();
            last.extend_from_slice(&read[..bytes]);
        }
        assert!(last.len() < 1 << 20 && !last.contains(&8), "{} bytes", last.len());
        assert!(writer.drain(soon()));
    }

    #[test]
    fn a_writer_whose_thread_is_held_up_can_be_dropped() {
        let (_reader, pipe) = std::io::pipe().unwrap();
        let writer = start(vec![pipe.into()], 0);
        writer.write(0, &vec![7; 1 << 20]);
        let held_up = || writer.shared.state().busy;
        let may_wait = soon();
        while !held_up() {
            assert!(may_wait());
            crate::clock::yield_now();
        }
        writer.discard();
        drop(writer);
    }

    #[test]
    fn a_target_that_fails_says_why_and_leaves_the_other_alone() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let writer = start(vec![full.into(), pipe.into()], 0);
        writer.write(0, b"lost");
        writer.write(1, b"kept");
        assert!(writer.drain(soon()));
        assert_eq!((writer.failure(0), writer.failure(1)), (Some(Errno::NOSPC), None));
        writer.write(0, b"lost too");
        assert_eq!(writer.pending(), 0);
        let mut read = [0; 4];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"kept");
    }
}
