//! Which addresses of this node reach which addresses of others, found out before any rank starts.
//! Pure: answers and times in, pings out.
//!
//! Each agent offers all addresses of its machine ([`AgentOffer`]). It pings every address of every
//! other agent from every address of its own of the same family, again and again until it is
//! answered, and then knows what to use: [`PathProbe::chosen`] of its own addresses,
//! [`PathProbe::route`] to the peers'. An answer repeats a random number of the ping, so old
//! answers prove nothing.
//!
//! The probe ends when all pairs have been answered, or [`SETTLE_NS`] after each peer has been
//! reached by one. A peer that has not been by [`GIVE_UP_NS`] cannot be.

use crate::reach::MAX_PATHS;
use crate::spec::AgentOffer;
use std::net::{IpAddr, SocketAddr};

/// Time after which a node that does not answer cannot be reached.
pub(crate) const GIVE_UP_NS: u64 = 4_000_000_000;
/// As much more for each node of the job, all of which are probed at once.
const GIVE_UP_EACH_NS: u64 = 50_000_000;
/// Time for further pairs to be answered once each peer has been reached.
pub(crate) const SETTLE_NS: u64 = 100_000_000;
/// Time between the first two pings of a pair, which doubles up to the longest.
const FIRST_INTERVAL_NS: u64 = 10_000_000;
const LONGEST_INTERVAL_NS: u64 = 200_000_000;

/// One ping: to this node, from the address of this index to the address of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathPing {
    pub(crate) node: u32,
    pub(crate) own: u8,
    pub(crate) their: u8,
    pub(crate) challenge: u64,
}

/// A peer as it is probed.
#[derive(Debug)]
struct ProbedPeer {
    node: u32,
    addresses: Vec<SocketAddr>,
    /// For each own address, for each of the peer's: the pair has been answered.
    answered: Vec<Vec<bool>>,
}

impl ProbedPeer {
    fn is_reached(&self) -> bool {
        self.answered.iter().flatten().any(|&answered| answered)
    }
}

/// The end of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeEnd {
    /// All nodes have been reached.
    Reached,
    /// These have not.
    Unreached(Vec<u32>),
}

/// The probe of one agent.
#[derive(Debug)]
pub(crate) struct PathProbe {
    /// Own addresses, each with the number of its interface.
    own: Vec<(IpAddr, usize)>,
    peers: Vec<ProbedPeer>,
    challenge: u64,
    give_up_ns: u64,
    next_ns: u64,
    interval_ns: u64,
    /// Time when every peer had been reached.
    reached_ns: Option<u64>,
    ended: bool,
    /// True if each address is known to lead to the one at the same place, so that there is nothing
    /// to find out.
    given: bool,
}

impl PathProbe {
    /// Begins to probe the agents that offer themselves, by node, from addresses of node `node`.
    pub(crate) fn new(
        own: Vec<(IpAddr, usize)>,
        node: u32,
        offers: &[AgentOffer],
        challenge: u64,
        now_ns: u64,
    ) -> Self {
        let give_up_ns = GIVE_UP_NS + offers.len() as u64 * GIVE_UP_EACH_NS;
        debug_assert!(!own.is_empty(), "a node has an address");
        let others = (0..).zip(offers).filter(|(other, _)| *other != node);
        let peer = |(node, offer): (u32, &AgentOffer)| ProbedPeer {
            node,
            addresses: offer.addresses.clone(),
            answered: vec![vec![false; offer.addresses.len()]; own.len()],
        };
        let peers = others.map(peer).collect();
        Self {
            own,
            peers,
            challenge,
            give_up_ns: now_ns.saturating_add(give_up_ns),
            next_ns: now_ns,
            interval_ns: FIRST_INTERVAL_NS,
            reached_ns: None,
            ended: false,
            given: false,
        }
    }

    /// Makes every address lead to the one at the same place, without a ping.
    pub(crate) fn take_as_given(&mut self) {
        self.given = true;
        for peer in &mut self.peers {
            for (own, answered) in peer.answered.iter_mut().enumerate() {
                if let Some(answered) = answered.get_mut(own) {
                    *answered = true;
                }
            }
        }
    }

