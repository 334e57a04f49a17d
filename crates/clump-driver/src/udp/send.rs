//! Sending through UDP sockets.

use super::sizes::{COPY_LIMIT, MESSAGES};
use super::sockets::Udp;
use crate::driver::Outgoing;
use crate::error::DriverError;
use clump_os::OsError;
use clump_os::udp;
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// Maximum number of late errors of earlier datagrams after which one datagram is sent again.
const LATE_ERRORS: usize = 4;

/// Meaning of a kernel error for the datagram at hand.
enum SendErrorClass {
    /// It is about an earlier one: send again.
    Again,
    /// The wire takes no more now.
    Full,
    /// It is lost, as it might be anywhere on the way.
    Lost,
    /// It was refused for good.
    Refused,
}

fn verdict(e: Errno) -> SendErrorClass {
    match e {
        Errno::CONNREFUSED | Errno::CONNRESET | Errno::INTR => SendErrorClass::Again,
        // A firewall's verdict (EPERM) may change, and the peer's agent decides which ranks are cut
        // off.
        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::PERM => SendErrorClass::Full,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
            SendErrorClass::Lost
        }
        _ => SendErrorClass::Refused,
    }
}

/// Returns true if an error does not mean that the attempted mechanism failed.
pub(super) fn is_passing(e: Errno) -> bool {
    !matches!(verdict(e), SendErrorClass::Refused)
}

/// Returns true for errors by which kernels and devices refuse a run whose datagrams they may take
/// one by one.
fn refuses_runs(e: Errno) -> bool {
    matches!(e, Errno::IO | Errno::INVAL | Errno::MSGSIZE | Errno::OPNOTSUPP | Errno::NOPROTOOPT)
}

/// Returns true for errors that may be about a connection and not about a datagram: its address or
/// route is gone, or it still reports the size of an earlier one.
fn may_blame_connection(e: Errno) -> bool {
    matches!(verdict(e), SendErrorClass::Lost)
        || matches!(e, Errno::INVAL | Errno::ADDRNOTAVAIL | Errno::MSGSIZE)
}

fn refused(e: Errno, index: usize, datagram: &Outgoing<'_>) -> DriverError {
    let to = datagram.to;
    if e == Errno::MSGSIZE {
        return DriverError::Oversized { index, bytes: datagram.bytes(), to };
    }
    DriverError::Send { index, to, source: OsError::new("sending on a UDP socket", e) }
}

impl Udp {
    /// Sends in order, copying; a single datagram by the shortest call.
    #[inline]
    pub(super) fn send_copied(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        match batch {
            [one] => Ok(usize::from(self.send_alone(0, one)?)),
            many => self.send_many(many),
        }
    }

    /// Returns the socket by which datagrams to `to` leave: one of its family, always the same.
    #[inline]
    pub(super) fn socket_towards(&self, to: &SocketAddr) -> usize {
        if self.sockets.len() == 1 { 0 } else { self.chosen_socket(to) }
    }

    /// Chooses among several sockets.
    fn chosen_socket(&self, to: &SocketAddr) -> usize {
        let fits = |i: &usize| self.sockets[*i].local.is_ipv4() == to.is_ipv4();
        let fitting = (0..self.sockets.len()).filter(fits).count();
        let host = match to.ip() {
            IpAddr::V4(v4) => v4.to_bits(),
            IpAddr::V6(v6) => (v6.to_bits() % u128::from(u32::MAX)) as u32,
        };
        let spread = (host ^ u32::from(to.port())) as usize;
        let chosen = if fitting == 0 { 0 } else { spread % fitting };
        // Without one of the family: the kernel reports the error, or the socket serves both.
        (0..self.sockets.len()).filter(fits).nth(chosen).unwrap_or(0)
    }

    /// Returns the connection to a destination, where there is one.
    #[inline]
    pub(super) fn connection_to(&mut self, main: usize, to: &SocketAddr) -> Option<usize> {
        self.connections.find(self.sockets[main].local, to, &self.options)
    }

