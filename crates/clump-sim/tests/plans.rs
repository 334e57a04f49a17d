//! Plans in files: every one of `plans/` can be read and run; a bad one is a clear error.

use crate::evidence;
use clump_sim::{NamedPlan, PlannedFault, WorldPlan, onesided};
use std::path::Path;

#[test]
fn every_plan_can_be_read_and_has_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let plan = NamedPlan::read(&entry.unwrap().path()).unwrap();
        assert!(!plan.about().is_empty());
        for seed in plan.seeds() {
            assert!(!plan.runs(seed).unwrap().is_empty(), "{} of seed {seed}", plan.name());
        }
        count += 1;
    }
    assert!(count >= 10, "{count} plans");
}

#[test]
fn faults_of_a_file_happen() {
    let mut sums = [0; 4];
    for plan in evidence::messages("cut-and-death") {
        assert_eq!((plan.ranks, plan.base.link.loss), (4, 10_000));
        let kill = PlannedFault::Kill { rank: 3, known_after: 100_000_000 };
        assert!(plan.base.faults.contains(&(1_500_000_000, kill)), "{:?}", plan.base.faults);
        let outcome = clump_sim::run(plan, false).unwrap_or_else(|failure| panic!("{failure}"));
        let clump_sim::NetCounts { cut, lost, doubled, .. } = outcome.net;
        for (sum, count) in sums.iter_mut().zip([cut, lost, doubled, outcome.returned]) {
            *sum += count;
        }
    }
    assert!(!sums.contains(&0), "{sums:?}: each fault of the file did some harm");
    for plan in evidence::one_sided("node-lost") {
        assert_eq!((plan.ranks(), plan.nodes()), (6, 3));
        let outcome = onesided::run(plan, false).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(outcome.net.lost > 0 && outcome.counts.operations > 0);
    }
}

#[test]
fn a_file_run_twice_is_the_same_run() {
    let run = || {
        let plan = evidence::messages("cut-and-death").swap_remove(0);
        clump_sim::run(plan, false).unwrap_or_else(|failure| panic!("{failure}"))
    };
    assert_eq!(run(), run());
}

#[test]
fn a_bad_file_is_a_clear_error() {
    let missing = NamedPlan::read(Path::new("/nowhere/plan.toml")).unwrap_err().to_string();
    assert!(missing.contains("/nowhere/plan.toml") && missing.contains("No such file"));
    let good = "about = \"a\"\nworld = \"messages\"\nseeds = { first = 1, count = 2 }\n";
    assert_eq!(NamedPlan::parse("good", good).unwrap().seeds(), [1, 2]);
    for (more, says) in [
        ("colour = 1", "unknown field `colour`"),
        ("link = { loss = 2.0 }", "2 is no chance: 0.0 to 1.0"),
        ("cluster = { duration = \"2 h\" }", "\"2 h\" is no time, such as \"20 ms\""),
        ("cluster = { ranks = 1 }", "two ranks and nodes or more"),
        ("cluster = { ranks = 99 }", "99 ranks or nodes are more than 32"),
        ("transport = \"direct\"", "`transport` does not fit this world"),
        ("[[fault]]\nkind = \"flood\"\nat = \"1 s\"", "unknown variant `flood`"),
    ] {
        let error = NamedPlan::parse("bad", &format!("{good}{more}\n")).unwrap_err().to_string();
        assert!(error.starts_with("plan bad: ") && error.contains(says), "{error}");
    }
    let none = NamedPlan::parse("bad", "about = \"\"\nworld = \"messages\"").unwrap_err();
    assert!(none.to_string().contains("it names no seeds"), "{none}");
    let small = "cluster = { ranks = 2, duration = \"1 s\" }\n[[fault]]\n";
    for (fault, says) in [
        ("kind = \"kill\"\nat = \"0 s\"\nrank = 2\nknown-after = \"1 s\"", "no rank 2"),
        ("kind = \"lose-node\"\nat = \"0 s\"\nnode = 0\nknown-after = \"1 s\"", "does not support"),
        ("kind = \"close\"\nat = \"2 s\"\nrank = 0", "after the end of faults"),
        ("kind = \"partition\"\nat = \"0 s\"\nuntil = \"1 s\"\nsites = [3]", "no site 3"),
    ] {
        let plan = NamedPlan::parse("bad", &format!("{good}{small}{fault}\n")).unwrap();
        let error = plan.runs(1).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let plan = NamedPlan::parse("good", good).unwrap();
    assert!(matches!(plan.runs(7).unwrap()[..], [WorldPlan::Messages(_)]));
}
