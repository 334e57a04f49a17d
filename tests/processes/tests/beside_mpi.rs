//! MPI and clump in one process: by the engines of MPICH and Open MPI, and by `clump run`. An MPI
//! that cannot be compiled for is skipped, and says so.

use clump_process_tests::c_programs::{self, Linked, Workshop, capi};
use clump_process_tests::{Finished, Folder, Job, program};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Beginnings of the names that MPICH and Open MPI give to memory in [`SHARED`].
const SEGMENTS: [&str; 2] = ["mpich_shm_", "vader_segment."];
const SHARED: &str = "/dev/shm";

/// Memory that was there before an MPI ran. What killed ranks of it leave is removed at the end:
/// names that are new, and that no process has mapped or open any more.
struct MpiSegments {
    before: BTreeSet<PathBuf>,
}

impl MpiSegments {
    fn look() -> Self {
        Self { before: Self::all() }
    }

    fn all() -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(SHARED).into_iter().flatten().flatten();
        let named = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            SEGMENTS.iter().any(|start| name.starts_with(start))
        };
        entries.map(|entry| entry.path()).filter(named).collect()
    }

    /// Returns true if a process of this user has this file mapped or open.
    fn is_used(path: &Path) -> bool {
        let wanted = path.to_string_lossy();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.map(|process| process.path()).any(|process| {
            let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
            let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            maps.lines().any(|line| line.ends_with(&*wanted))
                || open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|to| to == path)
        })
    }
}

impl Drop for MpiSegments {
    fn drop(&mut self) {
        for path in Self::all().difference(&self.before).filter(|path| !Self::is_used(path)) {
            fs::remove_file(path).ok();
        }
    }
}

/// An MPI: its compiler, the words that start ranks, and how clump is linked.
struct Mpi {
    compiler: &'static str,
    starter: &'static [&'static str],
    linked: Linked,
}

const ALL: [Mpi; 2] = [
    Mpi { compiler: "mpicc.mpich", starter: &["mpiexec.hydra"], linked: Linked::Static },
    Mpi {
        compiler: "mpicc.openmpi",
        starter: &["mpirun.openmpi", "--oversubscribe"],
        linked: Linked::Shared,
    },
];

