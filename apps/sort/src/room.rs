//! Checks of a sort's folders and disk space before it starts.

use crate::output::shown;
use anyhow::{Result, bail};
use clump_app_frame::size::show_bytes;
use clump_os::OsError;
use clump_os::file::{device_of, free_bytes, is_full};
use std::path::{Path, PathBuf};

/// Bytes that file systems take beside the data: inodes, extents, the manifest.
const SLACK: u64 = 1 << 20;

/// Refuses to sort into the folder of an input, where `--force` would remove the input.
///
/// # Errors
/// Fails if an input is in the output folder.
pub fn keep_apart(inputs: &[PathBuf], output: &Path) -> Result<()> {
    let Ok(output) = output.canonicalize() else { return Ok(()) };
    for input in inputs {
        let parent = input.canonicalize().ok().and_then(|i| i.parent().map(Path::to_path_buf));
        if parent.as_deref() == Some(&output) {
            bail!("the input {} is in the output folder: name another --output", shown(input));
        }
    }
    Ok(())
}

/// Checks that `bytes` of output, and as much of runs if there are any, fit on their disks.
///
/// # Errors
/// Fails if a disk has too little room or cannot be queried.
pub fn check(output: &Path, scratch: &Path, bytes: u64, two_pass: bool) -> Result<()> {
    let runs = if two_pass { bytes } else { 0 };
    if runs > 0 && device_of(output)? != device_of(scratch)? {
        one_disk(output, bytes, "the sorted output")?;
        one_disk(scratch, runs, "the runs of the first pass")
    } else {
        let what = if runs > 0 { "runs and sorted output" } else { "the sorted output" };
        one_disk(output, bytes + runs, what)
    }
}

/// Checks that the `bytes` of a stream so far can be sorted to `output`, so that a stream without
/// an end does not fill the disk.
///
/// # Errors
/// Fails if there is less room than that.
pub fn check_stream(name: &str, output: &Path, bytes: u64) -> Result<()> {
    let free = free_bytes(output)?;
    if free < bytes + SLACK {
        bail!(
            "{name} has not ended after {}, and the disk of {} has {} free, too little for the sorted \
             output: does it end at all? Free some room, or name a folder on another disk with --output \
             or --scratch",
            show_bytes(bytes),
            shown(output),
            show_bytes(free)
        );
    }
    Ok(())
}

/// Adds a remedy to `error` if a disk filled up after [`check`] had found room.
pub fn explain(error: anyhow::Error) -> anyhow::Error {
    let full = error.chain().any(|e| e.downcast_ref::<OsError>().is_some_and(is_full));
    if full {
        error.context(
            "the disk filled up during the sort, perhaps by others: free some room, or name a folder on \
             another disk with --output or --scratch; no output was left",
        )
    } else {
        error
    }
}

/// Checks that `bytes` of `what` fit on the disk of `folder`.
///
/// # Errors
/// Fails if they do not, or if the disk cannot be queried.
pub fn one_disk(folder: &Path, bytes: u64, what: &str) -> Result<()> {
    let free = free_bytes(folder)?;
    if free < bytes + SLACK {
        bail!(
            "the disk of {} has {} free, and {what} take {}: free some room, or name a folder on another \
             disk with --output or --scratch",
            shown(folder),
            show_bytes(free),
            show_bytes(bytes + SLACK)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::file::DiskFile;

    #[test]
    fn a_disk_too_small_is_refused_before_anything_is_written() {
        let dir = crate::test_dir("room");
        check(&dir, &dir, 1000, true).unwrap();
        let told = check(&dir, &dir, 1 << 60, true).unwrap_err().to_string();
        assert!(told.contains("free some room"), "{told}");
        check_stream("a pipe", &dir, 1000).unwrap();
        let told = check_stream("a pipe", &dir, 1 << 60).unwrap_err().to_string();
        assert!(told.contains("a pipe has not ended"), "{told}");
        // /dev/full is a disk that is always full.
        let full = DiskFile::open_existing(Path::new("/dev/full")).unwrap();
        let told = explain(full.write_at(b"x", 0).unwrap_err().into());
        assert!(
            format!("{told:#}").contains("filled up") && format!("{told:#}").contains("/dev/full")
        );
        std::fs::write(dir.join("in"), b"").unwrap();
        assert!(keep_apart(&[dir.join("in")], &dir).is_err());
        assert!(keep_apart(&[dir.join("in")], &dir.join("elsewhere")).is_ok());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
