//! Accesses to the shared heap in whole jobs: by system calls, of pages whose home dies, scattered
//! ones; and what a job holds that goes on.

use crate::svm::{ENGINES, OPTIONAL_ENGINES, expect_said, svm, with_engine};
use clump_process_tests::{Folder, signals, until};
use clump_test_tier::pick;

/// Returns true once all threads of a process have stopped: the first that runs stops the others.
fn has_stopped(pid: u32) -> bool {
    let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    threads.all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
    })
}

#[test]
fn a_rank_that_waits_for_a_page_of_a_node_that_dies_ends_and_says_so() {
    for engine in ENGINES {
        let folder = Folder::new();
        let words = format!("await-page {}", folder.path().display());
        let running = svm(&format!("-n 3 --nodes 3 --lab svm.faults={engine}"), &words).start();
        running.await_ready(folder.path(), 0..3);
        let home = running.agents(3)[2];
        running.signal(home, signals::STOP);
        until("the agent has stopped", || has_stopped(home).then_some(()));
        std::fs::write(folder.path().join("go"), []).unwrap();
        running.await_ready(folder.path(), 100..101);
        running.signal(home, signals::KILL);
        let ended = running.finish();
        assert_ne!(ended.code, 0, "{}", ended.err);
        assert!(!ended.out.contains("read "), "nobody could answer: {}", ended.out);
        let said = ended.err.lines().find(|line| line.contains("rank 0: page of the shared heap"));
        let said = said.unwrap_or_else(|| panic!("{engine}: {}", ended.err));
        assert!(said.contains("rank 2") && said.contains("lost with its node"), "{said}");
    }
}

#[test]
fn the_kernel_reads_and_writes_pages_that_are_elsewhere() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2"] {
            let Some(ended) = with_engine(options, "system-calls", engine) else { break };
            expect_said(&ended, "the kernel read and wrote by ");
        }
    }
    expect_said(&svm("-n 2", "system-calls").finish(), "the kernel read and wrote by ");
}

#[test]
fn a_job_that_goes_on_and_on_holds_no_more_than_at_its_beginning() {
    for engine in ENGINES {
        let words = format!("steady {}", pick(30, 1000));
        let ended = with_engine("-n 4 --nodes 2", &words, engine).expect("both work everywhere");
        expect_said(&ended, "nothing more is held after");
    }
}

#[test]
fn scattered_accesses_take_few_mappings() {
    for engine in OPTIONAL_ENGINES {
        let Some(ended) = with_engine("-n 2 --nodes 2", "scatter 3000", engine) else { continue };
        ended.expect_clean();
        let count = ended.out.split(' ').next().and_then(|count| count.parse::<u32>().ok());
        assert!(count.is_some_and(|count| count <= 2), "{}", ended.out);
        let named = engine.trim_end_matches("-own");
        assert!(ended.out.contains(&format!("mappings by {named}")), "{}", ended.out);
    }
    // With protection each right is a mapping, until the kernel permits no more.
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let pages = pick(400, limit.trim().parse::<u32>().unwrap() + 4000);
    let ended = with_engine("-n 2 --nodes 2", &format!("scatter {pages}"), "protect");
    let ended = ended.expect("protection works everywhere");
    if pages == 400 {
        ended.expect_clean();
    } else {
        assert_ne!(ended.code, 0, "{}", ended.out);
        assert!(ended.err.contains("scattered pages (sysctl vm.max_map_count)"), "{}", ended.err);
    }
}

/// Numbers of the line `OWN own fetches of FAULTS faults, COPIED of PAGES in a copy`.
fn fetches(ended: &clump_process_tests::Finished) -> [u64; 3] {
    ended.expect_clean();
    let words: Vec<_> = ended.out.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    [0, 4, 6].map(|at| number(at).unwrap_or_else(|| panic!("{}", ended.out)))
}

#[test]
fn a_fault_fetches_by_itself_but_not_inside_a_copy_of_the_stack() {
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for options in ["-n 2 --nodes 2", "-n 4 --nodes 2", "-n 3 --nodes 3"] {
            let Some(ended) = with_engine(options, "own-fetches", engine) else { break };
            let [own, faults, copied] = fetches(&ended);
            assert!(own > 0 && faults >= own, "{engine}, {options}: {}", ended.out);
            assert!(copied < 24, "{engine}, {options}: {}", ended.out);
        }
    }
}

#[test]
fn a_pointer_without_a_lock_leads_to_its_data_where_faults_fetch_by_themselves() {
    let mut own = 0;
    for engine in ENGINES.into_iter().chain(OPTIONAL_ENGINES) {
        for notices in ["push", "pull"] {
            let parts = format!("svm.faults={engine},svm.notices={notices}");
            let ended = svm(&format!("-n 2 --nodes 2 --lab {parts}"), "pointer").finish();
            ended.expect_clean();
            assert!(ended.out.contains("pointer 1 leads to 9"), "{engine}: {}", ended.out);
            let here = ended.out.lines().find_map(|line| line.strip_suffix(" own fetches"));
            own += here.unwrap().parse::<u32>().unwrap();
        }
    }
    // Of single faults the interface may be the first to learn of a notice.
    assert!(own > 0, "no fault of any job fetched by itself");
}

#[test]
fn the_interface_fetches_where_homes_wake_threads_or_pages_move() {
    let chosen = [("CLUMP_SVM", "base"), ("CLUMP_SVM", "dw"), ("CLUMP_LAB", "svm.move-after=1")];
    for (name, value) in chosen {
        let job = svm("-n 2 --nodes 2", "own-fetches").with(|command| {
            command.env(name, value);
        });
        assert_eq!(fetches(&job.finish())[0], 0, "{name}={value}");
    }
    let job = svm("-n 2 --nodes 2 --ni proxy", "own-fetches");
    assert_eq!(fetches(&job.finish())[0], 0, "the stack is the proxy's");
    let others = [("CLUMP_SVM", "rf"), ("CLUMP_SVM", "dd"), ("CLUMP_LAB", "svm.consistency=plain")];
    for (name, value) in others {
        let job = svm("-n 2 --nodes 2", "own-fetches").with(|command| {
            command.env(name, value);
        });
        assert!(fetches(&job.finish())[0] > 0, "{name}={value}");
    }
}
