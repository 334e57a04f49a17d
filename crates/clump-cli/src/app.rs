//! `clump app`: the built-in applications.

use crate::job::in_job;
use crate::layout::{self, Layout, WrongCommand};
use clap::{Args, Subcommand};
use clump_gups::command::GupsArgs;
use clump_histo::command::HistoArgs;
use clump_indexgather::command::IndexgatherArgs;
use clump_os::console;
use clump_os::printable::printable_lines;
use clump_sort::command::SortArgs;
use clump_sort::gensort::{self, GensortArgs};
use clump_sort::output::NewFolders;
use clump_sort::valsort::{self, ValsortArgs};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Options of `clump app`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    clump app gensort 1000000 records          make 100 MB of records\n  \
    clump app sort -n 4 -i records -o sorted   sort them on four ranks\n  \
    clump app gensort 1000000 - | clump app sort -n 4 -i - -o sorted       the same through a pipe\n  \
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
    #[command(after_help = "Example:\n  clump app sort -n 4 -i records -o sorted --memory 256M")]
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
    /// Make records to sort
    #[command(after_help = "Example:\n  clump app gensort 1000000 records")]
    Gensort(GensortArgs),
    /// Check that files are sorted and complete
    #[command(after_help = "Example:\n  clump app valsort sorted --input records")]
    Valsort(ValsortArgs),
}

/// Ranks of an application, and their layout.
#[derive(Debug, Args)]
struct Ranks {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value = "2",
          value_parser = layout::ranks())]
    ranks: u32,
    #[command(flatten)]
    layout: Layout,
}

const LIST: &str = "\
built-in applications (clump app NAME --help says more):
  sort         sort 100-byte records from disk to disk on several ranks
  gups         update random words of a table over all ranks
  histo        count random numbers in bins over all ranks
  indexgather  read random words of a table over all ranks
  gensort      make records to sort
  valsort      check that files are sorted and complete
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
        Some(App::Sort { ranks, layout, args }) => {
            let starts_ranks = !clump_boot::boot::started_as_rank();
            if starts_ranks && args.reads_standard_input() && std::io::stdin().is_terminal() {
                return Err(WrongCommand::new(
                    "standard input is a terminal: pipe records into the sort, or name files",
                )
                .into());
            }
            let made = starts_ranks.then(|| NewFolders::of(args.folders()));
            let ended = in_job(*ranks, *layout, || clump_sort::command::run(args));
            if let Some(made) = made {
                made.remove_empty();
            }
            ended
        }
        Some(App::Gups { ranks, args }) => {
            in_job(ranks.ranks, ranks.layout, || clump_gups::command::run(args))
        }
        Some(App::Histo { ranks, args }) => {
            in_job(ranks.ranks, ranks.layout, || clump_histo::command::run(args))
        }
        Some(App::Indexgather { ranks, args }) => {
            in_job(ranks.ranks, ranks.layout, || clump_indexgather::command::run(args))
        }
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
