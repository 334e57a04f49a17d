//! Layouts against a distribution by hand, one element after the other.

use super::{ElementPlace, Layout, SpreadLayout};

/// Deals elements out, block by block, and returns the indexes at each rank.
fn dealt(len: usize, block: usize, ranks: usize) -> Vec<Vec<usize>> {
    let mut at = vec![Vec::new(); ranks];
    let (mut rank, mut left) = (0, block);
    for index in 0..len {
        if left == 0 {
            (rank, left) = ((rank + 1) % ranks, block);
        }
        at[rank].push(index);
        left -= 1;
    }
    at
}

fn agrees(len: usize, layout: Layout, block: usize, ranks: usize) {
    let spread = SpreadLayout::new(len, layout, ranks).unwrap();
    let what = format!("{len} elements, {layout:?}, {ranks} ranks");
    for (rank, indexes) in dealt(len, block, ranks).iter().enumerate() {
        assert_eq!(spread.count(rank), indexes.len(), "at {rank} of {what}");
        for (local, &index) in indexes.iter().enumerate() {
            let place = ElementPlace { rank, local };
            assert_eq!(spread.place(index), Some(place), "{index} of {what}");
            assert_eq!(spread.index(place), Some(index), "{place:?} of {what}");
        }
        assert_eq!(spread.index(ElementPlace { rank, local: indexes.len() }), None, "{what}");
    }
    assert_eq!(spread.place(len), None, "{what}");
    assert_eq!(spread.place(usize::MAX), None, "{what}");
    assert_eq!(spread.index(ElementPlace { rank: ranks, local: 0 }), None, "{what}");
}

#[test]
fn layouts_agree_with_dealing_by_hand() {
    for ranks in 1..10 {
        for len in (0..70).chain([127, 128, 129, 1000]) {
            agrees(len, Layout::Block, len.div_ceil(ranks).max(1), ranks);
            agrees(len, Layout::Cyclic, 1, ranks);
            for block in [1, 2, 3, 7, 8, 64, 100] {
                agrees(len, Layout::BlockCyclic(block), block, ranks);
            }
        }
    }
}

#[test]
fn impossible_layouts_are_none() {
    assert_eq!(SpreadLayout::new(8, Layout::BlockCyclic(0), 2), None);
    assert_eq!(SpreadLayout::new(8, Layout::Cyclic, 0), None);
    assert!(SpreadLayout::new(0, Layout::Block, 3).is_some_and(|empty| empty.is_empty()));
}

#[test]
fn places_beyond_all_memory_are_none() {
    let spread = SpreadLayout::new(usize::MAX, Layout::BlockCyclic(3), 7).unwrap();
    let last = spread.place(usize::MAX - 1).unwrap();
    assert_eq!(spread.index(last), Some(usize::MAX - 1));
    assert_eq!(spread.index(ElementPlace { rank: 6, local: usize::MAX }), None);
}
