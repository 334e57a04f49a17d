//! An entry of a translation table.

use crate::endpoint_name::en_t;
use clump_am::Dest;

/// Initial number of entries of a table.
pub(crate) const FIRST_ENTRIES: usize = 256;
/// A mapped destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TranslationEntry {
    pub(crate) name: en_t,
    pub(crate) tag: u64,
    /// Index in the core's own table, since the first message: handlers cannot access that table.
    pub(crate) dest: Option<Dest>,
}
