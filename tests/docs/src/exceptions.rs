//! Command lines of pages and helps that are not run at night, each with the reason.

use crate::printed::Printed;

const LONG: &str = "takes longer than 10 s";
const MACHINES: &str = "needs several machines";
const ENGINE: &str = "needs an engine that is not everywhere; `ci --only elsewhere` runs such jobs";

const MPI: &str = "needs an MPI; `ci --only elsewhere` runs such programs";
const RUNNING: &str = "needs a job that runs meanwhile";
const FILES: &str = "needs files that other commands, or readers, make";
const PACKAGES: &str = "`ci --only packages` makes and installs packages";

/// Page, beginning of the command line, and why it is not run.
pub const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo ", LONG),
    ("docs/apps/barnes.md", "clump app barnes", LONG),
    ("docs/apps/barnes.md", "CLUMP_EMU=", "the first ends with an error, as the page says"),
    ("docs/apps/murphi.md", "clump app murphi", LONG),
    ("docs/apps/pray.md", "clump app pray", LONG),
    ("docs/beside-mpi.md", "mpicc", MPI),
    ("docs/beside-mpi.md", "CLUMP_AGENT=", MPI),
    ("docs/c.md", "cargo xtask install", "run in front of all others"),
    (
        "docs/c.md",
        "gcc -I crates",
        "links the archive with its debug information, which takes long",
    ),
    ("docs/commands.md", "clump run -n 4 --nodes 2 --netns", "needs root, or namespaces of users"),
    (
        "docs/connections.md",
        "clump run",
        "two terminals: the second waits for a token of the first",
    ),
    ("docs/deploy/mpich.md", "mpiexec", ENGINE),
    ("docs/deploy/open-mpi.md", "mpirun", ENGINE),
    ("docs/deploy/slurm.md", "salloc", ENGINE),
    ("docs/deploy/slurm.md", "clump run", "needs an allocation"),
    ("docs/deploy/slurm.md", "srun", ENGINE),
    ("docs/deploy/two-laptops.md", "clump run --hosts", MACHINES),
    ("docs/deploy/workstations.md", "clump run --hostfile room2 ./prog", MACHINES),
    ("docs/deploy/workstations.md", "clump run --hostfile room2 -n", MACHINES),
    ("docs/lab.md", "clump lab calibrate", LONG),
    ("docs/lab.md", "clump lab verify", LONG),
    ("docs/lab.md", "cargo build", LONG),
    ("docs/lab.md", "target/release/examples/", "ten million events"),
    ("docs/lab.md", "clump lab sweep", LONG),
    ("docs/lab.md", "clump lab report", "needs files of measurements, which take long"),
    ("docs/lab.md", "clump lab logp", LONG),
    ("docs/machines.md", "clump run --hosts a:8,b:8 ./prog", MACHINES),
    ("docs/machines.md", "clump run --hosts a:8,b:8 -n 12", MACHINES),
    ("docs/machines.md", "clump run --hostfile FILE", MACHINES),
    ("docs/machines.md", "clump run -v", MACHINES),
    ("docs/machines.md", "clump doctor --hosts", MACHINES),
    ("docs/design/network.md", "cargo run", LONG),
    ("docs/design/onesided.md", "cargo run", LONG),
    ("docs/packages.md", "cargo xtask dist", PACKAGES),
    ("docs/packages.md", "tar", PACKAGES),
    ("docs/packages.md", "apt-get", PACKAGES),
    ("docs/pgas.md", "cargo build", LONG),
    ("docs/proxies.md", "cargo run", LONG),
    ("docs/study.md", "clump lab study", LONG),
    ("docs/study.md", "clump lab report", FILES),
    ("docs/svm.md", "clump run --hosts", MACHINES),
    ("docs/tour.md", "cargo run", LONG),
    ("docs/tour.md", "clump run --hosts", MACHINES),
    ("docs/testing.md", "cargo ", LONG),
    ("docs/testing.md", "CLUMP_TEST_TIER", LONG),
    ("docs/virtual.md", "clump lab sweep", LONG),
    ("docs/virtual.md", "clump lab report", FILES),
    ("docs/virtual.md", "clump lab study", LONG),
    ("clump demo --help", "clump demo", LONG),
    ("clump stats --help", "clump stats --", RUNNING),
    ("clump top --help", "clump top", RUNNING),
    ("clump app murphi --help", "clump app murphi model.m", FILES),
    ("clump app pray --help", "clump app pray -n 4 --scene teapot.nff", FILES),
    ("clump app valsort --help", "clump app valsort", FILES),
    ("clump lab path --help", "clump lab path", LONG),
    ("clump lab report --help", "clump lab report", FILES),
    ("clump lab study --help", "clump lab study", LONG),
    ("clump lab sweep --help", "clump lab sweep", LONG),
];

/// Returns why a printed command line is not run, if it is not.
pub fn reason(printed: &Printed) -> Option<&'static str> {
    let of = |(page, start, why): &(&str, &str, &'static str)| {
        (printed.page == *page && printed.text.starts_with(start)).then_some(*why)
    };
    NOT_RUN.iter().find_map(of)
}
