//! Applications on global memory, in small sizes: each checks itself, on any ranks and nodes.

use clump_process_tests::{Folder, Job};
use clump_test_tier::first_of;
use serde_json::Value;

/// Ranks and nodes.
const SHAPES: [(u32, u32); 6] = [(4, 2), (1, 1), (2, 2), (3, 2), (2, 1), (4, 1)];

/// Runs an application in all shapes, or the first ones, and returns its reports.
fn verified(words: &str) -> Vec<Value> {
    verified_with(words, &[])
}

/// Runs an application with settings, in all shapes or the first ones, and returns its reports.
fn verified_with(words: &str, settings: &[(&str, &str)]) -> Vec<Value> {
    let run = |&(ranks, nodes): &(u32, u32)| {
        let line = format!("app {words} -n {ranks} --nodes {nodes} --json");
        let job = Job::command(&line).with(|command| {
            command.envs(settings.iter().copied());
        });
        let ended = job.finish();
        ended.expect_clean();
        let report = ended.json();
        assert_eq!(report["verified"], true, "{line}: {}", ended.out);
        assert_eq!(report["ranks"], ranks, "{line}");
        report
    };
    first_of(2, &SHAPES).iter().map(run).collect()
}

/// Returns a count of a report.
fn count(report: &Value, name: &str) -> u64 {
    report["counts"][name].as_u64().unwrap_or_else(|| panic!("`{name}` is in {report}"))
}

#[test]
fn gups_histo_and_indexgather() {
    verified("gups --log-words 12");
    verified("histo --bins 1000 --samples 20000");
    verified("indexgather --words 5000 --reads 20000");
    verified("histo --bins 1000 --samples 20000 --bucketed");
    verified("indexgather --words 5000 --reads 20000 --bucketed");
}

#[test]
fn sample_sort_of_every_input() {
    for input in ["uniform", "gaussian", "zero", "bucket"] {
        verified(&format!("sample --keys 20011 --input {input}"));
    }
    for report in verified("sample --keys 20011 --input staggered --packed") {
        assert_eq!(report["choices"]["manner"], "packed");
    }
    for input in ["g-group", "staggered", "worst-load", "duplicates"] {
        verified(&format!("sample --keys 9973 --input {input} --manner single"));
    }
}

#[test]
fn sort_of_records_from_disk_to_disk() {
    for report in verified("sort --size ci") {
        assert_eq!(count(&report, "records"), 200_000, "{report}");
    }
}

#[test]
fn radix_sort_by_key_and_in_bulk() {
    verified("radix --keys 20011");
    verified("radix --keys 5003 --input duplicates --manner single");
    for report in verified("radb --keys 20011 --input gaussian") {
        // Two passes, and each rank sends every other one a message; the rest are counts, of which
        // each rank but one passes 2^16 on, up and around, in each pass.
        let ranks = report["ranks"].as_u64().unwrap();
        let all = count(&report, "remote accesses to other nodes")
            + count(&report, "remote accesses within nodes");
        assert_eq!(all, 2 * ranks * (ranks - 1) + 2 * 2 * (ranks - 1) * 65536, "{report}");
    }
}

#[test]
fn em3d_by_stores_and_by_reads() {
    for way in ["write", "read"] {
        for layout in ["naive", "good"] {
            verified(&format!("em3d --graph-nodes 601 --steps 3 --manner {way} --layout {layout}"));
        }
        // Blocks without nodes, and no edges between ranks.
        verified(&format!("em3d --graph-nodes 4 --degree 3 --span 2 --manner {way}"));
        verified(&format!("em3d --graph-nodes 200 --remote 0 --manner {way}"));
    }
}

#[test]
fn states_of_models() {
    for report in verified("murphi german") {
        assert_eq!(count(&report, "states"), 1461, "{report}");
        assert_eq!(count(&report, "rules fired"), 3864, "{report}");
    }
    for report in verified("murphi german --symmetry exact") {
        assert_eq!(count(&report, "states"), 735, "{report}");
    }
    for report in verified("murphi list --set Processors=3 --symmetry normal --check") {
        assert_eq!(count(&report, "bits of a state"), 38, "{report}");
    }
    verified("murphi hanoi --compact --check");
}

#[test]
fn pictures_of_scenes() {
    let small = "--objects 60 --resolution 40x31";
    for report in verified(&format!("pray {small}")) {
        assert_eq!(count(&report, "objects"), 60, "{report}");
        assert!(count(&report, "colours") > 100, "{report}");
        assert!(count(&report, "cache, KiB") < count(&report, "scene, KiB"), "{report}");
    }
    // Room for one object, rays one by one, and ranks without a tile.
    verified(&format!("pray {small} --scene flake --cache 0"));
    verified(&format!("pray {small} --tile 1 --balance blocks --depth 16 --cache 1"));
    verified("pray --objects 3 --resolution 1x1 --depth 0");
    let faults = "loss=2%,duplicate=2%,reorder=5%";
    for settings in [[("CLUMP_NET_FAULTS", faults)], [("CLUMP_PGAS_AGGREGATE", "0")]] {
        let reports = verified_with(&format!("pray {small} --cache 2"), &settings);
        assert!(count(&reports[0], "objects fetched") > 0, "{}", reports[0]);
    }
    verified(&format!("pray {small} --cache 2 --ni proxy:1"));
}

