//! TUN devices: interfaces whose packets a program reads and writes.

use crate::error::{OsError, Result};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The file that makes devices.
const MAKER: &str = "/dev/net/tun";
/// `linux/if_tun.h`: packets of IP without anything before them.
const FLAGS: libc::c_int = libc::IFF_TUN | libc::IFF_NO_PI;

/// One device, in the network namespace in which it was made. It goes with its descriptor.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes the device `name` in this thread's network namespace. It is down, and has no address.
    ///
    /// # Errors
    /// The kernel has no such devices, or this process may not make any.
    pub fn open(name: &str) -> Result<Self> {
        let file = open_maker()?;
        // SAFETY: an all-zero ifreq is a valid one: numbers and an array of bytes.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero and ends the name.
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_flags = FLAGS as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which outlives the call.
        let rc = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if rc != 0 {
            return Err(OsError::last(format!("making the TUN device {name}")));
        }
        Ok(Self(file.into()))
    }

    /// Takes a packet that the kernel sends through the device; `None`: there is none.
    ///
    /// # Errors
    /// The device is gone, or `into` is too short.
    pub fn receive(&self, into: &mut [u8]) -> Result<Option<usize>> {
        match rustix::io::read(&self.0, into) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(e) => Err(OsError::new("reading from a TUN device", e)),
        }
    }

    /// Gives the kernel a packet as if it had arrived by the device. Returns false if the kernel
    /// drops it.
    ///
    /// # Errors
    /// The device is gone.
    pub fn send(&self, packet: &[u8]) -> Result<bool> {
        match rustix::io::write(&self.0, packet) {
            Ok(bytes) => Ok(bytes == packet.len()),
            Err(Errno::BADFD) => Err(OsError::new("writing to a TUN device", Errno::BADFD)),
            // Down, no memory, no packet of IP.
            Err(_) => Ok(false),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens the file that makes devices, without making one.
///
/// # Errors
/// There is none, or this user may not open it.
pub(crate) fn open_maker() -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    options.open(MAKER).map_err(|e| OsError::of(format!("opening {MAKER}"), &e))
}
