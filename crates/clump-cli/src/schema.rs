//! `clump schema`: the form of what commands print with `--json`, as JSON Schema.

use crate::doctor::DoctorOutput;
use crate::top::TopOutput;
use clap::{Args, ValueEnum};
use clump_lab::schema::InstrumentReport;
use clump_os::console;
use schemars::{Schema, schema_for};
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
    /// clump top --json: a line for each view
    Top,
    /// clump doctor --json
    Doctor,
}

impl DescribedCommand {
    /// Returns the schema of its output.
    fn schema(self) -> Schema {
        match self {
            Self::Lab => schema_for!(InstrumentReport),
            Self::Top => schema_for!(TopOutput),
            Self::Doctor => schema_for!(DoctorOutput),
        }
    }
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
    fn a_report_has_the_fields_of_its_schema() {
        let report = InstrumentReport::new("test", "a test".into(), &()).unwrap();
        let report = serde_json::to_value(report).unwrap();
        let schema = serde_json::to_value(DescribedCommand::Lab.schema()).unwrap();
        let known = fields(&schema);
        assert!(report.as_object().unwrap().keys().all(|name| known.contains(name)), "{known:?}");
        assert_eq!(report["format"], clump_lab::schema::JSON_FORMAT);
        let demanded = schema["required"].as_array().unwrap();
        assert!(demanded.iter().all(|name| report.get(name.as_str().unwrap()).is_some()));
    }
}
