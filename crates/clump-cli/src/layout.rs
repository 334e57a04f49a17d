//! The layout of a job's ranks: the options that every command with ranks shares.

use crate::machines::Machines;
use clap::{Args, ValueEnum};
use clump_agent::{JobSpec, VirtualTime};
use clump_boot::virtual_machine::VirtualMachine;
use clump_boot::{Lab, NetDriver};
use clump_lab::wrong_command::WrongCommand;
use clump_loggp::KnobTable;
use clump_virtual::{Compute, ComputePlan};
use clump_wire::Security;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::str::FromStr;

const MAX_RANKS: i64 = clump_shm::geometry::MAX_RANKS as i64;
const MAX_NODES: i64 = clump_shm::geometry::MAX_NODES as i64;
const MAX_PROXIES: u32 = 16;
const MAX_CABLES: i64 = clump_os::netns::MAX_CABLES as i64;
/// Heading of the help, for what is measured.
pub(crate) const MEASUREMENTS: &str = "Measurements";
/// Most addresses of a node.
const MAX_PATHS: usize = 4;
const MAX_NAMESPACES: u32 = clump_os::netns::MAX_COUNT;

/// Protection of packets between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protection {
    /// AES-128-GCM under a key of the job
    Aead,
    /// CRC-32C, for links that no other machine reaches
    Crc,
}

/// Nodes of a job, and the network between them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Nodes and their network")]
pub struct Layout {
    /// Number of virtual nodes: ranks of different nodes communicate over the network, as
    /// different machines do
    #[arg(long, value_name = "K", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=MAX_NODES))]
    pub nodes: u32,
    /// Print a summary of the ranks' communication at the end
    #[arg(long, help_heading = MEASUREMENTS)]
    pub stats: bool,
    /// Protection of packets between nodes: encrypted, or for trusted links checked only
    #[arg(long, value_enum, default_value = "aead")]
    pub security: Protection,
    /// Driver of packets between nodes: auto, udp, or packet or xdp (short messages past the
    /// kernel's IP; both need privileges) [default: the value of CLUMP_NET_DRIVER, else auto]
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<NetDriver>,
    /// Driver of the network: `direct`, each rank for itself; `proxy:K`, K threads of each node's
    /// agent for all of its ranks; `auto`, a proxy where it and each rank can have a core
    /// [default: the value of CLUMP_NET_PROXIES, else direct]
    #[arg(long, value_name = "WHO")]
    pub ni: Option<Drives>,
    /// Give every node a network namespace of its own, joined by virtual cables
    #[arg(long)]
    pub netns: bool,
    /// With --netns: number of cables between any two nodes, each with addresses of its own
    #[arg(long, value_name = "K", default_value = "1", requires = "netns",
          value_parser = clap::value_parser!(u32).range(1..=MAX_CABLES))]
    pub cables: u32,
    /// Addresses of this machine at which its nodes are reached, each by a path of its own: up to
    /// four, with commas between them [default: 127.0.0.1]
    #[arg(long, value_name = "A,B", conflicts_with = "netns")]
    pub addresses: Option<Addresses>,
    /// Let the network seem slower than it is: o (send and receive overhead), g, L, G, added
    /// (+5us) or absolute (5us); scope=shm|net, class=short|bulk|onesided, groups with `;` between
    /// them [default: the value of CLUMP_EMU, else as fast as it is]
    #[arg(long, value_name = "o=+5us,L=+20us,...")]
    pub emu: Option<String>,
    /// Run in virtual time, on a machine that need not exist: a name (now1997, clump1997, vmmc1999,
    /// 10gbe, 100gbe, ib) or the path of a machine file, and behind it values that differ
    /// (`,cpu=40,network.L_us=5`); --nodes are its nodes, and --emu makes it slower
    #[arg(long = "virtual", value_name = "MACHINE", value_parser = VirtualMachine::find,
          conflicts_with_all = ["driver", "ni", "netns", "addresses"])]
    pub machine: Option<VirtualMachine>,
    /// With --virtual: cost of computation, `measured`, `fixed:NS` for each part of the program
    /// between two calls, `record:FOLDER` for what is measured and written down,
    /// `learn:FOLDER` where the least of it and of earlier runs is, or `replay:FOLDER` for what was
    #[arg(long, value_name = "COST", default_value = "measured", requires = "machine",
          value_parser = ComputePlan::from_str)]
    pub cpu: ComputePlan,
    /// Parameters that only studies change, before those of CLUMP_LAB; `clump doctor --config
    /// --lab` lists them
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = lab_keys)]
    pub lab: Option<String>,
    /// Machines of the job.
    #[command(flatten)]
    pub machines: Machines,
}

