//! The steps of `ci`, in the order in which they run: the quick ones that fail most often first.

use super::step::{BUILD, RUN, Site, Step, StepOutcome, files, outcome, plain};
use super::tier::{ALL, FROM_MERGE, Tier};
use super::{aarch64, apps, c, matrix, net, night, oracles, packages, printed, python, site};
use crate::command::{self, cargo};
use crate::{icount, tidy};
use anyhow::{Context, Result};

/// Steps of the night only.
const NIGHT: &[Tier] = &[Tier::Night];

/// Every step. clippy and tests build in one target folder, so dependencies are built once each.
pub const STEPS: &[Step] = &[
    Step { name: "format", what: "rustfmt has nothing to change", tiers: ALL, run: format },
    Step { name: "tidy", what: "house rules hold", tiers: ALL, run: house_rules },
    Step { name: "check", what: "every target compiles", tiers: &[Tier::Edit], run: check },
    Step {
        name: "units",
        what: "the tests of the crates that are pure, and of these tasks, pass",
        tiers: &[Tier::Edit],
        run: units,
    },
    Step { name: "clippy", what: "no lint fires in any target", tiers: FROM_MERGE, run: clippy },
    Step {
        name: "aarch64",
        what: "no lint fires in any program for ARM",
        tiers: NIGHT,
        run: aarch64::lints,
    },
    Step { name: "tests", what: "README's test command passes", tiers: FROM_MERGE, run: tests },
    Step {
        name: "elsewhere",
        what: "ranks on other machines start and end as documented, by ssh, Slurm and engines",
        tiers: FROM_MERGE,
        run: elsewhere,
    },
    Step {
        name: "c",
        what: "programs in C, C++ and for Active Messages II do as documented",
        tiers: FROM_MERGE,
        run: c_programs,
    },
    Step {
        name: "python",
        what: "the wheel is built and installed, and its suite passes",
        tiers: FROM_MERGE,
        run: python::package,
    },
    Step {
        name: "memory",
        what: "sanitizers and valgrind find nothing in any C program",
        tiers: NIGHT,
        run: memory,
    },
    Step {
        name: "loom",
        what: "queues and parking are right in every interleaving",
        tiers: NIGHT,
        run: loom,
    },
    Step {
        name: "demo",
        what: "README's first command works from start to end",
        tiers: FROM_MERGE,
        run: demo,
    },
    Step {
        name: "install",
        what: "C programs find the installed library in every way",
        tiers: NIGHT,
        run: c::installed,
    },
    Step {
        name: "packages",
        what: "the tarball and the Debian package work in an empty root folder; crates are packages",
        tiers: NIGHT,
        run: packages::tried,
    },
    Step {
        name: "site",
        what: "all links of the site lead somewhere, and a browser shows it without a server",
        tiers: NIGHT,
        run: site::opened,
    },
    Step {
        name: "printed",
        what: "command lines of README and docs/ do what they say",
        tiers: NIGHT,
        run: printed::commands,
    },
    Step {
        name: "sort",
        what: "a sort in two passes under a small cap",
        tiers: FROM_MERGE,
        run: apps::sort,
    },
    Step {
        name: "nodes",
        what: "sorts over two and four nodes that lose packets are right",
        tiers: FROM_MERGE,
        run: net::sorts,
    },
    Step {
        name: "applications",
        what: "applications are right on nodes that lose packets, at night in every shape",
        tiers: FROM_MERGE,
        run: matrix::applications,
    },
    Step {
        name: "simulation",
        what: "simulated clusters keep their promises under all faults",
        tiers: FROM_MERGE,
        run: net::simulation,
    },
    Step {
        name: "oracles",
        what: "the independent checkers find planted defects",
        tiers: FROM_MERGE,
        run: oracles::own,
    },
    Step {
        name: "judge",
        what: "an independent checker agrees with sorts",
        tiers: FROM_MERGE,
        run: oracles::judge,
    },
    Step {
        name: "traces",
        what: "Perfetto's own classes read what traced jobs leave",
        tiers: FROM_MERGE,
        run: oracles::traces,
    },
    Step {
        name: "replay",
        what: "linear programs give the times that runs have when they are played again",
        tiers: FROM_MERGE,
        run: oracles::replay,
    },
    Step {
        name: "delays",
        what: "a relay that is slow by itself gives the times that knobs give",
        tiers: FROM_MERGE,
        run: oracles::delays,
    },
    Step {
        name: "mesh",
        what: "Qhull makes the same mesh of the same points",
        tiers: FROM_MERGE,
        run: oracles::mesh,
    },
    Step {
        name: "models",
        what: "an independent explorer counts the same states of models",
        tiers: FROM_MERGE,
        run: oracles::models,
    },
    Step {
        name: "rumur",
        what: "rumur counts the same states of built-in and random models",
        tiers: NIGHT,
        run: oracles::rumur,
    },
    Step {
        name: "pictures",
        what: "an independent tracer draws the same pictures of scenes",
        tiers: FROM_MERGE,
        run: oracles::pictures,
    },
    Step {
        name: "logp",
        what: "clump lab logp measures, and says so in JSON",
        tiers: FROM_MERGE,
        run: apps::logp,
    },
    Step {
        name: "logp-net",
        what: "the same between two nodes, also while packets are late",
        tiers: FROM_MERGE,
        run: net::logp,
    },
    Step {
        name: "icount",
        what: "hot paths cost the instructions they did",
        tiers: FROM_MERGE,
        run: instructions,
    },
    Step {
        name: "verify",
        what: "each knob moves its own parameter and no other, alone and in pairs",
        tiers: NIGHT,
        run: apps::verify,
    },
    Step {
        name: "storms",
        what: "jobs, and locks, with ranks that are killed at random end as they should",
        tiers: NIGHT,
        run: night::storms,
    },
    Step {
        name: "aarch64-tests",
        what: "pure packages and queues in shared memory are right on ARM, under QEMU",
        tiers: NIGHT,
        run: aarch64::tests,
    },
    Step {
        name: "tsan",
        what: "no data race in the queues under ThreadSanitizer",
        tiers: NIGHT,
        run: night::sanitizer,
    },
    Step {
        name: "repeats",
        what: "jobs of threads end as they should a hundred times beside load",
        tiers: NIGHT,
        run: night::repeats,
    },
    Step {
        name: "agents",
        what: "two hundred agents on processors that compute give none of them up",
        tiers: NIGHT,
        run: night::many_agents,
    },
    Step {
        name: "walk",
        what: "a message passes as many functions as ARCHITECTURE.md says",
        tiers: NIGHT,
        run: night::walked,
    },
    Step {
        name: "mutants",
        what: "every planted bug is found by a test",
        tiers: NIGHT,
        run: night::planted,
    },
    Step { name: "remains", what: "no step left a file behind", tiers: ALL, run: remains },
];

