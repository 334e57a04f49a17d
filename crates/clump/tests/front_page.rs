//! The program that README shows is the example that is built.

const README: &str = include_str!("../../../README.md");
const PING: &str = include_str!("../examples/ping.rs");

#[test]
fn readme_shows_the_ping_example() {
    let (_, program) = PING.split_once("\n\n").expect("a head, then the program");
    assert!(
        README.contains(program),
        "README's program differs from crates/clump/examples/ping.rs"
    );
}
