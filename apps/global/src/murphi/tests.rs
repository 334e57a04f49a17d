//! Tests of the whole: the language suite, models whose counts are known, symmetry, planted bugs,
//! and texts that are no models.

use super::engine::{RuleList, StepEngine, StepOutcome};
use super::explorer::{DeadlockMode, ErrorClass, FoundError};
use super::models;
use super::packing::StatePacking;
use super::path::PathFinder;
use super::reader::read;
use super::serial;
use super::store::{StateStore, StoreBounds};
use super::symmetry::{StateReduction, SymmetryMode, permuted};
use super::tree::CheckedModel;
use clump_app_frame::InputSize;
use proptest::prelude::*;
use std::rc::Rc;

const CASES: &str = include_str!("../../models/language.txt");

/// A search by byte code in one process.
struct ByteSearch {
    engine: StepEngine,
    packing: StatePacking,
    reduction: StateReduction,
    store: StateStore,
    fired: u64,
    failure: Option<String>,
    error: Option<FoundError>,
}

impl ByteSearch {
    fn new(text: &str, constants: &[(String, i64)], mode: SymmetryMode) -> Self {
        let model = read(text, constants).map_err(|error| error.show("model", text)).unwrap();
        let reduction = StateReduction::new(&model, mode).unwrap();
        let packing = StatePacking::of(&model);
        let store = StateStore::new(StoreBounds {
            words: packing.words(),
            compact: None,
            max_bytes: 1 << 30,
            spill: None,
            traces: true,
        });
        let store = store.unwrap();
        let engine = StepEngine::new(Rc::new(model), mode != SymmetryMode::Off);
        Self { engine, packing, reduction, store, fired: 0, failure: None, error: None }
    }

    fn put(&mut self, parent: u64) {
        let mut cells = self.engine.state().to_vec();
        self.reduction.reduce(&self.engine.model, &mut cells);
        let mut words = vec![0; self.packing.words()];
        self.packing.pack(&cells, &mut words);
        self.store.insert(&words, parent).unwrap();
    }

    fn fire_all(&mut self, list: RuleList, from: &[i64], (parent, steps): (u64, u64)) {
        let model = self.engine.model.clone();
        for rule in 0..self.engine.rules(list).len() {
            for instance in 0..model.instances(&self.engine.rules(list)[rule]) {
                self.engine.set_state(from);
                match self.engine.fire(list, rule, instance, from) {
                    StepOutcome::Disabled => (),
                    StepOutcome::Fired => {
                        self.fired += u64::from(list == RuleList::Rules);
                        self.put(parent);
                    }
                    StepOutcome::Failed(failure) => {
                        let line = format!("{}: {}", failure.at, failure.what);
                        self.failure.get_or_insert(line);
                        let (class, rule) = (ErrorClass::Rule, rule as u64);
                        self.error.get_or_insert(FoundError {
                            steps,
                            class,
                            key: parent,
                            rule,
                            instance,
                        });
                    }
                    StepOutcome::Unordered => self.failure = Some("unordered".into()),
                }
            }
        }
    }

    /// Searches level by level, up to the first with an error.
    fn run(&mut self) {
        let undefined = self.engine.undefined();
        self.fire_all(RuleList::Starts, &undefined, (0, 0));
        for steps in 0.. {
            self.store.advance().unwrap();
            if self.store.level_states() == 0 || self.failure.is_some() {
                return;
            }
            for number in 0..self.store.level_states() {
                let mut words = vec![0; self.packing.words()];
                self.store.level_state(number, &mut words).unwrap();
                let mut from = vec![0; self.engine.model.cells as usize];
                self.packing.unpack(&words, &mut from);
                let key = self.store.key(&words);
                self.engine.set_state(&from);
                if let Some((rule, instance, _)) = self.engine.violated() {
                    self.failure.get_or_insert("invariant".into());
                    let (class, rule) = (ErrorClass::Invariant, rule as u64);
                    self.error.get_or_insert(FoundError { steps, class, key, rule, instance });
                }
                self.fire_all(RuleList::Rules, &from, (key, steps + 1));
            }
        }
    }

    /// Returns the lines of the replayed path to the error.
    fn path(&mut self) -> Vec<String> {
        let error = self.error.unwrap();
        let (mut keys, mut key) = (Vec::new(), error.key);
        while key != 0 {
            keys.push(key);
            key = self.store.parent(key, None).unwrap().unwrap();
        }
        keys.reverse();
        let (packing, reduction) = (&self.packing, &self.reduction);
        let (engine, keys_of) = (&mut self.engine, &self.store);
        let deadlock = DeadlockMode::Off;
        let mut finder = PathFinder { engine, packing, reduction, keys: keys_of, deadlock };
        let path = finder.path(&keys).unwrap();
        finder.replay(&path, error).unwrap().lines
    }
}

