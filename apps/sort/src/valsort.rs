//! The `valsort` command: checks a sorted output, by valsort's rules (ordinal.com/gensort.html).
//!
//! Shares no code with the sort: it reads files in its own way, compares keys as bytes, and parses
//! the manifest itself.

use anyhow::{Context, Result, bail};
use clap::Args;
use clump_os::{console, text_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const RECORD: usize = 100;
/// Most bytes of a manifest.
const MAX_MANIFEST: u64 = 1 << 30;
const KEY: usize = 10;
/// Records read at a time.
const STRIDE: usize = 10_000;

/// Check that files are sorted, in themselves and from one to the next, and that nothing is lost.
///
/// Exit code 0: everything holds. 1: it does not, or cannot be read. Against the input, records
/// are compared as multisets by their number and by the sum of their CRC-32s.
#[derive(Debug, Clone, Args)]
pub struct ValsortArgs {
    /// A sorted folder, its manifest, or sorted files in their order; '-' is standard input
    #[arg(required = true)]
    pub outputs: Vec<PathBuf>,
    /// Input files to compare with
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub input: Vec<PathBuf>,
    /// Checksum to compare with, as gensort prints it
    #[arg(long, value_name = "HEX")]
    pub checksum: Option<String>,
    /// Number of records to compare with
    #[arg(long, value_name = "N")]
    pub records: Option<u64>,
    /// Print the verdict as JSON
    #[arg(long)]
    pub json: bool,
}

/// The result of a validation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verdict {
    /// Number of the format.
    pub format: u32,
    /// True if everything holds.
    pub valid: bool,
    /// Records seen.
    pub records: u64,
    /// Sum of their CRC-32s, in hexadecimal.
    pub checksum: String,
    /// Records whose key is that of the record before.
    pub duplicate_keys: u64,
    /// Records whose key is below that of the record before.
    pub unordered: u64,
    /// Number of the first such record over all files, from 0, and its location.
    pub first_unordered: Option<(u64, String)>,
    /// Everything that does not hold, in words.
    pub faults: Vec<String>,
}

