//! Stall of a sort when one of two cables is cut: `stall [ROUNDS] [RECORDS] [OPTIONS OF clump run
//! ...]`. Each round sorts once without a cut, for comparison, and once with one. Needs network
//! namespaces (`--netns`).

use anyhow::Context;
use clump_process_tests::cables;
use clump_process_tests::stall::{counted, sort};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let rounds: usize = args.next().map_or(Ok(5), |text| text.parse())?;
    let records: u64 = args.next().map_or(Ok(4_000_000), |text| text.parse())?;
    let options = args.collect::<Vec<_>>().join(" ");
    if !cables::are_here() {
        return Ok(());
    }
    let (mut whole, mut cut) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let seen = [false, true].map(|cuts| sort(records, &options, cuts));
        let [calm, stalled] = &seen;
        let out = counted(&stalled.ended, "net.paths.out");
        println!(
            "{round}: longest silence {:?} uncut, {:?} cut; paths taken out {out}",
            calm.longest, stalled.longest
        );
        whole.push(calm.longest);
        cut.push(stalled.longest);
    }
    whole.sort_unstable();
    cut.sort_unstable();
    let median = |all: &[std::time::Duration]| all.get(all.len() / 2).copied();
    let (whole, worst) = (median(&whole).context("no round")?, cut.last().copied());
    println!("median {whole:?} uncut, {:?} cut, {worst:?} at most", median(&cut));
    Ok(())
}
