//! Which addresses of this node reach which addresses of others, found out before any rank starts.
//! Pure: answers and times in, pings out.
//!
//! Each agent offers all addresses of its machine ([`AgentOffer`]). It pings every address of other
//! agents from every address of its own of the same family, again and again until it is
//! answered, and then knows what to use: [`PathProbe::chosen`] of its own addresses,
//! [`PathProbe::route`] to the peers'. An answer repeats a random number of the ping, so old
//! answers prove nothing.
//!
//! Up to [`MAX_TO_ALL`] nodes all ping all. Of more, each pings those at distances 1, 2, 4 and so
//! on, up and down by number: every node is a few such steps from every other, so a machine, a
//! switch or a network that lets nothing through shows, and pings grow with the logarithm. A peer
//! that is not pinged is *untried*: from each own address that has been answered, it is sent to at
//! the address that has most leading bits in common with one that answered.
//!
//! The probe ends when all pairs have been answered, or [`SETTLE_NS`] after each peer has been
//! reached by one. A peer that has not been by [`GIVE_UP_NS`] cannot be.

use crate::reach::MAX_PATHS;
use crate::spec::AgentOffer;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Time after which a node that does not answer cannot be reached.
pub(crate) const GIVE_UP_NS: u64 = 4_000_000_000;
/// As much more for each node that shares this machine: their agents run one after another where
/// it has few processors.
const GIVE_UP_EACH_NS: u64 = 50_000_000;
/// As much more for each doubling of the nodes: agents hear of each other one after another, while
/// the first of them ping already. The launcher's time for that grows with the nodes, but at
/// milliseconds each; a limit in proportion would hide dead links of large jobs for minutes.
const GIVE_UP_DOUBLING_NS: u64 = 250_000_000;
/// Nodes of the largest job in which all ping all.
pub(crate) const MAX_TO_ALL: u32 = 32;
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
    /// Peers that are probed.
    peers: BTreeMap<u32, ProbedPeer>,
    /// Addresses of the others, by node.
    untried: BTreeMap<u32, Vec<SocketAddr>>,
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
    /// Begins to probe the agents that offer themselves, by node, from addresses of node `node`;
    /// `sharing` nodes share its machine.
    pub(crate) fn new(
        own: Vec<(IpAddr, usize)>,
        (node, sharing): (u32, u32),
        offers: &[AgentOffer],
        challenge: u64,
        now_ns: u64,
    ) -> Self {
        let nodes = offers.len() as u32;
        let doublings = u64::from(nodes.max(1).next_power_of_two().ilog2());
        let give_up_ns =
            GIVE_UP_NS + u64::from(sharing) * GIVE_UP_EACH_NS + doublings * GIVE_UP_DOUBLING_NS;
        debug_assert!(!own.is_empty(), "a node has an address");
        let (mut peers, mut untried) = (BTreeMap::new(), BTreeMap::new());
        for (other, offer) in (0..).zip(offers).filter(|(other, _)| *other != node) {
            let addresses = offer.addresses.clone();
            if is_probed(node, other, nodes) {
                let answered = vec![vec![false; addresses.len()]; own.len()];
                peers.insert(other, ProbedPeer { addresses, answered });
            } else {
                untried.insert(other, addresses);
            }
        }
        Self {
            own,
            peers,
            untried,
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
        for (node, addresses) in std::mem::take(&mut self.untried) {
            let answered = vec![vec![false; addresses.len()]; self.own.len()];
            self.peers.insert(node, ProbedPeer { addresses, answered });
        }
        for peer in self.peers.values_mut() {
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
        for (&node, peer) in &self.peers {
            for (own, their) in self.pairs(peer) {
                if !peer.answered[own][their] {
                    let (own, their) = (own as u8, their as u8);
                    let challenge = self.challenge;
                    pings.push(PathPing { node, own, their, challenge });
                }
            }
        }
        pings
    }

    /// Takes the answer to a ping. Others than to its own count for nothing.
    pub(crate) fn handle_answer(&mut self, ping: PathPing, now_ns: u64) {
        let PathPing { node, own, their, challenge } = ping;
        let peer = self.peers.get_mut(&node);
        if challenge != self.challenge || self.ended {
            return;
        }
        let pair = peer
            .and_then(|peer| peer.answered.get_mut(usize::from(own))?.get_mut(usize::from(their)));
        if let Some(answered) = pair {
            *answered = true;
        }
        if self.peers.values().all(ProbedPeer::is_reached) {
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
        let end = if settled || self.given || self.peers.values().all(is_complete) {
            ProbeEnd::Reached
        } else if now_ns >= self.give_up_ns {
            let unreached = self.peers.iter().filter(|(_, peer)| !peer.is_reached());
            let nodes: Vec<u32> = unreached.map(|(&node, _)| node).collect();
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
            let mut served = self.peers.values().filter(serves);
            let useful = if is_new { served.next().is_some() } else { served.any(unserved) };
            if useful && chosen.len() < MAX_PATHS {
                chosen.push(own);
            }
        }
        // A peer that the last address alone reaches takes the place of one that is spared.
        for peer in self.peers.values() {
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
    /// answered, the one at the same place, else the first; of an untried node, the likeliest.
    pub(crate) fn route(&self, node: u32, own: usize) -> Option<usize> {
        let Some(peer) = self.peers.get(&node) else {
            return self.likeliest(own, self.untried.get(&node)?);
        };
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

    /// Returns those of these addresses of `node` that own address `own` is taken to reach, by
    /// index: that answered it; of an untried node, the likeliest.
    pub(crate) fn reached(&self, node: u32, own: usize, theirs: &[SocketAddr]) -> Vec<usize> {
        let Some(peer) = self.peers.get(&node) else {
            return self.likeliest(own, theirs).into_iter().collect();
        };
        let answers = |address: &SocketAddr| {
            let their = peer.addresses.iter().position(|at| at.ip() == address.ip());
            their.is_some_and(|their| peer.answered.get(own).is_some_and(|all| all[their]))
        };
        (0..theirs.len()).filter(|&at| answers(&theirs[at])).collect()
    }

    /// Returns the index of the address among these that own address `own` most likely reaches, if
    /// that has been answered at all: the one with most leading bits in common with one that
    /// answered it, of several the first.
    fn likeliest(&self, own: usize, theirs: &[SocketAddr]) -> Option<usize> {
        let answered = |peer: &ProbedPeer| -> Vec<IpAddr> {
            let all = peer.answered.get(own).into_iter().flatten().zip(&peer.addresses);
            all.filter(|(answered, _)| **answered).map(|(_, address)| address.ip()).collect()
        };
        let answered: Vec<IpAddr> = self.peers.values().flat_map(answered).collect();
        let likeness = |address: &SocketAddr| {
            answered.iter().filter_map(|known| bits_in_common(*known, address.ip())).max()
        };
        let all = theirs.iter().map(likeness).enumerate().rev();
        all.filter(|(_, bits)| bits.is_some()).max_by_key(|(_, bits)| *bits).map(|(at, _)| at)
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

/// Returns true if agents of these two of so many nodes ping each other.
fn is_probed(one: u32, other: u32, nodes: u32) -> bool {
    debug_assert!(one < nodes && other < nodes && one != other, "two nodes of the job");
    let apart = one.abs_diff(other);
    nodes <= MAX_TO_ALL || apart.is_power_of_two() || (nodes - apart).is_power_of_two()
}

/// Returns the number of leading bits that two addresses of one family have in common.
fn bits_in_common(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
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
            left_out: 0,
            epoch: 1,
        }
    }

    fn probe(own: &[(&str, usize)], peers: &[AgentOffer]) -> PathProbe {
        let own: Vec<_> = own.iter().map(|(text, of)| (text.parse().unwrap(), *of)).collect();
        let mine = offer(&[]);
        let offers: Vec<_> = std::iter::once(mine).chain(peers.iter().cloned()).collect();
        PathProbe::new(own, (0, 1), &offers, 7, 0)
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
        assert_eq!(probe.reached(1, 1, &peers[0].addresses), [1]);
        assert!(probe.reached(1, 0, &peers[0].addresses).is_empty());
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
        let late = GIVE_UP_NS + GIVE_UP_EACH_NS + 2 * GIVE_UP_DOUBLING_NS;
        assert!((late - MS..=late).contains(&at), "{at}");
    }

    #[test]
    fn of_many_nodes_few_are_pinged_and_each_is_a_few_steps_from_every_other() {
        for nodes in [33, 100, 1000, 4096] {
            let peers = |one: u32| {
                (0..nodes).filter(move |&other| other != one && is_probed(one, other, nodes))
            };
            let steps = f64::from(nodes).log2().ceil() as usize;
            // Steps from node 0; all nodes are alike.
            let mut from = vec![None; nodes as usize];
            from[0] = Some(0);
            let mut reached = vec![0];
            for at in 0.. {
                let Some(&one) = reached.get(at) else { break };
                for other in peers(one) {
                    if from[other as usize].is_none() {
                        from[other as usize] = from[one as usize].map(|steps| steps + 1);
                        reached.push(other);
                    }
                }
            }
            assert!(peers(0).count() <= 2 * steps && peers(nodes - 1).count() <= 2 * steps);
            let farthest = from.iter().map(|steps| steps.unwrap()).max().unwrap();
            assert!(farthest <= steps.div_ceil(2) + 1, "{farthest} steps over {nodes} nodes");
        }
    }

    #[test]
    fn untried_peers_are_sent_to_where_others_like_them_have_answered() {
        // A bridge of containers that every machine has, and two networks at different places.
        let of = |node: usize| {
            let (high, low) = (node / 256, node % 256);
            let mut all = vec![
                "172.17.0.1".to_owned(),
                format!("10.0.{high}.{low}"),
                format!("10.1.{high}.{low}"),
            ];
            all.rotate_left(node % 3);
            all
        };
        let offers =
            (1..1000).map(|node| offer(&of(node).iter().map(|at| &**at).collect::<Vec<_>>()));
        let own = [("172.17.0.1", 0), ("10.0.0.0", 1), ("10.1.0.0", 2)];
        let mut probe = probe(&own, &offers.collect::<Vec<_>>());
        let passes = |node: u32, own: u8, their: u8| {
            let there = &of(node as usize)[usize::from(their)];
            own == 1 && there.starts_with("10.0.") || own == 2 && there.starts_with("10.1.")
        };
        let count = std::cell::Cell::new(0);
        let counted = |node, own, their| {
            count.set(count.get() + 1);
            passes(node, own, their)
        };
        assert_eq!(run(&mut probe, counted).0, ProbeEnd::Reached);
        assert!(count.get() < 20 * 9 * 10, "{} pings", count.get());
        assert_eq!(probe.chosen(), [1, 2]);
        for node in 1..1000 {
            assert_eq!(probe.route(node, 0), None, "nothing has answered the bridge");
            for own in [1, 2] {
                let their = probe.route(node, own).unwrap();
                assert!(passes(node, own as u8, their as u8), "node {node} from {own}: {their}");
            }
        }
    }
}
