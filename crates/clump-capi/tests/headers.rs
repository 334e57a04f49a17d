//! Compares the headers in the tree with those generated from the sources.

use crate::generate;

#[test]
fn headers_are_those_of_the_sources() {
    for header in generate::HEADERS {
        let there = std::fs::read_to_string(header.path()).unwrap_or_default();
        let due = header.text();
        let differs = there.lines().zip(due.lines()).position(|(there, due)| there != due);
        assert!(
            there == due,
            "{} differs from its sources (line {:?}); run `cargo run -p clump-capi --example headers`",
            header.name,
            differs.map(|line| line + 1)
        );
    }
}
