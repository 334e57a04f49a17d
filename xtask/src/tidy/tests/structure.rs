//! Rules about the tree's structure: silent bugs, short files, types that are several, names.

use super::{Planted, lines};
use crate::tidy::{Tree, floors};

#[test]
fn a_bug_that_leaves_in_silence_is_found() {
    let tree = Planted::clean("bugs");
    let path = "crates/high/src/one.rs";
    let silent = "fn step() {\n    debug_assert!(false, \"it is there\");\n}\n";
    tree.file(path, &format!("//! One.\n{silent}")).finds(path, "use clump_bug::bug!");
    tree.file(path, &format!("//! One.\n#[cfg(test)]\nmod tests {{\n{silent}}}\n"));
    assert_eq!(tree.findings(), [""; 0], "a test may fail as it likes");
}

#[test]
fn planted_bugs_without_a_place_are_found() {
    let tree = Planted::clean("planted");
    let entry = |file: &str, find: &str| {
        let texts = format!("file = '{file}'\nfind = '{find}'\nreplace = 'r'\ntest = 't'\n");
        format!("[[mutant]]\nname = \"m\"\n{texts}why = 'w'\n")
    };
    let list = crate::mutants::LIST;
    tree.file(list, &entry("crates/low/src/lib.rs", "push"));
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(list, &entry("crates/low/src/lib.rs", "pop")).finds(&format!("{list}:2"), "0 times");
    tree.file(list, &entry("crates/low/src/lib.rs", "#")).finds(list, "not once");
    tree.file(list, &entry("crates/low/src/gone.rs", "push")).finds(list, "gone");
}

#[test]
fn files_that_are_hardly_one_are_counted() {
    let tree = Planted::clean("floors");
    let path = "crates/high/src/short.rs";
    let of = |n: usize| format!("//! Short.\n{}", lines("// line", n - 1));
    let found = |lines: usize| {
        tree.file(path, &of(lines));
        floors::check(&Tree::read(&tree.0).unwrap())
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let due = "crates/high: 1 files of fewer than 40 lines (0 allowed): let what they hold be where \
               it is used";
    let short: Vec<String> = found(39);
    assert_eq!(short, [due], "a root may be short");
    let long: Vec<String> = found(40);
    assert_eq!(long, [""; 0]);
}

#[test]
fn a_type_that_is_several_is_found() {
    let tree = Planted::clean("methods");
    let file = |name: &str, methods: &str| {
        let text = format!("//! One.\nimpl<U> Big<U> {{\n{methods}}}\n");
        tree.file(&format!("crates/high/src/{name}.rs"), &text);
    };
    let methods = |n: usize| (0..n).map(|i| format!("    fn m{i}(&self) {{}}\n")).collect();
    let all: String = methods(40);
    file("a", &all);
    assert_eq!(tree.findings(), [""; 0]);
    let all: String = methods(41);
    file("a", &all);
    tree.finds("crates/high::Big", "41 methods (40 allowed)");
    file("a", "    fn one(&self) {\n        self.two();\n    }\n");
    file("b", "    fn two(&self) {}\n    fn three(&self) {}\n");
    assert_eq!(tree.findings(), [""; 0], "one calls the other");
    file("b", "    fn two(&self) {}\n    fn three(&self) {\n        self.one();\n    }\n");
    tree.finds("crates/high::Big", "2 circles of methods (0 allowed)");
    file("b", "    fn two(&self) {}\n");
    ["c", "d", "e"].iter().for_each(|name| file(name, "    fn other(&self) {}\n"));
    tree.finds("crates/high::Big", "5 files of methods (4 allowed)");
}

#[test]
fn names_that_differ_by_a_capital_letter_are_found() {
    let tree = Planted::clean("capital");
    let text =
        format!("//! Two.\npub struct HandOver;\npub enum Handover {{}}\n{}", lines("// x", 40));
    tree.file("crates/high/src/two.rs", &text);
    tree.finds("crates/high/src/two.rs:3", "one name, one type");
}

#[test]
fn an_owner_that_moved_is_found() {
    let tree = Planted::clean("owners");
    let table = "| fact | owner |\n|---|---|\n| a | `A`, `B` (`high/src/one.rs`) |\n\nMore.\n";
    tree.file("docs/adr/1.md", &format!("# One\n\n{table}"));
    tree.file("crates/high/src/one.rs", "//! One.\nstruct A;\n//! enum B\n");
    tree.finds("docs/adr/1.md:5", "`B` is not declared in crates/high/src/one.rs");
    tree.file("crates/high/src/one.rs", "//! One.\nstruct A;\nenum B {}\n");
    assert_eq!(tree.findings(), [""; 0]);
}
