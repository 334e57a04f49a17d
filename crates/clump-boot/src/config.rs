//! The one table of settings: it defines the struct, the `CLUMP_*` variables, the file's keys and
//! `clump doctor --config`. Order of precedence: code, environment, file, default.
#![allow(clippy::disallowed_methods, reason = "this module is where the environment is read")]

use crate::dispatch::Dispatch;
pub use crate::key::Key;
use crate::net_bulk::NetBulk;
use crate::net_driver::NetDriver;
use crate::svm_consistency::SvmConsistency;
use crate::svm_diffs::SvmDiffs;
use crate::svm_faults::SvmFaults;
use crate::svm_fetch::SvmFetch;
use crate::svm_notices::SvmNotices;
use crate::svm_protocol::SvmProtocol;
use crate::svm_share::SvmShare;
use crate::{Error, Result};
use clump_os::printable::printable;
use clump_os::text_file;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// Variable with the path of the configuration file, a TOML table of the keys below.
pub const FILE_VARIABLE: &str = "CLUMP_CONFIG";
/// Most bytes of that file.
const MAX_BYTES: u64 = 1 << 20;

/// Beginning of the names of clump's variables.
pub(crate) const PREFIX: &[u8] = b"CLUMP_";

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

macro_rules! choices {
    ($($kind:ty),+ $(,)?) => {$(
        impl Setting for $kind {
            const CHOICES: &'static [&'static str] = &Self::NAMES;
            fn from_number(number: u64) -> Self {
                let at = usize::try_from(number).ok();
                at.and_then(|at| Self::ALL.get(at)).copied().unwrap_or_default()
            }
            fn number(self) -> u64 {
                self as u64
            }
        }
    )+};
}

choices!(
    Dispatch,
    NetBulk,
    NetDriver,
    SvmConsistency,
    SvmDiffs,
    SvmFaults,
    SvmFetch,
    SvmNotices,
    SvmProtocol,
    SvmShare,
);