/// Reads knobs of the laboratory from the command line, beside the parameters of this machine.
fn knobs(text: &str) -> Result<KnobTable, WrongCommand> {
    let wrong = |e: clump_boot::Error| WrongCommand::new(e.to_string());
    let config = clump_boot::Config::load().map_err(wrong)?;
    announce_basis(&config);
    clump_boot::machine::knobs(&config, "--emu", text).map_err(wrong)
}

/// Prints what the knobs of the environment are set beside, if any are turned there.
fn announce_variable() {
    if let Ok(config) = clump_boot::Config::load().as_ref()
        && !config.emu().is_empty()
    {
        announce_basis(config);
    }
}

fn announce_basis(config: &clump_boot::Config) {
    if let Ok(basis) = clump_boot::machine::basis(config) {
        clump_os::console::err(&format!("emu: {basis}"));
    }
}

/// Reads parameters of studies from the command line.
fn lab_keys(text: &str) -> Result<String, String> {
    let read = Lab::default().read("--lab", text);
    read.map(|_| text.to_owned()).map_err(|why| why.to_string())
}

/// Addresses of a node, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses([Option<IpAddr>; MAX_PATHS]);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [None; MAX_PATHS];
        let mut places = all.iter_mut();
        for word in text.split(',') {
            let place = places.next().ok_or(format!("more than {MAX_PATHS} addresses"))?;
            let address = word.trim().parse::<IpAddr>();
            let address = address.map_err(|_| format!("`{word}` is no IP address"))?;
            if let Some(why) = clump_os::udp::not_one_machine(address) {
                return Err(format!("`{word}` {why}; name an address of this machine"));
            }
            *place = Some(address);
        }
        match all.iter().flatten().enumerate().find(|(at, one)| all[..*at].contains(&Some(**one))) {
            Some((_, twice)) => Err(format!("`{twice}` is there twice")),
            None => Ok(Self(all)),
        }
    }
}

/// Returns the parser of a number of ranks on the command line.
pub fn ranks() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=MAX_RANKS)
}

/// The choice of direct or proxied network access for a node's ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drives {
    /// Each rank for itself.
    Direct,
    /// Number of proxies for all ranks.
    Proxies(u32),
    /// A proxy if it and each rank can have a core, and there are ranks to share it; else each
    /// rank.
    Auto,
}

impl Drives {
    /// Returns the number of proxies of each node.
    fn proxies(self, (ranks, nodes): (u32, u32), cores: usize) -> u32 {
        match self {
            Drives::Direct => 0,
            Drives::Proxies(count) => count,
            Drives::Auto => {
                u32::from(ranks >= 2 * nodes && (ranks + nodes) as usize <= cores && nodes > 1)
            }
        }
    }
}

impl FromStr for Drives {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let some = |count: &u32| (1..=MAX_PROXIES).contains(count);
        let known = match text.split_once(':') {
            None if text == "direct" => Some(Drives::Direct),
            None if text == "auto" => Some(Drives::Auto),
            None if text == "proxy" => Some(Drives::Proxies(1)),
            Some(("proxy", count)) => count.parse().ok().filter(some).map(Drives::Proxies),
            _ => None,
        };
        known.ok_or_else(|| {
            format!("`{text}` is not `direct`, `auto` or `proxy:K` with K from 1 to {MAX_PROXIES}")
        })
    }
}

impl Layout {
    /// Returns virtual nodes of this machine, everything else at its default.
    pub fn nodes(nodes: u32) -> Self {
        Self {
            nodes,
            security: Protection::Aead,
            driver: None,
            stats: false,
            ni: None,
            netns: false,
            cables: 1,
            addresses: None,
            machines: Machines::default(),
            emu: None,
            machine: None,
            cpu: ComputePlan { compute: Compute::Measured, folder: String::new() },
            lab: None,
        }
    }

    /// Returns true if the user requests nodes that are parts of this machine.
    pub fn is_virtual(&self) -> bool {
        self.nodes > 1 || self.netns || self.addresses.is_some()
    }