fn searched(text: &str, constants: &[(String, i64)], mode: SymmetryMode) -> (u64, u64) {
    let mut search = ByteSearch::new(text, constants, mode);
    search.run();
    assert_eq!(search.failure, None);
    let serial = serial::search(&search.engine.model, &search.reduction);
    assert_eq!(
        (serial.states, serial.fired, serial.wrong),
        (search.store.count(), search.fired, false)
    );
    (search.store.count(), search.fired)
}

fn case(text: &str) -> (&str, &str, String) {
    let (name, rest) = text.split_once('\n').unwrap();
    let (expected, model) = rest.split_once('\n').unwrap();
    (name, expected.strip_prefix("> ").unwrap(), format!("{}\n", model.trim_end()))
}

#[test]
fn the_language_suite() {
    let cases: Vec<_> = CASES.split("=== ").skip(1).map(case).collect();
    assert!(cases.len() > 140, "all cases are read");
    for (name, expected, text) in cases {
        let text = text.as_str();
        if let Some(message) = expected.strip_prefix("wrong ") {
            let error = read(text, &[]).unwrap_err();
            assert_eq!(format!("{} {}", error.at, error.what), message, "{name}");
        } else if let Some(message) = expected.strip_prefix("fails ") {
            let mut search = ByteSearch::new(text, &[], SymmetryMode::Off);
            search.run();
            let found = search.failure.unwrap();
            assert!(message.starts_with(&found) || message.contains(&found), "{name}: {found}");
            assert!(serial::search(&search.engine.model, &search.reduction).wrong, "{name}");
        } else {
            let (states, fired) = searched(text, &[], SymmetryMode::Off);
            assert_eq!(format!("{states} states, {fired} fired"), expected, "{name}");
        }
    }
}

#[test]
fn counts_that_are_known() {
    let count = |name, constant: &str, value| {
        let (text, _) = models::find(name, InputSize::Ci).unwrap();
        searched(text, &[(constant.to_owned(), value)], SymmetryMode::Off)
    };
    for bits in [1, 3, 8] {
        assert_eq!(count("counter", "Bits", bits), (1 << bits, (1 << bits) * bits as u64));
    }
    for disks in [1, 2, 5] {
        let (states, _) = count("hanoi", "Disks", disks);
        assert_eq!(states, 3_u64.pow(disks as u32));
    }
    // Debian's rumur finds the same.
    assert_eq!(count("german", "Nodes", 2), (1461, 3864));
    assert_eq!(count("mesi", "Caches", 3), (34, 216));
    assert_eq!(count("bakery", "N", 2), (291, 493));
}

#[test]
fn states_that_permutations_make_of_each_other_are_one() {
    for (name, constant, value, orbits) in [
        ("german", "Nodes", 2, (735, 1945)),
        ("mesi", "Caches", 3, (7, 44)),
        ("list", "Processors", 2, (13, 20)),
    ] {
        let (text, _) = models::find(name, InputSize::Ci).unwrap();
        let constants = [(constant.to_owned(), value)];
        let exact = searched(text, &constants, SymmetryMode::Exact);
        let normal = searched(text, &constants, SymmetryMode::Normal);
        let off = searched(text, &constants, SymmetryMode::Off);
        assert_eq!(exact, orbits, "{name}");
        assert!(exact.0 <= normal.0 && normal.0 <= off.0, "{name}");
        // Each state and all its permutations have one representative.
        let model: CheckedModel = read(text, &constants).unwrap();
        let reduction = StateReduction::new(&model, SymmetryMode::Exact).unwrap();
        let mut search = ByteSearch::new(text, &constants, SymmetryMode::Off);
        search.run();
        for number in 0..search.store.level_states() {
            let mut words = vec![0; search.packing.words()];
            search.store.level_state(number, &mut words).unwrap();
            let mut cells = vec![0; model.cells as usize];
            search.packing.unpack(&words, &mut cells);
            let mut standing = cells.clone();
            let map = reduction.reduce(&model, &mut standing);
            let mut other = permuted(&model, &map, &cells);
            assert_eq!(other, standing, "{name}");
            reduction.reduce(&model, &mut other);
            assert_eq!(other, standing, "{name}");
        }
    }
}

