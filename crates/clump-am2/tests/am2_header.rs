//! Compares `clump/am2_calls.h` with the output of its generator.

use crate::text;

#[test]
fn the_header_is_that_of_its_generator() {
    let there = std::fs::read_to_string(text::path()).unwrap_or_default();
    assert!(
        there == text::text(),
        "clump/am2_calls.h differs from its generator; run `cargo run -p clump-am2 --example am2_calls`"
    );
}
