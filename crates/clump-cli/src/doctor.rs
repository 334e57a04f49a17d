//! `clump doctor`: features of this machine, missing ones, their effect on clump, and the
//! remedies.
//!
//! [`facts`] queries the machine, [`checks`] and [`limits`] judge (pure, so that machines we do
//! not have can be tested), and this file prints. The exit status is 1 only when something is
//! missing that clump cannot do without.

mod amount;
mod checks;
mod facts;
mod finding;
mod limits;
mod machines;
mod output;
#[cfg(test)]
mod tests;

use crate::hosts::Hosts;
use crate::machines::{Machines, Words, interface, ports, words};
use anyhow::Result;
use clump_boot::Lab;
use clump_os::console;
use clump_os::printable::{printable_json, printable_lines};
use finding::{Finding, Verdict};
pub(crate) use output::{ConfigOutput, HostsOutput, LabOutput};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `clump doctor`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DoctorArgs {
    /// Print findings as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the effective configuration instead: every setting, its value, and its origin
    #[arg(long)]
    pub config: bool,
    /// With --config: the parameters that only studies change (`clump run --lab`), with their
    /// defaults and what they mean
    #[arg(long, requires = "config")]
    pub lab: bool,
    /// Examine these machines instead, and the network between them
    #[arg(long, value_name = "A,B", conflicts_with = "config")]
    pub hosts: Option<Hosts>,
    /// File of machines to examine, as that of `clump run`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "hosts"])]
    pub hostfile: Option<PathBuf>,
    /// Command that runs a command on a machine [default: ssh]
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    pub ssh: Option<Words>,
    /// Path of clump on the machines [default: that of this program]
    #[arg(long, value_name = "PATH")]
    pub agent: Option<OsString>,
    /// Interfaces or networks by which machines talk [default: all that reach each other]
    #[arg(long, value_name = "NAME|CIDR", value_delimiter = ',', value_parser = interface)]
    pub interface: Vec<String>,
    /// Range of UDP ports by which machines talk [default: any]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub port: Option<(u16, u16)>,
    /// Names of the machines, for a rank of the job that examines them
    #[arg(long, hide = true, value_delimiter = ',')]
    pub as_rank: Vec<String>,
}

impl DoctorArgs {
    /// Returns the machines to examine, if some are named.
    fn machines(&self) -> Option<Machines> {
        let machines = Machines {
            hosts: self.hosts.clone(),
            hostfile: self.hostfile.clone(),
            ssh: self.ssh.clone(),
            agent: self.agent.clone(),
            stage: false,
            interface: self.interface.clone(),
            port: self.port,
        };
        machines.are_named().then_some(machines)
    }
}

/// Checks the machine and prints the findings; fails only when something essential is missing.
///
/// # Errors
/// Fails if standard output cannot be written, or with `--config` if the configuration cannot be
/// read.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    if args.config {
        return configuration(args);
    }
    if !args.as_rank.is_empty() {
        return machines::as_rank(&args.as_rank, lacks);
    }
    if let Some(machines) = args.machines() {
        return machines::examine(&machines, args.json);
    }
    let findings = checks::all(&facts::gather());
    let usable = usable(&findings);
    // The text holds versions that programs print.
    let text = match args.json {
        true => printable_json(&json(&findings)?),
        false => printable_lines(&report(&findings)),
    };
    console::out(&text)?;
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Areas of findings that concern jobs.
const OF_JOBS: [&str; 4] = ["cores and clock", "memory", "limits", "between nodes"];

/// Returns a line for each finding about jobs that is not ok.
fn lacks(found: &facts::Facts) -> String {
    let concerns = |finding: &&Finding| {
        finding.verdict != Verdict::Ok && (finding.essential || OF_JOBS.contains(&finding.area))
    };
    let line = |Finding { name, verdict, found, remedy, .. }: &Finding| {
        format!("  {} {name}: {found}; {remedy}\n", verdict.word())
    };
    checks::all(found).iter().filter(concerns).map(line).collect()
}

fn configuration(args: &DoctorArgs) -> Result<ExitCode> {
    let config = clump_boot::Config::load()?;
    let text = if args.lab {
        lab_parameters(&config.lab, args.json)?
    } else if args.json {
        serde_json::to_string_pretty(&ConfigOutput::of(&config))? + "\n"
    } else {
        config.to_string()
    };
    console::out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the parameters of studies.
fn lab_parameters(lab: &Lab, as_json: bool) -> Result<String> {
    if as_json {
        return Ok(serde_json::to_string_pretty(&LabOutput::of(lab))? + "\n");
    }
    let mut page = String::new();
    for (key, value) in lab.entries() {
        let _ = writeln!(page, "{}={value}", key.name);
        let (default, expected) = (key.default_text(), key.expected());
        paragraph(&mut page, "", &format!("{} Default: {default}; {expected}.", key.doc));
    }
    Ok(page)
}

/// Returns true if clump can run here at all.
fn usable(findings: &[Finding]) -> bool {
    !findings.iter().any(|f| f.essential && f.verdict == Verdict::Missing)
}

/// The output of `--json`.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct DoctorOutput {
    /// Number of the format.
    format: u32,
    /// True if clump can run here at all.
    usable: bool,
    /// The result of each check.
    findings: Vec<Finding>,
}

impl DoctorOutput {
    /// Returns that of some findings.
    pub(crate) fn of(findings: Vec<Finding>) -> Self {
        Self { format: console::JSON_FORMAT, usable: usable(&findings), findings }
    }
}

fn json(findings: &[Finding]) -> Result<String> {
    Ok(serde_json::to_string_pretty(&DoctorOutput::of(findings.to_vec()))? + "\n")
}

/// Columns of the report.
const WIDTH: usize = 100;
/// Columns before the text: mark and name.
const MARGIN: usize = 2 + 10 + 18;

/// Formats the findings as a page for people.
fn report(findings: &[Finding]) -> String {
    let mut page = String::new();
    let mut area = "";
    for finding in findings {
        if finding.area != area {
            area = finding.area;
            let gap = if page.is_empty() { "" } else { "\n" };
            let _ = writeln!(page, "{gap}{area}");
        }
        entry(&mut page, finding);
    }
    let _ = write!(page, "\n{}", verdict(findings));
    page
}

/// Formats a finding: the state beside its name, below it the effect and the remedy.
fn entry(page: &mut String, finding: &Finding) {
    let head = format!("  {:10}{:18}", finding.verdict.word(), finding.name);
    paragraph(page, &head, &finding.found);
    paragraph(page, "", finding.meaning);
    if !finding.remedy.is_empty() {
        paragraph(page, "", &format!("remedy: {}", finding.remedy));
    }
}

/// Writes `text` right of the margin, broken between words, with `head` in the margin of its first
/// line.
fn paragraph(page: &mut String, head: &str, text: &str) {
    let mut line = format!("{head:MARGIN$}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(page, "{line}");
            line = " ".repeat(MARGIN);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    if !empty {
        let _ = writeln!(page, "{line}");
    }
}

/// Returns the last line: if clump can run here, and how well.
fn verdict(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let (degraded, missing) = (count(Verdict::Degraded), count(Verdict::Missing));
    if usable(findings) {
        format!(
            "clump runs here: nothing essential is missing; {degraded} degraded, {missing} optional \
             missing.\n"
        )
    } else {
        let essential = findings.iter().filter(|f| f.essential && f.verdict == Verdict::Missing);
        let names: Vec<_> = essential.map(|f| f.name).collect();
        format!("clump cannot run here: {} missing; see the remedies above.\n", names.join(", "))
    }
}
