//! Counts of an interface's answers to ranks, which no rank has sent: in the counters of the
//! interface, and in its row of the job's matrix (docs/adr/0041).

use clump_shm::block::EndpointBlock;
use clump_shm::inbox::interface_traffic;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::shared::Shared;
use clump_shm::traffic::{Traffic, TrafficRow};
use clump_trace::{Counter, Counters, Flow, Role, Size};
use clump_transport::Result;
use clump_wire::Message;

/// The places where an interface counts its answers.
#[derive(Debug)]
pub(crate) struct AnswerTally {
    block: Shared<EndpointBlock>,
    row: TrafficRow,
}

impl AnswerTally {
    /// Creates that of interface `id` of this node.
    ///
    /// # Errors
    /// Address space has run out.
    pub(crate) fn new(memory: &NodeMemory, id: u32) -> Result<Self> {
        debug_assert_eq!(id, memory.interface_id(memory.node()), "the first one executes");
        Ok(Self { block: memory.endpoint_block(id, 0)?, row: interface_traffic(memory, id)? })
    }

    /// Counts an answer that was sent to a rank; `remote`: of another node.
    pub(crate) fn note(&self, answer: &Message<'_>, remote: bool) {
        debug_assert!(answer.reply, "requests of interfaces are protocol");
        let to = Name::from_bits(answer.route.to).rank();
        debug_assert!(answer.words.len() <= clump_wire::frame::MAX_WORDS, "as a frame carries");
        let (size, bytes) = match answer.payload.len() {
            0 => (Size::Short, answer.words.len() as u64 * 8),
            bytes => (Size::Medium, bytes as u64),
        };
        debug_assert!(bytes > 0, "an answer has a cookie at least");
        let counters = Counters::over(self.block.counters());
        let sent = Counter::messages(Role::Reply, size, Flow::Sent);
        let sent_bytes = Counter::bytes(Role::Reply, size, Flow::Sent);
        let of = |counter: Counter| if remote { counter.over_network() } else { counter };
        counters.bump(of(sent));
        counters.add(of(sent_bytes), bytes);
        self.row.add(
            to,
            match size {
                Size::Short => Traffic { short: 1, short_bytes: bytes, ..Traffic::default() },
                _ => Traffic { medium: 1, medium_bytes: bytes, ..Traffic::default() },
            },
        );
    }
}
