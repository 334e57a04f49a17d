use super::*;
use clump_boot::virtual_machine::VirtualMachine;
use clump_trace::line_state::LineTimes;

fn plan() -> SweepPlan {
    let settings = (1..=7).map(|at| format!("L=+{at}us")).collect();
    SweepPlan::new(vec!["run".into(), "program".into()], settings, 5, 4)
}

/// Seconds of a machine that becomes slower: 10 % from run to run.
fn drift(turn: usize, setting: usize) -> f64 {
    1.1_f64.powi(i32::try_from(turn).unwrap()) * (1.0 + setting as f64)
}

fn run_on(journal: &mut SweepJournal, most: usize) -> Vec<(usize, usize)> {
    let mut order = Vec::new();
    while order.len() < most
        && let Some((turn, setting)) = journal.next()
    {
        let end = RunEnd::Took(drift(turn, setting));
        journal.add(SweepRun::of((turn, setting), end));
        order.push((turn, setting));
    }
    order
}

#[test]
fn a_round_has_every_setting_once_in_its_own_order_and_baselines_between() {
    let (first, second) = (plan().round(0), plan().round(1));
    assert_ne!(first, second, "another order");
    for round in [first, second] {
        let mut settings: Vec<usize> = round.iter().copied().filter(|&s| s != 0).collect();
        settings.sort_unstable();
        assert_eq!(settings, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((round.first(), round.last()), (Some(&0), Some(&0)));
        assert!(round.split(|&s| s == 0).all(|part| part.len() <= BETWEEN));
    }
}

#[test]
fn runs_of_unlike_states_of_the_machine_are_not_divided_by_each_other() {
    let mut journal = SweepJournal::new(plan(), 0.0);
    let near = LineTimes { before_ns: 95.0, after_ns: 100.0 };
    let far = LineTimes { before_ns: 480.0, after_ns: 500.0 };
    let change = LineTimes { before_ns: 95.0, after_ns: 480.0 };
    // A far baseline takes twice as long; the second run at the setting saw a change.
    let runs = [(0, 1.0, near), (1, 3.0, near), (0, 2.0, far), (1, 9.0, change), (0, 1.0, near)];
    for (turn, (setting, seconds, lines)) in runs.into_iter().enumerate() {
        let run = SweepRun::of((turn, setting), RunEnd::Took(seconds));
        journal.add(SweepRun { lines: Some(lines), ..run });
    }
    let slowdown = journal.slowdown(1).unwrap();
    assert_eq!((slowdown.ratio.value, slowdown.base_s), (3.0, 1.0));
    let note = journal.line_note().unwrap();
    assert!(note.contains("95 to 480 ns; 1 runs during a change are left out"), "{note}");
}

#[test]
fn a_killed_sweep_goes_on_where_its_journal_ends() {
    let mut whole = SweepJournal::new(plan(), 0.0);
    let order = run_on(&mut whole, usize::MAX);
    let mut part = SweepJournal::new(plan(), 0.0);
    let mut again = run_on(&mut part, 9);
    let mut text = serde_json::to_string(&part.plan).unwrap() + "\n";
    for run in part.runs.values() {
        text += &(serde_json::to_string(run).unwrap() + "\n");
    }
    text += "{\"turn\":9,\"sett";
    let mut resumed = SweepJournal::read(&text, plan(), 0.0).unwrap();
    let order_of = |journal: &SweepJournal| {
        journal.runs.values().map(|run| (run.turn, run.setting)).collect::<Vec<_>>()
    };
    assert_eq!(order_of(&resumed), order_of(&part), "the half line is left out");
    again.extend(run_on(&mut resumed, usize::MAX));
    assert_eq!(again, order);
    assert!(resumed.next().is_none() && resumed.left() == 0);
}

#[test]
fn baselines_beside_each_run_take_the_drift_out() {
    let mut journal = SweepJournal::new(plan(), 0.0);
    run_on(&mut journal, usize::MAX);
    for setting in 1..=7 {
        let slowdown = journal.slowdown(setting).unwrap().ratio.value;
        let expected = 1.0 + setting as f64;
        assert!((slowdown / expected - 1.0).abs() < 0.2, "{setting}: {slowdown}");
    }
}

#[test]
fn a_slowdown_is_a_ratio_of_sums_and_of_the_phases_where_all_runs_have_them() {
    let mut journal = SweepJournal::new(plan(), 0.0);
    // Whole jobs take 1 s more than their phases; the machine becomes twice as slow.
    for (turn, (setting, phases)) in
        [(0, 1.0), (1, 4.0), (0, 1.0), (0, 2.0), (1, 6.0), (0, 2.0)].into_iter().enumerate()
    {
        let run = SweepRun::of((turn, setting), RunEnd::Took(phases + 1.0));
        journal.add(SweepRun { phases_s: Some(phases), ..run });
    }
    let Slowdown { ratio, base_s } = journal.slowdown(1).unwrap();
    assert_eq!((ratio.value, ratio.low, ratio.high, base_s), (10.0 / 3.0, 3.0, 4.0, 1.5));
    assert!(journal.is_of_phases() && journal.was_run(1) && !journal.was_run(2));
    journal.add(SweepRun::of((6, 2), RunEnd::Took(9.0)));
    assert!(!journal.is_of_phases());
    assert_eq!(journal.slowdown(1).unwrap().ratio.value, 12.0 / 5.0);
}

#[test]
fn in_virtual_time_each_setting_is_run_once() {
    let machine = VirtualMachine::find("now1997").unwrap();
    let plan = plan().in_virtual_time(VirtualSweep { machine, cpu: "fixed:9".into(), learn: 1 });
    let mut journal = SweepJournal::new(plan.clone(), 0.01);
    assert_eq!(run_on(&mut journal, usize::MAX), (0..8).map(|at| (at, at)).collect::<Vec<_>>());
    assert!(journal.is_exact() && journal.next().is_none() && journal.left() == 0);
    let slowdown = journal.slowdown(2).unwrap().ratio;
    assert_eq!((slowdown.value, slowdown.samples), (drift(2, 2), 1));
    let diverged_ns = 25;
    let digest = "1f".to_owned();
    let run = VirtualRun { computed_ns: 1000, diverged_ns, messages: 3, digest };
    let last = SweepRun { virtual_time: Some(run), ..SweepRun::of((7, 7), RunEnd::Took(9.0)) };
    journal.add(last);
    let text = crate::render::text(&journal.report().unwrap());
    assert!(text.contains("2.50 %") && text.contains("virtual, on now1997"), "{text}");
    let lines = [serde_json::to_string(&plan).unwrap(), String::new()].join("\n");
    assert!(SweepJournal::load(&lines).unwrap().is_exact(), "{lines}");
}

#[test]
fn a_setting_that_is_known_or_does_not_finish_is_not_run_again() {
    let mut journal = SweepJournal::new(plan(), 0.02);
    let mut runs = [0; 8];
    while let Some((turn, setting)) = journal.next() {
        runs[setting] += 1;
        let end = match setting {
            3 => RunEnd::DidNotFinish(10.0),
            5 => RunEnd::Failed(7),
            6 => RunEnd::Took(drift(turn, setting)),
            _ => RunEnd::Took(1.0),
        };
        let locks = (setting == 3).then_some(LockCounts { acquired: 4, failed: 10 });
        journal.add(SweepRun { locks, ..SweepRun::of((turn, setting), end) });
    }
    assert_eq!(runs[1..], [3, 3, 1, 3, 1, 4, 3]);
    let text = crate::render::text(&journal.report().unwrap());
    assert!(
        text.contains("did not finish in 10 s") && text.contains("ended with code 7"),
        "{text}"
    );
    let locks = "L=+3us: 10 attempts at locks failed, 2.5 per acquired lock";
    assert!(text.contains(locks), "{text}");
    let none = LockCounts { acquired: 0, failed: 3 };
    assert!(none.note().unwrap().contains("none succeeded"));
    assert_eq!(LockCounts { acquired: 3, failed: 0 }.note(), None);
}

#[test]
fn runs_of_journals_without_locks_are_read() {
    let line = r#"{"turn":1,"setting":2,"end":{"took":1.5}}"#;
    let run: SweepRun = serde_json::from_str(line).unwrap();
    assert_eq!(run.locks, None);
    assert_eq!(serde_json::to_string(&run).unwrap(), line);
}

#[test]
fn a_journal_of_another_sweep_or_a_damaged_one_is_refused() {
    let other = SweepPlan { seed: 6, ..plan() };
    let line = serde_json::to_string(&other).unwrap() + "\n";
    assert!(SweepJournal::read(&line, plan(), 0.0).unwrap_err().to_string().contains("another"));
    let damaged = serde_json::to_string(&plan()).unwrap() + "\n{}\n";
    assert!(SweepJournal::read(&damaged, plan(), 0.0).unwrap_err().to_string().contains("line 2"));
    assert!(SweepJournal::read("no plan\n", plan(), 0.0).is_err());
    assert!(SweepJournal::read("", plan(), 0.0).unwrap().is_empty());
}
