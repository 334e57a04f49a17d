//! Packet sockets (packet(7)): Ethernet frames of one kind, received in a ring that the kernel
//! shares with the process, sent past the queueing discipline.
//!
//! A poll of the ring is a load from memory. Sending is a system call a frame: on a quiet machine a
//! send ring made the round trip longer (0.50 to 0.52 of one by UDP; 0.45 to 0.48 without), since
//! it needs the same call to notify the kernel.
//!
//! Opening a socket needs CAP_NET_RAW; a process that is given the open socket needs nothing. Its
//! filter is locked, so its holder receives no other frames, but it sends any frame.

use crate::error::{OsError, Result};
use crate::map::Mapping;
use crate::sync::{AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Frames that wait in a ring before more are lost.
pub const SLOTS: usize = 512;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 2048;
/// Longest frame that fits into a slot, its Ethernet header included.
pub const MAX_BYTES: usize = SLOT_BYTES - MAC_AT;
/// Slots in one contiguous block of the kernel's memory.
const BLOCK_SLOTS: usize = 32;
/// Offset at which the kernel puts the Ethernet header into a slot: behind `tpacket2_hdr` and
/// `sockaddr_ll`, so that the data behind it is aligned to 16.
const MAC_AT: usize = 66;

// linux/if_packet.h, linux/filter.h
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const TPACKET_V2: libc::c_int = 1;
const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// Pseudo-offset of a frame's direction and addressee; 0: it is for this host.
const PACKET_TYPE_AT: u32 = 0xffff_f000 + 4;

/// Bytes that a frame must contain to be received: `width` bytes (1, 2 or 4) at `at`, in network
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Bytes from the start of the Ethernet header.
    pub at: u32,
    /// Number of bytes.
    pub width: u8,
    /// Value of the bytes.
    pub value: u32,
}

/// Opens a socket that receives frames of one kind that match everywhere, from one interface or
/// (`None`) all of this network namespace, and sends any. Each frame is delivered to all sockets of
/// its kind that listen to its interface, for some 65 ns each (ADR 16), on the sender's time where
/// both ends are of one machine.
///
/// # Errors
/// `PERM` without CAP_NET_RAW in this namespace.
pub fn open(ethertype: u16, interface: Option<u32>, accept: &[Match]) -> Result<OwnedFd> {
    let failed = |what: &str, e| OsError::new(format!("{what} a packet socket"), e);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0: nothing is received before everything is set.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(|e| failed("opening", e))?;
    attach(&socket, &filter(accept)).map_err(|e| failed("filtering what reaches", e))?;
    let on: libc::c_int = 1;
    set(&socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &on)
        .map_err(|e| failed("locking the filter of", e))?;
    set(&socket, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)
        .map_err(|e| failed("PACKET_VERSION of", e))?;
    // An old kernel without it sends through the queueing discipline: slower, and no other
    // difference.
    let _ = set(&socket, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &on);
    let ring = [BLOCK_SLOTS * SLOT_BYTES, SLOTS / BLOCK_SLOTS, SLOT_BYTES, SLOTS];
    let ring = ring.map(|n| u32::try_from(n).unwrap_or(0)); // struct tpacket_req
    set(&socket, libc::SOL_PACKET, PACKET_RX_RING, &ring)
        .map_err(|e| failed("making the ring of", e))?;
    bind(&socket, &name(ethertype, interface.unwrap_or(0))).map_err(|e| failed("binding", e))?;
    Ok(socket)
}

/// Returns true if `socket` is a packet socket.
pub fn is_packet_socket(socket: impl AsFd) -> bool {
    sockopt::socket_domain(socket).is_ok_and(|domain| domain == AddressFamily::PACKET)
}

/// Returns the interface that a packet socket is bound to, if it is bound to one.
pub fn bound(socket: impl AsFd) -> Option<u32> {
    let mut name = name(0, 0);
    let mut bytes = NAME_BYTES;
    // SAFETY: name is live and `bytes` its size; the kernel writes no more than that.
    let result = unsafe {
        let at = (&raw mut name).cast();
        libc::getsockname(socket.as_fd().as_raw_fd(), at, &raw mut bytes)
    };
    let is_name = result == 0 && name.sll_family == libc::AF_PACKET as u16;
    u32::try_from(name.sll_ifindex).ok().filter(|&index| is_name && index != 0)
}

/// Clears the error that the interface of a bound socket went down: until then the socket counts as
/// readable.
pub fn forget_errors(socket: impl AsFd) {
    let _ = sockopt::socket_error(socket);
}

/// Sends a frame by the interface that the socket is bound to: 0.1 us less than [`send`], which has
/// to look the interface up.
///
/// # Errors
/// `NOBUFS` or `AGAIN`: no room now. Others: the interface is down, or refuses the frame.
#[inline]
pub fn send_bound(socket: BorrowedFd<'_>, frame: &[u8]) -> std::result::Result<(), Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: frame is live for the call, with this length; the kernel only reads it.
    let result =
        unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), flags) };
    if result >= 0 { Ok(()) } else { Err(last()) }
}

