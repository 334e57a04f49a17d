//! The parameters of this machine's paths, as `clump lab calibrate` has saved them, and the knobs
//! that are set beside them.

use crate::config::Config;
use crate::error::{Error, Result};
use clump_loggp::{BaseParameters, KnobTable};
use clump_os::text_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    /// The measurement of them; `None` in files of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// The circumstances and the precision of a calibration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The day in UTC, as in 2026-11-28.
    pub date: String,
    /// Processors that other programs kept busy before it, or after it if these are more.
    pub load: f64,
    /// Within a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm: Option<PathPrecision>,
    /// Between nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net: Option<PathPrecision>,
}

/// The precision of the parameters of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathPrecision {
    /// Round trip of the least that any message must do, of a cache line or of a datagram, in ns:
    /// one machine's parameters grow with it.
    pub line_ns: f64,
    /// Intervals that cover 95 % by the name of the parameter, in ns, G in ns a byte.
    pub intervals: BTreeMap<String, (f64, f64)>,
}

/// Returns the day of a time in seconds since 1970, as in 2026-11-28 (Hinnant's algorithm).
pub fn day_of(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

impl MachineFile {
    /// Returns a sentence that says what values of knobs are set beside, and how well it is known.
    pub fn basis(&self, path: &Path) -> String {
        if self.processor.is_empty() {
            return format!(
                "knobs with a plus are added to what the paths take, g and G to nothing: there is no \
                 calibration in {} (clump lab calibrate)",
                path.display()
            );
        }
        let how = match &self.calibration {
            Some(how) => format!("{}, {:.1} processors busy with other work", how.date, how.load),
            None => "at an unknown time and load".into(),
        };
        let paths = in_words(&[self.shm, self.net]);
        format!("knobs are set beside {} (calibrated {how}): {paths}", path.display())
    }

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

/// Returns parameters within a node and between nodes in words.
pub(crate) fn in_words([shm, net]: &[BaseParameters; 2]) -> String {
    let of = |(name, base): (&str, &BaseParameters)| {
        let us = |ns: Option<f64>| ns.map_or("-".into(), |ns| format!("{:.3} us", ns / 1e3));
        let big_g = base.big_g_ns_per_byte.map_or("-".into(), |g| format!("{g:.3} ns/B"));
        let (o_s, o_r) = (us(base.o_s_ns), us(base.o_r_ns));
        format!("{name} o {o_s} and {o_r}, g {}, L {}, G {big_g}", us(base.g_ns), us(base.l_ns))
    };
    [("shm", shm), ("net", net)].map(of).join("; ")
}

/// Returns a sentence that says what values of knobs are set beside.
///
/// # Errors
/// The file of the machine cannot be read.
pub fn basis(config: &Config) -> Result<String> {
    let path = config.machine_file().unwrap_or_default();
    Ok(MachineFile::read(&path)?.basis(&path))
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
    fn a_file_says_what_knobs_are_set_beside_and_when_that_was_measured() {
        let net = BaseParameters { l_ns: Some(-300.0), g_ns: Some(640.0), ..Default::default() };
        let mut file = MachineFile { processor: "p".into(), net, ..MachineFile::default() };
        let path = Path::new("/m.json");
        assert!(file.basis(path).contains("beside /m.json (calibrated at an unknown time"));
        file.calibration =
            Some(Calibration { date: day_of(1_795_867_200), load: 0.04, ..Calibration::default() });
        let said = file.basis(path);
        assert!(said.contains("2026-11-28, 0.0 processors busy"), "{said}");
        assert!(said.contains("net o - and -, g 0.640 us, L -0.300 us, G -"), "{said}");
        assert!(MachineFile::default().basis(path).contains("no calibration in /m.json"));
        assert_eq!(
            [0, 951_782_400, 4_107_542_400].map(day_of),
            ["1970-01-01", "2000-02-29", "2100-03-01"]
        );
    }

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
