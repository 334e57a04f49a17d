//! Receive buffers that overflow because the system lets sockets have less than they ask for.
//!
//! Peers keep no more in flight than a buffer holds, and what lies on the path: but all of them may
//! send at once. What the kernel dropped is sent again, which costs time; a notice says whose
//! setting that is.

use crate::silence::name;
use clump_os::{probe, udp};
use clump_shm::node::NodeMemory;
use clump_trace::{Counter, Counters};

/// True once the user of this node was told.
#[derive(Debug, Default)]
pub(crate) struct Overflow(bool);

impl Overflow {
    /// Returns a notice about the first rank or interface of the node whose socket's buffer has
    /// overflowed, if buffers are smaller than sockets ask for; once.
    pub(crate) fn poll_notice(&mut self, node: &NodeMemory) -> Option<String> {
        if self.0 {
            return None;
        }
        let mut own = node.local_ranks().chain(node.own_interfaces());
        let (id, count) = own.find_map(|id| {
            let count = Counters::over(node.rank(id)?.counters()).get(Counter::NetOverflowed);
            (count > 0).then_some((id, count))
        })?;
        debug_assert!(count > 0 && node.rank(id).is_some(), "of this node");
        self.0 = true;
        notice(&name(node, id), count, probe::udp_buffer().ok()?)
    }
}

/// Returns the notice, if sockets get `buffer` bytes and that is less than they ask for.
fn notice(this: &str, count: u64, buffer: usize) -> Option<String> {
    debug_assert!(count > 0, "nothing was dropped");
    debug_assert!(!this.is_empty(), "of a rank or an interface");
    let (kib, asked) = (buffer >> 10, udp::BUFFER_BYTES);
    (buffer < asked).then(|| {
        format!(
            "the system dropped {count} packets to {this}, whose receive buffer was full: sockets here get {kib} KiB of \
             the {} KiB that they ask for; the job goes on, but slower. As root: {}",
            asked >> 10,
            udp::buffer_remedy()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_shm::node::NodeConfig;

    #[test]
    fn a_buffer_that_overflows_is_told_of_once_with_the_setting() {
        let config = NodeConfig { node_of: &[0, 0, 1], ..NodeConfig::new(3) };
        let node = NodeMemory::create(&config).unwrap();
        let mut overflow = Overflow::default();
        assert_eq!(overflow.poll_notice(&node), None);
        Counters::over(node.rank(1).unwrap().counters()).set(Counter::NetOverflowed, 7);
        // Whether there is one depends on the machine.
        let here = notice("rank 1", 7, probe::udp_buffer().unwrap());
        assert_eq!(overflow.poll_notice(&node), here);
        assert!(overflow.0 && overflow.poll_notice(&node).is_none(), "once");
        let said = notice("rank 1", 7, 208 << 10).unwrap();
        assert!(said.contains("dropped 7 packets to rank 1"), "{said}");
        assert!(said.contains("208 KiB of the 4096 KiB"), "{said}");
        assert!(said.contains("net.core.rmem_max=4194304"), "{said}");
        assert_eq!(notice("rank 1", 7, udp::BUFFER_BYTES), None);
    }
}
