//! Planted defects, each of which valsort must find.

use super::*;

struct Sorted {
    dir: PathBuf,
    records: Vec<[u8; RECORD]>,
}

impl Sorted {
    fn new(keys: crate::generate::Keys) -> Self {
        let mut generator = crate::generate::Generator::new(keys, 0);
        let mut records = vec![[0u8; RECORD]; 1000];
        records.iter_mut().for_each(|r| generator.next_record(r));
        records.sort_unstable();
        let sorted = Self { dir: crate::test_dir("valsort"), records };
        std::fs::write(sorted.dir.join("in"), sorted.records.concat()).unwrap();
        sorted
    }

    /// Validates the records, cut into files before the given numbers, against the input.
    fn verdict(&self, cuts: &[usize]) -> Verdict {
        let bounds: Vec<usize> = [&[0], cuts, &[self.records.len()]].concat();
        let outputs: Vec<PathBuf> = bounds
            .windows(2)
            .enumerate()
            .map(|(i, w)| {
                let path = self.dir.join(format!("out{i}"));
                std::fs::write(&path, self.records[w[0]..w[1]].concat()).unwrap();
                path
            })
            .collect();
        let args = ValsortArgs {
            outputs,
            input: vec![self.dir.join("in")],
            checksum: None,
            records: None,
            json: false,
        };
        validate(&args).unwrap()
    }
}

impl Drop for Sorted {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

use crate::generate::Keys::{Distinct, Uniform};

#[test]
fn what_is_sorted_is_valid_however_it_is_cut() {
    let sorted = Sorted::new(Uniform);
    for cuts in [&[][..], &[500], &[0, 1, 999, 1000]] {
        let verdict = sorted.verdict(cuts);
        assert!(
            verdict.valid && verdict.records == 1000 && verdict.duplicate_keys == 0,
            "{verdict}"
        );
    }
    let repeated = Sorted::new(Distinct(3));
    assert_eq!(repeated.verdict(&[400]).duplicate_keys, 997);
}

#[test]
fn swapped_records_are_seen_within_and_across_files() {
    let mut sorted = Sorted::new(Uniform);
    sorted.records.swap(600, 601);
    for cuts in [&[][..], &[601]] {
        let verdict = sorted.verdict(cuts);
        assert!(!verdict.valid);
        assert_eq!((verdict.unordered, verdict.first_unordered.unwrap().0), (1, 601));
        assert_eq!(verdict.faults.len(), 1, "nothing is lost: {:?}", verdict.faults);
    }
}

#[test]
fn a_lost_record_is_seen() {
    let mut sorted = Sorted::new(Uniform);
    sorted.records.remove(3);
    let verdict = sorted.verdict(&[]);
    assert_eq!((verdict.valid, verdict.unordered, verdict.faults.len()), (false, 0, 2));
}

#[test]
fn a_doubled_record_is_seen_even_in_place_of_another() {
    let mut sorted = Sorted::new(Uniform);
    sorted.records[7] = sorted.records[6];
    let verdict = sorted.verdict(&[]);
    assert_eq!((verdict.valid, verdict.records, verdict.duplicate_keys), (false, 1000, 1));
}

#[test]
fn an_altered_record_is_seen_in_key_and_in_rest() {
    for byte in [9, 99] {
        let mut sorted = Sorted::new(Uniform);
        sorted.records[123][byte] ^= 1;
        let verdict = sorted.verdict(&[]);
        assert_eq!((verdict.valid, verdict.records), (false, 1000));
        assert!(verdict.faults[0].contains("checksum"));
    }
}

#[test]
fn a_cut_file_and_a_missing_one_are_told() {
    let sorted = Sorted::new(Uniform);
    let path = sorted.dir.join("cut");
    std::fs::write(&path, &sorted.records.concat()[..550]).unwrap();
    let mut args = ValsortArgs {
        outputs: vec![path],
        input: vec![],
        checksum: None,
        records: Some(5),
        json: false,
    };
    let verdict = validate(&args).unwrap();
    assert!(verdict.faults[0].contains("50 bytes of a cut record"), "{verdict}");
    args.outputs = vec![sorted.dir.join("none")];
    assert!(format!("{:#}", validate(&args).unwrap_err()).contains("cannot be opened"));
    args.outputs = vec![sorted.dir.clone()];
    assert!(format!("{:#}", validate(&args).unwrap_err()).contains("no manifest"));
}

#[test]
fn a_manifest_that_does_not_match_is_seen_and_cannot_lead_astray() {
    let sorted = Sorted::new(Uniform);
    assert!(sorted.verdict(&[400]).valid);
    let sum = sorted.verdict(&[400]).checksum;
    let judge = |records: u64, second: &str, sum: &str| {
        let text = format!(
            r#"{{"records":{records},"checksum":"{sum}","parts":[{{"file":"out0","records":400}},
            {{"file":"{second}","records":600}}]}}"#
        );
        std::fs::write(sorted.dir.join("manifest.json"), text).unwrap();
        validate(&ValsortArgs {
            outputs: vec![sorted.dir.clone()],
            input: vec![],
            checksum: None,
            records: None,
            json: false,
        })
    };
    assert!(judge(1000, "out1", &sum).unwrap().valid);
    assert!(!judge(999, "out1", &sum).unwrap().valid);
    assert!(!judge(1000, "out0", &sum).unwrap().valid);
    assert!(!judge(1000, "out1", "abc").unwrap().valid);
    assert!(judge(1000, "../elsewhere", &sum).is_err());
}
