//! The one table of settings: it defines the struct, the `CLUMP_*` variables, the file's keys and
//! `clump doctor --config`. Order of precedence: code, environment, file, default.
#![allow(clippy::disallowed_methods, reason = "this module is where the environment is read")]

use crate::choices::{NetBulk, NetDriver, SvmProtocol, SvmShare};
use crate::former_name::new_form;
pub use crate::key::Key;
use crate::key_table::key_table;
use crate::lab::Lab;
use crate::net_faults::NetFaults;
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

key_table! {
    /// The effective configuration of this process.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Config {
        /// Faults that the network injects.
        pub net_faults: NetFaults,
        /// Parameters that only studies set.
        pub lab: Lab,
        sources: Vec<Source>,
        texts: [(String, Source); TEXT_KEYS.len()],
    }
    /// Every setting that is a number or a choice.
    pub static KEYS of None;

    lanes: u64 = 1024 in 0..=1024, "", "CLUMP_LANES",
        "Largest number of lanes that a rank claims; 0 sends everything through the shared queues.";
    stats: bool = 0 in 0..=1, "bool", "CLUMP_STATS",
        "Print the job's communication summary at its end.";
    send_timeout_ms: u64 = 0 in 0..=86_400_000, "ms", "CLUMP_SEND_TIMEOUT_MS",
        "Time that a request waits for room before it is returned; 0: no limit.";
    node_timeout_ms: u64 = 2000 in 200..=3_600_000, "ms", "CLUMP_NODE_TIMEOUT_MS",
        "Silence after which a node counts as lost.";
    start_timeout_ms: u64 = 8000 in 500..=3_600_000, "ms", "CLUMP_START_TIMEOUT_MS",
        "Time within which the agent of each machine of a job must have started.";
    start_fan_out: u64 = 16 in 1..=1024, "", "CLUMP_START_FAN_OUT",
        "Machines on which the launcher starts agents itself; beyond them, those machines start the others.";
    engine_nodes: u64 = 1 in 1..=64, "", "CLUMP_ENGINE_NODES",
        "Virtual nodes that ranks of an engine are divided into, where all are on one machine.";
    net_driver: NetDriver = 0 in 0..=3, "", "CLUMP_NET_DRIVER",
        "Driver of packets between nodes; auto: the best that this machine offers.";
    net_bulk: NetBulk = 0 in 0..=2, "", "CLUMP_NET_BULK",
        "Transport of long payloads between nodes: datagrams, or streams beside them from 32 KiB on; auto: streams from 128 KiB on where packets are short.";
    net_proxies: u64 = 0 in 0..=16, "", "CLUMP_NET_PROXIES",
        "Threads of each node's agent that drive the network for its ranks; 0: ranks do it themselves.";
    conn_silence_ms: u64 = 5000 in 100..=3_600_000, "ms", "CLUMP_CONN_SILENCE_MS",
        "Silence after which a connection between jobs has ended.";
    pgas_aggregate: bool = 1 in 0..=1, "bool", "CLUMP_PGAS_AGGREGATE",
        "Collect small operations of the global address space on other nodes; 0: send each by itself.";
    pgas_memory: u64 = 16_777_216 in 12..=1_099_511_627_776, "B", "CLUMP_PGAS_MEMORY",
        "Bytes of all open batches of a thread together.";
    svm: SvmProtocol = 4 in 0..=5, "", "CLUMP_SVM",
        "Requests of shared virtual memory that network interfaces execute by themselves: none, and, one after the other, notices (dw), fetches (rf), diffs (dd), locks (nil); or the protocol by ranks themselves, with one-sided operations (deposit).";
    svm_share: SvmShare = 2 in 0..=2, "", "CLUMP_SVM_SHARE",
        "Memory that the threads of programs for pthreads share: allocations of clump (heap), globals of the program as well (globals), or allocations of malloc as well (malloc).";
    trace_events: u64 = 2_097_152 in 1..=4_294_967_296, "", "CLUMP_TRACE_EVENTS",
        "Events that a rank's trace has room for, of 16 bytes each; later ones are counted only.";
}

