//! Measurements with a temporary folder, which ends with them, also by a signal.

use anyhow::Result;
use clump_os::scratch::Scratch;
use clump_os::{console, signal};
use std::path::Path;

/// Measures with a temporary folder. Returns the exit code: 0, or 128 and the signal that came
/// meanwhile.
///
/// # Errors
/// Fails if there is no room for the folder, or as `measure` does.
pub fn in_scratch(name: &str, measure: impl FnOnce(&Path) -> Result<()>) -> Result<u8> {
    let folder = Scratch::new(&std::env::temp_dir(), name)?;
    let done = measure(folder.path());
    match folder.interrupted() {
        // Any failure is due to the signal.
        Some(signal) => {
            drop(folder);
            let by = signal::name(signal);
            console::err(&format!("clump: the measurement was interrupted ({by})"));
            Ok(128_u8.saturating_add(signal))
        }
        None => done.map(|()| 0),
    }
}
