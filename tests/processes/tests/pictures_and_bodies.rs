//! Pictures and bodies on any number of ranks: what is computed is that of one rank. Ranks that are
//! killed meanwhile.

use clump_process_tests::memory_group::MemoryGroup;
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

#[test]
fn energy_drifts_by_no_more_than_the_method_allows() {
    let figure = |steps: u32, name: &str| {
        let line = format!("barnes --bodies 300 --steps {steps} --time 0.0125");
        let report = report(&line, (3, 2));
        report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"))
    };
    let energy = |steps| {
        figure(steps, "kinetic energy at the end") + figure(steps, "potential energy at the end")
    };
    let [first, last] = [1, 100].map(energy);
    // A sphere of Plummer's model has -1/4, softened a tenth less. Each run is compared with a
    // serial one.
    assert!((first + 0.25).abs() < 0.04, "{first}");
    assert!((last / first - 1.0).abs() < 0.001, "{first} to {last}");
}

#[test]
fn a_scene_whose_objects_are_in_one_place_is_refused() {
    let folder = Folder::new();
    let scene = folder.path().join("heap.nff");
    let head = "v\nfrom 0 0 9\nat 0 0 0\nup 0 1 0\nangle 40\nhither 1\nresolution 8 8\n\
                b 0 0 0\nl 9 9 9\nf 1 1 1 1 0 0 0 1\n";
    for (objects, code) in [(2_000, 0), (70_000, 1)] {
        std::fs::write(&scene, format!("{head}{}", "s 0 0 0 1\n".repeat(objects))).unwrap();
        let line = format!("app pray --scene {} -n 3 --nodes 2", scene.display());
        let ended = Job::command(&line).finish();
        assert_eq!(ended.code, code, "{objects}: {}{}", ended.out, ended.err);
        let said = ended.err.contains("70000 objects are in one place");
        assert_eq!(said, code != 0, "{}", ended.err);
    }
}

#[test]
fn a_full_disk_ends_the_job_in_words() {
    let enter = ["--user", "--map-root-user", "--mount"];
    let tried = Job::any("unshare").with_args(&enter).with_args(&["true"]).finish();
    if tried.code != 0 {
        println!("skipped: no mount namespace without privileges here: {}", tried.err);
        return;
    }
    let folder = Folder::new();
    let at = folder.path().display();
    let program = clump_process_tests::program("clump-under-test");
    for (work, file) in [
        ("barnes --bodies 3000 --steps 1 --output", "bodies.txt"),
        ("barnes --bodies 3000 --steps 1 --output", "bodies.npy"),
        ("barnes --bodies 3000 --steps 1 --picture", "bodies.pgm"),
        ("pray --resolution 320x200 --picture", "picture.ppm"),
        ("pray --resolution 40x30 --save-scene", "scene.nff"),
    ] {
        let run = format!("{} app {work} {at}/{file} -n 3 --nodes 2", program.display());
        let script = format!("mount -t tmpfs -o size=16k none {at} && exec {run}");
        let ended =
            Job::any("unshare").with_args(&enter).with_args(&["sh", "-c", &script]).finish();
        let says = ended.err.contains("No space left on device") && ended.err.contains(file);
        assert!(ended.code > 0 && says, "{work}: {} {}{}", ended.code, ended.out, ended.err);
    }
}

#[test]
fn memory_that_is_full_ends_the_job_in_words() {
    for work in ["barnes --bodies 2000000", "pray --objects 1000000 --resolution 20x20"] {
        let Some(group) = MemoryGroup::make(256) else { return };
        let program = clump_process_tests::program("clump-under-test");
        let run = format!("{} app {work} -n 2 --nodes 2", program.display());
        let script = format!("{} && exec {run}", group.enter());
        let ended = Job::any("sh").with_args(&["-c", &script]).finish();
        assert!(ended.code > 0, "{work}: {}{}", ended.out, ended.err);
        let says = ["memory", "killed by signal 9"].iter().any(|part| ended.err.contains(part));
        assert!(says, "{work}: {}", ended.err);
    }
}
