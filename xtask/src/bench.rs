//! `cargo xtask bench`: runs the instruments of the laboratory, stores what they measured, and
//! writes the tables of pages ([`PAGES`]) from what is stored.
//!
//! `docs/benchmarks/results/*.json` has the tables. A row begins with what people recorded; runs
//! by this command replace its figures. Text around the tables is written by hand.

mod applications;
mod beside_threads;
mod distance;
mod instrument;
mod laboratory;
mod page;
pub mod results;
mod shared_memory;
#[cfg(test)]
mod tests;

use crate::command::{self, cargo};
use crate::host;
use anyhow::{Context, Result, bail};
use instrument::Instrument;
use laboratory::LABORATORY;
use results::{ResultTable, Run};
use serde_json::Value;
use shared_memory::SHARED_MEMORY;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Pages with tables.
const PAGES: [&str; 2] = ["BENCHMARKS.md", "docs/benchmarks/shared-memory.md"];
/// Longest time of one instrument.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs the command.
///
/// # Errors
/// Fails if an instrument does, or if a file cannot be read or written.
pub fn run(root: &Path, options: &[String]) -> Result<bool> {
    let mut words: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut turns = 1;
    if let Some(at) = words.iter().position(|word| *word == "--runs") {
        let number = words.get(at + 1).and_then(|word| word.parse().ok());
        turns = number.context("--runs takes a number")?;
        words.drain(at..at + 2);
    }
    let wanted: Vec<Instrument> = match words[..] {
        ["--render"] => Vec::new(),
        ["--list"] => {
            for instrument in all() {
                let settings = instrument.settings.iter();
                let settings: String =
                    settings.map(|(key, value)| format!("{key}={value} ")).collect();
                let is_other = instrument.parmacs().is_some() || distance::is_soak(&instrument);
                let program = if is_other { "" } else { "clump " };
                let words = instrument.words.join(" ");
                println!("{:<28} {settings}{program}{words}", instrument.name);
            }
            return Ok(true);
        }
        ["--only", names] => named(names)?,
        [] => all(),
        _ => bail!("bench takes --render, --list or --only NAME[,NAME], and --runs N"),
    };
    let mut tables = ResultTable::load_all(root)?;
    if !wanted.is_empty() {
        if wanted.iter().any(|one| !distance::is_soak(one)) {
            let args = ["build", "--release", "--package", "clump-cli"];
            let built = command::run(&mut cargo(root, &args), LIMIT)?;
            if !built.success {
                bail!("building clump: {}", built.why);
            }
        }
        if wanted.iter().any(|one| one.parmacs().is_some()) {
            beside_threads::prepare(root)?;
        }
        for example in wanted.iter().flat_map(Instrument::examples) {
            let args = ["build", "--release", "--package", "clump", "--example", example];
            let built = command::run(&mut cargo(root, &args), LIMIT)?;
            if !built.success {
                bail!("building {example}: {}", built.why);
            }
        }
    }
    for turn in 0..turns {
        for instrument in &wanted {
            println!("bench: {} of {turns}: {}", turn + 1, instrument.name);
            measure(root, instrument, &mut tables)?;
            tables.iter().try_for_each(|table| table.store(root))?;
        }
    }
    let mut shown = 0;
    for page in PAGES {
        let path = root.join(page);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {page}"))?;
        let (text, tables_of_page) = page::render(&text, &tables)?;
        std::fs::write(&path, text).with_context(|| format!("writing {page}"))?;
        shown += tables_of_page;
    }
    if shown != tables.len() {
        bail!("{shown} of {} tables have a place on a page", tables.len());
    }
    println!("bench: the tables of {} files are in {}", tables.len(), PAGES.join(", "));
    Ok(true)
}

/// Returns all instruments.
fn all() -> Vec<Instrument> {
    let own = LABORATORY.iter().chain(SHARED_MEMORY).cloned();
    let own = own.chain(applications::all()).chain(beside_threads::all());
    own.chain([distance::instrument()]).collect()
}

/// Returns the instruments with these names, and those of the tables with these names.
fn named(names: &str) -> Result<Vec<Instrument>> {
    let mut wanted = Vec::new();
    for name in names.split(',') {
        let suits = |one: &Instrument| one.name == name || one.rows().any(|(of, ..)| of == name);
        let before = wanted.len();
        wanted.extend(all().into_iter().filter(suits));
        if wanted.len() == before {
            bail!("there is no instrument and no table `{name}`; --list has the instruments");
        }
    }
    Ok(wanted)
}

/// Runs an instrument and adds what it measured to the rows.
fn measure(root: &Path, instrument: &Instrument, tables: &mut [ResultTable]) -> Result<()> {
    let report = match instrument.parmacs() {
        Some(program) => beside_threads::report(root, program)?,
        None if distance::is_soak(instrument) => distance::report(root)?,
        None => report_of_clump(root, instrument)?,
    };
    let run = Run {
        instrument: instrument.name.to_string(),
        date: said(Command::new("date").args(["-u", "+%F"]))?,
        commit: said(
            Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(root),
        )?,
        machine: report.get("machine").cloned().unwrap_or_default(),
        load: host::load(),
        figures: Vec::new(),
    };
    let measured = instrument.figures_of(&report);
    if measured.is_empty() {
        bail!("{}: the report has none of the figures that are stored", instrument.name);
    }
    for (table, row, figure) in measured {
        println!("bench: {table}: {row}: {}", figure.text());
        let table = tables.iter_mut().find(|one| one.name == table);
        let row = table.and_then(|table| table.rows.iter_mut().find(|one| one.key == row));
        row.with_context(|| format!("no row for {}", instrument.name))?.add(&run, figure);
    }
    Ok(())
}

/// Runs clump, and returns its report.
fn report_of_clump(root: &Path, instrument: &Instrument) -> Result<Value> {
    let release = host::target(root).join("release");
    let mut clump = Command::new(release.join("clump"));
    clump.args(instrument.command_line(&release.join("examples")));
    clump.envs(instrument.settings.iter().copied());
    let ended = command::run_read(&mut clump, LIMIT)?;
    if !ended.success {
        bail!("{}: {}", instrument.name, ended.why);
    }
    serde_json::from_str(&ended.stdout).context("reading the report")
}

/// Returns what a program says.
fn said(program: &mut Command) -> Result<String> {
    let ended = command::run_quiet(program, Duration::from_secs(60))?;
    if !ended.success {
        bail!("{}", ended.why);
    }
    Ok(ended.stdout.trim().to_owned())
}
