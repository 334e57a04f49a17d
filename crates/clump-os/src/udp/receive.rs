//! Receiving: one datagram by the shortest path, one with all its metadata, several at once.

use super::errno;
use super::name::{NAME_BYTES, Name};
use super::send::empty_header;
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Bytes of control data for one message: traffic class, segment size and time take 72 here; a
/// buffer that is too small would silently lose marks.
const CONTROL_BYTES: usize = 256;

/// Control data, for the kernel to fill.
#[repr(C, align(8))]
struct Control(MaybeUninit<[u8; CONTROL_BYTES]>);

/// A received datagram, or a run of them, with its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes in the buffer.
    pub bytes: usize,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Traffic class, whose low two bits are the ECN mark; 0 where it was not requested.
    pub class: u8,
    /// Bytes of each datagram in the buffer but the last, where there are several.
    pub segment: Option<usize>,
    /// Time of arrival in nanoseconds of the real-time clock, where requested.
    pub arrived_ns: Option<u64>,
}

/// Takes the next datagram. Only for sockets with GRO off: it does not report the boundaries of a
/// run of datagrams.
///
/// # Errors
/// `AGAIN`: there is none. Others: the kernel refuses.
#[inline]
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, SocketAddr), Errno> {
    let mut name = Name::EMPTY;
    let mut length = NAME_BYTES as libc::socklen_t;
    // SAFETY: buffer, name and length are live for the call, and the kernel writes within the sizes
    // given.
    let result = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match usize::try_from(result) {
        Ok(bytes) => Ok((bytes, name.address())),
        Err(_) => Err(errno()),
    }
}

/// Takes the next datagram or run of datagrams, with all its metadata.
///
/// # Errors
/// `AGAIN`: there is none. Others: the kernel refuses.
pub fn receive_full(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Arrived, Errno> {
    let mut name = Name::EMPTY;
    let mut control = Control(MaybeUninit::uninit());
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut header = header(&mut name, &mut part, &mut control);
    // SAFETY: all that the header points to is live for the call, and the kernel writes within the
    // sizes that the header gives.
    let result = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let bytes = usize::try_from(result).map_err(|_| errno())?;
    // SAFETY: the kernel has just filled the header and the control data that it points to.
    Ok(unsafe { arrived(&header, &name, bytes) })
}

/// Arrays for receiving several messages in one system call, reused.
pub struct Inbox {
    names: Vec<Name>,
    controls: Vec<Control>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Number of messages that the last call filled.
    filled: usize,
}

// SAFETY: the raw pointers lead into the other arrays, or to buffers that are followed only inside
// `receive`, which has them borrowed; stale ones are overwritten before the next call.
unsafe impl Send for Inbox {}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("filled", &self.filled).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Creates arrays for at most `messages` in one call.
    pub fn new(messages: usize) -> Self {
        Self {
            names: vec![Name::EMPTY; messages],
            controls: (0..messages).map(|_| Control(MaybeUninit::uninit())).collect(),
            parts: Vec::with_capacity(messages),
            headers: Vec::with_capacity(messages),
            filled: 0,
        }
    }

    /// Fills the buffers in order, each with one datagram or run of datagrams, and returns how many
    /// were filled.
    ///
    /// # Errors
    /// `AGAIN`: there is none. Others: the kernel refuses.
    pub fn receive<'b>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: impl Iterator<Item = &'b mut [u8]>,
    ) -> Result<usize, Errno> {
        self.filled = 0;
        self.parts.clear();
        self.headers.clear();
        self.parts.extend(buffers.take(self.names.len()).map(|buffer| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        }));
        for ((part, name), control) in
            self.parts.iter_mut().zip(&mut self.names).zip(&mut self.controls)
        {
            let msg_hdr = header(name, part, control);
            self.headers.push(libc::mmsghdr { msg_hdr, msg_len: 0 });
        }
        // SAFETY: the headers point into arrays of self, which nothing moves before the call is
        // over, and to buffers that are borrowed for 'b; the kernel writes within the sizes given.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                libc::c_uint::try_from(self.headers.len()).unwrap_or(libc::c_uint::MAX),
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        self.filled = usize::try_from(result).map_err(|_| errno())?;
        Ok(self.filled)
    }

    /// Returns the metadata of message `i` of the last call; `None` when it filled fewer.
    pub fn arrived(&self, i: usize) -> Option<Arrived> {
        let (header, name) = (self.headers.get(i)?, self.names.get(i)?);
        // SAFETY: the kernel filled this header and the control data that it points to, in arrays
        // of self that have not moved since (a vector's elements stay when it is moved).
        (i < self.filled)
            .then(|| unsafe { arrived(&header.msg_hdr, name, header.msg_len as usize) })
    }
}

#[inline]
fn header(name: &mut Name, part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    let mut header = empty_header();
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = NAME_BYTES as libc::socklen_t;
    header.msg_iov = &raw mut *part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    header
}

/// Reads the control data of a filled header.
///
/// # Safety
/// The kernel has filled `header`, and everything that it points to is still live.
unsafe fn arrived(header: &libc::msghdr, name: &Name, bytes: usize) -> Arrived {
    let mut arrived =
        Arrived { bytes, from: name.address(), class: 0, segment: None, arrived_ns: None };
    // SAFETY: the caller's promise; the CMSG macros stay within msg_controllen, and each value is
    // read only where cmsg_len covers it.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(header);
        while let Some(this) = part.as_ref() {
            let value = libc::CMSG_DATA(part);
            let has = |size: u32| this.cmsg_len >= libc::CMSG_LEN(size) as _;
            match (this.cmsg_level, this.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) if has(1) => arrived.class = value.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if has(4) => {
                    arrived.class = value.cast::<libc::c_int>().read_unaligned() as u8;
                }
                (libc::IPPROTO_UDP, libc::UDP_GRO) if has(4) => {
                    let segment = value.cast::<libc::c_int>().read_unaligned();
                    arrived.segment = usize::try_from(segment).ok();
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if has(16) => {
                    let time = value.cast::<libc::timespec>().read_unaligned();
                    let (seconds, ns) = (time.tv_sec as u64, time.tv_nsec as u64);
                    arrived.arrived_ns = Some(seconds.wrapping_mul(1_000_000_000).wrapping_add(ns));
                }
                _ => {}
            }
            part = libc::CMSG_NXTHDR(header, part);
        }
    }
    arrived
}
