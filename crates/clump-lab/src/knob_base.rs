//! The calibration beside which the knobs of a sweep are set.

use anyhow::Result;
use clump_boot::machine::MachineFile;
use clump_boot::{Config, Error};
use clump_loggp::{BaseParameters, KnobTable};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Parameters of this machine's paths, and the file that has them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KnobBase {
    /// The file.
    pub file: PathBuf,
    /// Parameters within a node, and between nodes.
    pub paths: [BaseParameters; 2],
    /// A sentence that says what values of knobs are set beside.
    pub basis: String,
}

impl KnobBase {
    /// Reads the calibration in `file`; `None`: in the machine's own file.
    ///
    /// # Errors
    /// The file cannot be read, or is of another format.
    pub fn read(file: Option<&Path>) -> Result<Self> {
        let file = match file {
            Some(file) => std::path::absolute(file)?,
            None => Config::load()?.machine_file().unwrap_or_default(),
        };
        let machine = MachineFile::read(&file)?;
        let basis = machine.basis(&file);
        debug_assert!(basis.contains(&*file.to_string_lossy()), "it names the file");
        Ok(Self { file, paths: [machine.shm, machine.net], basis })
    }

    /// Reads knobs.
    ///
    /// # Errors
    /// The text names no knobs.
    pub fn knobs(&self, text: &str) -> Result<KnobTable> {
        let named = |why| Error::BadKnobs { origin: "--knob".into(), why };
        Ok(KnobTable::parse(text, &self.paths).map_err(named)?)
    }

    /// Returns true if these settings mean beside `other` what they mean beside this.
    pub fn agrees(&self, other: &Self, settings: &[String]) -> bool {
        let mean = |base: &Self| {
            let tables = settings.iter().map(|text| KnobTable::parse(text, &base.paths).ok());
            tables.collect::<Vec<_>>()
        };
        debug_assert!(!settings.is_empty(), "the first is that of no knob");
        mean(self) == mean(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_agree_where_they_turn_knobs_to_the_same_values() {
        let gap = |g_ns: f64| BaseParameters { g_ns: Some(g_ns), ..BaseParameters::default() };
        let of = |g_ns: f64| KnobBase { paths: [gap(g_ns); 2], ..KnobBase::default() };
        let settings = |text: &str| [String::new(), text.to_owned()];
        assert!(of(600.0).agrees(&of(600.000_000_1), &settings("g=+5us")));
        assert!(!of(600.0).agrees(&of(900.0), &settings("g=+5us")), "{:?}", of(600.0));
        assert!(of(600.0).agrees(&of(900.0), &settings("L=+5us")), "of another knob");
    }
}
