//! UDP sockets as a driver needs them: options, and calls that do no more than they must.
//!
//! Measured here per 96-byte datagram (loopback, ns): `sendto` 3340, `sendmsg` of three parts 3620,
//! so that copying small parts together is cheaper than listing them; 16 by `sendmmsg` 2855 each.
//! `recvfrom` 755, `recvmsg` with control data 1050, 16 by `recvmmsg` 700 each; an empty socket 330
//! by `recvfrom`, 485 by `recvmsg`. So there is a short and a full form of everything.

mod name;
mod receive;
mod send;
mod zero_copy_pipe;

pub use receive::{Arrived, Inbox, receive, receive_full};
pub use send::{Outbox, Post, send, send_parts};
pub use zero_copy_pipe::{ZeroCopyPipe, give_back, withdraw};

use crate::error::{OsError, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Most datagrams that one segmented send carries (the kernel's `UDP_MAX_SEGMENTS` before 6.9).
pub const MAX_SEGMENTS: usize = 64;

/// Most bytes of one datagram over IPv4, and of one segmented send.
pub const MAX_BYTES_V4: usize = 65_507;

/// Most bytes of one datagram over IPv6.
pub const MAX_BYTES_V6: usize = 65_527;

/// Returns why datagrams to `ip` do not reach one machine; `None` for an address that one machine
/// can have. The broadcast address of a subnet is not recognized; the kernel checks it.
pub fn not_one_machine(ip: IpAddr) -> Option<&'static str> {
    // An IPv4 address written as IPv6 counts as the IPv4 address.
    match ip.to_canonical() {
        ip if ip.is_unspecified() => Some("names no interface"),
        ip if ip.is_multicast() => Some("is a multicast address, which leads to many machines"),
        IpAddr::V4(Ipv4Addr::BROADCAST) => {
            Some("is the broadcast address, which leads to all machines")
        }
        _ => None,
    }
}

/// Creates a socket bound to `address` (port 0: any), not blocking, closed on exec. One of IPv6 is
/// for IPv6 only.
///
/// # Errors
/// The address is not of this machine or is taken, or no more descriptors are allowed.
pub fn bind(address: SocketAddr) -> Result<OwnedFd> {
    let what = || format!("binding a UDP socket to {address}");
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)
        .map_err(|e| OsError::new(what(), e))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true).map_err(|e| OsError::new(what(), e))?;
    }
    rustix::net::bind(&socket, &address).map_err(|e| OsError::new(what(), e))?;
    Ok(socket)
}

/// Creates a socket that sends to `to` only, prepared like any other; datagrams to its own port are
/// ignored.
///
/// # Errors
/// The kernel refuses the address, or there is no route to the destination now.
pub fn connect(local: SocketAddr, to: SocketAddr, buffer_bytes: usize) -> Result<OwnedFd> {
    let socket = bind(local)?;
    prepare(socket.as_fd(), buffer_bytes)?;
    let failed = |e| OsError::new(format!("connecting a UDP socket to {to}"), e);
    set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 0).map_err(failed)?;
    rustix::net::connect(&socket, &to).map_err(failed)?;
    Ok(socket)
}

/// Returns the address that `socket` is bound to; `None` when it is no UDP socket or not bound.
pub fn bound(socket: impl AsFd) -> Option<SocketAddr> {
    let socket = socket.as_fd();
    if sockopt::socket_type(socket).ok()? != SocketType::DGRAM {
        return None;
    }
    let address = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    (address.port() != 0).then_some(address)
}

/// Options of a socket after [`prepare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// The kernel has UDP_SEGMENT; a device may still refuse.
    pub gso: bool,
    /// The kernel has UDP_GRO; off until [`set_gro`].
    pub gro: bool,
    /// Datagrams are sent as ECT(0), and [`set_marks`] can request marks.
    pub ecn: bool,
    /// Bytes of the receive buffer as the kernel counts.
    pub receive_buffer: usize,
    /// Bytes of the send buffer as the kernel counts.
    pub send_buffer: usize,
}

/// Bytes that clump's sockets ask for as receive and as send buffer; the kernel doubles them for
/// its bookkeeping.
pub const BUFFER_BYTES: usize = 4 << 20;

/// Returns the command by which root lets sockets have them.
pub fn buffer_remedy() -> String {
    format!("sysctl -w net.core.rmem_max={BUFFER_BYTES} net.core.wmem_max={BUFFER_BYTES}")
}

