//! Sending: one datagram by the shortest path, one in parts, several at once.

use super::errno;
use super::name::Name;
use rustix::io::Errno;
use std::io::IoSlice;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{mem, ptr};

/// Sends one contiguous datagram. A connected socket needs no destination.
///
/// # Errors
/// The kernel refuses the datagram, or has no room for it.
#[inline]
pub fn send(socket: BorrowedFd<'_>, to: Option<&SocketAddr>, bytes: &[u8]) -> Result<(), Errno> {
    let named = to.map(Name::new);
    let (name, length) = named.as_ref().map_or((ptr::null(), 0), |(name, n)| (name.as_ptr(), *n));
    // SAFETY: bytes and name are live for the call, with these lengths; the kernel only reads them.
    let result = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            name.cast(),
            length,
        )
    };
    if result >= 0 { Ok(()) } else { Err(errno()) }
}

/// Sends one datagram whose parts are at separate addresses.
///
/// # Errors
/// The kernel refuses the datagram, or has no room for it.
pub fn send_parts(
    socket: BorrowedFd<'_>,
    to: Option<&SocketAddr>,
    parts: &[IoSlice<'_>],
) -> Result<(), Errno> {
    let named = to.map(Name::new);
    let (name, length) = named.as_ref().map_or((ptr::null(), 0), |(name, n)| (name.as_ptr(), *n));
    let mut header = empty_header();
    header.msg_name = name.cast_mut().cast();
    header.msg_namelen = length;
    header.msg_iov = parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = parts.len() as _;
    // SAFETY: name and parts are live for the call; IoSlice has the layout of iovec (std promises
    // it); sendmsg writes to neither, whatever the mutable pointers of msghdr say.
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

/// Largest part, in bytes, that is copied together with its neighbours: each part that the kernel
/// is given costs it about 60 ns beside its copy. 46 datagrams of 1400 bytes in three parts each:
/// 14.5 us with all parts given, 13.2 copied; in one contiguous part 8.2. Therefore contiguous
/// parts are given as one.
const SMALL_PART: usize = 2048;

/// Room for copied parts: two of the longest messages. When it is used up, the kernel is given
/// parts where they are.
const SCRATCH_BYTES: usize = 1 << 17;

/// Arrays for sending several messages in one system call, reused.
pub struct Outbox {
    parts: Vec<libc::iovec>,
    /// Index of those of `parts` that are in `scratch`, and their offset; their pointers are filled
    /// in at the end.
    copied: Vec<(usize, usize)>,
    scratch: Box<[u8; SCRATCH_BYTES]>,
    scratch_used: usize,
    messages: Vec<Message>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers in `parts` and `headers` are followed only inside `Post::send`, which
// has the borrows that they were made from; what remains between calls is stale and only cleared.
unsafe impl Send for Outbox {}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Creates arrays with room for so many messages and parts before they must grow.
    pub fn new(messages: usize, parts: usize) -> Self {
        Self {
            parts: Vec::with_capacity(parts),
            copied: Vec::with_capacity(parts),
            scratch: Box::new([0; SCRATCH_BYTES]),
            scratch_used: 0,
            messages: Vec::with_capacity(messages),
            headers: Vec::with_capacity(messages),
        }
    }

    /// Begins an empty set of messages.
    pub fn post<'a>(&mut self) -> Post<'_, 'a> {
        self.parts.clear();
        self.copied.clear();
        self.scratch_used = 0;
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
    /// Begins the next message, without any part yet. With `segment` the kernel cuts it into
    /// datagrams of that many bytes (the last may be shorter).
    #[inline]
    pub fn message(&mut self, to: Option<&SocketAddr>, segment: Option<u16>) {
        let (name, name_bytes) = to.map_or((Name::EMPTY, 0), Name::new);
        self.outbox.messages.push(Message {
            name,
            name_bytes,
            first_part: self.outbox.parts.len(),
            parts: 0,
            control: segment.map_or([0; 3], segment_control),
            segmented: segment.is_some(),
        });
    }

    /// Adds datagrams of `N` parts each to the message begun last; empty parts are left out.
    #[inline]
    pub fn datagrams<const N: usize>(
        &mut self,
        datagrams: impl Iterator<Item = [&'a [u8]; N]> + Clone,
    ) {
        match in_one_piece(datagrams.clone()) {
            Some((start, bytes)) => self.splice_pages(start, bytes),
            None => {
                for parts in datagrams {
                    for part in parts {
                        if !part.is_empty() {
                            self.part(part);
                        }
                    }
                }
            }
        }
    }

    /// Adds a part that the kernel reads where it is.
    fn splice_pages(&mut self, start: *const u8, bytes: usize) {
        if let Some(message) = self.outbox.messages.last_mut() {
            message.parts += 1;
            let iov_base = start.cast_mut().cast();
            self.outbox.parts.push(libc::iovec { iov_base, iov_len: bytes });
        }
    }

    fn part(&mut self, bytes: &'a [u8]) {
        debug_assert!(!self.outbox.messages.is_empty());
        let Outbox { parts, copied, scratch, scratch_used, messages, .. } = &mut *self.outbox;
        let Some(message) = messages.last_mut() else { return };
        let mut iov_base = bytes.as_ptr().cast_mut().cast();
        let start = *scratch_used;
        if bytes.len() <= SMALL_PART
            && let Some(place) = scratch.get_mut(start..start + bytes.len())
        {
            place.copy_from_slice(bytes);
            *scratch_used += bytes.len();
            // The part before ends where this one begins, when it is of this message and was copied
            // too.
            let before = parts.len().checked_sub(1).filter(|_| message.parts > 0);
            if let Some(before) = before
                && copied.last().is_some_and(|(index, _)| *index == before)
            {
                parts[before].iov_len += bytes.len();
                return;
            }
            copied.push((parts.len(), start));
            iov_base = ptr::null_mut();
        }
        message.parts += 1;
        parts.push(libc::iovec { iov_base, iov_len: bytes.len() });
    }

    /// Returns the number of messages begun.
    pub fn len(&self) -> usize {
        self.outbox.messages.len()
    }

    /// Returns true if no message was begun.
    pub fn is_empty(&self) -> bool {
        self.outbox.messages.is_empty()
    }

    /// Sends the messages in order and returns how many were taken.
    ///
    /// # Errors
    /// The kernel refuses the first message, or has no room for it.
    pub fn send(self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let Outbox { parts, copied, scratch, messages, headers, .. } = self.outbox;
        headers.clear();
        let scratch = scratch.as_mut_ptr();
        for &mut (part, start) in copied {
            // SAFETY: `part()` keeps start and length within the scratch.
            parts[part].iov_base = unsafe { scratch.add(start) }.cast();
        }
        for message in &mut *messages {
            let mut header = empty_header();
            if message.name_bytes > 0 {
                header.msg_name = message.name.as_mut_ptr().cast();
                header.msg_namelen = message.name_bytes;
            }
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
        // SAFETY: every pointer in the headers leads into `messages` and `parts`, which nothing
        // moves or frees before the call is over, and from there to the scratch or to bytes
        // borrowed for 'a (one part may be several such borrows that touch). The kernel only reads
        // them, and writes msg_len within `headers`.
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

/// Returns the beginning and the total length of `datagrams`, if their parts are contiguous in
/// memory and long enough for that to matter.
#[inline]
pub(super) fn in_one_piece<'a, const N: usize>(
    datagrams: impl Iterator<Item = [&'a [u8]; N]>,
) -> Option<(*const u8, usize)> {
    let mut start: *const u8 = ptr::null();
    let mut bytes = 0;
    for parts in datagrams {
        for part in parts {
            if part.is_empty() {
                continue;
            }
            if bytes == 0 {
                start = part.as_ptr();
            } else if part.as_ptr() != start.wrapping_add(bytes) {
                return None;
            }
            bytes += part.len();
        }
    }
    (bytes > SMALL_PART).then_some((start, bytes))
}

/// Returns one `UDP_SEGMENT` control message, laid out as `cmsghdr`.
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

/// Returns a header without name, parts and control data.
#[inline]
pub(super) fn empty_header() -> libc::msghdr {
    // Field by field is not possible: musl's has private padding.
    // SAFETY: all zeroes is a valid msghdr: null pointers with lengths of zero.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = ptr::null_mut();
    header
}
