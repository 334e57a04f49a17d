//! A machine that need not exist: what messages cost on it.

use serde::Deserialize;

/// Words of a machine in shared memory.
pub const MACHINE_WORDS: usize = 19;
/// Most NICs of a node.
const MAX_NICS: u64 = 4;
/// Longest time of one cost: an hour.
const MAX_COST_NS: f64 = 3.6e12;

/// Costs of a message on one kind of path: LogGP's parameters, with the overheads and gaps of both
/// ends apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCosts {
    /// Overhead of the sender (o_s), ns; at least 1.
    pub send_ns: u64,
    /// Overhead of the receiver (o_r), ns.
    pub receive_ns: u64,
    /// Gap between two messages that a NIC sends (g), ns.
    pub gap_ns: u64,
    /// Gap between two messages that a NIC receives, ns; 0 is plain LogGP.
    pub receive_gap_ns: u64,
    /// Latency (L), ns.
    pub latency_ns: u64,
    /// Time of each byte but the first (G), ps.
    pub byte_ps: u64,
}

impl PathCosts {
    /// Returns the time of a message's bytes on the wire behind the first one, ns, rounded down.
    pub fn bytes_ns(&self, bytes: u64) -> u64 {
        let ps = u128::from(bytes.saturating_sub(1)) * u128::from(self.byte_ps);
        u64::try_from(ps / 1000).unwrap_or(u64::MAX)
    }

    /// Returns the time at which a message that its sender has handed over at `sent_ns` leaves a
    /// NIC that is free from `free_ns` on, and the time from which that is free again.
    pub fn leaves(&self, sent_ns: u64, free_ns: u64, bytes: u64) -> (u64, u64) {
        let start_ns = sent_ns.max(free_ns);
        debug_assert!(start_ns >= sent_ns, "queues only delay");
        (start_ns, start_ns.saturating_add(self.gap_ns.max(self.bytes_ns(bytes))))
    }

    /// Returns the time at which a message that has left at `start_ns` has arrived through a NIC
    /// that is free from `free_ns` on, and the time from which that is free again.
    pub fn arrives(&self, start_ns: u64, free_ns: u64, bytes: u64) -> (u64, u64) {
        let first_ns = start_ns.saturating_add(self.latency_ns).max(free_ns);
        let rest_ns = self.bytes_ns(bytes);
        debug_assert!(first_ns >= start_ns, "a message arrives after it has left");
        let free_ns = first_ns.saturating_add(self.receive_gap_ns.max(rest_ns));
        (first_ns.saturating_add(rest_ns), free_ns)
    }
}

/// Costs of shared virtual memory beside its messages, which a processor of the machine pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCosts {
    /// An access without a right, until the runtime knows of it and again behind it, ns.
    pub fault_ns: u64,
    /// A change of rights on pages that follow each other, ns.
    pub protect_ns: u64,
    /// A copy of a page, ns.
    pub twin_ns: u64,
    /// The comparison of a page with its copy, ns.
    pub diff_ns: u64,
}

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Costs between ranks of one node.
    pub node: PathCosts,
    /// Costs between nodes.
    pub network: PathCosts,
    /// NICs of a node.
    pub nics: u64,
    /// Time of computation on it by time here, in millionths.
    pub cpu_ppm: u64,
    /// Time in which a node executes a one-sided operation, ns.
    pub execute_ns: u64,
    /// Costs of shared virtual memory.
    pub pages: PageCosts,
}

/// A text that describes no machine.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MachineError {
    /// It is no table of the right keys.
    #[error("{0}")]
    Syntax(String),
    /// A value is out of its range.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: &'static str,
        /// The reason.
        why: &'static str,
    },
}

/// A machine file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    node: Path,
    network: Path,
    #[serde(default = "one")]
    nics: u64,
    #[serde(default = "unchanged")]
    cpu: f64,
    #[serde(default)]
    execute_us: f64,
    #[serde(default)]
    pages: Pages,
}

/// Costs of shared virtual memory in a machine file, us.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Pages {
    fault_us: f64,
    protect_us: f64,
    twin_us: f64,
    diff_us: f64,
}

/// A path in a machine file, times in us.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Path {
    o_send_us: f64,
    o_receive_us: f64,
    g_us: f64,
    #[serde(default)]
    g_receive_us: f64,
    #[serde(rename = "L_us")]
    latency_us: f64,
    mb_per_s: f64,
}

fn one() -> u64 {
    1
}

fn unchanged() -> f64 {
    1.0
}

/// Machines that come with clump: name and file.
const BUILT_IN: [(&str, &str); 6] = [
    ("now1997", include_str!("../machines/now1997.toml")),
    ("clump1997", include_str!("../machines/clump1997.toml")),
    ("vmmc1999", include_str!("../machines/vmmc1999.toml")),
    ("10gbe", include_str!("../machines/10gbe.toml")),
    ("100gbe", include_str!("../machines/100gbe.toml")),
    ("ib", include_str!("../machines/ib.toml")),
];

