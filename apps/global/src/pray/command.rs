//! `clump app pray`.

use crate::pray::TileBalance;
use crate::pray::reads::ObjectReads;
use crate::pray::spread_scene::SpreadScene;
use crate::pray::tiles::{PictureTiles, TracedTiles};
use crate::run::AppRun;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use clump::pgas::CacheCounts;
use clump_app_frame::InputSize;
use clump_app_frame::picture::{Channels, write_picture};
use clump_app_frame::rays::octree::{MAX_LIST, longest_list};
use clump_app_frame::rays::scene_world::WholeScene;
use clump_app_frame::rays::vector::pixel_bytes;
use clump_app_frame::rays::{generate, nff, trace_alone};
use clump_os::text_file;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `clump app pray`.
#[derive(Debug, Args)]
pub struct PrayArgs {
    /// Size of the input: 160x120 pixels of 1,000 objects, 512x512 of 1,000, or 1024x1024 of 16,390
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Scene: field (random objects), flake (balls around balls), or a file in the format NFF
    #[arg(long, value_name = "SCENE", default_value = "field")]
    pub scene: String,
    /// Objects of a scene without a file, instead of the size's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1_000_000))]
    pub objects: Option<u32>,
    /// Seed of the field
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Columns and rows of the picture, instead of the size's or the file's; one number: a square
    #[arg(long, value_name = "WxH", value_parser = resolution)]
    pub resolution: Option<(usize, usize)>,
    /// Reflections and refractions that a ray is followed through
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u8).range(0..=16))]
    pub depth: u8,
    /// Manner in which tiles are divided among ranks
    #[arg(long, value_enum, default_value = "steal")]
    pub balance: TileBalance,
    /// Pixels of a side of a tile; what its rays miss is fetched together
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub tile: u16,
    /// Copies of remote objects and octree nodes that a rank keeps, in KiB [default: half of the
    /// scene]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(0..=16_777_216))]
    pub cache: Option<u32>,
    /// File to write the picture to: PNG if its name ends so, else PPM
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// File to draw the reads of objects and the times of ranks to (SVG)
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// File to write the text of a scene to that was made
    #[arg(long, value_name = "FILE")]
    pub save_scene: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

fn resolution(text: &str) -> Result<(usize, usize), String> {
    let side = |side: &str| side.parse().ok().filter(|side| (1..=32_768).contains(side));
    let (columns, rows) = text.split_once('x').unwrap_or((text, text));
    let sides = side(columns).zip(side(rows));
    let sides = sides.filter(|(columns, rows): &(usize, usize)| columns * rows <= 1 << 26);
    sides.ok_or_else(|| "write 640x480, sides up to 32768 and up to 67108864 pixels".to_owned())
}

/// Traces a picture on all ranks of the job that this process belongs to, and checks it.
///
/// # Errors
/// Fails if this rank cannot join the job, if a rank is lost, if the scene is wrong, or if a file
/// cannot be written.
pub fn run(args: &PrayArgs) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of: Vec<usize> = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let mut run = AppRun::begin(&gas, "pray", args.size, node_of);
    let (whole, failure) = match (gas.rank() == 0).then(|| prepare(args)).transpose() {
        Ok(whole) => (whole, None),
        Err(error) => (None, Some(error)),
    };
    let cache = args.cache.map(|cache| cache as usize * 1024);
    let spread = SpreadScene::distribute(&gas, whole.as_ref(), cache, run.traffic())?;
    let Some(scene) = spread else {
        // Rank 0 says what is wrong.
        return failure.map_or(Ok(ExitCode::FAILURE), Err);
    };
    let frame = scene.header().view.frame().context("a view without a direction")?;
    let tiles = PictureTiles::allocate(&gas, frame, args.tile.into())?;
    let depth = usize::from(args.depth);
    let traced = run.phase("trace", || tiles.trace(&scene, depth, args.balance))?;
    describe(&mut run, args, &scene)?;
    report(&mut run, args, &scene, traced)?;
    let found = tiles.collect()?;
    if let (Some(pixels), Some(path)) = (&found, &args.picture) {
        write_picture(path, frame.size(), Channels::Colour, &pixel_bytes(pixels))?;
    }
    let serial = run.serial(|| whole.as_ref().map(|whole| trace_alone(whole, depth)))?;
    let mut wrong = 0;
    if let (Some(found), Some(Some(due))) = (found, serial) {
        wrong = found.iter().zip(&due).filter(|(found, due)| found != due).count() as u64;
        let mut colours = due;
        colours.sort_unstable();
        colours.dedup();
        run.report().count("colours", colours.len() as u64);
    }
    run.check(wrong, |_| Ok(0))?;
    run.finish(args.json)
}

