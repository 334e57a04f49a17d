//! Applications on shared memory that check themselves, on several nodes.

use clump_process_tests::{Folder, Job};
use clump_test_tier::first_of;
use serde_json::Value;

#[test]
fn the_application_lu_is_verified_on_any_nodes() {
    for options in ["-n 1", "-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
        let ended = Job::command(&format!("app lu {options} --order 128 --json")).finish();
        ended.expect_clean();
        assert_eq!(ended.json()["verified"], true, "{}", ended.out);
        assert_eq!(ended.json()["counts"]["elements other than serially"], 0);
    }
}

/// Runs an application with `words` on one node and several, where it checks itself; returns its
/// reports.
fn verified(words: &str) -> Vec<Value> {
    let run = |options: &str| {
        let ended = Job::command(&format!("app {words} {options} --json")).finish();
        ended.expect_clean();
        let report = ended.json();
        assert_eq!(report["verified"], true, "{options}: {}", ended.out);
        assert_eq!(report["counts"]["wrong"], 0, "{options}: {}", ended.out);
        report
    };
    let shapes = ["-n 4 --nodes 2", "-n 3", "-n 1", "-n 2 --nodes 2", "-n 4 --nodes 4"];
    first_of(2, &shapes).iter().map(|shape| run(shape)).collect()
}

#[test]
fn the_application_radix_svm_is_verified_on_any_nodes() {
    verified("radix-svm --keys 20011");
    verified("radix-svm --keys 4999 --store local --digit-bits 7");
}

#[test]
fn the_application_fft_is_verified_on_any_nodes() {
    verified("fft --log 10");
    verified("fft --log 4");
}

#[test]
fn the_application_ocean_is_verified_on_any_nodes() {
    verified("ocean --side 32 --cycles 12");
}

#[test]
fn the_application_raytrace_is_verified_on_any_nodes() {
    verified("raytrace --side 40 --balls 40 --tile 6");
}

#[test]
fn the_application_water_nsq_is_verified_on_any_nodes() {
    verified("water-nsq --molecules 64 --steps 7");
    verified("water-nsq --molecules 27 --steps 6 --forces locks");
}

/// The report of an application, and where the time of its ranks went beside it.
#[test]
fn an_application_says_where_its_time_went() {
    let words = "app water-nsq --molecules 27 --steps 6 -n 2 --nodes 2 --json --stats";
    let ended = Job::command(words).finish();
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(ended.json()["verified"], true, "{}", ended.out);
    assert!(ended.err.contains("shared heap: computation"), "{}", ended.err);
}

#[test]
fn the_application_tsp_is_verified_on_any_nodes() {
    for report in verified("tsp --cities 9 --seed 3") {
        assert_eq!(report["choices"]["checked by"], "held-karp");
    }
    // One that finds no room in the queue is completed at once.
    verified("tsp --instance burma14 --solve-below 9 --queue 20");
}

#[test]
fn the_application_unstructured_is_verified_on_any_nodes() {
    verified("unstructured --points 200 --steps 3");
    verified("unstructured --points 60 --steps 2 --adding locks --seed 5");
}

#[test]
fn the_application_jacobi_is_verified_on_any_nodes() {
    verified("jacobi --side 60 --iterations 9");
    verified("jacobi --side 61 --iterations 10 --rows packed --deal cyclic");
}

#[test]
fn the_application_matmul_is_verified_on_any_nodes() {
    verified("matmul --order 70 --block 16");
    verified("matmul --order 3");
}

#[test]
fn the_application_gauss_is_verified_on_any_nodes() {
    verified("gauss --equations 50");
    verified("gauss --equations 2");
}

#[test]
fn the_application_water_spatial_is_verified_on_any_nodes() {
    for report in verified("water-spatial --molecules 64 --steps 7") {
        assert!(report["counts"]["changes of cubes"].as_u64() > Some(0), "{report}");
    }
    verified("water-spatial --molecules 30 --steps 6");
}

#[test]
fn the_application_barnes_svm_is_verified_on_any_nodes() {
    for tree in ["original", "spatial"] {
        let reports = verified(&format!("barnes-svm --bodies 300 --steps 1 --tree {tree}"));
        let [first, others @ ..] = &reports[..] else { panic!("there are several shapes") };
        for name in ["cells", "levels"].map(|what| format!("{what} of the last tree")) {
            assert!(first["counts"][&name].as_u64() > Some(0), "{first}");
            let same = others.iter().all(|other| other["counts"][&name] == first["counts"][&name]);
            assert!(same, "{name}: {reports:?}");
        }
    }
    verified("barnes-svm --bodies 3 --steps 1 --tree original");
    verified("barnes-svm --bodies 3 --steps 1 --tree spatial");
}

#[test]
fn the_application_volrend_is_verified_on_any_nodes_and_writes_its_picture() {
    let folder = Folder::new();
    let volume = folder.path().join("ball");
    let square = |at: usize| (at as f64 - 9.5).powi(2);
    let density = |at: usize| square(at % 20) + square(at / 20 % 20) + square(at / 400);
    let voxels = (0..8000).map(|at| if density(at) < 64.0 { 120 } else { 0 });
    std::fs::write(&volume, voxels.collect::<Vec<u8>>()).unwrap();
    verified("volrend --side 24 --frames 2 --tile 5");
    let picture = folder.path().join("ball.pgm");
    let files = format!("--volume {} --picture {}", volume.display(), picture.display());
    for report in verified(&format!("volrend {files} --pixels 24 --frames 1")) {
        assert_eq!(report["counts"]["slices"], 20);
        let file = std::fs::read(&picture).unwrap();
        let pixels = file.strip_prefix(b"P5\n24 24\n255\n").expect("the head of a PGM file");
        // A ball of radius 8 before a plane of 24 pixels for 1.75 times 19 voxels.
        let lit = pixels.iter().filter(|&&pixel| pixel > 0).count() as f64;
        let due = std::f64::consts::PI * (8.0 * 24.0 / (1.75 * 19.0_f64)).powi(2);
        assert!((lit - due).abs() < due / 3.0, "{lit} pixels instead of {due}");
    }
    std::fs::write(&volume, b"no cube").unwrap();
    let ended = Job::command(&format!("app volrend {files} -n 1")).finish();
    assert!(ended.code == 1 && ended.err.contains("has 7 bytes, no cube"), "{}", ended.err);
}