/// Makes `socket` not block, never fragment (DF, ignoring learned path MTUs: the protocol probes
/// itself), send ECT(0), and buffer as near to `buffer_bytes` each way as this process may request.
///
/// # Errors
/// The kernel refuses an option that is needed: no blocking, no fragments, the buffers.
pub fn prepare(socket: BorrowedFd<'_>, buffer_bytes: usize) -> Result<Prepared> {
    let failed = |what: &str, e| OsError::new(format!("{what} of a UDP socket"), e);
    rustix::io::ioctl_fionbio(socket, true).map_err(|e| failed("FIONBIO", e))?;
    let v6 =
        sockopt::socket_domain(socket).map_err(|e| failed("SO_DOMAIN", e))? == AddressFamily::INET6;
    // A socket of IPv6 that takes IPv4 too needs both; where it does not, the second is refused,
    // which does no harm.
    let v4_result = set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
    let ect0 = 2;
    let mut ecn = set(socket, libc::IPPROTO_IP, libc::IP_TOS, ect0).is_ok();
    if v6 {
        let probe = libc::IPV6_PMTUDISC_PROBE;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)
            .map_err(|e| failed("IPV6_MTU_DISCOVER", e))?;
        ecn = set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, ect0).is_ok();
    } else {
        v4_result.map_err(|e| failed("IP_MTU_DISCOVER", e))?;
    }
    let bytes = i32::try_from(buffer_bytes).unwrap_or(i32::MAX / 2);
    for (force, plain) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        if set(socket, libc::SOL_SOCKET, force, bytes).is_err() {
            // Without privileges the kernel takes its own limit (net.core.[rw]mem_max) instead.
            set(socket, libc::SOL_SOCKET, plain, bytes).map_err(|e| failed("SO_RCVBUF", e))?;
        }
    }
    Ok(Prepared {
        gso: get(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT).is_ok(),
        gro: set_gro(socket, false).is_ok(),
        ecn: ecn && set_marks(socket, false).is_ok(),
        receive_buffer: sockopt::socket_recv_buffer_size(socket).unwrap_or(0),
        send_buffer: sockopt::socket_send_buffer_size(socket).unwrap_or(0),
    })
}

/// Lets the kernel deliver runs of equal datagrams at once. [`receive`] does not report their
/// boundaries.
///
/// # Errors
/// The kernel does not have UDP_GRO.
pub fn set_gro(socket: BorrowedFd<'_>, on: bool) -> Result<()> {
    set(socket, libc::IPPROTO_UDP, libc::UDP_GRO, i32::from(on))
        .map_err(|e| OsError::new("UDP_GRO", e))
}

/// Lets the kernel cut sends into datagrams of so many bytes, unless a call overrides it; 0:
/// nothing is cut.
///
/// # Errors
/// The kernel does not have UDP_SEGMENT.
pub fn set_segment(socket: BorrowedFd<'_>, bytes: u16) -> Result<()> {
    set(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, i32::from(bytes))
        .map_err(|e| OsError::new("UDP_SEGMENT", e))
}

/// Lets the kernel report the traffic class (ECN mark) of datagrams to [`receive_full`] and
/// [`Inbox`].
///
/// # Errors
/// The kernel does not have the option.
pub fn set_marks(socket: BorrowedFd<'_>, on: bool) -> Result<()> {
    let on = i32::from(on);
    let v4 = set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, on);
    let v6 = set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, on);
    // Each family refuses the other's option, except sockets that serve both.
    v6.or(v4).map_err(|e| OsError::new("IP_RECVTOS", e))
}

/// Lets the kernel stamp datagrams with the time of their arrival (real-time clock).
///
/// # Errors
/// The kernel does not have the option.
pub fn set_timestamps(socket: BorrowedFd<'_>) -> Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
        .map_err(|e| OsError::new("SO_TIMESTAMPNS", e))
}

/// Returns the datagrams that the kernel has dropped because this socket's receive buffer was full.
pub fn dropped(socket: impl AsFd) -> Option<u64> {
    const SO_MEMINFO: libc::c_int = 55;
    const DROPS: usize = 8;
    let mut values = [0u32; DROPS + 1];
    let mut bytes = libc::socklen_t::try_from(size_of_val(&values)).ok()?;
    // SAFETY: `values` is live and `bytes` is its size; the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    (result == 0 && bytes as usize >= size_of_val(&values)).then(|| u64::from(values[DROPS]))
}

/// Returns the largest datagram that the interface towards `to` carries without fragments, seen
/// from `local`.
pub fn path_hint(local: SocketAddr, to: SocketAddr) -> Option<usize> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let from = if local.is_ipv4() == to.is_ipv4() { SocketAddr::new(local.ip(), 0) } else { any };
    let asker = bind(from).ok()?;
    // Connecting a UDP socket looks up the route and sends nothing.
    rustix::net::connect(&asker, &to).ok()?;
    let (level, name, headers, limit) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, 28, MAX_BYTES_V4),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 48, MAX_BYTES_V6),
    };
    let mtu = usize::try_from(get(asker.as_fd(), level, name).ok()?).ok()?;
    Some(mtu.checked_sub(headers)?.min(limit))
}

fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> std::result::Result<(), Errno> {
    // SAFETY: the value is a live c_int and the length is its size.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), INT_BYTES)
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

fn get(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> std::result::Result<libc::c_int, Errno> {
    let mut value: libc::c_int = 0;
    let mut bytes = INT_BYTES;
    // SAFETY: the value is a live c_int and the length is its size; the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut bytes)
    };
    if result == 0 { Ok(value) } else { Err(errno()) }
}

const INT_BYTES: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;

/// Returns the error of the last libc call of this thread.
#[inline]
fn errno() -> Errno {
    // SAFETY: the location is this thread's own and always there.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

#[cfg(test)]
mod tests;
