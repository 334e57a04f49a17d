//! `clump app tsp`.

use crate::run::SharedRun;
use crate::tsp::check;
use crate::tsp::distances::{Distances, MAX_CITIES};
use crate::tsp::found_tours::FoundTours;
use crate::tsp::instances::Instance;
use crate::tsp::tour_queue::{QueueUse, TourQueue};
use crate::tsp::tsplib;
use anyhow::{Context, Result};
use clap::Args;
use clump::Sum;
use clump_app_frame::{AppReport, InputSize};
use std::path::PathBuf;
use std::process::ExitCode;

/// Most bytes of a file of cities.
const MAX_BYTES: u64 = 1 << 24;

/// Options of `clump app tsp`.
#[derive(Debug, Args)]
pub struct TspArgs {
    /// Size of the input: 10 random cities, gr17 of TSPLIB, or 10 random cities
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Random cities in a square of side 1000, instead of the size's
    #[arg(long, value_name = "N", conflicts_with_all = ["instance", "file"],
          value_parser = clap::value_parser!(u32).range(3..=MAX_CITIES as i64))]
    pub cities: Option<u32>,
    /// Seed of random cities
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Instance of TSPLIB, instead of the size's
    #[arg(long, value_enum, conflicts_with = "file")]
    pub instance: Option<Instance>,
    /// File of TSPLIB with a symmetric instance of 3 to 32 cities, at every node
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Cities below which what is left of a tour is tried in all orders by one rank [default: 13,
    /// or four fifths of all cities if that is less]
    #[arg(long, value_name = "CITIES",
          value_parser = clap::value_parser!(u32).range(1..=MAX_CITIES as i64))]
    pub solve_below: Option<u32>,
    /// Tours that the queue has room for; one rank completes what finds none
    #[arg(long, value_name = "TOURS", default_value_t = 131_072,
          value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub queue: u32,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Cities, and the length of their shortest tour if that is published.
struct TspInput {
    distances: Distances,
    name: &'static str,
    optimum: Option<u64>,
}

impl TspInput {
    fn random(cities: usize, seed: u64) -> Self {
        let distances = Distances::random(cities, seed);
        Self { distances, name: "random", optimum: None }
    }

    fn of(instance: Instance) -> Result<Self> {
        let (distances, optimum) = (instance.distances()?, Some(instance.optimum()));
        Ok(Self { distances, name: instance.name(), optimum })
    }

    fn chosen(args: &TspArgs) -> Result<Self> {
        if let Some(path) = &args.file {
            let named = || format!("reading {}", path.display());
            let text = clump_os::text_file::read(path, MAX_BYTES).with_context(named)?;
            let distances = tsplib::read(&text).with_context(named)?;
            return Ok(Self { distances, name: "file", optimum: None });
        }
        match (args.instance, args.cities, args.size) {
            (Some(instance), ..) => Self::of(instance),
            (None, None, InputSize::Measure) => Self::of(Instance::Gr17),
            (None, cities, _) => Ok(Self::random(cities.unwrap_or(10) as usize, args.seed)),
        }
    }
}

/// Searches the shortest tour on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, or if a file cannot be read.
pub fn run(args: &TspArgs) -> Result<ExitCode> {
    let input = TspInput::chosen(args)?;
    let distances = &input.distances;
    let usual = 13.min((distances.cities() * 4 / 5).max(1));
    let solve_below = args.solve_below.map_or(usual, |cities| cities as usize);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "tsp", args.size);
    run.report().count("cities", distances.cities() as u64);
    run.report().count("cities that one rank completes", solve_below as u64);
    run.report().choice("cities", input.name);
    let found = FoundTours::allocate(&svm)?;
    let queue = TourQueue::allocate(&svm, args.queue as usize, solve_below)?;
    let (mut uses, mut seen) = (QueueUse::default(), 0);
    run.phase("search", || {
        while let Some(tour) = queue.take(distances, &found, &mut uses)? {
            seen += tour.complete(distances, &found)?;
        }
        Ok(())
    })?;
    for (name, own) in [
        ("tours that were split", uses.split),
        ("tours that ranks took", uses.taken),
        ("tours that found no room", uses.early),
        ("partial tours that ranks saw", seen),
    ] {
        let sum = cl.all_reduce(own, Sum)?;
        run.report().count(name, sum);
    }
    let (shortest, times) = found.shortest()?;
    run.report().count("times that a shorter one was found", times);
    let tour = shortest.map_or_else(Vec::new, |tour| tour.cities().to_vec());
    let told = shortest.map_or(0, |tour| tour.length());
    let serial = || check::search(distances, solve_below);
    run.finish(args.json, serial, |serial, report| wrong(&input, (&tour, told), &serial, report))
}

/// Compares a tour and its length with the serial one, with the method of Held and Karp, and with
/// the published length; returns the number of what is wrong.
fn wrong(
    input: &TspInput,
    (tour, told): (&[u8], u64),
    serial: &[u8],
    report: &mut AppReport,
) -> u64 {
    let distances = &input.distances;
    let length = distances.length(tour);
    let exact = distances.cities() <= check::MAX_EXACT;
    let lengths = [
        Some(told),
        distances.length(serial),
        exact.then(|| check::held_karp(distances)),
        input.optimum,
    ];
    report.count("length of the tour", length.unwrap_or(0));
    report.choice(
        "checked by",
        match (exact, input.optimum) {
            (true, _) => "held-karp",
            (false, Some(_)) => "tsplib",
            (false, None) => "serial search",
        },
    );
    let other = lengths.iter().flatten().filter(|due| Some(**due) != length).count();
    other as u64 + u64::from(length.is_none())
}
