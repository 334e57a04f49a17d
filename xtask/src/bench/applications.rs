//! Applications as instruments: alone, and beside MPI.

use super::instrument::{FigureSource, Instrument};
use super::results::Goal;

const GLOBAL: &str = "global-memory";
const SHARED: &str = "shared-memory-applications";
const PEERS: &str = "applications-beside-mpi";
const UPDATES: &str = "/figures/million updates a second";
const ADDITIONS: &str = "/figures/million additions a second";
const READS: &str = "/figures/million reads a second";
/// Path of the speed-up in what applications of shared memory print.
const SPEED_UP: &str = "/figures/times as fast as serial";
const TWO_NODES: &[&str] = &["-n", "2", "--nodes", "2"];

/// Applications of the global address space: row, name and options, and the path of their figure,
/// which is of both ranks together.
const OF_GLOBAL: [(&str, &[&str], &str); 5] = [
    ("gups", &["gups"], UPDATES),
    ("gups-single", &["gups", "--manner", "single"], UPDATES),
    ("histo", &["histo"], ADDITIONS),
    ("histo-bucketed", &["histo", "--bucketed"], ADDITIONS),
    ("indexgather", &["indexgather"], READS),
];

/// Applications of shared memory: row, name and options.
const OF_SHARED: [(&str, &[&str]); 14] = [
    ("lu", &["lu"]),
    ("fft", &["fft"]),
    ("ocean", &["ocean"]),
    ("water-nsq", &["water-nsq"]),
    ("water-spatial", &["water-spatial"]),
    ("radix-svm", &["radix-svm"]),
    ("raytrace", &["raytrace"]),
    ("volrend", &["volrend"]),
    ("barnes-svm-spatial", &["barnes-svm", "--tree", "spatial"]),
    ("jacobi", &["jacobi"]),
    ("matmul", &["matmul"]),
    ("gauss", &["gauss"]),
    ("tsp", &["tsp"]),
    ("unstructured", &["unstructured"]),
];

/// Shapes of jobs, one a column of the table of shared memory.
const SHAPES: [(&str, &[&str]); 3] =
    [("one-rank", &["-n", "1"]), ("one-node", &["-n", "2"]), ("two-nodes", TWO_NODES)];

/// Comparisons with the same work in MPI: name and scope of the instrument, and the columns of its
/// time and its ratio.
const BESIDE: [(&str, &str, [usize; 2]); 2] =
    [("beside-mpi-shm", "shm", [1, 2]), ("beside-mpi-net", "net", [3, 4])];

/// Rows of that report: clump's time, and the ratio of the best peer's to it.
const TASKS: [(&str, [&str; 2]); 4] = [
    ("radix", ["/tables/0/rows/0/figures/0", "/tables/0/rows/0/figures/-"]),
    ("radb", ["/tables/0/rows/1/figures/0", "/tables/0/rows/1/figures/-"]),
    ("sample", ["/tables/0/rows/2/figures/0", "/tables/0/rows/2/figures/-"]),
    ("fft3d", ["/tables/0/rows/3/figures/0", "/tables/0/rows/3/figures/-"]),
];

/// Returns the instruments of all applications.
pub fn all() -> Vec<Instrument> {
    global().chain(shared()).chain(beside()).collect()
}

fn global() -> impl Iterator<Item = Instrument> {
    OF_GLOBAL.into_iter().flat_map(|(row, words, path)| {
        [("crc", 1), ("aead", 2)].map(|(security, column)| {
            let unit = (1.0, "M/s", 1);
            let figure = FigureSource::new((GLOBAL, row, column), path, unit, None);
            let words = [words, TWO_NODES, &["--security", security]].concat();
            application(format!("{row}-{security}"), &words, figure)
        })
    })
}

fn shared() -> impl Iterator<Item = Instrument> {
    OF_SHARED.into_iter().flat_map(|(row, words)| {
        (1..).zip(SHAPES).map(move |(column, (shape, options))| {
            let figure = FigureSource::new((SHARED, row, column), SPEED_UP, (1.0, "", 2), None);
            application(format!("{row}-{shape}"), &[words, options].concat(), figure)
        })
    })
}

/// Returns what runs an application at the size for measurements.
fn application(name: String, words: &[&'static str], figure: FigureSource) -> Instrument {
    let words = [&["app"], words, &["--size", "measure", "--json"]].concat();
    Instrument { name: name.into(), words: words.into(), figures: vec![figure].into() }
}

fn beside() -> impl Iterator<Item = Instrument> {
    BESIDE.into_iter().map(|(name, scope, [time, ratio])| {
        let figures = TASKS.into_iter().flat_map(|(row, paths)| {
            let goal = Some(Goal::AtLeast(1.0));
            [
                FigureSource::new((PEERS, row, time), paths[0], (1.0, "ms", 0), None),
                FigureSource::new((PEERS, row, ratio), paths[1], (1.0, "", 2), goal),
            ]
        });
        let words = vec!["lab", "applications", "--scope", scope, "--json"];
        let figures = figures.collect::<Vec<_>>();
        Instrument { name: name.into(), words: words.into(), figures: figures.into() }
    })
}
