//! The distance of the processors while a job was traced, in a file of its folder of traces.

use anyhow::{Context, Result};
use clump_os::text_file;
use clump_trace::line_state::LineTimes;
use std::path::Path;

/// Name of the file.
pub const FILE: &str = "lines.json";
/// Most bytes of the file that are read.
const MAX_BYTES: u64 = 1 << 10;

/// Writes the round trips into a folder of traces.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn save(lines: &LineTimes, folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    let named = || format!("writing {}", path.display());
    std::fs::write(&path, serde_json::to_string(lines)? + "\n").with_context(named)
}

/// Reads those of a folder of traces; `None` where there are none.
pub fn of_folder(folder: &Path) -> Option<LineTimes> {
    let text = text_file::read(&folder.join(FILE), MAX_BYTES).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_traces_has_those_of_its_run() {
        let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "lines").unwrap();
        assert_eq!(of_folder(folder.path()), None);
        let times = LineTimes { before_ns: 95.5, after_ns: 480.0 };
        save(&times, folder.path()).unwrap();
        assert_eq!(of_folder(folder.path()), Some(times));
        assert!(save(&times, Path::new("/no/such/folder")).is_err());
    }
}
