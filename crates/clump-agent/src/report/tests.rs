use super::*;
use crate::outcome::RankOutcome;
use clump_control::ProcessEnd;

fn doing(rank: u32, what: &str, for_ms: u64) -> RankActivity {
    RankActivity { rank, what: what.into(), for_ms }
}

fn death(manner: DeathManner, others: Vec<RankActivity>) -> JobOutcome {
    let report = DeathReport {
        rank: 2,
        manner,
        pid: 4242,
        node: 0,
        host: "here".into(),
        at_ms: 1234,
        last: doing(2, "in barrier 7, for rank 1 to arrive", 310),
        others,
        returned: 1,
        killed: 2,
        continued: false,
    };
    JobOutcome::without_ranks(manner.exit_code(), JobEnd::Death(Box::new(report)))
}

#[test]
fn a_death_is_explained() {
    let others = vec![
        doing(0, "in barrier 7, for rank 2 to arrive", 10),
        doing(1, "computing", 0),
        doing(3, "in barrier 7, for rank 2 to arrive", 20),
    ];
    let text = explain("prog", &death(DeathManner::Signal(9), others)).unwrap();
    for part in [
        "clump: rank 2 of `prog` was killed by signal 9 (SIGKILL)\n",
        "node 0 (here), pid 4242, 1.234 s after the start",
        "it was: in barrier 7, for rank 1 to arrive (since 0.310 s)",
        "others: ranks 0, 3: in barrier 7, for rank 2 to arrive (since 0.020 s)",
        "rank 1: computing",
        "1 of the others ended with errors of their own, 2 were killed",
        "counted no kill for memory",
        "exit code 137",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

#[test]
fn a_thousand_ranks_fit_in_fifteen_short_lines() {
    let others =
        (0..1000).map(|r| doing(r, &format!("for room in the queue of rank {}", r % 97), 5));
    for manner in [
        DeathManner::Signal(11),
        DeathManner::OutOfMemory,
        DeathManner::Exit(3),
        DeathManner::NoFinalize,
        DeathManner::NeverJoined,
        DeathManner::Stopped,
        DeathManner::Lingered,
        DeathManner::Replaced,
        DeathManner::Signal(25),
    ] {
        let mut outcome = death(manner, others.clone().collect());
        outcome.survivors = vec!["a (pid 1)".into(), "b (pid 2)".into(), "c (pid 3)".into()];
        let text = explain("prog", &outcome).unwrap();
        assert!(text.lines().count() <= MAX_LINES, "{text}");
        assert!(text.lines().all(|line| line.len() <= 140), "{text}");
        assert!(text.contains("b (pid 2) and 1 more"), "{text}");
    }
}

#[test]
fn a_clean_end_says_nothing_unless_something_was_left_running() {
    let mut outcome = JobOutcome::without_ranks(0, JobEnd::Clean);
    assert_eq!(explain("prog", &outcome), None);
    outcome.leftovers.push("sleep (pid 9)".into());
    assert!(explain("prog", &outcome).unwrap().contains("left running: sleep (pid 9)"));
}

#[test]
fn an_interrupt_says_what_everybody_was_doing() {
    let doing = vec![doing(0, "computing", 0), doing(1, "computing", 0)];
    let ending = JobEnd::Interrupted { signal: 2, doing, killed: 1 };
    let mut outcome = JobOutcome::without_ranks(130, ending);
    outcome.ranks = vec![RankOutcome { pid: 1, end: ProcessEnd::Signal(2), clean: false }; 2];
    let text = explain("prog", &outcome).unwrap();
    assert!(text.contains("interrupted (SIGINT); all 2 ranks have ended, 1 of them"), "{text}");
    assert!(text.contains("ranks 0, 1: computing"), "{text}");
}

#[test]
fn a_job_that_the_launcher_had_to_end_says_so() {
    let ending = JobEnd::TakenOver { signal: 2, ranks: 4, killed: 3 };
    let text = explain("prog", &JobOutcome::without_ranks(130, ending)).unwrap();
    assert!(text.contains("interrupted (SIGINT), and its agents did not end its 4"), "{text}");
    assert!(text.contains("3 processes were still there"), "{text}");
    let ending = JobEnd::TakenOver { signal: 15, ranks: 4, killed: 3 };
    let outcome =
        JobOutcome { time_limit_ms: Some(5000), ..JobOutcome::without_ranks(124, ending) };
    let text = explain("prog", &outcome).unwrap();
    let limit = "time limit of 5.000 s (--time-limit), and its agents did not end its 4 ranks";
    assert!(text.contains(limit), "{text}");
}

#[test]
fn lists_of_ranks_are_short() {
    assert_eq!(rank_list(&[]), "");
    assert_eq!(rank_list(&[3]), "3");
    assert_eq!(rank_list(&[0, 1, 3, 4, 5, 9]), "0, 1, 3-5, 9");
    let odd: Vec<usize> = (0..500).map(|i| i * 2).collect();
    let text = rank_list(&odd);
    assert!(text.len() < 80 && text.ends_with("... (500 in all)"), "{text}");
}

#[test]
fn names_that_others_chose_are_shown_without_what_a_terminal_obeys() {
    let mut outcome = death(DeathManner::Signal(9), vec![doing(0, "in \u{9b}2J", 0)]);
    if let JobEnd::Death(report) = &mut outcome.ending {
        report.host = "h\x1b]0;x\x07".into();
    }
    outcome.survivors = vec!["s\x1b[2J (pid 9)".into()];
    let text = explain("p\n\x1b[31m", &outcome).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    for part in [r"`p\x0a\x1b[31m`", r"(h\x1b]0;x\x07)", r"s\x1b[2J (pid 9)", r"in \u{9b}2J"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn ranks_that_run_on_are_named_with_the_option_that_bounds_them() {
    let left = |linger_ns| RanksLeft { ranks: vec![1, 2], linger_ns };
    let text = lingering(&left(None));
    assert!(text.starts_with("ranks 1, 2 are still running") && text.contains("--linger"));
    assert!(
        lingering(&left(Some(9_000_000_000))).ends_with("it ends 9 s after the last clean end")
    );
}