/// Sends a frame, Ethernet header and all, by an interface.
///
/// # Errors
/// `NOBUFS` or `AGAIN`: no room now. Others: the interface is down, or refuses the frame.
#[inline]
pub fn send(
    socket: BorrowedFd<'_>,
    interface: u32,
    frame: &[u8],
) -> std::result::Result<(), Errno> {
    let name = name(0, interface);
    // SAFETY: frame and name are live for the call, with these lengths; the kernel only reads them.
    let result = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            (&raw const name).cast(),
            NAME_BYTES,
        )
    };
    if result >= 0 { Ok(()) } else { Err(last()) }
}

/// Returns the frames lost since the last call because the ring was full.
pub fn dropped(socket: impl AsFd) -> u64 {
    let mut counts = [0_u32; 2]; // struct tpacket_stats: seen, dropped
    let mut bytes = libc::socklen_t::try_from(size_of_val(&counts)).unwrap_or(0);
    // SAFETY: `counts` is live and `bytes` is its size; the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if result == 0 { u64::from(counts[1]) } else { 0 }
}

/// The mapped receive ring of a socket from [`open`]. One reader.
#[derive(Debug)]
pub struct PacketRing {
    memory: Mapping,
    next: usize,
}

impl PacketRing {
    /// Maps the ring of `socket`.
    ///
    /// # Errors
    /// The socket has no ring, or address space has run out.
    pub fn over(socket: BorrowedFd<'_>) -> Result<Self> {
        Ok(Self { memory: Mapping::shared(socket, 0, SLOTS * SLOT_BYTES)?, next: 0 })
    }

    /// Returns the bytes of the frame that waits, if one does; 0 for one that the kernel cut or
    /// describes wrongly.
    #[inline]
    pub fn waiting(&self) -> Option<usize> {
        // Acquires what the kernel wrote before it handed the slot over.
        if self.word(0).load(Ordering::Acquire) & STATUS_USER == 0 {
            return None;
        }
        self.fetch();
        let [length, kept, place] = [4, 8, 12].map(|at| self.word(at).load(Ordering::Relaxed));
        let as_it_should = place & 0xffff == MAC_AT as u32 && length == kept;
        Some(if as_it_should && kept as usize <= MAX_BYTES { kept as usize } else { 0 })
    }

    /// Prefetches the first lines of a frame at once: another processor has just written them, and
    /// each takes as long to come as the status did.
    #[inline(always)]
    fn fetch(&self) {
        let slot = self.memory.base().as_ptr().wrapping_add(self.next * SLOT_BYTES);
        for line in 1..4 {
            crate::memory::prefetch_at(slot.wrapping_add(line * 64));
        }
    }

    /// Copies the frame that [`PacketRing::waiting`] announced, from byte `from` of it on. Never
    /// reads past the slot.
    #[inline]
    pub fn copy(&self, from: usize, into: &mut [u8]) {
        let bytes = into.len().min(MAX_BYTES.saturating_sub(from));
        let at = self.next * SLOT_BYTES + MAC_AT + from.min(MAX_BYTES);
        // SAFETY: `next` < SLOTS, and `at + bytes` ends within the slot, which is within the
        // mapping (invariant 1). The memory is the kernel's: only copied, never referred to.
        unsafe {
            let source = self.memory.base().as_ptr().add(at);
            std::ptr::copy_nonoverlapping(source, into.as_mut_ptr(), bytes);
        }
    }

    /// Gives the slot back to the kernel.
    #[inline]
    pub fn advance(&mut self) {
        // Releases the slot after the copies from it.
        self.word(0).store(STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % SLOTS;
    }

    /// Returns a word of the header of the current slot (struct tpacket2_hdr).
    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at < 32 && at.is_multiple_of(4));
        // SAFETY: `next` < SLOTS and `at` < 32, so the word is inside the mapping, which outlives
        // the borrow; slots are aligned to 2048; an atomic may be changed by others (invariant 2).
        unsafe {
            self.memory
                .base()
                .as_ptr()
                .add(self.next * SLOT_BYTES + at)
                .cast::<AtomicU32>()
                .as_ref()
        }
        .unwrap_or_else(|| unreachable!("a mapping does not begin at null"))
    }
}

const NAME_BYTES: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

