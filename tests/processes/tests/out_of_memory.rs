//! Ranks and agents that the kernel kills for memory: the report says so, and names no other cause.

use clump_process_tests::memory_group::MemoryGroup;
use clump_process_tests::{Finished, Folder, Job, Running, signals, until};

/// Memory of a group in which one rank takes all that there is.
const LIMIT_MB: u64 = 256;

/// Starts `clump run` with these words in the group.
fn run_in(group: &MemoryGroup, words: &str) -> Running {
    let clump = clump_process_tests::program("clump-under-test");
    let prog = clump_process_tests::program("prog");
    let words = words.replace("PROG", &prog.display().to_string());
    let line = format!("{}; exec {} run {words}", group.enter(), clump.display());
    Job::any("sh").with_args(&["-c", &line]).start()
}

fn expect_rank(ended: &Finished, node: &str) {
    ended.expect(
        137,
        &[
            "rank 2 of `prog` was killed by the kernel: out of memory (SIGKILL)",
            &format!("where:  node {node} ("),
            "fewer ranks or less memory in each there",
            "exit code 137",
        ],
    );
}

#[test]
fn a_rank_that_the_kernel_kills_for_memory() {
    let Some(group) = MemoryGroup::make(LIMIT_MB) else { return };
    expect_rank(&run_in(&group, "-n 4 PROG hoard 2").finish(), "0");
    expect_rank(&run_in(&group, "-n 4 --nodes 2 PROG hoard 2").finish(), "1");
    assert_eq!(group.kills(), 2, "the kernel killed two ranks and nothing else");
}

#[test]
fn a_rank_that_somebody_kills_after_the_kernel_killed_others() {
    let Some(group) = MemoryGroup::make(LIMIT_MB) else { return };
    expect_rank(&run_in(&group, "-n 4 PROG hoard 2").finish(), "0");
    let folder = Folder::new();
    let words = format!("-n 2 PROG forever 0 --together --ready {}", folder.path().display());
    let job = run_in(&group, &words);
    job.await_ready(folder.path(), 0..1);
    job.signal(job.rank(1), signals::KILL);
    let ended = job.finish();
    ended.expect(137, &["rank 1 of `prog` was killed by signal 9", "counted no kill for memory"]);
}

#[test]
fn an_agent_that_the_kernel_kills_for_memory() {
    for (options, code, parts) in [
        ("-n 2", 125, ["the agent of node 0", "2 ranks of `sh`", "ranks and agent need less"]),
        ("-n 2 --nodes 2", 125, ["node 1 was lost", "rank 1 of `sh`", "exit code 125"]),
    ] {
        let Some(group) = MemoryGroup::make(LIMIT_MB) else { return };
        let folder = Folder::new();
        let hoard = folder.path().join("hoard");
        // The last rank's agent is the kernel's first choice once another process takes all memory.
        let script = format!(
            "[ $CLUMP_RANK = 1 ] && echo 1000 > /proc/$PPID/oom_score_adj && : > {0}; sleep 9999",
            hoard.display()
        );
        let job = run_in(&group, &format!("{options} sh -c '{}'", script.replace('\'', "'\\''")));
        until("the agent to be marked", || hoard.exists().then_some(()));
        let eater = format!("{}; exec tail /dev/zero", group.enter());
        let eater = Job::any("sh").with_args(&["-c", &eater]).start();
        let ended = job.finish();
        assert_eq!(eater.finish().code, -i32::from(signals::KILL), "the next choice");
        ended.expect(code, &parts);
        ended.expect(code, &["was killed by the kernel: out of memory (SIGKILL)"]);
    }
}
