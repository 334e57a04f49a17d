//! `clump app`: the built-in applications.

use crate::layout::{self, Layout};
use crate::ranks::Ranks;
use crate::shared_app::SharedApp;
use crate::sort_job;
use clap::{Args, Subcommand};
use clump_global_apps::barnes::command::GlobalBarnesArgs;
use clump_global_apps::connect::command::ConnectArgs;
use clump_global_apps::em3d::command::Em3dArgs;
use clump_global_apps::fft3d::command::Fft3dArgs;
use clump_global_apps::gups::command::GupsArgs;
use clump_global_apps::histo::command::HistoArgs;
use clump_global_apps::indexgather::command::IndexgatherArgs;
use clump_global_apps::murphi::command::MurphiArgs;
use clump_global_apps::pray::command::PrayArgs;
use clump_global_apps::radix::command::{RadbArgs, RadixArgs};
use clump_global_apps::sample::command::SampleArgs;
use clump_global_apps::{
    barnes, connect, em3d, fft3d, gups, histo, indexgather, murphi, pray, radix, sample,
};
use clump_os::console;
use clump_os::printable::printable_lines;
use clump_sort::command::SortArgs;
use clump_sort::gensort::{self, GensortArgs};
use clump_sort::valsort::{self, ValsortArgs};
use std::process::ExitCode;

/// Options of `clump app`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    clump app gensort 1000000 records          make 100 MB of records\n  \
    clump app sort -n 4 -i records -o sorted   sort them on four ranks\n  \
    clump app gensort 1000000 - | clump app sort -n 4 -i - -o piped       the same through a pipe\n  \
    clump app sort -n 4 --nodes 2 -i records -o sorted --force      the same on two nodes\n  \
    clump app valsort sorted --input records   check that nothing is lost or out of order\n\n\
    Exit codes: 1 when the application fails, 2 for a wrong command line, 125 when clump itself fails.")]
pub struct AppArgs {
    #[command(subcommand)]
    app: Option<App>,
}

#[derive(Debug, Subcommand)]
enum App {
    /// Sort records from disk to disk on several ranks
    #[command(after_help = "Examples:\n  \
        clump app sort -n 4 -i records -o sorted --memory 256M\n  \
        clump app sort -n 4 --nodes 2 --size measure      of records that it makes and checks")]
    Sort {
        /// Number of ranks
        #[arg(short = 'n', long = "ranks", value_name = "N", default_value = "2",
              value_parser = layout::ranks())]
        ranks: u32,
        #[command(flatten)]
        layout: Layout,
        #[command(flatten)]
        args: SortArgs,
    },
    /// Update random words of a table over all ranks (HPCC RandomAccess)
    #[command(after_help = "Example:\n  clump app gups -n 4 --nodes 2 --size measure --compare")]
    Gups {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: GupsArgs,
    },
    /// Count random numbers in bins over all ranks
    #[command(after_help = "Example:\n  clump app histo -n 4 --nodes 2 --size measure")]
    Histo {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: HistoArgs,
    },
    /// Read random words of a table over all ranks
    #[command(after_help = "Example:\n  clump app indexgather -n 4 --nodes 2 --size measure")]
    Indexgather {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: IndexgatherArgs,
    },
    /// Sort 32-bit keys by a sample of them, each key stored where it belongs
    #[command(after_help = "Example:\n  clump app sample -n 4 --nodes 2 --input staggered")]
    Sample {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: SampleArgs,
    },
    /// Sort 32-bit keys by their digits, each key stored at its place
    #[command(after_help = "Example:\n  clump app radix -n 4 --nodes 2 --size measure")]
    Radix {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: RadixArgs,
    },
    /// Sort 32-bit keys by their digits, in one message for each rank
    #[command(after_help = "Example:\n  clump app radb -n 4 --nodes 2 --size measure")]
    Radb {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: RadbArgs,
    },
    /// Let waves travel on an irregular graph over all ranks
    #[command(
        after_help = "Example:\n  clump app em3d -n 4 --nodes 2 --manner read --layout naive"
    )]
    Em3d {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: Em3dArgs,
    },
    /// Find the connected components of a graph over all ranks
    #[command(after_help = "Example:\n  clump app connect -n 4 --nodes 2 --dims 2 --density 40")]
    Connect {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: ConnectArgs,
    },
    /// Transform a cuboid of complex numbers over all ranks
    #[command(after_help = "Example:\n  clump app fft3d -n 4 --nodes 2 --sides 128 64 32")]
    Fft3d {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: Fft3dArgs,
    },
    /// Move bodies that attract each other, by an octree in global memory
    #[command(after_help = "Example:\n  clump app barnes -n 4 --nodes 2 --picture bodies.png")]
    Barnes {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: GlobalBarnesArgs,
    },
    /// Trace a picture of a scene in global memory, read by way of a cache
    #[command(after_help = "Examples:\n  \
        clump app pray -n 4 --nodes 2 --picture field.png --chart reads.svg\n  \
        clump app pray -n 4 --scene flake --objects 7000 --resolution 1024x768 --picture flake.png\n  \
        clump app pray -n 4 --scene teapot.nff --picture teapot.png")]
    Pray {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: PrayArgs,
    },
    /// Check all states of a model in the Murphi language over all ranks
    #[command(after_help = "Examples:\n  \
        clump app murphi model.m -n 4\n  \
        clump app murphi german -n 4 --nodes 2 --set Nodes=4 --symmetry exact\n\n\
        Exit codes: 0 no error, 1 the model has an error, 2 its text is wrong, 3 not all states \
        were searched.")]
    Murphi {
        #[command(flatten)]
        ranks: Ranks,
        #[command(flatten)]
        args: MurphiArgs,
    },
    #[command(flatten)]
    Shared(SharedApp),
    /// Make records to sort
    #[command(after_help = "Example:\n  clump app gensort 1000000 records")]
    Gensort(GensortArgs),
    /// Check that files are sorted and complete
    #[command(after_help = "Example:\n  clump app valsort sorted --input records")]
    Valsort(ValsortArgs),
}

