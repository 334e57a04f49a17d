//! Tests of the whole: the language suite, models whose counts are known, symmetry, planted bugs,
//! and texts that are no models.

use super::compiled::{CompiledModel, LibraryFolder};
use super::engine::{RuleList, StepEngine};
use super::interpreter::TreeInterpreter;
use super::models;
use super::reader::read;
use super::serial;
use super::single::SingleSearch;
use super::symmetry::{StateReduction, SymmetryMode, permuted};
use super::tree::CheckedModel;
use clump_app_frame::InputSize;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::rc::Rc;

const CASES: &str = include_str!("../../models/language.txt");

/// Returns a search of a model that has been run by byte code.
fn run(text: &str, constants: &[(String, i64)], mode: SymmetryMode) -> SingleSearch {
    let model = read(text, constants).map_err(|error| error.show("model", text)).unwrap();
    let mut search = SingleSearch::new(model, mode).unwrap();
    search.run().unwrap();
    search
}

fn searched(text: &str, constants: &[(String, i64)], mode: SymmetryMode) -> (u64, u64) {
    let search = run(text, constants, mode);
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
    assert!(cases.len() >= 200, "all cases are read");
    for (name, expected, text) in cases {
        let text = text.as_str();
        if let Some(message) = expected.strip_prefix("wrong ") {
            let error = read(text, &[]).unwrap_err();
            assert_eq!(format!("{} {}", error.at, error.what), message, "{name}");
        } else if let Some(message) = expected.strip_prefix("fails ") {
            let mut search = run(text, &[], SymmetryMode::Off);
            let replayed = search.path().unwrap_or_else(|| panic!("{name}: no path"));
            assert_eq!(replayed.what, message, "{name}");
            assert!(serial::search(&search.engine.model, &search.reduction).wrong, "{name}");
        } else {
            let (states, fired) = searched(text, &[], SymmetryMode::Off);
            assert_eq!(format!("{states} states, {fired} fired"), expected, "{name}");
        }
    }
}

#[test]
fn machine_code_does_what_byte_code_does() {
    let folder = LibraryFolder::new().unwrap();
    let own = models::names().into_iter().filter_map(|name| models::find(name, InputSize::Ci));
    let own = own.map(|(text, constants)| (text.to_owned(), constants));
    // Those of the suite that have multisets, unions, calls or errors among them.
    let cases = CASES.split("=== ").skip(1).map(case).filter(|it| !it.1.starts_with("wrong "));
    let cases = cases.map(|(_, _, text)| (text, Vec::new()));
    let cases = cases.step_by(clump_test_tier::pick(7, 1));
    for (text, constants) in own.chain(cases) {
        let by_bytes = run(&text, &constants, SymmetryMode::Off);
        let mut search = SingleSearch::new(read(&text, &constants).unwrap(), SymmetryMode::Off);
        let search = search.as_mut().unwrap();
        let (model, packing) = (search.engine.model.clone(), &search.packing);
        let made = folder.compile(&model, packing);
        if made.as_ref().is_err_and(|error| format!("{error:#}").contains("cannot be started")) {
            eprintln!("skipped: there is no C compiler (Debian: apt-get install gcc)");
            return;
        }
        made.unwrap();
        // A library is found by its name once: each has another.
        let library = LibraryFolder::library(folder.number());
        let other = library.with_extension(format!("{}.so", clump_os::clock::now_ns()));
        std::fs::rename(&library, &other).unwrap();
        let code = CompiledModel::load(&other, &model, packing).unwrap();
        search.engine.use_compiled(code);
        search.run().unwrap();
        let counts = |it: &SingleSearch| (it.store.count(), it.fired, it.failure.clone());
        assert_eq!(counts(search), counts(&by_bytes), "{text}");
    }
}

