//! Checks of the paths that a sort's options name, before any rank runs: nothing is read, made or
//! changed. Ranks check again what they open themselves.

use crate::command::SortArgs;
use crate::intake::check_input;
use crate::output::{keep_older, partial_name, shown};
use crate::room::keep_apart;
use anyhow::{Context, Result, anyhow};
use clump_os::file::{DiskFile, check_writable};
use std::path::Path;

/// Checks every path of `args` on this machine.
///
/// # Errors
/// Fails with the option, the path and the reason, if an input cannot be read, if a folder cannot
/// be made or written, or if the output would replace an older one without `--force`.
pub fn check(args: &SortArgs) -> Result<()> {
    for path in &args.input {
        check_input(path).context("--input")?;
    }
    if let Some(output) = &args.output {
        check_folder(output).context("--output")?;
        if output.is_dir() {
            keep_older(output, args.force).context("--output")?;
            keep_apart(&args.input, output).context("--input")?;
        }
    }
    match &args.scratch {
        Some(scratch) => check_folder(scratch).context("--scratch"),
        None => Ok(()),
    }
}

/// Checks that files can be made in a folder or, if there is none yet, that it can be made.
fn check_folder(folder: &Path) -> Result<()> {
    if folder.as_os_str().is_empty() {
        return Err(anyhow!("'' is no name of a folder"));
    }
    // A link that leads nowhere is there, and is no folder.
    let there = |at: &&Path| at.symlink_metadata().is_ok();
    let nearest = folder.ancestors().find(there).unwrap_or(Path::new("."));
    if !nearest.is_dir() {
        return Err(match nearest == folder {
            true => anyhow!("{} is a file: name a folder", shown(folder)),
            false => anyhow!("{} cannot be made: {} is a file", shown(folder), shown(nearest)),
        });
    }
    let written = match DiskFile::unnamed(nearest, false) {
        Ok(Some(_)) => Ok(()),
        // This file system has no unnamed files.
        Ok(None) => check_writable(&nearest.join(partial_name("runs-check"))),
        Err(error) => Err(error.io()),
    };
    written.with_context(|| match nearest == folder {
        true => format!("the folder {} cannot be written", shown(folder)),
        false => format!("the folder {} cannot be made in {}", shown(folder), shown(nearest)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_checked_and_none_is_made() {
        let dir = crate::test_dir("paths");
        std::fs::write(dir.join("file"), b"kept").unwrap();
        std::os::unix::fs::symlink(dir.join("nowhere"), dir.join("link")).unwrap();
        check_folder(&dir).unwrap();
        check_folder(&dir.join("new/deep")).unwrap();
        check_folder(Path::new("new-in-this-one")).unwrap();
        for (path, why) in [
            (dir.join("file"), "name a folder"),
            (dir.join("file/below"), "file' is a file"),
            (dir.join("link/below"), "link' is"),
            ("/proc/self/new".into(), "cannot be made in '/proc/self'"),
            ("".into(), "no name"),
        ] {
            let told = format!("{:#}", check_folder(&path).unwrap_err());
            assert!(told.contains(why) && told.contains(&*path.to_string_lossy()), "{told}");
        }
        let left: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
