//! Choice among the paths to a peer: the state of each, and the rules for leaving, trying and
//! taking back.
//!
//! All datagrams to a peer go by one path, so that none overtakes another; the preferred one
//! differs from peer to peer. A path is left when nothing arrived by it for a while although
//! several datagrams were sent, and at once when this machine cannot send by it. It is *doubted*
//! then: the peer may just be busy. When the peer goes on to answer by another path only, it is
//! *out*. Paths that are doubted or out are tried at intervals with a copy of a datagram, and a
//! side that receives by a path that it does not use itself answers with a copy too; so a path is
//! taken back when both directions work, or seem to.
//!
//! Pure: time comes in, paths to send by go out.

use crate::driver::{MAX_PATHS, PathCounts};
use std::net::SocketAddr;

/// Minimum time without anything received by a path, before it is left. Where answers usually take
/// long, this is [`SLOWNESS`] times as long as they take, and at most [`LONGEST_SILENCE_NS`].
const SILENCE_NS: u64 = 20_000_000;
const LONGEST_SILENCE_NS: u64 = 100_000_000;
const SLOWNESS: u64 = 8;
/// Minimum number of datagrams sent meanwhile: the last ones of an exchange are not answered.
const FEW: u32 = 4;
/// Time for which the peer must have answered by another path, before a doubted one is out.
const SURE_NS: u64 = 5_000_000;
/// Time between two copies by the same path.
const TRY_NS: u64 = 50_000_000;
/// A datagram received by a path that is not used is answered within this time, and again after
/// twice as long.
const ANSWER_NS: u64 = 100_000_000;
/// Minimum time for which a path is out: at first, and the maximum to which it grows when the path
/// is taken back in vain again and again. So a path that works in one direction only is seldom
/// used.
const FIRST_REST_NS: u64 = 50_000_000;
const LONGEST_REST_NS: u64 = 3_200_000_000;
/// Time after which a path that was taken back is trusted as before.
const TRUSTED_NS: u64 = 10_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RailState {
    #[default]
    In,
    Doubted,
    Out,
}

/// State of one path.
#[derive(Debug, Clone, Copy)]
struct Rail {
    standing: RailState,
    /// Datagrams sent since one was received by it, and when the first of them was.
    unheard: u32,
    since_ns: u64,
    /// Time from which it may be tried again.
    try_at_ns: u64,
    /// A datagram arrived by it; the peer is to know if there is something to send until then.
    answer_until_ns: u64,
    /// Time from which that may happen again: answers would be answered.
    answer_again_ns: u64,
    /// Time from which it may be taken back, time at which it last was, and the time for which it
    /// will be out next time.
    back_at_ns: u64,
    came_back_ns: u64,
    rest_ns: u64,
}

/// The paths to one peer.
#[derive(Debug)]
pub(super) struct Rails {
    /// Address of the peer on each path; the first names the peer.
    pub(super) to: Vec<SocketAddr>,
    all: [Rail; MAX_PATHS],
    preferred: usize,
    current: usize,
    /// Usual time until an answer arrives.
    answer_ns: u64,
    /// Time since which the peer has answered by another path than the preferred one.
    elsewhere_ns: Option<u64>,
}

impl Rails {
    /// Creates the paths of a peer with addresses `to`, at least one. Paths that this side has and
    /// the peer does not are not used.
    pub(super) fn new(mut to: Vec<SocketAddr>, paths: usize, preferred: usize) -> Self {
        to.truncate(paths.min(MAX_PATHS));
        let path = Rail {
            standing: RailState::In,
            unheard: 0,
            since_ns: 0,
            try_at_ns: 0,
            answer_until_ns: 0,
            answer_again_ns: 0,
            back_at_ns: 0,
            came_back_ns: 0,
            rest_ns: FIRST_REST_NS,
        };
        let preferred = preferred % to.len().max(1);
        let all = [path; MAX_PATHS];
        Self { to, all, preferred, current: preferred, answer_ns: 0, elsewhere_ns: None }
    }

    /// Returns the path to send by.
    #[inline]
    pub(super) fn choose(&mut self, now_ns: u64) -> usize {
        let at = self.current;
        let path = &self.all[at];
        if path.standing == RailState::Out || path.unheard >= FEW && self.is_silent(at, now_ns) {
            self.fail_over(at, now_ns);
        }
        self.current
    }

    fn is_silent(&self, at: usize, now_ns: u64) -> bool {
        let limit_ns = (self.answer_ns * SLOWNESS).clamp(SILENCE_NS, LONGEST_SILENCE_NS);
        now_ns.saturating_sub(self.all[at].since_ns) >= limit_ns
    }

