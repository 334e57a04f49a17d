//! The end of a process that this one has not started: seen by a descriptor, explained by the
//! kernel.

use crate::process::Exit;
use crate::procfs;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::{AsFd, AsRawFd};

/// `PIDFD_GET_INFO` of the kernel's `linux/pidfd.h`: `_IOWR(0xFF, 11, struct pidfd_info)` in its
/// first version, of 64 bytes.
const GET_INFO: libc::c_ulong = 0xc040_ff0b;
/// Bit that requests the exit code (`PIDFD_INFO_EXIT`), kernel 6.15 and later.
const INFO_EXIT: u64 = 1 << 3;
/// Bytes of that version.
const INFO_BYTES: usize = 64;
/// Place of the exit code: behind two words of 64 bits, and 11 of 32.
const EXIT_AT: usize = 60;

/// Returns true if the process behind a [`crate::process::pidfd`] has ended.
pub fn has_ended(pidfd: impl AsFd) -> bool {
    let mut one = [PollFd::new(&pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut one, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Returns how process `pid` ended, which [`has_ended`]; none where the kernel does not report it.
///
/// Until its parent has waited for it, the end is read from `/proc`; from then on from the
/// descriptor, since kernel 6.15.
pub fn end_of(pid: u32, pidfd: impl AsFd) -> Option<Exit> {
    debug_assert!(has_ended(&pidfd), "it has ended");
    // It may be waited for between the two reads, never the other way round.
    procfs::zombie_status(pid).or_else(|| exit_status(&pidfd)).map(decode)
}

fn decode(status: i32) -> Exit {
    let small = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
    match status & 0x7f {
        0 => Exit::Code(small(status >> 8)),
        signal => Exit::Signal(small(signal)),
    }
}

fn exit_status(pidfd: impl AsFd) -> Option<i32> {
    let mut info = [0_u64; INFO_BYTES / 8];
    info[0] = INFO_EXIT;
    // SAFETY: the request number encodes that the kernel reads and writes 64 bytes, which `info`
    // has.
    let done = unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), GET_INFO, &raw mut info) };
    if done != 0 || info[0] & INFO_EXIT == 0 {
        return None;
    }
    let bytes = info[EXIT_AT / 8].to_ne_bytes();
    let status: [u8; 4] = bytes[EXIT_AT % 8..].try_into().ok()?;
    Some(i32::from_ne_bytes(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use std::process::Command;

    fn ended(script: &str, reaped: bool) -> Option<Exit> {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pidfd = process::pidfd(child.id()).unwrap();
        let mut one = [PollFd::new(&pidfd, PollFlags::IN)];
        rustix::event::poll(&mut one, None).unwrap();
        if reaped {
            child.wait().unwrap();
        }
        assert!(has_ended(&pidfd));
        let end = end_of(child.id(), &pidfd);
        child.wait().unwrap();
        end
    }

    #[test]
    fn a_zombie_tells_its_end() {
        assert_eq!(ended("exit 7", false), Some(Exit::Code(7)));
        assert_eq!(ended("kill -9 $$", false), Some(Exit::Signal(9)));
    }

    #[test]
    fn what_has_been_waited_for_tells_its_end_or_nothing() {
        let (code, signal) = (ended("exit 7", true), ended("kill -15 $$", true));
        assert!(code.is_none() || code == Some(Exit::Code(7)), "{code:?}");
        assert!(signal.is_none() || signal == Some(Exit::Signal(15)), "{signal:?}");
        assert_eq!(code.is_some(), signal.is_some(), "the kernel reports both or none");
    }

    #[test]
    fn what_runs_has_not_ended() {
        assert!(!has_ended(process::pidfd(process::own_pid()).unwrap()));
    }
}
