//! Random kills under load, a few of them; `cargo run -p clump-process-tests --bin kill-storm` does
//! 200.

use clump_process_tests::storm::storm;

#[test]
fn a_small_storm() {
    let seed = clump_os::process::random().unwrap();
    println!("seed {seed}");
    storm(8, seed, 1, |what| println!("{what}"));
}

#[test]
fn a_small_storm_over_nodes() {
    let seed = clump_os::process::random().unwrap();
    println!("seed {seed}");
    for nodes in [2, 3] {
        storm(4, seed, nodes, |what| println!("{what}"));
    }
}
