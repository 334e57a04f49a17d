//! `clump lab calibrate`: options, jobs, the machine's file.

use crate::calibrate::{NOTHING, PathCalibration, PathFigures, report};
use crate::compare::process;
use crate::launch::{self, JobShape};
use crate::pair::Scope;
use crate::pair::meeting::{PairRole, meet};
use crate::progress::JobProgress;
use crate::schema::Machine;
use anyhow::{Context, Result};
use clump_boot::Config;
use clump_boot::machine::{FORMAT, MachineFile};
use clump_os::console;
use clump_os::topology::usable_cores;
use clump_wire::Security;
use std::path::{Path, PathBuf};

/// Variable that turns the knobs.
const VARIABLE: &str = "CLUMP_EMU";
/// Option by which a waiting rank polls for longer than any waits before it sleeps: to wake the
/// other side would be part of a lone send.
const ALWAYS_POLL: [&str; 2] = ["--lab", "spin=1s"];

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
    let paths = save(&path, args.security, args.scope)?;
    let saved = format!("saved in {}", path.display());
    crate::render::show(&report(&paths, &saved)?, args.json)?;
    Ok(0)
}

/// Calibrates one path or both and saves their parameters. Returns them by the paths' names.
///
/// # Errors
/// Fails if a job cannot be run, or if the file cannot be written.
pub fn save(
    path: &Path,
    security: Security,
    scope: Option<Scope>,
) -> Result<Vec<(String, PathCalibration)>> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("creating {}", folder.display()))?;
    }
    let named = || format!("the machine file {} cannot be written", path.display());
    clump_os::file::check_writable(path).with_context(named)?;
    let mut file = MachineFile::read(path).unwrap_or_default();
    let mut paths = Vec::new();
    let scopes = scopes(scope);
    let mut progress = JobProgress::new("calibrate", 2 * scopes.len());
    for scope in scopes {
        let name = name(scope, security);
        progress.next(&format!("{name}, as it is"));
        let bare = figures(scope, security, "")?;
        progress.next(&format!("{name}, delayed by nothing"));
        let delayed = figures(scope, security, NOTHING)?;
        match scope {
            Scope::Shm => file.shm = delayed.base(),
            Scope::Net => file.net = delayed.base(),
        }
        paths.push((name, PathCalibration { bare, delayed }));
    }
    (file.format, file.processor) = (FORMAT, Machine::this().processor);
    file.write(path)?;
    Ok(paths)
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

/// Measures a path in a job of its own, with the knobs of `text`.
///
/// # Errors
/// Fails if the job cannot be run, or prints something else.
pub fn figures(scope: Scope, security: Security, text: &str) -> Result<PathFigures> {
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
            let figures = PathFigures::measure(&mut **issuer)?;
            issuer.finish()?;
            console::out(&format!("{}\n", serde_json::to_string(&figures)?))?;
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

    /// The name is a key of the one table of settings; another name would be ignored silently.
    #[test]
    fn the_setting_exists() {
        assert!(clump_boot::config::TEXT_KEYS.iter().any(|key| key.variable == VARIABLE));
        assert!(clump_boot::Lab::default().read("--lab", ALWAYS_POLL[1]).is_ok());
    }
}
