//! The memory cap holds, measured from outside the budget. Alone in its file: it reads the memory
//! of the whole process.
#![allow(clippy::unwrap_used, reason = "a test stops at what it cannot do")]

use clump_os::memory::anonymous_bytes;
use clump_sort::gensort::{GensortArgs, make};
use clump_sort::job::{Progress, Spec, sort};
use clump_sort::threads;
use clump_sort::valsort::{ValsortArgs, validate};

/// Reads the memory of the process at every step of the sort.
struct Meter(u64);

impl Progress for Meter {
    fn phase(&mut self, _name: &str, _bytes: u64) {
        self.advance(0);
    }
    fn advance(&mut self, _bytes: u64) {
        self.0 = self.0.max(anonymous_bytes().unwrap());
    }
}

#[test]
fn two_hundred_thousand_records_are_sorted_in_four_megabytes() {
    const CAP: u64 = 4 << 20;
    let dir = std::env::temp_dir().join(format!("clump-memory-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let spec = Spec {
        inputs: vec![dir.join("in")],
        output: dir.join("out"),
        scratch: None,
        made: None,
        memory: CAP,
        memory_grows: false,
        force: false,
        two_pass: false,
        direct: true,
        measure_disk: false,
    };
    make(&GensortArgs {
        records: 200_000,
        output: spec.inputs[0].clone(),
        begin: 0,
        skew: false,
        distinct: None,
        threads: Some(1),
        force: false,
        buffered: false,
        json: false,
    })
    .unwrap();
    let before = anonymous_bytes().unwrap();
    let peaks = threads::run(4, |mut rank| {
        let mut meter = Meter(0);
        let report = sort(&mut rank, &spec, &mut meter).unwrap();
        assert!(report.two_pass && report.budget_peak <= CAP);
        assert!(report.max_runs > 2, "20 MB do not fit in 4 MB");
        meter.0.max(before + report.memory_peak)
    });
    let growth = peaks.into_iter().max().unwrap() - before;
    assert!(growth <= CAP, "grew by {growth} of {CAP}");
    assert!(growth > CAP / 2, "the meter sees what is used: {growth}");
    let args = ValsortArgs {
        outputs: vec![spec.output.clone()],
        input: spec.inputs.clone(),
        checksum: None,
        records: Some(200_000),
        json: false,
    };
    assert!(validate(&args).unwrap().valid);
    std::fs::remove_dir_all(dir).unwrap();
}
