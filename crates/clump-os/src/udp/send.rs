//! Sending: one datagram by the shortest way, one in parts, several at once.

use super::errno;
use super::name::Name;
use rustix::io::Errno;
use std::io::IoSlice;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{mem, ptr};

/// Sends one datagram that lies in one piece.
#[inline]
pub fn send(socket: BorrowedFd<'_>, to: &SocketAddr, bytes: &[u8]) -> Result<(), Errno> {
    let (name, length) = Name::new(to);
    // SAFETY: bytes and name are live for the call, with these lengths; the kernel only reads them.
    let result = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            name.as_ptr().cast(),
            length,
        )
    };
    if result >= 0 { Ok(()) } else { Err(errno()) }
}

/// Sends one datagram whose parts lie apart.
pub fn send_parts(
    socket: BorrowedFd<'_>,
    to: &SocketAddr,
    parts: &[IoSlice<'_>],
) -> Result<(), Errno> {
    let (name, length) = Name::new(to);
    let mut header = empty_header();
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = length;
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = parts.len() as _;
    // SAFETY: name and parts are live for the call; IoSlice has the layout of iovec (std promises it);
    // sendmsg writes to neither, whatever the mutable pointers of msghdr say.
    let result =
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if result >= 0 { Ok(()) } else { Err(errno()) }
}

/// The control data of a segmented send: room for one `cmsghdr` with two bytes.
type Control = [u64; 3];
const _: () = {
    // SAFETY: CMSG_SPACE only computes.
    assert!(unsafe { libc::CMSG_SPACE(2) } as usize <= size_of::<Control>());
    assert!(align_of::<libc::cmsghdr>() <= align_of::<Control>());
};

#[derive(Clone, Copy)]
struct Message {
    name: Name,
    name_bytes: libc::socklen_t,
    first_part: usize,
    parts: usize,
    control: Control,
    segmented: bool,
}

/// Arrays for sending several messages in one system call, used again and again.
#[derive(Default)]
pub struct Outbox {
    parts: Vec<libc::iovec>,
    messages: Vec<Message>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers in `parts` and `headers` are followed only inside `Post::send`, which has the
// borrows that they were made from; what remains between calls is stale and only cleared.
unsafe impl Send for Outbox {}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

impl Outbox {
    /// With room for so many messages and parts before it must grow.
    pub fn new(messages: usize, parts: usize) -> Self {
        Self {
            parts: Vec::with_capacity(parts),
            messages: Vec::with_capacity(messages),
            headers: Vec::with_capacity(messages),
        }
    }

    /// Begins an empty set of messages.
    pub fn post<'a>(&mut self) -> Post<'_, 'a> {
        self.parts.clear();
        self.messages.clear();
        Post { outbox: self, borrowed: PhantomData }
    }
}

/// Messages about to be sent; their parts stay borrowed until then.
#[derive(Debug)]
pub struct Post<'o, 'a> {
    outbox: &'o mut Outbox,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Post<'_, 'a> {
    /// Begins the next message, without any part yet. With `segment` the kernel cuts it into datagrams of
    /// that many bytes (the last may be shorter).
    #[inline]
    pub fn message(&mut self, to: &SocketAddr, segment: Option<u16>) {
        let (name, name_bytes) = Name::new(to);
        self.outbox.messages.push(Message {
            name,
            name_bytes,
            first_part: self.outbox.parts.len(),
            parts: 0,
            control: segment.map_or([0; 3], segment_control),
            segmented: segment.is_some(),
        });
    }

    /// Adds a part to the message begun last; an empty one is left out.
    #[inline]
    pub fn part(&mut self, bytes: &'a [u8]) {
        debug_assert!(!self.outbox.messages.is_empty());
        if let Some(message) = self.outbox.messages.last_mut()
            && !bytes.is_empty()
        {
            message.parts += 1;
            self.outbox.parts.push(libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            });
        }
    }

    /// Messages begun.
    pub fn len(&self) -> usize {
        self.outbox.messages.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.outbox.messages.is_empty()
    }

    /// Sends them in order and says how many were taken; an error is about the first of them.
    pub fn send(self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let Outbox { parts, messages, headers } = self.outbox;
        headers.clear();
        for message in &mut *messages {
            let mut header = empty_header();
            header.msg_name = message.name.as_mut_ptr().cast();
            header.msg_namelen = message.name_bytes;
            // SAFETY: `message()` and `part()` keep first_part within (or at the end of) `parts`.
            header.msg_iov = unsafe { parts.as_mut_ptr().add(message.first_part) };
            header.msg_iovlen = message.parts as _;
            if message.segmented {
                header.msg_control = message.control.as_mut_ptr().cast();
                // SAFETY: CMSG_SPACE only computes.
                header.msg_controllen = unsafe { libc::CMSG_SPACE(2) } as _;
            }
            headers.push(libc::mmsghdr { msg_hdr: header, msg_len: 0 });
        }
        let socket = socket.as_raw_fd();
        // SAFETY: every pointer in the headers leads into `messages` and `parts`, which nothing moves or
        // frees before the call is over, and from there to bytes that are borrowed for 'a. The kernel
        // only reads them, and writes msg_len within `headers`.
        let result = unsafe {
            match headers.as_mut_slice() {
                [] => return Ok(0),
                [one] => {
                    let sent = libc::sendmsg(socket, &raw const one.msg_hdr, libc::MSG_NOSIGNAL);
                    if sent >= 0 { 1 } else { -1 }
                }
                many => libc::sendmmsg(
                    socket,
                    many.as_mut_ptr(),
                    libc::c_uint::try_from(many.len()).unwrap_or(libc::c_uint::MAX),
                    libc::MSG_NOSIGNAL as _,
                ),
            }
        };
        usize::try_from(result).map_err(|_| errno())
    }
}

/// One `UDP_SEGMENT` control message, laid out as `cmsghdr` wants it.
fn segment_control(segment: u16) -> Control {
    let mut control: Control = [0; 3];
    // SAFETY: the assertions beside `Control` say that header and value fit and are aligned.
    unsafe {
        let header = control.as_mut_ptr().cast::<libc::cmsghdr>();
        (*header).cmsg_level = libc::IPPROTO_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(2) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
    }
    control
}

/// A header that names nothing.
#[inline]
pub(super) fn empty_header() -> libc::msghdr {
    // Field by field is not possible: musl's has private padding.
    // SAFETY: all zeroes is a valid msghdr: null pointers with lengths of zero.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = ptr::null_mut();
    header
}
