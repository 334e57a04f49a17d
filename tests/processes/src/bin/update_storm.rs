//! Kills ranks and nodes of jobs that update memory of other nodes: `update-storm [KILLS] [SEED]`.
//! The seed is printed; the same seed repeats the same storm.

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let kills = args.next().map_or(Ok(100), |text| text.parse())?;
    let seed =
        args.next().map_or_else(clump_os::process::random, |text| Ok(text.parse().unwrap_or(0)))?;
    println!("{kills} kills, seed {seed}");
    let say = |what: &str| println!("{what}");
    let seen = clump_process_tests::update_storm::update_storm(kills, seed, say);
    println!("{kills} jobs ended: {} lost a rank, {} a node", seen.ranks, seen.nodes);
    println!("slowest end {:?}", seen.end);
    Ok(())
}