/// Validates, prints the verdict, and returns the exit code.
///
/// # Errors
/// Fails if a file cannot be read or the verdict cannot be printed.
pub fn run(args: &ValsortArgs) -> Result<ExitCode> {
    let verdict = validate(args)?;
    if args.json {
        let text = serde_json::to_string(&verdict).context("writing JSON")?;
        console::out(&format!("{text}\n"))?;
    } else {
        console::out(&format!("{verdict}\n"))?;
    }
    Ok(if verdict.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The fields of a manifest that valsort needs.
#[derive(Debug, Deserialize)]
struct Listed {
    records: u64,
    checksum: String,
    parts: Vec<ListedPart>,
}

#[derive(Debug, Deserialize)]
struct ListedPart {
    file: String,
    records: u64,
}

/// Validates without printing; violations are in the verdict.
///
/// # Errors
/// Fails if a file or manifest cannot be read; violations are no errors.
pub fn validate(args: &ValsortArgs) -> Result<Verdict> {
    let (files, listed) = resolve(&args.outputs)?;
    let mut scan = Scan::default();
    let mut faults = Vec::new();
    for (i, file) in files.iter().enumerate() {
        let before = scan.records;
        if let Some(cut) = scan.file(file)? {
            faults.push(cut);
        }
        if let Some(part) = listed.as_ref().and_then(|l| l.parts.get(i))
            && part.records != scan.records - before
        {
            let has = scan.records - before;
            faults.push(format!(
                "{} has {has} records, the manifest has {}",
                part.file, part.records
            ));
        }
    }
    let mut wanted: Vec<(&str, Option<u64>, Option<u128>)> = Vec::new();
    if let Some(listed) = &listed {
        wanted.push(("the manifest", Some(listed.records), Some(hex(&listed.checksum)?)));
    }
    let given = args.checksum.as_deref().map(hex).transpose()?;
    wanted.push(("the command line", args.records, given));
    if !args.input.is_empty() {
        let mut input = Scan::default();
        for file in &args.input {
            if let Some(cut) = input.file(file)? {
                bail!("the input is no good: {cut}");
            }
        }
        wanted.push(("the input", Some(input.records), Some(input.sum)));
    }
    for (who, records, sum) in wanted {
        if let Some(records) = records.filter(|&r| r != scan.records) {
            faults.push(format!("{} records, but {who} has {records}", scan.records));
        }
        if let Some(sum) = sum.filter(|&s| s != scan.sum) {
            faults.push(format!("checksum {:x}, but {who} has {sum:x}", scan.sum));
        }
    }
    if let Some((number, place)) = &scan.first_unordered {
        faults.insert(
            0,
            format!(
                "{} records out of order, the first is record {number} ({place})",
                scan.unordered
            ),
        );
    }
    Ok(Verdict {
        format: console::JSON_FORMAT,
        valid: faults.is_empty(),
        records: scan.records,
        checksum: format!("{:x}", scan.sum),
        duplicate_keys: scan.duplicates,
        unordered: scan.unordered,
        first_unordered: scan.first_unordered,
        faults,
    })
}

/// Returns the files that `outputs` stand for, and the manifest that listed them, if one did.
fn resolve(outputs: &[PathBuf]) -> Result<(Vec<PathBuf>, Option<Listed>)> {
    let manifest = match outputs {
        [only] if only.is_dir() => only.join("manifest.json"),
        [only] if only.extension().is_some_and(|e| e == "json") => only.clone(),
        files => return Ok((files.to_vec(), None)),
    };
    let text = text_file::read(&manifest, MAX_MANIFEST).with_context(|| {
        format!("no manifest at '{}': the sort has not finished, or has failed", manifest.display())
    })?;
    let listed: Listed = serde_json::from_str(&text)
        .with_context(|| format!("'{}' is not a manifest of a sort", manifest.display()))?;
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let mut files = Vec::new();
    for part in &listed.parts {
        // A manifest names files in its own folder only.
        if Path::new(&part.file).components().count() != 1 || part.file.starts_with('.') {
            bail!("the manifest names '{}', which is not a file beside it", part.file);
        }
        files.push(folder.join(&part.file));
    }
    Ok((files, Some(listed)))
}

fn hex(text: &str) -> Result<u128> {
    u128::from_str_radix(text.trim().trim_start_matches("0x"), 16)
        .with_context(|| format!("'{text}' is not a checksum: hexadecimal digits are wanted"))
}

/// Scans records of any number of files as one sequence.
#[derive(Debug, Default)]
struct Scan {
    records: u64,
    sum: u128,
    duplicates: u64,
    unordered: u64,
    first_unordered: Option<(u64, String)>,
    last: Option<[u8; KEY]>,
}

impl Scan {
    /// Scans one file; returns a fault if it ends inside a record.
    fn file(&mut self, path: &Path) -> Result<Option<String>> {
        let shown = path.display();
        let mut file: Box<dyn Read> = if path == Path::new("-") {
            Box::new(std::io::stdin().lock())
        } else {
            let open = std::fs::File::open(path);
            Box::new(open.with_context(|| format!("'{shown}' cannot be opened"))?)
        };
        let mut buffer = vec![0u8; STRIDE * RECORD];
        let (mut held, mut in_file) = (0, 0u64);
        loop {
            let got = file
                .read(&mut buffer[held..])
                .with_context(|| format!("'{shown}' cannot be read"))?;
            if got == 0 {
                break;
            }
            held += got;
            let whole = held - held % RECORD;
            for record in buffer[..whole].chunks_exact(RECORD) {
                self.record(record, |_| format!("'{shown}', record {in_file}"));
                in_file += 1;
            }
            buffer.copy_within(whole..held, 0);
            held -= whole;
        }
        Ok((held > 0).then(|| format!("'{shown}' ends with {held} bytes of a cut record")))
    }

    fn record(&mut self, record: &[u8], place: impl FnOnce(u64) -> String) {
        let mut key = [0; KEY];
        key.copy_from_slice(&record[..KEY]);
        if let Some(last) = &self.last {
            match key.cmp(last) {
                std::cmp::Ordering::Less => {
                    self.unordered += 1;
                    let number = self.records;
                    self.first_unordered.get_or_insert_with(|| (number, place(number)));
                }
                std::cmp::Ordering::Equal => self.duplicates += 1,
                std::cmp::Ordering::Greater => {}
            }
        }
        self.last = Some(key);
        self.records += 1;
        self.sum = self.sum.wrapping_add(u128::from(crc32fast::hash(record)));
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Records: {}", self.records)?;
        writeln!(f, "Checksum: {}", self.checksum)?;
        writeln!(f, "Duplicate keys: {}", self.duplicate_keys)?;
        for fault in &self.faults {
            writeln!(f, "ERROR - {fault}")?;
        }
        if self.valid {
            writeln!(f, "SUCCESS - all records are in order")?;
        }
        write!(f, "verified: {}", if self.valid { "yes" } else { "no" })
    }
}

#[cfg(test)]
#[path = "valsort_tests.rs"]
mod tests;
