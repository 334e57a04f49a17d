//! Pages that come before they are used, pages whose stores are not looked for, and releases that
//! publish nothing, where ranks have the protocol.

use crate::svm::{ENGINES, svm};

/// Returns the pages fetched ahead by the last rank, and those found unused.
fn ahead(options: &str, lab: &str) -> [u64; 2] {
    let job = svm(&format!("{options} --lab {lab}"), "ahead").with(|command| {
        command.env("CLUMP_SVM", "deposit");
    });
    let ended = job.finish();
    ended.expect_clean();
    let line = ended.out.lines().find(|line| line.ends_with(" unused")).unwrap_or_default();
    let words = line.split([' ', ',']).filter_map(|word| word.parse().ok());
    words.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{}", ended.out))
}

#[test]
fn what_comes_ahead_is_what_was_written_and_is_dropped_where_nobody_uses_it() {
    for engine in ENGINES {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
            let of =
                |choice: &str| ahead(options, &format!("svm.faults={engine},svm.ahead={choice}"));
            let [pages, unused] = of("auto");
            assert!(pages > 0 && unused <= pages, "{engine}, {options}: {pages}, {unused}");
            assert!(of("history")[0] > 0, "{engine}, {options}");
            for choice in ["none", "strides"] {
                assert_eq!(of(choice), [0, 0], "{engine}, {options}, {choice}");
            }
        }
    }
}

/// Releases that publish nothing are published when another rank waits for them, also while the
/// writer has nothing to do with the heap.
#[test]
fn what_is_put_off_is_published_for_ranks_that_do_something_else() {
    for engine in ENGINES {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
            let job = svm(&format!("{options} --lab svm.faults={engine}"), "putting-off");
            let job = job.with(|command| {
                command.env("CLUMP_SVM", "deposit");
            });
            let ended = job.finish();
            ended.expect_clean();
            let count = ended.out.split(' ').next().and_then(|word| word.parse::<u64>().ok());
            assert!(count.is_some_and(|count| count > 100), "{engine}, {options}: {}", ended.out);
        }
    }
}
