//! Random kills of jobs that update memory of other nodes, a few of them; `cargo run -p
//! clump-process-tests --bin update-storm` does 100.

use clump_process_tests::update_storm::update_storm;
use clump_test_tier::pick;

#[test]
fn a_small_storm_of_updates() {
    let seed = clump_os::process::random().unwrap();
    println!("seed {seed}");
    update_storm(pick(3, 10), seed, |what| println!("{what}"));
}
