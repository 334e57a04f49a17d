//! Applications as instruments: alone, and beside MPI.

use super::instrument::{FigureSource, Instrument};
use super::results::Goal;

const GLOBAL: &str = "global-memory";
const IRREGULAR: &str = "irregular-applications";
const SHARED: &str = "shared-memory-applications";
const LADDER: &str = "shared-memory-ladder";
const CLUSTERS: &str = "shared-memory-clusters";
const PEERS: &str = "applications-beside-mpi";
const UPDATES: &str = "/figures/million updates a second";
const ADDITIONS: &str = "/figures/million additions a second";
const READS: &str = "/figures/million reads a second";
/// Path of the speed-up in what applications of the global address space print.
const OVER_SERIAL: &str = "/figures/speed-up";
const STATES: &str = "/figures/thousand states a second";
/// Path of the speed-up in what applications of shared memory print.
const SPEED_UP: &str = "/figures/times as fast as serial";
/// Path of the messages of the protocol between nodes, of all ranks.
const SENT: &str = "/counts/messages between nodes";
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

/// Irregular applications of paper 001: row, name and options, and the path of their figure.
const OF_IRREGULAR: [(&str, &[&str], &str); 5] = [
    ("pray", &["pray"], OVER_SERIAL),
    ("barnes", &["barnes", "--steps", "1"], OVER_SERIAL),
    ("murphi", &["murphi", "german"], STATES),
    ("murphi-compiled", &["murphi", "german", "--compiled"], STATES),
    ("murphi-compact", &["murphi", "german", "--compact"], STATES),
];

/// Applications of shared memory: row, name and options.
const OF_SHARED: [(&str, &[&str]); 15] = [
    ("lu", &["lu"]),
    ("fft", &["fft"]),
    ("ocean", &["ocean"]),
    ("water-nsq", &["water-nsq"]),
    ("water-spatial", &["water-spatial"]),
    ("radix-svm", &["radix-svm"]),
    ("raytrace", &["raytrace"]),
    ("volrend", &["volrend"]),
    ("barnes-svm-original", &["barnes-svm", "--tree", "original"]),
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

/// Applications of paper 003 (table 1) that run on each step of the protocol ladder.
const ON_THE_LADDER: [&str; 10] = [
    "fft",
    "lu",
    "ocean",
    "water-nsq",
    "water-spatial",
    "radix-svm",
    "volrend",
    "raytrace",
    "barnes-svm-original",
    "barnes-svm-spatial",
];

/// Steps of the ladder (paper 003, section 2), one a column of its table.
const STEPS: [&str; 5] = ["base", "dw", "rf", "dd", "nil"];

/// Applications of paper 002 (table 1).
const ON_CLUSTERS: [&str; 8] =
    ["jacobi", "matmul", "gauss", "fft", "tsp", "water-nsq", "barnes-svm-original", "unstructured"];

/// Nodes that eight ranks are divided among, one number a column of the table of clusters.
const NODES_OF_EIGHT: [&str; 3] = ["8", "4", "2"];

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
    global()
        .chain(irregular())
        .chain(shared())
        .chain(ladder())
        .chain(clusters())
        .chain(beside())
        .collect()
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

fn irregular() -> impl Iterator<Item = Instrument> {
    OF_IRREGULAR.into_iter().flat_map(|(row, words, path)| {
        (1..).zip(SHAPES).map(move |(column, (shape, options))| {
            let digits = if path == STATES { 0 } else { 2 };
            let figure = FigureSource::new((IRREGULAR, row, column), path, (1.0, "", digits), None);
            application(format!("{row}-{shape}"), &[words, options].concat(), figure)
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

/// Returns name and options of an application of shared memory.
fn of_shared(row: &str) -> Option<&'static [&'static str]> {
    OF_SHARED.into_iter().find_map(|(name, words)| (name == row).then_some(words))
}

/// Returns each application on each step of the ladder, on two nodes with a rank each.
fn ladder() -> impl Iterator<Item = Instrument> {
    let rows = ON_THE_LADDER.into_iter().filter_map(|row| Some((row, of_shared(row)?)));
    rows.flat_map(|(row, words)| {
        (1..).zip(STEPS).map(move |(column, step)| {
            let figure = FigureSource::new((LADDER, row, column), SPEED_UP, (1.0, "", 2), None);
            let name = format!("{row}-{step}");
            let on = application(name, &[words, TWO_NODES].concat(), figure);
            Instrument { settings: vec![("CLUMP_SVM", step)].into(), ..on }
        })
    })
}

/// Returns each application with eight ranks on nodes of 1, 2 and 4 ranks, at the smallest size.
fn clusters() -> impl Iterator<Item = Instrument> {
    let rows = ON_CLUSTERS.into_iter().filter_map(|row| Some((row, of_shared(row)?)));
    rows.flat_map(|(row, words)| {
        (1..).zip(NODES_OF_EIGHT).map(move |(column, nodes)| {
            let figure = FigureSource::new((CLUSTERS, row, column), SENT, (1.0, "", 0), None);
            let options = ["-n", "8", "--nodes", nodes, "--size", "ci", "--json"];
            Instrument {
                name: format!("{row}-8-on-{nodes}").into(),
                words: [&["app"], words, &options].concat().into(),
                settings: Vec::new().into(),
                figures: vec![figure].into(),
            }
        })
    })
}

/// Returns what runs an application at the size for measurements.
fn application(name: String, words: &[&'static str], figure: FigureSource) -> Instrument {
    let words = [&["app"], words, &["--size", "measure", "--json"]].concat();
    Instrument {
        name: name.into(),
        words: words.into(),
        settings: Vec::new().into(),
        figures: vec![figure].into(),
    }
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
        Instrument {
            name: name.into(),
            words: words.into(),
            settings: Vec::new().into(),
            figures: figures.into(),
        }
    })
}
