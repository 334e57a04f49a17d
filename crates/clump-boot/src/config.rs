//! The one table of settings: it defines the struct, the `CLUMP_*` variables, the file's keys and
//! `clump doctor --config`. Order of precedence: code, environment, file, default.
#![allow(clippy::disallowed_methods, reason = "this module is where the environment is read")]

use crate::dispatch::Dispatch;
use crate::net_driver::NetDriver;
use crate::{Error, Result};
use clump_os::printable::printable;
use std::ffi::OsStr;
use std::fmt;

/// Variable with the path of the configuration file, a TOML table of the keys below.
pub const FILE_VARIABLE: &str = "CLUMP_CONFIG";

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name in code and in the file.
    pub name: &'static str,
    /// Name in the environment.
    pub variable: &'static str,
    /// Value unless set otherwise.
    pub default: u64,
    /// Least value.
    pub least: u64,
    /// Largest value.
    pub most: u64,
    /// Unit of the value: `ns`, `ms`, `bool`, or empty for a count or a choice.
    pub unit: &'static str,
    /// Names of a choice's values, by number; empty for everything else.
    pub choices: &'static [&'static str],
    /// Its description.
    pub doc: &'static str,
}

/// The origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The default.
    Default,
    /// The configuration file.
    File,
    /// The environment.
    Environment,
    /// The program or a command-line option.
    Code,
}

trait Setting: Copy {
    const CHOICES: &'static [&'static str] = &[];
    fn from_number(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Setting for u64 {
    fn from_number(number: u64) -> Self {
        number
    }
    fn number(self) -> u64 {
        self
    }
}

impl Setting for bool {
    fn from_number(number: u64) -> Self {
        number != 0
    }
    fn number(self) -> u64 {
        u64::from(self)
    }
}

impl Setting for Dispatch {
    const CHOICES: &'static [&'static str] = &Self::NAMES;
    fn from_number(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at)).copied().unwrap_or_default()
    }
    fn number(self) -> u64 {
        self as u64
    }
}

impl Setting for NetDriver {
    const CHOICES: &'static [&'static str] = &Self::NAMES;
    fn from_number(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at)).copied().unwrap_or_default()
    }
    fn number(self) -> u64 {
        self as u64
    }
}

macro_rules! settings {
    ($($name:ident: $kind:ty = $default:literal in $least:literal..=$most:literal, $unit:literal, $variable:literal, $doc:literal;)+) => {
        /// The effective configuration of this process.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $(#[doc = $doc] pub $name: $kind,)+
            sources: Vec<Source>,
        }

        /// Every setting there is.
        pub static KEYS: &[Key] = &[$(Key {
            name: stringify!($name), variable: $variable, default: $default,
            least: $least, most: $most, unit: $unit, doc: $doc,
            choices: <$kind as Setting>::CHOICES,
        }),+];

        impl Config {
            fn of(numbers: &[u64], sources: Vec<Source>) -> Self {
                let mut next = numbers.iter().copied();
                Self {
                    $($name: <$kind>::from_number(next.next().unwrap_or($default)),)+
                    sources,
                }
            }

            fn numbers(&self) -> Vec<u64> {
                vec![$(self.$name.number()),+]
            }
        }
    };
}

