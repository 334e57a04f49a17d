//! One measurement between two nodes in turn with the bare network, for any length of time: for
//! profiles and for comparing two builds. `clump run -n 2 --nodes 2 --bind cores --security crc
//! target/release/examples/beside long 1048576 500`: the workload (`long`, `medium`, `rate`,
//! `trip`), bytes, turns. A final `only` leaves the bare network out.

use anyhow::{Context, Result, bail};
use clump_lab::pair::meeting::{PairRole, meet};
use clump_lab::pair::{BulkPath, Pair, Scope};
use clump_lab::{bare, measure};
use clump_loggp::Median;
use clump_wire::Security;

/// Messages of a turn of `rate`, round trips of a turn of `trip`.
const MESSAGES: u32 = 100_000;
const TRIPS: u32 = 1000;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let what = args.next().context("say what: long, medium, rate or trip")?;
    let bytes: usize = args.next().map_or(Ok(1 << 20), |bytes| bytes.parse())?;
    let turns: usize = args.next().map_or(Ok(101), |turns| turns.parse())?;
    let only = args.next().is_some();
    let cl = clump::init()?;
    match meet(&cl, Scope::Net, Security::Crc)? {
        PairRole::Issuer(mut issuer) => {
            turn_by_turn(&mut *issuer, &what, bytes, turns, only)?;
            issuer.finish()?;
        }
        PairRole::Server(mut server) => server.serve()?,
        PairRole::Onlooker => {}
    }
    Ok(cl.barrier()?)
}

fn turn_by_turn<P: Pair>(
    pair: &mut P,
    what: &str,
    bytes: usize,
    turns: usize,
    only: bool,
) -> Result<()> {
    let clock = pair.clock_cost_ns();
    let rtt = measure::round_trips(pair, 1000, clock)?;
    let shape = if only { None } else { bare::tune(pair)? };
    let count = measure::stream_length(bytes);
    let (mut ours, mut bares, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..turns {
        let (our, bare) = match what {
            "long" | "medium" => {
                let way = if what == "long" { BulkPath::Long } else { BulkPath::Medium };
                let ns = measure::stream(pair, way, bytes, rtt)?;
                let bare = match shape {
                    Some(_) => bare::stream(pair, shape, way, bytes, count)? / 1e9,
                    None => 1.0,
                };
                (bytes as f64 / ns, bare)
            }
            "rate" => {
                let rate = measure::post_rate(pair, MESSAGES)? / 1e6;
                (rate, if only { 1.0 } else { bare::rate(pair, MESSAGES)? / 1e6 })
            }
            "trip" => {
                let ns = measure::round_trips(pair, TRIPS, clock)?;
                (ns, if only { 1.0 } else { bare::round_trip(pair, TRIPS)? })
            }
            _ => bail!("no such thing: {what}"),
        };
        ours.push(our);
        bares.push(bare);
        ratios.push(our / bare);
    }
    let median = |all: Vec<f64>| Median::of(all).map_or(f64::NAN, |median| median.value);
    let (low, high) = spread(&ours);
    println!(
        "{what} {bytes}: {:.3} ({low:.3} to {high:.3}) bare {:.3} ratio {:.3} {}",
        median(ours),
        median(bares),
        median(ratios),
        shape.map_or(String::new(), |s| format!("{} x {}", s.datagram_bytes, s.window_bytes)),
    );
    Ok(())
}

/// Returns the first and last decile.
fn spread(all: &[f64]) -> (f64, f64) {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    let at = |part: usize| all.get(all.len() * part / 10).copied().unwrap_or(f64::NAN);
    (at(1), at(9))
}
