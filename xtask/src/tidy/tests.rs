//! A small clean tree, and every defect planted in it: each must be found, at its place, with a
//! remedy.

mod prose;
mod structure;

use super::*;
use std::path::PathBuf;

/// A tree that disappears with the test.
struct Planted(PathBuf);

impl Planted {
    /// Creates two crates, one above the other, and the front pages, without a finding.
    fn clean(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("clump-tidy-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let tree = Self(dir);
        for page in ["ARCHITECTURE", "BENCHMARKS", "CHANGELOG", "CONTRIBUTING"] {
            tree.file(&format!("{page}.md"), "words\n");
        }
        for license in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"] {
            tree.file(license, "terms\n");
        }
        tree.file(
            "README.md",
            "# x\n```\ncargo run --release -- demo\n```\n```sh\n$ cargo test --workspace\n```\n",
        );
        tree.file("crates/low/Cargo.toml", &manifest("low", Some(0), ""));
        tree.file(
            "crates/high/Cargo.toml",
            &manifest("high", Some(1), "[dependencies]\nlow.workspace = true"),
        );
        let head = "//! A crate.\n//!\n//! # Invariants\n//! 1. One.\n#![forbid(unsafe_code)]\n";
        tree.file("crates/low/src/lib.rs", &format!("{head}fn push() {{}}\n"));
        tree.file("crates/high/src/lib.rs", head);
        tree
    }

    fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Returns all findings but those of short files, which all planted ones are.
    fn findings(&self) -> Vec<String> {
        let all = findings(&Tree::read(&self.0).unwrap()).unwrap();
        let all = all.iter().map(ToString::to_string);
        all.filter(|finding| !finding.contains("files of fewer than")).collect()
    }

    /// Lowers the ratchet.
    fn lower(&self) {
        run(&self.0, Ratchet::Lower).unwrap();
    }

    /// Asserts exactly one finding, which begins with `place` and mentions `what`.
    #[track_caller]
    fn finds(&self, place: &str, what: &str) {
        let found = self.findings();
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with(place) && found[0].contains(what), "{found:#?}");
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn manifest(name: &str, layer: Option<u32>, dependencies: &str) -> String {
    let layer =
        layer.map(|n| format!("[package.metadata.clump]\nlayer = {n}\n")).unwrap_or_default();
    format!("[package]\nname = \"{name}\"\n{layer}{dependencies}\n")
}

/// Returns `n` equal lines.
fn lines(line: &str, n: usize) -> String {
    format!("{line}\n").repeat(n)
}

const LIB: &str = "crates/high/src/lib.rs";

#[test]
fn a_clean_tree_has_no_findings() {
    assert_eq!(Planted::clean("clean").findings(), Vec::<String>::new());
}

#[test]
fn an_upward_arrow_is_found_in_every_table() {
    for table in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
        let tree = Planted::clean("upward");
        let dependency = format!("[{table}]\nup = {{ package = \"high\", path = \"../high\" }}");
        tree.file("crates/low/Cargo.toml", &manifest("low", Some(0), &dependency));
        tree.finds("crates/low/Cargo.toml", "low (layer 0) may not depend on high (layer 1)");
    }
}

#[test]
fn tests_may_stand_on_a_test_bed_above_them_and_nothing_else_may() {
    for (table, finds) in [("dev-dependencies", false), ("dependencies", true)] {
        let tree = Planted::clean("bed");
        let dependency = format!("[{table}]\nhigh.workspace = true");
        tree.file("crates/low/Cargo.toml", &manifest("low", Some(0), &dependency));
        let bed = manifest("high", Some(1), "").replace("layer = 1", "layer = 1\ntest-bed = true");
        tree.file("crates/high/Cargo.toml", &bed);
        let upward = |finding: &String| finding.contains("may not depend on high");
        assert_eq!(tree.findings().iter().any(upward), finds, "{:?}", tree.findings());
    }
}

