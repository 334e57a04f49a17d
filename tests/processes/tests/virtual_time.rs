//! Jobs in virtual time: their times, whatever the machine does meanwhile, and their ends.

use clump_os::topology;
use clump_process_tests::{Finished, Folder, Job, program};
use clump_test_tier::first_of;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The machine of the worked example of docs/virtual.md.
const WORKED: &str = "o_send_us = 3\no_receive_us = 3\ng_us = 6\nL_us = 5\nmb_per_s = 1000\n";

/// Runs a program for each rank in virtual time.
pub fn job(machine: &str, options: &str, programs: &[&str]) -> Job {
    let options = format!("-n {} --virtual {machine} {options}", programs.len());
    let programs: Vec<OsString> = programs.iter().map(OsString::from).collect();
    Job::of_program(&options, program("virtual-time"), programs)
}

/// Writes a machine file with the same costs on both paths.
fn machine(folder: &Folder, costs: &str) -> String {
    let path = folder.path().join("machine.toml");
    std::fs::write(&path, format!("[node]\n{costs}[network]\n{costs}")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Returns the times at which ranks have ended, by rank.
pub fn ends(done: &Finished) -> Vec<u64> {
    let mut ends: Vec<(u64, u64)> = Vec::new();
    for line in done.out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        ends.push((words[1].parse().unwrap(), words[4].parse().unwrap()));
    }
    ends.sort_unstable();
    ends.into_iter().map(|(_, end)| end).collect()
}

/// Returns the line of the summary without the machine's time and the turns.
pub fn summary(done: &Finished) -> String {
    let line = done.err.lines().find(|line| line.starts_with("virtual time: "));
    let line = line.unwrap_or_else(|| panic!("no summary in\n{}", done.err));
    let is_virtual = |part: &&str| !part.contains(" here;") && !part.contains(" turns;");
    line.split_inclusive([',', ';']).filter(is_virtual).collect()
}

#[test]
fn the_worked_example_ends_when_it_should() {
    let folder = Folder::new();
    let machine = machine(&folder, WORKED);
    for nodes in [1, 2] {
        let options = format!("--nodes {nodes} --cpu fixed:0");
        let done = job(&machine, &options, &["c10000 q1 a1", "c2000 w1"]).finish();
        assert_eq!(ends(&done), [32_000, 24_000], "{}{}", done.out, done.err);
    }
}

#[test]
fn knobs_make_the_machine_slower() {
    let folder = Folder::new();
    let machine = machine(&folder, WORKED);
    let end = |knobs: &str| {
        let options = format!("--nodes 2 --cpu fixed:0 --emu {knobs}");
        ends(&job(&machine, &options, &["c10000 q1 a1", "w1"]).finish())[0]
    };
    // Two messages: 10 us, and o, L and o for each.
    assert_eq!(end("o=+100us"), 32_000 + 4 * 100_000);
    assert_eq!(end("L=100us"), 32_000 + 2 * 95_000);
    assert_eq!(end("g=100us"), 32_000, "neither rank sends two");
    assert_eq!(end("o=+100us,scope=shm"), 32_000);
}

#[test]
fn of_a_sampled_region_some_executions_are_measured_and_the_others_cost_their_mean() {
    let folder = Folder::new();
    let machine = machine(&folder, WORKED);
    // Two executions of 1,000 and 3,000 ns, and three that cost 2,000; each reads the clock twice.
    // Means are those of a rank.
    let programs = ["c500 m1000:2 m3000:2 c500 m9:2 m9:2 m9:2", "c500 m7000:1 m9:1"];
    let done = job(&machine, "--cpu fixed:0", &programs).finish();
    let reads = |regions: u64| regions * 2 * 10;
    assert_eq!(ends(&done), [1_000 + 10_000 + reads(5), 500 + 14_000 + reads(2)], "{}", done.out);
    assert!(done.out.contains("1000 3000") && !done.out.contains(" 9"), "{}", done.out);
}

#[test]
fn a_traced_run_is_the_same_and_its_trace_has_its_time() {
    let folder = Folder::new();
    let traces = folder.path().join("t");
    let traced = format!("--nodes 2 --cpu fixed:100 --trace {}", traces.display());
    let programs = ["q1 q1 f1 Q b a2 b", "w2 b q0 a1 b"];
    let run = |options: &str| job("now1997", options, &programs).finish();
    let (plain, traced) = (run("--nodes 2 --cpu fixed:100"), run(&traced));
    assert_eq!((ends(&plain), summary(&plain)), (ends(&traced), summary(&traced)));
    let predicted = Job::command(&format!("lab predict {}", traces.display())).finish();
    predicted.expect_clean();
    let residual = "residual of the replay at no setting: +0.000 us";
    assert!(predicted.out.contains(residual), "{}", predicted.out);
    assert!(!predicted.out.contains("without their other end"), "{}", predicted.out);
}

#[test]
fn ten_runs_on_one_and_two_cores_beside_load_are_one() {
    let programs =
        ["s1 s2 s3 b c70000 w3 b", "s0 b q2 a1 c900 b", "c7000 s0 b w1 b", "s0:5000 b c3 b"];
    let cores = topology::affinity().unwrap();
    let mut seen = Vec::new();
    for run in 0..20 {
        let (cores, loaded) = (&cores[..cores.len().min(1 + run % 2)], run >= 10);
        let load = loaded.then(|| Command::new("sh").args(["-c", "while :; do :; done"]).spawn());
        let run = || {
            // What this thread starts is confined with it.
            topology::set_affinity(cores).unwrap();
            job("clump1997", "--nodes 2 --cpu fixed:250", &programs).finish()
        };
        let done = std::thread::scope(|scope| scope.spawn(run).join().unwrap());
        if let Some(Ok(mut load)) = load {
            load.kill().unwrap();
            load.wait().unwrap();
        }
        assert_eq!(done.code, 0, "{}", done.err);
        seen.push((ends(&done), summary(&done)));
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
    assert!(seen[0].0.iter().all(|&end| end > 70_000), "{seen:?}");
}

#[test]
fn ranks_that_all_wait_are_named() {
    for programs in [["w1", "w1"], ["w1", "spin"], ["spin", "spin"]] {
        let done = job("now1997", "--nodes 2 --cpu fixed:0", &programs).finish();
        assert_eq!(done.code, 1, "{}", done.err);
        let said = "deadlock: all ranks wait, and no message is on its way: rank 0 ";
        assert!(done.err.contains(said), "{}", done.err);
    }
}

#[test]
fn one_sided_operations_take_the_time_of_their_messages_and_of_their_execution() {
    let folder = Folder::new();
    let path = folder.path().join("machine.toml");
    std::fs::write(&path, format!("execute_us = 2\n[node]\n{WORKED}[network]\n{WORKED}")).unwrap();
    // A request is sent at 3, due at 8, received at 11, executed at 13; its answer is sent at 16,
    // due at 21, received at 24. Bytes behind the first take 1 ns each, and the gap is 6.
    let programs =
        ["f1", "c4000000 f1 f1", "c1000000 u1 Q l1", "c2000000 g1:1001", "c3000000 x1:1001 Q"];
    let done = job(path.to_str().unwrap(), "--nodes 5 --cpu fixed:0", &programs).finish();
    let expected = [24_000, 4_000_020, 1_054_000, 2_025_000, 3_030_000];
    assert_eq!(ends(&done), expected, "{}{}", done.out, done.err);
    assert!(done.out.contains("rank 2 ends at 1054000 saw 2"), "{}", done.out);
    assert!(done.out.contains("saw 2 3"), "{}", done.out);
}

#[test]
fn answers_for_which_a_rank_makes_room_late_arrive() {
    // Answers fill the lane of a rank that computes, so requests behind them wait at the executor.
    let gets = "g0:1 ".repeat(700) + "c90000000 Q";
    let done = job("now1997", "--nodes 2 --cpu fixed:0", &["c1", &gets]).finish();
    assert_eq!(done.code, 0, "{}", done.err);
    // 700 overheads of sending, the computation, and waits that look again behind it.
    assert!((92_030_000..112_000_000).contains(&ends(&done)[1]), "{}", done.out);
}

#[test]
fn applications_on_global_memory_end_at_the_same_time_in_every_run() {
    let applications = [
        "radix --keys 20011",
        "em3d --manner write",
        "sample --keys 20011",
        "connect",
        "radb --keys 20011",
        "murphi",
    ];
    let run = |words: &str| {
        let line = format!("app {words} -n 8 --nodes 8 --virtual now1997 --cpu fixed:50");
        let done = Job::command(&line).finish();
        assert_eq!(done.code, 0, "{line}: {}", done.err);
        assert!(done.out.contains("verified: yes"), "{line}: {}", done.out);
        summary(&done)
    };
    for words in first_of(2, &applications) {
        assert_eq!(run(words), run(words), "{words}");
    }
}

#[test]
fn recorded_computation_is_charged_again_at_other_overheads() {
    let folder = Folder::new();
    let recording = folder.path().join("cpu");
    let programs = ["q1 q2 a2 b s1 b f1 Q b", "w1 b w1 b l1 b", "w1 b b u1 Q b"];
    let run = |o: u32, cpu: &str| {
        let machine = machine(&folder, &WORKED.replace("= 3", &format!("= {o}")));
        let options = format!("--nodes 3 --cpu {cpu}:{}", recording.display());
        let done = job(&machine, &options, &programs).finish();
        assert_eq!(done.code, 0, "{}{}", done.out, done.err);
        (ends(&done), summary(&done))
    };
    run(3, "record");
    let first = run(3, "replay");
    assert_eq!(first, run(3, "replay"), "the same in every run");
    for (_, line) in [first, run(50, "replay")] {
        assert!(line.contains(" 0.00 % of it not recorded"), "{line}");
    }
}

#[test]
fn a_replay_is_the_recorded_run() {
    let folder = Folder::new();
    let clump = program("clump-under-test").display().to_string();
    let digest = |app: &str, cpu: &str, knobs: &str| {
        let recording = folder.path().join(app.split(' ').next().unwrap());
        let cpu = format!("--cpu {cpu}:{}", recording.display());
        let options = format!("--virtual now1997 -n 4 --nodes 4 --json {cpu} {knobs}");
        let done = Job::command(&format!("run {options} {clump} app {app} --json")).finish();
        done.expect_clean();
        let time = done.json()["virtual_time"].clone();
        assert_eq!(time["diverged_ns"].as_u64(), Some(0), "{time}");
        (time["digest"].clone(), time["computed_ns"].as_u64().unwrap())
    };
    // Small updates are collected, and sent when they are old, too. Of connect, up to 6 % of the
    // computation is not found on other machines.
    for (app, always) in
        [("radix --keys 4096", true), ("em3d --steps 2", true), ("connect --size ci", false)]
    {
        let recorded = digest(app, "record", "");
        assert_eq!(digest(app, "replay", ""), recorded, "{app}");
        assert_eq!(digest(app, "replay", ""), recorded, "{app}");
        if always {
            let slower = digest(app, "replay", "--emu o=+30us,L=+20us");
            assert_eq!(slower.1, recorded.1, "{app}");
        }
    }
}

#[test]
fn windows_of_long_gets_grow_by_virtual_time() {
    let gets = format!("b {}", "g1:1000000 ".repeat(8));
    let run = || job("now1997", "--nodes 2 --cpu fixed:100", &[&gets, "b"]).finish();
    let first = run();
    assert_eq!(first.code, 0, "{}", first.err);
    (0..4).for_each(|_| assert_eq!(summary(&run()), summary(&first)));
}

#[test]
fn the_least_of_several_recordings_is_charged() {
    let folder = Folder::new();
    let recording = folder.path().join("cpu");
    let run = |cpu: &str, ranks: u32| {
        let cpu = format!("--cpu {cpu}:{}", recording.display());
        let clump = program("clump-under-test").display().to_string();
        let options = format!("--virtual now1997 -n {ranks} --nodes {ranks} --json {cpu}");
        Job::command(&format!("run {options} {clump} app em3d --steps 2 --json")).finish()
    };
    let replayed = || {
        let time = run("replay", 4).json()["virtual_time"].clone();
        assert_eq!(time["diverged_ns"].as_u64(), Some(0), "{time}");
        time["computed_ns"].as_u64().unwrap()
    };
    let mut least = u64::MAX;
    for _ in 0..4 {
        assert_eq!(run("learn", 4).code, 0);
        let now = replayed();
        assert!(now <= least && now > 0, "{now} ns, {least} before");
        least = now;
    }
    // What is read is one rank's of as many, and stays as it is where it cannot be.
    for cpu in ["learn", "replay"] {
        let done = run(cpu, 2);
        assert_ne!(done.code, 0, "{}", done.err);
        assert!(done.err.contains("record with as many ranks"), "{}", done.err);
    }
    assert_eq!(replayed(), least);
}

#[test]
fn parts_that_lose_the_processor_cost_their_processor_time_and_are_counted() {
    const NS: u64 = 300_000_000;
    let cores = topology::affinity().unwrap();
    let spin = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut load: Vec<_> = (0..2 * cores.len()).map(spin).collect();
    let done = job("now1997", "--json", &[&format!("y{NS}")]).finish();
    for mut spinner in load.drain(..) {
        spinner.kill().unwrap();
        spinner.wait().unwrap();
    }
    done.expect_clean();
    let time = done.json()["virtual_time"].clone();
    let [computed, preempted] =
        ["computed_ns", "preempted_ns"].map(|what| time[what].as_u64().unwrap());
    // A rank begins at 50 ms.
    assert!((NS..NS + NS / 2).contains(&computed), "{time}");
    assert!((NS..=computed).contains(&preempted), "{time}");
}

#[test]
fn a_killed_holder_of_the_token_ends_the_job_as_usual() {
    let done = job("now1997", "--nodes 3 --cpu fixed:0", &["w1", "kill", "b"]).finish();
    done.expect(137, &["rank 1 of `virtual-time` was killed by signal 9 (SIGKILL)"]);
}

#[test]
fn loops_on_the_clock_end_and_a_day_passes_at_once() {
    let programs = ["t1000000", "z86400000000000"];
    let done = job("now1997", "--nodes 2 --cpu fixed:0", &programs).finish();
    let ends = ends(&done);
    assert!((1_000_000..=1_000_030).contains(&ends[0]), "{ends:?}");
    assert_eq!(ends[1], 86_400_000_000_000);
}

#[test]
fn measured_computation_counts_and_waits_do_not() {
    let done = job("now1997", "--nodes 2", &["z5000000 q1 a1", "w1"]).finish();
    assert_eq!(done.code, 0, "{}", done.err);
    // Computation of microseconds, beside 5 ms of sleep, 8 us a message each way, and o_r.
    assert!(ends(&done)[0] > 5_021_600, "{:?}", done.out);
    assert!(summary(&done).contains("computation measured"), "{}", done.err);
}

#[test]
fn what_is_not_carried_out_is_refused_by_name() {
    let refused = |options: &str, part: &str| {
        let done = job("now1997", options, &["", ""]).finish();
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains(part), "{}", done.err);
    };
    refused("--nodes 2 --ni proxy:1", "--ni");
    refused("--nodes 2 --emu o=1us", "takes 2900 ns anyway");
    refused("--nodes 2 --emu o=+1us,class=bulk", "all classes of messages");
    refused("--cpu replayed", "`measured`, `fixed:NS`");
    refused("--on-death continue", "--on-death continue");
    let missing = job("no-such-machine", "", &["", ""]).finish();
    assert!(missing.err.contains("none of now1997, clump1997"), "{}", missing.err);
}

#[test]
fn random_programs_end_when_a_second_simulator_says() {
    let oracle = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../oracles/virtual_time.py");
    let mut command = Command::new("python3");
    command.arg(oracle).args([program("clump-under-test"), program("virtual-time")]);
    let done = command.args(["60", "7"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}{why}");
    assert!(said.contains("60 programs of seed 7 end at the same times"), "{said}");
}
