//! Wake-ups after local changes that ranks and requests wait for; mailbox messages as applies.

use clump_onesided::{AdvanceWord, Range};
use clump_os::sync::{Ordering, fence};
use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;
use zerocopy::IntoBytes;

/// Wakes a rank of this node, or this node's interface on behalf of a rank of another
/// (`clump-rma`).
pub(super) fn wake(memory: &NodeMemory, rank: u32) {
    if !memory.is_local(rank) {
        if let Some(alarm) = memory.interface_alarm() {
            alarm.ring();
        }
    } else if let Some(block) = memory.rank(rank) {
        let alarm = memory.alarm(rank).map(|alarm| &**alarm);
        block.park().wake_if_asleep(memory.fence(), alarm);
    }
}

/// Reports to the interface of this node that a local store has changed a word, as
/// [`clump_rma::Target`] does: requests may wait for it.
pub(super) fn notify(memory: &NodeMemory, name: SegmentName, offset: u64) {
    let interface = memory.interface_id(memory.node());
    fence(Ordering::SeqCst);
    if let Some(block) = memory.rank(interface)
        && block.mark_changed(name, offset)
    {
        block.park().wake(memory.alarm(interface).map(|alarm| &**alarm));
    }
}

/// Encodes a mailbox message and its signal as one apply: payload of the request.
pub(super) fn encode_mailbox_message(slot: u64, data: &[u8], signal: u64, n: u64) -> Vec<u8> {
    let run = Range::new(slot, data.len() as u64);
    let advance = AdvanceWord::to(signal, n);
    [run.as_bytes(), advance.as_bytes(), data].concat()
}
