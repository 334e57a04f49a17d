//! Rules about words: comments, descriptions, documents.

use super::Planted;
use crate::tidy::ratchet;

#[test]
fn words_that_the_field_has_better_ones_for_are_found() {
    let tree = Planted::clean("glossary");
    let path = "crates/high/src/a.rs";
    tree.file(path, "//! A.\nfn f(x: Portal) {}\n").finds(&format!("{path}:2"), "ProxyClient");
    tree.file(path, "//! A.\nconst MOST_WORDS: u8 = 1;\n").finds(&format!("{path}:2"), "MAX_WORDS");
    tree.file(path, "//! A.\n// Whoever sends it.\n").finds(&format!("{path}:2"), "`it`");
    tree.file(path, "//! A.\nconst WORD: &str = \"a portal of rank 1\";\n");
    tree.finds(&format!("{path}:2"), "proxy client");
    tree.file(path, "//! A.\nconst WORD: &str = \"MOST_WORDS HandlerDesk\";\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file("docs/a.md", "The ghost of a rank.\n").finds("docs/a.md:1", "stale stack");
}

#[test]
fn prose_beyond_the_ratchet_is_found() {
    let tree = Planted::clean("prose-ratchet");
    let path = "crates/high/src/a.rs";
    tree.file(path, "//! A.\n// One heir.\n");
    tree.file(ratchet::RATCHET, "[prose]\n\"crates/high\" = 1\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(path, "//! A.\n// One heir and two heirs.\n");
    assert_eq!(tree.findings().len(), 3, "both places, and the number");
    tree.file(path, "//! A.\n").finds(ratchet::RATCHET, "shrank from 1 to 0");
    tree.lower();
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn doc_comments_that_begin_with_nothing_are_found() {
    let tree = Planted::clean("beginnings");
    let path = "crates/high/src/a.rs";
    for start in ["What it is.", "Whether it is.", "The same.", "See the module."] {
        tree.file(path, &format!("//! A.\n/// {start}\nfn a() {{}}\n"));
        tree.finds(&format!("{path}:2"), "begins with");
    }
    tree.file(path, "//! A.\nconst A: &str =\n    \"How long it waits.\";\n");
    tree.finds(&format!("{path}:3"), "begins with");
    tree.file(path, "//! A.\nconst A: &str =\n    \"How long?\";\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(path, "//! How it is done.\nfn a() {}\n");
    tree.finds(&format!("{path}:1"), "begins with");
    tree.file(path, "//! A.\n/// Returns it.\n/// What comes second may begin so.\nfn a() {}\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn public_functions_that_can_fail_say_when() {
    let tree = Planted::clean("errors");
    let path = "crates/high/src/a.rs";
    tree.file(path, "//! A.\n/// Does.\npub fn a(\n    b: u8,\n) -> Result<u8> {\n}\n");
    tree.finds(&format!("{path}:3"), "# Errors");
    tree.file(path, "//! A.\n/// Does.\n///\n/// # Errors\n/// Never.\n#[inline]\npub fn a() -> Result<u8> {\n}\n");
    assert_eq!(tree.findings(), Vec::<String>::new());
    tree.file(
        path,
        "//! A.\n/// Does.\npub fn a() -> Option<Result<u8>> {\n}\nfn b() -> Result<u8> {\n}\n",
    );
    assert_eq!(tree.findings(), Vec::<String>::new());
}

#[test]
fn wide_comments_are_found_and_wide_code_is_not() {
    let tree = Planted::clean("width");
    let path = "crates/high/src/a.rs";
    tree.file(path, &format!("//! A.\n// {}\n", "x".repeat(98)))
        .finds(&format!("{path}:2"), "wrap it");
    tree.file(path, &format!("//! A.\nconst A: &str = \"{}\";\n", "x".repeat(98)));
    assert_eq!(tree.findings(), Vec::<String>::new());
}
