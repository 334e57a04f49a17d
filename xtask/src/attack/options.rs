//! The command line of `cargo xtask attack`.

use super::class::{CLASSES, Class};
use crate::host;
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// Duration unless set otherwise.
const SECONDS: u64 = 60;

/// The parsed options.
#[derive(Debug)]
pub struct Options {
    /// Number that determines all jobs.
    pub seed: u64,
    /// Time after which no job is started any more.
    pub time: Duration,
    /// Most jobs.
    pub jobs: u64,
    /// Classes to draw from, in turn.
    pub classes: Vec<&'static Class>,
    /// True if a summary in JSON is the last line of standard output.
    pub json: bool,
    /// True if jobs of the release build are attacked.
    pub release: bool,
    /// True if only the classes are listed.
    pub list: bool,
}

impl Options {
    /// Parses the words behind `attack`.
    ///
    /// # Errors
    /// Fails on an unknown word, and lists the known ones.
    pub fn read(words: &[String]) -> Result<Self> {
        let mut options = Self {
            seed: host::seed(),
            time: Duration::from_secs(SECONDS),
            jobs: u64::MAX,
            classes: CLASSES.iter().collect(),
            json: false,
            release: false,
            list: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("`{word}` takes a value"));
            match word.as_str() {
                "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
                "--seconds" => {
                    let seconds = value()?.parse().context("--seconds takes a number")?;
                    options.time = Duration::from_secs(seconds);
                }
                "--jobs" => options.jobs = value()?.parse().context("--jobs takes a number")?,
                "--class" => options.classes = named(value()?)?,
                "--json" => options.json = true,
                "--release" => options.release = true,
                "--list" => options.list = true,
                _ => bail!(
                    "`{word}`: attack takes --seed N, --seconds S, --class A,B, --jobs N, --json, \
                     --release and --list"
                ),
            }
        }
        Ok(options)
    }
}

fn named(names: &str) -> Result<Vec<&'static Class>> {
    let find = |name: &str| {
        let found = CLASSES.iter().find(|class| class.name == name);
        found.with_context(|| {
            format!("no class is called `{name}`; `cargo xtask attack --list` names them")
        })
    };
    names.split(',').map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::read(&words)
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let read_well = read("--seed 7 --seconds 3 --class limits,forks --jobs 2 --json").unwrap();
        assert_eq!((read_well.seed, read_well.jobs, read_well.classes.len()), (7, 2, 2));
        assert!(read_well.json && !read_well.list);
        for wrong in ["--seed", "--seed x", "--class nonsense", "--frobnicate", "--jobs -1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read("").unwrap().classes.len(), CLASSES.len());
    }
}
