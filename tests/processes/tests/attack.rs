//! Jobs under random adverse conditions end as they should. A program of its own: it becomes the
//! parent of orphans, which would be those of other tests, too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_process_tests::attack::class::{CLASSES, Class};
use clump_process_tests::attack::place::AttackPlace;
use clump_process_tests::attack::supervisor::{Deadlines, Supervisor};
use clump_process_tests::attack::verdict::Verdict;
use clump_process_tests::attack::{Adopting, attack};
use clump_test_tier::pick;

/// Variable that chooses one job, as `CLASS:SEED`.
const ONE: &str = "CLUMP_TEST_ATTACK";

#[test]
fn jobs_under_adverse_conditions_end_as_promised() {
    let place = AttackPlace::of_build().unwrap();
    let possible = |class: &&Class| match (class.missing)(&place) {
        None => true,
        Some(why) => {
            println!("SKIPPED {}: {why}", class.name);
            false
        }
    };
    let chosen = chosen();
    let classes: Vec<&Class> = CLASSES.iter().filter(possible).collect();
    // Other jobs each night; small numbers, which can be typed again.
    let first = pick(0, clump_os::process::random().unwrap() % 1_000_000_000);
    let turns = first..first + pick(1, 200);
    let jobs: Vec<(&Class, u64)> = match chosen {
        Some(job) => vec![job],
        None => turns.flat_map(|seed| classes.iter().map(move |&class| (class, seed))).collect(),
    };
    let _adopting = Adopting::start().unwrap();
    let supervisor = Supervisor { place: &place, deadlines: Deadlines::default(), adopts: true };
    let mut failures = Vec::new();
    for (class, seed) in jobs {
        if let Verdict::Broken(broken) = attack(&supervisor, class, seed).unwrap() {
            let again = format!("{ONE}={}:{seed} cargo test --test attack", class.name);
            failures.push(format!("{}\n    again: {again}", broken.join("\n    ")));
        }
    }
    assert!(failures.is_empty(), "not as promised:\n{}", failures.join("\n"));
}

/// Returns the job that the environment chooses, if it does.
fn chosen() -> Option<(&'static Class, u64)> {
    #[expect(clippy::disallowed_methods, reason = "no setting of a program, but of this test")]
    let text = std::env::var(ONE).ok()?;
    let (name, seed) = text.split_once(':').unwrap_or_else(|| panic!("{ONE}=CLASS:SEED"));
    let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
    let class = CLASSES.iter().find(|class| class.name == name);
    let class = class.unwrap_or_else(|| panic!("{ONE}: the classes are {}", names.join(", ")));
    Some((class, seed.parse().unwrap()))
}
