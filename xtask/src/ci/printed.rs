//! The step that runs the command lines that pages print.

use super::step::{BUILD, RUN, Site, StepOutcome, plain};
use crate::command::{self, cargo};
use crate::install::Installation;
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

/// Installs into a fresh folder, builds what readers have built by then, and runs the lines.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn commands(site: &Site) -> Result<StepOutcome> {
    let prefix = site.scratch()?.join("printed");
    let done = installed(site, &prefix);
    fs::remove_dir_all(&prefix).ok();
    done
}

fn installed(site: &Site, prefix: &std::path::Path) -> Result<StepOutcome> {
    fs::create_dir_all(prefix).with_context(|| prefix.display().to_string())?;
    Installation { root: &site.root, prefix: prefix.to_owned(), profile: "release" }.install()?;
    for args in [["clump", "--examples"], ["clump-docs-tests", "--bins"]] {
        let args = [&["build", "--release", "--package"], args.as_slice()].concat();
        let built = command::run(&mut cargo(&site.root, &args), BUILD)?;
        if !built.success {
            return Ok(plain(false, &built.why));
        }
    }
    let mut run = Command::new(site.target.join("release/printed-commands"));
    run.arg(prefix).arg(&site.target).current_dir(&site.root).env("TMPDIR", site.scratch()?);
    let ended = command::run(&mut run, RUN * 3)?;
    Ok(plain(ended.success, &ended.why))
}
