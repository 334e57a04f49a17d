//! Costs of shared virtual memory between two nodes, beside a request and reply of 4 KiB:
//! `clump run -n 2 --nodes 2 svm_cost`. Medians, in us; rank 0 measures, rank 1's node is the home.
//! With `--json` one object, for `cargo xtask bench`.
#![forbid(unsafe_code)]

use clump::rma::{RegionOptions, Rma};
use clump::svm::{Home, SharedArray, Svm};
use clump::{Clump, Result};
use clump_os::clock::now_ns;
use std::io::Write;

/// Events of each kind.
const EVENTS: usize = 300;
/// Pages read one behind the other.
const STREAM: usize = 2048;
/// Elements of a page.
const PAGE: usize = 512;

/// Returns the median of so many times, in us.
fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |&ns| ns as f64 / 1e3)
}

fn timed(mut event: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(EVENTS);
    for number in 0..EVENTS {
        let began = now_ns();
        event(number)?;
        times.push(now_ns().saturating_sub(began));
    }
    Ok(median(times))
}

/// Gets so many bytes of the other node by a one-sided operation.
fn round_trip(cl: &Clump, rma: &Rma, bytes: usize) -> Result<f64> {
    let there = rma.target_on(1, 0)?;
    let mut page = vec![0; bytes];
    let took = if cl.rank() == 0 { timed(|_| Ok(there.get_bytes(0, &mut page)?))? } else { 0.0 };
    cl.barrier()?;
    Ok(took)
}

/// Makes rank 0 fault on pages that it has never used: loads, or stores. Each is measured as one
/// fault: from the last page to the first, with a gap, so that none is read ahead for another.
fn misses(svm: &Svm, stores: bool) -> Result<f64> {
    let pages = svm.array::<u64>(2 * EVENTS * PAGE, Home::Node(svm.nnodes() - 1))?;
    let mut took = 0.0;
    let before = svm.breakdown().data.count;
    if svm.rank() == 0 {
        took = timed(|number| {
            let at = (EVENTS - 1 - number) * 2 * PAGE;
            if stores {
                pages.set(at, 1);
            } else {
                std::hint::black_box(pages.get(at));
            }
            Ok(())
        })?;
        let faults = svm.breakdown().data.count - before;
        assert!(faults >= EVENTS as u64, "{faults} faults in {EVENTS} accesses of absent pages");
    }
    svm.barrier()?;
    Ok(took)
}

/// Stores to pages that rank 0 has read.
fn upgrades(svm: &Svm) -> Result<f64> {
    let pages = svm.array::<u64>(EVENTS * PAGE, Home::Node(svm.nnodes() - 1))?;
    let mut took = 0.0;
    if svm.rank() == 0 {
        for at in 0..EVENTS {
            std::hint::black_box(pages.get(at * PAGE));
        }
        took = timed(|number| {
            pages.set(number * 11 % EVENTS * PAGE, 1);
            Ok(())
        })?;
    }
    svm.barrier()?;
    Ok(took)
}

/// Hands a lock and the page under it to and fro.
fn hand_over(svm: &Svm) -> Result<f64> {
    let (lock, page) = (svm.locks(1)?, svm.array::<u64>(1, Home::Node(0))?);
    let turns = svm.flags(2)?;
    let mut times = Vec::new();
    for round in 1..=EVENTS as u64 {
        if svm.rank() == 1 {
            turns.wait(0, round)?;
        }
        let began = now_ns();
        let held = lock.lock(0)?;
        page.set(0, page.get(0) + 1);
        times.push(now_ns().saturating_sub(began));
        held.release()?;
        turns.set(svm.rank(), round)?;
        if svm.rank() == 0 {
            turns.wait(1, round)?;
        }
    }
    svm.barrier()?;
    Ok(median(times))
}

