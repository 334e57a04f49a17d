//! The examples on global memory, in Rust and in C, on one node and on several.

use clump_process_tests::c_programs::{Linked, workshop};
use clump_process_tests::{Job, program};
use std::ffi::OsString;

/// Examples, a small argument of those in Rust, and what they print at the end.
const EXAMPLES: [(&str, Option<&str>, &str); 7] = [
    ("hello", None, "hello from rank 3 of 4, on node 1"),
    ("ring", Some("50"), "rounds over 4 ranks"),
    ("histogram", Some("2000"), "throws of 4 ranks"),
    ("hash_map", Some("300"), "97 distinct"),
    ("stencil", Some("20"), "largest change"),
    ("task_queue", Some("200"), "tasks, "),
    ("all_to_all", Some("100"), "4 ranks have exchanged blocks"),
];

/// Examples in Rust alone.
const RUST_EXAMPLES: [(&str, Option<&str>, &str); 7] = [
    ("object_cache", Some("300"), "misses, fetched in"),
    ("lock_array", None, "8000 in all accounts; 0 attempts"),
    ("lock_array", Some("spin"), "8000 in all accounts"),
    ("lock_array", Some("served"), "8000 in all accounts"),
    ("work_queues", Some("7"), "7 queens: 40 solutions"),
    ("bulk_channel", Some("5000"), "20000 numbers"),
    ("cost_zones", Some("3000"), "most steps of a rank"),
];

/// Examples in C alone, and what they print.
const C_EXAMPLES: [(&str, &str); 1] = [("work", "256 leaves were added up, 128 of them odd")];

#[test]
fn examples_in_rust() {
    for (name, argument, says) in EXAMPLES.into_iter().chain(RUST_EXAMPLES) {
        let example = program(&format!("example-{}", name.replace('_', "-")));
        for options in ["-n 4 --nodes 2", "-n 1"] {
            let argument = argument.map(OsString::from);
            let done = Job::of_program(options, &example, argument).finish();
            done.expect_clean();
            assert!(options == "-n 1" || done.out.contains(says), "{name}: {}", done.out);
        }
    }
}

#[test]
fn examples_in_c() {
    let Some(shop) = workshop("examples on global memory in C") else { return };
    for (name, says) in EXAMPLES.map(|(name, _, says)| (name, says)).into_iter().chain(C_EXAMPLES) {
        let example = shop.build(&format!("examples/c/gas_{name}.c"), Linked::Shared);
        for options in ["-n 4 --nodes 2", "-n 1"] {
            let done = Job::of_program(options, &example, []).finish();
            done.expect_clean();
            assert!(options == "-n 1" || done.out.contains(says), "{name}: {}", done.out);
        }
    }
}

/// Checks that tasks follow pointers to where plain reads follow them.
#[test]
fn tasks_in_cpp() {
    let Some(shop) = workshop("an example of tasks in C++") else { return };
    let example = shop.build("examples/c/gas_chase.cpp", Linked::Shared);
    for (options, says) in [("-n 1", "0 of 1000 ends"), ("-n 4 --nodes 2", "0 of 4000 ends")] {
        let done = Job::of_program(options, &example, [OsString::from("1")]).finish();
        done.expect_clean();
        assert!(done.out.contains(says), "{options}: {}", done.out);
    }
}
