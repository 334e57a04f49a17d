//! Options and parameters of a run.

use crate::barnes::body::{self, BodyMotion, PlacedMass};
use clap::Args;

/// Parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GalaxyShape {
    /// Bodies.
    pub bodies: usize,
    /// Seed of their places.
    pub seed: u64,
    /// Side of a cell over its distance from which on it is opened.
    pub angle: f64,
    /// Length of a step.
    pub time: f64,
    /// Steps.
    pub steps: usize,
}

/// Places and motions of bodies, by their numbers.
pub type Bodies = (Vec<PlacedMass>, Vec<BodyMotion>);

impl GalaxyShape {
    /// Returns the bodies of Plummer's model at the beginning.
    pub fn model(&self) -> Bodies {
        (0..self.bodies).map(|number| body::body(self.seed, self.bodies, number)).unzip()
    }
}

/// Options that all versions have.
#[derive(Debug, Args)]
pub struct GalaxyArgs {
    /// Bodies, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    pub bodies: Option<u32>,
    /// Steps; forces are found once more behind the last
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub steps: u32,
    /// Length of a step, in units in which a body crosses the sphere in about 3
    #[arg(long, value_name = "TIME", default_value_t = 0.025, value_parser = time)]
    pub time: f64,
    /// Side of a cell over its distance from which on its parts are used instead, at most 1
    #[arg(long, value_name = "RATIO", default_value_t = 0.7, value_parser = ratio)]
    pub angle: f64,
    /// Seed of the bodies
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl GalaxyArgs {
    /// Returns the parameters; `bodies`: those of the size.
    pub fn shape(&self, bodies: usize) -> GalaxyShape {
        GalaxyShape {
            bodies: self.bodies.map_or(bodies, |count| count as usize),
            seed: self.seed,
            angle: self.angle,
            time: self.time,
            steps: self.steps as usize,
        }
    }
}

fn within(text: &str, most: f64) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| *number > 0.0 && *number <= most);
    number.ok_or_else(|| format!("give a number above 0, and not above {most}"))
}

fn time(text: &str) -> std::result::Result<f64, String> {
    within(text, 0.1)
}

fn ratio(text: &str) -> std::result::Result<f64, String> {
    within(text, 1.0)
}