#[test]
fn no_test_stands_where_the_harness_is_off() {
    let off = |target: &str| manifest("low", Some(0), target);
    let head = "//! A crate.\n//!\n//! # Invariants\n//! 1. One.\n#![forbid(unsafe_code)]\n";
    let test = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n";
    let tree = Planted::clean("unrun");
    tree.file("crates/low/Cargo.toml", &off("[lib]\ntest = false\ndoctest = false"));
    tree.file("crates/low/src/bin/program.rs", &format!("//! A program.\n{test}"));
    assert_eq!(tree.findings(), [""; 0], "a program has a harness of its own");
    tree.file("crates/low/src/lib.rs", &format!("{head}fn push() {{}}\n{test}"));
    tree.finds("crates/low/src/lib.rs:9", "is never run");
    for (language, finds) in [("text", false), ("", true), ("no_run", true)] {
        let example = format!("/// An example.\n///\n/// ```{language}\n/// push()\n/// ```\n");
        tree.file("crates/low/src/lib.rs", &format!("{head}{example}fn push() {{}}\n"));
        assert_eq!(tree.findings().iter().any(|f| f.contains("is never tested")), finds);
    }
    let program = "[[bin]]\nname = \"program\"\npath = \"src/bin/program.rs\"\ntest = false";
    tree.file("crates/low/Cargo.toml", &off(program));
    tree.finds("crates/low/src/bin/program.rs:4", "is never run");
}

#[test]
fn a_thread_that_takes_signals_is_found() {
    let tree = Planted::clean("threads");
    let path = "crates/high/src/starts.rs";
    let starts = "fn start() {\n    drop(std::thread::spawn(|| ()));\n}\n";
    tree.file(path, &format!("//! Starts.\n{starts}")).finds(path, "clump_os::thread");
    let test = format!("#[cfg(test)]\nmod tests {{\n{starts}}}\n");
    tree.file(path, &format!("//! Starts.\n{test}"));
    assert_eq!(tree.findings(), [""; 0], "a test may start what it likes");
}

#[test]
fn siblings_do_not_know_each_other() {
    let tree = Planted::clean("siblings");
    tree.file("crates/low/Cargo.toml", &manifest("low", Some(1), ""));
    tree.finds("crates/high/Cargo.toml", "point down only");
}

#[test]
fn a_crate_without_a_layer_is_found() {
    let tree = Planted::clean("layerless");
    tree.file("crates/high/Cargo.toml", &manifest("high", None, ""));
    tree.finds("crates/high/Cargo.toml", "names no layer");
}

