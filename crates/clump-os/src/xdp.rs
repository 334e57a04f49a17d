//! AF_XDP sockets by raw system calls: frames that a program in the kernel takes out of an
//! interface's receive queue before its protocols see them, and puts into memory of ours.
//!
//! In two halves. A privileged process opens ([`open`]): memory for frames, a socket bound to queue
//! 0 of an interface, and the program, which is detached with its [`Attached`] descriptor. The
//! driver maps ([`Rings::over`]); the descriptors are all it needs.
//!
//! The kernel gives a queue to one socket, and frames that are not IP all arrive by queue 0. So an
//! interface serves one socket; frames for others pass on to the kernel.

mod mode;
mod program;
mod ring;

pub use mode::Mode;
pub use program::Attached;

use crate::error::{OsError, Result};
use crate::map::{self, Mapping};
use crate::packet::Match;
use ring::XdpRing;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes of a frame buffer.
pub const FRAME_BYTES: usize = 2048;
/// Longest frame that is received: the kernel keeps some room before it.
pub const MAX_BYTES: usize = FRAME_BYTES - 256;
/// Frames that may wait to be received.
pub const RECEIVING: usize = 512;
/// Frames that may wait to be sent.
const SENDING: usize = 128;
const MEMORY_BYTES: usize = (RECEIVING + SENDING) * FRAME_BYTES;

// linux/if_xdp.h
const UMEM_REG: libc::c_int = 4;
const SIZES: [(libc::c_int, usize); 4] =
    [(5, RECEIVING), (6, SENDING), (2, RECEIVING), (3, SENDING)];
const MMAP_OFFSETS: libc::c_int = 1;
const STATISTICS: libc::c_int = 7;
const PAGES_RECEIVED: u64 = 0;
const PAGES_SENT: u64 = 0x8000_0000;
const PAGES_FILL: u64 = 0x1_0000_0000;
const PAGES_COMPLETED: u64 = 0x1_8000_0000;
const BIND_COPY: u16 = 1 << 1;
const BIND_ZERO_COPY: u16 = 1 << 2;

/// Result of [`open`].
#[derive(Debug)]
pub struct Opened {
    /// The socket.
    pub socket: OwnedFd,
    /// The memory of its frames.
    pub memory: OwnedFd,
    /// The program; frames come as long as this lives.
    pub attached: Attached,
    /// The position of the program.
    pub mode: Mode,
    /// True if the device reads and writes that memory itself.
    pub zero_copy: bool,
}

/// Opens a socket on an interface for frames that match everywhere, in the first of `modes` that
/// works.
///
/// # Errors
/// `PERM` without CAP_NET_ADMIN here and CAP_BPF on the machine, `BUSY` when another process has
/// the queue.
pub fn open(interface: u32, accept: &[Match], modes: &[Mode]) -> Result<Opened> {
    let mut refused = OsError::new("choosing a mode of XDP", Errno::INVAL);
    for &mode in modes {
        // Only a device's own driver can do without copies.
        let bindings: &[u16] = match mode {
            Mode::Native => &[BIND_ZERO_COPY, BIND_COPY],
            Mode::Generic => &[BIND_COPY],
        };
        for &binding in bindings {
            match open_as(interface, accept, mode, binding) {
                Ok(opened) => return Ok(opened),
                Err(e) => refused = e,
            }
        }
    }
    Err(refused)
}

/// Does the steps of [`open`] that need no interface, to find out if the kernel allows them.
///
/// # Errors
/// The kernel refuses one of them.
pub fn probe() -> Result<()> {
    let (socket, _memory) = prepare()?;
    program::load(&[Match { at: 12, width: 2, value: 0 }], &socket).map(drop)
}

fn open_as(interface: u32, accept: &[Match], mode: Mode, binding: u16) -> Result<Opened> {
    let (socket, memory) = prepare()?;
    let attached = program::attach(interface, program::load(accept, &socket)?, mode)?;
    bind(&socket, interface, binding).map_err(|e| OsError::new("binding an XDP socket", e))?;
    Ok(Opened { socket, memory, attached, mode, zero_copy: binding == BIND_ZERO_COPY })
}

