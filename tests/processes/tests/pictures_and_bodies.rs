//! Pictures and bodies on any number of ranks: what is computed is that of one rank. Ranks that are
//! killed meanwhile.

use clump_process_tests::{Folder, Job};
use clump_test_tier::first_of;
use serde_json::Value;

/// Ranks and nodes.
const SHAPES: [(u32, u32); 8] = [(1, 1), (5, 2), (8, 3), (3, 3), (7, 2), (2, 1), (6, 1), (4, 4)];
/// Signal that ends a process at once.
const KILL: u8 = 9;

fn report(words: &str, (ranks, nodes): (u32, u32)) -> Value {
    let line = format!("app {words} -n {ranks} --nodes {nodes} --json");
    let ended = Job::command(&line).finish();
    ended.expect_clean();
    let report = ended.json();
    assert_eq!(report["verified"], true, "{line}: {}", ended.out);
    report
}

#[test]
fn a_tree_of_bodies_is_that_of_one_rank() {
    let of = |report: &Value| {
        let names = [
            "cells of the last tree",
            "levels of the last tree",
            "interactions of the last forces",
        ];
        names.map(|name| report["counts"][name].as_u64().unwrap_or_else(|| panic!("{report}")))
    };
    let mut first = None;
    for shape in first_of(4, &SHAPES) {
        for locks in first_of(2, &["queue", "naive", "spin"]) {
            let found =
                of(&report(&format!("barnes --bodies 250 --steps 2 --locks {locks}"), *shape));
            assert_eq!(*first.get_or_insert(found), found, "{shape:?}, {locks}");
        }
    }
}

#[test]
fn a_picture_is_that_of_one_rank() {
    let folder = Folder::new();
    let mut first = None;
    for shape in first_of(4, &SHAPES) {
        for balance in first_of(1, &["steal", "blocks"]) {
            let picture = folder.path().join("picture.png");
            let scene =
                format!("pray --objects 60 --resolution 33x20 --cache 2 --balance {balance}");
            report(&format!("{scene} --picture {}", picture.display()), *shape);
            let pixels = std::fs::read(&picture).unwrap();
            assert!(pixels.len() > 500, "a picture");
            assert!(*first.get_or_insert(pixels.clone()) == pixels, "{shape:?}, {balance}");
            std::fs::remove_file(picture).unwrap();
        }
    }
}

#[test]
fn a_rank_that_is_killed_ends_the_job_in_words() {
    // More work than the time until the signal.
    for work in ["pray --objects 2000 --resolution 900x900", "barnes --bodies 30000 --steps 50"] {
        let job = Job::command(&format!("app {work} -n 3 --nodes 2")).start();
        job.signal(job.rank(2), KILL);
        let ended = job.finish();
        assert!(ended.code > 0, "{work}: {}", ended.code);
        ended.expect(ended.code, &["rank 2", "killed by signal 9"]);
    }
}
