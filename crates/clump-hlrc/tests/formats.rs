//! Formats: what is written is read, and any bytes are read without harm.

use clump_hlrc::{
    ByteReader, DecodeError, Diff, Interval, MessageLimits, NodeMessage, NoticeLog, PageVersion,
    Placement, VectorTime, WriterTally, push_u32,
};
use proptest::prelude::*;

const NODES: usize = 9;

fn time() -> impl Strategy<Value = VectorTime> {
    proptest::collection::vec(prop_oneof![Just(0), 0_u32..300, any::<u32>()], NODES).prop_map(
        |entries| {
            let mut time = VectorTime::zero(NODES);
            for (node, interval) in (0..).zip(entries) {
                time.raise(node, interval);
            }
            time
        },
    )
}

proptest! {
    #[test]
    fn times_are_read_as_written(base in time(), added in time()) {
        let mut time = base.clone();
        time.join(&added);
        let mut bytes = Vec::new();
        time.encode(&base, &mut bytes);
        prop_assert_eq!(VectorTime::decode(&base, &mut ByteReader::new(&bytes)), Ok(time));
    }

    #[test]
    fn joins_and_meets_are_bounds(a in time(), b in time()) {
        let (mut join, mut meet) = (a.clone(), a.clone());
        join.join(&b);
        meet.meet(&b);
        for node in 0..NODES as u16 {
            prop_assert_eq!(join.get(node), a.get(node).max(b.get(node)));
            prop_assert_eq!(meet.get(node), a.get(node).min(b.get(node)));
        }
        prop_assert_eq!(a.covers(&b), join == a);
    }

    #[test]
    fn versions_are_read_as_written(entries in proptest::collection::vec((0_u16..NODES as u16, 1_u32..), 0..12)) {
        let mut version = PageVersion::default();
        for &(writer, interval) in &entries {
            version.raise(writer, interval);
        }
        for node in 0..NODES as u16 {
            let last = entries.iter().filter(|entry| entry.0 == node).map(|entry| entry.1).max();
            prop_assert_eq!(version.get(node), last.unwrap_or(0));
        }
        let mut bytes = Vec::new();
        version.encode(&mut bytes);
        prop_assert_eq!(PageVersion::decode(NODES, &mut ByteReader::new(&bytes)), Ok(version));
    }

    #[test]
    fn intervals_are_read_as_written(node in 0_u16..NODES as u16, number in 1_u32.., pages in proptest::collection::btree_set(0_u32..60, 0..40)) {
        let interval = Interval { node, number, epoch: number / 2, pages: pages.into_iter().collect() };
        let mut bytes = Vec::new();
        interval.encode(&mut bytes);
        prop_assert_eq!(Interval::decode(NODES, 60, &mut ByteReader::new(&bytes)), Ok(interval));
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(prop_oneof![0_u8..6, any::<u8>()], 0..40)) {
        let base = VectorTime::zero(NODES);
        if let Ok(time) = VectorTime::decode(&base, &mut ByteReader::new(&bytes)) {
            prop_assert!(time.covers(&base));
        }
        if let Ok(interval) = Interval::decode(NODES, 100, &mut ByteReader::new(&bytes)) {
            prop_assert!(interval.pages.iter().all(|&page| page < 100));
        }
        if let Ok(diff) = Diff::decode(64, &mut ByteReader::new(&bytes)) {
            diff.apply(&mut [0; 64]);
        }
        let _ = PageVersion::decode(NODES, &mut ByteReader::new(&bytes));
        let limits = MessageLimits { nodes: NODES as u16, ranks: 3, pages: 100 };
        for kind in 0..=18 {
            let message = NodeMessage::decode(&limits, &[&[kind], &bytes[..]].concat());
            prop_assert!(kind < 18 || message.is_err());
            if let Ok(message) = message {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(NodeMessage::decode(&limits, &again), Ok(message));
            }
        }
    }

    #[test]
    fn a_log_knows_what_came_without_a_gap(order in Just((1_u32..20).collect::<Vec<_>>()).prop_shuffle(), discarded in 0_u32..20) {
        let mut log = NoticeLog::new(2);
        for (count, &number) in order.iter().enumerate() {
            let before = log.known().get(1);
            let more = log.insert(Interval { node: 1, number, epoch: number / 4, pages: Box::new([number]) });
            log.check_invariants();
            let came = &order[..=count];
            let whole = (1..).take_while(|number| came.contains(number)).count() as u32;
            prop_assert_eq!(log.known().get(1), whole);
            prop_assert_eq!(more, whole > before);
            let again = log.insert(Interval { node: 1, number, epoch: 0, pages: Box::new([77]) });
            prop_assert!(!again);
        }
        prop_assert_eq!(log.known_within(2).get(1), 11);
        log.discard(1, discarded);
        log.check_invariants();
        let kept: Vec<_> = log.between(1, 5, 15).map(|interval| (interval.number, interval.pages.to_vec())).collect();
        let wanted: Vec<_> = (6.max(discarded + 1)..=15).map(|number| (number, vec![number])).collect();
        prop_assert_eq!(kept, wanted);
        prop_assert_eq!(log.notices(), 19 - discarded as usize);
    }
}

#[test]
fn numbers_beyond_32_bits_are_refused() {
    let mut bytes = Vec::new();
    push_u32(&mut bytes, u32::MAX);
    assert_eq!(ByteReader::new(&bytes).take_u32(), Ok(u32::MAX));
    assert_eq!(ByteReader::new(&[0xff; 4]).take_u32(), Err(DecodeError::Truncated));
    assert_eq!(ByteReader::new(&[0xff; 9]).take_u32(), Err(DecodeError::OutOfRange));
    assert_eq!(
        ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).take_u32(),
        Err(DecodeError::OutOfRange)
    );
}

#[test]
fn placements_give_every_page_one_home() {
    for (pages, nodes) in [(1, 3), (7, 3), (9, 3), (10, 4)] {
        for page in 0..pages {
            assert_eq!(
                Placement::Cyclic.home_of(page, pages, nodes),
                Some((page % u32::from(nodes)) as u16)
            );
            let block = Placement::Block.home_of(page, pages, nodes);
            assert!(block.is_some_and(|home| home < nodes));
            assert_eq!(Placement::FirstWrite.home_of(page, pages, nodes), None);
        }
        let homes = (0..pages).map(|page| Placement::Block.home_of(page, pages, nodes));
        assert!(homes.is_sorted(), "blocks are consecutive");
    }
}

#[test]
fn a_page_moves_to_a_writer_that_stays_alone() {
    let mut tally = WriterTally::default();
    tally.note(3);
    assert_eq!(tally.end_period(2), None, "once is not enough");
    assert_eq!(tally.end_period(2), None, "a period without writes does not count");
    tally.note(3);
    tally.note(3);
    assert_eq!(tally.end_period(2), Some(3));
    tally.note(3);
    tally.note(4);
    assert_eq!(tally.end_period(2), None, "shared");
    tally.note(3);
    assert_eq!(tally.end_period(2), None, "from the beginning");
    tally.note(3);
    assert_eq!(tally.end_period(2), Some(3));
    tally.note(4);
    assert_eq!(tally.end_period(2), None, "another");
}
