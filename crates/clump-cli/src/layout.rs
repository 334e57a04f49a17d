//! Where the ranks of a job are: the options that every command with ranks shares.

use clap::{Args, ValueEnum};
use clump_agent::JobSpec;
use clump_boot::NetDriver;
use clump_wire::Security;

const MOST_RANKS: i64 = clump_shm::geometry::MAX_RANKS as i64;
const MOST_NODES: i64 = 64;
const MOST_PROXIES: u32 = 16;
const MOST_NAMESPACES: u32 = clump_os::netns::MOST;

/// How packets between nodes are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protection {
    /// AES-128-GCM under a key of the job
    Aead,
    /// CRC-32C, for links that nobody else reaches
    Crc,
}

/// Nodes of a job, and what is between them.
#[derive(Debug, Clone, Copy, Args)]
pub struct Layout {
    /// Number of virtual nodes: ranks of different nodes talk over the network, as different machines do
    #[arg(long, value_name = "K", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=MOST_NODES))]
    pub nodes: u32,
    /// How packets between nodes are protected: encrypted, or for trusted links checked only
    #[arg(long, value_enum, default_value = "aead")]
    pub security: Protection,
    /// What carries packets between nodes: auto, udp, or packet or xdp (short messages past the kernel's IP;
    /// both take privileges) [default: what CLUMP_NET_DRIVER says, else auto]
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<NetDriver>,
    /// Who drives the network: `direct`, each rank for itself, or `proxy:K`, K threads of each node's agent for
    /// all of its ranks [default: what CLUMP_NET_PROXIES says, else direct]
    #[arg(long, value_name = "WHO", value_parser = who_drives)]
    pub ni: Option<u32>,
    /// Give every node a network namespace of its own, joined by virtual cables
    #[arg(long)]
    pub netns: bool,
}

/// A number of ranks on the command line.
pub fn ranks() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=MOST_RANKS)
}

/// Reads the argument of `--ni`: a number of proxies.
fn who_drives(text: &str) -> Result<u32, String> {
    let proxies = match text.split_once(':') {
        None if text == "direct" => Some(0),
        None if text == "proxy" => Some(1),
        Some(("proxy", count)) => {
            count.parse().ok().filter(|count| (1..=MOST_PROXIES).contains(count))
        }
        _ => None,
    };
    proxies.ok_or_else(|| {
        format!("`{text}` is not `direct` or `proxy:K` with K from 1 to {MOST_PROXIES}")
    })
}

impl Layout {
    /// Virtual nodes of this machine, everything else as by default.
    pub fn nodes(nodes: u32) -> Self {
        Self { nodes, security: Protection::Aead, driver: None, ni: None, netns: false }
    }

    /// Writes the layout into a job's description.
    ///
    /// # Errors
    /// There are more nodes than ranks, or than can be joined.
    pub fn apply(self, spec: &mut JobSpec) -> anyhow::Result<()> {
        let (ranks, nodes) = (spec.ranks, self.nodes);
        if nodes > ranks {
            anyhow::bail!(
                "{ranks} ranks do not fill {nodes} nodes: every node needs one (-n, --nodes)"
            );
        }
        if self.netns && !(2..=MOST_NAMESPACES).contains(&nodes) {
            anyhow::bail!("--netns joins 2 to {MOST_NAMESPACES} nodes, not {nodes} (--nodes)");
        }
        (spec.nodes, spec.netns, spec.driver) = (nodes, self.netns, self.driver);
        spec.proxies = self.ni;
        spec.security = match self.security {
            Protection::Aead => Security::Aead,
            Protection::Crc => Security::Crc,
        };
        Ok(())
    }
}
