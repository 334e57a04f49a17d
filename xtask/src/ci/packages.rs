//! The step that makes the packages and tries them in root folders that hold nothing else.

use super::step::{BUILD, RUN, Site, StepOutcome, files, outcome, plain};
use crate::command::{self, cargo};
use crate::{dist, host};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tries one package: `sh -ec SCRIPT sh KIND PACKAGE FOLDER EXAMPLES`.
const SCRIPT: &str = include_str!("packages.sh");

/// Makes packages for cargo, the tarball and the Debian package; tries the latter two.
///
/// # Errors
/// Fails if a program cannot be started or a folder cannot be made.
pub fn tried(site: &Site) -> Result<StepOutcome> {
    let mut package = cargo(&site.root, &["package", "--no-verify", "--allow-dirty", "--quiet"]);
    package.args(public(&site.root)?.iter().flat_map(|name| ["--package", name]));
    let crates = command::run(&mut package, BUILD)?;
    if !crates.success {
        return Ok(outcome(crates));
    }
    let missing: Vec<&str> = ["unshare", "chroot", "tar", "cc"]
        .into_iter()
        .filter(|name| host::program(name).is_none())
        .collect();
    if !missing.is_empty() {
        let why = format!("no {}; install util-linux, coreutils, tar, gcc", missing.join(", "));
        return Ok(StepOutcome::Skipped(why));
    }
    let folder = site.scratch()?.join("packages");
    let done = in_folder(site, &folder);
    fs::remove_dir_all(&folder).ok();
    done
}

/// Returns the names of the crates that others may use: those below `crates/` and `apps/`.
fn public(root: &Path) -> Result<Vec<String>> {
    let folders = [root.join("crates"), root.join("apps")];
    let manifests = folders.iter().flat_map(|folder| files(folder, "", ""));
    let name = |folder: PathBuf| {
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
        let manifest: toml::Table = toml::from_str(&text)?;
        let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
        Ok(name.context("a crate has a name")?.to_owned())
    };
    manifests.map(name).collect()
}

fn in_folder(site: &Site, folder: &Path) -> Result<StepOutcome> {
    let made = dist::make(&site.root, &folder.join("made"), "release")?;
    let debian = match &made.debian {
        Ok(package) => Some(("debian", package)),
        Err(why) => {
            println!("SKIPPED the Debian package: {why}");
            None
        }
    };
    for (kind, package) in [("tarball", &made.tarball)].into_iter().chain(debian) {
        let mut shell = Command::new("sh");
        shell.args(["-ec", SCRIPT, "sh", kind]).arg(package).arg(folder.join(kind));
        shell.arg(site.root.join("crates/clump-capi/examples/c"));
        let ended = command::run(&mut shell, RUN)?;
        if !ended.success {
            return Ok(plain(false, &format!("{kind}: {}", ended.why)));
        }
    }
    Ok(plain(true, ""))
}
