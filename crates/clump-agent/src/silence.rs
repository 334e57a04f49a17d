//! Peers that do not respond though their node is there. They are not evicted, since a stopped
//! process may be continued and a path repaired; but a notice says why the job stands still.

use clump_shm::node::NodeMemory;
use clump_shm::rank::{RankBlock, RankState};
use clump_shm::shared::Shared;
use clump_trace::{Counter, Counters};

/// Node timeouts that such a silence may last before it is reported. A lost node is evicted after
/// one.
const TIMEOUTS: u64 = 5;
/// Packets that the operating system must have refused to be named as the cause.
const MIN_REFUSED: u64 = 4;

/// Peers that have been reported.
#[derive(Debug)]
pub(crate) struct UnresponsivePeers {
    limit_ns: u64,
    told: Vec<(u32, u32)>,
    /// Time when the job went on after its user had suspended it.
    resumed_ns: u64,
}

impl UnresponsivePeers {
    pub(crate) fn new(node_timeout_ms: u64) -> Self {
        Self { limit_ns: TIMEOUTS * node_timeout_ms * 1_000_000, told: Vec::new(), resumed_ns: 0 }
    }

    /// Records that all ranks were stopped until now.
    pub(crate) fn on_resumed(&mut self, now_ns: u64) {
        self.resumed_ns = now_ns;
    }

    /// Checks the ranks and interfaces of the node; returns notices, each once until the peer has
    /// responded.
    pub(crate) fn poll_notices(&mut self, node: &NodeMemory, now_ns: u64) -> Vec<String> {
        let own = node.local_ranks().chain(node.own_interfaces());
        let now = own.filter_map(|id| self.long(node, id, now_ns)).collect::<Vec<_>>();
        let new = now.iter().filter(|(pair, _)| !self.told.contains(pair));
        let texts = new.map(|&((id, peer), silent_ns)| text(node, id, peer, silent_ns)).collect();
        self.told = now.into_iter().map(|(pair, _)| pair).collect();
        texts
    }

    /// Returns the peer from which `id` has waited too long for a response, and how long.
    fn long(&self, node: &NodeMemory, id: u32, now_ns: u64) -> Option<((u32, u32), u64)> {
        let block = node.rank(id)?;
        let (peer, since_ns) = block.unanswered().filter(|_| is_fresh(node, id, &block))?;
        let silent_ns = now_ns.saturating_sub(since_ns.max(self.resumed_ns));
        (silent_ns >= self.limit_ns).then_some(((id, peer), silent_ns))
    }
}

/// Returns true if the block's record is current: a rank that computes does not update it.
fn is_fresh(node: &NodeMemory, id: u32, block: &Shared<RankBlock>) -> bool {
    node.node_of_interface(id).is_some()
        || node.peer(id).is_some_and(|rank| rank.state() == RankState::Joined)
            && block.waiting().is_some()
}

fn text(node: &NodeMemory, id: u32, peer: u32, silent_ns: u64) -> String {
    let s = silent_ns as f64 / 1e9;
    let (this, other) = (name(node, id), name(node, peer));
    let cause = match refused_packets(node, id) {
        Some(refused) => format!(
            "the operating system of {this} has refused to send {refused} of its packets (a firewall's rule for what \
             leaves that machine, or a filter of system calls, seccomp); allow UDP to the other nodes, and sendto, \
             sendmsg and sendmmsg; it goes on trying"
        ),
        None => format!(
            "{other} is stopped, or packets between the two are lost (a firewall, or a path for IP packets of less than \
             1260 bytes?); they go on trying"
        ),
    };
    format!(
        "{this} has had no answer from {other} for {s:.1} s, though agents hear each other: {cause}"
    )
}

/// Returns how many packets of `id` were refused, if that is most of them.
fn refused_packets(node: &NodeMemory, id: u32) -> Option<u64> {
    let block = node.rank(id)?;
    let counters = Counters::over(block.counters());
    let (refused, sent) =
        (counters.get(Counter::NetSendsRefused), counters.get(Counter::NetPacketsSent));
    (refused >= MIN_REFUSED && refused >= sent / 2).then_some(refused)
}

/// Returns the name of a rank or an interface for users.
pub(crate) fn name(node: &NodeMemory, id: u32) -> String {
    match node.node_of_interface(id) {
        Some(there) => format!("the network interface of node {there}"),
        None => format!("rank {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_shm::node::NodeConfig;
    use clump_shm::rank::WaitReason;

    #[test]
    fn a_silent_peer_is_told_of_once_until_it_answers() {
        let config = NodeConfig { node_of: &[0, 1], ..NodeConfig::new(2) };
        let node = NodeMemory::create(&config).unwrap();
        let block = node.rank(0).unwrap();
        node.join(0, 1).unwrap();
        let mut silence = UnresponsivePeers::new(2000);
        let mut told = |now_s: u64| silence.poll_notices(&node, now_s * 1_000_000_000).len();
        block.note_unanswered(Some((1, 1_000_000_000)));
        assert_eq!(told(50), 0, "a rank that computes does not look, and cannot know");
        let _wait = block.begin_wait(WaitReason::Condition);
        assert_eq!([told(10), told(11), told(12)], [0, 1, 0]);
        block.note_unanswered(None);
        assert_eq!(told(13), 0);
        block.note_unanswered(Some((1, 13_000_000_000)));
        assert_eq!([told(22), told(23), told(24)], [0, 1, 0]);
        let interface = node.own_interfaces().next().unwrap();
        node.rank(interface).unwrap().note_unanswered(Some((interface + 1, 0)));
        let said = silence.poll_notices(&node, 25_000_000_000);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("the network interface of node 1 for 25.0 s"), "{said:?}");
    }
}
