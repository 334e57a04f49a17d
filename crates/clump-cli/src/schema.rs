//! `clump schema`: the form of what commands print with `--json`, as JSON Schema.

use crate::doctor::{ConfigOutput, DoctorOutput, HostsOutput, LabOutput};
use crate::stats::{JobList, JobStats};
use crate::top::TopOutput;
use crate::waits::WaitsOutput;
use clap::{Args, ValueEnum};
use clump_agent::outcome::JobOutcome;
use clump_app_frame::AppReport;
use clump_lab::command::logp::LogpOfPaths;
use clump_lab::path::CommandPath;
use clump_lab::schema::InstrumentReport;
use clump_os::console;
use clump_sort::gensort::Made;
use clump_sort::report::SortReport;
use clump_sort::valsort::Verdict;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use std::process::ExitCode;

/// Options of `clump schema`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  clump schema lab       the fields of each report of clump lab")]
pub struct SchemaArgs {
    /// The command whose --json is described
    #[arg(value_enum)]
    pub command: DescribedCommand,
}

/// A command whose output has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DescribedCommand {
    /// Every instrument of the laboratory
    Lab,
    /// clump lab logp --json of several paths: a report of each, by its path
    LabLogp,
    /// clump lab path --json of a command: the path that it had
    LabPath,
    /// clump run --json: the outcome of a job
    Run,
    /// Every application but those of the sort
    App,
    /// clump app sort --json
    Sort,
    /// clump app gensort --json
    Gensort,
    /// clump app valsort --json
    Valsort,
    /// clump stats --json of a job
    Stats,
    /// clump stats --json without a job: the jobs of this user
    StatsList,
    /// clump stats --where --json
    StatsWhere,
    /// clump top --json: a line for each view
    Top,
    /// clump doctor --json
    Doctor,
    /// clump doctor --config --json: the settings
    DoctorConfig,
    /// clump doctor --config --lab --json: parameters of studies
    DoctorLab,
    /// clump doctor --hosts --json: machines
    DoctorHosts,
}

impl DescribedCommand {
    /// Returns the schema of its output.
    pub fn schema(self) -> Schema {
        match self {
            Self::Lab => printed::<InstrumentReport>(),
            Self::LabLogp => printed::<LogpOfPaths>(),
            Self::LabPath => printed::<CommandPath>(),
            Self::Run => printed::<JobOutcome>(),
            Self::App => printed::<AppReport>(),
            Self::Sort => printed::<SortReport>(),
            Self::Gensort => printed::<Made>(),
            Self::Valsort => printed::<Verdict>(),
            Self::Stats => printed::<JobStats>(),
            Self::StatsList => printed::<JobList>(),
            Self::StatsWhere => printed::<WaitsOutput>(),
            Self::Top => printed::<TopOutput>(),
            Self::Doctor => printed::<DoctorOutput>(),
            Self::DoctorConfig => printed::<ConfigOutput>(),
            Self::DoctorLab => printed::<LabOutput>(),
            Self::DoctorHosts => printed::<HostsOutput>(),
        }
    }
}

/// Returns the schema of what is written, not of what would be read.
fn printed<T: JsonSchema>() -> Schema {
    SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// Prints a schema.
///
/// # Errors
/// Fails if it cannot be written.
pub fn run(args: &SchemaArgs) -> anyhow::Result<ExitCode> {
    let text = serde_json::to_string_pretty(&args.command.schema())?;
    console::out(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_lab::path::relay::{PathCounts, PathShape};
    use serde_json::Value;

    /// Returns the fields of an object that a schema demands or allows.
    fn fields(schema: &Value) -> Vec<String> {
        let all = schema["properties"].as_object().unwrap();
        all.keys().cloned().collect()
    }

    #[test]
    fn every_field_has_a_description_and_each_output_a_format() {
        for command in DescribedCommand::value_variants() {
            let schema = serde_json::to_value(command.schema()).unwrap();
            assert!(fields(&schema).contains(&"format".to_owned()), "{command:?}: {schema}");
            let parts = schema["$defs"].as_object().into_iter().flat_map(|all| all.values());
            for part in parts.chain([&schema]) {
                let properties = part["properties"].as_object();
                for (name, field) in properties.into_iter().flatten() {
                    assert!(field["description"].is_string(), "{command:?}: {name}: {field}");
                }
            }
        }
    }

    #[test]
    fn outputs_have_the_fields_of_their_schemas() {
        let report = InstrumentReport::new("test", "a test".into(), &()).unwrap();
        let outcome = JobOutcome::without_ranks(0, clump_agent::outcome::JobEnd::Clean);
        let app = AppReport::of("test", clump_app_frame::InputSize::Ci, (2, 1));
        let list = JobList { format: console::JSON_FORMAT, jobs: Vec::new() };
        let config = clump_boot::Config::default();
        let path = CommandPath {
            format: console::JSON_FORMAT,
            code: 0,
            shape: PathShape::default(),
            real_time: false,
            counts: PathCounts::default(),
        };
        let outputs = [
            (DescribedCommand::LabPath, serde_json::to_value(path)),
            (DescribedCommand::Lab, serde_json::to_value(report)),
            (DescribedCommand::Run, serde_json::to_value(outcome)),
            (DescribedCommand::App, serde_json::to_value(app)),
            (DescribedCommand::Valsort, serde_json::to_value(Verdict::default())),
            (DescribedCommand::StatsList, serde_json::to_value(list)),
            (DescribedCommand::LabLogp, serde_json::to_value(LogpOfPaths::default())),
            (DescribedCommand::Doctor, serde_json::to_value(DoctorOutput::of(Vec::new()))),
            (DescribedCommand::DoctorConfig, serde_json::to_value(ConfigOutput::of(&config))),
            (DescribedCommand::DoctorLab, serde_json::to_value(LabOutput::of(&config.lab))),
            (DescribedCommand::DoctorHosts, serde_json::to_value(HostsOutput::new())),
        ];
        for (command, output) in outputs {
            let output = output.unwrap();
            let schema = serde_json::to_value(command.schema()).unwrap();
            let known = fields(&schema);
            let printed = output.as_object().unwrap();
            assert!(printed.keys().all(|name| known.contains(name)), "{command:?}: {known:?}");
            let demanded = schema["required"].as_array().unwrap();
            assert!(demanded.iter().all(|name| output.get(name.as_str().unwrap()).is_some()));
            let default = command == DescribedCommand::Valsort;
            let format = if default { 0 } else { console::JSON_FORMAT };
            assert_eq!(output["format"], format, "{command:?}");
        }
    }
}
