//! `cargo xtask TASK`: the project's own tasks, in Rust so that there is nothing to install.
//!
//! Sits beside the workspace and depends on none of its crates: it must still build, and report
//! what is wrong, when they do not. [`host`] is the only module that queries the machine
//! (environment, clock, paths), [`command`] the only one that starts programs.
#![forbid(unsafe_code)]

mod bench;
mod c_speed;
mod callgrind;
mod ci;
mod command;
mod dist;
mod host;
mod icount;
mod install;
mod machines;
mod mutants;
mod site;
mod source;
mod tidy;
mod tsan;
mod walk;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  ci [--tier edit|merge|night] [--list] [--only A,B] [--skip A,B]
                                          checks, with times; .ci/run calls those of a merge
  bench [--render] [--list] [--only A,B]  runs benchmarks, stores results, writes BENCHMARKS.md's tables from them
  tidy [--lower]                          house rules; --lower takes shrunk sizes into the ratchet
  icount [--update]                       instructions per operation of the hot paths, against the stored ones
  walk                                    functions that a short message passes; their counts are those of ARCHITECTURE.md
  c-speed                                 round trips from C, as ratios to those from Rust
  install --prefix DIR [--profile NAME]   libclump, headers, clump-cc, what pkg-config and CMake look for
  dist [--out DIR] [--profile NAME]       a tarball and a Debian package, into target/packages
  machines up N|down|check                machines with an sshd each on this machine, as root; check sorts on four of them
  site [--out DIR]                        documents and references as static pages, into target/site
  tsan                                    the queue stress test under ThreadSanitizer
  mutants [--fresh] [NAME...]             planted bugs that the tests must find; --fresh: also caught ones
";

fn main() -> ExitCode {
    let words = std::env::args_os().skip(1);
    let args: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    match dispatch(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one task; returns `false` when it has found and reported something wrong.
fn dispatch(args: &[String]) -> Result<bool> {
    let Some((task, rest)) = args.split_first() else {
        eprint!("{USAGE}");
        return Ok(false);
    };
    let root = host::root()?;
    match (task.as_str(), rest) {
        ("ci", options) => ci::run(&root, options),
        ("bench", options) => bench::run(&root, options),
        ("tidy", []) => tidy::run(&root, tidy::Ratchet::Compare),
        ("tidy", [flag]) if flag == "--lower" => tidy::run(&root, tidy::Ratchet::Lower),
        ("icount", []) => icount::run(&root, icount::Mode::Compare),
        ("icount", [flag]) if flag == "--update" => icount::run(&root, icount::Mode::Update),
        ("walk", []) => walk::run(&root),
        ("c-speed", []) => c_speed::run(&root),
        ("install", options) => install::run(&root, options),
        ("dist", options) => dist::run(&root, options),
        ("machines", words) => machines::run(&root, words),
        ("site", options) => site::run(&root, options),
        ("tsan", []) => tsan::run(&root),
        ("mutants", names) => mutants::run(&root, names),
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => bail!("unknown task `{}`\n{USAGE}", args.join(" ")),
    }
}
