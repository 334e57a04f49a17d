//! Random words over an endpoint's lanes, queues, doorbells and control words: a poll handles,
//! skips or refuses what it finds; it never panics, never reads outside, and always ends.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::world;

use clump_am::{Endpoint, Handler, RankContext, Settings, Tag};
use clump_shm::geometry::{ENDPOINT_HEADER, LANE_FRONT, QUEUE_BLOCKS, QUEUE_SLOTS};
use clump_shm::node::NodeMemory;
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const TAG: Tag = Tag(7);

/// A word of the victim's endpoint block.
#[derive(Debug, Clone, Copy)]
enum Spot {
    Header(usize),
    QueueSlot(usize, usize, usize),
    BlockState(usize, usize),
    /// Control lines and slots of a lane.
    Lane(usize, usize),
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Write(Spot, u64),
    Poll,
    Send(bool, usize),
    /// The victim sends too, over shared memory that its peer wrote.
    Answer,
    Map,
    Unmap,
}

/// Writes `word` at `spot`, as a stranger with the descriptor could.
fn write(node: &NodeMemory, file: &File, spot: Spot, word: u64) {
    let g = node.geometry();
    let queue = |which: usize| ENDPOINT_HEADER + which * g.queue_bytes();
    let inside = match spot {
        Spot::Header(at) => at * 8 % ENDPOINT_HEADER,
        Spot::QueueSlot(which, slot, at) => queue(which) + slot * 64 + at * 8,
        Spot::BlockState(which, block) => queue(which) + QUEUE_SLOTS * 64 + block * 8,
        Spot::Lane(lane, at) => g.lane_in_block(lane) + at * 8 % LANE_FRONT,
    };
    file.write_all_at(&word.to_ne_bytes(), g.endpoint(0, 0) + inside as u64).unwrap();
}

fn equip(context: &Arc<RankContext>) -> Endpoint {
    let endpoint = Endpoint::open(context, TAG).unwrap();
    endpoint.export_segment(4096).unwrap();
    for handler in 1..=20 {
        endpoint
            .set_handler(Handler(handler), |token, words, payload| {
                let bytes = payload.to_vec();
                if bytes.is_empty() {
                    token.reply(Handler(9), words)
                } else {
                    token.reply_bulk(Handler(9), &bytes, &[])
                }
            })
            .unwrap();
    }
    endpoint.on_returned(|_| {}).unwrap();
    endpoint
}

/// Runs two endpoints that talk, one of them in memory that random words overwrite. Errors are
/// welcome.
fn run(lanes: bool, steps: &[Step]) {
    let settings = Settings { lanes, send_timeout: Some(std::time::Duration::ZERO) };
    let node = clump_test_bed::node(2, true);
    let file = File::from(node.fd().try_clone_to_owned().unwrap());
    let contexts =
        [clump_test_bed::context(&node, 0, settings), clump_test_bed::context(&node, 1, settings)];
    let (victim, peer) = (equip(&contexts[0]), equip(&contexts[1]));
    let (mut there, back) =
        (peer.map(&victim.name(), TAG).unwrap(), victim.map(&peer.name(), TAG).unwrap());
    for step in steps {
        match *step {
            Step::Write(spot, word) => write(&node, &file, spot, word),
            Step::Poll => drop((victim.poll(), peer.poll())),
            Step::Send(bulk, len) if bulk => {
                drop(peer.request_bulk(there, Handler(2), &vec![1; len], &[len as u64]));
            }
            Step::Send(_, len) => drop(peer.request(there, Handler(2), &vec![1; len % 9])),
            Step::Answer => drop(victim.request(back, Handler(3), &[1, 2])),
            Step::Map => there = peer.map(&victim.name(), TAG).unwrap_or(there),
            Step::Unmap => drop(peer.unmap(there)),
        }
    }
    for _ in 0..100 {
        drop((victim.poll(), peer.poll()));
    }
}

/// Generates words that resemble a correct sender's, and others.
fn any_word() -> impl Strategy<Value = u64> {
    let header = (
        1..4u64,
        0..6u64,
        0..16u64,
        0..12u64,
        prop_oneof![0..200u64, any::<u32>().prop_map(u64::from)],
    )
        .prop_map(|(lap, kind, words, handler, payload)| {
            lap | kind << 16 | words << 20 | handler << 24 | payload << 32
        });
    let state =
        (0..4u64, 0..4u64, 0..3u64).prop_map(|(lap, status, rank)| lap << 32 | status << 24 | rank);
    prop_oneof![4 => header, 4 => state, 2 => 0..200u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn any_spot() -> impl Strategy<Value = Spot> {
    prop_oneof![
        2 => (0..200usize).prop_map(Spot::Header),
        4 => (0..2usize, 0..6usize, 0..8usize).prop_map(|(q, slot, at)| Spot::QueueSlot(q, slot, at)),
        1 => (0..2usize, 0..QUEUE_BLOCKS).prop_map(|(q, block)| Spot::BlockState(q, block)),
        6 => (0..4usize, 0..150usize).prop_map(|(lane, at)| Spot::Lane(lane, at)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any_spot(), any_word()).prop_map(|(spot, word)| Step::Write(spot, word)),
        3 => Just(Step::Poll),
        3 => (any::<bool>(), 0..3000usize).prop_map(|(bulk, len)| Step::Send(bulk, len)),
        1 => Just(Step::Answer),
        1 => Just(Step::Map),
        1 => Just(Step::Unmap),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: clump_test_tier::pick(250, 1500), max_shrink_iters: 2000, ..Default::default() })]

    #[test]
    fn scribbled_memory_is_survived(lanes: bool, steps in prop::collection::vec(any_step(), 1..60)) {
        world::in_time(move || run(lanes, &steps));
    }
}
