//! Each public module of the facade says what it is for, and shows the types that a program makes.

use clump_docs_tests::page::root;
use std::fs;

/// Modules, and the types that a program makes itself.
const MADE: &[(&str, &[&str])] = &[
    ("am", &["Endpoint", "SharedEndpoint"]),
    ("conn", &["Listener", "Connection"]),
    (
        "pgas",
        &[
            "cl.pgas()",
            ".spread::<",
            ".mutex(",
            ".remote_calls()",
            ".dist(",
            ".ptr(",
            "Halo<",
            ".halo(",
        ],
    ),
    ("rma", &["Rma", "cl.allocate(", "Lock", "Flag", "Barrier", "NodeRegion", "Signal"]),
    (
        "svm",
        &[
            "cl.svm_with(",
            ".array::<",
            ".matrix::<",
            ".mutex::<",
            ".locks(",
            ".flags(",
            ".condvar(",
            ".thread_barrier(",
        ],
    ),
    ("op", &["Op", "Sum", ".split(", ".start_all_reduce("]),
];

#[test]
fn modules_show_what_a_program_makes() {
    let text = fs::read_to_string(root().join("crates/clump/src/lib.rs")).unwrap();
    let modules: Vec<(&str, &str)> = text
        .split("\npub mod ")
        .skip(1)
        .map(|part| part.split_once(" {\n").expect("a module in this file"))
        .collect();
    let names: Vec<&str> = modules.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, MADE.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for ((name, body), (_, made)) in modules.iter().zip(MADE) {
        let head = body.lines().take_while(|line| line.starts_with("    //!"));
        let head: Vec<&str> = head.map(|line| line.trim_start_matches("    //!")).collect();
        let code: String = head
            .split(|line| line.starts_with(" ```"))
            .skip(1)
            .step_by(2)
            .flatten()
            .copied()
            .collect();
        assert!(
            !head.is_empty() && !head[0].starts_with(" ```"),
            "{name} does not say what it is for"
        );
        for word in *made {
            assert!(code.contains(word), "no example of {name} shows `{word}`");
        }
    }
}
