//! The classes of attacks, each with the function that draws its jobs.

use super::job::Job;
use super::place::AttackPlace;
use super::sampler::Sampler;
use super::{forks, inputs, limits, names, paths, refusals, signals, streams};
use anyhow::Result;

/// One class of attacks.
#[derive(Debug)]
pub struct Class {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    /// Draws a job.
    pub draw: fn(&mut Sampler, &AttackPlace) -> Result<Job>,
    /// Returns the reason why there can be none here, and a remedy.
    pub missing: fn(&AttackPlace) -> Option<String>,
}

/// Every class, in the order in which they take turns.
pub const CLASSES: &[Class] = &[
    Class {
        name: "streams",
        what: "standard input, output and errors of every kind",
        draw: streams::draw,
        missing: nothing,
    },
    Class {
        name: "signals",
        what: "signals that are ignored or blocked when a job starts",
        draw: signals::draw,
        missing: nothing,
    },
    Class { name: "limits", what: "one limit at a time", draw: limits::draw, missing: nothing },
    Class {
        name: "refusals",
        what: "one system call at a time is refused",
        draw: refusals::draw,
        missing: nothing,
    },
    Class {
        name: "paths",
        what: "paths between nodes that take shorter packets while a job runs",
        draw: paths::draw,
        missing: paths::missing,
    },
    Class {
        name: "forks",
        what: "ranks that fork at a random point",
        draw: forks::draw,
        missing: nothing,
    },
    Class {
        name: "names",
        what: "names that are no UTF-8, or hold control characters",
        draw: names::draw,
        missing: nothing,
    },
    Class {
        name: "inputs",
        what: "inputs and outputs of the applications that are no ordinary files",
        draw: inputs::draw,
        missing: nothing,
    },
];

fn nothing(_: &AttackPlace) -> Option<String> {
    None
}