    /// Switches to the next path that is not out; to any other where all are.
    #[cold]
    fn fail_over(&mut self, at: usize, now_ns: u64) {
        let count = self.to.len();
        if self.all[at].standing == RailState::In {
            self.all[at].standing = RailState::Doubted;
            self.all[at].try_at_ns = now_ns + TRY_NS;
            self.elsewhere_ns = None;
        }
        let others = (1..count).map(|k| (at + k) % count);
        let mut usable = others.clone().filter(|&k| self.all[k].standing != RailState::Out);
        let next = usable.next().or_else(|| others.clone().next()).unwrap_or(at);
        self.all[next].unheard = 0;
        self.current = next;
    }

    /// Notes that this many datagrams left by a path.
    #[inline]
    pub(super) fn on_sent(&mut self, at: usize, count: usize, now_ns: u64) {
        let path = &mut self.all[at];
        if path.unheard == 0 {
            path.since_ns = now_ns;
        }
        path.unheard = path.unheard.saturating_add(count as u32);
    }

    /// Notes that this machine cannot send by a path now. Returns true if another one is worth
    /// trying.
    #[cold]
    pub(super) fn on_refused(&mut self, at: usize, now_ns: u64, counts: &mut PathCounts) -> bool {
        if self.all[at].standing != RailState::Out {
            self.take_out(at, now_ns, counts);
        }
        let count = self.to.len();
        (0..count).any(|other| other != at && self.all[other].standing != RailState::Out)
    }

    fn take_out(&mut self, at: usize, now_ns: u64, counts: &mut PathCounts) {
        let path = &mut self.all[at];
        if now_ns.saturating_sub(path.came_back_ns) >= TRUSTED_NS {
            path.rest_ns = FIRST_REST_NS;
        }
        path.standing = RailState::Out;
        path.back_at_ns = now_ns + path.rest_ns;
        path.try_at_ns = now_ns + TRY_NS;
        path.rest_ns = (path.rest_ns * 2).min(LONGEST_REST_NS);
        counts.taken_out += 1;
    }

    /// Notes an authenticated datagram from the peer by a path.
    #[inline]
    pub(super) fn on_heard(&mut self, at: usize, now_ns: u64, counts: &mut PathCounts) {
        let Some(path) = self.all.get_mut(at).filter(|_| at < self.to.len()) else { return };
        if path.unheard > 0 {
            let took_ns = now_ns.saturating_sub(path.since_ns);
            self.answer_ns = self.answer_ns - self.answer_ns / 8 + took_ns / 8;
            path.unheard = 0;
        }
        if at != self.current || path.standing != RailState::In {
            self.on_heard_elsewhere(at, now_ns, counts);
        } else if at != self.preferred {
            self.judge_preferred(now_ns, counts);
        }
    }

    /// Notes an authenticated datagram by a path that is not used, or not trusted.
    #[cold]
    fn on_heard_elsewhere(&mut self, at: usize, now_ns: u64, counts: &mut PathCounts) {
        let path = &mut self.all[at];
        if now_ns >= path.answer_again_ns {
            path.answer_until_ns = now_ns + ANSWER_NS;
            path.answer_again_ns = now_ns + 2 * ANSWER_NS;
        }
        match path.standing {
            RailState::Out if now_ns < path.back_at_ns => return,
            RailState::Out => {
                counts.came_back += 1;
                path.came_back_ns = now_ns;
            }
            RailState::In | RailState::Doubted => {}
        }
        path.standing = RailState::In;
        if at == self.preferred {
            self.current = at;
            self.elsewhere_ns = None;
        } else {
            self.judge_preferred(now_ns, counts);
        }
    }

    /// Notes that the peer answers, but not by the preferred path; takes that one out after a
    /// while.
    fn judge_preferred(&mut self, now_ns: u64, counts: &mut PathCounts) {
        if self.all[self.preferred].standing != RailState::Doubted {
            return;
        }
        let since_ns = *self.elsewhere_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) >= SURE_NS {
            self.take_out(self.preferred, now_ns, counts);
        }
    }

    /// Returns a path by which a copy of the datagram that is sent now is to go as well.
    #[inline]
    pub(super) fn wants_copy(&mut self, now_ns: u64) -> Option<usize> {
        let current = self.current;
        let wants = |path: &Rail| now_ns < path.answer_until_ns || path.standing != RailState::In;
        if !self.all.iter().any(wants) {
            return None;
        }
        let mut others = (0..self.to.len()).filter(|&at| at != current);
        self.all[current].answer_until_ns = 0;
        let due = others.find(|&at| wants(&self.all[at]) && now_ns >= self.all[at].try_at_ns)?;
        self.all[due].answer_until_ns = 0;
        self.all[due].try_at_ns = now_ns + TRY_NS;
        Some(due)
    }
}

#[cfg(test)]
mod tests;