#[test]
fn a_long_file_is_found_and_the_ratchet_only_goes_down() {
    let tree = Planted::clean("file-size");
    let long = |n: usize| format!("//! Long.\n{}", lines("// line", n - 1));
    let path = "crates/high/src/long.rs";
    tree.file(path, &long(501)).finds(path, "501 lines, the limit is 500");

    let ratchet = |n: u32| format!("[files]\n\"{path}\" = {n}\n");
    tree.file(ratchet::RATCHET, &ratchet(501));
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(path, &long(502)).finds(path, "grew from 501 to 502");
    tree.file(ratchet::RATCHET, &ratchet(600)).finds(ratchet::RATCHET, "shrank from 600 to 502");

    tree.lower();
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(path, &long(503));
    tree.lower();
    tree.finds(path, "grew from 502 to 503");
    tree.file(path, &long(500)).finds(ratchet::RATCHET, "shrank");
    tree.lower();
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn a_long_function_is_found() {
    let tree = Planted::clean("function-size");
    let path = "crates/high/src/one.rs";
    let function =
        |n| format!("//! One.\nfn long() {{\n{}}}\n", lines("    step();\n\n    // why", n));
    tree.file(path, &function(70));
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(path, &function(71)).finds("crates/high/src/one.rs::long", "71 lines");
    tree.file(ratchet::RATCHET, &format!("[functions]\n\"{path}::long\" = 71\n"));
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn reminders_and_private_paths_are_found_in_any_text() {
    let tree = Planted::clean("words");
    tree.file("docs/a.md", concat!("fine\nTO", "DO: this\n")).finds("docs/a.md:2", "do it now");
    tree.file("docs/a.md", concat!("# FIX", "ME\n")).finds("docs/a.md:1", "do it now");
    tree.file("docs/a.md", concat!("see /ho", "me/alice/x\n"))
        .finds("docs/a.md:1", "one machine only");
    tree.file("docs/a.md", concat!("mktemp -d x.XX", "XXXX; a/ro", "ot/b; ~/wo", "rk/x\n"));
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn tests_that_sleep_or_test_nothing_are_found() {
    let tree = Planted::clean("empty-tests");
    let path = "crates/high/tests/it.rs";
    tree.file(path, concat!("fn a() {\n    std::thread::", "sleep(x);\n}\n"))
        .finds(&format!("{path}:2"), "never sleeps");
    tree.file(path, concat!("#[ig", "nore]\nfn a() {}\n"))
        .finds(&format!("{path}:1"), "no ignored tests");
    tree.file(path, concat!("fn a() { assert!(", "true); }\n"))
        .finds(&format!("{path}:1"), "cannot fail");
    tree.file(
        path,
        concat!("// thread::", "sleep in a comment\nconst A: &str = \"assert!(", "true)\";\n"),
    );
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn a_unit_test_that_sleeps_is_found_and_other_code_may_wait() {
    let tree = Planted::clean("unit-sleep");
    let path = "crates/high/src/a.rs";
    let sleep = concat!("std::thread::", "sleep(x)");
    tree.file(
        path,
        &format!(
            "//! A.\nfn a() {{ {sleep} }}\n#[cfg(test)]\nmod tests {{\n fn b() {{ {sleep} }}\n}}\n"
        ),
    );
    tree.finds(&format!("{path}:5"), "never sleeps");
}

#[test]
fn prints_that_panic_are_found_in_what_users_run() {
    let tree = Planted::clean("prints");
    let path = "crates/high/src/a.rs";
    for print in [concat!("print", "ln!(x)"), concat!("eprint", "ln!(x)"), concat!("pri", "nt!(x)")]
    {
        let test = format!("#[cfg(test)]\nmod tests {{\n fn b() {{ {print} }}\n}}\n");
        tree.file(path, &format!("//! A.\nfn a() {{ {print} }}\n{test}"));
        tree.finds(&format!("{path}:2"), "full or closed");
        tree.file(path, &format!("//! A.\n{test}"));
        assert_eq!(tree.findings(), Vec::<String>::new(), "tests may print");
    }
}

#[test]
fn atomics_that_loom_cannot_see_are_found() {
    let tree = Planted::clean("atomics");
    let path = "crates/high/src/a.rs";
    tree.file(path, "//! A.\nuse std::sync::atomic::AtomicU32;\n")
        .finds(&format!("{path}:2"), "clump_os::sync");
    tree.file(path, "//! A.\nfn f() { std::sync::atomic::fence(o) }\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn names_that_say_nothing_are_found() {
    let tree = Planted::clean("names");
    let path = "crates/high/src/a.rs";
    for name in ["RankManager", "IoHelpers", "UtilBox", "CommonPart", "RankInfo", "Data"] {
        tree.file(path, &format!("//! A.\nstruct {name};\n")).finds(&format!("{path}:2"), name);
    }
    tree.file(path, "//! A.\nmod test_util;\n").finds(&format!("{path}:2"), "test_util");
    tree.file(path, "//! A.\nstruct DataPath;\nenum Informed {}\nstruct Utilization;\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file("crates/high/tests/common/mod.rs", "")
        .finds("crates/high/tests/common/mod.rs", "common");
}

#[test]
fn missing_heads_are_found() {
    let tree = Planted::clean("heads");
    tree.file("crates/high/src/a.rs", "fn a() {}\n").finds("crates/high/src/a.rs", "no `//!` line");
    tree.file("crates/high/src/a.rs", "//! A.\n");
    tree.file(LIB, "//! A crate.\n#![forbid(unsafe_code)]\n").finds(LIB, "# Invariants");
    tree.file(LIB, "//! A crate.\n//!\n//! # Invariants\n//! 1. One.\n")
        .finds(LIB, "forbid(unsafe_code)");
}

#[test]
fn a_crate_with_a_licence_for_unsafe_need_not_forbid_it() {
    let tree = Planted::clean("unsafe");
    tree.file("crates/high/Cargo.toml", &manifest("clump-os", Some(1), ""));
    tree.file(LIB, "//! A crate.\n//!\n//! # Invariants\n//! 1. One.\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn a_sync_mark_must_be_answered_by_the_function_that_it_names() {
    let tree = Planted::clean("sync");
    let path = "crates/high/src/a.rs";
    let pair = |number: u32, partner: &str| {
        format!(
            "//! A.\nfn push() {{\n    x(); // SYNC {number}: pairs with `{partner}`, which frees it\n}}\n\
             fn take() {{\n    // SYNC 2: pairs with lane::Sender::push.\n}}\n"
        )
    };
    tree.file(path, &pair(2, "Lane::take"));
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(path, &pair(2, "Lane::pop"));
    tree.finds(&format!("{path}:3"), "pairs with `pop`");
    tree.file(path, &pair(3, "take"));
    assert_eq!(tree.findings().len(), 2, "neither number is answered");
    tree.file(path, "//! A.\n// SYNC 2: see push\n");
    tree.finds(&format!("{path}:2"), "pairs with <function>");
}

#[test]
fn missing_pages_and_commands_are_found() {
    let tree = Planted::clean("pages");
    std::fs::remove_file(tree.0.join("CHANGELOG.md")).unwrap();
    tree.finds("CHANGELOG.md", "missing");
    tree.file("CHANGELOG.md", "").file("ARCHITECTURE.md", &"line\n".repeat(251));
    tree.finds("ARCHITECTURE.md", "251 lines");
    tree.file("ARCHITECTURE.md", "")
        .file("README.md", "cargo run --release -- demo\n```\ncargo test --workspace\n```\n");
    tree.finds("README.md", "cargo run --release -- demo");
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let tree = Planted::clean("links");
    tree.file(
        "docs/a.md",
        "# A\n\n## One, *two*\n\n[page](../README.md) [place](#one-two) [folder](../crates)\n",
    );
    tree.file(
        "docs/b.md",
        "[other](a.md#one-two) [far](https://example.org/x)\n```\n[code](gone.md)\n```\n",
    );
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file("docs/c.md", "\n[gone](gone.md)\n").finds("docs/c.md:2", "leads to no file");
    tree.file("docs/c.md", "see [three](a.md#three)\n").finds("docs/c.md:1", "leads to no heading");
}

#[test]
fn a_type_name_is_given_once_in_a_layer() {
    let tree = Planted::clean("type-names");
    tree.file("crates/next/Cargo.toml", &manifest("next", Some(1), ""));
    tree.file("crates/high/src/a.rs", "//! A.\npub struct Lane;\nstruct Own;\n");
    tree.file("crates/low/src/a.rs", "//! A.\npub struct Lane;\n");
    tree.file(
        "crates/next/src/a.rs",
        "//! A.\nstruct Own;\n#[cfg(test)]\nmod tests {\n pub struct Lane;\n}\n",
    );
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file("crates/next/src/a.rs", "//! A.\npub(crate) enum Lane {}\n");
    tree.finds("crates/next/src/a.rs:2", "crates/high/src/a.rs:2");
    tree.file("crates/next/src/a.rs", "//! A.\nstruct Way;\n");
    tree.finds("crates/next/src/a.rs:2", "what of");
}

#[test]
fn protocol_crates_assert_what_they_promise() {
    let tree = Planted::clean("assertions");
    tree.file("crates/clump-proto/Cargo.toml", &manifest("clump-proto", Some(1), ""));
    let head = "//! A.\n//!\n//! # Invariants\n//! 1. One.\n#![forbid(unsafe_code)]\n";
    let path = "crates/clump-proto/src/lib.rs";
    let body = |asserts: &str| {
        let long = "    1;\n    2;\n    3;\n    4;\n";
        let short = "fn short() {\n    1;\n}\n";
        format!("{head}fn a() {{\n    {asserts}\n{long}}}\nfn b() {{\n{long}}}\n{short}")
    };
    tree.file(path, &body("debug_assert!(x); assert_eq!(a, b);"));
    tree.finds("crates/clump-proto", "1 assertions short");
    tree.file(path, &body("debug_assert!(x); assert_eq!(a, b); assert!(y)"));
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn build_output_and_version_control_are_not_read() {
    let tree = Planted::clean("skipped");
    for dir in ["target", "target-other", ".git", ".cache"] {
        tree.file(&format!("{dir}/a.rs"), concat!("// TO", "DO\n"));
    }
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn circles_of_files_are_found() {
    let tree = Planted::clean("circles");
    let head = "//! A crate.\n//!\n//! # Invariants\n//! 1. One.\n#![forbid(unsafe_code)]\n";
    tree.file("crates/low/src/lib.rs", &format!("{head}mod tree;\nmod wood;\n"));
    tree.file("crates/low/src/wood.rs", "//! Wood.\nuse crate::tree::Tree;\n");
    // A file that only declares and passes on is no user of its child.
    let passes_on = "//! Trees.\nmod leaf;\n#[cfg(not(loom))]\npub use leaf::{Leaf, Stem};\n";
    tree.file("crates/low/src/tree.rs", passes_on);
    tree.file("crates/low/src/tree/leaf.rs", "//! Leaves.\nuse super::Tree;\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file("crates/low/src/tree/leaf.rs", "//! Leaves.\nuse super::{Tree, twig::{A, B}};\n");
    assert_eq!(tree.findings(), Vec::<String>::new(), "a group names one file");
    let user = "//! Trees.\nmod leaf;\nuse leaf::{\n    Leaf,\n};\n";
    tree.file("crates/low/src/tree.rs", user);
    let siblings =
        "//! Leaves.\nuse super::{twig::A, twig::B};\nuse crate::{tree::twig, wood::B};\n";
    tree.file("crates/low/src/tree/leaf.rs", siblings);
    tree.file("crates/low/src/tree/twig.rs", "//! Twigs.\n");
    tree.file("crates/low/src/wood.rs", "//! Wood.\n");
    assert_eq!(tree.findings(), Vec::<String>::new(), "the head of a group is not named");
    std::fs::remove_file(tree.0.join("crates/low/src/tree/twig.rs")).unwrap();
    tree.file("crates/low/src/wood.rs", "//! Wood.\nuse crate::tree::Tree;\n");
    tree.file("crates/low/src/tree/leaf.rs", "//! Leaves.\nuse super::{Tree, twig::{A, B}};\n");
    tree.finds("crates/low", "2 files in circles (0 allowed): tree, tree::leaf");
    tree.file("crates/low/src/tree.rs", "//! Trees.\nmod leaf;\n");
    tree.file(
        "crates/low/src/tree/leaf.rs",
        "//! Leaves.\nfn f() {\n    crate::wood::burn();\n}\n",
    );
    assert_eq!(tree.findings(), Vec::<String>::new(), "wood and leaf use tree and wood");
    tree.file(
        "crates/low/src/tree.rs",
        "//! Trees.\nmod leaf;\nfn f() -> leaf::Leaf {\n    g()\n}\n",
    );
    tree.finds("crates/low", "3 files in circles (0 allowed)");
    tree.file("crates/low/src/tree.rs", "//! Trees.\nuse self::leaf::Leaf;\nmod leaf;\n");
    tree.finds("crates/low", "3 files in circles (0 allowed)");
    tree.file(
        "crates/low/src/wood.rs",
        "//! Wood.\n#[cfg(test)]\nmod tests {\n    use crate::tree::Tree;\n}\n",
    );
    assert_eq!(tree.findings(), Vec::<String>::new(), "tests do not count");
}