    /// Sends one datagram by the shortest call. Returns `false` if the wire is full.
    #[inline]
    pub(super) fn send_alone(
        &mut self,
        index: usize,
        datagram: &Outgoing<'_>,
    ) -> Result<bool, DriverError> {
        let main = self.socket_towards(&datagram.to);
        let connection = self.connection_to(main, &datagram.to);
        let whole = |&number: &usize| self.connections.is_whole(number, datagram.bytes());
        let mut connection = connection.filter(whole);
        let Outgoing { to, head, body, tail } = datagram;
        let mut result = Err(Errno::AGAIN);
        for _ in 0..LATE_ERRORS {
            let connected = connection.and_then(|number| self.connections.socket(number));
            let to = if connected.is_some() { None } else { Some(to) };
            let socket = connected.unwrap_or(self.sockets[main].fd.as_fd());
            result = if body.is_empty() && tail.is_empty() {
                udp::send(socket, to, head)
            } else if let Some(whole) = join(&mut self.scratch, datagram) {
                udp::send(socket, to, whole)
            } else {
                let parts = [IoSlice::new(head), IoSlice::new(body), IoSlice::new(tail)];
                udp::send_parts(socket, to, &parts)
            };
            self.counts.send_calls += 1;
            match result {
                Ok(()) => {
                    self.counts.sent += 1;
                    return Ok(true);
                }
                Err(e) if matches!(verdict(e), SendErrorClass::Again) => self.counts.refused += 1,
                Err(e) if may_blame_connection(e) && connection.is_some() => {
                    self.connections.drop(connection.take());
                }
                Err(_) => break,
            }
        }
        self.resolve_error(result.err().unwrap_or(Errno::AGAIN), index, datagram, 1)
    }

    /// Handles error `e` of the kernel for `run` datagrams. Returns `false` if they were not taken
    /// now.
    fn resolve_error(
        &mut self,
        e: Errno,
        index: usize,
        datagram: &Outgoing<'_>,
        run: usize,
    ) -> Result<bool, DriverError> {
        match verdict(e) {
            SendErrorClass::Full => {
                self.counts.full += 1;
                Ok(false)
            }
            // An error that persists when sending again is about this destination.
            SendErrorClass::Lost | SendErrorClass::Again => {
                self.counts.unreachable += run as u64;
                Ok(true)
            }
            SendErrorClass::Refused => Err(refused(e, index, datagram)),
        }
    }

    /// Sends a batch in order, runs of equal datagrams as one message each.
    pub(super) fn send_many(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let (mut taken, mut late) = (0, 0);
        while taken < batch.len() {
            let rest = &batch[taken..];
            let mut runs = [0; MESSAGES];
            let (messages, result) = self.post(rest, &mut runs);
            match result {
                Ok(sent) => {
                    let datagrams: usize = runs[..sent.min(messages)].iter().sum();
                    let segmented = runs[..sent.min(messages)].iter().filter(|run| **run > 1);
                    self.counts.segmented += segmented.sum::<usize>() as u64;
                    self.counts.sent += datagrams as u64;
                    taken += datagrams;
                    late = 0;
                }
                Err(e) if matches!(verdict(e), SendErrorClass::Again) && late < LATE_ERRORS => {
                    self.counts.refused += 1;
                    late += 1;
                }
                Err(e) if runs[0] > 1 && refuses_runs(e) => {
                    // Decides whether the kernel refuses the run, or the datagrams in it.
                    if !self.send_alone(taken, &rest[0])? {
                        return Ok(taken);
                    }
                    taken += 1;
                    self.counts.gso_refused += 1;
                    self.capabilities.gso = false;
                }
                Err(e) => {
                    if !self.resolve_error(e, taken, &rest[0], runs[0])? {
                        return Ok(taken);
                    }
                    taken += runs[0];
                }
            }
        }
        Ok(taken)
    }

