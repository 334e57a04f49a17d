//! Starts jobs that use regions of their nodes, one after the other, and checks that no shared
//! memory is left: `start-storm [JOBS]`. With `proxies`, starts jobs of random shapes whose nodes
//! have proxies, beside load, and pauses their processes and threads at random: `start-storm JOBS
//! proxies [SEED]`.

use clump_process_tests::{proxy_starts, start_storm};

fn main() -> anyhow::Result<()> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let jobs = words.first().map_or(Ok(1000), |text| text.parse())?;
    if words.get(1).is_some_and(|kind| kind == "proxies") {
        let seed = words.get(2).map_or(Ok(1), |text| text.parse())?;
        let mut begun = 0_u32;
        let pauses = proxy_starts::proxy_starts(u32::try_from(jobs)?, seed, |what| {
            if begun.is_multiple_of(100) {
                println!("{what}");
            }
            begun += 1;
        });
        println!("{jobs} jobs by proxies ended well; {pauses:?}");
        return Ok(());
    }
    let kept = start_storm::start_storm(jobs)?;
    println!("{jobs} jobs ended; shared memory of the machine grew by {kept} KiB meanwhile");
    Ok(())
}
