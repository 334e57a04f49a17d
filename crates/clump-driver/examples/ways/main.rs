//! Round trips of each driver between two network namespaces joined by a virtual cable, as ratios
//! to bare UDP of the same run; all in turns.
//!
//! `cargo run --release -p clump-driver --example ways [bytes] [generic]`; a few seconds, two
//! processors, and root or user namespaces.
#![allow(clippy::print_stdout, reason = "a program that prints what it measured")]

mod side;

use clump_os::clock::now_ns;
use clump_os::netns::{self, Networks};
use clump_os::xdp::Mode;
use side::{Side, Way};
use std::error::Error;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Any error.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Turns of each driver.
const TURNS: usize = 31;
/// Round trips in one turn: about 10 ms.
const TRIPS: usize = 1000;
/// Warm-up before the first turn, in which drivers find their paths.
const WARM_UP_NS: u64 = 300_000_000;

fn main() -> Result<(), Failure> {
    let bytes =
        std::env::args_os().nth(1).map_or(Ok(108), |text| text.to_string_lossy().parse())?;
    let networks = netns::create(2)?;
    let (to_a, from_b) = channel();
    let (to_b, from_a) = channel();
    let times = std::thread::scope(|threads| {
        let networks = &networks;
        let echo = threads.spawn(move || there(networks, bytes, &to_a, &from_a));
        let times = here(networks, bytes, &to_b, &from_b);
        echo.join().map_err(|_| "the echo gave up")??;
        times
    })?;
    let bare: Vec<f64> = times.iter().map(|turn| turn[0]).collect();
    for (at, way) in Way::ALL.iter().enumerate() {
        let us: Vec<f64> = times.iter().filter_map(|turn| turn.get(at).copied()).collect();
        if us.is_empty() {
            println!("{:<14} not here", way.name());
            continue;
        }
        let ratio = median(us.iter().zip(&bare).map(|(us, bare)| us / bare).collect());
        println!("{:<14} {:8.3} us   {ratio:.3} of bare UDP", way.name(), median(us));
    }
    Ok(())
}

/// Returns the permitted attachment modes of XDP's program: the one given, else all.
fn modes() -> Vec<Mode> {
    match std::env::args_os().nth(2) {
        Some(mode) if mode == "generic" => vec![Mode::Generic],
        _ => vec![Mode::Native, Mode::Generic],
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Enters a namespace and pins the thread to a processor of its own.
fn enter_and_pin(networks: &Networks, node: usize) -> Result<(), Failure> {
    netns::enter(None, networks.nets[node].as_fd())?;
    let allowed = clump_os::topology::affinity()?;
    clump_os::topology::set_affinity(&[allowed[node % allowed.len()]])?;
    Ok(())
}

/// Runs the measuring side. Returns microseconds per round trip, by turn and driver.
fn here(
    networks: &Networks,
    bytes: usize,
    tell: &Sender<Vec<std::net::SocketAddr>>,
    hear: &Receiver<Vec<std::net::SocketAddr>>,
) -> Result<Vec<Vec<f64>>, Failure> {
    enter_and_pin(networks, 0)?;
    let mut side = Side::open(netns::address(0), bytes, &modes())?;
    tell.send(side.addresses()?)?;
    let targets = hear.recv()?;
    for (&way, &to) in Way::ALL.iter().zip(&targets) {
        let until = now_ns() + WARM_UP_NS;
        let mut last = false;
        while !last {
            last = now_ns() > until;
            side.trip(way, to, last)?;
        }
    }
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let mut turn = Vec::new();
        for (&way, &to) in Way::ALL.iter().zip(&targets) {
            let start = now_ns();
            for trip in 1..=TRIPS {
                side.trip(way, to, trip == TRIPS)?;
            }
            turn.push((now_ns() - start) as f64 / TRIPS as f64 / 1000.0);
        }
        times.push(turn);
    }
    Ok(times)
}

/// Runs the answering side.
fn there(
    networks: &Networks,
    bytes: usize,
    tell: &Sender<Vec<std::net::SocketAddr>>,
    hear: &Receiver<Vec<std::net::SocketAddr>>,
) -> Result<(), Failure> {
    enter_and_pin(networks, 1)?;
    let mut side = Side::open(netns::address(1), bytes, &modes())?;
    tell.send(side.addresses()?)?;
    let sources = hear.recv()?;
    for _ in 0..=TURNS {
        for (&way, &to) in Way::ALL.iter().zip(&sources) {
            while !side.answer(way, to)? {}
        }
    }
    Ok(())
}
