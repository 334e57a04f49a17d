//! `clump lab calibrate`: options, jobs, the machine's file.

use crate::bare;
use crate::calibrate::{NOTHING, PathCalibration, PathFigures, disagreements, refusal, report};
use crate::compare::process;
use crate::launch::{self, JobShape};
use crate::pair::Scope;
use crate::pair::meeting::{PairRole, meet};
use crate::progress::JobProgress;
use crate::schema::Machine;
use anyhow::{Context, Result};
use clump_boot::Config;
use clump_boot::machine::{FORMAT, MachineFile, PathPrecision, day_of};
use clump_os::procfs::ProcessorTimes;
use clump_os::topology::usable_cores;
use clump_os::{clock, console};
use clump_trace::line_state::LineWatch;
use clump_wire::Security;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Variable that turns the knobs.
const VARIABLE: &str = "CLUMP_EMU";
/// Option by which a waiting rank polls for longer than any waits before it sleeps: to wake the
/// other side would be part of a lone send.
const ALWAYS_POLL: [&str; 2] = ["--lab", "spin=1s"];
/// Time for which processors are watched before a calibration.
const LOOK: Duration = Duration::from_millis(300);
/// Rounds of the least that a message must do.
const LINE_ROUNDS: u32 = 1000;

/// Options of `clump lab calibrate`.
#[derive(Debug, Clone, clap::Args)]
pub struct CalibrateArgs {
    /// Path to calibrate [default: both]
    #[arg(long, value_enum)]
    pub scope: Option<Scope>,
    /// Protection of packets between nodes: aead or crc
    #[arg(long, default_value = "aead")]
    pub security: Security,
    /// The file that the parameters are saved in [default: the value of CLUMP_LAB_MACHINE, else
    /// clump/machine.json in the user's state folder]
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Save the parameters also where other programs kept processors busy, or where two halves of
    /// the measurement do not agree
    #[arg(long)]
    pub force: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Ranks measure, and rank 0 prints the figures.
    #[arg(long, hide = true)]
    pub measure: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run, or if the file cannot be written.
pub fn run(args: &CalibrateArgs) -> Result<u8> {
    if args.measure {
        return run_rank(args);
    }
    let config = Config::load()?;
    let path = args.save.clone().or_else(|| config.machine_file());
    let path = path.context("there is no folder for the machine's file; name one by --save")?;
    let watch = LineWatch::begin();
    let (paths, refused) = save(&path, (args.security, args.scope), args.force)?;
    let saved = refused.clone().unwrap_or_else(|| format!("saved in {}", path.display()));
    crate::render::show(&report(&paths, &saved)?.watched(watch), args.json)?;
    Ok(u8::from(refused.is_some()))
}

/// Paths by their names, and why they were not saved.
type Calibrated = (Vec<(String, PathCalibration)>, Option<String>);

/// Calibrates one path or both, and saves their parameters, unless the machine does other work or
/// the measurement contradicts itself; `force`: also then.
///
/// # Errors
/// Fails if a job cannot be run, or if the file cannot be written.
pub fn save(
    path: &Path,
    (security, scope): (Security, Option<Scope>),
    force: bool,
) -> Result<Calibrated> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("creating {}", folder.display()))?;
    }
    let named = || format!("the machine file {} cannot be written", path.display());
    clump_os::file::check_writable(path).with_context(named)?;
    let mut file = MachineFile::read(path).unwrap_or_default();
    let (mut paths, mut differences) = (Vec::new(), Vec::new());
    let scopes = scopes(scope);
    let mut progress = JobProgress::new("calibrate", 3 * scopes.len());
    let load = LoadWatch::begin(busy_processors);
    let mut how = file.calibration.take().unwrap_or_default();
    how.date = day_of(clock::real_ns() / 1_000_000_000);
    for scope in scopes {
        let name = name(scope, security);
        progress.next(&format!("{name}, delayed by nothing"));
        let first = measured(scope, security, NOTHING)?;
        progress.next(&format!("{name}, as it is"));
        let bare = figures(scope, security, "")?;
        progress.next(&format!("{name}, delayed by nothing, again"));
        let second = figures(scope, security, NOTHING)?;
        let of = |difference: String| format!("{name}: {difference}");
        differences.extend(disagreements([&first.figures, &second]).into_iter().map(of));
        let delayed = first.figures.joined(&second);
        let precision = PathPrecision { line_ns: first.line_ns, intervals: delayed.intervals() };
        match scope {
            Scope::Shm => (file.shm, how.shm) = (delayed.base(), Some(precision)),
            Scope::Net => (file.net, how.net) = (delayed.base(), Some(precision)),
        }
        paths.push((name, PathCalibration { bare, delayed }));
    }
    how.load = load.end();
    let refused = refusal(how.load, &differences).filter(|_| !force);
    if refused.is_none() {
        (file.format, file.processor) = (FORMAT, Machine::this().processor);
        file.calibration = Some(how);
        file.write(path)?;
    }
    Ok((paths, refused))
}