const LIST: &str = "\
built-in applications (clump app NAME --help says more):
  sort           sort 100-byte records from disk to disk on several ranks
  gups           update random words of a table over all ranks
  histo          count random numbers in bins over all ranks
  indexgather    read random words of a table over all ranks
  sample         sort 32-bit keys by a sample of them, each key stored where it belongs
  radix          sort 32-bit keys by their digits, each key stored at its place
  radb           sort 32-bit keys by their digits, in one message for each rank
  em3d           let waves travel on an irregular graph over all ranks
  connect        find the connected components of a graph over all ranks
  fft3d          transform a cuboid of complex numbers over all ranks
  barnes         move bodies that attract each other, by an octree in global memory
  pray           trace a picture of a scene in global memory, read by way of a cache
  murphi         check all states of a model in the Murphi language over all ranks
  jacobi         relax a square grid in shared virtual memory
  matmul         multiply two matrices in shared virtual memory
  gauss          solve linear equations in shared virtual memory, with rows announced by flags
  lu             factorise a matrix in shared virtual memory
  radix-svm      sort 32-bit keys in shared virtual memory, by their digits
  fft            transform a long vector in shared virtual memory
  ocean          solve equations of currents in a basin in shared virtual memory
  water-nsq      move molecules of water in shared virtual memory
  water-spatial  move molecules of water in shared virtual memory, cube by cube
  raytrace       trace a picture in shared virtual memory, with queues that ranks steal from
  barnes-svm     move bodies that attract each other in shared virtual memory, by an octree
  volrend        render a volume in shared virtual memory, with queues that ranks steal from
  tsp            find the shortest round tour in shared virtual memory, by branch and bound
  unstructured   loop over the edges of an irregular mesh in shared virtual memory
  gensort        make records to sort
  valsort        check that files are sorted and complete
";

/// Runs an application, or lists them.
///
/// # Errors
/// Fails if the application does.
pub fn run(args: &AppArgs) -> anyhow::Result<ExitCode> {
    match &args.app {
        None => {
            clump_os::console::out(LIST)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(App::Sort { ranks, layout, args }) => sort_job::run(*ranks, layout, args),
        Some(App::Gups { ranks, args }) => ranks.job(|| gups::command::run(args)),
        Some(App::Histo { ranks, args }) => ranks.job(|| histo::command::run(args)),
        Some(App::Indexgather { ranks, args }) => ranks.job(|| indexgather::command::run(args)),
        Some(App::Sample { ranks, args }) => ranks.job(|| sample::command::run(args)),
        Some(App::Radix { ranks, args }) => ranks.job(|| radix::command::run(args)),
        Some(App::Radb { ranks, args }) => ranks.job(|| radix::command::run_in_bulk(args)),
        Some(App::Em3d { ranks, args }) => ranks.job(|| em3d::command::run(args)),
        Some(App::Connect { ranks, args }) => ranks.job(|| connect::command::run(args)),
        Some(App::Fft3d { ranks, args }) => ranks.job(|| fft3d::command::run(args)),
        Some(App::Barnes { ranks, args }) => ranks.job(|| barnes::command::run(args)),
        Some(App::Pray { ranks, args }) => ranks.job(|| pray::command::run(args)),
        Some(App::Murphi { ranks, args }) => match murphi::command::prepare(args) {
            Ok(model) => ranks.job(|| murphi::command::run(args, model)),
            Err(code) => Ok(code),
        },
        Some(App::Shared(app)) => app.run(),
        Some(App::Gensort(args)) => as_rank(gensort::run(args).map(|()| ExitCode::SUCCESS)),
        Some(App::Valsort(args)) => as_rank(valsort::run(args)),
    }
}

/// Ends a failed application without ranks as one with ranks: it failed, not clump.
fn as_rank(ended: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    ended.or_else(|error| {
        console::err(&format!("clump: {}", printable_lines(&format!("{error:#}"))));
        Ok(ExitCode::FAILURE)
    })
}
