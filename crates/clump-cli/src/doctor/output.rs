//! Forms of what `clump doctor --json` prints beside findings: settings, parameters of studies, and
//! machines.

use clump_boot::{Config, Lab};
use clump_os::console::JSON_FORMAT;
use schemars::JsonSchema;
use serde::Serialize;

/// The output of `--config --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigOutput {
    /// Number of the format.
    format: u32,
    /// The settings.
    settings: Vec<SettingOutput>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SettingOutput {
    /// Its name in code and in the file.
    name: &'static str,
    /// Its name in the environment.
    variable: &'static str,
    /// Its value, as a person writes it.
    value: String,
    /// Unit of the value; empty for a count or a choice.
    unit: &'static str,
    /// The origin of the value.
    source: String,
    /// Its meaning.
    doc: &'static str,
}

impl ConfigOutput {
    /// Returns that of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let settings = config.entries().into_iter().map(|entry| SettingOutput {
            name: entry.key.name,
            variable: entry.key.variable,
            value: entry.value,
            unit: entry.key.unit,
            source: entry.source.to_string(),
            doc: entry.key.doc,
        });
        Self { format: JSON_FORMAT, settings: settings.collect() }
    }
}

/// The output of `--config --lab --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LabOutput {
    /// Number of the format.
    format: u32,
    /// The parameters.
    parameters: Vec<ParameterOutput>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ParameterOutput {
    /// Its name.
    name: &'static str,
    /// Its value.
    value: String,
    /// Its value unless set otherwise.
    default: String,
    /// Values that it may have.
    expected: String,
    /// Its meaning.
    doc: &'static str,
}

impl LabOutput {
    /// Returns that of the parameters of studies.
    pub(crate) fn of(lab: &Lab) -> Self {
        let parameters = lab.entries().map(|(key, value)| ParameterOutput {
            name: key.name,
            value,
            default: key.default_text(),
            expected: key.expected(),
            doc: key.doc,
        });
        Self { format: JSON_FORMAT, parameters: parameters.collect() }
    }
}

/// The output of `--hosts --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HostsOutput {
    /// Number of the format.
    pub(crate) format: u32,
    /// True if a job can run on all machines together.
    pub(crate) usable: bool,
    /// The machines, each by itself.
    pub(crate) machines: Vec<MachinesOutput>,
    /// All that can run a job by themselves together, and each two of them where that fails.
    pub(crate) together: Vec<MachinesOutput>,
}

/// Some machines, and a job on them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MachinesOutput {
    /// Their names.
    pub(crate) names: Vec<String>,
    /// True if the job ended cleanly.
    pub(crate) usable: bool,
    /// Lines about them, as without `--json`.
    pub(crate) lines: Vec<String>,
}

impl HostsOutput {
    /// Begins with nothing examined.
    pub(crate) fn new() -> Self {
        let (machines, together) = (Vec::new(), Vec::new());
        Self { format: JSON_FORMAT, usable: false, machines, together }
    }
}
