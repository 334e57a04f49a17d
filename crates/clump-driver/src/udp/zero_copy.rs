//! Zero-copy sends of datagrams whose memory stays unchanged until they have arrived.

use super::send::{is_passing, run_length};
use super::sockets::Udp;
use crate::driver::{MIN_KEPT, Outgoing};
use crate::error::DriverError;
use clump_os::udp::ZeroCopyPipe;
use rustix::io::Errno;

/// Failures after which this machine counts as incapable of zero-copy sends.
const MAX_FAILURES: u32 = 8;

/// Minimum bytes of a part of a batch that is sent zero-copy by itself.
const MIN_RUN: usize = 16 << 10;

impl Udp {
    /// Sends in order, zero-copy as far as that works: long datagrams, and runs of equal ones.
    pub(super) fn send_zero_copy(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let longest = if self.capabilities.gso { self.options.gso_segments } else { 1 };
        let mut taken = 0;
        while taken < batch.len() {
            let rest = &batch[taken..];
            let run = touching(&rest[..run_length(rest, longest, self.options.gso_bytes)]);
            let (now, later) = rest.split_at(run);
            // The short end of one buffer is no reason to copy all of the next.
            let short = bytes_of(now) < MIN_RUN && bytes_of(later) >= MIN_KEPT;
            if short && self.showing.failures < MAX_FAILURES {
                let sent = self.send_copied(now).map_err(|e| e.behind(taken))?;
                if sent < run {
                    return Ok(taken + sent);
                }
            } else if !self.splice_run(now) {
                let sent = self.send_copied(rest);
                return sent.map(|sent| taken + sent).map_err(|e| e.behind(taken));
            }
            taken += run;
        }
        Ok(taken)
    }

    /// Sends a run zero-copy. Returns true if it was sent. Only connected sockets can: a page bears
    /// no address.
    fn splice_run(&mut self, run: &[Outgoing<'_>]) -> bool {
        let Some(first) = run.first() else { return false };
        let bytes = bytes_of(run);
        let whole = run.iter().all(|one| one.body.is_empty() && one.tail.is_empty());
        if !whole || bytes < MIN_RUN || self.showing.failures >= MAX_FAILURES {
            return false;
        }
        let segment = if run.len() == 1 { Ok(0) } else { u16::try_from(first.bytes()) };
        let Ok(segment) = segment else { return false };
        let main = self.socket_towards(&first.to);
        let Some(number) = self.connection_to(main, &first.to) else { return false };
        if !self.connections.cut(number, segment, bytes) {
            return false;
        }
        let Some(socket) = self.connections.socket(number) else { return false };
        let zero_copy_pipe = self.showing.zero_copy_pipe.take().map_or_else(ZeroCopyPipe::new, Ok);
        let result = match zero_copy_pipe {
            Err(_) => Err(Errno::MFILE),
            Ok(mut zero_copy_pipe) => {
                let sent = zero_copy_pipe.send(socket, run.iter().map(|one| one.head));
                let Some(sent) = sent else {
                    self.showing.zero_copy_pipe = Some(zero_copy_pipe);
                    return false;
                };
                // Data left in it after a failure must not get into the next datagram.
                self.showing.zero_copy_pipe = sent.is_ok().then_some(zero_copy_pipe);
                sent
            }
        };
        self.counts.send_calls += 1;
        match result {
            Ok(()) => {
                self.counts.sent += run.len() as u64;
                self.counts.shown += run.len() as u64;
                self.counts.segmented += if run.len() > 1 { run.len() as u64 } else { 0 };
            }
            // An oversized datagram is reported when it is copied.
            Err(e) => self.showing.failures += u32::from(!is_passing(e) && e != Errno::MSGSIZE),
        }
        result.is_ok()
    }
}

fn bytes_of(batch: &[Outgoing<'_>]) -> usize {
    batch.iter().map(Outgoing::bytes).sum()
}

/// Returns the number of datagrams at the beginning of `run` that are contiguous in memory, so that
/// they can be sent zero-copy together.
fn touching(run: &[Outgoing<'_>]) -> usize {
    let apart = |two: &[Outgoing<'_>]| matches!(two, [one, next] if one.head.as_ptr_range().end != next.head.as_ptr());
    run.windows(2).position(apart).map_or(run.len(), |at| at + 1)
}
