//! The common half of programs that access random elements of a table: options, shares, the run.

use crate::run::{AppRun, Manner};
use clap::Args;
use clump::Clump;
use clump::pgas::Pgas;
use clump_app_frame::InputSize;

/// Options of programs that access random elements.
#[derive(Debug, Args)]
pub struct AccessArgs {
    /// Size of the input: 2^16 elements and 2^20 accesses, or 2^20 and 2^26 (measure and paper)
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Manner of the accesses
    #[arg(long, value_enum, default_value = "aggregated")]
    pub manner: Manner,
    /// Sort accesses by rank and exchange them by hand, instead of a manner
    #[arg(long, conflicts_with = "manner")]
    pub bucketed: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl AccessArgs {
    /// Returns the elements and the accesses of all ranks, unless they are given.
    pub fn counts(&self, elements: Option<u64>, accesses: Option<u64>) -> (u64, u64) {
        let elements = elements.unwrap_or_else(|| 1 << self.size.of(16, 20, 20));
        (elements, accesses.unwrap_or_else(|| 1 << self.size.of(20, 26, 26)))
    }

    /// Begins a run, and reports its counts, by name, and the manner.
    pub fn begin(
        &self,
        cl: &Clump,
        gas: &Pgas,
        app: &'static str,
        counts: [(&'static str, u64); 2],
    ) -> AppRun {
        let node_of = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
        let mut run = AppRun::begin(gas, app, self.size, node_of);
        counts.into_iter().for_each(|(name, count)| run.report().count(name, count));
        let manner = if self.bucketed { "bucketed" } else { self.manner.name() };
        run.report().choice("manner", manner);
        run
    }
}

/// Returns the first of a rank's accesses, and their number.
pub fn share(accesses: u64, (rank, ranks): (u64, u64)) -> (u64, u64) {
    let first = |rank: u64| (u128::from(accesses) * u128::from(rank) / u128::from(ranks)) as u64;
    debug_assert!(rank < ranks, "a rank of the job");
    (first(rank), first(rank + 1) - first(rank))
}
