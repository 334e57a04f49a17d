//! Work that clump and an MPI do alike: its programs, its sizes, and what they print.

use crate::compare::peer_source::PeerSource;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An application of `clump app` for which there is the same work in MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Sort by digits, each key a message: beside all-to-all-v of packed keys.
    Radix,
    /// Sort by digits with the keys for one rank in one message.
    Radb,
    /// Sort by splitters and a local sort.
    Sample,
    /// Transform of a cube: beside FFTW's.
    Fft3d,
}

/// Size of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum TaskSize {
    /// A fraction of a second: 2^19 keys, a cube of 64.
    Ci,
    /// Seconds: 2^24 keys, a cube of 256.
    Measure,
}

const SORT: PeerSource =
    PeerSource { file: "mpi_sort.c", text: include_str!("../../peers/mpi_sort.c"), libraries: &[] };
const FFT: PeerSource = PeerSource {
    file: "mpi_fft.c",
    text: include_str!("../../peers/mpi_fft.c"),
    libraries: &["-lfftw3_mpi", "-lfftw3", "-lm"],
};

/// Report of `clump app --json`, as far as it matters here.
#[derive(Debug, Deserialize)]
struct AppOutput {
    phases: Vec<(String, f64)>,
    verified: bool,
}

/// Phases of a report that are not the parallel program.
const APART: [&str; 2] = ["serial version", "check"];

impl Task {
    /// Returns the tasks that `named` has, or all.
    pub fn chosen(named: &[Self]) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|task| named.is_empty() || named.contains(task)).collect()
    }

    /// Returns the size as an argument: keys, or the side of the cube.
    fn amount(self, size: TaskSize) -> String {
        let (sort, fft) = match size {
            TaskSize::Ci => (1_u32 << 19, 64),
            TaskSize::Measure => (1 << 24, 256),
        };
        if self == Self::Fft3d { fft } else { sort }.to_string()
    }

    /// Returns the words of `clump app`, without ranks and nodes.
    pub fn words(self, size: TaskSize) -> Vec<String> {
        let option = if self == Self::Fft3d { "--sides" } else { "--keys" };
        let packed = (self == Self::Sample).then_some("--packed");
        let (name, amount) = (self.to_string(), self.amount(size));
        let words = [&*name].into_iter().chain(packed).chain([option, &amount, "--json"]);
        words.map(str::to_owned).collect()
    }

    /// Returns the program for an MPI.
    pub fn source(self) -> &'static PeerSource {
        if self == Self::Fft3d { &FFT } else { &SORT }
    }

    /// Returns its arguments.
    pub fn mpi_words(self, size: TaskSize) -> Vec<String> {
        let sort = match self {
            Self::Radix | Self::Radb => Some("radix"),
            Self::Sample => Some("sample"),
            Self::Fft3d => None,
        };
        sort.map(str::to_owned).into_iter().chain([self.amount(size)]).collect()
    }

    /// Reads the seconds of the parallel program from what `clump app` printed.
    ///
    /// # Errors
    /// Fails if it is no such report, or if the answer was wrong.
    pub fn seconds_of_app(self, text: &str) -> Result<f64> {
        let output: AppOutput =
            serde_json::from_str(text).with_context(|| format!("{self} printed no report"))?;
        ensure!(output.verified, "the answer of {self} was wrong");
        let parallel = output.phases.iter().filter(|(name, _)| !APART.contains(&name.as_str()));
        Ok(parallel.map(|(_, seconds)| seconds).sum())
    }

    /// Reads the seconds from what the program for an MPI printed.
    ///
    /// # Errors
    /// Fails if it printed none, or if the answer was wrong.
    pub fn seconds_of_mpi(self, text: &str) -> Result<f64> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.with_context(|| format!("the program for MPI printed no {name}"))
        };
        ensure!(value("wrong")? == "0", "the answer of the program for MPI was wrong");
        let seconds = value("seconds")?;
        seconds.parse().with_context(|| format!("`{seconds}` is no time"))
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Radix => "radix",
            Self::Radb => "radb",
            Self::Sample => "sample",
            Self::Fft3d => "fft3d",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_do_the_same_amount() {
        for task in Task::chosen(&[]) {
            let (ours, theirs) = (task.words(TaskSize::Ci), task.mpi_words(TaskSize::Ci));
            assert_eq!(ours.iter().rev().nth(1), theirs.last(), "{task}");
        }
        assert_eq!(Task::chosen(&[Task::Radb]), [Task::Radb]);
        assert_eq!(Task::Radb.mpi_words(TaskSize::Measure), ["radix", "16777216"]);
        assert_eq!(Task::Fft3d.words(TaskSize::Ci), ["fft3d", "--sides", "64", "--json"]);
    }

    #[test]
    fn times_are_those_of_the_parallel_program_and_wrong_answers_count_for_nothing() {
        let report = |verified: bool| {
            format!(
                r#"{{"phases":[["a",1.5],["serial version",7],["b",0.25],["check",9]],
                     "verified":{verified},"app":"radix"}}"#
            )
        };
        assert_eq!(Task::Radix.seconds_of_app(&report(true)).unwrap(), 1.75);
        assert!(Task::Radix.seconds_of_app(&report(false)).is_err());
        assert!(Task::Radix.seconds_of_app("clump: no").is_err());
        assert_eq!(Task::Sample.seconds_of_mpi("seconds 0.5\nwrong 0\n").unwrap(), 0.5);
        assert!(Task::Sample.seconds_of_mpi("seconds 0.5\nwrong 1\n").is_err());
        assert!(Task::Sample.seconds_of_mpi("wrong 0\n").is_err());
    }
}
