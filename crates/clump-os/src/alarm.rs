//! Waking a process that waits for a descriptor too: an eventfd beside its sockets.
//!
//! A futex word can only be slept on alone. A rank that waits for shared memory and for the network
//! at once sleeps in `ppoll` on its alarm and its socket; wakers ring the alarm instead of waking a
//! futex.

use crate::error::Result;
use std::os::fd::BorrowedFd;
use std::time::Duration;

#[cfg(not(loom))]
use crate::error::OsError;
#[cfg(not(loom))]
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
#[cfg(not(loom))]
use std::os::fd::{AsFd, OwnedFd};

/// An eventfd that wakes a sleeper. Stays rung until it is cleared.
#[derive(Debug)]
pub struct Alarm {
    #[cfg(not(loom))]
    fd: OwnedFd,
    #[cfg(loom)]
    bed: loom::sync::Mutex<bool>,
    #[cfg(loom)]
    rung: loom::sync::Condvar,
}

/// Events that ended an [`Alarm::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// The alarm is rung.
    pub rung: bool,
    /// The other descriptor has something to read.
    pub other: bool,
}

#[cfg(not(loom))]
impl Alarm {
    /// Creates an alarm, not rung. Closed on exec unless passed on.
    ///
    /// # Errors
    /// No more descriptors are allowed, or the kernel has no memory.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fd = rustix::event::eventfd(0, flags).map_err(|e| OsError::new("eventfd", e))?;
        Ok(Self { fd })
    }

    /// Creates an alarm over a descriptor that another process made and passed on.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Wakes the threads that wait for this alarm, now or until it is cleared.
    pub fn ring(&self) {
        // Full (2^64 - 2 rings not cleared) or interrupted: then it is rung already, or the
        // sleeper's nap ends.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Clears all rings; returns true if there were any.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0; 8]).is_ok()
    }

    /// Sleeps until the alarm is rung or `other` has something to read, at most `limit`. May return
    /// early for no reason. Does not clear the alarm.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Woken {
        let limit = limit.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let mut set = [
            PollFd::new(&self.fd, PollFlags::IN),
            PollFd::from_borrowed_fd(other.unwrap_or(self.fd.as_fd()), PollFlags::IN),
        ];
        let watched = if other.is_some() { 2 } else { 1 };
        if !matches!(rustix::event::poll(&mut set[..watched], limit.as_ref()), Ok(n) if n > 0) {
            return Woken { rung: false, other: false };
        }
        let [rung, heard] = set.map(|fd| !fd.revents().is_empty());
        Woken { rung, other: heard && other.is_some() }
    }
}

/// Stand-in for loom, which has no descriptors: a condition variable, and the other descriptor
/// never becomes readable.
#[cfg(loom)]
impl Alarm {
    /// Creates an alarm, not rung.
    ///
    /// # Errors
    /// Never: loom needs no descriptor.
    pub fn new() -> Result<Self> {
        Ok(Self { bed: loom::sync::Mutex::new(false), rung: loom::sync::Condvar::new() })
    }

    /// Wakes the threads that wait for this alarm, now or until it is cleared.
    pub fn ring(&self) {
        if let Ok(mut rung) = self.bed.lock() {
            *rung = true;
            self.rung.notify_all();
        }
    }

    /// Clears all rings; returns true if there were any.
    pub fn clear(&self) -> bool {
        self.bed.lock().is_ok_and(|mut rung| std::mem::take(&mut *rung))
    }

    /// Sleeps until the alarm is rung. As in the kernel, a sleeper that is woken checks again that
    /// the alarm is still rung, and sleeps on if another thread has cleared it.
    pub fn wait(&self, _other: Option<BorrowedFd<'_>>, _limit: Option<Duration>) -> Woken {
        let Ok(mut rung) = self.bed.lock() else { return Woken { rung: false, other: false } };
        while !*rung {
            match self.rung.wait(rung) {
                Ok(guard) => rung = guard,
                Err(_) => return Woken { rung: false, other: false },
            }
        }
        Woken { rung: true, other: false }
    }
}

#[cfg(not(loom))]
impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_rung_alarm_is_heard_until_it_is_cleared() {
        let alarm = Alarm::new().unwrap();
        let none = Woken { rung: false, other: false };
        assert_eq!(alarm.wait(None, Some(Duration::ZERO)), none);
        assert!(!alarm.clear());
        alarm.ring();
        alarm.ring();
        assert_eq!(alarm.wait(None, None), Woken { rung: true, other: false });
        assert_eq!(alarm.wait(None, None), Woken { rung: true, other: false });
        assert!(alarm.clear());
        assert_eq!(alarm.wait(None, Some(Duration::ZERO)), none);
    }

    #[test]
    fn a_copy_of_the_descriptor_is_the_same_alarm() {
        let alarm = Alarm::new().unwrap();
        let copy = Alarm::from_fd(alarm.as_fd().try_clone_to_owned().unwrap());
        copy.ring();
        assert!(alarm.clear() && !copy.clear());
    }

    #[test]
    fn the_other_descriptor_is_heard_too() {
        let alarm = Alarm::new().unwrap();
        let (a, b) = crate::socket::stream_pair().unwrap();
        let wait = || alarm.wait(Some(a.as_fd()), Some(Duration::ZERO));
        assert_eq!(wait(), Woken { rung: false, other: false });
        crate::socket::send(&b, b"x", None).unwrap();
        assert_eq!(wait(), Woken { rung: false, other: true });
        alarm.ring();
        assert_eq!(wait(), Woken { rung: true, other: true });
    }
}
