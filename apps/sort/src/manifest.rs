//! The manifest: the files of a sorted output, in order. Written last, by rank 0, so that an
//! output with a manifest is complete.

use crate::output::{MANIFEST, publish_bytes, shown};
use anyhow::{Context, Result, bail};
use clump_os::text_file;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the manifest in the output folder.
pub const NAME: &str = MANIFEST;
/// Value of [`Manifest::format`].
pub const FORMAT: &str = "clump-sort-1";
/// Most bytes of a manifest.
const MAX_BYTES: u64 = 1 << 30;

/// One sorted file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPart {
    /// Name in the folder of the manifest.
    pub file: String,
    /// Records in it.
    pub records: u64,
    /// First key, as 20 hexadecimal digits; empty where there are no records.
    pub first_key: String,
    /// Last key.
    pub last_key: String,
}

/// A sorted output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Bytes of a key, the first of the record.
    pub key_bytes: usize,
    /// Records in all.
    pub records: u64,
    /// Sum of the CRC-32s of the input's records, in hexadecimal.
    pub checksum: String,
    /// The files, in order of their keys.
    pub parts: Vec<ManifestPart>,
}

impl Manifest {
    /// Reads and checks the manifest at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is no manifest of this format.
    pub fn read(path: &Path) -> Result<Self> {
        let text = text_file::read(path, MAX_BYTES)
            .with_context(|| format!("the manifest {} cannot be read", shown(path)))?;
        let manifest: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a manifest of a sort", shown(path)))?;
        if manifest.format != FORMAT {
            bail!("{} has the format '{}', not '{FORMAT}'", shown(path), manifest.format);
        }
        Ok(manifest)
    }

    /// Writes the manifest into `folder`, atomically and durably.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn publish(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("writing the manifest as JSON")?;
        publish_bytes(folder, NAME, (text + "\n").as_bytes())
    }
}
