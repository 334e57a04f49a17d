//! Attacks by output paths that cannot be written: found out before any rank starts, and named.

use super::errand::Errand;
use super::job::{Job, Promise};
use super::place::{AttackPlace, Folder};
use anyhow::{Context, Result};
use clump_test_tier::Sampler;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A user without processes.
const USER: &str = "100098";

/// The kind of place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A new name in a folder.
    Good,
    /// A name in a folder that does not exist.
    NoFolder,
    /// A name below a file.
    BelowFile,
    /// A file where a folder is wanted, or a folder where a file is.
    Other,
    /// A name in a folder that this user may not write.
    ReadOnly,
    /// A name that is too long.
    TooLong,
}

const TARGETS: &[Target] = &[
    Target::Good,
    Target::NoFolder,
    Target::BelowFile,
    Target::Other,
    Target::ReadOnly,
    Target::TooLong,
];
/// Options that name an output, and true for those that name a folder.
const OPTIONS: &[(&str, bool)] = &[("--profile", false), ("--output", true), ("--trace", true)];

/// Draws a job.
///
/// # Errors
/// Fails if the folder or a file cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let target = sampler.one_of(TARGETS);
    let (option, is_folder) = sampler.one_of(OPTIONS);
    let ranks = 1 + sampler.below(3);
    let mut job = Errand::of(&format!("run -n {ranks} {option}")).job(place)?;
    let path = make(target, is_folder, &job.folder)?;
    job.command.push(path.into());
    let started = job.folder.work().join("started");
    job.command.push(place.program("prog").into());
    job.command.extend(["talk", "1"].map(Into::into));
    // Folders are made with those above them.
    let makes = is_folder && target == Target::NoFolder;
    if target == Target::Good || makes {
        return Ok(job);
    }
    // A program that leaves a mark when a rank starts.
    job.command.truncate(job.command.len() - 3);
    job.command.extend(["sh", "-c", "echo 1 > \"$0\""].map(Into::into));
    job.command.push(started.clone().into());
    job.promise = Promise::exactly(&[1, 2, 125]);
    job.promise.words.push(option.to_owned());
    job.promise.words.push("target".to_owned());
    job.promise.never.push(started);
    if target == Target::ReadOnly && rustix::process::geteuid().is_root() {
        job.condition("--user", USER);
    }
    Ok(job)
}

/// Makes what lies at the path, and returns it. Each has the word `target` in it.
fn make(target: Target, is_folder: bool, folder: &Folder) -> Result<PathBuf> {
    let base = folder.work().join("target");
    let file = || fs::write(&base, "file\n").with_context(|| base.display().to_string());
    let made = || fs::create_dir(&base).with_context(|| base.display().to_string());
    Ok(match target {
        Target::Good => base,
        Target::NoFolder => base.join("missing").join("output"),
        Target::BelowFile => {
            file()?;
            base.join("output")
        }
        Target::Other => {
            if is_folder {
                file()?;
            } else {
                made()?;
            }
            base
        }
        Target::ReadOnly => {
            made()?;
            fs::set_permissions(&base, fs::Permissions::from_mode(0o555))?;
            base.join("output")
        }
        Target::TooLong => base.join("x".repeat(300)),
    })
}
