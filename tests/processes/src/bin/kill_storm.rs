//! Kills random ranks of jobs under load: `kill-storm [KILLS] [SEED] [NODES]`. The seed is printed;
//! the same seed repeats the same storm.

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let kills = args.next().map_or(Ok(200), |text| text.parse())?;
    let seed =
        args.next().map_or_else(clump_os::process::random, |text| Ok(text.parse().unwrap_or(0)))?;
    let nodes = args.next().map_or(Ok(1), |text| text.parse())?;
    println!("{kills} kills on {nodes} nodes, seed {seed}");
    let seen = clump_process_tests::storm::storm(kills, seed, nodes, |what| println!("{what}"));
    println!("{kills} jobs ended as they should");
    println!("slowest end {:?}, last process gone {:?}", seen.end, seen.gone);
    println!("{} errors of survivors did not name the dead rank", seen.unnamed);
    Ok(())
}
