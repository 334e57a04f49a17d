//! `clump app`: the applications in shared virtual memory.

use crate::ranks::Ranks;
use anyhow::Context;
use clap::Subcommand;
use clump_shared_apps::barnes_svm::command::BarnesArgs;
use clump_shared_apps::fft::command::FftArgs;
use clump_shared_apps::gauss::command::GaussArgs;
use clump_shared_apps::jacobi::command::JacobiArgs;
use clump_shared_apps::lu::command::LuArgs;
use clump_shared_apps::matmul::command::MatmulArgs;
use clump_shared_apps::ocean::command::OceanArgs;
use clump_shared_apps::radix_svm::command::RadixSvmArgs;
use clump_shared_apps::raytrace::command::RaytraceArgs;
use clump_shared_apps::tsp::command::TspArgs;
use clump_shared_apps::unstructured::command::UnstructuredArgs;
use clump_shared_apps::volrend::command::VolrendArgs;
use clump_shared_apps::water::command::{self as water, WaterArgs, WaterSpatialArgs};
use clump_shared_apps::{
    barnes_svm, fft, gauss, jacobi, lu, matmul, ocean, radix_svm, raytrace, tsp, unstructured,
    volrend,
};
use std::path::Path;
use std::process::ExitCode;

/// Applications in shared virtual memory.
#[derive(Debug, Subcommand)]
pub enum SharedApp {
    /// Relax a square grid in shared virtual memory
    #[command(
        after_help = "Example:\n  clump app jacobi -n 2 --nodes 2 --rows packed --deal cyclic"
    )]
    Jacobi {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: JacobiArgs,
    },
    /// Multiply two matrices in shared virtual memory
    #[command(after_help = "Example:\n  clump app matmul -n 2 --nodes 2 --order 500")]
    Matmul {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: MatmulArgs,
    },
    /// Solve linear equations in shared virtual memory
    #[command(after_help = "Example:\n  clump app gauss -n 2 --nodes 2 --equations 400")]
    Gauss {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: GaussArgs,
    },
    /// Factorise a matrix in shared virtual memory, by blocks
    #[command(after_help = "Example:\n  clump app lu -n 2 --nodes 2 --size measure")]
    Lu {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: LuArgs,
    },
    /// Sort 32-bit keys in shared virtual memory, by their digits
    #[command(after_help = "Example:\n  clump app radix-svm -n 2 --nodes 2 --store local")]
    RadixSvm {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: RadixSvmArgs,
    },
    /// Transform a long vector of complex numbers in shared virtual memory
    #[command(after_help = "Example:\n  clump app fft -n 2 --nodes 2 --size measure")]
    Fft {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: FftArgs,
    },
    /// Solve equations of currents in a basin in shared virtual memory
    #[command(after_help = "Example:\n  clump app ocean -n 2 --nodes 2 --size measure")]
    Ocean {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: OceanArgs,
    },
    /// Move molecules of water in shared virtual memory
    #[command(after_help = "Example:\n  clump app water-nsq -n 2 --nodes 2 --forces locks")]
    WaterNsq {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: WaterArgs,
    },
    /// Move molecules of water in shared virtual memory, cube by cube
    #[command(after_help = "Example:\n  clump app water-spatial -n 2 --nodes 2 --size measure")]
    WaterSpatial {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: WaterSpatialArgs,
    },
    /// Trace a picture of mirrors and balls in shared virtual memory
    #[command(after_help = "Example:\n  clump app raytrace -n 2 --nodes 2 --picture balls.ppm")]
    Raytrace {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: RaytraceArgs,
    },
    /// Move bodies that attract each other in shared virtual memory
    #[command(after_help = "Example:\n  clump app barnes-svm -n 2 --nodes 2 --tree spatial")]
    BarnesSvm {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: BarnesArgs,
    },
    /// Render a volume from several sides in shared virtual memory
    #[command(after_help = "Example:\n  clump app volrend -n 2 --nodes 2 --picture head.png")]
    Volrend {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: VolrendArgs,
    },
    /// Find the shortest round tour in shared virtual memory, by branch and bound
    #[command(after_help = "Example:\n  clump app tsp -n 2 --nodes 2 --instance gr17")]
    Tsp {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: TspArgs,
    },
    /// Loop over the edges of an irregular mesh in shared virtual memory
    #[command(after_help = "Example:\n  clump app unstructured -n 2 --nodes 2 --adding locks")]
    Unstructured {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: UnstructuredArgs,
    },
}

impl SharedApp {
    /// Runs it.
    ///
    /// # Errors
    /// Fails if the application does.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Jacobi { ranks, args } => ranks.job(|| jacobi::command::run(args)),
            Self::Matmul { ranks, args } => ranks.job(|| matmul::command::run(args)),
            Self::Gauss { ranks, args } => ranks.job(|| gauss::command::run(args)),
            Self::Lu { ranks, args } => ranks.job(|| lu::command::run(args)),
            Self::RadixSvm { ranks, args } => ranks.job(|| radix_svm::command::run(args)),
            Self::Fft { ranks, args } => ranks.job(|| fft::command::run(args)),
            Self::Ocean { ranks, args } => ranks.job(|| ocean::command::run(args)),
            Self::WaterNsq { ranks, args } => ranks.job(|| water::run_by_pairs(args)),
            Self::WaterSpatial { ranks, args } => ranks.job(|| water::run_by_cubes(args)),
            Self::Raytrace { ranks, args } => {
                check_picture(args.picture.as_deref())?;
                ranks.job(|| raytrace::command::run(args))
            }
            Self::BarnesSvm { ranks, args } => ranks.job(|| barnes_svm::command::run(args)),
            Self::Volrend { ranks, args } => {
                check_picture(args.picture.as_deref())?;
                ranks.job(|| volrend::command::run(args))
            }
            Self::Tsp { ranks, args } => ranks.job(|| tsp::command::run(args)),
            Self::Unstructured { ranks, args } => ranks.job(|| unstructured::command::run(args)),
        }
    }
}

/// Fails if a picture cannot be written, before ranks have made it.
fn check_picture(file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file.filter(|_| !clump_engines::started_as_rank()) else { return Ok(()) };
    let named = || format!("{} (--picture) cannot be written", file.display());
    clump_os::file::check_writable(file).with_context(named)
}
