//! The machine in whose virtual time a job was traced, in a file of its folder of traces.

use anyhow::{Context, Error, Result};
use clump_boot::virtual_machine::VirtualMachine;
use clump_os::text_file;
use clump_virtual::Machine;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file.
pub const FILE: &str = "machine.json";
/// Most bytes of the file that are read.
const MAX_BYTES: u64 = 1 << 21;

/// A machine of virtual time, and the knobs that made it slower.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedMachine {
    /// The machine.
    pub machine: VirtualMachine,
    /// The knobs, as text.
    pub knobs: String,
}

impl TracedMachine {
    /// Returns what messages cost on it.
    ///
    /// # Errors
    /// Fails if its file describes no machine.
    pub fn slowed(&self) -> Result<Machine> {
        self.machine.slowed(&self.knobs).map_err(Error::msg)
    }

    /// Writes it into a folder of traces.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let named = || format!("writing {}", path.display());
        std::fs::write(&path, serde_json::to_string(self)? + "\n").with_context(named)
    }

    /// Reads that of a folder of traces; `None` where the job ran in real time.
    ///
    /// # Errors
    /// Fails if there is a file that names no machine.
    pub fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let named = || format!("the machine of the traces, {}", path.display());
        let text = text_file::read(&path, MAX_BYTES).with_context(named)?;
        serde_json::from_str(&text).with_context(named).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_traces_has_the_machine_of_its_run() {
        let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "machine").unwrap();
        assert_eq!(TracedMachine::of_folder(folder.path()).unwrap(), None);
        let machine = VirtualMachine::find("now1997").unwrap();
        let traced = TracedMachine { machine, knobs: "g=+10us".into() };
        traced.save(folder.path()).unwrap();
        let gap_ns = traced.slowed().unwrap().network.gap_ns;
        assert_eq!(gap_ns, 15_800, "the machine's 5.8 us and the knob");
        assert_eq!(TracedMachine::of_folder(folder.path()).unwrap(), Some(traced));
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        let error = format!("{:#}", TracedMachine::of_folder(folder.path()).unwrap_err());
        assert!(error.contains(FILE) && error.contains("machine"), "{error}");
    }
}