/// Settings that are texts; empty by default.
pub static TEXT_KEYS: [Key; 7] = [
    Key::text(
        "emu",
        "CLUMP_EMU",
        "Parameters of the network to emulate, as in o=+5us,g=10us,L=+20us,G=+1ns/B,scope=net.",
    ),
    Key::text(
        "lab_machine",
        "CLUMP_LAB_MACHINE",
        "The file of this machine's parameters, which clump lab calibrate writes; by default in the user's state folder.",
    ),
    Key::text(
        "agent",
        "CLUMP_AGENT",
        "The clump that agents of ranks started by others run; by default beside the program, else in PATH.",
    ),
    Key::text(
        "trace",
        "CLUMP_TRACE",
        "The folder into which each rank writes a trace of its messages, waits and barriers; none if empty.",
    ),
    Key::text(
        "netns",
        "CLUMP_NETNS",
        "The network namespaces for the nodes of jobs, which clump lab path sets for the command that it runs; none if empty.",
    ),
    Key::text(
        "net_faults",
        crate::net_faults::VARIABLE,
        "Faults of packets between nodes, for tests, as in loss=1%,duplicate=20000ppm,reorder=5%,corrupt=100ppm,delay=5ms,seed=7.",
    ),
    Key::text(
        "lab",
        crate::lab::VARIABLE,
        "Parameters of studies, as clump run --lab: KEY=VALUE with commas between, of the keys that clump doctor --config --lab lists.",
    ),
];

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
        let sources = vec![Source::Default; KEYS.len()];
        Self::of(&numbers, NetFaults::default(), Lab::default(), sources, texts)
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

    /// Returns the variables by which other processes find the same configuration, without its
    /// file and options: all of this process's environment whose names begin with `CLUMP_`, and
    /// those of settings from the file or from options.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let ours = |(name, _): &(OsString, OsString)| {
            name.as_encoded_bytes().starts_with(PREFIX) && name != FILE_VARIABLE
        };
        let other = |entry: &ConfigEntry| [Source::File, Source::Code].contains(&entry.source);
        let others = self.entries().into_iter().filter(other);
        let others = others.map(|entry| (entry.key.variable.into(), entry.value.into()));
        std::env::vars_os().filter(ours).chain(others).collect()
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
        let given = |key: &Key| given(key, code, &environment, file);
        let mut numbers = Vec::with_capacity(KEYS.len());
        let mut sources = Vec::with_capacity(KEYS.len());
        for key in KEYS {
            let first = given(key).into_iter().next();
            sources.push(first.as_ref().map_or(Source::Default, |value| value.source));
            numbers.push(match first {
                Some(value) => key.parse(|| value.origin, &value.text)?,
                None => key.default,
            });
        }
        let mut texts = TEXT_KEYS.each_ref().map(|key| {
            let first = given(key).into_iter().next();
            first.map_or((String::new(), Source::Default), |value| (value.text, value.source))
        });
        // Each key of a list has its own precedence, as a setting has.
        let [.., faults, lab] = &TEXT_KEYS;
        let (mut net_faults, mut of_lab) = (NetFaults::default(), Lab::default());
        for value in given(faults).iter().rev() {
            net_faults = net_faults.read(&value.origin, &value.text)?;
        }
        for value in given(lab).iter().rev() {
            of_lab = of_lab.read(&value.origin, &value.text)?;
        }
        let [.., (faults, _), (lab, _)] = &mut texts;
        (*faults, *lab) = (net_faults.written(), of_lab.written());
        Ok(Self::of(&numbers, net_faults, of_lab, sources, texts))
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

    /// Returns the network namespaces for the nodes of jobs, as text; empty: none are handed over.
    pub fn netns(&self) -> &str {
        &self.texts[4].0
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

/// A value of a setting at one of the places where it can stand.
struct Given {
    text: String,
    source: Source,
    /// Description of the place, for messages.
    origin: String,
}

/// Returns the values of a setting, the one that prevails first.
fn given(
    key: &Key,
    code: &[(&str, &str)],
    environment: impl Fn(&str) -> Option<String>,
    file: Option<(&str, &toml::Table)>,
) -> Vec<Given> {
    let of_code = code.iter().rev().find(|(name, _)| *name == key.name);
    let of_code = of_code.map(|(_, text)| Given {
        text: (*text).to_owned(),
        source: Source::Code,
        origin: format!("the setting {}", key.name),
    });
    let of_environment = environment(key.variable).map(|text| Given {
        text,
        source: Source::Environment,
        origin: format!("the variable {}", key.variable),
    });
    let of_file = file.and_then(|(path, table)| {
        let value = table.get(key.name)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(Given { text, source: Source::File, origin: format!("`{}` in {path}", key.name) })
    });
    [of_code, of_environment, of_file].into_iter().flatten().collect()
}

/// Rejects unknown keys: a misspelt key would silently do nothing.
fn refuse_strangers(code: &[(&str, &str)], file: Option<(&str, &toml::Table)>) -> Result<()> {
    let known = |name: &str| KEYS.iter().chain(&TEXT_KEYS).any(|key| key.name == name);
    let names = || KEYS.iter().chain(&TEXT_KEYS).map(|key| key.name).collect::<Vec<_>>().join(", ");
    let bad = |origin: String, name: &str| Error::BadValue {
        origin,
        value: name.into(),
        expected: new_form(name).unwrap_or_else(|| format!("one of {}", names())),
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
