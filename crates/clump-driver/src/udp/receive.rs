//! Receiving from UDP sockets.

use super::density::{ReceiveMode, SocketSwitch};
use super::sizes::MESSAGES;
use super::sockets::Udp;
use crate::error::{DriverError, or_received};
use crate::inbound::{Ecn, FilledBuffer, Inbound};
use crate::refusal::{ReceiveCall, ReceiveFailure};
use clump_os::clock;
use clump_os::udp::{self, Arrived};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Mean size above which receptions are taken one by one: tens of KiB each that go to the same
/// buffer every time find it in the cache, which is worth more than the system calls saved (64 KiB:
/// 3.6 us into one buffer, 4.9 us into four by turns).
const LARGE_BYTES: usize = 16_384;

/// Late errors of earlier datagrams that one call skips. A socket keeps one at a time: after so
/// many the call fails.
const LATE_ERRORS: usize = 8;

impl Udp {
    /// Polls every socket once, beginning with another one each time.
    pub(super) fn receive_all(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        let sockets = self.sockets.len();
        let mut result = Ok(0);
        for i in 0..sockets {
            let socket = (self.first + i) % sockets;
            result = or_received(self.receive_from(socket, into), result);
        }
        self.first = (self.first + 1) % sockets;
        result
    }

    /// Receives the result of one system call.
    #[inline]
    pub(super) fn receive_from(
        &mut self,
        socket: usize,
        into: &mut Inbound,
    ) -> Result<usize, DriverError> {
        let mut failed = None;
        for _ in 0..LATE_ERRORS {
            if into.room() == 0 {
                return Ok(0);
            }
            let way = self.sockets[socket].density.receive_mode();
            let result = match way {
                ReceiveMode::Short => self.receive_short(socket, into),
                ReceiveMode::Settling => self.receive_one(socket, into),
                ReceiveMode::Full => self.receive_several(socket, into),
            };
            let received = match result {
                Ok(received) => received,
                Err(Errno::AGAIN) => 0,
                Err(errno) => {
                    let call = way.call(self.large_runs);
                    failed = Some(ReceiveFailure { call, errno });
                    if !is_late(errno) {
                        break;
                    }
                    self.counts.refused += 1;
                    continue;
                }
            };
            self.counts.received += received as u64;
            return match self.note(socket, received) {
                Err(e) if received == 0 => Err(e),
                _ => Ok(received),
            };
        }
        failed.map_or(Ok(0), |failure| Err(DriverError::Receive(failure)))
    }

    fn receive_short(&self, socket: usize, into: &mut Inbound) -> Result<usize, Errno> {
        let Some(buffer) = into.buffer() else { return Ok(0) };
        let (bytes, from) = udp::receive(self.sockets[socket].fd.as_fd(), buffer)?;
        let from = canonical(from);
        let ecn = Ecn::NotEct;
        Ok(into.commit(&FilledBuffer {
            bytes,
            segment: None,
            from,
            ecn,
            arrived_ns: None,
            waited_ns: None,
        }))
    }

    fn receive_one(&mut self, socket: usize, into: &mut Inbound) -> Result<usize, Errno> {
        let Some(buffer) = into.buffer() else { return Ok(0) };
        let arrived = udp::receive_full(self.sockets[socket].fd.as_fd(), buffer)?;
        self.large_runs = arrived.bytes > LARGE_BYTES;
        Ok(self.commit(&arrived, now_if_stamped(&arrived), into))
    }

    fn receive_several(&mut self, socket: usize, into: &mut Inbound) -> Result<usize, Errno> {
        if self.large_runs {
            return self.receive_one(socket, into);
        }
        let fd = self.sockets[socket].fd.as_fd();
        let messages = self.inbox.receive(fd, into.free_buffers().take(MESSAGES))?;
        let (mut received, mut bytes, mut now) = (0, 0, None);
        for i in 0..messages {
            if let Some(arrived) = self.inbox.arrived(i) {
                bytes += arrived.bytes;
                now = now.or_else(|| now_if_stamped(&arrived));
                received += self.commit(&arrived, now, into);
            }
        }
        self.large_runs = bytes > messages * LARGE_BYTES;
        Ok(received)
    }

    fn commit(&mut self, arrived: &Arrived, now: Option<u64>, into: &mut Inbound) -> usize {
        let waited = now.zip(arrived.arrived_ns).map(|(now, at)| now.saturating_sub(at));
        let received = into.commit(&FilledBuffer {
            waited_ns: waited,
            bytes: arrived.bytes,
            segment: arrived.segment,
            from: canonical(arrived.from),
            ecn: Ecn::from_traffic_class(arrived.class),
            arrived_ns: arrived.arrived_ns,
        });
        self.counts.joined += u64::from(received > 1);
        received
    }

    /// Notes a call's result in the socket's density, and changes the socket's options where that
    /// demands it.
    #[inline]
    fn note(&mut self, socket: usize, received: usize) -> Result<(), DriverError> {
        let socket = &mut self.sockets[socket];
        let turn = match received {
            0 => socket.density.on_empty(),
            found => socket.density.on_found(found),
        };
        if let Some(turn) = turn {
            self.counts.grew_dense += u64::from(turn == SocketSwitch::On);
            socket.report_all(turn == SocketSwitch::On, &self.options)?;
        }
        Ok(())
    }
}

impl ReceiveMode {
    /// The system call that receives in this way.
    fn call(self, large_runs: bool) -> ReceiveCall {
        match self {
            ReceiveMode::Short => ReceiveCall::RecvFrom,
            ReceiveMode::Full if !large_runs => ReceiveCall::RecvMmsg,
            ReceiveMode::Settling | ReceiveMode::Full => ReceiveCall::RecvMsg,
        }
    }
}

/// The time by the clock of the kernel's stamps, if there is one to compare it with.
#[inline]
fn now_if_stamped(arrived: &Arrived) -> Option<u64> {
    arrived.arrived_ns.map(|_| clock::real_ns())
}

/// Returns true for errors about a datagram sent earlier, or about nothing.
fn is_late(e: Errno) -> bool {
    matches!(
        e,
        Errno::CONNREFUSED
            | Errno::CONNRESET
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::NETDOWN
            | Errno::MSGSIZE
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP
            | Errno::PROTO
            | Errno::INTR
    )
}

/// Returns the address of an IPv4 peer that reached a socket of both families, as IPv4.
#[inline]
fn canonical(from: SocketAddr) -> SocketAddr {
    match from {
        SocketAddr::V6(v6) if let Some(v4) = v6.ip().to_ipv4_mapped() => (v4, v6.port()).into(),
        other => other,
    }
}
