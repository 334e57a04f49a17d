//! Machines on this machine: each a network, host name, mount and process namespace with an sshd, a
//! `/tmp` and addresses of its own, joined by bridges. A further one, without sshd, is where jobs
//! are started from. It takes root, `ip`, `unshare`, `nsenter` and `sshd`.

use crate::{Job, MARK, program};
use clump_os::bound_child::BoundChild;
use clump_os::{clock, procfs, topology};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Port of the machines' sshd.
const PORT: u16 = 2222;
/// Longest time until a machine answers.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Programs without which there are no machines, and the package of each.
const NEEDED: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("sshd", "openssh-server"),
    ("ssh-keygen", "openssh-client"),
];

/// A machine to set up.
#[derive(Debug, Clone)]
pub struct MachinePlan {
    /// Its name.
    pub name: String,
    /// Its interfaces: the bridge that each is at, its addresses with their prefix lengths. The
    /// first address of all is where sshd is found.
    pub interfaces: Vec<(usize, Vec<String>)>,
    /// Bytes of the longest IP packet of its interfaces.
    pub mtu: u32,
}

impl MachinePlan {
    /// Returns `count` machines `m1`, `m2`, ... on one bridge, each with an address of IPv4.
    pub fn alike(count: usize) -> Vec<Self> {
        let one = |at: usize| Self {
            name: format!("m{at}"),
            interfaces: vec![(0, vec![format!("10.77.0.{at}/24")])],
            mtu: 1500,
        };
        (1..=count).map(one).collect()
    }
}

/// A process that holds a machine's namespaces.
#[derive(Debug)]
enum Holder {
    /// Ends with this program.
    Bound(BoundChild),
    /// Stays.
    Free(Child),
}

impl Holder {
    fn pid(&mut self) -> u32 {
        match self {
            Holder::Bound(child) => child.child().id(),
            Holder::Free(child) => child.id(),
        }
    }
}

/// Running machines.
#[derive(Debug)]
pub struct Machines {
    folder: PathBuf,
    /// First process in the namespaces of the machine where jobs are started.
    head: u32,
    names: Vec<String>,
    /// First processes in the namespaces of the others, in order.
    inner: Vec<u32>,
    holders: Vec<Holder>,
    /// True if the folder goes with them.
    temporary: bool,
}

/// Returns why there can be no machines here, if so.
pub fn obstacle() -> Option<String> {
    let found = |name: &str| {
        let mut folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter();
        folders.any(|folder| Path::new(folder).join(name).is_file())
    };
    if let Some((name, package)) = NEEDED.iter().find(|(name, _)| !found(name)) {
        return Some(format!("there is no `{name}` here (package {package})"));
    }
    let tried = run("unshare", &["--net", "--uts", "--mount", "--pid", "--fork", "true"]);
    tried.err().map(|why| format!("no namespaces with an sshd can be made (root?): {why}"))
}

/// Returns the commands that give a machine a /tmp of its own, in which the tree stays where it is.
fn own_temporary_folder() -> String {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = fs::canonicalize(&tree).unwrap_or(tree);
    let mount = "mount -t tmpfs tmpfs /tmp";
    if !tree.starts_with("/tmp") {
        return mount.to_owned();
    }
    let (keep, tree) = ("/run/clump-tree", tree.display());
    format!(
        "mkdir -p {keep} && mount --bind '{tree}' {keep} && {mount} && mkdir -p '{tree}' && \
         mount --move {keep} '{tree}'"
    )
}

impl Machines {
    /// Sets machines up that end with this program. Returns none, and prints the reason, where
    /// that is impossible.
    ///
    /// # Panics
    /// Panics if it is possible, and fails.
    pub fn here(plans: &[MachinePlan]) -> Option<Self> {
        if let Some(why) = obstacle() {
            println!("SKIPPED: no machines: {why}");
            return None;
        }
        let random = clump_os::process::random().expect("random bits");
        let folder = program("prog").with_file_name(format!("machines-{random:016x}"));
        Some(Self::set_up(plans, &folder, true).expect("setting machines up"))
    }

    /// Sets machines up; `folder` holds their keys, logs and process numbers. If not `bound`, they
    /// stay until [`take_down`].
    ///
    /// # Errors
    /// Fails if a program that sets them up does, and says what that one said.
    pub fn set_up(plans: &[MachinePlan], folder: &Path, bound: bool) -> Result<Self, String> {
        let text = |e: std::io::Error| format!("{}: {e}", folder.display());
        fs::create_dir_all(folder.join("shared")).map_err(text)?;
        write_configuration(plans, folder)?;
        let mut machines = Self {
            folder: folder.to_owned(),
            head: 0,
            names: plans.iter().map(|plan| plan.name.clone()).collect(),
            inner: Vec::new(),
            holders: Vec::new(),
            temporary: bound,
        };
        machines.head = machines.start("head", "sleep infinity", bound)?;
        let sshd = format!("/usr/sbin/sshd -D -e -f {}", folder.join("sshd_config").display());
        for plan in plans {
            let inner = machines.start(&plan.name, &sshd, bound)?;
            machines.inner.push(inner);
        }
        let pids: Vec<String> =
            machines.holders.iter_mut().map(|holder| holder.pid().to_string()).collect();
        fs::write(folder.join("pids"), pids.join("\n")).map_err(text)?;
        machines.join(plans)?;
        machines.await_sshd()?;
        Ok(machines)
    }

