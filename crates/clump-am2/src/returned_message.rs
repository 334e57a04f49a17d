//! A message returned to sender.

use clump_am::Name;
use std::ffi::c_int;

/// A message returned to sender, as handler 0 may query it.
#[derive(Debug)]
pub(crate) struct ReturnedMessage<'a> {
    pub(crate) status: c_int,
    pub(crate) opcode: c_int,
    pub(crate) handler: u8,
    pub(crate) words: &'a [u64],
    pub(crate) payload: &'a [u8],
    /// Offset and bytes of a deposit.
    pub(crate) deposit: Option<(u64, u64)>,
    pub(crate) to: Name,
}
