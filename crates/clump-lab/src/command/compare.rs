//! `clump lab compare`: options, and the turns.

use crate::change;
use crate::compare::peer::Peer;
use crate::compare::table::ComparisonTable;
use crate::compare::{self, Venue, implementation};
use crate::pair::Scope;
use crate::progress::JobProgress;
use crate::schema::InstrumentReport;
use crate::study::input::MAX_BYTES;
use anyhow::{Context, Result};
use clump_os::{console, text_file};
use clump_trace::line_state;
use clump_wire::Security;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `clump lab compare`.
#[derive(Debug, Clone, clap::Args)]
pub struct CompareArgs {
    /// Two results of one instrument (its --json), instead of peers: which figures became worse
    #[arg(value_name = "FILE", num_args = 2)]
    pub files: Vec<PathBuf>,
    /// Change of a figure that is none, in percent; exit code 1 where more than that is worse
    #[arg(long, value_name = "PERCENT", default_value = "5", requires = "files")]
    pub tolerance: f64,
    /// Through shared memory, or between two nodes over TCP and UDP
    #[arg(long, value_enum, default_value = "shm")]
    pub scope: Scope,
    /// Protection of clump's packets between nodes (aead or crc); peers have none
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// Put each node into a network namespace of its own, joined by veth, instead of using loopback
    #[arg(long)]
    pub netns: bool,
    /// Turns of every implementation; figures are medians over them.
    #[arg(long, default_value = "5", value_parser = crate::positive::positive())]
    pub rounds: usize,
    /// A file that each turn is written to as it ends, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// One JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// A Markdown table instead of text, as in BENCHMARKS.md.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Set in the ranks that the comparison starts.
    #[arg(long, hide = true)]
    pub as_rank: bool,
    /// The peer whose programs the ranks run.
    #[arg(long, hide = true, value_enum, requires = "peer_program")]
    pub peer: Option<Peer>,
    /// Its program.
    #[arg(long, hide = true)]
    pub peer_program: Option<PathBuf>,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a rank or a peer cannot be run, or if the results cannot be written.
pub fn run(args: &CompareArgs) -> Result<u8> {
    if args.as_rank {
        match (args.peer, &args.peer_program) {
            (Some(peer), Some(program)) => compare::peer_main(peer, program, &args.venue())?,
            _ => compare::rank_main(&args.venue())?,
        }
        return Ok(0);
    }
    if let [before, after] = &args.files[..] {
        return compare_files(before, after, args);
    }
    crate::scratch_run::in_scratch("compare", |folder| measure(args, folder))
}

fn compare_files(before: &Path, after: &Path, args: &CompareArgs) -> Result<u8> {
    let read = |file: &Path| -> Result<InstrumentReport> {
        let text = text_file::read(file, MAX_BYTES)?;
        serde_json::from_str(&text).context("it is no result of an instrument (--json)")
    };
    let of = |file: &Path| read(file).with_context(|| format!("the file {}", file.display()));
    let (report, worse) = change::compare(&of(before)?, &of(after)?, args.tolerance)?;
    crate::render::show(&report, args.json)?;
    Ok(u8::from(worse > 0))
}

fn measure(args: &CompareArgs, folder: &Path) -> Result<()> {
    let field = args.venue();
    let (implementations, missing) = implementation::gather(&field, folder);
    for peer in &missing {
        console::err(&format!("left out: {}: {}", peer.name, peer.remedy));
    }
    let names: Vec<String> =
        implementations.iter().map(|one| one.name(field.scope).to_owned()).collect();
    let mut journal = args.journal.as_deref().map(open_journal).transpose()?;
    let mut progress = JobProgress::new("compare", names.len() * args.rounds);
    let mut turns = 0;
    let played = compare::play(
        &names,
        args.rounds,
        |at| implementations[at].play(&field).with_context(|| format!("running {}", names[at])),
        line_state::round_trip_ns,
        |what, turn| {
            let Some(turn) = turn else {
                turns += 1;
                // Rounds may be played again.
                progress.update(turns, turns.max(names.len() * args.rounds), what);
                return Ok(());
            };
            if let Some(why) = turn.failure {
                let text = format!("{what} failed, and the others go on: {why}");
                progress.note(&text);
            }
            let line = serde_json::to_string(&turn)?;
            journal.as_mut().map_or(Ok(()), |file| Ok(writeln!(file, "{line}")?))
        },
    )?;
    drop(progress);
    let table = ComparisonTable::of(&played);
    if args.markdown {
        return Ok(console::out(&table.markdown(&missing, &played))?);
    }
    crate::render::show(&table.report(&field, &missing, &played)?, args.json)
}

fn open_journal(path: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(path);
    file.with_context(|| format!("the journal {}", path.display()))
}

impl CompareArgs {
    fn venue(&self) -> Venue {
        Venue { scope: self.scope, security: self.security, netns: self.netns }
    }
}
