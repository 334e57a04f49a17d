//! State of a job that does not end: each rank's waits, and each thread's place in the kernel.

use clump_os::{process, thread_state};
use clump_shm::node::NodeMemory;
use std::fmt::Write as _;

/// Returns a line for each wait that a rank has published, and for each thread of this process.
pub fn report(nodes: &[NodeMemory]) -> String {
    let mut text = String::new();
    for node in nodes {
        for rank in node.local_ranks() {
            let state = node.peer(rank).map(|peer| peer.state());
            let block = node.rank(rank);
            let waits: Vec<_> = block.iter().flat_map(|block| block.waits()).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "rank {rank}: {state:?}; waits: {waits:?}");
        }
    }
    for state in thread_state::threads(process::own_pid()) {
        let (kernel, call) = (state.kernel.unwrap_or_default(), state.call.unwrap_or_default());
        let _ = writeln!(text, "thread `{}`: {} {kernel} {call}", state.name, state.state);
    }
    text
}
