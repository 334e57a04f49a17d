//! The parameters of this machine's paths, as `clump lab calibrate` has saved them, and the knobs
//! that are set beside them.

use crate::config::Config;
use crate::error::{Error, Result};
use clump_loggp::{BaseParameters, KnobTable};
use clump_os::text_file;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Number of the file's format.
pub const FORMAT: u32 = 1;
/// Most bytes of a file.
const MAX_BYTES: u64 = 1 << 20;

/// The file of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFile {
    /// Number of the format.
    pub format: u32,
    /// The processor, as the kernel names it.
    pub processor: String,
    /// Parameters of messages within a node.
    pub shm: BaseParameters,
    /// Parameters of messages between nodes.
    pub net: BaseParameters,
}

impl MachineFile {
    /// Reads a file; one that is not there is a machine of which nothing is known.
    ///
    /// # Errors
    /// The file cannot be read, or is of another format.
    pub fn read(path: &Path) -> Result<Self> {
        let bad = |why: String| Error::BadMachine { path: path.display().to_string(), why };
        let text = match text_file::read(path, MAX_BYTES) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(bad(e.to_string())),
        };
        let file: Self = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if file.format != FORMAT {
            return Err(bad(format!("its format is {}, this build knows {FORMAT}", file.format)));
        }
        Ok(file)
    }

    /// Writes the file, and the folder that it is to lie in.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bad = |why: String| Error::BadMachine { path: path.display().to_string(), why };
        let text = serde_json::to_string_pretty(self).map_err(|e| bad(e.to_string()))?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| bad(e.to_string()))?;
        }
        std::fs::write(path, text + "\n").map_err(|e| bad(e.to_string()))
    }
}

/// Reads knobs, beside the parameters of this machine.
///
/// # Errors
/// The text names no knobs, or the file of the machine cannot be read.
pub fn knobs(config: &Config, origin: &str, text: &str) -> Result<KnobTable> {
    if text.is_empty() {
        return Ok(KnobTable::default());
    }
    let machine = config
        .machine_file()
        .map_or(Ok(MachineFile::default()), |path| MachineFile::read(&path))?;
    KnobTable::parse(text, &[machine.shm, machine.net])
        .map_err(|why| Error::BadKnobs { origin: origin.into(), why })
}

impl Config {
    /// Returns the knobs that the settings turn.
    ///
    /// # Errors
    /// Fails as [`knobs`] does.
    pub fn knobs(&self) -> Result<KnobTable> {
        knobs(self, "the setting emu (CLUMP_EMU)", self.emu())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back_and_a_damaged_one_is_named() {
        let path = std::env::temp_dir().join(format!("clump-machine-{}.json", std::process::id()));
        let base = BaseParameters { g_ns: Some(60.0), ..BaseParameters::default() };
        let (format, processor) = (FORMAT, "a processor".to_owned());
        let file = MachineFile { format, processor, shm: base, ..MachineFile::default() };
        file.write(&path).unwrap();
        assert_eq!(MachineFile::read(&path).unwrap(), file);
        std::fs::write(&path, "{\"format\": 99").unwrap();
        let error = MachineFile::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("clump-machine-") && error.contains("clump lab calibrate"),
            "{error}"
        );
        std::fs::remove_file(&path).unwrap();
        assert_eq!(MachineFile::read(&path).unwrap(), MachineFile::default());
    }
}
