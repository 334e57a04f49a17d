//! Verdicts on printed command lines, by the definitions that the programs themselves use.

use crate::page::root;
use crate::printed::{Printed, Simple};
use anyhow::{Context, Result, bail, ensure};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory};
use clump_boot::config::{Config, FILE_VARIABLE, KEYS, TEXT_KEYS};
use clump_cli::command::Cli;
use std::fs;
use std::path::{Path, PathBuf};

/// Programs that are not clump's, of whose words clump knows nothing but names of files.
const OTHERS: &[&str] = &[
    "cc",
    "gcc",
    "mpicc",
    "clump-cc",
    "clump-c++",
    "cp",
    "export",
    "jq",
    "salloc",
    "ssh",
    "chmod",
    "scp",
    "tar",
    "apt-get",
];
/// Programs that start others.
const STARTERS: &[&str] = &["srun", "mpirun", "mpiexec"];
/// Variables that are no settings of jobs.
const OTHER_VARIABLES: &[&str] = &[FILE_VARIABLE, "CLUMP_CC", "CLUMP_CXX", "CLUMP_TEST_TIER"];
/// Names that pages print where a reader has a value, and such a value.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("N", "2"),
    ("K", "2"),
    ("PID", "1"),
    ("PORT", "9100"),
    ("SECONDS", "1"),
    ("KNOB=SETTINGS", "L=+5us..+80us/5"),
    ("KNOBS", "L=+5us"),
];

/// Checks all programs of a command line.
///
/// # Errors
/// Fails if one of them would refuse it, or does not exist.
pub fn check(printed: &Printed) -> Result<()> {
    let all = printed.programs();
    all.iter().try_for_each(|simple| program(simple, printed.block.is_none()))
}

fn program(simple: &Simple, in_sentence: bool) -> Result<()> {
    for (name, value) in &simple.variables {
        let key = KEYS.iter().chain(&TEXT_KEYS).find(|key| key.variable == *name);
        let ours = name.starts_with("CLUMP_") && !OTHER_VARIABLES.contains(&name.as_str());
        ensure!(!ours || key.is_some(), "no setting is called {name}");
        let set = key.map(|key| (key.name.to_owned(), value.clone()));
        Config::of_settings(set.as_slice())?;
    }
    let (name, arguments) = simple.words.split_first().context("no program")?;
    let base = Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name);
    if STARTERS.contains(&base) {
        let at = arguments.iter().position(|word| word == "clump");
        return at.map_or(Ok(()), |at| clump(&arguments[at + 1..], in_sentence));
    }
    match base {
        "clump" => clump(arguments, in_sentence),
        "lab" => clump(&[&["lab".to_owned()], arguments].concat(), in_sentence),
        "cargo" => cargo(arguments),
        _ if OTHERS.contains(&base) => files(arguments),
        _ => built(name).and_then(|()| files(arguments)),
    }
}

/// Parses the arguments of `clump`.
fn clump(arguments: &[String], in_sentence: bool) -> Result<()> {
    let mut words = vec!["clump".to_owned()];
    for word in arguments {
        let placed = PLACEHOLDERS.iter().find(|(name, _)| name == word);
        match placed {
            Some((_, value)) if in_sentence => words.push((*value).to_owned()),
            _ if in_sentence && ["...", "…"].contains(&word.as_str()) => {}
            _ => words.push(word.clone()),
        }
    }
    if in_sentence {
        return names(&words);
    }
    program_exists(&words)?;
    let matches = Cli::command().try_get_matches_from(&words);
    matches.map_err(|error| anyhow::anyhow!("{error}")).and_then(|matches| program_of(&matches))
}

/// Checks that the first word which is no option of `clump run` is no misspelt one: that command
/// takes it for the name of a program first.
fn program_of(matches: &ArgMatches) -> Result<()> {
    let Some(("run", run)) = matches.subcommand() else { return Ok(()) };
    let first = run.get_raw("program").and_then(|mut words| words.next());
    let option = first.filter(|word| word.as_encoded_bytes().starts_with(b"-"));
    option.map_or(Ok(()), |word| bail!("unknown option {}", word.display()))
}