fn format(site: &Site) -> Result<StepOutcome> {
    let args = ["fmt", "--all", "--check"];
    Ok(outcome(command::run(&mut cargo(&site.root, &args), RUN)?))
}

fn house_rules(site: &Site) -> Result<StepOutcome> {
    Ok(plain(tidy::run(&site.root, tidy::Ratchet::Compare)?, "see the findings above"))
}

fn check(site: &Site) -> Result<StepOutcome> {
    let args = ["check", "--workspace", "--all-targets"];
    Ok(outcome(command::run(&mut cargo(&site.root, &args), BUILD)?))
}

/// Tests the pure crates, which need no job, no network and hardly any time.
fn units(site: &Site) -> Result<StepOutcome> {
    let mut args = vec!["test", "--lib", "--bins"];
    for package in ["clump-wire", "clump-loggp", "clump-proto", "clump-control", "xtask"] {
        args.extend(["--package", package]);
    }
    Ok(outcome(command::run(&mut site.tests(&args)?, BUILD)?))
}

fn clippy(site: &Site) -> Result<StepOutcome> {
    let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    Ok(outcome(command::run(&mut cargo(&site.root, &args), BUILD)?))
}

fn tests(site: &Site) -> Result<StepOutcome> {
    // At night jobs are attacked for a quarter of an hour, too.
    Ok(outcome(command::run(&mut site.tests(&["test", "--workspace"])?, BUILD * 2)?))
}

/// Runs what needs other machines, or what starts ranks there.
fn elsewhere(site: &Site) -> Result<StepOutcome> {
    process_tests(site, "elsewhere")
}

/// Runs the C interface by whole programs, most of whose time is that of compilers.
fn c_programs(site: &Site) -> Result<StepOutcome> {
    process_tests(site, "c")
}

/// Runs C programs under checkers of memory, which the step before does for two small ones only.
fn memory(site: &Site) -> Result<StepOutcome> {
    process_tests(site, "memory")
}

/// Runs tests of whole jobs that `cargo test` does not.
fn process_tests(site: &Site, test: &str) -> Result<StepOutcome> {
    let args = ["test", "--package", "clump-process-tests", "--test", test];
    Ok(outcome(command::run(&mut site.tests(&args)?, BUILD)?))
}

fn loom(site: &Site) -> Result<StepOutcome> {
    if files(&site.root.join("crates/clump-shm/tests"), "loom_", ".rs").is_empty() {
        return Ok(StepOutcome::Skipped("crates/clump-shm/tests holds no loom_*.rs".into()));
    }
    let args = ["test", "--package", "clump-shm", "--release", "--test", "loom"];
    let mut command = cargo(&site.root, &args);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", site.target.join("loom"));
    Ok(outcome(command::run(&mut command, BUILD)?))
}

fn demo(site: &Site) -> Result<StepOutcome> {
    let mut command = cargo(&site.root, &["run", "--release", "--", "demo"]);
    command.env("TMPDIR", site.scratch()?);
    Ok(outcome(command::run(&mut command, BUILD)?))
}

fn instructions(site: &Site) -> Result<StepOutcome> {
    if let Some(reason) = icount::missing(&site.root) {
        return Ok(StepOutcome::Skipped(reason));
    }
    let good = icount::run(&site.root, icount::Mode::Compare)?;
    // The table is of interest all the same, but another compiler may give other numbers.
    match icount::incomparable(&site.root)? {
        Some(reason) => Ok(StepOutcome::Skipped(reason)),
        None => Ok(plain(good, "see the table above")),
    }
}

/// Checks that the folder for all temporary files is empty.
fn remains(site: &Site) -> Result<StepOutcome> {
    let scratch = site.scratch()?;
    let left: Vec<String> =
        files(&scratch, "", "").iter().map(|path| path.display().to_string()).collect();
    std::fs::remove_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    Ok(plain(left.is_empty(), &format!("left behind: {}", left.join(", "))))
}