/// Most processors that other programs were seen to keep busy, before a calibration and after it.
#[derive(Debug)]
struct LoadWatch<L> {
    look: L,
    before: f64,
}

impl<L: FnMut() -> f64> LoadWatch<L> {
    fn begin(mut look: L) -> Self {
        let before = look();
        Self { look, before }
    }

    fn end(mut self) -> f64 {
        self.before.max((self.look)())
    }
}

/// Returns how many processors other programs keep busy now.
fn busy_processors() -> f64 {
    let before = ProcessorTimes::read();
    clock::pass(LOOK);
    let after = ProcessorTimes::read();
    after.zip(before).map_or(0.0, |(after, before)| after.busy_since(&before))
}

/// Returns the paths that an option chooses.
pub fn scopes(chosen: Option<Scope>) -> Vec<Scope> {
    chosen.map_or(vec![Scope::Shm, Scope::Net], |one| vec![one])
}

/// Returns the name of a path in tables.
pub fn name(scope: Scope, security: Security) -> String {
    match scope {
        Scope::Shm => "shm".into(),
        Scope::Net => format!("net, {}", security.name()),
    }
}

/// Parameters of a path, and the round trip of the least that a message must do, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct MeasuredPath {
    figures: PathFigures,
    line_ns: f64,
}

/// Measures a path in a job of its own, with the knobs of `text`.
///
/// # Errors
/// Fails if the job cannot be run, or prints something else.
pub fn figures(scope: Scope, security: Security, text: &str) -> Result<PathFigures> {
    Ok(measured(scope, security, text)?.figures)
}

fn measured(scope: Scope, security: Security, text: &str) -> Result<MeasuredPath> {
    let nodes = if scope == Scope::Shm { 1 } else { 2 };
    let shape = JobShape { ranks: 2, nodes, security, netns: false };
    let options = if shape.ranks <= usable_cores() { &ALWAYS_POLL[..] } else { &[] };
    let mut command = launch::job_with(shape, 0, options)?;
    let scope = if scope == Scope::Shm { "shm" } else { "net" };
    command.args(["lab", "calibrate", "--measure", "--scope", scope]);
    command.args(["--security", security.name()]).env(VARIABLE, text);
    let what = || format!("a job that measures {scope} with `{text}`");
    let printed = process::run(&mut command).with_context(what)?;
    serde_json::from_str(&printed).with_context(what)
}

fn run_rank(args: &CalibrateArgs) -> Result<u8> {
    let scope = args.scope.context("a job measures one path (--scope)")?;
    let cl = clump::init()?;
    match &mut meet(&cl, scope, args.security)? {
        PairRole::Issuer(issuer) => {
            let line_ns = bare::round_trip(&mut **issuer, LINE_ROUNDS)?;
            let figures = PathFigures::measure(&mut **issuer)?;
            issuer.finish()?;
            let measured = MeasuredPath { figures, line_ns };
            console::out(&format!("{}\n", serde_json::to_string(&measured)?))?;
        }
        PairRole::Server(server) => server.serve()?,
        PairRole::Onlooker => {}
    }
    cl.barrier()?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, tests::parse};

    #[test]
    fn ranks_know_the_command_line_that_starts_them() {
        let words = ["lab", "calibrate", "--measure", "--scope", "net", "--security", "crc"];
        let Command::Calibrate(args) = parse(&words) else { panic!("another command") };
        assert!(args.measure && args.scope == Some(Scope::Net) && args.security == Security::Crc);
    }

    #[test]
    fn load_that_comes_while_a_calibration_runs_is_seen() {
        let load = |looks: [f64; 2]| {
            let mut looks = looks.into_iter();
            LoadWatch::begin(|| looks.next().unwrap()).end()
        };
        assert_eq!([load([0.0, 0.7]), load([0.7, 0.0]), load([0.1, 0.1])], [0.7, 0.7, 0.1]);
        assert!(refusal(load([0.0, 0.7]), &[]).unwrap().contains("0.7 processors busy"));
    }

    /// The name is a key of the one table of settings; another name would be ignored silently.
    #[test]
    fn the_setting_exists() {
        assert!(clump_boot::config::TEXT_KEYS.iter().any(|key| key.variable == VARIABLE));
        assert!(clump_boot::Lab::default().read("--lab", ALWAYS_POLL[1]).is_ok());
    }
}
