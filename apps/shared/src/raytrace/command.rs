//! `clump app raytrace`.

use crate::run::SharedRun;
use crate::task_queues::TaskQueues;
use anyhow::Result;
use clap::Args;
use clump::Sum;
use clump::svm::{Home, SharedArray};
use clump_app_frame::InputSize;
use clump_app_frame::picture::{Channels, write_picture};
use clump_app_frame::rays::balls::{Ball, BallScene, ball, fields, pixel};
use clump_app_frame::rays::vector::pixel_bytes;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `clump app raytrace`.
#[derive(Debug, Args)]
pub struct RaytraceArgs {
    /// Size of the input: pictures of 64, 256 or 256 pixels a side
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Pixels of a side, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub side: Option<u32>,
    /// Balls in the scene
    #[arg(long, value_name = "N", default_value_t = 150,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub balls: u32,
    /// Pixels of a side of a tile, which one rank traces at a time
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tile: u32,
    /// Seed of the scene
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// File to write the picture to: PNG if its name ends so, else PPM
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The scene in shared memory.
struct SharedScene {
    balls: SharedArray<Ball>,
    fields: SharedArray<u32>,
}

impl BallScene for SharedScene {
    fn ball(&self, number: usize) -> Ball {
        self.balls.get(number)
    }

    fn field(&self, at: usize) -> u32 {
        self.fields.get(at)
    }
}

/// The scene in private memory.
struct OwnScene {
    balls: Vec<Ball>,
    fields: Vec<u32>,
}

impl BallScene for OwnScene {
    fn ball(&self, number: usize) -> Ball {
        self.balls[number]
    }

    fn field(&self, at: usize) -> u32 {
        self.fields[at]
    }
}

/// Traces a picture on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, or if the picture cannot be written.
pub fn run(args: &RaytraceArgs) -> Result<ExitCode> {
    let side = args.side.map_or(args.size.of(64, 256, 256), |side| side as usize);
    let tile = args.tile as usize;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "raytrace", args.size);
    run.report().count("pixels of a side", side as u64);
    run.report().count("balls", u64::from(args.balls));
    let balls: Vec<Ball> = (0..args.balls as usize).map(|at| ball(args.seed, at)).collect();
    let own = OwnScene { fields: fields(&balls), balls };
    let scene = SharedScene {
        balls: svm.array(own.balls.len(), Home::Block)?,
        fields: svm.array(own.fields.len(), Home::Block)?,
    };
    if svm.rank() == 0 {
        scene.balls.write(0, &own.balls);
        scene.fields.write(0, &own.fields);
    }
    let picture = svm.array::<u32>(side * side, Home::Block)?;
    let across = side.div_ceil(tile);
    let queues = TaskQueues::allocate(&svm)?;
    queues.deal(across * across)?;
    let mut stolen = 0;
    run.phase("trace", || {
        while let Some((number, theft)) = queues.take()? {
            stolen += u64::from(theft);
            let (top, left) = (number / across * tile, number % across * tile);
            for row in top..side.min(top + tile) {
                let columns = left..side.min(left + tile);
                let pixels: Vec<u32> =
                    columns.map(|column| pixel(&scene, side, row, column)).collect();
                picture.write(row * side + left, &pixels);
            }
        }
        Ok(())
    })?;
    let stolen = cl.all_reduce(stolen, Sum)?;
    run.report().count("tiles that were stolen", stolen);
    let mut found = vec![0; side * side];
    if svm.rank() == 0 {
        picture.read(0, &mut found);
        if let Some(path) = &args.picture {
            write_picture(path, (side, side), Channels::Colour, &pixel_bytes(&found))?;
        }
    }
    let serial = || -> Vec<u32> {
        (0..side * side).map(|at| pixel(&own, side, at / side, at % side)).collect()
    };
    run.finish(args.json, serial, |serial, report| {
        let mut colours = serial.clone();
        colours.sort_unstable();
        colours.dedup();
        report.count("colours", colours.len() as u64);
        found.iter().zip(&serial).filter(|(found, due)| found != due).count() as u64
    })
}
