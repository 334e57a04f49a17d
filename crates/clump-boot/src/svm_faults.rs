//! The way in which shared virtual memory learns of accesses, as users choose it.

use serde::{Deserialize, Serialize};

/// A choice of access control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SvmFaults {
    /// The best that the kernel permits.
    #[default]
    Auto,
    /// Protection of ranges, and signals: everywhere.
    Protect,
    /// Faults of single pages (userfaultfd), as signals.
    Userfault,
    /// Faults of single pages, and stores found by scans at releases (Linux 6.7).
    Scan,
    /// Faults of single pages, and stores found by scans of the rank alone, none of its interface.
    #[serde(rename = "scan-own")]
    ScanOwn,
}

impl SvmFaults {
    /// All, by number.
    pub const ALL: [Self; 5] =
        [Self::Auto, Self::Protect, Self::Userfault, Self::Scan, Self::ScanOwn];
    /// Their names.
    pub const NAMES: [&str; 5] = ["auto", "protect", "userfault", "scan", "scan-own"];

    /// Returns its name as users write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
