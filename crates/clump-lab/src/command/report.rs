//! `clump lab report`: options, files.

use crate::study::{Study, tables};
use crate::{csv, page, render};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Options of `clump lab report`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Files may be profiles (clump run --profile), journals of sweeps (clump lab sweep --out), a machine\n\
    file (clump lab calibrate --save), and reports (clump lab logp --json, clump lab steps --json). Those whose names begin alike, up to the first point, are of one program.\n\n\
    Examples:\n  \
    clump lab report radix.jsonl sample.jsonl machine.json --html report.html\n  \
    clump lab report profile.json --svg figures\n  \
    clump lab report logp.json steps.json --html paths.html"
)]
pub struct ReportArgs {
    /// Profiles, journals of sweeps, a machine file, reports of other instruments
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write one page with all tables and figures, which needs no network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the figures into this folder
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Write every figure of every table as a line of comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub fn run(args: &ReportArgs) -> Result<u8> {
    let study = Study::read(&args.files)?;
    let (report, figures) = tables::report(&study)?;
    if let Some(file) = &args.html {
        write(file, &page::page(&report, &figures)?)?;
    }
    if let Some(file) = &args.csv {
        write(file, &csv::csv(&report))?;
    }
    if let Some(folder) = &args.svg {
        std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        for figure in &figures {
            write(&folder.join(format!("{}.svg", figure.name)), &figure.svg)?;
        }
    }
    render::show(&report, args.json)?;
    Ok(0)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, tests::parse};

    #[test]
    fn files_are_read_and_written_where_the_options_say() {
        let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "report").unwrap();
        let at = |name: &str| folder.path().join(name);
        let profile = crate::study::fake::profile(vec![clump_trace::Snapshot::ZERO; 2]);
        std::fs::write(at("p.json"), serde_json::to_string(&profile).unwrap()).unwrap();
        let names = [at("p.json"), at("page.html"), at("all.csv"), at("figures")];
        let [file, page, csv, figures] = names.each_ref().map(|path| path.to_str().unwrap());
        let words = ["lab", "report", file, "--html", page, "--csv", csv, "--svg", figures];
        let Command::Report(args) = parse(&words) else { panic!("another command") };
        assert_eq!(super::run(&args).unwrap(), 0);
        assert!(std::fs::read_to_string(page).unwrap().contains("messages per rank, most"));
        assert!(std::fs::read_to_string(csv).unwrap().starts_with("table,row"));
        let Command::Report(args) = parse(&["lab", "report", csv]) else { panic!("another") };
        assert!(format!("{:#}", super::run(&args).unwrap_err()).contains("all.csv"));
    }
}
