//! NICs of the machine in whose virtual time a job was traced: the time at which each message of
//! the trace arrived there. Pure.
//!
//! NICs take messages in the order in which they were sent (docs/virtual.md).

use clump_loggp::KnobScope;
use clump_virtual::{Machine, PathCosts};
use std::collections::HashMap;

/// A NIC: that of a thread of a rank for messages within its node, or one of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Nic {
    Thread(u32, u8),
    Node(u32),
}

/// A rank's thread that sends or receives, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageEnd {
    /// The rank.
    pub rank: u32,
    /// The thread.
    pub track: u8,
    /// The rank's node.
    pub node: u32,
    /// Ranks before it on that node; 0 for a thread that serves others.
    pub place: u32,
}

impl MessageEnd {
    fn nic(self, scope: KnobScope, number: u32) -> Nic {
        match scope {
            KnobScope::Shm => Nic::Thread(self.rank, self.track),
            KnobScope::Net => Nic::Node(number),
        }
    }
}

/// A message through NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicTimes {
    /// Time at which the NIC of its sender lets it go, in ns.
    pub injected_ns: u64,
    /// Time at which it has arrived, in ns.
    pub due_ns: u64,
    /// Time for which its bytes hold a NIC, in ns.
    pub bytes_ns: u64,
}

/// The NICs of all nodes.
#[derive(Debug, Clone)]
pub struct VirtualNics {
    machine: Machine,
    /// Times from which on each takes another message to send, and to receive.
    free_ns: HashMap<Nic, [u64; 2]>,
}

impl VirtualNics {
    /// Begins with the NICs of a machine, all free.
    pub fn of(machine: Machine) -> Self {
        Self { machine, free_ns: HashMap::new() }
    }

    /// Returns the gaps of the machine within a node and between nodes, in ns.
    pub fn gaps_ns(&self) -> [u64; 2] {
        [self.machine.node.gap_ns, self.machine.network.gap_ns]
    }

    /// Returns the number of the NIC through which a thread sends to other nodes.
    pub fn number(&self, end: MessageEnd) -> u32 {
        let nics = u32::try_from(self.machine.nics).unwrap_or(1).max(1);
        end.node * nics + end.place % nics
    }

    /// Sends a message with a payload of so many bytes, the next by time.
    pub fn send(
        &mut self,
        [from, to]: [MessageEnd; 2],
        scope: KnobScope,
        (sent_ns, bytes): (u64, u32),
    ) -> NicTimes {
        let bytes = u64::from(bytes).max(1);
        let costs: PathCosts = match scope {
            KnobScope::Shm => self.machine.node,
            KnobScope::Net => self.machine.network,
        };
        let [out, into] = [from, to].map(|end| end.nic(scope, self.number(end)));
        let source = self.free_ns.entry(out).or_default();
        let injected_ns;
        (injected_ns, source[0]) = costs.leaves(sent_ns, source[0], bytes);
        let target = self.free_ns.entry(into).or_default();
        let due_ns;
        (due_ns, target[1]) = costs.arrives(injected_ns, target[1], bytes);
        debug_assert!(sent_ns <= injected_ns && injected_ns <= due_ns, "NICs only delay");
        NicTimes { injected_ns, due_ns, bytes_ns: costs.bytes_ns(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_virtual::PageCosts;

    #[test]
    fn messages_wait_for_the_nic_of_their_node_and_for_that_of_the_target() {
        let costs = |gap_ns, latency_ns| PathCosts {
            send_ns: 1,
            gap_ns,
            latency_ns,
            byte_ps: 1_000,
            ..PathCosts::default()
        };
        let (node, network) = (costs(1, 2), costs(100, 1_000));
        let machine = Machine {
            node,
            network,
            nics: 1,
            cpu_ppm: 0,
            execute_ns: 0,
            pages: PageCosts::default(),
        };
        let mut nics = VirtualNics::of(machine);
        let end = |rank, track| MessageEnd { rank, track, node: rank, place: 0 };
        let mut send = |from, to, sent_ns, bytes| {
            let NicTimes { injected_ns, due_ns, bytes_ns } =
                nics.send([from, to], KnobScope::Net, (sent_ns, bytes));
            (injected_ns, due_ns, bytes_ns)
        };
        // 500 bytes are on the wire for 499 ns behind the first.
        assert_eq!(send(end(0, 0), end(1, 0), 10, 500), (10, 10 + 1_000 + 499, 499));
        // Another thread of the node has no message before it, but the NIC has.
        assert_eq!(send(end(0, 1), end(2, 0), 20, 1), (10 + 499, 10 + 499 + 1_000, 0));
        // So has the target's: it receives until 1,509.
        assert_eq!(send(end(2, 0), end(1, 0), 30, 101), (30, 1_509 + 100, 100));
        assert_eq!(nics.gaps_ns(), [1, 100]);
    }
}