fn name(ethertype: u16, interface: u32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn bind(socket: &OwnedFd, name: &libc::sockaddr_ll) -> std::result::Result<(), Errno> {
    let name = std::ptr::from_ref(name).cast();
    // SAFETY: name is live for the call, with this length; the kernel only reads it.
    let result = unsafe { libc::bind(socket.as_raw_fd(), name, NAME_BYTES) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Returns the program that passes matching frames for this host: a successful match jumps to the
/// next, the last one to the end.
fn filter(accept: &[Match]) -> Vec<libc::sock_filter> {
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let for_host = Match { at: PACKET_TYPE_AT, width: 4, value: 0 };
    let all: Vec<_> = accept.iter().chain([&for_host]).collect();
    let mut program = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let load = match one.width {
            1 => LOAD_BYTE,
            2 => LOAD_HALF,
            _ => LOAD_WORD,
        };
        // Past the remaining pairs and the instruction that accepts.
        let to_refusal = u8::try_from((all.len() - 1 - i) * 2 + 1).unwrap_or(u8::MAX);
        program.extend([step(load, one.at, 0), step(JUMP_EQUAL, one.value, to_refusal)]);
    }
    program.extend([step(RETURN, u32::MAX, 0), step(RETURN, 0, 0)]);
    program
}

fn attach(socket: &OwnedFd, program: &[libc::sock_filter]) -> std::result::Result<(), Errno> {
    let whole = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::TOOBIG)?,
        filter: program.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &whole)
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> std::result::Result<(), Errno> {
    let bytes = libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::TOOBIG)?;
    // SAFETY: value is live with this size, and so is what it points to (a filter's program); the
    // kernel only reads.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), bytes)
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Returns the error of the last libc call of this thread.
fn last() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::NeighborTable;
    use std::net::Ipv4Addr;

    /// A kind of frame that nothing else here uses.
    const KIND: u16 = 0x88b6;

    fn frame(mark: u16, bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; bytes];
        frame[12..14].copy_from_slice(&KIND.to_be_bytes());
        frame[14..16].copy_from_slice(&mark.to_be_bytes());
        frame
    }

    #[test]
    fn matching_frames_come_through_the_ring_and_others_do_not() {
        let accept = [
            Match { at: 12, width: 2, value: u32::from(KIND) },
            Match { at: 14, width: 2, value: 7 },
        ];
        let socket = match open(KIND, None, &accept) {
            Ok(socket) => socket,
            Err(e) if e.errno == Errno::PERM || e.errno == Errno::ACCESS => {
                eprintln!("SKIPPED: packet sockets need CAP_NET_RAW (run as root)");
                return;
            }
            Err(e) => panic!("{e}"),
        };
        assert!(is_packet_socket(&socket));
        let way = NeighborTable::open().unwrap().find(Ipv4Addr::LOCALHOST).unwrap().unwrap();
        let mut ring = PacketRing::over(socket.as_fd()).unwrap();
        assert_eq!(ring.waiting(), None);
        // Around the ring more than once. Frames sent over loopback have arrived when the call
        // returns.
        for i in 0..SLOTS + 9 {
            let mut sent = frame(7, 60 + i);
            sent[30] = i as u8;
            send(socket.as_fd(), way.interface.index, &frame(8, 100)).unwrap();
            send(socket.as_fd(), way.interface.index, &sent).unwrap();
            assert_eq!(ring.waiting(), Some(60 + i));
            let mut got = vec![0; 60 + i];
            ring.copy(0, &mut got);
            assert_eq!(got, sent);
            ring.copy(30, &mut got[..1]);
            assert_eq!(got[0], i as u8);
            ring.advance();
            assert_eq!(ring.waiting(), None);
        }
        send(socket.as_fd(), way.interface.index, &frame(7, MAX_BYTES + 1)).unwrap();
        assert_eq!(ring.waiting(), Some(0), "cut, and said so");
        ring.advance();
        for _ in 0..SLOTS + 5 {
            send(socket.as_fd(), way.interface.index, &frame(7, MAX_BYTES)).unwrap();
        }
        assert_eq!(dropped(&socket), 5);
        assert_eq!(dropped(&socket), 0);
    }

    #[test]
    fn a_bound_socket_sends_by_its_interface_and_hears_no_other() {
        let lo = NeighborTable::open()
            .unwrap()
            .find(Ipv4Addr::LOCALHOST)
            .unwrap()
            .unwrap()
            .interface
            .index;
        let accept = [Match { at: 14, width: 2, value: 9 }];
        let open = |interface| match open(KIND, interface, &accept) {
            Ok(socket) => Some((PacketRing::over(socket.as_fd()).unwrap(), socket)),
            Err(e) if e.errno == Errno::PERM || e.errno == Errno::ACCESS => None,
            Err(e) => panic!("{e}"),
        };
        let (Some((here, bound_here)), Some((everywhere, free))) = (open(Some(lo)), open(None))
        else {
            eprintln!("SKIPPED: packet sockets need CAP_NET_RAW (run as root)");
            return;
        };
        assert_eq!((bound(&bound_here), bound(&free)), (Some(lo), None));
        send_bound(bound_here.as_fd(), &frame(9, 80)).unwrap();
        assert_eq!((here.waiting(), everywhere.waiting()), (Some(80), Some(80)));
        // Without an interface there is no destination.
        assert!(send_bound(free.as_fd(), &frame(9, 80)).is_err());
        forget_errors(&bound_here);
    }

    #[test]
    fn every_failed_match_jumps_to_the_refusal() {
        let accept = [Match { at: 1, width: 1, value: 1 }, Match { at: 2, width: 4, value: 2 }];
        let program = filter(&accept);
        assert_eq!(program.len(), 8);
        for (i, step) in program.iter().enumerate().filter(|(_, s)| s.code == JUMP_EQUAL) {
            assert_eq!(i + 1 + usize::from(step.jf), 7);
        }
        assert_eq!((program[6].k, program[7].k), (u32::MAX, 0));
    }
}