settings! {
    spin_ns: u64 = 0 in 0..=1_000_000_000, "ns", "CLUMP_SPIN_NS",
        "How long a waiting rank spins before it yields; 0: measured at the start of the job.";
    yield_ns: u64 = 0 in 0..=1_000_000_000, "ns", "CLUMP_YIELD_NS",
        "How long a waiting rank yields before it sleeps; 0: measured at the start of the job.";
    lanes: u64 = 1024 in 0..=1024, "", "CLUMP_LANES",
        "Most lanes that a rank claims; 0 sends everything through the shared queues.";
    stats: bool = 0 in 0..=1, "bool", "CLUMP_STATS",
        "Whether the job prints its communication summary at the end.";
    send_timeout_ms: u64 = 0 in 0..=86_400_000, "ms", "CLUMP_SEND_TIMEOUT_MS",
        "How long a request waits for room before it is returned; 0: for ever.";
    node_timeout_ms: u64 = 2000 in 200..=3_600_000, "ms", "CLUMP_NODE_TIMEOUT_MS",
        "How long nothing may be heard of a node before it counts as lost.";
    net_driver: NetDriver = 0 in 0..=3, "", "CLUMP_NET_DRIVER",
        "What carries packets between nodes: auto chooses among what this machine offers.";
    net_proxies: u64 = 0 in 0..=16, "", "CLUMP_NET_PROXIES",
        "Threads of each node's agent that drive the network for its ranks; 0: ranks do it themselves.";
    net_dispatch: Dispatch = 0 in 0..=2, "", "CLUMP_NET_DISPATCH",
        "Which proxy a message takes: always the same, one after the other, or the least loaded.";
    net_poll_min: u64 = 16 in 1..=1_000_000, "", "CLUMP_NET_POLL_MIN",
        "Looks at shared memory from one look at the network to the next, when the network is busy.";
    net_poll_max: u64 = 256 in 1..=1_000_000, "", "CLUMP_NET_POLL_MAX",
        "The same when nothing came by the network lately.";
    net_window: u64 = 0 in 0..=1_073_741_824, "B", "CLUMP_NET_WINDOW",
        "Bytes under way to each peer on another node, for the laboratory; 0: found by congestion control.";
    net_control_first: bool = 1 in 0..=1, "bool", "CLUMP_NET_CONTROL_FIRST",
        "Whether small messages go ahead of data that waits; 0 to compare.";
    net_loss_ppm: u64 = 0 in 0..=1_000_000, "ppm", "CLUMP_NET_LOSS_PPM",
        "Packets that each rank throws away as they arrive, for tests.";
    net_duplicate_ppm: u64 = 0 in 0..=1_000_000, "ppm", "CLUMP_NET_DUPLICATE_PPM",
        "Packets that each rank sends twice, for tests.";
    net_reorder_ppm: u64 = 0 in 0..=1_000_000, "ppm", "CLUMP_NET_REORDER_PPM",
        "Packets that each rank holds back until others have gone past, for tests.";
    net_corrupt_ppm: u64 = 0 in 0..=1_000_000, "ppm", "CLUMP_NET_CORRUPT_PPM",
        "Packets that each rank damages before sending them, for tests.";
    net_delay_ns: u64 = 0 in 0..=10_000_000_000, "ns", "CLUMP_NET_DELAY_NS",
        "How long each rank holds back every packet, for tests.";
    conn_silence_ms: u64 = 5000 in 100..=3_600_000, "ms", "CLUMP_CONN_SILENCE_MS",
        "How long nothing may be heard of the other side of a connection between jobs before it has ended.";
    net_seed: u64 = 1 in 0..=18_446_744_073_709_551_615, "", "CLUMP_NET_SEED",
        "Decides which packets those are.";
}

/// One effective setting, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its row of the table.
    pub key: Key,
    /// Its value, as a person writes it.
    pub value: String,
    /// The origin of the value.
    pub source: Source,
}

impl Default for Config {
    fn default() -> Self {
        let numbers: Vec<u64> = KEYS.iter().map(|key| key.default).collect();
        Self::of(&numbers, vec![Source::Default; KEYS.len()])
    }
}

impl Config {
    /// Reads environment and file.
    ///
    /// # Errors
    /// Fails on a value outside its range, or a file that cannot be read, and names the culprit.
    pub fn load() -> Result<Self> {
        Self::load_with(&[])
    }

    /// Reads environment and file, with values that the program decides (name of the key, value).
    ///
    /// # Errors
    /// Fails as [`Config::load`] does; also for a name that is no key.
    pub fn load_with(code: &[(&str, &str)]) -> Result<Self> {
        let named = std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty());
        let file =
            named.map(|path| Ok::<_, Error>((printable(&path).to_string(), read_file(&path)?)));
        let file = file.transpose()?;
        Self::layered(code, variable, file.as_ref().map(|(path, table)| (path.as_str(), table)))
    }

    fn layered(
        code: &[(&str, &str)],
        environment: impl Fn(&str) -> Option<String>,
        file: Option<(&str, &toml::Table)>,
    ) -> Result<Self> {
        refuse_strangers(code, file)?;
        let mut numbers = Vec::with_capacity(KEYS.len());
        let mut sources = Vec::with_capacity(KEYS.len());
        for key in KEYS {
            let (number, source) = resolve(key, code, &environment, file)?;
            numbers.push(number);
            sources.push(source);
        }
        Ok(Self::of(&numbers, sources))
    }

    /// Returns every setting with its value and origin.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        let values = self.numbers().into_iter().zip(&self.sources);
        KEYS.iter()
            .zip(values)
            .map(|(key, (number, &source))| ConfigEntry {
                key: *key,
                value: key.show(number),
                source,
            })
            .collect()
    }
}