#[test]
fn scenes_of_files() {
    let folder = Folder::new();
    let [scene, picture, chart] =
        ["scene.nff", "picture.png", "chart.svg"].map(|it| folder.path().join(it));
    let made = format!("pray --scene flake --objects 40 --save-scene {}", scene.display());
    verified(&format!("{made} --resolution 20x20"));
    let files = format!("--picture {} --chart {}", picture.display(), chart.display());
    for report in verified(&format!("pray --scene {} {files}", scene.display())) {
        assert_eq!((count(&report, "objects"), count(&report, "columns")), (40, 20), "{report}");
    }
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    assert!(std::fs::read_to_string(&chart).unwrap().ends_with("</svg>\n"));
    std::fs::write(&scene, "v\nfrom 0 0 1\nat 0 \x1b 0\n").unwrap();
    let wrong = Job::command(&format!("app pray -n 3 --scene {}", scene.display())).finish();
    assert_eq!(wrong.code, 1, "{}", wrong.err);
    assert!(wrong.err.contains(":3:6: here should be a number"), "{}", wrong.err);
}

#[test]
fn components_of_lattices_and_lists() {
    verified("connect --side 14");
    verified("connect --dims 2 --side 60 --density 45 --manner single");
    verified("connect --side 8 --density 0");
    let folder = Folder::new();
    let list = folder.path().join("edges");
    // A chain through all ranks, from the last vertex to the first, and a triangle.
    let chain: String = (1..40).map(|n| format!("{} {}\n", 2 * n, 2 * n - 2)).collect();
    std::fs::write(&list, format!("# comment\n{chain}\n5 9\n9 77\n77 5\n")).unwrap();
    verified(&format!("connect --edges {}", list.display()));
    // Numbers without end take no memory.
    std::fs::write(&list, "0 4294967296\n7 18446744073709551615\n4294967296 7\n").unwrap();
    verified(&format!("connect --edges {}", list.display()));
    for (text, why) in [
        ("1 2\n3 x\n", "line 2: an edge is two numbers of vertices"),
        ("5 3\n0 1\n1 2\n3 4\n", "line 1: `5 3` is a head line"),
    ] {
        std::fs::write(&list, text).unwrap();
        let wrong = Job::command(&format!("app connect -n 2 --edges {}", list.display())).finish();
        assert_eq!(wrong.code, 1, "{}", wrong.err);
        assert!(wrong.err.contains(why), "{}", wrong.err);
    }
}

#[test]
fn fourier_transforms_of_any_sides() {
    verified("fft3d --sides 16");
    verified("fft3d --sides 9 5 7");
    // More ranks than planes: pencils; and more than there are numbers.
    verified("fft3d --sides 2");
    verified("fft3d --sides 1 3 1");
}

#[test]
fn bodies_that_attract_each_other() {
    let reports = verified("barnes --bodies 300 --steps 2");
    let same = |name| assert_eq!(count(&reports[0], name), count(&reports[1], name), "{name}");
    same("cells of the last tree");
    same("levels of the last tree");
    same("interactions of the last forces");
    // Less room than one walk needs, and walks one by one.
    verified("barnes --bodies 200 --steps 1 --cache 1 --window 3");
    verified("barnes --bodies 200 --steps 1 --cache 0 --window 1");
    verified("barnes --bodies 2 --steps 1");
    for locks in ["spin", "naive"] {
        for report in verified(&format!("barnes --bodies 200 --steps 1 --locks {locks}")) {
            assert!(count(&report, "locks acquired") > 0, "{report}");
        }
    }
}

#[test]
fn bodies_of_files() {
    let folder = Folder::new();
    let [first, last, picture] = ["first", "last", "bodies.png"].map(|it| folder.path().join(it));
    verified(&format!("barnes --bodies 100 --steps 1 --output {}", first.display()));
    let line = format!("barnes --steps 1 --input {} --output {}", first.display(), last.display());
    for report in verified(&format!("{line} --picture {}", picture.display())) {
        assert_eq!(count(&report, "bodies"), 100);
    }
    assert_eq!(std::fs::read_to_string(&last).unwrap().lines().count(), 101);
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    std::fs::write(&first, "1 0 0 0 0 0 0\n1 1 0 0 0 0\n").unwrap();
    let wrong = Job::command(&format!("app barnes -n 2 --input {}", first.display())).finish();
    assert_eq!(wrong.code, 1, "{}", wrong.err);
    assert!(wrong.err.contains("line 2: give a mass above 0"), "{}", wrong.err);
}
