//! The segment space of a rank under random use, and announcements that no correct rank makes.

use super::*;
use crate::geometry::SEGMENT_SPACE;
use crate::node::NodeConfig;
use crate::supply::Shortage;
use proptest::prelude::*;

fn node(node_of: &[u32]) -> NodeMemory {
    let config = NodeConfig { node_of, proxies: 1, survive: true, ..NodeConfig::new(2) };
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
        let mut space = SegmentSpace::new(&node(&[]), 1).unwrap();
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
                    space.commit(offset, 0, bytes).unwrap();
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
    let mut space = SegmentSpace::new(&node(&[]), 0).unwrap();
    let first = space.take_reserved(SEGMENT_SPACE - PAGE as u64, 1).unwrap();
    let error = space.take_reserved(2 * PAGE as u64, 1).unwrap_err();
    assert!(matches!(error, Error::SegmentSpace { free, .. } if free == PAGE as u64), "{error}");
    assert!(space.take(1).unwrap() > first);
    space.give_back(first, SEGMENT_SPACE - PAGE as u64);
    assert_eq!(space.take_reserved(SEGMENT_SPACE - PAGE as u64, 1).unwrap(), first);
}

/// A machine with so many bytes, granted in steps of a page and a bit.
#[derive(Debug, Clone)]
struct Small(std::sync::Arc<std::sync::Mutex<u64>>);

impl MemorySupply for Small {
    fn grant(&mut self, bytes: u64) -> std::result::Result<u64, Shortage> {
        let mut left = self.0.lock().unwrap();
        let step = bytes.min(PAGE as u64 + 1);
        *left = left.checked_sub(bytes.min(step)).ok_or(Shortage { available: *left })?;
        Ok(step)
    }
}

#[test]
fn a_machine_without_memory_refuses_and_keeps_nothing_of_what_was_refused() {
    let node = node(&[]);
    let resident = || resident_pages(&node);
    let before = resident();
    let left = Small(std::sync::Arc::new(std::sync::Mutex::new(10 * PAGE as u64)));
    let mut space = SegmentSpace::with_supply(&node, 0, Box::new(left.clone())).unwrap();
    let bytes = 64 * PAGE as u64;
    let error = space.take(bytes).unwrap_err();
    assert!(matches!(error, Error::NoMemory { asked, available }
        if asked == bytes && available > 5 * PAGE as u64 && available <= 10 * PAGE as u64));
    assert!(error.to_string().contains("cgroup"), "{error}");
    assert_eq!(resident(), before, "what was committed before the refusal is given back");
    *left.0.lock().unwrap() = 100 * PAGE as u64;
    let offset = space.take_reserved(bytes, 2 * PAGE as u64).unwrap();
    assert_eq!(resident(), before + 2);
    // To grow takes what is new, and fails whole.
    *left.0.lock().unwrap() = 8 * PAGE as u64;
    space.commit(offset, 2 * PAGE as u64, 5 * PAGE as u64).unwrap();
    assert_eq!(resident(), before + 5);
    assert!(space.commit(offset, 5 * PAGE as u64, 40 * PAGE as u64).is_err());
    assert_eq!(resident(), before + 5, "what was there before stays");
}

/// Pages of the node's file that have memory.
fn resident_pages(node: &NodeMemory) -> u64 {
    let fd = node.fd().try_clone_to_owned().unwrap();
    std::os::unix::fs::MetadataExt::blocks(&std::fs::File::from(fd).metadata().unwrap())
        / (PAGE as u64 / 512)
}

#[test]
fn what_no_correct_rank_exports_is_no_segment() {
    let node = node(&[0, 1]);
    let interface = node.own_interfaces().start;
    assert!([1, interface].iter().all(|id| SegmentSpace::new(&node, *id).is_err()), "no space");
    let (rank, page) = (0, PAGE as u64);
    let space = node.geometry().segments(0)..node.geometry().segments(1);
    let sane = Extent { offset: space.start, reserved: 2 * page, bytes: page + 1 };
    let extents = [
        (rank, sane, Some(sane.bytes as usize)),
        (rank, Extent { bytes: 0, ..sane }, None),
        (rank, Extent { offset: space.start - page, ..sane }, None),
        (rank, Extent { offset: space.end - page, ..sane }, None),
        (rank, Extent { offset: space.start + 1, ..sane }, None),
        (rank, Extent { offset: node.geometry().total_bytes(), ..sane }, None),
        // An interface has no space for segments.
        (interface, sane, None),
    ];
    for (at, extent, bytes) in extents {
        let exports = node.rank(at).unwrap();
        let (index, generation) = exports.exports().open(extent).unwrap();
        let name = SegmentName::new(at, index, generation);
        let segment = Segment::exported(&node, name).unwrap();
        assert_eq!(segment.map(|segment| segment.len()), bytes, "{extent:?}");
        let before = SegmentName::new(at, index, generation + 1);
        assert!(Segment::exported(&node, before).unwrap().is_none(), "another generation");
        exports.exports().close(index);
        assert!(Segment::exported(&node, name).unwrap().is_none(), "not exported any more");
    }
}
