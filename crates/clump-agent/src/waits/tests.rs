use super::*;
use clump_shm::export::SegmentName;
use clump_shm::node::NodeConfig;
use clump_shm::rank::HeapWait;

fn node(ranks: u32) -> NodeMemory {
    let config = NodeConfig::new(ranks as usize);
    let node = NodeMemory::create(&config).unwrap();
    for rank in 0..ranks {
        // A process that is none of the job.
        node.join(rank, 1).unwrap();
    }
    node
}

fn said(node: &NodeMemory) -> String {
    lines(&JobWaits::observe(std::slice::from_ref(node), |_| None), true).join("\n")
}

#[test]
fn ranks_at_a_barrier_and_those_that_are_not_are_named() {
    let node = node(4);
    let at = |epoch, missing| WaitReason::Barrier { epoch, missing };
    let _waits = [0, 1, 3].map(|rank| node.rank(rank).unwrap().begin_wait(at(7, 2)));
    let text = said(&node);
    let barrier = "barrier 7: ranks 0, 1, 3 are there, rank 2 is not (it was last at barrier 0)";
    assert!(text.contains(barrier), "{text}");
    assert!(text.contains("rank 2 by ranks 0, 1, 3; it is: computing"), "{text}");
    assert!(text.contains("rank 2: computing (in no blocking call)"), "{text}");
    assert!(!text.contains("circles:") && !text.contains("locks:"), "{text}");
}

#[test]
fn ranks_that_wait_for_each_other_are_a_circle() {
    let node = node(6);
    let waits = [(0, 1), (1, 2), (2, 1), (4, 4)];
    let _waits =
        waits.map(|(rank, peer)| node.rank(rank).unwrap().begin_wait(WaitReason::Call { peer }));
    let found = JobWaits::observe(std::slice::from_ref(&node), |_| None);
    assert_eq!(found.circles, [vec![1, 2], vec![4]]);
    assert!(lines(&found, false).contains(&"  ranks 1 -> 2 wait for each other".to_owned()));
}

#[test]
fn locks_that_several_nodes_tell_of_are_joined() {
    let lock = |holder, waiting: &[u32]| LockState {
        lock: "lock 1".into(),
        holder,
        waiting: waiting.to_vec(),
    };
    let part = |lock| JobWaits { locks: vec![lock], ..JobWaits::default() };
    let all = JobWaits::join([part(lock(None, &[1, 2])), part(lock(Some(3), &[2, 4]))]);
    assert_eq!(all.locks, [lock(Some(3), &[1, 2, 4])]);
}

#[test]
fn what_a_hostile_rank_writes_is_text_or_nothing() {
    let node = node(2);
    let block = node.rank(1).unwrap();
    let far = |rank| SegmentName::new(rank, u8::MAX, u32::MAX);
    let _waits = [
        block.begin_wait(WaitReason::Lock { segment: far(0), offset: u64::MAX, holder: Some(9) }),
        block.begin_wait(WaitReason::Lock { segment: far(77), offset: 1, holder: None }),
        block.begin_wait(WaitReason::Lock {
            segment: SegmentName::from_bits(u64::MAX),
            offset: 0,
            holder: None,
        }),
        block.begin_wait(WaitReason::Barrier { epoch: u64::MAX, missing: u32::MAX - 1 }),
        block.begin_wait(WaitReason::Heap {
            what: HeapWait::Lock,
            number: u64::MAX,
            holder: Some(u32::MAX - 1),
        }),
    ];
    let found = JobWaits::observe(std::slice::from_ref(&node), |_| None);
    assert_eq!(found.ranks[1].waits.len(), 5);
    assert_eq!((found.ranks[1].pid, found.ranks[1].threads.len()), (0, 0), "process 1 is no rank");
    assert_eq!(found.locks.len(), 4);
    assert!(!lines(&found, true).is_empty());
}