#[test]
fn rules_without_end_are_errors() {
    for body in [
        "for i := 0 to 1000000000000 do x := 0 end",
        "for i: 0..8191 do for j: 0..8191 do x := 0 end end",
        "for i: 0..99999 do x := 0; while x < 999 do x := x + 1 end end",
        "for i: 0..99999999 do step() end",
    ] {
        let text = format!(
            "var x: 0..999; procedure step(); begin end;
            startstate x := 0 end; rule begin {body} end;"
        );
        let search = run(&text, &[], SymmetryMode::Off);
        let failure = search.failure.as_deref().unwrap();
        assert!(
            failure.ends_with("takes more than 16777216 turns of loops and calls"),
            "{failure}"
        );
        assert!(serial::search(&search.engine.model, &search.reduction).wrong, "{body}");
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

/// Returns all states that the interpreter finds.
fn states(model: &CheckedModel) -> BTreeSet<Vec<i64>> {
    let mut interpreter = TreeInterpreter::new(model);
    let undefined = StepEngine::new(Rc::new(model.clone()), false).undefined();
    let (mut known, mut queue) = (BTreeSet::new(), vec![(&model.starts, undefined)]);
    while let Some((rules, state)) = queue.pop() {
        for rule in rules {
            for instance in 0..model.instances(rule) {
                if let Some(next) = interpreter.fire(rule, instance, &state).unwrap()
                    && known.insert(next.clone())
                {
                    queue.push((&model.rules, next));
                }
            }
        }
    }
    known
}

/// Returns the number of states of a search that begins at a state.
fn count_from(model: &CheckedModel, mode: SymmetryMode, state: &[i64]) -> u64 {
    let mut search = SingleSearch::new(model.clone(), mode).unwrap();
    search.run_from(state).unwrap();
    assert_eq!(search.failure, None);
    search.store.count()
}

#[test]
fn states_that_permutations_make_of_each_other_are_one() {
    for (name, constant, value, known) in [
        ("german", "Nodes", 2, (735, 1945)),
        ("mesi", "Caches", 3, (7, 44)),
        ("list", "Processors", 2, (13, 20)),
    ] {
        let (text, _) = models::find(name, InputSize::Ci).unwrap();
        let constants = [(constant.to_owned(), value)];
        let exact = searched(text, &constants, SymmetryMode::Exact);
        let normal = searched(text, &constants, SymmetryMode::Normal);
        let off = searched(text, &constants, SymmetryMode::Off);
        assert_eq!(exact, known, "{name}");
        assert!(exact.0 <= normal.0 && normal.0 <= off.0, "{name}");
        // Orbits counted one by one: each state and all that permutations make of it.
        let model: CheckedModel = read(text, &constants).unwrap();
        let reduction = StateReduction::new(&model, SymmetryMode::Exact).unwrap();
        let mut left = states(&model);
        assert_eq!(left.len() as u64, off.0, "{name}");
        let mut orbits = 0;
        while let Some(state) = left.first().cloned() {
            orbits += 1;
            let mut standing = state.clone();
            reduction.reduce(&model, &mut standing);
            for map in reduction.permutations() {
                let image = permuted(&model, map, &state);
                left.remove(&image);
                let mut reduced = image;
                reduction.reduce(&model, &mut reduced);
                assert_eq!(reduced, standing, "{name}: one stands for all");
            }
        }
        assert_eq!(exact.0, orbits, "{name}");
    }
}

#[test]
fn a_permuted_start_state_changes_no_count() {
    // One owner and three different numbers: six permutations make six states of it.
    let text = "type P: scalarset(3); var o: P; f: array [P] of 0..3;
        ruleset a: P; b: P; c: P do startstate
          if a = b | a = c | b = c then error \"two are one\" end;
          f[a] := 0; f[b] := 1; f[c] := 2; o := a
        end end;
        ruleset p: P do
          rule o != p & f[p] < 3 ==> begin f[p] := f[p] + 1; o := p end;
          rule o = p & f[p] > 1 ==> begin f[p] := f[p] - 2 end;
        end;";
    let model = read(text, &[]).unwrap();
    let maps = StateReduction::new(&model, SymmetryMode::Exact).unwrap();
    let mut interpreter = TreeInterpreter::new(&model);
    let undefined = StepEngine::new(Rc::new(model.clone()), false).undefined();
    let mut begun =
        (0..27).filter_map(|number| interpreter.fire(&model.starts[0], number, &undefined).ok()?);
    let start = begun.next().unwrap();
    let images: BTreeSet<Vec<i64>> =
        maps.permutations().iter().map(|map| permuted(&model, map, &start)).collect();
    assert_eq!(images.len(), 6, "no permutation leaves the state as it is");
    let all = count_from(&model, SymmetryMode::Off, &start);
    for mode in [SymmetryMode::Off, SymmetryMode::Exact, SymmetryMode::Normal] {
        let counts: BTreeSet<u64> =
            images.iter().map(|image| count_from(&model, mode, image)).collect();
        assert_eq!(counts.len(), 1, "{mode:?}: {counts:?}");
        let found = counts.first().copied().unwrap();
        assert!(found > 5 && (mode == SymmetryMode::Off) == (found == all), "{mode:?}: {found}");
    }
}

#[test]
fn a_loop_that_depends_on_the_order_is_no_symmetry() {
    let text = "type P: scalarset(2); var o: P; startstate undefine o end;
        rule begin for p: P do o := p end end;";
    let search = run(text, &[], SymmetryMode::Exact);
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
        ("sci", "if m.first = p then m.first := nobody;", "if true then m.first := nobody;", 14),
    ];
    for (name, from, to, steps) in bugs {
        let (text, constants) = models::find(name, InputSize::Ci).unwrap();
        assert!(text.contains(from), "{name}: {from}");
        let text = text.replacen(from, to, 1);
        for mode in [SymmetryMode::Off, SymmetryMode::Exact, SymmetryMode::Normal] {
            let mut search = run(&text, &constants, mode);
            assert_eq!(search.failure.as_deref(), Some("invariant"), "{name}");
            let lines = search.path().unwrap().lines;
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
        which in 0_usize..10,
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