    /// Sends the first messages of `rest` in one system call, and stores the number of datagrams in
    /// each. All go by one socket.
    fn post(
        &mut self,
        rest: &[Outgoing<'_>],
        runs: &mut [usize; MESSAGES],
    ) -> (usize, Result<usize, Errno>) {
        let to = rest[0].to;
        let socket = self.socket_towards(&to);
        let longest = rest.iter().map(Outgoing::bytes).max().unwrap_or(0);
        let connection = self.connection_to(socket, &to);
        let connection = connection.filter(|&number| self.connections.cut(number, 0, longest));
        let connected = connection.and_then(|number| self.connections.socket(number));
        let multirail = self.sockets.len() > 1;
        let (mut messages, mut next) = (0, 0);
        let longest = if self.capabilities.gso { self.options.gso_segments } else { 1 };
        let mut plans = [(0, 0); MESSAGES];
        while messages < MESSAGES && next < rest.len() {
            let elsewhere = multirail && self.socket_towards(&rest[next].to) != socket;
            if elsewhere || connected.is_some() && rest[next].to != to {
                break;
            }
            let run = run_length(&rest[next..], longest, self.options.gso_bytes);
            plans[messages] = (next, run);
            runs[messages] = run;
            messages += 1;
            next += run;
        }
        let mut post = self.outbox.post();
        for &(first, run) in &plans[..messages] {
            let run = &rest[first..first + run];
            let segment = u16::try_from(run[0].bytes()).ok().filter(|_| run.len() > 1);
            post.message(connected.is_none().then_some(&run[0].to), segment);
            post.datagrams(run.iter().map(|one| [one.head, one.body, one.tail]));
        }
        self.counts.send_calls += 1;
        let result = post.send(connected.unwrap_or(self.sockets[socket].fd.as_fd()));
        if connection.is_some() && result.is_err_and(may_blame_connection) {
            self.connections.drop(connection);
            return (messages, Err(Errno::INTR)); // so that the receiving socket is tried too
        }
        (messages, result)
    }
}

/// Returns the number of datagrams at the beginning of `batch` that may go as one run: equal ones
/// to one destination, of which the last may be shorter.
pub(super) fn run_length(batch: &[Outgoing<'_>], longest: usize, max_bytes: usize) -> usize {
    let Some(first) = batch.first() else { return 0 };
    let bytes = first.bytes();
    if bytes == 0 {
        return 1;
    }
    let longest = longest.min(max_bytes / bytes).min(batch.len());
    let mut run = 1;
    while run < longest {
        let next = &batch[run];
        let next_bytes = next.bytes();
        if next_bytes > bytes || next_bytes == 0 || next.to != first.to {
            break;
        }
        run += 1;
        if next_bytes < bytes {
            break;
        }
    }
    run
}

/// Joins the parts of a small datagram; `None` when it is too large to be worth a copy.
#[inline]
fn join<'s>(scratch: &'s mut [u8; COPY_LIMIT], datagram: &Outgoing<'_>) -> Option<&'s [u8]> {
    let (head, body, tail) = (datagram.head, datagram.body, datagram.tail);
    let (h, hb) = (head.len(), head.len() + body.len());
    let whole = scratch.get_mut(..hb + tail.len())?;
    whole[..h].copy_from_slice(head);
    whole[h..hb].copy_from_slice(body);
    whole[hb..].copy_from_slice(tail);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_size_or_destination_changes() {
        let bytes = [0; 2000];
        let a: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let b: SocketAddr = "10.0.0.2:1".parse().unwrap();
        let of = |to, n: usize| Outgoing {
            to,
            head: &bytes[..n / 2],
            body: &bytes[n / 2..n],
            tail: &[],
        };
        let run = |sizes: &[(SocketAddr, usize)], longest, most| {
            let batch: Vec<_> = sizes.iter().map(|&(to, n)| of(to, n)).collect();
            run_length(&batch, longest, most)
        };
        assert_eq!(run(&[(a, 10); 5], 64, 65_507), 5);
        assert_eq!(run(&[(a, 10); 5], 3, 65_507), 3);
        assert_eq!(run(&[(a, 10); 5], 64, 25), 2);
        assert_eq!(run(&[(a, 10); 5], 1, 65_507), 1);
        assert_eq!(run(&[(a, 10), (a, 10), (a, 4), (a, 4)], 64, 65_507), 3);
        assert_eq!(run(&[(a, 10), (a, 11)], 64, 65_507), 1);
        assert_eq!(run(&[(a, 10), (b, 10)], 64, 65_507), 1);
        assert_eq!(run(&[(a, 10), (a, 0)], 64, 65_507), 1);
        assert_eq!(run(&[(a, 0), (a, 0)], 64, 65_507), 1);
        assert_eq!(run(&[(a, 1900); 3], 64, 100), 1);
    }
}