    /// Returns the time for the next call of [`PathProbe::handle_timeout`], until it has ended.
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        let settled = self.reached_ns.map(|at| at.saturating_add(SETTLE_NS));
        let due = self.next_ns.min(self.give_up_ns).min(settled.unwrap_or(u64::MAX));
        (!self.ended).then_some(due)
    }

    /// Returns the pings to send now.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> Vec<PathPing> {
        if self.ended || self.given || now_ns < self.next_ns {
            return Vec::new();
        }
        self.next_ns = now_ns.saturating_add(self.interval_ns);
        self.interval_ns = (self.interval_ns * 2).min(LONGEST_INTERVAL_NS);
        let mut pings = Vec::new();
        for peer in &self.peers {
            for (own, their) in self.pairs(peer) {
                if !peer.answered[own][their] {
                    let (own, their) = (own as u8, their as u8);
                    let challenge = self.challenge;
                    pings.push(PathPing { node: peer.node, own, their, challenge });
                }
            }
        }
        pings
    }

    /// Takes the answer to a ping. Others than to its own count for nothing.
    pub(crate) fn handle_answer(&mut self, ping: PathPing, now_ns: u64) {
        let PathPing { node, own, their, challenge } = ping;
        let peer = self.peers.iter_mut().find(|peer| peer.node == node);
        if challenge != self.challenge || self.ended {
            return;
        }
        let pair = peer
            .and_then(|peer| peer.answered.get_mut(usize::from(own))?.get_mut(usize::from(their)));
        if let Some(answered) = pair {
            *answered = true;
        }
        if self.peers.iter().all(ProbedPeer::is_reached) {
            self.reached_ns.get_or_insert(now_ns);
        }
    }

    /// Returns the end of the probe, once.
    pub(crate) fn poll_end(&mut self, now_ns: u64) -> Option<ProbeEnd> {
        if self.ended {
            return None;
        }
        let is_complete = |peer: &ProbedPeer| {
            self.pairs(peer).iter().all(|&(own, their)| peer.answered[own][their])
                && peer.is_reached()
        };
        let settled = self.reached_ns.is_some_and(|at| now_ns >= at.saturating_add(SETTLE_NS));
        let end = if settled || self.given || self.peers.iter().all(is_complete) {
            ProbeEnd::Reached
        } else if now_ns >= self.give_up_ns {
            let unreached = self.peers.iter().filter(|peer| !peer.is_reached());
            let nodes: Vec<u32> = unreached.map(|peer| peer.node).collect();
            if nodes.is_empty() { ProbeEnd::Reached } else { ProbeEnd::Unreached(nodes) }
        } else {
            return None;
        };
        self.ended = true;
        Some(end)
    }

    /// Returns the own addresses to be used, by index: one for each interface that reaches a peer,
    /// and whatever else it takes to reach all.
    pub(crate) fn chosen(&self) -> Vec<usize> {
        let reaches = |own: usize, peer: &ProbedPeer| peer.answered[own].contains(&true);
        let mut chosen: Vec<usize> = Vec::new();
        for own in 0..self.own.len() {
            let interface = self.own[own].1;
            let is_new = chosen.iter().all(|&other| self.own[other].1 != interface);
            let serves = |peer: &&ProbedPeer| reaches(own, peer);
            let unserved = |peer: &ProbedPeer| !chosen.iter().any(|&other| reaches(other, peer));
            let mut served = self.peers.iter().filter(serves);
            let useful = if is_new { served.next().is_some() } else { served.any(unserved) };
            if useful && chosen.len() < MAX_PATHS {
                chosen.push(own);
            }
        }
        // A peer that the last address alone reaches takes the place of one that is spared.
        for peer in &self.peers {
            let served = chosen.iter().any(|&own| reaches(own, peer));
            if let Some(own) = (0..self.own.len()).find(|&own| !served && reaches(own, peer)) {
                chosen.pop();
                chosen.push(own);
            }
        }
        chosen
    }

    /// Returns the addresses of own interfaces, by index.
    pub(crate) fn own_address(&self, own: usize) -> Option<IpAddr> {
        self.own.get(own).map(|(address, _)| *address)
    }

    /// Returns the index of the address of `node` to send to from own address `own`: of those that
    /// answered, the one at the same place, else the first.
    pub(crate) fn route(&self, node: u32, own: usize) -> Option<usize> {
        let peer = self.peers.iter().find(|peer| peer.node == node)?;
        let answered = peer.answered.get(own)?;
        if answered.get(own) == Some(&true) {
            return Some(own);
        }
        answered.iter().position(|&answered| answered)
    }

    /// Returns true if both own addresses are of one interface.
    pub(crate) fn is_same_interface(&self, one: usize, other: usize) -> bool {
        let of = |own: usize| self.own.get(own).map(|(_, interface)| *interface);
        of(one) == of(other)
    }

    /// Returns true if own address `own` has been answered from `address` of `node`.
    pub(crate) fn is_answered(&self, node: u32, own: usize, address: IpAddr) -> bool {
        let peer = self.peers.iter().find(|peer| peer.node == node);
        peer.is_some_and(|peer| {
            let their = peer.addresses.iter().position(|at| at.ip() == address);
            their.is_some_and(|their| peer.answered.get(own).is_some_and(|all| all[their]))
        })
    }

    /// Returns the pairs of addresses of one family, own first.
    fn pairs(&self, peer: &ProbedPeer) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for (own, (address, _)) in self.own.iter().enumerate() {
            for (their, there) in peer.addresses.iter().enumerate() {
                if there.is_ipv6() == address.is_ipv6() {
                    pairs.push((own, their));
                }
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn offer(addresses: &[&str]) -> AgentOffer {
        let at = |text: &&str| SocketAddr::new(text.parse().unwrap(), 9);
        AgentOffer {
            host: "h".into(),
            program: String::new(),
            addresses: addresses.iter().map(at).collect(),
            epoch: 1,
        }
    }

    fn probe(own: &[(&str, usize)], peers: &[AgentOffer]) -> PathProbe {
        let own: Vec<_> = own.iter().map(|(text, of)| (text.parse().unwrap(), *of)).collect();
        let mine = offer(&[]);
        let offers: Vec<_> = std::iter::once(mine).chain(peers.iter().cloned()).collect();
        PathProbe::new(own, 0, &offers, 7, 0)
    }

    /// Runs it over links where `passes` tells which pairs of addresses are answered.
    fn run(probe: &mut PathProbe, passes: impl Fn(u32, u8, u8) -> bool) -> (ProbeEnd, u64) {
        for now in (0..2 * GIVE_UP_NS).step_by(MS as usize) {
            for ping in probe.handle_timeout(now) {
                if passes(ping.node, ping.own, ping.their) {
                    probe.handle_answer(ping, now + MS / 2);
                }
            }
            if let Some(end) = probe.poll_end(now + MS / 2) {
                assert_eq!((probe.poll_end(now), probe.next_deadline_ns()), (None, None), "once");
                return (end, now);
            }
        }
        panic!("it ends");
    }

    #[test]
    fn addresses_at_the_same_place_are_used_where_all_pass() {
        let peers = [offer(&["10.0.0.2", "10.1.0.2"]), offer(&["10.0.0.3", "10.1.0.3"])];
        let mut probe = probe(&[("10.0.0.1", 0), ("10.1.0.1", 1)], &peers);
        assert_eq!(run(&mut probe, |_, _, _| true), (ProbeEnd::Reached, 0));
        assert_eq!(probe.chosen(), [0, 1]);
        assert_eq!([probe.route(1, 0), probe.route(2, 1)], [Some(0), Some(1)]);
    }

    #[test]
    fn what_passes_is_used_whatever_else_is_offered() {
        // A bridge of containers that every machine has, at place 0; one network at different
        // places; a peer that only IPv6 reaches.
        let peers = [offer(&["172.17.0.1", "10.0.0.2"]), offer(&["fd00::3"]), offer(&["10.0.0.4"])];
        let own = [("172.17.0.1", 0), ("10.0.0.1", 1), ("fd00::1", 1)];
        let mut probe = probe(&own, &peers);
        let passes =
            |node, own, their| matches!((node, own, their), (1, 1, 1) | (2, 2, 0) | (3, 1, 0));
        let (end, at) = run(&mut probe, passes);
        assert_eq!(end, ProbeEnd::Reached);
        assert!((SETTLE_NS..SETTLE_NS + 20 * MS).contains(&at), "{at}");
        assert_eq!(probe.chosen(), [1, 2]);
        assert_eq!(
            [probe.route(1, 1), probe.route(2, 2), probe.route(3, 1)],
            [Some(1), Some(0), Some(0)]
        );
        assert_eq!(probe.route(1, 0), None);
        assert!(probe.is_answered(1, 1, "10.0.0.2".parse().unwrap()));
        assert!(!probe.is_answered(1, 0, "172.17.0.1".parse().unwrap()));
    }

    #[test]
    fn lost_pings_are_sent_again_and_one_interface_is_used_once() {
        let peers = [offer(&["10.0.0.2", "fd00::2"])];
        let mut probe = probe(&[("10.0.0.1", 0), ("fd00::1", 0)], &peers);
        let lost = std::cell::Cell::new(0);
        let passes = |_, _, _| lost.replace(lost.get() + 1) > 9;
        assert_eq!(run(&mut probe, passes).0, ProbeEnd::Reached);
        assert_eq!(probe.chosen(), [0]);
    }

    #[test]
    fn who_is_not_reached_is_named_in_time_and_old_answers_prove_nothing() {
        let peers = [offer(&["10.0.0.2"]), offer(&["10.0.0.3"]), offer(&["fd00::4"])];
        let mut probe = probe(&[("10.0.0.1", 0)], &peers);
        let old = PathPing { node: 2, own: 0, their: 0, challenge: 6 };
        probe.handle_answer(old, 1);
        probe.handle_answer(PathPing { node: 1, own: 9, their: 9, challenge: 7 }, 1);
        let (end, at) = run(&mut probe, |node, _, _| node == 1);
        assert_eq!(end, ProbeEnd::Unreached(vec![2, 3]));
        let late = GIVE_UP_NS + 4 * GIVE_UP_EACH_NS;
        assert!((late - MS..=late).contains(&at), "{at}");
    }
}
