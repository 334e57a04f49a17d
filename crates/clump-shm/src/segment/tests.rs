//! The segment space of a rank under random use, and announcements that no correct rank makes.

use super::*;
use crate::export::Extent;
use crate::geometry::SEGMENT_SPACE;
use crate::node::NodeConfig;
use crate::region::Pages;
use proptest::prelude::*;

fn node(node_of: &[u32]) -> NodeMemory {
    let config = NodeConfig {
        ranks: 2,
        node: 0,
        node_of,
        proxies: 1,
        job_id: 1,
        survive: true,
        spin_ns: 1,
        yield_ns: 1,
    };
    NodeMemory::create(&config).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    /// Bytes reserved, and bytes of them that are committed at once.
    Take(u64, u64),
    Commit(usize),
    GiveBack(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let most = 5 * PAGE as u64;
    prop_oneof![
        4 => (0..most, 0..most).prop_map(|(reserved, bytes)| Step::Take(reserved, bytes)),
        1 => any::<usize>().prop_map(Step::Commit),
        3 => any::<usize>().prop_map(Step::GiveBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_page_is_taken_twice_or_lost(steps in prop::collection::vec(any_step(), 1..80)) {
        let mut space = SegmentSpace::new(&node(&[]), 1);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Take(reserved, bytes) => {
                    let offset = space.take_reserved(reserved, bytes).unwrap();
                    let end = offset + reserved.max(bytes);
                    prop_assert!(taken.iter().all(|&(o, l)| o + l <= offset || end <= o));
                    taken.push((offset, reserved.max(bytes)));
                }
                Step::Commit(at) if !taken.is_empty() => {
                    let (offset, bytes) = taken[at % taken.len()];
                    space.commit(offset, bytes).unwrap();
                }
                Step::GiveBack(at) if !taken.is_empty() => {
                    let (offset, bytes) = taken.swap_remove(at % taken.len());
                    space.give_back(offset, bytes);
                }
                Step::Commit(_) | Step::GiveBack(_) => {}
            }
            space.check_invariants();
        }
        let page = PAGE as u64;
        let held = taken.iter().map(|(_, len)| len.next_multiple_of(page).max(page)).sum::<u64>();
        let free = space.free.iter().map(|(_, len)| len).sum::<u64>();
        prop_assert_eq!(held + free, space.next - space.start, "every page is taken or free");
    }
}

#[test]
fn a_space_that_is_used_up_says_how_much_is_left() {
    let mut space = SegmentSpace::new(&node(&[]), 0);
    let first = space.take_reserved(SEGMENT_SPACE - PAGE as u64, 1).unwrap();
    let error = space.take_reserved(2 * PAGE as u64, 1).unwrap_err();
    assert!(matches!(error, Error::SegmentSpace { free, .. } if free == PAGE as u64), "{error}");
    assert!(space.take(1).unwrap() > first);
    space.give_back(first, SEGMENT_SPACE - PAGE as u64);
    assert_eq!(space.take_reserved(SEGMENT_SPACE - PAGE as u64, 1).unwrap(), first);
}

#[test]
fn only_registered_memory_of_the_rank_itself_is_its_endpoints_segment() {
    let node = node(&[]);
    let block = node.endpoint_block(0, 0).unwrap();
    let page = PAGE as u64;
    let register = |rank: u32, offset: u64, reserved: u64| {
        let exports = node.rank(rank).unwrap();
        let (index, generation) =
            exports.exports().open(Extent { offset, reserved, bytes: page }).unwrap();
        SegmentName::new(rank, index, generation)
    };
    let mine = register(0, node.geometry().segments(0), 2 * page);
    let others = register(1, node.geometry().segments(1), page);
    let beyond = register(0, node.geometry().segments(1) - page, 2 * page);
    let region = node.open_region(3, page, Pages::Base).unwrap();
    node.grow_region(3, page).unwrap();
    let stale = SegmentName::new(0, mine.index(), mine.generation() + 1);
    let mut announced = AnnouncedSegment::default();
    for (name, bytes, found) in [
        (mine, page, true),
        (mine, page + 1, false),
        (others, page, false),
        (mine, 1, true),
        (beyond, page, false),
        (region, page, false),
        (stale, page, false),
        (SegmentName::from_bits(u64::MAX), page, false),
    ] {
        block.set_segment(name, bytes);
        let segment = announced.current(&node, 0, &block).unwrap();
        assert_eq!(segment.map(|s| s.len() as u64), found.then_some(bytes), "{name}");
    }
}

#[test]
fn a_segment_that_grows_shows_its_new_bytes_to_senders_that_know_it() {
    let node = node(&[]);
    let (block, page) = (node.endpoint_block(0, 0).unwrap(), PAGE as u64);
    let rank = node.rank(0).unwrap();
    let offset = SegmentSpace::new(&node, 0).take(4 * page).unwrap();
    let extent = Extent { offset, reserved: 4 * page, bytes: page };
    let (index, generation) = rank.exports().open(extent).unwrap();
    let name = SegmentName::new(0, index, generation);
    let mut announced = AnnouncedSegment::default();
    block.set_segment(name, page);
    let small = announced.current(&node, 0, &block).unwrap().unwrap().clone();
    assert!(!small.write(page, &[7]));
    rank.exports().grow(index, 4 * page);
    block.set_segment(name, 4 * page);
    let grown = announced.current(&node, 0, &block).unwrap().unwrap();
    assert!(grown.write(3 * page, &[7]) && grown.len() as u64 == 4 * page);
    rank.exports().close(index);
    assert!(Segment::registered(&node, name, page).unwrap().is_none(), "it is withdrawn");
}
