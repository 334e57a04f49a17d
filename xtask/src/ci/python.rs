//! The Python package: its wheel is built, installed into an environment of its own, and tested
//! there.

use super::step::{BUILD, RUN, Site, StepOutcome, outcome, plain};
use super::tier::Tier;
use crate::command::{self, Counts, Ended, cargo};
use crate::host;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Trials beside the suite, at night: the folder's name, and the script, which gets the tree, the
/// target folder, that folder, Python and the wheel. The last one uses what the second one leaves.
const ELSEWHERE: [(&str, &str); 3] = [
    ("python-elsewhere", include_str!("python.sh")),
    ("python-wheels", include_str!("wheels.sh")),
    ("python-roots", include_str!("pythons.sh")),
];
/// Packages that the build and the suite need.
const NEEDED: [&str; 5] = ["maturin>=1.9.4,<2", "numpy", "pytest", "hypothesis", "mypy"];

/// Packages for tests that are skipped without them, installed at night: MPI beside clump,
/// Jupyter, other installers, what links for older C libraries.
const FOR_NIGHTS: [&str; 8] =
    ["mpi4py", "mpich", "nbclient", "ipykernel", "uv", "pipx", "ziglang", "cargo-zigbuild"];

/// Lints, builds, installs and tests the package.
///
/// # Errors
/// Fails if a program cannot be started.
pub fn package(site: &Site) -> Result<StepOutcome> {
    let python = match environment(site)? {
        Ok(python) => python,
        Err(reason) => return Ok(StepOutcome::Skipped(reason)),
    };
    let sources = site.root.join("python");
    let target = site.target.join("python");
    let format = cargo(&sources, &["fmt", "--check"]);
    let mut clippy = cargo(&sources, &["clippy", "--all-targets", "--", "-D", "warnings"]);
    clippy.env("CARGO_TARGET_DIR", &target);
    for mut check in [format, clippy] {
        let ended = command::run(&mut check, BUILD)?;
        if !ended.success {
            return Ok(outcome(ended));
        }
    }
    let wheels = target.join("wheels-of-ci");
    // A wheel of another version would be installed beside.
    let _ = std::fs::remove_dir_all(&wheels);
    let path = search_path(&python)?;
    let mut build = Command::new(&python);
    build.args(["-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir"]);
    build.arg("--quiet").arg("--wheel-dir").arg(&wheels).arg(&sources);
    build.env("PATH", &path).env("CLUMP_PYTHON_PROFILE", "dev");
    build.env("CARGO_TARGET_DIR", &site.target).env("TMPDIR", site.scratch()?);
    let built = command::run(&mut build, BUILD)?;
    if !built.success {
        return Ok(outcome(built));
    }
    let Some(wheel) = super::step::files(&wheels, "clump_runtime-", ".whl").pop() else {
        return Ok(plain(false, "pip has left no wheel"));
    };
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]);
    let installed = command::run(install.arg(&wheel), RUN)?;
    if !installed.success {
        return Ok(outcome(installed));
    }
    let ended = suite(site, &python, &path, &wheel)?;
    if !ended.success || site.tier != Tier::Night {
        return Ok(outcome(ended));
    }
    Ok(match elsewhere(site, &python, &path, &wheel)? {
        Some(why) => StepOutcome::Failed(why, ended.counts),
        None => outcome(ended),
    })
}

/// Executes [`ELSEWHERE`]: wheels of other kinds, and other Pythons; returns what went wrong, if
/// anything.
fn elsewhere(
    site: &Site,
    python: &Path,
    path: &std::ffi::OsStr,
    wheel: &Path,
) -> Result<Option<String>> {
    let scratch = site.scratch()?;
    let mut failed = None;
    for (name, script) in ELSEWHERE {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script, "sh"]).args([&site.root, &site.target, &scratch.join(name)]);
        shell.args([python, wheel]).env("PATH", path).env("CLUMP_PYTHON_PROFILE", "dev");
        let ended = command::run(&mut shell, BUILD)?;
        if !ended.success {
            failed = Some(format!("{name}: {}", ended.why));
            break;
        }
    }
    for (name, _) in ELSEWHERE {
        let _ = std::fs::remove_dir_all(scratch.join(name));
    }
    Ok(failed)
}

