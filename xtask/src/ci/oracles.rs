//! Steps that need Python and its packages: the independent checkers' own tests, and their verdict
//! on sorts, traces and replays.

use super::apps::{self, SortRun};
use super::step::{BUILD, RUN, Site, StepOutcome, files, outcome, plain};
use super::tier::Tier;
use crate::command::{self, Counts};
use crate::host;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit code of a checker that lacks what it needs on this machine.
const MISSING: &str = "exit status: 77";

/// Runs the oracles' own tests.
///
/// # Errors
/// Fails if Python cannot be started.
pub fn own(site: &Site) -> Result<StepOutcome> {
    if files(&site.root.join("oracles"), "test_", ".py").is_empty() {
        return Ok(StepOutcome::Skipped("oracles/ holds no test_*.py".into()));
    }
    let python = match python(site, "numpy")? {
        Ok(python) => python,
        Err(reason) => return Ok(StepOutcome::Skipped(reason)),
    };
    // unittest reports on standard error, where its counts would pass unseen.
    const RUNNER: &str = "import sys, unittest\n\
        runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2)\n\
        unittest.main(module=None, argv=['oracles', 'discover', '-s', 'oracles'], testRunner=runner)";
    let mut command = Command::new(python);
    // -B: no __pycache__ in the tree, which may not be ours to write.
    let mut ended = command::run(command.args(["-B", "-c", RUNNER]).current_dir(&site.root), RUN)?;
    ended.counts = unittest_counts(&ended.stdout);
    Ok(outcome(ended))
}

/// Has the independent checker validate sorts of this build: even and skewed keys, one pass and
/// two.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn judge(site: &Site) -> Result<StepOutcome> {
    let python = match python(site, "numpy")? {
        Ok(python) => python,
        Err(reason) => return Ok(StepOutcome::Skipped(reason)),
    };
    let sorts = [
        SortRun::on_one_node("4", "4M"),
        SortRun { skew: true, nodes: "2", ..SortRun::on_one_node("3", "24M") },
        SortRun { skew: true, two_pass: false, ..SortRun::on_one_node("5", "256M") },
    ];
    for sort in sorts {
        let judged = apps::in_folder(site, "judge", |folder| {
            if let Some(why) = apps::make_and_sort(site, folder, &sort)? {
                return Ok(plain(false, &why));
            }
            let mut checker = Command::new(&python);
            checker.args(["-B", "oracles/valsort.py"]).arg(folder.join("records"));
            checker.arg("--sorted").arg(folder.join("sorted")).current_dir(&site.root);
            Ok(outcome(command::run(&mut checker, RUN)?))
        })?;
        if let StepOutcome::Failed(why, counts) = judged {
            return Ok(StepOutcome::Failed(format!("{sort:?}: {why}"), counts));
        }
    }
    Ok(plain(true, ""))
}

/// Parses the counts of Python's unittest: `Ran 5 tests in 0.1s`, then `OK (skipped=1)` or `FAILED
/// (failures=1, errors=1)`.
fn unittest_counts(report: &str) -> Counts {
    let ran = report.lines().rev().find_map(|line| line.strip_prefix("Ran "));
    let ran: u64 = ran.and_then(|n| n.split(' ').next()?.parse().ok()).unwrap_or(0);
    let last = report.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    let number = |what: &str| {
        let (_, rest) = last.split_once(what)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let failed = number("failures=").unwrap_or(0) + number("errors=").unwrap_or(0);
    let ignored = number("skipped=").unwrap_or(0);
    Counts { passed: ran.saturating_sub(failed + ignored), failed, ignored }
}

/// Has the classes that Perfetto generates from its own definitions read traces of this build.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn traces(site: &Site) -> Result<StepOutcome> {
    let python = match python(site, "perfetto")? {
        Ok(python) => python,
        Err(reason) => return Ok(StepOutcome::Skipped(reason)),
    };
    apps::in_folder(site, "traces", |folder| {
        for app in ["em3d", "sample", "gauss"] {
            let (traced, written) = (folder.join(app), folder.join(format!("{app}.perfetto")));
            let [traced, written] = [&traced, &written].map(|path| path.to_string_lossy());
            let run = ["app", app, "-n", "4", "--nodes", "2", "--json"];
            let settings = [("CLUMP_TRACE", &*traced), ("CLUMP_TRACE_EVENTS", "100000")];
            let ended = apps::clump_with(site, &run, &settings)?;
            if !ended.success {
                return Ok(plain(false, &format!("{app}, traced: {}", ended.why)));
            }
            let ended = apps::clump(site, &["lab", "trace", &traced, "--perfetto", &written])?;
            if !ended.success {
                return Ok(plain(false, &format!("traces of {app}: {}", ended.why)));
            }
            let mut checker = Command::new(&python);
            checker.args(["-B", "oracles/check_perfetto.py", &written]).current_dir(&site.root);
            let ended = command::run(&mut checker, RUN)?;
            if !ended.success {
                return Ok(plain(false, &format!("Perfetto and traces of {app}: {}", ended.why)));
            }
        }
        Ok(plain(true, ""))
    })
}

