//! `clump app volrend`.

use crate::run::SharedRun;
use crate::task_queues::TaskQueues;
use crate::volrend::cast::Viewpoint;
use crate::volrend::check::SerialScan;
use crate::volrend::phantom;
use crate::volrend::scan::SharedScan;
use anyhow::{Context, Result, ensure};
use clap::Args;
use clump::Sum;
use clump::svm::{Home, SharedArray};
use clump_app_frame::InputSize;
use clump_app_frame::picture::{Channels, write_picture};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `clump app volrend`.
#[derive(Debug, Args)]
pub struct VolrendArgs {
    /// Size of the input: volumes of 64, 256 or 256 slices
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Slices, and voxels of a side of a slice, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub side: Option<u32>,
    /// File with a volume instead of the head that is made: one byte a voxel, as many slices as
    /// rows and columns, at every node
    #[arg(long, value_name = "FILE", conflicts_with = "side")]
    pub volume: Option<PathBuf>,
    /// Pixels of a side of a picture, instead of one and a half for each slice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub pixels: Option<u32>,
    /// Pictures, each from another side
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub frames: u32,
    /// Degrees from one picture to the next
    #[arg(long, value_name = "DEGREES", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(0..=360))]
    pub turn: u32,
    /// Pixels of a side of a tile, whose rays one rank casts at a time
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tile: u32,
    /// File to write the last picture to: PNG if its name ends so, else PGM
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Densities, slice by slice.
enum DensitySource {
    Phantom,
    File(File, PathBuf),
}

impl DensitySource {
    /// Opens a volume, and returns it with its number of slices.
    fn open(path: &Path) -> Result<(Self, usize)> {
        let named = || format!("reading {}", path.display());
        let file = File::open(path).with_context(named)?;
        let bytes = file.metadata().with_context(named)?.len();
        let side = (2..=1024).find(|&side: &u64| side.pow(3) == bytes);
        let side = side.with_context(|| {
            format!("{} has {bytes} bytes, no cube of 2 to 1024", path.display())
        })?;
        Ok((Self::File(file, path.to_owned()), side as usize))
    }

    fn slice(&self, side: usize, z: usize) -> Result<Vec<u8>> {
        match self {
            Self::Phantom => Ok(phantom::slice(side, z)),
            Self::File(file, path) => {
                let mut slice = vec![0; side * side];
                let read = file.read_exact_at(&mut slice, (z * side * side) as u64);
                read.with_context(|| format!("reading {}", path.display()))?;
                Ok(slice)
            }
        }
    }
}

/// Casts rays, tile by tile, picture by picture; returns how many tiles this rank has stolen.
fn render(
    scan: &SharedScan,
    queues: &TaskQueues,
    shots: &SharedArray<u8>,
    views: &[Viewpoint],
    (pixels, tile): (usize, usize),
) -> Result<u64> {
    let (across, mut stolen) = (pixels.div_ceil(tile), 0);
    for (frame, view) in views.iter().enumerate() {
        queues.deal(across * across)?;
        while let Some((number, theft)) = queues.take()? {
            stolen += u64::from(theft);
            let (top, left) = (number / across * tile, number % across * tile);
            for row in top..pixels.min(top + tile) {
                let pixel = |column| view.pixel(scan, Some(scan.shape()), (row, column));
                let line: Vec<u8> = (left..pixels.min(left + tile)).map(pixel).collect();
                shots.write((frame * pixels + row) * pixels + left, &line);
            }
        }
    }
    Ok(stolen)
}

/// Casts rays on all ranks of the job that this process belongs to, and checks the pictures.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, or if a file cannot be read or
/// written.
pub fn run(args: &VolrendArgs) -> Result<ExitCode> {
    let (source, side) = match &args.volume {
        Some(path) => DensitySource::open(path)?,
        None => {
            let side = args.side.map_or(args.size.of(64, 256, 256), |side| side as usize);
            (DensitySource::Phantom, side)
        }
    };
    let pixels = args.pixels.map_or(side * 3 / 2, |pixels| pixels as usize);
    let (tile, frames) = (args.tile as usize, args.frames as usize);
    let view = |frame: usize| Viewpoint::turned(side, pixels, f64::from(args.turn) * frame as f64);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let mut run = SharedRun::begin(&svm, "volrend", args.size);
    run.report().count("slices", side as u64);
    run.report().count("pixels of a side", pixels as u64);
    run.report().count("pictures", frames as u64);
    let scan = SharedScan::allocate(&svm, side)?;
    let shots = svm.array::<u8>(frames * pixels * pixels, Home::Block)?;
    let queues = TaskQueues::allocate(&svm)?;
    run.phase("volume", || scan.fill(|z| source.slice(side, z)))?;
    run.phase("opacities", || scan.shade())?;
    run.phase("octree", || scan.find_empty())?;
    let views: Vec<_> = (0..frames).map(view).collect();
    let stolen = run.phase("rays", || render(&scan, &queues, &shots, &views, (pixels, tile)))?;
    let stolen = cl.all_reduce(stolen, Sum)?;
    run.report().count("tiles that were stolen", stolen);
    let mut found = vec![0; frames * pixels * pixels];
    let mut densities = Vec::new();
    if svm.rank() == 0 {
        shots.read(0, &mut found);
        if let Some(path) = &args.picture {
            let last = &found[(frames - 1) * pixels * pixels..];
            write_picture(path, (pixels, pixels), Channels::Grey, last)?;
        }
        for z in 0..side {
            densities.extend(source.slice(side, z)?);
        }
        ensure!(densities.len() == side.pow(3), "the volume has all slices");
    }
    let serial = || {
        let scan = SerialScan::of(side, &densities);
        let shots: Vec<u8> = views.iter().flat_map(|view| scan.picture(view, pixels)).collect();
        (scan, shots)
    };
    run.finish(args.json, serial, |(scan, shots), report| {
        let other = found.iter().zip(&shots).filter(|(found, due)| found != due).count() as u64;
        let first = &found[..pixels * pixels];
        let by_samples = scan.other_by_every_sample(&views[0], pixels, first);
        let lit = found.iter().filter(|pixel| **pixel > 0).count();
        report.count("pixels other than serially", other);
        report.count("pixels other than by every sample", by_samples);
        report.figure("% of pixels with light", 100.0 * lit as f64 / found.len() as f64);
        other + by_samples
    })
}