macro_rules! settings {
    ($($name:ident: $kind:ty = $default:literal in $least:literal..=$most:literal, $unit:literal, $variable:literal, $doc:literal;)+) => {
        /// The effective configuration of this process.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Config {
            $(#[doc = $doc] pub $name: $kind,)+
            sources: Vec<Source>,
            texts: [(String, Source); TEXT_KEYS.len()],
        }

        /// Every setting there is.
        pub static KEYS: &[Key] = &[$(Key {
            name: stringify!($name), variable: $variable, default: $default,
            least: $least, most: $most, unit: $unit, doc: $doc,
            choices: <$kind as Setting>::CHOICES,
        }),+];

        impl Config {
            fn of(
                numbers: &[u64],
                sources: Vec<Source>,
                texts: [(String, Source); TEXT_KEYS.len()],
            ) -> Self {
                let mut next = numbers.iter().copied();
                Self {
                    $($name: <$kind>::from_number(next.next().unwrap_or($default)),)+
                    sources,
                    texts,
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
    start_timeout_ms: u64 = 8000 in 500..=3_600_000, "ms", "CLUMP_START_TIMEOUT_MS",
        "How long a machine of a job may take until its agent is there.";
    start_fan_out: u64 = 16 in 1..=1024, "", "CLUMP_START_FAN_OUT",
        "Most machines on which a job's launcher starts agents itself; beyond, these machines start those of others.";
    engine_nodes: u64 = 1 in 1..=64, "", "CLUMP_ENGINE_NODES",
        "Virtual nodes that ranks of an engine are divided into, where all are on one machine.";
    net_driver: NetDriver = 0 in 0..=3, "", "CLUMP_NET_DRIVER",
        "What carries packets between nodes: auto chooses among what this machine offers.";
    net_bulk: NetBulk = 0 in 0..=2, "", "CLUMP_NET_BULK",
        "What carries long payloads between nodes: datagrams, or streams beside them from 32 KiB on; auto: from 128 KiB on where packets are short.";
    net_proxies: u64 = 0 in 0..=16, "", "CLUMP_NET_PROXIES",
        "Threads of each node's agent that drive the network for its ranks; 0: ranks do it themselves.";
    net_dispatch: Dispatch = 0 in 0..=2, "", "CLUMP_NET_DISPATCH",
        "Which proxy a message takes: always the same, one after the other, or the least loaded.";
    net_poll_min: u64 = 16 in 1..=1_000_000, "", "CLUMP_NET_POLL_MIN",
        "Shared-memory polls per network poll when busy.";
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
    pgas_aggregate: bool = 1 in 0..=1, "bool", "CLUMP_PGAS_AGGREGATE",
        "Whether small operations of the global address space on other nodes are collected; 0: each is sent by itself.";
    pgas_batch: u64 = 1365 in 1..=1365, "", "CLUMP_PGAS_BATCH",
        "Operations after which a batch of those is sent.";
    pgas_delay_us: u64 = 1000 in 0..=60_000_000, "us", "CLUMP_PGAS_DELAY_US",
        "Age at which a batch is sent, at the next operation or poll.";
    pgas_memory: u64 = 16_777_216 in 12..=1_099_511_627_776, "B", "CLUMP_PGAS_MEMORY",
        "Bytes of all open batches of a thread together.";
    pgas_grid: u64 = 64 in 0..=4_294_967_295, "", "CLUMP_PGAS_GRID",
        "Nodes from which on batches travel over a grid of nodes, by way of another; 0: never.";
    pgas_combine: bool = 1 in 0..=1, "bool", "CLUMP_PGAS_COMBINE",
        "Whether proxies combine the batches of their node's ranks, by destination node.";
    svm_faults: SvmFaults = 0 in 0..=4, "", "CLUMP_SVM_FAULTS",
        "How shared virtual memory finds accesses to pages; auto: the best that the kernel permits.";
    svm: SvmProtocol = 4 in 0..=4, "", "CLUMP_SVM",
        "Requests of shared virtual memory that network interfaces execute by themselves: none, and, one after the other, notices (dw), fetches (rf), diffs (dd), locks (nil).";
    svm_diffs: SvmDiffs = 2 in 0..=2, "", "CLUMP_SVM_DIFFS",
        "What shares a message on its way to the home of pages: the bytes of a run, of a page, or of all pages of a home.";
    svm_consistency: SvmConsistency = 1 in 0..=1, "", "CLUMP_SVM_CONSISTENCY",
        "What a rank sees of data that was published without a lock: nothing is said (plain), or what a fault shows leads to what its writer had seen (fetch).";
    svm_notices: SvmNotices = 0 in 0..=2, "", "CLUMP_SVM_NOTICES",
        "Way of write notices: releases send them to all nodes (push), or acquires ask for them (pull); auto: as the step of CLUMP_SVM.";
    svm_fetch: SvmFetch = 0 in 0..=2, "", "CLUMP_SVM_FETCH",
        "Answer of a home that is behind: once it is not (wait), or at once, so that the requester asks again (retry); auto: as the step of CLUMP_SVM.";
    svm_share: SvmShare = 2 in 0..=2, "", "CLUMP_SVM_SHARE",
        "Memory that the threads of programs for pthreads share: what they ask clump for (heap), the program's globals, too (globals), or these and what it allocates by malloc (malloc).";
    svm_move_after: u64 = 0 in 0..=255, "", "CLUMP_SVM_MOVE_AFTER",
        "Periods between barriers after which a page moves to its sole writer; 0: as the program says.";
    trace_events: u64 = 2_097_152 in 1..=4_294_967_296, "", "CLUMP_TRACE_EVENTS",
        "Events that a rank's trace has room for, of 16 bytes each; later ones are counted only.";
    net_seed: u64 = 1 in 0..=18_446_744_073_709_551_615, "", "CLUMP_NET_SEED",
        "Seed of the injected faults.";
}

/// Settings that are texts; empty by default.
pub static TEXT_KEYS: [Key; 4] = [
    text_key(
        "emu",
        "CLUMP_EMU",
        "How much slower the network is to seem, as in o=+5us,g=10us,L=+20us,G=+1ns/B,scope=net.",
    ),
    text_key(
        "lab_machine",
        "CLUMP_LAB_MACHINE",
        "The file of this machine's parameters, which clump lab calibrate writes; by default in the user's state folder.",
    ),
    text_key(
        "agent",
        "CLUMP_AGENT",
        "The clump that agents of ranks started by others run; by default beside the program, else in PATH.",
    ),
    text_key(
        "trace",
        "CLUMP_TRACE",
        "The folder into which each rank writes a trace of its messages, waits and barriers; none if empty.",
    ),
];

const fn text_key(name: &'static str, variable: &'static str, doc: &'static str) -> Key {
    Key { name, variable, default: 0, least: 0, most: 0, unit: "text", choices: &[], doc }
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
        let texts = std::array::from_fn(|_| (String::new(), Source::Default));
        Self::of(&numbers, vec![Source::Default; KEYS.len()], texts)
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

    /// Returns the variables by which processes on other machines find the same configuration,
    /// without its file: all of this process's environment whose names begin with `CLUMP_`, and
    /// those of settings from the file.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let ours = |(name, _): &(OsString, OsString)| {
            name.as_encoded_bytes().starts_with(PREFIX) && name != FILE_VARIABLE
        };
        let of_file = |entry: &ConfigEntry| entry.source == Source::File;
        let of_file = self.entries().into_iter().filter(of_file);
        let of_file = of_file.map(|entry| (entry.key.variable.into(), entry.value.into()));
        std::env::vars_os().filter(ours).chain(of_file).collect()
    }

    /// Returns the settings that are not at their defaults, by name.
    pub fn settings(&self) -> Vec<(String, String)> {
        let changed = |entry: &ConfigEntry| entry.source != Source::Default;
        let all = self.entries().into_iter().filter(changed);
        all.map(|entry| (entry.key.name.into(), entry.value)).collect()
    }

    /// Creates the configuration with these settings, whatever the environment of this process.
    ///
    /// # Errors
    /// Fails on a value outside its range, or a name that is no key.
    pub fn of_settings(settings: &[(String, String)]) -> Result<Self> {
        let all: Vec<_> = settings.iter().map(|one| (one.0.as_str(), one.1.as_str())).collect();
        Self::layered(&all, |_| None, None)
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
        let text = |key: &Key| {
            let of_code = code.iter().rev().find(|(name, _)| *name == key.name);
            let of_file = || file.and_then(|(_, table)| table.get(key.name)?.as_str());
            if let Some((_, value)) = of_code {
                ((*value).to_owned(), Source::Code)
            } else if let Some(value) = environment(key.variable) {
                (value, Source::Environment)
            } else if let Some(value) = of_file() {
                (value.to_owned(), Source::File)
            } else {
                (String::new(), Source::Default)
            }
        };
        Ok(Self::of(&numbers, sources, TEXT_KEYS.each_ref().map(text)))
    }

    /// Returns how much slower the network is to seem, as text.
    pub fn emu(&self) -> &str {
        &self.texts[0].0
    }

    /// Returns the path of the clump that agents of ranks started by others run, if one is named.
    pub fn agent(&self) -> Option<PathBuf> {
        let named = &self.texts[2].0;
        (!named.is_empty()).then(|| named.into())
    }

    /// Returns the folder for the ranks' traces, if they are traced.
    pub fn trace(&self) -> Option<PathBuf> {
        let named = &self.texts[3].0;
        (!named.is_empty()).then(|| named.into())
    }

    /// Returns the file of this machine's parameters; `None`: there is no folder for it.
    pub fn machine_file(&self) -> Option<PathBuf> {
        let named = &self.texts[1].0;
        if !named.is_empty() {
            return Some(PathBuf::from(named));
        }
        let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
        let state = folder("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.or_else(|| Some(PathBuf::from(folder("HOME")?).join(".local/state")));
        Some(state?.join("clump/machine.json"))
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
            .chain(TEXT_KEYS.iter().zip(&self.texts).map(|(key, (value, source))| ConfigEntry {
                key: *key,
                value: value.clone(),
                source: *source,
            }))
            .collect()
    }
}

impl fmt::Display for Config {
    /// Writes one line per setting, as a configuration file that can be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in self.entries() {
            let ConfigEntry { key, value, source } = entry;
            let unit = if matches!(key.unit, "bool" | "text") { "" } else { key.unit };
            let is_text = key.unit == "text" || !key.choices.is_empty();
            let quote = if is_text { "\"" } else { "" };
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
    let known = |name: &str| KEYS.iter().chain(&TEXT_KEYS).any(|key| key.name == name);
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
    let text = text_file::read(Path::new(path), MAX_BYTES).map_err(|e| bad(e.to_string()))?;
    text.parse::<toml::Table>().map_err(|e| bad(e.to_string()))
}

/// Returns a variable of this process's environment, as it is.
pub fn inherited_variable(name: &OsStr) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns a variable of the environment, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests;