/// Parses what a sentence names: it may leave out what a command needs.
fn names(words: &[String]) -> Result<()> {
    match Cli::command().try_get_matches_from(words) {
        Ok(matches) => program_of(&matches),
        // `--hosts` alone names the option.
        Err(error) if error.to_string().contains("a value is required for") => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::MissingRequiredArgument
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand => Ok(()),
            _ => bail!("{error}"),
        },
    }
}

/// Checks that a program which `clump run` starts is one of the tree, or a reader's own.
fn program_exists(words: &[String]) -> Result<()> {
    words.iter().filter(|word| word.starts_with("target/")).try_for_each(|word| built(word))
}

/// Checks that a program of the target folder is built from the tree, or that a name is a reader's
/// own program (`./prog`).
fn built(name: &str) -> Result<()> {
    let Some(example) = name.strip_prefix("target/release/examples/") else {
        ensure!(name.starts_with("./"), "no program is called `{name}`");
        return Ok(());
    };
    let there = packages()?.iter().any(|(_, folder)| has(folder, "examples", example, "example"));
    ensure!(there, "no example is called `{example}`");
    Ok(())
}

/// Checks that files of the tree that are named exist.
fn files(words: &[String]) -> Result<()> {
    let ours = words
        .iter()
        .filter(|word| ["crates/", "docs/", "apps/"].iter().any(|at| word.starts_with(at)));
    for word in ours {
        ensure!(root().join(word).exists(), "there is no `{word}`");
    }
    Ok(())
}

/// Checks that packages and targets that `cargo` is told to build exist.
fn cargo(words: &[String]) -> Result<()> {
    let own = words.iter().position(|word| word == "--");
    let (words, behind) = words.split_at(own.unwrap_or(words.len()));
    let value = |names: [&str; 2]| {
        let at = words.iter().position(|word| names.contains(&word.as_str()))?;
        words.get(at + 1).cloned()
    };
    let command = words.first().map_or("", String::as_str);
    if command == "xtask" {
        let task = words.get(1).context("which task?")?;
        let main = fs::read_to_string(root().join("xtask/src/main.rs"))?;
        ensure!(main.contains(&format!("\"{task}\"")), "no task is called `{task}`");
        return Ok(());
    }
    ensure!(["run", "build", "test"].contains(&command), "`cargo {command}`");
    let package = value(["-p", "--package"]);
    let all = packages()?;
    let folders: Vec<&PathBuf> = match &package {
        Some(name) => all.iter().filter(|(known, _)| known == name).map(|(_, at)| at).collect(),
        None => all.iter().map(|(_, at)| at).collect(),
    };
    ensure!(!folders.is_empty(), "no package is called {package:?}");
    for (option, folder, table) in [
        ("--bin", "src/bin", "bin"),
        ("--example", "examples", "example"),
        ("--test", "tests", "test"),
    ] {
        let Some(name) = value([option, option]) else { continue };
        let there = folders.iter().any(|at| has(at, folder, &name, table));
        ensure!(there, "no target `{option} {name}` in {package:?}");
    }
    match (command, package) {
        ("run", None) => clump(behind.get(1..).unwrap_or_default(), false),
        _ => Ok(()),
    }
}

/// Returns true if a package has a target of that name, by its place or by its manifest.
fn has(package: &Path, folder: &str, name: &str, table: &str) -> bool {
    let at = package.join(folder);
    let named = || {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).ok()?;
        let manifest: toml::Table = toml::from_str(&manifest).ok()?;
        let list = manifest.get(table)?.as_array()?.clone();
        Some(
            list.iter()
                .any(|target| target.get("name").and_then(toml::Value::as_str) == Some(name)),
        )
    };
    at.join(format!("{name}.rs")).exists()
        || at.join(name).join("main.rs").exists()
        || named() == Some(true)
}

/// Returns the names and folders of all packages.
fn packages() -> Result<Vec<(String, PathBuf)>> {
    let mut all = Vec::new();
    for group in ["crates", "apps", "tests"] {
        for entry in fs::read_dir(root().join(group))? {
            let folder = entry?.path();
            let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
            let manifest: toml::Table = toml::from_str(&manifest)?;
            let name = manifest.get("package").and_then(|package| package.get("name"));
            all.extend(name.and_then(|name| name.as_str()).map(|name| (name.to_owned(), folder)));
        }
    }
    Ok(all)
}