/// Has linear programs say how long random runs take on slower networks, and compares.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn replay(site: &Site) -> Result<StepOutcome> {
    let cases = if site.tier == Tier::Night { "400" } else { "40" };
    examine(site, ("clump-loggp", "replay_cases", ["1", cases]), "oracles/check_replay.py")
}

/// Has Qhull make the mesh of random points, and compares.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn mesh(site: &Site) -> Result<StepOutcome> {
    let points = if site.tier == Tier::Night { "30000" } else { "2800" };
    examine(site, ("clump-shared-apps", "mesh", [points, "1"]), "oracles/check_mesh.py")
}

/// Has an independent explorer count the states of each built-in model, and compares: on three
/// ranks and two nodes; then of random models, by byte code, interpreter and machine code.
///
/// # Errors
/// Fails if a program cannot be started, or if a report cannot be read.
pub fn models(site: &Site) -> Result<StepOutcome> {
    let Some(python) = host::program("python3") else {
        return Ok(StepOutcome::Skipped(
            "there is no python3 (Debian: apt-get install python3)".into(),
        ));
    };
    let models = files(&site.root.join("apps/global/models"), "", ".m");
    for model in &models {
        let path = model.to_string_lossy();
        let mut explorer = Command::new(&python);
        explorer.args(["-B", "oracles/murphi.py", &path]).current_dir(&site.root);
        let counted = command::run_quiet(&mut explorer, RUN)?;
        let run = ["app", "murphi", &path, "-n", "3", "--nodes", "2", "--json"];
        let ended = apps::clump(site, &run)?;
        if !counted.success || !ended.success {
            let why = if counted.success { ended.why } else { counted.why };
            return Ok(plain(false, &format!("{path}: {why}")));
        }
        let report: Value = serde_json::from_str(&ended.stdout).context("reading its report")?;
        let counts = &report["counts"];
        let found = format!("{} {}", counts["states"], counts["rules fired"]);
        if found != counted.stdout.trim() {
            let why = format!("{path}: {found}, and the explorer counts {}", counted.stdout);
            return Ok(plain(false, &why));
        }
    }
    if models.len() <= 8 {
        return Ok(plain(false, "there are fewer models"));
    }
    random_models(site, &python)
}

/// Compares the counts of random models.
fn random_models(site: &Site, python: &Path) -> Result<StepOutcome> {
    let count = if site.tier == Tier::Night { "500" } else { "20" };
    let mut maker = Command::new(python);
    maker.args(["-B", "oracles/random_models.py", count, "1"]).current_dir(&site.root);
    let made = command::run_quiet(&mut maker, RUN)?;
    if !made.success {
        return Ok(plain(false, &format!("making random models: {}", made.why)));
    }
    apps::in_folder(site, "models", |folder| {
        let cases = folder.join("cases");
        std::fs::write(&cases, &made.stdout).context("writing models")?;
        let run = ["run", "--quiet", "--package", "clump-global-apps", "--example", "check_models"];
        let mut checker = command::cargo(&site.root, &run);
        Ok(outcome(command::run(checker.arg("--").arg(&cases), BUILD)?))
    })
}

/// Has rumur count the states of models, and compares.
///
/// # Errors
/// Fails if Python cannot be started.
pub fn rumur(site: &Site) -> Result<StepOutcome> {
    let Some(python) = host::program("python3") else {
        return Ok(StepOutcome::Skipped(
            "there is no python3 (Debian: apt-get install python3)".into(),
        ));
    };
    let mut checker = Command::new(python);
    checker.args(["-B", "oracles/check_rumur.py", "500", "1"]).current_dir(&site.root);
    let ended = command::run(&mut checker, BUILD)?;
    if ended.why.contains(MISSING) {
        return Ok(StepOutcome::Skipped(ended.stdout.trim().to_owned()));
    }
    Ok(outcome(ended))
}

