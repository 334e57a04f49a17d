//! The cost of the UDP driver compared with bare system calls: round trips of one small datagram,
//! and a windowed stream of runs. Both kinds alternate within one run, so that their ratio is
//! meaningful.
//!
//! `cargo run --release -p clump-driver --example udp_cost [bytes]`; a few seconds, two processors.
#![allow(clippy::print_stdout, reason = "a program that prints what it measured")]

mod round_trip;
mod stream;

use std::error::Error;

/// Any error.
type Failure = Box<dyn Error + Send + Sync>;

/// Turns of each kind.
const TURNS: usize = 31;

/// Sender and receiver under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// System calls alone.
    Bare,
    /// The driver.
    Driver,
}

/// Returns the order of a turn: bare and driver swap places each time.
fn order(turn: usize) -> [Kind; 2] {
    if turn.is_multiple_of(2) { [Kind::Bare, Kind::Driver] } else { [Kind::Driver, Kind::Bare] }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints both kinds, and the median over turns of the ratio of neighbours.
fn report(what: &str, unit: &str, turns: &[(f64, f64)]) {
    let bare = median(turns.iter().map(|turn| turn.0).collect());
    let driver = median(turns.iter().map(|turn| turn.1).collect());
    let ratio = median(turns.iter().map(|turn| turn.1 / turn.0).collect());
    println!("{what:<28} bare {bare:8.3} {unit}   driver {driver:8.3} {unit}   ratio {ratio:.3}");
}

/// Confines the calling thread to one of the allowed processors. Returns `false` when there is only
/// one.
fn pin(place: usize) -> Result<bool, Failure> {
    let allowed = clump_os::topology::affinity()?;
    let processor = allowed[place % allowed.len()];
    clump_os::topology::set_affinity(&[processor])?;
    Ok(allowed.len() > 1)
}

fn main() -> Result<(), Failure> {
    let bytes = std::env::args_os().nth(1).map_or(Ok(96), |text| text.to_string_lossy().parse())?;
    round_trip::measure(bytes)?;
    stream::measure()
}