/// Reads pages of the other node in order; returns MB/s, beside those of one long get.
fn stream(svm: &Svm, rma: &Rma) -> Result<(f64, f64)> {
    let pages: SharedArray<u64> = svm.array(STREAM * PAGE, Home::Node(svm.nnodes() - 1))?;
    let mut rates = (0.0, 0.0);
    if svm.rank() == 0 {
        let bytes = (STREAM * PAGE * 8) as f64;
        let began = now_ns();
        let sum: u64 = (0..STREAM).map(|page| pages.get(page * PAGE)).sum();
        std::hint::black_box(sum);
        rates.0 = bytes * 1e3 / now_ns().saturating_sub(began) as f64;
        let mut long = vec![0; STREAM * PAGE * 8];
        let there = rma.target_on(1, 0)?;
        let began = now_ns();
        there.get_bytes(0, &mut long)?;
        rates.1 = bytes * 1e3 / now_ns().saturating_sub(began) as f64;
    }
    svm.barrier()?;
    Ok(rates)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let cl = clump::init()?;
    if cl.nranks() != 2 || cl.nnodes() != 2 {
        return Err("run it with -n 2 --nodes 2".into());
    }
    let (rma, svm) = (Rma::open(&cl)?, cl.svm()?);
    let _region = rma.node_region(0, (STREAM * PAGE * 8) as u64, RegionOptions::default())?;
    cl.barrier()?;
    // A goal beside the request and reply that it is measured by, of the same run.
    let (small, round_trip) = (round_trip(&cl, &rma, 8)?, round_trip(&cl, &rma, 4096)?);
    let costs = [
        ("get of 8 bytes", "get_8", small),
        ("get of 4 KiB, R", "get_4096", round_trip),
        ("read fault", "read_fault", misses(&svm, false)?),
        ("write upgrade", "write_upgrade", upgrades(&svm)?),
        ("write miss", "write_miss", misses(&svm, true)?),
        ("clean barrier", "clean_barrier", timed(|_| Ok(svm.barrier()?))?),
        ("lock and a page, handed over", "lock_and_page", hand_over(&svm)?),
        ("local re-acquire", "local_reacquire", {
            let lock = svm.locks(1)?;
            timed(|_| Ok(lock.lock(0)?.release()?))?
        }),
    ];
    let (stream, long) = stream(&svm, &rma)?;
    if cl.rank() == 0 && std::env::args_os().any(|word| word == "--json") {
        print_json(&costs, (stream, long))?;
    } else if cl.rank() == 0 {
        let mut out = std::io::stdout().lock();
        writeln!(out, "accesses found by {}", svm.faults().unwrap_or("the hardware"))?;
        for (what, _, us) in costs {
            writeln!(out, "{what:<30}{us:>10.1} us{:>8.2} R", us / round_trip)?;
        }
        writeln!(out, "pages in order {stream:.0} MB/s, one long get {long:.0} MB/s")?;
    }
    cl.barrier()?;
    Ok(())
}

/// Prints the costs, and what they are beyond their baselines.
fn print_json(costs: &[(&str, &str, f64)], (stream, long): (f64, f64)) -> std::io::Result<()> {
    let of = |key: &str| costs.iter().find(|cost| cost.1 == key).map_or(0.0, |cost| cost.2);
    let round_trip = of("get_4096");
    let beyond = [
        ("read_fault_beyond_r", of("read_fault") - round_trip),
        ("write_miss_beyond_r", of("write_miss") - round_trip),
        ("clean_barrier_beyond_1.5_get_8", of("clean_barrier") - 1.5 * of("get_8")),
        ("lock_and_page_beyond_3_r", of("lock_and_page") - 3.0 * round_trip),
    ];
    let mut out = std::io::stdout().lock();
    write!(out, "{{\"data\":{{\"stream_of_long_get\":{:.3}", stream / long)?;
    for (key, us) in costs.iter().map(|cost| (cost.1, cost.2)).chain(beyond) {
        write!(out, ",\"{key}_us\":{us:.3}")?;
    }
    writeln!(out, "}}}}")
}
