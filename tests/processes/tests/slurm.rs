//! Jobs by Slurm: ranks that `srun` starts, and `clump run` inside an allocation.

use clump_os::signal;
use clump_process_tests::slurm::SlurmCluster;
use clump_process_tests::{Finished, program};

/// Returns a cluster; says so where there can be none.
fn cluster() -> Option<SlurmCluster> {
    SlurmCluster::start().map_err(|why| println!("SKIPPED: {why}")).ok()
}

/// Runs `prog` by `srun`.
fn srun(cluster: &SlurmCluster, options: &str, words: &str) -> Finished {
    let path = program("prog").display().to_string();
    let all: Vec<&str> =
        options.split(' ').chain([path.as_str()]).chain(words.split(' ')).collect();
    cluster.job("srun", &all).finish()
}

#[test]
fn srun_starts_a_job_of_its_size() {
    let Some(cluster) = cluster() else { return };
    let mut kinds = vec!["pmi2", "none"];
    // The plugin has a package of its own.
    if cluster.job("srun", &["--mpi=list"]).finish().err.contains("pmix") {
        kinds.push("pmix");
    } else {
        println!("SKIPPED: this Slurm has no PMIx");
    }
    for kind in kinds {
        for shape in ["-N1 -n3", "-N2 -n5"] {
            let ended = srun(&cluster, &format!("{shape} --mpi={kind}"), "talk 20");
            assert_eq!(ended.code, 0, "{kind} {shape}: {}", ended.err);
            assert!(!ended.err.contains("clump:"), "{kind} {shape}: {}", ended.err);
        }
        for (shape, words, cause) in [
            ("-N1 -n3", "die 9 2", "rank 2 of `prog` was killed by signal 9"),
            ("-N1 -n3", "exit 7 1", "rank 1 of `prog` exited with code 7"),
            ("-N2 -n5", "exit 7 4", "rank 4 of `prog` exited with code 7"),
        ] {
            // Without that option, `srun` lets the others run on: clump ends them.
            let ended = srun(&cluster, &format!("{shape} --mpi={kind}"), words);
            assert_ne!(ended.code, 0, "{kind} {words}: {}", ended.err);
            assert!(ended.err.contains(cause), "{kind} {words}: {}", ended.err);
        }
    }
}

#[test]
fn an_allocation_gives_the_machines() {
    let Some(cluster) = cluster() else { return };
    let clump = program("clump-under-test").display().to_string();
    let run = |words: &[&str]| {
        let all = [&["-N2", "-n4", "--quiet", &clump, "run"][..], words].concat();
        cluster.job("salloc", &all)
    };
    let script = "echo $CLUMP_RANK of $CLUMP_NRANKS on $SLURMD_NODENAME";
    let ended = run(&["sh", "-c", script]).finish();
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 4, "{}{}", ended.out, ended.err);
    assert!(lines[0] == "0 of 4 on n1" && lines[3] == "3 of 4 on n2", "{}", ended.out);
    let path = program("prog").display().to_string();
    let ended = run(&[&path, "talk", "20"]).finish();
    ended.expect_clean();
    let ended = run(&[&path, "die", "11", "3"]).finish();
    assert_eq!(ended.code, 139, "{}", ended.err);
    assert!(ended.err.contains("rank 3 of `prog` was killed by signal 11"), "{}", ended.err);
    assert!(ended.err.contains("(n2)"), "it names the machine: {}", ended.err);
    let ended = run(&["-n", "2", "--nodes", "2", &path, "barrier", "3"]).finish();
    ended.expect_clean();
    // Both agents, and with them their ranks, end with the launcher.
    let folder = clump_process_tests::Folder::new();
    let ready = folder.path().display().to_string();
    let job = run(&[&path, "forever", "1", "--together", "--ready", &ready]).start();
    job.await_ready(folder.path(), 1..2);
    let is_launcher = |process: &&clump_os::procfs::Process| {
        let line = clump_os::procfs::command_line(process.pid);
        let line = line.to_string_lossy();
        line.starts_with(&clump) && line.contains(" run ")
    };
    let launcher = job.processes().iter().find(is_launcher).map(|process| process.pid);
    job.signal(launcher.expect("the launcher"), signal::KILL);
    job.finish();
}

#[test]
fn ranks_get_all_processors_of_their_node_whatever_tasks_are_bound_to() {
    let cluster = match SlurmCluster::with_affinity() {
        Ok(cluster) => cluster,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let all = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        lines.map(|list| list.trim().to_owned()).collect::<Vec<_>>()
    };
    let own = allowed(&all);
    if clump_os::topology::usable_cores() < 2 {
        return println!("SKIPPED: one processor, to which all is bound");
    }
    let clump = program("clump-under-test").display().to_string();
    for options in ["-N2 --ntasks-per-node=1 --cpus-per-task=2", "-N2 --ntasks-per-node=2"] {
        let more = ["--exclusive", "--quiet", &clump, "run"];
        let words: Vec<&str> = options.split(' ').chain(more).collect();
        let job = cluster.job("salloc", &words).with_args(&["grep", "Cpus_", "/proc/self/status"]);
        let ended = job.with(|command| {
            command.env("SLURM_CPU_BIND", "cores");
        });
        let ended = ended.finish();
        assert_eq!(ended.code, 0, "{options}: {}", ended.err);
        let ranks = allowed(&ended.out);
        assert!(ranks.len() >= 2 && ranks.iter().all(|one| *one == own[0]), "{options}: {ranks:?}");
    }
}
