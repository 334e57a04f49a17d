//! Whole sorts on threads, checked by the validator, and what is left behind when they fail.
#![allow(clippy::unwrap_used, reason = "a test stops at what it cannot do")]

use clump_sort::gensort::{GensortArgs, make};
use clump_sort::job::{Silent, Spec, sort};
use clump_sort::report::Report;
use clump_sort::threads;
use clump_sort::valsort::{ValsortArgs, validate};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

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
        memory,
        force: false,
        two_pass: false,
        direct: true,
        measure_disk: false,
    }
}

fn sort_on(nranks: usize, spec: &Spec) -> Result<Report, String> {
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
    assert!(told(&inside).contains("lies in the output folder"));
    assert_valid(&spec(&folder, 0));
}
