//! Regions that nodes own, in whole jobs: they outlive ranks, and a full machine is an error.

use clump_process_tests::memory_group::MemoryGroup;
use clump_process_tests::start_storm::{growth_kib, start_storm};
use clump_process_tests::{Job, program};
use std::ffi::OsString;

fn regions(options: &str, what: &str) -> Job {
    Job::of_program(options, program("regions"), [OsString::from(what)])
}

#[test]
fn the_memory_of_a_node_outlives_the_rank_that_made_it() {
    for ni in ["direct", "proxy"] {
        let options = format!("-n 4 --nodes 2 --on-death continue --ni {ni}");
        let ended = regions(&options, "survivors").finish();
        ended.expect(137, &["rank 2 of `regions` was killed by signal 9"]);
        assert_eq!(ended.out.matches("goes on").count(), 3, "{}\n{}", ended.out, ended.err);
    }
}

#[test]
fn a_full_machine_gives_errors_and_nobody_dies() {
    let Some(group) = MemoryGroup::make(300) else { return };
    for ni in ["direct", "proxy"] {
        let clump = program("clump-under-test").display().to_string();
        let regions = program("regions").display().to_string();
        let enter = group.enter();
        let job = format!("{clump} run -n 2 --nodes 2 --ni {ni} {regions} full");
        let ended = Job::any("sh").with_args(&["-c", &format!("{enter} && exec {job}")]).finish();
        ended.expect_clean();
        assert!(ended.out.contains("MiB, and nobody died"), "{}\n{}", ended.out, ended.err);
    }
}

#[test]
fn arrays_larger_than_memory_are_errors_and_nobody_dies() {
    let Some(group) = MemoryGroup::make(300) else { return };
    let clump = program("clump-under-test").display().to_string();
    let regions = program("regions").display().to_string();
    for options in ["-n 1", "-n 4", "-n 4 --nodes 2", "-n 2 --nodes 2 --ni proxy"] {
        let job = format!("{} && exec {clump} run {options} {regions} arrays", group.enter());
        let ended = Job::any("sh").with_args(&["-c", &job]).finish();
        ended.expect_clean();
        assert!(
            ended.out.contains("bytes of memory cannot be had"),
            "{}\n{}",
            ended.out,
            ended.err
        );
    }
    assert_eq!(group.kills(), 0, "the kernel killed nobody");
}

#[test]
fn address_space_that_is_limited_is_named() {
    let clump = program("clump-under-test").display().to_string();
    let regions = program("regions").display().to_string();
    // 512 GiB: enough for all but a region of 1 TiB.
    let line = format!("ulimit -v 536870912 && exec {clump} run -n 2 --nodes 2 {regions} fill");
    let ended = Job::any("sh").with_args(&["-c", &line]).finish();
    assert_ne!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("ulimit -v"), "{}", ended.err);
}

#[test]
fn jobs_that_have_ended_leave_no_memory() {
    start_storm(10).unwrap();
}

#[test]
fn memory_that_each_job_leaves_is_seen_and_what_others_use_for_a_moment_is_not() {
    // KiB of the machine, one reading before each job and one after the last.
    let left = |jobs: u64, each: u64| (0..=jobs).map(|job| 5_000 + job * each).collect::<Vec<_>>();
    growth_kib(&left(1000, 1 << 10)).unwrap_err();
    growth_kib(&left(10, 32 << 10)).unwrap_err();
    assert_eq!(growth_kib(&left(1000, 0)).unwrap(), 0);
    let mut others = left(1000, 0);
    others.iter_mut().step_by(3).for_each(|reading| *reading += 1 << 20);
    assert_eq!(growth_kib(&others).unwrap(), 0);
}