/// Reads or makes the scene.
fn prepare(args: &PrayArgs) -> Result<WholeScene> {
    let objects = args.objects.map_or(args.size.of(1000, 1000, 16_390), |count| count as usize);
    let size = args.resolution.unwrap_or(args.size.of((160, 120), (512, 512), (1024, 1024)));
    let text = match &args.scene[..] {
        "field" => generate::field(objects, args.seed, size),
        "flake" => generate::flake(objects, size),
        path => text_file::read(Path::new(path), nff::MAX_TEXT)
            .with_context(|| format!("the scene {path} cannot be read (or take field or flake)"))?,
    };
    if let Some(path) = &args.save_scene {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    let read = nff::read(&text).map_err(|error| anyhow!("{}", error.show(&args.scene, &text)))?;
    let mut scene = read.scene;
    let together = longest_list(&scene.nodes);
    ensure!(
        together <= MAX_LIST,
        "{}: {together} objects are in one place, and an octree cannot tell them apart: each ray there \
         would look at all of them, and at most {MAX_LIST} are taken",
        args.scene
    );
    if let Some(size) = args.resolution {
        scene.header.view.size = size;
    }
    Ok(scene)
}

/// Adds to the report what was traced.
fn describe(run: &mut AppRun, args: &PrayArgs, scene: &SpreadScene) -> Result<()> {
    let [objects, nodes, bytes] = scene.sizes();
    let (columns, rows) = scene.header().view.size;
    let report = run.report();
    report.choice("scene", args.scene.clone());
    report.choice("balance", args.balance.name());
    report.count("columns", columns as u64);
    report.count("rows", rows as u64);
    report.count("objects", objects as u64);
    report.count("octree nodes", nodes as u64);
    report.count("lights", scene.header().lights.len() as u64);
    report.count("scene, KiB", bytes.div_ceil(1024) as u64);
    report.count("cache, KiB", scene.cache_bytes().div_ceil(1024) as u64);
    let rate = (columns * rows) as f64 / run.seconds().max(1e-9) / 1e3;
    run.report().figure("thousand pixels a second", rate);
    Ok(())
}

/// Reports lookups, reads of objects, balance and messages.
fn report(
    run: &mut AppRun,
    args: &PrayArgs,
    scene: &SpreadScene,
    traced: TracedTiles,
) -> Result<()> {
    let ([nodes, shapes, finishes], requests) = scene.lookups();
    let names = [
        ("hits of octree nodes, %", nodes),
        ("hits of shapes, %", shapes),
        ("hits of surfaces, %", finishes),
    ];
    for (name, CacheCounts { hits, misses, .. }) in names {
        let (hits, misses) = (run.total(hits)? as f64, run.total(misses)? as f64);
        if hits + misses > 0.0 {
            run.report().figure(name, 100.0 * hits / (hits + misses));
        }
    }
    let evicted = [nodes, shapes, finishes].iter().map(|counts| counts.evicted).sum();
    let names = ["objects fetched", "requests for objects", "bytes fetched", "copies evicted"];
    let fetched = [requests.objects, requests.batches, requests.bytes, evicted];
    for (name, count) in names.into_iter().zip(fetched) {
        let count = run.total(count)?;
        run.report().count(name, count);
    }
    let (tiles, stolen) = (run.total(traced.counts.done)?, run.total(traced.counts.stolen)?);
    let reads = ObjectReads::of_all(run.gas(), &scene.reads())?;
    let seconds = run.gas().team().all_gather(traced.seconds)?;
    let most = seconds.iter().fold(0.0_f64, |most, it| most.max(*it));
    let average = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
    let report = run.report();
    report.count("tiles", tiles);
    report.count("tiles that were stolen", stolen);
    report.count("reads of the hottest object", reads.hottest());
    report.figure("reads of the hottest hundredth, %", reads.hottest_percent());
    report.figure("balance of time", most / average.max(1e-9));
    if let Some(path) = args.chart.as_ref().filter(|_| run.gas().rank() == 0) {
        reads.draw(path, &seconds)?;
    }
    run.report_traffic(&scene.traffic())
}
