//! The classes of attacks, each with the function that draws its jobs.

use super::job::Job;
use super::place::AttackPlace;
use super::{
    forks, inputs, limits, memory, names, outputs, paths, pending, quoting, refusals, signals,
    stops, streams, variables,
};
use anyhow::Result;
use clump_test_tier::Sampler;

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
    Class {
        name: "quoting",
        what: "words that a shell of another machine would take for something else",
        draw: quoting::draw,
        missing: nothing,
    },
    Class {
        name: "memory",
        what: "control groups with little memory",
        draw: memory::draw,
        missing: memory::missing,
    },
    Class {
        name: "pending",
        what: "an error that is pending at one rank when all call a collective",
        draw: pending::draw,
        missing: nothing,
    },
    Class {
        name: "stops",
        what: "signals that stop a launcher and let it go on, and others that it gets",
        draw: stops::draw,
        missing: nothing,
    },
    Class {
        name: "outputs",
        what: "output paths that cannot be written",
        draw: outputs::draw,
        missing: nothing,
    },
    Class {
        name: "variables",
        what: "names in the environment that are nearly those of settings",
        draw: variables::draw,
        missing: nothing,
    },
];

fn nothing(_: &AttackPlace) -> Option<String> {
    None
}