impl Machine {
    /// Returns the file of a machine that comes with clump.
    pub fn built_in(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|&(_, file)| file)
    }

    /// Returns the names of the machines that come with clump.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// Reads a machine file.
    ///
    /// # Errors
    /// It is no table of the right keys, or a value is out of its range.
    pub fn read(text: &str) -> Result<Self, MachineError> {
        let file: MachineFile =
            toml::from_str(text).map_err(|e| MachineError::Syntax(e.message().to_owned()))?;
        if !(1..=MAX_NICS).contains(&file.nics) {
            return Err(MachineError::Value { key: "nics", why: "a node has 1 to 4" });
        }
        let cpu_ppm = whole("cpu", file.cpu * 1e6)?;
        let execute_ns = whole("execute_us", file.execute_us * 1e3)?;
        let (node, network, pages) =
            (file.node.costs()?, file.network.costs()?, file.pages.costs()?);
        debug_assert!(node.send_ns > 0 && network.send_ns > 0, "invariant 2");
        Ok(Self { node, network, nics: file.nics, cpu_ppm, execute_ns, pages })
    }

    /// Returns a machine file with other values: `KEY=VALUE`, separated by commas, a key of a table
    /// as `TABLE.KEY`.
    ///
    /// # Errors
    /// A change has no such form, or the file is no table.
    pub fn altered(text: &str, changes: &str) -> Result<String, MachineError> {
        let mut file: toml::Table =
            toml::from_str(text).map_err(|e| MachineError::Syntax(e.message().to_owned()))?;
        for change in changes.split(',') {
            let of_change: toml::Table = toml::from_str(change).map_err(|_| {
                let why = "is no KEY=NUMBER or TABLE.KEY=NUMBER";
                MachineError::Syntax(format!("`{change}` {why}"))
            })?;
            for (key, value) in of_change {
                match (file.get_mut(&key), value) {
                    (Some(toml::Value::Table(table)), toml::Value::Table(new)) => table.extend(new),
                    (_, value) => drop(file.insert(key, value)),
                }
            }
        }
        debug_assert!(!file.is_empty(), "a machine has paths");
        Ok(file.to_string())
    }

    /// Returns the costs of a path within a node, or between nodes.
    pub fn costs(&self, between_nodes: bool) -> &PathCosts {
        if between_nodes { &self.network } else { &self.node }
    }

    /// Returns the least overhead of a send.
    pub fn least_send_ns(&self) -> u64 {
        self.node.send_ns.min(self.network.send_ns)
    }

    /// Returns the least latency of a message.
    pub fn least_latency_ns(&self) -> u64 {
        self.node.latency_ns.min(self.network.latency_ns)
    }

    /// Returns a time that passes at least between an act of a rank and its effect on another. When
    /// no rank acts before `t`, all sends before `t` plus [`Machine::least_send_ns`] are known, and
    /// with them all that is due before `t` plus this.
    pub fn lookahead_ns(&self) -> u64 {
        self.least_send_ns().saturating_add(self.least_latency_ns())
    }

    /// Returns it as words.
    pub fn to_words(self) -> [u64; MACHINE_WORDS] {
        let path = |costs: PathCosts| {
            let PathCosts { send_ns, receive_ns, gap_ns, receive_gap_ns, latency_ns, byte_ps } =
                costs;
            [send_ns, receive_ns, gap_ns, receive_gap_ns, latency_ns, byte_ps]
        };
        let mut words = [0; MACHINE_WORDS];
        let all = path(self.node).into_iter().chain(path(self.network));
        let PageCosts { fault_ns, protect_ns, twin_ns, diff_ns } = self.pages;
        let all = all.chain([self.nics, self.cpu_ppm, self.execute_ns]);
        let all = all.chain([fault_ns, protect_ns, twin_ns, diff_ns]);
        words.iter_mut().zip(all).for_each(|(to, word)| *to = word);
        words
    }

    /// Reads [`Machine::to_words`], whatever others have made of them.
    pub fn from_words(words: &[u64; MACHINE_WORDS]) -> Self {
        let path = |at: usize| PathCosts {
            send_ns: words[at].max(1),
            receive_ns: words[at + 1],
            gap_ns: words[at + 2],
            receive_gap_ns: words[at + 3],
            latency_ns: words[at + 4],
            byte_ps: words[at + 5],
        };
        let nics = words[12].clamp(1, MAX_NICS);
        let [fault_ns, protect_ns, twin_ns, diff_ns] = [15, 16, 17, 18].map(|at| words[at]);
        let pages = PageCosts { fault_ns, protect_ns, twin_ns, diff_ns };
        let (cpu_ppm, execute_ns) = (words[13], words[14]);
        Self { node: path(0), network: path(6), nics, cpu_ppm, execute_ns, pages }
    }
}

impl Pages {
    fn costs(&self) -> Result<PageCosts, MachineError> {
        Ok(PageCosts {
            fault_ns: whole("fault_us", self.fault_us * 1e3)?,
            protect_ns: whole("protect_us", self.protect_us * 1e3)?,
            twin_ns: whole("twin_us", self.twin_us * 1e3)?,
            diff_ns: whole("diff_us", self.diff_us * 1e3)?,
        })
    }
}

