//! Parts of the protocol of shared virtual memory, chosen by settings.

use clump_process_tests::Job;
use clump_test_tier::pick;

use crate::svm::{ENGINES, expect_said, svm};

/// Steps of the ladder with parts of the protocol, in combinations.
const PARTS: [(&str, &str); 8] = [
    ("nil", "svm.diffs=runs"),
    ("nil", "svm.diffs=pages,svm.notices=pull"),
    ("nil", "svm.consistency=plain"),
    ("nil", "svm.move-after=1,svm.fetch=retry"),
    ("nil", "svm.consistency=plain,svm.notices=pull,svm.diffs=runs"),
    ("deposit", "svm.consistency=fetch"),
    ("deposit", "svm.consistency=plain"),
    ("base", "svm.notices=push,svm.fetch=retry,svm.move-after=2"),
];

#[test]
fn random_programs_give_the_serial_result_with_parts_of_the_protocol_chosen() {
    for (number, (step, parts)) in PARTS.into_iter().enumerate() {
        for seed in 500..pick(502, 520) {
            let options = ["-n 4 --nodes 2", "-n 3 --nodes 3", "-n 5 --nodes 4"];
            let options = options[(seed + number) % options.len()];
            let faults = ENGINES[(seed + number / 2) % ENGINES.len()];
            let options = format!("{options} --lab {parts},svm.faults={faults}");
            let job = svm(&options, &format!("random {seed} 10")).with(|command| {
                command.env("CLUMP_SVM", step);
                if seed % 2 == 0 {
                    command.env("CLUMP_NET_FAULTS", "loss=1%,reorder=5%");
                }
            });
            expect_said(&job.finish(), &format!("seed {seed} gave the serial result"));
        }
    }
}

#[test]
fn a_fault_on_a_pointer_leads_to_what_was_published_before_it() {
    for engine in ENGINES {
        for notices in ["push", "pull"] {
            let parts = format!("svm.faults={engine},svm.notices={notices}");
            let job = svm(&format!("-n 2 --nodes 2 --lab {parts}"), "pointer");
            expect_said(&job.finish(), "pointer 1 leads to 9");
        }
    }
}

#[test]
fn diffs_of_an_interval_share_messages_by_home() {
    let [runs, pages, home] = ["runs", "pages", "home"].map(|diffs| {
        let words = "app radix-svm -n 2 --nodes 2 --keys 20000 --json --lab svm.diffs=";
        let ended = Job::command(&format!("{words}{diffs}")).finish();
        ended.expect_clean();
        assert_eq!(ended.json()["verified"], true, "{}", ended.out);
        ended.json()["counts"]["messages with diffs"].as_u64().unwrap()
    });
    assert!(runs > pages && pages > home && home > 0, "{runs}, {pages}, {home}");
}