/// Runs the suite; its counts are those of its last line.
fn suite(site: &Site, python: &Path, path: &std::ffi::OsStr, wheel: &Path) -> Result<Ended> {
    let folder = site.target.join("python/tests-of-ci");
    let mut suite = Command::new(python);
    suite.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp"]);
    suite.arg(&folder).arg("tests").current_dir(site.root.join("python"));
    suite.env("PATH", path).env(command::TEST_TIER, site.tier.name());
    suite.env("CLUMP_TEST_WHEEL", wheel);
    if site.tier == Tier::Night {
        let machines =
            ["build", "--quiet", "--package", "clump-process-tests", "--bin", "machines"];
        let built = command::run(&mut cargo(&site.root, &machines), BUILD)?;
        if !built.success {
            return Ok(built);
        }
        suite.env("CLUMP_TEST_MACHINES", site.target.join("debug/machines"));
    }
    let mut ended = command::run(&mut suite, RUN * 3)?;
    ended.counts = pytest_counts(&ended.stdout);
    let _ = std::fs::remove_dir_all(folder);
    Ok(ended)
}

/// Returns the Python of the environment, with all that is needed, or the reason why there is none.
fn environment(site: &Site) -> Result<std::result::Result<PathBuf, String>> {
    let Some(system) = host::program("python3") else {
        return Ok(
            Err("there is no python3 (Debian: apt-get install python3 python3-venv)".into()),
        );
    };
    let quiet = |program: &Path, args: &[&str], limit| {
        command::run_quiet(Command::new(program).args(args).current_dir(&site.root), limit)
    };
    let is_new = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"];
    if !quiet(&system, &is_new, RUN)?.success {
        return Ok(Err(
            "python3 is older than 3.10, the first version that the wheel is for".into()
        ));
    }
    let venv = site.target.join("python-venv");
    let own = venv.join("bin/python");
    let folder = venv.to_string_lossy();
    if !own.is_file() && !quiet(&system, &["-m", "venv", "--clear", &folder], RUN)?.success {
        return Ok(Err("python3 cannot make a venv (Debian: apt-get install python3-venv)".into()));
    }
    if site.tier == Tier::Night {
        let install = ["-m", "pip", "install", "--quiet"].into_iter().chain(FOR_NIGHTS);
        if !quiet(&own, &install.collect::<Vec<_>>(), BUILD)?.success {
            println!("SKIPPED installing {}: is there a network?", FOR_NIGHTS.join(", "));
        }
    }
    let has_all = ["-c", "import maturin, mypy, numpy, pytest, hypothesis"];
    if quiet(&own, &has_all, RUN)?.success {
        return Ok(Ok(own));
    }
    let install = ["-m", "pip", "install", "--quiet"].into_iter().chain(NEEDED);
    if !quiet(&own, &install.collect::<Vec<_>>(), BUILD)?.success {
        let missing = format!("pip cannot install {}: is there a network?", NEEDED.join(", "));
        return Ok(Err(missing));
    }
    Ok(Ok(own))
}

/// Returns a search path on which the environment's programs come first.
fn search_path(python: &Path) -> Result<std::ffi::OsString> {
    let own = python.parent().context("a program is in a folder")?.to_owned();
    let path = host::env("PATH").unwrap_or_default();
    let all = std::iter::once(own).chain(std::env::split_paths(&path));
    std::env::join_paths(all).context("a folder of the search path has a colon in its name")
}

/// Parses the counts of pytest's last line: `2 failed, 112 passed, 1 skipped in 87.90s`.
fn pytest_counts(report: &str) -> Counts {
    let last = report.lines().rev().find(|line| line.contains(" in ")).unwrap_or_default();
    let number = |what: &str| {
        let (before, _) = last.split_once(what)?;
        before.rsplit([' ', ',', '=']).next()?.parse::<u64>().ok()
    };
    let failed = number(" failed").unwrap_or(0) + number(" error").unwrap_or(0);
    let (passed, ignored) = (number(" passed"), number(" skipped"));
    Counts { passed: passed.unwrap_or(0), failed, ignored: ignored.unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_own_counts_are_read() {
        let counts = |passed, failed, ignored| Counts { passed, failed, ignored };
        assert_eq!(pytest_counts("..\n2 passed in 0.1s\n"), counts(2, 0, 0));
        let bad = "FAILED x\n2 failed, 112 passed, 1 skipped, 1 error in 87.90s (0:01:27)\n";
        assert_eq!(pytest_counts(bad), counts(112, 3, 1));
        assert_eq!(pytest_counts("no such module"), Counts::default());
    }
}
