//! Ranks that end wrongly: the job ends, names rank and cause, and leaves nothing.

use clump_process_tests::{Folder, Job, signals, until};

#[test]
fn a_rank_killed_by_a_signal() {
    for (signal, code) in [(9, 137), (11, 139), (6, 134)] {
        let ended = Job::of("-n 4", &format!("die {signal} 2")).finish();
        let how = format!("rank 2 of `prog` was killed by signal {signal}");
        ended.expect(code, &[&how, "node 0", "pid", "barrier 3, for rank 2 to arrive"]);
        let errors = ended.err.lines().filter(|line| line.starts_with("prog:"));
        let named = errors.filter(|line| line.contains("rank 2 was killed by signal")).count();
        assert_eq!(named, 3, "every survivor gets an error that names the dead\n{}", ended.err);
    }
}

#[test]
fn a_death_is_noticed_soon() {
    for (nodes, limit_ms) in [(1, 500), (2, 2500)] {
        let ended = Job::of(&format!("-n 4 --nodes {nodes}"), "notice 1").finish();
        ended.expect(137, &["rank 1 of `prog` was killed by signal 9"]);
        let at = |line: &str, what: &str| {
            line.strip_prefix(what)?.split(' ').next()?.parse::<u64>().ok()
        };
        let dies = ended.out.lines().find_map(|line| at(line, "dies at "));
        let dies = dies.unwrap_or_else(|| panic!("no time of death: {}", ended.out));
        let us: Vec<u64> = ended.out.lines().filter_map(|line| at(line, "notices at ")).collect();
        assert_eq!(us.len(), 3, "{}", ended.out);
        // Due within 50 ms on one node, 250 ms on several; a busy machine gets ten times that.
        assert!(us.iter().all(|&us| us < dies + limit_ms * 1000), "{dies}: {us:?}");
    }
}

#[test]
fn a_rank_exits_with_a_code() {
    let ended = Job::of("-n 3", "exit 7 1").finish();
    ended.expect(7, &["rank 1 of `prog` exited with code 7", "exit code 7"]);
}

#[test]
fn a_rank_leaves_without_finalizing() {
    let ended = Job::of("-n 3", "leave 0").finish();
    ended.expect(1, &["rank 0 of `prog` left without finalizing", "let main return"]);
}

#[test]
fn a_rank_whose_process_runs_another_program() {
    for nodes in [1, 2] {
        let ended = Job::of(&format!("-n 3 --nodes {nodes}"), "replace 1").finish();
        ended.expect(1, &["rank 1 of `prog` runs another program (exec)", "before it calls exec"]);
        let errors = ended.err.lines().filter(|line| line.starts_with("prog:"));
        assert_eq!(errors.filter(|line| line.contains("rank 1 runs another")).count(), 2);
    }
}

#[test]
fn a_rank_that_lets_go_of_the_job_is_not_taken_for_another_program() {
    let ended = Job::of("-n 3", "panic 1").finish();
    ended.expect(9, &["rank 1 of `prog` exited with code 9"]);
}

#[test]
fn a_rank_leaves_without_joining() {
    let ended = Job::of("-n 3", "absent 2").finish();
    ended.expect(1, &["rank 2 of `prog` ended without joining", "either every rank joins"]);
}

#[test]
fn a_rank_killed_from_outside_while_another_computes() {
    let folder = Folder::new();
    let args = format!("forever 0 --together --deaf --ready {}", folder.path().display());
    let job = Job::of("-n 3", &args).start();
    job.await_ready(folder.path(), 0..1);
    job.signal(job.rank(1), signals::KILL);
    let ended = job.finish();
    ended
        .expect(137, &["rank 1 of `prog` was killed by signal 9", "1 were killed"])
        .expect_rank_0_computing();
}

#[test]
fn survivors_go_on_if_told_so() {
    let folder = Folder::new();
    let args = format!("forever 0 --ready {}", folder.path().display());
    let job = Job::of("-n 3 --on-death continue", &args).start();
    job.await_ready(folder.path(), 0..1);
    job.signal(job.rank(0), signals::KILL);
    job.finish().expect(137, &["rank 0 of `prog` was killed", "--on-death continue"]);
}

#[test]
fn a_rank_stopped_while_all_others_have_ended() {
    let ended = Job::of("-n 3", "stop-self 1").finish();
    ended.expect(137, &["rank 1 of `prog` is stopped (SIGSTOP)", "kill -CONT"]);
}

#[test]
fn a_rank_that_runs_on_is_bounded_on_request() {
    let ended = Job::of("-n 3 --linger 0.2", "forever 1 --deaf").finish();
    ended.expect(124, &["rank 1 of `prog` was still running", "--linger", "exit code 124"]);
}

#[test]
fn a_rank_that_runs_on_is_noticed() {
    let folder = Folder::new();
    let job = Job::of("-n 2", &format!("forever 1 --ready {}", folder.path().display())).start();
    job.await_ready(folder.path(), 1..2);
    let agent = job.agent();
    until("rank 0 to end", || (job.ranks().len() == 1).then_some(()));
    assert_eq!(job.agent(), agent, "waits for the other");
    // The notice itself is due after 5 s of the agent's clock; the rules are tested without a
    // clock.
    job.signal(job.rank(1), signals::TERMINATE);
    job.finish().expect(143, &["rank 1 of `prog` was killed by signal 15"]);
}

#[test]
fn whatever_ranks_started_ends_with_the_job() {
    for args in ["children", "children --stay"] {
        let job = Job::of("-n 2", args).start();
        let stays = args.contains("--stay");
        if stays {
            job.await_named("sleep", 6);
            job.signal(job.rank(1), signals::KILL);
        }
        let ended = job.finish();
        match stays {
            true => ended.expect(137, &["rank 1 of `prog` was killed by signal 9"]),
            false => ended.expect(0, &["left running", "sleep"]),
        };
    }
}

#[test]
fn processes_that_start_others_all_the_time_are_killed_too() {
    let script = "while :; do setsid sleep 9 & sleep 0.01; done";
    let job = Job::of_program("-n 2", "sh", ["-c", script].map(Into::into)).start();
    job.await_named("sleep", 6);
    job.signal(job.rank(0), signals::KILL);
    job.finish().expect(137, &["rank 0 of `sh` was killed by signal 9", "1 were killed"]);
}

#[test]
fn sixty_four_ranks_on_few_cores() {
    Job::of("-n 64", "barrier 20").finish().expect_clean();
    let ended = Job::of("-n 64", "die 9 63").finish();
    ended.expect(137, &["rank 63 of `prog` was killed by signal 9", "0-62"]);
}