/// Creates a socket with memory and rings, bound to nothing.
fn prepare() -> Result<(OwnedFd, OwnedFd)> {
    let failed = |what: &str, e| OsError::new(format!("{what} an XDP socket"), e);
    let memory = map::sealed_memory("clump-frames", MEMORY_BYTES as u64)?;
    // The kernel keeps the pages; it needs the mapping only to find them.
    let mapping = Mapping::shared(&memory, 0, MEMORY_BYTES)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
        .map_err(|e| failed("opening", e))?;
    let chunk = FRAME_BYTES as u64;
    // struct xdp_umem_reg: address, length, chunk and headroom, flags and length of metadata.
    let region = [mapping.base().as_ptr() as u64, MEMORY_BYTES as u64, chunk, 0];
    set(&socket, UMEM_REG, &region).map_err(|e| failed("registering memory for", e))?;
    for (option, entries) in SIZES {
        set(&socket, option, &u32::try_from(entries).unwrap_or(0))
            .map_err(|e| failed("making the rings of", e))?;
    }
    Ok((socket, memory))
}

/// Returns true if `socket` is an XDP socket.
pub fn is_xdp_socket(socket: impl AsFd) -> bool {
    sockopt::socket_domain(socket).is_ok_and(|domain| domain == AddressFamily::XDP)
}

/// The mapped rings of a socket from [`open`]: one reader, one writer, the same thread.
#[derive(Debug)]
pub struct Rings {
    memory: Mapping,
    fill: XdpRing,
    received: XdpRing,
    sent: XdpRing,
    completed: XdpRing,
    /// Offsets of free send buffers.
    free: Vec<u64>,
    /// Offset and length of the frame that waits.
    waiting: Option<(usize, usize)>,
    /// Frames known to be lost.
    dropped: u64,
}

impl Rings {
    /// Maps the rings of `socket` and the memory of its frames, and lets the kernel receive.
    ///
    /// # Errors
    /// `memory` or the rings are not as [`open`] made them, or address space has run out.
    pub fn over(socket: BorrowedFd<'_>, memory: BorrowedFd<'_>) -> Result<Self> {
        let broken = || OsError::new("mapping the rings of an XDP socket", Errno::BADMSG);
        if map::sealed_size(memory)? != Some(MEMORY_BYTES as u64) {
            return Err(broken());
        }
        // struct xdp_mmap_offsets: received, sent, fill, completed, each producer, consumer,
        // entries, flags.
        let mut offsets = [[0_u64; 4]; 4];
        let mut bytes = libc::socklen_t::try_from(size_of_val(&offsets)).unwrap_or(0);
        // SAFETY: `offsets` is live and `bytes` is its size; the kernel writes no more than that.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_XDP,
                MMAP_OFFSETS,
                offsets.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if result != 0 || bytes as usize != size_of_val(&offsets) {
            return Err(OsError::last("XDP_MMAP_OFFSETS"));
        }
        let ring = |at: usize, page, entries, entry_bytes| {
            XdpRing::map(socket, page, offsets[at], entries, entry_bytes)?.ok_or_else(broken)
        };
        let mut rings = Self {
            memory: Mapping::shared(memory, 0, MEMORY_BYTES)?,
            received: ring(0, PAGES_RECEIVED, RECEIVING, 16)?,
            sent: ring(1, PAGES_SENT, SENDING, 16)?,
            fill: ring(2, PAGES_FILL, RECEIVING, 8)?,
            completed: ring(3, PAGES_COMPLETED, SENDING, 8)?,
            free: (RECEIVING..RECEIVING + SENDING).map(|at| (at * FRAME_BYTES) as u64).collect(),
            waiting: None,
            dropped: 0,
        };
        for at in 0..RECEIVING {
            rings.fill.put(&[(at * FRAME_BYTES) as u64]);
        }
        Ok(rings)
    }

