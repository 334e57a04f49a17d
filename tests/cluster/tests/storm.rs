//! Random kills under load, a few of them; `cargo run -p clump-cluster-tests --bin kill-storm` does 200.

#[test]
fn a_small_storm() {
    let seed = clump_os::process::random().unwrap();
    println!("seed {seed}");
    clump_cluster_tests::storm::storm(8, seed, |what| println!("{what}"));
}