#[test]
fn a_permuted_start_state_changes_no_count() {
    let text = |start: &str| {
        format!(
            "type P: scalarset(3); var o: P; f: array [P] of 0..2;
            ruleset s: P do startstate
              for p: P do f[p] := {start} end; o := s
            end end;
            ruleset p: P do
              rule o != p & f[p] < 2 ==> begin f[p] := f[p] + 1; o := p end;
              rule o = p & f[p] > 0 ==> begin f[p] := f[p] - 1 end;
            end;"
        )
    };
    let counts = ["p = s ? 2 : 0", "p != s ? 0 : 2"]
        .map(|start| searched(&text(start), &[], SymmetryMode::Exact));
    assert_eq!(counts[0], counts[1]);
    let one = text("p = s ? 2 : 0");
    let all = searched(&one, &[], SymmetryMode::Off);
    assert!(counts[0].0 * 6 >= all.0 && counts[0].0 < all.0, "orbits of at most 3! states");
}

#[test]
fn a_loop_that_depends_on_the_order_is_no_symmetry() {
    let text = "type P: scalarset(2); var o: P; startstate undefine o end;
        rule begin for p: P do o := p end end;";
    let mut search = ByteSearch::new(text, &[], SymmetryMode::Exact);
    search.run();
    assert_eq!(search.failure.as_deref(), Some("unordered"));
    let text = "type P: scalarset(2); var o: P; startstate undefine o end; rule begin clear o end;";
    assert!(StateReduction::new(&read(text, &[]).unwrap(), SymmetryMode::Exact).is_err());
}

#[test]
fn planted_bugs_are_found_by_the_shortest_path() {
    let bugs = [
        ("german", " & forall n: Node do !sharers[n] end", "", 8),
        ("german", "to_drop[n] & order[n] = none", "order[n] = none", 11),
        ("peterson", "at[p] = wait & (", "at[p] = wait & (true | ", 6),
        ("dekker", "point = test & !wants[other(p)]", "point = test", 4),
        ("mesi", "snoop(c, true); cache[c].state := M", "cache[c].state := M", 3),
    ];
    for (name, from, to, steps) in bugs {
        let (text, constants) = models::find(name, InputSize::Ci).unwrap();
        assert!(text.contains(from), "{name}: {from}");
        let text = text.replacen(from, to, 1);
        for mode in [SymmetryMode::Off, SymmetryMode::Exact, SymmetryMode::Normal] {
            let mut search = ByteSearch::new(&text, &constants, mode);
            search.run();
            assert_eq!(search.failure.as_deref(), Some("invariant"), "{name}");
            let lines = search.path();
            let found = lines.iter().filter(|line| line.contains(". \"")).count() - 1;
            assert_eq!(found, steps, "{name}: {lines:#?}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9 :=;.,(){}\\[\\]<>!&|+*/%?\"\\-\n#]{0,300}") {
        let _ = read(&text, &[]);
    }

    #[test]
    fn models_with_words_elsewhere_are_read_or_refused(
        which in 0_usize..9,
        swaps in proptest::collection::vec((0_usize..2000, 0_usize..2000, 0_u8..3), 1..6),
    ) {
        let name = models::names()[which];
        let (text, constants) = models::find(name, InputSize::Ci).unwrap();
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n', ';']).collect();
        for (a, b, how) in swaps {
            let (a, b) = (a % words.len(), b % words.len());
            match how {
                0 => words.swap(a, b),
                1 => { words.remove(a); }
                _ => words.insert(b, words[a]),
            }
        }
        let changed = words.concat();
        if let Ok(model) = read(&changed, &constants) {
            // What is read can be compiled and begun.
            let mut engine = StepEngine::new(Rc::new(model), false);
            let undefined = engine.undefined();
            engine.set_state(&undefined);
            if !engine.rules(RuleList::Starts).is_empty() {
                engine.fire(RuleList::Starts, 0, 0, &undefined);
            }
        }
    }

    #[test]
    fn brackets_nest_to_a_bound(depth in 1_usize..5000, which in 0_usize..4) {
        let (open, close) = [("(", ")"), ("!", ""), ("-", ""), ("exists i: 0..1 do ", " end")][which];
        let inside = format!("{}true{}", open.repeat(depth), close.repeat(depth));
        let text = format!("var x: boolean; startstate x := {inside} end;");
        let _ = read(&text, &[]);
        let sums = format!("var x: 0..1; startstate x := x{} end;", " + x".repeat(depth));
        prop_assert_eq!(read(&sums, &[]).is_ok(), depth <= 500);
    }
}