    /// Returns the bytes of the frame that waits, if one does; 0 for one that the kernel describes
    /// wrongly.
    #[inline]
    pub fn waiting(&mut self) -> Option<usize> {
        if self.waiting.is_none() {
            let [place, length] = self.received.peek::<2>()?;
            let (place, length) = (place as usize, (length & 0xffff_ffff) as usize);
            let inside = length <= FRAME_BYTES && place < RECEIVING * FRAME_BYTES - length;
            self.waiting = Some((place, if inside { length } else { 0 }));
        }
        self.waiting.map(|(_, length)| length)
    }

    /// Copies the frame that [`Rings::waiting`] announced, from byte `from` of it on, as far as
    /// there is any.
    #[inline]
    pub fn copy(&self, from: usize, into: &mut [u8]) {
        let Some((place, length)) = self.waiting else { return };
        let bytes = into.len().min(length.saturating_sub(from));
        if bytes == 0 {
            return;
        }
        // SAFETY: `waiting` has made sure that a frame of any length is inside the memory, and
        // `from + bytes` is inside the frame. Others may write there: only copied, never referred
        // to.
        unsafe {
            let source = self.memory.base().as_ptr().add(place + from);
            std::ptr::copy_nonoverlapping(source, into.as_mut_ptr(), bytes);
        }
    }

    /// Gives the frame's buffer back to the kernel.
    #[inline]
    pub fn advance(&mut self) {
        let Some((place, _)) = self.waiting.take() else { return };
        self.received.take();
        if place < RECEIVING * FRAME_BYTES {
            self.fill.put(&[(place - place % FRAME_BYTES) as u64]);
        }
    }

    /// Returns the frames lost since the last call, because the ones before were not taken in time.
    pub fn dropped(&mut self, socket: BorrowedFd<'_>) -> u64 {
        // struct xdp_statistics: dropped, and others of which the fourth and fifth count frames
        // lost for want of buffers to receive into.
        let mut counts = [0_u64; 6];
        let mut bytes = libc::socklen_t::try_from(size_of_val(&counts)).unwrap_or(0);
        // SAFETY: `counts` is live and `bytes` is its size; the kernel writes no more than that.
        unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_XDP,
                STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let all = counts[0] + counts[3] + counts[4];
        all - std::mem::replace(&mut self.dropped, all)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `NOBUFS`: no room now. `MSGSIZE`: the frame is too long.
    #[inline]
    pub fn send(&mut self, socket: BorrowedFd<'_>, frame: &[u8]) -> std::result::Result<(), Errno> {
        while let Some([place]) = self.completed.peek::<1>() {
            self.completed.take();
            let index = (place / FRAME_BYTES as u64) as usize;
            if (RECEIVING..RECEIVING + SENDING).contains(&index) && self.free.len() < SENDING {
                self.free.push((index * FRAME_BYTES) as u64);
            }
        }
        if frame.len() > FRAME_BYTES {
            return Err(Errno::MSGSIZE);
        }
        let Some(place) = self.free.pop() else {
            kick(socket);
            return Err(Errno::NOBUFS);
        };
        // SAFETY: `free` holds only places of whole frames inside the memory, and the frame is no
        // longer.
        unsafe {
            let target = self.memory.base().as_ptr().add(place as usize);
            std::ptr::copy_nonoverlapping(frame.as_ptr(), target, frame.len());
        }
        // There is an entry for every place.
        self.sent.put(&[place, frame.len() as u64]);
        kick(socket);
        Ok(())
    }
}

/// Notifies the kernel that there are frames to send. Frames that it does not take now it takes the
/// next time.
#[inline]
fn kick(socket: BorrowedFd<'_>) {
    // SAFETY: nothing is pointed to.
    unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            std::ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null(),
            0,
        )
    };
}

fn bind(socket: &OwnedFd, interface: u32, flags: u16) -> std::result::Result<(), Errno> {
    let name = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let bytes = libc::socklen_t::try_from(size_of_val(&name)).unwrap_or(0);
    // SAFETY: name is live for the call, with this length; the kernel only reads it.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> std::result::Result<(), Errno> {
    let bytes = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::TOOBIG)?;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: value is live with this size; the kernel only reads it, and the memory that a region
    // names is a mapping that outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, bytes) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Returns the error of the last libc call of this thread.
fn last() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
