//! Operations on vectors of indexes, and elements of all sizes.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use crate::pgas::everywhere;
use clump_pgas::{Element, Layout, Pgas};

/// An element that is no word.
#[derive(
    Debug, Clone, Copy, PartialEq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
)]
#[repr(C)]
struct Point([f32; 3]);

fn moves_whole<T: Element + PartialEq + std::fmt::Debug>(pgas: &Pgas, value: impl Fn(usize) -> T) {
    let ranks = pgas.nranks();
    let table = pgas.spread::<T>(ranks * 10, Layout::BlockCyclic(10)).unwrap();
    let next = (pgas.rank() + 1) % ranks;
    let indexes: Vec<_> = (next * 10..next * 10 + 5).collect();
    let values: Vec<T> = indexes.iter().map(|&i| value(i)).collect();
    table.scatter(&indexes, &values).unwrap();
    let behind: Vec<T> = (5..10).map(|i| value(next * 10 + i)).collect();
    pgas.bulk_put(table.ptr(next * 10 + 5).unwrap(), &behind).unwrap();
    pgas.all_store_sync().unwrap();
    let all: Vec<_> = (0..table.len()).collect();
    let mut seen = vec![value(0); all.len()];
    table.gather(&all, &mut seen).unwrap();
    assert!(seen.iter().zip(&all).all(|(seen, &i)| *seen == value(i)));
    let mut block = [value(0); 10];
    pgas.bulk_get(table.on(next).unwrap(), &mut block).unwrap();
    assert!(block.iter().zip(0..).all(|(seen, i)| *seen == value(next * 10 + i)));
    pgas.barrier().unwrap();
}

#[test]
fn elements_of_all_sizes_arrive_whole() {
    everywhere(|_, pgas| {
        moves_whole(pgas, |i| Point([i as f32, 1.0, -1.0]));
        moves_whole(pgas, |i| [i as u16, 7, 8, 9]);
        moves_whole(pgas, |i| i as u8);
        moves_whole(pgas, |i| i as u32);
    });
}

#[test]
fn every_element_comes_once_in_the_order_of_its_indexes() {
    everywhere(|_, pgas| {
        let (rank, ranks) = (pgas.rank(), pgas.nranks());
        let layouts = [Layout::Block, Layout::Cyclic, Layout::BlockCyclic(3)];
        // Fewer indexes than are fetched ahead, as many, and more; some of them twice.
        for (count, layout) in [0, 1, 15, 16, 17, 100].into_iter().zip(layouts.into_iter().cycle())
        {
            let table = pgas.spread::<u64>(20 * ranks, layout).unwrap();
            let indexes: Vec<_> = (0..count).map(|i| i * 7 % (10 * ranks) * 2).collect();
            let mut came = Vec::new();
            let each = table.each(&indexes, |position, element| {
                came.push(position);
                element.add(1 << (16 * (rank % 4)))
            });
            each.unwrap();
            assert!(came.into_iter().eq(0..count), "positions in their order");
            pgas.all_store_sync().unwrap();
            let times = |of: usize| indexes.iter().filter(|&&index| index == of).count() as u64;
            let all = (0..ranks).map(|rank| 1 << (16 * (rank % 4))).sum::<u64>();
            let mut read = vec![0; table.len()];
            table.gather(&(0..table.len()).collect::<Vec<_>>(), &mut read).unwrap();
            for (index, read) in read.into_iter().enumerate() {
                assert_eq!(read, times(index) * all, "{count} indexes, element {index}");
            }
            pgas.barrier().unwrap();
        }
        let table = pgas.spread::<u64>(10, Layout::Cyclic).unwrap();
        let mut last = 0;
        let given_up = table.each(&[1, 2, 3], |position, element| {
            last = position;
            if position == 1 { table.at(usize::MAX).put(0) } else { element.put(0) }
        });
        assert!(given_up.is_err() && last == 1, "an error ends it");
        pgas.all_store_sync().unwrap();
    });
}
