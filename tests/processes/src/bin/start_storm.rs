//! Starts jobs that use regions of their nodes, one after the other, and checks that no shared
//! memory is left: `start-storm [JOBS]`.

fn main() -> anyhow::Result<()> {
    let jobs = std::env::args_os().nth(1);
    let jobs = jobs.map_or(Ok(1000), |text| text.to_string_lossy().parse())?;
    let kept = clump_process_tests::start_storm::start_storm(jobs)?;
    println!("{jobs} jobs ended; shared memory of the machine grew by {kept} KiB meanwhile");
    Ok(())
}
