//! Kills ranks and nodes of jobs that contend for locks: `lock-storm [KILLS] [SEED]`. The seed is
//! printed; the same seed repeats the same storm.

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let kills = args.next().map_or(Ok(200), |text| text.parse())?;
    let seed =
        args.next().map_or_else(clump_os::process::random, |text| Ok(text.parse().unwrap_or(0)))?;
    println!("{kills} kills, seed {seed}");
    let seen = clump_process_tests::lock_storm::lock_storm(kills, seed, |what| println!("{what}"));
    println!(
        "{kills} jobs ended as they should: {} lost a rank, {} a node",
        seen.ranks, seen.nodes
    );
    println!("survivors had locks {} times, and were refused {}", seen.held, seen.lost);
    println!("slowest end {:?}", seen.end);
    Ok(())
}