    /// Starts the first process of a machine; returns its number.
    fn start(&mut self, name: &str, what: &str, bound: bool) -> Result<u32, String> {
        let text = |e: std::io::Error| format!("starting machine {name}: {e}");
        let log = File::create(self.folder.join(format!("{name}.log"))).map_err(text)?;
        let script = format!(
            "hostname {name}; {}; mkdir -p /run/sshd; ip link set lo up; exec {what}",
            own_temporary_folder()
        );
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child"]);
        command.args(["--mount-proc", "sh", "-c", &script]);
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(text)?).stderr(log);
        let mut holder = if bound {
            Holder::Bound(BoundChild::start(&mut command).map_err(text)?)
        } else {
            use std::os::unix::process::CommandExt;
            Holder::Free(command.process_group(0).spawn().map_err(text)?)
        };
        let pid = holder.pid();
        self.holders.push(holder);
        let ready = || {
            let inner = procfs::children(pid).first().copied()?;
            // The script has got to its last command: the host name is set.
            let line = procfs::command_line(inner);
            (!line.to_string_lossy().starts_with("sh -c")).then_some(inner)
        };
        soon(ready).ok_or_else(|| format!("machine {name} did not start: {}", self.log(name)))
    }

    /// Joins the machines by bridges.
    fn join(&self, plans: &[MachinePlan]) -> Result<(), String> {
        let bridges = plans.iter().flat_map(|plan| &plan.interfaces).map(|(bridge, _)| bridge + 1);
        for bridge in 0..bridges.max().unwrap_or(0) {
            let name = format!("br{bridge}");
            self.ip(self.head, &["link", "add", &name, "type", "bridge"])?;
            self.ip(self.head, &["link", "set", &name, "up"])?;
            for address in [format!("10.77.{bridge}.200/24"), format!("fd77:{bridge}::200/64")] {
                self.ip(self.head, &["addr", "add", &address, "dev", &name, "nodad"])?;
            }
        }
        for (number, (plan, inner)) in plans.iter().zip(&self.inner).enumerate() {
            let (inner, mtu) = (*inner, plan.mtu.to_string());
            for (at, (bridge, addresses)) in plan.interfaces.iter().enumerate() {
                let (here, there) = (format!("m{number}e{at}"), format!("eth{at}"));
                let netns = inner.to_string();
                let peer = ["type", "veth", "peer", "name", &there, "netns", &netns];
                self.ip(self.head, &[&["link", "add", &here][..], &peer].concat())?;
                let bridge = format!("br{bridge}");
                self.ip(self.head, &["link", "set", &here, "master", &bridge, "up"])?;
                self.ip(inner, &["link", "set", &there, "mtu", &mtu, "up"])?;
                for address in addresses {
                    self.ip(inner, &["addr", "add", address, "dev", &there, "nodad"])?;
                }
            }
        }
        Ok(())
    }

    /// Runs `ip` in the network of a process.
    fn ip(&self, of: u32, words: &[&str]) -> Result<(), String> {
        let net = format!("--net=/proc/{of}/ns/net");
        // An option of `ip addr add` that IPv4 does not have.
        let v6 = words.iter().any(|word| word.contains("::"));
        let words = words.iter().filter(|word| v6 || **word != "nodad");
        let all: Vec<&str> = [net.as_str(), "ip"].into_iter().chain(words.copied()).collect();
        run("nsenter", &all)
    }

    /// Runs a command as root of a machine's namespaces, by its name; of the head for another name.
    ///
    /// # Errors
    /// Fails if the command does, and says what it said.
    pub fn on(&self, name: &str, words: &[&str]) -> Result<(), String> {
        let at = self.names.iter().position(|known| known == name);
        let pid = at.and_then(|at| self.inner.get(at)).copied().unwrap_or(self.head);
        let target = pid.to_string();
        let enter = ["--target", &target, "--net", "--uts", "--mount", "--pid"];
        run("nsenter", &[&enter[..], words].concat())
    }

    fn await_sshd(&self) -> Result<(), String> {
        for name in &self.names {
            let listens = || self.log(name).contains("Server listening").then_some(());
            soon(listens).ok_or_else(|| format!("no sshd on {name}: {}", self.log(name)))?;
        }
        Ok(())
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Returns a folder that all machines and this program see.
    pub fn shared(&self) -> PathBuf {
        self.folder.join("shared")
    }

    /// Returns the command that reaches the machines, for `--ssh`.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.folder.join("ssh_config").display())
    }

    /// Returns the words that start a program on the machine where jobs are started.
    pub fn prefix(&self) -> Vec<OsString> {
        let of = |kind: &str| format!("--{kind}=/proc/{}/ns/{kind}", self.head).into();
        vec!["nsenter".into(), of("net"), of("uts")]
    }

    /// Returns a job of `clump` with these words, started there. `{ssh}` and `{shared}` stand for
    /// [`Machines::ssh`] and [`Machines::shared`].
    pub fn job(&self, words: &[&str]) -> Job {
        self.job_of(&program("clump-under-test"), words)
    }

    /// Returns such a job of another copy of `clump`.
    pub fn job_of(&self, clump: &Path, words: &[&str]) -> Job {
        let ssh = self.ssh();
        let shared = self.shared().display().to_string();
        let of = |word: &&str| word.replace("{ssh}", &ssh).replace("{shared}", &shared);
        let prefix = self.prefix();
        let words: Vec<String> = words.iter().map(of).collect();
        Job::any(&prefix[0]).with(|command| {
            command.args(&prefix[1..]).arg(clump).args(words);
            // Ten times what a machine is given elsewhere.
            command.env("CLUMP_START_TIMEOUT_MS", "80000");
        })
    }

    /// Leaves the machines running.
    pub fn keep(mut self) {
        self.temporary = false;
        self.holders.clear();
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if self.temporary {
            self.holders.clear();
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Ends machines that [`Machines::keep`] left.
///
/// # Errors
/// Fails if there are none.
pub fn take_down(folder: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(folder.join("pids"))
        .map_err(|e| format!("{}: no machines: {e}", folder.display()))?;
    let mut ended = 0;
    for pid in text.lines().filter_map(|line| line.parse::<u32>().ok()) {
        // A process with another command has got the number since.
        if procfs::command_line(pid).to_string_lossy().starts_with("unshare --net") {
            let _ = clump_os::process::signal(pid, clump_os::signal::KILL);
            ended += 1;
        }
    }
    fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(ended)
}

fn write_configuration(plans: &[MachinePlan], folder: &Path) -> Result<(), String> {
    for key in ["host", "key"] {
        let file = folder.join(key).display().to_string();
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &file])?;
    }
    let place = folder.display();
    let server = format!(
        "Port {PORT}\nHostKey {place}/host\nAuthorizedKeysFile {place}/key.pub\nStrictModes no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPidFile none\n\
         PermitRootLogin yes\nMaxStartups 100\nAcceptEnv {MARK}\n"
    );
    let mut client = format!(
        "Host *\n  Port {PORT}\n  IdentityFile {place}/key\n  StrictHostKeyChecking yes\n  \
         UserKnownHostsFile {place}/known_hosts\n  LogLevel ERROR\n  SendEnv {MARK}\n"
    );
    let text = |e: std::io::Error| format!("{place}: {e}");
    let host_key = fs::read_to_string(folder.join("host.pub")).map_err(text)?;
    let mut known = String::new();
    for plan in plans {
        let first = plan.interfaces.iter().flat_map(|(_, addresses)| addresses).next();
        let address = first.and_then(|cidr| cidr.split('/').next()).unwrap_or_default();
        // As ssh writes it: in its shortest form.
        let address = address.parse::<std::net::IpAddr>().map_err(|e| format!("{address}: {e}"))?;
        let _ = write!(client, "Host {}\n  HostName {address}\n", plan.name);
        let _ = write!(known, "[{address}]:{PORT} {host_key}");
    }
    // The first value that ssh finds counts: names before what holds for all.
    let split = client.find("Host m").unwrap_or(0);
    let client = format!("{}{}", &client[split..], &client[..split]);
    for (name, content) in [("sshd_config", server), ("ssh_config", client), ("known_hosts", known)]
    {
        fs::write(folder.join(name), content).map_err(text)?;
    }
    Ok(())
}

/// Waits for a value, for as long as a loaded machine may need.
fn soon<T>(mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let start = clock::instant();
    // A machine with more to do than cores takes longer.
    let limit = TIME_LIMIT.mul_f64(if topology::usable_cores() < 4 { 2.0 } else { 1.0 });
    while start.elapsed() < limit {
        if let Some(value) = condition() {
            return Some(value);
        }
        clock::pass(Duration::from_millis(2));
    }
    None
}

fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(words).stdin(Stdio::null()).output();
    let done = done.map_err(|e| format!("{program}: {e}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(format!("{program} {}: {said}", words.join(" ")))
}