    /// Writes the layout into a job's description.
    ///
    /// # Errors
    /// Fails if there are more nodes than ranks, or than can be joined, or if an address is not
    /// one of this machine.
    pub fn apply(&self, spec: &mut JobSpec) -> Result<(), WrongCommand> {
        (spec.nodes, spec.netns, spec.driver) = (self.nodes, self.netns, self.driver);
        spec.stats = self.stats;
        self.machines.apply(spec, self.is_virtual())?;
        let (ranks, nodes) = (spec.ranks, spec.nodes);
        if nodes > ranks {
            return Err(WrongCommand::new(format!(
                "{} not fill {nodes} nodes: every node needs one (-n, --nodes)",
                if ranks == 1 { "1 rank does".to_owned() } else { format!("{ranks} ranks do") }
            )));
        }
        if self.netns && !(2..=MAX_NAMESPACES).contains(&nodes) {
            return Err(WrongCommand::new(format!(
                "--netns joins 2 to {MAX_NAMESPACES} nodes, not {nodes} (--nodes)"
            )));
        }
        if let Some(machine) = &self.machine {
            return self.apply_virtual(machine, spec);
        }
        let cores = clump_os::topology::usable_cores();
        spec.proxies = self.ni.map(|drives| drives.proxies((ranks, nodes), cores));
        spec.cables = self.cables;
        spec.knobs = self.emu.as_deref().map(knobs).transpose()?;
        if self.emu.is_none() {
            announce_variable();
        }
        spec.settings.extend(self.lab.iter().map(|text| ("lab".to_owned(), text.clone())));
        let addresses = self.addresses.iter().flat_map(|all| all.0);
        spec.addresses = addresses.flatten().collect();
        let here = spec.machines.is_empty();
        if nodes > 1 && here && !self.netns && spec.addresses.is_empty() {
            is_here(Ipv4Addr::LOCALHOST.into())?;
        }
        spec.addresses.iter().try_for_each(|&address| is_here(address))?;
        spec.security = match self.security {
            Protection::Aead => Security::Aead,
            Protection::Crc => Security::Crc,
        };
        Ok(())
    }
}

impl Layout {
    /// Writes virtual time into a job's description: all its virtual nodes are one node of this
    /// machine.
    fn apply_virtual(
        &self,
        machine: &VirtualMachine,
        spec: &mut JobSpec,
    ) -> Result<(), WrongCommand> {
        if !spec.machines.is_empty() {
            return Err(WrongCommand::new(
                "--virtual runs all ranks on this machine; leave the machines out",
            ));
        }
        if clump_boot::Config::load().is_ok_and(|config| !config.emu().is_empty()) {
            return Err(WrongCommand::new(
                "--virtual and CLUMP_EMU: in virtual time, --emu makes the machine slower",
            ));
        }
        let knobs = self.emu.clone().unwrap_or_default();
        machine.knobs(&knobs).map_err(|why| WrongCommand::new(format!("--emu: {why}")))?;
        let (mut cpu, nodes) = (self.cpu.clone(), self.nodes);
        if !cpu.folder.is_empty() {
            // Ranks may change their directory.
            let folder = std::path::absolute(&cpu.folder).ok();
            let folder = folder.and_then(|folder| folder.into_os_string().into_string().ok());
            cpu.folder =
                folder.ok_or_else(|| WrongCommand::new("--cpu: the path is no text in UTF-8"))?;
        }
        let compute = cpu.to_string();
        let machine = machine.clone();
        spec.virtual_time = Some(VirtualTime { machine, knobs, compute, nodes });
        spec.nodes = 1;
        spec.settings.extend(self.lab.iter().map(|text| ("lab".to_owned(), text.clone())));
        Ok(())
    }
}

/// Checks that this machine can be reached at an address, before anything of a job is started.
fn is_here(address: IpAddr) -> Result<(), WrongCommand> {
    let reached = |socket: UdpSocket| socket.connect(socket.local_addr()?);
    let Err(why) = UdpSocket::bind((address, 0)).and_then(reached) else { return Ok(()) };
    Err(WrongCommand::new(match why.kind() {
        ErrorKind::AddrNotAvailable => format!(
            "{address} is no address of this machine (--addresses); `ip -brief address` shows those that it has"
        ),
        ErrorKind::NetworkUnreachable => format!(
            "nodes cannot reach each other at {address}: its interface is down; `ip link` shows it, and root sets it up \
             (ip link set lo up)"
        ),
        // connect(2): a socket may not be connected to a broadcast address.
        ErrorKind::PermissionDenied => format!(
            "{address} is a broadcast address, which leads to all machines of a network; name an address of this \
             machine (--addresses)"
        ),
        _ => format!("nodes cannot be reached at {address} (--addresses): {why}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_drives_is_read_or_refused() {
        for (text, drives) in [
            ("direct", Drives::Direct),
            ("auto", Drives::Auto),
            ("proxy", Drives::Proxies(1)),
            ("proxy:16", Drives::Proxies(16)),
        ] {
            assert_eq!(text.parse(), Ok(drives));
        }
        for text in ["", "proxy:0", "proxy:17", "proxy:", "proxies", "auto:1"] {
            assert!(text.parse::<Drives>().unwrap_err().contains("proxy:K"), "{text}");
        }
    }

    #[test]
    fn a_proxy_is_chosen_where_everybody_has_a_core() {
        let auto = |ranks, nodes, cores| Drives::Auto.proxies((ranks, nodes), cores);
        assert_eq!([auto(4, 2, 1), auto(4, 2, 2), auto(4, 2, 5)], [0, 0, 0]);
        assert_eq!((auto(4, 2, 6), auto(2, 2, 16), auto(4, 1, 16)), (1, 0, 0));
        assert_eq!(Drives::Proxies(3).proxies((4, 2), 1), 3);
    }
}
