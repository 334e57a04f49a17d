//! `clump lab collectives`: options, and the turns.

use crate::collectives::{self, CollectiveExtent, table, workload};
use crate::launch::JobShape;
use crate::pair::Scope;
use anyhow::Result;
use clump_coll::choice::Operation;
use clump_os::console;
use clump_trace::line_state::LineWatch;
use clump_wire::Security;
use std::path::Path;

/// Options of `clump lab collectives`.
#[derive(Debug, Clone, clap::Args)]
pub struct CollectivesArgs {
    /// Ranks
    #[arg(short, long, default_value = "2", value_parser = crate::positive::positive())]
    pub n: usize,
    /// Virtual nodes that they are spread over; peers then use TCP between all ranks
    #[arg(long, default_value = "1", value_parser = crate::positive::positive())]
    pub nodes: usize,
    /// Collectives; all if left out
    #[arg(long, value_delimiter = ',', value_parser = Operation::parse)]
    pub operations: Vec<Operation>,
    /// Bytes of a contribution, or of a part where each rank has its own; multiples of 8
    #[arg(long, value_delimiter = ',', default_value = "8,1024,32768,1048576",
          value_parser = size)]
    pub sizes: Vec<usize>,
    /// Turns of every implementation; figures are medians over them
    #[arg(long, default_value = "3", value_parser = crate::positive::positive())]
    pub rounds: usize,
    /// Slices of a turn
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub slices: u64,
    /// Length of a slice
    #[arg(long, default_value = "10000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub slice_us: u64,
    /// Measure every algorithm that clump has for a case, not only the one that it chooses
    #[arg(long)]
    pub all: bool,
    /// Measure the installed MPIs in turn with clump
    #[arg(long)]
    pub beside: bool,
    /// Protection of clump's packets between nodes (aead or crc); peers have none
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Set in the ranks that the command starts.
    #[arg(long, hide = true)]
    pub as_rank: bool,
}

fn size(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(8) && bytes <= 1 << 26 => Ok(bytes),
        _ => Err("a size is a multiple of 8, at most 64 MiB".into()),
    }
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if the ranks cannot be run, or if the results cannot be written.
pub fn run(args: &CollectivesArgs) -> Result<u8> {
    let extent = args.extent();
    if args.as_rank {
        workload::rank_main(&extent)?;
        return Ok(0);
    }
    crate::scratch_run::in_scratch("collectives", |folder| measure(args, &extent, folder))
}

fn measure(args: &CollectivesArgs, extent: &CollectiveExtent, folder: &Path) -> Result<()> {
    let scope = if args.nodes > 1 { Scope::Net } else { Scope::Shm };
    let nodes = args.nodes.min(args.n);
    let shape = JobShape { ranks: args.n, nodes, security: args.security, netns: false };
    let (peers, missing) = match args.beside {
        true => collectives::peers(scope, folder),
        false => Default::default(),
    };
    for peer in &missing {
        console::err(&format!("left out: {}: {}", peer.name, peer.remedy));
    }
    let watch = LineWatch::begin();
    let (cells, failures) = collectives::play(shape, &peers, (args.rounds, extent), console::err)?;
    let report = table::report(&cells, &failures)?.with("ranks", args.n).with("nodes", nodes);
    crate::render::show(&report.with("rounds", args.rounds).watched(watch), args.json)
}

impl CollectivesArgs {
    fn extent(&self) -> CollectiveExtent {
        let every = || Operation::ALL.to_vec();
        CollectiveExtent {
            operations: if self.operations.is_empty() { every() } else { self.operations.clone() },
            sizes: self.sizes.clone(),
            slices: usize::try_from(self.slices).unwrap_or(1),
            slice_ns: self.slice_us * 1000,
            all: self.all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, try_parse};
    use crate::Command;

    #[test]
    fn operations_and_sizes_are_checked() {
        let words = ["lab", "collectives", "--operations", "scan,all-to-all", "--sizes", "8,64"];
        let Command::Collectives(args) = parse(&words) else { unreachable!() };
        assert_eq!((args.extent().operations.len(), args.extent().sizes), (2, vec![8, 64]));
        let Command::Collectives(args) = parse(&["lab", "collectives"]) else { unreachable!() };
        assert_eq!(args.extent().operations.len(), 9);
        for [option, value] in [["--sizes", "7"], ["--operations", "sum"], ["--sizes", "0"]] {
            assert!(try_parse(&["lab", "collectives", option, value]).is_err(), "{value}");
        }
    }
}