/// Has an independent tracer draw pictures of scenes, and compares: on three ranks and two nodes.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn pictures(site: &Site) -> Result<StepOutcome> {
    let python = match python(site, "numpy")? {
        Ok(python) => python,
        Err(reason) => return Ok(StepOutcome::Skipped(reason)),
    };
    let kinds = site.root.join("apps/global/scenes/kinds.nff");
    apps::in_folder(site, "pictures", |folder| {
        for scene in ["field", "flake", &kinds.to_string_lossy()] {
            let [text, picture] = ["scene.nff", "picture.ppm"].map(|name| folder.join(name));
            let [text, picture] = [&text, &picture].map(|path| path.to_string_lossy());
            let run = ["app", "pray", "-n", "3", "--nodes", "2", "--json", "--objects", "50"];
            let files = ["--scene", scene, "--save-scene", &*text, "--picture", &*picture];
            let run = [&run[..], &files, &["--resolution", "64x64"]].concat();
            let ended = apps::clump(site, &run)?;
            if !ended.success {
                return Ok(plain(false, &format!("{scene}: {}", ended.why)));
            }
            let mut tracer = Command::new(&python);
            tracer.args(["-B", "oracles/pray.py", &text, &picture]).current_dir(&site.root);
            let ended = command::run(&mut tracer, RUN)?;
            if !ended.success {
                return Ok(plain(false, &format!("{scene}: {} {}", ended.stdout, ended.why)));
            }
        }
        Ok(plain(true, ""))
    })
}

/// Has a relay between two namespaces be as slow as knobs let the network seem, and compares.
///
/// # Errors
/// Fails if a program cannot be started.
pub fn delays(site: &Site) -> Result<StepOutcome> {
    let Some(python) = host::program("python3") else {
        return Ok(StepOutcome::Skipped(
            "there is no python3 (Debian: apt-get install python3)".into(),
        ));
    };
    let build = ["build", "--quiet", "--package", "clump-process-tests", "--bins"];
    let built = command::run(&mut command::cargo(&site.root, &build), BUILD)?;
    if !built.success {
        return Ok(outcome(built));
    }
    let mut command = Command::new(python);
    command.args(["-B", "oracles/check_delays.py"]).current_dir(&site.root);
    command.args(["clump-under-test", "timed"].map(|name| site.target.join("debug").join(name)));
    let ended = command::run(command.env("TMPDIR", site.scratch()?), RUN)?;
    if ended.why.contains(MISSING) {
        return Ok(StepOutcome::Skipped(ended.stdout.trim().to_owned()));
    }
    Ok(outcome(ended))
}

/// Has a checker that needs scipy read what an example of a package prints.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
fn examine(
    site: &Site,
    (package, example, words): (&str, &str, [&str; 2]),
    checker: &str,
) -> Result<StepOutcome> {
    let python = match python(site, "scipy")? {
        Ok(python) => python,
        Err(reason) => return Ok(StepOutcome::Skipped(reason)),
    };
    let run = ["run", "--quiet", "--package", package, "--example", example, "--"];
    let made = command::run_quiet(command::cargo(&site.root, &run).args(words), BUILD)?;
    if !made.success {
        return Ok(outcome(made));
    }
    apps::in_folder(site, example, |folder| {
        let file = folder.join("printed");
        std::fs::write(&file, &made.stdout).with_context(|| file.display().to_string())?;
        let mut command = Command::new(&python);
        command.args(["-B", checker]).arg(&file).current_dir(&site.root);
        Ok(outcome(command::run(&mut command, RUN)?))
    })
}

/// Returns a Python that has a package, or the reason why there is none: the one on the path, else
/// an environment of our own.
fn python(site: &Site, package: &str) -> Result<std::result::Result<PathBuf, String>> {
    let Some(system) = host::program("python3") else {
        return Ok(
            Err("there is no python3 (Debian: apt-get install python3 python3-venv)".into()),
        );
    };
    let quiet = |program: &Path, args: &[&str], limit| {
        command::run_quiet(Command::new(program).args(args).current_dir(&site.root), limit)
    };
    let import = format!("import {package}");
    let has_package = ["-c", &import];
    if quiet(&system, &has_package, RUN)?.success {
        return Ok(Ok(system));
    }
    let venv = site.target.join("oracles-venv");
    let own = venv.join("bin/python");
    if own.is_file() && quiet(&own, &has_package, RUN)?.success {
        return Ok(Ok(own));
    }
    let folder = venv.to_string_lossy();
    if !own.is_file() && !quiet(&system, &["-m", "venv", "--clear", &folder], RUN)?.success {
        return Ok(Err("python3 cannot make a venv (Debian: apt-get install python3-venv)".into()));
    }
    if !quiet(&own, &["-m", "pip", "install", "--quiet", package], BUILD)?.success {
        let missing = format!("pip cannot install {package}: no network, and it is not here");
        return Ok(Err(missing));
    }
    Ok(Ok(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracles_own_counts_are_read() {
        let counts = |passed, failed, ignored| Counts { passed, failed, ignored };
        let good = "test_a ... ok\n\nRan 3 tests in 0.1s\n\nOK\n";
        assert_eq!(unittest_counts(good), counts(3, 0, 0));
        let bad = "Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n";
        assert_eq!(unittest_counts(bad), counts(5, 3, 1));
        assert_eq!(unittest_counts("no such module"), Counts::default());
    }
}
