//! Diffs and merges against brute force.

use clump_hlrc::{ByteReader, Diff, merge};
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
