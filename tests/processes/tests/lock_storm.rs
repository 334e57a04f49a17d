//! Locks while ranks and nodes die, in a few jobs; `cargo run -p clump-process-tests --bin
//! lock-storm` does 200.

use clump_process_tests::lock_storm::lock_storm;

#[test]
fn a_small_storm_over_locks() {
    let seed = clump_os::process::random().unwrap();
    println!("seed {seed}");
    let seen = lock_storm(8, seed, |what| println!("{what}"));
    assert!(seen.held > 0, "{seen:?}");
}