impl Mpi {
    /// Compiles `tests/c/beside_mpi.c`; `None`, and a notice, where this MPI is not installed.
    fn built(&self, workshop: &Workshop) -> Option<PathBuf> {
        let folder = workshop.folder();
        // Debian has the compiler in the package of the engine, and the header in another.
        let probe = folder.join("probe.c");
        std::fs::write(&probe, "#include <mpi.h>\n").unwrap();
        let probed = Command::new(self.compiler).arg("-fsyntax-only").arg(&probe).output();
        if !probed.is_ok_and(|done| done.status.success()) {
            println!("SKIPPED {}: Debian's packages libmpich-dev, libopenmpi-dev", self.compiler);
            eprintln!("SKIPPED {}: Debian's packages libmpich-dev, libopenmpi-dev", self.compiler);
            return None;
        }
        let out = folder.join(self.compiler);
        let mut command = Command::new(self.compiler);
        command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]);
        command.arg(capi().join("include")).arg(capi().join("tests/c/beside_mpi.c"));
        match self.linked {
            Linked::Static => command.arg(folder.join("libclump.a")).arg("-Wl,--gc-sections"),
            Linked::Shared => {
                let rpath = format!("-Wl,-rpath,{}", folder.display());
                command.arg("-L").arg(folder).args([&rpath, "-lclump"])
            }
        };
        let done = command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&out).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(out)
    }

    /// Runs the program by this MPI's engine.
    fn run(&self, path: &Path, nodes: u32, words: &[&str]) -> Finished {
        // Open MPI leaves its folder there when a rank has failed.
        let temporary = Folder::new();
        let _segments = MpiSegments::look();
        let job = Job::any(self.starter[0]).with(|command| {
            command.env("TMPDIR", temporary.path());
            command.args(&self.starter[1..]).args(["-n", "4"]).arg(path).args(words);
            command.env("CLUMP_AGENT", program("clump-under-test"));
            command.env("CLUMP_ENGINE_NODES", nodes.to_string());
            // Open MPI starts nothing for root unless told.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        });
        job.finish()
    }
}

/// Calls `body` with each MPI that is here, and its program.
fn each(test: &str, body: impl Fn(&Mpi, &Path)) {
    let Some(workshop) = c_programs::workshop(test) else { return };
    for mpi in &ALL {
        if let Some(path) = mpi.built(&workshop) {
            body(mpi, &path);
        }
    }
}

#[test]
fn ranks_of_mpi_are_ranks_of_a_job() {
    each("MPI beside", |mpi, path| {
        for (nodes, last) in [(1, "clump"), (2, "mpi")] {
            let ended = mpi.run(path, nodes, &[last, "turns", "crossing", "pages", "children"]);
            let text = format!("{} {last}: {}{}", mpi.compiler, ended.out, ended.err);
            assert_eq!(ended.code, 0, "{text}");
            assert_eq!(ended.out.matches(" of 4 ended\n").count(), 4, "{text}");
            assert!(!ended.err.contains("clump:"), "{text}");
        }
    });
}

#[test]
fn a_death_ends_ranks_that_wait_in_clump_or_in_mpi() {
    each("deaths beside MPI", |mpi, path| {
        for part in ["death", "death-in-mpi"] {
            let ended = mpi.run(path, 1, &["clump", part]);
            let text = format!("{} {part}: {}{}", mpi.compiler, ended.out, ended.err);
            assert_ne!(ended.code, 0, "{text}");
            // An MPI that kills the others at once may be seen first: by its own report, or
            // by clump's, which then names one of the others.
            let ours = ended.err.contains(" of `mpicc.") && ended.err.contains("(SIGKILL)");
            let reports = ["exited on signal 9", "Killed (signal 9)"];
            let theirs = reports.iter().any(|report| ended.err.contains(report));
            assert!(ours || theirs, "{text}");
        }
    });
}

#[test]
fn memory_that_an_mpi_left_is_removed_and_no_other() {
    let made = |name: &str| {
        let path = Path::new(SHARED).join(format!("{name}{}", std::process::id()));
        fs::write(&path, "bytes").unwrap();
        path
    };
    let before = made("mpich_shm_before_");
    let segments = MpiSegments::look();
    let (left, used, other) =
        (made("vader_segment.left_"), made("mpich_shm_used_"), made("clump_test_other_"));
    let open = fs::File::open(&used).unwrap();
    drop(segments);
    let there = [&before, &left, &used, &other].map(|path| path.exists());
    drop(open);
    for path in [&before, &left, &used, &other] {
        fs::remove_file(path).ok();
    }
    assert_eq!(there, [true, false, true, true]);
}

#[test]
fn mpi_has_to_be_first() {
    each("the order beside MPI", |mpi, path| {
        let ended = mpi.run(path, 1, &["late"]);
        assert_ne!(ended.code, 0, "{}", ended.out);
        assert!(ended.err.contains("call MPI_Init before clump"), "{}", ended.err);
    });
}

#[test]
fn under_clump_each_rank_is_a_job_of_mpis_own() {
    each("MPI under clump run", |mpi, path| {
        let words = ["clump", "turns", "crossing", "pages", "children"];
        let words = words.map(Into::into);
        let temporary = Folder::new();
        let _segments = MpiSegments::look();
        let job = Job::of_program("-n 3 --nodes 2", path.as_os_str(), words).with(|command| {
            command.env("TMPDIR", temporary.path());
        });
        let ended = job.finish();
        let text = format!("{}: {}{}", mpi.compiler, ended.out, ended.err);
        assert_eq!(ended.code, 0, "{text}");
        assert_eq!(ended.out.matches(" of 3 ended\n").count(), 3, "{text}");
    });
}
