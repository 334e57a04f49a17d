//! Whole sorts on threads, checked by the validator, and their remains when they fail.
#![allow(clippy::unwrap_used, reason = "a test stops at what it cannot do")]

use clump_app_frame::InputSize;
use clump_sort::gensort::{GensortArgs, make};
use clump_sort::job::{Silent, Spec, sort};
use clump_sort::report::SortReport;
use clump_sort::sized_run::{SizedRun, check};
use clump_sort::threads;
use clump_sort::valsort::{ValsortArgs, validate};
use proptest::prelude::*;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("clump-whole-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names in `sub`, hidden ones too, sorted.
    fn names(&self, sub: &str) -> Vec<String> {
        let Ok(list) = std::fs::read_dir(self.join(sub)) else { return vec![] };
        let mut names: Vec<String> =
            list.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn input(path: &Path, records: u64, skew: bool, distinct: Option<u64>) {
    make(&GensortArgs {
        records,
        output: path.into(),
        begin: 0,
        skew,
        distinct,
        threads: Some(2),
        force: true,
        buffered: false,
        json: false,
    })
    .unwrap();
}

fn spec(folder: &Folder, memory: u64) -> Spec {
    Spec {
        inputs: vec![folder.join("in")],
        output: folder.join("out"),
        scratch: None,
        made: None,
        memory,
        memory_grows: false,
        force: false,
        two_pass: false,
        direct: true,
        measure_disk: false,
    }
}

fn sort_on(nranks: usize, spec: &Spec) -> Result<SortReport, String> {
    let mut all = threads::run(nranks, |mut rank| {
        sort(&mut rank, spec, &mut Silent).map_err(|e| format!("{e:#}"))
    });
    let ok = all.iter().filter(|r| r.is_ok()).count();
    assert!(ok == 0 || ok == nranks, "all ranks or none: {all:?}");
    all.swap_remove(0)
}

fn assert_valid(spec: &Spec) {
    let args = ValsortArgs {
        outputs: vec![spec.output.clone()],
        input: spec.inputs.clone(),
        checksum: None,
        records: None,
        json: false,
    };
    let verdict = validate(&args).unwrap();
    assert!(verdict.valid, "{verdict}");
}

#[test]
fn every_kind_of_key_is_sorted_in_one_and_in_two_passes() {
    let folder = Folder::new("keys");
    for (skew, distinct) in [(false, None), (true, None), (false, Some(1)), (false, Some(3))] {
        input(&folder.join("in"), 30_001, skew, distinct);
        for (nranks, two_pass) in [(1, false), (3, false), (4, true), (2, true)] {
            let spec = Spec { two_pass, force: true, ..spec(&folder, 64 << 20) };
            let report = sort_on(nranks, &spec).unwrap();
            assert_eq!((report.two_pass, report.records), (two_pass, 30_001));
            assert!(report.imbalance < 1.3, "{}", report.imbalance);
            assert_valid(&spec);
            assert_eq!(folder.names("out").len(), nranks + 1, "{:?}", folder.names("out"));
        }
    }
}

#[test]
fn small_and_odd_inputs_are_sorted() {
    let folder = Folder::new("odd");
    for records in [0, 1, 2, 5, 41, 1000] {
        input(&folder.join("in"), records, false, None);
        for two_pass in [false, true] {
            let spec = Spec { two_pass, force: true, ..spec(&folder, 32 << 20) };
            assert_eq!(sort_on(4, &spec).unwrap().records, records);
            assert_valid(&spec);
        }
    }
    input(&folder.join("a"), 777, false, None);
    input(&folder.join("b"), 1, true, None);
    let inputs = ["a", "b", "in"].map(|name| folder.join(name)).to_vec();
    let spec = Spec { inputs, force: true, direct: false, ..spec(&folder, 32 << 20) };
    assert_eq!(sort_on(3, &spec).unwrap().records, 1778);
    assert_valid(&spec);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn output_equals_a_sort_in_memory(
        seeds in prop::collection::vec(any::<[u8; 3]>(), 0..3000), nranks in 1usize..6)
    {
        let folder = Folder::new("property");
        // Few different keys and unlike rests, so that ties and their records are both exercised.
        let mut records: Vec<Vec<u8>> = seeds
            .iter()
            .enumerate()
            .map(|(i, s)| {
                let mut record = vec![s[0] % 4; 100];
                record[9] = s[1];
                record[90..98].copy_from_slice(&(i as u64).to_le_bytes());
                record[99] = s[2];
                record
            })
            .collect();
        std::fs::write(folder.join("in"), records.concat()).unwrap();
        let spec = Spec { two_pass: true, ..spec(&folder, 32 << 20) };
        sort_on(nranks, &spec).unwrap();
        let mut bytes = Vec::new();
        for rank in 0..nranks {
            bytes.extend(std::fs::read(folder.join(&format!("out/part-{rank:05}"))).unwrap());
        }
        let mut got: Vec<Vec<u8>> = bytes.chunks(100).map(<[u8]>::to_vec).collect();
        prop_assert!(got.is_sorted_by_key(|r| r[..10].to_vec()));
        got.sort_unstable();
        records.sort_unstable();
        prop_assert!(got == records);
    }
}

#[test]
fn what_cannot_be_sorted_leaves_nothing_that_looks_complete() {
    let folder = Folder::new("refused");
    let told = |spec: &Spec| sort_on(3, spec).unwrap_err();
    assert!(told(&spec(&folder, 64 << 20)).contains("No such file"));
    std::fs::write(folder.join("in"), [0; 250]).unwrap();
    assert!(told(&spec(&folder, 64 << 20)).contains("50 more than whole records"));
    assert_eq!(folder.names("out"), [""; 0]);

    input(&folder.join("in"), 50_000, false, None);
    assert!(told(&spec(&folder, 1 << 18)).contains("give at least"));
    std::fs::write(folder.join("out"), b"a file").unwrap();
    assert!(told(&spec(&folder, 64 << 20)).contains("is a file"));
    std::fs::remove_file(folder.join("out")).unwrap();

    sort_on(2, &spec(&folder, 64 << 20)).unwrap();
    assert!(told(&spec(&folder, 64 << 20)).contains("--force"));
    let fewer = Spec { force: true, ..spec(&folder, 64 << 20) };
    sort_on(1, &fewer).unwrap();
    assert_eq!(folder.names("out"), ["manifest.json", "part-00000"], "no part of the older output");
    assert_valid(&fewer);
    let inside = Spec { inputs: vec![folder.join("out/part-00000")], ..fewer };
    assert!(told(&inside).contains("is in the output folder"));
    assert_valid(&spec(&folder, 0));
}

/// Returns a pipe that `bytes` are written to, and the path at which this process reads it.
fn pipe_with(bytes: Vec<u8>) -> (std::io::PipeReader, PathBuf) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
    // If a sort refuses its input, the writer gets an error, which does not matter.
    std::thread::spawn(move || drop(writer.write_all(&bytes)));
    (reader, path)
}

#[test]
fn streams_are_sorted_to_the_last_record() {
    let folder = Folder::new("stream");
    input(&folder.join("in"), 30_001, false, None);
    let bytes = std::fs::read(folder.join("in")).unwrap();
    let whole = spec(&folder, 32 << 20);
    for two_pass in [false, true] {
        let (_first, path) = pipe_with(bytes.clone());
        let spec = Spec { inputs: vec![path], two_pass, force: true, ..whole.clone() };
        let report = sort_on(3, &spec).unwrap();
        assert_eq!((report.records, report.records_streamed), (30_001, 30_001));
        assert_valid(&Spec { inputs: whole.inputs.clone(), ..spec });
    }
    // A pipe between files, and one that nothing comes through.
    let ((_some, some), (_none, none)) = (pipe_with(bytes[..700].to_vec()), pipe_with(vec![]));
    let inputs = vec![folder.join("in"), some, none];
    let mixed = sort_on(2, &Spec { inputs, force: true, ..whole.clone() }).unwrap();
    assert_eq!((mixed.records, mixed.records_streamed), (30_008, 7));
    let (_empty, empty) = pipe_with(vec![]);
    let report = sort_on(2, &Spec { inputs: vec![empty], force: true, ..whole.clone() }).unwrap();
    assert_eq!(report.records, 0);
    assert_eq!(
        folder.names("out"),
        ["manifest.json", "part-00000", "part-00001"],
        "no copy is left"
    );
}

#[test]
fn every_kind_of_file_is_sorted_or_refused_in_words() {
    let folder = Folder::new("kinds");
    let told = |path: PathBuf| {
        let told = sort_on(2, &Spec { inputs: vec![path], ..spec(&folder, 32 << 20) }).unwrap_err();
        assert_eq!(folder.names("out"), [""; 0], "{told}");
        told
    };
    let (_cut, cut) = pipe_with(vec![7; 250]);
    assert!(told(cut).contains("50 more than whole records"));
    for device in ["/dev/zero", "/dev/null", "/dev/urandom"] {
        assert!(told(device.into()).contains("without an end"), "{device}");
    }
    assert!(told("/tmp".into()).contains("is a folder"));
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    assert!(told(folder.join("socket")).contains("is a socket"));
    // No size, and content that is no records.
    let length = std::fs::read("/proc/self/limits").unwrap().len();
    let odd = told("/proc/self/limits".into());
    assert!(odd.contains(&format!("ended after {length} bytes")), "{odd}");
    let twice = Spec { inputs: vec!["-".into(), "/dev/stdin".into()], ..spec(&folder, 32 << 20) };
    assert!(sort_on(2, &twice).unwrap_err().contains("named twice"));
}

#[test]
fn made_records_are_sorted_and_a_wrong_output_fails_the_check() {
    let folder = Folder::new("made");
    let SizedRun { records, memory } = SizedRun::of(InputSize::Ci);
    let made = Spec { inputs: vec![], made: Some(records), ..spec(&folder, memory) };
    let sorted = sort_on(4, &made).unwrap();
    assert!((sorted.records, sorted.two_pass) == (records, true), "20 MB do not fit in 4 MB");
    let mut names: Vec<_> = (0..4).map(|rank| format!("part-{rank:05}")).collect();
    names.insert(0, "manifest.json".into());
    assert_eq!(folder.names("out"), names, "no copy is left");
    let verdict = || {
        let report = check(&made.output, InputSize::Ci).unwrap();
        let report = report.report(&sorted, InputSize::Ci, 1);
        (serde_json::to_value(&report).unwrap(), report.finish(false, true).unwrap())
    };
    let (report, code) = verdict();
    assert_eq!(report["verified"], true, "{report}");
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));

    let part = folder.join("out/part-00002");
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[1050] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let (report, code) = verdict();
    assert_eq!(report["verified"], false, "{report}");
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));

    let tight = Spec { memory: 1 << 18, force: true, ..made.clone() };
    assert!(sort_on(4, &tight).unwrap_err().contains("give at least"));
    let grown = sort_on(4, &Spec { memory_grows: true, ..tight }).unwrap();
    assert!(grown.memory_cap > 1 << 18 && grown.budget_peak <= grown.memory_cap);
}
