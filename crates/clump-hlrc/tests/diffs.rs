//! Diffs and merges against brute force.

use clump_hlrc::{
    ByteReader, Diff, DiffHeader, DiffTransfer, NodeMessage, VectorTime, WrittenPage, merge,
};
use proptest::prelude::*;

/// Returns a page, and one that differs in some bytes.
fn pair() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    (0_usize..200).prop_flat_map(|len| {
        let page = proptest::collection::vec(0_u8..3, len);
        let changed = proptest::collection::vec(
            prop_oneof![4 => Just(None), 1 => (0_u8..3).prop_map(Some)],
            len,
        );
        (page, changed).prop_map(|(page, changed)| {
            let other = page.iter().zip(&changed).map(|(&old, new)| new.unwrap_or(old)).collect();
            (page, other)
        })
    })
}

proptest! {
    #[test]
    fn a_diff_has_exactly_the_bytes_that_differ((twin, page) in pair()) {
        let diff = Diff::between(&twin, &page);
        let mut marked = vec![None; page.len()];
        let mut end = None;
        for (first, run) in diff.runs() {
            prop_assert!(end.is_none_or(|end| first > end), "runs do not touch");
            end = Some(first + run.len());
            for (at, &byte) in run.iter().enumerate() {
                marked[first + at] = Some(byte);
            }
        }
        for at in 0..page.len() {
            prop_assert_eq!(marked[at], (twin[at] != page[at]).then_some(page[at]));
        }
        prop_assert_eq!(diff.byte_count(), marked.iter().flatten().count());
        prop_assert_eq!(diff.is_empty(), twin == page);
        prop_assert_eq!(diff.run_count(), diff.runs().count());
    }

    #[test]
    fn a_diff_brings_the_twin_to_the_page((twin, page) in pair()) {
        let diff = Diff::between(&twin, &page);
        let mut bytes = Vec::new();
        diff.encode(&mut bytes);
        let mut from = ByteReader::new(&bytes);
        let read = Diff::decode(page.len() as u32, &mut from);
        prop_assert_eq!(read.as_ref(), Ok(&diff));
        prop_assert_eq!(from.remaining(), 0);
        let mut home = twin;
        diff.apply(&mut home);
        prop_assert_eq!(home, page);
    }

    #[test]
    fn the_runs_of_a_diff_are_diffs((twin, page) in pair()) {
        let diff = Diff::between(&twin, &page);
        let runs = diff.clone().into_runs();
        prop_assert_eq!(runs.len(), diff.run_count().max(1));
        let mut home = twin;
        for run in runs.iter().rev() {
            prop_assert!(run.run_count() <= 1);
            run.apply(&mut home);
        }
        prop_assert_eq!(home, page);
    }

    #[test]
    fn no_diff_is_longer_than_a_mask_and_its_bytes((twin, page) in pair()) {
        let diff = Diff::between(&twin, &page);
        let mut bytes = Vec::new();
        diff.encode(&mut bytes);
        prop_assert!(bytes.len() <= 8 + page.len().div_ceil(8) + diff.byte_count());
    }

    #[test]
    fn a_merge_keeps_local_writes_and_takes_others((twin, local) in pair(), others in proptest::collection::vec(0_u8..3, 200)) {
        // Others write only bytes that no local rank writes.
        let fetched: Vec<u8> =
            (0..twin.len()).map(|at| if twin[at] == local[at] { others[at] } else { twin[at] }).collect();
        let (mut page, mut merged_twin) = (local.clone(), twin.clone());
        merge(&mut page, &mut merged_twin, &fetched);
        prop_assert_eq!(&merged_twin, &fetched);
        let mut home = fetched.clone();
        Diff::between(&merged_twin, &page).apply(&mut home);
        for at in 0..page.len() {
            let wanted = if twin[at] == local[at] { fetched[at] } else { local[at] };
            prop_assert_eq!(page[at], wanted);
            prop_assert_eq!(home[at], wanted);
        }
    }
}

/// Returns the pages of each message, with their parts, of diffs of three pages: one of two runs,
/// one of none, and one of one.
fn sent(transfer: DiffTransfer, max_bytes: usize) -> Vec<Vec<(u32, u32, u32)>> {
    let header = DiffHeader { writer: 1, interval: 4, epoch: 0, time: VectorTime::zero(2) };
    let changes: [&[usize]; 3] = [&[3, 9], &[], &[5]];
    let diffs = (0..).zip(changes).map(|(page, changed)| {
        let mut bytes = [0; 16];
        changed.iter().for_each(|&at| bytes[at] = 7);
        (WrittenPage { page, after: 2 }, Diff::between(&[0; 16], &bytes))
    });
    let mut all = Vec::new();
    for message in transfer.messages(max_bytes, &header, diffs) {
        let NodeMessage::Diffs(found, diffs) = message else { continue };
        assert_eq!(found, header);
        all.push(diffs.iter().map(|diff| (diff.of.page, diff.part, diff.parts)).collect());
    }
    all
}

#[test]
fn diffs_share_messages_by_run_page_or_home() {
    let runs = [vec![(0, 0, 2)], vec![(0, 1, 2)], vec![(1, 0, 1)], vec![(2, 0, 1)]];
    assert_eq!(sent(DiffTransfer::Runs, 1000), runs);
    let pages = [vec![(0, 0, 1)], vec![(1, 0, 1)], vec![(2, 0, 1)]];
    assert_eq!(sent(DiffTransfer::Pages, 1000), pages);
    assert_eq!(sent(DiffTransfer::Home, 1000), [vec![(0, 0, 1), (1, 0, 1), (2, 0, 1)]]);
    let split = [vec![(0, 0, 1), (1, 0, 1)], vec![(2, 0, 1)]];
    assert_eq!(sent(DiffTransfer::Home, 70), split, "a message is full");
    assert_eq!(sent(DiffTransfer::Home, 0), pages, "what is too long goes alone");
}
