//! Tests of stores against a plain map, with and without compaction, disk and checkpoints.

use super::StateStore;
use super::keys::{StoreBounds, owner};
use std::collections::BTreeMap;
use std::path::PathBuf;

const WORDS: usize = 2;

/// Bounds of memory beside which a store has its own, and a folder.
fn bounds(compact: Option<u32>, max_bytes: u64, spills: bool) -> StoreBounds {
    let spill: Option<PathBuf> = spills.then(std::env::temp_dir);
    StoreBounds { words: WORDS, compact, max_bytes, spill, traces: true }
}

/// Numbers that seem to have no order.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A store, and what it has to hold: the level and the lowest parent of each state.
struct Pair {
    store: StateStore,
    model: BTreeMap<[u64; WORDS], (u64, u64)>,
    level: u64,
    numbers: Numbers,
}

impl Pair {
    fn new(bounds: StoreBounds, seed: u64) -> Self {
        let (model, numbers) = (BTreeMap::new(), Numbers(seed));
        Self { store: StateStore::new(bounds).unwrap(), model, level: 0, numbers }
    }

    fn insert(&mut self, count: u64, range: u64) {
        for _ in 0..count {
            let state = [self.numbers.below(range), 7];
            let parent = 1 + self.numbers.below(1000);
            self.store.insert(&state, parent).unwrap();
            let level = self.level;
            let (known, lowest) = self.model.entry(state).or_insert((level, parent));
            if *known == level {
                *lowest = parent.min(*lowest);
            }
        }
    }

    /// Ends the level, and compares its states with the map's.
    fn advance(&mut self) {
        let found = self.store.advance().unwrap();
        let level = self.level;
        let expected: Vec<_> =
            self.model.iter().filter(|(_, it)| it.0 == level).map(|(state, _)| *state).collect();
        assert_eq!(found, expected.len() as u64, "level {level}");
        assert_eq!(self.level_states(), expected);
        self.level += 1;
    }

    fn level_states(&mut self) -> Vec<[u64; WORDS]> {
        let mut all = vec![[0; WORDS]; self.store.level_states() as usize];
        for (number, state) in (0..).zip(&mut all) {
            self.store.level_state(number, state).unwrap();
        }
        all.sort_unstable();
        all
    }

    fn check_parents(&mut self) {
        for (state, (level, parent)) in self.model.clone() {
            if level < self.level && self.numbers.below(1500) == 0 {
                let key = self.store.key(&state);
                assert_eq!(self.store.parent(key, Some(level)).unwrap(), Some(parent));
                assert_eq!(self.store.parent(key, None).unwrap(), Some(parent));
            }
        }
        assert_eq!(self.store.parent(12345, None).unwrap(), None);
    }

    /// Goes on with another store, restored from what this one saves.
    fn restore(&mut self, bounds: StoreBounds) {
        let mut words = Vec::new();
        self.store
            .save(&mut |more| {
                words.extend_from_slice(more);
                Ok(())
            })
            .unwrap();
        let before = self.level_states();
        let mut store = StateStore::new(bounds).unwrap();
        let mut rest = words.iter().copied();
        let mut take = |count: usize| rest.by_ref().take(count).collect::<Vec<u64>>();
        let [known, frontier, levels] = take(3)[..] else { panic!("a head") };
        (0..known).for_each(|_| store.restore_known(&take(store.known_words())).unwrap());
        store.restored_known().unwrap();
        (0..frontier).for_each(|_| store.restore_frontier(&take(WORDS)).unwrap());
        let ends = take(levels as usize);
        let mut begin = 0;
        for end in ends {
            for _ in (begin..end).step_by(2) {
                let pair = take(2);
                store.restore_log(Some([pair[0], pair[1]])).unwrap();
            }
            store.restore_log(None).unwrap();
            begin = end;
        }
        assert!(take(1).is_empty(), "all is read");
        self.store = store;
        assert_eq!(self.level_states(), before);
    }
}

#[test]
fn stores_hold_what_a_map_holds() {
    // Memory for all, or for a part: that is exceeded within a level, and at ends of levels.
    for (seed, compact) in [(1, None), (2, Some(64))] {
        let small = 1 << 20;
        for max_bytes in [1 << 30, 3 << 19, small] {
            for saves in [false, true] {
                let limits = bounds(compact, max_bytes, true);
                let mut pair = Pair::new(limits.clone(), seed);
                for (count, range) in [(3, 10), (2000, 5000), (80_000, 120_000), (9, 90_000)] {
                    pair.insert(count, range);
                    pair.advance();
                    if saves {
                        let other = if max_bytes == 1 << 30 { small } else { 1 << 30 };
                        let other = bounds(compact, other, true);
                        pair.restore(if range > 5000 { other } else { limits.clone() });
                    }
                }
                pair.insert(40_000, 200_000);
                pair.advance();
                pair.check_parents();
                let overflows = pair.store.disk_bytes() > 0;
                assert!(overflows || compact.is_none() && max_bytes == 1 << 30 && !saves);
                assert_eq!(pair.store.lost(), 0);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    for compact in [None, Some(64)] {
        let mut store = StateStore::new(bounds(compact, 2 << 20, false)).unwrap();
        for state in 0..100_000 {
            store.insert(&[state, 7], 1).unwrap();
        }
        store.advance().unwrap();
        assert!(store.lost() > 0 && store.peak_bytes() <= 2 << 20, "{}", store.peak_bytes());
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let spill = Some(PathBuf::from("/nowhere/at/all"));
    assert!(StateStore::new(StoreBounds { spill, ..bounds(None, 1 << 20, false) }).is_err());
}

#[test]
fn short_keys_omit_states_of_later_levels() {
    let mut store = StateStore::new(bounds(Some(8), 1 << 30, false)).unwrap();
    (0..2000).for_each(|state| store.insert(&[state, 7], 1).unwrap());
    store.advance().unwrap();
    (2000..4000).for_each(|state| store.insert(&[state, 7], 1).unwrap());
    assert!(store.advance().unwrap() < 10);
}

#[test]
fn tables_of_a_billion_states_have_room() {
    use super::record_table::{CHUNK, INDEX_BITS};
    let states = 1_u64 << 30;
    // Slots hold indexes of states, and slots and their bytes are numbers of this machine.
    let slots = (states * 10 / 7).next_power_of_two();
    assert!(states < 1 << (INDEX_BITS - 1) && slots < 1 << INDEX_BITS);
    let chunks = states / CHUNK as u64;
    assert!(usize::try_from(slots * 8).is_ok() && u32::try_from(chunks).is_ok());
    // A log of parents, and words of states of 4 KiB.
    assert!(states.checked_mul(2 * 8).is_some() && states.checked_mul(4096).is_some());
    // Tables have 128 keys on average, so 23 bits of a key choose one, and 6 bytes are left.
    let tables = states / 128;
    assert!(tables.ilog2() == 23 && usize::try_from(tables * 24).is_ok());
    assert!((64 - tables.ilog2()).div_ceil(8) == 6 && states.checked_mul(7).is_some());
}

#[test]
fn owners_are_spread() {
    let mut counts = [0; 3];
    (1..3000).for_each(|key| counts[owner(key, 3)] += 1);
    assert!(counts.iter().all(|count| *count > 900), "{counts:?}");
}