impl Path {
    fn costs(&self) -> Result<PathCosts, MachineError> {
        let send_ns = whole("o_send_us", self.o_send_us * 1e3)?;
        if send_ns == 0 {
            return Err(MachineError::Value { key: "o_send_us", why: "at least 0.001" });
        }
        if self.mb_per_s.is_nan() || self.mb_per_s <= 0.0 {
            return Err(MachineError::Value { key: "mb_per_s", why: "more than 0" });
        }
        Ok(PathCosts {
            send_ns,
            receive_ns: whole("o_receive_us", self.o_receive_us * 1e3)?,
            gap_ns: whole("g_us", self.g_us * 1e3)?,
            receive_gap_ns: whole("g_receive_us", self.g_receive_us * 1e3)?,
            latency_ns: whole("L_us", self.latency_us * 1e3)?,
            byte_ps: whole("mb_per_s", 1e6 / self.mb_per_s)?,
        })
    }
}

/// Returns a value as a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn whole(key: &'static str, value: f64) -> Result<u64, MachineError> {
    if !(0.0..=MAX_COST_NS).contains(&value) {
        return Err(MachineError::Value { key, why: "a number from 0 on that is not too large" });
    }
    Ok(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_come_with_clump_are_read_and_keep_their_values() {
        for name in Machine::names() {
            let machine = Machine::read(Machine::built_in(name).unwrap());
            let machine = machine.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(Machine::from_words(&machine.to_words()), machine, "{name}");
            assert!(machine.lookahead_ns() > 0, "{name}");
        }
        let now = Machine::read(Machine::built_in("now1997").unwrap()).unwrap();
        // Paper 001, table 1.
        let PathCosts { send_ns, receive_ns, gap_ns, latency_ns, byte_ps, .. } = now.network;
        assert_eq!([send_ns, receive_ns, gap_ns, latency_ns], [2900, 2900, 5800, 5000]);
        assert_eq!(byte_ps, 26_316, "38 MB/s");
    }

    #[test]
    fn single_values_of_a_file_are_changed() {
        let now = Machine::built_in("now1997").unwrap();
        let changed = |changes: &str| Machine::read(&Machine::altered(now, changes).unwrap());
        let base = Machine::read(now).unwrap();
        let network = PathCosts { latency_ns: 20_000, ..base.network };
        let expected = Machine { cpu_ppm: 40_500_000, network, ..base };
        assert_eq!(changed("cpu=40.5,network.L_us=20"), Ok(expected));
        assert!(changed("colour=1").unwrap_err().to_string().contains("colour"));
        assert!(changed("network.colour=1").is_err());
        for wrong in ["cpu", "=1", "cpu=", "cpu=1,nics", "network=1", "[network]\ncpu=1"] {
            let altered = Machine::altered(now, wrong).and_then(|file| Machine::read(&file));
            assert!(altered.is_err(), "{wrong}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        let path = "o_send_us=1\no_receive_us=1\ng_us=1\nL_us=1\nmb_per_s=100\n";
        let text = |head: &str, net: &str| format!("{head}\n[node]\n{path}\n[network]\n{net}");
        assert!(Machine::read(&text("", path)).is_ok());
        for (head, net, key) in [
            ("nics = 0", path.to_owned(), "nics"),
            ("cpu = -1.0", path.to_owned(), "cpu"),
            ("", path.replace("o_send_us=1", "o_send_us=0"), "o_send_us"),
            ("", path.replace("=100", "=0"), "mb_per_s"),
            ("", path.replace("L_us=1", "L_us=nan"), "L_us"),
            ("colour = 1", path.to_owned(), "colour"),
        ] {
            let error = Machine::read(&text(head, &net)).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn the_lookahead_of_a_machine_holds_for_both_paths() {
        let path = |send_ns, latency_ns| PathCosts { send_ns, latency_ns, ..PathCosts::default() };
        let machine = Machine {
            node: path(7127, 0),
            network: path(2772, 13_563),
            nics: 1,
            cpu_ppm: 0,
            execute_ns: 0,
            pages: PageCosts::default(),
        };
        // A message within a node may be due when it is sent.
        assert_eq!(machine.lookahead_ns(), 2772);
    }

    #[test]
    fn a_nic_delays_what_comes_too_soon() {
        let costs = PathCosts { gap_ns: 6, latency_ns: 5, byte_ps: 2000, ..PathCosts::default() };
        assert_eq!(costs.leaves(13, 0, 1), (13, 19));
        assert_eq!(costs.leaves(14, 19, 1), (19, 25));
        assert_eq!(costs.leaves(13, 0, 101), (13, 213), "bytes take longer than the gap");
        assert_eq!(costs.arrives(13, 0, 1), (18, 18));
        assert_eq!(costs.arrives(13, 30, 11), (50, 50));
        let slow = PathCosts { receive_gap_ns: 9, ..costs };
        assert_eq!(slow.arrives(13, 0, 1), (18, 27));
    }
}
