//! A cluster of Slurm on this machine: two nodes of four processors, with a folder, keys and ports
//! of their own, for as long as it is held. It takes root and Debian's packages.

use crate::{Folder, Job, program};
use clump_os::bound_child::BoundChild;
use clump_os::process;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that it takes, and the packages that have them.
const PROGRAMS: [&str; 4] = ["slurmctld", "slurmd", "munged", "srun"];
const PACKAGES: &str = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge";
/// Processors of each node, unless they are this machine's.
const CPUS: usize = 4;
/// Bytes of the key.
const KEY_BYTES: usize = 1024;

/// A running cluster.
#[derive(Debug)]
pub struct SlurmCluster {
    // Ended in this order: daemons before what they write into.
    _daemons: Vec<BoundChild>,
    folder: Folder,
}

impl SlurmCluster {
    /// Starts it.
    ///
    /// # Errors
    /// The reason why that is not possible here, and what would make it so.
    ///
    /// # Panics
    /// Panics if it is possible, and fails.
    pub fn start() -> Result<Self, String> {
        Self::with(("task/none", CPUS))
    }

    /// Starts one that binds tasks to processors, of which its nodes have those of this machine.
    ///
    /// # Errors
    /// As [`SlurmCluster::start`].
    ///
    /// # Panics
    /// As [`SlurmCluster::start`].
    pub fn with_affinity() -> Result<Self, String> {
        Self::with(("task/affinity", clump_os::topology::usable_cores()))
    }

    fn with(tasks: (&str, usize)) -> Result<Self, String> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !status.lines().any(|line| line.starts_with("Uid:\t0\t")) {
            return Err("Slurm's daemons want root".into());
        }
        let found = |name: &&str| {
            ["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(name).is_file())
        };
        if !PROGRAMS.iter().all(found) {
            return Err(format!("no Slurm here; Debian's packages {PACKAGES} have it"));
        }
        let folder = Folder::inside(Path::new("/tmp"));
        let ended = |mut command: Command| command.status().is_ok_and(|status| status.success());
        let open = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).expect("a folder");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
            path
        };
        open("", 0o755);
        let munge = open("munge", 0o755);
        for name in ["state", "n1", "n2", "tmp-n1", "tmp-n2"] {
            open(name, 0o755);
        }
        let key: Vec<u8> = (0..KEY_BYTES / 8)
            .flat_map(|_| process::random().expect("random bits").to_ne_bytes())
            .collect();
        let key_file = munge.join("key");
        std::fs::write(&key_file, key).expect("a key");
        std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o400))
            .expect("a mode");
        let mut owner = Command::new("chown");
        owner.args(["-R", "munge"]).arg(&munge);
        if !ended(owner) {
            return Err("there is no user munge, which Debian's package makes".into());
        }
        let conf = folder.path().join("slurm.conf");
        std::fs::write(&conf, configuration(folder.path(), tasks)).expect("a configuration");
        let at = |name: &str, option: &str| format!("--{option}={}", munge.join(name).display());
        let mut keys = Command::new("setpriv");
        keys.args(["--reuid=munge", "--clear-groups", "munged", "--foreground", "--force"]);
        keys.args([at("key", "key-file"), at("socket", "socket"), at("pid", "pid-file")]);
        keys.args([at("log", "log-file"), at("seed", "seed-file")]);
        let mut all = vec![keys];
        for words in
            [&["slurmctld", "-D"][..], &["slurmd", "-D", "-N", "n1"], &["slurmd", "-D", "-N", "n2"]]
        {
            let mut daemon = Command::new(words[0]);
            daemon.args(&words[1..]).env("SLURM_CONF", &conf);
            all.push(daemon);
        }
        let start = |mut command: Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            BoundChild::start(&mut command).expect("a daemon")
        };
        let cluster = Self { _daemons: all.into_iter().map(start).collect(), folder };
        crate::until("the nodes of Slurm", || {
            let ended = cluster.job("sinfo", &["-h", "-t", "idle", "-o", "%D"]).finish();
            (ended.out.trim() == "2").then_some(())
        });
        Ok(cluster)
    }

    /// Returns a job of one of Slurm's commands on this cluster.
    pub fn job(&self, command: &str, words: &[&str]) -> Job {
        let conf = self.folder.path().join("slurm.conf");
        Job::any(command).with_args(words).with(|command| {
            command.env("SLURM_CONF", conf).env("CLUMP_AGENT", program("clump-under-test"));
        })
    }
}

fn configuration(folder: &Path, (plugin, cpus): (&str, usize)) -> String {
    let ports: Vec<TcpListener> =
        (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let ports: Vec<u16> =
        ports.iter().map(|listener| listener.local_addr().expect("an address").port()).collect();
    let (at, host) = (folder.display(), process::host_name());
    format!(
        "ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={}
AuthType=auth/munge
AuthInfo=socket={at}/munge/socket
CryptoType=crypto/munge
SlurmUser=root
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/%n
SlurmctldPidFile={at}/ctld.pid
SlurmdPidFile={at}/%n.pid
SlurmctldLogFile={at}/ctld.log
SlurmdLogFile={at}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin={plugin}
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
TmpFS={at}/tmp-%n
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.11 Port={} CPUs={cpus} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.12 Port={} CPUs={cpus} State=UNKNOWN
PartitionName=p Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
",
        ports[0], ports[1], ports[2]
    )
}