impl fmt::Display for Config {
    /// Writes one line per setting, as a configuration file that can be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in self.entries() {
            let ConfigEntry { key, value, source } = entry;
            let unit = if key.unit == "bool" { "" } else { key.unit };
            let quote = if key.choices.is_empty() { "" } else { "\"" };
            writeln!(
                f,
                "{} = {quote}{value}{quote} # {unit}{}{source}",
                key.name,
                if unit.is_empty() { "" } else { ", " }
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Default => "default",
            Source::File => "from the configuration file",
            Source::Environment => "from the environment",
            Source::Code => "from the program or its options",
        })
    }
}

impl Key {
    fn show(&self, number: u64) -> String {
        let choice = usize::try_from(number).ok().and_then(|at| self.choices.get(at));
        match choice {
            Some(name) => (*name).to_owned(),
            None if self.unit == "bool" => (number != 0).to_string(),
            None => number.to_string(),
        }
    }

    /// Describes the valid values of this key, for messages.
    pub fn expected(&self) -> String {
        if !self.choices.is_empty() {
            return format!("one of {}", self.choices.join(", "));
        }
        if self.unit == "bool" {
            return "true or false (or 1, 0, yes, no, on, off)".into();
        }
        let unit =
            if self.unit.is_empty() { String::new() } else { format!(" (in {})", self.unit) };
        format!("a whole number from {} to {}{unit}", self.least, self.most)
    }

    fn parse(&self, origin: impl Fn() -> String, text: &str) -> Result<u64> {
        let trimmed = text.trim();
        let number = if !self.choices.is_empty() {
            self.choices.iter().position(|name| *name == trimmed).map(|at| at as u64)
        } else if self.unit == "bool" {
            match trimmed.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(1),
                "0" | "false" | "no" | "off" => Some(0),
                _ => None,
            }
        } else {
            trimmed.replace('_', "").parse::<u64>().ok()
        };
        number.filter(|n| (self.least..=self.most).contains(n)).ok_or_else(|| Error::BadValue {
            origin: origin(),
            value: text.into(),
            expected: self.expected(),
        })
    }
}

fn resolve(
    key: &Key,
    code: &[(&str, &str)],
    environment: impl Fn(&str) -> Option<String>,
    file: Option<(&str, &toml::Table)>,
) -> Result<(u64, Source)> {
    if let Some((_, value)) = code.iter().rev().find(|(name, _)| *name == key.name) {
        return Ok((key.parse(|| format!("the setting {}", key.name), value)?, Source::Code));
    }
    if let Some(value) = environment(key.variable) {
        let number = key.parse(|| format!("the variable {}", key.variable), &value)?;
        return Ok((number, Source::Environment));
    }
    if let Some((path, table)) = file
        && let Some(value) = table.get(key.name)
    {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return Ok((key.parse(|| format!("`{}` in {path}", key.name), &text)?, Source::File));
    }
    Ok((key.default, Source::Default))
}

/// Rejects unknown keys: a misspelt key would silently do nothing.
fn refuse_strangers(code: &[(&str, &str)], file: Option<(&str, &toml::Table)>) -> Result<()> {
    let known = |name: &str| KEYS.iter().any(|key| key.name == name);
    let bad = |origin: String, name: &str| Error::BadValue {
        origin,
        value: name.into(),
        expected: format!("one of {}", KEYS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")),
    };
    if let Some((name, _)) = code.iter().find(|(name, _)| !known(name)) {
        return Err(bad("the name of a setting".into(), name));
    }
    if let Some((path, table)) = file
        && let Some(name) = table.keys().find(|name| !known(name))
    {
        return Err(bad(format!("a key in {path}"), name));
    }
    Ok(())
}

fn read_file(path: &OsStr) -> Result<toml::Table> {
    let bad = |why: String| Error::BadFile { path: printable(path).to_string(), why };
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    text.parse::<toml::Table>().map_err(|e| bad(e.to_string()))
}

/// Returns a variable of the environment, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests;
