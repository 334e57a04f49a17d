//! Waiting for many descriptors at once.

use crate::error::{OsError, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Maximal number of descriptors that one wait reports: more than a launcher has, so that it reads
/// all its agents' messages before it decides about any of them.
pub const MAX_READY: usize = 1024;

/// Events that a descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the other end closed.
    Read,
    /// Something to read, room to write, or the other end closed.
    ReadWrite,
    /// Room to write, or the other end closed.
    Write,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::ReadWrite => EventFlags::IN | EventFlags::OUT,
            Interest::Write => EventFlags::OUT,
        }
    }
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Token with which it was added.
    pub token: u64,
    /// Reading will not block (there is something, or the end).
    pub readable: bool,
    /// Writing will not block.
    pub writable: bool,
}

/// A set of descriptors to wait for. Level triggered: an event that is not handled is reported
/// again.
#[derive(Debug)]
pub struct Poller {
    fd: OwnedFd,
}

impl Poller {
    /// Creates an empty set.
    ///
    /// # Errors
    /// No more descriptors are allowed, or the kernel has no memory.
    pub fn new() -> Result<Self> {
        let fd =
            epoll::create(CreateFlags::CLOEXEC).map_err(|e| OsError::new("epoll_create", e))?;
        Ok(Self { fd })
    }

    /// Adds a descriptor. It must be removed before it is closed, unless no other descriptor refers
    /// to the same file.
    ///
    /// # Errors
    /// It is in the set already, or cannot be waited for.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::add(&self.fd, source, EventData::new_u64(token), interest.flags())
            .map_err(|e| OsError::new("epoll_ctl(ADD)", e))
    }

    /// Changes the events that a descriptor is watched for.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn change(&self, source: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::modify(&self.fd, source, EventData::new_u64(token), interest.flags())
            .map_err(|e| OsError::new("epoll_ctl(MOD)", e))
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn remove(&self, source: impl AsFd) -> Result<()> {
        epoll::delete(&self.fd, source).map_err(|e| OsError::new("epoll_ctl(DEL)", e))
    }

    /// Waits until a descriptor is ready or `limit` is over (then the list is empty). Returns at
    /// most [`MAX_READY`] at once.
    ///
    /// # Errors
    /// The kernel cannot wait, which it always can.
    pub fn wait(&self, limit: Option<Duration>) -> Result<Vec<Ready>> {
        let limit = limit.map(timespec);
        let mut space = [MaybeUninit::uninit(); MAX_READY];
        let events = match epoll::wait(&self.fd, &mut space, limit.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(e) => return Err(OsError::new("epoll_wait", e)),
        };
        let gone = EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        let ready = |event: &epoll::Event| {
            let flags = event.flags;
            Ready {
                token: event.data.u64(),
                readable: flags.intersects(EventFlags::IN | gone),
                writable: flags.contains(EventFlags::OUT),
            }
        };
        Ok(events.iter().map(ready).collect())
    }

    /// Waits as [`Poller::wait`] does, which rounds a limit up to whole milliseconds: this does
    /// not, for a further system call.
    ///
    /// # Errors
    /// The kernel cannot wait, which it always can.
    pub fn wait_exactly(&self, limit: Duration) -> Result<Vec<Ready>> {
        let mut own = [PollFd::new(&self.fd, PollFlags::IN)];
        match rustix::event::poll(&mut own, Some(&timespec(limit))) {
            Ok(_) => self.wait(Some(Duration::ZERO)),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(e) => Err(OsError::new("ppoll", e)),
        }
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

/// Readable when any of its descriptors is ready, so that one set can be waited for in another.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_reported_until_dealt_with() {
        let poller = Poller::new().unwrap();
        let (a, b) = crate::socket::stream_pair().unwrap();
        poller.add(&a, 7, Interest::Read).unwrap();
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
        crate::socket::send(&b, b"x", None).unwrap();
        let there = Ready { token: 7, readable: true, writable: false };
        assert_eq!(poller.wait(None).unwrap(), [there]);
        assert_eq!(poller.wait(None).unwrap(), [there]);
        assert_eq!(poller.wait_exactly(Duration::from_secs(1)).unwrap(), [there]);
        poller.change(&a, 8, Interest::ReadWrite).unwrap();
        assert_eq!(
            poller.wait(None).unwrap(),
            [Ready { token: 8, readable: true, writable: true }]
        );
        poller.remove(&a).unwrap();
        assert!(poller.wait_exactly(Duration::from_nanos(1)).unwrap().is_empty());
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
    }
}
